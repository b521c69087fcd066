//! Zones that are changed by updates, on the disk: each as a zone file of ours, and the journal of all changes since.
//!
//! ```text
//! data-dir/journal/journal.0000000001   changes of all zones, in the order in which they became durable
//! data-dir/journal/example.com.zone     the zone as it was at a position of the journal, which its first line names
//! data-dir/journal/example.com.origin   what its configured file was when we read or wrote it (see `origin`)
//! data-dir/journal/example.com.overtaken  the newest serial under which something else was served, while it was not its updates'
//! data-dir/journal/released             no zone needs what stands before this position, and a sum of it
//! ```
//!
//! Such a zone was read once from the file that is configured, and belongs to updates from then on. What is served after
//! a crash is the last zone file and the changes behind its position: what was acknowledged. A start reads the journal
//! from `released` on: what stands before is history, for however long that is kept, and costs a start nothing. Decides
//! nothing, and holds no zone's records: they are in the image, and what has changed since its file was written is
//! `Unwritten`.
//!
//! A zone whose file is not the one that its changes were made of is served as that file has it, takes no updates, and keeps its
//! changes in the journal until somebody mends the file: other zones do not wait for that.

mod files;
mod hand;
mod marks;
mod release;

use crate::clock::change_now;
use crate::config::{History, Written, Zone};
use crate::history::{self, Keeping};
use crate::images::laying;
use crate::images::manifest::{Known, Manifest};
use crate::images::name;
use crate::images::sound::{Sound, damaged};
use crate::scribe::origin::Origin;
use crate::stamp::{self, Stamp, may_be_there};
use crate::update::novices::Wanted;
use crate::update::strangers::{Lacking, Strangers};
use crate::update::unwritten::Names;
use crate::zonetext::Text;
use crate::zonetext::sum::{self, Summed};
pub use files::{Files, open_files};
use front::locks::hold;
use hand::Employer;
pub use hand::Group;
pub use hand::Hand;
use image::{View, Zone as ImageZone};
pub use marks::{has_left, is_overtaken, overtake};
use release::{RELEASED, released, said_released, write_released};
pub use release::{Releaser, Unneeded};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use store::atomic::{Output, Prepared, prepare};
use store::journal::{Folder, Journal, SEGMENT_OCTETS};
use transfer::allow::Rules;
use transfer::{Author, Diff, Entry, Head, Kind};
use wire::rtype::{Rtype, SOA};

pub const FOLDER: &str = "journal";
/// What the first line of a zone's file says of it, with the position.
const POSITION: &str = "position";
pub struct Ledger {
    folder: PathBuf,
    /// Held by the journal's thread while it writes what was handed to it, and for a moment by whoever lets go of what is not needed.
    journal: Arc<Mutex<Journal<Folder>>>,
    /// None: there is no such thread.
    hand: Option<Employer>,
    /// As the file says.
    released: Arc<AtomicU64>,
    /// What is kept though no zone needs it.
    history: History,
    /// By apex. Those that are configured.
    zones: HashMap<Box<[u8]>, Owned>,
}

/// A zone that updates change.
pub struct Owned {
    pub rules: Rules,
    /// Updates of it wait for somebody's word.
    pub is_frozen: bool,
}

impl Owned {
    fn new(rules: Rules) -> Owned {
        Owned { rules, is_frozen: false }
    }
}

fn data_dir(folder: &Path) -> &Path {
    folder.parent().unwrap_or(Path::new(""))
}

/// Where the zones that take updates are read from: our own files, once they are there.
pub fn own(zones: &mut Written, data_dir: &Path) {
    // They are shared, and copied to say where one lies.
    if !zones.iter().any(Zone::is_owned) {
        return;
    }
    for zone in zones.iter_mut() {
        if let Some(file) = own_file(zone, data_dir) {
            zone.read_from(file);
        }
    }
}

