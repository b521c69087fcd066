//! A file in memory, read-only, on huge pages where the system has them.
//!
//! The mapping starts at a 2 MiB border and asks for huge pages before it is touched: then a fault on a file that is
//! not cached reads 2 MiB in one piece and maps it with one entry. Pages that are cached already keep the size they
//! were cached with, so `open` looks at a few of them, and lets go of the cache when they are small. (A file written
//! by `write_atomically` is cached in 2 MiB pieces from the start.) Where a kernel or file system has no large pieces
//! of files (tmpfs with its defaults), `copy_to_memory` takes anonymous memory instead.
//!
//! A file that somebody cuts off while it is mapped reads as zeros from there on, and `faults` counts that: see
//! `sigbus`. The octets may therefore be anything at any time; whoever reads them checks what it reads.
#![allow(unsafe_code)]

use crate::heap::empty;
use crate::removal::Going;
use crate::sigbus::{self, Guard};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Size of a huge page, and the border they start at.
pub const HUGE: usize = 2 << 20;
/// Size of an ordinary page: prefaulting touches one octet of each.
const PAGE: usize = 4096;
/// Pieces of the file that `open` looks at to learn how it is cached.
const PROBES: usize = 8;

/// What stands behind a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The page cache of the file: shared between processes, evictable.
    File,
    /// A private copy in anonymous memory.
    Copy,
}

/// Unmapped when the last clone is dropped.
#[derive(Clone)]
pub struct Map(Arc<Mapping>);

struct Mapping {
    number: u64,
    // Drops first: its entry in the table of `sigbus` must not outlive the mapping.
    guard: Option<Guard>,
    region: Region,
    backing: Backing,
    room: Option<Room>,
    /// Drops after the mapping: a file that has lost its name meanwhile goes with it.
    _file: Going,
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Memory behind a map, at the addresses that follow it. It is written as a file without a name is, and read through the
/// map: nobody holds a reference to an octet that may yet be written, for a `Stretch` ends before it.
struct Room {
    file: File,
    from: usize,
    len: usize,
    /// Up to here octets were written, and may have been lent.
    written: AtomicUsize,
}

/// Lets so much of a file's head go from the page cache; 0: all of it. Only pages that are on disk, and that nobody maps.
pub fn leave_cache(file: &File, octets: u64) {
    // SAFETY: takes no pointers; `file` is open.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, octets as libc::off_t, libc::POSIX_FADV_DONTNEED) };
}

impl Map {
    /// Maps a file; fails for an empty one.
    pub fn open(path: &Path) -> io::Result<Map> {
        Map::open_with_room(path, 0)
    }

    /// Maps a file, with room for changes behind it. Addresses are taken at once, memory as it is written.
    pub fn open_with_room(path: &Path, room: usize) -> io::Result<Map> {
        sigbus::install()?;
        let (file, len) = open(path)?;
        let map = || Map::of_file(&file, len, room, Going::opened(path, file.try_clone()?));
        let first = map().map_err(|e| named(path, &e))?;
        if !first.is_cached_small() {
            return Ok(first);
        }
        // Only pages that are on disk and that nobody maps can leave the cache.
        drop(first);
        file.sync_data().map_err(|e| named(path, &e))?;
        leave_cache(&file, 0);
        map().map_err(|e| named(path, &e))
    }

    /// Maps a file to be read once, as it lies in the page cache.
    pub fn open_as_cached(path: &Path) -> io::Result<Map> {
        sigbus::install()?;
        let (file, len) = open(path)?;
        Map::of_file(&file, len, 0, Going::none()).map_err(|e| named(path, &e))
    }

    /// Reads a file into anonymous memory with huge pages, for kernels and file systems whose files cannot have them.
    pub fn copy_to_memory(path: &Path, room: usize) -> io::Result<Map> {
        let (mut file, len) = open(path)?;
        let copy = |file: &mut File| {
            let mut region = Region::reserve(len, room)?;
            region.back(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE, -1)?;
            file.read_exact(region.octets_mut())?;
            region.protect(libc::PROT_READ)?;
            let room = Room::behind(&region);
            let number = next_number();
            Ok(Map(Arc::new(Mapping {
                number,
                guard: None,
                region,
                backing: Backing::Copy,
                room,
                _file: Going::none(),
            })))
        };
        copy(&mut file).map_err(|e: io::Error| named(path, &e))
    }

