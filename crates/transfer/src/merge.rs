//! Two changes of one version of a zone made one: by updates, and by somebody who edited its file.
//!
//! ```text
//! base --ours--> what is served --merged--> what is to be served
//!   \---theirs-> the edited file
//! ```
//! What both have changed alike is no conflict. An RRset that both have changed, and not alike, is one; so is an alias beside
//! what the other side has put at its name (RFC 1034 section 3.6.2). The SOA's serial is the next one, or the file's if that
//! is newer; of its other fields one side may change. A digest of the zone (RFC 8976) fits none of the two any more: what is
//! served stays, unless the edit takes it away, or is the only one to have changed it, or brings another where updates took it away; and the version
//! has no serial that one of them states.

use crate::names::may_stand_beside_alias;
use crate::record::{apart_from, is_newer, next_serial, serial_of, with_serial};
use crate::{Diff, Record};
use std::collections::{BTreeMap, BTreeSet};
use wire::rtype::{CNAME, Rtype, SOA, ZONEMD};

/// An RRset that both sides have changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    pub owner: Box<[u8]>,
    pub rtype: Rtype,
}

/// What leads from what is served to that with the edit in it; None: the edit changes nothing. `soa`: what is served.
pub fn merge(ours: &Diff, theirs: &Diff, soa: &Record) -> Result<Option<Diff>, BTreeSet<Conflict>> {
    let apex = soa.owner();
    let (ours, theirs) = (Side::of(ours, apex), Side::of(theirs, apex));
    let mut conflicts: BTreeSet<Conflict> = theirs.keys().filter(|key| ours.clashes(&theirs, key)).cloned().collect();
    let next = next_soa(&ours, &theirs, soa);
    if next.is_none() {
        conflicts.insert(Conflict { owner: soa.owner().into(), rtype: SOA });
    }
    let Some(next) = next.filter(|_| conflicts.is_empty()) else { return Err(conflicts) };
    if theirs.is_empty() {
        return Ok(None);
    }
    // Of what both have changed alike nothing is left to do.
    let rest = |records: &[Record], done: &[Record]| -> Vec<Record> {
        let is_other = |r: &Record| r.rtype != SOA && !is_digest(r, apex);
        records.iter().filter(|r| is_other(r) && done.binary_search(r).is_err()).cloned().collect()
    };
    let mut removed = rest(theirs.diff.removed(), ours.diff.removed());
    let mut added = rest(theirs.diff.added(), ours.diff.added());
    let [gone, new] = digests(&ours, &theirs);
    removed.extend(gone.into_iter().cloned());
    added.extend(new.into_iter().cloned());
    removed.push(soa.clone());
    added.push(next.clone());
    let serial = |r: &Record| serial_of(r.rdata()).unwrap_or_default();
    Ok(Some(Diff::new(serial(soa), serial(&next), removed, added)))
}

fn is_digest(r: &Record, apex: &[u8]) -> bool {
    r.rtype == ZONEMD && r.owner() == apex
}

/// Digests that go and that come.
fn digests<'d>(ours: &Side<'d>, theirs: &Side<'d>) -> Changed<'d> {
    let [gone, new] = &theirs.digests;
    match (ours.digests.iter().all(Vec::is_empty), gone.is_empty(), new.is_empty()) {
        (true, _, _) => theirs.digests.clone(),
        (false, false, true) => [ours.digests[1].clone(), vec![]],
        // Updates have taken one away, and the edit wants others.
        (false, _, false) if ours.digests[1].is_empty() => {
            let is_there = |r: &&Record| !ours.digests[0].contains(r);
            [gone.iter().copied().filter(is_there).collect(), new.clone()]
        }
        _ => Changed::default(),
    }
}

/// Records that go and that come.
type Changed<'d> = [Vec<&'d Record>; 2];

/// A difference by RRsets.
struct Side<'d> {
    diff: &'d Diff,
    sets: BTreeMap<Conflict, Changed<'d>>,
    digests: Changed<'d>,
}

impl<'d> Side<'d> {
    fn of(diff: &'d Diff, apex: &[u8]) -> Side<'d> {
        let mut sets: BTreeMap<Conflict, Changed<'_>> = BTreeMap::new();
        let mut digests = Changed::default();
        for (i, records) in [diff.removed(), diff.added()].into_iter().enumerate() {
            for r in records {
                if is_digest(r, apex) {
                    digests[i].push(r);
                    continue;
                }
                let key = Conflict { owner: r.owner().into(), rtype: r.rtype };
                sets.entry(key).or_default()[i].push(r);
            }
        }
        Side { diff, sets, digests }
    }

    fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.digests.iter().all(Vec::is_empty)
    }

