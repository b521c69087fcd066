//! From zone files to the image that is served: built aside, written whole, mapped, remembered with its sources.
//!
//! One image holds all zones. A zone whose file is wrong keeps the data it was served with before, if there is any, and
//! is left out otherwise; the others are built all the same. Never runs on an answering thread.

pub mod admitted;
pub(crate) mod changes;
pub(crate) mod comparison;
mod going_on;
pub mod held;
pub(crate) mod inspector;
pub mod lately;
pub(crate) mod laying;
pub(crate) mod manifest;
pub(crate) mod numbering;
pub mod scratch;
pub mod serving;
pub(crate) mod sound;

use crate::clock;
use crate::config::{Seen, Zone};
pub use crate::history::Recorder;
use crate::history::last_serials;
use crate::kept;
use crate::log;
use crate::zonetext::pieces::Pieces;
use crate::zonetext::pieces::file::Shelf;
use crate::zonetext::reading::{self, Stock};
use crate::zonetext::{Reading, Unread};
use audit::{Rating, Report, Rules, Version, audit};
use going_on::{Kept, Unasked, as_served, has_changed, keep, stand, zones_of};
use held::Gate;
use image::{Builder, Image, View};
use lately::Last;
use manifest::{Entry, Identity, Known, Manifest, UNREAD};
use numbering::{may_be_numbered, numbered};
use scratch::Scratch;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use store::atomic::{self, Prepared, write_atomically};
use store::{Map, Stretch};
use wire::Name;

/// Addresses behind an image for what changes while it is served. Memory is taken as it is written.
pub const ROOM: usize = 256 << 20;

/// Below data-dir.
pub const FOLDER: &str = "images";
pub const IMAGE: &str = "zones.image";
pub const MANIFEST: &str = "zones.manifest";
const OTHERS: &str = "zones.others";
/// Of one whose image may not have its name yet.
pub const NEXT: &str = "zones.manifest.next";

/// Where images lie: a folder of their own below data-dir.
pub struct Library {
    folder: PathBuf,
    /// Who lets new versions of zones pass.
    pub gate: Arc<Gate>,
    /// Octets of records that are held while an image is built, before they are spilled.
    pub memory: usize,
    /// About how many octets of zone files have been read for images.
    pub read: Arc<AtomicU64>,
}

/// What is done with the zones of a new image before a start could find it, and whose history it is.
pub struct Beforehand<'a> {
    pub recorder: &'a mut Recorder,
    pub note: &'a mut dyn FnMut(&mut Recorder, &[Entry]),
}

#[cfg(test)]
impl Beforehand<'static> {
    /// Nothing is done, and nothing has a history.
    pub fn none(data_dir: &Path) -> Beforehand<'static> {
        let keep = crate::config::History { age: std::time::Duration::ZERO, octets: 0 };
        let (recorder, note) = (Box::new(Recorder::new(data_dir, keep)), Box::new(|_: &mut Recorder, _: &[Entry]| ()));
        Beforehand { recorder: Box::leak(recorder), note: Box::leak(note) }
    }
}

/// Zones that have come or gone since an image was made, with the file that was read last; None: it is no more, or is one of `[[zone]]`.
pub type Others = HashMap<Box<[u8]>, Option<PathBuf>>;

/// An image, mapped, and what it was made of.
pub struct Shelved {
    pub image: Image<Stretch>,
    pub manifest: Manifest,
    /// Of the texts of long zones.
    pub pieces: Shelf,
    pub file: PathBuf,
    /// About what was built just now; None: it was there.
    pub remarks: Option<Vec<Remark>>,
}

/// A zone that is not served as its file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub apex: Box<[u8]>,
    /// The first thing wrong with it.
    pub what: String,
}

/// A zone that is served though something in it is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remark {
    pub apex: Box<[u8]>,
    pub errors: u64,
    pub warnings: u64,
    /// The first thing found.
    pub what: String,
}

/// Remarks that are kept of one build. All of a zone's are told by `dunlin check`.
const REMARKS_MAX: usize = 1000;

/// What a new image takes the place of.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    /// Where the records of zones come from whose files are wrong.
    pub image: &'a Image<Stretch>,
    /// Which files that is of.
    pub manifest: &'a Manifest,
}

