//! Dynamic updates: the thread that carries them out. Answering threads leave them in the `intake`.
//!
//! ```text
//! answering thread -> intake (bounded) -> TSIG -> a line for each key -> transfer::update
//!                  -> journal, one sync a group, and laid over the image meanwhile -> one pointer store a group -> answers
//! ```
//! A group is what waits when the disk is free again, as much of it as is judged in `AT_ONCE`; between two groups is done what others want done with the press held.
//! An answer of success leaves only after its change is durable and served. A change that cannot be made durable is forgotten, and its sender is told SERVFAIL. What cannot be laid over the
//! image (the rule is in `laying`) is written into the files of its zones, and served from a new image; until that is, its zones take no
//! further update (see `owing`).
//!
//! When nothing has changed for a while, or much has, the publisher is asked to write the files and to fold all into a
//! new image. Updates go on meanwhile.

mod adoption;
pub(crate) mod ahead;
mod asleep;
pub(crate) mod digest;
pub(crate) mod folds;
pub(crate) mod intake;
pub mod ledger;
mod lines;
#[cfg(test)]
mod lives;
pub(crate) mod novices;
pub(crate) mod owing;
mod replies;
mod strangers;
pub(crate) mod unwritten;
pub(crate) mod writing;
mod zones;

use crate::answering::later::{self, Burst, Mailboxes};
use crate::answering::queue;
use crate::clock::wall_s;
use crate::history;
use crate::images::laying::{self, Standing};
use crate::images::{self, name};
use crate::json::Json;
use crate::log::{self, Seldom};
use crate::publisher::press::{Books, Press, Work};
use crate::refusals::{self, DONE, ELSEWHERE, FAILED, NOT_NOW, NOT_YET, Notice, PROHIBITED};
use crate::state::State;
use ahead::Made;
use asleep::Asleep;
use cache::Cache;
use front::locks::hold;
use front::{Postponed, Published, Retired, Zones};
use image::View;
use intake::{Order, Orders, Request, Unmade};
use ledger::{Group, Ledger, Unneeded};
use lines::Lines;
use net::sched::{Precedence, Rank};
use novices::Wanted;
use owing::Owing;
use replies::{Judged, counted, is_of_content, reply, still};
use stats::Counter;
use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::Stretch;
use transfer::message::Message;
use transfer::tsig::{self, Keys, Signed};
use transfer::update::{self, Refused};
use transfer::{Diff, Entry, Layer};
use unwritten::{After, Wish};
use wire::Rcode;
use wire::query::CLASS_IN;
use wire::rtype::NS;
use zones::{Coming, Overtaken};

/// Updates of one group.
const GROUP_MAX: usize = 1024;
/// Octets of changes of one group, and what a message may add to that: they are held in memory, with all records of each name.
const GROUP_OCTETS_MAX: usize = 64 << 20;
/// Names that lie over the image at most before a new one is made though updates go on (twice as many as the last one left, if that is more), and octets of
/// the room behind it.
const NAMES_MAX: usize = 100_000;
const OCTETS_MAX: usize = images::ROOM / 2;
/// Answers of a burst: so many are made, and signed, in a millisecond or two. (Refusals may wait for `AT_ONCE`.)
pub const BURST_MAX: usize = 32;
/// How long updates are taken in, or judged, or zones that come back are seen to at a time: all others wait meanwhile.
const AT_ONCE: Duration = Duration::from_millis(20);
/// So long an update waits for its turn, from when it came: as long as a connection on which nothing happens stays open. Who has sent something else
/// since does not find this done after that.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two tries to write to a disk that refuses.
const TRY_EVERY: Duration = Duration::from_secs(5);

pub struct Updates {
    pub ledger: Ledger,
    /// What the journal may let go of.
    pub unneeded: queue::Sender<Unneeded>,
    pub keys: Arc<Published<Keys>>,
    pub mailboxes: Arc<Mailboxes>,
    pub state: Arc<State>,
    pub press: Arc<Press>,
    /// Of a server that resolves.
    pub cache: Option<Arc<Cache>>,
    pub burst: Burst,
    pub room: Room,
    pub later: Later,
}