    fn all_digests(&self) -> impl Iterator<Item = &'d [u8]> + Clone {
        self.digests.iter().flatten().map(|r| r.rdata())
    }

    /// Whether the other side has changed all of this alike, but for the SOA.
    fn is_within(&self, theirs: &Side<'_>) -> bool {
        self.keys().all(|key| theirs.sets.get(key) == self.sets.get(key))
    }

    /// All but the SOA.
    fn keys(&self) -> impl Iterator<Item = &Conflict> {
        self.sets.keys().filter(|key| key.rtype != SOA)
    }

    fn clashes(&self, theirs: &Side<'_>, key: &Conflict) -> bool {
        let differs = self.sets.get(key).is_some_and(|set| theirs.sets.get(key) != Some(set));
        differs || self.adds_beside(key, theirs) || theirs.adds_beside(key, self)
    }

    /// One of the two puts an alias at this name, and the other something else.
    fn adds_beside(&self, key: &Conflict, other: &Side<'_>) -> bool {
        let alias = Conflict { owner: key.owner.clone(), rtype: CNAME };
        let adds = |side: &Side<'_>, is: &dyn Fn(Rtype) -> bool| {
            let from = Conflict { owner: key.owner.clone(), rtype: 0 };
            let here = side.sets.range(from..).take_while(|(k, _)| k.owner == key.owner);
            here.into_iter().any(|(k, [_, added])| is(k.rtype) && !added.is_empty())
        };
        self.sets.get(&alias).is_some_and(|[_, added]| !added.is_empty())
            && adds(other, &|rtype| !may_stand_beside_alias(rtype))
    }

    fn soa(&self, side: usize) -> Option<&'d Record> {
        self.sets.iter().find(|(key, _)| key.rtype == SOA).and_then(|(_, set)| set[side].first().copied())
    }
}

