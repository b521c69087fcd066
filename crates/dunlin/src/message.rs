//! A DNS message taken apart for people: every record of every section, names written out in full.
//!
//! Never panics on a peer's octets: what is cut off or points astray is `Malformed`, with the place. Not for answering
//! threads: it allocates.

use wire::{Name, Rtype, rtype};

/// A peer's octets that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub at: usize,
    pub why: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at octet {}", self.why, self.at)
    }
}

#[derive(Clone, Debug)]
pub struct Message {
    pub id: u16,
    pub flags: u16,
    pub counts: [u16; 4],
    pub questions: Vec<Question>,
    /// Answer, authority, additional; OPT is not among them.
    pub sections: [Vec<Record>; 3],
    pub opt: Option<Opt>,
    /// Octets behind the last record.
    pub left_over: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub name: Name,
    pub rtype: Rtype,
    pub class: u16,
}

#[derive(Clone, Debug)]
pub struct Record {
    pub owner: Name,
    pub rtype: Rtype,
    pub class: u16,
    pub ttl: u32,
    /// Uncompressed.
    pub rdata: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub struct Opt {
    pub udp_size: u16,
    pub extended_rcode: u8,
    pub version: u8,
    pub flags: u16,
    pub options: Vec<(u16, Vec<u8>)>,
}

pub const QR: u16 = 1 << 15;
pub const AA: u16 = 1 << 10;
pub const TC: u16 = 1 << 9;
pub const RD: u16 = 1 << 8;
pub const RA: u16 = 1 << 7;
pub const Z: u16 = 1 << 6;
pub const AD: u16 = 1 << 5;
pub const CD: u16 = 1 << 4;
pub const DO: u16 = 1 << 15;

impl Message {
    pub fn parse(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut r = Reader { bytes, at: 0 };
        let (id, flags) = (r.u16()?, r.u16()?);
        let counts = [r.u16()?, r.u16()?, r.u16()?, r.u16()?];
        let mut questions = Vec::new();
        for _ in 0..counts[0] {
            questions.push(Question { name: r.name()?, rtype: r.u16()?, class: r.u16()? });
        }
        let mut message =
            Message { id, flags, counts, questions, sections: Default::default(), opt: None, left_over: 0 };
        for section in 0..3 {
            for _ in 0..counts[section + 1] {
                let record = r.record()?;
                if record.rtype == rtype::OPT && message.opt.is_none() {
                    message.opt = Some(opt(&record, r.at)?);
                } else {
                    message.sections[section].push(record);
                }
            }
        }
        message.left_over = bytes.len() - r.at;
        Ok(message)
    }

    pub fn opcode(&self) -> u8 {
        (self.flags >> 11) as u8 & 15
    }

