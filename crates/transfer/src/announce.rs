//! Who is told when a zone has changed (RFC 1996): each of its secondaries once for a version, again after pauses that double
//! until it answers, and never more of them at once than so many. The time in ms of one clock is an argument.
//!
//! Versions that follow each other faster than `EVERY_MS` are told of together: what a secondary asks for then is the last one.

use crate::refresh::{Lines, Ms, ZoneId};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// NOTIFYs under way to one server, and in all.
pub const AT_ONCE_MAX: (usize, usize) = (16, 64);
/// Between two NOTIFYs of one zone to one server.
const EVERY_MS: Ms = 1_000;
/// After the first that was not answered; RFC 1996 section 3.6 has 60 s, which is what the sum of the first is about.
const RETRY_MS: Ms = 15_000;
/// RFC 1996 section 3.6.
const RETRIES_MAX: u32 = 5;

/// A server that is told, by its place among all of them.
pub type TargetId = u32;

type Pair = (ZoneId, TargetId);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    Answered,
    Silent,
    Refused,
}

struct Pending {
    retries: u32,
    /// None: it waits for its turn, or is under way.
    at: Option<Ms>,
    /// There is something to be told, by what is known since it was told last.
    is_news: bool,
    /// It is not told again before.
    rests_until: Ms,
    /// Nor, as long as nothing has followed what is to be told.
    passes_at: Ms,
}

impl Pending {
    fn at(at: Ms) -> Pending {
        Pending { retries: 0, at: Some(at), is_news: false, rests_until: Ms::MIN, passes_at: Ms::MIN }
    }
}

/// Bound: zones and servers that are configured to be told. What has been told is forgotten `EVERY_MS` after.
pub struct Announcer {
    pending: HashMap<Pair, Pending>,
    deadlines: BTreeSet<(Ms, Pair)>,
    lines: Lines,
    given_up: VecDeque<Pair>,
}

impl Default for Announcer {
    fn default() -> Announcer {
        Announcer {
            pending: HashMap::new(),
            deadlines: BTreeSet::new(),
            lines: Lines::new(AT_ONCE_MAX),
            given_up: VecDeque::new(),
        }
    }
}

impl Announcer {
    /// A zone is served in another version from now on.
    pub fn on_changed(&mut self, now: Ms, zone: ZoneId, target: TargetId) {
        let pair = (zone, target);
        let pending = self.pending.entry(pair).or_insert_with(|| Pending::at(now));
        // Who waits for his turn waits for that of this version: its pauses begin anew.
        (pending.is_news, pending.retries, pending.passes_at) = (true, 0, Ms::MIN);
        if pending.at.is_some() {
            self.schedule(pair, 0, now);
        }
    }

    /// The same, and another version is to follow soon: it is told at that time, or with that one before.
    pub fn on_passing(&mut self, at: Ms, zone: ZoneId, target: TargetId) {
        let pair = (zone, target);
        let pending = self.pending.entry(pair).or_insert_with(|| Pending::at(at));
        // What waits already is told no later for that.
        if std::mem::replace(&mut pending.is_news, true) {
            return;
        }
        pending.passes_at = at;
        if pending.at.is_some() {
            self.schedule(pair, 0, at);
        }
    }

    /// Nobody knows whether it was told of the version that is served. It is told at that time, or with the next version before.
    pub fn on_unknown(&mut self, at: Ms, zone: ZoneId, target: TargetId) {
        let pair = (zone, target);
        if let Entry::Vacant(place) = self.pending.entry(pair) {
            place.insert(Pending { is_news: true, ..Pending::at(at) });
            self.deadlines.insert((at, pair));
        }
    }

    /// It answered when it was told of the last version, and of no other since.
    pub fn is_told(&self, zone: ZoneId, target: TargetId) -> bool {
        self.pending.get(&(zone, target)).is_none_or(|pending| !pending.is_news && pending.at.is_some())
    }

    fn schedule(&mut self, pair: Pair, retries: u32, at: Ms) {
        let Some(pending) = self.pending.get_mut(&pair) else { return };
        let at = at.max(pending.rests_until).max(pending.passes_at);
        pending.at.iter().for_each(|at| _ = self.deadlines.remove(&(*at, pair)));
        (pending.retries, pending.at) = (retries, Some(at));
        self.deadlines.insert((at, pair));
    }

    /// Nobody else is told any more, and of no other zone.
    pub fn keep(&mut self, is_target: impl Fn(TargetId) -> bool, is_told: impl Fn(ZoneId, TargetId) -> bool) {
        self.pending.retain(|(zone, target), _| is_told(*zone, *target));
        self.deadlines.retain(|(_, (zone, target))| is_told(*zone, *target));
        self.lines.keep(is_target);
    }

