//! Any octets as an update of a zone: refused, or a difference that fits the zone, leaves it one SOA and a name server,
//! and takes its serial forward. Laid over as a version in the making it gives what applying it gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transfer::message::Message;
use transfer::record::is_newer;
use transfer::{Content, Contents, Layer, Record, update};
use wire::rtype::{CNAME, NS, SOA};

const APEX: &[u8] = b"\x01z\0";
const SOA_RDATA: &[u8] = b"\0\0\0\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";

fn zone() -> Contents {
    let records: [(&[u8], u16, &[u8]); 5] = [
        (APEX, SOA, SOA_RDATA),
        (APEX, NS, b"\x02ns\x01z\0"),
        (b"\x02ns\x01z\0", 1, &[192, 0, 2, 53]),
        (b"\x03www\x01z\0", 1, &[192, 0, 2, 1]),
        (b"\x01a\x01z\0", CNAME, b"\x03www\x01z\0"),
    ];
    Contents::of(records.iter().filter_map(|(owner, rtype, rdata)| Record::new(owner, *rtype, 60, rdata)))
}

fuzz_target!(|octets: &[u8]| {
    let Some(message) = Message::new(octets) else { return };
    let mut zone = zone();
    let Ok(diff) = update::judge(&message, APEX, &zone, &|_, _| true) else { return };
    let mut layer = Layer::over(&zone);
    layer.follow(&diff).expect("a difference of this version");
    let whole = |(owner, bare)| Record::of(owner, bare).expect("a name of the zone");
    let names = layer.names().flat_map(|(owner, all)| all.iter().map(move |bare| (owner, bare.clone())));
    let mut made: Vec<Record> = names.map(whole).collect();
    let owners: Vec<Vec<u8>> = diff.owners().iter().map(|owner| owner.to_vec()).collect();
    zone.apply(&diff).expect("a difference of this version");
    made.sort_unstable();
    let mut touched: Vec<Record> = owners.iter().flat_map(|owner| zone.at(owner).unwrap_or_default()).collect();
    touched.sort_unstable();
    assert_eq!(made, touched);
    assert_eq!(zone.rrset(APEX, SOA).count(), 1);
    assert!(zone.rrset(APEX, NS).count() > 0);
    assert!(diff.is_empty() || is_newer(diff.to, diff.from));
});
