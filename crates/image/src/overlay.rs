//! What has changed since an image was written: other nodes for some names, other records for some zones.
//!
//! The octets of an image go on behind its file with the nodes and units of changes, and references reach there as they
//! reach anywhere; so a changed name is answered by the same code, from one node. What an overlay holds is a table of these
//! names by their hashes, which is looked at before the file's index. A name that is no more has a node that says so; a
//! zone that was laid out anew needs none, since names are looked for below its apex, and that stands elsewhere now.
//!
//! An overlay is never changed: a change makes the next one, which shares with it all that the change does not touch, but for 8 KiB
//! of marks, and the tables by which a signed zone denies (`chain`): 12 octets for each of its owners of NSEC that have changed, 24 for each of NSEC3.
//! So a change costs what it changes, however much has changed before. Whoever publishes bounds how large an overlay grows
//! before it is folded into a new image. Without one a query pays one test of a pointer.

use crate::edit::{Nodes, Screen};
use crate::format::Damaged;
use crate::named::names_any;
use crate::node::{ABOVE, GONE, Node, Scope, UNSEEN};
use crate::row::{Finger, Named, Row};
use crate::shared::Shared;
use crate::view::{Candidate, View};
use std::collections::BTreeSet;
use wire::hash::{Marks, quick};

/// Where the record of a zone is that is not as in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    At(u64),
    /// The zone is no more.
    Gone,
}

/// A changed name: the hash of all of it, its node, and the zone that it is of.
#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    reference: u32,
    zone: u32,
}

/// What is not as in the file of a zone.
#[derive(Clone)]
struct Touched {
    number: u32,
    record: Option<Record>,
    /// Its entries.
    names: Row,
    /// Those of them that are there: who looks for one need not step over all that are gone.
    live: Row,
}

impl Touched {
    fn new(number: u32) -> Touched {
        Touched { number, record: None, names: Row::default(), live: Row::default() }
    }
}

/// Of the nodes of the file below a name all are changed up to one, and stay so.
#[derive(Clone, Copy)]
pub(crate) struct Front {
    /// The name's node in the file; or, where names are hidden, the first node below it, which is one of those.
    pub seat: u32,
    pub is_hidden: bool,
    pub last: u32,
}

impl Front {
    fn is_of(&self, seat: u32, is_hidden: bool) -> bool {
        (self.seat, self.is_hidden) == (seat, is_hidden)
    }
}

/// Changed names of a zone that are listed under a key: a name leaves its lists with its node. None is empty.
#[derive(Clone)]
struct Host {
    key: u32,
    zone: u32,
    names: Row,
}

#[derive(Clone)]
pub struct Overlay {
    entries: Shared<Entry>,
    /// How many there are.
    names: usize,
    /// Of their hashes; a name that goes leaves its own. Of all others, which are most of those that are asked for, one look tells that they have not changed,
    /// where the table takes three, into more than a core's first cache holds.
    marks: Marks,
    /// By number.
    zones: Shared<Touched>,
    /// By seat: where the first is found that is as in the file. Bound: those of which many have changed.
    fronts: Shared<Front>,
    /// Which nodes of the file are hidden. Bound: four octets for each that is hidden with a name that was changed.
    hidden: Shared<(Screen, Nodes)>,
    /// By `place`: changed names whose records name hosts of a key (see `named`).
    hosts: Shared<Host>,
    /// Octets of file and changes together.
    end: u64,
}

