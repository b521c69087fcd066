//! Updates from lines, as `nsupdate` would send them.
//!
//! ```text
//! yes www A               the RRset exists              no www A             it does not
//! yes www                 the name is in use            no www               it is not
//! yes www A 192.0.2.1     the RRset is exactly this, with the other lines of its kind
//! add www 60 A 192.0.2.1
//! del www A 192.0.2.1     del www A                     del www
//! ```
//! Names are relative to the zone. A line `raw SECTION OWNER CLASS TTL TYPE [HEX]` says what no client would; so do lines
//! `zone OWNER CLASS TYPE`, which stand in the zone section instead of the zone, and `nozone`, after which none does.

use wire::{Name, rtype};

const CLASS_NONE: u16 = 254;
const CLASS_ANY: u16 = 255;

/// The message, with id 1. Panics on a line that is wrong: a test's own lines are right.
pub fn message(zone: &str, lines: &str) -> Vec<u8> {
    let origin = Name::from_text(zone.as_bytes(), None).expect("the zone is a name");
    let (usual, mut zones) = ([origin.bytes(), &[0, rtype::SOA as u8, 0, 1]].concat(), None);
    let mut sections = [(0u16, Vec::new()), (0, Vec::new())];
    for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["nozone"] | ["zone", ..] = &words[..] {
            zones.get_or_insert_with(Vec::new).extend(zone_entry(&words, &origin));
            continue;
        }
        let (section, record) = record(&words, &origin);
        sections[section].0 += 1;
        sections[section].1.extend(record);
    }
    let [(required, prerequisites), (wanted, changes)] = sections;
    let zones = zones.unwrap_or_else(|| vec![usual]);
    let mut out = vec![0, 1, 5 << 3, 0];
    out.extend((zones.len() as u16).to_be_bytes());
    out.extend(required.to_be_bytes());
    out.extend(wanted.to_be_bytes());
    out.extend([0, 0]);
    out.extend(zones.concat());
    out.extend(prerequisites);
    out.extend(changes);
    out
}

/// An entry of the zone section; None: it is to have none.
fn zone_entry(words: &[&str], origin: &Name) -> Option<Vec<u8>> {
    let ["zone", owner, class, rtype] = words else { return None };
    let owner = Name::from_text(owner.as_bytes(), Some(origin)).expect("the owner is a name");
    let class: u16 = class.parse().expect("a number");
    Some([owner.bytes(), &rtype_of(rtype).to_be_bytes(), &class.to_be_bytes()].concat())
}

/// Section 0 or 1, and the octets.
fn record(words: &[&str], origin: &Name) -> (usize, Vec<u8>) {
    let number = |word: &str| -> u32 { word.parse().expect("a number") };
    match words {
        ["yes", owner] => (0, wire(owner, origin, rtype::ANY, CLASS_ANY, 0, vec![])),
        ["no", owner] => (0, wire(owner, origin, rtype::ANY, CLASS_NONE, 0, vec![])),
        ["yes", owner, t] => (0, wire(owner, origin, rtype_of(t), CLASS_ANY, 0, vec![])),
        ["no", owner, t] => (0, wire(owner, origin, rtype_of(t), CLASS_NONE, 0, vec![])),
        ["yes", owner, t, rdata @ ..] => (0, wire(owner, origin, rtype_of(t), 1, 0, rdata_of(t, rdata, origin))),
        ["add", owner, ttl, t, rdata @ ..] => {
            (1, wire(owner, origin, rtype_of(t), 1, number(ttl), rdata_of(t, rdata, origin)))
        }
        ["del", owner] => (1, wire(owner, origin, rtype::ANY, CLASS_ANY, 0, vec![])),
        ["del", owner, t] => (1, wire(owner, origin, rtype_of(t), CLASS_ANY, 0, vec![])),
        ["del", owner, t, rdata @ ..] => {
            (1, wire(owner, origin, rtype_of(t), CLASS_NONE, 0, rdata_of(t, rdata, origin)))
        }
        ["raw", section, owner, class, ttl, t, hex @ ..] => {
            let digits = hex.concat();
            let octet = |i: usize| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("two digits");
            let rdata = (0..digits.len() / 2).map(octet).collect();
            let record = wire(owner, origin, rtype_of(t), number(class) as u16, number(ttl), rdata);
            (number(section) as usize, record)
        }
        _ => panic!("no line of an update: {words:?}"),
    }
}

fn rtype_of(word: &str) -> u16 {
    zonefile::rtypes::from_mnemonic(word.as_bytes()).unwrap_or_else(|| match word {
        "ANY" => rtype::ANY,
        "AXFR" => rtype::AXFR,
        "MAILB" => rtype::MAILB,
        _ => panic!("{word} is a type"),
    })
}

fn rdata_of(rtype: &str, words: &[&str], origin: &Name) -> Vec<u8> {
    zonefile::rdata::from_str(rtype_of(rtype), &words.join(" "), origin).expect("the rdata fits its type")
}

fn wire(owner: &str, origin: &Name, rtype: u16, class: u16, ttl: u32, rdata: Vec<u8>) -> Vec<u8> {
    let owner = Name::from_text(owner.as_bytes(), Some(origin)).expect("the owner is a name");
    let mut out = owner.bytes().to_vec();
    out.extend(rtype.to_be_bytes());
    out.extend(class.to_be_bytes());
    out.extend(ttl.to_be_bytes());
    out.extend((rdata.len() as u16).to_be_bytes());
    out.extend(rdata);
    out
}
