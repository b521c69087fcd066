//! Proofs that something does not exist: NSEC (RFC 4035 section 3.1.3) and NSEC3 (RFC 5155 section 7.2).

use crate::answer::Answer;
use crate::lookup::Lookup;
use image::zone::{NSEC, NSEC3};
use image::{Damaged, Node, Zone};
use wire::query::HEADER;
use wire::{Query, rtype};

/// One proof. A record that proves two things goes into the answer once.
pub(crate) struct Denial<'p, 'v, 'a, 'b> {
    answer: &'p mut Answer<'v, 'a, 'b>,
    zone: Zone<'v>,
    apex_len: usize,
    name_end: usize,
    with_nsec: bool,
}

impl<'p, 'v, 'a, 'b> Denial<'p, 'v, 'a, 'b> {
    /// None: the zone is signed, but has no chain that could deny anything.
    pub(crate) fn new(answer: &'p mut Answer<'v, 'a, 'b>) -> Result<Option<Self>, Damaged> {
        let apex = answer.view.node(answer.apex)?;
        let zone = apex.zone()?;
        let name_end = answer.reply.question_end() - 4;
        debug_assert!(name_end > HEADER);
        let (apex_len, with_nsec) = (apex.apex_name()?.len(), zone.is(NSEC)?);
        let denial = Denial { apex_len, zone, name_end, with_nsec, answer };
        Ok((with_nsec || zone.is(NSEC3)?).then_some(denial))
    }

    /// The name does not exist, nor a wildcard that could stand for it.
    pub(crate) fn no_name(mut self, query: &Query, lookup: &Lookup) -> Result<(), Damaged> {
        let encloser = &query.name()[query.suffix_at(lookup.encloser_labels as usize)..];
        let mut buffer = [0; 258];
        if self.with_nsec {
            let before = self.zone.nsec_at_or_before(query.name())?;
            self.put(before)?;
            let before = self.zone.nsec_at_or_before(wildcard_of(encloser, &mut buffer))?;
            return self.put(before);
        }
        let proven = self.closest_encloser(query.name(), lookup.encloser_labels)?;
        self.put_hash(wildcard_of(proven, &mut buffer)).map(|_| ())
    }

    /// The name exists, the type does not. It may be an empty non-terminal, or a cut whose DS was asked for.
    pub(crate) fn no_type(mut self, query: &Query, lookup: &Lookup) -> Result<(), Damaged> {
        if self.with_nsec {
            let before = self.zone.nsec_at_or_before(query.name())?;
            return self.put(before);
        }
        self.no_type_by_hash(query.name(), lookup.encloser_labels)
    }

    /// A wildcard stands for the name and has no such type.
    pub(crate) fn no_type_at_wildcard(mut self, query: &Query, lookup: &Lookup) -> Result<(), Damaged> {
        let mut buffer = [0; 258];
        let wildcard = wildcard_of(end_of(query.name(), lookup.encloser_labels as usize), &mut buffer);
        if self.with_nsec {
            // The wildcard may be an empty non-terminal, which an NSEC before it shows.
            self.put(self.zone.nsec_at_or_before(wildcard)?)?;
            let before = self.zone.nsec_at_or_before(query.name())?;
            return self.put(before);
        }
        self.closest_encloser(query.name(), lookup.encloser_labels)?;
        let (node, matches) = self.zone.nsec3_at_or_before(&self.zone.nsec3_hash(wildcard)?)?;
        // With opt-out an empty non-terminal may have no NSEC3; then the covering one is in the answer as it can be.
        if matches { self.put(node) } else { Ok(()) }
    }

    /// A delegation without DS (RFC 4035 section 3.1.4.1, RFC 5155 section 7.2.7).
    pub(crate) fn no_ds(mut self, name: &[u8]) -> Result<(), Damaged> {
        if self.with_nsec {
            let before = self.zone.nsec_at_or_before(name)?;
            return self.put(before);
        }
        self.no_type_by_hash(name, wire::name::label_count(name) as u8)
    }

    /// A wildcard was used: no name closer than its own matches (RFC 4035 section 3.1.3.3, RFC 5155 section 7.2.6).
    pub(crate) fn no_closer_name(mut self, name: &[u8], encloser_labels: u8) -> Result<(), Damaged> {
        if self.with_nsec {
            let before = self.zone.nsec_at_or_before(name)?;
            return self.put(before);
        }
        self.put_hash(end_of(name, encloser_labels as usize + 1)).map(|_| ())
    }

    /// The NSEC3 of the name; with opt-out there may be none, and the closest encloser that has one proves it.
    fn no_type_by_hash(&mut self, name: &[u8], labels: u8) -> Result<(), Damaged> {
        let (node, matches) = self.zone.nsec3_at_or_before(&self.zone.nsec3_hash(name)?)?;
        if matches {
            return self.put(node);
        }
        self.closest_encloser(name, labels.saturating_sub(1)).map(|_| ())
    }

    /// Proves the closest encloser of `labels` labels, or with opt-out the next above that has an NSEC3, and that the
    /// name one label below it is not there. Returns the encloser.
    fn closest_encloser<'n>(&mut self, name: &'n [u8], labels: u8) -> Result<&'n [u8], Damaged> {
        for labels in (0..=labels as usize).rev() {
            let encloser = end_of(name, labels);
            if encloser.len() < self.apex_len {
                break;
            }
            let (node, matches) = self.zone.nsec3_at_or_before(&self.zone.nsec3_hash(encloser)?)?;
            if matches {
                self.put(node)?;
                self.put_hash(end_of(name, labels + 1))?;
                return Ok(encloser);
            }
        }
        // A chain with gaps: what can be proven is, the answer goes out all the same.
        Ok(end_of(name, labels as usize))
    }

    /// The NSEC3 that matches or covers a name.
    fn put_hash(&mut self, name: &[u8]) -> Result<bool, Damaged> {
        let (node, matches) = self.zone.nsec3_at_or_before(&self.zone.nsec3_hash(name)?)?;
        self.put(node)?;
        Ok(matches)
    }

    fn put(&mut self, node: Node<'v>) -> Result<(), Damaged> {
        if !self.answer.trail.prove(node.reference()) {
            return Ok(());
        }
        let rtype = if self.with_nsec { rtype::NSEC } else { rtype::NSEC3 };
        let Some(unit) = node.rrset(rtype)? else { return Ok(()) };
        unit.place_named(self.answer.reply, node.labels_below()?, self.apex_len, self.name_end, true)
    }
}

/// The last `labels` labels of a name.
fn end_of(name: &[u8], labels: usize) -> &[u8] {
    let above = wire::name::label_count(name).saturating_sub(labels);
    let mut at = 0;
    for _ in 0..above {
        at += name[at] as usize + 1;
    }
    &name[at..]
}

fn wildcard_of<'b>(encloser: &[u8], buffer: &'b mut [u8; 258]) -> &'b [u8] {
    let len = encloser.len().min(255);
    buffer[..2].copy_from_slice(b"\x01*");
    buffer[2..2 + len].copy_from_slice(&encloser[..len]);
    &buffer[..2 + len]
}
