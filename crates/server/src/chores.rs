//! What the cache wants done in the background: its memory filled and put behind its addresses, the time stamped once a
//! second, flushes gone on with, snapshots written. On a thread of its own, in slices, when nobody else wants the CPU.

use crate::clock::Clock;
use crate::log;
use crate::memory::{self, Rest};
use crate::shelf::Shelf;
use cache::{Cache, Event, Scratch, Sweep};
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
#[derive(Default)]
struct Round {
    sweep: Sweep,
    scratch: Scratch,
    stamped_ns: u64,
    saved_ns: u64,
    /// Entries stored when the last snapshot was begun.
    saved: u64,
    /// Who waits for a snapshot: at most as many as there are conversations of operators.
    waiting: Vec<Sender<Result<u64, String>>>,
    /// The process is to end.
    finish: Option<Sender<()>>,
}

impl Round {
    fn hear(&mut self, wish: Wish) {
        match wish {
            Wish::Save(done) => self.waiting.push(done),
            Wish::Finish(done) => self.finish = Some(done),
        }
    }
}

impl Chores {
    /// Works until the server stops.
    pub fn run(self, rest: Rest) {
        let mut round = Round { saved_ns: self.clock.mono_ns(), ..Round::default() };
        // Of what has not been read yet, each question goes to others.
        warn_of(net::sched::modest());
        let is_whole = rest.finish(&self.cache, &self.memory, || self.breathe(&mut round));
        warn_of(net::sched::background());
        let _pace = net::sched::pace();
        self.put_behind(&mut round);
        while round.finish.is_none() {
            self.work(&mut round);
            match self.wishes.recv_timeout(EVERY) {
                Ok(wish) => round.hear(wish),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if is_whole {
            self.finish(&mut round);
        }
        // Who asked waits no longer than this.
        let _ = round.finish.map(|done| done.send(()));
    }

    /// What there is to do once a second, and when somebody waits for it.
    fn work(&self, round: &mut Round) {
        self.stamp(round);
        while self.cache.sweep(&mut round.sweep, SLOTS, &mut round.scratch) && self.breathe(round) {}
        let is_due = self.clock.mono_ns() - round.saved_ns >= SNAPSHOT_EVERY_NS && self.stored() != round.saved;
        let waiting = std::mem::take(&mut round.waiting);
        if is_due || !waiting.is_empty() {
            let outcome = self.save(round, Chores::breathe);
            // Who asked may have gone.
            waiting.iter().for_each(|done| drop(done.send(outcome.clone())));
        }
    }

    /// Between two slices. False: the process is to end.
    fn breathe(&self, round: &mut Round) -> bool {
        self.stamp(round);
        self.wishes.try_iter().for_each(|wish| round.hear(wish));
        round.finish.is_none()
    }

    /// Once a second, whatever else is being done.
    fn stamp(&self, round: &mut Round) -> bool {
        let now_ns = self.clock.mono_ns();
        if now_ns - round.stamped_ns >= SECOND_NS {
            round.stamped_ns = now_ns;
            self.cache.stamp(memory::moment(self.boot));
        }
        true
    }

    /// Puts pages behind the addresses, before they are needed.
    fn put_behind(&self, round: &mut Round) {
        let mut at = 0;
        while at < self.memory.bytes() && self.breathe(round) {
            at = self.memory.prefault(at, SLICE);
        }
    }

    fn stored(&self) -> u64 {
        let stats = self.cache.stats();
        stats.event(Event::Stored) + stats.event(Event::Replaced) + stats.event(Event::Flushed)
    }

    fn save(&self, round: &mut Round, breathe: impl Fn(&Chores, &mut Round) -> bool) -> Result<u64, String> {
        let Some(shelf) = &self.shelf else { return Err("[cache] persist is false".to_string()) };
        (round.saved_ns, round.saved) = (self.clock.mono_ns(), self.stored());
        shelf.write(&self.cache, || breathe(self, round)).map_err(|e| {
            if round.finish.is_none() {
                log::warn("the cache cannot be written down", &[("why", &e)]);
            }
            // It is not saved.
            round.saved = 0;
            e.to_string()
        })
    }

    fn finish(&self, round: &mut Round) {
        self.cache.stamp(memory::moment(self.boot));
        if self.stored() != round.saved {
            // A failure is in the log.
            let _ = self.save(round, Chores::stamp);
        }
    }
}

fn warn_of(outcome: io::Result<()>) {
    if let Err(e) = outcome {
        log::warn("the background thread competes with answering threads", &[("why", &e)]);
    }
}
