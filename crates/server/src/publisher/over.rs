//! Zones that have changed, laid over the image that is served.

use super::folding::Haste;
use super::{Apexes, NAMED_MAX, Publisher, said};
use crate::config::{Config, Seen, Written, Zone};
use crate::images::changes::{Laid, Plan, Ready};
use crate::images::comparison::{self, Difference};
use crate::images::held;
use crate::images::laying;
use crate::images::manifest;
use crate::images::serving::{Access, access, access_after, remark, told, unserved_after};
use crate::images::{self, Remark};
use crate::log;
use crate::publisher::press::{Books, Press};
use crate::state::Event;
use crate::update::ledger;
use crate::update::unwritten::Files;
use crate::zonetext::pieces::Pieces;
use front::{Retired, Zones};
use image::overlay::Overlay;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use store::Stretch;

impl Publisher {
    /// Lays what has changed over the image, if anything has; None: it takes a new one.
    pub(super) fn lay(&mut self, config: &Arc<Config>, wanted: &[String]) -> Result<Option<bool>, Vec<String>> {
        let Some(mut difference) = self.difference(config, wanted)? else { return Ok(None) };
        let seen = difference.seen.take();
        if difference.is_empty() {
            seen.into_iter().for_each(|seen| self.served.see(&seen));
            return Ok(self.serve_to_others(config));
        }
        // Nobody has named it.
        if !wanted.is_empty() && self.forsakes(config) {
            return Ok(None);
        }
        Ok(self.lay_those(config, &difference, seen).then_some(true))
    }

    /// Where there can be no new image: lays what takes none. One zone whose change is large, or that comes below another, is no reason to keep all
    /// others as they were: what cannot be laid together is tried by halves. The complaints, and which zones stay as they are. `was_tried`: all together.
    pub(super) fn lay_apart(
        &mut self,
        config: &Arc<Config>,
        wanted: &[String],
        mut was_tried: bool,
        mut complaints: Vec<String>,
    ) -> Vec<String> {
        if self.forsakes(config) {
            return complaints;
        }
        let difference = self.difference(config, wanted).ok().flatten().filter(|difference| !difference.is_empty());
        let Some(difference) = difference else { return complaints };
        let (mut parts, mut left) = (vec![difference], Apexes::new());
        while let Some(part) = parts.pop() {
            if std::mem::take(&mut was_tried) || !self.lay_those(config, &part, None) {
                // What is not served is no version.
                self.library.gate.forget();
                match part.len() {
                    1 => left.extend(part.apexes().cloned()),
                    _ => parts.extend(part.halves()),
                }
            }
        }
        let named = left.iter().take(NAMED_MAX).map(|apex| images::name(apex).to_string());
        complaints.extend(named.map(|zone| said(&zone, "it stays as it was until there is a new image")));
        let more = left.len().saturating_sub(NAMED_MAX);
        complaints.extend((more > 0).then(|| format!("so do {more} more zones")));
        complaints
    }

    /// What is to be served otherwise. None: the manifest cannot say.
    fn difference(&mut self, config: &Config, wanted: &[String]) -> Result<Option<Difference>, Vec<String>> {
        let takes_list = self.takes_list(config);
        let compared = match wanted {
            [] => comparison::of_all(&config.roster, &mut self.served.manifest, takes_list),
            names => comparison::of_named(&config.roster, &self.served.manifest, names, self.by.is_asked),
        };
        let mut difference = match compared {
            Ok(difference) => difference,
            Err(comparison::Hindrance::Manifest) => return Ok(None),
            Err(comparison::Hindrance::Roster(complaints)) => return Err(told(&complaints)),
        };
        let outdated = self.outdated(difference.anew.iter());
        let outdated = difference.anew.extract_if(.., |zone| outdated.contains(&zone.apex));
        let complaints: Vec<String> = outdated.filter_map(|zone| self.put_right(config, &zone).err()).collect();
        if !complaints.is_empty() && !wanted.is_empty() {
            return Err(complaints);
        }
        complaints.iter().for_each(|why| log::error("reload", &[("why", why)]));
        let judged_anew = self.judged_anew(config, wanted, &difference);
        self.judges_anew = !judged_anew.is_empty();
        difference.anew.extend(judged_anew);
        Ok(Some(difference))
    }

