//! The loop of an answering thread: sleeps until a port has packets, takes batches from each, and lets the handler do
//! its own work between turns. Decides nothing about packets.
//!
//! It sleeps in `poll`, not in the receive call: then one mechanism serves one port or many, and a ring of `Wake` is
//! seen at once. That costs nothing under load: with 128 queries outstanding, CPU a query differs from sleeping in
//! `recvmmsg` by 0 to 50 ns of 3,600, inside the error (0.3 sleeps in 1,000 queries). At 60,000 queries a second,
//! with a sleep for every second query, it is 480 ns of 7,200 more, on a CPU that has the time. After a batch that was
//! not full, trying once more before sleeping gained nothing either.

use crate::outbox::Outbox;
use crate::sys;
use crate::udp::{Batch, Return, Sent, UdpPort};
use crate::wake::{Turn, Wake};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Batches that one port may take before the others, and the handler's own work, get their turn. What has come while a host took the processor away for
/// 10 ms is 200 packets at 20,000 a second: in one turn, as 8 batches, that took up to 3.3 ms.
const BATCHES_PER_TURN_MAX: usize = 2;

/// Who answers. All calls come from the thread that called `serve`.
pub trait Batches {
    /// The loop has slept and woken up: a turn begins.
    fn on_wake(&mut self) {}
    /// Packets have arrived on `ports[port]`: read them, write replies into their buffers and `set_reply`.
    fn on_batch(&mut self, port: usize, batch: &mut Batch);
    /// The replies of the batch just answered have gone.
    fn on_sent(&mut self, sent: Sent);
    /// An answer to a packet of an earlier batch: it is put at the start of `buffer` (1,472 octets); the port, the way
    /// back and its length are returned. Asked every turn until None.
    fn next_later(&mut self, _buffer: &mut [u8]) -> Option<(usize, Return, usize)> {
        None
    }
    /// True while a packet of an earlier batch waits for its answer. Asked when serving has ended.
    fn owes(&self) -> bool {
        false
    }
    /// After every turn (at most 2 batches a port), before any sleep, and soon after `Wake::ring`.
    fn on_turn(&mut self) -> Turn;
}

/// Serves until `on_turn` says stop.
pub fn serve(ports: &[UdpPort], wake: &Wake, batch: &mut Batch, handler: &mut impl Batches) -> io::Result<()> {
    let mut fds: Vec<libc::pollfd> = ports.iter().map(|p| sys::readable(p.as_fd())).collect();
    fds.push(sys::readable(wake.as_fd()));
    let mut outbox = Outbox::new();
    let mut has_later = false;
    while handler.on_turn() == Turn::Go {
        if !sys::poll(&mut fds, has_later.then_some(Duration::ZERO))? && !has_later {
            continue;
        }
        handler.on_wake();
        if fds[ports.len()].revents != 0 {
            wake.clear();
        }
        for (i, port) in ports.iter().enumerate().filter(|&(i, _)| fds[i].revents != 0) {
            take_turn(port, i, batch, handler)?;
        }
        has_later = send_later(ports, &mut outbox, handler);
    }
    Ok(())
}

/// Sends answers to packets of earlier batches as they become ready, until none is owed any more; at most this long.
pub fn send_owed(ports: &[UdpPort], wake: &Wake, handler: &mut impl Batches, patience: Duration) -> io::Result<()> {
    let (mut fds, mut outbox) = ([sys::readable(wake.as_fd())], Outbox::new());
    let end = Instant::now() + patience;
    loop {
        while send_later(ports, &mut outbox, handler) {}
        let left = end.saturating_duration_since(Instant::now());
        if !handler.owes() || left.is_zero() {
            return Ok(());
        }
        sys::poll(&mut fds, Some(left))?;
        wake.clear();
    }
}

