//! Writes units: RRsets in wire form, with names compressed against the owner and against what stands before.

use crate::unit::{HEAD, LONG, Part, TO_QUESTION, TO_RECORDS};
use wire::rtype::{self, Rtype};

/// Names farther in than this are no targets of pointers: so a pointer stays in reach behind any question.
const TARGET_MAX: usize = 0x3FFF - 16 - 255;

/// A record as it is stored while building: rdata uncompressed.
#[derive(Clone, Copy)]
pub struct Rr<'a> {
    pub rtype: Rtype,
    pub ttl: u32,
    pub rdata: &'a [u8],
}

/// A part behind the records: records whose owner the rdata names.
#[derive(Default)]
struct Extra {
    octets: Vec<u8>,
    count: usize,
}

/// One value renders unit after unit, so that nothing is allocated for each.
#[derive(Default)]
pub(crate) struct Render<'a> {
    /// What the owner of an answer ends with: the node's name, for a wildcard the name above it.
    suffix: &'a [u8],
    records: Vec<u8>,
    count: usize,
    fixes: Vec<usize>,
    /// Where names begin in `records`, with the octets that they stand for.
    names: Vec<(&'a [u8], usize)>,
    extras: [Extra; 4],
}

impl<'a> Render<'a> {
    /// Begins the unit of an RRset.
    pub(crate) fn begin(&mut self, owner: &'a [u8]) {
        self.suffix = if owner.starts_with(b"\x01*") { &owner[2..] } else { owner };
        self.records.clear();
        self.count = 0;
        self.fixes.clear();
        self.names.clear();
        for extra in &mut self.extras {
            extra.octets.clear();
            extra.count = 0;
        }
    }

    /// Adds a record of the RRset.
    pub(crate) fn record(&mut self, rr: Rr<'a>) {
        head(&mut self.records, TO_QUESTION, rr.rtype, rr.ttl);
        let length_at = self.records.len();
        self.records.extend([0, 0]);
        self.rdata(rr.rtype, rr.rdata);
        let len = self.records.len() - length_at - 2;
        self.records[length_at..length_at + 2].copy_from_slice(&(len as u16).to_be_bytes());
        self.count += 1;
    }

    fn rdata(&mut self, rtype: Rtype, rdata: &'a [u8]) {
        let before = if rtype == rtype::MX { 2 } else { 0 };
        let names = match rtype {
            rtype::SOA | rtype::MINFO => 2,
            t if rtype::is_compressible(t) => 1,
            // Never compressed (RFC 3597), but the additional records' owners may point here.
            rtype::SRV => return self.plain(rdata, 6),
            rtype::SVCB | rtype::HTTPS => return self.plain(rdata, 2),
            _ => return self.records.extend_from_slice(rdata),
        };
        self.records.extend_from_slice(&rdata[..before.min(rdata.len())]);
        let mut at = before;
        for _ in 0..names {
            let Some(len) = rdata.get(at..).and_then(wire::name::wire_len) else { break };
            self.name(&rdata[at..at + len]);
            at += len;
        }
        self.records.extend_from_slice(rdata.get(at..).unwrap_or_default());
    }

    fn plain(&mut self, rdata: &'a [u8], name_at: usize) {
        let at = self.records.len() + name_at;
        self.records.extend_from_slice(rdata);
        if let Some(len) = rdata.get(name_at..).and_then(wire::name::wire_len) {
            self.remember(&rdata[name_at..name_at + len], at);
        }
    }

    /// Writes a name, pointing to an equal end where one stands. Compares octets: the case of data is kept (RFC 4343).
    fn name(&mut self, name: &'a [u8]) {
        let mut at = 0;
        let start = self.records.len();
        while name[at] != 0 {
            if let Some(pointer) = self.pointer_to(&name[at..]) {
                self.remember_until(name, start, at);
                self.fixes.push(self.records.len());
                self.records.extend(pointer.to_be_bytes());
                return;
            }
            let label = name[at] as usize + 1;
            self.records.extend_from_slice(&name[at..at + label]);
            at += label;
        }
        self.records.push(0);
        self.remember_until(name, start, at);
    }

