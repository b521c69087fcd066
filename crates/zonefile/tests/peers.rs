//! The same zone through our reader and through those of BIND, Knot and ldns: the records must be the same. What a peer does
//! not know of is left out for it alone, by type or by line, and listed here.

// A test starts peers and writes their input; only the crate itself never does.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod peer;

use std::cell::RefCell;
use std::collections::BTreeSet;
use wire::Name;
use zonefile::{NoFiles, Options, Record, Severity, parse, rdata, record_to_text};

const ALL_TYPES: &str = include_str!("zones/all-types.zone");

struct Peer {
    program: &'static str,
    arguments: &'static [&'static str],
    /// Types it does not know, or reads differently.
    without_types: &'static [&'static str],
    /// Beginnings of lines that it refuses, with reasons beside them.
    without_lines: &'static [&'static str],
}

const BIND: Peer = Peer {
    program: "named-checkzone",
    arguments: &["-D", "-i", "none", "-k", "ignore", "-s", "full", "-o", "-", "example"],
    // MD and MF are refused as obsolete; ATMA has a form of its own that no RFC knows; CLA and IPN are not known yet.
    without_types: &["MD", "MF", "ATMA", "CLA", "IPN"],
    without_lines: &[
        // Keys 8 and 9 have no names there yet.
        "svcb89 ",
    ],
};

const KNOT: Peer = Peer {
    program: "kzonecheck",
    arguments: &["-v", "-d", "off", "-p", "-o", "example"],
    without_types: &[
        "MD", "MF", "MB", "MG", "MR", "NULL", "WKS", "X25", "ISDN", "NSAP", "NSAP-PTR", "SIG", "PX", "GPOS", "NXT",
        "EID", "NIMLOC", "ATMA", "A6", "SINK", "HIP", "NINFO", "RKEY", "TALINK", "HHIT", "BRID", "AVC", "DOA",
        "AMTRELAY", "TA", "DLV", "UINFO", "CLA", "IPN",
    ],
    without_lines: &[
        // A key without key material.
        "key33 ", // Keys 8 and 9 have no names there yet.
        "svcb89 ",
    ],
};

const LDNS: Peer = Peer {
    program: "ldns-read-zone",
    arguments: &[],
    // GPOS and RESINFO keep their quotes as part of the text; the others are not known.
    without_types: &[
        "NXT", "A6", "SINK", "NINFO", "RKEY", "HHIT", "BRID", "AVC", "DOA", "TA", "UINFO", "CLA", "IPN", "MD", "MF",
        "ATMA", "GPOS", "RESINFO",
    ],
    without_lines: &[
        // A quote in a name comes back without its backslash.
        "a\\.b",
        // A protocol without ports, a key without key material, names of keys and schemes that came later.
        "wks14 ", "key33 ", "svcb89 ", "dsync90 ",
    ],
};

fn is_known(peer: &Peer, line: &str) -> bool {
    let rtype = line.split(' ').nth(1).unwrap_or("");
    !peer.without_types.contains(&rtype) && !peer.without_lines.iter().any(|l| line.starts_with(l))
}

/// What the peer prints after reading `text`.
fn through(peer: &Peer, text: &str) -> String {
    let output = peer::run(peer.program, peer.arguments, text);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.lines().count() > 20, "{} refused the zone: {err}{out}", peer.program);
    out.into_owned()
}

/// Owners and names in rdata without regard to case, because peers fold some of them.
fn folded(record: &Record<'_>) -> String {
    let (mut owner, mut data) = (record.owner.to_vec(), record.rdata.to_vec());
    wire::name::fold(&mut owner);
    for (at, len) in rdata::names(record.rtype, record.rdata) {
        wire::name::fold(&mut data[at..at + len]);
    }
    let mut line = String::new();
    record_to_text(&owner, record.ttl, record.class, record.rtype, &data, &mut line);
    line
}

