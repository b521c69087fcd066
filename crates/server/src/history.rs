//! What zones were: the differences that led to what is served, kept by age and size.
//!
//! ```text
//! data-dir/history/journal.0000000001   changes of zones that came from their files, or from going back
//! data-dir/journal/journal.0000000001   those that updates made (see `ledger`)
//! ```
//!
//! It is written when a change is served, or an image with it takes its name, and read when somebody asks, and by a start (`lately`). A version of the past is what
//! is served and the way back to it; so it costs what has changed, and the image holds all the rest.

mod entries;
mod file;
mod keeping;
mod recorder;
mod serials;

use crate::clock::rfc3339;
use crate::config::{self, apex};
use crate::images::sound::{self, Sound};
use crate::images::{Problem, name};
use crate::json::Json;
use crate::update::ledger;
pub use entries::{caution, changes_from, in_turn, know_last, last_serials, last_updates, pasts_of, unread};
use entries::{changes, changes_in};
pub use file::{Replaced, left_beside, let_go_of, write};
use front::{Published, Zones};
use image::edit::records_of;
use image::{Builder, Damaged, Image, Sorted, Zone};
pub use keeping::Keeping;
pub use recorder::Recorder;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use store::Stretch;
use transfer::record::{apart_from, next_serial, renumbered};
use transfer::{Author, Conflict, Diff, Entry, Kind, Record, canonical, each_difference, merge};
use wire::rtype::{DNSKEY, SOA, ZONEMD};

const FOLDER: &str = "history";
/// Of one change; the history of a zone begins anew behind a larger one.
pub const CHANGE_OCTETS_MAX: usize = 64 << 20;
/// Records that a difference lists, of either side.
const RECORDS_MAX: usize = 100_000;

/// Why an old version of a zone is out of reach.
pub enum NoWay {
    /// What is kept does not lead there.
    Lost(String),
    /// What is kept cannot be read, by now.
    Unread(String),
}

impl From<String> for NoWay {
    fn from(why: String) -> NoWay {
        NoWay::Lost(why)
    }
}

impl From<NoWay> for String {
    fn from(no_way: NoWay) -> String {
        match no_way {
            NoWay::Lost(why) | NoWay::Unread(why) => why,
        }
    }
}

/// Among which versions one is looked for first, where updates have made what is served.
#[derive(Clone, Copy)]
enum Among {
    /// Those of updates: what an edit was made of.
    Updates,
    All,
}

/// A part of a version.
pub enum Shown {
    /// What comes first: its serial, and how many octets the way to it takes in memory.
    Begin { serial: u32, way: usize },
    /// As a line of a zone file.
    Record(String),
}

/// Reads what has changed, and what was before.
#[derive(Clone)]
pub struct Past {
    pub published: Arc<Published<Zones<Stretch>>>,
    pub data_dir: PathBuf,
}

impl Past {
    /// The versions that a zone has had, newest last. `wrong`: zones that are not served as they should be, or not at all.
    pub fn log(&self, zone: &str, wrong: &[Problem]) -> Result<Json, String> {
        let apex = named(zone)?;
        if wrong.iter().all(|problem| problem.apex != apex) {
            with_zone(&self.published, &apex, |_| Ok(()))?;
        }
        let changes = changes(&self.data_dir, &apex)?;
        let version = |e: &Entry| {
            Json::Object(vec![
                ("serial", Json::Number(e.diff.to.into())),
                ("before", Json::Number(e.diff.from.into())),
                ("when", Json::text(rfc3339(e.when.wall_s))),
                ("who", Json::text(&e.author)),
                ("removed", Json::Number(e.diff.removed().len() as u64)),
                ("added", Json::Number(e.diff.added().len() as u64)),
            ])
        };
        Ok(Json::list(&changes, version))
    }

    /// What leads from one version to another.
    pub fn diff(&self, zone: &str, from: u32, to: u32) -> Result<Json, String> {
        let apex = named(zone)?;
        with_zone(&self.published, &apex, |served| {
            let [back, there] = self.newest(&apex, served, [from, to])?;
            let diff = back.inverted().then(there).ok_or("the two versions do not meet")?;
            Ok(json(&apex, &diff))
        })
    }

