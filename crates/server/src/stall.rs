//! The stall meter: how long each turn of an answering thread's loop took, what it was doing, and where it was if that
//! took too long.
//!
//! A turn goes from waking up to going to sleep. The thread marks what it has just finished, with clock readings that it
//! mostly needs anyway (two a batch), and adds to histograms that only it writes. A watch looks at all threads every few
//! milliseconds; one whose turn lasts is asked for its stack, and the kernel for its state. Of a long turn the kernel is asked, too,
//! how much of it the thread ran: what is left was taken by others, or by the machine below. Bounds: `WORST_MAX` turns, as
//! many stalls, as many that were long, and `CAPTURES_MAX` stacks a thread.

mod histogram;
mod report;
mod watch;

use front::locks::hold;
pub use histogram::{Histogram, quantile_ns};
use net::sched::Usage;
pub use report::{histogram, json, metrics};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex};
use std::time::Duration;
pub use watch::watch;

/// A turn this long is a stall.
pub const STALL_NS: u64 = 10_000_000;
/// A turn this long is longer than any is to be: the last of them are told, so that whoever looks often enough sees each.
const LONG_NS: u64 = 2_000_000;
/// What a turn this long has had of the machine is told. The kernel is asked as often at most: it takes a third of a microsecond.
const USED_FROM_NS: u64 = 1_000_000;
const WORST_MAX: usize = 10;
/// Those of both lists, and some that are not in them yet.
const CAPTURES_MAX: usize = 2 * WORST_MAX + 4;

/// What a thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Receiving, and sending answers: system calls.
    Socket,
    /// Making answers to a batch.
    Answer,
    /// Sending answers that were not ready with their batch.
    Later,
    /// Going over to what was published.
    Publication,
    /// All that a turn of a TCP thread does.
    Streams,
}

impl Cause {
    pub const ALL: [Cause; 5] = [Cause::Socket, Cause::Answer, Cause::Later, Cause::Publication, Cause::Streams];

    pub fn name(self) -> &'static str {
        match self {
            Cause::Socket => "socket",
            Cause::Answer => "answer",
            Cause::Later => "later",
            Cause::Publication => "publication",
            Cause::Streams => "streams",
        }
    }
}

/// Nanoseconds by cause.
type Parts = [u64; Cause::ALL.len()];

/// A long turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    number: u64,
    ended_ns: u64,
    took_ns: u64,
    /// That it was given: one that takes long is not one of many.
    messages: u64,
    parts: Parts,
    used: Option<Usage>,
}

/// Where a thread was during a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Capture {
    turn: u64,
    /// How long the turn had lasted by then.
    after_ns: u64,
    kernel: String,
    stack: Vec<usize>,
}

/// Long turns of a thread.
#[derive(Clone, Debug, Default)]
struct Long {
    /// Since the start, longest first.
    worst: Vec<Turn>,
    /// The last stalls, oldest first: what goes on now is seen, however bad it once was.
    latest: Vec<Turn>,
    /// The last of `LONG_NS` and more, oldest first.
    latest_long: Vec<Turn>,
}

impl Long {
    fn has(&self, number: u64) -> bool {
        self.worst.iter().chain(&self.latest).any(|turn| turn.number == number)
    }

    fn add(&mut self, turn: Turn) {
        for (last, from_ns) in [(&mut self.latest, STALL_NS), (&mut self.latest_long, LONG_NS)] {
            if turn.took_ns >= from_ns {
                last.push(turn.clone());
                last.drain(..last.len().saturating_sub(WORST_MAX));
            }
        }
        self.worst.push(turn);
        self.worst.sort_by_key(|t| std::cmp::Reverse(t.took_ns));
        self.worst.truncate(WORST_MAX);
    }
}

/// What one thread tells of its turns. That thread alone writes, but for the captures.
pub struct Turns {
    name: String,
    tid: AtomicI32,
    /// Of the turn under way, from 1; a thread that sleeps has `started_ns` 0.
    number: AtomicU64,
    started_ns: AtomicU64,
    stalls: AtomicU64,
    whole: Histogram,
    parts: [Histogram; Cause::ALL.len()],
    /// CPU time of turns of `USED_FROM_NS` and more.
    ran: Histogram,
    long: Mutex<Long>,
    captures: Mutex<Vec<Capture>>,
}

