//! A memory that another process left, taken over while questions are answered from it already.
//!
//! The cursors of all shards are read at once; the slots are gone through shard by shard, in the background. Until that
//! has come by, nothing can be stored in a shard, and what the other process had compared with its checksum is believed:
//! these octets have never left the memory.

use crate::atomic::AtomicU64;
use crate::header::{Header, Moment, Unusable};
use crate::layout::Layout;
use crate::store::{Cache, Config};

/// A takeover that is under way.
#[derive(Debug)]
pub struct Takeover {
    /// The next shard to be gone through.
    shard: usize,
}

impl Takeover {
    /// The cache in `memory`, of which nobody else has hold any more.
    pub fn begin(memory: &'static [AtomicU64], config: &Config, now: Moment) -> Result<(Cache, Takeover), Unusable> {
        let layout = Layout::of(memory.len(), config.entry_bytes).ok_or(Unusable::TooSmall)?;
        let header = Header(memory);
        header.check(&layout)?;
        header.resume(now);
        let cache = Cache::over(header, layout, config);
        for shard in &cache.shards {
            if !shard.resume() {
                shard.clear();
            }
            shard.keep_owned();
        }
        Ok((cache, Takeover { shard: 0 }))
    }

    /// Goes through the next shard. False: that was the last.
    pub fn next(&mut self, cache: &Cache) -> bool {
        if let Some(shard) = cache.shards.get(self.shard) {
            shard.settle();
            shard.give_back();
        }
        self.shard += 1;
        self.shard < cache.shards.len()
    }
}
