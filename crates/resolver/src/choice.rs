//! Which of a zone's servers is asked next: the one tried least for this question, then the one that answers soonest.
//!
//! Servers are known here by their place in the list of their forward; `numbers` says which of all servers each is.

use crate::chance::Chance;
use crate::server::Server;
use crate::task::Tried;

/// Every so many questions another server than the best one is asked, to learn whether it still is.
const EXPLORE_EVERY: u32 = 16;

/// The servers of a forward, and what was tried with each.
pub struct Choice<'a> {
    pub now_ns: u64,
    pub servers: &'a [Server],
    pub numbers: &'a [usize],
    pub tried: &'a [Tried],
}

impl Choice<'_> {
    fn server(&self, place: usize) -> Option<&Server> {
        self.servers.get(*self.numbers.get(place)?)
    }

    /// Places that are worth asking, of servers that are silent or of those that are not.
    fn open(&self, silent: bool) -> impl Iterator<Item = usize> {
        let is_open = |place: &usize| self.tried.get(*place).is_some_and(|t| !t.refused);
        let is_silent = move |place: &usize| self.server(*place).is_none_or(|server| server.is_silent(self.now_ns));
        (0..self.numbers.len()).filter(is_open).filter(move |place| is_silent(place) == silent)
    }

    /// Servers that have not been heard for a while.
    pub fn mute(&self) -> impl Iterator<Item = usize> {
        self.open(true)
    }

    pub fn best(&self, chance: &mut Chance) -> Option<usize> {
        let sends = |place: usize| self.tried.get(place).map_or(0, |t| t.sends);
        let least = self.open(false).map(sends).min()?;
        let fresh = || self.open(false).filter(|&place| sends(place) == least);
        if self.open(false).nth(1).is_some() && chance.below(EXPLORE_EVERY) == 0 {
            return fresh().nth(chance.below(fresh().count() as u32) as usize);
        }
        fresh().min_by_key(|&place| self.server(place).map_or(u64::MAX, Server::price_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_least_tried_then_the_fastest_and_never_who_refused() {
        let mut servers: Vec<Server> =
            (1..=4).map(|i| Server::new(format!("192.0.2.{i}:53").parse().unwrap())).collect();
        [9, 5, 7, 1].into_iter().zip(&mut servers).for_each(|(ms, s)| s.on_heard(ms * MS, true));
        (0..9).for_each(|_| servers[3].on_unanswered(0));
        let numbers = [0, 1, 2, 3];
        let once = Tried { sends: 1, ..Tried::default() };
        let no = Tried { refused: true, ..Tried::default() };
        let not = Tried::default();
        for (tried, expect) in [
            ([not; 4], Some(1)),
            ([not, once, not, not], Some(2)),
            ([once, once, once, not], Some(1)),
            ([not, no, no, not], Some(0)),
            ([no, no, no, not], None),
        ] {
            let choice = Choice { now_ns: 5_000 * MS, servers: &servers, numbers: &numbers, tried: &tried };
            assert_eq!(choice.mute().collect::<Vec<_>>(), [3]);
            let mut chance = Chance::new([1; 32]);
            let picks: Vec<_> = (0..200).map(|_| choice.best(&mut chance)).collect();
            assert!(picks.iter().filter(|&&p| p == expect).count() >= 170, "{expect:?}");
        }
    }
}
