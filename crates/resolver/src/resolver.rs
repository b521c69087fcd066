//! All tasks of one thread, the servers they ask, and what is to be done next.
//!
//! Bounds: `Limits::tasks_max` tasks in a slab, `EXCHANGES_MAX` exchanges of a task, `PROBES_MAX` probes, one entry of
//! the deadline heap for each slot of the slab and each time that its deadline moved closer; one server for each address of
//! the operator's.

use crate::answer::{Answer, Room, TtlRange};
use crate::chance::{Chance, Seed};
use crate::choice::Choice;
use crate::exchange::{Exchange, ExchangeId, Heard, Via, is_answer, may_mean_edns};
use crate::forward::Forwards;
use crate::limits::{ByHash, Limits, Open, client_hash};
use crate::question::Question;
use crate::server::Server;
use crate::task::{CLIENT_PATIENCE_NS, Digested, Named, Task, Tried, WALL_NS};
use crate::why::Why;
use stats::{Counter, Counters};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use wire::Name;
use wire::hash::siphash;
use wire::message::Message;

/// Servers that one task awaits at a time; the one that was asked first is forgotten for the next.
const EXCHANGES_MAX: usize = 3;
/// Over TCP, a connection and its reply.
const TCP_PATIENCE_NS: u64 = 3_000_000_000;
/// Room that is left for later: for as many tasks as are under way at a busy time.
const ROOMS_MAX: usize = 512;
/// The longest list of waiters whose room is kept.
const LIST_MAX: usize = 16;
const PROBES_MAX: usize = 64;
const PROBE_PATIENCE_NS: u64 = 1_000_000_000;
/// The slot of an exchange that no task awaits.
const PROBE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub struct Settings {
    pub forwards: Forwards,
    pub limits: Limits,
    pub ttls: TtlRange,
    pub edns_size: u16,
    pub case_randomisation: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            forwards: Forwards::default(),
            limits: Limits::default(),
            ttls: TtlRange::default(),
            edns_size: 1232,
            case_randomisation: true,
        }
    }
}

/// What the driver is to do.
pub enum Action<W> {
    /// Send this, over UDP from a port that `Ports` drew, and hear only this server on it.
    Send { exchange: ExchangeId, server: SocketAddr, via: Via, packet: Vec<u8> },
    /// Nothing more is heard of this exchange.
    Close(ExchangeId),
    /// Tell these clients, and keep what is worth it.
    Finish { question: Question, outcome: Outcome, waiters: Vec<W> },
}

#[derive(Debug)]
pub enum Outcome {
    Answer(Answer),
    /// Clients have waited long enough for it: they get what has expired, and the task goes on.
    Stale,
    Failed(Why),
}

pub struct Resolver<W> {
    settings: Settings,
    counters: Arc<Counters>,
    chance: Chance,
    key: [u8; 16],
    servers: Vec<Server>,
    /// By forward: the numbers of its servers.
    asked: Vec<Vec<usize>>,
    tasks: Vec<Option<Box<Task<W>>>>,
    free: Vec<u32>,
    /// Tasks that are over, packets that have left, answers and lists of waiters that were told: room for the next.
    /// `ROOMS_MAX` each.
    #[expect(clippy::vec_box, reason = "a task is large, and goes from list to list")]
    over: Vec<Box<Task<W>>>,
    packets: Vec<Vec<u8>>,
    rooms: Vec<Room>,
    lists: Vec<Vec<W>>,
    by_question: ByHash<u32>,
    /// By name and type: the task that asks, and those that wait for its end.
    asking: ByHash<u32>,
    held: ByHash<Vec<u32>>,
    probes: Vec<Exchange>,
    clients: Open,
    neighbourhoods: Open,
    waiters: usize,
    deadlines: BinaryHeap<Reverse<(u64, u32)>>,
    /// By slot: when it is looked at next, whichever task it has by then; `u64::MAX`: never. Nearly all tasks are over long
    /// before their deadline, and the next one in the slot has a later one.
    wakes: Vec<u64>,
    actions: VecDeque<Action<W>>,
    serial: u32,
}

