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
    TcpRefusedTotal "tcp_refused_total" "TCP connections closed at once: the total limit";
    TcpRefusedPeer "tcp_refused_peer" "TCP connections closed at once: the limit of one address";
    TcpIdle "tcp_closed_idle" "TCP connections closed after idling";
    TcpSlow "tcp_closed_slow" "TCP connections closed: the peer did not read, or sent too slowly";
    TcpUnanswered "tcp_closed_unanswered" "TCP connections closed: an answer that was to come later did not";
    Postponed "postponed" "Questions whose answer comes later";
    DropBusy "dropped_busy" "Questions whose answer was to come later, dropped: too many wait already";
    LaterLost "later_lost" "Later answers not sent: their connection had gone, or too many were ready at once";
    TcpBroken "tcp_closed_broken" "TCP connections closed after a malformed message or an error";
    Panics "panics" "Panics caught while answering; the packet is saved";
    DropPanic "dropped_panic" "Packets not answered: answering them panicked, or others of their batch did";
}

/// Counters of one thread. Only that thread may add.
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

    pub fn value(&self, which: Counter) -> u64 {
        self.0[which as usize].load(Relaxed)
    }
}

/// Sum over threads.
pub fn total<'a>(all: impl IntoIterator<Item = &'a Counters>, which: Counter) -> u64 {
    all.into_iter().map(|c| c.value(which)).sum()
}
