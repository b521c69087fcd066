//! One answering thread's state, and the five stages that a batch goes through.
//!
//! Parse all, probe all, walk all, choose all, write all: while one query's memory is on its way, the others are worked
//! on. On 8.5 million records that is worth half the cost of a query.

use crate::resolving::{Resolution, Resolving, Told};
use crate::respond::{Response, absence};
use crate::{Datagrams, Now, Peer, Postponed, Presence, Published, Purpose, Ticket, Transport, Unserved, Verdict, Way};
use authority::{Found, Lookup, Trail};
use cache::{Kind, Sought};
use image::Image;
use policy::rate::Places;
use policy::{Grants, Lists, RateLimit, RateSettings, cookie};
use stats::{Counter, Counters};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use transfer::tsig::Keys;
use wire::reply::{Flags, Opt};
use wire::{Parsed, Query};

/// Datagrams worked on together; a longer batch is cut.
pub const BATCH_MAX: usize = 64;

/// Who may have which zone, by apex. No answering thread looks into it.
pub type Granted = HashMap<Box<[u8]>, Grants>;

/// What is served, and to whom: swapped as a whole.
pub struct Zones<M> {
    pub image: Image<M>,
    /// By the zones' numbers in the image.
    pub allow_query: Arc<Lists>,
    pub allow_transfer: Arc<Granted>,
    pub unserved: Arc<Unserved>,
}

impl<M> Zones<M> {
    /// All zones are in the image, and for everybody.
    pub fn of(image: Image<M>) -> Zones<M> {
        Zones { image, allow_query: Arc::default(), allow_transfer: Arc::default(), unserved: Arc::default() }
    }

    /// The same zones in another image, under the same numbers.
    pub fn with(&self, image: Image<M>) -> Zones<M> {
        Zones {
            image,
            allow_query: Arc::clone(&self.allow_query),
            allow_transfer: Arc::clone(&self.allow_transfer),
            unserved: Arc::clone(&self.unserved),
        }
    }
}

/// What the operator decides about answers. Fixed for a worker's life.
#[derive(Clone)]
pub struct Setup {
    pub nsid: Option<Vec<u8>>,
    /// version.bind and version.server
    pub version: Option<String>,
    /// id.server and hostname.bind
    pub identity: Option<String>,
    /// The records of an RRset take turns in being first.
    pub rotate: bool,
    /// The largest answer over UDP.
    pub udp_size_max: u16,
    /// What the secrets of server cookies are made of. None: no cookies.
    pub cookie_secret: Option<cookie::Secret>,
    pub rate: Option<RateSettings>,
    /// Random, for the rate limit's table.
    pub rate_key: [u64; 2],
    /// Ports and addresses that we listen on: a query from there is our own answer come back.
    pub own: Vec<(IpAddr, u16)>,
    /// How long a TCP connection may idle, told to clients that ask (RFC 7828), in units of 100 ms.
    pub keepalive_tenths: u16,
    /// Those of `[[key]]`: who signs a query with one is answered under it. Not fixed for a worker's life.
    pub keys: Arc<Published<Keys>>,
    /// Updates are postponed, for somebody carries them out; else they are refused.
    pub takes_updates: bool,
    /// Transfers are postponed, for somebody gives zones away; else they are refused.
    pub gives_transfers: bool,
    /// Of the zones that come from others. Not fixed for a worker's life.
    pub presence: Arc<Published<Presence>>,
    /// None: our zones are all that is answered for, and there is no cache to ask.
    pub resolving: Option<Resolving>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            nsid: None,
            version: None,
            identity: None,
            rotate: false,
            udp_size_max: 1232,
            cookie_secret: None,
            rate: None,
            rate_key: [0; 2],
            own: vec![],
            keepalive_tenths: 100,
            keys: Arc::new(Published::new(Keys::default())),
            takes_updates: false,
            gives_transfers: false,
            presence: Arc::new(Published::new(Presence::default())),
            resolving: None,
        }
    }
}

