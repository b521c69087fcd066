//! Writes what the walk found: RFC 1034 section 4.3.2, with RFC 2308, 4035, 4592, 5155, 6672, 8482 and 9471 in their places.

use crate::denial::Denial;
use crate::lookup::{Found, Lookup};
use image::unit::{expand, find_suffix};
use image::zone::SIGNED;
use image::{Damaged, Owner, Part, Unit, View};
use wire::query::HEADER;
use wire::reply::{Flags, Need, Reply, Section};
use wire::{Query, Rcode, hash, rtype};

/// Aliases followed for one question. Longer chains end where they are; the client asks on.
const ALIASES_MAX: usize = 16;
/// The farthest place that a compression pointer reaches (RFC 1035 section 4.1.4).
const POINTER_MAX: usize = 0x3FFF;
/// Proofs in one answer: three for what is denied at the end, one for each wildcard on the way.
const PROOFS_MAX: usize = ALIASES_MAX + 4;

/// What has been answered, but for the header's and OPT's details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub rcode: Rcode,
    pub flags: Flags,
    pub is_referral: bool,
    pub is_damaged: bool,
}

/// What one answer gathers on its way. Scratch, used again and again: only the counts are set back.
#[derive(Clone, Default)]
pub struct Trail {
    /// Which record of each RRset goes first; None: as in the zone.
    pub turn: Option<u16>,
    /// Names that wildcards stood for: where each stands, and how many labels its closest encloser has.
    expansions: [(u16, u8); ALIASES_MAX],
    expanded: usize,
    /// Nodes whose NSEC or NSEC3 are in the answer.
    proofs: [u32; PROOFS_MAX],
    proven: usize,
    /// Nodes whose DNAME is in the answer.
    redirects: [u32; ALIASES_MAX],
    redirected: usize,
}

impl Trail {
    /// False: the node's proof is in the answer already.
    pub(crate) fn prove(&mut self, node: u32) -> bool {
        push_new(&mut self.proofs, &mut self.proven, node)
    }

    /// False: the node's DNAME is in the answer already.
    fn redirect(&mut self, node: u32) -> bool {
        push_new(&mut self.redirects, &mut self.redirected, node)
    }
}

fn push_new(list: &mut [u32], len: &mut usize, item: u32) -> bool {
    if *len == list.len() || list[..*len].contains(&item) {
        return false;
    }
    list[*len] = item;
    *len += 1;
    true
}

/// Answers the question of `query`, whose walk `lookup` has done. All scratch is used up on the way along aliases. `is_barred`: whether the target of
/// one, which has been walked to as well, is in a zone that cannot be answered for.
#[inline(always)]
pub fn answer(
    view: View<'_>,
    query: &mut Query,
    lookup: &mut Lookup,
    trail: &mut Trail,
    reply: &mut Reply<'_>,
    is_barred: &dyn Fn(&Query, &Lookup) -> bool,
) -> Outcome {
    let owner = Owner::Question { at: HEADER, end: HEADER + query.name_len as usize };
    (trail.expanded, trail.proven, trail.redirected) = (0, 0, 0);
    let mut a = Answer { view, reply, owner, apex: lookup.apex.reference, signed: false, trail, is_barred };
    let is_referral = lookup.found == Found::Cut;
    let done = |rcode, flags| Outcome { rcode, flags, is_referral, is_damaged: false };
    match a.answer(query, lookup) {
        Ok(rcode) if is_referral || rcode == Rcode::REFUSED => done(rcode, Flags::NONE),
        Ok(rcode) => done(rcode, Flags::AUTHORITATIVE),
        Err(Damaged) => Outcome { rcode: Rcode::SERVFAIL, flags: Flags::NONE, is_referral: false, is_damaged: true },
    }
}

pub(crate) struct Answer<'v, 'a, 'b> {
    pub view: View<'v>,
    pub reply: &'a mut Reply<'b>,
    /// Where the name that is being answered stands in the message.
    pub owner: Owner,
    pub apex: u32,
    /// The client wants DNSSEC and the zone has it.
    pub signed: bool,
    pub trail: &'a mut Trail,
    is_barred: &'a dyn Fn(&Query, &Lookup) -> bool,
}

