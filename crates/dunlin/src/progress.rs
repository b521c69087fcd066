//! A bar on stderr for work that takes a while: only where somebody watches, and at most ten times a second.

use std::convert::Infallible;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(100);
const WIDTH: usize = 40;
/// Columns that the bar and what is said behind it take at most.
const LINE: usize = 72;

/// Calls between two looks at the clock.
const STEPS: u32 = 4096;

pub struct Progress {
    total: u64,
    steps: u32,
    drawn: Option<Instant>,
    watched: bool,
}

impl Progress {
    pub fn of(total: u64) -> Progress {
        Progress { total: total.max(1), steps: 0, drawn: None, watched: stderr().is_terminal() }
    }

    /// Whoever asked for JSON gets nothing else.
    pub fn unless(self, is_json: bool) -> Progress {
        Progress { watched: self.watched && !is_json, ..self }
    }

    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// Not where what is printed meanwhile goes to the same terminal.
    pub fn beside_output(total: u64) -> Progress {
        Progress::of(total).unless(stdout().is_terminal())
    }

    /// Cheap enough to be called for each record.
    pub fn at(&mut self, done: u64) {
        self.steps = self.steps.wrapping_add(1);
        if self.watched && self.steps.is_multiple_of(STEPS) {
            self.draw(done);
        }
    }

    /// For what is done a few times a second, or less often.
    pub fn draw(&mut self, done: u64) {
        if self.watched && self.drawn.is_none_or(|t| t.elapsed() >= EVERY) {
            self.put(&bar(done, self.total));
        }
    }

    fn put(&mut self, line: &str) {
        self.drawn = Some(Instant::now());
        let _ = write!(stderr(), "\r{line}");
    }

    /// Draws what others count while they work, until `is_over` has no sender any more. `then`: what they do when all is
    /// counted.
    pub fn follow(mut self, done: &AtomicU64, then: &str, is_over: &Receiver<Infallible>) {
        loop {
            match done.load(Relaxed) {
                some if some < self.total => self.put(&bar(some, self.total)),
                all => self.put(&format!("{} {then}", bar(all, self.total))),
            }
            if is_over.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Output follows: on the same terminal it takes the bar's place, for good.
    pub fn make_room(&mut self) {
        if self.watched && stdout().is_terminal() {
            self.watched = false;
            self.erase();
        }
    }

    fn erase(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(stderr(), "\r{}\r", " ".repeat(LINE));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.erase();
    }
}

fn bar(done: u64, total: u64) -> String {
    let done = done.min(total);
    let full = (done as u128 * WIDTH as u128 / u128::from(total)) as usize;
    let percent = done as u128 * 100 / u128::from(total);
    format!("[{}{}] {percent:3} %", "#".repeat(full), " ".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_and_never_overflows() {
        assert_eq!(bar(0, 10).matches('#').count(), 0);
        assert_eq!(bar(5, 10).matches('#').count(), WIDTH / 2);
        assert_eq!(bar(11, 10).matches('#').count(), WIDTH);
        assert!(bar(u64::MAX, u64::MAX).ends_with("100 %"));
    }
}