pub struct Worker<M> {
    published: Arc<Published<Zones<M>>>,
    zones: Arc<Zones<M>>,
    generation: u64,
    presence: Arc<Presence>,
    /// Of `presence`.
    marked: u64,
    setup: Setup,
    rate: Option<RateLimit>,
    cookies: Option<cookie::Secrets>,
    counters: Arc<Counters>,
    /// Of what is a part of an answer only: nobody reads them.
    parts: Counters,
    /// What is written now is such a part.
    pub(crate) writes_parts: bool,
    scratch: Vec<Scratch>,
    /// Of the last batch or message only, so a batch at most: the driver takes them before the next.
    postponed: VecDeque<Postponed>,
    /// Room for messages that are postponed, come back from answers that were sent: `ROOMS_MAX` pieces.
    rooms: Vec<Vec<u8>>,
    /// Where the cache copies entries to; absent without one.
    entry: Option<Box<cache::Scratch>>,
    /// The cache's generation: `zones` are of this one or a later one.
    cached: u32,
}

/// Room for messages that is kept for later ones.
const ROOMS_MAX: usize = 256;
/// Octets of it: for a query, and for most answers in its place.
const ROOM: usize = 512;
const ROOM_MAX: usize = 2_048;

/// Before the first query of a batch.
const NOBODY: Peer = Peer { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: 0 };

/// A response of this worker, borrowing it field by field, so that its scratch stays free.
macro_rules! response {
    ($worker:expr, $now:expr, $peer:expr, $transport:expr, $view:expr) => {
        Response {
            now: $now,
            peer: $peer,
            transport: $transport,
            setup: &$worker.setup,
            counters: &$worker.counters,
            answers: if $worker.writes_parts { &$worker.parts } else { &$worker.counters },
            parts: &$worker.parts,
            zones: &$worker.zones,
            presence: &$worker.presence,
            view: $view,
            rate: None,
            places: Places::default(),
            cookies: $worker.cookies.as_ref(),
            reserve: 0,
        }
    };
}

/// What one query needs between the stages.
#[derive(Clone, Default)]
struct Scratch {
    query: Query,
    lookup: Lookup,
    trail: Trail,
    places: Places,
    sought: Option<Sought>,
}

impl<M: AsRef<[u8]>> Worker<M> {
    pub fn new(published: Arc<Published<Zones<M>>>, setup: Setup, counters: Arc<Counters>) -> Worker<M> {
        let (zones, generation) = published.current();
        let (presence, marked) = setup.presence.current();
        let rate = setup.rate.clone().map(|r| RateLimit::new(r, setup.rate_key));
        let cookies = setup.cookie_secret.map(cookie::Secrets::new);
        let (scratch, postponed, rooms) = (vec![Scratch::default(); BATCH_MAX], VecDeque::new(), Vec::new());
        let entry = setup.resolving.as_ref().map(|_| Box::default());
        Worker {
            published,
            zones,
            generation,
            presence,
            marked,
            setup,
            rate,
            cookies,
            counters,
            parts: Counters::default(),
            writes_parts: false,
            scratch,
            postponed,
            rooms,
            entry,
            cached: 0,
        }
    }

    #[inline]
    fn refresh(&mut self, now: Now) {
        self.turn(now);
        self.renew();
    }

    #[inline]
    fn turn(&mut self, now: Now) {
        if let Some(cookies) = &mut self.cookies {
            cookies.turn(now.wall_s);
        }
    }

    #[inline]
    fn renew(&mut self) -> bool {
        // Before the zones are looked for: they are published before the cache's generation moves.
        self.cached = self.setup.resolving.as_ref().map_or(0, |resolving| resolving.cache.generation());
        let mut is_new = self.published.generation() != self.generation;
        if is_new {
            (self.zones, self.generation) = self.published.latest();
        }
        if self.setup.presence.generation() != self.marked {
            (self.presence, self.marked) = self.setup.presence.latest();
            is_new = true;
        }
        is_new
    }

    /// Goes over to what is new, and lets go of what that replaces; true if something is. For a thread without traffic, now and then.
    pub fn on_idle(&mut self) -> bool {
        self.renew()
    }

