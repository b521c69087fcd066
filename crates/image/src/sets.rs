//! The records of one name sorted into RRsets. One value serves for name after name, so that nothing is allocated for each.

use crate::render::Rr;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use wire::rtype::{self, Rtype};

/// So many records of a set are compared with each other; of more it is remembered which were met.
const FEW: usize = 32;

#[derive(Default)]
pub(crate) struct Sets<'a> {
    records: Vec<Rr<'a>>,
    signatures: Vec<Rr<'a>>,
    /// Signatures over RRsets that are not there.
    orphans: Vec<Rr<'a>>,
    bounds: Vec<Bounds>,
}

struct Bounds {
    rtype: Rtype,
    records: Range<usize>,
    signatures: Range<usize>,
}

/// An RRset: distinct records, and the signatures over them.
pub(crate) struct Set<'s, 'a> {
    pub rtype: Rtype,
    pub records: &'s [Rr<'a>],
    pub signatures: &'s [Rr<'a>],
}

impl<'a> Sets<'a> {
    /// Takes the records of a name in place of those of the last one.
    pub(crate) fn fill(&mut self, records: impl Iterator<Item = Rr<'a>>) {
        self.records.clear();
        self.signatures.clear();
        self.orphans.clear();
        self.bounds.clear();
        for rr in records {
            let is_signature = rr.rtype == rtype::RRSIG && rr.rdata.len() > 18;
            if is_signature { self.signatures.push(rr) } else { self.records.push(rr) }
        }
        if !self.records.is_sorted_by_key(|r| r.rtype) {
            self.records.sort_by_key(|r| r.rtype);
        }
        if !self.signatures.is_empty() {
            let kept = unite(rtype::RRSIG, &mut self.signatures);
            self.signatures.truncate(kept);
            self.sort_signatures();
        }
        self.group();
        if !self.orphans.is_empty() {
            let from = self.records.len();
            self.records.append(&mut self.orphans);
            let records = from..self.records.len();
            self.bounds.push(Bounds { rtype: rtype::RRSIG, records, signatures: 0..0 });
            self.bounds.sort_by_key(|b| b.rtype);
        }
    }

    fn sort_signatures(&mut self) {
        let Sets { records, signatures, orphans, .. } = self;
        signatures.retain(|rr| {
            let has_its_set = records.binary_search_by_key(&covered(rr), |r| r.rtype).is_ok();
            if !has_its_set {
                orphans.push(*rr);
            }
            has_its_set
        });
        signatures.sort_by_key(covered);
    }

    /// Finds the bounds of the sets; removes what is there twice.
    fn group(&mut self) {
        let (mut from, mut kept, mut signed) = (0, 0, 0);
        while let Some(&Rr { rtype, ttl, .. }) = self.records.get(from) {
            let start = kept;
            let end = from + self.records[from..].iter().take_while(|r| r.rtype == rtype).count();
            let set = &mut self.records[from..end];
            // One TTL for the set, the first one given (RFC 2181 section 5.2).
            set.iter_mut().for_each(|rr| rr.ttl = ttl);
            let different = unite(rtype, set);
            self.records.copy_within(from..from + different, kept);
            kept += different;
            from = end;
            let first = signed;
            signed += self.signatures[first..].iter().take_while(|s| covered(s) == rtype).count();
            self.bounds.push(Bounds { rtype, records: start..kept, signatures: first..signed });
        }
        self.records.truncate(kept);
    }

    /// How many records are in the sets.
    pub(crate) fn records(&self) -> usize {
        self.records.len() + self.signatures.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.bounds.len()
    }

    pub(crate) fn at(&self, i: usize) -> Set<'_, 'a> {
        let b = &self.bounds[i];
        let (records, signatures) = (&self.records[b.records.clone()], &self.signatures[b.signatures.clone()]);
        Set { rtype: b.rtype, records, signatures }
    }

    /// In the order of their types.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Set<'_, 'a>> {
        (0..self.len()).map(|i| self.at(i))
    }
}

