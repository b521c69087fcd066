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

    pub fn began(&self) -> Instant {
        self.start
    }

    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// Readings of both clocks further apart than this are made again.
const APART_NS: u64 = 1_000;
const READINGS_MAX: u32 = 8;

/// Turns the kernel's stamps, which are in wall time, into the run's: by how long ago they were.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    wall: Duration,
    now_ns: u64,
}

impl Stamps {
    /// A thread that loses its core between two readings would make every stamp wrong by as long; so the wall clock is
    /// read between two readings of the other, which must lie close together.
    pub fn now(clock: &Clock) -> Stamps {
        let mut best = (u64::MAX, Stamps { wall: Duration::ZERO, now_ns: 0 });
        for _ in 0..READINGS_MAX {
            let before_ns = clock.now_ns();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let apart_ns = clock.now_ns() - before_ns;
            if apart_ns < best.0 {
                best = (apart_ns, Stamps { wall, now_ns: before_ns + apart_ns / 2 });
            }
            if apart_ns <= APART_NS {
                break;
            }
        }
        best.1
    }

    /// A stamp from the future (the wall clock was set back) counts as now.
    #[inline]
    pub fn at_ns(&self, stamp: Option<Duration>) -> u64 {
        let ago = stamp.map_or(Duration::ZERO, |stamp| self.wall.saturating_sub(stamp));
        self.now_ns.saturating_sub(ago.as_nanos() as u64)
    }
}
