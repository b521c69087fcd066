//! The connections of a thread: a slab with generations, four queues through it, and the count by peer that threads share.
//!
//! Bound: as many slots as there were connections at one time (the server asks for no more than its limit). Invariant: every connection is in exactly one queue, the queue of its phase,
//! and each queue is ordered by `since`, for whoever enters does so at the end and now.

use crate::epoll::Interest;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No message begun.
    Idle,
    /// A message begun.
    Reading,
    /// Answers are owed.
    Waiting,
    /// Answers wait for the peer to read.
    Writing,
}

impl Phase {
    pub(super) const ALL: [Phase; 4] = [Phase::Idle, Phase::Reading, Phase::Waiting, Phase::Writing];
}

/// An idle connection owns no memory beside this.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) listener: u32,
    /// Octets received that are not answered yet: half a message, or messages that wait until the peer reads, or for the next turn.
    pub(super) received: Vec<u8>,
    /// There are whole messages among them that wait for the next turn. The kernel tells when it is, as of a peer that is to read first.
    pub(super) has_more: bool,
    /// Answers that the peer did not take yet, from `sent` on.
    pub(super) pending: Vec<u8>,
    pub(super) sent: usize,
    /// Answers that will come later.
    pub(super) owed: u16,
    /// A piece of such an answer is among what the peer did not take yet; the next one waits for that.
    pub(super) is_fed: bool,
    /// Why it is closed once its answers are gone; nothing more is read from it.
    pub(super) closing: Option<super::TcpEvent>,
    /// What the kernel was asked to tell of it.
    pub(super) interest: Interest,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr, listener: usize) -> Connection {
        let (received, pending) = (Vec::new(), Vec::new());
        let (listener, interest) = (listener as u32, Interest::Read);
        Connection {
            stream,
            peer,
            listener,
            received,
            has_more: false,
            pending,
            sent: 0,
            owed: 0,
            is_fed: false,
            closing: None,
            interest,
        }
    }

    /// The phase that its buffers tell. Whole messages may lie unanswered behind `owed_max` answers.
    pub(super) fn phase(&self, owed_max: u16) -> Phase {
        let is_held = self.received.is_empty() || self.closing.is_some() || self.owed >= owed_max;
        match () {
            () if !self.pending.is_empty() || self.has_more => Phase::Writing,
            () if self.owed > 0 && is_held => Phase::Waiting,
            () if !self.received.is_empty() => Phase::Reading,
            () => Phase::Idle,
        }
    }

    /// What is of interest in this phase.
    pub(super) fn wants(&self, phase: Phase, owed_max: u16) -> Interest {
        match phase {
            Phase::Writing => Interest::Write,
            Phase::Waiting if self.closing.is_some() || self.owed >= owed_max => Interest::Nothing,
            _ => Interest::Read,
        }
    }
}

/// Names a connection, and nothing once it is closed, even if another took its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

const NONE: u32 = u32::MAX;
/// One bit is left to whoever makes a token of a key.
const GENERATION_MAX: u32 = u32::MAX >> 1;

struct Slot {
    generation: u32,
    before: u32,
    after: u32,
    entry: Option<Entry>,
}

struct Entry {
    phase: Phase,
    since: Instant,
    connection: Connection,
}

#[derive(Clone, Copy)]
struct Queue {
    first: u32,
    last: u32,
}

pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    queues: [Queue; 4],
    peers: Arc<Peers>,
}

/// How many connections each peer has, over all threads that share this. Taken when a connection comes and when it goes,
/// never for a message. Bound: a count for each peer that has a connection.
#[derive(Debug, Default)]
pub struct Peers(Mutex<HashMap<IpAddr, u32>>);

impl Peers {
    /// One more of this peer; false: it has `most` already.
    fn enter(&self, ip: IpAddr, most: usize) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n = all.entry(network(ip)).or_insert(0);
        let is_admitted = (*n as usize) < most;
        *n += u32::from(is_admitted);
        is_admitted
    }

    fn leave(&self, ip: IpAddr) {
        let (mut all, network) = (self.0.lock().unwrap_or_else(PoisonError::into_inner), network(ip));
        if let Some(n) = all.get_mut(&network) {
            *n -= 1;
            if *n == 0 {
                all.remove(&network);
            }
        }
    }
}

/// An IPv4 address, or the /64 that a customer has of IPv6.
fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
    }
}

