//! What the server answers, in text: one small zone and its traps.

use sim::Server;

const ZONE: &str = "\
$TTL 3600
@ SOA ns1 hostmaster 7 7200 3600 1209600 300
@ NS ns1
@ NS ns.other.test.
@ MX 10 mail
ns1 A 192.0.2.1
ns1 AAAA 2001:db8::1
mail A 192.0.2.2
www CNAME web
web A 192.0.2.3
web A 192.0.2.4
*.wild TXT \"any\"
*.wild MX 5 mail
a.ent A 192.0.2.5
loop1 CNAME loop2
loop2 CNAME loop1
out CNAME www.other.test.
gone CNAME nothing
into CNAME deep.sub
sub NS ns.sub
sub NS ns.elsewhere
ns.sub A 192.0.2.6
elsewhere NS ns.elsewhere
ns.elsewhere A 192.0.2.7
dn DNAME target
host.target A 192.0.2.8
below.dn A 192.0.2.9
_s._tcp SRV 1 2 53 ns1
";

fn check(words: &str, expect: &[&str]) {
    let mut server = Server::new(&[("example.", ZONE)]);
    let got = server.ask(words);
    assert_eq!(got.trim_end(), expect.join("\n"), "{words}");
}

const SOA: &str = "authority: example. 300 IN SOA ns1.example. hostmaster.example. 7 7200 3600 1209600 300";

#[test]
fn a_name_with_data_answers_with_it() {
    check(
        "web.example. A",
        &["NOERROR qr aa", "answer: web.example. 3600 IN A 192.0.2.3", "answer: web.example. 3600 IN A 192.0.2.4"],
    );
}

#[test]
fn hosts_named_in_answers_come_with_their_addresses() {
    check(
        "example. MX",
        &[
            "NOERROR qr aa",
            "answer: example. 3600 IN MX 10 mail.example.",
            "additional: mail.example. 3600 IN A 192.0.2.2",
        ],
    );
    check(
        "_s._tcp.example. SRV",
        &[
            "NOERROR qr aa",
            "answer: _s._tcp.example. 3600 IN SRV 1 2 53 ns1.example.",
            "additional: ns1.example. 3600 IN A 192.0.2.1",
            "additional: ns1.example. 3600 IN AAAA 2001:db8::1",
        ],
    );
}

#[test]
fn a_missing_type_and_a_missing_name_are_told_apart() {
    check("web.example. AAAA", &["NOERROR qr aa", SOA]);
    check("nothing.example. A", &["NXDOMAIN qr aa", SOA]);
    check("x.web.example. A", &["NXDOMAIN qr aa", SOA]);
}

#[test]
fn an_empty_non_terminal_exists() {
    check("ent.example. A", &["NOERROR qr aa", SOA]);
    check("_tcp.example. SRV", &["NOERROR qr aa", SOA]);
    check("b.ent.example. A", &["NXDOMAIN qr aa", SOA]);
}

#[test]
fn a_wildcard_stands_for_what_is_not_there() {
    check("x.y.wild.example. TXT", &["NOERROR qr aa", "answer: x.y.wild.example. 3600 IN TXT \"any\""]);
    check("x.wild.example. A", &["NOERROR qr aa", SOA]);
    check(
        "x.wild.example. MX",
        &[
            "NOERROR qr aa",
            "answer: x.wild.example. 3600 IN MX 5 mail.example.",
            "additional: mail.example. 3600 IN A 192.0.2.2",
        ],
    );
    check("wild.example. TXT", &["NOERROR qr aa", SOA]);
    check("*.wild.example. TXT", &["NOERROR qr aa", "answer: *.wild.example. 3600 IN TXT \"any\""]);
}

#[test]
fn aliases_are_followed_within_the_zone() {
    check(
        "www.example. A",
        &[
            "NOERROR qr aa",
            "answer: www.example. 3600 IN CNAME web.example.",
            "answer: web.example. 3600 IN A 192.0.2.3",
            "answer: web.example. 3600 IN A 192.0.2.4",
        ],
    );
    check("www.example. CNAME", &["NOERROR qr aa", "answer: www.example. 3600 IN CNAME web.example."]);
    check("www.example. MX", &["NOERROR qr aa", "answer: www.example. 3600 IN CNAME web.example.", SOA]);
    check("out.example. A", &["NOERROR qr aa", "answer: out.example. 3600 IN CNAME www.other.test."]);
    check("gone.example. A", &["NXDOMAIN qr aa", "answer: gone.example. 3600 IN CNAME nothing.example.", SOA]);
    check(
        "loop1.example. A",
        &[
            "NOERROR qr aa",
            "answer: loop1.example. 3600 IN CNAME loop2.example.",
            "answer: loop2.example. 3600 IN CNAME loop1.example.",
        ],
    );
}

