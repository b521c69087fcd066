//! A flood of names that nobody has asked before, all under one wildcard CNAME, through a forwarder into the cache: what
//! it leaves behind. `benches/kit/run flood` is the same with a whole server and as many names as one likes.

use cache::{AtomicU64, Bounds, Cache, Config, Entry, Freshness, Kind, Moment, Scratch, Variant};
use resolver::{Forward, Forwards, Outcome, Question, Settings};
use sim::forwarding::{MS, World, asked_name, name_of, reply};
use sim::rng::Rng;
use stats::Counter;
use wire::rtype;

const FORWARDER: &str = "192.0.2.1:53";
const NAMES: u32 = 200_000;
/// Clients that wait at a time.
const AT_ONCE: u32 = 64;
/// 16 MiB: room for a third of the names.
const WORDS: usize = 2 << 20;
const OTHERS: usize = 200;

struct Stage {
    world: World,
    cache: Cache,
    scratch: Scratch,
}

impl Stage {
    fn new() -> Stage {
        let zone = Forward { zone: name_of("."), servers: vec![FORWARDER.parse().unwrap()] };
        let settings = Settings { forwards: Forwards::new(vec![zone]), ..Settings::default() };
        let mut world = World::new(1, settings);
        let target = name_of("wild.test");
        world.server(FORWARDER, move |asked, _| {
            let name = asked_name(asked.packet);
            let chain = [(&name, rtype::CNAME, 300, target.bytes()), (&target, rtype::A, 300, &[192, 0, 2, 1][..])];
            vec![(MS, Some(reply(asked.packet, 0, &chain, &[])))]
        });
        let memory: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let start = Moment { boot: 0, boot_s: 0, wall_s: 1_800_000_000 };
        let config = Config { key: [7; 16], stale_s: 86_400, ..Config::default() };
        let cache = Cache::format(memory.leak(), &config, start).unwrap();
        Stage { world, cache, scratch: Scratch::default() }
    }

    /// Keeps what has ended, as a task thread does; how many there were.
    fn keep(&mut self) -> usize {
        let ends = std::mem::take(&mut self.world.ends);
        for end in &ends {
            let Outcome::Answer(answer) = &*end.outcome else { panic!("{:?}", end.outcome) };
            let (mut value, mut packed, bounds) =
                (Vec::new(), Vec::new(), Bounds { ttl_min: 0, ttl_max: 86_400, negative_max: 3_600 });
            cache::pack(&answer.message(&end.question), &bounds, &mut packed).unwrap();
            let written = cache::Written { rcode: answer.rcode, counts: answer.counts, body: &answer.body };
            let ttls = answer.ttls.iter().map(|ttl| (ttl.at, ttl.begins_set));
            cache::enclose(&written, ttls, &mut value).unwrap();
            assert_eq!(value, packed, "read again it is the same");
            let (question, generation) = (&end.question, self.cache.generation());
            let source = question.neighbourhood();
            let entry = Entry { value: &value, ttl_s: answer.lifetime_s, source, generation };
            self.cache.insert(&self.key(question), &entry, 1).unwrap();
        }
        ends.len()
    }

    fn key<'q>(&self, question: &'q Question) -> cache::Key<'q> {
        let hash = self.cache.hash(question.name());
        self.cache.key(hash, question.name(), question.qtype, Kind::Answer, Variant::PLAIN)
    }

    fn has(&mut self, name: &str) -> bool {
        let question = Question::new(&name_of(name), rtype::A, false, false);
        let key = self.key(&question);
        self.cache.probe(&key, 1, &mut self.scratch).is_some_and(|hit| hit.freshness == Freshness::Fresh)
    }

    fn ask(&mut self, names: impl Iterator<Item = String>) {
        names.enumerate().for_each(|(waiter, name)| self.world.ask(waiter as u32, &name, false).unwrap());
        self.world.run();
    }
}

fn other(i: usize) -> String {
    format!("www.others-{i}.example")
}

#[test]
fn random_names_under_one_wildcard_leave_nothing_behind_and_what_others_use_stays() {
    let (mut stage, mut rng) = (Stage::new(), Rng::new(1));
    stage.ask((0..OTHERS).map(other));
    assert_eq!(stage.keep(), OTHERS);
    (0..2).for_each(|_| assert!((0..OTHERS).all(|i| stage.has(&other(i)))));
    let (before, mut found) = (stage.cache.stats(), 0);
    for _ in 0..NAMES / AT_ONCE {
        let names: Vec<String> = (0..AT_ONCE).map(|_| format!("{:016x}.wild.test", rng.number())).collect();
        stage.ask(names.iter().cloned());
        assert_eq!(stage.keep(), AT_ONCE as usize);
        found += u32::from(stage.has(&names[0]));
        assert_eq!((stage.world.resolver.tasks(), stage.world.resolver.waiters(), stage.world.open()), (0, 0, 0));
    }
    assert!(found > NAMES / AT_ONCE / 100 * 99, "who asks again is served from the cache, {found} times");
    let after = stage.cache.stats();
    assert_eq!((after.bytes, after.slots), (before.bytes, before.slots));
    assert!(after.longest_probe <= 16, "{}", after.longest_probe);
    assert_eq!(stage.world.count(Counter::TaskAnswered), OTHERS as u64 + u64::from(NAMES / AT_ONCE * AT_ONCE));
    let kept = (0..OTHERS).filter(|&i| stage.has(&other(i))).count();
    assert_eq!(kept, OTHERS, "answers that were asked for again outlive the flood");
}
