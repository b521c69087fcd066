//! The threads that answer: each owns a worker and hands it what the sockets bring.
//!
//! Never waits for anything but its sockets, takes no lock but the one of a publication, logs nothing while all is well.

use crate::clock::Clock;
use crate::panics::Panics;
use front::{Datagrams, Peer, Published, Setup, Verdict, Worker, Zones};
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

/// One thread's worker, and how to make another should it panic.
pub struct Answering {
    shared: Shared,
    setup: Setup,
    counters: Arc<Counters>,
    worker: Worker<Map>,
}

impl Answering {
    pub fn new(shared: Shared, setup: Setup, counters: Arc<Counters>) -> Answering {
        let worker = Worker::new(Arc::clone(&shared.published), setup.clone(), Arc::clone(&counters));
        Answering { shared, setup, counters, worker }
    }

    fn turn(&mut self) -> Turn {
        self.worker.on_idle();
        if self.shared.stop.load(Relaxed) { Turn::Stop } else { Turn::Go }
    }

    /// The worker's state may be anything now; the packets may be at fault.
    fn recover(&mut self, packets: &[u8]) {
        self.counters.count(Counter::Panics);
        self.shared.panics.save(packets);
        self.worker = Worker::new(Arc::clone(&self.shared.published), self.setup.clone(), Arc::clone(&self.counters));
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
struct Packets<'a>(&'a mut Batch);

impl Datagrams for Packets<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn peer(&self, i: usize) -> Peer {
        let (ip, port) = self.0.peer_ip_port(i);
        Peer { ip, port }
    }

    #[inline]
    fn packet(&mut self, i: usize) -> (&mut [u8], usize) {
        self.0.packet(i)
    }

    #[inline]
    fn set_reply(&mut self, i: usize, len: usize) {
        self.0.set_reply(i, len);
    }
}

impl Batches for Answering {
    fn on_batch(&mut self, _port: usize, batch: &mut Batch) {
        let now = self.shared.clock.now();
        let answered = catch_unwind(AssertUnwindSafe(|| self.worker.on_batch(now, &mut Packets(batch))));
        if answered.is_err() {
            let mut packets = Vec::new();
            for i in 0..batch.len() {
                let (buffer, len) = batch.packet(i);
                packets.extend_from_slice(&(len as u16).to_be_bytes());
                packets.extend_from_slice(&buffer[..len.min(buffer.len())]);
                batch.set_reply(i, 0);
            }
            self.recover(&packets);
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

impl Messages for Answering {
    fn on_message(&mut self, peer: SocketAddr, _listener: usize, buffer: &mut [u8], len: usize) -> Answer {
        let now = self.shared.clock.now();
        let peer = Peer { ip: peer.ip(), port: peer.port() };
        match catch_unwind(AssertUnwindSafe(|| self.worker.on_message(now, peer, buffer, len))) {
            Ok(Verdict::Reply(len)) => Answer::Reply(len),
            Ok(Verdict::Drop) => Answer::Close,
            Err(_) => {
                let packet = [&(len as u16).to_be_bytes(), &buffer[..len.min(buffer.len())]].concat();
                self.recover(&packet);
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
