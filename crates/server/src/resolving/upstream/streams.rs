//! Streams to servers, shared by the questions that are under way at a time and kept for those to come (RFC 7766
//! sections 6.2.1 and 6.2.2). Replies are told apart by their ids, in whatever order they come.
//!
//! Bounds: `SHARED_MAX` questions a stream; a stream without questions lives until its server closes it, `IDLE_MAX` of
//! them. A stream that breaks before it has said anything fails its questions; one that has served before may have been
//! closed for idleness meanwhile, so its questions go out once more.

use super::{Came, Parcel, STREAM};
use net::epoll::{Epoll, Interest};
use resolver::ExchangeId;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;

/// Questions that share a stream: a reply behind more of them would come too late.
const SHARED_MAX: usize = 32;
/// Streams that are kept without a question.
const IDLE_MAX: usize = 32;
/// Octets of a message's length.
const PREFIX: usize = 2;

#[derive(Default)]
pub struct Streams {
    open: HashMap<u64, Stream>,
    /// The stream of each exchange.
    by_exchange: HashMap<ExchangeId, u64>,
    serial: u64,
}

struct Stream {
    socket: TcpStream,
    server: SocketAddr,
    from: IpAddr,
    /// Octets that have not gone out yet.
    out: Vec<u8>,
    /// It is asked for when the socket can be written to.
    wants_room: bool,
    received: Vec<u8>,
    asked: Vec<Asked>,
    has_served: bool,
    /// It has left a question without reply: it gets no more.
    is_doubtful: bool,
}

/// A question that waits for its reply.
struct Asked {
    exchange: ExchangeId,
    packet: Box<[u8]>,
    may_repeat: bool,
    is_answered: bool,
}

impl Asked {
    fn id(&self) -> &[u8] {
        self.packet.get(..2).unwrap_or_default()
    }
}

impl Streams {
    pub fn send(&mut self, epoll: &Epoll, from: IpAddr, parcel: &Parcel<'_>) -> io::Result<()> {
        let asked =
            Asked { exchange: parcel.exchange, packet: parcel.packet.into(), may_repeat: true, is_answered: false };
        self.ask(epoll, from, parcel.server, asked)
    }

    fn ask(&mut self, epoll: &Epoll, from: IpAddr, server: SocketAddr, asked: Asked) -> io::Result<()> {
        let fits = |s: &Stream| {
            let has_room = s.asked.len() < SHARED_MAX && s.asked.iter().all(|other| other.id() != asked.id());
            s.server == server && !s.is_doubtful && has_room
        };
        let token = match self.open.iter().find(|(_, stream)| fits(stream)) {
            Some((token, _)) => *token,
            None => self.open(epoll, from, server)?,
        };
        self.by_exchange.insert(asked.exchange, token);
        let Some(stream) = self.open.get_mut(&token) else { return Ok(()) };
        stream.out.extend_from_slice(&(asked.packet.len() as u16).to_be_bytes());
        stream.out.extend_from_slice(&asked.packet);
        stream.asked.push(asked);
        stream.want_room(epoll, token)
    }

    fn open(&mut self, epoll: &Epoll, from: IpAddr, server: SocketAddr) -> io::Result<u64> {
        let socket = net::outgoing::tcp(SocketAddr::new(from, 0), server)?;
        self.serial += 1;
        let token = STREAM | self.serial;
        epoll.add(socket.as_fd(), token, Interest::Write)?;
        let (out, received, asked) = (Vec::new(), Vec::new(), Vec::new());
        let (wants_room, has_served, is_doubtful) = (true, false, false);
        let stream = Stream { socket, server, from, out, wants_room, received, asked, has_served, is_doubtful };
        self.open.insert(token, stream);
        Ok(token)
    }

    /// Nothing more is heard of this exchange; its stream goes on if it has had its reply.
    pub fn close(&mut self, exchange: ExchangeId) {
        let Some(token) = self.by_exchange.remove(&exchange) else { return };
        let idle = self.open.values().filter(|s| s.asked.is_empty()).count();
        let Some(stream) = self.open.get_mut(&token) else { return };
        let answered = |asked: &Asked| asked.exchange != exchange || asked.is_answered;
        stream.is_doubtful |= !stream.asked.iter().all(answered);
        stream.asked.retain(|asked| asked.exchange != exchange);
        if stream.asked.is_empty() && (stream.is_doubtful || idle >= IDLE_MAX) {
            self.open.remove(&token);
        }
    }

    pub fn on_event(&mut self, epoll: &Epoll, token: u64, buffer: &mut [u8], mut hand_on: impl FnMut(Came<'_>)) {
        let Some(stream) = self.open.get_mut(&token) else { return };
        if stream.go_on(epoll, token, buffer).is_ok() {
            return stream.hand_on(&mut hand_on);
        }
        let Some(broken) = self.open.remove(&token) else { return };
        for mut asked in broken.asked {
            let (exchange, repeats) = (asked.exchange, broken.has_served && asked.may_repeat);
            self.by_exchange.remove(&exchange);
            asked.may_repeat = false;
            if !repeats || self.ask(epoll, broken.from, broken.server, asked).is_err() {
                self.by_exchange.remove(&exchange);
                hand_on(Came::Failed(exchange));
            }
        }
    }
}

impl Stream {
    fn want_room(&mut self, epoll: &Epoll, token: u64) -> io::Result<()> {
        if self.wants_room == self.out.is_empty() {
            self.wants_room = !self.out.is_empty();
            let interest = if self.wants_room { Interest::Write } else { Interest::Read };
            epoll.change(self.socket.as_fd(), token, interest)?;
        }
        Ok(())
    }

    /// Writes what is left to write; when nothing is, reads.
    fn go_on(&mut self, epoll: &Epoll, token: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.wants_room {
            match self.socket.write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
            return self.want_room(epoll, token);
        }
        match self.socket.read(buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.received.extend_from_slice(&buffer[..n]);
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Hands on all whole messages; what nobody asked is dropped.
    fn hand_on(&mut self, hand_on: &mut impl FnMut(Came<'_>)) {
        let mut at = 0;
        while let Some(message) = message_at(&self.received[at..]) {
            if let Some(asked) = self.asked.iter_mut().find(|asked| message.starts_with(asked.id())) {
                (asked.is_answered, self.has_served) = (true, true);
                hand_on(Came::Packet(asked.exchange, message));
            }
            at += PREFIX + message.len();
        }
        self.received.drain(..at);
    }
}

fn message_at(stream: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = stream.split_first_chunk::<PREFIX>()?;
    rest.get(..usize::from(u16::from_be_bytes(*prefix)))
}
