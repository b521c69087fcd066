//! Lays an image out: nodes with their units in canonical order, the tables of signed zones, the index last.

use crate::builder::{Builder, NONE, Summary};
use crate::format::{ALIGN, HEADER, Header, LINE, LINES_MAX, WAYS};
use crate::node;
use crate::render::{Render, Rr};
use crate::unit::Part;
use crate::view::{line_of, tag_of};
use crate::zone::{self, ZONE, order_key};
use std::collections::HashMap;
use wire::hash::{name_hash, siphash};
use wire::name::{canonical_cmp, is_at_or_below, label_count, wire_len};
use wire::rtype::{self, Rtype};

/// Places taken in an index line, on the average, in hundredths: at 62 one name in 400 spills to the next line.
const FILL: usize = 62;
/// Additional data is added for this many targets of an RRset (attack: CVE-2025-11187 and its kin).
const TARGETS_MAX: usize = 13;
/// Octets of additional data in a unit: more would not be sent anyhow.
const ADDITIONAL_MAX: usize = 16_384;

/// An RRset on its way into the image: distinct records, and the signatures over them.
#[derive(Default)]
struct Set<'a> {
    rtype: Rtype,
    records: Vec<Rr<'a>>,
    signatures: Vec<Rr<'a>>,
}

pub(crate) struct Layout<'a> {
    b: &'a Builder,
    bytes: Vec<u8>,
    /// References of the drafts that are laid out.
    out: Vec<u32>,
    /// Units of referrals that are alike in every octet are stored once: most delegations of a registry are like others.
    shared: HashMap<u64, u32>,
    /// Where references to wildcards belong once those are laid out.
    wildcards: Vec<(usize, u32)>,
    deepest: usize,
    root: u32,
    /// By zone: whether its answers can carry signatures.
    signed: Vec<bool>,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(b: &'a Builder) -> Layout<'a> {
        let out = vec![0; b.drafts.len()];
        let signed = b.zones.iter().map(|z| b.records_of(z.apex).any(|r| r.rtype == rtype::RRSIG)).collect();
        Layout { b, bytes: vec![], signed, out, shared: HashMap::new(), wildcards: vec![], deepest: 0, root: 0 }
    }

    pub(crate) fn write(mut self) -> (Vec<u8>, Summary) {
        let order = self.order();
        let leads_on = |d: &u32| self.b.drafts[*d as usize].zone == NONE;
        let above: Vec<u32> = (0..self.b.drafts.len() as u32).filter(leads_on).collect();
        let asked: Vec<u32> =
            order.iter().map(|o| o.2).filter(|&d| self.is_asked_for(d)).chain(above.iter().copied()).collect();
        let lines = (asked.len() * 100).div_ceil(WAYS * FILL).max(1);
        let zones: Vec<u32> = (0..self.b.zones.len() as u32).filter(|&z| self.b.served(z)).collect();
        let zones_at = HEADER + lines * LINE;
        self.bytes.resize((zones_at + zones.len() * ZONE).next_multiple_of(LINE), 0);
        let mut rest = &order[..];
        for (i, &z) in zones.iter().enumerate() {
            let (mine, others) = rest.split_at(rest.partition_point(|o| o.0 <= z));
            rest = others;
            self.zone(z, i as u32, mine, zones_at + i * ZONE);
        }
        for &d in &above {
            self.node(d, 0);
        }
        for (i, &z) in zones.iter().enumerate() {
            self.link_to_parent(z, zones_at + i * ZONE, &zones);
        }
        let seed = self.index(&asked, lines);
        self.bytes.resize(self.bytes.len() + LINE, 0);
        let records = zones.iter().map(|&z| self.b.zones[z as usize].records).sum();
        let header = Header {
            length: self.bytes.len() as u64,
            seed,
            lines: lines as u32,
            names: asked.len() as u32,
            zones_at: zones_at as u64,
            zones: zones.len() as u32,
            deepest: self.deepest as u32,
            root: self.root,
            records,
        };
        header.write(&mut self.bytes[..HEADER]);
        (self.bytes, Summary { zones: zones.len(), names: asked.len(), records })
    }

    /// All names of served zones: by zone, then in canonical order.
    fn order(&self) -> Vec<(u32, u64, u32)> {
        let b = self.b;
        let served = (0..b.drafts.len() as u32).filter(|&d| b.served(b.drafts[d as usize].zone));
        let keyed = served.map(|d| {
            let zone = b.drafts[d as usize].zone;
            (zone, order_key(b.name(d), b.name(b.zones[zone as usize].apex)), d)
        });
        let mut order: Vec<(u32, u64, u32)> = keyed.collect();
        order
            .sort_unstable_by(|x, y| (x.0, x.1).cmp(&(y.0, y.1)).then_with(|| canonical_cmp(b.name(x.2), b.name(y.2))));
        order
    }

    /// True unless the name is hidden, or another zone of ours has the say there.
    fn is_asked_for(&self, d: u32) -> bool {
        let draft = &self.b.drafts[d as usize];
        if draft.flags & node::HIDDEN != 0 {
            return false;
        }
        draft.flags & node::APEX != 0 || !self.b.apexes.contains_key(self.b.name(d))
    }

    fn zone(&mut self, z: u32, number: u32, mine: &[(u32, u64, u32)], record_at: usize) {
        let from = self.bytes.len();
        for &(_, _, d) in mine {
            self.node(d, number);
        }
        let to = self.bytes.len();
        for (at, wildcard) in std::mem::take(&mut self.wildcards) {
            let reference = self.out[wildcard as usize];
            self.bytes[at..at + 4].copy_from_slice(&reference.to_le_bytes());
        }
        let b = self.b;
        let apex = b.zones[z as usize].apex;
        let has = |d: u32, t: Rtype| b.records_of(d).any(|r| r.rtype == t);
        let soa = b.records_of(apex).find(|r| r.rtype == rtype::SOA).map_or(&[][..], |r| r.rdata);
        let serial = soa.len().checked_sub(20).map_or(0, |at| be32(&soa[at..]));
        let nsec = if has(apex, rtype::NSEC) { self.nsec_table(mine) } else { (0, 0) };
        let nsec3 = self.nsec3_table(apex, mine);
        let flags = if nsec.1 > 0 { zone::NSEC } else { 0 } | if nsec3.count > 0 { zone::NSEC3 } else { 0 };
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
        let name = self.b.name(self.b.zones[z as usize].apex);
        let mut at = 0;
        while name[at] != 0 {
            at += name[at] as usize + 1;
            if let Some(&parent) = self.b.apexes.get(&name[at..]) {
                let node = self.b.find(parent, name).map_or(0, |d| self.out[d as usize]);
                let number = numbers.binary_search(&parent).unwrap_or(0) as u32;
                self.bytes[record_at + 12..record_at + 16].copy_from_slice(&node.to_le_bytes());
                self.bytes[record_at + 52..record_at + 56].copy_from_slice(&number.to_le_bytes());
                return;
            }
        }
    }

    fn sets(&self, d: u32) -> Vec<Set<'a>> {
        let mut sets: Vec<Set<'a>> = vec![];
        let mut signatures = vec![];
        for rr in self.b.records_of(d) {
            if rr.rtype == rtype::RRSIG && rr.rdata.len() > 18 {
                signatures.push(rr);
                continue;
            }
            let i = sets.iter().position(|s| s.rtype == rr.rtype).unwrap_or(sets.len());
            if i == sets.len() {
                sets.push(Set { rtype: rr.rtype, ..Set::default() });
            }
            let set = &mut sets[i];
            // The same record twice is one record (RFC 2181 section 5).
            if !set.records.iter().any(|r| r.rdata == rr.rdata) {
                // One TTL for the set, the first one given (RFC 2181 section 5.2).
                let ttl = set.records.first().map_or(rr.ttl, |r| r.ttl);
                set.records.push(Rr { ttl, ..rr });
            }
        }
        let mut orphans = Set { rtype: rtype::RRSIG, ..Set::default() };
        for rr in signatures {
            let covered = u16::from_be_bytes([rr.rdata[0], rr.rdata[1]]);
            match sets.iter_mut().find(|s| s.rtype == covered) {
                Some(set) => set.signatures.push(rr),
                None => orphans.records.push(rr),
            }
        }
        if !orphans.records.is_empty() {
            sets.push(orphans);
        }
        sets.sort_by_key(|s| s.rtype);
        sets
    }

    fn node(&mut self, d: u32, zone_number: u32) {
        let draft = &self.b.drafts[d as usize];
        let name = self.b.name(d);
        let sets = self.sets(d);
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
            self.bytes[words_at..words_at + 4].copy_from_slice(&zone_number.to_le_bytes());
        }
        if draft.wildcard != NONE && !is_cut {
            self.wildcards.push((if is_apex { words_at + 4 } else { at + 4 }, draft.wildcard));
        }
        let (mut own, mut head) = (0u16, 0u32);
        if is_apex && let Some(soa) = sets.iter().find(|s| s.rtype == rtype::SOA) {
            head = self.put(self.negative(name, soa));
            own += 1;
        }
        for (i, set) in sets.iter().enumerate() {
            let unit = self.unit(d, name, set);
            let before = self.bytes.len();
            let reference = if is_cut && set.rtype == rtype::NS { self.put_shared(unit) } else { self.put(unit) };
            own += u16::from(self.bytes.len() > before);
            if is_cut && set.rtype == rtype::NS {
                head = reference;
            }
            let entry = directory_at + 8 * i;
            self.bytes[entry..entry + 4].copy_from_slice(&reference.to_le_bytes());
            self.bytes[entry + 4..entry + 6].copy_from_slice(&set.rtype.to_le_bytes());
        }
        let flags = draft.flags | own << 8;
        self.bytes[at + 2..at + 4].copy_from_slice(&flags.to_le_bytes());
        if is_apex || is_cut {
            self.bytes[at + 4..at + 8].copy_from_slice(&head.to_le_bytes());
        }
    }

    fn put(&mut self, unit: Vec<u8>) -> u32 {
        let at = self.bytes.len();
        self.bytes.extend(unit);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        (at / ALIGN) as u32
    }

    fn put_shared(&mut self, unit: Vec<u8>) -> u32 {
        let hash = siphash::<1, 3>(b"shared referrals", &unit);
        if let Some(&at) = self.shared.get(&hash)
            && self.bytes[at as usize * ALIGN..].starts_with(&unit)
        {
            return at;
        }
        let at = self.put(unit);
        self.shared.insert(hash, at);
        at
    }

    /// What the authority section of a negative answer holds: the SOA with the TTL of RFC 2308 section 3.
    fn negative(&self, apex: &[u8], soa: &Set<'_>) -> Vec<u8> {
        let mut r = Render::new(apex);
        for &rr in &soa.records {
            let minimum = rr.rdata.len().checked_sub(4).map_or(u32::MAX, |at| be32(&rr.rdata[at..]));
            let ttl = rr.ttl.min(minimum);
            r.record(Rr { ttl, ..rr });
            soa.signatures.iter().for_each(|&s| r.signature(Rr { ttl, ..s }));
        }
        r.finish().unwrap_or_default()
    }

    fn unit(&self, d: u32, owner: &[u8], set: &Set<'_>) -> Vec<u8> {
        let mut r = self.records(owner, set);
        self.add_additional(&mut r, d, owner, set);
        match r.finish() {
            Ok(unit) => unit,
            // Too much with what is additional; alone it was judged to fit.
            Err(_) => self.records(owner, set).finish().unwrap_or_default(),
        }
    }

    fn records<'o>(&self, owner: &'o [u8], set: &Set<'_>) -> Render<'o> {
        let mut r = Render::new(owner);
        set.records.iter().for_each(|&rr| r.record(rr));
        set.signatures.iter().for_each(|&rr| r.signature(rr));
        r
    }

    /// Adds addresses of the hosts that the rdata names, from the same zone.
    fn add_additional(&self, r: &mut Render<'_>, d: u32, owner: &[u8], set: &Set<'_>) {
        let draft = &self.b.drafts[d as usize];
        let is_referral = draft.flags & node::CUT != 0 && set.rtype == rtype::NS;
        let (mut seen, mut octets) = (vec![], 0);
        for rr in &set.records {
            let Some(target) = target(set.rtype, rr.rdata, owner) else { continue };
            let folded = target.to_ascii_lowercase();
            let Some(host) = self.b.find(draft.zone, &folded) else { continue };
            if seen.contains(&host) {
                continue;
            }
            seen.push(host);
            let is_glue = self.b.drafts[host as usize].flags & (node::HIDDEN | node::CUT) != 0;
            let is_needed = is_referral && is_at_or_below(&folded, owner);
            if !is_needed && (seen.len() > TARGETS_MAX || is_glue && set.rtype != rtype::NS) {
                continue;
            }
            for addresses in self.sets(host).iter().filter(|s| s.rtype == rtype::A || s.rtype == rtype::AAAA) {
                octets += addresses.records.len() * 28;
                if !is_needed && octets > ADDITIONAL_MAX {
                    return;
                }
                match (is_needed, self.signed[draft.zone as usize]) {
                    (true, _) => add_addresses(r, Part::Needed, target, &[&addresses.records]),
                    (false, is_signed) => {
                        add_addresses(r, Part::Optional, target, &[&addresses.records]);
                        if is_signed {
                            let signatures = if is_glue { &[][..] } else { &addresses.signatures };
                            add_addresses(r, Part::OptionalSigned, target, &[&addresses.records, signatures]);
                        }
                    }
                }
            }
        }
    }

    fn nsec_table(&mut self, mine: &[(u32, u64, u32)]) -> (u64, u32) {
        let b = self.b;
        let visible =
            |d: u32| b.drafts[d as usize].flags & node::HIDDEN == 0 && b.records_of(d).any(|r| r.rtype == rtype::NSEC);
        let owners: Vec<&(u32, u64, u32)> = mine.iter().filter(|o| visible(o.2)).collect();
        let at = self.bytes.len() as u64;
        for o in &owners {
            self.bytes.extend(o.1.to_le_bytes());
        }
        for o in &owners {
            self.bytes.extend(self.out[o.2 as usize].to_le_bytes());
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        (at, owners.len() as u32)
    }

    /// The NSEC3 owners of the chain that NSEC3PARAM announces (RFC 5155 section 4).
    fn nsec3_table(&mut self, apex: u32, mine: &[(u32, u64, u32)]) -> Nsec3Table {
        let b = self.b;
        let param = b.records_of(apex).find(|r| r.rtype == rtype::NSEC3PARAM && r.rdata.len() >= 5);
        let Some(param) = param.map(|r| r.rdata) else { return Nsec3Table::default() };
        // Algorithm, iterations, salt: the same in both records; the flags between them are not.
        let same =
            |rdata: &[u8]| rdata.len() > param.len() && rdata[0] == param[0] && rdata[2..param.len()] == param[2..];
        let mut entries: Vec<([u8; 20], u32)> = mine
            .iter()
            .filter(|o| b.records_of(o.2).any(|r| r.rtype == rtype::NSEC3 && same(r.rdata)))
            .filter_map(|o| Some((base32hex(b.name(o.2))?, self.out[o.2 as usize])))
            .collect();
        entries.sort_unstable();
        let salt = &param[5..];
        let salt_at = self.bytes.len() as u64;
        self.bytes.extend_from_slice(salt);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        let at = self.bytes.len() as u64;
        for (hash, reference) in &entries {
            self.bytes.extend_from_slice(hash);
            self.bytes.extend(reference.to_le_bytes());
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        let iterations = u16::from_be_bytes([param[2], param[3]]);
        Nsec3Table { at, count: entries.len() as u32, iterations, salt_len: salt.len() as u8, salt_at }
    }

    /// Fills the index; returns the seed with which no name needs more than `LINES_MAX` lines.
    fn index(&mut self, asked: &[u32], lines: usize) -> u64 {
        let mut seed = self.b.seed;
        loop {
            self.bytes[HEADER..HEADER + lines * LINE].fill(0);
            if asked.iter().all(|&d| self.insert(d, seed, lines)) {
                break;
            }
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        self.deepest = asked.iter().map(|&d| label_count(self.b.name(d))).max().unwrap_or(0);
        seed
    }

    fn insert(&mut self, d: u32, seed: u64, lines: usize) -> bool {
        let name = self.b.name(d);
        if name.len() == 1 {
            return true;
        }
        let hash = name_hash(seed, name);
        let mut line = line_of(hash, lines);
        for _ in 0..LINES_MAX {
            let at = HEADER + line * LINE;
            if let Some(i) = (0..WAYS).find(|i| self.bytes[at + 2 * i..at + 2 * i + 2] == [0, 0]) {
                self.bytes[at + 2 * i..at + 2 * i + 2].copy_from_slice(&tag_of(hash).to_le_bytes());
                self.bytes[at + 24 + 4 * i..at + 28 + 4 * i].copy_from_slice(&self.out[d as usize].to_le_bytes());
                return true;
            }
            self.bytes[at + 2 * WAYS] = 1;
            line = (line + 1) % lines;
        }
        false
    }
}

#[derive(Default)]
struct Nsec3Table {
    at: u64,
    count: u32,
    iterations: u16,
    salt_len: u8,
    salt_at: u64,
}

fn add_addresses(r: &mut Render<'_>, part: Part, host: &[u8], records: &[&[Rr<'_>]]) {
    for &rr in records.iter().copied().flatten() {
        r.additional(part, host, rr);
    }
}

/// The host that a record's rdata names.
fn target<'r>(rtype: Rtype, rdata: &'r [u8], owner: &'r [u8]) -> Option<&'r [u8]> {
    let at = match rtype {
        rtype::NS => 0,
        rtype::MX | rtype::SVCB | rtype::HTTPS => 2,
        rtype::SRV => 6,
        _ => return None,
    };
    let name = rdata.get(at..)?;
    let name = &name[..wire_len(name)?];
    match (name.len(), rtype) {
        // RFC 9460 section 2.5: in ServiceMode "." is the owner itself, unless that was made from a wildcard.
        (1, rtype::SVCB | rtype::HTTPS) if rdata[..2] != [0, 0] && !owner.starts_with(b"\x01*") => Some(owner),
        (1, _) => None,
        _ => Some(name),
    }
}

fn be32(octets: &[u8]) -> u32 {
    octets.first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b))
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
