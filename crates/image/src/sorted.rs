//! A zone's records in canonical order, as they came and before anything is made of them: for whoever judges what they mean.

use crate::collected::{Collected, Records};
use std::cmp::Ordering;
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
        let (mut low, mut high) = (self.runs.start, self.runs.end);
        while low < high {
            let middle = low.midpoint(high);
            if canonical_cmp(self.collected.name(middle as u32), folded) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let at = low as u32;
        self.runs.contains(&low).then(|| (self.collected.name(at), self.collected.records(at)))
    }
}
