//! Where and how eagerly a thread runs, and how many files the process may open.
#![allow(unsafe_code)]

mod precedence;

use crate::stack::{Tid, tid};
use crate::sys::check;
pub use precedence::{Precedence, Rank, allow_priorities, watch_over};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest name of a thread that the kernel keeps.
const NAME_MAX: usize = 15;
const NICEST: libc::c_int = 19;
const NICE: libc::c_int = 10;
/// Of a thread of the background that was left out, and of the helpers that it starts then: nobody else has this one.
const RAISED: libc::c_int = 11;

/// The calling thread runs only when nothing else wants the CPU: SCHED_IDLE, or nice 19 where that is refused.
pub fn background() -> io::Result<()> {
    go_by(libc::SCHED_IDLE, 0).or_else(|_| give_way(NICEST))
}

/// The calling thread gets a tenth of what others get that want the CPU: for what is to be done soon, and not at their
/// cost. `background` can follow.
pub fn modest() -> io::Result<()> {
    give_way(NICE)
}

/// A thread begins as the one was that has started it, which may go before others: that ends, too.
fn give_way(niceness: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointers; 0 is the calling thread.
    let is_first = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_RR;
    let ended = if is_first { go_by(libc::SCHED_OTHER, 0) } else { Ok(()) };
    // SAFETY: as above.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) }).and(ended)
}

/// By this policy from now on; a priority other than 0 is for real-time ones.
fn go_by(policy: libc::c_int, sched_priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: `parameters` is live; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }).map(drop)
}

/// The shortest slice that the kernel gives.
const PROMPT_NS: u64 = 100_000;

/// The calling thread, when it wakes, need not wait until another one's slice has ended: left alone, the kernel (EEVDF) lets that
/// one go on for up to 4 ms, even one of lower priority. A thread with a shorter slice than that one's comes first, as long as it has
/// not had its share (Linux 6.12; before that nothing changes), and gets no more of the CPU by it.
pub fn prompt() -> io::Result<()> {
    let mut attr = attributes()?;
    attr.sched_runtime = PROMPT_NS;
    set_attributes(&attr)
}

/// How the kernel schedules the calling thread.
fn attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: integers only, for which zero is a value.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of_val(&attr);
    // SAFETY: `attr` is live and of the size given; 0 is the calling thread.
    check(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) } as libc::c_int)?;
    Ok(attr)
}

fn set_attributes(attr: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: `attr` is live and says its own size; 0 is the calling thread.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attr, 0) } as libc::c_int).map(drop)
}

/// How long a thread in the background works before it rests, in CPU time (the kernel looks at its ticks), and how long
/// it rests: 2 to 5 % of its time.
const SLICE_NS: libc::c_long = 4_000_000;
const REST_NS: libc::c_long = 200_000;
/// Who waits so long for a slice is left out: beside others who want all CPUs, a thread that runs only when they do not (SCHED_IDLE) has a three-hundredth
/// of one, and a second of work takes minutes.
const LEFT_OUT_NS: u64 = 100_000_000;
/// After so many slices in a row for which it has waited no longer than they took there is a CPU for it again.
const LET_IN_NS: u64 = SLICE_NS as u64;
const LET_IN: u32 = 50;

/// Makes the thread that made it work in slices, for as long as it is kept.
pub struct Pace {
    timer: libc::timer_t,
    /// Where the kernel tells how long that thread has waited for a CPU. None: it does not.
    _waits: Option<File>,
    /// The timer is that thread's.
    here: PhantomData<*const ()>,
}

thread_local! {
    /// Of a thread that has a pace. (Without a destructor: a signal may use it.)
    static WAITS: Cell<Waits> = const { Cell::new(Waits { told_by: -1, until_now_ns: 0, short: 0 }) };
}

/// How long a thread has waited for a CPU.
#[derive(Clone, Copy)]
struct Waits {
    told_by: RawFd,
    until_now_ns: u64,
    /// Slices in a row for which it has hardly waited, since it was left out.
    short: u32,
}

