//! What of a server's message is believed: the question's own alias chain, and the denial at its end. Nothing else.
//!
//! A server speaks for one zone, the one that its questions are forwarded for. A record above or beside that zone is
//! dropped whoever sent it, and a chain that leaves the zone is cut there and asked for again, so that a forwarder for
//! `corp.example` cannot say anything about `bank.example` (MaginotDNS, CVE-2021-43105; CVE-2025-11411, CVE-2025-40778).
//! Additional data is never kept, nor is the authority section of an answer but for the denials that DNSSEC needs.
//! What is kept stands under the name that was asked, and answers no other question.

use crate::answer::{Draft, TtlRange, Unfit};
use crate::question::Question;
use wire::message::{Message, Record};
use wire::name::{NAME_MAX, is_at_or_below};
use wire::reply::Section;
use wire::{Name, Rcode, Rtype, rtype};

/// Aliases followed for one question, whoever wrote them.
pub const CHAIN_MAX: u8 = 11;
/// Records of a message that are looked at; a longer one is no answer of ours.
const RECORDS_MAX: usize = 1_000;
/// Signatures of one RRset (attack: CVE-2024-12705 and Unbound's `iter-scrub-rrsig`).
const SIGNATURES_MAX: usize = 8;
/// Denials kept beside an answer: a closest encloser proof has three.
const DENIALS_MAX: usize = 4;

#[derive(Debug, PartialEq, Eq)]
pub enum Scrubbed {
    /// The draft holds the whole answer. Kept for no longer than this.
    Answered { rcode: Rcode, lifetime_s: u32 },
    /// The chain goes on at a name that this server does not speak for.
    Leaves(Box<Name>),
    /// A referral, or a message that says nothing.
    Lame,
    /// Too much, or malformed.
    Unfit,
    /// The chain is too long, or a circle.
    EndlessChain,
}

