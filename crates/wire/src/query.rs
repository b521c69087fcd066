//! A query as it lies in its buffer: header, one question, EDNS. Parsed once, in one pass, without a copy of anything
//! but the folded name.
//!
//! O(1) on failure: whatever is wrong is named by `Parsed`, and the rest is not looked at.

use crate::hash::name_step;
use crate::name::{LABEL_MAX, NAME_MAX};
use crate::rtype::{self, Rtype};

pub const HEADER: usize = 12;
/// Suffixes hashed ahead of the walk. Deeper names go on label by label; no zone that we measured has more.
pub const DEPTH_AHEAD: usize = 10;
/// EDNS options looked at in a query; what follows is ignored (attack: option floods, CVE-2026-41292).
const OPTIONS_MAX: usize = 32;

pub const CLASS_IN: u16 = 1;
pub const CLASS_CH: u16 = 3;
pub const CLASS_ANY: u16 = 255;

/// What parsing found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Shorter than a header: nobody could tell what the answer is for.
    TooShort,
    /// A response: answering it would feed a loop.
    Response,
    /// An opcode other than QUERY.
    Opcode(u8),
    /// Malformed before the question's end: only the header can be echoed.
    BadHeader,
    /// Malformed behind the question.
    BadBody,
    /// EDNS version above 0.
    BadVersion,
    /// No question, but a cookie (RFC 7873 section 5.4).
    CookieAlone,
    /// A TSIG record, at this place: signed by a key that we do not have.
    Signed(u16),
    Question,
}

/// EDNS options of a query that change its answer; offsets into the packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edns {
    pub present: bool,
    pub dnssec_ok: bool,
    pub udp_size: u16,
    pub nsid: bool,
    pub zone_version: bool,
    pub keepalive: bool,
    /// Cookie option: where its data begins and how long it is; length 0: none.
    pub cookie_at: u16,
    pub cookie_len: u16,
}

/// The four counts of a header.
const ONE_QUESTION: u64 = 1 << 48;
const ONE_QUESTION_AND_OPT: u64 = 1 << 48 | 1;

impl Edns {
    /// What nearly all clients send, compared as words: one OPT of version 0 without options.
    #[inline(always)]
    fn plain(rest: &[u8]) -> Option<Edns> {
        let opt: &[u8; 11] = rest.try_into().ok()?;
        let (head, tail) = (u64::from_be_bytes(*opt.first_chunk()?), u16::from_be_bytes(*opt.last_chunk()?));
        // The root, type 41, and the version; the upper part of the rcode means nothing in a query.
        if head & 0xFFFF_FF00_0000_FF00 != 41 << 40 || tail != 0 {
            return None;
        }
        Some(Edns { present: true, dnssec_ok: head & 0x80 != 0, udp_size: (head >> 24) as u16, ..Edns::default() })
    }
}

/// Scratch for one query, used again and again. Plain data; `parse` sets every field that its verdict allows to be read.
#[derive(Clone)]
pub struct Query {
    pub parsed: Parsed,
    pub edns: Edns,
    pub qtype: Rtype,
    pub qclass: u16,
    /// Octets of the name, the root label counted.
    pub name_len: u8,
    /// Labels of the name, the root label not counted.
    pub labels: u8,
    /// How many entries of `hash` hold, from index 1.
    pub hashed: u8,
    /// Where each label begins in the name, leftmost first.
    pub label_at: [u8; 128],
    /// `hash[d]`: the hash of the suffix of d labels.
    pub hash: [u64; DEPTH_AHEAD + 1],
    /// The name in lower case; what follows it is undefined.
    pub folded: [u8; NAME_MAX + 9],
}

impl Default for Query {
    fn default() -> Query {
        Query {
            parsed: Parsed::TooShort,
            edns: Edns::default(),
            qtype: 0,
            qclass: 0,
            name_len: 0,
            labels: 0,
            hashed: 0,
            label_at: [0; 128],
            hash: [0; DEPTH_AHEAD + 1],
            folded: [0; NAME_MAX + 9],
        }
    }
}

impl Query {
    /// The end of the question: where an answer's records begin.
    #[inline]
    pub fn question_end(&self) -> usize {
        HEADER + self.name_len as usize + 4
    }

    /// The end of what an error echoes: the question, if there is one that could be read.
    pub fn echoed_end(&self) -> usize {
        if self.name_len == 0 { HEADER } else { self.question_end() }
    }

    /// The hashes of the suffixes of one label, of two, and so on.
    #[inline(always)]
    pub fn hashes(&self) -> &[u64] {
        self.hash.get(1..1 + self.hashed as usize).unwrap_or_default()
    }

