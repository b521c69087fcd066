//! The cache: what is stored, and what is found of it.

use crate::atomic::AtomicU64;
use crate::entry::{Dropped, Entry, Freshness, Hit, Scratch, TTL_MAX, VALUE_MAX};
use crate::flush::{Extent, Flushes};
use crate::header::{Header, Hot, Moment, Unusable};
use crate::key::{HEAD as KEY_HEAD, Hasher, Key, Kind, NameHash, Variant};
use crate::layout::{Layout, SOURCES};
use crate::record::{Draft, Facts, GENERATIONS};
use crate::shard::{Copied, Place, Shard};
use crate::takeover::Takeover;
use crate::tally::Event;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct Config {
    /// The secret of the hash: 128 random bits. A memory that is taken over keeps its own.
    pub key: [u8; 16],
    /// How long an expired entry is kept to be given as stale, in seconds; 0: not at all.
    pub stale_s: u32,
    /// Octets of an entry, on average, that the index is made for.
    pub entry_bytes: u32,
    /// The most of a full cache that the entries of one source may have, in percent.
    pub share_percent: u32,
    /// A fingerprint of whom names are asked of. What others said is of no use.
    pub sources: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config { key: [0; 16], stale_s: 86_400, entry_bytes: 160, share_percent: 5, sources: 0 }
    }
}

/// A key that is being looked for, between the steps of a batch; its name stays where it is.
#[derive(Clone, Copy, Debug)]
pub struct Sought {
    hash: u64,
    of_name: NameHash,
    head: [u8; KEY_HEAD],
    place: Whereabouts,
}

#[derive(Clone, Copy, Debug)]
enum Whereabouts {
    /// Nobody has looked.
    Unknown,
    /// It was not there a moment ago, whatever its generation.
    Nowhere,
    /// Where the index has it, or another key that looks like it.
    At(Place),
}

impl Sought {
    /// The key that was sought, of this name.
    #[inline]
    pub fn key<'a>(&self, name: &'a [u8]) -> Key<'a> {
        Key { hash: self.hash, of_name: self.of_name, head: self.head, name }
    }

    /// The hash of its name, good for other keys of that.
    #[inline]
    pub fn name_hash(&self) -> NameHash {
        self.of_name
    }

    /// `fetch` has found nothing that looks like it, not even an entry of another generation.
    #[inline]
    pub fn is_absent(&self) -> bool {
        matches!(self.place, Whereabouts::Nowhere)
    }
}

/// Shared by all threads; the memory that it works on was given once, and is all that it ever has.
pub struct Cache {
    pub(crate) header: Header,
    pub(crate) layout: Layout,
    pub(crate) shards: Box<[Shard]>,
    hasher: Hasher,
    stale_s: u32,
    share: u64,
    sources: u64,
    /// Flushes begin one after the other; readers do not look at this.
    flushing: Mutex<()>,
}

impl Cache {
    /// An empty cache in `memory`, all of it, whatever was there. `memory` begins at a page.
    pub fn format(memory: &'static [AtomicU64], config: &Config, now: Moment) -> Result<Cache, Unusable> {
        let cache = Cache::format_zeros(memory, config, now)?;
        cache.shards.iter().for_each(Shard::clear);
        Ok(cache)
    }

    /// The same in memory that is all zeros, as the system gives it: a few pages are touched, and it is ready.
    pub fn format_zeros(memory: &'static [AtomicU64], config: &Config, now: Moment) -> Result<Cache, Unusable> {
        let layout = Layout::of(memory.len(), config.entry_bytes).ok_or(Unusable::TooSmall)?;
        let header = Header(memory);
        header.format(&layout, config.key, now);
        header.set_sources(config.sources);
        let cache = Cache::over(header, layout, config);
        cache.shards.iter().for_each(Shard::empty_rings);
        Ok(cache)
    }

    /// The cache that another process left in `memory`. A shard that makes no sense starts empty.
    pub fn take_over(memory: &'static [AtomicU64], config: &Config, now: Moment) -> Result<Cache, Unusable> {
        let (cache, mut takeover) = Takeover::begin(memory, config, now)?;
        while takeover.next(&cache) {}
        Ok(cache)
    }

    pub(crate) fn over(header: Header, layout: Layout, config: &Config) -> Cache {
        let shard_at = |number| layout.shard(number)..layout.shard(number) + layout.shard_words;
        let shards = (0..layout.shards).map(|number| Shard::new(&header.0[shard_at(number)], layout)).collect();
        Cache {
            header,
            layout,
            shards,
            hasher: Hasher::new(header.key()),
            stale_s: config.stale_s,
            share: (layout.small + layout.main) as u64 * u64::from(config.share_percent.clamp(1, 100)) / 100,
            sources: config.sources,
            flushing: Mutex::new(()),
        }
    }

