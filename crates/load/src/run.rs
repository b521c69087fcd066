//! The run: one thread that sends what is due, takes what comes, and keeps account of itself.
//!
//! ```text
//!   turn:  receive from each lane -> send what is due -> nothing to do? spin, or sleep until shortly before the next
//!   tick (every 10 ms):  give up what timed out, fold slices, show, look for the stop sign
//! ```
//!
//! Open loop: due times come from the schedule alone. What cannot be sent in its turn is sent later and its latency
//! counts from when it was due; what is still unsent when the schedule ends is counted as unsent.

use crate::clock::Clock;
use crate::kernel;
use crate::lane::{Lane, Shared};
use crate::schedule::{Clockwork, Schedule};
use crate::shape::Shape;
use crate::source::Source;
use crate::tally::{Loop, Percentiles, Slice, Tally, Terms};
use crate::tcp::{Tcp, Turnover};
use crate::udp::{BATCH, Udp, Way};
use net::generator::{eager, exact_timers, wait};
use net::sched;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

const TICK_NS: u64 = 10_000_000;
const SHOW_NS: u64 = 500_000_000;
/// How long a closed loop without work looks again and again before it sleeps until something comes. A target that is
/// busy answers sooner than this; each sleep would cost the tool its place, and 4 % of the rate in all.
const SPIN_NS: u64 = 2_000_000;
/// A sleep ends this much before the next query is due: waking up takes its time.
const WAKE_NS: u64 = 80_000;
const IDS_USED: f64 = 40_000.0;
const SOCKETS_MAX: usize = 512;
/// Packets of one socket that are heard before any of its queries is given up; a socket's buffer holds fewer.
const HEARD_OUT_MAX: usize = 1 << 16;
/// Without a single answer, a target that refuses this often is not there.
const REFUSALS_MAX: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp(Turnover),
}

/// When queries are sent.
#[derive(Clone, Debug)]
pub enum Pacing {
    /// Closed loop: a fixed number waits for answers, for a time.
    Outstanding { queries: usize, time_ns: u64 },
    /// Open loop.
    Schedule(Schedule),
    /// Open loop: the times of a capture, made shorter by a factor.
    Times { times_ns: Vec<u64>, factor: f64 },
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub target: SocketAddr,
    /// Addresses to send from, in turn; empty: what the system likes.
    pub sources: Vec<IpAddr>,
    pub sockets: usize,
    pub transport: Transport,
    pub shape: Shape,
    pub pacing: Pacing,
    pub warm_ns: u64,
    pub timeout_ns: u64,
    /// The kernel says when an answer came, where it can. That costs both sides time: 5 % of a closed loop's rate.
    pub stamps: bool,
    pub cpu: Option<usize>,
    pub seed: u64,
    /// At most so many queries; 0 is no limit.
    pub limit: u64,
}

/// What the run shows of itself while it goes on.
#[derive(Clone, Debug)]
pub struct Glimpse {
    pub at_ns: u64,
    pub waiting: usize,
    /// The last whole slices, the newest last, a second's worth.
    pub recent: Vec<Slice>,
    /// Of the queries due in the last second that are answered.
    pub latency: Percentiles,
}

/// Whoever watches the run.
pub trait Watcher {
    fn show(&mut self, _glimpse: Glimpse) {}

    /// False: nobody looks, and the run is spared the work of showing.
    fn looks(&self) -> bool {
        false
    }

    /// True: end now, and report what there is.
    fn stop(&mut self) -> bool {
        false
    }
}

/// The tool's own share in what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Own {
    /// Part of the time in which there was work to do.
    pub busy: f64,
    /// CPU time over the time that the run took.
    pub cpu: f64,
    pub switches: u64,
    /// Part of the time in which the tool was ready to run and another had its core; None where the kernel does not say.
    pub waited: Option<f64>,
    pub socket_drops: u64,
    pub target_drops: Option<u64>,
    pub stamps: bool,
    pub sockets: usize,
}

