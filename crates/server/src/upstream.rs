//! The sockets of questions that are under way: datagrams from ports that are drawn for them, streams that are shared.
//!
//! Bounds: as many as the resolver has exchanges, and those that wait to be used again (`resolver::Ports`, `streams`).
//! Decides nothing: what came is handed on, what cannot be had is told.

mod lines;
mod streams;

use lines::Lines;
use net::epoll::{Epoll, Interest};
use resolver::{Chance, ExchangeId, Via};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;
use streams::Streams;

const WAKE: u64 = u64::MAX;
/// Tokens with this bit are streams'.
const STREAM: u64 = 1 << 63;

pub struct Upstream {
    epoll: Epoll,
    lines: Lines,
    streams: Streams,
    /// Source addresses; the first of the server's family is used.
    outgoing: Vec<IpAddr>,
    buffer: Vec<u8>,
}

/// What came of an exchange.
pub enum Came<'a> {
    Packet(ExchangeId, &'a [u8]),
    Failed(ExchangeId),
}

/// A packet for a server.
pub struct Parcel<'a> {
    pub exchange: ExchangeId,
    pub server: SocketAddr,
    pub packet: &'a [u8],
}

impl Parcel<'_> {
    /// The id of the message, by which its reply is told from others.
    fn message_id(&self) -> [u8; 2] {
        self.packet.first_chunk().copied().unwrap_or_default()
    }
}

impl Upstream {
    pub fn new(wake: &impl AsFd, outgoing: Vec<IpAddr>) -> io::Result<Upstream> {
        let epoll = Epoll::new()?;
        epoll.add(wake.as_fd(), WAKE, Interest::Read)?;
        let buffer = vec![0; 2 + usize::from(u16::MAX)];
        Ok(Upstream { epoll, lines: Lines::default(), streams: Streams::default(), outgoing, buffer })
    }

    /// Sends a packet; ports are drawn by `chance`.
    pub fn send(&mut self, now_ns: u64, parcel: &Parcel<'_>, via: Via, chance: &mut Chance) -> io::Result<()> {
        let from = self.outgoing.iter().copied().find(|ip| ip.is_ipv4() == parcel.server.is_ipv4());
        let from = from.ok_or(ErrorKind::AddrNotAvailable)?;
        match via {
            Via::Udp => self.lines.send(&self.epoll, now_ns, from, parcel, chance),
            Via::Tcp => self.streams.send(&self.epoll, from, parcel),
        }
    }

    pub fn close(&mut self, now_ns: u64, exchange: ExchangeId) {
        if !self.lines.close(now_ns, exchange) {
            self.streams.close(exchange);
        }
    }

    /// Waits until something comes, somebody rings, or the time is over; how many events there are.
    pub fn wait(&mut self, at_most: Option<Duration>) -> io::Result<usize> {
        self.epoll.wait(at_most)
    }

    /// Whether event `i` is somebody who rang.
    pub fn is_ring(&self, i: usize) -> bool {
        self.epoll.token(i) == WAKE
    }

