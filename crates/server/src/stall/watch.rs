//! The watch: looks at the answering threads now and then, and has one whose turn lasts written down.
//!
//! A look costs the machine a wake-up, so there are no more of them than are needed to meet every stall while it lasts: the next
//! one is when the turns that are under way are soon to become stalls. Looking every 5 ms took 4 ms a second on a busy machine.
//!
//! A disk, or a host, that stalls stalls all threads: each is asked as soon as its turn lasts, and writes in a place of its own. One that cannot
//! write yet, for it sleeps in the kernel, is waited for until its turn is over; the kernel's word on it is there from the first.

use super::{Capture, STALL_NS, Turns};
use crate::clock::Clock;
use net::stack::{self, Stacks, Tid};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// Between two looks at least, and after one of a thread that was asked and has not written yet.
const SOON_NS: u64 = 2_000_000;
/// A turn this long is asked about: at the next look it may be a stall that is over.
const ASKED_NS: u64 = STALL_NS - SOON_NS;
/// Between two looks at most: while all threads sleep, a turn that begins is asked about no sooner.
const LATE_NS: u64 = ASKED_NS;

/// Who is asked: the system, or in tests a script.
trait Witness {
    /// False: he cannot be asked. `place`: where he writes.
    fn ask(&mut self, place: usize, thread: Tid) -> bool;
    fn written(&mut self, place: usize) -> Option<Vec<usize>>;
    fn kernel(&mut self, thread: Tid) -> String;
}

impl Witness for Stacks {
    fn ask(&mut self, place: usize, thread: Tid) -> bool {
        Stacks::ask(self, place, thread).is_ok()
    }

    fn written(&mut self, place: usize) -> Option<Vec<usize>> {
        Stacks::written(self, place)
    }

    fn kernel(&mut self, thread: Tid) -> String {
        stack::kernel_state(thread)
    }
}

/// Watches until the process ends. `look`: what else is to be looked at now and then.
pub fn watch(all: Vec<Arc<Turns>>, clock: Clock, stacks: Stacks, look: impl Fn(u64)) {
    // Where all processors have a thread that answers, one of which does not come to an end, it must get one.
    net::sched::watch_over();
    let mut watch = Watch::new(all, stacks);
    loop {
        // Nothing is waited for: a thread that stalls cannot say so itself.
        let pause = watch.pause_ns(clock.mono_ns());
        std::thread::sleep(Duration::from_nanos(pause));
        let now_ns = clock.mono_ns();
        watch.look(now_ns);
        look(now_ns);
    }
}

struct Watch<W> {
    all: Vec<Arc<Turns>>,
    witness: W,
    /// By thread.
    seen: Vec<Seen>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    /// The last turn that was asked about.
    turn: u64,
    /// The thread has not written yet.
    is_pending: bool,
}

impl<W: Witness> Watch<W> {
    fn new(all: Vec<Arc<Turns>>, witness: W) -> Watch<W> {
        Watch { seen: vec![Seen::default(); all.len()], all, witness }
    }

    /// How long nothing can be seen that was not seen by the last look.
    fn pause_ns(&self, now_ns: u64) -> u64 {
        if self.seen.iter().any(|seen| seen.is_pending) {
            return SOON_NS;
        }
        let turns = self.all.iter().zip(&self.seen).filter_map(|(turns, seen)| {
            let (turn, after_ns) = under_way(turns, now_ns)?;
            (seen.turn != turn).then(|| ASKED_NS.saturating_sub(after_ns))
        });
        turns.min().unwrap_or(LATE_NS).clamp(SOON_NS, LATE_NS)
    }

    fn look(&mut self, now_ns: u64) {
        for (place, (turns, seen)) in self.all.iter().zip(&mut self.seen).enumerate() {
            if std::mem::take(&mut seen.is_pending) {
                match self.witness.written(place) {
                    Some(stack) => turns.keep_stack(seen.turn, stack),
                    None if is_in(turns, seen.turn) => seen.is_pending = true,
                    // It may be writing just now, and what it writes is not of another turn.
                    None => continue,
                }
            }
            let Some((turn, after_ns)) = under_way(turns, now_ns) else { continue };
            if after_ns < ASKED_NS || seen.turn == turn {
                continue;
            }
            // Before the kernel is asked, which takes time: the turn may end.
            let tid = turns.tid.load(Relaxed);
            *seen = Seen { turn, is_pending: self.witness.ask(place, tid) };
            turns.keep(Capture { turn, after_ns, kernel: self.witness.kernel(tid), stack: Vec::new() });
        }
    }
}

/// The turn that a thread is in, and how long it has lasted.
pub(super) fn under_way(turns: &Turns, now_ns: u64) -> Option<(u64, u64)> {
    let started = turns.started_ns.load(Acquire);
    let number = turns.number.load(Acquire);
    // Between the two it may have ended and another begun: whoever sees the number of that sees that this one has ended.
    (started != 0 && turns.started_ns.load(Acquire) == started).then(|| (number, now_ns.saturating_sub(started)))
}