/// What answering one name of the chain came to.
enum Step {
    Done(Rcode),
    /// It is an alias, whose target stands here.
    Follow(usize),
}

impl<'v> Answer<'v, '_, '_> {
    #[inline(always)]
    fn answer(&mut self, query: &mut Query, lookup: &mut Lookup) -> Result<Rcode, Damaged> {
        if lookup.found == Found::NotOurs {
            return Ok(Rcode::REFUSED);
        }
        if query.edns.dnssec_ok {
            self.signed = self.view.node(self.apex)?.zone()?.is(SIGNED)?;
        }
        let rcode = match self.step(query, lookup)? {
            Step::Done(rcode) => rcode,
            Step::Follow(target_at) => self.follow_all(query, lookup, target_at)?,
        };
        if self.trail.expanded > 0 {
            self.prove_expansions()?;
        }
        Ok(rcode)
    }

    #[inline(always)]
    fn step(&mut self, query: &Query, lookup: &Lookup) -> Result<Step, Damaged> {
        Ok(match lookup.found {
            Found::Exact | Found::Wildcard => self.name_found(query, lookup)?,
            Found::Missing => {
                self.deny(query, lookup)?;
                Step::Done(Rcode::NXDOMAIN)
            }
            Found::Cut => {
                self.refer(query, lookup)?;
                Step::Done(Rcode::NOERROR)
            }
            Found::Alias => self.redirect(query, lookup)?,
            Found::NotOurs => Step::Done(Rcode::NOERROR),
            Found::Damaged => return Err(Damaged),
        })
    }

    /// Aliases, one after the other, while they stay in the zone: what lies elsewhere is not ours to say.
    #[cold]
    fn follow_all(&mut self, query: &mut Query, lookup: &mut Lookup, target_at: usize) -> Result<Rcode, Damaged> {
        let mut passed = [hash::name_hash(self.view.seed(), query.name()); ALIASES_MAX];
        let mut target_at = target_at;
        for hop in 0..ALIASES_MAX {
            // The next owner is a pointer to this place, which has to be within its reach.
            if self.reply.is_truncated() || target_at > POINTER_MAX {
                break;
            }
            self.follow(query, lookup, target_at)?;
            if lookup.found == Found::Damaged {
                return Err(Damaged);
            }
            let this = hash::name_hash(self.view.seed(), query.name());
            if lookup.apex.reference != self.apex || passed.contains(&this) || (self.is_barred)(query, lookup) {
                break;
            }
            passed[hop] = this;
            match self.step(query, lookup)? {
                Step::Done(rcode) => return Ok(rcode),
                Step::Follow(next) => target_at = next,
            }
        }
        Ok(Rcode::NOERROR)
    }

    /// The name exists, or a wildcard stands for it: the RRset, the alias, or that there is none.
    #[inline(always)]
    fn name_found(&mut self, query: &Query, lookup: &Lookup) -> Result<Step, Damaged> {
        const DONE: Step = Step::Done(Rcode::NOERROR);
        if matches!(query.qtype, rtype::ANY | rtype::RRSIG) {
            return self.any_found(query, lookup).map(|()| DONE);
        }
        if lookup.unit_type == 0 {
            return self.deny(query, lookup).map(|()| DONE);
        }
        let unit = self.view.unit(lookup.unit)?;
        let Some(at) = self.put(unit, lookup)? else { return Ok(DONE) };
        if lookup.unit_type != query.qtype {
            // A CNAME. Its target is its rdata: behind pointer, type, class, TTL and length.
            return Ok(Step::Follow(at + 12));
        }
        self.end_with(unit, at, self.owner)?;
        Ok(DONE)
    }

    /// An RRset into the answer section, with its signatures if they are wanted.
    #[inline(always)]
    fn put(&mut self, unit: Unit<'v>, lookup: &Lookup) -> Result<Option<usize>, Damaged> {
        let at = match self.trail.turn {
            None => unit.place(self.reply, Section::Answer, Need::Required, self.owner)?,
            Some(turn) => unit.place_turned(self.reply, Section::Answer, self.owner, turn)?,
        };
        if self.signed {
            unit.place_signatures(self.reply, Section::Answer, Need::Required, self.owner)?;
            self.note_expansion(lookup);
        }
        Ok(at)
    }

