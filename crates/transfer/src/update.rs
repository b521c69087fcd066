//! Dynamic update (RFC 2136): a message and a version of the zone go in, a difference or a refusal comes out.
//!
//! All or nothing. Who sent it was found out before; what it may change is asked here, record by record. Never visits
//! more names than the message has.

use crate::contents::Unreadable;
use crate::message::{Message, Question, Rr};
use crate::names::{HELD_MAX, Names, Node};
use crate::record::{Bare, apart_from, counted, folded, is_newer, next_serial, serial_of, with_serial};
use crate::{Content, Diff, Layer, Record};
use std::collections::BTreeSet;
use wire::name::is_at_or_below;
use wire::query::{CLASS_ANY, CLASS_IN};
use wire::rtype::*;
use wire::{Ede, Rcode, Rtype};

pub const OPCODE: u8 = 5;
const CLASS_NONE: u16 = 254;

/// So many records an update may have at one name, and octets of their data: what each further one of it costs is what it holds, others wait for that, and
/// it takes so much of the room behind the image.
const RECORDS_MAX: usize = 10_000;
const RDATA_MAX: usize = 1 << 20;

/// Why nothing is changed: the answer's rcode, and more of it where that says too little.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    pub rcode: Rcode,
    pub ede: Option<Ede>,
    /// In words, where these leave it open.
    pub why: Option<&'static str>,
}

impl Refused {
    pub const fn new(rcode: Rcode, ede: Option<Ede>) -> Refused {
        Refused { rcode, ede, why: None }
    }

    /// What this zone does not take by updates.
    pub(crate) const fn unsupported(why: &'static str) -> Refused {
        Refused { rcode: Rcode::REFUSED, ede: Some(Ede::NOT_SUPPORTED), why: Some(why) }
    }
}

impl From<Rcode> for Refused {
    fn from(rcode: Rcode) -> Refused {
        Refused::new(rcode, None)
    }
}

impl From<Unreadable> for Refused {
    fn from(_: Unreadable) -> Refused {
        Refused::new(Rcode::SERVFAIL, Some(Ede::INVALID_DATA))
    }
}

const PROHIBITED: Refused = Refused::new(Rcode::REFUSED, Some(Ede::PROHIBITED));

/// Which zone is to change (RFC 2136 section 3.1.1).
pub fn zone(message: &Message<'_>) -> Result<Question, Rcode> {
    match message.question() {
        Some((zone, _)) if zone.rtype == SOA => Ok(zone),
        _ => Err(Rcode::FORMERR),
    }
}

/// A message whose records were read.
struct Request {
    prerequisites: Vec<Item>,
    changes: Vec<Item>,
    /// Not an operator's.
    is_message: bool,
}

/// A record of the message: an order rather than data where its class is not the zone's.
struct Item {
    class: u16,
    /// Names, types and TTLs as they stand; rdata written out, empty if there is none.
    record: Record,
}

impl Item {
    fn owner(&self) -> &[u8] {
        self.record.owner()
    }

    fn rtype(&self) -> Rtype {
        self.record.rtype
    }

    fn is_bare(&self) -> bool {
        self.record.ttl == 0 && self.record.rdata().is_empty()
    }
}

impl Request {
    fn read(message: &Message<'_>) -> Result<Request, Rcode> {
        let mut request = Request { prerequisites: Vec::new(), changes: Vec::new(), is_message: true };
        for rr in message.records() {
            let rr = rr.map_err(|_| Rcode::FORMERR)?;
            match rr.section {
                1 => request.prerequisites.push(item(&rr).ok_or(Rcode::FORMERR)?),
                2 => request.changes.push(item(&rr).ok_or(Rcode::FORMERR)?),
                _ => {}
            }
        }
        Ok(request)
    }
}

/// None: rdata that does not fit its type. Orders come without any, whatever their type.
fn item(rr: &Rr<'_>) -> Option<Item> {
    let rdata = if rr.raw_rdata().is_empty() { Vec::new() } else { rr.rdata()? };
    let is_data = rr.class == CLASS_IN || rr.class == CLASS_NONE && !rdata.is_empty();
    if is_data && !is_meta(rr.rtype) && !zonefile::rdata::is_well_formed(rr.rtype, &rdata) {
        return None;
    }
    Some(Item { class: rr.class, record: Record::new(rr.owner.bytes(), rr.rtype, rr.ttl, &rdata)? })
}

/// What an operator wishes to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    Add(Record),
    /// Whatever its TTL.
    Delete(Record),
    DeleteSet(Box<[u8]>, Rtype),
    DeleteName(Box<[u8]>),
}

impl Change {
    pub fn owner(&self) -> &[u8] {
        match self {
            Change::Add(r) | Change::Delete(r) => r.owner(),
            Change::DeleteSet(owner, _) | Change::DeleteName(owner) => owner,
        }
    }

