//! A record by itself: owner, type, TTL and rdata in uncompressed wire form; the class is always IN.
//!
//! Invariant: the owner is a well-formed name in lower case, so that records compare octet for octet; rdata keeps its
//! case, as zones do.

pub use image::edit::Record as Bare;
use std::cmp::Ordering;
use wire::Rtype;
use wire::name::{canonical_cmp, fold, wire_len};
use wire::rtype::SOA;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    owner: Box<[u8]>,
    pub rtype: Rtype,
    pub ttl: u32,
    rdata: Box<[u8]>,
}

impl Record {
    /// None: the owner is no name, or the rdata is longer than a record can say.
    pub fn new(owner: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8]) -> Option<Record> {
        if wire_len(owner) != Some(owner.len()) || rdata.len() > usize::from(u16::MAX) {
            return None;
        }
        let mut owner: Box<[u8]> = owner.into();
        fold(&mut owner);
        Some(Record { owner, rtype, ttl, rdata: rdata.into() })
    }

    /// A record of this owner. None: that is no name.
    pub fn of(owner: &[u8], bare: Bare) -> Option<Record> {
        Some(Record { rdata: bare.rdata, ..Record::new(owner, bare.rtype, bare.ttl, &[])? })
    }

    /// It without its owner.
    pub fn bare(&self) -> Bare {
        Bare { rtype: self.rtype, ttl: self.ttl, rdata: self.rdata.clone() }
    }

    pub fn owner(&self) -> &[u8] {
        &self.owner
    }

    pub fn rdata(&self) -> &[u8] {
        &self.rdata
    }

    /// The record in canonical form.
    pub fn folded(&self) -> Record {
        Record { rdata: folded(self.rtype, &self.rdata), ..self.clone() }
    }

    /// Where it stands beside another record of its owner.
    pub(crate) fn cmp_bare(&self, other: &Bare) -> Ordering {
        let order = (self.rtype, &*self.rdata, self.ttl);
        order.cmp(&(other.rtype, &*other.rdata, other.ttl))
    }

    /// About what it takes in memory.
    pub(crate) fn octets(&self) -> usize {
        self.owner.len() + self.rdata.len() + size_of::<Record>()
    }

    /// The same record but for its TTL, names within rdata compared without regard to case (RFC 2136 section 1.1.1).
    pub fn is_like(&self, other: &Record) -> bool {
        self.owner == other.owner && self.rtype == other.rtype && is_same_rdata(self.rtype, &self.rdata, &other.rdata)
    }
}

/// By canonical order of the owner, then type, then rdata (RFC 4034 section 6), then TTL.
impl Ord for Record {
    fn cmp(&self, other: &Record) -> Ordering {
        // Mostly it is the same one, octet for octet.
        let by_owner =
            if self.owner == other.owner { Ordering::Equal } else { canonical_cmp(&self.owner, &other.owner) };
        by_owner
            .then_with(|| self.rtype.cmp(&other.rtype))
            .then_with(|| self.rdata.cmp(&other.rdata))
            .then_with(|| self.ttl.cmp(&other.ttl))
    }
}
impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Record) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether rdata is the same, names in it compared without regard to case where the type's names are (RFC 4034 section 6.2).
pub fn is_same_rdata(rtype: Rtype, a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return true;
    }
    if a.len() != b.len() || !a.eq_ignore_ascii_case(b) {
        return false;
    }
    folded(rtype, a) == folded(rtype, b)
}

/// Rdata in canonical form: what `Record::is_like` compares.
pub fn folded(rtype: Rtype, rdata: &[u8]) -> Box<[u8]> {
    let mut rdata: Box<[u8]> = rdata.into();
    zonefile::rdata::canonicalise(rtype, &mut rdata);
    rdata
}

/// What a TTL counts for (RFC 2181 section 8): nothing if its first bit is set. No zone file has such a one.
pub fn counted(ttl: u32) -> u32 {
    if ttl >> 31 == 0 { ttl } else { 0 }
}

/// The serial of an SOA's rdata.
pub fn serial_of(soa: &[u8]) -> Option<u32> {
    let at = soa.len().checked_sub(20)?;
    soa.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

/// An SOA's rdata with another serial.
pub fn with_serial(soa: &[u8], serial: u32) -> Vec<u8> {
    let mut rdata = soa.to_vec();
    if let Some(place) = rdata.len().checked_sub(20).and_then(|at| rdata.get_mut(at..at + 4)) {
        place.copy_from_slice(&serial.to_be_bytes());
    }
    rdata
}

/// An SOA with another serial; of others the record as it is.
pub fn renumbered(r: Record, serial: u32) -> Record {
    let soa = || Record::new(r.owner(), SOA, r.ttl, &with_serial(r.rdata(), serial));
    if r.rtype == SOA { soa().unwrap_or(r) } else { r }
}

/// RFC 1982 section 3.2: whether `a` comes after `b`. Of two serials exactly 2^31 apart neither does.
pub fn is_newer(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

/// The serial after `serial`; 0 is left out, for old software takes it for "none" (RFC 2136 section 7.11).
pub fn next_serial(serial: u32) -> u32 {
    serial.wrapping_add(1).max(1)
}

/// This serial or, where one of these digests states it, the next that none does: a version must not have the serial of a digest of another
/// one, for that is believed to be its own (RFC 8976 section 4).
pub fn apart_from<'r>(serial: u32, digests: impl Iterator<Item = &'r [u8]> + Clone) -> u32 {
    let is_stated = |serial: u32| digests.clone().any(|rdata| rdata.get(..4) == Some(&serial.to_be_bytes()));
    let mut apart = serial;
    while is_stated(apart) {
        apart = next_serial(apart);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::rtype::{NS, TXT};

    #[test]
    fn names_in_rdata_compare_without_case_and_texts_with_it() {
        assert!(is_same_rdata(NS, b"\x02ns\x01A\0", b"\x02NS\x01a\0"));
        assert!(!is_same_rdata(NS, b"\x02ns\x01A\0", b"\x02ns\x01b\0"));
        assert!(!is_same_rdata(TXT, b"\x01a", b"\x01A"));
    }

    #[test]
    fn serials_are_a_circle() {
        for (a, b, newer) in [
            (2, 1, true),
            (1, 2, false),
            (1, 1, false),
            (0, u32::MAX, true),
            (1 << 31, 0, false),
            (0, 1 << 31, false),
            ((1 << 31) - 1, 0, true),
        ] {
            assert_eq!(is_newer(a, b), newer, "{a} after {b}");
        }
        assert_eq!([next_serial(7), next_serial(u32::MAX)], [8, 1]);
    }

    #[test]
    fn what_is_no_record_is_not_made() {
        assert!(Record::new(b"\x01a", 1, 0, b"").is_none());
        assert!(Record::new(b"\x01a\0b", 1, 0, b"").is_none());
        assert!(Record::new(b"\0", 1, 0, &vec![0; 65_536]).is_none());
        assert_eq!(
            Record::new(b"\x01A\0", 1, 0, b"Ab").map(|r| (r.owner().to_vec(), r.rdata().to_vec())),
            Some((b"\x01a\0".to_vec(), b"Ab".to_vec()))
        );
    }
}
