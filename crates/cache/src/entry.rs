//! What goes in, and what a probe gives back.

use crate::answer::Answer;
use crate::record::WORDS_MAX;

/// The longest lifetime of an entry, in seconds: 20 bits, twelve days. Longer ones are cut to it.
pub const TTL_MAX: u32 = (1 << 20) - 1;
/// The longest value. Compression pointers reach no farther, and a larger answer is asked for again.
pub const VALUE_MAX: usize = 16 << 10;
/// TTL of what is given though it has expired (RFC 8767 section 4), and the most that is given after a clock went back.
pub(crate) const DOUBTFUL_TTL: u32 = 30;

/// What is stored under a key.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub value: &'a [u8],
    /// How long it may be given out, in seconds.
    pub ttl_s: u32,
    /// The zone that it comes from, folded: no zone gets more than its share of a full cache.
    pub source: &'a [u8],
    /// `Cache::generation` when the work that led to this began.
    pub generation: u32,
}

/// Why nothing was stored. Each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// A value longer than `VALUE_MAX`, or longer than a shard of a small cache takes.
    TooLarge,
    /// A lifetime of nothing.
    NoLifetime,
    /// Another writer is at work in that part of the cache.
    Busy,
    /// Its zone set or policy has changed meanwhile.
    Outdated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    Fresh,
    /// In the last tenth of its life: to be fetched anew before it ends.
    Ending,
    /// Expired, but within the window of `Config::stale_s` (RFC 8767). To be given only when nothing better is to be had.
    Stale,
}

/// What a probe found; the value stands in the caller's scratch.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    pub freshness: Freshness,
    /// Seconds since it was stored.
    pub age_s: u32,
    /// Seconds that it may be given out yet; 0 for what is stale.
    pub left_s: u32,
    pub value: &'a [u8],
    pub(crate) ttl_cap: u32,
}

impl<'a> Hit<'a> {
    /// What is left of a TTL that was stored with the entry.
    #[inline]
    pub fn ttl(&self, stored: u32) -> u32 {
        match self.freshness {
            Freshness::Stale => DOUBTFUL_TTL,
            _ => stored.saturating_sub(self.age_s).min(self.ttl_cap),
        }
    }

    /// The value as an answer ready to send. None: it is none, or damaged.
    #[inline]
    pub fn answer(&self) -> Option<Answer<'a>> {
        Answer::read(self.value)
    }
}

/// Where probes copy to. One for each thread, used again and again.
pub struct Scratch {
    pub(crate) words: Box<[[u8; 8]]>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { words: vec![[0; 8]; WORDS_MAX].into() }
    }
}
