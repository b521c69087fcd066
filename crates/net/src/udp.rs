//! Datagrams in batches: one system call receives up to a batch of packets, one sends the replies.
//!
//! A batch owns `n` slots. A slot is a buffer, the peer's address and the packet info; the kernel's headers that point
//! at them are made once. Per call only what the kernel changed is put back, and only in the slots that were in use:
//!
//! ```text
//!   headers   [0][1][2] ...   -> iovec -> buffer (1,472 octets)      recv fills slots 0..len in order
//!                             -> name                                set_reply(i) writes a length into slot i
//!                             -> control (packet info)               send: replies close ranks in a second row
//! ```
//!
//! The reply stands in the buffer of its query and goes to its peer from the address asked. Never allocates after
//! `new`; never looks into a packet. A reply that cannot be sent is counted and does not stop the others.
#![allow(unsafe_code)]

use crate::sys::{self, check};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

/// Octets of a buffer, and from one buffer to the next: 23 cache lines, an odd number, so that the starts of the
/// buffers are spread over the sets of the first-level cache.
pub const STRIDE: usize = 1472;
/// Packets of a batch that suit both latency and the cost of a system call.
pub const BATCH: usize = 32;
/// Receive buffer that an answering thread should have: the kernel's default of 208 KiB holds 277 small packets.
pub const RECV_BUFFER: usize = 4 << 20;

/// Times that `send` waits for room in the send queue, a batch.
const SEND_WAITS_MAX: usize = 4;
const SEND_WAIT: Duration = Duration::from_millis(1);

/// A bound UDP socket.
pub struct UdpPort {
    fd: OwnedFd,
    local: SocketAddr,
    /// Octets of control data that the kernel may write for a packet; 0 where the address asked is known anyway.
    control_room: usize,
}

/// What became of a batch's replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub sent: usize,
    pub failed: usize,
}

/// The way back to a peer whose answer is not ready yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// With the scope of a link-local address.
    pub peer: SocketAddr,
    /// The address that was asked: the answer leaves from it.
    pub asked: IpAddr,
    /// The interface, where the address asked means nothing without it; else 0.
    pub interface: u32,
}

impl UdpPort {
    /// Binds with SO_REUSEPORT, so that each thread can have a socket of its own on the same address.
    pub fn bind(addr: SocketAddr, recv_buffer: usize) -> io::Result<UdpPort> {
        let socket = sys::socket(sys::family(addr), libc::SOCK_DGRAM)?;
        let fd = socket.as_fd();
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        let size = i32::try_from(recv_buffer).unwrap_or(i32::MAX);
        buffer_size(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, size)?;
        buffer_size(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, size)?;
        let wildcard = addr.ip().is_unspecified();
        match addr {
            SocketAddr::V4(_) => options_v4(fd, wildcard)?,
            SocketAddr::V6(_) => options_v6(fd, wildcard)?,
        }
        sys::bind(fd, addr)?;
        let local = sys::bound_address(fd)?;
        Ok(UdpPort { fd: socket, local, control_room: if wildcard { size_of::<Control>() } else { 0 } })
    }

