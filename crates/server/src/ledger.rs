//! Zones that are changed by updates, on the disk: each as a zone file of ours, and the journal of all changes since.
//!
//! ```text
//! data-dir/journal/journal.0000000001   changes of all zones, in the order in which they became durable
//! data-dir/journal/example.com.zone     the zone as it was at a position of the journal, which its first line names
//! ```
//!
//! Such a zone was read once from the file that is configured, and belongs to updates from then on. What is served after
//! a crash is the last zone file and the changes behind its position: what was acknowledged. Decides nothing.

use crate::clock::wall_s;
use crate::config::Zone;
use crate::images::name;
use crate::zonetext;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use store::atomic::write_atomically;
use store::journal::{Folder, Journal, SEGMENT_OCTETS};
use transfer::allow::Rules;
use transfer::{Author, Contents, Diff, Entry, Kind, Record};
use wire::rtype::SOA;
use zonefile::Objection;

const FOLDER: &str = "journal";
const HEAD: &str = "; dunlin, position";
/// Segments that are kept for history though no zone needs them: 1 GiB at most.
const SEGMENTS_KEPT: usize = 16;

pub struct Ledger {
    folder: PathBuf,
    journal: Journal<Folder>,
    /// By apex. Those that are configured.
    zones: HashMap<Box<[u8]>, Owned>,
}

/// A zone that updates change.
pub struct Owned {
    pub rules: Rules,
    /// Updates of it wait for somebody's word.
    pub is_frozen: bool,
    /// All its records: a changed zone is in memory once more than its image.
    contents: Contents,
    /// Changes from here on are not in its file.
    position: u64,
    /// What came before, newest last.
    versions: Vec<Version>,
}

/// A change that was made.
#[derive(Clone, Debug)]
pub struct Version {
    pub from: u32,
    pub to: u32,
    pub wall_s: u64,
    pub author: String,
    pub removed: usize,
    pub added: usize,
}

impl Version {
    fn of(entry: &Entry) -> Version {
        Version {
            from: entry.diff.from,
            to: entry.diff.to,
            wall_s: entry.wall_s,
            author: entry.author.to_string(),
            removed: entry.diff.removed().len(),
            added: entry.diff.added().len(),
        }
    }
}

/// Versions of a zone that are remembered; older ones are forgotten.
const VERSIONS_MAX: usize = 10_000;

impl Owned {
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    fn remember(&mut self, version: Version) {
        if self.versions.len() == VERSIONS_MAX {
            self.versions.drain(..VERSIONS_MAX / 10);
        }
        self.versions.push(version);
    }
}

/// Where the zones that take updates are read from: our own files, once they are there.
pub fn own(zones: &mut [Zone], data_dir: &Path) {
    for zone in zones.iter_mut().filter(|z| !z.allow_update.0.is_empty()) {
        let file = file_of(&data_dir.join(FOLDER), &zone.apex);
        if file.exists() {
            zone.file = file;
        }
    }
}

/// The name of a zone's file: its text, with whatever is no letter, digit, dot, hyphen or underscore as %XX.
fn file_of(folder: &Path, apex: &[u8]) -> PathBuf {
    let mut file = String::new();
    for c in name(apex).to_string().trim_end_matches('.').bytes() {
        match c {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_' => file.push(c as char),
            c => file.push_str(&format!("%{c:02X}")),
        }
    }
    folder.join(format!("{file}.zone"))
}

