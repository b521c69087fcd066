//! Memory that outlives its process: a memfd on huge pages, taken once, of a size that nobody can change.
//!
//! It is never a mapped disk file: the kernel makes a page of such a file wait while it is written back, and a reader's
//! touch with it. Whoever is handed the descriptor (systemd's store, a socket) maps the same memory; what is in it, the
//! words say themselves. It is mapped for as long as the process lives, so the words are `'static`.
#![allow(unsafe_code)]

use crate::map::{HUGE, Region};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: usize = 4096;

pub struct Memory {
    fd: OwnedFd,
    words: &'static [AtomicU64],
    /// Made by this process: nobody has used its pages for long, and they may be put together to huge ones.
    is_new: bool,
}

impl Memory {
    /// How many of so many octets a memory has: whole pages.
    pub fn whole_pages(bytes: usize) -> usize {
        bytes / PAGE * PAGE
    }

    /// `bytes` (to the page below) of zeros. Nothing is behind the addresses yet: `prefault` before it is needed.
    pub fn create(name: &CStr, bytes: usize) -> io::Result<Memory> {
        let bytes = Memory::whole_pages(bytes);
        // SAFETY: `name` is a live string; the call makes a new descriptor.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        // SAFETY: a descriptor just made, and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(check(fd)?) };
        let size = libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: takes no pointers; the descriptor is open.
        check(unsafe { libc::ftruncate(fd.as_raw_fd(), size) })?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: as above.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Ok(Memory { is_new: true, ..Memory::adopt(fd)? })
    }

    /// The memory that another process handed over. One that could be cut off is refused: a touch behind its end would
    /// end this process.
    pub fn adopt(fd: OwnedFd) -> io::Result<Memory> {
        // SAFETY: takes no pointers; the descriptor is open.
        let seals = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
        if seals & libc::F_SEAL_SHRINK == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a memory that is not sealed against being cut off",
            ));
        }
        let len = std::fs::File::from(fd.try_clone()?).metadata()?.len();
        let bytes = Memory::whole_pages(usize::try_from(len).unwrap_or(0));
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a memory without octets"));
        }
        let region = Region::reserve(bytes, 0)?;
        region.back(libc::MAP_SHARED, libc::PROT_READ | libc::PROT_WRITE, fd.as_raw_fd())?;
        let start = region.leak();
        // SAFETY: `bytes` octets from a page's border on are mapped for good, readable and writable; any eight of them
        // are a number, and whoever else has the memory is to use atomic words as well.
        let words = unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>().as_ptr(), bytes / 8) };
        Ok(Memory { fd, words, is_new: false })
    }

    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Puts pages behind `bytes` octets from `from`, whatever is in them; returns where to go on, `bytes()` when done.
    /// Call it from a background thread, slice by slice, while the memory is used already.
    pub fn prefault(&self, from: usize, bytes: usize) -> usize {
        let from = from / HUGE * HUGE;
        let to = from.saturating_add(bytes.max(1)).next_multiple_of(HUGE).min(self.bytes());
        let Some(slice) = self.words.get(from / 8..to / 8).filter(|slice| !slice.is_empty()) else {
            return self.bytes();
        };
        if self.is_new {
            slice.chunks_exact(HUGE / 8).for_each(put_together);
        }
        let start = slice.as_ptr().cast_mut().cast();
        // SAFETY: the pages are our own mapping; populating changes nothing that is in them.
        let populated = unsafe { libc::madvise(start, to - from, libc::MADV_POPULATE_WRITE) } == 0;
        if !populated {
            // Before Linux 5.14. Adding nothing is a write that changes nothing, whoever else writes.
            for word in slice.iter().step_by(PAGE / 8) {
                word.fetch_add(0, Relaxed);
            }
        }
        to
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Has the kernel back a stretch of the size of a huge page by one. It does so for whoever asks, also where it gives none
/// by itself (`shmem_enabled` is `never` on most systems); it wants to find a page there. A refusal is no error.
fn put_together(huge: &[AtomicU64]) {
    if let Some(word) = huge.first() {
        word.fetch_add(0, Relaxed);
    }
    // SAFETY: our own mapping; what is in it stays.
    unsafe { libc::madvise(huge.as_ptr().cast_mut().cast(), HUGE, libc::MADV_COLLAPSE) };
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_to_the_page_and_is_zero() {
        let memory = Memory::create(c"test", 3 * HUGE + 5000).unwrap();
        assert_eq!(memory.bytes(), 3 * HUGE + PAGE);
        assert_eq!(memory.words().as_ptr().addr() % HUGE, 0);
        assert!(memory.words().iter().all(|word| word.load(Relaxed) == 0));
    }

    #[test]
    fn who_is_handed_the_descriptor_sees_the_same_words() {
        let memory = Memory::create(c"test", HUGE).unwrap();
        memory.words()[77].store(5, Relaxed);
        let other = Memory::adopt(memory.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(other.words()[77].load(Relaxed), 5);
        other.words()[78].store(6, Relaxed);
        assert_eq!(memory.words()[78].load(Relaxed), 6);
    }

    #[test]
    fn prefault_goes_through_in_slices_and_changes_nothing() {
        let memory = Memory::create(c"test", 5 * HUGE).unwrap();
        memory.words().iter().step_by(1000).for_each(|word| word.store(9, Relaxed));
        let (mut at, mut slices) = (0, 0);
        while at < memory.bytes() {
            at = memory.prefault(at, 2 * HUGE);
            slices += 1;
        }
        assert_eq!(slices, 3);
        assert!(memory.words().iter().enumerate().all(|(i, word)| (word.load(Relaxed) == 9) == (i % 1000 == 0)));
    }

    #[test]
    fn what_could_be_cut_off_is_refused() {
        let dir = crate::testdir::TestDir::new("memory");
        let file = std::fs::File::open(dir.file("f", &[0; 8192])).unwrap();
        assert!(Memory::adopt(file.into()).is_err());
    }
}
