//! Zones that are to take updates and do not yet: each waits until it is served from the file that it is to be read from, as a
//! configuration asked for it that has been carried out. Before that, what is served may be what another file says.
//!
//! ```text
//! its configured file is served -> written down as ours, once -> ours is served -> it takes updates
//! ```
//! Kept in the books of the press; nobody waits for the publisher to read them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use transfer::allow::Rules;

type Apex = Box<[u8]>;

/// What a configuration says of the updates of a zone.
#[derive(Clone)]
pub struct Wish {
    pub rules: Rules,
    /// What the zone is to be read from.
    pub file: PathBuf,
}

/// What a configuration says of updates.
pub struct Wanted {
    pub zones: HashMap<Apex, Wish>,
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
        Wanted { zones, number, always }
    }

    pub fn was_always(&self, apex: &[u8]) -> bool {
        self.always.as_ref().is_none_or(|always| always.contains(apex))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub file: PathBuf,
    /// The first configuration of those without a break that ask for it.
    pub since: u64,
}

/// Bound: the zones that are configured to take updates.
#[derive(Default)]
pub struct Novices {
    zones: HashMap<Apex, Waiting>,
    /// Those of them that are served from there.
    served: HashSet<Apex>,
    /// The last configuration that was carried out.
    done: u64,
}

impl Novices {
    /// These are all that wait. True: what was wanted has been carried out already, and nobody will say what is served.
    pub fn follow(&mut self, wanted: &Wanted) -> bool {
        let mut before = std::mem::take(&mut self.zones);
        let waiting = wanted.zones.iter().map(|(apex, wish)| {
            let known = before.remove(apex).filter(|w| w.file == wish.file && wanted.was_always(apex));
            let new = || Waiting { file: wish.file.clone(), since: wanted.number };
            (apex.clone(), known.unwrap_or_else(new))
        });
        self.zones = waiting.collect();
        self.served.retain(|apex| self.zones.get(apex).is_some_and(|waiting| waiting.since < wanted.number));
        self.done >= wanted.number && self.served.len() < self.zones.len()
    }

    /// The configuration of this number has been carried out. Which zones wait for that.
    pub fn ask(&mut self, number: u64) -> Vec<(Apex, Waiting)> {
        self.done = self.done.max(number);
        let asked = self.zones.iter().filter(|(_, waiting)| waiting.since <= number);
        asked.map(|(apex, waiting)| (apex.clone(), waiting.clone())).collect()
    }

    /// These of those who were asked for are served from their files now.
    pub fn let_on(&mut self, served: Vec<(Apex, Waiting)>) {
        for (apex, waiting) in served {
            if self.zones.get(&apex) == Some(&waiting) {
                self.served.insert(apex);
            }
        }
    }

    pub fn served(&self) -> impl Iterator<Item = (&[u8], &Path)> {
        self.served.iter().filter_map(|apex| Some((&**apex, &*self.zones.get(apex)?.file)))
    }

    pub fn is_served(&self, apex: &[u8]) -> bool {
        self.served.contains(apex)
    }

    /// It is to be served from another file first.
    pub fn holds_back(&mut self, apex: &[u8]) {
        self.served.remove(apex);
    }

    pub fn has(&self, apex: &[u8]) -> bool {
        self.zones.contains_key(apex)
    }

    pub fn remove(&mut self, apex: &[u8]) {
        self.zones.remove(apex);
        self.served.remove(apex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Z: &[u8] = b"\x01z\0";

    fn zones(file: &str) -> HashMap<Apex, Wish> {
        HashMap::from([(Z.into(), Wish { rules: Rules::default(), file: file.into() })])
    }

    /// What a job finds that serves the zone from this file.
    fn ends(novices: &mut Novices, number: u64, file: &str) {
        let mut asked = novices.ask(number);
        asked.retain(|(_, waiting)| waiting.file == Path::new(file));
        novices.let_on(asked);
    }

    #[test]
    fn a_zone_is_let_on_by_a_job_that_began_after_it_was_wanted_and_serves_its_file() {
        let mut novices = Novices::default();
        assert!(!novices.follow(&Wanted::new(zones("d"), 3, None)));
        ends(&mut novices, 2, "d");
        assert!(!novices.is_served(Z), "one that is to go and come back, too, may be served from it before");
        ends(&mut novices, 3, "f");
        assert!(!novices.is_served(Z));
        // Configurations that say the same go on meanwhile.
        novices.follow(&Wanted::new(zones("d"), 5, None));
        ends(&mut novices, 4, "d");
        assert!(novices.is_served(Z));
        novices.follow(&Wanted::new(zones("d"), 6, None));
        assert!(novices.is_served(Z));
        novices.follow(&Wanted::new(zones("e"), 7, None));
        assert!(!novices.is_served(Z) && novices.has(Z));
    }

    #[test]
    fn what_was_wanted_in_between_counts() {
        let mut novices = Novices::default();
        novices.follow(&Wanted::new(zones("d"), 1, None));
        ends(&mut novices, 1, "d");
        let off = Wanted::new(HashMap::new(), 2, None);
        let on = Wanted::new(zones("d"), 3, Some(off));
        assert!(!on.was_always(Z));
        novices.follow(&on);
        ends(&mut novices, 2, "d");
        assert!(!novices.is_served(Z));
        let more = Wanted::new(zones("d"), 5, Some(Wanted::new(zones("d"), 4, None)));
        assert!(more.was_always(Z));
        assert!(!Wanted::new(zones("d"), 6, Some(Wanted::new(zones("e"), 5, None))).was_always(Z));
    }

    #[test]
    fn who_comes_after_his_job_has_ended_is_told_so() {
        let mut novices = Novices::default();
        ends(&mut novices, 4, "d");
        assert!(novices.follow(&Wanted::new(zones("d"), 4, None)));
        assert!(!novices.follow(&Wanted::new(zones("d"), 5, None)));
    }
}