impl Ledger {
    /// Brings the zones that take updates to where the journal says that they are, and lets them be read from there.
    /// None: no zone takes updates. Returns also what an operator should hear.
    pub fn open(data_dir: &Path, zones: &mut [Zone]) -> io::Result<(Option<Ledger>, Vec<String>)> {
        if zones.iter().all(|z| z.allow_update.0.is_empty()) {
            return Ok((None, Vec::new()));
        }
        let folder = data_dir.join(FOLDER);
        let disk = Folder::open(&folder)?;
        let mut known = HashMap::new();
        let mut remarks = Vec::new();
        for zone in zones.iter().filter(|z| !z.allow_update.0.is_empty()) {
            if let Some(owned) = load(&folder, zone, &mut remarks)? {
                known.insert(zone.apex.clone(), owned);
            }
        }
        let from = known.values().map(|z| z.position).min().unwrap_or(0);
        let mut faults = Vec::new();
        let mut replay = |position, octets: &[u8]| {
            if let Err(why) = replay_one(&mut known, position, octets) {
                faults.push(format!("change {position} of the journal: {why}"));
            }
        };
        let (journal, more) = Journal::open(disk, SEGMENT_OCTETS, from, &mut replay)?;
        if !faults.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, faults.join("; ")));
        }
        remarks.extend(more);
        let mut ledger = Ledger { folder, journal, zones: known };
        for zone in zones.iter().filter(|z| !z.allow_update.0.is_empty()) {
            if let Err(why) = ledger.import(zone) {
                remarks.push(format!("the zone {} takes no updates: {why}", name(&zone.apex)));
            }
        }
        ledger.save(&ledger.behind())?;
        own(zones, data_dir);
        Ok((Some(ledger), remarks))
    }

    /// Reads a zone that is new here from the file that is configured.
    fn import(&mut self, zone: &Zone) -> Result<(), String> {
        if self.zones.contains_key(&zone.apex) {
            return Ok(());
        }
        let contents = read(zone)?;
        let position = self.journal.next_position();
        let owned =
            Owned { rules: zone.allow_update.clone(), is_frozen: false, contents, position, versions: Vec::new() };
        write(&self.folder, &zone.apex, &owned, position, stamp(&zone.file)).map_err(|e| e.to_string())?;
        self.zones.insert(zone.apex.clone(), owned);
        Ok(())
    }

    pub fn zone(&self, apex: &[u8]) -> Option<&Owned> {
        self.zones.get(apex)
    }

    pub fn zone_mut(&mut self, apex: &[u8]) -> Option<&mut Owned> {
        self.zones.get_mut(apex)
    }

    /// Goes on to the next version in memory: for the changes of one group that follow one another. Whoever stages keeps
    /// or takes back.
    pub fn stage(&mut self, apex: &[u8], diff: &Diff) -> bool {
        self.zones.get_mut(apex).is_some_and(|zone| zone.contents.apply(diff).is_ok())
    }

    /// Makes what was staged durable. Err: it is taken back.
    pub fn keep(&mut self, entries: &[Entry]) -> io::Result<()> {
        let octets: Vec<Vec<u8>> = entries.iter().map(Entry::encode).collect();
        if let Err(e) = self.journal.append(&octets) {
            for entry in entries.iter().rev() {
                self.stage(&entry.zone, &entry.diff.clone().inverted());
            }
            return Err(e);
        }
        for entry in entries {
            if let Some(zone) = self.zones.get_mut(&entry.zone) {
                zone.remember(Version::of(entry));
            }
        }
        Ok(())
    }

    /// Zones whose files are behind the journal.
    fn behind(&self) -> Vec<Box<[u8]>> {
        let end = self.journal.next_position();
        self.zones.iter().filter(|(_, z)| z.position < end && !z.versions.is_empty()).map(|(a, _)| a.clone()).collect()
    }

    /// Writes the files of these zones anew, and lets go of the changes that no zone needs.
    pub fn save(&mut self, apexes: &[Box<[u8]>]) -> io::Result<()> {
        let position = self.journal.next_position();
        for apex in apexes {
            let Some(zone) = self.zones.get_mut(apex) else { continue };
            let import = imported(&file_of(&self.folder, apex));
            write(&self.folder, apex, zone, position, import)?;
            zone.position = position;
        }
        let needed = self.zones.values().map(|z| z.position).min().unwrap_or(position);
        self.journal.release(needed.min(self.journal.start_of_last(SEGMENTS_KEPT)));
        Ok(())
    }
}