    fn item(&self) -> Option<Item> {
        let (class, record) = match self {
            Change::Add(r) => (CLASS_IN, r.clone()),
            Change::Delete(r) => (CLASS_NONE, Record::new(r.owner(), r.rtype, 0, r.rdata())?),
            Change::DeleteSet(owner, rtype) => (CLASS_ANY, Record::new(owner, *rtype, 0, &[])?),
            Change::DeleteName(owner) => (CLASS_ANY, Record::new(owner, ANY, 0, &[])?),
        };
        Some(Item { class, record })
    }
}

/// What these changes are to the zone with this apex, all or none, as if an update had brought them.
pub fn amend(changes: &[Change], apex: &[u8], content: &dyn Content) -> Result<Diff, Refused> {
    let changes = changes.iter().map(Change::item).collect::<Option<_>>().ok_or(Rcode::FORMERR)?;
    decide(&Request { prerequisites: Vec::new(), changes, is_message: false }, apex, content, &|_, _| true)
}

/// What the message changes in the zone with this apex; an empty difference: nothing, which is a success too.
/// `may(owner, type)`: whether the sender may change it.
pub fn judge(
    message: &Message<'_>,
    apex: &[u8],
    content: &dyn Content,
    may: &dyn Fn(&[u8], Rtype) -> bool,
) -> Result<Diff, Refused> {
    decide(&Request::read(message)?, apex, content, may)
}

fn decide(
    request: &Request,
    apex: &[u8],
    content: &dyn Content,
    may: &dyn Fn(&[u8], Rtype) -> bool,
) -> Result<Diff, Refused> {
    let mut names = Names::of(content, apex, if request.is_message { HELD_MAX } else { usize::MAX });
    require(&request.prerequisites, apex, &mut names)?;
    for item in &request.changes {
        prescan(item, apex)?;
    }
    // Whoever signed this zone signed its old content. Who only asks whether something is there is told.
    if !request.changes.is_empty() && names.at(apex)?.types().any(is_of_dnssec) {
        return Err(Refused::unsupported("the zone is signed: what signs it can change it"));
    }
    for item in &request.changes {
        // A digest is of what an update leads to: it is made here, and known to nobody before.
        if request.is_message && item.class == CLASS_IN && item.rtype() == ZONEMD && item.owner() == apex {
            return Err(Refused::unsupported("it is a digest of the zone, which is made here"));
        }
        permit(item, &mut names, may)?;
    }
    let before = soa(names.at(apex)?)?;
    let digests: Vec<Bare> = names.at(apex)?.rrset(ZONEMD).map(|(r, _)| r.clone()).collect();
    for item in &request.changes {
        change(item, names.at(item.owner())?);
    }
    // A command is told of it instead.
    if request.is_message {
        names.leave_no_ds_alone();
    }
    let unfit = |node: &Node| match node.outgrows(RECORDS_MAX, RDATA_MAX) {
        true => Some("a name would have more records, or longer ones, than updates may give it"),
        false => unfit_at(node.is_apex(), node.records().map(rr)),
    };
    if let Some(why) = names.changed().find_map(unfit) {
        return Err(Refused::unsupported(why));
    }
    let after = soa(names.at(apex)?)?;
    bump_serial(apex, (&before, &after), names.changes()?, &digests)
}

/// Types that only a signer may place.
fn is_of_dnssec(rtype: Rtype) -> bool {
    matches!(rtype, DNSKEY | RRSIG | NSEC | NSEC3 | NSEC3PARAM)
}

/// RFC 2136 section 3.2.
fn require(prerequisites: &[Item], apex: &[u8], names: &mut Names<'_>) -> Result<(), Refused> {
    let mut wanted: Vec<&Item> = Vec::new();
    for item in prerequisites {
        if item.record.ttl != 0 {
            return Err(Rcode::FORMERR.into());
        }
        if !is_at_or_below(item.owner(), apex) {
            return Err(Rcode::NOTZONE.into());
        }
        match item.class {
            CLASS_ANY | CLASS_NONE if item.is_bare() => require_presence(item, names.at(item.owner())?)?,
            CLASS_IN => wanted.push(item),
            _ => return Err(Rcode::FORMERR.into()),
        }
    }
    wanted.sort_by(|a, b| a.record.cmp(&b.record));
    for set in wanted.chunk_by(|a, b| a.owner() == b.owner() && a.rtype() == b.rtype()) {
        require_set(set, names)?;
    }
    Ok(())
}

/// Name or RRset exists, whatever it holds; or does not.
fn require_presence(item: &Item, node: &Node) -> Result<(), Refused> {
    let is_there = if item.rtype() == ANY { node.types().next().is_some() } else { node.has(item.rtype()) };
    match (item.class, item.rtype(), is_there) {
        (CLASS_ANY, ANY, false) => Err(Rcode::NXDOMAIN.into()),
        (CLASS_ANY, _, false) => Err(Rcode::NXRRSET.into()),
        (CLASS_NONE, ANY, true) => Err(Rcode::YXDOMAIN.into()),
        (CLASS_NONE, _, true) => Err(Rcode::YXRRSET.into()),
        _ => Ok(()),
    }
}

