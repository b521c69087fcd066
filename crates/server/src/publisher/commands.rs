//! What an operator wishes of one zone: to see what its file would change, to have an old version back, and to add, change or remove
//! one that commands keep. What a command writes into a file stays only if it is served.

use super::{By, Publisher};
use crate::config::{Config, Zone, inode};
use crate::history::{self, Past};
use crate::images;
use crate::images::numbering::{may_be_numbered, numbered};
use crate::images::sound;
use crate::json::Json;
use crate::kept::{Kept, Order};
use crate::log;
use crate::publisher::jobs::Why;
use crate::scribe::edited::{self, Edit};
use crate::scribe::origin::{self, Base, Origin};
use crate::zonetext::reading::{self, Stock};
use image::Zone as ImageZone;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use transfer::Diff;
use wire::Name;

impl Publisher {
    /// What the file of a zone would change of what is served.
    pub(super) fn look(&mut self, config: &Config, wanted: &[String]) -> Result<Json, String> {
        let zone = &self.configured(config, wanted)?;
        if zone.is_owned() {
            return self.look_at_edit(config, zone);
        }
        let (now, recorder) = (self.press.current(), &mut self.recorder);
        let end = |apex: &[u8]| recorder.last_serial(apex);
        let zone = std::slice::from_ref(zone);
        let zone = &*numbered(zone, Some(&now.image), &self.library, may_be_numbered, end);
        let [zone] = zone else { return Err("no zone is named".to_string()) };
        let stock = Stock::below(self.library.data_dir());
        let mut builder = stock.builder();
        builder.begin_zone(&zone.apex);
        let read = reading::one(zone, &stock, &mut builder);
        let read = read.map_err(|unread| unread.text(zone))?;
        if let Some(wrong) = read.report.first_error() {
            return Err(wrong);
        }
        history::with_zone(&self.shared.published, &zone.apex, |served| {
            let mut found = Ok(Json::Null);
            builder.show(&mut |sorted| found = history::json_between(&zone.apex, served, sorted))?;
            found.map_err(|_| sound::DAMAGED.to_string())
        })
    }

