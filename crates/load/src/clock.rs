//! The run's clock: nanoseconds since its start.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// Turns the kernel's stamps, which are in wall time, into the run's: by how long ago they were.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    wall: Duration,
    now_ns: u64,
}

impl Stamps {
    pub fn now(clock: &Clock) -> Stamps {
        Stamps { wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), now_ns: clock.now_ns() }
    }

    /// A stamp from the future (the wall clock was set back) counts as now.
    #[inline]
    pub fn at_ns(&self, stamp: Option<Duration>) -> u64 {
        let ago = stamp.map_or(Duration::ZERO, |stamp| self.wall.saturating_sub(stamp));
        self.now_ns.saturating_sub(ago.as_nanos() as u64)
    }
}
