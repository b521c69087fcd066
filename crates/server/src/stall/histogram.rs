//! Durations, counted: eight buckets an octave, so that a figure is right within 12 %. One thread writes, any reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The power of two of the buckets in an octave.
const FINE: u32 = 3;
/// Octaves of nanoseconds: up to 18 minutes. What is longer is counted in the last bucket.
const OCTAVES: u32 = 38;
const BUCKETS: usize = (OCTAVES << FINE) as usize;

pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        let buckets = [const { AtomicU64::new(0) }; BUCKETS];
        Histogram { buckets, sum_ns: AtomicU64::new(0), max_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    #[inline]
    pub fn add(&self, ns: u64) {
        let add = |to: &AtomicU64, n: u64| to.store(to.load(Relaxed) + n, Relaxed);
        add(&self.buckets[bucket(ns)], 1);
        add(&self.sum_ns, ns);
        if ns > self.max_ns.load(Relaxed) {
            self.max_ns.store(ns, Relaxed);
        }
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| b.load(Relaxed)).sum()
    }

    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Relaxed)
    }

    pub fn max_ns(&self) -> u64 {
        self.max_ns.load(Relaxed)
    }

    /// How many lasted less than 2^`power` ns.
    pub fn below(&self, power: u32) -> u64 {
        self.buckets[..bucket(1 << power)].iter().map(|b| b.load(Relaxed)).sum()
    }
}

/// The duration that this share of all, in ten thousandths, does not exceed.
pub fn quantile_ns(all: &[&Histogram], share: u64) -> u64 {
    let total: u64 = all.iter().map(|h| h.count()).sum();
    let longest = all.iter().map(|h| h.max_ns()).max().unwrap_or(0);
    let wanted = (total * share).div_ceil(10_000);
    let mut seen = 0;
    for i in 0..BUCKETS {
        seen += all.iter().map(|h| h.buckets[i].load(Relaxed)).sum::<u64>();
        if seen >= wanted && seen > 0 {
            return end(i).min(longest);
        }
    }
    longest
}

/// The upper `FINE` + 1 bits tell the bucket.
#[inline]
fn bucket(ns: u64) -> usize {
    let octave = (ns | 1 << FINE).ilog2() - FINE;
    let fine = (ns >> octave) as usize & ((1 << FINE) - 1);
    // Below 2^(FINE+1) the buckets are single nanoseconds.
    let upper = if ns < 1 << FINE { 0 } else { octave as usize + 1 };
    ((upper << FINE) + fine).min(BUCKETS - 1)
}

/// The longest duration of a bucket.
fn end(bucket: usize) -> u64 {
    let (upper, fine) = (bucket >> FINE, (bucket & ((1 << FINE) - 1)) as u64);
    match upper {
        0 => fine,
        _ => ((fine + (1 << FINE) + 1) << (upper - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_bucket_that_ends_at_or_after_it() {
        let mut last = 0;
        for ns in (0..5000).chain((13..40).flat_map(|p| [(1 << p) - 1, 1 << p, (1 << p) + 1])) {
            let b = bucket(ns);
            assert!(b >= last && (b == BUCKETS - 1 || end(b) >= ns), "{ns}");
            assert!(b == 0 || end(b - 1) < ns, "{ns}");
            assert!(b == BUCKETS - 1 || end(b) <= ns + ns / 8, "{ns} within an eighth: {}", end(b));
            last = b;
        }
    }

    #[test]
    fn quantiles_over_several_threads() {
        let (a, b) = (Histogram::default(), Histogram::default());
        assert_eq!(quantile_ns(&[&a, &b], 5000), 0);
        (0..9_990).for_each(|_| a.add(1000));
        (0..10).for_each(|_| b.add(1_000_000));
        let all = [&a, &b];
        assert!((1000..1130).contains(&quantile_ns(&all, 9_990)));
        assert_eq!(quantile_ns(&all, 9_999), 1_000_000, "never more than the longest");
        assert_eq!((a.below(10), a.below(9), b.below(30)), (9_990, 0, 10));
        assert_eq!((a.sum_ns(), b.max_ns()), (9_990_000, 1_000_000));
    }
}