pub struct Outcome {
    /// When time 0 of all figures was.
    pub began: Instant,
    pub tally: Tally,
    pub own: Own,
    /// How long queries were sent, warm-up not counted.
    pub sending_ns: u64,
    pub stopped: bool,
    pub source: Source,
}

pub fn run(plan: &Plan, source: Source, watcher: &mut dyn Watcher) -> Result<Outcome, String> {
    if let Some(cpu) = plan.cpu {
        sched::pin(cpu).map_err(|e| format!("CPU {cpu} cannot be used: {e}"))?;
        // Without more of the share, other work on the machine shows up as the target's latency.
        eager();
    }
    exact_timers();
    let lanes = lanes(plan)?;
    let drops_before = kernel::drops_at(plan.target);
    let is_closed = matches!(plan.pacing, Pacing::Outstanding { .. });
    let loop_kind = if is_closed { Loop::Closed } else { Loop::Open };
    let terms = Terms { warm_ns: plan.warm_ns, timeout_ns: plan.timeout_ns, per_second: per_second(plan), loop_kind };
    let mut run = Run {
        due: Due::new(&plan.pacing),
        limit: if plan.limit == 0 { u64::MAX } else { plan.limit },
        shared: Shared { clock: Clock::start(), source, tally: Tally::new(terms) },
        turn: 0,
        plan,
        lanes,
        idle_ns: 0,
        idle_since_ns: None,
        shown_ns: 0,
        stop_ns: None,
        stopped: false,
        held: Vec::with_capacity(BATCH),
    };
    let (usage, waited_ns) = (sched::usage(), sched::waited_ns());
    run.all(watcher)?;
    let took_ns = run.shared.clock.now_ns().max(1);
    let stop_ns = run.stop_ns.unwrap_or(took_ns);
    let used = sched::usage().since(&usage);
    let own = Own {
        busy: 1.0 - run.idle_ns as f64 / took_ns as f64,
        cpu: used.ran.as_nanos() as f64 / took_ns as f64,
        switches: used.preempted,
        waited: sched::waited_ns().zip(waited_ns).map(|(after, before)| (after - before) as f64 / took_ns as f64),
        socket_drops: run.lanes.iter().map(|l| l.drops()).sum(),
        target_drops: kernel::drops_at(plan.target)
            .zip(drops_before)
            .map(|(after, before)| after.saturating_sub(before)),
        stamps: run.lanes.iter().all(|lane| lane.has_stamps()),
        sockets: run.lanes.len(),
    };
    let mut shared = run.shared;
    shared.tally.close();
    let sending_ns = stop_ns.saturating_sub(plan.warm_ns).max(1);
    Ok(Outcome {
        began: shared.clock.began(),
        tally: shared.tally,
        own,
        sending_ns,
        stopped: run.stopped,
        source: shared.source,
    })
}

impl Plan {
    pub fn peak_rate(&self) -> f64 {
        match &self.pacing {
            Pacing::Outstanding { .. } => 0.0,
            Pacing::Schedule(schedule) => schedule.peak_rate(),
            Pacing::Times { times_ns, factor } => {
                let length_s = times_ns.last().map_or(1.0, |t| (*t as f64 / 1e9 / factor).max(0.001));
                2.0 * times_ns.len() as f64 / length_s
            }
        }
    }

    /// As many as asked for, and more where the IDs of these would run out before a time-out frees them.
    fn lanes_needed(&self) -> usize {
        let waiting = match self.pacing {
            Pacing::Outstanding { queries, .. } => queries as f64,
            _ => self.peak_rate() * self.timeout_ns as f64 / 1e9,
        };
        self.sockets.max((waiting / IDS_USED).ceil() as usize).clamp(1, SOCKETS_MAX)
    }
}