    /// With the upper bits that OPT carries (RFC 6891 section 6.1.3).
    pub fn rcode(&self) -> u16 {
        let upper = self.opt.as_ref().map_or(0, |o| u16::from(o.extended_rcode));
        upper << 4 | (self.flags & 15)
    }
}

fn opt(record: &Record, at: usize) -> Result<Opt, Malformed> {
    let mut r = Reader { bytes: &record.rdata, at: 0 };
    let mut options = Vec::new();
    while r.at < record.rdata.len() {
        let broken = Malformed { at, why: "an EDNS option is cut off" };
        let (code, len) = (r.u16().map_err(|_| broken)?, r.u16().map_err(|_| broken)?);
        options.push((code, r.octets(usize::from(len)).map_err(|_| broken)?.to_vec()));
    }
    let [extended_rcode, version, high, low] = record.ttl.to_be_bytes();
    Ok(Opt { udp_size: record.class, extended_rcode, version, flags: u16::from_be_bytes([high, low]), options })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn octets(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let found =
            self.bytes.get(self.at..self.at + n).ok_or(Malformed { at: self.at, why: "the message is cut off" })?;
        self.at += n;
        Ok(found)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        let at = self.at;
        match self.octets(2)? {
            &[a, b] => Ok(u16::from_be_bytes([a, b])),
            _ => Err(Malformed { at, why: "the message is cut off" }),
        }
    }

    /// A name, its pointers followed. A pointer must lead backwards past where the last one was read, so that the walk
    /// ends (RFC 1035 section 4.1.4: "a prior occurrence").
    fn name(&mut self) -> Result<Name, Malformed> {
        let mut wire = Vec::with_capacity(64);
        let (mut at, mut behind, mut lowest) = (self.at, None, self.at);
        loop {
            let bad = move |why| Malformed { at, why };
            let &n = self.bytes.get(at).ok_or(bad("a name is cut off"))?;
            match n {
                0 => break,
                1..=63 => {
                    let label = self.bytes.get(at..=at + usize::from(n)).ok_or(bad("a name is cut off"))?;
                    wire.extend_from_slice(label);
                    at += label.len();
                }
                0xc0.. => {
                    let &low = self.bytes.get(at + 1).ok_or(bad("a pointer is cut off"))?;
                    let target = usize::from(n & 0x3f) << 8 | usize::from(low);
                    if target >= lowest {
                        return Err(bad("a compression pointer that does not lead backwards"));
                    }
                    behind = behind.or(Some(at + 2));
                    (at, lowest) = (target, target);
                }
                _ => return Err(bad("a label of an unknown kind")),
            }
            if wire.len() >= wire::name::NAME_MAX {
                return Err(bad("a name of more than 255 octets"));
            }
        }
        wire.push(0);
        self.at = behind.unwrap_or(at + 1);
        Name::from_wire(&wire).ok_or(Malformed { at, why: "a name of more than 255 octets" })
    }

    fn record(&mut self) -> Result<Record, Malformed> {
        let (owner, rtype, class) = (self.name()?, self.u16()?, self.u16()?);
        let ttl = u32::from(self.u16()?) << 16 | u32::from(self.u16()?);
        let len = usize::from(self.u16()?);
        let start = self.at;
        self.octets(len)?;
        let mut inside = Reader { bytes: &self.bytes[..start + len], at: start };
        let rdata = inside.rdata(rtype, class)?;
        Ok(Record { owner, rtype, class, ttl, rdata })
    }

    /// Record data with its names written out. Names may be compressed in the types of RFC 1035, and receivers take
    /// them compressed in those of RFC 3597 section 4 too.
    fn rdata(&mut self, rtype: Rtype, class: u16) -> Result<Vec<u8>, Malformed> {
        let mut out = Vec::with_capacity(self.bytes.len() - self.at);
        let (before, names) = if class == 1 { names_within(rtype) } else { (0, 0) };
        if self.at < self.bytes.len() {
            out.extend_from_slice(self.octets(before)?);
            if rtype == rtype::NAPTR {
                self.strings(3, &mut out)?;
            }
            for _ in 0..names {
                out.extend_from_slice(self.name()?.bytes());
            }
        }
        out.extend_from_slice(&self.bytes[self.at..]);
        Ok(out)
    }

    fn strings(&mut self, n: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
        for _ in 0..n {
            let &len = self.bytes.get(self.at).ok_or(Malformed { at: self.at, why: "a text is cut off" })?;
            out.extend_from_slice(self.octets(usize::from(len) + 1)?);
        }
        Ok(())
    }
}

/// How many octets stand before the names of a type's data, and how many names there are.
fn names_within(t: Rtype) -> (usize, usize) {
    match t {
        rtype::NS | rtype::MD | rtype::MF | rtype::CNAME | rtype::MB | rtype::MG | rtype::MR => (0, 1),
        rtype::PTR | rtype::DNAME | rtype::NXT => (0, 1),
        rtype::SOA | rtype::MINFO | rtype::RP => (0, 2),
        rtype::MX | rtype::AFSDB | rtype::RT | rtype::KX => (2, 1),
        rtype::PX => (2, 2),
        rtype::SRV => (6, 1),
        rtype::NAPTR => (4, 1),
        rtype::SIG | rtype::RRSIG => (18, 1),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with the given counts.
    fn header(counts: [u16; 4]) -> Vec<u8> {
        let mut m = vec![0x12, 0x34, 0x84, 0x00];
        for c in counts {
            m.extend_from_slice(&c.to_be_bytes());
        }
        m
    }

    fn sample() -> Vec<u8> {
        let mut m = header([1, 1, 0, 1]);
        m.extend_from_slice(b"\x07example\x03com\x00\x00\x0f\x00\x01");
        m.extend_from_slice(b"\xc0\x0c\x00\x0f\x00\x01\x00\x00\x0e\x10\x00\x09\x00\x0a\x04mail\xc0\x0c");
        m.extend_from_slice(b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x07\x00\x03\x00\x03ns1");
        m
    }

    #[test]
    fn a_message_is_taken_apart() {
        let m = Message::parse(&sample()).unwrap();
        assert_eq!((m.id, m.rcode(), m.left_over), (0x1234, 0, 0));
        assert_eq!(m.questions[0].name.to_string(), "example.com.");
        assert_eq!(m.sections[0][0].rdata, b"\x00\x0a\x04mail\x07example\x03com\x00");
        let opt = m.opt.unwrap();
        assert_eq!((opt.udp_size, opt.flags, &opt.options), (1232, DO, &vec![(3, b"ns1".to_vec())]));
    }

    #[test]
    fn every_shorter_message_is_malformed_and_none_panics() {
        let whole = sample();
        for n in 0..whole.len() {
            assert!(Message::parse(&whole[..n]).is_err(), "{n}");
        }
    }

    #[test]
    fn any_octet_may_be_wrong_without_a_panic() {
        let whole = sample();
        for at in 0..whole.len() {
            for value in 0..=255 {
                let mut m = whole.clone();
                m[at] = value;
                let _ = Message::parse(&m);
            }
        }
    }

    #[test]
    fn pointers_that_lead_nowhere_are_malformed() {
        for name in [&b"\xc0\x0c"[..], b"\xc0\xff", b"\x01a\xc0\x0c", b"\x80a", b"\x40"] {
            let mut m = header([1, 0, 0, 0]);
            m.extend_from_slice(name);
            m.extend_from_slice(b"\x00\x01\x00\x01");
            assert!(Message::parse(&m).is_err(), "{name:?}");
        }
    }
}
