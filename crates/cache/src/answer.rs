//! Answers ready to send: what stands behind the question, octet for octet, with a list of where its TTLs are.
//!
//! ```text
//! 0 rcode u16 | flags u8 | 0 u8 | EDE u16, 65535 = none | 6 records of answer, authority, additional u16 each
//! 12 records that are needed u16 | 14 octets of the records u16 | 16 records | a mark u16 for each record
//!   mark: bit 15: begins an RRset; bits 0-13: where the record's TTL stands in the records. Little-endian.
//! ```
//!
//! The question's name is part of the key, so whatever finds the entry has a question of the same length, and the
//! records land where they stood when they were packed: compression pointers need no change, and one into the question
//! shows the name as this client spelled it.

use crate::entry::{Hit, VALUE_MAX};
use std::ops::Range;
use wire::query::HEADER;
use wire::reply::{Need, Reply, Section};
use wire::{Ede, Rcode, rtype};

const HEAD: usize = 16;
const AUTHENTIC: u8 = 1;
const NO_EDE: u16 = u16::MAX;
const BEGINS_SET: u16 = 1 << 15;
const PLACE: u16 = (1 << 14) - 1;

/// Bounds on what servers say about lifetimes, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub ttl_min: u32,
    pub ttl_max: u32,
    /// The most for what says that something does not exist (RFC 2308 section 5).
    pub negative_max: u32,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { ttl_min: 0, ttl_max: 86_400, negative_max: 3_600 }
    }
}

/// Why a message cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    Malformed,
    /// TC is set: it is not the whole answer.
    Truncated,
    TooLarge,
}

/// What `pack` learned on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The least TTL of all records; 0: not to be stored (RFC 2308 section 5: a denial without SOA is not).
    pub ttl_s: u32,
}

/// Makes an answer's value, in `out`, of a message that others sent. OPT, and what stands behind it, is left out.
/// The caller has judged by then whether the records are that server's to give.
pub fn pack(message: &[u8], bounds: &Bounds, out: &mut Vec<u8>) -> Result<Packed, Unfit> {
    let message = &message[..message.len().min(usize::from(u16::MAX))];
    let header = message.first_chunk::<HEADER>().ok_or(Unfit::Malformed)?;
    if header[2] & 2 != 0 {
        return Err(Unfit::Truncated);
    }
    let question_end = name_end(message, HEADER, &Changing::NOTHING).ok_or(Unfit::Malformed)? + 4;
    if header[4..6] != [0, 1] || question_end > message.len() {
        return Err(Unfit::Malformed);
    }
    let mut packing = Packing::new(message, question_end);
    packing.read_sections(header, bounds)?;
    packing.write(Rcode(u16::from(header[3] & 15)), out)
}

/// An answer whose records were judged and written one by one. The question that it stood behind when names were compressed
/// is as long as that of whoever finds it, and no pointer leads through a TTL.
pub struct Written<'a> {
    pub rcode: Rcode,
    pub counts: [u16; 3],
    pub body: &'a [u8],
}

/// Makes its value, in `out`, without reading it again. `ttls`: where each record's TTL stands in the body, and whether the
/// record begins an RRset. All but additional records are needed.
pub fn enclose(
    answer: &Written<'_>,
    ttls: impl ExactSizeIterator<Item = (u16, bool)>,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    join(answer, answer.counts[0] + answer.counts[1], ttls, out)
}

fn join(
    answer: &Written<'_>,
    needed: u16,
    ttls: impl ExactSizeIterator<Item = (u16, bool)>,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let Written { rcode, counts, body } = answer;
    if HEAD + body.len() + 2 * ttls.len() > VALUE_MAX {
        return Err(Unfit::TooLarge);
    }
    let head = [rcode.0, 0, NO_EDE, counts[0], counts[1], counts[2], needed, body.len() as u16];
    out.clear();
    head.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    out.extend_from_slice(body);
    for (at, begins_set) in ttls {
        let mark = at | if begins_set { BEGINS_SET } else { 0 };
        out.extend_from_slice(&mark.to_le_bytes());
    }
    Ok(())
}

