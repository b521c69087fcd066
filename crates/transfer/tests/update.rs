//! Every prerequisite and every section case of RFC 2136, in lines that say what is asked and what comes of it.

use proptest::prelude::*;
use sim::update::message;
use std::collections::BTreeSet;
use transfer::message::Message;
use transfer::update::{Change, amend, judge};
use transfer::{Contents, Diff, Record};
use wire::{Ede, Name, Rcode, Rtype, rtype};

const ZONE: &str = "
@ 300 SOA ns hostmaster 7 1 2 3 4
@ 300 NS ns
ns 300 A 192.0.2.53
www 60 A 192.0.2.1
www 60 A 192.0.2.2
www 60 TXT one
alias 60 CNAME www
deep.below 60 A 192.0.2.9
tree 60 DNAME forest
mx 60 MX 10 Mail
*.wild 60 TXT star
";

fn origin() -> Name {
    Name::from_text(b"z.", None).unwrap()
}

fn contents(text: &str) -> Contents {
    let mut all = Vec::new();
    let mut sink = |r: zonefile::Record<'_>, _: &zonefile::Place| {
        all.extend(Record::new(r.owner, r.rtype, r.ttl, r.rdata));
        Ok(())
    };
    let options = zonefile::Options::default();
    let report = zonefile::parse("z", text.as_bytes(), &origin(), &mut zonefile::NoFiles, &options, &mut sink);
    assert_eq!(report.errors, 0, "{:?}", report.problems.first().map(|p| p.to_string()));
    Contents::of(all)
}

/// What comes of it: the rcode, or a line for each record but the SOA, "-" before what went and "+" before what came.
fn outcome(zone: &Contents, octets: &[u8], may: &dyn Fn(&[u8], Rtype) -> bool) -> String {
    let judged = judge(&Message::new(octets).unwrap(), origin().bytes(), zone, may);
    let diff = match judged {
        Ok(diff) => diff,
        Err(refused) => return rcode(refused.rcode).to_owned(),
    };
    let mut after = zone.clone();
    after.apply(&diff).expect("a difference of this version");
    let lines = |sign: &'static str, records: &[Record]| -> Vec<String> {
        records.iter().filter(|r| r.rtype != rtype::SOA).map(|r| format!("{sign}{}", text(r))).collect()
    };
    let all = [lines("-", diff.removed()), lines("+", diff.added())].concat();
    let is_bumped = diff.from != diff.to;
    assert_eq!(is_bumped, !diff.is_empty());
    if diff.is_empty() { "nothing".into() } else { all.join(", ") }
}

fn text(r: &Record) -> String {
    let mut out = String::new();
    zonefile::record_to_text(r.owner(), r.ttl, 1, r.rtype, r.rdata(), &mut out);
    out.replace(" IN ", " ")
}

fn rcode(rcode: Rcode) -> &'static str {
    match rcode {
        Rcode::FORMERR => "FORMERR",
        Rcode::SERVFAIL => "SERVFAIL",
        Rcode::NXDOMAIN => "NXDOMAIN",
        Rcode::REFUSED => "REFUSED",
        Rcode::YXDOMAIN => "YXDOMAIN",
        Rcode::YXRRSET => "YXRRSET",
        Rcode::NXRRSET => "NXRRSET",
        Rcode::NOTZONE => "NOTZONE",
        _ => "another",
    }
}

fn check(cases: &[(&str, &str)]) {
    let zone = contents(ZONE);
    for (lines, expect) in cases {
        assert_eq!(outcome(&zone, &message("z.", lines), &|_, _| true), *expect, "{lines}");
    }
}

