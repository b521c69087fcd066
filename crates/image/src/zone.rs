//! A zone in an image: its numbers, its nodes in canonical order, and the tables for denial of existence.
//!
//! ```text
//! 0 apex u32 | records u32 | more u32, or 0: neither signed nor below another zone
//!
//! more:
//! 0 flags u32 | first node at or below the apex in the parent zone u32, or 0 | parent's zone number u32
//! 12 NSEC owners: (keys u64... then references u32...) u32 | how many u32
//! 20 NSEC3 owners: (hash 20, reference u32)... u32 | how many u32 | iterations u16 | salt length u8 | 0 u8 | salt
//! ```
//! How the tables are looked into, and what stands there of a zone that has been edited, is in `chain`.
//!
//! The apex is the first node of the zone, the others follow it.

use crate::chain::UNDER;
use crate::format::{ALIGN, Damaged, u16_at, u32_at};
use crate::judge::ITERATIONS_MAX;
use crate::node::{APEX, CUT, DEEPER, DNAME, GONE, Node, Scope};
use crate::view::View;
use sha1::{Digest, Sha1};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::vec;
use wire::hash::{EndHashes, name_below, name_hash};
use wire::name::{NAME_MAX, is_at_or_below, labels};

pub(crate) const ZONE: usize = 12;
/// Octets of what few zones have more, without the salt.
pub(crate) const MORE: usize = 32;
/// Where in it the zone above is named.
pub(crate) const PARENT: usize = 4;
/// The zone denies with NSEC.
pub const NSEC: u32 = 1;
/// The zone denies with NSEC3.
pub const NSEC3: u32 = 2;
/// The zone has signatures.
pub const SIGNED: u32 = 4;
/// Names of the zone are hidden because they own NSEC3 and nothing else.
pub const HASHED: u32 = 8;
/// All of these stand in the table of NSEC3.
pub(crate) const TABLED: u32 = 16;
/// In an overlay only: the tables are those of changed names, and others stand under them (see `chain`).
pub(crate) const OVER: u32 = 32;
/// What the zone above has at the apex, or below it, cannot be asked for: it delegates elsewhere, or not at all.
pub(crate) const OCCLUDED: u32 = 64;

/// Takes owner, type, TTL and rdata.
pub type RecordSink<'a> = &'a mut dyn FnMut(&[u8], u16, u32, &[u8]);
/// The same, and says whether it takes more.
pub type RecordTaker<'a> = &'a mut dyn FnMut(&[u8], u16, u32, &[u8]) -> ControlFlow<()>;

#[derive(Clone, Copy)]
pub struct Zone<'a> {
    view: View<'a>,
    at: usize,
    number: u32,
}

impl<'a> Zone<'a> {
    pub(crate) fn at(view: View<'a>, at: usize, number: u32) -> Result<Zone<'a>, Damaged> {
        view.octets(at, ZONE).map(|_| Zone { view, at, number })
    }

    pub(crate) fn view(&self) -> View<'a> {
        self.view
    }

    /// Where its record stands.
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    pub(crate) fn record(&self) -> Result<[u8; ZONE], Damaged> {
        self.view.chunk(self.at).copied()
    }

