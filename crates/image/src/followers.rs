//! Names that name hosts whose addresses have changed: what is left of an edit, to be laid after it, some names at a time.
//!
//! A change lays such names itself when they are few, those of all zones together. Of a host that thousands name it lays those that the host stands at or below,
//! for their referrals may lead nowhere without this glue (RFC 9471 section 3.1); what the others carry of it is additional, and whoever
//! is led there by an old address, or by none, can ask for the host itself. They keep the addresses that they have until it is their turn.
//!
//! They are laid as the zone is then, so that it does not matter what has changed in between. Who has been laid since the hosts
//! changed, for whatever reason, is left out: his node stands behind all that was there then. What is left counts for one image and what
//! lies over it; where another one is put in its place, which was built of the records, nothing is left.
//!
//! Bound: `NODES_MAX` nodes and hosts together; with more, what is left waits for a new image. Of each zone there are two entries at most,
//! one that is being worked on and one that waits.

use crate::format::{ALIGN, Damaged};
use crate::named::Hosts;
use crate::view::View;
use crate::zone::Zone;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// 4 octets each, and to lay as many takes two seconds: with more of them a new image is not much dearer.
const NODES_MAX: usize = 400_000;

/// A zone costs at least as much as so many nodes.
const PER_ZONE: usize = 8;

/// What is left of one edit.
pub struct Followers {
    apex: Box<[u8]>,
    hosts: Hosts,
    /// Nodes that are listed for these hosts.
    nodes: Vec<u32>,
    /// Nodes that stand here or behind have been laid since the hosts changed.
    since: u32,
    has_begun: bool,
}

impl Followers {
    /// `zone`: as it was before the edit.
    pub(crate) fn new(zone: &Zone<'_>, apex: &[u8], hosts: Hosts, nodes: Vec<u32>) -> Followers {
        let header = &zone.view().frame.header;
        let end = header.overlay.as_ref().map_or(header.length, |overlay| overlay.end());
        let since = end.div_ceil(ALIGN as u64) as u32;
        Followers { apex: apex.into(), hosts, nodes, since, has_begun: false }
    }

    fn size(&self) -> usize {
        self.nodes.len() + self.hosts.len()
    }

    /// Takes in what is left of a later edit of the zone.
    fn join(&mut self, later: Followers) {
        self.hosts.extend(later.hosts);
        self.nodes.extend(later.nodes);
        self.nodes.sort_unstable();
        self.nodes.dedup();
        // Whoever was laid between the two is laid once more, though he may name none of the later hosts.
        self.since = later.since;
    }

    /// Takes so many nodes out, and returns the names that are still to be laid.
    fn take(&mut self, view: View<'_>, max: usize) -> Result<BTreeSet<Box<[u8]>>, Damaged> {
        self.has_begun = true;
        let nodes = self.nodes.split_off(self.nodes.len().saturating_sub(max));
        let mut names = BTreeSet::new();
        // A zone that is no more has nothing left to be laid.
        if let Some(zone) = view.zone_of(&self.apex)? {
            zone.naming(nodes, &self.hosts, self.since, usize::MAX, &mut names)?;
        }
        Ok(names)
    }
}

/// Names to be laid next, by their zones. There may be none: then all that were looked at have been laid already.
#[derive(Default)]
pub struct Turn(pub BTreeMap<Box<[u8]>, BTreeSet<Box<[u8]>>>);

/// What is left of all edits since the image was published.
#[derive(Default)]
pub struct Queue {
    left: VecDeque<Followers>,
    /// How many went before the first of these.
    gone: u64,
    /// Of each zone the one that waits, by how many came before it.
    waiting: HashMap<Box<[u8]>, u64>,
    /// Nodes and hosts of all.
    size: usize,
    takes_image: bool,
}

