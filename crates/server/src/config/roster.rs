//! Where zones are named: in `[[zone]]`, in the list, in folders. What names a million zones is looked at, and read only
//! when it is no longer as it was.

use super::shared::{FILE_OF_ITS_OWN, Ours};
use super::written::{Written, names_of};
use super::zones::{self, Named, Wrongs, Zone};
use crate::complaint::Complaint;
use crate::images;
use crate::images::manifest::Texts;
use crate::log;
use crate::stamp::Stamp;
use crate::update::ledger;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use store::folder::zone_of;

/// Below data-dir.
pub const SECONDARIES: &str = "secondaries";

#[derive(Clone, Debug, Default)]
pub struct Roster {
    pub written: Written,
    pub(super) list: Option<Named>,
    /// Folders whose NAME.zone files are zones.
    pub(super) directories: Vec<Named>,
}

/// What names zones, as it is at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The names of those of `[[zone]]`.
    written: u64,
    list: Option<(PathBuf, Option<Stamp>)>,
    directories: Vec<(PathBuf, Option<Stamp>)>,
    /// What is said of files in these folders that are left out. Not kept on disk: they are looked at again.
    strays: Vec<String>,
}

/// Zones, and what lies beside their files and is none's.
type Gathered = (Vec<Zone>, Vec<Complaint>);

impl Roster {
    /// All zones that there are; no two have the same apex. One that is still to come from others is none yet, unless it `is_served` though its
    /// file is gone.
    pub fn gather(&self, is_served: impl Fn(&Zone) -> bool) -> Result<Vec<Zone>, Vec<Complaint>> {
        let (zones, strays) = self.gather_but_strays(is_served)?;
        if strays.is_empty() { Ok(zones) } else { Err(strays) }
    }

    /// The same, without what lies in a folder and is no zone's file: that is no reason to serve none of the others, or as they were.
    pub fn gather_but_strays(&self, is_served: impl Fn(&Zone) -> bool) -> Result<Gathered, Vec<Complaint>> {
        self.gather_of(self.written.to_vec(), self.list.as_ref(), is_served)
    }

    /// The same, where these are those of the list.
    pub fn gather_with(
        &self,
        listed: Vec<Zone>,
        is_served: impl Fn(&Zone) -> bool,
    ) -> Result<Gathered, Vec<Complaint>> {
        let mut zones = self.written.to_vec();
        zones.extend(listed.into_iter().filter(|zone| self.written.find(&zone.apex).is_none()));
        self.gather_of(zones, None, is_served)
    }

    fn gather_of(
        &self,
        zones: Vec<Zone>,
        list: Option<&Named>,
        is_served: impl Fn(&Zone) -> bool,
    ) -> Result<Gathered, Vec<Complaint>> {
        let mut wrongs = Wrongs::default();
        let mut zones = zones::gather(zones, list, &self.directories, &is_served, &mut wrongs);
        zones.retain(|zone| !zone.is_awaited() || is_served(zone));
        let Wrongs { mut complaints, strays } = wrongs;
        if complaints.is_empty() {
            return Ok((zones, strays));
        }
        complaints.extend(strays);
        Err(complaints)
    }

    /// True for what commands keep.
    pub fn keeps(&self, file: &Path) -> bool {
        self.directories.iter().any(|d| d.is_ours && file.parent() == Some(&d.path))
    }

    /// Lets zones that come from others, and have no file of their own, be kept below this folder.
    pub fn keep_in(&mut self, data_dir: &Path) {
        let folder = data_dir.join(SECONDARIES);
        for zone in self.written.iter_mut().filter(|zone| zone.peers.as_ref().is_some_and(|peers| peers.is_kept)) {
            zone.file = ledger::file_of(&folder, &zone.apex);
        }
    }

