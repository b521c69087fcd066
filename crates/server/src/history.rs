//! What zones were: the differences that led to what is served, kept by age and size.
//!
//! ```text
//! data-dir/history/journal.0000000001   changes of zones that came from their files, or from going back
//! data-dir/journal/journal.0000000001   those that updates made (see `ledger`)
//! ```
//!
//! Nothing depends on it: it is written when a change is served, or an image with it takes its name, and read when somebody asks. A version of the past is what
//! is served and the way back to it; so it costs what has changed, and the image holds all the rest.

use crate::clock::{rfc3339, wall_s};
use crate::config::{self, apex};
use crate::images::{fingerprint_of, name};
use crate::json::Json;
use crate::log;
use crate::origin::stamp;
use crate::scribe;
use crate::sound::{self, Sound};
use front::{Published, Zones};
use image::edit::records_of;
use image::{Builder, Damaged, Image, Sorted, Zone};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use store::Stretch;
use store::atomic::{Output, exchange, prepare};
use store::journal::{Folder, Journal};
use transfer::record::{next_serial, with_serial};
use transfer::{Author, Conflict, Diff, Entry, Kind, Record, canonical, compare, merge};
use wire::rtype::{DNSKEY, SOA, ZONEMD};

const FOLDER: &str = "history";
const UPDATES: &str = "journal";
/// Segments that the size is divided into: so much of it goes at a time.
const SEGMENTS: u64 = 16;
const SEGMENT_MIN: u64 = 64 << 10;
/// Of one change; the history of a zone begins anew behind a larger one.
pub const CHANGE_OCTETS_MAX: usize = 64 << 20;
/// Zones whose changes are looked for together: each time all that is kept is read.
const AT_ONCE: usize = 128;
/// Versions of a zone by one owner that are looked at, newest first, and octets in memory of the records of all zones that are.
const VERSIONS_MAX: usize = 10_000;
const OCTETS_MAX: usize = 256 << 20;
/// Records that an answer lists.
const RECORDS_MAX: usize = 100_000;

/// Writes what has changed.
pub struct Recorder {
    data_dir: PathBuf,
    keep: config::History,
    /// Read when somebody asks first.
    open: Option<Open>,
}

struct Open {
    /// Opened with the first change.
    journal: Option<Journal<Folder>>,
    /// The serials to which the last changes led, and fingerprints of these: of the zones that have changed in the time that is kept, by their names'
    /// fingerprints. (Names would stay as long as the server, each made in the midst of what is not kept; and where two have one
    /// fingerprint, the history is looked through in vain.)
    ends: HashMap<u64, (u32, u64)>,
    /// How many there were when it was read. Zones that come and go under ever new names would make them ever more.
    zones: usize,
}

impl Recorder {
    pub fn new(data_dir: &Path, keep: config::History) -> Recorder {
        Recorder { data_dir: data_dir.to_path_buf(), keep, open: None }
    }

    /// How long, and how much, from now on.
    pub fn keep(&mut self, keep: config::History) {
        if keep.octets != self.keep.octets {
            // Its segments are of another size.
            self.open = None;
        }
        self.keep = keep;
    }

    /// Keeps these changes, which are served already, or will be at once.
    pub fn note(&mut self, changes: impl IntoIterator<Item = (Box<[u8]>, Diff)>, author: &dyn Fn(&[u8]) -> Author) {
        let mut changes = changes.into_iter().peekable();
        if changes.peek().is_none() || self.keep.octets == 0 {
            return;
        }
        if let Err(e) = self.append(changes, author) {
            log::warn("a change is served and not kept in the history", &[("why", &e)]);
        }
    }