#[test]
fn prerequisites_are_those_of_section_3_2() {
    check(&[
        ("yes www", "nothing"),
        ("yes WWW", "nothing"),
        ("yes gone", "NXDOMAIN"),
        ("yes below", "NXDOMAIN"),
        ("yes x.wild", "NXDOMAIN"),
        ("no gone", "nothing"),
        ("no below", "nothing"),
        ("no www", "YXDOMAIN"),
        ("yes www A", "nothing"),
        ("yes www AAAA", "NXRRSET"),
        ("yes gone A", "NXRRSET"),
        ("yes alias A", "NXRRSET"),
        ("no www AAAA", "nothing"),
        ("no www A", "YXRRSET"),
        ("no gone A", "nothing"),
        ("yes www A 192.0.2.1\nyes www A 192.0.2.2", "nothing"),
        ("yes www A 192.0.2.2\nyes www TXT one\nyes www A 192.0.2.1", "nothing"),
        ("yes www A 192.0.2.1", "NXRRSET"),
        ("yes www A 192.0.2.1\nyes www A 192.0.2.2\nyes www A 192.0.2.3", "NXRRSET"),
        ("yes gone A 192.0.2.1", "NXRRSET"),
        ("yes mx MX 10 mAIL", "nothing"),
        ("yes www TXT One", "NXRRSET"),
        ("yes other. A", "NOTZONE"),
        ("no other.", "NOTZONE"),
        ("yes other. A 192.0.2.1", "NOTZONE"),
        ("raw 0 www 255 1 A", "FORMERR"),
        ("raw 0 www 254 1 A", "FORMERR"),
        ("raw 0 www 1 1 A c0000201", "FORMERR"),
        ("raw 0 www 255 0 A c0000201", "FORMERR"),
        ("raw 0 www 254 0 A c0000201", "FORMERR"),
        // No type is malformed here: it is asked for, and nowhere (section 3.2.5; that is for updates, section 3.4.1).
        ("raw 0 www 1 0 ANY", "NXRRSET"),
        ("raw 0 www 255 0 AXFR", "NXRRSET"),
        ("raw 0 www 254 0 AXFR", "nothing"),
        ("raw 0 www 1 0 MAILB", "NXRRSET"),
        ("raw 0 www 3 0 A c0000201", "FORMERR"),
        ("raw 0 www 1 0 A c00002", "FORMERR"),
        // The first that fails is told, and sets are compared behind all others (section 3.2.5).
        ("yes gone\nno www", "NXDOMAIN"),
        ("yes www A 192.0.2.1\nno www", "YXDOMAIN"),
    ]);
}

#[test]
fn the_prescan_is_that_of_section_3_4_1() {
    check(&[
        ("add other. 60 A 192.0.2.1", "NOTZONE"),
        ("del other.", "NOTZONE"),
        ("raw 1 www 1 60 ANY", "FORMERR"),
        ("raw 1 www 1 60 AXFR", "FORMERR"),
        ("raw 1 www 1 60 OPT", "FORMERR"),
        ("raw 1 www 1 60 A", "FORMERR"),
        ("raw 1 www 1 60 A c00002", "FORMERR"),
        ("raw 1 www 255 1 A", "FORMERR"),
        ("raw 1 www 255 0 A c0000201", "FORMERR"),
        ("raw 1 www 255 0 MAILB", "FORMERR"),
        ("raw 1 www 254 1 A c0000201", "FORMERR"),
        ("raw 1 www 254 0 ANY", "FORMERR"),
        ("raw 1 www 254 0 AXFR", "FORMERR"),
        ("raw 1 www 3 0 A c0000201", "FORMERR"),
        // Nothing is done if anything is wrong.
        ("add new 60 A 192.0.2.1\nadd other. 60 A 192.0.2.1", "NOTZONE"),
    ]);
}

#[test]
fn adding_is_that_of_section_3_4_2_2() {
    check(&[
        ("", "nothing"),
        ("add new 60 A 192.0.2.1", "+new.z. 60 A 192.0.2.1"),
        ("add NEW 60 MX 5 Mail", "+new.z. 60 MX 5 Mail.z."),
        ("add www 60 A 192.0.2.1", "nothing"),
        ("add mx 60 MX 10 MAIL", "nothing"),
        ("add www 60 A 192.0.2.3", "+www.z. 60 A 192.0.2.3"),
        // An RRset has one TTL, the last one given.
        (
            "add www 5 A 192.0.2.3",
            "-www.z. 60 A 192.0.2.1, -www.z. 60 A 192.0.2.2, +www.z. 5 A 192.0.2.1, +www.z. 5 A 192.0.2.2, \
             +www.z. 5 A 192.0.2.3",
        ),
        ("add mx 5 MX 10 MAIL", "-mx.z. 60 MX 10 Mail.z., +mx.z. 5 MX 10 Mail.z."),
        ("add alias 60 CNAME other", "-alias.z. 60 CNAME www.z., +alias.z. 60 CNAME other.z."),
        ("add alias 60 A 192.0.2.1", "nothing"),
        ("add www 60 CNAME other", "nothing"),
        ("add new 60 CNAME other", "+new.z. 60 CNAME other.z."),
        ("add new 60 CNAME other\nadd new 60 A 192.0.2.1", "+new.z. 60 CNAME other.z."),
        ("del alias\nadd alias 60 A 192.0.2.1", "-alias.z. 60 CNAME www.z., +alias.z. 60 A 192.0.2.1"),
        ("add tree 60 DNAME wood", "-tree.z. 60 DNAME forest.z., +tree.z. 60 DNAME wood.z."),
        ("add new 60 SOA ns hostmaster 8 1 2 3 4", "nothing"),
        ("add @ 300 SOA ns hostmaster 7 1 2 3 4", "nothing"),
        ("add @ 300 SOA ns hostmaster 6 9 9 9 9", "nothing"),
        ("add @ 300 SOA ns hostmaster 2147483655 1 2 3 4", "nothing"),
        ("add @ 300 NS ns2", "+z. 300 NS ns2.z."),
        // A TTL with the first bit set counts as none (RFC 2181 section 8), where it is one.
        ("raw 1 new 1 4294967295 A c0000201", "+new.z. 0 A 192.0.2.1"),
        ("raw 0 www 1 2147483648 A c0000201", "FORMERR"),
    ]);
}