    /// False: it takes a new image. `seen`: what names zones, where that was looked at.
    fn lay_those(&mut self, config: &Arc<Config>, difference: &Difference, seen: Option<Seen>) -> bool {
        let about: Apexes = difference.apexes().cloned().collect();
        // Before their new files are read: until then somebody may have changed them, under the serial that these are given.
        let Ok(left) = self.write_those_left(config, &about) else { return false };
        let now = self.press.current();
        let Some(plan) = self.plan(&now, config, difference) else { return false };
        // What is much is laid out and judged here, where no update waits for it.
        let stage = if plan.is_little() { Some(Err(plan)) } else { Ready::of(&now.image, plan).map(Ok) };
        drop(now);
        let Some(stage) = stage else { return false };
        let (written, by, kept) = (self.served.written.clone(), Arc::clone(config), left.clone());
        let state = Arc::clone(&self.state);
        let _unrecorded = state.unrecorded.begin();
        let pressed =
            self.press.have_done(move |press, books| pressed(press, books, &about, &kept, stage, &written, &by));
        let Some(pressed) = pressed else { return false };
        self.have_laid(config, difference, &left, pressed, seen);
        true
    }

    /// What was laid is served from now on. `left`: as `write_those_left` has it; `seen`: what names zones, where that was looked at.
    fn have_laid(
        &mut self,
        config: &Arc<Config>,
        difference: &Difference,
        left: &HashMap<Box<[u8]>, u64>,
        pressed: Pressed,
        seen: Option<Seen>,
    ) {
        let Pressed { before, entries, remarks, pieces, zones, retired, rest } = pressed;
        drop(rest);
        let problems = Arc::clone(&self.served.problems);
        let said = remark(remarks, &self.served.said);
        self.served.said.retain(|r| entries.iter().all(|entry| entry.apex != r.apex));
        self.served.said.extend(said);
        if let Some(folders) = &self.state.folders {
            difference.gone.iter().for_each(|apex| folders.lay_none(apex));
            let zones: Vec<_> =
                entries.iter().filter(|entry| folders.lay(entry)).map(|e| images::name(&e.apex).to_string()).collect();
            // Somebody may have edited what they include just before it was watched.
            if !zones.is_empty() {
                self.state.raise(Event::Changed { zones });
            }
        }
        // The version before is in no file any more; and no history leads to it from an image that has nothing of the zone.
        let manifest = &self.served.manifest;
        for alone in entries.iter().filter(|entry| entry.problem.is_some() && manifest.is_over(&entry.apex)) {
            let is_in_image = self.served.has_in_image(&zones.image, &alone.apex);
            self.folding.hurry(if is_in_image { Haste::Soon } else { Haste::Now });
        }
        // Of those that are served as updates have made them their journal is needed until an image has that.
        let are_held: HashSet<&[u8]> = entries.iter().filter(|e| e.problem.is_some()).map(|e| &*e.apex).collect();
        if left.keys().any(|apex| are_held.contains(&**apex)) {
            self.folding.hurry(Haste::Now);
        }
        let over = left.keys().filter(|apex| !are_held.contains(&***apex));
        let over: Vec<_> = over.filter_map(|apex| self.written.remove_entry(apex)).collect();
        self.settle(Files::new(over.into_iter()));
        let written = &config.roster.written;
        let has_come =
            |zone: &Zone| written.find(&zone.apex).is_some() && self.served.manifest.find(&zone.apex).is_none();
        let are_some = seen.is_none() && difference.anew.iter().any(has_come);
        self.served.take(&before.image, &zones.image, &entries, &difference.gone);
        if are_some {
            self.served.manifest.seen.is_none_of(written);
        }
        pieces.into_iter().for_each(|(apex, pieces)| self.served.pieces.put(apex, pieces));
        drop(before);
        seen.into_iter().for_each(|seen| self.served.see(&seen));
        self.served.written = config.roster.written.clone();
        self.served.generation += 1;
        drop(zones);
        self.is_published(retired);
        // Before others are told of it: a kill would leave a version that secondaries have, and whose serial nobody knows.
        self.record();
        self.tell_gone(&difference.gone);
        self.state.secondaries.iter().for_each(|s| difference.apexes().for_each(|apex| s.has_changed(apex)));
        self.tell_problems(&problems);
        self.folding.lay(config, Instant::now());
        if self.library.gate.passed_untold() {
            self.folding.hurry(Haste::Soon);
        }
    }

