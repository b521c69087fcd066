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

impl Upstream {
    pub fn new(wake: &impl AsFd, outgoing: Vec<IpAddr>) -> io::Result<Upstream> {
        let epoll = Epoll::new()?;
        epoll.add(wake.as_fd(), WAKE, Interest::Read)?;
        let buffer = vec![0; 2 + usize::from(u16::MAX)];
        Ok(Upstream { epoll, lines: Lines::default(), streams: Streams::default(), outgoing, buffer })
    }

    /// Takes a packet, which leaves when the turn ends.
    pub fn send(&mut self, parcel: &Parcel<'_>, via: Via) -> io::Result<()> {
        let from = self.outgoing.iter().copied().find(|ip| ip.is_ipv4() == parcel.server.is_ipv4());
        let from = from.ok_or(ErrorKind::AddrNotAvailable)?;
        match via {
            Via::Udp => self.lines.send(from, parcel),
            Via::Tcp => self.streams.send(&self.epoll, from, parcel)?,
        }
        Ok(())
    }

    pub fn close(&mut self, exchange: ExchangeId) {
        if !self.lines.close(exchange) {
            self.streams.close(exchange);
        }
    }

    /// So much waits for the turn to end that it should.
    pub fn is_full(&self) -> bool {
        self.lines.is_full()
    }

    /// Lets everything leave, from ports drawn by `chance`; says what cannot.
    pub fn end_turn(&mut self, now_ns: u64, chance: &mut Chance) -> &[ExchangeId] {
        self.lines.end_turn(&self.epoll, now_ns, chance)
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
            token if token & STREAM == 0 => self.lines.on_event(token, hand_on),
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
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    const PATIENCE: Duration = Duration::from_secs(10);

    struct Bench {
        upstream: Upstream,
        chance: Chance,
        _wake: Wake,
    }

    fn bench() -> Bench {
        let wake = Wake::new().unwrap();
        let upstream = Upstream::new(&wake, vec!["127.0.0.1".parse().unwrap()]).unwrap();
        // Tests that run beside one another must not draw each other's ports.
        static SEED: AtomicU8 = AtomicU8::new(9);
        Bench { upstream, chance: Chance::new([SEED.fetch_add(1, Relaxed); 32]), _wake: wake }
    }

    fn exchange(serial: u32) -> ExchangeId {
        ExchangeId { slot: serial % 7, serial }
    }

    impl Bench {
        /// Takes a question, without ending the turn.
        fn collect(&mut self, serial: u32, server: SocketAddr, via: Via, packet: &[u8]) {
            let parcel = Parcel { exchange: exchange(serial), server, packet };
            self.upstream.send(&parcel, via).unwrap();
        }

        fn send(&mut self, now_ns: u64, serial: u32, server: SocketAddr, via: Via, packet: &[u8]) {
            self.collect(serial, server, via, packet);
            assert_eq!(self.end_turn(now_ns), []);
        }

        /// The questions that could not leave.
        fn end_turn(&mut self, now_ns: u64) -> Vec<u32> {
            self.upstream.end_turn(now_ns, &mut self.chance).iter().map(|exchange| exchange.serial).collect()
        }

        fn close(&mut self, now_ns: u64, serial: u32) {
            self.upstream.close(exchange(serial));
            assert_eq!(self.end_turn(now_ns), []);
        }

        /// What comes next: the exchange's serial number and the packet; an empty one for a failure.
        fn next(&mut self) -> (u32, Vec<u8>) {
            let mut came = self.next_all(1);
            came.remove(0)
        }

        /// What comes until there are so many, and no more.
        fn next_all(&mut self, expect: usize) -> Vec<(u32, Vec<u8>)> {
            let mut came = Vec::new();
            while came.len() < expect {
                let n = self.upstream.wait(Some(PATIENCE)).unwrap();
                assert!(n > 0, "nothing comes");
                for i in 0..n {
                    self.upstream.on_event(i, |c| match c {
                        Came::Packet(id, packet) => came.push((id.serial, packet.to_vec())),
                        Came::Failed(id) => came.push((id.serial, Vec::new())),
                    });
                }
            }
            assert_eq!(came.len(), expect);
            came
        }

        /// Takes what there is; nothing of it may be anybody's.
        fn settle(&mut self) {
            loop {
                match self.upstream.wait(Some(Duration::from_millis(1))).unwrap() {
                    0 => return,
                    n => (0..n).for_each(|i| self.upstream.on_event(i, |_| panic!("nothing was to come"))),
                }
            }
        }

        /// Asks and hears so often that ports serve several questions from now on. Serial numbers from 1,000,000 on.
        fn warm_up(&mut self, server: &UdpSocket) {
            for serial in 1_000_000..1_000_260 {
                self.send(0, serial, server.local_addr().unwrap(), Via::Udp, &[0xFF, serial as u8, 1]);
                echo(server);
                self.next();
                self.close(0, serial);
            }
        }
    }

    /// Sends back what comes next: from which port it came, and what it was.
    fn echo(server: &UdpSocket) -> (u16, Vec<u8>) {
        let (from, packet) = heard(server);
        server.send_to(&packet, ("127.0.0.1", from)).unwrap();
        (from, packet)
    }

    fn heard(server: &UdpSocket) -> (u16, Vec<u8>) {
        let mut packet = [0; 16];
        let (n, from) = server.recv_from(&mut packet).unwrap();
        (from.port(), packet[..n].to_vec())
    }

    fn udp_server() -> (UdpSocket, SocketAddr) {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let to = server.local_addr().unwrap();
        (server, to)
    }

    #[test]
    fn ports_serve_a_few_questions_each_and_a_doubled_reply_is_not_taken_for_the_next() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        let (mut ports, mut used) = (HashSet::new(), 0);
        for serial in 1..=3_000u32 {
            let packet = [(serial >> 8) as u8, serial as u8, 1, 2, 3];
            bench.send(u64::from(serial), serial, to, Via::Udp, &packet);
            let (from, _) = heard(&server);
            used += u32::from(!ports.insert(from));
            for _ in 0..2 {
                server.send_to(&packet, ("127.0.0.1", from)).unwrap();
            }
            assert_eq!(bench.next(), (serial, packet.to_vec()));
            bench.close(u64::from(serial), serial);
        }
        assert!(used > 1_000 && ports.len() > 250, "{used} times again, {} ports", ports.len());
    }

