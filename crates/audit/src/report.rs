//! What was found: counts of all, and the first of each rating in words.

use crate::fault::{Fault, Rating};
use wire::Name;
use wire::rtype::Rtype;
use zonefile::rtypes;

/// Findings of one rating that are kept in words, and the first of each fault beyond; the rest are counted only.
const KEPT_MAX: u64 = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub fault: Fault,
    /// Wire form, lower case.
    pub owner: Box<[u8]>,
    /// That of the record at fault; none: the name as a whole, or what is not there.
    pub rtype: Option<Rtype>,
    /// May be empty.
    pub detail: String,
}

impl Finding {
    /// In words, beginning with where.
    pub fn text(&self) -> String {
        let mut text = Name::from_wire(&self.owner).unwrap_or(Name::ROOT).to_string();
        if let Some(rtype) = self.rtype {
            text.push(' ');
            rtypes::push_mnemonic(rtype, &mut text);
        }
        text.push_str(": ");
        text.push_str(self.fault.what());
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// How many different ones the zone has.
    pub records: u64,
    /// By rating, all of them.
    counts: [u64; 3],
    /// A bit for each fault that was found.
    faults: u64,
}

const _: () = assert!(Fault::ALL.len() <= 64);

impl Report {
    pub fn count(&self, rating: Rating) -> u64 {
        self.counts[rating as usize]
    }

    pub fn is_empty(&self) -> bool {
        self.counts == [0; 3]
    }

    /// Why the zone is not to be served.
    pub fn refusal(&self) -> Option<String> {
        self.findings.iter().find(|f| f.fault.rating() == Rating::Fatal).map(Finding::text)
    }

    /// `detail` is only asked for if the finding is kept.
    pub(crate) fn add(&mut self, fault: Fault, owner: &[u8], rtype: Option<Rtype>, detail: impl FnOnce() -> String) {
        let count = &mut self.counts[fault.rating() as usize];
        *count += 1;
        let is_first = self.faults & 1 << fault as u64 == 0;
        self.faults |= 1 << fault as u64;
        if *count <= KEPT_MAX || is_first {
            self.findings.push(Finding { fault, owner: owner.into(), rtype, detail: detail() });
        }
    }
}

/// A name in presentation form.
pub(crate) fn text(name: &[u8]) -> String {
    let mut text = String::new();
    wire::name::push_text(name, &mut text);
    text
}
