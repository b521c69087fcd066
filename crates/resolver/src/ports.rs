//! Which source port a question leaves from: drawn for it alone, from all ports, whatever the thread.
//!
//! ```text
//!   few questions a second   a port of its own for each, never used again
//!   many                     one of at least `IDLE_MIN` that wait, drawn by chance; each serves `USES_MAX` questions,
//!                            one at a time, within `LIFE_NS`, and makes room for a new one
//! ```
//!
//! To open and close a socket costs three times what a question and its reply cost. A port is used again for the same
//! server only, after a reply has come, and lives no longer than a question that waits: whoever would find it out finds
//! no more than with a port a question. Bounds: `IDLE_MAX` that wait for one server, `IDLE_ALL_MAX` for all.

use crate::chance::Chance;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Ports below are others' (the whole range is one pool for all threads: CVE-2026-50252).
const FIRST_PORT: u16 = 1024;
/// With fewer that wait, a new one is drawn.
const IDLE_MIN: usize = 256;
const IDLE_MAX: usize = 1_024;
const IDLE_ALL_MAX: usize = 4_096;
pub const USES_MAX: u8 = 32;
pub const LIFE_NS: u64 = 2_000_000_000;

/// A port that the driver has opened, by the driver's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: u32,
    pub opened_ns: u64,
    /// Questions that have left from it.
    pub uses: u8,
}

impl Line {
    fn may_serve(&self, now_ns: u64) -> bool {
        self.uses < USES_MAX && now_ns < self.opened_ns + LIFE_NS
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Drawn {
    /// One to open.
    New(u16),
    /// One that is open.
    Again(Line),
}

#[derive(Default)]
pub struct Ports {
    idle: BTreeMap<SocketAddr, VecDeque<Line>>,
    idle_all: usize,
}

impl Ports {
    /// The port for a question to this server. Lines that have had their time are put into `over`, to be closed.
    pub fn draw(&mut self, now_ns: u64, server: SocketAddr, chance: &mut Chance, over: &mut Vec<u32>) -> Drawn {
        if let Some(idle) = self.idle.get_mut(&server) {
            let before = idle.len();
            while let Some(line) = idle.pop_front_if(|line| !line.may_serve(now_ns)) {
                over.push(line.number);
            }
            let drawn = (idle.len() >= IDLE_MIN).then(|| chance.below(idle.len() as u32) as usize);
            let drawn = drawn.and_then(|at| idle.swap_remove_front(at));
            self.idle_all -= before - idle.len();
            match drawn {
                Some(line) if line.may_serve(now_ns) => return Drawn::Again(line),
                Some(line) => over.push(line.number),
                None => {}
            }
        }
        Drawn::New(random_port(chance))
    }

    /// The line has had its reply. False: close it.
    pub fn release(&mut self, now_ns: u64, server: SocketAddr, line: Line) -> bool {
        if !line.may_serve(now_ns) || self.idle_all >= IDLE_ALL_MAX {
            return false;
        }
        let idle = self.idle.entry(server).or_default();
        let has_room = idle.len() < IDLE_MAX;
        if has_room {
            idle.push_back(line);
            self.idle_all += 1;
        }
        has_room
    }
}

/// One of all that may be drawn; the driver asks for another when it is taken.
pub fn random_port(chance: &mut Chance) -> u16 {
    FIRST_PORT + chance.below(u32::from(u16::MAX - FIRST_PORT) + 1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    const MS: u64 = 1_000_000;

    fn server(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 53))
    }

    /// Questions to one server, `gap_ns` apart, each answered before the next: the port of each.
    fn ports(n: usize, gap_ns: u64) -> Vec<u16> {
        let (mut ports, mut chance, mut over) = (Ports::default(), Chance::new([1; 32]), Vec::new());
        let (mut opened, mut next) = (HashMap::new(), 0);
        let mut one = |i: usize| {
            let now_ns = i as u64 * gap_ns;
            let mut line = match ports.draw(now_ns, server(1), &mut chance, &mut over) {
                Drawn::Again(line) => line,
                Drawn::New(port) => {
                    next += 1;
                    opened.insert(next, port);
                    Line { number: next, opened_ns: now_ns, uses: 0 }
                }
            };
            line.uses += 1;
            for number in over.drain(..) {
                opened.remove(&number);
            }
            assert!(line.uses <= USES_MAX && now_ns < line.opened_ns + LIFE_NS);
            let port = opened[&line.number];
            if !ports.release(now_ns, server(1), line) {
                opened.remove(&line.number);
            }
            assert_eq!(opened.len(), ports.idle_all);
            port
        };
        (0..n).map(&mut one).collect()
    }

    #[test]
    fn at_a_hundred_questions_a_second_every_question_has_a_port_of_its_own() {
        let drawn = ports(2_000, 10 * MS);
        let distinct: HashSet<u16> = drawn.iter().copied().collect();
        assert!(distinct.len() > 1_900, "{} of 2,000: as many as chance has it", distinct.len());
        assert!(drawn.iter().any(|p| *p < 5_000) && drawn.iter().any(|p| *p > 60_000));
    }

    #[test]
    fn at_a_million_a_port_serves_a_few_and_the_next_cannot_be_told() {
        let drawn = ports(100_000, MS / 1_000);
        let distinct: HashSet<u16> = drawn.iter().copied().collect();
        assert!(distinct.len() > 100_000 / usize::from(USES_MAX) / 2, "{}", distinct.len());
        let again = drawn.windows(2).filter(|w| w[0] == w[1]).count();
        assert!(again < 100_000 / IDLE_MIN * 2, "{again} times the same twice running");
    }

    #[test]
    fn a_port_serves_the_server_that_it_was_opened_for_and_no_other() {
        let (mut ports, mut chance, mut over) = (Ports::default(), Chance::new([2; 32]), Vec::new());
        for number in 0..IDLE_MAX as u32 + 9 {
            let kept = ports.release(0, server(1), Line { number, opened_ns: 0, uses: 1 });
            assert_eq!(kept, (number as usize) < IDLE_MAX);
        }
        assert!(matches!(ports.draw(1, server(2), &mut chance, &mut over), Drawn::New(_)));
        assert!(matches!(ports.draw(1, server(1), &mut chance, &mut over), Drawn::Again(_)));
        assert!(matches!(ports.draw(LIFE_NS, server(1), &mut chance, &mut over), Drawn::New(_)));
        assert_eq!((over.len(), ports.idle_all), (IDLE_MAX - 1, 0), "all that waited have had their time");
    }
}
