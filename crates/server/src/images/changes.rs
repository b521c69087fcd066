//! Small changes of zones, laid over the image that is served: the cost is that of the zones that changed, came or went.
//!
//! The files are read, and what was read is laid out and judged, for which nobody has to wait. With the press held (see `press`) it is moved to its
//! place, and the chain of a signed zone of which names change is looked at there. A new image of all zones follows in the background, when nothing has
//! changed for a while, and until then a start lays them over the old one again (`lately`).

use crate::clock;
use crate::config::Zone;
use crate::history::Recorder;
use crate::images::comparison::Difference;
use crate::images::held::{self, Gate};
use crate::images::laying::{self, Put};
use crate::images::manifest::{Entry, OVER_MAX};
use crate::images::numbering::{self, may_be_numbered, numbered};
use crate::images::scratch::Scratch;
use crate::images::{self, Library, Remark};
use crate::zonetext::edition::Edition;
use crate::zonetext::pieces::Pieces;
use crate::zonetext::pieces::cutting::Cutting;
use crate::zonetext::pieces::file::Shelf;
use crate::zonetext::reading::{self, Stock};
use audit::{Fault, Finding, Rules, Version, audit};
use image::edit::{Edit, Hidden, records_of};
use image::patch::{Change, Draft, Limits};
use image::zone::SIGNED;
use image::{Builder, Complaint, Image};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use store::Stretch;

/// Octets of zone files that may have changed, and are laid out as a whole: with more of them a new image is not much
/// dearer. Of a file that is longer, only the names are laid that differ.
pub const OCTETS_MAX: u64 = 4 << 20;
/// So much is laid out and judged sooner than a thread in the background has its turn: octets of files, without those that they include, and names.
const LITTLE: (u64, usize) = (64 << 10, 1000);

pub struct Laid {
    pub image: Image<Stretch>,
    /// Of the zones that were read.
    pub entries: Vec<Entry>,
    pub remarks: Vec<Remark>,
    /// Of the texts of which only names are laid.
    pub pieces: Vec<(Box<[u8]>, Pieces)>,
}

/// What is different, as it was read.
pub struct Plan {
    whole: Builder,
    /// Of its files.
    octets: u64,
    /// Of the zones that are laid as a whole.
    entries: Vec<Entry>,
    gone: Vec<Box<[u8]>>,
    editions: Vec<Edition>,
    stock: Stock,
    gate: Arc<Gate>,
}

impl Plan {
    /// Reads what is different. None: it takes a new image, for much is different, or zones are nested.
    pub fn of(
        now: &Image<Stretch>,
        difference: &Difference,
        library: &Library,
        known: &Shelf,
        recorder: &mut Recorder,
    ) -> Option<Plan> {
        let Difference { anew, gone, .. } = difference;
        if anew.len() + gone.len() > OVER_MAX || !now.is_whole() || !are_apart(anew) {
            return None;
        }
        let anew = numbered(anew, Some(now), library, may_be_numbered, |apex| recorder.last_serial(apex));
        let octets = |zone: &Zone| std::fs::metadata(&zone.file).map_or(0, |m| m.len());
        let (long, whole): (Vec<Zone>, Vec<Zone>) = anew.iter().cloned().partition(|zone| octets(zone) > OCTETS_MAX);
        let of_whole = whole.iter().map(octets).sum::<u64>();
        if of_whole > OCTETS_MAX {
            return None;
        }
        let editions = long.iter().map(|zone| {
            let pieces = laying::zone(now.view(), &zone.apex).and_then(|served| known.find(&zone.apex, &served));
            let mut edition = Edition::of(zone, now, pieces, Cutting::new(now.header().seed))?;
            edition.pieces = edition.pieces.map(|pieces| pieces.put_away(&Scratch::new(library.folder().into())));
            Some(edition).filter(|edition| library.gate.lets_pass(edition))
        });
        let editions = editions.collect::<Option<_>>()?;
        numbering::tell(&anew, Some(now));
        Some(Plan { octets: of_whole, ..Plan::read(&whole, gone, editions, library) })
    }

    /// Whether it may as well be laid out where it is laid.
    pub fn is_little(&self) -> bool {
        let names = self.whole.names_max() + self.editions.iter().map(|edition| edition.names.len()).sum::<usize>();
        self.octets <= LITTLE.0 && names <= LITTLE.1
    }

    fn read(whole: &[Zone], gone: &[Box<[u8]>], editions: Vec<Edition>, library: &Library) -> Plan {
        let stock = Stock::below(library.data_dir());
        let (whole, entries) = reading::all(whole, &stock, |zone, builder| images::fill(zone, &stock, builder));
        Plan { whole, octets: 0, entries, gone: gone.to_vec(), editions, stock, gate: Arc::clone(&library.gate) }
    }

