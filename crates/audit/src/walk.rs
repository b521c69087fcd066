//! The walk over a zone's names in canonical order: what each is, and what that makes of its records.

use crate::denial::Denial;
use crate::digest::Digest;
use crate::fault::Fault;
use crate::hosts::Hosts;
use crate::name::Sets;
use crate::nsec3::too_many_iterations;
use crate::report::Report;
use crate::signatures::Signatures;
use image::{Records, Rr, Sorted};
use wire::name::is_at_or_below;
use wire::rtype;

/// What the verdicts depend on besides the zone.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Seconds since 1970.
    pub now_s: u64,
    /// Signatures that expire within this time are warned of.
    pub soon_s: u32,
    pub records_per_type_max: usize,
    pub types_per_name_max: usize,
    /// Only some of the zone's names are there: nothing is said of what leads from one to the next (see `links`).
    pub is_part: bool,
}

impl Rules {
    pub fn at(now_s: u64) -> Rules {
        // The limits are those of BIND 9.20 (CVE-2024-1737).
        Rules { now_s, soon_s: 2 * 86_400, records_per_type_max: 100, types_per_name_max: 100, is_part: false }
    }
}

/// All that is wrong with what the zone means.
pub fn audit(zone: &Sorted<'_>, rules: &Rules) -> Report {
    let mut walk = Walk::new(zone, rules);
    for (name, records) in zone.names() {
        walk.name(name, records);
    }
    walk.end()
}

/// Whose a name is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Apex,
    Own,
    Cut,
    /// Below a delegation or a DNAME: not the zone's.
    Below,
}

/// Tells the place of each name; they must come in canonical order.
#[derive(Default)]
pub(crate) struct Places<'a> {
    /// The topmost delegation or DNAME that the last name was at or below.
    above: Option<&'a [u8]>,
}

impl<'a> Places<'a> {
    pub(crate) fn place(&mut self, apex: &[u8], name: &'a [u8], sets: &Sets<'_>) -> Place {
        match self.above {
            Some(above) if is_at_or_below(name, above) => return Place::Below,
            _ => self.above = None,
        }
        let is_cut = sets.has(rtype::NS) && name.len() > apex.len();
        if is_cut || sets.has(rtype::DNAME) {
            self.above = Some(name);
        }
        match is_cut {
            true => Place::Cut,
            false if name.len() == apex.len() => Place::Apex,
            false => Place::Own,
        }
    }
}

struct Walk<'z, 'a> {
    zone: &'z Sorted<'a>,
    rules: &'z Rules,
    report: Report,
    sets: Sets<'a>,
    places: Places<'a>,
    /// The delegation at or below which the last name was.
    cut: Option<&'a [u8]>,
    dname: Option<&'a [u8]>,
    hosts: Hosts<'a>,
    signatures: Option<Signatures<'a>>,
    denial: Denial<'a>,
    digest: Option<Digest>,
}

impl<'z, 'a> Walk<'z, 'a> {
    fn new(zone: &'z Sorted<'a>, rules: &'z Rules) -> Walk<'z, 'a> {
        Walk {
            zone,
            rules,
            report: Report::default(),
            sets: Sets::default(),
            places: Places::default(),
            cut: None,
            dname: None,
            hosts: Hosts::default(),
            signatures: None,
            denial: Denial::None,
            digest: None,
        }
    }

    fn name(&mut self, name: &'a [u8], records: Records<'a>) {
        self.sets.fill(records);
        self.leave(name);
        let place = self.places.place(self.zone.apex(), name, &self.sets);
        if place == Place::Apex {
            self.apex(name);
        }
        if let Some(digest) = &mut self.digest {
            digest.on_name(name, &self.sets, place);
        }
        self.rrsets(name);
        self.aliases(name, place);
        match place {
            Place::Cut => self.cut(name),
            Place::Below => self.below(name),
            Place::Apex | Place::Own => self.own(name, place),
        }
        if let Some(signatures) = &self.signatures {
            signatures.on_name(name, place, &self.sets, &mut self.report);
            self.denial.on_name(name, place, &self.sets, &mut self.report);
        }
    }

    /// Ends what the name is not below any more.
    fn leave(&mut self, name: &[u8]) {
        if let Some(cut) = self.cut.filter(|cut| !is_at_or_below(name, cut)) {
            self.hosts.leave_cut(cut, &mut self.report);
            self.cut = None;
        }
        self.dname = self.dname.filter(|dname| is_at_or_below(name, dname));
        self.hosts.make_room(self.zone, &mut self.report);
    }

    fn apex(&mut self, name: &'a [u8]) {
        match self.sets.distinct(rtype::SOA) {
            0 => self.report.add(Fault::NoSoa, name, None, String::new),
            1 => {}
            _ => self.report.add(Fault::ManySoas, name, Some(rtype::SOA), String::new),
        }
        if !self.sets.has(rtype::NS) {
            self.report.add(Fault::NoNs, name, None, String::new);
        }
        if self.sets.has(rtype::DS) {
            self.report.add(Fault::DsAtApex, name, Some(rtype::DS), String::new);
        }
        if let Some(n) = too_many_iterations(&self.sets) {
            self.report.add(Fault::Nsec3Iterations, name, Some(rtype::NSEC3PARAM), || n.to_string());
        }
        self.digest = Digest::wanted(&self.sets);
        self.signatures = Signatures::of(self.zone.apex(), &self.sets, self.rules, &mut self.report);
        if self.signatures.is_some() {
            self.denial = Denial::of(self.zone.apex(), &self.sets, self.rules.is_part, &mut self.report);
        }
    }

