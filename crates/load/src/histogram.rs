//! Latencies in a log-linear histogram: 1,024 steps in each power of two, so that no figure is off by more than 0.1 %.
//!
//! Bound: 28,672 counters (224 KiB) whatever is recorded; values above two minutes count as two minutes. Only the range
//! that was touched is merged and cleared.

const SUB_BITS: u32 = 10;
const SUB: usize = 1 << SUB_BITS;
/// Longest value, in nanoseconds: 137 s.
const LARGEST: u64 = (1 << 37) - 1;
const BUCKETS: usize = (37 - SUB_BITS as usize + 1) << SUB_BITS;

#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    largest: u64,
    sum: u128,
    /// Buckets `low..high` may be other than zero.
    low: usize,
    high: usize,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS].into(), total: 0, largest: 0, sum: 0, low: BUCKETS, high: 0 }
    }
}

#[inline]
fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let e = 63 - value.leading_zeros();
    (((e - SUB_BITS + 1) as usize) << SUB_BITS) + ((value >> (e - SUB_BITS)) as usize & (SUB - 1))
}

/// The largest value of a bucket.
fn top(bucket: usize) -> u64 {
    let (e, m) = (bucket >> SUB_BITS, (bucket & (SUB - 1)) as u64);
    if e == 0 { m } else { ((m + SUB as u64 + 1) << (e - 1)) - 1 }
}

impl Histogram {
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        let value = value_ns.min(LARGEST);
        let b = bucket(value);
        self.counts[b] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.largest = self.largest.max(value);
        self.low = self.low.min(b);
        self.high = self.high.max(b + 1);
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    pub fn max(&self) -> u64 {
        self.largest
    }

    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    /// The value that a part of all (0.99: ninety-nine in a hundred) does not exceed; 0 where there are none.
    pub fn percentile(&self, part: f64) -> u64 {
        let want = ((self.total as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for b in self.low..self.high {
            seen += self.counts[b];
            if seen >= want {
                return top(b).min(self.largest);
            }
        }
        self.largest
    }

    pub fn merge(&mut self, other: &Histogram) {
        for b in other.low..other.high {
            self.counts[b] += other.counts[b];
        }
        self.total += other.total;
        self.sum += other.sum;
        self.largest = self.largest.max(other.largest);
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }

    pub fn clear(&mut self) {
        if self.low < self.high {
            self.counts[self.low..self.high].fill(0);
        }
        (self.total, self.largest, self.sum, self.low, self.high) = (0, 0, 0, BUCKETS, 0);
    }

    /// How many values lie in each step of a logarithmic scale, `steps` to a decade from a microsecond up.
    pub fn decades(&self, steps: usize) -> Vec<(f64, u64)> {
        let mut bars: Vec<(f64, u64)> = Vec::new();
        for b in (self.low..self.high).filter(|&b| self.counts[b] != 0) {
            let us = (top(b) as f64 / 1e3).max(1.0);
            let edge = 10f64.powf((us.log10() * steps as f64).floor() / steps as f64);
            match bars.last_mut() {
                Some((at, n)) if (*at - edge).abs() < edge * 1e-6 => *n += self.counts[b],
                _ => bars.push((edge, self.counts[b])),
            }
        }
        bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn no_value_is_off_by_more_than_a_thousandth() {
        let mut chance = Chance::new(1);
        for bits in 1..37 {
            for _ in 0..200 {
                let value = chance.bits() >> (64 - bits);
                let stands_for = top(bucket(value));
                assert!(stands_for >= value && (stands_for - value) as f64 <= value as f64 / 1000.0, "{value}");
            }
        }
        assert_eq!(bucket(LARGEST), BUCKETS - 1);
        assert!((1..BUCKETS).all(|b| top(b) > top(b - 1) && bucket(top(b)) == b));
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let mut chance = Chance::new(2);
        let (mut histogram, mut values) = (Histogram::default(), Vec::new());
        for _ in 0..10_000 {
            let value = chance.bits() >> (30 + chance.below(20));
            values.push(value);
            histogram.record(value);
        }
        values.sort_unstable();
        for part in [0.0f64, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let at = ((10_000.0 * part).ceil() as usize).max(1) - 1;
            let (exact, found) = (values[at], histogram.percentile(part));
            assert!(found >= exact && found - exact <= exact / 1000 + 1, "{part}: {exact} {found}");
        }
        assert_eq!(histogram.max(), values[9999]);
        assert_eq!(histogram.count(), 10_000);
    }

    #[test]
    fn merging_is_recording_both_and_clearing_leaves_nothing() {
        let (mut a, mut b, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        for i in 0..1000u64 {
            let into = if i % 3 == 0 { &mut a } else { &mut b };
            into.record(i * i * 1000);
            both.record(i * i * 1000);
        }
        a.merge(&b);
        assert_eq!(a.counts, both.counts);
        assert_eq!((a.count(), a.max(), a.mean()), (both.count(), both.max(), both.mean()));
        assert_eq!(a.decades(5).iter().map(|d| d.1).sum::<u64>(), 1000);
        a.clear();
        assert_eq!(a.counts, Histogram::default().counts);
        assert_eq!((a.percentile(0.5), a.max(), a.count()), (0, 0, 0));
        a.merge(&Histogram::default());
        a.record(LARGEST * 2);
        assert_eq!(a.max(), LARGEST);
    }
}
