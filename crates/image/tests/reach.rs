//! What the short forms of the format cannot hold: units far behind their node, many records, long lists of pointers.

use image::{Builder, Image, Node};
use wire::rtype::{A, NS, SOA};

const APEX: &[u8] = b"\x01z\0";
const TXT: u16 = 16;

type Record = (Vec<u8>, u16, u32, Vec<u8>);

fn check(records: Vec<Record>) {
    let mut builder = Builder::new(1);
    builder.begin_zone(APEX);
    let soa = [b"\x01z\0\x01z\0".as_slice(), &[0; 20]].concat();
    let mut wanted = vec![(APEX.to_vec(), NS, 5, b"\x02ns\x01z\0".to_vec()), (APEX.to_vec(), SOA, 5, soa)];
    wanted.extend(records);
    for (owner, rtype, ttl, rdata) in &wanted {
        builder.record(owner, *rtype, *ttl, rdata).unwrap();
    }
    let (octets, _, complaints) = builder.finish();
    assert_eq!(complaints, []);
    let image = Image::open(octets).unwrap();
    let mut found = vec![];
    let mut record = |owner: &[u8], rtype, ttl, rdata: &[u8]| found.push((owner.to_vec(), rtype, ttl, rdata.to_vec()));
    let zone = image.view().zone(0).unwrap();
    zone.for_each_record(&mut record).unwrap();
    wanted.sort();
    found.sort();
    assert!(found == wanted);
    for (owner, rtype, ..) in &wanted {
        let is_it = |n: &Node<'_>| zone.name_of(n, &mut [0; 255]).unwrap() == owner;
        let node = zone.nodes().map(Result::unwrap).find(is_it).unwrap();
        let count = wanted.iter().filter(|r| r.0 == *owner && r.1 == *rtype).count();
        assert_eq!(usize::from(node.rrset(*rtype).unwrap().unwrap().count()), count);
    }
}

/// `n` records of a type, about `octets` each.
fn records(owner: &[u8], rtype: u16, n: u32, octets: usize) -> Vec<Record> {
    let rdata = |i: u32| [&i.to_be_bytes()[..], &vec![7; octets - 4]].concat();
    (0..n).map(|i| (owner.to_vec(), rtype, 5, rdata(i))).collect()
}

#[test]
fn a_names_units_may_be_larger_than_a_place_can_say() {
    for owner in [APEX, b"\x01a\x01z\0"] {
        let sets = (0..9).flat_map(|i| records(owner, 60_000 + i, 60, 1000));
        check(sets.chain(records(b"\x01b\x01z\0", A, 2, 4)).collect());
    }
}

#[test]
fn rrsets_may_have_more_records_and_pointers_than_a_short_head_can_say() {
    for n in [14, 15, 255, 256, 2000] {
        check(records(b"\x01a\x01z\0", TXT, n, 5));
        let host = |i: u32| format!("\x05{i:05}\x01z\0").into_bytes();
        check((0..n).map(|i| (b"\x01a\x01z\0".to_vec(), NS, 5, host(i))).collect());
    }
}