    /// A question of the last call whose verdict was `Later`; to be asked until there is none.
    #[inline]
    pub fn next_postponed(&mut self) -> Option<Postponed> {
        self.postponed.pop_front()
    }

    /// Takes back the room of a message that was postponed, where many are: for those that resolve.
    pub fn keep_room(&mut self, mut room: Vec<u8>) {
        let is_wanted = self.setup.resolving.is_some() && self.rooms.len() < ROOMS_MAX;
        if is_wanted && (ROOM..=ROOM_MAX).contains(&room.capacity()) {
            room.clear();
            self.rooms.push(room);
        }
    }

    /// Answers datagrams, each in its own buffer.
    pub fn on_batch(&mut self, now: Now, batch: &mut impl Datagrams) {
        self.renew();
        self.answer_batch(now, batch);
    }

    /// The same, by what it has gone over to: for who has called `on_idle` just before.
    pub fn answer_batch(&mut self, now: Now, batch: &mut impl Datagrams) {
        self.turn(now);
        if self.setup.resolving.is_some() {
            return self.on_batch_resolving(now, batch);
        }
        let n = batch.len().min(BATCH_MAX);
        let faults = self.zones.image.faults();
        let view = self.zones.image.view();
        for (i, s) in self.scratch[..n].iter_mut().enumerate() {
            if let Some(rate) = &self.rate {
                s.places = rate.places(batch.peer(i).ip);
            }
            let (buffer, len) = batch.packet(i);
            s.query.parse(buffer, len, view.ahead(), view.seed());
            if s.query.parsed == Parsed::Question {
                Lookup::begin(&s.query, view);
            }
        }
        let looked_for = |s: &&mut Scratch| s.query.parsed == Parsed::Question;
        self.scratch[..n].iter_mut().filter(looked_for).for_each(|s| s.lookup.probe(&s.query, view));
        self.scratch[..n].iter_mut().filter(looked_for).for_each(|s| s.lookup.walk(&s.query, view));
        self.scratch[..n].iter_mut().filter(looked_for).for_each(|s| s.lookup.choose(&s.query, view));
        self.counters.add(Counter::QueriesUdp, n as u64);
        let response = response!(self, now, NOBODY, Transport::Udp, view);
        let mut response = Response { rate: self.rate.as_mut(), ..response };
        for (i, s) in self.scratch[..n].iter_mut().enumerate() {
            let peer = batch.peer(i);
            let (buffer, len) = batch.room(i);
            response.peer = peer;
            if response.rate.is_some() {
                response.places = s.places;
            }
            let len = match response.write(&mut s.query, &mut s.lookup, &mut s.trail, buffer) {
                Verdict::Reply(len) => len,
                Verdict::Drop => 0,
                Verdict::Later => {
                    let postponed = response.purpose(&s.query).map(|purpose| Postponed {
                        ticket: batch.ticket(i),
                        peer,
                        transport: Transport::Udp,
                        message: batch.room(i).0[..len].into(),
                        purpose,
                    });
                    self.postponed.extend(postponed);
                    0
                }
            };
            batch.set_reply(i, len);
        }
        if self.zones.image.faults() != faults {
            self.counters.add(Counter::DropDamaged, n as u64);
            (0..n).for_each(|i| batch.set_reply(i, 0));
        }
    }

