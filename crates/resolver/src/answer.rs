//! An answer ready to be sent to whoever asks its question: what follows the question in a message, and how long it holds.
//!
//! ```text
//!   header | question | body: answer, authority, additional          OPT is each client's own
//!                       ^ compression pointers count from the header, so they hold wherever the question's name is this long
//! ```
//!
//! `Draft` is where one is put together, record by record, in the order of a message. Bounds: `RECORDS_MAX` records of
//! one RRset, `BODY_MAX` octets. What does not fit makes the answer unfit, never shorter.

use crate::question::Question;
use std::ops::Range;
use wire::message::Record;
use wire::name::{self, is_at_or_below};
use wire::query::HEADER;
use wire::reply::Section;
use wire::{Name, Rcode, Rtype, rtype};

/// Octets of a body: a message has 65,535 at the most, and the client's OPT wants room.
pub const BODY_MAX: usize = 65_000;
/// Records of one type at one name (attack: CVE-2024-1737).
pub const RECORDS_MAX: usize = 256;
/// A TTL with its highest bit set is none (RFC 2181 section 8).
const TTL_MAX: u32 = i32::MAX as u32;
/// Octets of room that a draft, or an answer's body, keeps for the next.
pub(crate) const ROOM_KEPT: usize = 1024;
/// Places that later names may point at.
const PLACES_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub rcode: Rcode,
    /// Records of the three sections.
    pub counts: [u16; 3],
    pub body: Vec<u8>,
    /// Of each record in the body.
    pub ttls: Vec<TtlPlace>,
    /// For how long it may be kept; 0: it must not be.
    pub lifetime_s: u32,
}

/// Where a TTL stands in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlPlace {
    pub at: u16,
    /// Its record is the first of an RRset.
    pub begins_set: bool,
}

impl Answer {
    /// As a message, without EDNS.
    pub fn message(&self, question: &Question) -> Vec<u8> {
        let mut message = vec![0, 0, 0x81, 0x80 | self.rcode.0 as u8 & 15, 0, 1];
        self.counts.iter().for_each(|n| message.extend_from_slice(&n.to_be_bytes()));
        message.extend_from_slice(question.name());
        message.extend_from_slice(&question.qtype.to_be_bytes());
        message.extend_from_slice(&[0, 1]);
        message.extend_from_slice(&self.body);
        message
    }
}

/// What an operator makes of TTLs.
#[derive(Clone, Copy, Debug)]
pub struct TtlRange {
    pub min_s: u32,
    pub max_s: u32,
    /// The longest that a denial is believed (RFC 2308 section 5).
    pub negative_max_s: u32,
}

impl Default for TtlRange {
    fn default() -> TtlRange {
        TtlRange { min_s: 0, max_s: 86_400, negative_max_s: 3_600 }
    }
}

impl TtlRange {
    pub fn positive(&self, ttl_s: u32) -> u32 {
        if ttl_s > TTL_MAX { 0 } else { ttl_s.min(self.max_s).max(self.min_s) }
    }

    /// RFC 2308 section 5: the lesser of the SOA's TTL and its MINIMUM.
    pub fn negative(&self, ttl_s: u32, minimum_s: u32) -> u32 {
        self.positive(ttl_s).min(self.positive(minimum_s)).min(self.negative_max_s)
    }
}

/// An answer that grows.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The question's name; its labels are the first that later names may point at.
    name: Name,
    body: Vec<u8>,
    counts: [u16; 3],
    ttl_s: u32,
    places: Vec<(Box<[u8]>, u16)>,
    ttls: Vec<TtlPlace>,
    /// Owner, type and class of the last record in the body.
    last: Range<usize>,
    /// How many records of the RRset that was added to last.
    run: (Rtype, usize),
    /// Data of the record at hand, kept for its room.
    data: Vec<u8>,
}

/// How far a draft had come.
pub(crate) struct Mark {
    body: usize,
    places: usize,
    counts: [u16; 3],
    ttl_s: u32,
    ttls: usize,
    last: Range<usize>,
    run: (Rtype, usize),
}

/// Room of an answer that was told, for the next.
#[derive(Default)]
pub(crate) struct Room {
    body: Vec<u8>,
    ttls: Vec<TtlPlace>,
}

impl Room {
    /// None: it grew too large to be kept.
    pub(crate) fn of(answer: Answer) -> Option<Room> {
        let Answer { body, ttls, .. } = answer;
        (body.capacity() <= ROOM_KEPT && ttls.capacity() <= ROOM_KEPT).then_some(Room { body, ttls })
    }
}

