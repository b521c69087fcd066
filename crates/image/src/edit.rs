//! What a change of some names of a zone draws in: the names that must be laid out anew, and what they are laid out beside.
//!
//! A node holds more than its own records: the addresses of hosts that it names, whether a cut stands above it, where the
//! wildcard below it is. So a change is laid out as a small zone: the changed names, the names above them, names whose
//! answers carry an address that changed, each with all its records; and, for the builder to see but not to be kept, the
//! hosts that these name and one name below each that is kept for what is below it only. Where thousands of names carry an address that
//! changed, they may be left to be laid afterwards (see `followers`).

use crate::builder::Builder;
use crate::drafts::ends;
use crate::followers::Followers;
use crate::format::Damaged;
use crate::named::Hosts;
use crate::node::{ABOVE, CUT, DNAME, EDITED, GONE, Node};
use crate::overlay::Front;
use crate::patch::{Limits, Unable};
use crate::render::Rr;
use crate::row::halve;
use crate::sets::Sets;
use crate::zone::{HASHED, SIGNED, TABLED, Zone};
use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::hash_map::Entry::Vacant;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use wire::hash::{EndHashes, name_hash};
use wire::name::{NAME_MAX, canonical_cmp, is_at_or_below};
use wire::rtype::{self, Rtype};

/// Names that one change may draw in.
pub(crate) const NAMES_MAX: usize = 100_000;

/// So many nodes are stepped over again and again.
const FEW: usize = 16;

/// A record without its owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    pub rtype: Rtype,
    pub ttl: u32,
    pub rdata: Box<[u8]>,
}

/// Names of a zone, in lower case, each with all its records; none: it is no more.
pub type Names = BTreeMap<Box<[u8]>, Vec<Record>>;

/// What names of a zone are from now on.
pub struct Edit<'c> {
    pub apex: &'c [u8],
    pub names: Cow<'c, Names>,
    /// Names that are laid anew as they are, with the addresses that the hosts have which they name.
    pub again: BTreeSet<Box<[u8]>>,
}

impl<'c> Edit<'c> {
    pub fn new(apex: &'c [u8], names: Names) -> Edit<'c> {
        Edit { apex, names: Cow::Owned(names), again: BTreeSet::new() }
    }

    /// The same, of names that somebody else has.
    pub fn of(apex: &'c [u8], names: &'c Names) -> Edit<'c> {
        Edit { apex, names: Cow::Borrowed(names), again: BTreeSet::new() }
    }

    /// Lays names anew that an edit has left.
    pub fn again(apex: &'c [u8], names: BTreeSet<Box<[u8]>>) -> Edit<'c> {
        Edit { again: names, ..Edit::new(apex, BTreeMap::new()) }
    }
}

/// What an edit comes to.
pub(crate) struct Gathered {
    /// Names that are laid out anew; those that the builder has made no node for are no more.
    pub kept: BTreeSet<Box<[u8]>>,
    /// How many records more there are.
    pub records: i64,
    /// What is left to be laid.
    pub followers: Option<Followers>,
    /// Apexes of zones of ours below this one that names drawn in are of.
    pub below: BTreeSet<Box<[u8]>>,
    /// What was found out about nodes of the file that may be looked through again, for the next overlay.
    pub fronts: Fronts,
    pub hidden: Vec<(Screen, Nodes)>,
}

pub(crate) type Fronts = Vec<Front>;

/// A name that hides others: its seat, and how many octets it has. It is an end of the seat's name, and where that is another zone's apex, there may be
/// another one at the same seat later.
pub(crate) type Screen = (u32, usize);

/// Nodes of the file, in canonical order.
pub(crate) type Nodes = Arc<[u32]>;

/// A zone with an edit: what it will be.
pub(crate) struct Surroundings<'a> {
    zone: Zone<'a>,
    apex: &'a [u8],
    edit: &'a Edit<'a>,
    /// The names of the edit in canonical order: those below a name stand together.
    edited: Vec<&'a [u8]>,
    /// Of each name above some of these: where those below it begin.
    above_edited: HashMap<&'a [u8], usize>,
    hidden: Hidden,
    fronts: RefCell<Fronts>,
    /// Names drawn in; true: to be kept.
    names: BTreeMap<Box<[u8]>, bool>,
    /// Hosts, and names above them, that the builder will see.
    shown: BTreeSet<Box<[u8]>>,
}

