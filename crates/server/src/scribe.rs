//! Writes what updates have made of zones back into the files that are configured for them: on a thread of its own, in
//! slices, when nobody else wants the CPU.
//!
//! ```text
//! slate: a zone is due -> is its file one that we know? -> text of what is served, in a temporary file beside it, synced
//!   -> origin: what is about to be there -> still the file that we know? -> rename, the folder synced
//! ```
//! Never writes over a file that somebody has edited: that is said, and tried again, until the file is one that we know or
//! is gone. What could not be written is in the journal, and is owed at the next start too.

use crate::images::{self, name};
use crate::laying;
use crate::ledger;
use crate::log;
use crate::origin::{self, Known, NONE, Origin};
use crate::press::Press;
use crate::slate::Task;
use crate::state::State;
use crate::unwritten::Names;
use stats::Counter;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use store::atomic::{Output, write_checked};

/// So many octets go to the disk at a time: who waits for the disk meanwhile does not wait for a whole file.
const SLICE: usize = 4 << 20;

pub struct Scribe {
    pub press: Arc<Press>,
    pub data_dir: PathBuf,
    pub state: Arc<State>,
}

impl Scribe {
    /// Works until the process ends: a file that is being written then is not there.
    pub fn run(self) {
        let background = net::sched::background().and_then(|()| net::sched::pace());
        if let Err(e) = &background {
            log::warn("files that are written back compete with answering threads", &[("why", e)]);
        }
        loop {
            let task = self.press.slate.next();
            let outcome = self.write_back(&task);
            if outcome.is_err() {
                self.press.slate.note([&*task.apex].into_iter(), Instant::now());
            }
            self.tell(&task, outcome);
        }
    }

    fn tell(&self, task: &Task, outcome: Result<bool, String>) {
        let zone = name(&task.apex);
        if let Ok(true) = outcome {
            self.state.written.count(Counter::WrittenBack);
            log::debug("a zone is written back", &[("zone", &zone), ("file", &task.file.display())]);
        }
        let why = outcome.err();
        let before = self.state.set_unwritten(&task.apex, why.clone());
        match why {
            Some(why) if before.as_ref() != Some(&why) => {
                log::error("a zone is not written back", &[("zone", &zone), ("why", &why)]);
            }
            None if before.is_some() => log::info("a zone is written back again", &[("zone", &zone)]),
            _ => {}
        }
    }

    /// True if something was written. Err: why the file stays as it is.
    fn write_back(&self, task: &Task) -> Result<bool, String> {
        let now = self.press.current();
        let Some(zone) = laying::zone(now.image.view(), &task.apex) else { return Ok(false) };
        let serial = zone.serial().map_err(|_| "the image that is served is damaged")?;
        // A link stays one.
        let file = task.file.canonicalize().unwrap_or_else(|_| task.file.clone());
        let (origin, was) = (Origin::of(&self.data_dir, &task.apex), origin::stamp(&file));
        let mut known = origin.known();
        if known.last().is_some_and(|last| last.serial == serial && last.stamp == was) {
            return Ok(false);
        }
        let is_ours = |stamp: &str| stamp == NONE || known.iter().any(|known| known.stamp == stamp);
        if !is_ours(&was) {
            return Err(edited(&file));
        }
        let (folder, target) = parts(&file)?;
        images::sweep(folder, &format!("{target}."));
        let text = |out: &mut Output| {
            if let Ok(metadata) = std::fs::metadata(&file) {
                out.resemble(&metadata).map_err(|e| io::Error::new(e.kind(), format!("{OWNER} ({e})")))?;
            }
            let mut out = Slices { out, since: 0 };
            writeln!(out, "; serial {serial}, written by dunlin: the zone is changed by updates")?;
            ledger::write_text(&zone, &Names::new(), &mut out)
        };
        let check = |new: &Path| {
            known.retain(|known| known.stamp == was);
            known.push(Known { serial, stamp: origin::stamp(new) });
            origin.remember(&known)?;
            // As late as can be.
            if origin::stamp(&file) == was { Ok(()) } else { Err(io::Error::other("it was edited just now")) }
        };
        write_checked(folder, target, None, text, check).map(|_| true).map_err(|e| e.to_string())
    }
}

const OWNER: &str = "its owner and mode cannot be kept; make it the server's user's";

fn edited(file: &Path) -> String {
    format!(
        "{} was edited, and is not written over; to have it written, put what is new in it into the zone by an update, \
         and move it away",
        file.display()
    )
}

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
