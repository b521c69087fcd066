//! Versions of zones that are held: what an operator should look at before it takes the place of what is served.
//!
//! Whoever builds or lays out zones asks the gate, with the version that is served and the one that would be. What the
//! gate objects to goes on as it was, like a zone whose file is wrong; and it stays so until the file changes or the
//! operator forces it.

use crate::config::{Config, Written, Zone};
use crate::history::CHANGE_OCTETS_MAX;
use crate::images::laying;
use crate::images::name;
use crate::images::numbering;
use crate::log;
use crate::update::ledger;
use crate::zonetext::edition::Edition;
use crate::zonetext::reading::Stock;
use audit::{Fault, Guards, Version, weigh, weigh_numbers};
use front::locks::hold;
use image::{Image, Sorted, Zone as ImageZone};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use store::Stretch;
use transfer::{Diff, compare};

/// Begins what is said of a zone whose new version is held.
const HELD: &str = "held: ";
/// Of one that is no zone, whoever wants it.
const UNFIT: &str = "not to be served by force either: ";

/// Who lets new versions pass, and remembers what they change.
#[derive(Debug, Default)]
pub struct Gate {
    /// None: everybody passes.
    guards: Option<Guards>,
    /// Zones that pass whatever is said of them: as many as the operator has named.
    forced: HashSet<Box<[u8]>>,
    /// What is configured of zones.
    written: Written,
    data_dir: PathBuf,
    changes: Mutex<Changes>,
    /// Zones of which it was said that what was served is damaged. Bound: as many as there are.
    unweighed: Mutex<HashSet<Box<[u8]>>>,
}

/// What versions that passed change, by apex: as much as history takes.
#[derive(Debug, Default)]
struct Changes {
    diffs: HashMap<Box<[u8]>, Diff>,
    /// Something passed that is in no diff, and that a start would hold.
    is_more: bool,
    octets: usize,
    /// Whether these, and those that are beyond that, have no new serial.
    unnumbered: HashMap<Box<[u8]>, bool>,
    /// Zones that updates have left, and the serial that they have now.
    overtaken: HashMap<Box<[u8]>, u32>,
}

impl Changes {
    /// What a version changes, in the place of what was noted of the zone before; unless that is too much.
    fn keep(&mut self, apex: &[u8], diff: Diff) {
        let before = self.diffs.remove(apex).map_or(0, |before| octets_of(apex, &before));
        let octets = self.octets - before + octets_of(apex, &diff);
        if octets <= CHANGE_OCTETS_MAX {
            self.octets = octets;
            self.diffs.insert(apex.into(), diff);
        } else {
            self.octets -= before;
        }
    }
}

fn octets_of(apex: &[u8], diff: &Diff) -> usize {
    apex.len() + size_of::<Diff>() + diff.octets()
}

impl Gate {
    /// `forced`: these pass this time.
    pub fn new(config: &Config, forced: HashSet<Box<[u8]>>) -> Gate {
        let (written, data_dir) = (config.roster.written.clone(), config.server.data_dir.clone());
        Gate { guards: config.guards, forced, written, data_dir, ..Gate::default() }
    }

    /// Whether a version of this zone may be held.
    pub fn guards(&self, apex: &[u8]) -> bool {
        self.guards_of(apex).is_some()
    }

    fn guards_of(&self, apex: &[u8]) -> Option<&Guards> {
        let is_open = |zone: &Zone| !zone.is_guarded || zone.is_journaled();
        let is_open = self.forced.contains(apex) || self.written.find(apex).is_some_and(is_open);
        self.guards.as_ref().filter(|_| !is_open)
    }

    /// Whether changes of it are in the journal before they come here.
    fn is_journaled(&self, apex: &[u8]) -> bool {
        self.written.find(apex).is_some_and(Zone::is_journaled)
    }

    /// Whether versions of it come from others.
    pub fn is_received(&self, apex: &[u8]) -> bool {
        self.written.find(apex).is_some_and(Zone::is_secondary)
    }

