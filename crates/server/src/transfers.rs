//! Zones given away as a whole (RFC 5936): one thread judges who asks, and each transfer that is under way has its own.
//!
//! ```text
//! answering thread -> asks (bounded) -> TSIG, zone, grants -> those that wait (bounded) -> a thread a transfer
//! a transfer: one version of the zone -> a message, signed -> mailbox -> the thread of the connection
//!             and the next message when the kernel has taken that one
//! ```
//! A transfer keeps the image that it began with, whatever is published meanwhile; who publishes lets go of an image when
//! nobody reads it any more. How slowly a peer may read is the connection's business: the transfer ends with that. Whoever may not
//! have a zone takes no place of those who may.
//!
//! A question for what has changed (RFC 1995) is answered with the whole zone, as section 4 allows, or with its SOA alone
//! if nothing has, or over UDP.

pub(crate) mod valve;

use crate::answering::Shared;
use crate::answering::later::{self, Desk, Mailboxes};
use crate::answering::queue::{self, Receiver, Sender};
use crate::clock::wall_s;
use crate::images;
use crate::images::laying;
use crate::log::{self, Seldom};
use crate::refusals::{self, ELSEWHERE, FAILED, MALFORMED, NOT_NOW, Notice, PROHIBITED, head, unproven};
use crate::state::State;
use front::locks::hold;
use front::{Mark, Postponed, Presence, Published, Transport, Zones};
use image::{Damaged, Image};
use stats::{Counter, Counters};
use std::collections::VecDeque;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::Stretch;
use transfer::axfr::{Pages, TooLarge};
use transfer::message::Message;
use transfer::record::{is_newer, serial_of};
use transfer::tsig::{self, Keys, Signed, Stream};
use transfer::update::Refused;
use valve::Valve;
use wire::query::CLASS_IN;
use wire::{Rcode, Rtype, rtype};

/// Transfers under way.
pub const AT_ONCE_MAX: usize = 10;
/// Transfers that wait for one of those to end. Whoever waits too long is closed by his connection's limits.
const WAITING_MAX: usize = 1000;
/// Questions that wait to be judged; more are dropped and counted.
const ASKED_MAX: usize = 256;
/// A connection is closed long before a message has lain in it for so long.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// A transfer that lasts longer keeps an image from going for too long.
pub const LASTS_MAX: Duration = Duration::from_secs(2 * 3600);

enum Order {
    Asked(Postponed),
    /// A place has become free.
    Ended,
}

/// Where answering threads leave questions for zones.
#[derive(Clone)]
pub struct Asks(Sender<Order>);

/// The other end of it.
pub struct Orders(Receiver<Order>);

pub fn asks() -> (Asks, Orders) {
    let (sender, orders) = queue::bounded(ASKED_MAX);
    (Asks(sender), Orders(orders))
}

impl Desk for Asks {
    fn take(&self, question: Postponed) -> bool {
        self.0.try_send(Order::Asked(question)).is_ok()
    }
}

/// Who judges.
pub struct Transfers {
    published: Arc<Published<Zones<Stretch>>>,
    keys: Arc<Published<Keys>>,
    presence: Arc<Published<Presence>>,
    mailboxes: Arc<Mailboxes>,
    state: Arc<State>,
    /// Where transfers say that they are over.
    asks: Asks,
    refused: Seldom,
    /// Whoever is given a zone may break that off as often as he likes.
    broken: Arc<Mutex<Seldom>>,
}

/// A transfer that is allowed, of these zones as they are.
struct Wanted {
    question: Postponed,
    zones: Arc<Zones<Stretch>>,
    apex: Box<[u8]>,
    stream: Option<Stream>,
}

/// Which zone may be given, of which zones, and what signs it.
type Giveable = (Arc<Zones<Stretch>>, Box<[u8]>, Option<Stream>);

/// What a client has a right to.
enum Right {
    Whole(Arc<Zones<Stretch>>, Box<[u8]>),
    /// This message, which says which version we have.
    Soa(Vec<u8>),
}

