//! Zones that change: an image with changes laid over it answers every name, type and DO as an image does that was built
//! of the changed zones, after any sequence of changes.

#[path = "../../image/tests/zones/mod.rs"]
mod zones;

use front::Setup;
use image::edit::{self, Edit};
use image::followers::Queue;
use image::patch::{Change, Draft, Limits, PLACE, Unable};
use image::{Builder, Complaint, Image};
use sim::Server;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use wire::rtype::{self, Rtype};
use zones::{APEXES, Hashing, Record, Rng, Zone, below, name, random_records, signature, zone_of};

const SEED: u64 = 11;
const TYPES: [Rtype; 16] = [
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
    rtype::SVCB,
    rtype::NSEC3PARAM,
    rtype::NSEC,
    rtype::RRSIG,
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

/// A zone: unsigned, signed, or with what belongs to signed zones here and there.
fn some_zone(rng: &mut Rng) -> Zone {
    let apex = name(APEXES[rng.below(APEXES.len())]);
    let kind = rng.below(8);
    let mut zone = zone_of(rng, apex);
    zone.records.retain(|r| kind == 0 || !is_dnssec(r.rtype));
    if kind > 4 {
        zones::sign(rng, &mut zone);
    }
    zone
}

fn has_chains(image: &Image<&[u8]>, apex: &[u8]) -> bool {
    let node = image.view().find_whole(apex).unwrap();
    node.is_some_and(|node| node.rrset(rtype::NSEC3PARAM).unwrap().is_some())
}

fn is_dnssec(rtype: Rtype) -> bool {
    matches!(rtype, rtype::NSEC3 | rtype::NSEC3PARAM | rtype::RRSIG | rtype::NSEC)
}

/// A change laid out, and what kind it is of.
struct Drafted {
    draft: Result<Draft, Unable>,
    /// Of names of zones without signatures.
    is_plain: bool,
    of_signed: usize,
    of_nested: usize,
}

/// Zones as they are, and the image that has followed them.
struct Twins {
    model: Zones,
    octets: Vec<u8>,
    header: Option<image::format::Header>,
    /// Changes that were laid over the image, and those that took a new one.
    laid: usize,
    rebuilt: usize,
    /// Changes that made a zone wrong.
    refused: usize,
    /// Those that were laid with another SOA, of names of signed zones, and of names at or below the apex of another zone.
    renewed: usize,
    signed: usize,
    nested: usize,
    /// Those of another zone that were laid between the two halves of one.
    meanwhile: usize,
    /// Names that are to be laid afterwards, and how many it took so far.
    left: Queue,
    followed: usize,
}

impl Twins {
    fn new(rng: &mut Rng) -> Twins {
        let mut model = Zones::new();
        for _ in 0..1 + rng.below(5) {
            let Zone { apex, records } = some_zone(rng);
            model.insert(apex, records);
        }
        delegate(rng, &mut model);
        let (octets, _, complaints) = filled(&model).finish();
        complaints.iter().for_each(|c| drop(model.remove(c.zone.bytes())));
        Twins {
            model,
            octets,
            header: None,
            laid: 0,
            rebuilt: 0,
            refused: 0,
            renewed: 0,
            signed: 0,
            nested: 0,
            meanwhile: 0,
            left: Queue::default(),
            followed: 0,
        }
    }

    fn image(&self) -> Image<&[u8]> {
        match &self.header {
            Some(header) => Image::overlaid(&self.octets, header.clone()),
            None => Image::open(&self.octets[..]).unwrap(),
        }
    }

    /// Lays a change over the image; false: some zone is wrong, and nothing has changed.
    fn lay(&mut self, change: Change<'_>, after: &Zones) -> bool {
        let drafted = self.draft(change);
        self.settle(drafted, after)
    }

    /// Lays a change out.
    fn draft(&self, change: Change<'_>) -> Drafted {
        let image = self.image();
        let is_zone = |e: &Edit<'_>, marks| {
            let apex = image.view().find_whole(e.apex).unwrap();
            apex.is_some_and(|apex| apex.zone().and_then(|zone| zone.is(marks)).unwrap())
        };
        let of_signed = usize::from(change.edits.iter().any(|e| is_zone(e, image::zone::SIGNED)));
        // Names of zones without signatures, whatever lies below these.
        let has_signing = |e: &Edit<'_>| {
            is_zone(e, image::zone::SIGNED | image::zone::HASHED)
                || has_chains(&image, e.apex)
                || e.names.values().flatten().any(|r| is_dnssec(r.rtype))
        };
        let is_of_names = change.whole.apexes().next().is_none() && change.gone.is_empty();
        let is_plain = is_of_names && !change.edits.iter().any(has_signing);
        let is_nested = |e: &Edit<'_>| e.names.keys().any(|name| self.is_of_another(name, e.apex));
        let of_nested = usize::from(change.edits.iter().any(is_nested));
        let draft = Draft::of(image.view(), change, &mut |_| None);
        Drafted { draft, is_plain, of_signed, of_nested }
    }

    /// Lays what was laid out over the image as it is by now, as `lay` has it.
    fn settle(&mut self, drafted: Drafted, after: &Zones) -> bool {
        let Drafted { draft, is_plain, of_signed, of_nested } = drafted;
        let place = (self.octets.len() as u64).next_multiple_of(PLACE);
        let laid = draft.and_then(|mut draft| draft.lay(self.image().view(), place));
        match laid {
            Ok(laid) if laid.complaints.is_empty() => {
                self.octets.resize(place as usize, 0);
                self.octets.extend_from_slice(&laid.octets);
                let header = match self.header.take() {
                    Some(header) => header,
                    None => Image::open(&self.octets[..laid.place as usize])
                        .map_or_else(|_| self.file_header(), |i| i.header().clone()),
                };
                let image = Image::overlaid(&self.octets[..], header);
                self.header = Some(laid.overlay(image.view()).unwrap());
                laid.followers.into_iter().for_each(|left| self.left.push(left));
                self.laid += 1;
                self.signed += of_signed;
                self.nested += of_nested;
                true
            }
            Ok(laid) => {
                let apexes = |all: &[Complaint]| all.iter().map(|c| c.zone).collect::<BTreeSet<_>>();
                let (_, _, complaints) = filled(after).finish();
                assert_eq!(apexes(&laid.complaints), apexes(&complaints), "what is wrong with a zone is wrong anew");
                self.refused += 1;
                false
            }
            Err(why) => {
                let (octets, _, complaints) = filled(after).finish();
                if !complaints.is_empty() {
                    // Where the zone above a wrong one changes, too, it is not always said what is wrong.
                    self.refused += 1;
                    return false;
                }
                assert!(!is_plain, "names of zones without signatures take a new image: {why:?}");
                (self.octets, self.header, self.left) = (octets, None, Queue::default());
                self.rebuilt += 1;
                true
            }
        }
    }

    /// Lays some of the names that were left. False: nothing is left.
    fn follow(&mut self, max: usize) -> bool {
        let mut left = std::mem::take(&mut self.left);
        let turn = left.next(self.image().view(), max);
        self.left = left;
        let Some(turn) = turn else { return false };
        let (laid, signed, nested) = (self.laid, self.signed, self.nested);
        let change = Change {
            whole: Builder::new(SEED),
            gone: vec![],
            edits: turn.0.iter().map(|(apex, names)| Edit::again(apex, names.clone())).collect(),
            limits: Limits::MOST,
        };
        let model = self.model.clone();
        assert!(turn.0.is_empty() || self.lay(change, &model), "names as they are make nothing wrong");
        (self.laid, self.signed, self.nested) = (laid, signed, nested);
        self.followed += turn.0.values().map(BTreeSet::len).sum::<usize>();
        true
    }

    /// True for names that a zone below this one has, too.
    fn is_of_another(&self, name: &[u8], apex: &[u8]) -> bool {
        self.model.keys().any(|other| other.len() > apex.len() && wire::name::is_at_or_below(name, other))
    }

    fn file_header(&self) -> image::format::Header {
        let length = image::format::u64_at(&self.octets, 16).unwrap() as usize;
        Image::open(&self.octets[..length]).unwrap().header().clone()
    }

    /// One change: of names of a zone, of whole zones, or of some of each.
    fn step(&mut self, rng: &mut Rng) {
        let (mut after, mut whole) = (self.model.clone(), Builder::new(SEED));
        let (mut gone, mut edited) = (vec![], vec![]);
        let what = rng.below(8);
        if what == 0 || what == 7 {
            replace(rng, &mut whole, &mut after);
        }
        if what == 1 || what == 7 {
            gone.extend(remove(rng, &mut after));
        }
        if what > 1 {
            edited.extend(edit(rng, &self.model, &mut after, b"\0"));
        }
        // Of another zone in the same change; of one below that one, if there is any.
        let (mut both, is_any) = (after.clone(), rng.one_in(2));
        if what > 3
            && let Some((apex, _)) = edited.first()
            && let Some(other) = edit(rng, &self.model, &mut both, if is_any { b"\0" } else { apex })
            && other.0 != *apex
        {
            edited.push(other);
            after = both;
        }
        let limits = Limits { followers: [0, 1, 4, usize::MAX][rng.below(4)], ..Limits::MOST };
        let about: Vec<Vec<u8>> = whole.apexes().chain(gone.iter().map(|apex| &**apex)).map(Vec::from).collect();
        let edits = edited.iter().map(|(apex, names)| Edit::new(apex, names.clone()));
        let drafted = self.draft(Change { whole, gone, edits: edits.collect(), limits });
        let is_about = |apex: &[u8]| about.iter().chain(edited.iter().map(|(apex, _)| apex)).any(|a| a == apex);
        // Names of another zone change before it comes to its place.
        let mut meanwhile = self.model.clone();
        if rng.one_in(3)
            && let Some((apex, names)) = edit(rng, &self.model, &mut meanwhile, b"\0")
            && !is_about(&apex)
        {
            let (laid, rebuilt) = (self.laid, self.rebuilt);
            let change =
                Change { whole: Builder::new(SEED), gone: vec![], edits: vec![Edit::new(&apex, names)], limits };
            if self.lay(change, &meanwhile) {
                after.extend(meanwhile.get(&apex).map(|records| (apex, records.clone())));
                self.model = meanwhile;
            }
            // Of what was laid out for another image nothing is left.
            if self.rebuilt > rebuilt {
                return;
            }
            self.meanwhile += self.laid - laid;
        }
        let laid = self.laid;
        if self.settle(drafted, &after) {
            let is_renewed = edited.iter().any(|(apex, _)| soa(&self.model, apex) != soa(&after, apex));
            self.renewed += usize::from(self.laid > laid && is_renewed);
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

fn soa<'z>(zones: &'z Zones, apex: &[u8]) -> Option<&'z [u8]> {
    let records = zones.get(apex)?;
    records.iter().find(|r| r.rtype == rtype::SOA).map(|r| &r.rdata[..])
}