#[test]
fn deleting_is_that_of_sections_3_4_2_3_and_3_4_2_4() {
    check(&[
        ("del www A", "-www.z. 60 A 192.0.2.1, -www.z. 60 A 192.0.2.2"),
        ("del www AAAA", "nothing"),
        ("del gone A", "nothing"),
        ("del gone", "nothing"),
        ("del www", "-www.z. 60 A 192.0.2.1, -www.z. 60 A 192.0.2.2, -www.z. 60 TXT \"one\""),
        ("del www A 192.0.2.1", "-www.z. 60 A 192.0.2.1"),
        ("del mx MX 10 MAIL", "-mx.z. 60 MX 10 Mail.z."),
        ("del www A 192.0.2.9", "nothing"),
        ("raw 1 www 254 0 A", "nothing"),
        ("del @ SOA", "nothing"),
        ("del @ NS", "nothing"),
        ("del @", "nothing"),
        ("del @ SOA ns hostmaster 7 1 2 3 4", "nothing"),
        ("del @ NS ns", "nothing"),
        ("add @ 300 NS b\ndel @ NS ns", "-z. 300 NS ns.z., +z. 300 NS b.z."),
        ("add @ 60 TXT x\ndel @", "nothing"),
        ("del www A 192.0.2.1\nadd www 60 A 192.0.2.1", "nothing"),
        ("del mx\nadd mx 60 MX 10 MAIL", "nothing"),
        ("del www A\nadd www 60 A 192.0.2.1", "-www.z. 60 A 192.0.2.2"),
    ]);
}

/// It is made right before it is served.
#[test]
fn an_operator_may_bring_a_digest() {
    let digest = Record::new(origin().bytes(), rtype::ZONEMD, 60, &[[0, 0, 0, 8, 1, 1].as_slice(), &[0; 48]].concat());
    let diff = amend(&[Change::Add(digest.unwrap())], origin().bytes(), &contents(ZONE)).unwrap();
    assert!(diff.added().iter().any(|r| r.rtype == rtype::ZONEMD));
}