    fn note_expansion(&mut self, lookup: &Lookup) {
        let trail = &mut self.trail;
        if lookup.found == Found::Wildcard && trail.expanded < ALIASES_MAX {
            trail.expansions[trail.expanded] = (self.owner.at() as u16, lookup.encloser_labels);
            trail.expanded += 1;
        }
    }

    #[cold]
    fn any_found(&mut self, query: &Query, lookup: &Lookup) -> Result<(), Damaged> {
        let found = if query.qtype == rtype::ANY { self.one_of_all(lookup)? } else { self.all_signatures(lookup)? };
        if found { Ok(()) } else { self.deny(query, lookup) }
    }

    /// RFC 8482 section 4.1: one RRset for ANY, and not one that only denies others.
    fn one_of_all(&mut self, lookup: &Lookup) -> Result<bool, Damaged> {
        let mut last = None;
        for rrset in self.view.node(lookup.node)?.rrsets() {
            let (rtype, unit) = rrset?;
            last = last.or(Some(unit));
            if rtype != rtype::NSEC && rtype != rtype::RRSIG {
                last = Some(unit);
                break;
            }
        }
        match last {
            Some(unit) => self.put(unit, lookup).map(|_| true),
            None => Ok(false),
        }
    }

    /// For RRSIG, all signatures of the name.
    fn all_signatures(&mut self, lookup: &Lookup) -> Result<bool, Damaged> {
        let mut found = false;
        for rrset in self.view.node(lookup.node)?.rrsets() {
            let (rtype, unit) = rrset?;
            if rtype == rtype::RRSIG {
                unit.place(self.reply, Section::Answer, Need::Required, self.owner)?;
            }
            unit.place_signatures(self.reply, Section::Answer, Need::Required, self.owner)?;
            found |= rtype == rtype::RRSIG || unit.has(Part::Signatures);
        }
        if found && self.signed {
            self.note_expansion(lookup);
        }
        Ok(found)
    }

    /// A DNAME above the name: the DNAME, and the CNAME that it makes (RFC 6672 section 3.1).
    #[cold]
    fn redirect(&mut self, query: &Query, lookup: &Lookup) -> Result<Step, Damaged> {
        let node = self.view.node(lookup.node)?;
        let unit = node.rrset(rtype::DNAME)?.ok_or(Damaged)?;
        let above = &query.name()[query.suffix_at(lookup.encloser_labels as usize)..];
        // A DNAME that leads below itself is met again and again, and stands in the answer once (RFC 2181 section 5).
        if self.trail.redirect(node.reference()) {
            let owner = self.end_of_name(above.len());
            unit.place(self.reply, Section::Answer, Need::Required, owner)?;
            if self.signed {
                unit.place_signatures(self.reply, Section::Answer, Need::Required, owner)?;
            }
        }
        let own = (query.name_len as usize).checked_sub(above.len()).ok_or(Damaged)?;
        let mut name = [0; 255];
        let name = expand(self.reply.written(), self.owner.at(), &mut name).ok_or(Damaged)?;
        let (mut ttl, mut target, mut target_len) = ([0; 4], [0; 255], 0);
        unit.for_each(above, |fixed, rdata| {
            ttl.copy_from_slice(&fixed[4..8]);
            target_len = rdata.len();
            target[..rdata.len().min(255)].copy_from_slice(&rdata[..rdata.len().min(255)]);
        })?;
        if own + target_len > 255 {
            return Ok(Step::Done(Rcode::YXDOMAIN));
        }
        let at = self.reply.at();
        let [hi, lo] = (0xC000 | self.owner.at() as u16).to_be_bytes();
        let head = [hi, lo, 0, rtype::CNAME as u8, 0, 1, ttl[0], ttl[1], ttl[2], ttl[3], 0, (own + target_len) as u8];
        let parts = [&head[..], &name[..own], &target[..target_len]];
        if parts.iter().all(|part| self.reply.append(Need::Required, part).is_some()) {
            self.reply.count(Section::Answer, 1);
        }
        let is_asked_for = query.qtype == rtype::CNAME || query.qtype == rtype::ANY;
        Ok(if is_asked_for { Step::Done(Rcode::NOERROR) } else { Step::Follow(at + 12) })
    }

