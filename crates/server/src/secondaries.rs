//! Zones that come from others, and others that are told of ours: one thread that asks primaries whether zones have changed,
//! has them fetched, hands what has come to the publisher like a file that has changed, and sends and takes NOTIFYs.
//!
//! ```text
//! deadline, NOTIFY, operator -> Refresher -> SOA over UDP (`exchanges`) -> a thread a transfer (`fetching`) -> zone file
//!   -> publisher, one batch at a time -> the serial that is served -> Refresher, Presence; Announcer -> NOTIFY
//! ```
//! Decides nothing about times: `transfer::refresh` and `transfer::announce` do. No event costs more than the zones that it is
//! about. Answering threads leave NOTIFYs in a bounded queue, and look at `front::Presence`.

mod ends;
mod entries;
mod exchanges;
mod fetching;
mod notified;
#[cfg(test)]
mod tests;
mod times;
mod told;

use crate::answering::Shared;
use crate::answering::later::Mailboxes;
use crate::clock::{Clock, wall_s};
use crate::config::{Config, SECONDARIES};
use crate::images::laying;
use crate::images::name;
use crate::json::Json;
use crate::log::{self, Seldom};
use crate::random;
use crate::state::{Event, State};
use crate::transfers::Soa;
use crate::update::digest;
use ends::{ASKED_MAX, CHANGED_MAX, DOUBTFUL_MAX};
pub use ends::{Note, Secondaries, Taken, ends};
use entries::{Entries, Over};
use exchanges::{Exchanges, Heard, Unsent};
use fetching::{Errand, Outcome, Wanted};
use front::{Mark, Postponed, Presence, Published, Purpose, Retired, Zones};
use resolver::Chance;
use stats::Counter;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use store::{Stretch, atomic};
use times::{ANNOUNCED, Noted, REFRESHED, Times};
use told::Quota;
use transfer::announce::{Announcer, TargetId, Told};
use transfer::ask;
use transfer::refresh::{Action, Asked, Fetched, Ms, Phase, PrimaryId, Refresher, Timers, Useless, ZoneId};
use transfer::tsig::Keys;
use wire::rtype;

/// While more zones are on their way, the publisher is handed what has come after so long, or after so many times of what it took for
/// the last: many zones take a new image, and that is made a few times then, not after each of them.
const TOGETHER_MS: (Ms, Ms) = (100, 5_000);
const TOGETHER_TIMES: Ms = 4;
/// What could not be served for now, for want of room on the disk or for a list of zones that is wrong, is handed over again after so
/// long, or after so many times of what it took.
const AGAIN_MS: (Ms, Ms) = (5_000, 60_000);
/// Others are told after a start of so many zones a second that have changed since they were told last, or may have.
const TOLD_A_SECOND: Ms = 100;
const LONG_AGO: Ms = Ms::MIN / 2;
/// A file that is there when its zone is configured is served after so long, or cannot be.
const SERVED_WITHIN_MS: Ms = 60_000;
/// So long a version whose digest does not fit waits for the one that has another: that is made seconds later, unless it cannot be.
const DIGEST_WITHIN_MS: Ms = 60_000;

/// What a datagram is about.
enum Matter {
    Soa { zone: ZoneId, primary: PrimaryId },
    Notify { zone: ZoneId, target: u32 },
}

/// What is needed of the rest of the server.
pub struct Means {
    pub published: Arc<Published<Zones<Stretch>>>,
    pub keys: Arc<Published<Keys>>,
    pub mailboxes: Arc<Mailboxes>,
    pub state: Arc<State>,
    pub clock: Clock,
}

impl Means {
    pub fn of(shared: &Shared, state: &Arc<State>) -> Means {
        Means {
            published: Arc::clone(&shared.published),
            keys: Arc::clone(&shared.keys),
            mailboxes: Arc::clone(&shared.mailboxes),
            state: Arc::clone(state),
            clock: shared.clock,
        }
    }
}

/// What came, and which serial it has.
type Batch = Vec<(ZoneId, u32)>;