/// If the calling thread is in the background, it works in slices from now on: a signal of its own CPU clock sends it to
/// sleep after each, wherever it is. So nobody waits longer than a slice for a CPU, even where SCHED_IDLE was refused or the
/// kernel does not preempt; and no loop of those who work has to know of it. Where others leave it nothing it has a tenth of what they get until they leave
/// more, if that is allowed: what it does is not urgent, but somebody waits for it. None: it is not in the background.
pub fn pace() -> io::Result<Option<Pace>> {
    if !is_background() {
        return Ok(None);
    }
    let handler: extern "C" fn(libc::c_int) = rest;
    let signal = libc::SIGRTMIN() + 1;
    // SAFETY: integers and a function pointer, for which zero is a value.
    let (mut action, mut event) = unsafe { std::mem::zeroed::<(libc::sigaction, libc::sigevent)>() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_notify_thread_id = tid();
    let mut timer: libc::timer_t = std::ptr::null_mut();
    let slice = libc::timespec { tv_sec: 0, tv_nsec: SLICE_NS };
    let every = libc::itimerspec { it_interval: slice, it_value: slice };
    // SAFETY: what is pointed at is live; the handler does only what a handler may; the timer was just made.
    unsafe {
        check(libc::sigaction(signal, &raw const action, std::ptr::null_mut()))?;
        check(libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut timer))?;
        let waits = File::open(SCHEDSTAT).ok();
        let told_by = waits.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let pace = Pace { timer, _waits: waits, here: PhantomData };
        WAITS.set(Waits { told_by, until_now_ns: waited_in(told_by).unwrap_or(0), short: 0 });
        check(libc::timer_settime(timer, 0, &raw const every, std::ptr::null_mut()))?;
        Ok(Some(pace))
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        WAITS.set(Waits { told_by: -1, until_now_ns: 0, short: 0 });
        // SAFETY: the timer is ours; a signal that is on its way finds its handler.
        unsafe { libc::timer_delete(self.timer) };
    }
}

extern "C" fn rest(_: libc::c_int) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: REST_NS };
    // SAFETY: `time` is live; errno, which a sleep that is broken off sets, is the thread's own and put back.
    unsafe {
        let errno = *libc::__errno_location();
        libc::nanosleep(&raw const time, std::ptr::null_mut());
        let waits = WAITS.get();
        if let Some(now_ns) = waited_in(waits.told_by) {
            WAITS.set(Waits { until_now_ns: now_ns, ..waits });
            have_waited(now_ns.saturating_sub(waits.until_now_ns));
        }
        *libc::__errno_location() = errno;
    }
}

/// The calling thread, which has a pace, has waited so long for its last slice. What a signal may not do is not done here. Where something is refused all
/// stays as it is.
fn have_waited(ns: u64) {
    let Ok(mut attr) = attributes() else { return };
    if attr.sched_policy == libc::SCHED_IDLE as u32 {
        if ns >= LEFT_OUT_NS && attr.sched_nice <= RAISED {
            (attr.sched_policy, attr.sched_nice) = (libc::SCHED_OTHER as u32, RAISED);
            // Whether a thread may run beside others again the kernel decides by the niceness that it has now.
            // SAFETY: takes no pointers; 0 is the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, RAISED) };
            let _ = set_attributes(&attr);
        }
        return;
    }
    let waits = WAITS.get();
    let short = if attr.sched_nice != RAISED || ns > LET_IN_NS { 0 } else { waits.short + 1 };
    WAITS.set(Waits { short: short % LET_IN, ..waits });
    if short == LET_IN {
        let _ = go_by(libc::SCHED_IDLE, 0);
    }
}

/// Of the calling thread: time on a CPU, time waiting for one, turns on it; nanoseconds but for the last.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// How long the calling thread was ready to run and others had all CPUs, since it began. None: the kernel does not tell.
pub fn waited_ns() -> Option<u64> {
    waited_in(File::open(SCHEDSTAT).ok()?.as_raw_fd())
}

