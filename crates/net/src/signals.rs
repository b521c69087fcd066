//! Signals as values.
use std::io;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP
    Reload,
    /// SIGTERM or SIGINT
    Stop,
}

/// SIGHUP, SIGTERM and SIGINT. Make it before any thread is started: threads inherit the mask.
pub struct Signals {}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        unimplemented!()
    }
    /// The next signal; None when the time is over.
    pub fn wait(&self, _at_most: Option<Duration>) -> io::Result<Option<Signal>> {
        unimplemented!()
    }
}
