//! The one pointer by which what is served changes.
//!
//! Readers compare a generation once a batch: a load of a line that nobody writes. Only when it moved do they take the
//! lock, for as long as it takes to clone an `Arc`. What was replaced is kept by the publisher until no reader holds it,
//! so that unmapping a large image never falls to an answering thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub struct Published<T> {
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

impl<T> Published<T> {
    pub fn new(first: T) -> Published<T> {
        Published { generation: AtomicU64::new(1), current: Mutex::new(Arc::new(first)) }
    }

    /// Replaces what is served. The caller keeps the old one until it is unused.
    pub fn publish(&self, next: T) -> Retired<T> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, Arc::new(next));
        self.generation.fetch_add(1, Ordering::Release);
        Retired(old)
    }

    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What is served now, and its generation.
    pub fn current(&self) -> (Arc<T>, u64) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&current), self.generation())
    }
}

/// Something that was served. To be dropped by a background thread, once nobody uses it.
pub struct Retired<T>(Arc<T>);

impl<T> Retired<T> {
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_the_new_and_the_old_is_kept_while_in_use() {
        let p = Published::new(1);
        let (first, generation) = p.current();
        let retired = p.publish(2);
        assert_ne!(p.generation(), generation);
        assert!(!retired.is_unused());
        assert_eq!((*first, *p.current().0), (1, 2));
        drop(first);
        assert!(retired.is_unused());
    }
}
