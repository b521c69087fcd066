//! The hosts that NS, MX and SRV name within the zone: whether each has an address, and is no alias.
//!
//! Hosts below the delegation that names them stand right behind it, so they are looked for in passing. The others are kept
//! until there are `KEPT_MAX` of them, then each once; when that does not help, or the zone ends, they are looked up, in
//! canonical order, so that the next one stands near the last.

use crate::fault::Fault;
use crate::name::ends_between;
use crate::report::{Report, text};
use image::{Records, Rr, Sorted};
use std::cmp::Ordering;
use wire::name::{canonical_cmp, is_at_or_below, wire_len};
use wire::rtype::{self, Rtype};

/// Hosts to be looked up that are kept: 48 octets each.
const KEPT_MAX: usize = 1 << 20;

/// Of a host: what names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Ns,
    Mx,
    Srv,
}

impl Use {
    fn rtype(self) -> Rtype {
        match self {
            Use::Ns => rtype::NS,
            Use::Mx => rtype::MX,
            Use::Srv => rtype::SRV,
        }
    }

    fn at_alias(self) -> Fault {
        match self {
            Use::Ns => Fault::NsAtAlias,
            Use::Mx => Fault::MxAtAlias,
            Use::Srv => Fault::SrvAtAlias,
        }
    }

    fn without_address(self) -> Fault {
        match self {
            Use::Ns => Fault::NsWithoutAddress,
            Use::Mx => Fault::MxWithoutAddress,
            Use::Srv => Fault::SrvWithoutAddress,
        }
    }
}

/// A host, and who names it.
struct Wanted<'a> {
    key: u64,
    host: &'a [u8],
    by: Use,
    /// Of the host's name as it is written.
    hash: u16,
    /// Which of all that were wanted it is.
    nth: u32,
    owner: &'a [u8],
}

impl Wanted<'_> {
    /// In canonical order, those of one host together, the first that named it first.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = || match self.host == other.host {
            true => Ordering::Equal,
            false => canonical_cmp(self.host, other.host),
        };
        self.key.cmp(&other.key).then_with(by_name).then((self.by, self.nth).cmp(&(other.by, other.nth)))
    }

    fn is_of_same_host(&self, other: &Self) -> bool {
        self.key == other.key && self.host.eq_ignore_ascii_case(other.host)
    }
}

#[derive(Default)]
pub(crate) struct Hosts<'a> {
    /// Of the delegation at hand, hosts below it whose addresses were not met yet.
    glue: Vec<&'a [u8]>,
    wanted: Vec<Wanted<'a>>,
    count: u32,
}