impl Transfers {
    pub fn new(shared: &Shared, state: &Arc<State>, asks: Asks) -> Transfers {
        Transfers {
            published: Arc::clone(&shared.published),
            keys: Arc::clone(&shared.keys),
            presence: Arc::clone(&shared.presence),
            mailboxes: Arc::clone(&shared.mailboxes),
            state: Arc::clone(state),
            asks,
            refused: Seldom::default(),
            broken: Arc::default(),
        }
    }

    /// Works until nobody can ask for anything any more.
    pub fn run(mut self, orders: &Orders) {
        let (mut waiting, places) = (VecDeque::new(), Arc::<Places>::default());
        while let Some(order) = orders.0.recv() {
            if let Order::Asked(question) = order
                && let Some(wanted) = self.judged(question, waiting.len() >= WAITING_MAX)
            {
                // Nobody goes before those who wait.
                let place = if waiting.is_empty() { Place::take(&places, &self.asks) } else { None };
                match place {
                    Some(place) => self.start(wanted, place),
                    None => waiting.push_back(wanted.question),
                }
            }
            while !waiting.is_empty()
                && let Some(place) = Place::take(&places, &self.asks)
                && let Some(question) = waiting.pop_front()
            {
                // Who has waited may have had a right that he has no more.
                if let Some(wanted) = self.judged(question, false) {
                    self.start(wanted, place);
                }
            }
        }
    }

    /// None: it has its answer.
    fn judged(&mut self, question: Postponed, is_full: bool) -> Option<Wanted> {
        match self.judge(&question, is_full) {
            Ok((zones, apex, stream)) => Some(Wanted { question, zones, apex, stream }),
            Err(reply) => {
                self.mailboxes.answer(question, &reply.unwrap_or_default(), &self.state.transfers[AT_ONCE_MAX]);
                None
            }
        }
    }

    fn count(&self, which: Counter) {
        self.state.transfers[AT_ONCE_MAX].count(which);
    }

    fn refuse(&mut self, question: &Postponed, why: impl ToString) {
        self.count(Counter::TransferRefused);
        if let Some(told) = Notice::of(question, why, &mut self.refused) {
            log::info("a transfer is refused", &told.facts());
        }
    }

    /// Err: this is the answer, if there is any.
    fn judge(&mut self, question: &Postponed, is_full: bool) -> Result<Giveable, Option<Vec<u8>>> {
        let ((keys, _), now_s) = (self.keys.current(), wall_s());
        let signed = match tsig::check_request(&question.message, &keys, now_s) {
            Ok(signed) => signed,
            Err(refusal) => {
                self.refuse(question, &refusal);
                return Err(unproven(&question.message, &refusal, now_s));
            }
        };
        let reply = match self.wanted(question, signed.as_ref()) {
            Ok(Right::Whole(..)) if is_full => {
                self.count(Counter::TransferBusy);
                head(&question.message, NOT_NOW)
            }
            Ok(Right::Whole(zones, apex)) => {
                return Ok((zones, apex, signed.map(|signed| signed.stream())));
            }
            Ok(Right::Soa(reply)) => Some(reply),
            Err(refused) => {
                self.refuse(question, refusals::why(refused));
                head(&question.message, refused)
            }
        };
        Err(reply.map(|mut reply| {
            signed.iter().for_each(|signed| signed.sign(&mut reply, now_s));
            reply
        }))
    }

