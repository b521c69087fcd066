//! The two ends: where others leave what is to be done about zones that come from others, and what the thread takes of it.

use crate::answering::later::Desk;
use crate::answering::queue;
use crate::clock::wall_s;
use crate::config::Config;
use crate::json::Json;
use crate::secondaries::fetching::{Outcome, Wanted};
use front::{Postponed, Presence, Published, Purpose};
use net::Wake;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use transfer::refresh::{PrimaryId, ZoneId};

/// NOTIFYs that wait, one of each primary of a zone; more are dropped and counted, and their senders send them again.
pub(super) const ASKED_MAX: usize = 1024;
/// Those that are not signed as they should be: they are told so, and take no place of others.
pub(super) const DOUBTFUL_MAX: usize = 64;
/// Names of zones that have changed and wait to be looked at; of more of them all are looked at.
pub(super) const CHANGED_MAX: usize = 1024;

/// What the thread is told.
pub enum Note {
    Fetched {
        zone: ZoneId,
        primary: PrimaryId,
        errand: Wanted,
        outcome: Outcome,
    },
    /// The publisher is done with what it was handed, or can have nothing served for now.
    Laid {
        is_done: bool,
    },
    /// The configuration is another. `done` is let go of once nothing is fetched into a file any more that it gives to others.
    Adopt {
        config: Arc<Config>,
        done: Sender<()>,
    },
    /// It has been carried out: what it says is served.
    CarriedOut,
    /// An operator wants a zone transferred, or others told of it.
    Transfer {
        zone: String,
        done: Sender<Result<Json, String>>,
    },
    Announce {
        zone: String,
        done: Sender<Result<Json, String>>,
    },
    /// Zones of these names, or all that come from others.
    List {
        zones: Vec<String>,
        done: Sender<Result<Json, String>>,
    },
}

/// Everybody's end.
#[derive(Clone)]
pub struct Secondaries {
    /// Bound: transfers under way, conversations with operators, one batch, reloads.
    notes: Sender<Note>,
    asked: queue::Sender<Postponed>,
    doubtful: queue::Sender<Postponed>,
    changed: queue::Sender<Box<[u8]>>,
    all_changed: Arc<AtomicBool>,
    pub(super) wake: Arc<Wake>,
    /// Somebody has to do with zones of ours; else nobody cares whether they change.
    pub(super) has_any: Arc<AtomicBool>,
    pub presence: Arc<Published<Presence>>,
}

/// The thread's end.
pub struct Taken {
    pub(super) notes: Receiver<Note>,
    pub(super) asked: queue::Receiver<Postponed>,
    pub(super) doubtful: queue::Receiver<Postponed>,
    pub(super) changed: queue::Receiver<Box<[u8]>>,
    pub(super) all_changed: Arc<AtomicBool>,
    pub(super) wake: Arc<Wake>,
}

pub fn ends() -> io::Result<(Secondaries, Taken)> {
    let (notes, noted) = channel();
    let ((asked, asks), (changed, changes)) = (queue::bounded(ASKED_MAX), queue::bounded(CHANGED_MAX));
    let (doubtful, doubts) = queue::bounded(DOUBTFUL_MAX);
    let (wake, all_changed) = (Arc::new(Wake::new()?), Arc::new(AtomicBool::new(false)));
    let taken = Taken {
        notes: noted,
        asked: asks,
        doubtful: doubts,
        changed: changes,
        all_changed: Arc::clone(&all_changed),
        wake: Arc::clone(&wake),
    };
    let presence = Arc::new(Published::new(Presence::default()));
    let has_any = Arc::default();
    Ok((Secondaries { notes, asked, doubtful, changed, all_changed, wake, has_any, presence }, taken))
}

impl Desk for Secondaries {
    fn take(&self, question: Postponed) -> bool {
        let Purpose::Notify(caller) = &question.purpose else { return false };
        let is_taken = if !caller.is_credible(&question.message, wall_s()) {
            self.doubtful.try_send(question).is_ok()
        } else if caller.takes_place() {
            let caller = Arc::clone(caller);
            self.asked.try_send(question).inspect_err(|_| caller.leaves_place()).is_ok()
        } else {
            // What one says that waits already is what this one says.
            false
        };
        self.wake.ring();
        is_taken
    }
}

impl Secondaries {
    pub fn tell(&self, note: Note) {
        // Who listens goes with the process.
        let _ = self.notes.send(note);
        self.wake.ring();
    }

    /// Another version of a zone is served. Never waits.
    pub fn has_changed(&self, apex: &[u8]) {
        if !self.has_any.load(Relaxed) {
            return;
        }
        if self.changed.try_send(apex.into()).is_err() {
            self.all_changed.store(true, Relaxed);
        }
        self.wake.ring();
    }

    /// Nobody knows which have changed.
    pub fn have_changed(&self) {
        self.all_changed.store(true, Relaxed);
        self.wake.ring();
    }

    /// What an operator wants to be done or told.
    pub fn ask(&self, note: impl FnOnce(Sender<Result<Json, String>>) -> Note) -> Result<Json, String> {
        let (done, outcome) = channel();
        self.tell(note(done));
        outcome.recv().unwrap_or_else(|_| Err("the server is stopping".to_string()))
    }
}
