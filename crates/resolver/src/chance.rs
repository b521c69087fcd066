//! Random numbers that nobody can foretell from those they have seen: ChaCha20 (RFC 8439) as a stream of octets.
//!
//! The seed is an argument: a driver draws it from the kernel, a test writes it down. Source ports, message ids and the
//! case of names all come from one stream a thread. A weaker generator whose state shows in its output has given away
//! ids before (CVE-2025-40780).

pub type Seed = [u8; 32];

pub struct Chance {
    key: [u32; 8],
    block: u64,
    words: [u32; 16],
    used: usize,
}

impl Chance {
    pub fn new(seed: Seed) -> Chance {
        let mut key = [0; 8];
        for (word, octets) in key.iter_mut().zip(seed.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*octets);
        }
        Chance { key, block: 0, words: [0; 16], used: 16 }
    }

    pub fn number(&mut self) -> u32 {
        if self.used == 16 {
            self.words = block(&self.key, self.block);
            self.block += 1;
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    pub fn wide(&mut self) -> u64 {
        u64::from(self.number()) << 32 | u64::from(self.number())
    }

    /// 0 to `n` - 1, each as likely as the others to within 2^-32.
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.number()) * u64::from(n)) >> 32) as u32
    }
}

/// RFC 8439 section 2.3, with a counter of 64 bits and a nonce of zero.
fn block(key: &[u32; 8], counter: u64) -> [u32; 16] {
    let start: [u32; 16] = [
        0x6170_7865,
        0x3320_646e,
        0x7962_2d32,
        0x6b20_6574,
        key[0],
        key[1],
        key[2],
        key[3],
        key[4],
        key[5],
        key[6],
        key[7],
        counter as u32,
        (counter >> 32) as u32,
        0,
        0,
    ];
    rounds(start)
}

fn rounds(start: [u32; 16]) -> [u32; 16] {
    let mut state = start;
    for _ in 0..10 {
        for i in 0..4 {
            quarter(&mut state, [i, 4 + i, 8 + i, 12 + i]);
        }
        for i in 0..4 {
            quarter(&mut state, [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4]);
        }
    }
    std::array::from_fn(|i| state[i].wrapping_add(start[i]))
}

fn quarter(s: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (left, right) in [(16, 12), (8, 7)] {
        s[a] = s[a].wrapping_add(s[b]);
        s[d] = (s[d] ^ s[a]).rotate_left(left);
        s[c] = s[c].wrapping_add(s[d]);
        s[b] = (s[b] ^ s[c]).rotate_left(right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_of_rfc_8439_section_2_3_2() {
        let key: Seed = std::array::from_fn(|i| i as u8);
        let mut start = [0; 16];
        start[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        start[4..12].copy_from_slice(&Chance::new(key).key);
        start[12..].copy_from_slice(&[1, 0x0900_0000, 0x4a00_0000, 0]);
        let out = rounds(start);
        assert_eq!((out[0], out[1], out[15]), (0xe4e7_f110, 0x1559_3bd1, 0x4e3c_50a2));
    }

    #[test]
    fn one_seed_gives_one_stream_and_two_give_two() {
        let draw = |seed| {
            let mut chance = Chance::new([seed; 32]);
            std::array::from_fn::<u32, 40, _>(|_| chance.number())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut chance = Chance::new([3; 32]);
        assert!((0..1000).all(|_| chance.below(7) < 7));
    }
}