    fn wanted(&self, question: &Postponed, signed: Option<&Signed>) -> Result<Right, Refused> {
        let message = Message::new(&question.message).ok_or(MALFORMED)?;
        refusals::check_edns(&message)?;
        let (asked, _) = message.question().ok_or(MALFORMED)?;
        let apex: Box<[u8]> = asked.name.fold().bytes().into();
        let (zones, _) = self.published.current();
        let zone = laying::zone(zones.image.view(), &apex);
        let mark = self.presence.current().0.mark(&apex);
        let is_ours = zone.is_some() || mark.is_some() || zones.unserved.has(&apex);
        if !is_ours || asked.class != CLASS_IN {
            return Err(ELSEWHERE);
        }
        let key = signed.map(|signed| signed.key().name());
        if !zones.allow_transfer.get(&apex).is_some_and(|grants| grants.admit(question.peer.ip, key)) {
            return Err(PROHIBITED);
        }
        // What may not be answered for is not given on, either.
        if mark == Some(Mark::Expired) {
            return Err(FAILED);
        }
        let zone = zone.ok_or(FAILED)?;
        if asked.rtype == rtype::AXFR {
            return Ok(Right::Whole(zones, apex));
        }
        let known = message.records().flatten().find(|rr| rr.section == 2 && rr.rtype == rtype::SOA);
        let known = known.and_then(|rr| serial_of(&rr.rdata()?)).ok_or(MALFORMED)?;
        if question.transport == Transport::Tcp && is_newer(zone.serial().map_err(|_| FAILED)?, known) {
            return Ok(Right::Whole(zones, apex));
        }
        let soa = Soa::of(&zone).map_err(|_| FAILED)?;
        let mut pages = Pages::new(&question.message, 0).ok_or(MALFORMED)?;
        soa.push(&mut pages).map_err(|_| FAILED)?;
        Ok(Right::Soa(pages.finish()))
    }

    fn start(&self, wanted: Wanted, place: Place) {
        let (ticket, name) = (wanted.question.ticket, format!("transfer {}", place.number));
        let failure = tsig::reply_head(&wanted.question.message, Rcode::SERVFAIL).unwrap_or_default();
        let (state, mailboxes, broken) =
            (Arc::clone(&self.state), Arc::clone(&self.mailboxes), Arc::clone(&self.broken));
        let give = move || {
            if let Err(e) = net::sched::modest() {
                log::warn("a transfer has the priority of answers", &[("why", &e)]);
            }
            // All of it moves here, and goes last.
            let place = place;
            Giving::new(&wanted, &mailboxes, &state.transfers[place.number]).run(&broken);
        };
        if let Err(e) = std::thread::Builder::new().name(name).spawn(give) {
            log::error("no thread for a transfer", &[("why", &e)]);
            self.mailboxes.post(ticket, failure);
        }
    }
}

/// Which places are taken.
type Places = [AtomicBool; AT_ONCE_MAX];

/// A place among those under way; free again when this is dropped, however the transfer ends.
struct Place {
    number: usize,
    places: Arc<Places>,
    asks: Asks,
}

impl Place {
    fn take(places: &Arc<Places>, asks: &Asks) -> Option<Place> {
        let number = places.iter().position(|place| !place.swap(true, Relaxed))?;
        Some(Place { number, places: Arc::clone(places), asks: asks.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places[self.number].store(false, Relaxed);
        // Where there is no room for this, an order is yet to be looked at, and after each of them the places are.
        let _ = self.asks.0.try_send(Order::Ended);
    }
}

/// The SOA of a zone, which its transfer begins and ends with.
pub struct Soa {
    owner: Vec<u8>,
    pub ttl: u32,
    pub rdata: Vec<u8>,
}

impl Soa {
    pub fn of(zone: &image::Zone<'_>) -> Result<Soa, Damaged> {
        let apex = zone.apex()?;
        let owner = apex.apex_name()?.to_vec();
        let records = image::edit::records_of(&apex, &owner)?;
        let soa = records.into_iter().find(|r| r.rtype == rtype::SOA).ok_or(Damaged)?;
        Ok(Soa { owner, ttl: soa.ttl, rdata: soa.rdata.into() })
    }

    fn push(&self, pages: &mut Pages) -> Result<Option<Vec<u8>>, TooLarge> {
        pages.push(&self.owner, rtype::SOA, self.ttl, &self.rdata)
    }
}

/// Why a transfer ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// Nobody takes the rest.
    Gone,
    /// It lasts too long.
    Late,
    Damaged,
    TooLarge,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Broken::Gone => "the peer has gone, or does not read",
            Broken::Late => "it lasted too long",
            Broken::Damaged => "the image is damaged",
            Broken::TooLarge => "a record fits into no message",
        })
    }
}

impl From<Damaged> for Broken {
    fn from(_: Damaged) -> Broken {
        Broken::Damaged
    }
}

impl From<TooLarge> for Broken {
    fn from(_: TooLarge) -> Broken {
        Broken::TooLarge
    }
}

