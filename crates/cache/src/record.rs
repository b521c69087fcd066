//! A record: an entry as it lies in a ring. Sixteen octets of its own, then the key, then the value.
//!
//! ```text
//! word 0: checksum 32 | when it was stored 32
//! word 1: octets of the value 15 | TTL 20, 0: not a record, the ring goes on at its beginning | generation 19 | source 10
//! word 2 on: kind and variant 8 | octets of the name 8 | type 16 | name | value | zeros to the border
//! ```

use crate::entry::{TTL_MAX, VALUE_MAX};
use crate::key::{HEAD as KEY_HEAD, Key};
use crate::layout::SOURCES;

/// Words before the key.
pub(crate) const HEAD: usize = 2;
/// The smallest record: the root's name, no value.
pub(crate) const WORDS_MIN: usize = HEAD + 1;
/// The largest.
pub(crate) const WORDS_MAX: usize = HEAD + (KEY_HEAD + 255 + VALUE_MAX).div_ceil(8);
/// Generations are told apart modulo this.
pub(crate) const GENERATIONS: u32 = 1 << 19;

/// Word 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts(pub u64);

impl Facts {
    pub(crate) const BORDER: Facts = Facts(0);

    pub(crate) fn new(value_len: usize, ttl_s: u32, generation: u32, source: usize) -> Facts {
        Facts(
            value_len as u64
                | u64::from(ttl_s.min(TTL_MAX)) << 15
                | u64::from(generation % GENERATIONS) << 35
                | ((source % SOURCES) as u64) << 54,
        )
    }
    #[inline]
    pub(crate) fn value_len(self) -> usize {
        (self.0 & 0x7FFF) as usize
    }
    #[inline]
    pub(crate) fn ttl_s(self) -> u32 {
        (self.0 >> 15) as u32 & TTL_MAX
    }
    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 35) as u32 & (GENERATIONS - 1)
    }
    pub(crate) fn source(self) -> usize {
        (self.0 >> 54) as usize
    }
    pub(crate) fn is_border(self) -> bool {
        self.ttl_s() == 0
    }
}

/// Words of a record.
#[inline]
pub(crate) fn words(name_len: usize, value_len: usize) -> usize {
    HEAD + (KEY_HEAD + name_len + value_len).div_ceil(8)
}

/// A record about to be written: its words come out one by one.
pub(crate) struct Draft<'a> {
    key: [u8; KEY_HEAD + 255],
    key_len: usize,
    value: &'a [u8],
    pub facts: Facts,
    pub stored_s: u32,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(key: &Key<'_>, value: &'a [u8], facts: Facts, stored_s: u32) -> Draft<'a> {
        let mut octets = [0; KEY_HEAD + 255];
        let name = key.name.get(..255).unwrap_or(key.name);
        octets[..KEY_HEAD].copy_from_slice(&key.head);
        octets[KEY_HEAD..KEY_HEAD + name.len()].copy_from_slice(name);
        Draft { key: octets, key_len: KEY_HEAD + name.len(), value, facts, stored_s }
    }

    pub(crate) fn words(&self) -> usize {
        HEAD + (self.key_len + self.value.len()).div_ceil(8)
    }

    /// The words behind the head: of the key, the one in which key and value meet, of the value, and the last.
    #[inline]
    pub(crate) fn rest(&self) -> impl Iterator<Item = u64> {
        let (of_key, begun) = self.key.get(..self.key_len).unwrap_or_default().as_chunks::<8>();
        let more = if begun.is_empty() { 0 } else { 8 - begun.len() };
        let (fill, value) = self.value.split_at(more.min(self.value.len()));
        let (of_value, last) = value.as_chunks::<8>();
        let of_key = of_key.iter().map(|word| u64::from_le_bytes(*word)).chain(padded(begun, fill));
        of_key.chain(of_value.iter().map(|word| u64::from_le_bytes(*word))).chain(padded(last, &[]))
    }

    /// Word 0; `words` are all those behind the head.
    pub(crate) fn seal(&self, words: impl Iterator<Item = u64>) -> u64 {
        let sum = checksum(self.stored_s, self.facts, words);
        u64::from(sum) | u64::from(self.stored_s) << 32
    }
}

/// The word that begins with these octets and goes on with those, fewer than eight of the first. None: there are none of them.
fn padded(begun: &[u8], fill: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.iter_mut().zip(begun.iter().chain(fill)).for_each(|(to, from)| *to = *from);
    (!begun.is_empty()).then_some(u64::from_le_bytes(word))
}

/// Sixteen octets a multiplication. It is to find what a disk or a memory has changed, not what somebody forged.
pub(crate) fn checksum(stored_s: u32, facts: Facts, mut rest: impl Iterator<Item = u64>) -> u32 {
    const A: u64 = 0x9E37_79B9_7F4A_7C15;
    const B: u64 = 0xD6E8_FEB8_6659_FD93;
    let fold = |a: u64, b: u64| {
        let m = u128::from(a) * u128::from(b);
        (m >> 64) as u64 ^ m as u64
    };
    let mut sum = fold(u64::from(stored_s) ^ A, facts.0 ^ B);
    while let Some(first) = rest.next() {
        sum = fold(sum ^ first ^ A, rest.next().unwrap_or(0) ^ B).wrapping_add(sum.rotate_left(29));
    }
    (sum >> 32) as u32 ^ sum as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Hasher, Kind, Variant};

    #[test]
    fn facts_come_back() {
        let facts = Facts::new(VALUE_MAX, TTL_MAX, GENERATIONS + 5, SOURCES - 1);
        let found = (facts.value_len(), facts.ttl_s(), facts.generation(), facts.source());
        assert_eq!(found, (VALUE_MAX, TTL_MAX, 5, SOURCES - 1));
    }

    #[test]
    fn a_draft_gives_key_and_value_and_zeros() {
        let hasher = Hasher::new([1; 16]);
        for name_len in 1..40usize {
            let mut name = vec![b'x'; name_len];
            name[0] = name_len as u8 - 1;
            for value_len in [0, 1, 2, 3, 7, 8, 9, 300] {
                let value: Vec<u8> = (0..value_len).map(|i| (i % 251) as u8 + 1).collect();
                let key = hasher.key(hasher.name(&name), &name, 28, Kind::RrSet, Variant::PLAIN);
                let draft = Draft::new(&key, &value, Facts::new(value_len, 1, 0, 0), 0);
                let octets: Vec<u8> = draft.rest().flat_map(u64::to_le_bytes).collect();
                let mut expect = [&key.head[..], &name, &value].concat();
                assert_eq!(draft.words(), words(name.len(), value_len));
                expect.resize((draft.words() - HEAD) * 8, 0);
                assert_eq!(octets, expect);
            }
        }
    }

    #[test]
    fn a_flipped_bit_changes_the_checksum() {
        let words: Vec<u64> = (0..40).map(|i| i * i).collect();
        let facts = Facts::new(300, 60, 1, 1);
        let sum = |w: &[u64]| checksum(9, facts, w.iter().copied());
        for bit in 0..words.len() * 64 {
            let mut other = words.clone();
            other[bit / 64] ^= 1 << (bit % 64);
            assert_ne!(sum(&words), sum(&other), "{bit}");
        }
        assert_ne!(sum(&words), checksum(8, facts, words.iter().copied()));
    }
}