    #[test]
    fn a_port_that_has_heard_nothing_is_not_used_again() {
        let (mut bench, (_server, to)) = (bench(), udp_server());
        for serial in 1..=2_000 {
            bench.send(0, serial, to, Via::Udp, &[0, 1, 2]);
            bench.close(0, serial);
            assert_eq!(bench.upstream.lines.open_now(), 0);
        }
    }

    #[test]
    fn questions_of_a_turn_have_ports_of_their_own_while_there_are_few() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        (1..=40).for_each(|i| bench.collect(i, to, Via::Udp, &[0, i as u8]));
        assert_eq!(bench.end_turn(0), []);
        let ports: HashSet<u16> = (1..=40).map(|_| echo(&server).0).collect();
        assert_eq!((ports.len(), bench.next_all(40).len()), (40, 40));
    }

    #[test]
    fn questions_of_a_turn_share_a_port_and_replies_are_told_apart_in_any_order() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        bench.warm_up(&server);
        (1..=8).for_each(|i| bench.collect(i, to, Via::Udp, &[0, i as u8, b'q']));
        assert_eq!(bench.end_turn(0), []);
        let all: Vec<(u16, Vec<u8>)> = (1..=8).map(|_| heard(&server)).collect();
        assert!(all.iter().zip(1..).all(|(one, i)| *one == (all[0].0, vec![0, i, b'q'])), "{all:?}");
        let reply = |i: u8| {
            server.send_to(&[0, i, b'a'], ("127.0.0.1", all[0].0)).unwrap();
        };
        // Two of them have come twice before anybody looks, and one comes again when its exchange is closed.
        [3u8, 1, 8, 1].into_iter().for_each(reply);
        let came = bench.next_all(4);
        assert_eq!(came.iter().map(|(serial, _)| *serial).collect::<Vec<_>>(), [3, 1, 8, 1]);
        bench.close(0, 3);
        reply(3);
        bench.settle();
        [2, 4, 5, 6, 7].into_iter().for_each(reply);
        let came = bench.next_all(5);
        assert!(came.iter().zip([2, 4, 5, 6, 7]).all(|(c, i)| *c == (u32::from(i), vec![0, i, b'a'])), "{came:?}");
    }

    #[test]
    fn questions_of_about_one_length_share_a_port() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        bench.warm_up(&server);
        let len = |i: u32| 3 + i as usize % 2;
        (1..=32).for_each(|i| bench.collect(i, to, Via::Udp, &[0, i as u8, b'q', b'q'][..len(i)]));
        assert_eq!(bench.end_turn(0), []);
        let all: Vec<(u16, Vec<u8>)> = (1..=32).map(|_| heard(&server)).collect();
        // Of the ports that wait one may serve several questions: which these are, their order has not decided.
        let longest: HashSet<u16> = all.iter().filter(|(_, packet)| packet.len() == 4).map(|(port, _)| *port).collect();
        assert_eq!(longest.len(), 1, "{all:?}");
    }

    #[test]
    fn a_question_that_is_given_up_before_its_turn_ends_does_not_leave() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        (1..=3).for_each(|i| bench.collect(i, to, Via::Udp, &[0, i as u8]));
        bench.upstream.close(exchange(2));
        assert_eq!(bench.end_turn(0), []);
        let mut left = [echo(&server).1[1], echo(&server).1[1]];
        left.sort_unstable();
        assert_eq!((left, bench.next_all(2).len()), ([1, 3], 2));
        assert!(server.set_nonblocking(true).is_ok() && server.recv(&mut [0]).is_err());
    }

    #[test]
    fn a_wrong_id_is_told_to_all_that_wait_on_its_port_and_ends_it() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        bench.warm_up(&server);
        let open = bench.upstream.lines.open_now();
        (1..=6).for_each(|i| bench.collect(i, to, Via::Udp, &[0, i as u8]));
        assert_eq!(bench.end_turn(0), []);
        let ports: HashSet<u16> = (1..=6).map(|_| heard(&server).0).collect();
        let port = *ports.iter().next().unwrap();
        assert_eq!(ports.len(), 1);
        server.send_to(&[0, 2], ("127.0.0.1", port)).unwrap();
        assert_eq!(bench.next().0, 2);
        bench.close(0, 2);
        bench.send(0, 7, to, Via::Udp, &[0, 7]);
        let other = heard(&server).0;
        assert_ne!(other, port, "it left in another turn");
        server.send_to(&[9, 9], ("127.0.0.1", port)).unwrap();
        let told: Vec<u32> = bench.next_all(5).into_iter().map(|(serial, _)| serial).collect();
        assert_eq!(told, [1, 3, 4, 5, 6]);
        for serial in told {
            bench.close(0, serial);
        }
        server.send_to(&[0, 7], ("127.0.0.1", other)).unwrap();
        assert_eq!(bench.next().0, 7);
        bench.close(0, 7);
        assert_eq!(
            bench.upstream.lines.open_now(),
            open,
            "one was opened for the seventh, and the guessed one is closed"
        );
    }

    #[test]
    fn a_port_at_which_somebody_guesses_between_two_questions_serves_no_more() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        let mut ports = HashSet::new();
        for serial in 1..=256 {
            bench.send(0, serial, to, Via::Udp, &[1, serial as u8]);
            ports.insert(echo(&server).0);
            bench.next();
            bench.close(0, serial);
        }
        for &port in &ports {
            server.send_to(&[9, 9], ("127.0.0.1", port)).unwrap();
        }
        bench.settle();
        for serial in 257..=300 {
            bench.send(0, serial, to, Via::Udp, &[1, serial as u8]);
            assert!(!ports.contains(&heard(&server).0));
        }
    }

    #[test]
    fn a_port_whose_questions_get_no_reply_in_part_is_used_again_and_the_late_reply_is_no_guess() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        bench.warm_up(&server);
        (1..=4).for_each(|i| bench.collect(i, to, Via::Udp, &[0, i as u8]));
        assert_eq!(bench.end_turn(0), []);
        let port = heard(&server).0;
        (2..=4).for_each(|_| drop(heard(&server)));
        server.send_to(&[0, 4], ("127.0.0.1", port)).unwrap();
        assert_eq!(bench.next().0, 4);
        (1..=4).for_each(|i| bench.close(0, i));
        // Of those that wait it is drawn again some time.
        let id = |serial: u32| [(serial >> 8) as u8, serial as u8];
        let again = (5..=20_000).find(|&serial| {
            bench.send(0, serial, to, Via::Udp, &id(serial));
            let from = echo(&server).0;
            let found = from == port;
            if !found {
                bench.next();
                bench.close(0, serial);
            }
            found
        });
        server.send_to(&[0, 1], ("127.0.0.1", port)).unwrap();
        let again = again.expect("it is used again");
        assert_eq!(bench.next(), (again, id(again).to_vec()));
        bench.settle();
    }

    #[test]
    fn two_questions_with_one_id_leave_from_two_ports() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        bench.warm_up(&server);
        (1..=2).for_each(|i| bench.collect(i, to, Via::Udp, &[0, 1]));
        bench.collect(3, to, Via::Udp, &[0, 3]);
        assert_eq!(bench.end_turn(0), []);
        let ports: HashSet<u16> = (1..=3).map(|_| echo(&server).0).collect();
        assert_eq!((ports.len(), bench.next_all(3).len()), (2, 3));
    }

    #[test]
    fn when_the_network_says_no_all_that_wait_on_the_port_hear_it() {
        let (mut bench, (server, to)) = (bench(), udp_server());
        bench.warm_up(&server);
        drop(server);
        (1..=4).for_each(|i| bench.collect(i, to, Via::Udp, &[0, i as u8]));
        // The refusal may be back while the rest is being sent.
        let mut failed = bench.end_turn(0);
        if failed.is_empty() {
            failed = bench.next_all(4).into_iter().map(|(serial, _)| serial).collect();
        }
        assert_eq!(failed, [1, 2, 3, 4]);
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

    #[test]
    fn questions_share_a_stream_and_replies_may_come_in_any_order() {
        let (mut bench, server) = (bench(), TcpListener::bind("127.0.0.1:0").unwrap());
        let to = server.local_addr().unwrap();
        (1..=3).for_each(|i| bench.send(0, u32::from(i), to, Via::Tcp, &[0, i, b'q', i]));
        bench.settle();
        let mut stream = accepted(&server);
        let asked: Vec<Vec<u8>> = (0..3).map(|_| read_framed(&mut stream)).collect();
        assert_eq!(asked, [vec![0, 1, b'q', 1], vec![0, 2, b'q', 2], vec![0, 3, b'q', 3]]);
        write_framed(&mut stream, &[7, 7, b'?']);
        for i in [2u8, 3, 1] {
            write_framed(&mut stream, &[0, i, b'a', i]);
            assert_eq!(bench.next(), (u32::from(i), vec![0, i, b'a', i]));
            bench.close(0, u32::from(i));
        }
        bench.send(0, 4, to, Via::Tcp, &[0, 4, b'q']);
        bench.settle();
        assert_eq!(read_framed(&mut stream), [0, 4, b'q'], "the same stream serves later questions too");
    }

    #[test]
    fn a_question_to_a_stream_that_the_server_closed_meanwhile_goes_out_once_more() {
        let (mut bench, server) = (bench(), TcpListener::bind("127.0.0.1:0").unwrap());
        let to = server.local_addr().unwrap();
        bench.send(0, 1, to, Via::Tcp, &[0, 1]);
        bench.settle();
        let mut stream = accepted(&server);
        assert_eq!(read_framed(&mut stream), [0, 1]);
        write_framed(&mut stream, &[0, 1, b'a']);
        assert_eq!(bench.next().0, 1);
        bench.close(0, 1);
        drop(stream);
        bench.send(0, 2, to, Via::Tcp, &[0, 2]);
        bench.settle();
        let mut stream = accepted(&server);
        assert_eq!(read_framed(&mut stream), [0, 2]);
        drop(stream);
        assert_eq!(bench.next(), (2, vec![]), "and once only");
    }
}