/// The thread.
pub struct Registrar {
    refresher: Refresher,
    announcer: Announcer,
    entries: Entries,
    exchanges: Exchanges<Matter>,
    times: Times,
    /// Versions that all have been told of who are to be told.
    announced: Times,
    presence: Arc<Published<Presence>>,
    /// Marks of configurations before, until no answering thread has them: to let go of many is no work for one of those.
    retired: Vec<Retired<Presence>>,
    taken: Taken,
    own: Secondaries,
    /// Zones that wait until the publisher has carried out a configuration; of each configuration that it has before it.
    settling: VecDeque<Vec<ZoneId>>,
    /// Received and on the disk, for the publisher; and what it has now.
    ready: Batch,
    laying: Batch,
    /// When the publisher was handed something last, and how long it took over that.
    handed: Ms,
    took: Ms,
    /// The publisher has had nothing served: it is left alone until then.
    rests_until: Ms,
    /// Transfers that have been begun and are not over.
    under_way: usize,
    quota: Quota,
    octets_max: u64,
    /// NOTIFYs.
    refused: Seldom,
    /// Why servers have not taken the last NOTIFY of a zone, and whether that was told. Bound: zones and servers that are configured to be told.
    untaken: HashMap<(ZoneId, TargetId), (String, bool)>,
    /// Runs an errand, on a thread of its own.
    run: fn(&Errand) -> Outcome,
    /// The first configuration is known.
    has_begun: bool,
}

/// The zones before the first is answered for: which are there, and which have expired.
pub fn begin(
    config: &Config,
    zones: &Zones<Stretch>,
    clock: Clock,
    (own, taken): (Secondaries, Taken),
) -> io::Result<Registrar> {
    let folder = config.server.data_dir.join(SECONDARIES);
    sweep(config, &folder);
    let secondary = || config.roster.written.iter().filter(|zone| zone.is_secondary());
    let (mut times, unread) = Times::open(&folder, REFRESHED, secondary().map(|zone| &*zone.apex));
    if let Some(e) = unread {
        log::warn(
            "zones that have expired are served once more: it is not known when they were refreshed",
            &[("why", &e)],
        );
    }
    if let Err(e) = times.write_all() {
        log::warn("it is not written down when a zone was refreshed", &[("why", &e)]);
    }
    let told = config.roster.written.iter().filter(|zone| zone.peers.as_ref().is_some_and(|p| !p.notify.is_empty()));
    // Of which nothing is known, they are told again.
    let (mut announced, _) = Times::open(&folder, ANNOUNCED, told.map(|zone| &*zone.apex));
    if let Err(e) = announced.write_all() {
        log::warn("it is not written down of which version others were told", &[("why", &e)]);
    }
    let seed = random::octets::<32>()?;
    let mut registrar = Registrar {
        refresher: Refresher::default(),
        announcer: Announcer::default(),
        entries: Entries::default(),
        exchanges: Exchanges::new(&*taken.wake, Chance::new(seed))?,
        times,
        announced,
        presence: Arc::clone(&own.presence),
        retired: Vec::new(),
        taken,
        own,
        settling: VecDeque::new(),
        ready: Vec::new(),
        laying: Vec::new(),
        handed: LONG_AGO,
        took: 0,
        rests_until: LONG_AGO,
        under_way: 0,
        quota: Quota::default(),
        octets_max: config.limits.transfer_octets,
        refused: Seldom::default(),
        untaken: HashMap::new(),
        run: fetching::run,
        has_begun: false,
    };
    registrar.adopt(config, zones, now_ms(clock));
    Ok(registrar)
}

/// What transfers have left behind that a crash broke off.
fn sweep(config: &Config, folder: &Path) {
    let files = config.roster.written.iter().filter(|zone| zone.is_secondary()).filter_map(|zone| zone.file.parent());
    let mut folders: Vec<PathBuf> = files.map(Path::to_path_buf).chain([folder.to_path_buf()]).collect();
    folders.sort();
    folders.dedup();
    folders.iter().for_each(|folder| atomic::sweep(folder));
}

fn now_ms(clock: Clock) -> Ms {
    (clock.mono_ns() / 1_000_000).cast_signed()
}

/// The times of the version of a zone that is served.
fn served(zones: &Zones<Stretch>, apex: &[u8]) -> Option<(Timers, Soa)> {
    let soa = Soa::of(&laying::zone(zones.image.view(), apex)?).ok()?;
    Some((Timers::of(&soa.rdata)?, soa))
}

