//! The classes of documented difference. Each is a rule that erases from a message what servers may do differently, and nothing else;
//! what it is, which RFC leaves it open, who does what and what Dunlin chose stands in docs/ambiguities.md under the same name.
//!
//! An erasure may be coarse: it explains why peers differ, while Dunlin's message must, aspect by aspect, be that of a peer.

use crate::message::{CD, Message, Record, Reply};
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
    pub aspect: Aspect,
    pub erase: Erase,
}

/// What of a message a class is about. Classes that are about the same erase the same, so they are judged together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// All of it: there Dunlin's message must be a peer's.
    Whole,
    /// The NSEC and NSEC3 records of the authority section.
    Proofs,
    /// What no other class is about.
    Own(&'static str),
}

pub enum Erase {
    /// What may differ inside a message.
    Part(fn(Scene, &mut Message)),
    /// These rows of the matrix: the whole reply may differ, and Dunlin's must be that of one peer.
    Rows(&'static [&'static str]),
}

/// What is erased before anything is compared: every server may do as it likes, Dunlin too.
pub const FREE: &[Class] = &[part("alias-chain-length", alias_chain_length), part("extended-errors", extended_errors)];

pub const CLASSES: &[Class] = &[
    whole("alias-loop", alias_loop),
    whole("alias-chain-limit", alias_chain_limit),
    whole("alias-across-zones", alias_across_zones),
    whole("below-dname", below_dname),
    whole("asterisk-ns", asterisk_ns),
    part("unequal-ttls", unequal_ttls),
    whole("dname-too-long", dname_too_long),
    part("referral-addresses", referral_addresses),
    part("asterisk-glue", asterisk_glue),
    part("additional-of-asterisk", additional_of_asterisk),
    part("additional-proofs", additional_proofs),
    part("additional-data", additional_data),
    part("asterisk-empty", asterisk_empty),
    proofs("asterisk-with-children", asterisk_with_children),
    proofs("asterisk-asked", asterisk_asked),
    proofs("opt-out-ent", opt_out_ent),
    proofs("dname-missing-proof", dname_missing_proof),
    whole("nsec3-owner-asked", nsec3_owner_asked),
    whole("any-query", any_query),
    whole("rrsig-query", rrsig_query),
    whole("nsec-query", nsec_query),
    part("question-of-an-error", question_of_an_error),
    part("edns-of-an-error", edns_of_an_error),
    part("flags-of-an-error", flags_of_an_error),
    part("checking-disabled", checking_disabled),
    part("badvers-do", badvers_do),
    rows("malformed-question", MALFORMED),
    rows("no-question", &["no-question-edns"]),
    rows("records-in-a-query", RECORDS),
    rows("octets-after-the-end", &["trailing", "trailing-one", "trailing-edns"]),
    rows("rcode-in-a-query", &["rcode-in-query"]),
    rows("opt-owner", &["edns-opt-not-at-root", "edns-opt-owner-compressed"]),
    rows("optional-options", &["edns-client-subnet", "edns-nsid-not-configured", "edns-expire"]),
    rows("meta-types", META_TYPES),
    rows("transfer-over-udp", &["axfr-over-udp", "axfr-below-apex-over-udp", "ixfr-over-udp-without-soa"]),
    rows("other-classes", OTHER_CLASSES),
    rows("chaos", CHAOS),
    rows("notify-unexpected", &["opcode-notify", "opcode-notify-aa", "opcode-notify-soa"]),
    rows("update-unexpected", &["opcode-update", "opcode-update-edns", "opcode-update-soa"]),
];

const MALFORMED: &[&str] = &[
    "label-kind-80",
    "label-of-64",
    "name-of-256",
    "name-of-320",
    "pointer-after-label",
    "pointer-behind-end",
    "pointer-forward",
    "pointer-to-header",
    "pointer-to-itself",
    "question-cut-by-1",
    "question-cut-by-3",
    "question-cut-in-name",
    "question-missing",
    "question-not-counted",
    "questions-65535",
    "two-questions",
    "two-questions-one-there",
];
const RECORDS: &[&str] =
    &["answer-in-query", "authority-in-query", "additional-in-query", "additional-before-opt", "additional-after-opt"];
const META_TYPES: &[&str] =
    &["type-0", "type-128", "type-248", "type-maila", "type-mailb", "mailb-apex", "type-opt", "type-tkey", "type-tsig"];
const OTHER_CLASSES: &[&str] = &["class-0", "class-65280", "class-any", "class-any-soa", "class-hs", "class-none"];
const CHAOS: &[&str] = &[
    "chaos-authors",
    "chaos-hostname",
    "chaos-id",
    "chaos-version-a",
    "chaos-version-any",
    "chaos-version-not-configured",
    "chaos-version-server",
];

