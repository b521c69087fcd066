//! Names of a zone while an update changes them, RRset by RRset, of which only those are looked at record by record that are to change: a name
//! may hold hundreds of thousands of records, and a message have thousands of items for it. Each costs what it says.

use crate::record::{Bare, folded, is_newer, serial_of};
use crate::update::Refused;
use crate::{Content, Record, Unreadable};
use std::collections::BTreeMap;
use wire::Rtype;
use wire::rtype::{CNAME, DNAME, DS, KEY, NS, NXT, SIG, SOA};

const WKS: Rtype = 11;

/// So much one message may have to do with beside the name that holds most: all records of each of its names are held, and looked at while others wait.
pub const HELD_MAX: usize = 64 << 20;
/// What a record takes in memory beside its data.
const RECORD: usize = 256;

/// Those that a message has to do with, each read once.
pub struct Names<'c> {
    content: &'c dyn Content,
    apex: &'c [u8],
    names: BTreeMap<Box<[u8]>, Node>,
    /// Octets of these, and of that which holds most.
    held: usize,
    largest: usize,
    held_max: usize,
}

/// What a name holds: its RRsets, also those that are gone by now.
pub struct Node {
    is_apex: bool,
    sets: BTreeMap<Rtype, Rrset>,
}

#[derive(Default)]
struct Rrset {
    /// Until something is to change.
    was: Vec<Bare>,
    changed: Option<Changed>,
}

#[derive(Default)]
struct Changed {
    /// By their rdata in canonical form: with whatever capitals in its names, a record is one.
    records: BTreeMap<Box<[u8]>, Spelt>,
    /// Of these, how many are there now.
    count: usize,
    /// What all of them have now, if one was given: the last one (RFC 2181 section 5.2).
    ttl: Option<u32>,
}

/// A record as it was, mostly in one spelling, and as it is.
#[derive(Default)]
struct Spelt {
    was: Vec<Bare>,
    stays: bool,
    /// It came, or came again after it was gone.
    new: Option<Bare>,
}

impl<'c> Names<'c> {
    pub fn of(content: &'c dyn Content, apex: &'c [u8], held_max: usize) -> Names<'c> {
        Names { content, apex, names: BTreeMap::new(), held: 0, largest: 0, held_max }
    }

    /// `owner`: in lower case.
    pub fn at(&mut self, owner: &[u8]) -> Result<&mut Node, Refused> {
        // Not by `entry`: that wants a copy of the name, also where it is known.
        if !self.names.contains_key(owner) {
            let records = self.content.bare(owner)?;
            let octets: usize = records.iter().map(|r| r.rdata.len() + RECORD).sum();
            (self.held, self.largest) = (self.held + octets, self.largest.max(octets));
            if self.held - self.largest > self.held_max {
                return Err(Refused::unsupported(
                    "its names hold too much together: it is to be sent in several messages",
                ));
            }
            self.names.insert(owner.into(), Node::of(records, owner == self.apex));
        }
        Ok(self.names.get_mut(owner).ok_or(Unreadable)?)
    }

    /// Where there is no delegation no DS comes, and those go that one has left (RFC 4035 section 2.4): they would bind the next one. What a file has so
    /// stays.
    pub fn leave_no_ds_alone(&mut self) {
        for node in self.names.values_mut() {
            let has_left = || node.sets.get(&NS).is_some_and(|set| set.before().next().is_some());
            let has_come = || node.sets.get(&DS).is_some_and(Rrset::has_new);
            if node.is_apex || node.has(NS) {
                continue;
            }
            if has_left() {
                node.delete_set(DS);
            } else if has_come() {
                node.set(DS).take_back();
            }
        }
    }

    /// Those of which something was to change.
    pub fn changed(&self) -> impl Iterator<Item = &Node> {
        self.names.values().filter(|node| node.sets.values().any(|set| set.changed.is_some()))
    }

    /// What has changed: records that went, and records that came. One that only has other capitals in its names is the one that was there.
    pub fn changes(&self) -> Result<(Vec<Record>, Vec<Record>), Unreadable> {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let sets = self.names.iter().flat_map(|(owner, node)| node.sets.values().map(move |set| (owner, set)));
        for (owner, set) in sets.filter_map(|(owner, set)| Some((owner, set.changed.as_ref()?))) {
            let whole = |(r, ttl): (&Bare, u32)| Record::new(owner, r.rtype, ttl, &r.rdata).ok_or(Unreadable);
            for spelt in set.records.values() {
                let goes = |was: &&Bare| spelt.now(set.ttl).all(|(_, ttl)| ttl != was.ttl);
                for was in spelt.was.iter().filter(goes) {
                    removed.push(whole((was, was.ttl))?);
                }
                for now in spelt.now(set.ttl).filter(|(_, ttl)| spelt.was.iter().all(|was| was.ttl != *ttl)) {
                    added.push(whole(now)?);
                }
            }
        }
        Ok((removed, added))
    }
}

