//! A version of a zone as a change needs to see it, and two that are one: all records in memory, and a few changed names
//! over another version.

use crate::{Diff, Record};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use wire::Rtype;
use wire::name::fold;

/// What a version of a zone holds.
pub trait Content {
    /// All records of a name, glue and other occluded records too. Err: they cannot be read.
    fn at(&self, owner: &[u8]) -> Result<Vec<Record>, Unreadable>;
}

/// The version is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

/// A zone's records in canonical order: what old versions are put together in, and the plain model that images and
/// overlays are compared with. Holds as many records as it is given; who fills it bounds it.

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents(BTreeSet<Record>);

impl Content for Contents {
    fn at(&self, owner: &[u8]) -> Result<Vec<Record>, Unreadable> {
        Ok(self.records_at(owner).cloned().collect())
    }
}

/// A difference that is not one of this version: a record to be removed is missing, or one to be added is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch(pub Record);

impl Contents {
    pub fn of(records: impl IntoIterator<Item = Record>) -> Contents {
        Contents(records.into_iter().collect())
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The records of a name, in the order of their types.
    pub fn records_at<'a>(&'a self, owner: &'a [u8]) -> impl Iterator<Item = &'a Record> {
        let first = Record::new(owner, 0, 0, b"");
        let from = first.into_iter().flat_map(|first| self.0.range(first..));
        from.take_while(move |r| r.owner().eq_ignore_ascii_case(owner))
    }

    pub fn rrset<'a>(&'a self, owner: &'a [u8], rtype: Rtype) -> impl Iterator<Item = &'a Record> {
        self.records_at(owner).filter(move |r| r.rtype == rtype)
    }

    /// Goes on to the version that `diff` leads to. Err: nothing was changed.
    pub fn apply(&mut self, diff: &Diff) -> Result<(), Mismatch> {
        let missing = diff.removed().iter().find(|r| !self.0.contains(*r));
        let there = diff.added().iter().find(|r| self.0.contains(*r));
        if let Some(record) = missing.or(there) {
            return Err(Mismatch(record.clone()));
        }
        for record in diff.removed() {
            self.0.remove(record);
        }
        self.0.extend(diff.added().iter().cloned());
        Ok(())
    }
}

impl<C: Content + ?Sized> Content for &C {
    fn at(&self, owner: &[u8]) -> Result<Vec<Record>, Unreadable> {
        (**self).at(owner)
    }
}

/// A version in the making: the records of names that were changed, over a version that stands. Holds what the changes
/// of one group touch, or of as much of the journal as is replayed.
pub struct Layer<C> {
    below: C,
    names: BTreeMap<Box<[u8]>, Vec<Record>>,
}

/// Why a version cannot be gone on from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Misfit {
    Unreadable,
    /// A record to be removed is missing, or one to be added is there.
    Record(Record),
}

impl<C: Content> Content for Layer<C> {
    fn at(&self, owner: &[u8]) -> Result<Vec<Record>, Unreadable> {
        let mut folded: Box<[u8]> = owner.into();
        fold(&mut folded);
        self.names.get(&folded).map_or_else(|| self.below.at(&folded), |records| Ok(records.clone()))
    }
}

impl<C: Content> Layer<C> {
    pub fn over(below: C) -> Layer<C> {
        Layer { below, names: BTreeMap::new() }
    }

    /// The names that were changed, each with all its records from now on.
    pub fn into_names(self) -> BTreeMap<Box<[u8]>, Vec<Record>> {
        self.names
    }

    /// As above, and the version goes on.
    pub fn names(&self) -> impl Iterator<Item = (&[u8], &[Record])> {
        self.names.iter().map(|(owner, records)| (&**owner, &**records))
    }

    /// Goes on as the journal says. Err: it is not this version that `diff` begins at, and nothing was changed.
    pub fn follow(&mut self, diff: &Diff) -> Result<(), Misfit> {
        let is_there = |layer: &Self, r: &Record| layer.at(r.owner()).map(|all| all.contains(r));
        for (records, wanted) in [(diff.removed(), true), (diff.added(), false)] {
            for record in records {
                if is_there(self, record).map_err(|_| Misfit::Unreadable)? != wanted {
                    return Err(Misfit::Record(record.clone()));
                }
            }
        }
        self.apply(diff).map_err(|_| Misfit::Unreadable)
    }

    /// The records of a name, to be changed.
    pub fn at_mut(&mut self, owner: &[u8]) -> Result<&mut Vec<Record>, Unreadable> {
        let mut folded: Box<[u8]> = owner.into();
        fold(&mut folded);
        match self.names.entry(folded) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let records = self.below.at(new.key())?;
                Ok(new.insert(records))
            }
        }
    }

    /// Goes on to the version that `diff` leads to; it was made from this one.
    pub fn apply(&mut self, diff: &Diff) -> Result<(), Unreadable> {
        for record in diff.removed() {
            self.at_mut(record.owner())?.retain(|r| r != record);
        }
        for record in diff.added() {
            self.at_mut(record.owner())?.push(record.clone());
        }
        Ok(())
    }

    /// What was changed: records that went, and records that came. A record that only has other capitals in its names
    /// is the one that was there.
    pub fn changes(&self) -> Result<(Vec<Record>, Vec<Record>), Unreadable> {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for (owner, now) in &self.names {
            let before = self.below.at(owner)?;
            let is_in = |all: &[Record], r: &Record| all.iter().any(|other| other.ttl == r.ttl && other.is_like(r));
            removed.extend(before.iter().filter(|r| !is_in(now, r)).cloned());
            added.extend(now.iter().filter(|r| !is_in(&before, r)).cloned());
        }
        Ok((removed, added))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(owner: &[u8], rtype: Rtype) -> Record {
        Record::new(owner, rtype, 1, b"x").unwrap()
    }

    #[test]
    fn a_name_has_its_own_records_only() {
        let zone = Contents::of([
            record(b"\x01b\x01a\0", 1),
            record(b"\x01a\0", 2),
            record(b"\x01a\0", 1),
            record(b"\x01b\0", 1),
        ]);
        let types = |owner: &[u8]| zone.records_at(owner).map(|r| r.rtype).collect::<Vec<_>>();
        assert_eq!(types(b"\x01A\0"), [1, 2]);
        assert_eq!(types(b"\x01b\0"), [1]);
        assert_eq!(types(b"\x01c\0"), []);
        assert_eq!(zone.rrset(b"\x01a\0", 2).count(), 1);
    }

    #[test]
    fn a_difference_of_another_version_changes_nothing() {
        let old = Contents::of([record(b"\0", 1)]);
        let mut zone = old.clone();
        for diff in [
            Diff::new(1, 2, vec![record(b"\0", 2)], vec![record(b"\0", 3)]),
            Diff::new(1, 2, vec![], vec![record(b"\0", 1)]),
        ] {
            assert!(zone.apply(&diff).is_err());
            assert_eq!(zone, old);
        }
    }
}
