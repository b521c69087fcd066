//! What happened, counted: totals, and a line for each slice of time.
//!
//! A latency belongs to the slice in which its query was due, what was sent or received to the slice in which that
//! happened. A slice's histogram is kept until no answer to it can come in time any more, then folded into figures:
//! memory is bound by the time-out, not by the length of the run.

use crate::histogram::Histogram;
use crate::outstanding::Query;
use crate::shape;
use std::collections::VecDeque;

pub const RCODES: usize = 32;
/// Slowest names that are kept.
const SLOWEST: usize = 20;
/// Queries that go out later than this after they were due count as late in sending.
pub const SENDING_LATE_NS: u64 = 1_000_000;
/// Silence of the target this long while queries wait is noted as a stall.
const STALL_NS: u64 = 20_000_000;
const STALLS_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub p9999: u64,
    pub max: u64,
}

impl Percentiles {
    pub fn of(histogram: &Histogram) -> Percentiles {
        let at = |part| histogram.percentile(part);
        Percentiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: histogram.max(),
        }
    }
}

/// A slice of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    pub sent: u64,
    pub received: u64,
    pub timed_out: u64,
    pub unsent: u64,
    pub rcodes: [u32; RCODES],
    pub latency: Percentiles,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sent: u64,
    pub received: u64,
    /// Given up; `late` of these were answered afterwards.
    pub timed_out: u64,
    /// Those of the timed out that the tool had sent late.
    pub timed_out_sent_late: u64,
    pub late: u64,
    pub duplicates: u64,
    pub wrong_id: u64,
    pub wrong_question: u64,
    pub malformed: u64,
    pub truncated: u64,
    /// Due, but never sent: IDs or time ran out.
    pub unsent: u64,
    /// Sent more than a millisecond after they were due.
    pub sent_late: u64,
    /// The target's host said that nobody listens.
    pub refused: u64,
    pub socket_errors: u64,
    pub octets: u64,
}

impl Counts {
    pub fn lost(&self) -> u64 {
        self.timed_out - self.late.min(self.timed_out)
    }
}

/// The target gave no answer for a while although queries waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    pub from_ns: u64,
    pub to_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    pub question: Vec<u8>,
    pub latency_ns: u64,
    pub due_ns: u64,
}

pub struct Tally {
    pub counts: Counts,
    pub rcodes: [u64; RCODES],
    pub latency: Histogram,
    pub lateness: Histogram,
    pub stalls: Vec<Stall>,
    pub slowest: Vec<Slow>,
    /// Fine slices; a second has `per_second` of them.
    pub fine: Vec<Slice>,
    pub seconds: Vec<Slice>,
    per_second: usize,
    loop_kind: Loop,
    slice_ns: u64,
    /// Slices whose latency is final.
    closed: usize,
    open: VecDeque<Histogram>,
    spare: Vec<Histogram>,
    second: Histogram,
    warm_ns: u64,
    timeout_ns: u64,
    slow_from_ns: u64,
    last_answer_ns: u64,
    /// The last long one, that nobody is known to have waited for yet.
    silence: Option<Stall>,
}

/// How a tally is kept.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub warm_ns: u64,
    pub timeout_ns: u64,
    /// Slices in a second: 10 for runs that are looked at closely, 1 for long ones.
    pub per_second: usize,
    pub loop_kind: Loop,
}

/// Only an open loop knows when a query was due; in a closed one it is due when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    Open,
    Closed,
}

impl Tally {
    pub fn new(terms: Terms) -> Tally {
        Tally {
            counts: Counts::default(),
            rcodes: [0; RCODES],
            latency: Histogram::default(),
            lateness: Histogram::default(),
            stalls: Vec::new(),
            slowest: Vec::new(),
            fine: Vec::new(),
            seconds: Vec::new(),
            per_second: terms.per_second,
            loop_kind: terms.loop_kind,
            slice_ns: 1_000_000_000 / terms.per_second as u64,
            closed: 0,
            open: VecDeque::new(),
            spare: Vec::new(),
            second: Histogram::default(),
            warm_ns: terms.warm_ns,
            timeout_ns: terms.timeout_ns,
            slow_from_ns: 0,
            last_answer_ns: 0,
            silence: None,
        }
    }

    pub fn slice_ns(&self) -> u64 {
        self.slice_ns
    }

    fn slice(&mut self, at_ns: u64) -> &mut Slice {
        let at = (at_ns / self.slice_ns) as usize;
        if at >= self.fine.len() {
            self.fine.resize(at + 1, Slice::default());
        }
        &mut self.fine[at]
    }