/// Whether one of these zones has a file of ours now, and is to be read from another one.
pub fn owns_more<'z>(mut zones: impl Iterator<Item = &'z Zone>, data_dir: &Path) -> bool {
    zones.any(|zone| own_file(zone, data_dir).is_some_and(|file| file != zone.file))
}

/// The file of ours that a zone is read from, if it takes updates and that is there.
pub fn own_file(zone: &Zone, data_dir: &Path) -> Option<PathBuf> {
    if !zone.is_owned() {
        return None;
    }
    let file = file_of(&data_dir.join(FOLDER), &zone.apex);
    // Or what is configured would be served instead.
    may_be_there(&file).then_some(file)
}

/// Whether this is the file of ours of a zone.
pub fn is_file_of(data_dir: &Path, apex: &[u8], file: &Path) -> bool {
    let folder = data_dir.join(FOLDER);
    file.parent() == Some(&*folder) && file == file_of(&folder, apex)
}

/// So much of the name of a zone is that of its file: a file's name has 255 octets at most, and more stands behind it.
const NAME_MAX: usize = 240;

/// The name of a zone's file: its text, with whatever is no letter, digit, dot, hyphen or underscore as %XX; of a longer one its beginning, and a
/// fingerprint that nobody finds another name for.
pub fn file_of(folder: &Path, apex: &[u8]) -> PathBuf {
    let mut file = String::new();
    for c in name(apex).to_string().trim_end_matches('.').bytes() {
        match c {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_' => file.push(c as char),
            c => file.push_str(&format!("%{c:02X}")),
        }
    }
    if file.len() > NAME_MAX {
        let digest = Sha256::digest(apex);
        file.truncate(NAME_MAX - 33);
        file.push('~');
        digest[..16].iter().for_each(|octet| file.push_str(&format!("{octet:02x}")));
    }
    folder.join(format!("{file}.zone"))
}

/// Opens the journal, and hands its changes from where it is released on to `take`. Returns also what an operator should hear.
fn open(folder: &Path, from: u64, take: &mut dyn FnMut(u64, Entry)) -> io::Result<(Journal<Folder>, Vec<String>)> {
    let mut faults = Vec::new();
    let mut replay = |position, octets: &[u8]| match Entry::decode(octets) {
        Ok(entry) => take(position, entry),
        Err(why) => faults.push(format!("change {position} of the journal: {why}")),
    };
    let (journal, mut remarks) = Journal::open(Folder::open(folder)?, SEGMENT_OCTETS, from, &mut replay)?;
    if from > 0 && said_released(folder)?.is_none() {
        let file = folder.join(RELEASED);
        let what = if file.exists() { "it is damaged" } else { "it is not there" };
        let file = file.display();
        remarks.push(format!(
            "{file}: {what}, and the journal begins with change {from}: zones may lack what stood before"
        ));
    }
    if faults.is_empty() {
        Ok((journal, remarks))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, faults.join("; ")))
    }
}

/// Changes of zones of these names that some file of ours may lack, as far as they can be read: for who looks at what was served, before anything is
/// made of it.
pub fn each_unreleased(data_dir: &Path, is_wanted: impl Fn(&[u8]) -> bool, mut see: impl FnMut(Entry)) {
    let folder = data_dir.join(FOLDER);
    if !may_be_there(&folder) {
        return;
    }
    let mut take = |_, octets: &[u8]| {
        if Head::of(octets).is_some_and(|head| is_wanted(head.zone)) {
            Entry::decode(octets).into_iter().for_each(&mut see);
        }
    };
    let read = released(&folder)
        .and_then(|from| Journal::open(Folder::open(&folder)?, SEGMENT_OCTETS, from, &mut take).map(drop));
    let _ =
        read.inspect_err(history::unread("zones may be served first as they were before: the journal cannot be read"));
}

