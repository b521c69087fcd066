//! The records of one name sorted into RRsets. One value serves for name after name, so that nothing is allocated for each.

use crate::render::Rr;
use std::ops::Range;
use wire::rtype::{self, Rtype};

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
            while let Some(&rr) = self.records.get(from).filter(|r| r.rtype == rtype) {
                // The same record twice is one record (RFC 2181 section 5).
                if !self.records[start..kept].iter().any(|r| r.rdata == rr.rdata) {
                    // One TTL for the set, the first one given (RFC 2181 section 5.2).
                    self.records[kept] = Rr { ttl, ..rr };
                    kept += 1;
                }
                from += 1;
            }
            let first = signed;
            signed += self.signatures[first..].iter().take_while(|s| covered(s) == rtype).count();
            self.bounds.push(Bounds { rtype, records: start..kept, signatures: first..signed });
        }
        self.records.truncate(kept);
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

/// The type that a signature is over.
fn covered(rr: &Rr<'_>) -> Rtype {
    rr.rdata.first_chunk::<2>().map_or(0, |t| u16::from_be_bytes(*t))
}
