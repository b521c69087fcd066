//! A zone's records in canonical order, as they came and before anything is made of them: for whoever judges what they mean.

use crate::collected::{Collected, Records};
use crate::zone::order_key;
use std::ops::Range;
use wire::name::canonical_cmp;

/// Runs whose records are fetched ahead of their turn.
const AHEAD: usize = 16;

pub struct Sorted<'a> {
    pub(crate) collected: &'a Collected,
    pub(crate) apex: &'a [u8],
    /// Those of the zone; the first is the apex's.
    pub(crate) runs: Range<usize>,
}

impl<'a> Sorted<'a> {
    /// In lower case, as all names here.
    pub fn apex(&self) -> &'a [u8] {
        self.apex
    }

    /// Each name with its records, the apex first.
    pub fn names(&self) -> impl Iterator<Item = (&'a [u8], Records<'a>)> {
        let collected = self.collected;
        self.runs.clone().filter_map(move |at| {
            if let Some(later) = collected.runs.get(at + AHEAD) {
                collected.segments.prefetch(later);
            }
            let is_first = !collected.runs[at].is_same_name();
            is_first.then(|| (collected.name(at as u32), collected.records(at as u32)))
        })
    }

    /// The records of a name; none if it has none.
    pub fn records_at(&self, folded: &[u8]) -> Option<Records<'a>> {
        self.at_or_after(folded).filter(|(name, _)| *name == folded).map(|(_, records)| records)
    }

    /// The name itself, or the one that follows where it would stand.
    pub fn at_or_after(&self, folded: &[u8]) -> Option<(&'a [u8], Records<'a>)> {
        self.at(self.first_from(self.runs.clone(), self.order_key(folded), folded))
    }

    /// Numbers compare as the names do for which they stand, unless they are equal.
    pub fn order_key(&self, name: &[u8]) -> u64 {
        order_key(name, self.apex)
    }

    /// For names that are asked for in canonical order.
    pub fn onward(&self) -> Onward<'_, 'a> {
        Onward { of: self, at: self.runs.start }
    }

    fn at(&self, run: usize) -> Option<(&'a [u8], Records<'a>)> {
        let at = run as u32;
        self.runs.contains(&run).then(|| (self.collected.name(at), self.collected.records(at)))
    }

    /// The first of some runs that does not come before a name; their end if all do.
    fn first_from(&self, runs: Range<usize>, key: u64, folded: &[u8]) -> usize {
        let Range { start: mut low, end: mut high } = runs;
        while low < high {
            let middle = low.midpoint(high);
            if self.is_before(middle, key, folded) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Reads a run's name only where its key does not tell.
    fn is_before(&self, run: usize, key: u64, folded: &[u8]) -> bool {
        let by_name = || canonical_cmp(self.collected.name(run as u32), folded);
        self.collected.runs[run].key.cmp(&key).then_with(by_name).is_lt()
    }
}

/// Looks each name up from where the one before it stands.
pub struct Onward<'z, 'a> {
    of: &'z Sorted<'a>,
    at: usize,
}

impl<'a> Onward<'_, 'a> {
    /// The records of a name that comes behind those asked for before; its key is `Sorted::order_key`.
    pub fn records_at(&mut self, key: u64, folded: &[u8]) -> Option<Records<'a>> {
        let (mut step, end) = (1, self.of.runs.end);
        let mut low = self.at;
        while low + step < end && self.of.is_before(low + step, key, folded) {
            low += step;
            step *= 2;
        }
        self.at = self.of.first_from(low..end.min(low + step + 1), key, folded);
        self.of.at(self.at).filter(|(name, _)| *name == folded).map(|(_, records)| records)
    }
}
