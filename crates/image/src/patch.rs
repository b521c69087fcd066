//! Lays changes out so that they can stand behind an image: zones anew as a whole, zones that are no more, and names of
//! large zones. What is laid out is written where `place` says; then `overlay` makes the header that leads to it.
//!
//! Zones are laid out by the same builder as an image, as an image of their own, which then is moved: its references count
//! from the image's start. What another zone of ours below them needs to know comes with them as a zone of two records,
//! and is left out again.

use crate::builder::{Builder, Complaint, Hands, Judge};
use crate::chain::Tables;
use crate::drafts::ends;
use crate::edit::{Edit, Gathered, Hidden, Surroundings};
use crate::followers::Followers;
use crate::format::{ALIGN, Damaged, Header, u32_at};
use crate::node::{ABOVE, APEX, DEEPER, EDITED, ELSEWHERE, GONE, HEAD, HIDDEN, NO_ZONE, Node, OTHERS, Scope};
use crate::overlay::{self, Overlay, Record};
use crate::row::Named;
use crate::view::{Image, View};
use crate::zone::{HASHED, MORE, NSEC3, OCCLUDED, OVER, PARENT, SIGNED, Zone};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use wire::hash::name_hash;
use wire::name::{NAME_MAX, is_at_or_below};
use wire::rtype;

/// Zones of ours below changed ones, most: with more of them a new image is not dearer.
const BELOW_MAX: usize = 1000;

/// Changes stand at multiples of this.
pub const PLACE: u64 = 64;

/// What is to change.
pub struct Change<'c> {
    /// Zones anew, each as a whole: begun and filled.
    pub whole: Builder,
    /// Apexes of zones that are no more.
    pub gone: Vec<Box<[u8]>>,
    /// Names of zones that stay otherwise.
    pub edits: Vec<Edit<'c>>,
}

/// Why a change needs a new image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unable {
    /// A zone comes or goes, or cannot be laid out, that lies above or below another zone of ours: the way to that one, and
    /// who answers DS for it, may change with it.
    Nested,
    /// The zone is not edited name by name: it is signed in another way from now on, or it changes in other ways too.
    Whole,
    /// More names change than is worth it.
    Large,
    NoSuchZone,
    Damaged,
}

impl From<Damaged> for Unable {
    fn from(_: Damaged) -> Unable {
        Unable::Damaged
    }
}

/// Changes laid out.
pub struct Laid {
    /// To be written at `place` before `overlay` is called.
    pub octets: Vec<u8>,
    pub place: u64,
    /// Names to enter, and of which zone each is.
    nodes: Vec<(u32, Named)>,
    zones: Vec<(u32, Record)>,
    /// Who of them names whom: the host's key, the zone, the name.
    naming: Vec<(u32, u32, Named)>,
    /// Zones of which nothing stays that an overlay holds.
    anew: Vec<u32>,
    root: Option<u32>,
    deepest: u32,
    /// Zone numbers in use afterwards.
    slots: u32,
    records: i64,
    /// Zones that are not laid out, and why: they stay as they are.
    pub complaints: Vec<Complaint>,
    /// Names that are left to be laid afterwards.
    pub followers: Vec<Followers>,
}

impl Laid {
    /// The header that leads to the changes. `view`: of the image as it was, over octets that hold the changes as well.
    pub fn overlay(&self, view: View<'_>) -> Result<Header, Damaged> {
        let old = &view.frame.header;
        let mut overlay = view.overlay().cloned().unwrap_or_else(|| Overlay::empty(old.length));
        overlay.set_end(self.place + self.octets.len() as u64);
        overlay.forget(&self.anew);
        for of_zone in self.nodes.chunk_by(|a, b| a.0 == b.0) {
            let nodes: Vec<Named> = of_zone.iter().map(|(_, named)| *named).collect();
            overlay.enter(view, of_zone[0].0, &nodes)?;
        }
        self.zones.iter().for_each(|&(number, record)| overlay.set_zone(number, record));
        for some in self.naming.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            overlay.list(view, some[0].0, some[0].1, some.iter().map(|(.., named)| *named))?;
        }
        Ok(Header {
            root: self.root.unwrap_or(old.root),
            zones: self.slots,
            deepest: old.deepest.max(self.deepest),
            records: old.records.saturating_add_signed(self.records),
            overlay: Some(Arc::new(overlay)),
            ..old.clone()
        })
    }
}

