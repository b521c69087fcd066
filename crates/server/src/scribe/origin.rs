//! The file that is configured for a zone that updates own: as it was when it was read, or written back, last.
//!
//! ```text
//! data-dir/journal/NAME.origin    a line for each version of the file that we know of, newest last:
//!     read SERIAL STAMP           the zone was imported from it
//!     written SERIAL STAMP SINCE  it was written back; since when the zone was that, if it was known
//!     edited SERIAL STAMP         an edit of that version, which the zone has taken in; "past": and which was written back since
//!     include FILE                those that were read or edited include it
//!     base N                      what they held stands in NAME.N.base
//! data-dir/journal/NAME.N.base    the records of the file when it was read, or its edit taken in, last
//! data-dir/journal/NAME.next      what NAME.origin is to be once an edit is in the journal:
//!     behind SERIAL               as a change behind this version
//! ```
//! A file that is none of these was edited by somebody: what he has changed is what differs from the version that he had
//! before him. That is the base; or what the zone was at the serial that the file's first line says, for so begins a file
//! that was written back, and any edit of it, whenever it was begun.
//!
//! What is about to be written stands here before it takes its name, and what it takes the place of stands here still: so a
//! crash at any moment leaves a file that is known, or an edit that has been taken in and changes nothing any more. (Which version
//! it is its stamp tells: the one that stands here last may not have come to its name.) What an edit makes of what is known stands
//! beside it before the edit is durable: or after a crash it would be an edit of the version before, and in conflict with updates
//! that have changed the same after it.

use crate::config::Zone;
use crate::images::sound::Sound;
use crate::scribe::edited::Edit;
use crate::stamp::Stamp;
use crate::update::ledger::{self, FOLDER};
use crate::update::unwritten::Names;
use crate::zonetext::sum::{self, Summed};
use crate::zonetext::{self, Sources};
use image::{Sorted, Zone as ImageZone};
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use store::atomic::{Output, write_atomically};
use store::folder::open_file;
use transfer::record::{is_newer, serial_of};
use wire::rtype::SOA;
use zonefile::Objection;

pub struct Origin {
    folder: PathBuf,
    /// Of the zone, as its files have it.
    name: String,
    known: Vec<Known>,
    includes: Vec<PathBuf>,
    base: Option<u64>,
}

/// A version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub means: Means,
    pub serial: u32,
    pub stamp: String,
    /// Its first line said of no version that it was made of that: so no file that says it is made of this one.
    pub is_plain: bool,
    /// Since when the zone was what we wrote, as its first line says.
    pub since: Option<String>,
}

/// How we know of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    Read,
    Written,
    Edited,
}

/// Which version somebody had before him who edited a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// What this file of ours holds; its serial.
    Copy(PathBuf, u32),
    /// The same, if what he has done goes on from there. It was an edit of the version of this serial, and that has been written back since: so it may
    /// be another edit of that version.
    Past(PathBuf, u32),
    /// What the zone was at this serial, and, where a file says so, from this moment on.
    Version(u32, Option<String>),
    /// Nothing is known of the file: it must be what the zone was at its serial.
    Itself,
}

impl Base {
    pub fn serial(&self) -> Option<u32> {
        match self {
            Base::Copy(_, serial) | Base::Past(_, serial) | Base::Version(serial, _) => Some(*serial),
            Base::Itself => None,
        }
    }
}

const WORDS: [(Means, &str); 3] = [(Means::Read, "read"), (Means::Written, "written"), (Means::Edited, "edited")];
const INCLUDE: &str = "include ";
const BASE: &str = "base ";
const BEHIND: &str = "behind ";
const PLAIN: &str = "plain";

/// The stamp of a file that is not there.
pub const NONE: &str = "none";
/// That of a version of which only the content is known.
pub const UNSEEN: &str = "unseen";
/// That of one that has been written over.
const PAST: &str = "past";
/// Of one of which it cannot be told whether it is there: no version is known to be so.
const UNTOLD: &str = "untold";
/// Between the stamps of a file and of what it includes.
const AND: char = '+';
/// Before the time of a file's last change of any kind.
const SINCE_ANY: char = '@';

/// What tells an edited file, whatever name it has meanwhile: its size, the time of its last change, and which file it is. Not the time of its last
/// change of any kind: a new name is one.
pub fn stamp(file: &Path) -> String {
    told_by(file, one)
}

/// The same of one that keeps its name. Whoever unpacks an archive may give all files one time, and a new one the size and the inode of what was there
/// before.
pub fn full_stamp(file: &Path) -> String {
    told_by(file, in_full)
}

