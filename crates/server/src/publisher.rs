//! Brings zones to be served: finds or builds their image, publishes it, and lets go of the one before.
//!
//! Runs on a thread of its own that gets the CPU when nobody else wants it. Whatever fails here leaves what is served as
//! it is, and says so.

mod commands;

use crate::answering::Shared;
use crate::attending::NEEDS_RESTART;
use crate::changes::{self, Laid, Plan};
use crate::comparison::{self, Difference};
use crate::config::{Config, Seen, Written, Zone};
use crate::held::{self, Gate};
use crate::history::{self, Recorder};
use crate::images::{self, Before, Library, Remark};
use crate::jobs::{Job, Why, together};
use crate::json::Json;
use crate::laying;
use crate::ledger;
use crate::manifest;
use crate::novices::Asked;
use crate::pieces::Pieces;
use crate::press::{Books, Press};
use crate::secondaries::{Note, Secondaries};
use crate::serving::{Serving, access, access_after, facts, forsakes, ready, remark, told};
use crate::sound::Sound;
use crate::stamp;
use crate::state::{Event, State};
use crate::unwritten::{Files, Wish};
use crate::{log, systemd};
use audit::Guards;
use front::{Retired, Zones};
use image::Image;
use image::overlay::Overlay;
use net::Wake;
use policy::Lists;
use stats::Counter;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use store::{Backing, Map, Stretch};
use transfer::Author;

/// How much of an image is touched between two looks at whether there is something else to do.
const SLICE: usize = 16 << 20;
/// How often it is looked whether a retired image is still in use.
const RETIRE_EVERY: Duration = Duration::from_millis(50);
/// How long nothing may have changed before what is laid over an image is folded into a new one: at least so long, and so
/// long for each MiB of the image, so that building takes a small part of the time however large it is.
const FOLD_AFTER: Duration = Duration::from_secs(10);
const FOLD_AFTER_MIB: Duration = Duration::from_secs(1);
/// So many times as long what is laid over it may become more without a pause.
const FOLD_ANYWAY: u32 = 10;
/// After one that failed.
pub const FOLD_AGAIN: Duration = Duration::from_secs(60);
/// Images below this are not worth huge pages.
const HUGE_FROM: usize = 8 << 20;

type Apexes = Vec<Box<[u8]>>;

/// Tries to make an image that fits what updates change while it is made.
const TRIES: usize = 3;

pub struct Publisher {
    library: Library,
    press: Arc<Press>,
    shared: Shared,
    state: Arc<State>,
    wakes: Vec<Arc<Wake>>,
    served: Serving,
    recorder: Recorder,
    /// Whose wish is being carried out.
    by: By,
    retired: Vec<Retired<Zones<Stretch>>>,
    /// What is laid over the image, to be folded into a new one when nothing has changed for a while.
    unfolded: Option<Arc<Config>>,
    /// Since when there is any.
    laid: Option<Instant>,
    /// A zone is served as no file says it, nor the image, nor perhaps the history: that is to be folded before anything else is done, or a start
    /// would not know it.
    hurries: bool,
    /// Zones of updates whose files have been written for an image, and up to where in the journal they hold it.
    written: HashMap<Box<[u8]>, u64>,
    /// When the last image could not be made; None: it could.
    failed: Option<Instant>,
    /// What the versions of all zones were weighed by last.
    guards: Option<Guards>,
    /// Versions that were held are weighed again, though nothing has changed in their files.
    judges_anew: bool,
    /// Of the last configuration.
    number: u64,
    /// Of the last one that all zones were compared with.
    full: u64,
}

/// Problems that were none before.
fn news<'p>(now: &'p [images::Problem], before: &'p [images::Problem]) -> impl Iterator<Item = &'p images::Problem> {
    let before: HashSet<(&[u8], &str)> = before.iter().map(|p| (&*p.apex, &*p.what)).collect();
    now.iter().filter(move |p| !before.contains(&(&*p.apex, &*p.what)))
}

/// Says which zones are not served as their files say, but for those of which it was said before.
fn complain(problems: &[images::Problem], before: &[images::Problem]) {
    for p in news(problems, before).filter(|p| !held::is_held(&p.what)) {
        log::error("a zone is not served as its file says", &[("zone", &images::name(&p.apex)), ("why", &p.what)]);
    }
}

