//! A whole message as somebody else wrote it: its question and its records, names written out.
//!
//! Reads other people's octets: every place is checked, a pointer must go back, and a name follows at most `HOPS_MAX`
//! of them (RFC 9267). What is malformed ends the walk; nothing is guessed. Never allocates but for record data.

use crate::name::{LABEL_MAX, NAME_MAX};
use crate::query::HEADER;
use crate::rtype::{self, Rtype};
use crate::{Name, Rcode, reply};

/// Pointers that one name may follow: each saves at least one octet, and a name has at most 127 labels.
const HOPS_MAX: usize = 127;

/// A message whose header and question could be read.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    octets: &'a [u8],
    /// Uncompressed, as every first name of a message is.
    name_end: usize,
}

/// A record where it stands in its message.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    octets: &'a [u8],
    owner_at: usize,
    pub section: reply::Section,
    pub rtype: Rtype,
    pub class: u16,
    pub ttl_s: u32,
    data_at: usize,
    data_end: usize,
}

impl<'a> Message<'a> {
    /// None: shorter than a header, not one question, or a question that is malformed.
    pub fn open(octets: &'a [u8]) -> Option<Message<'a>> {
        let len = crate::name::wire_len(octets.get(HEADER..)?)?;
        let name_end = HEADER + len;
        octets.get(name_end..name_end + 4)?;
        (octets.get(4..6)? == [0, 1]).then_some(Message { octets, name_end })
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16_at(self.octets, at).unwrap_or(0)
    }

    pub fn id(&self) -> u16 {
        self.u16_at(0)
    }

    /// QR, opcode, AA, TC, RD, RA, AD, CD and the low bits of the rcode.
    pub fn flags(&self) -> u16 {
        self.u16_at(2)
    }

    pub fn is_response(&self) -> bool {
        self.flags() & 0x8000 != 0
    }

    pub fn is_truncated(&self) -> bool {
        self.flags() & 0x0200 != 0
    }

    pub fn is_authoritative(&self) -> bool {
        self.flags() & 0x0400 != 0
    }

    /// The rcode of the header; that of an OPT has more bits.
    pub fn rcode(&self) -> Rcode {
        Rcode(self.flags() & 15)
    }

    /// The question's name as it was written.
    pub fn name(&self) -> &'a [u8] {
        self.octets.get(HEADER..self.name_end).unwrap_or_default()
    }

    pub fn qtype(&self) -> Rtype {
        self.u16_at(self.name_end)
    }

    pub fn qclass(&self) -> u16 {
        self.u16_at(self.name_end + 2)
    }

    pub fn records(&self) -> Records<'a> {
        let counts = [6, 8, 10].map(|at| self.u16_at(at));
        Records { octets: self.octets, at: self.name_end + 4, counts }
    }

    /// True if all records can be read and nothing follows them.
    pub fn is_whole(&self) -> bool {
        let mut records = self.records();
        records.by_ref().all(|r| r.is_some()) && records.at == self.octets.len()
    }
}

/// The records of a message in their order; a None is one that cannot be read, and the last.
pub struct Records<'a> {
    octets: &'a [u8],
    at: usize,
    counts: [u16; 3],
}

impl<'a> Iterator for Records<'a> {
    type Item = Option<Record<'a>>;

    fn next(&mut self) -> Option<Option<Record<'a>>> {
        let section = self.counts.iter().position(|&n| n > 0)?;
        self.counts[section] -= 1;
        let found = self.read(section);
        match &found {
            Some(record) => self.at = record.data_end,
            None => self.counts = [0; 3],
        }
        Some(found)
    }
}

impl<'a> Records<'a> {
    /// The records that stand in `octets` from `at` on, so many in each section.
    pub fn within(octets: &'a [u8], at: usize, counts: [u16; 3]) -> Records<'a> {
        Records { octets, at, counts }
    }

    fn read(&self, section: usize) -> Option<Record<'a>> {
        let owner_at = self.at;
        let fixed_at = name_end(self.octets, owner_at)?;
        let fixed = self.octets.get(fixed_at..)?.first_chunk::<10>()?;
        let data_at = fixed_at + 10;
        let data_end = data_at + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        self.octets.get(data_at..data_end)?;
        let sections = [reply::Section::Answer, reply::Section::Authority, reply::Section::Additional];
        Some(Record {
            octets: self.octets,
            owner_at,
            section: sections[section],
            rtype: u16::from_be_bytes([fixed[0], fixed[1]]),
            class: u16::from_be_bytes([fixed[2], fixed[3]]),
            ttl_s: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            data_at,
            data_end,
        })
    }
}

impl<'a> Record<'a> {
    pub fn owner(&self) -> Option<Name> {
        name_at(self.octets, self.owner_at)
    }

    /// The data as it stands, its names perhaps compressed.
    pub fn raw_data(&self) -> &'a [u8] {
        self.octets.get(self.data_at..self.data_end).unwrap_or_default()
    }

    /// The name that the data begins with: the target of an alias.
    pub fn target(&self) -> Option<Name> {
        (name_end(self.octets, self.data_at)? <= self.data_end).then(|| name_at(self.octets, self.data_at))?
    }

    /// Appends the data with its names written out. None: a name in it is malformed, or reaches beyond it.
    pub fn data(&self, out: &mut Vec<u8>) -> Option<()> {
        let (fixed, names) = names_within(self.rtype);
        let mut at = self.data_at;
        if self.rtype == rtype::NAPTR {
            at = self.after_strings(at + 4, 3)?;
            out.extend_from_slice(self.octets.get(self.data_at..at)?);
        } else if names > 0 {
            at += fixed;
            out.extend_from_slice(self.octets.get(self.data_at..at)?);
        }
        for _ in 0..names {
            out.extend_from_slice(name_at(self.octets, at)?.bytes());
            at = name_end(self.octets, at)?;
        }
        out.extend_from_slice(self.octets.get(at..self.data_end)?);
        Some(())
    }

    fn after_strings(&self, mut at: usize, strings: usize) -> Option<usize> {
        for _ in 0..strings {
            at += 1 + usize::from(*self.octets.get(at)?);
        }
        (at <= self.data_end).then_some(at)
    }
}

