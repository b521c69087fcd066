//! Datagrams to other servers that answer with one: questions for SOAs, NOTIFYs. Each from a socket of its own, on a port that
//! the kernel draws, heard by that peer only, under an id that is drawn anew; sent again until it is answered or its time is over.
//!
//! Bound: who asks keeps to `refresh::ASKS_MAX` and `announce::AT_ONCE_MAX`.

use crate::clock::wall_s;
use crate::secondaries::fetching::{disbelief_text, local, rcode_text};
use net::epoll::{Epoll, Interest};
use resolver::Chance;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;
use transfer::ask::{self, Wrong};
use transfer::refresh::Ms;
use transfer::remote::Remote;
use transfer::tsig::{self, Asked, Disbelief, Keys};

/// How long an answer is waited for after each time that it is sent.
const WAITS_MS: [Ms; 3] = [1_000, 2_000, 3_000];
const DATAGRAM_MAX: usize = 65_535;
/// Datagrams of one that are looked at in one go: whoever sends more than that has the others wait for his turn only.
const HEARD_MAX: usize = 16;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A SOA's rdata; None: it does not fit into a datagram.
    Soa(Option<Vec<u8>>),
    /// A NOTIFY was answered.
    Told,
    /// Nothing came.
    Silence(String),
    /// What came is of no use.
    Useless(String),
}

struct Exchange<W> {
    what: W,
    socket: UdpSocket,
    is_notify: bool,
    question: Vec<u8>,
    packet: Vec<u8>,
    check: Option<Asked>,
    /// Why something that came was not believed: it may have been anybody's.
    disbelief: Option<Disbelief>,
    sent: usize,
    until: Ms,
}

/// All that are under way; `W` is what the caller knows of each.
pub struct Exchanges<W> {
    epoll: Epoll,
    slots: Vec<Option<Exchange<W>>>,
    free: Vec<usize>,
    deadlines: BTreeSet<(Ms, usize)>,
    chance: Chance,
}

/// A message whose id is still to be drawn.
pub struct Unsent<'a> {
    pub to: &'a Remote,
    pub source: Option<IpAddr>,
    pub is_notify: bool,
    pub message: Vec<u8>,
}

impl<W> Exchanges<W> {
    /// `wake` ends a wait, too.
    pub fn new(wake: &impl AsFd, chance: Chance) -> io::Result<Exchanges<W>> {
        let epoll = Epoll::new()?;
        epoll.add(wake.as_fd(), u64::MAX, Interest::Read)?;
        Ok(Exchanges { epoll, slots: Vec::new(), free: Vec::new(), deadlines: BTreeSet::new(), chance })
    }

    pub fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    /// Sends a message; `what` comes back with what is heard. Err: it comes back at once.
    pub fn send(&mut self, now: Ms, unsent: Unsent<'_>, keys: &Keys, what: W) -> Result<(), (W, Heard)> {
        let Unsent { to, source, is_notify, message: mut question } = unsent;
        let id = (self.chance.number() >> 16) as u16;
        question.iter_mut().zip(id.to_be_bytes()).for_each(|(place, octet)| *place = octet);
        let key = to.key.as_ref().map(|name| keys.named(name.bytes()));
        if let Some(None) = key {
            return Err((what, Heard::Useless("there is no such key any more".to_string())));
        }
        let mut packet = question.clone();
        let check = key.flatten().map(|key| tsig::sign_request(key, &mut packet, wall_s()));
        let socket = match net::outgoing::udp(local(source, to.address), to.address) {
            Ok(socket) => socket,
            Err(e) => return Err((what, Heard::Silence(e.to_string()))),
        };
        let i = self.free.pop().unwrap_or(self.slots.len());
        if i == self.slots.len() {
            self.slots.push(None);
        }
        if let Err(e) = self.epoll.add(socket.as_fd(), i as u64, Interest::Read) {
            self.free.push(i);
            return Err((what, Heard::Silence(e.to_string())));
        }
        let exchange =
            Exchange { what, socket, is_notify, question, packet, check, disbelief: None, sent: 0, until: now };
        self.slots[i] = Some(exchange);
        match self.send_again(now, i) {
            None => Ok(()),
            Some(over) => Err(over),
        }
    }

