//! Keeps zones that updates own and the files that are configured for them in step: takes in what somebody has edited there,
//! and writes back what updates have made of them, where that is wanted. On a thread of its own, in slices, when nobody else
//! wants the CPU.
//!
//! ```text
//! slate: a zone is to be seen to -> is its file one that we know?
//!   no: somebody edited it -> what did he change? -> a change like an update -> remembered
//!   yes, and it is due -> text of what is served, in a temporary file beside it, synced -> origin: what is about to be there
//!     -> still the file that we know? -> both exchange names, the folder synced -> was that the file that we know?
//!          no: somebody edited it in between -> they exchange names again
//! ```
//! Never writes over an edit that the zone has not taken in: where both have changed the same, where the guards object, or the
//! file is wrong, that is said, and the edit waits until the file, or what it includes, is edited again, or is gone. What could not
//! be written is in the journal, and is owed at the next start too.

pub(crate) mod aside;
pub(crate) mod edited;
pub(crate) mod origin;
mod outline;
pub(crate) mod slate;
mod taking_in;
pub(crate) mod writing;

use crate::config::{Written, Zone};
use crate::history::{self, Past};
use crate::images::laying;
use crate::images::sound::damaged;
use crate::images::{fingerprint_of, name};
use crate::log;
use crate::publisher::press::{DIGEST_AFTER, Press};
use crate::publisher::watcher::Folders;
use crate::stamp::{may_be_there, written_at};
use crate::state::State;
use crate::update::ahead::Made;
use crate::update::digest;
use crate::update::intake::{Intake, Unmade, Until};
use crate::update::ledger;
use crate::update::owing::UNSERVED;
use crate::zonetext::reading::Stock;
use audit::Guards;
use origin::{NONE, Origin};
use outline::Outline;
use slate::{Task, What};
use stats::Counter;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use transfer::When;

pub struct Scribe {
    press: Arc<Press>,
    past: Past,
    intake: Intake,
    state: Arc<State>,
    folders: Arc<Folders>,
    /// Edits that wait. Bound: as many as zones take updates.
    refused: HashMap<Box<[u8]>, Refused>,
    /// How files were whose edits an operator wants to be taken in whatever the guards object to, until they are, or he waits no more. Bound: as `refused`.
    forced: HashMap<Box<[u8]>, String>,
    /// How often in a row zones have changed while a digest of them was made, by their names' fingerprints. Bound: as many as take updates.
    misses: HashMap<u64, u32>,
    /// How the files are that were written. Bound: as many as zones are written back, each as `outline` says.
    outlines: HashMap<Box<[u8]>, Outline>,
    /// How zones were whose files, without any that they include, held nothing new, or that is all that can be said of them, by their names' fingerprints.
    /// Bound: as many as take updates.
    calm: HashMap<u64, Sight>,
    /// Folders in which nothing is left of writers that died. Bound: as many as zones are written back.
    swept: HashSet<PathBuf>,
    /// Of zones that nobody has updated since the start: see `history::last_updates`. Read when it is asked for, for all at once, and kept while there
    /// is something to do. Bound: as many as the journal has zones.
    last_updates: Option<HashMap<u64, (u32, When)>>,
}

/// A zone and its file as a look found them: as long as they are so, another look finds the same.
#[derive(PartialEq, Eq)]
struct Sight {
    /// Of the file's stamp.
    fingerprint: u64,
    serial: Option<u32>,
    is_kept_in_step: bool,
    /// Its time is to come.
    is_ahead: bool,
}

/// An edit that was not taken in.
pub struct Refused {
    /// As its file is.
    stamp: String,
    /// Of what was served then: what cannot be taken into that may be taken into what updates make of it.
    serial: Option<u32>,
    /// Who objected may not do so any more.
    guards: Option<Guards>,
    why: String,
}