    /// Why this version of a zone is to be held; none: it may be served, and what it changes is remembered. `is_read_again`: its files are those of
    /// what is served; with the same serial and number of records it is not looked through.
    pub fn judge(
        &self,
        served: Option<&Image<Stretch>>,
        version: &Version<'_, '_>,
        stock: &Stock,
        is_read_again: bool,
    ) -> Option<String> {
        let apex = version.zone.apex();
        let guards = self.guards_of(apex);
        // What is damaged cannot be compared, and is no reason to keep anything: it could not go on as it was.
        let damaged = |_| {
            if guards.is_some() && hold(&self.unweighed).insert(apex.into()) {
                let zone = name(apex).to_string();
                log::warn("a version is served without being weighed: the one before is damaged", &[("zone", &zone)]);
            }
        };
        let Some(zone) = served.map_or(Ok(None), |image| image.view().zone_of(apex)).map_err(damaged).ok()? else {
            let is_foreign = version.is_received;
            // The history has nothing of a version that was the first: forced, or while there were no guards.
            self.changes().is_more |= is_foreign && guards.is_none() && unbelieved(version).is_some();
            let why = guards.filter(|_| is_foreign).and_then(|_| unbelieved(version));
            if why.is_none() {
                self.overtake(apex, audit::serial(version.zone));
                // Without an image nobody knows which zones have just come.
                if served.is_some() {
                    self.begin(version.zone);
                }
            }
            return why;
        };
        // Each new image has most zones so.
        if is_read_again && !is_other(&zone, version) {
            return None;
        }
        let weigh = |guards| weigh(&zone, version, guards, || stock.builder()).map_err(damaged).ok().flatten();
        let why = guards.and_then(|guards| weigh(guards).or_else(|| self.contradicts(&zone, version.zone)));
        if why.is_none() && !self.is_journaled(apex) {
            self.remember(&zone, version.zone);
        }
        why.map(|why| format!("{HELD}{why}"))
    }

    /// True if nothing can be said against these names of a zone; else all of its new version is to be judged. Words that
    /// hold a version are never for what goes through here.
    pub fn lets_pass(&self, edition: &Edition) -> bool {
        let Some(guards) = self.guards_of(&edition.entry.apex) else { return true };
        let serials = edition.serials().unwrap_or_default();
        let has_its_own = edition.serials().is_some_and(|(before, after)| before != after) || edition.diff.is_empty();
        (has_its_own || !self.was_updated(&edition.entry.apex, edition.diff.from))
            && !edition.is_less_secure
            && weigh_numbers(serials, edition.loss, guards).is_none()
    }

    /// A file that takes a zone back from its updates under the serial that these have served, and does not hold what they have made: secondaries
    /// would never notice.
    fn contradicts(&self, served: &ImageZone<'_>, zone: &Sorted<'_>) -> Option<String> {
        let serial = audit::serial(zone);
        if served.serial() != Ok(serial) || !self.was_updated(zone.apex(), serial) {
            return None;
        }
        // What is damaged cannot be compared, and could not go on as it was.
        let is_other = compare(served, zone, CHANGE_OCTETS_MAX).is_ok_and(|diff| diff.is_none_or(|d| !d.is_empty()));
        let why =
            || format!("updates have had another version served under the serial {serial}: give the file a later one");
        is_other.then(why)
    }

    /// Whether what is served of a zone of a file under this serial is what updates have left.
    fn was_updated(&self, apex: &[u8], serial: u32) -> bool {
        !self.is_journaled(apex)
            && ledger::has_left(&self.data_dir, apex)
            && !ledger::is_overtaken(&self.data_dir, apex, serial)
    }

    /// Remembers that a zone has come: a change without a difference.
    pub fn begin(&self, zone: &Sorted<'_>) {
        if !self.is_journaled(zone.apex()) {
            self.changes().keep(zone.apex(), Diff::default().at(audit::serial(zone)));
        }
    }

    fn remember(&self, served: &ImageZone<'_>, zone: &Sorted<'_>) {
        let room = CHANGE_OCTETS_MAX - self.changes().octets.min(CHANGE_OCTETS_MAX);
        // A change without a difference that fits is a gap in the history, and is found to be one there.
        match compare(served, zone, room) {
            Ok(Some(diff)) => self.note(zone.apex(), diff),
            Ok(None) => {
                let serial = audit::serial(zone);
                self.overtake(zone.apex(), serial);
                self.changes().unnumbered.insert(zone.apex().into(), served.serial() == Ok(serial));
            }
            Err(_) => self.overtake(zone.apex(), audit::serial(zone)),
        }
    }

    /// A version passes. That is written down with what it changes: nobody waits here for a disk.
    fn overtake(&self, apex: &[u8], serial: u32) {
        if !self.is_journaled(apex) && ledger::has_left(&self.data_dir, apex) {
            self.changes().overtaken.insert(apex.into(), serial);
        }
    }

