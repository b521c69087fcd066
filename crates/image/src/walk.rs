//! A zone's nodes in passages: whoever has gone through all of them can go through some of them later, and sees which of them
//! have changed since.
//!
//! ```text
//! nodes that stand together   a . . b . . . c . .     as the zone was laid out; they never move
//! what an overlay holds         x     y         z     each has its place in canonical order, and came behind all that was there
//! passages                    [a x . ) [b y . . ) [c . . z)
//! ```
//! A passage begins at a node that stands together with others, and ends where the next begins. It is as it was if nothing that an
//! overlay holds of it stands behind the end that the image's octets had then: for a node that changes, or goes, gets a new one there.

use crate::format::{ALIGN, Damaged};
use crate::node::Node;
use crate::zone::{Nodes, Zone};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use wire::name::NAME_MAX;

pub struct Walk<'a> {
    zone: Zone<'a>,
    first: u32,
    end: u32,
    /// What an overlay holds of the zone, gone ones too, in canonical order.
    changed: Vec<Node<'a>>,
}

impl<'a> Walk<'a> {
    pub fn of(zone: Zone<'a>) -> Result<Walk<'a>, Damaged> {
        let first = zone.first()?;
        let end = first.reference().checked_add(first.extent()?).ok_or(Damaged)?;
        Ok(Walk { zone, first: first.reference(), end, changed: zone.changed()? })
    }

    /// Where the first passage begins. A zone that was laid out anew begins elsewhere.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Where a passage begins with this node, if one can.
    pub fn place(&self, node: &Node<'_>) -> Option<u32> {
        Some(node.reference()).filter(|place| (self.first..self.end).contains(place))
    }

    /// The nodes from this place to another, or to the end.
    pub fn nodes(&self, from: u32, to: Option<u32>) -> Result<Nodes<'a>, Damaged> {
        let together = self.zone.together(from, to.unwrap_or(self.end) as usize);
        Ok(Nodes::of(together, self.changed_of(from, to)?.to_vec()))
    }

    /// Whether they are others than they were when the image's octets ended there.
    pub fn has_changed(&self, from: u32, to: Option<u32>, since: u64) -> Result<bool, Damaged> {
        Ok(self.changed_of(from, to)?.iter().any(|node| is_since(node, since)))
    }

    /// Names that an overlay holds which came after the image's octets had ended there, gone ones too: all that are others than they were, and some that
    /// are not.
    pub fn changed_since(&self, since: u64) -> Result<BTreeSet<Box<[u8]>>, Damaged> {
        let named = |node: &Node<'_>| self.zone.name_of(node, &mut [0; NAME_MAX]).map(Box::from);
        self.changed.iter().filter(|node| is_since(node, since)).map(named).collect()
    }

    fn changed_of(&self, from: u32, to: Option<u32>) -> Result<&[Node<'a>], Damaged> {
        let end = to.map_or(Ok(self.changed.len()), |to| self.before(to))?;
        self.changed.get(self.before(from)?..end).ok_or(Damaged)
    }

    /// How many changed nodes stand before this place.
    fn before(&self, place: u32) -> Result<usize, Damaged> {
        let node = Node::at(self.zone.view(), place)?;
        Ok(self.changed.partition_point(|changed| changed.order(&node) == Ok(Ordering::Less)))
    }
}

fn is_since(node: &Node<'_>, end: u64) -> bool {
    u64::from(node.reference()) * ALIGN as u64 >= end
}
