//! Lays an image out: nodes with their units in canonical order, the tables of signed zones, the index last.

use crate::builder::{Hands, Summary};
use crate::drafts::{ASKED, Drafts, NONE, OF_NODE};
use crate::format::{ALIGN, HEADER, Header, LINE, WAYS, u32_at};
use crate::index;
use crate::named::Named;
use crate::node::{self, APEX_WORDS, ENTRY, FIXED};
use crate::sheet::{Piece, Rendered, Scribe, Sheet};
use crate::sums;
use crate::table::Table;
use crate::zone::{self, ZONE};
use std::ops::Range;
use wire::cpu::prefetch;
use wire::rtype::{self, Rtype};

/// Places taken in an index line, on the average, in hundredths: at 62 one name in 400 spills to the next line.
const FILL: usize = 62;
/// Drafts on a sheet, by turns: few enough that a sheet stays in the cache of the processor that wrote it. Writing a sheet takes
/// three to four times as long as placing it; the hand that places writes the shorter ones, so that both are done together.
const SHEETS: [u32; 2] = [10_240, 6_144];
/// Units after which the like of one is asked for, and after twice as many its place in the table.
const AHEAD: usize = 16;

pub(crate) struct Layout<'a> {
    pub b: &'a Drafts,
    pub bytes: Vec<u8>,
    /// References of the drafts that are laid out.
    pub out: Vec<u32>,
    /// Units of cuts and apexes that are alike in every octet are stored once: most delegations of a registry are like others,
    /// and so are the SOA, MX and NS of a hoster's zones.
    shared: Table,
    /// Where references to wildcards belong once those are laid out.
    wildcards: Vec<(usize, u32)>,
    root: u32,
    /// Of the units of the node at hand.
    places: Vec<Place>,
    /// How many different records the zone at hand has so far, and all before it together.
    records: u64,
    records_before: u64,
    end_max: usize,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(b: &'a Drafts, end_max: usize) -> Layout<'a> {
        Layout {
            b,
            bytes: vec![],
            out: vec![0; b.drafts.len()],
            shared: Table::with_room(0),
            wildcards: vec![],
            root: 0,
            places: vec![],
            records: 0,
            records_before: 0,
            end_max,
        }
    }

    /// None: it would be longer than an image can be.
    pub(crate) fn write(mut self, hands: &dyn Hands) -> Option<(Vec<u8>, Summary)> {
        let b = self.b;
        let names = b.drafts.iter().filter(|d| d.flags & ASKED != 0).count();
        let lines = (names * 100).div_ceil(WAYS * FILL).max(1);
        let zones: Vec<u32> = b.served().collect();
        let zones_at = HEADER + lines * LINE;
        self.bytes.resize((zones_at + zones.len() * ZONE).next_multiple_of(LINE), 0);
        let [named, more] = self.nodes(hands, &zones, zones_at);
        if self.is_full() {
            return None;
        }
        for (i, &z) in zones.iter().enumerate() {
            self.link_to_parent(z, zones_at + i * ZONE, &zones);
        }
        let of_zones = zones.iter().map(|&z| (b.of_zone[z as usize].clone(), &b.zones[z as usize].apex[..]));
        let all = of_zones.chain([(b.nobodys(), &b"\0"[..])]);
        let asked = all.flat_map(|(drafts, apex)| drafts.map(move |d| (d as usize, apex)));
        let asked = asked.filter(|&(d, _)| b.drafts[d].flags & ASKED != 0).map(|(d, apex)| (self.out[d], apex));
        let index::Filled { seed, deepest, ahead } = index::fill(&mut self.bytes, b.seed, lines, asked);
        self.bytes.resize((self.bytes.len() + LINE).next_multiple_of(8), 0);
        let hosts_at = self.bytes.len() as u64;
        let hosts = named.write(more, &self.out, &mut self.bytes)?;
        let sums_at = self.bytes.len();
        let records = self.records_before;
        let header = Header {
            length: (sums_at + sums::table_len(sums_at)) as u64,
            seed,
            lines: lines as u32,
            names: names as u32,
            zones_at: zones_at as u64,
            zones: zones.len() as u32,
            deepest,
            ahead,
            root: self.root,
            records,
            sums_at: sums_at as u64,
            hosts_at,
            hosts,
            overlay: None,
        };
        header.write(&mut self.bytes[..HEADER]);
        sums::append(&mut self.bytes, seed, hands);
        Some((self.bytes, Summary { zones: zones.len(), names, records }))
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= self.end_max
    }

    /// Lays out the nodes of all zones, and behind each zone its tables. Two sheets are placed while the next two are written.
    /// Returns who names whom.
    fn nodes(&mut self, hands: &dyn Hands, zones: &[u32], zones_at: usize) -> [Named; 2] {
        let sheets = sheets(self.b, zones);
        let pieces = |nth: usize| sheets.get(nth).map_or(&[][..], |s| s);
        let (mut scribe, mut other) = (Scribe::new(self.b), Scribe::new(self.b));
        let (mut ready, mut next) = <([Sheet; 2], [Sheet; 2])>::default();
        let [long, short] = &mut ready;
        hands.both(&mut || scribe.fill(long, pieces(0)), &mut || other.fill(short, pieces(1)));
        for nth in (0..sheets.len()).step_by(2) {
            let ([long, short], ready) = (&mut next, &mut ready);
            hands.both(&mut || scribe.fill(long, pieces(nth + 2)), &mut || {
                self.place(&ready[0], pieces(nth), zones, zones_at);
                self.place(&ready[1], pieces(nth + 1), zones, zones_at);
                other.fill(short, pieces(nth + 3));
            });
            std::mem::swap(ready, &mut next);
        }
        [scribe.named, other.named]
    }

    fn place(&mut self, sheet: &Sheet, pieces: &[Piece], zones: &[u32], zones_at: usize) {
        let (mut octets, mut units, mut nodes) = (&sheet.octets[..], &sheet.units[..], &sheet.nodes[..]);
        for (Piece { zone, drafts }, records) in pieces.iter().cloned().zip(&sheet.records) {
            let number = zones.binary_search(&zone).unwrap_or(0);
            let all = if zone == NONE { self.b.nobodys() } else { self.b.of_zone[zone as usize].clone() };
            let apex_len = self.b.zones.get(zone as usize).map_or(0, |z| z.apex.len());
            for d in drafts.clone() {
                let Some((&(name_len, n), others)) = nodes.split_first().filter(|_| !self.is_full()) else { return };
                self.fetch_alike(units);
                let (mine, rest) = units.split_at(n as usize);
                octets = self.node(d, octets, name_len as usize, apex_len, mine);
                (units, nodes) = (rest, others);
            }
            if zone == NONE {
                continue;
            }
            self.records += records;
            if drafts.end == all.end {
                self.end_zone(zone, number as u32, zones_at + number * ZONE);
            }
        }
    }

    /// Asks for what units a little further on will be compared with, ahead of time.
    fn fetch_alike(&self, units: &[Rendered]) {
        if let Some(&Rendered { hash: Some(hash), .. }) = units.get(2 * AHEAD) {
            self.shared.prefetch(hash);
        }
        if let Some(&Rendered { hash: Some(hash), .. }) = units.get(AHEAD)
            && let Some(alike) = self.shared.find(hash, |_| true)
        {
            prefetch(&self.bytes, alike as usize * ALIGN);
        }
    }

    /// Ends a zone whose nodes are laid out: what its apex says of it, its tables, and its record.
    fn end_zone(&mut self, z: u32, number: u32, record_at: usize) {
        let b = self.b;
        let (apex, name) = (b.apex(z), &b.zones[z as usize].apex[..]);
        let at = self.out[apex as usize] as usize * ALIGN;
        let extent = ((self.bytes.len() - at) / ALIGN) as u32;
        let words_at = at + FIXED + 4 + name.len();
        for (i, word) in [(0, number), (2, negative_ttl(b, apex)), (3, extent)] {
            self.put(words_at + 4 * i, word);
        }
        for (at, wildcard) in std::mem::take(&mut self.wildcards) {
            self.put(at, self.out[wildcard as usize]);
        }
        let has_more = b.is_signed(z) || b.is_hashed(z) || parent(b, z).is_some();
        let more = if has_more { self.more(z) } else { 0 };
        let records = std::mem::take(&mut self.records);
        self.records_before += records;
        for (i, word) in [(at / ALIGN) as u32, records as u32, more].into_iter().enumerate() {
            self.put(record_at + 4 * i, word);
        }
    }

    fn put(&mut self, at: usize, word: u32) {
        self.bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }

    /// What only few zones have: tables for denial, a zone above. Its reference.
    fn more(&mut self, z: u32) -> u32 {
        let b = self.b;
        let apex = b.apex(z);
        let has = |d: u32, t: Rtype| b.records_of(d).any(|r| r.rtype == t);
        let nsec = if has(apex, rtype::NSEC) { self.nsec_table(z) } else { (0, 0) };
        let nsec3 = self.nsec3_table(z);
        let denies = [(nsec.1 > 0, zone::NSEC), (nsec3.count > 0, zone::NSEC3), (nsec3.is_whole, zone::TABLED)];
        let marks = [(b.is_signed(z), zone::SIGNED), (b.is_hashed(z), zone::HASHED)].into_iter().chain(denies);
        let flags: u32 = marks.filter(|m| m.0).map(|m| m.1).sum();
        let more = (self.bytes.len() / ALIGN) as u32;
        for word in [flags, 0, 0, nsec.0, nsec.1, nsec3.at, nsec3.count] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(nsec3.iterations.to_le_bytes());
        self.bytes.extend([nsec3.salt.len() as u8, 0]);
        self.bytes.extend_from_slice(nsec3.salt);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        more
    }

    /// DS lives in the zone above: an apex leads to the node of its name there.
    fn link_to_parent(&mut self, z: u32, record_at: usize, numbers: &[u32]) {
        let Some(parent) = parent(self.b, z) else { return };
        // What lies there below another cut is glue, and the zone above that is not the parent.
        let apex = &self.b.zones[z as usize].apex[..];
        let is_visible = |d: u32| self.b.name(d) == apex && self.b.drafts[d as usize].flags & node::HIDDEN == 0;
        let first = self.b.first_at_or_below(parent, apex);
        let number = numbers.binary_search(&parent).unwrap_or(0) as u32;
        let more = u32_at(&self.bytes, record_at + 8).unwrap_or(0) as usize * ALIGN;
        if first.is_some_and(|d| !is_visible(d)) {
            let flags = u32_at(&self.bytes, more).unwrap_or(0);
            self.put(more, flags | zone::OCCLUDED);
        }
        self.put(more + zone::PARENT, first.map_or(0, |d| self.out[d as usize]));
        self.put(more + zone::PARENT + 4, number);
    }

    /// Lays out a node whose name and units stand first in `octets`; returns what stands behind them.
    fn node<'o>(&mut self, d: u32, octets: &'o [u8], name_len: usize, apex_len: usize, units: &[Rendered]) -> &'o [u8] {
        let draft = &self.b.drafts[d as usize];
        let (name, mut octets) = octets.split_at(name_len);
        let is_whole = draft.flags & (node::APEX | node::ABOVE) != 0;
        let name_len = if is_whole { name_len } else { name_len - apex_len };
        let name = &name[..name_len];
        let at = self.bytes.len();
        self.out[d as usize] = (at / ALIGN) as u32;
        if name == b"\0" {
            self.root = self.out[d as usize];
        }
        let head_type = match draft.flags & (node::APEX | node::CUT) {
            0 => None,
            node::CUT => Some(rtype::NS),
            _ => Some(rtype::SOA),
        };
        let has_head = head_type.is_some() || draft.wildcard != NONE;
        let name_at = at + FIXED + if has_head { 4 } else { 0 };
        let directory_at = name_at + name_len + if head_type == Some(rtype::SOA) { APEX_WORDS } else { 0 };
        let entries = units.len() - usize::from(head_type.is_some());
        let mut elsewhere_at = directory_at + ENTRY * entries;
        let elsewhere = self.find_places(octets, units, head_type, elsewhere_at - at);
        self.bytes.resize((elsewhere_at + 4 * elsewhere).next_multiple_of(ALIGN), 0);
        let flags = draft.flags & OF_NODE | if has_head { node::HEAD } else { 0 };
        self.bytes[at..at + 2].copy_from_slice(&[name_len as u8, entries as u8]);
        self.bytes[at + 2..at + 4].copy_from_slice(&flags.to_le_bytes());
        self.bytes[name_at..name_at + name_len].copy_from_slice(name);
        if draft.wildcard != NONE && head_type != Some(rtype::NS) {
            let words_at = name_at + name_len;
            self.wildcards.push((if head_type.is_some() { words_at + 4 } else { at + 4 }, draft.wildcard));
        }
        let (mut entry, mut nth) = (directory_at, 0);
        for (i, &Rendered { rtype, hash, len }) in units.iter().enumerate() {
            let (unit, rest) = octets.split_at(len);
            octets = rest;
            let Place { alike, is_near } = self.places[i];
            let reference = alike.unwrap_or_else(|| self.unit(hash, unit));
            if head_type == Some(rtype) {
                self.put(at + 4, reference);
                continue;
            }
            let place = if is_near {
                (reference as usize - at / ALIGN) as u16
            } else {
                self.put(elsewhere_at, reference);
                elsewhere_at += 4;
                nth += 1;
                node::ELSEWHERE + nth - 1
            };
            self.bytes[entry..entry + 2].copy_from_slice(&rtype.to_le_bytes());
            self.bytes[entry + 2..entry + 4].copy_from_slice(&place.to_le_bytes());
            entry += ENTRY;
        }
        octets
    }

    /// Finds out which of a node's units stand elsewhere, and how many references that takes.
    fn find_places(
        &mut self,
        octets: &[u8],
        units: &[Rendered],
        head_type: Option<Rtype>,
        directory_end: usize,
    ) -> usize {
        self.places.clear();
        let (mut octets, mut elsewhere) = (octets, 0);
        // No unit can stand farther away than if all others were referred to.
        let mut end = directory_end + 4 * units.len();
        for &Rendered { rtype, hash, len } in units {
            let (unit, rest) = octets.split_at(len);
            octets = rest;
            let is_alike = |r: u32| self.bytes[r as usize * ALIGN..].starts_with(unit);
            let alike = hash.and_then(|hash| self.shared.find(hash, is_alike));
            let is_near = alike.is_none() && end.div_ceil(ALIGN) < usize::from(node::ELSEWHERE);
            if alike.is_none() {
                end = end.next_multiple_of(ALIGN) + len;
            }
            elsewhere += usize::from(!is_near && head_type != Some(rtype));
            self.places.push(Place { alike, is_near });
        }
        elsewhere
    }

    /// Adds a unit: its reference. Others may be like it if it has a hash.
    fn unit(&mut self, hash: Option<u64>, unit: &[u8]) -> u32 {
        let reference = (self.bytes.len() / ALIGN) as u32;
        if let Some(hash) = hash {
            self.shared.insert(hash, reference);
        }
        self.bytes.extend_from_slice(unit);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        reference
    }
}

/// Where a unit of the node at hand will stand.
struct Place {
    /// The unit that stands already and is like it.
    alike: Option<u32>,
    /// Behind the node, and not too far.
    is_near: bool,
}

/// The zone above that is ours, too.
fn parent(b: &Drafts, z: u32) -> Option<u32> {
    let name = &b.zones[z as usize].apex[..];
    let mut at = 0;
    while name[at] != 0 {
        at += name[at] as usize + 1;
        if let Some(&parent) = b.apexes.get(&name[at..]) {
            return Some(parent);
        }
    }
    None
}

/// RFC 2308 section 3: the lesser of the SOA's own TTL and its last field.
fn negative_ttl(b: &Drafts, apex: u32) -> u32 {
    let soa = b.records_of(apex).find(|r| r.rtype == rtype::SOA);
    soa.map_or(0, |rr| rr.rdata.last_chunk::<4>().map_or(rr.ttl, |&minimum| rr.ttl.min(u32::from_be_bytes(minimum))))
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
                room = SHEETS[sheets.len() % 2];
                sheets.push(vec![]);
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
