//! Datagram sockets, each connected to one server and bound to a port that was drawn. Questions are collected and leave
//! when the turn ends, those of one line together; replies are told apart by their ids.
//!
//! A line remembers the ids of all questions that have left from it, so that a reply that comes twice, or too late, is
//! not taken for a guess. An id that it does not know is handed on to all that wait on it, and the line is used no more.
//! Bounds: `USES_MAX` questions a line, `PARCELS_MAX` that are collected.

use super::{Came, Parcel};
use net::epoll::{Epoll, Interest};
use net::volley::Volley;
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
    /// What leaves when the turn ends: lines by their tokens, and their packets in `octets`.
    parcels: Vec<(u64, Range<usize>)>,
    octets: Vec<u8>,
    /// Tokens of lines that nobody waits on any more, to be put away when the turn ends.
    quiet: Vec<u64>,
    /// Kept for its room.
    over: Vec<u32>,
    volley: Volley,
}

struct Open {
    socket: UdpSocket,
    server: SocketAddr,
    opened_ns: u64,
    token: u64,
    /// All questions that have left from here.
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
    message_id: [u8; 2],
    exchange: ExchangeId,
    waits: bool,
}

/// The highest bit is left to streams.
fn token(number: u32, serial: u32) -> u64 {
    u64::from(serial & 0x7FFF_FFFF) << 32 | u64::from(number)
}

impl Lines {
    /// Takes a question; it leaves when the turn ends.
    pub fn send(
        &mut self,
        epoll: &Epoll,
        now_ns: u64,
        from: IpAddr,
        parcel: &Parcel<'_>,
        chance: &mut Chance,
    ) -> io::Result<()> {
        let (open, message_id) = (&self.open, parcel.message_id());
        let fits = |number| line(open, number).is_some_and(|line| line.fits(message_id));
        let drawn = self.ports.draw(now_ns, parcel.server, chance, &mut self.over, fits);
        while let Some(number) = self.over.pop() {
            self.shut(number);
        }
        let number = match drawn {
            Drawn::Again(line) => line.number,
            Drawn::Along(number) => number,
            Drawn::New(port) => self.open(epoll, now_ns, SocketAddr::new(from, port), parcel.server, chance)?,
        };
        let Some(open) = self.open.get_mut(number as usize).and_then(Option::as_mut) else { return Ok(()) };
        open.asked.push(Asked { message_id, exchange: parcel.exchange, waits: true });
        open.waiting += 1;
        self.by_exchange.insert(parcel.exchange.number(), number);
        let start = self.octets.len();
        self.octets.extend_from_slice(parcel.packet);
        self.parcels.push((open.token, start..self.octets.len()));
        Ok(())
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
        let Some(number) = self.by_exchange.remove(&exchange.number()) else { return false };
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

    /// Sends what was collected, then puts away the lines that nobody waits on. Those whose questions cannot leave are
    /// told so, and true is returned.
    pub fn end_turn(&mut self, now_ns: u64, mut hand_on: impl FnMut(Came<'_>)) -> bool {
        self.ports.end_turn();
        let mut parcels = std::mem::take(&mut self.parcels);
        // With several servers their questions come mixed; and those of one length leave at once.
        parcels.sort_unstable_by_key(|(token, at)| (*token, Reverse(at.len()), at.start));
        let mut any_failed = false;
        for run in parcels.chunk_by(|(a, _), (b, _)| a == b) {
            let Some(open) = by_token(&mut self.open, run[0].0) else { continue };
            if open.send(run, &self.octets, &mut self.volley).is_err() {
                open.fail(&mut hand_on);
                any_failed = true;
            }
        }
        parcels.clear();
        self.parcels = parcels;
        self.octets.clear();
        self.put_away(now_ns);
        any_failed
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

fn line(open: &[Option<Open>], number: u32) -> Option<&Open> {
    open.get(number as usize)?.as_ref()
}

/// The line that was meant, not one that has its number by now.
fn by_token(open: &mut [Option<Open>], token: u64) -> Option<&mut Open> {
    open.get_mut(token as u32 as usize)?.as_mut().filter(|open| open.token == token)
}

impl Open {
    fn new(socket: UdpSocket, server: SocketAddr, opened_ns: u64, token: u64) -> Open {
        let (asked, waiting, is_quiet, has_heard, is_spoilt) = (Vec::new(), 0, false, false, false);
        Open { socket, server, opened_ns, token, asked, waiting, is_quiet, has_heard, is_spoilt }
    }

    /// Two questions with one id could not be told apart.
    fn fits(&self, message_id: [u8; 2]) -> bool {
        !self.is_spoilt && self.asked.iter().all(|asked| asked.message_id != message_id)
    }

    fn send(&self, run: &[(u64, Range<usize>)], octets: &[u8], volley: &mut Volley) -> io::Result<()> {
        let mut gone = 0;
        while let Some(rest @ [(_, first), ..]) = run.get(gone..) {
            let packet = |at: &Range<usize>| octets.get(at.clone()).unwrap_or_default();
            gone += match rest.len() {
                1 => self.socket.send(packet(first)).map(|_| 1)?,
                _ => volley.send(&self.socket, rest.iter().map(|(_, at)| packet(at)))?,
            };
        }
        Ok(())
    }

    fn hear(&mut self, packet: &[u8], hand_on: &mut impl FnMut(Came<'_>)) {
        // Those that wait are the last.
        match self.asked.iter().rev().find(|asked| packet.starts_with(&asked.message_id)) {
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