/// What was done about a file.
enum Done {
    Written,
    /// It holds what is served.
    Current,
    /// Nobody has edited it, and it was not its time.
    Looked,
    /// Its edit is served now.
    Edited,
    /// It may have one, which waits until nobody writes to it, or it fits.
    Waits,
    /// The last change of the zone, which may be its edit, is durable and not served yet.
    Owed,
    /// It was not looked at, for this is to be mended first.
    Left(&'static str),
    /// Its updates do not own it yet.
    Early,
}

/// Why nothing was done about a file.
enum Undone {
    /// It has an edit that waits for somebody.
    Held(String),
    /// It could not be done now.
    Failed(String),
    /// The same of a zone that is not written back, which would tell of it: it may have an edit, and may have none.
    Unknown(String),
    /// Updates leave no gap.
    TooOften,
}

impl Undone {
    fn why(&self) -> &str {
        match self {
            Undone::Held(why) | Undone::Failed(why) | Undone::Unknown(why) => why,
            Undone::TooOften => TOO_OFTEN,
        }
    }
}

impl From<String> for Undone {
    fn from(why: String) -> Undone {
        Undone::Failed(why)
    }
}

impl From<io::Error> for Undone {
    fn from(e: io::Error) -> Undone {
        Undone::Failed(e.to_string())
    }
}

impl Scribe {
    pub fn new(press: Arc<Press>, past: Past, intake: Intake, state: Arc<State>, folders: Arc<Folders>) -> Scribe {
        let (refused, forced) = (HashMap::new(), HashMap::new());
        let (misses, outlines, calm) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (swept, last_updates) = (HashSet::new(), None);
        Scribe { press, past, intake, state, folders, refused, forced, misses, outlines, calm, swept, last_updates }
    }

    /// Works until the process ends: a file that is being written then is not there. `zones`: those that the last run may owe files.
    pub fn run(mut self, zones: Written) {
        let background = net::sched::background().and_then(|()| net::sched::pace());
        if let Err(e) = &background {
            log::warn("files that are written back compete with answering threads", &[("why", e)]);
        }
        self.hurry(zones);
        self.owe_digests();
        loop {
            self.forget();
            if self.press.slate.is_clear() {
                self.last_updates = None;
                self.state.rest();
            }
            let Some(task) = self.press.slate.next() else { continue };
            if task.what == What::Digest {
                self.renew_digest(&task.apex);
                continue;
            }
            if self.is_calm(&task) {
                // Its time may be set right without anybody telling of it.
                if is_ahead(&task.file) {
                    self.again(&task, LOOK_EVERY);
                }
                continue;
            }
            self.watch_includes(&task);
            let before = net::sched::usage();
            let outcome = self.attend(&task);
            // Updates leave a gap sooner than somebody mends a disk.
            let work = net::sched::usage().since(&before).ran * REST_FOR_WORK;
            let retry_in = |undone: &Undone| match undone {
                Undone::TooOften => work.clamp(REST, RETRY),
                _ => RETRY,
            };
            let taken = match &outcome {
                Ok(Done::Waits) => {
                    self.press.slate.put_off(&task.apex);
                    None
                }
                // Whoever waits for an edit goes on doing so.
                Ok(Done::Owed | Done::Early) => None,
                Ok(Done::Left(why)) => Some(Err(why.to_string())),
                Ok(_) => Some(Ok(())),
                Err(undone) => {
                    // Whoever has forced it is told that it was for nothing.
                    self.forced.remove(&task.apex);
                    Some(Err(undone.why().to_string()))
                }
            };
            let outcome = outcome.map_err(|undone| match undone {
                Undone::Held(_) => undone,
                // Of a zone that is written back it is told as what hinders that.
                _ if task.is_kept_in_step => undone,
                _ => {
                    self.again(&task, retry_in(&undone));
                    let why = format!("{}: {}", task.file.display(), undone.why());
                    if matches!(undone, Undone::TooOften) { Undone::Held(why) } else { Undone::Unknown(why) }
                }
            });
            if self.watch_includes(&task) {
                // Somebody may have edited one just before.
                self.press.slate.look(slice::from_ref(&task.apex), Instant::now() + REST);
            }
            if outcome.is_err() {
                self.press.slate.note([&*task.apex].into_iter(), Instant::now());
            }
            if let Err(undone @ (Undone::Failed(_) | Undone::TooOften)) = &outcome {
                self.again(&task, retry_in(undone));
            }
            self.tell(&task, outcome);
            // Last: who is answered finds in `status` what he was told.
            taken.iter().for_each(|taken| self.press.slate.answer(&task.apex, taken));
        }
    }

    /// What the last run owed files does not wait again.
    fn hurry(&self, zones: Written) {
        for zone in zones.iter().filter(|zone| zone.write_back.is_some()) {
            // Of one that cannot be read it is found out when it is looked at.
            let origin = Origin::of(&self.past.data_dir, &zone.apex);
            if origin.is_ok_and(|origin| is_owed(&self.press, &zone.apex, &origin, zone.origin())) {
                self.press.slate.hurry(&zone.apex, Instant::now());
            }
        }
    }

    /// Whoever was killed may have owed digests of what had changed last.
    fn owe_digests(&self) {
        let changed: Vec<Box<[u8]>> =
            self.press.have_done(|_, books| books.unwritten.behind().map(Box::from).collect());
        self.press.slate.renew(changed.iter().map(|apex| &**apex), Instant::now() + DIGEST_AFTER);
    }