    /// Queries due before the warm-up's end are sent and answered, and not counted.
    #[inline]
    pub fn counts_at(&self, due_ns: u64) -> bool {
        due_ns >= self.warm_ns
    }

    #[inline]
    pub fn sent(&mut self, due_ns: u64, at_ns: u64) {
        if !self.counts_at(due_ns) {
            return;
        }
        self.counts.sent += 1;
        self.slice(at_ns).sent += 1;
        if self.loop_kind == Loop::Open {
            let late = at_ns.saturating_sub(due_ns);
            self.lateness.record(late);
            self.counts.sent_late += u64::from(late > SENDING_LATE_NS);
        }
    }

    /// A query that is about to be sent. In a closed loop none is late.
    #[inline]
    pub fn sending(&self, due_ns: u64, now_ns: u64) -> Query {
        let sent_late = now_ns.saturating_sub(due_ns) > SENDING_LATE_NS && self.loop_kind == Loop::Open;
        Query { due_ns, sent_late }
    }

    pub fn unsent(&mut self, due_ns: u64) {
        if self.counts_at(due_ns) {
            self.counts.unsent += 1;
            self.slice(due_ns).unsent += 1;
        }
    }

    #[inline]
    pub fn answered(&mut self, query: Query, at_ns: u64, packet: &[u8]) {
        self.note_silence(query, at_ns);
        let due_ns = query.due_ns;
        let latency = at_ns.saturating_sub(due_ns);
        if latency > self.timeout_ns {
            self.gave_up(query);
            self.late(query);
            return;
        }
        if !self.counts_at(due_ns) {
            return;
        }
        let rcode = rcode(packet);
        self.counts.received += 1;
        self.counts.octets += packet.len() as u64;
        self.counts.truncated += u64::from(packet[2] >> 1 & 1);
        self.rcodes[rcode] += 1;
        let slice = self.slice(at_ns);
        slice.received += 1;
        slice.rcodes[rcode] += 1;
        self.histogram(due_ns).record(latency);
        if latency > self.slow_from_ns {
            self.note_slow(latency, due_ns, packet);
        }
    }

    /// The histogram of the slice; a query so old that its slice is closed counts in the oldest that is open.
    #[inline]
    fn histogram(&mut self, due_ns: u64) -> &mut Histogram {
        let at = ((due_ns / self.slice_ns) as usize).saturating_sub(self.closed);
        while self.open.len() <= at {
            self.open.push_back(self.spare.pop().unwrap_or_default());
        }
        &mut self.open[at]
    }

    /// A silence begins with the last answer, or with the query that had to wait for its end if that was later. What was
    /// sent late tells nothing: it is the tool that was silent. So who has waited may be known only behind the end.
    #[inline]
    fn note_silence(&mut self, query: Query, at_ns: u64) {
        if at_ns.saturating_sub(self.last_answer_ns) > STALL_NS {
            self.silence = Some(Stall { from_ns: self.last_answer_ns, to_ns: at_ns });
        }
        self.last_answer_ns = self.last_answer_ns.max(at_ns);
        let Some(Stall { from_ns, to_ns }) = self.silence.filter(|_| !query.sent_late) else { return };
        let from_ns = from_ns.max(query.due_ns);
        if to_ns.saturating_sub(from_ns) > STALL_NS {
            self.silence = None;
            if self.stalls.len() < STALLS_MAX {
                self.stalls.push(Stall { from_ns, to_ns });
            }
        }
    }

    #[cold]
    fn note_slow(&mut self, latency_ns: u64, due_ns: u64, packet: &[u8]) {
        let len = packet.get(shape::HEADER..).and_then(wire::name::wire_len).unwrap_or(0);
        let Some(question) = packet.get(shape::HEADER..shape::HEADER + len + 4).filter(|_| len > 0) else { return };
        match self.slowest.iter_mut().find(|s| s.question == question) {
            Some(known) if known.latency_ns >= latency_ns => return,
            Some(known) => (known.latency_ns, known.due_ns) = (latency_ns, due_ns),
            None => self.slowest.push(Slow { question: question.to_vec(), latency_ns, due_ns }),
        }
        self.slowest.sort_by_key(|s| std::cmp::Reverse(s.latency_ns));
        self.slowest.truncate(SLOWEST);
        if let [.., last] = &self.slowest[..]
            && self.slowest.len() == SLOWEST
        {
            self.slow_from_ns = last.latency_ns;
        }
    }

    pub fn gave_up(&mut self, query: Query) {
        if self.counts_at(query.due_ns) {
            self.counts.timed_out += 1;
            self.counts.timed_out_sent_late += u64::from(query.sent_late);
            self.slice(query.due_ns).timed_out += 1;
        }
    }

