//! Datagrams that leave as one message, which the kernel cuts (UDP_SEGMENT): it goes through the kernel's stack once.
//!
//! They have one length, only the last may be shorter. Bounds: `PARTS_MAX` datagrams and `TOTAL_MAX` octets a message.
#![allow(unsafe_code)]

use crate::sys;
use std::io;
use std::os::fd::BorrowedFd;

/// Datagrams of a message: kernels of before 2023 cut no more.
const PARTS_MAX: usize = 64;
const TOTAL_MAX: usize = 60_000;
/// The longest datagram that goes with others: what fits into every link's packet (RFC 8200 section 5: 1,280 octets, of which
/// headers take 48). The kernel cuts nothing that would have to go in fragments.
const LENGTH_MAX: usize = 1_232;

/// Room for the control message that says where to cut.
pub(crate) type Control = [u64; 3];

/// The message at hand, while datagrams are added to it.
#[derive(Default)]
pub(crate) struct Message {
    /// Of the first datagram and the last.
    first: usize,
    last: usize,
    total: usize,
    parts: usize,
}

impl Message {
    /// The message of this datagram alone.
    pub fn of(len: usize) -> Message {
        Message { first: len, last: len, total: len, parts: 1 }
    }

    /// True if one more datagram, of this length, goes along.
    pub fn takes(&mut self, len: usize) -> bool {
        let is_next = self.last == self.first && (1..=self.first.min(LENGTH_MAX)).contains(&len);
        let takes = is_next && self.first <= LENGTH_MAX && self.parts < PARTS_MAX && self.total + len <= TOTAL_MAX;
        if takes {
            (self.last, self.total, self.parts) = (len, self.total + len, self.parts + 1);
        }
        takes
    }
}

/// A kernel of before 2018 would send one long datagram.
pub(crate) fn is_known(socket: BorrowedFd<'_>) -> bool {
    sys::option(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT).is_ok()
}

/// It cannot on every route: not without checksums by the device in older kernels, nor with IPsec.
pub(crate) fn is_refusal(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::EMSGSIZE))
}

/// Has the kernel cut behind each so many octets.
pub(crate) fn write(control: &mut Control, size: u16) {
    let head = control.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: the room is aligned for a header and has 24 octets, of which header and size take 18.
    unsafe {
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
        (*head).cmsg_level = libc::IPPROTO_UDP;
        (*head).cmsg_type = libc::UDP_SEGMENT;
        libc::CMSG_DATA(head).cast::<u16>().write_unaligned(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many datagrams each message has.
    fn parts(lens: &[usize]) -> Vec<usize> {
        let (mut message, mut parts) = (Message::default(), Vec::new());
        for &len in lens {
            if message.takes(len) {
                *parts.last_mut().unwrap() += 1;
            } else {
                message = Message::of(len);
                parts.push(1);
            }
        }
        parts
    }

    #[test]
    fn what_goes_along_with_what() {
        for (lens, expect) in [
            (&[50, 50, 50, 20, 20, 50, 1][..], &[4, 1, 2][..]),
            (&[0, 0, 7, 7, 9], &[1, 1, 2, 1]),
            (&[7, 0], &[1, 1]),
            (&[1232, 1232, 1233, 1233, 1232], &[2, 1, 1, 1]),
            (&[90; 130], &[64, 64, 2]),
            (&[1200; 60], &[50, 10]),
        ] {
            assert_eq!(parts(lens), expect, "{lens:?}");
        }
    }
}
