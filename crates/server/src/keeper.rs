//! What the cache wants done in the background, and what operators see of it and do to it.
//!
//! A thread of its own stamps the time once a second and goes on with flushes, a slice at a time; lookups and dumps run
//! on the threads of the control socket. None of it is in the way of an answer: the cache's readers never wait.

use crate::clock::{Clock, wall_s};
use crate::json::Json;
use crate::log;
use cache::{Cache, Event, Extent, Kind, Moment, Progress, Scratch, Sweep, Variant, Visited};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use wire::Name;

const EVERY: Duration = Duration::from_secs(1);
/// Slots of the index looked at between two breaths.
const SLICE: usize = 4096;
/// Entries that a dump shows unless told otherwise, and at the most: an answer is one line.
const DUMP: usize = 1_000;
const DUMP_MAX: usize = 100_000;

/// The cache and the clock it is read by.
#[derive(Clone)]
pub struct Keeper {
    pub cache: Arc<Cache>,
    pub clock: Clock,
}

impl Keeper {
    pub fn start(&self, stop: Arc<AtomicBool>) -> io::Result<()> {
        let keeper = self.clone();
        let body = move || keeper.run(&stop);
        std::thread::Builder::new().name("cache".to_string()).spawn(body).map(drop)
    }

    fn run(&self, stop: &AtomicBool) {
        if let Err(e) = net::sched::background() {
            log::warn("the background thread competes with answering threads", &[("why", &e)]);
        }
        let (mut sweep, mut scratch) = (Sweep::default(), Scratch::default());
        while !stop.load(Relaxed) {
            self.cache.stamp(Moment { boot: 0, boot_s: self.clock.uptime_s(), wall_s: wall_s() });
            while self.cache.sweep(&mut sweep, SLICE, &mut scratch) {
                std::thread::yield_now();
            }
            std::thread::park_timeout(EVERY);
        }
    }

    fn now_s(&self) -> u32 {
        front::cache_time(&self.cache, self.clock.now())
    }

    /// A request of the control socket, by its words. Err: what is wrong with it.
    pub fn request(&self, words: &[&str]) -> Result<Json, String> {
        match words {
            ["stats"] => Ok(self.stats()),
            ["lookup", name] => folded(name).map(|name| self.lookup(&name)),
            ["flush", name] => self.flush(name, Extent::Name),
            ["flush-tree", name] => self.flush(name, Extent::Tree),
            ["dump"] => Ok(self.dump(DUMP)),
            ["dump", most] => match most.parse() {
                Ok(most @ 1..=DUMP_MAX) => Ok(self.dump(most)),
                _ => Err(format!("`{most}` is no number of entries from 1 to {DUMP_MAX}")),
            },
            _ => Err("write cache stats, lookup NAME, flush NAME, flush-tree NAME or dump [ENTRIES]".to_string()),
        }
    }

    fn stats(&self) -> Json {
        let stats = self.cache.stats();
        let mut facts = vec![
            ("bytes", stats.bytes),
            ("bytes_used", stats.bytes_used),
            ("bytes_for_records", stats.bytes_for_records),
            ("entries", stats.entries),
            ("slots", stats.slots),
            ("longest_probe", stats.longest_probe),
            ("generation", u64::from(stats.generation)),
            ("flushes_under_way", stats.flushes_under_way),
        ];
        facts.extend(Event::ALL.map(|event| (event.name(), stats.event(event))));
        Json::Object(facts.into_iter().map(|(key, n)| (key, Json::Number(n))).collect())
    }

    /// For metrics: name, kind, help and value of each.
    pub fn gauges(&self) -> Vec<(String, &'static str, &'static str, u64)> {
        let stats = self.cache.stats();
        let gauge = |name: &str, help, n| (format!("cache_{name}"), "gauge", help, n);
        let mut all = vec![
            gauge("bytes", "Octets of the cache, all taken at the start", stats.bytes),
            gauge("bytes_used", "Octets of it that hold records", stats.bytes_used),
            gauge("entries", "Entries in the cache", stats.entries),
            gauge("longest_probe", "The most slots looked at for an entry when it was stored", stats.longest_probe),
        ];
        let events = Event::ALL.map(|event| {
            let name = format!("cache_{}_total", event.name());
            (name, "counter", "Entries of the cache that this happened to", stats.event(event))
        });
        all.extend(events);
        all
    }

    fn flush(&self, name: &str, extent: Extent) -> Result<Json, String> {
        let name = folded(name)?;
        self.cache.flush(name.bytes(), extent, self.now_s());
        Ok(Json::Object(vec![("flushed", Json::text(name))]))
    }

    /// All that is stored of a name. The types are not known beforehand, so all that is stored is gone through.
    fn lookup(&self, name: &Name) -> Json {
        let mut found = Vec::new();
        self.visit(|visited| {
            if visited.name == name.bytes() {
                found.push(entry(visited));
            }
            found.len() < DUMP
        });
        Json::Object(vec![("name", Json::text(name)), ("entries", Json::List(found))])
    }

    fn dump(&self, most: usize) -> Json {
        let mut found = Vec::new();
        self.visit(|visited| {
            if found.len() < most && visited.hit.is_some() {
                found.push(entry(visited));
            }
            found.len() < most
        });
        Json::Object(vec![("of", Json::Number(self.cache.stats().entries)), ("entries", Json::List(found))])
    }

    fn visit(&self, mut look: impl FnMut(&Visited<'_>) -> bool) {
        let (mut progress, mut scratch, mut goes_on) = (Progress::default(), Scratch::default(), true);
        let now_s = self.now_s();
        let mut each = |visited: &Visited<'_>| goes_on = goes_on && look(visited);
        while self.cache.visit(&mut progress, SLICE, now_s, &mut scratch, &mut each) {}
    }
}

fn folded(text: &str) -> Result<Name, String> {
    Name::from_text(text.as_bytes(), Some(&Name::ROOT)).map(|n| n.fold()).map_err(|e| format!("`{text}`: {}", e.why))
}

fn entry(visited: &Visited<'_>) -> Json {
    let mut name = String::new();
    wire::name::push_text(visited.name, &mut name);
    let mut facts = vec![
        ("name", Json::Text(name)),
        ("type", Json::Text(zonefile::rtypes::mnemonic(visited.rtype))),
        ("kind", Json::text(visited.kind.name())),
        ("do", Json::Bool(visited.variant.has(Variant::DNSSEC_OK))),
        ("cd", Json::Bool(visited.variant.has(Variant::CHECKING_DISABLED))),
    ];
    let Some(hit) = &visited.hit else {
        facts.push(("state", Json::text("gone")));
        return Json::Object(facts);
    };
    facts.push(("state", Json::Text(format!("{:?}", hit.freshness).to_lowercase())));
    facts.push(("age_s", Json::Number(u64::from(hit.age_s))));
    facts.push(("left_s", Json::Number(u64::from(hit.left_s))));
    facts.push(("bytes", Json::Number(hit.value.len() as u64)));
    if let Some(answer) = hit.answer().filter(|_| visited.kind == Kind::Answer) {
        facts.push(("rcode", Json::Number(u64::from(answer.rcode().0))));
    }
    Json::Object(facts)
}
