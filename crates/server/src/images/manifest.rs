//! Which files an image was made of: what a start and a reload compare, zone by zone or one zone by its name.
//!
//! A file beside the image, mapped and never changed, that holds numbers and places only:
//!
//! ```text
//! head      136 octets: versions, the image's size and seed, how many there are of the following, what of the history is in it, two checksums
//! records   48 octets a zone, in the order of the configuration: its file's stamp, the place of its texts, and when it was read
//! index     u32s: a zone's number and 1 stands at the hash of its name, or at the next place that is free
//! notable   u32s: numbers of the zones that are not served as their files say, then of those that include other files
//! texts     name, file, included files and complaint of each zone; then what named the zones
//! ```
//!
//! What has changed since the image was written stands over it in memory: at most `OVER_MAX` zones. Anything odd in the
//! file means "make the image again", never an error: it is a cache.

use crate::clock::wall_s;
use crate::config::{Seen, Zone};
use crate::images::Problem;
use crate::publisher::vigil::Vigil;
use crate::stamp::{Looks, Stamp};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use store::Map;
use store::atomic::{self, Prepared};
use wire::hash::siphash;

/// With the version of the layout: a manifest of another one is none.
const MAGIC: &[u8; 24] = b"dunlin manifest\n6\0\0\0\0\0\0\0";
/// The program's version stands behind it.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
const PROGRAM_MAX: usize = 24;
const _: () = assert!(PROGRAM.len() <= PROGRAM_MAX);
const HEAD: usize = 136;
const RECORD: usize = 48;
/// Where in the head its checksum stands, and that of all that follows it.
const HEAD_SUM: usize = 128;
const BODY_SUM: usize = 120;
const SUM_KEY: &[u8; 16] = b"dunlin manifest.";

/// Marks of a record: the stamp is one; there are included files; there is a complaint.
const SETTLED: u32 = 1;
const INCLUDES: u32 = 2;
const PROBLEM: u32 = 4;

/// Zones that stand over an image, most; with more of them it is time for a new one.
pub const OVER_MAX: usize = 1000;

/// One zone of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub apex: Box<[u8]>,
    pub file: PathBuf,
    /// The zone file and what it includes, as they were before they were read.
    pub sources: Vec<(PathBuf, Option<Stamp>)>,
    /// When these had been read, in seconds since 1970; `UNREAD`: whatever they hold now is to be read.
    pub read_s: u32,
    /// Why the zone is not served as its file says.
    pub problem: Option<String>,
}

impl Entry {
    /// Of a zone that was read just now, from what could be read.
    pub fn read(zone: &Zone, sources: Vec<(PathBuf, Option<Stamp>)>) -> Entry {
        let read_s = u32::try_from(wall_s()).unwrap_or(UNREAD);
        Entry { apex: zone.apex.clone(), file: zone.file.clone(), sources, read_s, problem: None }
    }
}

/// The time of what was not read.
pub const UNREAD: u32 = u32::MAX;

/// The image that a manifest is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub size: u64,
    pub seed: u64,
    /// Fingerprint of the names of its zones.
    pub names: u64,
}

pub struct Manifest {
    base: Base,
    /// What has changed since, by apex; None: the zone is no more.
    over: HashMap<Box<[u8]>, Option<Packed>>,
    /// What named the zones, when it was last looked at.
    pub seen: Seen,
    /// Of the file's zones. It goes with the manifest: what was found is what that says.
    pub vigil: Option<Vigil>,
}

/// The file.
#[derive(Clone)]
struct Base {
    map: Map,
    is_of_this_program: bool,
    image: Identity,
    history: u64,
    zones: usize,
    slots: usize,
    notable: usize,
    /// How many of the notable ones, the first, are not served as their files say.
    wrong: usize,
}

/// A record and its texts.
struct Packed {
    record: [u8; RECORD],
    texts: Vec<u8>,
}

/// What is known of a zone.
pub struct Known<'a> {
    /// Of its record in the file, if nothing stands over that.
    pub number: Option<usize>,
    pub apex: &'a [u8],
    pub file: &'a Path,
    stamp: Option<Stamp>,
    pub read_s: u32,
    /// Packed one behind another.
    includes: &'a [u8],
    pub problem: Option<&'a str>,
}

