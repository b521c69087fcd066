//! The hosts that records of a zone name, by hash: nobody else's answers change with the addresses of one that is not here, so a
//! change of its addresses does not look through all names for those that carry them.
//!
//! ```text
//! hosts: hash u64... in order, of all zones together
//! ```
//! Only hosts at or below the apex of the zone that names them: of others no addresses go along. A host that is named no more stays
//! until the image is built anew. The hash is that of names, with a seed that is the same for every image, so that changes laid out
//! apart can be joined; whoever finds two names of one hash has made a search longer, and nothing else.

use crate::drafts::fold_into;
use crate::sets::Set;
use crate::sheet::target;
use wire::hash::name_hash;
use wire::name::is_at_or_below;

const SEED: u64 = 0;
/// Places for hosts that were noted not long ago: most are named again soon. Where few are named there are none.
const RECENT: usize = 4096;

pub(crate) fn hash_of(folded: &[u8]) -> u64 {
    name_hash(SEED, folded)
}

/// Hashes of hosts that are named, collected.
#[derive(Default)]
pub(crate) struct Named {
    hashes: Vec<u64>,
    recent: Vec<u64>,
    /// How many hashes there were when those that were there twice had gone.
    once: usize,
}

impl Named {
    /// Notes the hosts that the records of a zone's RRset name.
    pub(crate) fn note(&mut self, apex: &[u8], set: &Set<'_, '_>) {
        for target in set.records.iter().filter_map(|rr| target(set.rtype, rr.rdata)) {
            let mut folded = [0; 255];
            let folded = fold_into(target, &mut folded);
            if !is_at_or_below(folded, apex) {
                continue;
            }
            let hash = hash_of(folded);
            match self.recent.get_mut(hash as usize % RECENT) {
                Some(place) if *place == hash => continue,
                Some(place) => *place = hash,
                None => {}
            }
            self.hashes.push(hash);
            if self.hashes.len() >= 2 * self.once + RECENT {
                self.tidy();
                self.once = self.hashes.len();
                self.recent.resize(RECENT, 0);
                // A number that belongs elsewhere, as 0 does in all other places.
                self.recent[0] = 1;
            }
        }
    }

    fn tidy(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
    }

    /// The hashes that two have collected, in order.
    pub(crate) fn join(mut self, other: Named) -> Vec<u64> {
        self.hashes.extend(other.hashes);
        self.tidy();
        self.hashes
    }
}

#[cfg(test)]
mod tests {
    use crate::{Builder, Image};
    use wire::rtype::{MX, NS, SOA};

    const HOSTS: usize = 20_000;

    #[test]
    fn a_host_that_is_named_is_never_denied() {
        let apex = b"\x01z\0";
        let host = |n: usize| [&b"\x08"[..], format!("{n:08}").as_bytes(), apex].concat();
        let mut builder = Builder::new(7);
        builder.begin_zone(apex);
        builder.record(apex, SOA, 1, &[0; 22]).unwrap();
        builder.record(apex, NS, 1, b"\x02NS\x01Z\0").unwrap();
        builder.record(apex, MX, 1, b"\0\x01\x04mail\x05other\0").unwrap();
        for n in 0..3 * HOSTS {
            builder.record(&host(100_000 + n), NS, 1, &host(n % HOSTS)).unwrap();
        }
        let image = Image::open(builder.finish().0).unwrap();
        let may_name = |host: &[u8]| image.view().may_name(host).unwrap();
        assert!((0..HOSTS).all(|n| may_name(&host(n))) && may_name(b"\x02ns\x01z\0"));
        assert!(!(0..3 * HOSTS).any(|n| may_name(&host(100_000 + n))), "they name others");
        assert!(!may_name(b"\x04mail\x05other\0"), "no zone here has its addresses");
        assert_eq!(image.header().hosts as usize, HOSTS + 1);
    }
}
