//! Brings zones to be served: finds or builds their image, publishes it, and lets go of the one before.
//!
//! ```text
//! job -> commands   what an operator wishes of one zone
//!     -> over       zones that have changed: read, and laid over the image that is served
//!     -> anew       what cannot be laid, and from time to time all that was: a new image, and a look that nobody waits for a page of it
//! then the history (`by`: who has changed what), whoever asked, secondaries, operators
//! ```
//! Runs on a thread of its own that gets the CPU when nobody else wants it. Whatever fails here leaves what is served as
//! it is, and says so.

mod anew;
pub(crate) mod attending;
mod by;
mod commands;
pub(crate) mod folding;
mod includes;
pub(crate) mod jobs;
mod over;
pub(crate) mod press;
mod shares;
pub(crate) mod unrecorded;
pub(crate) mod vigil;
pub(crate) mod watcher;

use crate::answering::Shared;
use crate::config::{Config, Written, Zone};
use crate::history::Recorder;
use crate::images::admitted::Admitted;
use crate::images::comparison::Difference;
use crate::images::held::{self, Gate};
use crate::images::manifest::Identity;
use crate::images::serving::{Serving, facts, forsakes, note_admitted};
use crate::images::{self, Library};
use crate::json::Json;
use crate::log;
use crate::run::systemd;
use crate::secondaries::Note;
use crate::state::{Event, State};
use crate::update::ledger;
use crate::update::novices::Asked;
use attending::NEEDS_RESTART;
use audit::Guards;
use by::{By, record};
use folding::{Folding, Haste};
use front::{Retired, Zones};
use jobs::{Job, Why, together};
use net::Wake;
use press::Press;
use stats::Counter;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use store::Stretch;
use watcher::Followed;

/// How often it is looked whether a retired image is still in use.
const RETIRE_EVERY: Duration = Duration::from_millis(50);
type Apexes = Vec<Box<[u8]>>;

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
    folding: Folding,
    /// Zones of updates whose files have been written for an image, and up to where in the journal they hold it.
    written: HashMap<Box<[u8]>, u64>,
    /// By which configuration it was noted whom lists let in now (`images::admitted`); and of which image that they let in nobody else.
    noted: Option<(Written, Option<Identity>)>,
    /// What the versions of all zones were weighed and numbered by last. None: that is not known.
    weighed: Option<Weighed>,
    /// Versions that were held are weighed again, though nothing has changed in their files.
    judges_anew: bool,
    /// All that the last job has changed is in the history, so far.
    is_kept: bool,
    /// So many zones it has had served no more, so far.
    gone: usize,
    /// Of the last configuration.
    number: u64,
    /// Of the last one that all zones were compared with.
    full: u64,
}

/// By what versions are held, and get their serials.
struct Weighed {
    guards: Option<Guards>,
    written: Written,
}

/// Problems that were none before.
fn news<'p>(now: &'p [images::Problem], before: &'p [images::Problem]) -> impl Iterator<Item = &'p images::Problem> {
    let before: HashSet<(&[u8], &str)> = before.iter().map(|p| (&*p.apex, &*p.what)).collect();
    now.iter().filter(move |p| !before.contains(&(&*p.apex, &*p.what)))
}

