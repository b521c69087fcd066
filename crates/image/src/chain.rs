//! The tables by which a zone denies: who owns NSEC, in canonical order, and the hashes of who owns NSEC3.
//!
//! A zone of which only some names have changed has tables of those. The ones that it had stand under them, and of these the
//! places are left out whose names have changed:
//!
//! ```text
//! more      as in `zone`: flags, parameters, its tables those of changed names
//! under     behind the salt, at a multiple of 4: reference of the more with the other tables u32 |
//!           places of NSEC left out: reference u32, how many u32 | the same of NSEC3
//! left out  (first u32, behind the last u32)... in order, no two next to each other
//! ```
//! So a search costs two steps by halves, however much has changed.

use crate::edit::Gathered;
use crate::format::{ALIGN, Damaged, u32_at, u64_at};
use crate::node::{ABOVE, GONE, Node};
use crate::view::View;
use crate::zone::{MORE, NSEC, NSEC3, OVER, Zone, order_key};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use wire::name::{NAME_MAX, canonical_cmp};
use wire::rtype;

/// Octets of what says which tables stand under others.
pub(crate) const UNDER: usize = 20;

/// An NSEC3 owner: its hash, and a reference.
pub(crate) type Hashed = ([u8; 20], u32);

/// Where a table begins, in octets, and how many owners it holds.
#[derive(Clone, Copy)]
struct Table {
    at: usize,
    owners: usize,
}

impl Table {
    fn at(more: &[u8], offset: usize) -> Result<Table, Damaged> {
        Ok(Table { at: u32_at(more, offset)? as usize * ALIGN, owners: u32_at(more, offset + 4)? as usize })
    }

    fn nsec(more: &[u8]) -> Result<Table, Damaged> {
        Table::at(more, 12)
    }

    fn nsec3(more: &[u8]) -> Result<Table, Damaged> {
        Table::at(more, 20)
    }

    const NONE: Table = Table { at: 0, owners: 0 };
}

/// Places of a table that do not count any more: first, and behind the last.
#[derive(Clone, Copy)]
struct LeftOut<'a>(&'a [[u8; 8]]);

impl<'a> LeftOut<'a> {
    fn at(view: View<'a>, under: &[u8], offset: usize) -> Result<LeftOut<'a>, Damaged> {
        let (at, n) = (u32_at(under, offset)? as usize * ALIGN, u32_at(under, offset + 4)? as usize);
        view.octets(at, 8 * n).map(|octets| LeftOut(octets.as_chunks().0))
    }

    fn ranges(self) -> impl Iterator<Item = (u32, u32)> {
        let word = |range: &[u8; 8], at| u32_at(range, at).unwrap_or(0);
        self.0.iter().map(move |range| (word(range, 0), word(range, 4)))
    }

    /// The last place before `end` that counts.
    fn last_before(&self, end: usize) -> Option<usize> {
        let last = end.checked_sub(1)?;
        let word = |range: &[u8; 8], i| u32_at(range, i).map_or(0, |word| word as usize);
        let behind = self.0.partition_point(|range| word(range, 0) <= last);
        match behind.checked_sub(1).and_then(|i| self.0.get(i)) {
            Some(range) if last < word(range, 4) => word(range, 0).checked_sub(1),
            _ => Some(last),
        }
    }
}

/// The tables under those of changed names.
struct Under<'a> {
    more: &'a [u8],
    nsec: LeftOut<'a>,
    nsec3: LeftOut<'a>,
}

