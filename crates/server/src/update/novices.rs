//! Zones that are to take updates and do not yet: each waits until it is served from the file that it is to be read from, as a
//! configuration asked for it that has been carried out. Before that, what is served may be what another file says.
//!
//! ```text
//! its configured file is served -> written down as ours, once -> ours is served -> it takes updates
//! ```
//! Kept in the books of the press; nobody waits for the publisher to read them.

use crate::config::{History, Written, Zone};
use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::path::PathBuf;
use transfer::allow::Rules;

type Apex = Box<[u8]>;

/// What a configuration says of the updates of a zone.
#[derive(Clone)]
pub struct Wish {
    pub rules: Rules,
    /// What the zone is to be read from.
    pub file: PathBuf,
    /// That is our own file, which is there.
    pub is_ours: bool,
}

/// What a configuration says of updates otherwise than the one before it: where there are 20,000 zones, and one of them changes, no update waits for
/// the others.
pub struct Wanted {
    pub changes: HashMap<Apex, Change>,
    /// None: as it is.
    pub history: Option<History>,
    /// Which configuration it is: later ones have higher numbers.
    number: u64,
}

/// What is said otherwise of a zone.
pub struct Change {
    /// None: it takes no updates.
    pub wish: Option<Wish>,
    /// A configuration in between, which nobody has looked at, wanted none for it, or had it read from another file.
    pub was_other: bool,
}

impl Change {
    fn to(wish: Option<Wish>) -> Change {
        Change { wish, was_other: false }
    }

    fn is_file_of(&self, other: &Change) -> bool {
        self.wish.as_ref().zip(other.wish.as_ref()).is_some_and(|(wish, other)| wish.file == other.file)
    }
}

impl Wanted {
    pub fn new(before: &Written, now: &Written, history: Option<History>, number: u64) -> Wanted {
        Wanted { changes: changes(before, now).collect(), history, number }
    }

    /// `unseen`: what was wanted before, and nobody has looked at.
    pub fn behind(mut self, unseen: Option<Wanted>) -> Wanted {
        for (apex, earlier) in unseen.into_iter().flat_map(|unseen| unseen.changes) {
            match self.changes.entry(apex) {
                Vacant(same) => _ = same.insert(earlier),
                Occupied(mut later) => {
                    let was_other = earlier.was_other || !earlier.is_file_of(later.get());
                    later.get_mut().was_other = was_other;
                }
            }
        }
        self
    }
}

/// Of zones that are not written down yet it is said each time: they may be by now, or not be any more.
fn changes(before: &Written, now: &Written) -> impl Iterator<Item = (Apex, Change)> {
    let owned = |written: &Written, apex: &[u8]| written.find(apex).is_some_and(Zone::is_owned);
    let is_said = |zone: &Zone| {
        let said = before.find(&zone.apex).filter(|before| before.is_journaled() && zone.is_journaled());
        said.is_some_and(|before| (&before.file, &before.allow_update) == (&zone.file, &zone.allow_update))
    };
    let wish = |zone: &Zone| Wish {
        rules: zone.allow_update.clone(),
        file: zone.file.clone(),
        is_ours: zone.origin.is_some(),
    };
    let said = now.iter().filter(move |zone| zone.is_owned() && !is_said(zone));
    let gone = before.iter().filter(move |zone| zone.is_owned() && !owned(now, &zone.apex));
    said.map(move |zone| (zone.apex.clone(), Change::to(Some(wish(zone)))))
        .chain(gone.map(|zone| (zone.apex.clone(), Change::to(None))))
}

struct Waiting {
    wish: Wish,
    /// The first configuration of those without a break that ask for that file.
    since: u64,
    is_served: bool,
    /// It could not be served, or written down, when that was tried last.
    is_stuck: bool,
}

/// A zone that waits, for who knows what is served.
pub struct Asked {
    pub apex: Apex,
    pub file: PathBuf,
    /// It is one of ours, which updates have written.
    pub is_ours: bool,
    pub since: u64,
}

/// Bound: the zones that are configured to take updates.
#[derive(Default)]
pub struct Novices {
    zones: HashMap<Apex, Waiting>,
    /// Some are served that nobody has taken or has had written since.
    are_due: bool,
}

impl Novices {
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// From now on these wait, or do not any more.
    pub fn follow(&mut self, wanted: Wanted) {
        let number = wanted.number;
        for (apex, Change { wish, was_other }) in wanted.changes {
            let known = self.zones.remove(&apex);
            let Some(wish) = wish else { continue };
            let known = known.filter(|known| known.wish.file == wish.file && !was_other);
            let (since, is_served) = known.as_ref().map_or((number, false), |known| (known.since, known.is_served));
            let is_stuck = known.is_some_and(|known| known.is_stuck);
            self.zones.insert(apex, Waiting { wish, since, is_served, is_stuck });
        }
    }

