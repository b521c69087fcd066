//! A task thread: takes questions that the cache could not answer, asks others, keeps what they say, tells who waits.
//!
//! Does what the resolver says and decides nothing. Never on an answering thread, never in its way: questions come by
//! rings, answers go back by mailboxes, and what is kept is in the cache for all.

use crate::answering::later::{Burst, in_its_room};
use crate::answering::{OWED_FOR, Shared};
use crate::log;
use crate::resolving::handover::Inbox;
use crate::resolving::upstream::{Came, Parcel, Upstream};
use crate::stall::Histogram;
use cache::{Cache, Entry, Key, Kind, Variant};
use front::{Composed, Judged, Miss, Now, Peer, Postponed, Purpose, Ticket, Told, Transport, Verdict, Wanted, Worker};
use net::Turn;
use resolver::{Action, ExchangeId, Outcome, Question, Resolver, Why};
use stats::{Counter, Counters};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use store::Stretch;

/// Questions taken from the ring before replies get their turn.
const QUESTIONS_PER_TURN_MAX: usize = 64;
const MESSAGE_MAX: usize = 65_535;
/// Answers of a burst: so many are made in some 0.4 ms.
pub const BURST_MAX: usize = 128;
/// A client over UDP gets what fits into a datagram of ours.
const DATAGRAM_MAX: usize = front::DATAGRAM_MAX;
/// RFC 9520 section 3.2: at least a second. Not longer, so that a server which is back is asked.
const FAILURE_S: u32 = 1;

pub struct Tasks {
    pub shared: Shared,
    pub inbox: Inbox,
    pub resolver: Resolver<Waiter>,
    pub worker: Worker<Stretch>,
    pub cache: Arc<Cache>,
    pub counters: Arc<Counters>,
    /// How long inserts took.
    pub inserts: Arc<Histogram>,
    pub burst: Burst,
    /// What each answer that is kept is packed into, for its room.
    pub value: Vec<u8>,
    /// Read twice a turn: a question that is asked with the time of its turn's begin seems to take longer by that much.
    pub now: Now,
    /// When the server stops: until then who waits may have an answer.
    pub end_ns: Option<u64>,
}

/// A client who waits, with all that it takes to answer.
pub struct Waiter {
    ticket: Ticket,
    peer: Peer,
    transport: Transport,
    /// Its question; then its answer, in the same room.
    message: Vec<u8>,
    wanted: Wanted,
    judged: Option<Judged>,
}

impl Tasks {
    /// Works until the server stops and nobody waits any more.
    pub fn run(mut self, mut upstream: Upstream) -> io::Result<()> {
        let mut room = vec![0; MESSAGE_MAX];
        loop {
            self.now = self.shared.clock.now();
            self.worker.on_idle();
            let is_empty = self.take_questions(&mut room);
            self.act(&mut upstream, &mut room);
            self.inbox.bell.about_to_sleep();
            // What came before that was said is taken now; it must not wait for the next event.
            let is_empty = self.take_questions(&mut room) && is_empty;
            self.act(&mut upstream, &mut room);
            if is_empty && self.turn() == Turn::Stop {
                return Ok(());
            }
            let at_most = if is_empty { self.patience() } else { Some(Duration::ZERO) };
            let events = upstream.wait(at_most)?;
            self.inbox.bell.is_awake();
            self.now = self.shared.clock.now();
            for i in 0..events {
                if upstream.is_ring(i) {
                    self.inbox.bell.wake.clear();
                } else {
                    self.hear(&mut upstream, i);
                }
            }
            self.resolver.on_deadline(self.now.mono_ns);
            self.act(&mut upstream, &mut room);
        }
    }

    /// Answers that are owed when the server stops may still come, for as long as answering threads wait for them.
    fn turn(&mut self) -> Turn {
        if !self.shared.stop.load(Relaxed) {
            return Turn::Go;
        }
        let now_ns = self.shared.clock.mono_ns();
        let end_ns = *self.end_ns.get_or_insert(now_ns + OWED_FOR.as_nanos() as u64);
        if self.resolver.waiters() > 0 && now_ns < end_ns { Turn::Go } else { Turn::Stop }
    }

    fn patience(&self) -> Option<Duration> {
        let now_ns = self.shared.clock.mono_ns();
        let until_ns = self.resolver.next_deadline().into_iter().chain(self.end_ns).min();
        until_ns.map(|at| Duration::from_nanos(at.saturating_sub(now_ns)))
    }