impl<'a> Hosts<'a> {
    /// Takes the hosts of an RRset of NS. `cut`: it is a delegation's.
    pub(crate) fn want_ns(&mut self, zone: &Sorted<'a>, owner: &'a [u8], records: &[Rr<'a>], cut: bool) {
        for rr in records {
            let Some(host) = host(rr.rdata).filter(|h| is_at_or_below(h, zone.apex())) else { continue };
            if cut && is_at_or_below(host, owner) {
                self.glue.push(host);
            } else {
                self.want(zone, owner, Use::Ns, host);
            }
        }
    }

    pub(crate) fn want_mx(&mut self, zone: &Sorted<'a>, owner: &'a [u8], records: &[Rr<'a>]) {
        self.want_at(zone, owner, Use::Mx, records, 2);
    }

    pub(crate) fn want_srv(&mut self, zone: &Sorted<'a>, owner: &'a [u8], records: &[Rr<'a>]) {
        self.want_at(zone, owner, Use::Srv, records, 6);
    }

    fn want_at(&mut self, zone: &Sorted<'a>, owner: &'a [u8], by: Use, records: &[Rr<'a>], at: usize) {
        let hosts = records.iter().filter_map(|rr| host(rr.rdata.get(at..)?));
        for host in hosts.filter(|h| is_at_or_below(h, zone.apex())) {
            self.want(zone, owner, by, host);
        }
    }

    fn want(&mut self, zone: &Sorted<'a>, owner: &'a [u8], by: Use, host: &'a [u8]) {
        let hash = wire::hash::name_hash(0, host) as u16;
        self.wanted.push(Wanted { key: zone.order_key(host), host, by, hash, nth: self.count, owner });
        self.count = self.count.saturating_add(1);
    }

    /// A name at or below the delegation at hand has addresses.
    pub(crate) fn on_address(&mut self, name: &[u8]) {
        if !self.glue.is_empty() {
            self.glue.retain(|host| !host.eq_ignore_ascii_case(name));
        }
    }

    /// The names below a delegation have been seen.
    pub(crate) fn leave_cut(&mut self, cut: &[u8], report: &mut Report) {
        for host in self.glue.drain(..) {
            report.add(Fault::NoGlue, cut, Some(rtype::NS), || text(host));
        }
    }

    /// Keeps what is wanted within its bound.
    pub(crate) fn make_room(&mut self, zone: &Sorted<'a>, report: &mut Report) {
        if self.wanted.len() < KEPT_MAX {
            return;
        }
        self.once_each();
        // Where little was wanted twice, the next time would come soon.
        if self.wanted.len() >= KEPT_MAX / 2 {
            self.look_up(zone, report);
        }
    }

    /// In canonical order. Most are wanted many times: these go by numbers alone, before any name is read to order the others.
    fn once_each(&mut self) {
        self.wanted.sort_unstable_by_key(|w| (w.key, w.hash, w.by, w.nth));
        let is_again =
            |later: &mut Wanted<'_>, first: &mut Wanted<'_>| later.by == first.by && later.is_of_same_host(first);
        self.wanted.dedup_by(|later, first| later.hash == first.hash && is_again(later, first));
        for alike in self.wanted.chunk_by_mut(|a, b| a.key == b.key) {
            alike.sort_unstable_by(Wanted::cmp);
        }
        self.wanted.dedup_by(is_again);
    }

    /// Looks all hosts up that are kept.
    pub(crate) fn look_up(&mut self, zone: &Sorted<'a>, report: &mut Report) {
        self.once_each();
        let (mut onward, mut folded) = (zone.onward(), Vec::new());
        for same in self.wanted.chunk_by(Wanted::is_of_same_host) {
            let Some(Wanted { key, host, .. }) = same.first() else { continue };
            folded.clear();
            folded.extend_from_slice(host);
            wire::name::fold(&mut folded);
            let found = match onward.records_at(*key, &folded).map(has_address) {
                Some(found) if found != Found::Nothing => found,
                _ => find(zone, &folded),
            };
            same.iter().for_each(|wanted| complain(wanted, found, report));
        }
        self.wanted.clear();
    }
}

fn complain(wanted: &Wanted<'_>, found: Found, report: &mut Report) {
    let by = wanted.by;
    let fault = match found {
        Found::Address => return,
        Found::Alias => by.at_alias(),
        Found::BelowCut if by == Use::Ns => Fault::NoSiblingGlue,
        Found::BelowCut => return,
        Found::Nothing => by.without_address(),
    };
    report.add(fault, wanted.owner, Some(by.rtype()), || text(wanted.host));
}

/// The host that stands here; "." is none.
fn host(rdata: &[u8]) -> Option<&[u8]> {
    let len = wire_len(rdata)?;
    if len > 1 { rdata.get(..len) } else { None }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Address,
    Alias,
    /// No address, and another zone has the say.
    BelowCut,
    Nothing,
}

fn find(zone: &Sorted<'_>, host: &[u8]) -> Found {
    // At the host itself, then above it; the nearest name that is there has the wildcard for it.
    let mut wildcard = None;
    for end in std::iter::once(host).chain(ends_between(host, zone.apex())).chain([zone.apex()]) {
        let has = |rtype| zone.records_at(end).is_some_and(|mut r| r.any(|r| r.rtype == rtype));
        if end.len() > zone.apex().len() && has(rtype::NS) {
            return Found::BelowCut;
        }
        if end.len() < host.len() && has(rtype::DNAME) {
            return Found::Alias;
        }
        let is_there = || zone.at_or_after(end).is_some_and(|(name, _)| is_at_or_below(name, end));
        if wildcard.is_none() && is_there() {
            wildcard = Some(end);
        }
    }
    match wildcard {
        Some(end) if end.len() < host.len() => look(zone, &[b"\x01*", end].concat()),
        _ => Found::Nothing,
    }
}

fn look(zone: &Sorted<'_>, name: &[u8]) -> Found {
    zone.records_at(name).map_or(Found::Nothing, has_address)
}

fn has_address(records: Records<'_>) -> Found {
    for rr in records {
        match rr.rtype {
            rtype::A | rtype::AAAA => return Found::Address,
            rtype::CNAME => return Found::Alias,
            _ => {}
        }
    }
    Found::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_looked_up_once_for_each_use_by_the_first_that_named_them_whatever_their_hashes() {
        let names = ["\x01a", "\x01A", "\x01b", "\x02ab", "\x02AB", "\x02Ab", "\x03ns1", "\x03ns2"];
        let names = names.map(|label| [label.as_bytes(), b"\x01z\0"].concat());
        for hashes in [1u16, 2, 3, u16::MAX] {
            let mut state = u64::from(hashes);
            let mut pick = |n: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % n
            };
            let wanted = |nth: u32| {
                let (i, by) = (pick(names.len()), [Use::Ns, Use::Mx, Use::Srv][pick(3)]);
                // All share one key: only the names tell them apart.
                Wanted { key: 7, host: &names[i], by, hash: i as u16 % hashes, nth, owner: b"\0" }
            };
            let all: Vec<Wanted<'_>> = (0..200).map(wanted).collect();
            let mut expect: Vec<&Wanted<'_>> = all.iter().collect();
            expect.sort_by(|a, b| a.cmp(b));
            let mut first: Vec<(Vec<u8>, Use, u32)> = vec![];
            for w in expect {
                let name = w.host.to_ascii_lowercase();
                match first.iter_mut().find(|f| (&f.0, f.1) == (&name, w.by)) {
                    Some(f) => f.2 = f.2.min(w.nth),
                    None => first.push((name, w.by, w.nth)),
                }
            }
            let mut hosts = Hosts { wanted: all, ..Hosts::default() };
            hosts.once_each();
            let found: Vec<_> = hosts.wanted.iter().map(|w| (w.host.to_ascii_lowercase(), w.by, w.nth)).collect();
            assert_eq!(found, first);
        }
    }
}
