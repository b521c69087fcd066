//! Length-prefixed messages over TCP.
use crate::wake::{Turn, Wake};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// Longest message: what two octets of length can say.
pub const MESSAGE_MAX: usize = 65_535;

#[derive(Clone, Debug)]
pub struct TcpLimits {
    /// Connections in all; past it the one that idles longest is closed in favour of the new one.
    pub connections_max: usize,
    /// Connections of one IPv4 address or IPv6 /64.
    pub per_peer_max: usize,
    /// How long a connection without a message in progress may stay; shrinks as the table fills.
    pub idle: Duration,
    /// How long a begun message may take to arrive.
    pub message_timeout: Duration,
    /// How long a peer may leave answers unread.
    pub write_timeout: Duration,
    /// Octets of answers that wait for one peer to read.
    pub pending_write_max: usize,
    /// Messages of one connection that are answered before the others get their turn.
    pub messages_per_turn_max: usize,
    /// How long after `Turn::Stop` answers still waiting may go out.
    pub drain: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Closed after an error, a message of length zero, or because the handler said so.
    Broken,
    /// Closed by the peer between messages.
    Closed,
}

/// What to do with the connection after a message.
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
    /// After every turn, before any sleep, and at once after `Wake::ring`.
    fn on_turn(&mut self) -> Turn;
}

/// Binds and listens: SO_REUSEPORT, SO_REUSEADDR, V6ONLY, non-blocking.
pub fn listen(_addr: SocketAddr) -> io::Result<TcpListener> {
    unimplemented!()
}

/// Serves until `on_turn` says stop, then drains.
pub fn serve(
    _listeners: &[TcpListener],
    _limits: &TcpLimits,
    _wake: &Wake,
    _handler: &mut impl Messages,
) -> io::Result<()> {
    unimplemented!()
}