/// What would be durable and never served.
#[test]
fn what_no_zone_can_hold_is_refused() {
    let digest = "00".repeat(32);
    check(&[
        (&format!("add @ 60 DS 7 13 2 {digest}"), "REFUSED"),
        (&format!("add @ 60 DS 7 13 2 {digest}\ndel @ DS"), "nothing"),
        (&format!("del @ DS 7 13 2 {digest}"), "nothing"),
        (
            &format!("add sub 60 NS a\nadd sub 60 DS 7 13 2 {digest}"),
            &format!("+sub.z. 60 NS a.z., +sub.z. 60 DS 7 13 2 {digest}"),
        ),
        (&format!("add @ 60 ZONEMD 8 1 1 {}", "00".repeat(48)), "REFUSED"),
    ]);
    // A name that a file has made larger than an update may make it shrinks, and grows no more.
    let text =
        |n: usize| (0..n).map(|i| format!("many 60 TYPE{} \\# 2 {:04x}\n", 3000 + i / 4000, i)).collect::<String>();
    let zone = contents(&format!("{ZONE}{}", text(10_001)));
    for (lines, expect) in [
        ("add many 60 A 192.0.2.1", "REFUSED"),
        ("del many TYPE3002\nadd many 60 A 192.0.2.1", "changed"),
        ("del many TYPE3000 \\# 2 0000", "changed"),
        ("del many TYPE3000 \\# 2 0000\nadd many 60 A 192.0.2.1", "changed"),
        ("del many TYPE3000 \\# 2 0000\nadd many 60 A 192.0.2.1\nadd many 60 A 192.0.2.2", "REFUSED"),
    ] {
        let outcome = outcome(&zone, &message("z.", lines), &|_, _| true);
        assert!(outcome == expect || expect == "changed" && outcome.contains("many.z. 60"), "{lines}: {outcome}");
    }
    // Nor longer than a MiB.
    let text = |n: usize| {
        (0..n)
            .map(|i| format!("long 60 TYPE{} \\# 1000 {:04x}{}\n", 3000 + i / 60, i, "00".repeat(998)))
            .collect::<String>()
    };
    let zone = contents(&format!("{ZONE}{}", text(1048)));
    let tenth = format!("add long 60 TYPE2000 \\# 600 {}", "00".repeat(600));
    for (lines, expect) in [
        ("add long 60 TXT x".to_string(), "changed"),
        (tenth.clone(), "REFUSED"),
        (format!("del long TYPE3000\n{tenth}"), "changed"),
    ] {
        let outcome = outcome(&zone, &message("z.", &lines), &|_, _| true);
        assert!(outcome == expect || expect == "changed" && outcome.contains("long.z. 60"), "{lines}: {outcome}");
    }
    // 65,023 octets of an RRset, 16 for each of these.
    let full: String = (0..4063).map(|i| format!("full 60 A 10.0.{}.{}\n", i >> 8, i & 255)).collect();
    let types: String = (0..200).map(|i| format!("types 60 TYPE{} \\# 1 00\n", 2000 + i)).collect();
    let zone = contents(&format!("{ZONE}{full}{types}"));
    for (lines, expect) in [
        ("add full 60 A 192.0.2.1", "REFUSED"),
        ("del full A 10.0.0.0\nadd full 60 A 192.0.2.1", "-full.z. 60 A 10.0.0.0, +full.z. 60 A 192.0.2.1"),
        ("add types 60 A 192.0.2.1", "REFUSED"),
        ("add www 60 A 192.0.2.1\nadd types 60 A 192.0.2.1", "REFUSED"),
        ("del types TYPE2000\nadd types 60 A 192.0.2.1", "-types.z. 60 TYPE2000 \\# 1 00, +types.z. 60 A 192.0.2.1"),
    ] {
        assert_eq!(outcome(&zone, &message("z.", lines), &|_, _| true), expect, "{lines}");
    }
}

/// A message of 64 KiB can name thousands of names, each with thousands of records.
#[test]
fn what_holds_too_much_together_is_sent_in_parts() {
    let hosts = |name: usize, n: usize| (0..n).map(move |i| format!("n{name} 60 A 10.{name}.{}.{}\n", i >> 8, i & 255));
    let many: String = (1..=60).flat_map(|name| hosts(name, 5000)).chain(hosts(0, 60_000)).collect();
    let zone = contents(&format!("{ZONE}{many}"));
    let judged = |lines: &str| {
        let octets = message("z.", lines);
        let judged = judge(&Message::new(&octets).unwrap(), origin().bytes(), &zone, &|_, _| true);
        judged.map(|diff| diff.removed().len()).map_err(|refused| refused.why.unwrap_or_default())
    };
    let some = |names: std::ops::RangeInclusive<usize>, line: &str| -> String {
        names.map(|i| line.replace('N', &format!("n{i}"))).collect()
    };
    // With the SOA.
    assert_eq!(judged(&some(1..=45, "del N\n")), Ok(45 * 5000 + 1));
    assert_eq!(judged("del n0\n"), Ok(60_001));
    let refused = Err("its names hold too much together: it is to be sent in several messages");
    assert_eq!(judged(&some(1..=60, "del N\n")), refused);
    assert_eq!(judged(&(some(1..=60, "yes N A\n") + "add other 60 A 192.0.2.1\n")), refused);
}

fn serials(lines: &str, soa: &str) -> (u32, u32) {
    let zone = contents(&ZONE.replace("hostmaster 7 ", &format!("hostmaster {soa} ")));
    let octets = message("z.", lines);
    let diff: Diff = judge(&Message::new(&octets).unwrap(), origin().bytes(), &zone, &|_, _| true).unwrap();
    (diff.from, diff.to)
}

#[test]
fn the_serial_goes_up_when_something_changed() {
    assert_eq!(serials("add new 60 A 192.0.2.1", "7"), (7, 8));
    assert_eq!(serials("add new 60 A 192.0.2.1", "4294967295"), (u32::MAX, 1));
    assert_eq!(serials("add www 60 A 192.0.2.1", "7"), (7, 7));
    assert_eq!(serials("add @ 300 SOA ns hostmaster 100 1 2 3 4", "7"), (7, 100));
    assert_eq!(serials("add @ 300 SOA ns hostmaster 100 1 2 3 4\nadd new 60 A 192.0.2.1", "7"), (7, 100));
    assert_eq!(serials("add @ 300 SOA ns hostmaster 3 1 2 3 4\nadd new 60 A 192.0.2.1", "7"), (7, 8));
    assert_eq!(serials("add @ 300 SOA ns hostmaster 3 1 2 3 4", "4294967290"), (4_294_967_290, 3));
}