/// A signal may do this.
fn waited_in(schedstat: RawFd) -> Option<u64> {
    let mut text = [0; 64];
    // SAFETY: `text` has room for as many octets.
    let len = unsafe { libc::pread(schedstat, text.as_mut_ptr().cast(), text.len(), 0) };
    let mut numbers = text.get(..usize::try_from(len).ok()?)?.split(|octet| *octet == b' ');
    str::from_utf8(numbers.nth(1)?).ok()?.parse().ok()
}

/// The calling thread was put in the background, or the process was; or whoever has started it.
pub fn is_background() -> bool {
    let is_nice = |nice| nice == NICEST || nice == RAISED;
    // SAFETY: takes no pointers; 0 is the calling thread.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_IDLE || is_nice(libc::getpriority(libc::PRIO_PROCESS, 0)) }
}

/// CPUs for threads that share a short work in the background. The kernel takes a CPU that does nothing but such work for an
/// idle one, so it puts the second thread beside the first, leaves it there, and the other CPU has nothing to do. With places each
/// has a CPU of its own. That may be busy with better work all the time: so whoever finds nothing left to do takes one of the
/// others to his place, who will do the same, and none is forgotten.
pub struct Places {
    cpus: Vec<usize>,
    /// Who is at work.
    taken: Mutex<VecDeque<Tid>>,
}

impl Places {
    /// For so many threads. If there are not as many CPUs, each is where the kernel puts it.
    pub fn new(threads: usize) -> Places {
        let cpus = Some(cpus()).filter(|cpus| cpus.len() == threads).unwrap_or_default();
        Places { cpus, taken: Mutex::default() }
    }

    /// Works at a place.
    pub fn at<T>(&self, place: usize, work: impl FnOnce() -> T) -> T {
        let Some(&cpu) = self.cpus.get(place) else { return work() };
        let me = tid();
        self.taken().push_back(me);
        // Who cannot be moved works where he is.
        let _ = confine(me, &[cpu]);
        let done = work();
        let mut taken = self.taken();
        taken.retain(|&thread| thread != me);
        if let Some(other) = taken.pop_front() {
            let _ = confine(other, &[cpu]);
            taken.push_back(other);
        }
        let _ = confine(me, &self.cpus);
        done
    }

    /// Only who is in here is moved, so none that has ended.
    fn taken(&self) -> MutexGuard<'_, VecDeque<Tid>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The calling thread runs on this CPU only.
pub fn pin(cpu: usize) -> io::Result<()> {
    confine(0, &[cpu])
}

/// A thread of ours runs on these CPUs only; 0 is the calling one.
fn confine(thread: Tid, cpus: &[usize]) -> io::Result<()> {
    if let Some(cpu) = cpus.iter().find(|&&cpu| cpu >= libc::CPU_SETSIZE as usize) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no CPU {cpu}")));
    }
    let mut set = no_cpus();
    // SAFETY: each CPU is inside the set; the set is live and of the size given.
    unsafe {
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        check(libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set)).map(drop)
    }
}

/// The CPUs that the calling thread may run on; never empty.
pub fn cpus() -> Vec<usize> {
    let mut set = no_cpus();
    // SAFETY: the set is live and of the size given.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    // SAFETY: the index stays inside the set.
    let all: Vec<usize> =
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect();
    if all.is_empty() { vec![0] } else { all }
}

fn no_cpus() -> libc::cpu_set_t {
    // SAFETY: a set of bits, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Names the calling thread, as `top -H` shows it; cut to 15 octets.
pub fn name_thread(name: &str) {
    let kept: Vec<u8> = name.bytes().filter(|&b| b != 0).take(NAME_MAX).collect();
    if let Ok(name) = CString::new(kept) {
        // SAFETY: `name` is a live string.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

/// What the calling thread has had of the machine since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time; what a hypervisor keeps to itself is not in it, where that tells.
    pub ran: Duration,
    /// How often it was taken off its CPU although it wanted to go on.
    pub preempted: u64,
    /// Pages of memory that came from a disk.
    pub major_faults: u64,
}

impl Usage {
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            ran: self.ran.saturating_sub(before.ran),
            preempted: self.preempted - before.preempted,
            major_faults: self.major_faults - before.major_faults,
        }
    }
}

