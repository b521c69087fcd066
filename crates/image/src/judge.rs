//! What no zone may hold at one name: the reasons for which a zone is left out.

use crate::node;
use crate::render::Rr;
use crate::sets::folded;
use std::collections::{HashMap, HashSet};
use wire::rtype::{self, Rtype};

/// The most octets of an RRset: what a message can hold beside header and question.
const RRSET_OCTETS_MAX: usize = 65_535 - 512;
/// The most that RFC 5155 section 10.3 allows for any key. Each negative answer hashes so often, three times.
pub(crate) const ITERATIONS_MAX: u16 = 2_500;
/// The most RRsets at a name; the node counts them in an octet.
const RRSETS_MAX: usize = 200;

/// Why no zone may hold these records at one name; an image with them is not made.
pub fn fault<'a>(records: impl Iterator<Item = Rr<'a>> + Clone) -> Option<&'static str> {
    Look::at(records.clone()).fault(records)
}

/// What a name is by its own records.
#[derive(Default)]
pub(crate) struct Look {
    /// Those of `node`: `CUT`, `DNAME`, `CNAME`.
    pub flags: u16,
    pub has_addresses: bool,
    pub only_nsec3: bool,
    count: usize,
    octets: usize,
}

impl Look {
    pub(crate) fn at<'a>(records: impl Iterator<Item = Rr<'a>>) -> Look {
        let mut look = Look { only_nsec3: true, ..Look::default() };
        for rr in records {
            match rr.rtype {
                rtype::NS => look.flags |= node::CUT,
                rtype::DNAME => look.flags |= node::DNAME,
                rtype::CNAME => look.flags |= node::CNAME,
                rtype::A | rtype::AAAA => look.has_addresses = true,
                _ => {}
            }
            let covers_nsec3 = rr.rtype == rtype::RRSIG && rr.rdata.starts_with(&rtype::NSEC3.to_be_bytes());
            look.only_nsec3 &= rr.rtype == rtype::NSEC3 || covers_nsec3;
            look.count += 1;
            look.octets += rr.rdata.len() + 12;
        }
        look.only_nsec3 &= look.count > 0;
        look
    }

    /// What is wrong with the name. Few names are worth more than this look.
    pub(crate) fn fault<'a>(&self, records: impl Iterator<Item = Rr<'a>> + Clone) -> Option<&'static str> {
        if self.flags & (node::CNAME | node::DNAME) != 0
            && let Some(fault) = alone(self.flags, records.clone())
        {
            return Some(fault);
        }
        if self.octets <= RRSET_OCTETS_MAX && self.count <= RRSETS_MAX {
            return None;
        }
        let mut sizes = HashMap::new();
        for r in records {
            // Signatures go with what they sign.
            let rtype = match (r.rtype, r.rdata.first_chunk()) {
                (rtype::RRSIG, Some(covered)) => u16::from_be_bytes(*covered),
                (rtype, _) => rtype,
            };
            *sizes.entry(rtype).or_insert(0) += r.rdata.len() + 12;
        }
        if sizes.values().any(|&size| size > RRSET_OCTETS_MAX) {
            return Some("an RRset of more octets, with its signatures, than a message can hold");
        }
        (sizes.len() > RRSETS_MAX).then_some("more than 200 types at one name")
    }
}

/// RFC 1034 section 3.6.2 and RFC 2181 section 10.1: an alias stands alone, but for what DNSSEC adds.
fn alone<'a>(flags: u16, records: impl Iterator<Item = Rr<'a>> + Clone) -> Option<&'static str> {
    let beside = |t| {
        !matches!(t, rtype::CNAME | rtype::RRSIG | rtype::NSEC | rtype::NSEC3 | rtype::KEY | rtype::SIG | rtype::NXT)
    };
    if flags & node::CNAME != 0 && records.clone().any(|r| beside(r.rtype)) {
        return Some("other data stands beside a CNAME");
    }
    if distinct(records.clone(), rtype::CNAME) > 1 {
        return Some("more than one CNAME");
    }
    (distinct(records, rtype::DNAME) > 1).then_some("more than one DNAME (RFC 6672 section 2.4)")
}

/// What is missing at an apex.
pub(crate) fn apex_fault<'a>(records: impl Iterator<Item = Rr<'a>> + Clone) -> Option<&'static str> {
    let iterations = |r: Rr<'_>| r.rdata.get(2..4).map_or(0, |i| u16::from_be_bytes([i[0], i[1]]));
    if records.clone().any(|r| r.rtype == rtype::NSEC3PARAM && iterations(r) > ITERATIONS_MAX) {
        return Some("NSEC3 with more than 2,500 iterations (RFC 5155 section 10.3; RFC 9276 asks for 0)");
    }
    match (distinct(records.clone(), rtype::SOA), distinct(records, rtype::NS)) {
        (0, _) => Some("there is no SOA record at the zone's apex"),
        (2.., _) => Some("there is more than one SOA record at the zone's apex"),
        (_, 0) => Some("there is no NS record at the zone's apex"),
        _ => None,
    }
}

fn distinct<'a>(records: impl Iterator<Item = Rr<'a>>, rtype: Rtype) -> usize {
    let all: HashSet<&[u8]> = records.filter(|r| r.rtype == rtype).map(|r| r.rdata).collect();
    match all.len() {
        few @ ..2 => few,
        _ => all.into_iter().map(|rdata| folded(rtype, rdata)).collect::<HashSet<_>>().len(),
    }
}