    /// Remembers the ends of `name` that begin before `end` as standing from `start` on.
    fn remember_until(&mut self, name: &'a [u8], start: usize, end: usize) {
        let mut at = 0;
        while at < end {
            if start + at < TARGET_MAX && !self.names.iter().any(|(n, _)| *n == &name[at..]) {
                self.names.push((&name[at..], start + at));
            }
            at += name[at] as usize + 1;
        }
    }

    fn remember(&mut self, name: &'a [u8], start: usize) {
        if wire::name::wire_len(name) == Some(name.len()) && name.len() > 1 {
            self.remember_until(name, start, name.len() - 1);
        }
    }

    /// The stored pointer to a name that stands in the owner or in the records.
    fn pointer_to(&self, name: &[u8]) -> Option<u16> {
        if name.len() <= 1 {
            return None;
        }
        // The owner is written as asked, in whatever case; so only lower-case data may point to it and keep its own.
        if self.suffix.ends_with(name) && is_suffix(self.suffix, name) {
            return Some(TO_QUESTION - name.len() as u16);
        }
        self.names.iter().find(|(n, _)| *n == name).map(|&(_, at)| TO_RECORDS + at as u16)
    }

    /// Adds a signature over the RRset.
    pub(crate) fn signature(&mut self, rr: Rr<'_>) {
        push_record(&mut self.extras[0], TO_QUESTION, rr);
    }

    /// Adds an additional record, unless its owner stands too far in for a pointer: so far that no answer would hold it.
    pub(crate) fn additional(&mut self, part: Part, owner: &[u8], rr: Rr<'_>) {
        if let Some(pointer) = self.pointer_to(owner) {
            push_record(&mut self.extras[part as usize], pointer, rr);
        }
    }

    /// Appends the unit's octets; or nothing, and says why.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let gaps: usize = gaps(&self.fixes).map(|(long, _)| long + 1).sum();
        let parts: usize = self.extras.iter().map(|e| e.octets.len()).sum();
        if self.records.len() + parts > 65_535 - 512 || self.count > 65_535 {
            return Err("an RRset of more octets than a message can hold");
        }
        let extras = self.extras.iter().filter(|e| e.count > 0);
        let has = self.extras.iter().rev().fold(0, |has, e| has << 1 | u8::from(e.count > 0));
        out.reserve(2 * HEAD + 16 + gaps + self.records.len() + parts);
        out.extend((self.records.len() as u16).to_le_bytes());
        if self.count <= 255 && gaps < LONG as usize {
            out.extend([self.count as u8, has | (gaps as u8) << 4]);
        } else {
            out.extend([0, has | LONG << 4]);
            out.extend((self.count as u16).to_le_bytes());
            out.extend((gaps as u16).to_le_bytes());
        }
        for e in extras {
            out.extend((e.octets.len() as u16).to_le_bytes());
            out.extend((e.count as u16).to_le_bytes());
        }
        for (long, rest) in self::gaps(&self.fixes) {
            out.resize(out.len() + long, 255);
            out.push(rest);
        }
        out.extend_from_slice(&self.records);
        for e in &self.extras {
            out.extend_from_slice(&e.octets);
        }
        Ok(())
    }
}

/// True if `end` is an end of `name` on a label border.
fn is_suffix(name: &[u8], end: &[u8]) -> bool {
    let mut at = 0;
    while name.len() - at > end.len() {
        at += name[at] as usize + 1;
    }
    name.len() - at == end.len()
}

fn head(out: &mut Vec<u8>, pointer: u16, rtype: Rtype, ttl: u32) {
    out.extend(pointer.to_be_bytes());
    out.extend(rtype.to_be_bytes());
    out.extend([0, 1]);
    out.extend(ttl.to_be_bytes());
}

fn push_record(extra: &mut Extra, pointer: u16, rr: Rr<'_>) {
    head(&mut extra.octets, pointer, rr.rtype, rr.ttl);
    extra.octets.extend((rr.rdata.len() as u16).to_be_bytes());
    extra.octets.extend_from_slice(rr.rdata);
    extra.count += 1;
}

/// The gaps between fixes: how many octets of 255 each, and the last one.
fn gaps(fixes: &[usize]) -> impl Iterator<Item = (usize, u8)> {
    let before = std::iter::once(0).chain(fixes.iter().copied());
    fixes.iter().zip(before).map(|(at, before)| ((at - before) / 255, ((at - before) % 255) as u8))
}
