//! What the server knows about itself, for operators: read by the control socket and HTTP, never by answering threads.

use crate::answering::queue;
use crate::clock::{self, Clock};
use crate::config::{Config, Zone};
use crate::history::Past;
use crate::images::held;
use crate::images::inspector::Inspected;
use crate::images::{self, Problem};
use crate::json::Json;
use crate::kept::Order;
use crate::publisher::press::Press;
use crate::publisher::unrecorded::Unrecorded;
use crate::publisher::watcher::Folders;
use crate::resolving::keeper::Keeper;
use crate::secondaries::Secondaries;
use crate::stall::{self, Turns};
use crate::transfers::AT_ONCE_MAX;
use crate::update::intake::Intake;
use crate::update::writing::Writing;
use front::locks::hold;
use stats::{Counter, Counters, total};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::iter;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the main thread is asked to do, or has to know.
pub enum Event {
    Stop,
    /// A thread that the server cannot do without has ended.
    Lost {
        thread: String,
        why: String,
    },
    /// Files of these zones have changed, or of any zones if none is named.
    Changed {
        zones: Vec<String>,
    },
    /// Files of these zones hold what has come from others: by apex, from whom.
    Received {
        from: HashMap<Box<[u8]>, String>,
    },
    /// The image that is served is damaged.
    Rebuild,
    /// Nothing is left to be done about zones for now.
    Rest,
    /// What would the file of a zone change?
    Look {
        zone: String,
        done: Done,
    },
    /// What is configured?
    Configured {
        done: Sender<Arc<Config>>,
    },
    /// A zone is to be as it was, under a new serial.
    Back {
        zone: String,
        serial: u32,
        done: Done,
    },
    /// A zone that is kept by commands is to come, to change or to go.
    Keep {
        zone: String,
        order: Order,
        is_forced: bool,
        done: Done,
    },
    /// These zones are to be served as their files say, whatever the guards object to.
    Force {
        zones: Vec<String>,
        done: Done,
    },
    /// What updates have changed is to be written into the files of zones, and folded into a new image.
    Fold {
        done: Done,
    },
    Reload {
        /// The caller wants these to be served afterwards; empty: whatever is served.
        zones: Vec<String>,
        done: Option<Done>,
    },
}

const FROZEN: &str = "it refuses updates until `dunlin ctl zone thaw`";

/// Zones that are named; of more nobody is told which.
const UNNUMBERED_MAX: usize = 1000;

/// Names, each behind its length, in one piece: made one at a time, in the midst of what is not kept, each would soon be alone on its
/// page. Bound: `UNNUMBERED_MAX`.
#[derive(Default)]
struct Names(Vec<u8>);

impl Names {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.0;
        iter::from_fn(move || {
            let (&length, behind) = rest.split_first()?;
            let (name, others) = behind.split_at_checked(usize::from(length))?;
            rest = others;
            Some(name)
        })
    }

    /// Whether a name is among them, from now on.
    fn set(&mut self, name: &[u8], is_among: bool) {
        if self.iter().any(|known| known == name) == is_among {
            return;
        }
        let others = self.iter().filter(|known| *known != name);
        let all = others.chain(is_among.then_some(name)).take(UNNUMBERED_MAX);
        self.0 = all.flat_map(|name| iter::once(name.len() as u8).chain(name.iter().copied())).collect();
    }
}

/// Of zones, by apex.
type Reasons = BTreeMap<Box<[u8]>, String>;

fn set(all: &mut Reasons, apex: &[u8], why: Option<String>) -> Option<String> {
    match why {
        Some(why) => all.insert(apex.into(), why),
        None => all.remove(apex),
    }
}

fn with_why((apex, why): (&[u8], &String)) -> Json {
    Json::Object(vec![("zone", Json::text(images::name(apex))), ("why", Json::text(why))])
}

/// Where the outcome of a reload goes: facts, or complaints.
pub type Done = queue::Sender<Result<Json, Vec<String>>>;