/// What was found out of names that come or go, and of those above them.
#[derive(Default)]
struct Seen<'a> {
    names: BTreeSet<&'a [u8]>,
    /// Those that go.
    gone: BTreeSet<&'a [u8]>,
    /// Whether there was a wildcard right below one of them, or of those above it.
    wildcards: BTreeMap<&'a [u8], bool>,
}

/// Of an edit.
#[derive(Clone, Copy)]
enum Time {
    Before,
    After,
}

impl<'a> Surroundings<'a> {
    pub(crate) fn new(zone: Zone<'a>, edit: &'a Edit<'a>) -> Result<Surroundings<'a>, Unable> {
        let apex = zone.apex()?;
        let name = apex.apex_name()?;
        if name != edit.apex || !edit.names.keys().all(|n| is_at_or_below(n, name)) {
            return Err(Unable::NoSuchZone);
        }
        let is_signed = zone.is(SIGNED | HASHED)?;
        let has_signing = edit.names.values().flatten().any(|r| is_of_signing(r.rtype));
        if !zone.is_editable()? || has_signing && !is_signed {
            return Err(Unable::Whole);
        }
        if let Some(after) = edit.names.get(name).filter(|_| is_signed)
            && signing(&records_of(&apex, name)?) != signing(after)
        {
            return Err(Unable::Whole);
        }
        let mut edited: Vec<&[u8]> = edit.names.keys().map(|name| &**name).collect();
        edited.sort_unstable_by(|a, b| canonical_cmp(a, b));
        let mut above_edited = HashMap::new();
        for (at, edited) in edited.iter().enumerate() {
            let mut above = ends(edited).take_while(|end| end.len() >= name.len());
            // Above one that is known all are.
            while let Some(Vacant(new)) = above.next().map(|end| above_edited.entry(end)) {
                new.insert(at);
            }
        }
        let (hidden, names, shown) = (Hidden::default(), BTreeMap::new(), BTreeSet::new());
        let fronts = RefCell::default();
        Ok(Surroundings { zone, apex: name, edit, edited, above_edited, hidden, fronts, names, shown })
    }

    /// Finds what is drawn in, and hands its records to the builder as a zone. `limits`: less what this edit takes.
    pub(crate) fn gather(mut self, builder: &mut Builder, limits: &mut Limits) -> Result<Gathered, Unable> {
        let edit = self.edit;
        self.keep(self.apex)?;
        let (mut hosts, mut seen) = (Hosts::new(), Seen::default());
        let (mut records, mut sets) = (0, Sets::default());
        for (name, after) in &*edit.names {
            let before = self.before(name)?;
            // One that stands twice in a text is one.
            sets.fill(after.iter().map(|r| Rr { rtype: r.rtype, ttl: r.ttl, rdata: &r.rdata }));
            records += sets.records() as i64 - before.len() as i64;
            match self.is_of_hashes(name, &before, after)? {
                true => self.keep(name)?,
                false => {
                    self.change(name, &before, after, &mut hosts, &mut limits.hidden)?;
                    self.note_comings(name, &mut seen, &mut hosts)?;
                }
            }
        }
        edit.again.iter().try_for_each(|name| self.keep(name))?;
        let followers = self.keep_those_that_name(hosts, &mut limits.followers)?;
        self.help(&seen.gone)?;
        let below = self.zones_below()?;
        builder.begin_zone(self.apex);
        for name in self.names.keys() {
            for r in self.records(name)?.iter() {
                builder.record(name, r.rtype, r.ttl, &r.rdata).map_err(|_| Unable::Whole)?;
            }
        }
        let kept = self.names.into_iter().filter(|(_, is_kept)| *is_kept).map(|(name, _)| name).collect();
        Ok(Gathered { kept, records, followers, below, fronts: self.fronts.into_inner(), hidden: self.hidden.many() })
    }

    /// True if the name owns NSEC3 and nothing else, before and after, if it is there: then it is nobody's but theirs that look
    /// hashes up. Err: it is, or comes to be, in the way of names that can be asked for.
    fn is_of_hashes(&self, name: &[u8], before: &[Record], after: &[Record]) -> Result<bool, Unable> {
        for end in self.above(name) {
            if self.kind(end, Time::After)? == Kind::Hashes {
                return Err(Unable::Whole);
            }
        }
        match (Kind::of(before), Kind::of(after)) {
            (Kind::Nothing | Kind::Name, Kind::Nothing | Kind::Name) => Ok(false),
            (Kind::Name, _) | (_, Kind::Name) => Err(Unable::Whole),
            _ if !self.all_below(name, NAMES_MAX)?.is_empty() => Err(Unable::Whole),
            _ => Ok(true),
        }
    }

    /// Draws in what one changed name makes different; notes in `hosts` what others may name. `hidden_max`: as `Limits` has it, less what this takes.
    fn change(
        &mut self,
        name: &[u8],
        before: &[Record],
        after: &[Record],
        hosts: &mut Hosts,
        hidden_max: &mut usize,
    ) -> Result<(), Unable> {
        self.keep(name)?;
        let (was, is) = (self.hides(name, before), self.hides(name, after));
        if was != is {
            // What lies below appears or is hidden, by another kind of name, and hosts there become glue or cease to be.
            let all = self.all_below(name, NAMES_MAX.min(*hidden_max))?;
            *hidden_max -= all.len();
            for below in all {
                self.keep(&below)?;
                hosts.insert(below);
            }
        }
        // Addresses of a delegation's own name are glue, those of an alias's are not.
        if addresses(before) != addresses(after) || was != is {
            hosts.insert(name.into());
        }
        Ok(())
    }

    /// How records of a name hide what is below it: as a delegation, unless it is the apex, or by a DNAME.
    fn hides(&self, name: &[u8], records: &[Record]) -> Option<Rtype> {
        let has = |rtype| records.iter().any(|r| r.rtype == rtype);
        let is_cut = name != self.apex && has(rtype::NS);
        if is_cut { Some(rtype::NS) } else { has(rtype::DNAME).then_some(rtype::DNAME) }
    }

    /// Notes in `hosts` which of a changed name and those above it come or go; and all below such a one, if a wildcard makes hosts of them. A name that
    /// comes, if only to lead to another one, hides the wildcard that stood for it and all below it. Many names lead up to the same ones, each of
    /// which is looked at once.
    fn note_comings(&self, name: &'a [u8], seen: &mut Seen<'a>, hosts: &mut Hosts) -> Result<(), Unable> {
        let ends = std::iter::once(name).chain(self.above(name));
        let new: Vec<&[u8]> = ends.take_while(|end| seen.names.insert(end)).collect();
        if new.is_empty() {
            return Ok(());
        }
        // Above a name that is there all are, and below one that is not there none is: so few are looked for, of however many labels.
        let (were, will_be) = (self.was_there(name)?, self.will_be(name)?);
        let (mut was, mut is) = (true, true);
        for end in new.into_iter().rev() {
            was = were || was && self.was_there(end)?;
            is = will_be || is && self.will_be(end)?;
            if was == is {
                continue;
            }
            hosts.insert(end.into());
            if self.was_below_wildcard(end, seen)? {
                hosts.insert([&b"\x01*"[..], end].concat().into());
            }
            if was {
                seen.gone.insert(end);
            }
        }
        Ok(())
    }

    /// True if there was a wildcard right below one of the names above this one.
    fn was_below_wildcard(&self, name: &'a [u8], seen: &mut Seen<'a>) -> Result<bool, Damaged> {
        let new: Vec<&[u8]> = self.above(name).take_while(|end| !seen.wildcards.contains_key(end)).collect();
        let known = self.above(name).nth(new.len()).and_then(|end| seen.wildcards.get(end));
        let mut is_there = known.copied().unwrap_or_default();
        for end in new.into_iter().rev() {
            let wildcard = [&b"\x01*"[..], end].concat();
            is_there = is_there || wildcard.len() <= NAME_MAX && self.node(&wildcard)?.is_some();
            seen.wildcards.insert(end, is_there);
        }
        Ok(is_there)
    }

    /// Lays a name out anew, and all above it; and the wildcards right below these, which their nodes lead to.
    fn keep(&mut self, name: &[u8]) -> Result<(), Unable> {
        for end in std::iter::once(name).chain(ends(name)).take_while(|end| end.len() >= self.apex.len()) {
            if self.names.insert(end.into(), true) == Some(true) {
                break;
            }
            self.keep_wildcards(end)?;
        }
        if self.names.len() > NAMES_MAX { Err(Unable::Large) } else { Ok(()) }
    }

    /// A wildcard may have a wildcard right below, which its own node leads to.
    fn keep_wildcards(&mut self, name: &[u8]) -> Result<(), Unable> {
        let mut wildcard = [&b"\x01*"[..], name].concat();
        while wildcard.len() <= NAME_MAX && self.will_be(&wildcard)? {
            if self.names.insert(wildcard.as_slice().into(), true) == Some(true) {
                break;
            }
            wildcard.splice(0..0, *b"\x01*");
        }
        Ok(())
    }

    /// True if there was such a name, if only for what was below it.
    fn was_there(&self, name: &[u8]) -> Result<bool, Unable> {
        // Above names that are hidden there are no nodes for those that own nothing.
        Ok(self.node(name)?.is_some() || self.one_below(name, Time::Before)?.is_some())
    }

    /// True if there will be such a name, if only for what is below it.
    fn will_be(&self, name: &[u8]) -> Result<bool, Unable> {
        // As `kind` tells, and the node is looked for once: mostly there is none.
        let (node, after) = (self.node(name)?, self.edit.names.get(name));
        let kind = match (&node, after) {
            (_, Some(records)) => Kind::of(records),
            (Some(node), None) => Kind::of_node(node, name)?,
            (None, None) => Kind::Nothing,
        };
        let may_be_above = || node.is_some() || self.edited_below(name).next().is_some();
        Ok(kind != Kind::Nothing || may_be_above() && self.one_below(name, Time::After)?.is_some())
    }

    /// Names whose answers carry addresses of these hosts. Where many do, only those are kept that a host stands at or below: it is glue
    /// without which their referrals may lead nowhere. Returns what is left of the others.
    fn keep_those_that_name(&mut self, hosts: Hosts, followers_max: &mut usize) -> Result<Option<Followers>, Unable> {
        let mut names = self.zone.naming_at_or_above(&hosts)?;
        let nodes = self.zone.listed(&hosts)?;
        let are_left = nodes.len() > *followers_max;
        if !are_left {
            *followers_max -= nodes.len();
            self.zone.naming(nodes.iter().copied(), &hosts, u32::MAX, NAMES_MAX + 1, &mut names)?;
        }
        names.iter().filter(|name| !self.edit.names.contains_key(*name)).try_for_each(|name| self.keep(name))?;
        Ok(are_left.then(|| Followers::new(&self.zone, self.apex, hosts, nodes)))
    }

    /// Draws in what the builder must see of others. `gone`: names without records of which it is known that nothing is below them.
    fn help(&mut self, gone: &BTreeSet<&[u8]>) -> Result<(), Unable> {
        let kept: Vec<Box<[u8]>> = self.names.keys().cloned().collect();
        let mut hosts = BTreeSet::new();
        for name in kept.iter().filter(|name| !gone.contains(&***name)) {
            let records = self.records(name)?;
            let named = records.iter().filter_map(|r| host_of(r.rtype, &r.rdata));
            hosts.extend(named.map(<[u8]>::to_ascii_lowercase));
            if records.is_empty()
                && let Some(below) = self.one_below(name, Time::After)?
            {
                self.show(&below);
            }
        }
        hosts.iter().try_for_each(|host| self.show_host(host))
    }

    /// A host with what stands above it, and the wildcards that might stand for it.
    fn show_host(&mut self, host: &[u8]) -> Result<(), Unable> {
        if !is_at_or_below(host, self.apex) {
            return Ok(());
        }
        for end in std::iter::once(host).chain(ends(host)).take_while(|end| end.len() > self.apex.len()) {
            if !self.shown.insert(end.into()) {
                break;
            }
            let wildcard = [&b"\x01*"[..], ends(end).next().unwrap_or_default()].concat();
            if wildcard.len() <= 255 && self.kind(&wildcard, Time::After)? != Kind::Nothing {
                self.show(&wildcard);
            }
            if self.kind(end, Time::After)? != Kind::Nothing {
                self.show(end);
            } else if let Some(below) = self.one_below(end, Time::After)? {
                self.show(&below);
            }
        }
        Ok(())
    }

    fn show(&mut self, name: &[u8]) {
        self.names.entry(name.into()).or_insert(false);
    }

    /// Names above a name, within the zone, nearest first.
    fn above<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = &'n [u8]> + use<'n, 'a> {
        let least = self.apex.len();
        ends(name).take_while(move |end| end.len() >= least)
    }

