//! Images: what goes in comes out, and a damaged one is never served as if it were whole.

use image::Image;
use sim::rng::Rng;
use sim::{Server, image_of, message};
use wire::Name;
use wire::rtype;

const SIGNED: &str = "\
$TTL 3600
@ SOA ns1 hostmaster 7 7200 3600 1209600 300
@ RRSIG SOA 13 1 3600 20300101000000 20200101000000 1 example. AAAA
@ NS ns1
@ NS ns2.sub
@ NSEC a SOA NS RRSIG NSEC
@ RRSIG NSEC 13 1 300 20300101000000 20200101000000 1 example. AAAA
a MX 10 a
a MX 10 ns1
a NSEC *.w MX RRSIG NSEC
ns1 A 192.0.2.1
ns1 RRSIG A 13 2 3600 20300101000000 20200101000000 1 example. AAAA
*.w CNAME a
*.w NSEC @ CNAME RRSIG NSEC
sub NS ns2.sub
ns2.sub A 192.0.2.2
d DNAME a.w
x.d TXT hidden
";

const HASHED: &str = "\
$TTL 60
@ SOA ns h 1 2 3 4 5
@ NS ns
@ NSEC3PARAM 1 0 1 ABCD
ns A 192.0.2.1
0p9mhaveqvm6t7vbl5lop2u3t2rp3tom NSEC3 1 1 1 ABCD 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR NS SOA
2t7b4g4vsa5smi47k61mv5bv1a22bojr NSEC3 1 1 1 ABCD 0P9MHAVEQVM6T7VBL5LOP2U3T2RP3TOM A
";

const ZONES: [(&str, &str); 2] = [("example.", SIGNED), ("hashed.test.", HASHED)];

#[test]
fn every_record_comes_out_as_it_went_in() {
    for (origin, text) in ZONES {
        let apex = Name::from_text(origin.as_bytes(), None).unwrap();
        let mut expect = vec![];
        let mut sink = |r: zonefile::Record<'_>, _: &zonefile::Place| {
            let mut line = String::new();
            zonefile::record_to_text(&r.owner.to_ascii_lowercase(), r.ttl, 1, r.rtype, r.rdata, &mut line);
            expect.push(line);
            Ok(())
        };
        zonefile::parse(
            "zone",
            text.as_bytes(),
            &apex,
            &mut zonefile::NoFiles,
            &zonefile::Options::default(),
            &mut sink,
        );
        let image = Image::open(image_of(&[(origin, text)]).0).unwrap();
        let (mut got, mut owners) = (vec![], vec![]);
        for zone in image.view().zones() {
            let zone = zone.unwrap();
            zone.for_each_record(&mut |owner, rtype, ttl, rdata| {
                let mut line = String::new();
                zonefile::record_to_text(owner, ttl, 1, rtype, rdata, &mut line);
                got.push(line);
                owners.push(Name::from_wire(owner).unwrap());
            })
            .unwrap();
        }
        assert!(owners.is_sorted(), "canonical order");
        got.sort();
        expect.sort();
        assert_eq!(got, expect);
    }
}

/// Queries that reach every kind of node, unit and table.
fn queries() -> Vec<Vec<u8>> {
    let names = [
        "example.",
        "a.example.",
        "b.example.",
        "ns1.example.",
        "q.w.example.",
        "w.example.",
        "z.sub.example.",
        "x.d.example.",
        "hashed.test.",
        "no.hashed.test.",
        "ns.hashed.test.",
        ".",
    ];
    let types = [rtype::A, rtype::MX, rtype::NS, rtype::SOA, rtype::DS, rtype::ANY, rtype::RRSIG];
    let name = |n: &&str| Name::from_text(n.as_bytes(), None).unwrap();
    names.iter().map(name).flat_map(|n| types.map(|t| message::packet(n.bytes(), t, Some((1232, true))))).collect()
}

fn ask_all(octets: Vec<u8>) {
    let Ok(image) = Image::open(octets) else { return };
    let octets = image.bytes().clone();
    for zone in image.view().zones().flatten() {
        let _ = zone.for_each_record(&mut |_, _, _, _| {});
    }
    let mut server = Server::with(octets, front::Setup::default());
    for query in queries() {
        // Whatever a damaged image says, it is said in a message of ours: the header and the question are whole.
        let answer = server.datagram(&query).unwrap();
        assert_eq!(answer[..2], query[..2]);
    }
}

#[test]
fn no_octet_of_an_image_can_be_flipped_into_a_panic() {
    let (octets, _) = image_of(&ZONES);
    let mut rng = Rng::new(1);
    for at in (0..octets.len()).filter(|&at| !(512..4096).contains(&at)) {
        let mut damaged = octets.clone();
        damaged[at] ^= 1 << rng.below(8);
        ask_all(damaged);
    }
}

#[test]
fn random_damage_beyond_the_header_is_survived() {
    let (octets, _) = image_of(&ZONES);
    let mut rng = Rng::new(2);
    for _ in 0..2_000 {
        let mut damaged = octets.clone();
        for _ in 0..1 + rng.below(20) {
            let at = 4096 + rng.below(damaged.len() - 4096);
            damaged[at] = rng.number() as u8;
        }
        ask_all(damaged);
    }
}

#[test]
fn an_image_cut_short_or_of_another_format_does_not_open() {
    let (octets, _) = image_of(&ZONES);
    for len in (0..octets.len()).step_by(61) {
        assert!(Image::open(octets[..len].to_vec()).is_err(), "{len}");
    }
    let mut future = octets.clone();
    future[8] = 99;
    assert!(matches!(Image::open(future), Err(image::OpenError::Version(99))));
    let mut other = octets;
    other[20] ^= 1;
    assert!(matches!(Image::open(other), Err(image::OpenError::Checksum)));
}

#[test]
fn a_zone_that_cannot_be_served_is_left_out_and_the_others_are_not() {
    let good = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
    let table = [
        ("$TTL 60\n@ NS ns\n", "no SOA"),
        ("$TTL 60\n@ SOA ns h 1 2 3 4 5\n", "no NS"),
        ("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ SOA ns h 2 2 3 4 5\n@ NS ns\n", "more than one SOA"),
        (
            "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nc CNAME ns\nc A 192.0.2.1\n",
            "c.bad.: other data stands beside a CNAME",
        ),
        ("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nc CNAME ns\nc CNAME nt\n", "c.bad.: more than one CNAME"),
        ("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nd DNAME ns\nd DNAME nt\n", "d.bad.: more than one DNAME"),
        ("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ NSEC3PARAM 1 0 65535 -\n", "2,500 iterations"),
    ];
    for (text, why) in table {
        let (octets, complaints) = image_of(&[("bad.", text), ("good.", good)]);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].what.contains(why), "{}", complaints[0].what);
        let mut server = Server::with(octets, front::Setup::default());
        assert!(server.ask("ns.good. A").contains("192.0.2.1"));
        assert_eq!(server.ask("bad. SOA"), "REFUSED qr\n");
    }
}