    pub fn next_deadline(&self) -> Option<Ms> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Whom to tell of what now; to be asked until there is nothing. `on_told` hears what came of it.
    pub fn next_action(&mut self, now: Ms) -> Option<Pair> {
        while let Some(&(at, pair)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, pair));
            let Some(pending) = self.pending.get_mut(&pair) else { continue };
            pending.at = None;
            match (pending.is_news, self.lines.may_try(now, pair.1)) {
                (false, _) => _ = self.pending.remove(&pair),
                (true, true) => self.lines.join(pair.1, pair.0),
                (true, false) => self.fail(now, pair),
            }
        }
        while let Some((target, zone)) = self.lines.next() {
            if let Some(pending) = self.pending.get_mut(&(zone, target)).filter(|pending| pending.at.is_none()) {
                (pending.is_news, pending.rests_until, pending.passes_at) = (false, now + EVERY_MS, Ms::MIN);
                return Some((zone, target));
            }
            self.lines.end(now, target, None);
        }
        None
    }

    pub fn on_told(&mut self, now: Ms, (zone, target): Pair, told: Told) {
        for zone in self.lines.end(now, target, Some(told == Told::Silent)) {
            self.fail(now, (zone, target));
        }
        let pair = (zone, target);
        match (told, self.pending.get_mut(&pair)) {
            (_, None) => {}
            // Whoever has rested already is forgotten at once.
            (Told::Answered, Some(_)) => self.schedule(pair, 0, now),
            (Told::Silent | Told::Refused, Some(pending)) if pending.is_news => self.schedule(pair, 0, now),
            (Told::Silent | Told::Refused, Some(_)) => self.fail(now, pair),
        }
    }

    fn fail(&mut self, now: Ms, pair: Pair) {
        let Some(pending) = self.pending.get_mut(&pair) else { return };
        pending.is_news = true;
        if pending.retries == RETRIES_MAX {
            self.pending.remove(&pair);
            self.given_up.push_back(pair);
        } else {
            let retries = pending.retries;
            self.schedule(pair, retries + 1, now + (RETRY_MS << retries));
        }
    }

    /// Who was not told in the end; to be asked until there is none.
    pub fn next_given_up(&mut self) -> Option<Pair> {
        self.given_up.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Z: ZoneId = ZoneId(1);

    fn actions(announcer: &mut Announcer, now: Ms) -> Vec<Pair> {
        std::iter::from_fn(|| announcer.next_action(now)).collect()
    }

    #[test]
    fn each_is_told_once_and_again_of_what_came_meanwhile() {
        let mut a = Announcer::default();
        (0..3).for_each(|_| a.on_changed(0, Z, 7));
        a.on_changed(0, Z, 8);
        assert_eq!(actions(&mut a, 0), [(Z, 7), (Z, 8)]);
        (0..1000).for_each(|_| a.on_changed(5, Z, 7));
        assert_eq!(actions(&mut a, 5), []);
        a.on_told(10, (Z, 8), Told::Answered);
        a.on_told(10, (Z, 7), Told::Answered);
        assert_eq!(a.next_deadline(), Some(1000));
        assert_eq!(actions(&mut a, 1000), [(Z, 7)]);
        a.on_told(1020, (Z, 7), Told::Answered);
        assert_eq!((actions(&mut a, 2000), a.next_deadline(), a.pending.len()), (vec![], None, 0));
    }

    #[test]
    fn a_zone_that_changes_all_the_time_is_told_of_once_a_second() {
        for told in [Told::Answered, Told::Refused] {
            let (mut a, mut times) = (Announcer::default(), vec![]);
            for now in 0..5_000 {
                a.on_changed(now, Z, 7);
                for pair in actions(&mut a, now) {
                    times.push(now);
                    a.on_told(now, pair, told);
                }
            }
            assert_eq!(times, [0, 1000, 2000, 3000, 4000], "{told:?}");
        }
    }

    #[test]
    fn who_does_not_answer_is_told_five_times_more() {
        for told in [Told::Silent, Told::Refused] {
            let (mut a, mut now, mut times) = (Announcer::default(), 0, vec![]);
            a.on_changed(0, Z, 7);
            loop {
                assert_eq!(actions(&mut a, now), [(Z, 7)]);
                times.push(now / 1000);
                a.on_told(now, (Z, 7), told);
                let Some(at) = a.next_deadline() else { break };
                now = at;
            }
            assert_eq!(times, [0, 15, 45, 105, 225, 465], "{told:?}");
            assert_eq!((a.next_given_up(), a.next_given_up()), (Some((Z, 7)), None));
        }
    }

    #[test]
    fn a_new_version_is_told_of_however_often_the_one_before_was_in_vain() {
        let (mut a, mut now, x) = (Announcer::default(), 0, (ZoneId(0), 7));
        a.on_changed(0, x.0, 7);
        a.on_changed(0, Z, 7);
        for told in [2, 1, 1, 1, 1] {
            assert_eq!(actions(&mut a, now).len(), told, "one tries it for all");
            if told == 2 {
                a.on_told(now, (Z, 7), Told::Silent);
            }
            a.on_told(now, x, Told::Silent);
            now = a.next_deadline().unwrap();
        }
        assert_eq!(actions(&mut a, now), [x], "the last time");
        a.on_changed(now, Z, 7);
        a.on_told(now, x, Told::Silent);
        assert_eq!((a.next_given_up(), a.next_given_up()), (Some(x), None));
        assert!(a.next_deadline().is_some(), "the other goes on");
    }

    #[test]
    fn a_silent_server_does_not_keep_others_waiting() {
        let mut a = Announcer::default();
        (0..1000).for_each(|zone| a.on_changed(0, ZoneId(zone), 7));
        assert_eq!(actions(&mut a, 0).len(), AT_ONCE_MAX.0);
        a.on_changed(1, Z, 8);
        assert_eq!(actions(&mut a, 1), [(Z, 8)]);
        (0..AT_ONCE_MAX.0 as u64).for_each(|zone| a.on_told(6000, (ZoneId(zone), 7), Told::Silent));
        assert_eq!(actions(&mut a, 6000), [], "it is left alone");
        assert_eq!(actions(&mut a, 21_000).len(), 1, "and tried by one");
        a.keep(|target| target == 7, |zone, target| target == 7 && zone.0 < 100);
        a.on_told(21_000, (Z, 8), Told::Silent);
        assert!(
            a.pending.len() == 100 && a.pending.keys().all(|pair| pair.1 == 7),
            "who is not to be told is forgotten"
        );
        assert_eq!(actions(&mut a, 21_000), [], "and what is known of the others is not");
    }

    #[test]
    fn who_is_told_after_a_start_is_told_of_a_change_before_at_once() {
        let mut a = Announcer::default();
        (0..3).for_each(|zone| a.on_unknown(100 * zone, ZoneId(zone as u64), 7));
        assert_eq!(actions(&mut a, 0), [(ZoneId(0), 7)]);
        a.on_changed(50, ZoneId(2), 7);
        a.on_unknown(900, ZoneId(2), 7);
        assert_eq!(actions(&mut a, 50), [(ZoneId(2), 7)]);
        assert!(!a.is_told(ZoneId(2), 7), "it is under way");
        a.on_told(60, (ZoneId(2), 7), Told::Answered);
        assert!(a.is_told(ZoneId(2), 7) && !a.is_told(ZoneId(1), 7));
        a.on_changed(70, ZoneId(2), 7);
        assert!(!a.is_told(ZoneId(2), 7));
        assert_eq!(actions(&mut a, 100), [(ZoneId(1), 7)]);
        a.on_told(200, (ZoneId(1), 7), Told::Silent);
        assert!(!a.is_told(ZoneId(1), 7), "it is told again");
    }

    #[test]
    fn what_passes_is_told_of_with_what_follows_or_when_nothing_does() {
        let mut a = Announcer::default();
        a.on_passing(60_000, Z, 7);
        a.on_passing(60_300, Z, 7);
        assert!(actions(&mut a, 59_999).is_empty() && !a.is_told(Z, 7));
        assert_eq!(actions(&mut a, 60_000), [(Z, 7)], "nothing followed");
        a.on_told(60_010, (Z, 7), Told::Answered);
        // Just behind what was told.
        a.on_passing(120_000, Z, 7);
        assert_eq!(actions(&mut a, 62_000), []);
        a.on_changed(62_000, Z, 7);
        a.on_passing(122_000, Z, 7);
        assert_eq!(actions(&mut a, 62_000), [(Z, 7)], "it has followed");
        a.on_passing(123_000, Z, 7);
        a.on_told(62_500, (Z, 7), Told::Answered);
        assert!(!a.is_told(Z, 7));
        assert_eq!(actions(&mut a, 122_999), [], "what came meanwhile passes, too");
        assert_eq!(actions(&mut a, 123_000), [(Z, 7)]);
    }
}