    /// Goes on with the name that stands at `target_at`.
    #[cold]
    fn follow(&mut self, query: &mut Query, lookup: &mut Lookup, target_at: usize) -> Result<(), Damaged> {
        let mut name = [0; 255];
        let name = expand(self.reply.written(), target_at, &mut name).ok_or(Damaged)?;
        query.follow(name, self.view.ahead(), self.view.seed());
        lookup.at_once(query, self.view);
        self.owner = Owner::Written { at: target_at };
        Ok(())
    }

    /// A delegation: NS, what proves or disproves the child's signatures, and glue.
    #[inline(always)]
    fn refer(&mut self, query: &Query, lookup: &Lookup) -> Result<(), Damaged> {
        let cut = self.view.node(lookup.node)?;
        let unit = self.view.unit(cut.head())?;
        let name = &query.name()[query.suffix_at(lookup.encloser_labels as usize)..];
        let owner = self.end_of_name(name.len());
        let at = unit.place(self.reply, Section::Authority, Need::Required, owner)?;
        if self.signed {
            match cut.rrset(rtype::DS)? {
                Some(ds) => {
                    ds.place(self.reply, Section::Authority, Need::Required, owner)?;
                    ds.place_signatures(self.reply, Section::Authority, Need::Required, owner)?;
                }
                None => {
                    if let Some(denial) = Denial::new(self)? {
                        denial.no_ds(name)?;
                    }
                }
            }
        }
        match at {
            Some(at) => self.end_with(unit, at, owner),
            None => Ok(()),
        }
    }

    /// The SOA, and the proof that name or type do not exist.
    #[inline(always)]
    fn deny(&mut self, query: &Query, lookup: &Lookup) -> Result<(), Damaged> {
        let apex = &lookup.apex;
        let soa = self.view.unit(apex.soa)?;
        let owner = self.end_of_name(apex.name_len as usize);
        soa.place_negative(self.reply, owner, apex.negative_ttl_s, self.signed)?;
        if self.signed {
            let Some(denial) = Denial::new(self)? else { return Ok(()) };
            match lookup.found {
                Found::Missing => denial.no_name(query, lookup)?,
                Found::Wildcard => denial.no_type_at_wildcard(query, lookup)?,
                _ => denial.no_type(query, lookup)?,
            }
        }
        Ok(())
    }

    #[cold]
    fn prove_expansions(&mut self) -> Result<(), Damaged> {
        for i in 0..self.trail.expanded {
            let (at, labels) = self.trail.expansions[i];
            let mut name = [0; 255];
            let len = expand(self.reply.written(), at as usize, &mut name).ok_or(Damaged)?.len();
            name[..len].make_ascii_lowercase();
            let Some(denial) = Denial::new(self)? else { return Ok(()) };
            denial.no_closer_name(&name[..len], labels)?;
        }
        self.trail.expanded = 0;
        Ok(())
    }

    /// What goes along with an RRset whose records stand at `at`. It belongs into the last section, so the proofs of the
    /// wildcards on the way go before it.
    #[inline(always)]
    fn end_with(&mut self, unit: Unit<'v>, at: usize, owner: Owner) -> Result<(), Damaged> {
        if self.trail.expanded > 0 {
            self.prove_expansions()?;
        }
        unit.place_additional(self.reply, Part::Needed, at, owner)?;
        let part = if self.signed && unit.has(Part::OptionalSigned) { Part::OptionalSigned } else { Part::Optional };
        unit.place_additional(self.reply, part, at, owner)
    }

    /// The last `len` octets of the name that is being answered.
    #[inline(always)]
    fn end_of_name(&self, len: usize) -> Owner {
        match self.owner {
            Owner::Question { end, .. } => Owner::Question { at: end.saturating_sub(len), end },
            Owner::Written { at } => Owner::Written { at: find_suffix(self.reply.written(), at, len) },
        }
    }
}
