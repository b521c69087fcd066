//! Writes what updates have made of zones back into the files that are configured for them: on a thread of its own, in
//! slices, when nobody else wants the CPU.
//!
//! ```text
//! slate: a zone is due -> is its file one that we know? -> text of what is served, in a temporary file beside it, synced
//!   -> origin: what is about to be there -> still the file that we know? -> rename, the folder synced
//!                         no: somebody edited it -> what did he change? -> a change like an update -> written back
//! ```
//! Never writes over an edit that the zone has not taken in: where both have changed the same, or the file is wrong, that is
//! said, and the file stays until it is edited again or is gone. What could not be written is in the journal, and is owed at
//! the next start too.

use crate::config::Zone;
use crate::edited;
use crate::images::{self, name};
use crate::laying;
use crate::ledger;
use crate::log;
use crate::origin::{self, Known, Means, NONE, Origin};
use crate::press::Press;
use crate::slate::Task;
use crate::state::State;
use crate::unwritten::Names;
use stats::Counter;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use store::atomic::{Output, write_checked};

/// So many octets go to the disk at a time: who waits for the disk meanwhile does not wait for a whole file.
const SLICE: usize = 4 << 20;

pub struct Scribe {
    pub press: Arc<Press>,
    pub data_dir: PathBuf,
    pub state: Arc<State>,
    /// Edits that cannot be taken in, as their files are, and why. Bound: as many as zones are written back.
    pub refused: HashMap<Box<[u8]>, (String, String)>,
}

/// What was done about a file.
enum Done {
    Written,
    /// It holds what is served.
    Current,
    /// Nobody has edited it, and it was not its time.
    Looked,
    /// Its edit is served now, or waits until nobody writes to it.
    Edited,
}

impl Scribe {
    /// Works until the process ends: a file that is being written then is not there.
    pub fn run(mut self) {
        let background = net::sched::background().and_then(|()| net::sched::pace());
        if let Err(e) = &background {
            log::warn("files that are written back compete with answering threads", &[("why", e)]);
        }
        loop {
            let task = self.press.slate.next();
            let outcome = self.attend(&task);
            if outcome.is_err() {
                self.press.slate.note([&*task.apex].into_iter(), Instant::now());
            }
            self.tell(&task, outcome);
        }
    }

    fn tell(&self, task: &Task, outcome: Result<Done, String>) {
        let zone = name(&task.apex);
        if let Ok(Done::Written) = outcome {
            self.state.written.count(Counter::WrittenBack);
            log::debug("a zone is written back", &[("zone", &zone), ("file", &task.file.display())]);
        }
        let why = match outcome {
            Ok(Done::Looked | Done::Edited) => return,
            Ok(Done::Written | Done::Current) => None,
            Err(why) => Some(why),
        };
        let before = self.state.set_unwritten(&task.apex, why.clone());
        match why {
            Some(why) if before.as_ref() != Some(&why) => {
                log::error("a zone is not written back", &[("zone", &zone), ("why", &why)]);
            }
            None if before.is_some() => log::info("a zone is written back again", &[("zone", &zone)]),
            _ => {}
        }
    }

    /// Err: why the file stays as it is.
    fn attend(&mut self, task: &Task) -> Result<Done, String> {
        // A link stays one.
        let file = task.file.canonicalize().unwrap_or_else(|_| task.file.clone());
        let (origin, is) = (Origin::of(&self.data_dir, &task.apex), origin::stamp(&file));
        let known = origin.known();
        if known.is_empty() {
            // Updates do not own the zone yet.
            return Ok(Done::Current);
        }
        if is != NONE && known.iter().all(|known| known.stamp != is) {
            return self.take_in(task, &file, is, &known);
        }
        self.refused.remove(&task.apex);
        if task.is_due {
            return self.write_back(&task.apex, &file, is, known);
        }
        if is == NONE || is_owed(&self.press, &self.data_dir, &task.apex) {
            self.press.slate.note([&*task.apex].into_iter(), Instant::now());
        }
        Ok(Done::Looked)
    }

