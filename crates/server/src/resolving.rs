//! Everything that resolving for clients takes, made from the configuration: the cache, the rings, the task threads.

use crate::answering::Shared;
use crate::clock::wall_s;
use crate::config::Config;
use crate::handover::{Handover, Inbox};
use crate::later::Desk;
use crate::tasks::Tasks;
use crate::upstream::Upstream;
use crate::{config, log, random};
use cache::{Bounds, Cache, Moment};
use front::{Resolving, Setup, Worker};
use net::Wake;
use policy::Acl;
use resolver::{Forwards, Resolver, Settings, TtlRange};
use stats::Counters;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What has expired is kept for a day (RFC 8767 section 5 suggests one to three).
const STALE_S: u32 = 86_400;

/// What the answering threads need, and what the task threads are made of.
pub struct Resolution {
    pub cache: Arc<Cache>,
    handover: Arc<Handover>,
    pub resolving: Resolving,
    inboxes: Vec<Inbox>,
    settings: Settings,
    bounds: Bounds,
    resolver: config::Resolver,
}

impl Resolution {
    /// None: switched off.
    pub fn of(config: &Config, threads: usize) -> io::Result<Option<Resolution>> {
        let Some(resolver) = config.resolver.clone() else { return Ok(None) };
        let cache = Arc::new(cache(&config.cache)?);
        let (handover, inboxes) = Handover::new(threads, random::octets()?)?;
        let ttls = TtlRange { min_s: config.cache.ttl_min_s, max_s: config.cache.ttl_max_s, ..TtlRange::default() };
        let settings = Settings {
            forwards: Forwards::new(resolver.forwards.clone()),
            ttls,
            edns_size: resolver.edns_size,
            case_randomisation: resolver.case_randomisation,
            ..Settings::default()
        };
        let resolving = Resolving {
            cache: Arc::clone(&cache),
            allow: Acl::new(resolver.allow.clone()),
            prefetch: resolver.prefetch,
            serve_stale: resolver.serve_stale,
        };
        let bounds = Bounds { ttl_min: ttls.min_s, ttl_max: ttls.max_s, negative_max: ttls.negative_max_s };
        Ok(Some(Resolution { cache, handover: Arc::new(handover), resolving, inboxes, settings, bounds, resolver }))
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
        let make = |(inbox, counters): (Inbox, &Arc<Counters>)| {
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
                bounds: self.bounds,
                counters: Arc::clone(counters),
            };
            Ok((tasks, upstream))
        };
        self.inboxes.into_iter().zip(counters).map(make).collect()
    }
}

fn cache(config: &config::Cache) -> io::Result<Cache> {
    let words = (config.size / 8) as usize;
    let memory: Vec<AtomicU64> = std::iter::repeat_with(AtomicU64::default).take(words).collect();
    let config = cache::Config { key: random::octets()?, stale_s: STALE_S, ..cache::Config::default() };
    let now = Moment { boot: 0, boot_s: 0, wall_s: wall_s() };
    Cache::format(memory.leak(), &config, now).map_err(|e| io::Error::other(format!("cache.size: {e}")))
}

/// Says what of resolving is not to be expected of this version.
pub fn caution(resolver: &config::Resolver) {
    log::warn("answers of forwarders are not validated: that is not built yet", &[]);
    if !resolver.forwards.iter().any(|f| f.zone.is_root()) {
        log::warn("names under no [[resolver.forward]] get SERVFAIL: recursion is not built yet", &[]);
    }
}
