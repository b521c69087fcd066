//! From sorted runs of records to drafts of nodes: which names there are, what each is, and how they lead to one another.
//!
//! In canonical order the names above a name are those that were met last, so one stack finds cuts above, hidden names,
//! wildcards and empty non-terminals in one pass, and nothing is looked up. Drafts stand in the order in which nodes will:
//! zone by zone, each in canonical order; behind them the names above apexes that belong to no zone.

use crate::builder::{ZoneDraft, text};
use crate::collected::{Collected, Records};
use crate::hosts::{Host, Hosts};
use crate::judge::{self, Look};
use crate::node;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use wire::hash::name_hash;
use wire::name::{canonical_cmp, is_at_or_below, wire_len};
use wire::rtype;

pub(crate) const NONE: u32 = u32::MAX;
/// A node's own flags; the others are for the builder only.
pub(crate) const OF_NODE: u16 = 0xFF | node::NESTED;
/// The index will lead to the name: it is not hidden, and no other zone of ours has the say there.
pub(crate) const ASKED: u16 = 1 << 8;
/// The name owns addresses.
pub(crate) const HOST: u16 = 1 << 9;
/// Drafts whose runs are fetched ahead of their turn.
const AHEAD: u32 = 16;

/// A node to be.
#[derive(Clone, Copy)]
pub(crate) struct Draft {
    /// The first run with its name, or with a name that ends with its own.
    pub run: u32,
    pub wildcard: u32,
    pub flags: u16,
    /// Octets of the run's name before this one's: 0, or the name has no records.
    skip: u8,
}

pub(crate) struct Drafts {
    pub seed: u64,
    /// Sorted. Who judges may hold it, too.
    pub collected: Arc<Collected>,
    pub zones: Vec<ZoneDraft>,
    pub drafts: Vec<Draft>,
    /// By zone: its drafts. Empty if it is not served.
    pub of_zone: Vec<Range<u32>>,
    /// The zones that will be served, by apex.
    pub apexes: HashMap<Box<[u8]>, u32>,
    /// By zone: whether any name of it is a wildcard.
    has_wildcards: Vec<bool>,
    /// Names that own addresses, by `host_hash`.
    hosts: Hosts,
}

/// What a look at some runs gave.
#[derive(Default)]
struct Looks {
    drafts: Vec<Draft>,
    /// Some names own NSEC3 and nothing else.
    is_hashed: bool,
    /// The fault that comes first in the file: where, in which run, and what.
    fault: Option<(u64, u32, &'static str)>,
}

impl Drafts {
    pub(crate) fn new(seed: u64, collected: Arc<Collected>, zones: Vec<ZoneDraft>) -> Drafts {
        let (of_zone, apexes) = (vec![0..0; zones.len()], HashMap::new());
        Drafts {
            seed,
            collected,
            zones,
            drafts: vec![],
            of_zone,
            apexes,
            has_wildcards: vec![],
            hosts: Hosts::default(),
        }
    }

    /// Finds the names of the zones that can be served, each zone's in order, not yet knowing of each other.
    pub(crate) fn find_names(&mut self) {
        (0..self.zones.len()).for_each(|z| self.look_at_zone(z));
    }

    /// Puts all names in their places.
    pub(crate) fn place(&mut self) {
        self.place_names();
        self.lead_to_apexes();
        self.note_hosts();
    }

    fn runs(&self, z: usize) -> Range<usize> {
        let end = self.zones.get(z + 1).map_or(self.collected.runs.len(), |next| next.run as usize);
        self.zones[z].run as usize..end
    }

    /// Finds the names of a zone and what each is by its own records; and whether the zone can be served.
    fn look_at_zone(&mut self, z: usize) {
        if self.zones[z].complaint.is_some() {
            return;
        }
        let mut looks = self.look(self.runs(z));
        let first = self.drafts.len() as u32;
        self.drafts.append(&mut looks.drafts);
        self.of_zone[z] = first..self.drafts.len() as u32;
        self.zones[z].is_hashed = looks.is_hashed;
        let fault = looks.fault.map(|(_, run, what)| format!("{}: {what}", text(self.collected.name(run))));
        self.admit(z, fault);
    }

