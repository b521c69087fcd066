//! The live view: a few lines on the terminal, drawn again twice a second by a thread of its own, so that a slow
//! terminal makes no query late.

use load::run::Glimpse;
use load::summary::{grouped, time};
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

const HISTORY: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LINES: usize = 3;

pub struct Live {
    to: Option<SyncSender<Glimpse>>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    /// Shows nothing where there is no terminal.
    pub fn start(quiet: bool) -> Live {
        if quiet || !std::io::stderr().is_terminal() {
            return Live { to: None, thread: None };
        }
        let (to, from) = sync_channel(2);
        Live { to: Some(to), thread: Some(std::thread::spawn(move || draw(&from))) }
    }

    /// Never waits: a view that is behind misses one.
    pub fn show(&mut self, glimpse: Glimpse) {
        if let Some(to) = &self.to {
            let _ = to.try_send(glimpse);
        }
    }

    pub fn is_on(&self) -> bool {
        self.to.is_some()
    }

    pub fn end(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn draw(from: &Receiver<Glimpse>) {
    let mut rates = VecDeque::new();
    let mut drawn = false;
    for glimpse in from {
        let lines = lines(&glimpse, &mut rates);
        let back = if drawn { format!("\x1b[{LINES}A") } else { String::new() };
        drawn = true;
        let text: String = lines.iter().map(|line| format!("\x1b[2K{line}\n")).collect();
        let _ = std::io::stderr().write_all(format!("{back}{text}").as_bytes());
    }
}

fn lines(glimpse: &Glimpse, rates: &mut VecDeque<u64>) -> [String; LINES] {
    let sum = |of: fn(&load::tally::Slice) -> u64| glimpse.recent.iter().map(of).sum::<u64>();
    let received = sum(|s| s.received);
    rates.push_back(received);
    if rates.len() > HISTORY {
        rates.pop_front();
    }
    let us = |ns: u64| time(ns as f64 / 1e3);
    let mut rcodes: Vec<(usize, u64)> = (0..load::tally::RCODES)
        .map(|rcode| (rcode, glimpse.recent.iter().map(|s| u64::from(s.rcodes[rcode])).sum()))
        .filter(|(_, n)| *n > 0)
        .collect();
    rcodes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let rcodes: Vec<String> =
        rcodes.iter().map(|(rcode, n)| format!("{} {}", load::report::rcode_name(*rcode), grouped(*n))).collect();
    [
        format!(
            "{:>6.1} s  sent {}/s  answered {}/s  waiting {}  timed out {}",
            glimpse.at_ns as f64 / 1e9,
            grouped(sum(|s| s.sent)),
            grouped(received),
            grouped(glimpse.waiting as u64),
            grouped(sum(|s| s.timed_out))
        ),
        format!(
            "          p50 {}  p99 {}  max {}  {}",
            us(glimpse.latency.p50),
            us(glimpse.latency.p99),
            us(glimpse.latency.max),
            rcodes.join(" ")
        ),
        format!("          {}", sparkline(rates)),
    ]
}

fn sparkline(values: &VecDeque<u64>) -> String {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    values.iter().map(|v| BARS[((v * 7).div_ceil(most) as usize).min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sparkline_reaches_from_nothing_to_the_most() {
        assert_eq!(sparkline(&VecDeque::from([0, 1, 50, 100])), "▁▂▅█");
        assert_eq!(sparkline(&VecDeque::from([0, 0])), "▁▁");
    }

    #[test]
    fn the_last_second_is_summed() {
        let mut slice = load::tally::Slice { sent: 5, received: 4, ..Default::default() };
        slice.rcodes[3] = 4;
        let glimpse = Glimpse {
            at_ns: 1_500_000_000,
            waiting: 7,
            recent: vec![slice.clone(), slice],
            latency: load::tally::Percentiles::default(),
        };
        let lines = lines(&glimpse, &mut VecDeque::new());
        assert!(lines[0].contains("sent 10/s  answered 8/s  waiting 7"), "{}", lines[0]);
        assert!(lines[1].contains("NXDOMAIN 8"), "{}", lines[1]);
    }
}
