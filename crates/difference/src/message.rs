//! Reads a whole answer into plain data that can be compared: names uncompressed and in lower case, each section sorted.
//!
//! Never panics and never guesses: what is not a well-formed message is `Broken` with the reason. Case is folded in owners and in
//! the names inside the types of RFC 4034 section 6.2, because RFC 4343 section 4.1 lets a server lose it. The order of records is
//! dropped (RFC 1034 section 3.6: "the order of RRs in a set is not significant") but for `chain`, which keeps it for the answer section.

use crate::name::Name;
use crate::rtype::{self as t, Rtype, text};
use std::fmt;

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    pub owner: Name,
    pub rtype: Rtype,
    pub class: u16,
    pub ttl: u32,
    pub rdata: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Edns {
    pub udp_size: u16,
    pub version: u8,
    pub dnssec_ok: bool,
    pub z: u16,
    pub options: Vec<u16>,
}

/// `flags` are the second word of the header without opcode and rcode; `rcode` is the extended one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Message {
    pub flags: u16,
    pub opcode: u8,
    pub rcode: u16,
    pub question: Vec<u8>,
    pub questions: u16,
    pub answer: Vec<Record>,
    pub authority: Vec<Record>,
    pub additional: Vec<Record>,
    pub edns: Option<Edns>,
}

pub const AA: u16 = 0x0400;
pub const TC: u16 = 0x0200;
pub const RD: u16 = 0x0100;
pub const RA: u16 = 0x0080;
pub const AD: u16 = 0x0020;
pub const CD: u16 = 0x0010;

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    Silence,
    Broken(String),
    Message(Box<Message>),
}

impl Reply {
    pub fn read(packet: &[u8]) -> Reply {
        match Reader::new(packet).message() {
            Ok(m) => Reply::Message(Box::new(m)),
            Err(why) => Reply::Broken(why.to_string()),
        }
    }

    pub fn message(&self) -> Option<&Message> {
        match self {
            Reply::Message(m) => Some(m),
            _ => None,
        }
    }

    pub fn is_truncated(&self) -> bool {
        self.message().is_some_and(|m| m.flags & TC != 0)
    }
}

impl Message {
    pub fn sections(&self) -> [(&'static str, &Vec<Record>); 3] {
        [("answer", &self.answer), ("authority", &self.authority), ("additional", &self.additional)]
    }

    /// The size of all records without compression: the message is not longer.
    pub fn bulk(&self) -> usize {
        let records = self.sections().into_iter().flat_map(|(_, records)| records);
        12 + self.question.len() + 11 + records.map(|r| r.owner.wire().len() + 10 + r.rdata.len()).sum::<usize>()
    }

    pub fn is_authoritative(&self) -> bool {
        self.flags & AA != 0
    }

    /// A referral names servers of a zone below and no data.
    pub fn is_referral(&self) -> bool {
        self.authority.iter().any(|r| r.rtype == t::NS) && !self.authority.iter().any(|r| r.rtype == t::SOA)
    }
}

impl Record {
    /// The type that a signature covers.
    pub fn covers(&self) -> Option<Rtype> {
        (self.rtype == t::RRSIG && self.rdata.len() > 18).then(|| u16::from_be_bytes([self.rdata[0], self.rdata[1]]))
    }

    /// True for a record of this type and for a signature over it.
    pub fn is_or_signs(&self, rtype: Rtype) -> bool {
        self.rtype == rtype || self.covers() == Some(rtype)
    }

    /// The name inside the rdata, for the types that have one at a fixed place.
    pub fn target(&self) -> Option<Name> {
        let at = match self.rtype {
            t::NS | t::CNAME | t::DNAME | t::PTR => 0,
            t::MX | t::AFSDB | t::KX | t::RT | t::SVCB | t::HTTPS => 2,
            t::SRV => 6,
            _ => return None,
        };
        Reader::new(self.rdata.get(at..)?).name(false).ok()
    }
}

type Read<T> = Result<T, &'static str>;

struct Reader<'a> {
    packet: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(packet: &'a [u8]) -> Reader<'a> {
        Reader { packet, at: 0 }
    }

    fn take(&mut self, n: usize) -> Read<&'a [u8]> {
        let end = self.at.checked_add(n).ok_or("a length beyond all bounds")?;
        let bytes = self.packet.get(self.at..end).ok_or("ends too early")?;
        self.at = end;
        Ok(bytes)
    }

    fn u16(&mut self) -> Read<u16> {
        let b = self.take(2)?;
        Ok(u16::from_be_bytes([b[0], b[1]]))
    }

