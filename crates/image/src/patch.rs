//! Lays changes out so that they can stand behind an image: zones anew as a whole, zones that are no more, and names of
//! large zones. What is laid out is written where `place` says; then `overlay` makes the header that leads to it.
//!
//! Zones are laid out by the same builder as an image, as an image of their own, which then is moved: its references count
//! from the image's start. What another zone of ours below them needs to know comes with them as a zone of two records,
//! and is left out again.

mod laying;
#[cfg(test)]
mod tests;

use self::laying::Laying;
use crate::builder::{Builder, Complaint, InTurn, Judge};
use crate::drafts::ends;
use crate::edit::{Edit, Fronts, Gathered, Nodes, Screen, Surroundings};
use crate::followers::Followers;
use crate::format::{ALIGN, Damaged, Header};
use crate::node::{APEX, DEEPER};
use crate::overlay::{Overlay, Record};
use crate::row::Named;
use crate::view::{Image, View};
use crate::zone::Zone;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use wire::name::is_at_or_below;
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
    pub limits: Limits,
}

/// How much edits may draw in, all of them together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Names that come to be hidden, or are not any more: with more an edit takes a new image.
    pub hidden: usize,
    /// So many nodes that may name changed hosts are laid; those of an edit that has more are left to be laid
    /// afterwards (see `followers`).
    pub followers: usize,
}

impl Limits {
    /// As much as is worth it: with more a new image is not dearer.
    pub const MOST: Limits = Limits { hidden: usize::MAX, followers: usize::MAX };
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
    /// The zone is not as it was when its change was laid out.
    Changed,
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
    /// Where the records of zones are from then on.
    zones: HashMap<u32, Record>,
    /// Who of them names whom: the host's key, the zone, the name.
    naming: Vec<(u32, u32, Named)>,
    /// What was found out of names below which many are gone, and of those that hide many.
    fronts: Fronts,
    hidden: Vec<(Screen, Nodes)>,
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
        overlay.forget(view, &self.anew)?;
        for of_zone in self.nodes.chunk_by(|a, b| a.0 == b.0) {
            let nodes: Vec<Named> = of_zone.iter().map(|(_, named)| *named).collect();
            overlay.enter(view, of_zone[0].0, &nodes)?;
        }
        self.zones.iter().for_each(|(number, record)| overlay.set_zone(*number, *record));
        self.fronts.iter().for_each(|front| overlay.set_front(*front));
        self.hidden.iter().for_each(|(screen, nodes)| overlay.set_hidden(*screen, nodes));
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

/// Lays a change out to stand at `place`, a multiple of `PLACE` behind all that `view` sees.
pub fn lay(view: View<'_>, change: Change<'_>, place: u64) -> Result<Laid, Unable> {
    Draft::of(view, change, &mut |_| None)?.lay(view, place)
}

/// A change laid out as an image of its own. Other zones may change before it is moved to its place.
pub struct Draft {
    built: Image<Vec<u8>>,
    /// What goes along of it. None: that has been laid.
    octets: Option<Vec<u8>>,
    /// As `Laid` has them.
    pub complaints: Vec<Complaint>,
    /// Of the names that it may hide or bring to light so many are left.
    pub hidden_max: usize,
    whole: Vec<Box<[u8]>>,
    gone: Vec<Box<[u8]>>,
    edited: Vec<Edited>,
    /// Zones of ours below those that are laid out whole, and those of which edits have drawn in names.
    below: Vec<Box<[u8]>>,
}

/// A zone of which names change.
struct Edited {
    apex: Box<[u8]>,
    /// The node of its apex as it was: each change of the zone makes another one.
    reference: u32,
    gathered: Gathered,
}

impl Draft {
    /// `judge` sees stand-ins for zones below those that change, too.
    pub fn of(view: View<'_>, change: Change<'_>, judge: Judge<'_>) -> Result<Draft, Unable> {
        let Change { whole: mut builder, gone, edits, mut limits } = change;
        let whole: Vec<Box<[u8]>> = builder.apexes().map(Into::into).collect();
        let shape = Shape::find(view, &whole, &gone, edits.iter().map(|edit| edit.apex))?;
        let mut below = zones_below(view, &shape.whole)?;
        let mut edited = Vec::new();
        for (wanted, edit) in shape.edited.iter().zip(&edits) {
            let old = wanted.old.ok_or(Unable::NoSuchZone)?;
            let gathered = Surroundings::new(old, edit)?.gather(&mut builder, &mut limits)?;
            edited.push(Edited { apex: edit.apex.into(), reference: old.apex_reference()?, gathered });
        }
        let beside: BTreeSet<&[u8]> = edited.iter().flat_map(|e| &e.gathered.below).map(|apex| &**apex).collect();
        let known: HashSet<Box<[u8]>> = builder.apexes().map(Into::into).collect();
        let mut numbers: HashSet<u32> = below.iter().map(Zone::number).collect();
        for apex in beside {
            let zone = find(view, apex)?;
            if !known.contains(apex) && numbers.insert(zone.number()) {
                below.push(zone);
            }
        }
        below.iter().try_for_each(|zone| stand_in(&mut builder, zone))?;
        let below = below.iter().map(|zone| Ok(zone.apex()?.apex_name()?.into())).collect::<Result<_, Damaged>>()?;
        let (bytes, _, complaints) = builder.finish_judged(&InTurn, judge);
        let is_wrong = |z: &&Wanted<'_>| complaints.iter().any(|c| c.zone.bytes().eq_ignore_ascii_case(z.apex));
        if shape.whole.iter().filter(is_wrong).any(|z| z.is_nested) {
            return Err(Unable::Nested);
        }
        let built = Image::open(bytes).map_err(|_| Unable::Damaged)?;
        let octets = Some(laying::octets(built.view())?);
        Ok(Draft { built, octets, complaints, hidden_max: limits.hidden, whole, gone, edited, below })
    }

