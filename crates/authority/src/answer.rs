//! Writes what the walk found: RFC 1034 section 4.3.2, with RFC 2308, 4035, 4592, 5155, 6672, 8482 and 9471 in their places.

use crate::denial::Denial;
use crate::lookup::{Found, Lookup};
use image::unit::{expand, find_suffix};
use image::zone::{NSEC, NSEC3};
use image::{Damaged, Owner, Part, Unit, View};
use wire::query::HEADER;
use wire::reply::{Flags, Need, Reply, Section};
use wire::{Query, Rcode, hash, rtype};

/// Aliases followed for one question. Longer chains end where they are; the client asks on.
const ALIASES_MAX: usize = 16;

/// What has been answered, but for the header's and OPT's details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub rcode: Rcode,
    pub flags: Flags,
    pub is_referral: bool,
    /// The apex of the zone that answered, 0 if none did.
    pub apex: u32,
    pub is_damaged: bool,
}

/// Answers the question of `query`, whose walk `lookup` has done. Both are used up on the way along aliases.
pub fn answer(view: View<'_>, query: &mut Query, lookup: &mut Lookup, reply: &mut Reply<'_>) -> Outcome {
    let owner = Owner::Question { at: HEADER, end: HEADER + query.name_len as usize };
    let apex = lookup.apex;
    let mut a = Answer {
        view,
        reply,
        owner,
        apex,
        signed: false,
        additional: None,
        expansions: [(0, 0); ALIASES_MAX],
        expanded: 0,
        proofs: [0; ALIASES_MAX + 4],
    };
    match a.answer(query, lookup) {
        Ok((rcode, flags)) => Outcome {
            rcode,
            flags,
            is_referral: flags == Flags::NONE && lookup.found == Found::Cut,
            apex,
            is_damaged: false,
        },
        Err(Damaged) => {
            Outcome { rcode: Rcode::SERVFAIL, flags: Flags::NONE, is_referral: false, apex: 0, is_damaged: true }
        }
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
    /// The RRset whose additional data ends the message: unit, where its records stand, their owner.
    additional: Option<(Unit<'v>, usize, Owner)>,
    /// Names that wildcards stood for: where each stands, and how many labels its closest encloser has.
    expansions: [(u16, u8); ALIASES_MAX],
    expanded: usize,
    /// Nodes whose NSEC or NSEC3 are in the answer: three a proof, one an expansion.
    pub proofs: [u32; ALIASES_MAX + 4],
}

impl<'v> Answer<'v, '_, '_> {
    fn answer(&mut self, query: &mut Query, lookup: &mut Lookup) -> Result<(Rcode, Flags), Damaged> {
        if lookup.found == Found::NotOurs {
            return Ok((Rcode::REFUSED, Flags::NONE));
        }
        if query.edns.dnssec_ok && self.apex != 0 {
            let zone = self.view.node(self.apex)?.zone()?;
            self.signed = zone.denies_with(NSEC | NSEC3);
        }
        let mut rcode = Rcode::NOERROR;
        let mut flags = Flags::AUTHORITATIVE;
        let mut passed = [0u64; ALIASES_MAX];
        for hop in 0..=ALIASES_MAX {
            let follow = match lookup.found {
                Found::Damaged => return Err(Damaged),
                // An alias leads out of the zone: what lies there is not ours to say.
                Found::NotOurs => break,
                _ if lookup.apex != self.apex => break,
                Found::Exact | Found::Wildcard => self.name_found(query, lookup)?,
                Found::Alias => match self.redirect(query, lookup)? {
                    Redirected::TooLong => {
                        rcode = Rcode::YXDOMAIN;
                        break;
                    }
                    Redirected::To(follow) => follow,
                },
                Found::Cut => {
                    if hop == 0 {
                        flags = Flags::NONE;
                    }
                    self.refer(query, lookup)?;
                    break;
                }
                Found::Missing => {
                    rcode = Rcode::NXDOMAIN;
                    self.deny(query, lookup)?;
                    break;
                }
            };
            let Some(target_at) = follow else { break };
            if hop == ALIASES_MAX || self.reply.is_truncated() {
                break;
            }
            passed[hop] = hash::name_hash(self.view.seed(), query.name());
            self.follow(query, lookup, target_at)?;
            if passed[..=hop].contains(&hash::name_hash(self.view.seed(), query.name())) {
                break;
            }
        }
        self.prove_expansions()?;
        if let Some((unit, at, owner)) = self.additional {
            self.add(unit, at, owner)?;
        }
        Ok((rcode, flags))
    }

    /// The name exists, or a wildcard stands for it: the RRset, the alias, or that there is none. Some: where an alias's
    /// target stands.
    #[inline(always)]
    fn name_found(&mut self, query: &Query, lookup: &Lookup) -> Result<Option<usize>, Damaged> {
        if matches!(query.qtype, rtype::ANY | rtype::RRSIG) {
            return self.any_found(query, lookup).map(|()| None);
        }
        if lookup.unit_type == 0 {
            self.deny(query, lookup)?;
            return Ok(None);
        }
        let unit = self.view.unit(lookup.unit)?;
        let at = self.put(unit, lookup)?;
        if lookup.unit_type != query.qtype {
            // A CNAME. Its target is its rdata: behind pointer, type, class, TTL and length.
            return Ok(at.map(|at| at + 12));
        }
        self.additional = at.map(|at| (unit, at, self.owner));
        Ok(None)
    }

    /// An RRset into the answer section, with its signatures if they are wanted.
    #[inline(always)]
    fn put(&mut self, unit: Unit<'v>, lookup: &Lookup) -> Result<Option<usize>, Damaged> {
        let at = unit.place(self.reply, Section::Answer, Need::Required, self.owner)?;
        if self.signed {
            unit.place_signatures(self.reply, Section::Answer, Need::Required, self.owner)?;
            self.note_expansion(lookup);
        }
        Ok(at)
    }

    fn note_expansion(&mut self, lookup: &Lookup) {
        if lookup.found == Found::Wildcard && self.expanded < ALIASES_MAX {
            self.expansions[self.expanded] = (self.owner.at() as u16, lookup.encloser_labels);
            self.expanded += 1;
        }
    }

    /// RFC 8482 section 4.1: one RRset for ANY. For RRSIG all signatures of the name.
    #[cold]
    fn any_found(&mut self, query: &Query, lookup: &Lookup) -> Result<(), Damaged> {
        let mut found = false;
        for rrset in self.view.node(lookup.node)?.rrsets() {
            let (rtype, unit) = rrset?;
            if query.qtype == rtype::ANY || rtype == rtype::RRSIG {
                found = true;
                self.put(unit, lookup)?;
            } else if unit.has(Part::Signatures) {
                found = true;
                unit.place_signatures(self.reply, Section::Answer, Need::Required, self.owner)?;
            }
            if query.qtype == rtype::ANY {
                break;
            }
        }
        if !found {
            return self.deny(query, lookup);
        }
        if self.signed && query.qtype == rtype::RRSIG {
            self.note_expansion(lookup);
        }
        Ok(())
    }

    /// A DNAME above the name: the DNAME, and the CNAME that it makes (RFC 6672 section 3.1).
    #[cold]
    fn redirect(&mut self, query: &Query, lookup: &Lookup) -> Result<Redirected, Damaged> {
        let node = self.view.node(lookup.node)?;
        let unit = node.rrset(rtype::DNAME)?.ok_or(Damaged)?;
        let above = node.name()?;
        let dname_owner = self.end_of_name(above.len());
        unit.place(self.reply, Section::Answer, Need::Required, dname_owner)?;
        if self.signed {
            unit.place_signatures(self.reply, Section::Answer, Need::Required, dname_owner)?;
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
            return Ok(Redirected::TooLong);
        }
        let at = self.reply.at();
        let [hi, lo] = (0xC000 | self.owner.at() as u16).to_be_bytes();
        let head = [hi, lo, 0, rtype::CNAME as u8, 0, 1, ttl[0], ttl[1], ttl[2], ttl[3], 0, (own + target_len) as u8];
        let parts = [&head[..], &name[..own], &target[..target_len]];
        if parts.iter().all(|part| self.reply.append(Need::Required, part).is_some()) {
            self.reply.count(Section::Answer, 1);
        }
        let is_asked_for = query.qtype == rtype::CNAME || query.qtype == rtype::ANY;
        Ok(Redirected::To((!is_asked_for && !self.reply.is_truncated()).then_some(at + 12)))
    }

    /// Goes on with the name that stands at `target_at`.
    #[cold]
    fn follow(&mut self, query: &mut Query, lookup: &mut Lookup, target_at: usize) -> Result<(), Damaged> {
        let mut name = [0; 255];
        let name = expand(self.reply.written(), target_at, &mut name).ok_or(Damaged)?;
        query.follow(name, self.view.deepest(), self.view.seed());
        lookup.at_once(query, self.view);
        self.owner = Owner::Written { at: target_at };
        Ok(())
    }

    /// A delegation: NS, what proves or disproves the child's signatures, and glue.
    #[inline(always)]
    fn refer(&mut self, query: &Query, lookup: &Lookup) -> Result<(), Damaged> {
        let cut = self.view.node(lookup.node)?;
        let unit = self.view.unit(cut.head()?)?;
        let owner = self.end_of_name(cut.name()?.len());
        let at = unit.place(self.reply, Section::Authority, Need::Required, owner)?;
        if self.signed {
            match cut.rrset(rtype::DS)? {
                Some(ds) => {
                    ds.place(self.reply, Section::Authority, Need::Required, owner)?;
                    ds.place_signatures(self.reply, Section::Authority, Need::Required, owner)?;
                }
                None => Denial::new(self)?.no_ds(query, cut)?,
            }
        }
        self.additional = at.map(|at| (unit, at, owner));
        Ok(())
    }

    /// The SOA, and the proof that name or type do not exist.
    #[inline(always)]
    fn deny(&mut self, query: &Query, lookup: &Lookup) -> Result<(), Damaged> {
        let apex = self.view.node(self.apex)?;
        let soa = self.view.unit(apex.head()?)?;
        let owner = self.end_of_name(apex.name()?.len());
        soa.place(self.reply, Section::Authority, Need::Required, owner)?;
        if self.signed {
            soa.place_signatures(self.reply, Section::Authority, Need::Required, owner)?;
            let denial = Denial::new(self)?;
            match lookup.found {
                Found::Missing => denial.no_name(query, lookup)?,
                Found::Wildcard => denial.no_type_at_wildcard(query, lookup)?,
                _ => denial.no_type(query, lookup)?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn prove_expansions(&mut self) -> Result<(), Damaged> {
        for i in 0..self.expanded {
            let (at, labels) = self.expansions[i];
            let mut name = [0; 255];
            let len = expand(self.reply.written(), at as usize, &mut name).ok_or(Damaged)?.len();
            name[..len].make_ascii_lowercase();
            Denial::new(self)?.no_closer_name(&name[..len], labels)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn add(&mut self, unit: Unit<'v>, at: usize, owner: Owner) -> Result<(), Damaged> {
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

enum Redirected {
    /// The new name would have more than 255 octets.
    TooLong,
    To(Option<usize>),
}