/// Lays a change out to stand at `place`, a multiple of `PLACE` behind all that `view` sees. `judge` sees stand-ins for zones
/// below those that change, too.
pub fn lay(
    view: View<'_>,
    change: Change<'_>,
    place: u64,
    hands: &dyn Hands,
    judge: Judge<'_>,
) -> Result<Laid, Unable> {
    let Change { whole: mut builder, gone, edits } = change;
    let anew: Vec<Box<[u8]>> = builder.apexes().map(Into::into).collect();
    let whole = anew.iter().map(|apex| Wanted::find(view, apex)).collect::<Result<Vec<_>, Unable>>()?;
    let lost = gone.iter().map(|apex| Wanted::find(view, apex)).collect::<Result<Vec<_>, Unable>>()?;
    let edited = edits.iter().map(|edit| Wanted::find(view, edit.apex)).collect::<Result<Vec<_>, Unable>>()?;
    judge_shape(&whole, &lost, &edited)?;
    let mut below = zones_below(view, &whole)?;
    let mut gathered = Vec::new();
    for (wanted, edit) in edited.iter().zip(&edits) {
        let old = wanted.old.ok_or(Unable::NoSuchZone)?;
        gathered.push(Surroundings::new(old, edit)?.gather(&mut builder)?);
    }
    let beside: BTreeSet<&[u8]> = gathered.iter().flat_map(|edit| &edit.below).map(|apex| &**apex).collect();
    for apex in beside {
        let zone = view.find_whole(apex)?.ok_or(Damaged)?.zone()?;
        let is_known = builder.apexes().any(|known| known == apex) || below.iter().any(|z| z.number() == zone.number());
        if !is_known {
            below.push(zone);
        }
    }
    below.iter().try_for_each(|zone| stand_in(&mut builder, zone))?;
    let (bytes, _, complaints) = builder.finish_judged(hands, judge);
    let is_wrong = |z: &&Wanted<'_>| complaints.iter().any(|c| c.zone.bytes().eq_ignore_ascii_case(z.apex));
    if whole.iter().filter(is_wrong).any(|z| z.is_nested) {
        return Err(Unable::Nested);
    }
    let image = Image::open(bytes).map_err(|_| Unable::Damaged)?;
    let mut laying = Laying::new(view, image.view(), place)?;
    laying.number(&whole, &edited)?;
    laying.move_there()?;
    whole.iter().try_for_each(|wanted| laying.whole(wanted))?;
    edited.iter().zip(&gathered).try_for_each(|(wanted, edit)| laying.edited(wanted, edit))?;
    for zone in &below {
        let parent = laying.anew_above(zone.apex()?.apex_name()?)?;
        parent.map_or(Ok(()), |parent| laying.adopt(zone, parent))?;
    }
    for (wanted, edit) in edited.iter().zip(&gathered) {
        let parent = wanted.old.ok_or(Unable::NoSuchZone)?.number();
        for apex in edit.below.iter().filter(|apex| edit.kept.contains(*apex)) {
            laying.adopt(&view.find_whole(apex)?.ok_or(Damaged)?.zone()?, parent)?;
        }
    }
    laying.names_of_nobody(&whole)?;
    lost.iter().try_for_each(|wanted| laying.lose(wanted))?;
    laying.list_who_names()?;
    laying.laid.followers = gathered.into_iter().filter_map(|gathered| gathered.followers).collect();
    Ok(laying.end(complaints))
}

/// Which changes can be laid over an image, as far as the zones tell that they are about: the only place where this is
/// decided. What else stands in the way shows itself when an edit is gathered, or something is too large.
fn judge_shape(whole: &[Wanted<'_>], lost: &[Wanted<'_>], edited: &[Wanted<'_>]) -> Result<(), Unable> {
    // A zone that stays keeps its place between those above and below; the way to those changes with one that comes or goes.
    let is_moving = |z: &Wanted<'_>| z.old.is_none() && z.is_nested;
    if whole.iter().any(is_moving) || lost.iter().any(|z| z.is_nested) {
        return Err(Unable::Nested);
    }
    if lost.iter().chain(edited).any(|z| z.old.is_none()) {
        return Err(Unable::NoSuchZone);
    }
    // One change is laid out at once: what an edit starts from is the zone as it was, under the parent that it had.
    let mut all: Vec<&[u8]> = whole.iter().chain(lost).chain(edited).map(|z| z.apex).collect();
    all.sort_unstable();
    let is_twice = all.windows(2).any(|pair| pair[0] == pair[1]);
    let is_below_whole = |z: &Wanted<'_>| ends(z.apex).any(|end| whole.iter().any(|w| w.apex == end));
    if is_twice || edited.iter().any(is_below_whole) {
        return Err(Unable::Whole);
    }
    Ok(())
}

/// A zone that a change is about.
struct Wanted<'a> {
    apex: &'a [u8],
    old: Option<Zone<'a>>,
    /// Another zone of ours lies above or below.
    is_nested: bool,
}

