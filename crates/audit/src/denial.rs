//! The chain of NSEC: from each name of the zone to the next, with the types that are there. NSEC3 is in `nsec3.rs`.

use crate::fault::Fault;
use crate::name::Sets;
use crate::nsec3::Nsec3;
use crate::report::{Report, text};
use crate::walk::Place;
use image::Sorted;
use wire::name::wire_len;
use wire::rtype::{self, Rtype};

pub(crate) enum Denial<'a> {
    None,
    Nsec(Nsec<'a>),
    Nsec3(Nsec3<'a>),
}

impl<'a> Denial<'a> {
    /// By what the apex of a signed zone has.
    pub(crate) fn of(apex: &'a [u8], sets: &Sets<'a>, is_part: bool, report: &mut Report) -> Denial<'a> {
        if sets.has(rtype::NSEC) {
            return Denial::Nsec(Nsec { apex, is_part, last: None });
        }
        match Nsec3::of(apex, sets) {
            Some(_) if is_part => Denial::None,
            Some(nsec3) => Denial::Nsec3(nsec3),
            None => {
                report.add(Fault::NoDenial, apex, None, String::new);
                Denial::None
            }
        }
    }

    pub(crate) fn on_name(&mut self, name: &'a [u8], place: Place, sets: &Sets<'a>, report: &mut Report) {
        match self {
            Denial::None => {}
            Denial::Nsec(nsec) => nsec.on_name(name, place, sets, report),
            Denial::Nsec3(nsec3) => nsec3.on_name(name, place, sets, report),
        }
    }

    pub(crate) fn end(self, zone: &Sorted<'a>, report: &mut Report) {
        match self {
            Denial::None => {}
            Denial::Nsec(nsec) => nsec.expect(nsec.apex, report),
            Denial::Nsec3(nsec3) => nsec3.end(zone, report),
        }
    }
}

pub(crate) struct Nsec<'a> {
    apex: &'a [u8],
    is_part: bool,
    /// The last name that had an NSEC, and to where it leads.
    last: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> Nsec<'a> {
    fn on_name(&mut self, name: &'a [u8], place: Place, sets: &Sets<'a>, report: &mut Report) {
        let nsec = sets.of(rtype::NSEC).first();
        if place == Place::Below || sets.has_only(&[rtype::NSEC3, rtype::RRSIG]) {
            if nsec.is_some() {
                report.add(Fault::NsecExtra, name, Some(rtype::NSEC), String::new);
            }
            return;
        }
        let Some(nsec) = nsec else {
            report.add(Fault::NoNsec, name, None, String::new);
            // What leads here leads rightly, and what follows is not its fault.
            self.last = self.last.filter(|(_, next)| !next.eq_ignore_ascii_case(name));
            return;
        };
        self.expect(name, report);
        let len = wire_len(nsec.rdata).unwrap_or(0);
        let (next, bitmap) = nsec.rdata.split_at_checked(len).unwrap_or_default();
        self.last = Some((name, next));
        if !types(bitmap).eq(there(sets, place)) {
            report.add(Fault::NsecBitmap, name, Some(rtype::NSEC), String::new);
        }
    }

    fn expect(&self, name: &[u8], report: &mut Report) {
        if let Some((owner, next)) = self.last.filter(|_| !self.is_part)
            && !next.eq_ignore_ascii_case(name)
        {
            let detail = || format!("it leads to {}, and next is {}", text(next), text(name));
            report.add(Fault::NsecChain, owner, Some(rtype::NSEC), detail);
        }
    }
}

/// The types of a name that its NSEC or NSEC3 is to list, in their order.
pub(crate) fn there(sets: &Sets<'_>, place: Place) -> impl Iterator<Item = Rtype> {
    let is_told = move |t: &Rtype| {
        let at_cut = [rtype::NS, rtype::DS, rtype::NSEC, rtype::RRSIG].contains(t);
        *t != rtype::NSEC3 && (place != Place::Cut || at_cut)
    };
    sets.iter().map(|set| set[0].rtype).filter(is_told)
}

/// The types that a bitmap lists, in their order (RFC 4034 section 4.1.2). Ends where it is malformed.
pub(crate) fn types(bitmap: &[u8]) -> impl Iterator<Item = Rtype> {
    let mut rest = bitmap;
    let windows = std::iter::from_fn(move || {
        let [window, len, after @ ..] = rest else { return None };
        let (bits, after) = after.split_at_checked(usize::from(*len))?;
        rest = after;
        Some((u16::from(*window) << 8, bits))
    });
    windows.flat_map(|(base, bits)| {
        let octets = bits.iter().zip(0u16..);
        octets.flat_map(move |(&octet, i)| {
            (0..8).filter(move |bit| octet & 0x80 >> bit != 0).map(move |bit| base + 8 * i + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_a_bitmap() {
        let text = "example. A MX RRSIG NSEC TYPE1234";
        let rdata = zonefile::rdata::from_str(rtype::NSEC, text, &wire::Name::ROOT).unwrap();
        assert_eq!(types(&rdata[9..]).collect::<Vec<_>>(), [1, 15, 46, 47, 1234]);
        assert_eq!(types(&rdata[9..rdata.len() - 1]).collect::<Vec<_>>(), [1, 15, 46, 47]);
    }
}
