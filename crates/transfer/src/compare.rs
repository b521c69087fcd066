//! Two versions of a zone side by side: the one that an image holds, and the records of the one that is to be.
//!
//! Both come in canonical order, so one pass over both finds the difference, and one name of each is held at a time.
//! Records are compared, and stand in the difference, in canonical form (RFC 4034 section 6.2): an image folds names
//! where it compresses them, and that is no change.

use crate::{Diff, Record};
use image::{Damaged, Node, Records, Sorted, Zone};
use std::cmp::Ordering;
use std::collections::HashMap;
use wire::name::{NAME_MAX, canonical_cmp};
use wire::rtype::{RRSIG, Rtype};

/// What leads from `old` to `new`. None: it takes more than so many octets.
pub fn compare(old: &Zone<'_>, new: &Sorted<'_>, octets_max: usize) -> Result<Option<Diff>, Damaged> {
    let (mut removed, mut added, mut octets) = (Vec::new(), Vec::new(), 0);
    let is_all = each_difference(old, new, &mut |gone, come| {
        octets += gone.iter().chain(&come).map(Record::octets).sum::<usize>();
        removed.extend(gone);
        added.extend(come);
        octets <= octets_max
    })?;
    Ok(is_all.then(|| Diff::between(removed, added).at(old.serial().unwrap_or_default())))
}

/// Hands over, name by name from the apex on, the records that are in `old` only, and those that are in `new` only. False: `take` wants no more.
pub fn each_difference(
    old: &Zone<'_>,
    new: &Sorted<'_>,
    take: &mut dyn FnMut(Vec<Record>, Vec<Record>) -> bool,
) -> Result<bool, Damaged> {
    let mut names = new.names().peekable();
    let mut owner = [0; NAME_MAX];
    for node in old.nodes() {
        let node = node?;
        let name = old.name_of(&node, &mut owner)?;
        while let Some((name, records)) = names.next_if(|(n, _)| canonical_cmp(n, name) == Ordering::Less) {
            if !take(Vec::new(), coming(name, records)) {
                return Ok(false);
            }
        }
        let before = standing(&node, name)?;
        let after = names.next_if(|(n, _)| *n == name).map(|(name, records)| coming(name, records));
        let after = after.unwrap_or_default();
        if before != after && !take(without(&before, &after), without(&after, &before)) {
            return Ok(false);
        }
    }
    Ok(names.all(|(name, records)| take(Vec::new(), coming(name, records))))
}

/// Of the records of one name, in order, those that are not among others of it.
fn without(these: &[Record], those: &[Record]) -> Vec<Record> {
    these.iter().filter(|r| those.binary_search(r).is_err()).cloned().collect()
}

/// A record in canonical form.
pub fn canonical(owner: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8]) -> Option<Record> {
    let mut rdata = rdata.to_vec();
    zonefile::rdata::canonicalise(rtype, &mut rdata);
    Record::new(owner, rtype, ttl, &rdata)
}

fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_unstable();
    records.dedup();
    records
}

fn standing(node: &Node<'_>, name: &[u8]) -> Result<Vec<Record>, Damaged> {
    let mut records = Vec::new();
    let mut push = |fixed: &[u8], rdata: &[u8]| {
        if let Some(&[a, b, _, _, c, d, e, f]) = fixed.first_chunk() {
            records.extend(canonical(name, u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]), rdata));
        }
    };
    for rrset in node.rrsets() {
        let (_, unit) = rrset?;
        unit.for_each(name, &mut push)?;
        unit.for_each_signature(&mut push)?;
    }
    Ok(sorted(records))
}

/// The TTL of the first record of an RRset is that of all (RFC 2181 section 5.2). Signatures keep theirs, each of another RRset; one that is there twice
/// has that of the first.
#[derive(Default)]
pub struct FirstTtls<'r>(Vec<(Rtype, u32)>, HashMap<&'r [u8], u32>);

impl<'r> FirstTtls<'r> {
    /// That of the next record of a name, which says this one.
    pub fn of(&mut self, rtype: Rtype, ttl: u32, rdata: &'r [u8]) -> u32 {
        if rtype == RRSIG {
            return *self.1.entry(rdata).or_insert(ttl);
        }
        // By types, of which a name has few, and not by records.
        if let Some((_, first)) = self.0.iter().find(|(known, _)| *known == rtype) {
            return *first;
        }
        self.0.push((rtype, ttl));
        ttl
    }
}

