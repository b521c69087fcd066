//! What happened in a shard, counted by whoever writes there.

use crate::atomic::{AtomicU64, Ordering::Relaxed};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Stored under a key that had nothing.
    Stored,
    /// Stored in place of an older one of the same key.
    Replaced,
    /// Kept, because it was asked for, when its turn to go had come.
    Moved,
    /// Evicted: nobody asked for it while it was new.
    EvictedSmall,
    /// Evicted: nobody asked for it lately.
    EvictedMain,
    /// Evicted though asked for: an insert had moved as many as it may.
    EvictedBusy,
    /// Evicted: its source has more than its share.
    EvictedShare,
    /// Evicted: both buckets of a newcomer were full.
    EvictedIndex,
    /// Emptied by a flush.
    Flushed,
    /// Found damaged when it was looked at first, after the memory was taken over.
    Damaged,
    DroppedTooLarge,
    DroppedNoLifetime,
    DroppedBusy,
    DroppedOutdated,
}

impl Event {
    pub const ALL: [Event; 14] = [
        Event::Stored,
        Event::Replaced,
        Event::Moved,
        Event::EvictedSmall,
        Event::EvictedMain,
        Event::EvictedBusy,
        Event::EvictedShare,
        Event::EvictedIndex,
        Event::Flushed,
        Event::Damaged,
        Event::DroppedTooLarge,
        Event::DroppedNoLifetime,
        Event::DroppedBusy,
        Event::DroppedOutdated,
    ];

    /// The metric's name, without a prefix.
    pub fn name(self) -> &'static str {
        match self {
            Event::Stored => "stored",
            Event::Replaced => "replaced",
            Event::Moved => "moved",
            Event::EvictedSmall => "evicted_new",
            Event::EvictedMain => "evicted_unused",
            Event::EvictedBusy => "evicted_busy",
            Event::EvictedShare => "evicted_share",
            Event::EvictedIndex => "evicted_index_full",
            Event::Flushed => "flushed",
            Event::Damaged => "damaged",
            Event::DroppedTooLarge => "dropped_too_large",
            Event::DroppedNoLifetime => "dropped_no_lifetime",
            Event::DroppedBusy => "dropped_busy",
            Event::DroppedOutdated => "dropped_outdated",
        }
    }
}

#[derive(Default)]
pub(crate) struct Tally {
    events: [AtomicU64; Event::ALL.len()],
    entries: AtomicU64,
    longest_probe: AtomicU64,
}

impl Tally {
    /// By the shard's writer.
    pub(crate) fn count(&self, event: Event) {
        add(&self.events[event as usize], 1);
    }

    /// By anybody.
    pub(crate) fn count_shared(&self, event: Event) {
        self.events[event as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn value(&self, event: Event) -> u64 {
        self.events[event as usize].load(Relaxed)
    }

    pub(crate) fn added(&self) {
        self.entries.fetch_add(1, Relaxed);
    }

    pub(crate) fn removed(&self) {
        self.entries.fetch_sub(1, Relaxed);
    }

    /// Readers may remove what a takeover has not counted yet.
    pub(crate) fn entries(&self) -> u64 {
        u64::try_from(self.entries.load(Relaxed).cast_signed()).unwrap_or(0)
    }

    pub(crate) fn set_entries(&self, entries: u64) {
        self.entries.store(entries, Relaxed);
    }

    /// Slots that have to be looked at to find what was just stored.
    pub(crate) fn looked_at(&self, slots: usize) {
        if slots as u64 > self.longest_probe.load(Relaxed) {
            self.longest_probe.store(slots as u64, Relaxed);
        }
    }

    pub(crate) fn longest_probe(&self) -> u64 {
        self.longest_probe.load(Relaxed)
    }
}

fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Relaxed) + n, Relaxed);
}
