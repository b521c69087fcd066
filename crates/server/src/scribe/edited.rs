//! What somebody's edit of a zone's file changes of the zone, which updates have changed since the file was read or written.
//!
//! ```text
//! base --updates--> what is served
//!   \---his edit--> the file          both together, weighed like any new version: the change
//! ```
//! Reads; changes nothing. What was read is there once: whoever keeps it, as the version that the next edit is of, is given that, and not what the
//! file may hold by then.

use crate::clock::wall_s;
use crate::config::Zone;
use crate::history::{self, NoWay, Past};
use crate::images::sound::DAMAGED;
use crate::scribe::origin::{self, Base};
use crate::update::ahead::Ahead;
use crate::zonetext::Sources;
use crate::zonetext::reading::{self, Stock};
use audit::{Fault, Guards, Report, Rules, Version, audit, weigh};
use image::{Builder, Sorted, Zone as ImageZone};
use std::collections::BTreeSet;
use std::path::PathBuf;
use transfer::record::is_newer;
use transfer::{Conflict, Diff, Record, compare};
use wire::Name;
use wire::rtype::{DNSKEY, SOA, ZONEMD};

/// Conflicts that are named; of more it is said how many there are.
const NAMED_MAX: usize = 5;

/// An edit of a zone's file.
pub struct Edit {
    /// What leads from what is served to that with the edit in it; None: nothing is different.
    pub diff: Option<Diff>,
    /// Of the file, and all that it includes, as it was read.
    pub stamp: String,
    pub includes: Vec<PathBuf>,
    /// What others have edited since the version that it is of, in words: it has not that, and that stays.
    pub stays: Option<String>,
    /// Of the diff. None: whoever makes the change says why it cannot be.
    pub ahead: Option<Ahead>,
}

impl Edit {
    /// Of a file that reads so, and changes nothing.
    pub fn none(stamp: String, includes: Vec<PathBuf>) -> Edit {
        Edit { diff: None, stamp, includes, stays: None, ahead: None }
    }
}

/// What leads to a zone with an edit in it, and what of others' edits is not in that.
type Merged = (Option<Diff>, Option<String>);

/// Why an edit is not to be taken in.
pub enum Hindrance {
    /// It cannot be.
    Wrong(String),
    /// The same; but something else may be at fault than what the zone's file says: what it includes, who may read it, what is kept of its history.
    Elsewhere(String),
    /// The operator should look at it before.
    Weighed(String),
    /// The same; but what it includes may be at fault.
    WeighedElsewhere(String),
}

impl Hindrance {
    pub fn why(self) -> String {
        match self {
            Hindrance::Wrong(why)
            | Hindrance::Elsewhere(why)
            | Hindrance::Weighed(why)
            | Hindrance::WeighedElsewhere(why) => why,
        }
    }
}

impl From<String> for Hindrance {
    fn from(why: String) -> Hindrance {
        Hindrance::Wrong(why)
    }
}

impl From<&str> for Hindrance {
    fn from(why: &str) -> Hindrance {
        Hindrance::Wrong(why.to_string())
    }
}

impl From<NoWay> for Hindrance {
    fn from(no_way: NoWay) -> Hindrance {
        match no_way {
            NoWay::Lost(why) => Hindrance::Wrong(why),
            NoWay::Unread(why) => Hindrance::Elsewhere(why),
        }
    }
}

