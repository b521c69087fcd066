//! A unit: one RRset in wire form, ready to be copied into an answer wherever it is needed.
//!
//! ```text
//! 0 octets of the records u16 | records u8 | marks u8: a bit for each part, and 16 times the octets of the fix list
//! 4 if these are said to be 15: records u16 | octets of the fix list u16, because one of them is too much for a short head
//!   for each part there is: octets u16 | records u16
//!   fix list: gaps between the pointers in the rdata, u8 each, 255 = go on and add | records | parts
//! parts: signatures | additional, needed | additional, optional | the same, signed
//! ```
//!
//! Every record begins with a pointer to its owner. In `records` and `signatures` that is 0xC00C, the question's name. A
//! pointer elsewhere is stored as it would be if the question's name had no octets at all: below 0xC00C it means the last
//! (0xC00C - value) octets of the owner, from 0xC010 on it means the place value - 0xC010 in `records`. So a unit whose
//! owner is the question's name, or a suffix of it, and which stands right behind the question, is made right by adding
//! the length of the question's name; anywhere else it takes one subtraction more. Additional records have their owners
//! in the rdata of `records`, so they need no list: their owners are found by stepping over them.

use crate::format::{ALIGN, Damaged, u16_at};
use crate::view::View;
use wire::query::HEADER;
use wire::reply::{Need, Reply, Section};

pub(crate) const HEAD: usize = 4;
/// The octets of a fix list, as a short head says them, that mean: the head is a long one.
pub(crate) const LONG: u8 = 15;
/// How many parts there are, by the bits that say which.
const PARTS: [u8; 16] = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4];
/// The pointer to the question's name.
pub(crate) const TO_QUESTION: u16 = 0xC00C;
/// The pointer to the first octet behind a question whose name has no octets.
pub(crate) const TO_RECORDS: u16 = 0xC010;
/// The farthest place that a pointer reaches.
const POINTER_MAX: usize = 0x3FFF;

#[derive(Clone, Copy)]
pub struct Unit<'a> {
    records: &'a [u8],
    fixes: &'a [u8],
    /// Of each part its octets and records.
    sizes: &'a [u8],
    /// All parts behind `records`.
    parts: &'a [u8],
    count: u16,
    /// A bit for each part.
    has: u8,
}

/// Where the owner of a placed unit stands in the message.
#[derive(Clone, Copy, Debug)]
pub enum Owner {
    /// It is the question's name from `at` on; that name ends before `end`.
    Question { at: usize, end: usize },
    /// It was written at this place, perhaps with pointers.
    Written { at: usize },
}

/// A part of a unit behind its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Signatures = 0,
    /// Addresses that a referral is useless without: in-domain glue (RFC 9471).
    Needed = 1,
    Optional = 2,
    /// `Optional` with its signatures.
    OptionalSigned = 3,
}