/// Most zones delegate to those below them.
fn delegate(rng: &mut Rng, zones: &mut Zones) {
    let apexes: Vec<Vec<u8>> = zones.keys().cloned().collect();
    for below in &apexes {
        let above = apexes.iter().filter(|a| a.len() < below.len() && wire::name::is_at_or_below(below, a));
        if let Some(records) = above.max_by_key(|a| a.len()).and_then(|a| zones.get_mut(a)).filter(|_| !rng.one_in(4)) {
            records.extend(delegation(rng, below));
        }
    }
}

/// A delegation to a host below it, perhaps a secure one, and perhaps the host's address.
fn delegation(rng: &mut Rng, owner: &[u8]) -> Vec<Record> {
    let record =
        |owner: &[u8], rtype, rdata: &[u8]| Record { owner: owner.to_vec(), rtype, ttl: 60, rdata: rdata.to_vec() };
    let host = [b"\x03ns1", owner].concat();
    let mut records = vec![record(owner, rtype::NS, &host)];
    if rng.one_in(2) {
        records.push(record(owner, rtype::DS, &[0, 1, 13, 2, rng.below(9) as u8]));
    }
    if rng.one_in(2) {
        records.push(record(&host, rtype::A, &[192, 0, 2, rng.below(9) as u8]));
    }
    records
}

