//! The classes of documented difference. Each is a rule that erases from a message what servers may do differently, and nothing else;
//! what it is, which RFC leaves it open, who does what and what Dunlin chose stands in docs/ambiguities.md under the same name.
//!
//! An erasure may be coarse: the verdict keeps one class at a time and then wants Dunlin's message to equal a peer's whole message.

use crate::message::{Message, Record, Reply};
use crate::name::Name;
use crate::query::Query;
use crate::rtype as t;
use crate::zone::Zone;

/// What a class may look at: the query, and the zone's content if the test wrote it.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub query: &'a Query,
    pub zone: Option<&'a Zone>,
}

pub struct Class {
    pub name: &'static str,
    pub erase: fn(Scene, &mut Message),
}

pub const CLASSES: &[Class] = &[
    Class { name: "any-query", erase: any_query },
    Class { name: "rrsig-query", erase: rrsig_query },
    Class { name: "nsec-query", erase: nsec_query },
    Class { name: "alias-loop", erase: alias_loop },
    Class { name: "dname-too-long", erase: dname_too_long },
    Class { name: "referral-addresses", erase: referral_addresses },
    Class { name: "additional-data", erase: additional_data },
    Class { name: "asterisk-empty", erase: asterisk_empty },
    Class { name: "asterisk-with-children", erase: asterisk_with_children },
    Class { name: "asterisk-asked", erase: asterisk_asked },
    Class { name: "dname-missing-proof", erase: dname_missing_proof },
    Class { name: "extended-errors", erase: extended_errors },
];

impl Class {
    pub fn apply(&self, scene: Scene, reply: &mut Reply) {
        if let Reply::Message(m) = reply {
            (self.erase)(scene, m);
        }
    }
}

/// RFC 8482 section 4: all RRsets, one of them, or a made-up one.
fn any_query(scene: Scene, m: &mut Message) {
    if scene.query.rtype == t::ANY && m.is_authoritative() && !m.answer.is_empty() {
        clear(m);
    }
}

/// Signatures are no RRset of their own (RFC 4035 section 2.2): some give those of one type, some all, some follow an alias first.
fn rrsig_query(scene: Scene, m: &mut Message) {
    if scene.query.rtype == t::RRSIG && m.is_authoritative() {
        m.rcode = 0;
        clear(m);
    }
}

/// NSEC beside an alias and at a cut, and NSEC3, which no name of the zone owns.
fn nsec_query(scene: Scene, m: &mut Message) {
    if matches!(scene.query.rtype, t::NSEC | t::NSEC3) {
        m.flags = 0;
        m.rcode = 0;
        clear(m);
    }
}

fn clear(m: &mut Message) {
    m.answer.clear();
    m.authority.clear();
    m.additional.clear();
}

/// RFC 1034 section 3.6.2 wants loops "signaled as an error", section 4.3.2 gives no place for it.
fn alias_loop(_: Scene, m: &mut Message) {
    if loops(&m.answer) {
        m.rcode = 0;
        clear(m);
    }
}

/// True if the aliases of the section lead back to where they came from, or below a DNAME that leads below itself.
fn loops(answer: &[Record]) -> bool {
    let grows = |r: &Record| r.rtype == t::DNAME && r.target().is_some_and(|target| target.is_at_or_below(&r.owner));
    let next = |name: &Name| answer.iter().find(|r| r.rtype == t::CNAME && r.owner == *name).and_then(Record::target);
    let returns = |r: &Record| {
        let mut at = r.target();
        for _ in 0..answer.len() {
            at = at.as_ref().and_then(next);
        }
        at.is_some()
    };
    answer.iter().any(grows) || answer.iter().filter(|r| r.rtype == t::CNAME).any(returns)
}

/// The names that the answer speaks of: the question's, and those its aliases lead to.
fn chain(query: &Query, m: &Message) -> Vec<Name> {
    let mut names = vec![query.name.fold()];
    for _ in 0..m.answer.len() {
        let last = &names[names.len() - 1];
        let alias = m.answer.iter().find(|r| r.rtype == t::CNAME && r.owner == *last).and_then(Record::target);
        match alias {
            Some(target) if !names.contains(&target) => names.push(target),
            _ => break,
        }
    }
    names
}

