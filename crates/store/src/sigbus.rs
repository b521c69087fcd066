//! Reading a mapped page that is gone: the file was cut off, or the disk failed.
//!
//! The kernel says so with SIGBUS. The handler looks the address up in a table of our maps; inside one, it puts a page
//! of zeros there, counts a fault of this map, and the read goes on. Elsewhere the signal does what it does by default.
//!
//! The table has a fixed number of slots and no lock, for a handler must not wait:
//!
//! ```text
//!   start == 0  free        start == 1  being filled        start > 1  in force, `end` and `faults` valid
//! ```
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Maps of files at one time, most. One image holds many zones.
const MAPS_MAX: usize = 4096;
const FREE: usize = 0;
const FILLING: usize = 1;
const PAGE: usize = 4096;

struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    faults: AtomicU32,
}

static TABLE: [Slot; MAPS_MAX] =
    [const { Slot { start: AtomicUsize::new(FREE), end: AtomicUsize::new(0), faults: AtomicU32::new(0) } }; MAPS_MAX];

/// Installs the handler for the process; `Map::open` does it by itself. Once is enough, more does no harm.
pub fn install() -> io::Result<()> {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: integers, pointers and a set, for which zero is a value (an empty set).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_sigbus as *const () as usize;
    // On the alternative stack, which every thread of Rust has: a full stack is no reason to fail here too.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is complete; the handler keeps to what a handler may do.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    DONE.store(true, Ordering::Release);
    Ok(())
}

/// A map's place in the table, until dropped.
pub(crate) struct Guard(&'static Slot);

impl Guard {
    pub(crate) fn over(range: Range<usize>) -> io::Result<Guard> {
        let free =
            |slot: &&Slot| slot.start.compare_exchange(FREE, FILLING, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let Some(slot) = TABLE.iter().find(free) else {
            return Err(io::Error::other(format!("{MAPS_MAX} files are mapped already: no more are possible")));
        };
        slot.end.store(range.end, Ordering::Relaxed);
        slot.faults.store(0, Ordering::Relaxed);
        slot.start.store(range.start, Ordering::Release);
        Ok(Guard(slot))
    }

    #[inline]
    pub(crate) fn faults(&self) -> u32 {
        self.0.faults.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(FREE, Ordering::Release);
    }
}

/// The slot of the map that holds an address.
fn slot_of(address: usize) -> Option<&'static Slot> {
    TABLE.iter().find(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        start > FILLING && (start..slot.end.load(Ordering::Relaxed)).contains(&address)
    })
}

/// Does only what a signal handler may: atomics and system calls, no memory, no lock; errno is left as it was.
extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo, and si_addr holds an address when the kernel itself raised the signal
    // (si_code above 0); errno belongs to this thread.
    let (by_kernel, address, errno) =
        unsafe { ((*info).si_code > 0, (*info).si_addr().addr(), *libc::__errno_location()) };
    let repaired = by_kernel && slot_of(address).is_some_and(|slot| repair(slot, address));
    if !repaired {
        // SAFETY: both calls are allowed in a handler. The signal is held back until the handler ends, then kills.
        unsafe {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
            libc::raise(libc::SIGBUS);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Zeros over the page; over the whole map where a process may not have that many mappings.
fn repair(slot: &Slot, address: usize) -> bool {
    // Before any other thread can read the zeros.
    slot.faults.fetch_add(1, Ordering::SeqCst);
    let start = slot.start.load(Ordering::Relaxed);
    zeros(address & !(PAGE - 1), PAGE) || zeros(start, slot.end.load(Ordering::Relaxed) - start)
}

fn zeros(at: usize, len: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let at = std::ptr::with_exposed_provenance_mut(at);
    // SAFETY: the range lies inside a mapping of ours that a reader holds (else it could not have faulted there), and
    // what is replaced could not be read.
    unsafe { libc::mmap(at, len, libc::PROT_READ, flags, -1, 0) != libc::MAP_FAILED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{HUGE, Map};
    use crate::testdir::TestDir;
    use std::fs::OpenOptions;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    fn cut(path: &std::path::Path, len: u64) {
        OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
    }

    #[test]
    fn a_file_cut_off_reads_as_zeros_and_marks_its_map_only() {
        let dir = TestDir::new("sigbus");
        for unit in [PAGE, HUGE] {
            let (hurt, whole) = (dir.file("hurt", &vec![7; 5 * unit]), dir.file("whole", &vec![7; 5 * unit]));
            let (hurt_map, whole_map) = (Map::open(&hurt).unwrap(), Map::open(&whole).unwrap());
            hurt_map.prefault(0, 3 * unit);
            cut(&hurt, unit as u64 + 100);
            assert_eq!(hurt_map.faults(), 0);
            let seen = [0, unit + 99, unit + 100, 4 * unit, 2 * unit].map(|at| hurt_map[at]);
            assert_eq!(seen, [7, 7, 0, 0, 0]);
            // Two pages of the three were lost, and one may be mapped with the other.
            assert!(hurt_map.faults() > 0 && whole_map.faults() == 0);
            assert!(whole_map.iter().all(|&b| b == 7));
            drop(hurt_map);
            assert_eq!(Map::open(&whole).unwrap().faults(), 0);
        }
    }

    #[test]
    fn many_threads_read_beyond_the_end_at_once() {
        let dir = TestDir::new("sigbus-threads");
        let path = dir.file("f", &vec![1; 256 * PAGE]);
        let map = Map::open(&path).unwrap();
        cut(&path, 0);
        let sum = || map.iter().map(|&b| u64::from(b)).sum::<u64>();
        std::thread::scope(|s| {
            (0..4).map(|_| s.spawn(sum)).collect::<Vec<_>>().into_iter().for_each(|t| assert_eq!(t.join().unwrap(), 0))
        });
        assert!(map.faults() >= 256);
    }

    /// Runs the ignored-by-default half below in a process of its own, for it dies.
    #[test]
    fn a_signal_that_is_not_ours_still_kills() {
        let me = std::env::current_exe().unwrap();
        let status = Command::new(me)
            .args(["--exact", "sigbus::tests::raise_a_foreign_sigbus", "--ignored", "--nocapture"])
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(libc::SIGBUS));
    }

    #[test]
    #[ignore = "kills its process: run by the test above"]
    fn raise_a_foreign_sigbus() {
        install().unwrap();
        // SAFETY: takes no pointers.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}
