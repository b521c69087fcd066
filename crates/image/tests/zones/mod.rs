//! Random zones of every kind of node: cuts with glue of every kind, occluded names, DNAME, wildcards, empty non-terminals,
//! zones below one another, duplicates, unequal TTLs, NSEC and NSEC3; now and then one that cannot be served.

use wire::rtype::{self, Rtype};

#[derive(Clone)]
pub struct Record {
    pub owner: Vec<u8>,
    pub rtype: Rtype,
    pub ttl: u32,
    pub rdata: Vec<u8>,
}

#[derive(Clone)]
pub struct Zone {
    pub apex: Vec<u8>,
    pub records: Vec<Record>,
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Rng(u64);

impl Rng {
    #[allow(dead_code)]
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

pub fn name(text: &str) -> Vec<u8> {
    wire::Name::from_text(text.as_bytes(), Some(&wire::Name::ROOT)).unwrap().bytes().to_vec()
}

pub const APEXES: [&str; 9] = [
    "example.",
    "sub.example.",
    "a.b.example.",
    "deep.er.sub.example.",
    "test.",
    "x.y.z.test.",
    "other.",
    "b.example.",
    ".",
];
const LABELS: [&str; 14] =
    ["a", "b", "c", "sub", "er", "deep", "*", "ns1", "www", "\\000", "a\\001", "longlabel1", "longlabel2", "Xy"];
const CASE_KEPT: usize = 4;

/// Zones of a seed: one to six, in any order, at times one of them twice.
#[allow(dead_code)]
pub fn random(seed: u64) -> Vec<Zone> {
    let mut rng = Rng(seed);
    (0..1 + rng.below(6)).map(|_| zone(&mut rng)).collect()
}

#[allow(dead_code)]
fn zone(rng: &mut Rng) -> Zone {
    let apex = name(APEXES[rng.below(APEXES.len())]);
    zone_of(rng, apex)
}

pub fn zone_of(rng: &mut Rng, apex: Vec<u8>) -> Zone {
    let mut z = Zone { apex: apex.clone(), records: vec![] };
    let add = |z: &mut Zone, owner: &[u8], rtype, ttl, rdata: Vec<u8>| {
        z.records.push(Record { owner: owner.to_vec(), rtype, ttl, rdata });
    };
    let mut soa = [below(rng, &apex), below(rng, &apex)].concat();
    soa.extend([0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 6, 0, 0, 0, rng.below(200) as u8]);
    if !rng.one_in(40) {
        add(&mut z, &apex, rtype::SOA, 100, soa);
    }
    for _ in 0..1 + rng.below(4) {
        let target = below(rng, &apex);
        add(&mut z, &apex, rtype::NS, 3600, target);
    }
    if rng.one_in(3) {
        add(&mut z, &apex, rtype::RRSIG, 60, signature(rng, rtype::SOA, &apex));
        add(&mut z, &apex, rtype::NSEC, 60, vec![0, 0, 1, 0x40]);
    }
    if rng.one_in(3) {
        add(&mut z, &apex, rtype::NSEC3PARAM, 0, vec![1, 0, 0, 2, 2, 0xAB, 0xCD]);
    }
    let mut owner = below(rng, &apex);
    let many = if rng.one_in(8) { 400 } else { 60 };
    for _ in 0..rng.below(many) {
        if !rng.one_in(3) {
            owner = below(rng, &apex);
        }
        let at = z.records.len();
        for r in random_records(rng, &owner, &apex) {
            z.records.push(r);
        }
        if rng.one_in(9) {
            let again = &z.records[at];
            let (owner, rtype, rdata) = (again.owner.clone(), again.rtype, again.rdata.clone());
            add(&mut z, &owner, rtype, 7, rdata);
        }
    }
    if rng.one_in(2) {
        for i in (1..z.records.len()).rev() {
            z.records.swap(i, rng.below(i + 1));
        }
    }
    z
}

/// A name of the zone, at times one far away.
pub fn below(rng: &mut Rng, apex: &[u8]) -> Vec<u8> {
    let end = if rng.one_in(10) { name("elsewhere.invalid.") } else { apex.to_vec() };
    let mut out = vec![];
    for _ in 0..rng.below(4) {
        let label = name(LABELS[rng.below(LABELS.len())]);
        out.extend_from_slice(&label[..label.len() - 1]);
    }
    out.extend(end);
    if rng.one_in(CASE_KEPT) {
        out.make_ascii_uppercase();
    }
    out
}

pub fn signature(rng: &mut Rng, covered: Rtype, apex: &[u8]) -> Vec<u8> {
    let mut out = covered.to_be_bytes().to_vec();
    out.extend([13, 1, 0, 0, 0, 60, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1]);
    out.extend_from_slice(apex);
    out.extend((0..8 + rng.below(60)).map(|i| i as u8));
    out
}

/// Signs a zone as this matters for answers: signatures at the apex, and NSEC or NSEC3 at most names, each of which has the types
/// that it happens to have. That they lead to one another nobody who answers looks at.
#[allow(dead_code)]
pub fn sign(rng: &mut Rng, zone: &mut Zone) {
    let apex = zone.apex.clone();
    let mut owners: Vec<Vec<u8>> = zone.records.iter().map(|r| r.owner.to_ascii_lowercase()).collect();
    owners.retain(|owner| owner.ends_with(&apex));
    owners.sort();
    owners.dedup();
    let mut add =
        |owner: &[u8], rtype, rdata| zone.records.push(Record { owner: owner.to_vec(), rtype, ttl: 60, rdata });
    add(&apex, rtype::RRSIG, signature(rng, rtype::SOA, &apex));
    let with_nsec = rng.one_in(2);
    let hashing = if with_nsec { Hashing::usual() } else { Hashing::random(rng) };
    if !with_nsec {
        add(&apex, rtype::NSEC3PARAM, hashing.param());
    }
    owners.retain(|owner| *owner == apex || !rng.one_in(6));
    for owner in &owners {
        let covered = if with_nsec { rtype::NSEC } else { rtype::NSEC3 };
        let at = if with_nsec { owner.clone() } else { hashing.owner_of(owner, &apex) };
        let rdata = if with_nsec { vec![0, 0, 1, 0x40] } else { hashing.nsec3() };
        add(&at, covered, rdata);
        add(&at, rtype::RRSIG, signature(rng, covered, &apex));
    }
}

/// How a zone hashes names for NSEC3, and whether that opts out (RFC 5155 sections 3.1 and 6).
pub struct Hashing {
    is_opt_out: bool,
    iterations: u8,
    salt: Vec<u8>,
}

#[allow(dead_code)]
impl Hashing {
    /// That of NSEC3 here and there, which no chain holds.
    fn usual() -> Hashing {
        Hashing { is_opt_out: true, iterations: 2, salt: vec![0xAB, 0xCD] }
    }

