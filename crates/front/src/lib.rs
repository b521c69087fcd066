//! The worker: a packet and the time go in, a verdict comes out. One way for UDP, TCP and the simulator alike.
//!
//! Never blocks, never reads a clock, owns no socket. What it reads of the world is published to it by one pointer.

mod chain;
mod later;
pub mod locks;
mod presence;
mod published;
mod resolving;
mod respond;
mod signed;
mod unserved;
mod worker;

use std::net::IpAddr;

pub use chain::Composed;
pub use later::{Judged, Miss, Postponed, Purpose, Ticket, Wanted, Way};
pub use presence::{Absence, Caller, Mark, Presence};
pub use published::{Published, Retired};
pub use resolving::{Resolving, Told, cache_time};
pub use respond::counter_of;
pub use unserved::Unserved;
pub use worker::{BATCH_MAX, Granted, Setup, Worker, Zones};

/// The time, given by the driver: once a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// Nanoseconds since an arbitrary start: for limits and intervals.
    pub mono_ns: u64,
    /// Seconds since 1970: for cookies and dates. The two are never compared with each other.
    pub wall_s: u64,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub ip: IpAddr,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

/// Datagrams that arrived together. Each lies in a buffer of at least `DATAGRAM_MAX` octets; its answer replaces it there.
pub trait Datagrams {
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    fn peer(&self, i: usize) -> Peer;
    /// The way back, should the answer come later.
    fn ticket(&self, i: usize) -> Ticket;
    /// The buffer and the length of the query in it.
    fn packet(&mut self, i: usize) -> (&mut [u8], usize);
    /// The same, to be written into: from here on the query is lost.
    fn room(&mut self, i: usize) -> (&mut [u8], usize) {
        self.packet(i)
    }
    /// Length of the answer; 0: nothing is sent.
    fn set_reply(&mut self, i: usize, len: usize);
}

/// Room for a datagram: 23 cache lines, so that neighbours do not fall into the same sets.
pub const DATAGRAM_MAX: usize = 1472;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The answer stands in the buffer, this long.
    Reply(usize),
    /// Nothing is sent; it is counted.
    Drop,
    /// The answer comes later: the question is the worker's `next_postponed`.
    Later,
}