#[test]
fn a_cut_refers_with_the_glue_it_needs() {
    check(
        "x.sub.example. A",
        &[
            "NOERROR qr",
            "authority: sub.example. 3600 IN NS ns.sub.example.",
            "authority: sub.example. 3600 IN NS ns.elsewhere.example.",
            "additional: ns.sub.example. 3600 IN A 192.0.2.6",
            "additional: ns.elsewhere.example. 3600 IN A 192.0.2.7",
        ],
    );
    check("sub.example. DS", &["NOERROR qr aa", SOA]);
    check(
        "into.example. A",
        &[
            "NOERROR qr aa",
            "answer: into.example. 3600 IN CNAME deep.sub.example.",
            "authority: sub.example. 3600 IN NS ns.sub.example.",
            "authority: sub.example. 3600 IN NS ns.elsewhere.example.",
            "additional: ns.sub.example. 3600 IN A 192.0.2.6",
            "additional: ns.elsewhere.example. 3600 IN A 192.0.2.7",
        ],
    );
}

#[test]
fn a_dname_redirects_what_lies_below_it() {
    check(
        "host.dn.example. A",
        &[
            "NOERROR qr aa",
            "answer: dn.example. 3600 IN DNAME target.example.",
            "answer: host.dn.example. 3600 IN CNAME host.target.example.",
            "answer: host.target.example. 3600 IN A 192.0.2.8",
        ],
    );
    // Occluded: the record below the DNAME is never answered with.
    check(
        "below.dn.example. A",
        &[
            "NXDOMAIN qr aa",
            "answer: dn.example. 3600 IN DNAME target.example.",
            "answer: below.dn.example. 3600 IN CNAME below.target.example.",
            SOA,
        ],
    );
    check("dn.example. DNAME", &["NOERROR qr aa", "answer: dn.example. 3600 IN DNAME target.example."]);
}

#[test]
fn what_is_not_ours_is_refused() {
    check("www.other.test. A", &["REFUSED qr"]);
}

#[test]
fn the_case_of_the_question_comes_back() {
    let mut server = Server::new(&[("example.", ZONE)]);
    let answer = server.datagram(&sim::message::packet(b"\x03wEB\x07eXAMPLe\0", 1, None)).unwrap();
    assert_eq!(&answer[12..25], b"\x03wEB\x07eXAMPLe\0");
}

#[test]
fn a_zone_of_ours_below_another_answers_for_itself() {
    let child = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.99\nx A 192.0.2.98\n";
    let mut server = Server::new(&[("example.", ZONE), ("deep.sub.example.", child), ("far.test.", child)]);
    assert_eq!(server.ask("x.deep.sub.example. A"), "NOERROR qr aa\nanswer: x.deep.sub.example. 60 IN A 192.0.2.98\n");
    assert!(server.ask("y.sub.example. A").starts_with("NOERROR qr\nauthority: sub.example."));
    assert_eq!(server.ask("x.far.test. A"), "NOERROR qr aa\nanswer: x.far.test. 60 IN A 192.0.2.98\n");
    assert_eq!(server.ask("test. A"), "REFUSED qr\n");
    assert_eq!(server.ask(". A"), "REFUSED qr\n");
}

#[test]
fn ds_at_an_apex_is_the_parents_to_answer() {
    let child = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.99\n";
    let mut server = Server::new(&[("example.", ZONE), ("sub.example.", child)]);
    assert!(server.ask("sub.example. DS").contains("example. 300 IN SOA ns1.example."));
    assert!(server.ask("sub.example. SOA").contains("sub.example. 60 IN SOA"));
}

#[test]
fn names_below_a_zone_of_ours_that_is_not_delegated_make_those_above_it_be_there() {
    let parent = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n* A 192.0.2.2\ny.x.a.b A 192.0.2.3\n";
    let child = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.4\n";
    let mut server = Server::new(&[("example.", parent), ("a.b.example.", child)]);
    let empty = "NOERROR qr aa\nauthority: example. 5 IN SOA";
    for words in ["b.example. A", "a.b.example. DS"] {
        assert!(server.ask(words).starts_with(empty), "{words}");
    }
    assert!(server.ask("c.b.example. A").starts_with("NXDOMAIN qr aa\nauthority: example. 5 IN SOA"));
    assert!(server.ask("c.example. A").contains("IN A 192.0.2.2"));
    for words in ["a.b.example. A", "ns.a.b.example. TXT"] {
        assert!(server.ask(words).starts_with("NOERROR qr aa\nauthority: a.b.example. 5 IN SOA"), "{words}");
    }
    for words in ["x.a.b.example. A", "y.x.a.b.example. A"] {
        assert!(server.ask(words).starts_with("NXDOMAIN qr aa\nauthority: a.b.example. 5 IN SOA"), "{words}");
    }
}

