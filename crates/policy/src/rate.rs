//! The rate limit on answers to addresses that have proven nothing: fixed memory, four prefix lengths, no false start.
//!
//! Every address and every prefix around it drains at its own rate; a query fills each by its price. Invariant: a table of
//! 2^15 rows of one cache line each, ten entries a row, taken once; an entry that finds no place evicts the emptiest of its
//! row, so that a flood of strangers cannot fill the memory, and whoever asks much is remembered longest. Sixteen bits of
//! the hash tell entries of a row apart; the key is random, so that nobody can choose whom to collide with.
//!
//! A query touches two lines: an address stands in the row of the network around it (/24), and that one's two surroundings
//! (/20, /18) in another. More than nine busy addresses of one network push each other out, and are still held to its limit.

use std::net::IpAddr;
use wire::cpu::equal_of_ten;

#[derive(Clone, Debug, PartialEq)]
pub struct RateSettings {
    /// Queries a second from one address, for long; bursts of 2.5 seconds' worth pass.
    pub per_second: u32,
    /// Every n-th withheld answer goes out truncated, so that an honest client comes back over TCP; 0: none.
    pub slip: u32,
    /// Count, but withhold nothing.
    pub dry_run: bool,
    /// Of IPv4 and of IPv6, longest first.
    pub prefixes: [[Step; 4]; 2],
    /// Addresses without a limit.
    pub exempt: Vec<crate::Prefix>,
    /// How many threads share the traffic of a network.
    pub threads: u32,
}

impl Default for RateSettings {
    fn default() -> RateSettings {
        RateSettings { per_second: 2_000, slip: 2, dry_run: false, prefixes: [V4, V6], exempt: vec![], threads: 1 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Admitted,
    /// Answer with TC and nothing else.
    Slip,
    Withhold,
}

/// A prefix length, and how many times an address's rate all that share such a prefix may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub bits: u8,
    pub times: u32,
}

const fn steps(all: [(u8, u32); 4]) -> [Step; 4] {
    let [a, b, c, d] = all;
    [step(a), step(b), step(c), step(d)]
}

const fn step((bits, times): (u8, u32)) -> Step {
    Step { bits, times }
}

const V4: [Step; 4] = steps([(32, 1), (24, 32), (20, 256), (18, 768)]);
const V6: [Step; 4] = steps([(128, 1), (64, 2), (56, 4), (48, 16)]);
const ROWS: usize = 1 << 15;
const WAYS: usize = 10;
const FULL: u32 = 1 << 31;
const DRAIN_MS: u64 = 2_500;

#[repr(align(64))]
#[derive(Clone, Copy, Default)]
struct Row {
    time_ms: u32,
    /// Little-endian, two octets each.
    tags: [u8; 2 * WAYS],
    loads: [u32; WAYS],
}

pub struct RateLimit {
    rows: Box<[Row]>,
    key: u64,
    prices: [[u32; 4]; 2],
    /// What of an address counts, upper and lower half, and the key for prefixes of this length.
    masks: [[(u64, u64, u64); 4]; 2],
    settings: RateSettings,
    withheld: u32,
}

/// Where the entries of an address are: computed once a query, prefetched, then used.
#[derive(Clone, Copy, Default)]
pub struct Places([Place; 2]);

/// Two prefixes, one within the other, and the row that both stand in.
#[derive(Clone, Copy, Default)]
struct Place {
    row: u32,
    inner: u16,
    outer: u16,
}

impl RateLimit {
    pub fn new(settings: RateSettings, key: [u64; 2]) -> RateLimit {
        let price = |times: u32| {
            // One flow meets one thread, so an address has its whole rate on each; a network is spread over all of them,
            // but is never held to less than one of its addresses.
            let share = f64::from(times) / f64::from(settings.threads.max(1));
            let burst = (f64::from(settings.per_second) * share.max(1.0)) as u64 * DRAIN_MS / 1000;
            (u64::from(FULL) / burst.max(1)) as u32
        };
        let prices = settings.prefixes.map(|steps| steps.map(|s| price(s.times)));
        // Constants of many ones and zeros, so that no key is a weak factor.
        let key = [key[0] ^ 0x9E37_79B9_7F4A_7C15, key[1] ^ 0xD6E8_FEB8_6659_FD93];
        let masks = settings.prefixes.map(|steps| steps.map(|s| mask(u32::from(s.bits), key[1])));
        RateLimit { rows: vec![Row::default(); ROWS].into(), key: key[0], prices, masks, settings, withheld: 0 }
    }

    pub fn is_dry_run(&self) -> bool {
        self.settings.dry_run
    }

    pub fn is_exempt(&self, ip: IpAddr) -> bool {
        self.settings.exempt.iter().any(|p| p.holds(ip))
    }

