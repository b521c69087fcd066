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

/// Puts datagrams that go one way, the longest first, into an order in which they are fewer messages: behind all of one length
/// stands one of a shorter length, one of which there are fewest, for the last of a message may be shorter. With 16 lengths, each
/// as likely as the others, that saves a fourteenth of the messages that 10 datagrams are, and a fifth of those that 45 are; at
/// most a tenth more could be saved.
pub fn arrange<T>(mut datagrams: &mut [T], len: impl Fn(&T) -> usize) {
    while let [first, ..] = datagrams {
        let length = len(first);
        let alike = datagrams.iter().take_while(|datagram| len(datagram) == length).count();
        let shorter = &mut datagrams[alike..];
        let Some(last) = last_of_fewest(shorter, &len).filter(|_| length <= LENGTH_MAX) else {
            datagrams = shorter;
            continue;
        };
        shorter[..=last].rotate_right(1);
        datagrams = &mut shorter[1..];
    }
}

/// Where the last datagram stands of a length of which there are fewest.
fn last_of_fewest<T>(datagrams: &[T], len: impl Fn(&T) -> usize) -> Option<usize> {
    let (mut end, mut best) = (0, None);
    for alike in datagrams.chunk_by(|a, b| len(a) == len(b)) {
        end += alike.len();
        if best.is_none_or(|(fewest, _)| alike.len() < fewest) {
            best = Some((alike.len(), end - 1));
        }
        if alike.len() == 1 {
            break;
        }
    }
    best.map(|(_, last)| last)
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

    #[test]
    fn what_there_is_few_of_goes_along_with_what_is_longer() {
        for (lens, expect) in [
            (&[9, 9, 8, 8, 8, 7, 7, 6][..], &[9, 9, 6, 8, 8, 8, 7, 7][..]),
            (&[9, 8, 8, 7, 7, 7], &[9, 8, 8, 7, 7, 7]),
            (&[9, 9, 9, 8, 8, 8, 7, 7], &[9, 9, 9, 7, 8, 8, 8, 7]),
            (&[9, 8, 7, 6], &[9, 8, 7, 6]),
            (&[1300, 1300, 7, 6, 6], &[1300, 1300, 7, 6, 6]),
            (&[5, 5], &[5, 5]),
            (&[], &[]),
        ] {
            let mut arranged = lens.to_vec();
            arrange(&mut arranged, |len| *len);
            assert_eq!(arranged, expect, "{lens:?}");
        }
    }

    #[test]
    fn arranged_datagrams_are_fewer_messages() {
        // 16 lengths, between none and seven of each.
        let mut lens: Vec<usize> = (0..16).flat_map(|i| std::iter::repeat_n(60 - i, i * 7 % 8)).collect();
        let (before, total) = (parts(&lens).len(), lens.iter().sum::<usize>());
        arrange(&mut lens, |len| *len);
        assert_eq!((before, parts(&lens).len(), lens.iter().sum::<usize>()), (12, 9, total));
    }
}
