//! From a parsed and looked-up query to the finished message: who gets an answer, which, and what is counted.

use crate::worker::{Setup, Zones};
use crate::{Absence, Caller, Now, Peer, Presence, Purpose, Transport, Verdict};
use authority::{Found, Lookup, Trail, answer};
use image::View;
use policy::cookie;
use policy::rate::{Places, RateLimit, Standing};
use stats::{Counter, Counters};
use std::sync::Arc;
use transfer::ask::NOTIFY;
use wire::query::{CLASS_ANY, CLASS_CH, CLASS_IN, HEADER};
use wire::reply::{Flags, Need, Opt, Reply, Section};
use wire::{Ede, Parsed, Query, Rcode, rtype};

/// Room for a message over TCP.
const MESSAGE_MAX: usize = 65_535;
/// What a client without EDNS can take (RFC 1035 section 4.2.1).
const PLAIN_MAX: usize = 512;
const UPDATE: u8 = 5;

pub(crate) struct Response<'a, M> {
    pub now: Now,
    pub peer: Peer,
    pub transport: Transport,
    pub setup: &'a Setup,
    pub counters: &'a Counters,
    /// Those of answers and cookies: `counters`, or `parts` while what is written may be only a part of an answer.
    pub answers: &'a Counters,
    /// Nobody reads these.
    pub parts: &'a Counters,
    pub zones: &'a Zones<M>,
    pub presence: &'a Presence,
    pub view: View<'a>,
    pub rate: Option<&'a mut RateLimit>,
    /// Of the peer, in `rate`.
    pub places: Places,
    pub cookies: Option<&'a cookie::Secrets>,
    /// Octets of the answer that are kept for its signature.
    pub reserve: usize,
}

impl<'a, M: AsRef<[u8]>> Response<'a, M> {
    /// Turns the query in `buffer` into its answer.
    #[inline(always)]
    pub fn write(&mut self, query: &mut Query, lookup: &mut Lookup, trail: &mut Trail, buffer: &mut [u8]) -> Verdict {
        if let Parsed::Signed(at) = query.parsed {
            return self.signed(query, usize::from(at), lookup, trail, buffer);
        }
        let mut opt = Opt::plain(self.setup.udp_size_max, query.edns.dnssec_ok);
        if let Some(verdict) = self.admit(query, &mut opt, buffer) {
            return verdict;
        }
        self.by_zones(query, lookup, trail, opt, Flags::NONE, buffer)
    }

    /// What is said to packets that are no question for zones, to clients above their rate, to our own echo. None: the
    /// question is to be answered, with `opt`.
    #[inline(always)]
    pub(crate) fn admit(&mut self, query: &mut Query, opt: &mut Opt<'a>, buffer: &mut [u8]) -> Option<Verdict> {
        if self.is_own_echo() {
            return Some(self.drop(Counter::DropSource));
        }
        if query.parsed != Parsed::Question {
            return Some(self.no_question(query, buffer));
        }
        let mut is_proven = self.transport == Transport::Tcp;
        if query.edns.nsid || query.edns.cookie_len > 0 || query.edns.keepalive {
            is_proven |= self.add_options(query, buffer, opt);
        }
        if !is_proven && let Some(verdict) = self.limit(query, opt, buffer) {
            return Some(verdict);
        }
        if query.qclass != CLASS_IN || rtype::is_meta(query.qtype) && query.qtype != rtype::ANY {
            let is_postponed = self.is_transfer(query);
            return Some(if is_postponed { Verdict::Later } else { self.not_for_zones(query, *opt, buffer) });
        }
        None
    }

    /// From a port or address that nobody asks from.
    #[inline(always)]
    pub(crate) fn is_own_echo(&self) -> bool {
        self.peer.port == 0 || self.setup.own.iter().any(|&(ip, port)| port == self.peer.port && ip == self.peer.ip)
    }

    /// The zones' answer, or a refusal.
    #[inline(always)]
    pub(crate) fn by_zones(
        &self,
        query: &mut Query,
        lookup: &mut Lookup,
        trail: &mut Trail,
        mut opt: Opt<'_>,
        also: Flags,
        buffer: &mut [u8],
    ) -> Verdict {
        if !self.zones.allow_query.are_open() && !self.is_admitted(lookup) {
            self.counters.count(Counter::RefusedAcl);
            opt.options().ede = Some(Ede::PROHIBITED);
            return self.finish(query, buffer, Rcode::REFUSED, also, &opt);
        }
        if let Some(absence) = absence(self.zones, self.presence, query, lookup) {
            return self.absent(absence, query, opt, also, buffer);
        }
        self.zone_answer(query, lookup, trail, opt, also, buffer)
    }

