//! Clients that we resolve for: the cache first, our zones next, and what neither knows is somebody else's to find out.
//!
//! ```text
//!   RD set and the client in `allow`
//!     cache has it        -> written                    the zones are not looked at: an entry is of this zone set
//!     a zone of ours      -> its answer, with RA        unless it leads out of the zone
//!     failed a moment ago -> SERVFAIL, or what expired  (RFC 9520, RFC 8767)
//!     else                -> Miss
//!   everybody else        -> our zones only, as if there were no resolver
//! ```
//!
//! Our zones' data is never stored. What follows an alias of ours is stored under its own name.

use crate::respond::{Response, absence};
use crate::{Judged, Miss, Now, Verdict, Wanted};
use authority::{Found, Lookup, Trail};
use cache::{Cache, Freshness, Hit, Kind, Scratch, Sought, Variant};
use policy::Acl;
use resolver::Question;
use stats::Counter;
use std::net::IpAddr;
use std::sync::Arc;
use wire::hash::name_hash;
use wire::query::CLASS_IN;
use wire::reply::{Flags, Need, Opt, Reply, Section};
use wire::{Ede, Parsed, Query, Rcode, rtype};

/// What a worker needs to answer for names that are not ours.
#[derive(Clone)]
pub struct Resolving {
    pub cache: Arc<Cache>,
    /// Who may ask for what is not ours.
    pub allow: Acl,
    /// Answers near their end are asked for anew.
    pub prefetch: bool,
    /// What has expired is given rather than nothing.
    pub serve_stale: bool,
}

impl Resolving {
    /// None: this query is for our zones only.
    #[inline(always)]
    pub(crate) fn seek(&self, query: &Query, packet: &[u8], from: IpAddr) -> Option<Sought> {
        let wants_recursion = packet.get(2).is_some_and(|flags| flags & 1 != 0);
        let is_plain = query.qclass == CLASS_IN && (!rtype::is_meta(query.qtype) || query.qtype == rtype::ANY);
        if query.parsed != Parsed::Question || !wants_recursion || !is_plain || !self.allow.admits(from) {
            return None;
        }
        Some(self.cache.seek(&self.key(query, packet)))
    }

    #[inline(always)]
    fn now_s(&self, now: Now) -> u32 {
        cache_time(&self.cache, now)
    }

    /// `packet` is that of the query.
    #[inline(always)]
    fn key<'q>(&self, query: &'q Query, packet: &[u8]) -> cache::Key<'q> {
        let name = query.name();
        self.cache.key(self.cache.hash(name), name, query.qtype, Kind::Answer, Variant::asked(query, packet))
    }
}

/// How an outcome is told to a client who waited for it.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    Answer(&'a resolver::Answer),
    /// What has expired, because of this; SERVFAIL if it is gone meanwhile.
    Stale(Rcode, Option<Ede>),
    Failed(Rcode, Option<Ede>),
}

/// A response, and what it needs of the resolving side.
pub(crate) struct Resolution<'r, 'a, M> {
    pub response: Response<'a, M>,
    pub resolving: &'r Resolving,
    /// Of the cache; the zones of `response` are of this one or a later one.
    pub generation: u32,
    pub scratch: &'r mut Scratch,
    /// The cache has an answer that has expired, and may be given.
    pub has_stale: bool,
    /// What is to be found out, if anything is.
    pub miss: Option<Miss>,
    /// Octets of the query.
    pub len: usize,
}

impl<'r, 'a, M: AsRef<[u8]>> Resolution<'r, 'a, M> {
    pub fn new(
        response: Response<'a, M>,
        resolving: &'r Resolving,
        generation: u32,
        scratch: &'r mut Scratch,
    ) -> Resolution<'r, 'a, M> {
        Resolution { response, resolving, generation, scratch, has_stale: false, miss: None, len: 0 }
    }

    #[inline(always)]
    pub fn write(
        &mut self,
        query: &mut Query,
        sought: Option<Sought>,
        lookup: &mut Lookup,
        trail: &mut Trail,
        buffer: &mut [u8],
    ) -> Verdict {
        self.has_stale = false;
        let response = &mut self.response;
        // Whoever signs asks for zones of ours: neither cache nor resolver answers under our key.
        if let Parsed::Signed(at) = query.parsed {
            return response.signed(query, usize::from(at), lookup, trail, buffer);
        }
        let mut opt = Opt::plain(response.setup.udp_size_max, query.edns.dnssec_ok);
        if let Some(verdict) = response.admit(query, &mut opt, buffer) {
            return verdict;
        }
        let Some(sought) = sought else { return self.only_zones(query, lookup, trail, opt, buffer) };
        let now_s = self.resolving.now_s(self.response.now);
        if let Some(hit) = self.resolving.cache.take(&sought, query.name(), now_s, self.scratch) {
            if hit.freshness != Freshness::Stale {
                if hit.freshness == Freshness::Ending && self.resolving.prefetch {
                    self.response.counters.count(Counter::CachePrefetch);
                    self.miss = Some(miss(query, buffer, false, Wanted::Prefetch));
                }
                return self.response.cached(query, &hit, opt, buffer);
            }
            self.has_stale = self.resolving.serve_stale;
        }
        self.missed(query, &sought, lookup, trail, opt, buffer)
    }