impl<'a> Wanted<'a> {
    fn find(view: View<'a>, apex: &'a [u8]) -> Result<Wanted<'a>, Unable> {
        let here = view.find_whole(apex)?;
        let old = match here {
            Some(node) if node.is(APEX) => Some(node.zone()?),
            _ => None,
        };
        // No name leads to the root, so nothing of ours has noted there what lies below.
        let is_root_of_others = apex.len() == 1 && old.is_none() && view.zones().next().is_some();
        let mut is_nested = is_root_of_others || here.is_some_and(|n| n.is(DEEPER));
        for above in ends(apex) {
            is_nested |= view.find_whole(above)?.is_some_and(|n| n.is(APEX));
        }
        Ok(Wanted { apex, old, is_nested })
    }
}

/// Zones of ours below those that are laid out whole, and not among them.
fn zones_below<'a>(view: View<'a>, zones: &[Wanted<'_>]) -> Result<Vec<Zone<'a>>, Unable> {
    let leads_on = |z: &&Wanted<'_>| z.old.is_some_and(|old| old.apex().is_ok_and(|n| n.is(DEEPER)));
    let above: Vec<&[u8]> = zones.iter().filter(leads_on).map(|z| z.apex).collect();
    let mut below = Vec::new();
    if above.is_empty() {
        return Ok(below);
    }
    for zone in view.zones() {
        let zone = zone?;
        let apex = zone.apex()?.apex_name()?;
        let is_below = above.iter().any(|a| apex.len() > a.len() && is_at_or_below(apex, a));
        if is_below && !zones.iter().any(|z| z.apex == apex) {
            below.push(zone);
        }
        if below.len() > BELOW_MAX {
            return Err(Unable::Large);
        }
    }
    Ok(below)
}

/// Tells the builder that there is this zone, and no more of it than a zone must have.
fn stand_in(builder: &mut Builder, zone: &Zone<'_>) -> Result<(), Unable> {
    let apex = zone.apex()?.apex_name()?;
    builder.begin_zone(apex);
    let soa = [0; 22];
    let told = builder.record(apex, rtype::SOA, 0, &soa).and_then(|()| builder.record(apex, rtype::NS, 0, &[0]));
    told.map_err(|_| Unable::Damaged)
}

/// An image of changes on its way to its place.
struct Laying<'a> {
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
    laid: Laid,
}