    /// Says that a zone of ours is not there, or is too old to be answered for.
    #[cold]
    pub(crate) fn absent(
        &self,
        absence: Absence,
        query: &Query,
        mut opt: Opt<'_>,
        also: Flags,
        buffer: &mut [u8],
    ) -> Verdict {
        let (counter, ede) = match absence {
            Absence::Expired => (Counter::ServFailExpired, Ede::INVALID_DATA),
            Absence::Unserved => (Counter::ServFailUnserved, Ede::INVALID_DATA),
            Absence::Awaited => (Counter::ServFailAwaited, Ede::NOT_READY),
        };
        self.counters.count(counter);
        opt.options().ede = Some(ede);
        self.finish(query, buffer, Rcode::SERVFAIL, also, &opt)
    }

    #[inline(always)]
    fn zone_answer(
        &self,
        query: &mut Query,
        lookup: &mut Lookup,
        trail: &mut Trail,
        mut opt: Opt<'_>,
        also: Flags,
        buffer: &mut [u8],
    ) -> Verdict {
        let has_opt = query.edns.present;
        if query.edns.zone_version && lookup.apex.reference != 0 {
            opt.options().zone_version = self.zone_version(lookup);
        }
        if self.setup.rotate {
            // The query's id is as good as a random number, and the answer stays a function of its arguments.
            trail.turn = Some(u16::from_be_bytes([buffer[0], buffer[1]]));
        }
        let (question_end, size_max) = (query.question_end(), self.size_max(query));
        let keep = if has_opt { opt.room() } else { 0 };
        let mut reply = Reply::begin(buffer, question_end, size_max, keep);
        let is_barred = |query: &Query, lookup: &Lookup| absence(self.zones, self.presence, query, lookup).is_some();
        let outcome = answer(self.view, query, lookup, trail, &mut reply, &is_barred);
        if outcome.is_damaged {
            self.counters.count(Counter::ImageDamaged);
            reply.clear();
            opt.options().ede = Some(Ede::INVALID_DATA);
        }
        if outcome.rcode == Rcode::REFUSED {
            (opt.options().ede, opt.options().zone_version) = (Some(Ede::NOT_AUTHORITATIVE), None);
        }
        if outcome.is_referral {
            self.counters.count(Counter::Referrals);
        }
        if reply.is_truncated() {
            self.counters.count(Counter::Truncated);
        } else if reply.left_out() {
            self.counters.count(Counter::OptionalLeftOut);
        }
        let len = reply.finish(outcome.flags.and(also), outcome.rcode, has_opt.then_some(&opt));
        self.count(outcome.rcode);
        Verdict::Reply(len)
    }

    #[inline(always)]
    pub(crate) fn size_max(&self, query: &Query) -> usize {
        let size = match (self.transport, query.edns.present) {
            (Transport::Tcp, _) => MESSAGE_MAX,
            (Transport::Udp, false) => PLAIN_MAX,
            (Transport::Udp, true) => usize::from(query.edns.udp_size.min(self.setup.udp_size_max)).max(PLAIN_MAX),
        };
        size.saturating_sub(self.reserve)
    }

    pub(crate) fn drop(&self, why: Counter) -> Verdict {
        self.counters.count(why);
        Verdict::Drop
    }

    /// The rate limit's word on a client that has not proven its address. None: go on.
    #[inline(always)]
    fn limit(&mut self, query: &Query, opt: &Opt<'_>, buffer: &mut [u8]) -> Option<Verdict> {
        let rate = self.rate.as_mut()?;
        let standing = rate.judge(&self.places, self.peer.ip.is_ipv4(), self.now.mono_ns / 1_000_000);
        if standing == Standing::Admitted { None } else { self.over_limit(standing, query, opt, buffer) }
    }

    /// The same for packets that are no plain question, out of line.
    #[inline(never)]
    pub(crate) fn limit_odd(&mut self, query: &Query, opt: &Opt<'_>, buffer: &mut [u8]) -> Option<Verdict> {
        if self.transport == Transport::Tcp { None } else { self.limit(query, opt, buffer) }
    }

