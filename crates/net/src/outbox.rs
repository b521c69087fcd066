//! Answers to packets of earlier batches, collected so that one system call sends many.
//!
//! Bound: `BATCH` answers. Nothing in it points at anything else; the kernel's headers are made for the call.
#![allow(unsafe_code)]

use crate::sys;
use crate::udp::{BATCH, Control, Return, STRIDE, Sent, UdpPort, write_packet_info};
use std::ops::Range;

pub struct Outbox {
    len: usize,
    letters: Box<[Letter]>,
    /// Made anew for each call; they point at each other and at the letters.
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
}

// SAFETY: the pointers in it are written and used within one call, and point at the outbox's own letters.
unsafe impl Send for Outbox {}

#[derive(Clone)]
struct Letter {
    /// The number of the port that was asked.
    port: usize,
    len: usize,
    name: libc::sockaddr_in6,
    name_len: libc::socklen_t,
    control: Control,
    control_len: usize,
    buffer: [u8; STRIDE],
}

impl Outbox {
    pub fn new() -> Outbox {
        let letter = Letter {
            port: 0,
            len: 0,
            name: sys::no_address(),
            name_len: 0,
            control: [0; 5],
            control_len: 0,
            buffer: [0; STRIDE],
        };
        let nowhere = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let (headers, iovecs) = (vec![no_header(); BATCH].into(), vec![nowhere; BATCH].into());
        Outbox { len: 0, letters: vec![letter; BATCH].into(), headers, iovecs }
    }

    /// Where the next answer is written. None: send first.
    pub fn room(&mut self) -> Option<&mut [u8; STRIDE]> {
        self.letters.get_mut(self.len).map(|letter| &mut letter.buffer)
    }

    /// The first `len` octets of `room` are an answer to a packet that came to this port.
    pub fn put(&mut self, port: usize, back: &Return, len: usize) {
        let Some(letter) = self.letters.get_mut(self.len) else { return };
        (letter.port, letter.len) = (port, len.min(STRIDE));
        (letter.name, letter.name_len) = sys::raw_address(back.peer);
        letter.control_len = write_packet_info(&mut letter.control, back);
        self.len += 1;
    }

    /// Sends all, a call for each run of answers from one port, and is empty.
    pub fn send(&mut self, ports: &[UdpPort]) -> Sent {
        let (mut all, mut first) = (Sent::default(), 0);
        while let Some(port) = self.letters[..self.len].get(first).map(|letter| letter.port) {
            let run = self.letters[first..self.len].iter().take_while(|letter| letter.port == port).count();
            let sent = match ports.get(port) {
                Some(port) => port.send_back(self, first..first + run),
                None => Sent { sent: 0, failed: run },
            };
            all = Sent { sent: all.sent + sent.sent, failed: all.failed + sent.failed };
            first += run;
        }
        self.len = 0;
        all
    }

    /// The kernel's headers of some answers; valid as long as nothing is put.
    pub(crate) fn headers(&mut self, places: Range<usize>, with_control: bool) -> &mut [libc::mmsghdr] {
        let letters = self.letters.get_mut(places).unwrap_or_default();
        let n = letters.len();
        for (letter, (header, iovec)) in letters.iter_mut().zip(self.headers.iter_mut().zip(&mut self.iovecs)) {
            *header = letter.header(iovec, with_control);
        }
        &mut self.headers[..n]
    }
}

fn no_header() -> libc::mmsghdr {
    // SAFETY: integers and raw pointers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::new()
    }
}

impl Letter {
    fn header(&mut self, iovec: &mut libc::iovec, with_control: bool) -> libc::mmsghdr {
        let mut header = no_header();
        *iovec = libc::iovec { iov_base: (&raw mut self.buffer).cast(), iov_len: self.len };
        header.msg_hdr.msg_iov = iovec;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = (&raw mut self.name).cast();
        header.msg_hdr.msg_namelen = self.name_len;
        if with_control {
            header.msg_hdr.msg_control = (&raw mut self.control).cast();
            header.msg_hdr.msg_controllen = self.control_len;
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Batch, RECV_BUFFER};
    use std::net::UdpSocket;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn bound(address: &str) -> UdpPort {
        UdpPort::bind(address.parse().unwrap(), RECV_BUFFER).unwrap()
    }

    fn asker(port: &UdpPort) -> UdpSocket {
        let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
        asker.set_read_timeout(Some(PATIENCE)).unwrap();
        asker.connect(("127.0.0.1", port.local_addr().port())).unwrap();
        asker
    }

    #[test]
    fn answers_of_several_ports_go_back_each_to_its_own_asker() {
        let ports = [bound("127.0.0.1:0"), bound("0.0.0.0:0")];
        let (mut batch, mut outbox) = (Batch::new(4), Outbox::new());
        let askers: Vec<UdpSocket> = (0..5).map(|i| asker(&ports[i % 2])).collect();
        for (i, asker) in askers.iter().enumerate() {
            asker.send(&[i as u8]).unwrap();
            while ports[i % 2].recv(&mut batch, true).unwrap() == 0 {}
            outbox.room().unwrap()[..2].copy_from_slice(&[i as u8, 7]);
            outbox.put(i % 2, &batch.way_back(0), 2);
        }
        let back = batch.way_back(0);
        outbox.put(9, &back, 2);
        assert_eq!(outbox.send(&ports), Sent { sent: 5, failed: 1 });
        assert_eq!(outbox.send(&ports), Sent::default());
        for (i, asker) in askers.iter().enumerate() {
            let mut answer = [0; 8];
            assert_eq!((asker.recv(&mut answer).unwrap(), answer[..2].to_vec()), (2, vec![i as u8, 7]));
        }
    }

    #[test]
    fn a_full_outbox_has_no_room() {
        let (ports, mut outbox) = ([bound("127.0.0.1:0")], Outbox::new());
        let asker = asker(&ports[0]);
        let back = Return { peer: asker.local_addr().unwrap(), asked: asker.peer_addr().unwrap().ip(), interface: 0 };
        (0..BATCH).for_each(|_| {
            assert!(outbox.room().is_some());
            outbox.put(0, &back, 3);
        });
        assert!(outbox.room().is_none());
        assert_eq!(outbox.send(&ports), Sent { sent: BATCH, failed: 0 });
        assert!(outbox.room().is_some());
    }
}
