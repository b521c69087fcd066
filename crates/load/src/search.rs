//! `--find-max`: the highest rate that holds, by trials.
//!
//! The rate doubles until a trial fails, then the gap is halved until it is narrower than 3 % of the rate. A trial that
//! fails is made once more, lower bounds first: one stall of the machine must not end the search.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    Held,
    /// The target lost too many or was too slow.
    Failed,
    /// The tool itself could not send so much: a higher rate would say nothing of the target.
    ToolFull,
}

#[derive(Clone, Debug)]
pub struct Search {
    held: f64,
    failed: Option<f64>,
    next: f64,
    tried_again: bool,
    tool_full: bool,
}

const PRECISION: f64 = 0.03;
const RATE_MAX: f64 = 20e6;

impl Search {
    pub fn new(first: f64) -> Search {
        Search { held: 0.0, failed: None, next: first, tried_again: false, tool_full: false }
    }

    /// The rate to try next; None when the search is over.
    pub fn next(&self) -> Option<f64> {
        let narrow = self.failed.is_some_and(|failed| failed - self.held <= (failed * PRECISION).max(1.0));
        if narrow || self.next > RATE_MAX { None } else { Some(self.next) }
    }

    pub fn on_trial(&mut self, trial: Trial) {
        if trial != Trial::Held && !self.tried_again {
            self.tried_again = true;
            return;
        }
        self.tried_again = false;
        match trial {
            Trial::Held => self.held = self.next,
            _ => {
                self.failed = Some(self.next);
                self.tool_full = trial == Trial::ToolFull;
            }
        }
        self.next = match self.failed {
            None => self.held * 2.0,
            Some(failed) => ((self.held + failed) / 2.0).round().max(1.0),
        };
    }

    /// The highest rate that held; 0 where none did.
    pub fn held(&self) -> f64 {
        self.held
    }

    /// True if the bound found is the tool's.
    pub fn is_tools(&self) -> bool {
        self.tool_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(can: f64, mut on: impl FnMut(f64, usize) -> Trial) -> (f64, usize) {
        let mut search = Search::new(1000.0);
        let mut trials = 0;
        while let Some(rate) = search.next() {
            search.on_trial(if rate <= can { on(rate, trials) } else { Trial::Failed });
            trials += 1;
        }
        (search.held(), trials)
    }

    #[test]
    fn the_rate_is_found_within_its_precision() {
        for can in [1.0, 700.0, 1000.0, 12_345.0, 480_000.0] {
            let (found, trials) = find(can, |_, _| Trial::Held);
            assert!(found <= can && found >= can * (1.0 - PRECISION) - 1.0, "{can} {found}");
            assert!(trials < 50, "{trials}");
        }
        assert_eq!(find(0.0, |_, _| Trial::Held).0, 0.0);
    }

    #[test]
    fn one_bad_trial_does_not_end_the_search() {
        let (found, _) = find(50_000.0, |_, trial| if trial == 3 { Trial::Failed } else { Trial::Held });
        assert!(found > 48_000.0, "{found}");
    }

    #[test]
    fn a_bound_of_the_tool_is_called_so() {
        let mut search = Search::new(1000.0);
        while let Some(rate) = search.next() {
            search.on_trial(if rate < 9000.0 { Trial::Held } else { Trial::ToolFull });
        }
        assert!(search.is_tools());
    }
}
