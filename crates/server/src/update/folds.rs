//! When files are written of what updates have changed, and a new image is made of these: once nothing has changed for a while; though it has, when a
//! start would have to read too much of the journal; and never so often that images are all that is made.

use crate::failures::Failures;
use std::time::{Duration, Instant};

/// How long nothing may have changed before; and how long names may carry addresses of hosts as they were.
const QUIET: Duration = Duration::from_secs(10);
/// So many times as long as the last one took none is begun, unless much has changed: where an update comes now and then, images would be made all the
/// time. For these names it is once as long.
const REST: u32 = 8;
/// Segments of the journal, of 4 MiB, since the last time: a start reads a hundred MiB a second of them.
const SEGMENTS_MAX: usize = 16;

#[derive(Default)]
pub struct Folds {
    /// When something has changed last that no file holds.
    changed: Option<Instant>,
    /// Since when names wait for a new image that carry addresses of hosts as they were.
    lagging: Option<Instant>,
    /// One is under way: since when, and where the journal ended then.
    under_way: Option<(Instant, u64)>,
    /// Where the journal ended when all of it was written into files last.
    done: u64,
    /// When the last one ended, and how long it took.
    last: Option<(Instant, Duration)>,
    /// Images that could not be made since one could.
    failures: Failures,
    /// Names that no file held when the last one ended.
    left: usize,
}

impl Folds {
    pub fn change(&mut self, now: Instant) {
        self.changed = Some(now);
    }

    /// Whether names wait for a new image.
    pub fn lag(&mut self, is_lagging: bool, now: Instant) {
        self.lagging = self.lagging.or(Some(now)).filter(|_| is_lagging);
    }

    /// There is nothing to be folded.
    pub fn is_nothing(&self) -> bool {
        self.changed.is_none() && self.lagging.is_none()
    }

    /// Whether one is to begin. `is_much`: so much has changed that it has to be, more than so many names; `segments`: how many the journal has behind a position.
    pub fn is_due(&self, now: Instant, is_much: impl Fn(usize) -> bool, segments: impl Fn(u64) -> usize) -> bool {
        if self.is_nothing() || self.under_way.is_some() || self.failures.are_recent(now) {
            return false;
        }
        let rests = |times| self.last.is_some_and(|(ended, took)| now - ended < took * times);
        let is_long_ago = |then: Option<Instant>| then.is_some_and(|then| now - then >= QUIET);
        let is_time = || is_long_ago(self.changed) || segments(self.done) > SEGMENTS_MAX;
        is_long_ago(self.lagging) && !rests(1) || is_time() && !rests(REST) || is_much(self.left * 2)
    }

    /// `end`: where the journal ends.
    pub fn begin(&mut self, now: Instant, end: u64) {
        self.under_way = Some((now, end));
    }

    /// The one that was under way has ended. `left`: names that no file holds, which wait as long again. Updates have changed them meanwhile, or their
    /// zone's file could not be written, nor will the next one be: whatever their number, they alone are no reason not to rest.
    pub fn end(&mut self, now: Instant, is_made: bool, left: usize) {
        if let Some((begun, end)) = self.under_way.take() {
            self.last = Some((now, now - begun));
            self.done = if is_made { end } else { self.done };
        }
        if is_made {
            self.failures = Failures::default()
        } else {
            self.failures.add(now)
        }
        (self.lagging, self.changed, self.left) = (None, (left > 0).then_some(now), left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked at this second.
    struct Desk(Folds, Instant);

    impl Desk {
        fn new() -> Desk {
            Desk(Folds::default(), Instant::now())
        }

        fn at(&self, s: u64) -> Instant {
            self.1 + Duration::from_secs(s)
        }

        fn change(&mut self, s: u64) {
            self.0.change(self.at(s));
        }

        fn is_due(&self, s: u64) -> bool {
            self.0.is_due(self.at(s), |_| false, |_| 0)
        }

        fn fold(&mut self, s: u64, took_s: u64, is_made: bool, are_left: bool) {
            self.0.begin(self.at(s), 100 * s);
            assert!(!self.is_due(s + 100), "one at a time");
            self.0.end(self.at(s + took_s), is_made, usize::from(are_left));
        }
    }

    #[test]
    fn it_waits_for_a_pause_and_rests_after_that() {
        let mut desk = Desk::new();
        assert!(!desk.is_due(100), "nothing has changed");
        desk.change(0);
        desk.change(5);
        assert!(!desk.is_due(14) && desk.is_due(15));
        desk.fold(15, 5, true, false);
        assert!(!desk.is_due(100) && desk.0.is_nothing());
        desk.change(21);
        assert!(!desk.is_due(59) && desk.is_due(60), "eight times as long as it took");
        desk.fold(60, 1, true, true);
        assert!(!desk.is_due(70) && desk.is_due(71), "what came meanwhile");
    }

    #[test]
    fn what_is_much_does_not_wait_for_a_pause() {
        let mut desk = Desk::new();
        desk.change(0);
        desk.fold(10, 100, true, true);
        let journal = |end: u64| move |from: u64| (end - from) as usize / 100;
        let is_due_for = |is_much: bool| desk.0.is_due(desk.at(111), |_| is_much, |_| 0);
        assert!(is_due_for(true) && !is_due_for(false), "while it rests, too");
        let is_long = |s, end| desk.0.is_due(desk.at(s), |_| false, journal(end));
        assert!(!is_long(112, 2_700) && !is_long(118, 2_800), "a pause it has, and rests");
        let mut desk = Desk::new();
        desk.change(9);
        desk.fold(10, 0, true, true);
        desk.change(12);
        let is_long = |end| desk.0.is_due(desk.at(13), |_| false, journal(end));
        assert!(!is_long(2_600) && is_long(2_700), "so many segments since the last one");
    }

    #[test]
    fn names_that_no_file_takes_in_are_no_reason_for_one_image_after_the_other() {
        let mut desk = Desk::new();
        let is_due_with = |desk: &Desk, names: usize| desk.0.is_due(desk.at(20), |max| names > max.max(100), |_| 0);
        desk.change(0);
        assert!(!is_due_with(&Desk::new(), 101) && is_due_with(&desk, 101));
        desk.0.begin(desk.at(10), 0);
        desk.0.end(desk.at(19), true, 101);
        assert!([101, 202].iter().all(|names| !is_due_with(&desk, *names)) && is_due_with(&desk, 203));
    }

    #[test]
    fn names_that_lag_wait_so_long_whether_one_failed_or_not() {
        let mut desk = Desk::new();
        for s in [3, 9] {
            desk.0.lag(true, desk.at(s));
        }
        assert!(!desk.is_due(12) && desk.is_due(13));
        desk.fold(13, 10, false, false);
        desk.0.lag(true, desk.at(24));
        assert!(!desk.is_due(33) && desk.is_due(34));
        (0..10).for_each(|s| desk.fold(40 + s, 0, false, false));
        desk.0.lag(true, desk.at(50));
        assert!(!desk.is_due(108) && desk.is_due(109), "what failed again and again");
        desk.fold(173, 100, true, false);
        desk.0.lag(true, desk.at(274));
        assert!(!desk.is_due(372) && desk.is_due(373), "they rest as long as it took, and no longer");
        desk.0.lag(false, desk.at(373));
        assert!(!desk.is_due(400));
    }
}
