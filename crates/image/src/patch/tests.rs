use super::*;
use crate::edit::{self, Hidden};
use crate::node::ABOVE;
use std::collections::BTreeMap;
use wire::hash::name_hash;

const APEX: &[u8] = b"\x01z\0";
const HOST: &[u8] = b"\x01h\x01z\0";

/// Owner, type, rdata.
type Rows<'r> = &'r [(&'r [u8], u16, &'r [u8])];

/// An image of these zones, as a file.
fn file(zones: &[(&[u8], Rows<'_>)]) -> Vec<u8> {
    let mut builder = Builder::new(7);
    for (apex, records) in zones {
        builder.begin_zone(apex);
        records.iter().for_each(|(owner, rtype, rdata)| builder.record(owner, *rtype, 60, rdata).unwrap());
    }
    builder.finish().0
}

/// What is served once a change is laid over it.
fn over(image: &Image<Vec<u8>>, change: Change<'_>) -> Image<Vec<u8>> {
    settle(image, &mut Draft::of(image.view(), change, &mut |_| None).unwrap()).unwrap()
}

/// The same of what was laid out before.
fn settle(image: &Image<Vec<u8>>, draft: &mut Draft) -> Result<Image<Vec<u8>>, Unable> {
    let mut octets = image.bytes().clone();
    octets.resize(octets.len().next_multiple_of(PLACE as usize), 0);
    let laid = draft.lay(image.view(), octets.len() as u64)?;
    octets.extend_from_slice(&laid.octets);
    let between = Image::overlaid(octets.clone(), image.header().clone());
    Ok(Image::overlaid(octets, laid.overlay(between.view()).unwrap()))
}

/// What is at one name of a zone from now on.
fn edit<'a>(apex: &'a [u8], owner: &[u8], records: &[(u16, &[u8])]) -> Edit<'a> {
    let records = records.iter().map(|&(rtype, rdata)| edit::Record { rtype, ttl: 60, rdata: rdata.into() });
    Edit::new(apex, BTreeMap::from([(owner.into(), records.collect())]))
}

fn edits(edits: Vec<Edit<'_>>) -> Change<'_> {
    Change { whole: Builder::new(7), gone: vec![], edits, limits: Limits::MOST }
}

fn names(owner: &[u8], records: &[(u16, &[u8])]) -> Change<'static> {
    edits(vec![edit(APEX, owner, records)])
}

fn zone_of<'i>(image: &'i Image<Vec<u8>>, apex: &[u8]) -> Zone<'i> {
    image.view().find_whole(apex).unwrap().unwrap().zone().unwrap()
}

/// How many names a change of one draws in, itself among them.
fn drawn_in(zone: Rows<'_>, name: &[u8], after: &[(u16, &[u8])]) -> usize {
    let image = Image::open(file(&[(APEX, zone)])).unwrap();
    lay(image.view(), names(name, after), 1 << 20).unwrap().nodes.len()
}

const ZONE: [(&[u8], u16, &[u8]); 5] = [
    (APEX, rtype::SOA, &[0; 22]),
    (APEX, rtype::NS, b"\x02ns\x05other\0"),
    (HOST, rtype::NS, b"\x02ns\x05other\0"),
    (HOST, rtype::A, &[192, 0, 2, 1]),
    (b"\x01m\x01z\0", rtype::MX, b"\0\x01\x01h\x01z\0"),
];

#[test]
fn an_alias_at_the_apex_hides_all_names() {
    let after = [(rtype::SOA, ZONE[0].2), (rtype::NS, ZONE[1].2)];
    assert_eq!(drawn_in(&ZONE, APEX, &after), 1);
    assert_eq!(drawn_in(&ZONE, APEX, &[&after[..], &[(rtype::DNAME, b"\x05other\0")]].concat()), 3);
}

#[test]
fn a_host_whose_address_is_no_glue_any_more_draws_in_who_names_it() {
    let with = |rtype, rdata| drawn_in(&ZONE, HOST, &[(rtype, rdata), (rtype::A, ZONE[3].2)]);
    assert_eq!(with(rtype::NS, b"\x01a\0"), 2);
    assert_eq!(with(rtype::DNAME, b"\x05other\0"), 3);
    assert_eq!(with(rtype::TXT, b"\x01t"), 3);
}

