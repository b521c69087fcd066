//! Whether a new version of a zone may take the place of the one that is served, or somebody should look at it first.
//!
//! Every way in which a zone changes as a whole asks this one function. Never asked where there is nothing to lose: at a
//! zone's first version. One walk over both versions side by side, and an audit of the old one only where the new one has errors.

use crate::digest::{serial_of, zonemd};
use crate::fault::{Fault, Rating};
use crate::name::Sets;
use crate::report::{Finding, Report, text};
use crate::walk::{Rules, audit};
use image::node::CUT;
use image::{Builder, Damaged, Part, Sorted, Zone};
use std::collections::BTreeSet;
use wire::name::NAME_MAX;
use wire::rtype::{self, Rtype};

/// What a version may lose without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards {
    /// Of the records, but for those that signers make.
    pub lost_percent_max: u64,
    /// Delegations that were secure and go on without DS.
    pub lost_ds_max: u64,
}

impl Default for Guards {
    fn default() -> Guards {
        Guards { lost_percent_max: 50, lost_ds_max: 0 }
    }
}

/// A version that is to be published.
pub struct Version<'v, 'a> {
    pub zone: &'v Sorted<'a>,
    /// What the audit said of it.
    pub report: &'v Report,
    pub rules: &'v Rules,
    /// It comes from primaries: names of it may come and go all the time, by nobody's hand, so its records are only counted.
    pub is_received: bool,
}

/// What RRsets have less of. A zone whose names are others has lost its records, however many there are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    pub records: u64,
    /// Of so many that are served.
    pub of: u64,
}

/// False: signers make it, and make it anew whenever they sign.
pub fn is_weighed(rtype: Rtype) -> bool {
    !matches!(rtype, rtype::RRSIG | rtype::NSEC | rtype::NSEC3 | rtype::ZONEMD)
}

/// Why the version is not to be published unasked, in words; none: it may be. Err: what is served cannot be read.
/// `builder`: an empty one. All is said that tells against it: whoever overrules one objection overrules the others, too.
pub fn weigh(
    served: &Zone<'_>,
    version: &Version<'_, '_>,
    guards: &Guards,
    builder: impl FnOnce() -> Builder,
) -> Result<Option<String>, Damaged> {
    let zone = version.zone;
    let (mut loss, insecure) = lost(served, zone)?;
    if version.is_received {
        let before = served.records()?;
        loss = Loss { records: before.saturating_sub(version.report.records), of: before };
    }
    let numbers = weigh_numbers((served.serial()?, serial(zone)), loss, guards);
    let security = [insecure.told(guards.lost_ds_max), unsigned(served, zone)?];
    Ok(together([numbers].into_iter().chain(security).chain([worse(served, version, builder)?])))
}

fn together(objections: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let all: Vec<String> = objections.into_iter().flatten().collect();
    Some(all.join("; ")).filter(|all| !all.is_empty())
}

/// What the serials before and after, and the records that go, tell against a version.
pub fn weigh_numbers(serials: (u32, u32), loss: Loss, guards: &Guards) -> Option<String> {
    together([backwards(serials.0, serials.1), much(loss, guards.lost_percent_max)])
}

/// That of the zone's SOA; 0 without one.
pub fn serial(zone: &Sorted<'_>) -> u32 {
    let soa = zone.records_at(zone.apex()).into_iter().flatten().find(|rr| rr.rtype == rtype::SOA);
    soa.and_then(|soa| serial_of(soa.rdata)).map_or(0, |serial| u32::from_be_bytes(*serial))
}

/// RFC 1982 section 3.2. Secondaries do not take a version whose serial is behind theirs, or just as far before it. The
/// same serial again is the operator's business: many never touch it.
fn backwards(before: u32, after: u32) -> Option<String> {
    let is_back = before.wrapping_sub(after) <= 1 << 31 && before != after;
    is_back.then(|| format!("the serial {after} does not follow {before}, which is served (RFC 1982)"))
}

fn much(loss: Loss, percent_max: u64) -> Option<String> {
    let Loss { records, of } = loss;
    let is_much = records * 100 > of * percent_max;
    is_much.then(|| format!("{records} of {of} records go: more than {percent_max} % would be lost"))
}

