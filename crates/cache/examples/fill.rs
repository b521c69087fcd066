//! Fourteen million entries into an empty cache that has just room for them: what an insert costs, what the longest
//! one costs, how many entries are found again, and how many octets an entry takes beyond its own.
//!
//! Times are the thread's own CPU time, so that what else the machine does is mostly not in them. What is in them all the same
//! (interrupts, and time that a host takes from a guest: 10 ms at once, where it deals in such slices) is told apart in two ways.
//! The same entries come twice, in the same order, into the same memory emptied: what an insert has to do, it has to do both
//! times, and what the machine does meets another one; so the less of an insert's two times is its own. And plain stores to
//! other memory, as large and as long untouched, are made in turns with the inserts, every thousand, for as long as these took:
//! what the inserts alone do, is not in the longest of them.
//!
//! Meanwhile another thread asks for a thousand names that are there, so many times a second, each time when it is due: how long
//! a hit takes by the wall clock from then on, before the filling and during it.
//!
//! With `--one-cpu` all threads share one CPU, the last that they may have: who asks sleeps until the next question is due, and
//! goes first then (nice -20, where that is allowed; who fills has nice 19). A host that takes a CPU from a guest when all of
//! its CPUs are busy has no reason to. How long a hit takes counts the waking up then, before the filling as during it.
//!
//! cargo run --release -p cache --example fill [--one-cpu] [MILLIONS [OCTETS OF A VALUE [HITS A SECOND]]]
// An example is a program: it reads its arguments.
#![allow(clippy::disallowed_methods)]

use cache::{AtomicU64, Cache, Config, Entry, Event, Key, Kind, Moment, Scratch, Variant};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, clock_nanosleep_absolute, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const NAME: usize = 20;
/// Of an entry's octets: what the caller brings. Its type and the length of its name count as the store's.
const OWN: usize = NAME + 2;
/// Names that are asked for while others come in; none of those that come in.
const HOT: u64 = 1_000;
const HOT_FROM: u64 = 1 << 40;
/// Inserts, before it is the stores' turn.
const TURN: usize = 1000;
const QUIET_NS: u64 = 3_000_000_000;
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
    ns(ClockId::ThreadCPUTime)
}

fn wall_ns() -> u64 {
    ns(ClockId::Monotonic)
}

fn ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Lets the calling thread go first or last, as far as the system allows.
fn go(nice: i32) {
    let _ = setpriority_process(None, nice);
}

/// The process has one CPU from now on.
fn take_one_cpu() {
    let mine = sched_getaffinity(None).expect("the system says which CPUs there are");
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).rev().find(|&cpu| mine.is_set(cpu)).expect("there is one"));
    sched_setaffinity(None, &one).expect("it is one of those that it had");
}

fn wait_until(at_ns: u64, sleeps: bool) {
    if sleeps {
        let at = Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as i64 };
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
    }
    while wall_ns() < at_ns {
        std::hint::spin_loop();
    }
}

/// Asks for hot names until it is told to stop; how long each took, in nanoseconds since it was due, sorted.
fn ask(cache: &Cache, per_second: u64, one_cpu: bool, stop: &AtomicBool) -> Vec<u32> {
    if one_cpu {
        go(-20);
    }
    let (mut scratch, start_ns, mut took) = (Scratch::default(), wall_ns(), Vec::new());
    let now_s = cache.time(0);
    while !stop.load(Relaxed) {
        let due_ns = took.len() as u64 * 1_000_000_000 / per_second;
        wait_until(start_ns + due_ns, one_cpu);
        let name = name(HOT_FROM + took.len() as u64 * 7919 % HOT);
        let hit = cache.probe(&key(cache, &name), now_s, &mut scratch);
        assert!(hit.is_some_and(|hit| hit.value.len() > 4), "a hot name was forgotten");
        took.push((wall_ns() - start_ns - due_ns).min(u64::from(u32::MAX)) as u32);
    }
    took.sort_unstable();
    took
}

/// Plain stores of as many words as a record has, through memory of their own; the times of those that took long.
struct Stores {
    memory: Vec<AtomicU64>,
    words: usize,
    made: u64,
    long: Vec<u32>,
}

impl Stores {
    fn new(bytes: usize, words: usize) -> Stores {
        let memory = (0..bytes / 8).map(|_| AtomicU64::new(1)).collect();
        Stores { memory, words, made: 0, long: Vec::new() }
    }

    fn make_for(&mut self, all_ns: u64, clock: u64) {
        let mut took_ns = 0;
        while took_ns < all_ns {
            let start = cpu_ns();
            let at = self.made as usize * self.words % (self.memory.len() - self.words);
            self.memory[at..].iter().take(self.words).for_each(|word| word.store(self.made, Relaxed));
            let time = cpu_ns() - start;
            (self.made, took_ns) = (self.made + 1, took_ns + time);
            let time = time.saturating_sub(clock) as u32;
            if time > 10_000 {
                self.long.push(time);
            }
        }
    }
}

fn part(sorted: &[u32], p: f64) -> u32 {
    sorted.get((sorted.len().saturating_sub(1) as f64 * p) as usize).copied().unwrap_or(0)
}

