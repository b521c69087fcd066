//! Real connections over loopback, kind and hostile. No test waits a fixed time: it blocks on what must come.

use super::*;
use crate::sched;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);
const BIG: usize = 60_000;

/// Answers with the message reversed; a few messages are orders.
struct Echo(Arc<Shared>);

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    turns: AtomicUsize,
    /// Messages that were answered in the turn that is, and the most in any.
    answered: AtomicUsize,
    most_answered: AtomicUsize,
    events: Mutex<Vec<TcpEvent>>,
    /// Messages that said "later", in the order in which they came.
    owed: Mutex<Vec<Ticket>>,
    ready: Mutex<Vec<(Ticket, Vec<u8>)>>,
    /// Pieces of long answers that are still to be made, each of them `BIG`.
    pieces: AtomicUsize,
    taken: AtomicUsize,
    gone: AtomicUsize,
}

impl Messages for Echo {
    fn on_message(&mut self, from: &Origin<'_>, buffer: &mut [u8], len: usize) -> Answer {
        assert_eq!((buffer.len(), &buffer[..len]), (MESSAGE_MAX, from.message));
        self.0.answered.fetch_add(1, SeqCst);
        match &buffer[..len] {
            b"big" => {
                buffer[..BIG].fill(b'B');
                Answer::Reply(BIG)
            }
            b"silence" => Answer::Silence,
            b"close" => Answer::Close,
            b"later" => {
                self.0.owed.lock().unwrap().push(from.ticket);
                Answer::Later
            }
            b"who" => {
                let text = format!("{} {}", from.peer, from.listener);
                buffer[..text.len()].copy_from_slice(text.as_bytes());
                Answer::Reply(text.len())
            }
            _ => {
                buffer[..len].reverse();
                Answer::Reply(len)
            }
        }
    }

    fn next_later(&mut self, buffer: &mut [u8]) -> Option<Piece> {
        let (ticket, answer) = self.0.ready.lock().unwrap().pop()?;
        buffer[..answer.len()].copy_from_slice(&answer);
        let is_last = answer.len() != BIG || self.0.pieces.load(SeqCst) == 0;
        Some(Piece { ticket, len: answer.len(), is_last })
    }

    fn on_taken(&mut self, ticket: Ticket) {
        self.0.taken.fetch_add(1, SeqCst);
        self.0.pieces.fetch_sub(1, SeqCst);
        self.0.ready.lock().unwrap().push((ticket, vec![b'P'; BIG]));
    }

    fn on_gone(&mut self, _: Ticket) {
        self.0.gone.fetch_add(1, SeqCst);
    }

    fn on_event(&mut self, event: TcpEvent) {
        self.0.events.lock().unwrap().push(event);
    }

    fn on_turn(&mut self) -> Turn {
        self.0.turns.fetch_add(1, SeqCst);
        self.0.most_answered.fetch_max(self.0.answered.swap(0, SeqCst), SeqCst);
        if self.0.stop.load(SeqCst) { Turn::Stop } else { Turn::Go }
    }
}

