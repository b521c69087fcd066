//! An image of changes, moved to its place behind the image that they change: references, zone numbers, and the ways between zones.

use super::{Laid, PLACE, Unable, Wanted};
use crate::builder::Complaint;
use crate::chain::Tables;
use crate::drafts::ends;
use crate::edit::{Gathered, Hidden};
use crate::format::{ALIGN, Damaged, u32_at};
use crate::node::{ABOVE, APEX, DEEPER, EDITED, ELSEWHERE, GONE, HEAD, HIDDEN, NO_ZONE, Node, OTHERS};
use crate::overlay::{self, Record};
use crate::row::Named;
use crate::view::View;
use crate::zone::{HASHED, MORE, NSEC3, OCCLUDED, OVER, PARENT, SIGNED, Zone};
use std::collections::{BTreeMap, HashMap};
use wire::hash::name_hash;
use wire::name::{NAME_MAX, is_at_or_below, labels};

/// An image of changes on its way to its place.
pub(super) struct Laying<'a> {
    view: View<'a>,
    /// As it was built.
    built: View<'a>,
    /// What is added to a place in `built` to make it one behind the image.
    shift: u64,
    /// The first octet of `built` that goes along.
    from: usize,
    /// Numbers of zones: in `built`, and from now on.
    numbers: HashMap<u32, u32>,
    /// By apex: in `built`.
    built_zones: HashMap<&'a [u8], Zone<'a>>,
    pub(super) laid: Laid,
}

/// What goes along of an image of changes: no index, and no lists.
pub(super) fn octets(built: View<'_>) -> Result<Vec<u8>, Damaged> {
    let from = from(built);
    Ok(built.octets(from, (built.frame.header.hosts_at as usize).saturating_sub(from))?.to_vec())
}

fn from(built: View<'_>) -> usize {
    built.frame.header.zones_at as usize
}

