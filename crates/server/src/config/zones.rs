//! Which zones there are: those of `[[zone]]`, of the list, and of the directory.
//!
//! A zone written in `[[zone]]` may also lie in the directory or stand in the list: what is written there wins. Two
//! entries of one kind for one name are an error. Linear in the number of zones; a million lines are normal.

use super::Allow;
use super::shared::{FILE_OF_ITS_OWN, Ours};
use crate::complaint::{Complaint, Text};
use crate::images;
use crate::stamp::may_be_there;
use crate::zonetext::Sources;
use policy::Grants;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::folder::read_file_or_pipe;
use transfer::allow::Rules;
use transfer::remote::Remote;
use wire::Name;

#[derive(Clone, Debug)]
pub struct Zone {
    /// Lower-case wire form.
    pub apex: Box<[u8]>,
    pub file: PathBuf,
    /// None: the server's.
    pub allow_query: Option<Allow>,
    /// Who may update it; empty: nobody, and its file is all there is.
    pub allow_update: Rules,
    /// Who may have it as a whole; empty: nobody.
    pub allow_transfer: Grants,
    /// Other servers that have to do with it, if there are any.
    pub peers: Option<Box<Peers>>,
    /// How long after a change what updates have made of it is written back into its file; None: never.
    pub write_back: Option<Duration>,
    /// The file that is configured, if it is read from another one of ours: updates own it.
    pub origin: Option<PathBuf>,
    /// What serial a new content is given that comes under the old one.
    pub numbering: Numbering,
    /// The serial that it is served under; None: that of its file.
    pub given: Option<u32>,
    /// Its file could not be read for that, because of this error of the system: then it is not read under its own serial either.
    pub unread: Option<i32>,
    /// What was read for that: what is read later is to be the same.
    pub numbered: Option<Box<Sources>>,
    /// A new version of it that looks like an accident is held.
    pub is_guarded: bool,
}

/// What serial a file is given that was edited without a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// None.
    #[default]
    Keep,
    /// The one that follows.
    Increment,
    /// The seconds since 1970, if they follow; else the one that does.
    Unixtime,
}

/// Other servers that a zone comes from, or is announced to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Who has it; empty: its file, or its updates, say what it holds.
    pub primaries: Vec<Remote>,
    /// Who is told of new versions.
    pub notify: Vec<Remote>,
    /// Our addresses towards them, the first of each family; none: the kernel's choice.
    pub source: Vec<IpAddr>,
    /// No file is configured: what comes is kept in the data folder.
    pub is_kept: bool,
}

impl Zone {
    /// A zone of which only name and file are known.
    pub fn new(apex: Box<[u8]>, file: PathBuf) -> Zone {
        let (allow_query, allow_update, allow_transfer, peers) = (None, Rules::default(), Grants::default(), None);
        let (write_back, origin, given, unread, numbered) = (None, None, None, None, None);
        let (numbering, is_guarded) = (Numbering::Keep, true);
        Zone {
            apex,
            file,
            allow_query,
            allow_update,
            allow_transfer,
            peers,
            write_back,
            origin,
            numbering,
            given,
            unread,
            numbered,
            is_guarded,
        }
    }

    /// Who has it; empty: it is no secondary zone.
    pub fn primaries(&self) -> &[Remote] {
        self.peers.as_ref().map_or(&[], |peers| &peers.primaries)
    }

    pub fn is_secondary(&self) -> bool {
        !self.primaries().is_empty()
    }

    /// It is to come from others, and no file has it: it never has come, or that is gone.
    pub fn is_awaited(&self) -> bool {
        self.is_secondary() && !may_be_there(&self.file)
    }

    /// Updates own it: the file that is configured is not all that there is of it.
    pub fn is_owned(&self) -> bool {
        !self.allow_update.0.is_empty()
    }

    /// The same, and it is read from what they have made of it: that is in the journal before it is served.
    pub fn is_journaled(&self) -> bool {
        self.is_owned() && self.origin.is_some()
    }

    /// The file that is configured.
    pub fn origin(&self) -> &Path {
        self.origin.as_deref().unwrap_or(&self.file)
    }

    /// From now on it is read from a file of ours.
    pub fn read_from(&mut self, ours: PathBuf) {
        let configured = std::mem::replace(&mut self.file, ours);
        self.origin.get_or_insert(configured);
    }
}

/// A path from the configuration, with the complaint to raise if it does not work.
#[derive(Clone, Debug)]
pub struct Named {
    pub path: PathBuf,
    pub from: Option<Complaint>,
    /// Of the zones that are kept by commands: there is none before the first start, and always after it.
    pub is_ours: bool,
}

/// A list of more octets than this is a wrong file, not a list of zones.
pub const LARGEST_ZONE_LIST: u64 = 4 << 30;

