//! The memory of the cache as a process begins: that of the process before, if it was handed on; else new, and filled
//! from the last snapshot; else empty. It is never a mapped file.
//!
//! ```text
//! handed on by the service manager    answers at once, from all of it
//! snapshot                            answers at once, and from each part as soon as that has been read
//! neither, or of no use               answers at once, and knows nothing; says why
//! ```

use crate::clock;
use crate::config;
use crate::log;
use crate::resolving::shelf::Shelf;
use cache::{Cache, Config, HEADER_OCTETS, Moment, Restore, Takeover, Unusable};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use store::Memory;

/// The name that the memory goes by, in the service manager's store and in /proc.
pub const NAME: &str = "cache";
/// Octets read from a snapshot between two breaths; whole words.
const SLICE: usize = 1 << 20;
/// The memory is ahead of what is read by this part of it.
const PARTS: usize = 32;

pub struct Beginning {
    pub cache: Cache,
    pub memory: Memory,
    pub rest: Rest,
}

/// What the background has to do before the cache is what it was.
pub enum Rest {
    Nothing,
    Takeover(Takeover),
    Restore(Box<Restore>, File),
}

impl Beginning {
    /// Never fails for what was left behind, only for want of memory.
    pub fn of(
        size: &config::Cache,
        config: &Config,
        handed: Option<OwnedFd>,
        shelf: Option<&Shelf>,
        now: Moment,
    ) -> io::Result<Beginning> {
        let bytes = usize::try_from(size.size).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if let Some(fd) = handed {
            match taken_over(fd, bytes, config, now) {
                Ok(beginning) => return Ok(beginning),
                Err(why) => log::warn("the cache of the process before is of no use", &[("why", &why)]),
            }
        }
        let memory = Memory::create(c"cache", bytes)?;
        match shelf.map(|shelf| restored(shelf, memory.words(), config, now)) {
            Some(Ok((cache, rest))) => return Ok(Beginning { cache, memory, rest }),
            Some(Err(why)) => log::info("the cache starts empty", &[("why", &why)]),
            None => {}
        }
        let cache = Cache::format_zeros(memory.words(), config, now)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("cache.size: {e}")))?;
        Ok(Beginning { cache, memory, rest: Rest::Nothing })
    }
}

fn taken_over(fd: OwnedFd, bytes: usize, config: &Config, now: Moment) -> Result<Beginning, String> {
    let memory = Memory::adopt(fd).map_err(|e| e.to_string())?;
    if memory.bytes() != Memory::whole_pages(bytes) {
        return Err(Unusable::OtherSize.to_string());
    }
    let (cache, takeover) = Takeover::begin(memory.words(), config, now).map_err(|e| e.to_string())?;
    Ok(Beginning { cache, memory, rest: Rest::Takeover(takeover) })
}

fn restored(
    shelf: &Shelf,
    words: &'static [cache::AtomicU64],
    config: &Config,
    now: Moment,
) -> Result<(Cache, Rest), String> {
    let mut file = shelf.last().map_err(|e| e.to_string())?.ok_or("there is no snapshot")?;
    let mut header = Box::new([0; HEADER_OCTETS]);
    file.read_exact(&mut header[..]).map_err(|e| e.to_string())?;
    let (cache, restore) = Restore::begin_zeros(words, config, now, &header).map_err(|e| e.to_string())?;
    Ok((cache, Rest::Restore(Box::new(restore), file)))
}

impl Rest {
    /// Does all of it, slice by slice. `breathe` is called between two slices; where it says false, the rest of the rest
    /// is left, and false returned.
    pub fn finish(self, cache: &Cache, memory: &Memory, mut breathe: impl FnMut() -> bool) -> bool {
        let started_ns = net::boot::time_ns();
        let done = match self {
            Rest::Nothing => return true,
            Rest::Takeover(mut takeover) => {
                let mut goes_on = true;
                while goes_on && takeover.next(cache) {
                    goes_on = breathe();
                }
                goes_on.then_some(0)
            }
            Rest::Restore(restore, file) => read(*restore, file, cache, memory, breathe),
        };
        let Some(missing) = done else { return false };
        let ms = (net::boot::time_ns() - started_ns) / 1_000_000;
        let facts: [(&str, &dyn std::fmt::Display); 3] =
            [("entries", &cache.stats().entries), ("parts_missing", &missing), ("ms", &ms)];
        log::info("the cache has what it had", &facts);
        true
    }
}