    /// A socket that another process bound, with what arrived since. It was bound here, by `bind`.
    pub fn adopt(fd: OwnedFd) -> io::Result<UdpPort> {
        if sys::option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TYPE)? != libc::SOCK_DGRAM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no socket for datagrams"));
        }
        let local = sys::bound_address(fd.as_fd())?;
        let wildcard = local.ip().is_unspecified();
        Ok(UdpPort { fd, local, control_room: if wildcard { size_of::<Control>() } else { 0 } })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What the kernel granted, in octets (it grants twice what is asked, for its own bookkeeping).
    pub fn recv_buffer(&self) -> io::Result<usize> {
        sys::option(self.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF).map(|size| size as usize)
    }

    /// Receives what is there, up to a batch, and says how many. With `wait` it sleeps until there is one; without, or
    /// when a signal came, 0 is possible.
    #[inline]
    pub fn recv(&self, batch: &mut Batch, wait: bool) -> io::Result<usize> {
        batch.rearm(self);
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let (headers, room) = (batch.headers.as_ptr(), batch.headers.len() as libc::c_uint);
        // SAFETY: `room` headers stand there, and what they point at lives as long as the batch (see `Batch::new`).
        let result = unsafe { libc::recvmmsg(self.fd.as_raw_fd(), headers, room, flags, std::ptr::null_mut()) };
        match check(result) {
            Ok(received) => {
                batch.received(received as usize);
                Ok(received as usize)
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
            Err(e) => Err(e),
        }
    }

    /// Sends the replies that were set. Waits a few milliseconds at the most, when the send queue is full.
    #[inline]
    pub fn send(&self, batch: &mut Batch) -> Sent {
        let (row, replies) = batch.close_ranks();
        self.send_row(replies, |from| {
            // SAFETY: `row` comes from `close_ranks` and has `replies` headers, of which `from` have gone; what they
            // point at lives as long as the batch.
            unsafe {
                let rest = (replies - from) as libc::c_uint;
                libc::sendmmsg(self.fd.as_raw_fd(), row.add(from).as_ptr(), rest, libc::MSG_DONTWAIT)
            }
        })
    }

    /// Sends what these headers, made for this call, lead to; how many of them have gone. Err: the first of them has not.
    /// Waits a few milliseconds at the most, when the send queue is full.
    pub(crate) fn send_headers(&self, headers: &mut [libc::mmsghdr], waits: &mut usize) -> io::Result<usize> {
        let (at, n) = (headers.as_mut_ptr(), headers.len() as libc::c_uint);
        // SAFETY: `n` headers stand there; they lead to memory of the outbox that made them, which is borrowed for the call.
        self.push(waits, || unsafe { libc::sendmmsg(self.fd.as_raw_fd(), at, n, libc::MSG_DONTWAIT) })
    }

    /// Whether packets bring, and answers need, the address that was asked.
    pub(crate) fn has_control(&self) -> bool {
        self.control_room != 0
    }

    /// `send_rest(from)` is the system call for a row of `n` headers of which `from` have gone.
    #[inline]
    fn send_row(&self, n: usize, mut send_rest: impl FnMut(usize) -> libc::c_int) -> Sent {
        let mut sent = Sent::default();
        let mut waits = 0;
        while sent.sent + sent.failed < n {
            match self.push(&mut waits, || send_rest(sent.sent + sent.failed)) {
                Ok(more) => sent.sent += more,
                Err(_) => sent.failed += 1,
            }
        }
        sent
    }

    /// Makes a system call that sends, again if it has to wait for room.
    #[inline]
    fn push(&self, waits: &mut usize, mut send: impl FnMut() -> libc::c_int) -> io::Result<usize> {
        loop {
            match check(send()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_full(&e) && *waits < SEND_WAITS_MAX => {
                    *waits += 1;
                    self.wait_for_room();
                }
                sent => return sent.map(|n| n as usize),
            }
        }
    }

    /// The queue of the socket has a poll event, that of a device (ENOBUFS) has none: the wait has an end for both.
    #[cold]
    fn wait_for_room(&self) {
        let mut fds = [libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 }];
        let _ = sys::poll(&mut fds, Some(SEND_WAIT));
    }
}

impl AsFd for UdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_full(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM))
}

/// Root may go past the system's limit; everyone else gets what it allows, silently less.
fn buffer_size(fd: BorrowedFd<'_>, forced: libc::c_int, asked: libc::c_int, size: libc::c_int) -> io::Result<()> {
    sys::set_option(fd, libc::SOL_SOCKET, forced, size).or_else(|_| sys::set_option(fd, libc::SOL_SOCKET, asked, size))
}

/// OMIT: path MTU discovery is ignored and no DF bit set, so that a forged ICMP message cannot make us fragment.
fn options_v4(fd: BorrowedFd<'_>, wildcard: bool) -> io::Result<()> {
    sys::set_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)?;
    if wildcard {
        sys::set_option(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    }
    Ok(())
}