    fn random(rng: &mut Rng) -> Hashing {
        let salt_len = [0, 1, 2, 8, 37][rng.below(5)];
        let salt = (0..salt_len).map(|_| rng.below(256) as u8).collect();
        Hashing { is_opt_out: rng.one_in(2), iterations: [0, 1, 2, 7][rng.below(4)], salt }
    }

    /// That of a zone, if it has any. Whether it opts out, each of its NSEC3 says for itself; these do as the first.
    pub fn of(zone: &[Record], apex: &[u8]) -> Hashing {
        let param = zone.iter().find(|r| r.rtype == rtype::NSEC3PARAM && r.owner == apex);
        let Some(param) = param else { return Hashing::usual() };
        let first = zone.iter().find(|r| r.rtype == rtype::NSEC3);
        let is_opt_out = first.is_none_or(|r| r.rdata[1] == 1);
        Hashing { is_opt_out, iterations: param.rdata[3], salt: param.rdata[5..].to_vec() }
    }

    /// The rdata of the NSEC3PARAM, whose flags are none; those of the NSEC3 begin alike.
    fn param(&self) -> Vec<u8> {
        [&[1, 0, 0, self.iterations, self.salt.len() as u8][..], &self.salt].concat()
    }

    fn nsec3(&self) -> Vec<u8> {
        let mut rdata = [&self.param()[..], &[20], &[7; 20], &[0, 1, 0x40]].concat();
        rdata[1] = u8::from(self.is_opt_out);
        rdata
    }

    /// The owner of the NSEC3 of a name.
    pub fn owner_of(&self, name: &[u8], apex: &[u8]) -> Vec<u8> {
        let hash = image::zone::nsec3_hash(name, self.iterations.into(), &self.salt);
        let mut owner = vec![32];
        for five in hash.chunks(5) {
            let bits = five.iter().fold(0u64, |bits, &octet| bits << 8 | u64::from(octet));
            owner.extend((0..8).map(|i| b"0123456789abcdefghijklmnopqrstuv"[(bits >> (35 - 5 * i)) as usize & 31]));
        }
        owner.extend_from_slice(apex);
        owner
    }