#[test]
fn a_zone_denies_with_all_its_names_whoever_answers_for_them() {
    let parent = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ RRSIG SOA 13 1 60 20300101000000 20200101000000 1 example. AAAA\n\
        @ NS ns\n@ NSEC x.b SOA NSEC\nx.b A 192.0.2.1\nx.b NSEC cut A NSEC\ncut NS ns.b\ncut NSEC ns NS NSEC\n\
        glue.cut A 192.0.2.2\nglue.cut NSEC ns A NSEC\nns A 192.0.2.3\nns NSEC @ A NSEC\n";
    let child = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.4\n";
    let mut server = Server::new(&[("example.", parent), ("b.example.", child)]);
    // The chain goes through a name that another zone answers for, and not through one below a delegation.
    assert!(server.ask("c.example. A +do").contains("authority: x.b.example. 60 IN NSEC cut.example."));
    assert!(server.ask("d.example. A +do").contains("authority: cut.example. 60 IN NSEC ns.example."));
}

#[test]
fn ds_at_an_apex_that_is_not_delegated_is_denied_by_the_zone_above() {
    let child = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.99\n";
    let apexes =
        ["new.example.", "x.wild.example.", "x.dn.example.", "below.dn.example.", "deep.sub.example.", "far.test."];
    let zones = [("example.", ZONE)].into_iter().chain(apexes.map(|apex| (apex, child)));
    let mut server = Server::new(&zones.collect::<Vec<_>>());
    for (apex, expect) in apexes.into_iter().zip([
        "NXDOMAIN qr aa\nauthority: example. 300 IN SOA",
        // A wildcard stands for it.
        "NOERROR qr aa\nauthority: example. 300 IN SOA",
        // A DNAME makes no cut: it leads on, whatever lies below it.
        "NXDOMAIN qr aa\nanswer: dn.example. 3600 IN DNAME target.example.\nanswer: x.dn.example. 3600 IN CNAME x.target.example.",
        "NXDOMAIN qr aa\nanswer: dn.example. 3600 IN DNAME target.example.\nanswer: below.dn.example. 3600 IN CNAME below.target.example.",
        // The zone above is another server's; there is none.
        "NOERROR qr aa\nauthority: deep.sub.example. 5 IN SOA",
        "NOERROR qr aa\nauthority: far.test. 5 IN SOA",
    ]) {
        let text = server.ask(&format!("{apex} DS"));
        assert!(text.starts_with(expect), "{apex}: {text}");
        assert!(server.ask(&format!("{apex} SOA")).contains(&format!("answer: {apex} 60 IN SOA")));
    }
}

#[test]
fn ds_of_a_delegation_that_a_dname_hides_is_not_had() {
    let parent =
        "$TTL 60\n@ SOA ns.other.test. h 1 2 3 4 5\n@ NS ns.other.test.\n@ DNAME other.test.\na NS ns.other.test.\n";
    let child = "$TTL 60\n@ SOA ns.other.test. h 1 2 3 4 5\n@ NS ns.other.test.\n";
    let mut server = Server::new(&[("p.", parent), ("a.p.", child)]);
    let expect = "NOERROR qr aa\nanswer: p. 60 IN DNAME other.test.\nanswer: a.p. 60 IN CNAME a.other.test.\n";
    assert_eq!(server.ask("a.p. DS"), expect);
    assert!(server.ask("a.p. SOA").contains("answer: a.p. 60 IN SOA"));
}

#[test]
fn what_does_not_fit_is_truncated_to_the_question() {
    let mut zone = String::from(ZONE);
    for i in 0..100 {
        zone += &format!("many TXT \"some text to fill the message {i}\"\n");
    }
    let mut server = Server::new(&[("example.", &zone)]);
    assert_eq!(server.ask("many.example. TXT"), "NOERROR qr aa tc\n");
    assert_eq!(server.ask("many.example. TXT +tcp").matches("answer: ").count(), 100);
}