impl Manifest {
    /// Writes the manifest of an image, but for its name; `entries` are in the order of the configuration. `history`: the image has all that stands
    /// before this position of it.
    pub fn prepare(
        folder: &Path,
        name: &str,
        image: Identity,
        history: u64,
        seen: &Seen,
        entries: &[Entry],
    ) -> io::Result<Prepared> {
        let octets = encode(image, history, seen, entries);
        atomic::prepare(folder, name, Some(octets.len() as u64), |out| out.write_all(&octets), |_| Ok(()))
    }

    /// What was written just now.
    pub fn read_back(file: &Path) -> io::Result<Manifest> {
        Manifest::open(file).ok_or_else(|| io::Error::other(format!("{}: cannot be read back", file.display())))
    }

    /// None: there is none that is of any use.
    pub fn open(file: &Path) -> Option<Manifest> {
        let base = Base::open(Map::open(file).ok()?)?;
        let seen = Seen::decode(&base.map[base.u64_at(104)? as usize..])?;
        Some(Manifest { base, over: HashMap::new(), seen, vigil: None })
    }

    pub fn image(&self) -> Identity {
        self.base.image
    }

    /// False: another version of the program has made the image, which may have made something else of the same files.
    pub fn is_of_this_program(&self) -> bool {
        self.base.is_of_this_program
    }

    /// Where in the history what is not in the image may begin.
    pub fn history(&self) -> u64 {
        self.base.history
    }

    /// Zones, as many as there were when the image was written.
    pub fn zones(&self) -> usize {
        self.base.zones
    }

    /// How many zones are not as in the image.
    pub fn changes(&self) -> usize {
        self.over.len()
    }

    /// Compares all of the file with its checksum.
    pub fn is_sound(&self) -> bool {
        let octets = &self.base.map[..];
        self.base
            .u64_at(BODY_SUM)
            .is_some_and(|sum| octets.get(HEAD..).is_some_and(|o| siphash::<1, 3>(SUM_KEY, o) == sum))
    }