    #[cold]
    fn over_limit(&self, standing: Standing, query: &Query, opt: &Opt<'_>, buffer: &mut [u8]) -> Option<Verdict> {
        let rate = self.rate.as_ref()?;
        if rate.is_exempt(self.peer.ip) {
            return None;
        }
        if rate.is_dry_run() {
            self.counters.count(Counter::WouldLimit);
            return None;
        }
        // TC means nothing outside of answers (RFC 2136 section 2.2): an update or a NOTIFY would be told that it was carried out.
        let is_query = buffer.get(2).is_some_and(|flags| flags >> 3 & 15 == 0);
        if standing == Standing::Withhold || !is_query {
            return Some(self.drop(Counter::DropRate));
        }
        self.counters.count(Counter::SlipRate);
        let mut reply = Reply::begin(buffer, query.echoed_end(), PLAIN_MAX, 0);
        reply.does_not_fit(Need::Required);
        let len = reply.finish(Flags::NONE, Rcode::NOERROR, query.edns.present.then_some(opt));
        self.count(Rcode::NOERROR);
        Some(Verdict::Reply(len))
    }

    /// Packets without a question that could be looked up.
    #[cold]
    fn no_question(&mut self, query: &mut Query, buffer: &mut [u8]) -> Verdict {
        let mut ede = None;
        let rcode = match query.parsed {
            Parsed::TooShort => return self.drop(Counter::DropShort),
            Parsed::Response => return self.drop(Counter::DropResponse),
            // RFC 1996 section 3.7: one question, for the SOA.
            Parsed::Opcode(NOTIFY) if query.name_len > 0 && query.qtype == rtype::SOA => {
                match self.caller(query) {
                    Some(Some(_)) => return self.postpone(query, buffer),
                    // RFC 1996 section 3.10: who is no primary of the zone is not listened to.
                    Some(None) => {
                        self.counters.count(Counter::NotifyRefused);
                        ede = Some(Ede::PROHIBITED);
                        Rcode::REFUSED
                    }
                    None => Rcode::NOTAUTH,
                }
            }
            // What is wrong with one that is signed is said under its key (RFC 8945 section 5.3).
            Parsed::Opcode(UPDATE) if self.setup.takes_updates => return self.postpone(query, buffer),
            // RFC 2136 section 3.1.1: the zone section holds one SOA.
            Parsed::Opcode(UPDATE) if query.name_len > 0 && query.qtype == rtype::SOA => Rcode::REFUSED,
            Parsed::Opcode(NOTIFY | UPDATE) => Rcode::FORMERR,
            Parsed::Opcode(_) => Rcode::NOTIMP,
            Parsed::BadVersion => Rcode::BADVERS,
            Parsed::CookieAlone => return self.cookie_alone(query, buffer),
            // Signatures are looked at before.
            Parsed::BadHeader | Parsed::BadBody | Parsed::Question | Parsed::Signed(_) => Rcode::FORMERR,
        };
        // What is malformed has said nothing reliable about EDNS (RFC 6891 section 7).
        query.edns.present &= !matches!(query.parsed, Parsed::BadHeader | Parsed::BadBody);
        let mut opt = Opt::plain(self.setup.udp_size_max, query.edns.dnssec_ok);
        if let Some(verdict) = self.limit_odd(query, &opt, buffer) {
            return verdict;
        }
        if ede.is_some() {
            opt.options().ede = ede;
        }
        self.finish(query, buffer, rcode, Flags::NONE, &opt)
    }

