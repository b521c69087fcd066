//! The position before which no zone's file needs the journal: a start does not read what stands there. What is too old for history, too, goes, on a
//! thread of its own: a segment goes in one millisecond or in thirty, and there may be thousands where `[history]` has become less. No update waits for that.

use crate::answering::queue::Receiver;
use crate::config::History;
use crate::history::Keeping;
use crate::log::{self, Seldom};
use front::locks::hold;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use store::atomic::write_atomically;
use store::crc::crc32c;
use store::journal::{self, Disk, Folder, Journal};

pub const RELEASED: &str = "released";

/// Where that is not said, all that is there is needed: nothing goes before it is released.
pub fn released(folder: &Path) -> io::Result<u64> {
    said_released(folder)?.map_or_else(|| Journal::oldest(Folder::open(folder)?), Ok)
}

/// None: it is not said, or what says it is damaged.
pub fn said_released(folder: &Path) -> io::Result<Option<u64>> {
    match std::fs::read(folder.join(RELEASED)) {
        Ok(text) => Ok(str::from_utf8(&text).ok().and_then(released_in)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", folder.join(RELEASED).display()))),
    }
}

/// A position, and a sum of it: of one that is too high by one a start would not read a change that was acknowledged.
fn line_of_released(position: u64) -> String {
    let position = position.to_string();
    format!("{position} sum {:08x}\n", crc32c(position.as_bytes()))
}

/// Up to version 0.1 there was no sum.
fn released_in(text: &str) -> Option<u64> {
    let position = text.strip_suffix('\n')?.split(' ').next()?.parse().ok()?;
    let is_so = text == format!("{position}\n") || text == line_of_released(position);
    is_so.then_some(position)
}

pub fn write_released(folder: &Path, position: u64) -> io::Result<()> {
    write_atomically(folder, RELEASED, None, |out| out.write_all(line_of_released(position).as_bytes())).map(drop)
}

/// What may go.
pub struct Unneeded {
    /// No zone's file needs the changes before this position.
    pub before: u64,
    /// What is kept of them all the same.
    pub history: History,
}

/// Lets go of that.
pub struct Releaser {
    pub folder: PathBuf,
    pub journal: Arc<Mutex<Journal<Folder>>>,
    /// As the file says.
    pub released: Arc<AtomicU64>,
    pub keeping: Keeping,
}

impl Releaser {
    /// Works until nobody can tell of anything any more.
    pub fn run(mut self, all: &Receiver<Unneeded>) {
        let mut failed = Seldom::default();
        while let Some(unneeded) = all.recv() {
            if let Err(e) = self.release(&unneeded)
                && let Some(unsaid) = failed.untold()
            {
                log::warn("the journal grows", &[("why", &e), ("unsaid", &unsaid)]);
            }
        }
    }

    pub fn release(&mut self, unneeded: &Unneeded) -> io::Result<()> {
        if unneeded.before > self.released.load(Relaxed) {
            write_released(&self.folder, unneeded.before)?;
            self.released.store(unneeded.before, Relaxed);
        }
        // Whoever appends goes before others, and waits for a few instructions: not for memory, nor for a file to go.
        let mut numbers = Vec::with_capacity(hold(&self.journal).numbers().count() + 1);
        numbers.extend(hold(&self.journal).numbers());
        let place = |number: u64| self.folder.join(journal::name(number));
        let places: Vec<PathBuf> = numbers.into_iter().map(place).collect();
        let too_many = places.len() - self.keeping.kept(&places, &unneeded.history);
        if too_many == 0 {
            return Ok(());
        }
        let disk = Folder::open(&self.folder)?;
        for _ in 0..too_many {
            let Some(oldest) = hold(&self.journal).let_go(self.released.load(Relaxed)) else { break };
            if let Err(e) = disk.remove(&journal::name(oldest)) {
                hold(&self.journal).put_back(oldest);
                return Err(e);
            }
            // One after the other: a sync of an update waits for all that goes at once.
            disk.sync_names()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_believed_as_it_was_written() {
        let text = line_of_released(228);
        assert_eq!((released_in(&text), released_in("228\n")), (Some(228), Some(228)));
        for bit in 0..8 * text.len() {
            let mut octets = text.clone().into_bytes();
            octets[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(str::from_utf8(&octets).ok().and_then(released_in), None, "bit {bit}");
        }
        (0..text.len()).for_each(|len| assert_eq!(released_in(&text[..len]), None, "{len} octets"));
        assert_eq!((released_in("228"), released_in("22x\n"), released_in("228 \n")), (None, None, None));
    }
}
