//! Queries out of a capture (pcap or pcapng), with the times at which they were seen.
//!
//! ```text
//!   file -> records -> packet: a question          -> queries
//!                      packet: a piece of a stream -> streams: messages -> queries
//! ```
//!
//! What can be replayed is; the rest is counted by its reason.

use crate::packet::{Carried, Not, carried, question};
use crate::shape::QUESTION_MAX;
use crate::streams::Streams;
use std::fmt;

/// Where name servers listen.
pub const DNS_PORT: u16 = 53;
/// A block or packet longer than this is taken for damage.
const RECORD_MAX: usize = 16 << 20;

/// What could not be replayed, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub packets: u64,
    pub queries: u64,
    /// Of these, the queries that came over TCP.
    pub over_tcp: u64,
    /// Answers, acknowledgements, and packets to other ports.
    pub others: u64,
    /// Pieces of TCP streams: octets before them are missing, or their message never ended.
    pub broken_tcp: u64,
    /// Fragments that do not hold the question.
    pub fragments: u64,
    /// Shorter in the capture than they were on the wire, in a way that the question is incomplete.
    pub cut: u64,
    /// To port 53, and no query with one question.
    pub malformed: u64,
    /// The capture itself ends in the middle of a packet.
    pub torn: bool,
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Passed { packets, others, broken_tcp, fragments, cut, malformed, .. } = self;
        write!(f, "of {packets} packets {others} are something else, {broken_tcp} pieces of broken TCP streams, ")?;
        write!(f, "{fragments} fragments, ")?;
        write!(f, "{cut} cut off, {malformed} malformed")
    }
}

/// The queries of a capture, packed one behind the other.
#[derive(Default)]
pub struct Capture {
    octets: Vec<u8>,
    ends: Vec<u32>,
    /// From the first query, in nanoseconds.
    pub times_ns: Vec<u64>,
    pub passed: Passed,
    first_ns: Option<u64>,
    port: u16,
    streams: Streams,
}