struct Packing<'a> {
    message: &'a [u8],
    question_end: usize,
    qtype: u16,
    at: usize,
    counts: [u16; 3],
    records: Vec<Record>,
    ttl_s: u32,
    answers_question: bool,
    denies: bool,
    authority_is_ns: bool,
}

#[derive(Clone, Copy, PartialEq)]
struct Record {
    start: usize,
    ttl_at: usize,
    rtype: u16,
    ttl: u32,
    begins_set: bool,
}

impl<'a> Packing<'a> {
    fn new(message: &'a [u8], question_end: usize) -> Packing<'a> {
        let qtype = u16_at(message, question_end - 4);
        Packing {
            message,
            question_end,
            qtype,
            at: question_end,
            counts: [0; 3],
            // Most answers have no more, and growing costs more than asking for as much at once.
            records: Vec::with_capacity(4),
            ttl_s: u32::MAX,
            answers_question: false,
            denies: false,
            authority_is_ns: true,
        }
    }

    fn read_sections(&mut self, header: &[u8; HEADER], bounds: &Bounds) -> Result<(), Unfit> {
        for (section, count_at) in [(Section::Answer, 6), (Section::Authority, 8), (Section::Additional, 10)] {
            for i in 0..u16_at(header, count_at) {
                let record = self.read_record(section, i == 0, bounds).ok_or(Unfit::Malformed)?;
                let Some(record) = record else { return Ok(()) };
                self.records.push(record);
                self.counts[section as usize] += 1;
            }
        }
        if self.at == self.message.len() { Ok(()) } else { Err(Unfit::Malformed) }
    }

    /// None: malformed. Some(None): an OPT, at which the answer ends.
    fn read_record(&mut self, section: Section, is_first: bool, bounds: &Bounds) -> Option<Option<Record>> {
        let start = self.at;
        let fixed_at = name_end(self.message, start, &Changing { records: &self.records, own: 0 })?;
        let fixed = self.message.get(fixed_at..)?.first_chunk::<10>()?;
        let rtype = u16::from_be_bytes([fixed[0], fixed[1]]);
        if rtype == rtype::OPT {
            return (section == Section::Additional).then_some(None);
        }
        let rdata_at = fixed_at + 10;
        let end = rdata_at + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let changing = Changing { records: &self.records, own: fixed_at + 4 };
        let rdata_is_whole =
            end <= self.message.len() && names_are_whole(self.message, rtype, rdata_at, end, &changing);
        if fixed[2..4] != [0, 1] || rtype::is_meta(rtype) || !rdata_is_whole {
            return None;
        }
        let ttl = bounded_ttl(u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]), bounds);
        let ttl = self.note(section, rtype, ttl, &self.message[rdata_at..end], bounds);
        self.at = end;
        let begins_set = is_first || !self.continues_set(start, fixed_at, rtype);
        Some(Some(Record { start, ttl_at: fixed_at + 4, rtype, ttl, begins_set }))
    }

    /// What a record says of the answer as a whole; its TTL, which for a denial's SOA is also bounded by the zone's
    /// own word (RFC 2308 section 3).
    fn note(&mut self, section: Section, rtype: u16, ttl: u32, rdata: &[u8], bounds: &Bounds) -> u32 {
        match section {
            Section::Answer => {
                self.answers_question |= rtype == self.qtype || self.qtype == rtype::ANY;
            }
            Section::Authority => {
                self.authority_is_ns &= rtype == rtype::NS;
                if rtype == rtype::SOA {
                    self.denies = true;
                    let minimum = rdata.last_chunk::<4>().map_or(0, |m| u32::from_be_bytes(*m));
                    return ttl.min(minimum).min(bounds.negative_max);
                }
            }
            Section::Additional => {}
        }
        ttl
    }

    /// Records of one set stand together, under the same spelling of their owner.
    fn continues_set(&self, start: usize, fixed_at: usize, rtype: u16) -> bool {
        let Some(last) = self.records.last().filter(|last| last.rtype == rtype) else { return false };
        let owner = &self.message[start..fixed_at];
        self.message[last.start..].starts_with(owner) && last.ttl_at - 4 - last.start == owner.len()
    }

    /// TTLs of a set are alike: the least of them (RFC 2181 section 5.2).
    fn level_ttls(&mut self) {
        for set in self.records.chunk_by_mut(|_, next| !next.begins_set) {
            let least = set.iter().map(|record| record.ttl).min().unwrap_or(0);
            set.iter_mut().for_each(|record| record.ttl = least);
            self.ttl_s = self.ttl_s.min(least);
        }
    }

    fn write(mut self, rcode: Rcode, out: &mut Vec<u8>) -> Result<Packed, Unfit> {
        self.level_ttls();
        let body = &self.message[self.question_end..self.at];
        let positive = rcode == Rcode::NOERROR && self.answers_question;
        let needed = self.counts[0] + if positive && self.authority_is_ns { 0 } else { self.counts[1] };
        let ttls = self.records.iter().map(|record| ((record.ttl_at - self.question_end) as u16, record.begins_set));
        join(&Written { rcode, counts: self.counts, body }, needed, ttls, out)?;
        for record in &self.records {
            let at = HEAD + record.ttl_at - self.question_end;
            out[at..at + 4].copy_from_slice(&record.ttl.to_be_bytes());
        }
        let ttl_s = if positive || self.denies { self.ttl_s } else { 0 };
        Ok(Packed { ttl_s: if self.records.is_empty() { 0 } else { ttl_s } })
    }
}