    /// An NSEC3 with its signature, for one of these names.
    pub fn nsec3_at(&self, rng: &mut Rng, owner: &[u8], apex: &[u8]) -> Vec<Record> {
        let at = |rtype, rdata| Record { owner: owner.to_vec(), rtype, ttl: 60, rdata };
        vec![at(rtype::NSEC3, self.nsec3()), at(rtype::RRSIG, signature(rng, rtype::NSEC3, apex))]
    }
}

/// An owner of an NSEC3, right below the apex or, oddly, farther down.
fn hashed(rng: &mut Rng, apex: &[u8]) -> Vec<u8> {
    let digit = |rng: &mut Rng| b"0123456789abcdefghijklmnopqrstuv"[rng.below(32)];
    let mut out = vec![32];
    out.extend((0..32).map(|_| digit(rng)));
    if rng.one_in(5) {
        out.extend(b"\x03odd");
    }
    out.extend_from_slice(apex);
    out
}

pub fn random_records(rng: &mut Rng, owner: &[u8], apex: &[u8]) -> Vec<Record> {
    let ttl = [60, 60, 3600, 0][rng.below(4)];
    let record = |rtype, rdata| Record { owner: owner.to_vec(), rtype, ttl, rdata };
    let many = |rng: &mut Rng, rtype, before: &[u8], n: usize| -> Vec<Record> {
        (0..1 + rng.below(n)).map(|_| record(rtype, [before, &below(rng, apex)[..]].concat())).collect()
    };
    match rng.below(18) {
        0..=2 => vec![record(rtype::A, vec![192, 0, 2, rng.below(256) as u8])],
        3 => vec![record(rtype::AAAA, (0..16).map(|_| rng.below(256) as u8).collect())],
        4..=6 => many(rng, rtype::NS, b"", 5),
        7 => many(rng, rtype::MX, b"\x00\x0A", 6),
        8 if rng.one_in(90) => many(rng, rtype::CNAME, b"", 1),
        8 if rng.one_in(2) => {
            let (owner, rdata) = ([b"\x05alias\x01", &[rng.below(256) as u8][..], owner].concat(), below(rng, apex));
            vec![Record { owner, rtype: rtype::CNAME, ttl, rdata }]
        }
        8 => many(rng, rtype::PTR, b"", 3),
        9 if rng.one_in(3) && (owner != apex || rng.one_in(9)) => many(rng, rtype::DNAME, b"", 1),
        9 => many(rng, rtype::SVCB, b"\x00\x00", 2),
        10 => many(rng, rtype::SRV, b"\x00\x01\x00\x02\x00\x35", 3),
        11 => many(rng, rtype::HTTPS, b"\x00\x01", 2),
        12 => vec![record(rtype::TXT, [vec![200], vec![b'x'; 200]].concat())],
        13 => {
            let first = below(rng, apex);
            many(rng, rtype::MINFO, &first, 2)
        }
        14 => {
            let covered = [rtype::A, rtype::NS, rtype::MX, rtype::NSEC, rtype::DS, rtype::AAAA][rng.below(6)];
            vec![record(rtype::RRSIG, signature(rng, covered, apex))]
        }
        15 => vec![record(rtype::NSEC, vec![0, 0, 1, 0x40]), record(rtype::RRSIG, signature(rng, rtype::NSEC, apex))],
        16 => {
            let owner = hashed(rng, apex);
            let rdata = Hashing::usual().nsec3();
            let covers = signature(rng, rtype::NSEC3, apex);
            let at = |rtype, rdata| Record { owner: owner.clone(), rtype, ttl, rdata };
            let below =
                Record { owner: [b"\x01x", &owner[..]].concat(), rtype: rtype::A, ttl, rdata: vec![192, 0, 2, 1] };
            let mut all = vec![at(rtype::NSEC3, rdata), at(rtype::RRSIG, covers)];
            all.extend(rng.one_in(5).then_some(below));
            all
        }
        _ => vec![record(rtype::DS, vec![1, 2, 13, 2, rng.below(256) as u8])],
    }
}
