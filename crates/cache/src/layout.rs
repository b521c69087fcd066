//! Where everything stands in the memory that the store was given. In words of eight octets:
//!
//! ```text
//! header 1024 | shard | shard | ... (1 to 64, a power of two, all alike)
//! shard: cursors 16 | sources 1024 | index: buckets of 8 slots | ghosts | small ring | main ring
//! ```
//!
//! Bound: all of it, to the last bucket, is decided here from the size alone, and nothing is added later.

/// Changes with any change of what stands where, or of what it means.
pub(crate) const FORMAT: u64 = 0x4455_4E4C_0000_0002;
// Loom watches every word, so it is given few.
pub(crate) const HEADER: usize = if cfg!(loom) { 704 } else { 1024 };
pub(crate) const CURSORS: usize = 16;
pub(crate) const SOURCES: usize = if cfg!(loom) { 8 } else { 1024 };
pub(crate) const WAYS: usize = 8;

const SHARDS_MAX: usize = 64;
/// Smaller shards would be full of a few large answers.
const SHARD_WORDS_MIN: usize = (4 << 20) / 8;
/// How full the index is when the rings are full of entries of the expected size. With two candidate buckets of eight
/// slots, one entry in millions finds no place at 0.8; the rest is for entries that are smaller than expected.
const LOAD_PERCENT: usize = 70;
/// Words of fingerprints, each of four entries that were evicted, for every `GHOSTS_PER` entries.
const GHOSTS_PER: usize = 2;
/// The part of the rings that newcomers have to prove themselves in.
const SMALL_PERCENT: usize = 10;
/// The least that a shard works with.
const RING_WORDS_MIN: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub words: usize,
    pub shards: usize,
    pub shard_words: usize,
    pub buckets: usize,
    pub ghosts: usize,
    pub small: usize,
    pub main: usize,
}

impl Layout {
    /// None: too small to be of use.
    pub(crate) fn of(words: usize, entry_bytes: u32) -> Option<Layout> {
        let whole = (words / SHARD_WORDS_MIN).clamp(1, SHARDS_MAX);
        let shards = 1 << whole.ilog2();
        let shard_words = (words.checked_sub(HEADER)? / shards) & !(WAYS - 1);
        let free = shard_words.checked_sub(CURSORS + SOURCES)?;
        // Octets of an entry: its record, its share of the index, its ghosts.
        let each = entry_bytes.max(32) as usize + 8 * 100 / LOAD_PERCENT + 8 / GHOSTS_PER;
        let entries = free * 8 / each;
        let buckets = (entries * 100).div_ceil(LOAD_PERCENT * WAYS).max(1);
        let ghosts = (entries / GHOSTS_PER).max(1).next_multiple_of(WAYS);
        let rings = free.checked_sub(buckets * WAYS + ghosts)?;
        let small = (rings * SMALL_PERCENT / 100).max(RING_WORDS_MIN) & !(WAYS - 1);
        let main = rings.checked_sub(small).filter(|&main| main >= RING_WORDS_MIN)?;
        Some(Layout { words, shards, shard_words, buckets, ghosts, small, main })
    }

    pub(crate) fn shard(&self, number: usize) -> usize {
        HEADER + number * self.shard_words
    }
    pub(crate) fn sources(&self) -> usize {
        CURSORS
    }
    pub(crate) fn index(&self) -> usize {
        self.sources() + SOURCES
    }
    pub(crate) fn ghost(&self) -> usize {
        self.index() + self.buckets * WAYS
    }
    pub(crate) fn ring(&self, ring: usize) -> (usize, usize) {
        let small_at = self.ghost() + self.ghosts;
        if ring == 0 { (small_at, self.small) } else { (small_at + self.small, self.main) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_fills_its_memory_and_not_more() {
        for words in [HEADER, 4_096, 10_000, 1 << 17, (1 << 19) + 512, 1 << 22, 1 << 25, (1 << 29) + 8] {
            let Some(l) = Layout::of(words, 160) else {
                assert!(words < 4_096, "{words}");
                continue;
            };
            let (main_at, main) = l.ring(1);
            assert!(main_at + main <= l.shard_words);
            let end = l.shard(l.shards - 1) + l.shard_words;
            assert!(end <= words && words - end < WAYS * l.shards + 1, "{l:?}");
        }
    }
}
