//! A node: one owner name of one zone, and where its RRsets are.
//!
//! ```text
//! 0 name length u8 | RRsets u8 | flags u16 (the upper 8 bits: units that follow this node and belong to it alone)
//! 4 head u32       a cut: the unit of its NS; an apex: the unit of its negative answers; else: the wildcard below, or 0
//! 8 name, lower case | to a multiple of 4 | an apex: zone number u32, wildcard below u32 | RRsets: (unit u32, type u16, 0 u16)...
//! ```

use crate::format::{ALIGN, Damaged, u32_at};
use crate::unit::Unit;
use crate::view::View;
use crate::zone::Zone;
use wire::Rtype;

/// A delegation: NS and not an apex. The walk ends here.
pub const CUT: u16 = 1;
pub const APEX: u16 = 2;
/// Not a name of any zone: it only leads to an apex deeper down.
pub const ABOVE: u16 = 4;
/// Below a cut or a DNAME, or the owner of an NSEC3: data, but no name that can be asked for.
pub const HIDDEN: u16 = 8;
pub const DNAME: u16 = 16;
pub const CNAME: u16 = 32;
/// An apex of ours lies below, so that the walk must go on past a cut or a DNAME here.
pub const DEEPER: u16 = 64;

#[derive(Clone, Copy)]
pub struct Node<'a> {
    view: View<'a>,
    at: usize,
    /// The fixed part, read once.
    fixed: [u8; 8],
}

impl<'a> Node<'a> {
    /// The node that a reference names. Its fixed part lies within the image; the rest is checked where it is read.
    #[inline(always)]
    pub(crate) fn at(view: View<'a>, reference: u32) -> Result<Node<'a>, Damaged> {
        let at = reference as usize * ALIGN;
        match view.bytes.get(at..).and_then(|b| b.first_chunk::<8>()) {
            Some(&fixed) if reference != 0 => Ok(Node { view, at, fixed }),
            _ => Err(Damaged),
        }
    }

    #[inline(always)]
    pub fn reference(&self) -> u32 {
        (self.at / ALIGN) as u32
    }

    /// The octets that should be a name: for comparing with one.
    #[inline(always)]
    pub(crate) fn octets(&self) -> Result<&'a [u8], Damaged> {
        self.view.bytes.get(self.at + 8..self.at + 8 + self.name_len()).ok_or(Damaged)
    }

    /// The owner name, known to be well-formed.
    pub fn name(&self) -> Result<&'a [u8], Damaged> {
        let octets = self.octets()?;
        if wire::name::wire_len(octets) == Some(octets.len()) { Ok(octets) } else { Err(Damaged) }
    }

    #[inline(always)]
    pub fn flags(&self) -> u16 {
        u16::from_le_bytes([self.fixed[2], self.fixed[3]])
    }

    #[inline(always)]
    pub fn is(&self, flag: u16) -> bool {
        self.flags() & flag != 0
    }

    #[inline(always)]
    pub fn name_len(&self) -> usize {
        self.fixed[0] as usize
    }

    #[inline(always)]
    fn words_at(&self) -> usize {
        self.at + (8 + self.name_len()).next_multiple_of(4)
    }

    #[inline(always)]
    pub fn head(&self) -> u32 {
        u32::from_le_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]])
    }

    /// The number of the zone whose apex this is.
    pub fn zone_number(&self) -> Result<u32, Damaged> {
        if self.is(APEX) { u32_at(self.view.bytes, self.words_at()) } else { Err(Damaged) }
    }

    /// The zone whose apex this is.
    pub fn zone(&self) -> Result<Zone<'a>, Damaged> {
        self.view.zone(self.zone_number()?)
    }

    /// The wildcard right below this name.
    #[inline(always)]
    pub fn wildcard(&self) -> Result<Option<Node<'a>>, Damaged> {
        let flags = self.flags();
        let reference = match flags & (APEX | CUT) {
            0 => self.head(),
            CUT => 0,
            _ => u32_at(self.view.bytes, self.words_at() + 4)?,
        };
        if reference == 0 { Ok(None) } else { Node::at(self.view, reference).map(Some) }
    }

    #[inline(always)]
    fn directory(&self) -> (usize, usize) {
        (self.words_at() + if self.is(APEX) { 8 } else { 0 }, self.fixed[1] as usize)
    }

    /// The directory: a unit and its type each.
    #[inline(always)]
    fn entries(&self) -> Result<&'a [[u8; 8]], Damaged> {
        let (at, n) = self.directory();
        self.view.bytes.get(at..at + 8 * n).map(|d| d.as_chunks::<8>().0).ok_or(Damaged)
    }

    /// The RRset of a type.
    #[inline(always)]
    pub fn rrset(&self, rtype: Rtype) -> Result<Option<Unit<'a>>, Damaged> {
        for entry in self.entries()? {
            if entry_type(entry) == rtype {
                return Unit::at(self.view, entry_unit(entry)).map(Some);
            }
        }
        Ok(None)
    }

    /// The reference of the RRset of `rtype`, else of a CNAME, else 0. One pass, for the hot path.
    #[inline(always)]
    pub fn rrset_or_alias(&self, rtype: Rtype) -> Result<(u32, Rtype), Damaged> {
        let mut alias = (0, 0);
        for entry in self.entries()? {
            let found = entry_type(entry);
            if found == rtype {
                return Ok((entry_unit(entry), found));
            }
            if found == wire::rtype::CNAME {
                alias = (entry_unit(entry), found);
            }
        }
        Ok(alias)
    }

    /// All RRsets, in the order of their types.
    pub fn rrsets(&self) -> impl Iterator<Item = Result<(Rtype, Unit<'a>), Damaged>> + use<'a> {
        let view = self.view;
        self.entries().unwrap_or_default().iter().map(move |e| Ok((entry_type(e), Unit::at(view, entry_unit(e))?)))
    }

    /// Where the next node of the zone begins: behind this one and the units that belong to it alone.
    pub(crate) fn next(&self) -> Result<usize, Damaged> {
        let (at, n) = self.directory();
        let mut end = (at + 8 * n).next_multiple_of(ALIGN);
        for _ in 0..self.flags() >> 8 {
            end += Unit::at(self.view, (end / ALIGN) as u32)?.size().next_multiple_of(ALIGN);
        }
        Ok(end)
    }
}

#[inline(always)]
fn entry_unit(entry: &[u8; 8]) -> u32 {
    u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]])
}

#[inline(always)]
fn entry_type(entry: &[u8; 8]) -> Rtype {
    u16::from_le_bytes([entry[4], entry[5]])
}