/// Types whose data has names that may be compressed by whoever sent them (RFC 3597 section 4): octets before the
/// names, and how many names there are.
fn names_within(rtype: Rtype) -> (usize, usize) {
    match rtype {
        rtype::NS | rtype::MD | rtype::MF | rtype::CNAME | rtype::MB | rtype::MG | rtype::MR | rtype::PTR => (0, 1),
        rtype::DNAME | rtype::NXT => (0, 1),
        rtype::SOA | rtype::MINFO | rtype::RP => (0, 2),
        rtype::MX | rtype::AFSDB | rtype::RT | rtype::KX => (2, 1),
        rtype::PX => (2, 2),
        rtype::SRV => (6, 1),
        rtype::SIG | rtype::RRSIG => (18, 1),
        rtype::NAPTR => (0, 1),
        _ => (0, 0),
    }
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk::<2>().map(|b| u16::from_be_bytes(*b))
}

/// The end of the name at a place: behind its root label or its pointer.
pub fn name_end(octets: &[u8], mut at: usize) -> Option<usize> {
    let start = at;
    loop {
        let n = usize::from(*octets.get(at)?);
        match n {
            0 => return Some(at + 1),
            1..=LABEL_MAX => at += n + 1,
            192.. => return octets.get(at + 1).map(|_| at + 2),
            _ => return None,
        }
        if at - start > NAME_MAX {
            return None;
        }
    }
}

/// The name at a place, written out.
pub fn name_at(octets: &[u8], at: usize) -> Option<Name> {
    let mut name = [0; NAME_MAX];
    let (mut len, mut at) = (0, at);
    for _ in 0..=HOPS_MAX {
        // The labels up to the end or to a pointer, copied in one piece.
        let start = at;
        let end = loop {
            match usize::from(*octets.get(at)?) {
                0 => break at + 1,
                n @ 1..=LABEL_MAX => at += n + 1,
                _ => break at,
            }
            if at - start >= NAME_MAX {
                return None;
            }
        };
        name.get_mut(len..len + end - start)?.copy_from_slice(octets.get(start..end)?);
        len += end - start;
        if end > at {
            return Some(Name::of_labels(name, len));
        }
        let pointer = u16_at(octets, at).filter(|p| p >> 14 == 3)?;
        at = usize::from(pointer & 0x3FFF);
        if at >= start {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(records: &[u8], counts: [u8; 3]) -> Vec<u8> {
        let mut m = b"\x12\x34\x81\x80\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01".to_vec();
        (m[7], m[9], m[11]) = (counts[0], counts[1], counts[2]);
        m.extend_from_slice(records);
        m
    }

    fn text(octets: &[u8], at: usize) -> Option<String> {
        name_at(octets, at).map(|n| n.to_string())
    }

    #[test]
    fn records_are_read_with_their_names_written_out() {
        let m = message(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x06\x03ftp\xc0\x10\xc0\x10\0\x06\0\x01\0\0\0\x3c\0\x18\xc0\x10\xc0\x0c12345678901234567890", [1, 1, 0]);
        let opened = Message::open(&m).unwrap();
        assert!(opened.is_whole() && opened.is_response());
        assert_eq!((opened.id(), opened.qtype(), opened.qclass(), opened.rcode()), (0x1234, 1, 1, Rcode::NOERROR));
        let records: Vec<Record<'_>> = opened.records().flatten().collect();
        assert_eq!(records[0].owner().unwrap().to_string(), "www.example.");
        assert_eq!(records[0].target().unwrap().to_string(), "ftp.example.");
        let mut data = vec![];
        records[1].data(&mut data).unwrap();
        assert_eq!(data, b"\x07example\0\x03www\x07example\x0012345678901234567890");
    }

    #[test]
    fn what_is_malformed_is_not_guessed() {
        let whole = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
        assert!(Message::open(&message(whole, [1, 0, 0])).unwrap().is_whole());
        for len in 0..whole.len() {
            assert!(!Message::open(&message(&whole[..len], [1, 0, 0])).unwrap().is_whole(), "{len}");
        }
        assert!(!Message::open(&message(whole, [0, 0, 0])).unwrap().is_whole(), "octets behind the records");
        assert!(!Message::open(&message(whole, [1, 0, 1])).unwrap().is_whole(), "a record that is not there");
        assert!(Message::open(&whole[..]).is_none());
    }

    #[test]
    fn pointers_go_back_and_names_end() {
        let m = b"\xc0\x00\x01a\xc0\x06\x01b\xc0\x02\x01c\0\x01d\xc0\x0a";
        assert_eq!(text(m, 0), None, "to itself");
        assert_eq!(text(m, 2), None, "forward");
        assert_eq!(text(m, 6), None, "in a circle");
        assert_eq!(text(m, 10).as_deref(), Some("c."));
        assert_eq!(text(m, 13).as_deref(), Some("d.c."));
        // Each label points at the one before: the name grows too long before it has followed too many.
        let mut ladder = vec![0];
        for _ in 0..200 {
            let to = ladder.len().saturating_sub(4) as u16 | 0xC000;
            ladder.extend_from_slice(&[1, b'x', to.to_be_bytes()[0], to.to_be_bytes()[1]]);
        }
        assert_eq!(text(&ladder, ladder.len() - 4), None);
    }
}