    /// The configuration of this number has been carried out. Which zones wait for that.
    pub fn ask(&self, number: u64) -> Vec<Asked> {
        let asked = self.zones.iter().filter(|(_, waiting)| waiting.since <= number && !waiting.is_served);
        let ask = |(apex, Waiting { wish, since, .. }): (&Apex, &Waiting)| Asked {
            apex: apex.clone(),
            file: wish.file.clone(),
            is_ours: wish.is_ours,
            since: *since,
        };
        asked.map(ask).collect()
    }

    /// Of those who were asked for these are served from their files now, and these cannot be.
    pub fn let_on(&mut self, served: &[Asked], unfit: &[Asked]) {
        for (asked, is_served) in
            served.iter().map(|asked| (asked, true)).chain(unfit.iter().map(|asked| (asked, false)))
        {
            let waiting = self.zones.get_mut(&asked.apex);
            if let Some(waiting) = waiting.filter(|w| w.wish.file == asked.file && w.since == asked.since) {
                (waiting.is_served, waiting.is_stuck) = (is_served, !is_served);
                self.are_due |= is_served;
            }
        }
    }

    /// Whether there is a reason to go through them.
    pub fn are_due(&self) -> bool {
        self.are_due
    }

    pub fn set_due(&mut self, are_due: bool) {
        self.are_due = are_due;
    }

    /// Those that are served, and whether that is from our own files.
    pub fn served(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let served = self.zones.iter().filter(|(_, waiting)| waiting.is_served);
        served.map(|(apex, waiting)| (&**apex, waiting.wish.is_ours))
    }

    pub fn is_served(&self, apex: &[u8]) -> bool {
        self.zones.get(apex).is_some_and(|waiting| waiting.is_served)
    }

    /// True if it takes no updates until something else is done.
    pub fn is_stuck(&self, apex: &[u8]) -> bool {
        self.zones.get(apex).is_some_and(|waiting| waiting.is_stuck)
    }

    /// It is not served any more.
    pub fn hold_back(&mut self, apex: &[u8]) {
        if let Some(waiting) = self.zones.get_mut(apex) {
            (waiting.is_served, waiting.is_stuck) = (false, true);
        }
    }

    /// True if some will take updates soon, as far as anybody knows.
    pub fn are_under_way(&self) -> bool {
        self.zones.values().any(|waiting| !waiting.is_stuck)
    }

    /// The same of this one.
    pub fn is_under_way(&self, apex: &[u8]) -> bool {
        self.zones.get(apex).is_some_and(|waiting| !waiting.is_stuck)
    }

    /// It has been written down: that is what it is to be read from.
    pub fn move_to(&mut self, apex: &[u8], file: PathBuf) {
        if let Some(waiting) = self.zones.get_mut(apex) {
            (waiting.wish.file, waiting.wish.is_ours, waiting.is_served) = (file, true, false);
        }
    }

    pub fn has(&self, apex: &[u8]) -> bool {
        self.zones.contains_key(apex)
    }

    pub fn rules(&self, apex: &[u8]) -> Option<&Rules> {
        self.zones.get(apex).map(|waiting| &waiting.wish.rules)
    }