fn tell_hits(what: &str, took: &[u32]) {
    let [p50, p999, p9999, longest] = [0.5, 0.999, 0.9999, 1.0].map(|p| part(took, p));
    println!("{} hits {what}: p50 {p50} ns, p99.9 {p999}, p99.99 {p9999}, longest {longest}", took.len());
}

fn tell_inserts(what: &str, mut took: Vec<u32>) {
    took.sort_unstable();
    let mean = took.iter().map(|&t| u64::from(t)).sum::<u64>() / took.len().max(1) as u64;
    let [p50, p999, p9999, longest] = [0.5, 0.999, 0.9999, 1.0].map(|p| part(&took, p));
    let slower = |ns: u32| took.len() - took.partition_point(|&t| t <= ns);
    let (over_100_us, over_1_ms) = (slower(100_000), slower(1_000_000));
    println!("{what}: mean {mean} ns, p50 {p50}, p99.9 {p999}, p99.99 {p9999}");
    println!("  longest {} us; above 100 us: {over_100_us}, above 1 ms: {over_1_ms}", longest / 1000);
}

fn main() {
    let one_cpu = std::env::args().any(|argument| argument == "--one-cpu");
    if one_cpu {
        take_one_cpu();
        go(19);
    }
    let mut arguments = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let entries = arguments.next().unwrap_or(14) * 1_000_000;
    let value = vec![7; arguments.next().unwrap_or(300) as usize];
    let per_second = arguments.next().unwrap_or(20_000);
    let record = (16 + 4 + NAME + value.len()).next_multiple_of(8);
    // The rings hold nine tenths of the memory for records of this size; while nothing is evicted, main is filled alone.
    let bytes = entries as usize * (record + 8 * 10 / 7 + 4 + 2) * 10 / 9;
    let memory: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(1)).collect();
    let config = Config { key: [7; 16], entry_bytes: record as u32, ..Config::default() };
    let memory: &[AtomicU64] = memory.leak();

    // Written, so that their pages are there before they are needed.
    let mut fillings = [(); 2].map(|()| vec![1u32; entries as usize]);
    let mut stores = Stores::new(bytes, record / 8);
    let clock: u64 = (0..10_000)
        .map(|_| {
            let t = cpu_ns();
            cpu_ns() - t
        })
        .min()
        .unwrap_or(0);
    let fill = |times: &mut [u32], stores: &mut Stores| {
        let cache = Cache::format(memory, &config, Moment::default()).expect("the memory is large enough");
        let (now_s, generation) = (cache.time(0), cache.generation());
        let store = |id: u64| {
            let name = name(id);
            let entry = Entry { value: &value, ttl_s: 3600, source: &name[4..], generation };
            let _ = cache.insert(&key(&cache, &name), &entry, now_s);
        };
        (HOT_FROM..HOT_FROM + HOT).for_each(store);
        let stop = AtomicBool::new(false);
        let asking = |during: &mut dyn FnMut()| {
            std::thread::scope(|threads| {
                let asking = (per_second > 0).then(|| threads.spawn(|| ask(&cache, per_second, one_cpu, &stop)));
                during();
                stop.store(true, Relaxed);
                let took = asking.map(|thread| thread.join().expect("it ends")).unwrap_or_default();
                stop.store(false, Relaxed);
                took
            })
        };
        let quiet = asking(&mut || {
            let start_ns = wall_ns();
            while per_second > 0 && wall_ns() - start_ns < QUIET_NS {
                std::thread::yield_now();
            }
        });
        let busy = asking(&mut || {
            for (turn, times) in times.chunks_mut(TURN).enumerate() {
                let begun = cpu_ns();
                for (nth, time) in times.iter_mut().enumerate() {
                    let start = cpu_ns();
                    store((turn * TURN + nth) as u64);
                    *time = (cpu_ns() - start).saturating_sub(clock) as u32;
                }
                stores.make_for(cpu_ns() - begun, clock);
            }
        });
        if per_second > 0 {
            tell_hits("while nothing came in", &quiet);
            tell_hits("while others came in", &busy);
        }
        tell_inserts("insert", times.to_vec());
        cache
    };
    let [first, second] = &mut fillings;
    drop(fill(first, &mut stores));
    let cache = fill(second, &mut stores);
    let own = first.iter().zip(second.iter()).map(|(&a, &b)| a.min(b));
    tell_inserts("the less of an insert's two times", own.collect());

    let now_s = cache.time(0);
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
    let brought = (OWN + value.len()) as u64;
    let index = 8 * stats.slots + stats.bytes - 8 * stats.slots - stats.bytes_for_records;
    println!(
        "octets an entry: {brought} its own; beyond: {NET} of its record and slot; {:.1} with borders, empty slots and ghosts",
        stats.bytes_used as f64 / stats.entries as f64 - brought as f64 + index as f64 / stats.entries as f64
    );
    println!("memory: {} MiB, of them {} MiB records", stats.bytes >> 20, stats.bytes_used >> 20);
    for event in Event::ALL.into_iter().filter(|&event| stats.event(event) > 0) {
        println!("  {} {}", event.name(), stats.event(event));
    }
    let over = |ns: u32| stores.long.iter().filter(|&&t| t > ns).count();
    let longest = stores.long.iter().max().map_or(0, |t| t / 1000);
    println!(
        "plain stores in turns with them: longest {longest} us; above 100 us: {}, above 1 ms: {}",
        over(100_000),
        over(1_000_000)
    );
}