impl Queue {
    pub fn push(&mut self, later: Followers) {
        if self.takes_image {
            return;
        }
        let waiting = self.waiting.get(&later.apex).map(|came| (came - self.gone) as usize);
        match waiting.and_then(|at| self.left.get_mut(at)) {
            Some(left) => {
                self.size -= left.size();
                left.join(later);
                self.size += left.size();
            }
            None => {
                self.size += later.size();
                self.waiting.insert(later.apex.clone(), self.gone + self.left.len() as u64);
                self.left.push_back(later);
            }
        }
        if self.size > NODES_MAX {
            self.give_up();
        }
    }

    /// Names to be laid, from a look at so many nodes. None: there are none, or they wait for a new image.
    pub fn next(&mut self, view: View<'_>, max: usize) -> Option<Turn> {
        let (mut turn, mut room) = (Turn::default(), max);
        self.left.front()?;
        while let Some(first) = self.left.front_mut().filter(|_| room > 0) {
            if !first.has_begun {
                self.waiting.remove(&first.apex);
            }
            self.size -= first.size();
            let looked_at = first.nodes.len().min(room);
            let Ok(names) = first.take(view, room) else {
                self.give_up();
                return None;
            };
            if !names.is_empty() {
                // One that has begun, and the one that waited for it, are of the same zone.
                turn.0.entry(first.apex.clone()).or_default().extend(names);
            }
            if first.nodes.is_empty() {
                self.gone += 1;
                self.left.pop_front();
            } else {
                self.size += first.size();
            }
            room = room.saturating_sub(looked_at + PER_ZONE);
        }
        Some(turn)
    }

    /// What is left cannot be laid: it waits for a new image.
    pub fn give_up(&mut self) {
        *self = Queue { takes_image: true, ..Queue::default() };
    }

