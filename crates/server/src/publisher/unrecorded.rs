//! Versions that are served, and that the history does not have yet: for some milliseconds, or as long as others keep the disk and the processors busy.
//! Whoever stops the server waits for that. The next start would weigh, and number, what it reads against the version before. The same of a command that
//! has written a zone's file: whoever was told that it failed finds all as it was.

use front::locks::hold;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

#[derive(Default)]
pub struct Unrecorded {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many times something was begun, by one thread, and has not ended.
    begun: usize,
    is_over: bool,
}

/// Until this is dropped.
pub struct Serving<'u>(&'u Unrecorded);

impl Unrecorded {
    /// Something is served soon. When the server stops it is not, unless it is a part of what was begun before: then this waits for the end of the process.
    pub fn begin(&self) -> Serving<'_> {
        let mut state = hold(&self.state);
        while state.is_over && state.begun == 0 {
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        state.begun += 1;
        Serving(self)
    }

    /// Nothing is served any more that is not recorded, unless it takes longer than this.
    pub fn settle(&self, patience: Duration) {
        let mut state = hold(&self.state);
        state.is_over = true;
        let _ = self.changed.wait_timeout_while(state, patience, |state| state.begun > 0);
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        hold(&self.0.state).begun -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn who_stops_waits_for_what_is_served_and_nothing_more_is() {
        let unrecorded = Arc::new(Unrecorded::default());
        let serving = unrecorded.begin();
        let is_recorded = Arc::new(AtomicBool::new(false));
        let stop = {
            let (unrecorded, is_recorded) = (Arc::clone(&unrecorded), Arc::clone(&is_recorded));
            std::thread::spawn(move || {
                unrecorded.settle(Duration::from_secs(60));
                is_recorded.load(SeqCst)
            })
        };
        while !hold(&unrecorded.state).is_over {
            std::thread::yield_now();
        }
        drop(unrecorded.begin());
        is_recorded.store(true, SeqCst);
        drop(serving);
        assert!(stop.join().unwrap());
        // What is to be served next is not, unless somebody takes the end back.
        let is_taken_back = Arc::new(AtomicBool::new(false));
        let next = {
            let (unrecorded, is_taken_back) = (Arc::clone(&unrecorded), Arc::clone(&is_taken_back));
            std::thread::spawn(move || {
                let _serving = unrecorded.begin();
                is_taken_back.load(SeqCst)
            })
        };
        (0..1000).for_each(|_| std::thread::yield_now());
        is_taken_back.store(true, SeqCst);
        hold(&unrecorded.state).is_over = false;
        unrecorded.changed.notify_all();
        assert!(next.join().unwrap());
    }

    #[test]
    fn a_disk_that_never_answers_is_not_waited_for_for_ever() {
        let unrecorded = Unrecorded::default();
        let _serving = unrecorded.begin();
        unrecorded.settle(Duration::from_millis(1));
    }
}
