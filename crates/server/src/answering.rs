//! The threads that answer: each owns a worker and hands it what the sockets bring.
//!
//! Never waits for anything but its sockets, takes no lock but the one of a publication, logs nothing while all is well.

use crate::clock::Clock;
use crate::panics::Panics;
use front::{Datagrams, Now, Peer, Published, Verdict, Worker, Zones};
use net::tcp::{self, Answer, Messages, TcpEvent, TcpLimits};
use net::udp::{Batch, Sent, UdpPort};
use net::udp_loop::{self, Batches};
use net::{Turn, Wake};
use stats::{Counter, Counters};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::Map;

/// Batches that a socket may still have answered when the server stops: what had arrived by then, within reason.
const DRAINED_MAX: usize = 64;

/// What all answering threads share.
#[derive(Clone)]
pub struct Shared {
    pub published: Arc<Published<Zones<Map>>>,
    pub clock: Clock,
    pub stop: Arc<AtomicBool>,
    pub panics: Arc<Panics>,
}

/// Who answers: the worker, or in tests one that fails on purpose.
pub trait Answers {
    fn on_batch(&mut self, now: Now, batch: &mut impl Datagrams);
    fn on_message(&mut self, now: Now, peer: Peer, buffer: &mut [u8], len: usize) -> Verdict;
    fn on_idle(&mut self);
}

impl Answers for Worker<Map> {
    #[inline]
    fn on_batch(&mut self, now: Now, batch: &mut impl Datagrams) {
        Worker::on_batch(self, now, batch);
    }

    #[inline]
    fn on_message(&mut self, now: Now, peer: Peer, buffer: &mut [u8], len: usize) -> Verdict {
        Worker::on_message(self, now, peer, buffer, len)
    }

    fn on_idle(&mut self) {
        Worker::on_idle(self);
    }
}

/// One thread's worker, and how to make another should it panic.
pub struct Answering<W> {
    shared: Shared,
    counters: Arc<Counters>,
    make: Box<dyn Fn() -> W + Send>,
    worker: W,
}

impl<W: Answers> Answering<W> {
    pub fn new(shared: Shared, counters: Arc<Counters>, make: impl Fn() -> W + Send + 'static) -> Answering<W> {
        Answering { shared, counters, worker: make(), make: Box::new(make) }
    }

    fn turn(&mut self) -> Turn {
        self.worker.on_idle();
        if self.shared.stop.load(Relaxed) { Turn::Stop } else { Turn::Go }
    }

    /// The worker's state may be anything now; the packets may be at fault.
    #[cold]
    fn recover(&mut self, packets: impl FnOnce() -> Vec<u8>) {
        self.counters.count(Counter::Panics);
        self.shared.panics.save(packets);
        self.worker = (self.make)();
    }

    pub fn serve_udp(mut self, ports: &[UdpPort], wake: &Wake) -> io::Result<()> {
        let mut batch = Batch::new(net::udp::BATCH);
        udp_loop::serve(ports, wake, &mut batch, &mut self)?;
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
        Ok(())
    }

    pub fn serve_tcp(mut self, listeners: &[TcpListener], limits: &TcpLimits, wake: &Wake) -> io::Result<()> {
        tcp::serve(listeners, limits, wake, &mut self)
    }
}

/// A batch as the worker sees it.
struct Packets<'a> {
    batch: &'a mut Batch,
    /// How many have their answer: it is given to them in their order.
    answered: usize,
}

impl Packets<'_> {
    /// What the worker left unanswered, each packet behind two octets of length.
    fn unanswered(&mut self) -> Vec<u8> {
        let mut octets = Vec::new();
        for i in self.answered..self.batch.len() {
            let (buffer, len) = self.batch.packet(i);
            octets.extend_from_slice(&with_length(buffer, len));
        }
        octets
    }
}

fn with_length(buffer: &[u8], len: usize) -> Vec<u8> {
    let octets = &buffer[..len.min(buffer.len())];
    [&(octets.len() as u16).to_be_bytes(), octets].concat()
}

impl Datagrams for Packets<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.batch.len()
    }

    #[inline]
    fn peer(&self, i: usize) -> Peer {
        let (ip, port) = self.batch.peer_ip_port(i);
        Peer { ip, port }
    }

    #[inline]
    fn packet(&mut self, i: usize) -> (&mut [u8], usize) {
        self.batch.packet(i)
    }

    #[inline]
    fn set_reply(&mut self, i: usize, len: usize) {
        self.batch.set_reply(i, len);
        self.answered = i + 1;
    }
}