    /// For who may not ask the resolver: our zones, as if it were not there.
    #[inline(never)]
    fn only_zones(
        &mut self,
        query: &mut Query,
        lookup: &mut Lookup,
        trail: &mut Trail,
        opt: Opt<'_>,
        buffer: &mut [u8],
    ) -> Verdict {
        self.look_up(query, lookup);
        self.response.by_zones(query, lookup, trail, opt, Flags::NONE, buffer)
    }

    fn look_up(&self, query: &mut Query, lookup: &mut Lookup) {
        query.hash_suffixes(self.response.view.ahead(), self.response.view.seed());
        lookup.at_once(query, self.response.view);
    }

    #[inline(never)]
    fn missed(
        &mut self,
        query: &mut Query,
        sought: &Sought,
        lookup: &mut Lookup,
        trail: &mut Trail,
        opt: Opt<'_>,
        buffer: &mut [u8],
    ) -> Verdict {
        self.look_up(query, lookup);
        if matches!(lookup.found, Found::NotOurs | Found::Cut) {
            if let Some(absence) = absence(self.response.zones, self.response.presence, query, lookup) {
                return self.response.absent(absence, query, opt, Flags::RECURSION_AVAILABLE, buffer);
            }
            return self.not_ours(query, sought, opt, buffer);
        }
        let (apex, seed) = (lookup.apex, self.response.view.seed());
        let whole = || (buffer.get(..self.len).unwrap_or_default().to_vec(), name_hash(seed, query.name()));
        let whole = may_leave(query, lookup).then(whole);
        let answers = self.response.answers;
        if whole.is_some() {
            self.response.answers = self.response.parts;
        }
        let verdict = self.response.by_zones(query, lookup, trail, opt, Flags::RECURSION_AVAILABLE, buffer);
        self.response.answers = answers;
        let Some((whole, asked)) = whole else { return verdict };
        let is_barred = || {
            name_hash(seed, query.name()) != asked
                && absence(self.response.zones, self.response.presence, query, lookup).is_some()
        };
        if lookup.apex == apex && lookup.found != Found::Cut && !is_barred() {
            if let Verdict::Reply(_) = verdict {
                self.response.count_written(buffer);
            }
            return verdict;
        }
        // The chain goes on elsewhere: the client waits for the rest of it, and that is its answer.
        buffer.iter_mut().zip(&whole).for_each(|(to, from)| *to = *from);
        self.miss = Some(miss(query, buffer, false, Wanted::RestOfChain));
        Verdict::Later
    }

    fn not_ours(&mut self, query: &Query, sought: &Sought, mut opt: Opt<'_>, buffer: &mut [u8]) -> Verdict {
        let now_s = self.resolving.now_s(self.response.now);
        let (cache, name, key) = (&self.resolving.cache, query.name(), sought.key(query.name()));
        // What was stored under other zones is good again, now that these have no word on the name.
        if !sought.is_absent()
            && cache.renew(&key, self.generation, now_s, self.scratch)
            && let Some(hit) = cache.probe(&key, now_s, self.scratch)
        {
            return self.response.cached(query, &hit, opt, buffer);
        }
        let variant = Variant::asked(query, buffer);
        let failure = cache.key(sought.name_hash(), name, query.qtype, Kind::Failure, variant);
        if cache.probe(&failure, now_s, self.scratch).is_some_and(|f| f.freshness != Freshness::Stale) {
            if self.has_stale {
                let told = Told::Stale(Rcode::SERVFAIL, Some(Ede::CACHED_ERROR));
                return self.response.told(query, &told, Flags::NONE, self.resolving, self.scratch, opt, buffer);
            }
            self.response.counters.count(Counter::CacheHitFailure);
            opt.options().ede = Some(Ede::CACHED_ERROR);
            let flags = resolved_flags(buffer);
            return self.response.finish(query, buffer, Rcode::SERVFAIL, flags, &opt);
        }
        self.response.counters.count(Counter::CacheMiss);
        let judged = Some(Judged { generation: self.generation, name_hash: sought.name_hash() });
        self.miss = Some(Miss { judged, ..miss(query, buffer, self.has_stale, Wanted::Answer) });
        Verdict::Later
    }
}

/// A zone of ours may answer with an alias that leads elsewhere.
fn may_leave(query: &Query, lookup: &Lookup) -> bool {
    lookup.found == Found::Alias || lookup.unit_type == rtype::CNAME && query.qtype != rtype::CNAME
}

/// What is to be found out, for the name that `query` holds by now.
fn miss(query: &Query, packet: &[u8], has_stale: bool, wanted: Wanted) -> Miss {
    let cd = packet.get(3).is_some_and(|flags| flags & 0x10 != 0);
    let question = Question::of_folded(query.name(), query.qtype, query.edns.dnssec_ok, cd);
    Miss { question, has_stale, wanted, judged: None }
}