/// What building gave, not yet written anywhere.
struct Built {
    octets: Vec<u8>,
    entries: Vec<Entry>,
    pieces: Vec<(Box<[u8]>, Pieces)>,
    remarks: Vec<Remark>,
    seed: u64,
    /// Zones that go on with the records they were served with, for their files are wrong.
    stand: HashSet<Box<[u8]>>,
    /// Zones that were served, in part at least, and are in the new image no more: their files cannot be used, and the
    /// image that was served is damaged.
    lost: Vec<Problem>,
}

/// Whether a server has been started on the data folder that this one is in.
pub fn are_in_sight_of(folder: &Path) -> bool {
    folder.with_file_name(FOLDER).exists()
}

impl Library {
    pub fn open(data_dir: &Path) -> io::Result<Library> {
        let folder = data_dir.join(FOLDER);
        std::fs::create_dir_all(data_dir)?;
        let kept = data_dir.join(kept::FOLDER);
        // One that is gone with its zones is missed, and not made anew.
        let is_of_it = |known: Result<Known<'_>, _>| known.is_ok_and(|known| known.file.parent() == Some(&*kept));
        let had_any = || Manifest::open(&folder.join(MANIFEST)).is_some_and(|before| before.part(0, 1).any(is_of_it));
        if kept.exists() || !had_any() {
            kept::make_folder(data_dir)?;
        }
        let library = Library { folder, gate: Arc::default(), memory: scratch::memory(), read: Arc::default() };
        library.make_folder()?;
        atomic::sweep(&library.folder);
        Ok(library)
    }

