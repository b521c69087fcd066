//! The hosts that NS, MX and SRV name within the zone: whether each has an address, and is no alias.
//!
//! Hosts below the delegation that names them stand right behind it, so they are looked for in passing. The others are kept,
//! each once, until there are `KEPT_MAX` of them or the zone ends, and then looked up.

use crate::fault::Fault;
use crate::name::ends_between;
use crate::report::{Report, text};
use image::{Rr, Sorted};
use std::collections::HashMap;
use wire::name::{canonical_cmp, is_at_or_below, wire_len};
use wire::rtype::{self, Rtype};

/// Hosts to be looked up that are kept: some 100 octets each.
const KEPT_MAX: usize = 1 << 20;

/// Of a host: what names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Ns,
    Mx,
    Srv,
}

const USES: [Use; 3] = [Use::Ns, Use::Mx, Use::Srv];

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

/// The first owner that names the host, by use.
type Users<'a> = [Option<&'a [u8]>; 3];

#[derive(Default)]
pub(crate) struct Hosts<'a> {
    /// Of the delegation at hand, hosts below it whose addresses were not met yet.
    glue: Vec<&'a [u8]>,
    wanted: HashMap<Box<[u8]>, Users<'a>>,
}

impl<'a> Hosts<'a> {
    /// Takes the hosts of an RRset of NS. `cut`: it is a delegation's.
    pub(crate) fn want_ns(&mut self, zone: &Sorted<'a>, owner: &'a [u8], records: &[Rr<'a>], cut: bool) {
        for rr in records {
            let Some(host) = host(rr.rdata).filter(|h| is_at_or_below(h, zone.apex())) else { continue };
            if cut && is_at_or_below(host, owner) {
                self.glue.push(host);
            } else {
                self.want(owner, Use::Ns, host);
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
            self.want(owner, by, host);
        }
    }

    fn want(&mut self, owner: &'a [u8], by: Use, host: &[u8]) {
        let mut folded = [0; wire::name::NAME_MAX];
        let Some(folded) = folded.get_mut(..host.len()) else { return };
        folded.copy_from_slice(host);
        wire::name::fold(folded);
        match self.wanted.get_mut(&*folded) {
            Some(users) => _ = users[by as usize].get_or_insert(owner),
            None => {
                let mut users = Users::default();
                users[by as usize] = Some(owner);
                self.wanted.insert((&*folded).into(), users);
            }
        }
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

    pub(crate) fn is_full(&self) -> bool {
        self.wanted.len() >= KEPT_MAX
    }

    /// Looks all hosts up that are kept.
    pub(crate) fn look_up(&mut self, zone: &Sorted<'a>, report: &mut Report) {
        let mut wanted: Vec<_> = self.wanted.drain().collect();
        wanted.sort_unstable_by(|a, b| canonical_cmp(&a.0, &b.0));
        for (host, users) in wanted {
            let found = find(zone, &host);
            for by in USES {
                let Some(owner) = users[by as usize] else { continue };
                let fault = match found {
                    Found::Address => continue,
                    Found::Alias => by.at_alias(),
                    Found::BelowCut if by == Use::Ns => Fault::NoSiblingGlue,
                    Found::BelowCut => continue,
                    Found::Nothing => by.without_address(),
                };
                report.add(fault, owner, Some(by.rtype()), || text(&host));
            }
        }
    }
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
    match look(zone, host) {
        Found::Nothing => {}
        found => return found,
    }
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
    let Some(records) = zone.records_at(name) else { return Found::Nothing };
    for rr in records {
        match rr.rtype {
            rtype::A | rtype::AAAA => return Found::Address,
            rtype::CNAME => return Found::Alias,
            _ => {}
        }
    }
    Found::Nothing
}
