//! Zones that have one file: where we write it, for one of them, the text that the others are made of is gone.

use super::written::Written;
use super::zones::Zone;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device and number.
type Inode = (u64, u64);

/// None: it is not there.
pub fn inode(file: &Path) -> Option<Inode> {
    std::fs::metadata(file).map(|m| (m.dev(), m.ino())).ok()
}

fn is_of_another(file: &Path, is_received: bool) -> String {
    let why = if is_received { "what comes is written to it" } else { "is written back" };
    format!("{} is the file of another zone, and {why}", file.display())
}

/// What to do about that.
pub const FILE_OF_ITS_OWN: &str = "write a file of its own for each";

/// Files of zones of `[[zone]]` that we write. What lists and folders name is not to be one of them.
#[derive(Default)]
pub struct Ours {
    /// Whether others send it.
    files: HashMap<Inode, bool>,
    /// What lists name by these, or by links. A million names are not looked at each by itself.
    names: HashSet<OsString>,
    /// Those of `[[zone]]`: what else is named like one of them is passed over.
    written: HashSet<Box<[u8]>>,
}

impl Ours {
    pub fn of(written: &[Zone]) -> Ours {
        let mut ours = Ours::among(written.iter().filter(|zone| is_ours(zone)));
        if !ours.files.is_empty() {
            ours.written = written.iter().map(|zone| zone.apex.clone()).collect();
        }
        ours
    }

    /// As far as they may have the file of this zone, which is none of theirs.
    pub fn beside(written: &Written, zone: &Zone) -> Ours {
        let (is_link, name) = (zone.file.is_symlink(), zone.file.file_name());
        if !is_link && !name.is_some_and(|name| written.is_named_like_ours(name)) {
            // Thousands of zones may come at once, beside as many that are ours.
            return Ours::default();
        }
        let may_be = |other: &&Zone| is_ours(other) && (is_link || other.origin().file_name() == name);
        Ours::among(written.iter().filter(may_be))
    }

    fn among<'z>(zones: impl Iterator<Item = &'z Zone>) -> Ours {
        let mut ours = Ours::default();
        for zone in zones {
            let file = zone.origin();
            // What is not there yet has no other name.
            let Some(inode) = inode(file) else { continue };
            let linked = std::fs::read_link(file).ok();
            let names = [Some(file), linked.as_deref()].into_iter().flatten().filter_map(Path::file_name);
            ours.names.extend(names.map(OsStr::to_os_string));
            ours.files.insert(inode, zone.is_secondary());
        }
        ours
    }

    /// Why a zone that is named elsewhere cannot have its file.
    pub fn hinders(&self, zone: &Zone, is_link: bool) -> Option<String> {
        let may_be = is_link || zone.file.file_name().is_some_and(|name| self.names.contains(name));
        if self.files.is_empty() || !may_be || self.written.contains(&zone.apex) {
            return None;
        }
        self.files.get(&inode(&zone.file)?).map(|is_received| is_of_another(&zone.file, *is_received))
    }
}

/// Whether we write the zone's file. What is kept for others lies in data-dir.
pub fn is_ours(zone: &Zone) -> bool {
    let is_received = zone.is_secondary() && zone.peers.as_ref().is_some_and(|peers| !peers.is_kept);
    zone.write_back.is_some() || is_received
}

/// Zones whose file is also another zone's, be it by a link, and we write it: by their place in the series, and why that is wrong.
pub fn shared(written: &[Zone]) -> Vec<(usize, String)> {
    if !written.iter().any(is_ours) {
        return Vec::new();
    }
    // What is not there yet has no other name.
    let file = |zone: &Zone| inode(&zone.file).ok_or_else(|| zone.file.clone());
    let files: Vec<_> = written.iter().map(file).collect();
    let ours: HashSet<_> = written.iter().zip(&files).filter(|(zone, _)| is_ours(zone)).map(|(_, file)| file).collect();
    let (mut of, mut wrong) = (HashMap::new(), Vec::new());
    for (at, (zone, file)) in written.iter().zip(&files).enumerate().filter(|(_, (_, file))| ours.contains(file)) {
        if let Some(other) = of.insert(file, zone) {
            let is_received = zone.is_secondary() || Zone::is_secondary(other);
            wrong.push((at, is_of_another(&zone.file, is_received)));
        }
    }
    wrong
}
