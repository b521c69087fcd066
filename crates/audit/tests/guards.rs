//! What a new version of a zone may lose, change and get wrong before somebody has to look at it.

use audit::{Guards, Report, Rules, Version, audit, weigh};
use image::{Builder, Image};
use zonefile::{NoFiles, Objection, Options};

const ZONE: &str = "$TTL 60\n@ SOA ns host 7 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nd NS ns\n\
    d DS 1 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\na A 192.0.2.2\nb A 192.0.2.3\n";

fn built(text: &str) -> Builder {
    let origin = wire::Name::from_text(b"example.", None).unwrap();
    let mut builder = Builder::new(0);
    builder.begin_zone(origin.bytes());
    let mut sink =
        |r: zonefile::Record<'_>, _: &_| builder.record(r.owner, r.rtype, r.ttl, r.rdata).map_err(Objection::refusal);
    let read = zonefile::parse("zone", text.as_bytes(), &origin, &mut NoFiles, &Options::default(), &mut sink);
    assert_eq!(read.errors, 0, "{}\n{text}", read.problems[0]);
    builder
}

/// Why the new version is held; empty: it is not.
fn held(old: &str, new: &str, guards: &Guards) -> String {
    held_if(old, new, guards, false)
}

fn held_if(old: &str, new: &str, guards: &Guards, is_received: bool) -> String {
    let image = Image::open(built(old).finish().0).unwrap();
    let served = image.view().zones().next().unwrap().unwrap();
    let (rules, mut why) = (Rules::at(1_800_000_000), None);
    let weighed = built(new).show(&mut |zone| {
        let report: Report = audit(zone, &rules);
        let version = Version { zone, report: &report, rules: &rules, is_received };
        why = weigh(&served, &version, guards, || Builder::new(0)).unwrap();
    });
    weighed.unwrap();
    why.unwrap_or_default()
}

/// What somebody has had served all the same says nothing of the next version.
#[test]
fn each_version_needs_a_digest_of_its_own() {
    let with = |serial: u32, digest: &str| {
        format!("{}@ ZONEMD {serial} 1 1 {digest}\n", ZONE.replace("host 7 ", &format!("host {serial} ")))
    };
    let (wrong, guards) = ("00".repeat(48), Guards::default());
    assert_eq!(held(&with(8, &wrong), &with(8, &wrong), &guards), "", "it is served");
    let edited = with(8, &wrong).replace("192.0.2.2", "192.0.2.9");
    assert!(held(&with(8, &wrong), &edited, &guards).starts_with("example. ZONEMD"), "under one serial, too");
    assert!(held(&with(8, &wrong), &with(9, &wrong), &guards).starts_with("example. ZONEMD"));
    assert_eq!(held(&with(8, &wrong), &ZONE.replace("host 7 ", "host 9 "), &guards), "", "none is right");
    let strict = Guards { lost_percent_max: 0, ..guards };
    assert_eq!(held(&with(8, &wrong), &ZONE.replace("host 7 ", "host 9 "), &strict), "", "nor is it a loss");
}

#[test]
fn what_looks_like_an_accident_is_held_and_nothing_else() {
    let serial = |n: u32| ZONE.replace("host 7 ", &format!("host {n} "));
    let without = |owners: &[&str]| {
        let is_left = |l: &&str| !owners.iter().any(|o| l.starts_with(o));
        serial(8).lines().filter(is_left).map(|l| format!("{l}\n")).collect::<String>()
    };
    for (new, expect) in [
        (ZONE.to_string(), ""),
        (serial(8), ""),
        // The same serial again, and the farthest that follows.
        (ZONE.replace("192.0.2.2", "192.0.2.9"), ""),
        (serial(7 + (1 << 31) - 1), ""),
        (serial(7 + (1 << 31)), "the serial 2147483655 does not follow 7"),
        (serial(6), "the serial 6 does not follow 7"),
        (serial(u32::MAX), "the serial 4294967295 does not follow 7"),
        // Half of seven records may go, and no more.
        (without(&["a ", "b ", "d "]), "4 of 7 records go: more than 50 % would be lost"),
        (without(&["a ", "d "]), ""),
        // As many as before, under other names; with other addresses, they are the same.
        (without(&["a ", "b ", "d "]) + "x A 192.0.2.2\ny A 192.0.2.3\nz A 192.0.2.4\n", "4 of 7 records go"),
        (serial(8).replace("192.0.2.", "198.51.100."), ""),
        (without(&["a ", "b "]) + "a AAAA 2001:db8::1\nb AAAA 2001:db8::2\n", ""),
        (without(&["d DS"]), "the delegation d.example. would lose its DS"),
        (without(&["d NS", "d DS"]), ""),
        (serial(8) + "c NS ns.c\n", "this error, which what is served has not: c.example. NS"),
        (
            format!("{}@ ZONEMD 8 1 1 {}\n", serial(8), "00".repeat(48)),
            "this error, which what is served has not: example. ZONEMD",
        ),
        (format!("{}@ ZONEMD 8 2 1 {}\n", serial(8), "00".repeat(48)), ""),
    ] {
        let why = held(ZONE, &new, &Guards::default());
        assert!(if expect.is_empty() { why.is_empty() } else { why.starts_with(expect) }, "{why}\n{new}");
    }
}