/// What is served now.
#[derive(Clone, Debug, Default)]
pub struct Served {
    pub generation: u64,
    pub zones: u64,
    pub records: u64,
    pub bytes: u64,
    pub huge_bytes: u64,
    pub in_memory_copy: bool,
    pub file: Arc<PathBuf>,
    /// Seconds since 1970.
    pub published_s: u64,
    /// Zones that are not served as their files say, and why.
    pub problems: Arc<[Problem]>,
}

pub struct State {
    pub clock: Clock,
    pub addresses: Vec<SocketAddr>,
    pub workers: usize,
    pub counters: Vec<Arc<Counters>>,
    /// Of the thread that publishes.
    pub published: Counters,
    /// Of the thread that writes files back.
    pub written: Counters,
    /// Of dynamic updates: the thread that carries them out, and those that refuse them where nobody does.
    pub updated: Arc<Counters>,
    /// Of each transfer that is under way, and of the thread that judges them.
    pub transfers: Vec<Counters>,
    /// Of the thread that asks primaries, and is told by them.
    pub refreshed: Counters,
    /// Of the answering threads, in the order of the counters.
    pub turns: Vec<Arc<Turns>>,
    pub events: queue::Sender<Event>,
    /// Absent without a resolver.
    pub keeper: OnceLock<Keeper>,
    /// Those that are watched.
    pub folders: Option<Arc<Folders>>,
    /// On whose slate it stands which files are looked at.
    pub press: Option<Arc<Press>>,
    /// Who has zones fetched from others, and tells others of ours.
    pub secondaries: Option<Secondaries>,
    /// Who knows what zones were.
    pub past: Option<Past>,
    /// Whose turn it is to read that for an operator.
    pub reading: Mutex<()>,
    served: Mutex<Served>,
    /// Zones whose files are not written back, by apex, and why: at most those that are to be.
    unwritten: Mutex<Reasons>,
    /// Zones that take updates and have an edit of their files that is held, by apex, and why: at most those that take them.
    held_edits: Mutex<Reasons>,
    /// Zones that take updates and refuse them until somebody says so. Bound: those that take them.
    frozen: Mutex<BTreeSet<Box<[u8]>>>,
    /// Why no zone takes updates, though some should.
    no_updates: Mutex<Option<String>>,
    /// What is written for updates.
    pub writing: Writing,
    /// Why what has changed is not served, if it takes a new image.
    no_new_image: Mutex<Option<String>>,
    /// Zones that lack their last updates, by apex, and why: at most those that take them.
    lacking: Mutex<Reasons>,
    /// Zones whose content is another than their serial was first served with. Bound: `UNNUMBERED_MAX`.
    unnumbered: Mutex<Names>,
    intake: OnceLock<Intake>,
    /// What is served and not in the history yet.
    pub unrecorded: Unrecorded,
    inspected: Mutex<Inspected>,
}

impl State {
    pub fn new(
        addresses: Vec<SocketAddr>,
        workers: usize,
        counters: Vec<Arc<Counters>>,
        turns: Vec<Arc<Turns>>,
        clock: Clock,
        events: queue::Sender<Event>,
    ) -> State {
        State {
            clock,
            addresses,
            workers,
            counters,
            published: Counters::default(),
            written: Counters::default(),
            refreshed: Counters::default(),
            updated: Arc::default(),
            transfers: (0..=AT_ONCE_MAX).map(|_| Counters::default()).collect(),
            turns,
            events,
            keeper: OnceLock::new(),
            folders: None,
            press: None,
            secondaries: None,
            past: None,
            reading: Mutex::default(),
            served: Mutex::default(),
            unwritten: Mutex::default(),
            held_edits: Mutex::default(),
            frozen: Mutex::default(),
            no_updates: Mutex::default(),
            writing: Writing::new(clock),
            no_new_image: Mutex::default(),
            lacking: Mutex::default(),
            unnumbered: Mutex::default(),
            inspected: Mutex::default(),
            intake: OnceLock::new(),
            unrecorded: Unrecorded::default(),
        }
    }

