//! Answers to packets of earlier batches, collected so that one system call sends many. Those that go to one client, as a
//! load balancer or another resolver is, and are of one length, are one message that the kernel cuts (`cut`).
//!
//! Bounds: `ANSWERS_MAX` answers and `ROOM` octets. Nothing in it points at anything else; the kernel's headers are made for
//! the call.
#![allow(unsafe_code)]

use crate::cut::{self, Message};
use crate::sys;
use crate::udp::{self, Return, STRIDE, Sent, UdpPort};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// Answers that are sent together.
pub const ANSWERS_MAX: usize = 256;
/// Octets of answers.
const ROOM: usize = 64 << 10;
/// Headers made for a call.
const MESSAGES_MAX: usize = 64;

pub struct Outbox {
    letters: Vec<Letter>,
    /// By where they go and how long they are: what may be one message stands together.
    order: Vec<Place>,
    /// The answers, one behind another.
    octets: Box<[u8]>,
    used: usize,
    /// Whether the kernel cuts. None: it has not been asked yet.
    cuts: Option<bool>,
    row: Row,
}

struct Letter {
    /// The number of the port that was asked.
    port: usize,
    back: Return,
    /// Where it stands.
    start: usize,
    len: usize,
}

/// Port, client and length, by which answers are sorted, the longest first; and the number of the letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

impl Place {
    fn of(letter: &Letter, number: usize) -> Place {
        let [port, shorter, number] = [letter.port & 0xFFFF, STRIDE - letter.len, number].map(|n| n as u64);
        Place(port << 48 | client(&letter.back) << 24 | shorter << 12 | number)
    }

    fn port(self) -> u64 {
        self.0 >> 48
    }

    fn client(self) -> u64 {
        self.0 >> 24
    }

    fn len(self) -> usize {
        STRIDE - (self.0 >> 12 & 0xFFF) as usize
    }

    fn letter(self) -> usize {
        (self.0 & 0xFFF) as usize
    }
}

const _: () = assert!(STRIDE < 1 << 12 && ANSWERS_MAX <= 1 << 12);

/// Another number for another client, most times: those that share one lie among each other.
fn client(back: &Return) -> u64 {
    let ip = |ip| match ip {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64 ^ ip.to_bits() as u64,
    };
    let whole = ip(back.peer.ip()).rotate_left(16) ^ u64::from(back.peer.port()) ^ ip(back.asked).rotate_left(40);
    whole.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

impl Outbox {
    pub fn new() -> Outbox {
        let (mut letters, order) = (Vec::with_capacity(ANSWERS_MAX), Vec::with_capacity(ANSWERS_MAX));
        // Written to, as the octets are, which zeros would not be: no answer waits until the system finds a page for it.
        letters.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
        Outbox { letters, order, octets: vec![u8::MAX; ROOM].into(), used: 0, cuts: None, row: Row::new() }
    }

    /// Where the next answer is written. None: send first.
    pub fn room(&mut self) -> Option<&mut [u8; STRIDE]> {
        let is_full = self.letters.len() == ANSWERS_MAX;
        self.octets[self.used..].first_chunk_mut().filter(|_| !is_full)
    }

    /// The first `len` octets of `room` are an answer to a packet that came to this port.
    pub fn put(&mut self, port: usize, back: &Return, len: usize) {
        let letter = Letter { port, back: *back, start: self.used, len: len.min(STRIDE) };
        self.used = (self.used + letter.len).min(ROOM);
        self.order.push(Place::of(&letter, self.letters.len()));
        self.letters.push(letter);
    }

    /// Sends all, each back to where its query came from, and is empty.
    pub fn send(&mut self, ports: &[UdpPort]) -> Sent {
        let (mut order, mut all) = (std::mem::take(&mut self.order), Sent::default());
        order.sort_unstable();
        order.chunk_by_mut(|a, b| a.client() == b.client()).for_each(|all| cut::arrange(all, |place| place.len()));
        for run in order.chunk_by(|a, b| a.port() == b.port()) {
            let sent = match ports.get(run[0].port() as usize) {
                Some(port) => self.send_from(port, run),
                None => Sent { sent: 0, failed: run.len() },
            };
            all = Sent { sent: all.sent + sent.sent, failed: all.failed + sent.failed };
        }
        order.clear();
        self.order = order;
        self.letters.clear();
        self.used = 0;
        all
    }

    fn send_from(&mut self, port: &UdpPort, run: &[Place]) -> Sent {
        let (mut sent, mut waits) = (Sent::default(), 0);
        while let Some(rest @ [_, ..]) = run.get(sent.sent + sent.failed..) {
            let cuts = *self.cuts.get_or_insert_with(|| cut::is_known(port.as_fd()));
            let letters = rest.iter().map(|place| &self.letters[place.letter()]);
            let headers = self.row.headers(letters, &self.octets, cuts, port.has_control());
            let parts = |headers: &[libc::mmsghdr]| headers.iter().map(|h| h.msg_hdr.msg_iovlen).sum::<usize>();
            match port.send_headers(headers, &mut waits) {
                Ok(n) => sent.sent += parts(&headers[..n]),
                Err(e) if parts(&headers[..1]) > 1 && cut::is_refusal(&e) => self.cuts = Some(false),
                Err(_) => sent.failed += parts(&headers[..1]),
            }
        }
        sent
    }
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::new()
    }
}

