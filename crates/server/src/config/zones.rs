//! Which zones there are: those of `[[zone]]`, of the list, and of the directory.
//!
//! A zone written in `[[zone]]` may also lie in the directory or stand in the list: what is written there wins. Two
//! entries of one kind for one name are an error. Linear in the number of zones; a million lines are normal.

use super::Allow;
use crate::complaint::{Complaint, Text};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use wire::Name;

#[derive(Clone, Debug)]
pub struct Zone {
    /// Lower-case wire form.
    pub apex: Box<[u8]>,
    pub file: PathBuf,
    /// None: the server's.
    pub allow_query: Option<Allow>,
    /// Where it is written, for complaints; None: it was found in the directory or the list.
    pub place: Option<Box<Complaint>>,
}

/// A path from the configuration, with the complaint to raise if it does not work.
pub struct Named {
    pub path: PathBuf,
    pub from: Option<Complaint>,
}

/// A list of more octets than this is a wrong file, not a list of zones.
pub const LARGEST_ZONE_LIST: u64 = 4 << 30;

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

pub fn gather(
    written: Vec<Zone>,
    list: Option<Named>,
    directory: Option<Named>,
    complaints: &mut Vec<Complaint>,
) -> Vec<Zone> {
    let mut zones = Vec::with_capacity(written.len());
    let mut seen: HashMap<Box<[u8]>, ()> = HashMap::new();
    for zone in written {
        match seen.insert(zone.apex.clone(), ()) {
            None => zones.push(zone),
            Some(()) => complaints.push(twice(&zone)),
        }
    }
    let mut rest = list.map(|l| listed(&l, complaints)).unwrap_or_default();
    rest.extend(directory.map(|d| found(&d, complaints)).unwrap_or_default());
    for zone in rest {
        if seen.insert(zone.apex.clone(), ()).is_none() {
            zones.push(zone);
        }
    }
    zones
}

fn twice(zone: &Zone) -> Complaint {
    let name = Name::from_wire(&zone.apex).unwrap_or(Name::ROOT);
    let what = format!("the zone {name} is written twice");
    match &zone.place {
        Some(place) => place.saying(what, "remove one of them"),
        None => Complaint::about(&zone.file, what, "remove one of them"),
    }
}

/// The zones of a list: "NAME FILE" a line, `#` begins a comment.
fn listed(list: &Named, complaints: &mut Vec<Complaint>) -> Vec<Zone> {
    let text = match read_list(&list.path) {
        Ok(text) => text,
        Err(why) => {
            complaints.push(list.complaint(format!("the list {} cannot be read: {why}", list.path.display()), ""));
            return Vec::new();
        }
    };
    let folder = list.path.parent().unwrap_or(Path::new(""));
    let (mut zones, mut seen) = (Vec::new(), HashMap::new());
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let at = start;
        start += line.len();
        let complain = |what: String, instead: &str| {
            let text = Text { file: &list.path, text: &text };
            text.complaint(at..at + line.trim_end().len(), what, instead)
        };
        match entry(line, folder) {
            Ok(None) => {}
            Ok(Some(zone)) if seen.insert(zone.apex.clone(), ()).is_none() => zones.push(zone),
            Ok(Some(_)) => {
                complaints.push(complain("this zone stands twice in the list".into(), "remove one of the lines"))
            }
            Err(why) => complaints.push(complain(why, "write NAME FILE: example.com example.com.zone")),
        }
    }
    zones
}

fn read_list(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|e| e.to_string())?.len();
    if size > LARGEST_ZONE_LIST {
        return Err(format!("it has {size} octets, and at most {LARGEST_ZONE_LIST} are read"));
    }
    std::fs::read_to_string(path).map_err(|e| e.to_string())
}

fn entry(line: &str, folder: &Path) -> Result<Option<Zone>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let Some((name, file)) = line.split_once([' ', '\t']) else {
        return Err(format!("the zone `{line}` has no file"));
    };
    let apex = apex(name).map_err(|why| format!("`{name}` is no name of a zone: {why}"))?;
    Ok(Some(Zone { apex, file: folder.join(file.trim_start()), allow_query: None, place: None }))
}

/// Every NAME.zone of a directory, in the order of their names so that two starts do the same.
fn found(directory: &Named, complaints: &mut Vec<Complaint>) -> Vec<Zone> {
    let path = &directory.path;
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(e) => {
            complaints.push(directory.complaint(format!("the folder {} cannot be read: {e}", path.display()), ""));
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| is_zone_file(p)).collect();
    files.sort();
    let (mut zones, mut seen) = (Vec::new(), HashMap::new());
    for file in files {
        let name = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        match apex(name) {
            Ok(apex) if seen.insert(apex.clone(), ()).is_none() => {
                zones.push(Zone { apex, file, allow_query: None, place: None })
            }
            Ok(_) => complaints.push(Complaint::about(&file, "another file here is of the same zone", "remove one")),
            Err(why) => {
                let what = format!("`{name}` is no name of a zone: {why}");
                complaints.push(Complaint::about(&file, what, "name the file ZONE.zone: example.com.zone"));
            }
        }
    }
    zones
}

fn is_zone_file(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|e| e == "zone")
}
