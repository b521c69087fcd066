//! A snapshot that anything may have happened to, up to the writing of sums that are right for it: what is found in it is
//! what was stored under that name, or nothing.
//!
//! The input is a list of edits, four octets each: where (three octets, modulo the length) and what to change there; the last
//! may cut the stream short.
#![no_main]

use cache::{
    AtomicU64, Cache, Config, Entry, HEADER_OCTETS, Key, Kind, Moment, Progress, Restore, Scratch, Snapshot, Variant,
};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

const WORDS: usize = 8_000;
const NAMES: u32 = 300;

fn memory() -> &'static [AtomicU64] {
    (0..WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
}

fn config() -> Config {
    Config { key: [3; 16], entry_bytes: 100, ..Config::default() }
}

fn name(id: u32) -> Vec<u8> {
    format!("\x04{id:04}\x04test\0").into_bytes()
}

fn value(id: u32) -> Vec<u8> {
    id.to_le_bytes().repeat(1 + id as usize % 40)
}

fn key<'n>(cache: &Cache, name: &'n [u8]) -> Key<'n> {
    cache.key(cache.hash(name), name, 1, Kind::Answer, Variant::PLAIN)
}

thread_local! {
    static GOOD: Vec<u8> = good();
    static MEMORY: RefCell<&'static [AtomicU64]> = RefCell::new(memory());
}

fn good() -> Vec<u8> {
    let cache = Cache::format(memory(), &config(), Moment::default()).unwrap();
    for id in 0..NAMES {
        let (name, value) = (name(id), value(id));
        let entry = Entry { value: &value, ttl_s: 100, source: &name, generation: cache.generation() };
        let _ = cache.insert(&key(&cache, &name), &entry, cache.time(0));
    }
    let (mut stream, mut snapshot) = (vec![], Snapshot::default());
    while snapshot.next(&cache, 1000, &mut stream) {}
    stream
}

fn look(cache: &Cache, scratch: &mut Scratch) {
    for id in 0..NAMES {
        if let Some(hit) = cache.probe(&key(cache, &name(id)), cache.time(0), scratch) {
            assert_eq!(hit.value, value(id), "{id}");
        }
    }
    let mut progress = Progress::default();
    while cache.visit(&mut progress, 100, cache.time(0), scratch, &mut |_| {}) {}
}

fuzz_target!(|edits: &[u8]| {
    let mut stream = GOOD.with(Clone::clone);
    let (edits, cut) = edits.as_chunks::<4>();
    for [a, b, c, change] in edits {
        let at = u32::from_le_bytes([*a, *b, *c, 0]) as usize % stream.len();
        stream[at] ^= change;
    }
    if let [low, high, ..] = cut {
        let len = usize::from(u16::from_le_bytes([*low, *high])) * stream.len() >> 16;
        stream.truncate(len);
    }
    let Some((header, rest)) = stream.split_first_chunk::<HEADER_OCTETS>() else { return };
    MEMORY.with_borrow(|memory| {
        let Ok((cache, mut restore)) = Restore::begin(memory, &config(), Moment::default(), header) else { return };
        let mut scratch = Scratch::default();
        for octets in rest.chunks(5_000) {
            let goes_on = restore.feed(&cache, octets);
            look(&cache, &mut scratch);
            if !goes_on {
                break;
            }
        }
        restore.end(&cache);
        look(&cache, &mut scratch);
        for id in 0..NAMES {
            // Storing over what is damaged neither panics nor makes it be believed.
            let (name, value) = (name(id), value(id));
            let entry = Entry { value: &value, ttl_s: 100, source: &name, generation: cache.generation() };
            let _ = cache.insert(&key(&cache, &name), &entry, cache.time(0));
        }
        look(&cache, &mut scratch);
    });
});