fn some_apex(rng: &mut Rng, zones: &Zones) -> Option<Vec<u8>> {
    zones.keys().nth(rng.below(zones.len())).cloned()
}

/// One or two zones anew: perhaps such as were not there.
fn replace(rng: &mut Rng, whole: &mut Builder, zones: &mut Zones) {
    for _ in 0..1 + rng.below(2) {
        let Zone { apex, records } = some_zone(rng);
        if !whole.apexes().any(|a| a == apex) {
            fill(whole, &apex, &records);
            zones.insert(apex, records);
        }
    }
}

fn remove(rng: &mut Rng, zones: &mut Zones) -> Option<Box<[u8]>> {
    let apex = some_apex(rng, zones)?;
    zones.remove(&apex);
    Some(apex.into())
}

type Names = BTreeMap<Box<[u8]>, Vec<edit::Record>>;

/// Some names of a zone at or below this name that was there before the change; None: it is not there any more.
fn edit(rng: &mut Rng, before: &Zones, after: &mut Zones, within: &[u8]) -> Option<(Vec<u8>, Names)> {
    let nested = |apex: &[u8]| Vec::from_iter(before.keys().filter(|other| wire::name::is_at_or_below(other, apex)));
    let all = nested(within);
    let above = Vec::from_iter(all.iter().filter(|apex| nested(apex).len() > 1));
    let is_above = !above.is_empty() && rng.one_in(2);
    let apex = if is_above { above[rng.below(above.len())] } else { all.get(rng.below(all.len()))? };
    let (apex, nested) = (apex.to_vec(), nested(apex));
    let records = after.get_mut(&apex)?;
    let is_signed = records.iter().any(|r| r.rtype == rtype::RRSIG && r.owner == apex);
    let is_plain = if is_signed { rng.one_in(2) } else { !rng.one_in(8) };
    let (mut names, hashing) = (Names::new(), Hashing::of(records, &apex));
    let many = [1, 4, 4, 24][rng.below(4)];
    for _ in 0..1 + rng.below(many) {
        let owner = match rng.below(6) {
            0 => apex.clone(),
            1 if is_above => {
                let other = nested[rng.below(nested.len())];
                around(rng, other)
            }
            2 | 3 => records[rng.below(records.len())].owner.clone(),
            _ => below(rng, &apex),
        };
        let owner = owner.to_ascii_lowercase();
        if !wire::name::is_at_or_below(&owner, &apex) {
            continue;
        }
        let is_hash = owner != apex && is_signed && rng.one_in(6) && owner.len() < 200;
        let owner = if is_hash { hashing.owner_of(&owner, &apex) } else { owner };
        let is_of_owner = |r: &Record| r.owner.eq_ignore_ascii_case(&owner);
        let mut kept: Vec<Record> = records.iter().filter(|r| is_of_owner(r)).cloned().collect();
        if rng.one_in(2) {
            // An apex has them always; how a zone is signed, changes of names do not say.
            let stays = |r: &Record| matches!(r.rtype, rtype::SOA | rtype::NS) || is_dnssec(r.rtype);
            kept.retain(|r| owner == apex && stays(r));
        }
        if is_hash && rng.one_in(2) {
            kept.extend(hashing.nsec3_at(rng, &owner, &apex));
        } else if rng.one_in(2) {
            let is_plain = is_plain || owner == apex && !rng.one_in(8);
            let more = random_records(rng, &owner, &apex);
            kept.extend(more.into_iter().filter(|r| r.owner == owner && !(is_plain && is_dnssec(r.rtype))));
        }
        let is_delegation = owner != apex && nested.contains(&&owner) && !rng.one_in(4);
        if is_delegation && !kept.iter().any(|r| matches!(r.rtype, rtype::NS | rtype::CNAME)) {
            kept.extend(delegation(rng, &owner).into_iter().filter(|r| r.owner == owner));
        }
        if rng.one_in(64) {
            spoil(rng, &mut kept, &owner, &apex);
        }
        records.retain(|r| !is_of_owner(r));
        records.extend(kept.iter().cloned());
        names.insert(owner.into(), kept.iter().map(plain).collect());
    }
    if rng.one_in(2) {
        renew(rng, records, &apex);
        let of_apex = records.iter().filter(|r| r.owner.eq_ignore_ascii_case(&apex));
        names.insert(apex[..].into(), of_apex.map(plain).collect());
    }
    Some((apex, names))
}