    #[inline]
    pub fn name(&self) -> &[u8] {
        &self.folded[..self.name_len as usize]
    }

    /// Where the suffix of `labels` labels begins in the name.
    #[inline]
    pub fn suffix_at(&self, labels: usize) -> usize {
        match (self.labels as usize).checked_sub(labels) {
            Some(i) if labels > 0 => self.label_at[i] as usize,
            _ => self.name_len as usize - 1,
        }
    }

    /// Reads the packet of `len` octets at the head of `buffer`. `depth` and `seed`: how many suffixes to hash, and with
    /// what.
    #[inline(always)]
    pub fn parse(&mut self, buffer: &[u8], len: usize, depth: usize, seed: u64) {
        self.parsed = self.read(buffer, len);
        if self.parsed == Parsed::Question {
            self.hash_suffixes(depth, seed);
        }
    }

    #[inline(always)]
    fn read(&mut self, buffer: &[u8], len: usize) -> Parsed {
        let Some(packet) = buffer.get(..len) else { return Parsed::TooShort };
        self.name_len = 0;
        self.edns = Edns::default();
        let Some(header) = packet.first_chunk::<HEADER>() else { return Parsed::TooShort };
        if header[2] & 0x80 != 0 {
            return Parsed::Response;
        }
        let opcode = header[2] >> 3 & 15;
        // Exactly one question (RFC 9619); the other counts are judged behind it.
        if header[4..6] != [0, 1] || self.read_question(buffer, len).is_none() {
            return self.without_question(opcode, header, packet);
        }
        if opcode != 0 {
            // What matters of the rest is whether the client speaks EDNS, and which (RFC 6891 sections 6.1.1 and 6.1.3).
            let rest = self.read_records(header, packet, self.question_end());
            self.edns.present &= rest != Parsed::BadBody;
            return if rest == Parsed::BadVersion { rest } else { Parsed::Opcode(opcode) };
        }
        let rest = &packet[self.question_end()..];
        let [_, _, _, _, others @ ..] = header;
        match (u64::from_be_bytes(*others), Edns::plain(rest)) {
            (ONE_QUESTION, _) if rest.is_empty() => Parsed::Question,
            (ONE_QUESTION_AND_OPT, Some(edns)) => {
                self.edns = edns;
                Parsed::Question
            }
            _ => self.read_records(header, packet, self.question_end()),
        }
    }

    #[cold]
    fn without_question(&mut self, opcode: u8, header: &[u8; HEADER], packet: &[u8]) -> Parsed {
        let is_whole = header[4..6] == [0, 0] && self.read_records(header, packet, HEADER) == Parsed::Question;
        self.edns.present &= is_whole;
        match opcode {
            0 if is_whole && self.edns.cookie_len > 0 => Parsed::CookieAlone,
            0 => Parsed::BadHeader,
            _ => Parsed::Opcode(opcode),
        }
    }

    #[inline(always)]
    fn read_question(&mut self, buffer: &[u8], len: usize) -> Option<()> {
        let name = buffer.get(HEADER..len)?;
        let (mut at, mut labels) = (0, 0);
        loop {
            let n = *name.get(at)? as usize;
            if n == 0 {
                break;
            }
            // A pointer has nothing to point at yet, so 192 and above is as wrong as 64.
            if n > LABEL_MAX || at + n + 2 > NAME_MAX {
                return None;
            }
            self.label_at[labels & 127] = at as u8;
            labels += 1;
            at += n + 1;
        }
        let end = at + 1;
        let fixed = name.get(end..)?.first_chunk::<4>()?;
        self.fold(&buffer[HEADER..], end);
        self.qtype = u16::from_be_bytes([fixed[0], fixed[1]]);
        self.qclass = u16::from_be_bytes([fixed[2], fixed[3]]);
        self.name_len = end as u8;
        self.labels = labels as u8;
        Some(())
    }

    /// Names of up to 48 octets, nearly all, are folded as a block of fixed size: no loop, no call.
    #[inline(always)]
    fn fold(&mut self, name: &[u8], len: usize) {
        match (name.first_chunk::<48>(), self.folded.first_chunk_mut::<48>()) {
            (Some(from), Some(to)) if len <= 48 => {
                let mut block = *from;
                block.make_ascii_lowercase();
                *to = block;
            }
            _ => {
                self.folded[..len].copy_from_slice(&name[..len]);
                self.folded[..len].make_ascii_lowercase();
            }
        }
    }