const fn part(name: &'static str, erase: fn(Scene, &mut Message)) -> Class {
    Class { name, aspect: Aspect::Own(name), erase: Erase::Part(erase) }
}

const fn proofs(name: &'static str, erase: fn(Scene, &mut Message)) -> Class {
    Class { name, aspect: Aspect::Proofs, erase: Erase::Part(erase) }
}

const fn whole(name: &'static str, erase: fn(Scene, &mut Message)) -> Class {
    Class { name, aspect: Aspect::Whole, erase: Erase::Part(erase) }
}

const fn rows(name: &'static str, rows: &'static [&'static str]) -> Class {
    Class { name, aspect: Aspect::Whole, erase: Erase::Rows(rows) }
}

impl Class {
    /// Whether there is anything of this class in the reply.
    pub fn touches(&self, scene: Scene, reply: &Reply) -> bool {
        let mut erased = reply.clone();
        self.apply(scene, &mut erased);
        erased != *reply
    }

    pub fn apply(&self, scene: Scene, reply: &mut Reply) {
        match (&self.erase, reply) {
            (Erase::Part(erase), Reply::Message(m)) => erase(scene, m),
            (Erase::Rows(rows), reply) if rows.contains(&scene.query.kind) => *reply = Reply::Silence,
            _ => {}
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

/// Where a server that follows no further stops: after five aliases at the earliest.
fn alias_chain_length(scene: Scene, m: &mut Message) {
    let chain = chain(scene.query, m);
    let is_open = chain.len() > ALIASES_LEAST && m.rcode == 0 && m.authority.is_empty();
    if is_open && m.answer.iter().all(|r| r.is_or_signs(t::CNAME) || r.is_or_signs(t::DNAME)) {
        m.answer.retain(|r| !chain[ALIASES_LEAST..].contains(&r.owner));
    }
}

/// The least number of aliases that a peer follows.
const ALIASES_LEAST: usize = 5;

/// No RFC says how many aliases a server follows.
fn alias_chain_limit(_: Scene, m: &mut Message) {
    if m.answer.iter().filter(|r| r.rtype == t::CNAME).count() >= ALIASES_LEAST {
        m.rcode = 0;
        clear(m);
    }
}

/// RFC 1034 section 4.3.2 step 3a goes back to step 1, which looks through all zones; nobody is obliged to believe what follows.
fn alias_across_zones(scene: Scene, m: &mut Message) {
    let Some(zone) = scene.zone else { return };
    let leaves =
        |n: &Name| !n.is_at_or_below(&zone.origin) || zone.children.iter().any(|child| n.is_at_or_below(child));
    if chain(scene.query, m).iter().skip(1).any(leaves) {
        m.rcode = 0;
        clear(m);
    }
}

/// RFC 6672 section 2.4: nothing may stand below a DNAME; a server that loads such a zone may or may not see it.
fn below_dname(scene: Scene, m: &mut Message) {
    let Some(zone) = scene.zone else { return };
    if chain(scene.query, m).iter().any(|n| zone.is_occluded_by_dname(n)) {
        m.flags = 0;
        m.rcode = 0;
        clear(m);
    }
}

/// RFC 4592 section 4.2 leaves NS at an asterisk undefined.
fn asterisk_ns(scene: Scene, m: &mut Message) {
    let Some(zone) = scene.zone else { return };
    let is_ns = |a: Name| zone.types(&a).is_some_and(|types| types.contains(&t::NS));
    let below =
        |n: &Name| n.parent().map(|p| p.child(b"*")).is_some_and(is_ns) || zone.asterisk_for(n).is_some_and(is_ns);
    if chain(scene.query, m).iter().any(below) {
        m.flags = 0;
        clear(m);
    }
}

/// RFC 2181 section 5.2: a client treats such an RRset "as if all TTLs ... had been set to the value of the lowest TTL".
fn unequal_ttls(scene: Scene, m: &mut Message) {
    let Some(zone) = scene.zone else { return };
    for r in m.answer.iter_mut().filter(|r| zone.unequal.contains(&(r.owner.clone(), r.rtype))) {
        r.ttl = 0;
    }
    m.answer.sort();
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

/// RFC 6672 section 2.2: the DNAME and its signature "are included in the answer as proof for the YXDOMAIN"; one peer goes on.
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

/// RFC 1034 section 4.3.3: "delegation cancels the wildcard defaults"; an asterisk below a cut makes no glue.
fn asterisk_glue(scene: Scene, m: &mut Message) {
    let Some(zone) = scene.zone else { return };
    if m.is_referral() {
        m.additional.retain(|r| zone.types(&r.owner).is_some());
    }
}

/// RFC 1034 section 4.3.2 step 6, RFC 2782, RFC 9460 section 4.1: addresses of targets are useful, never required.
fn additional_data(scene: Scene, m: &mut Message) {
    let is_there = |name: &Name| scene.zone.is_none_or(|zone| zone.types(name).is_some());
    if m.is_authoritative() && has_targets(m) {
        m.additional.retain(|r| is_proof(r) || !is_there(&r.owner));
    }
}

fn has_targets(m: &Message) -> bool {
    m.answer.iter().any(|r| matches!(r.rtype, t::NS | t::MX | t::SRV | t::SVCB | t::HTTPS))
}

/// Addresses that an asterisk would make for a target.
fn additional_of_asterisk(scene: Scene, m: &mut Message) {
    let Some(zone) = scene.zone else { return };
    if has_targets(m) {
        m.additional.retain(|r| is_proof(r) || zone.types(&r.owner).is_some());
    }
}

/// NSEC and NSEC3 in the additional section prove nothing that was asked.
fn additional_proofs(_: Scene, m: &mut Message) {
    m.additional.retain(|r| !is_proof(r));
}

fn is_proof(r: &Record) -> bool {
    r.is_or_signs(t::NSEC) || r.is_or_signs(t::NSEC3)
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

/// RFC 5155 section 7.2.8: an NSEC3 owner is answered as if it were not there.
fn nsec3_owner_asked(scene: Scene, m: &mut Message) {
    let Some(zone) = scene.zone else { return };
    let labels = scene.query.name.labels();
    let depth = zone.origin.labels().len() + 1;
    let is_hash = |l: &[u8]| {
        l.len() == 32 && l.iter().all(|c| c.is_ascii_digit() || (b'a'..=b'v').contains(&c.to_ascii_lowercase()))
    };
    if labels.len() >= depth && is_hash(labels[labels.len() - depth]) {
        m.rcode = 0;
        clear(m);
    }
}

/// RFC 5155 section 7.1 as corrected: where a span opts out, an empty non-terminal above insecure cuts alone need have no NSEC3.
fn opt_out_ent(scene: Scene, m: &mut Message) {
    let Some(zone) = scene.zone else { return };
    let is_empty = |n: &Name| zone.types(n).is_some_and(|types| types.is_empty());
    let beside = |n: &Name| is_empty(n) || zone.closest_encloser(n).is_some_and(|encloser| is_empty(&encloser));
    let opts_out = |r: &Record| r.rtype == t::NSEC3 && r.rdata.get(1).is_some_and(|flags| flags & 1 != 0);
    if m.authority.iter().any(opts_out) && chain(scene.query, m).iter().any(beside) {
        drop_proofs(m);
    }
}

/// What denies the name that a DNAME has led to (RFC 4035 section 3.1.3.2 asks for both NSEC records there as anywhere).
fn dname_missing_proof(scene: Scene, m: &mut Message) {
    let missing = |zone: &Zone| chain(scene.query, m).iter().skip(1).any(|n| zone.types(n).is_none());
    if scene.zone.is_some_and(missing) && m.answer.iter().any(|r| r.rtype == t::DNAME) {
        drop_proofs(m);
    }
}

fn drop_proofs(m: &mut Message) {
    m.authority.retain(|r| !is_proof(r));
}

/// RFC 8914 section 2: extended errors are for people; a server may send none.
fn extended_errors(_: Scene, m: &mut Message) {
    m.edns.iter_mut().for_each(|e| e.options.retain(|o| *o != 15));
}

const FORMERR: u16 = 1;
const NOTIMP: u16 = 4;
const REFUSED: u16 = 5;
const BADVERS: u16 = 16;

/// RFC 1035 section 4.1.1 says what an error means, not whether the question comes back with it.
fn question_of_an_error(_: Scene, m: &mut Message) {
    if matches!(m.rcode, FORMERR | NOTIMP | REFUSED) {
        m.question.clear();
        m.questions = 0;
    }
}

/// RFC 6891 section 7: an old server answers FORMERR without OPT; a new one that cannot read the query may not have seen the OPT.
fn edns_of_an_error(_: Scene, m: &mut Message) {
    if matches!(m.rcode, FORMERR | NOTIMP) {
        m.edns = None;
    }
}

fn flags_of_an_error(_: Scene, m: &mut Message) {
    if matches!(m.rcode, FORMERR | NOTIMP) {
        m.flags = 0;
    }
}

/// RFC 4035 section 3.1.6: "SHOULD clear the CD bit when composing an authoritative response".
fn checking_disabled(_: Scene, m: &mut Message) {
    m.flags &= !CD;
}

/// RFC 3225 section 3 copies DO; a server that does not know the version need not read the flags.
fn badvers_do(_: Scene, m: &mut Message) {
    if m.rcode == BADVERS {
        m.edns.iter_mut().for_each(|e| e.dnssec_ok = false);
    }
}