impl Capture {
    /// Queries are what was sent to `port`.
    pub fn parse(file: &[u8], port: u16) -> Result<Capture, String> {
        let mut capture = Capture { port, ..Capture::default() };
        let magic = file.get(..4).ok_or("it is no capture: shorter than a header")?;
        match [magic[0], magic[1], magic[2], magic[3]] {
            [0xa1, 0xb2, 0xc3, 0xd4] => capture.classic(file, true, 1000),
            [0xd4, 0xc3, 0xb2, 0xa1] => capture.classic(file, false, 1000),
            [0xa1, 0xb2, 0x3c, 0x4d] => capture.classic(file, true, 1),
            [0x4d, 0x3c, 0xb2, 0xa1] => capture.classic(file, false, 1),
            [0x0a, 0x0d, 0x0d, 0x0a] => capture.blocks(file),
            _ => return Err("it is no capture: neither pcap nor pcapng".to_string()),
        }
        capture.streams.end_all();
        capture.passed.broken_tcp = capture.streams.broken;
        if capture.ends.is_empty() {
            Err(format!("it holds no query to port {port} that is whole: {}", capture.passed))
        } else {
            Ok(capture)
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn question(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.octets[start..self.ends[i] as usize]
    }

    /// pcap: a header of 24 octets, then records of 16 and the packet.
    fn classic(&mut self, file: &[u8], big: bool, tick_ns: u64) {
        let u32_at = |at: usize| word(file, at, big);
        let Some(link) = u32_at(20) else {
            self.passed.torn = true;
            return;
        };
        let mut at = 24;
        while at < file.len() {
            let head = (u32_at(at), u32_at(at + 4), u32_at(at + 8));
            let (Some(seconds), Some(ticks), Some(len)) = head else { break };
            let Some(packet) = file.get(at + 16..at + 16 + (len as usize).min(RECORD_MAX)) else { break };
            let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(ticks) * tick_ns;
            self.packet(link & 0xffff, time_ns, packet);
            at += 16 + len as usize;
        }
        self.passed.torn = at != file.len();
    }

    /// pcapng: blocks of a type, a length, a body, and the length again.
    fn blocks(&mut self, file: &[u8]) {
        let mut big = false;
        let mut interfaces: Vec<(u32, f64)> = Vec::new();
        let mut at = 0;
        while let Some(kind) = word(file, at, big) {
            if kind == 0x0a0d_0d0a {
                big = file.get(at + 8..at + 12) == Some(&[0x1a, 0x2b, 0x3c, 0x4d]);
                interfaces.clear();
            }
            let Some(len) = word(file, at + 4, big).map(|len| len as usize) else { break };
            let sound = len >= 12 && len % 4 == 0 && len <= RECORD_MAX;
            let Some(body) = file.get(at + 8..at + len.max(12) - 4).filter(|_| sound) else { break };
            match kind {
                1 => interfaces.push((word(body, 0, big).unwrap_or(0) & 0xffff, resolution(body, big))),
                6 => self.enhanced(body, big, &interfaces),
                3 => self.passed.others += 1,
                _ => {}
            }
            at += len;
        }
        self.passed.torn = at != file.len();
    }

    fn enhanced(&mut self, body: &[u8], big: bool, interfaces: &[(u32, f64)]) {
        let field = |i: usize| word(body, i * 4, big);
        let fields = (field(0), field(1), field(2), field(3));
        let (Some(interface), Some(high), Some(low), Some(len)) = fields else { return };
        let Some((link, tick_ns)) = interfaces.get(interface as usize) else { return };
        let Some(packet) = body.get(20..20 + len as usize) else {
            self.passed.cut += 1;
            return;
        };
        let ticks = u64::from(high) << 32 | u64::from(low);
        self.packet(*link, (ticks as f64 * tick_ns) as u64, packet);
    }

    fn packet(&mut self, link: u32, time_ns: u64, packet: &[u8]) {
        self.passed.packets += 1;
        match carried(link, packet, self.port) {
            Ok(Carried::Question(question)) => self.query(question, time_ns),
            Ok(Carried::Segment(segment)) => {
                let mut streams = std::mem::take(&mut self.streams);
                streams.on_segment(&segment, |message| self.message(message, time_ns));
                self.streams = streams;
                self.passed.others += u64::from(segment.data.is_empty());
            }
            Err(why) => self.pass(why),
        }
    }

    /// A whole message of a stream.
    fn message(&mut self, message: &[u8], time_ns: u64) {
        match question(message) {
            Ok(question) => {
                self.passed.over_tcp += 1;
                self.query(question, time_ns);
            }
            // A message is whole here: what ends too early was made so.
            Err(Not::Cut) => self.pass(Not::Malformed),
            Err(why) => self.pass(why),
        }
    }

    fn query(&mut self, question: &[u8], time_ns: u64) {
        self.passed.queries += 1;
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        self.octets.extend_from_slice(question);
        self.ends.push(self.octets.len() as u32);
        self.times_ns.push(time_ns.saturating_sub(first_ns));
    }

    fn pass(&mut self, why: Not) {
        match why {
            Not::Other => self.passed.others += 1,
            Not::Fragment => self.passed.fragments += 1,
            Not::Cut => self.passed.cut += 1,
            Not::Malformed => self.passed.malformed += 1,
        }
    }
}

fn word(bytes: &[u8], at: usize, big: bool) -> Option<u32> {
    let octets: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(if big { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) })
}

/// Nanoseconds a tick of an interface: option if_tsresol (9), microseconds where there is none.
fn resolution(body: &[u8], big: bool) -> f64 {
    let half = |at: usize| body.get(at..at + 2).map(|b| [b[0], b[1]]);
    let number = |b: [u8; 2]| usize::from(if big { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) });
    let mut at = 8;
    while let (Some(code), Some(len)) = (half(at).map(number), half(at + 2).map(number)) {
        if code == 9
            && let Some(&exponent) = body.get(at + 4)
        {
            let base = if exponent & 0x80 != 0 { 2f64 } else { 10f64 };
            return 1e9 / base.powi(i32::from(exponent & 0x7f));
        }
        if code == 0 {
            break;
        }
        at += 4 + len.div_ceil(4) * 4;
    }
    1000.0
}