/// Reads what is left of a snapshot; how many parts of the cache stay empty. None: it was broken off. Pages are put behind each part before it is
/// filled: huge ones cost a third of what a fault for each small one does.
fn read(
    mut restore: Restore,
    mut file: File,
    cache: &Cache,
    memory: &Memory,
    mut breathe: impl FnMut() -> bool,
) -> Option<usize> {
    let octets = file.metadata().map_or(1, |about| about.len().max(1)) as f64;
    let (mut slice, mut done, mut behind) = (vec![0; SLICE], 0, 0);
    loop {
        // The parts of the memory are alike, and so mostly are those of the snapshot.
        let wanted = (done as f64 / octets * memory.bytes() as f64) as usize + memory.bytes() / PARTS;
        while behind < wanted.min(memory.bytes()) {
            behind = memory.prefault(behind, SLICE);
            if !breathe() {
                return None;
            }
        }
        match whole_read(&mut file, &mut slice) {
            Ok(0) => break,
            Ok(n) if restore.feed(cache, &slice[..n]) => done += n,
            Ok(_) => break,
            Err(e) => {
                log::warn("the snapshot of the cache cannot be read any further", &[("why", &e)]);
                break;
            }
        }
    }
    Some(restore.end(cache))
}

/// Fills the buffer as far as the file goes: what ends inside a word costs the words behind it their alignment.
fn whole_read(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    let mut at = 0;
    while let Some(rest) = into.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(at)
}

/// What the clocks show. `boot` tells this boot of the machine from others.
pub fn moment(boot: u64) -> Moment {
    Moment { boot, boot_s: net::boot::time_ns() / 1_000_000_000, wall_s: clock::wall_s() }
}

