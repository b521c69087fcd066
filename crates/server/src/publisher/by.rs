//! By whom zones are changed, as the history has it.

use crate::history::{self, Recorder};
use crate::images;
use crate::images::held::Gate;
use crate::log;
use crate::publisher::NAMED_MAX;
use crate::publisher::jobs::Why;
use crate::state::State;
use std::collections::{HashMap, HashSet};
use transfer::Author;

/// Who has changed zones.
pub struct By {
    pub why: Why,
    /// He waits for what comes of it.
    pub is_asked: bool,
    /// Whom they named who asked.
    pub wanted: HashSet<Box<[u8]>>,
    /// From whom they have come, by apex.
    pub from: HashMap<Box<[u8]>, String>,
}

impl Default for By {
    fn default() -> By {
        By { why: Why::Asked, is_asked: false, wanted: HashSet::new(), from: HashMap::new() }
    }
}

impl By {
    pub fn author(&self, apex: &[u8]) -> Author {
        // Beside the zone that it is about others may have been edited.
        match self.why {
            _ if !self.wanted.contains(apex) => self.source(apex),
            Why::Back(serial) => history::by_going_back(serial),
            Why::Keep { is_forced: true } => history::by_force(history::by_command()),
            Why::Keep { is_forced: false } => history::by_command(),
            Why::Forced => history::by_force(self.source(apex)),
            _ => self.source(apex),
        }
    }

    fn source(&self, apex: &[u8]) -> Author {
        self.from.get(apex).map_or_else(history::by_file, |from| history::by_transfer(from))
    }
}

/// Keeps what has passed the gate in the history, but for zones that are not served so. False: it could not be written.
pub fn record(recorder: &mut Recorder, state: &State, gate: &Gate, unfit: &HashSet<&[u8]>, by: &By) -> bool {
    let is_kept = recorder.note(gate.take(unfit), &|apex| by.author(apex));
    let mut unnumbered = 0;
    for (apex, is_unnumbered) in gate.take_unnumbered() {
        state.set_unnumbered(&apex, is_unnumbered);
        unnumbered += usize::from(is_unnumbered);
        if is_unnumbered && unnumbered <= NAMED_MAX {
            log::warn("a zone was edited without a new serial", &[("zone", &images::name(&apex))]);
        }
    }
    if let Some(more) = unnumbered.checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        log::warn("more zones were edited without a new serial", &[("zones", &more)]);
    }
    is_kept
}