/// Where a group stands, kept for the next one: whenever so much is freed, malloc puts all small pieces together that are free. Bound: `GROUP_MAX` of each,
/// and nothing where nobody sends updates.
#[derive(Default)]
pub struct Room {
    group: Vec<(Postponed, Judged)>,
    entries: Vec<Entry>,
}

impl Later {
    fn refuse(&mut self, why: &io::Error) {
        if let Some(unsaid) = self.unwritten.untold() {
            let facts: [(&str, &dyn std::fmt::Display); 2] = [("why", why), ("unsaid", &unsaid)];
            log::error("updates are refused: the journal cannot be written", &facts);
        }
    }

    /// Tells the operator of an update that is not done, if it is one that never will be.
    fn tell(&mut self, question: &Postponed, judged: &Judged) {
        let told = match judged {
            Judged::Unproven(refusal) => Notice::of(question, refusal, &mut self.refused),
            Judged::Settled(_, refused) if !is_of_content(refused.rcode) && *refused != FAILED => {
                Notice::of(question, refusals::why(*refused), &mut self.refused)
            }
            _ => None,
        };
        if let Some(told) = told {
            log::info("an update is refused", &told.facts());
        }
    }
}

/// What it took to lay what a group changes counts for the keys that have changed it, by the octets of their records: a name of many labels has many, and all
/// above it are laid with it.
fn charge(lines: &mut Lines<Waiting>, group: &[(Postponed, Judged)], entries: &[Entry], laying: Duration) {
    let octets = |entry: &Entry| entry.diff.octets() as f64;
    let all = entries.iter().map(octets).sum::<f64>().max(1.0);
    for (signed, entry) in group.iter().filter_map(|(_, judged)| judged.staged()).zip(entries) {
        lines.charge(signed.key().name(), laying.mul_f64(octets(entry) / all));
    }
}

/// Whether a name is delegated no more, or to others.
fn takes_a_cut(entry: &Entry) -> bool {
    entry.diff.removed().iter().any(|r| r.rtype == NS && *r.owner() != *entry.zone)
}

/// What is left to do when an update has been answered.
#[derive(Default)]
pub struct Later {
    retired: Vec<Retired<Zones<Stretch>>>,
    owing: Owing,
    /// That the journal cannot be written is said now and then.
    unwritten: Seldom,
    refused: Seldom,
    /// All that has changed is on the slate.
    is_noted: bool,
    /// The last change could not be written.
    is_refusing: bool,
    /// Nor could anything since; when that was tried.
    refused_at: Option<Instant>,
    coming: Coming,
    overtaken: Overtaken,
    /// Of this turn: until changes were written.
    asleep: Asleep,
}

impl Later {
    fn is_nothing(&self) -> bool {
        // What was replaced takes its memory until it is let go of.
        self.owing.is_nothing()
            && self.is_noted
            && self.retired.is_empty()
            && self.coming.is_nothing()
            && self.refused_at.is_none()
            && self.overtaken.is_nothing()
    }
}

/// Versions in the making of the zones that a group changes.
type Layers<'v> = HashMap<Box<[u8]>, Layer<Standing<'v>>>;

/// An update that is signed rightly.
struct Waiting {
    question: Postponed,
    signed: Signed,
    since: Instant,
}