#[test]
fn serials_that_lead_around_in_one_message_go_up_by_one() {
    let zone = contents(ZONE);
    for last in [5, 7] {
        let soas =
            [2_147_483_654u32, 4_294_967_295, last].map(|n| format!("add @ 300 SOA ns2 hostmaster {n} 1 2 3 4\n"));
        let octets = message("z.", &soas.concat());
        let diff = judge(&Message::new(&octets).unwrap(), origin().bytes(), &zone, &|_, _| true).unwrap();
        let mut after = zone.clone();
        after.apply(&diff).unwrap();
        let soa: Vec<String> = after.rrset(origin().bytes(), rtype::SOA).map(text).collect();
        assert_eq!(
            (diff.from, diff.to, &soa[..]),
            (7, 8, &["z. 300 SOA ns2.z. hostmaster.z. 8 1 2 3 4".to_string()][..])
        );
    }
}

#[test]
fn what_the_sender_may_not_change_is_refused_whole() {
    let zone = contents(ZONE);
    let may = |owner: &[u8], rtype: Rtype| owner == b"\x03www\x01z\0" && rtype == rtype::A;
    for (lines, expect) in [
        ("add www 60 A 192.0.2.3", "+www.z. 60 A 192.0.2.3"),
        ("add www 60 A 192.0.2.3\nadd www 60 TXT x", "REFUSED"),
        ("add new 60 A 192.0.2.3", "REFUSED"),
        ("del www A", "-www.z. 60 A 192.0.2.1, -www.z. 60 A 192.0.2.2"),
        // Deleting the name would take the TXT with it.
        ("del www", "REFUSED"),
        ("yes gone\nadd new 60 A 192.0.2.3", "NXDOMAIN"),
    ] {
        assert_eq!(outcome(&zone, &message("z.", lines), &may), expect, "{lines}");
    }
    // Of an apex SOA and NS stay (section 3.4.2.3), and need no rule.
    let with_text = contents(&format!("{ZONE}@ 60 TXT x\n"));
    let text_only = |_: &[u8], rtype: Rtype| rtype == rtype::TXT;
    assert_eq!(outcome(&with_text, &message("z.", "del @"), &text_only), "-z. 60 TXT \"x\"");
    assert_eq!(outcome(&with_text, &message("z.", "del @ NS"), &text_only), "REFUSED");
}

/// RFC 2136 section 3.2 comes first; and of two things that are wrong that which is so whoever asks.
#[test]
fn what_we_do_not_do_is_said_after_what_is_wrong() {
    let digest = format!("add @ 60 ZONEMD 8 1 1 {}", "00".repeat(48));
    let signed = contents(&format!("{ZONE}@ 300 DNSKEY 257 3 13 AAAA\n"));
    for (zone, lines, expect) in [
        (&contents(ZONE), format!("yes gone\n{digest}"), "NXDOMAIN"),
        (&contents(ZONE), format!("{digest}\nadd other. 60 A 192.0.2.1"), "NOTZONE"),
        (&contents(ZONE), digest, "REFUSED"),
        (&signed, "yes gone\nadd new 60 A 192.0.2.1".to_string(), "NXDOMAIN"),
        (&signed, "add other. 60 A 192.0.2.1".to_string(), "NOTZONE"),
        (&signed, "raw 1 www 255 1 A".to_string(), "FORMERR"),
        (&signed, "del www A".to_string(), "REFUSED"),
        // Who only asks.
        (&signed, "no gone".to_string(), "nothing"),
        (&signed, "yes gone".to_string(), "NXDOMAIN"),
    ] {
        assert_eq!(outcome(zone, &message("z.", &lines), &|_, _| true), expect, "{lines}");
    }
}

