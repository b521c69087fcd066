//! What a client gets of an answer that was stored, beside a naive twin: a list of records that writes the whole message
//! anew for every query. Octet for octet, whoever asks: with DO or CD or AD, without EDNS, in whatever case, over
//! whatever size, at whatever age.

use cache::{AtomicU64, Bounds, Cache, Config, Entry, Kind, Moment, Variant};
use front::{Purpose, Resolving, Setup};
use policy::Acl;
use proptest::prelude::*;
use resolver::Question;
use sim::{Server, image_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{Ede, Name, rtype};

const ZONE: [(&str, &str); 1] = [("ours.", "$TTL 60\n@ SOA ns h 9 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n")];
const NAMES: [&[u8]; 4] = [b"\0", b"\x01a\x07example\0", b"\x01b\x07example\0", b"\x10much-longer-name\x04test\0"];
const TYPES: [u16; 3] = [rtype::A, rtype::TXT, rtype::RRSIG];
const BOUNDS: Bounds = Bounds { ttl_min: 0, ttl_max: 300, negative_max: 100 };
const SIZE_MAX: u16 = 1232;
const EDE_OPTION: usize = 6;
const OPT_FIXED: usize = 11;

/// By name, type, DO and CD: nothing else tells answers apart.
type Asked = (usize, u16, bool, bool);

#[derive(Clone, Debug)]
struct Record {
    /// None: the name asked, as a pointer to it.
    owner: Option<usize>,
    rtype: u16,
    ttl: u32,
    rdata: Vec<u8>,
}

/// What a server said.
#[derive(Clone, Debug)]
struct Said {
    rcode: u8,
    sections: [Vec<Record>; 3],
    with_opt: bool,
    is_authentic: bool,
    ede: Option<u16>,
}

#[derive(Clone, Debug)]
struct Query {
    name: usize,
    rtype: u16,
    /// Size and DO.
    edns: Option<(u16, bool)>,
    cd: bool,
    ad: bool,
    over_tcp: bool,
    /// Bits: which letters are capitals.
    case: u64,
    id: u16,
}

#[derive(Clone, Debug)]
enum Step {
    Store(Asked, Said),
    Ask(Query),
    Pass(u32),
}

impl Record {
    fn write(&self, ttl: u32, out: &mut Vec<u8>) {
        out.extend(self.owner.map_or(&b"\xc0\x0c"[..], |name| NAMES[name]));
        out.extend(self.rtype.to_be_bytes());
        out.extend([0, 1]);
        out.extend(ttl.to_be_bytes());
        out.extend((self.rdata.len() as u16).to_be_bytes());
        out.extend(&self.rdata);
    }

    fn is_of_set(&self, other: &Record) -> bool {
        self.owner == other.owner && self.rtype == other.rtype
    }

    /// RFC 2181 section 8; RFC 2308 sections 3 and 5.
    fn bounded_ttl(&self, section: usize) -> u32 {
        let ttl = if self.ttl >> 31 == 0 { self.ttl.min(BOUNDS.ttl_max) } else { 0 };
        match self.rdata.last_chunk() {
            Some(minimum) if section == 1 && self.rtype == rtype::SOA => {
                ttl.min(u32::from_be_bytes(*minimum)).min(BOUNDS.negative_max)
            }
            _ => ttl,
        }
    }
}

impl Said {
    /// The TTL of each record when it was stored: the least of its set (RFC 2181 section 5.2).
    fn ttls(&self, section: usize) -> Vec<u32> {
        let records = &self.sections[section];
        let sets = records.chunk_by(|a, b| a.is_of_set(b));
        let least = |set: &[Record]| set.iter().map(|r| r.bounded_ttl(section)).min().unwrap();
        sets.flat_map(|set| std::iter::repeat_n(least(set), set.len())).collect()
    }

    fn has(&self, section: usize, rtype: u16) -> bool {
        self.sections[section].iter().any(|r| r.rtype == rtype)
    }

    fn answers(&self, rtype: u16) -> bool {
        self.rcode == 0 && self.has(0, rtype)
    }

    /// 0: it is not to be kept.
    fn lifetime(&self, rtype: u16) -> u32 {
        let is_kept = self.answers(rtype) || self.has(1, rtype::SOA);
        if is_kept { (0..3).flat_map(|section| self.ttls(section)).min().unwrap_or(0) } else { 0 }
    }

    fn message(&self, asked: Asked) -> Vec<u8> {
        let counts = [0, 1, 2].map(|i| self.sections[i].len() as u8);
        let opt = u8::from(self.with_opt);
        let head = [9, 9, 0x81, 0x80 | self.rcode, 0, 1, 0, counts[0], 0, counts[1], 0, counts[2] + opt];
        let mut out = [&head[..], NAMES[asked.0], &asked.1.to_be_bytes(), &[0, 1]].concat();
        self.sections.iter().flatten().for_each(|record| record.write(record.ttl, &mut out));
        if self.with_opt {
            out.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        }
        out
    }
}

impl Query {
    fn asked(&self) -> Asked {
        (self.name, self.rtype, self.edns.is_some_and(|(_, dnssec_ok)| dnssec_ok), self.cd)
    }

    /// Header flags, then the question in the client's spelling.
    fn question(&self) -> Vec<u8> {
        let letters = NAMES[self.name].iter().enumerate();
        let spelled = letters.map(|(i, c)| if self.case >> (i % 64) & 1 == 0 { *c } else { c.to_ascii_uppercase() });
        spelled.chain(self.rtype.to_be_bytes()).chain([0, 1]).collect()
    }

    fn packet(&self) -> Vec<u8> {
        let [high, low] = self.id.to_be_bytes();
        let flags = u8::from(self.ad) << 5 | u8::from(self.cd) << 4;
        let mut out = vec![high, low, 1, flags, 0, 1, 0, 0, 0, 0, 0, u8::from(self.edns.is_some())];
        out.extend(self.question());
        if let Some((size, dnssec_ok)) = self.edns {
            out.extend([&[0, 0, 41], &size.to_be_bytes()[..], &[0, 0, u8::from(dnssec_ok) << 7, 0, 0, 0]].concat());
        }
        out
    }

    fn size_max(&self) -> usize {
        match self.edns {
            _ if self.over_tcp => 65_535,
            None => 512,
            Some((size, _)) => usize::from(size.clamp(512, SIZE_MAX)),
        }
    }

    /// The message that says this, `age` seconds later: all of it, what is needed of it, or that it does not fit.
    fn answer(&self, said: &Said, age: u32) -> Vec<u8> {
        let denies_nothing = said.answers(self.rtype) && said.sections[1].iter().all(|r| r.rtype == rtype::NS);
        let kept = [[true; 3], [true, !denies_nothing, false]].map(|kept| self.write(said, age, kept, 0));
        let fits = kept.into_iter().find(|message| message.len() <= self.size_max());
        fits.unwrap_or_else(|| self.write(said, age, [false; 3], 2))
    }

    fn write(&self, said: &Said, age: u32, kept: [bool; 3], tc: u8) -> Vec<u8> {
        let [high, low] = self.id.to_be_bytes();
        let is_authentic = said.is_authentic && (self.ad || self.asked().2);
        let flags = 0x80 | u8::from(is_authentic) << 5 | u8::from(self.cd) << 4 | said.rcode;
        let count = |i: usize| if kept[i] { said.sections[i].len() as u8 } else { 0 };
        let opt = u8::from(self.edns.is_some());
        let mut out = vec![high, low, 0x81 | tc, flags, 0, 1, 0, count(0), 0, count(1), 0, count(2) + opt];
        out.extend(self.question());
        for section in (0..3).filter(|&i| kept[i]) {
            let ttls = said.ttls(section);
            said.sections[section].iter().zip(ttls).for_each(|(record, ttl)| record.write(ttl - age, &mut out));
        }
        if let Some((_, dnssec_ok)) = self.edns {
            let [high, low] = SIZE_MAX.to_be_bytes();
            let ede = said.ede.map(|code| [&[0, 15, 0, 2], &code.to_be_bytes()[..]].concat()).unwrap_or_default();
            out.extend([0, 0, 41, high, low, 0, 0, u8::from(dnssec_ok) << 7, 0, 0, ede.len() as u8]);
            out.extend(ede);
        }
        out
    }
}

struct Twin {
    server: Server,
    cache: Arc<Cache>,
    /// What was said, when, and how long it lives.
    stored: BTreeMap<Asked, (Said, u32, u32)>,
    now_s: u32,
}

thread_local! {
    /// One memory for all cases of a thread: a cache never gives its memory back.
    static MEMORY: &'static [AtomicU64] = (0..1 << 18).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
}

impl Twin {
    fn new() -> Twin {
        let start = Moment { boot: 0, boot_s: 0, wall_s: 1_800_000_000 };
        let config = Config { key: [7; 16], stale_s: 86_400, ..Config::default() };
        let cache = Arc::new(Cache::format(MEMORY.with(|m| *m), &config, start).unwrap());
        let allow = Acl::new(vec!["192.0.2.0/24".parse().unwrap()]);
        let resolving = Resolving { cache: Arc::clone(&cache), allow, prefetch: false, serve_stale: true };
        let server = Server::with(image_of(&ZONE).0, Setup { resolving: Some(resolving), ..Setup::default() });
        Twin { server, cache, stored: BTreeMap::new(), now_s: 0 }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Store(asked, said) => self.store(*asked, said),
            Step::Ask(query) => self.ask(query),
            Step::Pass(seconds) => {
                self.now_s += seconds;
                self.server.now.mono_ns = u64::from(self.now_s) * 1_000_000_000;
            }
        }
    }

    fn store(&mut self, asked: Asked, said: &Said) {
        let mut value = Vec::new();
        let ttl_s = cache::pack(&said.message(asked), &BOUNDS, &mut value).unwrap().ttl_s;
        assert_eq!(ttl_s, said.lifetime(asked.1));
        if said.is_authentic {
            cache::set_authentic(&mut value);
        }
        said.ede.into_iter().for_each(|code| cache::set_ede(&mut value, Ede(code)));
        let bit = |is_set, variant| if is_set { variant } else { Variant::PLAIN };
        let variant = bit(asked.2, Variant::DNSSEC_OK).and(bit(asked.3, Variant::CHECKING_DISABLED));
        let name = NAMES[asked.0];
        let key = self.cache.key(self.cache.hash(name), name, asked.1, Kind::Answer, variant);
        let entry = Entry { value: &value, ttl_s, source: name, generation: self.cache.generation() };
        let is_stored = self.cache.insert(&key, &entry, self.cache.time(u64::from(self.now_s))).is_ok();
        assert_eq!(is_stored, ttl_s > 0);
        if is_stored {
            self.stored.insert(asked, (said.clone(), self.now_s, ttl_s));
        }
    }

    fn ask(&mut self, query: &Query) {
        let packet = query.packet();
        let got = if query.over_tcp { self.server.message(&packet) } else { self.server.datagram(&packet) };
        let postponed = self.server.worker.next_postponed();
        let stored = self.stored.get(&query.asked());
        if let Some((said, since, ttl_s)) = stored
            && self.now_s - since < *ttl_s
        {
            let got = got.expect("it is stored");
            assert_eq!(got, query.answer(said, self.now_s - since), "{query:?} {said:?}");
            assert!(got.len() <= query.size_max() && postponed.is_none());
            return;
        }
        assert_eq!(got, None, "nobody said this to who asks thus, or it has expired");
        let Some(Purpose::Resolve(miss)) = postponed.map(|p| p.purpose) else { panic!("it is to be found out") };
        let (name, rtype, dnssec_ok, cd) = query.asked();
        let name = Name::from_wire(NAMES[name]).unwrap();
        assert_eq!(miss.question, Question::new(&name, rtype, dnssec_ok, cd));
        assert_eq!(miss.has_stale, stored.is_some());
    }
}