impl Turns {
    pub fn new(name: String) -> Turns {
        Turns {
            name,
            tid: AtomicI32::new(0),
            number: AtomicU64::new(0),
            started_ns: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            whole: Histogram::default(),
            parts: Default::default(),
            ran: Histogram::default(),
            long: Mutex::default(),
            captures: Mutex::default(),
        }
    }

    /// Said by the thread that will have these turns.
    pub fn are_mine(&self) {
        self.tid.store(net::stack::tid(), Relaxed);
    }

    fn long(&self) -> Long {
        hold(&self.long).clone()
    }

    fn capture(&self, of_turn: u64) -> Option<Capture> {
        let all = hold(&self.captures);
        all.iter().find(|c| c.turn == of_turn).cloned()
    }

    /// Keeps a capture; the oldest goes whose turn is not told.
    fn keep(&self, capture: Capture) {
        let long = self.long();
        let mut all = hold(&self.captures);
        // The turn may have ended meanwhile, and have been kept as one that nobody has seen.
        all.retain(|c| c.turn != capture.turn);
        add(&mut all, capture, &long);
    }

    /// Where the thread was, of a turn whose capture is kept.
    fn keep_stack(&self, of_turn: u64, stack: Vec<usize>) {
        let mut all = hold(&self.captures);
        all.iter_mut().filter(|c| c.turn == of_turn).for_each(|c| c.stack.clone_from(&stack));
    }
}

fn add(all: &mut Vec<Capture>, capture: Capture, long: &Long) {
    if all.len() >= CAPTURES_MAX {
        let at = all.iter().position(|c| !long.has(c.turn)).unwrap_or(0);
        all.remove(at);
    }
    all.push(capture);
}

/// The thread's own end.
pub struct Meter {
    turns: Arc<Turns>,
    started_ns: u64,
    marked_ns: u64,
    messages: u64,
    parts: Parts,
    /// When the kernel was asked last, and what it said.
    asked_ns: u64,
    usage: Usage,
    /// A turn must be longer to be among the worst.
    least_ns: u64,
    /// Long turns that could not be entered, for somebody was reading.
    waiting: Vec<Turn>,
}

impl Meter {
    pub fn new(turns: Arc<Turns>) -> Meter {
        let (parts, usage, waiting) = (Parts::default(), Usage::default(), Vec::new());
        Meter { turns, started_ns: 0, marked_ns: 0, messages: 0, parts, asked_ns: 0, usage, least_ns: 0, waiting }
    }

    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The thread has woken up.
    #[inline]
    pub fn begin(&mut self, now_ns: u64) {
        (self.started_ns, self.marked_ns) = (now_ns, now_ns);
        (self.messages, self.parts) = (0, Parts::default());
        let turns = &*self.turns;
        turns.number.store(turns.number.load(Relaxed) + 1, Release);
        // Behind the number: who sees that a turn has begun sees which.
        turns.started_ns.store(now_ns.max(1), Release);
    }

    /// So many messages have come.
    #[inline]
    pub fn take(&mut self, messages: usize) {
        self.messages += messages as u64;
    }

    /// What it did since the last mark is over.
    #[inline]
    pub fn mark(&mut self, what: Cause, now_ns: u64) {
        self.parts[what as usize] += now_ns.saturating_sub(self.marked_ns);
        self.marked_ns = now_ns;
    }

    /// The turn is over. `usage`: of this thread. Returns how long it took; None: none had begun.
    #[inline]
    pub fn end(&mut self, now_ns: u64, usage: impl FnOnce() -> Usage) -> Option<u64> {
        if self.turns.started_ns.load(Relaxed) == 0 {
            return None;
        }
        self.turns.started_ns.store(0, Release);
        let took_ns = now_ns.saturating_sub(self.started_ns);
        let used = self.used(now_ns, usage).filter(|_| took_ns >= USED_FROM_NS);
        let turns = &*self.turns;
        turns.whole.add(took_ns);
        for (histogram, part) in turns.parts.iter().zip(self.parts).filter(|(_, part)| *part > 0) {
            histogram.add(part);
        }
        if let Some(used) = used {
            turns.ran.add(ns(used.ran).min(took_ns));
        }
        if took_ns >= STALL_NS {
            turns.stalls.store(turns.stalls.load(Relaxed) + 1, Relaxed);
        }
        if took_ns > self.least_ns || took_ns >= LONG_NS {
            let number = turns.number.load(Relaxed);
            self.enter(Turn { number, ended_ns: now_ns, took_ns, messages: self.messages, parts: self.parts, used });
            if took_ns >= STALL_NS {
                self.note_end(number, took_ns);
            }
        }
        Some(took_ns)
    }