    /// The primary of a zone that sends a NOTIFY, by its address. None: the zone does not come from others.
    fn caller(&self, query: &Query) -> Option<Option<&'a Arc<Caller>>> {
        self.presence.caller(query.name(), self.peer.ip).filter(|_| query.qclass == CLASS_IN)
    }

    /// Whose work a message is that is postponed as it came; None: nobody's.
    #[cold]
    pub(crate) fn purpose(&self, query: &Query) -> Option<Purpose> {
        match query.parsed {
            Parsed::Opcode(NOTIFY) => Some(Purpose::Notify(Arc::clone(self.caller(query)??))),
            Parsed::Opcode(_) => Some(Purpose::Update),
            _ => Some(Purpose::Transfer),
        }
    }

    /// Somebody else's to answer, once he may ask at all.
    fn postpone(&mut self, query: &Query, buffer: &mut [u8]) -> Verdict {
        let opt = Opt::plain(self.setup.udp_size_max, false);
        self.limit_odd(query, &opt, buffer).unwrap_or(Verdict::Later)
    }

    /// RFC 7873 section 5.4: no question, just a cookie to be told or renewed.
    fn cookie_alone(&mut self, query: &Query, buffer: &mut [u8]) -> Verdict {
        let mut opt = Opt::plain(self.setup.udp_size_max, false);
        if !self.add_options(query, buffer, &mut opt)
            && let Some(verdict) = self.limit_odd(query, &opt, buffer)
        {
            return verdict;
        }
        let rcode = if opt.has_cookie() { Rcode::NOERROR } else { Rcode::FORMERR };
        self.finish(query, buffer, rcode, Flags::NONE, &opt)
    }

    /// An answer of header, question and OPT.
    pub(crate) fn finish(
        &self,
        query: &Query,
        buffer: &mut [u8],
        rcode: Rcode,
        flags: Flags,
        opt: &Opt<'_>,
    ) -> Verdict {
        let reply = Reply::begin(buffer, query.echoed_end(), PLAIN_MAX, 0);
        let len = reply.finish(flags, rcode, query.edns.present.then_some(opt));
        self.count(rcode);
        Verdict::Reply(len)
    }

    /// A transfer, and somebody gives zones away. Over UDP that is IXFR alone (RFC 5936 section 4.2, RFC 1995 section 2).
    #[cold]
    pub(crate) fn is_transfer(&self, query: &Query) -> bool {
        let is_whole = query.qtype == rtype::AXFR && self.transport == Transport::Tcp;
        self.setup.gives_transfers && query.qclass == CLASS_IN && (is_whole || query.qtype == rtype::IXFR)
    }

    /// Other classes, and types that no zone holds.
    #[cold]
    fn not_for_zones(&self, query: &Query, mut opt: Opt<'_>, buffer: &mut [u8]) -> Verdict {
        if query.qclass == CLASS_CH {
            return self.chaos(query, &opt, buffer);
        }
        let rcode = match query.qtype {
            _ if query.qclass == CLASS_ANY => Rcode::FORMERR,
            _ if query.qclass != CLASS_IN => Rcode::REFUSED,
            // RFC 5936 section 4.2: no AXFR over UDP.
            rtype::AXFR if self.transport == Transport::Udp => Rcode::NOTIMP,
            rtype::AXFR | rtype::IXFR => Rcode::REFUSED,
            0 | rtype::MAILA | rtype::MAILB => Rcode::NOTIMP,
            _ => Rcode::FORMERR,
        };
        if rcode == Rcode::REFUSED {
            opt.options().ede = Some(Ede::NOT_SUPPORTED);
        }
        self.finish(query, buffer, rcode, Flags::NONE, &opt)
    }

    /// RFC 4892: who and what we are, if the operator wants it told.
    fn chaos(&self, query: &Query, opt: &Opt<'_>, buffer: &mut [u8]) -> Verdict {
        let text = match query.name() {
            b"\x07version\x04bind\0" | b"\x07version\x06server\0" => self.setup.version.as_deref(),
            b"\x02id\x06server\0" | b"\x08hostname\x04bind\0" => self.setup.identity.as_deref(),
            _ => None,
        };
        let Some(text) = text.filter(|_| matches!(query.qtype, 16 | rtype::ANY)) else {
            return self.finish(query, buffer, Rcode::REFUSED, Flags::NONE, opt);
        };
        let text = &text.as_bytes()[..text.len().min(255)];
        let keep = if query.edns.present { opt.room() } else { 0 };
        let mut reply = Reply::begin(buffer, query.question_end(), PLAIN_MAX, keep);
        let n = text.len() as u8;
        let head = [0xC0, HEADER as u8, 0, 16, 0, CLASS_CH as u8, 0, 0, 0, 0, 0, n + 1, n];
        if reply.append(Need::Required, &head).is_some() && reply.append(Need::Required, text).is_some() {
            reply.count(Section::Answer, 1);
        }
        let len = reply.finish(Flags::NONE, Rcode::NOERROR, query.edns.present.then_some(opt));
        self.count(Rcode::NOERROR);
        Verdict::Reply(len)
    }

    /// Options of the answer that depend on the query alone. True: the client's cookie proves its address.
    #[cold]
    pub(crate) fn add_options(&self, query: &Query, buffer: &[u8], opt: &mut Opt<'a>) -> bool {
        let cookie = self.options(query, buffer, opt);
        match cookie {
            cookie::Verdict::New => {}
            cookie::Verdict::Valid => self.answers.count(Counter::CookieValid),
            cookie::Verdict::Bad => self.answers.count(Counter::CookieBad),
        }
        cookie == cookie::Verdict::Valid
    }

    /// The same, for a query that is counted elsewhere; and what the client's cookie is.
    pub(crate) fn options(&self, query: &Query, buffer: &[u8], opt: &mut Opt<'a>) -> cookie::Verdict {
        let edns = &query.edns;
        if edns.nsid {
            opt.options().nsid = self.setup.nsid.as_deref();
        }
        if edns.keepalive && self.transport == Transport::Tcp {
            opt.options().keepalive = Some(self.setup.keepalive_tenths);
        }
        let (at, len) = (edns.cookie_at as usize, edns.cookie_len as usize);
        let seen = buffer.get(at..at + len).unwrap_or_default();
        let Some((secrets, client)) = self.cookies.zip(seen.first_chunk::<8>()) else { return cookie::Verdict::New };
        opt.options().cookie = Some(secrets.issue(*client, self.peer.ip, self.now.wall_s));
        secrets.judge(seen, self.peer.ip, self.now.wall_s)
    }

    #[cold]
    pub(crate) fn is_admitted(&self, lookup: &Lookup) -> bool {
        let number = self.view.node(lookup.apex.reference).and_then(|n| n.zone_number());
        number.ok().is_none_or(|zone| self.zones.allow_query.admit(zone, self.peer.ip))
    }

    #[cold]
    fn zone_version(&self, lookup: &Lookup) -> Option<(u8, u32)> {
        let apex = self.view.node(lookup.apex.reference).ok()?;
        let labels = wire::name::label_count(apex.apex_name().ok()?) as u8;
        Some((labels, apex.zone().ok()?.serial().ok()?))
    }

    #[inline(always)]
    pub(crate) fn count(&self, rcode: Rcode) {
        self.answers.count(Counter::Answered);
        self.answers.count(counter_of(rcode));
    }

    /// Counts an answer that was written while it was not known whether it is a whole one.
    pub(crate) fn count_written(&self, reply: &[u8]) {
        let rcode = reply.get(3).map_or(Rcode::SERVFAIL, |flags| Rcode(u16::from(flags & 0xF)));
        self.count(rcode);
    }
}