    /// Finds and prefetches the rows of an address.
    #[inline]
    pub fn places(&self, ip: IpAddr) -> Places {
        let (high, low, masks) = match ip {
            IpAddr::V4(v4) => (u64::from(u32::from(v4)) << 32, 0, &self.masks[0]),
            IpAddr::V6(v6) => ((u128::from(v6) >> 64) as u64, u128::from(v6) as u64, &self.masks[1]),
        };
        // A folded multiply under a secret key: who cannot see its output cannot find collisions.
        let hash = |&(upper, lower, key): &(u64, u64, u64)| {
            let product = u128::from(high & upper ^ self.key) * u128::from(low & lower ^ key);
            (product >> 64) as u64 ^ product as u64
        };
        let place = |inner, outer| {
            let outer = hash(outer);
            let row = (outer >> 16) as usize & (ROWS - 1);
            wire::cpu::prefetch_item(&self.rows, row);
            Place { row: row as u32, inner: hash(inner) as u16, outer: outer as u16 }
        };
        let [a, b, c, d] = masks;
        Places([place(a, b), place(c, d)])
    }

    /// Judges one query.
    #[inline(always)]
    pub fn judge(&mut self, places: &Places, is_v4: bool, now_ms: u64) -> Standing {
        let [near, far] = places.0;
        let [p, q, r, s] = self.prices[usize::from(!is_v4)];
        let near_found = self.rows[near.row as usize].find(near, now_ms as u32);
        let far_found = self.rows[far.row as usize].find(far, now_ms as u32);
        // Who is withheld pays nothing: else one address, spoofed, could use up what its neighbours share with it.
        if self.rows[near.row as usize].is_over(near_found, [p, q])
            || self.rows[far.row as usize].is_over(far_found, [r, s])
        {
            return self.withhold();
        }
        self.rows[near.row as usize].pay(near_found, [p, q]);
        self.rows[far.row as usize].pay(far_found, [r, s]);
        Standing::Admitted
    }

    #[cold]
    fn withhold(&mut self) -> Standing {
        self.withheld = self.withheld.wrapping_add(1);
        if self.settings.slip > 0 && self.withheld.is_multiple_of(self.settings.slip) {
            Standing::Slip
        } else {
            Standing::Withhold
        }
    }
}

/// The length goes into the key: prefixes of zeros are told apart.
fn mask(bits: u32, key: u64) -> (u64, u64, u64) {
    let all = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
    ((all >> 64) as u64, all as u64, key ^ u64::from(bits))
}

impl Row {
    /// The entries of both prefixes, drained to this moment.
    #[inline(always)]
    fn find(&mut self, place: Place, now_ms: u32) -> [usize; 2] {
        if now_ms != self.time_ms {
            self.drain(now_ms);
        }
        let outer = self.entry(place.outer, WAYS);
        [self.entry(place.inner, outer), outer]
    }

    #[inline(always)]
    fn is_over(&self, [inner, outer]: [usize; 2], [p, q]: [u32; 2]) -> bool {
        (self.loads[inner] > FULL - p) | (self.loads[outer] > FULL - q)
    }

    #[inline(always)]
    fn pay(&mut self, [inner, outer]: [usize; 2], [p, q]: [u32; 2]) {
        self.loads[inner] += p;
        self.loads[outer] += q;
    }

    #[cold]
    fn drain(&mut self, now_ms: u32) {
        let passed = u64::from(now_ms.wrapping_sub(self.time_ms)).min(DRAIN_MS);
        let drained = (passed * u64::from(FULL) / DRAIN_MS) as u32;
        self.loads.iter_mut().for_each(|l| *l = l.saturating_sub(drained));
        self.time_ms = now_ms;
    }

    /// The entry of a tag; if it is a new one, it takes no place from `beside`. Places never used have tag 0 and no load:
    /// whose tag is 0 may have one.
    #[inline(always)]
    fn entry(&mut self, tag: u16, beside: usize) -> usize {
        let found = equal_of_ten(&self.tags, tag);
        if found != 0 { found.trailing_zeros() as usize } else { self.evict(tag, beside) }
    }