/// RFC 4035 section 2.4. What a file has so, and no update touches, stays.
#[test]
fn a_ds_goes_with_its_delegation_and_comes_with_none() {
    const DS: &str = "60 DS 1 13 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let zone = contents(&format!("{ZONE}kid 60 NS ns\nkid 60 NS nt\nkid {DS}\nodd {DS}\nodd 60 TXT one\n"));
    let ds = |sign: &str, name: &str| format!("{sign}{name}.z. {DS}");
    let gone = format!("-kid.z. 60 NS ns.z., -kid.z. 60 NS nt.z., {}", ds("-", "kid"));
    for (lines, expect) in [
        ("del kid NS ns".to_string(), "-kid.z. 60 NS ns.z.".to_string()),
        ("del kid NS".to_string(), gone.clone()),
        ("del kid NS ns\ndel kid NS nt".to_string(), gone),
        ("del kid NS\nadd kid 60 NS nt".to_string(), "-kid.z. 60 NS ns.z.".to_string()),
        (format!("add new {DS}"), "nothing".to_string()),
        (format!("add new {DS}\nadd new 60 NS ns"), format!("+new.z. 60 NS ns.z., {}", ds("+", "new"))),
        ("del odd TXT".to_string(), "-odd.z. 60 TXT \"one\"".to_string()),
        (format!("add odd {DS}"), "nothing".to_string()),
        (format!("add odd {}", DS.replace("DS 1", "DS 2")), "nothing".to_string()),
        (format!("add odd {}", DS.replace("60 DS 1", "90 DS 2")), "nothing".to_string()),
        (format!("del odd {}", DS.replacen("60 ", "", 1)), ds("-", "odd")),
        (format!("del odd {}", DS.replacen("60 ", "", 1).replace("DS 1", "DS 2")), "nothing".to_string()),
    ] {
        let found = outcome(&zone, &message("z.", &lines), &|_, _| true);
        assert!(found.eq_ignore_ascii_case(&expect), "{lines}: {found}, not {expect}");
    }
}

/// RFC 6672 section 2.3 has them apart, and a file that has both is served.
#[test]
fn a_dname_and_a_delegation_at_one_name_are_changed_where_both_are_there_and_else_the_first_stays() {
    let zone = contents(&format!("{ZONE}both 60 NS ns\nboth 60 DNAME forest\n"));
    for (lines, expect) in [
        ("add both 60 DNAME wood", "-both.z. 60 DNAME forest.z., +both.z. 60 DNAME wood.z."),
        ("add both 61 NS ns", "-both.z. 60 NS ns.z., +both.z. 61 NS ns.z."),
        ("add both 60 NS nt", "+both.z. 60 NS nt.z."),
        ("del both NS", "-both.z. 60 NS ns.z."),
        ("del both DNAME\nadd both 60 DNAME wood", "-both.z. 60 DNAME forest.z."),
        ("add tree 60 NS ns", "nothing"),
        ("add www 60 NS ns\nadd www 60 DNAME wood", "+www.z. 60 NS ns.z."),
        ("add @ 60 DNAME wood", "+z. 60 DNAME wood.z."),
    ] {
        assert_eq!(outcome(&zone, &message("z.", lines), &|_, _| true), expect, "{lines}");
    }
}

/// It would be taken for that of the version, and none be made anew.
#[test]
fn no_version_has_the_serial_of_a_digest_that_is_there() {
    let text = |serials: &[u32]| -> String {
        serials.iter().map(|n| format!("@ 60 ZONEMD {n} 1 1 {}\n", "00".repeat(48))).collect()
    };
    for (digests, lines, to) in [
        (&[7][..], "add new 60 A 192.0.2.1", 8),
        (&[8], "add new 60 A 192.0.2.1", 9),
        (&[9, 8], "add new 60 A 192.0.2.1", 10),
        (&[9], "add @ 300 SOA ns hostmaster 9 1 2 3 4", 10),
        (&[8], "add @ 300 SOA ns hostmaster 9 1 2 3 4", 9),
    ] {
        let zone = contents(&format!("{ZONE}{}", text(digests)));
        let octets = message("z.", lines);
        let diff = judge(&Message::new(&octets).unwrap(), origin().bytes(), &zone, &|_, _| true).unwrap();
        let mut after = zone.clone();
        after.apply(&diff).unwrap();
        let soa = after.rrset(origin().bytes(), rtype::SOA).next().unwrap().clone();
        assert_eq!((diff.from, diff.to), (7, to), "{lines}");
        assert_eq!(transfer::record::serial_of(soa.rdata()), Some(to));
    }
}

#[test]
fn a_zone_that_was_signed_elsewhere_stays_as_it_is() {
    let octets = message("z.", "add new 60 A 192.0.2.1");
    let judge = |zone: &Contents, octets: &[u8]| {
        let judged = judge(&Message::new(octets).unwrap(), origin().bytes(), zone, &|_, _| true);
        judged.map_err(|refused| (refused.rcode, refused.ede)).map(|diff| diff.is_empty())
    };
    let refused = Err((Rcode::REFUSED, Some(Ede::NOT_SUPPORTED)));
    let signed = contents(&format!("{ZONE}@ 300 DNSKEY 257 3 13 AAAA\n"));
    assert_eq!(judge(&signed, &octets), refused);
    let plain = contents(ZONE);
    assert_eq!(judge(&plain, &octets), Ok(false));
    assert_eq!(judge(&plain, &message("z.", "add @ 300 DNSKEY 257 3 13 AAAA")), refused);
    assert_eq!(judge(&plain, &message("z.", "add www 300 NSEC @ A")), refused);
}

