//! The tables of a signed zone: its NSEC owners in order, the hashes of its NSEC3 owners.

use crate::chain::base32hex;
use crate::drafts::Drafts;
use crate::format::ALIGN;
use crate::judge::Look;
use crate::layout::Layout;
use crate::node;
use crate::zone::order_key;
use wire::rtype;

impl<'a> Layout<'a> {
    /// The owners of NSEC: where the table is, and how many they are.
    pub(crate) fn nsec_table(&mut self, z: u32) -> (u32, u32) {
        let b = self.b;
        let is_one =
            |&d: &u32| node::is_name(b.drafts[d as usize].flags) && b.records_of(d).any(|r| r.rtype == rtype::NSEC);
        let owners: Vec<u32> = b.of_zone[z as usize].clone().filter(is_one).collect();
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
        let mut hashes = b.of_zone[z as usize].clone().filter(|&d| Look::at(b.records_of(d)).only_nsec3);
        let is_whole = b.is_hashed(z) && hashes.all(|d| is_of_chain(b, d, param) && base32hex(b.name(d)).is_some());
        Nsec3Table { at, count: entries.len() as u32, iterations, salt: &param[5..], is_whole }
    }
}

/// Where the hashes of a chain are, and how they were made.
#[derive(Default)]
pub(crate) struct Nsec3Table<'a> {
    pub at: u32,
    pub count: u32,
    pub iterations: u16,
    pub salt: &'a [u8],
    /// All names that own NSEC3 and nothing else are in it.
    pub is_whole: bool,
}

/// True if the name owns an NSEC3 of the chain: algorithm, iterations and salt are those of the NSEC3PARAM. The flags that
/// stand between them are not compared.
fn is_of_chain(b: &Drafts, d: u32, param: &[u8]) -> bool {
    let same = |rdata: &[u8]| rdata.len() > param.len() && rdata[0] == param[0] && rdata[2..param.len()] == param[2..];
    b.records_of(d).any(|r| r.rtype == rtype::NSEC3 && same(r.rdata))
}