    /// Nothing differs but, perhaps, whom zones are for. None: it takes a new image.
    fn serve_to_others(&mut self, config: &Config) -> Option<bool> {
        let has_their_lists = self.served.written.is(&config.roster.written);
        if !has_their_lists && !self.knows_whom_for(config) {
            return None;
        }
        let is_for_others = !has_their_lists && self.admit(config);
        self.served.written = config.roster.written.clone();
        Some(is_for_others)
    }

    /// Whether it is known of all that is served whom it is for.
    pub(super) fn knows_whom_for(&self, config: &Config) -> bool {
        // Of an image that is damaged not all zones are found.
        !self.forsakes(config) && self.press.current().image.is_whole()
    }

    /// Serves what is served to whom it is for now. False: it was for the same before.
    pub(super) fn admit(&mut self, config: &Config) -> bool {
        let now = self.press.current();
        let access = access(&now.image, config);
        if access == Access::of(&now) {
            return false;
        }
        drop(now);
        // Updates may have laid something over it meanwhile; zones come and go on this thread alone.
        let retired = self.press.have_done(move |press, _| {
            let now = press.current();
            let image = now.image.changed(now.image.bytes().clone(), now.image.header().clone());
            press.publish(access.to(image, Arc::clone(&now.unserved)))
        });
        self.served.generation += 1;
        self.is_published(retired);
        true
    }

    /// Zones of which a version is held that guards hold no more, or by other numbers, and those that are given their serials in another way.
    pub(super) fn judged_anew(&self, config: &Config, wanted: &[String], difference: &Difference) -> Vec<Zone> {
        let written = &config.roster.written;
        let numbering = |all: &Written, apex: &[u8]| all.find(apex).map(|zone| zone.numbering).unwrap_or_default();
        let is_numbered_so = |was: &Written, apex: &[u8]| numbering(was, apex) == numbering(written, apex);
        let is_weighed_so = |apex: &[u8]| {
            let weighed = self.weighed.as_ref();
            weighed.is_some_and(|w| w.guards == config.guards && is_numbered_so(&w.written, apex))
        };
        let asked = &self.by.wanted;
        let may_pass = |p: &&images::Problem| {
            held::may_pass(&p.what) && (!is_weighed_so(&p.apex) || !self.library.gate.guards(&p.apex))
        };
        let mut anew: HashSet<&[u8]> = self.served.problems.iter().filter(may_pass).map(|p| &*p.apex).collect();
        if !wanted.is_empty() {
            anew.retain(|apex| asked.contains(*apex));
        }
        let is_other_now = |apex: &&[u8]| self.weighed.as_ref().is_some_and(|w| !is_numbered_so(&w.written, apex));
        let has_other_zones = self.weighed.as_ref().is_some_and(|w| !w.written.is(written));
        match wanted {
            _ if !has_other_zones => {}
            [] => anew.extend(written.iter().map(|zone| &*zone.apex).filter(is_other_now)),
            _ => anew.extend(asked.iter().map(|apex| &**apex).filter(is_other_now)),
        }
        let known: HashSet<&[u8]> = difference.apexes().map(|apex| &**apex).collect();
        let zone = |apex: &[u8]| {
            let served = || self.served.manifest.find(apex).map(|known| Zone::new(apex.into(), known.file.into()));
            written.find(apex).cloned().or_else(served)
        };
        let anew = anew.into_iter().filter(|apex| !known.contains(*apex)).filter_map(zone);
        anew.filter(|zone| !zone.is_journaled()).collect()
    }