    pub fn find(&self, apex: &[u8]) -> Option<Known<'_>> {
        match self.over.get(apex) {
            Some(packed) => packed.as_ref()?.known(),
            None => self.base.known(self.base.number(apex)?),
        }
    }

    /// Whether a zone was read from this file, be it gone by now.
    pub fn has(&self, zone: &Zone) -> bool {
        self.find(&zone.apex).is_some_and(|known| known.file == zone.file)
    }

    /// True of a zone that is served as its file is, or was, and not as the image has it.
    pub fn is_over(&self, apex: &[u8]) -> bool {
        let known = self.over.get(apex).and_then(|packed| packed.as_ref()?.known());
        known.is_some_and(|known| known.problem.is_none())
    }

    /// True of a zone that the image has, and that has gone since.
    pub fn has_gone(&self, apex: &[u8]) -> bool {
        matches!(self.over.get(apex), Some(None)) && self.base.number(apex).is_some()
    }

    /// One of so many parts of all zones: of those that are as in the image; the first part has the others, too. Err: the
    /// file is damaged.
    pub fn part(&self, part: usize, parts: usize) -> impl Iterator<Item = Result<Known<'_>, Damaged>> {
        let from = |part: usize| self.base.zones * part / parts;
        let base = (from(part)..from(part + 1)).map(|n| self.base.known(n).ok_or(Damaged));
        let base = base.filter(|known| known.as_ref().map_or(true, |k| !self.over.contains_key(k.apex)));
        let over = self.over.values().filter(move |_| part == 0);
        base.chain(over.flatten().map(|packed| packed.known().ok_or(Damaged)))
    }

    /// Takes over what has become of these zones.
    pub fn change(&mut self, entries: &[Entry], gone: &[Box<[u8]>]) {
        self.over.extend(entries.iter().map(|entry| (entry.apex.clone(), Some(Packed::of(entry)))));
        self.over.extend(gone.iter().map(|apex| (apex.clone(), None)));
    }

    /// True if so many further changes may stand over the image.
    pub fn has_room(&self, changes: usize) -> bool {
        self.over.len() + changes <= OVER_MAX
    }

    /// The first so many of the notable zones, as they are now.
    fn notable(&self, most: usize) -> impl Iterator<Item = Known<'_>> {
        let base = (0..most).filter_map(|i| self.base.known(self.base.notable_at(i)? as usize));
        let base = base.filter(|known| !self.over.contains_key(known.apex));
        base.chain(self.over.values().flatten().filter_map(Packed::known))
    }

    /// Calls `f` with zone, its file, and each file that it includes.
    pub fn for_each_include(&self, mut f: impl FnMut(&[u8], &Path, &Path)) {
        for known in self.notable(self.base.notable) {
            known.includes().for_each(|include| f(known.apex, known.file, include.0));
        }
    }

    /// Zones that the image does not hold as their files say.
    pub fn problems(&self) -> Vec<Problem> {
        let problem = |known: Known<'_>| Some(Problem { apex: known.apex.into(), what: known.problem?.into() });
        self.notable(self.base.wrong).filter_map(problem).collect()
    }

    /// Beside which of these apexes, in any order, the image has others; None: it is damaged.
    pub fn beside<'z>(&self, apexes: impl Iterator<Item = &'z [u8]>) -> Option<Vec<Box<[u8]>>> {
        let mut is_met = vec![false; self.base.zones];
        let mut over = HashSet::new();
        let mut next = 0;
        for apex in apexes {
            if let Some((apex, _)) = self.over.get_key_value(apex) {
                over.insert(apex);
            }
            // Mostly they come in the order of the records.
            if self.base.known(next).is_none_or(|known| known.apex != apex) {
                let Some(number) = self.base.number(apex) else { continue };
                next = number;
            }
            is_met[next] = true;
            next += 1;
        }
        let gone = (0..self.base.zones).filter(|&n| !is_met[n]).map(|n| self.base.known(n).map(|k| k.apex));
        let gone = gone.filter(|apex| apex.is_none_or(|apex| !self.over.contains_key(apex)));
        let gone: Option<Vec<Box<[u8]>>> = gone.map(|apex| apex.map(Into::into)).collect();
        let more = self.over.iter().filter(|(apex, packed)| packed.is_some() && !over.contains(apex));
        gone.map(|gone| gone.into_iter().chain(more.map(|(apex, _)| apex.clone())).collect())
    }
}

/// The manifest is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the list of what is served is damaged")
    }
}

impl Base {
    fn open(map: Map) -> Option<Base> {
        let head: &[u8; HEAD] = map.first_chunk()?;
        let (magic, rest) = head.split_first_chunk()?;
        let mut program = [0; PROGRAM_MAX];
        program.get_mut(..PROGRAM.len())?.copy_from_slice(PROGRAM.as_bytes());
        let is_of_this_program = rest.starts_with(&program);
        let word = |at: usize| head.get(at..)?.first_chunk().map(|w| u64::from_le_bytes(*w));
        if magic != MAGIC
            || word(48)? != map.len() as u64
            || word(HEAD_SUM)? != siphash::<1, 3>(SUM_KEY, &head[..HEAD_SUM])
        {
            return None;
        }
        let image = Identity { size: word(56)?, seed: word(64)?, names: word(72)? };
        let (zones, slots, notables) = (word(80)? as usize, word(88)? as usize, word(96)?);
        let (notable, wrong) = (notables as u32 as usize, (notables >> 32) as usize);
        Some(Base { is_of_this_program, image, history: word(112)?, zones, slots, notable, wrong, map })
    }

    fn u64_at(&self, at: usize) -> Option<u64> {
        self.map.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    fn u32_at(&self, at: usize) -> Option<u32> {
        self.map.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
    }

    fn known(&self, number: usize) -> Option<Known<'_>> {
        let at = HEAD + number * RECORD;
        let record = self.map.get(at..)?.first_chunk().filter(|_| number < self.zones)?;
        Known::read(Some(number), record, self.map.get(place(record)?..)?)
    }