/// A capture that is sent again and again.
pub struct Replay {
    capture: Capture,
    at: usize,
    path: String,
}

impl Replay {
    pub fn new(capture: Capture, path: &str) -> Replay {
        Replay { capture, at: 0, path: path.to_string() }
    }

    pub fn next(&mut self, out: &mut [u8; QUESTION_MAX]) -> usize {
        let question = self.capture.question(self.at);
        out[..question.len()].copy_from_slice(question);
        self.at = (self.at + 1) % self.capture.len();
        question.len()
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn capture(&self) -> &Capture {
        &self.capture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHERNET: u32 = 1;
    const RAW: u32 = 101;
    const NULL: u32 = 0;
    const SLL: u32 = 113;
    const SLL2: u32 = 276;
    const DNS: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x1c\0\x01";
    const QUESTION: &str = "www.example. AAAA";

    fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
        let length = (8 + payload.len() as u16).to_be_bytes();
        [&[0x99, 0x99][..], &port.to_be_bytes(), &length, &[0, 0], payload].concat()
    }

    fn tcp(from: u16, payload: &[u8]) -> Vec<u8> {
        let mut head = [0; 20];
        (head[1], head[3], head[12]) = (from as u8, 53, 0x50);
        [&head[..], payload].concat()
    }

    fn v4(protocol: u8, fragment: u16, segment: &[u8]) -> Vec<u8> {
        let mut head = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        head[6..8].copy_from_slice(&fragment.to_be_bytes());
        [&head[..], segment].concat()
    }

    fn v6(next: u8, segment: &[u8]) -> Vec<u8> {
        let mut head = [0; 40];
        (head[0], head[6]) = (0x60, next);
        [&head[..], segment].concat()
    }

    fn ethernet_frame(tags: &[u16], kind: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for tag in tags {
            frame.extend_from_slice(&tag.to_be_bytes());
            frame.extend_from_slice(&[0, 7]);
        }
        frame.extend_from_slice(&kind.to_be_bytes());
        [&frame[..], packet].concat()
    }

    /// pcap of either byte order; packets with their times in microseconds.
    fn pcap(big: bool, link: u32, packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut file: Vec<u8> = [0xa1b2_c3d4, 0, 0, 0, 65_535, link].into_iter().flat_map(word).collect();
        for (time_us, packet) in packets {
            let len = packet.len() as u32;
            file.extend([1_000 + time_us / 1_000_000, time_us % 1_000_000, len, len].into_iter().flat_map(word));
            file.extend_from_slice(packet);
        }
        file
    }

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().div_ceil(4) * 4;
        let len = (padded as u32 + 12).to_le_bytes();
        let mut block = [&kind.to_le_bytes()[..], &len, body].concat();
        block.resize(8 + padded, 0);
        [&block[..], &len].concat()
    }

    /// pcapng with one interface whose ticks are nanoseconds.
    fn pcapng(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut file = block(0x0a0d_0d0a, b"\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff");
        file.extend(block(1, b"\x01\0\0\0\0\0\0\0\x09\0\x01\0\x09\0\0\0\0\0\0\0"));
        for (time_ns, packet) in packets {
            let fields = [0, (time_ns >> 32) as u32, *time_ns as u32, packet.len() as u32, packet.len() as u32];
            let head: Vec<u8> = fields.into_iter().flat_map(u32::to_le_bytes).collect();
            file.extend(block(6, &[&head[..], packet].concat()));
        }
        file.extend(block(5, &[0; 12]));
        file
    }

    fn question_of(capture: &Capture, i: usize) -> String {
        crate::question::text(capture.question(i))
    }

