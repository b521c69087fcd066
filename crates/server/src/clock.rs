//! The time, for those who must not read it themselves.

use front::Now;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use transfer::When;

/// Both clocks. Wall time is read once a turn of a loop, monotonic time twice a batch. Monotonic time is CLOCK_BOOTTIME's:
/// what one process of a boot writes down, the next can read.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_ns: u64,
}

impl Clock {
    pub fn new() -> Clock {
        Clock { start_ns: net::boot::time_ns() }
    }

    pub fn now(&self) -> Now {
        Now { mono_ns: self.mono_ns(), wall_s: wall_s() }
    }

    pub fn mono_ns(&self) -> u64 {
        net::boot::time_ns()
    }

    pub fn uptime_s(&self) -> u64 {
        (self.mono_ns() - self.start_ns) / 1_000_000_000
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Seconds since 1970.
pub fn wall_s() -> u64 {
    since_1970().as_secs()
}

/// The same in milliseconds.
pub fn wall_ms() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// The number of the last change that is known, in whichever journal.
static LAST_CHANGE: AtomicU64 = AtomicU64::new(0);

/// That of a change that is made now: behind all that are known, though the clock was put back since.
pub fn change_now() -> When {
    let (now, mut number) = (since_1970(), 0);
    let by_clock = u64::try_from(now.as_micros()).unwrap_or(0);
    let _ = LAST_CHANGE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        number = by_clock.max(last.saturating_add(1));
        Some(number)
    });
    When { number, wall_s: now.as_secs() }
}

/// A journal has this change.
pub fn know_change(when: When) {
    LAST_CHANGE.fetch_max(when.number, Ordering::Relaxed);
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// "2026-11-20T12:00:00Z".
pub fn rfc3339(wall_s: u64) -> String {
    let (year, month, day) = date(wall_s / 86_400);
    let s = wall_s % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

/// "2026-11-20T12:00:00.123Z".
pub fn rfc3339_ms(wall_ms: u64) -> String {
    let s = rfc3339(wall_ms / 1000);
    format!("{}.{:03}Z", s.trim_end_matches('Z'), wall_ms % 1000)
}

/// Year, month and day of a day counted from 1970-01-01. Years are taken to begin in March, so that the leap day is
/// the last of them; 400 years have 146,097 days.
pub fn date(day: u64) -> (u64, u64, u64) {
    let z = day + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_comes_behind_all_that_are_known() {
        let (first, second) = (change_now(), change_now());
        assert!(first < second && first.wall_s > 0);
        let ahead = When { number: second.number + (3600 << 20), wall_s: 0 };
        know_change(ahead);
        know_change(first);
        let next = change_now();
        assert!(next > ahead && next.wall_s < first.wall_s + 3600, "{next:?}");
    }

    #[test]
    fn dates() {
        for (wall_s, expect) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_503_662_399, "2017-08-25T11:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(wall_s), expect);
        }
    }
}