    /// The number of a zone's record.
    fn number(&self, apex: &[u8]) -> Option<usize> {
        let index = HEAD + self.zones * RECORD;
        let first = slot(self.image.seed, apex, self.slots);
        for i in 0..self.slots {
            let at = index + (first + i) % self.slots * 4;
            let number = self.u32_at(at)?.checked_sub(1)? as usize;
            if self.known(number)?.apex == apex {
                return Some(number);
            }
        }
        None
    }

    fn notable_at(&self, i: usize) -> Option<u32> {
        self.u32_at(HEAD + self.zones * RECORD + (self.slots + i) * 4)
    }
}

/// Where in the index a name is looked for first. Customers choose names of zones: so the image's seed is in it.
fn slot(seed: u64, apex: &[u8], slots: usize) -> usize {
    let mut key = *SUM_KEY;
    key[..8].copy_from_slice(&seed.to_le_bytes());
    siphash::<1, 3>(&key, apex) as usize % slots.max(1)
}

/// The place of a record's texts.
fn place(record: &[u8; RECORD]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*record.first_chunk()?)).ok()
}

impl<'a> Known<'a> {
    fn read(number: Option<usize>, record: &[u8; RECORD], texts: &'a [u8]) -> Option<Known<'a>> {
        let stamp = Stamp::decode(record.get(8..)?.first_chunk()?);
        let marks = u32::from_le_bytes(*record.get(40..)?.first_chunk()?);
        let mut texts = Texts(texts);
        let (apex, file) = (texts.next()?, texts.next()?);
        let includes = if marks & INCLUDES != 0 { texts.next()? } else { &[] };
        let problem = if marks & PROBLEM != 0 { Some(str::from_utf8(texts.next()?).ok()?) } else { None };
        let stamp = (marks & SETTLED != 0).then_some(stamp);
        let read_s = u32::from_le_bytes(*record.get(44..)?.first_chunk()?);
        Some(Known { number, apex, file: Path::new(OsStr::from_bytes(file)), stamp, read_s, includes, problem })
    }

    /// Included files with their stamps.
    fn includes(&self) -> impl Iterator<Item = (&'a Path, Option<Stamp>)> + use<'a> {
        let mut texts = Texts(self.includes);
        std::iter::from_fn(move || {
            let (path, stamp) = (texts.next()?, texts.next()?);
            Some((Path::new(OsStr::from_bytes(path)), stamp.first_chunk().map(Stamp::decode)))
        })
    }

    /// True if it was served as these files have it.
    pub fn is_of(&self, entry: &Entry) -> bool {
        let mut sources = entry.sources.iter();
        let is_next = |(path, stamp): (&Path, Option<Stamp>)| {
            stamp.is_some() && sources.next().is_some_and(|source| (&*source.0, source.1) == (path, stamp))
        };
        self.problem.is_none() && self.file == entry.file && self.sources().all(is_next) && sources.next().is_none()
    }

    /// Its file and included files, with their stamps.
    pub fn sources(&self) -> impl Iterator<Item = (&'a Path, Option<Stamp>)> + use<'a> {
        [(self.file, self.stamp)].into_iter().chain(self.includes())
    }

    /// True if somebody has written into a source since it was read. Of one that had been written only just before, its second tells: what came within that
    /// may have been read.
    pub fn is_written_since(&self, looks: &mut Looks<'_>) -> bool {
        let changed_s = |path: &Path| path.metadata().map_or(i64::MAX, |file| file.ctime());
        self.sources().any(|(path, stamp)| match stamp {
            Some(stamp) => looks.look(path).is_none_or(|found| found.stamp != stamp),
            None => !self.is_unread() && changed_s(path) > self.read_s.into(),
        })
    }

    /// True if whatever its files hold now is to be read.
    pub fn is_unread(&self) -> bool {
        self.read_s == UNREAD
    }

    /// True if the zone would be the same if it were read now. One without a settled source may always be another.
    pub fn is_current(&self, looks: &mut Looks<'_>) -> bool {
        let vigil = looks.vigil.zip(self.number);
        if vigil.is_some_and(|(vigil, number)| vigil.spares(number, self)) {
            return true;
        }
        let mut is_watched = true;
        let is_current = self.sources().all(|(path, stamp)| {
            let found = looks.look(path).filter(|found| Some(found.stamp) == stamp);
            is_watched &= found.is_some_and(|found| found.is_watched);
            found.is_some()
        });
        if let Some((vigil, number)) = vigil {
            vigil.note(number, is_current && is_watched);
        }
        is_current
    }
}

impl Packed {
    fn of(entry: &Entry) -> Packed {
        let mut texts = vec![];
        let record = pack(entry, &mut texts);
        Packed { record, texts }
    }

    fn known(&self) -> Option<Known<'_>> {
        Known::read(None, &self.record, &self.texts)
    }
}

/// Texts one behind another, each with its length before it.
pub struct Texts<'a>(pub &'a [u8]);

impl<'a> Iterator for Texts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        self.0 = rest;
        Some(text)
    }
}