    #[test]
    fn queries_are_found_under_every_link_layer() {
        let dns = udp(53, DNS);
        let options = [&[17, 0, 0, 0, 0, 0, 0, 0][..], &dns].concat();
        for (link, packet) in [
            (ETHERNET, ethernet_frame(&[], 0x0800, &v4(17, 0, &dns))),
            (ETHERNET, ethernet_frame(&[0x8100], 0x86dd, &v6(17, &dns))),
            (ETHERNET, ethernet_frame(&[0x88a8, 0x8100], 0x0800, &v4(17, 0x4000, &dns))),
            (RAW, v4(17, 0, &dns)),
            (RAW, v6(0, &options)),
            (NULL, [&[2, 0, 0, 0][..], &v4(17, 0, &dns)].concat()),
            (SLL, [&[0; 14][..], &[8, 0], &v4(17, 0, &dns)].concat()),
            (SLL2, [&[0x81, 0][..], &[0; 20], &[8, 0], &v4(17, 0, &dns)].concat()),
            (RAW, v4(17, 0x2000, &dns)),
            (RAW, v6(44, &[&[17, 0, 0, 1, 0, 0, 0, 9][..], &dns].concat())),
            (SLL2, [&[8, 0][..], &[0; 18], &v4(17, 0, &dns)].concat()),
        ] {
            for big in [false, true] {
                let capture =
                    Capture::parse(&pcap(big, link, &[(5, packet.clone()), (1_000_005, packet.clone())]), DNS_PORT)
                        .unwrap();
                assert_eq!((capture.len(), question_of(&capture, 1).as_str()), (2, QUESTION), "{link}");
                assert_eq!(capture.times_ns, [0, 1_000_000_000]);
                assert_eq!(capture.passed, Passed { packets: 2, queries: 2, ..Passed::default() });
            }
        }
        let frame = ethernet_frame(&[], 0x0800, &v4(17, 0, &dns));
        let capture =
            Capture::parse(&pcapng(&[(7_000_000_001, frame.clone()), (7_000_000_501, frame)]), DNS_PORT).unwrap();
        assert_eq!((capture.len(), capture.times_ns[1], capture.passed.torn), (2, 500, false));
    }

    #[test]
    fn what_cannot_be_replayed_is_counted_by_its_reason() {
        let good = v4(17, 0, &udp(53, DNS));
        let mut answer = DNS.to_vec();
        answer[2] |= 0x80;
        let mut no_question = DNS.to_vec();
        no_question[5] = 0;
        let packets = [
            good.clone(),
            v4(17, 0x2000, &udp(53, &DNS[..20])),
            v4(17, 0x0010, &[0; 30]),
            v6(44, &[&[17, 0, 0, 8][..], &[0; 60]].concat()),
            v4(6, 0x2000, &tcp(7, &[])),
            v4(6, 0, &tcp(7, &[&[0, DNS.len() as u8][..], DNS].concat())),
            v4(6, 0, &tcp(9, &[0, 40, 1])),
            v4(6, 0, &tcp(7, &[])),
            v4(17, 0, &udp(54, DNS)),
            v4(17, 0, &udp(53, &answer)),
            v4(17, 0, &udp(53, &no_question)),
            v4(1, 0, &[8; 30]),
            good[..good.len() - 6].to_vec(),
            good[..45].to_vec(),
        ];
        let timed: Vec<(u32, Vec<u8>)> = packets.into_iter().map(|p| (0, p)).collect();
        let passed = Capture::parse(&pcap(false, RAW, &timed), DNS_PORT).unwrap().passed;
        let expect = Passed {
            packets: 14,
            queries: 2,
            over_tcp: 1,
            others: 4,
            broken_tcp: 1,
            fragments: 4,
            cut: 2,
            malformed: 1,
            torn: false,
        };
        assert_eq!(passed, expect);
    }

    #[test]
    fn a_file_cut_anywhere_gives_what_it_has() {
        let frame = || ethernet_frame(&[], 0x0800, &v4(17, 0, &udp(53, DNS)));
        for file in [pcap(false, ETHERNET, &[(0, frame()), (1, frame())]), pcapng(&[(0, frame()), (1, frame())])] {
            let mut most = 0;
            for cut in 0..file.len() {
                let found = Capture::parse(&file[..cut], DNS_PORT).map_or(0, |c| c.len());
                assert!(found >= most && found <= 2, "{cut}");
                most = found;
            }
            assert!(most >= 1);
        }
    }