    /// Zones that belong to their updates no more take along what these have changed of them: of those among these that is written. Which these are, and
    /// where the journal ended then.
    fn write_those_left(
        &mut self,
        config: &Config,
        about: &[Box<[u8]>],
    ) -> Result<HashMap<Box<[u8]>, u64>, Vec<String>> {
        let (data_dir, manifest) = (&config.server.data_dir, &self.served.manifest);
        let is_ours =
            |apex: &[u8]| manifest.find(apex).is_some_and(|known| ledger::is_file_of(data_dir, apex, known.file));
        let is_owned = |apex: &[u8]| config.roster.written.find(apex).is_some_and(Zone::is_owned);
        let left = about.iter().filter(|apex| is_ours(apex) && !is_owned(apex));
        let left: HashSet<Box<[u8]>> = left.cloned().collect();
        if left.is_empty() {
            return Ok(HashMap::new());
        }
        let wanted = left.clone();
        self.write_files(config, move |apex| wanted.contains(apex))?;
        Ok(left.into_iter().map(|apex| (apex.clone(), self.written.get(&apex).copied().unwrap_or(0))).collect())
    }

    /// How what is different is laid. Files are read for it, while updates go on.
    fn plan(&mut self, now: &Zones<Stretch>, config: &Config, difference: &Difference) -> Option<Plan> {
        // A zone that comes and goes has another number each time.
        let numbers = (now.image.header().zones as usize).saturating_sub(self.served.manifest.zones());
        let changes = difference.anew.len() + difference.gone.len();
        let names = now.image.view().overlay().map_or(0, Overlay::names);
        let has_room =
            self.served.manifest.has_room(changes) && numbers <= manifest::OVER_MAX && names <= laying::NAMES_MAX;
        if !has_room {
            return None;
        }
        let plan = Plan::of(&now.image, difference, &self.library, &self.served.pieces, &mut self.recorder)?;
        let manifest = &self.served.manifest;
        let has_come = |zone: &&Zone| laying::zone(now.image.view(), &zone.apex).is_none();
        // Of one of `[[zone]]` the configuration says where it lies, as long as it is to be served.
        let file = |zone: &Zone| config.roster.written.find(&zone.apex).is_none().then(|| zone.file.clone());
        let come = difference.anew.iter().filter(has_come).map(|zone| (zone.apex.clone(), file(zone)));
        let gone = difference.gone.iter().map(|apex| (apex.clone(), None));
        let Err(why) = self.library.note_others(manifest.image(), come.chain(gone).collect()) else {
            return Some(plan);
        };
        log::warn("a start will not know which zones have come and gone", &[("why", &why)]);
        // It would compare one that was made anew with what the image has under its name.
        Some(plan).filter(|_| !difference.anew.iter().any(|zone| manifest.has_gone(&zone.apex)))
    }
}

/// What came of laying zones over the image.
struct Pressed {
    before: Arc<Zones<Stretch>>,
    entries: Vec<manifest::Entry>,
    remarks: Vec<Remark>,
    pieces: Vec<(Box<[u8]>, Pieces)>,
    zones: Arc<Zones<Stretch>>,
    retired: Retired<Zones<Stretch>>,
    /// Is let go of where no update waits for it.
    rest: Ready,
}

/// Lays what was read, or laid out already, over what is served now, and has that served. None: it takes a new image. `written`: those whose access
/// lists it has now.
fn pressed(
    press: &Press,
    books: &Books,
    about: &[Box<[u8]>],
    left: &HashMap<Box<[u8]>, u64>,
    stage: Result<Ready, Plan>,
    written: &Written,
    config: &Config,
) -> Option<Pressed> {
    // What updates have changed is not in the file that was read, if it is theirs; and if the zone is theirs no more, that has it before.
    let is_behind = |apex: &[u8]| match left.get(apex) {
        Some(written) => books.unwritten.has_changed_since(apex, *written),
        None => books.unwritten.is_behind(apex),
    };
    if about.iter().any(|apex| is_behind(apex)) {
        return None;
    }
    let before = press.current();
    let mut rest = stage.map_or_else(|plan| Ready::of(&before.image, plan), Some)?;
    let Laid { image, entries, remarks, pieces } = rest.lay(&before.image)?;
    let access = access_after(&before, written, &image, about, config);
    let unserved = unserved_after(&before, &image, about, &entries);
    let retired = press.publish(access.to(image, unserved));
    Some(Pressed { before, entries, remarks, pieces, zones: press.current(), retired, rest })
}