fn record(types: &'static [u16]) -> impl Strategy<Value = Record> {
    let ttl = prop_oneof![20 => 1..400u32, 1 => Just(0), 1 => any::<u32>()];
    let owner = prop::option::weighted(0.3, 0..NAMES.len());
    let octets = prop_oneof![4 => 4..40usize, 1 => 40..400usize];
    (owner, prop::sample::select(types), ttl, octets, any::<u8>()).prop_map(|(owner, rtype, ttl, octets, fill)| {
        let rdata = match rtype {
            rtype::A => vec![fill; 4],
            rtype::NS => vec![0],
            rtype::SOA => [&[0; 18][..], &(u32::from(fill) * 2).to_be_bytes()].concat(),
            _ => vec![fill; octets],
        };
        Record { owner, rtype, ttl, rdata }
    })
}

fn said() -> impl Strategy<Value = Said> {
    let section = |types, n| prop::collection::vec(record(types), 0..n);
    let authority = prop_oneof![
        section(&[rtype::NS], 4),
        section(&[rtype::SOA, rtype::RRSIG, rtype::NSEC], 3),
        section(&[rtype::NS, rtype::SOA], 4),
    ];
    let sections = (section(&TYPES, 6), authority, section(&[rtype::A, rtype::TXT], 3)).prop_map(|(a, n, d)| [a, n, d]);
    let rcode = prop_oneof![4 => Just(0u8), 1 => Just(3)];
    let ede = prop::option::weighted(0.3, 0..30u16);
    (rcode, sections, any::<bool>(), any::<bool>(), ede).prop_map(|(rcode, sections, with_opt, is_authentic, ede)| {
        Said { rcode, sections, with_opt, is_authentic, ede }
    })
}