    fn look(&self, runs: Range<usize>) -> Looks {
        let (mut looks, apex) = (Looks::default(), runs.start);
        for at in runs {
            let run = at as u32;
            self.fetch(run + AHEAD);
            if self.collected.runs[at].is_same_name() {
                continue;
            }
            let look = Look::at(self.collected.records(run));
            let flags = match look.flags {
                flags if at == apex => flags & !node::CUT | node::APEX,
                flags if look.only_nsec3 => flags | node::HIDDEN,
                flags => flags,
            };
            looks.is_hashed |= look.only_nsec3;
            let host = if look.has_addresses { HOST } else { 0 };
            looks.drafts.push(Draft { run, wildcard: NONE, flags: flags | host, skip: 0 });
            if let Some(what) = look.fault(self.collected.records(run)) {
                let fault = (self.collected.runs[at].place(), run, what);
                looks.fault = Some(looks.fault.map_or(fault, |first| first.min(fault)));
            }
        }
        looks
    }

    fn admit(&mut self, z: usize, fault: Option<String>) {
        let records = self.collected.records(self.zones[z].run);
        let complaint = fault.or_else(|| judge::apex_fault(records).map(Into::into)).or_else(|| {
            let is_known = self.apexes.contains_key(&self.zones[z].apex);
            is_known.then(|| "the zone is configured twice".into())
        });
        if complaint.is_none() {
            self.apexes.insert(self.zones[z].apex.clone(), z as u32);
            self.zones[z].is_signed = self.collected.records(self.zones[z].run).any(|r| r.rtype == rtype::RRSIG);
        } else {
            self.drafts.truncate(self.of_zone[z].start as usize);
            self.of_zone[z] = 0..0;
        }
        self.zones[z].complaint = complaint;
    }

    /// Asks for a run ahead of time.
    fn fetch(&self, run: u32) {
        if let Some(run) = self.collected.runs.get(run as usize) {
            self.collected.segments.prefetch(run);
        }
    }

    /// Asks for a draft's records ahead of time.
    pub(crate) fn fetch_records(&self, d: u32) {
        if let Some(draft) = self.drafts.get(d as usize) {
            self.fetch(draft.run);
        }
    }

    pub(crate) fn name(&self, d: u32) -> &[u8] {
        self.name_of(&self.drafts[d as usize])
    }

    fn name_of(&self, draft: &Draft) -> &[u8] {
        &self.collected.name(draft.run)[draft.skip as usize..]
    }

    pub(crate) fn records_of(&self, d: u32) -> impl Iterator<Item = crate::render::Rr<'_>> {
        let draft = &self.drafts[d as usize];
        let records: Option<Records<'_>> = (draft.skip == 0).then(|| self.collected.records(draft.run));
        records.into_iter().flatten()
    }