#[test]
fn an_answer_beyond_the_reach_of_pointers_is_whole() {
    let mut zone = String::from(ZONE);
    for i in 0..400 {
        zone += &format!("alias{i} CNAME big\nbig MX {i} a-rather-long-host-name-to-fill-the-message-{i}.example.\n");
    }
    let mut server = Server::new(&[("example.", &zone)]);
    let answer = server.ask("alias7.example. MX +tcp");
    assert_eq!(answer.matches("answer: big.example. 3600 IN MX").count(), 400, "{answer}");
    assert!(answer.contains("MX 399 a-rather-long-host-name-to-fill-the-message-399.example."));
}

#[test]
fn records_take_turns_if_the_operator_wants_it() {
    let octets = sim::image_of(&[("example.", ZONE)]).0;
    let mut server = Server::with(octets, front::Setup { rotate: true, ..Default::default() });
    let mut first = |id: u16| {
        let mut query = sim::message::query("web.example. A");
        query[..2].copy_from_slice(&id.to_be_bytes());
        let text = sim::message::to_text(&server.datagram(&query).unwrap());
        assert_eq!(text.matches("answer: web.example. 3600 IN A 192.0.2.").count(), 2, "{text}");
        text.lines().nth(1).unwrap().to_string()
    };
    assert_ne!(first(0), first(1));
    assert_eq!(first(0), first(2));
}

#[test]
fn sets_whose_names_are_pointed_to_take_turns_too() {
    let hosts = "mx1 A 192.0.2.31\nmx2 A 192.0.2.32\nmx3 AAAA 2001:db8::3\n";
    let zone = format!("{ZONE}mail MX 1 mx1\nmail MX 1 mx2\nmail MX 1 mx3\n{hosts}");
    let octets = sim::image_of(&[("example.", &zone)]).0;
    let mut plain = Server::with(octets.clone(), front::Setup::default());
    let mut server = Server::with(octets, front::Setup { rotate: true, ..Default::default() });
    let asked = |server: &mut Server, id: u16, words: &str| {
        let mut query = sim::message::query(words);
        query[..2].copy_from_slice(&id.to_be_bytes());
        let text = sim::message::to_text(&server.datagram(&query).unwrap());
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        let first = lines[1].clone();
        lines.sort();
        (first, lines)
    };
    for words in ["mail.example. MX", "mail.example. MX +do", "example. NS"] {
        let (_, expect) = asked(&mut plain, 0, words);
        let turns: Vec<_> = (0..3).map(|id| asked(&mut server, id, words)).collect();
        assert!(turns.iter().all(|(_, lines)| *lines == expect), "{words}: {turns:?}, {expect:?}");
        assert_ne!(turns[0].0, turns[1].0, "{words}");
    }
}

fn rest_of_16_kib(server: &mut Server, words: &str) -> String {
    let text = server.ask(words);
    assert!(
        !text.starts_with("malformed") && !text.starts_with("SERVFAIL"),
        "{words}: {}",
        &text[..200.min(text.len())]
    );
    text
}

#[test]
fn additional_records_beyond_the_reach_of_pointers_have_their_owners_written_out() {
    let mut zone = String::from(ZONE);
    for i in 0..400 {
        zone += &format!(
            "big MX {i} a-rather-long-host-name-to-fill-the-message-{i}\na-rather-long-host-name-to-fill-the-message-{i} A 192.0.2.1\n"
        );
    }
    let mut server = Server::new(&[("example.", &zone)]);
    let text = rest_of_16_kib(&mut server, "big.example. MX +tcp");
    assert_eq!(text.matches("answer: ").count(), 400);
    assert!(text.contains("additional: a-rather-long-host-name-to-fill-the-message-0.example. 3600 IN A 192.0.2.1"));
}

#[test]
fn a_chain_of_aliases_ends_where_pointers_no_longer_reach() {
    let signature = "A".repeat(2_000);
    let mut zone =
        format!("{ZONE}@ RRSIG SOA 13 1 3600 20300101000000 20200101000000 1 example. AAAA\n@ NSEC @ SOA NSEC\n");
    for i in 0..14 {
        zone += &format!(
            "c{i} CNAME c{}\nc{i} RRSIG CNAME 13 1 3600 20300101000000 20200101000000 1 example. {signature}\n",
            i + 1
        );
    }
    zone += "c14 MX 1 mail\n";
    let mut server = Server::new(&[("example.", &zone)]);
    let text = rest_of_16_kib(&mut server, "c0.example. MX +do +tcp");
    assert!(text.matches("IN CNAME").count() > 8, "{}", text.lines().count());
}