    /// Stages for clients that we resolve for: the cache is probed where otherwise the zones are walked.
    fn on_batch_resolving(&mut self, now: Now, batch: &mut impl Datagrams) {
        let (Some(resolving), Some(entry)) = (&self.setup.resolving, &mut self.entry) else { return };
        let n = batch.len().min(BATCH_MAX);
        let faults = self.zones.image.faults();
        let view = self.zones.image.view();
        for (i, s) in self.scratch[..n].iter_mut().enumerate() {
            let from = batch.peer(i).ip;
            if let Some(rate) = &self.rate {
                s.places = rate.places(from);
            }
            let (buffer, len) = batch.packet(i);
            s.query.parse(buffer, len, 0, 0);
            s.sought = resolving.seek(&s.query, buffer, from);
        }
        let sought = self.scratch[..n].iter_mut().filter_map(|s| s.sought.as_mut());
        sought.for_each(|sought| resolving.cache.fetch(sought, Kind::Failure));
        self.counters.add(Counter::QueriesUdp, n as u64);
        let response = response!(self, now, NOBODY, Transport::Udp, view);
        let response = Response { rate: self.rate.as_mut(), ..response };
        let mut resolution = Resolution::new(response, resolving, self.cached, entry);
        for (i, s) in self.scratch[..n].iter_mut().enumerate() {
            let peer = batch.peer(i);
            let (buffer, len) = batch.room(i);
            (resolution.response.peer, resolution.len) = (peer, len);
            if resolution.response.rate.is_some() {
                resolution.response.places = s.places;
            }
            let verdict = resolution.write(&mut s.query, s.sought, &mut s.lookup, &mut s.trail, buffer);
            let reply = if let Verdict::Reply(len) = verdict { len } else { 0 };
            let miss = resolution.miss.take();
            let purpose = match (miss, verdict) {
                (Some(miss), _) => Some(Purpose::Resolve(miss)),
                (None, Verdict::Later) => resolution.response.purpose(&s.query),
                (None, _) => None,
            };
            if let Some(purpose) = purpose {
                let mut message = Vec::new();
                if reply == 0 {
                    message = self.rooms.pop().unwrap_or_else(|| Vec::with_capacity(ROOM));
                    message.extend_from_slice(&buffer[..len]);
                }
                let ticket = batch.ticket(i);
                self.postponed.push_back(Postponed { ticket, peer, transport: Transport::Udp, message, purpose });
            }
            batch.set_reply(i, reply);
        }
        if self.zones.image.faults() != faults {
            self.counters.add(Counter::DropDamaged, n as u64);
            (0..n).for_each(|i| batch.set_reply(i, 0));
            // What was read may have said of a name of ours that it is not; of an update or a NOTIFY nothing was read.
            self.postponed.retain(|question| !matches!(question.purpose, Purpose::Resolve(_)));
        }
    }

