//! A node: one owner name of one zone, and where its RRsets are.
//!
//! ```text
//! 0 name length u8 | RRsets in the directory u8 | flags u16
//! 4 head u32, if the flags say so. A cut: the unit of its NS; an apex: the unit of its SOA; else: the wildcard right below
//!   name, lower case: an apex and what lies above all zones the whole name, the others the labels below the apex
//!   an apex: zone number u32 | wildcard right below, or 0 u32 | TTL of negative answers u32 |
//!            octets of all nodes of the zone with their units / 4 u32
//!   directory of the RRsets, but for that of the head: (type u16, place u16)... in the order of types
//!   references of units that stand elsewhere: u32...
//! ```
//!
//! The units that belong to the node alone follow it, in the order of their types. So a place is how many times 4 octets a unit
//! stands behind the node's beginning; from 0xFF00 on it is the number of a reference behind the directory. A unit like one
//! that stood before is stored once, so a head that leads backwards is not the node's own.

use crate::format::{ALIGN, Damaged};
use crate::unit::Unit;
use crate::view::View;
use crate::zone::Zone;
use std::cmp::Ordering;
use wire::name::{LABEL_MAX, canonical_cmp};
use wire::rtype::{self, Rtype};

/// A delegation: NS and not an apex. The walk ends here.
pub const CUT: u16 = 1;
pub const APEX: u16 = 2;
/// Not a name of any zone: it only leads to an apex deeper down.
pub const ABOVE: u16 = 4;
/// Below a cut, a DNAME or the apex of another zone, or the owner of an NSEC3: data, but no name that can be asked for.
pub const HIDDEN: u16 = 8;
pub const DNAME: u16 = 16;
pub const CNAME: u16 = 32;
/// An apex of ours lies below, so that the walk must go on past a cut or a DNAME here.
pub const DEEPER: u16 = 64;
/// There is a head.
pub const HEAD: u16 = 128;
/// In an overlay only: the name is no more.
pub const GONE: u16 = 256;
/// In an overlay only: an apex of a zone of which only some names have changed. Its last word leads to the apex that the
/// others follow.
pub const EDITED: u16 = 512;
/// In an overlay only: what a zone has at the apex of another zone of ours below it. That one is asked for the name; this one
/// answers for DS, and denies.
pub const OTHERS: u16 = 1024;
/// Hidden by the apex of another zone of ours alone: to its own zone, which does not delegate there, a name like any other.
pub const NESTED: u16 = 2048;
/// What the index does not lead to.
pub(crate) const UNSEEN: u16 = GONE | HIDDEN | OTHERS;

/// Whether what has these flags is a name of its zone: it counts in NSEC, and makes those above it be there (RFC 4592 section 2.2.2).
/// What lies below a cut or a DNAME does not, nor does the owner of an NSEC3.
#[inline(always)]
pub(crate) fn is_name(flags: u16) -> bool {
    flags & (HIDDEN | NESTED) != HIDDEN
}

/// Octets of the fixed part, without the head.
pub(crate) const FIXED: usize = 4;
/// Octets that only an apex has.
pub(crate) const APEX_WORDS: usize = 16;
pub(crate) const ENTRY: usize = 4;
/// The first place that is the number of a reference.
pub(crate) const ELSEWHERE: u16 = 0xFF00;

/// The zone of the names that are looked for: its nodes lie within `extent` of the apex.
#[derive(Clone, Copy)]
pub struct Scope {
    apex: u32,
    extent: u32,
    apex_len: usize,
    zone: u32,
}

/// The number of no zone.
pub(crate) const NO_ZONE: u32 = u32::MAX;

impl Scope {
    /// No zone: there are apexes, and names above them.
    pub const NONE: Scope = Scope { apex: 0, extent: 0, apex_len: 0, zone: NO_ZONE };
}

/// What answers need of an apex, read at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apex {
    /// 0: this is no apex of ours.
    pub reference: u32,
    pub name_len: u8,
    /// The unit of its SOA.
    pub soa: u32,
    zone: u32,
    /// The wildcard right below, or 0.
    pub wildcard: u32,
    /// With which the zone denies (RFC 2308 section 3).
    pub negative_ttl_s: u32,
    /// How far the nodes of its zone reach, in units of references.
    extent: u32,
}

#[derive(Clone, Copy)]
pub struct Node<'a> {
    view: View<'a>,
    at: usize,
    /// The fixed part and the head, read once, as a number: octets would be kept each by itself.
    fixed: u64,
}

