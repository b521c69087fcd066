//! Several datagrams between us and the peer of a connected socket, with one system call each way. Never waits.
//!
//! Bound: `VOLLEY` datagrams a call. What does not fit into `DATAGRAM_MAX` octets is cut.
#![allow(unsafe_code)]

pub use crate::cut::arrange;
use crate::cut::{self, Control, Message};
use crate::sys::check;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};

pub const VOLLEY: usize = 32;
/// The longest datagram that is received whole.
pub const DATAGRAM_MAX: usize = 4096;
/// From one buffer to the next: an odd number of cache lines, so that the starts are spread over the sets of the cache.
const STRIDE: usize = DATAGRAM_MAX + 64;

/// Datagrams on their way out. Those of one length that stand behind one another are one message (`cut`).
struct Outgoing {
    iovecs: [libc::iovec; VOLLEY],
    headers: [libc::mmsghdr; VOLLEY],
    controls: [Control; VOLLEY],
    messages: usize,
}

impl Outgoing {
    fn new<'a>(packets: impl Iterator<Item = &'a [u8]>, is_cut: bool) -> Outgoing {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut all = Outgoing {
            iovecs: [nothing; VOLLEY],
            headers: [no_header(); VOLLEY],
            controls: [[0; 3]; VOLLEY],
            messages: 0,
        };
        let mut message = Message::default();
        for (packet, iovec) in packets.zip(&mut all.iovecs) {
            *iovec = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
            if !is_cut || !message.takes(packet.len()) {
                message = Message::of(packet.len());
                all.messages += 1;
            }
            all.headers[all.messages - 1].msg_hdr.msg_iovlen += 1;
        }
        all
    }

    /// The kernel's headers, pointing to where `self` is now.
    fn headers(&mut self) -> &mut [libc::mmsghdr] {
        let mut iovecs = &mut self.iovecs[..];
        for (header, control) in self.headers[..self.messages].iter_mut().zip(&mut self.controls) {
            let (mine, others) = std::mem::take(&mut iovecs).split_at_mut(header.msg_hdr.msg_iovlen);
            iovecs = others;
            if let [first, _, ..] = mine {
                cut::write(control, first.iov_len as u16);
                header.msg_hdr.msg_control = control.as_mut_ptr().cast();
                header.msg_hdr.msg_controllen = size_of::<Control>();
            }
            header.msg_hdr.msg_iov = mine.as_mut_ptr();
        }
        &mut self.headers[..self.messages]
    }

    fn send(mut self, socket: &UdpSocket) -> io::Result<usize> {
        let headers = self.headers();
        let (at, n) = (headers.as_mut_ptr(), headers.len() as libc::c_uint);
        // SAFETY: `n` headers stand there, made just now; the packets that they lead to are borrowed for longer than the
        // call, which reads them only.
        let sent = check(unsafe { libc::sendmmsg(socket.as_raw_fd(), at, n, libc::MSG_DONTWAIT) })? as usize;
        Ok(self.headers[..sent].iter().map(|header| header.msg_hdr.msg_iovlen).sum())
    }
}

/// Buffers for what comes, and whether the kernel cuts what goes.
pub struct Volley {
    buffers: Box<[[u8; STRIDE]]>,
    lens: [usize; VOLLEY],
    /// None: it has not been asked yet.
    cuts: Option<bool>,
}

impl Volley {
    pub fn new() -> Volley {
        Volley { buffers: vec![[0; STRIDE]; VOLLEY].into(), lens: [0; VOLLEY], cuts: None }
    }

    /// Sends the datagrams, `VOLLEY` of them at the most; says how many have gone. Err: the first of them has not.
    pub fn send<'a>(
        &mut self,
        socket: &UdpSocket,
        packets: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> io::Result<usize> {
        let cuts = *self.cuts.get_or_insert_with(|| cut::is_known(socket.as_fd()));
        match Outgoing::new(packets.clone(), cuts).send(socket) {
            Err(e) if cuts && cut::is_refusal(&e) => {
                self.cuts = Some(false);
                Outgoing::new(packets, false).send(socket)
            }
            sent => sent,
        }
    }