/// So many zones that have gone, or are wrong, are named in the log; a list that was cut short may be behind it.
const NAMED_MAX: usize = 20;

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
        let mut publisher = Publisher {
            weighed: None,
            library,
            press,
            shared,
            state,
            wakes,
            served,
            recorder,
            by: By::default(),
            retired: Vec::new(),
            folding: Folding::new(Instant::now()),
            written: HashMap::new(),
            noted: None,
            judges_anew: false,
            is_kept: true,
            gone: 0,
            number: 0,
            full: 0,
        };
        publisher.recorder.follow(publisher.served.manifest.history());
        publisher.tell_problems(&[]);
        publisher.tell();
        publisher
    }

    /// Works until nobody can ask for anything any more.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        let background = net::sched::background().and_then(|()| net::sched::pace());
        if let Err(e) = &background {
            log::warn("the background thread competes with answering threads", &[("why", e)]);
        }
        self.begin();
        let mut has_worked = true;
        let mut ahead = None;
        loop {
            if self.folding.is_urgent(Instant::now()) {
                self.fold();
                has_worked = true;
            }
            if self.retired.is_empty() && !self.folding.is_due() && std::mem::take(&mut has_worked) {
                self.state.rest();
            }
            let retire = (!self.retired.is_empty()).then_some(RETIRE_EVERY);
            let pause = [retire, self.pause()].into_iter().flatten().min();
            let job = match (ahead.take(), pause) {
                (Some(job), _) => Ok(job),
                (None, Some(pause)) => jobs.recv_timeout(pause),
                (None, None) => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match job {
                Ok(job) => {
                    let (job, next) = together(job, jobs);
                    ahead = next;
                    let is_look = job.why == Why::Look;
                    self.on_job(job);
                    has_worked = true;
                    if !is_look {
                        self.folding.change(Instant::now());
                    }
                }
                // A transfer may hold what was replaced for long, and that is no reason to wait.
                Err(RecvTimeoutError::Timeout) if self.pause().is_some_and(|pause| pause.is_zero()) => {
                    self.fold();
                    has_worked = true;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.retired.retain(|r| !r.is_unused());
        }
    }

    /// What a start serves is kept, and nobody waits for a page of it.
    pub(crate) fn begin(&mut self) {
        self.record();
        self.warm();
    }

    /// How long to wait before a fold.
    fn pause(&self) -> Option<Duration> {
        self.folding.pause(self.served.manifest.image().size, Instant::now())
    }

    pub(crate) fn on_job(&mut self, mut job: Job) {
        job.after.iter().for_each(|after| _ = after.recv());
        let is_served =
            |name: &String| crate::config::apex(name).is_ok_and(|apex| self.served.manifest.find(&apex).is_some());
        // Where none is named all are meant.
        if !job.zones.is_empty() {
            job.zones.extend(std::mem::take(&mut job.if_served).into_iter().filter(is_served));
        }
        self.follow(&job);
        self.admit_now(&job.config);
        let wanted: HashSet<Box<[u8]>> = job.zones.iter().filter_map(|name| crate::config::apex(name).ok()).collect();
        let mut from = job.from;
        if job.why == Why::Forced {
            // What was held of these had been received.
            let secondaries = wanted.iter().filter_map(|apex| job.config.roster.written.find(apex));
            let secondaries = secondaries.filter(|zone| zone.is_secondary());
            from.extend(secondaries.map(|zone| (zone.apex.clone(), "its primaries".to_string())));
        }
        self.by = By { why: job.why, is_asked: job.is_asked, wanted, from };
        self.recorder.keep(job.config.history, &job.config.roster.written);
        (self.is_kept, self.gone) = (true, 0);
        let state = Arc::clone(&self.state);
        // A stop waits for what is written into a zone's file by a command, until whoever asked is told.
        let is_of_file = matches!(job.why, Why::Back(_) | Why::Keep { .. });
        let _unended = is_of_file.then(|| state.unrecorded.begin());
        let outcome = match job.why {
            Why::Look => self.look(&job.config, &job.zones).map_err(|why| vec![why]),
            Why::Back(serial) => self.go_back(&job.config, &job.zones, serial),
            Why::Keep { .. } => self.keep(&job.config, job.why, &job.zones, job.order.as_ref()),
            // Without a name all zones are meant.
            _ if job.is_asked && !job.zones.is_empty() && self.by.wanted.is_empty() => {
                Err(self.unfulfilled(&job.zones))
            }
            _ => self.reload(&job.config, job.why, &job.zones),
        };
        self.number = job.number;
        if job.zones.is_empty() {
            self.full = job.number;
        }
        self.let_on();
        // Zones may have come that others are to send.
        self.shared.govern(self.served.fingerprint(), false);
        self.folding.follow(&job.config);
        let is_done = outcome.is_ok();
        if is_done && job.zones.is_empty() && self.press.have_done(|_, books| books.owed.is_empty()) {
            // All is as its files say, and nothing waits for an image.
            self.state.set_no_new_image(None);
        }
        // What was to happen once, because somebody asked for it, is only his to know.
        let is_his = matches!(job.why, Why::Look | Why::Back(_) | Why::Keep { .. });
        if let Some(complaints) = outcome.as_ref().err().filter(|_| !is_his) {
            complaints.iter().take(NAMED_MAX).for_each(|c| log::error("reload", &[("why", c)]));
            if let Some(more) = complaints.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
                log::error("reload", &[("why", &format!("and {more} more"))]);
            }
        }
        systemd::tell(systemd::READY);
        // Whoever asked finds it in the history.
        let is_kept = self.record() && job.config.history.octets > 0;
        self.folding.remember(is_kept);
        if self.library.gate.passed_untold() {
            self.folding.hurry(Haste::Soon);
        }
        let outcome = if is_kept { outcome } else { outcome.and_then(|facts| self.hold_on(facts)) };
        if self.folding.is_needed(Instant::now()) {
            self.fold();
        }
        self.note_admitted(&job.config);
        if let (None, true, Ok(Json::Object(facts))) = (&job.done, job.is_asked, &outcome) {
            // Nobody waits who asked by a signal.
            let is_other = facts.contains(&("changed", Json::Bool(true)));
            log::info("reloaded", &[("changed", &is_other)]);
        }
        if let Some(done) = job.done {
            // He may have gone.
            let _ = done.try_send(with_restart(outcome, &job.stays));
            self.press.wake();
        }
        if let Some(secondaries) = &self.state.secondaries {
            job.after.iter().for_each(|_| secondaries.tell(Note::CarriedOut));
            if job.why == Why::Received {
                secondaries.tell(Note::Laid { is_done });
            }
        }
    }

    /// Before files are read: what is edited from then on is seen. A folder that was gone may be back.
    fn follow(&self, job: &Job) {
        let Some(folders) = self.state.folders.as_ref().filter(|_| job.why != Why::Received) else { return };
        let Followed { are_others, are_back } = folders.follow(&job.config.roster.directories());
        if are_others || are_back {
            // The files of zones of updates may have been looked at already.
            self.press.slate.look(&[], Instant::now());
        }
        if are_back && !job.zones.is_empty() {
            self.state.raise(Event::Changed { zones: Vec::new() });
        }
    }

    /// What somebody has forced no file says: where the history does not have it an image is to, before he is told that it is done.
    fn hold_on(&mut self, facts: Json) -> Result<Json, Vec<String>> {
        if !self.by.why.is_forced() || self.fold() {
            return Ok(facts);
        }
        Err(vec!["it is served, and a crash would take it back: neither the history nor a new image can be written, see the log".to_string()])
    }

    /// Keeps what is served now, and has been laid over an image, in the history. False: that, or something else of this job, cannot be written, or is
    /// too much for it.
    fn record(&mut self) -> bool {
        self.is_kept &= self.library.gate.remembers();
        let unfit = self.served.problems.iter().map(|p| &*p.apex).collect();
        self.is_kept &= record(&mut self.recorder, &self.state, &self.library.gate, &unfit, &self.by);
        if self.recorder.is_over() && self.folding.is_due() {
            self.folding.hurry(Haste::Soon);
        }
        self.is_kept
    }

    /// Makes a new image of what is laid over the one that is served. False: it could not be made.
    fn fold(&mut self) -> bool {
        let Some(config) = self.folding.begin() else { return true };
        self.by = By::default();
        self.library.gate = Arc::new(Gate::new(&config, HashSet::new()));
        let begun = Instant::now();
        let folded = self.rebuild(&config, Why::Fold);
        self.folding.end(begun, Instant::now());
        let complaints = folded.as_ref().err().into_iter().flatten();
        complaints.for_each(|c| log::error("reload", &[("why", c)]));
        self.let_on();
        self.record();
        self.note_admitted(&config);
        folded.is_ok()
    }

    /// A start that answers from the image, and what was laid over it, is to know whom lists have let in meanwhile.
    fn admit_now(&mut self, config: &Config) {
        let written = &config.roster.written;
        if !self.noted.as_ref().is_some_and(|(noted, _)| noted.is(written)) {
            let is_noted = self.library.admit(self.served.manifest.image(), &Admitted::of(config));
            self.noted = is_noted.then(|| (written.clone(), None));
        }
    }

    /// Where an image is all that is served, it is noted who its lists let in.
    fn note_admitted(&mut self, config: &Config) {
        let (written, image) = (&self.served.written, self.served.manifest.image());
        let is_noted = self.noted.as_ref().is_some_and(|(noted, of)| noted.is(written) && *of == Some(image));
        if !self.folding.is_due() && !is_noted && written.is(&config.roster.written) {
            // Where it cannot be, what is noted says less than could be said.
            note_admitted(&self.library, image, &Admitted::of(config));
            self.noted = Some((written.clone(), Some(image)));
        }
    }

    fn reload(&mut self, config: &Arc<Config>, why: Why, wanted: &[String]) -> Result<Json, Vec<String>> {
        let facts = self.refresh(config, why, wanted)?;
        // What is folded is served, whatever is wrong with other zones' files; and nobody asked for what has come, or for a start, or for all zones
        // when something has changed anywhere: what is wrong is told already.
        let is_of_others = wanted.is_empty() && !self.by.is_asked;
        let is_asked = !is_of_others && !matches!(why, Why::Fold | Why::Received | Why::Started);
        if is_asked { self.fulfilled(wanted).map(|()| facts) } else { Ok(facts) }
    }

    /// Serves zones as their files are, where that can be.
    fn refresh(&mut self, config: &Arc<Config>, why: Why, wanted: &[String]) -> Result<Json, Vec<String>> {
        let forced = if why.is_forced() { self.by.wanted.clone() } else { HashSet::new() };
        self.library.gate = Arc::new(Gate::new(config, forced));
        self.judges_anew = false;
        if why == Why::Started && self.served.manifest.changes() > 0 {
            // What the last run laid over the image.
            self.folding.lay(config, Instant::now());
        }
        // Forced, no file says it: the history of what was served holds it over a crash, or an image.
        let is_for_image = match why {
            Why::Damaged | Why::Fold => true,
            Why::Forced | Why::Keep { is_forced: true } => config.history.octets == 0,
            Why::Started => !self.served.manifest.is_of_this_program() || !self.served.manifest.is_sound(),
            _ => false,
        };
        // An operator may have made room for what could not be served.
        let is_asked_for_all = why == Why::Asked && self.by.is_asked && wanted.is_empty();
        let is_owed = is_asked_for_all && self.press.have_done(|_, books| !books.owed.is_empty());
        let laid = if is_for_image || is_owed { None } else { self.lay(config, wanted)? };
        let (changed, rebuilt) = match laid {
            Some(changed) => (changed, false),
            None => match self.anew(config, why, is_owed) {
                Ok(changed) => (changed, true),
                // What a start finds changed is laid over an image of another version, too.
                Err(complaints) if is_for_image && !(why == Why::Started && self.served.manifest.is_sound()) => {
                    return Err(complaints);
                }
                Err(complaints) => {
                    return Err(self.lay_apart(config, wanted, !is_owed && !is_for_image, complaints));
                }
            },
        };
        // What is held is in a new image as it was.
        if wanted.is_empty() && !is_for_image {
            self.weighed = Some(Weighed { guards: config.guards, written: config.roster.written.clone() });
        }
        let mut facts = vec![("changed", Json::Bool(changed)), ("rebuilt", Json::Bool(rebuilt && changed))];
        // What was a mistake is seen at once.
        facts.extend((self.gone > 0).then_some(("gone", Json::Number(self.gone as u64))));
        facts.push(("image", self.state.served().json()));
        Ok(Json::Object(facts))
    }

    /// Has a new image of all zones served. `is_owed`: of some an update is durable that takes one.
    fn anew(&mut self, config: &Arc<Config>, why: Why, is_owed: bool) -> Result<bool, Vec<String>> {
        if is_owed || why == Why::Fold {
            self.write_files(config, |_| true)?;
        }
        if is_owed {
            self.judges_anew = !self.judged_anew(config, &[], &Difference::default()).is_empty();
        }
        // Files that are as they were would not be read again.
        self.rebuild(config, if self.judges_anew { Why::Forced } else { why })
    }

    /// A zone that was for some, and is configured no more, would be served on to all.
    fn forsakes(&self, config: &Config) -> bool {
        forsakes(&self.served.written, &self.press.current(), &self.served.manifest, config)
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
        let unfit: Vec<Asked> = waiting.extract_if(.., |asked| problems.contains(&*asked.apex)).collect();
        let (manifest, now) = (&self.served.manifest, self.press.current());
        let is_served = |Asked { apex, file, is_ours, .. }: &Asked| match is_ours {
            // As it is now: it may hold more since the journal can be read again.
            true => ledger::is_made_of(manifest, now.image.view(), apex, file),
            false => manifest.find(apex).is_some_and(|known| known.file == file),
        };
        let (served, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_served);
        // A reload of zones by name has wanted them, and left them as they were.
        if others.iter().any(|asked| asked.since > self.full) {
            self.state.raise(Event::Changed { zones: Vec::new() });
        }
        self.press.have_done(move |_, books| books.novices.let_on(&served, &unfit));
    }

    /// Tells of zones that are served no more. Where fewer are left than have gone, a folder may have gone with them.
    fn tell_gone(&mut self, gone: &[Box<[u8]>]) {
        self.gone += gone.len();
        gone.iter().for_each(|apex| self.state.set_unnumbered(apex, false));
        let left = self.state.served().zones;
        let named: Vec<String> = gone.iter().take(NAMED_MAX).map(|apex| images::name(apex).to_string()).collect();
        let facts: [(&str, &dyn std::fmt::Display); 3] =
            [("zones", &gone.len()), ("left", &left), ("among_them", &named.join(" "))];
        if gone.len() as u64 > left {
            log::warn("most zones are served no more", &facts);
        } else if !gone.is_empty() {
            log::info("zones are served no more", &facts);
        }
    }

    /// Tells of zones that are not served as their files say, but for those that were not so before; counts what is held, and has zones fetched whose files are gone, or spoilt.
    fn tell_problems(&self, before: &[images::Problem]) {
        let mut told = 0;
        for p in news(&self.served.problems, before) {
            told += 1;
            let (is_held, is_named) = (held::is_held(&p.what), told <= NAMED_MAX);
            match is_held {
                true => self.state.published.count(Counter::VersionHeld),
                false => self.have_fetched(&p.apex),
            }
            if is_held && is_named {
                held::tell(&p.apex, &p.what);
            } else if is_named {
                let facts: [(&str, &dyn std::fmt::Display); 2] = [("zone", &images::name(&p.apex)), ("why", &p.what)];
                log::error("a zone is not served as its file says", &facts);
            }
        }
        if let Some(more) = told.checked_sub(NAMED_MAX).filter(|more| *more > 0) {
            log::error("more zones are held, or not served as their files say", &[("zones", &more)]);
        }
    }

    /// What cannot be read of a zone that comes from others these have.
    fn have_fetched(&self, apex: &[u8]) {
        if let Some(secondaries) = &self.state.secondaries
            && self.served.written.find(apex).is_some_and(Zone::is_secondary)
        {
            // Nobody waits for that.
            let (done, _) = channel();
            secondaries.tell(Note::Transfer { zone: images::name(apex).to_string(), done });
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
            let of_zones = problems.iter().map(|p| said(&images::name(&p.apex).to_string(), &p.what));
            return of_zones.chain(self.served.manifest.seen.strays().iter().cloned()).collect();
        }
        let complaint = |name: &String| {
            let Ok(apex) = crate::config::apex(name) else { return Some(format!("`{name}` is no name of a zone")) };
            if self.served.manifest.find(&apex).is_none() {
                // A file that has gone, whose zone went with it, is as it should be; and what comes from others comes when they send it.
                let is_to_come = self.served.written.find(&apex).is_some_and(Zone::is_secondary);
                return (self.by.is_asked && !is_to_come).then(|| format!("no zone {name} is configured"));
            }
            by_apex.get(&*apex).map(|p| said(name, &p.what))
        };
        wanted.iter().filter_map(complaint).collect()
    }

    fn is_published(&mut self, retired: Retired<Zones<Stretch>>) {
        self.retired.push(retired);
        // Only now: who finds the new generation finds the new zones.
        self.shared.govern(self.served.fingerprint(), true);
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
}

/// What whoever asked for a zone is told of it.
fn said(zone: &str, what: &str) -> String {
    format!("zone {zone}: {what}{}", held::advice(zone, what))
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