    /// A thread that has worked on zones has nothing left to do for now: to be called by that thread.
    pub fn rest(&self) {
        store::heap::let_go();
        self.raise(Event::Rest);
    }

    /// What is configured now.
    pub fn configured(&self) -> Result<Arc<Config>, String> {
        let (done, outcome) = channel();
        self.raise(Event::Configured { done });
        outcome.recv().map_err(|_| "the server is stopping".to_string())
    }

    pub fn raise(&self, event: Event) {
        // The main thread has ended: whatever was wished, the server is stopping.
        let _ = self.events.try_send(event);
    }

    pub fn set_intake(&self, intake: Intake) {
        // The first one stays; there is no other.
        let _ = self.intake.set(intake);
    }

    /// Who carries out updates. None: no zone takes them.
    pub fn intake(&self) -> Option<&Intake> {
        self.intake.get()
    }

    pub fn freeze(&self, apex: &[u8], is_frozen: bool) {
        let mut frozen = hold(&self.frozen);
        if is_frozen {
            frozen.insert(apex.into())
        } else {
            frozen.remove(apex)
        };
    }

    pub fn set_served(&self, served: Served) {
        *hold(&self.served) = served;
    }

    pub fn served(&self) -> Served {
        hold(&self.served).clone()
    }

    /// The file of a zone is not written back, or is again. Returns what was said before.
    pub fn set_unwritten(&self, apex: &[u8], why: Option<String>) -> Option<String> {
        set(&mut hold(&self.unwritten), apex, why)
    }

    /// This is no reason any more not to write a zone back; it is written when its time has come.
    pub fn forget_unwritten(&self, apex: &[u8], why: &str) {
        let mut unwritten = hold(&self.unwritten);
        if unwritten.get(apex).is_some_and(|now| now == why) {
            unwritten.remove(apex);
        }
    }

    /// The edit of a zone's file is held, or is not any more. Returns what was said before.
    pub fn set_held_edit(&self, apex: &[u8], why: Option<String>) -> Option<String> {
        set(&mut hold(&self.held_edits), apex, why)
    }

    /// Zones with one.
    pub fn edits_held(&self) -> Vec<String> {
        hold(&self.held_edits).keys().map(|apex| images::name(apex).to_string()).collect()
    }

    /// A zone takes no updates: it is served without its last ones, until a reload that finds them to fit; or it could not be written down yet. False:
    /// that it takes none was known.
    pub fn set_lacking(&self, apex: &[u8], why: &str) -> bool {
        hold(&self.lacking).insert(apex.into(), why.to_string()).is_none()
    }

    /// Those of these zones of which that is known.
    pub fn lacking(&self, is_wanted: impl Fn(&[u8]) -> bool) -> HashSet<Box<[u8]>> {
        hold(&self.lacking).keys().filter(|apex| is_wanted(apex)).cloned().collect()
    }

    /// Why these of the zones that are to take updates take none.
    pub fn why_lacking(&self, is_wanted: impl Fn(&[u8]) -> bool) -> Reasons {
        hold(&self.lacking)
            .iter()
            .filter(|(apex, _)| is_wanted(apex))
            .map(|(a, why)| (a.clone(), why.clone()))
            .collect()
    }

    /// A zone takes updates now.
    pub fn set_taking(&self, apex: &[u8]) {
        hold(&self.lacking).remove(apex);
    }

    /// These are configured: no others lack updates, or have an edit that is held, or owed to a file.
    pub fn follow(&self, zones: &[Zone]) {
        let owned = zones.iter().filter(|zone| zone.is_owned());
        let owned = LazyCell::new(|| {
            owned.map(|zone| (&*zone.apex, zone.write_back.is_some())).collect::<HashMap<&[u8], bool>>()
        });
        let keep = |all: &Mutex<Reasons>, is_kept: fn(Option<&bool>) -> bool| {
            if hold(all).is_empty() {
                return;
            }
            let owned = &*owned;
            hold(all).retain(|apex, _| is_kept(owned.get(&**apex)));
        };
        keep(&self.lacking, |zone| zone.is_some());
        keep(&self.held_edits, |zone| zone.is_some());
        keep(&self.unwritten, |zone| zone == Some(&true));
    }