    /// What is in it may go at any time, and it with that.
    fn make_folder(&self) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)
    }

    /// The image of these zones: the one on the shelf if no source has changed, else a new one. Of `wanted` and of what is not served it has what their
    /// files say now, of others what is served. `seen`: what named them. `beforehand`: done before a new one takes its name.
    pub fn current(
        &self,
        zones: &[Zone],
        wanted: &dyn Fn(&Zone) -> bool,
        seen: &Seen,
        before: Before<'_>,
        beforehand: Beforehand<'_>,
    ) -> io::Result<Shelved> {
        match self.last() {
            // What is served may be laid over it: a version of before is weighed beside that, as any other. So is what one has that could not be
            // served: it may have been forced by somebody who was told that it was for nothing.
            Some(last) if is_of(&last.manifest, before.manifest) && is_current(&last.manifest, zones) => {
                Ok(last.named_by(seen))
            }
            _ => {
                self.make_folder()?;
                let history = beforehand.recorder.position();
                let kept = as_served(zones.iter(), before, wanted, Unasked::ThatChanged);
                self.shelve(build(zones, self, Some(before), wanted, kept), history, seen, beforehand)
            }
        }
    }

    /// The same at a start. `last`: what was served last.
    pub fn first(
        &self,
        zones: &[Zone],
        seen: &Seen,
        last: Option<Last>,
        beforehand: Beforehand<'_>,
    ) -> io::Result<Shelved> {
        let last = match last {
            // What was held may be held no more, by what is configured now.
            Some(last)
                if last.is_bare()
                    && is_current(&last.shelved.manifest, zones)
                    && !last.shelved.manifest.problems().iter().any(|problem| held::is_held(&problem.what)) =>
            {
                return Ok(last.shelved.named_by(seen));
            }
            other => other,
        };
        let before = |last| Before { image: Last::served(last), manifest: &last.shelved.manifest };
        // Before anything is read: somebody else may be serving this folder.
        let history = beforehand.recorder.position();
        let built = build(zones, self, last.as_ref().map(before), &|_| true, HashMap::new());
        self.shelve(built, history, seen, beforehand)
    }

    /// These zones are about to come or go over an image that knows nothing of it.
    pub fn note_others(&self, image: Identity, zones: Others) -> io::Result<()> {
        if zones.is_empty() {
            return Ok(());
        }
        self.make_folder()?;
        // Of those that cannot be read it is not known which there are: they are not written over.
        let known = others_in(&self.read_others()?, image);
        let others: Others = known.clone().into_iter().chain(zones).collect();
        if others == known {
            return Ok(());
        }
        let mut text = others_of(image).into_bytes();
        for (apex, file) in others {
            text.extend_from_slice(name(&apex).to_string().as_bytes());
            // With a line break in its path it is not read first, and comes with the others.
            if let Some(file) = file.map(PathBuf::into_os_string).filter(|file| !file.as_bytes().contains(&b'\n')) {
                text.push(b' ');
                text.extend_from_slice(file.as_bytes());
            }
            text.push(b'\n');
        }
        write_atomically(&self.folder, OTHERS, None, |out| out.write_all(&text)).map(drop)
    }

    /// Zones that have come or gone since this image was made, or were about to.
    pub fn others(&self, image: Identity) -> Others {
        let tell = |e: &io::Error| {
            let file = self.folder.join(OTHERS);
            let facts: [(&str, &dyn std::fmt::Display); 2] = [("file", &file.display()), ("why", e)];
            log::warn("it is not known which zones have come and gone", &facts);
        };
        others_in(&self.read_others().inspect_err(tell).unwrap_or_default(), image)
    }

    fn read_others(&self) -> io::Result<Vec<u8>> {
        match std::fs::read(self.folder.join(OTHERS)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            found => found,
        }
    }

    /// Where images lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn data_dir(&self) -> &Path {
        self.folder.parent().unwrap_or(Path::new(""))
    }

    /// A new image of these zones, whether or not a source has changed. Of `wanted` all is read and weighed again; others are as `current` has them.
    pub fn again(
        &self,
        zones: &[Zone],
        wanted: &dyn Fn(&Zone) -> bool,
        seen: &Seen,
        before: Before<'_>,
        beforehand: Beforehand<'_>,
    ) -> io::Result<Shelved> {
        self.make_folder()?;
        let history = beforehand.recorder.position();
        let kept = as_served(zones.iter().filter(|zone| !wanted(zone)), before, wanted, Unasked::ThatChanged);
        self.shelve(build(zones, self, Some(before), wanted, kept), history, seen, beforehand)
    }

    /// The image written last, whatever it was made of.
    pub fn last(&self) -> Option<Shelved> {
        let file = self.folder.join(IMAGE);
        let image = open(&file).ok()?;
        let is_of = |manifest: &Manifest| (manifest.image().size, manifest.image().seed) == identity(&image);
        let named = |name: &str| Manifest::open(&self.folder.join(name)).filter(is_of);
        let manifest = named(MANIFEST).or_else(|| {
            let next = named(NEXT)?;
            // It has its name now, or by the next who looks.
            let _ = std::fs::rename(self.folder.join(NEXT), self.folder.join(MANIFEST));
            Some(next)
        })?;
        let pieces = Shelf::open(&self.folder, manifest.image());
        Some(Shelved { image, manifest, pieces, file, remarks: None })
    }

    /// Why there is no last image, though its file is there.
    pub fn why_none(&self) -> Option<String> {
        match open(&self.folder.join(IMAGE)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => Some(e.to_string()),
            Ok(_) => Some("it has no manifest that is whole".to_string()),
        }
    }

    /// Writes an image and its manifest, and only then gives them their names: a disk that is full leaves those that are there. The
    /// manifest has another one first: so a crash leaves a manifest that fits the image whichever that is.
    fn shelve(&self, built: Built, history: u64, seen: &Seen, beforehand: Beforehand<'_>) -> io::Result<Shelved> {
        let Built { octets, entries, pieces, remarks, seed, lost, .. } = built;
        if !lost.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, told(&lost)));
        }
        let built = Image::open(&octets[..]).map_err(|e| io::Error::other(e.to_string()))?;
        let names = fingerprint(built.view());
        let identity = Identity { size: octets.len() as u64, seed, names };
        let image = prepare(&self.folder, IMAGE, &octets)?;
        drop(octets);
        let manifest = Manifest::prepare(&self.folder, NEXT, identity, history, seen, &entries)?;
        // What comes into the history now is in the image; a start looks at it in vain.
        (beforehand.note)(beforehand.recorder, &entries);
        let next = manifest.take_name()?;
        let (file, manifest) = (image.take_name()?, self.folder.join(MANIFEST));
        std::fs::rename(next, &manifest)?;
        atomic::sync_folder(&self.folder)?;
        let manifest = Manifest::read_back(&manifest)?;
        let image = open(&file)?;
        let of_zone =
            |(apex, of): (Box<[u8]>, Pieces)| Some((apex.clone(), of.now_of(&laying::zone(image.view(), &apex)?)?));
        let pieces: Vec<_> = pieces.into_iter().filter_map(of_zone).collect();
        let pieces = Shelf::write(&self.folder, identity, &pieces);
        Ok(Shelved { image, manifest, pieces, file, remarks: Some(remarks) })
    }
}