/// Which boot of the machine this is. Without the kernel's word each process is taken for another boot, and ages are
/// counted by the wall clock.
pub fn boot() -> u64 {
    match std::fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => wire::hash::siphash::<1, 3>(b"boots of machine", &id),
        Err(_) => u64::from(std::process::id()) << 32 | clock::wall_s(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{Entry, Key, Kind, Scratch, Variant};
    use std::path::{Path, PathBuf};

    const NAMES: u32 = 1_500;
    const NOW: Moment = Moment { boot: 7, boot_s: 1_000_000, wall_s: 1_700_000_000 };

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("dunlin-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn settings() -> config::Cache {
        config::Cache { size: 1 << 20, ..config::Cache::default() }
    }

    fn name(id: u32) -> Vec<u8> {
        format!("\x08{id:08}\x04test\0").into_bytes()
    }

    fn value(id: u32) -> Vec<u8> {
        id.to_le_bytes().repeat(10 + id as usize % 50)
    }

    fn key<'n>(cache: &Cache, name: &'n [u8]) -> Key<'n> {
        cache.key(cache.hash(name), name, 1, Kind::Answer, Variant::PLAIN)
    }

    fn begun(folder: &Path, settings: &config::Cache, handed: Option<OwnedFd>, now: Moment) -> Beginning {
        let rules = Config { key: [3; 16], stale_s: 0, ..Config::default() };
        let shelf = Shelf::open(folder).unwrap();
        Beginning::of(settings, &rules, handed, Some(&shelf), now).unwrap()
    }

    fn filled(folder: &Path) -> Beginning {
        let beginning = begun(folder, &settings(), None, NOW);
        let cache = &beginning.cache;
        for id in 0..NAMES {
            let (name, value) = (name(id), value(id));
            let entry = Entry { value: &value, ttl_s: 300, source: &name, generation: cache.generation() };
            cache.insert(&key(cache, &name), &entry, cache.time(NOW.boot_s)).unwrap();
        }
        beginning
    }

    /// How many names are found, the longest TTL that is given out, and that each is what was stored.
    fn found(cache: &Cache, now: Moment) -> (u32, u32) {
        let (mut scratch, mut all, mut longest_s) = (Scratch::default(), 0, 0);
        for id in 0..NAMES {
            if let Some(hit) = cache.probe(&key(cache, &name(id)), cache.time(now.boot_s), &mut scratch) {
                assert_eq!(hit.value, value(id), "what was stored under another name");
                (all, longest_s) = (all + 1, longest_s.max(hit.ttl(300)));
            }
        }
        (all, longest_s)
    }

    /// What a process that begins now finds, at the end of its beginning.
    fn restored(folder: &Path, now: Moment) -> (u32, u32) {
        let Beginning { cache, rest, memory } = begun(folder, &settings(), None, now);
        rest.finish(&cache, &memory, || true);
        found(&cache, now)
    }

    fn later(s: u64) -> Moment {
        Moment { boot_s: NOW.boot_s + s, wall_s: NOW.wall_s + s, ..NOW }
    }

    #[test]
    fn a_snapshot_brings_back_all_and_its_age() {
        let folder = Folder::new("memory-snapshot");
        let path = &folder.0;
        let before = filled(path);
        let (all, _) = found(&before.cache, NOW);
        assert_eq!(restored(path, NOW), (0, 0), "there is no snapshot");
        Shelf::open(path).unwrap().write(&before.cache, || true).unwrap();
        let rebooted = Moment { boot: 8, boot_s: 5, wall_s: NOW.wall_s + 100 };
        let set_back = Moment { boot: 8, boot_s: 5, wall_s: NOW.wall_s - 9_999 };
        for (now, expect) in [
            (later(1), (all, 299)),
            (later(100), (all, 200)),
            (later(301), (0, 0)),
            (rebooted, (all, 200)),
            (set_back, (all, 30)),
        ] {
            assert_eq!(restored(path, now), expect, "{now:?}");
        }
        let other = config::Cache { size: 2 << 20, ..settings() };
        assert_eq!(found(&begun(path, &other, None, NOW).cache, NOW), (0, 0), "it was made for another size");
    }

    #[test]
    fn a_snapshot_that_a_disk_has_spoilt_gives_less_and_nothing_wrong() {
        let folder = Folder::new("memory-spoilt");
        let path = &folder.0;
        let before = filled(path);
        let (all, _) = found(&before.cache, NOW);
        Shelf::open(path).unwrap().write(&before.cache, || true).unwrap();
        let file = path.join("cache/snapshot");
        let good = std::fs::read(&file).unwrap();
        let (mut seed, mut empty, mut part) = (1u64, 0, 0);
        let mut draw = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for round in 0..60 {
            let mut spoilt = good.clone();
            match round % 3 {
                0 => spoilt.truncate(draw(good.len())),
                1 => (0..1 + draw(200)).for_each(|_| spoilt[draw(good.len())] ^= 1 << draw(8)),
                _ => (0..1 + draw(5)).for_each(|_| {
                    let at = draw(good.len() - 5_000);
                    spoilt[at..at + 5_000].fill(draw(256) as u8);
                }),
            }
            std::fs::write(&file, &spoilt).unwrap();
            let (some, _) = restored(path, later(1));
            assert!(some <= all, "round {round}");
            empty += u32::from(some == 0);
            part += u32::from(some > 0);
        }
        assert!(empty > 0 && part > 0, "{empty} {part}");
        let mut other = good.clone();
        other[0] ^= 1;
        std::fs::write(&file, other).unwrap();
        assert_eq!(restored(path, later(1)), (0, 0), "of another format");
    }

    #[test]
    fn what_was_handed_on_is_there_before_the_background_has_begun() {
        let folder = Folder::new("memory-handed");
        let path = &folder.0;
        let before = filled(path);
        let (all, _) = found(&before.cache, NOW);
        let handed = || Some(std::os::fd::AsFd::as_fd(&before.memory).try_clone_to_owned().unwrap());
        let Beginning { cache, rest, memory } = begun(path, &settings(), handed(), later(10));
        assert_eq!(found(&cache, later(10)), (all, 290));
        rest.finish(&cache, &memory, || true);
        assert_eq!(found(&cache, later(20)), (all, 280));
        assert_eq!(cache.stats().entries, before.cache.stats().entries);
        let other = config::Cache { size: 2 << 20, ..settings() };
        assert_eq!(found(&begun(path, &other, handed(), NOW).cache, NOW), (0, 0), "it was made for another size");
        let no_memory = File::open("/proc/self/status").unwrap();
        assert_eq!(found(&begun(path, &settings(), Some(no_memory.into()), NOW).cache, NOW), (0, 0));
    }

    #[test]
    fn what_a_killed_process_did_not_finish_is_removed() {
        let folder = Folder::new("memory-unfinished");
        let path = &folder.0;
        Shelf::open(path).unwrap();
        std::fs::write(path.join("cache/.snapshot.1-0.new"), "half").unwrap();
        Shelf::open(path).unwrap();
        assert_eq!(std::fs::read_dir(path.join("cache")).unwrap().count(), 0);
    }
}