    /// The node of a name of this zone, a hidden one too, before the edit.
    fn node(&self, name: &[u8]) -> Result<Option<Node<'a>>, Damaged> {
        self.zone.node_by(name, &self.hidden)
    }

    /// The zones of ours right below this one that names drawn in are of.
    fn zones_below(&self) -> Result<BTreeSet<Box<[u8]>>, Damaged> {
        let mut below = BTreeSet::new();
        for name in self.names.keys() {
            below.extend(self.zone.below(name)?.map(|(apex, _)| apex.into()));
        }
        Ok(below)
    }

    fn before(&self, name: &[u8]) -> Result<Vec<Record>, Damaged> {
        self.node(name)?.map_or(Ok(vec![]), |node| records_of(&node, name))
    }

    /// The records of a name after the edit.
    fn records(&self, name: &[u8]) -> Result<Cow<'a, [Record]>, Damaged> {
        match self.edit.names.get(name) {
            Some(records) => Ok(Cow::Borrowed(records)),
            None => self.before(name).map(Cow::Owned),
        }
    }

    /// What a name is by its records, which is all that most names are asked for: these stay in their units.
    fn kind(&self, name: &[u8], time: Time) -> Result<Kind, Damaged> {
        match (time, self.edit.names.get(name)) {
            (Time::After, Some(records)) => Ok(Kind::of(records)),
            _ => self.node(name)?.map_or(Ok(Kind::Nothing), |node| Kind::of_node(&node, name)),
        }
    }

    /// A name with records below this one, which makes that be there.
    fn one_below(&self, name: &[u8], time: Time) -> Result<Option<Box<[u8]>>, Damaged> {
        for below in self.edited_below(name) {
            if self.kind(below, time)? == Kind::Name {
                return Ok(Some(below.into()));
            }
        }
        Ok(self.before_below(name, 1)?.pop())
    }

    /// Names of the edit below this one.
    fn edited_below<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'_, 'a, 'n> {
        let from = self.above_edited.get(name).map_or(&[][..], |&from| &self.edited[from..]);
        from.iter().copied().take_while(move |edited| is_below(edited, name))
    }

    /// All names below this one with records before the edit, and all that are edited. Err: they are more than that.
    fn all_below(&self, name: &[u8], max: usize) -> Result<Vec<Box<[u8]>>, Unable> {
        let mut all = self.before_below(name, max + 1)?;
        all.extend(self.edited_below(name).map(Into::into));
        if all.len() > max { Err(Unable::Large) } else { Ok(all) }
    }

    /// Names below this one that have records, not NSEC3 alone, and are not edited, at most so many.
    fn before_below(&self, name: &[u8], max: usize) -> Result<Vec<Box<[u8]>>, Damaged> {
        let mut all = Vec::new();
        let mut room = [0; NAME_MAX];
        self.zone.each_below(name, &self.hidden, &mut self.fronts.borrow_mut(), &mut |node| {
            let below = self.zone.name_of(&node, &mut room)?;
            let is_plain = !self.edit.names.contains_key(below) && Kind::of_node(&node, below)? == Kind::Name;
            if is_plain {
                all.push(below.into());
            }
            Ok(all.len() < max)
        })?;
        Ok(all)
    }
}