/// RFC 2181 section 8: a TTL with the high bit set means nothing.
fn bounded_ttl(ttl: u32, bounds: &Bounds) -> u32 {
    let ttl = if ttl >> 31 == 0 { ttl } else { 0 };
    ttl.max(bounds.ttl_min).min(bounds.ttl_max)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|b| b.first_chunk::<2>()).map_or(0, |b| u16::from_be_bytes(*b))
}

/// Where octets stand that are not what they were when the answer is sent: TTLs. A name that a pointer leads through one
/// would be another name by and by, and nobody would have judged that.
struct Changing<'a> {
    /// In the order of their places.
    records: &'a [Record],
    /// The TTL of the record that is being read; 0: none.
    own: usize,
}

impl Changing<'_> {
    const NOTHING: Changing<'static> = Changing { records: &[], own: 0 };

    fn touches(&self, octets: Range<usize>) -> bool {
        let is_over = |ttl_at: usize| octets.start < ttl_at + 4 && ttl_at < octets.end;
        let next = self.records.partition_point(|record| record.ttl_at + 4 <= octets.start);
        is_over(self.own) || self.records.get(next).is_some_and(|record| is_over(record.ttl_at))
    }
}

/// The end of the name at `at`; None unless all that it is made of stands before it, makes a name and stays.
fn name_end(message: &[u8], at: usize, changing: &Changing<'_>) -> Option<usize> {
    let (mut at, mut end, mut octets, mut floor, mut ceiling) = (at, None, 0, at, message.len());
    loop {
        let n = usize::from(*message.get(at)?);
        let behind = if n < 192 { at + n + 1 } else { at + 2 };
        if behind > ceiling || end.is_some() && changing.touches(at..behind) {
            return None;
        }
        match n {
            0 => return Some(end.unwrap_or(behind)),
            1..=63 => {
                octets += n + 1;
                at = behind;
            }
            192..=255 => {
                let to = usize::from(u16_at(message.get(at..behind)?, 0) & PLACE);
                end.get_or_insert(behind);
                // Each jump goes farther back than the one before, so that there is an end; and what it leads to ends before
                // the part that led there: a prior name (RFC 1035 section 4.1.4), and no octet of what comes later.
                if to >= floor || to < HEADER {
                    return None;
                }
                (at, floor, ceiling) = (to, to, floor);
            }
            _ => return None,
        }
        if octets >= wire::name::NAME_MAX {
            return None;
        }
    }
}

/// Names in the rdata of the types that may compress them are whole, and the rdata ends where it says.
fn names_are_whole(message: &[u8], rtype: u16, at: usize, end: usize, changing: &Changing<'_>) -> bool {
    let (before, names, behind) = match rtype {
        rtype::SOA => (0, 2, 20),
        rtype::MINFO => (0, 2, 0),
        rtype::MX => (2, 1, 0),
        t if rtype::is_compressible(t) => (0, 1, 0),
        rtype::A => return end - at == 4,
        rtype::AAAA => return end - at == 16,
        _ => return true,
    };
    let message = &message[..end];
    let names_end = (0..names).try_fold(at + before, |at, _| name_end(message, at, changing));
    names_end.is_some_and(|names_end| names_end + behind == end)
}