fn per_second(plan: &Plan) -> usize {
    let length_ns = match &plan.pacing {
        Pacing::Outstanding { time_ns, .. } => *time_ns,
        Pacing::Schedule(schedule) => schedule.length_ns(),
        Pacing::Times { times_ns, factor } => (times_ns.last().copied().unwrap_or(0) as f64 / factor) as u64,
    };
    if length_ns > 600_000_000_000 { 1 } else { 10 }
}

fn lanes(plan: &Plan) -> Result<Vec<Box<dyn Lane>>, String> {
    let mut chance = crate::chance::Chance::new(plan.seed);
    let failed = |e: io::Error| format!("{} cannot be reached: {e}", plan.target);
    let mut lanes: Vec<Box<dyn Lane>> = Vec::new();
    for i in 0..plan.lanes_needed() {
        let source = (!plan.sources.is_empty()).then(|| SocketAddr::new(plan.sources[i % plan.sources.len()], 0));
        let way = Way { target: plan.target, source, stamps: plan.stamps };
        lanes.push(match plan.transport {
            Transport::Udp => Box::new(Udp::connect(&way, plan.shape, chance.bits()).map_err(failed)?),
            Transport::Tcp(turnover) => {
                Box::new(Tcp::connect(&way, plan.shape, turnover, chance.bits()).map_err(failed)?)
            }
        });
    }
    Ok(lanes)
}

enum Due {
    Closed,
    Clockwork(Clockwork),
    Times { times_ns: Vec<u64>, factor: f64, at: usize },
}

impl Due {
    fn new(pacing: &Pacing) -> Due {
        match pacing {
            Pacing::Outstanding { .. } => Due::Closed,
            Pacing::Schedule(schedule) => Due::Clockwork(Clockwork::new(schedule.clone())),
            Pacing::Times { times_ns, factor } => Due::Times { times_ns: times_ns.clone(), factor: *factor, at: 0 },
        }
    }

    #[inline]
    fn peek(&mut self) -> Option<u64> {
        match self {
            Due::Closed => None,
            Due::Clockwork(clockwork) => clockwork.peek(),
            Due::Times { times_ns, factor, at } => times_ns.get(*at).map(|t| (*t as f64 / *factor) as u64),
        }
    }

    #[inline]
    fn advance(&mut self) {
        match self {
            Due::Closed => {}
            Due::Clockwork(clockwork) => clockwork.advance(),
            Due::Times { at, .. } => *at += 1,
        }
    }
}

struct Run<'a> {
    plan: &'a Plan,
    shared: Shared,
    lanes: Vec<Box<dyn Lane>>,
    due: Due,
    limit: u64,
    turn: usize,
    idle_ns: u64,
    /// Since when there was nothing to do.
    idle_since_ns: Option<u64>,
    shown_ns: u64,
    /// When sending ended.
    stop_ns: Option<u64>,
    stopped: bool,
    /// Due times that were taken from the schedule and could not be sent yet.
    held: Vec<u64>,
}

