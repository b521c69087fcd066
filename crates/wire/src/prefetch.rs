//! Asks the processor to fetch a line that will be read soon. The one place of the cores that needs `unsafe`.
#![allow(unsafe_code)]

/// Prefetches the line at `bytes[at]`, if there is one. Never reads, never faults.
#[inline(always)]
pub fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if at < bytes.len() {
        // SAFETY: `at` lies within the slice; a prefetch is a hint that reads nothing and cannot fault (Intel SDM, PREFETCHh).
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().add(at).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}

/// Prefetches the line where an item of a slice begins.
#[inline(always)]
pub fn prefetch_item<T>(items: &[T], i: usize) {
    #[cfg(target_arch = "x86_64")]
    if i < items.len() {
        // SAFETY: as above; the item lies within the slice.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().add(i).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, i);
}