/// Delegations that go on, and lose their DS: they are answered by validators as before, but can be forged. One that goes
/// altogether counts as records do.
#[derive(Default)]
struct Insecure {
    delegations: u64,
    first: Option<String>,
}

impl Insecure {
    fn told(self, most: u64) -> Option<String> {
        let others = match self.delegations {
            0 | 1 => String::new(),
            all => format!(", and {} others", all - 1),
        };
        let first = self.first.filter(|_| self.delegations > most);
        first.map(|name| format!("the delegation {name} would lose its DS{others}"))
    }
}

/// What would be lost, name by name. Both versions come in canonical order.
fn lost(served: &Zone<'_>, zone: &Sorted<'_>) -> Result<(Loss, Insecure), Damaged> {
    let (mut loss, mut insecure) = (Loss::default(), Insecure::default());
    let (mut sets, mut owner, mut onward) = (Sets::default(), [0; NAME_MAX], zone.onward());
    for node in served.nodes() {
        let node = node?;
        let name = served.name_of(&node, &mut owner)?;
        sets.fill(onward.records_at(zone.order_key(name), name).into_iter().flatten());
        let mut was_secure = false;
        for rrset in node.rrsets() {
            let (rtype, unit) = rrset?;
            if is_weighed(rtype) {
                let before = u64::from(unit.count());
                loss.of += before;
                loss.records += before.saturating_sub(sets.distinct(rtype) as u64);
            }
            was_secure |= rtype == rtype::DS && node.is(CUT);
        }
        if was_secure && sets.has(rtype::NS) && !sets.has(rtype::DS) {
            insecure.delegations += 1;
            insecure.first.get_or_insert_with(|| text(name));
        }
    }
    Ok((loss, insecure))
}

/// With a DS above it, a zone that comes back as it was before its signer is bogus as a whole, and has no error by itself.
fn unsigned(served: &Zone<'_>, zone: &Sorted<'_>) -> Result<Option<String>, Damaged> {
    let mut is_signed = false;
    for rrset in served.apex()?.rrsets() {
        let (rtype, unit) = rrset?;
        is_signed |= rtype == rtype::DNSKEY && unit.has(Part::Signatures);
    }
    let mut sets = Sets::default();
    sets.fill(zone.records_at(zone.apex()).into_iter().flatten());
    let lost = [(rtype::DNSKEY, "DNSKEY"), (rtype::RRSIG, "RRSIG")].into_iter().find(|(rtype, _)| !sets.has(*rtype));
    let lost = lost.filter(|_| is_signed);
    Ok(lost.map(|(_, what)| format!("the zone would not be signed any more: its apex has no {what}")))
}

/// An error of a kind that what is served does not have, by the same clock. A digest is of one content: that another's was wrong,
/// too, is no excuse, whatever the serials.
fn worse(
    served: &Zone<'_>,
    version: &Version<'_, '_>,
    builder: impl FnOnce() -> Builder,
) -> Result<Option<String>, Damaged> {
    let is_error = |fault: Fault| fault.rating() != Rating::Warning;
    if !version.report.findings.iter().any(|f| is_error(f.fault)) {
        return Ok(None);
    }
    let mut known = BTreeSet::new();
    let mut builder = builder();
    builder.begin_zone(served.apex()?.apex_name()?);
    served.for_each_record(&mut |owner, rtype, ttl, rdata| {
        // Every record of an image has been taken by a builder before.
        let _ = builder.record(owner, rtype, ttl, rdata);
    })?;
    let is_wrong = version.report.findings.iter().any(|f| f.fault == Fault::Zonemd);
    let mut is_other = false;
    let shown = builder.show(&mut |before| {
        known.extend(audit(before, version.rules).findings.iter().map(|f| f.fault));
        is_other = is_wrong && zonemd(before) != zonemd(version.zone);
    });
    if let Err(why) = shown {
        return Ok(Some(format!("it has errors, and it cannot be seen whether what is served has these: {why}")));
    }
    let is_new = |fault: Fault| !known.contains(&fault) || fault == Fault::Zonemd && is_other;
    let new = version.report.findings.iter().find(|f| is_error(f.fault) && is_new(f.fault));
    let said = |f: &Finding| match known.contains(&f.fault) {
        true => f.text(),
        false => format!("this error, which what is served has not: {}", f.text()),
    };
    Ok(new.map(said))
}
