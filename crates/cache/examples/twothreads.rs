//! Two threads on the way that a hit takes (hash, prefetch, probe, write), beside one: all on one hot name, and on a
//! thousand names uniformly. Each thread's hits for a second of its own CPU time: what a shared line that is written
//! would cost shows there, and what else the machine does shows not.
//!
//! cargo run --release -p cache --example twothreads [NAMES]
// An example is a program: it reads its arguments.
#![allow(clippy::disallowed_methods)]

use cache::{AtomicU64, Bounds, Cache, Config, Entry, Kind, Moment, Scratch, Variant, pack};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Barrier;
use wire::reply::{Flags, Reply};

const ROUNDS: usize = 5;
const HITS: usize = 4_000_000;
const BATCH: usize = 32;

fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The response of a server to the question for a name's address.
fn message(name: &[u8]) -> Vec<u8> {
    let record = b"\xc0\x0c\0\x01\0\x01\0\0\x0e\x10\0\x04\xc0\0\x02\x01";
    [b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0", name, b"\0\x01\0\x01", record].concat()
}

/// Nanoseconds of its own that a hit takes this thread.
fn hits(cache: &Cache, names: &[Vec<u8>], mut seed: usize, start: &Barrier) -> f64 {
    let mut scratch = Scratch::default();
    let questions: Vec<Vec<u8>> = names.iter().map(|name| message(name)).collect();
    let mut buffers = vec![[0u8; 512]; BATCH];
    let now_s = cache.time(0) + 1;
    start.wait();
    let began = cpu_ns();
    for _ in 0..HITS / BATCH {
        let batch: [usize; BATCH] = std::array::from_fn(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % names.len()
        });
        let keys = batch.map(|i| cache.key(cache.hash(&names[i]), &names[i], 1, Kind::Answer, Variant::PLAIN));
        let mut sought = keys.map(|key| cache.seek(&key));
        sought.iter_mut().for_each(|sought| cache.fetch(sought, Kind::Failure));
        for ((sought, i), buffer) in sought.iter().zip(batch).zip(&mut buffers) {
            let question_end = 12 + names[i].len() + 4;
            buffer[..question_end].copy_from_slice(&questions[i][..question_end]);
            let hit = cache.take(sought, &names[i], now_s, &mut scratch).expect("it was stored");
            let answer = hit.answer().expect("it is an answer");
            let mut reply = Reply::begin(buffer, question_end, 512, 0);
            answer.write(&hit, &mut reply);
            reply.finish(Flags::NONE, answer.rcode(), None);
        }
    }
    (cpu_ns() - began) as f64 / HITS as f64
}

fn main() {
    let count = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1000);
    let memory: Vec<AtomicU64> = (0..(count * 400 / 8).max(8 << 17)).map(|_| AtomicU64::new(0)).collect();
    let config = Config { key: [7; 16], ..Config::default() };
    let cache = Cache::format(memory.leak(), &config, Moment::default()).expect("the memory is large enough");
    let names: Vec<Vec<u8>> = (0..count).map(|i| format!("\x08{i:08}\x07example\0").into_bytes()).collect();
    let mut value = vec![];
    for name in &names {
        let packed = pack(&message(name), &Bounds::default(), &mut value).expect("it is a response");
        let key = cache.key(cache.hash(name), name, 1, Kind::Answer, Variant::PLAIN);
        let entry = Entry { value: &value, ttl_s: packed.ttl_s, source: &name[9..], generation: cache.generation() };
        cache.insert(&key, &entry, cache.time(0)).expect("there is one writer");
    }
    for (what, names) in [("one hot name", &names[..1]), ("uniformly", &names[..])] {
        let mut best = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            let alone = hits(&cache, names, 1, &Barrier::new(1));
            let barrier = Barrier::new(2);
            let both = std::thread::scope(|threads| {
                let run = |seed| {
                    let (cache, barrier) = (&cache, &barrier);
                    threads.spawn(move || hits(cache, names, seed, barrier))
                };
                let (a, b) = (run(1), run(2));
                a.join().expect("a thread ends").max(b.join().expect("a thread ends"))
            });
            best = [best[0].min(alone), best[1].min(both)];
        }
        let [alone, both] = best;
        println!("{what}: one thread {alone:.1} ns a hit, of two the slower {both:.1}: {:.2} x", 2.0 * alone / both);
    }
}