    /// Nothing is left that can be laid.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Something is left that waits for a new image.
    pub fn takes_image(&self) -> bool {
        self.takes_image
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::{Edit, Record};
    use crate::format::Header;
    use crate::patch::{self, Change, Limits, PLACE};
    use crate::{Builder, Image};
    use wire::rtype::{A, NS, SOA};

    const APEX: &[u8] = b"\x01z\0";
    const HOST: &[u8] = b"\x02ns\x03all\x01z\0";
    const CUTS: usize = 50;

    fn cut(n: usize) -> Box<[u8]> {
        [format!("\x03c{n:02}").as_bytes(), APEX].concat().into()
    }

    /// A zone in which `CUTS` delegations name one host, which lies below another delegation that names it, too.
    struct Stage {
        octets: Vec<u8>,
        header: Header,
        queue: Queue,
    }

    impl Stage {
        fn new() -> Stage {
            let mut builder = Builder::new(7);
            builder.begin_zone(APEX);
            builder.record(APEX, SOA, 1, &[0; 22]).unwrap();
            builder.record(APEX, NS, 1, b"\x01n\0").unwrap();
            builder.record(HOST, A, 1, &[192, 0, 2, 0]).unwrap();
            let above = &HOST[3..];
            for owner in (0..CUTS).map(cut).chain([above.into()]) {
                builder.record(&owner, NS, 1, HOST).unwrap();
            }
            let octets = builder.finish().0;
            let header = Image::open(&octets[..]).unwrap().header().clone();
            Stage { octets, header, queue: Queue::default() }
        }

        fn image(&self) -> Image<&[u8]> {
            Image::overlaid(&self.octets, self.header.clone())
        }

        fn lay(&mut self, edit: Edit<'_>, followers_max: usize) {
            let place = (self.octets.len() as u64).next_multiple_of(PLACE);
            let limits = Limits { followers: followers_max, ..Limits::MOST };
            let change = Change { whole: Builder::new(7), gone: vec![], edits: vec![edit], limits };
            let laid = patch::lay(self.image().view(), change, place).unwrap();
            self.octets.resize(place as usize, 0);
            self.octets.extend_from_slice(&laid.octets);
            self.header = laid.overlay(self.image().view()).unwrap();
            laid.followers.into_iter().for_each(|followers| self.queue.push(followers));
        }

        fn change(&mut self, name: &[u8], rtype: u16, rdata: &[u8], followers_max: usize) {
            let records = vec![Record { rtype, ttl: 1, rdata: rdata.into() }];
            self.lay(Edit::new(APEX, [(name.into(), records)].into()), followers_max);
        }

        /// How many names a turn lays; None: nothing is left.
        fn turn(&mut self, max: usize) -> Option<usize> {
            let mut queue = std::mem::take(&mut self.queue);
            let turn = queue.next(self.image().view(), max);
            self.queue = queue;
            let turn = turn?;
            let names: usize = turn.0.values().map(BTreeSet::len).sum();
            turn.0.into_iter().for_each(|(apex, names)| self.lay(Edit::again(&apex, names), usize::MAX));
            Some(names)
        }

        /// Which delegations are laid as they were before there were so many octets.
        fn laid_before(&self, end: usize) -> Vec<usize> {
            let image = self.image();
            let zone = image.view().zone(0).unwrap();
            let place = |n: &usize| zone.node(&cut(*n)).unwrap().unwrap().reference() as usize * ALIGN;
            (0..CUTS).filter(|n| place(n) < end).collect()
        }

        fn place_of(&self, name: &[u8]) -> usize {
            let image = self.image();
            let node = image.view().zone(0).unwrap().node(name).unwrap();
            node.unwrap().reference() as usize * ALIGN
        }
    }

    #[test]
    fn a_host_and_those_that_it_stands_below_are_laid_at_once_and_the_others_in_turns() {
        let mut stage = Stage::new();
        let end = stage.octets.len();
        stage.change(HOST, A, &[192, 0, 2, 1], CUTS - 1);
        assert!(stage.place_of(HOST) >= end && stage.place_of(&HOST[3..]) >= end);
        assert_eq!(stage.laid_before(end).len(), CUTS);
        let turns: Vec<usize> = std::iter::from_fn(|| stage.turn(20)).collect();
        assert_eq!((turns, stage.laid_before(end)), (vec![20, 20, 10], vec![]));
        let end = stage.octets.len();
        stage.change(HOST, A, &[192, 0, 2, 2], 10 * CUTS);
        assert!(stage.queue.is_empty() && stage.laid_before(end).is_empty(), "few are laid at once");
    }

    #[test]
    fn what_changes_between_two_turns_is_neither_laid_twice_nor_forgotten() {
        let mut stage = Stage::new();
        stage.change(HOST, A, &[192, 0, 2, 1], 0);
        assert_eq!(stage.turn(20), Some(20));
        let end = stage.octets.len();
        // Whoever is laid for his own sake is laid; he names another host from now on, or comes to name this one.
        stage.change(&cut(0), NS, b"\x05other\0", 0);
        stage.change(&cut(CUTS), NS, HOST, 0);
        stage.change(HOST, A, &[192, 0, 2, 2], 0);
        stage.change(HOST, A, &[192, 0, 2, 3], 0);
        assert_eq!(stage.queue.left.len(), 2, "one is worked on, and one waits");
        let laid: usize = std::iter::from_fn(|| stage.turn(7)).sum();
        assert!(stage.laid_before(end).is_empty());
        // All but the first: by what was left of the first change, or by that of the last, none by both.
        assert_eq!(laid, CUTS);
        assert!(stage.queue.is_empty() && !stage.queue.takes_image());
    }

    #[test]
    fn what_zones_of_one_change_lay_at_once_is_bounded_together() {
        let apexes: [&[u8]; 3] = [b"\x01a\0", b"\x01b\0", b"\x01c\0"];
        let below = |label: &str, apex: &[u8]| [&[label.len() as u8], label.as_bytes(), apex].concat();
        let mut builder = Builder::new(7);
        for apex in apexes {
            builder.begin_zone(apex);
            builder.record(apex, SOA, 1, &[0; 22]).unwrap();
            builder.record(apex, NS, 1, &below("ns", apex)).unwrap();
            builder.record(&below("ns", apex), A, 1, &[192, 0, 2, 0]).unwrap();
            for cut in ["d", "e"] {
                builder.record(&below(cut, apex), NS, 1, &below("ns", apex)).unwrap();
            }
        }
        let image = Image::open(builder.finish().0).unwrap();
        let change = |followers_max| {
            let host = |apex: &[u8]| vec![Record { rtype: A, ttl: 1, rdata: [192, 0, 2, apex[1]][..].into() }];
            let edits = apexes.iter().map(|apex| Edit::new(apex, [(below("ns", apex).into(), host(apex))].into()));
            let limits = Limits { followers: followers_max, ..Limits::MOST };
            Change { whole: Builder::new(7), gone: vec![], edits: edits.collect(), limits }
        };
        let left = |followers_max| {
            let place = (image.bytes().len() as u64).next_multiple_of(PLACE);
            let laid = patch::lay(image.view(), change(followers_max), place).unwrap();
            laid.followers.into_iter().map(|left| left.apex.into_vec()).collect::<Vec<_>>()
        };
        // Of each two delegations.
        for (followers_max, expect) in [(6, &apexes[3..]), (5, &apexes[2..]), (3, &apexes[1..]), (1, &apexes[..])] {
            assert_eq!(left(followers_max), expect, "{followers_max}");
        }
    }

    #[test]
    fn what_waits_is_joined_wherever_it_stands() {
        let stage = Stage::new();
        let image = stage.image();
        let zone = image.view().zone(0).unwrap();
        let left = |apex: &[u8], host: &[u8], nodes: u32| {
            Followers::new(&zone, apex, Hosts::from([host.into()]), (0..nodes).collect())
        };
        let mut queue = Queue::default();
        for (apex, nodes) in [(&b"\x01a\0"[..], 3), (b"\x01b\0", 2), (b"\x01c\0", 4)] {
            queue.push(left(apex, HOST, nodes));
        }
        // Those zones are no more, so nothing is laid; the first is done with, and the second has begun.
        let turn = queue.next(image.view(), 3 + PER_ZONE + 1);
        assert!(turn.is_some_and(|turn| turn.0.is_empty()));
        assert_eq!((queue.left.len(), queue.size), (2, 1 + 1 + 4 + 1));
        for apex in [b"\x01b\0", b"\x01c\0", b"\x01b\0", b"\x01a\0"] {
            queue.push(left(apex, &HOST[3..], 5));
        }
        let sizes: Vec<_> = queue.left.iter().map(|left| (left.apex[1], left.nodes.len(), left.hosts.len())).collect();
        assert_eq!(sizes, [(b'b', 1, 1), (b'c', 5, 2), (b'b', 5, 1), (b'a', 5, 1)]);
        assert_eq!(queue.size, sizes.iter().map(|(_, nodes, hosts)| nodes + hosts).sum::<usize>());
        assert!(queue.next(image.view(), usize::MAX).is_some() && queue.is_empty() && queue.waiting.is_empty());
        assert_eq!(queue.size, 0);
    }

    #[test]
    fn more_than_can_be_left_waits_for_a_new_image() {
        let stage = Stage::new();
        let image = stage.image();
        let zone = image.view().zone(0).unwrap();
        let many = |n: usize| Followers::new(&zone, APEX, Hosts::from([HOST.into()]), (0..n as u32).collect());
        let mut queue = Queue::default();
        queue.push(many(NODES_MAX - 1));
        queue.push(many(NODES_MAX - 1));
        assert!(!queue.takes_image(), "they are the same");
        queue.push(many(NODES_MAX));
        assert!(queue.takes_image() && queue.is_empty());
        queue.push(many(1));
        assert!(queue.is_empty() && queue.next(image.view(), 1).is_none());
    }
}
