//! The whole server without a system: zones from text, queries and time as arguments, answers as text.
//!
//! For tests and measurements of the path that a query takes; the very calls that the drivers make.

pub mod disk;
pub mod forwarding;
pub mod message;
pub mod network;
pub mod rng;
pub mod seeds;
pub mod update;

use front::{DATAGRAM_MAX, Now, Peer, Published, Setup, Ticket, Verdict, Way, Worker, Zones};
use image::{Builder, Complaint, Image};
use stats::Counters;
use std::sync::Arc;
use wire::Name;

/// An image of zones given as (origin, text). Panics on text that is wrong: a test's own zones are right.
pub fn image_of(zones: &[(&str, &str)]) -> (Vec<u8>, Vec<Complaint>) {
    let mut builder = Builder::new(0x5EED);
    for (origin, text) in zones {
        let origin = Name::from_text(origin.as_bytes(), None).expect("the origin is a name");
        builder.begin_zone(origin.bytes());
        let mut sink = |r: zonefile::Record<'_>, _: &zonefile::Place| {
            builder.record(r.owner, r.rtype, r.ttl, r.rdata).map_err(zonefile::Objection::refusal)
        };
        let report = zonefile::parse(
            "zone",
            text.as_bytes(),
            &origin,
            &mut zonefile::NoFiles,
            &zonefile::Options::default(),
            &mut sink,
        );
        assert_eq!(report.errors, 0, "{:?}", report.problems.first().map(|p| p.to_string()));
    }
    let (octets, _, complaints) = builder.finish();
    (octets, complaints)
}

/// A server of one worker.
pub struct Server {
    pub worker: Worker<Vec<u8>>,
    pub published: Arc<Published<Zones<Vec<u8>>>>,
    pub counters: Arc<Counters>,
    pub now: Now,
}

impl Server {
    pub fn new(zones: &[(&str, &str)]) -> Server {
        Server::with(image_of(zones).0, Setup::default())
    }

    pub fn with(octets: Vec<u8>, setup: Setup) -> Server {
        Server::of(Image::open_to_serve(octets, |_| 0).expect("an image of ours opens"), setup)
    }

    /// Serves an image with changes: its file's octets and theirs, and the header that leads to them.
    pub fn over(octets: Vec<u8>, header: image::format::Header, setup: Setup) -> Server {
        Server::of(Image::overlaid(octets, header), setup)
    }

    fn of(image: Image<Vec<u8>>, setup: Setup) -> Server {
        let published = Arc::new(Published::new(Zones::of(image)));
        let counters = Arc::new(Counters::default());
        let worker = Worker::new(Arc::clone(&published), setup, Arc::clone(&counters));
        Server { worker, published, counters, now: Now { mono_ns: 1, wall_s: 1_800_000_000 } }
    }

    /// The answer to a packet, octet for octet; None: silence.
    pub fn datagram(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = [0; DATAGRAM_MAX];
        buffer[..packet.len()].copy_from_slice(packet);
        match self.worker.on_datagram(self.now, CLIENT, &mut buffer, packet.len()) {
            Verdict::Reply(len) => Some(buffer[..len].to_vec()),
            Verdict::Drop | Verdict::Later => None,
        }
    }

    pub fn message(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 65_535];
        buffer[..packet.len()].copy_from_slice(packet);
        match self.worker.on_message(self.now, CLIENT, ticket(CLIENT), &mut buffer, packet.len()) {
            Verdict::Reply(len) => Some(buffer[..len].to_vec()),
            Verdict::Drop | Verdict::Later => None,
        }
    }

    /// Asks as `dig` would, by words: "www.example. A", "example. SOA +do", "+tcp", "+bufsize=512", "+noedns".
    /// The answer as text, a line a record, sections apart.
    pub fn ask(&mut self, words: &str) -> String {
        let query = message::query(words);
        let answer = if words.contains("+tcp") { self.message(&query) } else { self.datagram(&query) };
        answer.map_or("silence".into(), |a| message::to_text(&a))
    }
}

/// Whoever asks in tests.
pub const CLIENT: Peer = Peer { ip: std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 77)), port: 40_000 };

/// The way back to somebody, on the only thread and socket there are.
pub fn ticket(peer: Peer) -> Ticket {
    let asked = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
    Ticket { thread: 0, way: Way::Datagram { port: 0, peer: (peer.ip, peer.port).into(), asked, interface: 0 } }
}
