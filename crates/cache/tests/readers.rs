//! Readers, writers, a sweep and a snapshot at once, on real threads: whatever is found is whole and is that key's. A
//! process that ends in the middle of all that leaves memory that another can take over.
#![cfg(not(loom))]
// A test is a program: it starts threads.
#![allow(clippy::disallowed_methods)]

use cache::{
    AtomicU64, Cache, Config, Entry, Event, Extent, HEADER_OCTETS, Key, Kind, Moment, Progress, Restore, Scratch,
    Snapshot, Sweep, Unusable, Variant,
};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const WORDS: usize = 40_000;
const NAMES: u32 = 3_000;
const SHARE_PERCENT: u32 = 100;

fn memory(words: usize) -> &'static [AtomicU64] {
    (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
}

fn config() -> Config {
    Config { key: [5; 16], entry_bytes: 100, share_percent: SHARE_PERCENT, ..Config::default() }
}

fn name(id: u32) -> [u8; 10] {
    let mut name = *b"\x08aaaaaaaa\0";
    name[1..9].iter_mut().enumerate().for_each(|(i, c)| *c = b'a' + (id >> (4 * i) & 15) as u8);
    name
}

fn key<'a>(cache: &Cache, name: &'a [u8]) -> Key<'a> {
    cache.key(cache.hash(name), name, 1, Kind::Answer, Variant::PLAIN)
}

/// A value that says whose it is, in every word.
fn value(id: u32, version: u32) -> Vec<u8> {
    let word = u64::from(id) << 32 | u64::from(version);
    word.to_le_bytes().repeat(1 + (id as usize * 7 + version as usize) % 40)
}

fn is_of(id: u32, value: &[u8]) -> bool {
    let (words, odd) = value.as_chunks::<8>();
    let Some(first) = words.first() else { return false };
    let version = u32::from_le_bytes([first[0], first[1], first[2], first[3]]);
    odd.is_empty() && value == crate::value(id, version)
}

fn next(seed: &mut u64) -> u32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as u32
}

/// A few names are asked for often, most hardly ever.
fn draw(seed: &mut u64) -> u32 {
    next(seed) % (next(seed) % NAMES + 1)
}

/// False: another writer was at it, and nothing was stored.
fn write(cache: &Cache, seed: &mut u64) -> bool {
    let id = draw(seed);
    let (name, value) = (name(id), value(id, next(seed)));
    let entry = Entry { value: &value, ttl_s: 100, source: &name, generation: cache.generation() };
    cache.insert(&key(cache, &name), &entry, cache.time(0)).is_ok()
}

fn read(cache: &Cache, seed: &mut u64, scratch: &mut Scratch) -> bool {
    let id = draw(seed);
    let hit = cache.probe(&key(cache, &name(id)), cache.time(0), scratch);
    hit.is_some_and(|hit| {
        assert!(is_of(id, hit.value), "{id}: {:?}", hit.value);
        true
    })
}

/// All that is in a cache now is whole and belongs where it is.
fn read_all(cache: &Cache) -> u32 {
    let (mut scratch, now_s) = (Scratch::default(), cache.time(0));
    let found = |id: &u32| {
        let hit = cache.probe(&key(cache, &name(*id)), now_s, &mut scratch);
        hit.is_some_and(|hit| {
            assert!(is_of(*id, hit.value), "{id}: {:?}", hit.value);
            true
        })
    };
    (0..NAMES).filter(found).count() as u32
}

/// Runs `look` while two threads write and one reads: once, and again until each of them has had thousands of turns since.
/// On a busy machine a thread may begin late, or have done all before anybody looks, or be held up while it writes and
/// keep the other from it: a write that stored nothing is no turn.
fn at_work(cache: &Cache, mut look: impl FnMut()) {
    let stop = &AtomicBool::new(false);
    let turns = &[const { AtomicU32::new(0) }; 3];
    std::thread::scope(|threads| {
        for (mut seed, turns) in [1, 2].into_iter().zip(turns) {
            threads.spawn(move || {
                while !stop.load(Relaxed) {
                    turns.fetch_add(u32::from(write(cache, &mut seed)), Relaxed);
                }
            });
        }
        threads.spawn(move || {
            let (mut seed, mut scratch) = (3, Scratch::default());
            while !stop.load(Relaxed) {
                read(cache, &mut seed, &mut scratch);
                turns[2].fetch_add(1, Relaxed);
            }
        });
        // The others stop also when it panics.
        let _stops = Stops(stop);
        look();
        turns.iter().for_each(|turns| turns.store(0, Relaxed));
        while turns.iter().any(|turns| turns.load(Relaxed) < 5_000) {
            look();
        }
    });
}

struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn what_is_found_is_whole_whoever_writes_meanwhile() {
    let cache = Cache::format(memory(WORDS), &config(), Moment::default()).unwrap();
    let (mut seed, mut scratch, mut sweep, mut hits) = (9, Scratch::default(), Sweep::default(), 0);
    (0..20_000).for_each(|_| assert!(write(&cache, &mut seed)));
    at_work(&cache, || {
        for round in 0..40_000u32 {
            hits += u32::from(read(&cache, &mut seed, &mut scratch));
            if round % 1000 == 0 {
                cache.flush(&name(draw(&mut seed)), Extent::Name, cache.time(0));
            }
            if round % 10 == 0 {
                cache.sweep(&mut sweep, 100, &mut scratch);
            }
        }
    });
    let stats = cache.stats();
    assert!(hits > 1_000, "{hits}");
    assert!(
        stats.longest_probe <= 16 && stats.event(Event::Moved) > 0 && stats.event(Event::Damaged) == 0,
        "{stats:?}"
    );
    assert!(u64::from(read_all(&cache)) <= stats.entries);
    while cache.sweep(&mut sweep, 1000, &mut scratch) {}
    let (mut progress, mut there) = (Progress::default(), 0);
    while cache.visit(&mut progress, 1000, cache.time(0), &mut scratch, &mut |_| there += 1) {}
    assert_eq!(cache.stats().entries, there, "writer and sweep may have emptied the same slot at once");
}

/// Words are copied while others write: what a process that is killed leaves, and worse.
#[test]
fn what_a_killed_process_leaves_can_be_taken_over() {
    let cache_memory = memory(WORDS);
    let cache = Cache::format(cache_memory, &config(), Moment::default()).unwrap();
    let left = memory(WORDS);
    let mut seed = 4;
    (0..20_000).for_each(|_| assert!(write(&cache, &mut seed)));
    at_work(&cache, || {
        for _ in 0..12 {
            left.iter().zip(cache_memory).for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
            let heir = Cache::take_over(left, &config(), Moment::default()).unwrap();
            read_all(&heir);
            (0..5_000).for_each(|_| assert!(write(&heir, &mut seed)));
            assert!(read_all(&heir) > 0);
        }
    });
}

#[test]
fn a_snapshot_taken_while_all_goes_on_can_be_read_back() {
    let cache = Cache::format(memory(WORDS), &config(), Moment::default()).unwrap();
    let other = memory(WORDS);
    let mut seed = 5;
    (0..20_000).for_each(|_| assert!(write(&cache, &mut seed)));
    at_work(&cache, || {
        for round in 1..6 {
            let (mut stream, mut snapshot) = (vec![], Snapshot::default());
            while snapshot.next(&cache, 50 * round, &mut stream) {}
            let (header, rest) = stream.split_first_chunk::<HEADER_OCTETS>().unwrap();
            let (read_back, mut restore) = Restore::begin(other, &config(), Moment::default(), header).unwrap();
            restore.feed(&read_back, rest);
            assert_eq!(restore.end(&read_back), 0);
            assert_eq!(read_back.stats().event(Event::Damaged), 0);
            read_all(&read_back);
            (0..5_000).for_each(|_| assert!(write(&read_back, &mut seed)));
            read_all(&read_back);
        }
    });
}

#[test]
fn a_quiet_snapshot_gives_everything_back() {
    let (cache, other) = (Cache::format(memory(WORDS), &config(), Moment::default()).unwrap(), memory(WORDS));
    let mut seed = 6;
    (0..20_000).for_each(|_| assert!(write(&cache, &mut seed)));
    let (mut stream, mut snapshot) = (vec![], Snapshot::default());
    while snapshot.next(&cache, 1000, &mut stream) {}
    let (header, rest) = stream.split_first_chunk::<HEADER_OCTETS>().unwrap();
    let (read_back, mut restore) = Restore::begin(other, &config(), Moment::default(), header).unwrap();
    rest.chunks(13).all(|octets| restore.feed(&read_back, octets));
    assert_eq!(restore.end(&read_back), 0);
    assert_eq!((read_all(&read_back), read_back.stats().entries), (read_all(&cache), cache.stats().entries));
}

