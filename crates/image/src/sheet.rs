//! Renders the units of nodes to be, aside: what needs no place in the image, and most of the work of laying it out. While
//! one sheet is placed another one can be written.

use crate::drafts::{Drafts, fold_into};
use crate::named::Named;
use crate::node;
use crate::render::{Render, Rr};
use crate::sets::{Set, Sets};
use crate::unit::Part;
use std::ops::Range;
use wire::hash::siphash;
use wire::name::{is_at_or_below, wire_len};
use wire::rtype::{self, Rtype};

/// Additional data is added for this many hosts of an RRset (attack: CVE-2025-11187 and its kin).
const TARGETS_MAX: usize = 13;
/// Octets of additional data in a unit: more would not be sent anyhow.
const ADDITIONAL_MAX: usize = 16_384;
/// Drafts whose memory is fetched together: the records of these while those before are rendered.
const TOGETHER: u32 = 32;

/// A unit on a sheet.
#[derive(Clone, Copy)]
pub(crate) struct Rendered {
    pub rtype: Rtype,
    /// Of its octets, if others may be like it: then they are stored once.
    pub hash: Option<u64>,
    /// In octets.
    pub len: usize,
}

/// Names and units of some drafts, in their order.
#[derive(Default)]
pub(crate) struct Sheet {
    /// For each draft its name, then its units.
    pub octets: Vec<u8>,
    /// Of all drafts.
    pub units: Vec<Rendered>,
    /// For each draft the length of its name and how many units it has.
    pub nodes: Vec<(u8, u16)>,
    /// For each piece how many records its drafts have.
    pub records: Vec<u64>,
}

/// Some names of a zone that stand on one sheet.
#[derive(Clone)]
pub(crate) struct Piece {
    pub zone: u32,
    pub drafts: Range<u32>,
}

pub(crate) struct Scribe<'a> {
    b: &'a Drafts,
    /// The RRsets of the name at hand, and of a host that it names.
    sets: Sets<'a>,
    host_sets: Sets<'a>,
    render: Render<'a>,
    /// Hosts of the RRset at hand.
    seen: Vec<&'a [u8]>,
    /// Of hosts to be fetched.
    hashes: Vec<u64>,
    /// The draft at hand.
    d: u32,
    /// Who named whom so far.
    pub named: Named,
}