    /// What few zones have, with the salt, and with what says which tables stand under its own.
    pub(crate) fn more_octets(&self) -> Result<Option<&'a [u8]>, Damaged> {
        let Some(more) = self.more()? else { return Ok(None) };
        let at = self.more_at()? as usize * ALIGN;
        let end = if u32_at(more, 0)? & OVER != 0 { self.under_at()? + UNDER } else { self.salt_end()? };
        self.view.octets(at, end - at).map(Some)
    }

    /// A reference, or 0.
    pub(crate) fn more_at(&self) -> Result<u32, Damaged> {
        self.u32(8)
    }

    fn salt_end(&self) -> Result<usize, Damaged> {
        let at = self.more_at()? as usize * ALIGN;
        self.view.chunk::<MORE>(at).map(|more| at + MORE + usize::from(more[30]))
    }

    /// Where it stands which tables are under those of changed names.
    pub(crate) fn under_at(&self) -> Result<usize, Damaged> {
        self.salt_end().map(|end| end.next_multiple_of(ALIGN))
    }

    /// The node of its apex's name that can be asked for in the zone above, and that zone's number; 0 if there is none.
    pub(crate) fn parent_link(&self) -> Result<(u32, u32), Damaged> {
        let Some(more) = self.more()? else { return Ok((0, 0)) };
        let node = if u32_at(more, 0)? & OCCLUDED == 0 { u32_at(more, PARENT)? } else { 0 };
        Ok((node, u32_at(more, PARENT + 4)?))
    }

    /// True only if no other zone of ours lies above. The file's record of one that is below another has more to say; of one that was laid
    /// out since it may not.
    pub(crate) fn is_apart(&self) -> Result<bool, Damaged> {
        Ok((self.at as u64) < self.view.frame.header.length && self.more()?.is_none())
    }

    /// Where the references in its record and tables are that count from the image's start.
    pub(crate) fn references(&self) -> Result<Vec<usize>, Damaged> {
        let mut places = vec![self.at, self.at + 8];
        if let Some(more) = self.more()? {
            let at = self.u32(8)? as usize * ALIGN;
            let (keys, owners) = (u32_at(more, 12)? as usize * ALIGN, u32_at(more, 16)? as usize);
            let (hashes, hashed) = (u32_at(more, 20)? as usize * ALIGN, u32_at(more, 24)? as usize);
            places.extend([at + PARENT, at + 12, at + 20]);
            places.extend((0..owners).map(|i| keys + 8 * owners + 4 * i));
            places.extend((0..hashed).map(|i| hashes + 24 * i + 20));
        }
        Ok(places)
    }

    /// The apex that the zone's nodes follow where they stand together.
    pub fn first(&self) -> Result<Node<'a>, Damaged> {
        self.apex()?.first()
    }

    /// The nodes that stand together, from this one on.
    pub(crate) fn together_from(&self, node: Node<'a>) -> Result<Together<'a>, Damaged> {
        let first = self.first()?;
        let end = first.reference() as usize + first.extent()? as usize;
        Ok(self.together(node.reference(), end))
    }

    /// Those between two references.
    pub(crate) fn together(&self, from: u32, end: usize) -> Together<'a> {
        Together { view: self.view, at: from as usize * ALIGN, end: end * ALIGN }
    }

    /// That of the image's hashes.
    pub fn seed(&self) -> u64 {
        self.view.seed()
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    fn u32(&self, offset: usize) -> Result<u32, Damaged> {
        self.view.u32_at(self.at + offset)
    }

    /// What few zones have.
    pub(crate) fn more(&self) -> Result<Option<&'a [u8]>, Damaged> {
        match self.u32(8)? {
            0 => Ok(None),
            at => self.view.octets(at as usize * ALIGN, MORE).map(Some),
        }
    }

    pub fn apex(&self) -> Result<Node<'a>, Damaged> {
        Node::at(self.view, self.apex_reference()?)
    }

    pub(crate) fn apex_reference(&self) -> Result<u32, Damaged> {
        self.u32(0)
    }

    /// The name of a node of this zone.
    pub fn name_of<'b>(&self, node: &Node<'_>, out: &'b mut [u8; NAME_MAX]) -> Result<&'b [u8], Damaged> {
        let (below, apex) = (node.labels_below()?, self.apex()?.apex_name()?);
        let len = below.len() + apex.len();
        let name = out.get_mut(..len).ok_or(Damaged)?;
        name[..below.len()].copy_from_slice(below);
        name[below.len()..].copy_from_slice(apex);
        Ok(name)
    }

    pub fn serial(&self) -> Result<u32, Damaged> {
        self.view.unit(self.apex()?.head())?.serial()
    }

    pub fn records(&self) -> Result<u64, Damaged> {
        self.u32(4).map(u64::from)
    }

    pub fn is(&self, mark: u32) -> Result<bool, Damaged> {
        let flags = self.more()?.map_or(Ok(0), |more| u32_at(more, 0))?;
        Ok(flags & mark != 0)
    }

    /// The node of the apex's name in the zone above, if that is ours too: it holds the DS.
    pub fn parent(&self) -> Result<Option<(Node<'a>, Zone<'a>)>, Damaged> {
        match self.parent_link()? {
            (0, _) => Ok(None),
            (reference, parent) => Ok(Some((Node::at(self.view, reference)?, self.view.zone(parent)?))),
        }
    }

    /// The zone of ours right below this one that a name is of, or whose apex it is: how its name ends, and its apex.
    pub(crate) fn below<'n>(&self, folded: &'n [u8]) -> Result<Option<(&'n [u8], Node<'a>)>, Damaged> {
        let apex = self.apex()?;
        let (name, mut nearest) = (apex.apex_name()?, None);
        if !apex.is(DEEPER) || !is_at_or_below(folded, name) {
            return Ok(None);
        }
        let hashes = EndHashes::of(self.view.seed(), folded);
        let ends = hashes.iter().map(|(at, hash)| (&folded[at..], hash));
        for (end, hash) in ends.take_while(|(end, _)| end.len() > name.len()) {
            let node = self.view.find(hash, end, Scope::NONE)?;
            nearest = node.filter(|node| node.is(APEX)).map(|node| (end, node)).or(nearest);
        }
        Ok(nearest)
    }

    /// The first node that the zone had in the file at the apex of a zone below it, or below that: no index leads there.
    pub(crate) fn first_at(&self, below: &Node<'a>) -> Result<Option<Node<'a>>, Damaged> {
        let number = below.zone_number()?;
        let at = self.view.frame.header.zones_at as usize + number as usize * ZONE;
        let more = Zone::at(self.view, at, number)?.more()?.ok_or(Damaged)?;
        match (u32_at(more, PARENT)?, u32_at(more, PARENT + 4)?) {
            (_, parent) if parent != self.number => Err(Damaged),
            (0, _) => Ok(None),
            (node, _) => self.view.node(node).map(Some),
        }
    }

    /// All nodes, hidden ones too, in canonical order.
    pub fn nodes(&self) -> Nodes<'a> {
        let all = self.first().and_then(|first| Ok(Nodes::of(self.together_from(first)?, self.changed()?)));
        all.unwrap_or_else(|damaged| Nodes { damaged: Some(damaged), ..Nodes::of(self.together(0, 0), vec![]) })
    }

    /// The nodes of names with these hashes, each of which is one of the zone. Those that cannot be asked for stand in no index:
    /// they are looked for below the names of the hashes `near` them, and then among all nodes. Err: there is no such name.
    pub fn nodes_hashed(
        &self,
        mut hashes: HashSet<u64>,
        near: impl Iterator<Item = u64>,
    ) -> Result<Vec<Node<'a>>, Damaged> {
        let (view, above) = (self.view, name_hash(self.seed(), self.apex()?.apex_name()?));
        let (first, extent) = (self.first()?.reference(), self.first()?.extent()?);
        let hash_of = |node: &Node<'a>| node.labels_below().map(|labels| name_below(above, labels, labels.len()));
        let in_file = |hash: u64| {
            let is_of_zone = |node: &Node<'a>| !node.is_whole() && node.reference().wrapping_sub(first) < extent;
            view.look_in_file(hash, |node| Ok(is_of_zone(node) && hash_of(node)? == hash))
        };
        let mut found = vec![];
        for &hash in &hashes {
            let changed = view.overlay().and_then(|overlay| overlay.hashed(view, hash, self.number).next());
            match changed.transpose()? {
                Some(node) => found.extend(Some(node).filter(|node| !node.is(GONE))),
                None => found.extend(in_file(hash)?),
            }
        }
        let near = near.chain(hashes.clone());
        for node in &found {
            hashes.remove(&hash_of(node)?);
        }
        for hash in near {
            let Some(above) = in_file(hash)?.filter(|node| !hashes.is_empty() && node.is(CUT | DNAME)) else {
                continue;
            };
            for node in self.together_from(above)?.skip(1) {
                let node = node?;
                if !node.labels_below()?.ends_with(above.labels_below()?) {
                    break;
                }
                if hashes.remove(&hash_of(&node)?) {
                    found.push(node);
                }
            }
        }
        let mut nodes = self.nodes();
        while !hashes.is_empty() {
            let node = nodes.next().ok_or(Damaged)??;
            if hashes.remove(&hash_of(&node)?) {
                found.push(node);
            }
        }
        Ok(found)
    }

    /// Calls `f` with owner, type, TTL and uncompressed rdata of each record, in canonical order of owners, by type.
    pub fn for_each_record(&self, f: RecordSink<'_>) -> Result<(), Damaged> {
        self.each_record_until(&mut |owner, rtype, ttl, rdata| {
            f(owner, rtype, ttl, rdata);
            ControlFlow::Continue(())
        })
    }

    /// The same until `f` breaks it off.
    pub fn each_record_until(&self, f: RecordTaker<'_>) -> Result<(), Damaged> {
        for node in self.nodes() {
            if self.each_record_of(&node?, f)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The same for the records of one node of the zone.
    pub fn each_record_of(&self, node: &Node<'_>, f: RecordTaker<'_>) -> Result<ControlFlow<()>, Damaged> {
        let mut owner = [0; NAME_MAX];
        let owner = self.name_of(node, &mut owner)?;
        let mut flow = ControlFlow::Continue(());
        for rrset in node.rrsets() {
            let (_, unit) = rrset?;
            let mut record = |fixed: &[u8], rdata: &[u8]| {
                let rtype = u16::from_be_bytes([fixed[0], fixed[1]]);
                let ttl = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
                if flow.is_continue() {
                    flow = f(owner, rtype, ttl, rdata);
                }
            };
            unit.for_each(owner, &mut record)?;
            unit.for_each_signature(&mut record)?;
        }
        Ok(flow)
    }

    /// The NSEC3 hash of a folded name (RFC 5155 section 5).
    pub fn nsec3_hash(&self, folded: &[u8]) -> Result<[u8; 20], Damaged> {
        let (iterations, salt) = self.hashing()?;
        Ok(nsec3_hash(folded, iterations, salt))
    }

    /// How names are hashed: iterations, and the salt.
    pub fn hashing(&self) -> Result<(u16, &'a [u8]), Damaged> {
        let more = self.more()?.ok_or(Damaged)?;
        let iterations = u16_at(more, 28)?;
        // No builder lets more pass, and an answering thread would hash for seconds.
        if iterations > ITERATIONS_MAX {
            return Err(Damaged);
        }
        let salt_len = *more.get(30).ok_or(Damaged)? as usize;
        Ok((iterations, self.view.octets(self.u32(8)? as usize * ALIGN + MORE, salt_len)?))
    }
}

pub fn nsec3_hash(folded: &[u8], iterations: u16, salt: &[u8]) -> [u8; 20] {
    let mut digest: [u8; 20] = Sha1::new().chain_update(folded).chain_update(salt).finalize().into();
    for _ in 0..iterations {
        digest = Sha1::new().chain_update(digest).chain_update(salt).finalize().into();
    }
    digest
}

/// The first eight octets of a name below the apex, arranged so that numbers compare as names do (RFC 4034 section 6.1):
/// labels from the right, a zero behind each, and the octets 0 and 1 within labels escaped so that zero stays the least.
pub(crate) fn order_key(name: &[u8], apex: &[u8]) -> u64 {
    let mut starts = [0u8; 128];
    let (mut n, mut at) = (0, 0);
    while name.len() - at > apex.len() {
        starts[n & 127] = at as u8;
        n += 1;
        at += name[at] as usize + 1;
    }
    let (mut key, mut room) = (0u64, 8u32);
    let mut push = |octet: u8| {
        if room > 0 {
            room -= 1;
            key |= u64::from(octet) << (8 * room);
        }
    };
    for &at in starts[..n].iter().rev() {
        let Some(label) = labels(&name[at as usize..]).next() else { break };
        for &c in label.iter().take(8) {
            match c.to_ascii_lowercase() {
                c @ 0..=1 => {
                    push(1);
                    push(c + 1);
                }
                c => push(c),
            }
        }
        push(0);
    }
    key
}

/// Nodes that stand one behind another.
pub(crate) struct Together<'a> {
    view: View<'a>,
    at: usize,
    end: usize,
}

