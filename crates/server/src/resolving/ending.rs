//! The last snapshot of the cache: written by the thread that ends the process and waits for it. The thread behind the cache
//! works only when nobody else wants the CPU; on a busy machine who waited for that one would wait for long.

use crate::log;
use crate::resolving::memory;
use crate::resolving::shelf::Shelf;
use cache::{Cache, Event};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// What both threads know.
pub struct Ending {
    /// None: nothing of the cache is to outlive the process.
    pub shelf: Option<Shelf>,
    /// Of the machine.
    pub boot: u64,
    /// Entries that had been stored when the last snapshot was begun.
    saved: AtomicU64,
    /// The cache has what it had before: a snapshot of less would be a loss.
    is_whole: AtomicBool,
    has_come: AtomicBool,
}

/// Entries that have been stored, or made others go, since the process began.
fn stored(cache: &Cache) -> u64 {
    let stats = cache.stats();
    stats.event(Event::Stored) + stats.event(Event::Replaced) + stats.event(Event::Flushed)
}

impl Ending {
    pub fn new(shelf: Option<Shelf>, boot: u64) -> Ending {
        let (saved, is_whole, has_come) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Ending { shelf, boot, saved, is_whole, has_come }
    }

    pub fn cache_is_whole(&self) {
        self.is_whole.store(true, Release);
    }

    /// Nothing more is to be begun in the background.
    pub fn has_come(&self) -> bool {
        self.has_come.load(Relaxed)
    }

    /// A snapshot would say no more than the last.
    pub fn is_saved(&self, cache: &Cache) -> bool {
        stored(cache) == self.saved.load(Relaxed)
    }

    /// Writes a snapshot; its octets, or why there is none.
    pub fn save(&self, cache: &Cache, breathe: impl FnMut() -> bool) -> Result<u64, String> {
        let Some(shelf) = &self.shelf else { return Err("[cache] persist is false".to_string()) };
        let begun = stored(cache);
        self.settled(begun, shelf.write(cache, breathe))
    }

    /// The process ends: what is to outlive it is on the disk when this returns.
    pub fn finish(&self, cache: &Cache) {
        self.has_come.store(true, Relaxed);
        let Some(shelf) = self.shelf.as_ref().filter(|_| self.is_whole.load(Acquire)) else { return };
        cache.stamp(memory::moment(self.boot));
        if !self.is_saved(cache) {
            // A failure is in the log.
            let _ = self.settled(stored(cache), shelf.write_last(cache));
        }
    }

    fn settled(&self, begun: u64, written: std::io::Result<u64>) -> Result<u64, String> {
        match &written {
            Ok(_) => self.saved.store(begun, Relaxed),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => log::warn("the cache cannot be written down", &[("why", e)]),
        }
        written.map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{Config, Entry, Kind, Moment, Variant};
    use std::io::Read;

    fn store_one(cache: &Cache, name: &[u8]) {
        let key = cache.key(cache.hash(name), name, 1, Kind::Answer, Variant::PLAIN);
        let entry = Entry { value: b"value", ttl_s: 300, source: name, generation: cache.generation() };
        cache.insert(&key, &entry, cache.time(0)).unwrap();
    }

    #[test]
    fn the_last_snapshot_is_there_though_nobody_works_in_the_background_and_is_the_last() {
        let folder = std::env::temp_dir().join(format!("dunlin-ending-{}", std::process::id()));
        let memory = store::Memory::create(c"ending", 1 << 20).unwrap();
        let cache = Cache::format_zeros(memory.words(), &Config::default(), Moment::default()).unwrap();
        let there = || {
            let mut octets = Vec::new();
            let file = Shelf::open(&folder).unwrap().last().unwrap();
            file.map(|mut file| file.read_to_end(&mut octets).unwrap()).map(|_| octets)
        };
        let begun = |whole: bool| {
            let ending = Ending::new(Some(Shelf::open(&folder).unwrap()), 7);
            whole.then(|| ending.cache_is_whole());
            ending
        };
        begun(true).finish(&cache);
        assert_eq!(there(), None, "nothing was stored");
        store_one(&cache, b"\x01a\0");
        begun(false).finish(&cache);
        assert_eq!(there(), None, "what was there before had not been read yet");
        let ending = begun(true);
        // The thread in the background is in the midst of it when the end comes, and gets no turn until it is over.
        let outcome = ending.save(&cache, || {
            store_one(&cache, b"\x01b\0");
            ending.finish(&cache);
            true
        });
        assert!(ending.has_come() && outcome.is_err(), "{outcome:?}");
        let last = there().unwrap();
        assert!(ending.is_saved(&cache) && ending.save(&cache, || true).is_err());
        assert_eq!(there(), Some(last));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