impl Publisher {
    /// `served` is published already; operators are told of it here.
    pub fn new(
        library: Library,
        press: Arc<Press>,
        shared: Shared,
        state: Arc<State>,
        wakes: Vec<Arc<Wake>>,
        served: Serving,
        recorder: Recorder,
    ) -> Publisher {
        let publisher = Publisher {
            // Those of the last run are not known.
            guards: None,
            library,
            press,
            shared,
            state,
            wakes,
            served,
            recorder,
            by: By::default(),
            retired: Vec::new(),
            unfolded: None,
            laid: None,
            hurries: false,
            written: HashMap::new(),
            failed: None,
            judges_anew: false,
            number: 0,
            full: 0,
        };
        complain(&publisher.served.problems, &[]);
        publisher.hold(&[]);
        publisher.tell();
        publisher
    }

    /// Works until nobody can ask for anything any more.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        let background = net::sched::background().and_then(|()| net::sched::pace());
        if let Err(e) = &background {
            log::warn("the background thread competes with answering threads", &[("why", e)]);
        }
        self.record();
        self.warm();
        let (mut has_worked, mut quiet) = (true, Instant::now());
        let mut ahead = None;
        loop {
            if std::mem::take(&mut self.hurries) {
                (has_worked, _, quiet) = (true, self.fold(), Instant::now());
            }
            if self.retired.is_empty() && self.unfolded.is_none() && std::mem::take(&mut has_worked) {
                self.state.rest();
            }
            let job = match (self.retired.is_empty(), &self.unfolded) {
                _ if ahead.is_some() => ahead.take().ok_or(RecvTimeoutError::Timeout),
                (true, None) => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (true, Some(_)) => jobs.recv_timeout(self.fold_in(quiet)),
                (false, _) => jobs.recv_timeout(RETIRE_EVERY),
            };
            match job {
                Ok(job) => {
                    let (job, next) = together(job, jobs);
                    ahead = next;
                    let is_look = job.why == Why::Look;
                    (has_worked, _) = (true, self.on_job(job));
                    quiet = if is_look { quiet } else { Instant::now() };
                }
                // A transfer may hold what was replaced for long, and that is no reason to wait.
                Err(RecvTimeoutError::Timeout) if self.unfolded.is_some() && self.fold_in(quiet).is_zero() => {
                    (has_worked, _, quiet) = (true, self.fold(), Instant::now());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.retired.retain(|r| !r.is_unused());
        }
    }

    fn on_job(&mut self, job: Job) {
        let wanted: HashSet<Box<[u8]>> = job.zones.iter().filter_map(|name| crate::config::apex(name).ok()).collect();
        let mut from = job.from;
        if job.why == Why::Forced {
            // What was held of these had been received.
            let secondaries = wanted.iter().filter_map(|apex| job.config.roster.written.find(apex));
            let secondaries = secondaries.filter(|zone| zone.is_secondary());
            from.extend(secondaries.map(|zone| (zone.apex.clone(), "its primaries".to_string())));
        }
        self.by = By { why: job.why, is_asked: job.is_asked, wanted, from };
        self.recorder.keep(job.config.history);
        let outcome = match job.why {
            Why::Look => self.look(&job.config, &job.zones).map_err(|why| vec![why]),
            Why::Back(serial) => self.go_back(&job.config, &job.zones, serial),
            Why::Keep { .. } => self.keep(&job.config, job.why, &job.zones, job.order.as_ref()),
            _ => self.reload(&job.config, job.why, &job.zones),
        };
        self.number = job.number;
        if job.zones.is_empty() {
            self.full = job.number;
        }
        self.let_on();
        // What is folded later is folded as the last configuration has it: an earlier one may say otherwise whose a zone is.
        self.unfolded = self.unfolded.take().map(|_| Arc::clone(&job.config));
        let is_done = outcome.is_ok();
        if let Err(complaints) = &outcome {
            complaints.iter().for_each(|c| log::error("reload", &[("why", c)]));
        }
        systemd::tell(systemd::READY);
        // Whoever asked finds it in the history.
        self.record();
        if let Some(done) = job.done {
            // He may have gone.
            let _ = done.send(with_restart(outcome, &job.stays));
            self.press.wake();
        }
        if job.why == Why::Received
            && let Some(secondaries) = &self.state.secondaries
        {
            secondaries.tell(Note::Laid { is_done });
        }
    }

    /// Keeps what is served now, and has been laid over an image, in the history.
    fn record(&mut self) {
        let unfit = self.served.problems.iter().map(|p| &*p.apex).collect();
        record(&mut self.recorder, &self.state, &self.library.gate, &unfit, &self.by);
    }

    /// Makes a new image of what is laid over the one that is served.
    fn fold(&mut self) {
        let Some(config) = self.unfolded.take() else { return };
        self.by = By::default();
        self.library.gate = Arc::new(Gate::new(&config, HashSet::new()));
        if let Err(complaints) = self.rebuild(&config, Why::Fold) {
            complaints.iter().for_each(|c| log::error("reload", &[("why", c)]));
        }
        self.let_on();
        self.record();
    }

    /// How long to wait before the next fold. `quiet`: since when nothing has changed. One that failed does not wait for that: what goes
    /// on may be of other zones.
    fn fold_in(&self, quiet: Instant) -> Duration {
        let mib = u32::try_from(self.served.manifest.image().size >> 20).unwrap_or(u32::MAX);
        let (least, since) = self.failed.map_or((FOLD_AFTER, quiet), |failed| (FOLD_AGAIN, failed));
        let pause = least.max(FOLD_AFTER_MIB * mib);
        let anyway = self
            .laid
            .filter(|_| self.failed.is_none())
            .map(|laid| (pause * FOLD_ANYWAY).saturating_sub(laid.elapsed()));
        pause.saturating_sub(since.elapsed()).min(anyway.unwrap_or(pause))
    }

    fn reload(&mut self, config: &Arc<Config>, why: Why, wanted: &[String]) -> Result<Json, Vec<String>> {
        let facts = self.refresh(config, why, wanted)?;
        // What is folded is served, whatever is wrong with other zones' files; and nobody asked for what has come: what is wrong with
        // it is told already.
        if matches!(why, Why::Fold | Why::Received) { Ok(facts) } else { self.fulfilled(wanted).map(|()| facts) }
    }

    /// Serves zones as their files are, where that can be.
    fn refresh(&mut self, config: &Arc<Config>, why: Why, wanted: &[String]) -> Result<Json, Vec<String>> {
        let is_forced = matches!(why, Why::Forced | Why::Back(_) | Why::Keep { is_forced: true });
        let forced = wanted.iter().filter(|_| is_forced).filter_map(|name| crate::config::apex(name).ok());
        self.library.gate = Arc::new(Gate::new(config, forced.collect()));
        self.judges_anew = false;
        if why == Why::Started && self.served.manifest.changes() > 0 {
            // What the last run laid over the image.
            self.unfolded = Some(Arc::clone(config));
            self.laid.get_or_insert_with(Instant::now);
        }
        let laid = match why {
            // Forced, no file says it: only an image holds it over a crash, or the history of what was served.
            Why::Damaged | Why::Forced => None,
            Why::Keep { is_forced: true } if config.history.octets == 0 => None,
            Why::Fold => {
                self.write_files(config, |_| true)?;
                None
            }
            Why::Started if !self.served.manifest.is_sound() => None,
            _ => self.lay(config, wanted)?,
        };
        let (changed, rebuilt) = match laid {
            Some(changed) => (changed, false),
            // Files that are as they were would not be read again.
            None => (self.rebuild(config, if self.judges_anew { Why::Forced } else { why })?, true),
        };
        if wanted.is_empty() {
            self.guards = config.guards;
        }
        let facts = vec![
            ("changed", Json::Bool(changed)),
            ("rebuilt", Json::Bool(rebuilt && changed)),
            ("image", self.state.served().json()),
        ];
        Ok(Json::Object(facts))
    }

    /// Tells which of the zones that updates are to own are served from the files that they are to be read from: the others may still be
    /// served from one that says less.
    fn let_on(&self) {
        let number = self.number;
        let mut waiting = self.press.have_done(move |_, books| books.novices.ask(number));
        if waiting.is_empty() {
            return;
        }
        let problems: HashSet<&[u8]> = self.served.problems.iter().map(|p| &*p.apex).collect();
        waiting.retain(|asked| !problems.contains(&*asked.apex));
        let is_served =
            |asked: &Asked| self.served.manifest.find(&asked.apex).is_some_and(|known| known.file == asked.file);
        let (served, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_served);
        // A reload of zones by name has wanted them, and left them as they were.
        if others.iter().any(|asked| asked.since > self.full) {
            self.state.raise(Event::Changed { zones: Vec::new() });
        }
        self.press.have_done(move |_, books| books.novices.let_on(&served));
    }

    /// Lays what has changed over the image, if anything has; None: it takes a new one.
    fn lay(&mut self, config: &Arc<Config>, wanted: &[String]) -> Result<Option<bool>, Vec<String>> {
        let is_asked = self.takes_lists(config);
        let compared = match wanted {
            [] => comparison::of_all(&config.roster, &mut self.served.manifest, is_asked),
            names => comparison::of_named(&config.roster, &self.served.manifest, names, self.by.is_asked),
        };
        let mut difference = match compared {
            Ok(difference) => difference,
            Err(comparison::Hindrance::Manifest) => return Ok(None),
            Err(comparison::Hindrance::Roster(complaints)) => return Err(told(&complaints)),
        };
        let judged_anew = self.judged_anew(config, wanted, &difference);
        self.judges_anew = !judged_anew.is_empty();
        difference.anew.extend(judged_anew);
        let seen = difference.seen.take();
        if difference.is_empty() {
            seen.into_iter().for_each(|seen| self.served.see(&seen));
            let (has_their_lists, now) = (self.served.written.is(&config.roster.written), self.press.current());
            if !has_their_lists && access(&now.image, config) != *now.allow_query {
                return Ok(None);
            }
            self.served.written = config.roster.written.clone();
            return Ok(Some(false));
        }
        // A zone that is gone and that nobody has named would be served on, to everybody.
        if !wanted.is_empty() && forsakes(&self.served.written, &self.press.current(), config) {
            return Ok(None);
        }
        let Some(plan) = self.plan(config, &difference) else { return Ok(None) };
        let about: Apexes = difference.apexes().cloned().collect();
        let (written, by) = (self.served.written.clone(), Arc::clone(config));
        let pressed = self.press.have_done(move |press, books| pressed(press, books, &about, plan, &written, &by));
        let Some(Pressed { before, entries, remarks, pieces, zones, retired }) = pressed else { return Ok(None) };
        let problems = Arc::clone(&self.served.problems);
        remark(&remarks);
        if let Some(folders) = &self.state.folders {
            difference.gone.iter().for_each(|apex| folders.lay_none(apex));
            let zones: Vec<_> =
                entries.iter().filter(|entry| folders.lay(entry)).map(|e| images::name(&e.apex).to_string()).collect();
            // Somebody may have edited what they include just before it was watched.
            if !zones.is_empty() {
                self.state.raise(Event::Changed { zones });
            }
        }
        // The version before is in no file any more.
        let is_alone = |entry: &manifest::Entry| entry.problem.is_some() && self.served.manifest.is_over(&entry.apex);
        self.hurries |= entries.iter().any(is_alone);
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
        difference.gone.iter().for_each(|apex| self.state.set_unnumbered(apex, false));
        seen.into_iter().for_each(|seen| self.served.see(&seen));
        complain(&self.served.problems, &problems);
        self.served.written = config.roster.written.clone();
        self.served.generation += 1;
        drop(zones);
        self.is_published(retired);
        self.state.secondaries.iter().for_each(|s| difference.apexes().for_each(|apex| s.has_changed(apex)));
        self.hold(&problems);
        self.unfolded = Some(Arc::clone(config));
        self.laid.get_or_insert_with(Instant::now);
        Ok(Some(true))
    }

    /// Zones of which a version is held that guards hold no more, or by other numbers.
    fn judged_anew(&self, config: &Config, wanted: &[String], difference: &Difference) -> Vec<Zone> {
        let are_other = config.guards != self.guards;
        let is_other =
            |p: &&images::Problem| held::may_pass(&p.what) && (are_other || !self.library.gate.guards(&p.apex));
        let held: Vec<&images::Problem> = self.served.problems.iter().filter(is_other).collect();
        if held.is_empty() {
            return Vec::new();
        }
        let asked: HashSet<Box<[u8]>> = wanted.iter().filter_map(|name| crate::config::apex(name).ok()).collect();
        let known: HashSet<&[u8]> = difference.apexes().map(|apex| &**apex).collect();
        let is_wanted =
            |p: &&images::Problem| (wanted.is_empty() || asked.contains(&p.apex)) && !known.contains(&*p.apex);
        let zone = |p: &images::Problem| {
            let served =
                || self.served.manifest.find(&p.apex).map(|known| Zone::new(p.apex.clone(), known.file.into()));
            config.roster.written.find(&p.apex).cloned().or_else(served)
        };
        held.into_iter().filter(is_wanted).filter_map(zone).filter(|zone| !zone.is_owned()).collect()
    }

    /// How what is different is laid. Files are read for it, while updates go on: they change other zones.
    fn plan(&mut self, config: &Config, difference: &Difference) -> Option<Plan> {
        let now = self.press.current();
        // A zone that comes and goes has another number each time.
        let numbers = (now.image.header().zones as usize).saturating_sub(self.served.manifest.zones());
        let changes = difference.anew.len() + difference.gone.len();
        let names = now.image.view().overlay().map_or(0, Overlay::names);
        let has_room =
            self.served.manifest.has_room(changes) && numbers <= manifest::OVER_MAX && names <= laying::NAMES_MAX;
        // What updates have changed is not in these files.
        let is_updated =
            || difference.apexes().any(|apex| config.roster.written.find(apex).is_some_and(Zone::is_owned));
        if !has_room || is_updated() {
            return None;
        }
        let plan = Plan::of(&now.image, difference, &self.library, &self.served.pieces, &mut self.recorder)?;
        let manifest = &self.served.manifest;
        let has_come = |zone: &&Zone| laying::zone(now.image.view(), &zone.apex).is_none();
        let come = difference.anew.iter().filter(has_come).map(|zone| (zone.apex.clone(), Some(zone.file.clone())));
        let gone = difference.gone.iter().map(|apex| (apex.clone(), None));
        let Err(why) = self.library.note_others(manifest.image(), come.chain(gone).collect()) else {
            return Some(plan);
        };
        log::warn("a start will not know which zones have come and gone", &[("why", &why)]);
        // It would compare one that was made anew with what the image has under its name.
        Some(plan).filter(|_| !difference.anew.iter().any(|zone| manifest.has_gone(&zone.apex)))
    }

    /// Finds or builds the image of all zones; true if another one is served now. If it cannot be made that is tried again, like a
    /// fold: of zones that are served from it only nothing can be laid.
    fn rebuild(&mut self, config: &Arc<Config>, why: Why) -> Result<bool, Vec<String>> {
        let outcome = self.rebuilt(config, why);
        self.failed = outcome.is_err().then(Instant::now);
        self.unfolded = self.failed.map(|_| Arc::clone(config));
        self.laid = self.laid.filter(|_| self.failed.is_some());
        match self.failed {
            // What is not served is no version.
            Some(_) => self.library.gate.forget(),
            None => self.recorder.forget(),
        }
        outcome
    }

    fn rebuilt(&mut self, config: &Config, why: Why) -> Result<bool, Vec<String>> {
        let (zones, seen) = self.zones(config, why)?;
        // A zone that goes, or belongs to its file again, takes along what updates have changed of it.
        self.write_files(config, |apex| !config.roster.written.find(apex).is_some_and(Zone::is_owned))?;
        let mut is_over = Err(vec![]);
        for _ in 0..TRIES {
            is_over = self.build(config, &zones, &seen, why)?;
            match &is_over {
                Ok(_) => break,
                Err(zones) => {
                    self.write_files(config, |apex| zones.is_empty() || zones.iter().any(|z| **z == *apex))?
                }
            }
        }
        let names = |zones: Apexes| zones.iter().map(|z| images::name(z).to_string()).collect::<Vec<_>>();
        is_over.map_err(|zones| vec![format!("no image keeps up with the updates of {}", names(zones).join(" "))])
    }

    /// The zones that an image is to be made of, and what names them. Where that is wrong those that are served will do for one that
    /// only holds these as they should be: what somebody has written into a folder is no reason to keep others' updates from it.
    fn zones(&self, config: &Config, why: Why) -> Result<(Vec<Zone>, Seen), Vec<String>> {
        let (wanted, none) = (&self.by.wanted, HashSet::new());
        let wanted = if self.by.is_asked { wanted } else { &none };
        let complaints =
            match comparison::named(&config.roster, &self.served.manifest, self.takes_lists(config), wanted) {
                Ok(named) => return Ok(named),
                Err(comparison::Hindrance::Manifest) => vec!["the list of what is served is damaged".to_string()],
                Err(comparison::Hindrance::Roster(complaints)) => told(&complaints),
            };
        // Nor does what was wished of some zones. A zone that was for some, and is configured no more, would be for all.
        let is_of_all = self.by.wanted.is_empty() && !matches!(why, Why::Fold | Why::Damaged);
        if is_of_all || forsakes(&self.served.written, &self.press.current(), config) {
            return Err(complaints);
        }
        complaints.iter().for_each(|c| log::error("reload", &[("why", c)]));
        let written = &config.roster.written;
        let mut zones = written.to_vec();
        zones.retain(|zone| !zone.is_awaited() || self.served.manifest.has(zone));
        for known in self.served.manifest.part(0, 1) {
            let known = known.map_err(|_| vec!["the list of what is served is damaged".to_string()])?;
            let is_other = written.find(known.apex).is_none();
            zones.extend(is_other.then(|| Zone::new(known.apex.into(), known.file.into())));
        }
        Ok((zones, self.served.manifest.seen.clone()))
    }

    /// What names zones counts as it is now: somebody wants that of all, or a zone that was for some, and is configured no more, would be for all.
    fn takes_lists(&self, config: &Config) -> bool {
        self.by.is_asked && self.by.wanted.is_empty() || forsakes(&self.served.written, &self.press.current(), config)
    }

    /// Err within: the image does not take what updates have changed of these zones; of all if none is named.
    fn build(
        &mut self,
        config: &Config,
        zones: &[Zone],
        seen: &Seen,
        why: Why,
    ) -> Result<Result<bool, Apexes>, Vec<String>> {
        let (now, mut written) = (self.press.current(), std::mem::take(&mut self.written));
        let Publisher { library, recorder, state, by, served, .. } = &mut *self;
        // A kill behind that would leave a version that nobody knows the way to.
        let mut keep = |entries: &[manifest::Entry]| {
            let unfit = entries.iter().filter(|e| e.problem.is_some()).map(|e| &*e.apex).collect();
            record(recorder, state, &library.gate, &unfit, by);
        };
        let before = Before { image: &now.image, manifest: &served.manifest };
        let found = match why {
            Why::Damaged | Why::Forced => library.again(zones, seen, before, &mut keep),
            // The same file would be mapped once more, and believed.
            _ if !now.image.is_whole() => library.again(zones, seen, before, &mut keep),
            _ => library.current(zones, seen, before, &mut keep),
        };
        let (was_laid_over, lists) = (now.image.header().overlay.is_some(), Arc::clone(&now.allow_query));
        drop(now);
        let shelved = found.map_err(|e| vec![format!("no new image, the old one stays: {e}")])?;
        let (zones, mut serving) = ready(shelved, config, self.served.generation + 1);
        // What is laid over an image is not in the image.
        let is_other = serving.manifest.image() != self.served.manifest.image() || was_laid_over;
        let changed = is_other || zones.allow_query != lists;
        let before = Arc::clone(&self.served.problems);
        // What could not be read from its file is laid over the image.
        serving.problems.iter().for_each(|p| _ = written.remove(&p.apex));
        self.settle(Files::new(written.into_iter()));
        if changed {
            prefault(zones.image.bytes().map());
            complain(&serving.problems, &before);
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
        self.hold(&before);
        Ok(Ok(changed))
    }

    /// Updates wait for some of it only.
    fn settle(&self, mut written: Files) {
        while !written.is_empty() {
            written = self.press.have_done(move |_, books| {
                books.unwritten.settle(&mut written);
                written
            });
        }
    }

    /// Writes the files of those zones that updates have changed, for the next image to be made of them.
    fn write_files(&mut self, config: &Config, is_wanted: impl Fn(&[u8]) -> bool) -> Result<(), Vec<String>> {
        let shared =
            |press: &Press, books: &mut Books| (press.current(), books.unwritten.since(0), books.unwritten.end());
        let (now, behind, end) = self.press.have_done(shared);
        let wishes: Vec<Wish> = behind.wishes().into_iter().filter(|wish| is_wanted(&wish.apex)).collect();
        if wishes.is_empty() {
            return Ok(());
        }
        let sound = Sound::compared(&now.image);
        for wish in wishes {
            let written = ledger::write(&config.server.data_dir, &sound, &wish.apex, &wish.names, end);
            let failed = |e: io::Error| vec![format!("the zone {} is not written: {e}", images::name(&wish.apex))];
            if written.map_err(failed)? {
                self.written.insert(wish.apex, end);
            }
        }
        // A stamp within a tick of now is not believed (`stamp`), and these files would be read by each reload. Nobody is kept waiting but
        // who wants an image, which takes longer: updates go on.
        std::thread::sleep(2 * stamp::TICK);
        Ok(())
    }

    /// Counts and tells versions that are held, but for those that were before; and has zones fetched whose files are gone.
    fn hold(&self, before: &[images::Problem]) {
        for p in news(&self.served.problems, before) {
            if held::is_held(&p.what) {
                self.state.published.count(Counter::VersionHeld);
                held::tell(&p.apex, &p.what);
            }
            if let Some(secondaries) = &self.state.secondaries
                && self.served.written.find(&p.apex).is_some_and(Zone::is_awaited)
            {
                // Nobody waits for that.
                let (done, _) = channel();
                secondaries.tell(Note::Transfer { zone: images::name(&p.apex).to_string(), done });
            }
        }
    }

    /// Err: what of the wish did not come true, of the zones named, or of all.
    fn fulfilled(&self, wanted: &[String]) -> Result<(), Vec<String>> {
        let left = self.unfulfilled(wanted);
        if left.is_empty() { Ok(()) } else { Err(left) }
    }

    fn unfulfilled(&self, wanted: &[String]) -> Vec<String> {
        let problems = &self.served.problems;
        let by_apex: HashMap<&[u8], &images::Problem> = problems.iter().map(|p| (&*p.apex, p)).collect();
        if wanted.is_empty() {
            return problems.iter().map(|p| said(&images::name(&p.apex).to_string(), &p.what)).collect();
        }
        let complaint = |name: &String| {
            let Ok(apex) = crate::config::apex(name) else { return Some(format!("`{name}` is no name of a zone")) };
            if self.served.manifest.find(&apex).is_none() {
                // A file that has gone, whose zone went with it, is as it should be.
                return self.by.is_asked.then(|| format!("no zone {name} is configured"));
            }
            by_apex.get(&*apex).map(|p| said(name, &p.what))
        };
        wanted.iter().filter_map(complaint).collect()
    }

    fn is_published(&mut self, retired: Retired<Zones<Stretch>>) {
        self.retired.push(retired);
        // Only now: who finds the new generation finds the new zones.
        self.shared.cache.iter().for_each(|cache| cache.govern(self.served.names));
        self.wakes.iter().for_each(|w| w.ring());
        self.tell();
        let served = self.state.served();
        let facts: [(&str, &dyn std::fmt::Display); 3] =
            [("zones", &served.zones), ("records", &served.records), ("generation", &served.generation)];
        log::info("zones published", &facts);
    }

    /// Tells operators what is served.
    fn tell(&self) {
        let (now, _) = self.shared.published.current();
        self.state.set_served(facts(&now.image, &self.served));
    }

    /// Touches all of the image, so that no answering thread waits for a disk; where the file cannot have huge pages,
    /// serves a copy in memory that can. Looks at the files that it was made of, so that no reload has to look at all of them.
    fn warm(&mut self) {
        let (now, _) = self.shared.published.current();
        let map = now.image.bytes().map();
        prefault(map);
        let few = |map: &Map| map.huge_bytes().unwrap_or(0) < map.len() / 2;
        // The copy would be of the file, with what updates have changed, but without changes of other files.
        let is_bare = self.served.manifest.changes() == 0;
        if map.len() >= HUGE_FROM && map.backing() == Backing::File && is_bare && few(map) {
            self.copy(Arc::clone(&now.allow_query));
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

    fn copy(&mut self, allow_query: Arc<Lists>) {
        let image = Map::copy_to_memory(&self.served.file, images::ROOM)
            .map(|map| Image::open_to_serve(Stretch::of(map), images::faults));
        match image {
            Ok(Ok(image)) if images::identity(&image) == self.identity() => {
                match self.press.replace(Zones { image, allow_query }) {
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

/// What whoever asked for a zone is told of it.
fn said(zone: &str, what: &str) -> String {
    format!("zone {zone}: {what}{}", held::advice(zone, what))
}

/// Who has changed zones.
struct By {
    why: Why,
    /// He waits for what comes of it.
    is_asked: bool,
    /// Whom they named who asked.
    wanted: HashSet<Box<[u8]>>,
    /// From whom they have come, by apex.
    from: HashMap<Box<[u8]>, String>,
}

impl Default for By {
    fn default() -> By {
        By { why: Why::Asked, is_asked: false, wanted: HashSet::new(), from: HashMap::new() }
    }
}

impl By {
    fn author(&self, apex: &[u8]) -> Author {
        // Beside the zone that it is about others may have been edited.
        match self.why {
            _ if !self.wanted.contains(apex) => self.source(apex),
            Why::Back(serial) => history::by_going_back(serial),
            Why::Keep { .. } => history::by_command(),
            Why::Forced => history::by_force(self.source(apex)),
            _ => self.source(apex),
        }
    }

    fn source(&self, apex: &[u8]) -> Author {
        self.from.get(apex).map_or_else(history::by_file, |from| history::by_transfer(from))
    }
}

/// Keeps what has passed the gate in the history, but for zones that are not served so.
fn record(recorder: &mut Recorder, state: &State, gate: &Gate, unfit: &HashSet<&[u8]>, by: &By) {
    recorder.note(gate.take(unfit), &|apex| by.author(apex));
    for (apex, is_unnumbered) in gate.take_unnumbered() {
        state.set_unnumbered(&apex, is_unnumbered);
        if is_unnumbered {
            log::warn("a zone was edited without a new serial", &[("zone", &images::name(&apex))]);
        }
    }
}

/// With the sections of the configuration of which what has changed needs a restart.
fn with_restart(outcome: Result<Json, Vec<String>>, stays: &[&'static str]) -> Result<Json, Vec<String>> {
    match outcome {
        Ok(Json::Object(mut facts)) if !stays.is_empty() => {
            facts.push(("needs_restart", Json::list(stays, Json::text)));
            Ok(Json::Object(facts))
        }
        Err(mut complaints) if !stays.is_empty() => {
            complaints.push(format!("{NEEDS_RESTART}: {}", stays.join(" ")));
            Err(complaints)
        }
        outcome => outcome,
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
}

/// Lays what was read over what is served now, and has that served. None: it takes a new image. `written`: those whose access lists
/// it has now.
fn pressed(
    press: &Press,
    books: &Books,
    about: &[Box<[u8]>],
    plan: Plan,
    written: &Written,
    config: &Config,
) -> Option<Pressed> {
    // A zone that goes, or belongs to its file again, takes along what updates have changed of it, which theirs gets before.
    if about.iter().any(|apex| books.unwritten.is_behind(apex)) {
        return None;
    }
    let before = press.current();
    let Laid { image, entries, remarks, pieces } = changes::lay(&before.image, plan)?;
    let allow_query = access_after(&before, written, &image, about, config);
    let retired = press.publish(Zones { image, allow_query });
    Some(Pressed { before, entries, remarks, pieces, zones: press.current(), retired })
}

/// Touches every page, slice by slice.
fn prefault(map: &Map) {
    let mut at = 0;
    while at < map.len() {
        at = map.prefault(at, SLICE);
    }
}
