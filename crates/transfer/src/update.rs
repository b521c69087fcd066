//! Dynamic update (RFC 2136): a message and a version of the zone go in, a difference or a refusal comes out.
//!
//! All or nothing. Who sent it was found out before; what it may change is asked here, record by record. Never visits
//! more names than the message has.

use crate::contents::Unreadable;
use crate::message::{Message, Question, Rr};
use crate::record::{counted, is_newer, is_same_rdata, next_serial, serial_of, with_serial};
use crate::{Content, Diff, Layer, Record};
use std::collections::BTreeSet;
use wire::name::is_at_or_below;
use wire::query::{CLASS_ANY, CLASS_IN};
use wire::rtype::*;
use wire::{Ede, Rcode, Rtype};

pub const OPCODE: u8 = 5;
const CLASS_NONE: u16 = 254;
const WKS: Rtype = 11;

/// Why nothing is changed: the answer's rcode, and more of it where that says too little.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    pub rcode: Rcode,
    pub ede: Option<Ede>,
}

impl From<Rcode> for Refused {
    fn from(rcode: Rcode) -> Refused {
        Refused { rcode, ede: None }
    }
}

impl From<Unreadable> for Refused {
    fn from(_: Unreadable) -> Refused {
        Refused { rcode: Rcode::SERVFAIL, ede: Some(Ede::INVALID_DATA) }
    }
}

const UNSUPPORTED: Refused = Refused { rcode: Rcode::REFUSED, ede: Some(Ede::NOT_SUPPORTED) };
const PROHIBITED: Refused = Refused { rcode: Rcode::REFUSED, ede: Some(Ede::PROHIBITED) };

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
        let mut request = Request { prerequisites: Vec::new(), changes: Vec::new() };
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
    decide(&Request { prerequisites: Vec::new(), changes }, apex, content, &|_, _| true)
}

/// What the message changes in the zone with this apex; an empty difference: nothing, which is a success too.
/// `may(owner, type)`: whether the sender may change it.
pub fn judge(
    message: &Message<'_>,
    apex: &[u8],
    content: &dyn Content,
    may: &dyn Fn(&[u8], Rtype) -> bool,
) -> Result<Diff, Refused> {
    let request = Request::read(message)?;
    // A digest is of what an update leads to: it is made here, and known to nobody before.
    let is_digest = |item: &Item| item.class == CLASS_IN && item.rtype() == ZONEMD && item.owner() == apex;
    if request.changes.iter().any(is_digest) {
        return Err(UNSUPPORTED);
    }
    decide(&request, apex, content, may)
}

fn decide(
    request: &Request,
    apex: &[u8],
    content: &dyn Content,
    may: &dyn Fn(&[u8], Rtype) -> bool,
) -> Result<Diff, Refused> {
    let at_apex = content.at(apex)?;
    // Whoever signed this zone signed its old content.
    if at_apex.iter().any(|r| is_of_dnssec(r.rtype)) {
        return Err(UNSUPPORTED);
    }
    // However many items have one owner, it is read once.
    let mut seen = Layer::over(content);
    require(&request.prerequisites, apex, &mut seen)?;
    for item in &request.changes {
        prescan(item, apex)?;
    }
    for item in &request.changes {
        permit(item, &mut seen, may)?;
    }
    let seen: &dyn Content = &seen;
    let mut layer = Layer::over(seen);
    for item in &request.changes {
        change(item, apex, &mut layer)?;
    }
    if unfit(apex, &layer).is_some() {
        return Err(UNSUPPORTED);
    }
    bump_serial(apex, &at_apex, &layer)
}

/// Types that only a signer may place.
fn is_of_dnssec(rtype: Rtype) -> bool {
    matches!(rtype, DNSKEY | RRSIG | NSEC | NSEC3 | NSEC3PARAM)
}

