//! Changes of many names at once, where each draws others in: what one leads to is looked at once, not once for each.

use image::edit::{Edit, Record, records_of};
use image::patch::{self, Change, Limits, PLACE};
use image::{Builder, Image, InTurn};

const APEX: &[u8] = b"\x01z\0";
const END: &[u8] = b"\x03end\x01z\0";
/// With a look at all of them for each this would take minutes.
const MANY: usize = 10_000;

fn below(n: usize, end: &[u8]) -> Vec<u8> {
    let label = n.to_string();
    [&[label.len() as u8], label.as_bytes(), end].concat()
}

fn address(last: u8) -> Record {
    Record { rtype: 1, ttl: 60, rdata: [192, 0, 2, last].into() }
}

/// A zone with names below one, which is a cut or nobody's own.
fn image(names: usize, is_cut: bool) -> Image<Vec<u8>> {
    let mut builder = Builder::new(7);
    builder.begin_zone(APEX);
    builder.record(APEX, 6, 60, &[0; 22]).unwrap();
    builder.record(APEX, 2, 60, b"\x02ns\x05other\0").unwrap();
    if is_cut {
        builder.record(END, 2, 60, b"\x02ns\x05other\0").unwrap();
    }
    (0..names).for_each(|n| builder.record(&below(n, END), 1, 60, &[192, 0, 2, 1]).unwrap());
    Image::open(builder.finish().0).unwrap()
}

/// Changes names; looks whether each then has what it is to have.
fn check(image: &Image<Vec<u8>>, names: Vec<(Vec<u8>, Vec<Record>)>) {
    let edits = vec![Edit::new(APEX, names.iter().map(|(n, all)| (n[..].into(), all.clone())).collect())];
    let change = Change { whole: Builder::new(7), gone: vec![], edits, limits: Limits::MOST };
    let place = (image.bytes().len() as u64).next_multiple_of(PLACE);
    let laid = patch::lay(image.view(), change, place, &InTurn, &mut |_| None).unwrap();
    let mut octets = image.bytes().clone();
    octets.resize(place as usize, 0);
    octets.extend_from_slice(&laid.octets);
    let between = Image::overlaid(&octets[..], image.header().clone());
    let after = Image::overlaid(&octets[..], laid.overlay(between.view()).unwrap());
    let zone = after.view().zone(0).unwrap();
    for (name, records) in names {
        let found = zone.node(&name).unwrap().map(|node| records_of(&node, &name).unwrap());
        assert_eq!(found.unwrap_or_default(), records, "{name:?}");
    }
}

#[test]
fn names_that_come() {
    check(&image(0, false), (0..MANY).map(|n| (below(n, END), vec![address(2)])).collect());
    check(&image(0, false), (0..MANY).map(|n| (below(n, &below(n, APEX)), vec![address(2)])).collect());
}

#[test]
fn names_below_one_that_go() {
    check(&image(MANY, false), (0..MANY).map(|n| (below(n, END), vec![])).collect());
}

#[test]
fn hosts_below_one_that_go() {
    let mx = |n| Record { rtype: 15, ttl: 60, rdata: [&b"\0\x01"[..], &below(n, END)].concat().into() };
    let gone = (0..MANY / 2).map(|n| (below(n, END), vec![]));
    let naming = (0..MANY / 2).map(|n| (below(n, APEX), vec![mx(n)]));
    check(&image(MANY / 2, false), gone.chain(naming).collect());
}

#[test]
fn names_that_a_cut_hides() {
    let some = 0..MANY / 4;
    check(&image(MANY / 4, true), some.clone().map(|n| (below(n, END), vec![address(2)])).collect());
    check(&image(MANY / 4, true), some.clone().map(|n| (below(n, END), vec![])).collect());
    check(&image(MANY / 4, true), some.map(|n| (below(2 * n, &below(n, END)), vec![address(2)])).collect());
}