/// The part of a name's hash by which its entry is found.
#[inline(always)]
fn key(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// By which the names are found that are listed under a key. Keys are the same for every image, so anybody can prepare many that would
/// stand together; with the image's seed nobody can.
fn place(view: View<'_>, key: u32, zone: u32) -> u32 {
    quick(view.seed(), u128::from(key) | u128::from(zone) << 64) as u32
}

impl Overlay {
    /// Over a file of `end` octets.
    pub(crate) fn empty(end: u64) -> Overlay {
        Overlay {
            entries: Shared::empty(),
            marks: Marks::default(),
            names: 0,
            zones: Shared::empty(),
            fronts: Shared::empty(),
            hidden: Shared::empty(),
            hosts: Shared::empty(),
            end,
        }
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

    /// Changed names of a zone that are listed under a key of hosts.
    pub(crate) fn listed(&self, view: View<'_>, key: u32, zone: u32) -> impl Iterator<Item = Named> + use<'_> {
        let hosts =
            self.hosts.leaf(place(view, key, zone)).iter().filter(move |host| host.key == key && host.zone == zone);
        hosts.flat_map(|host| host.names.iter())
    }

    /// Lists names of a zone under a key of hosts.
    pub(crate) fn list(
        &mut self,
        view: View<'_>,
        key: u32,
        zone: u32,
        mut names: impl Iterator<Item = Named>,
    ) -> Result<(), Damaged> {
        self.hosts.change(place(view, key, zone), |leaf| {
            let known = leaf.iter().position(|host| host.key == key && host.zone == zone);
            let at = known.unwrap_or_else(|| {
                leaf.push(Host { key, zone, names: Row::default() });
                leaf.len() - 1
            });
            let mut finger = Finger::default();
            names.try_for_each(|named| leaf[at].names.put(view, named, &mut finger))
        })
    }

    /// Takes a node that is to be another one, or none, out of the lists that it stands in.
    fn unlist(&mut self, view: View<'_>, zone: u32, named: Named) -> Result<(), Damaged> {
        for key in keys_of(view, zone, named)? {
            let is_of_it = |host: &Host| host.key == key && host.zone == zone;
            // To look is to copy nothing: few names are listed here.
            if !self.hosts.leaf(place(view, key, zone)).iter().any(is_of_it) {
                continue;
            }
            self.hosts.change(place(view, key, zone), |leaf| -> Result<(), Damaged> {
                leaf.iter_mut()
                    .filter(|host| is_of_it(host))
                    .try_for_each(|host| host.names.remove(view, named, &mut Finger::default()))?;
                leaf.retain(|host| !host.names.is_empty());
                Ok(())
            })?;
        }
        Ok(())
    }

    #[inline(always)]
    fn of_hash(&self, hash: u64) -> impl Iterator<Item = &Entry> {
        let leaf = if self.marks.has(hash) { self.entries.leaf(key(hash)) } else { &[] };
        leaf.iter().filter(move |e| e.hash == hash)
    }

    /// The only changed name of this hash, or that there are several. None: there is none.
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: u64) -> Option<Candidate> {
        let mut all = self.of_hash(hash);
        let first = all.next()?;
        Some(if all.next().is_none() { Candidate::changed(first.reference, first.zone) } else { Candidate::LOOK })
    }

    /// The nodes of this name, perhaps of several zones.
    #[inline(always)]
    fn named<'s, 'a: 's>(
        &'s self,
        view: View<'a>,
        hash: u64,
        folded: &'s [u8],
        scope: Scope,
    ) -> impl Iterator<Item = Result<Node<'a>, Damaged>> + 's {
        self.of_hash(hash).filter_map(move |e| {
            let node = view.node(e.reference);
            node.and_then(|node| Ok(node.is_named_in(e.zone, folded, scope)?.then_some(node))).transpose()
        })
    }

    /// The node of a name that is not as in the file: perhaps one that says that it is hidden, or gone. Another zone's apex, and nobody's
    /// name on the way to one, come before what a zone has there that cannot be asked for; and what can be asked for before nobody's.
    pub(crate) fn find<'a>(
        &self,
        view: View<'a>,
        hash: u64,
        folded: &[u8],
        scope: Scope,
    ) -> Result<Option<Node<'a>>, Damaged> {
        let (mut nobodys, mut unseen) = (None, None);
        for node in self.named(view, hash, folded, scope) {
            let node = node?;
            match node.flags() & (UNSEEN | ABOVE) {
                0 => return Ok(Some(node)),
                ABOVE => nobodys = Some(node),
                _ => unseen = Some(node),
            }
        }
        Ok(nobodys.or(unseen))
    }

    /// The same for what a zone has at a name below its apex, whoever else has something there.
    pub(crate) fn find_own<'a>(
        &self,
        view: View<'a>,
        hash: u64,
        folded: &[u8],
        scope: Scope,
    ) -> Result<Option<Node<'a>>, Damaged> {
        self.named(view, hash, folded, scope).find(|node| !node.as_ref().is_ok_and(Node::is_whole)).transpose()
    }

    /// The nodes of a hash that are a zone's names, gone ones too.
    pub(crate) fn hashed<'s, 'a: 's>(
        &'s self,
        view: View<'a>,
        hash: u64,
        zone: u32,
    ) -> impl Iterator<Item = Result<Node<'a>, Damaged>> + 's {
        let nodes = self.of_hash(hash).filter(move |e| e.zone == zone).map(move |e| view.node(e.reference));
        nodes.filter(|node| !node.as_ref().is_ok_and(|node| node.is(ABOVE)))
    }

    fn touched(&self, number: u32) -> Option<&Touched> {
        self.zones.leaf(number).iter().find(|z| z.number == number)
    }

    fn touch<T>(&mut self, number: u32, change: impl FnOnce(&mut Touched) -> T) -> T {
        self.zones.change(number, |leaf| {
            let known = leaf.iter().position(|z| z.number == number);
            let at = known.unwrap_or_else(|| {
                leaf.push(Touched::new(number));
                leaf.len() - 1
            });
            change(&mut leaf[at])
        })
    }

    /// Where the record of a zone is, if not in the file.
    #[inline]
    pub(crate) fn zone(&self, number: u32) -> Option<Record> {
        self.touched(number)?.record
    }

    pub(crate) fn set_zone(&mut self, number: u32, record: Record) {
        self.touch(number, |zone| zone.record = Some(record));
    }

    /// The nodes of a zone in canonical order, gone ones too.
    pub(crate) fn nodes<'s, 'a: 's>(
        &'s self,
        view: View<'a>,
        zone: u32,
    ) -> impl Iterator<Item = Result<Node<'a>, Damaged>> + 's {
        let names = self.touched(zone).into_iter().flat_map(|zone| zone.names.iter());
        names.map(move |named| view.node(named.reference))
    }

    /// Those of them that are there and stand behind a name, of which `labels` are below the apex. What lies below it comes first.
    pub(crate) fn live_behind<'s, 'a: 's>(
        &'s self,
        view: View<'a>,
        zone: u32,
        labels: &[u8],
    ) -> Result<impl Iterator<Item = Result<Node<'a>, Damaged>> + use<'s, 'a>, Damaged> {
        let behind = self.touched(zone).map(|zone| zone.live.behind(view, labels)).transpose()?;
        Ok(behind.into_iter().flatten().map(move |named| view.node(named.reference)))
    }

    /// Forgets what it holds of zones that are laid out anew, or are no more.
    pub(crate) fn forget(&mut self, view: View<'_>, zones: &[u32]) -> Result<(), Damaged> {
        for &number in zones {
            let names = self.touched(number).map(|zone| zone.names.clone()).unwrap_or_default();
            let (mut hashes, mut lists) = (Vec::new(), Vec::new());
            for named in names.iter() {
                hashes.push(key(named.hash));
                lists.extend(keys_of(view, number, named)?.into_iter().map(|key| place(view, key, number)));
            }
            self.names -= hashes.len();
            self.entries.change_each(hashes, |leaf| leaf.retain(|e| e.zone != number));
            self.hosts.change_each(lists, |leaf| leaf.retain(|host| host.zone != number));
            self.touch(number, |zone| *zone = Touched { record: zone.record, ..Touched::new(number) });
        }
        Ok(())
    }

    /// Takes these nodes of a zone for their names from now on. `view` sees all nodes of the overlay and these.
    pub(crate) fn enter(&mut self, view: View<'_>, zone: u32, nodes: &[Named]) -> Result<(), Damaged> {
        let before =
            nodes.iter().map(|named| self.enter_by_hash(view, zone, *named)).collect::<Result<Vec<_>, Damaged>>()?;
        // Together, for each change copies the list of the zone's runs.
        self.touch(zone, |zone| {
            let [mut of_all, mut of_live, mut of_gone] = [Finger::default(), Finger::default(), Finger::default()];
            nodes.iter().zip(before).try_for_each(|(named, before)| {
                zone.names.put(view, *named, &mut of_all)?;
                let node = view.node(named.reference)?;
                match before {
                    _ if !is_gone(&node) => zone.live.put(view, *named, &mut of_live),
                    Some(before) => zone.live.remove(view, before, &mut of_gone),
                    None => Ok(()),
                }
            })
        })
    }

    /// The last node of the file up to which all are known to have changed that stand below a name.
    pub(crate) fn front(&self, seat: u32, is_hidden: bool) -> Option<u32> {
        self.fronts.leaf(seat).iter().find(|front| front.is_of(seat, is_hidden)).map(|front| front.last)
    }

    pub(crate) fn set_front(&mut self, front: Front) {
        self.fronts.change(front.seat, |leaf| {
            leaf.retain(|old| !old.is_of(front.seat, front.is_hidden));
            leaf.push(front);
        });
    }

    /// Those that are hidden so, if they are known.
    pub(crate) fn hidden(&self, screen: Screen) -> Option<&Nodes> {
        self.hidden.leaf(screen.0).iter().find(|(by, _)| *by == screen).map(|(_, nodes)| nodes)
    }

    pub(crate) fn set_hidden(&mut self, screen: Screen, nodes: &Nodes) {
        if self.hidden(screen).is_none() {
            self.hidden.change(screen.0, |leaf| leaf.push((screen, Nodes::clone(nodes))));
        }
    }

    /// Returns the node that the name had.
    fn enter_by_hash(&mut self, view: View<'_>, zone: u32, named: Named) -> Result<Option<Named>, Damaged> {
        let Named { hash, reference } = named;
        let node = view.node(reference)?;
        // An apex may have been nobody's name before, or another zone's.
        let is_same = |e: &Entry| -> Result<bool, Damaged> {
            let old = view.node(e.reference)?;
            Ok(old.octets()? == node.octets()?
                && old.is_whole() == node.is_whole()
                && (node.is_whole() || e.zone == zone))
        };
        let known = self.of_hash(hash).find(|e| is_same(e) == Ok(true)).copied();
        let before = known.map(|old| Named { hash, reference: old.reference });
        if let Some((old, before)) = known.zip(before) {
            self.unlist(view, old.zone, before)?;
            if old.zone != zone {
                self.touch(old.zone, |zone| {
                    zone.names.remove(view, before, &mut Finger::default())?;
                    zone.live.remove(view, before, &mut Finger::default())
                })?;
            }
        }
        self.marks.set(hash);
        self.entries.change(key(hash), |leaf| {
            leaf.retain(|e| known.is_none_or(|old| e.reference != old.reference));
            leaf.push(Entry { hash, reference, zone });
        });
        self.names += usize::from(known.is_none());
        Ok(before)
    }
}

/// The keys of hosts under which a node of a zone is listed.
fn keys_of(view: View<'_>, zone: u32, named: Named) -> Result<BTreeSet<u32>, Damaged> {
    let node = view.node(named.reference)?;
    // Most names are in no list, and those that nobody has on the way to an apex are not even of a zone.
    if names_any(&node)? { view.zone(zone)?.keys_of(&node) } else { Ok(BTreeSet::new()) }
}

/// Whether a zone has nothing there any more, or has nothing to do with the name.
fn is_gone(node: &Node<'_>) -> bool {
    node.flags() & (ABOVE | GONE) != 0
}

/// The octets of a node without records: of the labels below the apex, or, with the flag for that, all of the name.
pub(crate) fn bare(octets: &[u8], flags: u16) -> Vec<u8> {
    let flags = flags.to_le_bytes();
    let mut node = [&[octets.len() as u8, 0, flags[0], flags[1]], octets].concat();
    node.resize(node.len().max(8), 0);
    node
}