fn options_v6(fd: BorrowedFd<'_>, wildcard: bool) -> io::Result<()> {
    sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT)?;
    if wildcard {
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    }
    Ok(())
}

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Buffer([u8; STRIDE]);

/// One control message with packet info of either family: a header of 16 octets, and 12 or 20, rounded up.
pub(crate) type Control = [u64; 5];

/// An array that does not move and that the kernel's headers may point into: reached through a raw pointer only, so
/// that no reference to the whole claims it.
struct Row<T>(NonNull<[T]>);

impl<T: Clone> Row<T> {
    fn new(item: T, n: usize) -> Row<T> {
        Row(NonNull::from(Box::leak(vec![item; n].into_boxed_slice())))
    }
}

impl<T> Row<T> {
    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn as_ptr(&self) -> *mut T {
        self.0.as_ptr().cast()
    }

    #[inline]
    fn at(&self, i: usize) -> &T {
        assert!(i < self.len());
        // SAFETY: inside the array; the kernel writes only during a call that has the batch by `&mut`.
        unsafe { &*self.as_ptr().add(i) }
    }

    #[inline]
    fn at_mut(&mut self, i: usize) -> &mut T {
        assert!(i < self.len());
        // SAFETY: inside the array, and `&mut self` says that nobody else looks.
        unsafe { &mut *self.as_ptr().add(i) }
    }
}