/// True if the image of the one is what is served, with nothing laid over it.
fn is_of(manifest: &Manifest, served: &Manifest) -> bool {
    served.changes() == 0 && manifest.image() == served.image()
}

/// True if the image of this manifest is what these zones would give if they were read now.
fn is_current(manifest: &Manifest, zones: &[Zone]) -> bool {
    manifest.is_of_this_program()
        && manifest.is_sound()
        && comparison::of_these(zones, manifest, None).is_ok_and(|difference| difference.is_empty())
}

/// Of the names of an image's zones: whatever order they are in, and whatever they hold.
fn fingerprint(view: View<'_>) -> u64 {
    let apexes = view.zones().filter_map(|z| z.ok()?.apex().ok()?.apex_name().ok());
    apexes.fold(1, |names, apex| names ^ fingerprint_of(apex))
}

/// What a zone's name takes part with.
pub fn fingerprint_of(apex: &[u8]) -> u64 {
    wire::hash::siphash::<1, 3>(b"names of zones  ", apex)
}

/// Writes an image, which takes its name when all its pages have been read back and are what they were.
pub fn write(folder: &Path, name: &str, octets: &[u8]) -> io::Result<PathBuf> {
    prepare(folder, name, octets)?.take_name()
}

fn prepare(folder: &Path, name: &str, octets: &[u8]) -> io::Result<Prepared> {
    atomic::prepare(
        folder,
        name,
        Some(octets.len() as u64),
        |out| out.write_all(octets),
        |file| {
            let image = open(file)?;
            image.compare(0, usize::MAX);
            let is_whole = image.is_whole() && image.bytes().len() == octets.len();
            is_whole.then_some(()).ok_or_else(|| io::Error::other("what was written is not what can be read back"))
        },
    )
}

/// What the text begins with that names others: of which image it is.
fn others_of(image: Identity) -> String {
    format!("{} {}\n", image.size, image.seed)
}

fn others_in(text: &[u8], image: Identity) -> Others {
    let lines = text.strip_prefix(others_of(image).as_bytes()).unwrap_or_default().split(|octet| *octet == b'\n');
    let other = |line: &[u8]| {
        let mut words = line.splitn(2, |octet| *octet == b' ');
        let name = str::from_utf8(words.next()?).ok().filter(|name| !name.is_empty())?;
        let file = words.next().map(|file| PathBuf::from(OsStr::from_bytes(file)));
        Some((crate::config::apex(name).ok()?, file))
    };
    lines.filter_map(other).collect()
}

/// Maps an image file.
pub fn open(file: &Path) -> io::Result<Image<Stretch>> {
    let odd = |e| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", file.display()));
    let map = Map::open_with_room(file, ROOM)?;
    if map.room().is_empty() {
        log::warn("no room for changes behind an image: each takes a new one", &[("octets", &ROOM)]);
    }
    Image::open_to_serve(Stretch::of(map), faults).map_err(odd)
}

/// How many reads of an image have failed.
pub fn faults(octets: &Stretch) -> u32 {
    octets.map().faults()
}

/// Octets and seed of the file of an image, whatever lies over it: no two have both alike.
pub fn identity(image: &Image<Stretch>) -> (u64, u64) {
    (image.bytes().map().len() as u64, image.header().seed)
}

/// What to do about zones that would be lost.
fn told(lost: &[Problem]) -> String {
    let first = lost.first().map_or(String::new(), |p| format!("{}: {}", name(&p.apex), p.what));
    let more = if lost.len() > 1 { format!(" (and {} zones more)", lost.len() - 1) } else { String::new() };
    format!("the image is damaged, and a zone cannot be read from its file either; restore that: {first}{more}")
}