impl Registrar {
    /// Works until nobody can tell it anything any more.
    pub fn run(mut self, means: &Means) {
        if let Err(e) = net::sched::modest() {
            log::warn("zones are fetched with the priority of answers", &[("why", &e)]);
        }
        let mut now = now_ms(means.clock);
        loop {
            self.act(now, means);
            let deadlines = [
                self.handing_over(),
                self.refresher.next_deadline(),
                self.announcer.next_deadline(),
                self.exchanges.next_deadline(),
            ];
            let next = deadlines.into_iter().flatten().min();
            let left = next.map(|at| Duration::from_millis((at - now_ms(means.clock)).max(0).cast_unsigned()));
            let heard = match self.exchanges.wait(left) {
                Ok(heard) => heard,
                Err(e) => {
                    let thread = "secondaries".to_string();
                    return means.state.raise(Event::Lost { thread, why: e.to_string() });
                }
            };
            self.taken.wake.clear();
            self.retired.retain(|retired| !retired.is_unused());
            now = now_ms(means.clock);
            for i in heard {
                if let Some((matter, heard)) = self.exchanges.hear(i) {
                    self.on_heard(now, matter, heard, means);
                }
            }
            while let Some((matter, heard)) = self.exchanges.next_over(now) {
                self.on_heard(now, matter, heard, means);
            }
            self.take(now, means);
        }
    }

    /// What others have left for this thread.
    fn take(&mut self, now: Ms, means: &Means) {
        // So many a turn: whoever brings more while these are looked at must not keep everything else waiting.
        let asked: Vec<Postponed> = self.taken.asked.drain();
        let doubtful: Vec<Postponed> = self.taken.doubtful.drain();
        let changed: Vec<Box<[u8]>> = self.taken.changed.drain();
        if asked.len() == ASKED_MAX || doubtful.len() == DOUBTFUL_MAX || changed.len() == CHANGED_MAX {
            self.own.wake.ring();
        }
        let proven = asked.into_iter().inspect(|question| {
            // Before it is looked at: what its sender says from now on may be something else.
            if let Purpose::Notify(caller) = &question.purpose {
                caller.leaves_place();
            }
        });
        for question in proven.chain(doubtful) {
            let reply = self.on_notify(now, &question, means).unwrap_or_default();
            means.mailboxes.answer(question, &reply, &means.state.refreshed);
        }
        while let Ok(note) = self.taken.notes.try_recv() {
            self.on_note(now, note, means);
        }
        let changed = if self.taken.all_changed.swap(false, Relaxed) { self.entries.apexes() } else { changed };
        changed.iter().for_each(|apex| self.on_changed(now, apex, means));
    }

    fn on_note(&mut self, now: Ms, note: Note, means: &Means) {
        match note {
            Note::Fetched { zone, primary, errand, outcome } => {
                // One that has brought the zone is over once that is served.
                if !matches!(outcome.fetched, Fetched::Whole(_))
                    && let Some(entry) = self.entries.entry_mut(zone)
                {
                    entry.errand.take_if(|(_, of)| of.is(&errand));
                }
                self.on_fetched(now, zone, primary, outcome, means);
            }
            Note::Laid { is_done: true } => self.on_laid(now, means),
            Note::Laid { is_done: false } => self.on_not_laid(now, means),
            Note::Adopt { config, done } => {
                let (zones, _) = means.published.current();
                self.octets_max = config.limits.transfer_octets;
                let settling = self.adopt(&config, &zones, now);
                self.settling.push_back(settling);
                drop(done);
            }
            Note::CarriedOut => {
                for id in self.settling.pop_front().unwrap_or_default() {
                    let apex = self.entries.entry(id).map(|entry| entry.apex.clone());
                    apex.into_iter().for_each(|apex| self.on_changed(now, &apex, means));
                }
            }
            Note::Transfer { zone, done } => {
                let wished = self.entries.secondary(&zone).map(|id| {
                    self.refresher.on_wish(now, id);
                    Json::text("begun")
                });
                let _ = done.send(wished);
            }
            Note::Announce { zone, done } => {
                let told = self.entries.named(&zone).and_then(|id| match self.announce(now, id) {
                    0 => Err(format!("nobody is to be told of the zone {zone}: it has no notify")),
                    n => Ok(Json::Number(n)),
                });
                let _ = done.send(told);
            }
            Note::List { zones, done } => {
                let _ = done.send(self.list(now, &zones));
            }
        }
    }