    pub fn set_no_updates(&self, why: Option<String>) {
        *hold(&self.no_updates) = why;
    }

    pub fn set_no_new_image(&self, why: Option<String>) {
        *hold(&self.no_new_image) = why;
    }

    fn no_new_image(&self) -> Option<String> {
        hold(&self.no_new_image).clone()
    }

    pub fn no_updates(&self) -> Option<String> {
        self.writing.hangs().or_else(|| hold(&self.no_updates).clone())
    }

    /// A zone's file was edited without a new serial, or has one now.
    pub fn set_unnumbered(&self, apex: &[u8], is_unnumbered: bool) {
        hold(&self.unnumbered).set(apex, is_unnumbered);
    }

    fn unnumbered(&self) -> Json {
        let all = hold(&self.unnumbered);
        let sorted: BTreeSet<&[u8]> = all.iter().collect();
        Json::list(sorted, |apex| Json::text(images::name(apex)))
    }

    /// Zones of which new versions are held, and why: of those that their files own, and of those that updates do.
    fn held(&self) -> Vec<(Box<[u8]>, String)> {
        let edits = hold(&self.held_edits).clone();
        let of_files = |p: &Problem| Some((p.apex.clone(), held::why(&p.what)?.to_string()));
        self.served().problems.iter().filter_map(of_files).chain(edits).collect()
    }

    /// Zones that are not as they should be, by apex: how they are, in a word, and why.
    pub fn amiss(&self) -> HashMap<Box<[u8]>, (&'static str, String)> {
        let frozen = hold(&self.frozen).clone().into_iter().map(|apex| (apex, ("frozen", FROZEN.to_string())));
        let unwritten = hold(&self.unwritten).clone().into_iter().map(|(apex, why)| (apex, ("unwritten", why)));
        let problems = self.served().problems;
        let wrong = problems.iter().map(|p| (p.apex.clone(), ("wrong", p.what.clone())));
        let held = self.held().into_iter().map(|(apex, why)| (apex, ("held", why)));
        let lacking = hold(&self.lacking).clone().into_iter().map(|(apex, why)| (apex, ("lacking", why)));
        frozen.chain(unwritten).chain(wrong).chain(held).chain(lacking).collect()
    }

    pub fn set_inspected(&self, inspected: Inspected) {
        *hold(&self.inspected) = inspected;
    }

    pub fn inspected(&self) -> Inspected {
        *hold(&self.inspected)
    }

    pub fn count(&self, which: Counter) -> u64 {
        let others =
            [&self.published, &self.written, &self.refreshed, &*self.updated].into_iter().chain(&self.transfers);
        total(self.counters.iter().map(|c| &**c).chain(others), which)
    }

    pub fn status(&self) -> Json {
        let served = self.served();
        let problem = |p: &Problem| Json::Text(format!("{}: {}", images::name(&p.apex), p.what));
        // One after the other: whoever held several would wait for somebody who takes them in another order, and he for him.
        let frozen = Json::list(hold(&self.frozen).iter(), |apex| Json::text(images::name(apex)));
        let listed = |all: &Mutex<Reasons>| Json::list(hold(all).iter().map(|(apex, why)| (&**apex, why)), with_why);
        let (unwritten, lacking) = (listed(&self.unwritten), listed(&self.lacking));
        Json::Object(vec![
            ("version", Json::text(VERSION)),
            ("pid", Json::Number(u64::from(std::process::id()))),
            ("uptime_s", Json::Number(self.clock.uptime_s())),
            ("addresses", Json::list(&self.addresses, Json::text)),
            ("workers", Json::Number(self.workers as u64)),
            ("zones", Json::Number(served.zones)),
            ("image", served.json()),
            ("pages", self.inspected().json()),
            ("held", Json::list(self.held().iter().map(|(apex, why)| (&**apex, why)), with_why)),
            ("not_written_back", unwritten),
            ("lacking_updates", lacking),
            ("frozen", frozen),
            ("absent", Json::Number(self.absent())),
            ("same_serial", self.unnumbered()),
            ("no_updates", self.no_updates().map_or(Json::Null, Json::Text)),
            ("no_new_image", self.no_new_image().map_or(Json::Null, Json::Text)),
            ("problems", Json::list(&*served.problems, problem)),
        ])
    }