/// Complaints about one list: if there are more it is none.
const COMPLAINTS_MAX: usize = 100;

impl Named {
    fn complaint(&self, what: String, instead: &str) -> Complaint {
        match &self.from {
            Some(place) => place.saying(what, instead),
            None => Complaint::about(&self.path, what, instead),
        }
    }
}

/// The apex that a text names. Absolute with or without its last dot.
pub fn apex(text: &str) -> Result<Box<[u8]>, &'static str> {
    match Name::from_text(text.as_bytes(), Some(&Name::ROOT)) {
        Ok(name) => Ok(name.fold().bytes().into()),
        Err(e) => Err(e.why),
    }
}

/// What is wrong with what names zones.
#[derive(Default)]
pub struct Wrongs {
    pub complaints: Vec<Complaint>,
    /// Of files in folders that are no zone's: with them left out the others are what they would be without.
    pub strays: Vec<Complaint>,
}

/// `is_served`: of two files of a folder that are of one zone it is this.
pub fn gather(
    written: Vec<Zone>,
    list: Option<&Named>,
    directories: &[Named],
    is_served: &dyn Fn(&Zone) -> bool,
    wrongs: &mut Wrongs,
) -> Vec<Zone> {
    // What commands keep they have written themselves.
    let is_theirs = |directory: &Named| !directory.is_ours;
    let is_any = list.is_some() || directories.iter().any(is_theirs);
    let ours = if is_any { Ours::of(&written) } else { Ours::default() };
    let mut zones = written;
    let mut add = |further: Vec<Zone>| {
        if zones.is_empty() {
            zones = further;
            return;
        }
        let known: HashSet<&[u8]> = zones.iter().map(|z| &*z.apex).collect();
        let is_new = |z: &Zone| !known.contains(&*z.apex);
        let more: Vec<Zone> = further.into_iter().filter(is_new).collect();
        drop(known);
        zones.extend(more);
    };
    list.iter().for_each(|list| add(listed(list, &ours, &mut wrongs.complaints)));
    directories.iter().for_each(|directory| add(found(directory, &ours, is_served, wrongs)));
    zones
}

/// The first zone of each name; the others are complained of, by their place in the series.
pub fn once<T>(zones: Vec<T>, apex: impl Fn(&T) -> &[u8], mut complain: impl FnMut(usize, &T)) -> Vec<T> {
    let mut seen = HashSet::with_capacity(zones.len());
    let first: Vec<bool> = zones.iter().map(|z| seen.insert(apex(z))).collect();
    drop(seen);
    zones.iter().enumerate().filter(|&(i, _)| !first[i]).for_each(|(i, z)| complain(i, z));
    zones.into_iter().zip(first).filter(|(_, first)| *first).map(|(z, _)| z).collect()
}

/// What is to be done about something that names zones and cannot be read.
fn remedy(why: &std::io::Error) -> &'static str {
    match why.kind() {
        ErrorKind::PermissionDenied => "let the server's user read it, and enter all folders above it",
        _ => "put it back, or an empty one if its zones are to go, as the server may read it",
    }
}

/// The zones of a list: "NAME FILE" a line, `#` begins a comment.
fn listed(list: &Named, ours: &Ours, complaints: &mut Vec<Complaint>) -> Vec<Zone> {
    let text = match read_list(&list.path) {
        Ok(text) => text,
        Err((why, remedy)) => {
            let what = format!("the list {} cannot be read: {why}", list.path.display());
            complaints.push(list.complaint(what, remedy));
            return Vec::new();
        }
    };
    let folder = list.path.parent().unwrap_or(Path::new(""));
    let (mut zones, mut lines, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let span = start..start + line.trim_end().len();
        start += line.len();
        match entry(line, folder) {
            Ok(None) => {}
            Ok(Some(zone)) => {
                let hinders = ours.hinders(&zone, false);
                wrong.extend(hinders.map(|why| (span.clone(), why, FILE_OF_ITS_OWN)));
                zones.push(zone);
                lines.push(span);
            }
            Err(why) => wrong.push((span, why, "write NAME FILE: example.com example.com.zone")),
        }
    }
    let zones = once(
        zones,
        |zone| &zone.apex,
        |i, _| {
            wrong.push((lines[i].clone(), "this zone stands twice in the list".into(), "remove one of the lines"));
        },
    );
    let further = wrong.len().saturating_sub(COMPLAINTS_MAX);
    let place = Text::new(&list.path, &text);
    wrong.sort_by_key(|(span, _, _)| span.start);
    let shown = wrong.into_iter().take(COMPLAINTS_MAX);
    complaints.extend(shown.map(|(span, what, instead)| place.complaint(span, what, instead)));
    if further > 0 {
        complaints.push(Complaint::about(&list.path, format!("and {further} more lines are wrong"), ""));
    }
    zones
}

