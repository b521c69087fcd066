//! The digest of a zone (RFC 8976): scheme SIMPLE with SHA-384 or SHA-512, taken in passing.

use crate::name::{Sets, covered};
use crate::walk::Place;
use image::{Rr, Sorted};
use sha2::{Digest as _, Sha384, Sha512};
use wire::rtype;

/// The only scheme there is (RFC 8976 section 5.2).
const SIMPLE: u8 = 1;
const SHA384: u8 = 1;
const SHA512: u8 = 2;
const DIGEST_AT: usize = 6;

/// What the apex says the digest is, and the one of the names seen so far.
pub(crate) struct Digest {
    /// Hash algorithm and digest.
    stated: Vec<(u8, Box<[u8]>)>,
    has_another_serial: bool,
    is_ambiguous: bool,
    sum: Sum,
}

impl Digest {
    /// None: the zone states no digest that could be compared: none at all, or of a scheme or an algorithm that we do not know. There may be one of each
    /// (RFC 8976 section 2); whoever verifies, as Unbound and Knot, refuses two, whether one of them fits or not.
    pub(crate) fn wanted(sets: &Sets<'_>) -> Option<Digest> {
        let all = sets.of(rtype::ZONEMD);
        let serial = serial(sets);
        // A line that stands there twice is one record (RFC 2181 section 5).
        let is_alone = |rr: &&Rr<'_>| {
            all.iter().all(|other| other.rdata == rr.rdata || other.rdata.get(4..6) != rr.rdata.get(4..6))
        };
        let is_known = |rr: &&Rr<'_>| matches!(rr.rdata, [_, _, _, _, SIMPLE, SHA384 | SHA512, ..]);
        let known: Vec<&Rr<'_>> = all.iter().filter(is_known).collect();
        let fits = |rr: &&&Rr<'_>| rr.rdata.first_chunk::<4>() == serial;
        let stated =
            known.iter().filter(fits).filter_map(|rr| Some((*rr.rdata.get(5)?, rr.rdata.get(DIGEST_AT..)?.into())));
        let stated: Vec<(u8, Box<[u8]>)> = stated.collect();
        let sum = Sum::of(|hash| stated.iter().any(|(stated, _)| *stated == hash));
        let (has_another_serial, is_ambiguous) = (stated.is_empty(), !known.iter().all(is_alone));
        (!known.is_empty()).then_some(Digest { has_another_serial, is_ambiguous, stated, sum })
    }

    pub(crate) fn on_name(&mut self, name: &[u8], sets: &Sets<'_>, place: Place) {
        self.sum.on_name(name, sets, place == Place::Apex);
    }

    /// Why the zone is not what it says it is.
    pub(crate) fn fault(self) -> Option<&'static str> {
        if self.is_ambiguous {
            return Some("there are two of one scheme and hash algorithm");
        }
        if self.has_another_serial {
            return Some("its serial is not the SOA's");
        }
        let digests = self.sum.end();
        (!self.stated.iter().any(|stated| digests.contains(stated))).then_some("the digest is another")
    }
}

fn serial<'a>(sets: &Sets<'a>) -> Option<&'a [u8; 4]> {
    serial_of(sets.of(rtype::SOA).first()?.rdata)
}

/// The first of the five numbers at the end of an SOA.
pub(crate) fn serial_of(soa: &[u8]) -> Option<&[u8; 4]> {
    soa.get(soa.len().checked_sub(20)?..)?.first_chunk()
}

/// The rdata of the ZONEMD that fits a zone, by SHA-384, which everybody must know (RFC 8976 section 2.2.3). What the zone
/// states itself does not count. None: it has no SOA.
pub fn zonemd(zone: &Sorted<'_>) -> Option<Vec<u8>> {
    let (mut sum, mut sets, mut rdata) = (Sum::of(|hash| hash == SHA384), Sets::default(), Vec::new());
    for (name, records) in zone.names() {
        sets.fill(records);
        if rdata.is_empty() {
            rdata.extend(serial(&sets)?);
        }
        sum.on_name(name, &sets, name.len() == zone.apex().len());
    }
    let (hash, digest) = sum.end().into_iter().next()?;
    rdata.extend([SIMPLE, hash]);
    rdata.extend(digest);
    Some(rdata)
}

/// Digests of the names seen so far, by the algorithms that are wanted.
struct Sum {
    sha384: Option<Sha384>,
    sha512: Option<Sha512>,
    /// Of the RRset at hand: the records in canonical form, each with its TTL.
    canonical: Vec<(Vec<u8>, u32)>,
}

impl Sum {
    fn of(is_wanted: impl Fn(u8) -> bool) -> Sum {
        let sha384 = is_wanted(SHA384).then(Sha384::new);
        Sum { sha384, sha512: is_wanted(SHA512).then(Sha512::new), canonical: Vec::new() }
    }

    /// All that is in the zone file counts, glue and occluded records too, each once (RFC 8976 section 3.3.1); what does
    /// not is the apex's ZONEMD with its signatures.
    fn on_name(&mut self, name: &[u8], sets: &Sets<'_>, is_apex: bool) {
        let is_left_out = |rr: &Rr<'_>| {
            is_apex && (rr.rtype == rtype::ZONEMD || rr.rtype == rtype::RRSIG && covered(rr) == rtype::ZONEMD)
        };
        for set in sets.iter() {
            self.canonical.clear();
            let ttl_of_all = sets.ttl(set[0].rtype);
            for rr in set.iter().filter(|rr| !is_left_out(rr)) {
                let mut rdata = rr.rdata.to_vec();
                zonefile::rdata::canonicalise(rr.rtype, &mut rdata);
                // Signatures of one name are over RRsets of several types, and each has the TTL of what it is over.
                let ttl = if rr.rtype == rtype::RRSIG { rr.ttl } else { ttl_of_all };
                self.canonical.push((rdata, ttl));
            }
            self.canonical.sort_unstable();
            self.canonical.dedup();
            for (rdata, ttl) in &self.canonical {
                let [a, b] = set[0].rtype.to_be_bytes();
                let [c, d, e, f] = ttl.to_be_bytes();
                let [g, h] = (rdata.len() as u16).to_be_bytes();
                for part in [name, &[a, b, 0, 1, c, d, e, f, g, h], rdata] {
                    self.sha384.iter_mut().for_each(|sum| sum.update(part));
                    self.sha512.iter_mut().for_each(|sum| sum.update(part));
                }
            }
        }
    }

    fn end(self) -> Vec<(u8, Box<[u8]>)> {
        let sha384 = self.sha384.map(|sum| (SHA384, sum.finalize().as_slice().into()));
        sha384.into_iter().chain(self.sha512.map(|sum| (SHA512, sum.finalize().as_slice().into()))).collect()
    }
}
