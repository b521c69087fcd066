//! The protocol between readers and a writer under loom, which tries every order of their loads and stores (to a bound
//! of switches). Run by `scripts/loom`.
#![cfg(loom)]

use cache::{
    AtomicU64, Cache, Config, Dropped, Entry, Event, HEADER_OCTETS, Kind, Moment, Restore, Scratch, Snapshot, Variant,
};
use loom::sync::Arc;
use loom::thread;

const NAMES: [&[u8]; 3] = [b"\x01a\0", b"\x01b\0", b"\x01c\0"];

/// The smallest memory there is: its rings are overwritten by a few entries.
fn memory() -> &'static [AtomicU64] {
    (0..904).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
}

fn config() -> Config {
    Config { key: [3; 16], entry_bytes: 500, ..Config::default() }
}

fn cache() -> Arc<Cache> {
    Arc::new(Cache::format_zeros(memory(), &config(), Moment::default()).unwrap())
}

fn insert(cache: &Cache, name: usize, value: &[u8]) -> Result<(), Dropped> {
    let key = cache.key(cache.hash(NAMES[name]), NAMES[name], 1, Kind::Answer, Variant::PLAIN);
    let entry = Entry { value, ttl_s: 100, source: NAMES[name], generation: cache.generation() };
    cache.insert(&key, &entry, cache.time(0))
}

/// What is found is one of the values that were stored under that name, whole.
fn look(cache: &Cache, name: usize, values: &[&[u8]]) -> bool {
    let key = cache.key(cache.hash(NAMES[name]), NAMES[name], 1, Kind::Answer, Variant::PLAIN);
    let mut scratch = Scratch::default();
    let hit = cache.probe(&key, cache.time(0), &mut scratch);
    hit.is_some_and(|hit| {
        assert!(values.contains(&hit.value), "torn: {:?}", hit.value);
        true
    })
}

/// Orders that are tried where there are too many: each word that is read may be the old one or the new one.
const ORDERS_MAX: usize = 20_000;

/// Says how many orders there were to try: with `--nocapture` it is seen.
fn model(switches: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.max_branches = 100_000;
    builder.max_permutations = Some(ORDERS_MAX);
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let tried = std::sync::Arc::clone(&orders);
    builder.check(move || {
        tried.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        run();
    });
    let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
    println!("{orders} orders tried");
}

#[test]
fn a_reader_sees_an_entry_whole_or_not_at_all() {
    model(3, || {
        let cache = cache();
        let writer = thread::spawn({
            let cache = Arc::clone(&cache);
            move || insert(&cache, 0, &[1; 20]).unwrap()
        });
        look(&cache, 0, &[&[1; 20]]);
        writer.join().unwrap();
        assert!(look(&cache, 0, &[&[1; 20]]));
    });
}

#[test]
fn a_reader_sees_the_old_or_the_new() {
    model(4, || {
        let cache = cache();
        insert(&cache, 0, &[1; 20]).unwrap();
        let writer = thread::spawn({
            let cache = Arc::clone(&cache);
            move || insert(&cache, 0, &[2; 20]).unwrap()
        });
        assert!(look(&cache, 0, &[&[1; 20], &[2; 20]]));
        writer.join().unwrap();
        assert!(look(&cache, 0, &[&[2; 20]]));
    });
}

#[test]
fn what_is_overwritten_while_it_is_read_is_not_given() {
    let outcomes: [std::sync::Arc<std::sync::atomic::AtomicU64>; 2] = Default::default();
    let counted = outcomes.clone();
    model(2, move || {
        let cache = cache();
        // One ring is full of these; the other has room for one record, which the next one takes the place of.
        (0..4).for_each(|_| insert(&cache, 2, &[2; 200]).unwrap());
        insert(&cache, 0, &[0; 200]).unwrap();
        let writer = thread::spawn({
            let cache = Arc::clone(&cache);
            move || (0..2).for_each(|_| insert(&cache, 1, &[1; 200]).unwrap())
        });
        let is_given = look(&cache, 0, &[&[0; 200]]);
        counted[usize::from(!is_given)].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        writer.join().unwrap();
    });
    // Else the record was not overwritten, or always before it was looked for, and nothing was tried.
    let [given, lost] = outcomes.map(|n| n.load(std::sync::atomic::Ordering::Relaxed));
    println!("{given} times given, {lost} times not");
    assert!(given > 0 && lost > 0);
}

/// A slot shows up before the cursors that make it mean something, and these after the record. Who saw the cursors and not
/// the record would take it for damaged, and forget it.
#[test]
fn what_is_read_back_is_there_whole_or_not_yet() {
    let written = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let copied = std::sync::Arc::clone(&written);
    model(0, move || {
        let (before, mut snapshot, mut octets) = (cache(), Snapshot::default(), Vec::new());
        insert(&before, 0, &[1; 20]).unwrap();
        while snapshot.next(&before, 1 << 16, &mut octets) {}
        *copied.lock().unwrap() = octets;
    });
    let octets = std::mem::take(&mut *written.lock().unwrap());
    model(2, move || {
        let (header, rest) = octets.split_first_chunk::<HEADER_OCTETS>().unwrap();
        let (cache, mut restore) = Restore::begin_zeros(memory(), &config(), Moment::default(), header).unwrap();
        let (cache, rest) = (Arc::new(cache), rest.to_vec());
        let writer = thread::spawn({
            let cache = Arc::clone(&cache);
            move || assert!(!restore.feed(&cache, &rest), "that was all")
        });
        look(&cache, 0, &[&[1; 20]]);
        writer.join().unwrap();
        assert!(look(&cache, 0, &[&[1; 20]]));
        assert_eq!(cache.stats().event(Event::Damaged), 0);
    });
}

#[test]
fn a_second_writer_goes_away_and_disturbs_nothing() {
    model(4, || {
        let cache = cache();
        let other = thread::spawn({
            let cache = Arc::clone(&cache);
            move || [insert(&cache, 0, &[1; 8]), insert(&cache, 0, &[2; 8])]
        });
        let mine = insert(&cache, 1, &[3; 8]);
        let others = other.join().unwrap();
        assert!(others.iter().chain([&mine]).all(|r| matches!(r, Ok(()) | Err(Dropped::Busy))));
        assert!(mine.is_ok() || others.contains(&Ok(())));
        assert_eq!(look(&cache, 0, &[&[1; 8], &[2; 8]]), others.contains(&Ok(())));
        assert_eq!(look(&cache, 1, &[&[3; 8]]), mine.is_ok());
    });
}
