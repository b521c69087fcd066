//! A write of the journal that does not end: no error comes of a disk that hangs, so somebody else than who waits for it has to notice.

use crate::clock::Clock;
use crate::log;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A sync on a disk that is only slow ends sooner.
const PATIENCE_NS: u64 = 5_000_000_000;

pub struct Writing {
    clock: Clock,
    /// 0: nothing is written.
    since_ns: AtomicU64,
    is_told: AtomicBool,
}

impl Writing {
    pub fn new(clock: Clock) -> Writing {
        Writing { clock, since_ns: AtomicU64::new(0), is_told: AtomicBool::new(false) }
    }

    /// Said by who writes.
    pub fn begins(&self) {
        self.since_ns.store(self.clock.mono_ns().max(1), Relaxed);
    }

    pub fn ends(&self) {
        let since_ns = self.since_ns.swap(0, Relaxed);
        if self.is_told.swap(false, Relaxed) {
            let s = self.clock.mono_ns().saturating_sub(since_ns) / 1_000_000_000;
            log::info("the journal of updates is written again", &[("waited_s", &s)]);
        }
    }

    /// To be called now and then by somebody else.
    pub fn look(&self, now_ns: u64) {
        if self.lasts_ns(now_ns) >= PATIENCE_NS && !self.is_told.swap(true, Relaxed) {
            log::error(
                "updates wait: the disk does not answer",
                &[("what", &"a write of data-dir/journal does not end")],
            );
        }
    }

    /// Why no update is answered, if that is so.
    pub fn hangs(&self) -> Option<String> {
        let lasts_s = self.lasts_ns(self.clock.mono_ns()) / 1_000_000_000;
        (lasts_s >= PATIENCE_NS / 1_000_000_000)
            .then(|| format!("the disk does not answer: a write of data-dir/journal has lasted {lasts_s} s"))
    }

    fn lasts_ns(&self, now_ns: u64) -> u64 {
        match self.since_ns.load(Relaxed) {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_does_not_end_is_noticed_once_and_is_over_when_it_ends() {
        let writing = Writing::new(Clock::new());
        let is_told = || writing.is_told.load(Relaxed);
        writing.look(u64::MAX);
        assert!(!is_told() && writing.hangs().is_none(), "nothing is written");
        writing.begins();
        let begun = writing.since_ns.load(Relaxed);
        writing.look(begun + PATIENCE_NS - 1);
        assert!(!is_told(), "it may be slow");
        writing.look(begun + PATIENCE_NS);
        assert!(is_told());
        assert!(writing.hangs().is_none(), "by its own clock it has just begun");
        writing.ends();
        writing.look(u64::MAX);
        assert!(!is_told() && writing.hangs().is_none());
    }
}
