//! The one pointer by which what is served changes.
//!
//! Readers compare a generation once a batch: a load of a line that nobody writes. Only when it moved do they take a lock, for as long as it
//! takes to clone an `Arc`. There are two, each with the pointer, and who publishes has one at a time: so answering threads, which go before
//! others, find one that is free, whoever was stopped while he held the other. What was replaced is kept by the publisher until no reader holds
//! it, so that unmapping a large image never falls to an answering thread.

use crate::locks::{hold, hold_either};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub struct Published<T> {
    generation: AtomicU64,
    /// The second is for answering threads, if they can have it.
    current: [Mutex<Arc<T>>; 2],
    /// One publishes at a time.
    publishing: Mutex<()>,
}

impl<T> Published<T> {
    pub fn new(first: T) -> Published<T> {
        let first = Arc::new(first);
        let current = [Mutex::new(Arc::clone(&first)), Mutex::new(first)];
        Published { generation: AtomicU64::new(1), current, publishing: Mutex::new(()) }
    }

    /// Replaces what is served. The caller keeps the old one until it is unused.
    pub fn publish(&self, next: T) -> Retired<T> {
        let next = Arc::new(next);
        let _alone = hold(&self.publishing);
        let [first, second] = &self.current;
        let old = std::mem::replace(&mut *hold(first), Arc::clone(&next));
        // The last but one: the caller has the other.
        drop(std::mem::replace(&mut *hold(second), next));
        self.generation.fetch_add(1, Ordering::Release);
        Retired(old)
    }

    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What is served now, and its generation.
    pub fn current(&self) -> (Arc<T>, u64) {
        let current = hold(&self.current[0]);
        (Arc::clone(&current), self.generation())
    }

    /// The same for answering threads.
    pub fn latest(&self) -> (Arc<T>, u64) {
        let [first, second] = &self.current;
        let current = hold_either([second, first]);
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

    #[test]
    fn an_answering_thread_waits_for_nobody_who_has_one_of_the_locks() {
        let p = Published::new(1);
        for lock in &p.current {
            let _stopped = lock.lock().unwrap();
            assert_eq!(*p.latest().0, 1);
        }
        let retired = p.publish(2);
        assert!(retired.is_unused());
        assert_eq!((*p.latest().0, p.latest().1, *p.current().0), (2, 2, 2));
    }
}