impl Updates {
    /// Works until nobody can ask for anything any more.
    pub fn run(mut self, taken: &Orders) {
        let orders = &taken.orders;
        store::pieces::keep();
        // What a crash left in the journal is not to be read by each start.
        if self.press.hold().unwritten.names() > 0 {
            self.later.owing.folds.change(Instant::now());
        }
        let (mut lines, mut has_worked, clock) = (Lines::default(), true, self.state.clock);
        // A server that resolves leaves its threads as they are (docs/decisions/0013).
        let is_alone = self.cache.is_none();
        let mut precedence = is_alone.then(|| Precedence::take(Rank::Updates, clock.mono_ns())).flatten();
        self.ledger.all_overtaken().into_iter().for_each(|apex| self.later.overtaken.add(apex));
        self.outrun();
        loop {
            let are_left = !lines.is_empty() && !self.is_at_rest()
                || !self.press.hold().left.is_empty()
                || self.later.overtaken.is_due()
                || self.later.coming.are_due;
            let first = if are_left {
                // Between two goes of these others have theirs.
                orders.try_recv().map_err(|e| match e {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                })
            } else if self.is_idle() && !has_worked {
                orders.recv().ok_or(RecvTimeoutError::Disconnected)
            } else {
                orders.recv_timeout(LOOK_EVERY)
            };
            let begun_ns = clock.mono_ns();
            match first {
                Ok(first) => self.on_orders(first, taken, &mut lines),
                Err(RecvTimeoutError::Timeout) if !are_left && self.is_idle() => {
                    has_worked = false;
                    self.room = Room::default();
                    self.state.rest();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) if lines.is_empty() || self.is_at_rest() => return,
                // Nobody has wanted anything for a while, though something is left to do.
                Err(RecvTimeoutError::Timeout) if !are_left => store::pieces::let_go(),
                Err(_) => {}
            }
            has_worked = true;
            if !lines.is_empty() && !self.is_at_rest() {
                // Whoever sent an update after a reload finds its rules.
                self.look_at(&taken.wanted);
                self.carry_out(taken, &mut lines);
            }
            // Whoever is just putting something in rings after that. Before works: one of them may pay what is owed, and who waits for that goes first.
            while let Some(request) = taken.requests.poll() {
                self.on_request(request, taken);
            }
            while let Some(work) = taken.works.poll() {
                self.oblige(work, taken);
            }
            let followed = self.press.follow(&mut self.press.hold());
            self.later.retired.extend(followed);
            self.later.retired.retain(|r| !r.is_unused());
            self.take_on();
            self.outrun();
            self.settle_novices();
            self.try_again();
            self.later.is_noted = self.press.note(&mut self.press.hold());
            self.look_after(taken, &mut lines);
            let now_ns = clock.mono_ns();
            let took_ns = self.later.asleep.awake_ns(now_ns - begun_ns);
            precedence.iter_mut().for_each(|precedence| precedence.weigh(took_ns, now_ns));
        }
    }

    /// Nothing is left to be done.
    fn is_idle(&self) -> bool {
        let books = self.press.hold();
        self.later.is_nothing() && books.owed.is_empty() && books.novices.is_empty()
    }

    /// Whoever hands over work may carry out what was wanted before it.
    fn oblige(&mut self, work: Work, taken: &Orders) {
        self.look_at(&taken.wanted);
        work(&self.press, &mut self.press.hold());
    }

    fn on_orders(&mut self, first: Order, taken: &Orders, lines: &mut Lines<Waiting>) {
        self.look_at(&taken.wanted);
        let ((keys, _), begun, mut next) = (self.keys.current(), Instant::now(), Some(first));
        while let Some(order) = next {
            match order {
                Order::Update { question, since } => self.admit(question, since, &keys, taken, lines),
                Order::Work => {}
            }
            next = if begun.elapsed() < AT_ONCE { taken.orders.try_recv().ok() } else { None };
        }
        self.burst.ring(&self.mailboxes);
    }

    /// Has an update wait for its key's turn, if it is signed rightly.
    fn admit(&mut self, question: Postponed, since: Instant, keys: &Keys, taken: &Orders, lines: &mut Lines<Waiting>) {
        let signed = match tsig::check_request(&question.message, keys, wall_s()) {
            Ok(Some(signed)) => signed,
            Ok(None) => {
                let refused = self.addressed(&question, self.press.current().image.view()).err();
                let judged = Judged::Settled(None, refused.unwrap_or(PROHIBITED));
                return self.answer(question, judged, DONE, taken);
            }
            Err(refusal) => return self.answer(question, Judged::Unproven(refusal), DONE, taken),
        };
        let (key, octets) = (Box::<[u8]>::from(signed.key().name()), question.message.len());
        let waiting = Waiting { question, signed, since };
        lines.join(&key, octets, waiting).unwrap_or_else(|waiting| self.give_up(waiting.question, taken));
    }