/// A zone that was imported before, as its file has it.
fn load(folder: &Path, zone: &Zone, remarks: &mut Vec<String>) -> io::Result<Option<Owned>> {
    let file = file_of(folder, &zone.apex);
    if !file.exists() {
        return Ok(None);
    }
    let odd = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", file.display()));
    let position = head(&file).and_then(|words| words.first()?.parse().ok());
    let position = position.ok_or_else(|| odd("its first line names no position of the journal"))?;
    if imported(&file) != stamp(&zone.file) {
        remarks.push(format!(
            "{} was edited, and is not read: the zone {} belongs to updates; to read it again, stop the server and remove {}",
            zone.file.display(),
            name(&zone.apex),
            file.display()
        ));
    }
    let contents = read(&Zone::new(zone.apex.clone(), file.clone())).map_err(|why| odd(&why))?;
    let rules = zone.allow_update.clone();
    Ok(Some(Owned { rules, is_frozen: false, contents, position, versions: Vec::new() }))
}

/// Brings a change back. Err: it is none, or none of the version that is there.
fn replay_one(zones: &mut HashMap<Box<[u8]>, Owned>, position: u64, octets: &[u8]) -> Result<(), String> {
    let entry = Entry::decode(octets).map_err(|e| e.to_string())?;
    // A zone that is no longer configured, or whose file was removed.
    let Some(zone) = zones.get_mut(&entry.zone) else { return Ok(()) };
    if position >= zone.position {
        let misfit = |_| format!("it does not fit the zone {}", name(&entry.zone));
        zone.contents.apply(&entry.diff).map_err(misfit)?;
    }
    zone.remember(Version::of(&entry));
    Ok(())
}

/// All records of a zone's file. Err: the first thing wrong with it.
fn read(zone: &Zone) -> Result<Contents, String> {
    let mut all = Vec::new();
    let mut sink = |r: zonefile::Record<'_>, _: &zonefile::Place| {
        let record = Record::new(r.owner, r.rtype, r.ttl, r.rdata);
        all.push(record.ok_or_else(|| Objection::refusal("a record that is none".to_string()))?);
        Ok(())
    };
    let reading = zonetext::read(zone, &mut sink).map_err(|unread| unread.why.to_string())?;
    let first = reading.report.problems.iter().find(|p| p.severity == zonefile::Severity::Error);
    match first {
        Some(problem) => Err(format!("{}: {}", problem.place, problem.what)),
        None if !all.iter().any(|r| r.rtype == SOA && *r.owner() == *zone.apex) => Err("it has no SOA".to_string()),
        None => Ok(Contents::of(all)),
    }
}

fn write(folder: &Path, apex: &[u8], zone: &Owned, position: u64, import: String) -> io::Result<()> {
    let file = file_of(folder, apex);
    let file = file.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    write_atomically(folder, file, None, |out| {
        writeln!(out, "{HEAD} {position} {import}")?;
        // The SOA first, as everybody expects; all else in canonical order.
        let (soa, others): (Vec<&Record>, Vec<&Record>) = zone.contents.records().partition(|r| r.rtype == SOA);
        let mut line = String::new();
        for r in soa.into_iter().chain(others) {
            line.clear();
            zonefile::record_to_text(r.owner(), r.ttl, 1, r.rtype, r.rdata(), &mut line);
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    })
    .map(drop)
}

/// The words behind the beginning of a file's first line.
fn head(file: &Path) -> Option<Vec<String>> {
    use std::io::{BufRead, BufReader};
    let mut line = String::new();
    BufReader::new(std::fs::File::open(file).ok()?).read_line(&mut line).ok()?;
    Some(line.strip_prefix(HEAD)?.split_whitespace().map(str::to_owned).collect())
}

/// The stamp of the file that a zone was imported from, as its own file remembers it.
fn imported(file: &Path) -> String {
    head(file).and_then(|words| words.get(1).cloned()).unwrap_or_default()
}

/// What tells an edited file: its size and the time of its last change.
fn stamp(file: &Path) -> String {
    let modified = |m: std::fs::Metadata| m.modified().ok()?.duration_since(UNIX_EPOCH).ok().map(|t| (m.len(), t));
    let found = std::fs::metadata(file).ok().and_then(modified);
    found.map_or_else(|| "none".to_string(), |(len, t)| format!("{len}-{}", t.as_nanos()))
}

/// A change by an update.
pub fn entry(zone: &[u8], who: String, diff: Diff) -> Entry {
    Entry { zone: zone.into(), author: Author { kind: Kind::Update, who }, wall_s: wall_s(), diff }
}
