//! How long what failed is not tried again: what was wrong may be over at once, or not for days.

use std::time::{Duration, Instant};

/// After the first time, and twice as long after each that follows, a minute at most: on a full disk nothing else would be done.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// What failed so long ago may have been done meanwhile, by others. A try may take minutes.
const LONG_AGO: Duration = Duration::from_secs(3600);

/// Tries of the same thing that have failed, one after the other.
#[derive(Default)]
pub struct Failures {
    last: Option<Instant>,
    times: u32,
}

impl Failures {
    pub fn add(&mut self, now: Instant) {
        let is_another = self.last.is_none_or(|last| now - last >= LONG_AGO);
        (self.last, self.times) = (Some(now), if is_another { 1 } else { self.times.saturating_add(1) });
    }

    /// How long it is not tried again; None: the last try did not fail.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        let pause = AGAIN.saturating_mul(2_u32.saturating_pow(self.times.saturating_sub(1))).min(AGAIN_MAX);
        self.last.map(|last| pause.saturating_sub(now - last))
    }

    pub fn are_recent(&self, now: Instant) -> bool {
        self.rest(now).is_some_and(|rest| !rest.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_is_tried_more_and_more_seldom() {
        let (mut failures, begun) = (Failures::default(), Instant::now());
        assert!(failures.rest(begun).is_none() && !failures.are_recent(begun));
        let mut now = begun;
        let pauses = [1, 2, 4, 8, 16, 32, 60, 60].map(|pause| {
            failures.add(now);
            let last_ms = now + Duration::from_millis(pause * 1000 - 1);
            assert!(failures.are_recent(now) && failures.are_recent(last_ms));
            now += failures.rest(now).unwrap();
            assert!(!failures.are_recent(now));
            pause
        });
        assert_eq!(now - begun, Duration::from_secs(pauses.iter().sum()));
        (0..100).for_each(|_| failures.add(now));
        assert_eq!(failures.rest(now), Some(AGAIN_MAX));
        now += 5 * AGAIN_MAX;
        failures.add(now);
        assert_eq!(failures.rest(now), Some(AGAIN_MAX), "it took that long");
        now += LONG_AGO;
        failures.add(now);
        assert_eq!(failures.rest(now), Some(AGAIN));
    }
}
