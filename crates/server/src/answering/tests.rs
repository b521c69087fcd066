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

    /// One that answers datagrams, and somebody who asks.
    fn over_udp(name: &str) -> (Stage, Asker) {
        let (mut stage, port) = (Stage::new(name), udp_port());
        let client = Asker::of(&port);
        stage.start(move |answering| answering.serve_udp(&[port], Some(Rank::Datagrams)));
        (stage, client)
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
    let (stage, client) = Stage::over_udp("later-udp");
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
    let (stage, client) = Stage::over_udp("stalled");
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