pub fn usage() -> Usage {
    // SAFETY: integers only, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is live.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.unsigned_abs()) + Duration::from_micros(t.tv_usec.unsigned_abs())
    };
    Usage {
        ran: time(usage.ru_utime) + time(usage.ru_stime),
        preempted: usage.ru_nivcsw.unsigned_abs(),
        major_faults: usage.ru_majflt.unsigned_abs(),
    }
}

/// Raises the limit of open files towards `want`, as far as is allowed; says what it is now. Never lowers it.
pub fn raise_open_files(want: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    let have = limit.rlim_cur;
    // Root may raise the upper limit too; everyone else ends there.
    for upper in [limit.rlim_max.max(want), limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: want.clamp(have, upper), rlim_max: upper };
        // SAFETY: `raised` is live.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return Ok(raised.rlim_cur);
        }
    }
    Ok(have)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn a_thread_is_named_pinned_and_put_in_the_background() {
        thread::spawn(|| {
            let cpu = *cpus().last().unwrap();
            pin(cpu).unwrap();
            assert_eq!(cpus(), [cpu]);
            assert!(pin(1 << 20).is_err());
            name_thread("a-name-longer-than-15");
            assert_eq!(std::fs::read_to_string("/proc/thread-self/comm").unwrap(), "a-name-longer-t\n");
            background().unwrap();
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // Fields 19 and 41, of which two stand before the name's closing bracket.
            let after: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            assert!(after[38] == libc::SCHED_IDLE.to_string() || after[16] == NICEST.to_string());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_prompt_thread_has_a_shorter_slice_and_nothing_else_changes() {
        thread::spawn(|| {
            modest().unwrap();
            let before = attributes().unwrap();
            prompt().unwrap();
            let after = attributes().unwrap();
            let kept = |a: &libc::sched_attr| (a.sched_policy, a.sched_nice, a.sched_priority, a.sched_flags);
            assert_eq!(kept(&after), kept(&before));
            // A kernel that has slices of a thread's own tells of the one that every thread has; one that has none says 0.
            let expected = if before.sched_runtime == 0 { 0 } else { PROMPT_NS };
            assert_eq!(after.sched_runtime, expected);
            background().unwrap();
            prompt().unwrap();
            assert!(is_background(), "who is in the background stays there");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn each_has_a_place_of_its_own_until_one_has_finished() {
        let (all, barrier) = (cpus(), Barrier::new(cpus().len()));
        let places = Places::new(all.len());
        let last = all.len() - 1;
        let (moved, is_moved) = channel();
        thread::scope(|scope| {
            for place in 0..all.len() {
                let (places, all, barrier, moved) = (&places, &all, &barrier, moved.clone());
                scope.spawn(move || {
                    places.at(place, || {
                        assert_eq!(cpus(), [all[place]]);
                        barrier.wait();
                        // The last one has not finished before all others have; somebody takes it along.
                        while place == last && cpus() == [all[last]] && last > 0 {
                            thread::yield_now();
                        }
                        let _ = moved.send(cpus());
                    });
                });
            }
        });
        drop(moved);
        assert_eq!(is_moved.iter().count(), all.len());
        // Nobody is left who could be moved, and who has no CPU of its own is left where it is.
        assert!(places.taken().is_empty());
        thread::scope(|scope| scope.spawn(|| Places::new(all.len() + 1).at(0, || assert_eq!(cpus(), all))).join())
            .unwrap();
    }

    fn rests() -> libc::c_long {
        // SAFETY: a structure of integers, for which zero is a value, and live.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            usage.ru_nvcsw
        }
    }

    fn work(for_ms: u64) {
        let end = usage().ran + Duration::from_millis(for_ms);
        while usage().ran < end {
            std::hint::black_box((0..1000u64).sum::<u64>());
        }
    }

    #[test]
    fn a_thread_in_the_background_works_in_slices_and_no_other_does() {
        thread::spawn(|| {
            assert!(pace().unwrap().is_none(), "not in the background");
            background().unwrap();
            let before = rests();
            work(60);
            assert_eq!(rests(), before, "without a pace it never rests by itself");
            let pace = pace().unwrap().unwrap();
            work(200);
            let rested = rests() - before;
            assert!(rested >= 10, "{rested} rests in 200 ms of work");
            drop(pace);
            let after = rests();
            work(60);
            assert!(rests() - after <= 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn who_is_left_out_in_the_background_has_a_share_until_he_is_let_in() {
        allow_priorities();
        thread::spawn(|| {
            background().unwrap();
            let told = std::env::temp_dir().join(format!("dunlin-sched-{}", std::process::id()));
            std::fs::write(&told, "0 0 0").unwrap();
            let (_pace, file) = (pace().unwrap().unwrap(), File::open(&told).unwrap());
            WAITS.set(Waits { told_by: file.as_raw_fd(), until_now_ns: 0, short: 0 });
            let mut all_ns = 0;
            // So many slices at least.
            let mut slices = |count: u64, each_ns: u64| {
                for _ in 0..count {
                    all_ns += each_ns;
                    std::fs::write(&told, format!("0 {all_ns:020} 0")).unwrap();
                    while WAITS.get().until_now_ns != all_ns {
                        work(1);
                    }
                }
            };
            let now = || (attributes().unwrap().sched_policy as libc::c_int, attributes().unwrap().sched_nice);
            let before = now();
            slices(3, LEFT_OUT_NS - 1);
            assert_eq!(now(), before);
            slices(1, LEFT_OUT_NS);
            let after = now();
            if after.0 == before.0 {
                std::fs::remove_file(&told).unwrap();
                return assert!(!is_allowed() || before != (libc::SCHED_IDLE, 0), "{after:?}");
            }
            assert_eq!(after, (libc::SCHED_OTHER, RAISED));
            assert!(is_background() && thread::spawn(is_background).join().unwrap(), "and so are its helpers");
            // One that is not awaited may come in between.
            let half = u64::from(LET_IN) / 2;
            for (count, each_ns) in [(half, LET_IN_NS), (1, LET_IN_NS + 1), (half, 1)] {
                slices(count, each_ns);
                assert_eq!(now(), after, "{count} slices, for each {each_ns} ns");
            }
            slices(2 * half, LET_IN_NS);
            assert_eq!(now().0, libc::SCHED_IDLE);
            std::fs::remove_file(&told).unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn how_long_a_thread_has_waited_is_the_second_number() {
        let second = || std::fs::read_to_string(SCHEDSTAT).unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let before: u64 = second();
        let waited = waited_ns().unwrap();
        assert!(before <= waited && waited <= second());
        assert_eq!(waited_in(-1), None);
    }

    /// Whether a thread that has become nicer may take that back.
    fn is_allowed() -> bool {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is live.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NICE, &raw mut limit) == 0 && limit.rlim_cur >= (20 - RAISED) as libc::rlim_t
        }
    }

    #[test]
    fn a_thread_has_what_it_works_itself() {
        let (before, much) = (usage(), Duration::from_millis(50));
        thread::spawn(|| work(50)).join().unwrap();
        let waited = usage().since(&before);
        assert!(waited.ran < much, "{waited:?}");
        work(50);
        let worked = usage().since(&before);
        assert!(worked.ran >= much && worked.preempted >= waited.preempted, "{worked:?}");
    }

    #[test]
    fn the_limit_of_open_files_never_falls() {
        let now = raise_open_files(0).unwrap();
        assert!(raise_open_files(now).unwrap() >= now);
        assert!(raise_open_files(1).unwrap() >= now);
    }
}
