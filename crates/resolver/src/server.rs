//! What is known of a server that we ask: how fast it is, whether it is silent, whether it keeps the case of names and
//! understands EDNS.
//!
//! One of each address that the operator named. Learned only from replies that proved to be the server's own (RFC 5452:
//! its address and port, our port, id and question); forged ones change nothing. A silent server is asked again once
//! every `PROBE_EVERY_NS`, with a question that a client waits for anyway, so one that comes back after an hour is in
//! use within a second. Others let a silent server wait for 15 minutes or, backing off, for days (Unbound issue 1461).

use std::net::SocketAddr;

const MS: u64 = 1_000_000;
/// Waited for before anything is known of a server.
const FIRST_NS: u64 = 400 * MS;
/// A server that we forward to may have to ask others first, however near it is.
const LEAST_NS: u64 = 300 * MS;
/// Doubled for each try in vain, but never more: whoever waits longer has been answered by somebody else.
const MOST_NS: u64 = 1_500 * MS;
/// Silent is who has let this many questions go unanswered, and for this long.
const SILENT_AFTER: u32 = 6;
const SILENT_AFTER_NS: u64 = 1_000 * MS;
const PROBE_EVERY_NS: u64 = 500 * MS;
/// How long it is remembered that a server does not keep the case of names, or does not understand EDNS.
const LACK_NS: u64 = 900_000 * MS;

#[derive(Clone, Debug)]
pub struct Server {
    pub address: SocketAddr,
    /// Smoothed round trip and its deviation (RFC 6298 section 2), in ns. None: not heard yet.
    round_trip: Option<(u64, u64)>,
    unanswered: u32,
    /// When the oldest question was asked that nothing has been heard since.
    silent_since: Option<u64>,
    probe_at: u64,
    case_lost_until: u64,
    edns_lost_until: u64,
}

impl Server {
    pub fn new(address: SocketAddr) -> Server {
        Server {
            address,
            round_trip: None,
            unanswered: 0,
            silent_since: None,
            probe_at: 0,
            case_lost_until: 0,
            edns_lost_until: 0,
        }
    }

    /// How long to wait for an answer, after so many tries in vain.
    pub fn patience_ns(&self, tries: u32) -> u64 {
        let once = self.round_trip.map_or(FIRST_NS, |(mean, deviation)| mean + 4 * deviation.max(MS));
        (once.clamp(LEAST_NS, MOST_NS) << tries.min(5)).min(MOST_NS)
    }

    /// Less is better; one that was never asked is tried early.
    pub fn price_ns(&self) -> u64 {
        self.round_trip.map_or(0, |(mean, _)| mean) + u64::from(self.unanswered) * 100 * MS
    }

    pub fn is_silent(&self, now_ns: u64) -> bool {
        self.unanswered >= SILENT_AFTER && self.silent_since.is_some_and(|since| now_ns >= since + SILENT_AFTER_NS)
    }

    /// True once every so often: this question may be the one that finds out whether the server is back.
    pub fn may_probe(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.probe_at;
        if due {
            self.probe_at = now_ns + PROBE_EVERY_NS;
        }
        due
    }

    pub fn keeps_case(&self, now_ns: u64) -> bool {
        now_ns >= self.case_lost_until
    }

    /// Only what came over TCP shows that a server does not keep case: over UDP it may have been anybody.
    pub fn on_case_lost(&mut self, now_ns: u64) {
        self.case_lost_until = now_ns + LACK_NS;
    }

    pub fn speaks_edns(&self, now_ns: u64) -> bool {
        now_ns >= self.edns_lost_until
    }

    /// It has answered without EDNS what it had called malformed, or not implemented, with it.
    pub fn on_edns_lost(&mut self, now_ns: u64) {
        self.edns_lost_until = now_ns + LACK_NS;
    }

    /// A reply that is the server's own. `first_try`: a reply to a repetition says nothing about time (RFC 6298 section 3).
    pub fn on_heard(&mut self, took_ns: u64, first_try: bool) {
        (self.unanswered, self.silent_since) = (0, None);
        if !first_try && self.round_trip.is_some() {
            return;
        }
        self.round_trip = Some(match self.round_trip {
            None => (took_ns, took_ns / 2),
            Some((mean, deviation)) => {
                (mean - mean / 8 + took_ns / 8, deviation - deviation / 4 + mean.abs_diff(took_ns) / 4)
            }
        });
    }

    /// Nothing came in time, or the network said that nothing will.
    pub fn on_unanswered(&mut self, asked_ns: u64) {
        self.unanswered = self.unanswered.saturating_add(1);
        self.silent_since.get_or_insert(asked_ns);
    }

    /// For operators: mean round trip in ns.
    pub fn mean_ns(&self) -> Option<u64> {
        self.round_trip.map(|(mean, _)| mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server::new("192.0.2.53:53".parse().unwrap())
    }

    #[test]
    fn patience_follows_the_round_trip_and_doubles() {
        let mut s = server();
        assert_eq!([0, 1, 2, 9].map(|tries| s.patience_ns(tries) / MS), [400, 800, 1500, 1500]);
        (0..40).for_each(|_| s.on_heard(20 * MS, true));
        assert_eq!([0, 1].map(|tries| s.patience_ns(tries) / MS), [300, 600]);
        (0..60).for_each(|_| s.on_heard(500 * MS, true));
        assert!((500..600).contains(&(s.patience_ns(0) / MS)), "{}", s.patience_ns(0));
    }

    #[test]
    fn a_silent_server_is_probed_twice_a_second_and_back_with_one_reply() {
        let mut s = server();
        for i in 0..SILENT_AFTER {
            assert!(!s.is_silent(u64::from(i) * 300 * MS));
            s.on_unanswered(u64::from(i) * 300 * MS);
        }
        assert!(s.is_silent(1_800 * MS));
        let probes = (0..3_600_000).filter(|ms| s.may_probe(ms * MS)).count();
        assert_eq!(probes, 7200, "in an hour");
        s.on_heard(20 * MS, true);
        assert!(!s.is_silent(3_600_000 * MS));
    }

    #[test]
    fn a_burst_of_losses_is_no_silence() {
        let mut s = server();
        (0..100).for_each(|_| s.on_unanswered(0));
        assert!(!s.is_silent(900 * MS));
        assert!(s.is_silent(SILENT_AFTER_NS));
    }
}