impl<'a> Iterator for Together<'a> {
    type Item = Result<Node<'a>, Damaged>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let node = Node::at(self.view, (self.at / ALIGN) as u32);
        match node.and_then(|n| n.next()) {
            Ok(next) => self.at = next,
            Err(damaged) => {
                self.at = self.end;
                return Some(Err(damaged));
            }
        }
        Some(node)
    }
}

/// The nodes of a zone: those that stand together, and between them, or instead, those that an overlay holds.
pub struct Nodes<'a> {
    /// They cannot be found. That must be told: a zone of which nothing is there looks like one that has nothing.
    damaged: Option<Damaged>,
    together: Peekable<Together<'a>>,
    /// In canonical order, gone ones too.
    changed: Peekable<vec::IntoIter<Node<'a>>>,
}

impl<'a> Nodes<'a> {
    pub(crate) fn of(together: Together<'a>, changed: Vec<Node<'a>>) -> Nodes<'a> {
        Nodes { damaged: None, together: together.peekable(), changed: changed.into_iter().peekable() }
    }
}

impl<'a> Iterator for Nodes<'a> {
    type Item = Result<Node<'a>, Damaged>;
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(damaged) = self.damaged.take() {
            return Some(Err(damaged));
        }
        loop {
            let Some(changed) = self.changed.peek() else { return self.together.next() };
            let order = match self.together.peek() {
                Some(Ok(node)) => node.order(changed),
                Some(Err(Damaged)) => Ok(Ordering::Less),
                None => Ok(Ordering::Greater),
            };
            match order {
                Ok(Ordering::Less) => return self.together.next(),
                Ok(Ordering::Equal) => drop(self.together.next()),
                Ok(Ordering::Greater) => {}
                // Whether it is this one that has changed nobody knows.
                Err(damaged) => {
                    self.together.next();
                    return Some(Err(damaged));
                }
            }
            if let Some(node) = self.changed.next_if(|n| !n.is(GONE)) {
                return Some(Ok(node));
            }
            self.changed.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Name;

    #[test]
    fn keys_order_as_names_do() {
        let apex = Name::from_text(b"example.", None).unwrap();
        let sorted = [
            "example.",
            "\\000.example.",
            "a.\\000.example.",
            "\\001.example.",
            "a.example.",
            "x.a.example.",
            "a\\000.example.",
            "b.example.",
            "longlabel1.example.",
            "longlabel2.example.",
        ];
        let names: Vec<Name> = sorted.iter().map(|n| Name::from_text(n.as_bytes(), None).unwrap()).collect();
        for w in names.windows(2) {
            assert!(w[0] < w[1], "{w:?}");
            assert!(order_key(w[0].bytes(), apex.bytes()) <= order_key(w[1].bytes(), apex.bytes()), "{w:?}");
        }
        assert!(order_key(names[4].bytes(), apex.bytes()) < order_key(names[5].bytes(), apex.bytes()));
    }

    #[test]
    fn nsec3_hashes_are_those_of_rfc_5155_appendix_a() {
        let hash =
            |n: &str| nsec3_hash(Name::from_text(n.as_bytes(), None).unwrap().bytes(), 12, &[0xaa, 0xbb, 0xcc, 0xdd]);
        assert_eq!(hash("example.")[..3], [0x06, 0x53, 0x68]);
        assert_eq!(hash("a.example.")[..2], [0x19, 0x6d]);
    }
}
