//! Locks for threads that go before others, as answering threads do: the holder of one may be just the one whom they keep from the CPU. So
//! there are two, of which others hold one at a time, and either will do.

use std::hint::spin_loop;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// How often both are tried: somebody who runs holds one for some dozen instructions.
const TRIES: usize = 1000;

pub fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// None: somebody else has it.
pub fn try_to_hold<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(held) => Some(held),
        Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The first that can be had. That somebody was stopped in the midst of each is waited for.
pub fn hold_either<T>(locks: [&Mutex<T>; 2]) -> MutexGuard<'_, T> {
    for _ in 0..TRIES {
        if let Some(held) = locks.into_iter().find_map(try_to_hold) {
            return held;
        }
        spin_loop();
    }
    hold(locks[0])
}