    /// What was used since the kernel was asked last; None: that was just now, or never. Of a turn that is told it is all, and what
    /// turns in the millisecond before it have used.
    #[inline]
    fn used(&mut self, now_ns: u64, usage: impl FnOnce() -> Usage) -> Option<Usage> {
        if now_ns.saturating_sub(self.asked_ns) < USED_FROM_NS {
            return None;
        }
        let is_first = std::mem::replace(&mut self.asked_ns, now_ns) == 0;
        let before = std::mem::replace(&mut self.usage, usage());
        (!is_first).then(|| self.usage.since(&before))
    }

    /// Of a stall that was over before anybody saw it, as where the whole process stood still, it is known where it ended. Nobody is waited for: the
    /// watch may be at the captures just now.
    #[cold]
    fn note_end(&self, turn: u64, after_ns: u64) {
        let locked = self.turns.long.try_lock().ok().zip(self.turns.captures.try_lock().ok());
        let Some((long, mut all)) = locked else { return };
        // One that was seen has been asked, and writes.
        if all.iter().all(|c| c.turn != turn) {
            let kernel = "over before it was seen; the stack is that of its end".to_string();
            add(&mut all, Capture { turn, after_ns, kernel, stack: net::stack::here() }, &long);
        }
    }

    /// Never waits for a reader: what cannot be entered now waits for the next long turn. Bound: as many as are shown.
    #[cold]
    fn enter(&mut self, turn: Turn) {
        if self.waiting.len() < WORST_MAX {
            self.waiting.push(turn);
        }
        let Ok(mut long) = self.turns.long.try_lock() else { return };
        self.waiting.drain(..).for_each(|turn| long.add(turn));
        self.least_ns = long.worst.get(WORST_MAX - 1).map_or(0, |t| t.took_ns);
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn meter() -> Meter {
        Meter::new(Arc::new(Turns::new("udp 0".into())))
    }

    /// A turn that starts at `at`, receives for one part and answers for another. Returns how long it took.
    fn turn(meter: &mut Meter, at: u64, socket: u64, answer: u64) -> u64 {
        meter.begin(at);
        meter.mark(Cause::Socket, at + socket);
        meter.mark(Cause::Answer, at + socket + answer);
        meter.end(at + socket + answer, Usage::default).unwrap()
    }

    #[test]
    fn a_turn_is_counted_whole_and_by_what_was_done() {
        let mut m = meter();
        assert_eq!(turn(&mut m, 5 * MS, 2 * MS, MS), 3 * MS);
        assert_eq!(turn(&mut m, 100 * MS, MS, 9 * MS), 10 * MS);
        let counts = |h: &Histogram| (h.count(), h.max_ns());
        assert_eq!(counts(&m.turns.whole), (2, 10 * MS));
        assert_eq!(counts(&m.turns.parts[Cause::Socket as usize]), (2, 2 * MS));
        assert_eq!(counts(&m.turns.parts[Cause::Answer as usize]), (2, 9 * MS));
        assert_eq!(counts(&m.turns.parts[Cause::Later as usize]), (0, 0));
        assert_eq!(m.turns.stalls.load(Relaxed), 1);
    }

    /// Turns of 0.1, 5, 0.1, 20 and 0.9 ms, in each of which the thread runs 0.1 ms and is once taken off its CPU.
    #[test]
    fn long_turns_are_told_with_what_the_thread_had_in_them() {
        let (mut m, mut asked, mut at) = (meter(), 0, 50 * MS);
        for (i, took) in (1u32..).zip([MS / 10, 5 * MS, MS / 10, 20 * MS, 9 * MS / 10]) {
            m.begin(at);
            at += took;
            m.end(at, || {
                asked += 1;
                Usage { ran: i * Duration::from_micros(100), preempted: i.into(), major_faults: 0 }
            });
        }
        let us = |turn: &Turn| turn.used.map(|used| (used.ran.as_micros(), used.preempted));
        let told: Vec<_> = m.turns.long().worst.iter().map(us).collect();
        assert_eq!(told, [Some((200, 2)), Some((100, 1)), None, None, None], "with those of the millisecond before");
        assert_eq!((m.turns.ran.count(), m.turns.ran.max_ns(), asked), (2, MS / 5, 3));
    }

    #[test]
    fn the_worst_ten_are_kept_longest_first() {
        let mut m = meter();
        for i in 0..200u64 {
            turn(&mut m, 1 + i * 1000 * MS, i * 37 % 100 * MS, 0);
        }
        let worst: Vec<u64> = m.turns.long().worst.iter().map(|t| t.took_ns / MS).collect();
        assert_eq!(worst, [99, 99, 98, 98, 97, 97, 96, 96, 95, 95]);
        assert_eq!(m.turns.long().worst[0].parts[Cause::Socket as usize], 99 * MS);
    }

    #[test]
    fn the_last_ten_stalls_are_kept_however_bad_those_before_were() {
        let mut m = meter();
        for i in 0..200u64 {
            turn(&mut m, 1 + i * 1000 * MS, if i < 100 { 500 * MS } else { (i % 2) * (i - 90) * MS }, 0);
        }
        let latest: Vec<u64> = m.turns.long().latest.iter().map(|t| t.took_ns / MS).collect();
        assert_eq!(latest, [91, 93, 95, 97, 99, 101, 103, 105, 107, 109]);
        turn(&mut m, 900_000 * MS, 2 * MS, 0);
        turn(&mut m, 901_000 * MS, 2 * MS - 1, 0);
        let Long { latest, latest_long, .. } = m.turns.long();
        let long: Vec<u64> = latest_long.iter().map(|t| t.took_ns / MS).collect();
        assert_eq!(long, [93, 95, 97, 99, 101, 103, 105, 107, 109, 2]);
        assert_eq!(latest[9].took_ns / MS, 109);
        assert!(m.turns.capture(200).is_some_and(|c| !c.stack.is_empty()), "where the last one was");
    }

    #[test]
    fn a_reader_holds_up_no_turn_and_costs_none_of_the_worst() {
        let mut m = meter();
        let turns = Arc::clone(&m.turns);
        let reading = turns.long.lock().unwrap();
        for i in 1..=20 {
            assert_eq!(turn(&mut m, i * 1000 * MS, i * MS, 0), i * MS);
            assert_eq!(turns.stalls.load(Relaxed), i.saturating_sub(9), "of 10 ms and more");
        }
        drop(reading);
        turn(&mut m, 90_000 * MS, 30 * MS, 0);
        let worst: Vec<u64> = turns.long().worst.iter().map(|t| t.took_ns / MS).collect();
        assert_eq!((worst.len(), worst[0]), (10, 10), "the first ten that waited");
    }

    #[test]
    fn a_stall_that_nobody_saw_is_told_with_where_it_ended() {
        let mut m = meter();
        turn(&mut m, MS, 9 * MS, 0);
        turn(&mut m, 1000 * MS, 50 * MS, 0);
        let seen = m.turns.capture(2).unwrap();
        assert!(m.turns.capture(1).is_none() && seen.after_ns == 50 * MS && !seen.stack.is_empty(), "{seen:?}");
    }

    #[test]
    fn captures_are_bounded_and_those_of_the_worst_stay() {
        let mut m = meter();
        turn(&mut m, MS, 50 * MS, 0);
        let capture = |turn| Capture { turn, after_ns: 0, kernel: String::new(), stack: vec![turn as usize] };
        (1..=100).for_each(|n| m.turns.keep(capture(n)));
        assert_eq!(m.turns.captures.lock().unwrap().len(), CAPTURES_MAX);
        assert!(m.turns.capture(1).is_some() && m.turns.capture(100).is_some() && m.turns.capture(50).is_none());
    }

    #[test]
    fn an_end_without_a_beginning_is_no_turn() {
        let mut m = meter();
        assert_eq!(m.end(100 * MS, Usage::default), None);
        assert_eq!(m.turns.whole.count(), 0);
    }
}