fn read(text: impl AsRef<[u8]>, show: impl Fn(&Record<'_>) -> String) -> BTreeSet<String> {
    let origin = Name::from_text(b"example.", None).unwrap();
    let mut lines = BTreeSet::new();
    let report = parse("zone", text.as_ref(), &origin, &mut NoFiles, &Options::default(), &mut |record, _| {
        lines.insert(show(&record));
        Ok(())
    });
    let errors: Vec<_> =
        report.problems.iter().filter(|p| p.severity == Severity::Error).map(ToString::to_string).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    lines
}

fn as_written(record: &Record<'_>) -> String {
    let mut line = String::new();
    record_to_text(record.owner, record.ttl, record.class, record.rtype, record.rdata, &mut line);
    line
}

fn check(peer: &Peer) {
    let known: String = ALL_TYPES.lines().filter(|line| is_known(peer, line)).map(|line| format!("{line}\n")).collect();
    let ours = read(&known, folded);
    assert!(ours.len() > 60);
    // As we print it, the peer reads it; as the peer prints it, we do.
    let printed: String = read_in_order(&known);
    for text in [known, printed] {
        let theirs = read(through(peer, &text), folded);
        let only_ours: Vec<_> = ours.difference(&theirs).collect();
        let only_theirs: Vec<_> = theirs.difference(&ours).collect();
        assert!(only_ours.is_empty() && only_theirs.is_empty(), "ours {only_ours:#?}\ntheirs {only_theirs:#?}");
    }
}

/// The SOA stays first: peers want it so.
fn read_in_order(text: &str) -> String {
    let order = RefCell::new(String::new());
    read(text, |record| {
        let line = as_written(record);
        order.borrow_mut().push_str(&line);
        order.borrow_mut().push('\n');
        line
    });
    order.into_inner()
}

#[test]
fn bind_reads_the_same_records() {
    check(&BIND);
}

#[test]
fn knot_reads_the_same_records() {
    check(&KNOT);
}

#[test]
fn ldns_reads_the_same_records() {
    check(&LDNS);
}

/// One line a record, as our dumps are: blanks in a row made one, and none within a base64 or hexadecimal field.
fn squeezed(line: &str) -> String {
    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn text_is_that_of_bind() {
    // Algorithms of CERT are numbers with us, as with Knot and ldns; NID and L64 have leading zeros, without which Knot does not
    // read them; TA's digest is split in two; without a clock no date lies before 1970.
    let differs = |line: &str| [" CERT ", " NID ", " L64 ", " TA ", "rrsigfuture"].iter().any(|t| line.contains(t));
    let known: String = ALL_TYPES
        .lines()
        .filter(|line| is_known(&BIND, line) && !differs(line))
        .map(|line| format!("{line}\n"))
        .collect();
    let printed = through(&BIND, &known);
    let theirs: BTreeSet<String> = printed.lines().filter(|l| !l.starts_with(';')).map(squeezed).collect();
    let ours: BTreeSet<String> = read(&known, as_written).iter().map(|line| squeezed(line)).collect();
    let only_ours: Vec<_> = ours.difference(&theirs).collect();
    let only_theirs: Vec<_> = theirs.difference(&ours).collect();
    assert!(only_ours.is_empty() && only_theirs.is_empty(), "ours {only_ours:#?}\ntheirs {only_theirs:#?}");
}

const SOA: &str = "$ORIGIN example.com.\n$TTL 3600\n@ SOA ns host 1 2 3 4 5\n@ NS ns.elsewhere.\n";

/// As `through`, of a zone that may be short.
fn lines_through(peer: &Peer, arguments: &[&str], text: &[u8]) -> BTreeSet<String> {
    let output = peer::run(peer.program, arguments, text);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Knot prints what it reads, also where it then finds fault with what it means.
    let is_read = output.status.success() || peer.program == KNOT.program && !out.is_empty();
    assert!(is_read, "{} refused the zone: {err}{out}\n{}", peer.program, text.escape_ascii());
    read(&*out, folded)
}

#[test]
fn peers_read_the_same_records_from_lines_of_64_kib() {
    let strings = "\"0123456789 abcdef;()\" ".repeat(2_900);
    let comment = "x".repeat(65_536);
    let text = format!("{SOA}a TXT {strings}\nb A 192.0.2.1 ; {comment}\nc{}A 192.0.2.1", " ".repeat(65_536));
    let ours = read(&text, folded);
    assert_eq!(ours.len(), 5);
    let bind: &[&str] = &["-D", "-i", "none", "-k", "ignore", "-s", "full", "-o", "-", "example.com"];
    assert_eq!(ours, lines_through(&BIND, bind, text.as_bytes()));
    assert_eq!(ours, lines_through(&KNOT, &["-d", "off", "-p", "-o", "example.com"], text.as_bytes()));
}

/// Digests and signatures come in pieces from BIND, so records are compared and not lines.
#[test]
fn the_root_zone_is_that_of_bind() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/data/root-2017082100.signed.zone");
    let text = std::fs::read_to_string(path).unwrap();
    let root = Peer { arguments: &["-D", "-i", "none", "-k", "ignore", "-s", "full", "-o", "-", "."], ..BIND };
    let (ours, theirs) = (read(&text, as_written), read(through(&root, &text), as_written));
    assert_eq!(ours.len(), 22_772);
    assert!(ours == theirs, "{:#?}", ours.symmetric_difference(&theirs).take(4).collect::<Vec<_>>());
}