    /// Receives what is there, `at_most` or `VOLLEY` datagrams, and says how many. `WouldBlock`: there is nothing.
    pub fn recv(&mut self, socket: &UdpSocket, at_most: usize) -> io::Result<usize> {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let (mut iovecs, mut headers, mut n) = ([nothing; VOLLEY], [no_header(); VOLLEY], 0);
        for ((buffer, iovec), header) in self.buffers.iter_mut().zip(&mut iovecs).zip(&mut headers).take(at_most.max(1))
        {
            *iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: DATAGRAM_MAX };
            (header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) = (iovec, 1);
            n += 1;
        }
        let (fd, flags, no_time) = (socket.as_raw_fd(), libc::MSG_DONTWAIT, std::ptr::null_mut());
        // SAFETY: `n` headers were filled; each leads to a buffer of its own, borrowed from `self` for longer than the call.
        let received = check(unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), n, flags, no_time) })? as usize;
        for (len, header) in self.lens.iter_mut().zip(&headers[..received]) {
            *len = header.msg_len as usize;
        }
        Ok(received)
    }

    /// What came i-th in the last call.
    pub fn packet(&self, i: usize) -> &[u8] {
        let len = self.lens.get(i).copied().unwrap_or(0).min(DATAGRAM_MAX);
        self.buffers.get(i).map_or(&[], |buffer| &buffer[..len])
    }
}

impl Default for Volley {
    fn default() -> Volley {
        Volley::new()
    }
}

fn no_header() -> libc::mmsghdr {
    // SAFETY: integers and raw pointers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    /// Two sockets that hear each other only.
    fn pair() -> (UdpSocket, UdpSocket) {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        (a, b)
    }

    #[test]
    fn a_volley_comes_as_it_was_sent() {
        // Over loopback a packet is in the queue when sending returns, or never.
        let (a, b) = pair();
        let packets: Vec<Vec<u8>> = (0..VOLLEY + 3).map(|i| vec![i as u8; i * 7]).collect();
        let mut volley = Volley::new();
        for (sent, expect) in [(0, VOLLEY), (VOLLEY, 3)] {
            assert_eq!(volley.send(&a, packets[sent..].iter().map(Vec::as_slice)).unwrap(), expect);
        }
        let mut came: Vec<Vec<u8>> = Vec::new();
        for (at_most, expect) in [(5, 5), (99, VOLLEY - 2)] {
            assert_eq!(volley.recv(&b, at_most).unwrap(), expect);
            came.extend((0..expect).map(|i| volley.packet(i).to_vec()));
        }
        assert_eq!(came, packets);
        assert_eq!(volley.recv(&b, 9).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn whether_the_kernel_cuts_or_not_all_datagrams_come_in_their_order() {
        let (a, b) = pair();
        let lens = [50, 50, 50, 20, 20, 50, 1, 0, 0, 7, 7, 9, 1200, 1200];
        let packets: Vec<Vec<u8>> = lens.iter().zip(0..).map(|(&len, i)| vec![i; len]).collect();
        for (cuts, messages) in [(Some(true), 8), (Some(false), lens.len())] {
            let mut volley = Volley { cuts, ..Volley::new() };
            let all = || packets.iter().map(Vec::as_slice);
            assert_eq!(Outgoing::new(all(), cuts == Some(true)).messages, messages);
            assert_eq!(volley.send(&a, all()).unwrap(), lens.len());
            assert_eq!(volley.cuts, cuts, "it is not refused over loopback");
            assert_eq!(volley.recv(&b, VOLLEY).unwrap(), lens.len());
            assert!((0..lens.len()).all(|i| volley.packet(i) == packets[i]));
        }
    }

    #[test]
    fn what_the_kernel_refuses_to_cut_goes_uncut_from_then_on() {
        let (a, b) = pair();
        // Without a checksum it does not.
        sys::set_option(a.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        let mut volley = Volley::new();
        assert_eq!(volley.send(&a, [&[1u8][..], &[2], &[3]].into_iter()).unwrap(), 3);
        assert_eq!((volley.cuts, volley.recv(&b, VOLLEY).unwrap()), (Some(false), 3));
        assert_eq!((volley.packet(0), volley.packet(2)), (&[1u8][..], &[3u8][..]));
    }

    #[test]
    fn what_is_longer_than_a_buffer_is_cut_and_the_next_is_whole() {
        let (a, b) = pair();
        let (long, short) = (vec![1; DATAGRAM_MAX + 99], [2; 3]);
        let mut volley = Volley::new();
        assert_eq!(volley.send(&a, [long.as_slice(), &short].into_iter()).unwrap(), 2);
        assert_eq!(volley.recv(&b, VOLLEY).unwrap(), 2);
        assert_eq!((volley.packet(0), volley.packet(1)), (&long[..DATAGRAM_MAX], &short[..]));
    }

    #[test]
    fn a_peer_that_is_not_there_is_an_error() {
        let (a, b) = pair();
        drop(b);
        let mut volley = Volley::new();
        assert_eq!(volley.send(&a, [&[1u8][..]].into_iter()).unwrap(), 1);
        assert_eq!(volley.send(&a, [&[1u8][..]].into_iter()).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