    /// Maps a file that has no name any more: nobody can cut it off, and it is gone when the map is.
    pub fn of_scratch(file: File) -> io::Result<Map> {
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let region = Region::reserve(len, 0)?;
        region.back(libc::MAP_SHARED, libc::PROT_READ, file.as_raw_fd())?;
        let (number, going) = (next_number(), Going::scratch(file));
        Ok(Map(Arc::new(Mapping { number, guard: None, region, backing: Backing::File, room: None, _file: going })))
    }

    fn of_file(file: &File, len: usize, room: usize, going: Going) -> io::Result<Map> {
        let region = Region::reserve(len, room)?;
        region.back(libc::MAP_SHARED, libc::PROT_READ, file.as_raw_fd())?;
        let guard = Some(Guard::over(region.range())?);
        let (number, room) = (next_number(), Room::behind(&region));
        Ok(Map(Arc::new(Mapping { number, guard, region, backing: Backing::File, room, _file: going })))
    }

    /// No other map of this process has it, or had: of two of the same file each has a room of its own.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Where the room behind the map begins and ends, counted from the map's start.
    pub fn room(&self) -> Range<usize> {
        self.0.room.as_ref().map_or(self.len()..self.len(), |r| r.from..r.from + r.len)
    }

    /// Writes into the room, behind all that was written before.
    fn write_behind(&self, at: usize, octets: &[u8]) -> io::Result<()> {
        let full = || io::Error::new(io::ErrorKind::StorageFull, "the room behind the map is used up");
        let room = self.0.room.as_ref().ok_or_else(full)?;
        let to = at.checked_add(octets.len()).filter(|&to| to <= room.from + room.len).ok_or_else(full)?;
        if room.written.fetch_max(to, Ordering::AcqRel) > at {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "what may be shown is not written again"));
        }
        room.file.write_all_at(octets, (at - room.from) as u64)
    }

    pub fn backing(&self) -> Backing {
        self.0.backing
    }

    /// Touches the pages of `bytes` octets from `from`; returns where to go on, `len()` when done. Call it from a
    /// background thread, slice by slice.
    pub fn prefault(&self, from: usize, bytes: usize) -> usize {
        let to = from.saturating_add(bytes).min(self.len());
        touch(self.get(from..to).unwrap_or_default());
        to
    }

    /// Octets that huge pages back right now. Counts what has been touched: prefault first.
    pub fn huge_bytes(&self) -> io::Result<usize> {
        let smaps = std::fs::read_to_string("/proc/self/smaps")?;
        Ok(huge_in(&smaps, &self.0.region.range()).min(self.len()))
    }

    /// How many pages could not be read (the file was cut off, or the disk failed); they read as zeros since.
    #[inline]
    pub fn faults(&self) -> u32 {
        self.0.guard.as_ref().map_or(0, Guard::faults)
    }

    /// True if pieces of the file that are cached already are not mapped by huge pages.
    fn is_cached_small(&self) -> bool {
        let pieces = self.len() / HUGE;
        let step = pieces.div_ceil(PROBES).max(1);
        let cached: Vec<usize> = (0..pieces).step_by(step).map(|i| i * HUGE).filter(|&at| self.is_cached(at)).collect();
        cached.iter().for_each(|&at| touch(&self[at..=at]));
        !cached.is_empty() && self.huge_bytes().is_ok_and(|huge| huge < cached.len() * HUGE / 2)
    }

    fn is_cached(&self, at: usize) -> bool {
        let mut resident = 0u8;
        // SAFETY: the page is inside the mapping, and one octet of room is what one page needs.
        let result = unsafe { libc::mincore(self.0.region.start.as_ptr().add(at).cast(), PAGE, &raw mut resident) };
        result == 0 && resident & 1 == 1
    }
}

/// A map and as much of the room behind it as has been written: what a reader gets to see. It never changes.
#[derive(Clone)]
pub struct Stretch {
    map: Map,
    end: usize,
}

impl Stretch {
    /// The map alone.
    pub fn of(map: Map) -> Stretch {
        let end = map.len();
        Stretch { map, end }
    }

    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Behind all that this stretch shows, and in the map's room.
    pub fn end(&self) -> usize {
        self.end.max(self.map.room().start)
    }

    /// Where what is added may stand: behind all that was written, also what nobody was shown in the end.
    pub fn free(&self) -> usize {
        let written = self.map.0.room.as_ref().map_or(0, |room| room.written.load(Ordering::Acquire));
        self.end().max(written)
    }

