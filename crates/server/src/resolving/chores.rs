//! What the cache wants done in the background: its memory filled and put behind its addresses, the time stamped once a
//! second, flushes gone on with, snapshots written. On a thread of its own, in slices, when nobody else wants the CPU.

use crate::clock::Clock;
use crate::log;
use crate::resolving::ending::Ending;
use crate::resolving::memory::{self, Rest};
use cache::{Cache, Scratch, Sweep};
use std::io;
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

/// Somebody waits for a snapshot: its octets, or why there is none.
pub type Wish = Sender<Result<u64, String>>;

pub struct Chores {
    pub cache: Arc<Cache>,
    pub clock: Clock,
    pub memory: Memory,
    pub ending: Arc<Ending>,
    pub wishes: Receiver<Wish>,
}

/// What the thread remembers from one round to the next.
#[derive(Default)]
struct Round {
    sweep: Sweep,
    scratch: Scratch,
    stamped_ns: u64,
    saved_ns: u64,
    /// At most as many as there are conversations of operators.
    waiting: Vec<Wish>,
}

impl Chores {
    /// Works until the server stops.
    pub fn run(self, rest: Rest) {
        let mut round = Round { saved_ns: self.clock.mono_ns(), ..Round::default() };
        // Of what has not been read yet, each question goes to others.
        warn_of(net::sched::modest());
        if rest.finish(&self.cache, &self.memory, || self.breathe(&mut round)) {
            self.ending.cache_is_whole();
        }
        warn_of(net::sched::background());
        let _pace = net::sched::pace();
        self.put_behind(&mut round);
        while !self.ending.has_come() {
            self.work(&mut round);
            match self.wishes.recv_timeout(EVERY) {
                Ok(wish) => round.waiting.push(wish),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// What there is to do once a second, and when somebody waits for it.
    fn work(&self, round: &mut Round) {
        self.stamp(round);
        while self.cache.sweep(&mut round.sweep, SLOTS, &mut round.scratch) && self.breathe(round) {}
        let is_due = self.clock.mono_ns() - round.saved_ns >= SNAPSHOT_EVERY_NS && !self.ending.is_saved(&self.cache);
        let waiting = std::mem::take(&mut round.waiting);
        if is_due || !waiting.is_empty() {
            round.saved_ns = self.clock.mono_ns();
            let outcome = self.ending.save(&self.cache, || self.breathe(round));
            // Who asked may have gone.
            waiting.iter().for_each(|done| drop(done.send(outcome.clone())));
        }
    }

    /// Between two slices. False: the process is to end.
    fn breathe(&self, round: &mut Round) -> bool {
        self.stamp(round);
        round.waiting.extend(self.wishes.try_iter());
        !self.ending.has_come()
    }

    /// Once a second, whatever else is being done.
    fn stamp(&self, round: &mut Round) {
        let now_ns = self.clock.mono_ns();
        if now_ns - round.stamped_ns >= SECOND_NS {
            round.stamped_ns = now_ns;
            self.cache.stamp(memory::moment(self.ending.boot));
        }
    }

    /// Puts pages behind the addresses, before they are needed.
    fn put_behind(&self, round: &mut Round) {
        let mut at = 0;
        while at < self.memory.bytes() && self.breathe(round) {
            at = self.memory.prefault(at, SLICE);
        }
    }
}

fn warn_of(outcome: io::Result<()>) {
    if let Err(e) = outcome {
        log::warn("the background thread competes with answering threads", &[("why", &e)]);
    }
}
