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

use crate::sigbus::{self, Guard};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

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
    // Drops first: its entry in the table of `sigbus` must not outlive the mapping.
    guard: Option<Guard>,
    region: Region,
    backing: Backing,
}

impl Map {
    /// Maps a file; fails for an empty one.
    pub fn open(path: &Path) -> io::Result<Map> {
        sigbus::install()?;
        let (file, len) = open(path)?;
        let map = Map::of_file(&file, len).map_err(|e| named(path, &e))?;
        if !map.is_cached_small() {
            return Ok(map);
        }
        // Only pages that are on disk and that nobody maps can leave the cache.
        drop(map);
        file.sync_data().map_err(|e| named(path, &e))?;
        // SAFETY: takes no pointers; `file` is open.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        Map::of_file(&file, len).map_err(|e| named(path, &e))
    }

    /// Reads a file into anonymous memory with huge pages, for kernels and file systems whose files cannot have them.
    pub fn copy_to_memory(path: &Path) -> io::Result<Map> {
        let (mut file, len) = open(path)?;
        let copy = |file: &mut File| {
            let mut region = Region::reserve(len)?;
            region.back(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE, -1)?;
            file.read_exact(region.octets_mut())?;
            region.protect(libc::PROT_READ)?;
            Ok(Map(Arc::new(Mapping { guard: None, region, backing: Backing::Copy })))
        };
        copy(&mut file).map_err(|e: io::Error| named(path, &e))
    }

    /// Maps a file that has no name any more: nobody can cut it off, and it is gone when the map is.
    pub fn of_scratch(file: &File) -> io::Result<Map> {
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let region = Region::reserve(len)?;
        region.back(libc::MAP_SHARED, libc::PROT_READ, file.as_raw_fd())?;
        Ok(Map(Arc::new(Mapping { guard: None, region, backing: Backing::File })))
    }

    fn of_file(file: &File, len: usize) -> io::Result<Map> {
        let region = Region::reserve(len)?;
        region.back(libc::MAP_SHARED, libc::PROT_READ, file.as_raw_fd())?;
        let guard = Guard::over(region.range())?;
        Ok(Map(Arc::new(Mapping { guard: Some(guard), region, backing: Backing::File })))
    }

    pub fn backing(&self) -> Backing {
        self.0.backing
    }

    /// Touches the pages of `bytes` octets from `from`; returns where to go on, `len()` when done. Call it from a
    /// background thread, slice by slice.
    pub fn prefault(&self, from: usize, bytes: usize) -> usize {
        let to = from.saturating_add(bytes).min(self.len());
        for at in (from..to).step_by(PAGE) {
            self.touch(at);
        }
        to
    }

    fn touch(&self, at: usize) {
        // SAFETY: a reference to an octet inside the slice; volatile, so that the read is not optimised away.
        unsafe { std::ptr::from_ref(&self[at]).read_volatile() };
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
        cached.iter().for_each(|&at| self.touch(at));
        !cached.is_empty() && self.huge_bytes().is_ok_and(|huge| huge < cached.len() * HUGE / 2)
    }

    fn is_cached(&self, at: usize) -> bool {
        let mut resident = 0u8;
        // SAFETY: the page is inside the mapping, and one octet of room is what one page needs.
        let result = unsafe { libc::mincore(self.0.region.start.as_ptr().add(at).cast(), PAGE, &raw mut resident) };
        result == 0 && resident & 1 == 1
    }
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

fn named(path: &Path, e: &io::Error) -> io::Error {
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
}

// SAFETY: plain memory, read-only once shared; nothing in it belongs to a thread.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Takes addresses without memory behind them: enough for a border to lie in, then gives the rest back.
    pub(crate) fn reserve(len: usize) -> io::Result<Region> {
        let size = len.checked_next_multiple_of(PAGE).and_then(|n| n.checked_add(HUGE));
        let Some(size) = size else { return Err(io::ErrorKind::OutOfMemory.into()) };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing of ours.
        let all = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        let all = mapped(all)?;
        let skip = all.as_ptr().addr().next_multiple_of(HUGE) - all.as_ptr().addr();
        // SAFETY: `skip` is less than HUGE, which `size` exceeds.
        let start = unsafe { all.add(skip) };
        let end = len.next_multiple_of(PAGE);
        // SAFETY: both pieces lie inside the mapping just made, beside what is kept.
        unsafe {
            unmap(all.as_ptr(), skip);
            unmap(start.as_ptr().add(end), size - skip - end);
        }
        Ok(Region { start, len })
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

    /// Only for a region that was backed with write access.
    fn octets_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `octets`; `&mut self` says that nobody else looks.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and every reference into it has borrowed the region.
        unsafe { unmap(self.start.as_ptr(), self.len.next_multiple_of(PAGE)) };
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
        unsafe { libc::munmap(start.cast(), len) };
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
            for map in [Map::open(&path).unwrap(), Map::copy_to_memory(&path).unwrap()] {
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
            for result in [Map::open(path), Map::copy_to_memory(path)] {
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
