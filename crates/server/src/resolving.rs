//! Everything that resolving for clients takes, made from the configuration: the cache, the rings, the task threads.

mod chores;
mod ending;
mod handover;
pub(crate) mod keeper;
pub mod memory;
pub mod shelf;
mod tasks;
mod upstream;

use crate::answering::Shared;
use crate::answering::later::{Burst, Desk};
use crate::clock::Clock;
use crate::config::Config;
use crate::run::systemd;
use crate::stall::Histogram;
use crate::{config, log, random};
use cache::Cache;
use chores::Chores;
use ending::Ending;
use front::{Resolving, Setup, Worker};
use handover::{Handover, Inbox};
use keeper::Keeper;
use memory::{Beginning, Rest};
use net::Wake;
use policy::Acl;
use resolver::{Forwards, Limits, Resolver, Settings, TtlRange};
use shelf::Shelf;
use stats::Counters;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::channel;
use store::Memory;
use tasks::{BURST_MAX, Tasks};
use upstream::Upstream;

/// What has expired is kept for a day (RFC 8767 section 5 suggests one to three).
const STALE_S: u32 = 86_400;

/// What the answering threads need, and what the task threads are made of.
pub struct Resolution {
    pub cache: Arc<Cache>,
    /// None: its thread has begun.
    background: Option<Background>,
    inserts: Vec<Arc<Histogram>>,
    handover: Arc<Handover>,
    pub resolving: Resolving,
    inboxes: Vec<Inbox>,
    settings: Settings,
    resolver: config::Resolver,
}

/// What the thread behind the cache works on.
struct Background {
    memory: Memory,
    shelf: Option<Shelf>,
    rest: Rest,
    boot: u64,
    /// It outlives the process.
    persists: bool,
}

impl Resolution {
    /// None: switched off. `handed`: the memory of the cache of the process before.
    pub fn of(config: &Config, threads: usize, handed: Option<OwnedFd>) -> io::Result<Option<Resolution>> {
        let Some(resolver) = config.resolver.clone() else { return Ok(None) };
        let (cache, background) = begin(config, handed)?;
        let cache = Arc::new(cache);
        let (handover, inboxes) = Handover::new(threads, random::octets()?)?;
        let ttls = TtlRange { min_s: config.cache.ttl_min_s, max_s: config.cache.ttl_max_s, ..TtlRange::default() };
        let mut limits = Limits::default();
        if !config.limits.enabled {
            limits.waiters_per_client_max = usize::MAX;
        }
        let settings = Settings {
            limits,
            forwards: Forwards::new(resolver.forwards.clone()),
            ttls,
            edns_size: resolver.edns_size,
            case_randomisation: resolver.case_randomisation,
        };
        let resolving = Resolving {
            cache: Arc::clone(&cache),
            allow: Acl::new(resolver.allow.clone()),
            prefetch: resolver.prefetch,
            serve_stale: resolver.serve_stale,
        };
        let (inserts, handover) = ((0..threads).map(|_| Arc::default()).collect(), Arc::new(handover));
        Ok(Some(Resolution {
            cache,
            background: Some(background),
            inserts,
            handover,
            resolving,
            inboxes,
            settings,
            resolver,
        }))
    }

    /// Starts the thread behind the cache, and gives its memory to whoever keeps it for the next process. Once.
    pub fn keep(&mut self, clock: Clock) -> io::Result<Keeper> {
        let (wishes, wished) = channel();
        let mut last = None;
        if let Some(Background { memory, shelf, rest, boot, persists }) = self.background.take() {
            systemd::keep(memory::NAME, persists.then(|| memory.as_fd()));
            let saves_at_end = shelf.is_some() && !systemd::keeps();
            let ending = Arc::new(Ending::new(shelf, boot));
            last = saves_at_end.then(|| Arc::clone(&ending));
            let chores = Chores { cache: Arc::clone(&self.cache), clock, memory, ending, wishes: wished };
            std::thread::Builder::new().name("cache".to_string()).spawn(move || chores.run(rest))?;
        }
        Ok(Keeper { cache: Arc::clone(&self.cache), clock, wishes, inserts: self.inserts.clone(), ending: last })
    }

    /// Where answering threads hand in what they cannot answer.
    pub fn desk(&self) -> Arc<dyn Desk> {
        Arc::clone(&self.handover) as Arc<dyn Desk>
    }

    pub fn wakes(&self) -> impl Iterator<Item = Arc<Wake>> {
        self.inboxes.iter().map(|inbox| Arc::clone(&inbox.bell.wake))
    }

    /// The threads' work, one each, and what wakes them.
    pub fn tasks(
        self,
        shared: &Shared,
        setup: &Setup,
        counters: &[Arc<Counters>],
    ) -> io::Result<Vec<(Tasks, Upstream)>> {
        let settings = self.settings;
        let make = |((inbox, counters), inserts): ((Inbox, &Arc<Counters>), Arc<Histogram>)| {
            let upstream = Upstream::new(&*inbox.bell.wake, self.resolver.outgoing.clone())?;
            let tasks = Tasks {
                resolver: Resolver::new(settings.clone(), random::octets()?, Arc::clone(counters)),
                worker: Worker::new(
                    Arc::clone(&shared.published),
                    Setup { rate: None, ..setup.clone() },
                    Arc::clone(counters),
                ),
                shared: shared.clone(),
                inbox,
                cache: Arc::clone(&self.cache),
                counters: Arc::clone(counters),
                inserts,
                burst: Burst::of(BURST_MAX),
                value: Vec::new(),
                now: shared.clock.now(),
                end_ns: None,
            };
            Ok((tasks, upstream))
        };
        self.inboxes.into_iter().zip(counters).zip(self.inserts).map(make).collect()
    }
}

fn begin(config: &Config, handed: Option<OwnedFd>) -> io::Result<(Cache, Background)> {
    let (boot, settings) = (memory::boot(), &config.cache);
    let shelf = settings.persist.then(|| Shelf::open(&config.server.data_dir)).transpose().unwrap_or_else(|e| {
        log::warn("the cache cannot be kept on disk", &[("why", &e)]);
        None
    });
    let handed = handed.filter(|_| settings.persist);
    let Beginning { cache, memory, rest } =
        Beginning::of(settings, &rules(config)?, handed, shelf.as_ref(), memory::moment(boot))?;
    Ok((cache, Background { memory, shelf, rest, boot, persists: settings.persist }))
}

/// How the cache is run under this configuration.
pub fn rules(config: &Config) -> io::Result<cache::Config> {
    // What other servers said is not what these would say.
    let forwards = config.resolver.as_ref().map(|r| format!("{:?}", r.forwards)).unwrap_or_default();
    let sources = wire::hash::siphash::<1, 3>(b"forwards we have", forwards.as_bytes());
    Ok(cache::Config { key: random::octets()?, stale_s: STALE_S, sources, ..cache::Config::default() })
}

/// Says what of resolving is not to be expected of this version.
pub fn caution(resolver: &config::Resolver) {
    log::warn("answers of forwarders are not validated: that is not built yet", &[]);
    if !resolver.forwards.iter().any(|f| f.zone.is_root()) {
        log::warn("names under no [[resolver.forward]] get SERVFAIL: recursion is not built yet", &[]);
    }
}
