//! Work in the background, in slices with a rest after each. Changes no thread's priority; that is `sched`'s.
#![allow(unsafe_code)]

use crate::sched::{is_background, thread_cpu_time};
use crate::sys::check;
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

/// How long a thread in the background works before it rests. At 20,000 queries a second, beside a loop at idle priority on
/// each of two CPUs that never sleeps, the p99.99 of their latency was 1.4 times what it is without; beside loops that
/// sleep for a moment each 0.2 to 2 ms it was 0.6 to 1.0 times that. A thread that has slept gives way at the next wake-up
/// of one that answers; one that has not is now and then let go on until the scheduler's next tick, for 4 ms.
const SLICE_NS: i64 = 1_000_000;
/// And how long it rests; the kernel makes 70 us of it.
const REST_NS: i64 = 20_000;
/// A thread that used less of its slice waits for something, and is not to be woken by its own timer: its slices begin anew
/// when it has worked for this long, which the kernel counts in ticks.
const WORKED: Duration = Duration::from_nanos(SLICE_NS.unsigned_abs() / 4);
const AWAKE_NS: i64 = 4_000_000;

thread_local! {
    /// For the handler: the timer of this thread's slices, and its CPU time when the last one ended.
    static SLICES: Cell<Option<(libc::timer_t, Duration)>> = const { Cell::new(None) };
}

/// Makes the thread that made it work in slices, for as long as it is kept.
pub struct Pace {
    slices: Timer,
    _awake: Timer,
    /// The timers are that thread's.
    here: PhantomData<*const ()>,
}

/// If the calling thread is in the background, it works in slices from now on: a signal sends it to sleep after each, wherever
/// it is. So no loop of those who work has to know of it. None: it is not in the background.
pub fn keep() -> io::Result<Option<Pace>> {
    if !is_background() {
        return Ok(None);
    }
    let handler: extern "C" fn(libc::c_int) = rest;
    // SAFETY: integers and a function pointer, for which zero is a value.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is live; the handler does only what a handler may.
    check(unsafe { libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) })?;
    let pace = Pace {
        slices: Timer::new(libc::CLOCK_MONOTONIC)?,
        _awake: Timer::new(libc::CLOCK_THREAD_CPUTIME_ID)?.set(AWAKE_NS, AWAKE_NS)?,
        here: PhantomData,
    };
    SLICES.set(Some((pace.slices.0, Duration::ZERO)));
    Ok(Some(pace))
}

impl Drop for Pace {
    fn drop(&mut self) {
        // A signal that is on its way finds no timer to set.
        SLICES.set(None);
    }
}

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 1
}

extern "C" fn rest(_: libc::c_int) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: REST_NS };
    // SAFETY: `time` is live; errno, which the calls here set, is the thread's own and put back.
    unsafe {
        let errno = *libc::__errno_location();
        libc::nanosleep(&raw const time, std::ptr::null_mut());
        begin_slice();
        *libc::__errno_location() = errno;
    }
}

/// The next slice, unless the thread does not use them.
fn begin_slice() {
    let Some((timer, before)) = SLICES.get() else { return };
    let now = thread_cpu_time();
    SLICES.set(Some((timer, now)));
    if now.saturating_sub(before) >= WORKED {
        set(timer, SLICE_NS, 0);
    }
}

/// A timer that sends the thread that made it our signal.
struct Timer(libc::timer_t);

impl Timer {
    fn new(clock: libc::clockid_t) -> io::Result<Timer> {
        // SAFETY: integers, for which zero is a value.
        let mut event = unsafe { std::mem::zeroed::<libc::sigevent>() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        event.sigev_notify_thread_id = crate::stack::tid();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: what is pointed at is live.
        check(unsafe { libc::timer_create(clock, &raw mut event, &raw mut timer) })?;
        Ok(Timer(timer))
    }

    fn set(self, first_ns: i64, every_ns: i64) -> io::Result<Timer> {
        check(set(self.0, first_ns, every_ns))?;
        Ok(self)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer is ours; a signal that is on its way finds its handler.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// As a system call says it: negative is a failure. Fit for a signal handler.
fn set(timer: libc::timer_t, first_ns: i64, every_ns: i64) -> libc::c_int {
    let time = |ns| libc::timespec { tv_sec: 0, tv_nsec: ns };
    let times = libc::itimerspec { it_interval: time(every_ns), it_value: time(first_ns) };
    // SAFETY: `times` is live. Who sets a timer that is deleted gets an error.
    unsafe { libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::background;

    fn rests() -> libc::c_long {
        // SAFETY: a structure of integers, for which zero is a value, and live.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            usage.ru_nvcsw
        }
    }

    fn work(for_ms: u64) {
        let end = thread_cpu_time() + Duration::from_millis(for_ms);
        while thread_cpu_time() < end {
            std::hint::black_box((0..1000u64).sum::<u64>());
        }
    }

    #[test]
    fn a_thread_in_the_background_works_in_slices_and_no_other_does() {
        std::thread::spawn(|| {
            assert!(keep().unwrap().is_none(), "not in the background");
            background().unwrap();
            let before = rests();
            work(60);
            assert_eq!(rests(), before, "without a pace it never rests by itself");
            let pace = keep().unwrap().unwrap();
            work(200);
            let rested = rests() - before;
            assert!(rested >= 40, "{rested} rests in 200 ms of work");
            drop(pace);
            let after = rests();
            work(60);
            assert!(rests() - after <= 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_waits_is_not_woken_by_its_slices() {
        std::thread::spawn(|| {
            background().unwrap();
            let _pace = keep().unwrap().unwrap();
            work(20);
            let (send, receive) = std::sync::mpsc::channel::<()>();
            let waiting = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                drop(send);
            });
            let before = rests();
            assert!(receive.recv().is_err());
            // Its own wait, and the slice that had begun.
            assert!(rests() - before <= 4, "{}", rests() - before);
            waiting.join().unwrap();
        })
        .join()
        .unwrap();
    }
}
