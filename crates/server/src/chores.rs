//! What the cache wants done in the background: its memory filled and put behind its addresses, the time stamped once a
//! second, flushes gone on with, snapshots written. On a thread of its own, in slices, when nobody else wants the CPU.

use crate::clock::Clock;
use crate::memory::{self, Rest};
use crate::shelf::Shelf;
use crate::{log, systemd};
use cache::{Cache, Event, Scratch, Sweep};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use store::Memory;

const EVERY: Duration = Duration::from_secs(1);
const SECOND_NS: u64 = 1_000_000_000;
/// Slots of the index looked at between two breaths.
const SLOTS: usize = 4096;
/// Octets of memory touched between two breaths.
const SLICE: usize = 8 << 20;
/// Between two snapshots. What was learned since the last is what a crash of the machine costs.
const SNAPSHOT_EVERY_NS: u64 = 600 * SECOND_NS;

/// What somebody waits for.
pub enum Wish {
    /// A snapshot now; its octets, or why there is none.
    Save(Sender<Result<u64, String>>),
    /// What is to be done before the process ends.
    Finish(Sender<()>),
}

pub struct Chores {
    pub cache: Arc<Cache>,
    pub clock: Clock,
    pub memory: Memory,
    /// None: nothing of it is to outlive the process.
    pub shelf: Option<Shelf>,
    pub boot: u64,
    pub wishes: Receiver<Wish>,
}

/// What the thread remembers from one round to the next.
struct Round {
    sweep: Sweep,
    scratch: Scratch,
    stamped_ns: u64,
    saved_ns: u64,
    /// Entries stored when the last snapshot was begun.
    saved: u64,
}

impl Chores {
    /// Works until the server stops.
    pub fn run(self, rest: Rest) {
        if let Err(e) = net::sched::background().and_then(|()| net::sched::pace()) {
            log::warn("the background thread competes with answering threads", &[("why", &e)]);
        }
        let now_ns = self.clock.mono_ns();
        let (sweep, scratch) = (Sweep::default(), Scratch::default());
        let mut round = Round { sweep, scratch, stamped_ns: 0, saved_ns: now_ns, saved: 0 };
        rest.finish(&self.cache, || self.stamp(&mut round));
        self.put_behind(&mut round);
        round.saved = self.stored();
        loop {
            self.stamp(&mut round);
            while self.cache.sweep(&mut round.sweep, SLOTS, &mut round.scratch) {
                self.stamp(&mut round);
            }
            let is_due = self.clock.mono_ns() - round.saved_ns >= SNAPSHOT_EVERY_NS;
            if is_due && self.stored() != round.saved {
                // A failure is in the log.
                let _ = self.save(&mut round);
            }
            match self.wishes.recv_timeout(EVERY) {
                Ok(Wish::Save(done)) => {
                    // Who asked may have gone.
                    let _ = done.send(self.save(&mut round));
                }
                Ok(Wish::Finish(done)) => {
                    self.finish(&mut round);
                    let _ = done.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Once a second, whatever else is being done.
    fn stamp(&self, round: &mut Round) {
        let now_ns = self.clock.mono_ns();
        if now_ns - round.stamped_ns >= SECOND_NS {
            round.stamped_ns = now_ns;
            self.cache.stamp(memory::moment(self.boot));
        }
    }

    /// Puts pages behind the addresses, before they are needed.
    fn put_behind(&self, round: &mut Round) {
        let mut at = 0;
        while at < self.memory.bytes() {
            at = self.memory.prefault(at, SLICE);
            self.stamp(round);
        }
    }

    fn stored(&self) -> u64 {
        let stats = self.cache.stats();
        stats.event(Event::Stored) + stats.event(Event::Replaced) + stats.event(Event::Flushed)
    }

    fn save(&self, round: &mut Round) -> Result<u64, String> {
        let Some(shelf) = &self.shelf else { return Err("[cache] persist is false".to_string()) };
        (round.saved_ns, round.saved) = (self.clock.mono_ns(), self.stored());
        let written = shelf.write(&self.cache, || self.stamp(round));
        written.map_err(|e| {
            log::warn("the cache cannot be written down", &[("why", &e)]);
            e.to_string()
        })
    }

    /// What the service manager keeps needs no snapshot, and an upgrade shall not wait for a disk.
    fn finish(&self, round: &mut Round) {
        self.cache.stamp(memory::moment(self.boot));
        if self.shelf.is_some() && !systemd::keeps() && self.stored() != round.saved {
            // A failure is in the log.
            let _ = self.save(round);
        }
    }
}