fn plain(r: &Record) -> edit::Record {
    edit::Record { rtype: r.rtype, ttl: r.ttl, rdata: r.rdata.clone().into() }
}

/// Makes of a name what no zone may hold: an apex without SOA or NS; an alias, which others must not stand beside.
fn spoil(rng: &mut Rng, records: &mut Vec<Record>, owner: &[u8], apex: &[u8]) {
    if owner == apex {
        let lost = [rtype::SOA, rtype::NS][rng.below(2)];
        records.retain(|r| r.rtype != lost);
    } else {
        records.push(Record { owner: owner.to_vec(), rtype: rtype::CNAME, ttl: 60, rdata: below(rng, apex) });
    }
}

/// Another version of a zone, as each update makes one: another serial, minimum and TTL, and perhaps another signature.
fn renew(rng: &mut Rng, records: &mut [Record], apex: &[u8]) {
    let signature = rng.one_in(2).then(|| signature(rng, rtype::SOA, apex));
    for r in records.iter_mut().filter(|r| r.owner == apex) {
        let is_signature = r.rtype == rtype::RRSIG && r.rdata.starts_with(&rtype::SOA.to_be_bytes());
        if r.rtype == rtype::SOA {
            let (serial, minimum) = (r.rdata.len() - 17, r.rdata.len() - 1);
            r.rdata[serial] = r.rdata[serial].wrapping_add(1 + rng.below(9) as u8);
            r.rdata[minimum] = r.rdata[minimum].wrapping_add(1 + rng.below(199) as u8);
            r.ttl = (r.ttl + 1 + rng.below(399) as u32) % 400;
        } else if is_signature && let Some(signature) = &signature {
            r.rdata.clone_from(signature);
        }
    }
}

