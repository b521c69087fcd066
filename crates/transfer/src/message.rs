//! Messages record by record, for what is rare enough to be read whole: updates, transfers, their signatures.
//!
//! Takes any octets. Names may be compressed where receivers must expect it (RFC 3597 section 4); pointers lead back
//! only, and few of them, so that reading a name ends soon.

use crate::Record;
use std::ops::Deref;
use wire::name::wire_len;
use wire::query::HEADER;
use wire::rtype::*;
use wire::{Name, Rtype};

#[derive(Clone, Copy)]
pub struct Message<'a> {
    octets: &'a [u8],
    head: &'a [u8; HEADER],
}

/// A question, or the zone of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    pub name: Name,
    pub rtype: Rtype,
    pub class: u16,
}

/// Where a record stands in a message. Its owner is not read yet: that may cost a hundred times as much as to step over it, and of a long message
/// nobody knows yet whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    message: &'a [u8],
    /// 1 to 3: answer, authority, additional.
    pub section: usize,
    /// Where the record begins.
    pub at: usize,
    pub rtype: Rtype,
    pub class: u16,
    pub ttl: u32,
    rdata_at: usize,
    end: usize,
}

/// A record as it stands in a message.
#[derive(Clone, Copy, Debug)]
pub struct Rr<'a> {
    pub owner: Name,
    place: Place<'a>,
}

impl<'a> Deref for Rr<'a> {
    type Target = Place<'a>;

    fn deref(&self) -> &Place<'a> {
        &self.place
    }
}

impl<'a> Message<'a> {
    /// None: shorter than a header.
    pub fn new(octets: &'a [u8]) -> Option<Message<'a>> {
        Some(Message { octets, head: octets.first_chunk()? })
    }

    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    pub fn id(&self) -> u16 {
        u16::from_be_bytes([self.head[0], self.head[1]])
    }

    pub fn is_response(&self) -> bool {
        self.head[2] & 0x80 != 0
    }

    pub fn opcode(&self) -> u8 {
        self.head[2] >> 3 & 15
    }

    pub fn rcode(&self) -> u8 {
        self.head[3] & 15
    }

    /// How many records a section says it has.
    pub fn count(&self, section: usize) -> u16 {
        let at = 4 + 2 * section;
        self.head.get(at..at + 2).map_or(0, |c| u16::from_be_bytes([c[0], c[1]]))
    }

    /// The one question, and where it ends. None: there is not exactly one, or it is malformed.
    pub fn question(&self) -> Option<(Question, usize)> {
        if self.count(0) != 1 {
            return None;
        }
        let (name, at) = name_at(self.octets, HEADER)?;
        let (rtype, class) = (u16_at(self.octets, at)?, u16_at(self.octets, at + 2)?);
        Some((Question { name, rtype, class }, at + 4))
    }

    /// All records behind the question, in order; an Err is the last.
    pub fn records(&self) -> Records<'a> {
        Records { places: Some(self.places()) }
    }

    /// The same without their owners.
    pub fn places(&self) -> Places<'a> {
        let counts = [1, 2, 3].map(|section| self.count(section));
        let at = match self.count(0) {
            // Behind a question that cannot be read nothing can.
            1 => self.question().map_or(usize::MAX, |(_, end)| end),
            // There may be a signature, under which it is said that these are too many, or too few.
            several => self.behind(several).unwrap_or(usize::MAX),
        };
        Places { message: self.octets, at: Some(at), counts, section: 1 }
    }

    /// Where so many questions end.
    fn behind(&self, questions: u16) -> Option<usize> {
        (0..questions).try_fold(HEADER, |at, _| Some(wire::message::name_end(self.octets, at)? + 4))
    }
}

/// A message that ends, or breaks, before it should, or goes on behind its last record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

pub struct Places<'a> {
    message: &'a [u8],
    /// None: the end was reached, or an error.
    at: Option<usize>,
    counts: [u16; 3],
    section: usize,
}

impl<'a> Iterator for Places<'a> {
    type Item = Result<Place<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.take()?;
        while let Some(0) = self.counts.get(self.section - 1) {
            self.section += 1;
        }
        let Some(left) = self.counts.get_mut(self.section - 1) else {
            return (at != self.message.len()).then_some(Err(Malformed));
        };
        *left -= 1;
        let Some(place) = place_at(self.message, at, self.section) else { return Some(Err(Malformed)) };
        self.at = Some(place.end);
        Some(Ok(place))
    }
}