    /// Shows all of a version; of the one that is served if none is named. Err: if something was shown, it is not all.
    pub fn show(
        &self,
        zone: &str,
        serial: Option<u32>,
        show: &mut dyn FnMut(Shown) -> io::Result<()>,
    ) -> Result<(), String> {
        let apex = named(zone)?;
        with_zone(&self.published, &apex, |served| {
            let serial = serial.map_or_else(|| served.serial().map_err(damaged), Ok)?;
            let [way] = self.newest(&apex, served, [serial])?;
            let mut shown = show(Shown::Begin { serial, way: way.octets() });
            version(served, &way, &mut |r| {
                if shown.is_ok() {
                    shown = show(Shown::Record(line(&r)));
                }
            })?;
            shown.map_err(|e| e.to_string())
        })
    }

    /// What leads from a zone to an old version of it, under the serial that follows.
    pub fn back(&self, apex: &[u8], served: &Zone<'_>, serial: u32) -> Result<Diff, String> {
        let now = served.serial().map_err(damaged)?;
        let [way] = self.newest(apex, served, [serial])?;
        if way.is_empty() {
            return Err(format!("version {serial} is what is served"));
        }
        if is_signed(served, apex)? || way.added().iter().any(|r| r.rtype == DNSKEY && r.owner() == apex) {
            return Err(SIGNED.to_string());
        }
        let removed = standing(served, way.removed())?;
        let (_, of_apex) = at_apex(served)?;
        let digests = of_apex.iter().chain(way.added()).filter(|r| r.rtype == ZONEMD);
        let next = apart_from(next_serial(now), digests.map(Record::rdata));
        let added = way.added().iter().map(|r| renumbered(r.clone(), next)).collect();
        Ok(Diff::new(now, next, removed, added))
    }

    /// What leads from a zone to what it was at a serial.
    pub fn way_back(&self, apex: &[u8], served: &Zone<'_>, serial: u32) -> Result<Diff, NoWay> {
        self.way_to(apex, served, serial, None)
    }

    /// The same for what the zone was at a serial from this moment on.
    pub fn way_to(&self, apex: &[u8], served: &Zone<'_>, serial: u32, since: Option<&str>) -> Result<Diff, NoWay> {
        self.ways_back(apex, served, [(serial, since)], Among::Updates).map(|[way]| way)
    }

    /// The ways to the last versions that had these serials, whoever made them: that is what somebody means who names one.
    fn newest<const N: usize>(&self, apex: &[u8], served: &Zone<'_>, serials: [u32; N]) -> Result<[Diff; N], NoWay> {
        self.ways_back(apex, served, serials.map(|serial| (serial, None)), Among::All)
    }

    /// While its file owned a zone of updates other versions may have had the same serials. What is found must fit in any case.
    fn ways_back<const N: usize>(
        &self,
        apex: &[u8],
        served: &Zone<'_>,
        versions: [(u32, Option<&str>); N],
        among: Among,
    ) -> Result<[Diff; N], NoWay> {
        let now = served.serial().map_err(damaged)?;
        if versions.iter().all(|version| *version == (now, None)) {
            // Which is asked most, and nothing of the history.
            return Ok(versions.map(|_| Diff::new(now, now, vec![], vec![])));
        }
        let fitting = |changes: &VecDeque<Entry>| {
            let back = |version| way(changes, now, version).and_then(|back| fit(served, &back).map(|()| back));
            let ways = versions.into_iter().map(back).collect::<Result<Vec<_>, _>>()?;
            <[Diff; N]>::try_from(ways).map_err(|_| MISFIT.to_string())
        };
        let read = |folder: &str| changes_in(&self.data_dir, &[folder], apex).map_err(NoWay::Unread);
        let (files, updates) = (read(FOLDER)?, read(ledger::FOLDER)?);
        let ends_here = |all: &VecDeque<Entry>| all.back().filter(|last| last.diff.to == now).map(|last| last.when);
        let is_theirs = ends_here(&files).is_none_or(|file| ends_here(&updates).is_some_and(|update| update > file));
        // They may be all that is kept of a zone, and memory for one of them is enough.
        Ok(match among {
            _ if !is_theirs => fitting(&in_turn(files, updates)),
            Among::Updates => fitting(&updates).or_else(|_| fitting(&in_turn(files, updates))),
            Among::All if files.is_empty() => fitting(&updates),
            Among::All => fitting(&in_turn(files, updates.clone())).or_else(|why| fitting(&updates).map_err(|_| why)),
        }?)
    }

