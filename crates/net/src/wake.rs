//! A doorbell between threads: `ring` makes a serving loop run a turn at once. Carries no message and loses none:
//! rings before a turn are one ring.
#![allow(unsafe_code)]

use crate::sys::{self, check};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// What a loop does after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Go,
    Stop,
}

/// An eventfd. Share it by reference or `Arc`; any thread may ring, one loop listens.
pub struct Wake {
    fd: OwnedFd,
    /// Somebody has rung since the loop listened last: who rings meanwhile need not ask the kernel for it.
    has_rung: AtomicBool,
}

impl Wake {
    pub fn new() -> io::Result<Wake> {
        // SAFETY: eventfd takes no pointers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        Ok(Wake { fd: unsafe { OwnedFd::from_raw_fd(fd) }, has_rung: AtomicBool::new(false) })
    }

    /// The loop that listens runs a turn soon, whether it sleeps or not.
    pub fn ring(&self) {
        if !self.has_rung.swap(true, SeqCst) {
            // The only failure is a full counter, and then the loop has a ring to see.
            let _ = sys::write(self.as_fd(), &1u64.to_ne_bytes());
        }
    }

    /// Takes all rings so far; true if there were any. Said before looking at what was rung for: a ring that comes
    /// between the two steps is taken with the others, the other way about it would be lost.
    pub fn clear(&self) -> bool {
        let any = sys::read(self.as_fd(), &mut [0; 8]).is_ok();
        self.has_rung.swap(false, SeqCst);
        any
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Wake {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_before_a_turn_are_one_ring() {
        let wake = Wake::new().unwrap();
        assert!(!wake.clear());
        wake.ring();
        wake.ring();
        assert!(wake.clear());
        assert!(!wake.clear());
    }
}