    fn append(
        &mut self,
        changes: impl Iterator<Item = (Box<[u8]>, Diff)>,
        author: &dyn Fn(&[u8]) -> Author,
    ) -> io::Result<()> {
        let mut open = self.open.take().map_or_else(|| self.read(), Ok)?;
        let (mut changes, mut entries) = (Vec::from_iter(changes), Vec::new());
        while !changes.is_empty() {
            let some: Vec<_> = changes.drain(..changes.len().min(AT_ONCE)).collect();
            let is_apart = |diff: &Diff, end: u32| !diff.is_empty() && end != diff.from;
            let apart = some.iter().filter(|(zone, diff)| open.end(zone).is_some_and(|(end, _)| is_apart(diff, end)));
            let apart: HashSet<&[u8]> = apart.map(|(zone, _)| &**zone).collect();
            let past = if apart.is_empty() { Ok(Pasts::new()) } else { changes_of(&self.data_dir, FOLDER, &apart) };
            let past = past.unwrap_or_default();
            for (zone, diff) in some {
                let end = open.end(&zone);
                let Some(diff) = joined(diff, end, past.get(&zone)) else { continue };
                open.ends.insert(fingerprint_of(&zone), end_of(&diff));
                let mut author = author(&zone);
                if let Some((end, _)) = end.filter(|_| diff.is_empty()) {
                    author.who = "made anew".to_string();
                    let facts: [(&str, &dyn std::fmt::Display); 3] =
                        [("zone", &name(&zone)), ("serial", &diff.to), ("before", &end)];
                    log::info("a zone has come under the name of one that is gone: its history begins anew", &facts);
                }
                entries.push(Entry { zone, author, wall_s: wall_s(), diff }.encode());
            }
        }
        if !entries.is_empty() {
            let mut journal = open.journal.take().map_or_else(|| self.opened(), Ok)?;
            journal.append(&entries)?;
            let (end, kept) = (journal.next_position(), kept(&journal, &self.keep));
            journal.release(end, kept);
            open.journal = Some(journal);
        }
        // From time to time those are to go of which nothing is kept any more.
        let is_due = open.ends.len() > 2 * open.zones.max(AT_ONCE);
        self.open = Some(open).filter(|_| !is_due);
        Ok(())
    }

    /// The serial that the history of a zone ends with. All of it is read for the first who asks.
    pub fn last_serial(&mut self, zone: &[u8]) -> Option<u32> {
        if self.open.is_none() {
            self.open = self.read().inspect_err(unread).ok();
        }
        self.open.as_ref()?.end(zone).map(|(serial, _)| serial)
    }

    fn segment(&self) -> u64 {
        (self.keep.octets / SEGMENTS).max(SEGMENT_MIN)
    }

    /// What can be read of it; what cannot is told of.
    fn read(&self) -> io::Result<Open> {
        let mut ends = HashMap::new();
        each_change(&self.data_dir.join(FOLDER), |entry| {
            ends.insert(fingerprint_of(&entry.zone), end_of(&entry.diff));
        })?;
        Ok(Open { journal: None, zones: ends.len(), ends })
    }

    fn opened(&self) -> io::Result<Journal<Folder>> {
        let (journal, remarks) = Journal::open_history(Folder::open(&self.data_dir.join(FOLDER))?, self.segment())?;
        caution(&remarks);
        Ok(journal)
    }
}

impl Open {
    /// Where the history of a zone ends.
    fn end(&self, zone: &[u8]) -> Option<(u32, u64)> {
        self.ends.get(&fingerprint_of(zone)).copied()
    }
}

/// The change from where the history ends. A start compares with the image on the disk, which may be older: what was
/// laid over it is in the history and not in the image. None: the history ends there already.
///
/// Of a zone that has come, and was not served before, there is no difference, but a serial: where the history ends with another one, what it
/// says is of another zone of this name, and there is no way back to that.
fn joined(diff: Diff, end: Option<(u32, u64)>, past: Option<&VecDeque<Entry>>) -> Option<Diff> {
    if diff.is_empty() {
        return end.filter(|(end, _)| *end != diff.to).map(|_| diff);
    }
    let Some((end, last)) = end else { return Some(diff) };
    if end == diff.from {
        // The same once more, of a file that was edited without a new serial.
        return Some(diff).filter(|diff| diff.to != end || end_of(diff).1 != last);
    }
    match past.and_then(|changes| way(changes, end, diff.from).ok()) {
        Some(back) => back.then(diff).filter(|diff| !diff.is_empty()),
        None => Some(diff),
    }
}