/// RFC 6672 section 2.2: "If the resulting <target> is too long, YXDOMAIN"; what else the message holds is not said.
fn dname_too_long(scene: Scene, m: &mut Message) {
    let names = chain(scene.query, m);
    let overflows = |r: &Record| {
        let target = r.target().map_or(0, |t| t.wire().len());
        let below = |n: &&Name| n.is_below(&r.owner);
        names.iter().filter(below).any(|n| n.wire().len() - r.owner.wire().len() + target > 255)
    };
    if m.answer.iter().any(|r| r.rtype == t::DNAME && overflows(r)) {
        m.rcode = 0;
        clear(m);
    }
}

/// RFC 9471 section 2: glue inside the delegated zone must go with a referral; other addresses may.
fn referral_addresses(_: Scene, m: &mut Message) {
    if m.is_referral() {
        let cuts: Vec<Name> = m.authority.iter().filter(|r| r.rtype == t::NS).map(|r| r.owner.clone()).collect();
        m.additional.retain(|r| cuts.iter().any(|cut| r.owner.is_at_or_below(cut)));
    }
}

/// RFC 1034 section 4.3.2 step 6, RFC 2782, RFC 9460 section 4.1: addresses of targets are useful, never required.
fn additional_data(_: Scene, m: &mut Message) {
    let has_targets = |r: &Record| matches!(r.rtype, t::NS | t::MX | t::SRV | t::SVCB | t::HTTPS);
    if m.is_authoritative() && m.answer.iter().any(has_targets) {
        m.additional.clear();
    }
}

/// An asterisk that is an empty non-terminal is a source of synthesis without data (RFC 4592 section 2.2.3): NODATA.
fn asterisk_empty(scene: Scene, m: &mut Message) {
    let names = chain(scene.query, m);
    let source = |zone: &Zone| {
        names.last().and_then(|n| zone.asterisk_for(n)).and_then(|a| zone.types(&a).map(|t| t.is_empty()))
    };
    if scene.zone.and_then(source) == Some(true) {
        m.rcode = 0;
    }
}

/// Proofs about names beside and below an asterisk that has names below it.
fn asterisk_with_children(scene: Scene, m: &mut Message) {
    let Some(zone) = scene.zone else { return };
    let beside = |n: &Name| zone.asterisk_for(n).is_some_and(|a| zone.has_children(&a));
    let below = |n: &Name| n.labels().iter().skip(1).any(|l| *l == b"*");
    if chain(scene.query, m).iter().any(|n| beside(n) || below(n)) {
        drop_proofs(m);
    }
}

/// A name that begins with the asterisk is a name like any other when it is asked for (RFC 4592 section 2.3).
fn asterisk_asked(scene: Scene, m: &mut Message) {
    if chain(scene.query, m).iter().any(|n| n.labels().first() == Some(&&b"*"[..])) {
        drop_proofs(m);
    }
}

/// What denies the name that a DNAME has led to (RFC 4035 section 3.1.3.2 asks for both NSEC records there as anywhere).
fn dname_missing_proof(scene: Scene, m: &mut Message) {
    let names = chain(scene.query, m);
    let is_missing = |zone: &Zone| names.last().is_some_and(|n| zone.types(n).is_none());
    if scene.zone.is_some_and(is_missing) && m.answer.iter().any(|r| r.rtype == t::DNAME) {
        drop_proofs(m);
    }
}

fn drop_proofs(m: &mut Message) {
    m.authority.retain(|r| !r.is_or_signs(t::NSEC) && !r.is_or_signs(t::NSEC3));
}

/// RFC 8914 section 2: extended errors are for people; a server may send none.
fn extended_errors(_: Scene, m: &mut Message) {
    m.edns.iter_mut().for_each(|e| e.options.retain(|o| *o != 15));
}
