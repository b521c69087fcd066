//! The digest of a zone (RFC 8976): scheme SIMPLE with SHA-384 or SHA-512, taken in passing.

use crate::name::{Sets, covered};
use crate::walk::Place;
use image::Rr;
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
    sha384: Sha384,
    sha512: Sha512,
    /// Of the RRset at hand: the records in canonical form.
    canonical: Vec<Vec<u8>>,
}

impl Digest {
    /// None: the zone states no digest that could be compared.
    pub(crate) fn wanted(sets: &Sets<'_>) -> Option<Digest> {
        let serial = sets
            .of(rtype::SOA)
            .first()
            .and_then(|soa| soa.rdata.get(soa.rdata.len().checked_sub(20)?..)?.first_chunk::<4>());
        let known = |rr: &&Rr<'_>| matches!(rr.rdata, [_, _, _, _, SIMPLE, SHA384 | SHA512, ..]);
        let all: Vec<&Rr<'_>> = sets.of(rtype::ZONEMD).iter().filter(known).collect();
        let fits = |rr: &&&Rr<'_>| rr.rdata.first_chunk::<4>() == serial;
        let stated =
            all.iter().filter(fits).filter_map(|rr| Some((*rr.rdata.get(5)?, rr.rdata.get(DIGEST_AT..)?.into())));
        let stated: Vec<(u8, Box<[u8]>)> = stated.collect();
        let has_another_serial = stated.is_empty();
        let (sha384, sha512) = (Sha384::new(), Sha512::new());
        (!all.is_empty()).then_some(Digest { stated, has_another_serial, sha384, sha512, canonical: vec![] })
    }

    pub(crate) fn on_name(&mut self, name: &[u8], sets: &Sets<'_>, place: Place) {
        let is_left_out = |rr: &Rr<'_>| {
            place == Place::Apex
                && (rr.rtype == rtype::ZONEMD || rr.rtype == rtype::RRSIG && covered(rr) == rtype::ZONEMD)
        };
        for set in sets.iter() {
            self.canonical.clear();
            for rr in set.iter().filter(|rr| !is_left_out(rr)) {
                let mut rdata = rr.rdata.to_vec();
                zonefile::rdata::canonicalise(rr.rtype, &mut rdata);
                self.canonical.push(rdata);
            }
            self.canonical.sort_unstable();
            self.canonical.dedup();
            for rdata in &self.canonical {
                let [a, b] = set[0].rtype.to_be_bytes();
                let [c, d, e, f] = set[0].ttl.to_be_bytes();
                let [g, h] = (rdata.len() as u16).to_be_bytes();
                for part in [name, &[a, b, 0, 1, c, d, e, f, g, h], rdata] {
                    self.sha384.update(part);
                    self.sha512.update(part);
                }
            }
        }
    }

    /// Why the zone is not what it says it is.
    pub(crate) fn fault(self) -> Option<&'static str> {
        if self.has_another_serial {
            return Some("its serial is not the SOA's");
        }
        let (sha384, sha512) = (self.sha384.finalize(), self.sha512.finalize());
        let is_it = |(hash, digest): &(u8, Box<[u8]>)| match *hash {
            SHA384 => **digest == sha384[..],
            _ => **digest == sha512[..],
        };
        (!self.stated.iter().any(is_it)).then_some("the digest is another")
    }
}
