//! A new text of a large zone beside the zone that is served: which names are others now. Nothing is collected, sorted or laid
//! out but what differs.
//!
//! ```text
//! the pieces of the text before are known     those are parsed that are others, and those that hold the same owners
//! they are not, or much is another            all is parsed, beside the nodes of the image (`collation`)
//! a node whose name got no record             is no more
//! ```
//!
//! Never says what a change means: that is for whoever lays it.
//!
//! Bound: that of `collation`, and that of `pieces`.

use crate::config::Zone;
use crate::images::manifest::Entry;
use crate::log;
use crate::update::unwritten::Names;
use crate::zonetext::collation::{Collation, Ground, KEPT};
use crate::zonetext::pieces::cutting::Cutting;
use crate::zonetext::pieces::notes::{Hashing, Notes};
use crate::zonetext::pieces::{Beside, Candidates, Pieces};
use crate::zonetext::reading::hands;
use crate::zonetext::{self, Opened, Sources};
use audit::Loss;
use audit::links::Hashes;
use image::edit::{Hidden, Record, host_of, records_of};
use image::format::Damaged;
use image::zone::SIGNED;
use image::{Image, Node, Zone as ImageZone};
use std::collections::HashSet;
use std::collections::btree_map::Entry as Known;
use store::Stretch;
use transfer::{Diff, FirstTtls, canonical};
use wire::name::NAME_MAX;
use wire::rtype::{CNAME, DNSKEY, DS, NS, SOA};

pub struct Edition {
    pub entry: Entry,
    /// Names that are others, with all their records from now on; none: the name is no more.
    pub names: Names,
    pub diff: Diff,
    pub loss: Loss,
    /// A delegation that goes on would lose its DS; or the zone a key.
    pub is_less_secure: bool,
    /// Of the new text.
    pub pieces: Option<Pieces>,
    /// Of its names: whoever lays them has others wait.
    pub hashes: Hashes,
}

/// What came of reading a text.
struct Collated<'g> {
    collations: Vec<Collation<'g>>,
    sources: Sources,
    pieces: Option<Pieces>,
    /// Nodes of names of which the text holds nothing any more; None: any may be one.
    gone: Option<Vec<Node<'g>>>,
}

impl Edition {
    /// None: the zone has to be read as a whole, because its text is wrong, or much of it is another, or it is not one of
    /// which single names can be laid. `known`: the pieces of what is served.
    pub fn of(zone: &Zone, now: &Image<Stretch>, known: Option<Pieces>, cutting: Cutting) -> Option<Edition> {
        let served = crate::images::laying::zone(now.view(), &zone.apex)?;
        if !served.is_editable().ok()? {
            return None;
        }
        let ground = Ground::new(now, served).ok()?;
        let opened = zonetext::open_settled(zone).ok()?;
        let by_pieces = known.and_then(|known| Edition::by_pieces(zone, &opened, &ground, &known));
        by_pieces.or_else(|| {
            ground.forget();
            Edition::from(collate(&opened, &ground, cutting)?, zone, &ground)
        })
    }

    /// None: all of the text must be read.
    fn by_pieces(zone: &Zone, opened: &Opened<'_>, ground: &Ground<'_>, known: &Pieces) -> Option<Edition> {
        Edition::from(collate_some(zone, opened, ground, known)?, zone, ground)
    }

    fn from(collated: Collated<'_>, zone: &Zone, ground: &Ground<'_>) -> Option<Edition> {
        let Collated { collations, sources, pieces, gone } = collated;
        if ground.is_much() {
            return None;
        }
        let found = settled(ground, collations, gone).ok().filter(|f| !ground.is_much() && !f.is_ambiguous)?;
        // Nobody has counted which records a signer has made: with three algorithms and NSEC3 up to 511 for one, whose name has 126 empty ones above it.
        let made = if ground.zone.is(SIGNED).ok()? { 512 } else { 1 };
        let loss = Loss { records: found.lost, of: ground.zone.records().ok()? / made };
        let entry = Entry::read(zone, sources);
        let loses_key = found.removed.iter().any(|r| r.rtype == DNSKEY);
        let hashes = Hashes::of(&ground.zone, found.names.keys().map(|name| &**name)).ok()?;
        let edition = Edition {
            entry,
            names: found.names,
            diff: Diff::between(found.removed, found.added).at(ground.zone.serial().ok()?),
            loss,
            is_less_secure: found.is_less_secure || loses_key,
            pieces,
            hashes,
        };
        Some(edition).filter(|edition| !edition.has_named_alias(&ground.zone))
    }

