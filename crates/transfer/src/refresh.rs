//! When a zone that comes from others is asked for, whom, and when it may not be answered for any more (RFC 1034 section
//! 4.3.5, RFC 1035 section 3.3.13, RFC 1996): the times and the order of it, and how much goes on at once.
//!
//! ```text
//!            deadline, NOTIFY, an operator
//!   Waiting ------------------------------> Asking   for the SOA, one primary after another
//!      ^  ^                                   |  newer, or we have nothing
//!      |  '-- no newer, or none answers ------+
//!      |                                      v
//!      '---- what is served is known -- Laying <- whole - Fetching
//! ```
//! The time in ms of one clock, and chance, are arguments. One deadline a zone stands in one ordered set: no event looks at
//! other zones than those it is about. A primary that is silent is silent for all its zones: one at a time tries it, after pauses that
//! double, the others ask another primary or come back after their retry time, and at once when it says something.

mod line;

use crate::record::{is_newer, serial_of};
pub(crate) use line::Lines;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Milliseconds of a clock; negative: before it was started.
pub type Ms = i64;

/// Bounds of what a SOA says. The upper ones are BIND's: a mistyped number must not keep a zone from being asked for.
const REFRESH_S: (u32, u32) = (2, 28 * 86_400);
const RETRY_S: (u32, u32) = (2, 14 * 86_400);
const EXPIRE_MAX_S: u32 = 168 * 86_400;
/// A zone of which nothing is known is asked for after so long, then after twice as long, and so on to the latter.
const FIRST_RETRY_MS: Ms = 2_000;
const FIRST_RETRY_MAX_MS: Ms = 600_000;
/// Between two checks that somebody else than the SOA causes: what a storm of NOTIFYs can cost.
const NOTIFIED_EVERY_MS: Ms = 100;

/// Questions for SOAs under way, of one primary and in all; transfers the same. More of them wait.
pub const ASKS_MAX: (usize, usize) = (32, 128);
pub const FETCHES_MAX: (usize, usize) = (4, 16);

/// What the SOA of a version says about its own age, within bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timers {
    pub serial: u32,
    pub refresh_s: u32,
    pub retry_s: u32,
    pub expire_s: u32,
}

impl Timers {
    /// Of the rdata of a SOA.
    pub fn of(soa: &[u8]) -> Option<Timers> {
        let numbers = soa.last_chunk::<20>()?;
        let number = |i: usize| numbers.get(i * 4..)?.first_chunk().map(|b| u32::from_be_bytes(*b));
        let (refresh, retry) = (number(1)?, number(2)?);
        let (refresh_s, retry_s) = (refresh.clamp(REFRESH_S.0, REFRESH_S.1), retry.clamp(RETRY_S.0, RETRY_S.1));
        // A zone that expired before it could be asked for again would be gone with the first lost packet.
        let expire_s = number(3)?.min(EXPIRE_MAX_S).max(refresh_s.saturating_add(retry_s));
        Some(Timers { serial: serial_of(soa)?, refresh_s, retry_s, expire_s })
    }
}

/// A zone, as long as it is configured; never used again for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ZoneId(pub u64);

/// A primary, by its place among all that are configured.
pub type PrimaryId = u32;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Ask this primary for the SOA: `on_asked` is told what came of it.
    Ask { zone: ZoneId, primary: PrimaryId },
    /// Have the zone from this primary: `on_fetched`. `known`: what it has to be newer than.
    Fetch { zone: ZoneId, primary: PrimaryId, known: Option<u32> },
    /// It was said at this time that it is as it should be: to be remembered.
    Refreshed { zone: ZoneId, at: Ms },
    /// It may not be answered for any more, or again.
    Expired { zone: ZoneId, is_expired: bool },
}

/// Why a primary was of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Useless {
    /// Nothing came from it, for no zone.
    Silent,
    /// It answers, but not with this zone.
    Answers,
    /// It has begun to send the zone, and not ended: it may be starting anew.
    BreaksOff,
}

/// What came of a question for the SOA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    Serial(u32),
    /// It has one, and says no more of it: that will be seen.
    Unknown,
    Useless(Useless),
}

