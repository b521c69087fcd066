//! Between a thread that makes a long answer and the answering thread that sends it: one message at a time.
//!
//! The maker waits; the answering thread opens or ends the valve and never waits: a store, and a wake-up.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

const SHUT: u8 = 0;
const OPEN: u8 = 1;
const ENDED: u8 = 2;

pub struct Valve {
    state: AtomicU8,
    maker: Thread,
}

/// The answer reaches nobody any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Gone;

impl Valve {
    /// For the calling thread to wait at.
    pub fn new() -> Valve {
        Valve { state: AtomicU8::new(SHUT), maker: std::thread::current() }
    }

    /// The message was taken: the next one may come.
    pub fn open(&self) {
        self.go(OPEN);
    }

    /// Nobody takes any more.
    pub fn end(&self) {
        self.go(ENDED);
    }

    fn go(&self, state: u8) {
        self.state.fetch_max(state, Ordering::Release);
        self.maker.unpark();
    }

    /// Waits until it is opened, and shuts it. What has not been taken for so long is taken for gone.
    pub fn pass(&self, patience: Duration) -> Result<(), Gone> {
        let until = Instant::now() + patience;
        loop {
            match self.state.compare_exchange(OPEN, SHUT, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(ENDED) => return Err(Gone),
                Err(_) => {}
            }
            match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Err(Gone),
                left => std::thread::park_timeout(left),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_maker_passes_once_for_each_opening_and_never_after_the_end() {
        let valve = Arc::new(Valve::new());
        assert_eq!(valve.pass(Duration::ZERO), Err(Gone), "nobody has taken anything");
        valve.open();
        assert_eq!(valve.pass(LONG), Ok(()));
        let other = Arc::clone(&valve);
        let sender = std::thread::spawn(move || other.open());
        assert_eq!(valve.pass(LONG), Ok(()));
        sender.join().unwrap();
        valve.end();
        valve.open();
        assert_eq!((valve.pass(LONG), valve.pass(LONG)), (Err(Gone), Err(Gone)));
    }
}