/// A zone's apex, a name on the way to it, or one below it.
fn around(rng: &mut Rng, apex: &[u8]) -> Vec<u8> {
    let labels = apex.first().map_or(0, |&len| usize::from(len) + 1);
    match rng.below(3) {
        0 => apex.to_vec(),
        1 if labels > 1 => apex[labels..].to_vec(),
        _ => [b"\x03ns1", apex].concat(),
    }
}

type Ask = fn(&mut Server, &[u8]) -> Option<Vec<u8>>;

/// How it is asked, and with which EDNS: octets, DO. Streams take whole answers; where a datagram has no room for one, what may be
/// left out is, or TC says that more is missing.
const WAYS: [(Ask, Option<(u16, bool)>); 4] = [
    (Server::message, Some((1232, false))),
    (Server::message, Some((1232, true))),
    (Server::datagram, Some((1232, true))),
    (Server::datagram, None),
];

/// How many questions were asked, and how many answers were truncated.
fn check(twins: &Twins, before: &BTreeSet<Vec<u8>>) -> (usize, usize) {
    let (octets, _, complaints) = filled(&twins.model).finish();
    assert!(complaints.is_empty());
    let mut fresh = Server::with(octets, Setup::default());
    let mut changed = Server::over(twins.octets.clone(), twins.image().header().clone(), Setup::default());
    let (mut asked, mut truncated) = (0, 0);
    for name in twins.names().union(before) {
        for rtype in TYPES {
            for (ask, edns) in WAYS {
                let q = sim::message::packet(name, rtype, edns);
                let (expect, got) = (ask(&mut fresh, &q), ask(&mut changed, &q));
                asked += 1;
                truncated += usize::from(got.as_ref().is_some_and(|answer| answer[2] & 2 != 0));
                if expect != got {
                    let text = |a: Option<Vec<u8>>| a.map_or("silence".into(), |a| sim::message::to_text(&a));
                    let name = wire::Name::from_wire(name).unwrap();
                    panic!("{name} type {rtype} {edns:?}: expected\n{}\nbut got\n{}", text(expect), text(got));
                }
            }
        }
    }
    (asked, truncated)
}

/// Whoever names a host is found by it, and by each wildcard that may come to make it. Returns how many do.
fn check_hosts(image: &Image<&[u8]>) -> usize {
    let mut naming = 0;
    let apexes: Vec<_> = image.view().zones().map(|z| z.unwrap().apex().unwrap().apex_name().unwrap()).collect();
    // To some of these nothing leads, and of those no changes are laid.
    let is_of_another = |name: &[u8], apex: &[u8]| {
        let is_below = |a: &&&[u8]| a.len() > apex.len() && wire::name::is_at_or_below(name, a);
        apexes.iter().any(|a| is_below(&a))
    };
    for zone in image.view().zones().map(Result::unwrap).filter(|zone| zone.is_editable().unwrap()) {
        let has_addresses = |host: &[u8]| {
            let node = zone.node(host).unwrap();
            node.is_some_and(|n| [rtype::A, rtype::AAAA].iter().any(|&t| n.rrset(t).unwrap().is_some()))
        };
        let is_found = |host: &[u8], name: &[u8]| {
            zone.names_that_name(&BTreeSet::from([host.into()]), usize::MAX).unwrap().contains(name)
        };
        let apex = zone.apex().unwrap().apex_name().unwrap();
        let mut pairs = BTreeSet::new();
        zone.for_each_record(&mut |owner, rtype, _, rdata| {
            let host = edit::host_of(rtype, rdata).map(<[u8]>::to_ascii_lowercase);
            let host = host.filter(|host| {
                wire::name::is_at_or_below(host, apex) && !is_of_another(host, apex) && !is_of_another(owner, apex)
            });
            pairs.extend(host.map(|host| (owner.to_vec(), host)));
        })
        .unwrap();
        naming += pairs.len();
        for (owner, host) in pairs {
            assert!(is_found(&host, &owner), "{owner:?} names {host:?}");
            let mut above = &host[host[0] as usize + 1..];
            while !has_addresses(&host) && wire::name::is_at_or_below(above, apex) {
                // What lies between the two is there, and no wildcard further up makes anything below it.
                let is_between = owner != above
                    && wire::name::is_at_or_below(&owner, above)
                    && wire::name::is_at_or_below(&host, &owner);
                let wildcard = [b"\x01*", above].concat();
                assert!(is_between || is_found(&wildcard, &owner), "{owner:?} names {host:?} below {above:?}");
                let Some(rest) = above.get(above[0] as usize + 1..).filter(|rest| !rest.is_empty()) else { break };
                above = rest;
            }
        }
    }
    naming
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
        assert_eq!(zone.records().unwrap(), records.len() as u64);
        all.insert(zone.apex().unwrap().apex_name().unwrap().to_vec(), records);
    }
    all
}

