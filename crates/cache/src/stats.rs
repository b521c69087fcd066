//! What operators see of the cache. Summed up when somebody asks; costs nobody else anything.

use crate::atomic::Ordering::Relaxed;
use crate::shard::{MAIN, SMALL};
use crate::store::Cache;
use crate::tally::Event;

/// A moment's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// All of it, as taken at the start.
    pub bytes: u64,
    /// Octets of records in the rings: what is evicted last is counted until it is overwritten.
    pub bytes_used: u64,
    /// Octets that records can have.
    pub bytes_for_records: u64,
    pub entries: u64,
    /// Slots of the index.
    pub slots: u64,
    /// The most slots that had to be looked at for an entry when it was stored; 16 by construction.
    pub longest_probe: u64,
    pub generation: u32,
    pub flushes_under_way: u64,
    /// By `Event as usize`.
    pub events: [u64; Event::ALL.len()],
}

impl Stats {
    pub fn event(&self, event: Event) -> u64 {
        self.events[event as usize]
    }
}

impl Cache {
    pub fn stats(&self) -> Stats {
        let used = |ring: usize| -> u64 {
            let rings = self.shards.iter().map(|shard| shard.ring(ring));
            rings.map(|r| r.head().load(Relaxed).saturating_sub(r.tail().load(Relaxed))).sum()
        };
        let count = |event| self.shards.iter().map(|shard| shard.tally.value(event)).sum();
        let hot = self.header.hot();
        let shards = self.layout.shards as u64;
        Stats {
            bytes: 8 * self.layout.words as u64,
            bytes_used: 8 * (used(SMALL) + used(MAIN)),
            bytes_for_records: 8 * shards * (self.layout.small + self.layout.main) as u64,
            entries: self.shards.iter().map(|shard| shard.tally.entries()).sum(),
            slots: shards * (self.layout.buckets * crate::layout::WAYS) as u64,
            longest_probe: self.shards.iter().map(|shard| shard.tally.longest_probe()).max().unwrap_or(0),
            generation: hot.generation,
            flushes_under_way: hot.flushes,
            events: Event::ALL.map(count),
        }
    }
}
