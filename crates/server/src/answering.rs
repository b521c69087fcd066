//! The threads that answer: each owns a worker and hands it what the sockets bring.
//!
//! Never waits for anything but its sockets, nor for the holder of a lock (`queue`, `front::published`), logs nothing while all is well.

pub(crate) mod later;
pub(crate) mod panics;
pub(crate) mod queue;

use crate::clock::Clock;
use crate::images::serving::reach;
use crate::stall::{Cause, Meter};
use crate::transfers::valve::Valve;
use cache::Cache;
use front::{Datagrams, Now, Peer, Postponed, Presence, Published, Ticket, Verdict, Way, Worker, Zones};
use later::{Desk, Mailbox, Mailboxes};
use net::Turn;
use net::sched::{Precedence, Rank};
use net::tcp::{self, Answer, Messages, Origin, Piece, TcpEvent, TcpLimits};
use net::udp::{Batch, Return, Sent, UdpPort};
use net::udp_loop::{self, Batches};
use panics::Panics;
use stats::{Counter, Counters};
use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use store::Stretch;
use transfer::tsig::Keys;

/// Batches that a socket may still have answered when the server stops: what had arrived by then, within reason.
const DRAINED_MAX: usize = 64;
/// How long an answer that is owed over UDP may still take when the server stops: as long as over TCP.
pub const OWED_FOR: Duration = Duration::from_secs(1);
/// Packets of one batch that may make a worker panic, each by itself; what comes after them is dropped. A new worker
/// takes memory for its tables, which must not happen 32 times a batch.
const PANICS_PER_BATCH_MAX: usize = 2;

/// What all answering threads share.
#[derive(Clone)]
pub struct Shared {
    /// Those of `[[key]]`.
    pub keys: Arc<Published<Keys>>,
    /// Of the zones that come from others.
    pub presence: Arc<Published<Presence>>,
    pub published: Arc<Published<Zones<Stretch>>>,
    pub clock: Clock,
    pub stop: Arc<AtomicBool>,
    pub panics: Arc<Panics>,
    /// Where answers to postponed questions are posted.
    pub mailboxes: Arc<Mailboxes>,
    /// Who works on postponed questions. None: they are dropped.
    pub desk: Option<Arc<dyn Desk>>,
    /// None: we do not resolve.
    pub cache: Option<Arc<Cache>>,
}

impl Shared {
    /// What is cached of names that we have the say about now is not to be found. `served`: fingerprint of the zones; `may_delegate_less`: than those
    /// before, whatever their fingerprint was.
    pub fn govern(&self, served: u64, may_delegate_less: bool) {
        let Some(cache) = &self.cache else { return };
        if may_delegate_less {
            cache.next_generation();
        }
        cache.govern(reach(served, &self.published.current().0.unserved, &self.presence.current().0));
    }
}

/// Who answers: the worker, or in tests one that fails on purpose.
pub trait Answers {
    /// Behind `on_idle`.
    fn on_batch(&mut self, now: Now, batch: &mut impl Datagrams);
    fn on_message(&mut self, now: Now, peer: Peer, ticket: Ticket, buffer: &mut [u8], len: usize) -> Verdict;
    fn next_postponed(&mut self) -> Option<Postponed>;
    /// True: it went over to something new.
    fn on_idle(&mut self) -> bool;
    /// The room of a postponed message comes back.
    fn keep_room(&mut self, _room: Vec<u8>) {}
}

impl Answers for Worker<Stretch> {
    #[inline]
    fn on_batch(&mut self, now: Now, batch: &mut impl Datagrams) {
        Worker::answer_batch(self, now, batch);
    }

    #[inline]
    fn on_message(&mut self, now: Now, peer: Peer, ticket: Ticket, buffer: &mut [u8], len: usize) -> Verdict {
        Worker::on_message(self, now, peer, ticket, buffer, len)
    }

    #[inline]
    fn next_postponed(&mut self) -> Option<Postponed> {
        Worker::next_postponed(self)
    }

    fn on_idle(&mut self) -> bool {
        Worker::on_idle(self)
    }

    fn keep_room(&mut self, room: Vec<u8>) {
        Worker::keep_room(self, room);
    }
}

