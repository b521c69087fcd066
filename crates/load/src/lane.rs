//! One way to the target, with its own table of outstanding queries: a UDP socket or a TCP connection.

use crate::clock::Clock;
use crate::outstanding::{Heard, Outstanding};
use crate::source::Source;
use crate::tally::Tally;
use net::generator::Until;
use std::io;
use std::os::fd::BorrowedFd;

/// What all lanes of a run share while it goes on.
pub struct Shared {
    pub clock: Clock,
    pub source: Source,
    pub tally: Tally,
}

pub trait Lane {
    fn outstanding(&mut self) -> &mut Outstanding;

    /// How many queries can be sent now.
    fn room(&self) -> usize;

    /// Sends a query for each due time, and says how many went out.
    fn send(&mut self, dues: &[u64], shared: &mut Shared) -> io::Result<usize>;

    /// Takes what came in, and says how many packets that was.
    fn receive(&mut self, shared: &mut Shared) -> io::Result<usize>;

    /// The kernel says when an answer came.
    fn has_stamps(&self) -> bool;

    fn fd(&self) -> Option<(BorrowedFd<'_>, Until)>;

    /// Packets that the kernel dropped on our side.
    fn drops(&self) -> u64 {
        0
    }
}

/// Counts what was heard.
#[inline]
pub fn note(heard: Heard, packet: &[u8], at_ns: u64, tally: &mut Tally) {
    match heard {
        Heard::Answer(query) => tally.answered(query, at_ns, packet),
        Heard::Late(query) => tally.late(query),
        Heard::Duplicate(query) => tally.duplicate(query),
        Heard::WrongQuestion => tally.counts.wrong_question += 1,
        Heard::WrongId => tally.counts.wrong_id += 1,
        Heard::Malformed => tally.counts.malformed += 1,
    }
}
