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
mod tests {
    use super::*;
    use crate::config::{Folders, without_file};
    use crate::history::Recorder;
    use crate::images::Library;
    use crate::images::serving;
    use crate::patience::{PATIENCE, eventually};
    use crate::stall::{self, Turns};
    use front::Setup;
    use net::udp::RECV_BUFFER;
    use sim::message;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream, UdpSocket};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Condvar, Mutex};
    use std::thread::JoinHandle;
    use wire::Name;

    const GOOD: &str = "www.example.com";
    /// The worker of these tests panics when it has written the answer to this.
    const BAD: &str = "panic.example.com";

    /// It does not go on with the answer to this before the test lets it.
    const STALLED: &str = "stall.example.com";

    struct Fragile(Worker<Stretch>, Arc<Gate>);

    #[derive(Default)]
    struct Gate {
        is_open: Mutex<bool>,
        bell: Condvar,
    }

    impl Gate {
        fn open(&self) {
            *self.is_open.lock().unwrap() = true;
            self.bell.notify_all();
        }

        fn wait(&self) {
            let is_shut = |is_open: &mut bool| !*is_open;
            drop(self.bell.wait_while(self.is_open.lock().unwrap(), is_shut).unwrap());
        }
    }

    /// Keeps what it is given, up to two questions, until the test answers them.
    #[derive(Default)]
    struct Waiting(Mutex<Vec<Postponed>>);

    impl Desk for Waiting {
        fn take(&self, question: Postponed) -> bool {
            let mut all = self.0.lock().unwrap();
            let has_room = all.len() < 2;
            if has_room {
                all.push(question);
            }
            has_room
        }
    }

    fn trip(buffer: &[u8], gate: &Gate) {
        assert!(!buffer.windows(6).any(|w| w == b"\x05panic"), "on purpose");
        if buffer.windows(6).any(|w| w == b"\x05stall") {
            gate.wait();
        }
    }

    struct Tripwire<'a, D>(&'a mut D, &'a Gate);

    impl<D: Datagrams> Datagrams for Tripwire<'_, D> {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn peer(&self, i: usize) -> Peer {
            self.0.peer(i)
        }
        fn ticket(&self, i: usize) -> Ticket {
            self.0.ticket(i)
        }
        fn packet(&mut self, i: usize) -> (&mut [u8], usize) {
            self.0.packet(i)
        }
        fn room(&mut self, i: usize) -> (&mut [u8], usize) {
            self.0.room(i)
        }
        fn set_reply(&mut self, i: usize, len: usize) {
            trip(&self.0.packet(i).0[..len], self.1);
            self.0.set_reply(i, len);
        }
    }

    impl Answers for Fragile {
        fn on_batch(&mut self, now: Now, batch: &mut impl Datagrams) {
            self.0.on_batch(now, &mut Tripwire(batch, &self.1));
        }
        fn on_message(&mut self, now: Now, peer: Peer, ticket: Ticket, buffer: &mut [u8], len: usize) -> Verdict {
            let verdict = self.0.on_message(now, peer, ticket, buffer, len);
            trip(&buffer[..len], &self.1);
            verdict
        }
        fn next_postponed(&mut self) -> Option<Postponed> {
            self.0.next_postponed()
        }
        fn on_idle(&mut self) -> bool {
            self.0.on_idle()
        }
    }

    /// An answering thread with a fragile worker, its one zone in a folder of its own.
    struct Stage {
        folder: PathBuf,
        shared: Shared,
        counters: Arc<Counters>,
        made: Arc<AtomicUsize>,
        desk: Arc<Waiting>,
        gate: Arc<Gate>,
        turns: Arc<Turns>,
        mailbox: Option<Mailbox>,
        thread: Option<JoinHandle<io::Result<()>>>,
    }

    impl Stage {
        fn new(name: &str) -> Stage {
            let folder = std::env::temp_dir().join(format!("dunlin-{name}-{}", std::process::id()));
            std::fs::create_dir_all(folder.join("zones")).unwrap();
            let zone = "$TTL 300\n@ SOA ns1 hostmaster 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\nwww A 192.0.2.2\n";
            std::fs::write(folder.join("zones/example.com.zone"), zone).unwrap();
            let zones = Stage::zones(&folder);
            let (mailboxes, mut boxes) = Mailboxes::new(1).unwrap();
            let desk = Arc::<Waiting>::default();
            let shared = Shared {
                keys: Arc::new(Published::new(Keys::default())),
                presence: Arc::new(Published::new(Presence::default())),
                published: Arc::new(Published::new(zones)),
                clock: Clock::new(),
                stop: Arc::default(),
                panics: Arc::new(Panics::start(folder.clone()).unwrap()),
                mailboxes: Arc::new(mailboxes),
                desk: Some(Arc::<Waiting>::clone(&desk)),
                cache: None,
            };
            let mailbox = boxes.pop();
            let turns = Arc::new(Turns::new(name.into()));
            let (counters, made, gate) = (Arc::default(), Arc::default(), Arc::default());
            Stage { folder, shared, counters, made, desk, gate, turns, mailbox, thread: None }
        }

        fn zones(folder: &Path) -> Zones<Stretch> {
            let folders = Folders { data: folder.into(), runtime: folder.into() };
            let config = without_file(&folders, Some(&folder.join("zones")));
            let mut recorder = Recorder::new(folder, config.history);
            serving::first(&Library::open(folder).unwrap(), &config, &mut recorder).unwrap().0
        }

        /// Has the same zones published once more.
        fn publish(&self) {
            drop(self.shared.published.publish(Stage::zones(&self.folder)));
        }

        /// What the meter tells.
        fn told(&self) -> String {
            stall::json(&[Arc::clone(&self.turns)], self.shared.clock.mono_ns(), 0).to_string()
        }

        /// In so many turns the meter has seen this being done.
        fn done(&self, cause: Cause) -> u64 {
            let (told, doing) = (self.told(), format!("\"doing\":\"{}\",\"count\":", cause.name()));
            let count = told.split_once(&doing).unwrap().1.split_once(',').unwrap().0;
            count.parse().unwrap()
        }

        fn start(&mut self, serve: impl FnOnce(Answering<Fragile>) -> io::Result<()> + Send + 'static) {
            let (published, counters) = (Arc::clone(&self.shared.published), Arc::clone(&self.counters));
            let (made, gate) = (Arc::clone(&self.made), Arc::clone(&self.gate));
            let make = move || {
                made.fetch_add(1, Relaxed);
                let setup = Setup { takes_updates: true, ..Setup::default() };
                Fragile(Worker::new(Arc::clone(&published), setup, Arc::clone(&counters)), Arc::clone(&gate))
            };
            let mailbox = self.mailbox.take().unwrap();
            let meter = Meter::new(Arc::clone(&self.turns));
            let answering = Answering::new(self.shared.clone(), Arc::clone(&self.counters), mailbox, meter, make);
            self.thread = Some(std::thread::spawn(move || serve(answering)));
        }

        #[track_caller]
        fn panicked(&self, times: u64) {
            eventually(|| self.counters.value(Counter::Panics) == times);
            eventually(|| self.made.load(Relaxed) as u64 == times + 1);
        }

        /// What was kept of the n-th panic, once it is.
        fn kept(&self, n: usize, len: usize) -> Vec<u8> {
            let path = self.folder.join(format!("panic-{}-{n}.packet", std::process::id()));
            eventually(|| std::fs::metadata(&path).is_ok_and(|m| m.len() == len as u64));
            std::fs::read(path).unwrap()
        }

        /// Wakes the only thread, with an answer for nobody.
        fn ring(&self) {
            self.shared.mailboxes.post(Ticket { thread: 0, way: Way::Stream(u64::MAX) }, Vec::new());
        }

        /// The question that was put off first, once it was.
        fn postponed(&self) -> Postponed {
            eventually(|| !self.desk.0.lock().unwrap().is_empty());
            self.desk.0.lock().unwrap().remove(0)
        }

        fn end(self) {
            self.shared.stop.store(true, Relaxed);
            self.ring();
            self.thread.unwrap().join().unwrap().unwrap();
            let kept = || std::fs::read_dir(&self.folder).unwrap().flatten().filter(|f| f.path().extension().is_some());
            eventually(|| kept().count() as u64 == self.counters.value(Counter::Panics));
            std::fs::remove_dir_all(&self.folder).unwrap();
        }
    }

    fn query(id: u8, name: &str) -> Vec<u8> {
        let name = Name::from_text(name.as_bytes(), Some(&Name::ROOT)).unwrap();
        let mut packet = message::packet(name.bytes(), wire::rtype::A, None);
        packet[..2].copy_from_slice(&[0, id]);
        packet
    }

    /// An answer to the query of this number, with one record.
    fn is_answer(octets: &[u8], id: u8) -> bool {
        octets.len() > 12 && octets[1] == id && octets[2] & 0x80 != 0 && octets[3] & 15 == 0 && octets[7] == 1
    }

    struct Asker(UdpSocket);

    impl Asker {
        fn of(port: &UdpPort) -> Asker {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.connect(port.local_addr()).unwrap();
            Asker(client)
        }
        fn send(&self, packet: &[u8]) {
            assert_eq!(self.0.send(packet).unwrap(), packet.len());
        }
        fn hears(&self) -> Vec<u8> {
            let mut answer = [0; 512];
            let n = self.0.recv(&mut answer).unwrap();
            answer[..n].to_vec()
        }
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn ask(mut stream: &TcpStream, packet: &[u8]) {
        stream.write_all(&[&(packet.len() as u16).to_be_bytes(), packet].concat()).unwrap();
    }

    fn answered(mut stream: &TcpStream, id: u8) -> bool {
        let mut len = [0; 2];
        stream.read_exact(&mut len).unwrap();
        let mut answer = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut answer).unwrap();
        is_answer(&answer, id)
    }

    fn udp_port() -> UdpPort {
        UdpPort::bind("127.0.0.1:0".parse().unwrap(), RECV_BUFFER).unwrap()
    }

    #[test]
    fn a_panic_costs_its_packet_and_nothing_else() {
        let mut stage = Stage::new("fragile-udp");
        let port = udp_port();
        let client = Asker::of(&port);
        // Before anybody reads, so that they are one batch.
        let batch = [query(1, GOOD), query(2, BAD), query(3, GOOD)];
        batch.iter().for_each(|q| client.send(q));
        stage.start(move |answering| answering.serve_udp(&[port], Some(Rank::Datagrams)));
        for id in [1, 3] {
            assert!(is_answer(&client.hears(), id));
        }
        stage.panicked(1);
        let bad = &batch[1];
        assert_eq!(stage.kept(0, bad.len())[12..], bad[12..], "of the first one the question");
        for n in 1..3 {
            client.send(&query(4, GOOD));
            client.send(bad);
            client.send(&query(5, GOOD));
            assert!(is_answer(&client.hears(), 4) && is_answer(&client.hears(), 5));
            stage.panicked(n + 1);
            assert_eq!(stage.kept(n as usize, bad.len()), *bad, "of every other one all");
        }
        assert_eq!(stage.counters.value(Counter::DropPanic), 3);
        stage.end();
    }

    #[test]
    fn a_batch_of_packets_that_panic_does_not_make_a_worker_for_each() {
        let mut stage = Stage::new("fragile-many");
        let port = udp_port();
        let client = Asker::of(&port);
        (0..10).for_each(|id| client.send(&query(id, BAD)));
        stage.start(move |answering| answering.serve_udp(&[port], Some(Rank::Datagrams)));
        let (panics, dropped) = (1 + PANICS_PER_BATCH_MAX as u64, 10);
        stage.panicked(panics);
        eventually(|| stage.counters.value(Counter::DropPanic) == dropped);
        client.send(&query(11, GOOD));
        assert!(is_answer(&client.hears(), 11));
        stage.end();
    }

    /// An update whose answer the desk decides.
    fn update(id: u8) -> Vec<u8> {
        let mut packet = query(id, "example.com");
        packet[2] |= 5 << 3;
        let type_at = packet.len() - 4;
        packet[type_at + 1] = 6;
        packet
    }

    #[test]
    fn a_datagram_may_be_answered_later_and_others_meanwhile() {
        let mut stage = Stage::new("later-udp");
        let port = udp_port();
        let client = Asker::of(&port);
        stage.start(move |answering| answering.serve_udp(&[port], Some(Rank::Datagrams)));
        client.send(&update(1));
        client.send(&query(2, GOOD));
        assert!(is_answer(&client.hears(), 2));
        let question = stage.postponed();
        assert_eq!(*question.message, update(1), "as it came");
        assert_eq!(stage.done(Cause::Later), 0);
        stage.shared.mailboxes.post(question.ticket, b"later"[..].into());
        assert_eq!(client.hears(), b"later");
        eventually(|| stage.done(Cause::Later) == 1);
        // The desk has room for two.
        (3..6).for_each(|id| client.send(&update(id)));
        eventually(|| stage.counters.value(Counter::DropBusy) == 1);
        assert_eq!((stage.postponed().message[1], stage.postponed().message[1]), (3, 4), "in their order");
        assert_eq!(stage.counters.value(Counter::Postponed), 3);
        // What is owed when the server stops is waited for.
        client.send(&update(6));
        let question = stage.postponed();
        stage.shared.stop.store(true, Relaxed);
        stage.ring();
        stage.shared.mailboxes.post(question.ticket, b"at last"[..].into());
        assert_eq!(client.hears(), b"at last");
        stage.end();
    }

    /// By a thread that is watched as the server watches its own.
    #[test]
    fn a_thread_that_does_not_come_to_an_end_is_told_of_with_where_it_is() {
        let mut stage = Stage::new("stalled");
        let port = udp_port();
        let client = Asker::of(&port);
        stage.start(move |answering| answering.serve_udp(&[port], Some(Rank::Datagrams)));
        let (all, clock) = (vec![Arc::clone(&stage.turns)], stage.shared.clock);
        let stacks = net::stack::Stacks::new(1).unwrap();
        std::thread::spawn(move || stall::watch(all, clock, stacks, |_| {}));
        client.send(&query(1, GOOD));
        assert!(is_answer(&client.hears(), 1));
        client.send(&query(2, STALLED));
        // While it lasts; and of which function is no matter here. A busy machine may bring about others.
        let has_stack = |told: &str| told.contains("\"stack\":[\"");
        let under_way = |told: &str| told.split_once("\"under_way\":").unwrap().1.to_string();
        eventually(|| has_stack(&under_way(&stage.told())));
        stage.gate.open();
        assert_eq!(client.hears()[1], 2);
        let latest = |told: &str| {
            let latest = told.split_once("\"latest\":").unwrap().1.split_once("\"latest_over_2ms\":").unwrap().0;
            latest.split("\"at\":").any(|one| one.contains("\"mostly\":\"answer\"") && has_stack(one))
        };
        eventually(|| latest(&stage.told()));
        let mut metrics = String::new();
        stall::metrics(&mut metrics, &[Arc::clone(&stage.turns)]);
        let count = metrics.split_once("\ndunlin_stalls_total ").unwrap().1.split_once('\n').unwrap().0;
        assert!(count.parse::<u64>().unwrap() >= 1, "{metrics}");
        stage.end();
    }

    #[test]
    fn going_over_to_what_was_published_is_told_as_that() {
        for is_tcp in [false, true] {
            let mut stage = Stage::new(if is_tcp { "over-tcp" } else { "over-udp" });
            let (port, listener) = (udp_port(), tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap());
            // Connected before: to accept another one is a turn of its own.
            let (udp, stream) = (Asker::of(&port), connect(listener.local_addr().unwrap()));
            let is_answered = |id| {
                if is_tcp {
                    ask(&stream, &query(id, GOOD));
                    return answered(&stream, id);
                }
                udp.send(&query(id, GOOD));
                is_answer(&udp.hears(), id)
            };
            stage.start(move |answering| match is_tcp {
                false => answering.serve_udp(&[port], Some(Rank::Datagrams)),
                true => answering.serve_tcp(&[listener], &TcpLimits::default(), Some(Rank::Streams)),
            });
            assert!(is_answered(1));
            assert_eq!(stage.done(Cause::Publication), 0);
            stage.publish();
            assert!(is_answered(2));
            eventually(|| stage.done(Cause::Publication) == 1);
            stage.end();
        }
    }

    #[test]
    fn over_tcp_a_panic_costs_its_connection_and_answers_may_come_later() {
        let mut stage = Stage::new("fragile-tcp");
        let listener = tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        stage.start(move |answering| answering.serve_tcp(&[listener], &TcpLimits::default(), Some(Rank::Streams)));
        let connect = || connect(address);
        let (good, bad) = (connect(), connect());
        ask(&good, &query(1, GOOD));
        assert!(answered(&good, 1));
        ask(&bad, &query(2, BAD));
        assert_eq!((&bad).read(&mut [0]).unwrap(), 0, "it is closed");
        stage.panicked(1);
        ask(&good, &query(3, GOOD));
        assert!(answered(&good, 3));
        let later = connect();
        ask(&later, &query(4, GOOD));
        assert!(answered(&later, 4));
        let packet = query(2, BAD);
        assert_eq!(stage.kept(0, packet.len()), packet);
        ask(&later, &update(5));
        ask(&later, &query(6, GOOD));
        assert!(answered(&later, 6), "what is ready overtakes");
        let question = stage.postponed();
        let mut answer = query(5, GOOD);
        (answer[2], answer[7]) = (0x80, 1);
        stage.shared.mailboxes.post(question.ticket, answer);
        assert!(answered(&later, 5));
        stage.end();
    }
}