    /// Remembers what a version changes that passed.
    pub fn note(&self, apex: &[u8], diff: Diff) {
        if diff.is_empty() || self.is_journaled(apex) {
            return;
        }
        self.overtake(apex, diff.to);
        let mut changes = self.changes();
        changes.unnumbered.insert(apex.into(), numbering::is_unnumbered(&diff));
        changes.keep(apex, diff);
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        hold(&self.changes)
    }

    /// What the versions that passed change, but for `unfit`; asked when they are served, or will be at once. A start that finds them served by
    /// no image has them pass again.
    pub fn take(&self, unfit: &HashSet<&[u8]>) -> impl Iterator<Item = (Box<[u8]>, Diff)> {
        let overtaken = std::mem::take(&mut self.changes().overtaken);
        let overtaken = overtaken.iter().filter(|(apex, _)| !unfit.contains(&***apex));
        overtaken.for_each(|(apex, serial)| ledger::overtake(&self.data_dir, apex, *serial));
        let mut changes = self.changes();
        changes.octets = 0;
        changes.unnumbered.retain(|apex, _| !unfit.contains(&**apex));
        let mut diffs = std::mem::take(&mut changes.diffs);
        diffs.retain(|apex, _| !unfit.contains(&**apex));
        diffs.into_iter()
    }

    /// True if all that passed was little enough to be remembered.
    pub fn remembers(&self) -> bool {
        let changes = self.changes();
        !changes.is_more && changes.unnumbered.keys().all(|apex| changes.diffs.contains_key(apex))
    }

    /// True if something passed that a start would hold, and that no history tells.
    pub fn passed_untold(&self) -> bool {
        self.changes().is_more
    }

    /// Forgets what versions change that are not served after all.
    pub fn forget(&self) {
        *self.changes() = Changes::default();
    }

    /// Whether those that were taken have new serials; asked when somebody can be told.
    pub fn take_unnumbered(&self) -> HashMap<Box<[u8]>, bool> {
        std::mem::take(&mut self.changes().unnumbered)
    }
}

/// What others have sent first, and is not what they have made a digest of (RFC 8976 section 4). A file of the operator's is served.
fn unbelieved(version: &Version<'_, '_>) -> Option<String> {
    let wrong = version.report.findings.iter().find(|finding| finding.fault == Fault::Zonemd)?;
    Some(format!("{HELD}{}", wrong.text()))
}

fn is_other(served: &ImageZone<'_>, version: &Version<'_, '_>) -> bool {
    !(served.records() == Ok(version.report.records) && served.serial() == Ok(audit::serial(version.zone)))
}

/// What is said of a zone that goes on as it was.
pub fn goes_on(why: &str) -> String {
    match why.strip_prefix(HELD) {
        Some(why) => format!("{HELD}it goes on as it was; the new version: {why}"),
        None => format!("it goes on as it was: {why}"),
    }
}

/// Why a new version is held, of what is wrong with a zone.
pub fn why(what: &str) -> Option<&str> {
    what.strip_prefix(HELD)
}

pub fn is_held(what: &str) -> bool {
    why(what).is_some()
}

/// True if only guards stand in the way.
pub fn may_pass(what: &str) -> bool {
    is_held(what) && !what.contains(UNFIT)
}

/// What is said of a version that is not to be served, whatever the guards are: it is held where there is one before it.
pub fn refused(served: Option<&Image<Stretch>>, apex: &[u8], why: String) -> String {
    let is_there = served.is_some_and(|image| laying::zone(image.view(), apex).is_some());
    if is_there { format!("{HELD}{UNFIT}{why}") } else { why }
}

/// What can be done about what is said of a zone.
pub fn advice(zone: &str, what: &str) -> String {
    let [look, publish] = commands(zone);
    if may_pass(what) { format!("; see `{look}`, and have it served by `{publish}`") } else { String::new() }
}

/// That show what a version would change, and have it served.
fn commands(zone: &str) -> [String; 2] {
    [format!("dunlin ctl zone diff {zone}"), format!("dunlin ctl zone publish --force {zone}")]
}

/// Tells the operator of a version that is held.
pub fn tell(apex: &[u8], what: &str) {
    let zone = name(apex).to_string();
    let [look, publish] = commands(&zone);
    let facts: [(&str, &dyn std::fmt::Display); 4] =
        [("zone", &zone), ("why", &what), ("look", &look), ("publish", &publish)];
    let told = if what.contains(UNFIT) { &facts[..3] } else { &facts };
    log::error("a new version of a zone is held", told);
}
