//! A new image of all zones, in the place of the one that is served; and what is done so that nobody waits for a page of it.

use super::by::record;
use super::{Apexes, Publisher};
use crate::config::{Config, Seen, Zone};
use crate::history::Recorder;
use crate::images::comparison;
use crate::images::manifest;
use crate::images::serving::{Access, ready, told};
use crate::images::sound::Sound;
use crate::images::{self, Before, Beforehand};
use crate::log;
use crate::publisher::jobs::Why;
use crate::secondaries::Secondaries;
use crate::stamp::Looks;
use crate::update::ledger;
use crate::update::unwritten::{Files, Shared, Wish};
use front::Zones;
use image::Image;
use std::collections::HashSet;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Instant;
use store::{Backing, Map, Stretch};

/// How much of an image is touched between two looks at whether there is something else to do.
const SLICE: usize = 16 << 20;
/// Images below this are not worth huge pages.
const HUGE_FROM: usize = 8 << 20;
/// So many zones whose files cannot be written do not keep the others from a new image.
const UNWRITTEN_MAX: usize = 10;
/// So many zones are written page by page.
const SOME: usize = 16;
/// Tries to make an image that fits what updates change while it is made.
const TRIES: usize = 3;

impl Publisher {
    /// Finds or builds the image of all zones; true if another one is served now.
    pub(super) fn rebuild(&mut self, config: &Arc<Config>, why: Why) -> Result<bool, Vec<String>> {
        let outcome = self.rebuilt(config, why);
        self.folding.have_built(config, outcome.is_ok(), Instant::now());
        match outcome {
            Ok(_) => self.recorder.forget(),
            // What is not served is no version.
            Err(_) => self.library.gate.forget(),
        }
        outcome
    }

    fn rebuilt(&mut self, config: &Config, why: Why) -> Result<bool, Vec<String>> {
        let (zones, seen) = self.zones(config, why)?;
        // A zone that goes, or belongs to its file again, takes along what updates have changed of it.
        let written = config.roster.written.clone();
        self.write_files(config, move |apex| !written.find(apex).is_some_and(Zone::is_owned))?;
        // What is damaged is not to be written down; then all files are read.
        let is_sound = why != Why::Damaged && self.press.current().image.is_whole();
        let stay = if is_sound { self.put_all_right(config, &zones) } else { Apexes::new() };
        let gone = self.served.manifest.beside(zones.iter().map(|zone| &*zone.apex)).unwrap_or_default();
        let mut is_over = Err(vec![]);
        for _ in 0..TRIES {
            is_over = self.build(config, &zones, &stay, &seen, why)?;
            match &is_over {
                Ok(_) => {
                    self.tell_gone(&gone);
                    break;
                }
                Err(zones) => {
                    let zones = zones.clone();
                    self.write_files(config, move |apex| zones.is_empty() || zones.iter().any(|z| **z == *apex))?
                }
            }
        }
        is_over.map_err(|zones| vec![format!("no image keeps up with the updates of {}", images::names(&zones))])
    }

    /// No image is made of files of ours that are older than what is served. Returns zones of which such a one stays, for it cannot be written.
    fn put_all_right(&mut self, config: &Config, zones: &[Zone]) -> Apexes {
        let (mut looks, mut stay) = (Looks::default(), Apexes::new());
        let mut is_other = |zone: &&Zone| {
            let known = self.served.manifest.find(&zone.apex);
            !self.written.contains_key(&zone.apex) && known.is_some_and(|known| !known.is_current(&mut looks))
        };
        let others: Vec<&Zone> = zones.iter().filter(|zone| zone.is_journaled() && is_other(zone)).collect();
        let outdated = self.outdated(others.iter().copied());
        for zone in others.into_iter().filter(|zone| outdated.contains(&zone.apex)) {
            match self.put_right(config, zone) {
                Ok(position) => _ = self.written.insert(zone.apex.clone(), position),
                Err(why) => {
                    log::error("reload", &[("why", &why)]);
                    stay.push(zone.apex.clone());
                }
            }
        }
        stay
    }