/// The zone below is signed, so that both edits write into what it has more.
#[test]
fn a_delegation_and_the_zone_below_change_together() {
    let below = HOST;
    let owner = [b"\x01a", below].concat();
    let zones: [(&[u8], Rows<'_>); 2] = [
        (
            APEX,
            &[(APEX, rtype::SOA, &[0; 22]), (APEX, rtype::NS, b"\x02ns\x05other\0"), (below, rtype::NS, b"\x01a\0")],
        ),
        (
            below,
            &[
                (below, rtype::SOA, &[0; 22]),
                (below, rtype::NS, b"\x01a\0"),
                (below, rtype::RRSIG, &[0; 20]),
                (below, rtype::NSEC, &owner),
                (&owner, rtype::NSEC, below),
            ],
        ),
    ];
    let image = Image::open(file(&zones)).unwrap();
    let delegation = edit(APEX, below, &[(rtype::NS, b"\x01a\0"), (rtype::DS, &[0, 1, 13, 2, 9])]);
    let name = edit(below, &owner, &[(rtype::NSEC, below), (rtype::TXT, b"\x01t")]);
    let after = over(&image, edits(vec![delegation, name]));
    let zone = zone_of(&after, below);
    let (parents, parent) = zone.parent().unwrap().unwrap();
    assert!(parent.apex().unwrap().apex_name() == Ok(APEX) && parents.rrset(rtype::DS).unwrap().is_some());
    assert!(zone.nsec_at_or_before(&owner).unwrap().rrset(rtype::TXT).unwrap().is_some());
}

const APEX_ROWS: [(&[u8], u16, &[u8]); 2] = [(APEX, rtype::SOA, &[0; 22]), (APEX, rtype::NS, b"\x02ns\x05other\0")];
const BELOW: &[u8] = b"\x01c\x01b\x01z\0";
const BELOW_ROWS: [(&[u8], u16, &[u8]); 2] = [(BELOW, rtype::SOA, &[0; 22]), (BELOW, rtype::NS, b"\x02ns\x05other\0")];

#[test]
fn what_a_zone_hides_where_it_delegates_to_nobody_is_found_and_changed() {
    let hidden: [&[u8]; 2] = [b"\x01d\x01c\x01b\x01z\0", b"\x01e\x01c\x01b\x01z\0"];
    let rows = hidden.map(|owner| (owner, rtype::A, &[192, 0, 2, 1][..]));
    let zones: [(&[u8], Rows<'_>); 2] = [(APEX, &[APEX_ROWS, rows].concat()), (BELOW, &BELOW_ROWS)];
    let mut image = Image::open(file(&zones)).unwrap();
    let has = |image: &Image<Vec<u8>>| {
        let (node, _) = zone_of(image, BELOW).parent().unwrap().unwrap();
        assert!(node.rrsets().next().is_none(), "a name of the zone above that is there for what is below it");
        hidden.map(|owner| zone_of(image, APEX).node(owner).unwrap().is_some())
    };
    assert_eq!(has(&image), [true; 2]);
    image = over(&image, names(hidden[0], &[]));
    assert_eq!(has(&image), [false, true]);
    assert_eq!(zone_of(&image, APEX).records().unwrap(), 3);
    image = over(&image, names(hidden[1], &[(rtype::TXT, b"\x01t")]));
    assert_eq!(has(&image), [false, true]);
    for (there, owner, rows) in
        [(true, BELOW, &[(rtype::NS, hidden[1])][..]), (true, hidden[1], &[]), (false, BELOW, &[])]
    {
        image = over(&image, names(owner, rows));
        assert_eq!(zone_of(&image, BELOW).parent().unwrap().is_some(), there);
    }
}

/// A host that a wildcard made is none once a name comes above it.
#[test]
fn a_name_below_another_zone_makes_those_above_it_come() {
    let naming: &[u8] = b"\x01m\x01z\0";
    let rows: [(&[u8], u16, &[u8]); 2] =
        [(b"\x01*\x01z\0", rtype::A, &[192, 0, 2, 1]), (naming, rtype::MX, b"\0\x01\x01h\x01b\x01z\0")];
    let zones: [(&[u8], Rows<'_>); 2] = [(APEX, &[&APEX_ROWS[..], &rows].concat()), (BELOW, &BELOW_ROWS)];
    let mut image = Image::open(file(&zones)).unwrap();
    let is_laid =
        |image: &Image<Vec<u8>>| image.view().is_of_overlay(&zone_of(image, APEX).node(naming).unwrap().unwrap());
    image = over(&image, names(b"\x01d\x01z\0", &[(rtype::A, &[192, 0, 2, 1])]));
    assert!(!is_laid(&image), "no name has come");
    image = over(&image, names(b"\x01d\x01c\x01b\x01z\0", &[(rtype::A, &[192, 0, 2, 1])]));
    assert!(is_laid(&image), "it carries no address any more");
}

#[test]
fn a_name_on_the_way_to_another_zone_is_the_zones_or_nobodys() {
    let name: &[u8] = b"\x01b\x01z\0";
    let mut image = Image::open(file(&[(APEX, &APEX_ROWS), (BELOW, &BELOW_ROWS)])).unwrap();
    let is_there = |image: &Image<Vec<u8>>| {
        let zone = zone_of(image, APEX);
        let scope = zone.apex().unwrap().scope().unwrap();
        let hash = name_hash(image.view().seed(), name);
        let node = image.view().find(hash, name, scope).unwrap().unwrap();
        assert!(node.is(DEEPER), "the way to the zone below");
        let of_hash = zone.nodes_hashed([hash].into(), [].into_iter());
        assert_eq!(of_hash.is_ok_and(|nodes| nodes.iter().all(|n| !n.is(ABOVE))), !node.is(ABOVE));
        !node.is(ABOVE)
    };
    assert!(!is_there(&image));
    let mut whole = Builder::new(7);
    whole.begin_zone(APEX);
    APEX_ROWS.iter().for_each(|(owner, rtype, rdata)| whole.record(owner, *rtype, 60, rdata).unwrap());
    image = over(&image, Change { whole, gone: vec![], edits: vec![], limits: Limits::MOST });
    for _ in 0..2 {
        assert!(!is_there(&image));
        image = over(&image, names(name, &[(rtype::TXT, b"\x01t")]));
        assert!(is_there(&image));
        image = over(&image, names(name, &[]));
    }
}

/// That a name below the other zone is found before the delegation does not make what leads there be gone.
#[test]
fn what_leads_to_another_zones_delegation_is_there_whatever_is_deleted_at_it() {
    let (name, glue): (&[u8], &[u8]) = (b"\x01b\x01z\0", b"\x01d\x01c\x01b\x01z\0");
    let rows = [(BELOW, rtype::NS, glue), (glue, rtype::A, &[192, 0, 2, 1])];
    let mut image = Image::open(file(&[(APEX, &[&APEX_ROWS[..], &rows].concat()), (BELOW, &BELOW_ROWS)])).unwrap();
    let is_there = |image: &Image<Vec<u8>>| {
        let hash = name_hash(image.view().seed(), name);
        zone_of(image, APEX).nodes_hashed([hash].into(), [].into_iter()).is_ok_and(|nodes| nodes.len() == 1)
    };
    // The glue stands in the file still, and is looked at before what is laid over it.
    image = over(&image, names(BELOW, &[(rtype::NS, glue), (rtype::NS, b"\x02ns\x05other\0")]));
    assert!(is_there(&image));
    image = over(&image, names(name, &[]));
    assert!(is_there(&image));
}

#[test]
fn names_are_laid_after_those_of_other_zones_and_not_after_others_of_theirs() {
    let other: &[u8] = b"\x07example\0";
    let others = [(other, rtype::SOA, APEX_ROWS[0].2), (other, rtype::NS, APEX_ROWS[1].2)];
    let image = Image::open(file(&[(APEX, &APEX_ROWS), (other, &others)])).unwrap();
    let (name, address): (&[u8], _) = (b"\x01a\x01z\0", [(rtype::A, &[192, 0, 2, 1][..])]);
    let draft = || Draft::of(image.view(), names(name, &address), &mut |_| None).unwrap();
    let of_other = over(&image, edits(vec![edit(other, &[b"\x01a", other].concat(), &address)]));
    let both = settle(&of_other, &mut draft()).unwrap();
    let is_there = |apex, name: &[u8]| zone_of(&both, apex).node(name).unwrap().is_some();
    assert!(is_there(APEX, name) && is_there(other, &[b"\x01a", other].concat()));
    let of_same = over(&image, names(b"\x01b\x01z\0", &address));
    let mut once = draft();
    for _ in 0..2 {
        assert_eq!(settle(&of_same, &mut once).err(), Some(Unable::Changed));
    }
}

#[test]
fn an_apex_that_says_it_is_another_zones_is_damage() {
    let other: &[u8] = b"\x07example\0";
    let others = [(other, rtype::SOA, APEX_ROWS[0].2), (other, rtype::NS, APEX_ROWS[1].2)];
    let mut octets = file(&[(APEX, &APEX_ROWS), (other, &others)]);
    let image = Image::open(octets.clone()).unwrap();
    let [own, foreign] = [APEX, other].map(|apex| image.view().find_whole(apex).unwrap().unwrap());
    octets[own.words_at()] = foreign.zone_number().unwrap() as u8;
    let image = Image::open(octets).unwrap();
    assert!(image.view().find_whole(APEX).unwrap().unwrap().zone().is_err());
    let change = names(b"\x01a\x01z\0", &[(rtype::A, &[192, 0, 2, 1])]);
    assert_eq!(lay(image.view(), change, 1 << 20).err(), Some(Unable::Damaged));
}

#[test]
fn a_name_leaves_the_lists_of_hosts_with_its_node() {
    let (name, other): (&[u8], &[u8]) = (b"\x01n\x01z\0", b"\x01g\x01z\0");
    let mx = |host: &[u8]| [b"\0\x01", host].concat();
    let mut image = Image::open(file(&[(APEX, &ZONE)])).unwrap();
    // Beside those of the file: the host's, the other's, and that of hosts that a wildcard may make.
    let listed = |image: &Image<Vec<u8>>| {
        let hosts = [HOST, other, b"\x01*\x01z\0"];
        hosts.map(|host| zone_of(image, APEX).listed(&[host.into()].into()).unwrap().len())
    };
    let from = listed(&image);
    let more = |image: &Image<Vec<u8>>| [0, 1, 2].map(|i| listed(image)[i] - from[i]);
    for _ in 0..3 {
        image = over(&image, names(name, &[(rtype::MX, &mx(HOST))]));
        assert_eq!(more(&image), [1, 0, 0]);
        image = over(&image, names(name, &[(rtype::MX, &mx(other))]));
        assert_eq!(more(&image), [0, 1, 1]);
        image = over(&image, names(name, &[]));
        assert_eq!(more(&image), [0; 3]);
    }
    for host in [HOST, other].map(mx) {
        let mut whole = Builder::new(7);
        whole.begin_zone(APEX);
        let rows = [&ZONE[..2], &[(name, rtype::MX, &host[..])]].concat();
        rows.iter().for_each(|(owner, rtype, rdata)| whole.record(owner, *rtype, 60, rdata).unwrap());
        image = over(&image, Change { whole, gone: vec![], edits: vec![], limits: Limits::MOST });
        assert_eq!(more(&image).iter().sum::<usize>(), 2, "whose host has no address any more");
    }
    let (zone, view) = (zone_of(&image, APEX), image.view());
    let keys = zone.keys_of(&zone.node(name).unwrap().unwrap()).unwrap();
    let lists = |view: View<'_>| {
        let overlay = view.overlay().unwrap();
        keys.iter().filter(|&&key| overlay.listed(view, key, zone.number()).next().is_some()).count()
    };
    assert_eq!(lists(view), 2);
    let gone =
        over(&image, Change { whole: Builder::new(7), gone: vec![APEX.into()], edits: vec![], limits: Limits::MOST });
    assert_eq!(lists(gone.view()), 0);
}

#[test]
fn on_a_damaged_page_of_a_file_with_changes_stands_what_stands_there() {
    let owner = |i: u32| [&[8], format!("{i:08}").as_bytes(), APEX].concat();
    let owners: Vec<Vec<u8>> = (0..2000).map(owner).collect();
    let rows: Vec<_> = owners.iter().map(|owner| (&owner[..], rtype::A, &[192, 0, 2, 1][..])).collect();
    let mut octets = file(&[(APEX, &[&APEX_ROWS[..], &rows].concat())]);
    let image = Image::open(octets.clone()).unwrap();
    let change = over(&image, names(&owners[7], &[(rtype::TXT, b"\x01t")]));
    let (header, pages) = (change.header().clone(), image.pages());
    octets[pages / 2 * crate::sums::PAGE] ^= 1;
    octets.extend_from_slice(&change.bytes()[octets.len()..]);
    let damaged = Image::overlaid(octets, header).to_serve(|_| 0);
    assert!(damaged.compare(0, pages).is_none() && damaged.damaged_pages().count() == 1);
    let zone = zone_of(&damaged, APEX);
    assert!(zone.node(&owners[7]).unwrap().unwrap().rrset(rtype::TXT).unwrap().is_some());
    assert!(!damaged.changed(damaged.bytes().clone(), damaged.header().clone()).is_whole(), "it stays known");
    let left = owners.iter().filter(|owner| zone.node(owner).is_ok_and(|node| node.is_some())).count();
    assert!((owners.len() / 2..owners.len()).contains(&left), "{left} of {} names, {pages} pages", owners.len());
}

/// What is written, compared or given away is all of it, or nothing.
#[test]
fn of_a_zone_with_changes_no_records_are_left_out_without_a_word_whichever_page_is_damaged() {
    let owner = |i: u32| [&[8], format!("{i:08}").as_bytes(), APEX].concat();
    let owners: Vec<Vec<u8>> = (0..300).map(owner).collect();
    let rows: Vec<_> = owners.iter().map(|owner| (&owner[..], rtype::A, &[192, 0, 2, 1][..])).collect();
    let octets = file(&[(APEX, &[&APEX_ROWS[..], &rows].concat())]);
    let image = Image::open(octets.clone()).unwrap();
    let change = over(&image, names(&owners[7], &[(rtype::TXT, b"\x01t")]));
    let counted = |image: &Image<Vec<u8>>| {
        let mut n = 0;
        zone_of(image, APEX).for_each_record(&mut |_, _, _, _| n += 1).map(|()| n)
    };
    let (all, mut told) = (counted(&change).unwrap(), 0);
    for page in 0..image.pages() {
        let mut octets = change.bytes().clone();
        octets[page * crate::sums::PAGE] ^= 1;
        let damaged = Image::overlaid(octets, change.header().clone()).to_serve(|_| 0);
        damaged.compare(0, image.pages());
        match counted(&damaged) {
            Ok(n) => assert_eq!(n, all, "page {page}"),
            Err(_) => told += 1,
        }
    }
    assert!(told > 1, "{told} of {} pages", image.pages());
}

/// Also where more of them have gone before than are looked at one by one.
#[test]
fn a_name_without_records_is_there_as_long_as_one_below_it_is() {
    let above: &[u8] = b"\x01e\x01z\0";
    let owners: Vec<Vec<u8>> = (0..60).map(|i| [format!("\x03{i:03}").as_bytes(), above].concat()).collect();
    let rows: Vec<_> = owners.iter().map(|owner| (&owner[..], rtype::A, &[192, 0, 2, 1][..])).collect();
    let zones = [(APEX, &[&APEX_ROWS[..], &rows].concat()[..])];
    let (upwards, downwards) = ((0..60).collect::<Vec<_>>(), (0..60).rev().collect());
    let from_the_middle = (20..40).chain(0..20).chain(40..60).collect();
    for order in [upwards, downwards, from_the_middle] {
        let mut image = Image::open(file(&zones)).unwrap();
        for (gone, i) in order.into_iter().enumerate() {
            image = over(&image, names(&owners[i], &[]));
            assert_eq!(zone_of(&image, APEX).node(above).unwrap().is_some(), gone + 1 < owners.len(), "{gone}");
        }
    }
}

/// Else each change below a cut would cost what that hides.
/// Such an owner stands in no index, whatever somebody has put below it.
#[test]
fn what_is_hidden_below_an_owner_of_nsec3_is_found() {
    let hashed = [&b"\x200123456789abcdefghijklmnopqrstuv"[..], APEX].concat();
    let (cut, glue) = ([b"\x01c", &hashed[..]].concat(), [b"\x01g\x01c", &hashed[..]].concat());
    let nsec3 = [&[1, 0, 0, 0, 0, 20][..], &[7; 20], &[0, 1, 0x40]].concat();
    let zone: &[(&[u8], u16, &[u8])] = &[
        (APEX, rtype::SOA, &[0; 22]),
        (APEX, rtype::NS, b"\x02ns\x05other\0"),
        (APEX, rtype::NSEC3PARAM, &[1, 0, 0, 0, 0]),
        (&hashed, rtype::NSEC3, &nsec3),
        (&cut, rtype::NS, &glue),
        (&glue, rtype::A, &[192, 0, 2, 1]),
    ];
    let image = Image::open(file(&[(APEX, zone)])).unwrap();
    let zone = zone_of(&image, APEX);
    assert!(zone.is(crate::zone::HASHED).unwrap());
    assert!([&hashed, &cut, &glue].iter().all(|name| zone.node(name).unwrap().is_some()));
}

#[test]
fn what_a_cut_hides_is_found_once() {
    let cut: &[u8] = b"\x01e\x01z\0";
    let owners: Vec<Vec<u8>> = (0..100).map(|i| [format!("\x03{i:03}").as_bytes(), cut].concat()).collect();
    let mut rows: Vec<_> = owners.iter().map(|owner| (&owner[..], rtype::A, &[192, 0, 2, 1][..])).collect();
    rows.push((cut, rtype::NS, b"\x02ns\x01x\0"));
    let mut image = Image::open(file(&[(APEX, &[&APEX_ROWS[..], &rows].concat()[..])])).unwrap();
    let screen = (zone_of(&image, APEX).node(cut).unwrap().unwrap().reference(), cut.len());
    for gone in &owners {
        image = over(&image, names(gone, &[]));
        let nodes = image.view().overlay().unwrap().hidden(screen);
        assert_eq!(nodes.map(|nodes| nodes.len()), Some(owners.len()));
        let hidden = Hidden::default();
        assert!(zone_of(&image, APEX).node_by(gone, &hidden).unwrap().is_none());
        assert!(hidden.many().is_empty(), "nothing was looked through");
    }
}

/// Else each change would cost what has gone before it.
#[test]
fn who_looks_below_a_name_steps_over_few_of_those_that_are_gone() {
    let above: &[u8] = b"\x01e\x01z\0";
    let owners: Vec<Vec<u8>> = (0..200).map(|i| [format!("\x03{i:03}").as_bytes(), above].concat()).collect();
    let (of_file, others) = owners.split_at(100);
    let rows: Vec<_> = of_file.iter().map(|owner| (&owner[..], rtype::A, &[192, 0, 2, 1][..])).collect();
    let mut image = Image::open(file(&[(APEX, &[&APEX_ROWS[..], &rows].concat()[..])])).unwrap();
    let seat = |image: &Image<Vec<u8>>| zone_of(image, APEX).node(above).unwrap().map(|node| node.reference());
    let seat_of_file = seat(&image).unwrap();
    for (i, (gone, other)) in of_file.iter().zip(others).enumerate() {
        image = over(&image, names(gone, &[]));
        // One that no file has comes and goes.
        image = over(&image, names(other, &[(rtype::A, &[192, 0, 2, 2])]));
        assert!(seat(&image).is_some());
        image = over(&image, names(other, &[]));
        assert_eq!(seat(&image).is_some(), i + 1 < of_file.len());
        let (view, zone) = (image.view(), zone_of(&image, APEX));
        let overlay = view.overlay().unwrap();
        assert_eq!(overlay.live_behind(view, zone.number(), b"\x01e").unwrap().count(), 0);
        let passed = overlay.front(seat_of_file, false).map_or(0, |last| {
            let labels = view.node(last).unwrap().labels_below().unwrap().to_vec();
            1 + of_file.iter().position(|owner| owner.starts_with(&labels)).unwrap()
        });
        assert!((passed..=passed + 17).contains(&(i + 1)), "{passed} of {}", i + 1);
    }
}

/// The same of what a cut hides, where names without records have no nodes.
#[test]
fn who_looks_below_a_hidden_name_steps_over_few_of_those_that_are_gone() {
    let (cut, above): (&[u8], &[u8]) = (b"\x01e\x01z\0", b"\x01t\x01e\x01z\0");
    let owners: Vec<Vec<u8>> = (0..100).map(|i| [format!("\x03{i:03}").as_bytes(), above].concat()).collect();
    let mut rows = vec![(cut, rtype::NS, &b"\x02ns\x01o\0"[..])];
    rows.extend(owners.iter().map(|owner| (&owner[..], rtype::A, &[192, 0, 2, 1][..])));
    let mut image = Image::open(file(&[(APEX, &[&APEX_ROWS[..], &rows].concat()[..])])).unwrap();
    let first = zone_of(&image, APEX).node(&owners[0]).unwrap().unwrap().reference();
    for (i, gone) in owners.iter().enumerate() {
        image = over(&image, names(gone, &[]));
        let view = image.view();
        let passed = view.overlay().unwrap().front(first, true).map_or(0, |last| {
            let labels = view.node(last).unwrap().labels_below().unwrap().to_vec();
            1 + owners.iter().position(|owner| owner.starts_with(&labels)).unwrap()
        });
        assert!((passed..=passed + 17).contains(&(i + 1)), "{passed} of {}", i + 1);
    }
}

/// Owners of NSEC, or of NSEC3: what the record says, by owner.
type Denying = BTreeMap<Vec<u8>, u8>;

fn denying_rows(is_hashed: bool, all: &Denying) -> Vec<(Vec<u8>, u16, Vec<u8>)> {
    let mut rows: Vec<_> =
        APEX_ROWS.iter().map(|(owner, rtype, rdata)| (owner.to_vec(), *rtype, rdata.to_vec())).collect();
    rows.push((APEX.to_vec(), rtype::RRSIG, vec![0; 20]));
    rows.extend(is_hashed.then(|| (APEX.to_vec(), rtype::NSEC3PARAM, vec![1, 0, 0, 0, 0])));
    rows.extend(all.iter().map(|(owner, says)| (owner.clone(), denies(is_hashed).0, denies(is_hashed).1(*says))));
    rows
}

type Rdata = fn(u8) -> Vec<u8>;

/// The type, and a record of it that says something else each time.
fn denies(is_hashed: bool) -> (u16, Rdata) {
    match is_hashed {
        true => (rtype::NSEC3, |says| [&[1, 0, 0, 0, 0, 20][..], &[says; 20]].concat()),
        false => (rtype::NSEC, |says| vec![1, says, 1, b'z', 0]),
    }
}

/// Who denies a name, or a hash, and with what.
fn denial(image: &Image<Vec<u8>>, is_hashed: bool, name: &[u8]) -> (Vec<u8>, Vec<edit::Record>) {
    let (zone, mut room) = (zone_of(image, APEX), [0; wire::name::NAME_MAX]);
    let node = match is_hashed {
        true => zone.nsec3_at_or_before(name.first_chunk().unwrap()).unwrap().0,
        false => zone.nsec_at_or_before(name).unwrap(),
    };
    let owner = zone.name_of(&node, &mut room).unwrap().to_vec();
    let records = edit::records_of(&node, &owner).unwrap();
    (owner, records)
}

/// The tables of changed owners are woven from edit to edit, and an image that is built anew has none.
#[test]
fn who_denies_is_found_after_any_edits_as_in_an_image_of_them() {
    for seed in 1..=40u32 {
        let (is_hashed, mut random) = (seed % 2 == 0, seed);
        let mut below = |n: u32| {
            // Knuth's second constant; the low bits are poor.
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) % n
        };
        let owner = |i: u32| match is_hashed {
            true => [&[32][..], &[b"0123456789abcdefghij"[i as usize]; 32], APEX].concat(),
            false => [&[1, b'a' + i as u8], APEX].concat(),
        };
        let mut all: Denying =
            (0..10).map(|i| (owner(2 * i), 0)).chain((!is_hashed).then(|| (APEX.to_vec(), 0))).collect();
        let built = |all: &Denying| {
            let rows = denying_rows(is_hashed, all);
            let rows: Vec<(&[u8], u16, &[u8])> =
                rows.iter().map(|(owner, rtype, rdata)| (&**owner, *rtype, &**rdata)).collect();
            Image::open(file(&[(APEX, &rows)])).unwrap()
        };
        let mut image = built(&all);
        for step in 1..=30 {
            let mut names = edit::Names::new();
            for _ in 0..=below(3) {
                let (owner, stays) = (owner(below(20)), below(3) > 0 || all.len() < 4);
                let (rtype, rdata) = denies(is_hashed);
                let records = stays.then(|| edit::Record { rtype, ttl: 60, rdata: rdata(step).into() });
                match stays {
                    true => _ = all.insert(owner.clone(), step),
                    false => _ = all.remove(&owner),
                }
                names.insert(owner.into(), records.into_iter().collect());
            }
            image = over(&image, edits(vec![Edit::new(APEX, names)]));
            let twin = built(&all);
            for i in 0..20 {
                let asked = match is_hashed {
                    true => vec![(crate::chain::base32hex(&owner(i)).unwrap()).to_vec(), vec![i as u8 * 13; 20]],
                    false => vec![owner(i), [&[2, b'a' + i as u8, b'm'], APEX].concat()],
                };
                for name in asked {
                    assert_eq!(
                        denial(&image, is_hashed, &name),
                        denial(&twin, is_hashed, &name),
                        "{seed} {step} {name:?}"
                    );
                }
            }
        }
    }
}
