//! Which hosts the records of a zone certainly do not name, so that an update of an address does not look through all its
//! names, millions perhaps, for those that carry it.
//!
//! Bound: 16 to 32 bits for each record that names a host, of zones that updates change; taken once. A host that is named
//! no more stays. Of 400 hosts that nobody names about one is looked for in vain.

use image::{Damaged, Zone};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::hash::name_hash;

const BITS_A_HOST: u64 = 16;
const PROBES: u64 = 4;

/// By apex.
#[derive(Clone, Default)]
pub struct Hosts(HashMap<Box<[u8]>, Arc<Named>>);

/// The hosts that a zone names, and some more.
pub struct Named {
    seed: u64,
    words: Vec<AtomicU64>,
}

impl Hosts {
    /// What a zone names; the caller tells of every record that comes later.
    pub fn know(&mut self, apex: &[u8], named: Named) {
        self.0.insert(apex.into(), Arc::new(named));
    }

    /// A record that comes to a zone.
    pub fn learn(&self, apex: &[u8], rtype: u16, rdata: &[u8]) {
        if let Some((named, host)) = self.0.get(apex).zip(image::edit::host_of(rtype, rdata)) {
            named.add(host);
        }
    }

    /// False: certainly no record of the zone names the host.
    pub fn may_be_named(&self, apex: &[u8], host: &[u8]) -> bool {
        self.0.get(apex).is_none_or(|named| named.may_hold(host))
    }
}

impl Named {
    pub fn of(zone: &Zone<'_>, seed: u64) -> Result<Named, Damaged> {
        let mut hosts = 0;
        zone.for_each_record(&mut |_, rtype, _, rdata| {
            hosts += u64::from(image::edit::host_of(rtype, rdata).is_some());
        })?;
        let words = (hosts * BITS_A_HOST).div_ceil(64).next_power_of_two();
        let named = Named { seed, words: (0..words).map(|_| AtomicU64::new(0)).collect() };
        zone.for_each_record(&mut |_, rtype, _, rdata| {
            image::edit::host_of(rtype, rdata).into_iter().for_each(|host| named.add(host));
        })?;
        Ok(named)
    }

    /// Word and bit of each probe.
    fn places(&self, host: &[u8]) -> impl Iterator<Item = (usize, u64)> + use<'_> {
        let hash = name_hash(self.seed, &host.to_ascii_lowercase());
        let (step, bits) = (hash >> 32 | 1, self.words.len() as u64 * 64);
        (0..PROBES).map(move |i| hash.wrapping_add(i.wrapping_mul(step)) & (bits - 1)).map(|bit| {
            let word = usize::try_from(bit / 64).unwrap_or(0);
            (word, 1 << (bit % 64))
        })
    }

    fn add(&self, host: &[u8]) {
        for (word, bit) in self.places(host) {
            self.words.get(word).map(|w| w.fetch_or(bit, Relaxed));
        }
    }

    fn may_hold(&self, host: &[u8]) -> bool {
        self.places(host).all(|(word, bit)| self.words.get(word).is_none_or(|w| w.load(Relaxed) & bit != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{Builder, Image};
    use wire::rtype::{A, NS, SOA};

    const HOSTS: u64 = 10_000;

    #[test]
    fn a_host_that_is_named_is_never_denied() {
        let apex = b"\x01z\0";
        let host = |n: u64| [&b"\x08"[..], format!("{n:08}").as_bytes(), apex].concat();
        let mut builder = Builder::new(7);
        builder.begin_zone(apex);
        builder.record(apex, SOA, 1, &[0; 22]).unwrap();
        builder.record(apex, NS, 1, &host(0)).unwrap();
        for n in 1..=HOSTS {
            builder.record(&host(n), NS, 1, &host(n + 1)).unwrap();
        }
        let image = Image::open(builder.finish().0).unwrap();
        let mut hosts = Hosts::default();
        assert!(hosts.may_be_named(apex, &host(99_999_999)), "nothing is known of the zone");
        let zone = crate::laying::zone(image.view(), apex).unwrap();
        hosts.know(apex, Named::of(&zone, 3).unwrap());
        assert!((0..=HOSTS + 1).filter(|&n| n != 1).all(|n| hosts.may_be_named(apex, &host(n))));
        let strangers = (0..HOSTS).filter(|n| hosts.may_be_named(apex, &host(50_000_000 + n))).count();
        assert!(strangers < 100, "{strangers}");
        hosts.learn(apex, A, &[192, 0, 2, 1]);
        hosts.learn(apex, NS, &host(88_888_888).to_ascii_uppercase());
        assert!(hosts.may_be_named(apex, &host(88_888_888)));
    }
}
