//! Where a thread of this process is: its own program counters, written down by itself in a signal handler, and what the
//! kernel says of it.
//!
//! The handler takes no lock and no memory: it walks the stack with the unwinder that panics use (whose tables glibc finds
//! without a lock since 2.35) and stores addresses in fixed places. A thread that sleeps in the kernel and cannot be woken
//! writes them when it comes back, before it runs on: the place is still the one that waited.
#![allow(unsafe_code)]

use crate::sys::check;
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

/// Frames that are kept, innermost first.
const FRAMES_MAX: usize = 48;

/// Where one thread writes.
struct Place {
    /// Who is to write; 0: nobody.
    asked: AtomicI32,
    /// Frames written, and one more; 0: not yet.
    written: AtomicUsize,
    frames: [AtomicUsize; FRAMES_MAX],
}

impl Place {
    fn new() -> Place {
        Place {
            asked: AtomicI32::new(0),
            written: AtomicUsize::new(0),
            frames: [const { AtomicUsize::new(0) }; FRAMES_MAX],
        }
    }
}

/// Those of the one who asks now. They stay: a signal may come late.
static PLACES: AtomicPtr<Vec<Place>> = AtomicPtr::new(std::ptr::null_mut());
static TAKEN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> libc::c_int, at: *mut c_void) -> libc::c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// A thread as the kernel numbers it.
pub type Tid = i32;

/// The number of the calling thread.
pub fn tid() -> Tid {
    // SAFETY: takes no pointers and never fails.
    unsafe { libc::gettid() }
}

/// The one who asks threads for their stacks. There is one in a process.
pub struct Stacks(());

impl Stacks {
    /// For so many threads. Err: there is one already, or the signal cannot be had.
    pub fn new(places: usize) -> io::Result<Stacks> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        PLACES.store(Box::leak(Box::new((0..places).map(|_| Place::new()).collect())), Ordering::Release);
        let handler: extern "C" fn(libc::c_int) = write_down;
        // SAFETY: integers and a function pointer, for which zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `action` is live, and its handler does only what a handler may.
        check(unsafe { libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) })?;
        // The first walk of a process makes itself ready once, for which a handler might wait that meets it in a thread that panics.
        // SAFETY: `stop` does nothing with what it is given.
        unsafe { _Unwind_Backtrace(stop, std::ptr::null_mut()) };
        Ok(Stacks(()))
    }

    /// Asks a thread of this process to write down where it is, in this place. What an earlier one writes there now is ignored. Err: it has
    /// ended, or there is no such place.
    pub fn ask(&mut self, place: usize, thread: Tid) -> io::Result<()> {
        let place = places().get(place).ok_or(io::ErrorKind::QuotaExceeded)?;
        place.asked.store(0, Ordering::Release);
        place.written.store(0, Ordering::Release);
        place.asked.store(thread, Ordering::Release);
        // SAFETY: takes no pointers; a thread that has ended is an error.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
        check(sent as libc::c_int).map(drop)
    }

    /// What the thread asked there last has written, innermost first; None: nothing yet.
    pub fn written(&mut self, place: usize) -> Option<Vec<usize>> {
        let place = places().get(place)?;
        let frames = place.written.load(Ordering::Acquire).checked_sub(1)?;
        Some(place.frames[..frames].iter().map(|f| f.load(Ordering::Relaxed)).collect())
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // The handler stays: a signal that is still on its way must not end the process.
        places().iter().for_each(|place| place.asked.store(0, Ordering::Release));
        TAKEN.store(false, Ordering::Release);
    }
}

fn places() -> &'static [Place] {
    // SAFETY: null, or what was leaked in `Stacks::new`, and is never written but through its atomics.
    unsafe { PLACES.load(Ordering::Acquire).as_ref() }.map_or(&[], |places| places)
}

fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

extern "C" fn write_down(_: libc::c_int) {
    let thread = tid();
    let is_mine = |place: &&Place| place.asked.load(Ordering::Acquire) == thread;
    let Some(place) = places().iter().find(is_mine) else { return };
    let mut frames = Frames { place, own: FRAMES_OWN, count: 0 };
    // SAFETY: `frame` is called with each context in turn and with the pointer given, which is live until it returns.
    unsafe { _Unwind_Backtrace(frame, (&raw mut frames).cast()) };
    // Meanwhile another one may have been asked.
    if is_mine(&place) {
        place.written.store(frames.count + 1, Ordering::Release);
    }
}