impl Texts<'_> {
    pub fn push(out: &mut Vec<u8>, text: &[u8]) {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text);
    }
}

/// Appends the texts of an entry; its record, with the place of the texts.
fn pack(entry: &Entry, texts: &mut Vec<u8>) -> [u8; RECORD] {
    let at = texts.len() as u64;
    let (mut stamp, mut includes) = (None, vec![]);
    for (path, of) in &entry.sources {
        if *path == entry.file {
            stamp = *of;
            continue;
        }
        Texts::push(&mut includes, path.as_os_str().as_bytes());
        Texts::push(&mut includes, of.map(|s| s.encode()).as_ref().map_or(&[], |s| &s[..]));
    }
    let mut marks = if stamp.is_some() { SETTLED } else { 0 };
    Texts::push(texts, &entry.apex);
    Texts::push(texts, entry.file.as_os_str().as_bytes());
    if !includes.is_empty() {
        marks |= INCLUDES;
        Texts::push(texts, &includes);
    }
    if let Some(problem) = &entry.problem {
        marks |= PROBLEM;
        Texts::push(texts, problem.as_bytes());
    }
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&at.to_le_bytes());
    record[8..40].copy_from_slice(&stamp.unwrap_or_default().encode());
    record[40..44].copy_from_slice(&marks.to_le_bytes());
    record[44..].copy_from_slice(&entry.read_s.to_le_bytes());
    record
}