/// The nodes that cuts and DNAMEs hide, found once for whoever asks for many names of a zone: they stand in no index, and to go through
/// all of a cut's for each of them would be quadratic.
///
/// Bound: four octets for each hidden node. It is of one view; but what an edit has found stands in the overlay that it makes, so that the next one does not
/// go through all again.
#[derive(Default)]
pub struct Hidden(RefCell<HashMap<Screen, Nodes>>);

impl Hidden {
    fn by(&self, screen: Screen, find: impl FnOnce() -> Result<Nodes, Damaged>) -> Result<Nodes, Damaged> {
        if let Some(known) = self.0.borrow().get(&screen) {
            return Ok(Arc::clone(known));
        }
        let found = find()?;
        self.0.borrow_mut().insert(screen, Arc::clone(&found));
        Ok(found)
    }

    /// Those of which there are so many that it costs to find them.
    pub(crate) fn many(self) -> Vec<(Screen, Nodes)> {
        self.0.into_inner().into_iter().filter(|(_, nodes)| nodes.len() >= FEW).collect()
    }
}

/// The records of a node, whose name the caller knows.
pub fn records_of(node: &Node<'_>, owner: &[u8]) -> Result<Vec<Record>, Damaged> {
    let mut records = Vec::new();
    for rrset in node.rrsets() {
        let mut push = |fixed: &[u8], rdata: &[u8]| {
            let rtype = u16::from_be_bytes([fixed[0], fixed[1]]);
            let ttl = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
            records.push(Record { rtype, ttl, rdata: rdata.into() });
        };
        let (_, unit) = rrset?;
        unit.for_each(owner, &mut push)?;
        unit.for_each_signature(&mut push)?;
    }
    Ok(records)
}

