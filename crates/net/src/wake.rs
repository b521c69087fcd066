//! A doorbell between threads: `ring` makes a serving loop run a turn at once. Carries no message and loses none:
//! rings before a turn are one ring.

use std::io;

/// What a loop does after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Go,
    Stop,
}

/// An eventfd. Share it by reference or `Arc`; any thread may ring.
pub struct Wake(std::os::fd::OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Wake> {
        unimplemented!()
    }
    /// The loop that waits on this runs a turn soon, whether it sleeps or not.
    pub fn ring(&self) {
        unimplemented!()
    }
    /// Takes all rings so far; true if there were any.
    pub fn clear(&self) -> bool {
        unimplemented!()
    }
}
