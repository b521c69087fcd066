//! What is known of the pages of an image that is served: which of them are not as they were built.
//!
//! As long as all is well that is one flag, looked at once a batch. Once a page is damaged, each read asks here first, and
//! what stands on a damaged page is not there: the answer is SERVFAIL, not what the octets happen to spell. Octets that
//! vanished under the mapping read as zeros, and which ones did is not known at first: no page is believed until all have
//! been compared.
//!
//! One thread compares; any thread may suspect.

use crate::format::Header;
use crate::sums::{self, PAGE};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

#[derive(Default)]
pub(crate) struct Trust {
    is_doubted: AtomicBool,
    is_suspected: AtomicBool,
    /// A bit a page, 1 if it is intact: an eighth of an octet for 4096. None yet: all are, or under suspicion none is.
    intact: OnceLock<Box<[AtomicU64]>>,
    faults: AtomicU32,
    /// A page of which nothing is known is compared by whoever reads it.
    is_lazy: bool,
}

impl Trust {
    /// No page is believed before it is read. `faults`: of reads that have failed so far.
    pub(crate) fn of_none(pages: usize, faults: u32) -> Trust {
        let trust = Trust { is_lazy: true, faults: faults.into(), is_doubted: true.into(), ..Trust::default() };
        trust.intact.get_or_init(|| (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect());
        trust
    }

    /// True if no page is known to be damaged.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_doubted.load(SeqCst)
    }

    pub(crate) fn faults(&self) -> u32 {
        self.faults.load(SeqCst)
    }

    /// So many reads have failed: none of the pages is believed until it is compared again.
    #[cold]
    pub(crate) fn suspect(&self, faults: u32) {
        self.is_suspected.store(true, SeqCst);
        self.is_doubted.store(true, SeqCst);
        self.forget();
        self.faults.store(faults, SeqCst);
    }

    fn forget(&self) {
        self.intact.get().into_iter().flatten().for_each(|bits| bits.store(0, SeqCst));
    }

    pub(crate) fn compare(&self, bytes: &[u8], header: &Header, from: usize, most: usize) -> Option<usize> {
        let pages = sums::count(header);
        let to = from.saturating_add(most).min(pages);
        for page in from..to {
            self.note(page, pages, sums::is_intact(bytes, header, page));
        }
        (to < pages).then_some(to)
    }

    fn note(&self, page: usize, pages: usize, is_intact: bool) {
        if is_intact && self.is_whole() {
            return;
        }
        let intact = self.intact.get_or_init(|| (0..pages.div_ceil(64)).map(|_| AtomicU64::new(u64::MAX)).collect());
        // Who suspected before there was anything to forget.
        if self.is_suspected.swap(false, SeqCst) {
            self.forget();
        }
        let bit = 1 << (page % 64);
        match is_intact {
            true => intact[page / 64].fetch_or(bit, SeqCst),
            false => intact[page / 64].fetch_and(!bit, SeqCst),
        };
        self.is_doubted.store(true, SeqCst);
    }

    /// `is_as_built`: what comes of comparing a page.
    pub(crate) fn is_intact(&self, at: usize, len: usize, is_as_built: impl Fn(usize) -> bool) -> bool {
        if self.is_whole() {
            return true;
        }
        let Some(intact) = self.intact.get() else { return false };
        let is_intact = |page: usize| {
            let Some(bits) = intact.get(page / 64) else { return false };
            let bit = 1 << (page % 64);
            let is_known = bits.load(Relaxed) & bit != 0;
            let is_found = !is_known && self.is_lazy && is_as_built(page);
            if is_found {
                bits.fetch_or(bit, SeqCst);
            }
            is_known || is_found
        };
        (at / PAGE..(at + len).div_ceil(PAGE)).all(is_intact)
    }

    /// Pages that are damaged, once all have been compared; then some numbers of no page.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = self.intact.get().into_iter().flatten().enumerate();
        bits.flat_map(|(i, bits)| {
            let bits = bits.load(Relaxed);
            (0..64).filter(move |page| bits >> page & 1 == 0).map(move |page| 64 * i + page)
        })
    }
}