/// Addresses, and the signatures that go along with them.
fn addresses(records: &[Record]) -> Vec<&Record> {
    let is_one = |r: &&Record| match r.rtype {
        rtype::A | rtype::AAAA => true,
        rtype::RRSIG => covered(r).is_some_and(|rtype| matches!(rtype, rtype::A | rtype::AAAA)),
        _ => false,
    };
    let mut all: Vec<&Record> = records.iter().filter(is_one).collect();
    all.sort_unstable();
    all
}

/// The type that a signature is over.
fn covered(signature: &Record) -> Option<Rtype> {
    signature.rdata.first_chunk().map(|rtype| Rtype::from_be_bytes(*rtype))
}

/// What an owner is by its records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    /// NSEC3 with its signatures, and nothing else: no name of the zone.
    Hashes,
    Name,
}

impl Kind {
    fn of(records: &[Record]) -> Kind {
        let is_hash =
            |r: &Record| r.rtype == rtype::NSEC3 || r.rtype == rtype::RRSIG && covered(r) == Some(rtype::NSEC3);
        match records {
            [] => Kind::Nothing,
            all if all.iter().all(is_hash) => Kind::Hashes,
            _ => Kind::Name,
        }
    }

    fn of_node(node: &Node<'_>, owner: &[u8]) -> Result<Kind, Damaged> {
        match node.rrsets().next().transpose()? {
            None => Ok(Kind::Nothing),
            Some((rtype::NSEC3 | rtype::RRSIG, _)) => Ok(Kind::of(&records_of(node, owner)?)),
            Some(_) => Ok(Kind::Name),
        }
    }
}