impl Table {
    pub(super) fn new(peers: Arc<Peers>) -> Table {
        let empty = Queue { first: NONE, last: NONE };
        Table { slots: Vec::new(), free: Vec::new(), queues: [empty; 4], peers }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A place among this peer's connections, for the one that is inserted next; false: it has `most` already.
    pub(super) fn admit(&self, peer: IpAddr, most: usize) -> bool {
        self.peers.enter(peer, most)
    }

    /// The place is not used after all.
    pub(super) fn dismiss(&self, peer: IpAddr) {
        self.peers.leave(peer);
    }

    /// Its peer was admitted.
    pub(super) fn insert(&mut self, connection: Connection, now: Instant) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, before: NONE, after: NONE, entry: None });
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize].entry = Some(Entry { phase: Phase::Idle, since: now, connection });
        self.append(slot, Phase::Idle);
        Key { slot, generation: self.slots[slot as usize].generation }
    }

    pub(super) fn connection(&mut self, key: Key) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(key.slot as usize).filter(|s| s.generation == key.generation)?;
        slot.entry.as_mut().map(|e| &mut e.connection)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Connection> {
        self.connection(key)?;
        self.unlink(key.slot);
        let slot = &mut self.slots[key.slot as usize];
        slot.generation = (slot.generation + 1) & GENERATION_MAX;
        let connection = slot.entry.take()?.connection;
        self.free.push(key.slot);
        self.peers.leave(connection.peer.ip());
        Some(connection)
    }

    pub(super) fn phase(&self, key: Key) -> Option<Phase> {
        let slot = self.slots.get(key.slot as usize).filter(|s| s.generation == key.generation)?;
        slot.entry.as_ref().map(|e| e.phase)
    }

    /// The connection begins a phase, now: it goes to the end of that queue.
    pub(super) fn begin(&mut self, key: Key, phase: Phase, now: Instant) {
        if self.connection(key).is_none() {
            return;
        }
        self.unlink(key.slot);
        if let Some(entry) = &mut self.slots[key.slot as usize].entry {
            (entry.phase, entry.since) = (phase, now);
        }
        self.append(key.slot, phase);
    }

    /// The connection that has been in a phase longest, and since when.
    pub(super) fn oldest(&self, phase: Phase) -> Option<(Key, Instant)> {
        let slot = self.queues[phase as usize].first;
        let found = self.slots.get(slot as usize)?;
        found.entry.as_ref().map(|e| (Key { slot, generation: found.generation }, e.since))
    }

    /// All connections: only for the end of serving.
    pub(super) fn keys(&self) -> Vec<Key> {
        let used = self.slots.iter().enumerate().filter(|(_, s)| s.entry.is_some());
        used.map(|(i, s)| Key { slot: i as u32, generation: s.generation }).collect()
    }

    fn append(&mut self, slot: u32, phase: Phase) {
        let queue = &mut self.queues[phase as usize];
        let last = std::mem::replace(&mut queue.last, slot);
        if last == NONE {
            queue.first = slot;
        } else {
            self.slots[last as usize].after = slot;
        }
        let it = &mut self.slots[slot as usize];
        (it.before, it.after) = (last, NONE);
    }

    fn unlink(&mut self, slot: u32) {
        let it = &self.slots[slot as usize];
        let Some(entry) = &it.entry else { return };
        let (before, after, phase) = (it.before, it.after, entry.phase as usize);
        match before {
            NONE => self.queues[phase].first = after,
            _ => self.slots[before as usize].after = after,
        }
        match after {
            NONE => self.queues[phase].last = before,
            _ => self.slots[after as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Duration;

    fn connections(n: usize) -> (Vec<TcpStream>, Vec<Connection>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (0..n)
            .map(|i| {
                let peer = format!("[2001:db8::{i:x}]:53").parse().unwrap();
                (connect(), Connection::new(listener.accept().unwrap().0, peer, 0))
            })
            .unzip()
    }

    #[test]
    fn queues_are_in_order_of_entry() {
        let (_clients, all) = connections(4);
        let mut table = Table::new(Arc::default());
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let keys: Vec<Key> = all.into_iter().zip(0..).map(|(c, i)| table.insert(c, at(i))).collect();
        assert_eq!(table.oldest(Phase::Idle), Some((keys[0], at(0))));
        table.begin(keys[0], Phase::Reading, at(10));
        table.begin(keys[2], Phase::Writing, at(11));
        table.begin(keys[1], Phase::Idle, at(12));
        let heads: Vec<_> = Phase::ALL.iter().map(|&p| table.oldest(p)).collect();
        assert_eq!(heads, [Some((keys[3], at(3))), Some((keys[0], at(10))), None, Some((keys[2], at(11)))]);
        assert!(table.remove(keys[3]).is_some());
        assert_eq!(table.oldest(Phase::Idle), Some((keys[1], at(12))));
        assert_eq!(table.phase(keys[2]), Some(Phase::Writing));
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn a_key_of_a_closed_connection_names_nothing() {
        let (_clients, all) = connections(3);
        let mut table = Table::new(Arc::default());
        let now = Instant::now();
        let mut all = all.into_iter();
        let first = table.insert(all.next().unwrap(), now);
        assert!(table.remove(first).is_some() && table.remove(first).is_none());
        let second = table.insert(all.next().unwrap(), now);
        assert_eq!(second.slot, first.slot);
        assert!(table.connection(first).is_none() && table.phase(first).is_none());
        table.begin(first, Phase::Writing, now);
        assert_eq!(table.phase(second), Some(Phase::Idle));
    }

    #[test]
    fn peers_are_counted_by_address_or_slash_64_over_all_tables() {
        let (_clients, all) = connections(3);
        let peers = Arc::<Peers>::default();
        let mut tables = [Table::new(Arc::clone(&peers)), Table::new(Arc::clone(&peers))];
        let keys: Vec<Key> = all
            .into_iter()
            .enumerate()
            .map(|(i, c)| {
                assert!(tables[i % 2].admit(c.peer.ip(), 3));
                tables[i % 2].insert(c, Instant::now())
            })
            .collect();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(!tables[0].admit(ip("2001:db8::ffff"), 3), "the fourth of a /64, whichever thread it meets");
        assert!(tables[1].admit(ip("2001:db8:0:1::1"), 3));
        tables[1].dismiss(ip("2001:db8:0:1::1"));
        keys.into_iter().enumerate().for_each(|(i, k)| assert!(tables[i % 2].remove(k).is_some()));
        assert!(tables[0].keys().is_empty() && peers.0.lock().unwrap().is_empty());
    }

    #[test]
    fn an_idle_connection_costs_less_than_a_kilobyte() {
        assert!(size_of::<Slot>() + size_of::<(IpAddr, u32)>() + size_of::<u32>() < 256);
    }
}
