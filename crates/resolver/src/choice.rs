//! Which of a zone's servers is asked next: the one tried least for this question, then the one that answers soonest.
//!
//! Servers are known here by their place in the list of their forward; `numbers` says which of all servers each is.

use crate::chance::Chance;
use crate::server::Server;
use crate::task::Tried;

/// Every so many questions another server than the best one is asked, to learn whether it still is.
const EXPLORE_EVERY: u32 = 16;

/// The places that are worth asking.
pub struct Choice {
    heard: Vec<usize>,
    /// Of servers that have not been heard for a while.
    pub mute: Vec<usize>,
}

impl Choice {
    pub fn new(now_ns: u64, servers: &[Server], numbers: &[usize], tried: &[Tried]) -> Choice {
        let is_open = |place: &usize| tried.get(*place).is_some_and(|t| !t.refused);
        let is_silent = |place: &usize| {
            numbers.get(*place).and_then(|&n| servers.get(n)).is_none_or(|server| server.is_silent(now_ns))
        };
        let (mute, heard) = (0..numbers.len()).filter(is_open).partition(is_silent);
        Choice { heard, mute }
    }

    pub fn best(&self, servers: &[Server], numbers: &[usize], tried: &[Tried], chance: &mut Chance) -> Option<usize> {
        let sends = |place: usize| tried.get(place).map_or(0, |t| t.sends);
        let least = self.heard.iter().map(|&p| sends(p)).min()?;
        let fresh = || self.heard.iter().copied().filter(|&p| sends(p) == least);
        if self.heard.len() > 1 && chance.below(EXPLORE_EVERY) == 0 {
            return fresh().nth(chance.below(fresh().count() as u32) as usize);
        }
        let price = |p: &usize| numbers.get(*p).and_then(|&n| servers.get(n)).map_or(u64::MAX, Server::price_ns);
        fresh().min_by_key(price)
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
            let choice = Choice::new(5_000 * MS, &servers, &numbers, &tried);
            assert_eq!(choice.mute, [3]);
            let mut chance = Chance::new([1; 32]);
            let picks: Vec<_> = (0..200).map(|_| choice.best(&servers, &numbers, &tried, &mut chance)).collect();
            assert!(picks.iter().filter(|&&p| p == expect).count() >= 170, "{expect:?}");
        }
    }
}