/// An answer as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    head: &'a [u8; HEAD],
    body: &'a [u8],
    marks: &'a [[u8; 2]],
}

impl<'a> Answer<'a> {
    #[inline]
    pub(crate) fn read(value: &'a [u8]) -> Option<Answer<'a>> {
        let (head, rest) = value.split_first_chunk::<HEAD>()?;
        let body_len = usize::from(u16::from_le_bytes([head[14], head[15]]));
        let (body, marks) = rest.split_at_checked(body_len)?;
        let (marks, odd) = marks.as_chunks::<2>();
        let answer = Answer { head, body, marks };
        let counted: usize = (0..3).map(|i| usize::from(answer.field(6 + 2 * i))).sum();
        (odd.is_empty() && counted == marks.len()).then_some(answer)
    }

    #[inline]
    fn field(&self, at: usize) -> u16 {
        self.head.get(at..).and_then(|h| h.first_chunk::<2>()).map_or(0, |h| u16::from_le_bytes(*h))
    }

    #[inline]
    pub fn rcode(&self) -> Rcode {
        Rcode(self.field(0))
    }

    /// All of it was validated: AD may be set for who asked for that (RFC 6840 section 5.7).
    #[inline]
    pub fn is_authentic(&self) -> bool {
        self.head[2] & AUTHENTIC != 0
    }

    #[inline]
    pub fn ede(&self) -> Option<Ede> {
        Some(self.field(4)).filter(|&code| code != NO_EDE).map(Ede)
    }

    /// Writes the records behind the question, with what is left of their TTLs. The reply is empty so far.
    #[inline]
    pub fn write(&self, hit: &Hit<'_>, reply: &mut Reply<'_>) {
        let start = reply.at();
        let written = if self.body.len() <= reply.room() { self.write_all(reply) } else { self.write_needed(reply) };
        let records = reply.written_mut(start);
        for mark in self.marks.iter().take(written) {
            let at = usize::from(u16::from_le_bytes(*mark) & PLACE);
            if let Some(ttl) = records.get_mut(at..).and_then(|r| r.first_chunk_mut::<4>()) {
                *ttl = hit.ttl(u32::from_be_bytes(*ttl)).to_be_bytes();
            }
        }
    }

    #[inline]
    fn write_all(&self, reply: &mut Reply<'_>) -> usize {
        if reply.append(Need::Required, self.body).is_some() {
            reply.count(Section::Answer, self.field(6));
            reply.count(Section::Authority, self.field(8));
            reply.count(Section::Additional, self.field(10));
        }
        self.marks.len()
    }

    #[cold]
    fn write_needed(&self, reply: &mut Reply<'_>) -> usize {
        let (answers, needed) = (self.field(6), self.field(12));
        let needed_end = self.record_end(usize::from(needed));
        if reply.append(Need::Required, self.body.get(..needed_end).unwrap_or(self.body)).is_some() {
            reply.count(Section::Answer, answers);
            reply.count(Section::Authority, needed.saturating_sub(answers));
            reply.does_not_fit(Need::Optional);
        }
        usize::from(needed)
    }

    /// Where the first `n` records end.
    fn record_end(&self, n: usize) -> usize {
        let Some(last) = n.checked_sub(1).and_then(|i| self.marks.get(i)) else { return 0 };
        let ttl_at = usize::from(u16::from_le_bytes(*last) & PLACE);
        ttl_at + 6 + usize::from(u16_at(self.body, ttl_at + 4))
    }
}

/// Says in a packed answer that all of it was validated.
pub fn set_authentic(value: &mut [u8]) {
    if let Some(flags) = value.get_mut(2) {
        *flags |= AUTHENTIC;
    }
}

/// Says in a packed answer what is to be told with it (RFC 8914).
pub fn set_ede(value: &mut [u8], ede: Ede) {
    if let Some(place) = value.get_mut(4..6) {
        place.copy_from_slice(&ede.0.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Freshness;

    const ASK: &[u8] = b"\x12\x34\x81\x80\0\x01\0\x02\0\0\0\x01\x03www\x07example\0\0\x01\0\x01";
    const A1: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x01";
    const A2: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\x00\xc8\0\x04\xc0\0\x02\x02";
    const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\x80\0\0\0";

    fn message(counts: [u8; 3], records: &[&[u8]]) -> Vec<u8> {
        let mut m = [ASK, &records.concat()].concat();
        (m[7], m[9], m[11]) = (counts[0], counts[1], counts[2]);
        m
    }

    fn packed(counts: [u8; 3], records: &[&[u8]]) -> Result<(Vec<u8>, u32), Unfit> {
        let mut out = vec![];
        pack(&message(counts, records), &Bounds::default(), &mut out).map(|p| (out, p.ttl_s))
    }

    fn sent(value: &[u8], age_s: u32, limit: usize) -> Vec<u8> {
        let hit = Hit { freshness: Freshness::Fresh, age_s, left_s: 1, value, ttl_cap: u32::MAX };
        let mut buffer = ASK.to_vec();
        buffer.resize(4096, 0xEE);
        let mut reply = Reply::begin(&mut buffer, ASK.len(), limit, 0);
        let answer = hit.answer().unwrap();
        answer.write(&hit, &mut reply);
        let n = reply.finish(wire::reply::Flags::NONE, answer.rcode(), None);
        buffer.truncate(n);
        buffer
    }

    #[test]
    fn an_answer_comes_back_with_its_ttls_levelled_and_aged() {
        for records in [[A1, A2], [A2, A1]] {
            let (value, ttl_s) = packed([2, 0, 1], &[records[0], records[1], OPT]).unwrap();
            assert_eq!(ttl_s, 200);
            let out = sent(&value, 50, 512);
            assert_eq!(out[6..12], [0, 2, 0, 0, 0, 0]);
            let mut expect = records.concat();
            expect[6..10].copy_from_slice(&[0, 0, 0, 150]);
            expect[22..26].copy_from_slice(&[0, 0, 0, 150]);
            assert_eq!(out[ASK.len()..], expect);
        }
    }

    #[test]
    fn what_is_not_needed_goes_first_and_then_the_rest_is_cut() {
        let ns: &[u8] = b"\xc0\x10\0\x02\0\x01\0\0\x0e\x10\0\x05\x02ns\xc0\x10";
        let (value, _) = packed([1, 1, 0], &[A1, ns]).unwrap();
        let all = ASK.len() + 16 + ns.len();
        assert_eq!(sent(&value, 0, all).len(), all);
        let less = sent(&value, 0, all - 1);
        assert_eq!((less.len(), less[2] & 2, less[9]), (all - ns.len(), 0, 0));
        let none = sent(&value, 0, ASK.len() + 15);
        assert_eq!((none.len(), none[2] & 2), (ASK.len(), 2));
    }

    #[test]
    fn a_denial_lives_as_long_as_its_zone_says() {
        let soa = |ttl: u32, minimum: u32| {
            [
                b"\xc0\x10\0\x06\0\x01",
                &ttl.to_be_bytes()[..],
                b"\0\x18\xc0\x10\xc0\x10",
                &[0; 16],
                &minimum.to_be_bytes(),
            ]
            .concat()
        };
        for (ttl, minimum, expect) in [(900, 60, 60), (30, 60, 30), (90_000, 90_000, 3_600), (1 << 31, 60, 0)] {
            let (value, ttl_s) = packed([0, 1, 0], &[&soa(ttl, minimum)]).unwrap();
            assert_eq!(ttl_s, expect);
            assert_eq!(sent(&value, 0, 512)[ASK.len() + 6..][..4], expect.to_be_bytes());
        }
    }

    #[test]
    fn what_must_not_be_stored_has_no_lifetime() {
        let ns: &[u8] = b"\xc0\x10\0\x02\0\x01\0\0\x0e\x10\0\x05\x02ns\xc0\x10";
        let cname: &[u8] = b"\xc0\x0c\0\x05\0\x01\0\0\x0e\x10\0\x04\x01x\xc0\x10";
        for (what, counts, records) in [
            ("nothing", [0, 0, 0], &[][..]),
            ("a referral", [0, 1, 0], &[ns][..]),
            ("an alias without its end", [1, 0, 0], &[cname][..]),
        ] {
            assert_eq!(packed(counts, records).unwrap().1, 0, "{what}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let table = [
            ("cut off", [1, 0, 0], vec![&A1[..15]]),
            ("octets too many", [1, 0, 0], vec![A1, b"x"]),
            ("a pointer to itself", [1, 0, 0], vec![b"\xc0\x1d\0\x01\0\x01\0\0\0\x01\0\x04\0\0\0\0"]),
            ("a pointer forward", [1, 0, 0], vec![b"\xc0\x30\0\x01\0\x01\0\0\0\x01\0\x04\0\0\0\0"]),
            ("a pointer into the header", [1, 0, 0], vec![b"\xc0\x04\0\x01\0\x01\0\0\0\x01\0\x04\0\0\0\0"]),
            // Its first label, in the rdata of the record before, has 16 octets: up to the first of its own rdata.
            (
                "a name that runs into its own record",
                [2, 0, 0],
                vec![
                    b"\xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04\x10\0\x02\x01",
                    b"\xc0\x29\0\x01\0\x01\0\0\x01\x2c\0\x04x\0\0\0",
                ],
            ),
            ("an address of five octets", [1, 0, 0], vec![b"\xc0\x0c\0\x01\0\x01\0\0\0\x01\0\x05\0\0\0\0\0"]),
            ("a name beyond its rdata", [1, 0, 0], vec![b"\xc0\x0c\0\x05\0\x01\0\0\0\x01\0\x02\x01a", b"\0"]),
            ("an OPT as an answer", [1, 0, 0], vec![OPT]),
            ("another class", [1, 0, 0], vec![b"\xc0\x0c\0\x01\0\x03\0\0\0\x01\0\x04\0\0\0\0"]),
        ];
        for (what, counts, records) in table {
            assert_eq!(packed(counts, &records), Err(Unfit::Malformed), "{what}");
        }
        let mut truncated = message([1, 0, 0], &[A1]);
        truncated[2] |= 2;
        assert_eq!(pack(&truncated, &Bounds::default(), &mut vec![]), Err(Unfit::Truncated));
    }

    #[test]
    fn what_is_told_with_an_answer_is_kept() {
        let (mut value, _) = packed([1, 0, 0], &[A1]).unwrap();
        let told = |value: &[u8]| Answer::read(value).map(|a| (a.is_authentic(), a.ede()));
        assert_eq!(told(&value), Some((false, None)));
        set_authentic(&mut value);
        set_ede(&mut value, Ede(3));
        assert_eq!(told(&value), Some((true, Some(Ede(3)))));
    }

    #[test]
    fn no_name_leads_through_a_ttl() {
        // The TTL of the first record reads as the name "a.": it begins 6 octets into the record, behind the question.
        let ttl_at = (ASK.len() + 6) as u8;
        let first = b"\xc0\x0c\0\x01\0\x01\x01a\0\0\0\x04\xc0\0\x02\x01";
        let owner = [b"\xc0", &[ttl_at][..], b"\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x01"].concat();
        let target = [b"\xc0\x0c\0\x05\0\x01\0\0\x01\x2c\0\x02\xc0", &[ttl_at][..]].concat();
        // Its own, four octets into what follows the owner; and one into the rdata, which stays.
        let own_at = (ASK.len() + 6) as u8;
        let own = [b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0", &[own_at][..]].concat();
        let rdata = b"\xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04\x01b\0\0";
        let into_rdata = [b"\xc0", &[(ASK.len() + 12) as u8][..], &owner[2..]].concat();
        for (records, expect) in [
            (&[&first[..], &owner][..], false),
            (&[first, &target], false),
            (&[&own], false),
            (&[rdata, &into_rdata], true),
        ] {
            assert_eq!(packed([records.len() as u8, 0, 0], records).is_ok(), expect, "{records:02x?}");
        }
    }
}