    fn u32(&mut self) -> Read<u32> {
        Ok(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    /// A name; pointers must lead backwards (RFC 1035 section 4.1.4: "a prior occurrence").
    fn name(&mut self, compression: bool) -> Read<Name> {
        let (mut wire, mut at, mut limit, mut after) = (Vec::new(), self.at, self.at, None);
        loop {
            let n = *self.packet.get(at).ok_or("a name ends too early")?;
            match n {
                0xc0.. if !compression => return Err("a compressed name where RFC 3597 section 4 allows none"),
                0xc0.. => {
                    let low = *self.packet.get(at + 1).ok_or("a pointer ends too early")?;
                    let to = usize::from(n & 0x3f) << 8 | usize::from(low);
                    if to >= limit || to < 12 {
                        return Err("a pointer that does not lead back to a name");
                    }
                    after.get_or_insert(at + 2);
                    (at, limit) = (to, to);
                }
                0x40..=0xbf => return Err("a label of unknown kind"),
                _ => {
                    let label = self.packet.get(at..at + 1 + n as usize).ok_or("a label ends too early")?;
                    wire.extend_from_slice(label);
                    at += 1 + n as usize;
                    if wire.len() > 255 {
                        return Err("a name of more than 255 octets");
                    }
                    if n == 0 {
                        break;
                    }
                }
            }
        }
        self.at = after.unwrap_or(at);
        Ok(Name::from_wire(wire))
    }

    fn message(&mut self) -> Read<Message> {
        self.take(2)?;
        let word = self.u16()?;
        if word & 0x8000 == 0 {
            return Err("QR is not set");
        }
        let (questions, an, ns, ar) = (self.u16()?, self.u16()?, self.u16()?, self.u16()?);
        let mut m = Message {
            flags: word & 0x07f0,
            opcode: (word >> 11) as u8 & 15,
            rcode: word & 15,
            question: self.questions(questions)?,
            questions,
            answer: Vec::new(),
            authority: Vec::new(),
            additional: Vec::new(),
            edns: None,
        };
        m.answer = self.section(an)?;
        m.authority = self.section(ns)?;
        m.additional = self.section(ar)?;
        if self.at != self.packet.len() {
            return Err("octets after the last record");
        }
        m.lift_edns()?;
        Ok(m)
    }

    fn questions(&mut self, n: u16) -> Read<Vec<u8>> {
        let from = self.at;
        for _ in 0..n {
            self.name(true)?;
            self.take(4)?;
        }
        Ok(self.packet[from..self.at].to_vec())
    }

    fn section(&mut self, n: u16) -> Read<Vec<Record>> {
        let mut records = (0..n).map(|_| self.record()).collect::<Read<Vec<Record>>>()?;
        records.sort();
        Ok(records)
    }

    fn record(&mut self) -> Read<Record> {
        let owner = self.name(true)?.fold();
        let (rtype, class, ttl, len) = (self.u16()?, self.u16()?, self.u32()?, self.u16()? as usize);
        let end = self.at + len;
        if end > self.packet.len() {
            return Err("rdata ends too early");
        }
        let rdata = self.rdata(rtype, end)?;
        if self.at != end {
            return Err("a name in rdata runs beyond its length");
        }
        Ok(Record { owner, rtype, class, ttl, rdata })
    }

    fn rdata(&mut self, rtype: Rtype, end: usize) -> Read<Vec<u8>> {
        let (before, names, compression) = match rtype {
            _ if self.at == end => (0, 0, false),
            t::NS | t::MD | t::MF | t::CNAME | t::MB | t::MG | t::MR | t::PTR => (0, 1, true),
            t::SOA | t::MINFO => (0, 2, true),
            t::MX => (2, 1, true),
            t::AFSDB | t::RT | t::KX | t::SVCB | t::HTTPS => (2, 1, false),
            t::SRV => (6, 1, false),
            t::DNAME | t::NSEC => (0, 1, false),
            t::RP => (0, 2, false),
            t::RRSIG => (18, 1, false),
            _ => (end - self.at, 0, false),
        };
        let mut rdata = self.take(before)?.to_vec();
        for _ in 0..names {
            rdata.extend_from_slice(self.name(compression)?.fold().wire());
        }
        rdata.extend_from_slice(self.take(end.checked_sub(self.at).ok_or("a name in rdata runs beyond its length")?)?);
        Ok(rdata)
    }
}

impl Message {
    fn lift_edns(&mut self) -> Read<()> {
        if self.answer.iter().chain(&self.authority).any(|r| r.rtype == t::OPT) {
            return Err("an OPT record outside the additional section");
        }
        let Some(i) = self.additional.iter().position(|r| r.rtype == t::OPT) else { return Ok(()) };
        let opt = self.additional.remove(i);
        if self.additional.iter().any(|r| r.rtype == t::OPT) {
            return Err("two OPT records");
        }
        if opt.owner != Name::root() {
            return Err("an OPT record that is not owned by the root");
        }
        self.rcode |= (opt.ttl >> 20) as u16 & 0xff0;
        self.edns = Some(Edns {
            udp_size: opt.class,
            version: (opt.ttl >> 16) as u8,
            dnssec_ok: opt.ttl & 0x8000 != 0,
            z: opt.ttl as u16 & 0x7fff,
            options: option_codes(&opt.rdata)?,
        });
        Ok(())
    }
}

fn option_codes(rdata: &[u8]) -> Read<Vec<u16>> {
    let (mut reader, mut codes) = (Reader::new(rdata), Vec::new());
    while reader.at < rdata.len() {
        codes.push(reader.u16()?);
        let len = reader.u16()?;
        reader.take(len as usize)?;
    }
    Ok(codes)
}

pub fn rcode_text(rcode: u16) -> String {
    let known = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    ];
    match rcode {
        16 => "BADVERS".to_string(),
        _ => known.get(rcode as usize).map_or_else(|| format!("RCODE{rcode}"), |s| s.to_string()),
    }
}

pub fn flags_text(flags: u16) -> String {
    let names = [(AA, "aa"), (TC, "tc"), (RD, "rd"), (RA, "ra"), (0x40, "z"), (AD, "ad"), (CD, "cd")];
    names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, s)| *s).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.owner, self.ttl, text(self.rtype))?;
        if self.class != 1 {
            write!(f, " CLASS{}", self.class)?;
        }
        match (self.covers(), self.target()) {
            (Some(covered), _) => write!(f, " ({})", text(covered)),
            (_, Some(target)) => write!(f, " {target}"),
            _ if self.rtype == t::NSEC => {
                write!(f, " {}", Reader::new(&self.rdata).name(false).unwrap_or_else(|_| Name::root()))
            }
            _ => {
                let shown = &self.rdata[..self.rdata.len().min(12)];
                write!(f, " {}", shown.iter().map(|b| format!("{b:02x}")).collect::<String>())
            }
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = match self {
            Reply::Silence => return f.write_str("silence"),
            Reply::Broken(why) => return write!(f, "broken message: {why}"),
            Reply::Message(m) => m,
        };
        write!(f, "{} [{}] opcode {} questions {}", rcode_text(m.rcode), flags_text(m.flags), m.opcode, m.questions)?;
        if let Some(e) = &m.edns {
            write!(
                f,
                " edns v{} size {}{} options {:?}",
                e.version,
                e.udp_size,
                if e.dnssec_ok { " do" } else { "" },
                e.options
            )?;
        }
        for (section, records) in m.sections() {
            for r in records {
                write!(f, "\n      {section}: {r}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; 12] = [0, 7, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0];

    fn packet(rest: &[u8]) -> Vec<u8> {
        [&HEADER[..], b"\x01A\x04Test\x00\x00\x05\x00\x01", rest].concat()
    }

    #[test]
    fn names_are_uncompressed_and_folded() {
        let m = packet(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x05\x00\x04\x01B\xc0\x0e");
        let Reply::Message(m) = Reply::read(&m) else { panic!("must read") };
        assert_eq!(m.answer[0].owner, Name::from_text("a.test"));
        assert_eq!(m.answer[0].target(), Some(Name::from_text("b.test")));
        assert!(m.is_authoritative());
    }

    #[test]
    fn what_is_malformed_is_said_to_be_broken() {
        for (rest, why) in [
            (
                &b"\xc0\x30\x00\x05\x00\x01\x00\x00\x00\x05\x00\x02\xc0\x0e"[..],
                "a pointer that does not lead back to a name",
            ),
            (
                b"\xc0\x0c\x00\x27\x00\x01\x00\x00\x00\x05\x00\x02\xc0\x0e",
                "a compressed name where RFC 3597 section 4 allows none",
            ),
            (b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x7f", "rdata ends too early"),
            (b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x00!", "octets after the last record"),
        ] {
            assert!(matches!(Reply::read(&packet(rest)), Reply::Broken(w) if w == why), "{why}");
        }
    }

    #[test]
    fn no_prefix_of_a_message_makes_the_reader_panic() {
        let whole = packet(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x05\x00\x04\x01B\xc0\x0e");
        for n in 0..whole.len() {
            assert!(matches!(Reply::read(&whole[..n]), Reply::Broken(_)));
        }
    }
}