    /// The hash of a name in lower case: the one pass over it.
    #[inline]
    pub fn hash(&self, folded: &[u8]) -> NameHash {
        self.hasher.name(folded)
    }

    #[inline]
    pub fn key<'a>(&self, hash: NameHash, folded: &'a [u8], rtype: u16, kind: Kind, variant: Variant) -> Key<'a> {
        self.hasher.key(hash, folded, rtype, kind, variant)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        // The number of shards is a power of two: the index stays inside whatever the hash.
        &self.shards[(hash >> 58) as usize & (self.shards.len() - 1)]
    }

    /// The cache's time, of which every call below is told: seconds that never go back, made of CLOCK_BOOTTIME's.
    #[inline]
    pub fn time(&self, boot_s: u64) -> u32 {
        self.header.time(boot_s)
    }

    /// To be called about once a second by one thread: keeps what a later process needs to know how much time passed,
    /// and notices a clock that went back.
    pub fn stamp(&self, now: Moment) {
        self.header.resume(now);
    }

    /// Begins to look for a key: the index is fetched. For a whole batch first `seek`, then `fetch`, then `take`.
    #[inline]
    pub fn seek(&self, key: &Key<'_>) -> Sought {
        self.shard(key.hash).prefetch(key.hash);
        Sought { hash: key.hash, of_name: key.of_name, head: key.head, place: Whereabouts::Unknown }
    }

    /// Goes on once the index has arrived: the entry is fetched. If there is none, the index is fetched for what is looked for
    /// instead: an entry of this kind.
    #[inline]
    pub fn fetch(&self, sought: &mut Sought, instead: Kind) {
        let Some(place) = self.shard(sought.hash).prefetch_record(sought.hash) else {
            sought.place = Whereabouts::Nowhere;
            let hash = self.hasher.beside(sought.of_name, sought.head, instead);
            return self.shard(hash).prefetch(hash);
        };
        sought.place = Whereabouts::At(place);
    }

    /// What `probe` gives of the key that was sought, and of this name; without what has come since it was looked for.
    #[inline]
    pub fn take<'s>(&self, sought: &Sought, name: &[u8], now_s: u32, scratch: &'s mut Scratch) -> Option<Hit<'s>> {
        let key = sought.key(name);
        let found = match sought.place {
            Whereabouts::Nowhere => return None,
            Whereabouts::At(place) => self.shard(key.hash).find_at(place, &key, &mut scratch.words),
            Whereabouts::Unknown => None,
        };
        match found {
            Some(found) => self.give(&key, &found, now_s, scratch),
            // It moved meanwhile, or another key looks like this one.
            None => self.probe(&key, now_s, scratch),
        }
    }

    /// Looks the key up: two lines of the index and the entry. Never waits; writes nothing for a name asked for often.
    #[inline]
    pub fn probe<'s>(&self, key: &Key<'_>, now_s: u32, scratch: &'s mut Scratch) -> Option<Hit<'s>> {
        let found = self.shard(key.hash).find(key, &mut scratch.words)?;
        self.give(key, &found, now_s, scratch)
    }

    /// What was found, if it is of these zones and not flushed.
    #[inline]
    fn give<'s>(&self, key: &Key<'_>, found: &Copied, now_s: u32, scratch: &'s Scratch) -> Option<Hit<'s>> {
        let hot = self.header.hot();
        if found.facts.generation() != hot.generation % GENERATIONS {
            return None;
        }
        if hot.flushes != 0 && Flushes(self.header).mean(key.name, found.stored_s) {
            return None;
        }
        self.judge(found, &hot, now_s, scratch)
    }

    #[inline]
    pub(crate) fn judge<'s>(&self, found: &Copied, hot: &Hot, now_s: u32, scratch: &'s Scratch) -> Option<Hit<'s>> {
        let ttl_s = found.facts.ttl_s();
        let now_s = now_s.max(hot.latest_s);
        let (end, ttl_cap) = hot.end(found.stored_s, ttl_s);
        let left_s = end.saturating_sub(now_s);
        let freshness = if left_s > ttl_s / 10 {
            Freshness::Fresh
        } else if left_s > 0 {
            Freshness::Ending
        } else if now_s - end < self.stale_s {
            Freshness::Stale
        } else {
            return None;
        };
        let value = scratch.words.as_flattened().get(found.key_len..)?.get(..found.facts.value_len())?;
        Some(Hit { freshness, age_s: now_s.saturating_sub(found.stored_s), left_s, value, ttl_cap })
    }

    /// Stores an entry, or says why not. Never waits for another writer.
    pub fn insert(&self, key: &Key<'_>, entry: &Entry<'_>, now_s: u32) -> Result<(), Dropped> {
        let shard = self.shard(key.hash);
        let dropped = match self.store(key, entry, now_s) {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        shard.tally.count_shared(match dropped {
            Dropped::TooLarge => Event::DroppedTooLarge,
            Dropped::NoLifetime => Event::DroppedNoLifetime,
            Dropped::Busy => Event::DroppedBusy,
            Dropped::Outdated => Event::DroppedOutdated,
        });
        Err(dropped)
    }

    fn store(&self, key: &Key<'_>, entry: &Entry<'_>, now_s: u32) -> Result<(), Dropped> {
        if entry.value.len() > VALUE_MAX {
            return Err(Dropped::TooLarge);
        }
        if entry.ttl_s == 0 {
            return Err(Dropped::NoLifetime);
        }
        let hot = self.header.hot();
        if entry.generation != hot.generation {
            return Err(Dropped::Outdated);
        }
        let stored_s = now_s.max(hot.latest_s);
        let ttl_s = entry.ttl_s.min(TTL_MAX);
        let facts = Facts::new(entry.value.len(), ttl_s, entry.generation, self.source(entry.source));
        self.put(key, entry.value, facts, stored_s)
    }

    fn put(&self, key: &Key<'_>, value: &[u8], facts: Facts, stored_s: u32) -> Result<(), Dropped> {
        self.header.note_time(stored_s);
        let draft = Draft::new(key, value, facts, stored_s);
        let writer = self.shard(key.hash).own().ok_or(Dropped::Busy)?;
        writer.insert(key, &draft, &self.hasher, self.share)
    }

    /// Zones that share a number share their share; which they are, nobody outside can know.
    fn source(&self, zone: &[u8]) -> usize {
        (self.hasher.name(zone).0 >> 32) as usize % SOURCES
    }

    /// The generation of the zone set and the policy. Entries of another one are not found. Whoever asks for it before
    /// looking at the zones knows that they are of this generation or a later one.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.header.generation()
    }

    /// The zone set or the policy on names has changed: what was stored before is not found any more, unless `renew`
    /// is told that it is still good.
    pub fn next_generation(&self) {
        let generation = self.header.next_generation();
        // Numbers come round again. What still has one from the last round must not pass for new.
        if generation.is_multiple_of(GENERATIONS) {
            self.flush(&[0], Extent::Tree, self.header.latest());
        }
    }

    /// The zone set and the policy on names are those of this fingerprint. If they were others when the cache was left,
    /// a new generation begins. If others were asked than now, all that they said is flushed.
    pub fn govern(&self, fingerprint: u64) {
        if self.header.set_sources(self.sources) {
            self.flush(&[0], Extent::Tree, self.header.latest());
        }
        if self.header.set_fingerprint(fingerprint) {
            self.next_generation();
        }
    }

    /// The caller has judged again, under `generation`, that neither a zone of ours nor a policy has a word on this
    /// name: what an older generation stored of it, and has not expired, is good. True: it was not found before, and now
    /// it is.
    pub fn renew(&self, key: &Key<'_>, generation: u32, now_s: u32, scratch: &mut Scratch) -> bool {
        let Some(found) = self.shard(key.hash).find(key, &mut scratch.words) else { return false };
        let hot = self.header.hot();
        let is_flushed = hot.flushes != 0 && Flushes(self.header).mean(key.name, found.stored_s);
        let is_current = found.facts.generation() == generation % GENERATIONS;
        let is_fresh = || self.judge(&found, &hot, now_s, scratch).is_some_and(|hit| hit.freshness != Freshness::Stale);
        if generation != hot.generation || is_current || is_flushed || !is_fresh() {
            return false;
        }
        let (facts, value_len) = (found.facts, found.facts.value_len());
        let Some(value) = scratch.words.as_flattened().get(found.key_len..found.key_len + value_len) else {
            return false;
        };
        let facts = Facts::new(value_len, facts.ttl_s(), generation, facts.source());
        self.put(key, value, facts, found.stored_s).is_ok()
    }

    /// One flush begins or ends at a time.
    pub(crate) fn flushing(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
