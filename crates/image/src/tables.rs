//! The tables of a signed zone: its NSEC owners in order, the hashes of its NSEC3 owners.

use crate::drafts::Drafts;
use crate::format::ALIGN;
use crate::layout::Layout;
use crate::node;
use crate::zone::order_key;
use wire::rtype;

impl<'a> Layout<'a> {
    /// The visible owners of NSEC: where the table is, and how many they are.
    pub(crate) fn nsec_table(&mut self, z: u32) -> (u32, u32) {
        let b = self.b;
        let visible = |&d: &u32| {
            b.drafts[d as usize].flags & node::HIDDEN == 0 && b.records_of(d).any(|r| r.rtype == rtype::NSEC)
        };
        let owners: Vec<u32> = b.of_zone[z as usize].clone().filter(visible).collect();
        let at = (self.bytes.len() / ALIGN) as u32;
        for &d in &owners {
            self.bytes.extend(order_key(b.name(d), &b.zones[z as usize].apex).to_le_bytes());
        }
        for &d in &owners {
            self.bytes.extend(self.out[d as usize].to_le_bytes());
        }
        (at, owners.len() as u32)
    }

    /// The NSEC3 owners of the chain that NSEC3PARAM announces (RFC 5155 section 4).
    pub(crate) fn nsec3_table(&mut self, z: u32) -> Nsec3Table<'a> {
        let b = self.b;
        let param = b.records_of(b.apex(z)).find(|r| r.rtype == rtype::NSEC3PARAM && r.rdata.len() >= 5);
        let Some(param) = param.map(|r| r.rdata) else { return Nsec3Table::default() };
        let mut entries: Vec<([u8; 20], u32)> = b.of_zone[z as usize]
            .clone()
            .filter(|&d| is_of_chain(b, d, param))
            .filter_map(|d| Some((base32hex(b.name(d))?, self.out[d as usize])))
            .collect();
        entries.sort_unstable();
        let at = (self.bytes.len() / ALIGN) as u32;
        for (hash, reference) in &entries {
            self.bytes.extend_from_slice(hash);
            self.bytes.extend(reference.to_le_bytes());
        }
        let iterations = u16::from_be_bytes([param[2], param[3]]);
        Nsec3Table { at, count: entries.len() as u32, iterations, salt: &param[5..] }
    }
}

/// Where the hashes of a chain are, and how they were made.
#[derive(Default)]
pub(crate) struct Nsec3Table<'a> {
    pub at: u32,
    pub count: u32,
    pub iterations: u16,
    pub salt: &'a [u8],
}

/// True if the name owns an NSEC3 of the chain: algorithm, iterations and salt are those of the NSEC3PARAM. The flags that
/// stand between them are not compared.
fn is_of_chain(b: &Drafts, d: u32, param: &[u8]) -> bool {
    let same = |rdata: &[u8]| rdata.len() > param.len() && rdata[0] == param[0] && rdata[2..param.len()] == param[2..];
    b.records_of(d).any(|r| r.rtype == rtype::NSEC3 && same(r.rdata))
}

/// The hash that an NSEC3's first label spells (RFC 4648 section 7).
fn base32hex(name: &[u8]) -> Option<[u8; 20]> {
    if name[0] != 32 {
        return None;
    }
    let mut out = [0; 20];
    let (mut bits, mut n, mut at) = (0u32, 0, 0);
    for &c in &name[1..33] {
        let value = match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'v' => c - b'a' + 10,
            _ => return None,
        };
        bits = bits << 5 | u32::from(value);
        n += 5;
        if n >= 8 {
            n -= 8;
            out[at] = (bits >> n) as u8;
            at += 1;
        }
    }
    Some(out)
}
