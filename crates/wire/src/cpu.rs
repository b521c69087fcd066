//! What the language has no safe word for: asking the processor to fetch a line, and comparing eight numbers at once.
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

#[cfg(test)]
mod tests {
    use super::*;

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