/// The RRset exists and holds exactly these.
fn require_set(set: &[&Item], names: &mut Names<'_>) -> Result<(), Refused> {
    let Some(first) = set.first() else { return Ok(()) };
    let there = names.at(first.owner())?.rrset(first.rtype()).map(|(r, _)| r);
    let wanted = set.iter().map(|item| folded(item.rtype(), item.record.rdata()));
    let (there, wanted): (BTreeSet<_>, BTreeSet<_>) =
        (there.map(|r| folded(r.rtype, &r.rdata)).collect(), wanted.collect());
    if there == wanted { Ok(()) } else { Err(Rcode::NXRRSET.into()) }
}

/// RFC 2136 section 3.4.1: everything is looked at before anything is changed.
fn prescan(item: &Item, apex: &[u8]) -> Result<(), Refused> {
    if !is_at_or_below(item.owner(), apex) {
        return Err(Rcode::NOTZONE.into());
    }
    let is_in_order = match item.class {
        CLASS_IN => !is_meta(item.rtype()),
        CLASS_ANY => item.is_bare() && (!is_meta(item.rtype()) || item.rtype() == ANY),
        CLASS_NONE => item.record.ttl == 0 && !is_meta(item.rtype()),
        _ => false,
    };
    if is_in_order { Ok(()) } else { Err(Rcode::FORMERR.into()) }
}

fn permit(item: &Item, names: &mut Names<'_>, may: &dyn Fn(&[u8], Rtype) -> bool) -> Result<(), Refused> {
    if item.class == CLASS_IN && is_of_dnssec(item.rtype()) {
        return Err(Refused::unsupported("it is what only a signer places, and the zone is not signed"));
    }
    // To delete a name is to delete each of its RRsets, but for those that stay at an apex (RFC 2136 section 3.4.2.3).
    let is_allowed = match item.rtype() {
        ANY => names.at(item.owner())?.deletable().all(|rtype| may(item.owner(), rtype)),
        rtype => may(item.owner(), rtype),
    };
    if is_allowed { Ok(()) } else { Err(PROHIBITED) }
}

/// What the names that were changed may not hold: what no image can, and what the checks of a zone call fatal. It would be durable,
/// and never served. Whatever else is fatal no update leads to: see `Node::add` and `Node::delete`.
pub fn unfit<C: Content>(apex: &[u8], layer: &Layer<C>) -> Option<&'static str> {
    layer.names().find_map(|(owner, records)| unfit_at(owner == apex, records.iter().map(|r| rr((r, r.ttl)))))
}

fn unfit_at<'r>(is_apex: bool, records: impl Iterator<Item = image::Rr<'r>> + Clone) -> Option<&'static str> {
    if is_apex && records.clone().any(|r| r.rtype == DS) {
        return Some("a DS at the zone's apex: it belongs into the zone above (RFC 4035 section 2.4)");
    }
    image::fault(records)
}

fn rr((r, ttl): (&Bare, u32)) -> image::Rr<'_> {
    image::Rr { rtype: r.rtype, ttl, rdata: &r.rdata }
}

/// RFC 2136 section 3.4.2.
fn change(item: &Item, node: &mut Node) {
    match item.class {
        CLASS_IN => node.add(&item.record, counted(item.record.ttl)),
        CLASS_ANY if item.rtype() == ANY => node.delete_all(),
        CLASS_ANY => node.delete_set(item.rtype()),
        _ => node.delete(&item.record),
    }
}

/// An apex's SOA.
fn soa(node: &Node) -> Result<Bare, Refused> {
    let (soa, ttl) = node.rrset(SOA).next().ok_or(Unreadable)?;
    Ok(Bare { ttl, ..soa.clone() })
}

/// RFC 2136 section 3.6: a change that brings no new serial is given one. `soa`, `now`: before, and after it. `digests`: of other versions.
fn bump_serial(
    apex: &[u8],
    (soa, now): (&Bare, &Bare),
    changes: (Vec<Record>, Vec<Record>),
    digests: &[Bare],
) -> Result<Diff, Refused> {
    let [old, wished] = [soa, now].map(|soa| serial_of(&soa.rdata));
    let (old, wished) = (old.ok_or(Unreadable)?, wished.ok_or(Unreadable)?);
    let (mut removed, mut added) = changes;
    if removed.is_empty() && added.is_empty() {
        return Ok(Diff::new(old, old, removed, added));
    }
    // Where nobody has wished for one. Or several SOAs of one message, each later than the one before, have led around to an earlier one.
    let new = if is_newer(wished, old) { wished } else { next_serial(old) };
    let new = apart_from(new, digests.iter().map(|r| &*r.rdata));
    if new != wished {
        [&mut removed, &mut added].into_iter().for_each(|records| records.retain(|r| r.rtype != SOA));
        removed.push(Record::new(apex, SOA, soa.ttl, &soa.rdata).ok_or(Unreadable)?);
        added.push(Record::new(apex, SOA, now.ttl, &with_serial(&now.rdata, new)).ok_or(Unreadable)?);
    }
    Ok(Diff::new(old, new, removed, added))
}