    pub fn counters(&self) -> Json {
        Json::Object(Counter::ALL.iter().map(|&c| (c.name(), Json::Number(self.count(c)))).collect())
    }

    pub fn stalls(&self) -> Json {
        stall::json(&self.turns, self.clock.mono_ns(), clock::wall_ms())
    }

    /// How many zones that come from others cannot be answered for.
    fn absent(&self) -> u64 {
        self.secondaries.as_ref().map_or(0, |others| others.presence.current().0.absent() as u64)
    }

    /// The text format of Prometheus.
    pub fn metrics(&self) -> String {
        let mut out = String::new();
        for &which in Counter::ALL {
            metric(&mut out, &format!("{}_total", which.name()), "counter", which.help(), self.count(which));
        }
        stall::metrics(&mut out, &self.turns);
        let served = self.served();
        let count = |all: &Mutex<Reasons>| hold(all).len() as u64;
        let (unwritten, lacking) = (count(&self.unwritten), count(&self.lacking));
        let frozen = hold(&self.frozen).len() as u64;
        for (name, help, value) in [
            ("uptime_seconds", "Seconds since the server was started", self.clock.uptime_s()),
            ("zones", "Zones served", served.zones),
            ("records", "Records served", served.records),
            ("image_bytes", "Octets of the image that is served", served.bytes),
            ("image_huge_bytes", "Octets of it that huge pages back", served.huge_bytes),
            ("image_generation", "How often an image was published since the start", served.generation),
            ("image_damaged_pages", "Pages of it that differ from their checksums", self.inspected().damaged as u64),
            ("zones_held", "Zones of which a new version is held", self.held().len() as u64),
            ("zones_absent", "Zones that come from others, and never came or have expired", self.absent()),
            ("zones_not_written_back", "Zones whose files are not written back", unwritten),
            ("zones_lacking_updates", "Zones that lack their last updates and take none", lacking),
            ("zones_frozen", "Zones that refuse updates until they are thawed", frozen),
            (
                "no_updates",
                "1 where the journal cannot be used, so that no zone takes updates",
                self.no_updates().is_some().into(),
            ),
            (
                "no_new_image",
                "1 where no new image can be made, so that what has changed is not served",
                self.no_new_image().is_some().into(),
            ),
            ("zone_problems", "Zones that are not served as their files say", served.problems.len() as u64),
        ] {
            metric(&mut out, name, "gauge", help, value);
        }
        for (name, kind, help, value) in self.keeper.get().map(Keeper::gauges).unwrap_or_default() {
            metric(&mut out, &name, kind, help, value);
        }
        self.keeper.get().into_iter().for_each(|keeper| keeper.insert_times(&mut out));
        let _ = writeln!(out, "# HELP dunlin_build_info The version that runs\n# TYPE dunlin_build_info gauge");
        let _ = writeln!(out, "dunlin_build_info{{version=\"{VERSION}\"}} 1");
        out
    }
}

fn metric(out: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let _ = writeln!(out, "# HELP dunlin_{name} {help}\n# TYPE dunlin_{name} {kind}\ndunlin_{name} {value}");
}

