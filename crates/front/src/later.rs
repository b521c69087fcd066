//! Questions whose answer is not ready when they are read: what has to be looked up elsewhere, or be safe on disk first.
//!
//! The worker hands them on as data and forgets them. Whoever answers keeps the ticket; the driver's thread that it
//! names sends the answer, whenever it comes and whatever has been answered since.

use crate::{Caller, Peer, Transport};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The way back to who asked. Made by the driver; who loses it loses that one answer and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The answering thread that received the question, and has to send the answer.
    pub thread: u16,
    pub way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The socket of that thread, the peer with its scope, the address asked, and the interface where that is needed.
    Datagram { port: u16, peer: SocketAddr, asked: IpAddr, interface: u32 },
    /// The connection: a name that means nothing any more once it is closed.
    Stream(u64),
}

/// A question put off, with all that is needed to answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postponed {
    pub ticket: Ticket,
    pub peer: Peer,
    pub transport: Transport,
    /// The message as it came; empty if nobody waits.
    pub message: Vec<u8>,
    pub purpose: Purpose,
}

/// Whose work it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    Update,
    /// A primary, by its address, says that a zone has changed.
    Notify(Arc<Caller>),
    /// A zone as a whole, or what has changed of it.
    Transfer,
    Resolve(Miss),
}

/// A question that neither our zones nor the cache could answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    pub question: resolver::Question,
    /// The cache has an answer that has expired, which may be given if nothing better comes in time.
    pub has_stale: bool,
    pub wanted: Wanted,
    /// None: nobody has looked whether a zone of ours has a word on the name.
    pub judged: Option<Judged>,
}

/// A name on which our zones had no word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Of the cache, when they were looked at.
    pub generation: u32,
    pub name_hash: cache::NameHash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The client waits for this answer.
    Answer,
    /// The client waits for an answer that begins in a zone of ours and goes on with this question: `Worker::compose`.
    RestOfChain,
    /// Nobody waits: the client has an answer that ends soon.
    Prefetch,
}
