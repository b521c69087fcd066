//! What operators see of the cache and do to it: lookups, dumps, flushes, figures. It runs on the threads of the control
//! socket, and is in nobody's way: the cache's readers never wait.

use crate::clock::Clock;
use crate::json::Json;
use crate::resolving::chores::Wish;
use crate::resolving::ending::Ending;
use crate::stall::{Histogram, histogram, quantile_ns};
use cache::{Cache, Event, Extent, Kind, Progress, Scratch, Variant, Visited};
use stats::Counter;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use wire::Name;

/// Slots of the index looked at between two breaths.
const SLICE: usize = 4096;
/// Entries that a dump shows unless told otherwise, and at the most: an answer is one line.
const DUMP: usize = 1_000;
const DUMP_MAX: usize = 100_000;

/// Hits by kind, and what was none.
const ASKED: [(&str, Counter); 5] = [
    ("hits_positive", Counter::CacheHit),
    ("hits_negative", Counter::CacheHitNegative),
    ("hits_stale", Counter::CacheHitStale),
    ("hits_failure", Counter::CacheHitFailure),
    ("misses", Counter::CacheMiss),
];
/// Parts of all inserts, in ten thousandths, of which is told how long they took at the most.
const SHARES: [(&str, u64); 3] = [("insert_p50_ns", 5_000), ("insert_p99_ns", 9_900), ("insert_p9999_ns", 9_999)];

/// The cache, the clock it is read by, and who works on it in the background.
pub struct Keeper {
    pub cache: Arc<Cache>,
    pub clock: Clock,
    pub wishes: Sender<Wish>,
    /// How long inserts took, by the wall clock, of each thread that stores.
    pub inserts: Vec<Arc<Histogram>>,
    /// None: the process ends without a snapshot.
    pub ending: Option<Arc<Ending>>,
}

impl Keeper {
    fn now_s(&self) -> u32 {
        front::cache_time(&self.cache, self.clock.now())
    }

    /// A request of the control socket, by its words; `count` says what the server has counted. Err: what is wrong.
    pub fn request(&self, words: &[&str], count: impl Fn(Counter) -> u64) -> Result<Json, String> {
        match words {
            ["stats"] => Ok(self.stats(count)),
            ["save"] => self.save(),
            ["lookup", name] => folded(name).map(|name| self.lookup(&name)),
            ["flush", name] => self.flush(name, Extent::Name),
            ["flush-tree", name] => self.flush(name, Extent::Tree),
            ["dump"] => Ok(self.dump(DUMP)),
            ["dump", most] => match most.parse() {
                Ok(most @ 1..=DUMP_MAX) => Ok(self.dump(most)),
                _ => Err(format!("`{most}` is no number of entries from 1 to {DUMP_MAX}")),
            },
            _ => Err("write cache stats, lookup NAME, flush NAME, flush-tree NAME, dump [ENTRIES] or save".to_string()),
        }
    }

    fn stats(&self, count: impl Fn(Counter) -> u64) -> Json {
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
        let asked = ASKED.map(|(name, counter)| (name, count(counter)));
        facts.extend(asked);
        let inserts = self.histograms();
        facts.extend(SHARES.map(|(name, share)| (name, quantile_ns(&inserts, share))));
        facts.push(("insert_longest_ns", quantile_ns(&inserts, 10_000)));
        let mut facts: Vec<_> = facts.into_iter().map(|(key, n)| (key, Json::Number(n))).collect();
        let (all, [.., (_, misses)]) = (asked.iter().map(|(_, n)| n).sum::<u64>(), asked);
        facts.push(("hit_ratio", Json::Ratio((all - misses) as f64 / all.max(1) as f64)));
        Json::Object(facts)
    }

    /// Waits until a snapshot is on the disk.
    fn save(&self) -> Result<Json, String> {
        let (done, outcome) = channel();
        let gone = || "the server is stopping".to_string();
        self.wishes.send(done).map_err(|_| gone())?;
        let octets = outcome.recv().map_err(|_| gone())??;
        Ok(Json::Object(vec![("saved_bytes", Json::Number(octets))]))
    }

    /// Does what is to be done before the process ends. What the service manager keeps needs no snapshot, for an upgrade
    /// shall not wait for a disk.
    pub fn finish(&self) {
        self.ending.iter().for_each(|ending| ending.finish(&self.cache));
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

    fn histograms(&self) -> Vec<&Histogram> {
        self.inserts.iter().map(|h| &**h).collect()
    }

    /// For metrics: how long inserts took.
    pub fn insert_times(&self, out: &mut String) {
        let name = "dunlin_cache_insert_seconds";
        let _ = writeln!(out, "# HELP {name} How long it took to store an answer, by the clock on the wall");
        let _ = writeln!(out, "# TYPE {name} histogram");
        histogram(out, name, "clock=\"wall\"", &self.histograms());
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

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{Config, Moment};

    fn keeper() -> Keeper {
        let memory = store::Memory::create(c"keeper", 1 << 20).unwrap();
        let cache = Arc::new(Cache::format_zeros(memory.words(), &Config::default(), Moment::default()).unwrap());
        let inserts = [1_000, 1_000, 5_000_000].map(|ns| {
            let histogram = Histogram::default();
            histogram.add(ns);
            Arc::new(histogram)
        });
        Keeper { cache, clock: Clock::new(), wishes: channel().0, inserts: inserts.to_vec(), ending: None }
    }

    fn counted(counter: Counter) -> u64 {
        match counter {
            Counter::CacheHit => 6,
            Counter::CacheHitNegative | Counter::CacheHitStale | Counter::CacheHitFailure => 1,
            Counter::CacheMiss => 3,
            _ => 0,
        }
    }

    #[test]
    fn stats_tell_hits_by_kind_their_ratio_and_how_long_inserts_took() {
        let stats = keeper().request(&["stats"], counted).unwrap().to_string();
        for fact in [
            "\"bytes\":1048576,",
            "\"hits_positive\":6,\"hits_negative\":1,\"hits_stale\":1,\"hits_failure\":1,\"misses\":3,",
            "\"insert_longest_ns\":5000000,\"hit_ratio\":0.7500",
        ] {
            assert!(stats.contains(fact), "{fact} in {stats}");
        }
    }

    #[test]
    fn metrics_have_a_histogram_of_inserts() {
        let mut out = String::new();
        keeper().insert_times(&mut out);
        for line in [
            "dunlin_cache_insert_seconds_bucket{clock=\"wall\",le=\"0.000001024\"} 2\n",
            "dunlin_cache_insert_seconds_count{clock=\"wall\"} 3\n",
        ] {
            assert!(out.contains(line), "{line} in {out}");
        }
    }

    #[test]
    fn a_wish_that_nobody_hears_is_said() {
        assert_eq!(keeper().request(&["save"], counted).unwrap_err(), "the server is stopping");
        assert!(keeper().request(&["saev"], counted).unwrap_err().starts_with("write cache stats, "));
    }
}
