//! The sockets of questions that are under way: one for each exchange, from a port drawn for it alone.
//!
//! Bounds: as many as the resolver has exchanges. A stream owns the octets that have not gone out yet and those that
//! have come. Decides nothing: what came is handed on, what cannot be had is told.

use net::epoll::{Epoll, Interest};
use resolver::{ExchangeId, Via};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Ports tried before it is said that none can be had.
const PORTS_TRIED: usize = 16;
/// The longest datagram that is read: more was not asked for.
const DATAGRAM_MAX: usize = 4096;
const WAKE: u64 = u64::MAX;
/// Packets read from one socket before the others get their turn: a flood of forged ones ends at the first anyway.
const PACKETS_PER_TURN_MAX: usize = 4;

pub struct Upstream {
    epoll: Epoll,
    exchanges: HashMap<u64, Socket>,
    /// Source addresses; the first of the server's family is used.
    outgoing: Vec<IpAddr>,
    buffer: Vec<u8>,
}

enum Socket {
    Udp(UdpSocket),
    Tcp(Stream),
}

struct Stream {
    stream: TcpStream,
    out: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
}

/// What came of an exchange.
pub enum Came<'a> {
    Packet(ExchangeId, &'a [u8]),
    Failed(ExchangeId),
}

fn token(id: ExchangeId) -> u64 {
    u64::from(id.slot) << 32 | u64::from(id.serial)
}

fn id(token: u64) -> ExchangeId {
    ExchangeId { slot: (token >> 32) as u32, serial: token as u32 }
}

impl Upstream {
    pub fn new(wake: &impl AsFd, outgoing: Vec<IpAddr>) -> io::Result<Upstream> {
        let epoll = Epoll::new()?;
        epoll.add(wake.as_fd(), WAKE, Interest::Read)?;
        Ok(Upstream { epoll, exchanges: HashMap::new(), outgoing, buffer: vec![0; 2 + usize::from(u16::MAX)] })
    }

    /// Sends a packet; `draw_port` gives source ports.
    pub fn send(
        &mut self,
        exchange: ExchangeId,
        server: SocketAddr,
        via: Via,
        packet: &[u8],
        draw_port: impl FnMut() -> u16,
    ) -> io::Result<()> {
        let from = self.outgoing.iter().copied().find(|ip| ip.is_ipv4() == server.is_ipv4());
        let from = from.ok_or(ErrorKind::AddrNotAvailable)?;
        let token = token(exchange);
        let socket = match via {
            Via::Udp => {
                let socket = datagram_socket(from, server, draw_port)?;
                self.epoll.add(socket.as_fd(), token, Interest::Read)?;
                socket.send(packet)?;
                Socket::Udp(socket)
            }
            Via::Tcp => {
                let stream = net::outgoing::tcp(SocketAddr::new(from, 0), server)?;
                self.epoll.add(stream.as_fd(), token, Interest::Write)?;
                let out = [&(packet.len() as u16).to_be_bytes(), packet].concat();
                Socket::Tcp(Stream { stream, out, sent: 0, received: Vec::new() })
            }
        };
        self.exchanges.insert(token, socket);
        Ok(())
    }

    pub fn close(&mut self, exchange: ExchangeId) {
        self.exchanges.remove(&token(exchange));
    }

    /// Waits until something comes, somebody rings, or the time is over; how many events there are.
    pub fn wait(&mut self, at_most: Option<Duration>) -> io::Result<usize> {
        self.epoll.wait(at_most)
    }

    /// Whether event `i` is somebody who rang.
    pub fn is_ring(&self, i: usize) -> bool {
        self.epoll.token(i) == WAKE
    }

    /// Hands on what event `i` of the last wait brought.
    pub fn on_event(&mut self, i: usize, mut hand_on: impl FnMut(Came<'_>)) {
        let token = self.epoll.token(i);
        let Some(socket) = self.exchanges.get_mut(&token) else { return };
        match socket {
            Socket::Udp(socket) => read_datagrams(socket, id(token), &mut self.buffer, hand_on),
            Socket::Tcp(stream) => match stream.go_on(&self.epoll, token, &mut self.buffer) {
                Ok(Some(message)) => hand_on(Came::Packet(id(token), &message)),
                Ok(None) => {}
                Err(_) => hand_on(Came::Failed(id(token))),
            },
        }
    }
}

fn datagram_socket(from: IpAddr, server: SocketAddr, mut draw_port: impl FnMut() -> u16) -> io::Result<UdpSocket> {
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    for _ in 0..PORTS_TRIED {
        match net::outgoing::udp(SocketAddr::new(from, draw_port()), server) {
            Err(e) if matches!(e.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => last = e,
            other => return other,
        }
    }
    Err(last)
}

fn read_datagrams(socket: &UdpSocket, id: ExchangeId, buffer: &mut [u8], mut hand_on: impl FnMut(Came<'_>)) {
    for _ in 0..PACKETS_PER_TURN_MAX {
        match socket.recv(&mut buffer[..DATAGRAM_MAX]) {
            Ok(n) => hand_on(Came::Packet(id, &buffer[..n])),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) => return hand_on(Came::Failed(id)),
        }
    }
}

impl Stream {
    /// Writes what is left to write, then reads. Some: the whole message has come.
    fn go_on(&mut self, epoll: &Epoll, token: u64, buffer: &mut [u8]) -> io::Result<Option<Vec<u8>>> {
        if self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
            if self.sent == self.out.len() {
                epoll.change(self.stream.as_fd(), token, Interest::Read)?;
            }
            return Ok(None);
        }
        match self.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => self.received.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
        let Some((prefix, rest)) = self.received.split_first_chunk::<2>() else { return Ok(None) };
        Ok(rest.get(..usize::from(u16::from_be_bytes(*prefix))).map(<[u8]>::to_vec))
    }
}