    /// Takes over which zones there are. Those that stay keep what is known of them. Returns which wait for what their files hold: while the server runs
    /// something else may have been served of them until now.
    fn adopt(&mut self, config: &Config, zones: &Zones<Stretch>, now: Ms) -> Vec<ZoneId> {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        let mut settling = Vec::new();
        let change = self.entries.adopt(config);
        self.own.has_any.store(!self.entries.is_empty(), Relaxed);
        for (id, mut entry) in change.gone {
            entry.call_off();
            self.refresher.remove(id);
        }
        let mut untold = 0;
        for id in change.anew {
            let Some(entry) = self.entries.entry_mut(id) else { continue };
            let known = served(zones, &entry.apex);
            entry.serial = known.as_ref().map(|(timers, _)| timers.serial);
            let is_told =
                entry.serial.is_none() || self.announced.of(&entry.apex).map(|told| told.serial) == entry.serial;
            if !is_told && !entry.targets.is_empty() {
                let at = now + untold * 1_000 / TOLD_A_SECOND;
                entry.targets.iter().for_each(|target| self.announcer.on_unknown(at, id, *target));
                untold += 1;
            }
            if !entry.primaries.is_empty() {
                // When another version was as it should be says nothing of this one. Of a time that is still to come nobody knows how long ago
                // it was: one of the clocks was wrong.
                let noted = self.times.of(&entry.apex).filter(|noted| noted.serial == entry.serial.unwrap_or(0));
                let ago = noted.and_then(|noted| wall_s().checked_sub(noted.at_s));
                let refreshed = ago.map(|s| now - Ms::try_from(s).unwrap_or(Ms::MAX / 4000) * 1000);
                let random = self.exchanges.chance().number();
                self.refresher.add(
                    now,
                    random,
                    id,
                    entry.primaries.clone(),
                    known.map(|(timers, _)| timers),
                    refreshed,
                );
                let unserved = noted.and_then(|noted| noted.unserved);
                if let Some(serial) = unserved.filter(|_| entry.file.exists()) {
                    self.refresher.has_unserved(id, serial);
                }
                if entry.file.exists() && (has_begun || entry.serial.is_none()) {
                    self.refresher.wait_until(id, now + SERVED_WITHIN_MS);
                    settling.push(id);
                }
            }
        }
        for id in change.moved {
            let primaries = self.entries.entry(id).map(|entry| entry.primaries.clone()).unwrap_or_default();
            self.refresher.set_primaries(now, id, primaries);
        }
        change.rehoused.into_iter().for_each(|id| self.refresher.on_wish(now, id));
        for (id, target) in change.new_targets {
            // Should it not be told before a stop, all are told again.
            let forgotten = self.entries.entry(id).map_or(Ok(()), |entry| self.announced.forget(&entry.apex));
            forgotten.unwrap_or_else(|e| {
                log::warn("it is not written down of which version others were told", &[("why", &e)])
            });
            self.announcer.on_unknown(now + untold * 1_000 / TOLD_A_SECOND, id, target);
            untold += 1;
        }
        self.let_go();
        let marks = self.entries.secondaries().map(|(id, entry)| {
            let callers = entry.callers(|primary| self.entries.remote(primary), &config.keys);
            (entry.apex.clone(), self.mark(id), callers)
        });
        let before = self.presence.publish(Presence::new(marks));
        self.retired.push(before);
        settling
    }

    /// What is known of zones and servers that are configured no more is nothing to keep until the server is stopped.
    fn let_go(&mut self) {
        let entries = &self.entries;
        self.refresher.keep_primaries(|primary| entries.is_server(primary));
        self.announcer.keep(|target| entries.is_server(target), |zone, target| entries.is_target(zone, target));
        self.untaken.retain(|(zone, target), _| entries.is_target(*zone, *target));
        let gone = self.times.keep(entries.secondaries().map(|(_, entry)| &*entry.apex));
        if let Err(e) = gone.and_then(|()| self.announced.keep(entries.told())) {
            log::warn("times of zones that are gone are still written down", &[("why", &e)]);
        }
    }