    /// The answer to a query that was given up.
    pub fn late(&mut self, query: Query) {
        self.counts.late += u64::from(self.counts_at(query.due_ns));
    }

    pub fn duplicate(&mut self, query: Query) {
        self.counts.duplicates += u64::from(self.counts_at(query.due_ns));
    }

    /// Folds the slices to which no answer can come any more. To be called a few times a second.
    pub fn close_until(&mut self, now_ns: u64) {
        let end = (now_ns.saturating_sub(self.timeout_ns) / self.slice_ns) as usize;
        while self.closed + 1 < end {
            self.close_one();
        }
    }

    /// Folds all that is left; the run is over.
    pub fn close(&mut self) {
        while self.closed < self.fine.len() || !self.open.is_empty() {
            self.close_one();
        }
        if !self.closed.is_multiple_of(self.per_second) {
            self.close_second();
        }
    }

    fn close_one(&mut self) {
        let at = self.closed;
        if at >= self.fine.len() {
            self.fine.resize(at + 1, Slice::default());
        }
        if let Some(mut histogram) = self.open.pop_front() {
            self.fine[at].latency = Percentiles::of(&histogram);
            self.second.merge(&histogram);
            histogram.clear();
            self.spare.push(histogram);
        }
        self.closed += 1;
        if self.closed.is_multiple_of(self.per_second) {
            self.close_second();
        }
    }

    /// Counts by the second are summed up at the end: what was sent late still adds to slices that are closed.
    fn close_second(&mut self) {
        self.seconds.push(Slice { latency: Percentiles::of(&self.second), ..Slice::default() });
        self.latency.merge(&self.second);
        self.second.clear();
    }

    /// Latencies of the queries due in the last `slices` slices before `now_ns`, as far as they are answered.
    pub fn recent_latency(&self, now_ns: u64, slices: usize) -> Percentiles {
        let end = ((now_ns / self.slice_ns) as usize + 1).saturating_sub(self.closed).min(self.open.len());
        let mut recent = Histogram::default();
        self.open.range(end.saturating_sub(slices)..end).for_each(|histogram| recent.merge(histogram));
        Percentiles::of(&recent)
    }

    /// The slices by the second, once all are closed.
    pub fn by_second(&self) -> Vec<Slice> {
        let mut seconds = self.seconds.clone();
        for (second, fine) in seconds.iter_mut().zip(self.fine.chunks(self.per_second)) {
            for slice in fine {
                second.sent += slice.sent;
                second.received += slice.received;
                second.timed_out += slice.timed_out;
                second.unsent += slice.unsent;
                second.rcodes.iter_mut().zip(slice.rcodes).for_each(|(sum, n)| *sum += n);
            }
        }
        seconds
    }
}