/// The serial to which a change leads, and what tells it from others that lead there.
fn end_of(diff: &Diff) -> (u32, u64) {
    let mut hash = DefaultHasher::new();
    let records =
        [diff.removed(), diff.added()].map(|side| side.iter().map(|r| (r.owner(), r.rtype, r.ttl, r.rdata())));
    records.into_iter().for_each(|side| side.for_each(|r| Some(r).hash(&mut hash)));
    diff.removed().len().hash(&mut hash);
    (diff.to, hash.finish())
}

/// How many segments of a journal, the newest, are to be kept.
pub fn kept(journal: &Journal<Folder>, keep: &config::History) -> usize {
    let mut octets = 0;
    let mut is_kept = |path: &PathBuf| {
        let is_within = octets < keep.octets && !is_older(path, keep.age);
        octets += std::fs::metadata(path).map_or(0, |m| m.len());
        is_within
    };
    journal.places().rev().take_while(|path| is_kept(path)).count()
}

fn is_older(path: &Path, age: Duration) -> bool {
    let written = std::fs::metadata(path).and_then(|m| m.modified()).ok();
    written.and_then(|at| SystemTime::now().duration_since(at).ok()).is_some_and(|since| since > age)
}

/// Reads what has changed, and what was before.
#[derive(Clone)]
pub struct Past {
    pub published: Arc<Published<Zones<Stretch>>>,
    pub data_dir: PathBuf,
}

impl Past {
    /// The versions that a zone has had, newest last.
    pub fn log(&self, zone: &str) -> Result<Json, String> {
        let apex = named(zone)?;
        with_zone(&self.published, &apex, Sound::as_known, |_| Ok(()))?;
        let version = |e: &Entry| {
            Json::Object(vec![
                ("serial", Json::Number(e.diff.to.into())),
                ("before", Json::Number(e.diff.from.into())),
                ("when", Json::text(rfc3339(e.wall_s))),
                ("who", Json::text(&e.author)),
                ("removed", Json::Number(e.diff.removed().len() as u64)),
                ("added", Json::Number(e.diff.added().len() as u64)),
            ])
        };
        Ok(Json::list(&changes(&self.data_dir, &apex)?, version))
    }

    /// What leads from one version to another.
    pub fn diff(&self, zone: &str, from: u32, to: u32) -> Result<Json, String> {
        let apex = named(zone)?;
        with_zone(&self.published, &apex, Sound::as_known, |served| {
            let [back, there] = self.ways_back(&apex, served, [from, to])?;
            let diff = back.inverted().then(there).ok_or("the two versions do not meet")?;
            Ok(json(&apex, &diff))
        })
    }

    /// All records of a version; of the one that is served if none is named.
    pub fn show(&self, zone: &str, serial: Option<u32>) -> Result<Json, String> {
        let apex = named(zone)?;
        with_zone(&self.published, &apex, Sound::as_known, |served| {
            if served.records().map_err(damaged)? > RECORDS_MAX as u64 {
                return Err(format!(
                    "the zone has more than {RECORDS_MAX} records; see `dunlin zone dump` for all of them"
                ));
            }
            let serial = serial.map_or_else(|| served.serial().map_err(damaged), Ok)?;
            let way = self.way_back(&apex, served, serial)?;
            let mut lines = Vec::new();
            version(served, &way, &mut |r| lines.push(line(&r)))?;
            Ok(Json::list(lines, Json::Text))
        })
    }