    fn mark(&self, id: ZoneId) -> Mark {
        match self.refresher.standing(id) {
            Some(standing) if standing.is_expired => Mark::Expired,
            Some(standing) if standing.timers.is_some() => Mark::Present,
            _ => Mark::Awaited,
        }
    }

    fn set_mark(&self, id: ZoneId) {
        if let Some(entry) = self.entries.entry(id) {
            self.presence.current().0.set(&entry.apex, self.mark(id));
        }
    }

    /// Does what is to be done now.
    fn act(&mut self, now: Ms, means: &Means) {
        loop {
            let random = self.exchanges.chance().number();
            match self.refresher.next_action(now, random) {
                Some(Action::Ask { zone, primary }) => self.ask(now, zone, primary, means),
                Some(Action::Fetch { zone, primary, known }) => self.fetch(zone, primary, known, means),
                Some(Action::Refreshed { zone, .. }) => self.note_time(now, zone),
                Some(Action::Expired { zone, is_expired }) => self.on_expired(now, zone, is_expired),
                None => break,
            }
        }
        while let Some((zone, target)) = self.announcer.next_action(now) {
            self.notify(now, zone, target, means);
        }
        while let Some((zone, target)) = self.announcer.next_given_up() {
            if self.untaken.get(&(zone, target)).is_some_and(|(_, is_told)| *is_told) {
                continue;
            }
            // It has not answered for this version, and that stays so when others do.
            let none = || ("it does not answer".to_string(), false);
            let why = self.untaken.entry((zone, target)).or_insert_with(none).0.clone();
            self.tell_untold(now, (zone, target), &why, means);
        }
        self.hand_over(now, means);
    }

    fn tell_untold(&mut self, now: Ms, (zone, target): (ZoneId, u32), why: &str, means: &Means) {
        means.state.refreshed.count(Counter::NotifyFailed);
        let (zone, to) = (self.entries.name(zone), self.entries.remote(target).map(|r| r.to_string()));
        let to = to.unwrap_or_default();
        let facts: [(&str, &dyn std::fmt::Display); 3] = [("zone", &zone), ("to", &to), ("why", &why)];
        self.quota.warn(now, "a server is not told of a new version", &facts);
    }

    fn note_time(&mut self, now: Ms, id: ZoneId) {
        let Some(entry) = self.entries.entry_mut(id) else { return };
        let standing = self.refresher.standing(id);
        // What is wrong with a version that is not served stays to be said.
        if standing.is_some_and(|s| s.unserved.is_none()) {
            entry.trouble = None;
        }
        let serial = standing.and_then(|s| s.timers).map_or(0, |timers| timers.serial);
        let noted = Noted { at_s: wall_s(), serial, unserved: standing.and_then(|s| s.unserved) };
        if let Err(e) = self.times.note(&entry.apex, noted) {
            let facts: [(&str, &dyn std::fmt::Display); 2] = [("zone", &name(&entry.apex)), ("why", &e)];
            self.quota.warn(now, "it is not written down when a zone was refreshed", &facts);
        }
    }

    fn on_expired(&mut self, now: Ms, id: ZoneId, is_expired: bool) {
        self.set_mark(id);
        let zone = self.entries.name(id);
        match is_expired {
            true => {
                self.quota.error(now, "a zone has expired: no primary has confirmed it in time", &[("zone", &zone)])
            }
            false => self.quota.info(now, "an expired zone is as good as new", &[("zone", &zone)]),
        }
    }

    fn ask(&mut self, now: Ms, zone: ZoneId, primary: PrimaryId, means: &Means) {
        means.state.refreshed.count(Counter::SoaAsked);
        let (Some(entry), Some(to)) = (self.entries.entry(zone), self.entries.remote(primary)) else {
            return self.refresher.on_asked(now, 0, zone, primary, Asked::Useless(Useless::Answers));
        };
        let message = ask::query(0, &entry.apex, rtype::SOA);
        let unsent = Unsent { to, source: entry.source(to), is_notify: false, message };
        let (keys, _) = means.keys.current();
        if let Err((matter, heard)) = self.exchanges.send(now, unsent, &keys, Matter::Soa { zone, primary }) {
            self.on_heard(now, matter, heard, means);
        }
    }