    /// Moves it to its place, as `lay` has it; once. `view`: of the same image, over which other zones may have been laid since; a zone of which names
    /// change must be as it was.
    pub fn lay(&mut self, view: View<'_>, place: u64) -> Result<Laid, Unable> {
        let octets = self.octets.take().ok_or(Unable::Changed)?;
        let edited = self.edited.iter().map(|edited| &*edited.apex);
        let Shape { whole, lost, edited } = Shape::find(view, &self.whole, &self.gone, edited)?;
        for (wanted, edit) in edited.iter().zip(&self.edited) {
            if wanted.old.ok_or(Unable::NoSuchZone)?.apex_reference()? != edit.reference {
                return Err(Unable::Changed);
            }
        }
        let mut laying = Laying::new(view, self.built.view(), octets, place);
        laying.number(&whole, &edited)?;
        laying.move_there()?;
        whole.iter().try_for_each(|wanted| laying.whole(wanted))?;
        let edits = edited.iter().zip(&self.edited);
        edits.clone().try_for_each(|(wanted, edit)| laying.edited(wanted, &edit.gathered))?;
        for apex in &self.below {
            let parent = laying.anew_above(apex)?;
            parent.map_or(Ok(()), |parent| laying.adopt(&find(view, apex)?, parent))?;
        }
        for (wanted, Edited { gathered, .. }) in edits {
            let parent = wanted.old.ok_or(Unable::NoSuchZone)?.number();
            for apex in gathered.below.iter().filter(|apex| gathered.kept.contains(*apex)) {
                laying.adopt(&find(view, apex)?, parent)?;
            }
        }
        laying.names_of_nobody(&whole)?;
        lost.iter().try_for_each(|wanted| laying.lose(wanted))?;
        laying.list_who_names()?;
        // References count up to there.
        if place + laying.laid.octets.len() as u64 > (ALIGN as u64) << 32 {
            return Err(Unable::Large);
        }
        let mut laid = laying.end(std::mem::take(&mut self.complaints));
        laid.followers = self.edited.iter_mut().filter_map(|edited| edited.gathered.followers.take()).collect();
        Ok(laid)
    }
}

/// The zones that a change is about, as far as they tell whether it can be laid over an image: the only place where this is
/// decided. What else stands in the way shows itself when an edit is gathered, or something is too large.
struct Shape<'a> {
    whole: Vec<Wanted<'a>>,
    lost: Vec<Wanted<'a>>,
    edited: Vec<Wanted<'a>>,
}

impl<'a> Shape<'a> {
    fn find(
        view: View<'a>,
        whole: &'a [Box<[u8]>],
        gone: &'a [Box<[u8]>],
        edited: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Shape<'a>, Unable> {
        let all =
            |apexes: &'a [Box<[u8]>]| apexes.iter().map(|apex| Wanted::find(view, apex)).collect::<Result<_, _>>();
        let edited = edited.map(|apex| Wanted::find(view, apex)).collect::<Result<_, _>>()?;
        let shape = Shape { whole: all(whole)?, lost: all(gone)?, edited };
        shape.judge()?;
        Ok(shape)
    }

    fn judge(&self) -> Result<(), Unable> {
        let Shape { whole, lost, edited } = self;
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

/// A zone that is known to be there.
fn find<'a>(view: View<'a>, apex: &[u8]) -> Result<Zone<'a>, Damaged> {
    view.find_whole(apex)?.ok_or(Damaged)?.zone()
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
        // Said by its record alone: of a million zones the apexes take a tenth of a second.
        if zone.is_apart()? {
            continue;
        }
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
