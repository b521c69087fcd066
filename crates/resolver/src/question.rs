//! What is to be found out: a name, a type, and which variant of the answer the asker may see.
//!
//! Class IN alone. The name is in lower case. Two questions are the same task only if all four agree: an answer fetched
//! with CD set must never serve whoever did not set it, nor one without signatures whoever wants them.

use std::fmt;
use wire::hash::siphash;
use wire::{Name, Rtype, name};

#[derive(Clone, PartialEq, Eq, Hash)]
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
        Question { name: name.fold().bytes().into(), qtype, dnssec_ok, checking_disabled }
    }

    /// In wire form and lower case.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The octets that tell one question from another.
    pub fn spelled<'b>(&self, room: &'b mut [u8; 258]) -> &'b [u8] {
        let len = self.name.len().min(name::NAME_MAX);
        room[..len].copy_from_slice(&self.name[..len]);
        room[len..len + 2].copy_from_slice(&self.qtype.to_be_bytes());
        room[len + 2] = u8::from(self.dnssec_ok) | u8::from(self.checking_disabled) << 1;
        &room[..len + 3]
    }

    /// What packets for this question ask for, `name` being where the chain has come to: variants are alike.
    pub fn asked_hash(&self, key: &[u8; 16], name: &Name) -> u64 {
        siphash::<1, 3>(key, name.fold().bytes()) ^ u64::from(self.qtype).wrapping_mul(0x9E37_79B9_7F4A_7C15)
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

    fn name(text: &str) -> Name {
        Name::from_text(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn a_question_is_spelled_with_all_that_tells_it_from_others() {
        let mut seen = std::collections::HashSet::new();
        for (text, qtype, d, c) in
            [("a.", 1, false, false), ("a.", 28, false, false), ("a.", 1, true, false), ("a.", 1, false, true)]
        {
            assert!(seen.insert(Question::new(&name(text), qtype, d, c).spelled(&mut [0; 258]).to_vec()));
        }
        assert!(!seen.insert(Question::new(&name("A."), 1, false, false).spelled(&mut [0; 258]).to_vec()));
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