/// The records are those of the zones, whatever is left to be laid.
fn check_records(twins: &Twins) {
    let (octets, _, _) = filled(&twins.model).finish();
    let (fresh, changed) = (dump(&Image::open(&octets[..]).unwrap()), dump(&twins.image()));
    for (apex, records) in &fresh {
        let differs = changed[apex].iter().zip(records).find(|(is, expect)| is != expect);
        assert!(changed[apex].len() == records.len() && differs.is_none(), "in {apex:?} {differs:?}");
    }
    assert_eq!(fresh.len(), changed.len());
}

/// What others have found: a name that went beside a changed delegation to another zone of ours looked like damage.
const FOUND: [u64; 1] = [170_000_009];

#[test]
fn an_image_with_changes_answers_as_one_built_of_them() {
    let counts = [const { Cell::new(0) }; 11];
    sim::seeds::each(sim::seeds::of("CHANGES", 40).chain(FOUND), |seed| {
        let mut rng = Rng::new(seed);
        let mut twins = Twins::new(&mut rng);
        let (mut before, mut asked, mut truncated, mut naming) = (twins.names(), 0, 0, 0);
        // Some sequences are long; those are looked at now and then.
        let (steps, every) = if rng.one_in(16) { (60, 10) } else { (1 + rng.below(8), 1) };
        for step in 1..=steps {
            twins.step(&mut rng);
            before.extend(twins.names());
            // What is left is laid at once, or some of it after what comes next.
            let turns = if step == steps || rng.one_in(2) { usize::MAX } else { rng.below(4) };
            let max = 1 + rng.below(3);
            for _ in 0..turns {
                check_records(&twins);
                if !twins.follow(max) {
                    break;
                }
            }
            if twins.left.is_empty() && (step % every == 0 || step == steps) {
                let more = check(&twins, &before);
                (asked, truncated) = (asked + more.0, truncated + more.1);
                naming += check_hosts(&twins.image());
            }
        }
        check_records(&twins);
        let Twins { laid, rebuilt, refused, renewed, signed, nested, meanwhile, followed, .. } = twins;
        let of_seed = [laid, rebuilt, refused, renewed, signed, nested, meanwhile, followed, asked, truncated, naming];
        for (count, more) in counts.iter().zip(of_seed) {
            count.set(count.get() + more);
        }
    });
    let [laid, rebuilt, refused, renewed, signed, nested, meanwhile, followed, asked, truncated, naming] =
        counts.map(|c| c.get());
    println!(
        "{laid} changes laid over, {renewed} of them with another SOA, {signed} of names of signed zones, {nested} of names that \
         another zone has, {meanwhile} between the two halves of another; {rebuilt} took a new image, {refused} made a zone wrong; {asked} questions, {truncated} answers \
         truncated; {naming} names of hosts, {followed} of them laid afterwards"
    );
    // Many sequences nest zones, and zones that come and go there take a new image, as do names on the way to others.
    assert!(laid > rebuilt && signed > rebuilt / 16 && naming > laid, "{laid} {signed} {rebuilt} {naming}");
    assert!(renewed > laid / 4 && refused > laid / 128, "{renewed} {refused} {laid}");
    assert!(truncated > asked / 1024, "{truncated} {asked}");
    assert!(nested > laid / 64 && meanwhile > laid / 32, "{nested} {meanwhile}");
    assert!(followed > laid / 16, "{followed}");
}
