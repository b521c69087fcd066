//! A network that loses, doubles, delays and damages, between clients and one worker. Everything follows from the seed.

use crate::Server;
use crate::rng::Rng;
use front::{DATAGRAM_MAX, Datagrams, Peer, Ticket};
use std::collections::BTreeMap;

/// What can happen to a packet: one in so many, 0 never.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub lost: usize,
    pub doubled: usize,
    pub damaged: usize,
    pub delay_max_ns: u64,
}

/// Packets on their way, by the time of their arrival.
pub struct Network {
    rng: Rng,
    faults: Faults,
    arriving: BTreeMap<(u64, u64), (Peer, Vec<u8>)>,
    sent: u64,
}

impl Network {
    pub fn new(seed: u64, faults: Faults) -> Network {
        Network { rng: Rng::new(seed), faults, arriving: BTreeMap::new(), sent: 0 }
    }

    pub fn send(&mut self, now_ns: u64, from: Peer, packet: &[u8]) {
        let chance = |rng: &mut Rng, n: usize| n > 0 && rng.one_in(n);
        if chance(&mut self.rng, self.faults.lost) {
            return;
        }
        let copies = if chance(&mut self.rng, self.faults.doubled) { 2 } else { 1 };
        for _ in 0..copies {
            let mut packet = packet.to_vec();
            if chance(&mut self.rng, self.faults.damaged) && !packet.is_empty() {
                let at = self.rng.below(packet.len());
                match self.rng.below(3) {
                    0 => packet.truncate(at),
                    1 => packet[at] ^= 1 << self.rng.below(8),
                    _ => packet[at] = self.rng.number() as u8,
                }
            }
            let arrival = now_ns + self.rng.number() % self.faults.delay_max_ns.max(1);
            self.sent += 1;
            self.arriving.insert((arrival, self.sent), (from, packet));
        }
    }

    /// Takes up to `max` packets that arrive together, as a receive call would.
    pub fn receive(&mut self, max: usize) -> Option<(u64, Batch)> {
        let time = self.arriving.keys().next()?.0;
        let mut batch = Batch::default();
        while batch.packets.len() < max
            && let Some(entry) = self.arriving.first_entry()
        {
            let (from, packet) = entry.remove();
            batch.push(from, &packet);
        }
        Some((time, batch))
    }
}

/// A batch as the drivers make it.
#[derive(Clone, Default)]
pub struct Batch {
    pub packets: Vec<(Peer, [u8; DATAGRAM_MAX], usize)>,
}

impl Batch {
    pub fn push(&mut self, from: Peer, packet: &[u8]) {
        let mut buffer = [0; DATAGRAM_MAX];
        let len = packet.len().min(DATAGRAM_MAX);
        buffer[..len].copy_from_slice(&packet[..len]);
        self.packets.push((from, buffer, len));
    }

    pub fn answers(&self) -> impl Iterator<Item = &[u8]> {
        self.packets.iter().map(|(_, buffer, len)| &buffer[..*len])
    }
}

impl Datagrams for Batch {
    fn len(&self) -> usize {
        self.packets.len()
    }
    fn peer(&self, i: usize) -> Peer {
        self.packets[i].0
    }
    fn ticket(&self, i: usize) -> Ticket {
        crate::ticket(self.packets[i].0)
    }
    fn packet(&mut self, i: usize) -> (&mut [u8], usize) {
        let (_, buffer, len) = &mut self.packets[i];
        (buffer, *len)
    }
    fn set_reply(&mut self, i: usize, len: usize) {
        self.packets[i].2 = len;
    }
}

/// Answers a batch with a server, at a time.
pub fn answer(server: &mut Server, time_ns: u64, batch: &mut Batch) {
    server.now.mono_ns = time_ns;
    server.worker.on_batch(server.now, batch);
}