/// Where the calling thread is, innermost first.
#[inline(never)]
pub fn here() -> Vec<usize> {
    let place = Place::new();
    let mut frames = Frames { place: &place, own: 1, count: 0 };
    // SAFETY: `frame` is called with each context in turn and with the pointer given, which is live until it returns.
    unsafe { _Unwind_Backtrace(frame, (&raw mut frames).cast()) };
    place.frames[..frames.count].iter().map(|f| f.load(Ordering::Relaxed)).collect()
}

struct Frames<'p> {
    place: &'p Place,
    /// Of whoever walks, still to come.
    own: usize,
    count: usize,
}

/// That of `write_down`, and the one that the kernel has it return to.
const FRAMES_OWN: usize = 2;
/// _URC_NORMAL_STOP
const STOP: libc::c_int = 4;

extern "C" fn stop(_: *mut c_void, _: *mut c_void) -> libc::c_int {
    STOP
}

extern "C" fn frame(context: *mut c_void, frames: *mut c_void) -> libc::c_int {
    // SAFETY: it is that of `write_down`, or of `here`, on the same stack.
    let frames = unsafe { &mut *frames.cast::<Frames<'_>>() };
    if frames.own > 0 {
        frames.own -= 1;
        return 0;
    }
    // SAFETY: the unwinder has just made this context.
    let at = unsafe { _Unwind_GetIP(context) };
    // Behind the first function of a thread there is none.
    let Some(frame) = frames.place.frames.get(frames.count).filter(|_| at != 0) else { return STOP };
    frame.store(at, Ordering::Relaxed);
    frames.count += 1;
    0
}

/// What the kernel says of a thread: its state, and what it waits for or which system call it is in.
pub fn kernel_state(thread: Tid) -> String {
    let read = |what: &str| std::fs::read_to_string(format!("/proc/self/task/{thread}/{what}")).unwrap_or_default();
    let stat = read("stat");
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
    let (wchan, syscall) = (read("wchan"), read("syscall"));
    let number = syscall.split_whitespace().next().unwrap_or("").to_string();
    match (wchan.trim(), &number[..]) {
        ("" | "0", "" | "running") => format!("state {state}"),
        ("" | "0", number) => format!("state {state}, system call {number}"),
        (wchan, "" | "running") => format!("state {state}, waits in {wchan}"),
        (wchan, number) => format!("state {state}, waits in {wchan}, system call {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    static STOP: AtomicBool = AtomicBool::new(false);

    #[inline(never)]
    fn spin_until_told(turns: &mut u64) {
        while !STOP.load(SeqCst) {
            *turns = std::hint::black_box(*turns + 1);
        }
    }

    #[test]
    fn a_busy_thread_and_a_sleeping_one_tell_where_they_are() {
        let mut stacks = Stacks::new(2).unwrap();
        assert!(Stacks::new(2).is_err(), "there is one in a process");
        let (tell, told) = channel();
        let busy = tell.clone();
        let spinner = std::thread::spawn(move || {
            busy.send(tid()).unwrap();
            spin_until_told(&mut 0);
        });
        let spinning = told.recv().unwrap();
        let (release, released) = channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(tid()).unwrap();
            let _ = released.recv();
        });
        let sleeping = told.recv().unwrap();
        let mut stacks_of = |threads: [Tid; 2]| {
            let end = Instant::now() + Duration::from_secs(20);
            (0..2).for_each(|place| stacks.ask(place, threads[place]).unwrap());
            [0, 1].map(|place| {
                loop {
                    if let Some(frames) = stacks.written(place) {
                        return frames;
                    }
                    assert!(Instant::now() < end, "no stack");
                    std::thread::yield_now();
                }
            })
        };
        let from = spin_until_told as fn(&mut u64) as usize;
        let near = |stack: &[usize]| stack.iter().any(|f| (from..from + 4096).contains(f));
        let [mut seen, mut other] = stacks_of([spinning, sleeping]);
        // It may have been asked before it got there.
        while !near(&seen) {
            [other, seen] = stacks_of([sleeping, spinning]);
        }
        assert!(other.len() > 3 && !near(&other));
        // It calls what it waits for where nothing is inlined.
        assert!(seen.iter().take(3).any(|f| (from..from + 4096).contains(f)) && !seen.contains(&0), "{seen:x?}");
        assert!(stacks.ask(2, spinning).is_err());
        assert!(kernel_state(sleeping).starts_with("state "), "{}", kernel_state(sleeping));
        STOP.store(true, SeqCst);
        release.send(()).unwrap();
        spinner.join().unwrap();
        sleeper.join().unwrap();
        // It is joined a moment before the kernel has forgotten it.
        let end = Instant::now() + Duration::from_secs(20);
        while stacks.ask(0, spinning).is_ok() {
            assert!(Instant::now() < end, "it has ended");
            std::thread::yield_now();
        }
    }
}
