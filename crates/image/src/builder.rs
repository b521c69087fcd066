//! Makes an image from records: collects, finds out what each name is, and lays everything out.
//!
//! Records may come in any order within their zone. A zone that cannot be served is left out and complained of; the
//! others are built all the same. Memory: the records once, 32 octets a name and 24 a record, and the image.

use crate::layout::Layout;
use crate::node;
use crate::render::Rr;
use std::collections::{HashMap, HashSet};
use wire::Name;
use wire::hash::name_hash;
use wire::name::{is_at_or_below, wire_len};
use wire::rtype::{self, Rtype};

pub(crate) const NONE: u32 = u32::MAX;
/// The most octets of an RRset: what a message can hold beside header and question.
const RRSET_OCTETS_MAX: usize = 65_535 - 512;
/// The most RRsets at a name; the node counts them in an octet.
const RRSETS_MAX: usize = 200;

/// A record that is collected.
#[derive(Clone, Copy)]
struct Record {
    rdata_at: usize,
    ttl: u32,
    rdata_len: u16,
    rtype: Rtype,
    next: u32,
}

/// An owner name of a zone.
#[derive(Clone, Copy)]
pub(crate) struct Draft {
    name_at: usize,
    pub zone: u32,
    pub first: u32,
    last: u32,
    pub wildcard: u32,
    pub flags: u16,
    name_len: u8,
}

pub(crate) struct ZoneDraft {
    pub apex: u32,
    pub complaint: Option<String>,
    pub records: u64,
}

/// A zone that is left out of the image, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub zone: Name,
    pub what: String,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub zones: usize,
    pub names: usize,
    pub records: u64,
}

pub struct Builder {
    pub(crate) seed: u64,
    octets: Vec<u8>,
    records: Vec<Record>,
    pub(crate) drafts: Vec<Draft>,
    /// Open addressing over (zone, name): numbers of drafts.
    table: Vec<u32>,
    pub(crate) zones: Vec<ZoneDraft>,
    /// The zones that will be served, by apex.
    pub(crate) apexes: HashMap<Vec<u8>, u32>,
}

impl Builder {
    /// `seed`: random; an image's hashes depend on it, so that nobody can prepare names that collide.
    pub fn new(seed: u64) -> Builder {
        Builder {
            seed,
            octets: vec![],
            records: vec![],
            drafts: vec![],
            table: vec![NONE; 1 << 10],
            zones: vec![],
            apexes: HashMap::new(),
        }
    }

    /// The records that follow belong to the zone of this apex.
    pub fn begin_zone(&mut self, apex: &[u8]) {
        let number = self.zones.len() as u32;
        let apex = self.draft(apex, number);
        self.drafts[apex as usize].flags |= node::APEX;
        self.zones.push(ZoneDraft { apex, complaint: None, records: 0 });
    }