/// Brings different records to the front, each as it was given first; returns how many these are. The same record twice is one record (RFC 2181
/// section 5).
fn unite(rtype: Rtype, all: &mut [Rr<'_>]) -> usize {
    let (mut kept, mut met, is_short) = (0, HashSet::new(), all.len() <= FEW);
    for at in 0..all.len() {
        let rr = all[at];
        let is_met = match is_short {
            true => all[..kept].iter().any(|r| is_same(rtype, r.rdata, rr.rdata)),
            false => !met.insert(folded(rtype, rr.rdata)),
        };
        if !is_met {
            all[kept] = rr;
            kept += 1;
        }
    }
    kept
}

/// How many different records these of one type are.
pub fn distinct(rtype: Rtype, all: &[Rr<'_>]) -> usize {
    let is_first = |at: &usize| !all[..*at].iter().any(|before| is_same(rtype, before.rdata, all[*at].rdata));
    match all.len() {
        ..=FEW => (0..all.len()).filter(is_first).count(),
        _ => unite(rtype, &mut all.to_vec()),
    }
}

/// Where names stand in rdata of this type: in whatever case they are written, they are the same (RFC 4343 section 3, RFC 4034 section 6.2). With
/// what follows names in other types it does not matter.
fn names_in(rtype: Rtype, rdata: &[u8]) -> Range<usize> {
    use rtype::*;
    let at = match rtype {
        // Behind them are five numbers.
        SOA => return 0..rdata.len().saturating_sub(20),
        NS | MD | MF | CNAME | MB | MG | MR | PTR | MINFO | RP | DNAME => 0,
        MX | AFSDB | RT | KX | PX => 2,
        SRV => 6,
        // Two numbers and three strings.
        NAPTR => (0..3).fold(4, |at, _| at + 1 + rdata.get(at).map_or(0, |len| usize::from(*len))),
        _ => rdata.len(),
    };
    at.min(rdata.len())..rdata.len()
}

/// True if records of a type with these rdata are one (RFC 2181 section 5).
pub fn is_same(rtype: Rtype, a: &[u8], b: &[u8]) -> bool {
    let Range { start, end } = names_in(rtype, a);
    // The length of a label is no letter.
    let are_names_same = || a[start..end].eq_ignore_ascii_case(&b[start..end]);
    a.len() == b.len() && a[..start] == b[..start] && a[end..] == b[end..] && are_names_same()
}

/// In lower case, as far as capitals make no difference.
pub(crate) fn folded(rtype: Rtype, rdata: &[u8]) -> Cow<'_, [u8]> {
    let (names, mut folded) = (names_in(rtype, rdata), Cow::Borrowed(rdata));
    if !names.is_empty() {
        wire::name::fold(&mut folded.to_mut()[names]);
    }
    folded
}

/// The type that a signature is over.
fn covered(rr: &Rr<'_>) -> Rtype {
    rr.rdata.first_chunk::<2>().map_or(0, |t| u16::from_be_bytes(*t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtype::{A, MX, NAPTR, NS, SOA, SRV, SVCB, TXT};

    #[test]
    fn a_record_is_there_once_in_whatever_case_its_names_are_written() {
        let table: [(Rtype, &[u8], &[u8], bool); 13] = [
            (A, b"aaaa", b"aaaa", true),
            (A, b"aaaa", b"AAAA", false),
            (NS, b"\x02ns\0", b"\x02NS\0", true),
            (NS, b"\x02ns\0", b"\x02nt\0", false),
            (MX, b"\0a\x01m\0", b"\0a\x01M\0", true),
            (MX, b"\0a\x01m\0", b"\0A\x01m\0", false),
            (SRV, b"abcdef\x01m\0", b"abcdef\x01M\0", true),
            (NAPTR, b"\0\x01\0\x01\x01s\x02ab\0\x01m\0", b"\0\x01\0\x01\x01s\x02ab\0\x01M\0", true),
            (NAPTR, b"\0\x01\0\x01\x01s\x02ab\0\x01m\0", b"\0\x01\0\x01\x01s\x02AB\0\x01m\0", false),
            (SVCB, b"\0\x01\x01m\0", b"\0\x01\x01M\0", false),
            (SOA, b"\x01n\0\x01h\0aaaabbbbccccddddeeee", b"\x01N\0\x01H\0aaaabbbbccccddddeeee", true),
            (SOA, b"\x01n\0\x01h\0aaaabbbbccccddddeeee", b"\x01n\0\x01h\0Aaaabbbbccccddddeeee", false),
            (SOA, b"short", b"Short", false),
        ];
        for (rtype, a, b, is_one) in table {
            // Many beside them are no others.
            for more in [0, FEW] {
                let rr = |rtype, rdata| Rr { rtype, ttl: 1, rdata };
                let others: Vec<Box<[u8]>> = (0..more).map(|n| vec![0; 300 + n].into()).collect();
                let all = others.iter().map(|o| rr(rtype, o)).chain([rr(rtype, a), rr(TXT, b"\x01t"), rr(rtype, b)]);
                let mut sets = Sets::default();
                sets.fill(all);
                let set = sets.iter().find(|set| set.rtype == rtype).unwrap();
                assert_eq!(set.records.len(), more + 2 - usize::from(is_one), "{rtype} {a:?} {b:?}");
                assert_eq!(set.records[more].rdata, a, "the first is kept");
                assert_eq!(distinct(rtype, set.records), set.records.len());
                let twice = [set.records, &[rr(rtype, b)]].concat();
                assert_eq!(distinct(rtype, &twice), set.records.len(), "{rtype} {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_signature_that_is_there_twice_is_one() {
        for more in [0, FEW] {
            let signature = |of: Rtype, n: usize| [&of.to_be_bytes()[..], &[0; 20], &n.to_be_bytes()].concat();
            let all: Vec<Vec<u8>> = (0..=more).flat_map(|n| [A, TXT].map(|of| signature(of, n))).collect();
            let rr = |rdata| Rr { rtype: rtype::RRSIG, ttl: 1, rdata };
            let mut sets = Sets::default();
            let address = Rr { rtype: A, ttl: 1, rdata: &[1, 2, 3, 4] };
            sets.fill(all.iter().chain(&all).map(|s| rr(&s[..])).chain([address]));
            let found: Vec<_> = sets.iter().map(|set| (set.rtype, set.records.len(), set.signatures.len())).collect();
            assert_eq!(found, [(A, 1, more + 1), (rtype::RRSIG, more + 1, 0)]);
            assert_eq!(sets.records(), 2 * more + 3);
        }
    }
}
