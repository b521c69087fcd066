//! What a client who is resolved for gets of the cache as its entries age: fresh, near their end, expired, failed.

use cache::{AtomicU64, Bounds, Cache, Config, Entry, Kind, Moment, Variant};
use front::{Composed, Miss, Purpose, Resolving, Setup, Told as Outcome, Transport, Verdict, Wanted};
use policy::Acl;
use sim::forwarding::{name_of, reply};
use sim::{CLIENT, Server, image_of, message};
use stats::Counter;
use std::sync::Arc;
use wire::{Rcode, rtype};

const ZONE: [(&str, &str); 1] =
    [("ours.", "$TTL 60\n@ SOA ns h 9 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nalias CNAME www.example.\n")];
const STALE_ANSWER: u8 = 3;
const CACHED_ERROR: u8 = 13;
const COOKIE: u16 = 10;

/// An answer's rcode, the TTL of its address, its extended error.
type Told = (u8, Option<u32>, Option<u8>);

struct Stage {
    server: Server,
    cache: Arc<Cache>,
    seconds: u32,
}

impl Stage {
    fn new(prefetch: bool, serve_stale: bool) -> Stage {
        let memory: Vec<AtomicU64> = (0..1 << 18).map(|_| AtomicU64::new(0)).collect();
        let start = Moment { boot: 0, boot_s: 0, wall_s: 1_800_000_000 };
        let config = Config { key: [7; 16], stale_s: 86_400, ..Config::default() };
        let cache = Arc::new(Cache::format(memory.leak(), &config, start).unwrap());
        let allow = Acl::new(vec!["192.0.2.0/24".parse().unwrap()]);
        let resolving = Resolving { cache: Arc::clone(&cache), allow, prefetch, serve_stale };
        let setup = Setup { resolving: Some(resolving), cookie_secret: Some([3; 16]), ..Setup::default() };
        let server = Server::with(image_of(&ZONE).0, setup);
        Stage { server, cache, seconds: 0 }
    }

    fn keep(&self, name: &str, kind: Kind, value: &[u8], ttl_s: u32) {
        let name = name_of(name);
        let key = self.cache.key(self.cache.hash(name.bytes()), name.bytes(), rtype::A, kind, Variant::PLAIN);
        let entry = Entry { value, ttl_s, source: b"\0", generation: self.cache.generation() };
        self.cache.insert(&key, &entry, self.cache.time(u64::from(self.seconds))).unwrap();
    }

    fn keep_address(&self, name: &str, ttl_s: u32) {
        let packet = message::packet(name_of(name).bytes(), rtype::A, None);
        let answer = reply(&packet, 0, &[(&name_of(name), rtype::A, ttl_s, &[192, 0, 2, 9])], &[]);
        let (mut value, bounds) = (Vec::new(), Bounds { ttl_min: 0, ttl_max: 86_400, negative_max: 3_600 });
        cache::pack(&answer, &bounds, &mut value).unwrap();
        self.keep(name, Kind::Answer, &value, ttl_s);
    }

    fn pass(&mut self, seconds: u32) {
        self.seconds += seconds;
        self.server.now.mono_ns = u64::from(self.seconds) * 1_000_000_000;
    }

    /// The answer, and what is to be found out for it.
    fn ask(&mut self, name: &str) -> (Option<Told>, Option<Wanted>) {
        let mut query = message::query(&format!("{name} A"));
        query[2] |= 1;
        let answer = self.server.message(&query);
        let told = answer.map(|a| {
            let sections = message::sections(&a).unwrap();
            let opt = sections[2].iter().find(|r| r.rtype == rtype::OPT).unwrap();
            let ede = opt.rdata.windows(6).find(|w| w[..2] == [0, 15]).map(|w| w[5]);
            (a[3] & 15, sections[0].first().map(|r| r.ttl), ede)
        });
        let wanted = self.server.worker.next_postponed().map(|postponed| match postponed.purpose {
            Purpose::Resolve(miss) => miss.wanted,
            Purpose::Update | Purpose::Notify(_) | Purpose::Transfer => {
                panic!("nobody sent an update, or asked for a zone")
            }
        });
        assert!(self.server.worker.next_postponed().is_none());
        (told, wanted)
    }
}