/// One thread's worker, and how to make another should it panic.
pub struct Answering<W> {
    shared: Shared,
    counters: Arc<Counters>,
    mailbox: Mailbox,
    meter: Meter,
    /// None: the thread may not go before others.
    precedence: Option<Precedence>,
    /// At the beginning of this turn.
    now: Now,
    /// Datagrams that somebody works on for a client who waits.
    owed: usize,
    /// Answers over TCP that go on when what was sent of them is taken: as many as there are transfers under way.
    fed: Vec<(tcp::Ticket, Arc<Valve>)>,
    /// Since the last mark of the meter, answers that had not been ready were sent.
    has_sent_later: bool,
    make: Box<dyn Fn() -> W + Send>,
    worker: W,
    /// The batch as it came, from the first panic on: an answer takes its query's place, and to copy every query for the
    /// sake of one that may never come would cost all of them.
    copies: Option<Vec<Vec<u8>>>,
}

impl<W: Answers> Answering<W> {
    pub fn new(
        shared: Shared,
        counters: Arc<Counters>,
        mailbox: Mailbox,
        meter: Meter,
        make: impl Fn() -> W + Send + 'static,
    ) -> Answering<W> {
        let (now, worker) = (shared.clock.now(), make());
        let (make, copies, owed, fed, has_sent_later) = (Box::new(make), None, 0, Vec::new(), false);
        let precedence = None;
        Answering { shared, counters, mailbox, meter, precedence, now, owed, fed, has_sent_later, make, worker, copies }
    }

    /// The calling thread is the one that answers; None: it does not go before others.
    fn settle(&mut self, rank: Option<Rank>) {
        self.meter.turns().are_mine();
        self.precedence = rank.and_then(|rank| Precedence::take(rank, self.shared.clock.mono_ns()));
    }

    fn begin_turn(&mut self) {
        self.now = self.shared.clock.now();
        self.meter.begin(self.now.mono_ns);
    }

    /// To what was published, if it is new: where that is done, or it would be told as something else. Returns when it was done.
    #[inline]
    fn go_over(&mut self) -> Option<u64> {
        self.worker.on_idle().then(|| {
            let now_ns = self.shared.clock.mono_ns();
            self.meter.mark(Cause::Publication, now_ns);
            now_ns
        })
    }

    /// What was done since the last mark is over; and the turn, unless there is something new to go over to.
    fn end_turn(&mut self, doing: Cause) -> Turn {
        let now_ns = self.shared.clock.mono_ns();
        self.meter.mark(doing, now_ns);
        let now_ns = self.go_over().unwrap_or(now_ns);
        let took_ns = self.meter.end(now_ns, net::sched::usage);
        self.precedence.iter_mut().for_each(|precedence| precedence.weigh(took_ns.unwrap_or(0), now_ns));
        self.counters.add(Counter::LaterLost, self.mailbox.lost());
        if self.shared.stop.load(Relaxed) { Turn::Stop } else { Turn::Go }
    }

    /// The worker's state may be anything now; the packet may be at fault.
    #[cold]
    fn recover(&mut self, at_fault: Option<&[u8]>) {
        self.counters.count(Counter::Panics);
        if let Some(packet) = at_fault {
            self.counters.count(Counter::DropPanic);
            self.shared.panics.save(packet);
        }
        self.pass_on();
        self.worker = (self.make)();
    }

    /// Hands postponed questions to whoever works on them; how many were dropped.
    #[inline]
    fn pass_on(&mut self) -> u64 {
        let (mut dropped, mut any) = (0, false);
        while let Some(question) = self.worker.next_postponed() {
            any = true;
            let is_owed = matches!(question.ticket.way, Way::Datagram { .. }) && !question.message.is_empty();
            let is_taken = self.shared.desk.as_ref().is_some_and(|desk| desk.take(question));
            dropped += u64::from(!is_taken);
            self.owed += usize::from(is_taken && is_owed);
            self.counters.count(if is_taken { Counter::Postponed } else { Counter::DropBusy });
        }
        self.shared.desk.iter().filter(|_| any).for_each(|desk| desk.ring());
        dropped
    }

