//! Any sequence of stores, questions, expiries, flushes, generations, clock jumps, restarts and snapshots beside a twin
//! that is nothing but a map. The cache may forget what it likes; what it gives is what was stored last under that very
//! key, by the kind, the variant, the type and the name, and neither flushed nor outdated nor expired.
#![cfg(not(loom))]

use cache::{
    AtomicU64, Cache, Config, Entry, Extent, Freshness, HEADER_OCTETS, Key, Kind, Moment, Progress, Restore, Scratch,
    Snapshot, Sweep, Variant,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

const NAMES: [&[u8]; 8] = [
    b"\0",
    b"\x07example\0",
    b"\x01a\x07example\0",
    b"\x01b\x07example\0",
    b"\x01c\x01b\x07example\0",
    b"\x0aother-name\0",
    b"\x01x\x0aother-name\0",
    b"\x3faaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x07example\0",
];
const STALE_S: u32 = 100;
/// What counts of a clock that went back, in seconds.
const DOUBT_S: u64 = 30;
const WORDS: usize = 6_000;

thread_local! {
    /// One memory for all cases of a thread: a cache never gives its memory back.
    static MEMORY: RefCell<&'static [AtomicU64]> = RefCell::new(memory());
}

fn memory() -> &'static [AtomicU64] {
    (0..WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    name: usize,
    rtype: u16,
    kind: Kind,
    variant: Variant,
}

#[derive(Clone, Debug)]
enum Step {
    Store { question: Question, octets: usize, ttl_s: u32 },
    Ask(Question),
    Renew(Question),
    Pass { seconds: u64 },
    SetBack { seconds: u64, noticed: bool },
    Flush { name: usize, extent: Extent },
    Sweep { slots: usize },
    NewGeneration,
    TakeOver { same_boot: bool, off_s: i64 },
    Reread { spoil: Option<(usize, u8)>, cut: Option<usize> },
}

fn question() -> impl Strategy<Value = Question> {
    let variants = [
        Variant::PLAIN,
        Variant::DNSSEC_OK,
        Variant::CHECKING_DISABLED,
        Variant::DNSSEC_OK.and(Variant::CHECKING_DISABLED),
    ];
    let kinds = prop::sample::select(vec![Kind::Answer, Kind::Answer, Kind::RrSet, Kind::Failure]);
    (0..NAMES.len(), 1..3u16, kinds, prop::sample::select(variants.to_vec()))
        .prop_map(|(name, rtype, kind, variant)| Question { name, rtype, kind, variant })
}

fn step() -> impl Strategy<Value = Step> {
    let extent = prop::sample::select(vec![Extent::Name, Extent::Tree]);
    let ttl = prop_oneof![1..5u32, 20..200u32];
    prop_oneof![
        8 => (question(), 0..900usize, ttl).prop_map(|(question, octets, ttl_s)| Step::Store { question, octets, ttl_s }),
        12 => question().prop_map(Step::Ask),
        1 => question().prop_map(Step::Renew),
        3 => prop_oneof![0..3u64, 0..60u64].prop_map(|seconds| Step::Pass { seconds }),
        1 => (3..500u64, any::<bool>()).prop_map(|(seconds, noticed)| Step::SetBack { seconds, noticed }),
        1 => (0..NAMES.len(), extent).prop_map(|(name, extent)| Step::Flush { name, extent }),
        1 => (1..400usize).prop_map(|slots| Step::Sweep { slots }),
        1 => Just(Step::NewGeneration),
        1 => (any::<bool>(), -50..100i64).prop_map(|(same_boot, off_s)| Step::TakeOver { same_boot, off_s }),
        1 => (prop::option::of((0..WORDS * 8, 1..=255u8)), prop::option::of(0..WORDS * 8))
            .prop_map(|(spoil, cut)| Step::Reread { spoil, cut }),
    ]
}

/// What the twin knows of an entry.
#[derive(Clone, Debug)]
struct Known {
    value: Vec<u8>,
    ttl_s: u32,
    stored: u64,
    generation: u32,
    is_flushed: bool,
    /// How often a clock had gone back by then.
    doubts: usize,
}

struct Twin {
    memory: &'static [AtomicU64],
    cache: Cache,
    scratch: Scratch,
    sweep: Sweep,
    clock: Moment,
    /// Seconds that passed as far as anybody can know.
    elapsed: u64,
    /// When a clock went back.
    doubts: Vec<u64>,
    known: BTreeMap<Question, Known>,
    serial: u32,
    is_set_back: bool,
}

fn config() -> Config {
    Config { key: [9; 16], stale_s: STALE_S, entry_bytes: 300, ..Config::default() }
}

fn key<'a>(cache: &Cache, q: Question) -> Key<'a> {
    cache.key(cache.hash(NAMES[q.name]), NAMES[q.name], q.rtype, q.kind, q.variant)
}

impl Twin {
    fn new(memory: &'static [AtomicU64]) -> Twin {
        let clock = Moment { boot: 1, boot_s: 200_000, wall_s: 1_700_000_000 };
        let cache = Cache::format(memory, &config(), clock).unwrap();
        let (scratch, sweep) = (Scratch::default(), Sweep::default());
        Twin {
            memory,
            cache,
            scratch,
            sweep,
            clock,
            elapsed: 0,
            doubts: vec![],
            known: BTreeMap::new(),
            serial: 0,
            is_set_back: false,
        }
    }

    fn now(&self) -> u32 {
        self.cache.time(self.clock.boot_s)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Store { question, octets, ttl_s } => self.store(question, octets, ttl_s),
            Step::Ask(question) => self.ask(question),
            Step::Renew(question) => self.renew(question),
            Step::Pass { seconds } => self.pass(seconds),
            Step::SetBack { seconds, noticed } => self.set_back(seconds, noticed),
            Step::Flush { name, extent } => self.flush(name, extent),
            Step::Sweep { slots } => {
                self.cache.sweep(&mut self.sweep, slots, &mut self.scratch);
            }
            Step::NewGeneration => self.cache.next_generation(),
            Step::TakeOver { same_boot, off_s } => self.take_over(same_boot, off_s),
            Step::Reread { spoil, cut } => self.reread(spoil, cut),
        }
    }

    fn store(&mut self, question: Question, octets: usize, ttl_s: u32) {
        self.serial += 1;
        let value: Vec<u8> = self.serial.to_le_bytes().into_iter().cycle().take(octets).collect();
        let generation = self.cache.generation();
        let entry = Entry { value: &value, ttl_s, source: NAMES[question.name], generation };
        self.cache.insert(&key(&self.cache, question), &entry, self.now()).unwrap();
        let (stored, doubts) = (self.elapsed, self.doubts.len());
        self.known.insert(question, Known { value, ttl_s, stored, generation, is_flushed: false, doubts });
    }

    fn ask(&mut self, question: Question) {
        let now_s = self.now();
        let Some(hit) = self.cache.probe(&key(&self.cache, question), now_s, &mut self.scratch) else { return };
        let known = self.known.get(&question).expect("nobody stored this");
        assert_eq!(hit.value, known.value, "another's value, or an older one");
        assert!(!known.is_flushed, "it was flushed");
        assert_eq!(known.generation, self.cache.generation(), "the zones are others by now");
        let age = self.elapsed - known.stored;
        let stale_s = if hit.freshness == Freshness::Stale { u64::from(STALE_S) } else { 0 };
        assert!(age < u64::from(known.ttl_s) + stale_s, "{age} s old, {} to live", known.ttl_s);
        assert!(u64::from(hit.left_s) <= u64::from(known.ttl_s).saturating_sub(age));
        assert!(hit.ttl(known.ttl_s) <= known.ttl_s.max(30));
        if let Some(doubt) = self.doubts.get(known.doubts..).and_then(<[u64]>::last) {
            assert!(self.elapsed - doubt <= DOUBT_S + 1 + stale_s, "a clock went back {} s ago", self.elapsed - doubt);
            assert!(hit.ttl(known.ttl_s) <= DOUBT_S as u32);
        }
    }

    fn renew(&mut self, question: Question) {
        let generation = self.cache.generation();
        if self.cache.renew(&key(&self.cache, question), generation, self.now(), &mut self.scratch) {
            self.known.get_mut(&question).expect("nobody stored this").generation = generation;
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.notice();
        self.elapsed += seconds;
        self.clock.boot_s += seconds;
        self.clock.wall_s += seconds;
        self.cache.stamp(self.clock);
    }

    /// A clock may be set back for a while before anybody notices.
    fn set_back(&mut self, seconds: u64, noticed: bool) {
        self.clock.boot_s -= seconds;
        self.clock.wall_s -= seconds;
        self.is_set_back = true;
        if noticed {
            self.notice();
        }
    }

    fn notice(&mut self) {
        if std::mem::take(&mut self.is_set_back) {
            self.cache.stamp(self.clock);
            self.doubts.push(self.elapsed);
        }
    }

    fn flush(&mut self, name: usize, extent: Extent) {
        self.cache.flush(NAMES[name], extent, self.now());
        for (question, known) in &mut self.known {
            let is_below = wire::name::is_at_or_below(NAMES[question.name], NAMES[name]);
            known.is_flushed |= question.name == name || extent == Extent::Tree && is_below;
        }
    }

    fn restart(&mut self, same_boot: bool, off_s: i64) {
        let by = |clock: u64| clock.saturating_add_signed(off_s);
        self.clock.wall_s = by(self.clock.wall_s);
        if same_boot {
            self.clock.boot_s = by(self.clock.boot_s);
        } else {
            self.clock = Moment { boot: self.clock.boot + 1, boot_s: 200_000, ..self.clock };
        }
        match u64::try_from(off_s) {
            Ok(off_s) => self.elapsed += off_s,
            Err(_) if off_s < -2 => self.doubts.push(self.elapsed),
            Err(_) => {}
        }
        self.sweep = Sweep::default();
    }

    fn take_over(&mut self, same_boot: bool, off_s: i64) {
        // Whoever hands over has looked at the clock before.
        self.pass(0);
        self.restart(same_boot, off_s);
        self.cache = Cache::take_over(self.memory, &config(), self.clock).unwrap();
    }

    /// A snapshot is written and read back, perhaps spoilt or cut short on the way.
    fn reread(&mut self, spoil: Option<(usize, u8)>, cut: Option<usize>) {
        self.pass(0);
        let (mut stream, mut snapshot) = (vec![], Snapshot::default());
        while snapshot.next(&self.cache, 100, &mut stream) {}
        let whole = stream.len();
        if let Some((at, with)) = spoil {
            stream[at % whole] ^= with;
        }
        stream.truncate(cut.map_or(whole, |cut| cut % whole));
        let begun = stream
            .split_first_chunk::<HEADER_OCTETS>()
            .and_then(|(header, rest)| Some((Restore::begin(self.memory, &config(), self.clock, header).ok()?, rest)));
        let Some(((cache, mut restore), rest)) = begun else {
            *self = Twin::new(self.memory);
            return;
        };
        rest.chunks(777).all(|octets| restore.feed(&cache, octets));
        let missing = restore.end(&cache);
        assert!(spoil.is_some() || cut.is_some() || missing == 0);
        self.cache = cache;
        self.sweep = Sweep::default();
    }

    /// What a visit shows is what a question would find.
    fn visit(&mut self) {
        let (mut progress, now_s, known) = (Progress::default(), self.now(), &self.known);
        while self.cache.visit(&mut progress, 50, now_s, &mut self.scratch, &mut |visited| {
            let name = NAMES.iter().position(|name| *name == visited.name).expect("nobody stored this");
            let (rtype, kind, variant) = (visited.rtype, visited.kind, visited.variant);
            let known = &known[&Question { name, rtype, kind, variant }];
            if let Some(hit) = visited.hit {
                assert_eq!(hit.value, known.value);
            }
        }) {}
    }
}

fn all_questions(mut ask: impl FnMut(Question)) {
    for name in 0..NAMES.len() {
        for rtype in 1..3 {
            for kind in Kind::ALL {
                for variant in [Variant::PLAIN, Variant::DNSSEC_OK, Variant::CHECKING_DISABLED] {
                    ask(Question { name, rtype, kind, variant });
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_given_is_what_was_stored_for_that_asker(steps in prop::collection::vec(step(), 1..200)) {
        MEMORY.with_borrow(|memory| {
            let mut twin = Twin::new(memory);
            steps.iter().for_each(|s| twin.step(s));
            all_questions(|question| twin.ask(question));
            twin.visit();
        });
    }
}

#[test]
fn what_fits_is_found_again() {
    let mut twin = Twin::new(memory());
    let mut found = 0;
    all_questions(|question| {
        twin.store(question, 20, 100);
        found += usize::from(twin.cache.probe(&key(&twin.cache, question), twin.now(), &mut twin.scratch).is_some());
    });
    assert_eq!(found, 8 * 2 * 6 * 3);
}

#[test]
fn a_flushed_name_can_be_stored_again_at_once() {
    let mut twin = Twin::new(memory());
    let question = Question { name: 2, rtype: 1, kind: Kind::Answer, variant: Variant::PLAIN };
    let is_there = |twin: &mut Twin| {
        let now_s = twin.now();
        twin.cache.probe(&key(&twin.cache, question), now_s, &mut twin.scratch).is_some()
    };
    for (name, extent, expect) in
        [(2, Extent::Name, false), (1, Extent::Name, true), (1, Extent::Tree, false), (0, Extent::Tree, false)]
    {
        twin.store(question, 20, 100);
        assert!(is_there(&mut twin));
        twin.flush(name, extent);
        assert_eq!(is_there(&mut twin), expect, "{name} {extent:?}");
        twin.store(question, 20, 100);
        assert!(is_there(&mut twin));
        while twin.cache.sweep(&mut twin.sweep, 100, &mut twin.scratch) {}
        assert!(is_there(&mut twin));
    }
}

#[test]
fn what_a_spoilt_slot_still_points_to_is_not_shown() {
    let mut twin = Twin::new(memory());
    let question = Question { name: 5, rtype: 1, kind: Kind::Answer, variant: Variant::PLAIN };
    // The last octet of each word: a slot's tag, if it is one.
    for at in (HEADER_OCTETS + 7..WORDS * 8).step_by(8) {
        twin.store(question, 20, 100);
        twin.reread(Some((at, 1)), None);
        twin.store(question, 20, 100);
        twin.visit();
    }
}

#[test]
fn more_flushes_than_are_kept_flush_everything() {
    let mut twin = Twin::new(memory());
    let question = Question { name: 5, rtype: 1, kind: Kind::Answer, variant: Variant::PLAIN };
    twin.store(question, 20, 100);
    (0..17).for_each(|_| twin.flush(2, Extent::Name));
    assert!(twin.cache.probe(&key(&twin.cache, question), twin.now(), &mut twin.scratch).is_none());
    while twin.cache.sweep(&mut twin.sweep, 100, &mut twin.scratch) {}
    assert_eq!((twin.cache.stats().flushes_under_way, twin.cache.stats().entries), (0, 0));
}

#[test]
fn an_entry_ends_is_stale_and_is_gone() {
    let mut twin = Twin::new(memory());
    let question = Question { name: 5, rtype: 1, kind: Kind::Answer, variant: Variant::PLAIN };
    twin.store(question, 20, 100);
    for (seconds, expect) in [
        (0, Some((Freshness::Fresh, 100))),
        (89, Some((Freshness::Fresh, 11))),
        (1, Some((Freshness::Ending, 10))),
        (9, Some((Freshness::Ending, 1))),
        (1, Some((Freshness::Stale, 30))),
        (99, Some((Freshness::Stale, 30))),
        (1, None),
    ] {
        twin.pass(seconds);
        let now_s = twin.now();
        let hit = twin.cache.probe(&key(&twin.cache, question), now_s, &mut twin.scratch);
        assert_eq!(hit.map(|hit| (hit.freshness, hit.ttl(100))), expect, "{seconds}");
    }
}

#[test]
fn what_others_said_than_are_asked_now_is_flushed() {
    let mut twin = Twin::new(memory());
    let question = Question { name: 5, rtype: 1, kind: Kind::Answer, variant: Variant::PLAIN };
    twin.cache.govern(77);
    twin.store(question, 20, 100);
    for (sources, expect) in [(0, true), (1, false)] {
        let config = Config { sources, ..config() };
        twin.cache = Cache::take_over(twin.memory, &config, twin.clock).unwrap();
        twin.cache.govern(77);
        let (now_s, generation) = (twin.now(), twin.cache.generation());
        assert_eq!(twin.cache.probe(&key(&twin.cache, question), now_s, &mut twin.scratch).is_some(), expect);
        assert!(!twin.cache.renew(&key(&twin.cache, question), generation, now_s, &mut twin.scratch));
    }
    twin.store(question, 20, 100);
    assert!(twin.cache.probe(&key(&twin.cache, question), twin.now(), &mut twin.scratch).is_some());
}

#[test]
fn what_an_older_generation_stored_is_good_again_once_it_was_judged() {
    let mut twin = Twin::new(memory());
    let question = Question { name: 5, rtype: 1, kind: Kind::Answer, variant: Variant::PLAIN };
    twin.cache.govern(77);
    twin.store(question, 20, 100);
    let is_there = |twin: &mut Twin| {
        let now_s = twin.now();
        twin.cache.probe(&key(&twin.cache, question), now_s, &mut twin.scratch).is_some()
    };
    twin.cache.govern(77);
    assert!(is_there(&mut twin));
    let before = twin.cache.generation();
    twin.cache.govern(78);
    assert!(!is_there(&mut twin));
    let renew = |twin: &mut Twin, generation| {
        let now_s = twin.now();
        twin.cache.renew(&key(&twin.cache, question), generation, now_s, &mut twin.scratch)
    };
    assert!(!renew(&mut twin, before), "whoever says so looked at the zones before");
    assert!(renew(&mut twin, before + 1) && is_there(&mut twin));
    assert!(!renew(&mut twin, before + 1), "it is found anyway");
    twin.cache.govern(79);
    twin.pass(100);
    assert!(!renew(&mut twin, before + 2), "it has expired");
}
