//! Who gets an answer: rate limit, cookies, access lists, loops, and packets that are no questions.

use front::{Peer, Published, Setup, Verdict, Worker, Zones};
use image::Image;
use policy::{Acl, Lists, Prefix, RateSettings};
use sim::{CLIENT, Server, image_of, message};
use stats::Counter;
use std::sync::Arc;

const ZONE: &str = "$TTL 60\n@ SOA ns h 9 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
const ZONES: [(&str, &str); 2] = [("example.", ZONE), ("secret.", ZONE)];

fn server(setup: Setup) -> Server {
    Server::with(image_of(&ZONES).0, setup)
}

#[test]
fn a_client_above_its_rate_is_limited_and_one_with_a_cookie_is_not() {
    let rate = RateSettings { per_second: 10, slip: 2, ..Default::default() };
    let mut s = server(Setup { rate: Some(rate), cookie_secret: Some([3; 16]), ..Default::default() });
    let query = message::query("ns.example. A");
    let answers: Vec<Option<Vec<u8>>> = (0..200).map(|_| s.datagram(&query)).collect();
    let full = answers.iter().flatten().filter(|a| a[2] & 2 == 0).count();
    let slipped = answers.iter().flatten().filter(|a| a[2] & 2 != 0 && a[7] == 0).count();
    assert_eq!((full, slipped), (25, 87));
    assert_eq!(s.counters.value(Counter::DropRate), 88);
    // The slipped answer carries no cookie of the client's, but asking with one gets one, and with that one is free.
    s.now.mono_ns += 10_000_000_000;
    let fresh = s.datagram(&message::with_option("ns.example. A", 10, b"clientck")).unwrap();
    let cookie = message::option(&fresh, 10).unwrap();
    let proven = message::with_option("ns.example. A", 10, &cookie);
    assert!((0..200).all(|_| s.datagram(&proven).is_some_and(|a| a[2] & 2 == 0)));
    assert_eq!(s.counters.value(Counter::CookieValid), 200);
    // Whoever comes over TCP has proven where it is.
    assert!((0..200).all(|_| s.message(&query).is_some()));
}

/// A slipped answer would say that it was carried out.
#[test]
fn an_update_above_its_rate_is_not_answered_and_over_tcp_there_is_no_rate() {
    let rate = RateSettings { per_second: 10, slip: 2, ..Default::default() };
    let mut s = server(Setup { rate: Some(rate), ..Default::default() });
    let update = sim::update::message("example.", "add www 60 A 192.0.2.1");
    let mut unknown = [&update[..], b"\0\0\x29\x04\xd0\0\x01\0\0\0\0"].concat();
    unknown[11] = 1;
    let rcodes: Vec<u8> = (0..200).filter_map(|_| s.datagram(&update)).map(|answer| answer[3] & 15).collect();
    assert_eq!(rcodes, [5; 25]);
    assert_eq!(s.counters.value(Counter::DropRate), 175);
    assert!((0..200).all(|_| s.datagram(&unknown).is_none()));
    assert!((0..200).all(|_| s.message(&update).is_some_and(|answer| answer[3] & 15 == 5)));
}

#[test]
fn a_dry_run_counts_and_withholds_nothing() {
    let rate = RateSettings { per_second: 10, dry_run: true, ..Default::default() };
    let mut s = server(Setup { rate: Some(rate), ..Default::default() });
    let query = message::query("ns.example. A");
    assert!((0..200).all(|_| s.datagram(&query).is_some()));
    assert_eq!(s.counters.value(Counter::WouldLimit), 175);
}

#[test]
fn exempt_addresses_have_no_limit() {
    let exempt = vec!["192.0.2.0/24".parse::<Prefix>().unwrap()];
    let rate = RateSettings { per_second: 1, exempt, ..Default::default() };
    let mut s = server(Setup { rate: Some(rate), ..Default::default() });
    let query = message::query("ns.example. A");
    assert!((0..200).all(|_| s.datagram(&query).is_some()));
}