/// What came of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    /// It is there, to be laid: `on_laid`.
    Whole(u32),
    /// The primary's is not newer than `known`.
    NotNewer(u32),
    Useless(Useless),
    /// Nobody's fault but ours: a full disk.
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// For the deadline.
    Waiting,
    /// For the primary's answer, or for a place in its line.
    Asking,
    Fetching,
    /// For what was received to be served.
    Laying,
}

/// What is known of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    pub phase: Phase,
    /// Of the version that is served.
    pub timers: Option<Timers>,
    /// A version that was received, and is not served: it is held, or wrong.
    pub unserved: Option<u32>,
    /// When a primary last had what is served, or the version that is not served beside it. None: none has been asked since it came.
    pub refreshed: Option<Ms>,
    pub next: Ms,
    pub expires: Option<Ms>,
    pub is_expired: bool,
    /// Rounds over all primaries that came to nothing, in a row.
    pub failures: u32,
    pub primary: Option<PrimaryId>,
}

struct Zone {
    primaries: Vec<PrimaryId>,
    timers: Option<Timers>,
    unserved: Option<u32>,
    /// No primary has that any more, as far as they say: what comes under its number is another one.
    is_taken_back: bool,
    /// In this round: who has what is served, while the others are asked whether they have the one that is not; and which have said that they have
    /// another one. Who refuses, or fails, may have it: he may be starting.
    has_served: Option<PrimaryId>,
    without: Vec<PrimaryId>,
    /// None has: what is served is fetched once more, to lie where the other one lies.
    is_had_again: bool,
    /// From when on its time counts: since a primary had it; or since it is here, if none was asked.
    refreshed: Option<Ms>,
    is_confirmed: bool,
    is_expired: bool,
    phase: Phase,
    next: Ms,
    /// What stands in the set of deadlines.
    deadline: Option<Ms>,
    /// Where in `primaries` it is, or begins next time; and how many of them have been of no use in this round, the second time counted again.
    at: usize,
    /// Where the next round begins: with who has told of a change meanwhile, else with the first, for one behind it may lag.
    begins_at: usize,
    tried: usize,
    failures: u32,
    began: Ms,
    /// Something else of it is about to be served.
    waits: bool,
    /// Somebody has said something meanwhile: it is asked for once more.
    again: bool,
    /// An operator wants it whatever its serial.
    is_wanted: bool,
    /// He has said so once more while it was under way.
    is_wanted_again: bool,
    /// In this round a primary has begun to send it.
    was_begun: bool,
    /// The silent primary that it is told of.
    hopes: Option<PrimaryId>,
    /// While it is asked for or fetched: it does not wait in the line any more.
    has_place: bool,
}

/// All zones that come from others. Bound: as many as are configured.
pub struct Refresher {
    zones: HashMap<ZoneId, Zone>,
    deadlines: BTreeSet<(Ms, ZoneId)>,
    asks: Lines,
    fetches: Lines,
    actions: VecDeque<Action>,
}

impl Default for Refresher {
    fn default() -> Refresher {
        Refresher {
            zones: HashMap::new(),
            deadlines: BTreeSet::new(),
            asks: Lines::new(ASKS_MAX),
            fetches: Lines::new(FETCHES_MAX),
            actions: VecDeque::new(),
        }
    }
}

impl Zone {
    fn expires(&self) -> Option<Ms> {
        Some(self.refreshed? + seconds(self.timers?.expire_s))
    }

    /// What a primary's version has to be newer than.
    fn known(&self) -> Option<u32> {
        let (served, unserved) = (self.served(), self.unserved.filter(|_| !self.is_taken_back));
        match (served, unserved) {
            _ if self.is_wanted => None,
            (Some(served), Some(unserved)) if is_newer(unserved, served) => Some(unserved),
            (served, unserved) => served.or(unserved),
        }
    }

    fn served(&self) -> Option<u32> {
        self.timers.map(|timers| timers.serial)
    }

    /// A primary has this version. True: it is the one that is served, and beside that lies another one, which may have been taken back. Where it is before
    /// that one it was.
    fn meet(&mut self, serial: u32) -> bool {
        let Some(unserved) = self.unserved.filter(|unserved| *unserved != serial) else { return false };
        let is_served = self.served() == Some(serial);
        self.is_taken_back |= !is_served && !is_newer(serial, unserved);
        is_served
    }

