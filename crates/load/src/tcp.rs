//! A lane over TCP: one connection at a time, queries pipelined, each with its length before it (RFC 1035 4.2.2).

use crate::clock::Stamps;
use crate::lane::{Lane, Shared, note};
use crate::outstanding::Outstanding;
use crate::shape::{Frame, HEADER, QUESTION_MAX, Shape};
use crate::udp::{BATCH, Way};
use net::generator::{Until, read_stamped, stamp_stream};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

const CONNECT_MAX: Duration = Duration::from_secs(5);
const PACKET: usize = 2 + HEADER + QUESTION_MAX + 128;
const READ: usize = 64 << 10;

/// How long a connection is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turnover {
    Kept,
    /// For so many queries, then a new one.
    After(u32),
}

pub struct Tcp {
    way: Way,
    turnover: Turnover,
    stream: Option<TcpStream>,
    stamps: bool,
    used: u32,
    outstanding: Outstanding,
    frame: Frame,
    /// Written by us, not yet by the kernel.
    out: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
}

impl Tcp {
    pub fn connect(way: &Way, shape: Shape, turnover: Turnover, chance: u64) -> io::Result<Tcp> {
        let mut tcp = Tcp {
            way: *way,
            turnover,
            stream: None,
            stamps: false,
            used: 0,
            outstanding: Outstanding::new(chance as u16),
            frame: Frame::new(&shape, chance, &[]),
            out: Vec::new(),
            input: vec![0; READ * 2],
            filled: 0,
        };
        tcp.reconnect()?;
        Ok(tcp)
    }

    /// What was written and not answered on the old connection will time out.
    fn reconnect(&mut self) -> io::Result<()> {
        self.stream = None;
        (self.used, self.filled) = (0, 0);
        self.out.clear();
        let stream = net::generator::connect_tcp(self.way.target, self.way.source, CONNECT_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.stamps = self.way.stamps && stamp_stream(&stream);
        self.stream = Some(stream);
        Ok(())
    }

    fn is_used_up(&self) -> bool {
        matches!(self.turnover, Turnover::After(n) if self.used >= n)
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while !self.out.is_empty() {
            match stream.write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(e) if is_not_now(&e) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Hands over the whole messages of the buffer.
    fn messages(&mut self, at_ns: u64, shared: &mut Shared) -> usize {
        let (mut at, mut n) = (0, 0);
        while let Some(len) =
            self.input[at..self.filled].first_chunk::<2>().map(|l| usize::from(u16::from_be_bytes(*l)))
        {
            let Some(message) = self.input[at + 2..self.filled].get(..len) else { break };
            note(self.outstanding.hear(message, at_ns), message, at_ns, &mut shared.tally);
            at += 2 + len;
            n += 1;
        }
        self.input.copy_within(at..self.filled, 0);
        self.filled -= at;
        n
    }
}

fn is_not_now(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Lane for Tcp {
    fn outstanding(&mut self) -> &mut Outstanding {
        &mut self.outstanding
    }

    fn room(&self) -> usize {
        let left = match self.turnover {
            Turnover::Kept => BATCH,
            // A connection that is used up is replaced once its answers are there.
            Turnover::After(n) => match n.saturating_sub(self.used) {
                0 if self.outstanding.waiting() == 0 => n as usize,
                left => left as usize,
            },
        };
        if self.out.len() > READ { 0 } else { left.min(self.outstanding.room()).min(BATCH) }
    }

    fn send(&mut self, dues: &[u64], shared: &mut Shared) -> io::Result<usize> {
        if self.stream.is_none() || self.is_used_up() && self.outstanding.waiting() == 0 {
            self.reconnect()?;
        }
        let at_ns = shared.clock.now_ns();
        let mut n = 0;
        let room = self.room();
        for &due_ns in dues.iter().take(room) {
            let mut packet = [0; PACKET];
            let Some(space) = packet[2 + HEADER..].first_chunk_mut::<QUESTION_MAX>() else { break };
            let question = shared.source.next(space);
            if question == 0 {
                break;
            }
            let query = shared.tally.sending(due_ns, at_ns);
            let Some(id) = self.outstanding.open(query, &packet[2 + HEADER..2 + HEADER + question]) else { break };
            let len = self.frame.complete(id, question, &mut packet[2..]);
            packet[..2].copy_from_slice(&(len as u16).to_be_bytes());
            self.out.extend_from_slice(&packet[..2 + len]);
            shared.tally.sent(due_ns, at_ns);
            n += 1;
        }
        self.used = self.used.saturating_add(n as u32);
        if let Err(e) = self.flush() {
            self.stream = None;
            return Err(e);
        }
        Ok(n)
    }

    fn receive(&mut self, shared: &mut Shared) -> io::Result<usize> {
        self.flush()?;
        let Some(stream) = &mut self.stream else { return Ok(0) };
        match read_stamped(stream, &mut self.input[self.filled..]) {
            // The server closed: the next query opens a new connection.
            Ok((0, _)) => {
                self.stream = None;
                Ok(0)
            }
            // One stamp a reading, that of its last segment: no message came later than that.
            Ok((n, stamp)) => {
                self.filled += n;
                let at_ns = Stamps::now(&shared.clock).at_ns(stamp);
                Ok(self.messages(at_ns, shared))
            }
            Err(e) if is_not_now(&e) => Ok(0),
            Err(e) => {
                self.stream = None;
                Err(e)
            }
        }
    }

    fn has_stamps(&self) -> bool {
        self.stamps
    }

    fn fd(&self) -> Option<(BorrowedFd<'_>, Until)> {
        let until = if self.out.is_empty() { Until::Readable } else { Until::ReadableOrWritable };
        self.stream.as_ref().map(|stream| (stream.as_fd(), until))
    }
}