    /// Adds a record to the zone begun last. Err: it does not belong there.
    pub fn record(&mut self, owner: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8]) -> Result<(), String> {
        let Some(number) = self.zones.len().checked_sub(1) else { return Err("no zone was begun".into()) };
        if wire_len(owner) != Some(owner.len()) {
            return Err("the owner is no name".into());
        }
        if rtype::is_meta(rtype) {
            return Err(format!("type {rtype} stands in questions only, no zone may hold it"));
        }
        let apex = self.name(self.zones[number].apex);
        if !is_at_or_below(owner, apex) {
            let (owner, apex) = (text(owner), text(apex));
            return Err(format!("{owner} lies outside the zone {apex}"));
        }
        if rtype == rtype::SOA && !owner.eq_ignore_ascii_case(apex) {
            return Err(format!("a SOA belongs to the zone's apex {} only", text(apex)));
        }
        let draft = self.draft(owner, number as u32);
        let rdata_at = self.octets.len();
        self.octets.extend_from_slice(rdata);
        let this = self.records.len() as u32;
        self.records.push(Record { rdata_at, ttl, rdata_len: rdata.len() as u16, rtype, next: NONE });
        let d = &mut self.drafts[draft as usize];
        match d.last {
            NONE => d.first = this,
            last => self.records[last as usize].next = this,
        }
        d.last = this;
        self.zones[number].records += 1;
        Ok(())
    }

    pub(crate) fn name(&self, draft: u32) -> &[u8] {
        let d = &self.drafts[draft as usize];
        &self.octets[d.name_at..d.name_at + d.name_len as usize]
    }

    fn slot(&self, zone: u32, folded: &[u8]) -> usize {
        let mask = self.table.len() - 1;
        let mut at = name_hash(self.seed ^ u64::from(zone) << 20, folded) as usize & mask;
        loop {
            match self.table[at] {
                NONE => return at,
                d if self.drafts[d as usize].zone == zone && self.name(d) == folded => return at,
                _ => at = (at + 1) & mask,
            }
        }
    }

    pub(crate) fn find(&self, zone: u32, folded: &[u8]) -> Option<u32> {
        let found = self.table[self.slot(zone, folded)];
        (found != NONE).then_some(found)
    }

    /// The draft of a name of a zone, made if there is none.
    fn draft(&mut self, owner: &[u8], zone: u32) -> u32 {
        let mut folded = [0u8; 264];
        folded[..owner.len()].copy_from_slice(owner);
        folded[..owner.len()].make_ascii_lowercase();
        let folded = &folded[..owner.len()];
        let slot = self.slot(zone, folded);
        if self.table[slot] != NONE {
            return self.table[slot];
        }
        let this = self.drafts.len() as u32;
        self.table[slot] = this;
        let name_at = self.octets.len();
        self.octets.extend_from_slice(folded);
        self.drafts.push(Draft {
            name_at,
            zone,
            first: NONE,
            last: NONE,
            wildcard: NONE,
            flags: 0,
            name_len: folded.len() as u8,
        });
        if self.drafts.len() * 2 > self.table.len() {
            self.grow();
        }
        this
    }

    fn grow(&mut self) {
        self.table = vec![NONE; self.table.len() * 2];
        for d in 0..self.drafts.len() as u32 {
            let slot = self.slot(self.drafts[d as usize].zone, self.name(d));
            self.table[slot] = d;
        }
    }

    /// Takes back the zone begun last: its file turned out to be unusable.
    pub fn complain(&mut self, what: String) {
        if let Some(zone) = self.zones.last_mut() {
            zone.complaint.get_or_insert(what);
        }
    }

    /// Lays the image out.
    pub fn finish(mut self) -> (Vec<u8>, Summary, Vec<Complaint>) {
        self.classify();
        self.judge_zones();
        self.place_names();
        self.lead_to_apexes();
        let (image, summary) = Layout::new(&self).write();
        let complaints = self
            .zones
            .iter()
            .filter_map(|z| Some(Complaint { zone: Name::from_wire(self.name(z.apex))?, what: z.complaint.clone()? }));
        (image, summary, complaints.collect())
    }

    pub(crate) fn served(&self, zone: u32) -> bool {
        self.zones.get(zone as usize).is_some_and(|z| z.complaint.is_none())
    }

    pub(crate) fn records_of(&self, draft: u32) -> impl Iterator<Item = Rr<'_>> {
        let mut at = self.drafts[draft as usize].first;
        std::iter::from_fn(move || {
            let r = self.records.get(at as usize)?;
            at = r.next;
            Some(Rr { rtype: r.rtype, ttl: r.ttl, rdata: &self.octets[r.rdata_at..r.rdata_at + r.rdata_len as usize] })
        })
    }

    /// Finds out what each name is by its own records: cut, alias, owner of an NSEC3.
    fn classify(&mut self) {
        for d in 0..self.drafts.len() as u32 {
            let (mut flags, mut only_nsec3) = (0, true);
            for rr in self.records_of(d) {
                match rr.rtype {
                    rtype::NS => flags |= node::CUT,
                    rtype::DNAME => flags |= node::DNAME,
                    rtype::CNAME => flags |= node::CNAME,
                    _ => {}
                }
                let covers_nsec3 = rr.rtype == rtype::RRSIG && rr.rdata.starts_with(&rtype::NSEC3.to_be_bytes());
                only_nsec3 &= rr.rtype == rtype::NSEC3 || covers_nsec3;
            }
            let draft = &mut self.drafts[d as usize];
            if draft.flags & node::APEX != 0 {
                flags &= !node::CUT;
            } else if only_nsec3 && draft.first != NONE {
                flags |= node::HIDDEN;
            }
            draft.flags |= flags;
        }
    }

    /// Finds out what each name is by what stands above it: hidden, wildcard, or in need of empty non-terminals.
    fn place_names(&mut self) {
        let mut d = 0;
        // The list grows while empty non-terminals are found; those need the same look.
        while d < self.drafts.len() as u32 {
            let draft = self.drafts[d as usize];
            if draft.flags & (node::APEX | node::HIDDEN) == 0 && self.served(draft.zone) {
                self.place_below_ancestors(d);
            }
            d += 1;
        }
    }

    /// Hides a name that lies below a cut, a DNAME or another zone's apex; else makes sure that its ancestors exist.
    fn place_below_ancestors(&mut self, d: u32) {
        let zone = self.drafts[d as usize].zone;
        let name = self.name(d).to_vec();
        let apex_len = self.drafts[self.zones[zone as usize].apex as usize].name_len as usize;
        let ends = || {
            let mut at = 0;
            let name = &name;
            std::iter::from_fn(move || {
                at += *name.get(at)? as usize + 1;
                (name.len() - at >= apex_len).then(|| &name[at..])
            })
        };
        let blocks = |end: &[u8]| {
            let here = self.find(zone, end).map_or(0, |a| self.drafts[a as usize].flags);
            here & (node::CUT | node::DNAME) != 0 || end.len() > apex_len && self.apexes.contains_key(end)
        };
        if ends().any(blocks) {
            self.drafts[d as usize].flags |= node::HIDDEN;
            return;
        }
        for end in ends() {
            self.draft(end, zone);
        }
        if name.starts_with(b"\x01*") {
            let parent = self.draft(&name[2..], zone);
            self.drafts[parent as usize].wildcard = d;
        }
    }

    /// Gives the walk a way to each apex: past cuts of other zones of ours, and through names that are nobody's.
    fn lead_to_apexes(&mut self) {
        for z in 0..self.zones.len() as u32 {
            if !self.served(z) {
                continue;
            }
            let name = self.name(self.zones[z as usize].apex).to_vec();
            let mut at = 0;
            while name[at] != 0 {
                at += name[at] as usize + 1;
                let end = &name[at..];
                match self.node_in_nearest_zone(end) {
                    Some(d) => self.drafts[d as usize].flags |= node::DEEPER,
                    None if end.len() > 1 => {
                        let above = self.draft(end, NONE);
                        self.drafts[above as usize].flags |= node::ABOVE | node::DEEPER;
                    }
                    None => {}
                }
            }
        }
    }

    /// The visible node of a name in the deepest zone of ours that it belongs to.
    fn node_in_nearest_zone(&self, name: &[u8]) -> Option<u32> {
        let mut at = 0;
        loop {
            if let Some(&z) = self.apexes.get(&name[at..]) {
                return self.find(z, name).filter(|&d| self.drafts[d as usize].flags & node::HIDDEN == 0);
            }
            if name[at] == 0 {
                return None;
            }
            at += name[at] as usize + 1;
        }
    }

    fn judge_zones(&mut self) {
        for d in 0..self.drafts.len() as u32 {
            let zone = self.drafts[d as usize].zone;
            if self.served(zone)
                && let Some(what) = self.judge_name(d)
            {
                self.zones[zone as usize].complaint = Some(format!("{}: {what}", text(self.name(d))));
            }
        }
        for z in 0..self.zones.len() {
            let apex = self.zones[z].apex;
            let count = |t| self.rdatas(apex, t).len();
            let what = match (count(rtype::SOA), count(rtype::NS)) {
                (0, _) => "there is no SOA record at the zone's apex",
                (2.., _) => "there is more than one SOA record at the zone's apex",
                (_, 0) => "there is no NS record at the zone's apex",
                _ => "",
            };
            let name = self.name(apex).to_vec();
            if !what.is_empty() {
                self.zones[z].complaint.get_or_insert(what.into());
            } else if self.apexes.contains_key(&name) {
                self.zones[z].complaint.get_or_insert("the zone is configured twice".into());
            }
            if self.zones[z].complaint.is_none() {
                self.apexes.insert(name, z as u32);
            }
        }
    }

    fn rdatas(&self, d: u32, rtype: Rtype) -> HashSet<&[u8]> {
        self.records_of(d).filter(|r| r.rtype == rtype).map(|r| r.rdata).collect()
    }

    /// RFC 1034 section 3.6.2 and RFC 2181 section 10.1: an alias stands alone, but for what DNSSEC adds.
    fn judge_name(&self, d: u32) -> Option<&'static str> {
        let draft = &self.drafts[d as usize];
        if draft.flags & node::CNAME != 0 {
            let beside = |t| {
                !matches!(
                    t,
                    rtype::CNAME | rtype::RRSIG | rtype::NSEC | rtype::NSEC3 | rtype::KEY | rtype::SIG | rtype::NXT
                )
            };
            if self.records_of(d).any(|r| beside(r.rtype)) {
                return Some("other data stands beside a CNAME");
            }
        }
        if draft.flags & node::CNAME != 0 && self.rdatas(d, rtype::CNAME).len() > 1 {
            return Some("more than one CNAME");
        }
        if draft.flags & node::DNAME != 0 && self.rdatas(d, rtype::DNAME).len() > 1 {
            return Some("more than one DNAME (RFC 6672 section 2.4)");
        }
        let (mut sizes, mut total) = (HashMap::new(), 0);
        for r in self.records_of(d) {
            total += r.rdata.len() + 12;
            if total > RRSET_OCTETS_MAX / 8 {
                *sizes.entry(r.rtype).or_insert(0) += r.rdata.len() + 12;
            }
        }
        if sizes.values().any(|&size| size > RRSET_OCTETS_MAX * 7 / 8) {
            return Some("an RRset of more octets than a message can hold");
        }
        if sizes.len() > RRSETS_MAX {
            return Some("more than 200 types at one name");
        }
        None
    }
}

fn text(name: &[u8]) -> String {
    let mut out = String::new();
    wire::name::push_text(name, &mut out);
    out
}