    /// What edits of its file have changed of a zone since a version, and not taken back: records that went, and that came.
    pub fn edited_since(&self, apex: &[u8], serial: u32) -> Result<[BTreeSet<Record>; 2], NoWay> {
        let changes = changes(&self.data_dir, apex).map_err(NoWay::Unread)?;
        let mut net = Net::default();
        behind(&changes, serial).filter(|step| is_edit(&step.author)).for_each(|step| _ = net.back(&step.diff));
        Ok([1, -1].map(|sign| net.side(sign)))
    }

    /// Whether the zone, and not one that had its name before, has had the edit of a file behind this version.
    pub fn was_edited(&self, apex: &[u8], serial: u32) -> Result<bool, String> {
        Ok(has_edit_behind(&changes(&self.data_dir, apex)?, serial))
    }

    /// Writes the content of an old version, under the serial that follows the one that is served, into the zone's file.
    /// `was`: what told the file when it was looked at (`origin::stamp`); an edit since is not written over.
    pub fn write_back(&self, zone: &config::Zone, serial: u32, was: &str) -> Result<Replaced, String> {
        let found = with_sound_zone(&self.published, &zone.apex, |served| {
            let now = served.serial().map_err(damaged)?;
            if serial == now {
                return Err(format!("version {serial} is what is served"));
            }
            let [way] = self.newest(&zone.apex, served, [serial])?;
            let next = next_serial(now);
            if is_signed(served, &zone.apex)? {
                return Err(SIGNED.to_string());
            }
            let (mut soas, mut records) = (Vec::new(), Vec::new());
            version(served, &way, &mut |r| match r.rtype {
                SOA => soas.push(renumbered(r, next)),
                _ => records.push(r),
            })?;
            if soas.is_empty() || records.iter().any(|r| r.rtype == DNSKEY && *r.owner() == *zone.apex) {
                return Err(SIGNED.to_string());
            }
            digest_anew(&zone.apex, &soas, &mut records)?;
            Ok([soas, records].concat())
        })?;
        write(&zone.file, was, found.iter()).map_err(|e| format!("the file cannot be written: {}", unwritable(&e)))
    }
}

/// Why a file cannot be written anew beside itself, and what is to be done.
pub fn unwritable(e: &io::Error) -> String {
    let instead = "; its folder is to be one that the server's user may write to";
    format!("{e}{}", if e.kind() == io::ErrorKind::PermissionDenied { instead } else { "" })
}

fn is_signed(zone: &Zone<'_>, apex: &[u8]) -> Result<bool, String> {
    let node = zone.apex().map_err(damaged)?;
    Ok(records_of(&node, apex).map_err(damaged)?.iter().any(|r| r.rtype == DNSKEY))
}

/// What changes, one after the other, come to, and what was last of each record. One that went and came again counts nothing.
#[derive(Default)]
struct Net(HashMap<Record, (i32, i32)>);

impl Net {
    /// Takes a change back. False: a record would go that is not there, or come that is.
    fn back(&mut self, diff: &Diff) -> bool {
        let mut fits = true;
        for (records, n) in [(diff.added(), -1), (diff.removed(), 1)] {
            for record in folded(records) {
                let (net, last) = self.0.entry(record).or_default();
                fits &= *last != n;
                (*net, *last) = (*net + n, n);
            }
        }
        fits
    }

    fn side(&self, sign: i32) -> BTreeSet<Record> {
        self.0.iter().filter(|(_, (net, _))| net.signum() == sign).map(|(r, _)| r.clone()).collect()
    }
}

fn folded(records: &[Record]) -> BTreeSet<Record> {
    records.iter().map(Record::folded).collect()
}

pub const SIGNED: &str = "it is signed, and its signatures would not fit the new serial";