fn told_by(file: &Path, by: impl FnOnce(&Stamp) -> String) -> String {
    match std::fs::metadata(file) {
        Ok(found) => by(&Stamp::seen(&found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => NONE.to_string(),
        Err(_) => UNTOLD.to_string(),
    }
}

fn one(stamp: &Stamp) -> String {
    format!("{}-{}-{}", stamp.size, stamp.modified_ns, stamp.inode)
}

fn in_full(stamp: &Stamp) -> String {
    format!("{}{SINCE_ANY}{}", one(stamp), stamp.changed_ns)
}

/// What `stamp` says of the file, of a stamp of it and of what it includes.
pub fn own(stamp: &str) -> &str {
    apart(stamp).0
}

/// All of a stamp but the times of last changes of any kind.
fn without_changes(stamp: &str) -> String {
    let parts: Vec<&str> = stamp.split(AND).map(|part| apart(part).0).collect();
    parts.join(&AND.to_string())
}

/// A stamp of a file and of what it includes: that of the file under any name, and those of the others.
fn apart(stamp: &str) -> (&str, &str) {
    let (own, others) = stamp.split_at(stamp.find(AND).unwrap_or(stamp.len()));
    (own.split(SINCE_ANY).next().unwrap_or_default(), others)
}

/// That of files as they were before they were read. One that had been written only just then is not believed.
pub fn stamp_of(sources: &Sources) -> String {
    let all: Option<Vec<String>> = sources.iter().map(|(_, stamp)| stamp.as_ref().map(in_full)).collect();
    all.map_or_else(|| UNSEEN.to_string(), |all| all.join(&AND.to_string()))
}

/// What the first of these includes.
pub fn included(sources: Sources) -> Vec<PathBuf> {
    sources.into_iter().skip(1).map(|(file, _)| file).collect()
}

/// What a file begins with that is written back. `since`: from when on the zone was that, for where data-dir comes from a backup others
/// have the same serials later.
pub fn first_line(serial: u32, since: Option<&str>) -> String {
    let since = since.map(|since| format!("{SINCE}{since}")).unwrap_or_default();
    format!("{BEGIN}{serial}{since}{GO_ON} for updates; keep this line\n")
}

const BEGIN: &str = "; serial ";
const SINCE: &str = " of ";
const GO_ON: &str = ", written by dunlin";

/// The version of the zone that a file was made of, as its first line says: its serial, and since when the zone was that.
pub fn version(file: &Path) -> Option<(u32, Option<String>)> {
    version_in(&first_line_of(file)?)
}

fn version_in(line: &str) -> Option<(u32, Option<String>)> {
    let version = line.strip_prefix(BEGIN)?.split_once(GO_ON)?.0;
    let (serial, since) = version.split_once(SINCE).map_or((version, None), |(serial, since)| (serial, Some(since)));
    Some((serial.parse().ok()?, since.map(str::to_string)))
}

/// The line that says that.
pub fn said_version(file: &Path) -> Option<String> {
    first_line_of(file).filter(|line| version_in(line).is_some() && line.ends_with('\n'))
}

fn first_line_of(file: &Path) -> Option<String> {
    let mut line = String::new();
    BufReader::new(open_file(file).ok()?.take(FIRST_LINE_MAX)).read_line(&mut line).ok()?;
    Some(line)
}

/// Whether it is a zone as it was received, and newer than this: so it has come in the place of that. An older one may be a copy of what a secondary has.
fn was_received_after(file: &Path, serial: u32) -> bool {
    let received = [sum::OURS, sum::RECEIVED].concat();
    first_line_of(file).is_some_and(|line| line.starts_with(&received))
        && ledger::serial_in(file).is_some_and(|of_file| is_newer(of_file, serial))
}

const FIRST_LINE_MAX: u64 = 200;

impl Known {
    pub fn new(means: Means, serial: u32, stamp: String) -> Known {
        Known { means, serial, stamp, is_plain: false, since: None }
    }

    /// The same but for which file it is, and what it includes.
    pub fn is_copied_as(&self, stamp: &str) -> bool {
        let whole = |stamp: &str| Some(apart(stamp).0.rsplit_once('-')?.0.to_string());
        whole(stamp).is_some_and(|copied| whole(&self.stamp) == Some(copied))
    }

    /// The same but for a new name.
    pub fn is_renamed(&self, stamp: &str) -> bool {
        self.is(stamp) || apart(&self.stamp) == apart(stamp)
    }

    fn of(line: &str) -> Option<Known> {
        let mut words = line.split(' ');
        let word = words.next()?;
        let &(means, _) = WORDS.iter().find(|(_, w)| *w == word)?;
        let (serial, stamp, more) = (words.next()?.parse().ok()?, words.next()?.to_string(), words.next());
        let since = more.filter(|_| means == Means::Written).map(str::to_string);
        Some(Known { is_plain: since.is_none() && more == Some(PLAIN), since, ..Known::new(means, serial, stamp) })
    }

    /// Whether a file of this stamp is that version. One that was written back includes no other, took its name after it was looked at, and has a
    /// time that is no other file's.
    pub fn is(&self, stamp: &str) -> bool {
        let own = stamp.split(AND).next().unwrap_or_default();
        let stamp = if self.means == Means::Written { own } else { stamp };
        self.stamp == stamp || !self.stamp.contains(SINCE_ANY) && self.stamp == without_changes(stamp)
    }
}

impl Origin {
    /// Err: it is not known what is known, which is another thing than nothing.
    pub fn of(data_dir: &Path, apex: &[u8]) -> io::Result<Origin> {
        let folder = data_dir.join(FOLDER);
        let name = ledger::file_of(&folder, apex).file_stem().map(|n| n.to_string_lossy().into_owned());
        let origin = Origin { folder, name: name.unwrap_or_default(), known: vec![], includes: vec![], base: None };
        let text = text_of(&origin.folder.join(origin.file()))?;
        Ok(origin.like(&text.unwrap_or_default()))
    }

    /// That of the same zone, as a text says.
    fn like(&self, text: &str) -> Origin {
        let (folder, name) = (self.folder.clone(), self.name.clone());
        let mut origin = Origin { folder, name, known: vec![], includes: vec![], base: None };
        for line in text.lines() {
            origin.known.extend(Known::of(line));
            origin.includes.extend(line.strip_prefix(INCLUDE).map(PathBuf::from));
            origin.base = line.strip_prefix(BASE).and_then(|n| n.parse().ok()).or(origin.base);
        }
        origin
    }

    fn file(&self) -> String {
        format!("{}.origin", self.name)
    }

    fn next_file(&self) -> String {
        format!("{}.next", self.name)
    }

    fn base_file(&self, n: u64) -> String {
        format!("{}.{n}.base", self.name)
    }

    /// The versions that we know of, newest last.
    pub fn known(&self) -> &[Known] {
        &self.known
    }

    /// Whether a file of this stamp holds this version of the zone, read or written by us. The version that is known last may
    /// never have come to its name.
    pub fn is_version(&self, stamp: &str, serial: u32) -> bool {
        self.known.iter().any(|known| known.means != Means::Edited && known.serial == serial && known.is(stamp))
    }

    /// What the file included when it was read.
    pub fn includes(&self) -> &[PathBuf] {
        &self.includes
    }

    /// What tells an edited file, with what it included when it was read.
    pub fn stamp(&self, file: &Path) -> String {
        let own = full_stamp(file);
        if own == NONE || self.includes.is_empty() {
            return own;
        }
        let included = self.includes.iter().map(|file| full_stamp(file));
        std::iter::once(own).chain(included).collect::<Vec<_>>().join(&AND.to_string())
    }

    /// Which version somebody has edited; None: nobody knows, for the file does not say, and we have written it.
    pub fn edited(&self, file: &Path) -> Option<Base> {
        let (said, since) = version(file).unzip();
        let last = self.known.last();
        // Who edits again what he has edited before says the version that this was of, though it may have been written back since. What a file
        // says that was read may be anything: it is the one that was read as long as we have not written another. But no line comes by itself.
        let is_copied = |known: &&Known| match (said, known.means) {
            (_, Means::Written) => false,
            (Some(_), _) if known.is_plain => false,
            (Some(said), _) if said == known.serial => true,
            (Some(_), means) => means == Means::Read && Some(*known) == last,
            // One that has had no line before has none, and it is not known either that what was written behind it, with a line, came to its name.
            (None, means) => (means == Means::Read || known.is_plain) && known.stamp != PAST || Some(*known) == last,
        };
        let copied = self.known.iter().rev().find(is_copied);
        let copy = self.base.map(|n| self.folder.join(self.base_file(n))).filter(|copy| copy.exists());
        match (copied.zip(copy), said, last) {
            (Some((known, copy)), _, _) if known.means == Means::Edited && Some(known) != last => {
                Some(Base::Past(copy, known.serial))
            }
            (Some((known, copy)), _, _) => Some(Base::Copy(copy, said.unwrap_or(known.serial))),
            // What stands here is as old as the journal: the version that it has of this serial is the one that we wrote then.
            (None, Some(said), _) => {
                let wrote = |since: &String| {
                    self.known.iter().any(|known| known.serial == said && known.since.as_ref() == Some(since))
                };
                Some(Base::Version(said, since.flatten().filter(|since| !wrote(since))))
            }
            (None, None, None) => Some(Base::Itself),
            (None, None, Some(last)) => {
                let is_of_last = last.means != Means::Written || was_received_after(file, last.serial);
                is_of_last.then_some(Base::Version(last.serial, None))
            }
        }
    }

    /// These are the versions of the file from now on. What it was when its edit was taken in last somebody may still have before him: that
    /// stays, until it is edited again.
    pub fn remember(&mut self, mut known: Vec<Known>) -> io::Result<()> {
        let mut old = None;
        if known.iter().all(|known| known.means == Means::Written) {
            self.includes.clear();
            match self.known.iter().rev().find(|known| known.means == Means::Edited) {
                Some(edited) => known.insert(0, Known { stamp: PAST.to_string(), ..edited.clone() }),
                None => old = self.base.take(),
            }
        }
        self.known = known;
        self.write()?;
        self.drop_base(old);
        Ok(())
    }

    /// Another stamp of the version that was read or edited last, and what its file includes: its content is the same. What was written
    /// since has not come to its name.
    pub fn is_now(&mut self, stamp: String, includes: Vec<PathBuf>) -> io::Result<()> {
        self.includes = includes;
        self.known.retain(|known| known.means != Means::Written);
        if let Some(last) = self.known.pop() {
            self.known = vec![Known { stamp, ..last }];
        }
        self.write()
    }

    /// Keeps what a zone's file holds that is read for the first time; each line of it goes to `also`, too. Err: what hinders it. Nothing
    /// is kept then.
    pub fn keep(&mut self, zone: &Zone, also: &mut dyn Write) -> Result<(), String> {
        let mut wrong = None;
        let kept = self.copied(|out| {
            let copied = copy(zone, &mut |line| out.write_all(line).and_then(|()| also.write_all(line)));
            let (serial, sources) = copied.map_err(|why| io::Error::other(wrong.insert(why).clone()))?;
            let is_plain = version(&zone.file).is_none();
            let known = Known { is_plain, ..Known::new(Means::Read, serial, stamp_of(&sources)) };
            Ok((known, included(sources)))
        });
        let next = kept.map_err(|e| wrong.unwrap_or_else(|| e.to_string()))?;
        self.become_next(next).map_err(|e| e.to_string())
    }

    /// What is to be known once an edit has been taken in, which was read so: of the version with this serial; None: of none that is known.
    /// `is_plain`: of `Known`.
    pub fn ahead(&self, edited: &Sorted<'_>, serial: Option<u32>, edit: &Edit, is_plain: bool) -> io::Result<Origin> {
        let means = if serial.is_some() { Means::Edited } else { Means::Read };
        let (serial, stamp) = (serial.unwrap_or_else(|| audit::serial(edited)), edit.stamp.clone());
        let known = Known { is_plain, ..Known::new(means, serial, stamp) };
        self.copied(|out| {
            let mut line = String::new();
            for (name, records) in edited.names() {
                for rr in records {
                    line.clear();
                    ledger::push_record(name, rr.rtype, rr.ttl, rr.rdata, &mut line);
                    out.write_all(line.as_bytes())?;
                }
            }
            Ok((known, edit.includes.clone()))
        })
    }

    /// That is how it is once the journal has an edit behind this version.
    pub fn announce(&self, serial: u32) -> io::Result<()> {
        let write = |out: &mut Output| {
            writeln!(out, "{BEHIND}{serial}")?;
            self.write_to(out)
        };
        write_atomically(&self.folder, &self.next_file(), None, write).map(drop)
    }

    /// The journal has it.
    pub fn become_next(&mut self, next: Origin) -> io::Result<()> {
        next.write()?;
        self.drop_base(self.base.filter(|_| self.base != next.base));
        *self = next;
        self.forget_next();
        Ok(())
    }

    /// The journal does not have it.
    pub fn give_up(&self, next: &Origin) {
        self.forget_next();
        self.drop_base(next.base.filter(|_| self.base != next.base));
    }

    fn forget_next(&self) {
        // What is left over is found to be settled.
        let _ = std::fs::remove_file(self.folder.join(self.next_file()));
    }

    /// After a crash: has the journal what was announced?
    pub fn recover(&mut self, has: impl FnOnce(u32) -> Result<bool, String>) -> Result<(), String> {
        let Some(text) = text_of(&self.folder.join(self.next_file())).map_err(|e| e.to_string())? else {
            return Ok(());
        };
        let (serial, next) = (text.lines().find_map(|line| line.strip_prefix(BEHIND)?.parse().ok()), self.like(&text));
        match serial {
            Some(serial) if has(serial)? => self.become_next(next).map_err(|e| e.to_string()),
            _ => {
                self.give_up(&next);
                Ok(())
            }
        }
    }

    /// Keeps a zone as it is served: so its file was when it was read.
    pub fn keep_served(&mut self, sound: &Sound<'_>, zone: &ImageZone<'_>, serial: u32) -> io::Result<()> {
        let next = self.copied(|out| {
            ledger::write_text(zone, &Names::new(), out)?;
            sound.holds()?;
            Ok((Known::new(Means::Read, serial, UNSEEN.to_string()), vec![]))
        })?;
        self.become_next(next)
    }

    /// Writes a base; which version it is is known to whoever has what is returned.
    fn copied(&self, text: impl FnOnce(&mut Summed<'_>) -> io::Result<(Known, Vec<PathBuf>)>) -> io::Result<Origin> {
        let (new, mut next) = (self.base.map_or(1, |n| n.wrapping_add(1)), self.like(""));
        let text = |out: &mut Summed<'_>| {
            text(out).map(|(known, includes)| (next.known, next.includes) = (vec![known], includes))
        };
        let write = |out: &mut Output| sum::write(out, "a base", text);
        write_atomically(&self.folder, &self.base_file(new), None, write)?;
        next.base = Some(new);
        Ok(next)
    }

    fn drop_base(&self, old: Option<u64>) {
        if let Some(old) = old {
            // What is left over is in the way of nobody.
            let _ = store::removal::remove(&self.folder.join(self.base_file(old)));
        }
    }

    fn write(&self) -> io::Result<()> {
        write_atomically(&self.folder, &self.file(), None, |out| self.write_to(out)).map(drop)
    }

    fn write_to(&self, out: &mut Output) -> io::Result<()> {
        for known in &self.known {
            let word = WORDS.iter().find(|(means, _)| *means == known.means).map_or("", |(_, word)| word);
            let more = known.since.as_deref().or(known.is_plain.then_some(PLAIN));
            let more = more.map(|more| format!(" {more}")).unwrap_or_default();
            writeln!(out, "{word} {} {}{more}", known.serial, known.stamp)?;
        }
        // A name that does not fit a line is not followed.
        let names = self.includes.iter().filter_map(|file| file.to_str()).filter(|name| !name.contains('\n'));
        names.into_iter().try_for_each(|name| writeln!(out, "{INCLUDE}{name}"))?;
        self.base.map_or(Ok(()), |n| writeln!(out, "{BASE}{n}"))
    }
}

/// None: it is not there.
fn text_of(file: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => Ok(None),
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", file.display()))),
        text => text.map(Some),
    }
}

/// The records of a zone's file, a line each; its serial, and what was read. Err: what is wrong with it.
fn copy(zone: &Zone, write: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(u32, Sources), String> {
    let (mut serial, mut line, mut failed) = (None, String::new(), None);
    let mut sink = |r: zonefile::Record<'_>, _: &zonefile::Place| {
        if r.rtype == SOA && r.owner.eq_ignore_ascii_case(&zone.apex) {
            serial = serial_of(r.rdata);
        }
        line.clear();
        ledger::push_record(r.owner, r.rtype, r.ttl, r.rdata, &mut line);
        failed = failed.take().or_else(|| write(line.as_bytes()).err());
        Ok::<(), Vec<Objection>>(())
    };
    let reading = zonetext::read(zone, &mut sink).map_err(|unread| unread.text(zone))?;
    if let Some(wrong) = reading.report.first_error() {
        return Err(wrong);
    }
    match (failed, serial) {
        (Some(e), _) => Err(e.to_string()),
        (None, None) => Err("it has no SOA".to_string()),
        (None, Some(serial)) => Ok((serial, reading.sources)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::slice::from_ref;

    fn known(means: Means, stamp: &str) -> Known {
        Known::new(means, 7, stamp.to_string())
    }

    fn data(name: &str) -> PathBuf {
        let data = std::env::temp_dir().join(format!("dunlin-origin-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&data);
        std::fs::create_dir_all(data.join(FOLDER)).unwrap();
        data
    }

    #[test]
    fn a_file_is_known_by_its_stamp() {
        use Means::{Edited, Read, Written};
        for (means, stamp, is, expect) in [
            (Read, "9-5-7", "9-5-7", true),
            (Read, "9-5-7", "9-5-8", false),
            (Edited, "9-5-8+3-1-2", "9-5-8+3-1-2", true),
            (Edited, "9-5-8+3-1-2", "9-5-8+3-1-3", false),
            (Edited, "9-5-8", "9-5-8+3-1-2", false),
            (Edited, "9-5-8+none", "9-5-8+none", true),
            (Written, "9-5-8", "9-5-8+3-1-2", true),
            (Read, "9-5-7@1", "9-5-7@1", true),
            (Read, "9-5-7@1", "9-5-7@2", false),
            (Edited, "9-5-8@1+3-1-2@1", "9-5-8@1+3-1-2@2", false),
            (Written, "9-5-8", "9-5-8@2+3-1-2@1", true),
            (Written, "9-5-8@1", "9-5-8@2+3-1-2@1", false),
            (Written, "9-5-8@1", "9-5-8@1+3-1-2@1", true),
            (Edited, "9-5-8+3-1-2", "9-5-8@2+3-1-2@1", true),
            (Edited, "9-5-8+3-1-2", "9-5-8@2+3-1-3@1", false),
            (Written, "9-5-7", "9-5-8", false),
            (Read, UNSEEN, "9-5-7", false),
        ] {
            assert_eq!(known(means, stamp).is(is), expect, "{stamp} {is}");
        }
        for (stamp, is, is_renamed, is_copied) in [
            ("9-5-7@1", "9-5-7@2", true, true),
            ("9-5-7@1+3-1-2@1", "9-5-7@2+3-1-2@1", true, true),
            ("9-5-7@1+3-1-2@1", "9-5-7@2+3-1-2@2", false, true),
            ("9-5-7@1", "9-5-8@1", false, true),
            ("9-5-7@1", "9-6-7@1", false, false),
            ("9-5-7@1", NONE, false, false),
        ] {
            let known = known(Read, stamp);
            assert_eq!((known.is_renamed(is), known.is_copied_as(is)), (is_renamed, is_copied), "{stamp} {is}");
        }
    }

    #[test]
    fn what_is_remembered_is_known() {
        let data = data("known");
        let mut origin = Origin::of(&data, b"\x07example\0").unwrap();
        assert_eq!(origin.known(), []);
        let file = data.join("z");
        assert_eq!(origin.stamp(&file), NONE);
        std::fs::write(&file, "one").unwrap();
        let versions =
            [known(Means::Read, &full_stamp(&file)), known(Means::Written, "4-1"), known(Means::Edited, "4-2")];
        origin.remember(versions.to_vec()).unwrap();
        assert_eq!(Origin::of(&data, b"\x07example\0").unwrap().known(), versions);
        for (text, expect) in [
            (first_line(7, None), Some((7, None))),
            (first_line(7, Some("then")), Some((7, Some("then".to_string())))),
            ("; serial 4294967295, written by dunlin: more\nrest".to_string(), Some((u32::MAX, None))),
            ("; serial 7".to_string(), None),
            ("@ SOA".to_string(), None),
            (String::new(), None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(version(&file), expect);
        }
        std::fs::remove_dir_all(&data).unwrap();
    }

    /// A zone may have come from primaries since its file was written back.
    #[test]
    fn what_was_received_has_come_in_the_place_of_what_was_written_last() {
        let data = data("received");
        let (file, mut origin) = (data.join("z"), Origin::of(&data, b"\x07example\0").unwrap());
        origin.remember(vec![known(Means::Written, "9-5-7")]).unwrap();
        for (text, expect) in [
            (
                "; dunlin, from 192.0.2.1#53 (sum at the end)\nexample. 60 IN SOA ns. h. 8 1 2 3 4\n",
                Some(Base::Version(7, None)),
            ),
            // That of a secondary.
            ("; dunlin, from 192.0.2.1#53 (sum at the end)\nexample. 60 IN SOA ns. h. 6 1 2 3 4\n", None),
            ("; dunlin, from 192.0.2.1#53 (sum at the end)\n", None),
            ("; serial 8, written by dunlin for updates; keep this line\n", Some(Base::Version(8, None))),
            ("; dunlin, position 5 (sum at the end)\n", None),
            ("@ 60 SOA ns h 1 2 3 4 5\n", None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(origin.edited(&file), expect, "{text}");
        }
        std::fs::remove_dir_all(&data).unwrap();
    }

    /// Who asks since when the zone was a version that we wrote reads all of the journal.
    #[test]
    fn since_when_the_zone_was_what_we_wrote_is_known() {
        let data = data("since");
        let (file, mut origin) = (data.join("z"), Origin::of(&data, b"\x07example\0").unwrap());
        let written = Known { since: Some("then".to_string()), ..known(Means::Written, "9-5-7") };
        origin.remember(vec![written.clone()]).unwrap();
        let origin = Origin::of(&data, b"\x07example\0").unwrap();
        assert_eq!(origin.known(), [written]);
        for (serial, since, is_asked) in [(7, "then", None), (7, "later", Some("later")), (8, "then", Some("then"))] {
            std::fs::write(&file, first_line(serial, Some(since))).unwrap();
            assert_eq!(
                origin.edited(&file),
                Some(Base::Version(serial, is_asked.map(str::to_string))),
                "{serial} {since}"
            );
        }
        std::fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn a_file_is_kept_with_what_it_includes() {
        let data = data("kept");
        let (file, more) = (data.join("z"), data.join("more"));
        std::fs::write(&file, "$TTL 60\n@ SOA ns h 5 1 1 1 1\n$INCLUDE more\n").unwrap();
        std::fs::write(&more, "www A 192.0.2.1\n").unwrap();
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        [&file, &more].iter().for_each(|f| File::open(f).unwrap().set_modified(old).unwrap());
        let zone = Zone::new(b"\x07example\0"[..].into(), file.clone());
        let mut copied = Vec::new();
        let mut origin = Origin::of(&data, &zone.apex).unwrap();
        origin.keep(&zone, &mut copied).unwrap();
        let origin = Origin::of(&data, &zone.apex).unwrap();
        let is = origin.stamp(&file);
        assert!(origin.known()[0].is(&is) && origin.known()[0].means == Means::Read, "{is}");
        let Some(Base::Copy(copy, 5)) = origin.edited(&file) else { panic!("{:?}", origin.edited(&file)) };
        let text = std::fs::read(copy).unwrap();
        assert_eq!(sum::holds(&text).unwrap()[1..], copied);
        assert!(String::from_utf8(copied).unwrap().contains("www.example. 60 IN A 192.0.2.1"));
        // What is included is part of the file.
        std::fs::write(&more, "www A 192.0.2.2\n").unwrap();
        let edited = origin.stamp(&file);
        assert!(!origin.known()[0].is(&edited));
        std::fs::remove_dir_all(&data).unwrap();
    }

    /// As an edit is read.
    fn ahead(origin: &Origin, zone: &Zone) -> Origin {
        let mut builder = image::Builder::new(7);
        builder.begin_zone(&zone.apex);
        let add = &mut |r: zonefile::Record<'_>, _: &zonefile::Place| zonetext::reading::take(&mut builder, r);
        let stamp = stamp_of(&zonetext::read(zone, add).unwrap().sources);
        let (edit, mut next) = (Edit::none(stamp, vec![]), None);
        builder.show(&mut |edited| next = Some(origin.ahead(edited, Some(5), &edit, true).unwrap())).unwrap();
        next.unwrap()
    }

    #[test]
    fn after_a_crash_an_edit_is_known_if_the_journal_has_it() {
        let data = data("ahead");
        let file = data.join("z");
        let write = |text: &str| {
            std::fs::write(&file, format!("$TTL 60\n@ SOA ns h 5 1 1 1 1\n{text}")).unwrap();
            let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
            File::open(&file).unwrap().set_modified(old).unwrap();
        };
        let (zone, mut origin) =
            (Zone::new(b"\x01z\0"[..].into(), file.clone()), Origin::of(&data, b"\x01z\0").unwrap());
        write("a A 192.0.2.1\n");
        origin.keep(&zone, &mut io::sink()).unwrap();
        let files = || std::fs::read_dir(data.join(FOLDER)).unwrap().count();
        for (has, serial) in [(false, None), (true, Some(5))] {
            write("a A 192.0.2.22\n");
            let (edit, next) = (full_stamp(&file), ahead(&origin, &zone));
            // What is read later is another edit.
            write("b A 192.0.2.3\n");
            next.announce(9).unwrap();
            assert!(!Origin::of(&data, &zone.apex).unwrap().known()[0].is(&edit), "not yet");
            // The crash.
            origin = Origin::of(&data, &zone.apex).unwrap();
            let mut asked = None;
            let found = |to| {
                asked = Some(to);
                Ok(has)
            };
            origin.recover(found).unwrap();
            assert_eq!((asked, files()), (Some(9), 2), "a base and what is known");
            let found = Origin::of(&data, &zone.apex).unwrap();
            let known = &found.known()[0];
            assert_eq!((known.is(&edit), known.means == Means::Edited), (has, has));
            if let Some(serial) = serial {
                let Some(Base::Copy(copy, of)) = origin.edited(&file) else { panic!("{:?}", origin.edited(&file)) };
                assert!(std::fs::read_to_string(copy).unwrap().contains("192.0.2.22") && of == serial);
            }
            origin.recover(|_| panic!("there is nothing to recover")).unwrap();
        }
        std::fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn whoever_edits_a_file_had_the_version_before_him() {
        let data = data("base");
        let file = data.join("z");
        let check = |known: &[Known], base: bool, text: &str, expect: Option<Base>| {
            let mut origin = Origin::of(&data, b"\x01z\0").unwrap();
            origin.base = base.then_some(3);
            origin.known = known.to_vec();
            std::fs::write(&file, text).unwrap();
            assert_eq!(origin.edited(&file), expect, "{known:?} {base} {text}");
        };
        let copy = data.join(FOLDER).join("z.3.base");
        std::fs::write(&copy, "").unwrap();
        let (read, edited, written) = (known(Means::Read, "1"), known(Means::Edited, "2"), known(Means::Written, "3"));
        check(&[], false, "", Some(Base::Itself));
        check(&[], false, &first_line(6, None), Some(Base::Version(6, None)));
        check(from_ref(&read), true, "", Some(Base::Copy(copy.clone(), 7)));
        check(from_ref(&read), false, "", Some(Base::Version(7, None)));
        check(from_ref(&edited), true, &first_line(7, None), Some(Base::Copy(copy.clone(), 7)));
        // It is not known whether what is written came to its name.
        let after = |before: &Known| [before.clone(), Known { serial: 9, ..written.clone() }];
        check(&after(&read), true, "", Some(Base::Copy(copy.clone(), 7)));
        check(&after(&edited), true, &first_line(7, None), Some(Base::Past(copy.clone(), 7)));
        check(&after(&edited), true, &first_line(9, None), Some(Base::Version(9, None)));
        check(&after(&edited), true, "", None);
        let plain = Known { is_plain: true, ..edited.clone() };
        check(&after(&plain), true, "", Some(Base::Past(copy.clone(), 7)));
        check(&after(&Known { stamp: PAST.to_string(), ..plain }), true, "", None);
        check(from_ref(&edited), true, &first_line(6, None), Some(Base::Version(6, None)));
        // What was read is what is edited, whatever it says of itself, as long as nothing else was written there.
        check(from_ref(&read), true, &first_line(6, None), Some(Base::Copy(copy.clone(), 6)));
        check(&after(&read), true, &first_line(6, None), Some(Base::Version(6, None)));
        // What says of which version it is was not made of what did not.
        for means in [Means::Read, Means::Edited] {
            let plain = Known { is_plain: true, ..known(means, "4") };
            check(from_ref(&plain), true, &first_line(7, None), Some(Base::Version(7, None)));
            check(from_ref(&plain), true, "", Some(Base::Copy(copy.clone(), 7)));
        }
        check(from_ref(&written), false, &first_line(6, None), Some(Base::Version(6, None)));
        check(from_ref(&written), false, "", None);
        // The edit that was taken in last stays known behind what is written, and its stamp is no file's.
        let mut origin = Origin::of(&data, b"\x01z\0").unwrap();
        (origin.known, origin.base) = (vec![edited.clone()], Some(3));
        for serial in [9, 11] {
            origin.remember(vec![Known { serial, ..written.clone() }]).unwrap();
            let origin = Origin::of(&data, b"\x01z\0").unwrap();
            assert_eq!((origin.known().len(), origin.known()[1].serial), (2, serial));
            assert!(origin.known()[0].means == Means::Edited && !origin.known()[0].is("2") && copy.exists());
            assert_eq!(origin.base, Some(3));
        }
        origin.known = after(&read).to_vec();
        origin.is_now("4".to_string(), vec![]).unwrap();
        assert_eq!(origin.known(), [Known { stamp: "4".to_string(), ..read.clone() }]);
        assert!(written.is("3+9-9") && !read.is("1+9-9"));
        std::fs::remove_dir_all(&data).unwrap();
    }
}
