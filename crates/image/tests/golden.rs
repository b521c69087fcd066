//! The same records give the same image, octet for octet, whatever the builder does on its way there: digests of images of
//! random zones of every kind of node. Those of the records stay when the format changes; those of the images do not, and
//! then a failing run prints the new ones.

mod zones;

use image::{Builder, Image};
use wire::hash::siphash;
use zones::{Zone, random};

/// Seeds to a digest.
const EACH: u64 = 50;

/// Of seeds 0 to 49, 50 to 99 and so on: records with complaints, images.
const DIGESTS: &[(u64, u64)] = &[
    (0x82349e8875924f0c, 0x6ed65c3500adb16e),
    (0x483f92901aaa8d5f, 0x1e19f1661f4b94a9),
    (0x87597c5ac2dc7f75, 0xda068b917f5b408d),
    (0x1d48bc8c039316f5, 0xb1ad45410b2f29dd),
    (0xdc9148e9a055f5f1, 0xdaf9ee2d46c6f381),
    (0xf598909846a817d6, 0x096ce30c892332a7),
    (0x0a2460803fc4e991, 0xc27cabdebf420f2d),
    (0xd0d9607dd0ef68d1, 0x477a9376cb08b308),
];

fn built(seed: u64, zones: &[Zone]) -> (Vec<u8>, Vec<image::Complaint>) {
    let mut builder = Builder::new(seed);
    for zone in zones {
        builder.begin_zone(&zone.apex);
        for r in &zone.records {
            let _ = builder.record(&r.owner, r.rtype, r.ttl, &r.rdata);
        }
    }
    let (octets, _, complaints) = builder.finish();
    (octets, complaints)
}

/// All records and complaints, in the order in which they come out.
fn content(octets: &[u8], complaints: &[image::Complaint]) -> Vec<u8> {
    let image = Image::open(octets).unwrap();
    let mut out = format!("{complaints:?}").into_bytes();
    for zone in image.view().zones() {
        let mut record = |owner: &[u8], rtype: u16, ttl: u32, rdata: &[u8]| {
            let numbers = [u64::from(rtype), u64::from(ttl), rdata.len() as u64];
            out.extend_from_slice(owner);
            out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
            out.extend_from_slice(rdata);
        };
        zone.unwrap().for_each_record(&mut record).unwrap();
    }
    out
}

fn digest(parts: &[Vec<u8>]) -> u64 {
    parts.iter().fold(0, |d, p| siphash::<1, 3>(b"golden image 1.0", p) ^ d.rotate_left(7))
}

#[test]
fn the_same_records_give_the_same_image() {
    let of = |first: u64| {
        let (mut contents, mut images) = (vec![], vec![]);
        for seed in first..first + EACH {
            let (octets, complaints) = built(seed, &random(seed));
            contents.push(content(&octets, &complaints));
            images.push(octets);
        }
        (digest(&contents), digest(&images))
    };
    let found: Vec<(u64, u64)> = (0..8).map(|i| of(i * EACH)).collect();
    let lines: Vec<String> = found.iter().map(|(c, i)| format!("    (0x{c:016x}, 0x{i:016x}),")).collect();
    assert!(found == DIGESTS, "the digests are now:\n{}", lines.join("\n"));
}
