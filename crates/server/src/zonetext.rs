//! Zone files as they lie on the disk: read, parsed, and remembered with all that they include.
//!
//! What a zone file includes must lie in its own folder or below: whoever writes a zone must not get to read others'
//! files through the complaints about them.

mod collation;
pub(crate) mod edition;
pub mod findings;
pub(crate) mod pieces;
pub mod reading;
pub(crate) mod sum;

use crate::config::Zone;
use crate::stamp::{self, Stamp};
use pieces::Pieces;
use pieces::cutting::Cutting;
use pieces::notes::{Hashing, Notes};
use reading::side_by_side;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::Map;
use store::folder::{Folder, open_file};
use transfer::record::with_serial;
use wire::Name;
use wire::name::is_at_or_below;
use wire::rtype::SOA;
use zonefile::{Files, HEAD, NoFiles, Objection, Options, Part, Place, Record, Report, Severity, Surroundings};

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

impl Unread {
    /// For people.
    pub fn text(&self, zone: &Zone) -> String {
        format!("{}: {}", zone.file.display(), self.why)
    }
}

pub enum Text {
    Read(Vec<u8>),
    Mapped(Map),
}

impl Text {
    pub fn of(path: &Path) -> io::Result<Text> {
        let mut file = open_file(path)?;
        let len = file.metadata()?.len();
        if len >= MAPPED_FROM {
            return Map::open_as_cached(path).map(Text::Mapped);
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

/// A text that begins with a line of more than that is none of a zone: a file with a hole of a TiB, say, of which all would be looked through.
const LINE_MAX: usize = 1 << 20;

pub fn open(zone: &Zone) -> Result<Opened<'_>, Unread> {
    if let Some(code) = zone.unread {
        return Err(Unread { why: io::Error::from_raw_os_error(code), sources: vec![(zone.file.clone(), None)] });
    }
    let stamp = Stamp::of(&zone.file);
    let text = Text::of(&zone.file)
        .and_then(|text| has_lines(text.octets()).map(|()| text))
        .and_then(|text| is_whole(zone, text.octets()).map(|()| text))
        .and_then(|text| is_as_numbered(zone, &zone.file).map(|()| text));
    match text {
        // One that has come since is not to be taken for gone.
        Ok(text) => Ok(Opened { zone, text, stamp: stamp.filter(|stamp| *stamp != Stamp::ABSENT) }),
        Err(why) => {
            let stamp = stamp_of_unread(stamp, &why);
            Err(Unread { why, sources: vec![(zone.file.clone(), stamp)] })
        }
    }
}

/// As what a file counts that could not be read. One that came or went meanwhile is not that: back as it was, it would never be read again.
fn stamp_of_unread(stamp: Option<Stamp>, why: &io::Error) -> Option<Stamp> {
    let is_gone = matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    stamp.filter(|stamp| !may_pass(why) && is_gone == (*stamp == Stamp::ABSENT))
}

/// Err: what was just read of a file is not what was read of it for the serial of the zone. It is read again.
fn is_as_numbered(zone: &Zone, file: &Path) -> io::Result<()> {
    let mut of_file = zone.numbered.iter().flat_map(|sources| &**sources).filter(|(known, _)| known == file);
    let is_another = |(_, stamp): &(PathBuf, Option<Stamp>)| stamp.is_some_and(|stamp| Stamp::of(file) != Some(stamp));
    if !of_file.any(is_another) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "it was replaced while it was read; reload it once more"))
}

fn is_whole(zone: &Zone, text: &[u8]) -> io::Result<()> {
    match sum::holds(text) {
        Err(_) if zone.is_secondary() => Err(sum::Broken::error("the zone is fetched anew")),
        held => Ok(held.map(drop)?),
    }
}

