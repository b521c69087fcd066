//! The resolver among servers that behave as a test says, in time that only passes when nothing else is left to do.
//!
//! Everything follows from the seed: what is lost, what comes late, the resolver's own chance.

use crate::rng::Rng;
use resolver::{Action, ExchangeId, Outcome, Question, Resolver, Settings, Via, Why};
use stats::{Counter, Counters};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::{Name, rtype};

pub const MS: u64 = 1_000_000;

/// What a server has been sent.
pub struct Asked<'a> {
    pub now_ns: u64,
    pub via: Via,
    pub packet: &'a [u8],
}

/// What comes of it, each after so many ns. None: the network says that nothing will.
pub type Replies = Vec<(u64, Option<Vec<u8>>)>;
pub type Behaviour = Box<dyn FnMut(&Asked<'_>, &mut Rng) -> Replies>;

/// How a question of the test ended.
#[derive(Debug)]
pub struct End {
    pub waiter: u32,
    pub at_ns: u64,
    pub question: Question,
    pub outcome: Arc<Outcome>,
}

type Arrival = (ExchangeId, Option<Vec<u8>>);

pub struct World {
    pub now_ns: u64,
    pub resolver: Resolver<u32>,
    pub counters: Arc<Counters>,
    pub ends: Vec<End>,
    /// Packets by server and transport.
    pub sent: HashMap<(SocketAddr, bool), u64>,
    /// The most exchanges that were open at a time.
    pub open_max: usize,
    servers: HashMap<SocketAddr, Behaviour>,
    open: BTreeSet<ExchangeId>,
    /// By time, then in the order of sending.
    arriving: BTreeMap<(u64, u64), Arrival>,
    arrivals: u64,
    rng: Rng,
}

impl World {
    pub fn new(seed: u64, settings: Settings) -> World {
        let mut rng = Rng::new(seed);
        let chance = std::array::from_fn(|_| rng.number() as u8);
        let counters = Arc::<Counters>::default();
        World {
            now_ns: 1,
            resolver: Resolver::new(settings, chance, Arc::clone(&counters)),
            counters,
            ends: Vec::new(),
            sent: HashMap::new(),
            open_max: 0,
            servers: HashMap::new(),
            open: BTreeSet::new(),
            arriving: BTreeMap::new(),
            arrivals: 0,
            rng,
        }
    }

    pub fn server(&mut self, address: &str, behaviour: impl FnMut(&Asked<'_>, &mut Rng) -> Replies + 'static) {
        self.servers.insert(address.parse().expect("it is an address"), Box::new(behaviour));
    }

    /// A client asks. Err: it is told at once.
    pub fn ask(&mut self, waiter: u32, name: &str, has_stale: bool) -> Result<(), Why> {
        self.ask_from(waiter, Ipv4Addr::new(192, 0, 2, 77).into(), name, has_stale)
    }

    pub fn ask_from(&mut self, waiter: u32, client: IpAddr, name: &str, has_stale: bool) -> Result<(), Why> {
        self.ask_variant(waiter, client, Question::new(&name_of(name), rtype::A, false, false), has_stale)
    }

    pub fn ask_variant(&mut self, waiter: u32, client: IpAddr, question: Question, has_stale: bool) -> Result<(), Why> {
        let asked = self.resolver.on_question(self.now_ns, question, has_stale, Some((client, waiter)));
        self.act();
        asked.map_err(|(why, _)| why)
    }

    /// Lets time pass up to a moment, and everything happen that is due by then.
    pub fn run_until(&mut self, end_ns: u64) {
        while let Some(next) = self.next_event().filter(|&at| at <= end_ns) {
            self.now_ns = self.now_ns.max(next);
            if let Some(entry) = self.arriving.first_entry().filter(|e| e.key().0 <= next) {
                let (exchange, packet) = entry.remove();
                if self.open.contains(&exchange) {
                    match packet {
                        Some(packet) => self.resolver.on_reply(self.now_ns, exchange, &packet),
                        None => self.resolver.on_failed(self.now_ns, exchange),
                    }
                }
            } else {
                self.resolver.on_deadline(self.now_ns);
            }
            self.act();
        }
        self.now_ns = end_ns;
    }

    /// Until every question has ended.
    pub fn run(&mut self) {
        while self.resolver.tasks() > 0 {
            let next = self.next_event().expect("a task waits for something");
            self.run_until(next);
        }
    }

    fn next_event(&self) -> Option<u64> {
        let arrival = self.arriving.keys().next().map(|k| k.0);
        arrival.into_iter().chain(self.resolver.next_deadline()).min()
    }

    fn act(&mut self) {
        while let Some(action) = self.resolver.next_action() {
            match action {
                Action::Send { exchange, server, via, packet } => {
                    self.send(exchange, server, via, &packet);
                    self.resolver.keep_packet(packet);
                }
                Action::Close(exchange) => {
                    self.open.remove(&exchange);
                }
                Action::Finish { question, outcome, mut waiters } => {
                    let outcome = Arc::new(outcome);
                    let at_ns = self.now_ns;
                    let end = |waiter| End { waiter, at_ns, question: question.clone(), outcome: Arc::clone(&outcome) };
                    self.ends.extend(waiters.drain(..).map(end));
                    self.resolver.keep_list(waiters);
                }
            }
        }
    }

    fn send(&mut self, exchange: ExchangeId, server: SocketAddr, via: Via, packet: &[u8]) {
        assert!(self.open.insert(exchange), "an exchange is begun once");
        self.open_max = self.open_max.max(self.open.len());
        *self.sent.entry((server, via == Via::Tcp)).or_insert(0) += 1;
        let Some(behaviour) = self.servers.get_mut(&server) else { return };
        for (delay_ns, reply) in behaviour(&Asked { now_ns: self.now_ns, via, packet }, &mut self.rng) {
            self.arrivals += 1;
            self.arriving.insert((self.now_ns + delay_ns, self.arrivals), (exchange, reply));
        }
    }

    pub fn open(&self) -> usize {
        self.open.len()
    }

    pub fn count(&self, which: Counter) -> u64 {
        self.counters.value(which)
    }

    pub fn sent_to(&self, server: &str, over_tcp: bool) -> u64 {
        self.sent.get(&(server.parse().expect("it is an address"), over_tcp)).copied().unwrap_or(0)
    }
}

pub fn name_of(text: &str) -> Name {
    Name::from_text(text.as_bytes(), Some(&Name::ROOT)).expect("it is a name")
}

/// A record for a reply: owner, type, TTL, data.
pub type Record<'a> = (&'a Name, u16, u32, &'a [u8]);

/// The reply to a packet of ours: its id and question, and these records.
pub fn reply(packet: &[u8], rcode: u8, answer: &[Record<'_>], authority: &[Record<'_>]) -> Vec<u8> {
    let end = 12 + wire::name::wire_len(&packet[12..]).expect("our packets have a name") + 4;
    let mut reply = packet[..end].to_vec();
    reply[2..4].copy_from_slice(&[0x81, 0x80 | rcode]);
    reply[6..12].copy_from_slice(&[0, answer.len() as u8, 0, authority.len() as u8, 0, 0]);
    for (owner, rtype, ttl, data) in answer.iter().chain(authority) {
        reply.extend_from_slice(owner.bytes());
        reply.extend_from_slice(&rtype.to_be_bytes());
        reply.extend_from_slice(&[0, 1]);
        reply.extend_from_slice(&ttl.to_be_bytes());
        reply.extend_from_slice(&(data.len() as u16).to_be_bytes());
        reply.extend_from_slice(data);
    }
    reply
}

/// The name that a packet asks for.
pub fn asked_name(packet: &[u8]) -> Name {
    Name::from_wire(&packet[12..]).expect("our packets have a name")
}

/// The address that truthful servers give a name: no two names of a test have the same.
pub fn address_of(name: &Name) -> [u8; 4] {
    (wire::hash::name_hash(7, name.fold().bytes()) as u32).to_be_bytes()
}

/// A reply as a truthful server gives it.
pub fn truth(packet: &[u8]) -> Vec<u8> {
    let name = asked_name(packet);
    reply(packet, 0, &[(&name, rtype::A, 300, &address_of(&name))], &[])
}