fn asked() -> impl Strategy<Value = Asked> {
    (0..NAMES.len(), prop::sample::select(&TYPES), any::<bool>(), any::<bool>())
}

fn query() -> impl Strategy<Value = Query> {
    let size = prop_oneof![Just(1232u16), 0..2000u16, 500..700u16];
    let edns = prop::option::weighted(0.8, (size, any::<bool>()));
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (0..NAMES.len(), prop::sample::select(&TYPES), edns, flags, any::<u64>(), any::<u16>()).prop_map(
        |(name, rtype, edns, (cd, ad, over_tcp), case, id)| Query { name, rtype, edns, cd, ad, over_tcp, case, id },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (asked(), said()).prop_map(|(asked, said)| Step::Store(asked, said)),
        12 => query().prop_map(Step::Ask),
        1 => prop_oneof![0..5u32, 0..200u32].prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_stored_answer_is_what_a_writer_from_nothing_would_send(steps in prop::collection::vec(step(), 1..200)) {
        let mut twin = Twin::new();
        steps.iter().for_each(|s| twin.step(s));
    }

    /// Every size around the places where something stops to fit.
    #[test]
    fn whatever_the_size_the_answer_is_whole_or_shorter_or_says_that_it_is_cut(said in said(), query in query()) {
        let mut twin = Twin::new();
        twin.store(query.asked(), &said);
        let whole = query.write(&said, 0, [true; 3], 0).len();
        let needed = query.write(&said, 0, [true, true, false], 0).len();
        for around in [whole, needed, 512, usize::from(SIZE_MAX)] {
            for size in around.saturating_sub(OPT_FIXED + EDE_OPTION)..around + EDE_OPTION + 1 {
                let edns = query.edns.map(|(_, dnssec_ok)| (size as u16, dnssec_ok));
                twin.ask(&Query { edns, ..query.clone() });
            }
        }
    }
}