    fn hear(&mut self, upstream: &mut Upstream, event: usize) {
        upstream.on_event(event, |came| hear(&mut self.resolver, self.now.mono_ns, came));
    }

    /// Sends what the resolver wanted sent. True: some of it could not be, and there is more to do.
    fn send(&mut self, upstream: &mut Upstream) -> bool {
        let failed = upstream.end_turn(self.now.mono_ns, self.resolver.chance());
        failed.iter().for_each(|&exchange| self.resolver.on_failed(self.now.mono_ns, exchange));
        !failed.is_empty()
    }

    /// True if there are none left.
    fn take_questions(&mut self, room: &mut [u8]) -> bool {
        for _ in 0..QUESTIONS_PER_TURN_MAX {
            let Ok(postponed) = self.inbox.ring.try_recv() else { return true };
            self.on_question(postponed, room);
        }
        false
    }

    fn on_question(&mut self, postponed: Postponed, room: &mut [u8]) {
        let Postponed { ticket, peer, transport, message, purpose: Purpose::Resolve(miss) } = postponed else { return };
        let (wanted, judged) = (miss.wanted, miss.judged);
        let waiter = Waiter { ticket, peer, transport, message, wanted, judged };
        match wanted {
            Wanted::Answer => self.begin(miss, Some(waiter), room),
            Wanted::Prefetch => self.begin(miss, None, room),
            Wanted::RestOfChain => match self.compose(&waiter, room, None) {
                Composed::Reply(len) => self.post(waiter, &room[..len]),
                Composed::Needs(miss) => self.begin(miss, Some(waiter), room),
                Composed::Drop => self.post(waiter, &[]),
            },
        }
    }

    fn begin(&mut self, miss: Miss, waiter: Option<Waiter>, room: &mut [u8]) {
        // Of an alias that leads elsewhere the rest is composed, and what was asked for it has to be known.
        let rest = waiter.as_ref().filter(|w| w.wanted == Wanted::RestOfChain).map(|_| miss.question.clone());
        let waiter = waiter.map(|w| (w.peer.ip, w));
        if let Err((why, Some(waiter))) =
            self.resolver.on_question(self.now.mono_ns, miss.question, miss.has_stale, waiter)
        {
            let (rcode, ede) = why.told();
            // What has expired is for just such an outage.
            let told = Told::Stale(rcode, ede);
            match rest {
                Some(question) => self.tell(waiter, &question, &told, room),
                None => {
                    let len = self.answer(&waiter, &told, room);
                    self.post(waiter, &room[..len]);
                }
            }
        }
    }

    /// Does all that the resolver wants done.
    fn act(&mut self, upstream: &mut Upstream, room: &mut [u8]) {
        loop {
            if upstream.is_full() {
                self.send(upstream);
            }
            let Some(action) = self.resolver.next_action() else { if self.send(upstream) { continue } else { break } };
            match action {
                Action::Send { exchange, server, via, packet } => {
                    let parcel = Parcel { exchange, server, packet: &packet };
                    if let Err(e) = upstream.send(&parcel, via) {
                        self.on_send_failed(exchange, &e);
                    }
                    self.resolver.keep_packet(packet);
                }
                Action::Close(exchange) => upstream.close(exchange),
                Action::Finish { question, outcome, waiters } => self.finish(&question, outcome, waiters, room),
            }
        }
        self.burst.ring(&self.shared.mailboxes);
    }

    fn on_send_failed(&mut self, exchange: ExchangeId, e: &io::Error) {
        log::debug("a question to a server could not be sent", &[("why", e)]);
        self.resolver.on_failed(self.now.mono_ns, exchange);
    }

    fn finish(&mut self, question: &Question, outcome: Outcome, mut waiters: Vec<Waiter>, room: &mut [u8]) {
        let judged = waiters.last().and_then(|waiter| waiter.judged);
        let told = match &outcome {
            Outcome::Answer(answer) => {
                self.keep(question, judged, answer);
                Told::Answer(answer)
            }
            Outcome::Stale => {
                let (rcode, ede) = Why::Silence.told();
                Told::Stale(rcode, ede)
            }
            Outcome::Failed(why) => {
                if why.is_lasting() {
                    let key = self.key(question, judged, Kind::Failure);
                    self.insert(question, judged, &key, &[0], FAILURE_S);
                }
                let (rcode, ede) = why.told();
                Told::Stale(rcode, ede)
            }
        };
        for waiter in waiters.drain(..) {
            self.tell(waiter, question, &told, room);
        }
        self.resolver.keep_list(waiters);
        if let Outcome::Answer(answer) = outcome {
            self.resolver.keep_answer(answer);
        }
    }

