//! The hit ratio under a mixture of asked-for and never-asked-again names, and what the probes and inserts cost.
//!
//! Two million names by a power law (the share of the k most asked-for is (k / n) ^ 0.1), room for a tenth of them; one in
//! five questions is for a name that nobody asks for again. What is not found is stored: 300 octets under a name of 20.
//!
//! cargo run --release -p cache --example trace [MIB [MILLIONS OF QUESTIONS]]
// An example is a program: it reads its arguments.
#![allow(clippy::disallowed_methods)]

use cache::{AtomicU64, Cache, Config, Entry, Event, Kind, Moment, Scratch, Variant};

const NAMES: f64 = 2e6;

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

fn name(id: u64) -> [u8; 20] {
    let mut name = *b"\x12??0000000000000000\0";
    let digits = format!("{id:016}");
    name[3..19].copy_from_slice(digits.as_bytes());
    name[1..3].copy_from_slice(b"na");
    name
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let mib = arguments.next().unwrap_or(70);
    let questions = arguments.next().unwrap_or(8) * 1_000_000;
    let memory: Vec<AtomicU64> = (0..mib << 17).map(|_| AtomicU64::new(0)).collect();
    let config = Config { key: [7; 16], entry_bytes: 344, share_percent: 100, ..Config::default() };
    let cache = Cache::format(memory.leak(), &config, Moment::default()).expect("the memory is large enough");
    let now_s = cache.time(0);
    let generation = cache.generation();
    let mut scratch = Scratch::default();
    let (mut seed, mut scans, mut asked, mut hits) = (88_172_645_463_325_252, 0, 0u64, 0u64);
    for _ in 0..questions {
        let is_scan = next(&mut seed) % 100 < 20;
        let id = if is_scan {
            scans += 1;
            1_000_000_000 + scans
        } else {
            asked += 1;
            let u = (next(&mut seed) >> 11) as f64 / (1u64 << 53) as f64;
            (NAMES * u.powi(10)) as u64
        };
        let name = name(id);
        let key = cache.key(cache.hash(&name), &name, 1, Kind::Answer, Variant::PLAIN);
        if cache.probe(&key, now_s, &mut scratch).is_some() {
            hits += u64::from(!is_scan);
        } else {
            let entry = Entry { value: &[7; 300], ttl_s: 3600, source: &name, generation };
            cache.insert(&key, &entry, now_s).expect("there is one writer");
        }
    }
    println!("{mib} MiB, {questions} questions: hit ratio {:.4}", hits as f64 / asked as f64);
    let stats = cache.stats();
    println!("{} entries", stats.entries);
    for event in Event::ALL {
        println!("  {:20} {}", event.name(), stats.events[event as usize]);
    }
}