    /// What follows the question: nothing, one OPT and perhaps a TSIG. Other records are stepped over.
    #[inline(never)]
    fn read_records(&mut self, header: &[u8; HEADER], packet: &[u8], from: usize) -> Parsed {
        let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]) as usize;
        let (before, additional) = (count(6) + count(8), count(10));
        let mut at = from;
        let mut verdict = Parsed::Question;
        for i in 0..before + additional {
            let Some(record) = Record::at(packet, at) else { return Parsed::BadBody };
            let last = i + 1 == before + additional;
            match record.rtype {
                rtype::OPT => {
                    if i < before || self.edns.present || packet[at] != 0 {
                        return Parsed::BadBody;
                    }
                    if !self.read_edns(packet, &record) {
                        return Parsed::BadBody;
                    }
                    if record.ttl >> 16 & 0xff != 0 {
                        verdict = Parsed::BadVersion;
                    }
                }
                // Nowhere but at the end of the additional section (RFC 8945 section 5.2).
                rtype::TSIG if i < before || !last => return Parsed::BadBody,
                rtype::TSIG => verdict = Parsed::Signed(at as u16),
                _ => {}
            }
            at = record.data_at + record.data_len;
        }
        if at != packet.len() {
            return Parsed::BadBody;
        }
        verdict
    }

    /// False: an option reaches beyond the record (RFC 6891 section 6.1.2), or a cookie of an impossible length (RFC 7873 section 5.2.2).
    fn read_edns(&mut self, packet: &[u8], opt: &Record) -> bool {
        let e = &mut self.edns;
        e.present = true;
        e.udp_size = opt.class;
        e.dnssec_ok = opt.ttl & 0x8000 != 0;
        let (mut at, end) = (opt.data_at, opt.data_at + opt.data_len);
        for _ in 0..OPTIONS_MAX {
            if at == end {
                return true;
            }
            let Some(head) = packet.get(at..end).and_then(|o| o.first_chunk::<4>()) else { return false };
            let (code, len) = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]) as usize);
            at += 4;
            if len > end - at {
                return false;
            }
            match code {
                3 => e.nsid = true,
                10 if len < 8 || len > 8 && !(16..=40).contains(&len) => return false,
                10 if e.cookie_len == 0 => (e.cookie_at, e.cookie_len) = (at as u16, len as u16),
                11 => e.keepalive = true,
                19 => e.zone_version = true,
                _ => {}
            }
            at += len;
        }
        true
    }

    /// Hashes the suffixes of a name that was parsed without: with a `depth` of 0, as whoever asks a cache first does.
    #[inline(always)]
    pub fn hash_suffixes(&mut self, depth: usize, seed: u64) {
        let n = self.labels as usize;
        let deep = n.min(depth).min(DEPTH_AHEAD);
        let [first, below @ ..] = &mut self.hash;
        *first = seed;
        let mut h = seed;
        for (d, hash) in below.iter_mut().take(deep).enumerate() {
            h = name_step(h, &self.folded, self.label_at[(n - 1 - d) & 127] as usize);
            *hash = h;
        }
        self.hashed = deep as u8;
    }

    /// Makes this scratch hold another name, for the rest of an alias chain. Type, class and EDNS stay.
    pub fn follow(&mut self, name: &[u8], depth: usize, seed: u64) {
        let (mut at, mut labels) = (0, 0);
        while let Some(&n) = name.get(at) {
            if n == 0 {
                break;
            }
            self.label_at[labels & 127] = at as u8;
            labels += 1;
            at += n as usize + 1;
        }
        let len = (at + 1).min(NAME_MAX).min(name.len());
        self.folded[..len].copy_from_slice(&name[..len]);
        self.folded[..len].make_ascii_lowercase();
        self.name_len = len as u8;
        self.labels = labels as u8;
        self.hash_suffixes(depth, seed);
    }
}

/// A record's fixed part, wherever it stands.
struct Record {
    rtype: Rtype,
    class: u16,
    ttl: u32,
    data_at: usize,
    data_len: usize,
}

impl Record {
    #[inline(always)]
    fn at(packet: &[u8], at: usize) -> Option<Record> {
        let fixed_at = skip_name(packet, at)?;
        let f = packet.get(fixed_at..)?.first_chunk::<10>()?;
        let data_at = fixed_at + 10;
        let data_len = u16::from_be_bytes([f[8], f[9]]) as usize;
        if data_len > packet.len() - data_at {
            return None;
        }
        let ttl = u32::from_be_bytes([f[4], f[5], f[6], f[7]]);
        Some(Record {
            rtype: u16::from_be_bytes([f[0], f[1]]),
            class: u16::from_be_bytes([f[2], f[3]]),
            ttl,
            data_at,
            data_len,
        })
    }
}