    /// Writes at `at`, and goes on to show it. Refused before the end of what any stretch of this map shows. What was written
    /// is touched here, so that no reader waits for its pages.
    pub fn go_on(&self, at: usize, octets: &[u8]) -> io::Result<Stretch> {
        self.map.write_behind(at, octets)?;
        let stretch = Stretch { map: self.map.clone(), end: at + octets.len() };
        touch(&stretch[at..]);
        Ok(stretch)
    }
}

impl std::ops::Deref for Stretch {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.map.0.region.octets_to(self.end)
    }
}

impl AsRef<[u8]> for Stretch {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Room {
    /// Makes what a region has behind its map ready for writing. None: there is nothing, or memory for it cannot be had
    /// (a limit of file sizes counts here, too); a map is of use without.
    fn behind(region: &Region) -> Option<Room> {
        let from = region.len.next_multiple_of(PAGE);
        let len = region.owned - from;
        let file = if len == 0 { None } else { nameless(c"dunlin changes").ok() }?;
        file.set_len(len as u64).ok()?;
        region.back_room(file.as_raw_fd()).ok()?;
        Some(Room { file, from, len, written: AtomicUsize::new(from) })
    }
}

/// Reads an octet of each page that these lie on, the last one too, wherever in its page the first stands.
fn touch(octets: &[u8]) {
    for octet in octets.iter().step_by(PAGE).chain(octets.last()) {
        // SAFETY: a reference; volatile, so that the read is not optimised away.
        unsafe { std::ptr::from_ref(octet).read_volatile() };
    }
}

/// A file in memory that no folder knows.
pub(crate) fn nameless(shown: &CStr) -> io::Result<File> {
    // SAFETY: the name is a C string; the result is checked.
    let fd = unsafe { libc::memfd_create(shown.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, and nobody else's.
    Ok(unsafe { File::from_raw_fd(fd) })
}

impl std::ops::Deref for Map {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.region.octets()
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

fn open(path: &Path) -> io::Result<(File, usize)> {
    let file = File::open(path).map_err(|e| named(path, &e))?;
    let about = file.metadata().map_err(|e| named(path, &e))?;
    if !about.is_file() {
        return Err(named(path, &io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file")));
    }
    match usize::try_from(about.len()) {
        Ok(0) => Err(named(path, &io::Error::new(io::ErrorKind::UnexpectedEof, "is empty"))),
        Ok(len) => Ok((file, len)),
        Err(_) => Err(named(path, &io::Error::new(io::ErrorKind::FileTooLarge, "does not fit the address space"))),
    }
}

/// The same error, with the file that it is about.
pub(crate) fn named(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

/// Sums what /proc/self/smaps says of huge pages in the mappings that overlap `range`.
fn huge_in(smaps: &str, range: &Range<usize>) -> usize {
    let mut inside = false;
    let mut kib = 0;
    for line in smaps.lines() {
        if let Some(mapping) = bounds(line) {
            inside = mapping.start < range.end && range.start < mapping.end;
        } else if inside && ["FilePmdMapped:", "AnonHugePages:", "ShmemPmdMapped:"].iter().any(|k| line.starts_with(k))
        {
            kib += line.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
        }
    }
    kib << 10
}

/// "7f00-7f10 r--s ...": the head of a mapping.
fn bounds(line: &str) -> Option<Range<usize>> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
}

/// Addresses that are ours, from a 2 MiB border on, and unmapped on drop.
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
    /// Octets that are ours from the start on: whole pages, those of the map and the room behind it.
    owned: usize,
}

// SAFETY: plain memory, read-only once shared; nothing in it belongs to a thread.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Takes addresses without memory behind them: enough for a border to lie in, then gives the rest back.
    pub(crate) fn reserve(len: usize, room: usize) -> io::Result<Region> {
        let end = len.checked_next_multiple_of(PAGE).and_then(|n| n.checked_add(room)?.checked_next_multiple_of(PAGE));
        let size = end.and_then(|n| n.checked_add(HUGE));
        let (Some(end), Some(size)) = (end, size) else { return Err(io::ErrorKind::OutOfMemory.into()) };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing of ours.
        let all = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        let all = mapped(all)?;
        let skip = all.as_ptr().addr().next_multiple_of(HUGE) - all.as_ptr().addr();
        // SAFETY: `skip` is less than HUGE, which `size` exceeds.
        let start = unsafe { all.add(skip) };
        // SAFETY: both pieces lie inside the mapping just made, beside what is kept.
        unsafe {
            unmap(all.as_ptr(), skip);
            unmap(start.as_ptr().add(end), size - skip - end);
        }
        Ok(Region { start, len, owned: end })
    }

    /// Puts a file (or nothing, -1) behind the addresses, and asks for huge pages. A refusal of these is no error.
    pub(crate) fn back(&self, flags: libc::c_int, access: libc::c_int, fd: libc::c_int) -> io::Result<()> {
        let at = self.start.as_ptr().cast();
        // SAFETY: replaces our own reservation, at its own size, before anybody looks at it.
        mapped(unsafe { libc::mmap(at, self.len, access, flags | libc::MAP_FIXED, fd, 0) })?;
        // SAFETY: the mapping just made.
        unsafe { libc::madvise(at, self.len, libc::MADV_HUGEPAGE) };
        Ok(())
    }

    /// Never unmapped: for what lives as long as the process.
    pub(crate) fn leak(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// Puts a file behind the addresses that follow the map.
    fn back_room(&self, fd: libc::c_int) -> io::Result<()> {
        let (from, access) = (self.len.next_multiple_of(PAGE), libc::PROT_READ);
        // SAFETY: inside our own reservation, which goes on to `owned`.
        let at = unsafe { self.start.as_ptr().add(from) };
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: replaces the rest of our own reservation, before anybody looks at it.
        mapped(unsafe { libc::mmap(at.cast(), self.owned - from, access, flags, fd, 0) })?;
        Ok(())
    }

    fn protect(&self, access: libc::c_int) -> io::Result<()> {
        // SAFETY: our own mapping; it is called before the region is shared.
        let result = unsafe { libc::mprotect(self.start.as_ptr().cast(), self.len, access) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn range(&self) -> Range<usize> {
        let start = self.start.as_ptr().addr();
        start..start + self.len
    }

    #[inline]
    fn octets(&self) -> &[u8] {
        // SAFETY: `len` octets are mapped and readable for as long as `self` lives. A file that is cut off meanwhile
        // reads as zeros (see `sigbus`).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The octets of the map and of what follows it, up to `to`.
    #[inline]
    fn octets_to(&self, to: usize) -> &[u8] {
        // SAFETY: the map, and beyond it the room if there is one, is mapped and readable for as long as `self` lives; what
        // stands between the file's end and the end of its last page reads as zeros. Nothing before `to` is written any
        // more: `Map::write_behind` sees to that.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), to.min(self.owned)) }
    }

    /// Only for a region that was backed with write access.
    fn octets_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `octets`; `&mut self` says that nobody else looks.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and every reference into it has borrowed the region.
        unsafe { unmap(self.start.as_ptr(), self.owned) };
    }
}

fn mapped(result: *mut libc::c_void) -> io::Result<NonNull<u8>> {
    match NonNull::new(result.cast()) {
        Some(start) if result != libc::MAP_FAILED => Ok(start),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// The piece belongs to the caller, and nobody looks at it any more.
unsafe fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the caller's promise.
        unsafe {
            empty(start, len);
            libc::munmap(start.cast(), len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdir::TestDir;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i / 7 + i / 4096) as u8).collect()
    }

    #[test]
    fn a_map_shows_the_file_on_a_huge_page_border() {
        let dir = TestDir::new("map");
        for len in [1, PAGE - 1, PAGE, PAGE + 1, HUGE + 5] {
            let path = dir.file(&format!("f{len}"), &pattern(len));
            for map in [Map::open(&path).unwrap(), Map::copy_to_memory(&path, 0).unwrap()] {
                assert!(map.as_ref() == pattern(len).as_slice(), "{len} {:?}", map.backing());
                assert_eq!(map.as_ptr().addr() % HUGE, 0);
                assert_eq!(map.faults(), 0);
            }
        }
    }

    #[test]
    fn prefault_goes_through_in_slices() {
        let dir = TestDir::new("prefault");
        let map = Map::open(&dir.file("f", &pattern(3 * HUGE + 1))).unwrap();
        let mut at = 0;
        let mut slices = 0;
        while at < map.len() {
            at = map.prefault(at, HUGE);
            slices += 1;
        }
        assert_eq!(slices, 4);
        assert!(map.huge_bytes().unwrap() <= map.len());
    }

    #[test]
    fn what_cannot_be_mapped_is_named() {
        let dir = TestDir::new("refused");
        let empty = dir.file("empty", b"");
        for (path, says) in [
            (empty.as_path(), "is empty"),
            (dir.path(), "not a regular file"),
            (&dir.path().join("none"), "No such file"),
        ] {
            for result in [Map::open(path), Map::copy_to_memory(path, 0)] {
                let text = result.err().unwrap().to_string();
                assert!(text.contains(says) && text.contains(&path.display().to_string()), "{text}");
            }
        }
    }

    #[test]
    fn a_map_lives_on_when_its_file_is_replaced() {
        let dir = TestDir::new("replaced");
        let path = dir.file("f", &pattern(10_000));
        let map = Map::open(&path).unwrap();
        crate::atomic::write_atomically(dir.path(), "f", None, |f| io::Write::write_all(f, b"new")).unwrap();
        assert!(*map == *pattern(10_000));
        assert_eq!(&*Map::open(&path).unwrap(), b"new");
    }

    #[test]
    fn what_is_written_behind_a_map_is_shown_by_the_next_stretch_only() {
        let dir = TestDir::new("room");
        for len in [1, PAGE, HUGE + 5] {
            let path = dir.file(&format!("f{len}"), &pattern(len));
            for map in [Map::open_with_room(&path, 3 * PAGE), Map::copy_to_memory(&path, 3 * PAGE)] {
                let first = Stretch::of(map.unwrap());
                assert_eq!(first.end(), len.next_multiple_of(PAGE));
                let second = first.go_on(first.end() + 8, b"changes").unwrap();
                assert_eq!((&first[..], &second[..len]), (&pattern(len)[..], &pattern(len)[..]));
                assert!(second.ends_with(b"\0\0changes"));
                let third = second.go_on(second.end(), &[7; PAGE]).unwrap();
                assert!(third.starts_with(&second) && third.ends_with(&[7; PAGE]));
                assert_eq!(third.go_on(second.end(), b"x").err().map(|e| e.kind()), Some(io::ErrorKind::InvalidInput));
                assert_eq!((second.free(), third.free()), (third.end(), third.end()), "nobody has to be shown it");
                let full = third.go_on(third.end(), &[0; 2 * PAGE]).err().map(|e| e.kind());
                assert_eq!(full, Some(io::ErrorKind::StorageFull));
            }
        }
    }

    /// Page faults of the calling thread.
    fn page_faults() -> i64 {
        // SAFETY: integers, for which zero is a value; the kernel writes to it during the call.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            usage.ru_minflt + usage.ru_majflt
        }
    }

    /// The kernel maps 64 KiB around what is touched, so only what reaches just beyond shows whether all is.
    #[test]
    fn who_reads_what_was_written_behind_a_map_waits_for_no_page() {
        const AROUND: usize = 64 << 10;
        let dir = TestDir::new("touched");
        let map = Map::open_with_room(&dir.file("f", b"f"), 4 * AROUND).unwrap();
        let border = (map.as_ptr().addr() + 2 * AROUND).next_multiple_of(AROUND) - map.as_ptr().addr();
        let stretch = Stretch::of(map).go_on(border - 8, &[7; 16]).unwrap();
        let before = page_faults();
        let sum: u32 = stretch[border - 8..].iter().map(|&octet| u32::from(std::hint::black_box(octet))).sum();
        assert_eq!((page_faults() - before, sum), (0, 7 * 16));
    }

    #[test]
    fn a_map_is_shared_between_threads() {
        let dir = TestDir::new("shared");
        let map = Arc::new(Map::open(&dir.file("f", &pattern(100_000))).unwrap());
        let other = map.clone();
        let there = std::thread::spawn(move || other.iter().map(|&b| u64::from(b)).sum::<u64>()).join().unwrap();
        assert_eq!(there, map.iter().map(|&b| u64::from(b)).sum::<u64>());
    }

    #[test]
    fn huge_pages_are_summed_over_the_mappings_of_the_range() {
        let smaps = "7f0000000000-7f0000400000 r--s 0 00:01 7 /f\nRss: 4096 kB\nAnonHugePages: 0 kB\nFilePmdMapped: 2048 kB\n\
                     7f0000400000-7f0000800000 rw-p 0 00:00 0\nAnonHugePages: 4096 kB\nFilePmdMapped: 0 kB\n";
        let all = 0x7f00_0000_0000;
        for (range, kib) in
            [(all..all + 1, 2048), (all + 0x40_0000..all + 0x80_0000, 4096), (all..all + 0x50_0000, 6144), (0..9, 0)]
        {
            assert_eq!(huge_in(smaps, &range), kib << 10);
        }
    }
}