/// As an image will have them: one TTL for an RRset, the first (RFC 2181 section 5.2).
fn coming(name: &[u8], records: Records<'_>) -> Vec<Record> {
    let (mut found, mut ttls) = (Vec::new(), FirstTtls::default());
    for rr in records {
        found.extend(canonical(name, rr.rtype, ttls.of(rr.rtype, rr.ttl, rr.rdata), rr.rdata));
    }
    sorted(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Contents;
    use image::{Builder, Image};
    use proptest::prelude::*;
    use wire::rtype::{A, MX, NS, SOA, TXT};

    const APEX: &[u8] = b"\x01z\0";

    fn some_zone() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
        proptest::collection::vec((0..6u8, 0..3u8, 0..3u8), 0..30)
    }

    /// Names of the zone, one of them with capitals; rdata that names others.
    fn record(owner: u8, kind: u8, n: u8) -> Record {
        let owner = [&[1, b'a' + owner, 1, b'x'][..], APEX].concat();
        match kind {
            0 => canonical(&owner, A, 60, &[192, 0, 2, n]),
            1 => canonical(&owner, TXT, 60, &[1, b'A' + n]),
            _ => canonical(&owner, MX, 60, &[&[0, n, 1, b'X'][..], APEX].concat()),
        }
        .unwrap()
    }

    fn records(serial: u8, some: &[(u8, u8, u8)]) -> Vec<Record> {
        let soa = [&b"\0\0"[..], &[0, 0, 0, serial], &[0; 16]].concat();
        let apex = [canonical(APEX, SOA, 60, &soa), canonical(APEX, NS, 60, b"\x01x\x01Z\0")];
        apex.into_iter().flatten().chain(some.iter().map(|&(o, k, n)| record(o, k, n))).collect()
    }

    fn built(records: &[Record]) -> Builder {
        let mut builder = Builder::new(7);
        builder.begin_zone(APEX);
        records.iter().for_each(|r| builder.record(r.owner(), r.rtype, r.ttl, r.rdata()).unwrap());
        builder
    }

    fn difference(old: &[Record], new: &[Record], octets_max: usize) -> Option<Diff> {
        let image = Image::open(built(old).finish().0).unwrap();
        let zone = image.view().zones().next().unwrap().unwrap();
        let mut found = None;
        built(new).show(&mut |sorted| found = compare(&zone, sorted, octets_max).unwrap()).unwrap();
        found
    }

    proptest! {
        #[test]
        fn the_difference_leads_from_one_version_to_the_other(a in some_zone(), b in some_zone()) {
            let (old, new) = (records(1, &a), records(2, &b));
            let diff = difference(&old, &new, usize::MAX).unwrap();
            prop_assert_eq!((diff.from, diff.to), (1, 2));
            let mut zone = Contents::of(old);
            zone.apply(&diff).unwrap();
            prop_assert_eq!(zone, Contents::of(new));
        }
    }

    #[test]
    fn what_is_too_large_is_no_difference() {
        let (old, new) = (records(1, &[]), records(2, &[(0, 0, 0), (1, 0, 0), (2, 0, 0)]));
        assert!(difference(&old, &new, 100).is_none());
        assert_eq!(difference(&old, &old, 0).map(|d| d.is_empty()), Some(true));
    }

    /// Whoever wants the beginning only has the apex, and with it the serials.
    #[test]
    fn a_difference_comes_name_by_name_until_no_more_is_wanted() {
        let (old, new) = (records(1, &[(1, 1, 0)]), records(2, &[(0, 0, 0), (1, 1, 1), (2, 0, 0)]));
        let image = Image::open(built(&old).finish().0).unwrap();
        let zone = image.view().zones().next().unwrap().unwrap();
        for (wanted, is_all, come) in [(1, false, 1), (2, false, 2), (5, true, 4)] {
            let mut seen = Vec::new();
            let shown = built(&new).show(&mut |sorted| {
                let mut take = |gone: Vec<Record>, come: Vec<Record>| {
                    seen.push((gone.len(), come.len()));
                    seen.len() < wanted
                };
                assert_eq!(each_difference(&zone, sorted, &mut take).unwrap(), is_all);
            });
            shown.unwrap();
            assert_eq!(seen, [(1, 1), (0, 1), (1, 1), (0, 1)][..come]);
        }
    }
}
