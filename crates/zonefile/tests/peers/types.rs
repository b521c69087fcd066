//! A record of every type. What a peer does not know of is left out for it alone.

use crate::program::{ALL_TYPES, BIND, KNOT, LDNS, Peer, as_written, folded, read};
use std::cell::RefCell;
use std::collections::BTreeSet;
use zonefile::rtypes;

fn known(peer: &Peer) -> String {
    ALL_TYPES.lines().filter(|line| peer.knows(line)).map(|line| format!("{line}\n")).collect()
}

fn check(peer: &Peer) {
    let known = known(peer);
    let ours = read("example", &known, folded);
    assert!(ours.len() > 60);
    // As we print it, the peer reads it; as the peer prints it, we do.
    let printed: String = read_in_order(&known);
    for text in [known, printed] {
        let theirs = peer.read("example", &text).unwrap();
        let only_ours: Vec<_> = ours.difference(&theirs).collect();
        let only_theirs: Vec<_> = theirs.difference(&ours).collect();
        assert!(only_ours.is_empty() && only_theirs.is_empty(), "ours {only_ours:#?}\ntheirs {only_theirs:#?}");
    }
}

/// The SOA stays first: peers want it so.
fn read_in_order(text: &str) -> String {
    let order = RefCell::new(String::new());
    read("example", text, |record| {
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

/// Those that may stand in a zone: of the rest only OPT, TKEY, TSIG, what questions ask for and NXNAME have names.
#[test]
fn no_type_with_a_name_is_left_out() {
    let seen: BTreeSet<&str> = ALL_TYPES.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let named = (1..=u16::MAX).filter(|&n| !wire::rtype::is_meta(n)).map(rtypes::mnemonic);
    let missing: Vec<_> = named.filter(|name| !name.starts_with("TYPE") && !seen.contains(&**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
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
    let known: String = known(&BIND).lines().filter(|line| !differs(line)).map(|line| format!("{line}\n")).collect();
    let printed = BIND.print("example", &known).unwrap();
    let theirs: BTreeSet<String> = printed.lines().filter(|l| !l.starts_with(';')).map(squeezed).collect();
    let ours: BTreeSet<String> = read("example", &known, as_written).iter().map(|line| squeezed(line)).collect();
    let only_ours: Vec<_> = ours.difference(&theirs).collect();
    let only_theirs: Vec<_> = theirs.difference(&ours).collect();
    assert!(only_ours.is_empty() && only_theirs.is_empty(), "ours {only_ours:#?}\ntheirs {only_theirs:#?}");
}

/// Digests and signatures come in pieces from BIND, so records are compared and not lines.
#[test]
fn the_root_zone_is_that_of_bind() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/data/root-2017082100.signed.zone");
    let text = std::fs::read_to_string(path).unwrap();
    let (ours, theirs) = (read(".", &text, as_written), read(".", BIND.print(".", &text).unwrap(), as_written));
    assert_eq!(ours.len(), 22_772);
    assert!(ours == theirs, "{:#?}", ours.symmetric_difference(&theirs).take(4).collect::<Vec<_>>());
}