/// Reads all zones into one image, but for those that are kept as they are served.
fn build<'a>(
    zones: &[Zone],
    library: &Library,
    before: Option<Before<'a>>,
    wanted: &dyn Fn(&Zone) -> bool,
    mut kept: HashMap<Box<[u8]>, Kept<'a>>,
) -> Built {
    let image = before.map(|before| before.image);
    let ends = LazyCell::new(|| {
        let numbered = zones.iter().filter(|zone| may_be_numbered(zone)).map(|zone| &*zone.apex);
        let numbered: HashSet<&[u8]> = numbered.collect();
        last_serials(library.data_dir(), |apex| numbered.contains(apex))
    });
    let may_be = |zone: &Zone| !kept.contains_key(&zone.apex) && may_be_numbered(zone);
    let zones = &numbered(zones, image, library, may_be, |apex| ends.get(apex).copied());
    numbering::tell(zones, image);
    let (mut is_known, mut is_steady) = (true, false);
    loop {
        let mut built = attempt(zones, library, before, &kept);
        if let Some(before) = before.filter(|b| !is_steady && has_changed(zones, b.manifest, wanted, &kept)) {
            // Once more, and none that nobody has asked for is read: then there is no third time.
            let unasked = zones.iter().filter(|zone| !wanted(zone));
            kept.extend(as_served(unasked, before, wanted, Unasked::All));
            is_steady = true;
            continue;
        }
        let is_bad = |e: &&Entry| e.problem.is_some() && !built.stand.contains(&e.apex);
        let bad: HashMap<&[u8], &Entry> = built.entries.iter().filter(is_bad).map(|e| (&*e.apex, e)).collect();
        if bad.is_empty() {
            return built;
        }
        // What differs from its checksum must not get a new one.
        if let Some(image) = image.filter(|_| kept.is_empty()) {
            image.compare(0, usize::MAX);
            is_known = image.view().zones().all(|zone| zone.and_then(|z| z.apex()?.apex_name()).is_ok());
        }
        let old = image.map(|image| zones_of(image, &bad)).unwrap_or_default();
        // What the served image itself cannot give back is not asked of it twice.
        let more: Vec<_> = old.into_iter().filter(|k| !kept.contains_key(&k.entry.apex)).collect();
        if more.is_empty() {
            // A zone that was left out before as well is not lost; of one whose name is damaged nobody can say that.
            let unread = bad.values().filter(|e| !is_known && !kept.contains_key(&e.apex));
            let unread = unread.filter_map(|e| Some(Problem { apex: e.apex.clone(), what: e.problem.clone()? }));
            built.lost.extend(unread.collect::<Vec<_>>());
            return built;
        }
        kept.extend(more.into_iter().map(|k| (k.entry.apex.clone(), k)));
    }
}

fn attempt(
    zones: &[Zone],
    library: &Library,
    before: Option<Before<'_>>,
    kept: &HashMap<Box<[u8]>, Kept<'_>>,
) -> Built {
    // All zones are judged anew: what an attempt before has noted of them came to nothing.
    library.gate.forget();
    let seed = seed();
    let spill = Arc::new(Scratch::new(library.folder.clone()));
    let stock = Stock { read: Arc::clone(&library.read), ..Stock::new(seed, library.memory, spill) };
    let last = before.map(|before| before.image.doubted());
    let (builder, filled) = reading::all(zones, &stock, |zone, builder| match kept.get(&zone.apex) {
        Some(kept) => (keep(kept, builder), None),
        None => {
            let (entry, pieces) = fill_noting(zone, &stock, builder);
            (stand(entry, last.as_ref(), builder), pieces)
        }
    });
    let (mut entries, pieces): (Vec<Entry>, Vec<Option<Pieces>>) = filled.into_iter().unzip();
    let is_as_before =
        |e: &&Entry| before.is_some_and(|b| b.manifest.find(&e.apex).is_some_and(|known| known.is_of(e)));
    let read_again: HashSet<Box<[u8]>> = entries.iter().filter(is_as_before).map(|e| e.apex.clone()).collect();
    let stand = entries.iter().filter(|e| e.problem.is_some() && !kept.contains_key(&e.apex));
    let stand: HashSet<Box<[u8]>> = stand.map(|e| e.apex.clone()).collect();
    // Without an image nobody knows what these held under the serials that they had: under those that they have now they begin anew.
    let given = zones.iter().filter(|zone| before.is_none() && zone.given.is_some());
    let given: HashSet<&[u8]> = given.map(|zone| &*zone.apex).collect();
    let (rules, mut remarks) = (Rules::at(clock::wall_s()), Vec::new());
    let (octets, _, complaints) = builder.finish_judged(&reading::Threads, &mut |zone| {
        let (report, apex) = (audit(zone, &rules), zone.apex());
        let is_as_served = kept.contains_key(apex) || stand.contains(apex);
        let served = before.map(|before| before.image).filter(|_| !is_as_served);
        let version = Version { zone, report: &report, rules: &rules, is_received: library.gate.is_received(apex) };
        // What is as it was served has been judged.
        let judge = || library.gate.judge(served, &version, &stock, read_again.contains(apex));
        let judge = || if is_as_served { None } else { judge() };
        let refusal = report.refusal().map(|why| held::refused(served, apex, why)).or_else(judge);
        if refusal.is_none() && given.contains(apex) {
            library.gate.begin(zone);
        }
        if refusal.is_none() && remarks.len() < REMARKS_MAX {
            remarks.extend(Remark::of(zone.apex(), &report));
        }
        refusal
    });
    // Of a zone that could not go on either what was wrong first: its file.
    let complaints: HashMap<Box<[u8]>, String> =
        complaints.into_iter().rev().map(|c| (c.zone.fold().bytes().into(), c.what)).collect();
    for entry in entries.iter_mut().filter(|e| e.problem.is_none()) {
        entry.problem = complaints.get(&entry.apex).cloned();
    }
    let is_served = |e: &Entry| e.problem.is_none();
    let pieces =
        entries.iter().zip(pieces).filter(|(e, _)| is_served(e)).filter_map(|(e, p)| Some((e.apex.clone(), p?)));
    let pieces = pieces.collect();
    let is_lost = |e: &&Entry| kept.get(&e.apex).is_some_and(|k| k.zone.is_some()) && complaints.contains_key(&e.apex);
    let lost = entries.iter().filter(is_lost);
    let lost = lost.filter_map(|e| Some(Problem { apex: e.apex.clone(), what: e.problem.clone()? })).collect();
    Built { octets, entries, pieces, remarks, seed, stand, lost }
}