    pub(crate) fn records_of_host(&self, host: Host) -> Records<'_> {
        self.collected.records_at(host.spot, host.run)
    }

    pub(crate) fn served(&self) -> impl Iterator<Item = u32> {
        (0..self.zones.len() as u32).filter(|&z| self.zones[z as usize].complaint.is_none())
    }

    /// Whether the zone's answers can carry signatures.
    pub(crate) fn is_signed(&self, z: u32) -> bool {
        self.zones[z as usize].is_signed
    }

    pub(crate) fn is_hashed(&self, z: u32) -> bool {
        self.zones[z as usize].is_hashed
    }

    /// The draft of a zone's apex: the first of its drafts.
    pub(crate) fn apex(&self, z: u32) -> u32 {
        self.of_zone[z as usize].start
    }

    /// The draft of a name in a zone.
    pub(crate) fn find(&self, z: u32, folded: &[u8]) -> Option<u32> {
        self.first_from(z, folded).filter(|&d| self.name(d) == folded)
    }

    /// The draft of a name in a zone, or the first below it.
    pub(crate) fn first_at_or_below(&self, z: u32, folded: &[u8]) -> Option<u32> {
        self.first_from(z, folded).filter(|&d| is_at_or_below(self.name(d), folded))
    }

    /// The first draft of a zone that does not come before a name.
    fn first_from(&self, z: u32, folded: &[u8]) -> Option<u32> {
        let Range { start, end } = self.of_zone[z as usize];
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low.midpoint(high);
            match canonical_cmp(self.name(middle), folded) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => high = middle,
            }
        }
        Some(low).filter(|&d| d < end)
    }

    /// Finds out what each name is by what stands above it: hidden, wildcard, or in need of empty non-terminals.
    fn place_names(&mut self) {
        let has_zones_below = self.zones_above_others();
        let mut has_wildcards = vec![false; self.zones.len()];
        let looked_at = std::mem::take(&mut self.drafts);
        let mut of_zone = self.of_zone.clone();
        let mut placed = Vec::with_capacity(looked_at.len() + looked_at.len() / 64);
        for z in self.served() {
            let from = placed.len();
            let Range { start, end } = self.of_zone[z as usize];
            let others = if has_zones_below[z as usize] { Some(&self.apexes) } else { None };
            let mut placing = Placing { collected: &self.collected, others, from, placed, above: vec![] };
            for d in start..end {
                if let Some(later) = looked_at.get((d + AHEAD) as usize) {
                    self.fetch(later.run);
                }
                placing.place(looked_at[d as usize]);
            }
            placed = placing.placed;
            has_wildcards[z as usize] = placed[from..].iter().any(|d| d.wildcard != NONE);
            of_zone[z as usize] = from as u32..placed.len() as u32;
        }
        (self.drafts, self.of_zone, self.has_wildcards) = (placed, of_zone, has_wildcards);
    }

    /// By zone: whether another one lies below it.
    fn zones_above_others(&self) -> Vec<bool> {
        let mut is_above = vec![false; self.zones.len()];
        for z in self.served() {
            for end in ends(&self.zones[z as usize].apex) {
                if let Some(&above) = self.apexes.get(end) {
                    is_above[above as usize] = true;
                }
            }
        }
        is_above
    }

    /// Gives the walk a way to each apex: past cuts of other zones of ours, and through names that are nobody's.
    fn lead_to_apexes(&mut self) {
        let mut nobodys: HashMap<Box<[u8]>, u32> = HashMap::new();
        for z in 0..self.zones.len() {
            let run = self.zones[z].run;
            let apex = self.zones[z].apex.clone();
            if self.zones[z].complaint.is_some() {
                continue;
            }
            for end in ends(&apex) {
                if let Some(d) = self.node_in_nearest_zone(end) {
                    self.drafts[d as usize].flags |= node::DEEPER;
                } else if end.len() > 1 && !nobodys.contains_key(end) {
                    let skip = (apex.len() - end.len()) as u8;
                    nobodys.insert(end.into(), self.drafts.len() as u32);
                    let flags = node::ABOVE | node::DEEPER | ASKED;
                    self.drafts.push(Draft { run, wildcard: NONE, flags, skip });
                }
            }
        }
    }

    /// The visible node of a name in the deepest zone of ours that it belongs to.
    fn node_in_nearest_zone(&self, name: &[u8]) -> Option<u32> {
        let z = std::iter::once(name).chain(ends(name)).find_map(|end| self.apexes.get(end))?;
        self.find(*z, name).filter(|&d| self.drafts[d as usize].flags & node::HIDDEN == 0)
    }

    /// The names that belong to no zone.
    pub(crate) fn nobodys(&self) -> Range<u32> {
        self.of_zone.iter().map(|r| r.end).max().unwrap_or(0)..self.drafts.len() as u32
    }

    fn note_hosts(&mut self) {
        let count = self.drafts.iter().filter(|d| d.flags & HOST != 0).count();
        let mut hosts = Hosts::with_room(count);
        for z in self.served() {
            for d in self.of_zone[z as usize].clone() {
                let draft = self.drafts[d as usize];
                self.fetch_records(d + AHEAD);
                if draft.flags & HOST != 0 {
                    let is_glue = draft.flags & (node::HIDDEN | node::CUT) != 0;
                    let host = Host { run: draft.run, is_glue, spot: self.collected.spot(draft.run) };
                    hosts.insert(self.host_hash(z, self.name(d)), host);
                }
            }
        }
        self.hosts = hosts;
    }

    fn host_hash(&self, z: u32, folded: &[u8]) -> u64 {
        name_hash(self.seed ^ u64::from(z) << 20, folded)
    }

    /// What owns addresses by this name in a zone.
    pub(crate) fn host(&self, z: u32, folded: &[u8]) -> Option<Host> {
        if !is_at_or_below(folded, &self.zones[z as usize].apex) {
            return None;
        }
        let mine = self.runs(z as usize);
        let is_it = |h: &Host| mine.contains(&(h.run as usize)) && self.collected.name_at(h.spot) == folded;
        self.hosts.find(self.host_hash(z, folded), is_it)
    }

    /// The wildcard that makes a host of a name that is not there.
    pub(crate) fn wildcard_host(&self, z: u32, folded: &[u8]) -> Option<Host> {
        if !self.has_wildcards[z as usize]
            || !is_at_or_below(folded, &self.zones[z as usize].apex)
            || self.find(z, folded).is_some()
        {
            return None;
        }
        let mut at = 0;
        loop {
            at += *folded.get(at)? as usize + 1;
            if let Some(d) = self.find(z, &folded[at..]) {
                let draft = &self.drafts[d as usize];
                let blocks = draft.flags & (node::HIDDEN | node::CUT | node::DNAME) != 0;
                return if blocks || draft.wildcard == NONE { None } else { self.host(z, self.name(draft.wildcard)) };
            }
        }
    }

    /// Asks for the hosts that the referrals among these drafts name, ahead of time.
    pub(crate) fn fetch_hosts(&self, z: u32, drafts: Range<u32>, hashes: &mut Vec<u64>) {
        hashes.clear();
        let cuts = drafts.filter(|&d| self.drafts[d as usize].flags & node::CUT != 0);
        for rr in cuts.flat_map(|d| self.records_of(d)).filter(|rr| rr.rtype == rtype::NS) {
            if wire_len(rr.rdata) == Some(rr.rdata.len()) && is_at_or_below(rr.rdata, &self.zones[z as usize].apex) {
                let mut folded = [0; 255];
                let folded = fold_into(rr.rdata, &mut folded);
                hashes.push(self.host_hash(z, folded));
            }
        }
        hashes.iter().for_each(|&hash| self.hosts.prefetch(hash));
        for host in hashes.iter().filter_map(|&hash| self.hosts.find(hash, |_| true)) {
            self.collected.prefetch_at(host.spot);
        }
    }
}