    /// An update is not answered; its client asks again. Nothing of it is done, or (`answer_group`) it is, and he finds it so.
    fn give_up(&mut self, question: Postponed, taken: &Orders) {
        taken.took(&question);
        self.state.updated.count_together(Counter::DropBusy);
        self.post(question, &[]);
    }

    fn on_request(&mut self, request: Request, taken: &Orders) {
        self.look_at(&taken.wanted);
        let Some(request) = self.keep_back(request) else { return };
        match request {
            Request::Freeze { zone, is_frozen, done } => {
                // Whoever asked may have gone.
                let _ = done.send(self.freeze(&zone, is_frozen));
            }
            Request::Change { mut made, until, done, rest } => {
                let outcome = self.make(&mut made);
                self.tell_made(&made.entry.zone, outcome, until, done);
                // Whoever asked may have gone.
                let _ = rest.send(made);
            }
            Request::Settle { done } => self.later.coming.settling.push(done),
        }
    }

    /// Tells whoever waits for it that all zones take updates that can.
    fn settle_novices(&mut self) {
        let coming = &mut self.later.coming;
        // To look at all of them for nobody would be in vain.
        if coming.settling.is_empty()
            || self.press.hold().novices.are_under_way()
            || self.later.overtaken.are_under_way()
        {
            return;
        }
        coming.settling.drain(..).for_each(|done| _ = done.send(()));
    }

    fn look_at(&mut self, wanted: &Mutex<Option<Wanted>>) {
        let wanted = hold(wanted).take();
        wanted.into_iter().for_each(|wanted| self.adopt(wanted));
    }

    fn freeze(&mut self, zone: &str, is_frozen: bool) -> Result<(), String> {
        let apex = history::named(zone)?;
        let owned = self.ledger.zone_mut(&apex).ok_or_else(|| format!("the zone {zone} takes no updates"))?;
        owned.is_frozen = is_frozen;
        self.state.freeze(&apex, is_frozen);
        Ok(())
    }

    /// Makes a change that no message asked for.
    fn make(&mut self, made: &mut Made) -> Result<Json, Unmade> {
        let apex = &*made.entry.zone;
        if self.ledger.zone(apex).is_none() {
            return Err(format!("the zone {} takes no updates", name(apex)).into());
        }
        let press = Arc::clone(&self.press);
        let mut books = press.hold();
        if books.owes(apex) {
            return Err(Unmade::Owing);
        }
        if self.later.overtaken.has(apex) {
            return Err(Unmade::Behind { is_stuck: !self.later.overtaken.are_under_way() });
        }
        let after = made.settle(&press.current().image)?;
        let serial = made.entry.diff.to;
        let facts = Json::Object(vec![("changed", Json::Bool(true)), ("serial", Json::Number(serial.into()))]);
        let octets = std::mem::take(&mut made.octets);
        match self.change(std::slice::from_ref(&made.entry), vec![octets], after, &mut books).0 {
            DONE => Ok(facts),
            _ => Err("it could not be made durable: see the log".to_string().into()),
        }
    }