/// The end of a name that may end in a pointer. Pointers are not followed: nobody asks what they say.
#[inline(always)]
fn skip_name(packet: &[u8], mut at: usize) -> Option<usize> {
    let start = at;
    loop {
        let n = *packet.get(at)? as usize;
        match n {
            0 => return Some(at + 1),
            1..=63 => at += n + 1,
            192..=255 => return if at + 2 <= packet.len() { Some(at + 2) } else { None },
            _ => return None,
        }
        if at - start > NAME_MAX {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: &[u8] = b"\x12\x34\x00\x00\0\x01\0\0\0\0\0\0\x03WWW\x07eXample\0\0\x01\0\x01";

    fn parse(packet: &[u8]) -> Query {
        let mut q = Query::default();
        q.parse(packet, packet.len(), 8, 99);
        q
    }

    fn with(tail: &[u8], additional: u8) -> Vec<u8> {
        let mut p = ASK.to_vec();
        p[11] = additional;
        p.extend_from_slice(tail);
        p
    }

    #[test]
    fn a_question_is_read_folded_and_hashed() {
        let q = parse(ASK);
        assert_eq!(q.parsed, Parsed::Question);
        assert_eq!((q.name(), q.labels, q.qtype, q.qclass), (&b"\x03www\x07example\0"[..], 2, 1, 1));
        assert_eq!(q.hash[2], crate::hash::name_hash(99, b"\x03www\x07example\0"));
        assert_eq!((q.suffix_at(0), q.suffix_at(1), q.suffix_at(2)), (12, 4, 0));
    }

    #[test]
    fn edns_is_read_with_its_options() {
        let q = parse(&with(b"\0\0\x29\x04\xd0\0\0\x80\0\0\x10\0\x03\0\0\0\x0a\0\x08abcdefgh", 1));
        assert_eq!(q.parsed, Parsed::Question);
        assert!(q.edns.present && q.edns.dnssec_ok && q.edns.nsid);
        assert_eq!((q.edns.udp_size, q.edns.cookie_len), (1232, 8));
    }

    #[test]
    fn what_each_malformation_is_called() {
        let opt = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";
        let version_1 = with(b"\0\0\x29\x04\xd0\0\x01\0\0\0\0", 1);
        let table: &[(&str, Vec<u8>, Parsed)] = &[
            ("nothing", vec![], Parsed::TooShort),
            ("half a header", ASK[..11].to_vec(), Parsed::TooShort),
            ("a response", [&ASK[..2], b"\x80", &ASK[3..]].concat(), Parsed::Response),
            ("STATUS", [&ASK[..2], b"\x10", &ASK[3..]].concat(), Parsed::Opcode(2)),
            ("no question", [&ASK[..5], b"\0", &ASK[6..]].concat(), Parsed::BadHeader),
            ("two questions", [&ASK[..5], b"\x02", &ASK[6..]].concat(), Parsed::BadHeader),
            ("cut in the name", ASK[..20].to_vec(), Parsed::BadHeader),
            ("cut in the type", ASK[..ASK.len() - 1].to_vec(), Parsed::BadHeader),
            ("a pointer for a name", [&ASK[..12], b"\xc0\x0c\0\x01\0\x01"].concat(), Parsed::BadHeader),
            ("octets too many", with(b"x", 0), Parsed::BadBody),
            ("an OPT that is not there", with(b"", 1), Parsed::BadBody),
            ("two OPTs", with(&[&opt[..], &opt[..]].concat(), 2), Parsed::BadBody),
            ("an OPT with a name", with(b"\x01a\0\0\x29\x04\xd0\0\0\0\0\0\0", 1), Parsed::BadBody),
            ("an option beyond its record", with(b"\0\0\x29\x04\xd0\0\0\0\0\0\x04\0\x03\0\x01", 1), Parsed::BadBody),
            ("a cookie of five octets", with(b"\0\0\x29\x04\xd0\0\0\0\0\0\x09\0\x0a\0\x05abcde", 1), Parsed::BadBody),
            ("version 1", version_1.clone(), Parsed::BadVersion),
            ("an update of version 1", [&version_1[..2], b"\x28", &version_1[3..]].concat(), Parsed::BadVersion),
        ];
        for (what, packet, expect) in table {
            assert_eq!(parse(packet).parsed, *expect, "{what}");
        }
    }
}