/// None: both have changed it otherwise than in its serial.
fn next_soa(ours: &Side<'_>, theirs: &Side<'_>, served: &Record) -> Option<Record> {
    let base = ours.soa(0).or(theirs.soa(0)).unwrap_or(served);
    let edited = theirs.soa(1).unwrap_or(base);
    let bare = |r: &Record| (r.ttl, with_serial(r.rdata(), 0));
    let from = match (bare(edited) == bare(base), bare(served) == bare(base)) {
        (true, _) => served,
        (false, true) => edited,
        (false, false) if bare(edited) == bare(served) => served,
        (false, false) => return None,
    };
    let (now, wanted) = (serial_of(served.rdata())?, serial_of(edited.rdata())?);
    let serial = if is_newer(wanted, now) { wanted } else { next_serial(now) };
    // The file's own digest fits if what is to be served is the file.
    let is_file = is_newer(wanted, now) && bare(from) == bare(edited) && ours.is_within(theirs);
    let serial = if is_file { serial } else { apart_from(serial, ours.all_digests().chain(theirs.all_digests())) };
    Record::new(served.owner(), SOA, from.ttl, &with_serial(from.rdata(), serial))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Contents;
    use proptest::prelude::*;
    use wire::rtype::{A, TXT};

    const APEX: &[u8] = b"\x01z\0";

    fn soa(serial: u32, ttl: u32) -> Record {
        Record::new(APEX, SOA, ttl, &[&b"\0\0"[..], &serial.to_be_bytes(), &[0; 16]].concat()).unwrap()
    }

    fn record(owner: u8, rtype: Rtype, n: u8) -> Record {
        let rdata: &[u8] = if rtype == CNAME { &[1, b'a' + n, 0] } else { &[192, 0, 2, n] };
        Record::new(&[&[1, b'a' + owner][..], APEX].concat(), rtype, 60, rdata).unwrap()
    }

    fn version(serial: u32, records: &[Record]) -> Vec<Record> {
        [&[soa(serial, 60)][..], records].concat()
    }

    fn check(base: &[Record], served: &[Record], edited: &[Record], expect: Result<&[Record], usize>) {
        let (ours, theirs) =
            (Diff::between(base.to_vec(), served.to_vec()), Diff::new(0, 0, base.to_vec(), edited.to_vec()));
        let soa = served.iter().find(|r| r.rtype == SOA).unwrap();
        match (merge(&ours, &theirs, soa), expect) {
            (Ok(merged), Ok(expect)) => {
                let mut zone = Contents::of(served.to_vec());
                merged.iter().for_each(|diff| zone.apply(diff).unwrap());
                assert_eq!(zone, Contents::of(expect.to_vec()));
            }
            (Err(conflicts), Err(expect)) => assert_eq!(conflicts.len(), expect, "{conflicts:?}"),
            (found, expect) => panic!("{found:?}, and not {expect:?}"),
        }
    }

    #[test]
    fn what_only_one_side_has_changed_is_taken() {
        let (a, b, c) = (record(0, A, 1), record(1, A, 1), record(2, TXT, 1));
        let base = version(7, &[a.clone(), b.clone()]);
        let served = version(9, &[a.clone(), b.clone(), c.clone()]);
        check(&base, &served, &base, Ok(&served));
        check(&base, &served, &version(7, std::slice::from_ref(&a)), Ok(&version(10, &[a.clone(), c.clone()])));
        check(&base, &served, &version(20, std::slice::from_ref(&a)), Ok(&version(20, &[a.clone(), c.clone()])));
        check(&base, &served, &version(8, std::slice::from_ref(&a)), Ok(&version(10, &[a.clone(), c.clone()])));
        let alike = version(7, &[a.clone(), b.clone(), c.clone()]);
        check(&base, &served, &alike, Ok(&version(10, &[a.clone(), b, c])));
        check(&base, &base, &version(7, std::slice::from_ref(&a)), Ok(&version(8, std::slice::from_ref(&a))));
    }

    #[test]
    fn what_both_have_changed_is_a_conflict() {
        let base = version(7, &[record(0, A, 1), record(1, A, 1)]);
        let with = |serial, records: &[Record]| version(serial, &[&[record(1, A, 1)][..], records].concat());
        check(&base, &with(8, &[record(0, A, 2)]), &with(7, &[record(0, A, 3)]), Err(1));
        check(&base, &with(8, &[]), &with(7, &[record(0, A, 1), record(0, A, 3)]), Err(1));
        check(&base, &with(8, &[record(0, CNAME, 2)]), &with(7, &[record(0, A, 1), record(0, TXT, 3)]), Err(1));
        check(&base, &with(8, &[record(0, A, 1), record(0, TXT, 3)]), &with(7, &[record(0, CNAME, 3)]), Err(2));
        check(&base, &with(8, &[record(0, A, 2)]), &with(7, &[record(0, A, 2)]), Ok(&with(9, &[record(0, A, 2)])));
        let (ours, theirs) = (vec![soa(8, 61)], vec![soa(7, 62)]);
        check(&[soa(7, 60)], &ours, &theirs, Err(1));
        check(&[soa(7, 60)], &[soa(8, 60)], &theirs, Ok(&[soa(9, 62)]));
    }

    #[test]
    fn a_digest_is_no_conflict() {
        let digest = |n: u8| Record::new(APEX, ZONEMD, 60, &[n; 54]).unwrap();
        let (a, b) = (record(0, A, 1), record(1, A, 1));
        let with = |serial, d: Option<u8>, all: &[&Record]| {
            let all: Vec<Record> = all.iter().copied().cloned().chain(d.map(digest)).collect();
            version(serial, &all)
        };
        let base = with(7, Some(1), &[&a]);
        check(&base, &with(9, Some(2), &[&a]), &with(7, Some(1), &[&a, &b]), Ok(&with(10, Some(2), &[&a, &b])));
        check(&base, &with(9, Some(2), &[&a]), &with(8, Some(3), &[&a, &b]), Ok(&with(10, Some(2), &[&a, &b])));
        check(&base, &with(9, Some(2), &[&a]), &with(7, None, &[&a]), Ok(&with(10, None, &[&a])));
        check(&base, &with(9, Some(1), &[&b]), &with(8, Some(3), &[&a]), Ok(&with(10, Some(3), &[&b])));
        check(&with(7, None, &[&a]), &with(9, None, &[&b]), &with(8, Some(3), &[&a]), Ok(&with(10, Some(3), &[&b])));
        check(&base, &with(9, None, &[&a]), &with(8, Some(3), &[&a, &b]), Ok(&with(10, Some(3), &[&a, &b])));
        check(&base, &with(9, None, &[&a]), &with(8, None, &[&a, &b]), Ok(&with(10, None, &[&a, &b])));
        check(&base, &with(9, None, &[&a]), &with(8, Some(1), &[&a, &b]), Ok(&with(10, None, &[&a, &b])));
        let (d1, d2, d3) = (digest(1), digest(2), digest(3));
        let two = with(7, Some(1), &[&a, &d2]);
        check(&two, &with(9, Some(2), &[&a]), &with(8, Some(3), &[&a]), Ok(&with(10, Some(3), &[&a])));
        check(&two, &with(9, Some(2), &[&a]), &with(8, Some(3), &[&a, &d1]), Ok(&with(10, Some(3), &[&a])));
        check(&two, &with(9, Some(1), &[&a]), &with(8, Some(2), &[&a, &d3]), Ok(&with(10, Some(3), &[&a])));
    }

    /// It would be believed to be of that version, by us too, who make none anew then.
    #[test]
    fn no_version_but_the_file_itself_has_the_serial_of_the_files_digest() {
        let digest = |serial: u32| {
            let rdata = [&serial.to_be_bytes()[..], &[1, 1], &[7; 48]].concat();
            Record::new(APEX, ZONEMD, 60, &rdata).unwrap()
        };
        let (a, b, c) = (record(0, A, 1), record(1, A, 1), record(2, A, 1));
        let with = |serial, more: &[&Record]| version(serial, &more.iter().copied().cloned().collect::<Vec<_>>());
        let (base, of_20, of_21) = (with(7, &[&a]), digest(20), digest(21));
        check(&base, &with(8, &[&a, &b]), &with(20, &[&a, &of_20]), Ok(&with(21, &[&a, &b, &of_20])));
        check(&base, &with(8, &[&a, &b]), &with(20, &[&a, &of_20, &of_21]), Ok(&with(22, &[&a, &b, &of_20, &of_21])));
        // Updates have changed nothing, or only what the file has, too.
        check(&base, &base, &with(20, &[&a, &c, &of_20]), Ok(&with(20, &[&a, &c, &of_20])));
        check(&base, &with(8, &[&a, &b]), &with(20, &[&a, &b, &of_20]), Ok(&with(20, &[&a, &b, &of_20])));
        check(&base, &with(20, &[&a, &b]), &with(20, &[&a, &of_21]), Ok(&with(22, &[&a, &b, &of_21])));
        // Another SOA than the file's.
        let served = [soa(8, 61), a.clone()];
        check(&base, &served, &with(20, &[&a, &of_20]), Ok(&[soa(21, 61), a.clone(), of_20.clone()]));
    }

    fn some() -> impl Strategy<Value = Vec<Record>> {
        proptest::collection::vec((0..4u8, prop_oneof![Just(A), Just(TXT)], 0..3u8), 0..8)
            .prop_map(|all| all.into_iter().map(|(owner, rtype, n)| record(owner, rtype, n)).collect())
    }

    /// RRset by RRset: whoever has changed it is right.
    fn twin(base: &[Record], served: &[Record], edited: &[Record]) -> Option<BTreeSet<Record>> {
        let set = |all: &[Record], owner: &[u8], rtype| -> BTreeSet<Record> {
            all.iter().filter(|r| r.owner() == owner && r.rtype == rtype).cloned().collect()
        };
        let mut merged = BTreeSet::new();
        for (owner, rtype) in (0..4u8).flat_map(|o| [(o, A), (o, TXT)]) {
            let owner = record(owner, A, 0).owner().to_vec();
            let [base, served, edited] = [base, served, edited].map(|all| set(all, &owner, rtype));
            merged.extend(match (served == base, edited == base) {
                (true, _) => edited,
                (_, true) => served,
                _ if served == edited => served,
                _ => return None,
            });
        }
        Some(merged)
    }

    proptest! {
        #[test]
        fn it_is_the_merge_of_each_rrset(base in some(), served in some(), edited in some()) {
            let (b, s, e) = (version(7, &base), version(9, &served), version(7, &edited));
            let found = merge(&Diff::between(b.clone(), s.clone()), &Diff::new(0, 0, b, e), &soa(9, 60));
            let found = found.ok().map(|diff| {
                let mut zone = Contents::of(s.clone());
                diff.iter().for_each(|diff| zone.apply(diff).unwrap());
                let serial = if diff.is_some() { 10 } else { 9 };
                (zone, serial)
            });
            let expect = twin(&base, &served, &edited).map(|all| all.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(found.is_some(), expect.is_some());
            if let (Some((zone, serial)), Some(expect)) = (found, expect) {
                prop_assert_eq!(zone, Contents::of(version(serial, &expect)));
            }
        }
    }
}