    pub fn directories(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|d| d.path.clone()).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.list.is_none() && self.directories.iter().all(|d| d.is_ours)
    }

    /// To be taken before the zones are gathered.
    pub fn seen(&self) -> Seen {
        let place = |named: &Named| (named.path.clone(), Stamp::of(&named.path));
        Seen {
            written: self.written.names(),
            list: self.list.as_ref().map(place),
            directories: self.directories.iter().map(place).collect(),
            strays: vec![],
        }
    }

    /// Why a zone that is none of `[[zone]]` cannot have its file.
    pub fn hinders(&self, zone: &Zone) -> Option<Complaint> {
        let why = Ours::beside(&self.written, zone).hinders(zone, zone.file.is_symlink())?;
        Some(Complaint::about(&zone.file, why, FILE_OF_ITS_OWN))
    }

    /// The file of a folder that is this zone's, by the name as it is written here, if there is one. A link that leads nowhere is one.
    pub fn in_directories(&self, zone: &str) -> Option<PathBuf> {
        let file = format!("{}.zone", zone.strip_suffix('.').unwrap_or(zone));
        // A name that leads elsewhere is no name of a zone of that folder.
        let is_plain = !file.contains('/') && !file.starts_with('.');
        let mut files = self.directories.iter().map(|d| d.path.join(&file));
        files.find(|file| is_plain && file.symlink_metadata().is_ok())
    }

    /// The same, however the name is written: all folders are looked through.
    pub fn anywhere_in_directories(&self, apex: &[u8]) -> Option<PathBuf> {
        let found = zones::gather(vec![], None, &self.directories, &|_| false, &mut Wrongs::default());
        found.into_iter().find(|zone| *zone.apex == *apex).map(|zone| zone.file)
    }

    /// The zones that the list names, as far as it can be read.
    pub fn listed(&self) -> HashMap<Box<[u8]>, Zone> {
        let listed = zones::gather(vec![], self.list.as_ref(), &[], &|_| false, &mut Wrongs::default());
        listed.into_iter().map(|zone| (zone.apex.clone(), zone)).collect()
    }

    /// Those of these zones that the list names.
    pub fn listed_among(&self, wanted: &HashSet<Box<[u8]>>) -> HashMap<Box<[u8]>, Zone> {
        self.list.as_ref().map(|list| zones::among(list, wanted)).unwrap_or_default()
    }

    /// Who changes a zone: transfers, updates, commands (the API), or its file.
    pub fn owner(&self, apex: &[u8]) -> &'static str {
        if let Some(zone) = self.written.find(apex) {
            return self.owner_of(zone);
        }
        let file = self.in_directories(&images::name(apex).to_string());
        let is_kept = file.is_some_and(|file| self.keeps(&file));
        // What is listed wins over what commands keep.
        if is_kept && self.listed_among(&[apex.into()].into()).is_empty() { "api" } else { "file" }
    }

    /// The same of a zone that is known.
    pub fn owner_of(&self, zone: &Zone) -> &'static str {
        match zone {
            _ if zone.is_secondary() => "transfer",
            _ if zone.is_owned() => "update",
            _ if self.keeps(&zone.file) => "api",
            _ => "file",
        }
    }

    /// All zones of which something can be read, those that are still to come among them.
    pub fn known(&self) -> Vec<Zone> {
        let (list, wrongs) = (self.list.as_ref(), &mut Wrongs::default());
        zones::gather(self.written.to_vec(), list, &self.directories, &|_| false, wrongs)
    }

    /// One of them by its name. `listed`: that of the list, if it is asked for.
    pub fn find(&self, apex: &[u8], listed: impl FnOnce() -> Option<Zone>) -> Option<Zone> {
        let named = || self.in_directories(&images::name(apex).to_string());
        let found = || named().or_else(|| self.anywhere_in_directories(apex)).map(|file| Zone::new(apex.into(), file));
        self.written.find(apex).cloned().or_else(listed).or_else(found)
    }
}

impl Seen {
    /// True if the same places name zones, whatever they name now.
    pub fn is_of(&self, other: &Seen) -> bool {
        self.written == other.written && self.places_are_those_of(other)
    }

    /// The same but for `[[zone]]`.
    pub fn places_are_those_of(&self, other: &Seen) -> bool {
        let paths = |seen: &Seen| seen.directories.iter().map(|d| d.0.clone()).collect::<Vec<_>>();
        let list = |seen: &Seen| seen.list.as_ref().map(|l| l.0.clone());
        list(self) == list(other) && paths(self) == paths(other)
    }