/// It does not fit, or could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit;

impl Draft {
    pub fn new(question: &Question) -> Draft {
        Draft {
            name: Name::from_wire(question.name()).unwrap_or(Name::ROOT),
            body: Vec::new(),
            counts: [0; 3],
            ttl_s: u32::MAX,
            places: Vec::new(),
            ttls: Vec::new(),
            last: 0..0,
            run: (0, 0),
            data: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Becomes that of another question's name, in the same room.
    pub(crate) fn renew(&mut self, of: Name) {
        let Draft { name, body, counts, ttl_s, places, ttls, last, run, data: _ } = self;
        *name = of;
        (*counts, *ttl_s, *last, *run) = ([0; 3], u32::MAX, 0..0, (0, 0));
        ttls.clear();
        ttls.shrink_to(ROOM_KEPT);
        body.clear();
        body.shrink_to(ROOM_KEPT);
        places.clear();
    }

    pub(crate) fn mark(&self) -> Mark {
        let Draft { counts, ttl_s, run, ref last, .. } = *self;
        let [body, places, ttls] = [self.body.len(), self.places.len(), self.ttls.len()];
        Mark { body, places, counts, ttl_s, ttls, last: last.clone(), run }
    }

    /// Drops what was added since.
    pub(crate) fn rewind(&mut self, mark: &Mark) {
        self.body.truncate(mark.body);
        self.places.truncate(mark.places);
        self.ttls.truncate(mark.ttls);
        (self.counts, self.ttl_s, self.last, self.run) = (mark.counts, mark.ttl_s, mark.last.clone(), mark.run);
    }

    /// What it holds, as an answer.
    pub fn finish(&self, rcode: Rcode, lifetime_s: u32) -> Answer {
        self.finish_in(Room::default(), rcode, lifetime_s)
    }

    /// The same, in the room of another.
    pub(crate) fn finish_in(&self, room: Room, rcode: Rcode, lifetime_s: u32) -> Answer {
        let Room { mut body, mut ttls } = room;
        body.clear();
        body.extend_from_slice(&self.body);
        ttls.clear();
        ttls.extend_from_slice(&self.ttls);
        level(&mut body, &ttls);
        Answer { rcode, counts: self.counts, body, ttls, lifetime_s: lifetime_s.min(self.ttl_s) }
    }

    /// Adds a record of a message, under the owner that it is known to have.
    pub fn add(&mut self, section: Section, owner: &Name, record: &Record<'_>, ttl_s: u32) -> Result<(), Unfit> {
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        let added = record.data(&mut data).ok_or(Unfit).and_then(|()| {
            self.run = if self.run.0 == record.rtype { (self.run.0, self.run.1 + 1) } else { (record.rtype, 1) };
            if self.run.1 > RECORDS_MAX { Err(Unfit) } else { self.put(section, owner, record.rtype, ttl_s, &data) }
        });
        self.data = data;
        added
    }

    pub(crate) fn put(
        &mut self,
        section: Section,
        owner: &Name,
        rtype: Rtype,
        ttl_s: u32,
        data: &[u8],
    ) -> Result<(), Unfit> {
        if rtype::is_meta(rtype) {
            return Err(Unfit);
        }
        let start = self.body.len();
        self.put_name(owner.bytes());
        self.body.extend_from_slice(&rtype.to_be_bytes());
        self.body.extend_from_slice(&[0, 1]);
        let at = self.body.len();
        // Records of a set stand together, under one spelling of their owner.
        let begins_set =
            self.counts[section as usize] == 0 || self.body.get(self.last.clone()) != self.body.get(start..at);
        self.ttls.push(TtlPlace { at: at as u16, begins_set });
        self.last = start..at;
        self.body.extend_from_slice(&ttl_s.to_be_bytes());
        let len_at = self.body.len();
        self.body.extend_from_slice(&[0, 0]);
        self.put_data(rtype, data)?;
        let len = u16::try_from(self.body.len() - len_at - 2).map_err(|_| Unfit)?;
        if let Some(room) = self.body.get_mut(len_at..len_at + 2) {
            room.copy_from_slice(&len.to_be_bytes());
        }
        self.counts[section as usize] += 1;
        self.ttl_s = self.ttl_s.min(ttl_s);
        if self.body.len() > BODY_MAX { Err(Unfit) } else { Ok(()) }
    }

    /// Only names of RFC 1035's types may be compressed (RFC 3597 section 4).
    fn put_data(&mut self, rtype: Rtype, data: &[u8]) -> Result<(), Unfit> {
        let (fixed, names, behind) = match rtype {
            rtype::SOA => (0, 2, 20),
            rtype::MINFO => (0, 2, 0),
            rtype::MX => (2, 1, 0),
            rtype::A => (4, 0, 0),
            rtype::AAAA => (16, 0, 0),
            _ if rtype::is_compressible(rtype) => (0, 1, 0),
            _ => {
                self.body.extend_from_slice(data);
                return Ok(());
            }
        };
        let (head, mut rest) = data.split_at_checked(fixed).ok_or(Unfit)?;
        self.body.extend_from_slice(head);
        for _ in 0..names {
            let len = name::wire_len(rest).ok_or(Unfit)?;
            let (name, others) = rest.split_at(len);
            self.put_name(name);
            rest = others;
        }
        self.body.extend_from_slice(rest);
        if rest.len() == behind { Ok(()) } else { Err(Unfit) }
    }

    /// Writes a name: its labels up to the first suffix that stands somewhere already, then a pointer there.
    fn put_name(&mut self, name: &[u8]) {
        let here = HEADER + self.name.bytes().len() + 4 + self.body.len();
        let mut suffix = name;
        while suffix.len() > 1 {
            if let Some(at) = self.place_of(suffix) {
                self.body.extend_from_slice(&(0xC000 | at).to_be_bytes());
                return self.remember(name, suffix.len(), here);
            }
            let (label, rest) = suffix.split_at(1 + usize::from(suffix[0]));
            self.body.extend_from_slice(label);
            suffix = rest;
        }
        self.body.push(0);
        self.remember(name, 1, here);
    }

    /// A later name may point at this one, if it says something new and a pointer reaches it.
    fn remember(&mut self, name: &[u8], known: usize, at: usize) {
        if known < name.len() && self.places.len() < PLACES_MAX && at < 0x4000 {
            self.places.push((name.into(), at as u16));
        }
    }

    fn place_of(&self, suffix: &[u8]) -> Option<u16> {
        let within = |name: &[u8], at: usize| {
            let skipped = name.len().checked_sub(suffix.len())?;
            is_at_or_below(name, suffix).then_some((at + skipped) as u16)
        };
        // A remembered name holds only its own new labels, so its end may stand elsewhere; `written` says how many do.
        let known = self.places.iter().find_map(|(name, at)| {
            let new = self.written(*at)?;
            let skipped = name.len().checked_sub(suffix.len())?;
            (skipped < new).then(|| within(name, usize::from(*at)))?
        });
        within(self.name.bytes(), HEADER).or(known)
    }

    /// Octets of labels that stand at a place before its pointer or end.
    fn written(&self, at: u16) -> Option<usize> {
        let start = usize::from(at).checked_sub(HEADER + self.name.bytes().len() + 4)?;
        let mut p = start;
        while let Some(&n @ 1..=63) = self.body.get(p) {
            p += usize::from(n) + 1;
        }
        Some(p - start)
    }
}

/// TTLs of a set are alike: the least of them (RFC 2181 section 5.2).
fn level(body: &mut [u8], ttls: &[TtlPlace]) {
    for set in ttls.chunk_by(|_, next| !next.begins_set).filter(|set| set.len() > 1) {
        let places = set.iter().map(|ttl| usize::from(ttl.at));
        let ttl_at = |at: usize| body.get(at..).and_then(|b| b.first_chunk::<4>()).copied();
        let Some(least) = places.clone().filter_map(ttl_at).min() else { continue };
        for at in places {
            if let Some(ttl) = body.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
                *ttl = least;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::Message;

    fn name(text: &str) -> Name {
        Name::from_text(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn names_come_back_as_they_were_put() {
        let question = Question::new(&name("www.example.com."), 1, false, false);
        let mut draft = Draft::new(&question);
        let names =
            ["www.example.com.", "cdn.example.net.", "x.cdn.example.net.", "example.com.", ".", "y.x.cdn.example.net."];
        for text in names {
            draft.put(Section::Answer, &name(text), rtype::CNAME, 60, name("x.cdn.example.net.").bytes()).unwrap();
        }
        let answer = draft.finish(Rcode::NOERROR, 300);
        let m = answer.message(&question);
        let opened = Message::open(&m).unwrap();
        assert!(opened.is_whole());
        for (record, text) in opened.records().zip(names) {
            let record = record.unwrap();
            assert_eq!(record.owner().unwrap().to_string(), text);
            assert_eq!(record.target().unwrap().to_string(), "x.cdn.example.net.");
        }
        assert_eq!(answer.lifetime_s, 60);
        assert!(answer.body.len() < 130, "{}", answer.body.len());
    }

    #[test]
    fn what_is_taken_back_leaves_nothing_behind() {
        let question = Question::new(&name("www.example.com."), 1, false, false);
        let mut draft = Draft::new(&question);
        let put = |draft: &mut Draft, text: &str, ttl_s| {
            draft.put(Section::Answer, &name(text), rtype::CNAME, ttl_s, name("x.example.net.").bytes()).unwrap();
        };
        put(&mut draft, "www.example.com.", 60);
        let (mark, before) = (draft.mark(), draft.finish(Rcode::NOERROR, 300));
        put(&mut draft, "a.example.org.", 5);
        draft.rewind(&mark);
        assert_eq!(draft.finish(Rcode::NOERROR, 300), before);
        // A name that was taken back is not pointed at.
        put(&mut draft, "b.example.org.", 60);
        let m = draft.finish(Rcode::NOERROR, 300).message(&question);
        let owners: Vec<String> =
            Message::open(&m).unwrap().records().map(|r| r.unwrap().owner().unwrap().to_string()).collect();
        assert_eq!(owners, ["www.example.com.", "b.example.org."]);
        draft.renew(name("www.example.com."));
        put(&mut draft, "www.example.com.", 60);
        assert_eq!(draft.finish(Rcode::NOERROR, 300), before);
    }

    #[test]
    fn ttls_of_a_set_are_alike_and_their_places_are_known() {
        let question = Question::new(&name("www.example.com."), 1, false, false);
        let mut draft = Draft::new(&question);
        let records = [
            ("www.example.com.", rtype::CNAME, 60, b"\x01x\0".as_slice()),
            ("x.", rtype::CNAME, 50, b"\x01y\0"),
            ("y.", rtype::A, 40, b"\xc0\0\x02\x01"),
            ("y.", rtype::A, 30, b"\xc0\0\x02\x02"),
            ("y.", rtype::TXT, 20, b"\x01t"),
        ];
        for (owner, rtype, ttl_s, data) in records {
            draft.put(Section::Answer, &name(owner), rtype, ttl_s, data).unwrap();
        }
        draft.put(Section::Authority, &name("y."), rtype::TXT, 70, b"\x01t").unwrap();
        let answer = draft.finish(Rcode::NOERROR, 300);
        let told = answer.message(&question);
        let ttls: Vec<u32> = Message::open(&told).unwrap().records().map(|record| record.unwrap().ttl_s).collect();
        assert_eq!(ttls, [60, 50, 30, 30, 20, 70]);
        let at = |ttl: &TtlPlace| u32::from_be_bytes(*answer.body[usize::from(ttl.at)..].first_chunk().unwrap());
        assert_eq!(answer.ttls.iter().map(at).collect::<Vec<_>>(), ttls);
        let begins: Vec<bool> = answer.ttls.iter().map(|ttl| ttl.begins_set).collect();
        assert_eq!(begins, [true, true, true, false, true, true]);
    }

    #[test]
    fn what_is_no_record_is_not_put() {
        let question = Question::new(&name("www.example.com."), 1, false, false);
        for (rtype, data) in [
            (rtype::A, b"\xc0\0\x02".as_slice()),
            (rtype::A, b"\xc0\0\x02\x01\x01"),
            (rtype::AAAA, b"\xc0\0\x02\x01"),
            (rtype::CNAME, b"\x01x\0\0"),
            (rtype::SOA, b"\0\0only nineteen octet"),
            (rtype::OPT, b""),
        ] {
            let put = Draft::new(&question).put(Section::Answer, &name("www.example.com."), rtype, 60, data);
            assert_eq!(put, Err(Unfit), "{rtype}");
        }
    }

    #[test]
    fn ttls_have_a_floor_a_cap_and_a_sign() {
        let range = TtlRange { min_s: 5, max_s: 100, negative_max_s: 50 };
        for (ttl, expect) in [(0, 5), (7, 7), (1000, 100), (u32::MAX, 0), (0x8000_0000, 0), (0x7FFF_FFFF, 100)] {
            assert_eq!(range.positive(ttl), expect, "{ttl}");
        }
        assert_eq!((range.negative(90, 80), range.negative(20, 30), range.negative(30, 20)), (50, 20, 20));
    }
}