impl<T> Drop for Row<T> {
    fn drop(&mut self) {
        // SAFETY: made from a leaked box in `new`, and freed here only.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Slots for packets that are received, and answered, together.
pub struct Batch {
    len: usize,
    /// Slots that the kernel or a reply has changed since they were armed.
    used: usize,
    /// Control room that the headers are armed with.
    control_room: usize,
    /// The address of the port last received from.
    local: SocketAddr,
    headers: Row<libc::mmsghdr>,
    /// Where replies close ranks when some packets get none.
    outgoing: Row<libc::mmsghdr>,
    iovecs: Row<libc::iovec>,
    names: Row<libc::sockaddr_in6>,
    controls: Row<Control>,
    buffers: Row<Buffer>,
}

// SAFETY: the rows are owned by the batch alone, and what the raw pointers in them point at are the batch's other rows.
unsafe impl Send for Batch {}

impl Batch {
    pub fn new(packets: usize) -> Batch {
        let n = packets.max(1);
        // SAFETY: integers and raw pointers, for which zero is a value.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let mut batch = Batch {
            len: 0,
            used: n,
            control_room: 0,
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            headers: Row::new(header, n),
            outgoing: Row::new(header, n),
            iovecs: Row::new(libc::iovec { iov_base: std::ptr::null_mut(), iov_len: STRIDE }, n),
            names: Row::new(sys::no_address(), n),
            controls: Row::new([0; 5], n),
            buffers: Row::new(Buffer([0; STRIDE]), n),
        };
        (0..n).for_each(|i| batch.link(i));
        batch
    }

    fn link(&mut self, i: usize) {
        self.iovecs.at_mut(i).iov_base = self.buffers.as_ptr().wrapping_add(i).cast();
        let header = &mut self.headers.at_mut(i).msg_hdr;
        header.msg_iov = self.iovecs.as_ptr().wrapping_add(i);
        header.msg_iovlen = 1;
        header.msg_name = self.names.as_ptr().wrapping_add(i).cast();
        header.msg_control = self.controls.as_ptr().wrapping_add(i).cast();
    }

    /// Puts back what the kernel changed in the slots used last time (in all, when the next port needs other room).
    #[inline]
    fn rearm(&mut self, port: &UdpPort) {
        let room = port.control_room;
        let changed = if room == self.control_room { self.used } else { self.headers.len() };
        for i in 0..changed {
            self.iovecs.at_mut(i).iov_len = STRIDE;
            let header = &mut self.headers.at_mut(i).msg_hdr;
            header.msg_namelen = sys::ADDRESS_ROOM;
            header.msg_controllen = room;
            header.msg_flags = 0;
        }
        (self.len, self.used) = (0, 0);
        self.control_room = room;
        self.local = port.local;
    }

    #[inline]
    fn received(&mut self, n: usize) {
        (self.len, self.used) = (n, n);
        for i in 0..n {
            self.iovecs.at_mut(i).iov_len = 0;
        }
    }

    /// Packets received.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Packets that one call can receive.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Where packet `i` came from; the scope of a link-local address is kept.
    #[inline]
    pub fn peer(&self, i: usize) -> SocketAddr {
        sys::address(self.names.at(i))
    }

    #[inline]
    pub fn peer_ip_port(&self, i: usize) -> (IpAddr, u16) {
        sys::ip_port(self.names.at(i))
    }

    /// The whole buffer of packet `i`, and how much of it was received.
    #[inline]
    pub fn packet(&mut self, i: usize) -> (&mut [u8], usize) {
        let len = self.headers.at(i).msg_len as usize;
        (&mut self.buffers.at_mut(i).0, len)
    }

    /// True if the packet was longer than its buffer.
    #[inline]
    pub fn is_cut(&self, i: usize) -> bool {
        self.headers.at(i).msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    /// Length of the reply that stands in the buffer of packet `i`; without a call, or with 0, nothing is sent.
    #[inline]
    pub fn set_reply(&mut self, i: usize, len: usize) {
        assert!(i < self.len && len <= STRIDE);
        self.iovecs.at_mut(i).iov_len = len;
    }

    /// The address that packet `i` was sent to.
    #[inline]
    pub fn local_ip(&self, i: usize) -> IpAddr {
        self.asked(i).unwrap_or(self.local.ip())
    }

    /// How to reach the peer of packet `i` later, from the address that it asked.
    pub fn way_back(&self, i: usize) -> Return {
        let interface = match self.packet_info(i) {
            // SAFETY: `packet_info` checked level, type and length.
            Some(PacketInfo::V6(info)) => unsafe {
                if is_link_local(&(*info).ipi6_addr) { (*info).ipi6_ifindex } else { 0 }
            },
            _ => 0,
        };
        Return { peer: self.peer(i), asked: self.local_ip(i), interface }
    }

    /// The port that the packets of this batch were sent to.
    #[inline]
    pub fn local_port(&self) -> u16 {
        self.local.port()
    }

    /// The address in the packet info, where there is one.
    fn asked(&self, i: usize) -> Option<IpAddr> {
        match self.packet_info(i)? {
            PacketInfo::V4(info) => {
                // SAFETY: `packet_info` checked level, type and length.
                let address = unsafe { (*info).ipi_spec_dst.s_addr };
                Some(IpAddr::V4(Ipv4Addr::from(address.to_ne_bytes())))
            }
            PacketInfo::V6(info) => {
                // SAFETY: `packet_info` checked level, type and length.
                let octets = unsafe { (*info).ipi6_addr.s6_addr };
                Some(IpAddr::V6(Ipv6Addr::from(octets)))
            }
        }
    }

    #[inline]
    fn packet_info(&self, i: usize) -> Option<PacketInfo> {
        let got = self.headers.at(i).msg_hdr.msg_controllen;
        if got < size_of::<libc::cmsghdr>() {
            return None;
        }
        let at = self.controls.as_ptr().wrapping_add(i);
        // SAFETY: the room is aligned for a header and longer than one; the kernel has written one.
        let (head, data) = unsafe { (&*at.cast::<libc::cmsghdr>(), libc::CMSG_DATA(at.cast())) };
        let fits = |size: usize| size_of::<libc::cmsghdr>() + size <= head.cmsg_len.min(got);
        match (head.cmsg_level, head.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if fits(size_of::<libc::in_pktinfo>()) => {
                Some(PacketInfo::V4(data.cast()))
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if fits(size_of::<libc::in6_pktinfo>()) => {
                Some(PacketInfo::V6(data.cast()))
            }
            _ => None,
        }
    }

    /// The packet info of a query names the address asked, which becomes the source of the reply, and the interface
    /// it came through. The interface is kept only where the address means nothing without it (link-local):
    /// elsewhere the routing table knows the way back better.
    #[inline]
    fn turn_packet_info(&mut self, i: usize) {
        match self.packet_info(i) {
            // SAFETY: `packet_info` checked level, type and length, and we hold the batch by `&mut`.
            Some(PacketInfo::V4(info)) => unsafe { (*info).ipi_ifindex = 0 },
            // SAFETY: as above.
            Some(PacketInfo::V6(info)) => unsafe {
                if !is_link_local(&(*info).ipi6_addr) {
                    (*info).ipi6_ifindex = 0;
                }
            },
            None => self.headers.at_mut(i).msg_hdr.msg_controllen = 0,
        }
    }

    /// The headers of the replies in one row without gaps, and their number. With a reply to every packet it is the
    /// row they were received with; else headers are copied to a second row (never buffers).
    #[inline]
    fn close_ranks(&mut self) -> (NonNull<libc::mmsghdr>, usize) {
        if self.control_room != 0 {
            (0..self.len).for_each(|i| self.turn_packet_info(i));
        }
        if (0..self.len).all(|i| self.has_reply(i)) {
            return (self.headers.0.cast(), self.len);
        }
        let mut replies = 0;
        for i in 0..self.len {
            if self.has_reply(i) {
                *self.outgoing.at_mut(replies) = *self.headers.at(i);
                replies += 1;
            }
        }
        (self.outgoing.0.cast(), replies)
    }

    #[inline]
    fn has_reply(&self, i: usize) -> bool {
        self.iovecs.at(i).iov_len != 0
    }
}

enum PacketInfo {
    V4(*mut libc::in_pktinfo),
    V6(*mut libc::in6_pktinfo),
}

/// One control message that names the source of a datagram; how long it is.
pub(crate) fn write_packet_info(control: &mut Control, back: &Return) -> usize {
    match back.asked {
        IpAddr::V4(asked) => {
            let source = libc::in_addr { s_addr: u32::from_ne_bytes(asked.octets()) };
            let any = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: any };
            write_control(control, libc::IPPROTO_IP, libc::IP_PKTINFO, info)
        }
        IpAddr::V6(asked) => {
            let source = libc::in6_addr { s6_addr: asked.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: back.interface };
            write_control(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
        }
    }
}

fn write_control<T>(control: &mut Control, level: libc::c_int, kind: libc::c_int, info: T) -> usize {
    let size = size_of::<T>() as libc::c_uint;
    let at = control.as_mut_ptr();
    assert!(size_of::<libc::cmsghdr>() + size_of::<T>() <= size_of::<Control>());
    // SAFETY: header and info fit into the room, which is aligned for a header; CMSG_LEN and CMSG_SPACE only add.
    unsafe {
        let head = at.cast::<libc::cmsghdr>();
        (*head).cmsg_len = libc::CMSG_LEN(size) as usize;
        (*head).cmsg_level = level;
        (*head).cmsg_type = kind;
        libc::CMSG_DATA(head).cast::<T>().write_unaligned(info);
        libc::CMSG_SPACE(size) as usize
    }
}

/// RFC 4291 section 2.5.6: fe80::/10.
fn is_link_local(address: &libc::in6_addr) -> bool {
    address.s6_addr[0] == 0xfe && address.s6_addr[1] & 0xc0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn client(to: &str, port: u16) -> UdpSocket {
        let ip: IpAddr = to.parse().unwrap();
        let own = UdpSocket::bind((if ip.is_ipv4() { "127.0.0.1" } else { "::1" }, 0)).unwrap();
        own.set_read_timeout(Some(PATIENCE)).unwrap();
        own.connect((ip, port)).unwrap();
        own
    }

    fn bound(addr: &str) -> UdpPort {
        UdpPort::bind(addr.parse().unwrap(), RECV_BUFFER).unwrap()
    }

    /// Receives until `n` packets are there at once: over loopback a packet is in the queue when `send` returns.
    fn receive(port: &UdpPort, batch: &mut Batch, n: usize) {
        assert_eq!(port.recv(batch, true).unwrap(), n);
    }

    fn send(socket: &UdpSocket, packet: &[u8]) {
        assert_eq!(socket.send(packet).unwrap(), packet.len());
    }

    fn echo(batch: &mut Batch, i: usize) {
        let (buffer, len) = batch.packet(i);
        buffer[..len].reverse();
        batch.set_reply(i, len);
    }

    fn answer_of(socket: &UdpSocket) -> Vec<u8> {
        let mut buffer = [0; 2048];
        let n = socket.recv(&mut buffer).unwrap();
        buffer[..n].to_vec()
    }

    #[test]
    fn a_reply_leaves_from_the_address_asked() {
        for (bind, ask) in
            [("0.0.0.0:0", "127.0.0.2"), ("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "::1"), ("127.0.0.3:0", "127.0.0.3")]
        {
            let port = bound(bind);
            let mut batch = Batch::new(4);
            let asker = client(ask, port.local_addr().port());
            asker.send(b"abc").unwrap();
            receive(&port, &mut batch, 1);
            assert_eq!(batch.local_ip(0), ask.parse::<IpAddr>().unwrap());
            assert_eq!(batch.local_port(), port.local_addr().port());
            assert_eq!(batch.peer(0), asker.local_addr().unwrap());
            assert_eq!(batch.peer_ip_port(0).1, asker.local_addr().unwrap().port());
            echo(&mut batch, 0);
            assert_eq!(port.send(&mut batch), Sent { sent: 1, failed: 0 });
            // A connected socket hears only the address that it asked.
            assert_eq!(answer_of(&asker), b"cba", "{bind} {ask}");
        }
    }

    #[test]
    fn a_batch_moves_between_ports_of_both_kinds() {
        let (any, one, six) = (bound("0.0.0.0:0"), bound("127.0.0.1:0"), bound("[::]:0"));
        let mut batch = Batch::new(3);
        for round in 0..3 {
            for (port, ask) in [(&any, "127.0.0.9"), (&one, "127.0.0.1"), (&six, "::1")] {
                let asker = client(ask, port.local_addr().port());
                for k in 0..=round {
                    asker.send(&[round, k]).unwrap();
                }
                receive(port, &mut batch, round as usize + 1);
                for i in 0..batch.len() {
                    assert_eq!(batch.local_ip(i), ask.parse::<IpAddr>().unwrap());
                    echo(&mut batch, i);
                }
                assert_eq!(port.send(&mut batch), Sent { sent: round as usize + 1, failed: 0 });
                for k in 0..=round {
                    assert_eq!(answer_of(&asker), [k, round]);
                }
            }
        }
    }

    #[test]
    fn replies_close_ranks_over_packets_that_get_none() {
        let port = bound("0.0.0.0:0");
        let mut batch = Batch::new(8);
        let asker = client("127.0.0.1", port.local_addr().port());
        for _ in 0..2 {
            (0..8).for_each(|i| send(&asker, &[0, i]));
            receive(&port, &mut batch, 8);
            [1, 2, 5, 7].into_iter().for_each(|i| echo(&mut batch, i));
            batch.set_reply(2, 0);
            assert_eq!(port.send(&mut batch), Sent { sent: 3, failed: 0 });
            let answers: Vec<u8> = (0..3).map(|_| answer_of(&asker)[0]).collect();
            assert_eq!(answers, [1, 5, 7]);
        }
    }

    #[test]
    fn no_more_than_a_batch_is_received_at_once() {
        let port = bound("127.0.0.1:0");
        let mut batch = Batch::new(4);
        let asker = client("127.0.0.1", port.local_addr().port());
        (0..10).for_each(|i| send(&asker, &[i]));
        let sizes: Vec<usize> = (0..4).map(|_| port.recv(&mut batch, false).unwrap()).collect();
        assert_eq!(sizes, [4, 4, 2, 0]);
        assert!(batch.is_empty());
    }

    #[test]
    fn a_packet_longer_than_the_buffer_is_marked_cut() {
        let port = bound("127.0.0.1:0");
        let mut batch = Batch::new(4);
        let asker = client("127.0.0.1", port.local_addr().port());
        for len in [0, STRIDE, STRIDE + 1, 1] {
            asker.send(&vec![7; len]).unwrap();
        }
        receive(&port, &mut batch, 4);
        let seen: Vec<(usize, bool)> = (0..4).map(|i| (batch.packet(i).1, batch.is_cut(i))).collect();
        assert_eq!(seen, [(0, false), (STRIDE, false), (STRIDE, true), (1, false)]);
    }

    #[test]
    fn one_failing_send_does_not_stop_the_others() {
        let port = bound("0.0.0.0:0");
        let mut batch = Batch::new(8);
        let asker = client("127.0.0.1", port.local_addr().port());
        for fail in [vec![0], vec![3], vec![7], vec![0, 1, 4, 7], (0..8).collect()] {
            (0..8).for_each(|i| send(&asker, &[0, i]));
            receive(&port, &mut batch, 8);
            (0..8).for_each(|i| echo(&mut batch, i));
            // Port 0 cannot be sent to: the kernel answers EINVAL.
            fail.iter().for_each(|&i| batch.names.at_mut(i).sin6_port = 0);
            assert_eq!(port.send(&mut batch), Sent { sent: 8 - fail.len(), failed: fail.len() });
            for i in (0..8).filter(|i| !fail.contains(i)) {
                assert_eq!(answer_of(&asker), [i as u8, 0]);
            }
        }
    }

    #[test]
    fn a_link_local_scope_is_kept_and_other_interfaces_are_forgotten() {
        let mut batch = Batch::new(2);
        batch.names.at_mut(0).sin6_family = libc::AF_INET6 as libc::sa_family_t;
        batch.names.at_mut(0).sin6_scope_id = 7;
        assert!(matches!(batch.peer(0), SocketAddr::V6(a) if a.scope_id() == 7));
        for (i, (first, index_after)) in [([0xfe, 0x80], 7), ([0x20, 0x01], 0)].into_iter().enumerate() {
            fake_info(&mut batch, i, first);
            batch.turn_packet_info(i);
            let Some(PacketInfo::V6(info)) = batch.packet_info(i) else { panic!("no packet info") };
            // SAFETY: `packet_info` checked level, type and length.
            assert_eq!(unsafe { (*info).ipi6_ifindex }, index_after);
        }
    }

    /// In a network of its own, made of two interfaces and a wire between them. Where the system forbids an ordinary user to
    /// make one, between this machine and itself, on an interface that it has.
    #[test]
    fn link_local_addresses_are_answered_through_the_interface_they_were_asked_on() {
        let unshared = |program: &str, args: &[&str]| {
            let all = [&["-rn", "--", program], args].concat();
            std::process::Command::new("unshare").args(all).output().expect("unshare, of util-linux")
        };
        if !unshared("true", &[]).status.success() {
            let own = own_link_local().expect("neither a network namespace nor an interface with a link-local address");
            return exchange_between(own, own);
        }
        let script = "set -e
            ip link add va type veth peer name vb
            ip link set va up; ip link set vb up
            ip addr add fe80::1/64 dev va nodad; ip addr add fe80::2/64 dev vb nodad
            exec \"$0\" \"$1\" --exact udp::tests::between_link_local_addresses --nocapture";
        let me = std::env::current_exe().unwrap();
        let done = unshared("sh", &["-c", script, me.to_str().unwrap(), "--ignored"]);
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success() && said.contains("1 passed"), "(needs ip, of iproute2) {said}");
    }

    #[test]
    #[ignore = "needs a network of its own: run by the test above"]
    fn between_link_local_addresses() {
        let index = |name: &str| {
            let name = std::ffi::CString::new(name).unwrap();
            // SAFETY: a live string.
            unsafe { libc::if_nametoindex(name.as_ptr()) }
        };
        let (here, there) = (index("va"), index("vb"));
        assert!(here > 0 && there > 0);
        let at = |last| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last);
        exchange_between((at(1), here), (at(2), there));
    }

    /// The first link-local address of this machine that may be used, and its interface.
    fn own_link_local() -> Option<(Ipv6Addr, u32)> {
        let all = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
        all.lines().find_map(|line| {
            // Address, interface, length of the prefix, scope, flags, name.
            let words: Vec<&str> = line.split_whitespace().collect();
            let hex = |i: usize| u32::from_str_radix(words.get(i)?, 16).ok();
            let is_ready = hex(4)? & (0x08 | 0x40) == 0;
            let address = Ipv6Addr::from(u128::from_str_radix(words.first()?, 16).ok()?);
            (address.is_unicast_link_local() && is_ready).then_some((address, hex(1)?))
        })
    }

    /// From `there`, `here` is asked. Each is an address and an interface.
    fn exchange_between(here: (Ipv6Addr, u32), there: (Ipv6Addr, u32)) {
        let at = |address, port, scope| std::net::SocketAddrV6::new(address, port, 0, scope);
        for bind in [SocketAddr::V6(at(here.0, 0, here.1)), "[::]:0".parse().unwrap()] {
            let port = UdpPort::bind(bind, RECV_BUFFER).unwrap();
            let asker = UdpSocket::bind(at(there.0, 0, there.1)).unwrap();
            asker.set_read_timeout(Some(PATIENCE)).unwrap();
            asker.connect(at(here.0, port.local_addr().port(), there.1)).unwrap();
            let mut batch = Batch::new(4);
            send(&asker, b"abc");
            receive(&port, &mut batch, 1);
            assert!(matches!(batch.peer(0), SocketAddr::V6(a) if a.scope_id() == here.1), "{bind}");
            assert_eq!(batch.local_ip(0), IpAddr::V6(here.0));
            let back = batch.way_back(0);
            echo(&mut batch, 0);
            assert_eq!(port.send(&mut batch), Sent { sent: 1, failed: 0 });
            // A connected socket hears only the address that it asked.
            assert_eq!(answer_of(&asker), b"cba", "{bind}");
            let mut outbox = crate::outbox::Outbox::new();
            outbox.room().unwrap()[..5].copy_from_slice(b"later");
            outbox.put(0, &back, 5);
            assert_eq!(outbox.send(std::slice::from_ref(&port)), Sent { sent: 1, failed: 0 });
            assert_eq!(answer_of(&asker), b"later", "{bind}");
        }
    }

    fn fake_info(batch: &mut Batch, i: usize, first: [u8; 2]) {
        let mut info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: [0; 16] }, ipi6_ifindex: 7 };
        info.ipi6_addr.s6_addr[..2].copy_from_slice(&first);
        let at = batch.controls.as_ptr().wrapping_add(i);
        // SAFETY: the room is 40 octets, aligned for a header; header and info take 36.
        unsafe {
            let head = at.cast::<libc::cmsghdr>();
            (*head).cmsg_len = libc::CMSG_LEN(size_of::<libc::in6_pktinfo>() as u32) as usize;
            (*head).cmsg_level = libc::IPPROTO_IPV6;
            (*head).cmsg_type = libc::IPV6_PKTINFO;
            libc::CMSG_DATA(head).cast::<libc::in6_pktinfo>().write_unaligned(info);
        }
        batch.headers.at_mut(i).msg_hdr.msg_controllen = size_of::<Control>();
    }

    #[test]
    fn two_sockets_share_an_address_and_have_large_buffers() {
        let first = bound("127.0.0.1:0");
        let second = UdpPort::bind(first.local_addr(), 1 << 16).unwrap();
        assert_eq!(first.local_addr(), second.local_addr());
        assert!(first.recv_buffer().unwrap() >= second.recv_buffer().unwrap());
        assert!(UdpPort::bind("192.0.2.1:0".parse().unwrap(), 1 << 16).is_err());
    }
}