/// A name in lower case.
pub(crate) fn fold_into<'b>(name: &[u8], out: &'b mut [u8; 255]) -> &'b [u8] {
    let out = &mut out[..name.len()];
    out.copy_from_slice(name);
    out.make_ascii_lowercase();
    out
}

/// The names above a name, nearest first.
pub(crate) fn ends(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let label = *rest.first()? as usize;
        rest = rest.get(label + 1..)?;
        (!rest.is_empty()).then_some(rest)
    })
}

/// A name that stands above the one at hand.
struct Ancestor<'a> {
    name: &'a [u8],
    draft: usize,
    /// What lies below is hidden by a cut or a DNAME, here or above.
    occludes: bool,
    /// Octets of the name of another zone's apex, here or above, if there is one; the topmost. It hides what lies below, too.
    others: Option<usize>,
    /// All names between it and the apex are there. Owners of NSEC3 need none.
    is_led_to: bool,
}

struct Placing<'a> {
    collected: &'a Collected,
    /// The apexes of all zones, if any lies below this zone.
    others: Option<&'a HashMap<Box<[u8]>, u32>>,
    /// Where the zone's drafts begin.
    from: usize,
    placed: Vec<Draft>,
    /// From the apex down.
    above: Vec<Ancestor<'a>>,
}