/// What an apex says of how its zone is signed: whether there are signatures, and NSEC; the parameters of NSEC3.
fn signing(apex: &[Record]) -> (bool, bool, BTreeSet<&[u8]>) {
    let has = |rtype| apex.iter().any(|r| r.rtype == rtype);
    let params = apex.iter().filter(|r| r.rtype == rtype::NSEC3PARAM).map(|r| &*r.rdata);
    (has(rtype::RRSIG), has(rtype::NSEC), params.collect())
}

fn is_below(name: &[u8], above: &[u8]) -> bool {
    name.len() > above.len() && is_at_or_below(name, above)
}

/// The host whose addresses go along with a record.
pub fn host_of(rtype: Rtype, rdata: &[u8]) -> Option<&[u8]> {
    crate::sheet::target(rtype, rdata)
}

/// True for what makes a zone one that is signed, or part of it.
fn is_of_signing(rtype: Rtype) -> bool {
    matches!(rtype, rtype::RRSIG | rtype::NSEC3 | rtype::NSEC3PARAM)
}

impl<'a> Zone<'a> {
    /// True if changes of single names can be laid out for it: what a change draws in is known for zones in which all that is hidden is
    /// hidden by a cut, a DNAME or another zone, or stands in the table of NSEC3.
    pub fn is_editable(&self) -> Result<bool, Damaged> {
        let apex = self.apex()?;
        let mut chains = 0;
        if let Some(unit) = apex.rrset(rtype::NSEC3PARAM)? {
            unit.for_each(apex.apex_name()?, |_, _| chains += 1)?;
        }
        let is_known = match (self.is(SIGNED)?, self.is(HASHED)?) {
            (false, false) => chains == 0,
            (_, false) => chains <= 1,
            (_, true) => chains <= 1 && self.is(TABLED)?,
        };
        Ok(is_known)
    }

