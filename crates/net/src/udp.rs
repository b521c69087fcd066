//! Datagrams in batches.
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Octets from one buffer to the next.
pub const STRIDE: usize = 1472;
/// Packets of a batch that suit both latency and the cost of a system call.
pub const BATCH: usize = 32;
/// Octets of receive buffer.
pub const RECV_BUFFER: usize = 4 << 20;

pub struct UdpPort {}

/// What became of a batch's replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub sent: usize,
    pub failed: usize,
}

impl UdpPort {
    pub fn bind(_addr: SocketAddr, _recv_buffer: usize) -> io::Result<UdpPort> {
        unimplemented!()
    }
    pub fn local_addr(&self) -> SocketAddr {
        unimplemented!()
    }
    /// What the kernel granted, in octets.
    pub fn recv_buffer(&self) -> io::Result<usize> {
        unimplemented!()
    }
    pub fn recv(&self, _batch: &mut Batch, _wait: bool) -> io::Result<usize> {
        unimplemented!()
    }
    pub fn send(&self, _batch: &mut Batch) -> Sent {
        unimplemented!()
    }
}

pub struct Batch {}

impl Batch {
    pub fn new(_packets: usize) -> Batch {
        unimplemented!()
    }
    pub fn len(&self) -> usize {
        unimplemented!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Where packet `i` came from; the scope of a link-local address is kept.
    pub fn peer(&self, _i: usize) -> SocketAddr {
        unimplemented!()
    }
    pub fn peer_ip_port(&self, _i: usize) -> (IpAddr, u16) {
        unimplemented!()
    }
    /// The whole buffer of packet `i`, and how much of it was received.
    pub fn packet(&mut self, _i: usize) -> (&mut [u8], usize) {
        unimplemented!()
    }
    /// True if the packet was longer than its buffer.
    pub fn is_cut(&self, _i: usize) -> bool {
        unimplemented!()
    }
    /// Length of the reply that stands in the buffer of packet `i`; without a call, or with 0, nothing is sent.
    pub fn set_reply(&mut self, _i: usize, _len: usize) {
        unimplemented!()
    }
    /// The address that packet `i` was sent to.
    pub fn local_ip(&self, _i: usize) -> IpAddr {
        unimplemented!()
    }
    /// The port that packets of this batch were sent to.
    pub fn local_port(&self) -> u16 {
        unimplemented!()
    }
}
