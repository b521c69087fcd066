//! For tests that wait for another thread: until it has come true, and not for ever.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(120);

#[track_caller]
pub fn eventually(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "it did not come true");
        // Looking all the time would keep a processor from the idle threads that are waited for.
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
