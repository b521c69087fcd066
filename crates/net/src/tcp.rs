//! Length-prefixed messages over TCP (RFC 1035 section 4.2.2, RFC 7766): one thread serves many connections.
//!
//! ```text
//!  listener -> table of connections, each in one of four queues, oldest first:
//!     idle      no message begun          leaves by `idle` (sooner as the table fills), or for a new connection
//!     reading   a message begun           leaves by `message_timeout`, counted from its first octet
//!     waiting   answers are owed to it    leaves by `answer_timeout`, counted from the last answer
//!     writing   the peer does not read,   leaves by `write_timeout`; nothing more is read from it meanwhile
//!               or has had its share
//! ```
//!
//! The complete messages of one read are answered in one go and their answers leave with one write, as many of them as a
//! share of the turn holds: what is left waits, until the kernel says in the next turn that there is room for answers. The octets of a
//! message stand in buffers of the thread; a connection owns memory only for half a message, for what is left, or for answers that its
//! peer did not take. Each queue has one time limit, so its head is always the next to go: no event walks over all
//! connections. An answer that is not ready holds up none behind it (RFC 7766 section 7): the handler says `Later`, keeps the
//! ticket and hands the answer in when it has it. A long answer comes in pieces, each after the one before was taken, so that
//! a peer that reads slowly is known by the queue it stands in, and holds one piece of memory. Knows no DNS: what a message means, and whether a connection deserves to stay, is the handler's
//! business.

mod framing;
mod server;
mod table;

use crate::sys;
use crate::wake::{Turn, Wake};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

pub use table::Peers;

/// Longest message: what two octets of length can say.
pub const MESSAGE_MAX: usize = 65_535;

#[derive(Clone, Debug)]
pub struct TcpLimits {
    /// Connections in all (of this thread); past it the one that idles longest is closed in favour of the new one.
    pub connections_max: usize,
    /// Connections of one IPv4 address or IPv6 /64, over all threads whose limits are clones of each other.
    pub per_peer_max: usize,
    pub peers: Arc<Peers>,
    /// How long a connection without a message in progress may stay. From a half full table on it shrinks, to an
    /// eighth when the table is full.
    pub idle: Duration,
    /// How long a begun message may take to arrive.
    pub message_timeout: Duration,
    /// How long a peer may leave answers unread.
    pub write_timeout: Duration,
    /// How long a connection may wait for an answer that is not ready.
    pub answer_timeout: Duration,
    /// Answers that may be owed to one connection; nothing more is read from it until there is one less.
    pub owed_max: u16,
    /// Octets of answers that may wait for one peer to read.
    pub pending_write_max: usize,
    /// How long after `Turn::Stop` answers still waiting may go out.
    pub drain: Duration,
}

impl Default for TcpLimits {
    fn default() -> TcpLimits {
        TcpLimits {
            connections_max: 10_000,
            per_peer_max: 150,
            peers: Arc::default(),
            idle: Duration::from_secs(10),
            message_timeout: Duration::from_secs(2),
            write_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(30),
            owed_max: 100,
            pending_write_max: 256 << 10,
            drain: Duration::from_secs(1),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TcpEvent {
    Accepted,
    /// Closed at once: the table is full and nothing in it idles.
    RefusedTotal,
    /// Closed at once: too many of this peer.
    RefusedPeer,
    /// Not accepted for now: no file descriptors or memory left (EMFILE, ENFILE, ENOBUFS, ENOMEM).
    Exhausted,
    /// Closed after idling, or in favour of a new one.
    Idle,
    /// Closed: a begun message did not arrive in time, or the peer did not read.
    Slow,
    /// Closed: an answer owed to it did not come in time.
    Unanswered,
    /// Not sent: an answer that became ready after its connection had gone.
    AnswerLost,
    /// Closed after an error, half a message, a message of length zero, or because the handler said so.
    Broken,
    /// Closed by the peer between messages, or by us at the end of serving.
    Closed,
}

/// What follows a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer of this length (1 to 65,535) stands in the buffer.
    Reply(usize),
    /// No answer; the connection stays.
    Silence,
    /// The answer will come out of `next_later`, under the ticket of its message: one message, or many.
    Later,
    /// The connection is closed (after the answers to earlier messages).
    Close,
}

/// Names a connection for an answer that is not ready yet, and nothing once that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// A message as it came, and where from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    pub message: &'a [u8],
    pub peer: SocketAddr,
    /// Index of the listener that the connection came through.
    pub listener: usize,
    pub ticket: Ticket,
}

/// A message of an answer that was said to come later.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub ticket: Ticket,
    /// It stands at the start of the buffer, this long; 0: there is none.
    pub len: usize,
    /// Else more of the same answer follows, once this has been taken.
    pub is_last: bool,
}

/// Who answers. All calls come from the thread that called `serve`.
pub trait Messages {
    /// The loop has slept and woken up: a turn begins.
    fn on_wake(&mut self) {}
    /// A message of `len` octets stands at the start of `buffer` (65,535 octets); the answer replaces it there.
    fn on_message(&mut self, from: &Origin<'_>, buffer: &mut [u8], len: usize) -> Answer;
    /// An answer that was said to come later, or the next piece of it: it is put at the start of `buffer` (65,535
    /// octets). Asked every turn until None.
    fn next_later(&mut self, _buffer: &mut [u8]) -> Option<Piece> {
        None
    }
    /// The kernel has all of a piece that was not the last: the next one of this answer may come.
    fn on_taken(&mut self, _ticket: Ticket) {}
    /// No further piece of this answer reaches anybody: the connection is closed.
    fn on_gone(&mut self, _ticket: Ticket) {}
    fn on_event(&mut self, event: TcpEvent);
    /// After every turn, before any sleep, and soon after `Wake::ring`.
    fn on_turn(&mut self) -> Turn;
}

/// Connections that may wait to be accepted; the system's own limit (somaxconn) cuts it.
const BACKLOG: libc::c_int = 4096;

/// Binds and listens. Every thread can have a listener of its own on the same address.
pub fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = sys::socket(sys::family(addr), libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    let fd = socket.as_fd();
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    // Accepted connections inherit it: answers are written whole, there is nothing to wait for.
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    if addr.is_ipv6() {
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    sys::bind(fd, addr)?;
    sys::listen(fd, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// A listener that another process made with `listen`, and who knocked since.
pub fn adopt(fd: OwnedFd) -> io::Result<TcpListener> {
    if sys::option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_ACCEPTCONN)? == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no socket that listens"));
    }
    Ok(TcpListener::from(fd))
}

/// Serves until `on_turn` says stop; then answers what has arrived whole, closes, and returns after `drain` at the
/// latest.
pub fn serve(
    listeners: &[TcpListener],
    limits: &TcpLimits,
    wake: &Wake,
    handler: &mut impl Messages,
) -> io::Result<()> {
    server::Server::new(listeners, limits, wake, handler)?.run()
}

#[cfg(test)]
mod tests;
