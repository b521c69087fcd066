//! Lays an image out: nodes with their units in canonical order, the tables of signed zones, the index last.

use crate::builder::Summary;
use crate::drafts::{ASKED, Drafts, NONE, OF_NODE, fold_into};
use crate::format::{ALIGN, HEADER, Header, LINE, WAYS};
use crate::index;
use crate::node;
use crate::render::{Render, Rr};
use crate::sets::{Set, Sets};
use crate::table::Table;
use crate::unit::Part;
use crate::zone::{self, ZONE};
use wire::hash::siphash;
use wire::name::{is_at_or_below, wire_len};
use wire::rtype::{self, Rtype};

/// Places taken in an index line, on the average, in hundredths: at 62 one name in 400 spills to the next line.
const FILL: usize = 62;
/// Additional data is added for this many hosts of an RRset (attack: CVE-2025-11187 and its kin).
const TARGETS_MAX: usize = 13;
/// Octets of additional data in a unit: more would not be sent anyhow.
const ADDITIONAL_MAX: usize = 16_384;
/// Drafts whose memory is fetched together: the records of these while those before are laid out.
const TOGETHER: u32 = 32;

pub(crate) struct Layout<'a> {
    pub b: &'a Drafts,
    pub bytes: Vec<u8>,
    /// References of the drafts that are laid out.
    pub out: Vec<u32>,
    /// Units of referrals that are alike in every octet are stored once: most delegations of a registry are like others.
    shared: Table,
    /// Where references to wildcards belong once those are laid out.
    wildcards: Vec<(usize, u32)>,
    root: u32,
    /// Whether the answers of the zone at hand can carry signatures.
    signed: bool,
    /// The RRsets of the name at hand, and of a host that it names.
    sets: Sets<'a>,
    host_sets: Sets<'a>,
    render: Render<'a>,
    /// Hosts of the RRset at hand.
    seen: Vec<&'a [u8]>,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(b: &'a Drafts) -> Layout<'a> {
        Layout {
            b,
            bytes: vec![],
            out: vec![0; b.drafts.len()],
            shared: Table::with_room(0),
            wildcards: vec![],
            root: 0,
            signed: false,
            sets: Sets::default(),
            host_sets: Sets::default(),
            render: Render::default(),
            seen: vec![],
        }
    }

    pub(crate) fn write(mut self) -> (Vec<u8>, Summary) {
        let b = self.b;
        let names = b.drafts.iter().filter(|d| d.flags & ASKED != 0).count();
        let lines = (names * 100).div_ceil(WAYS * FILL).max(1);
        let zones: Vec<u32> = b.served().collect();
        let zones_at = HEADER + lines * LINE;
        self.bytes.resize((zones_at + zones.len() * ZONE).next_multiple_of(LINE), 0);
        for (i, &z) in zones.iter().enumerate() {
            self.zone(z, i as u32, zones_at + i * ZONE);
        }
        for d in b.nobodys() {
            self.node(NONE, d, 0);
        }
        for (i, &z) in zones.iter().enumerate() {
            self.link_to_parent(z, zones_at + i * ZONE, &zones);
        }
        let asked = b.drafts.iter().zip(&self.out).filter(|(d, _)| d.flags & ASKED != 0).map(|(_, &out)| out);
        let index::Filled { seed, deepest, ahead } = index::fill(&mut self.bytes, b.seed, lines, asked);
        self.bytes.resize(self.bytes.len() + LINE, 0);
        let records = zones.iter().map(|&z| b.zones[z as usize].records).sum();
        let header = Header {
            length: self.bytes.len() as u64,
            seed,
            lines: lines as u32,
            names: names as u32,
            zones_at: zones_at as u64,
            zones: zones.len() as u32,
            deepest,
            ahead,
            root: self.root,
            records,
        };
        header.write(&mut self.bytes[..HEADER]);
        (self.bytes, Summary { zones: zones.len(), names, records })
    }

    fn zone(&mut self, z: u32, number: u32, record_at: usize) {
        let b = self.b;
        let apex = b.apex(z);
        let has = |d: u32, t: Rtype| b.records_of(d).any(|r| r.rtype == t);
        self.signed = has(apex, rtype::RRSIG);
        let from = self.bytes.len();
        let mine = b.of_zone[z as usize].clone();
        let mut hashes = vec![];
        for first in mine.clone().step_by(TOGETHER as usize) {
            let few = first..mine.end.min(first + TOGETHER);
            few.clone().for_each(|d| b.fetch_records(d + TOGETHER));
            b.fetch_hosts(z, few.clone(), &mut hashes);
            few.for_each(|d| self.node(z, d, number));
        }
        let to = self.bytes.len();
        for (at, wildcard) in std::mem::take(&mut self.wildcards) {
            let reference = self.out[wildcard as usize];
            self.bytes[at..at + 4].copy_from_slice(&reference.to_le_bytes());
        }
        let soa = b.records_of(apex).find(|r| r.rtype == rtype::SOA).map_or(&[][..], |r| r.rdata);
        let serial = soa.len().checked_sub(20).map_or(0, |at| be32(&soa[at..]));
        let nsec = if has(apex, rtype::NSEC) { self.nsec_table(z) } else { (0, 0) };
        let nsec3 = self.nsec3_table(z);
        let marks = [(self.signed, zone::SIGNED), (nsec.1 > 0, zone::NSEC), (nsec3.count > 0, zone::NSEC3)];
        let flags: u32 = marks.iter().filter(|m| m.0).map(|m| m.1).sum();
        let mut r = Vec::with_capacity(ZONE);
        for n in [self.out[apex as usize], serial, flags, 0] {
            r.extend(n.to_le_bytes());
        }
        for n in [from as u64, to as u64, b.zones[z as usize].records, nsec.0] {
            r.extend(n.to_le_bytes());
        }
        r.extend(nsec.1.to_le_bytes());
        r.extend(0u32.to_le_bytes());
        r.extend(nsec3.at.to_le_bytes());
        r.extend(nsec3.count.to_le_bytes());
        r.extend(nsec3.iterations.to_le_bytes());
        r.extend([nsec3.salt_len, 0]);
        r.extend(nsec3.salt_at.to_le_bytes());
        self.bytes[record_at..record_at + r.len()].copy_from_slice(&r);
    }

    /// DS lives in the zone above: an apex leads to the node of its name there.
    fn link_to_parent(&mut self, z: u32, record_at: usize, numbers: &[u32]) {
        let name = &self.b.zones[z as usize].apex[..];
        let mut at = 0;
        while name[at] != 0 {
            at += name[at] as usize + 1;
            if let Some(&parent) = self.b.apexes.get(&name[at..]) {
                // What lies there below another cut is glue, and the zone above that is not the parent.
                let is_visible = |d: &u32| self.b.drafts[*d as usize].flags & node::HIDDEN == 0;
                let node = self.b.find(parent, name).filter(is_visible).map_or(0, |d| self.out[d as usize]);
                let number = numbers.binary_search(&parent).unwrap_or(0) as u32;
                self.bytes[record_at + 12..record_at + 16].copy_from_slice(&node.to_le_bytes());
                self.bytes[record_at + 52..record_at + 56].copy_from_slice(&number.to_le_bytes());
                return;
            }
        }
    }

    /// Lays out a node: a name of zone `z`, or of none.
    fn node(&mut self, z: u32, d: u32, number: u32) {
        let b = self.b;
        let draft = &b.drafts[d as usize];
        let name = b.name(d);
        let mut sets = std::mem::take(&mut self.sets);
        sets.fill(b.records_of(d));
        let at = self.bytes.len();
        self.out[d as usize] = (at / ALIGN) as u32;
        if name.len() == 1 {
            self.root = self.out[d as usize];
        }
        let is_apex = draft.flags & node::APEX != 0;
        let is_cut = draft.flags & node::CUT != 0;
        let words_at = at + (8 + name.len()).next_multiple_of(4);
        let directory_at = words_at + if is_apex { 8 } else { 0 };
        self.bytes.resize((directory_at + 8 * sets.len()).next_multiple_of(ALIGN), 0);
        self.bytes[at + 8..at + 8 + name.len()].copy_from_slice(name);
        self.bytes[at..at + 2].copy_from_slice(&[name.len() as u8, sets.len() as u8]);
        if is_apex {
            self.bytes[words_at..words_at + 4].copy_from_slice(&number.to_le_bytes());
        }
        if draft.wildcard != NONE && !is_cut {
            self.wildcards.push((if is_apex { words_at + 4 } else { at + 4 }, draft.wildcard));
        }
        let (mut own, mut head) = (0u16, 0u32);
        if is_apex && let Some(soa) = sets.iter().find(|s| s.rtype == rtype::SOA) {
            head = self.negative(name, &soa);
            own += 1;
        }
        for (i, set) in sets.iter().enumerate() {
            let is_referral = is_cut && set.rtype == rtype::NS;
            let before = self.bytes.len();
            let reference = self.unit(z, name, &set, is_referral);
            own += u16::from(self.bytes.len() > before);
            if is_referral {
                head = reference;
            }
            let entry = directory_at + 8 * i;
            self.bytes[entry..entry + 4].copy_from_slice(&reference.to_le_bytes());
            self.bytes[entry + 4..entry + 6].copy_from_slice(&set.rtype.to_le_bytes());
        }
        let flags = draft.flags & OF_NODE | own << 8;
        self.bytes[at + 2..at + 4].copy_from_slice(&flags.to_le_bytes());
        if is_apex || is_cut {
            self.bytes[at + 4..at + 8].copy_from_slice(&head.to_le_bytes());
        }
        self.sets = sets;
    }

    /// Ends the unit that was written at `at`: its reference.
    fn close(&mut self, at: usize) -> u32 {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        (at / ALIGN) as u32
    }

    /// Ends the unit that was written at `at`, or takes it back if there is one like it.
    fn close_shared(&mut self, at: usize) -> u32 {
        let (before, unit) = self.bytes.split_at(at);
        let hash = siphash::<1, 3>(b"shared referrals", unit);
        if let Some(same) = self.shared.find(hash, |r| before[r as usize * ALIGN..].starts_with(unit)) {
            self.bytes.truncate(at);
            return same;
        }
        let reference = self.close(at);
        self.shared.insert(hash, reference);
        reference
    }

    /// What the authority section of a negative answer holds: the SOA with the TTL of RFC 2308 section 3.
    fn negative(&mut self, apex: &'a [u8], soa: &Set<'_, 'a>) -> u32 {
        let r = &mut self.render;
        r.begin(apex);
        for &rr in soa.records {
            let minimum = rr.rdata.len().checked_sub(4).map_or(u32::MAX, |at| be32(&rr.rdata[at..]));
            let ttl = rr.ttl.min(minimum);
            r.record(Rr { ttl, ..rr });
            soa.signatures.iter().for_each(|&s| r.signature(Rr { ttl, ..s }));
        }
        let at = self.bytes.len();
        // What is too long for a message was judged before.
        let _ = self.render.write(&mut self.bytes);
        self.close(at)
    }

    fn unit(&mut self, z: u32, owner: &'a [u8], set: &Set<'_, 'a>, is_referral: bool) -> u32 {
        let at = self.bytes.len();
        // With all that is additional it may be too much for a message; alone it was judged to fit.
        for add in [Add::All, Add::Needed, Add::Nothing] {
            self.records(owner, set);
            self.add_additional(z, owner, set, is_referral, add);
            if self.render.write(&mut self.bytes).is_ok() {
                break;
            }
        }
        if is_referral { self.close_shared(at) } else { self.close(at) }
    }

    fn records(&mut self, owner: &'a [u8], set: &Set<'_, 'a>) {
        self.render.begin(owner);
        set.records.iter().for_each(|&rr| self.render.record(rr));
        set.signatures.iter().for_each(|&rr| self.render.signature(rr));
    }

    /// Adds addresses of the hosts that the rdata names, from the same zone.
    fn add_additional(&mut self, z: u32, owner: &'a [u8], set: &Set<'_, 'a>, is_referral: bool, add: Add) {
        let b = self.b;
        let mut octets = 0;
        self.seen.clear();
        for rr in set.records {
            let Some(target) = target(set.rtype, rr.rdata).filter(|_| add != Add::Nothing) else { continue };
            let mut folded = [0; 255];
            let folded = fold_into(target, &mut folded);
            let is_needed = is_referral && is_at_or_below(folded, owner);
            if !is_needed && (add == Add::Needed || self.seen.len() >= TARGETS_MAX) {
                continue;
            }
            let Some(host) = b.host(z, folded).or_else(|| b.wildcard_host(z, folded)) else { continue };
            if host.is_glue && set.rtype != rtype::NS || self.seen.iter().any(|s| s.eq_ignore_ascii_case(target)) {
                continue;
            }
            self.seen.push(target);
            self.host_sets.fill(b.records_of_host(host).filter(|r| is_of_addresses(r)));
            for addresses in self.host_sets.iter().filter(|s| s.rtype == rtype::A || s.rtype == rtype::AAAA) {
                octets += addresses.records.len() * 28;
                if !is_needed && octets > ADDITIONAL_MAX {
                    break;
                }
                let signatures = if host.is_glue { &[] } else { addresses.signatures };
                let part = if is_needed { Part::Needed } else { Part::Optional };
                let r = &mut self.render;
                addresses.records.iter().for_each(|&rr| r.additional(part, target, rr));
                if !is_needed && self.signed {
                    let signed = addresses.records.iter().chain(signatures);
                    signed.for_each(|&rr| r.additional(Part::OptionalSigned, target, rr));
                }
            }
        }
    }
}

/// How much is added to the records of a unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Add {
    All,
    /// The glue without which a referral leads nowhere (RFC 9471).
    Needed,
    Nothing,
}

/// True for addresses and for the signatures over them.
fn is_of_addresses(rr: &Rr<'_>) -> bool {
    match rr.rtype {
        rtype::A | rtype::AAAA => true,
        rtype::RRSIG => matches!(rr.rdata.first_chunk(), Some(&[0, 1 | 28])),
        _ => false,
    }
}

/// The host that a record's rdata names. "." is none; for SVCB it would be the owner (RFC 9460 section 2.5), whose
/// addresses nobody adds.
fn target(rtype: Rtype, rdata: &[u8]) -> Option<&[u8]> {
    let at = match rtype {
        rtype::NS => 0,
        rtype::MX | rtype::SVCB | rtype::HTTPS => 2,
        rtype::SRV => 6,
        _ => return None,
    };
    let name = rdata.get(at..)?;
    let len = wire_len(name)?;
    (len > 1).then(|| &name[..len])
}

pub(crate) fn be32(octets: &[u8]) -> u32 {
    octets.first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b))
}