    /// The node of a name of this zone, a hidden one too.
    pub fn node(&self, folded: &[u8]) -> Result<Option<Node<'a>>, Damaged> {
        self.node_by(folded, &Hidden::default())
    }

    /// The same for one of many names, hidden ones among them.
    pub fn node_by(&self, folded: &[u8], hidden: &Hidden) -> Result<Option<Node<'a>>, Damaged> {
        let (view, apex) = (self.view(), self.apex()?);
        let (apex_name, scope) = (apex.apex_name()?, apex.scope()?);
        if folded == apex_name {
            return Ok(Some(apex));
        }
        if !is_at_or_below(folded, apex_name) {
            return Ok(None);
        }
        let hash = |name: &[u8]| name_hash(view.seed(), name);
        if let Some(overlay) = view.overlay()
            && let Some(node) = overlay.find_own(view, hash(folded), folded, scope)?
        {
            return Ok((!node.is(GONE)).then_some(node));
        }
        let Some((seat, end)) = self.seat(folded)? else { return Ok(None) };
        let labels = &folded[..folded.len() - apex_name.len()];
        let found = match end == folded {
            true => Some(seat),
            false => self.hidden_from(seat, end, labels, hidden)?.next().transpose()?,
        };
        Ok(found.filter(|node| node.labels_below() == Ok(labels)))
    }

    /// The nodes that are hidden below `end`, from that one on which has these labels, or would come next.
    fn hidden_from(
        &self,
        seat: Node<'a>,
        end: &[u8],
        labels: &[u8],
        hidden: &Hidden,
    ) -> Result<impl Iterator<Item = Result<Node<'a>, Damaged>> + use<'a>, Damaged> {
        let view = self.view();
        let reference = |node: Result<Node<'a>, Damaged>| {
            let node = node?;
            self.name_of(&node, &mut [0; NAME_MAX]).map(|_| node.reference())
        };
        let find = || self.together_below(seat, end)?.map(reference).collect();
        let screen = (seat.reference(), end.len());
        let known = view.overlay().and_then(|overlay| overlay.hidden(screen)).cloned();
        let all = known.map_or_else(|| hidden.by(screen, find), Ok)?;
        let from = halve(&all, |&node| Ok(view.node(node)?.order_of(labels)? == Ordering::Less))?;
        Ok((from..all.len()).map(move |i| view.node(all[i])))
    }

    /// The node of the file that the nodes at and below a name stand at or behind: its own, or that of what hides it, for hidden names stand
    /// in no index; of NSEC3 there is a table. And the name that hides it: that of a cut or DNAME, which the node is, or of the apex of a
    /// zone below, where the node is the first at or below that.
    fn seat<'n>(&self, folded: &'n [u8]) -> Result<Option<(Node<'a>, &'n [u8])>, Damaged> {
        let (view, first) = (self.view(), self.first()?);
        let (least, scope) = (first.name_len(), first.scope()?);
        if view.is_of_overlay(&first) {
            return Ok(None);
        }
        if let Some((end, below)) = self.below(folded)? {
            return Ok(self.first_at(&below)?.map(|node| (node, end)));
        }
        let hashes = EndHashes::of(view.seed(), folded);
        let ends: Vec<_> = hashes.iter().take_while(|(at, _)| folded.len() - at > least).collect();
        let find = |&(at, hash): &(usize, u64)| {
            let node = view.find_in_file(hash, &folded[at..], scope)?.filter(|node| !node.is_whole());
            Ok::<_, Damaged>(node.map(|node| (node, &folded[at..])))
        };
        let Some(whole) = ends.first() else { return Ok(Some((first, folded))) };
        let own = find(whole)?.map(|(node, _)| node).map_or_else(|| self.hashed_node(folded), |node| Ok(Some(node)))?;
        if own.is_some() {
            return Ok(own.map(|node| (node, folded)));
        }
        let (mut low, mut high, mut nearest) = (1, ends.len(), (first, &folded[folded.len() - least..]));
        // Above a name that is there all are, up to the apex, if only as names without records; but for those that own NSEC3 alone, which stand in no
        // index, and have names below all the same, if somebody has written such.
        let is_walked = self.is(HASHED)?;
        while low < high {
            let middle = if is_walked { low } else { low.midpoint(high) };
            match find(&ends[middle])? {
                Some(found) => (nearest, high) = (found, middle),
                None => low = middle + 1,
            }
        }
        Ok(Some(nearest).filter(|(node, _)| is_blocking(node)))
    }

    /// Visits the nodes below a name, hidden ones too, until `f` says false.
    fn each_below(
        &self,
        name: &[u8],
        hidden: &Hidden,
        fronts: &mut Fronts,
        f: &mut dyn FnMut(Node<'a>) -> Result<bool, Damaged>,
    ) -> Result<(), Damaged> {
        let (view, scope) = (self.view(), self.apex()?.scope()?);
        let labels = &name[..name.len().saturating_sub(self.apex()?.name_len())];
        let mut room = [0; NAME_MAX];
        if let Some(overlay) = view.overlay() {
            for node in overlay.live_behind(view, self.number(), labels)? {
                let node = node?;
                if !is_below(self.name_of(&node, &mut room)?, name) {
                    break;
                }
                if !f(node)? {
                    return Ok(());
                }
            }
        }
        if let Some((seat, end)) = self.seat(name)? {
            let (mut together, mut hidden_ones) = (None, None);
            // Where one name after another goes, all before it are gone: to step over them each time would be quadratic.
            let is_hidden = end != name;
            let is_own = |node: &Result<Node<'a>, Damaged>| node.as_ref().is_ok_and(|n| n.labels_below() == Ok(labels));
            let first = match is_hidden {
                false => Some(seat),
                true => self.hidden_from(seat, end, labels, hidden)?.find(|node| !is_own(node)).transpose()?,
            };
            if let Some(first) = first {
                let front = view.overlay().and_then(|overlay| overlay.front(first.reference(), is_hidden));
                let from = front.map_or(Ok(first), |last| view.node(last))?;
                match is_hidden {
                    false => together = Some(self.together_below(from, end)?),
                    true => hidden_ones = Some(self.hidden_from(seat, end, from.labels_below()?, hidden)?),
                }
            }
            // Up to which all have changed: so they stay until there is another file.
            let first = first.map_or(seat.reference(), |first| first.reference());
            let (mut are_changed, mut steps, mut last) = (true, 0, first);
            for node in together.into_iter().flatten().chain(hidden_ones.into_iter().flatten()) {
                let node = node?;
                let below = self.name_of(&node, &mut room)?;
                if below == name {
                    continue;
                }
                if !is_below(below, name) {
                    break;
                }
                let hash = name_hash(view.seed(), below);
                if view.overlay().map(|o| o.find_own(view, hash, below, scope)).transpose()?.flatten().is_some() {
                    if are_changed {
                        (steps, last) = (steps + 1, node.reference());
                    }
                    continue;
                }
                are_changed = false;
                if !f(node)? {
                    break;
                }
            }
            if steps >= FEW {
                fronts.push(Front { seat: first, is_hidden, last });
            }
        }
        Ok(())
    }

    /// True if the node is one of those that stand together.
    pub(crate) fn is_together(&self, node: &Node<'_>) -> Result<bool, Damaged> {
        let first = self.first()?;
        Ok(node.reference().wrapping_sub(first.reference()) < first.extent()?)
    }

    /// The nodes below a name, of which this one is the first, or stands before that; and damage.
    fn together_below<'n>(
        &self,
        node: Node<'a>,
        name: &'n [u8],
    ) -> Result<impl Iterator<Item = Result<Node<'a>, Damaged>> + use<'a, 'n>, Damaged> {
        let zone = *self;
        let is_below_it = move |node: &Node<'a>| {
            let mut room = [0; NAME_MAX];
            // One of which it cannot be said is met by whoever goes on.
            zone.name_of(node, &mut room).map_or(true, |below| is_below(below, name))
        };
        let is_before = !is_below_it(&node);
        let below = self.together_from(node)?.skip(usize::from(is_before));
        Ok(below.take_while(move |n| n.as_ref().map_or(true, is_below_it)))
    }

    /// What an overlay holds of the zone beside the nodes that stand together, gone ones too, in canonical order.
    pub(crate) fn changed(&self) -> Result<Vec<Node<'a>>, Damaged> {
        let (view, apex) = (self.view(), self.apex()?);
        let Some(overlay) = view.overlay().filter(|_| apex.is(EDITED)) else { return Ok(vec![]) };
        // The root's node stands in no table.
        let mut changed = if apex.name_len() == 1 { vec![apex] } else { vec![] };
        for node in overlay.nodes(view, self.number()) {
            let node = node?;
            // Nobody's names on the way to another zone stand there, too.
            if !node.is(ABOVE) && !self.is_together(&node)? {
                changed.push(node);
            }
        }
        Ok(changed)
    }
}

fn is_blocking(node: &Node<'_>) -> bool {
    node.flags() & (CUT | DNAME) != 0
}
