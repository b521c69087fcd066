//! The names that own addresses, found by hash: what referrals and other answers add.
//!
//! A registry's zone asks this a few million times, and nearly each time memory answers slowly. So an entry holds all that
//! leads to the records, and whoever will ask soon can have the entry, and then the records, fetched ahead.

use crate::collected::Spot;
use wire::cpu::prefetch_item;

/// A name that owns addresses.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub run: u32,
    /// It is no name of the zone's own: below a cut, or at one.
    pub is_glue: bool,
    pub spot: Spot,
}

#[derive(Clone, Copy)]
struct Entry {
    tag: u32,
    host: Host,
}

/// Open addressing, two thirds full. 24 octets a place.
#[derive(Default)]
pub(crate) struct Hosts(Vec<Option<Entry>>);

impl Hosts {
    pub(crate) fn with_room(n: usize) -> Hosts {
        Hosts(vec![None; n + n / 2 + 1])
    }

    fn place(&self, hash: u64) -> usize {
        ((u64::from(hash as u32) * self.0.len() as u64) >> 32) as usize
    }

    fn behind(&self, place: usize) -> usize {
        if place + 1 < self.0.len() { place + 1 } else { 0 }
    }

    fn tag(hash: u64) -> u32 {
        (hash >> 32) as u32
    }

    /// Adds a host; there must be room.
    pub(crate) fn insert(&mut self, hash: u64, host: Host) {
        let mut at = self.place(hash);
        while self.0[at].is_some() {
            at = self.behind(at);
        }
        self.0[at] = Some(Entry { tag: Hosts::tag(hash), host });
    }

    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&Host) -> bool) -> Option<Host> {
        let mut at = self.place(hash);
        while let Some(entry) = self.0[at] {
            if entry.tag == Hosts::tag(hash) && is_it(&entry.host) {
                return Some(entry.host);
            }
            at = self.behind(at);
        }
        None
    }

    /// Asks for the entry of a hash ahead of time.
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch_item(&self.0, self.place(hash));
    }
}