#[test]
fn an_answer_near_its_end_is_given_and_asked_for_anew() {
    for prefetch in [true, false] {
        let mut s = Stage::new(prefetch, true);
        assert_eq!(s.ask("www.example"), (None, Some(Wanted::Answer)));
        s.keep_address("www.example", 100);
        s.pass(80);
        assert_eq!(s.ask("www.example"), (Some((0, Some(20), None)), None));
        s.pass(12);
        assert_eq!(s.ask("www.example"), (Some((0, Some(8), None)), prefetch.then_some(Wanted::Prefetch)));
    }
}

/// RFC 9520: who asks again within the second is told what was found out; RFC 8767: or what has expired.
#[test]
fn a_failure_is_remembered_and_what_has_expired_is_given_rather() {
    let mut s = Stage::new(true, true);
    s.keep("www.example", Kind::Failure, &[0], 1);
    assert_eq!(s.ask("www.example"), (Some((2, None, Some(CACHED_ERROR))), None));
    s.pass(1);
    assert_eq!(s.ask("www.example"), (None, Some(Wanted::Answer)), "and asked for again a second later");
    for serve_stale in [true, false] {
        let mut s = Stage::new(true, serve_stale);
        s.keep_address("www.example", 10);
        s.pass(20);
        assert_eq!(s.ask("www.example"), (None, Some(Wanted::Answer)), "what has expired is asked for first");
        s.keep("www.example", Kind::Failure, &[0], 1);
        let told = if serve_stale { (0, Some(30), Some(STALE_ANSWER)) } else { (2, None, Some(CACHED_ERROR)) };
        assert_eq!(s.ask("www.example"), (Some(told), None));
    }
}

/// The same for who has waited for what could not be found out.
#[test]
fn who_has_waited_is_given_what_has_expired_where_that_is_wanted() {
    for serve_stale in [true, false] {
        let mut s = Stage::new(true, serve_stale);
        s.keep_address("www.example", 10);
        s.pass(20);
        let (mut buffer, mut query) = (vec![0; 65_535], message::query("www.example A"));
        query[2] |= 1;
        buffer[..query.len()].copy_from_slice(&query);
        let told = Outcome::Stale(Rcode::SERVFAIL, None);
        let verdict = s.server.worker.tell(s.server.now, CLIENT, Transport::Tcp, &mut buffer, query.len(), &told);
        assert!(matches!(verdict, Verdict::Reply(_)));
        assert_eq!(buffer[3] & 15, if serve_stale { 0 } else { 2 });
        assert_eq!(s.server.counters.value(Counter::CacheHitStale), u64::from(serve_stale));
    }
}

#[test]
fn an_answer_of_several_parts_is_counted_once() {
    let mut s = Stage::new(true, true);
    s.keep_address("www.example", 100);
    let fresh = s.server.message(&message::with_option("ns.ours A", COOKIE, b"clientck")).unwrap();
    let mut query = message::with_option("alias.ours A", COOKIE, &message::option(&fresh, COOKIE).unwrap());
    query[2] |= 1;
    assert!(s.server.message(&query).is_none());
    let postponed = s.server.worker.next_postponed().map(|p| p.purpose);
    assert!(matches!(postponed, Some(Purpose::Resolve(Miss { wanted: Wanted::RestOfChain, .. }))));
    assert_eq!(s.server.counters.value(Counter::Answered), 1, "that of the cookie");
    let mut buffer = vec![0; 65_535];
    buffer[..query.len()].copy_from_slice(&query);
    let composed = s.server.worker.compose(s.server.now, CLIENT, Transport::Tcp, &mut buffer, query.len(), None);
    let Composed::Reply(len) = composed else { panic!("both parts are known") };
    assert_eq!(message::sections(&buffer[..len]).unwrap()[0].len(), 2);
    let count = |which| s.server.counters.value(which);
    let counters = [Counter::Answered, Counter::NoError, Counter::CacheHit, Counter::CookieValid];
    assert_eq!(counters.map(count), [2, 2, 1, 1]);
}