/// RFC 2136 section 3.2.
fn require(prerequisites: &[Item], apex: &[u8], seen: &mut Layer<&dyn Content>) -> Result<(), Refused> {
    let mut wanted: Vec<&Item> = Vec::new();
    for item in prerequisites {
        if item.record.ttl != 0 {
            return Err(Rcode::FORMERR.into());
        }
        if !is_at_or_below(item.owner(), apex) {
            return Err(Rcode::NOTZONE.into());
        }
        match item.class {
            CLASS_ANY | CLASS_NONE if !item.is_bare() || is_meta(item.rtype()) && item.rtype() != ANY => {
                return Err(Rcode::FORMERR.into());
            }
            CLASS_ANY | CLASS_NONE => require_presence(item, seen)?,
            CLASS_IN if !is_meta(item.rtype()) => wanted.push(item),
            _ => return Err(Rcode::FORMERR.into()),
        }
    }
    wanted.sort_by(|a, b| a.record.cmp(&b.record));
    for set in wanted.chunk_by(|a, b| a.owner() == b.owner() && a.rtype() == b.rtype()) {
        require_set(set, seen)?;
    }
    Ok(())
}

/// Name or RRset exists, whatever it holds; or does not.
fn require_presence(item: &Item, seen: &mut Layer<&dyn Content>) -> Result<(), Refused> {
    let records = seen.at_mut(item.owner())?;
    let is_there = records.iter().any(|r| item.rtype() == ANY || r.rtype == item.rtype());
    match (item.class, item.rtype(), is_there) {
        (CLASS_ANY, ANY, false) => Err(Rcode::NXDOMAIN.into()),
        (CLASS_ANY, _, false) => Err(Rcode::NXRRSET.into()),
        (CLASS_NONE, ANY, true) => Err(Rcode::YXDOMAIN.into()),
        (CLASS_NONE, _, true) => Err(Rcode::YXRRSET.into()),
        _ => Ok(()),
    }
}

/// The RRset exists and holds exactly these.
fn require_set(set: &[&Item], seen: &mut Layer<&dyn Content>) -> Result<(), Refused> {
    let Some(first) = set.first() else { return Ok(()) };
    let folded = |r: &Record| {
        let mut rdata = r.rdata().to_vec();
        zonefile::rdata::canonicalise(r.rtype, &mut rdata);
        rdata
    };
    let there = seen.at_mut(first.owner())?.iter().filter(|r| r.rtype == first.rtype());
    let (there, wanted): (BTreeSet<_>, BTreeSet<_>) =
        (there.map(folded).collect(), set.iter().map(|item| folded(&item.record)).collect());
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

fn permit(item: &Item, seen: &mut Layer<&dyn Content>, may: &dyn Fn(&[u8], Rtype) -> bool) -> Result<(), Refused> {
    if item.class == CLASS_IN && is_of_dnssec(item.rtype()) {
        return Err(UNSUPPORTED);
    }
    // To delete a name is to delete each of its RRsets.
    let is_allowed = match item.rtype() {
        ANY => seen.at_mut(item.owner())?.iter().all(|r| may(item.owner(), r.rtype)),
        rtype => may(item.owner(), rtype),
    };
    if is_allowed { Ok(()) } else { Err(PROHIBITED) }
}

/// What the names that were changed may not hold: what no image can, and what the checks of a zone call fatal. It would be durable,
/// and never served. Whatever else is fatal no update leads to: see `add` and `delete`.
pub fn unfit<C: Content>(apex: &[u8], layer: &Layer<C>) -> Option<&'static str> {
    layer.names().find_map(|(owner, records)| {
        if owner == apex && records.iter().any(|r| r.rtype == DS) {
            return Some("a DS at the zone's apex: it belongs into the zone above (RFC 4035 section 2.4)");
        }
        image::fault(records.iter().map(|r| image::Rr { rtype: r.rtype, ttl: r.ttl, rdata: r.rdata() }))
    })
}

/// RFC 2136 section 3.4.2.
fn change(item: &Item, apex: &[u8], layer: &mut Layer<&dyn Content>) -> Result<(), Refused> {
    let is_apex = item.owner() == apex;
    let (rtype, records) = (item.rtype(), layer.at_mut(item.owner())?);
    let is_kept = |r: &Record| is_apex && matches!(r.rtype, SOA | NS);
    match item.class {
        CLASS_IN => add(&item.record, records),
        CLASS_ANY if rtype == ANY => records.retain(is_kept),
        CLASS_ANY => records.retain(|r| r.rtype != rtype || is_kept(r)),
        _ => delete(&item.record, is_apex, records),
    }
    Ok(())
}

