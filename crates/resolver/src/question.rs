//! What is to be found out: a name, a type, and which variant of the answer the asker may see.
//!
//! Class IN alone. The name is in lower case. Two questions are the same task only if all four agree: an answer fetched
//! with CD set must never serve whoever did not set it, nor one without signatures whoever wants them.

use std::fmt;
use wire::{Name, Rtype, name};

/// Odd, so that no two types of a name meet.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Question {
    name: Box<[u8]>,
    pub qtype: Rtype,
    /// DO: signatures and denials are wanted.
    pub dnssec_ok: bool,
    /// CD: what fails validation is wanted too.
    pub checking_disabled: bool,
}

impl Question {
    pub fn new(name: &Name, qtype: Rtype, dnssec_ok: bool, checking_disabled: bool) -> Question {
        Question::of_folded(name.fold().bytes(), qtype, dnssec_ok, checking_disabled)
    }

    /// The same of a name in wire form that is in lower case.
    pub fn of_folded(name: &[u8], qtype: Rtype, dnssec_ok: bool, checking_disabled: bool) -> Question {
        Question { name: name.into(), qtype, dnssec_ok, checking_disabled }
    }

    /// In wire form and lower case.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// By which it is found: `name_hash` is that of its name, under a secret.
    pub fn hash(&self, name_hash: u64) -> u64 {
        let variant = u64::from(self.dnssec_ok) | u64::from(self.checking_disabled) << 1;
        name_hash ^ (u64::from(self.qtype) | variant << 16).wrapping_mul(SPREAD)
    }

    /// What packets for this question ask for, `name_hash` being of where the chain has come to: variants are alike.
    pub fn asked_hash(&self, name_hash: u64) -> u64 {
        name_hash ^ u64::from(self.qtype).wrapping_mul(SPREAD)
    }

    /// The last two labels: what a client's questions are spread over for want of knowing the zones.
    pub fn neighbourhood(&self) -> &[u8] {
        let above = name::label_count(&self.name).saturating_sub(2);
        let skipped: usize = name::labels(&self.name).take(above).map(|l| l.len() + 1).sum();
        self.name.get(skipped..).unwrap_or(&[0])
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        name::push_text(&self.name, &mut text);
        write!(f, "{text} {} do={} cd={}", self.qtype, self.dnssec_ok, self.checking_disabled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn name(text: &str) -> Name {
        Name::from_text(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn variants_are_told_apart_and_ask_for_the_same() {
        let (mut seen, mut asked) = (HashSet::new(), HashSet::new());
        for (name_hash, qtype, d, c) in [
            (7, 1, false, false),
            (7, 28, false, false),
            (7, 1, true, false),
            (7, 1, false, true),
            (7, 1, true, true),
            (8, 1, false, false),
        ] {
            let question = Question::new(&name("a."), qtype, d, c);
            assert!(seen.insert(question.hash(name_hash)));
            asked.insert(question.asked_hash(name_hash));
        }
        assert_eq!(asked.len(), 3, "two types, two names");
    }

    #[test]
    fn a_neighbourhood_is_two_labels() {
        for (text, expect) in
            [("www.a.example.", "a.example."), ("a.example.", "a.example."), ("example.", "example."), (".", ".")]
        {
            let question = Question::new(&name(text), 1, false, false);
            assert_eq!(question.neighbourhood(), name(expect).bytes(), "{text}");
        }
    }
}