    fn primary(&self) -> Option<PrimaryId> {
        self.primaries.get(self.at).copied()
    }

    /// Is told when this silent primary says something, unless it hopes for another one.
    fn hope(&mut self, lines: &mut Lines, primary: PrimaryId, id: ZoneId) {
        if *self.hopes.get_or_insert(primary) == primary {
            lines.hope(primary, id);
        }
    }
}

fn seconds(s: u32) -> Ms {
    Ms::from(s) * 1000
}

/// Nine to ten tenths of a time, so that what came together does not go together for ever.
fn spread(ms: Ms, random: u32) -> Ms {
    ms - (ms / 10) * Ms::from(random >> 16) / 0x1_0000
}

impl Refresher {
    /// `served`: the version that is served; `refreshed`: when it was last known to be as it should be. Asked for in its turn.
    pub fn add(
        &mut self,
        now: Ms,
        random: u32,
        id: ZoneId,
        primaries: Vec<PrimaryId>,
        served: Option<Timers>,
        refreshed: Option<Ms>,
    ) {
        // A time that is still to come was written by another clock than this one: it says nothing.
        let refreshed = served.and(refreshed).filter(|at| *at <= now);
        let next = match (served, refreshed) {
            (Some(timers), Some(at)) => at + spread(seconds(timers.refresh_s), random),
            _ => now,
        };
        let zone = Zone {
            primaries,
            timers: served,
            unserved: None,
            is_taken_back: false,
            has_served: None,
            without: Vec::new(),
            is_had_again: false,
            // What is there and was never asked for counts from now on.
            refreshed: refreshed.or(served.map(|_| now)),
            is_confirmed: refreshed.is_some(),
            is_expired: false,
            phase: Phase::Waiting,
            next,
            deadline: None,
            at: 0,
            begins_at: 0,
            tried: 0,
            failures: 0,
            began: Ms::MIN / 2,
            waits: false,
            again: false,
            is_wanted: false,
            is_wanted_again: false,
            was_begun: false,
            hopes: None,
            has_place: false,
        };
        self.zones.insert(id, zone);
        self.expire(now, id);
        self.set_deadline(id);
    }

    /// There is something of it, or something else, that is about to be served: what a primary has should be newer than that. If it cannot be served,
    /// after all, the zone is asked for then.
    pub fn wait_until(&mut self, id: ZoneId, at: Ms) {
        if let Some(zone) = self.zones.get_mut(&id) {
            (zone.waits, zone.next) = (true, zone.next.max(at));
        }
        self.set_deadline(id);
    }

    /// This version was received before it was added, and is not served.
    pub fn has_unserved(&mut self, id: ZoneId, serial: u32) {
        self.zones.get_mut(&id).into_iter().for_each(|zone| zone.unserved = Some(serial));
    }

    pub fn remove(&mut self, id: ZoneId) {
        self.stop_hoping(id);
        if let Some(at) = self.zones.remove(&id).and_then(|zone| zone.deadline) {
            self.deadlines.remove(&(at, id));
        }
    }

    /// Others are its primaries from now on: it is asked for at once.
    pub fn set_primaries(&mut self, now: Ms, id: ZoneId, primaries: Vec<PrimaryId>) {
        if self.zones.get(&id).is_none_or(|zone| zone.primaries == primaries) {
            return;
        }
        self.stop_hoping(id);
        let Some(zone) = self.zones.get_mut(&id) else { return };
        let at = zone.primary().and_then(|now| primaries.iter().position(|primary| *primary == now));
        (zone.primaries, zone.at, zone.begins_at, zone.tried) = (primaries, at.unwrap_or(0), 0, 0);
        (zone.has_served, zone.without) = (None, Vec::new());
        if zone.phase == Phase::Waiting {
            zone.at = 0;
        }
        // What others still say is nothing to it; who is a primary as before goes on with what is under way.
        if at.is_none() && matches!(zone.phase, Phase::Asking | Phase::Fetching) {
            zone.phase = Phase::Waiting;
        }
        zone.next = now;
        self.hurry(now, id);
    }

