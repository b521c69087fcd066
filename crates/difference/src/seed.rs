//! A small seeded generator (xorshift64*): the same seed makes the same zones and queries on every machine.

#[derive(Clone)]
pub struct Seed(u64);

impl Seed {
    pub fn new(seed: u64) -> Seed {
        Seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n.max(1) as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// How many seeds a run takes: a slice by default, `DIFFERENCE_SEEDS=n` for long runs.
pub fn count(default: u64) -> u64 {
    std::env::var("DIFFERENCE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// The first seed of a run, `DIFFERENCE_SEED=n`: to repeat a failure, or to go where no run has been.
pub fn first() -> u64 {
    std::env::var("DIFFERENCE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}