#[test]
fn a_denial_beyond_the_reach_of_pointers_is_whole() {
    let mut zone = format!(
        "{ZONE}@ RRSIG SOA 13 1 3600 20300101000000 20200101000000 1 example. AAAA\n@ NSEC *.big SOA NSEC\n*.big NSEC @ TXT\n"
    );
    for i in 0..100 {
        zone += &format!("*.big TXT \"{i:0>240}\"\n");
    }
    let mut server = Server::new(&[("example.", &zone)]);
    let text = rest_of_16_kib(&mut server, "a.big.example. TXT +do +tcp");
    assert_eq!((text.matches("answer: ").count(), text.matches("IN NSEC").count()), (100, 1));
}

#[test]
fn a_dname_that_leads_below_itself_stands_in_the_answer_once() {
    let mut server = Server::new(&[("example.", &format!("{ZONE}deep DNAME a.deep\n"))]);
    let text = server.ask("x.deep.example. A");
    assert_eq!(text.matches("IN DNAME").count(), 1, "{text}");
}

#[test]
fn hosts_keep_their_addresses_when_records_take_turns() {
    let zone = format!("{ZONE}ns2 A 192.0.2.22\n_s._udp SRV 1 2 53 ns1\n_s._udp SRV 1 2 53 ns2\n");
    let octets = sim::image_of(&[("example.", &zone)]).0;
    let mut server = Server::with(octets, front::Setup { rotate: true, ..Default::default() });
    for id in 0..4u16 {
        let mut query = sim::message::query("_s._udp.example. SRV");
        query[..2].copy_from_slice(&id.to_be_bytes());
        let text = sim::message::to_text(&server.datagram(&query).unwrap());
        assert!(text.contains("ns2.example. 3600 IN A 192.0.2.22"), "{text}");
    }
}

#[test]
fn an_empty_non_terminal_wildcard_is_proven() {
    let zone = format!(
        "{ZONE}@ RRSIG SOA 13 1 3600 20300101000000 20200101000000 1 example. AAAA\n@ NSEC x.*.w SOA NSEC\nx.*.w TXT a\nx.*.w NSEC @ TXT\n"
    );
    let mut server = Server::new(&[("example.", &zone)]);
    let text = server.ask("foo.w.example. TXT +do");
    assert!(text.contains("authority: example. 3600 IN NSEC x.*.w.example."), "{text}");
}

#[test]
fn in_domain_glue_is_in_the_referral_whatever_else_there_is() {
    let mut zone = format!("{ZONE}wide NS big.elsewhere2\nwide NS ns.wide\nns.wide A 192.0.2.66\n");
    for i in 0..600 {
        zone += &format!("big.elsewhere2 A 10.0.{}.{}\n", i / 250, i % 250);
    }
    let mut server = Server::new(&[("example.", &zone)]);
    assert!(server.ask("x.wide.example. A").contains("additional: ns.wide.example. 3600 IN A 192.0.2.66"));
}

#[test]
fn a_host_that_a_wildcard_makes_has_its_addresses() {
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS anything\n@ NS other\n* A 192.0.2.1\nno.made MX 1 x.sub\nsub NS ns.sub\nns.sub A 192.0.2.2\n";
    let mut server = Server::new(&[("example.", zone)]);
    assert_eq!(server.ask("example. NS").matches("IN A 192.0.2.1").count(), 2);
    assert_eq!(server.ask("no.made.example. MX").matches("additional").count(), 0);
}

#[test]
fn glue_at_the_name_of_a_zone_of_ours_does_not_make_a_parent() {
    let parent = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nsub NS deep.sub\ndeep.sub A 192.0.2.2\n";
    let child = "$TTL 60\n@ SOA ns h 7 2 3 4 5\n@ NS ns\nns A 192.0.2.3\n";
    let mut server = Server::new(&[("example.", parent), ("deep.sub.example.", child)]);
    assert!(server.ask("deep.sub.example. DS").contains("authority: deep.sub.example. 5 IN SOA"));
}

#[test]
fn signatures_are_given_by_a_zone_that_cannot_deny() {
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ RRSIG SOA 13 1 60 20300101000000 20200101000000 1 example. AAAA\n@ NS ns\nns A 192.0.2.1\nns RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AAAA\n";
    let mut server = Server::new(&[("example.", zone)]);
    assert_eq!(server.ask("ns.example. A +do").matches("RRSIG").count(), 1);
    assert_eq!(server.ask("no.example. A +do").matches("RRSIG").count(), 1);
}