    fn keep(&mut self, question: &Question, judged: Option<Judged>, answer: &resolver::Answer) {
        let key = self.key(question, judged, Kind::Answer);
        // Where it will stand in the cache comes from memory while its value is made.
        self.cache.seek(&key);
        let mut value = std::mem::take(&mut self.value);
        let written = cache::Written { rcode: answer.rcode, counts: answer.counts, body: &answer.body };
        let ttls = answer.ttls.iter().map(|ttl| (ttl.at, ttl.begins_set));
        let lifetime_s = cache::enclose(&written, ttls, &mut value).map_or(0, |()| answer.lifetime_s);
        match lifetime_s {
            0 => self.counters.count(Counter::CacheUnfit),
            ttl_s => self.insert(question, judged, &key, &value, ttl_s),
        }
        self.value = value;
    }

    fn key<'q>(&self, question: &'q Question, judged: Option<Judged>, kind: Kind) -> Key<'q> {
        let mut variant = if question.dnssec_ok { Variant::DNSSEC_OK } else { Variant::PLAIN };
        if question.checking_disabled {
            variant = variant.and(Variant::CHECKING_DISABLED);
        }
        let hash = judged.map_or_else(|| self.cache.hash(question.name()), |judged| judged.name_hash);
        self.cache.key(hash, question.name(), question.qtype, kind, variant)
    }

    /// What the cache does not take it counts itself. The generation is looked at before the zones: a zone is published
    /// before the generation moves, so nothing is kept under a generation whose zones have a word on the name.
    fn insert(&mut self, question: &Question, judged: Option<Judged>, key: &Key<'_>, value: &[u8], ttl_s: u32) {
        let generation = self.cache.generation();
        let is_judged = judged.is_some_and(|judged| judged.generation == generation);
        if !is_judged && self.worker.is_ours(self.now, question) {
            return;
        }
        let entry = Entry { value, ttl_s, source: question.neighbourhood(), generation };
        let begun_ns = self.shared.clock.mono_ns();
        let _ = self.cache.insert(key, &entry, front::cache_time(&self.cache, self.now));
        self.inserts.add(self.shared.clock.mono_ns() - begun_ns);
    }

    fn tell(&mut self, waiter: Waiter, question: &Question, told: &Told<'_>, room: &mut [u8]) {
        let len = match waiter.wanted {
            Wanted::RestOfChain => match self.compose(&waiter, room, Some((question, told))) {
                Composed::Reply(len) => len,
                Composed::Drop | Composed::Needs(_) => 0,
            },
            Wanted::Answer | Wanted::Prefetch => self.answer(&waiter, told, room),
        };
        self.post(waiter, &room[..len]);
    }

    fn answer(&mut self, waiter: &Waiter, told: &Told<'_>, room: &mut [u8]) -> usize {
        let (buffer, len) = packet(waiter, room);
        match self.worker.tell(self.now, waiter.peer, waiter.transport, buffer, len, told) {
            Verdict::Reply(len) => len,
            Verdict::Drop | Verdict::Later => 0,
        }
    }

    fn compose(&mut self, waiter: &Waiter, room: &mut [u8], known: Option<(&Question, &Told<'_>)>) -> Composed {
        let (buffer, len) = packet(waiter, room);
        self.worker.compose(self.now, waiter.peer, waiter.transport, buffer, len, known)
    }

    /// An empty answer says that there will be none.
    fn post(&mut self, waiter: Waiter, answer: &[u8]) {
        let Waiter { ticket, message, .. } = waiter;
        self.burst.put(&self.shared.mailboxes, ticket, in_its_room(message, answer));
    }
}

fn hear(resolver: &mut Resolver<Waiter>, now_ns: u64, came: Came<'_>) {
    match came {
        Came::Packet(exchange, packet) => resolver.on_reply(now_ns, exchange, packet),
        Came::Failed(exchange) => resolver.on_failed(now_ns, exchange),
    }
}

/// The waiter's packet in a buffer where its answer may take its place.
fn packet<'r>(waiter: &Waiter, room: &'r mut [u8]) -> (&'r mut [u8], usize) {
    let len = waiter.message.len().min(room.len());
    room[..len].copy_from_slice(&waiter.message[..len]);
    let size = if waiter.transport == Transport::Tcp { room.len() } else { DATAGRAM_MAX };
    (&mut room[..size], len)
}