/// RFC 2136 section 3.4.2.4: the SOA stays, and so does an apex's last NS, in however many spellings.
fn delete(record: &Record, is_apex: bool, records: &mut Vec<Record>) {
    let mut name_servers = records.iter().filter(|r| r.rtype == NS);
    let is_last_ns = is_apex && record.rtype == NS && name_servers.all(|r| record.is_like(r));
    if record.rtype != SOA && !is_last_ns {
        records.retain(|r| !record.is_like(r));
    }
}

/// RFC 2136 section 3.4.2.2. What cannot stand beside what is there is left out without a word. A name may have thousands of records, and a message
/// add as many: they are gone through once, and again only for what is to be done.
fn add(record: &Record, records: &mut Vec<Record>) {
    let (rtype, ttl) = (record.rtype, counted(record.ttl));
    let (mut is_known, mut is_later, mut replaces_any, mut has_other_ttl) = (false, rtype != SOA, false, false);
    for r in records.iter() {
        if (r.rtype == CNAME) != (rtype == CNAME) {
            return;
        }
        if r.rtype == rtype {
            is_known |= !is_known && record.is_like(r);
            is_later |= !is_later && is_later_soa(record, r);
            replaces_any |= replaces(record, r);
            has_other_ttl |= r.ttl != ttl;
        }
    }
    if !is_later {
        return;
    }
    if replaces_any {
        records.retain(|r| r.rtype != rtype || !replaces(record, r));
    }
    // The records of an RRset have one TTL (RFC 2181 section 5.2): the last one given.
    if has_other_ttl {
        records.iter_mut().filter(|r| r.rtype == rtype).for_each(|r| r.ttl = ttl);
    }
    if !is_known {
        let mut record = record.clone();
        record.ttl = ttl;
        records.push(record);
    }
}

fn is_later_soa(new: &Record, old: &Record) -> bool {
    let serials = serial_of(new.rdata()).zip(serial_of(old.rdata()));
    serials.is_some_and(|(new, old)| is_newer(new, old))
}

/// Whether a record of a type takes the place of another of the same: types of which a name has one, and WKS with the same
/// address and protocol.
fn replaces(new: &Record, old: &Record) -> bool {
    match new.rtype {
        SOA | CNAME | DNAME => !is_same_rdata(new.rtype, new.rdata(), old.rdata()),
        WKS => new.rdata().get(..5) == old.rdata().get(..5) && new.rdata() != old.rdata(),
        _ => false,
    }
}

/// RFC 2136 section 3.6: a change that brings no new serial is given one.
fn bump_serial(apex: &[u8], before: &[Record], layer: &Layer<&dyn Content>) -> Result<Diff, Refused> {
    let old = before.iter().find(|r| r.rtype == SOA).and_then(|soa| serial_of(soa.rdata()));
    let old = old.ok_or(Unreadable)?;
    let (mut removed, mut added) = layer.changes()?;
    if removed.is_empty() && added.is_empty() {
        return Ok(Diff::new(old, old, removed, added));
    }
    let records = layer.at(apex)?;
    let soa = records.iter().find(|r| r.rtype == SOA).ok_or(Unreadable)?;
    let wished = serial_of(soa.rdata()).ok_or(Unreadable)?;
    if is_newer(wished, old) {
        return Ok(Diff::new(old, wished, removed, added));
    }
    // Nobody has wished for one. Or several SOAs of one message, each later than the one before, have led around to an earlier one.
    let new = next_serial(old);
    [&mut removed, &mut added].into_iter().for_each(|records| records.retain(|r| r.rtype != SOA));
    removed.extend(before.iter().filter(|r| r.rtype == SOA).cloned());
    added.push(Record::new(apex, SOA, soa.ttl, &with_serial(soa.rdata(), new)).ok_or(Unreadable)?);
    Ok(Diff::new(old, new, removed, added))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_apex_keeps_its_only_name_server_however_often_it_is_spelt() {
        let ns = |target: &[u8]| Record::new(b"\x01z\0", NS, 60, target).unwrap();
        let (small, large, other) = (ns(b"\x02ns\x01z\0"), ns(b"\x02NS\x01z\0"), ns(b"\x01b\x01z\0"));
        let left = |records: &[&Record], gone: &Record| {
            let mut records: Vec<Record> = records.iter().copied().cloned().collect();
            delete(gone, true, &mut records);
            records.len()
        };
        assert_eq!(left(&[&small, &large], &small), 2);
        assert_eq!(left(&[&small, &large, &other], &small), 1);
        assert_eq!(left(&[&small], &other), 1);
    }
}
