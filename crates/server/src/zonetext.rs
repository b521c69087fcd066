//! Zone files as they lie on the disk: read, parsed, and remembered with all that they include.
//!
//! What a zone file includes must lie in its own folder or below: whoever writes a zone must not get to read others'
//! files through the complaints about them.

use crate::config::Zone;
use crate::reading::side_by_side;
use crate::stamp::Stamp;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use store::Map;
use store::folder::Folder;
use transfer::record::with_serial;
use wire::Name;
use wire::name::is_at_or_below;
use wire::rtype::SOA;
use zonefile::{Files, NoFiles, Objection, Options, Place, Record, Report, Severity};

/// Files at least this long are mapped, not read: half a zone less in memory while it is built.
const MAPPED_FROM: u64 = 64 << 20;

/// A zone's file and what it includes, as they were before they were read.
pub type Sources = Vec<(PathBuf, Option<Stamp>)>;

/// What reading a zone's text gave besides its records.
pub struct Reading {
    pub report: Report,
    pub sources: Sources,
}

/// A zone whose file cannot be read at all.
#[derive(Debug)]
pub struct Unread {
    pub why: io::Error,
    pub sources: Sources,
}

pub enum Text {
    Read(Vec<u8>),
    Mapped(Map),
}

impl Text {
    pub fn of(path: &Path) -> io::Result<Text> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        if len >= MAPPED_FROM {
            return Map::open(path).map(Text::Mapped);
        }
        let mut octets = Vec::with_capacity(len as usize + 1);
        file.read_to_end(&mut octets)?;
        Ok(Text::Read(octets))
    }

    pub fn octets(&self) -> &[u8] {
        match self {
            Text::Read(octets) => octets,
            Text::Mapped(map) => map,
        }
    }
}

/// A zone's file, its text at hand.
pub struct Opened<'z> {
    zone: &'z Zone,
    text: Text,
    /// As the file was before it was opened.
    stamp: Option<Stamp>,
}

pub fn open(zone: &Zone) -> Result<Opened<'_>, Unread> {
    let stamp = Stamp::of(&zone.file);
    match Text::of(&zone.file) {
        Ok(text) => Ok(Opened { zone, text, stamp }),
        Err(why) => Err(Unread { why, sources: vec![(zone.file.clone(), stamp)] }),
    }
}

/// Parses a zone's file; each good record goes to `sink`.
pub fn read(zone: &Zone, sink: &mut Sink<'_>) -> Result<Reading, Unread> {
    open(zone).map(|opened| opened.read(sink))
}

impl Opened<'_> {
    pub fn len(&self) -> usize {
        self.text.octets().len()
    }

    pub fn is_empty(&self) -> bool {
        self.text.octets().is_empty()
    }

    /// The octets of a usual line, as the text begins.
    pub fn octets_a_line(&self) -> u64 {
        let text = self.text.octets();
        let begin = &text[..text.len().min(1 << 16)];
        let lines = begin.iter().filter(|&&c| c == b'\n').count();
        (begin.len() / lines.max(1)) as u64
    }

    fn includes(&self) -> Includes {
        let base = self.zone.file.parent().unwrap_or(Path::new("")).to_path_buf();
        Includes { base, sources: vec![(self.zone.file.clone(), self.stamp)] }
    }

    /// Parses the text; each good record goes to `sink`.
    pub fn read(&self, sink: &mut Sink<'_>) -> Reading {
        let mut includes = self.includes();
        let report = parse(self.zone, self.text.octets(), &mut includes, sink);
        Reading { report, sources: includes.sources }
    }

    /// Parses the parts of the text side by side; the records of each go to what `begin` made for it. None: the text must
    /// be read in one piece.
    pub fn read_in_parts<T: Send>(
        &self,
        n: usize,
        begin: impl Fn() -> T + Sync,
        add: impl Fn(&mut T, Record<'_>) -> Result<(), Vec<Objection>> + Sync,
    ) -> Option<(Vec<T>, Reading)> {
        let (origin, options) = (Name::from_wire(&self.zone.apex).unwrap_or(Name::ROOT), Options::default());
        let mut includes = self.includes();
        let name = self.zone.file.to_string_lossy();
        let parts = zonefile::parts(self.text.octets(), &origin, &options, n);
        let mut files = Some(&mut includes);
        let read = parts.iter().map(|part| {
            let files = if part.is_first() { files.take() } else { None };
            let (begin, add, name, options, zone) = (&begin, &add, &name, &options, self.zone);
            move || {
                let mut collected = begin();
                let mut sink =
                    |record: Record<'_>, _: &Place| of_zone(zone, record, &mut |record| add(&mut collected, record));
                let reading = match files {
                    Some(files) => part.read(name, files, options, &mut sink),
                    None => part.read(name, &mut NoFiles, options, &mut sink),
                };
                (collected, reading)
            }
        });
        let (collected, readings) = side_by_side(read).into_iter().unzip();
        let report = zonefile::join(readings, &options)?;
        Some((collected, Reading { report, sources: includes.sources }))
    }
}