#[test]
fn a_zone_that_comes_back_unsigned_is_held() {
    let serial = |n: u32| ZONE.replace("host 7 ", &format!("host {n} "));
    let (key, signature) =
        ("@ DNSKEY 257 3 13 AAAA\n", "@ RRSIG DNSKEY 13 1 60 20300101000000 20200101000000 1 example. AAAA\n");
    let (signed, guards) = (format!("{ZONE}{key}{signature}"), Guards { lost_percent_max: 100, lost_ds_max: 9 });
    for (new, expect) in [
        (format!("{}{key}{signature}", serial(8)), ""),
        (format!("{}{key}", serial(8)), "the zone would not be signed any more: its apex has no RRSIG"),
        (serial(8), "the zone would not be signed any more: its apex has no DNSKEY"),
    ] {
        assert_eq!(held(&signed, &new, &guards), expect);
    }
    assert_eq!(held(&format!("{ZONE}{key}"), &serial(8), &guards), "", "it was not signed yet");
}

#[test]
fn all_that_tells_against_a_version_is_said() {
    let key = "@ DNSKEY 257 3 13 AAAA\n@ RRSIG DNSKEY 13 1 60 20300101000000 20200101000000 1 example. AAAA\n";
    let new = ZONE.replace("host 7 ", "host 6 ").replace("d DS", "; d DS") + "c NS ns.c\n";
    let why = held(&format!("{ZONE}{key}"), &new, &Guards { lost_percent_max: 10, lost_ds_max: 0 });
    for part in
        ["the serial 6", "more than 10 % would be lost", "would lose its DS", "not be signed any more", "c.example. NS"]
    {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert_eq!(why.matches("; ").count(), 4, "{why}");
}

/// What a signer makes is made anew whenever it signs, in one way or another, and is nobody's loss.
#[test]
fn records_are_weighed_without_signatures_and_denials() {
    let signed = |serial: u32, hosts: &str, denial: &dyn Fn(&str) -> String| {
        let each = |host: &str| {
            let signature = format!("{host} RRSIG A 13 2 60 20300101000000 20200101000000 {serial} example. AAAA\n");
            format!("{host} A 192.0.2.1\n{signature}{}", denial(host))
        };
        let apex = "@ DNSKEY 257 3 13 AAAA\n@ RRSIG DNSKEY 13 1 60 20300101000000 20200101000000 1 example. AAAA\n";
        let soa = format!("$TTL 60\n@ SOA ns host {serial} 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n");
        soa + apex + &hosts.split(' ').map(each).collect::<String>()
    };
    let nsec = |host: &str| format!("{host} NSEC {host} A RRSIG NSEC\n");
    let none = |_: &str| String::new();
    let before = signed(7, "a b c d e f", &nsec);
    let guards = Guards { lost_percent_max: 40, lost_ds_max: 0 };
    let records_go = |new: &str| held(&before, new, &guards).contains("records go");
    assert!(!records_go(&signed(8, "a b c d e f", &none)), "half of its records were signatures and denials");
    assert!(!records_go(&signed(8, "a b c d", &nsec)));
    assert!(held(&before, &signed(8, "a", &nsec), &guards).starts_with("5 of 10 records go"));
    assert!(records_go(&signed(8, "a u v w x y", &nsec)));
}

/// Names of a zone that others keep may be others at each transfer, as those of certificates' challenges.
#[test]
fn records_of_what_was_received_are_counted() {
    let (guards, next) = (Guards::default(), ZONE.replace("host 7 ", "host 8 "));
    let others =
        next.replace("\na A", "\nx A").replace("\nb A", "\ny A").replace("\nns A", "\nz A").replace("d DS", "d TXT");
    assert!(held(ZONE, &others, &guards).contains("4 of 7 records go"));
    assert!(!held_if(ZONE, &others, &guards, true).contains("records go"));
    let few: String = next.lines().take(4).map(|line| format!("{line}\n")).collect();
    assert!(held_if(ZONE, &few, &guards, true).starts_with("4 of 7 records go: more than 50 % would be lost"));
}

/// More of one kind than are told in words do not hide another.
#[test]
fn an_error_of_a_new_kind_is_seen_behind_a_thousand_of_another() {
    let many: String = (0..1001).map(|n| format!("x{n} NS ns.x{n}\n")).collect();
    let (before, after) = (format!("{ZONE}{many}"), format!("{}{many}", ZONE.replace("host 7 ", "host 8 ")));
    assert_eq!(held(&before, &after, &Guards::default()), "");
    let digest = format!("{after}@ ZONEMD 8 1 1 {}\n", "00".repeat(48));
    assert!(held(&before, &digest, &Guards::default()).contains("example. ZONEMD"));
}

#[test]
fn an_error_that_was_served_before_is_served_on() {
    let bad = format!("{ZONE}c NS ns.c\n");
    assert_eq!(held(&bad, &format!("{}e NS ns.e\n", bad.replace("host 7", "host 8")), &Guards::default()), "");
    let another = format!("{bad}w DS 1 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n");
    assert!(held(&bad, &another, &Guards::default()).contains("a DS where there is no delegation"));
}

#[test]
fn the_operator_says_how_much_may_go() {
    let rest: String = ZONE.lines().take(4).map(|l| format!("{l}\n")).collect();
    let all = Guards { lost_percent_max: 100, lost_ds_max: 0 };
    assert_eq!(held(ZONE, &rest, &all), "");
    let insecure = ZONE.replace("d DS", "e TXT x ;");
    assert!(held(ZONE, &insecure, &all).contains("would lose its DS"));
    assert_eq!(held(ZONE, &insecure, &Guards { lost_ds_max: 1, ..all }), "");
}
