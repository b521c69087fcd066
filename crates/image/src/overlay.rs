//! What has changed since an image was written: other nodes for some names, other records for some zones.
//!
//! The octets of an image go on behind its file with the nodes and units of changes, and references reach there as they
//! reach anywhere; so a changed name is answered by the same code, from one node. What an overlay holds is a table of these
//! names by their hashes, which is looked at before the file's index. A name that is no more has a node that says so; a
//! zone that was laid out anew needs none, since names are looked for below its apex, and that stands elsewhere now.
//!
//! An overlay is never changed: a change makes the next one. Whoever publishes bounds how large it grows before it is
//! folded into a new image. Without an overlay a query pays one test of a pointer.

use crate::format::Damaged;
use crate::node::{GONE, Node, Scope};
use crate::view::View;

/// Where the record of a zone is that is not as in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    At(u64),
    /// The zone is no more.
    Gone,
}

/// A changed name: the hash of all of it, its node, and the zone that it is of.
#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    /// 0: the place is free.
    reference: u32,
    zone: u32,
}

#[derive(Clone)]
pub struct Overlay {
    /// A power of two of places, at most half of them taken. A name stands at the first free place from that of its hash on.
    entries: Vec<Entry>,
    names: usize,
    /// Zones that are not as in the file, by number.
    zones: Vec<(u32, Record)>,
    /// Octets of file and changes together.
    end: u64,
}

/// Places of an overlay that holds nothing yet.
const FIRST: usize = 64;

impl Overlay {
    /// Over a file of `end` octets.
    pub(crate) fn empty(end: u64) -> Overlay {
        Overlay { entries: vec![Entry::default(); FIRST], names: 0, zones: vec![], end }
    }

    /// Names that are not as in the file.
    pub fn names(&self) -> usize {
        self.names
    }

    /// Where the next changes go.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// The entries from the place of a hash on, up to the first free one: few, since half the places are free.
    #[inline(always)]
    fn run(&self, hash: u64) -> impl Iterator<Item = (usize, &Entry)> {
        let mask = self.entries.len() - 1;
        let first = (hash >> 32) as usize & mask;
        let places = (0..self.entries.len()).map(move |i| (first + i) & mask);
        places.map_while(|at| self.entries.get(at).filter(|e| e.reference != 0).map(|e| (at, e)))
    }

    /// False: the name of this hash is as in the file.
    #[inline(always)]
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        self.run(hash).any(|(_, e)| e.hash == hash)
    }

    /// The node of a name that is not as in the file: perhaps one that says that it is hidden, or gone.
    pub(crate) fn find<'a>(
        &self,
        view: View<'a>,
        hash: u64,
        folded: &[u8],
        scope: Scope,
    ) -> Result<Option<Node<'a>>, Damaged> {
        for (_, entry) in self.run(hash).filter(|(_, e)| e.hash == hash) {
            let node = view.node(entry.reference)?;
            if node.is_named_in(entry.zone, folded, scope)? {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// Where the record of a zone is, if not in the file.
    #[inline]
    pub(crate) fn zone(&self, number: u32) -> Option<Record> {
        let i = self.zones.binary_search_by_key(&number, |z| z.0).ok()?;
        self.zones.get(i).map(|z| z.1)
    }

    pub(crate) fn set_zone(&mut self, number: u32, record: Record) {
        match self.zones.binary_search_by_key(&number, |z| z.0) {
            Ok(i) => self.zones[i].1 = record,
            Err(i) => self.zones.insert(i, (number, record)),
        }
    }

    /// The nodes of a zone, in no order, gone ones too.
    pub(crate) fn nodes<'s, 'a: 's>(
        &'s self,
        view: View<'a>,
        zone: u32,
    ) -> impl Iterator<Item = Result<Node<'a>, Damaged>> + 's {
        let mine = self.entries.iter().filter(move |e| e.reference != 0 && e.zone == zone);
        mine.map(move |e| view.node(e.reference))
    }

    /// Forgets what it holds of zones that are laid out anew, or are no more.
    pub(crate) fn forget(&mut self, zones: &[u32]) {
        if self.entries.iter().any(|e| e.reference != 0 && zones.contains(&e.zone)) {
            let kept: Vec<Entry> = self.taken().filter(|e| !zones.contains(&e.zone)).collect();
            self.refill(self.entries.len(), &kept);
        }
    }

    fn taken(&self) -> impl Iterator<Item = Entry> + '_ {
        self.entries.iter().copied().filter(|e| e.reference != 0)
    }

    fn refill(&mut self, places: usize, kept: &[Entry]) {
        self.entries = vec![Entry::default(); places];
        self.names = 0;
        kept.iter().for_each(|&entry| self.insert(entry));
    }

    fn insert(&mut self, entry: Entry) {
        let mask = self.entries.len() - 1;
        let mut at = (entry.hash >> 32) as usize & mask;
        while self.entries[at].reference != 0 {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
        self.names += 1;
    }

    /// Takes this node for its name from now on. `view` sees all nodes of the overlay and this one.
    pub(crate) fn enter(&mut self, view: View<'_>, hash: u64, reference: u32, zone: u32) -> Result<(), Damaged> {
        let node = view.node(reference)?;
        // An apex may have been nobody's name before, or another zone's.
        let is_same = |e: &Entry| -> Result<bool, Damaged> {
            let old = view.node(e.reference)?;
            Ok(old.octets()? == node.octets()?
                && old.is_whole() == node.is_whole()
                && (node.is_whole() || e.zone == zone))
        };
        let known = self.run(hash).find(|(_, e)| e.hash == hash && is_same(e) == Ok(true));
        if let Some((at, _)) = known {
            self.entries[at] = Entry { hash, reference, zone };
            return Ok(());
        }
        if self.names * 2 >= self.entries.len() {
            let all: Vec<Entry> = self.taken().collect();
            self.refill(self.entries.len() * 2, &all);
        }
        self.insert(Entry { hash, reference, zone });
        Ok(())
    }
}

/// The octets of a node that says that a name is no more: of the labels below the apex, or, with the flag for that, all of it.
pub(crate) fn gone(octets: &[u8], flags: u16) -> Vec<u8> {
    let flags = (GONE | flags).to_le_bytes();
    let mut node = [&[octets.len() as u8, 0, flags[0], flags[1]], octets].concat();
    node.resize(node.len().max(8), 0);
    node
}