pub struct Scrubber<'a> {
    question: &'a Question,
    /// The zone that the server speaks for.
    zone: &'a Name,
    ttls: &'a TtlRange,
    /// Most answers are one record, which asks nothing of the allocator.
    first: Option<(Name, Record<'a>)>,
    others: Vec<(Name, Record<'a>)>,
    rcode: Rcode,
    is_authoritative: bool,
    /// Records in the answer section, of whatever name.
    has_answers: bool,
}

impl<'a> Scrubber<'a> {
    /// None: the message cannot be read, or is too long.
    pub fn new(
        message: &Message<'a>,
        question: &'a Question,
        zone: &'a Name,
        ttls: &'a TtlRange,
    ) -> Option<Scrubber<'a>> {
        let (rcode, is_authoritative) = (message.rcode(), message.is_authoritative());
        let (first, others, has_answers) = (None, Vec::new(), false);
        // Filled where it stands: a name is large.
        let mut all = Scrubber { question, zone, ttls, first, others, rcode, is_authoritative, has_answers };
        for record in message.records() {
            let record = record?;
            if record.section == Section::Additional {
                break;
            }
            all.has_answers |= record.section == Section::Answer;
            let owner = record.owner()?;
            if all.others.len() == RECORDS_MAX - 1 {
                return None;
            }
            if record.class == 1 && owner.is_at_or_below(zone) {
                match &mut all.first {
                    first @ None => *first = Some((owner, record)),
                    Some(_) => all.others.push((owner, record)),
                }
            }
        }
        Some(all)
    }

    fn records(&self) -> impl Iterator<Item = &(Name, Record<'a>)> {
        self.first.iter().chain(&self.others)
    }

    /// Follows the chain from `name`; `steps` are how many aliases may still be followed.
    pub fn follow(&self, name: Name, steps: &mut u8, draft: &mut Draft) -> Scrubbed {
        self.walk(name, steps, draft).unwrap_or(Scrubbed::Unfit)
    }

    fn walk(&self, mut name: Name, steps: &mut u8, draft: &mut Draft) -> Result<Scrubbed, Unfit> {
        loop {
            if self.put_sets(&name, draft)? {
                self.put_denials(self.zone, draft)?;
                return Ok(Scrubbed::Answered { rcode: Rcode::NOERROR, lifetime_s: u32::MAX });
            }
            let Some(target) = self.put_alias(&name, draft)? else { return self.negative(&name, draft) };
            *steps = match steps.checked_sub(1) {
                Some(left) => left,
                None => return Ok(Scrubbed::EndlessChain),
            };
            name = target;
            if !name.is_at_or_below(self.zone) {
                return Ok(Scrubbed::Leaves(Box::new(name)));
            }
        }
    }

    fn answers<'s>(&'s self, owner: &'s Name, rtype: Rtype) -> impl Iterator<Item = &'s Record<'a>> {
        let wanted = move |r: &Record<'_>| r.section == Section::Answer && (r.rtype == rtype || rtype == rtype::ANY);
        self.records().filter(move |(name, r)| wanted(r) && name == owner).map(|(_, r)| r)
    }

    /// The RRset asked for. True: it is there.
    fn put_sets(&self, name: &Name, draft: &mut Draft) -> Result<bool, Unfit> {
        let mut found = false;
        for record in self.answers(name, self.question.qtype) {
            draft.add(Section::Answer, name, record, self.ttls.positive(record.ttl_s))?;
            found = true;
        }
        if found && !matches!(self.question.qtype, rtype::ANY | rtype::RRSIG) {
            self.put_signatures(Section::Answer, name, self.question.qtype, draft)?;
        }
        Ok(found)
    }

    fn put_signatures(&self, section: Section, owner: &Name, covered: Rtype, draft: &mut Draft) -> Result<(), Unfit> {
        let covers = |r: &Record<'_>| {
            r.rtype == rtype::RRSIG
                && r.section == section
                && r.raw_data().first_chunk() == Some(&covered.to_be_bytes())
        };
        let wanted = self.records().filter(|(name, r)| covers(r) && name == owner).take(SIGNATURES_MAX);
        for (_, record) in wanted.filter(|_| self.question.dnssec_ok) {
            draft.add(section, owner, record, self.ttls.positive(record.ttl_s))?;
        }
        Ok(())
    }

    /// An alias at the name, or that a DNAME above it makes (RFC 6672 section 2.2). Some: where it leads.
    fn put_alias(&self, name: &Name, draft: &mut Draft) -> Result<Option<Name>, Unfit> {
        if let Some((owner, record)) = self.alias_above(name) {
            let ttl_s = self.ttls.positive(record.ttl_s);
            draft.add(Section::Answer, &owner, record, ttl_s)?;
            self.put_signatures(Section::Answer, &owner, rtype::DNAME, draft)?;
            let target = substitute(name, &owner, &record.target().ok_or(Unfit)?).ok_or(Unfit)?;
            draft.put(Section::Answer, name, rtype::CNAME, ttl_s, target.bytes())?;
            return Ok(Some(target));
        }
        let Some(record) = self.answers(name, rtype::CNAME).next() else { return Ok(None) };
        draft.add(Section::Answer, name, record, self.ttls.positive(record.ttl_s))?;
        self.put_signatures(Section::Answer, name, rtype::CNAME, draft)?;
        record.target().ok_or(Unfit).map(Some)
    }

    fn alias_above(&self, name: &Name) -> Option<(Name, &Record<'a>)> {
        let above = |owner: &Name| name.is_at_or_below(owner) && owner != name;
        let is_alias = |r: &Record<'_>| r.section == Section::Answer && r.rtype == rtype::DNAME;
        self.records().find(|(owner, r)| is_alias(r) && above(owner)).map(|(owner, r)| (*owner, r))
    }

    /// The end of the chain: nothing is there, and perhaps an SOA says for how long (RFC 2308).
    fn negative(&self, name: &Name, draft: &mut Draft) -> Result<Scrubbed, Unfit> {
        let authority = |rtype| move |(_, r): &&(Name, Record<'_>)| r.section == Section::Authority && r.rtype == rtype;
        let soa = self.records().filter(authority(rtype::SOA)).find(|(owner, _)| name.is_at_or_below(owner));
        let Some((owner, record)) = soa else {
            let refers = self.records().any(|entry| authority(rtype::NS)(&entry));
            let refers = refers && !self.is_authoritative && self.rcode == Rcode::NOERROR;
            // Answers to what nobody asked are no denial of what was.
            let is_lame = refers || self.has_answers && draft.is_empty();
            // RFC 2308 section 5: a denial without SOA is passed on and never kept.
            return Ok(if is_lame { Scrubbed::Lame } else { Scrubbed::Answered { rcode: self.rcode, lifetime_s: 0 } });
        };
        let minimum = record.raw_data().last_chunk().map_or(0, |b| u32::from_be_bytes(*b));
        let lifetime_s = self.ttls.negative(record.ttl_s, minimum);
        draft.add(Section::Authority, owner, record, lifetime_s)?;
        self.put_signatures(Section::Authority, owner, rtype::SOA, draft)?;
        self.put_denials(owner, draft)?;
        Ok(Scrubbed::Answered { rcode: self.rcode, lifetime_s })
    }

    /// NSEC and NSEC3 of the zone, for clients that validate (RFC 4035 section 3.1.3).
    fn put_denials(&self, apex: &Name, draft: &mut Draft) -> Result<(), Unfit> {
        let is_denial = |r: &Record<'_>| {
            r.section == Section::Authority && matches!(r.rtype, rtype::NSEC | rtype::NSEC3) && self.question.dnssec_ok
        };
        let denials = self.records().filter(|(owner, r)| is_denial(r) && owner.is_at_or_below(apex));
        for (owner, record) in denials.take(DENIALS_MAX) {
            draft.add(Section::Authority, owner, record, self.ttls.positive(record.ttl_s))?;
            self.put_signatures(Section::Authority, owner, record.rtype, draft)?;
        }
        Ok(())
    }
}

/// `name`, which is below `owner`, with `target` in its place. None: longer than a name may be.
fn substitute(name: &Name, owner: &Name, target: &Name) -> Option<Name> {
    let own = name.bytes().len().checked_sub(owner.bytes().len())?;
    let mut octets = [0; 2 * NAME_MAX];
    let len = own + target.bytes().len();
    octets.get_mut(..own)?.copy_from_slice(name.bytes().get(..own)?);
    octets.get_mut(own..len)?.copy_from_slice(target.bytes());
    debug_assert!(is_at_or_below(name.bytes(), owner.bytes()));
    Name::from_wire(octets.get(..len)?)
}