fn has_lines(text: &[u8]) -> io::Result<()> {
    match text.get(..LINE_MAX) {
        Some(begin) if !begin.contains(&b'\n') => {
            let why = format!("no line ends in {LINE_MAX} octets of it: it is no zone file");
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
        _ => Ok(()),
    }
}

/// Whether what hinders reading says nothing of the file, which may be read the next time: too many files were open, the disk failed once, rules that
/// stand elsewhere said no, a network's file system was away. All is so that the system says, but for what these say of the file and its place.
pub fn may_pass(why: &io::Error) -> bool {
    use libc::{EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR};
    match why.raw_os_error() {
        Some(code) => ![EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR].contains(&code),
        None => why.kind() == io::ErrorKind::ResourceBusy,
    }
}

/// The same, once nothing can be written any more that looks as if it had been there before.
pub fn open_settled(zone: &Zone) -> Result<Opened<'_>, Unread> {
    if Stamp::of(&zone.file).is_none_or(|stamp| stamp == Stamp::ABSENT) {
        stamp::let_tick();
    }
    open(zone)
}

/// Parses a zone's file; each good record goes to `sink`.
pub fn read(zone: &Zone, sink: &mut Sink<'_>) -> Result<Reading, Unread> {
    open(zone).map(|opened| opened.read(sink))
}

impl<'z> Opened<'z> {
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

