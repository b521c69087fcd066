//! The same records give the same image, octet for octet, whatever the builder does on its way there: digests of images of
//! random zones of every kind of node. Those of the records stay when the format changes; those of the images do not, and
//! then a failing run prints the new ones.

mod zones;

use image::{Builder, Hands, Image, Kept, Spill};
use std::sync::Arc;
use wire::hash::siphash;
use zones::{Zone, random};

/// Seeds to a digest.
const EACH: u64 = 50;

/// Of seeds 0 to 49, 50 to 99 and so on: records with complaints, images.
const DIGESTS: &[(u64, u64)] = &[
    (0x8d505fe5bdfe4b5d, 0xd8ad4ef40be91830),
    (0x32f1295348fedf5f, 0x86bbd9442d3e643d),
    (0x19c4b8d4872ed140, 0x14bd6de6ee182945),
    (0xd67670b0e72cf0ee, 0x663c15c62cb5f2ab),
    (0x51adf908deaba0f6, 0xa4196ca99ae69e49),
    (0x16d02cb6db503978, 0xe13fa764f3f091e3),
    (0x6b7bf607adad65a2, 0xa248a596269895c4),
    (0xf44622e96e571ac1, 0x24faf9dbefd7219d),
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

/// Keeps octets in memory all the same.
struct Aside;

impl Spill for Aside {
    fn keep(&self, pieces: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Kept, String> {
        Ok(Box::new(pieces.flatten().collect::<Vec<u8>>()))
    }
}

#[test]
fn what_was_spilled_makes_the_same_image() {
    for seed in 0..400 {
        let zones = random(seed);
        let spilling = || Builder::spilling(seed, 1 << (seed % 12), Arc::new(Aside));
        let (mut builder, mut parts) = (spilling(), spilling());
        for zone in &zones {
            builder.begin_zone(&zone.apex);
            let mut part = spilling();
            part.begin_zone(&zone.apex);
            for (i, r) in zone.records.iter().enumerate() {
                let _ = builder.record(&r.owner, r.rtype, r.ttl, &r.rdata);
                let _ = part.record(&r.owner, r.rtype, r.ttl, &r.rdata);
                if i == zone.records.len() / 2 {
                    parts.append(std::mem::replace(&mut part, spilling()));
                    part.begin_zone(&zone.apex);
                }
            }
            if zone.records.is_empty() { parts.append(part) } else { parts.continue_with(part) }
        }
        let (whole, _) = built(seed, &zones);
        assert!(whole == builder.finish().0, "seed {seed}");
        assert!(whole == parts.finish().0, "seed {seed}, in parts");
    }
}

/// The other one first.
struct Crossed;

impl Hands for Crossed {
    fn both(&self, one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send)) {
        other();
        one();
    }
}

#[test]
fn what_several_builders_have_collected_makes_the_same_image() {
    for seed in 0..200 {
        let zones = random(seed);
        let mut together = Builder::new(seed);
        for (i, zone) in zones.iter().enumerate() {
            let parts = (seed as usize + i) % 4 + 1;
            for (n, records) in zone.records.chunks(zone.records.len().div_ceil(parts).max(1)).enumerate() {
                let mut part = Builder::new(seed);
                part.begin_zone(&zone.apex);
                for r in records {
                    let _ = part.record(&r.owner, r.rtype, r.ttl, &r.rdata);
                }
                if n == 0 { together.append(part) } else { together.continue_with(part) }
            }
        }
        let (octets, _, complaints) = together.finish_with(&Crossed);
        assert!(built(seed, &zones) == (octets, complaints), "seed {seed}");
    }
}