    #[cfg(test)]
    pub fn of_editions(editions: Vec<Edition>, library: &Library) -> Plan {
        Plan::read(&[], &[], editions, library)
    }
}

/// False: one of the zones lies below another of them. They may be new both, and that takes a new image.
fn are_apart(zones: &[Zone]) -> bool {
    let apexes: HashSet<&[u8]> = zones.iter().map(|zone| &*zone.apex).collect();
    let is_below = |zone: &Zone| above(&zone.apex).any(|above| apexes.contains(above));
    !zones.iter().any(is_below)
}

/// The names above a name, nearest first.
fn above(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    fn up<'n>(name: &&'n [u8]) -> Option<&'n [u8]> {
        let (&len, below) = name.split_first().filter(|(len, _)| **len > 0)?;
        below.get(usize::from(len)..)
    }
    std::iter::successors(up(&name), up)
}

/// What is different, laid out and judged. It waits for its place.
pub struct Ready {
    /// Of the image that it was laid out for.
    map: u64,
    draft: Draft,
    entries: Vec<Entry>,
    editions: Vec<Edition>,
    gate: Arc<Gate>,
    remarks: Vec<Remark>,
    /// Names at which something is wrong. Some are there for the builder to see only, with less around them than they
    /// have in the zone.
    doubts: Vec<Doubt>,
}

impl Ready {
    /// Lays out what is different from what this image has. None: it takes a new one.
    pub fn of(now: &Image<Stretch>, plan: Plan) -> Option<Ready> {
        let Plan { whole, entries, gone, editions, stock, gate, .. } = plan;
        // A zone whose file could never be used is in no image.
        let gone = gone.into_iter().filter(|apex| laying::zone(now.view(), apex).is_some()).collect();
        let edits = editions.iter().map(|e| Edit::of(&e.entry.apex, &e.names)).collect();
        let change = Change { whole, gone, edits, limits: Limits::MOST };
        let Judged { draft, remarks, doubts } = judged(now, change, &editions, &stock, &gate)?;
        // A new image is built with the whole zone in view, and says what is wrong with it.
        let is_wrong = |e: &Edition| draft.complaints.iter().any(|c| *e.entry.apex == *c.zone.fold().bytes());
        if editions.iter().any(is_wrong) {
            return None;
        }
        Some(Ready { map: now.bytes().map().number(), draft, entries, editions, gate, remarks, doubts })
    }

    /// Lays it over this image as it is served by now; once. None: it takes a new one. What is left of it is for whoever has time to let go of it.
    pub fn lay(&mut self, now: &Image<Stretch>) -> Option<Laid> {
        let Ready { map, draft, entries, editions, gate, remarks, doubts } = self;
        if *map != now.bytes().map().number() {
            return None;
        }
        let Put { image, complaints, .. } = laying::put_there(now, draft).ok()?;
        let complaint = |c: Complaint| (c.zone.fold().bytes().into(), c.what);
        let complaints: HashMap<Box<[u8]>, String> = complaints.into_iter().map(complaint).collect();
        let is_doubtful = |doubt: &Doubt| is_laid(now, &image, doubt);
        if doubts.iter().any(is_doubtful) || !editions.iter().all(|edition| is_proven(&image, edition)) {
            return None;
        }
        let (mut entries, remarks) = (std::mem::take(entries), std::mem::take(remarks));
        for entry in &mut entries {
            let complaint = complaints.get(&entry.apex);
            let is_served = || laying::zone(image.view(), &entry.apex).is_some();
            entry.problem = complaint.map(|why| match is_served() {
                true => held::goes_on(why),
                false => why.clone(),
            });
        }
        let mut pieces = vec![];
        for edition in editions {
            let apex = edition.entry.apex.clone();
            let of_laid = |of: Pieces| of.now_of(&laying::zone(image.view(), &apex)?);
            pieces.extend(edition.pieces.take().and_then(of_laid).map(|pieces| (apex.clone(), pieces)));
            gate.note(&apex, std::mem::take(&mut edition.diff));
            entries.push(edition.entry.clone());
        }
        Some(Laid { image, entries, remarks, pieces })
    }
}

/// Lays what is different over the image. None: it takes a new one.
pub fn lay(now: &Image<Stretch>, plan: Plan) -> Option<Laid> {
    Ready::of(now, plan)?.lay(now)
}

struct Doubt {
    apex: Box<[u8]>,
    name: Box<[u8]>,
}