    /// No zone has other primaries than these any more.
    pub fn keep_primaries(&mut self, is_kept: impl Fn(PrimaryId) -> bool) {
        self.asks.keep(&is_kept);
        self.fetches.keep(&is_kept);
    }

    pub fn standing(&self, id: ZoneId) -> Option<Standing> {
        let zone = self.zones.get(&id)?;
        Some(Standing {
            phase: zone.phase,
            timers: zone.timers,
            unserved: zone.unserved,
            refreshed: zone.refreshed.filter(|_| zone.is_confirmed),
            next: zone.next,
            expires: zone.expires(),
            is_expired: zone.is_expired,
            failures: zone.failures,
            primary: zone.primary(),
        })
    }

    /// A primary says that the zone has changed.
    pub fn on_notify(&mut self, now: Ms, id: ZoneId, from: PrimaryId) {
        self.asks.try_soon(from);
        self.fetches.try_soon(from);
        let Some(zone) = self.zones.get_mut(&id) else { return };
        if let Some(at) = zone.primaries.iter().position(|primary| *primary == from) {
            let begins = if zone.phase == Phase::Waiting { &mut zone.at } else { &mut zone.begins_at };
            *begins = at;
        }
        // What it has is compared with what is about to be served.
        if !(zone.waits && zone.timers.is_some()) {
            self.hurry(now, id);
        }
    }

    /// An operator wants the zone transferred, whatever its serial.
    pub fn on_wish(&mut self, now: Ms, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        zone.is_wanted = true;
        zone.is_wanted_again = zone.phase != Phase::Waiting;
        for primary in zone.primaries.clone() {
            self.asks.hear(primary);
            self.fetches.hear(primary);
        }
        self.hurry(now, id);
    }

    fn hurry(&mut self, now: Ms, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        match zone.phase {
            Phase::Waiting => zone.next = zone.next.min(now.max(zone.began + NOTIFIED_EVERY_MS)),
            Phase::Asking | Phase::Fetching | Phase::Laying => zone.again = true,
        }
        self.set_deadline(id);
    }

    /// When to come back at the latest; None: nothing is waited for.
    pub fn next_deadline(&self) -> Option<Ms> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// What there is to do now; to be asked until there is nothing.
    pub fn next_action(&mut self, now: Ms, random: u32) -> Option<Action> {
        loop {
            if let Some(action) = self.actions.pop_front() {
                return Some(action);
            }
            if let Some(&(at, id)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
                self.deadlines.remove(&(at, id));
                self.on_deadline(now, random, id);
            } else if let Some((primary, zone)) = self.fetches.next() {
                let known = self.takes_place(now, zone, primary, Phase::Fetching);
                match known {
                    Some(known) => return Some(Action::Fetch { zone, primary, known }),
                    None => drop(self.fetches.end(now, primary, None)),
                }
            } else {
                let (primary, zone) = self.asks.next()?;
                match self.takes_place(now, zone, primary, Phase::Asking) {
                    Some(_) => return Some(Action::Ask { zone, primary }),
                    None => drop(self.asks.end(now, primary, None)),
                }
            }
        }
    }

    /// A zone is the next in the line of a primary. None: it does not wait there any more; else its `known`.
    fn takes_place(&mut self, now: Ms, id: ZoneId, primary: PrimaryId, phase: Phase) -> Option<Option<u32>> {
        let has_hoped = self.zones.get(&id)?.hopes == Some(primary);
        if has_hoped {
            self.stop_hoping(id);
        }
        let zone = self.zones.get_mut(&id)?;
        if has_hoped && zone.phase == Phase::Waiting {
            // What it is to be asked for may be something else by now.
            zone.at = zone.primaries.iter().position(|p| *p == primary)?;
            self.hurry(now, id);
            return None;
        }
        // Who has hoped and was tried by himself may stand in the line twice.
        let is_next = zone.phase == phase && zone.primary() == Some(primary) && !zone.has_place;
        zone.has_place |= is_next;
        // The version that is served, or a later one.
        let known = if zone.is_had_again { zone.served().map(|serial| serial.wrapping_sub(1)) } else { zone.known() };
        is_next.then_some(known)
    }