/// What the file of a zone changes. `guards`: what it may lose; None: anything. `keep` is given what was read, if that can be taken in.
pub fn edit(
    past: &Past,
    zone: &Zone,
    base: &Base,
    guards: Option<&Guards>,
    keep: &mut dyn FnMut(&Sorted<'_>, &Edit),
) -> Result<Edit, Hindrance> {
    let stock = Stock::below(&past.data_dir);
    let (builder, sources) = read(zone, &stock)?;
    let (is_alone, stamp) = (sources.len() == 1, origin::stamp_of(&sources));
    let mut edit = Edit::none(stamp, origin::included(sources));
    let mut found = Ok(());
    let shown = builder.show(&mut |edited| {
        let weighing = Weighing { stock: &stock, guards, rules: Rules::at(wall_s()) };
        let now = past.published.current().0;
        let change = |served: &ImageZone<'_>| Ok(weighing.change(past, zone, base, served, edited));
        let merged =
            history::in_image(&now.image, &zone.apex, change).unwrap_or_else(|why| Err(Hindrance::Elsewhere(why)));
        found = merged.map(|(diff, stays)| {
            edit.ahead = diff.as_ref().and_then(|diff| Ahead::of(&now.image, &zone.apex, diff));
            (edit.diff, edit.stays) = (diff, stays);
            keep(edited, &edit);
        });
    });
    shown.map_err(Hindrance::Elsewhere)?;
    found.map_err(|hindrance| match hindrance {
        // Nor is a damaged image the file's fault: a new one is under way.
        Hindrance::Wrong(why) if !is_alone || why == DAMAGED => Hindrance::Elsewhere(why),
        Hindrance::Weighed(why) if !is_alone => Hindrance::WeighedElsewhere(why),
        other => other,
    })?;
    Ok(edit)
}

/// The records of a file, and what was read.
fn read(zone: &Zone, stock: &Stock) -> Result<(Builder, Sources), Hindrance> {
    let mut builder = stock.builder();
    builder.begin_zone(&zone.apex);
    // Its rights are no part of what tells an edit: it is tried again.
    let read = reading::one(zone, stock, &mut builder).map_err(|unread| Hindrance::Elsewhere(unread.text(zone)))?;
    match read.report.first_error() {
        Some(why) if read.sources.len() > 1 => Err(Hindrance::Elsewhere(why)),
        Some(why) => Err(Hindrance::Wrong(why)),
        None => Ok((builder, read.sources)),
    }
}

struct Weighing<'s> {
    stock: &'s Stock,
    guards: Option<&'s Guards>,
    rules: Rules,
}