#[test]
fn a_message_cut_off_anywhere_changes_nothing() {
    let zone = contents(ZONE);
    let octets = message("z.", "yes www A 192.0.2.1\nyes www A 192.0.2.2\nadd new 60 MX 10 mail\ndel www");
    assert_ne!(outcome(&zone, &octets, &|_, _| true), "FORMERR");
    for len in 17..octets.len() {
        assert_eq!(outcome(&zone, &octets[..len], &|_, _| true), "FORMERR", "{len}");
    }
}

/// RFC 2136 section 3.4.2 as it is written: a list of records, gone through for each item.
mod twin {
    use transfer::Record;
    use wire::rtype::*;

    #[derive(Debug)]
    pub enum Item {
        Add(Record),
        Delete(Record),
        DeleteSet(Record),
        DeleteName(Record),
    }

    pub fn carry_out(item: &Item, apex: &[u8], zone: &mut Vec<Record>) {
        match item {
            Item::Add(r) => add(r, apex, zone),
            // The rest of the section: SOA and the apex's last NS stay.
            Item::Delete(r) if r.rtype == SOA => {}
            Item::Delete(r) => {
                let mut name_servers = zone.iter().filter(|old| old.owner() == apex && old.rtype == NS);
                if r.owner() != apex || r.rtype != NS || !name_servers.all(|old| r.is_like(old)) {
                    zone.retain(|old| !r.is_like(old));
                }
            }
            Item::DeleteSet(at) | Item::DeleteName(at) => zone.retain(|old| {
                let is_meant = matches!(item, Item::DeleteName(_)) || old.rtype == at.rtype;
                old.owner() != at.owner() || !is_meant || at.owner() == apex && matches!(old.rtype, SOA | NS)
            }),
        }
    }

    fn add(new: &Record, apex: &[u8], zone: &mut Vec<Record>) {
        let beside = |old: &&Record| old.owner() == new.owner();
        if zone.iter().filter(beside).any(|old| (old.rtype == CNAME) != (new.rtype == CNAME)) {
            return;
        }
        // RFC 6672 section 2.3.
        let is_cut = |one: &Record, other: &Record| (one.rtype, other.rtype) == (NS, DNAME) && one.owner() != apex;
        let is_there = zone.iter().filter(beside).any(|old| old.rtype == new.rtype);
        if !is_there && zone.iter().filter(beside).any(|old| is_cut(old, new) || is_cut(new, old)) {
            return;
        }
        let serial = |r: &Record| transfer::record::serial_of(r.rdata()).unwrap();
        let mut soas = zone.iter().filter(beside).filter(|old| old.rtype == SOA);
        if new.rtype == SOA && !soas.any(|old| transfer::record::is_newer(serial(new), serial(old))) {
            return;
        }
        zone.retain(|old| {
            let is_of_set = beside(&old) && old.rtype == new.rtype;
            let goes = matches!(new.rtype, SOA | CNAME | DNAME)
                || new.rtype == 11 && old.rdata().get(..5) == new.rdata().get(..5);
            !(is_of_set && goes && !new.is_like(old))
        });
        let (mut is_known, mut set) = (false, zone.iter_mut());
        while let Some(old) = set.find(|old| old.owner() == new.owner() && old.rtype == new.rtype) {
            old.ttl = new.ttl;
            is_known |= new.is_like(old);
        }
        if !is_known {
            zone.push(new.clone());
        }
    }
}

