//! Signals as values: SIGHUP, SIGTERM and SIGINT are held back from all threads and read from a descriptor, so that no
//! code runs inside a handler. And none where an error says the same: a file that would be longer than a limit allows; nor
//! those that say something to other name servers, and would end this one.
#![allow(unsafe_code)]

use crate::sys::{self, check};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP
    Reload,
    /// SIGTERM or SIGINT
    Stop,
}

/// Make it before any thread is started: threads inherit the mask. Programs started later inherit it too.
pub struct Signals(OwnedFd);

impl Signals {
    pub fn new() -> io::Result<Signals> {
        for number in [libc::SIGXFSZ, libc::SIGUSR1, libc::SIGUSR2] {
            // SAFETY: nothing is done by a handler.
            if unsafe { libc::signal(number, libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        let set = held_back();
        // SAFETY: `set` is a live signal set; the old mask is not asked for.
        let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        // SAFETY: as above.
        let fd = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal; None when the time is over (no time: waits for ever).
    pub fn wait(&self, at_most: Option<Duration>) -> io::Result<Option<Signal>> {
        let end = at_most.map(|t| Instant::now() + t);
        loop {
            let left = end.map(|e| e.saturating_duration_since(Instant::now()));
            if sys::poll(&mut [sys::readable(self.as_fd())], left)? {
                return self.next();
            }
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
        }
    }

    fn next(&self) -> io::Result<Option<Signal>> {
        let mut record = [0u8; size_of::<libc::signalfd_siginfo>()];
        match sys::read(self.as_fd(), &mut record) {
            Ok(_) => Ok(signal(record)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// The number stands first in the record.
fn signal(record: [u8; size_of::<libc::signalfd_siginfo>()]) -> Option<Signal> {
    let number = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
    match libc::c_int::try_from(number).ok()? {
        libc::SIGHUP => Some(Signal::Reload),
        libc::SIGTERM | libc::SIGINT => Some(Signal::Stop),
        _ => None,
    }
}

fn held_back() -> libc::sigset_t {
    // SAFETY: a set of bits, for which zero is a value; the calls only write into it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for number in [libc::SIGHUP, libc::SIGTERM, libc::SIGINT] {
            libc::sigaddset(&raw mut set, number);
        }
        set
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_come_as_values() {
        let signals = Signals::new().unwrap();
        assert_eq!(signals.wait(Some(Duration::ZERO)).unwrap(), None);
        for (number, expect) in
            [(libc::SIGHUP, Signal::Reload), (libc::SIGTERM, Signal::Stop), (libc::SIGINT, Signal::Stop)]
        {
            // SAFETY: as below; this one is nothing to anybody, and the test goes on.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
            // SAFETY: takes no pointers. The signal goes to this thread only, which holds it back.
            unsafe { libc::pthread_kill(libc::pthread_self(), number) };
            assert_eq!(signals.wait(Some(Duration::from_secs(10))).unwrap(), Some(expect));
        }
    }
}
