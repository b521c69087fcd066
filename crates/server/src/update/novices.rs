//! Zones that are to take updates and do not yet: each waits until it is served from the file that it is to be read from, as a
//! configuration asked for it that has been carried out. Before that, what is served may be what another file says.
//!
//! ```text
//! its configured file is served -> written down as ours, once -> ours is served -> it takes updates
//! ```
//! Kept in the books of the press; nobody waits for the publisher to read them.

use crate::config::History;
use std::collections::{HashMap, HashSet};
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

/// What a configuration says of updates.
pub struct Wanted {
    pub zones: HashMap<Apex, Wish>,
    /// None: as it is.
    pub history: Option<History>,
    /// Which configuration it is: later ones have higher numbers.
    number: u64,
    /// Of configurations that came before it, and were not looked at, all wanted these as it does. None: there were none.
    always: Option<HashSet<Apex>>,
}

impl Wanted {
    /// `unseen`: what was wanted before, and nobody has looked at.
    pub fn new(zones: HashMap<Apex, Wish>, number: u64, unseen: Option<Wanted>) -> Wanted {
        let is_same = |apex: &Apex, wish: &Wish| zones.get(apex).is_some_and(|now| now.file == wish.file);
        let always = unseen.map(|unseen| {
            let still = unseen.zones.iter().filter(|(apex, wish)| unseen.was_always(apex) && is_same(apex, wish));
            still.map(|(apex, _)| apex.clone()).collect()
        });
        Wanted { zones, history: None, number, always }
    }

    pub fn was_always(&self, apex: &[u8]) -> bool {
        self.always.as_ref().is_none_or(|always| always.contains(apex))
    }
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

    /// These are all that wait.
    pub fn follow(&mut self, wanted: Wanted) {
        let Wanted { zones, number, always, .. } = wanted;
        let was_always = |apex: &Apex| always.as_ref().is_none_or(|always| always.contains(apex));
        let mut before = std::mem::take(&mut self.zones);
        let waiting = zones.into_iter().map(|(apex, wish)| {
            let known = before.remove(&apex).filter(|known| known.wish.file == wish.file && was_always(&apex));
            let (since, is_served) = known.as_ref().map_or((number, false), |known| (known.since, known.is_served));
            let is_stuck = known.is_some_and(|known| known.is_stuck);
            (apex, Waiting { wish, since, is_served, is_stuck })
        });
        self.zones = waiting.collect();
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

    /// These of those who were asked for are served from their files now.
    pub fn let_on(&mut self, served: &[Asked]) {
        for Asked { apex, file, since, .. } in served {
            if let Some(waiting) = self.zones.get_mut(apex).filter(|w| w.wish.file == *file && w.since == *since) {
                (waiting.is_served, waiting.is_stuck, self.are_due) = (true, false, true);
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

    fn zones(file: &str) -> HashMap<Apex, Wish> {
        HashMap::from([(Z.into(), Wish { rules: Rules::default(), file: file.into(), is_ours: file == "d" })])
    }

    /// What a job finds that serves the zone from this file.
    fn ends(novices: &mut Novices, number: u64, file: &str) {
        let mut asked = novices.ask(number);
        asked.retain(|asked| asked.file == Path::new(file));
        novices.let_on(&asked);
    }

    #[test]
    fn a_zone_is_let_on_by_a_job_that_began_after_it_was_wanted_and_serves_its_file() {
        let mut novices = Novices::default();
        novices.follow(Wanted::new(zones("d"), 3, None));
        ends(&mut novices, 2, "d");
        assert!(!novices.is_served(Z), "one that is to go and come back, too, may be served from it before");
        ends(&mut novices, 3, "f");
        assert!(!novices.is_served(Z));
        // Configurations that say the same go on meanwhile.
        novices.follow(Wanted::new(zones("d"), 5, None));
        ends(&mut novices, 4, "d");
        assert!(novices.is_served(Z));
        novices.follow(Wanted::new(zones("d"), 6, None));
        assert!(novices.is_served(Z));
        novices.follow(Wanted::new(zones("e"), 7, None));
        assert!(!novices.is_served(Z) && novices.has(Z));
        // What was asked before is no answer now.
        let asked = novices.ask(7);
        novices.follow(Wanted::new(zones("f"), 8, None));
        novices.follow(Wanted::new(zones("e"), 9, None));
        novices.let_on(&asked);
        assert!(!novices.is_served(Z));
    }

    #[test]
    fn what_was_wanted_in_between_counts() {
        let mut novices = Novices::default();
        novices.follow(Wanted::new(zones("d"), 1, None));
        ends(&mut novices, 1, "d");
        let off = Wanted::new(HashMap::new(), 2, None);
        let on = Wanted::new(zones("d"), 3, Some(off));
        assert!(!on.was_always(Z));
        novices.follow(on);
        ends(&mut novices, 2, "d");
        assert!(!novices.is_served(Z));
        let more = Wanted::new(zones("d"), 5, Some(Wanted::new(zones("d"), 4, None)));
        assert!(more.was_always(Z));
        assert!(!Wanted::new(zones("d"), 6, Some(Wanted::new(zones("e"), 5, None))).was_always(Z));
    }

    #[test]
    fn what_was_written_down_is_served_before_updates_come() {
        let mut novices = Novices::default();
        novices.follow(Wanted::new(zones("f"), 1, None));
        ends(&mut novices, 1, "f");
        assert!(novices.are_due());
        assert_eq!(novices.served().collect::<Vec<_>>(), [(Z, false)]);
        novices.move_to(Z, "d".into());
        ends(&mut novices, 2, "f");
        assert!(!novices.is_served(Z), "another job that knows nothing of it");
        novices.follow(Wanted::new(zones("d"), 3, None));
        ends(&mut novices, 3, "d");
        assert_eq!(novices.served().collect::<Vec<_>>(), [(Z, true)]);
        novices.take(Z);
        assert!(novices.is_empty());
    }
}