impl Run<'_> {
    fn all(&mut self, watcher: &mut dyn Watcher) -> Result<(), String> {
        let mut ticked_ns = 0;
        let mut now_ns = self.shared.clock.now_ns();
        loop {
            if now_ns >= ticked_ns + TICK_NS {
                ticked_ns = now_ns;
                self.tick(now_ns, watcher)?;
            }
            if self.is_over(now_ns) {
                break;
            }
            let received = self.receive()?;
            // Hearing takes time, in which more has become due.
            let sent = self.send(if received > 0 { self.shared.clock.now_ns() } else { now_ns })?;
            if received + sent == 0 {
                self.rest(now_ns);
            } else {
                self.idle_since_ns = None;
            }
            let after_ns = self.shared.clock.now_ns();
            if received + sent == 0 {
                self.idle_ns += after_ns - now_ns;
            }
            now_ns = after_ns;
        }
        self.hear_out(u64::MAX)?;
        self.give_up(u64::MAX);
        Ok(())
    }

    fn waiting(&mut self) -> usize {
        self.lanes.iter_mut().map(|l| l.outstanding().waiting()).sum()
    }

    fn is_over(&mut self, now_ns: u64) -> bool {
        let Some(stop_ns) = self.stop_ns else { return false };
        self.waiting() == 0 || now_ns >= stop_ns + self.plan.timeout_ns
    }

    fn receive(&mut self) -> Result<usize, String> {
        let mut received = 0;
        for lane in &mut self.lanes {
            // Even an empty lane is looked at now and then, for duplicates and late answers: by `tick`.
            if lane.outstanding().waiting() > 0 {
                received += account(lane.receive(&mut self.shared), &mut self.shared.tally, self.plan)?;
            }
        }
        Ok(received)
    }

    fn send(&mut self, now_ns: u64) -> Result<usize, String> {
        if self.stop_ns.is_some() {
            return Ok(0);
        }
        match self.plan.pacing {
            Pacing::Outstanding { queries, time_ns } => self.send_closed(now_ns, queries, time_ns),
            _ => self.send_open(now_ns),
        }
    }

    fn send_closed(&mut self, now_ns: u64, queries: usize, time_ns: u64) -> Result<usize, String> {
        if now_ns >= time_ns + self.plan.warm_ns || self.limit == 0 {
            self.stop_ns = Some(now_ns);
            return Ok(0);
        }
        let lanes = self.lanes.len();
        let mut sent = 0;
        for (i, lane) in self.lanes.iter_mut().enumerate() {
            let share = queries / lanes + usize::from(i < queries % lanes);
            let free = share.saturating_sub(lane.outstanding().waiting()).min(lane.room()).min(BATCH);
            let free = (free as u64).min(self.limit) as usize;
            if free > 0 {
                let dues = [self.shared.clock.now_ns(); BATCH];
                let n = account(lane.send(&dues[..free], &mut self.shared), &mut self.shared.tally, self.plan)?;
                self.limit -= n as u64;
                sent += n;
            }
        }
        Ok(sent)
    }

    /// Sends all that is due by now, a batch from each lane in turn.
    fn send_open(&mut self, now_ns: u64) -> Result<usize, String> {
        let mut sent = 0;
        for _ in 0..self.lanes.len() {
            self.take_due(now_ns);
            if self.held.is_empty() {
                break;
            }
            let turn = self.turn;
            self.turn = if turn + 1 == self.lanes.len() { 0 } else { turn + 1 };
            let lane = &mut self.lanes[turn];
            let n = account(lane.send(&self.held, &mut self.shared), &mut self.shared.tally, self.plan)?;
            self.held.drain(..n);
            self.limit -= n as u64;
            sent += n;
        }
        if self.limit == 0 || self.held.is_empty() && self.due.peek().is_none() {
            self.stop_ns = Some(now_ns.max(self.end_ns()));
        } else if now_ns > self.end_ns() {
            self.leave_unsent(now_ns);
        }
        Ok(sent)
    }

    fn end_ns(&self) -> u64 {
        match &self.due {
            Due::Clockwork(clockwork) if self.limit > 0 => clockwork.schedule().length_ns(),
            Due::Times { times_ns, factor, .. } if self.limit > 0 => {
                times_ns.last().map_or(0, |t| (*t as f64 / *factor) as u64)
            }
            _ => 0,
        }
    }

    /// The schedule is over and something was never sent. A little more time is given, so that the last few, due at the
    /// very end, are no exception in every run.
    fn leave_unsent(&mut self, now_ns: u64) {
        if now_ns < self.end_ns() + TICK_NS {
            return;
        }
        self.held.drain(..).for_each(|due_ns| self.shared.tally.unsent(due_ns));
        while let Some(due_ns) = self.due.peek() {
            self.shared.tally.unsent(due_ns);
            self.due.advance();
        }
        self.stop_ns = Some(now_ns);
    }

    #[inline]
    fn take_due(&mut self, now_ns: u64) {
        while (self.held.len() as u64) < self.limit.min(BATCH as u64)
            && let Some(due_ns) = self.due.peek().filter(|due| *due <= now_ns)
        {
            self.held.push(due_ns);
            self.due.advance();
        }
    }

    /// Nothing to do: spins while the next query is near, sleeps while it is far.
    fn rest(&mut self, now_ns: u64) {
        let idle_since_ns = *self.idle_since_ns.get_or_insert(now_ns);
        let at_most_ns = match (self.stop_ns, self.due.peek()) {
            (None, Some(due_ns)) => due_ns.saturating_sub(now_ns + WAKE_NS).min(TICK_NS),
            _ if now_ns - idle_since_ns > SPIN_NS => 1_000_000,
            _ => 0,
        };
        if at_most_ns > 20_000 {
            let fds = self.lanes.iter().filter_map(|lane| lane.fd());
            // A wait that fails is a turn that spins.
            let _ = wait(fds, Duration::from_nanos(at_most_ns));
        }
    }

    /// Before a query is given up, all that waits at its socket is heard: an answer that came in time must not be taken
    /// for a late one because the tool was held up.
    fn hear_out(&mut self, until_ns: u64) -> Result<(), String> {
        for lane in &mut self.lanes {
            let mut heard = account(lane.receive(&mut self.shared), &mut self.shared.tally, self.plan)?;
            let mut left = HEARD_OUT_MAX;
            while heard > 0 && left > 0 && lane.outstanding().is_overdue(until_ns) {
                left = left.saturating_sub(heard);
                heard = account(lane.receive(&mut self.shared), &mut self.shared.tally, self.plan)?;
            }
        }
        Ok(())
    }

    fn tick(&mut self, now_ns: u64, watcher: &mut dyn Watcher) -> Result<(), String> {
        let until_ns = now_ns.saturating_sub(self.plan.timeout_ns);
        self.hear_out(until_ns)?;
        self.give_up(until_ns);
        self.shared.tally.close_until(now_ns);
        if watcher.stop() && self.stop_ns.is_none() {
            (self.stop_ns, self.stopped) = (Some(now_ns), true);
        }
        if watcher.looks() && now_ns >= self.shown_ns + SHOW_NS {
            self.shown_ns = now_ns;
            let glimpse = self.glimpse(now_ns);
            watcher.show(glimpse);
        }
        Ok(())
    }

    fn give_up(&mut self, until_ns: u64) {
        for lane in &mut self.lanes {
            let tally = &mut self.shared.tally;
            lane.outstanding().give_up(until_ns, |query| tally.gave_up(query));
        }
    }

    fn glimpse(&mut self, now_ns: u64) -> Glimpse {
        let waiting = self.waiting();
        let tally = &self.shared.tally;
        let whole = ((now_ns / tally.slice_ns()) as usize).min(tally.fine.len());
        let slices = (1_000_000_000 / tally.slice_ns()) as usize;
        let recent = tally.fine[whole.saturating_sub(slices)..whole].to_vec();
        Glimpse { at_ns: now_ns, waiting, recent, latency: tally.recent_latency(now_ns, slices) }
    }
}

/// Errors of a socket are counted; a target that only refuses ends the run.
fn account(result: io::Result<usize>, tally: &mut Tally, plan: &Plan) -> Result<usize, String> {
    let error = match result {
        Ok(n) => return Ok(n),
        Err(e) => e,
    };
    if error.kind() == io::ErrorKind::ConnectionRefused {
        tally.counts.refused += 1;
        if tally.counts.received == 0 && tally.counts.refused >= REFUSALS_MAX {
            return Err(format!("{} refuses: nothing listens there", plan.target));
        }
    } else {
        tally.counts.socket_errors += 1;
        if tally.counts.received == 0 && tally.counts.socket_errors >= REFUSALS_MAX {
            return Err(format!("{} cannot be reached: {error}", plan.target));
        }
    }
    Ok(0)
}