    /// What leads from a zone to an old version of it, under the serial that follows.
    pub fn back(&self, apex: &[u8], served: &Zone<'_>, serial: u32) -> Result<Diff, String> {
        let now = served.serial().map_err(damaged)?;
        let (next, way) = (next_serial(now), self.way_back(apex, served, serial)?);
        if way.is_empty() {
            return Err(format!("version {serial} is what is served"));
        }
        if is_signed(served, apex)? || way.added().iter().any(|r| r.rtype == DNSKEY && r.owner() == apex) {
            return Err(SIGNED.to_string());
        }
        let removed = standing(served, way.removed())?;
        let added = way.added().iter().map(|r| renumbered(r.clone(), next)).collect();
        Ok(Diff::new(now, next, removed, added))
    }

    /// What leads from a zone to what it was at a serial.
    pub fn way_back(&self, apex: &[u8], served: &Zone<'_>, serial: u32) -> Result<Diff, String> {
        self.ways_back(apex, served, [serial]).map(|[way]| way)
    }

    /// The same for several serials. While its file owned a zone of updates other versions may have had the same ones: so it is what
    /// updates have changed, if that says it, and must fit in any case.
    fn ways_back<const N: usize>(
        &self,
        apex: &[u8],
        served: &Zone<'_>,
        serials: [u32; N],
    ) -> Result<[Diff; N], String> {
        let now = served.serial().map_err(damaged)?;
        let fitting = |changes: VecDeque<Entry>| {
            let back = |serial| way(&changes, now, serial).and_then(|back| fit(served, &back).map(|()| back));
            let ways = serials.into_iter().map(back).collect::<Result<Vec<_>, _>>()?;
            <[Diff; N]>::try_from(ways).map_err(|_| MISFIT.to_string())
        };
        fitting(changes_in(&self.data_dir, &[UPDATES], apex)?).or_else(|_| fitting(changes(&self.data_dir, apex)?))
    }

    /// Whether the edit of a file has led to this version.
    pub fn was_edited(&self, apex: &[u8], to: u32) -> Result<bool, String> {
        let (changes, by_edit) = (changes(&self.data_dir, apex)?, by_edit());
        Ok(changes.iter().any(|entry| entry.diff.to == to && entry.author == by_edit))
    }