/// Records, and octets of their data.
fn count(all: &mut [usize; 2], r: &Bare) {
    *all = [all[0] + 1, all[1] + r.rdata.len()];
}

impl Node {
    fn of(records: Vec<Bare>, is_apex: bool) -> Node {
        let mut sets = BTreeMap::<Rtype, Rrset>::new();
        records.into_iter().for_each(|r| sets.entry(r.rtype).or_default().was.push(r));
        Node { is_apex, sets }
    }

    pub fn is_apex(&self) -> bool {
        self.is_apex
    }

    /// Those of which there is a record.
    pub fn types(&self) -> impl Iterator<Item = Rtype> {
        self.sets.iter().filter(|(_, set)| set.is_there()).map(|(rtype, _)| *rtype)
    }

    pub fn has(&self, rtype: Rtype) -> bool {
        self.sets.get(&rtype).is_some_and(Rrset::is_there)
    }

    /// All that is there, each with the TTL that it has now.
    pub fn records(&self) -> impl Iterator<Item = (&Bare, u32)> + Clone {
        self.sets.values().flat_map(Rrset::records)
    }

    /// True if it has more records than that, or more octets in them, and more than it had.
    pub fn outgrows(&self, records_max: usize, octets_max: usize) -> bool {
        let (mut is, mut was) = ([0; 2], [0; 2]);
        self.records().for_each(|(r, _)| count(&mut is, r));
        if is[0] <= records_max && is[1] <= octets_max {
            return false;
        }
        self.sets.values().flat_map(Rrset::before).for_each(|r| count(&mut was, r));
        is[0] > records_max.max(was[0]) || is[1] > octets_max.max(was[1])
    }

    pub fn rrset(&self, rtype: Rtype) -> impl Iterator<Item = (&Bare, u32)> {
        self.sets.get(&rtype).into_iter().flat_map(Rrset::records)
    }

    /// RFC 2136 section 3.4.2.2. What cannot stand beside what is there is left out without a word.
    pub fn add(&mut self, record: &Record, ttl: u32) {
        let rtype = record.rtype;
        // One of two that RFC 6672 section 2.3 keeps apart: what is below would be another zone's, and all be led elsewhere. Where a file has
        // both, each goes on.
        let is_apart = match rtype {
            CNAME => self.types().any(|other| !may_stand_beside_alias(other)),
            NS | DNAME if !self.is_apex && !self.has(rtype) => self.has(if rtype == NS { DNAME } else { NS }),
            _ => false,
        };
        let is_odd = is_apart || self.has(CNAME) && !may_stand_beside_alias(rtype);
        if is_odd || rtype == SOA && !self.rrset(SOA).any(|(old, _)| is_later_soa(record, old)) {
            return;
        }
        let (rdata, set) = (folded(rtype, record.rdata()), self.set(rtype));
        match rtype {
            SOA | CNAME | DNAME => set.drop_all(|other| *other != *rdata),
            // There is one of an address and a protocol.
            WKS => set.drop_all(|other| other.get(..5) == rdata.get(..5) && *other != *rdata),
            _ => {}
        }
        set.ttl = Some(ttl);
        let spelt = set.records.entry(rdata).or_default();
        if !spelt.is_there() {
            spelt.new = Some(record.bare());
            set.count += 1;
        }
    }