    /// Carries out as many as are judged in some time, which go into the journal together.
    fn carry_out(&mut self, taken: &Orders, lines: &mut Lines<Waiting>) {
        let ((keys, _), press) = (self.keys.current(), Arc::clone(&self.press));
        let mut books = press.hold();
        let now = press.current();
        let Room { mut group, mut entries } = std::mem::take(&mut self.room);
        let (mut layers, mut octets) = (Layers::new(), 0);
        let (begun, mut took) = (Instant::now(), Duration::ZERO);
        while group.len() < GROUP_MAX && octets <= GROUP_OCTETS_MAX && took < AT_ONCE {
            let Some(Waiting { question, signed, since }) = lines.next(group.is_empty()) else { break };
            if since.elapsed() > PATIENCE {
                self.give_up(question, taken);
                continue;
            }
            if self.has_to_wait(&question, &books, now.image.view()) {
                let octets = question.message.len();
                let put = lines.put_aside(octets, Waiting { question, signed, since });
                put.unwrap_or_else(|waiting| self.give_up(waiting.question, taken));
                continue;
            }
            let before = entries.len();
            let judged = match still(signed, &question.message, &keys) {
                Ok(signed) => self.judge(&question, signed, &books, now.image.view(), &mut layers, &mut entries),
                Err(refusal) => Judged::Unproven(refusal),
            };
            octets += entries[before..].iter().map(|entry: &Entry| entry.diff.octets()).sum::<usize>();
            group.push((question, judged));
            let since = begun.elapsed();
            lines.took(since - took);
            took = since;
        }
        let wishes = layers.into_iter().map(|(apex, layer)| Wish { apex, names: layer.into_names() });
        let wishes: Vec<Wish> = wishes.filter(|wish| !wish.names.is_empty()).collect();
        drop(now);
        // Those who were given up need not wait for the disk.
        self.burst.ring(&self.mailboxes);
        let mut outcome = DONE;
        if !entries.is_empty() {
            let laying;
            let written = entries.iter().map(Entry::encode).collect();
            (outcome, laying) = self.change(&entries, written, After::Wishes(wishes), &mut books);
            charge(lines, &group, &entries, laying);
        }
        drop(books);
        self.answer_group(&mut group, outcome, taken);
        entries.clear();
        self.room = Room { group, entries };
    }

    /// `outcome`: what became of the changes of its group.
    fn answer(&mut self, question: Postponed, judged: Judged, outcome: Refused, taken: &Orders) {
        taken.took(&question);
        if !judged.is_in_vain(outcome) {
            self.later.tell(&question, &judged);
        }
        // An image may have been made meanwhile.
        let (rcode, reply) = reply(&question.message, judged, outcome, wall_s());
        self.state.updated.count_together(counted(rcode));
        self.post(question, &reply.unwrap_or_default());
    }

    fn post(&mut self, question: Postponed, answer: &[u8]) {
        later::count(answer, &self.state.updated);
        self.burst.put(&self.mailboxes, question.ticket, later::in_its_room(question.message, answer));
    }