/// The rcode of an answer. Only 6 and 7 can be the low half of a larger one that a query of ours may meet (22 BADTRUNC,
/// 23 BADCOOKIE), so that the OPT is looked for only then.
#[inline]
fn rcode(packet: &[u8]) -> usize {
    let low = usize::from(packet[3] & 15);
    if matches!(low, 6 | 7) {
        let high = shape::opt_of(packet).map_or(0, |opt| usize::from(opt.rcode_high));
        return (high << 4 | low).min(RCODES - 1);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn answer(name: u8, rcode: u8) -> Vec<u8> {
        vec![0, 1, 0x80, rcode, 0, 1, 0, 0, 0, 0, 0, 0, 1, name, 0, 0, 1, 0, 1]
    }

    fn query(due_ns: u64) -> Query {
        Query { due_ns, sent_late: false }
    }

    fn tally() -> Tally {
        Tally::new(Terms { warm_ns: 0, timeout_ns: 1000 * MS, per_second: 10, loop_kind: Loop::Open })
    }

    #[test]
    fn each_slice_has_its_own_latencies_and_the_second_all_of_them() {
        let mut tally = tally();
        for i in 0..2500 {
            let due = i * MS;
            tally.sent(due, due);
            let latency = if (1200..1300).contains(&i) { 7 * MS } else { 2 * MS };
            tally.answered(query(due), due + latency, &answer(b'a', (i % 2) as u8 * 3));
            tally.close_until(due);
        }
        assert!(tally.recent_latency(2_499 * MS, 10).max > 0);
        tally.close();
        let near = |ns: u64, ms: u64| ns.abs_diff(ms * MS) <= ms * MS / 1000;
        assert_eq!(tally.fine.len(), 26);
        assert_eq!(tally.recent_latency(2_499 * MS, 10), Percentiles::default());
        assert!(near(tally.fine[12].latency.p50, 7) && near(tally.fine[13].latency.max, 2));
        let seconds = tally.by_second();
        assert_eq!(seconds.iter().map(|s| s.sent).collect::<Vec<_>>(), [1000, 1000, 500]);
        assert_eq!(seconds.iter().map(|s| s.received).sum::<u64>(), 2500);
        assert!(near(seconds[1].latency.p50, 2) && near(seconds[1].latency.p99, 7));
        assert!(near(seconds[0].latency.max, 2));
        assert_eq!(tally.latency.count(), 2500);
        assert_eq!((tally.rcodes[0], tally.rcodes[3]), (1250, 1250));
        assert_eq!(tally.lateness.max(), 0);
    }

    #[test]
    fn the_warm_up_is_not_counted() {
        let mut tally = Tally::new(Terms { warm_ns: 10, timeout_ns: MS, per_second: 1, loop_kind: Loop::Open });
        tally.sent(9, 9);
        tally.answered(query(9), 11, &answer(b'a', 0));
        tally.gave_up(query(9));
        tally.late(query(9));
        tally.duplicate(query(9));
        tally.sent(10, 10 + 2 * MS);
        assert!(tally.sending(10, 10 + 2 * MS).sent_late && !tally.sending(10, 10 + MS).sent_late);
        tally.gave_up(Query { due_ns: 10, sent_late: true });
        tally.close();
        let counts = tally.counts;
        assert_eq!((counts.sent, counts.received, counts.timed_out, counts.sent_late), (1, 0, 1, 1));
        assert_eq!((counts.timed_out_sent_late, counts.late, counts.duplicates), (1, 0, 0));
    }

    #[test]
    fn a_stall_is_noted_from_the_first_query_that_waited() {
        let mut tally = tally();
        for i in 0..100 {
            let due = i * 10 * MS;
            let at = if (30..50).contains(&i) { 500 * MS + i } else { due + MS };
            tally.answered(query(due), at, &answer(b'a', 0));
        }
        assert_eq!(tally.stalls, [Stall { from_ns: 300 * MS, to_ns: 500 * MS + 30 }]);
    }

    /// The tool was held up for a moment as the target stopped.
    #[test]
    fn a_stall_is_noted_though_the_first_that_waited_was_sent_late() {
        let mut tally = tally();
        tally.answered(query(0), MS, &answer(b'a', 0));
        for i in 0..30 {
            let query = Query { due_ns: (10 + i) * MS, sent_late: i < 3 };
            tally.answered(query, 100 * MS + i, &answer(b'a', 0));
        }
        assert_eq!(tally.stalls, [Stall { from_ns: 13 * MS, to_ns: 100 * MS }]);
    }

    #[test]
    fn a_silence_of_the_tool_is_no_stall() {
        let mut tally = tally();
        tally.answered(query(0), MS, &answer(b'a', 0));
        for i in 0..30 {
            tally.answered(Query { due_ns: (10 + i) * MS, sent_late: true }, 100 * MS + i, &answer(b'a', 0));
        }
        assert_eq!(tally.stalls, []);
    }

    #[test]
    fn an_answer_behind_the_time_out_is_late_whenever_it_is_heard() {
        let mut tally = tally();
        tally.answered(query(5), 5 + 1000 * MS, &answer(b'a', 0));
        tally.answered(query(5), 6 + 1000 * MS, &answer(b'a', 0));
        let counts = tally.counts;
        assert_eq!((counts.received, counts.timed_out, counts.late, counts.lost()), (1, 1, 1, 0));
    }

    #[test]
    fn the_slowest_names_are_kept_once_each() {
        let mut tally = tally();
        for round in 0..3u64 {
            for name in 0..40u8 {
                tally.answered(query(0), u64::from(name) * MS + round, &answer(name, 0));
            }
        }
        let kept: Vec<(u8, u64)> = tally.slowest.iter().map(|s| (s.question[1], s.latency_ns)).collect();
        let expect: Vec<(u8, u64)> = (20..40u8).rev().map(|n| (n, u64::from(n) * MS + 2)).collect();
        assert_eq!(kept, expect);
    }

    #[test]
    fn rcodes_beyond_the_header_are_read_from_opt() {
        let mut bad_cookie = answer(b'a', 7);
        bad_cookie[11] = 1;
        bad_cookie.extend_from_slice(&[0, 0, 41, 4, 0xd0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(rcode(&bad_cookie), 23);
        assert_eq!(rcode(&answer(b'a', 7)), 7);
        assert_eq!(rcode(&answer(b'a', 3)), 3);
    }

    #[test]
    fn late_answers_are_no_losses() {
        let counts = Counts { sent: 10, received: 6, timed_out: 4, late: 3, ..Counts::default() };
        assert_eq!(counts.lost(), 1);
    }
}