    /// RFC 2136 section 3.4.2.4: the SOA stays, and so does an apex's last NS, in however many spellings.
    pub fn delete(&mut self, record: &Record) {
        if record.rtype == SOA || !self.has(record.rtype) {
            return;
        }
        let (is_apex, set) = (self.is_apex, self.set(record.rtype));
        if !(is_apex && record.rtype == NS && set.count == 1)
            && let Some(spelt) = set.records.get_mut(&folded(record.rtype, record.rdata()))
        {
            set.count -= usize::from(spelt.drop());
        }
    }

    /// RFC 2136 section 3.4.2.3: of an apex SOA and NS stay.
    pub fn deletable(&self) -> impl Iterator<Item = Rtype> {
        self.types().filter(|rtype| !self.stays(*rtype))
    }

    fn stays(&self, rtype: Rtype) -> bool {
        self.is_apex && matches!(rtype, SOA | NS)
    }

    pub fn delete_set(&mut self, rtype: Rtype) {
        if self.has(rtype) && !self.stays(rtype) {
            self.set(rtype).drop_all(|_| true);
        }
    }

    pub fn delete_all(&mut self) {
        let types: Vec<Rtype> = self.deletable().collect();
        types.into_iter().for_each(|rtype| self.delete_set(rtype));
    }

    /// An RRset of which something is to change.
    fn set(&mut self, rtype: Rtype) -> &mut Changed {
        let Rrset { was, changed } = self.sets.entry(rtype).or_default();
        changed.get_or_insert_with(|| Changed::of(std::mem::take(was)))
    }
}

impl Rrset {
    /// What was there.
    fn before(&self) -> impl Iterator<Item = &Bare> {
        self.was.iter().chain(self.changed.iter().flat_map(|set| set.records.values()).flat_map(|spelt| &spelt.was))
    }

    fn has_new(&self) -> bool {
        self.changed.iter().flat_map(|set| set.records.values()).any(|spelt| spelt.new.is_some())
    }

    fn is_there(&self) -> bool {
        self.changed.as_ref().map_or(!self.was.is_empty(), |set| set.count > 0)
    }

    fn records(&self) -> impl Iterator<Item = (&Bare, u32)> + Clone {
        let changed = self.changed.iter().flat_map(|set| set.records.values().flat_map(|spelt| spelt.now(set.ttl)));
        self.was.iter().map(|r| (r, r.ttl)).chain(changed)
    }
}

impl Changed {
    fn of(records: Vec<Bare>) -> Changed {
        let mut all = BTreeMap::<Box<[u8]>, Spelt>::new();
        for record in records {
            let spelt = all.entry(folded(record.rtype, &record.rdata)).or_default();
            spelt.stays = true;
            spelt.was.push(record);
        }
        Changed { count: all.len(), records: all, ttl: None }
    }

    /// Those of this rdata, in canonical form, go.
    fn drop_all(&mut self, goes: impl Fn(&[u8]) -> bool) {
        if self.count > 0 {
            let some = self.records.iter_mut().filter(|(rdata, _)| goes(rdata));
            self.count -= some.filter_map(|(_, spelt)| spelt.drop().then_some(())).count();
        }
    }

    /// What has come does not come.
    fn take_back(&mut self) {
        let come = self.records.values_mut().filter_map(|spelt| spelt.new.take().filter(|_| !spelt.stays));
        self.count -= come.count();
        self.ttl = None;
    }
}

impl Spelt {
    fn is_there(&self) -> bool {
        self.stays || self.new.is_some()
    }

    /// True if it was there.
    fn drop(&mut self) -> bool {
        let was_there = self.is_there();
        (self.stays, self.new) = (false, None);
        was_there
    }

    /// `ttl`: what all have that are in the RRset.
    fn now(&self, ttl: Option<u32>) -> impl Iterator<Item = (&Bare, u32)> + Clone {
        let stays = self.was.iter().filter(|_| self.stays);
        stays.chain(&self.new).map(move |r| (r, ttl.unwrap_or(r.ttl)))
    }
}

/// RFC 2181 section 10.1; what is of signing later (RFC 4035 section 2.5) comes by no update.
pub fn may_stand_beside_alias(rtype: Rtype) -> bool {
    matches!(rtype, CNAME | KEY | SIG | NXT)
}

fn is_later_soa(new: &Record, old: &Bare) -> bool {
    let serials = serial_of(new.rdata()).zip(serial_of(&old.rdata));
    serials.is_some_and(|(new, old)| is_newer(new, old))
}