    #[cold]
    fn evict(&mut self, tag: u16, beside: usize) -> usize {
        let mut least = usize::from(beside == 0);
        for i in (0..WAYS).filter(|&i| i != beside) {
            if self.loads[i] < self.loads[least] {
                least = i;
            }
        }
        self.tags[2 * least..2 * least + 2].copy_from_slice(&tag.to_le_bytes());
        self.loads[least] = 0;
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(per_second: u32, slip: u32) -> RateLimit {
        RateLimit::new(RateSettings { per_second, slip, ..RateSettings::default() }, [3, 5])
    }

    /// How many of `n` queries, one every `gap_ns`, are admitted.
    fn admitted(limit: &mut RateLimit, ip: &str, n: u64, gap_ns: u64, start_ms: u64) -> u64 {
        let ip: IpAddr = ip.parse().unwrap();
        let places = limit.places(ip);
        (0..n)
            .filter(|i| limit.judge(&places, ip.is_ipv4(), start_ms + i * gap_ns / 1_000_000) == Standing::Admitted)
            .count() as u64
    }

    #[test]
    fn an_address_below_its_rate_is_never_limited() {
        let mut l = limit(100, 2);
        assert_eq!(admitted(&mut l, "192.0.2.1", 10_000, 10_000_000, 0), 10_000);
    }

    #[test]
    fn an_address_above_its_rate_gets_its_rate_and_one_burst() {
        let mut l = limit(100, 2);
        // A thousand a second for ten seconds: 250 at once, then a hundred a second.
        let n = admitted(&mut l, "192.0.2.1", 10_000, 1_000_000, 0);
        assert!((1_200..=1_300).contains(&n), "{n}");
    }

    #[test]
    fn other_addresses_do_not_suffer() {
        let mut l = limit(100, 2);
        admitted(&mut l, "192.0.2.1", 10_000, 1_000, 0);
        assert_eq!(admitted(&mut l, "198.51.100.1", 100, 1_000, 0), 100);
        assert_eq!(admitted(&mut l, "2001:db8::1", 100, 1_000, 0), 100);
    }

    #[test]
    fn a_network_that_shares_the_load_is_limited_as_a_whole() {
        let mut l = limit(100, 2);
        let n: u64 = (0..=255).map(|i| admitted(&mut l, &format!("192.0.2.{i}"), 250, 1, 0)).sum();
        // 256 addresses with a burst of 250 each, against 32 bursts for their /24.
        assert!((7_800..=8_200).contains(&n), "{n}");
    }

    #[test]
    fn prefixes_are_the_operators_to_choose() {
        let v6 = steps([(96, 1), (40, 2), (32, 3), (16, 4)]);
        let settings = RateSettings { per_second: 100, prefixes: [V4, v6], ..RateSettings::default() };
        // Queries at once from: one /96, two of one /40, three of one /32, four of one /16, and from elsewhere.
        for (others, expect) in [
            ("2001:db8::1:0:2", 250),
            ("2001:db8:0:1::", 500),
            ("2001:db8:8000::", 500),
            ("2001:dead::", 500),
            ("2002::", 500),
        ] {
            let mut l = RateLimit::new(settings.clone(), [3, 5]);
            let n = admitted(&mut l, "2001:db8::1:0:1", 400, 1, 0) + admitted(&mut l, others, 400, 1, 0);
            assert!((expect - 2..=expect + 2).contains(&n), "{others}: {n}");
        }
        let mut l = RateLimit::new(settings, [3, 5]);
        let n: u64 = (0..9).map(|i| admitted(&mut l, &format!("2001:db8:0:{i}::"), 250, 1, 0)).sum();
        assert!((498..=502).contains(&n), "two bursts for a /40: {n}");
    }

    #[test]
    fn a_spoofed_flood_does_not_silence_the_neighbours_of_its_victim() {
        for (victim, neighbour) in [("192.0.2.1", "192.0.2.200"), ("2001:db8::1", "2001:db8:0:1::9")] {
            let mut l = limit(100, 2);
            admitted(&mut l, victim, 200_000, 1, 0);
            assert_eq!(admitted(&mut l, neighbour, 200, 1, 0), 200, "{neighbour}");
        }
    }

    #[test]
    fn a_client_of_one_flow_has_its_rate_whatever_the_number_of_threads() {
        let settings = RateSettings { per_second: 1_000, threads: 64, ..RateSettings::default() };
        let mut l = RateLimit::new(settings, [3, 5]);
        assert_eq!(admitted(&mut l, "192.0.2.1", 2_000, 1_000_000, 0), 2_000);
    }

    #[test]
    fn every_second_withheld_answer_slips() {
        let mut l = limit(1, 2);
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        let places = l.places(ip);
        let judged: Vec<Standing> = (0..8).map(|_| l.judge(&places, true, 0)).skip(2).collect();
        assert_eq!(judged.iter().filter(|s| **s == Standing::Slip).count(), 3);
        assert_eq!(judged.iter().filter(|s| **s == Standing::Withhold).count(), 3);
    }

    #[test]
    fn a_flood_of_strangers_leaves_the_memory_as_it_is() {
        let mut l = limit(100, 2);
        for i in 0..200_000u32 {
            let ip = IpAddr::from((i.wrapping_mul(2_654_435_761)).to_be_bytes());
            let places = l.places(ip);
            l.judge(&places, true, 0);
        }
        assert_eq!(l.rows.len(), ROWS);
    }
}
