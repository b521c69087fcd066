//! Zones by chance, in every spelling: escapes, quotes, parentheses, relative names, units of time, comments, CRLF, no last
//! line end, lines of 64 KiB. The pen leaves out what a peer does not read, which for BIND is next to nothing.
//!
//!     SPELLINGS=2000 cargo test -p zonefile --test peers spelt      more zones than the 32 of a usual run
//!     SPELLINGS_SEED=7                                              others

use crate::pen::{self, Rr};
use crate::program::{ALL_TYPES, BIND, KNOT, LDNS, Peer, folded, read};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::collections::BTreeMap;
use wire::rtype;
use zonefile::{NoFiles, Options, parse, rdata};

const SOA: &str = "$ORIGIN example.com.\n$TTL 3600\n@ SOA ns host 1 2 3 4 5\n@ NS ns.elsewhere.\n";

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |n| n.parse().expect("a number"))
}

/// A line of the zone that has all types, as the record that it stands for.
fn from_all_types() -> Vec<(&'static str, Rr)> {
    let options = Options { default_ttl: Some(86_400), ..Options::default() };
    let record = |line: &'static str| {
        let mut found = None;
        parse("line", line.as_bytes(), &pen::origin(), &mut NoFiles, &options, &mut |r, _| {
            found = Some(Rr { owner: r.owner.into(), ttl: r.ttl, rtype: r.rtype, rdata: r.rdata.into() });
            Ok(())
        });
        found.map(|rr| (line, rr))
    };
    let lines = ALL_TYPES.lines().filter(|line| !line.starts_with(['@', '$', ';']));
    lines.filter_map(record).collect()
}

/// What all peers take: names below the zone's, one TTL for an RRset (RFC 2181 section 5.2).
fn below_the_apex(records: Vec<Rr>) -> Vec<Rr> {
    let mut ttls = BTreeMap::new();
    let (end, mut records) = (pen::origin(), records);
    records.retain(|rr| wire::name::is_at_or_below(&rr.owner, end.bytes()) && rr.owner.len() > end.bytes().len());
    for rr in &mut records {
        rr.ttl = *ttls.entry((rr.owner.to_ascii_lowercase(), rr.rtype)).or_insert(rr.ttl);
    }
    records
}

/// What `odd.rs` shows of records that a peer does not take, however they are spelt.
fn is_taken(peer: &Peer, rr: &Rr) -> bool {
    let has_mark = |name: &[u8]| name.iter().any(|c| b"\"@$".contains(c));
    match peer.program {
        "named-checkzone" => rr.rtype != rtype::NS || !rr.owner.starts_with(b"\x01*"),
        "ldns-read-zone" => {
            let names = rdata::names(rr.rtype, &rr.rdata);
            !has_mark(&rr.owner) && !names.into_iter().any(|(at, len)| has_mark(&rr.rdata[at..at + len]))
        }
        _ => true,
    }
}

fn check(peer: &Peer) {
    let cases = number("SPELLINGS", 32) as u32;
    let rng_seed = RngSeed::Fixed(number("SPELLINGS_SEED", 1));
    let config = Config { cases, failure_persistence: None, rng_seed, ..Config::default() };
    let known: Vec<Rr> =
        from_all_types().into_iter().filter(|(line, _)| peer.knows(line)).map(|(_, record)| record).collect();
    let some = prop::sample::subsequence(known.clone(), 0..known.len() / 4);
    proptest!(config, |((zones, some, coins) in (vec(pen::zone(), 8), some, vec(any::<u8>(), 97)))| {
        let mut records = below_the_apex([zones.concat(), some].concat());
        records.retain(|rr| is_taken(peer, rr));
        let text = [SOA.as_bytes(), &pen::spelt(&records, coins, peer.without_habits)].concat();
        let (ours, theirs) = (read("example.com", &text, folded), peer.read("example.com", &text));
        let theirs = theirs.map_err(|why| TestCaseError::fail(format!("{why}\n{}", text.escape_ascii())))?;
        let differ: Vec<_> = ours.symmetric_difference(&theirs).collect();
        prop_assert!(differ.is_empty(), "{}: {differ:#?}\n{}", peer.program, text.escape_ascii());
    });
}

#[test]
fn bind_reads_every_spelling_as_we_do() {
    check(&BIND);
}

#[test]
fn knot_reads_its_spellings_as_we_do() {
    check(&KNOT);
}

#[test]
fn ldns_reads_its_spellings_as_we_do() {
    check(&LDNS);
}

#[test]
fn lines_of_64_kib_are_read_alike() {
    let strings = "\"0123456789 abcdef;()\" ".repeat(2_900);
    let comment = "x".repeat(65_536);
    let text = format!("{SOA}a TXT {strings}\nb A 192.0.2.1 ; {comment}\nc{}A 192.0.2.1", " ".repeat(65_536));
    let ours = read("example.com", &text, folded);
    assert_eq!(ours.len(), 5);
    for peer in [BIND, KNOT] {
        assert_eq!(peer.read("example.com", &text).as_ref(), Ok(&ours), "{}", peer.program);
    }
}