    /// What holds for RRsets wherever they are.
    fn rrsets(&mut self, name: &[u8]) {
        let mut types = 0;
        for set in self.sets.iter() {
            types += 1;
            self.report.records += image::distinct(set[0].rtype, set) as u64;
            if set.len() > 1 && set[0].rtype != rtype::RRSIG {
                many(name, set, self.rules.records_per_type_max, &mut self.report);
            }
        }
        if types > self.rules.types_per_name_max {
            self.report.add(Fault::ManyTypes, name, None, || format!("{types} types"));
        }
        let has_inner_asterisk = || wire::name::labels(name).skip(1).any(|label| label == b"*");
        if name.contains(&b'*') && has_inner_asterisk() {
            self.report.add(Fault::InnerAsterisk, name, None, String::new);
        }
    }

    fn aliases(&mut self, name: &[u8], place: Place) {
        const BESIDE: [u16; 7] =
            [rtype::CNAME, rtype::RRSIG, rtype::NSEC, rtype::NSEC3, rtype::KEY, rtype::SIG, rtype::NXT];
        let (report, sets) = (&mut self.report, &self.sets);
        if sets.has(rtype::CNAME) {
            if !sets.has_only(&BESIDE) {
                report.add(Fault::CnameBesideData, name, Some(rtype::CNAME), String::new);
            }
            if sets.distinct(rtype::CNAME) > 1 {
                report.add(Fault::ManyCnames, name, Some(rtype::CNAME), String::new);
            }
        }
        if sets.has(rtype::DNAME) {
            if sets.distinct(rtype::DNAME) > 1 {
                report.add(Fault::ManyDnames, name, Some(rtype::DNAME), String::new);
            }
            if place == Place::Cut {
                report.add(Fault::DnameBesideNs, name, Some(rtype::DNAME), String::new);
            }
        }
    }

    fn cut(&mut self, name: &'a [u8]) {
        const ANSWERED: [u16; 6] = [rtype::NS, rtype::DS, rtype::NSEC, rtype::RRSIG, rtype::A, rtype::AAAA];
        self.cut = Some(name);
        self.hosts.want_ns(self.zone, name, self.sets.of(rtype::NS), true);
        if self.sets.has_addresses() {
            self.hosts.on_address(name);
        }
        if name.starts_with(b"\x01*") {
            self.report.add(Fault::NsAtWildcard, name, Some(rtype::NS), String::new);
        }
        if !self.sets.has_only(&ANSWERED) && !self.sets.has(rtype::DNAME) {
            self.occluded(name, &ANSWERED);
        }
    }

    fn below(&mut self, name: &'a [u8]) {
        if self.cut.is_some() && self.sets.has_addresses() {
            self.hosts.on_address(name);
        }
        if let Some(dname) = self.dname {
            if !self.is_hash() {
                self.report.add(Fault::BelowDname, name, None, || crate::report::text(dname));
            }
        } else if !self.sets.has_only(&[rtype::A, rtype::AAAA, rtype::RRSIG, rtype::NSEC]) {
            self.occluded(name, &[rtype::A, rtype::AAAA, rtype::RRSIG, rtype::NSEC]);
        }
    }

    fn occluded(&mut self, name: &[u8], but: &[u16]) {
        let first = self.sets.iter().map(|set| set[0].rtype).find(|t| !but.contains(t));
        self.report.add(Fault::Occluded, name, first, String::new);
    }

    /// True if the name is an owner of NSEC3 and nothing else.
    fn is_hash(&self) -> bool {
        self.sets.has(rtype::NSEC3) && self.sets.has_only(&[rtype::NSEC3, rtype::RRSIG])
    }

    fn own(&mut self, name: &'a [u8], place: Place) {
        if self.sets.has(rtype::DNAME) {
            self.dname = Some(name);
        }
        if place == Place::Apex {
            self.hosts.want_ns(self.zone, name, self.sets.of(rtype::NS), false);
        } else if self.sets.has(rtype::DS) {
            self.report.add(Fault::DsWithoutNs, name, Some(rtype::DS), String::new);
        }
        if self.sets.has(rtype::MX) {
            self.hosts.want_mx(self.zone, name, self.sets.of(rtype::MX));
        }
        if self.sets.has(rtype::SRV) {
            self.hosts.want_srv(self.zone, name, self.sets.of(rtype::SRV));
        }
    }

    fn end(mut self) -> Report {
        if let Some(cut) = self.cut {
            self.hosts.leave_cut(cut, &mut self.report);
        }
        self.hosts.look_up(self.zone, &mut self.report);
        self.denial.end(self.zone, &mut self.report);
        if let Some(digest) = self.digest
            && let Some(why) = digest.fault()
        {
            self.report.add(Fault::Zonemd, self.zone.apex(), Some(rtype::ZONEMD), || why.into());
        }
        self.report
    }
}

/// What may be wrong with an RRset of several records.
fn many(name: &[u8], set: &[Rr<'_>], most: usize, report: &mut Report) {
    let rtype = Some(set[0].rtype);
    if set.len() > most {
        report.add(Fault::ManyRecords, name, rtype, || format!("{} records, and not {most}", set.len()));
    }
    if let Some(other) = set.iter().find(|r| r.ttl != set[0].ttl) {
        report.add(Fault::UnequalTtls, name, rtype, || format!("{} and {}", set[0].ttl, other.ttl));
    }
    if set.windows(2).any(|w| w[0].rdata == w[1].rdata) {
        report.add(Fault::Twice, name, rtype, String::new);
    }
}