/// The kernel's headers of a call and what they point at, besides the answers.
struct Row {
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    names: Box<[libc::sockaddr_in6]>,
    controls: Box<[Control]>,
}

/// Where to cut, and behind it the address that the answer leaves from.
type Control = [u64; 8];
const CUT: usize = size_of::<cut::Control>() / 8;

// SAFETY: the pointers in it are written and used within one call, and point at the outbox's own memory.
unsafe impl Send for Row {}

impl Row {
    fn new() -> Row {
        // SAFETY: integers and raw pointers, for which zero is a value.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let nowhere = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Row {
            headers: vec![header; MESSAGES_MAX].into(),
            iovecs: vec![nowhere; ANSWERS_MAX].into(),
            names: vec![sys::no_address(); MESSAGES_MAX].into(),
            controls: vec![[0; 8]; MESSAGES_MAX].into(),
        }
    }

    /// The headers of as many letters as there is room for; valid until the next call, and as long as the octets stand.
    fn headers<'l>(
        &mut self,
        letters: impl Iterator<Item = &'l Letter>,
        octets: &[u8],
        cuts: bool,
        with_control: bool,
    ) -> &mut [libc::mmsghdr] {
        let (mut message, mut back, mut n) = (Message::default(), None, 0);
        for (letter, iovec) in letters.zip(0..ANSWERS_MAX) {
            let answer = octets.get(letter.start..letter.start + letter.len).unwrap_or_default();
            self.iovecs[iovec] = libc::iovec { iov_base: answer.as_ptr().cast_mut().cast(), iov_len: answer.len() };
            if cuts && back == Some(letter.back) && message.takes(letter.len) {
                self.add(n - 1, iovec);
                continue;
            }
            if n == MESSAGES_MAX {
                break;
            }
            (message, back) = (Message::of(letter.len), Some(letter.back));
            self.begin(n, iovec, &letter.back, with_control);
            n += 1;
        }
        &mut self.headers[..n]
    }

    /// The n-th message begins with this answer.
    fn begin(&mut self, n: usize, iovec: usize, back: &Return, with_control: bool) {
        let (header, control) = (&mut self.headers[n].msg_hdr, &mut self.controls[n]);
        (self.names[n], header.msg_namelen) = sys::raw_address(back.peer);
        header.msg_name = (&raw mut self.names[n]).cast();
        (header.msg_iov, header.msg_iovlen) = (&raw mut self.iovecs[iovec], 1);
        (header.msg_control, header.msg_controllen) = (std::ptr::null_mut(), 0);
        if let Some(room) = control[CUT..].first_chunk_mut().filter(|_| with_control) {
            header.msg_controllen = udp::write_packet_info(room, back);
            header.msg_control = room.as_mut_ptr().cast();
        }
    }

    /// One more answer goes along with the n-th message.
    fn add(&mut self, n: usize, iovec: usize) {
        let (header, control) = (&mut self.headers[n].msg_hdr, &mut self.controls[n]);
        header.msg_iovlen += 1;
        if header.msg_iovlen == 2
            && let Some(room) = control.first_chunk_mut()
        {
            cut::write(room, self.iovecs[iovec - 1].iov_len as u16);
            header.msg_controllen += size_of::<cut::Control>();
            header.msg_control = control.as_mut_ptr().cast();
        }
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

    fn back_to(asker: &UdpSocket) -> Return {
        Return { peer: asker.local_addr().unwrap(), asked: asker.peer_addr().unwrap().ip(), interface: 0 }
    }

    /// What an answer of this number says, in so many octets.
    fn put(outbox: &mut Outbox, number: u8, len: usize, back: &Return) {
        outbox.room().unwrap()[..len].fill(number);
        outbox.put(0, back, len);
    }

    #[test]
    fn answers_to_one_client_are_few_messages_and_come_one_by_one_whether_the_kernel_cuts_or_not() {
        for address in ["127.0.0.1:0", "0.0.0.0:0"] {
            let ports = [bound(address)];
            let askers = [asker(&ports[0]), asker(&ports[0])];
            let lens = [30, 20, 30, 1400, 20, 30, 7, 1400, 30];
            for cuts in [true, false] {
                let mut outbox = Outbox { cuts: Some(cuts), ..Outbox::new() };
                for (i, len) in (0..).zip(lens) {
                    askers.iter().for_each(|asker| put(&mut outbox, i, len, &back_to(asker)));
                }
                let (mut order, room) = (outbox.order.clone(), &outbox.octets);
                order.sort_unstable();
                let letters = order.iter().map(|place| &outbox.letters[place.letter()]);
                let messages = outbox.row.headers(letters, room, cuts, false).len();
                // 1,400 by itself, twice; four of 30 and one of 20; one of 20 and that of 7.
                assert_eq!(messages, 2 * if cuts { 4 } else { lens.len() });
                assert_eq!(outbox.send(&ports), Sent { sent: 2 * lens.len(), failed: 0 });
                assert_eq!(outbox.cuts, Some(cuts), "it is not refused over loopback");
                for asker in &askers {
                    let mut came = lens.map(|_| answer(asker));
                    came.sort_unstable();
                    assert_eq!(came, std::array::from_fn(|i| vec![i as u8; lens[i]]));
                }
            }
        }
    }

    #[test]
    fn what_the_kernel_refuses_to_cut_goes_uncut_from_then_on() {
        let (ports, mut outbox) = ([bound("127.0.0.1:0")], Outbox::new());
        let asker = asker(&ports[0]);
        // Without a checksum it does not.
        sys::set_option(ports[0].as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        (0..3).for_each(|i| put(&mut outbox, i, 5, &back_to(&asker)));
        assert_eq!((outbox.send(&ports), outbox.cuts), (Sent { sent: 3, failed: 0 }, Some(false)));
        assert_eq!([(); 3].map(|()| answer(&asker)), [vec![0; 5], vec![1; 5], vec![2; 5]]);
    }

    #[test]
    fn more_clients_than_there_are_headers_are_all_answered() {
        let (ports, mut outbox) = ([bound("127.0.0.1:0")], Outbox::new());
        let askers: Vec<UdpSocket> = (0..MESSAGES_MAX + 9).map(|_| asker(&ports[0])).collect();
        (0..2).for_each(|i| askers.iter().for_each(|asker| put(&mut outbox, i, 9, &back_to(asker))));
        assert_eq!(outbox.send(&ports), Sent { sent: 2 * askers.len(), failed: 0 });
        askers.iter().for_each(|asker| assert_eq!([answer(asker), answer(asker)], [vec![0; 9], vec![1; 9]]));
    }

    fn answer(asker: &UdpSocket) -> Vec<u8> {
        let mut answer = [0; STRIDE];
        let n = asker.recv(&mut answer).unwrap();
        answer[..n].to_vec()
    }

    #[test]
    fn a_full_outbox_has_no_room() {
        let (ports, mut outbox) = ([bound("127.0.0.1:0")], Outbox::new());
        // A receive buffer of the default size does not hold so many.
        let askers = [(); 8].map(|()| asker(&ports[0]));
        for (len, room) in [(3, ANSWERS_MAX), (STRIDE, ROOM / STRIDE)] {
            let mut asking = askers.iter().cycle().take(room);
            asking.clone().for_each(|asker| put(&mut outbox, 7, len, &back_to(asker)));
            assert!(outbox.room().is_none());
            assert_eq!(outbox.send(&ports), Sent { sent: room, failed: 0 });
            assert!(outbox.room().is_some());
            assert!(asking.all(|asker| answer(asker) == vec![7; len]));
        }
    }
}