    fn on_heard(&mut self, now: Ms, matter: Matter, heard: Heard, means: &Means) {
        let random = self.exchanges.chance().number();
        match matter {
            Matter::Notify { zone, target } => {
                let (told, why) = match heard {
                    Heard::Told | Heard::Soa(_) => (Told::Answered, None),
                    Heard::Silence(why) => (Told::Silent, Some(why)),
                    Heard::Useless(why) => (Told::Refused, Some(why)),
                };
                // To ask again may help against silence. Where versions come and come nobody is given up.
                let is_refused = told == Told::Refused;
                let before = match why.clone() {
                    Some(why) => self.untaken.insert((zone, target), (why, is_refused)),
                    None => self.untaken.remove(&(zone, target)),
                };
                if let Some(why) = why.filter(|_| is_refused)
                    && before.is_none_or(|before| before != (why.clone(), true))
                {
                    self.tell_untold(now, (zone, target), &why, means);
                }
                if told == Told::Answered {
                    means.state.refreshed.count(Counter::NotifyAnswered);
                }
                self.announcer.on_told(now, (zone, target), told);
                if told == Told::Answered {
                    self.note_told(zone);
                }
            }
            Matter::Soa { zone, primary } => {
                let asked = match heard {
                    Heard::Soa(None) | Heard::Told => Asked::Unknown,
                    Heard::Soa(Some(rdata)) => match Timers::of(&rdata) {
                        Some(theirs) => Asked::Serial(theirs.serial),
                        None => Asked::Useless(Useless::Answers),
                    },
                    Heard::Silence(why) => self.on_trouble(now, zone, (primary, Over::Udp), Useless::Silent, why),
                    Heard::Useless(why) => self.on_trouble(now, zone, (primary, Over::Udp), Useless::Answers, why),
                };
                match asked {
                    Asked::Serial(theirs) => self.compare(now, zone, (primary, Over::Udp), theirs),
                    Asked::Useless(_) => means.state.refreshed.count(Counter::SoaFailed),
                    Asked::Unknown => {}
                }
                self.refresher.on_asked(now, random, zone, primary, asked);
            }
        }
    }

    fn heard(&mut self, now: Ms, (primary, over): (PrimaryId, Over)) {
        if self.entries.is_heard(primary, over) {
            let from = self.entries.remote(primary).map(|r| r.to_string()).unwrap_or_default();
            self.quota.info(now, "a primary answers again", &[("primary", &from)]);
        }
    }

    /// A primary whose version is older than ours is told of, and nothing is taken from it.
    fn compare(&mut self, now: Ms, id: ZoneId, from: (PrimaryId, Over), theirs: u32) {
        self.heard(now, from);
        let ours = self.refresher.standing(id).and_then(|s| s.timers).map(|timers| timers.serial);
        if let Some(ours) = ours.filter(|ours| *ours != theirs && !transfer::record::is_newer(theirs, *ours)) {
            let why = format!("its serial {theirs} is older than ours, {ours}");
            self.on_trouble(now, id, from, Useless::Answers, why);
        }
    }

    /// A primary was of no use for a zone: told when it is news.
    fn on_trouble(
        &mut self,
        now: Ms,
        id: ZoneId,
        (primary, over): (PrimaryId, Over),
        useless: Useless,
        why: String,
    ) -> Asked {
        let from = self.entries.remote(primary).map(|r| r.to_string()).unwrap_or_default();
        // Of a primary that is silent one line is enough, however many zones it has.
        let is_told = match useless {
            Useless::Silent => self.entries.falls_silent(primary, over),
            Useless::Answers | Useless::BreaksOff => {
                self.heard(now, (primary, over));
                true
            }
        };
        let text = format!("{from}: {why}");
        let zone = self.entries.name(id);
        let is_news = self.entries.entry_mut(id).is_some_and(|entry| entry.set_trouble(text));
        if is_news && is_told {
            let facts: [(&str, &dyn std::fmt::Display); 3] = [("zone", &zone), ("primary", &from), ("why", &why)];
            self.quota.warn(now, "a primary is of no use for a zone", &facts);
        }
        Asked::Useless(useless)
    }