    fn stop_hoping(&mut self, id: ZoneId) {
        if let Some(primary) = self.zones.get_mut(&id).and_then(|zone| zone.hopes.take()) {
            self.asks.forget(primary, id);
            self.fetches.forget(primary, id);
        }
    }

    fn on_deadline(&mut self, now: Ms, random: u32, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        zone.deadline = None;
        self.expire(now, id);
        if let Some(zone) = self.zones.get_mut(&id).filter(|zone| zone.phase == Phase::Waiting && zone.next <= now) {
            (zone.tried, zone.began, zone.again, zone.waits, zone.was_begun) = (0, now, false, false, false);
            (zone.has_served, zone.without) = (None, Vec::new());
            self.go_on(now, random, id);
        }
        self.set_deadline(id);
    }

    /// To the next primary that is not known to be silent; after the last one, once more to those that say nothing over UDP: a transfer
    /// begins with the SOA, too, and ends with it where that is not newer. Then later again.
    fn go_on(&mut self, now: Ms, random: u32, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        zone.is_had_again = false;
        let all = zone.primaries.len();
        while let Some(primary) = zone.primary() {
            let is_fetched = zone.known().is_none();
            let is_again = !is_fetched && zone.tried >= all;
            if zone.tried >= all && !is_again || zone.tried >= 2 * all {
                break;
            }
            let is_due = !is_again || self.asks.is_silent(primary) && self.fetches.has_room();
            let (lines, phase) = match is_fetched || is_again {
                true => (&mut self.fetches, Phase::Fetching),
                false => (&mut self.asks, Phase::Asking),
            };
            if is_due && lines.may_try(now, primary) {
                (zone.phase, zone.has_place) = (phase, false);
                return lines.join(primary, id);
            }
            zone.hope(lines, primary, id);
            zone.tried += 1;
            zone.at = (zone.at + 1) % all;
        }
        match zone.has_served.take().filter(|primary| zone.primaries.contains(primary)) {
            // Who says nothing may have it.
            Some(primary) if zone.without.len() >= all && self.fetches.may_try(now, primary) => {
                zone.at = zone.primaries.iter().position(|p| *p == primary).unwrap_or(zone.at);
                (zone.is_taken_back, zone.is_had_again) = (true, true);
                (zone.phase, zone.has_place) = (Phase::Fetching, false);
                self.fetches.join(primary, id);
            }
            Some(_) => self.is_fresh(now, random, id),
            None => self.give_up(now, random, id),
        }
    }

    /// This primary has what is served. Whether another one has what lies beside that is asked before it is fetched once more.
    fn look_further(&mut self, now: Ms, random: u32, id: ZoneId, primary: PrimaryId) {
        self.confirm(now, id);
        let Some(zone) = self.zones.get_mut(&id) else { return };
        let serial = zone.served();
        zone.has_served.get_or_insert(primary);
        self.lacks(now, random, id, serial);
        self.set_deadline(id);
    }

    /// Zones have waited for a primary that turns out to be silent.
    fn send_on(&mut self, now: Ms, random: u32, zones: VecDeque<ZoneId>, primary: PrimaryId, phase: Phase) {
        for id in zones {
            let Some(zone) = self.zones.get_mut(&id) else { continue };
            if zone.phase == phase && zone.primary() == Some(primary) {
                // It is not counted as tried: it has not been.
                self.go_on(now, random, id);
                self.set_deadline(id);
            } else if zone.hopes == Some(primary) {
                let lines = if phase == Phase::Fetching { &mut self.fetches } else { &mut self.asks };
                lines.hope(primary, id);
            }
        }
    }

