//! A bar on stderr for work that takes a while: only where somebody watches, and at most ten times a second.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(100);
const WIDTH: usize = 40;

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

    /// Not where what is printed meanwhile goes to the same terminal.
    pub fn beside_output(total: u64) -> Progress {
        let progress = Progress::of(total);
        Progress { watched: progress.watched && !stdout().is_terminal(), ..progress }
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
        if !self.watched || self.drawn.is_some_and(|t| t.elapsed() < EVERY) {
            return;
        }
        self.drawn = Some(Instant::now());
        let _ = write!(stderr(), "\r{}", bar(done, self.total));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(stderr(), "\r{}\r", " ".repeat(WIDTH + 10));
        }
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