    /// Answers one datagram.
    pub fn on_datagram(&mut self, now: Now, peer: Peer, buffer: &mut [u8], len: usize) -> Verdict {
        struct One<'a>(Peer, &'a mut [u8], usize);
        impl Datagrams for One<'_> {
            fn len(&self) -> usize {
                1
            }
            fn peer(&self, _: usize) -> Peer {
                self.0
            }
            fn ticket(&self, _: usize) -> Ticket {
                let peer = SocketAddr::new(self.0.ip, self.0.port);
                let asked = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
                Ticket { thread: 0, way: Way::Datagram { port: 0, peer, asked, interface: 0 } }
            }
            fn packet(&mut self, _: usize) -> (&mut [u8], usize) {
                (self.1, self.2)
            }
            fn set_reply(&mut self, _: usize, len: usize) {
                self.2 = len;
            }
        }
        let mut one = One(peer, buffer, len);
        self.on_batch(now, &mut one);
        match one.2 {
            0 if self.postponed.is_empty() => Verdict::Drop,
            0 => Verdict::Later,
            len => Verdict::Reply(len),
        }
    }

    /// Answers one message of a stream. The buffer holds 65,535 octets.
    pub fn on_message(&mut self, now: Now, peer: Peer, ticket: Ticket, buffer: &mut [u8], len: usize) -> Verdict {
        self.refresh(now);
        self.counters.count(Counter::QueriesTcp);
        let faults = self.zones.image.faults();
        let verdict = match self.setup.resolving {
            Some(_) => self.part(now, peer, ticket, buffer, len),
            None => self.part_of_ours(now, peer, buffer, len),
        };
        if self.zones.image.faults() != faults {
            self.counters.count(Counter::DropDamaged);
            self.postponed.clear();
            return Verdict::Drop;
        }
        if verdict == Verdict::Later && self.postponed.is_empty() {
            let response = response!(self, now, peer, Transport::Tcp, self.zones.image.view());
            let purpose = response.purpose(&self.scratch[0].query);
            let (transport, message) = (Transport::Tcp, buffer[..len].into());
            let postponed = purpose.map(|purpose| Postponed { ticket, peer, transport, message, purpose });
            self.postponed.extend(postponed);
        }
        verdict
    }

    /// What our zones say, whoever asks.
    pub(crate) fn part_of_ours(&mut self, now: Now, peer: Peer, buffer: &mut [u8], len: usize) -> Verdict {
        let view = self.zones.image.view();
        let s = &mut self.scratch[0];
        s.query.parse(buffer, len, view.ahead(), view.seed());
        if s.query.parsed == Parsed::Question {
            s.lookup.at_once(&s.query, view);
        }
        let mut response = response!(self, now, peer, Transport::Tcp, view);
        response.write(&mut s.query, &mut s.lookup, &mut s.trail, buffer)
    }

    /// What cache and zones know.
    pub(crate) fn part(&mut self, now: Now, peer: Peer, ticket: Ticket, buffer: &mut [u8], len: usize) -> Verdict {
        let s = &mut self.scratch[0];
        s.query.parse(buffer, len, 0, 0);
        let (Some(resolving), Some(entry)) = (&self.setup.resolving, &mut self.entry) else { return Verdict::Drop };
        let sought = resolving.seek(&s.query, buffer, peer.ip);
        let response = response!(self, now, peer, Transport::Tcp, self.zones.image.view());
        let mut resolution = Resolution { len, ..Resolution::new(response, resolving, self.cached, entry) };
        let verdict = resolution.write(&mut s.query, sought, &mut s.lookup, &mut s.trail, buffer);
        let (miss, response) = (resolution.miss, resolution.response);
        let purpose = match (miss, verdict) {
            (Some(miss), _) => Some(Purpose::Resolve(miss)),
            (None, Verdict::Later) => response.purpose(&s.query),
            (None, _) => None,
        };
        if let Some(purpose) = purpose {
            let message = if verdict == Verdict::Later { buffer[..len].into() } else { Vec::new() };
            let transport = Transport::Tcp;
            self.postponed.push_back(Postponed { ticket, peer, transport, message, purpose });
        }
        verdict
    }

    /// A zone of ours, as published now, has a word on this name.
    pub fn is_ours(&mut self, now: Now, question: &resolver::Question) -> bool {
        self.refresh(now);
        let view = self.zones.image.view();
        let s = &mut self.scratch[0];
        s.query.qtype = question.qtype;
        s.query.follow(question.name(), view.ahead(), view.seed());
        s.lookup.at_once(&s.query, view);
        !matches!(s.lookup.found, Found::NotOurs | Found::Cut)
            || absence(&self.zones, &self.presence, &s.query, &s.lookup).is_some()
    }

    /// Answers the packet of a client who has waited.
    pub fn tell(
        &mut self,
        now: Now,
        peer: Peer,
        transport: Transport,
        buffer: &mut [u8],
        len: usize,
        told: &Told<'_>,
    ) -> Verdict {
        self.tell_with(now, peer, transport, buffer, len, told, Flags::NONE)
    }

    #[expect(clippy::too_many_arguments, reason = "a packet, where it came from, and what is to be said")]
    pub(crate) fn tell_with(
        &mut self,
        now: Now,
        peer: Peer,
        transport: Transport,
        buffer: &mut [u8],
        len: usize,
        told: &Told<'_>,
        also: Flags,
    ) -> Verdict {
        let s = &mut self.scratch[0];
        s.query.parse(buffer, len, 0, 0);
        let (Some(resolving), Some(entry)) = (&self.setup.resolving, &mut self.entry) else { return Verdict::Drop };
        if s.query.parsed != Parsed::Question {
            return Verdict::Drop;
        }
        // It was admitted when it came, and is not counted again.
        let response = response!(self, now, peer, transport, self.zones.image.view());
        let mut opt = Opt::plain(self.setup.udp_size_max, s.query.edns.dnssec_ok);
        response.options(&s.query, buffer, &mut opt);
        response.told(&s.query, told, also, resolving, entry, opt, buffer)
    }
}