    /// A primary has been asked for the SOA.
    pub fn on_asked(&mut self, now: Ms, random: u32, id: ZoneId, primary: PrimaryId, asked: Asked) {
        let was_silent = asked == Asked::Useless(Useless::Silent);
        if !was_silent && (self.asks.is_said_back(primary) || self.fetches.is_said_back(primary)) {
            self.fetches.hear(primary);
        }
        let in_vain = self.asks.end(now, primary, Some(was_silent));
        self.send_on(now, random, in_vain, primary, Phase::Asking);
        let is_its = |zone: &&mut Zone| zone.phase == Phase::Asking && zone.primary() == Some(primary);
        let Some(zone) = self.zones.get_mut(&id).filter(is_its) else { return };
        if let Asked::Serial(serial) = asked
            && zone.meet(serial)
        {
            return self.look_further(now, random, id, primary);
        }
        match (asked, zone.known()) {
            (Asked::Useless(Useless::Silent), _) => {
                zone.hope(&mut self.asks, primary, id);
                self.fail(now, random, id);
            }
            (Asked::Useless(_), _) => self.fail(now, random, id),
            (Asked::Serial(serial), Some(known)) if serial == known => self.is_fresh(now, random, id),
            (Asked::Serial(serial), Some(known)) if !is_newer(serial, known) => {
                self.lacks(now, random, id, Some(serial))
            }
            (Asked::Serial(_) | Asked::Unknown, _) if self.fetches.may_try(now, primary) => {
                (zone.phase, zone.has_place) = (Phase::Fetching, false);
                self.fetches.join(primary, id);
            }
            // It answers questions and gives no zones: who waited for one would ask again whenever somebody waits in vain.
            (Asked::Serial(_) | Asked::Unknown, _) => {
                zone.hope(&mut self.fetches, primary, id);
                self.fail(now, random, id);
            }
        }
        self.set_deadline(id);
    }

    pub fn on_fetched(&mut self, now: Ms, random: u32, id: ZoneId, primary: PrimaryId, fetched: Fetched) {
        let in_vain = self.fetches.end(now, primary, Some(fetched == Fetched::Useless(Useless::Silent)));
        self.send_on(now, random, in_vain, primary, Phase::Fetching);
        let is_its = |zone: &&mut Zone| zone.phase == Phase::Fetching && zone.primary() == Some(primary);
        let Some(zone) = self.zones.get_mut(&id).filter(is_its) else { return };
        if let Fetched::NotNewer(serial) = fetched
            && zone.meet(serial)
            && !zone.is_had_again
        {
            return self.look_further(now, random, id, primary);
        }
        match fetched {
            Fetched::Whole(_) => (zone.phase, zone.is_wanted, zone.is_taken_back) = (Phase::Laying, false, false),
            Fetched::NotNewer(serial) if zone.known() == Some(serial) => self.is_fresh(now, random, id),
            Fetched::NotNewer(serial) => self.lacks(now, random, id, Some(serial)),
            Fetched::Useless(Useless::Answers) => self.fail(now, random, id),
            Fetched::Useless(Useless::Silent) => {
                zone.hope(&mut self.fetches, primary, id);
                self.fail(now, random, id);
            }
            Fetched::Useless(Useless::BreaksOff) => {
                zone.was_begun = true;
                self.fail(now, random, id);
            }
            // Another primary would not help.
            Fetched::Failed => self.rest_for(now, random, id, true),
        }
        self.set_deadline(id);
    }

    /// What was received has come to be served, or has not. `received`: its serial; `served`: of what is served now.
    pub fn on_laid(&mut self, now: Ms, random: u32, id: ZoneId, received: u32, served: Option<Timers>) {
        let Some(zone) = self.zones.get_mut(&id).filter(|zone| zone.phase == Phase::Laying) else { return };
        zone.timers = served;
        zone.unserved = Some(received).filter(|serial| served.is_none_or(|served| served.serial != *serial));
        if served.is_none() {
            // It came, and cannot be used. What else is there to ask for?
            self.give_up(now, random, id);
        } else {
            self.is_fresh(now, random, id);
        }
        self.set_deadline(id);
    }

    /// Somebody else has had another version served: an operator, or a zone's file.
    pub fn on_served(&mut self, now: Ms, id: ZoneId, served: Option<Timers>) {
        let Some(zone) = self.zones.get_mut(&id).filter(|zone| zone.phase != Phase::Laying) else { return };
        // What has come to be served without us may be old.
        let has_come = served.is_some() && std::mem::take(&mut zone.waits);
        let is_another = has_come || zone.timers.is_some() != served.is_some();
        // Where what was served is lost, what was held may have gone with it.
        let is_lost = zone.timers.is_some() && served.is_none();
        zone.timers = served;
        zone.refreshed = zone.refreshed.or(served.map(|_| now));
        let is_held = |serial: &u32| !is_lost && served.is_none_or(|served| served.serial != *serial);
        zone.unserved = zone.unserved.filter(is_held);
        zone.is_taken_back &= zone.unserved.is_some();
        zone.has_served = zone.has_served.filter(|_| zone.unserved.is_some());
        if is_another {
            self.hurry(now, id);
        }
        self.expire(now, id);
        self.set_deadline(id);
    }