pub struct Records<'a> {
    /// None: an owner was malformed.
    places: Option<Places<'a>>,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Rr<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.places.as_mut()?.next()?.and_then(|place| {
            let owner = place.owner().ok_or(Malformed)?;
            Ok(Rr { owner, place })
        });
        if read.is_err() {
            self.places = None;
        }
        Some(read)
    }
}

fn place_at(message: &[u8], at: usize, section: usize) -> Option<Place<'_>> {
    let fixed = wire::message::name_end(message, at)?;
    let ttl = u32::from(u16_at(message, fixed + 4)?) << 16 | u32::from(u16_at(message, fixed + 6)?);
    let rdata_at = fixed + 10;
    let end = rdata_at + usize::from(u16_at(message, fixed + 8)?);
    if end > message.len() {
        return None;
    }
    let (rtype, class) = (u16_at(message, fixed)?, u16_at(message, fixed + 2)?);
    Some(Place { message, section, at, rtype, class, ttl, rdata_at, end })
}

impl<'a> Place<'a> {
    /// None: it is malformed.
    pub fn owner(&self) -> Option<Name> {
        wire::message::name_at(self.message, self.at)
    }

    /// The rdata as it stands in the message, perhaps with pointers.
    pub fn raw_rdata(&self) -> &'a [u8] {
        self.message.get(self.rdata_at..self.end).unwrap_or(&[])
    }
}

impl Rr<'_> {
    /// The rdata without pointers. None: it does not fit its type.
    pub fn rdata(&self) -> Option<Vec<u8>> {
        let (fixed, names) = compressed_names(self.rtype, self.raw_rdata());
        let mut out = self.raw_rdata().get(..fixed)?.to_vec();
        let mut at = self.rdata_at + fixed;
        for _ in 0..names {
            let (name, next) = name_at(self.message.get(..self.end)?, at)?;
            out.extend(name.bytes());
            at = next;
        }
        out.extend(self.message.get(at..self.end)?);
        zonefile::rdata::is_well_formed(self.rtype, &out).then_some(out)
    }

    /// None: the rdata does not fit its type.
    pub fn record(&self) -> Option<Record> {
        Record::new(self.owner.bytes(), self.rtype, self.ttl, &self.rdata()?)
    }
}

/// Octets before the first name that may be compressed, and how many there are in a row (RFC 3597 section 4).
fn compressed_names(rtype: Rtype, rdata: &[u8]) -> (usize, usize) {
    match rtype {
        NS | MD | MF | CNAME | MB | MG | MR | PTR | DNAME | NXT => (0, 1),
        SOA | MINFO | RP => (0, 2),
        MX | AFSDB | RT | KX => (2, 1),
        PX => (2, 2),
        SRV => (6, 1),
        SIG => (18, 1),
        // Behind three strings.
        NAPTR => {
            let behind = |at: usize| at + 1 + rdata.get(at).map_or(0, |&length| usize::from(length));
            (behind(behind(behind(4))), 1)
        }
        _ => (0, 0),
    }
}

/// The name at `at`, written out, and where what follows it begins.
pub fn name_at(message: &[u8], at: usize) -> Option<(Name, usize)> {
    Some((wire::message::name_at(message, at)?, wire::message::name_end(message, at)?))
}