impl Inspected {
    fn json(&self) -> Json {
        let number = |n: usize| Json::Number(n as u64);
        Json::Object(vec![
            ("all", number(self.pages)),
            ("compared", number(self.compared)),
            ("damaged", number(self.damaged)),
            ("rounds", Json::Number(self.rounds)),
        ])
    }
}

impl Served {
    pub fn json(&self) -> Json {
        let share = if self.bytes == 0 { 0.0 } else { self.huge_bytes as f64 / self.bytes as f64 };
        Json::Object(vec![
            ("generation", Json::Number(self.generation)),
            ("zones", Json::Number(self.zones)),
            ("records", Json::Number(self.records)),
            ("bytes", Json::Number(self.bytes)),
            ("huge_pages_share", Json::Ratio(share)),
            ("backing", Json::text(if self.in_memory_copy { "copy" } else { "file" })),
            ("file", Json::text(self.file.display())),
            ("published", Json::text(clock::rfc3339(self.published_s))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let counters = [Arc::new(Counters::default()), Arc::new(Counters::default())];
        counters[0].add(Counter::QueriesUdp, 2);
        counters[1].add(Counter::QueriesUdp, 3);
        let turns = vec![Arc::new(Turns::new("udp 0".into()))];
        let addresses = vec!["[::1]:53".parse().unwrap()];
        State::new(addresses, 2, counters.to_vec(), turns, Clock::new(), queue::bounded(1).0)
    }

    #[test]
    fn names_come_and_go_and_are_not_more_than_may_be() {
        let (mut names, long) = (Names::default(), [7; 255]);
        for (name, is_among, expect) in [
            (&b"\x01b\0"[..], true, &[&b"\x01b\0"[..]][..]),
            (b"\0", false, &[b"\x01b\0"]),
            (b"\0", true, &[b"\x01b\0", b"\0"]),
            (b"\0", true, &[b"\x01b\0", b"\0"]),
            (&long, true, &[b"\x01b\0", b"\0", &long]),
            (b"\0", false, &[b"\x01b\0", &long]),
            (b"\x01b\0", false, &[&long]),
            (&long, false, &[]),
        ] {
            names.set(name, is_among);
            assert_eq!(names.iter().collect::<Vec<_>>(), expect);
        }
        (0..UNNUMBERED_MAX + 2).for_each(|n| names.set(&n.to_be_bytes(), true));
        assert_eq!(
            (names.iter().count(), names.iter().last()),
            (UNNUMBERED_MAX, Some(&(UNNUMBERED_MAX - 1).to_be_bytes()[..]))
        );
    }

    #[test]
    fn counters_are_summed_over_threads() {
        let state = state();
        assert!(state.counters().to_string().contains("\"queries_udp\":5,"));
        assert!(state.metrics().contains("\n# TYPE dunlin_queries_udp_total counter\ndunlin_queries_udp_total 5\n"));
    }

    #[test]
    fn every_metric_has_help_and_type() {
        let text = state().metrics();
        let words = |start: &str| -> Vec<String> {
            let rest = text.lines().filter_map(|l| l.strip_prefix(start));
            let mut all: Vec<String> = rest.map(|l| l.split([' ', '{']).next().unwrap_or("").to_string()).collect();
            // A histogram has lines of three names.
            all.iter_mut()
                .for_each(|w| *w = ["_bucket", "_sum", "_count"].iter().fold(w.clone(), |w, end| w.replace(end, "")));
            all.dedup();
            all
        };
        assert_eq!(words("# HELP dunlin_"), words("dunlin_"));
        assert_eq!(words("# TYPE dunlin_"), words("dunlin_"));
    }

    #[test]
    fn status_tells_where_and_what() {
        let state = state();
        state.set_served(Served { zones: 7, bytes: 100, huge_bytes: 50, ..Served::default() });
        let status = state.status().to_string();
        for fact in ["\"addresses\":[\"[::1]:53\"]", "\"zones\":7", "\"huge_pages_share\":0.5000", "\"workers\":2"] {
            assert!(status.contains(fact), "{status}");
        }
    }
}