    pub fn serve_udp(mut self, ports: &[UdpPort], rank: Option<Rank>) -> io::Result<()> {
        let (mut batch, wake) = (Batch::new(net::udp::BATCH), Arc::clone(&self.mailbox.wake));
        self.settle(rank);
        udp_loop::serve(ports, &wake, &mut batch, &mut self)?;
        self.begin_turn();
        for (i, port) in ports.iter().enumerate() {
            for _ in 0..DRAINED_MAX {
                if port.recv(&mut batch, false)? == 0 {
                    break;
                }
                self.on_batch(i, &mut batch);
                let sent = port.send(&mut batch);
                self.on_sent(sent);
            }
        }
        udp_loop::send_owed(ports, &wake, &mut self, OWED_FOR)
    }

    pub fn serve_tcp(mut self, listeners: &[TcpListener], limits: &TcpLimits, rank: Option<Rank>) -> io::Result<()> {
        let wake = Arc::clone(&self.mailbox.wake);
        self.settle(rank);
        tcp::serve(listeners, limits, &wake, &mut self)
    }

    /// Answers a batch, or its packet `only`. Err: it panicked; how many had their answer, and which was being written.
    #[inline]
    fn answer(&mut self, now: Now, port: usize, batch: &mut Batch, only: Option<usize>) -> Result<(), Stopped> {
        let (first, len) = only.map_or((0, batch.len()), |i| (i, 1));
        let mut packets = Packets { batch, mailbox: &self.mailbox, port, first, len, answered: 0, begun: None };
        let done = catch_unwind(AssertUnwindSafe(|| self.worker.on_batch(now, &mut packets)));
        done.map_err(|_| Stopped { answered: packets.answered, begun: packets.begun })
    }

    /// After a panic: a new worker takes the packets that had no answer yet one by one, so that they suffer neither from
    /// the one at fault nor from each other.
    #[cold]
    fn answer_rest(&mut self, now: Now, port: usize, batch: &mut Batch, stopped: Stopped) {
        (stopped.answered..batch.len()).for_each(|i| batch.set_reply(i, 0));
        if let Some(copies) = &self.copies {
            (stopped.answered..batch.len())
                .for_each(|i| batch.packet(i).0[..copies[i].len()].copy_from_slice(&copies[i]));
        }
        let at_fault = stopped.begun.map(|i| octets(batch, i));
        self.recover(at_fault.as_deref());
        let mut panics = 0;
        for i in (stopped.answered..batch.len()).filter(|&i| Some(i) != stopped.begun) {
            let copy = octets(batch, i);
            if panics == PANICS_PER_BATCH_MAX {
                self.counters.count(Counter::DropPanic);
            } else if self.answer(now, port, batch, Some(i)).is_err() {
                batch.set_reply(i, 0);
                self.recover(Some(&copy));
                panics += 1;
            }
        }
        self.copies.get_or_insert_default();
    }
}

/// How far a batch came.
struct Stopped {
    /// So many had their answer: it is given to them in their order.
    answered: usize,
    /// The one whose answer was being written over it.
    begun: Option<usize>,
}

fn octets(batch: &mut Batch, i: usize) -> Vec<u8> {
    let (buffer, len) = batch.packet(i);
    buffer[..len.min(buffer.len())].to_vec()
}

/// A batch, or one packet of it, as the worker sees it.
struct Packets<'a> {
    batch: &'a mut Batch,
    mailbox: &'a Mailbox,
    port: usize,
    first: usize,
    len: usize,
    answered: usize,
    begun: Option<usize>,
}

impl Datagrams for Packets<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn peer(&self, i: usize) -> Peer {
        let (ip, port) = self.batch.peer_ip_port(self.first + i);
        Peer { ip, port }
    }

    fn ticket(&self, i: usize) -> Ticket {
        self.mailbox.datagram(self.port, self.batch.way_back(self.first + i))
    }

    #[inline]
    fn packet(&mut self, i: usize) -> (&mut [u8], usize) {
        self.batch.packet(self.first + i)
    }

    #[inline]
    fn room(&mut self, i: usize) -> (&mut [u8], usize) {
        self.begun = Some(i);
        self.batch.packet(self.first + i)
    }

    #[inline]
    fn set_reply(&mut self, i: usize, len: usize) {
        self.batch.set_reply(self.first + i, len);
        (self.answered, self.begun) = (i + 1, None);
    }
}

impl<W: Answers> Batches for Answering<W> {
    fn on_wake(&mut self) {
        self.begin_turn();
    }

