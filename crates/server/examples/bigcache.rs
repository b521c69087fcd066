//! A cache with millions of answers, as forwarders would have given them, left as a snapshot for the server of a
//! configuration to start from.
//!
//!     bigcache CONFIG MILLIONS [ADDRESSES]      names n0.big.test, n1.big.test, ...: kept for a day; an address each
//!
//! Prints how long it took and what was stored. The snapshot stands in the configuration's data-dir.

use cache::{Bounds, Cache, Entry, Key, Kind, Scratch, Variant, pack};
use server::resolving::memory;
use server::resolving::shelf::Shelf;
use std::path::Path;
use std::time::Instant;
use store::Memory;

/// The fingerprint of a server without zones.
const NO_ZONES: u64 = 1;

fn name(id: u64) -> Vec<u8> {
    let label = format!("n{id}");
    [&[label.len() as u8], label.as_bytes(), b"\x03big\x04test\0"].concat()
}

/// The response of a server to the question for a name's addresses.
fn message(name: &[u8], id: u64, addresses: u8) -> Vec<u8> {
    let address = (0x0A00_0000 | id as u32 & 0x00FF_FFFF).to_be_bytes();
    let record = [b"\xc0\x0c\0\x01\0\x01\0\x01\x51\x80\0\x04", &address[..]].concat();
    let head = [b"\0\0\x81\x80\0\x01\0", &[addresses][..], b"\0\0\0\0", name, b"\0\x01\0\x01"].concat();
    [head, record.repeat(usize::from(addresses))].concat()
}

fn key<'n>(cache: &Cache, name: &'n [u8]) -> Key<'n> {
    cache.key(cache.hash(name), name, 1, Kind::Answer, Variant::PLAIN)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(millions)) = (arguments.next(), arguments.next().and_then(|n| n.parse::<f64>().ok())) else {
        panic!("bigcache CONFIG MILLIONS [ADDRESSES]");
    };
    let addresses = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let config = server::config::read(Path::new(&file)).unwrap_or_else(|complaints| panic!("{complaints:?}"));
    let entries = (millions * 1e6) as u64;
    let memory = Memory::create(c"bigcache", config.cache.size as usize).expect("memory");
    let rules = server::resolving::rules(&config).expect("random numbers");
    let now = memory::moment(memory::boot());
    let cache = Cache::format_zeros(memory.words(), &rules, now).expect("cache.size is large enough");
    cache.govern(NO_ZONES);
    let (start, now_s, generation) = (Instant::now(), cache.time(now.boot_s), cache.generation());
    let mut value = Vec::new();
    for id in 0..entries {
        let name = name(id);
        let packed = pack(&message(&name, id, addresses), &Bounds::default(), &mut value).expect("it is a response");
        let entry = Entry { value: &value, ttl_s: packed.ttl_s, source: &name, generation };
        let _ = cache.insert(&key(&cache, &name), &entry, now_s);
    }
    println!("{entries} answers stored in {:.1} s", start.elapsed().as_secs_f64());
    let mut scratch = Scratch::default();
    let is_there = |id: &u64| cache.probe(&key(&cache, &name(*id)), now_s, &mut scratch).is_some();
    let found = (0..entries).step_by(101).filter(is_there).count() as f64;
    println!("{:.4} % of them are found", found * 100.0 / entries.div_ceil(101) as f64);
    cache.stamp(memory::moment(now.boot));
    let (start, shelf) = (Instant::now(), Shelf::open(&config.server.data_dir).expect("the data folder"));
    let octets = shelf.write(&cache, || true).expect("room on the disk");
    println!("{} MiB written in {:.1} s", octets >> 20, start.elapsed().as_secs_f64());
}