    /// Hands on what event `i` of the last wait brought.
    pub fn on_event(&mut self, i: usize, hand_on: impl FnMut(Came<'_>)) {
        match self.epoll.token(i) {
            token if token & STREAM == 0 => self.lines.on_event(token, &mut self.buffer, hand_on),
            token => self.streams.on_event(&self.epoll, token, &mut self.buffer, hand_on),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::Wake;
    use std::collections::HashSet;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    const PATIENCE: Duration = Duration::from_secs(10);

    struct Bench {
        upstream: Upstream,
        chance: Chance,
        _wake: Wake,
    }

    fn bench() -> Bench {
        let wake = Wake::new().unwrap();
        let upstream = Upstream::new(&wake, vec!["127.0.0.1".parse().unwrap()]).unwrap();
        Bench { upstream, chance: Chance::new([9; 32]), _wake: wake }
    }

    fn exchange(serial: u32) -> ExchangeId {
        ExchangeId { slot: serial % 7, serial }
    }

    impl Bench {
        fn send(&mut self, now_ns: u64, serial: u32, server: SocketAddr, via: Via, packet: &[u8]) {
            let parcel = Parcel { exchange: exchange(serial), server, packet };
            self.upstream.send(now_ns, &parcel, via, &mut self.chance).unwrap();
        }

        /// What comes next: the exchange's serial number and the packet; an empty one for a failure.
        fn next(&mut self) -> (u32, Vec<u8>) {
            let mut came = Vec::new();
            while came.is_empty() {
                let n = self.upstream.wait(Some(PATIENCE)).unwrap();
                assert!(n > 0, "nothing comes");
                for i in 0..n {
                    self.upstream.on_event(i, |c| match c {
                        Came::Packet(id, packet) => came.push((id.serial, packet.to_vec())),
                        Came::Failed(id) => came.push((id.serial, Vec::new())),
                    });
                }
            }
            assert_eq!(came.len(), 1);
            came.remove(0)
        }
    }

    #[test]
    fn ports_serve_a_few_questions_each_and_a_doubled_reply_is_not_taken_for_the_next() {
        let (mut bench, server) = (bench(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let (to, mut ports, mut used) = (server.local_addr().unwrap(), HashSet::new(), 0);
        for serial in 1..=3_000u32 {
            let packet = [(serial >> 8) as u8, serial as u8, 1, 2, 3];
            bench.send(u64::from(serial), serial, to, Via::Udp, &packet);
            let (n, from) = server.recv_from(&mut [0; 16]).unwrap();
            used += u32::from(!ports.insert(from.port()));
            for _ in 0..2 {
                server.send_to(&packet[..n], from).unwrap();
            }
            assert_eq!(bench.next(), (serial, packet.to_vec()));
            bench.upstream.close(u64::from(serial), exchange(serial));
        }
        assert!(used > 1_000 && ports.len() > 250, "{used} times again, {} ports", ports.len());
    }

    #[test]
    fn a_port_that_has_heard_nothing_is_not_used_again() {
        let (mut bench, server) = (bench(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let to = server.local_addr().unwrap();
        for serial in 1..=2_000 {
            bench.send(0, serial, to, Via::Udp, &[0, 1, 2]);
            bench.upstream.close(0, exchange(serial));
            assert_eq!(bench.upstream.lines.open_now(), 0);
        }
    }

    fn accepted(server: &TcpListener) -> TcpStream {
        let (stream, _) = server.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn read_framed(stream: &mut TcpStream) -> Vec<u8> {
        let mut len = [0; 2];
        stream.read_exact(&mut len).unwrap();
        let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut message).unwrap();
        message
    }

    fn write_framed(stream: &mut TcpStream, message: &[u8]) {
        stream.write_all(&[&(message.len() as u16).to_be_bytes(), message].concat()).unwrap();
    }

    /// Lets connections open and questions leave; nothing is expected to come.
    fn settle(bench: &mut Bench) {
        while (0..bench.upstream.wait(Some(Duration::from_millis(1))).unwrap()).fold(false, |_, i| {
            bench.upstream.on_event(i, |_| panic!("nothing was to come"));
            true
        }) {}
    }

    #[test]
    fn questions_share_a_stream_and_replies_may_come_in_any_order() {
        let (mut bench, server) = (bench(), TcpListener::bind("127.0.0.1:0").unwrap());
        let to = server.local_addr().unwrap();
        (1..=3).for_each(|i| bench.send(0, u32::from(i), to, Via::Tcp, &[0, i, b'q', i]));
        settle(&mut bench);
        let mut stream = accepted(&server);
        let asked: Vec<Vec<u8>> = (0..3).map(|_| read_framed(&mut stream)).collect();
        assert_eq!(asked, [vec![0, 1, b'q', 1], vec![0, 2, b'q', 2], vec![0, 3, b'q', 3]]);
        write_framed(&mut stream, &[7, 7, b'?']);
        for i in [2u8, 3, 1] {
            write_framed(&mut stream, &[0, i, b'a', i]);
            assert_eq!(bench.next(), (u32::from(i), vec![0, i, b'a', i]));
            bench.upstream.close(0, exchange(u32::from(i)));
        }
        bench.send(0, 4, to, Via::Tcp, &[0, 4, b'q']);
        settle(&mut bench);
        assert_eq!(read_framed(&mut stream), [0, 4, b'q'], "the same stream serves later questions too");
    }

    #[test]
    fn a_question_to_a_stream_that_the_server_closed_meanwhile_goes_out_once_more() {
        let (mut bench, server) = (bench(), TcpListener::bind("127.0.0.1:0").unwrap());
        let to = server.local_addr().unwrap();
        bench.send(0, 1, to, Via::Tcp, &[0, 1]);
        settle(&mut bench);
        let mut stream = accepted(&server);
        assert_eq!(read_framed(&mut stream), [0, 1]);
        write_framed(&mut stream, &[0, 1, b'a']);
        assert_eq!(bench.next().0, 1);
        bench.upstream.close(0, exchange(1));
        drop(stream);
        bench.send(0, 2, to, Via::Tcp, &[0, 2]);
        settle(&mut bench);
        let mut stream = accepted(&server);
        assert_eq!(read_framed(&mut stream), [0, 2]);
        drop(stream);
        assert_eq!(bench.next(), (2, vec![]), "and once only");
    }
}