/// Brings the files of zones that lack their last updates to where these had led, as far as they can be; nobody changes these zones meanwhile. By apex:
/// from where on the journal has what is behind. `least`: it does not end before this position. Returns what an operator should hear, and those that lack
/// them still.
pub fn catch_up(data_dir: &Path, lacking: &HashMap<Box<[u8]>, u64>, least: u64) -> io::Result<(Vec<String>, Lacking)> {
    let folder = data_dir.join(FOLDER);
    // Of zones whose files were written long before what is released nothing stands between, and all that does may be gone.
    let released = said_released(&folder)?.unwrap_or_default();
    let from = lacking.values().copied().min().unwrap_or_default().max(released);
    let (mut strangers, mut end, mut faults) = (Strangers::of(folder.clone()), from, Vec::new());
    let mut note = |position: u64, octets: &[u8]| {
        if position != end {
            faults.push(format!("the changes {end} to {position} of the journal are not there"));
        }
        end = position + 1;
        if Head::of(octets).is_none_or(|head| lacking.contains_key(head.zone)) {
            match Entry::decode(octets) {
                Ok(entry) => strangers.note(position, entry),
                Err(why) => faults.push(format!("change {position} of the journal: {why}")),
            }
        }
    };
    let mut remarks = Journal::look_through(Folder::open(&folder)?, from, &mut note)?;
    if end < least {
        faults.push(format!("the changes {end} to {} of the journal cannot be read", least - 1));
        faults.append(&mut remarks);
    }
    if !faults.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, faults.join("; ")));
    }
    // What has come before is history, and may be gone.
    let older = |apex: &[u8], from: u64| {
        let file = file_of(&folder, apex);
        match position_of(&file) {
            Ok(position) if position >= from => None,
            Ok(_) => Some(format!("{}: it is older than the one that was there", file.display())),
            Err(_) if is_taken_away(&file) => None,
            Err(why) => Some(why.to_string()),
        }
    };
    let unfit = lacking.iter().filter_map(|(apex, from)| Some((apex.clone(), *from, older(apex, *from)?)));
    let mut still: Lacking = unfit.collect();
    still.iter().for_each(|(apex, ..)| strangers.forget(apex));
    let (told, others) = strangers.catch_up(from, end);
    remarks.extend(told);
    still.extend(others);
    Ok((remarks, still))
}

/// Whether somebody has the zone begin anew: all is away that was kept of it, and not only this file, which he may mend.
pub fn is_taken_away(file: &Path) -> bool {
    !may_be_there(file) && !may_be_there(&file.with_extension("origin"))
}

/// Whether a zone of the image was made of this file of ours as it is now: then what the file holds is what is served.
pub fn is_made_of(manifest: &Manifest, view: View<'_>, apex: &[u8], file: &Path) -> bool {
    // One that had been written just before it was read has no stamp to be believed. But each change of the zone has a serial of its own.
    let is_served = || {
        let served = laying::serial(view, apex);
        served.is_some() && served == serial_in(file)
    };
    let is = |known: Known<'_>| {
        let is_as_read = |(file, stamp): (&Path, Option<Stamp>)| match stamp {
            Some(stamp) => Stamp::of(file) == Some(stamp),
            None => is_served(),
        };
        known.problem.is_none() && known.file == file && known.sources().all(is_as_read)
    };
    manifest.find(apex).is_some_and(is)
}

/// The serial of a zone as its file of ours has it (see `push_record`).
pub fn serial_in(file: &Path) -> Option<u32> {
    let soa = |line: String| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_soa = words.get(3) == Some(&"SOA");
        words.iter().rev().nth(4).filter(|_| is_soa)?.parse().ok()
    };
    BufReader::new(File::open(file).ok()?).lines().map_while(Result::ok).find_map(soa)
}