    /// What the edited file of a zone that updates own would change.
    fn look_at_edit(&self, config: &Config, zone: &Zone) -> Result<Json, String> {
        let past = self.past(config);
        let file = Zone::new(zone.apex.clone(), zone.origin().into());
        if file.file.symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound) {
            return Err(format!("{} is not there: nobody has edited it", file.file.display()));
        }
        let origin = Origin::of(&past.data_dir, &zone.apex).map_err(|e| e.to_string())?;
        let base = origin.edited(&file.file).ok_or("it is not known which version of the zone its file was made of")?;
        match edited::edit(&past, &file, &base, None, &mut |_, _| {}) {
            Ok(Edit { diff: Some(diff), .. }) => Ok(history::json(&zone.apex, &diff)),
            Ok(Edit { diff: None, .. }) => history::with_zone(&past.published, &zone.apex, |served| {
                let serial = served.serial().map_err(|damaged| sound::damaged(damaged).to_string())?;
                Ok(history::json(&zone.apex, &Diff::new(serial, serial, vec![], vec![])))
            }),
            Err(hindrance) => Err(hindrance.why()),
        }
    }

    /// Writes an old version into the file of a zone, under a new serial, and serves it.
    pub(super) fn go_back(
        &mut self,
        config: &Arc<Config>,
        wanted: &[String],
        serial: u32,
    ) -> Result<Json, Vec<String>> {
        let known = self.configured(config, wanted).map_err(|why| vec![why])?;
        let was = origin::stamp(&known.file);
        if !known.is_secondary() && !known.is_owned() {
            self.catch_up(config, wanted)?;
        }
        // What names it may have been edited, too.
        let zone = &self.configured(config, wanted).map_err(|why| vec![why])?;
        let shared = self.shares(config, zone).map_err(|why| vec![why])?;
        let whose = match self.served.problems.iter().find(|p| p.apex == zone.apex) {
            _ if zone.is_secondary() => Some("it comes from its primaries, which say what it holds"),
            Some(_) => Some("its file is not what is served: mend it, or publish it, before you go back"),
            None if zone.is_owned() => Some("it belongs to its updates"),
            None if zone.file != known.file => Some("it is read from another file now; look at it, and say that again"),
            None => None,
        };
        let shared = shared.map(|other| format!("{} is the file of {other}, too", zone.file.display()));
        if let Some(why) = whose.map(str::to_string).or(shared) {
            return Err(vec![format!("the zone {} does not go back: {why}", images::name(&zone.apex))]);
        }
        let past = self.past(config);
        settle(&past, zone, Some(serial));
        let replaced = past
            .write_back(zone, serial, &was)
            .map_err(|why| vec![format!("the zone {} does not go back: {why}", images::name(&zone.apex))])?;
        let outcome = self.reload(config, Why::Back(serial), wanted);
        let ended = match outcome {
            Ok(_) => {
                replaced.settle();
                Ok(())
            }
            Err(_) => replaced.undo(),
        };
        self.end(config, wanted, outcome, ended)
    }

    /// Does what an operator wishes of a zone that is kept by commands, and serves it; or leaves all as it was.
    pub(super) fn keep(
        &mut self,
        config: &Arc<Config>,
        why: Why,
        wanted: &[String],
        order: Option<&Order>,
    ) -> Result<Json, Vec<String>> {
        let ([wanted], Some(order)) = (wanted, order) else {
            return Err(vec!["write the name of one zone".to_string()]);
        };
        let apex = history::named(wanted).map_err(|why| vec![why])?;
        let wanted = &[images::name(&apex).to_string()];
        let mut known = self.configured(config, wanted).ok();
        let was = known.as_ref().map_or(String::new(), |zone| origin::stamp(zone.origin()));
        if let Order::Modify(_) = order {
            // What is changed is what is served: whatever somebody has edited goes along, or nothing is done.
            self.catch_up(config, wanted)?;
            self.fulfilled(wanted)?;
            // The list may name it by now.
            known = self.configured(config, wanted).ok();
            let past = self.past(config);
            let file = Kept::of(&config.server.data_dir, None).file(&apex);
            known.iter().filter(|zone| file.as_deref() == Ok(zone.origin())).for_each(|zone| settle(&past, zone, None));
        }
        let is_guarded = !why.is_forced() && known.as_ref().is_none_or(|zone| zone.is_guarded);
        let kept = Kept::of(&config.server.data_dir, config.guards.filter(|_| is_guarded));
        let written =
            kept.write(&apex, order, known.as_ref(), &was, &self.shared.published).map_err(|why| vec![why])?;
        let outcome = self.refresh(config, why, wanted).and_then(|facts| match order {
            Order::Remove if self.served.manifest.find(&apex).is_none() => Ok(facts),
            Order::Remove => self.fulfilled(wanted).map(|()| facts),
            Order::Add(_) | Order::Modify(_) => {
                // Who has had a text copied knows where that is, and not of the copy, which goes.
                let named = |why: String| match (order, kept.file(&apex)) {
                    (Order::Add(text), Ok(copy)) => {
                        why.replace(&copy.display().to_string(), &text.display().to_string())
                    }
                    _ => why,
                };
                self.fulfilled(wanted).map_err(|why| why.into_iter().map(named).collect::<Vec<_>>())?;
                let is_from = self.served.manifest.find(&apex).map(|known| known.file);
                let other = is_from.filter(|file| kept.file(&apex).is_ok_and(|kept| kept != *file));
                other.map_or(Ok(facts), |file| {
                    Err(vec![format!("the zone {} is read from {}", wanted.join(" "), file.display())])
                })
            }
        });
        let ended = if outcome.is_ok() { written.settle() } else { written.undo() };
        self.end(config, wanted, outcome, ended)
    }

    /// What a command wrote into the file of a zone is settled, or undone; then the zone is served as it was.
    fn end(
        &mut self,
        config: &Arc<Config>,
        wanted: &[String],
        outcome: Result<Json, Vec<String>>,
        ended: io::Result<()>,
    ) -> Result<Json, Vec<String>> {
        let left = ended.err().map(|e| format!("the file of the zone {}, after that: {e}", wanted.join(" ")));
        // Whoever asked may have gone.
        left.iter().for_each(|why| log::error("reload", &[("why", why)]));
        match (outcome, left) {
            // What is served is not known to be so after a crash, too.
            (Ok(_), Some(left)) => Err(vec![left]),
            (Ok(facts), None) => Ok(facts),
            (Err(mut why), left) => {
                why.extend(left);
                // What was served for a moment is a version, too.
                self.record();
                let again = self.refresh(config, Why::Asked, wanted).err().unwrap_or_default();
                why.extend(again.into_iter().filter(|again| !why.contains(again)).collect::<Vec<_>>());
                Err(why)
            }
        }
    }

    /// Before the file of a zone is written anew: somebody may have edited it since it was looked at. That is a version, too.
    fn catch_up(&mut self, config: &Arc<Config>, wanted: &[String]) -> Result<(), Vec<String>> {
        // Of this zone alone: lists count as they were.
        let now = By { is_asked: true, wanted: self.by.wanted.clone(), ..By::default() };
        let by = std::mem::replace(&mut self.by, now);
        let outcome = self.refresh(config, Why::Asked, wanted);
        self.record();
        self.by = by;
        outcome.map(drop)
    }

    /// Another zone that is read from this one's file: what is written there would be no zone of its. Looks at the files of all, as they are
    /// now: somebody may have put another in the place of the one that was read.
    fn shares(&self, config: &Config, zone: &Zone) -> Result<Option<Name>, String> {
        let Some(ours) = inode(&zone.file) else { return Ok(None) };
        for known in self.served.manifest.part(0, 1) {
            let known = known.map_err(|damaged| damaged.to_string())?;
            if known.apex != &*zone.apex && known.sources().any(|(file, _)| inode(file) == Some(ours)) {
                return Ok(Some(images::name(known.apex)));
            }
        }
        let mut owned = config.roster.written.iter().filter(|other| other.is_owned() && other.apex != zone.apex);
        Ok(owned.find(|other| inode(other.origin()) == Some(ours)).map(|other| images::name(&other.apex)))
    }

    fn past(&self, config: &Config) -> Past {
        Past { published: Arc::clone(&self.shared.published), data_dir: config.server.data_dir.clone() }
    }

    /// The only zone that is named.
    fn configured(&self, config: &Config, wanted: &[String]) -> Result<Zone, String> {
        let [name] = wanted else { return Err("write the name of one zone".to_string()) };
        let apex = history::named(name)?;
        let written = config.roster.written.find(&apex).cloned();
        let known = || self.served.manifest.find(&apex).map(|known| Zone::new(apex.clone(), known.file.into()));
        written.or_else(known).ok_or_else(|| format!("no zone {name} is configured"))
    }
}

/// Removes what a command has left beside a zone's file that was killed, where the zone has been that: then it is in the history. An edit that somebody
/// had saved just then is not, and stays. `serial`: of a version that is wanted, if one is, and without which nothing is removed.
fn settle(past: &Past, zone: &Zone, serial: Option<u32>) {
    let Some(left) = history::left_beside(&zone.file).map(|file| Zone::new(zone.apex.clone(), file)) else { return };
    let is_there = |serial| {
        let way = |served: &ImageZone<'_>| Ok(past.way_back(&zone.apex, served, serial).map(drop)?);
        history::with_zone(&past.published, &zone.apex, way).is_ok()
    };
    let was = origin::stamp(&left.file);
    let has_been = edited::edit(past, &left, &Base::Itself, None, &mut |_, _| ()).is_ok();
    if serial.is_none_or(is_there) && has_been && origin::stamp(&left.file) == was {
        // What stays is told of by whoever wants to write there.
        let _ = std::fs::remove_file(&left.file);
    }
}