impl<'a> Node<'a> {
    /// The node that a reference names. Its fixed part lies within the image; the rest is checked where it is read.
    #[inline(always)]
    pub(crate) fn at(view: View<'a>, reference: u32) -> Result<Node<'a>, Damaged> {
        let at = reference as usize * ALIGN;
        match view.chunk(at) {
            Ok(&fixed) if reference != 0 => Ok(Node { view, at, fixed: u64::from_le_bytes(fixed) }),
            _ => Err(Damaged),
        }
    }

    #[inline(always)]
    pub fn reference(&self) -> u32 {
        (self.at / ALIGN) as u32
    }

    /// The octets that should be a name, or labels below the apex.
    #[inline(always)]
    pub(crate) fn octets(&self) -> Result<&'a [u8], Damaged> {
        self.view.octets(self.name_at(), self.name_len())
    }

    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        self.is(APEX | ABOVE)
    }

    /// Whether this is the node of a name that is looked for in a zone.
    #[inline(always)]
    pub(crate) fn is_named(&self, folded: &[u8], scope: Scope) -> Result<bool, Damaged> {
        let octets = self.octets()?;
        if self.is_whole() {
            return Ok(octets == folded);
        }
        let is_of_zone = self.reference().wrapping_sub(scope.apex) < scope.extent;
        Ok(is_of_zone && folded.len() == octets.len() + scope.apex_len && folded.starts_with(octets))
    }

    /// The same for a node of an overlay, which is not told by its place.
    pub(crate) fn is_named_in(&self, zone: u32, folded: &[u8], scope: Scope) -> Result<bool, Damaged> {
        let octets = self.octets()?;
        if self.is_whole() {
            return Ok(octets == folded);
        }
        Ok(zone == scope.zone && folded.len() == octets.len() + scope.apex_len && folded.starts_with(octets))
    }

    /// How this node and another one of the same zone stand to one another in canonical order. Names that only lead to
    /// apexes stand behind all others.
    pub(crate) fn order(&self, other: &Node<'_>) -> Result<Ordering, Damaged> {
        let by_labels = labels_order(self.labels()?, other.labels()?);
        Ok(self.is(ABOVE).cmp(&other.is(ABOVE)).then(by_labels))
    }

    /// All labels that the node has of its name, known to be well-formed.
    fn labels(&self) -> Result<&'a [u8], Damaged> {
        if !self.is(ABOVE) {
            return self.labels_below();
        }
        self.whole_name()?.and_then(|name| name.split_last()).map(|(_, labels)| labels).ok_or(Damaged)
    }

    /// How this node stands to the name with these labels below the apex.
    pub(crate) fn order_of(&self, labels: &[u8]) -> Result<Ordering, Damaged> {
        if self.is(ABOVE) { Ok(Ordering::Greater) } else { Ok(labels_order(self.labels_below()?, labels)) }
    }

    /// The apex that the nodes of an apex's zone follow: itself, unless the zone has been edited.
    #[inline(always)]
    pub(crate) fn first(&self) -> Result<Node<'a>, Damaged> {
        if self.is(EDITED) { Node::at(self.view, self.extent()?) } else { Ok(*self) }
    }

    /// The whole name of a node that has it: an apex, or what lies above all zones.
    pub(crate) fn whole_name(&self) -> Result<Option<&'a [u8]>, Damaged> {
        let octets = self.octets()?;
        let is_name = self.is_whole() && wire::name::wire_len(octets) == Some(octets.len());
        Ok(is_name.then_some(octets))
    }

    /// The name of an apex, known to be well-formed.
    pub fn apex_name(&self) -> Result<&'a [u8], Damaged> {
        let octets = self.octets()?;
        let is_name = self.is(APEX) && wire::name::wire_len(octets) == Some(octets.len());
        if is_name { Ok(octets) } else { Err(Damaged) }
    }

    /// The labels below the apex, known to be well-formed. An apex has none.
    pub fn labels_below(&self) -> Result<&'a [u8], Damaged> {
        if self.is(APEX) {
            return Ok(&[]);
        }
        let octets = self.octets()?;
        let mut rest = octets;
        while let Some(&len) = rest.first() {
            let is_label = (1..=LABEL_MAX).contains(&(len as usize));
            rest = rest.get(1 + len as usize..).filter(|_| is_label).ok_or(Damaged)?;
        }
        Ok(octets)
    }

    /// What only an apex has.
    #[inline(always)]
    pub fn apex(&self) -> Result<Apex, Damaged> {
        if !self.is(APEX) {
            return Err(Damaged);
        }
        let words = self.view.chunk::<APEX_WORDS>(self.words_at())?;
        let [zone, wildcard, negative_ttl_s, extent] = words.as_chunks().0 else { return Err(Damaged) };
        Ok(Apex {
            reference: self.reference(),
            name_len: self.fixed as u8,
            soa: self.head(),
            zone: u32::from_le_bytes(*zone),
            wildcard: u32::from_le_bytes(*wildcard),
            negative_ttl_s: u32::from_le_bytes(*negative_ttl_s),
            extent: u32::from_le_bytes(*extent),
        })
    }

    /// The zone whose apex this is, for looking up names in it.
    pub(crate) fn scope(&self) -> Result<Scope, Damaged> {
        self.scope_of(&self.apex()?)
    }

    /// The same, once `apex` has been read.
    #[inline(always)]
    pub fn scope_of(&self, apex: &Apex) -> Result<Scope, Damaged> {
        let (zone, apex_len) = (apex.zone, apex.name_len as usize);
        if self.is(EDITED) {
            let first = self.first()?;
            return Ok(Scope { apex: first.reference(), extent: first.extent()?, apex_len, zone });
        }
        Ok(Scope { apex: apex.reference, extent: apex.extent, apex_len, zone })
    }

    #[inline(always)]
    pub fn flags(&self) -> u16 {
        (self.fixed >> 16) as u16
    }

    /// False for what lies below a cut or a DNAME, and for owners of NSEC3: data of the zone, but no name of it.
    pub fn is_name(&self) -> bool {
        is_name(self.flags())
    }

    #[inline(always)]
    pub fn is(&self, flag: u16) -> bool {
        self.flags() & flag != 0
    }

    /// Octets of the name; but for an apex only of what stands below that.
    #[inline(always)]
    pub fn name_len(&self) -> usize {
        self.fixed as u8 as usize
    }

    #[inline(always)]
    fn name_at(&self) -> usize {
        self.at + FIXED + usize::from((self.flags() & HEAD) >> 5)
    }

    #[inline(always)]
    pub(crate) fn words_at(&self) -> usize {
        self.name_at() + self.name_len()
    }

    /// What the node leads to: a cut or an apex to a unit, others to a wildcard. It has one if the flags say so.
    #[inline(always)]
    pub fn head(&self) -> u32 {
        (self.fixed >> 32) as u32
    }

    /// The number of the zone whose apex this is.
    pub fn zone_number(&self) -> Result<u32, Damaged> {
        if self.is(APEX) { self.view.u32_at(self.words_at()) } else { Err(Damaged) }
    }

    /// The zone whose apex this is.
    pub fn zone(&self) -> Result<Zone<'a>, Damaged> {
        let zone = self.view.zone(self.zone_number()?)?;
        if zone.apex_reference()? == self.reference() { Ok(zone) } else { Err(Damaged) }
    }

    /// The wildcard right below this name, or 0. What an apex says of it is part of `Apex`.
    #[inline(always)]
    pub fn wildcard(&self) -> u32 {
        if self.flags() & (APEX | CUT | HEAD) == HEAD { self.head() } else { 0 }
    }

    /// How far the nodes of the apex's zone reach, in units of references.
    #[inline(always)]
    pub(crate) fn extent(&self) -> Result<u32, Damaged> {
        if self.is(APEX) { self.view.u32_at(self.words_at() + 12) } else { Err(Damaged) }
    }

    #[inline(always)]
    fn directory(&self) -> (usize, usize) {
        (self.words_at() + if self.is(APEX) { APEX_WORDS } else { 0 }, (self.fixed >> 8) as u8 as usize)
    }

    /// The directory: a type and a place each.
    #[inline(always)]
    fn entries(&self) -> Result<&'a [[u8; ENTRY]], Damaged> {
        let (at, n) = self.directory();
        self.view.octets(at, ENTRY * n).map(|d| d.as_chunks::<ENTRY>().0)
    }

    /// The places of the directory, and where the references behind it stand.
    pub(crate) fn places(&self) -> Result<(impl Iterator<Item = u16> + use<'a>, usize), Damaged> {
        let (at, n) = self.directory();
        Ok((self.entries()?.iter().map(entry_place), at + ENTRY * n))
    }

    /// The reference that a place stands for.
    #[inline(always)]
    fn unit_at(&self, place: u16) -> Result<u32, Damaged> {
        if place < ELSEWHERE {
            return Ok(self.reference() + u32::from(place));
        }
        let (at, n) = self.directory();
        self.view.u32_at(at + ENTRY * n + 4 * usize::from(place - ELSEWHERE))
    }

    /// The type and the reference of the RRset that the head leads to.
    #[inline(always)]
    fn head_rrset(&self) -> Option<(Rtype, u32)> {
        match self.flags() & (APEX | CUT) {
            0 => None,
            CUT => Some((rtype::NS, self.head())),
            _ => Some((rtype::SOA, self.head())),
        }
    }

    /// The RRset of a type.
    #[inline(always)]
    pub fn rrset(&self, rtype: Rtype) -> Result<Option<Unit<'a>>, Damaged> {
        for entry in self.entries()? {
            if entry_type(entry) == rtype {
                return Unit::at(self.view, self.unit_at(entry_place(entry))?).map(Some);
            }
        }
        let head = self.head_rrset().filter(|head| head.0 == rtype);
        head.map(|(_, reference)| Unit::at(self.view, reference)).transpose()
    }

    /// The reference of the RRset of `rtype`, else of a CNAME, else 0. One pass, for the hot path.
    #[inline(always)]
    pub fn rrset_or_alias(&self, rtype: Rtype) -> Result<(u32, Rtype), Damaged> {
        let mut alias = None;
        for entry in self.entries()? {
            let found = entry_type(entry);
            if found == rtype {
                return Ok((self.unit_at(entry_place(entry))?, found));
            }
            if found == rtype::CNAME {
                alias = Some(entry_place(entry));
            }
        }
        if let Some(place) = alias {
            return Ok((self.unit_at(place)?, rtype::CNAME));
        }
        Ok(self.head_rrset().filter(|head| head.0 == rtype).map_or((0, 0), |(rtype, reference)| (reference, rtype)))
    }

    /// All RRsets, in the order of their types.
    pub fn rrsets(&self) -> impl Iterator<Item = Result<(Rtype, Unit<'a>), Damaged>> + use<'a> {
        let node = *self;
        let mut head = self.head_rrset();
        let (entries, mut damage) = match self.entries() {
            Ok(entries) => (entries, None),
            Err(damaged) => (&[][..], Some(Err(damaged))),
        };
        let mut entries = entries.iter().peekable();
        std::iter::from_fn(move || {
            if let Some(damaged) = damage.take() {
                return Some(damaged);
            }
            let next = entries.peek().map(|e| entry_type(e));
            let found = match head.take_if(|head| next.is_none_or(|next| head.0 < next)) {
                Some((rtype, reference)) => Ok((rtype, reference)),
                None => entries.next().map(|e| Ok((entry_type(e), node.unit_at(entry_place(e))?)))?,
            };
            Some(found.and_then(|(rtype, reference)| Ok((rtype, Unit::at(node.view, reference)?))))
        })
    }

    /// Where the next node of the zone begins: behind this one and the units that belong to it alone.
    pub(crate) fn next(&self) -> Result<usize, Damaged> {
        let (at, n) = self.directory();
        let (mut own, mut elsewhere) = (0, 0);
        for place in self.entries()?.iter().map(entry_place) {
            own += usize::from(self.unit_at(place)? > self.reference());
            elsewhere += usize::from(place >= ELSEWHERE);
        }
        own += usize::from(self.head_rrset().is_some_and(|head| head.1 > self.reference()));
        let mut end = (at + ENTRY * n + 4 * elsewhere).next_multiple_of(ALIGN);
        for _ in 0..own {
            end += Unit::size_at(self.view, (end / ALIGN) as u32)?;
        }
        Ok(end)
    }
}

/// The canonical order of names by their labels below one apex.
fn labels_order(one: &[u8], two: &[u8]) -> Ordering {
    // Mostly it is one of each, or the apex.
    let is_one = |labels: &[u8]| labels.first().is_none_or(|len| usize::from(*len) + 1 == labels.len());
    if is_one(one) && is_one(two) {
        return one.get(1..).cmp(&two.get(1..));
    }
    canonical_cmp(one, two)
}

#[inline(always)]
fn entry_type(entry: &[u8; ENTRY]) -> Rtype {
    u16::from_le_bytes([entry[0], entry[1]])
}

#[inline(always)]
fn entry_place(entry: &[u8; ENTRY]) -> u16 {
    u16::from_le_bytes([entry[2], entry[3]])
}