    /// It waits no longer.
    pub fn take(&mut self, apex: &[u8]) {
        self.zones.remove(apex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const Z: &[u8] = b"\x01z\0";

    /// A zone that is read from this file, `d` is ours; none: it takes no updates.
    fn zones(file: &str) -> Written {
        let mut zone = Zone::new(Z.into(), file.into());
        zone.allow_update = if file.is_empty() { Rules::default() } else { Rules(vec![rule()]) };
        zone.origin = (file == "d").then(|| "f".into());
        Written::new(vec![zone])
    }

    fn rule() -> transfer::allow::Rule {
        transfer::allow::Rule::from_text("key:ddns").ok().unwrap()
    }

    /// Configurations with these files, of which nobody has looked at all but the last.
    fn wanted(files: &[&str], number: u64) -> Wanted {
        let mut unseen = None;
        for (step, n) in files.windows(2).zip(number..) {
            unseen = Some(Wanted::new(&zones(step[0]), &zones(step[1]), None, n).behind(unseen));
        }
        unseen.unwrap()
    }

    /// What a job finds that serves the zone from this file.
    fn ends(novices: &mut Novices, number: u64, file: &str) {
        let mut asked = novices.ask(number);
        asked.retain(|asked| asked.file == Path::new(file));
        novices.let_on(&asked, &[]);
    }

    /// Or each reload would wait for it in vain.
    #[test]
    fn a_zone_that_cannot_be_served_is_not_under_way_until_it_is() {
        let mut novices = Novices::default();
        novices.follow(wanted(&["", "f"], 1));
        assert!(novices.are_under_way());
        novices.let_on(&[], &novices.ask(1));
        assert!(!novices.are_under_way() && !novices.is_served(Z) && !novices.are_due());
        // It is asked for all the same.
        ends(&mut novices, 2, "f");
        assert!(novices.are_under_way() && novices.is_served(Z));
    }

    #[test]
    fn a_zone_is_let_on_by_a_job_that_began_after_it_was_wanted_and_serves_its_file() {
        let mut novices = Novices::default();
        novices.follow(wanted(&["", "d"], 3));
        ends(&mut novices, 2, "d");
        assert!(!novices.is_served(Z), "one that is to go and come back, too, may be served from it before");
        ends(&mut novices, 3, "f");
        assert!(!novices.is_served(Z));
        // Configurations that say the same go on meanwhile.
        novices.follow(wanted(&["d", "d"], 5));
        ends(&mut novices, 4, "d");
        assert!(novices.is_served(Z));
        novices.follow(wanted(&["d", "d"], 6));
        assert!(novices.is_served(Z));
        novices.follow(wanted(&["d", "e"], 7));
        assert!(!novices.is_served(Z) && novices.has(Z));
        // What was asked before is no answer now.
        let asked = novices.ask(7);
        novices.follow(wanted(&["e", "f"], 8));
        novices.follow(wanted(&["f", "e"], 9));
        novices.let_on(&asked, &[]);
        assert!(!novices.is_served(Z));
    }

    #[test]
    fn what_was_wanted_in_between_counts() {
        let mut novices = Novices::default();
        novices.follow(wanted(&["", "d"], 1));
        ends(&mut novices, 1, "d");
        novices.follow(wanted(&["d", "", "d"], 2));
        ends(&mut novices, 2, "d");
        assert!(!novices.is_served(Z));
        for (files, was_other) in [
            (&["d", "", "d"][..], Some(true)),
            (&["d", "e", "d"], Some(true)),
            (&["e", "d", "d"], Some(false)),
            (&["e", "e", "e"], Some(false)),
            (&["d", "d", "d"], None),
            (&["", "d", "e", "e"], Some(true)),
            (&["", "", "d"], Some(false)),
            (&["d", "e", ""], Some(true)),
        ] {
            let found = wanted(files, 1).changes.remove(Z).map(|change| change.was_other);
            assert_eq!(found, was_other, "{files:?}");
        }
    }

    /// Its twin goes through all that the configurations say.
    #[test]
    fn who_is_told_what_has_changed_knows_what_all_say() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let said = |zone: u8, files: &[u64]| {
            let mut zone =
                Zone::new([1, b'a' + zone, 0].into(), ["d", "e", "f", ""][files[usize::from(zone)] as usize].into());
            zone.allow_update = if zone.file.as_os_str().is_empty() { Rules::default() } else { Rules(vec![rule()]) };
            zone.origin = (zone.file == Path::new("d")).then(|| "f".into());
            zone
        };
        let written = |files: &[u64]| Written::new((0..3).map(|zone| said(zone, files)).collect());
        let (mut novices, mut twin) = (Novices::default(), HashMap::<Apex, (PathBuf, u64)>::new());
        let (mut before, mut unseen, mut since_look) = (written(&[3; 3]), None, vec![]);
        for number in 1..2000 {
            let files: Vec<u64> = (0..3).map(|_| draw(4)).collect();
            let now = if draw(3) == 0 { before.clone() } else { written(&files) };
            unseen = Some(Wanted::new(&before, &now, None, number).behind(unseen));
            since_look.push(now.clone());
            before = now;
            if draw(2) == 0 {
                continue;
            }
            novices.follow(unseen.take().unwrap());
            let wanted = before.iter().filter(|zone| zone.is_owned()).map(|zone| {
                let always =
                    |file: &PathBuf| since_look.iter().all(|said| said.find(&zone.apex).unwrap().file == *file);
                let known = twin.get(&zone.apex).filter(|(file, _)| always(file));
                (zone.apex.clone(), known.cloned().unwrap_or((zone.file.clone(), number)))
            });
            twin = wanted.collect();
            since_look.clear();
            let found = novices.zones.iter().map(|(apex, w)| (apex.clone(), (w.wish.file.clone(), w.since)));
            assert_eq!(found.collect::<HashMap<_, _>>(), twin, "{number}");
        }
    }

    #[test]
    fn what_was_written_down_is_served_before_updates_come() {
        let mut novices = Novices::default();
        novices.follow(wanted(&["", "f"], 1));
        ends(&mut novices, 1, "f");
        assert!(novices.are_due());
        assert_eq!(novices.served().collect::<Vec<_>>(), [(Z, false)]);
        novices.move_to(Z, "d".into());
        ends(&mut novices, 2, "f");
        assert!(!novices.is_served(Z), "another job that knows nothing of it");
        novices.follow(wanted(&["f", "d"], 3));
        ends(&mut novices, 3, "d");
        assert_eq!(novices.served().collect::<Vec<_>>(), [(Z, true)]);
        novices.take(Z);
        assert!(novices.is_empty());
    }
}