#[test]
fn a_zone_is_answered_to_whom_its_list_admits() {
    let image = Image::open(image_of(&ZONES).0).unwrap();
    let list = Acl::new(vec!["198.51.100.0/24".parse().unwrap()]);
    let published = Arc::new(Published::new(Zones {
        allow_query: Arc::new(Lists::new(None, vec![(1, Some(list))])),
        ..Zones::of(image)
    }));
    let mut worker = Worker::new(published, Setup::default(), Arc::default());
    let mut ask = |words: &str, ip: &str| {
        let mut buffer = [0; front::DATAGRAM_MAX];
        let query = message::query(words);
        buffer[..query.len()].copy_from_slice(&query);
        let peer = Peer { ip: ip.parse().unwrap(), port: 4000 };
        match worker.on_datagram(front::Now::default(), peer, &mut buffer, query.len()) {
            Verdict::Reply(len) => message::to_text(&buffer[..len]).lines().next().unwrap().to_string(),
            Verdict::Drop | Verdict::Later => "silence".into(),
        }
    };
    assert_eq!(ask("ns.secret. A", "198.51.100.7"), "NOERROR qr aa");
    assert_eq!(ask("ns.secret. A", "203.0.113.7"), "REFUSED qr");
    assert_eq!(ask("ns.example. A", "203.0.113.7"), "NOERROR qr aa");
    assert_eq!(ask("ns.elsewhere. A", "203.0.113.7"), "REFUSED qr");
}

#[test]
fn nothing_is_sent_where_it_would_feed_a_loop() {
    let own = vec![(CLIENT.ip, CLIENT.port)];
    let query = message::query("ns.example. A");
    assert_eq!(server(Setup { own, ..Default::default() }).datagram(&query), None);
    let mut response = query;
    response[2] |= 0x80;
    let mut s = server(Setup::default());
    assert_eq!(s.datagram(&response), None);
    assert_eq!(s.datagram(&response[..11]), None);
    assert_eq!((s.counters.value(Counter::DropResponse), s.counters.value(Counter::DropShort)), (1, 1));
}

#[test]
fn identity_and_version_are_told_if_the_operator_wants_it() {
    let ask = |setup: Setup, name: &[u8]| {
        let mut query = message::packet(name, 16, None);
        let class = query.len() - 1;
        query[class] = 3;
        server(setup).datagram(&query).map(|a| message::to_text(&a)).unwrap()
    };
    let told = Setup { version: Some("Dunlin".into()), identity: Some("ns1".into()), ..Default::default() };
    assert_eq!(ask(told.clone(), b"\x07version\x04bind\0"), "NOERROR qr\nanswer: version.bind. 0 CH TXT \"Dunlin\"\n");
    assert_eq!(ask(told, b"\x02ID\x06server\0"), "NOERROR qr\nanswer: ID.server. 0 CH TXT \"ns1\"\n");
    assert_eq!(ask(Setup::default(), b"\x07version\x04bind\0"), "REFUSED qr\n");
}

#[test]
fn options_are_answered_when_asked_for() {
    let mut s = server(Setup { nsid: Some(b"site-7".to_vec()), keepalive_tenths: 120, ..Default::default() });
    let answer = s.datagram(&message::with_option("ns.example. A", 3, b"")).unwrap();
    assert_eq!(message::option(&answer, 3), Some(b"site-7".to_vec()));
    // RFC 9660: one label, SOA serial, 9.
    let answer = s.datagram(&message::with_option("ns.example. A", 19, b"")).unwrap();
    assert_eq!(message::option(&answer, 19), Some(vec![1, 0, 0, 0, 0, 9]));
    // RFC 7828 section 3.2: over TCP only.
    let keepalive = message::with_option("ns.example. A", 11, b"");
    assert_eq!(message::option(&s.datagram(&keepalive).unwrap(), 11), None);
    assert_eq!(message::option(&s.message(&keepalive).unwrap(), 11), Some(vec![0, 120]));
    let refused = s.datagram(&message::query("x.elsewhere. A")).unwrap();
    assert_eq!(message::option(&refused, 15), Some(vec![0, 20]));
    // Unknown options are ignored.
    assert_eq!(s.datagram(&message::with_option("ns.example. A", 65_001, b"what")).unwrap()[3] & 15, 0);
}