/// Sends what has become ready, an outbox of it; true if there may be more.
fn send_later(ports: &[UdpPort], outbox: &mut Outbox, handler: &mut impl Batches) -> bool {
    let has_more = collect(outbox, handler);
    let sent = outbox.send(ports);
    if sent != Sent::default() {
        handler.on_sent(sent);
    }
    has_more
}

/// False: that was all.
fn collect(outbox: &mut Outbox, handler: &mut impl Batches) -> bool {
    while let Some(room) = outbox.room() {
        let Some((port, back, len)) = handler.next_later(room) else { return false };
        outbox.put(port, &back, len);
    }
    true
}

/// A batch that is not full was all there was.
fn take_turn(port: &UdpPort, i: usize, batch: &mut Batch, handler: &mut impl Batches) -> io::Result<()> {
    for _ in 0..BATCHES_PER_TURN_MAX {
        let received = receive(port, batch)?;
        if received > 0 {
            handler.on_batch(i, batch);
            handler.on_sent(port.send(batch));
        }
        if received < batch.capacity() {
            break;
        }
    }
    Ok(())
}

/// Errors that the network or a moment's lack of memory put into the socket concern one packet, not the thread.
fn receive(port: &UdpPort, batch: &mut Batch) -> io::Result<usize> {
    port.recv(batch, false).or_else(|e| match e.raw_os_error() {
        Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL) => Err(e),
        _ => Ok(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::RECV_BUFFER;
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::thread::JoinHandle;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[derive(Default)]
    struct Seen {
        stop: AtomicBool,
        is_ready: AtomicBool,
        turns: AtomicUsize,
        largest_turn: AtomicUsize,
    }

    struct Echo {
        seen: Arc<Seen>,
        batches: usize,
        later: Vec<(usize, Return)>,
    }

    impl Batches for Echo {
        fn on_batch(&mut self, port: usize, batch: &mut Batch) {
            self.batches += 1;
            for i in 0..batch.len() {
                let back = batch.way_back(i);
                let (buffer, len) = batch.packet(i);
                if buffer[..len] == *b"later" {
                    self.later.push((port, back));
                    continue;
                }
                buffer[len] = port as u8;
                batch.set_reply(i, len + 1);
            }
        }
        fn on_sent(&mut self, sent: Sent) {
            assert_eq!(sent.failed, 0);
        }
        fn next_later(&mut self, buffer: &mut [u8]) -> Option<(usize, Return, usize)> {
            let (port, back) = if self.seen.is_ready.load(SeqCst) { self.later.pop()? } else { return None };
            buffer[..5].copy_from_slice(b"ready");
            Some((port, back, 5))
        }
        fn owes(&self) -> bool {
            !self.later.is_empty()
        }
        fn on_turn(&mut self) -> Turn {
            self.seen.turns.fetch_add(1, SeqCst);
            self.seen.largest_turn.fetch_max(std::mem::take(&mut self.batches), SeqCst);
            if self.seen.stop.load(SeqCst) { Turn::Stop } else { Turn::Go }
        }
    }

    fn start(ports: Vec<UdpPort>, wake: &Arc<Wake>, seen: &Arc<Seen>) -> JoinHandle<()> {
        let (wake, mut echo) = (wake.clone(), Echo { seen: seen.clone(), batches: 0, later: vec![] });
        std::thread::spawn(move || {
            serve(&ports, &wake, &mut Batch::new(4), &mut echo).unwrap();
            send_owed(&ports, &wake, &mut echo, PATIENCE).unwrap();
        })
    }

    fn bound(addr: &str) -> UdpPort {
        UdpPort::bind(addr.parse().unwrap(), RECV_BUFFER).unwrap()
    }

    #[test]
    fn every_port_is_served_and_a_ring_stops_a_sleeping_loop() {
        for n in 1..4 {
            let (wake, seen) = (Arc::new(Wake::new().unwrap()), Arc::new(Seen::default()));
            let ports: Vec<UdpPort> = ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"][..n].iter().map(|a| bound(a)).collect();
            let numbers: Vec<u16> = ports.iter().map(|p| p.local_addr().port()).collect();
            let thread = start(ports, &wake, &seen);
            for (i, (&port, to)) in numbers.iter().zip(["127.0.0.1", "::1", "127.0.0.7"]).enumerate() {
                let own = UdpSocket::bind((if to == "::1" { "::1" } else { "127.0.0.1" }, 0)).unwrap();
                own.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                own.connect((to, port)).unwrap();
                own.send(b"x").unwrap();
                let mut answer = [0; 8];
                assert_eq!(own.recv(&mut answer).unwrap(), 2);
                assert_eq!(answer[..2], [b'x', i as u8]);
            }
            seen.stop.store(true, SeqCst);
            wake.ring();
            thread.join().unwrap();
        }
    }

    #[test]
    fn an_answer_that_was_not_ready_leaves_later_from_the_address_asked() {
        for (bind, ask) in [("0.0.0.0:0", "127.0.0.8"), ("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "::1")] {
            let (wake, seen) = (Arc::new(Wake::new().unwrap()), Arc::new(Seen::default()));
            let ports = vec![bound("127.0.0.1:0"), bound(bind)];
            let to = ports[1].local_addr().port();
            let thread = start(ports, &wake, &seen);
            let own = UdpSocket::bind((if ask == "::1" { "::1" } else { "127.0.0.1" }, 0)).unwrap();
            own.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            own.connect((ask, to)).unwrap();
            own.send(b"later").unwrap();
            own.send(b"x").unwrap();
            let mut answer = [0; 8];
            assert_eq!(own.recv(&mut answer).unwrap(), 2, "what is ready is not held up");
            seen.is_ready.store(true, SeqCst);
            wake.ring();
            // A connected socket hears only the address that it asked.
            assert_eq!(own.recv(&mut answer).unwrap(), 5);
            assert_eq!(answer[..5], *b"ready");
            seen.stop.store(true, SeqCst);
            wake.ring();
            thread.join().unwrap();
        }
    }

    #[test]
    fn what_is_owed_when_serving_ends_is_waited_for() {
        let (wake, seen) = (Arc::new(Wake::new().unwrap()), Arc::new(Seen::default()));
        let port = bound("127.0.0.1:0");
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        own.set_read_timeout(Some(PATIENCE)).unwrap();
        own.connect(port.local_addr()).unwrap();
        let thread = start(vec![port], &wake, &seen);
        own.send(b"later").unwrap();
        own.send(b"x").unwrap();
        assert_eq!(own.recv(&mut [0; 8]).unwrap(), 2, "both have been taken");
        seen.stop.store(true, SeqCst);
        wake.ring();
        seen.is_ready.store(true, SeqCst);
        wake.ring();
        assert_eq!(own.recv(&mut [0; 8]).unwrap(), 5);
        thread.join().unwrap();
        // Nothing is owed: no time is lost.
        let port = bound("127.0.0.1:0");
        seen.is_ready.store(false, SeqCst);
        start(vec![port], &wake, &seen).join().unwrap();
    }

    #[test]
    fn a_flooded_port_leaves_turns_to_the_others() {
        let (wake, seen) = (Arc::new(Wake::new().unwrap()), Arc::new(Seen::default()));
        let port = bound("127.0.0.1:0");
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        own.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        own.connect(port.local_addr()).unwrap();
        (0..100).for_each(|_| assert_eq!(own.send(b"x").unwrap(), 1));
        let thread = start(vec![port], &wake, &seen);
        (0..100).for_each(|_| assert_eq!(own.recv(&mut [0; 8]).unwrap(), 2));
        seen.stop.store(true, SeqCst);
        wake.ring();
        thread.join().unwrap();
        assert_eq!(seen.largest_turn.load(SeqCst), BATCHES_PER_TURN_MAX);
        assert!(seen.turns.load(SeqCst) >= 4);
    }
}