impl Weighing<'_> {
    fn change(
        &self,
        past: &Past,
        zone: &Zone,
        base: &Base,
        served: &ImageZone<'_>,
        edited: &Sorted<'_>,
    ) -> Result<Merged, Hindrance> {
        let report = audit(edited, &self.rules);
        if let Some(why) = report.refusal() {
            return Err(Hindrance::Wrong(why));
        }
        let there = difference(served, edited)?;
        let mut of = None;
        let back = match base {
            Base::Version(serial, since) => {
                of = Some(*serial);
                let back = past.way_to(&zone.apex, served, *serial, since.as_deref());
                back.map_err(|no_way| match no_way {
                    NoWay::Lost(_) if is_newer(*serial, there.from) => unborn(*serial, there.from).into(),
                    other => other,
                })?
            }
            Base::Copy(file, _) => self.back(&Zone::new(zone.apex.clone(), file.clone()), served)?,
            Base::Past(file, serial) => {
                let copy = self.back(&Zone::new(zone.apex.clone(), file.clone()), served)?;
                match past.way_back(&zone.apex, served, *serial) {
                    Ok(version) if !goes_on(&version, &copy, &there) => {
                        of = Some(*serial);
                        version
                    }
                    Err(NoWay::Unread(why)) => return Err(Hindrance::Elsewhere(why)),
                    _ => copy,
                }
            }
            Base::Itself => {
                let is_it = |back: &Diff| (back.removed(), back.added()) == (there.removed(), there.added());
                return match past.way_back(&zone.apex, served, audit::serial(edited)) {
                    Ok(back) if is_it(&back) => Ok((None, None)),
                    Err(NoWay::Unread(why)) => Err(Hindrance::Elsewhere(why)),
                    _ => Err(UNKNOWN.into()),
                };
            }
        };
        self.look_at_digest(&report, &back, &there, edited.apex())?;
        let merged = history::merged(served, back, &there)?.map_err(|conflicts| told(&conflicts))?;
        let left = |serial| left_by_others(past, &zone.apex, serial, &there, merged.as_ref());
        let stays = of.map_or(Ok(None), left)?;
        let Some(diff) = merged else { return Ok((None, stays)) };
        if is_signed(edited) && there.to != diff.to {
            return Err(format!("the zone is signed, and its serial must follow {}", diff.from).into());
        }
        self.weigh(served, &diff, edited.apex())?;
        Ok((Some(history::fitting(served, &diff)?), stays))
    }

    /// What leads from what is served to what a file of ours holds.
    fn back(&self, copy: &Zone, served: &ImageZone<'_>) -> Result<Diff, Hindrance> {
        let (builder, _) = read(copy, self.stock)?;
        let mut back = Err(format!("{}: it is not what was kept of the zone before the edit", copy.file.display()));
        // Of one that was cut off in its first line, or is another zone's, nothing is left: all that was deleted would come back.
        let shown = builder.show(&mut |base| {
            if base.records_at(&copy.apex).into_iter().flatten().any(|rr| rr.rtype == SOA) {
                back = difference(served, base);
            }
        });
        shown.map_err(Hindrance::Elsewhere)?;
        Ok(back?)
    }

    /// A digest that the edit brings is to be of what the file holds. One that stood there before is as old as that: a file is written back before
    /// the zone has its next one, and people do not make one for each edit.
    fn look_at_digest(&self, report: &Report, back: &Diff, there: &Diff, apex: &[u8]) -> Result<(), Hindrance> {
        let digests = |all: &[Record]| -> BTreeSet<Record> {
            let is_digest = |r: &&Record| r.rtype == ZONEMD && r.owner() == apex;
            all.iter().filter(is_digest).map(Record::folded).collect()
        };
        let of = |diff: &Diff| [diff.removed(), diff.added()].map(digests);
        let wrong = report.findings.iter().find(|f| f.fault == Fault::Zonemd);
        let wrong = wrong.filter(|_| self.guards.is_some() && of(back) != of(there));
        wrong.map_or(Ok(()), |finding| Err(Hindrance::Weighed(finding.text())))
    }

    /// What is to be served, beside what is. The digest of a zone fits again only once the zone is served.
    fn weigh(&self, served: &ImageZone<'_>, diff: &Diff, apex: &[u8]) -> Result<(), Hindrance> {
        let mut builder = self.stock.builder();
        builder.begin_zone(apex);
        let (mut refused, mut digests, mut is_signed) = (Ok(()), vec![], false);
        history::version(served, diff, &mut |r| {
            let is_at_apex = r.owner() == apex;
            is_signed |= is_at_apex && r.rtype == DNSKEY;
            if is_at_apex && r.rtype == ZONEMD {
                digests.push(r);
            } else if let Err(why) = builder.record(r.owner(), r.rtype, r.ttl, r.rdata()) {
                refused = Err(why);
            }
        })?;
        refused?;
        // Whoever has signed it has made its digest, too, and says in its chain that it is there.
        if is_signed {
            digests.iter().try_for_each(|r| builder.record(r.owner(), r.rtype, r.ttl, r.rdata()))?;
        }
        let mut found = Ok(());
        let shown = builder.show(&mut |zone| {
            let report = audit(zone, &self.rules);
            let version = Version { zone, report: &report, rules: &self.rules, is_received: false };
            let unfit = |r: &Record| {
                let what = zone.records_at(r.owner()).and_then(image::fault)?;
                Some(format!("{}: {what}", Name::from_wire(r.owner()).unwrap_or(Name::ROOT)))
            };
            let unfit = diff.added().iter().find_map(unfit);
            let weighed = self.guards.map(|guards| weigh(served, &version, guards, || self.stock.builder()));
            found = match (unfit.or_else(|| report.refusal()), weighed) {
                (Some(why), _) => Err(Hindrance::Wrong(why)),
                (None, Some(Ok(Some(why)))) => Err(Hindrance::Weighed(why)),
                // What is damaged cannot be compared, and is no reason to keep anything.
                (None, _) => Ok(()),
            };
        });
        shown.map_err(Hindrance::Elsewhere)?;
        found
    }
}