impl<W> Resolver<W> {
    pub fn new(settings: Settings, seed: Seed, counters: Arc<Counters>) -> Resolver<W> {
        let mut chance = Chance::new(seed);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&chance.wide().to_ne_bytes());
        key[8..].copy_from_slice(&chance.wide().to_ne_bytes());
        let mut servers: Vec<Server> = Vec::new();
        let mut number = |address: SocketAddr| {
            servers.iter().position(|s| s.address == address).unwrap_or_else(|| {
                servers.push(Server::new(address));
                servers.len() - 1
            })
        };
        let asked = settings.forwards.iter().map(|f| f.servers.iter().map(|&a| number(a)).collect()).collect();
        Resolver {
            settings,
            counters,
            chance,
            key,
            servers,
            asked,
            tasks: Vec::new(),
            free: Vec::new(),
            over: Vec::new(),
            packets: Vec::new(),
            rooms: Vec::new(),
            lists: Vec::new(),
            by_question: ByHash::default(),
            asking: ByHash::default(),
            held: ByHash::default(),
            probes: Vec::new(),
            clients: Open::default(),
            neighbourhoods: Open::default(),
            waiters: 0,
            deadlines: BinaryHeap::new(),
            wakes: Vec::new(),
            actions: VecDeque::new(),
            serial: 0,
        }
    }

    /// What source ports are drawn by.
    pub fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    pub fn next_action(&mut self) -> Option<Action<W>> {
        self.actions.pop_front()
    }

    /// When `on_deadline` is to be called, if nothing happens before.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    pub fn tasks(&self) -> usize {
        self.tasks.len() - self.free.len()
    }

    pub fn waiters(&self) -> usize {
        self.waiters
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// A client's question, or without one a question whose answer is about to end. `has_stale`: the cache has an answer
    /// that has expired. Err: the client is to be told at once.
    pub fn on_question(
        &mut self,
        now_ns: u64,
        question: Question,
        has_stale: bool,
        waiter: Option<(IpAddr, W)>,
    ) -> Result<(), (Why, Option<W>)> {
        let waiter = waiter.map(|(ip, waiter)| (client_hash(&self.key, ip), waiter));
        if waiter.as_ref().is_some_and(|(client, _)| self.is_crowded(*client)) {
            self.counters.count(Counter::ShedClient);
            return Err((Why::Busy, waiter.map(|(_, w)| w)));
        }
        let name_hash = siphash::<1, 3>(&self.key, question.name());
        let slot = match self.same_question(question.hash(name_hash), &question) {
            Some(slot) => {
                self.counters.count(Counter::TaskJoined);
                self.task(slot).into_iter().for_each(|task| task.has_stale |= has_stale);
                slot
            }
            None => match self.begin(now_ns, question, name_hash, has_stale) {
                Ok(slot) => slot,
                Err(why) => return Err((why, waiter.map(|(_, w)| w))),
            },
        };
        if let (Some((client, waiter)), Some(task)) = (waiter, self.task(slot)) {
            task.waiters.push((client, waiter));
            self.clients.add(client);
            self.waiters += 1;
        }
        self.advance(now_ns, slot);
        Ok(())
    }

    fn is_crowded(&self, client: u64) -> bool {
        self.waiters >= self.settings.limits.waiters_max
            || self.clients.of(client) >= self.settings.limits.waiters_per_client_max
    }

    fn same_question(&self, hash: u64, question: &Question) -> Option<u32> {
        let slot = *self.by_question.get(&hash)?;
        let task = self.tasks.get(slot as usize)?.as_ref()?;
        (task.question == *question).then_some(slot)
    }

    fn task(&mut self, slot: u32) -> Option<&mut Task<W>> {
        self.tasks.get_mut(slot as usize)?.as_deref_mut()
    }

    fn begin(&mut self, now_ns: u64, question: Question, name_hash: u64, has_stale: bool) -> Result<u32, Why> {
        let name = Name::from_wire(question.name()).ok_or(Why::NobodyToAsk)?;
        let forward = self.settings.forwards.of(&name).ok_or(Why::NobodyToAsk)?;
        let limits = &self.settings.limits;
        if self.tasks() >= limits.tasks_max {
            self.counters.count(Counter::ShedTasks);
            return Err(Why::Busy);
        }
        let near = siphash::<1, 3>(&self.key, question.neighbourhood());
        if self.neighbourhoods.of(near) >= limits.tasks_per_neighbourhood_max {
            self.counters.count(Counter::ShedZone);
            return Err(Why::Busy);
        }
        self.neighbourhoods.add(near);
        self.counters.count(Counter::Tasks);
        let (named, mut task) = (Named { name: &name, hash: name_hash, near }, self.over.pop().unwrap_or_default());
        task.begin(now_ns, question, &named, has_stale, forward, self.servers_of(forward));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            self.wakes.push(u64::MAX);
            (self.tasks.len() - 1) as u32
        });
        self.by_question.insert(task.hash, slot);
        self.tasks[slot as usize] = Some(task);
        Ok(slot)
    }

    fn servers_of(&self, forward: usize) -> usize {
        self.asked.get(forward).map_or(0, Vec::len)
    }

    /// A task that awaits nobody asks somebody; then its deadline is known.
    fn advance(&mut self, now_ns: u64, slot: u32) {
        let Some(task) = self.task(slot) else { return };
        if !task.awaits() {
            self.ask_next(now_ns, slot);
        }
        self.set_deadline(slot);
    }

    fn set_deadline(&mut self, slot: u32) {
        let Some(at) = self.task(slot).map(|task| task.next_deadline()) else { return };
        if let Some(wake) = self.wakes.get_mut(slot as usize).filter(|wake| at < **wake) {
            *wake = at;
            self.deadlines.push(Reverse((at, slot)));
        }
    }

    // Asking.

    fn ask_next(&mut self, now_ns: u64, slot: u32) {
        if self.is_held(slot) {
            return;
        }
        if let Err(why) = self.pick(now_ns, slot).and_then(|place| self.ask(now_ns, slot, place)) {
            self.fail(slot, why);
        }
    }

    /// Whether another task asks for the same. If not, this one does from now on.
    fn is_held(&mut self, slot: u32) -> bool {
        let key = &self.key;
        let Some(task) = self.tasks.get_mut(slot as usize).and_then(Option::as_mut) else { return true };
        let name_hash = || siphash::<1, 3>(key, task.name.fold().bytes());
        let hash = *task.asks_for.get_or_insert_with(|| task.question.asked_hash(name_hash()));
        let owner = *self.asking.entry(hash).or_insert(slot);
        task.is_held = owner != slot;
        if task.is_held {
            self.held.entry(hash).or_default().push(slot);
        }
        task.is_held
    }

    /// The task asks for nothing any more; who waited for that has its turn at once.
    fn let_others_ask(&mut self, slot: u32, asked_for: Option<u64>) {
        let Some(hash) = asked_for.filter(|hash| self.asking.get(hash) == Some(&slot)) else { return };
        self.asking.remove(&hash);
        for held in self.held.remove(&hash).unwrap_or_default() {
            if let Some(task) = self.task(held).filter(|task| task.asks_for == Some(hash)) {
                task.is_held = false;
                self.set_deadline(held);
            }
        }
    }

    /// Which of the forward's servers is next. A silent one only if there is no other, or as a probe beside.
    fn pick(&mut self, now_ns: u64, slot: u32) -> Result<usize, Why> {
        let Some(task) = self.tasks.get(slot as usize).and_then(Option::as_ref) else { return Err(Why::BudgetSpent) };
        if task.is_over(now_ns) {
            return Err(task.why);
        }
        let numbers = self.asked.get(task.forward).map_or(&[][..], Vec::as_slice);
        let choice = Choice { now_ns, servers: &self.servers, numbers, tried: &task.tried };
        let best = choice.best(&mut self.chance);
        let mute: Vec<usize> = choice.mute().collect();
        let Some(best) = best else {
            let due = |place: &usize| numbers.get(*place).is_some_and(|&n| self.servers[n].may_probe(now_ns));
            return mute.into_iter().find(due).ok_or(task.why);
        };
        self.probe_beside(now_ns, slot, &mute);
        Ok(best)
    }

    fn forward_of(&self, slot: u32) -> usize {
        self.tasks.get(slot as usize).and_then(Option::as_ref).map_or(usize::MAX, |t| t.forward)
    }

    /// The same question to a silent server, now and then: its reply is nobody's answer, it only shows that it is back.
    fn probe_beside(&mut self, now_ns: u64, slot: u32, mute: &[usize]) {
        if mute.is_empty() {
            return;
        }
        self.probes.retain(|p| p.deadline_ns > now_ns);
        let numbers = self.asked.get(self.forward_of(slot)).cloned().unwrap_or_default();
        for &place in mute {
            let Some(&number) = numbers.get(place) else { continue };
            let due = self.servers.get_mut(number).is_some_and(|s| s.may_probe(now_ns));
            if due && self.probes.len() < PROBES_MAX {
                let id = self.new_id(PROBE);
                let Some(task) = self.tasks.get(slot as usize).and_then(Option::as_ref) else { return };
                let mut probe = Exchange::new(id, number, Via::Udp, &task.name, &task.question);
                (probe.sent_ns, probe.deadline_ns, probe.is_first) = (now_ns, now_ns + PROBE_PATIENCE_NS, true);
                self.send(&mut probe, Some(self.settings.edns_size), false);
                self.counters.count(Counter::UpstreamProbe);
                self.probes.push(probe);
            }
        }
    }

    fn new_id(&mut self, slot: u32) -> ExchangeId {
        self.serial = self.serial.wrapping_add(1);
        ExchangeId { slot, serial: self.serial }
    }

    fn ask(&mut self, now_ns: u64, slot: u32, place: usize) -> Result<(), Why> {
        let id = self.new_id(slot);
        let number = self.asked.get(self.forward_of(slot)).and_then(|s| s.get(place)).copied();
        let (Some(number), Some(task)) = (number, self.tasks.get_mut(slot as usize).and_then(Option::as_mut)) else {
            return Err(Why::BudgetSpent);
        };
        task.budget = task.budget.spend()?;
        let via = task.via(place);
        let mut exchange = Exchange::new(id, number, via, &task.name, &task.question);
        let (tries, without_edns) = task.tried.get(place).map_or((0, false), |t| (t.sends, t.without_edns));
        exchange.is_first = tries == 0;
        if let Some(tried) = task.tried.get_mut(place) {
            tried.sends = tried.sends.saturating_add(1);
        }
        let patience = match (via, self.servers.get(number)) {
            (Via::Udp, Some(server)) => server.patience_ns(u32::from(tries)),
            _ => TCP_PATIENCE_NS,
        };
        (exchange.sent_ns, exchange.deadline_ns) = (now_ns, now_ns + patience);
        self.make_room(slot, number);
        let server = self.servers.get(number);
        // Over TCP it proves nothing, but shows whether the server keeps it.
        let with_case = self.settings.case_randomisation && server.is_some_and(|s| s.keeps_case(now_ns));
        let with_edns = !without_edns && server.is_some_and(|s| s.speaks_edns(now_ns));
        self.send(&mut exchange, with_edns.then_some(self.settings.edns_size), with_case);
        if let Some(task) = self.task(slot) {
            task.exchanges.push(exchange);
        }
        Ok(())
    }

    fn send(&mut self, exchange: &mut Exchange, edns_size: Option<u16>, with_case: bool) {
        let room = self.packets.pop().unwrap_or_default();
        let packet = exchange.packet(edns_size, with_case, &mut self.chance, room);
        let Some(server) = self.servers.get(exchange.server) else { return };
        self.counters.count(if exchange.via == Via::Udp { Counter::UpstreamUdp } else { Counter::UpstreamTcp });
        self.actions.push_back(Action::Send {
            exchange: exchange.id,
            server: server.address,
            via: exchange.via,
            packet,
        });
    }

    /// One exchange a server, and few in all.
    fn make_room(&mut self, slot: u32, number: usize) {
        let Some(task) = self.tasks.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let same = task.exchanges.iter().position(|e| e.server == number);
        let oldest = (task.exchanges.len() >= EXCHANGES_MAX).then_some(0);
        if let Some(at) = same.or(oldest) {
            self.actions.push_back(Action::Close(task.exchanges.remove(at).id));
        }
    }

    // Hearing.

    /// A packet came to the socket of an exchange.
    pub fn on_reply(&mut self, now_ns: u64, id: ExchangeId, packet: &[u8]) {
        if id.slot == PROBE {
            return self.on_probe_reply(now_ns, id, packet);
        }
        let Some(task) = self.tasks.get(id.slot as usize).and_then(Option::as_ref) else { return };
        let Some(exchange) = task.exchanges.iter().find(|e| e.id == id) else { return };
        let number = exchange.server;
        match exchange.judge(packet) {
            Heard::Noise => self.counters.count(Counter::UpstreamNoise),
            Heard::WrongId => self.over_tcp(now_ns, id, Counter::UpstreamWrongId),
            Heard::CaseLost => self.over_tcp(now_ns, id, Counter::UpstreamWrongCase),
            Heard::Truncated => self.over_tcp(now_ns, id, Counter::UpstreamTruncated),
            Heard::Bare if exchange.via == Via::Udp => self.over_tcp(now_ns, id, Counter::UpstreamNoEdns),
            Heard::Bare => self.without_edns(now_ns, id),
            Heard::Reply(message) => {
                let (took, is_first) = (now_ns.saturating_sub(exchange.sent_ns), exchange.is_first);
                let by_udp = exchange.via == Via::Udp;
                let case_lost = !by_udp && !exchange.has_case(&message);
                let edns_lost = exchange.is_plain && is_answer(message.rcode());
                self.counters.count(Counter::UpstreamReply);
                if let Some(server) = self.servers.get_mut(number) {
                    server.on_heard(took, is_first && by_udp);
                    if case_lost {
                        server.on_case_lost(now_ns);
                    }
                    if edns_lost && server.speaks_edns(now_ns) {
                        server.on_edns_lost(now_ns);
                    }
                }
                if !exchange.is_plain && may_mean_edns(&message) {
                    self.without_edns(now_ns, id);
                    return self.set_deadline(id.slot);
                }
                self.on_message(now_ns, id, number, &message);
            }
        }
        self.set_deadline(id.slot);
    }

    fn on_probe_reply(&mut self, now_ns: u64, id: ExchangeId, packet: &[u8]) {
        let Some(at) = self.probes.iter().position(|p| p.id == id) else { return };
        let probe = &self.probes[at];
        if !matches!(probe.judge(packet), Heard::Reply(_) | Heard::Truncated) {
            return;
        }
        let (number, took) = (probe.server, now_ns.saturating_sub(probe.sent_ns));
        self.probes.swap_remove(at);
        self.actions.push_back(Action::Close(id));
        if let Some(server) = self.servers.get_mut(number) {
            server.on_heard(took, true);
        }
    }

    /// The same question to the same server, where nobody can guess.
    fn over_tcp(&mut self, now_ns: u64, id: ExchangeId, why: Counter) {
        self.counters.count(why);
        self.ask_again(now_ns, id, |tried| tried.over_tcp = true);
    }

    /// The same without EDNS, once: the server may not know what that is (RFC 6891 section 6.2.2).
    fn without_edns(&mut self, now_ns: u64, id: ExchangeId) {
        self.counters.count(Counter::UpstreamNoEdns);
        let task = self.tasks.get(id.slot as usize).and_then(Option::as_ref);
        let exchange = task.and_then(|task| task.exchanges.iter().find(|e| e.id == id));
        if exchange.is_none_or(|e| e.is_plain) {
            return self.refused(now_ns, id, Why::Refused);
        }
        self.ask_again(now_ns, id, |tried| tried.without_edns = true);
    }

    /// The same question to the same server in another way.
    fn ask_again(&mut self, now_ns: u64, id: ExchangeId, change: impl FnOnce(&mut Tried)) {
        let Some((number, place)) = self.forget(id) else { return };
        if let Some(tried) = self.task(id.slot).and_then(|task| task.tried.get_mut(place)) {
            change(tried);
        }
        if let Err(why) = self.ask(now_ns, id.slot, place) {
            self.fail(id.slot, why);
        }
        debug_assert!(number < self.servers.len());
    }

    /// Closes an exchange: the numbers of its server, for all and within the forward.
    fn forget(&mut self, id: ExchangeId) -> Option<(usize, usize)> {
        let task = self.tasks.get_mut(id.slot as usize)?.as_mut()?;
        let at = task.exchanges.iter().position(|e| e.id == id)?;
        let number = task.exchanges.remove(at).server;
        self.actions.push_back(Action::Close(id));
        let place = self.asked.get(task.forward)?.iter().position(|&n| n == number)?;
        Some((number, place))
    }

    fn on_message(&mut self, now_ns: u64, id: ExchangeId, number: usize, message: &Message<'_>) {
        let Some(task) = self.tasks.get_mut(id.slot as usize).and_then(Option::as_mut) else { return };
        let Some(forward) = self.settings.forwards.forward(task.forward) else { return };
        let digested = match is_answer(message.rcode()) {
            true => task.digest(message, &forward.zone, &self.settings.ttls, self.rooms.pop().unwrap_or_default()),
            false => Digested::Useless,
        };
        match digested {
            Digested::Answered(answer) => {
                self.counters.count(Counter::TaskAnswered);
                self.finish(id.slot, Outcome::Answer(answer));
            }
            Digested::Goes(name) => self.follow(now_ns, id.slot, *name),
            Digested::Useless => {
                self.counters.count(Counter::UpstreamRefused);
                self.refused(now_ns, id, Why::Refused);
            }
            Digested::Failed(why) => self.fail(id.slot, why),
        }
        debug_assert!(number < self.servers.len());
    }

    /// The server will not do: another is asked, and this one not again for this.
    fn refused(&mut self, now_ns: u64, id: ExchangeId, why: Why) {
        let Some((_, place)) = self.forget(id) else { return };
        let Some(task) = self.task(id.slot) else { return };
        task.why = why;
        if let Some(tried) = task.tried.get_mut(place) {
            tried.refused = true;
        }
        // Another one may be awaited already.
        self.advance(now_ns, id.slot);
    }

    fn follow(&mut self, now_ns: u64, slot: u32, name: Name) {
        let Some(forward) = self.settings.forwards.of(&name) else { return self.fail(slot, Why::NobodyToAsk) };
        let servers = self.servers_of(forward);
        let Some(task) = self.tasks.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        for exchange in task.exchanges.drain(..) {
            self.actions.push_back(Action::Close(exchange.id));
        }
        task.follow(name, forward, servers);
        let asked_for = task.asks_for.take();
        self.let_others_ask(slot, asked_for);
        self.ask_next(now_ns, slot);
    }

    /// The network says that nothing will come: the port is closed, the connection broken.
    pub fn on_failed(&mut self, now_ns: u64, id: ExchangeId) {
        if id.slot == PROBE {
            return self.probes.retain(|p| p.id != id);
        }
        let Some(task) = self.tasks.get(id.slot as usize).and_then(Option::as_ref) else { return };
        let Some(exchange) = task.exchanges.iter().find(|e| e.id == id) else { return };
        let (number, sent_ns) = (exchange.server, exchange.sent_ns);
        self.counters.count(Counter::UpstreamFailed);
        if let Some(server) = self.servers.get_mut(number) {
            server.on_unanswered(sent_ns);
        }
        self.refused(now_ns, id, Why::Unreachable);
        self.set_deadline(id.slot);
    }

    // Time.

    /// Looks at every task whose time has come.
    pub fn on_deadline(&mut self, now_ns: u64) {
        while let Some(&Reverse((at, slot))) = self.deadlines.peek()
            && at <= now_ns
        {
            self.deadlines.pop();
            // A slot that was to be looked at sooner has left this entry behind.
            let Some(wake) = self.wakes.get_mut(slot as usize).filter(|wake| **wake == at) else { continue };
            *wake = u64::MAX;
            match self.task(slot).map(|task| task.next_deadline()) {
                Some(at) if at <= now_ns => self.on_task_deadline(now_ns, slot),
                _ => self.set_deadline(slot),
            }
        }
    }

    fn on_task_deadline(&mut self, now_ns: u64, slot: u32) {
        let Some(task) = self.task(slot) else { return };
        if task.is_over(now_ns) {
            let why = task.why;
            return self.fail(slot, why);
        }
        if task.has_stale && now_ns >= task.begun_ns + CLIENT_PATIENCE_NS {
            task.has_stale = false;
            self.tell_stale(slot);
        }
        if self.task(slot).is_some_and(|task| !task.awaits()) {
            self.advance(now_ns, slot);
        }
        self.on_silence(now_ns, slot);
        self.set_deadline(slot);
    }

    /// An exchange is over its time; it is heard still, and another is begun.
    fn on_silence(&mut self, now_ns: u64, slot: u32) {
        let Some(task) = self.tasks.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let Some(late) = task.exchanges.iter_mut().find(|e| e.deadline_ns <= now_ns) else { return };
        self.counters.count(Counter::UpstreamTimeout);
        late.deadline_ns = u64::MAX;
        if let Some(server) = self.servers.get_mut(late.server) {
            server.on_unanswered(late.sent_ns);
        }
        self.advance(now_ns, slot);
    }

    fn tell_stale(&mut self, slot: u32) {
        let Some(task) = self.task(slot) else { return };
        let (question, waiters) = (task.question.clone(), std::mem::take(&mut task.waiters));
        let waiters = self.release(waiters.into_iter());
        if !waiters.is_empty() {
            self.actions.push_back(Action::Finish { question, outcome: Outcome::Stale, waiters });
        }
    }

    // Ending.

    fn fail(&mut self, slot: u32, why: Why) {
        self.counters.count(Counter::TaskFailed);
        self.finish(slot, Outcome::Failed(why));
    }

    fn finish(&mut self, slot: u32, outcome: Outcome) {
        let Some(mut task) = self.tasks.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        if self.by_question.get(&task.hash) == Some(&slot) {
            self.by_question.remove(&task.hash);
        }
        self.neighbourhoods.remove(task.near);
        self.let_others_ask(slot, task.asks_for);
        self.actions.extend(task.exchanges.iter().map(|e| Action::Close(e.id)));
        let waiters = self.release(task.waiters.drain(..));
        self.actions.push_back(Action::Finish { question: task.end(), outcome, waiters });
        if self.over.len() < ROOMS_MAX {
            self.over.push(task);
        }
    }

    fn release(&mut self, waiters: impl ExactSizeIterator<Item = (u64, W)>) -> Vec<W> {
        self.waiters -= waiters.len();
        let mut list = self.lists.pop().unwrap_or_default();
        for (client, waiter) in waiters {
            self.clients.remove(client);
            list.push(waiter);
        }
        list
    }

    /// Takes back the packet of a `Send`, for its room.
    pub fn keep_packet(&mut self, mut packet: Vec<u8>) {
        if self.packets.len() < ROOMS_MAX {
            packet.clear();
            self.packets.push(packet);
        }
    }

    /// Takes back the answer of a `Finish`, for its room.
    pub fn keep_answer(&mut self, answer: Answer) {
        if self.rooms.len() < ROOMS_MAX {
            self.rooms.extend(Room::of(answer));
        }
    }

    /// Takes back the list of a `Finish`, for its room.
    pub fn keep_list(&mut self, mut list: Vec<W>) {
        if self.lists.len() < ROOMS_MAX && list.capacity() <= LIST_MAX {
            list.clear();
            self.lists.push(list);
        }
    }
}

const _: () = assert!(CLIENT_PATIENCE_NS < WALL_NS);