    /// The version that is served is the one that it should be, or the last good one beside it.
    fn is_fresh(&mut self, now: Ms, random: u32, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        let refresh_s = zone.timers.map(|timers| timers.refresh_s);
        (zone.phase, zone.failures) = (Phase::Waiting, 0);
        zone.next = now + spread(refresh_s.map_or(FIRST_RETRY_MAX_MS, seconds), random);
        self.confirm(now, id);
        self.rest(now, id);
    }

    fn confirm(&mut self, now: Ms, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        (zone.refreshed, zone.is_confirmed) = (Some(now), true);
        self.actions.push_back(Action::Refreshed { zone: id, at: now });
        self.expire(now, id);
    }

    /// This primary was of no use, or the others are to be asked, too: the next one, or later again.
    fn fail(&mut self, now: Ms, random: u32, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        zone.tried += 1;
        zone.at = (zone.at + 1) % zone.primaries.len().max(1);
        self.go_on(now, random, id);
    }

    /// The same of one that says which version it has: no newer one. It may be the one that is not served.
    fn lacks(&mut self, now: Ms, random: u32, id: ZoneId, serial: Option<u32>) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        // Over TCP one may say it once more.
        let primary = zone.primary().filter(|primary| zone.unserved != serial && !zone.without.contains(primary));
        zone.without.extend(primary);
        self.fail(now, random, id);
    }

    /// No primary is left to be asked in this round.
    fn give_up(&mut self, now: Ms, random: u32, id: ZoneId) {
        let is_soon = self.zones.get_mut(&id).is_some_and(|zone| std::mem::take(&mut zone.was_begun));
        self.rest_for(now, random, id, is_soon);
    }

    /// `is_soon`: there is a primary that has the zone, and what hinders may be gone long before the time that its SOA says is over.
    fn rest_for(&mut self, now: Ms, random: u32, id: ZoneId, is_soon: bool) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        (zone.phase, zone.failures) = (Phase::Waiting, zone.failures.saturating_add(1));
        // A wish is for one round: what is served is good as long as a primary says so, though it cannot be had once more.
        zone.is_wanted = false;
        let doubled = (FIRST_RETRY_MS << (zone.failures - 1).min(20)).min(FIRST_RETRY_MAX_MS);
        let retry = zone.timers.map_or(doubled, |timers| seconds(timers.retry_s));
        zone.next = now + spread(if is_soon { retry.min(doubled) } else { retry }, random);
        self.rest(now, id);
    }

    /// A round is over; what was said meanwhile begins another one.
    fn rest(&mut self, now: Ms, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        (zone.at, zone.has_served) = (std::mem::take(&mut zone.begins_at), None);
        zone.is_wanted |= std::mem::take(&mut zone.is_wanted_again);
        if std::mem::take(&mut zone.again) {
            self.hurry(now, id);
        }
    }

    fn expire(&mut self, now: Ms, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        let is_expired = zone.expires().is_some_and(|at| at <= now);
        if is_expired != zone.is_expired {
            zone.is_expired = is_expired;
            self.actions.push_back(Action::Expired { zone: id, is_expired });
        }
    }

    /// The one deadline of a zone: when it is asked for, or when it expires.
    fn set_deadline(&mut self, id: ZoneId) {
        let Some(zone) = self.zones.get_mut(&id) else { return };
        let next = Some(zone.next).filter(|_| zone.phase == Phase::Waiting);
        let expires = zone.expires().filter(|_| !zone.is_expired);
        let deadline = [next, expires].into_iter().flatten().min();
        if deadline != zone.deadline {
            zone.deadline.iter().for_each(|at| _ = self.deadlines.remove(&(*at, id)));
            self.deadlines.extend(deadline.map(|at| (at, id)));
            zone.deadline = deadline;
        }
    }
}

#[cfg(test)]
mod tests;
