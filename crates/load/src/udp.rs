//! A lane over UDP: one connected socket, packets in batches.

use crate::clock::Stamps;
use crate::lane::{Lane, Shared, note};
use crate::outstanding::Outstanding;
use crate::shape::{self, Frame, HEADER, QUESTION_MAX, Shape};
use net::generator::{Answers, Link, Queries, Until};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Packets that one system call sends or receives.
pub const BATCH: usize = 32;

pub struct Udp {
    link: Link,
    outstanding: Outstanding,
    frame: Frame,
    shape: Shape,
    client_cookie: u64,
    server_cookie: Vec<u8>,
    queries: Queries,
    answers: Answers,
}

/// How to reach the target.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub target: SocketAddr,
    pub source: Option<SocketAddr>,
    /// The kernel says when an answer came.
    pub stamps: bool,
}

impl Udp {
    pub fn connect(way: &Way, shape: Shape, chance: u64) -> io::Result<Udp> {
        Ok(Udp {
            link: Link::connect(way.target, way.source, way.stamps)?,
            outstanding: Outstanding::new(chance as u16),
            frame: Frame::new(&shape, chance, &[]),
            shape,
            client_cookie: chance,
            server_cookie: Vec::new(),
            queries: Queries::new(BATCH),
            answers: Answers::new(BATCH),
        })
    }

    /// A server's cookie goes into all later queries of this source (RFC 7873 section 5.3).
    fn learn(&mut self, i: usize) {
        let learned = shape::opt_of(self.answers.packet(i)).and_then(|opt| opt.server_cookie);
        if let Some(cookie) = learned.filter(|c| c.len() <= 32 && *c != self.server_cookie) {
            self.server_cookie = cookie.to_vec();
            self.frame = Frame::new(&self.shape, self.client_cookie, &self.server_cookie);
        }
    }
}

impl Lane for Udp {
    fn outstanding(&mut self) -> &mut Outstanding {
        &mut self.outstanding
    }

    fn room(&self) -> usize {
        self.outstanding.room().min(BATCH)
    }

    fn send(&mut self, dues: &[u64], shared: &mut Shared) -> io::Result<usize> {
        let (mut n, begun_ns) = (0, shared.clock.now_ns());
        for &due_ns in dues.iter().take(BATCH) {
            let packet = self.queries.buffer(n);
            let Some(room) = packet[HEADER..].first_chunk_mut::<QUESTION_MAX>() else { break };
            let question = shared.source.next(room);
            if question == 0 {
                break;
            }
            let query = shared.tally.sending(due_ns, begun_ns);
            let Some(id) = self.outstanding.open(query, &packet[HEADER..HEADER + question]) else { break };
            let len = self.frame.complete(id, question, packet);
            self.queries.set_len(n, len);
            n += 1;
        }
        if n == 0 {
            return Ok(0);
        }
        let at_ns = shared.clock.now_ns();
        let sent = self.link.send(&mut self.queries, n);
        let went = *sent.as_ref().unwrap_or(&0);
        self.outstanding.take_back(n - went);
        dues[..went].iter().for_each(|&due_ns| shared.tally.sent(due_ns, at_ns));
        sent
    }

    fn receive(&mut self, shared: &mut Shared) -> io::Result<usize> {
        let received = self.link.recv(&mut self.answers)?;
        if received == 0 {
            return Ok(0);
        }
        let stamps = Stamps::now(&shared.clock);
        for i in 0..received {
            let packet = self.answers.packet(i);
            let at_ns = stamps.at_ns(self.answers.stamp(i));
            note(self.outstanding.hear(packet, at_ns), packet, at_ns, &mut shared.tally);
            if self.shape.edns.is_some_and(|edns| edns.cookie) {
                self.learn(i);
            }
        }
        Ok(received)
    }

    fn has_stamps(&self) -> bool {
        self.link.has_stamps()
    }

    fn fd(&self) -> Option<(BorrowedFd<'_>, Until)> {
        Some((self.link.as_fd(), Until::Readable))
    }

    fn drops(&self) -> u64 {
        self.link.drops()
    }
}
