//! When each query is due: phases one after another, written as text.
//!
//! ```text
//!   const(200k,30s)          the same rate all the time
//!   line(1k,200k,60s)        from one rate to another
//!   step(10k,50k,10k,5s)     10k, 20k, ... 50k, five seconds each
//!   burst(500,100ms,10s)     500 queries at once, every 100 ms
//! ```
//!
//! A query's due time follows from its number alone: nothing that the target does moves it.

use crate::caret::{Caret, offset};
use crate::quantity;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// Queries a second at the start and at the end.
    Line {
        from: f64,
        to: f64,
    },
    Burst {
        size: f64,
        every_ns: f64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Phase {
    start_ns: f64,
    length_ns: f64,
    pace: Pace,
}

impl Phase {
    fn queries(&self) -> u64 {
        // A hair is added so that 0.1 s times 30/s is 3.
        match self.pace {
            Pace::Line { from, to } => ((from + to) / 2.0 * self.length_ns / 1e9 + 1e-6) as u64,
            Pace::Burst { size, every_ns } => (self.length_ns / every_ns - 1e-9).ceil() as u64 * size as u64,
        }
    }

    fn due_ns(&self, n: u64) -> f64 {
        let n = n as f64;
        self.start_ns
            + match self.pace {
                Pace::Line { from, to } if from == to => n * 1e9 / from,
                Pace::Line { from, to } => {
                    let growth = (to - from) / (self.length_ns / 1e9);
                    // n = from t + growth t^2 / 2, solved so that nothing is divided by a small growth.
                    1e9 * 2.0 * n / (from + (from * from + 2.0 * growth * n).max(0.0).sqrt()).max(1e-9)
                }
                Pace::Burst { size, every_ns } => (n / size).floor() * every_ns,
            }
    }

    fn rate_at(&self, at_ns: f64) -> f64 {
        match self.pace {
            Pace::Line { from, to } => from + (to - from) * (at_ns - self.start_ns) / self.length_ns,
            Pace::Burst { size, every_ns } => size * 1e9 / every_ns,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    phases: Vec<Phase>,
    text: String,
}

const FORMS: &str = "write const(RATE,TIME), line(FROM,TO,TIME), step(FROM,TO,BY,TIME) or burst(SIZE,EVERY,TIME)";

impl Schedule {
    pub fn constant(rate: f64, seconds: f64) -> Schedule {
        let mut schedule = Schedule { phases: Vec::new(), text: format!("const({rate},{seconds}s)") };
        schedule.push(seconds * 1e9, Pace::Line { from: rate, to: rate });
        schedule
    }

    pub fn parse(text: &str) -> Result<Schedule, Caret> {
        let mut schedule = Schedule { phases: Vec::new(), text: text.trim().to_string() };
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let open = rest.find('(').ok_or_else(|| bad(text, rest, FORMS))?;
            let close = rest.find(')').filter(|close| *close > open);
            let close = close.ok_or_else(|| bad(text, &rest[open..], "this `(` is never closed"))?;
            let words: Vec<&str> = rest[open + 1..close].split(',').collect();
            schedule.phase(text, rest[..open].trim(), &words)?;
            rest = rest[close + 1..].trim_start_matches([' ', ',', ';', '\t']);
        }
        match schedule.queries() {
            0 => Err(bad(text, text, format!("no query is ever due: {FORMS}"))),
            _ => Ok(schedule),
        }
    }

    fn phase(&mut self, text: &str, name: &str, words: &[&str]) -> Result<(), Caret> {
        let want = match name {
            "const" => 2,
            "line" | "burst" => 3,
            "step" => 4,
            _ => return Err(bad(text, name, format!("there is no schedule `{name}`: {FORMS}"))),
        };
        if words.len() != want {
            return Err(bad(text, name, format!("{name} takes {want} values, not {}: {FORMS}", words.len())));
        }
        let rate = |i: usize| rate(text, words[i]);
        let length = time(text, words[want - 1])?;
        match name {
            "const" => self.push(length, Pace::Line { from: rate(0)?, to: rate(0)? }),
            "line" => self.push(length, Pace::Line { from: rate(0)?, to: rate(1)? }),
            "burst" => {
                self.push(length, Pace::Burst { size: rate(0)?.floor().max(1.0), every_ns: time(text, words[1])? });
            }
            _ => self.steps(rate(0)?, rate(1)?, rate(2)?, length),
        }
        Ok(())
    }

    fn steps(&mut self, from: f64, to: f64, by: f64, length_ns: f64) {
        let steps = ((to - from).abs() / by + 1e-9).floor();
        let sign = if to < from { -1.0 } else { 1.0 };
        for i in 0..=(steps as u64).min(100_000) {
            let rate = from + sign * by * i as f64;
            self.push(length_ns, Pace::Line { from: rate, to: rate });
        }
    }

    fn push(&mut self, length_ns: f64, pace: Pace) {
        let start_ns = self.length_ns() as f64;
        self.phases.push(Phase { start_ns, length_ns, pace });
    }

    pub fn length_ns(&self) -> u64 {
        self.phases.last().map_or(0, |p| (p.start_ns + p.length_ns) as u64)
    }

    pub fn queries(&self) -> u64 {
        self.phases.iter().map(Phase::queries).sum()
    }

    /// The highest rate that is ever asked for; a burst counts as what it sends in a second, or at once if that is more.
    pub fn peak_rate(&self) -> f64 {
        let peak = |p: &Phase| match p.pace {
            Pace::Line { from, to } => from.max(to),
            Pace::Burst { size, .. } => p.rate_at(0.0).max(size),
        };
        self.phases.iter().map(peak).fold(0.0, f64::max)
    }

    /// Queries a second that are asked for at a time.
    pub fn rate_at(&self, at_ns: u64) -> f64 {
        let at = at_ns as f64;
        self.phases.iter().find(|p| at < p.start_ns + p.length_ns).map_or(0.0, |p| p.rate_at(at))
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

fn bad(text: &str, part: &str, why: impl Into<String>) -> Caret {
    Caret::new("schedule", text, offset(text, part), why)
}

fn rate(text: &str, word: &str) -> Result<f64, Caret> {
    let good = quantity::number(word).filter(|n| *n > 0.0 && *n <= 1e9);
    good.ok_or_else(|| bad(text, word.trim(), "a rate such as 1000 or 200k belongs here, above 0"))
}

fn time(text: &str, word: &str) -> Result<f64, Caret> {
    let good = quantity::time_ns(word).filter(|n| *n >= 1.0 && *n <= 7.0 * 86_400e9);
    good.ok_or_else(|| bad(text, word.trim(), "a time such as 30s or 100ms belongs here"))
}

/// Walks through the due times of a schedule.
#[derive(Clone, Debug)]
pub struct Clockwork {
    schedule: Schedule,
    phase: usize,
    n: u64,
    queries: u64,
}

impl Clockwork {
    pub fn new(schedule: Schedule) -> Clockwork {
        let queries = schedule.phases.first().map_or(0, Phase::queries);
        Clockwork { schedule, phase: 0, n: 0, queries }
    }

    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// When the next query is due, from the start; None when there are no more.
    #[inline]
    pub fn peek(&mut self) -> Option<u64> {
        while self.n >= self.queries {
            self.phase += 1;
            (self.n, self.queries) = (0, self.schedule.phases.get(self.phase)?.queries());
        }
        Some(self.schedule.phases.get(self.phase)?.due_ns(self.n) as u64)
    }

    /// To be called after `peek`, when that query is taken.
    #[inline]
    pub fn advance(&mut self) {
        self.n += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(text: &str) -> Vec<u64> {
        let mut clockwork = Clockwork::new(Schedule::parse(text).unwrap());
        std::iter::from_fn(|| {
            let due = clockwork.peek();
            clockwork.advance();
            due
        })
        .collect()
    }

    fn ms(text: &str) -> Vec<u64> {
        dues(text).iter().map(|ns| (ns + 500_000) / 1_000_000).collect()
    }

    #[test]
    fn queries_are_due_when_the_text_says() {
        assert_eq!(ms("const(10,500ms)"), [0, 100, 200, 300, 400]);
        assert_eq!(ms("step(10,20,10,200ms)"), [0, 100, 200, 250, 300, 350]);
        assert_eq!(ms("step(20,10,10,200ms)"), [0, 50, 100, 150, 200, 300]);
        assert_eq!(ms("burst(2,100ms,250ms)"), [0, 0, 100, 100, 200, 200]);
        assert_eq!(ms("const(10,200ms) const(5,400ms)"), [0, 100, 200, 400]);
        // The rate grows by 20/s a second, from 0.001: the n-th query is due after sqrt(n/10) seconds.
        assert_eq!(ms("line(0.001,20,1s)"), [0, 316, 447, 548, 632, 707, 775, 837, 894, 949]);
        assert_eq!(ms("line(20,10,200ms)"), [0, 54, 117]);
    }

    #[test]
    fn due_times_never_go_back_and_counts_are_exact() {
        for (text, queries) in [
            ("const(200k,1s)", 200_000),
            ("line(1k,200k,1s)", 100_500),
            ("line(200k,1k,1s)", 100_500),
            ("line(1k,1001,1s) burst(100,10ms,1s) const(3,1s)", 1000 + 10_000 + 3),
        ] {
            let all = dues(text);
            assert_eq!(all.len() as u64, queries, "{text}");
            assert!(all.windows(2).all(|w| w[0] <= w[1]), "{text}");
            let schedule = Schedule::parse(text).unwrap();
            assert_eq!(schedule.queries(), queries);
            assert!(*all.last().unwrap() < schedule.length_ns(), "{text}");
        }
    }

    #[test]
    fn the_rate_asked_for_is_known_at_any_time() {
        let schedule = Schedule::parse("line(0.001,100,10s) const(50,10s)").unwrap();
        assert_eq!(schedule.rate_at(5_000_000_000).round(), 50.0);
        assert_eq!(schedule.rate_at(9_000_000_000).round(), 90.0);
        assert_eq!(schedule.rate_at(15_000_000_000), 50.0);
        assert_eq!(schedule.rate_at(25_000_000_000), 0.0);
        assert_eq!(schedule.peak_rate(), 100.0);
        assert_eq!(Schedule::parse("burst(900,100ms,1s)").unwrap().peak_rate(), 9000.0);
    }

    #[test]
    fn what_is_wrong_has_a_caret() {
        for (text, at) in [
            ("", 0),
            ("const", 0),
            ("konst(1,2s)", 0),
            ("const(1k)", 0),
            ("const(1k,2)", 9),
            ("const(1k,2s) line(1k,x,3s)", 21),
            ("const(0,2s)", 6),
            ("const(1k,2s", 5),
            ("const(1,1ms)", 0),
        ] {
            let error = Schedule::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
        }
    }
}
