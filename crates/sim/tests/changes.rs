//! Zones that change: an image with changes laid over it answers every name, type and DO as an image does that was built
//! of the changed zones, after any sequence of changes.

#[path = "../../image/tests/zones/mod.rs"]
mod zones;

use front::Setup;
use image::edit::{self, Edit};
use image::patch::{self, Change, PLACE};
use image::{Builder, Image, InTurn};
use sim::Server;
use std::collections::{BTreeMap, BTreeSet};
use wire::rtype::{self, Rtype};
use zones::{APEXES, Record, Rng, Zone, below, name, random_records, zone_of};

const SEED: u64 = 11;
const TYPES: [Rtype; 12] = [
    rtype::A,
    rtype::NS,
    rtype::CNAME,
    rtype::SOA,
    rtype::MX,
    rtype::TXT,
    rtype::AAAA,
    rtype::SRV,
    rtype::DNAME,
    rtype::DS,
    rtype::HTTPS,
    rtype::ANY,
];

type Zones = BTreeMap<Vec<u8>, Vec<Record>>;

fn filled(zones: &Zones) -> Builder {
    let mut builder = Builder::new(SEED);
    for (apex, records) in zones {
        fill(&mut builder, apex, records);
    }
    builder
}

fn fill(builder: &mut Builder, apex: &[u8], records: &[Record]) {
    builder.begin_zone(apex);
    for r in records {
        let _ = builder.record(&r.owner, r.rtype, r.ttl, &r.rdata);
    }
}

/// A zone; most have nothing of DNSSEC, so that they can be edited.
fn some_zone(rng: &mut Rng) -> Zone {
    let apex = name(APEXES[rng.below(APEXES.len())]);
    let is_plain = !rng.one_in(4);
    let mut zone = zone_of(rng, apex);
    zone.records.retain(|r| !is_plain || !is_dnssec(r.rtype));
    zone
}

fn is_dnssec(rtype: Rtype) -> bool {
    matches!(rtype, rtype::NSEC3 | rtype::NSEC3PARAM | rtype::RRSIG | rtype::NSEC)
}

/// Zones as they are, and the image that has followed them.
struct Twins {
    model: Zones,
    octets: Vec<u8>,
    header: Option<image::format::Header>,
    /// Changes that were laid over the image, and those that took a new one.
    laid: usize,
    rebuilt: usize,
}

impl Twins {
    fn new(rng: &mut Rng) -> Twins {
        let mut model = Zones::new();
        for _ in 0..1 + rng.below(5) {
            let Zone { apex, records } = some_zone(rng);
            model.insert(apex, records);
        }
        let (octets, _, complaints) = filled(&model).finish();
        complaints.iter().for_each(|c| drop(model.remove(c.zone.bytes())));
        Twins { model, octets, header: None, laid: 0, rebuilt: 0 }
    }

    fn image(&self) -> Image<&[u8]> {
        match &self.header {
            Some(header) => Image::overlaid(&self.octets, header.clone(), |_| 0),
            None => Image::open(&self.octets[..]).unwrap(),
        }
    }

    /// Lays a change over the image; false: some zone is wrong, and nothing has changed.
    fn lay(&mut self, change: Change<'_>, after: &Zones) -> bool {
        let place = (self.octets.len() as u64).next_multiple_of(PLACE);
        let laid = patch::lay(self.image().view(), change, place, &InTurn, &mut |_| None);
        match laid {
            Ok(laid) if laid.complaints.is_empty() => {
                self.octets.resize(place as usize, 0);
                self.octets.extend_from_slice(&laid.octets);
                let header = match self.header.take() {
                    Some(header) => header,
                    None => Image::open(&self.octets[..laid.place as usize])
                        .map_or_else(|_| self.file_header(), |i| i.header().clone()),
                };
                let image = Image::overlaid(&self.octets[..], header, |_| 0);
                self.header = Some(laid.overlay(image.view()).unwrap());
                self.laid += 1;
                true
            }
            Ok(_) => false,
            Err(_) => {
                let (octets, _, complaints) = filled(after).finish();
                if complaints.is_empty() {
                    (self.octets, self.header) = (octets, None);
                    self.rebuilt += 1;
                }
                complaints.is_empty()
            }
        }
    }

    fn file_header(&self) -> image::format::Header {
        let length = image::format::u64_at(&self.octets, 16).unwrap() as usize;
        Image::open(&self.octets[..length]).unwrap().header().clone()
    }

    fn step(&mut self, rng: &mut Rng) {
        let apexes: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        let what = rng.below(8);
        match what {
            0 => self.replace(rng),
            1 if !apexes.is_empty() => self.remove(apexes[rng.below(apexes.len())].clone()),
            _ if !apexes.is_empty() => {
                let apex = &apexes[rng.below(apexes.len())];
                self.edit(rng, apex);
            }
            _ => {}
        }
    }

    fn replace(&mut self, rng: &mut Rng) {
        let mut after = self.model.clone();
        let mut whole = Builder::new(SEED);
        for _ in 0..1 + rng.below(2) {
            let Zone { apex, records } = some_zone(rng);
            if whole.apexes().any(|a| a == apex) {
                continue;
            }
            fill(&mut whole, &apex, &records);
            after.insert(apex, records);
        }
        if self.lay(Change { whole, gone: vec![], edits: vec![] }, &after) {
            self.model = after;
        }
    }

