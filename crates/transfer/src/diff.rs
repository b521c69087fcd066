//! What distinguishes two versions of a zone: records that went, records that came, the serial before and after.
//!
//! Invariant: each side is in canonical order without repetition, and no record stands on both. So a difference can be
//! inverted, and two that follow one another are one.

use crate::Record;
use crate::record::{is_newer, next_serial, renumbered, serial_of};
use wire::rtype::SOA;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diff {
    pub from: u32,
    pub to: u32,
    removed: Vec<Record>,
    added: Vec<Record>,
}

impl Diff {
    /// What stands on both sides is on neither.
    pub fn new(from: u32, to: u32, removed: Vec<Record>, added: Vec<Record>) -> Diff {
        let (removed, added) = apart(sorted(removed), sorted(added));
        Diff { from, to, removed, added }
    }

    /// Between two versions whose serials stand in their SOAs; 0 where there is none.
    pub fn between(old: Vec<Record>, new: Vec<Record>) -> Diff {
        let serial = |all: &[Record]| {
            all.iter().find(|r| r.rtype == SOA).and_then(|soa| serial_of(soa.rdata())).unwrap_or_default()
        };
        Diff::new(serial(&old), serial(&new), old, new)
    }

    /// A difference between two versions that have the same SOA, if it has none: both have this serial.
    pub fn at(self, serial: u32) -> Diff {
        let has_soa = self.removed.iter().chain(&self.added).any(|r| r.rtype == SOA);
        if has_soa { self } else { Diff { from: serial, to: serial, ..self } }
    }

    pub fn removed(&self) -> &[Record] {
        &self.removed
    }

    pub fn added(&self) -> &[Record] {
        &self.added
    }

    /// The same behind a version with this SOA, if that is what it replaces but for the serial: under its own serial, if that is newer, or the next one.
    /// False: it is not, or the difference has no SOA; nothing is changed.
    pub fn goes_over(&mut self, soa: &Record) -> bool {
        let is_soa = |r: &&mut Record| r.rtype == SOA;
        let places = (self.removed.iter_mut().find(is_soa), self.added.iter_mut().find(is_soa));
        let (Some(from), (Some(old), Some(new))) = (serial_of(soa.rdata()), places) else { return false };
        let to = if is_newer(self.to, from) { self.to } else { next_serial(from) };
        // There is one SOA on each side, and its place is the same whatever its serial.
        let is_it = renumbered(old.clone(), from) == *soa;
        if is_it {
            (self.from, self.to, *old, *new) = (from, to, soa.clone(), renumbered(new.clone(), to));
        }
        is_it
    }

    /// What it is of some names.
    pub fn part(&self, is_of: &dyn Fn(&[u8]) -> bool) -> Diff {
        let some = |side: &[Record]| side.iter().filter(|r| is_of(r.owner())).cloned().collect();
        Diff { from: self.from, to: self.to, removed: some(&self.removed), added: some(&self.added) }
    }

    /// About what its records take in memory.
    pub fn octets(&self) -> usize {
        self.removed.iter().chain(&self.added).map(Record::octets).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// The way back.
    pub fn inverted(self) -> Diff {
        Diff { from: self.to, to: self.from, removed: self.added, added: self.removed }
    }

    /// Both steps as one. None: the second does not begin where the first ends.
    pub fn then(self, second: Diff) -> Option<Diff> {
        if self.to != second.from {
            return None;
        }
        // A record that went and came again, or came and went again, ends on both sides and so on neither.
        let (mut removed, mut added) = (self.removed, self.added);
        removed.extend(second.removed);
        added.extend(second.added);
        Some(Diff::new(self.from, second.to, removed, added))
    }

    /// Names whose records change, each once, in canonical order.
    pub fn owners(&self) -> Vec<&[u8]> {
        let mut owners: Vec<&Record> = self.removed.iter().chain(&self.added).collect();
        owners.sort_unstable();
        let mut names: Vec<&[u8]> = owners.into_iter().map(Record::owner).collect();
        names.dedup();
        names
    }

    /// As decoding gives it: the invariant is asked for, not made. None: it does not hold.
    pub(crate) fn checked(from: u32, to: u32, removed: Vec<Record>, added: Vec<Record>) -> Option<Diff> {
        let is_ordered = |side: &[Record]| side.is_sorted_by(|a, b| a < b);
        let holds =
            is_ordered(&removed) && is_ordered(&added) && removed.iter().all(|r| added.binary_search(r).is_err());
        holds.then_some(Diff { from, to, removed, added })
    }
}

/// What stands on one of two sides only. Both go side by side: to look each record up in the other one took a third of a comparison of 60,000.
fn apart(left: Vec<Record>, right: Vec<Record>) -> (Vec<Record>, Vec<Record>) {
    let mut found = (Vec::with_capacity(left.len()), Vec::with_capacity(right.len()));
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let Some((l, r)) = left.peek().zip(right.peek()) {
        let order = l.cmp(r);
        let (l, r) = (left.next_if(|_| order.is_le()), right.next_if(|_| order.is_ge()));
        if order.is_ne() {
            found.0.extend(l);
            found.1.extend(r);
        }
    }
    found.0.extend(left);
    found.1.extend(right);
    found
}

fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_unstable();
    records.dedup();
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Contents;
    use proptest::prelude::*;

    pub(crate) fn record(owner: u8, rdata: u8, ttl: u32) -> Record {
        Record::new(&[1, b'a' + owner, 0], 1, ttl, &[192, 0, 2, rdata]).unwrap()
    }

    fn some_records() -> impl Strategy<Value = Vec<Record>> {
        proptest::collection::vec((0..4u8, 0..4u8, 0..2u32).prop_map(|(o, d, t)| record(o, d, t)), 0..20)
    }

    fn contents(records: &[Record]) -> Contents {
        Contents::of(records.iter().cloned())
    }

    proptest! {
        #[test]
        fn two_steps_are_one_and_there_is_a_way_back(a in some_records(), b in some_records(), c in some_records()) {
            let first = Diff::new(1, 2, a.clone(), b.clone());
            let second = Diff::new(2, 3, b.clone(), c.clone());
            let mut zone = contents(&a);
            zone.apply(&first).unwrap();
            prop_assert_eq!(&zone, &contents(&b));
            zone.apply(&second).unwrap();
            prop_assert_eq!(&zone, &contents(&c));
            let both = first.then(second).unwrap();
            prop_assert_eq!(&both, &Diff::new(1, 3, a.clone(), c));
            zone.apply(&both.inverted()).unwrap();
            prop_assert_eq!(zone, contents(&a));
        }
    }

    #[test]
    fn steps_that_do_not_follow_are_not_joined() {
        assert!(Diff::new(1, 2, vec![], vec![]).then(Diff::new(3, 4, vec![], vec![])).is_none());
    }

    #[test]
    fn owners_are_listed_once_in_order() {
        let diff = Diff::new(1, 2, vec![record(2, 1, 1), record(0, 1, 1)], vec![record(2, 2, 1), record(1, 1, 1)]);
        assert_eq!(diff.owners(), [b"\x01a\0", b"\x01b\0", b"\x01c\0"]);
    }
}