    /// Carries an update out in the version in the making.
    fn judge<'v>(
        &self,
        question: &Postponed,
        signed: Signed,
        books: &Books,
        view: View<'v>,
        layers: &mut Layers<'v>,
        entries: &mut Vec<Entry>,
    ) -> Judged {
        match self.difference(question, &signed, books, view, layers) {
            Err(refused) => Judged::Settled(Some(signed), refused),
            Ok((_, diff)) if diff.is_empty() => Judged::Settled(Some(signed), DONE),
            Ok((apex, diff)) => {
                let who = format!("key {} from {}", signed.key().text(), question.peer.ip);
                entries.push(ledger::entry(&apex, who, diff));
                Judged::Staged(signed)
            }
        }
    }

    fn is_ours(&self, apex: &[u8], view: View<'_>) -> bool {
        self.ledger.zone(apex).is_some()
            || self.later.coming.lacking.contains_key(apex)
            || laying::zone(view, apex).is_some()
            || self.press.current().unserved.has(apex)
    }

    /// The zone that an update is for.
    fn addressed(&self, question: &Postponed, view: View<'_>) -> Result<Box<[u8]>, Refused> {
        let zone = refusals::zone_of(&question.message)?;
        let apex: Box<[u8]> = zone.name.fold().bytes().into();
        if zone.class == CLASS_IN && self.is_ours(&apex, view) { Ok(apex) } else { Err(ELSEWHERE) }
    }

    /// What an update changes; the zone's layer has it then.
    fn difference<'v>(
        &self,
        question: &Postponed,
        signed: &Signed,
        books: &Books,
        view: View<'v>,
        layers: &mut Layers<'v>,
    ) -> Result<(Box<[u8]>, Diff), Refused> {
        let (apex, key) = (self.addressed(question, view)?, signed.key().name());
        let lacking = || self.later.coming.lacking.get(&apex).map(|wish| &wish.rules);
        let rules = || lacking().or_else(|| books.novices.rules(&apex));
        let will_take = || rules().is_some_and(|rules| rules.knows(key));
        let owned = self.ledger.zone(&apex).ok_or_else(|| if will_take() { NOT_YET } else { PROHIBITED })?;
        if !owned.rules.knows(key) {
            return Err(PROHIBITED);
        }
        if owned.is_frozen {
            return Err(NOT_NOW);
        }
        if self.later.overtaken.has(&apex) {
            return Err(NOT_YET);
        }
        if books.owes(&apex) {
            return Err(FAILED);
        }
        let may = |owner: &[u8], rtype| owned.rules.allow(key, owner, rtype);
        let layer = match layers.entry(apex.clone()) {
            Occupied(known) => known.into_mut(),
            Vacant(new) => new.insert(Layer::over(Standing::find(view, &apex).ok_or(FAILED)?)),
        };
        let message = Message::new(&question.message).ok_or(Rcode::FORMERR)?;
        let diff = update::judge(&message, &apex, layer, &may)?;
        layer.apply(&diff).map_err(|_| FAILED)?;
        Ok((apex, diff))
    }

    /// Makes changes durable, and serves them, or owes them. They are laid while the disk writes them. Returns also how long that took. `written`: as
    /// the journal has them.
    fn change(&mut self, entries: &[Entry], written: Group, after: After, books: &mut Books) -> (Refused, Duration) {
        let press = Arc::clone(&self.press);
        // What is laid has taken its room, also where it is not served: a disk that goes on refusing is waited for first.
        let may_fail = self.later.is_refusing;
        let lay = || {
            let begun = Instant::now();
            (press.lay(books, &after), begun.elapsed())
        };
        let (ledger, asleep) = (&mut self.ledger, &mut self.later.asleep);
        let (end, laid) = asleep.during(|| ledger.keep(written, || (!may_fail).then(lay)));
        let end = match end {
            Ok(end) => end,
            Err(e) => {
                self.state.set_no_updates(Some(format!("the journal cannot be written: {e}")));
                (self.later.is_refusing, self.later.refused_at) = (true, Some(Instant::now()));
                self.later.refuse(&e);
                return (FAILED, laid.map_or(Duration::ZERO, |(_, took)| took));
            }
        };
        if std::mem::take(&mut self.later.is_refusing) {
            self.later.refused_at = None;
            self.state.set_no_updates(None);
            log::info("updates are taken again: the journal can be written", &[]);
        }
        let (unserved, took) = laid.unwrap_or_else(lay);
        unserved.unlaid.iter().for_each(|unlaid| self.later.owing.add(unlaid, books));
        self.later.retired.extend(press.serve(books, &after, unserved));
        // What is cached of names below was others', and may be ours now.
        if entries.iter().any(takes_a_cut) {
            self.cache.iter().for_each(|cache| cache.next_generation());
        }
        let others = &self.state.secondaries;
        others.iter().for_each(|others| after.zones().for_each(|apex| others.has_changed(apex)));
        books.unwritten.take(after, end);
        entries.iter().for_each(|entry| books.unwritten.has_changed(&entry.zone, entry.diff.to, entry.when.wall_s));
        self.later.owing.folds.change(Instant::now());
        (DONE, took)
    }

    /// Tries now and then whether the journal can be written again, so that it is not for the next update to find out: it may come in weeks. Whether it
    /// takes that one, too, is not known yet.
    fn try_again(&mut self) {
        if self.later.refused_at.is_none_or(|tried| tried.elapsed() < TRY_EVERY) {
            return;
        }
        self.later.refused_at = match self.written(|ledger| ledger.begin()) {
            Ok(()) => {
                self.state.set_no_updates(None);
                None
            }
            Err(_) => Some(Instant::now()),
        };
    }

    /// Has something of the journal written to the disk.
    fn written<T>(&mut self, write: impl FnOnce(&mut Ledger) -> T) -> T {
        let (ledger, writing) = (&mut self.ledger, &self.state.writing);
        self.later.asleep.during(|| {
            writing.begins();
            let outcome = write(ledger);
            writing.ends();
            outcome
        })
    }
}
