//! Length-prefixed messages over TCP (RFC 1035 section 4.2.2, RFC 7766): one thread serves many connections.
//!
//! ```text
//!  listener -> table of connections, each in one of three queues, oldest first:
//!     idle      no message begun          leaves by `idle` (sooner as the table fills), or for a new connection
//!     reading   a message begun           leaves by `message_timeout`, counted from its first octet
//!     writing   the peer does not read    leaves by `write_timeout`; nothing more is read from it meanwhile
//! ```
//!
//! The complete messages of one read are answered in one go and their answers leave with one write. The octets of a
//! message stand in buffers of the thread; a connection owns memory only for half a message or for answers that its
//! peer did not take. Each queue has one time limit, so its head is always the next to go: no event walks over all
//! connections. Knows no DNS: what a message means, and whether a connection deserves to stay, is the handler's
//! business.

mod epoll;
mod framing;
mod server;
mod table;

use crate::sys;
use crate::wake::{Turn, Wake};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::Duration;

/// Longest message: what two octets of length can say.
pub const MESSAGE_MAX: usize = 65_535;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpLimits {
    /// Connections in all (of this thread); past it the one that idles longest is closed in favour of the new one.
    pub connections_max: usize,
    /// Connections of one IPv4 address or IPv6 /64.
    pub per_peer_max: usize,
    /// How long a connection without a message in progress may stay. From a half full table on it shrinks, to an
    /// eighth when the table is full.
    pub idle: Duration,
    /// How long a begun message may take to arrive.
    pub message_timeout: Duration,
    /// How long a peer may leave answers unread.
    pub write_timeout: Duration,
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
            idle: Duration::from_secs(10),
            message_timeout: Duration::from_secs(2),
            write_timeout: Duration::from_secs(5),
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
    /// The connection is closed (after the answers to earlier messages).
    Close,
}

/// Who answers. All calls come from the thread that called `serve`.
pub trait Messages {
    /// A message of `len` octets stands at the start of `buffer` (65,535 octets); the answer replaces it there.
    /// `listener` is the index of the listener the connection came through.
    fn on_message(&mut self, peer: SocketAddr, listener: usize, buffer: &mut [u8], len: usize) -> Answer;
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