pub(crate) fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// A name without pointers at the head of octets, and what follows it.
pub(crate) fn split_name(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    octets.split_at_checked(wire_len(octets)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; 12] = [0, 1, 0x28, 0, 0, 1, 0, 0, 0, 1, 0, 0];

    fn message() -> Vec<u8> {
        let mut m = HEAD.to_vec();
        m.extend(b"\x01z\0\0\x06\0\x01");
        m.extend(b"\x01a\xC0\x0C\0\x0F\0\x01\0\0\0\x3C\0\x06\0\x0A\x01m\xC0\x0C");
        m
    }

    #[test]
    fn records_come_without_pointers() {
        let octets = message();
        let message = Message::new(&octets).unwrap();
        assert_eq!((message.opcode(), message.id(), message.count(2)), (5, 1, 1));
        assert_eq!(message.question().unwrap().0.rtype, SOA);
        let records: Vec<_> = message.records().collect();
        let rr = records[0].unwrap();
        assert_eq!((rr.section, rr.owner.bytes(), rr.ttl), (2, &b"\x01a\x01z\0"[..], 60));
        assert_eq!(rr.rdata().unwrap(), b"\0\x0A\x01m\x01z\0");
        assert_eq!(records.len(), 1);
    }

    #[test]
    fn names_behind_strings_and_before_bitmaps_come_without_pointers() {
        for (rtype, rdata, expect) in [
            (35, &b"\0\x01\0\x02\x01u\x03sip\0\xC0\x0C"[..], &b"\0\x01\0\x02\x01u\x03sip\0\x01z\0"[..]),
            (30, b"\xC0\x0C\x40", b"\x01z\0\x40"),
            (
                24,
                b"\0\x01\x05\x01\0\0\0\x3C\0\0\0\x02\0\0\0\x01\0\x07\xC0\x0Csignature",
                b"\0\x01\x05\x01\0\0\0\x3C\0\0\0\x02\0\0\0\x01\0\x07\x01z\0signature",
            ),
        ] {
            let mut octets = HEAD.to_vec();
            octets.extend(b"\x01z\0\0\x06\0\x01\xC0\x0C\0");
            octets.extend([&[rtype, 0, 1, 0, 0, 0, 60, 0, rdata.len() as u8], rdata].concat());
            let rr = Message::new(&octets).unwrap().records().next().unwrap().unwrap();
            assert_eq!(rr.rdata().as_deref(), Some(expect), "{rtype}");
        }
        // Strings that lead beyond its end.
        let mut octets = HEAD.to_vec();
        octets.extend(b"\x01z\0\0\x06\0\x01\xC0\x0C\0\x23\0\x01\0\0\0\x3C\0\x05\0\x01\0\x02\xFF");
        assert_eq!(Message::new(&octets).unwrap().records().next().unwrap().unwrap().rdata(), None);
    }

    #[test]
    fn records_stand_behind_any_number_of_questions() {
        let one = message();
        let (question, records) = one[HEADER..].split_at(7);
        for n in [0, 1, 2, 300] {
            let mut octets = one[..HEADER].to_vec();
            octets[4..6].copy_from_slice(&(n as u16).to_be_bytes());
            octets.extend([question.repeat(n), records.to_vec()].concat());
            let message = Message::new(&octets).unwrap();
            assert_eq!(
                (message.question().is_some(), message.places().filter(Result::is_ok).count()),
                (n == 1, 1),
                "{n}"
            );
            octets.truncate(HEADER + n * question.len() - usize::from(n > 0));
            assert!(Message::new(&octets).unwrap().places().all(|place| place.is_err()), "{n}");
        }
    }

    /// As cheap to send as it is dear to read: thousands of owners could lead through thousands of pointers each.
    #[test]
    fn a_ladder_of_pointers_is_stepped_over_and_not_climbed() {
        let mut octets = HEAD.to_vec();
        octets[9] = 2;
        octets.extend(b"\x01z\0\0\x06\0\x01\0\0\xFF\0\x01\0\0\0\0\x01\0");
        let ladder = octets.len() as u16;
        // The lowest leads to the root, which is the owner of the record before.
        let rungs = (0..128).map(|i| if i == 0 { 19 } else { ladder + 2 * (i - 1) });
        octets.extend(rungs.flat_map(|to: u16| (0xC000 | to).to_be_bytes()));
        for (rung, is_read) in [(0, true), (125, true), (126, false), (127, false)] {
            let owner = (0xC000 | (ladder + 2 * rung)).to_be_bytes();
            let octets = [&octets[..], &owner, b"\0\xFF\0\x01\0\0\0\0\0\0"].concat();
            let message = Message::new(&octets).unwrap();
            assert_eq!(message.places().filter(Result::is_ok).count(), 2);
            let owners: Vec<_> = message.records().map(|rr| rr.map(|rr| rr.owner)).collect();
            assert_eq!(owners, [Ok(Name::ROOT), if is_read { Ok(Name::ROOT) } else { Err(Malformed) }], "{rung}");
        }
    }

    #[test]
    fn what_is_cut_off_or_longer_is_malformed() {
        let octets = message();
        for len in 12..octets.len() {
            let Some(message) = Message::new(&octets[..len]) else { panic!("a header is there") };
            let is_whole =
                message.question().is_some() && message.records().all(|r| r.is_ok_and(|r| r.rdata().is_some()));
            assert!(!is_whole, "{len}");
        }
        let longer = [&octets[..], b"x"].concat();
        assert!(Message::new(&longer).unwrap().records().any(|r| r.is_err()));
    }

    #[test]
    fn pointers_lead_back_only() {
        for octets in [&b"\xC0\x00"[..], b"\x01a\xC0\x02", b"\x01a\xC0\x04\0", b"\x01a\xC0"] {
            let at = octets.iter().position(|&c| c == 0xC0).unwrap();
            assert_eq!(name_at(octets, at), None);
        }
        let (name, end) = name_at(b"\x01a\0\x01b\xC0\x00rest", 3).unwrap();
        assert_eq!((name.bytes(), end), (&b"\x01b\x01a\0"[..], 7));
    }
}