impl<'a> Placing<'a> {
    /// Adds the name that comes next in canonical order.
    fn place(&mut self, mut draft: Draft) {
        let name = self.collected.name(draft.run);
        while self.above.last().is_some_and(|a| !is_below(name, a.name)) {
            self.above.pop();
        }
        let Some(nearest) = self.above.last() else { return self.add(name, draft, None) };
        let missing = ends(name).take_while(|end| end.len() > nearest.name.len());
        let others = nearest.others.or_else(|| missing.filter(|end| self.is_other_apex(end)).last().map(<[u8]>::len));
        if nearest.occludes {
            draft.flags |= node::HIDDEN;
        } else if draft.flags & node::HIDDEN == 0 {
            self.lead_to(name, others, draft.run);
            match others {
                Some(_) => draft.flags |= node::HIDDEN | node::NESTED,
                None => self.link_wildcard(name, self.above.len(), self.placed.len()),
            }
        }
        self.add(name, draft, others);
    }

    /// Adds the names between this one and the nearest above it that is led to.
    fn lead_to(&mut self, name: &'a [u8], others: Option<usize>, run: u32) {
        let Some(led_to) = self.above.iter().rposition(|a| a.is_led_to) else { return };
        let top = self.above[led_to].name.len();
        let is_there = |end: &[u8]| self.above[led_to..].iter().any(|a| a.name.len() == end.len());
        let missing: Vec<&[u8]> = ends(name).take_while(|end| end.len() > top).filter(|end| !is_there(end)).collect();
        for end in missing.into_iter().rev() {
            self.add_empty(name, end, others, run);
        }
        self.above[led_to..].iter_mut().for_each(|a| a.is_led_to = true);
    }

    fn is_other_apex(&self, name: &[u8]) -> bool {
        self.others.is_some_and(|others| others.contains_key(name))
    }

    fn add(&mut self, name: &'a [u8], mut draft: Draft, others: Option<usize>) {
        let is_others = draft.flags & node::APEX == 0 && self.is_other_apex(name);
        if draft.flags & node::HIDDEN == 0 && !is_others {
            draft.flags |= ASKED;
        }
        let occludes = draft.flags & (node::CUT | node::DNAME) != 0 || self.above.last().is_some_and(|a| a.occludes);
        let others = others.or(is_others.then_some(name.len()));
        let is_led_to = node::is_name(draft.flags);
        self.above.push(Ancestor { name, draft: self.placed.len(), occludes, others, is_led_to });
        self.placed.push(draft);
    }

    /// Adds an empty non-terminal: a name without records above one with them. `others`: see `Ancestor`, of the name with records.
    fn add_empty(&mut self, name: &[u8], end: &'a [u8], others: Option<usize>, run: u32) {
        let others = others.filter(|&apex| end.len() >= apex);
        let flags = match others {
            None => ASKED,
            Some(apex) if end.len() == apex => 0,
            Some(_) => node::HIDDEN | node::NESTED,
        };
        let draft = Draft { run, wildcard: NONE, flags, skip: (name.len() - end.len()) as u8 };
        let mut at = self.placed.len();
        // Owners of NSEC3 need no names above them; one right below this name may have come before.
        while at > self.from && is_below(self.name(at - 1), end) {
            at -= 1;
        }
        let depth = self.above.iter().take_while(|a| a.name.len() < end.len()).count();
        self.above[depth..].iter_mut().for_each(|a| a.draft += 1);
        if flags & node::HIDDEN == 0 {
            self.link_wildcard(end, depth, at);
        }
        self.above.insert(depth, Ancestor { name: end, draft: at, occludes: false, others, is_led_to: true });
        self.placed.insert(at, draft);
    }

    fn name(&self, at: usize) -> &'a [u8] {
        let draft = &self.placed[at];
        &self.collected.name(draft.run)[draft.skip as usize..]
    }

    /// If the name is a wildcard, lets the name above it, the last of the first `depth`, know where it will stand.
    fn link_wildcard(&mut self, name: &[u8], depth: usize, at: usize) {
        if name.starts_with(b"\x01*")
            && let Some(parent) = self.above[..depth].last()
        {
            self.placed[parent.draft].wildcard = at as u32;
        }
    }
}

/// True if a folded name lies below another one.
fn is_below(name: &[u8], above: &[u8]) -> bool {
    name.len() > above.len() && name.ends_with(above) && ends(name).any(|end| end.len() == above.len())
}
