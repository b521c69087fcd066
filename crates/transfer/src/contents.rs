//! A version of a zone as a change needs to see it, and two that are one: all records in memory, and a few changed names
//! over another version.

use crate::record::Bare;
use crate::{Diff, Record};
use image::edit::Names;
use std::collections::BTreeSet;
use wire::Rtype;

/// What a version of a zone holds.
pub trait Content {
    /// All records of a name in lower case, glue and other occluded records too. Err: they cannot be read.
    fn bare(&self, owner: &[u8]) -> Result<Vec<Bare>, Unreadable>;

    /// The same with their owner.
    fn at(&self, owner: &[u8]) -> Result<Vec<Record>, Unreadable> {
        let whole = |bare| Record::of(owner, bare).ok_or(Unreadable);
        self.bare(owner)?.into_iter().map(whole).collect()
    }
}

/// The version is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

/// A zone's records in canonical order: all of a version in memory, and the plain model that tests compare images and overlays with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents(BTreeSet<Record>);

impl Content for Contents {
    fn bare(&self, owner: &[u8]) -> Result<Vec<Bare>, Unreadable> {
        Ok(self.records_at(owner).map(Record::bare).collect())
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
    fn bare(&self, owner: &[u8]) -> Result<Vec<Bare>, Unreadable> {
        (**self).bare(owner)
    }
}

/// A version in the making: the records of names that were changed, over a version that stands. Holds what the changes
/// of one group touch, or of as much of the journal as is replayed.
pub struct Layer<C> {
    below: C,
    names: Names,
}

/// Why a version cannot be gone on from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Misfit {
    Unreadable,
    /// A record to be removed is missing, or one to be added is there.
    Record(Record),
}

impl<C: Content> Content for Layer<C> {
    fn bare(&self, owner: &[u8]) -> Result<Vec<Bare>, Unreadable> {
        self.names.get(owner).map_or_else(|| self.below.bare(owner), |records| Ok(records.clone()))
    }
}

impl<C: Content> Layer<C> {
    pub fn over(below: C) -> Layer<C> {
        Layer { below, names: Names::new() }
    }

    /// The names that were changed, each with all its records from now on.
    pub fn into_names(self) -> Names {
        self.names
    }

    /// As above, and the version goes on.
    pub fn names(&self) -> impl Iterator<Item = (&[u8], &[Bare])> {
        self.names.iter().map(|(owner, records)| (&**owner, &**records))
    }

    /// Goes on as the journal says. Err: it is not this version that `diff` begins at, and nothing was changed.
    pub fn follow(&mut self, diff: &Diff) -> Result<(), Misfit> {
        for (records, wanted) in [(diff.removed(), true), (diff.added(), false)] {
            for (owner, records) in by_owner(records) {
                let mut there = self.bare(owner).map_err(|_| Misfit::Unreadable)?;
                there.sort_unstable();
                if let Some(odd) = records.iter().find(|r| there.binary_search(&r.bare()).is_ok() != wanted) {
                    return Err(Misfit::Record(odd.clone()));
                }
            }
        }
        self.apply(diff).map_err(|_| Misfit::Unreadable)
    }

    /// The records of a name, to be changed.
    fn at_mut(&mut self, owner: &[u8]) -> Result<&mut Vec<Bare>, Unreadable> {
        // Not by `entry`: that wants a copy of the name, also where it is known.
        if !self.names.contains_key(owner) {
            self.names.insert(owner.into(), self.below.bare(owner)?);
        }
        self.names.get_mut(owner).ok_or(Unreadable)
    }

    /// Goes on to the version that `diff` leads to; it was made from this one.
    pub fn apply(&mut self, diff: &Diff) -> Result<(), Unreadable> {
        // All are read before any is changed: half of a difference is no version.
        for (owner, _) in by_owner(diff.removed()).chain(by_owner(diff.added())) {
            self.at_mut(owner)?;
        }
        for (owner, records) in by_owner(diff.removed()) {
            let is_one = |r: &Bare| records.binary_search_by(|other| other.cmp_bare(r)).is_ok();
            self.at_mut(owner)?.retain(|r| !is_one(r));
        }
        for (owner, records) in by_owner(diff.added()) {
            self.at_mut(owner)?.extend(records.iter().map(Record::bare));
        }
        Ok(())
    }
}

/// Records in canonical order, each owner's together.
fn by_owner(records: &[Record]) -> impl Iterator<Item = (&[u8], &[Record])> {
    records.chunk_by(|a, b| a.owner() == b.owner()).map(|some| (some[0].owner(), some))
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
    fn a_version_goes_on_by_a_difference_or_stays_as_it_is() {
        let zone = Contents::of([record(b"\x01a\0", 1), record(b"\x01b\0", 1), record(b"\x01b\0", 2)]);
        let diff = Diff::new(1, 2, vec![record(b"\x01a\0", 1), record(b"\x01b\0", 2)], vec![record(b"\x01c\0", 3)]);
        let (mut followed, mut applied) = (Layer::over(&zone), Layer::over(&zone));
        followed.follow(&diff).unwrap();
        applied.apply(&diff).unwrap();
        for layer in [&followed, &applied] {
            let types = |owner: &[u8]| layer.bare(owner).unwrap().iter().map(|r| r.rtype).collect::<Vec<_>>();
            assert_eq!([types(b"\x01a\0"), types(b"\x01b\0"), types(b"\x01c\0")], [vec![], vec![1], vec![3]]);
        }
        assert!(matches!(followed.follow(&diff), Err(Misfit::Record(_))), "once is enough");
    }

    /// The second name of a difference cannot be read.
    struct Torn(Contents);

    impl Content for Torn {
        fn bare(&self, owner: &[u8]) -> Result<Vec<Bare>, Unreadable> {
            if owner == b"\x01b\0" { Err(Unreadable) } else { self.0.bare(owner) }
        }
    }

    #[test]
    fn half_of_a_difference_is_never_carried_out() {
        let mut layer = Layer::over(Torn(Contents::of([record(b"\x01a\0", 1)])));
        let diff = Diff::new(1, 2, vec![record(b"\x01a\0", 1), record(b"\x01b\0", 1)], vec![]);
        assert_eq!(layer.apply(&diff), Err(Unreadable));
        assert_eq!(layer.at(b"\x01a\0").unwrap(), [record(b"\x01a\0", 1)]);
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
