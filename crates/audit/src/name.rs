//! The records of one name, by type. One value serves for name after name, so that nothing is allocated for each.

use image::Rr;
use wire::rtype::{self, Rtype};

#[derive(Default)]
pub(crate) struct Sets<'a> {
    /// By type, then by rdata.
    records: Vec<Rr<'a>>,
    /// Of each type the TTL of the record that was given first: it is the RRset's where it is served.
    ttls: Vec<(Rtype, u32)>,
    /// A bit for each type below 64 that is there.
    low: u64,
}

impl<'a> Sets<'a> {
    /// Takes the records of a name in place of those of the last one.
    pub(crate) fn fill(&mut self, records: impl Iterator<Item = Rr<'a>>) {
        self.records.clear();
        self.ttls.clear();
        self.low = 0;
        for rr in records {
            if self.ttls.iter().all(|(rtype, _)| *rtype != rr.rtype) {
                self.ttls.push((rr.rtype, rr.ttl));
            }
            if rr.rtype < 64 {
                self.low |= 1 << rr.rtype;
            }
            self.records.push(rr);
        }
        self.records.sort_unstable_by_key(|r| (r.rtype, r.rdata));
    }

    /// What all of an RRset are served with (RFC 2181 section 5.2).
    pub(crate) fn ttl(&self, rtype: Rtype) -> u32 {
        self.ttls.iter().find(|(of, _)| *of == rtype).map_or(0, |(_, ttl)| *ttl)
    }

    pub(crate) fn has(&self, rtype: Rtype) -> bool {
        if rtype < 64 { self.low & 1 << rtype != 0 } else { !self.of(rtype).is_empty() }
    }

    pub(crate) fn has_addresses(&self) -> bool {
        self.low & (1 << rtype::A | 1 << rtype::AAAA) != 0
    }

    /// True if it has no types but these, all of them below 64.
    pub(crate) fn has_only(&self, types: &[Rtype]) -> bool {
        let allowed = types.iter().fold(0u64, |all, t| all | 1 << t);
        self.low & !allowed == 0 && self.records.last().is_none_or(|r| r.rtype < 64)
    }

    pub(crate) fn of(&self, rtype: Rtype) -> &[Rr<'a>] {
        let from = self.records.partition_point(|r| r.rtype < rtype);
        let to = self.records.partition_point(|r| r.rtype <= rtype);
        self.records.get(from..to).unwrap_or(&[])
    }

    /// The RRsets in the order of their types.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Rr<'a>]> {
        self.records.chunk_by(|a, b| a.rtype == b.rtype)
    }

    /// How many different records of a type there are: capitals in names make no difference.
    pub(crate) fn distinct(&self, rtype: Rtype) -> usize {
        image::distinct(rtype, self.of(rtype))
    }
}

/// The type that a signature is over.
pub(crate) fn covered(signature: &Rr<'_>) -> Rtype {
    signature.rdata.first_chunk::<2>().map_or(0, |t| u16::from_be_bytes(*t))
}

/// The ends of a name below another one, nearest first, without the name itself and without the other.
pub(crate) fn ends_between<'n>(name: &'n [u8], above: &[u8]) -> impl Iterator<Item = &'n [u8]> {
    let (mut rest, stop) = (name, above.len());
    std::iter::from_fn(move || {
        let label = *rest.first()? as usize;
        rest = rest.get(label + 1..)?;
        (rest.len() > stop).then_some(rest)
    })
}
