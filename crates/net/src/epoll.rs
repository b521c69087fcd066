//! The kernel's list of descriptors with something to do. Level-triggered: what is not done shows up again.
#![allow(unsafe_code)]

use crate::sys::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Events taken at a time.
const EVENTS: usize = 256;

/// What to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
    /// Only errors, which cannot be turned off.
    Nothing,
}

/// Descriptors are known by the tokens that they were added with.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
    len: usize,
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: takes no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let none = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the descriptor was just made and nobody else owns it.
        Ok(Epoll { fd: unsafe { OwnedFd::from_raw_fd(fd) }, events: vec![none; EVENTS], len: 0 })
    }

    /// A descriptor leaves by being closed.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    fn control(&self, what: libc::c_int, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Read => libc::EPOLLIN,
            Interest::Write => libc::EPOLLOUT,
            Interest::Nothing => 0,
        };
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: `event` is live, both descriptors are open.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd.as_fd().as_raw_fd(), &raw mut event) }).map(drop)
    }

    /// Sleeps until there is something to do or the time is over (None: no end); says how many events there are.
    pub fn wait(&mut self, at_most: Option<Duration>) -> io::Result<usize> {
        // Rounded up: a deadline must be over when we wake for it.
        let ms = at_most.map_or(-1, |t| i32::try_from(t.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
        let (at, room) = (self.events.as_mut_ptr(), self.events.len() as libc::c_int);
        // SAFETY: pointer and room are those of a live vector.
        self.len = match check(unsafe { libc::epoll_wait(self.fd.as_raw_fd(), at, room, ms) }) {
            Ok(n) => n as usize,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
            Err(e) => return Err(e),
        };
        Ok(self.len)
    }

    /// Whether the i-th event of the last wait is of a descriptor that has nothing more to give.
    pub fn is_failure(&self, i: usize) -> bool {
        // A copy: the structure is packed.
        let events = self.events[i].events;
        events & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0
    }

    /// The token of the i-th event of the last wait.
    pub fn token(&self, i: usize) -> u64 {
        self.events[i].u64
    }
}