impl Ledger {
    /// That of no zone. Returns also which zones cannot be brought to where they were, and what an operator should hear.
    pub fn open(data_dir: &Path, history: History) -> io::Result<(Ledger, Lacking, Vec<String>)> {
        let folder = data_dir.join(FOLDER);
        Folder::open(&folder)?;
        let released = released(&folder)?;
        let mut strangers = Strangers::of(folder.clone());
        let (journal, mut remarks) = open(&folder, released, &mut |position, entry| strangers.note(position, entry))?;
        let (told, unfit) = strangers.catch_up(released, journal.next_position());
        remarks.extend(told);
        Ok((Ledger::of(folder, journal, released, history, HashMap::new()), unfit, remarks))
    }

    fn of(
        folder: PathBuf,
        journal: Journal<Folder>,
        released: u64,
        history: History,
        zones: HashMap<Box<[u8]>, Owned>,
    ) -> Ledger {
        let (journal, released) = (Arc::new(Mutex::new(journal)), Arc::new(AtomicU64::new(released)));
        Ledger { folder, journal, hand: None, released, history, zones }
    }

    /// What is kept from now on is written by another thread, which does this.
    pub fn employ(&mut self) -> Hand {
        let (employer, hand) = hand::pair(&self.journal);
        self.hand = Some(employer);
        hand
    }

    /// Who lets go of what no zone's file needs, elsewhere.
    pub fn releaser(&self) -> Releaser {
        let (folder, journal, released) = (self.folder.clone(), Arc::clone(&self.journal), Arc::clone(&self.released));
        Releaser { folder, journal, released, keeping: Keeping::default() }
    }

    /// What may go if no zone's file needs the changes before this position.
    pub fn unneeded(&self, before: u64) -> Unneeded {
        Unneeded { before, history: self.history }
    }

    fn journal(&self) -> MutexGuard<'_, Journal<Folder>> {
        hold(&self.journal)
    }

    pub fn zone(&self, apex: &[u8]) -> Option<&Owned> {
        self.zones.get(apex)
    }

    /// Zones that take updates have other rules from now on: what is wanted of them is done. Others take none any more, or not before they are served once
    /// more: which, is returned, and what is wanted of them is left.
    pub fn adopt(&mut self, wanted: &mut Wanted) -> Vec<Box<[u8]>> {
        self.history = wanted.history.unwrap_or(self.history);
        let mut left = Vec::new();
        wanted.changes.retain(|apex, change| {
            let Some(zone) = self.zones.get_mut(apex) else { return true };
            match change.wish.take_if(|wish| wish.is_ours && !change.was_other) {
                Some(wish) => zone.rules = wish.rules,
                None => left.extend(self.zones.remove_entry(apex).map(|(apex, _)| apex)),
            }
            !self.zones.contains_key(apex)
        });
        left
    }

    /// A zone that is served from its file of ours belongs to updates from now on. Returns which position that file names.
    pub fn take_on(&mut self, apex: &[u8], rules: Rules) -> io::Result<u64> {
        let (position, end) = (position_of(&self.file_of(apex))?, self.position());
        if position > end {
            // The journal has lost its end: what comes there now is behind all that the file holds.
            renumber(&self.folder, apex, end)?;
        }
        self.zones.insert(apex.into(), Owned::new(rules));
        Ok(position.min(end))
    }

    /// What the zone is read from if it is its updates'.
    pub fn file_of(&self, apex: &[u8]) -> PathBuf {
        file_of(&self.folder, apex)
    }

    /// Where the journal ends.
    pub fn position(&self) -> u64 {
        self.journal().next_position()
    }

    pub fn data_dir(&self) -> &Path {
        data_dir(&self.folder)
    }

    pub fn zone_mut(&mut self, apex: &[u8]) -> Option<&mut Owned> {
        self.zones.get_mut(apex)
    }

    /// Makes changes durable, all or none, and does something else meanwhile. Returns where the journal ends then.
    pub fn keep<T>(&mut self, group: Group, meanwhile: impl FnOnce() -> T) -> (io::Result<u64>, T) {
        match &self.hand {
            Some(hand) => hand.append(group, meanwhile),
            None => (hand::append(&self.journal, &group), meanwhile()),
        }
    }

    /// Whether the journal can be written, after it could not.
    pub fn begin(&self) -> io::Result<()> {
        self.journal().begin()
    }

    /// How much a start would read behind a position, or behind what is released: in segments.
    pub fn segments_behind(&self, position: u64) -> usize {
        self.journal().segments_behind(position.max(self.released.load(Relaxed)))
    }
}