    /// Writes the content of an old version, under the serial that follows the one that is served, into the zone's file.
    /// `was`: what told the file when it was looked at (`origin::stamp`); an edit since is not written over.
    pub fn write_back(&self, zone: &config::Zone, serial: u32, was: &str) -> Result<Replaced, String> {
        let changes = changes(&self.data_dir, &zone.apex)?;
        let found = with_zone(&self.published, &zone.apex, Sound::compared, |served| {
            let now = served.serial().map_err(damaged)?;
            if serial == now {
                return Err(format!("version {serial} is what is served"));
            }
            let way = way(&changes, now, serial)?;
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
        write(&zone.file, was, found.iter()).map_err(|e| format!("the file cannot be written: {e}"))
    }
}

fn is_signed(zone: &Zone<'_>, apex: &[u8]) -> Result<bool, String> {
    let node = zone.apex().map_err(damaged)?;
    Ok(records_of(&node, apex).map_err(damaged)?.iter().any(|r| r.rtype == DNSKEY))
}

/// Whether this version of a zone of a file is what its history ends with, under this serial, and leads to from what was served. Of versions with
/// one serial it may be any that was.
pub fn leads_to(data_dir: &Path, served: &Zone<'_>, version: &Sorted<'_>, serial: u32) -> bool {
    let Ok(from) = served.serial() else { return false };
    let Ok(changes) = changes_in(data_dir, &[FOLDER], version.apex()) else { return false };
    let Ok(Some(there)) = compare(served, version, CHANGE_OCTETS_MAX) else { return false };
    let there = but_for_serials([there.removed(), there.added()].map(folded));
    let (mut at, mut net) = (serial, Net::default());
    for step in of_this(&changes).skip_while(|step| step.diff.to != serial) {
        if step.diff.to != at {
            return false;
        }
        net.back(&step.diff);
        at = step.diff.from;
        if at == from && but_for_serials([1, -1].map(|sign| net.side(sign))) == there {
            return true;
        }
    }
    false
}

/// What goes and what comes: an SOA of which only the serial changes is not among it.
fn but_for_serials(sides: [BTreeSet<Record>; 2]) -> [BTreeSet<Record>; 2] {
    let bare = |r: Record| {
        if r.rtype == SOA { Record::new(r.owner(), SOA, r.ttl, &with_serial(r.rdata(), 0)) } else { Some(r) }
    };
    let [removed, added] = sides.map(|side| side.into_iter().filter_map(bare).collect::<BTreeSet<_>>());
    [&removed - &added, &added - &removed]
}

/// What changes, one after the other, come to. A record that went and came again counts nothing.
#[derive(Default)]
struct Net(HashMap<Record, i32>);

impl Net {
    /// Takes a change back.
    fn back(&mut self, diff: &Diff) {
        for (records, n) in [(diff.added(), -1), (diff.removed(), 1)] {
            folded(records).into_iter().for_each(|r| *self.0.entry(r).or_default() += n);
        }
    }

    fn side(&self, sign: i32) -> BTreeSet<Record> {
        self.0.iter().filter(|(_, n)| n.signum() == sign).map(|(r, _)| r.clone()).collect()
    }
}

fn folded(records: &[Record]) -> BTreeSet<Record> {
    records.iter().filter_map(|r| canonical(r.owner(), r.rtype, r.ttl, r.rdata())).collect()
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

/// Says what is missing or damaged of a journal.
pub fn caution(remarks: &[String]) {
    remarks.iter().for_each(|remark| log::warn("journal", &[("what", remark)]));
}

fn unread(why: &io::Error) {
    log::warn("serials may go back: the history cannot be read", &[("why", why)]);
}

/// The changes of a zone, oldest first.
fn changes(data_dir: &Path, apex: &[u8]) -> Result<VecDeque<Entry>, String> {
    changes_in(data_dir, &[FOLDER, UPDATES], apex)
}

/// Those that stand in these folders.
fn changes_in(data_dir: &Path, folders: &[&str], apex: &[u8]) -> Result<VecDeque<Entry>, String> {
    let mut all = VecDeque::new();
    for folder in folders {
        let found = changes_of(data_dir, folder, &HashSet::from([apex]))?.remove(apex);
        all = in_turn(all, found.unwrap_or_default());
    }
    Ok(all)
}

/// By apex.
type Pasts = HashMap<Box<[u8]>, VecDeque<Entry>>;

/// Goes through the changes that stand in a folder, as far as they can be read; what cannot is told of.
fn each_change(folder: &Path, mut see: impl FnMut(Entry)) -> io::Result<()> {
    if folder.exists() {
        // What a later version of the program wrote is passed over.
        let mut see = |octets: &[u8]| Entry::decode(octets).into_iter().for_each(&mut see);
        caution(&Journal::look_through(Folder::open(folder)?, &mut see)?);
    }
    Ok(())
}

/// The changes of these zones that stand in a folder, which is read as a whole for them.
fn changes_of(data_dir: &Path, folder: &str, apexes: &HashSet<&[u8]>) -> Result<Pasts, String> {
    let mut kept = HashMap::<Box<[u8]>, Kept>::new();
    let see = |entry: Entry| {
        if apexes.contains(&*entry.zone) {
            kept.entry(entry.zone.clone()).or_default().push(entry, OCTETS_MAX / apexes.len());
        }
    };
    each_change(&data_dir.join(folder), see).map_err(|e| format!("the history cannot be read: {e}"))?;
    Ok(kept.into_iter().map(|(apex, kept)| (apex, kept.entries)).collect())
}

/// A zone has one owner at a time; where it has had two, what goes on from the version before comes next, and the clock tells where that says
/// nothing. It may have been put back meanwhile: what one owner has done is in the order in which he did it.
fn in_turn(mut one: VecDeque<Entry>, mut other: VecDeque<Entry>) -> VecDeque<Entry> {
    let mut all = VecDeque::<Entry>::with_capacity(one.len() + other.len());
    while let (Some(a), Some(b)) = (one.front(), other.front()) {
        let [goes_on, other_does] = [a, b].map(|next| all.back().is_some_and(|last| last.diff.to == next.diff.from));
        let is_first = if goes_on == other_does { a.wall_s <= b.wall_s } else { goes_on };
        all.extend(if is_first { &mut one } else { &mut other }.pop_front());
    }
    all.extend(one);
    all.extend(other);
    all
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
    builder.show(&mut |zone| rdata = audit::zonemd(zone));
    records.extend(rdata.and_then(|rdata| Record::new(apex, ZONEMD, ttl, &rdata)));
    Ok(())
}

/// The serials that the changes of these zones of files end with, as far as they are kept.
pub fn last_serials(data_dir: &Path, is_wanted: impl Fn(&[u8]) -> bool) -> HashMap<Box<[u8]>, u32> {
    let mut ends = HashMap::new();
    let see = |entry: Entry| ends.extend(is_wanted(&entry.zone).then_some((entry.zone, entry.diff.to)));
    let _ = each_change(&data_dir.join(FOLDER), see).inspect_err(unread);
    ends
}

/// What gives a zone another serial, and changes nothing else. A signed one has none but who signs it gives it.
pub fn renumbering(zone: &Zone<'_>, serial: u32) -> Result<Diff, String> {
    let node = zone.apex().map_err(damaged)?;
    let apex = node.apex_name().map_err(damaged)?;
    if is_signed(zone, apex)? {
        return Err(SIGNED.to_string());
    }
    let soas = records_of(&node, apex).map_err(damaged)?.into_iter().filter(|r| r.rtype == SOA);
    let removed: Vec<_> = soas.filter_map(|r| Record::new(apex, SOA, r.ttl, &r.rdata)).collect();
    let added = removed.iter().map(|r| renumbered(r.clone(), serial)).collect();
    Ok(Diff::between(removed, added))
}

/// A file that took another one's place.
#[derive(Debug)]
pub struct Replaced {
    file: PathBuf,
    /// As it was written.
    is: String,
    /// Where the other one stands meanwhile; None: the file system cannot let it stand aside, and it is gone.
    aside: Option<PathBuf>,
}

impl Replaced {
    /// What was there before is not wanted any more.
    pub fn settle(self) -> io::Result<()> {
        self.aside.map_or(Ok(()), std::fs::remove_file)
    }

    /// What was there before is there again.
    pub fn undo(self) -> io::Result<()> {
        let aside = self.aside.ok_or_else(|| io::Error::other("what it held before is gone"))?;
        if stamp(&self.file) != self.is {
            let why = format!("it was edited meanwhile; what it held before lies in {}", aside.display());
            return Err(io::Error::other(why));
        }
        exchange(&aside, &self.file).and_then(|()| std::fs::remove_file(aside))
    }
}

/// Writes a zone file over another one, or over the one that a link leads to, if that is as it `was`.
pub fn write<'r>(file: &Path, was: &str, records: impl Iterator<Item = &'r Record>) -> io::Result<Replaced> {
    let (file, odd) = (file.canonicalize()?, || io::Error::from(io::ErrorKind::InvalidInput));
    let (folder, name) = (file.parent().ok_or_else(odd)?, file.file_name().and_then(|n| n.to_str()).ok_or_else(odd)?);
    let text = |out: &mut Output| {
        // First of all: nobody reads it who may not read that one.
        scribe::resemble(out, &std::fs::metadata(&file)?)?;
        for record in records {
            out.write_all(line(record).as_bytes())?;
            out.write_all(b"\n")?;
        }
        Ok(())
    };
    let edited = || io::Error::other("it was edited just now");
    let check = |_: &Path| if stamp(&file) == was { Ok(()) } else { Err(edited()) };
    // Another name than that of what goes aside when updates are written back: nothing is known of these files.
    let aside = format!(".{name}.back");
    let is_aside = prepare(folder, name, None, text, check)?.exchange(&aside)?;
    let aside = folder.join(aside);
    let replaced = Replaced { is: stamp(&file), aside: is_aside.then_some(aside.clone()), file };
    // It may have been edited after the last look.
    if is_aside && stamp(&aside) != was {
        replaced.undo()?;
        return Err(edited());
    }
    Ok(replaced)
}

/// Changes of one zone, within bounds: the oldest go first.
#[derive(Default)]
struct Kept {
    entries: VecDeque<Entry>,
    octets: usize,
}

impl Kept {
    fn push(&mut self, entry: Entry, octets_max: usize) {
        self.octets += entry.diff.octets();
        self.entries.push_back(entry);
        while self.entries.len() > VERSIONS_MAX || self.octets > octets_max && self.entries.len() > 1 {
            self.octets -= self.entries.pop_front().map_or(0, |entry| entry.diff.octets());
        }
    }
}

fn named(zone: &str) -> Result<Box<[u8]>, String> {
    apex(zone).map_err(|why| format!("`{zone}` is no name of a zone: {why}"))
}

fn damaged(damaged: Damaged) -> String {
    sound::damaged(damaged).to_string()
}

/// Calls `f` with a zone that is served. `sound`: `Sound::as_known`, or `Sound::compared` for what is written into files.
pub fn with_zone<T>(
    published: &Published<Zones<Stretch>>,
    apex: &[u8],
    sound: fn(&Image<Stretch>) -> Sound<'_>,
    f: impl FnOnce(&Zone<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let (now, _) = published.current();
    let (sound, told) = (sound(&now.image), |e: io::Error| e.to_string());
    let zone = sound.zone(apex).map_err(told)?.ok_or_else(|| format!("no zone {} is served", name(apex)))?;
    let found = f(&zone)?;
    sound.holds().map_err(told).map(|()| found)
}

/// What leads from the version that is served to an old one, its records in canonical form. `changes`: read after it was
/// known what is served.
fn way(changes: &VecDeque<Entry>, served: u32, serial: u32) -> Result<Diff, String> {
    let (mut at, mut net) = (served, Net::default());
    // What an update changes is in the journal before it is served, and may have come since.
    let mut steps = of_this(changes).skip_while(|step| step.diff.to != served);
    while at != serial {
        let step = steps.next().filter(|step| step.diff.to == at);
        let Some(Entry { diff, .. }) = step else {
            return Err(format!("no version {serial} is kept; `dunlin ctl zone log` lists those that are"));
        };
        net.back(diff);
        at = diff.from;
    }
    let side = |sign| net.side(sign).into_iter().collect();
    Ok(Diff::new(served, serial, side(-1), side(1)))
}

/// The changes of a zone, newest first, and none of another one of its name.
fn of_this(changes: &VecDeque<Entry>) -> impl Iterator<Item = &Entry> {
    changes.iter().rev().take_while(|step| !step.diff.is_empty())
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

/// An SOA with another serial; any other record as it is.
fn renumbered(r: Record, serial: u32) -> Record {
    let soa = || Record::new(r.owner(), SOA, r.ttl, &with_serial(r.rdata(), serial));
    if r.rtype == SOA { soa().unwrap_or(r) } else { r }
}

/// Hands the records of another version to `f`: those that are served still as they are.
pub fn version(served: &Zone<'_>, way: &Diff, f: &mut dyn FnMut(Record)) -> Result<(), String> {
    let mut gone = HashSet::new();
    let whole = served.for_each_record(&mut |owner, rtype, ttl, rdata| {
        let place = canonical(owner, rtype, ttl, rdata).and_then(|r| way.removed().binary_search(&r).ok());
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
    let lines = |records: &[Record]| Json::list(records.iter().take(RECORDS_MAX), |r| Json::Text(line(r)));
    let left = diff.removed().len().saturating_sub(RECORDS_MAX) + diff.added().len().saturating_sub(RECORDS_MAX);
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

pub fn by_edit() -> Author {
    Author { kind: Kind::File, who: "edited".to_string() }
}

pub fn by_digest() -> Author {
    Author { kind: Kind::Server, who: "renewed the digest".to_string() }
}

pub fn by_return() -> Author {
    Author { kind: Kind::Server, who: "went on from the file's serial".to_string() }
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
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_edit_is_not_written_over() {
        let folder = std::env::temp_dir().join(format!("dunlin-history-edit-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (file, record) = (folder.join("z"), Record::new(b"\x01z\0", 1, 60, &[192, 0, 2, 1]).unwrap());
        std::fs::write(&file, "an edit").unwrap();
        let was = stamp(&file);
        std::fs::write(&file, "another edit").unwrap();
        assert!(write(&file, &was, [&record].into_iter()).unwrap_err().to_string().contains("edited just now"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "another edit");
        let (was, mode) = (stamp(&file), std::fs::Permissions::from_mode(0o640));
        std::fs::set_permissions(&file, mode.clone()).unwrap();
        for is_wanted in [false, true] {
            let replaced = write(&file, &was, [&record].into_iter()).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "z. 60 IN A 192.0.2.1\n");
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, mode.mode());
            if is_wanted { replaced.settle() } else { replaced.undo() }.unwrap();
            assert_eq!(stamp(&file) == was, !is_wanted, "what was there before is there again, as it was");
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A start compares with an image that is older than the history.
    #[test]
    fn what_comes_again_stands_there_once() {
        let data = std::env::temp_dir().join(format!("dunlin-history-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&data);
        std::fs::create_dir_all(&data).unwrap();
        let record = |n: u8| Record::new(&[1, n, 1, b'z', 0], 1, 60, &[192, 0, 2, n]).unwrap();
        let diff = |from, to, n| Diff::new(from, to, vec![], vec![record(n)]);
        let keep = config::History { age: Duration::from_secs(60), octets: 1 << 20 };
        let note = |recorder: &mut Recorder, diff| recorder.note([(b"\x01z\0"[..].into(), diff)], &|_| by_file());
        let mut recorder = Recorder::new(&data, keep);
        [diff(6, 7, b'a'), diff(7, 7, b'b'), diff(7, 7, b'b')].into_iter().for_each(|diff| note(&mut recorder, diff));
        note(&mut Recorder::new(&data, keep), diff(7, 7, b'b'));
        let mut recorder = Recorder::new(&data, keep);
        note(&mut recorder, diff(7, 7, b'c'));
        recorder.keep(config::History { octets: 2 << 20, ..keep });
        note(&mut recorder, diff(7, 7, b'c'));
        note(&mut recorder, diff(7, 8, b'd'));
        let added: Vec<_> = changes(&data, b"\x01z\0").unwrap().iter().map(|e| e.diff.added()[0].owner()[1]).collect();
        assert_eq!(added, *b"abcd");
        std::fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn what_an_owner_has_done_stays_in_order_when_the_clock_is_put_back() {
        let entry = |(to, wall_s): (u32, u64)| {
            let diff = Diff::new(to - 1, to, Vec::new(), Vec::new());
            Entry { zone: b"\x01z\0"[..].into(), author: by_file(), wall_s, diff }
        };
        let order = |files: &[(u32, u64)], updates: &[(u32, u64)]| -> Vec<u32> {
            let [files, updates] = [files, updates].map(|all| all.iter().copied().map(entry).collect());
            in_turn(files, updates).iter().map(|e| e.diff.to).collect()
        };
        assert_eq!(order(&[(2, 100), (3, 110)], &[(4, 120), (5, 130)]), [2, 3, 4, 5]);
        assert_eq!(order(&[(2, 100), (4, 130)], &[(3, 120)]), [2, 3, 4], "it went back and forth");
        assert_eq!(order(&[], &[(2, 100), (3, 50), (4, 60)]), [2, 3, 4]);
        assert_eq!(
            order(&[(2, 100), (5, 50)], &[(3, 110), (4, 120)]),
            [2, 3, 4, 5],
            "it was put back between two owners"
        );
        assert_eq!(order(&[(2, 100), (4, 130)], &[(3, 130)]), [2, 3, 4], "both in one second");
    }
}