impl Part {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl<'a> Unit<'a> {
    #[inline(always)]
    pub(crate) fn at(view: View<'a>, reference: u32) -> Result<Unit<'a>, Damaged> {
        let at = reference as usize * ALIGN;
        match view.rest(at) {
            Some(octets) => Unit::of(octets),
            None => Unit::of(Unit::among_damage(view, at)?),
        }
    }

    /// In an image with damaged pages: all of the unit must be intact.
    #[cold]
    fn among_damage(view: View<'a>, at: usize) -> Result<&'a [u8], Damaged> {
        let [low, high, _, marks] = *view.chunk::<HEAD>(at)?;
        let (mut fix_len, mut head) = (usize::from(marks >> 4), HEAD);
        if fix_len == usize::from(LONG) {
            (fix_len, head) = (usize::from(view.u16_at(at + HEAD + 2)?), 2 * HEAD);
        }
        let sizes = 4 * usize::from(PARTS[usize::from(marks & 15)]);
        let mut size = head + sizes + fix_len + usize::from(u16::from_le_bytes([low, high]));
        for part in view.octets(at + head, sizes)?.as_chunks::<4>().0 {
            size += usize::from(u16::from_le_bytes([part[0], part[1]]));
        }
        view.octets(at, size)
    }

    /// The unit that stands first in `b`.
    #[inline(always)]
    fn of(b: &'a [u8]) -> Result<Unit<'a>, Damaged> {
        let head = b.first_chunk::<HEAD>().ok_or(Damaged)?;
        let len = u16::from_le_bytes([head[0], head[1]]) as usize;
        let (mut count, mut fix_len, mut at) = (u16::from(head[2]), (head[3] >> 4) as usize, HEAD);
        let has = head[3] & 15;
        if fix_len == LONG as usize {
            (count, fix_len, at) = (u16_at(b, HEAD)?, u16_at(b, HEAD + 2)? as usize, 2 * HEAD);
        }
        let sizes_len = 4 * PARTS[has as usize] as usize;
        let (sizes, rest) = b.get(at..).and_then(|r| r.split_at_checked(sizes_len)).ok_or(Damaged)?;
        let (fixes, rest) = rest.split_at_checked(fix_len).ok_or(Damaged)?;
        let (records, parts) = rest.split_at_checked(len).ok_or(Damaged)?;
        Ok(Unit { records, fixes, sizes, parts, count, has })
    }

    pub fn count(&self) -> u16 {
        self.count
    }

    /// The serial number, if this is a SOA: the first of the five numbers at its end.
    pub(crate) fn serial(&self) -> Result<u32, Damaged> {
        let numbers = self.records.last_chunk::<20>().ok_or(Damaged)?;
        numbers.first_chunk().map(|serial| u32::from_be_bytes(*serial)).ok_or(Damaged)
    }

    /// Octets and records of each part that there is.
    fn sizes(&self) -> impl Iterator<Item = (usize, u16)> {
        let size = |&[a, b, c, d]: &[u8; 4]| (u16::from_le_bytes([a, b]) as usize, u16::from_le_bytes([c, d]));
        self.sizes.as_chunks::<4>().0.iter().map(size)
    }

    /// Octets and number of the records of a part.
    fn part(&self, part: Part) -> Result<(&'a [u8], u16), Damaged> {
        if !self.has(part) {
            return Ok((&[], 0));
        }
        let mut sizes = self.sizes();
        let earlier = PARTS[(self.has & (part.bit() - 1)) as usize] as usize;
        let before: usize = sizes.by_ref().take(earlier).map(|s| s.0).sum();
        let (len, count) = sizes.next().ok_or(Damaged)?;
        self.parts.get(before..before + len).map(|p| (p, count)).ok_or(Damaged)
    }

    #[inline(always)]
    pub fn has(&self, part: Part) -> bool {
        self.has & part.bit() != 0
    }

    /// Octets behind the unit's head.
    fn body(&self) -> usize {
        self.sizes.len() + self.fixes.len() + self.records.len() + self.sizes().map(|s| s.0).sum::<usize>()
    }

    /// The octets of the unit at a reference, those up to the next place where one may begin included.
    pub(crate) fn size_at(view: View<'a>, reference: u32) -> Result<usize, Damaged> {
        let unit = Unit::at(view, reference)?;
        let is_long = view.octets(reference as usize * ALIGN + 3, 1)?[0] >> 4 == LONG;
        let head = if is_long { 2 * HEAD } else { HEAD };
        Ok((head + unit.body()).next_multiple_of(ALIGN))
    }

    /// Copies the records into the reply. Returns where they stand; None if they did not fit.
    #[inline(always)]
    pub fn place(
        &self,
        reply: &mut Reply<'_>,
        section: Section,
        need: Need,
        owner: Owner,
    ) -> Result<Option<usize>, Damaged> {
        if reply.at() + self.records.len() > POINTER_MAX && !self.fixes.is_empty() {
            return self.place_expanded(reply, section, need, owner);
        }
        let Some((base, placed)) = reply.records(section, need, self.records, self.count) else { return Ok(None) };
        if owner.at() != HEADER {
            fix_owners(placed, self.count, owner.at())?;
        }
        match owner.shift(base) {
            Some(shift) => self.fix_rdata(placed, shift),
            None if self.fixes.is_empty() => {}
            None => self.fix_rdata_anywhere(reply, base, owner),
        }
        Ok(Some(base))
    }

    /// Copies the records beginning with the `turn`-th. Where names lean on each other's places, because rdata holds pointers or
    /// additional records point to it, they are written out if there is room for that, and the place returned is one that no
    /// pointer reaches.
    pub fn place_turned(
        &self,
        reply: &mut Reply<'_>,
        section: Section,
        owner: Owner,
        turn: u16,
    ) -> Result<Option<usize>, Damaged> {
        let is_leant_on = !self.fixes.is_empty() || self.has(Part::Needed) || self.has(Part::Optional);
        if self.count < 2 {
            return self.place(reply, section, Need::Required, owner);
        }
        if is_leant_on {
            return self.place_turned_expanded(reply, section, owner, turn);
        }
        let mut at = 0;
        for _ in 0..turn % self.count {
            at += 12 + u16::from_be_bytes([self.octet(at + 10)?, self.octet(at + 11)?]) as usize;
        }
        let (last, first) = self.records.split_at_checked(at).ok_or(Damaged)?;
        let base = reply.at();
        if reply.append(Need::Required, first).is_none() || reply.append(Need::Required, last).is_none() {
            return Ok(None);
        }
        reply.count(section, self.count);
        fix_owners(reply.written_mut(base), self.count, owner.at())?;
        Ok(Some(base))
    }

    #[cold]
    fn place_turned_expanded(
        &self,
        reply: &mut Reply<'_>,
        section: Section,
        owner: Owner,
        turn: u16,
    ) -> Result<Option<usize>, Damaged> {
        let mut name = [0; 255];
        let name = expand(reply.written(), owner.at(), &mut name).ok_or(Damaged)?;
        let mut octets = 0;
        self.for_each(name, |_, rdata| octets += 12 + rdata.len())?;
        if octets > reply.room() {
            return self.place(reply, section, Need::Required, owner);
        }
        let first = turn % self.count;
        for some in [first..self.count, 0..first] {
            let mut at = 0;
            self.for_each(name, |fixed, rdata| {
                if some.contains(&at) {
                    append_record(reply, Need::Required, owner, fixed, rdata);
                }
                at += 1;
            })?;
        }
        reply.count(section, self.count);
        Ok(Some(POINTER_MAX))
    }

    /// Moves the pointers in the rdata of records that were placed.
    #[inline(always)]
    fn fix_rdata(&self, placed: &mut [u8], shift: u16) {
        // A fix list has at most 64 Ki gaps of 255, so this cannot wrap; and with 32 bits, `at + 2` needs no test.
        let mut at = 0u32;
        for &gap in self.fixes {
            at = at.wrapping_add(u32::from(gap));
            let place = at as usize..at as usize + 2;
            let Some(pointer) = placed.get_mut(place).and_then(|p| p.first_chunk_mut::<2>()) else { return };
            if gap != 255 {
                *pointer = u16::from_be_bytes(*pointer).wrapping_add(shift).to_be_bytes();
            }
        }
    }

    #[cold]
    fn fix_rdata_anywhere(&self, reply: &mut Reply<'_>, base: usize, owner: Owner) {
        let mut at = base;
        for &gap in self.fixes {
            at += gap as usize;
            if gap != 255 {
                let value = owner.relocate(reply.u16_at(at), base, reply);
                reply.set_u16(at, value);
            }
        }
    }

    /// Copies the signatures over this RRset.
    #[inline(always)]
    pub fn place_signatures(
        &self,
        reply: &mut Reply<'_>,
        section: Section,
        need: Need,
        owner: Owner,
    ) -> Result<(), Damaged> {
        let (octets, count) = self.part(Part::Signatures)?;
        if count == 0 {
            return Ok(());
        }
        if owner.at() > POINTER_MAX {
            return self.place_signatures_expanded(reply, section, need, owner);
        }
        if let Some((_, placed)) = reply.records(section, need, octets, count)
            && owner.at() != HEADER
        {
            fix_owners(placed, count, owner.at())?;
        }
        Ok(())
    }

    /// Copies the RRset, which is a SOA, with the TTL of a negative answer (RFC 2308 section 3).
    #[inline(always)]
    pub fn place_negative(&self, reply: &mut Reply<'_>, owner: Owner, ttl: u32, signed: bool) -> Result<(), Damaged> {
        let before = reply.at();
        self.place(reply, Section::Authority, Need::Required, owner)?;
        if signed {
            self.place_signatures(reply, Section::Authority, Need::Required, owner)?;
        }
        limit_ttls(reply.written_mut(before), ttl)
    }

    /// Copies an additional part of a unit whose records stand at `records_at`; what is optional goes in RRset by RRset.
    #[inline(always)]
    pub fn place_additional(
        &self,
        reply: &mut Reply<'_>,
        part: Part,
        records_at: usize,
        owner: Owner,
    ) -> Result<(), Damaged> {
        let (octets, count) = self.part(part)?;
        if count == 0 {
            return Ok(());
        }
        let need = if part == Part::Needed { Need::Required } else { Need::Optional };
        if records_at + self.records.len() > POINTER_MAX {
            return self.place_additional_expanded(reply, octets, count, need, owner);
        }
        let (octets, count) = if need == Need::Optional && octets.len() > reply.room() {
            reply.does_not_fit(need);
            whole_rrsets(octets, reply.room())?
        } else {
            (octets, count)
        };
        let Some((base, placed)) = reply.records(Section::Additional, need, octets, count) else { return Ok(()) };
        let Some(shift) = owner.shift(records_at) else {
            return Self::point_anywhere(reply, base, count, records_at, owner);
        };
        let mut at = 0;
        while let Some(pointer) = pointer_of(placed, &mut at) {
            *pointer = u16::from_be_bytes(*pointer).wrapping_add(shift).to_be_bytes();
        }
        if at as usize == octets.len() { Ok(()) } else { Err(Damaged) }
    }

    /// Where no pointer reaches the records, owners are written out: of all additional records or of none.
    #[cold]
    fn place_additional_expanded(
        &self,
        reply: &mut Reply<'_>,
        octets: &[u8],
        count: u16,
        need: Need,
        owner: Owner,
    ) -> Result<(), Damaged> {
        let base = reply.at();
        let mut name = [0; 255];
        let name = expand(reply.written(), owner.at(), &mut name).ok_or(Damaged)?;
        let mut rest = octets;
        while let Some(head) = rest.first_chunk::<12>() {
            let len = 12 + u16::from_be_bytes([head[10], head[11]]) as usize;
            let mut host = [0; 255];
            let n = self.push_pointed(&mut host, 0, u16::from_be_bytes([head[0], head[1]]), name)?;
            let parts: [&[u8]; 2] = [&host[..n], rest.get(2..len).ok_or(Damaged)?];
            if !parts.iter().all(|part| reply.append(need, part).is_some()) {
                reply.back_to(base);
                return Ok(());
            }
            rest = &rest[len..];
        }
        reply.count(Section::Additional, count);
        Ok(())
    }

    #[cold]
    fn point_anywhere(
        reply: &mut Reply<'_>,
        base: usize,
        count: u16,
        records_at: usize,
        owner: Owner,
    ) -> Result<(), Damaged> {
        let mut at = base;
        for _ in 0..count {
            let value = owner.relocate(reply.u16_at(at), records_at, reply);
            reply.set_u16(at, value);
            at += 12 + reply.u16_at(at + 10) as usize;
        }
        Ok(())
    }

    /// Copies the RRset, whose owner stands nowhere in the message yet: the labels below the apex
    /// are written out, and a pointer to the question's suffix of `shared` octets, which is the apex.
    pub fn place_named(
        &self,
        reply: &mut Reply<'_>,
        below: &[u8],
        shared: usize,
        name_end: usize,
        signed: bool,
    ) -> Result<(), Damaged> {
        let at = reply.at();
        let mut written = reply.append(Need::Required, below);
        if written.is_some() {
            written = if shared == 1 {
                reply.append(Need::Required, &[0])
            } else {
                reply.append(Need::Required, &(0xC000 | (name_end - shared) as u16).to_be_bytes())
            };
        }
        if written.is_none() {
            return Ok(());
        }
        let first = self.records.get(2..).ok_or(Damaged)?;
        let base = reply.at() - 2;
        if reply.records(Section::Authority, Need::Required, first, self.count).is_none() {
            return Ok(());
        }
        let owner = Owner::Written { at };
        self.fix_rdata_anywhere(reply, base, owner);
        let second = base + 12 + reply.u16_at(base + 10) as usize;
        fix_owners(reply.written_mut(second), self.count.saturating_sub(1), at)?;
        if signed { self.place_signatures(reply, Section::Authority, Need::Required, owner) } else { Ok(()) }
    }

    /// Beyond 16 KiB no pointer reaches: names in rdata are written out. Only large answers over TCP come here.
    #[cold]
    fn place_expanded(
        &self,
        reply: &mut Reply<'_>,
        section: Section,
        need: Need,
        owner: Owner,
    ) -> Result<Option<usize>, Damaged> {
        let mut name = [0; 255];
        let name = expand(reply.written(), owner.at(), &mut name).ok_or(Damaged)?;
        let base = reply.at();
        let mut fits = true;
        self.for_each(name, |fixed, rdata| fits = fits && append_record(reply, need, owner, fixed, rdata))?;
        if !fits {
            reply.back_to(base);
            return Ok(None);
        }
        reply.count(section, self.count);
        Ok(Some(base))
    }

    /// Beyond 16 KiB the owner is written out, too.
    #[cold]
    fn place_signatures_expanded(
        &self,
        reply: &mut Reply<'_>,
        section: Section,
        need: Need,
        owner: Owner,
    ) -> Result<(), Damaged> {
        let mut name = [0; 255];
        let name = expand(reply.written(), owner.at(), &mut name).ok_or(Damaged)?;
        self.for_each_signature(|fixed, rdata| {
            let parts: [&[u8]; 3] = [name, fixed, rdata];
            if parts.iter().all(|part| reply.append(need, part).is_some()) {
                reply.count(section, 1);
            }
        })
    }

    /// Each record of the RRset: type, class and TTL in wire form, and the rdata without compression.
    pub fn for_each(&self, owner: &[u8], mut f: impl FnMut(&[u8], &[u8])) -> Result<(), Damaged> {
        let mut fixes = Fixes { gaps: self.fixes.iter(), at: 0 };
        let mut fix = fixes.next();
        let mut at = 0;
        for _ in 0..self.count {
            let fixed = self.records.get(at + 2..at + 12).ok_or(Damaged)?;
            let len = u16::from_be_bytes([fixed[8], fixed[9]]) as usize;
            let rdata = self.records.get(at + 12..at + 12 + len).ok_or(Damaged)?;
            at += 12;
            let end = at + len;
            if fix.is_none_or(|x| x >= end) {
                f(fixed, rdata);
                at = end;
                continue;
            }
            // Only types of RFC 1035 are compressed: two names and 20 octets (SOA) at most.
            let mut out = [0; 2 * 255 + 20];
            let mut n = 0;
            while let Some(x) = fix.filter(|&x| x < end) {
                n = push(&mut out, n, self.records.get(at..x).ok_or(Damaged)?)?;
                n = self.push_pointed(&mut out, n, u16::from_be_bytes([self.octet(x)?, self.octet(x + 1)?]), owner)?;
                at = x + 2;
                fix = fixes.next();
            }
            n = push(&mut out, n, self.records.get(at..end).ok_or(Damaged)?)?;
            f(fixed, &out[..n]);
            at = end;
        }
        Ok(())
    }

    fn octet(&self, at: usize) -> Result<u8, Damaged> {
        self.records.get(at).copied().ok_or(Damaged)
    }

    /// Appends the name that a stored pointer means.
    fn push_pointed(&self, out: &mut [u8], mut n: usize, pointer: u16, owner: &[u8]) -> Result<usize, Damaged> {
        let mut pointer = pointer;
        for _ in 0..128 {
            if pointer < TO_RECORDS {
                let shared = TO_QUESTION.checked_sub(pointer).ok_or(Damaged)? as usize;
                let from = owner.len().checked_sub(shared).ok_or(Damaged)?;
                return push(out, n, &owner[from..]);
            }
            let mut at = pointer.checked_sub(TO_RECORDS).ok_or(Damaged)? as usize;
            loop {
                let len = self.octet(at)? as usize;
                // A stored pointer to a suffix of the owner begins with 0xBF or 0xC0: neither is a label's length.
                if len >= 0xBF {
                    pointer = u16::from_be_bytes([len as u8, self.octet(at + 1)?]);
                    break;
                }
                n = push(out, n, self.records.get(at..at + len + 1).ok_or(Damaged)?)?;
                if len == 0 {
                    return Ok(n);
                }
                at += len + 1;
            }
        }
        Err(Damaged)
    }

    /// Each signature over this RRset: type, class and TTL, and the rdata.
    pub fn for_each_signature(&self, mut f: impl FnMut(&[u8], &[u8])) -> Result<(), Damaged> {
        let (octets, count) = self.part(Part::Signatures)?;
        let mut at = 0;
        for _ in 0..count {
            let fixed = octets.get(at + 2..at + 12).ok_or(Damaged)?;
            let len = u16::from_be_bytes([fixed[8], fixed[9]]) as usize;
            f(fixed, octets.get(at + 12..at + 12 + len).ok_or(Damaged)?);
            at += 12 + len;
        }
        Ok(())
    }
}

impl Owner {
    #[inline(always)]
    pub fn at(&self) -> usize {
        match *self {
            Owner::Question { at, .. } | Owner::Written { at } => at,
        }
    }

    /// What all stored pointers of a unit grow by, if its owner ends the question's name and its records stand right
    /// behind the question: then both kinds of pointers are off by the length of that name.
    #[inline(always)]
    fn shift(&self, base: usize) -> Option<u16> {
        match *self {
            Owner::Question { end, .. } if base == end + 4 => Some((end - HEADER) as u16),
            _ => None,
        }
    }

    /// The pointer that a stored one becomes in a message where the unit's records stand at `base`.
    #[inline(always)]
    fn relocate(&self, stored: u16, base: usize, reply: &Reply<'_>) -> u16 {
        if stored >= TO_RECORDS {
            return stored.wrapping_add(base as u16).wrapping_sub(TO_RECORDS & 0x3FFF);
        }
        let suffix = TO_QUESTION.wrapping_sub(stored) as usize;
        match *self {
            Owner::Question { end, .. } => 0xC000 | end.wrapping_sub(suffix) as u16,
            Owner::Written { at } => 0xC000 | find_suffix(reply.written(), at, suffix) as u16,
        }
    }
}

/// A record whose rdata is written out; `fixed`: its type, class and TTL come first. False: it did not fit.
fn append_record(reply: &mut Reply<'_>, need: Need, owner: Owner, fixed: &[u8], rdata: &[u8]) -> bool {
    let pointer = (0xC000 | owner.at() as u16).to_be_bytes();
    let parts: [&[u8]; 4] = [&pointer, &fixed[..8], &(rdata.len() as u16).to_be_bytes(), rdata];
    parts.iter().all(|part| reply.append(need, part).is_some())
}

/// The owner of the record of ours that begins at `at`, which then is where the next one begins. None: there is none.
#[inline(always)]
fn pointer_of<'r>(records: &'r mut [u8], at: &mut u32) -> Option<&'r mut [u8; 2]> {
    // With a place of 32 bits nothing here can wrap, so that one comparison is enough. Messages are shorter.
    let from = *at as usize;
    let fixed = records.get_mut(from..from + 12)?.first_chunk_mut::<12>()?;
    *at = at.wrapping_add(12 + u32::from(u16::from_be_bytes([fixed[10], fixed[11]])));
    fixed.first_chunk_mut()
}

/// Points the owners of the first `count` of these records to `owner`.
#[inline(always)]
fn fix_owners(records: &mut [u8], count: u16, owner: usize) -> Result<(), Damaged> {
    if owner > POINTER_MAX && count > 0 {
        return Err(Damaged);
    }
    let pointer = (0xC000 | owner as u16).to_be_bytes();
    let mut at = 0;
    for _ in 0..count {
        *pointer_of(records, &mut at).ok_or(Damaged)? = pointer;
    }
    if at as usize <= records.len() { Ok(()) } else { Err(Damaged) }
}

/// Sets the TTL of records that stand one behind another.
#[inline(always)]
fn limit_ttls(mut records: &mut [u8], ttl: u32) -> Result<(), Damaged> {
    while let Some(&first) = records.first() {
        let name = if first >= 0xC0 { 2 } else { written_len(records).ok_or(Damaged)? };
        let head = records.get_mut(name..).and_then(|r| r.first_chunk_mut::<10>()).ok_or(Damaged)?;
        head[4..8].copy_from_slice(&ttl.to_be_bytes());
        let len = u16::from_be_bytes([head[8], head[9]]) as usize;
        records = records.get_mut(name + 10 + len..).ok_or(Damaged)?;
    }
    Ok(())
}

/// Octets of a name in a message of ours, which may end with a pointer.
#[cold]
fn written_len(octets: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *octets.get(at)? {
            0 => return Some(at + 1),
            192.. => return Some(at + 2),
            n => at += n as usize + 1,
        }
    }
}

/// Where in the message the last `suffix` octets of the name at `at` stand.
pub fn find_suffix(message: &[u8], at: usize, suffix: usize) -> usize {
    let mut name = [0; 255];
    let Some(name) = expand(message, at, &mut name) else { return at };
    let (mut at, mut left) = (at, name.len());
    for _ in 0..256 {
        match message.get(at).copied().unwrap_or(0) {
            _ if left <= suffix => break,
            n @ 192.. => at = (n as usize & 0x3F) << 8 | message.get(at + 1).copied().unwrap_or(0) as usize,
            n => {
                at += n as usize + 1;
                left -= n as usize + 1;
            }
        }
    }
    at
}

/// The name at `at` in a message of ours, without pointers.
pub fn expand<'b>(message: &[u8], at: usize, out: &'b mut [u8; 255]) -> Option<&'b [u8]> {
    let (mut at, mut n) = (at, 0);
    for _ in 0..256 {
        let len = *message.get(at)? as usize;
        if len >= 192 {
            at = (len & 0x3F) << 8 | *message.get(at + 1)? as usize;
            continue;
        }
        if len > wire::name::LABEL_MAX {
            return None;
        }
        out.get_mut(n..n + len + 1)?.copy_from_slice(message.get(at..at + len + 1)?);
        n += len + 1;
        at += len + 1;
        if len == 0 {
            return Some(&out[..n]);
        }
    }
    None
}

