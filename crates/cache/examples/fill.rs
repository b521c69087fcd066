//! Fourteen million entries into an empty cache that has just room for them: what an insert costs, what the longest
//! one costs, how many entries are found again, and how many octets an entry takes beyond its own.
//!
//! Times are the thread's own CPU time, so that what else the machine does is not in them.
//!
//! cargo run --release -p cache --example fill [MILLIONS [OCTETS OF A VALUE]]
// An example is a program: it reads its arguments.
#![allow(clippy::disallowed_methods)]

use cache::{AtomicU64, Cache, Config, Entry, Event, Key, Kind, Moment, Scratch, Variant};
use rustix::time::{ClockId, clock_gettime};

const NAME: usize = 20;
/// Of an entry's octets: what the caller brings. Its type and the length of its name count as the store's.
const OWN: usize = NAME + 2;
/// Each record's head and its slot.
const NET: usize = 16 + 8;

fn name(id: u64) -> [u8; NAME] {
    let mut name = *b"\x12na0000000000000000\0";
    let mut rest = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for digit in &mut name[3..19] {
        *digit = b"0123456789abcdef"[rest as usize & 15];
        rest >>= 4;
    }
    name
}

fn key<'a>(cache: &Cache, name: &'a [u8]) -> Key<'a> {
    cache.key(cache.hash(name), name, 1, Kind::Answer, Variant::PLAIN)
}

fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let entries = arguments.next().unwrap_or(14) * 1_000_000;
    let value = vec![7; arguments.next().unwrap_or(300) as usize];
    let record = (16 + 4 + NAME + value.len()).next_multiple_of(8);
    // The rings hold nine tenths of the memory for records of this size; while nothing is evicted, main is filled alone.
    let bytes = entries as usize * (record + 8 * 10 / 7 + 4 + 2) * 10 / 9;
    let memory: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(1)).collect();
    let config = Config { key: [7; 16], entry_bytes: record as u32, ..Config::default() };
    let cache = Cache::format(memory.leak(), &config, Moment::default()).expect("the memory is large enough");
    let (now_s, generation) = (cache.time(0), cache.generation());

    // Written, so that its pages are there before they are needed.
    let mut times = vec![1u32; entries as usize];
    let clock: u64 = (0..10_000)
        .map(|_| {
            let t = cpu_ns();
            cpu_ns() - t
        })
        .min()
        .unwrap_or(0);
    for (id, time) in times.iter_mut().enumerate() {
        let name = name(id as u64);
        let start = cpu_ns();
        let entry = Entry { value: &value, ttl_s: 3600, source: &name[4..], generation };
        let _ = cache.insert(&key(&cache, &name), &entry, now_s);
        *time = (cpu_ns() - start).saturating_sub(clock) as u32;
    }
    let mean = times.iter().map(|&t| u64::from(t)).sum::<u64>() / entries;
    let slow = |ns: u32| times.iter().filter(|&&t| t > ns).count();
    let (over_100_us, over_1_ms) = (slow(100_000), slow(1_000_000));
    times.sort_unstable();
    let part = |p: f64| times[((times.len() - 1) as f64 * p) as usize];
    println!("insert: mean {mean} ns, p50 {}, p99.9 {}, p99.99 {}", part(0.5), part(0.999), part(0.9999));
    println!("longest insert: {} us; above 100 us: {over_100_us}, above 1 ms: {over_1_ms}", part(1.0) / 1000);

    let mut scratch = Scratch::default();
    let start = cpu_ns();
    let found = (0..entries).filter(|&id| cache.probe(&key(&cache, &name(id)), now_s, &mut scratch).is_some()).count();
    println!(
        "found again: {:.4} % of {entries}; {} ns a probe",
        found as f64 * 100.0 / entries as f64,
        (cpu_ns() - start) / entries
    );
    let stats = cache.stats();
    println!("longest probe: {} slots", stats.longest_probe);
    let own = (OWN + value.len()) as u64;
    let index = 8 * stats.slots + stats.bytes - 8 * stats.slots - stats.bytes_for_records;
    println!(
        "octets an entry: {own} its own; beyond: {NET} of its record and slot; {:.1} with borders, empty slots and ghosts",
        stats.bytes_used as f64 / stats.entries as f64 - own as f64 + index as f64 / stats.entries as f64
    );
    println!("memory: {} MiB, of them {} MiB records", stats.bytes >> 20, stats.bytes_used >> 20);
    for event in Event::ALL.into_iter().filter(|&event| stats.event(event) > 0) {
        println!("  {} {}", event.name(), stats.event(event));
    }
}