    /// Once more, if there is time; else it is over.
    fn send_again(&mut self, now: Ms, i: usize) -> Option<(W, Heard)> {
        let exchange = self.slots.get_mut(i)?.as_mut()?;
        self.deadlines.remove(&(exchange.until, i));
        let Some(wait) = WAITS_MS.get(exchange.sent) else {
            let heard = match exchange.disbelief {
                Some(why) => Heard::Useless(disbelief_text(why)),
                None => Heard::Silence("it does not answer".to_string()),
            };
            return self.end(i, heard);
        };
        (exchange.sent, exchange.until) = (exchange.sent + 1, now + wait);
        self.deadlines.insert((exchange.until, i));
        match exchange.socket.send(&exchange.packet) {
            // A queue that is full now is not full the next time.
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => self.end(i, Heard::Silence(e.to_string())),
            _ => None,
        }
    }

    fn end(&mut self, i: usize, heard: Heard) -> Option<(W, Heard)> {
        let exchange = self.slots.get_mut(i)?.take()?;
        self.deadlines.remove(&(exchange.until, i));
        self.free.push(i);
        Some((exchange.what, heard))
    }

    pub fn next_deadline(&self) -> Option<Ms> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Waits for something to be heard, rung for, or over.
    pub fn wait(&mut self, at_most: Option<Duration>) -> io::Result<Vec<usize>> {
        let n = self.epoll.wait(at_most)?;
        Ok((0..n).filter_map(|i| usize::try_from(self.epoll.token(i)).ok()).filter(|i| *i < self.slots.len()).collect())
    }

    /// What was heard on one that `wait` has named.
    pub fn hear(&mut self, i: usize) -> Option<(W, Heard)> {
        let mut room = vec![0; DATAGRAM_MAX];
        for _ in 0..HEARD_MAX {
            let exchange = self.slots.get_mut(i)?.as_mut()?;
            let octets = match exchange.socket.recv(&mut room) {
                Ok(n) => &room[..n],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(e) => return self.end(i, Heard::Silence(e.to_string())),
            };
            if let Some(Err(why)) = exchange.check.as_mut().map(|check| check.check(octets, wall_s())) {
                // RFC 8945 section 5.3: whatever that was, the answer may still come.
                exchange.disbelief = Some(why);
                continue;
            }
            let heard = match exchange.is_notify {
                true => ask::notify_reply(octets, &exchange.question).map(|()| Heard::Told),
                false => ask::soa_reply(octets, &exchange.question).map(Heard::Soa),
            };
            match heard {
                Ok(heard) => return self.end(i, heard),
                Err(Wrong::Unrelated) => {}
                Err(wrong) => return self.end(i, Heard::Useless(wrong_text(wrong))),
            }
        }
        // What is left is heard at the next wait.
        None
    }

    /// The next whose time is over.
    pub fn next_over(&mut self, now: Ms) -> Option<(W, Heard)> {
        loop {
            let &(_, i) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
            if let Some(over) = self.send_again(now, i) {
                return Some(over);
            }
        }
    }
}