/// What leads from a zone to that with somebody's change of another version in it; None: nothing does. Err within: the zone has
/// changed in the same since. `back`: from the zone to that version; `there`: from the zone to that version as he has changed it.
pub fn merged(served: &Zone<'_>, back: Diff, there: &Diff) -> Result<Result<Option<Diff>, BTreeSet<Conflict>>, String> {
    let ours = back.inverted();
    let both = |ours: &[Record], there: &[Record]| [ours, there].concat();
    let (removed, added) = (both(ours.removed(), there.removed()), both(ours.added(), there.added()));
    let theirs = Diff::new(ours.from, there.to, removed, added);
    let mut soa = None;
    let whole = served.for_each_record(&mut |owner, rtype, ttl, rdata| {
        if rtype == SOA {
            soa = canonical(owner, rtype, ttl, rdata);
        }
    });
    whole.map_err(damaged)?;
    Ok(merge(&ours, &theirs, &soa.ok_or("the zone has no SOA")?))
}

/// A difference whose records are in canonical form, for a zone as it has them.
pub fn fitting(served: &Zone<'_>, diff: &Diff) -> Result<Diff, String> {
    let removed = standing(served, diff.removed())?;
    Ok(Diff::new(diff.from, diff.to, removed, diff.added().to_vec()))
}

/// Where a version has a digest of itself, puts the one in its place that fits the new serial (RFC 8976).
pub fn digest_anew(apex: &[u8], soas: &[Record], records: &mut Vec<Record>) -> Result<(), String> {
    let is_digest = |r: &Record| r.rtype == ZONEMD && *r.owner() == *apex;
    let Some(ttl) = records.iter().find(|r| is_digest(r)).map(|r| r.ttl) else { return Ok(()) };
    records.retain(|r| !is_digest(r));
    let mut builder = Builder::new(0);
    builder.begin_zone(apex);
    for r in soas.iter().chain(&*records) {
        builder.record(r.owner(), r.rtype, r.ttl, r.rdata())?;
    }
    let mut rdata = None;
    builder.show(&mut |zone| rdata = audit::zonemd(zone))?;
    records.extend(rdata.and_then(|rdata| Record::new(apex, ZONEMD, ttl, &rdata)));
    Ok(())
}

/// What gives a zone a serial after another one, and changes nothing else. A signed one has none but who signs it gives it.
pub fn renumbering(zone: &Zone<'_>, last: u32) -> Result<Diff, String> {
    let (apex, of_apex) = at_apex(zone)?;
    if is_signed(zone, &apex)? {
        return Err(SIGNED.to_string());
    }
    let [digests, soas] = [ZONEMD, SOA].map(|rtype| of_apex.iter().filter(move |r| r.rtype == rtype));
    let (serial, removed) =
        (apart_from(next_serial(last), digests.map(Record::rdata)), soas.cloned().collect::<Vec<_>>());
    let added = removed.iter().map(|r| renumbered(r.clone(), serial)).collect();
    Ok(Diff::between(removed, added))
}

/// The name of a zone, and its records there.
fn at_apex(zone: &Zone<'_>) -> Result<(Box<[u8]>, Vec<Record>), String> {
    let node = zone.apex().map_err(damaged)?;
    let apex = node.apex_name().map_err(damaged)?;
    let records = records_of(&node, apex).map_err(damaged)?.into_iter();
    Ok((apex.into(), records.filter_map(|r| Record::new(apex, r.rtype, r.ttl, &r.rdata)).collect()))
}

/// The apex of a zone that somebody has named.
pub fn named(zone: &str) -> Result<Box<[u8]>, String> {
    apex(zone).map_err(|why| format!("`{zone}` is no name of a zone: {why}"))
}

fn damaged(damaged: Damaged) -> String {
    sound::damaged(damaged).to_string()
}