impl<W: Answers> Batches for Answering<W> {
    fn on_batch(&mut self, _port: usize, batch: &mut Batch) {
        let now = self.shared.clock.now();
        let mut packets = Packets { batch, answered: 0 };
        if catch_unwind(AssertUnwindSafe(|| self.worker.on_batch(now, &mut packets))).is_err() {
            for i in packets.answered..packets.batch.len() {
                packets.batch.set_reply(i, 0);
            }
            self.recover(|| packets.unanswered());
        }
    }

    fn on_sent(&mut self, sent: Sent) {
        if sent.failed > 0 {
            self.counters.add(Counter::SendFailed, sent.failed as u64);
        }
    }

    fn on_turn(&mut self) -> Turn {
        self.turn()
    }
}

impl<W: Answers> Messages for Answering<W> {
    fn on_message(&mut self, peer: SocketAddr, _listener: usize, buffer: &mut [u8], len: usize) -> Answer {
        let now = self.shared.clock.now();
        let peer = Peer { ip: peer.ip(), port: peer.port() };
        match catch_unwind(AssertUnwindSafe(|| self.worker.on_message(now, peer, buffer, len))) {
            Ok(Verdict::Reply(len)) => Answer::Reply(len),
            Ok(Verdict::Drop) => Answer::Close,
            Err(_) => {
                self.recover(|| with_length(buffer, len));
                Answer::Close
            }
        }
    }

    fn on_event(&mut self, event: TcpEvent) {
        let which = match event {
            TcpEvent::Accepted => Counter::TcpAccepted,
            TcpEvent::RefusedTotal | TcpEvent::Exhausted => Counter::TcpRefusedTotal,
            TcpEvent::RefusedPeer => Counter::TcpRefusedPeer,
            TcpEvent::Idle => Counter::TcpIdle,
            TcpEvent::Slow => Counter::TcpSlow,
            TcpEvent::Broken => Counter::TcpBroken,
            TcpEvent::Closed => return,
        };
        self.counters.count(which);
    }

    fn on_turn(&mut self) -> Turn {
        self.turn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Folders, without_file};
    use crate::images::Library;
    use crate::publisher;
    use front::Setup;
    use net::udp::RECV_BUFFER;
    use sim::message;
    use std::io::{Read, Write};
    use std::net::{TcpStream, UdpSocket};
    use std::path::PathBuf;
    use std::sync::atomic::AtomicUsize;
    use std::thread::JoinHandle;
    use std::time::{Duration, Instant};
    use wire::Name;

    const PATIENCE: Duration = Duration::from_secs(30);
    const GOOD: &str = "www.example.com";
    /// The worker of these tests panics when it has written the answer to this.
    const BAD: &str = "panic.example.com";

    struct Fragile(Worker<Map>);

    fn trip(buffer: &[u8]) {
        assert!(!buffer.windows(6).any(|w| w == b"\x05panic"), "on purpose");
    }

