//! Counters: plain numbers that one thread writes and anyone reads.
//!
//! Each answering thread owns one `Counters`; adding is a relaxed load and store (one writer, no locked instruction),
//! reading sums over all threads. A counter exists only in the table below: its name, its help and its variant.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($variant:ident $name:literal $help:literal;)*) => {
        /// What is counted. The name is the metric's, without the prefix `dunlin_`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $($variant),* }

        impl Counter {
            pub const ALL: &'static [Counter] = &[$(Counter::$variant),*];
            pub fn name(self) -> &'static str { match self { $(Counter::$variant => $name),* } }
            pub fn help(self) -> &'static str { match self { $(Counter::$variant => $help),* } }
        }
    };
}

counters! {
    QueriesUdp "queries_udp" "Queries received over UDP";
    QueriesTcp "queries_tcp" "Queries received over TCP";
    Answered "answers" "Answers sent or queued for sending";
    NoError "rcode_noerror" "Answers with rcode NOERROR";
    FormErr "rcode_formerr" "Answers with rcode FORMERR";
    ServFail "rcode_servfail" "Answers with rcode SERVFAIL";
    NxDomain "rcode_nxdomain" "Answers with rcode NXDOMAIN";
    NotImp "rcode_notimp" "Answers with rcode NOTIMP";
    Refused "rcode_refused" "Answers with rcode REFUSED";
    NotAuth "rcode_notauth" "Answers with rcode NOTAUTH";
    BadVers "rcode_badvers" "Answers with rcode BADVERS";
    OtherRcode "rcode_other" "Answers with another rcode";
    Truncated "truncated" "Answers that did not fit and went with TC set";
    OptionalLeftOut "optional_left_out" "Answers that left optional records out for want of room";
    Referrals "referrals" "Answers that refer to a child zone";
    DropShort "dropped_short" "Packets of less than a header, not answered";
    DropResponse "dropped_response" "Packets with QR set, not answered: an answer would feed a loop";
    DropSource "dropped_source" "Packets from port 0 or from an address of our own, not answered";
    DropRate "dropped_rate" "Answers withheld by the rate limit";
    SlipRate "slipped_rate" "Answers replaced by a truncated one by the rate limit";
    WouldLimit "would_limit" "Answers the rate limit would have withheld, in dry-run";
    RefusedAcl "refused_acl" "Queries refused by allow-query";
    CookieValid "cookies_valid" "Queries with a valid server cookie";
    CookieBad "cookies_bad" "Queries with a server cookie that is not ours or too old";
    ImageDamaged "image_damaged" "Lookups that met a damaged image";
    DropDamaged "dropped_damaged" "Answers withheld because the image vanished while they were written";
    SendFailed "send_failed" "Answers that the kernel refused to send";
    TcpAccepted "tcp_accepted" "TCP connections accepted";
    TcpRefusedFull "tcp_refused_full" "TCP connections closed at once: the total limit";
    TcpRefusedPeer "tcp_refused_peer" "TCP connections closed at once: the limit of one address";
    TcpIdle "tcp_closed_idle" "TCP connections closed after idling";
    TcpSlow "tcp_closed_slow" "TCP connections closed: the peer did not read, or sent too slowly";
    TcpUnanswered "tcp_closed_unanswered" "TCP connections closed: an answer that was to come later did not";
    Postponed "postponed" "Questions whose answer comes later";
    DropBusy "dropped_busy" "Questions whose answer was to come later, dropped: too many wait already";
    LaterLost "later_lost" "Later answers not sent: their connection had gone, or too many were ready at once";
    TcpBroken "tcp_closed_broken" "TCP connections closed after a malformed message or an error";
    CacheHit "cache_hits" "Answers from the cache";
    CacheHitNegative "cache_hits_negative" "Answers from the cache that deny something";
    CacheHitStale "cache_hits_stale" "Answers from the cache that had expired, with nothing better to be had in time";
    CacheHitFailure "cache_hits_failure" "Answers from the cache that a question could not be answered a moment ago";
    CacheMiss "cache_misses" "Questions that the cache had no answer to";
    CachePrefetch "cache_prefetches" "Answers near their end that were asked for anew ahead of time";
    CacheUnfit "cache_unfit" "Answers that could not be kept: too large, or without a lifetime";
    Tasks "tasks" "Questions that servers were asked for";
    TaskJoined "tasks_joined" "Clients that wait for a question which somebody else asked already";
    TaskAnswered "tasks_answered" "Questions that servers answered";
    TaskFailed "tasks_failed" "Questions that no server answered";
    ShedClient "shed_client" "Questions shed because one client waits for too many; answered with SERVFAIL";
    ShedZone "shed_zone" "Questions shed because too many for names near theirs are open; answered with SERVFAIL";
    ShedTasks "shed_tasks" "Questions shed because too many are open; answered with SERVFAIL";
    UpstreamUdp "upstream_udp" "Questions sent to servers over UDP";
    UpstreamTcp "upstream_tcp" "Questions sent to servers over TCP";
    UpstreamReply "upstream_replies" "Replies of servers";
    UpstreamTimeout "upstream_timeouts" "Questions to servers that were not answered in time";
    UpstreamFailed "upstream_failed" "Questions to servers that the network refused";
    UpstreamRefused "upstream_refused" "Replies that refuse, fail or refer, so that another server is asked";
    UpstreamWrongId "upstream_wrong_id" "Packets with a wrong id where a reply was awaited; the question goes on over TCP";
    UpstreamWrongCase "upstream_wrong_case" "Replies that changed the case of the name; the question goes on over TCP";
    UpstreamNoEdns "upstream_no_edns" "Replies that call malformed or unknown what may be the question's EDNS; it goes on without, or over TCP";
    UpstreamNoise "upstream_noise" "Packets that are no reply to what was asked, ignored";
    UpstreamTruncated "upstream_truncated" "Truncated replies; the question goes on over TCP";
    UpstreamProbe "upstream_probes" "Questions sent to a silent server to find out whether it is back";
    TransferDone "transfers" "Zones given away as a whole";
    TransferBroken "transfers_broken" "Zone transfers that ended early: nobody took the rest, or the image is damaged";
    TransferRefused "transfers_refused" "Zone transfers refused: not ours, not allowed, or not signed rightly";
    TransferBusy "transfers_busy" "Zone transfers refused: too many wait already";
    TransferOctets "transfer_octets" "Octets of zone transfers handed over for sending";
    ServFailAwaited "servfail_awaited" "Answers SERVFAIL because the zone has not come from its primaries yet";
    ServFailUnserved "servfail_unserved" "Answers SERVFAIL because the zone's file is wrong, or not there, and there is no version to serve";
    ServFailExpired "servfail_expired" "Answers SERVFAIL because the zone has expired: its primaries could not be asked for too long";
    SoaAsked "soa_asked" "Questions to primaries whether a zone has changed";
    SoaFailed "soa_failed" "Questions to primaries for the SOA that came to nothing: no answer, or one that is of no use";
    ZoneReceived "zones_received" "Zones received from their primaries as a whole";
    ZoneNotReceived "zones_not_received" "Zone transfers from primaries that broke off, or were refused here or there";
    ReceivedOctets "received_octets" "Octets of zone transfers received";
    NotifyTaken "notifies_taken" "NOTIFYs of primaries that were followed";
    NotifyRefused "notifies_refused" "NOTIFYs refused: not from a primary of the zone, not signed rightly, or malformed";
    NotifySent "notifies_sent" "NOTIFYs sent to others, retries too";
    NotifyAnswered "notifies_answered" "NOTIFYs that others answered";
    NotifyFailed "notifies_failed" "Servers that were not told of a new version: they answered no NOTIFY, or refused it";
    VersionHeld "versions_held" "New versions of zones that were held, and not served";
    UpdateDone "updates" "Dynamic updates carried out, also those that found nothing to change";
    UpdateUnmet "updates_unmet" "Dynamic updates with a prerequisite that was not met";
    UpdateRefused "updates_refused" "Dynamic updates refused: not ours, not allowed, frozen, malformed, or not signed rightly";
    UpdateFailed "updates_failed" "Dynamic updates that could not be made durable, or not be served";
    WrittenBack "written_back" "Zones that updates had changed, written back into their files";
    Panics "panics" "Panics caught while answering; the packet is saved";
    DropPanic "dropped_panic" "Packets not answered: answering them panicked, or others of their batch did";
}

/// Counters of one thread. Only that thread may add, but for `count_together`.
pub struct Counters([AtomicU64; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Counters([const { AtomicU64::new(0) }; Counter::ALL.len()])
    }
}

impl Counters {
    #[inline]
    pub fn add(&self, which: Counter, n: u64) {
        let c = &self.0[which as usize];
        c.store(c.load(Relaxed) + n, Relaxed);
    }

    #[inline]
    pub fn count(&self, which: Counter) {
        self.add(which, 1);
    }

    /// For what several threads count, and seldom.
    pub fn count_together(&self, which: Counter) {
        self.0[which as usize].fetch_add(1, Relaxed);
    }

    pub fn value(&self, which: Counter) -> u64 {
        self.0[which as usize].load(Relaxed)
    }
}

/// Sum over threads.
pub fn total<'a>(all: impl IntoIterator<Item = &'a Counters>, which: Counter) -> u64 {
    all.into_iter().map(|c| c.value(which)).sum()
}