impl<'a> Laying<'a> {
    fn new(view: View<'a>, built: View<'a>, place: u64) -> Result<Laying<'a>, Damaged> {
        let from = built.frame.header.zones_at as usize;
        let laid = Laid {
            octets: built.octets(from, (built.frame.header.hosts_at as usize).saturating_sub(from))?.to_vec(),
            place,
            nodes: vec![],
            zones: vec![],
            naming: vec![],
            anew: vec![],
            root: None,
            deepest: built.frame.header.deepest,
            slots: view.frame.header.zones,
            records: 0,
            complaints: vec![],
            followers: vec![],
        };
        let shift = place.wrapping_sub(from as u64);
        Ok(Laying { view, built, shift, from, numbers: HashMap::new(), built_zones: HashMap::new(), laid })
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
    fn number(&mut self, whole: &[Wanted<'_>], edited: &[Wanted<'_>]) -> Result<(), Unable> {
        for zone in self.built.zones() {
            let zone = zone?;
            let apex = zone.apex()?.apex_name()?;
            self.built_zones.insert(apex, zone);
            let old = match whole.iter().chain(edited).find(|z| z.apex == apex) {
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
    fn anew_above(&self, name: &[u8]) -> Result<Option<u32>, Unable> {
        let nearest = ends(name).find_map(|end| self.built_zones.get(end));
        let number = nearest.map(|zone| self.number_of(zone)).transpose()?;
        Ok(number.filter(|number| self.laid.anew.contains(number)))
    }

    /// Makes all references of the built image such as they must be at the place where it goes.
    fn move_there(&mut self) -> Result<(), Unable> {
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
    fn whole(&mut self, wanted: &Wanted<'a>) -> Result<(), Unable> {
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
        self.laid.zones.push((number, record));
        self.link_to_parent(wanted, built)
    }

    /// True if another zone of ours has the say about the name.
    fn is_others(&self, name: &[u8], apex: &[u8]) -> bool {
        name.len() > apex.len() && self.built_zones.contains_key(name)
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
    fn edited(&mut self, wanted: &Wanted<'a>, edit: &Gathered) -> Result<(), Unable> {
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
        let hidden = Hidden::default();
        for name in &edit.kept {
            let (was, is) = (old.node_by(name, &hidden)?, laid.get(name));
            self.lead_on(name, was, is)?;
            if is.is_none() && was.is_some() {
                self.bury(name, wanted.apex.len(), old.number());
            }
        }
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
        self.laid.zones.push((old.number(), record));
        self.laid.records += edit.records;
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
            all.iter().flat_map(|&(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()).collect()
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
    fn adopt(&mut self, zone: &Zone<'a>, parent: u32) -> Result<(), Unable> {
        let apex = zone.apex()?.apex_name()?;
        let (node, _) = self.built_zones.get(apex).ok_or(Unable::Damaged)?.parent_link()?;
        let laid = self.laid.zones.iter().find(|(number, _)| *number == zone.number());
        let record = match laid {
            Some(&(_, Record::At(at))) => at.wrapping_sub(self.shift) as usize,
            Some((_, Record::Gone)) => return Ok(()),
            None => {
                let at = self.append(&zone.record()?);
                let record = self.record_at(at);
                self.laid.zones.push((zone.number(), record));
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
    fn names_of_nobody(&mut self, zones: &[Wanted<'_>]) -> Result<(), Unable> {
        let leads_to_new = |name: &[u8]| zones.iter().any(|z| z.old.is_none() && is_at_or_below(z.apex, name));
        for node in self.built.indexed() {
            let node = node?;
            let Some(name) = node.whole_name()?.filter(|name| node.is(ABOVE) && name.len() > 1) else { continue };
            if let Some(zone) = self.anew_above(name)? {
                self.enter(node, name, zone, name);
            } else if leads_to_new(name) {
                self.enter(node, name, NO_ZONE, name);
            }
        }
        Ok(())
    }

    fn lose(&mut self, wanted: &Wanted<'a>) -> Result<(), Unable> {
        let Some(old) = wanted.old else { return Ok(()) };
        let number = old.number();
        self.laid.anew.push(number);
        self.laid.records -= old.records()? as i64;
        self.laid.zones.push((number, Record::Gone));
        if wanted.apex.len() == 1 {
            self.laid.root = Some(0);
            return Ok(());
        }
        self.note_bare(wanted.apex, wanted.apex, GONE | ABOVE, number);
        Ok(())
    }

    /// Notes which of the names that are entered name hosts.
    fn list_who_names(&mut self) -> Result<(), Unable> {
        let nodes: HashMap<u32, (u32, Named)> = self.laid.nodes.iter().map(|node| (node.1.reference, *node)).collect();
        for pair in self.built.naming() {
            let (key, reference) = pair?;
            if let Some(&(zone, named)) = nodes.get(&self.moved(reference)) {
                self.laid.naming.push((key, zone, named));
            }
        }
        Ok(())
    }

    fn end(mut self, complaints: Vec<Complaint>) -> Laid {
        self.laid.octets.resize(self.laid.octets.len().next_multiple_of(PLACE as usize), 0);
        self.laid.complaints = complaints;
        self.laid
    }
}

impl<'a> View<'a> {
    /// The node of a name that is an apex or lies above all zones.
    pub fn find_whole(&self, folded: &[u8]) -> Result<Option<Node<'a>>, Damaged> {
        if folded.len() <= 1 {
            return self.root();
        }
        self.find(name_hash(self.seed(), folded), folded, Scope::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InTurn;
    use crate::edit;

    const APEX: &[u8] = b"\x01z\0";
    const HOST: &[u8] = b"\x01h\x01z\0";

    /// Owner, type, rdata.
    type Rows<'r> = &'r [(&'r [u8], u16, &'r [u8])];

    /// How many names a change of one draws in, itself among them.
    fn drawn_in(zone: Rows<'_>, name: &[u8], after: &[(u16, &[u8])]) -> usize {
        let mut builder = Builder::new(7);
        builder.begin_zone(APEX);
        zone.iter().for_each(|(owner, rtype, rdata)| builder.record(owner, *rtype, 60, rdata).unwrap());
        let image = Image::open(builder.finish().0).unwrap();
        let records = after.iter().map(|&(rtype, rdata)| edit::Record { rtype, ttl: 60, rdata: rdata.into() });
        let names = BTreeMap::from([(name.into(), records.collect())]);
        let change = Change { whole: Builder::new(7), gone: vec![], edits: vec![Edit::new(APEX, names)] };
        lay(image.view(), change, 1 << 20, &InTurn, &mut |_| None).unwrap().nodes.len()
    }

    const ZONE: [(&[u8], u16, &[u8]); 5] = [
        (APEX, rtype::SOA, &[0; 22]),
        (APEX, rtype::NS, b"\x02ns\x05other\0"),
        (HOST, rtype::NS, b"\x02ns\x05other\0"),
        (HOST, rtype::A, &[192, 0, 2, 1]),
        (b"\x01m\x01z\0", rtype::MX, b"\0\x01\x01h\x01z\0"),
    ];

    #[test]
    fn an_alias_at_the_apex_hides_all_names() {
        let after = [(rtype::SOA, ZONE[0].2), (rtype::NS, ZONE[1].2)];
        assert_eq!(drawn_in(&ZONE, APEX, &after), 1);
        assert_eq!(drawn_in(&ZONE, APEX, &[&after[..], &[(rtype::DNAME, b"\x05other\0")]].concat()), 3);
    }

    #[test]
    fn a_host_whose_address_is_no_glue_any_more_draws_in_who_names_it() {
        let with = |rtype, rdata| drawn_in(&ZONE, HOST, &[(rtype, rdata), (rtype::A, ZONE[3].2)]);
        assert_eq!(with(rtype::NS, b"\x01a\0"), 2);
        assert_eq!(with(rtype::DNAME, b"\x05other\0"), 3);
        assert_eq!(with(rtype::TXT, b"\x01t"), 3);
    }

    /// The zone below is signed, so that both edits write into what it has more.
    #[test]
    fn a_delegation_and_the_zone_below_change_together() {
        let below = HOST;
        let owner = [b"\x01a", below].concat();
        let zones: [(&[u8], Rows<'_>); 2] = [
            (
                APEX,
                &[
                    (APEX, rtype::SOA, &[0; 22]),
                    (APEX, rtype::NS, b"\x02ns\x05other\0"),
                    (below, rtype::NS, b"\x01a\0"),
                ],
            ),
            (
                below,
                &[
                    (below, rtype::SOA, &[0; 22]),
                    (below, rtype::NS, b"\x01a\0"),
                    (below, rtype::RRSIG, &[0; 20]),
                    (below, rtype::NSEC, &owner),
                    (&owner, rtype::NSEC, below),
                ],
            ),
        ];
        let mut builder = Builder::new(7);
        for (apex, records) in zones {
            builder.begin_zone(apex);
            records.iter().for_each(|(owner, rtype, rdata)| builder.record(owner, *rtype, 60, rdata).unwrap());
        }
        let mut octets = builder.finish().0;
        let image = Image::open(octets.clone()).unwrap();
        let record = |rtype, rdata: &[u8]| edit::Record { rtype, ttl: 60, rdata: rdata.into() };
        let delegation = vec![record(rtype::NS, b"\x01a\0"), record(rtype::DS, &[0, 1, 13, 2, 9])];
        let edits = vec![
            Edit::new(APEX, BTreeMap::from([(below.into(), delegation)])),
            Edit::new(
                below,
                BTreeMap::from([(
                    owner.clone().into(),
                    vec![record(rtype::NSEC, below), record(rtype::TXT, b"\x01t")],
                )]),
            ),
        ];
        let change = Change { whole: Builder::new(7), gone: vec![], edits };
        let laid = lay(image.view(), change, 1 << 16, &InTurn, &mut |_| None).unwrap();
        octets.resize(1 << 16, 0);
        octets.extend_from_slice(&laid.octets);
        let between = Image::overlaid(&octets[..], image.header().clone(), |_| 0);
        let after = Image::overlaid(&octets[..], laid.overlay(between.view()).unwrap(), |_| 0);
        let zone = after.view().find_whole(below).unwrap().unwrap().zone().unwrap();
        let (parents, parent) = zone.parent().unwrap().unwrap();
        assert!(parent.apex().unwrap().apex_name() == Ok(APEX) && parents.rrset(rtype::DS).unwrap().is_some());
        assert!(zone.nsec_at_or_before(&owner).unwrap().rrset(rtype::TXT).unwrap().is_some());
    }

    /// An image of these zones, as a file.
    fn file(zones: &[(&[u8], Rows<'_>)]) -> Vec<u8> {
        let mut builder = Builder::new(7);
        for (apex, records) in zones {
            builder.begin_zone(apex);
            records.iter().for_each(|(owner, rtype, rdata)| builder.record(owner, *rtype, 60, rdata).unwrap());
        }
        builder.finish().0
    }

    /// What is served once a change is laid over it.
    fn over(image: &Image<Vec<u8>>, change: Change<'_>) -> Image<Vec<u8>> {
        let mut octets = image.bytes().clone();
        octets.resize(octets.len().next_multiple_of(PLACE as usize), 0);
        let laid = lay(image.view(), change, octets.len() as u64, &InTurn, &mut |_| None).unwrap();
        octets.extend_from_slice(&laid.octets);
        let between = Image::overlaid(octets.clone(), image.header().clone(), |_| 0);
        Image::overlaid(octets, laid.overlay(between.view()).unwrap(), |_| 0)
    }

    fn names(owner: &[u8], records: &[(u16, &[u8])]) -> Change<'static> {
        let records = records.iter().map(|&(rtype, rdata)| edit::Record { rtype, ttl: 60, rdata: rdata.into() });
        let names = BTreeMap::from([(owner.into(), records.collect())]);
        Change { whole: Builder::new(7), gone: vec![], edits: vec![Edit::new(APEX, names)] }
    }

    fn zone_of<'i>(image: &'i Image<Vec<u8>>, apex: &[u8]) -> Zone<'i> {
        image.view().find_whole(apex).unwrap().unwrap().zone().unwrap()
    }

    const APEX_ROWS: [(&[u8], u16, &[u8]); 2] = [(APEX, rtype::SOA, &[0; 22]), (APEX, rtype::NS, b"\x02ns\x05other\0")];
    const BELOW: &[u8] = b"\x01c\x01b\x01z\0";
    const BELOW_ROWS: [(&[u8], u16, &[u8]); 2] =
        [(BELOW, rtype::SOA, &[0; 22]), (BELOW, rtype::NS, b"\x02ns\x05other\0")];

    #[test]
    fn what_a_zone_hides_where_it_delegates_to_nobody_is_found_and_changed() {
        let hidden: [&[u8]; 2] = [b"\x01d\x01c\x01b\x01z\0", b"\x01e\x01c\x01b\x01z\0"];
        let rows = hidden.map(|owner| (owner, rtype::A, &[192, 0, 2, 1][..]));
        let zones: [(&[u8], Rows<'_>); 2] = [(APEX, &[APEX_ROWS, rows].concat()), (BELOW, &BELOW_ROWS)];
        let mut image = Image::open(file(&zones)).unwrap();
        let has = |image: &Image<Vec<u8>>| {
            assert!(zone_of(image, BELOW).parent().unwrap().is_none(), "nothing there answers for DS");
            hidden.map(|owner| zone_of(image, APEX).node(owner).unwrap().is_some())
        };
        assert_eq!(has(&image), [true; 2]);
        image = over(&image, names(hidden[0], &[]));
        assert_eq!(has(&image), [false, true]);
        assert_eq!(zone_of(&image, APEX).records().unwrap(), 3);
        image = over(&image, names(hidden[1], &[(rtype::TXT, b"\x01t")]));
        assert_eq!(has(&image), [false, true]);
        image = over(&image, names(BELOW, &[(rtype::NS, hidden[1])]));
        assert!(zone_of(&image, BELOW).parent().unwrap().is_some());
    }

    /// A host that a wildcard made is none once a name comes above it, though something hidden was below that already.
    #[test]
    fn a_delegation_makes_the_names_above_it_come() {
        let naming: &[u8] = b"\x01m\x01z\0";
        let rows: [(&[u8], u16, &[u8]); 2] =
            [(b"\x01*\x01z\0", rtype::A, &[192, 0, 2, 1]), (naming, rtype::MX, b"\0\x01\x01h\x01b\x01z\0")];
        let zones: [(&[u8], Rows<'_>); 2] = [(APEX, &[&APEX_ROWS[..], &rows].concat()), (BELOW, &BELOW_ROWS)];
        let mut image = Image::open(file(&zones)).unwrap();
        let is_laid =
            |image: &Image<Vec<u8>>| image.view().is_of_overlay(&zone_of(image, APEX).node(naming).unwrap().unwrap());
        image = over(&image, names(b"\x01d\x01c\x01b\x01z\0", &[(rtype::A, &[192, 0, 2, 1])]));
        assert!(!is_laid(&image), "no name has come");
        image = over(&image, names(BELOW, &[(rtype::NS, b"\x02ns\x05other\0")]));
        assert!(is_laid(&image), "it carries no address any more");
    }

    #[test]
    fn a_name_on_the_way_to_another_zone_is_the_zones_or_nobodys() {
        let name: &[u8] = b"\x01b\x01z\0";
        let mut image = Image::open(file(&[(APEX, &APEX_ROWS), (BELOW, &BELOW_ROWS)])).unwrap();
        let is_there = |image: &Image<Vec<u8>>| {
            let zone = zone_of(image, APEX);
            let scope = zone.apex().unwrap().scope().unwrap();
            let hash = name_hash(image.view().seed(), name);
            let node = image.view().find(hash, name, scope).unwrap().unwrap();
            assert!(node.is(DEEPER), "the way to the zone below");
            let of_hash = zone.nodes_hashed([hash].into(), [].into_iter());
            assert_eq!(of_hash.is_ok_and(|nodes| nodes.iter().all(|n| !n.is(ABOVE))), !node.is(ABOVE));
            !node.is(ABOVE)
        };
        assert!(!is_there(&image));
        let mut whole = Builder::new(7);
        whole.begin_zone(APEX);
        APEX_ROWS.iter().for_each(|(owner, rtype, rdata)| whole.record(owner, *rtype, 60, rdata).unwrap());
        image = over(&image, Change { whole, gone: vec![], edits: vec![] });
        for _ in 0..2 {
            assert!(!is_there(&image));
            image = over(&image, names(name, &[(rtype::TXT, b"\x01t")]));
            assert!(is_there(&image));
            image = over(&image, names(name, &[]));
        }
    }

    #[test]
    fn an_apex_that_says_it_is_another_zones_is_damage() {
        let apexes: [&[u8]; 2] = [b"\x07example\0", b"\x01z\0"];
        let mut builder = Builder::new(7);
        for apex in apexes {
            builder.begin_zone(apex);
            builder.record(apex, rtype::SOA, 60, &[0; 22]).unwrap();
            builder.record(apex, rtype::NS, 60, b"\x02ns\x05other\0").unwrap();
        }
        let mut octets = builder.finish().0;
        let image = Image::open(octets.clone()).unwrap();
        let [one, other] = apexes.map(|apex| image.view().find_whole(apex).unwrap().unwrap());
        octets[one.words_at()] = other.zone_number().unwrap() as u8;
        let image = Image::open(octets).unwrap();
        assert!(image.view().find_whole(apexes[0]).unwrap().unwrap().zone().is_err());
        let address = edit::Record { rtype: rtype::A, ttl: 60, rdata: [192, 0, 2, 1].into() };
        let names = BTreeMap::from([([&b"\x01a"[..], apexes[0]].concat().into(), vec![address])]);
        let change = Change { whole: Builder::new(7), gone: vec![], edits: vec![Edit::new(apexes[0], names)] };
        assert_eq!(lay(image.view(), change, 1 << 20, &InTurn, &mut |_| None).err(), Some(Unable::Damaged));
    }
}