#[test]
fn another_format_or_size_starts_empty_and_says_why() {
    let words = memory(WORDS);
    let take = |words: &'static [AtomicU64]| Cache::take_over(words, &config(), Moment::default()).err();
    assert_eq!(take(words), Some(Unusable::NotACache));
    Cache::format(words, &config(), Moment::default()).unwrap();
    assert_eq!(take(words), None);
    assert_eq!(take(&words[..WORDS - 100]), Some(Unusable::OtherSize));
    let format = words[0].load(Relaxed);
    words[0].store(format + 1, Relaxed);
    assert_eq!(take(words), Some(Unusable::OtherFormat));
    words[0].store(format, Relaxed);
    words[8].fetch_xor(1 << 20, Relaxed);
    assert_eq!(take(words), Some(Unusable::Damaged));
    assert_eq!(take(&words[..100]), Some(Unusable::TooSmall));
}

#[test]
fn one_source_does_not_flush_the_rest() {
    let config = Config { share_percent: 5, ..config() };
    let cache = Cache::format(memory(1 << 18), &config, Moment::default()).unwrap();
    let (now_s, mut scratch) = (cache.time(0), Scratch::default());
    let store = |id: u32, source: &[u8]| {
        let (name, value) = (name(id), value(id, 0));
        let entry = Entry { value: &value, ttl_s: 100, source, generation: cache.generation() };
        cache.insert(&key(&cache, &name), &entry, now_s).unwrap();
    };
    // Honest names, of as many zones, asked for again and again while one zone brings in ten times the cache, each
    // name of it asked for as often.
    for id in 0..1000 {
        store(id, &name(id));
    }
    let mut missed = 0;
    for attack in 0..100_000 {
        let id = 1_000_000 + attack;
        store(id, b"\x06victim\0");
        for _ in 0..3 {
            cache.probe(&key(&cache, &name(id)), now_s, &mut scratch);
        }
        let honest = attack % 1000;
        if cache.probe(&key(&cache, &name(honest)), now_s, &mut scratch).is_none() {
            missed += 1;
            store(honest, &name(honest));
        }
    }
    assert!(missed < 2_000, "{missed} of 100,000 missed");
    assert!(cache.stats().event(Event::EvictedShare) > 50_000);
}

/// As a mistake in the hash would have it: Unbound had 278,555 entries in one bin, and walked them.
#[test]
fn names_of_one_hash_share_sixteen_places() {
    const MANY: u32 = 278_555;
    let cache = Cache::format(memory(1 << 18), &config(), Moment::default()).unwrap();
    let (now_s, mut scratch, one) = (cache.time(0), Scratch::default(), cache.hash(&name(0)));
    let mut is_there =
        |key: &Key<'_>, id: u32| cache.probe(key, now_s, &mut scratch).is_some_and(|h| is_of(id, h.value));
    let store = |key: &Key<'_>, id: u32| {
        let (value, generation) = (value(id, 0), cache.generation());
        cache.insert(key, &Entry { value: &value, ttl_s: 100, source: key.name(), generation }, now_s).unwrap();
    };
    for id in 0..MANY {
        let name = name(id);
        let of_one = cache.key(one, &name, 1, Kind::Answer, Variant::PLAIN);
        store(&of_one, id);
        assert!(is_there(&of_one, id), "the one that came last");
    }
    let is_kept = |id: &u32| is_there(&cache.key(one, &name(*id), 1, Kind::Answer, Variant::PLAIN), *id);
    let kept = (0..MANY).filter(is_kept).count();
    assert!((1..=16).contains(&kept) && cache.stats().longest_probe <= 16, "{kept}, {}", cache.stats().longest_probe);
    for id in MANY..MANY + 100 {
        let name = name(id);
        store(&key(&cache, &name), id);
        assert!(is_there(&key(&cache, &name), id), "others have their own places");
    }
}