impl<'a> Zone<'a> {
    fn under(&self, more: &[u8]) -> Result<Option<Under<'a>>, Damaged> {
        if u32_at(more, 0)? & OVER == 0 {
            return Ok(None);
        }
        let under = self.view().octets(self.under_at()?, UNDER)?;
        let more = self.view().octets(u32_at(under, 0)? as usize * ALIGN, MORE)?;
        let (nsec, nsec3) = (LeftOut::at(self.view(), under, 4)?, LeftOut::at(self.view(), under, 12)?);
        Ok(Some(Under { more, nsec, nsec3 }))
    }

    /// The NSEC owner that is the name itself or the last one before it.
    pub fn nsec_at_or_before(&self, folded: &[u8]) -> Result<Node<'a>, Damaged> {
        self.last_nsec(folded, |order| order != Ordering::Greater)?.ok_or(Damaged)
    }

    /// The last NSEC owner before a name.
    pub fn nsec_before(&self, folded: &[u8]) -> Result<Option<Node<'a>>, Damaged> {
        self.last_nsec(folded, |order| order == Ordering::Less)
    }

    #[inline(always)]
    fn last_nsec(&self, folded: &[u8], counts: impl Fn(Ordering) -> bool + Copy) -> Result<Option<Node<'a>>, Damaged> {
        let more = self.more()?.ok_or(Damaged)?;
        let table = Table::nsec(more)?;
        let own = self.nsecs_to(table, folded, counts)?.checked_sub(1);
        let own = own.map(|place| self.nsec_owner(table, place)).transpose()?;
        match self.under(more)? {
            None => Ok(own),
            Some(under) => self.last_of_both(own, &under, folded, counts),
        }
    }

    #[cold]
    fn last_of_both(
        &self,
        own: Option<Node<'a>>,
        under: &Under<'a>,
        folded: &[u8],
        counts: impl Fn(Ordering) -> bool + Copy,
    ) -> Result<Option<Node<'a>>, Damaged> {
        let table = Table::nsec(under.more)?;
        let place = under.nsec.last_before(self.nsecs_to(table, folded, counts)?);
        let other = place.map(|place| self.nsec_owner(table, place)).transpose()?;
        let (Some(own), Some(other)) = (own, other) else { return Ok(own.or(other)) };
        Ok(Some(if own.order(&other)? == Ordering::Less { other } else { own }))
    }

    fn nsec_owner(&self, table: Table, place: usize) -> Result<Node<'a>, Damaged> {
        self.view().node(self.view().u32_at(table.at + 8 * table.owners + 4 * place)?)
    }

    /// How many owners of a table come before the name, or are it if that `counts`.
    #[inline(always)]
    fn nsecs_to(&self, table: Table, folded: &[u8], counts: impl Fn(Ordering) -> bool) -> Result<usize, Damaged> {
        match self.view().octets(table.at, 8 * table.owners) {
            Ok(keys) => self.nsecs_by_keys(table, folded, counts, |i| u64_at(keys, 8 * i)),
            // Most of the table may be intact.
            Err(Damaged) => self.nsecs_by_keys(table, folded, counts, |i| self.view().u64_at(table.at + 8 * i)),
        }
    }

    #[inline(always)]
    fn nsecs_by_keys(
        &self,
        table: Table,
        folded: &[u8],
        counts: impl Fn(Ordering) -> bool,
        key_of: impl Fn(usize) -> Result<u64, Damaged>,
    ) -> Result<usize, Damaged> {
        let key = order_key(folded, self.apex()?.apex_name()?);
        let (mut low, mut high) = (0, table.owners);
        while low < high {
            let middle = low.midpoint(high);
            let is_counted = match key_of(middle)?.cmp(&key) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => {
                    let mut name = [0; NAME_MAX];
                    counts(canonical_cmp(self.name_of(&self.nsec_owner(table, middle)?, &mut name)?, folded))
                }
            };
            if is_counted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn nsec3s(&self, table: Table) -> Result<&'a [[u8; 24]], Damaged> {
        self.view().octets(table.at, 24 * table.owners).map(|octets| octets.as_chunks().0)
    }

    /// The NSEC3 whose owner's hash is `hash` (true), or the one before it, which covers it (false).
    pub fn nsec3_at_or_before(&self, hash: &[u8; 20]) -> Result<(Node<'a>, bool), Damaged> {
        let more = self.more()?.ok_or(Damaged)?;
        let table = self.nsec3s(Table::nsec3(more)?)?;
        let to = |table: &[[u8; 24]]| table.partition_point(|e| e[..20] <= hash[..]);
        let own = |end: usize| table.get(end.checked_sub(1)?);
        // Before the first there is the last: the chain is a ring.
        let entry = match self.under(more)? {
            None => own(to(table)).or(own(table.len())),
            Some(under) => {
                let others = self.nsec3s(Table::nsec3(under.more)?)?;
                let other = |end: usize| others.get(under.nsec3.last_before(end)?);
                own(to(table)).max(other(to(others))).or(own(table.len()).max(other(others.len())))
            }
        };
        let entry = entry.ok_or(Damaged)?;
        let node = self.view().node(u32_at(entry, 20)?)?;
        Ok((node, entry[..20] == hash[..]))
    }

    /// The node of an NSEC3 owner that the zone had when its tables were made: no index leads to it.
    pub(crate) fn hashed_node(&self, folded: &[u8]) -> Result<Option<Node<'a>>, Damaged> {
        let Some(more) = self.more()? else { return Ok(None) };
        let under = self.under(more)?;
        let table = self.nsec3s(Table::nsec3(under.map_or(more, |under| under.more))?)?;
        let Some(place) = self.nsec3_place(table, folded)? else { return Ok(None) };
        self.view().node(u32_at(&table[place], 20)?).map(Some)
    }

    /// All of a table: sort keys and references.
    fn nsecs(&self, table: Table) -> Result<Vec<(u64, u32)>, Damaged> {
        let octets = self.view().octets(table.at, 12 * table.owners)?;
        (0..table.owners).map(|i| Ok((u64_at(octets, 8 * i)?, u32_at(octets, 8 * table.owners + 4 * i)?))).collect()
    }

    /// The place of an owner in a table.
    fn nsec3_place(&self, table: &[[u8; 24]], folded: &[u8]) -> Result<Option<usize>, Damaged> {
        let Some(hash) = base32hex(folded) else { return Ok(None) };
        let mut room = [0; NAME_MAX];
        for place in places_of(table, &hash) {
            let node = self.view().node(u32_at(&table[place], 20)?)?;
            if self.name_of(&node, &mut room)? == folded {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn nsec_place(&self, table: Table, folded: &[u8]) -> Result<Option<usize>, Damaged> {
        let Some(place) = self.nsecs_to(table, folded, |o| o != Ordering::Greater)?.checked_sub(1) else {
            return Ok(None);
        };
        let mut room = [0; NAME_MAX];
        let is_it = self.name_of(&self.nsec_owner(table, place)?, &mut room)? == folded;
        Ok(is_it.then_some(place))
    }
}

/// What the tables of a zone are to be once some of its names have changed.
pub(crate) struct Tables {
    /// The more of the tables that stay under these.
    pub under: u32,
    /// Sort keys and references.
    pub nsec: Vec<(u64, u32)>,
    pub nsec3: Vec<Hashed>,
    pub nsec_left_out: Vec<(u32, u32)>,
    pub nsec3_left_out: Vec<(u32, u32)>,
    /// With which of them the zone denies.
    pub marks: u32,
}

impl Tables {
    /// Of the zone `old` after an edit of which these nodes have been `laid`, to stand where `moved` says. What had changed before is taken over as it
    /// stands: only the names of the edit are looked up. None: two owners of NSEC3 have one hash, and which of them comes first is not known.
    pub(crate) fn of<'a>(
        old: &Zone<'a>,
        edit: &Gathered,
        laid: &Laid<'a>,
        moved: impl Fn(u32) -> u32,
    ) -> Result<Option<Tables>, Damaged> {
        let more = old.more()?.ok_or(Damaged)?;
        let before = old.under(more)?;
        let (base, under) = match &before {
            Some(under) => (under.more, old.view().u32_at(old.under_at()?)?),
            None => (more, old.more_at()?),
        };
        let (base_nsecs, base_nsec3s) = (Table::nsec(base)?, old.nsec3s(Table::nsec3(base)?)?);
        let own =
            |table: fn(&[u8]) -> Result<Table, Damaged>| if before.is_some() { table(more) } else { Ok(Table::NONE) };
        let (own_nsecs, own_nsec3s) = (own(Table::nsec)?, old.nsec3s(own(Table::nsec3)?)?);
        let (param, with_nsec) = (nsec3_param(old)?, old.is(NSEC)?);
        let apex = old.apex()?.apex_name()?;
        let (mut nsecs, mut nsec3s) = (Change::default(), Change::default());
        let mut names: Vec<&[u8]> = edit.kept.iter().map(|name| &**name).collect();
        names.sort_unstable_by(|a, b| canonical_cmp(a, b));
        for name in names {
            nsecs.left_out.extend(old.nsec_place(base_nsecs, name)?);
            nsecs.gone.extend(old.nsec_place(own_nsecs, name)?);
            nsec3s.left_out.extend(old.nsec3_place(base_nsec3s, name)?);
            nsec3s.gone.extend(old.nsec3_place(own_nsec3s, name)?);
            let Some(node) = laid.get(name).filter(|node| !node.is(GONE | ABOVE)) else { continue };
            let reference = moved(node.reference());
            if with_nsec && node.is_name() && node.rrset(rtype::NSEC)?.is_some() {
                let place = old.nsecs_to(own_nsecs, name, |order| order == Ordering::Less)?;
                nsecs.come.push((place, (order_key(name, apex), reference)));
            }
            if let Some(hash) = base32hex(name)
                && is_of_chain(node, name, param.as_deref())?
            {
                let place = own_nsec3s.partition_point(|e| e[..20] < hash[..]);
                nsec3s.come.push((place, (hash, reference)));
            }
        }
        nsec3s.come.sort_unstable();
        let [nsec_left_out, nsec3_left_out] = match &before {
            Some(before) => [nsecs.left_out_with(before.nsec), nsec3s.left_out_with(before.nsec3)],
            None => [nsecs.left_out_with(LeftOut(&[])), nsec3s.left_out_with(LeftOut(&[]))],
        };
        let counts = |place: usize| {
            let behind = nsec3_left_out.partition_point(|&(first, _)| first as usize <= place);
            behind.checked_sub(1).is_none_or(|last| nsec3_left_out[last].1 as usize <= place)
        };
        let is_twice = nsec3s.come.iter().any(|(_, (hash, _))| places_of(base_nsec3s, hash).any(counts));
        let own_nsec3s: Vec<Hashed> = own_nsec3s.iter().map(hashed).collect::<Result<_, _>>()?;
        let (nsec, nsec3) = (nsecs.woven_into(&old.nsecs(own_nsecs)?), nsec3s.woven_into(&own_nsec3s));
        if is_twice || nsec3.windows(2).any(|two| two[0].0 == two[1].0) {
            return Ok(None);
        }
        let left_out: usize = nsec3_left_out.iter().map(|(first, end)| (end - first) as usize).sum();
        let has_nsec3 = base_nsec3s.len() > left_out || !nsec3.is_empty();
        let marks = if has_nsec3 { NSEC3 } else { 0 };
        Ok(Some(Tables { under, nsec, nsec3, nsec_left_out, nsec3_left_out, marks }))
    }
}

/// The nodes of an edit, as they were built.
pub(crate) type Laid<'a> = BTreeMap<Box<[u8]>, Node<'a>>;

/// What an edit makes different in a table of changed names, and in the one under it.
struct Change<T> {
    /// Places whose owners have changed, in the one under it.
    left_out: Vec<usize>,
    /// The same in the table.
    gone: Vec<usize>,
    /// What comes, and before which place of the table; in order.
    come: Vec<(usize, T)>,
}

impl<T> Default for Change<T> {
    fn default() -> Change<T> {
        Change { left_out: vec![], gone: vec![], come: vec![] }
    }
}

impl<T: Copy> Change<T> {
    /// What is left out from now on, with what was before: first, and behind the last.
    fn left_out_with(&self, before: LeftOut<'_>) -> Vec<(u32, u32)> {
        let more = self.left_out.iter().map(|&place| (place as u32, place as u32 + 1));
        let mut all: Vec<(u32, u32)> = before.ranges().chain(more).collect();
        all.sort_unstable();
        all.dedup_by(|next, last| {
            let goes_on = next.0 <= last.1;
            last.1 = if goes_on { last.1.max(next.1) } else { last.1 };
            goes_on
        });
        all
    }

    fn woven_into(mut self, table: &[T]) -> Vec<T> {
        self.gone.sort_unstable();
        let mut woven = Vec::with_capacity(table.len() + self.come.len());
        let (mut gone, mut come) = (self.gone.into_iter().peekable(), self.come.into_iter().peekable());
        for place in 0..=table.len() {
            while let Some((_, item)) = come.next_if(|(before, _)| *before == place) {
                woven.push(item);
            }
            let stays = gone.next_if_eq(&place).is_none();
            woven.extend(table.get(place).filter(|_| stays));
        }
        woven
    }
}

/// Where a hash stands in a table.
fn places_of(table: &[[u8; 24]], hash: &[u8; 20]) -> impl Iterator<Item = usize> {
    let first = table.partition_point(|e| e[..20] < hash[..]);
    (first..table.len()).take_while(move |&place| table[place][..20] == hash[..])
}

fn hashed(entry: &[u8; 24]) -> Result<Hashed, Damaged> {
    Ok((*entry.first_chunk().ok_or(Damaged)?, u32_at(entry, 20)?))
}

/// The parameters of the only chain of NSEC3 that the zone announces.
fn nsec3_param(zone: &Zone<'_>) -> Result<Option<Vec<u8>>, Damaged> {
    let (apex, mut param) = (zone.apex()?, None);
    if let Some(unit) = apex.rrset(rtype::NSEC3PARAM)? {
        unit.for_each(apex.apex_name()?, |_, rdata| param = Some(rdata.to_vec()))?;
    }
    Ok(param.filter(|param| param.len() >= 5))
}

/// True if the node has an NSEC3 of the chain with these parameters; flags are not compared.
fn is_of_chain(node: &Node<'_>, owner: &[u8], param: Option<&[u8]>) -> Result<bool, Damaged> {
    let (Some(unit), Some(param)) = (node.rrset(rtype::NSEC3)?, param) else { return Ok(false) };
    let mut is_one = false;
    unit.for_each(owner, |_, rdata| {
        let is_long = rdata.len() > param.len();
        is_one |= is_long && rdata[0] == param[0] && rdata[2..param.len()] == param[2..];
    })?;
    Ok(is_one)
}

/// The hash that an NSEC3's first label spells (RFC 4648 section 7).
pub(crate) fn base32hex(name: &[u8]) -> Option<[u8; 20]> {
    if name[0] != 32 {
        return None;
    }
    let mut out = [0; 20];
    let (mut bits, mut n, mut at) = (0u32, 0, 0);
    for &c in &name[1..33] {
        let value = match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'v' => c - b'a' + 10,
            _ => return None,
        };
        bits = bits << 5 | u32::from(value);
        n += 5;
        if n >= 8 {
            n -= 8;
            out[at] = (bits >> n) as u8;
            at += 1;
        }
    }
    Some(out)
}