    /// Zones that updates do not own any more, or that are not there, and files that zones had.
    fn forget(&mut self) {
        for (apex, file, is_followed) in self.press.slate.left(Instant::now()) {
            if let Err(undone) = self.clear(&apex, &file) {
                log::warn("what lies beside a zone's file stays", &[("zone", &name(&apex)), ("why", &undone.why())]);
            }
            if is_followed {
                continue;
            }
            self.refused.remove(&apex);
            self.forced.remove(&apex);
            self.outlines.remove(&apex);
            self.calm.remove(&fingerprint_of(&apex));
            self.misses.remove(&fingerprint_of(&apex));
            self.swept.clear();
            self.folders.include_none(&name(&apex).to_string());
            // It may have been attended to just now.
            self.state.set_held_edit(&apex, None);
            self.state.set_unwritten(&apex, None);
        }
    }

    /// Whether the zone's last change is durable, and not served yet.
    fn owes(&self, apex: &[u8]) -> bool {
        let apex = Box::<[u8]>::from(apex);
        self.press.have_done(move |_, books| books.owes(&apex))
    }

    /// True: one of the files that the zone's includes is watched from now on.
    fn watch_includes(&self, task: &Task) -> bool {
        let Ok(origin) = Origin::of(&self.past.data_dir, &task.apex) else { return false };
        self.folders.include(&name(&task.apex).to_string(), &task.file, origin.includes())
    }

    fn renew_digest(&mut self, apex: &[u8]) {
        if self.owes(apex) {
            // It is not served yet as it is, and others would wait for that.
            return self.press.slate.renew([apex].into_iter(), Instant::now() + DIGEST_AFTER);
        }
        let (before, zone, stock) = (net::sched::usage(), name(apex), Stock::below(&self.past.data_dir));
        match history::with_zone(&self.past.published, apex, |zone| digest::renewal(zone, &stock)) {
            Ok(None) => _ = self.misses.remove(&fingerprint_of(apex)),
            Ok(Some(diff)) => {
                let made = Made::of(apex, diff, history::by_digest());
                match self.intake.change(made, Until::Durable) {
                    Ok(_) => {
                        self.misses.remove(&fingerprint_of(apex));
                        return log::debug("a zone has a new digest", &[("zone", &zone)]);
                    }
                    Err(Unmade::Misfit) => {
                        let misses = self.misses.entry(fingerprint_of(apex)).or_default();
                        *misses += 1;
                        if *misses == MISSES_TOLD {
                            log::warn("a zone has no new digest", &[("zone", &zone), ("why", &CHANGES_ON)]);
                        }
                    }
                    // What hinders that hinders updates, too, and is told of.
                    Err(_) => {}
                }
                // It has changed meanwhile: where that goes on and on, making digests must not be all that is done.
                let took = net::sched::usage().since(&before).ran;
                let wait = DIGEST_AFTER.max(took * REST_FOR_WORK);
                self.press.slate.renew([apex].into_iter(), Instant::now() + wait);
            }
            Err(why) => {
                log::warn("a zone has no new digest", &[("zone", &zone), ("why", &why)]);
                // The next look finds it stale.
                self.calm.remove(&fingerprint_of(apex));
            }
        }
    }

    fn tell(&self, task: &Task, outcome: Result<Done, Undone>) {
        let zone = name(&task.apex);
        if let Ok(Done::Written) = outcome {
            self.state.written.count(Counter::WrittenBack);
            log::debug("a zone is written back", &[("zone", &zone), ("file", &task.file.display())]);
        }
        let held = match &outcome {
            Err(Undone::Held(why) | Undone::Unknown(why)) => Some(why.clone()),
            // It is not known yet.
            Ok(Done::Waits | Done::Owed | Done::Left(_) | Done::Early) => return,
            _ => None,
        };
        let before = self.state.set_held_edit(&task.apex, held.clone());
        if let Some(before) = before.as_ref().filter(|_| held.is_none()) {
            self.state.forget_unwritten(&task.apex, before);
        }
        if let Some(why) = held.filter(|why| before.as_ref() != Some(why)) {
            let is_unknown = matches!(outcome, Err(Undone::Unknown(_)));
            if !is_unknown {
                self.state.written.count(Counter::VersionHeld);
            }
            let message = if is_unknown { UNKNOWN } else { "an edit of a zone's file is held" };
            log::error(message, &[("zone", &zone), ("why", &why)]);
        }
        let why = match outcome {
            Ok(Done::Looked | Done::Edited | Done::Waits | Done::Owed | Done::Left(_) | Done::Early) => return,
            Ok(Done::Written | Done::Current) => None,
            Err(undone) => Some(undone.why().to_string()),
        };
        self.tell_unwritten(task, why);
    }

