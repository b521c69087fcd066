//! The words that the store is made of; under `--cfg loom` those that loom can watch.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{Ordering, fence};
#[cfg(loom)]
pub use watched::AtomicU64;

#[cfg(loom)]
mod watched {
    use loom::sync::atomic::AtomicU64 as Word;
    use loom::sync::atomic::Ordering::{self, Relaxed};

    /// Loom remembers of a word who touched it last, and tries another order only against him. A writer who looks at a
    /// slot before he fills it hides all readers that came before, and next to nothing is tried. So each word has a
    /// second one beside it, which every access touches in a way that loom takes for a write: an exchange that fails.
    /// It stores nothing, so it neither hands anything on nor says which value of the word is the latest.
    #[derive(Default)]
    pub struct AtomicU64 {
        word: Word,
        touched: Word,
    }

    impl AtomicU64 {
        pub fn new(n: u64) -> AtomicU64 {
            AtomicU64 { word: Word::new(n), touched: Word::new(0) }
        }

        fn touch(&self) -> &Word {
            let _ = self.touched.compare_exchange(1, 1, Relaxed, Relaxed);
            &self.word
        }

        pub fn load(&self, order: Ordering) -> u64 {
            self.touch().load(order)
        }

        pub fn store(&self, n: u64, order: Ordering) {
            self.touch().store(n, order);
        }

        pub fn swap(&self, n: u64, order: Ordering) -> u64 {
            self.touch().swap(n, order)
        }

        pub fn fetch_add(&self, n: u64, order: Ordering) -> u64 {
            self.touch().fetch_add(n, order)
        }

        pub fn fetch_sub(&self, n: u64, order: Ordering) -> u64 {
            self.touch().fetch_sub(n, order)
        }

        pub fn compare_exchange(&self, from: u64, to: u64, done: Ordering, not: Ordering) -> Result<u64, u64> {
            self.touch().compare_exchange(from, to, done, not)
        }
    }
}
