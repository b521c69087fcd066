//! Datagram sockets, each connected to one server and bound to a port that was drawn. One question at a time.

use super::{Came, Parcel};
use net::epoll::{Epoll, Interest};
use resolver::{ByHash, Chance, Drawn, ExchangeId, Line, Ports, random_port};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Ports tried before it is said that none can be had.
const PORTS_TRIED: usize = 16;
/// The longest datagram that is read: more was not asked for.
const DATAGRAM_MAX: usize = 4096;

/// By number; a number is used again when its socket is closed.
#[derive(Default)]
pub struct Lines {
    open: Vec<Option<Open>>,
    free: Vec<u32>,
    /// By `ExchangeId::number`.
    by_exchange: ByHash<u32>,
    ports: Ports,
    serial: u32,
    /// Kept for its room.
    over: Vec<u32>,
}

struct Open {
    socket: UdpSocket,
    server: SocketAddr,
    line: Line,
    /// Tells events of this socket from those of the number's last one.
    serial: u32,
    exchange: ExchangeId,
    message_id: [u8; 2],
    /// Of the question before: its reply may come twice.
    last_id: Option<[u8; 2]>,
    /// A packet with the right id has come.
    has_heard: bool,
}

/// The highest bit is left to streams.
fn token(number: u32, serial: u32) -> u64 {
    u64::from(serial & 0x7FFF_FFFF) << 32 | u64::from(number)
}

impl Lines {
    pub fn send(
        &mut self,
        epoll: &Epoll,
        now_ns: u64,
        from: IpAddr,
        parcel: &Parcel<'_>,
        chance: &mut Chance,
    ) -> io::Result<()> {
        let drawn = self.ports.draw(now_ns, parcel.server, chance, &mut self.over);
        while let Some(number) = self.over.pop() {
            self.shut(number);
        }
        let number = match drawn {
            Drawn::Again(line) => self.take(line, parcel),
            Drawn::New(port) => self.open(epoll, now_ns, SocketAddr::new(from, port), parcel, chance)?,
        };
        self.by_exchange.insert(parcel.exchange.number(), number);
        let open = self.open.get(number as usize).and_then(Option::as_ref);
        let sent = open.ok_or(ErrorKind::NotConnected)?.socket.send(parcel.packet);
        sent.map(drop).inspect_err(|_| {
            self.close(now_ns, parcel.exchange);
        })
    }

    /// A line that is open is this exchange's.
    fn take(&mut self, line: Line, parcel: &Parcel<'_>) -> u32 {
        if let Some(open) = self.open.get_mut(line.number as usize).and_then(Option::as_mut) {
            open.line.uses += 1;
            open.exchange = parcel.exchange;
            open.last_id = Some(open.message_id);
            open.message_id = parcel.message_id();
            open.has_heard = false;
        }
        line.number
    }

    fn open(
        &mut self,
        epoll: &Epoll,
        now_ns: u64,
        from: SocketAddr,
        parcel: &Parcel<'_>,
        chance: &mut Chance,
    ) -> io::Result<u32> {
        let socket = bound(from, parcel.server, chance)?;
        self.serial = self.serial.wrapping_add(1);
        let number = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            (self.open.len() - 1) as u32
        });
        if let Err(e) = epoll.add(socket.as_fd(), token(number, self.serial), Interest::Read) {
            self.free.push(number);
            return Err(e);
        }
        self.open[number as usize] = Some(Open {
            socket,
            server: parcel.server,
            line: Line { number, opened_ns: now_ns, uses: 1 },
            serial: self.serial & 0x7FFF_FFFF,
            exchange: parcel.exchange,
            message_id: parcel.message_id(),
            last_id: None,
            has_heard: false,
        });
        Ok(number)
    }

    /// True if the exchange was one of these. Its line waits for another question if it has had its reply.
    pub fn close(&mut self, now_ns: u64, exchange: ExchangeId) -> bool {
        let Some(number) = self.by_exchange.remove(&exchange.number()) else { return false };
        let open = self.open.get(number as usize).and_then(Option::as_ref);
        let is_kept = open.is_some_and(|o| o.has_heard && self.ports.release(now_ns, o.server, o.line));
        if !is_kept {
            self.shut(number);
        }
        true
    }

    fn shut(&mut self, number: u32) {
        if self.open.get_mut(number as usize).and_then(Option::take).is_some() {
            self.free.push(number);
        }
    }

    pub fn on_event(&mut self, event: u64, buffer: &mut [u8], mut hand_on: impl FnMut(Came<'_>)) {
        let number = event as u32;
        let Some(open) = self.open.get_mut(number as usize).and_then(Option::as_mut) else { return };
        if token(number, open.serial) != event {
            return;
        }
        let room = buffer.len().min(DATAGRAM_MAX);
        match open.socket.recv(&mut buffer[..room]) {
            // Nobody waits: a reply that came twice, or a guess that came too late.
            Ok(_) if self.by_exchange.get(&open.exchange.number()) != Some(&number) => {}
            Ok(n) if open.is_old(&buffer[..n]) => {}
            Ok(n) => {
                open.has_heard |= buffer[..n].starts_with(&open.message_id);
                hand_on(Came::Packet(open.exchange, &buffer[..n]));
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) if self.by_exchange.get(&open.exchange.number()) == Some(&number) => {
                hand_on(Came::Failed(open.exchange))
            }
            Err(_) => {}
        }
    }

    #[cfg(test)]
    pub fn open_now(&self) -> usize {
        self.open.len() - self.free.len()
    }
}

impl Open {
    fn is_old(&self, packet: &[u8]) -> bool {
        self.last_id.is_some_and(|last| last != self.message_id && packet.starts_with(&last))
    }
}

fn bound(mut from: SocketAddr, server: SocketAddr, chance: &mut Chance) -> io::Result<UdpSocket> {
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    for _ in 0..PORTS_TRIED {
        match net::outgoing::udp(from, server) {
            Err(e) if matches!(e.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => last = e,
            other => return other,
        }
        from.set_port(random_port(chance));
    }
    Err(last)
}
