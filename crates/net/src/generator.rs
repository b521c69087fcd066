//! The other side of a server's sockets: connected UDP sockets that send prepared packets and receive answers in
//! batches, and what a load generator must know of its own limits (kernel drops, stamps, the timer's slack).
//!
//! A batch owns its packets; the kernel's headers are pointed at them in each call, which costs about 2 ns a packet and
//! leaves no pointer behind that could outlive anything. Never looks into a packet.
#![allow(unsafe_code)]

use crate::sys::{self, check};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Octets of a query that is sent.
pub const QUERY_MAX: usize = 640;
/// Octets of an answer that are kept, and one cache line more, so that buffers do not all begin in the same sets.
const ANSWER_STRIDE: usize = 4096 + 64;
const BUFFER: libc::c_int = 8 << 20;
/// Index of the drop counter in what SO_MEMINFO gives (linux/sock_diag.h: SK_MEMINFO_DROPS), and how many there are.
const MEMINFO_DROPS: usize = 8;
const MEMINFO_VARS: usize = 9;
/// Room for one control message with a time stamp: a header of 16 octets and a timespec of 16.
type Control = [u64; 4];

/// A UDP socket that talks to one target.
pub struct Link {
    fd: OwnedFd,
    stamps: bool,
}

impl Link {
    /// Connects from `source`, or from where the system likes. With `stamps` the kernel says when a packet came.
    pub fn connect(target: SocketAddr, source: Option<SocketAddr>, stamps: bool) -> io::Result<Link> {
        let fd = sys::socket(sys::family(target), libc::SOCK_DGRAM)?;
        for (forced, asked) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
            sys::set_option(fd.as_fd(), libc::SOL_SOCKET, forced, BUFFER)
                .or_else(|_| sys::set_option(fd.as_fd(), libc::SOL_SOCKET, asked, BUFFER))?;
        }
        let stamps = stamps && stamp(fd.as_fd());
        if let Some(source) = source {
            sys::bind(fd.as_fd(), source)?;
        }
        let (name, len) = sys::raw_address(target);
        // SAFETY: `name` is a live socket address at least `len` octets long.
        check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const name).cast(), len) })?;
        Ok(Link { fd, stamps })
    }

    /// The kernel says when a packet came.
    pub fn has_stamps(&self) -> bool {
        self.stamps
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::bound_address(self.fd.as_fd())
    }

    /// Sends the first `n` packets, and says how many the kernel took; 0 when its queue is full.
    #[inline]
    pub fn send(&self, batch: &mut Queries, n: usize) -> io::Result<usize> {
        batch.link(n);
        let headers = batch.headers.as_mut_ptr();
        // SAFETY: `link` has pointed `n` headers, which exist, at packets that live as long as the batch is borrowed.
        let result = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), headers, n as libc::c_uint, libc::MSG_DONTWAIT) };
        none_if_not_now(check(result))
    }

    /// Receives what is there, up to a batch, and says how many.
    #[inline]
    pub fn recv(&self, batch: &mut Answers) -> io::Result<usize> {
        batch.link(self.stamps);
        let (headers, room) = (batch.headers.as_mut_ptr(), batch.headers.len() as libc::c_uint);
        // SAFETY: `link` has pointed all headers at buffers that live as long as the batch is borrowed.
        let result =
            unsafe { libc::recvmmsg(self.fd.as_raw_fd(), headers, room, libc::MSG_DONTWAIT, std::ptr::null_mut()) };
        let received = none_if_not_now(check(result))?;
        batch.len = received;
        Ok(received)
    }

    /// Packets that the kernel dropped because this socket's buffer was full, since it was made.
    pub fn drops(&self) -> u64 {
        let mut info = [0u32; MEMINFO_VARS];
        let mut len = size_of_val(&info) as libc::socklen_t;
        let (fd, at) = (self.fd.as_raw_fd(), info.as_mut_ptr());
        // SAFETY: `info` has room for `len` octets.
        let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, at.cast(), &raw mut len) };
        if result == 0 && len as usize == size_of_val(&info) { u64::from(info[MEMINFO_DROPS]) } else { 0 }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A TCP connection from `source`, or from where the system likes.
pub fn connect_tcp(target: SocketAddr, source: Option<SocketAddr>, at_most: Duration) -> io::Result<TcpStream> {
    let Some(source) = source else { return TcpStream::connect_timeout(&target, at_most) };
    let fd = sys::socket(sys::family(target), libc::SOCK_STREAM)?;
    sys::bind(fd.as_fd(), source)?;
    let (name, len) = sys::raw_address(target);
    // SAFETY: `name` is a live socket address at least `len` octets long.
    check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const name).cast(), len) })?;
    Ok(TcpStream::from(fd))
}

fn stamp(fd: BorrowedFd<'_>) -> bool {
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1).is_ok()
}

