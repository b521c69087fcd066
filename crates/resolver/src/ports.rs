//! Which source port a question leaves from: drawn for it alone, from all ports, whatever the thread.
//!
//! ```text
//!   few questions a second   a port of its own for each, never used again
//!   many                     one of at least `IDLE_MIN` that wait, drawn by chance, for up to `BURST_MAX` questions of a
//!                            turn; each serves `USES_MAX` questions within `LIFE_NS`, and makes room for a new one
//! ```
//!
//! To open and close a socket costs three times what a question and its reply cost. A port is used again for the same
//! server only, when none of its questions waits any more, and lives no longer than a question that waits: whoever would
//! find it out finds no more than with a port a question. What several questions share is the port alone: a forger must
//! still guess the id of one of them, and the first guess that is wrong ends it for all (docs/decisions/0010). Bounds:
//! `IDLE_MAX` that wait for one server, `IDLE_ALL_MAX` for all.

use crate::chance::Chance;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Ports below are others' (the whole range is one pool for all threads: CVE-2026-50252).
const FIRST_PORT: u16 = 1024;
/// With fewer that wait, a new one is drawn.
const IDLE_MIN: usize = 256;
const IDLE_MAX: usize = 1_024;
const IDLE_ALL_MAX: usize = 4_096;
/// Questions that leave together from one port.
pub const BURST_MAX: u8 = 16;
pub const USES_MAX: u8 = 64;
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
    /// One that waited.
    Again(Line),
    /// The one that a question before this one leaves from in the same turn, by its number.
    Along(u32),
}

#[derive(Default)]
pub struct Ports {
    /// By server.
    pools: BTreeMap<SocketAddr, Pool>,
    idle_all: usize,
    turn: u64,
}

#[derive(Default)]
struct Pool {
    idle: VecDeque<Line>,
    burst: Burst,
}

/// The line that was drawn last, while its turn lasts.
#[derive(Default)]
struct Burst {
    turn: u64,
    number: u32,
    /// Questions that may still go along.
    left: u8,
}

impl Pool {
    fn along(&mut self, turn: u64, fits: impl Fn(u32) -> bool) -> Option<u32> {
        let burst = &mut self.burst;
        let goes = burst.turn == turn && burst.left > 0 && fits(burst.number);
        burst.left -= u8::from(goes);
        goes.then_some(burst.number)
    }

    fn again(&mut self, now_ns: u64, chance: &mut Chance, over: &mut Vec<u32>) -> Option<Line> {
        while let Some(line) = self.idle.pop_front_if(|line| !line.may_serve(now_ns)) {
            over.push(line.number);
        }
        let at = (self.idle.len() >= IDLE_MIN).then(|| chance.below(self.idle.len() as u32) as usize)?;
        self.idle.swap_remove_front(at)
    }
}

impl Ports {
    /// The port for a question to this server. `fits`: a line of this number is fit for it. Lines that have had their
    /// time, or are not, are put into `over`, to be closed.
    pub fn draw(
        &mut self,
        now_ns: u64,
        server: SocketAddr,
        chance: &mut Chance,
        over: &mut Vec<u32>,
        fits: impl Fn(u32) -> bool,
    ) -> Drawn {
        let Some(pool) = self.pools.get_mut(&server) else { return Drawn::New(random_port(chance)) };
        if let Some(number) = pool.along(self.turn, &fits) {
            return Drawn::Along(number);
        }
        let before = pool.idle.len();
        let drawn = pool.again(now_ns, chance, over);
        self.idle_all -= before - pool.idle.len();
        match drawn {
            Some(line) if line.may_serve(now_ns) && fits(line.number) => {
                let left = BURST_MAX.min(USES_MAX - line.uses) - 1;
                pool.burst = Burst { turn: self.turn, number: line.number, left };
                return Drawn::Again(line);
            }
            Some(line) => over.push(line.number),
            None => {}
        }
        Drawn::New(random_port(chance))
    }

    /// What was drawn for has left; nothing goes along any more.
    pub fn end_turn(&mut self) {
        self.turn += 1;
    }