/// Calls `f` with a zone that is served, as far as its pages are known to be sound.
pub fn with_zone<T>(
    published: &Published<Zones<Stretch>>,
    apex: &[u8],
    f: impl FnOnce(&Zone<'_>) -> Result<T, String>,
) -> Result<T, String> {
    in_image(&published.current().0.image, apex, f)
}

/// The same for what is written into files: each page that is read of it is compared with its checksum before.
pub fn with_sound_zone<T>(
    published: &Published<Zones<Stretch>>,
    apex: &[u8],
    f: impl FnOnce(&Zone<'_>) -> Result<T, String>,
) -> Result<T, String> {
    in_image(&published.current().0.image.doubted(), apex, f)
}

pub fn in_image<T>(
    image: &Image<Stretch>,
    apex: &[u8],
    f: impl FnOnce(&Zone<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let (sound, told) = (Sound::as_known(image), |e: io::Error| e.to_string());
    let zone = sound.zone(apex).map_err(told)?.ok_or_else(|| format!("no zone {} is served", name(apex)))?;
    let found = f(&zone)?;
    sound.holds().map_err(told).map(|()| found)
}

/// What to do about a file that was made of what the zone never was.
pub const NOT_THIS: &str = "Move the file away, or write there what `dunlin ctl zone show` has";

/// What leads from the version that is served to an old one, its records in canonical form. `changes`: read after it was
/// known what is served. `since`: when the change was made that led to that version, where it is known.
fn way(changes: &VecDeque<Entry>, served: u32, (serial, since): (u32, Option<&str>)) -> Result<Diff, String> {
    let (mut at, mut net) = (served, Net::default());
    // What an update changes is in the journal before it is served, and may have come since.
    let mut steps = of_this(changes).skip_while(|step| step.diff.to != served);
    while at != serial {
        let step = steps.next().filter(|step| step.diff.to == at);
        let Some(Entry { diff, .. }) = step else {
            return Err(format!(
                "no way back to version {serial} is kept; `dunlin ctl zone log` lists the changes that are"
            ));
        };
        if !net.back(diff) {
            return Err(MISFIT.to_string());
        }
        at = diff.from;
    }
    let made = steps.next().filter(|step| step.diff.to == serial).map(|step| rfc3339(step.when.wall_s));
    if let Some((since, made)) = since.zip(made).filter(|(since, made)| since != made) {
        return Err(format!(
            "it is of version {serial} of {since}, and the zone's is of {made}: has data-dir/journal come from a backup? {NOT_THIS}"
        ));
    }
    let side = |sign| net.side(sign).into_iter().collect();
    Ok(Diff::new(served, serial, side(-1), side(1)))
}

/// The changes of a zone, newest first, and none of another one of its name.
fn of_this(changes: &VecDeque<Entry>) -> impl Iterator<Item = &Entry> {
    changes.iter().rev().take_while(|step| !step.diff.is_empty())
}

/// Those behind a version, newest first; all, if none has led to that.
fn behind(changes: &VecDeque<Entry>, serial: u32) -> impl Iterator<Item = &Entry> {
    of_this(changes).take_while(move |step| step.diff.to != serial)
}

/// Whether one of those is an edit. Where the first does not go on from that version they are of a life that the zone had before.
fn has_edit_behind(changes: &VecDeque<Entry>, serial: u32) -> bool {
    let since: Vec<&Entry> = behind(changes, serial).collect();
    since.last().is_some_and(|first| first.diff.from == serial) && since.iter().any(|entry| is_edit(&entry.author))
}

const MISFIT: &str = "the history does not fit what is served: a change is not in it";

/// Records in canonical form and order, as a zone has them.
fn standing(served: &Zone<'_>, canonical_form: &[Record]) -> Result<Vec<Record>, String> {
    let (mut found, mut met) = (Vec::new(), HashSet::new());
    let whole = served.for_each_record(&mut |owner, rtype, ttl, rdata| {
        let place = canonical(owner, rtype, ttl, rdata).and_then(|r| canonical_form.binary_search(&r).ok());
        if let Some(place) = place {
            // Some are there in two spellings.
            met.insert(place);
            found.extend(Record::new(owner, rtype, ttl, rdata));
        }
    });
    whole.map_err(damaged)?;
    if met.len() == canonical_form.len() { Ok(found) } else { Err(MISFIT.to_string()) }
}

/// Err: the way does not begin at what is served.
fn fit(served: &Zone<'_>, way: &Diff) -> Result<(), String> {
    let mut has_added = false;
    let whole = served.for_each_record(&mut |owner, rtype, ttl, rdata| {
        has_added |= canonical(owner, rtype, ttl, rdata).is_some_and(|r| way.added().binary_search(&r).is_ok());
    });
    whole.map_err(damaged)?;
    standing(served, way.removed())?;
    if has_added { Err(MISFIT.to_string()) } else { Ok(()) }
}

/// Hands the records of another version to `f`: those that are served still as they are.
pub fn version(served: &Zone<'_>, way: &Diff, f: &mut dyn FnMut(Record)) -> Result<(), String> {
    let (mut gone, are_gone) = (HashSet::new(), !way.removed().is_empty());
    let whole = served.for_each_record(&mut |owner, rtype, ttl, rdata| {
        let canonical = || canonical(owner, rtype, ttl, rdata);
        let place = are_gone.then(canonical).flatten().and_then(|r| way.removed().binary_search(&r).ok());
        gone.extend(place);
        if let Some(record) = Record::new(owner, rtype, ttl, rdata).filter(|_| place.is_none()) {
            f(record);
        }
    });
    whole.map_err(damaged)?;
    if gone.len() != way.removed().len() {
        return Err(MISFIT.to_string());
    }
    way.added().iter().cloned().for_each(f);
    Ok(())
}

pub fn line(r: &Record) -> String {
    let mut line = String::new();
    zonefile::record_to_text(r.owner(), r.ttl, 1, r.rtype, r.rdata(), &mut line);
    line
}

/// A difference for people and programs; of each side as much as an answer takes, and how much more there is.
pub fn json(apex: &[u8], diff: &Diff) -> Json {
    let (removed, added) = (diff.removed(), diff.added());
    let left = removed.len().saturating_sub(RECORDS_MAX) + added.len().saturating_sub(RECORDS_MAX);
    excerpt(apex, diff, left)
}

/// The same of a difference that may be as large as the zone: no more of it is held than an answer takes.
pub fn json_between(apex: &[u8], served: &Zone<'_>, new: &Sorted<'_>) -> Result<Json, Damaged> {
    let (mut removed, mut added, mut left) = (Vec::new(), Vec::new(), 0);
    let mut keep = |kept: &mut Vec<Record>, some: Vec<Record>| {
        let room = RECORDS_MAX - kept.len();
        left += some.len().saturating_sub(room);
        kept.extend(some.into_iter().take(room));
    };
    each_difference(served, new, &mut |gone, come| {
        keep(&mut removed, gone);
        keep(&mut added, come);
        true
    })?;
    Ok(excerpt(apex, &Diff::between(removed, added).at(served.serial()?), left))
}

fn excerpt(apex: &[u8], diff: &Diff, left: usize) -> Json {
    let lines = |records: &[Record]| Json::list(records.iter().take(RECORDS_MAX), |r| Json::Text(line(r)));
    Json::Object(vec![
        ("zone", Json::text(name(apex))),
        ("from", Json::Number(diff.from.into())),
        ("to", Json::Number(diff.to.into())),
        ("removed", lines(diff.removed())),
        ("added", lines(diff.added())),
        ("left_out", Json::Number(left as u64)),
    ])
}

/// Who changed a zone whose file has changed.
pub fn by_file() -> Author {
    Author { kind: Kind::File, who: "changed".to_string() }
}

/// From whom a zone has come.
pub fn by_transfer(from: &str) -> Author {
    Author { kind: Kind::Transfer, who: format!("from {from}") }
}

/// The same, though guards objected.
pub fn by_force(author: Author) -> Author {
    Author { who: format!("{}, by force", author.who), ..author }
}

pub fn by_edit() -> Author {
    Author { kind: Kind::File, who: "edited".to_string() }
}

fn is_edit(author: &Author) -> bool {
    *author == by_edit() || *author == by_force(by_edit())
}

pub fn by_digest() -> Author {
    Author { kind: Kind::Server, who: "renewed the digest".to_string() }
}

pub fn by_return() -> Author {
    Author { kind: Kind::Server, who: "went on from the file's serial".to_string() }
}

pub fn by_updates_again() -> Author {
    Author { kind: Kind::Server, who: "went on from what updates had made".to_string() }
}

pub fn by_command() -> Author {
    Author { kind: Kind::Api, who: "command".to_string() }
}

pub fn by_going_back(serial: u32) -> Author {
    Author { kind: Kind::Rollback, who: format!("to {serial}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfer::When;
    use wire::rtype::{A, NS, TXT};

    const APEX: &[u8] = b"\x01z\0";

    fn built(serial: u8, names: usize, text: u8) -> Builder {
        let mut builder = Builder::new(7);
        builder.begin_zone(APEX);
        let soa = [&b"\0\0"[..], &[0, 0, 0, serial], &[0; 16]].concat();
        let mut add = |owner: &[u8], rtype, rdata: &[u8]| builder.record(owner, rtype, 60, rdata).unwrap();
        add(APEX, SOA, &soa);
        add(APEX, NS, b"\x01x\0");
        add(b"\x01x\x01z\0", TXT, &[1, text]);
        for i in 0..names {
            add(format!("\x06{i:06}\x01z\0").as_bytes(), A, &[192, 0, 2, 1]);
        }
        builder
    }

    /// A change that is missing between them is not always told by the serials.
    #[test]
    fn changes_that_do_not_fit_each_other_lead_nowhere() {
        let record = |n: u8| Record::new(b"\x01x\x01z\0", A, 60, &[192, 0, 2, n]).unwrap();
        let step = |from: u32, removed: &[u8], added: &[u8]| {
            let of = |all: &[u8]| all.iter().map(|n| record(*n)).collect();
            Entry {
                zone: APEX.into(),
                author: by_file(),
                when: When::at(1),
                diff: Diff::new(from, from + 1, of(removed), of(added)),
            }
        };
        for (steps, expect) in [
            (vec![step(1, &[1], &[2]), step(2, &[2], &[1, 3])], Some((vec![3], vec![]))),
            (vec![step(1, &[], &[2]), step(2, &[], &[2])], None),
            (vec![step(1, &[1], &[]), step(2, &[1], &[2])], None),
            (vec![step(1, &[2], &[1]), step(2, &[], &[1]), step(3, &[1], &[])], None),
        ] {
            let (last, steps) = (steps.len() as u32 + 1, steps.into_iter().collect());
            let numbers = |all: &[Record]| all.iter().map(|r| r.rdata()[3]).collect::<Vec<_>>();
            let found = way(&steps, last, (1, None)).ok().map(|way| (numbers(way.removed()), numbers(way.added())));
            assert_eq!(found, expect, "{steps:?}");
        }
    }

    #[test]
    fn an_edit_counts_for_the_version_that_it_comes_behind() {
        let step = |from: u32, author: fn() -> Author| Entry {
            zone: APEX.into(),
            author: author(),
            when: When::at(1),
            diff: Diff::new(from, from + 1, vec![], vec![Record::new(APEX, A, 60, &[192, 0, 2, 1]).unwrap()]),
        };
        let edited = [step(5, by_file), step(6, by_edit), step(7, by_file)].into_iter().collect();
        // 30: somebody has mended the zone under that.
        let of = [4, 5, 6, 7, 8, 30].map(|serial| has_edit_behind(&edited, serial));
        assert_eq!(of, [false, true, true, false, false, false]);
        assert!(!has_edit_behind(&VecDeque::new(), 5));
    }

    /// What is to be looked at most is what loses most.
    #[test]
    fn of_a_difference_however_large_the_beginning_is_shown_and_the_rest_counted() {
        let image = Image::open(built(7, RECORDS_MAX + 5, b'a').finish().0).unwrap();
        let zone = image.view().zones().next().unwrap().unwrap();
        let mut shown = String::new();
        let see = &mut |sorted: &Sorted<'_>| shown = json_between(APEX, &zone, sorted).unwrap().to_string();
        built(3, 0, b'b').show(see).unwrap();
        assert!(
            shown.starts_with("{\"zone\":\"z.\",\"from\":7,\"to\":3,\"removed\":[\"z. 60 IN SOA "),
            "{}",
            &shown[..200]
        );
        assert_eq!((shown.matches(" IN A ").count(), shown.matches(" IN TXT ").count()), (RECORDS_MAX - 1, 1));
        assert!(shown.ends_with(",\"left_out\":7}"), "{}", &shown[shown.len() - 100..]);
    }
}
