//! Small changes of zones, laid over the image that is served: the cost is that of the zones that changed, came or went.
//!
//! Nothing is written to the disk. A new image of all zones follows in the background, when nothing has changed for a
//! while, and until then a start would lay them over the old one again.

use crate::clock;
use crate::comparison::Difference;
use crate::config::Zone;
use crate::held::{self, Among, Gate};
use crate::images::{self, Library, Remark};
use crate::laying;
use crate::manifest::{Entry, OVER_MAX};
use crate::reading::{self, Stock};
use crate::scratch::{self, Scratch};
use audit::{Rules, Version, audit};
use image::patch::Change;
use image::{Image, InTurn};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use store::Stretch;

/// Octets of zone files that may have changed: with more of them a new image is not much dearer.
const OCTETS_MAX: u64 = 4 << 20;

pub struct Laid {
    pub image: Image<Stretch>,
    /// Of the zones that were read.
    pub entries: Vec<Entry>,
    pub remarks: Vec<Remark>,
}

/// Lays what is different over the image. None: it takes a new one, for much is different, or zones are nested.
pub fn lay(now: &Image<Stretch>, difference: &Difference, library: &Library) -> Option<Laid> {
    let Difference { anew, gone, .. } = difference;
    if anew.len() + gone.len() > OVER_MAX || !now.is_whole() {
        return None;
    }
    let octets: u64 = anew.iter().filter_map(|zone| std::fs::metadata(&zone.file).ok()).map(|m| m.len()).sum();
    if octets > OCTETS_MAX || !are_apart(anew) {
        return None;
    }
    laid(now, anew, gone, library)
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

fn laid(now: &Image<Stretch>, anew: &[Zone], gone: &[Box<[u8]>], library: &Library) -> Option<Laid> {
    let stock = Stock {
        seed: images::seed(),
        held_max: scratch::memory(),
        spill: Arc::new(Scratch::new(library.folder().into())),
    };
    let (builder, mut entries) = reading::all(anew, &stock, |zone, builder| images::fill(zone, &stock, builder));
    // A zone whose file could never be used is in no image.
    let gone = gone.iter().filter(|apex| laying::zone(now.view(), apex).is_some()).cloned().collect();
    let change = Change { whole: builder, gone, edits: vec![] };
    let (image, remarks, complaints) = over(now, change, anew, &stock, &library.gate)?;
    for entry in &mut entries {
        let complaint = complaints.get(&entry.apex);
        let is_served = || image.view().find_whole(&entry.apex).is_ok_and(|n| n.is_some());
        entry.problem = complaint.map(|why| match is_served() {
            true => held::goes_on(why),
            false => why.clone(),
        });
    }
    Some(Laid { image, entries, remarks })
}

type Complaints = HashMap<Box<[u8]>, String>;

/// The image with these zones laid over it. None: it takes a new one.
fn over(
    now: &Image<Stretch>,
    change: Change<'_>,
    zones: &[Zone],
    stock: &Stock,
    gate: &Gate,
) -> Option<(Image<Stretch>, Vec<Remark>, Complaints)> {
    let (rules, mut remarks) = (Rules::at(clock::wall_s()), Vec::new());
    let mut judge = |zone: &image::Sorted<'_>| {
        // Beside the changed zones there are stand-ins for those below them.
        if !zones.iter().any(|z| *z.apex == *zone.apex()) {
            return None;
        }
        let report = audit(zone, &rules);
        let version = Version { zone, report: &report, rules: &rules };
        let refusal = report.refusal().or_else(|| gate.judge(Some(now), &version, stock, Among::Changed));
        if refusal.is_none() {
            remarks.extend(Remark::of(zone.apex(), &report));
        }
        refusal
    };
    let (image, complaints) = laying::put(now, change, &InTurn, &mut judge).ok()?;
    let complaint = |c: image::Complaint| (c.zone.fold().bytes().into(), c.what);
    Some((image, remarks, complaints.into_iter().map(complaint).collect()))
}
