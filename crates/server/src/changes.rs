//! Small changes of zone files, laid over the image that is served: the cost is that of the zones that changed.
//!
//! Nothing is written to the disk. A new image of all zones follows in the background, when nothing has changed for a
//! while, and until then a start would build it.

use crate::clock;
use crate::config::Zone;
use crate::held::{self, Among, Gate};
use crate::images::{self, Library, Remark};
use crate::laying;
use crate::manifest::{Entry, Manifest};
use crate::reading::{self, Stock};
use crate::scratch::{self, Scratch};
use audit::{Rules, Version, audit};
use image::patch::Change;
use image::{Builder, Image};
use std::collections::HashMap;
use std::sync::Arc;
use store::Stretch;

/// Octets of zone files that may have changed: with more of them a new image is not much dearer.
const OCTETS_MAX: u64 = 4 << 20;
const ZONES_MAX: usize = 1000;

/// What came of looking for changes.
pub enum Outcome {
    /// The files are as they were.
    Unchanged,
    Laid(Box<Laid>),
    /// A new image is needed: much has changed, or zones have come or gone.
    TooMuch,
}

pub struct Laid {
    pub image: Image<Stretch>,
    pub manifest: Manifest,
    pub remarks: Vec<Remark>,
}

/// Looks for zones whose files are not as the manifest says, among those that are asked for, and lays them over the image.
pub fn lay(
    now: &Image<Stretch>,
    manifest: &Manifest,
    zones: &[Zone],
    is_asked: impl Fn(&Zone) -> bool,
    library: &Library,
) -> Outcome {
    let Some(changed) = manifest.changed(zones, is_asked) else { return Outcome::TooMuch };
    if changed.is_empty() {
        return Outcome::Unchanged;
    }
    let octets: u64 = changed.iter().filter_map(|&i| std::fs::metadata(&zones[i].file).ok()).map(|m| m.len()).sum();
    // What updates have changed is not in these files.
    let is_updated = changed.iter().any(|&i| !zones[i].allow_update.0.is_empty());
    if changed.len() > ZONES_MAX || octets > OCTETS_MAX || !now.is_whole() || is_updated {
        return Outcome::TooMuch;
    }
    laid(now, manifest, zones, &changed, library).map_or(Outcome::TooMuch, |laid| Outcome::Laid(Box::new(laid)))
}

fn laid(
    now: &Image<Stretch>,
    manifest: &Manifest,
    zones: &[Zone],
    changed: &[usize],
    library: &Library,
) -> Option<Laid> {
    let stock = Stock {
        seed: images::seed(),
        held_max: scratch::memory(),
        spill: Arc::new(Scratch::new(library.folder().into())),
    };
    let few: Vec<Zone> = changed.iter().map(|&i| zones[i].clone()).collect();
    let (builder, mut entries) = reading::all(&few, &stock, |zone, builder| images::fill(zone, &stock, builder));
    let (image, remarks, complaints) = over(now, builder, &few, &stock, &library.gate)?;
    for entry in &mut entries {
        let complaint = complaints.get(&entry.apex);
        let is_served = || image.view().find_whole(&entry.apex).is_ok_and(|n| n.is_some());
        entry.problem = complaint.map(|why| match is_served() {
            true => held::goes_on(why),
            false => why.clone(),
        });
    }
    let entries: HashMap<usize, Entry> = changed.iter().copied().zip(entries).collect();
    Some(Laid { image, manifest: manifest.with(&entries), remarks })
}

type Complaints = HashMap<Box<[u8]>, String>;

/// The image with these zones laid over it. None: it takes a new one.
fn over(
    now: &Image<Stretch>,
    whole: Builder,
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
    let change = Change { whole, gone: vec![], edits: vec![] };
    let (image, complaints) = laying::put(now, change, &reading::Threads, &mut judge).ok()?;
    let complaint = |c: image::Complaint| (c.zone.fold().bytes().into(), c.what);
    Some((image, remarks, complaints.into_iter().map(complaint).collect()))
}