struct Server {
    v4: SocketAddr,
    v6: SocketAddr,
    wake: Arc<Wake>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Server {
    fn start(limits: TcpLimits) -> Server {
        let listeners = ["127.0.0.1:0", "[::1]:0"].map(|a| listen(a.parse().unwrap()).unwrap());
        let [v4, v6] = [0, 1].map(|i: usize| listeners[i].local_addr().unwrap());
        let (wake, shared) = (Arc::new(Wake::new().unwrap()), Arc::<Shared>::default());
        let (bell, mut echo) = (wake.clone(), Echo(shared.clone()));
        let thread = std::thread::spawn(move || serve(&listeners, &limits, &bell, &mut echo));
        Server { v4, v6, wake, shared, thread: Some(thread) }
    }

    fn connect(&self) -> Client {
        Client::to(self.v4)
    }

    fn count(&self, event: TcpEvent) -> usize {
        self.shared.events.lock().unwrap().iter().filter(|&&e| e == event).count()
    }

    /// Waits until the server has reported an event.
    fn reported(&self, event: TcpEvent) {
        until(|| self.count(event) > 0);
    }

    /// The tickets of `n` answers that are owed, once they are.
    fn owed(&self, n: usize) -> Vec<Ticket> {
        until(|| self.shared.owed.lock().unwrap().len() >= n);
        std::mem::take(&mut self.shared.owed.lock().unwrap())
    }

    /// An answer has become ready.
    fn ready(&self, ticket: Ticket, answer: &[u8]) {
        self.shared.ready.lock().unwrap().push((ticket, answer.to_vec()));
        self.wake.ring();
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.wake.ring();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

fn until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "it did not come about");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

struct Client(TcpStream);

impl Client {
    fn to(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }

    fn send(&mut self, octets: &[u8]) {
        self.0.write_all(octets).unwrap();
    }

    fn answer(&mut self) -> Vec<u8> {
        let mut prefix = [0; 2];
        self.0.read_exact(&mut prefix).unwrap();
        let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
        self.0.read_exact(&mut message).unwrap();
        message
    }

    fn ask(&mut self, message: &[u8]) -> Vec<u8> {
        self.send(&framed(message));
        self.answer()
    }

    fn is_served(&mut self) {
        assert_eq!(self.ask(b"abc"), b"cba");
    }

    /// Blocks until the server closes; whatever else arrives is a mistake. A reset is a way to close.
    fn is_closed(&mut self) {
        match self.0.read(&mut [0; 1]) {
            Ok(0) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("{other:?} instead of the end"),
        }
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let len = u16::try_from(message.len()).unwrap();
    [&len.to_be_bytes()[..], message].concat()
}

fn roomy() -> TcpLimits {
    TcpLimits {
        idle: PATIENCE,
        message_timeout: PATIENCE,
        write_timeout: PATIENCE,
        per_peer_max: 9999,
        ..TcpLimits::default()
    }
}

#[test]
fn messages_of_all_sizes_are_answered_over_both_families() {
    let server = Server::start(roomy());
    for addr in [server.v4, server.v6] {
        let mut client = Client::to(addr);
        for len in [1, 2, 12, 511, 16_383, 16_384, 16_385, 40_000, 65_534, 65_535] {
            let message: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let mut answer = client.ask(&message);
            answer.reverse();
            assert!(answer == message, "{len}");
        }
        let who = format!("{} {}", client.0.local_addr().unwrap(), usize::from(addr.is_ipv6()));
        assert_eq!(client.ask(b"who"), who.as_bytes());
    }
}

#[test]
fn a_thousand_pipelined_messages_are_answered_in_order() {
    let server = Server::start(roomy());
    let mut client = server.connect();
    let all: Vec<u8> = (0..1000).flat_map(|i| framed(format!("message {i:04}").as_bytes())).collect();
    client.send(&all);
    for i in 0..1000 {
        let mut answer = client.answer();
        answer.reverse();
        assert_eq!(answer, format!("message {i:04}").as_bytes());
    }
}

#[test]
fn an_answer_that_is_not_ready_holds_up_none_behind_it() {
    let server = Server::start(roomy());
    let mut client = server.connect();
    client.send(&[framed(b"later"), framed(b"abc"), framed(b"later"), framed(b"def")].concat());
    assert_eq!((client.answer(), client.answer()), (b"cba".to_vec(), b"fed".to_vec()));
    let owed = server.owed(2);
    server.ready(owed[1], b"the second");
    assert_eq!(client.answer(), b"the second");
    client.is_served();
    server.ready(owed[0], b"the first");
    assert_eq!(client.answer(), b"the first");
    client.is_served();
}

#[test]
fn so_many_answers_are_owed_and_then_nothing_is_read_until_one_has_gone() {
    let server = Server::start(TcpLimits { owed_max: 3, ..roomy() });
    let (mut client, mut other) = (server.connect(), server.connect());
    client.send(&[framed(b"later").repeat(4), framed(b"abc")].concat());
    let owed = server.owed(3);
    other.is_served();
    assert_eq!(server.shared.owed.lock().unwrap().len(), 0, "the fourth is not read");
    server.ready(owed[1], b"ready");
    assert_eq!(client.answer(), b"ready");
    let fourth = server.owed(1);
    for ticket in [owed[0], owed[2], fourth[0]] {
        server.ready(ticket, b"");
    }
    assert_eq!(client.answer(), b"cba");
}

#[test]
fn an_answer_for_a_connection_that_has_gone_is_counted_and_reaches_nobody() {
    let server = Server::start(roomy());
    let mut gone = server.connect();
    gone.send(&framed(b"later"));
    let ticket = server.owed(1)[0];
    gone.send(&[framed(b"abc"), framed(b"close")].concat());
    assert_eq!(gone.answer(), b"cba");
    server.ready(ticket, b"");
    gone.is_closed();
    let mut next = server.connect();
    next.is_served();
    server.ready(ticket, b"late");
    server.reported(TcpEvent::AnswerLost);
    next.is_served();
}

#[test]
fn a_peer_that_vanishes_while_answers_are_owed_is_noticed_when_they_come() {
    let server = Server::start(roomy());
    let mut gone = server.connect();
    gone.send(&framed(b"later").repeat(2));
    let owed = server.owed(2);
    drop(gone);
    server.ready(owed[0], b"ready");
    server.reported(TcpEvent::Broken);
    server.ready(owed[1], b"ready");
    server.reported(TcpEvent::AnswerLost);
}

#[test]
fn a_peer_that_has_finished_asking_waits_for_what_is_owed() {
    let mut server = Server::start(roomy());
    let mut client = server.connect();
    client.send(&framed(b"later").repeat(2));
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    let owed = server.owed(2);
    server.ready(owed[1], b"second");
    assert_eq!(client.answer(), b"second");
    server.ready(owed[0], b"first");
    assert_eq!(client.answer(), b"first");
    client.is_closed();
    server.reported(TcpEvent::Closed);
    server.stop();
}

#[test]
fn a_connection_whose_answer_never_comes_is_closed_in_time() {
    let server = Server::start(TcpLimits { answer_timeout: SHORT, ..roomy() });
    let (mut client, mut other) = (server.connect(), server.connect());
    client.send(&framed(b"later"));
    client.is_closed();
    server.reported(TcpEvent::Unanswered);
    other.is_served();
}

#[test]
fn a_long_answer_comes_in_pieces_and_others_between_them() {
    let server = Server::start(roomy());
    let mut client = server.connect();
    client.send(&framed(b"later"));
    let ticket = server.owed(1)[0];
    server.shared.pieces.store(200, SeqCst);
    server.ready(ticket, &[b'P'; BIG]);
    assert_eq!(client.answer(), [b'P'; BIG]);
    client.send(&framed(b"abc"));
    let answers: Vec<Vec<u8>> = (0..201).map(|_| client.answer()).collect();
    assert_eq!(answers.iter().filter(|a| a[..] == *b"cba").count(), 1);
    assert!(answers.iter().filter(|a| a[..] == [b'P'; BIG]).count() == 200);
    assert_eq!((server.shared.taken.load(SeqCst), server.shared.gone.load(SeqCst)), (200, 0));
    client.is_served();
}

#[test]
fn a_peer_that_does_not_read_a_long_answer_is_cut_off_and_its_maker_told() {
    let server = Server::start(TcpLimits { write_timeout: SHORT, ..roomy() });
    let mut client = server.connect();
    client.send(&framed(b"later"));
    let ticket = server.owed(1)[0];
    server.shared.pieces.store(usize::MAX, SeqCst);
    server.ready(ticket, &[b'P'; BIG]);
    server.reported(TcpEvent::Slow);
    until(|| server.shared.gone.load(SeqCst) == 1);
    server.ready(ticket, &[b'P'; BIG]);
    until(|| server.shared.gone.load(SeqCst) == 2);
    server.connect().is_served();
}

#[test]
fn answers_owed_when_serving_ends_may_still_come() {
    let mut server = Server::start(TcpLimits { drain: PATIENCE, ..roomy() });
    let mut client = server.connect();
    client.send(&framed(b"later"));
    let ticket = server.owed(1)[0];
    let bell = (server.wake.clone(), server.shared.clone());
    let reader = std::thread::spawn(move || {
        until(|| bell.1.stop.load(SeqCst));
        bell.1.ready.lock().unwrap().push((ticket, b"ready".to_vec()));
        bell.0.ring();
        assert_eq!(client.answer(), b"ready");
        client.is_closed();
    });
    server.stop();
    reader.join().unwrap();
}

#[test]
fn messages_come_in_pieces_of_any_size() {
    let server = Server::start(roomy());
    let (mut pieces, mut other) = (server.connect(), server.connect());
    let stream = [framed(b"one"), framed(b"silence"), framed(b"two")].concat();
    for size in 1..=stream.len() {
        for piece in stream.chunks(size) {
            pieces.send(piece);
            // The other's turn makes the server see the piece alone.
            other.is_served();
        }
        assert_eq!((pieces.answer(), pieces.answer()), (b"eno".to_vec(), b"owt".to_vec()));
    }
}

#[test]
fn a_message_of_length_zero_ends_the_connection_after_earlier_answers() {
    let server = Server::start(roomy());
    for last in [vec![0, 0], framed(b"close")] {
        let mut client = server.connect();
        client.send(&[framed(b"abc"), last, framed(b"never")].concat());
        assert_eq!(client.answer(), b"cba");
        client.is_closed();
    }
    assert_eq!(server.count(TcpEvent::Broken), 2);
}

#[test]
fn half_a_message_is_cut_off_in_time_and_disturbs_nobody() {
    let server = Server::start(TcpLimits { message_timeout: SHORT, ..roomy() });
    let mut other = server.connect();
    for half in [&b"\0"[..], b"\0\x05", b"\0\x05abcd"] {
        let mut slow = server.connect();
        slow.send(half);
        slow.is_closed();
        other.is_served();
    }
    assert_eq!(server.count(TcpEvent::Slow), 3);
}

#[test]
fn octets_that_trickle_do_not_prolong_a_message() {
    let server = Server::start(TcpLimits { message_timeout: SHORT, ..roomy() });
    let (mut slow, mut other) = (server.connect(), server.connect());
    slow.send(b"\xff\xff");
    // Sends an octet at a time until the server has had enough, which takes far fewer than 65,535.
    let mut sent = 0;
    while slow.0.write_all(b"x").is_ok() && server.count(TcpEvent::Slow) == 0 {
        other.is_served();
        sent += 1;
        assert!(sent < 65_000);
    }
    server.reported(TcpEvent::Slow);
}

#[test]
fn a_peer_that_leaves_is_counted_by_where_it_left() {
    let server = Server::start(roomy());
    drop(server.connect());
    server.reported(TcpEvent::Closed);
    let mut half = server.connect();
    half.send(b"\0\x05ab");
    drop(half);
    server.reported(TcpEvent::Broken);
    assert_eq!(server.count(TcpEvent::Closed), 1);
}

#[test]
fn an_idle_connection_is_closed() {
    let server = Server::start(TcpLimits { idle: SHORT, ..roomy() });
    server.connect().is_closed();
    assert_eq!(server.count(TcpEvent::Idle), 1);
}

#[test]
fn those_whose_time_is_over_together_are_not_closed_in_one_turn() {
    let server = Server::start(TcpLimits { idle: 4 * SHORT, ..roomy() });
    let mut busy = server.connect();
    let idle: Vec<Client> = (0..300).map(|_| server.connect()).collect();
    until(|| server.count(TcpEvent::Accepted) == 301);
    // The thread stands still, as on a machine that does, until it is over for all.
    let (stopped, since) = (server.shared.owed.lock().unwrap(), Instant::now());
    busy.send(&framed(b"later"));
    until(|| since.elapsed() > 6 * SHORT);
    let turns = server.shared.turns.load(SeqCst);
    let before = server.count(TcpEvent::Idle);
    drop(stopped);
    until(|| server.count(TcpEvent::Idle) >= 300);
    let (turns, closed) = (server.shared.turns.load(SeqCst) - turns, 300 - before);
    assert!(turns >= closed / 64, "{closed} in {turns} turns");
    drop(idle);
}

#[test]
fn one_peer_has_so_many_connections_and_others_theirs() {
    let server = Server::start(TcpLimits { per_peer_max: 3, ..roomy() });
    let mut kept: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    kept.iter_mut().for_each(Client::is_served);
    server.connect().is_closed();
    assert_eq!(server.count(TcpEvent::RefusedPeer), 1);
    Client::to(server.v6).is_served();
    kept.pop();
    server.reported(TcpEvent::Closed);
    server.connect().is_served();
}

#[test]
fn a_full_table_makes_room_for_the_new_by_closing_the_longest_idle() {
    let server = Server::start(TcpLimits { connections_max: 3, ..roomy() });
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for i in [0, 1, 2, 0] {
        clients[i].is_served();
    }
    let mut new = server.connect();
    new.is_served();
    clients[1].is_closed();
    clients[0].is_served();
    clients[2].is_served();
    assert_eq!((server.count(TcpEvent::Idle), server.count(TcpEvent::RefusedTotal)), (1, 0));
}

#[test]
fn a_full_table_without_idle_connections_refuses() {
    let server = Server::start(TcpLimits { connections_max: 1, ..roomy() });
    let mut busy = server.connect();
    // The half comes with the whole, so the answer shows that it is there.
    busy.send(&[&framed(b"abc")[..], b"\0\x03x"].concat());
    assert_eq!(busy.answer(), b"cba");
    server.connect().is_closed();
    assert_eq!(server.count(TcpEvent::RefusedTotal), 1);
    busy.send(b"yz");
    assert_eq!(busy.answer(), b"zyx");
}

#[test]
fn a_peer_that_never_reads_is_cut_off_while_others_are_served() {
    let server = Server::start(TcpLimits { write_timeout: SHORT, ..roomy() });
    let (mut deaf, mut other) = (server.connect(), server.connect());
    deaf.send(&framed(b"big").repeat(2000));
    until(|| {
        other.is_served();
        server.count(TcpEvent::Slow) == 1
    });
}

#[test]
fn a_peer_that_reads_late_gets_every_answer() {
    let server = Server::start(roomy());
    let (mut late, mut other) = (server.connect(), server.connect());
    late.send(&framed(b"big").repeat(300));
    other.is_served();
    for _ in 0..300 {
        assert!(late.answer() == [b'B'; BIG]);
    }
    late.is_served();
}

#[test]
fn a_peer_that_has_finished_asking_still_gets_its_answers() {
    let server = Server::start(roomy());
    let mut client = server.connect();
    client.send(&framed(b"big").repeat(200));
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    (0..200).for_each(|_| assert_eq!(client.answer().len(), BIG));
    client.is_closed();
    server.reported(TcpEvent::Closed);
}

#[test]
fn a_peer_that_vanishes_with_answers_unread_is_broken_off() {
    let server = Server::start(roomy());
    let (mut vanishing, mut other) = (server.connect(), server.connect());
    vanishing.send(&framed(b"big").repeat(2000));
    other.is_served();
    drop(vanishing);
    server.reported(TcpEvent::Broken);
    other.is_served();
}

#[test]
fn answers_that_wait_have_a_bound() {
    let server = Server::start(TcpLimits { pending_write_max: 1000, ..roomy() });
    let mut deaf = server.connect();
    deaf.send(&framed(b"later").repeat(100));
    server.owed(100).into_iter().for_each(|ticket| server.ready(ticket, &[b'L'; MESSAGE_MAX]));
    server.reported(TcpEvent::Slow);
    server.connect().is_served();
}

#[test]
fn however_much_is_asked_a_turn_answers_so_much() {
    const EACH: usize = 300;
    let mut server = Server::start(roomy());
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(&framed(b"big").repeat(EACH)));
    for _ in 0..EACH {
        clients.iter_mut().for_each(|client| assert_eq!(client.answer().len(), BIG));
    }
    clients.iter_mut().for_each(Client::is_served);
    server.stop();
    let most = server.shared.most_answered.load(SeqCst);
    // The last share is begun before the turn has had its fill, and the last answer before the share has.
    assert!((1..=6).contains(&most), "{most} answers of {BIG} octets in one turn");
}

#[test]
fn thousands_of_idle_connections_leave_service_as_it_was() {
    let files = sched::raise_open_files(21_000).unwrap();
    let n = usize::try_from(files / 2 - 500).unwrap().min(9_999);
    assert!(n >= 2000, "{files} open files are too few for this test");
    let mut server = Server::start(roomy());
    let mut idle: Vec<Client> = (0..n).map(|_| server.connect()).collect();
    let mut busy = server.connect();
    for client in idle.iter_mut().step_by(100) {
        busy.is_served();
        client.is_served();
    }
    assert_eq!(server.count(TcpEvent::Accepted), n + 1);
    server.stop();
    idle.iter_mut().for_each(Client::is_closed);
}

#[test]
fn a_ring_runs_a_turn_and_stopping_closes_what_is_idle() {
    let mut server = Server::start(roomy());
    let mut client = server.connect();
    client.is_served();
    let turns = server.shared.turns.load(SeqCst);
    server.wake.ring();
    until(|| server.shared.turns.load(SeqCst) > turns);
    server.stop();
    client.is_closed();
    assert!(TcpStream::connect(server.v4).is_err());
}

/// More than is read, and answered, of one connection at a time.
#[test]
fn stopping_still_answers_all_that_has_arrived_of_many_messages() {
    const ASKED: usize = 7000;
    let mut server = Server::start(TcpLimits { drain: PATIENCE, ..roomy() });
    let (mut late, mut other) = (server.connect(), server.connect());
    late.is_served();
    other.is_served();
    // It stands in the midst of a turn until all has arrived, and stops after that.
    let shared = Arc::clone(&server.shared);
    let standing = shared.owed.lock().unwrap();
    other.send(&framed(b"later"));
    late.send(&framed(b"short").repeat(ASKED));
    shared.stop.store(true, SeqCst);
    drop(standing);
    let ticket = server.owed(1)[0];
    server.ready(ticket, b"at last");
    server.stop();
    (0..ASKED).for_each(|_| assert_eq!(late.answer(), b"trohs"));
    late.is_closed();
    assert_eq!(other.answer(), b"at last");
}

#[test]
fn stopping_still_answers_what_has_arrived() {
    let mut server = Server::start(TcpLimits { drain: PATIENCE, ..roomy() });
    let mut late = server.connect();
    late.send(&framed(b"big").repeat(200));
    assert_eq!(late.answer().len(), BIG);
    let reader = std::thread::spawn(move || {
        (1..200).for_each(|_| assert_eq!(late.answer().len(), BIG));
        late.is_closed();
    });
    server.stop();
    reader.join().unwrap();
}

/// In a process of its own, for the limit of open files is the whole process's.
#[test]
fn without_descriptors_accepting_rests_and_goes_on() {
    let me = std::env::current_exe().unwrap();
    let done = std::process::Command::new(me)
        .args(["--exact", "tcp::tests::exhaust_descriptors", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
#[ignore = "uses up its process's descriptors: run by the test above"]
fn exhaust_descriptors() {
    let server = Server::start(roomy());
    let mut first = server.connect();
    first.is_served();
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    // One descriptor for the client's end, none for the server's: it closes what idles longest, and rests.
    drop(files.pop());
    let mut second = server.connect();
    server.reported(TcpEvent::Exhausted);
    first.is_closed();
    second.is_served();
}