pub type Sink<'p> = dyn FnMut(Record<'_>, &Place) -> Result<(), Vec<Objection>> + 'p;

/// Parses the text of a zone.
fn parse(zone: &Zone, text: &[u8], files: &mut dyn Files, sink: &mut Sink<'_>) -> Report {
    let origin = Name::from_wire(&zone.apex).unwrap_or(Name::ROOT);
    let mut checked = |record: Record<'_>, place: &Place| of_zone(zone, record, &mut |record| sink(record, place));
    zonefile::parse(&zone.file.to_string_lossy(), text, &origin, files, &Options::default(), &mut checked)
}

/// Hands on a record of the zone, under the serial that is given to it.
fn of_zone(
    zone: &Zone,
    record: Record<'_>,
    sink: &mut dyn FnMut(Record<'_>) -> Result<(), Vec<Objection>>,
) -> Result<(), Vec<Objection>> {
    within(&zone.apex, &record)?;
    match zone.given.filter(|_| record.rtype == SOA) {
        Some(serial) => sink(Record { rdata: &with_serial(record.rdata, serial), ..record }),
        None => sink(record),
    }
}

/// A record that is not the zone's is left out, and the zone served without it: so do BIND and Knot.
fn within(apex: &[u8], record: &Record<'_>) -> Result<(), Vec<Objection>> {
    if is_at_or_below(record.owner, apex) {
        return Ok(());
    }
    let name = |wire| Name::from_wire(wire).unwrap_or(Name::ROOT);
    let what = format!("{} lies outside the zone {}; the record is left out", name(record.owner), name(apex));
    let instead = "a name of the zone; was a dot forgotten, or written too much?".to_string();
    Err(vec![Objection { severity: Severity::Warning, name: "out-of-zone", what, instead }])
}

struct Includes {
    /// The zone file's folder.
    base: PathBuf,
    sources: Sources,
}

impl Files for Includes {
    fn include(&mut self, from: &str, path: &str) -> Result<Vec<u8>, String> {
        let wanted = Path::new(from).parent().unwrap_or(Path::new("")).join(path);
        let relative = wanted.strip_prefix(&self.base).unwrap_or(&wanted);
        let base = if self.base.as_os_str().is_empty() { Path::new(".") } else { &self.base };
        let found = Folder::open(base).and_then(|folder| folder.resolve(relative)).map_err(|e| e.to_string())?;
        self.sources.push((wanted.clone(), Stamp::of(&wanted)));
        std::fs::read(found).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, files: &[(&str, &str)]) -> Scratch {
            let path = std::env::temp_dir().join(format!("dunlin-zonetext-{}-{name}", std::process::id()));
            for (file, text) in files {
                let file = path.join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
            Scratch(path)
        }

        fn zone(&self, file: &str) -> Zone {
            Zone::new(b"\x01a\x00"[..].into(), self.0.join(file))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn owners(zone: &Zone) -> (Vec<String>, Reading) {
        let mut owners = Vec::new();
        let mut sink = |r: Record<'_>, _: &Place| {
            owners.push(Name::from_wire(r.owner).unwrap().to_string());
            Ok(())
        };
        let reading = read(zone, &mut sink).unwrap();
        (owners, reading)
    }

    #[test]
    fn what_a_zone_includes_is_a_source_too() {
        let files = [
            ("z", "$TTL 1\n$INCLUDE sub/one\nb A 192.0.2.1\n"),
            ("sub/one", "$INCLUDE two\n"),
            ("sub/two", "c A 192.0.2.2\n"),
        ];
        let scratch = Scratch::new("included", &files);
        let (owners, reading) = owners(&scratch.zone("z"));
        assert_eq!((owners, reading.report.errors), (vec!["c.a.".to_string(), "b.a.".to_string()], 0));
        let sources: Vec<&Path> = reading.sources.iter().map(|(p, _)| p.strip_prefix(&scratch.0).unwrap()).collect();
        assert_eq!(sources, ["z", "sub/one", "sub/two"].map(Path::new));
    }

    #[test]
    fn nothing_outside_the_folder_is_included() {
        let files = [("in/z", "$TTL 1\n$INCLUDE ../secret\n$INCLUDE /etc/passwd\n"), ("secret", "b A 192.0.2.1\n")];
        let scratch = Scratch::new("outside", &files);
        let (owners, reading) = owners(&scratch.zone("in/z"));
        assert_eq!((owners.len(), reading.report.errors, reading.sources.len()), (0, 2, 1));
    }

    #[test]
    fn another_class_is_an_error() {
        let scratch = Scratch::new("class", &[("z", "$TTL 1\nb CH TXT x\nc IN TXT x\n")]);
        let (owners, reading) = owners(&scratch.zone("z"));
        assert_eq!((owners, reading.report.errors), (vec!["c.a.".to_string()], 1));
    }
}