/// A line for `message`, and the same item for the twin.
fn item() -> impl Strategy<Value = (String, twin::Item)> {
    let owners = prop::sample::select(vec!["@", "www", "alias", "tree", "mx", "new", "full"]);
    let data = prop::sample::select(vec![
        ("A", "192.0.2.1", vec![192, 0, 2, 1]),
        ("A", "192.0.2.2", vec![192, 0, 2, 2]),
        ("A", "192.0.2.3", vec![192, 0, 2, 3]),
        ("NS", "ns", b"\x02ns\x01z\0".to_vec()),
        ("NS", "NS", b"\x02NS\x01z\0".to_vec()),
        ("NS", "b", b"\x01b\x01z\0".to_vec()),
        ("MX", "10 Mail", b"\0\x0a\x04Mail\x01z\0".to_vec()),
        ("MX", "10 mAIL", b"\0\x0a\x04mAIL\x01z\0".to_vec()),
        ("CNAME", "www", b"\x03www\x01z\0".to_vec()),
        ("CNAME", "WWW", b"\x03WWW\x01z\0".to_vec()),
        ("CNAME", "other", b"\x05other\x01z\0".to_vec()),
        ("DNAME", "wood", b"\x04wood\x01z\0".to_vec()),
        ("TXT", "one", b"\x03one".to_vec()),
        ("TXT", "One", b"\x03One".to_vec()),
        ("TYPE11", "\\# 6 c00002010680", vec![192, 0, 2, 1, 6, 0x80]),
        ("TYPE11", "\\# 6 c00002010640", vec![192, 0, 2, 1, 6, 0x40]),
        ("TYPE11", "\\# 6 c00002011140", vec![192, 0, 2, 1, 17, 0x40]),
        ("SOA", "ns hostmaster 8 1 2 3 4", soa(8)),
        ("SOA", "ns hostmaster 9 1 2 3 4", soa(9)),
        ("SOA", "ns hostmaster 6 1 2 3 4", soa(6)),
    ]);
    (0..8, owners, data, prop::sample::select(vec![60u32, 5])).prop_map(
        |(what, owner, (mnemonic, rdata, octets), ttl)| {
            let name = Name::from_text(owner.as_bytes(), Some(&origin())).unwrap();
            let rtype = zonefile::rtypes::from_mnemonic(mnemonic.as_bytes()).unwrap();
            let record = Record::new(name.bytes(), rtype, ttl, &octets).unwrap();
            match what {
                0..4 => (format!("add {owner} {ttl} {mnemonic} {rdata}"), twin::Item::Add(record)),
                4 | 5 => (format!("del {owner} {mnemonic} {rdata}"), twin::Item::Delete(record)),
                6 => (format!("del {owner} {mnemonic}"), twin::Item::DeleteSet(record)),
                _ => (format!("del {owner}"), twin::Item::DeleteName(record)),
            }
        },
    )
}

fn soa(serial: u8) -> Vec<u8> {
    let numbers = [u32::from(serial), 1, 2, 3, 4].map(u32::to_be_bytes).concat();
    [&b"\x02ns\x01z\0\x0ahostmaster\x01z\0"[..], &numbers].concat()
}

/// In whatever capitals, but for those of the apex's SOA's serial that is given where none is wished.
fn bare(records: impl IntoIterator<Item = Record>) -> BTreeSet<Record> {
    records.into_iter().filter(|r| r.rtype != rtype::SOA).map(|r| r.folded()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_message_changes_what_the_letter_of_section_3_4_2_changes(items in prop::collection::vec(item(), 1..12)) {
        let full: String = (0..40).map(|i| format!("full 60 A 192.0.2.{i}\n")).collect();
        let zone = contents(&format!("{ZONE}{full}@ 300 NS NS\nmx 60 MX 10 mail\nwks 60 TYPE11 \\# 6 c00002010680\n"));
        let lines: String = items.iter().map(|(line, _)| format!("{line}\n")).collect();
        let judged = judge(&Message::new(&message("z.", &lines)).unwrap(), origin().bytes(), &zone, &|_, _| true);
        let mut twin: Vec<Record> = zone.records().cloned().collect();
        items.iter().for_each(|(_, item)| twin::carry_out(item, origin().bytes(), &mut twin));
        // What no zone can hold is refused: an alias is never beside other data, so nothing of these is.
        let diff = judged.unwrap();
        let mut after = zone.clone();
        after.apply(&diff).unwrap();
        prop_assert_eq!(bare(after.records().cloned()), bare(twin.iter().cloned()), "{}", lines);
        let is_other = bare(zone.records().cloned()) != bare(twin.iter().cloned());
        let serial_of = |soa: &Record| (soa.rtype == rtype::SOA).then(|| transfer::record::serial_of(soa.rdata()).unwrap());
        let wished = twin.iter().find_map(serial_of).unwrap();
        let expect = if wished != 7 { wished } else { 7 + u32::from(is_other) };
        prop_assert_eq!(after.records().find_map(serial_of), Some(expect), "{}", lines);
        // A record that only has other capitals is the one that was there.
        let gone = bare(diff.removed().iter().cloned());
        prop_assert!(bare(diff.added().iter().cloned()).is_disjoint(&gone), "{}", lines);
    }
}