fn difference(served: &ImageZone<'_>, zone: &Sorted<'_>) -> Result<Diff, String> {
    let found = compare(served, zone, history::CHANGE_OCTETS_MAX);
    let found = found.map_err(|_| DAMAGED.to_string())?;
    found.ok_or_else(|| "it changes more than can be merged".to_string())
}

/// What others have edited since a version, and an edit of that does not have. `there`: from what is served to that; `merged`: what is made of it.
fn left_by_others(
    past: &Past,
    apex: &[u8],
    serial: u32,
    there: &Diff,
    merged: Option<&Diff>,
) -> Result<Option<String>, NoWay> {
    let sides = |diff: &Diff| [diff.removed(), diff.added()].map(|side| side.iter().cloned().collect::<BTreeSet<_>>());
    let ([gone, here], made) = (sides(there), merged.map(sides).unwrap_or_default());
    let stays = |all: BTreeSet<Record>, made: &BTreeSet<Record>| {
        all.into_iter().filter(|r| r.rtype != SOA && !made.contains(r)).collect::<BTreeSet<_>>()
    };
    let [gone, here] = [stays(gone, &made[0]), stays(here, &made[1])];
    // Mostly nothing, and no history is read.
    if gone.is_empty() && here.is_empty() {
        return Ok(None);
    }
    let [went, came] = past.edited_since(apex, serial)?;
    let left = gone.intersection(&came).chain(here.intersection(&went));
    let sets: BTreeSet<Conflict> = left.map(|r| Conflict { owner: r.owner().into(), rtype: r.rtype }).collect();
    Ok(Some(named(&sets)).filter(|_| !sets.is_empty()))
}

/// Whether an edit has in it all that another one had changed of a version before. All are what leads from what is served: to that version, to
/// the other edit of it, to this one.
fn goes_on(version: &Diff, other: &Diff, this: &Diff) -> bool {
    let step = |from: &Diff, to: &Diff| from.clone().inverted().then(to.clone()).unwrap_or_default();
    let (before, since) = (step(version, other), step(other, this));
    let is_kept = |done: &[Record], undone: &[Record]| {
        done.iter().filter(|r| r.rtype != SOA).all(|r| undone.binary_search(r).is_err())
    };
    is_kept(before.added(), since.removed()) && is_kept(before.removed(), since.added())
}

fn is_signed(zone: &Sorted<'_>) -> bool {
    zone.records_at(zone.apex()).into_iter().flatten().any(|rr| rr.rtype == DNSKEY)
}

const UNKNOWN: &str = "it is not known which version of the zone was edited, and it is none that the zone has had; \
    write there what `dunlin ctl zone show` has, and edit that";

fn unborn(serial: u32, served: u32) -> String {
    format!(
        "it is of version {serial}, which follows {served}, and that is served: has data-dir/journal come from a backup? {}",
        history::NOT_THIS
    )
}

fn told(conflicts: &BTreeSet<Conflict>) -> String {
    format!("the same has changed since: {}; write there what `dunlin ctl zone show` has", named(conflicts))
}

/// As many as people read.
fn named(sets: &BTreeSet<Conflict>) -> String {
    let one = |c: &Conflict| {
        let name = Name::from_wire(&c.owner).unwrap_or(Name::ROOT);
        format!("{name} {}", zonefile::rtypes::mnemonic(c.rtype))
    };
    let named: Vec<String> = sets.iter().take(NAMED_MAX).map(one).collect();
    let more = match sets.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    named.join(", ") + &more
}