struct Judged {
    draft: Draft,
    remarks: Vec<Remark>,
    doubts: Vec<Doubt>,
}

/// These zones and names laid out. None: it takes a new image.
fn judged(
    now: &Image<Stretch>,
    change: Change<'_>,
    editions: &[Edition],
    stock: &Stock,
    gate: &Gate,
) -> Option<Judged> {
    let (rules, mut remarks, mut doubts) = (Rules::at(clock::wall_s()), Vec::new(), Vec::new());
    let whole: HashSet<Box<[u8]>> = change.whole.apexes().map(Into::into).collect();
    let mut judge = |zone: &image::Sorted<'_>| {
        let apex = zone.apex();
        let is_edition = editions.iter().any(|e| *e.entry.apex == *apex);
        // Beside the changed zones there are stand-ins for those below them.
        if !is_edition && !whole.contains(apex) {
            return None;
        }
        let report = audit(zone, &Rules { is_part: is_edition, ..rules });
        if is_edition {
            let known = known(now, zone, editions, &rules);
            let is_new =
                |f: &Finding| f.fault == Fault::Zonemd || !known.contains(&f.text()) && !is_spelling(f, editions);
            let new = report.findings.into_iter().filter(is_new);
            doubts.extend(new.map(|f| Doubt { apex: apex.into(), name: f.owner }));
            return None;
        }
        let version = Version { zone, report: &report, rules: &rules, is_received: gate.is_received(apex) };
        let refused = |why| held::refused(Some(now), zone.apex(), why);
        let refusal = report.refusal().map(refused).or_else(|| gate.judge(Some(now), &version, stock, false));
        if refusal.is_none() {
            remarks.extend(Remark::of(zone.apex(), &report));
        }
        refusal
    };
    let draft = laying::draft(now, change, &mut judge).ok()?;
    Some(Judged { draft, remarks, doubts })
}

/// True for what an image does not keep, and so cannot be known to have been there, of RRsets that are as before.
fn is_spelling(f: &Finding, editions: &[Edition]) -> bool {
    let touches = |r: &transfer::Record| r.owner() == &*f.owner && Some(r.rtype) == f.rtype;
    let mut changes = editions.iter().flat_map(|e| e.diff.removed().iter().chain(e.diff.added()));
    matches!(f.fault, Fault::Twice | Fault::UnequalTtls) && !changes.any(touches)
}

/// What is found at these names, and at those that go, as they are served: that was said when it came.
fn known(now: &Image<Stretch>, zone: &image::Sorted<'_>, editions: &[Edition], rules: &Rules) -> HashSet<String> {
    let mut builder = Builder::new(0);
    builder.begin_zone(zone.apex());
    let Some(served) = laying::zone(now.view(), zone.apex()) else { return HashSet::new() };
    let hidden = Hidden::default();
    let changed = editions.iter().filter(|e| *e.entry.apex == *zone.apex()).flat_map(|e| e.names.keys());
    let names: BTreeSet<&[u8]> = zone.names().map(|(name, _)| name).chain(changed.map(|name| &**name)).collect();
    for name in names {
        let node = served.node_by(name, &hidden).ok().flatten();
        for r in node.and_then(|node| records_of(&node, name).ok()).unwrap_or_default() {
            // What was taken once is taken again.
            let _ = builder.record(name, r.rtype, r.ttl, &r.rdata);
        }
    }
    let mut known = HashSet::new();
    let shown = builder.show(&mut |zone| {
        let report = audit(zone, &Rules { is_part: true, ..*rules });
        known = report.findings.iter().map(Finding::text).collect();
    });
    // Then it has found no room, and nothing is known.
    shown.map_or_else(|_| HashSet::new(), |()| known)
}

/// True if the zone is not signed, or its chain of denial holds around the names that have changed.
fn is_proven(image: &Image<Stretch>, edition: &Edition) -> bool {
    let Some(zone) = laying::zone(image.view(), &edition.entry.apex) else { return false };
    match zone.is(SIGNED) {
        Ok(true) => {
            let names = edition.names.keys().map(|name| &**name);
            audit::links::hold(&zone, names, &edition.hashes).unwrap_or(false)
        }
        signed => signed == Ok(false),
    }
}

/// True if the name was laid out anew. Damage counts as that.
fn is_laid(before: &Image<Stretch>, after: &Image<Stretch>, doubt: &Doubt) -> bool {
    let place = |image: &Image<Stretch>| {
        let node = laying::zone(image.view(), &doubt.apex)?.node(&doubt.name).ok()?;
        Some(node.map(|node| node.reference()))
    };
    place(before) != place(after) || place(after).is_none()
}