    fn on_batch(&mut self, port: usize, batch: &mut Batch) {
        let now = Now { mono_ns: self.shared.clock.mono_ns(), ..self.now };
        self.meter.mark(Cause::Socket, now.mono_ns);
        self.meter.take(batch.len());
        self.go_over();
        if let Some(copies) = &mut self.copies {
            copies.clear();
            copies.extend((0..batch.len()).map(|i| octets(batch, i)));
        }
        if let Err(stopped) = self.answer(now, port, batch, None) {
            self.answer_rest(now, port, batch, stopped);
        }
        self.pass_on();
        self.meter.mark(Cause::Answer, self.shared.clock.mono_ns());
    }

    fn on_sent(&mut self, sent: Sent) {
        if sent.failed > 0 {
            self.counters.add(Counter::SendFailed, sent.failed as u64);
        }
    }

    fn next_later(&mut self, buffer: &mut [u8]) -> Option<(usize, Return, usize)> {
        loop {
            let letter = self.mailbox.next()?;
            let Way::Datagram { port, peer, asked, interface } = letter.way else { continue };
            let len = letter.put(buffer);
            self.worker.keep_room(letter.message);
            self.owed = self.owed.saturating_sub(1);
            if len > 0 {
                if !std::mem::replace(&mut self.has_sent_later, true) {
                    self.meter.mark(Cause::Socket, self.shared.clock.mono_ns());
                }
                return Some((usize::from(port), Return { peer, asked, interface }, len));
            }
        }
    }

    fn owes(&self) -> bool {
        self.owed > 0
    }

    fn on_turn(&mut self) -> Turn {
        let doing = if std::mem::take(&mut self.has_sent_later) { Cause::Later } else { Cause::Socket };
        self.end_turn(doing)
    }
}

impl<W: Answers> Messages for Answering<W> {
    fn on_wake(&mut self) {
        self.begin_turn();
        self.go_over();
    }

    fn on_message(&mut self, from: &Origin<'_>, buffer: &mut [u8], len: usize) -> Answer {
        self.meter.take(1);
        let now = self.now;
        let peer = Peer { ip: from.peer.ip(), port: from.peer.port() };
        let ticket = self.mailbox.stream(from.ticket);
        match catch_unwind(AssertUnwindSafe(|| self.worker.on_message(now, peer, ticket, buffer, len))) {
            Ok(Verdict::Reply(len)) => {
                self.pass_on();
                Answer::Reply(len)
            }
            Ok(Verdict::Drop) => Answer::Close,
            Ok(Verdict::Later) if self.pass_on() == 0 => Answer::Later,
            Ok(Verdict::Later) => Answer::Silence,
            Err(_) => {
                self.recover(Some(from.message));
                Answer::Close
            }
        }
    }

    fn next_later(&mut self, buffer: &mut [u8]) -> Option<Piece> {
        loop {
            let letter = self.mailbox.next()?;
            if let Way::Stream(ticket) = letter.way {
                let piece =
                    Piece { ticket: tcp::Ticket(ticket), len: letter.put(buffer), is_last: letter.more.is_none() };
                self.fed.extend(letter.more.map(|valve| (piece.ticket, valve)));
                return Some(piece);
            }
        }
    }

    fn on_taken(&mut self, ticket: tcp::Ticket) {
        self.fed.extract_if(.., |(of, _)| *of == ticket).for_each(|(_, valve)| valve.open());
    }

    fn on_gone(&mut self, ticket: tcp::Ticket) {
        self.fed.extract_if(.., |(of, _)| *of == ticket).for_each(|(_, valve)| valve.end());
    }

    fn on_event(&mut self, event: TcpEvent) {
        let which = match event {
            TcpEvent::Accepted => Counter::TcpAccepted,
            TcpEvent::RefusedTotal | TcpEvent::Exhausted => Counter::TcpRefusedFull,
            TcpEvent::RefusedPeer => Counter::TcpRefusedPeer,
            TcpEvent::Idle => Counter::TcpIdle,
            TcpEvent::Slow => Counter::TcpSlow,
            TcpEvent::Broken => Counter::TcpBroken,
            TcpEvent::Unanswered => Counter::TcpUnanswered,
            TcpEvent::AnswerLost => Counter::LaterLost,
            TcpEvent::Closed => return,
        };
        self.counters.count(which);
    }

    fn on_turn(&mut self) -> Turn {
        self.end_turn(Cause::Streams)
    }
}

#[cfg(test)]
mod tests;
