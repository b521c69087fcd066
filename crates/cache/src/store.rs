//! The store.

use crate::entry::{DOUBTFUL_TTL, Dropped, Entry, Freshness, Hit, Scratch, TTL_MAX, VALUE_MAX};
use crate::key::{Hasher, Key, Kind, NameHash, Variant};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct Config {
    /// The secret of the hash: 128 random bits.
    pub key: [u8; 16],
    /// How long an expired entry is kept to be given as stale, in seconds; 0: not at all.
    pub stale_s: u32,
    /// Octets of an entry, on average, that the index is made for.
    pub entry_bytes: u32,
    /// The most of a full cache that the entries of one source zone may have, in percent.
    pub share_percent: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { key: [0; 16], stale_s: 86_400, entry_bytes: 160, share_percent: 5 }
    }
}

pub struct Cache {
    hasher: Hasher,
    config: Config,
    generation: AtomicU32,
    entries: Mutex<BTreeMap<(u64, Vec<u8>), Stored>>,
}

struct Stored {
    value: Vec<u8>,
    ttl_s: u32,
    stored_s: u32,
    generation: u32,
}

const ENTRIES_MAX: usize = 100_000;

fn whole(key: &Key<'_>) -> (u64, Vec<u8>) {
    (key.hash, [&key.head, key.name].concat())
}

impl Cache {
    /// An empty cache in `memory`, all of it.
    pub fn format(memory: &'static [AtomicU64], config: Config) -> Cache {
        let _ = memory;
        Cache {
            hasher: Hasher::new(config.key),
            config,
            generation: AtomicU32::new(1),
            entries: Mutex::new(BTreeMap::new()),
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

    /// Fetches what `probe` will look at first. Call it for a whole batch, then `prefetch_entry`, then `probe`.
    #[inline]
    pub fn prefetch(&self, key: &Key<'_>) {
        let _ = key;
    }

    /// Fetches the entry itself, once the index has arrived.
    #[inline]
    pub fn prefetch_entry(&self, key: &Key<'_>) {
        let _ = key;
    }

    /// Looks the key up. Never waits.
    pub fn probe<'s>(&self, key: &Key<'_>, now_s: u32, scratch: &'s mut Scratch) -> Option<Hit<'s>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let found = entries.get(&whole(key)).filter(|e| e.generation == self.generation())?;
        let age_s = now_s.saturating_sub(found.stored_s);
        let ttl_cap = if now_s < found.stored_s { DOUBTFUL_TTL } else { u32::MAX };
        let left_s = found.ttl_s.saturating_sub(age_s).min(ttl_cap);
        let freshness = match left_s {
            0 if age_s - found.ttl_s >= self.config.stale_s => return None,
            0 => Freshness::Stale,
            _ if left_s <= found.ttl_s / 10 => Freshness::Ending,
            _ => Freshness::Fresh,
        };
        let value = scratch.words.get_mut(..found.value.len())?;
        value.copy_from_slice(&found.value);
        Some(Hit { freshness, age_s, left_s, value, ttl_cap })
    }

    /// Stores an entry, or says why not. Never waits for another writer.
    pub fn insert(&self, key: &Key<'_>, entry: &Entry<'_>, now_s: u32) -> Result<(), Dropped> {
        if entry.value.len() > VALUE_MAX {
            return Err(Dropped::TooLarge);
        }
        if entry.ttl_s == 0 {
            return Err(Dropped::NoLifetime);
        }
        if entry.generation != self.generation() {
            return Err(Dropped::Outdated);
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = Stored {
            value: entry.value.to_vec(),
            ttl_s: entry.ttl_s.min(TTL_MAX),
            stored_s: now_s,
            generation: entry.generation,
        };
        entries.insert(whole(key), stored);
        if entries.len() > ENTRIES_MAX {
            entries.pop_first();
        }
        Ok(())
    }

    /// The generation of the zone set and the policy. Entries of another one are not found.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// The zone set or the policy on names has changed: nothing stored before is found any more.
    pub fn next_generation(&self) {
        self.generation.fetch_add(1, Relaxed);
    }

    /// Forgets what is stored of this name (folded).
    pub fn flush(&self, folded: &[u8], now_s: u32) {
        self.forget(now_s, |name| name == folded);
    }

    /// Forgets what is stored of this name and all names below it.
    pub fn flush_tree(&self, folded: &[u8], now_s: u32) {
        self.forget(now_s, |name| wire::name::is_at_or_below(name, folded));
    }

    fn forget(&self, _now_s: u32, is_meant: impl Fn(&[u8]) -> bool) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(_, key), _| !is_meant(key.get(crate::key::HEAD..).unwrap_or_default()));
    }
}
