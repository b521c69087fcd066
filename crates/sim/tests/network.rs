//! The worker behind a bad network: whatever arrives, in whatever company, is answered as it would be alone.

use sim::network::{Faults, Network, answer};
use sim::rng::Rng;
use sim::{CLIENT, Server, message};

const ZONE: &str = "\
$TTL 60
@ SOA ns h 1 2 3 4 5
@ NS ns
ns A 192.0.2.1
*.w A 192.0.2.2
c CNAME ns
sub NS ns.sub
ns.sub A 192.0.2.3
d DNAME ns
";

fn a_query(rng: &mut Rng) -> Vec<u8> {
    const NAMES: [&str; 10] = [
        "example.",
        "ns.example.",
        "x.w.example.",
        "c.example.",
        "a.sub.example.",
        "a.d.example.",
        "no.example.",
        "w.example.",
        "other.",
        ".",
    ];
    const TYPES: [u16; 9] = [1, 2, 5, 6, 28, 43, 46, 255, 252];
    let name = wire::Name::from_text(rng.pick(&NAMES).as_bytes(), None).unwrap();
    let edns = [None, Some((1232, false)), Some((512, true))];
    message::packet(name.bytes(), *rng.pick(&TYPES), *rng.pick(&edns))
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let faults = Faults { lost: 20, doubled: 10, damaged: 3, delay_max_ns: 50_000 };
    let mut network = Network::new(seed, faults);
    for i in 0..2_000 {
        network.send(i * 1_000, CLIENT, &a_query(&mut rng));
    }
    let mut together = Server::new(&[("example.", ZONE)]);
    let mut alone = Server::new(&[("example.", ZONE)]);
    let mut size = 1 + rng.below(32);
    while let Some((time, batch)) = network.receive(size) {
        let mut answered = batch.clone();
        answer(&mut together, time, &mut answered);
        for ((_, buffer, len), got) in batch.packets.iter().zip(answered.answers()) {
            let expect = alone.datagram(&buffer[..*len]).unwrap_or_default();
            assert_eq!(got, expect, "seed {seed}: {:02x?}", &buffer[..*len]);
            assert!(got.is_empty() || message::sections(got).is_some(), "seed {seed}: malformed answer {got:02x?}");
        }
        size = 1 + rng.below(32);
    }
}

#[test]
fn a_batch_answers_as_its_packets_would_alone() {
    sim::seeds::each(0..20, run);
}
