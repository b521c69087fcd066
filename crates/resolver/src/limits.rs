//! How much may be open at a time: for all, for one client, for names near each other.
//!
//! Counts only, no lists: one number a client or neighbourhood that has something open, so there are never more of them
//! than waiters and tasks. Nobody can use up what others need: a client its address, an attacker the names of a victim.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use wire::hash::siphash;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tasks of one thread.
    pub tasks_max: usize,
    pub waiters_max: usize,
    /// Waiters of one IPv4 address or IPv6 /64.
    pub waiters_per_client_max: usize,
    /// Tasks for names with the same last two labels.
    pub tasks_per_neighbourhood_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            tasks_max: 4_096,
            waiters_max: 16_384,
            waiters_per_client_max: 256,
            tasks_per_neighbourhood_max: 1_024,
        }
    }
}

/// Keys are hashes under a secret already.
#[derive(Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, octets: &[u8]) {
        self.0 = octets.iter().fold(self.0, |h, &b| h << 8 | u64::from(b));
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

pub type ByHash<T> = HashMap<u64, T, BuildHasherDefault<AsIs>>;

/// How many of each are open.
#[derive(Default)]
pub struct Open(ByHash<usize>);

impl Open {
    pub fn of(&self, hash: u64) -> usize {
        self.0.get(&hash).copied().unwrap_or(0)
    }

    pub fn add(&mut self, hash: u64) {
        *self.0.entry(hash).or_insert(0) += 1;
    }

    pub fn remove(&mut self, hash: u64) {
        if let Some(n) = self.0.get_mut(&hash) {
            *n -= 1;
            if *n == 0 {
                self.0.remove(&hash);
            }
        }
    }
}

/// An address, or the /64 that a customer has of IPv6.
pub fn client_hash(key: &[u8; 16], ip: IpAddr) -> u64 {
    match ip {
        IpAddr::V4(ip) => siphash::<1, 3>(key, &ip.octets()),
        IpAddr::V6(ip) => siphash::<1, 3>(key, &ip.octets()[..8]),
    }
}