    #[test]
    fn damaged_octets_do_no_harm() {
        let frame = ethernet_frame(&[0x8100], 0x0800, &v4(17, 0, &udp(53, DNS)));
        for file in [pcap(false, ETHERNET, &[(0, frame.clone())]), pcapng(&[(0, frame.clone())])] {
            for at in 0..file.len() {
                for bits in [0xff, 0x80, 1] {
                    let mut damaged = file.clone();
                    damaged[at] ^= bits;
                    let _ = Capture::parse(&damaged, DNS_PORT);
                }
            }
        }
        let mut real = *include_bytes!("../tests/captures/tcpdump.pcap");
        for at in 0..real.len() {
            real[at] ^= 0xff;
            let _ = Capture::parse(&real, DNS_PORT);
            real[at] ^= 0xff;
        }
        assert!(Capture::parse(b"", DNS_PORT).is_err() && Capture::parse(b"name A\n", DNS_PORT).is_err());
    }

    /// The same traffic over the loopback interface, as tcpdump 4.99 and dnscap 2.5 wrote it down: two queries over UDP, two
    /// under VLAN tags, two in fragments, one with a long name, and five over TCP on three connections, pipelined, cut at
    /// odd places and with 3,000 octets of padding.
    #[test]
    fn what_tcpdump_and_dnscap_write_is_read() {
        let over_udp = [
            "plain.example. A",
            "six.example. AAAA",
            "vlan.example. MX",
            "vlan-six.example. TXT",
            "fragments.example. A",
            "fragments-six.example. AAAA",
        ];
        let long = "a-name-that-is-too-long-for-short-captures.and-has-two-labels.example. A";
        let over_tcp = [
            "tcp-one.example. A",
            "tcp-two.example. AAAA",
            "tcp-cut.example. MX",
            "tcp-long.example. A",
            "tcp-last.example. NS",
        ];
        let whole = [&over_udp[..], &[long], &over_tcp].concat();
        let read = |octets: &[u8], expect: &[&str]| {
            let capture = Capture::parse(octets, DNS_PORT).unwrap();
            let found: Vec<String> = (0..capture.len()).map(|i| question_of(&capture, i)).collect();
            assert_eq!(found, expect);
            assert!(capture.times_ns.is_sorted() && *capture.times_ns.last().unwrap() < 1_000_000_000);
            capture.passed
        };
        let base = Passed { queries: 12, over_tcp: 5, fragments: 2, ..Passed::default() };
        let found = read(include_bytes!("../tests/captures/tcpdump.pcap"), &whole);
        assert_eq!(found, Passed { packets: 50, others: 36, ..base });
        let without = |name: &str| whole.iter().filter(|q| !q.starts_with(name)).copied().collect::<Vec<&str>>();
        // From "-i any" a frame with two tags comes with half a tag, which tcpdump itself cannot read back.
        let found = read(include_bytes!("../tests/captures/tcpdump-any.pcap"), &without("vlan-six"));
        assert_eq!(found, Passed { packets: 50, queries: 11, others: 37, ..base });
        // dnscap leaves such a frame out, and segments that begin within a message.
        let left: Vec<&str> = without("vlan-six").into_iter().filter(|q| !q.starts_with("tcp-cut")).collect();
        let found = read(include_bytes!("../tests/captures/dnscap.pcap"), &left);
        assert_eq!(found, Passed { packets: 30, queries: 10, over_tcp: 4, others: 20, ..base });
        // 90 octets of each packet: the question of four is cut off, and two segments with three queries.
        let expect = ["plain.example. A", "vlan.example. MX", "fragments.example. A", "tcp-cut.example. MX"];
        let found = read(include_bytes!("../tests/captures/tcpdump-short.pcap"), &expect);
        let expect = Passed { packets: 50, queries: 4, over_tcp: 1, others: 36, broken_tcp: 2, cut: 4, ..base };
        assert_eq!(found, expect);
    }
}