/// Why the zone that a name belongs to cannot be answered for, if it cannot.
#[inline(always)]
pub(crate) fn absence<M: AsRef<[u8]>>(
    zones: &Zones<M>,
    presence: &Presence,
    query: &Query,
    lookup: &Lookup,
) -> Option<Absence> {
    if presence.is_complete() && !zones.unserved.may_concern(query) {
        return None;
    }
    looked_for(zones, presence, query, lookup)
}

#[cold]
fn looked_for<M: AsRef<[u8]>>(
    zones: &Zones<M>,
    presence: &Presence,
    query: &Query,
    lookup: &Lookup,
) -> Option<Absence> {
    let apex = |reference| Some(zones.image.view().node(reference).ok()?.apex_name().ok()?.len());
    let served = Some(lookup.apex.reference).filter(|_| lookup.found != Found::NotOurs).and_then(apex);
    // DS stand above the cut (RFC 4035 section 3.1.4.1).
    presence.absence(query.name(), served, query.qtype == rtype::DS, &zones.unserved)
}

/// What an answer with this code is counted as, beside `Answered`.
#[inline(always)]
pub fn counter_of(rcode: Rcode) -> Counter {
    match rcode {
        Rcode::NOERROR => Counter::NoError,
        Rcode::NXDOMAIN => Counter::NxDomain,
        Rcode::REFUSED => Counter::Refused,
        Rcode::FORMERR => Counter::FormErr,
        Rcode::SERVFAIL => Counter::ServFail,
        Rcode::NOTIMP => Counter::NotImp,
        Rcode::NOTAUTH => Counter::NotAuth,
        Rcode::BADVERS => Counter::BadVers,
        _ => Counter::OtherRcode,
    }
}