#[test]
fn a_signature_by_a_key_unknown_here_is_told_so() {
    let mut query = message::query("ns.example. A +noedns");
    query[11] = 1;
    query.extend(b"\x03key\0\0\xfa\0\xff\0\0\0\0");
    let rdata = b"\x0bhmac-sha256\0\0\0\x65\x00\x00\x01\x01\x2c\0\x04ABCD\x12\x34\0\0\0\0";
    query.extend((rdata.len() as u16).to_be_bytes());
    query.extend(rdata);
    let answer = server(Setup::default()).datagram(&query).unwrap();
    assert_eq!(answer[3] & 15, 9);
    let sections = message::sections(&answer).unwrap();
    let tsig = &sections[2][0];
    assert_eq!((tsig.rtype, tsig.class, &tsig.owner[..]), (250, 255, &b"\x03key\0"[..]));
    assert_eq!(tsig.rdata, b"\x0bhmac-sha256\0\0\0\x65\x00\x00\x01\x01\x2c\0\0\x12\x34\0\x11\0\0");
    let cut = query.len() - 9;
    query.truncate(cut);
    let len_at = cut - (rdata.len() - 9) - 2;
    query[len_at..len_at + 2].copy_from_slice(&((rdata.len() - 9) as u16).to_be_bytes());
    assert_eq!(server(Setup::default()).datagram(&query).unwrap()[3] & 15, 1);
}

#[test]
fn a_signature_shows_nobody_what_the_buffer_held_before() {
    let mut query = message::query("ns.example. A +noedns");
    query[11] = 1;
    query.extend(b"\xc1\x38\0\xfa\0\xff\0\0\0\0");
    let rdata = b"\x0bhmac-sha256\0\0\0\x65\x00\x00\x01\x01\x2c\0\0\x12\x34\0\0\0\0";
    query.extend((rdata.len() as u16).to_be_bytes());
    query.extend(rdata);
    let mut buffer = [0; front::DATAGRAM_MAX];
    buffer[0x138..0x140].copy_from_slice(b"\x06secret\0");
    buffer[..query.len()].copy_from_slice(&query);
    let mut s = server(Setup::default());
    let Verdict::Reply(len) = s.worker.on_datagram(s.now, CLIENT, &mut buffer, query.len()) else {
        panic!("an answer")
    };
    assert_eq!(buffer[3] & 15, 1);
    assert!(!buffer[..len].windows(6).any(|w| w == b"secret"));
}

#[test]
fn an_update_is_handed_on_as_it_came_or_refused() {
    let mut update = message::query("example. SOA");
    update[2] |= 5 << 3;
    let mut s = server(Setup::default());
    assert_eq!(s.datagram(&update).unwrap()[3] & 15, 5);
    let mut s = server(Setup { takes_updates: true, ..Setup::default() });
    let mut buffer = [0; front::DATAGRAM_MAX];
    buffer[..update.len()].copy_from_slice(&update);
    assert_eq!(s.worker.on_datagram(s.now, CLIENT, &mut buffer, update.len()), Verdict::Later);
    let question = s.worker.next_postponed().unwrap();
    assert_eq!((*question.message == *update, question.peer, question.ticket), (true, CLIENT, sim::ticket(CLIENT)));
    assert_eq!(s.worker.next_postponed(), None);
    // A zone section that is not one SOA is wrong whoever would carry it out; who does says so under the key of the update.
    let mut wrong = message::query("example. A");
    wrong[2] |= 5 << 3;
    assert_eq!(s.datagram(&wrong), None);
    assert_eq!(s.worker.next_postponed().unwrap().message, wrong);
    assert_eq!(server(Setup::default()).datagram(&wrong).unwrap()[3] & 15, 1);
    // Nor do none, or what is no question.
    wrong[5] = 0;
    for wrong in [&wrong[..], &wrong[..12]] {
        assert_eq!(s.datagram(wrong), None);
        assert_eq!(s.worker.next_postponed().unwrap().message, wrong);
        assert_eq!(server(Setup::default()).datagram(wrong).unwrap()[3] & 15, 1);
    }
}