/// Writes the file of a zone as the image has it, but for these names: it then holds all changes before `position`. False: there is
/// no such zone.
pub fn write(data_dir: &Path, sound: &Sound<'_>, apex: &[u8], names: &Names, position: u64) -> io::Result<bool> {
    let Some(zone) = sound.zone(apex)? else { return Ok(false) };
    let text = |out: &mut Summed<'_>| write_text(&zone, names, out).and_then(|()| sound.holds());
    write_file(&data_dir.join(FOLDER), apex, position, text).map(|()| true)
}

/// Writes down a zone that updates do not own yet, as it is served. It is theirs when the file has its name.
pub fn prepare_zone(
    data_dir: &Path,
    sound: &Sound<'_>,
    zone: &ImageZone<'_>,
    apex: &[u8],
    position: u64,
) -> io::Result<Prepared> {
    let text = |out: &mut Summed<'_>| write_text(zone, &Names::new(), out).and_then(|()| sound.holds());
    let folder = data_dir.join(FOLDER);
    if !file_of(&folder, apex).try_exists()? {
        // Of one that comes back to its updates it is known what its configured file was.
        Origin::of(data_dir, apex)?.keep_served(sound, zone, zone.serial().map_err(damaged)?)?;
    }
    prepare_file(&folder, apex, position, text)
}

/// A record as a line of a zone file.
pub fn push_record(owner: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8], out: &mut String) {
    zonefile::record_to_text(owner, ttl, 1, rtype, rdata, out);
    out.push('\n');
}

/// Writes the records of a zone as this image has it, but for these names; the SOA first, as everybody expects.
pub fn write_text(zone: &ImageZone<'_>, names: &Names, out: &mut dyn Write) -> io::Result<()> {
    let apex = zone.apex().and_then(|node| node.apex_name()).map_err(damaged)?;
    let at_apex = match names.get(apex) {
        Some(records) => records.clone(),
        None => image::edit::records_of(&zone.apex().map_err(damaged)?, apex).map_err(damaged)?,
    };
    let (mut line, mut failed) = (String::new(), None);
    let mut write = |owner: &[u8], rtype, ttl, rdata: &[u8]| {
        line.clear();
        push_record(owner, rtype, ttl, rdata, &mut line);
        failed = failed.take().or_else(|| out.write_all(line.as_bytes()).err());
    };
    at_apex.iter().filter(|r| r.rtype == SOA).for_each(|r| write(apex, r.rtype, r.ttl, &r.rdata));
    at_apex.iter().filter(|r| r.rtype != SOA).for_each(|r| write(apex, r.rtype, r.ttl, &r.rdata));
    let others = names.iter().filter(|(name, _)| ***name != *apex);
    others.for_each(|(name, records)| records.iter().for_each(|r| write(name, r.rtype, r.ttl, &r.rdata)));
    let whole = zone.for_each_record(&mut |owner, rtype, ttl, rdata| {
        if owner != apex && !names.contains_key(owner) {
            write(owner, rtype, ttl, rdata);
        }
    });
    whole.map_err(damaged)?;
    failed.map_or(Ok(()), Err)
}