impl Shelved {
    /// What names zones is like this now.
    fn named_by(mut self, seen: &Seen) -> Shelved {
        self.manifest.seen = seen.clone();
        self
    }
}

impl Remark {
    pub fn of(apex: &[u8], report: &Report) -> Option<Remark> {
        let first = report.findings.iter().min_by_key(|f| f.fault.rating())?;
        let (errors, warnings) = (report.count(Rating::Error), report.count(Rating::Warning));
        Some(Remark { apex: apex.into(), errors, warnings, what: first.text() })
    }
}

/// Hands a zone's records to the builder; a zone whose file has an error is taken back.
pub fn fill(zone: &Zone, stock: &Stock, builder: &mut Builder) -> Entry {
    let read = reading::one(zone, stock, builder);
    entry_of(zone, read, builder)
}

/// The same, with the pieces of a long text whose zone is all that it says.
fn fill_noting(zone: &Zone, stock: &Stock, builder: &mut Builder) -> (Entry, Option<Pieces>) {
    let is_long = std::fs::metadata(&zone.file).is_ok_and(|file| file.len() > changes::OCTETS_MAX);
    if !is_long || zone.is_journaled() {
        return (fill(zone, stock, builder), None);
    }
    match reading::one_noting(zone, stock, builder) {
        Ok((reading, pieces)) => (entry_of(zone, Ok(reading), builder), pieces),
        Err(unread) => (entry_of(zone, Err(unread), builder), None),
    }
}

fn entry_of(zone: &Zone, read: Result<Reading, Unread>, builder: &mut Builder) -> Entry {
    match read {
        Ok(reading) => {
            if let Some(first) = reading.report.first_error() {
                builder.complain(first);
            }
            Entry::read(zone, reading.sources)
        }
        Err(Unread { why, sources }) => {
            builder.complain(format!("{}: {why}", zone.file.display()));
            Entry { read_s: UNREAD, ..Entry::read(zone, sources) }
        }
    }
}

/// A seed that nobody can guess: the standard library keys its hashes from the system's randomness.
pub fn seed() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// Where a file lies, for whoever looks for it from elsewhere.
pub fn place(file: &Path) -> String {
    std::path::absolute(file).map_or_else(|_| file.display().to_string(), |place| place.display().to_string())
}

/// These, as a line of the log has them.
pub fn names<'a>(apexes: impl IntoIterator<Item = &'a Box<[u8]>>) -> String {
    apexes.into_iter().map(|apex| name(apex).to_string()).collect::<Vec<_>>().join(" ")
}

/// A zone's name, for people.
pub fn name(apex: &[u8]) -> Name {
    Name::from_wire(apex).unwrap_or(Name::ROOT)
}