    /// Those of these zones in the place of whose file of ours somebody has put another one, as from a backup.
    pub(super) fn outdated<'z>(&self, zones: impl Iterator<Item = &'z Zone>) -> HashSet<Box<[u8]>> {
        let manifest = &self.served.manifest;
        let is_ours = |zone: &&Zone| {
            zone.is_journaled() && manifest.find(&zone.apex).is_some_and(|known| known.file == zone.file)
        };
        let said = |zone: &Zone| match ledger::position_of(&zone.file) {
            Ok(position) => Some((zone.apex.clone(), Some(position))),
            Err(e) if e.kind() == ErrorKind::InvalidData => Some((zone.apex.clone(), None)),
            // Where it is gone the zone begins anew.
            Err(_) => None,
        };
        let asked: Vec<_> = zones.filter(is_ours).filter_map(said).collect();
        if asked.is_empty() {
            return HashSet::new();
        }
        self.press.have_done(move |_, books| {
            let is_outdated = |(apex, said): &(Box<[u8]>, _)| books.unwritten.is_outdated(apex, *said);
            asked.into_iter().filter(is_outdated).map(|(apex, _)| apex).collect()
        })
    }

    /// Writes such a file anew: what is served, and what is owed, has all that its zone's updates have made. Returns which position it names then.
    pub(super) fn put_right(&self, config: &Config, zone: &Zone) -> Result<u64, String> {
        let facts: [(&str, &dyn std::fmt::Display); 2] =
            [("zone", &images::name(&zone.apex)), ("file", &zone.file.display())];
        log::warn("a file in data-dir is not what its zone's updates have made, and is written anew", &facts);
        let apex = zone.apex.clone();
        let (now, behind, end) = self.behind(move |behind| *behind == *apex);
        let names = behind.wishes().pop().map(|wish| wish.names).unwrap_or_default();
        let doubted = now.image.doubted();
        let written = ledger::write(&config.server.data_dir, &Sound::as_known(&doubted), &zone.apex, &names, end);
        let written =
            written.and_then(|is_served| is_served.then_some(end).ok_or_else(|| Error::other("it is not served")));
        written.map_err(|e| format!("the zone {} is not written: {e}", images::name(&zone.apex)))
    }

    /// What is served, what these zones' files do not hold of it, and where the journal ends.
    fn behind(&self, is_wanted: impl Fn(&[u8]) -> bool + Send + 'static) -> (Arc<Zones<Stretch>>, Shared, u64) {
        self.press.have_done(move |press, books| {
            (press.current(), books.unwritten.since_of(0, &is_wanted), books.unwritten.end())
        })
    }

    /// The zones that an image is to be made of, and what names them. Where that is wrong those that are served will do for one that
    /// only holds these as they should be: what somebody has written into a folder is no reason to keep others' updates from it.
    fn zones(&self, config: &Config, why: Why) -> Result<(Vec<Zone>, Seen), Vec<String>> {
        let (wanted, none) = (&self.by.wanted, HashSet::new());
        let wanted = if self.by.is_asked { wanted } else { &none };
        let complaints = match comparison::named(&config.roster, &self.served.manifest, self.takes_list(config), wanted)
        {
            Ok(named) => return Ok(named),
            Err(comparison::Hindrance::Manifest) => vec![manifest::Damaged.to_string()],
            Err(comparison::Hindrance::Roster(complaints)) => told(&complaints),
        };
        // Nor does what was wished of some zones.
        let is_of_all = self.by.wanted.is_empty() && !matches!(why, Why::Fold | Why::Damaged);
        if is_of_all || self.forsakes(config) {
            return Err(complaints);
        }
        complaints.iter().for_each(|c| log::error("reload", &[("why", c)]));
        let written = &config.roster.written;
        let mut zones = written.to_vec();
        zones.retain(|zone| !zone.is_awaited() || self.served.manifest.has(zone));
        for known in self.served.manifest.part(0, 1) {
            let known = known.map_err(|damaged| vec![damaged.to_string()])?;
            let is_other = written.find(known.apex).is_none();
            zones.extend(is_other.then(|| Zone::new(known.apex.into(), known.file.into())));
        }
        Ok((zones, self.served.manifest.seen.clone()))
    }

    /// Whether the list counts as it is now: somebody wants that of all, or a zone would be served to whom it is not for.
    pub(super) fn takes_list(&self, config: &Config) -> bool {
        self.by.is_asked && self.by.wanted.is_empty() || self.forsakes(config)
    }

    /// Err within: the image does not take what updates have changed of these zones; of all if none is named.
    fn build(
        &mut self,
        config: &Config,
        zones: &[Zone],
        stay: &Apexes,
        seen: &Seen,
        why: Why,
    ) -> Result<Result<bool, Apexes>, Vec<String>> {
        let (now, mut written) = (self.press.current(), std::mem::take(&mut self.written));
        let Publisher { library, recorder, state, by, served, .. } = &mut *self;
        // A kill behind that would leave a version that nobody knows the way to.
        let mut note = |recorder: &mut Recorder, entries: &[manifest::Entry]| {
            let unfit = entries.iter().filter(|e| e.problem.is_some()).map(|e| &*e.apex).collect();
            record(recorder, state, &library.gate, &unfit, by);
        };
        // Files of ours are as they were written for this image.
        let is_of_all = by.wanted.is_empty() && why != Why::Fold;
        // What another version of the program has made of a file is made anew of it; what somebody has changed since waits until he asks for it.
        let is_of_others = !served.manifest.is_of_this_program();
        let is_as_ever = |zone: &Zone| {
            let known = served.manifest.find(&zone.apex).filter(|known| known.file == zone.file);
            known.is_some_and(|known| known.is_current(&mut Looks::default()))
        };
        let is_asked = |zone: &Zone| {
            is_of_all || zone.is_journaled() || by.wanted.contains(&zone.apex) || is_of_others && is_as_ever(zone)
        };
        let is_wanted = |zone: &Zone| is_asked(zone) && !stay.contains(&zone.apex);
        let before = Before { image: &now.image, manifest: &served.manifest };
        let beforehand = Beforehand { recorder, note: &mut note };
        let found = match why {
            // The same file would be mapped once more, and believed.
            _ if why == Why::Damaged || !now.image.is_whole() => {
                library.again(zones, &|_| true, seen, before, beforehand)
            }
            // What another version of the program has held, or found wrong, is weighed by this one.
            _ if why == Why::Forced || is_of_others => library.again(zones, &is_wanted, seen, before, beforehand),
            _ => library.current(zones, &is_wanted, seen, before, beforehand),
        };
        let was_laid_over = now.image.header().overlay.is_some();
        let (access, unserved) = (Access::of(&now), Arc::clone(&now.unserved));
        drop(now);
        self.state.set_no_new_image(found.as_ref().err().map(ToString::to_string));
        let shelved = match found {
            Ok(shelved) => shelved,
            Err(e) => {
                // A disk that is full is no reason to go on serving zones to others than they are for now.
                if self.knows_whom_for(config) {
                    self.admit(config);
                }
                return Err(vec![format!("no new image, the old one stays: {e}")]);
            }
        };
        let (zones, mut serving) = ready(shelved, config, self.served.generation + 1, self.served.said.clone());
        // What is laid over an image is not in the image.
        let is_other = serving.manifest.image() != self.served.manifest.image() || was_laid_over;
        let changed = is_other || Access::of(&zones) != access || zones.unserved != unserved;
        let before = Arc::clone(&self.served.problems);
        // What updates have changed of a zone whose file below data-dir could not be read is laid over the image. Of one that is theirs no more, and
        // whose version is held, what is served is in the image; what is owed was not.
        let mut as_served: Vec<_> = serving.problems.iter().map(|p| p.apex.clone()).collect();
        as_served.retain(|apex| written.contains_key(apex));
        if !as_served.is_empty() {
            let owed = self.press.have_done(|_, books| books.owed.clone());
            let is_theirs = |apex: &[u8]| config.roster.written.find(apex).is_some_and(Zone::is_owned);
            as_served.retain(|apex| is_theirs(apex) || owed.contains(apex));
            as_served.iter().for_each(|apex| _ = written.remove(apex));
        }
        self.settle(Files::new(written.into_iter()));
        if changed {
            prefault(zones.image.bytes().map());
            match self.press.replace(zones) {
                Ok(retired) => {
                    self.served = serving;
                    self.is_published(retired);
                    self.state.secondaries.iter().for_each(Secondaries::have_changed);
                }
                Err(unlaid) => {
                    log::info("the new image does not take what has changed meanwhile", &[("why", &unlaid.why)]);
                    return Ok(Err(unlaid.zones));
                }
            }
            self.warm();
        } else {
            (serving.generation, serving.huge_bytes) = (self.served.generation, self.served.huge_bytes);
            self.served = serving;
        }
        self.recorder.follow(self.served.manifest.history());
        self.tell_problems(&before);
        Ok(Ok(changed))
    }

    /// Updates wait for some of it only.
    pub(super) fn settle(&self, mut written: Files) {
        while !written.is_empty() {
            written = self.press.have_done(move |_, books| {
                books.unwritten.settle(&mut written);
                written
            });
        }
    }

    /// Writes the files of those zones that updates have changed, for the next image to be made of them.
    pub(super) fn write_files(
        &mut self,
        config: &Config,
        is_wanted: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> Result<(), Vec<String>> {
        let (now, behind, end) = self.behind(is_wanted);
        let wishes = behind.wishes();
        if wishes.is_empty() {
            return Ok(());
        }
        // For some zones not all pages are compared, but those that are read.
        let doubted = now.image.doubted();
        let sound = if wishes.len() <= SOME { Sound::as_known(&doubted) } else { Sound::compared(&now.image) };
        let all = wishes.len();
        let mut unwritten = vec![];
        for Wish { apex, names } in wishes {
            match ledger::write(&config.server.data_dir, &sound, &apex, &names, end) {
                Ok(true) => _ = self.written.insert(apex, end),
                Ok(false) => {}
                Err(e) => {
                    unwritten.push(format!("the zone {} is not written: {e}", images::name(&apex)));
                    // What updates have changed of it is laid over the image as before, and others have nothing to do with it. One that goes is lost.
                    let stays = config.roster.written.find(&apex).is_some_and(Zone::is_owned);
                    if !stays || unwritten.len() == all.min(UNWRITTEN_MAX) {
                        self.state.set_no_new_image(Some(unwritten.join("; ")));
                        return Err(unwritten);
                    }
                }
            }
        }
        unwritten.iter().for_each(|why| log::error("reload", &[("why", why)]));
        Ok(())
    }

    /// Touches all of the image, so that no answering thread waits for a disk; where the file cannot have huge pages,
    /// serves a copy in memory that can. Looks at the files that it was made of, so that no reload has to look at all of them.
    pub(super) fn warm(&mut self) {
        let (now, _) = self.shared.published.current();
        let map = now.image.bytes().map();
        prefault(map);
        let few = |map: &Map| map.huge_bytes().unwrap_or(0) < map.len() / 2;
        // The copy would be of the file, with what updates have changed, but without changes of other files.
        let is_bare = self.served.manifest.changes() == 0;
        if map.len() >= HUGE_FROM && map.backing() == Backing::File && is_bare && few(map) {
            self.copy(&now);
        }
        drop(now);
        let (now, _) = self.shared.published.current();
        self.served.huge_bytes = now.image.bytes().map().huge_bytes().unwrap_or(0) as u64;
        drop(now);
        self.tell();
        comparison::beforehand(&mut self.served.manifest);
    }

    fn identity(&self) -> (u64, u64) {
        let image = self.served.manifest.image();
        (image.size, image.seed)
    }

    fn copy(&mut self, now: &Zones<Stretch>) {
        let image = Map::copy_to_memory(&self.served.file, images::ROOM)
            .map(|map| Image::open_to_serve(Stretch::of(map), images::faults));
        match image {
            Ok(Ok(image)) if images::identity(&image) == self.identity() => {
                match self.press.replace(now.with(image)) {
                    Ok(retired) => self.retired.push(retired),
                    Err(unlaid) => log::info("the image stays on small pages", &[("why", &unlaid.why)]),
                }
                self.wakes.iter().for_each(|w| w.ring());
            }
            Ok(_) => log::warn("the image on disk is not the one that is served", &[]),
            Err(e) => log::info("the image stays on small pages", &[("why", &e)]),
        }
    }
}

/// Touches every page, slice by slice.
fn prefault(map: &Map) {
    let mut at = 0;
    while at < map.len() {
        at = map.prefault(at, SLICE);
    }
}