/// RA, and CD as it was asked (RFC 4035 section 3.2.2).
#[inline(always)]
fn resolved_flags(packet: &[u8]) -> Flags {
    let cd = packet.get(3).is_some_and(|flags| flags & 0x10 != 0);
    if cd { Flags::RECURSION_AVAILABLE.and(Flags::CHECKING_DISABLED) } else { Flags::RECURSION_AVAILABLE }
}

/// Seconds of the cache's clock.
#[inline(always)]
pub fn cache_time(cache: &Cache, now: Now) -> u32 {
    cache.time(now.mono_ns / 1_000_000_000)
}

impl<'a, M: AsRef<[u8]>> Response<'a, M> {
    #[inline(always)]
    fn cached(&self, query: &Query, hit: &Hit<'_>, mut opt: Opt<'_>, buffer: &mut [u8]) -> Verdict {
        let Some(answer) = hit.answer() else {
            return self.finish(query, buffer, Rcode::SERVFAIL, resolved_flags(buffer), &opt);
        };
        let rcode = answer.rcode();
        let mut flags = resolved_flags(buffer);
        let wants_ad = buffer.get(3).is_some_and(|flags| flags & 0x20 != 0) || query.edns.dnssec_ok;
        if answer.is_authentic() && wants_ad {
            flags = flags.and(Flags::AUTHENTIC);
        }
        if let Some(ede) = answer.ede() {
            opt.options().ede.get_or_insert(ede);
        }
        let has_opt = query.edns.present;
        let keep = if has_opt { opt.room() } else { 0 };
        let mut reply = Reply::begin(buffer, query.question_end(), self.size_max(query), keep);
        answer.write(hit, &mut reply);
        if reply.is_truncated() {
            self.counters.count(Counter::Truncated);
        } else if reply.left_out() {
            self.counters.count(Counter::OptionalLeftOut);
        }
        self.counters.count(match (hit.freshness, rcode) {
            (Freshness::Stale, _) => Counter::CacheHitStale,
            (_, Rcode::NXDOMAIN) => Counter::CacheHitNegative,
            _ => Counter::CacheHit,
        });
        let len = reply.finish(flags, rcode, has_opt.then_some(&opt));
        self.count(rcode);
        Verdict::Reply(len)
    }

    /// What a client is told who has waited.
    #[expect(clippy::too_many_arguments, reason = "the scratch of one query, in its parts")]
    pub(crate) fn told(
        &self,
        query: &Query,
        told: &Told<'_>,
        also: Flags,
        resolving: &Resolving,
        scratch: &mut Scratch,
        mut opt: Opt<'_>,
        buffer: &mut [u8],
    ) -> Verdict {
        let (rcode, ede) = match told {
            Told::Answer(answer) => return self.whole(query, answer, also, &opt, buffer),
            Told::Failed(rcode, ede) => (*rcode, *ede),
            Told::Stale(rcode, ede) => {
                if let Some(verdict) = self.stale(query, resolving, scratch, opt, buffer) {
                    return verdict;
                }
                (*rcode, *ede)
            }
        };
        if ede.is_some() {
            opt.options().ede = ede;
        }
        self.finish(query, buffer, rcode, resolved_flags(buffer), &opt)
    }

    fn stale(
        &self,
        query: &Query,
        resolving: &Resolving,
        scratch: &mut Scratch,
        mut opt: Opt<'_>,
        buffer: &mut [u8],
    ) -> Option<Verdict> {
        let key = resolving.key(query, buffer);
        let hit = resolving.cache.probe(&key, resolving.now_s(self.now), scratch)?;
        if hit.freshness == Freshness::Stale {
            if !resolving.serve_stale {
                return None;
            }
            let denies = hit.answer()?.rcode() == Rcode::NXDOMAIN;
            opt.options().ede = Some(if denies { Ede::STALE_NXDOMAIN } else { Ede::STALE_ANSWER });
        }
        Some(self.cached(query, &hit, opt, buffer))
    }

    /// An answer that was found out just now, whether or not the cache has taken it.
    pub(crate) fn whole(
        &self,
        query: &Query,
        answer: &resolver::Answer,
        also: Flags,
        opt: &Opt<'_>,
        buffer: &mut [u8],
    ) -> Verdict {
        let flags = resolved_flags(buffer).and(also);
        let has_opt = query.edns.present;
        let keep = if has_opt { opt.room() } else { 0 };
        let mut reply = Reply::begin(buffer, query.question_end(), self.size_max(query), keep);
        if reply.append(Need::Required, &answer.body).is_some() {
            for (section, count) in
                [Section::Answer, Section::Authority, Section::Additional].into_iter().zip(answer.counts)
            {
                reply.count(section, count);
            }
        } else {
            self.counters.count(Counter::Truncated);
        }
        let len = reply.finish(flags, answer.rcode, has_opt.then_some(opt));
        self.count(answer.rcode);
        Verdict::Reply(len)
    }
}
