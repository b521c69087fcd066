//! Datagram sockets, each connected to one server and bound to a port that was drawn. Questions are collected and leave
//! when the turn ends; only then their ports are drawn, in an order of lengths in which the kernel cuts them out of few
//! messages (`net::volley::arrange`). Replies are told apart by their ids.
//!
//! A line remembers the ids of all questions that have left from it, so that a reply that comes twice, or too late, is
//! not taken for a guess. An id that it does not know is handed on to all that wait on it, and the line is used no more.
//! Bounds: `USES_MAX` questions a line, `PARCELS_MAX` that are collected.

use super::{Came, Parcel};
use crate::log;
use net::epoll::{Epoll, Interest};
use net::volley::{self, Volley};
use resolver::{ByHash, Chance, Drawn, ExchangeId, Line, Ports, random_port};
use std::cmp::Reverse;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsFd;

/// Ports tried before it is said that none can be had.
const PORTS_TRIED: usize = 16;
/// Questions that wait for the turn to end; with more it ends for them.
const PARCELS_MAX: usize = 256;

/// By number; a number is used again when its socket is closed.
#[derive(Default)]
pub struct Lines {
    open: Vec<Option<Open>>,
    free: Vec<u32>,
    /// By `ExchangeId::number`.
    by_exchange: ByHash<u32>,
    ports: Ports,
    serial: u32,
    /// What leaves when the turn ends, by the place of its server in `servers`; the packets are in `octets`.
    parcels: Vec<Waiting>,
    servers: Vec<(SocketAddr, IpAddr)>,
    octets: Vec<u8>,
    /// Parcels that leave from one line.
    run: Vec<Range<usize>>,
    /// Exchanges that could not leave.
    failed: Vec<ExchangeId>,
    /// Tokens of lines that nobody waits on any more, to be put away when the turn ends.
    quiet: Vec<u64>,
    /// Kept for its room.
    over: Vec<u32>,
    volley: Volley,
}

struct Waiting {
    server: usize,
    exchange: ExchangeId,
    at: Range<usize>,
}

struct Open {
    socket: UdpSocket,
    server: SocketAddr,
    opened_ns: u64,
    token: u64,
    /// The ids of all questions that have left from here, and what else there is to know of each.
    ids: Vec<u16>,
    asked: Vec<Asked>,
    /// How many of them wait.
    waiting: usize,
    /// It stands among `quiet`.
    is_quiet: bool,
    /// A packet with the right id has come.
    has_heard: bool,
    /// Somebody guessed at an id, or the network said no: it gets no more questions.
    is_spoilt: bool,
}

struct Asked {
    exchange: ExchangeId,
    waits: bool,
}

/// The highest bit is left to streams.
fn token(number: u32, serial: u32) -> u64 {
    u64::from(serial & 0x7FFF_FFFF) << 32 | u64::from(number)
}

impl Lines {
    /// Takes a question; it leaves when the turn ends, from this address of ours.
    pub fn send(&mut self, from: IpAddr, parcel: &Parcel<'_>) {
        let to = (parcel.server, from);
        let server = self.servers.iter().position(|known| *known == to).unwrap_or_else(|| {
            self.servers.push(to);
            self.servers.len() - 1
        });
        let start = self.octets.len();
        self.octets.extend_from_slice(parcel.packet);
        self.parcels.push(Waiting { server, exchange: parcel.exchange, at: start..self.octets.len() });
    }

    pub fn is_full(&self) -> bool {
        self.parcels.len() >= PARCELS_MAX
    }