    /// Changes the zone as the file was edited.
    fn take_in(&mut self, task: &Task, file: &Path, is: String, known: &[Known]) -> Result<Done, String> {
        if let Some((_, why)) = self.refused.get(&task.apex).filter(|(stamp, _)| *stamp == is) {
            return Err(why.clone());
        }
        if !is_at_rest(file) {
            self.press.slate.look(std::slice::from_ref(&task.apex), Instant::now() + REST);
            return Ok(Done::Edited);
        }
        let origin = Origin::of(&self.data_dir, &task.apex);
        // Who began to edit an old version has not seen what updates have changed since.
        let base = match (origin::version(file), known) {
            (Some(serial), _) | (None, &[Known { means: Means::Read, serial, .. }]) => serial,
            (None, _) => return Err(self.refuse(task, file, is, NO_VERSION)),
        };
        let (past, intake) = self.state.past().zip(self.state.intake()).ok_or("the server has only just started")?;
        let zone = Zone::new(task.apex.clone(), file.into());
        let mut outcome = Err("the zone changes too often: freeze it until its edit is taken in".to_string());
        for _ in 0..TRIES {
            let change = edited::change(past, &zone, base);
            if origin::stamp(file) != is {
                self.press.slate.look(std::slice::from_ref(&task.apex), Instant::now() + REST);
                return Ok(Done::Edited);
            }
            match change {
                Err(why) => return Err(self.refuse(task, file, is, &why)),
                Ok(None) => outcome = Ok(Means::Written),
                Ok(Some(diff)) => match intake.merge(&task.apex, diff) {
                    Ok(_) => outcome = Ok(Means::Edited),
                    // The zone may have changed meanwhile.
                    Err(_) => continue,
                },
            }
            break;
        }
        let means = outcome?;
        origin.remember(&[Known { means, serial: base, stamp: is }]).map_err(|e| e.to_string())?;
        if means == Means::Edited {
            log::info("an edit is taken in", &[("zone", &name(&task.apex)), ("file", &file.display())]);
        }
        self.press.slate.hurry(&task.apex, Instant::now());
        Ok(Done::Edited)
    }

    fn refuse(&mut self, task: &Task, file: &Path, is: String, why: &str) -> String {
        let why = format!("{} was edited, and its edit is not taken in: {why}", file.display());
        self.refused.insert(task.apex.clone(), (is, why.clone()));
        why
    }

    fn write_back(&self, apex: &[u8], file: &Path, was: String, mut known: Vec<Known>) -> Result<Done, String> {
        let now = self.press.current();
        let Some(zone) = laying::zone(now.image.view(), apex) else { return Ok(Done::Current) };
        let serial = zone.serial().map_err(|_| "the image that is served is damaged")?;
        if known.last().is_some_and(|last| last.means != Means::Edited && last.serial == serial && last.stamp == was) {
            return Ok(Done::Current);
        }
        let origin = Origin::of(&self.data_dir, apex);
        let (folder, target) = parts(file)?;
        images::sweep(folder, &format!("{target}."));
        let text = |out: &mut Output| {
            if let Ok(metadata) = std::fs::metadata(file) {
                out.resemble(&metadata).map_err(|e| io::Error::new(e.kind(), format!("{OWNER} ({e})")))?;
            }
            let mut out = Slices { out, since: 0 };
            out.write_all(origin::first_line(serial).as_bytes())?;
            ledger::write_text(&zone, &Names::new(), &mut out)
        };
        let mut new = None;
        let check = |temporary: &Path| {
            let written = new.insert(Known { means: Means::Written, serial, stamp: origin::stamp(temporary) });
            known.retain(|known| known.stamp == was);
            known.push(written.clone());
            origin.remember(&known)?;
            // As late as can be.
            if origin::stamp(file) == was { Ok(()) } else { Err(io::Error::other("it was edited just now")) }
        };
        write_checked(folder, target, None, text, check).map_err(|e| e.to_string())?;
        // From here on it is known which version somebody edits.
        origin.remember(new.as_slice()).map_err(|e| e.to_string())?;
        Ok(Done::Written)
    }
}

/// Whether another version is served than the one that was read or written last.
pub fn is_owed(press: &Press, data_dir: &Path, apex: &[u8]) -> bool {
    let now = press.current();
    let serial = laying::zone(now.image.view(), apex).and_then(|zone| zone.serial().ok());
    let known = Origin::of(data_dir, apex).known();
    serial.is_some() && known.last().is_some_and(|last| last.means == Means::Edited || Some(last.serial) != serial)
}

/// So long nobody may have written to a file whose edit is taken in: editors write in several steps.
const REST: Duration = Duration::from_secs(1);
/// Tries to take an edit in while updates go on.
const TRIES: usize = 5;

fn is_at_rest(file: &Path) -> bool {
    let modified = std::fs::metadata(file).and_then(|m| m.modified()).ok();
    let since = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
    // A time to come says nothing.
    modified.is_some() && since.is_none_or(|since| since >= REST)
}

const NO_VERSION: &str = "its first line does not say which version was edited, as files do that are written back; put that line there, \
    or move the file away";
const OWNER: &str = "its owner and mode cannot be kept; make it the server's user's";

fn parts(file: &Path) -> Result<(&Path, &str), String> {
    let folder = file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let name = file.file_name().and_then(|name| name.to_str());
    folder.zip(name).ok_or_else(|| format!("{} is no name that can be written", file.display()))
}

/// Sends what is written to the disk slice by slice.
struct Slices<'o> {
    out: &'o mut Output,
    since: usize,
}

impl Write for Slices<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let written = self.out.write(from)?;
        self.since += written;
        if self.since >= SLICE {
            self.since = 0;
            self.out.settle()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