    /// An alias comes or goes where others may name a host: that makes errors of records that are not looked at again.
    fn has_named_alias(&self, before: &ImageZone<'_>) -> bool {
        let changes = || self.diff.removed().iter().chain(self.diff.added());
        let hosts: HashSet<Vec<u8>> =
            changes().filter_map(|r| host_of(r.rtype, r.rdata())).map(<[u8]>::to_ascii_lowercase).collect();
        let may_be_named = |host: &[u8]| hosts.contains(host) || before.is_named(host).unwrap_or(true);
        let mut aliases = changes().filter(|r| r.rtype == CNAME);
        aliases.any(|r| r.owner().starts_with(b"\x01*") || may_be_named(r.owner()))
    }

    /// The serials before and after; None: the zone keeps its own.
    pub fn serials(&self) -> Option<(u32, u32)> {
        self.diff.added().iter().any(|r| r.rtype == SOA).then_some((self.diff.from, self.diff.to))
    }
}

/// Reads all of the text, in parts if that can be, and compares as it goes.
fn collate<'g>(opened: &Opened<'_>, ground: &'g Ground<'g>, cutting: Cutting) -> Option<Collated<'g>> {
    let add = |part: &mut Collation<'_>, r: zonefile::Record<'_>| {
        part.record(&r);
        Ok(())
    };
    let (mut collations, reading, pieces) =
        opened.read_noting(hands(), cutting, || ground.forget(), || Collation::new(ground), add);
    collations.iter_mut().for_each(Collation::end);
    let sources = reading.sources;
    (reading.report.errors == 0).then_some(Collated { collations, sources, pieces, gone: None })
}

/// Reads those pieces of the text that are others than they were, and those that hold records of the same owners. None: all
/// of the text must be read.
fn collate_some<'g>(zone: &Zone, opened: &Opened<'_>, ground: &'g Ground<'g>, known: &Pieces) -> Option<Collated<'g>> {
    let (text, hashing) = (opened.text(), Hashing::new(known.cutting.seed, &zone.apex));
    let beside = Beside::of(known, text)?;
    let mut notes = Notes::new(hashing);
    for piece in beside.unknown() {
        let is_good = opened.read_piece(piece.clone(), &known.inside, |r| notes.record(r));
        if !is_good {
            return None;
        }
        notes.end_piece(text, piece, &known.cutting);
    }
    if notes.is_full {
        return None;
    }
    let candidates = beside.candidates(&notes, &zone.apex);
    let wanted = beside.with(&candidates);
    let read: usize = wanted.iter().map(|piece| piece.len()).sum();
    if read > text.len() / 2 {
        return None;
    }
    let (mut collation, mut seen) = (Collation::new(ground), Seen::new(hashing, &candidates));
    for piece in wanted {
        let mut take = |r: &zonefile::Record<'_>| {
            if seen.is_wanted(r.owner) {
                collation.record(r)
            }
        };
        if !opened.read_piece(piece, &known.inside, &mut take) {
            return None;
        }
    }
    collation.end();
    let gone: HashSet<u64> = candidates.all().filter(|owner| !seen.owners.contains(owner)).collect();
    let gone = ground.zone.nodes_hashed(gone, seen.owners.iter().copied()).ok()?;
    let facts: [(&str, &dyn std::fmt::Display); 4] = [
        ("zone", &crate::images::name(&zone.apex)),
        ("octets", &text.len()),
        ("unlike", &beside.unknown().count()),
        ("parsed", &read),
    ];
    log::info("a long zone file was compared by its pieces", &facts);
    // What is read where a mapped file was cut off is no list of owners.
    let sources = opened.only_source().filter(|_| known.base.is_sound())?;
    Some(Collated { collations: vec![collation], sources, pieces: beside.pieces(&notes), gone: Some(gone) })
}

/// Which of the candidates have records.
struct Seen<'c> {
    hashing: Hashing<'c>,
    candidates: &'c Candidates,
    owners: HashSet<u64>,
    /// The last owner, as it was written, and whether it is one of them.
    last: (Vec<u8>, bool),
}

impl<'c> Seen<'c> {
    fn new(hashing: Hashing<'c>, candidates: &'c Candidates) -> Seen<'c> {
        Seen { hashing, candidates, owners: HashSet::new(), last: (vec![], false) }
    }

    fn is_wanted(&mut self, owner: &[u8]) -> bool {
        if self.last.0 != owner {
            let hash = self.hashing.owner(owner);
            self.last = (owner.into(), self.candidates.has(hash));
            if self.last.1 {
                self.owners.insert(hash);
            }
        }
        self.last.1
    }
}