    /// True if the list is as it was: no zone that it names was one of `[[zone]]` then.
    pub fn list_is_that_of(&self, other: &Seen) -> bool {
        self.list == other.list && self.list.as_ref().is_none_or(|list| list.1.is_some())
    }

    /// What it would be without these zones in `[[zone]]`.
    pub fn without<'z>(&self, apexes: impl Iterator<Item = &'z [u8]>) -> Seen {
        Seen { written: self.written.wrapping_sub(names_of(apexes)), ..self.clone() }
    }

    /// True if another one's `[[zone]]` has all of these zones but this one.
    pub fn has_more(&self, apex: &[u8], other: &Seen) -> bool {
        self.written.wrapping_sub(names_of(std::iter::once(apex))) == other.written
    }

    /// True if they name the same zones, but for what folders hold.
    pub fn lists_the_same(&self, other: &Seen) -> bool {
        let is_settled = self.list.as_ref().is_none_or(|list| list.1.is_some());
        self.is_of(other) && self.list == other.list && is_settled
    }

    /// True if they name the same zones.
    pub fn names_the_same(&self, other: &Seen) -> bool {
        let is_settled = self.directories.iter().all(|d| d.1.is_some());
        self.lists_the_same(other) && self.directories == other.directories && is_settled
    }

    /// The same places. Where there are such as are left out, folders are read again by whoever looks at all zones, so that it is said again.
    pub fn beside(mut self, strays: &[Complaint]) -> Seen {
        for stray in strays {
            log::error("a file in a folder of zones is left out", &[("why", stray)]);
        }
        let directories = self.directories.iter_mut().filter(|_| !strays.is_empty());
        directories.for_each(|(_, stamp)| *stamp = None);
        self.strays = strays.iter().map(ToString::to_string).collect();
        self
    }

    pub fn strays(&self) -> &[String] {
        &self.strays
    }

    /// True if a file lies in one of the folders, not below.
    pub fn holds(&self, file: &Path) -> bool {
        self.directories.iter().any(|d| file.parent() == Some(&d.0))
    }

    /// True if the zone is one of a folder: it goes with its file.
    pub fn finds(&self, apex: &[u8], file: &Path) -> bool {
        let name = zone_of(file).filter(|_| self.holds(file));
        name.and_then(|name| super::apex(&name).ok()).is_some_and(|of| *of == *apex)
    }

    /// This, but for what another says of the list. Where `[[zone]]` named others there, or there were other folders, those that are named there no more
    /// count as listed, for nobody can tell: no configuration names just these.
    pub fn with_list_of(self, other: &Seen) -> Seen {
        let written = if self.is_of(other) { self.written } else { !self.written };
        Seen { list: other.list.clone(), written, ..self }
    }

    /// Some zones of `[[zone]]` have come, and others that have changed may not have: no configuration names just these.
    pub fn is_none_of(&mut self, written: &Written) {
        self.written = !written.names();
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.written.to_le_bytes());
        for (kind, (path, stamp)) in
            self.list.iter().map(|l| (b"list", l)).chain(self.directories.iter().map(|d| (b"dir ", d)))
        {
            Texts::push(out, kind);
            Texts::push(out, path.as_os_str().as_bytes());
            Texts::push(out, stamp.map(|s| s.encode()).as_ref().map_or(&[], |s| &s[..]));
        }
    }

    /// None: it is none.
    pub fn decode(octets: &[u8]) -> Option<Seen> {
        let (written, rest) = octets.split_first_chunk()?;
        let mut seen = Seen { written: u64::from_le_bytes(*written), ..Seen::default() };
        let mut texts = Texts(rest);
        while let Some(kind) = texts.next() {
            let (path, stamp) = (texts.next()?, texts.next()?);
            let place = (PathBuf::from(OsStr::from_bytes(path)), stamp.first_chunk().map(Stamp::decode));
            match kind {
                b"list" => seen.list = Some(place),
                _ => seen.directories.push(place),
            }
        }
        Some(seen)
    }
}