/// Err: why it cannot be read, and what is to be done about that.
fn read_list(path: &Path) -> Result<String, (String, &'static str)> {
    let octets = read_file_or_pipe(path, LARGEST_ZONE_LIST).map_err(|e| (e.to_string(), remedy(&e)))?;
    String::from_utf8(octets).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&octet| octet == b'\n').count();
        let why = format!("in line {line} there is an octet that is no UTF-8");
        (why, "write the file in UTF-8, and odd octets of names as \\DDD")
    })
}

/// Which of these zones a list names, as far as it can be read: with a million others in it, for who asks for a few.
pub fn among(list: &Named, wanted: &HashSet<Box<[u8]>>) -> HashMap<Box<[u8]>, Zone> {
    let (text, folder) = (read_list(&list.path).unwrap_or_default(), list.path.parent().unwrap_or(Path::new("")));
    let is_wanted = |line: &&str| {
        let name = said(line).split_once(BETWEEN).map(|(name, _)| name);
        name.and_then(|name| apex(name).ok()).is_some_and(|apex| wanted.contains(&apex))
    };
    let mut found = HashMap::new();
    for zone in text.lines().filter(is_wanted).filter_map(|line| entry(line, folder).ok()?) {
        found.entry(zone.apex.clone()).or_insert(zone);
    }
    found
}

/// Between a zone's name and its file.
const BETWEEN: [char; 2] = [' ', '\t'];

/// Of a line that is wrong so much is shown.
const LINE_SHOWN: usize = 300;

/// What a line says; empty: nothing.
fn said(line: &str) -> &str {
    // Some editors begin a file with a mark of its order of octets.
    let line = line.trim_start_matches('\u{feff}').trim();
    if line.starts_with('#') { "" } else { line }
}

fn entry(line: &str, folder: &Path) -> Result<Option<Zone>, String> {
    let line = said(line);
    if line.is_empty() {
        return Ok(None);
    }
    let Some((name, file)) = line.split_once(BETWEEN) else {
        return Err(format!("the zone `{}` has no file", line.chars().take(LINE_SHOWN).collect::<String>()));
    };
    let apex = apex(name).map_err(|why| format!("`{name}` is no name of a zone: {why}"))?;
    Ok(Some(Zone::new(apex, folder.join(file.trim_start()))))
}

/// Every NAME.zone of a directory, in the order of their names so that two starts do the same.
fn found(directory: &Named, ours: &Ours, is_served: &dyn Fn(&Zone) -> bool, wrongs: &mut Wrongs) -> Vec<Zone> {
    let (path, Wrongs { complaints, strays }) = (&directory.path, wrongs);
    // A zone of which it is not told is one that is gone.
    let entries = match std::fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(e) if directory.is_ours && e.kind() == ErrorKind::NotFound && !images::are_in_sight_of(path) => {
            return Vec::new();
        }
        Err(e) => {
            let what = format!("the folder {} cannot be read: {e}", path.display());
            complaints.push(directory.complaint(what, remedy(&e)));
            return Vec::new();
        }
    };
    let is_link = |e: &std::fs::DirEntry| e.file_type().is_ok_and(|t| t.is_symlink());
    let named = entries.into_iter().map(|e| (e.path(), is_link(&e)));
    let mut files: Vec<(PathBuf, bool)> = named.filter(|(file, _)| is_zone_file(file)).collect();
    // As octets: all lie in one folder, and to compare paths part by part took half of the time.
    files.sort_unstable_by(|(one, _), (other, _)| one.as_os_str().as_bytes().cmp(other.as_os_str().as_bytes()));
    let mut zones = Vec::new();
    for (file, is_link) in files {
        let name = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        match apex(name) {
            Ok(apex) => {
                let zone = Zone::new(apex, file);
                let hinders = ours.hinders(&zone, is_link);
                complaints.extend(hinders.map(|why| Complaint::about(&zone.file, why, FILE_OF_ITS_OWN)));
                zones.push(zone);
            }
            Err(why) => {
                let what = format!("`{name}` is no name of a zone: {why}");
                strays.push(Complaint::about(&file, what, "name the file ZONE.zone: example.com.zone"));
            }
        }
    }
    let mut others = Vec::new();
    let mut zones = once(zones, |zone| &zone.apex, |_, zone| others.push(zone.clone()));
    for mut other in others {
        if is_served(&other)
            && let Some(first) = zones.iter_mut().find(|first| first.apex == other.apex)
        {
            std::mem::swap(first, &mut other);
        }
        strays.push(Complaint::about(&other.file, "another file here is of the same zone", "remove one"));
    }
    zones
}

fn is_zone_file(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|e| e == "zone")
}
