//! What the language has no safe word for: asking the processor to fetch a line, and comparing many numbers at once.
//! The one file of the cores that needs `unsafe`.
#![allow(unsafe_code)]

/// Prefetches the line at `bytes[at]`, if there is one. Never reads, never faults.
#[inline(always)]
pub fn prefetch(bytes: &[u8], at: usize) {
    prefetch_item(bytes, at);
}

/// Prefetches the line where an item of a slice begins.
#[inline(always)]
pub fn prefetch_item<T>(items: &[T], i: usize) {
    #[cfg(target_arch = "x86_64")]
    if i < items.len() {
        // SAFETY: the item lies within the slice; a prefetch is a hint that reads nothing and cannot fault (Intel SDM, PREFETCHh).
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().add(i).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, i);
}

/// A bit for each of the ten little-endian numbers that equals `wanted`.
#[inline(always)]
pub fn equal_of_ten(numbers: &[u8; 20], wanted: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            _mm_cmpeq_epi16, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
        };
        let last = i32::from_le_bytes([numbers[16], numbers[17], numbers[18], numbers[19]]);
        // SAFETY: SSE2 belongs to every x86-64 (System V ABI section 3.2); the load reads the first 16 of 20 octets.
        unsafe {
            let wanted = _mm_set1_epi16(wanted.cast_signed());
            let low = _mm_cmpeq_epi16(_mm_loadu_si128(numbers.as_ptr().cast()), wanted);
            let high = _mm_cmpeq_epi16(_mm_cvtsi32_si128(last), wanted);
            _mm_movemask_epi8(_mm_packs_epi16(low, high)).cast_unsigned() & 0x3FF
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let pairs = numbers.as_chunks::<2>().0.iter().enumerate();
        pairs.fold(0, |found, (i, n)| found | u32::from(u16::from_le_bytes(*n) == wanted) << i)
    }
}

/// Octets that are looked at together.
pub const BLOCK: usize = 64;

/// Says of each octet of a block whether a word of a zone file ends there: at a blank, a line end, or one of `;()"\`.
pub type WordEnds = fn(&[u8; BLOCK]) -> u64;

/// The quickest one that this processor has.
pub fn word_ends() -> WordEnds {
    #[cfg(target_arch = "x86_64")]
    return if is_x86_feature_detected!("avx2") { x86::word_ends_avx2 } else { x86::word_ends_sse2 };
    #[cfg(not(target_arch = "x86_64"))]
    word_ends_plain
}

/// The twin of all others, an octet at a time.
pub fn word_ends_plain(block: &[u8; BLOCK]) -> u64 {
    let is_end = |c: u8| matches!(c, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"' | b'\\');
    block.iter().enumerate().fold(0, |ends, (i, &c)| ends | u64::from(is_end(c)) << i)
}

/// A bit for each octet of a block that ends a line.
#[inline(always)]
pub fn line_ends(block: &[u8; BLOCK]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    return x86::equal(block, b"\n");
    #[cfg(not(target_arch = "x86_64"))]
    line_ends_plain(block)
}

/// Its twin, an octet at a time.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn line_ends_plain(block: &[u8; BLOCK]) -> u64 {
    block.iter().enumerate().fold(0, |ends, (i, &c)| ends | u64::from(c == b'\n') << i)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::BLOCK;
    use std::arch::x86_64::*;

    /// Must be called on processors with AVX2 only: `word_ends` is the one way to it.
    pub(super) fn word_ends_avx2(block: &[u8; BLOCK]) -> u64 {
        // SAFETY: `word_ends` hands this out only where AVX2 was detected.
        unsafe { of_nibbles(block) }
    }

    /// An octet is an end if the sets that its two halves belong to have a member in common: sets by the upper half, of which
    /// 0, 2, 3 and 5 have ends. A shuffle looks 32 of them up at once, and gives 0 for octets from 128 on.
    #[target_feature(enable = "avx2")]
    unsafe fn of_nibbles(block: &[u8; BLOCK]) -> u64 {
        let lower = _mm256_broadcastsi128_si256(_mm_setr_epi8(2, 0, 2, 0, 0, 0, 0, 0, 2, 3, 1, 4, 8, 1, 0, 0));
        let upper = _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 0, 2, 4, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
        let mut ends = 0;
        for half in 0..2 {
            // SAFETY: both halves of 32 octets lie within the block; the load needs no alignment.
            let octets = unsafe { _mm256_loadu_si256(block.as_ptr().add(32 * half).cast()) };
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(octets), _mm256_set1_epi8(15));
            let both = _mm256_and_si256(_mm256_shuffle_epi8(lower, octets), _mm256_shuffle_epi8(upper, high));
            let words = _mm256_movemask_epi8(_mm256_cmpeq_epi8(both, _mm256_setzero_si256())).cast_unsigned();
            ends |= u64::from(!words) << (32 * half);
        }
        ends
    }

    pub(super) fn word_ends_sse2(block: &[u8; BLOCK]) -> u64 {
        equal(block, b" \t\r\n;()\"\\")
    }

    /// A bit for each octet of a block that is one of these.
    #[inline(always)]
    pub(super) fn equal<const N: usize>(block: &[u8; BLOCK], wanted: &[u8; N]) -> u64 {
        let mut found = 0;
        for quarter in 0..4 {
            // SAFETY: SSE2 belongs to every x86-64; the quarters of 16 octets lie within the block.
            let mask = unsafe {
                let octets = _mm_loadu_si128(block.as_ptr().add(16 * quarter).cast());
                let equal = |c: u8| _mm_cmpeq_epi8(octets, _mm_set1_epi8(c.cast_signed()));
                let all = wanted.iter().fold(_mm_setzero_si128(), |all, &c| _mm_or_si128(all, equal(c)));
                _mm_movemask_epi8(all).cast_unsigned()
            };
            found |= u64::from(mask) << (16 * quarter);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_the_plain_twin_says() {
        let mut ways = vec![word_ends()];
        #[cfg(target_arch = "x86_64")]
        ways.push(x86::word_ends_sse2);
        let mut block = [b'a'; BLOCK];
        for at in 0..BLOCK {
            for c in 0..=255 {
                block[at] = c;
                assert!(ways.iter().all(|ends| ends(&block) == word_ends_plain(&block)), "{c} at {at}");
                assert_eq!(line_ends(&block), line_ends_plain(&block), "{c} at {at}");
            }
            block[at] = (at * 41) as u8;
        }
    }

    #[test]
    fn equal_numbers_are_found_wherever_they_stand() {
        for places in 0..1u32 << 10 {
            let mut numbers = [0xA5; 20];
            for i in (0..10).filter(|i| places >> i & 1 != 0) {
                numbers[2 * i..2 * i + 2].copy_from_slice(&[0x34, 0x12]);
            }
            assert_eq!(equal_of_ten(&numbers, 0x1234), places);
        }
    }
}