    struct Tripwire<'a, D>(&'a mut D);

    impl<D: Datagrams> Datagrams for Tripwire<'_, D> {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn peer(&self, i: usize) -> Peer {
            self.0.peer(i)
        }
        fn packet(&mut self, i: usize) -> (&mut [u8], usize) {
            self.0.packet(i)
        }
        fn set_reply(&mut self, i: usize, len: usize) {
            trip(&self.0.packet(i).0[..len]);
            self.0.set_reply(i, len);
        }
    }

    impl Answers for Fragile {
        fn on_batch(&mut self, now: Now, batch: &mut impl Datagrams) {
            self.0.on_batch(now, &mut Tripwire(batch));
        }
        fn on_message(&mut self, now: Now, peer: Peer, buffer: &mut [u8], len: usize) -> Verdict {
            let verdict = self.0.on_message(now, peer, buffer, len);
            trip(&buffer[..len]);
            verdict
        }
        fn on_idle(&mut self) {
            self.0.on_idle();
        }
    }

    /// An answering thread with a fragile worker, its one zone in a folder of its own.
    struct Stage {
        folder: PathBuf,
        shared: Shared,
        counters: Arc<Counters>,
        made: Arc<AtomicUsize>,
        wake: Arc<Wake>,
        thread: Option<JoinHandle<io::Result<()>>>,
    }

    impl Stage {
        fn new(name: &str) -> Stage {
            let folder = std::env::temp_dir().join(format!("dunlin-{name}-{}", std::process::id()));
            std::fs::create_dir_all(folder.join("zones")).unwrap();
            let zone = "$TTL 300\n@ SOA ns1 hostmaster 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\nwww A 192.0.2.2\n";
            std::fs::write(folder.join("zones/example.com.zone"), zone).unwrap();
            let folders = Folders { data: folder.clone(), runtime: folder.clone() };
            let config = without_file(&folders, Some(&folder.join("zones"))).unwrap();
            let shelved = Library::open(&folder).unwrap().current(&config.zones, None).unwrap();
            let (zones, _) = publisher::ready(shelved, &config, 1);
            let shared = Shared {
                published: Arc::new(Published::new(zones)),
                clock: Clock::new(),
                stop: Arc::default(),
                panics: Arc::new(Panics::start(folder.clone()).unwrap()),
            };
            let wake = Arc::new(Wake::new().unwrap());
            Stage { folder, shared, counters: Arc::default(), made: Arc::default(), wake, thread: None }
        }

        fn start(&mut self, serve: impl FnOnce(Answering<Fragile>, &Wake) -> io::Result<()> + Send + 'static) {
            let (published, counters) = (Arc::clone(&self.shared.published), Arc::clone(&self.counters));
            let made = Arc::clone(&self.made);
            let make = move || {
                made.fetch_add(1, Relaxed);
                Fragile(Worker::new(Arc::clone(&published), Setup::default(), Arc::clone(&counters)))
            };
            let answering = Answering::new(self.shared.clone(), Arc::clone(&self.counters), make);
            let wake = Arc::clone(&self.wake);
            self.thread = Some(std::thread::spawn(move || serve(answering, &wake)));
        }

        #[track_caller]
        fn panicked_once(&self) {
            eventually(|| self.counters.value(Counter::Panics) == 1);
            eventually(|| self.made.load(Relaxed) == 2);
        }

        /// What was kept, once it is.
        fn kept(&self, len: usize) -> Vec<u8> {
            let path = self.folder.join(format!("panic-{}-0.packets", std::process::id()));
            eventually(|| std::fs::metadata(&path).is_ok_and(|m| m.len() == len as u64));
            std::fs::read(path).unwrap()
        }

        fn end(self) {
            self.shared.stop.store(true, Relaxed);
            self.wake.ring();
            self.thread.unwrap().join().unwrap().unwrap();
            std::fs::remove_dir_all(&self.folder).unwrap();
        }
    }

    #[track_caller]
    fn eventually(mut is_so: impl FnMut() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "it did not come true");
            std::thread::yield_now();
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

    #[test]
    fn a_panic_costs_the_rest_of_its_batch_and_nothing_else() {
        let mut stage = Stage::new("fragile-udp");
        let port = UdpPort::bind("127.0.0.1:0".parse().unwrap(), RECV_BUFFER).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect(port.local_addr()).unwrap();
        let mut answer = [0; 512];
        // Before anybody reads, so that they are one batch.
        let batch = [query(1, GOOD), query(2, BAD), query(3, GOOD)];
        batch.iter().for_each(|q| assert_eq!(client.send(q).unwrap(), q.len()));
        stage.start(move |answering, wake| answering.serve_udp(&[port], wake));
        let n = client.recv(&mut answer).unwrap();
        assert!(is_answer(&answer[..n], 1));
        stage.panicked_once();
        for id in 4..8 {
            client.send(&query(id, GOOD)).unwrap();
            let n = client.recv(&mut answer).unwrap();
            assert!(is_answer(&answer[..n], id), "the next answer is that to the query after the panic");
        }
        let (second, third) = (&batch[1], &batch[2]);
        let kept = stage.kept(2 + second.len() + 2 + third.len());
        assert_eq!(kept[2 + 12..2 + second.len()], second[12..], "the question of the packet at fault");
        assert_eq!(kept[2 + second.len() + 2..], third[..], "what came after it, as it came");
        stage.panicked_once();
        stage.end();
    }

    #[test]
    fn a_panic_costs_its_connection_and_nothing_else() {
        let mut stage = Stage::new("fragile-tcp");
        let listener = tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        stage.start(move |answering, wake| answering.serve_tcp(&[listener], &TcpLimits::default(), wake));
        let connect = || {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        };
        let ask = |mut stream: &TcpStream, packet: &[u8]| stream.write_all(&with_length(packet, packet.len())).unwrap();
        let answered = |mut stream: &TcpStream, id: u8| {
            let mut len = [0; 2];
            stream.read_exact(&mut len).unwrap();
            let mut answer = vec![0; usize::from(u16::from_be_bytes(len))];
            stream.read_exact(&mut answer).unwrap();
            is_answer(&answer, id)
        };
        let (good, bad) = (connect(), connect());
        ask(&good, &query(1, GOOD));
        assert!(answered(&good, 1));
        ask(&bad, &query(2, BAD));
        assert_eq!((&bad).read(&mut [0]).unwrap(), 0, "it is closed");
        stage.panicked_once();
        ask(&good, &query(3, GOOD));
        assert!(answered(&good, 3));
        let later = connect();
        ask(&later, &query(4, GOOD));
        assert!(answered(&later, 4));
        let packet = query(2, BAD);
        assert_eq!(stage.kept(2 + packet.len())[2 + 12..], packet[12..]);
        stage.end();
    }
}