#[test]
fn a_transfer_is_handed_on_as_it_came_or_refused() {
    let transfer = |words: &str| message::query(words);
    let mut signed = transfer("example. AXFR +noedns");
    signed[11] = 1;
    signed.extend(b"\x03key\0\0\xfa\0\xff\0\0\0\0");
    let rdata = b"\x0bhmac-sha256\0\0\0\x65\x00\x00\x01\x01\x2c\0\x04ABCD\x12\x34\0\0\0\0";
    signed.extend((rdata.len() as u16).to_be_bytes());
    signed.extend(rdata);
    for (query, datagram, stream) in [
        (transfer("example. AXFR"), Some(4), None),
        (transfer("example. IXFR"), None, None),
        (signed, Some(9), None),
        (transfer("example. MAILB"), Some(4), Some(4)),
    ] {
        let mut giving = server(Setup { gives_transfers: true, ..Setup::default() });
        assert_eq!(giving.datagram(&query).map(|a| a[3] & 15), datagram);
        assert_eq!(giving.worker.next_postponed().is_some(), datagram.is_none());
        assert_eq!(giving.message(&query).map(|a| a[3] & 15), stream);
        let postponed = giving.worker.next_postponed();
        assert_eq!(postponed.is_some(), stream.is_none());
        if let Some(postponed) = postponed {
            assert_eq!((postponed.message, postponed.purpose), (query.clone(), front::Purpose::Transfer));
        }
        assert!(server(Setup::default()).message(&query).is_some_and(|a| a[3] & 15 != 0), "nobody gives zones away");
    }
}

/// Also of a key that nobody knows: to be told that costs no more than to be told to come over TCP.
#[test]
fn who_signs_above_the_rate_is_limited_without_a_cookie_alone() {
    let rate = RateSettings { per_second: 10, slip: 0, ..Default::default() };
    let mut s = server(Setup { rate: Some(rate), cookie_secret: Some([3; 16]), ..Default::default() });
    let fresh = s.datagram(&message::with_option("ns.example. A", 10, b"clientck")).unwrap();
    let cookies = [b"clientck".to_vec(), message::option(&fresh, 10).unwrap()];
    let rdata = b"\x0bhmac-sha256\0\0\0\x65\x00\x00\x01\x01\x2c\0\x04ABCD\x12\x34\0\0\0\0";
    let answered = cookies.map(|cookie| {
        s.now.mono_ns += 10_000_000_000;
        let mut query = message::with_option("ns.example. A", 10, &cookie);
        query[11] = 2;
        query.extend(b"\x03key\0\0\xfa\0\xff\0\0\0\0");
        query.extend((rdata.len() as u16).to_be_bytes());
        query.extend(rdata);
        (0..100).filter(|_| s.datagram(&query).is_some_and(|answer| answer[3] & 15 == 9)).count()
    });
    assert_eq!(answered, [25, 100]);
}

#[test]
fn malformed_signatures_and_cookies_alone_are_limited_too() {
    let rate = RateSettings { per_second: 10, slip: 0, ..Default::default() };
    let mut s = server(Setup { rate: Some(rate), cookie_secret: Some([3; 16]), ..Default::default() });
    let mut malformed = message::query("ns.example. A +noedns");
    malformed[11] = 1;
    malformed.extend(b"\0\0\xfa\0\xff\0\0\0\0\0\0");
    assert_eq!((0..100).filter(|_| s.datagram(&malformed).is_some()).count(), 25);
    s.now.mono_ns += 10_000_000_000;
    let mut alone = message::with_option(". A", 10, b"clientck");
    alone[5] = 0;
    alone.drain(12..17);
    let answers: Vec<_> = (0..100).filter_map(|_| s.datagram(&alone)).collect();
    assert_eq!(answers.len(), 25);
    assert_eq!(
        (answers[0][3] & 15, answers[0][5], message::option(&answers[0], 10).map(|c| c.len())),
        (0, 0, Some(24))
    );
}

#[test]
fn an_unknown_opcode_is_answered_with_edns_if_asked_with_it() {
    let mut query = message::query("ns.example. A");
    query[2] |= 2 << 3;
    let answer = server(Setup::default()).datagram(&query).unwrap();
    assert_eq!((answer[3] & 15, answer[11]), (4, 1));
}