    fn fetch(&mut self, zone: ZoneId, primary: PrimaryId, known: Option<u32>, means: &Means) {
        self.under_way += 1;
        let is_wanted = Wanted::default();
        let errand = self.errand(zone, primary, known, is_wanted.clone(), means);
        let (own, run, wanted) = (self.own.clone(), self.run, is_wanted.clone());
        let work = move || {
            let outcome = match &errand {
                Some(errand) => {
                    // Told by the thread that asked for it, if there is anything to tell.
                    let _ = net::sched::modest();
                    // A thread that ends without a word would keep its place among the transfers for ever.
                    let outcome = catch_unwind(AssertUnwindSafe(|| run(errand)));
                    outcome.unwrap_or_else(|_| Outcome::nothing("the thread that fetched it panicked".to_string()))
                }
                None => Outcome::nothing("it is not configured any more".to_string()),
            };
            own.tell(Note::Fetched { zone, primary, errand: wanted, outcome });
        };
        if let Err(e) = std::thread::Builder::new().name("fetch".to_string()).spawn(work) {
            let outcome = Outcome::nothing(format!("no thread for a transfer: {e}"));
            self.own.tell(Note::Fetched { zone, primary, errand: is_wanted, outcome });
        }
    }

    fn errand(
        &mut self,
        zone: ZoneId,
        primary: PrimaryId,
        known: Option<u32>,
        is_wanted: Wanted,
        means: &Means,
    ) -> Option<Errand> {
        let id = (self.exchanges.chance().number() >> 16) as u16;
        self.entries.entry_mut(zone)?.errand = Some((primary, is_wanted.clone()));
        let (entry, from) = (self.entries.entry(zone)?, self.entries.remote(primary)?);
        let (keys, _) = means.keys.current();
        Some(Errand {
            apex: name(&entry.apex),
            from: from.clone(),
            key: from.key.as_ref().and_then(|key| keys.named(key.bytes()).cloned()),
            source: entry.source(from),
            id,
            known,
            file: entry.file.clone(),
            octets_max: self.octets_max,
            is_wanted,
        })
    }

    fn on_fetched(&mut self, now: Ms, zone: ZoneId, primary: PrimaryId, outcome: Outcome, means: &Means) {
        self.under_way = self.under_way.saturating_sub(1);
        let counters = &means.state.refreshed;
        counters.add(Counter::ReceivedOctets, outcome.octets);
        let random = self.exchanges.chance().number();
        match outcome.fetched {
            Fetched::Whole(serial) => {
                counters.count(Counter::ZoneReceived);
                self.heard(now, (primary, Over::Tcp));
                let from = self.entries.remote(primary).map(|r| r.to_string()).unwrap_or_default();
                let name = self.entries.name(zone);
                let Some(entry) = self.entries.entry_mut(zone) else {
                    return self.refresher.on_fetched(now, random, zone, primary, outcome.fetched);
                };
                entry.from.clone_from(&from);
                let facts: [(&str, &dyn std::fmt::Display); 5] = [
                    ("zone", &name),
                    ("serial", &serial),
                    ("from", &from),
                    ("records", &outcome.records),
                    ("octets", &outcome.octets),
                ];
                self.quota.info(now, "a zone was received", &facts);
                self.refresher.on_fetched(now, random, zone, primary, outcome.fetched);
                // Its primaries may be others by now; what is on the disk is served all the same.
                self.ready.push((zone, serial));
                return;
            }
            Fetched::NotNewer(theirs) => self.compare(now, zone, (primary, Over::Tcp), theirs),
            Fetched::Useless(useless) => {
                counters.count(Counter::ZoneNotReceived);
                let why = outcome.why.clone().unwrap_or_default();
                self.on_trouble(now, zone, (primary, Over::Tcp), useless, why);
            }
            Fetched::Failed => {
                counters.count(Counter::ZoneNotReceived);
                let Some(why) = outcome.why.clone() else {
                    return self.refresher.on_fetched(now, random, zone, primary, outcome.fetched);
                };
                let name = self.entries.name(zone);
                if self.entries.entry_mut(zone).is_some_and(|entry| entry.set_trouble(why.clone())) {
                    self.quota.error(now, "a zone cannot be kept", &[("zone", &name), ("why", &why)]);
                }
            }
        }
        self.refresher.on_fetched(now, random, zone, primary, outcome.fetched);
    }