    /// Why a zone that is to be written back is not; None: it is.
    fn tell_unwritten(&self, task: &Task, why: Option<String>) {
        if !task.is_kept_in_step {
            return;
        }
        let (zone, before) = (name(&task.apex), self.state.set_unwritten(&task.apex, why.clone()));
        match why {
            Some(why) if before.as_ref() != Some(&why) => {
                log::error("a zone is not written back", &[("zone", &zone), ("why", &why)]);
            }
            None if before.is_some() => log::info("a zone is written back again", &[("zone", &zone)]),
            _ => {}
        }
    }

    /// True: nobody waits for this look, and it would find what the last one found. A reload of all zones asks for one at each: 50 us, some of them
    /// on the updates' thread, and 6 where it is so.
    fn is_calm(&self, task: &Task) -> bool {
        let found = self.calm.get(&fingerprint_of(&task.apex));
        task.what == What::Look && !task.is_asked && found.is_some_and(|found| *found == self.sight(task))
    }

    fn sight(&self, task: &Task) -> Sight {
        let stamp = origin::full_stamp(&task.file);
        let (fingerprint, serial) = (fingerprint_of(stamp.as_bytes()), serial(&self.press, &task.apex));
        Sight { fingerprint, serial, is_kept_in_step: task.is_kept_in_step, is_ahead: is_ahead(&task.file) }
    }

    /// Err: why the file, or what is served, stays as it is.
    fn attend(&mut self, task: &Task) -> Result<Done, Undone> {
        self.calm.remove(&fingerprint_of(&task.apex));
        if !may_be_there(&ledger::file_of(&self.past.data_dir.join(ledger::FOLDER), &task.apex)) {
            // Updates do not own the zone yet.
            return Ok(Done::Current);
        }
        let apex = task.apex.clone();
        let (is_unfit, novice, owes, are_hopeful) = self.press.have_done(move |press, books| {
            let now = press.current();
            let serial = laying::serial(now.image.view(), &apex);
            let owes = serial.is_some_and(|serial| books.unwritten.is_past(&apex, serial)) || books.owes(&apex);
            let novice = books.novices.has(&apex).then(|| books.novices.is_stuck(&apex));
            (books.unwritten.unfit(&apex).is_some(), novice, owes, books.are_hopeful())
        });
        const UNSEEN: &str = "it takes no updates for now, and its file was not looked at";
        if is_unfit {
            // Its file in data-dir is to be mended first, as the log says.
            return Ok(Done::Left(UNSEEN));
        }
        if let Some(is_stuck) = novice {
            // Updates do not own it yet, and it will be looked at when they do.
            self.again(task, if task.is_asked { REST } else { RETRY });
            return Ok(if is_stuck { Done::Left(UNSEEN) } else { Done::Early });
        }
        if owes {
            // What is durable and takes a new image is not served yet. It may be an edit: its file is the only place where that can be seen, and the
            // next one would be made of what was before it.
            let wait = if are_hopeful { REST } else { RETRY };
            self.again(task, if task.is_asked { wait } else { RETRY });
            if task.what == What::Write {
                self.press.slate.hurry(&task.apex, Instant::now() + wait);
            }
            return Ok(if are_hopeful { Done::Owed } else { Done::Left(UNSERVED) });
        }
        // A link stays one, also while it leads nowhere: the file that it leads to may be edited.
        let file = match task.file.canonicalize() {
            Ok(file) => file,
            Err(e) if task.file.is_symlink() => {
                return Err(format!("the link {} leads nowhere: {e}", task.file.display()).into());
            }
            Err(_) => task.file.clone(),
        };
        // One of which it cannot be said whether it is there is neither an edit nor missing.
        if let Err(e) = std::fs::metadata(&file)
            && e.kind() != io::ErrorKind::NotFound
        {
            return Err(format!("{}: {e}", file.display()).into());
        }
        let mut origin = Origin::of(&self.past.data_dir, &task.apex)?;
        self.keep_edit(&task.apex, &file, &origin)?;
        let is_cleared = aside::clear(&file, &mut origin).map_err(|e| history::unwritable(&e))?;
        origin.recover(|serial| self.past.was_edited(&task.apex, serial))?;
        let is = origin.stamp(&file);
        if is != NONE && !origin.known().iter().any(|known| known.is(&is)) {
            return self.take_in(task, &file, is, origin);
        }
        self.refused.remove(&task.apex);
        self.forced.remove(&task.apex);
        if task.what == What::Write {
            return self.write_back(task, &file, is, origin);
        }
        let is_stale = |zone: &image::Zone<'_>| digest::is_stale(zone).map_err(|e| damaged(e).to_string());
        if history::with_zone(&self.past.published, &task.apex, is_stale) == Ok(true) {
            self.press.slate.renew([&*task.apex].into_iter(), Instant::now() + DIGEST_AFTER);
        }
        if is_cleared {
            // That is what was looked for.
            return Ok(Done::Looked);
        }
        if task.is_kept_in_step && (is == NONE || is_owed(&self.press, &task.apex, &origin, &file)) {
            self.press.slate.note([&*task.apex].into_iter(), Instant::now());
        } else if is != NONE && origin.includes().is_empty() {
            self.calm.insert(fingerprint_of(&task.apex), self.sight(task));
        }
        Ok(Done::Looked)
    }

