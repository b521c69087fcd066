//! Lays an image out: nodes with their units in canonical order, the tables of signed zones, the index last.

use crate::builder::{Hands, Summary};
use crate::drafts::{ASKED, Drafts, NONE, OF_NODE};
use crate::format::{ALIGN, HEADER, Header, LINE, WAYS};
use crate::index;
use crate::node;
use crate::sheet::{Kind, Piece, Rendered, Scribe, Sheet};
use crate::table::Table;
use crate::zone::{self, ZONE};
use std::ops::Range;
use wire::cpu::prefetch;
use wire::rtype::{self, Rtype};

/// Places taken in an index line, on the average, in hundredths: at 62 one name in 400 spills to the next line.
const FILL: usize = 62;
/// Drafts on a sheet: few enough that a sheet stays in the cache of the processor that wrote it.
const SHEET: u32 = 16_384;
/// Units after which a referral's like is asked for, and after twice as many its place in the table.
const AHEAD: usize = 16;

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
    /// Where the nodes of the zone at hand begin.
    from: usize,
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
            from: 0,
        }
    }

    pub(crate) fn write(mut self, hands: &dyn Hands) -> (Vec<u8>, Summary) {
        let b = self.b;
        let names = b.drafts.iter().filter(|d| d.flags & ASKED != 0).count();
        let lines = (names * 100).div_ceil(WAYS * FILL).max(1);
        let zones: Vec<u32> = b.served().collect();
        let zones_at = HEADER + lines * LINE;
        self.bytes.resize((zones_at + zones.len() * ZONE).next_multiple_of(LINE), 0);
        self.nodes(hands, &zones, zones_at);
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

    /// Lays out the nodes of all zones, and behind each zone its tables. One sheet is placed while the next is written.
    fn nodes(&mut self, hands: &dyn Hands, zones: &[u32], zones_at: usize) {
        let sheets = sheets(self.b, zones);
        let mut scribe = Scribe::new(self.b);
        let (mut ready, mut next) = (Sheet::default(), Sheet::default());
        scribe.fill(&mut ready, sheets.first().map_or(&[], |s| s));
        for (i, pieces) in sheets.iter().enumerate() {
            let later = sheets.get(i + 1).map_or(&[][..], |s| s);
            hands.both(&mut || scribe.fill(&mut next, later), &mut || self.place(&ready, pieces, zones, zones_at));
            std::mem::swap(&mut ready, &mut next);
        }
    }

    fn place(&mut self, sheet: &Sheet, pieces: &[Piece], zones: &[u32], zones_at: usize) {
        let (mut octets, mut units, mut nodes) = (&sheet.octets[..], &sheet.units[..], &sheet.nodes[..]);
        for Piece { zone, drafts } in pieces.iter().cloned() {
            let number = zones.binary_search(&zone).unwrap_or(0);
            let all = if zone == NONE { self.b.nobodys() } else { self.b.of_zone[zone as usize].clone() };
            if drafts.start == all.start {
                self.from = self.bytes.len();
            }
            for d in drafts.clone() {
                let Some((&(name_len, n), others)) = nodes.split_first() else { return };
                self.fetch_alike(units);
                let (mine, rest) = units.split_at(n as usize);
                octets = self.node(d, number as u32, octets, name_len as usize, mine);
                (units, nodes) = (rest, others);
            }
            if zone != NONE && drafts.end == all.end {
                self.end_zone(zone, zones_at + number * ZONE);
            }
        }
    }

    /// Asks for what referrals a little further on will be compared with, ahead of time.
    fn fetch_alike(&self, units: &[Rendered]) {
        if let Some(&Rendered { kind: Kind::Referral(hash), .. }) = units.get(2 * AHEAD) {
            self.shared.prefetch(hash);
        }
        if let Some(&Rendered { kind: Kind::Referral(hash), .. }) = units.get(AHEAD)
            && let Some(alike) = self.shared.find(hash, |_| true)
        {
            prefetch(&self.bytes, alike as usize * ALIGN);
        }
    }

    /// Ends a zone whose nodes are laid out: its tables, and its record.
    fn end_zone(&mut self, z: u32, record_at: usize) {
        let b = self.b;
        let apex = b.apex(z);
        let has = |d: u32, t: Rtype| b.records_of(d).any(|r| r.rtype == t);
        let (from, to) = (self.from, self.bytes.len());
        for (at, wildcard) in std::mem::take(&mut self.wildcards) {
            let reference = self.out[wildcard as usize];
            self.bytes[at..at + 4].copy_from_slice(&reference.to_le_bytes());
        }
        let soa = b.records_of(apex).find(|r| r.rtype == rtype::SOA).map_or(&[][..], |r| r.rdata);
        let serial = soa.len().checked_sub(20).map_or(0, |at| be32(&soa[at..]));
        let nsec = if has(apex, rtype::NSEC) { self.nsec_table(z) } else { (0, 0) };
        let nsec3 = self.nsec3_table(z);
        let marks = [(b.is_signed(z), zone::SIGNED), (nsec.1 > 0, zone::NSEC), (nsec3.count > 0, zone::NSEC3)];
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

    /// Lays out a node whose name and units stand first in `octets`; returns what stands behind them.
    fn node<'o>(&mut self, d: u32, number: u32, octets: &'o [u8], name_len: usize, units: &[Rendered]) -> &'o [u8] {
        let draft = &self.b.drafts[d as usize];
        let (name, mut octets) = octets.split_at(name_len);
        let at = self.bytes.len();
        self.out[d as usize] = (at / ALIGN) as u32;
        if name_len == 1 {
            self.root = self.out[d as usize];
        }
        let is_apex = draft.flags & node::APEX != 0;
        let is_cut = draft.flags & node::CUT != 0;
        let sets = units.iter().filter(|u| u.kind != Kind::Negative).count();
        let words_at = at + (8 + name_len).next_multiple_of(4);
        let mut entry = words_at + if is_apex { 8 } else { 0 };
        self.bytes.resize((entry + 8 * sets).next_multiple_of(ALIGN), 0);
        self.bytes[at + 8..at + 8 + name_len].copy_from_slice(name);
        self.bytes[at..at + 2].copy_from_slice(&[name_len as u8, sets as u8]);
        if is_apex {
            self.bytes[words_at..words_at + 4].copy_from_slice(&number.to_le_bytes());
        }
        if draft.wildcard != NONE && !is_cut {
            self.wildcards.push((if is_apex { words_at + 4 } else { at + 4 }, draft.wildcard));
        }
        let (mut own, mut head) = (0u16, 0u32);
        for &Rendered { kind, len } in units {
            let (unit, rest) = octets.split_at(len);
            octets = rest;
            let before = self.bytes.len();
            let reference = self.unit(kind, unit);
            own += u16::from(self.bytes.len() > before);
            let rtype = match kind {
                Kind::Negative | Kind::Referral(_) => {
                    head = reference;
                    if kind == Kind::Negative {
                        continue;
                    }
                    rtype::NS
                }
                Kind::Set(rtype) => rtype,
            };
            self.bytes[entry..entry + 4].copy_from_slice(&reference.to_le_bytes());
            self.bytes[entry + 4..entry + 6].copy_from_slice(&rtype.to_le_bytes());
            entry += 8;
        }
        let flags = draft.flags & OF_NODE | own << 8;
        self.bytes[at + 2..at + 4].copy_from_slice(&flags.to_le_bytes());
        if is_apex || is_cut {
            self.bytes[at + 4..at + 8].copy_from_slice(&head.to_le_bytes());
        }
        octets
    }

    /// Adds a unit, unless it is a referral and there is one like it: its reference.
    fn unit(&mut self, kind: Kind, unit: &[u8]) -> u32 {
        let reference = (self.bytes.len() / ALIGN) as u32;
        if let Kind::Referral(hash) = kind {
            let is_alike = |r: u32| self.bytes[r as usize * ALIGN..].starts_with(unit);
            if let Some(alike) = self.shared.find(hash, is_alike) {
                return alike;
            }
            self.shared.insert(hash, reference);
        }
        self.bytes.extend_from_slice(unit);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        reference
    }
}

/// What goes on one sheet each: pieces of zones, small zones together.
fn sheets(b: &Drafts, zones: &[u32]) -> Vec<Vec<Piece>> {
    let nobodys = Piece { zone: NONE, drafts: b.nobodys() };
    let whole = zones.iter().map(|&zone| Piece { zone, drafts: b.of_zone[zone as usize].clone() });
    let (mut sheets, mut room) = (vec![], 0);
    for Piece { zone, drafts } in whole.chain([nobodys]) {
        let Range { mut start, end } = drafts;
        while start < end {
            if room == 0 {
                sheets.push(vec![]);
                room = SHEET;
            }
            let n = room.min(end - start);
            if let Some(sheet) = sheets.last_mut() {
                sheet.push(Piece { zone, drafts: start..start + n });
            }
            start += n;
            room -= n;
        }
    }
    sheets
}

pub(crate) fn be32(octets: &[u8]) -> u32 {
    octets.first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b))
}