    fn remove(&mut self, apex: Vec<u8>) {
        let mut after = self.model.clone();
        after.remove(&apex);
        if self.lay(Change { whole: Builder::new(SEED), gone: vec![apex.into()], edits: vec![] }, &after) {
            self.model = after;
        }
    }

    fn edit(&mut self, rng: &mut Rng, apex: &[u8]) {
        let mut after = self.model.clone();
        let records = after.get_mut(apex).unwrap();
        if records.iter().any(|r| is_dnssec(r.rtype)) {
            return;
        }
        let mut names = BTreeMap::new();
        for _ in 0..1 + rng.below(4) {
            let owner = match rng.below(2) {
                0 => records[rng.below(records.len())].owner.clone(),
                _ => below(rng, apex),
            };
            let owner = owner.to_ascii_lowercase();
            if !wire::name::is_at_or_below(&owner, apex) || owner == apex {
                continue;
            }
            let mut kept: Vec<Record> =
                records.iter().filter(|r| r.owner.eq_ignore_ascii_case(&owner)).cloned().collect();
            if rng.one_in(2) {
                kept.clear();
            }
            if rng.one_in(2) {
                let more = random_records(rng, &owner, apex);
                kept.extend(more.into_iter().filter(|r| r.owner == owner && !is_dnssec(r.rtype)));
            }
            records.retain(|r| !r.owner.eq_ignore_ascii_case(&owner));
            records.extend(kept.iter().cloned());
            let plain = |r: &Record| edit::Record { rtype: r.rtype, ttl: r.ttl, rdata: r.rdata.clone().into() };
            names.insert(owner.into(), kept.iter().map(plain).collect());
        }
        let edits = vec![Edit { apex, names, may_be_named: &|_| true }];
        if self.lay(Change { whole: Builder::new(SEED), gone: vec![], edits }, &after) {
            self.model = after;
        }
    }

    /// Names worth asking for: owners, what lies above and below them, and below hosts.
    fn names(&self) -> BTreeSet<Vec<u8>> {
        let mut names = BTreeSet::new();
        for records in self.model.values() {
            for r in records {
                let mut rest = &r.owner.to_ascii_lowercase()[..];
                loop {
                    names.insert(rest.to_vec());
                    names.insert([b"\x02nx", rest].concat());
                    let label = rest[0] as usize;
                    if label == 0 {
                        break;
                    }
                    rest = &rest[label + 1..];
                }
            }
        }
        names.extend(APEXES.iter().map(|a| name(a)));
        names.retain(|n| n.len() <= 255);
        names
    }
}

fn query(name: &[u8], rtype: Rtype, with_do: bool) -> Vec<u8> {
    let mut q = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    q.extend_from_slice(name);
    q.extend(rtype.to_be_bytes());
    q.extend([0, 1, 0, 0, 41, 4, 208, 0, 0, if with_do { 0x80 } else { 0 }, 0, 0, 0]);
    q
}

fn check(twins: &Twins, before: &BTreeSet<Vec<u8>>, seed: u64) -> usize {
    let (octets, _, complaints) = filled(&twins.model).finish();
    assert!(complaints.is_empty());
    let mut fresh = Server::with(octets, Setup::default());
    let mut changed = Server::over(twins.octets.clone(), twins.image().header().clone(), Setup::default());
    let mut asked = 0;
    for name in twins.names().union(before) {
        for rtype in TYPES {
            for with_do in [false, true] {
                let q = query(name, rtype, with_do);
                let (expect, got) = (fresh.message(&q), changed.message(&q));
                asked += 1;
                if expect != got {
                    let text = |a: Option<Vec<u8>>| a.map_or("silence".into(), |a| sim::message::to_text(&a));
                    let name = wire::Name::from_wire(name).unwrap();
                    panic!("seed {seed}, {name} type {rtype}: expected\n{}\nbut got\n{}", text(expect), text(got));
                }
            }
        }
    }
    asked
}

/// Owner, type, TTL, rdata.
type Plain = (Vec<u8>, Rtype, u32, Vec<u8>);

/// All records of all zones, sorted by apex.
fn dump(image: &Image<&[u8]>) -> BTreeMap<Vec<u8>, Vec<Plain>> {
    let mut all = BTreeMap::new();
    for zone in image.view().zones() {
        let zone = zone.unwrap();
        let mut records = vec![];
        zone.for_each_record(&mut |o, t, ttl, d| records.push((o.to_vec(), t, ttl, d.to_vec()))).unwrap();
        all.insert(zone.apex().unwrap().apex_name().unwrap().to_vec(), records);
    }
    all
}

#[test]
fn an_image_with_changes_answers_as_one_built_of_them() {
    let seeds = std::env::var("CHANGES_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(40);
    let (mut laid, mut rebuilt, mut asked) = (0, 0, 0);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let mut twins = Twins::new(&mut rng);
        let mut before = twins.names();
        for _ in 0..1 + rng.below(8) {
            twins.step(&mut rng);
            before.extend(twins.names());
            asked += check(&twins, &before, seed);
        }
        let (octets, _, _) = filled(&twins.model).finish();
        assert!(dump(&Image::open(&octets[..]).unwrap()) == dump(&twins.image()), "seed {seed}: the records differ");
        (laid, rebuilt) = (laid + twins.laid, rebuilt + twins.rebuilt);
    }
    println!("{laid} changes laid over, {rebuilt} took a new image; {asked} questions");
    assert!(laid > rebuilt && laid as u64 > seeds);
}