fn is_in(turns: &Turns, number: u64) -> bool {
    under_way(turns, 0).is_some_and(|(n, _)| n == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::{Cause, Meter, Usage};

    const MS: u64 = 1_000_000;

    /// Writes when it is told to; keeps whom it was asked about.
    #[derive(Default)]
    struct Script {
        asked: Vec<Tid>,
        writes: bool,
    }

    impl Witness for Script {
        fn ask(&mut self, _: usize, thread: Tid) -> bool {
            self.asked.push(thread);
            true
        }
        fn written(&mut self, place: usize) -> Option<Vec<usize>> {
            self.writes.then(|| vec![place])
        }
        fn kernel(&mut self, thread: Tid) -> String {
            format!("state of {thread}")
        }
    }

    fn stage(threads: i32) -> (Watch<Script>, Vec<Meter>) {
        let all: Vec<Arc<Turns>> = (0..threads).map(|i| Arc::new(Turns::new(format!("udp {i}")))).collect();
        all.iter().zip(1..).for_each(|(t, tid)| t.tid.store(tid, Relaxed));
        let meters = all.iter().map(|t| Meter::new(Arc::clone(t))).collect();
        (Watch::new(all, Script::default()), meters)
    }

    #[test]
    fn a_programmed_stall_leaves_its_stack_with_its_turn() {
        let (mut watch, mut meters) = stage(2);
        watch.witness.writes = true;
        meters[1].begin(MS);
        watch.look(MS + ASKED_NS - 1);
        assert_eq!(watch.witness.asked, [], "not long enough");
        watch.look(MS + ASKED_NS + MS);
        watch.look(MS + ASKED_NS + 6 * MS);
        watch.look(MS + ASKED_NS + 11 * MS);
        assert_eq!(watch.witness.asked, [2], "once a turn");
        meters[1].mark(Cause::Answer, 40 * MS);
        assert_eq!(meters[1].end(40 * MS, Usage::default), Some(39 * MS));
        let worst = &watch.all[1].long().worst[0];
        let capture = watch.all[1].capture(worst.number).unwrap();
        let expect = Capture { turn: 1, after_ns: ASKED_NS + MS, kernel: "state of 2".into(), stack: vec![1] };
        assert_eq!((worst.took_ns, capture), (39 * MS, expect));
        // The next turn that lasts is asked about again.
        meters[1].begin(50 * MS);
        watch.look(70 * MS);
        assert_eq!(watch.witness.asked, [2, 2]);
    }

    #[test]
    fn threads_that_cannot_write_are_waited_for_until_their_turns_are_over() {
        let (mut watch, mut meters) = stage(3);
        meters.iter_mut().for_each(|meter| meter.begin(MS));
        (20..30).for_each(|ms| watch.look(ms * MS));
        assert_eq!(watch.witness.asked, [1, 2, 3], "all of them, once");
        let told = crate::stall::json(&watch.all, 30 * MS, 0).to_string();
        assert_eq!(told.matches(r#""seen_after_us":19000,"kernel":"state of "#).count(), 3, "while they last: {told}");
        meters[0].end(30 * MS, Usage::default);
        meters[0].begin(30 * MS);
        watch.witness.writes = true;
        watch.look(31 * MS);
        let of = |thread: usize, turn| watch.all[thread].capture(turn).map(|c| (c.kernel, c.stack));
        assert_eq!([of(1, 1), of(2, 1)], [1, 2].map(|i| Some((format!("state of {}", i + 1), vec![i]))));
        assert_eq!(of(0, 1), Some(("state of 1".into(), vec![0])), "it was written before the turn was over");
        watch.witness.writes = false;
        watch.look(40 * MS);
        meters[0].end(41 * MS, Usage::default);
        watch.look(42 * MS);
        watch.witness.writes = true;
        watch.look(43 * MS);
        assert_eq!(watch.all[0].capture(2).map(|c| c.stack), Some(vec![]), "what is written later is not of this turn");
    }

    #[test]
    fn the_next_look_is_when_a_turn_could_have_become_a_stall() {
        let (mut watch, mut meters) = stage(2);
        assert_eq!(watch.pause_ns(MS), LATE_NS, "all sleep");
        meters[0].begin(MS);
        meters[1].begin(5 * MS);
        assert_eq!(watch.pause_ns(6 * MS), 3 * MS);
        watch.look(9 * MS);
        assert_eq!(watch.pause_ns(9 * MS), SOON_NS, "one is asked, and has not written");
        watch.witness.writes = true;
        watch.look(10 * MS);
        assert_eq!(watch.pause_ns(10 * MS), 3 * MS, "the other's turn");
        meters[1].end(11 * MS, Usage::default);
        assert_eq!(watch.pause_ns(11 * MS), LATE_NS, "a turn is asked about once");
    }

    /// Whenever a turn begins after a look, and however long those that are no stall last before.
    #[test]
    fn no_stall_begins_and_ends_between_two_looks() {
        for begin_us in 0..12_000 {
            let (mut watch, mut meters) = stage(1);
            watch.witness.writes = true;
            let (mut now, begin) = (MS, MS + begin_us * 1000);
            let mut has_begun = false;
            while now < begin + STALL_NS && watch.witness.asked.is_empty() {
                now += watch.pause_ns(now);
                if now >= begin && !has_begun {
                    meters[0].begin(begin);
                    has_begun = true;
                }
                watch.look(now);
            }
            assert!(now < begin + STALL_NS, "{begin_us}");
        }
    }

    #[test]
    fn sleeping_threads_are_left_alone() {
        let (mut watch, mut meters) = stage(1);
        meters[0].begin(MS);
        meters[0].end(2 * MS, Usage::default);
        watch.look(1000 * MS);
        assert_eq!(watch.witness.asked, []);
    }
}