impl<'a> Scribe<'a> {
    pub(crate) fn new(b: &'a Drafts) -> Scribe<'a> {
        let (sets, host_sets, render) = (Sets::default(), Sets::default(), Render::default());
        Scribe { b, sets, host_sets, render, seen: vec![], hashes: vec![], d: 0, named: Named::default() }
    }

    pub(crate) fn fill(&mut self, sheet: &mut Sheet, pieces: &[Piece]) {
        sheet.octets.clear();
        sheet.units.clear();
        sheet.nodes.clear();
        sheet.records.clear();
        for Piece { zone, drafts } in pieces.iter().cloned() {
            let mut records = 0;
            for first in drafts.clone().step_by(TOGETHER as usize) {
                let few = first..drafts.end.min(first + TOGETHER);
                few.clone().for_each(|d| self.b.fetch_records(d + TOGETHER));
                self.b.fetch_hosts(zone, few.clone(), &mut self.hashes);
                records += few.map(|d| self.node(sheet, zone, d)).sum::<usize>();
            }
            sheet.records.push(records as u64);
        }
    }

    /// Returns how many records it has.
    fn node(&mut self, sheet: &mut Sheet, zone: u32, d: u32) -> usize {
        let b = self.b;
        let (name, flags) = (b.name(d), b.drafts[d as usize].flags);
        self.d = d;
        let before = sheet.units.len();
        sheet.octets.extend_from_slice(name);
        let mut sets = std::mem::take(&mut self.sets);
        sets.fill(b.records_of(d));
        for set in sets.iter() {
            let is_referral = flags & node::CUT != 0 && set.rtype == rtype::NS;
            let at = sheet.octets.len();
            self.unit(&mut sheet.octets, zone, name, &set, is_referral);
            let unit = &sheet.octets[at..];
            // Delegations are like others, and so are the apexes of a hoster's zones.
            let is_shared = is_referral || flags & node::APEX != 0;
            let hash = is_shared.then(|| siphash::<1, 3>(b"units that match", unit));
            sheet.units.push(Rendered { rtype: set.rtype, hash, len: unit.len() });
        }
        sheet.nodes.push((name.len() as u8, (sheet.units.len() - before) as u16));
        let records = sets.records();
        self.sets = sets;
        records
    }

    fn unit(&mut self, out: &mut Vec<u8>, z: u32, owner: &'a [u8], set: &Set<'_, 'a>, is_referral: bool) {
        // With all that is additional it may be too much for a message; alone it was judged to fit.
        for add in [Add::All, Add::Needed, Add::Nothing] {
            self.records(owner, set);
            self.add_additional(z, owner, set, is_referral, add);
            if self.render.write(out).is_ok() {
                break;
            }
        }
    }

    fn records(&mut self, owner: &'a [u8], set: &Set<'_, 'a>) {
        self.render.begin(owner);
        set.records.iter().for_each(|&rr| self.render.record(rr));
        set.signatures.iter().for_each(|&rr| self.render.signature(rr));
    }

    /// Adds addresses of the hosts that the rdata names, from the same zone.
    fn add_additional(&mut self, z: u32, owner: &'a [u8], set: &Set<'_, 'a>, is_referral: bool, add: Add) {
        let b = self.b;
        let mut octets = 0;
        self.seen.clear();
        for rr in set.records {
            let Some(target) = target(set.rtype, rr.rdata).filter(|_| add != Add::Nothing) else { continue };
            let mut folded = [0; 255];
            let folded = fold_into(target, &mut folded);
            let is_needed = is_referral && is_at_or_below(folded, owner);
            let is_passed = !is_needed && (add == Add::Needed || self.seen.len() >= TARGETS_MAX);
            let host = b.host(z, folded);
            if add == Add::All {
                self.named.note(&b.zones[z as usize].apex, owner, self.d, folded, host.is_some());
            }
            if is_passed {
                continue;
            }
            let Some(host) = host.or_else(|| b.wildcard_host(z, folded)) else { continue };
            if host.is_glue && set.rtype != rtype::NS || self.seen.iter().any(|s| s.eq_ignore_ascii_case(target)) {
                continue;
            }
            self.seen.push(target);
            self.host_sets.fill(b.records_of_host(host).filter(|r| is_of_addresses(r)));
            for addresses in self.host_sets.iter().filter(|s| s.rtype == rtype::A || s.rtype == rtype::AAAA) {
                octets += addresses.records.len() * 28;
                if !is_needed && octets > ADDITIONAL_MAX {
                    break;
                }
                let signatures = if host.is_glue { &[] } else { addresses.signatures };
                let part = if is_needed { Part::Needed } else { Part::Optional };
                let r = &mut self.render;
                addresses.records.iter().for_each(|&rr| r.additional(part, target, rr));
                if !is_needed && b.is_signed(z) {
                    let signed = addresses.records.iter().chain(signatures);
                    signed.for_each(|&rr| r.additional(Part::OptionalSigned, target, rr));
                }
            }
        }
    }
}

/// How much is added to the records of a unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Add {
    All,
    /// The glue without which a referral leads nowhere (RFC 9471).
    Needed,
    Nothing,
}

/// True for addresses and for the signatures over them.
fn is_of_addresses(rr: &Rr<'_>) -> bool {
    match rr.rtype {
        rtype::A | rtype::AAAA => true,
        rtype::RRSIG => matches!(rr.rdata.first_chunk(), Some(&[0, 1 | 28])),
        _ => false,
    }
}

/// The host that a record's rdata names. "." is none; for SVCB it would be the owner (RFC 9460 section 2.5), whose
/// addresses nobody adds.
pub(crate) fn target(rtype: Rtype, rdata: &[u8]) -> Option<&[u8]> {
    let at = match rtype {
        rtype::NS => 0,
        rtype::MX | rtype::SVCB | rtype::HTTPS => 2,
        rtype::SRV => 6,
        _ => return None,
    };
    let name = rdata.get(at..)?;
    let len = wire_len(name)?;
    (len > 1).then(|| &name[..len])
}