    /// Puts an edit back that came while the file was written. True: there was one.
    fn keep_edit(&self, apex: &[u8], file: &Path, origin: &Origin) -> Result<bool, Undone> {
        let is_back = aside::give_back(file, origin).map_err(|e| Undone::Held(history::unwritable(&e)))?;
        if is_back {
            let facts: [(&str, &dyn std::fmt::Display); 2] = [("zone", &name(apex)), ("file", &file.display())];
            log::warn("a zone's file was edited while it was written back, and stays as it was edited", &facts);
        }
        Ok(is_back)
    }

    /// Nobody looks after this file of a zone any more: what went aside goes, or back into its place.
    fn clear(&self, apex: &[u8], file: &Path) -> Result<(), Undone> {
        let file = file.canonicalize().unwrap_or_else(|_| file.into());
        let mut origin = Origin::of(&self.past.data_dir, apex)?;
        self.keep_edit(apex, &file, &origin)?;
        aside::clear(&file, &mut origin)?;
        Ok(())
    }

    fn look_again(&self, task: &Task) -> Done {
        self.again(task, REST);
        Done::Waits
    }

    fn again(&self, task: &Task, after: Duration) {
        let at = Instant::now() + after;
        self.press.slate.look(slice::from_ref(&task.apex), at);
    }
}

/// Whether another version is served than the file of a zone holds.
fn is_owed(press: &Press, apex: &[u8], origin: &Origin, file: &Path) -> bool {
    let is_behind = |serial| !origin.is_version(&origin.stamp(file), serial);
    !origin.known().is_empty() && serial(press, apex).is_some_and(is_behind)
}

/// Whether a zone's file is none that is known: somebody may have edited it. Whoever takes edits in knows for certain.
pub fn is_edited(data_dir: &Path, zone: &Zone) -> bool {
    let Ok(origin) = Origin::of(data_dir, &zone.apex) else { return true };
    let is = origin.stamp(zone.origin());
    is != NONE && !origin.known().iter().any(|known| known.is(&is))
}

/// Whether the time at which a file was written is to come, as its file system has it: the clock has been wrong, and set right since.
fn is_ahead(file: &Path) -> bool {
    written_at(file).is_ok_and(|at| at.duration_since(SystemTime::now()).is_ok_and(|ahead| ahead > RETRY))
}

/// That is served.
fn serial(press: &Press, apex: &[u8]) -> Option<u32> {
    let now = press.current();
    laying::serial(now.image.view(), apex)
}

/// So long nobody may have written to a file whose edit is taken in: editors write in several steps.
const REST: Duration = Duration::from_secs(1);
const UNKNOWN: &str = "it cannot be told whether a zone's file was edited, or its edit cannot be taken in for now";
const TOO_OFTEN: &str = "the zone changes too often: it is tried again and again; freeze it until its edit is taken in";
/// Digests of a zone that were made in vain, in a row, before an operator hears of it.
const MISSES_TOLD: u32 = 3;
const CHANGES_ON: &str = "it changes while one is made, again and again: who verifies its ZONEMD does not take it, until it rests or is frozen";
/// So much longer than the CPU was taken to make a digest, or to take in an edit, in vain it is not tried again. Not than it took: at idle priority that may
/// be minutes of waiting, beside which there was little work.
const REST_FOR_WORK: u32 = 20;
/// How often it is looked whether the time of a file is still to come.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Between two looks at a file whose edit could not be taken in for now.
const RETRY: Duration = Duration::from_secs(60);