    /// Nobody waits on the line any more, and it has had a reply. Not before its turn has ended. False: close it.
    pub fn release(&mut self, now_ns: u64, server: SocketAddr, line: Line) -> bool {
        if !line.may_serve(now_ns) || self.idle_all >= IDLE_ALL_MAX {
            return false;
        }
        let idle = &mut self.pools.entry(server).or_default().idle;
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

    /// What a driver does, with all lines that it has open.
    #[derive(Default)]
    struct Driver {
        ports: Ports,
        open: HashMap<u32, (u16, Line)>,
        next: u32,
        over: Vec<u32>,
    }

    impl Driver {
        /// The number of the line that a question to this server leaves from.
        fn send(&mut self, now_ns: u64, to: SocketAddr, chance: &mut Chance, fits: impl Fn(u32) -> bool) -> u32 {
            let number = match self.ports.draw(now_ns, to, chance, &mut self.over, fits) {
                Drawn::Again(line) => line.number,
                Drawn::Along(number) => number,
                Drawn::New(mut port) => {
                    // The system gives none twice.
                    while self.open.values().any(|(taken, _)| *taken == port) {
                        port = random_port(chance);
                    }
                    self.next += 1;
                    self.open.insert(self.next, (port, Line { number: self.next, opened_ns: now_ns, uses: 0 }));
                    self.next
                }
            };
            for over in self.over.drain(..) {
                self.open.remove(&over);
            }
            let line = &mut self.open.get_mut(&number).unwrap().1;
            line.uses += 1;
            assert!(line.uses <= USES_MAX && now_ns < line.opened_ns + LIFE_NS);
            number
        }

        fn release(&mut self, now_ns: u64, server: SocketAddr, number: u32) {
            if !self.ports.release(now_ns, server, self.open[&number].1) {
                self.open.remove(&number);
            }
        }
    }

    /// Questions to one server, so many a turn and the turns `gap_ns` apart, each answered before the next turn: the
    /// port of each.
    fn ports(turns: usize, questions: usize, gap_ns: u64) -> Vec<u16> {
        let (mut driver, mut chance, mut drawn) = (Driver::default(), Chance::new([1; 32]), Vec::new());
        for turn in 0..turns {
            let now_ns = turn as u64 * gap_ns;
            let mut lines: Vec<u32> =
                (0..questions).map(|_| driver.send(now_ns, server(1), &mut chance, |_| true)).collect();
            drawn.extend(lines.iter().map(|number| driver.open[number].0));
            driver.ports.end_turn();
            lines.dedup();
            lines.iter().for_each(|&number| driver.release(now_ns, server(1), number));
            assert_eq!(driver.open.len(), driver.ports.idle_all);
        }
        drawn
    }

    #[test]
    fn at_a_hundred_questions_a_second_every_question_has_a_port_of_its_own() {
        for (questions, gap_ns) in [(1, 10 * MS), (10, 100 * MS), (50, 500 * MS)] {
            let drawn = ports(2_000 / questions, questions, gap_ns);
            let distinct: HashSet<u16> = drawn.iter().copied().collect();
            assert!(distinct.len() > 1_900, "{} of 2,000: as many as chance has it", distinct.len());
            assert!(drawn.iter().any(|p| *p < 5_000) && drawn.iter().any(|p| *p > 60_000));
        }
    }

    #[test]
    fn at_a_million_a_port_serves_a_few_and_the_next_cannot_be_told() {
        let drawn = ports(100_000, 1, MS / 1_000);
        let distinct: HashSet<u16> = drawn.iter().copied().collect();
        assert!(distinct.len() > 100_000 / usize::from(USES_MAX) / 2, "{}", distinct.len());
        let again = drawn.windows(2).filter(|w| w[0] == w[1]).count();
        assert!(again < 100_000 / IDLE_MIN * 2, "{again} times the same twice running");
    }

    #[test]
    fn questions_of_a_turn_share_a_port_and_those_of_the_next_another() {
        let (turns, questions) = (3_000, 40);
        let drawn = ports(turns, questions, MS / 10);
        let distinct: HashSet<u16> = drawn.iter().copied().collect();
        assert!(distinct.len() > drawn.len() / usize::from(USES_MAX) / 2, "{}", distinct.len());
        let (mut runs, mut same) = (0, 0);
        for turn in drawn.chunks(questions).skip(turns / 2) {
            let lens: Vec<usize> = turn.chunk_by(|a, b| a == b).map(<[u16]>::len).collect();
            assert!(lens.iter().all(|&len| len <= usize::from(BURST_MAX)), "{lens:?}");
            runs += lens.len();
        }
        for turns in drawn.chunks(2 * questions).skip(turns / 4) {
            same += usize::from(turns[questions - 1] == turns[questions]);
        }
        assert!(runs < turns / 2 * 10, "{runs}: most leave together");
        assert!(same < turns / 4 / 20, "{same} times the same across turns");
    }

    #[test]
    fn a_line_that_is_not_fit_is_closed_and_a_burst_that_is_not_goes_on_without_the_question() {
        let (mut driver, mut chance) = (Driver::default(), Chance::new([3; 32]));
        let numbers: Vec<u32> = (0..IDLE_MIN + 1).map(|_| driver.send(0, server(1), &mut chance, |_| true)).collect();
        numbers.iter().for_each(|&number| driver.release(0, server(1), number));
        let fresh = driver.send(1, server(1), &mut chance, |_| false);
        assert!(!numbers.contains(&fresh) && driver.open.len() == numbers.len());
        let first = driver.send(1, server(1), &mut chance, |_| true);
        let beside = driver.send(1, server(1), &mut chance, |number| number != first);
        assert!(numbers.contains(&first) && !numbers.contains(&beside));
        assert_eq!(driver.send(1, server(1), &mut chance, |_| true), first);
        driver.ports.end_turn();
        assert_ne!(driver.send(1, server(1), &mut chance, |_| true), first);
    }

    #[test]
    fn a_port_serves_the_server_that_it_was_opened_for_and_no_other() {
        let (mut ports, mut chance, mut over) = (Ports::default(), Chance::new([2; 32]), Vec::new());
        for number in 0..IDLE_MAX as u32 + 9 {
            let kept = ports.release(0, server(1), Line { number, opened_ns: 0, uses: 1 });
            assert_eq!(kept, (number as usize) < IDLE_MAX);
        }
        let mut draw = |now_ns, to| ports.draw(now_ns, to, &mut chance, &mut over, |_| true);
        assert!(matches!(draw(1, server(2)), Drawn::New(_)));
        assert!(matches!(draw(1, server(1)), Drawn::Again(_)));
        assert!(matches!(draw(1, server(2)), Drawn::New(_)));
        assert!(matches!(draw(1, server(1)), Drawn::Along(_)));
        ports.end_turn();
        let late = ports.draw(LIFE_NS, server(1), &mut chance, &mut over, |_| true);
        assert!(matches!(late, Drawn::New(_)));
        assert_eq!((over.len(), ports.idle_all), (IDLE_MAX - 1, 0), "all that waited have had their time");
    }
}