/// What all parts together say.
#[derive(Default)]
struct Found {
    names: Names,
    removed: Vec<transfer::Record>,
    added: Vec<transfer::Record>,
    /// Records that RRsets have less of.
    lost: u64,
    is_less_secure: bool,
    /// What a name is to be depends on what was forgotten.
    is_ambiguous: bool,
}

fn settled(ground: &Ground<'_>, collations: Vec<Collation<'_>>, gone: Option<Vec<Node<'_>>>) -> Result<Found, Damaged> {
    let mut accounted: u64 = collations.iter().map(|c| c.ticked).sum();
    if collations.iter().any(|c| c.is_damaged) {
        return Err(Damaged);
    }
    let (mut found, hidden) = (Found::default(), Hidden::default());
    for (name, mut records) in gathered(collations) {
        let node = ground.zone.node_by(&name, &hidden)?;
        let before = node.map_or(Ok(vec![]), |node| records_of(&node, &name))?;
        match node {
            // Another run was all that the node holds; which of them came first, nobody knows any more.
            Some(node) if !ground.tick(&node) => {
                records.splice(0..0, before.iter().cloned());
                found.is_ambiguous |= !has_one_ttl_a_type(&records);
            }
            Some(_) => accounted += before.len() as u64,
            None => {}
        }
        found.take(name, &before, records);
    }
    match gone {
        Some(gone) => gone.into_iter().try_for_each(|node| found.take_gone(ground, node))?,
        None if accounted != ground.zone.records()? => found.take_what_is_gone(ground)?,
        None => {}
    }
    Ok(found)
}

/// What each name was given beside its node, in the order of the text.
fn gathered(collations: Vec<Collation<'_>>) -> Names {
    let mut names = Names::new();
    for (name, records) in collations.into_iter().flat_map(|c| c.unlike) {
        match names.entry(name) {
            Known::Vacant(place) => drop(place.insert(records)),
            Known::Occupied(mut known) => known.get_mut().extend(records),
        }
    }
    names
}

impl Found {
    /// A name that may have changed.
    fn take(&mut self, name: Box<[u8]>, before: &[Record], after: Vec<Record>) {
        let (old, new) = (canonical_of(&name, before), canonical_of(&name, &after));
        if old == new {
            return;
        }
        let has = |all: &[Record], rtype| all.iter().any(|r| r.rtype == rtype);
        self.is_less_secure |= has(before, DS) && has(&after, NS) && !has(&after, DS);
        self.lost += lost(&old, &new);
        self.removed.extend(old.iter().filter(|r| new.binary_search(r).is_err()).cloned());
        self.added.extend(new.iter().filter(|r| old.binary_search(r).is_err()).cloned());
        self.names.insert(name, after);
    }

    /// Names that the text does not hold.
    fn take_what_is_gone(&mut self, ground: &Ground<'_>) -> Result<(), Damaged> {
        for node in ground.zone.nodes() {
            let node = node?;
            if ground.is_ticked(&node) || node.rrsets().next().is_none() {
                continue;
            }
            self.take_gone(ground, node)?;
            if ground.is_much() {
                break;
            }
        }
        Ok(())
    }

    fn take_gone(&mut self, ground: &Ground<'_>, node: Node<'_>) -> Result<(), Damaged> {
        let mut room = [0; NAME_MAX];
        let name = ground.zone.name_of(&node, &mut room)?;
        let before = records_of(&node, name)?;
        if ground.count(KEPT + before.iter().map(|r| KEPT + r.rdata.len()).sum::<usize>()) {
            self.take(name.into(), &before, vec![]);
        }
        Ok(())
    }
}

fn has_one_ttl_a_type(records: &[Record]) -> bool {
    let mut ttls = FirstTtls::default();
    records.iter().all(|r| ttls.of(r.rtype, r.ttl, &r.rdata) == r.ttl)
}

/// How many records the RRsets of a name have less; both in order.
fn lost(old: &[transfer::Record], new: &[transfer::Record]) -> u64 {
    let weighed = old.chunk_by(|a, b| a.rtype == b.rtype).filter(|set| audit::is_weighed(set[0].rtype));
    let less = weighed.map(|set| set.len().saturating_sub(new.iter().filter(|r| r.rtype == set[0].rtype).count()));
    less.sum::<usize>() as u64
}

/// Records as an image has them: each once, an RRset with one TTL.
fn canonical_of(name: &[u8], records: &[Record]) -> Vec<transfer::Record> {
    let mut ttls = FirstTtls::default();
    let mut all = Vec::with_capacity(records.len());
    for r in records {
        all.extend(canonical(name, r.rtype, ttls.of(r.rtype, r.ttl, &r.rdata), &r.rdata));
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod pieces_tests;
#[cfg(test)]
mod tests;