pub fn write_file(
    folder: &Path,
    apex: &[u8],
    position: u64,
    records: impl FnOnce(&mut Summed<'_>) -> io::Result<()>,
) -> io::Result<()> {
    prepare_file(folder, apex, position, records)?.take_name().map(drop)
}

fn prepare_file(
    folder: &Path,
    apex: &[u8],
    position: u64,
    records: impl FnOnce(&mut Summed<'_>) -> io::Result<()>,
) -> io::Result<Prepared> {
    let file = file_of(folder, apex);
    let text = |out: &mut Output| sum::write(out, format_args!("{POSITION} {position}"), records);
    prepare(folder, file.file_name().and_then(|n| n.to_str()).unwrap_or_default(), None, text, stamp::age)
}

/// The file of a zone holds what stands before this position, whatever it has said.
fn renumber(folder: &Path, apex: &[u8], position: u64) -> io::Result<()> {
    let text = Text::of(&file_of(folder, apex))?;
    let held = sum::holds(text.octets())?;
    // Its first line ends there.
    let records = held.iter().position(|&c| c == b'\n').map_or(&[][..], |end| &held[end + 1..]);
    write_file(folder, apex, position, |out| out.write_all(records))
}

pub fn position_of(file: &Path) -> io::Result<u64> {
    let mut line = String::new();
    BufReader::new(File::open(file)?).read_line(&mut line)?;
    let said = line.strip_prefix(sum::OURS).and_then(|what| what.strip_prefix(POSITION));
    let position = said.and_then(|words| words.split_whitespace().next()?.parse().ok());
    position.ok_or_else(|| {
        let why = format!("{}: its first line names no position of the journal", file.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// A change by an update.
pub fn entry(zone: &[u8], who: String, diff: Diff) -> Entry {
    Entry { zone: zone.into(), author: Author { kind: Kind::Update, who }, when: change_now(), diff }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Written;
    use crate::update::novices::{Change, Wish};
    use std::time::Duration;
    use transfer::Record;

    #[test]
    fn the_serial_of_a_file_of_ours_is_that_of_its_soa() {
        let file = std::env::temp_dir().join(format!("dunlin-ledger-{}-serial", std::process::id()));
        let soa = "z. 300 IN SOA ns.z. h\\032h.z. 8 1 2 3 4\n";
        for (text, expect) in [
            (format!("; dunlin, position 3\n{soa}z. 300 IN NS ns.z.\n"), Some(8)),
            // As a file was that was imported.
            (format!("; dunlin, position 0\nz. 300 IN NS ns.z.\nz. 300 IN TXT \"a SOA 9 1 2 3 4\"\n{soa}"), Some(8)),
            ("; dunlin, position 3\nz. 300 IN NS ns.z.\n".to_string(), None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(serial_in(&file), expect);
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(serial_in(&file), None);
    }

    pub const ALL: History = History { age: Duration::MAX, octets: u64::MAX };

    /// An empty one, in a folder of its own.
    pub fn opened(name: &str, history: History) -> (PathBuf, Ledger) {
        let data = std::env::temp_dir().join(format!("dunlin-ledger-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&data);
        std::fs::create_dir_all(&data).unwrap();
        let ledger = Ledger::open(&data, history).unwrap().0;
        (data, ledger)
    }

    /// Changes that are a segment long, each.
    fn fill(ledger: &mut Ledger, serials: std::ops::RangeInclusive<u32>) {
        for serial in serials {
            let record = |n: u8| Record::new(&[1, n, 1, b'z', 0], 16, 60, &vec![7; 65_000]).unwrap();
            let diff = Diff::new(serial - 1, serial, vec![], (0..66).map(record).collect());
            ledger.keep(vec![entry(b"\x01z\0", String::new(), diff).encode()], || ()).0.unwrap();
        }
    }

    /// Versions that are left of twelve, each a segment long, of which the first `needed` are in the zone's file.
    fn left(name: &str, age: Duration, octets: u64, needed: u64) -> Vec<u32> {
        let (data, mut ledger) = opened(name, History { age, octets });
        fill(&mut ledger, 1..=12);
        ledger.releaser().release(&ledger.unneeded(needed)).unwrap();
        let (mut left, folder) = (Vec::new(), Folder::open(&data.join(FOLDER)).unwrap());
        Journal::look_through(folder, 0, &mut |_, octets| left.push(Entry::decode(octets).unwrap().diff.to)).unwrap();
        std::fs::remove_dir_all(&data).unwrap();
        left
    }

    /// Flips an octet of the first frame of these segments.
    fn spoil(folder: &Path, segments: std::ops::RangeInclusive<u64>) {
        for n in segments {
            let file = folder.join(format!("journal.{n:010}"));
            let mut octets = std::fs::read(&file).unwrap();
            octets[100] ^= 1;
            std::fs::write(&file, octets).unwrap();
        }
    }

    /// A name of 255 octets may be 1,500 letters of text.
    #[test]
    fn each_name_has_a_file_whose_name_is_short_enough() {
        let labels = |octets: [(usize, u8); 4]| -> Vec<u8> {
            let label = |(len, octet): (usize, u8)| [vec![len as u8], vec![octet; len]].concat();
            octets.into_iter().flat_map(label).chain([0]).collect()
        };
        let mut files = std::collections::HashSet::new();
        for last in [b'x', b'y', 0xe4, 0xe5, b'.', b'~'] {
            for len in [1, 30, 40, 61] {
                let apex = labels([(63, last), (63, b'a'), (63, b'b'), (len, last)]);
                let file = file_of(Path::new(""), &apex);
                let longest = format!("{}.{}.base", file.file_stem().unwrap().to_str().unwrap(), 99_999_999);
                assert!(longest.len() <= 255, "{longest}");
                assert!(files.insert(file));
            }
        }
        assert_eq!(file_of(Path::new(""), b"\x02a~\x01z\0"), Path::new("a%7E.z.zone"));
    }

    #[test]
    fn a_mended_file_gets_what_the_journal_has_behind_it_unless_it_is_an_older_one() {
        let (data, mut ledger) = opened("mended", ALL);
        let apex = &b"\x01z\0"[..];
        let a = |n: u8| Record::new(apex, 1, 60, &[192, 0, 2, n]).unwrap();
        let change = |n: u8| entry(apex, String::new(), Diff::new(n.into(), u32::from(n) + 1, vec![], vec![a(n)]));
        (0..5).for_each(|n| _ = ledger.keep(vec![change(n).encode()], || ()).0.unwrap());
        let file = file_of(&data.join(FOLDER), apex);
        let lacking = HashMap::from([(Box::from(apex), 3)]);
        let outcome = |position: u8| {
            let held: String = (0..position).map(|n| format!("z. 60 IN A 192.0.2.{n}\n")).collect();
            std::fs::write(&file, format!("; dunlin, position {position}\n{held}")).unwrap();
            let (_, still) = catch_up(&data, &lacking, 0).unwrap();
            let records = std::fs::read_to_string(&file).unwrap().matches(" IN A ").count();
            (still.into_iter().map(|(.., why)| why).collect::<Vec<_>>(), position_of(&file).unwrap(), records)
        };
        assert_eq!(outcome(3), (vec![], 5, 5));
        assert_eq!(outcome(4), (vec![], 5, 5));
        assert_eq!(outcome(5), (vec![], 5, 5), "it has all");
        let why = catch_up(&data, &lacking, 7).unwrap_err().to_string();
        assert!(why.starts_with("the changes 5 to 6 of the journal cannot be read"), "{why}");
        let (still, position, records) = outcome(1);
        assert!(still[0].ends_with("z.zone: it is older than the one that was there"), "{still:?}");
        assert_eq!((position, records), (1, 1), "as somebody has put it there");
        // What stands between is not there any more.
        ledger.journal().release(5, 0);
        std::fs::remove_file(data.join(FOLDER).join("journal.0000000001")).unwrap();
        ledger = Ledger::open(&data, ALL).unwrap().0;
        ledger.keep(vec![change(9).encode()], || ()).0.unwrap();
        assert!(catch_up(&data, &lacking, 0).is_err());
        // But where no zone needed that it is no change of this one.
        std::fs::remove_file(data.join(FOLDER).join("journal.0000000001")).unwrap();
        write_released(&data.join(FOLDER), 5).unwrap();
        ledger = Ledger::open(&data, ALL).unwrap().0;
        ledger.keep(vec![change(9).encode()], || ()).0.unwrap();
        assert_eq!(outcome(3), (vec![], 6, 4));
        std::fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn what_is_wanted_of_a_zone_is_done_or_left_for_when_it_is_served_once_more() {
        let (data, mut ledger) = opened("adopts", ALL);
        let apex = |name: u8| Box::<[u8]>::from([1, name, 0]);
        let wish = |is_ours| Wish { rules: Rules(vec![]), file: "f".into(), is_ours };
        let rules = || Rules(vec![transfer::allow::Rule::from_text("key:ddns").ok().unwrap()]);
        b"abcdx".iter().for_each(|name| _ = ledger.zones.insert(apex(*name), Owned::new(rules())));
        let none = Written::default();
        let mut wanted = Wanted::new(&none, &none, None, 1);
        for (name, wish, was_other) in [
            (b'a', Some(wish(true)), false),
            (b'b', Some(wish(true)), true),
            (b'c', Some(wish(false)), false),
            (b'd', None, false),
            (b'n', Some(wish(true)), false),
        ] {
            wanted.changes.insert(apex(name), Change { wish, was_other });
        }
        let mut left = ledger.adopt(&mut wanted);
        left.sort();
        assert_eq!(left, [apex(b'b'), apex(b'c'), apex(b'd')]);
        let mut are_to_come: Vec<_> = wanted.changes.iter().filter(|(_, change)| change.wish.is_some()).collect();
        are_to_come.sort_by_key(|(apex, _)| (*apex).clone());
        assert_eq!(are_to_come.iter().map(|(apex, _)| apex[1]).collect::<Vec<_>>(), *b"bcn");
        assert!(ledger.zones[&apex(b'a')].rules == Rules(vec![]) && ledger.zones[&apex(b'x')].rules == rules());
        assert_eq!(ledger.zones.len(), 2);
        std::fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn a_start_does_not_read_what_no_zone_needs() {
        let history = History { age: Duration::from_secs(86_400), octets: 1 << 30 };
        let (data, mut ledger) = opened("unread", history);
        fill(&mut ledger, 1..=6);
        ledger.releaser().release(&ledger.unneeded(4)).unwrap();
        drop(ledger);
        spoil(&data.join(FOLDER), 1..=4);
        let (mut ledger, _, remarks) = Ledger::open(&data, history).unwrap();
        assert_eq!(remarks, [] as [String; 0]);
        fill(&mut ledger, 7..=7);
        drop(ledger);
        assert_eq!(Ledger::open(&data, history).unwrap().0.position(), 7);
        let mut left = Vec::new();
        let folder = Folder::open(&data.join(FOLDER)).unwrap();
        let told = Journal::look_through(folder, 0, &mut |_, octets| left.push(Entry::decode(octets).unwrap().diff.to));
        assert_eq!((left, told.unwrap().len()), (vec![5, 6, 7], 4), "whoever asks for the history hears of it");
        spoil(&data.join(FOLDER), 5..=5);
        assert!(Ledger::open(&data, history).is_err(), "what is needed is verified");
        std::fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn changes_are_kept_by_age_and_size_and_as_long_as_a_zone_needs_them() {
        let (long, mib) = (Duration::from_secs(86_400), 1 << 20);
        assert_eq!(left("all", long, 64 * mib, 12), (1..=12).collect::<Vec<_>>());
        assert_eq!(left("few", long, 12 * mib, 12), [10, 11, 12]);
        assert_eq!(left("none", long, 0, 12), [12], "the segment that is written to stays");
        assert_eq!(left("needed", long, 0, 4), (5..=12).collect::<Vec<_>>());
        assert_eq!(left("old", Duration::ZERO, 64 * mib, 12), [12]);
    }
}