fn encode(image: Identity, history: u64, seen: &Seen, entries: &[Entry]) -> Vec<u8> {
    let numbers = |is_one: &dyn Fn(&Entry) -> bool| -> Vec<u32> {
        (0..).zip(entries).filter(|(_, e)| is_one(e)).map(|(n, _)| n).collect()
    };
    let mut notable = numbers(&|e| e.problem.is_some());
    let wrong = notable.len() as u64;
    notable.extend(numbers(&|e| e.problem.is_none() && e.sources.len() > 1));
    let slots = (entries.len() * 2).next_power_of_two();
    let texts_at = HEAD + entries.len() * RECORD + (slots + notable.len()) * 4;
    let mut octets = vec![0; texts_at];
    let mut index = vec![0u32; slots];
    for (n, entry) in (0u32..).zip(entries) {
        let record = pack(entry, &mut octets);
        octets[HEAD + n as usize * RECORD..][..RECORD].copy_from_slice(&record);
        let mut at = slot(image.seed, &entry.apex, slots);
        while index[at] != 0 {
            at = (at + 1) % slots;
        }
        index[at] = n + 1;
    }
    let seen_at = octets.len() as u64;
    seen.encode(&mut octets);
    let words = octets[HEAD + entries.len() * RECORD..texts_at].chunks_exact_mut(4);
    words.zip(index.iter().chain(&notable)).for_each(|(at, word)| at.copy_from_slice(&word.to_le_bytes()));
    octets[..MAGIC.len()].copy_from_slice(MAGIC);
    octets[MAGIC.len()..][..PROGRAM.len()].copy_from_slice(PROGRAM.as_bytes());
    let counts = [entries.len() as u64, slots as u64, wrong << 32 | notable.len() as u64, seen_at, history];
    let words = [&[octets.len() as u64, image.size, image.seed, image.names][..], &counts].concat();
    let words = (48..).step_by(8).zip(words);
    words.for_each(|(at, word)| octets[at..at + 8].copy_from_slice(&word.to_le_bytes()));
    let body = siphash::<1, 3>(SUM_KEY, &octets[HEAD..]);
    octets[BODY_SUM..BODY_SUM + 8].copy_from_slice(&body.to_le_bytes());
    let head = siphash::<1, 3>(SUM_KEY, &octets[..HEAD_SUM]);
    octets[HEAD_SUM..HEAD].copy_from_slice(&head.to_le_bytes());
    octets
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    /// A folder of files that have settled.
    struct Desk(PathBuf);

    impl Desk {
        fn new(name: &str) -> Desk {
            let folder = std::env::temp_dir().join(format!("dunlin-manifest-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Desk(folder)
        }

        fn file(&self, name: &str) -> PathBuf {
            let file = self.0.join(name);
            std::fs::write(&file, "x").unwrap();
            let old = SystemTime::now() - Duration::from_secs(60);
            std::fs::File::open(&file).unwrap().set_modified(old).unwrap();
            file
        }

        fn entry(&self, apex: &[u8], includes: &[&str], problem: Option<&str>) -> Entry {
            let file = self.file(&format!("{}.zone", apex[1] as char));
            let all = [file.clone()].into_iter().chain(includes.iter().map(|name| self.file(name)));
            let sources = all.map(|path| (path.clone(), Stamp::of(&path))).collect();
            Entry { apex: apex.into(), file, sources, read_s: UNREAD, problem: problem.map(str::to_string) }
        }

        fn manifest(&self, entries: &[Entry]) -> Manifest {
            let image = Identity { size: 7, seed: 8, names: 9 };
            let prepared = Manifest::prepare(&self.0, "manifest", image, 10, &Seen::default(), entries).unwrap();
            Manifest::read_back(&prepared.take_name().unwrap()).unwrap()
        }
    }

    impl Drop for Desk {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const A: &[u8] = b"\x01a\0";
    const B: &[u8] = b"\x01b\0";
    const C: &[u8] = b"\x01c\0";

    fn apexes(manifest: &Manifest) -> Vec<&[u8]> {
        let mut all: Vec<&[u8]> = (0..3).flat_map(|i| manifest.part(i, 3)).map(|known| known.unwrap().apex).collect();
        all.sort();
        all
    }

    #[test]
    fn a_zone_is_current_until_a_source_changes() {
        let desk = Desk::new("current");
        let manifest = desk.manifest(&[desk.entry(A, &["an odd\nname"], None), desk.entry(B, &[], Some("why"))]);
        assert_eq!((manifest.zones(), manifest.image().seed, manifest.is_sound()), (2, 8, true));
        assert_eq!(apexes(&manifest), [A, B]);
        assert!(manifest.find(C).is_none());
        let is_current = |apex: &[u8]| manifest.find(apex).unwrap().is_current(&mut Looks::default());
        assert!(is_current(A) && is_current(B));
        std::fs::write(desk.0.join("an odd\nname"), "y").unwrap();
        assert!(!is_current(A) && is_current(B));
        std::fs::remove_file(desk.0.join("b.zone")).unwrap();
        assert!(!is_current(B));
        assert_eq!(manifest.problems(), [Problem { apex: B.into(), what: "why".into() }]);
        let mut includes = vec![];
        manifest.for_each_include(|apex, file, include| {
            includes.push((apex.to_vec(), file.to_owned(), include.to_owned()))
        });
        assert_eq!(includes, [(A.to_vec(), desk.0.join("a.zone"), desk.0.join("an odd\nname"))]);
    }

    #[test]
    fn a_zone_without_a_settled_source_is_never_current() {
        let desk = Desk::new("unsettled");
        let (mut bare, mut fresh, mut include) =
            (desk.entry(A, &[], None), desk.entry(B, &[], None), desk.entry(C, &["i"], None));
        bare.sources.clear();
        fresh.sources[0].1 = None;
        include.sources[1].1 = None;
        let manifest = desk.manifest(&[bare, fresh, include]);
        let mut looks = Looks::default();
        assert!(manifest.part(0, 1).all(|known| !known.unwrap().is_current(&mut looks)));
    }

    #[test]
    fn changes_stand_over_the_file_and_are_found_first() {
        let desk = Desk::new("over");
        let mut manifest = desk.manifest(&[desk.entry(A, &[], Some("old")), desk.entry(B, &[], None)]);
        manifest.change(&[desk.entry(A, &[], None), desk.entry(C, &[], Some("new"))], &[B.into()]);
        assert_eq!(apexes(&manifest), [A, C]);
        assert!(manifest.find(B).is_none() && manifest.find(C).is_some());
        assert_eq!(manifest.problems(), [Problem { apex: C.into(), what: "new".into() }]);
        assert!(manifest.has_room(OVER_MAX - 3) && !manifest.has_room(OVER_MAX - 2));
        let beside = |apexes: &[&[u8]]| manifest.beside(apexes.iter().copied()).unwrap();
        assert!(beside(&[A, C]).is_empty());
        assert_eq!(beside(&[C]), [A.into()]);
        assert_eq!(beside(&[B, A]), [C.into()]);
        manifest.change(&[desk.entry(B, &[], None)], &[C.into(), A.into()]);
        assert_eq!(apexes(&manifest), [B]);
    }

    #[test]
    fn thousands_of_zones_are_found_by_their_names() {
        let desk = Desk::new("many");
        let name = |i: u32| [&[4u8][..], format!("{i:04}").as_bytes(), &[0]].concat();
        let entry = |i| Entry {
            apex: name(i).into(),
            file: format!("{i}").into(),
            sources: vec![],
            read_s: UNREAD,
            problem: None,
        };
        let manifest = desk.manifest(&(0..5000).map(entry).collect::<Vec<_>>());
        for i in 0..5000 {
            assert_eq!(manifest.find(&name(i)).unwrap().file, Path::new(&format!("{i}")));
        }
        assert!((5000..9999).all(|i| manifest.find(&name(i)).is_none()));
        let backwards: Vec<Vec<u8>> = (1..5000).rev().map(name).collect();
        assert_eq!(manifest.beside(backwards.iter().map(|n| &n[..])).unwrap(), [name(0).into()]);
    }

    #[test]
    fn a_manifest_that_is_damaged_or_of_another_version_is_none_or_unsound() {
        let desk = Desk::new("damaged");
        drop(desk.manifest(&[desk.entry(A, &["i"], Some("why")), desk.entry(B, &[], None)]));
        let file = desk.0.join("manifest");
        let good = std::fs::read(&file).unwrap();
        let other = desk.0.join("other");
        for n in 0..good.len() {
            std::fs::write(&other, &good[..n]).unwrap();
            assert!(Manifest::open(&other).is_none(), "cut at {n}");
            let mut bad = good.clone();
            bad[n] ^= 0x41;
            std::fs::write(&other, &bad).unwrap();
            let Some(manifest) = Manifest::open(&other) else { continue };
            assert!(!manifest.is_sound(), "octet {n}");
            // Nothing is believed, and nothing breaks.
            let _ = (
                manifest.find(A).is_some(),
                manifest.find(C).is_some(),
                manifest.problems(),
                manifest.beside([A].into_iter()),
            );
            assert!(manifest.part(0, 1).count() <= 2);
        }
        let manifest = Manifest::open(&file).unwrap();
        assert!(manifest.is_sound() && manifest.is_of_this_program());
        // What another version of the program has written says what was served.
        let mut other_program = good;
        other_program[MAGIC.len()] ^= 0x41;
        let head = siphash::<1, 3>(SUM_KEY, &other_program[..HEAD_SUM]);
        other_program[HEAD_SUM..HEAD].copy_from_slice(&head.to_le_bytes());
        std::fs::write(&other, other_program).unwrap();
        let manifest = Manifest::open(&other).unwrap();
        assert!(manifest.is_sound() && !manifest.is_of_this_program() && manifest.find(A).is_some());
    }
}
