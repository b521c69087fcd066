//! Changes of many names at once, where each draws others in: what one leads to is looked at once, not once for each.

use image::edit::{Edit, Record, records_of};
use image::patch::{self, Change, Limits, PLACE};
use image::{Builder, Image};

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

/// The image with these names laid over it.
fn laid(image: &Image<Vec<u8>>, names: &[(Vec<u8>, Vec<Record>)]) -> Image<Vec<u8>> {
    let edits = vec![Edit::new(APEX, names.iter().map(|(n, all)| (n[..].into(), all.clone())).collect())];
    let change = Change { whole: Builder::new(7), gone: vec![], edits, limits: Limits::MOST };
    let mut octets = image.bytes().clone();
    let place = (octets.len() as u64).next_multiple_of(PLACE);
    let laid = patch::lay(image.view(), change, place).unwrap();
    octets.resize(place as usize, 0);
    octets.extend_from_slice(&laid.octets);
    let header = laid.overlay(Image::overlaid(&octets[..], image.header().clone()).view()).unwrap();
    Image::overlaid(octets, header)
}

/// Changes names; looks whether each then has what it is to have.
fn check(image: &Image<Vec<u8>>, names: Vec<(Vec<u8>, Vec<Record>)>) {
    let after = laid(image, &names);
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

/// Up to where all have gone is remembered, and what comes back stands elsewhere.
#[test]
fn names_that_a_cut_hides_and_that_go_one_after_the_other() {
    let ends: [Vec<u8>; 2] = [[b"\x01a\x01a", END].concat(), [b"\x01b", END].concat()];
    let names: Vec<Vec<u8>> = (0..120).map(|n| below(1000 + n, &ends[usize::from(n >= 60)])).collect();
    let mut builder = Builder::new(7);
    builder.begin_zone(APEX);
    builder.record(APEX, 6, 60, &[0; 22]).unwrap();
    [APEX, END].iter().for_each(|owner| builder.record(owner, 2, 60, b"\x02ns\x05other\0").unwrap());
    names.iter().for_each(|name| builder.record(name, 1, 60, &[192, 0, 2, 1]).unwrap());
    let mut image = Image::open(builder.finish().0).unwrap();
    let mut there: Vec<bool> = names.iter().map(|_| true).collect();
    for step in 0..names.len() + 5 {
        // Now and then one comes back, and goes again later.
        let back = (step % 7 == 3).then_some(step / 2).filter(|back| *back < names.len());
        // Of each half one stays until all others are gone.
        let last = if step < names.len() { step } else { 50 + step % 2 * 60 };
        let goes = |n: &usize| n % 60 != 50 || step >= names.len();
        let gone =
            [Some(last).filter(goes), step.checked_sub(5).filter(|before| before % 7 == 3).map(|before| before / 2)];
        let mut edits = Vec::new();
        for (n, is_there) in back.map(|n| (n, true)).into_iter().chain(gone.into_iter().flatten().map(|n| (n, false))) {
            if n < names.len() && there[n] != is_there {
                there[n] = is_there;
                edits.push((names[n].clone(), if is_there { vec![address(9)] } else { vec![] }));
            }
        }
        image = laid(&image, &edits);
        // Without the cut all that is left is to be seen, and names that only lead there.
        let shown = laid(&image, &[(END.to_vec(), vec![])]);
        let zone = shown.view().zone(0).unwrap();
        for (name, is_there) in names.iter().zip(&there) {
            let found = zone.node(name).unwrap().map(|node| records_of(&node, name).unwrap());
            assert_eq!(found.is_some_and(|all| !all.is_empty()), *is_there, "{step}: {name:?}");
        }
        for (half, end) in ends.iter().enumerate() {
            let is_there = there[half * 60..][..60].iter().any(|is_there| *is_there);
            assert_eq!(zone.node(end).unwrap().is_some(), is_there, "{step}: {end:?}");
        }
    }
}