    /// What has come goes to the publisher, as soon as that is done with what it had.
    fn hand_over(&mut self, now: Ms, means: &Means) {
        if self.handing_over().is_none_or(|at| at > now) {
            return;
        }
        self.handed = now;
        // All of it: where it is more than may be laid over an image, one new image is made and not several.
        self.laying = std::mem::take(&mut self.ready);
        self.laying.retain(|(id, _)| self.entries.entry(*id).is_some());
        let entries = self.laying.iter().filter_map(|(id, _)| self.entries.entry(*id));
        let from: HashMap<_, _> = entries.map(|entry| (entry.apex.clone(), entry.from.clone())).collect();
        // Where no zone is named all are looked at.
        if !from.is_empty() {
            means.state.raise(Event::Received { from });
        }
    }

    /// When the publisher is handed what has come; None: nothing has, or it is not done yet.
    fn handing_over(&self) -> Option<Ms> {
        let has_any = self.laying.is_empty() && !self.ready.is_empty();
        let pause = (self.took * TOGETHER_TIMES).clamp(TOGETHER_MS.0, TOGETHER_MS.1);
        let together = if self.under_way == 0 { LONG_AGO } else { self.handed + pause };
        has_any.then(|| together.max(self.rests_until))
    }

    /// The publisher has told why.
    fn on_not_laid(&mut self, now: Ms, means: &Means) {
        let (zones, _) = means.published.current();
        let is_served = |(id, received): &(ZoneId, u32)| {
            let entry = self.entries.entry(*id);
            let served = entry.and_then(|entry| served(&zones, &entry.apex));
            served.is_some_and(|(timers, _)| timers.serial == *received)
        };
        // Some may have been laid though others take an image that cannot be made.
        let (there, others) = std::mem::take(&mut self.laying).into_iter().partition(is_served);
        self.laying = there;
        self.on_laid(now, means);
        self.rests_until = now + (self.took * TOGETHER_TIMES).clamp(AGAIN_MS.0, AGAIN_MS.1);
        self.ready.extend::<Vec<_>>(others);
    }

    fn on_laid(&mut self, now: Ms, means: &Means) {
        self.took = now - self.handed;
        let (zones, _) = means.published.current();
        for (id, received) in std::mem::take(&mut self.laying) {
            let Some(apex) = self.entries.entry(id).map(|entry| entry.apex.clone()) else { continue };
            let served = served(&zones, &apex).map(|(timers, _)| timers);
            let random = self.exchanges.chance().number();
            if self.refresher.standing(id).is_some_and(|s| s.phase == Phase::Laying) {
                self.entries.entry_mut(id).into_iter().for_each(|entry| entry.errand = None);
                self.refresher.on_laid(now, random, id, received, served);
            } else {
                self.refresher.on_served(now, id, served);
            }
            if served.is_none_or(|served| served.serial != received)
                && let Some(entry) = self.entries.entry_mut(id)
            {
                // The publisher has told why.
                entry.set_trouble(format!("{}: what it sent is not served", entry.from));
            }
            self.on_changed(now, &apex, means);
        }
    }

    /// What is served of a zone may be another version.
    fn on_changed(&mut self, now: Ms, apex: &[u8], means: &Means) {
        let Some(id) = self.entries.of(apex) else { return };
        let (zones, _) = means.published.current();
        let served = served(&zones, apex).map(|(timers, _)| timers);
        self.refresher.on_served(now, id, served);
        self.set_mark(id);
        let is_well = self.refresher.standing(id).is_some_and(|standing| standing.unserved.is_none());
        let Some(entry) = self.entries.entry_mut(id) else { return };
        let serial = served.map(|served| served.serial);
        if std::mem::replace(&mut entry.serial, serial) != serial && serial.is_some() {
            // What was held may be served now, by somebody's word.
            if is_well {
                entry.trouble = None;
            }
            // Whoever looks at digests would not take this version.
            let is_stale = |zone: image::Zone<'_>| digest::is_stale(&zone) == Ok(true);
            match entry.has_digests_made && laying::zone(zones.image.view(), apex).is_some_and(is_stale) {
                true => self.announce_later(now + DIGEST_WITHIN_MS, id),
                false => self.announce(now, id),
            };
        }
    }
}