impl<'a> Laying<'a> {
    pub(super) fn new(view: View<'a>, built: View<'a>, octets: Vec<u8>, place: u64) -> Laying<'a> {
        let from = from(built);
        let laid = Laid {
            octets,
            place,
            nodes: vec![],
            zones: HashMap::new(),
            naming: vec![],
            fronts: vec![],
            hidden: vec![],
            anew: vec![],
            root: None,
            deepest: built.frame.header.deepest,
            slots: view.frame.header.zones,
            records: 0,
            complaints: vec![],
            followers: vec![],
        };
        let shift = place.wrapping_sub(from as u64);
        Laying { view, built, shift, from, numbers: HashMap::new(), built_zones: HashMap::new(), laid }
    }

    fn moved(&self, reference: u32) -> u32 {
        if reference == 0 { 0 } else { reference.wrapping_add((self.shift / ALIGN as u64) as u32) }
    }

    /// A record that stands at `at` in `built`.
    fn record_at(&self, at: usize) -> Record {
        Record::At((at as u64).wrapping_add(self.shift))
    }

    /// Writes a word that stands at `at` in `built`.
    fn put(&mut self, at: usize, value: u32) {
        let word = at.checked_sub(self.from).and_then(|at| self.laid.octets.get_mut(at..)?.first_chunk_mut());
        if let Some(word) = word {
            *word = value.to_le_bytes();
        }
    }

    /// Adds octets; returns where they would stand in `built`.
    fn append(&mut self, octets: &[u8]) -> usize {
        let at = self.laid.octets.len().next_multiple_of(ALIGN);
        self.laid.octets.resize(at, 0);
        self.laid.octets.extend_from_slice(octets);
        at + self.from
    }

    /// Gives each zone its number: the one it had, or the next.
    pub(super) fn number(&mut self, whole: &[Wanted<'_>], edited: &[Wanted<'_>]) -> Result<(), Unable> {
        let known: HashMap<&[u8], &Wanted<'_>> = whole.iter().chain(edited).map(|z| (z.apex, z)).collect();
        for zone in self.built.zones() {
            let zone = zone?;
            let apex = zone.apex()?.apex_name()?;
            self.built_zones.insert(apex, zone);
            let old = match known.get(apex) {
                Some(known) => known.old.map(|o| o.number()),
                None => self.view.find_whole(apex)?.map(|n| n.zone_number()).transpose()?,
            };
            let number = old.unwrap_or(self.laid.slots);
            self.laid.slots = self.laid.slots.max(number + 1);
            self.numbers.insert(zone.number(), number);
            if whole.iter().any(|z| z.apex == apex) {
                self.laid.anew.push(number);
            }
        }
        Ok(())
    }

    fn number_of(&self, built: &Zone<'_>) -> Result<u32, Unable> {
        self.numbers.get(&built.number()).copied().ok_or(Unable::Damaged)
    }

    /// The zone right above a name, if that is laid out whole: what is built of others is not all of them.
    pub(super) fn anew_above(&self, name: &[u8]) -> Result<Option<u32>, Unable> {
        let nearest = ends(name).find_map(|end| self.built_zones.get(end));
        let number = nearest.map(|zone| self.number_of(zone)).transpose()?;
        Ok(number.filter(|number| self.laid.anew.contains(number)))
    }

    /// Makes all references of the built image such as they must be at the place where it goes.
    pub(super) fn move_there(&mut self) -> Result<(), Unable> {
        for zone in self.built.zones() {
            let zone = zone?;
            for at in zone.references()? {
                self.move_reference(at)?;
            }
            for node in zone.nodes() {
                self.move_node(node?)?;
            }
        }
        Ok(())
    }

    fn move_reference(&mut self, at: usize) -> Result<(), Unable> {
        let moved = self.moved(self.built.u32_at(at)?);
        self.put(at, moved);
        Ok(())
    }

    fn move_node(&mut self, node: Node<'a>) -> Result<(), Unable> {
        if node.is(HEAD) {
            self.move_reference(node.reference() as usize * ALIGN + 4)?;
        }
        let words = node.words_at();
        if node.is(APEX) {
            let number = self.number_of(&node.zone()?)?;
            self.put(words, number);
            self.move_reference(words + 4)?;
        }
        let (places, references_at) = node.places()?;
        let elsewhere = places.filter(|&place| place >= ELSEWHERE).count();
        (0..elsewhere).try_for_each(|i| self.move_reference(references_at + 4 * i))
    }

    /// A zone anew: all its names, and its record under its parent.
    pub(super) fn whole(&mut self, wanted: &Wanted<'a>) -> Result<(), Unable> {
        let Some(&built) = self.built_zones.get(wanted.apex) else { return Ok(()) };
        let (number, is_editable) = (self.number_of(&built)?, built.is_editable()?);
        let mut room = [0; NAME_MAX];
        for node in built.nodes() {
            let node = node?;
            let name = built.name_of(&node, &mut room)?;
            // Names that may be edited later are entered even if they cannot be asked for.
            if is_editable || !node.is(HIDDEN) && !self.is_others(name, wanted.apex) {
                self.enter(node, name, number, wanted.apex);
            }
        }
        self.laid.records += built.records()? as i64;
        if let Some(old) = wanted.old {
            self.laid.records -= old.records()? as i64;
        }
        let record = self.record_at(built.place());
        self.laid.zones.insert(number, record);
        self.link_to_parent(wanted, built)
    }

    /// True if another zone of ours has the say about the name.
    fn is_others(&self, name: &[u8], apex: &[u8]) -> bool {
        self.built_zones.len() > 1 && name.len() > apex.len() && self.built_zones.contains_key(name)
    }

    /// Enters a node of the zone of this number and apex.
    fn enter(&mut self, node: Node<'a>, name: &[u8], zone: u32, apex: &[u8]) {
        let moved = self.moved(node.reference());
        if self.is_others(name, apex) {
            self.mark(&node, OTHERS);
        }
        match name.len() {
            1 => self.laid.root = Some(moved),
            _ => self.note(name, moved, zone),
        }
    }

    fn note(&mut self, name: &[u8], reference: u32, zone: u32) {
        let hash = name_hash(self.view.seed(), name);
        self.laid.nodes.push((zone, Named { hash, reference }));
    }

    /// The zone above is as it was, unless it is laid out as well.
    fn link_to_parent(&mut self, wanted: &Wanted<'a>, built: Zone<'a>) -> Result<(), Unable> {
        let more = match built.more_octets()? {
            Some(_) => Some(self.built.u32_at(built.place() + 8)? as usize * ALIGN),
            None => None,
        };
        if let (Some(parent), Some(more)) = (self.anew_above(wanted.apex)?, more) {
            let (node, _) = built.parent_link()?;
            return Ok(self.put_parent(more, self.moved(node), parent)?);
        }
        let link = wanted.old.map(|old| old.parent_link()).transpose()?;
        let Some((node, parent)) = link.filter(|link| link.0 != 0) else { return Ok(()) };
        let more = more.unwrap_or_else(|| {
            let at = self.append(&[0; MORE]);
            self.put(built.place() + 8, self.moved((at / ALIGN) as u32));
            at
        });
        Ok(self.put_parent(more, node, parent)?)
    }

    /// Writes into what a zone has more who the zone above is, and what of that answers for the apex.
    fn put_parent(&mut self, more: usize, node: u32, parent: u32) -> Result<(), Damaged> {
        let marks = self.word(more)? & !OCCLUDED;
        [(0, marks), (PARENT, node), (PARENT + 4, parent)].iter().for_each(|&(at, word)| self.put(more + at, word));
        Ok(())
    }

    /// A zone of which some names change: these, and its record with another apex, which leads to the other names.
    pub(super) fn edited(&mut self, wanted: &Wanted<'a>, edit: &Gathered) -> Result<(), Unable> {
        let Some(&built) = self.built_zones.get(wanted.apex) else { return Ok(()) };
        let old = wanted.old.ok_or(Unable::NoSuchZone)?;
        let (mut room, mut laid) = ([0; NAME_MAX], BTreeMap::new());
        for node in built.nodes() {
            let node = node?;
            let name = built.name_of(&node, &mut room)?;
            if edit.kept.contains(name) {
                self.enter(node, name, old.number(), wanted.apex);
                laid.insert(Box::from(name), node);
            }
        }
        let (hidden, mut buried) = (Hidden::default(), Vec::new());
        for name in &edit.kept {
            let (was, is) = (old.node_by(name, &hidden)?, laid.get(name));
            self.lead_on(name, was, is)?;
            if is.is_none() && was.is_some() {
                buried.push(name);
            }
        }
        // As names come that stay: what is next to each other costs less to enter.
        buried.sort_by_cached_key(|name| from_root(name));
        buried.iter().for_each(|name| self.bury(name, wanted.apex.len(), old.number()));
        let apex = built.apex()?;
        self.put(apex.words_at() + 12, old.first()?.reference());
        self.mark(&apex, EDITED);
        let mut record = old.record()?;
        let records = old.records()?.saturating_add_signed(edit.records) as u32;
        record[..4].copy_from_slice(&self.moved(apex.reference()).to_le_bytes());
        record[4..8].copy_from_slice(&records.to_le_bytes());
        if old.is(SIGNED | HASHED)? {
            let tables = Tables::of(&old, edit, &laid, |reference| self.moved(reference))?.ok_or(Unable::Whole)?;
            record[8..].copy_from_slice(&self.tables(&old, &tables)?.to_le_bytes());
        }
        let at = self.append(&record);
        let record = self.record_at(at);
        self.laid.zones.insert(old.number(), record);
        self.laid.records += edit.records;
        self.laid.fronts.extend(&edit.fronts);
        self.laid.hidden.extend_from_slice(&edit.hidden);
        Ok(())
    }

    /// A name that leads to another zone of ours does so still, whether it is the zone's or nobody's from now on.
    fn lead_on(&mut self, name: &[u8], was: Option<Node<'a>>, is: Option<&Node<'a>>) -> Result<(), Damaged> {
        let is_nobodys = self.view.find_whole(name)?.is_some_and(|node| node.is(ABOVE));
        if !is_nobodys && !was.is_some_and(|was| was.is(DEEPER)) {
            return Ok(());
        }
        match is.filter(|is| !is.is(HIDDEN)) {
            Some(is) => self.mark(is, DEEPER),
            None if !is_nobodys => self.note_bare(name, name, ABOVE | DEEPER, NO_ZONE),
            None => {}
        }
        Ok(())
    }

    /// Adds to what a node in `built` is marked with.
    fn mark(&mut self, node: &Node<'a>, flags: u16) {
        let at = node.reference() as usize * ALIGN + 2 - self.from;
        if let Some(octets) = self.laid.octets.get_mut(at..).and_then(|octets| octets.first_chunk_mut()) {
            *octets = (u16::from_le_bytes(*octets) | flags).to_le_bytes();
        }
    }

    /// The tables of a zone's changed names, over those that it had: the reference of its new more.
    fn tables(&mut self, old: &Zone<'a>, tables: &Tables) -> Result<u32, Unable> {
        let pairs = |all: &[(u32, u32)]| -> Vec<u8> {
            all.iter().flat_map(|&(a, b)| a.to_le_bytes().into_iter().chain(b.to_le_bytes())).collect()
        };
        let keys = tables.nsec.iter().flat_map(|(key, _)| key.to_le_bytes());
        let nsec: Vec<u8> = keys.chain(tables.nsec.iter().flat_map(|(_, owner)| owner.to_le_bytes())).collect();
        let nsec3: Vec<u8> =
            tables.nsec3.iter().flat_map(|(hash, owner)| hash.iter().copied().chain(owner.to_le_bytes())).collect();
        let [nsec, nsec3, nsec_out, nsec3_out] =
            [nsec, nsec3, pairs(&tables.nsec_left_out), pairs(&tables.nsec3_left_out)].map(|octets| {
                let at = self.append(&octets);
                self.moved((at / ALIGN) as u32)
            });
        let mut more = old.more_octets()?.ok_or(Unable::Damaged)?.to_vec();
        more.truncate(MORE + usize::from(*more.get(30).ok_or(Unable::Damaged)?));
        more.resize(more.len().next_multiple_of(ALIGN), 0);
        let flags = u32_at(&more, 0)? & !NSEC3 | OVER | tables.marks;
        let counts = [tables.nsec.len(), tables.nsec3.len(), tables.nsec_left_out.len(), tables.nsec3_left_out.len()];
        let [nsec_n, nsec3_n, nsec_out_n, nsec3_out_n] = counts.map(|n| n as u32);
        for (at, word) in [(0, flags), (12, nsec), (16, nsec_n), (20, nsec3), (24, nsec3_n)] {
            more[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        for word in [tables.under, nsec_out, nsec_out_n, nsec3_out, nsec3_out_n] {
            more.extend(word.to_le_bytes());
        }
        let at = self.append(&more);
        Ok(self.moved((at / ALIGN) as u32))
    }

    /// Leaves a note that a name of a zone is no more.
    fn bury(&mut self, name: &[u8], apex_len: usize, zone: u32) {
        self.note_bare(name, &name[..name.len() - apex_len], GONE, zone);
    }

    /// Enters a node without records, which has these octets of its name.
    fn note_bare(&mut self, name: &[u8], octets: &[u8], flags: u16, zone: u32) {
        let at = self.append(&overlay::bare(octets, flags));
        let moved = self.moved((at / ALIGN) as u32);
        self.note(name, moved, zone);
    }

    /// A zone of ours right below one that is laid out is led from now on to what that has at its apex. It may be laid out, too.
    pub(super) fn adopt(&mut self, zone: &Zone<'a>, parent: u32) -> Result<(), Unable> {
        let apex = zone.apex()?.apex_name()?;
        let (node, _) = self.built_zones.get(apex).ok_or(Unable::Damaged)?.parent_link()?;
        let record = match self.laid.zones.get(&zone.number()) {
            Some(Record::At(at)) => at.wrapping_sub(self.shift) as usize,
            Some(Record::Gone) => return Ok(()),
            None => {
                let at = self.append(&zone.record()?);
                let record = self.record_at(at);
                self.laid.zones.insert(zone.number(), record);
                at
            }
        };
        let more = u64::from(self.word(record + 8)?) * ALIGN as u64;
        let more = if more >= self.laid.place {
            more.wrapping_sub(self.shift) as usize
        } else {
            let at = self.append(zone.more_octets()?.unwrap_or(&[0; MORE]));
            self.put(record + 8, self.moved((at / ALIGN) as u32));
            at
        };
        Ok(self.put_parent(more, self.moved(node), parent)?)
    }

    /// The word that is to stand at `at` in `built`.
    fn word(&self, at: usize) -> Result<u32, Damaged> {
        u32_at(&self.laid.octets, at.checked_sub(self.from).ok_or(Damaged)?)
    }

    /// Names that lead to an apex and that no zone has. Those within a zone go when it is laid out once more.
    pub(super) fn names_of_nobody(&mut self, zones: &[Wanted<'_>]) -> Result<(), Unable> {
        let leads_to_new = |name: &[u8]| zones.iter().any(|z| z.old.is_none() && is_at_or_below(z.apex, name));
        for node in self.built.indexed() {
            let node = node?;
            if !node.is(ABOVE) {
                continue;
            }
            let Some(name) = node.whole_name()?.filter(|name| name.len() > 1) else { continue };
            if let Some(zone) = self.anew_above(name)? {
                self.enter(node, name, zone, name);
            } else if leads_to_new(name) {
                self.enter(node, name, NO_ZONE, name);
            }
        }
        Ok(())
    }

    pub(super) fn lose(&mut self, wanted: &Wanted<'a>) -> Result<(), Unable> {
        let Some(old) = wanted.old else { return Ok(()) };
        let number = old.number();
        self.laid.anew.push(number);
        self.laid.records -= old.records()? as i64;
        self.laid.zones.insert(number, Record::Gone);
        if wanted.apex.len() == 1 {
            self.laid.root = Some(0);
            return Ok(());
        }
        self.note_bare(wanted.apex, wanted.apex, GONE | ABOVE, number);
        Ok(())
    }

    /// Notes which of the names that are entered name hosts.
    pub(super) fn list_who_names(&mut self) -> Result<(), Unable> {
        let naming = self.built.naming().map(|pair| pair.map(|(key, reference)| (self.moved(reference), key)));
        let mut naming = naming.collect::<Result<Vec<_>, Damaged>>()?;
        naming.sort_unstable();
        for &(zone, named) in &self.laid.nodes {
            let from = naming.partition_point(|pair| pair.0 < named.reference);
            let keys = naming[from..].iter().take_while(|pair| pair.0 == named.reference);
            self.laid.naming.extend(keys.map(|&(_, key)| (key, zone, named)));
        }
        // Those of a key together.
        self.laid.naming.sort_by_key(|&(key, zone, _)| (key, zone));
        Ok(())
    }

    pub(super) fn end(mut self, complaints: Vec<Complaint>) -> Laid {
        self.laid.octets.resize(self.laid.octets.len().next_multiple_of(PLACE as usize), 0);
        self.laid.complaints = complaints;
        self.laid
    }
}

/// By this names stand in canonical order, but for those with a zero in a label.
fn from_root(name: &[u8]) -> Vec<u8> {
    let labels: Vec<&[u8]> = labels(name).collect();
    labels.into_iter().rev().collect::<Vec<_>>().join(&0)
}