/// The longest run of whole RRsets (same owner and type, with its signatures) that has at most `room` octets.
#[cold]
fn whole_rrsets(octets: &[u8], room: usize) -> Result<(&[u8], u16), Damaged> {
    let (mut at, mut count, mut good) = (0, 0, (0, 0));
    let mut last = None;
    while at < octets.len() {
        let head = octets.get(at..at + 12).ok_or(Damaged)?;
        let signature = head[2..4] == wire::rtype::RRSIG.to_be_bytes();
        let this = (head[0], head[1], head[2], head[3]);
        if last.is_some() && last != Some(this) && !signature {
            good = (at, count);
        }
        if !signature {
            last = Some(this);
        }
        at += 12 + u16::from_be_bytes([head[10], head[11]]) as usize;
        count += 1;
        if at > room {
            break;
        }
    }
    if at <= room {
        good = (at, count);
    }
    octets.get(..good.0).map(|o| (o, good.1)).ok_or(Damaged)
}

fn push(out: &mut [u8], n: usize, octets: &[u8]) -> Result<usize, Damaged> {
    out.get_mut(n..n + octets.len()).ok_or(Damaged)?.copy_from_slice(octets);
    Ok(n + octets.len())
}

struct Fixes<'a> {
    gaps: std::slice::Iter<'a, u8>,
    at: usize,
}

impl Iterator for Fixes<'_> {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        for &gap in self.gaps.by_ref() {
            self.at += gap as usize;
            if gap != 255 {
                return Some(self.at);
            }
        }
        None
    }
}
