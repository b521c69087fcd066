//! Images: what goes in comes out, and a damaged one is never served as if it were whole.

use image::{Damaged, Image, View};
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

/// Asks everything there is to ask; no answer may be another than `good`, unless it says that it could not be had.
fn ask_all(server: &mut Server, good: Option<&[Vec<u8>]>) {
    for (i, query) in queries().iter().enumerate() {
        // Whatever a damaged image says, it is said in a message of ours: the header and the question are whole.
        let answer = server.datagram(query).unwrap();
        assert_eq!(answer[..2], query[..2]);
        if let Some(good) = good {
            assert!(answer == good[i] || answer[3] & 15 == 2, "{}", message::to_text(&answer));
        }
    }
}

fn good_answers(octets: &[u8]) -> Vec<Vec<u8>> {
    let mut server = Server::with(octets.to_vec(), front::Setup::default());
    queries().iter().map(|query| server.datagram(query).unwrap()).collect()
}

/// Asks a damaged image before its pages are compared, and after.
fn survive(octets: Vec<u8>, good: &[Vec<u8>]) -> Option<Vec<usize>> {
    let image = Image::open(&octets).ok()?;
    for zone in image.view().zones().flatten() {
        let _ = zone.for_each_record(&mut |_, _, _, _| {});
    }
    let mut server = Server::with(octets, front::Setup::default());
    ask_all(&mut server, None);
    let (zones, _) = server.published.current();
    assert_eq!(zones.image.compare(0, usize::MAX), None);
    ask_all(&mut server, Some(good));
    Some(zones.image.damaged_pages().collect())
}

#[test]
fn no_octet_of_an_image_can_be_flipped_into_a_panic_or_a_wrong_answer() {
    let (octets, _) = image_of(&ZONES);
    let good = good_answers(&octets);
    assert!(good.iter().all(|answer| answer[3] & 15 != 2));
    assert_eq!(survive(octets.clone(), &good), Some(vec![]));
    let sums_at = Image::open(&octets).unwrap().header().sums_at as usize;
    let mut rng = Rng::new(1);
    for at in (0..octets.len()).filter(|&at| !(512..4096).contains(&at)) {
        let mut damaged = octets.clone();
        damaged[at] ^= 1 << rng.below(8);
        let page = if at < sums_at { at / image::PAGE } else { (at - sums_at) / 8 };
        // The header is compared when the image is opened.
        assert_eq!(survive(damaged, &good), (at >= 4096).then(|| vec![page]), "octet {at}");
    }
}

#[test]
fn random_damage_beyond_the_header_is_survived() {
    let (octets, _) = image_of(&ZONES);
    let good = good_answers(&octets);
    let mut rng = Rng::new(2);
    for _ in 0..1_000 {
        let mut damaged = octets.clone();
        for _ in 0..1 + rng.below(20) {
            let at = 4096 + rng.below(damaged.len() - 4096);
            damaged[at] = rng.number() as u8;
        }
        survive(damaged, &good);
    }
}

#[test]
fn a_damaged_number_of_iterations_is_not_hashed() {
    let signature = "@ RRSIG SOA 13 2 60 20300101000000 20200101000000 1 hashed.test. AAAA\n";
    let (mut octets, _) = image_of(&[("hashed.test.", &format!("{HASHED}{signature}"))]);
    let one_with_salt = [1, 0, 2, 0, 0xAB, 0xCD];
    let at = octets.windows(6).position(|six| six == one_with_salt).unwrap();
    for (iterations, rcode) in [(2_500u16, "NXDOMAIN"), (2_501, "SERVFAIL"), (u16::MAX, "SERVFAIL")] {
        octets[at..at + 2].copy_from_slice(&iterations.to_le_bytes());
        let answer = Server::with(octets.clone(), front::Setup::default()).ask("no.hashed.test. A +do");
        assert!(answer.starts_with(rcode), "{iterations}: {answer}");
    }
}

#[test]
fn what_stands_on_intact_pages_is_still_answered() {
    let many: String = (0..2_000).map(|i| format!("n{i} A 192.0.2.1\n")).collect();
    let (octets, _) = image_of(&[("big.", &format!("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{many}"))]);
    let mut whole = Server::with(octets.clone(), front::Setup::default());
    let pages = octets.len() / image::PAGE;
    let (mut failed, mut asked) = (0, 0);
    for page in 1..pages {
        let mut damaged = octets.clone();
        damaged[page * image::PAGE + 77] ^= 4;
        let mut server = Server::with(damaged, front::Setup::default());
        server.published.current().0.image.compare(0, usize::MAX);
        for i in (0..2_000).step_by(13) {
            let words = format!("n{i}.big. A");
            let answer = server.ask(&words);
            asked += 1;
            match answer.starts_with("SERVFAIL") {
                true => failed += 1,
                false => assert_eq!(answer, whole.ask(&words)),
            }
        }
    }
    // A page holds its share of the names; that of the apex holds all of them.
    assert!(failed > 0 && failed < asked / 5, "{failed} of {asked}");
}

/// Owner, type, TTL, rdata.
type Row = (Vec<u8>, u16, u32, Vec<u8>);

/// All of a zone.
fn records(view: View<'_>, n: u32) -> Result<Vec<Row>, Damaged> {
    let mut found = vec![];
    let mut list = |o: &[u8], t: u16, ttl: u32, r: &[u8]| found.push((o.to_vec(), t, ttl, r.to_vec()));
    view.zone(n)?.for_each_record(&mut list)?;
    Ok(found)
}

#[test]
fn a_zone_is_not_copied_out_of_a_damaged_image_in_part() {
    let (octets, _) = image_of(&ZONES);
    for page in 1..octets.len() / image::PAGE {
        let mut damaged = octets.clone();
        damaged[page * image::PAGE] ^= 1;
        let (image, whole) = (Image::open_to_serve(damaged, |_| 0).unwrap(), Image::open(&octets).unwrap());
        let doubted: Vec<_> = (0..ZONES.len() as u32).map(|n| records(image.doubted().view(), n)).collect();
        assert!(image.is_whole(), "nobody has compared what is served");
        image.compare(0, usize::MAX);
        for (n, as_read) in (0..).zip(doubted) {
            let copied = records(image.view(), n);
            assert!(copied.is_err() || copied == records(whole.view(), n), "page {page}");
            assert_eq!(as_read, copied, "page {page}");
        }
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