/// A transfer under way.
struct Giving<'a> {
    wanted: &'a Wanted,
    image: &'a Image<Stretch>,
    /// Reads of the image that had failed when it began.
    faults: u32,
    mailboxes: &'a Mailboxes,
    counters: &'a Counters,
    valve: Arc<Valve>,
    stream: Option<Stream>,
    began: Instant,
    octets: u64,
    records: u64,
}

impl<'a> Giving<'a> {
    fn new(wanted: &'a Wanted, mailboxes: &'a Mailboxes, counters: &'a Counters) -> Giving<'a> {
        let image = &wanted.zones.image;
        Giving {
            wanted,
            image,
            faults: image.faults(),
            mailboxes,
            counters,
            valve: Arc::new(Valve::new()),
            stream: wanted.stream.clone(),
            began: Instant::now(),
            octets: 0,
            records: 0,
        }
    }

    fn run(mut self, broken: &Mutex<Seldom>) {
        let outcome = self.give();
        let (zone, to) = (images::name(&self.wanted.apex), self.wanted.question.peer.ip);
        let key = self.stream.as_ref().map_or("none".to_string(), |stream| stream.key().text());
        let ms = self.began.elapsed().as_millis();
        match outcome {
            Ok(serial) => {
                self.counters.count(Counter::TransferDone);
                let facts: [(&str, &dyn fmt::Display); 7] = [
                    ("zone", &zone),
                    ("serial", &serial),
                    ("to", &to),
                    ("key", &key),
                    ("records", &self.records),
                    ("octets", &self.octets),
                    ("ms", &ms),
                ];
                log::info("a zone was given away", &facts);
            }
            Err(why) => {
                self.counters.count(Counter::TransferBroken);
                self.break_off(why);
                if let Some(unsaid) = hold(broken).untold() {
                    let facts: [(&str, &dyn fmt::Display); 6] = [
                        ("zone", &zone),
                        ("to", &to),
                        ("key", &key),
                        ("records", &self.records),
                        ("why", &why),
                        ("unsaid", &unsaid),
                    ];
                    log::warn("a zone was not given away", &facts);
                }
            }
        }
    }

    /// The whole zone, from SOA to SOA; the serial that it has.
    fn give(&mut self) -> Result<u32, Broken> {
        // Both were there when it was judged.
        let zone = laying::zone(self.image.view(), &self.wanted.apex).ok_or(Damaged)?;
        let soa = Soa::of(&zone)?;
        let keep = self.stream.as_ref().map_or(0, Stream::room);
        let mut pages = Pages::new(&self.wanted.question.message, keep).ok_or(Damaged)?;
        let mut outcome = soa.push(&mut pages).map(drop).map_err(Broken::from);
        zone.each_record_until(&mut |owner, rtype, ttl, rdata| {
            let is_soa = rtype == rtype::SOA && owner == soa.owner;
            if outcome.is_ok() && !is_soa {
                outcome = self.add(&mut pages, owner, rtype, ttl, rdata);
            }
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
        self.add(&mut pages, &soa.owner, rtype::SOA, soa.ttl, &soa.rdata)?;
        let last = self.signed(pages.finish())?;
        later::count(&last, self.counters);
        self.mailboxes.post(self.wanted.question.ticket, last);
        zone.serial().map_err(Broken::from)
    }

    fn add(&mut self, pages: &mut Pages, owner: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8]) -> Result<(), Broken> {
        self.records += 1;
        match pages.push(owner, rtype, ttl, rdata)? {
            Some(full) => self.send(full),
            None => Ok(()),
        }
    }

    /// Hands a message over, and waits until it is taken.
    fn send(&mut self, message: Vec<u8>) -> Result<(), Broken> {
        let message = self.signed(message)?;
        let is_sent = self.mailboxes.post_piece(self.wanted.question.ticket, message, &self.valve);
        if !is_sent || self.valve.pass(TAKEN_WITHIN).is_err() {
            return Err(Broken::Gone);
        }
        if self.began.elapsed() > LASTS_MAX { Err(Broken::Late) } else { Ok(()) }
    }

    /// The message with its signature, if what it says was read from an image that is sound.
    fn signed(&mut self, mut message: Vec<u8>) -> Result<Vec<u8>, Broken> {
        if self.image.faults() != self.faults {
            return Err(Broken::Damaged);
        }
        self.stream.iter_mut().for_each(|stream| stream.sign(&mut message, wall_s()));
        self.octets += message.len() as u64;
        self.counters.add(Counter::TransferOctets, message.len() as u64);
        Ok(message)
    }

    /// Says that no more comes.
    fn break_off(&mut self, why: Broken) {
        if why == Broken::Gone {
            return;
        }
        let mut last = tsig::reply_head(&self.wanted.question.message, Rcode::SERVFAIL).unwrap_or_default();
        self.stream.iter_mut().for_each(|stream| stream.sign(&mut last, wall_s()));
        self.mailboxes.post(self.wanted.question.ticket, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answering::later::{Letter, Mailbox};
    use crate::clock::Clock;
    use crate::patience::eventually;
    use front::Granted;
    use front::{Peer, Purpose, Retired, Ticket, Way};
    use image::Builder;
    use policy::Grants;
    use store::Map;
    use wire::Name;

    /// So many that a transfer takes several messages.
    const RECORDS: usize = 3_000;

    fn name(text: &str) -> Vec<u8> {
        Name::from_text(text.as_bytes(), None).unwrap().bytes().to_vec()
    }

    fn zones(serial: u8) -> Zones<Stretch> {
        let mut builder = Builder::new(1);
        builder.begin_zone(&name("z.example."));
        let soa = [&b"\x02ns\x01z\x07example\0\0\0\0\0"[..], &[serial], &[0; 16]].concat();
        builder.record(&name("z.example."), rtype::SOA, 60, &soa).unwrap();
        builder.record(&name("z.example."), rtype::NS, 60, b"\x02ns\x01z\x07example\0").unwrap();
        for i in 0..RECORDS - 2 {
            builder
                .record(&name(&format!("n{i}.z.example.")), rtype::TXT, 60, &[&[40][..], &[b'x'; 40]].concat())
                .unwrap();
        }
        let file = std::env::temp_dir().join(format!("dunlin-transfers-{}-{:p}", std::process::id(), &soa));
        std::fs::write(&file, builder.finish().0).unwrap();
        let map = Map::copy_to_memory(&file, 0).unwrap();
        std::fs::remove_file(&file).unwrap();
        Zones::of(Image::open_to_serve(Stretch::of(map), |_| 0).unwrap())
    }

    /// These zones, for who asks.
    fn granted(zones: Zones<Stretch>) -> Zones<Stretch> {
        let grants = Grants(vec![policy::Grant::from_text("192.0.2.0/24").unwrap()]);
        Zones { allow_transfer: Arc::new(Granted::from([(name("z.example.").into(), grants)])), ..zones }
    }

    /// The thread that judges, and the mailbox of a thread that does nothing by itself.
    struct Stage {
        published: Arc<Published<Zones<Stretch>>>,
        state: Arc<State>,
        asks: Asks,
        mailbox: Mailbox,
    }

    impl Stage {
        fn new() -> Stage {
            let published = Arc::new(Published::new(granted(zones(1))));
            let (mailboxes, mut boxes) = Mailboxes::new(1).unwrap();
            let state = Arc::new(State::new(vec![], 1, vec![], vec![], Clock::new(), queue::bounded(1).0));
            let (asks, orders) = asks();
            let transfers = Transfers {
                published: Arc::clone(&published),
                keys: Arc::new(Published::new(Keys::default())),
                presence: Arc::new(Published::new(Presence::default())),
                mailboxes: Arc::new(mailboxes),
                state: Arc::clone(&state),
                asks: asks.clone(),
                refused: Seldom::default(),
                broken: Arc::default(),
            };
            std::thread::spawn(move || transfers.run(&orders));
            Stage { published, state, asks, mailbox: boxes.remove(0) }
        }

        fn ask(&self, connection: u64, zone: &str) {
            let mut message = vec![0, connection as u8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            message.extend(name(zone));
            message.extend([0, rtype::AXFR as u8, 0, 1]);
            let peer = Peer { ip: [192, 0, 2, 1].into(), port: 4000 };
            let ticket = Ticket { thread: 0, way: Way::Stream(connection) };
            let question = Postponed { ticket, peer, transport: Transport::Tcp, message, purpose: Purpose::Transfer };
            assert!(self.asks.take(question));
        }

        fn letter(&self) -> Letter {
            let mut found = None;
            eventually(|| {
                found = self.mailbox.next();
                found.is_some()
            });
            found.unwrap()
        }

        /// So many ask, of whom not all have a place: the first letters of those who do.
        fn full(&self, all: u64) -> Vec<Letter> {
            (0..all).for_each(|connection| self.ask(connection, "z.example."));
            (0..AT_ONCE_MAX).map(|_| self.letter()).collect()
        }

        fn counted(&self, which: Counter) -> u64 {
            self.state.count(which)
        }
    }

    /// The serials of the SOAs among records, and how many there are of others.
    fn told(letters: &[Letter]) -> (Vec<u32>, usize) {
        let messages = letters.iter().map(|letter| Message::new(&letter.message).unwrap());
        let records: Vec<_> = messages.flat_map(|message| message.records()).map(|r| r.unwrap()).collect();
        let soas = records.iter().filter(|rr| rr.rtype == rtype::SOA);
        let serials: Vec<u32> = soas.map(|rr| serial_of(&rr.rdata().unwrap()).unwrap()).collect();
        (serials.clone(), records.len() - serials.len())
    }

    #[test]
    fn a_transfer_holds_the_version_that_it_began_with_and_lets_it_go_at_its_end() {
        let stage = Stage::new();
        stage.ask(7, "z.example.");
        let mut letters = vec![stage.letter()];
        let old = stage.published.publish(zones(2));
        assert!(!old.is_unused() && stage.mailbox.next().is_none(), "one message, until that is taken");
        while let Some(valve) = letters.last().unwrap().more.clone() {
            assert!(!old.is_unused());
            valve.open();
            letters.push(stage.letter());
        }
        assert!(letters.len() > 5 && letters.iter().all(|letter| letter.way == Way::Stream(7)));
        assert_eq!(told(&letters), (vec![1, 1], RECORDS - 1));
        eventually(|| old.is_unused());
        eventually(|| stage.counted(Counter::TransferDone) == 1);
        let octets: usize = letters.iter().map(|letter| letter.message.len()).sum();
        assert_eq!(stage.counted(Counter::TransferOctets), octets as u64);
    }

    #[test]
    fn a_transfer_whose_peer_has_gone_ends() {
        let stage = Stage::new();
        stage.ask(7, "z.example.");
        let letter = stage.letter();
        let old: Retired<_> = stage.published.publish(zones(2));
        letter.more.unwrap().end();
        eventually(|| old.is_unused() && stage.counted(Counter::TransferBroken) == 1);
        assert!(stage.mailbox.next().is_none());
    }

    #[test]
    fn so_many_are_under_way_and_the_others_wait_while_refusals_do_not() {
        let (stage, all) = (Stage::new(), AT_ONCE_MAX as u64 + 2);
        let mut first = stage.full(all);
        stage.ask(99, "elsewhere.example.");
        let refusal = stage.letter();
        assert_eq!((refusal.way, refusal.message[3] & 15, refusal.more.is_none()), (Way::Stream(99), 9, true));
        assert_eq!(stage.counted(Counter::TransferRefused), 1);
        for connection in [all - 2, all - 1] {
            first.pop().unwrap().more.unwrap().end();
            let next = stage.letter();
            assert!(next.way == Way::Stream(connection) && next.more.is_some());
        }
    }

    #[test]
    fn whoever_waits_while_his_right_is_taken_away_gets_nothing() {
        let (stage, all) = (Stage::new(), AT_ONCE_MAX as u64 + 1);
        let mut first = stage.full(all);
        // Only once it is answered all before it wait.
        stage.ask(99, "elsewhere.example.");
        stage.letter();
        drop(stage.published.publish(zones(1)));
        first.pop().unwrap().more.unwrap().end();
        let next = stage.letter();
        assert_eq!((next.way, next.message[3] & 15, next.more.is_none()), (Way::Stream(all - 1), 5, true));
    }
}