    fn includes(&self) -> Includes<'z> {
        let base = self.zone.file.parent().unwrap_or(Path::new("")).to_path_buf();
        Includes { zone: self.zone, base, sources: vec![(self.zone.file.clone(), self.stamp)] }
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
        let (collected, reading, _) = self.in_parts(n, None, &begin, &add)?;
        Some((collected, reading))
    }

    /// As `read_in_parts`, or in one piece if that must be, and notes what there is. `forget`: what was read so far is not good.
    pub fn read_noting<T: Send>(
        &self,
        n: usize,
        cutting: Cutting,
        forget: impl Fn(),
        begin: impl Fn() -> T + Sync,
        add: impl Fn(&mut T, Record<'_>) -> Result<(), Vec<Objection>> + Sync,
    ) -> (Vec<T>, Reading, Option<Pieces>) {
        let hashing = Hashing::new(cutting.seed, &self.zone.apex);
        let mut read = self.in_parts(n, Some((cutting, hashing)), &begin, &add);
        if read.is_none() && n > 1 {
            forget();
            read = self.in_parts(n, None, &begin, &add);
        }
        let (collected, reading, noted) = read.unwrap_or_else(|| {
            forget();
            let mut collected = begin();
            let reading = self.read(&mut |record, _| add(&mut collected, record));
            (vec![collected], reading, None)
        });
        let noted = noted.filter(|_| reading.sources.len() == 1 && self.is_unchanged());
        let pieces = noted.and_then(|(notes, inside)| Pieces::of(notes, cutting, inside));
        (collected, reading, pieces)
    }

    /// True if the file is, for certain, still what it was when it was opened.
    fn is_unchanged(&self) -> bool {
        self.stamp.is_some() && Stamp::of(&self.zone.file) == self.stamp
    }

    /// `cut`: each part is read by its pieces, and these are noted.
    fn in_parts<'h, T: Send>(
        &self,
        n: usize,
        cut: Option<(Cutting, Hashing<'h>)>,
        begin: &(impl Fn() -> T + Sync),
        add: &(impl Fn(&mut T, Record<'_>) -> Result<(), Vec<Objection>> + Sync),
    ) -> Option<(Vec<T>, Reading, Option<Noted<'h>>)> {
        let (text, options) = (self.text.octets(), Options::default());
        let mut includes = self.includes();
        let [outside, inside] = self.surroundings(cut.map_or(HEAD, |(cutting, _)| cutting.head));
        let border = |text: &[u8], from: usize| match cut {
            Some((cutting, _)) => cutting.border(text, from),
            None => zonefile::border(text, from),
        };
        let parts = zonefile::parts(text, inside, outside, n, border);
        let mut files = Some(&mut includes);
        let is_odd = AtomicBool::new(false);
        let read = parts.iter().map(|part| {
            let files = if part.is_first() { files.take() } else { None };
            let notes = cut.map(|(cutting, hashing)| (cutting, Notes::new(hashing)));
            let mut reader = Reader { of: self, inside, notes, is_even: true, is_odd: &is_odd };
            move || {
                let mut collected = begin();
                let mut add = |record: Record<'_>| add(&mut collected, record);
                let reading = match files {
                    Some(files) => reader.read(part, files, &mut add),
                    None => reader.read(part, &mut NoFiles, &mut add),
                };
                let notes = reader.notes.filter(|_| reader.is_even).map(|(_, notes)| notes);
                (collected, (reading, notes))
            }
        });
        let (collected, read): (_, Vec<_>) = side_by_side(read).into_iter().unzip();
        let (readings, notes): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        let report = zonefile::join(readings, &options)?;
        let noted = notes.into_iter().collect::<Option<_>>().map(|notes| (notes, inside));
        Some((collected, Reading { report, sources: includes.sources }, noted))
    }

    /// What holds where the text begins, and behind its head.
    fn surroundings(&self, head: usize) -> [Surroundings; 2] {
        let (origin, options) = (Name::from_wire(&self.zone.apex).unwrap_or(Name::ROOT), Options::default());
        let inside = Surroundings::behind(self.text.octets(), head, &origin, &options);
        [Surroundings::outside(&origin, &options), inside]
    }

    pub fn text(&self) -> &[u8] {
        self.text.octets()
    }

    /// Parses a piece, around which this holds unless it is the first one. False: that is not so, or something in it is wrong.
    pub fn read_piece(&self, piece: Range<usize>, inside: &Surroundings, mut sink: impl FnMut(&Record<'_>)) -> bool {
        let (origin, options) = (Name::from_wire(&self.zone.apex).unwrap_or(Name::ROOT), Options::default());
        let supposed = if piece.start == 0 { Surroundings::outside(&origin, &options) } else { *inside };
        let mut take = |record: Record<'_>| {
            sink(&record);
            Ok(())
        };
        let mut checked = |record: Record<'_>, _: &Place| of_zone(self.zone, record, &mut take);
        let part = Part::new(self.text.octets(), piece, supposed);
        let reading = part.read(&self.zone.file.to_string_lossy(), &mut NoFiles, &options, &mut checked);
        reading.is_whole() && reading.errors() == 0 && reading.is_among(inside)
    }

    /// That the text is all there is of the zone, as the file was before it was read. None: it is not known.
    pub fn only_source(&self) -> Option<Sources> {
        self.is_unchanged().then(|| vec![(self.zone.file.clone(), self.stamp)])
    }
}

/// What was noted of the parts of a text, and what holds behind each piece.
type Noted<'h> = (Vec<Notes<'h>>, Surroundings);

/// Reads one part of a text, piece by piece if that is to be noted.
struct Reader<'r, 'h> {
    of: &'r Opened<'r>,
    inside: Surroundings,
    notes: Option<(Cutting, Notes<'h>)>,
    /// The same holds behind each piece.
    is_even: bool,
    /// Some part cannot be read by itself: all that is read of any is for nothing.
    is_odd: &'r AtomicBool,
}

impl Reader<'_, '_> {
    fn read(
        &mut self,
        part: &Part<'_>,
        files: &mut dyn Files,
        add: &mut dyn FnMut(Record<'_>) -> Result<(), Vec<Objection>>,
    ) -> zonefile::Reading {
        let text = self.of.text.octets();
        let mut read: Option<zonefile::Reading> = None;
        let Range { start: mut at, end: part_end } = part.range();
        loop {
            let cutting = self.notes.as_ref().map(|(cutting, _)| *cutting);
            let end = cutting.map_or(part_end, |cutting| cutting.end(text, at).min(part_end));
            let next = self.piece(&part.piece(at..end, read.as_ref()), files, add);
            if let Some((cutting, notes)) = &mut self.notes {
                notes.end_piece(text, &(at..end), cutting);
            }
            self.is_even &= next.is_among(&self.inside);
            let all = match read {
                Some(before) => before.and(next, &Options::default()),
                None => next,
            };
            self.is_odd.fetch_or(!all.is_whole(), Relaxed);
            if end == part_end || self.is_odd.load(Relaxed) {
                return all;
            }
            (at, read) = (end, Some(all));
        }
    }

    fn piece(
        &mut self,
        piece: &Part<'_>,
        files: &mut dyn Files,
        add: &mut dyn FnMut(Record<'_>) -> Result<(), Vec<Objection>>,
    ) -> zonefile::Reading {
        let Reader { of, notes, .. } = self;
        let mut noted = |record: Record<'_>| {
            if let Some((_, notes)) = notes {
                notes.record(&record);
            }
            add(record)
        };
        let mut sink = |record: Record<'_>, _: &Place| of_zone(of.zone, record, &mut noted);
        piece.read(&of.zone.file.to_string_lossy(), files, &Options::default(), &mut sink)
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

struct Includes<'z> {
    zone: &'z Zone,
    /// The zone file's folder.
    base: PathBuf,
    sources: Sources,
}

impl Files for Includes<'_> {
    fn include(&mut self, from: &str, path: &str) -> Result<Vec<u8>, String> {
        let wanted = Path::new(from).parent().unwrap_or(Path::new("")).join(path);
        let relative = wanted.strip_prefix(&self.base).unwrap_or(&wanted);
        let base = if self.base.as_os_str().is_empty() { Path::new(".") } else { &self.base };
        // First of all: what it is when it is read later is found to be another then.
        let stamp = Stamp::of(&wanted);
        let found = Folder::open(base).and_then(|folder| folder.open_file(relative));
        // What leads to it may be mended.
        let stamp = stamp.filter(|stamp| found.is_ok() != (*stamp == Stamp::ABSENT));
        let mut text = Vec::new();
        // Piece by piece: of a file with a hole of a TiB all would be taken into memory.
        let read = found.and_then(|mut file| {
            while let n @ 1.. = Read::take(&mut file, LINE_MAX as u64).read_to_end(&mut text)? {
                has_lines(&text[text.len() - n..])?;
            }
            is_as_numbered(self.zone, &wanted)
        });
        let read = read.map(|()| text);
        self.sources.push((wanted, stamp.filter(|_| !read.as_ref().is_err_and(may_pass))));
        read.map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    #[test]
    fn what_goes_while_it_is_read_is_read_again_when_it_is_back() {
        let (there, error) = (Stamp::decode(&[1; 32]), io::Error::from_raw_os_error);
        for (why, of_there, of_absent) in [
            (error(libc::ENOENT), false, true),
            (error(libc::ENOTDIR), false, true),
            (error(libc::EIO), false, false),
            (io::Error::new(io::ErrorKind::InvalidData, "no zone file"), true, false),
        ] {
            assert_eq!(stamp_of_unread(Some(there), &why), Some(there).filter(|_| of_there), "{why}");
            assert_eq!(stamp_of_unread(Some(Stamp::ABSENT), &why), Some(Stamp::ABSENT).filter(|_| of_absent), "{why}");
            assert_eq!(stamp_of_unread(None, &why), None);
        }
    }

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

    /// It would take as much memory.
    #[test]
    fn an_included_file_with_a_hole_behind_its_first_line_is_read_no_further() {
        let scratch = Scratch::new("hole", &[("z", "$TTL 1\n$INCLUDE sub\n"), ("sub", "c A 192.0.2.2\n")]);
        File::options().append(true).open(scratch.0.join("sub")).and_then(|file| file.set_len(1 << 33)).unwrap();
        let (_, reading) = owners(&scratch.zone("z"));
        let why = reading.report.first_error().unwrap();
        assert!(why.contains("no line ends in 1048576 octets"), "{why}");
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
    fn what_takes_the_place_of_a_file_that_is_being_read_is_not_taken_for_read() {
        // A zone that comes while a reload is under way: as long as the one before, and of the same time.
        let files = [("z", "$TTL 1\nb A 192.0.2.1\n"), ("come", "$TTL 1\nc A 192.0.2.1\n")];
        let scratch = Scratch::new("replaced", &files);
        let time = SystemTime::now() - Duration::from_secs(60);
        files.iter().for_each(|(file, _)| File::open(scratch.0.join(file)).unwrap().set_modified(time).unwrap());
        let zone = scratch.zone("z");
        let reload = open(&zone).unwrap();
        std::fs::rename(scratch.0.join("come"), &zone.file).unwrap();
        let mut owners_then = Vec::new();
        let reading = reload.read(&mut |r: Record<'_>, _: &Place| {
            owners_then.push(Name::from_wire(r.owner).unwrap().to_string());
            Ok(())
        });
        assert_eq!(owners_then, ["b.a."], "the reload has the older version served");
        let [(file, Some(stamp))] = &reading.sources[..] else { panic!("{:?}", reading.sources) };
        assert_ne!(Some(*stamp), Stamp::of(file), "and whoever looks after it finds that it is another");
        assert_eq!(owners(&zone).0, ["c.a."]);
    }

    /// Where it lies in the file that is remembered, so that no reload reads it in vain.
    #[test]
    fn what_hinders_reading_is_remembered_unless_it_may_pass() {
        for code in [libc::EMFILE, libc::EIO, libc::ENOMEM, libc::ENOTCONN, libc::EUCLEAN, libc::EBADMSG] {
            assert!(may_pass(&io::Error::from_raw_os_error(code)), "{code}");
        }
        let long = "x".repeat(LINE_MAX);
        let scratch = Scratch::new("hindered", &[("long", &*long), ("folder/x", "")]);
        let settled = |file: &str| Stamp::of(&scratch.0.join(file));
        while ["long", "folder"].iter().any(|file| settled(file).is_none()) {}
        for (file, stamp) in [("none", Some(Stamp::ABSENT)), ("long", settled("long")), ("folder", settled("folder"))] {
            let Err(unread) = read(&scratch.zone(file), &mut |_, _| Ok(())) else { panic!("{file}") };
            assert_eq!(unread.sources, [(scratch.0.join(file), stamp)], "{file}");
        }
    }

    #[test]
    fn nothing_outside_the_folder_is_included() {
        let files = [("in/z", "$TTL 1\n$INCLUDE ../secret\n$INCLUDE /etc/passwd\n"), ("secret", "b A 192.0.2.1\n")];
        let scratch = Scratch::new("outside", &files);
        let (owners, reading) = owners(&scratch.zone("in/z"));
        assert_eq!(
            (owners.len(), reading.report.errors, reading.sources.len()),
            (0, 2, 3),
            "they may come to be inside"
        );
    }

    #[test]
    fn an_included_file_that_is_not_there_may_come() {
        let scratch = Scratch::new("none", &[("z", "$TTL 1\n$INCLUDE none\n")]);
        let (_, reading) = owners(&scratch.zone("z"));
        assert_eq!((reading.report.errors, &reading.sources[1]), (1, &(scratch.0.join("none"), Some(Stamp::ABSENT))));
    }

    #[test]
    fn another_class_is_an_error() {
        let scratch = Scratch::new("class", &[("z", "$TTL 1\nb CH TXT x\nc IN TXT x\n")]);
        let (owners, reading) = owners(&scratch.zone("z"));
        assert_eq!((owners, reading.report.errors), (vec!["c.a.".to_string()], 1));
    }
}
