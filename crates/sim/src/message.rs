//! Queries from words, answers to text: for tests to be read.

use std::fmt::Write;
use wire::{Name, rtype};

const FLAGS: [(u16, &str); 7] =
    [(0x8000, "qr"), (0x0400, "aa"), (0x0200, "tc"), (0x0100, "rd"), (0x0080, "ra"), (0x0020, "ad"), (0x0010, "cd")];
const RCODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    "NOTZONE",
];

/// "NAME TYPE", then words beginning with a plus.
pub fn query(words: &str) -> Vec<u8> {
    let mut words = words.split_whitespace();
    let name = words.next().expect("a name is given");
    let rtype = words.next().filter(|w| !w.starts_with('+')).unwrap_or("A");
    let name = Name::from_text(name.as_bytes(), Some(&Name::ROOT)).expect("it is a name");
    let rtype = zonefile::rtypes::from_mnemonic(rtype.as_bytes()).expect("it is a type");
    let (mut size, mut dnssec_ok, mut edns) = (1232u16, false, true);
    for w in words {
        match w {
            "+do" => dnssec_ok = true,
            "+noedns" => edns = false,
            "+tcp" => {}
            w => size = w.strip_prefix("+bufsize=").and_then(|n| n.parse().ok()).expect("a word that is known"),
        }
    }
    packet(name.bytes(), rtype, edns.then_some((size, dnssec_ok)))
}

pub fn packet(name: &[u8], rtype: u16, edns: Option<(u16, bool)>) -> Vec<u8> {
    let mut p = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns.is_some())];
    p.extend(name);
    p.extend(rtype.to_be_bytes());
    p.extend([0, 1]);
    if let Some((size, dnssec_ok)) = edns {
        p.extend([0, 0, 41]);
        p.extend(size.to_be_bytes());
        p.extend([0, 0, u8::from(dnssec_ok) << 7, 0, 0, 0]);
    }
    p
}

/// A query of those words with one option in its OPT.
pub fn with_option(words: &str, code: u16, data: &[u8]) -> Vec<u8> {
    let mut query = query(words);
    let at = query.len() - 2;
    query[at..].copy_from_slice(&(4 + data.len() as u16).to_be_bytes());
    query.extend(code.to_be_bytes());
    query.extend((data.len() as u16).to_be_bytes());
    query.extend(data);
    query
}

/// One record of a message, its names written out.
pub struct Record {
    pub owner: Vec<u8>,
    pub rtype: u16,
    pub class: u16,
    pub ttl: u32,
    pub rdata: Vec<u8>,
}

/// The records of a message by section, the OPT among the last. None: malformed.
pub fn sections(message: &[u8]) -> Option<[Vec<Record>; 3]> {
    let count = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let mut at = 12;
    for _ in 0..count(4) {
        at = name_at(message, at)?.1 + 4;
    }
    let mut out = [vec![], vec![], vec![]];
    for (i, section) in out.iter_mut().enumerate() {
        for _ in 0..count(6 + 2 * i) {
            let (record, next) = record_at(message, at)?;
            section.push(record);
            at = next;
        }
    }
    (at == message.len()).then_some(out)
}

fn record_at(message: &[u8], at: usize) -> Option<(Record, usize)> {
    let (owner, at) = name_at(message, at)?;
    let f = message.get(at..at + 10)?;
    let len = u16::from_be_bytes([f[8], f[9]]) as usize;
    let (rtype, data) = (u16::from_be_bytes([f[0], f[1]]), at + 10);
    let mut rdata = vec![];
    let mut p = data;
    if rtype::is_compressible(rtype) {
        if rtype == rtype::MX {
            rdata.extend(message.get(p..p + 2)?);
            p += 2;
        }
        for _ in 0..if matches!(rtype, rtype::SOA | rtype::MINFO) { 2 } else { 1 } {
            let (name, next) = name_at(message, p)?;
            rdata.extend(name);
            p = next;
        }
    }
    rdata.extend(message.get(p..data + len)?);
    let ttl = u32::from_be_bytes([f[4], f[5], f[6], f[7]]);
    Some((Record { owner, rtype, class: u16::from_be_bytes([f[2], f[3]]), ttl, rdata }, data + len))
}

/// The data of an option in an answer's OPT.
pub fn option(answer: &[u8], code: u16) -> Option<Vec<u8>> {
    let sections = sections(answer)?;
    let mut rest = &sections[2].iter().find(|r| r.rtype == 41)?.rdata[..];
    while rest.len() >= 4 {
        let len = u16::from_be_bytes([rest[2], rest[3]]) as usize;
        if rest[..2] == code.to_be_bytes() {
            return Some(rest[4..4 + len].to_vec());
        }
        rest = &rest[4 + len..];
    }
    None
}

/// The name at a place, and where it ends there. Pointers must go back.
pub fn name_at(message: &[u8], at: usize) -> Option<(Vec<u8>, usize)> {
    let (mut out, mut p, mut end, mut before) = (vec![], at, None, at);
    loop {
        let n = *message.get(p)? as usize;
        match n {
            0..=63 => {
                out.extend(message.get(p..p + n + 1)?);
                p += n + 1;
                if n == 0 {
                    return (out.len() <= 255).then_some((out, end.unwrap_or(p)));
                }
            }
            192.. => {
                end.get_or_insert(p + 2);
                p = (n & 63) << 8 | *message.get(p + 1)? as usize;
                if p >= before {
                    return None;
                }
                before = p;
            }
            _ => return None,
        }
    }
}

/// Header and records as lines.
pub fn to_text(message: &[u8]) -> String {
    let Some(sections) = sections(message) else { return format!("malformed: {message:02x?}") };
    let flags = u16::from_be_bytes([message[2], message[3]]);
    let opt = sections[2].iter().find(|r| r.rtype == rtype::OPT);
    let rcode = flags & 15 | opt.map_or(0, |o| (o.ttl >> 20 & 0xff0) as u16);
    let names: Vec<&str> = FLAGS.iter().filter(|f| flags & f.0 != 0).map(|f| f.1).collect();
    let rcode = RCODES.get(rcode as usize).map_or(rcode.to_string(), |r| r.to_string());
    let mut out = format!("{rcode} {}\n", names.join(" "));
    for (title, records) in ["answer", "authority", "additional"].iter().zip(&sections) {
        for r in records.iter().filter(|r| r.rtype != rtype::OPT) {
            let mut line = String::new();
            zonefile::record_to_text(&r.owner, r.ttl, r.class, r.rtype, &r.rdata, &mut line);
            writeln!(out, "{title}: {line}").expect("a string takes what is written");
        }
    }
    out
}