/// Lets the kernel say when what is read from a connection came; false where it does not.
pub fn stamp_stream(stream: &TcpStream) -> bool {
    stamp(stream.as_fd())
}

/// Reads what is there, and when the last segment of it came.
pub fn read_stamped(stream: &TcpStream, room: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    let mut control: Control = [0; 4];
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut header = no_header().msg_hdr;
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), size_of::<Control>());
    // SAFETY: the header points at one live part of `room` and at `control`, with their lengths.
    let n = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    match usize::try_from(n) {
        Ok(n) => Ok((n, stamp_of(&control, header.msg_controllen))),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// The time in a control message of which the kernel wrote `len` octets.
#[inline]
fn stamp_of(control: &Control, len: usize) -> Option<Duration> {
    if len < size_of::<Control>() {
        return None;
    }
    let at = control.as_ptr();
    // SAFETY: the room is aligned for a header and a timespec and long enough for both; the kernel wrote that much.
    let (head, time) = unsafe { (&*at.cast::<libc::cmsghdr>(), &*at.add(2).cast::<libc::timespec>()) };
    let is_stamp = head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_TIMESTAMPNS;
    is_stamp.then(|| Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

fn none_if_not_now(result: io::Result<libc::c_int>) -> io::Result<usize> {
    match result {
        Ok(n) => Ok(n as usize),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)) => Ok(0),
        Err(e) => Err(e),
    }
}

fn no_header() -> libc::mmsghdr {
    // SAFETY: integers and raw pointers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

const NOWHERE: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Packets to send.
pub struct Queries {
    packets: Vec<[u8; QUERY_MAX]>,
    lengths: Vec<usize>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Queries {
    pub fn new(n: usize) -> Queries {
        let n = n.max(1);
        Queries {
            packets: vec![[0; QUERY_MAX]; n],
            lengths: vec![0; n],
            iovecs: vec![NOWHERE; n],
            headers: vec![no_header(); n],
        }
    }

    pub fn capacity(&self) -> usize {
        self.packets.len()
    }

    #[inline]
    pub fn buffer(&mut self, i: usize) -> &mut [u8; QUERY_MAX] {
        &mut self.packets[i]
    }

    #[inline]
    pub fn set_len(&mut self, i: usize, len: usize) {
        self.lengths[i] = len.min(QUERY_MAX);
    }

    #[inline]
    fn link(&mut self, n: usize) {
        assert!(n <= self.packets.len());
        for i in 0..n {
            self.iovecs[i] = libc::iovec { iov_base: self.packets[i].as_mut_ptr().cast(), iov_len: self.lengths[i] };
            self.headers[i].msg_hdr.msg_iov = &raw mut self.iovecs[i];
            self.headers[i].msg_hdr.msg_iovlen = 1;
        }
    }
}

/// Room for packets that are received.
pub struct Answers {
    len: usize,
    stamped: bool,
    packets: Vec<[u8; ANSWER_STRIDE]>,
    controls: Vec<Control>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Answers {
    pub fn new(n: usize) -> Answers {
        let n = n.max(1);
        Answers {
            len: 0,
            stamped: false,
            packets: vec![[0; ANSWER_STRIDE]; n],
            controls: vec![[0; 4]; n],
            iovecs: vec![NOWHERE; n],
            headers: vec![no_header(); n],
        }
    }

    #[inline]
    fn link(&mut self, stamped: bool) {
        (self.len, self.stamped) = (0, stamped);
        for i in 0..self.headers.len() {
            self.iovecs[i] = libc::iovec { iov_base: self.packets[i].as_mut_ptr().cast(), iov_len: ANSWER_STRIDE };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_iov = &raw mut self.iovecs[i];
            header.msg_iovlen = 1;
            if stamped {
                header.msg_control = self.controls[i].as_mut_ptr().cast();
                header.msg_controllen = size_of::<Control>();
            }
        }
    }

    /// The packet as far as it was kept, and its length (the kernel says that of what was kept, too).
    #[inline]
    pub fn packet(&self, i: usize) -> &[u8] {
        assert!(i < self.len);
        &self.packets[i][..(self.headers[i].msg_len as usize).min(ANSWER_STRIDE)]
    }

    /// When the kernel received packet `i`, in wall time since 1970.
    #[inline]
    pub fn stamp(&self, i: usize) -> Option<Duration> {
        let got = self.headers.get(i)?.msg_hdr.msg_controllen;
        if self.stamped && i < self.len { stamp_of(&self.controls[i], got) } else { None }
    }
}

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Readable,
    ReadableOrWritable,
}

/// Waits until one of the descriptors is ready or the time is over, which is kept to the nanosecond as far as the
/// timer's slack lets it.
pub fn wait<'a>(fds: impl Iterator<Item = (BorrowedFd<'a>, Until)>, at_most: Duration) -> io::Result<bool> {
    let events = |until| if until == Until::Readable { libc::POLLIN } else { libc::POLLIN | libc::POLLOUT };
    let mut polled: Vec<libc::pollfd> =
        fds.map(|(fd, until)| libc::pollfd { fd: fd.as_raw_fd(), events: events(until), revents: 0 }).collect();
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(at_most.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    let (at, n) = (polled.as_mut_ptr(), polled.len() as libc::nfds_t);
    // SAFETY: pointer and length are those of a live, writable slice; `time` is live; no signal mask is given.
    none_if_not_now(check(unsafe { libc::ppoll(at, n, &raw const time, std::ptr::null()) })).map(|ready| ready > 0)
}

/// The calling thread's timers fire when they are due, not up to 50 us later to save power.
pub fn exact_timers() {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Asks for a larger share of the CPU (nice -20) for the calling thread; false where that is not allowed.
pub fn eager() -> bool {
    // SAFETY: takes no pointers; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn target() -> UdpSocket {
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        own.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        own
    }

    fn readable(link: &Link) -> bool {
        wait([(link.as_fd(), Until::Readable)].into_iter(), Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn a_batch_goes_out_and_its_answers_come_back_stamped() {
        let server = target();
        let link = Link::connect(server.local_addr().unwrap(), None, true).unwrap();
        let mut queries = Queries::new(4);
        for i in 0..3 {
            queries.buffer(i)[0] = i as u8;
            queries.set_len(i, 1 + i);
        }
        assert_eq!(link.send(&mut queries, 3).unwrap(), 3);
        let mut buffer = [0; 16];
        for i in 0..3 {
            let (n, from) = server.recv_from(&mut buffer).unwrap();
            assert_eq!((n, buffer[0], from), (1 + i, i as u8, link.local_addr().unwrap()));
            server.send_to(&buffer[..n], from).unwrap();
        }
        let mut answers = Answers::new(8);
        assert!(readable(&link));
        assert_eq!(link.recv(&mut answers).unwrap(), 3);
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        for i in 0..3 {
            assert_eq!(answers.packet(i).len(), 1 + i);
            assert!(answers.stamp(i).unwrap() <= now);
        }
        assert_eq!(link.recv(&mut answers).unwrap(), 0);
        assert_eq!(answers.stamp(0), None);
        assert_eq!(link.drops(), 0);
    }

    #[test]
    fn a_connection_says_when_its_octets_came() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = connect_tcp(listener.local_addr().unwrap(), None, Duration::from_secs(10)).unwrap();
        assert!(stamp_stream(&stream));
        let mut room = [0; 16];
        let nothing = read_stamped(&stream, &mut room).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        let (mut server, _) = listener.accept().unwrap();
        // The kernel begins to stamp some time after the first socket asked for it; until then there is no stamp.
        let begun = std::time::Instant::now();
        loop {
            let before = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            io::Write::write_all(&mut server, b"octets").unwrap();
            assert!(wait([(stream.as_fd(), Until::Readable)].into_iter(), Duration::from_secs(10)).unwrap());
            let (n, stamp) = read_stamped(&stream, &mut room).unwrap();
            assert_eq!(&room[..n], b"octets");
            let after = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            if let Some(stamp) = stamp {
                assert!((before..=after).contains(&stamp));
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(10));
        }
        drop(server);
        assert!(wait([(stream.as_fd(), Until::Readable)].into_iter(), Duration::from_secs(10)).unwrap());
        assert_eq!(read_stamped(&stream, &mut room).unwrap().0, 0);
    }

    #[test]
    fn packets_that_the_kernel_dropped_are_counted() {
        let server = target();
        let link = Link::connect(server.local_addr().unwrap(), None, false).unwrap();
        sys::set_option(link.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 4096).unwrap();
        let to = link.local_addr().unwrap();
        let sent = 200;
        for _ in 0..sent {
            server.send_to(&[0; 500], to).unwrap();
        }
        let mut answers = Answers::new(256);
        let received = link.recv(&mut answers).unwrap();
        assert!(received < sent);
        assert_eq!(received as u64 + link.drops(), sent as u64);
    }

    #[test]
    fn a_target_that_refuses_is_an_error() {
        let gone = target().local_addr().unwrap();
        let link = Link::connect(gone, None, false).unwrap();
        let mut queries = Queries::new(1);
        queries.set_len(0, 12);
        assert_eq!(link.send(&mut queries, 1).unwrap(), 1);
        assert!(readable(&link));
        let error = link.recv(&mut Answers::new(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_wait_without_events_ends() {
        let link = Link::connect(target().local_addr().unwrap(), None, false).unwrap();
        exact_timers();
        assert!(!wait([(link.as_fd(), Until::Readable)].into_iter(), Duration::from_micros(100)).unwrap());
        assert!(wait([(link.as_fd(), Until::ReadableOrWritable)].into_iter(), Duration::from_secs(10)).unwrap());
    }
}