    fn open(
        &mut self,
        epoll: &Epoll,
        now_ns: u64,
        from: SocketAddr,
        server: SocketAddr,
        chance: &mut Chance,
    ) -> io::Result<u32> {
        let socket = bound(from, server, chance)?;
        self.serial = self.serial.wrapping_add(1);
        let number = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            (self.open.len() - 1) as u32
        });
        let token = token(number, self.serial);
        if let Err(e) = epoll.add(socket.as_fd(), token, Interest::Read) {
            self.free.push(number);
            return Err(e);
        }
        self.open[number as usize] = Some(Open::new(socket, server, now_ns, token));
        Ok(number)
    }

    /// True if the exchange was one of these.
    pub fn close(&mut self, exchange: ExchangeId) -> bool {
        let Some(number) = self.by_exchange.remove(&exchange.number()) else { return self.take_back(exchange) };
        if let Some(open) = self.open.get_mut(number as usize).and_then(Option::as_mut)
            && let Some(asked) = open.asked.iter_mut().rev().find(|asked| asked.exchange == exchange && asked.waits)
        {
            asked.waits = false;
            open.waiting -= 1;
            if open.waiting == 0 && !std::mem::replace(&mut open.is_quiet, true) {
                self.quiet.push(open.token);
            }
        }
        true
    }

    /// True if it was to leave with this turn.
    fn take_back(&mut self, exchange: ExchangeId) -> bool {
        let at = self.parcels.iter().position(|parcel| parcel.exchange == exchange);
        at.map(|at| self.parcels.swap_remove(at)).is_some()
    }

    /// Sends what was collected, then puts away the lines that nobody waits on; says whose questions cannot leave.
    pub fn end_turn(&mut self, epoll: &Epoll, now_ns: u64, chance: &mut Chance) -> &[ExchangeId] {
        self.failed.clear();
        let (mut parcels, mut last) = (std::mem::take(&mut self.parcels), None);
        parcels.sort_unstable_by_key(|parcel| (parcel.server, Reverse(parcel.at.len()), parcel.at.start));
        for all in parcels.chunk_by_mut(|a, b| a.server == b.server) {
            volley::arrange(all, |parcel| parcel.at.len());
        }
        for Waiting { server, exchange, at } in parcels.drain(..) {
            match self.line_of(epoll, now_ns, server, exchange, &at, chance) {
                Ok(number) if last == Some(number) => {}
                Ok(number) => self.leave(last.replace(number)),
                Err(e) => {
                    log::debug("a question to a server could not be sent", &[("why", &e)]);
                    self.failed.push(exchange);
                    continue;
                }
            }
            self.run.push(at);
        }
        self.leave(last);
        self.parcels = parcels;
        self.servers.clear();
        self.octets.clear();
        self.ports.end_turn();
        self.put_away(now_ns);
        &self.failed
    }

    /// The number of the line that a question leaves from, with its place taken there.
    fn line_of(
        &mut self,
        epoll: &Epoll,
        now_ns: u64,
        server: usize,
        exchange: ExchangeId,
        at: &Range<usize>,
        chance: &mut Chance,
    ) -> io::Result<u32> {
        let (server, from) = *self.servers.get(server).ok_or(ErrorKind::AddrNotAvailable)?;
        let packet = self.octets.get(at.clone()).unwrap_or_default();
        let (open, id) = (&self.open, id_of(packet).unwrap_or(0));
        let fits = |number| line(open, number).is_some_and(|line| line.fits(id));
        let drawn = self.ports.draw(now_ns, server, chance, &mut self.over, fits);
        while let Some(number) = self.over.pop() {
            self.shut(number);
        }
        let number = match drawn {
            Drawn::Again(line) => line.number,
            Drawn::Along(number) => number,
            Drawn::New(port) => self.open(epoll, now_ns, SocketAddr::new(from, port), server, chance)?,
        };
        if let Some(open) = self.open.get_mut(number as usize).and_then(Option::as_mut) {
            open.ids.push(id);
            open.asked.push(Asked { exchange, waits: true });
            open.waiting += 1;
            self.by_exchange.insert(exchange.number(), number);
        }
        Ok(number)
    }

    /// Sends the run of questions that was collected, from this line.
    fn leave(&mut self, number: Option<u32>) {
        let open = number.and_then(|number| self.open.get_mut(number as usize)).and_then(Option::as_mut);
        if let Some(open) = open
            && open.send(&self.run, &self.octets, &mut self.volley).is_err()
        {
            open.is_spoilt = true;
            self.failed.extend(open.waiting());
        }
        self.run.clear();
    }

    fn put_away(&mut self, now_ns: u64) {
        while let Some(token) = self.quiet.pop() {
            let number = token as u32;
            let Some(open) = by_token(&mut self.open, token) else { continue };
            open.is_quiet = false;
            if open.waiting > 0 {
                continue;
            }
            let line = Line { number, opened_ns: open.opened_ns, uses: open.asked.len() as u8 };
            if open.is_spoilt || !open.has_heard || !self.ports.release(now_ns, open.server, line) {
                self.shut(number);
            }
        }
    }

    fn shut(&mut self, number: u32) {
        if self.open.get_mut(number as usize).and_then(Option::take).is_some() {
            self.free.push(number);
        }
    }

    pub fn on_event(&mut self, event: u64, mut hand_on: impl FnMut(Came<'_>)) {
        let Some(open) = by_token(&mut self.open, event) else { return };
        match self.volley.recv(&open.socket, open.waiting) {
            Ok(n) => (0..n).for_each(|i| open.hear(self.volley.packet(i), &mut hand_on)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => open.fail(&mut hand_on),
        }
    }

    #[cfg(test)]
    pub fn open_now(&self) -> usize {
        self.open.len() - self.free.len()
    }
}

/// By which a reply is told from others.
fn id_of(packet: &[u8]) -> Option<u16> {
    packet.first_chunk().map(|id| u16::from_ne_bytes(*id))
}

fn line(open: &[Option<Open>], number: u32) -> Option<&Open> {
    open.get(number as usize)?.as_ref()
}

/// The line that was meant, not one that has its number by now.
fn by_token(open: &mut [Option<Open>], token: u64) -> Option<&mut Open> {
    open.get_mut(token as u32 as usize)?.as_mut().filter(|open| open.token == token)
}

impl Open {
    fn new(socket: UdpSocket, server: SocketAddr, opened_ns: u64, token: u64) -> Open {
        let (ids, asked) = (Vec::new(), Vec::new());
        let (waiting, is_quiet, has_heard, is_spoilt) = (0, false, false, false);
        Open { socket, server, opened_ns, token, ids, asked, waiting, is_quiet, has_heard, is_spoilt }
    }

    /// Two questions with one id could not be told apart.
    fn fits(&self, id: u16) -> bool {
        !self.is_spoilt && !self.ids.contains(&id)
    }

    fn send(&self, run: &[Range<usize>], octets: &[u8], volley: &mut Volley) -> io::Result<()> {
        let packet = |at: &Range<usize>| octets.get(at.clone()).unwrap_or_default();
        let mut gone = 0;
        while let Some(rest @ [first, ..]) = run.get(gone..) {
            gone += match rest.len() {
                1 => self.socket.send(packet(first)).map(|_| 1)?,
                _ => volley.send(&self.socket, rest.iter().map(packet))?,
            };
        }
        Ok(())
    }

    fn hear(&mut self, packet: &[u8], hand_on: &mut impl FnMut(Came<'_>)) {
        // Those that wait are the last.
        let place = id_of(packet).and_then(|id| self.ids.iter().rposition(|asked| *asked == id));
        match place.and_then(|place| self.asked.get(place)) {
            Some(asked) => {
                self.has_heard = true;
                // Else it has come twice, or too late.
                if asked.waits {
                    hand_on(Came::Packet(asked.exchange, packet));
                }
            }
            None => {
                self.is_spoilt = true;
                self.waiting().for_each(|exchange| hand_on(Came::Packet(exchange, packet)));
            }
        }
    }

    fn fail(&mut self, hand_on: &mut impl FnMut(Came<'_>)) {
        self.is_spoilt = true;
        self.waiting().for_each(|exchange| hand_on(Came::Failed(exchange)));
    }

    fn waiting(&self) -> impl Iterator<Item = ExchangeId> {
        self.asked.iter().filter(|asked| asked.waits).map(|asked| asked.exchange)
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