fn wrong_text(wrong: Wrong) -> String {
    match wrong {
        Wrong::Unrelated => "it answers something else than was asked".to_string(),
        Wrong::Malformed => "its answer is malformed".to_string(),
        Wrong::Rcode(rcode) => format!("it says {}", rcode_text(rcode)),
        Wrong::NoSoa => "it has no word of its own on the zone's SOA".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::Wake;
    use transfer::tsig::{Algorithm, Key};
    use wire::{Name, rtype};

    const APEX: &[u8] = b"\x01z\0";
    const RDATA: &[u8] = b"\0\0\0\0\0\x07\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04";
    const LONG: Duration = Duration::from_secs(20);

    fn key(secret: &[u8]) -> Key {
        Key::new(&Name::from_text(b"k.", None).unwrap(), Algorithm::Sha256, secret)
    }

    struct Bench {
        exchanges: Exchanges<u8>,
        _wake: Wake,
        peer: UdpSocket,
        to: Remote,
    }

    impl Bench {
        fn new(key: Option<&str>) -> Bench {
            let (wake, peer) = (Wake::new().unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
            peer.set_read_timeout(Some(LONG)).unwrap();
            let to = Remote {
                address: peer.local_addr().unwrap(),
                key: key.map(|key| Name::from_text(key.as_bytes(), None).unwrap()),
            };
            Bench { exchanges: Exchanges::new(&wake, Chance::new([7; 32])).unwrap(), _wake: wake, peer, to }
        }

        fn send(&mut self, now: Ms, keys: &Keys) -> Result<(), (u8, Heard)> {
            let message = ask::query(0, APEX, rtype::SOA);
            let unsent = Unsent { to: &self.to, source: None, is_notify: false, message };
            self.exchanges.send(now, unsent, keys, 9)
        }

        /// The peer answers what it was sent as `change` has it.
        fn answer(&mut self, change: impl Fn(&mut Vec<u8>)) {
            let mut room = [0; 512];
            let (n, from) = self.peer.recv_from(&mut room).unwrap();
            assert!(n >= 19);
            let mut reply = ask::notify(u16::from_be_bytes([room[0], room[1]]), APEX, Some((60, RDATA)));
            reply[2] = 0x84;
            change(&mut reply);
            self.peer.send_to(&reply, from).unwrap();
        }

        fn heard(&mut self) -> Option<(u8, Heard)> {
            let events = self.exchanges.wait(Some(LONG)).unwrap();
            events.into_iter().find_map(|i| self.exchanges.hear(i))
        }
    }

    #[test]
    fn the_first_answer_that_is_one_is_taken() {
        let mut bench = Bench::new(None);
        bench.send(0, &Keys::default()).unwrap();
        bench.answer(|reply| reply[0] ^= 1);
        assert_eq!(bench.heard(), None, "another id");
        assert_eq!(bench.exchanges.next_over(999), None);
        assert_eq!(bench.exchanges.next_over(1000), None, "it is sent again");
        bench.answer(|_| ());
        assert_eq!(bench.heard(), Some((9, Heard::Soa(Some(RDATA.to_vec())))));
        assert_eq!(bench.exchanges.next_deadline(), None);
    }

    #[test]
    fn who_talks_on_and_on_keeps_nobody_waiting() {
        let mut bench = Bench::new(None);
        bench.send(0, &Keys::default()).unwrap();
        let mut room = [0; 512];
        let (_, from) = bench.peer.recv_from(&mut room).unwrap();
        (0..3 * HEARD_MAX).for_each(|_| _ = bench.peer.send_to(b"nothing", from).unwrap());
        let mut turns = 0;
        loop {
            let events = bench.exchanges.wait(Some(Duration::ZERO)).unwrap();
            if events.is_empty() {
                break;
            }
            turns += 1;
            events.into_iter().for_each(|i| assert_eq!(bench.exchanges.hear(i), None));
        }
        assert_eq!(turns, 3);
        assert_eq!(bench.exchanges.next_over(999), None);
        assert_eq!(bench.exchanges.next_over(1000), None, "and is asked again");
        bench.answer(|_| ());
        assert_eq!(bench.heard(), Some((9, Heard::Soa(Some(RDATA.to_vec())))));
    }

    #[test]
    fn who_says_nothing_is_silent_after_three_times() {
        let mut bench = Bench::new(None);
        bench.send(0, &Keys::default()).unwrap();
        assert_eq!([1000, 3000, 5999].map(|now| bench.exchanges.next_over(now)), [None, None, None]);
        assert_eq!(bench.exchanges.next_over(6000), Some((9, Heard::Silence("it does not answer".to_string()))));
        bench.send(7000, &Keys::default()).unwrap();
        // Three that nobody waits for any more, and this one.
        (0..4).for_each(|_| bench.answer(|reply| reply[3] = 5));
        assert_eq!(bench.heard(), Some((9, Heard::Useless("it says REFUSED".to_string()))));
    }

    #[test]
    fn what_is_not_signed_rightly_is_not_believed() {
        let keys = Keys::new(vec![key(b"0123456789abcdef")]);
        let mut bench = Bench::new(Some("k."));
        bench.send(0, &keys).unwrap();
        bench.answer(|_| ());
        assert_eq!(bench.heard(), None);
        assert_eq!([1000, 3000].map(|now| bench.exchanges.next_over(now)), [None, None]);
        assert_eq!(bench.exchanges.next_over(6000), Some((9, Heard::Useless("it does not sign".to_string()))));
        let no_key = bench.send(0, &Keys::default());
        assert_eq!(no_key, Err((9, Heard::Useless("there is no such key any more".to_string()))));
    }
}
