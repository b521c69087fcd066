//! Who goes before whom (docs/decisions/0013).
#![allow(unsafe_code)]

use super::{RAISED, attributes, cpus, go_by, set_attributes};
use std::io;

/// Who goes before whom, and all of them before threads that have no such priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Carries out updates, or writes their journal.
    Updates = 1,
    /// Answers streams.
    Streams = 2,
    /// Answers datagrams.
    Datagrams = 3,
    /// Watches over those who answer, and hardly runs.
    Watch = 4,
}

/// How much is too much for a thread to go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    /// It is full when it is at work for so many tenths of its time.
    tenths: u64,
    /// So long it may be full before it gives way.
    full_max_ns: u64,
    /// At the next look it goes first again, whatever it has to do, and may be full for as long.
    comes_back: bool,
}

impl Rank {
    /// `cpus`: how many there are.
    fn limits(self, cpus: usize) -> Limits {
        match self {
            // He is one, and leaves others all CPUs but his. With the usual priority he waits for them, and seems full for as long as they are there: so he gives way
            // for a moment only. He has to: of each second the kernel keeps a twentieth for others, and stops whoever leaves them less.
            Rank::Updates if cpus > 1 => Limits { tenths: 9, full_max_ns: 500_000_000, comes_back: true },
            _ => Limits { tenths: 8, full_max_ns: WEIGHED_EVERY_NS, comes_back: false },
        }
    }
}

/// The process may let threads go first, and have those in the background run beside others, also when it is another user's later. For root; others have
/// been given that, or not.
pub fn allow_priorities() {
    allow(libc::RLIMIT_RTPRIO, Rank::Watch as libc::rlim_t);
    // As the kernel counts: niceness 19 is 1.
    allow(libc::RLIMIT_NICE, (20 - RAISED) as libc::rlim_t);
}

fn allow(what: libc::__rlimit_resource_t, want: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live.
    if unsafe { libc::getrlimit(what, &raw mut limit) } != 0 || limit.rlim_cur >= want {
        return;
    }
    for upper in [limit.rlim_max.max(want), limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: want.min(upper), rlim_max: upper };
        // SAFETY: `raised` is live.
        if unsafe { libc::setrlimit(what, &raw const raised) } == 0 {
            return;
        }
    }
}

/// How often it is looked at how much a thread that goes first has to do.
const WEIGHED_EVERY_NS: u64 = 100_000_000;

/// The calling thread goes before all others (SCHED_RR) as long as it sleeps between its turns: when it wakes it waits for nobody's slice,
/// and nobody who wakes takes the CPU from it in the midst of an answer. With a shorter slice alone it waits up to 4 ms, now and then, even
/// at nice -20. One that has more to do than its CPU can shares that by the usual priorities, until this is over, or (see `Limits`) for a moment.
pub struct Precedence {
    rank: Rank,
    limits: Limits,
    usual: libc::sched_attr,
    is_first: bool,
    /// When it was looked at last, and how long its turns have taken since.
    since_ns: u64,
    busy_ns: u64,
    /// How long it has been full, while it goes first.
    full_ns: u64,
}

impl Precedence {
    /// None: that is not allowed, or somebody has chosen another priority for this thread, nicer than the usual one.
    pub fn take(rank: Rank, now_ns: u64) -> Option<Precedence> {
        let (usual, limits, since_ns) = (usual()?, rank.limits(cpus().len()), now_ns);
        let mut taken = Precedence { rank, limits, usual, is_first: false, since_ns, busy_ns: 0, full_ns: 0 };
        taken.go(true).is_ok().then_some(taken)
    }

    /// A turn is over that took so long; ten times a second it is looked at how long they have taken. What others had of the CPU meanwhile, or the host, is
    /// in it, unless the caller leaves it out: one who is full goes from turn to turn without sleep, whoever else is there.
    #[inline]
    pub fn weigh(&mut self, took_ns: u64, now_ns: u64) {
        self.busy_ns += took_ns;
        if now_ns.saturating_sub(self.since_ns) >= WEIGHED_EVERY_NS {
            self.weigh_all(now_ns);
        }
    }

    #[cold]
    fn weigh_all(&mut self, now_ns: u64) {
        let (time_ns, busy_ns) = (now_ns - self.since_ns, self.busy_ns);
        (self.since_ns, self.busy_ns) = (now_ns, 0);
        let Limits { tenths, full_max_ns, comes_back } = self.limits;
        let is_first = if self.is_first {
            self.full_ns = if busy_ns * 10 < time_ns * tenths { 0 } else { self.full_ns + time_ns };
            self.full_ns < full_max_ns
        } else {
            // Once it goes first again it may be full anew: it has to catch up.
            self.full_ns = 0;
            busy_ns * 2 < time_ns || comes_back
        };
        if is_first != self.is_first {
            // Refused, it stays as it is until it is looked at again.
            let _ = self.go(is_first);
        }
    }

    fn go(&mut self, is_first: bool) -> io::Result<()> {
        // Somebody may have changed that since; it holds beneath the other priority.
        // SAFETY: takes no pointers; 0 is the calling thread.
        self.usual.sched_nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        match is_first {
            true if self.usual.sched_nice > 0 => return Err(io::ErrorKind::PermissionDenied.into()),
            true => real_time(self.rank)?,
            false => set_attributes(&self.usual)?,
        }
        self.is_first = is_first;
        Ok(())
    }
}

/// The calling thread, which hardly runs, goes before all others. False: as in `Precedence::take`.
pub fn watch_over() -> bool {
    usual().is_some() && real_time(Rank::Watch).is_ok()
}

/// By the call that sandboxes look at (`RestrictRealtime=` of systemd).
fn real_time(rank: Rank) -> io::Result<()> {
    go_by(libc::SCHED_RR, rank as libc::c_int)
}

/// None: somebody has chosen how the calling thread is scheduled, or that it is nicer than usual.
fn usual() -> Option<libc::sched_attr> {
    attributes().ok().filter(|attr| attr.sched_policy == libc::SCHED_OTHER as u32 && attr.sched_nice <= 0)
}

#[cfg(test)]
mod tests {
    use super::super::{NICE, background, modest, prompt};
    use super::*;
    use crate::sys::check;
    use std::thread;

    fn taken_where_allowed(rank: Rank) -> Option<Precedence> {
        let before = attributes().unwrap();
        let is_allowed = usual().is_some() && real_time(rank).is_ok();
        set_attributes(&before).unwrap();
        let taken = Precedence::take(rank, 0);
        assert_eq!(taken.is_some(), is_allowed);
        taken
    }

    /// Two turns, which take so many hundredths of the time since the last look; then the next one.
    fn look(precedence: &mut Precedence, now_ns: &mut u64, busy: u64) {
        for _ in 0..2 {
            *now_ns += WEIGHED_EVERY_NS / 2;
            precedence.weigh(busy * WEIGHED_EVERY_NS / 200, *now_ns);
        }
    }

    #[test]
    fn who_carries_out_updates_gives_way_for_a_moment_when_he_is_full_for_half_a_second() {
        allow_priorities();
        thread::spawn(|| {
            let Some(mut precedence) = taken_where_allowed(Rank::Updates) else { return };
            assert_eq!([1, 2, 64].map(|cpus| Rank::Datagrams.limits(cpus)), [Rank::Updates.limits(1); 3]);
            precedence.limits = Rank::Updates.limits(2);
            let is_first = || attributes().unwrap().sched_policy as libc::c_int == libc::SCHED_RR;
            let full = [(100, true), (90, true), (100, true), (100, true), (90, false)];
            let steps = [
                &[(0, true), (89, true), (100, true), (100, true), (100, true), (100, true), (89, true)][..],
                &full,
                &[(100, true)],
                &full,
                &[(49, true), (100, true), (100, true), (100, true), (89, true)],
                &full,
                &[(0, true)],
            ];
            let mut now_ns = 0;
            for (number, &(busy, is_expected)) in steps.concat().iter().enumerate() {
                look(&mut precedence, &mut now_ns, busy);
                assert_eq!(is_first(), is_expected, "{number}: {busy}");
            }
            // One turn may take as long as it wants, and tells as much.
            now_ns += 3_000_000_000;
            precedence.weigh(3_000_000_000, now_ns);
            assert!(!is_first());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn whoever_is_started_by_one_that_goes_first_is_modest_all_the_same() {
        allow_priorities();
        let modest_child = || thread::spawn(|| modest().map(|()| attributes().unwrap())).join().unwrap().unwrap();
        thread::spawn(move || {
            let Some(_precedence) = taken_where_allowed(Rank::Updates) else { return };
            let child = modest_child();
            assert_eq!((child.sched_policy as libc::c_int, child.sched_nice), (libc::SCHED_OTHER, NICE));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_goes_first_as_long_as_it_sleeps_between_its_turns() {
        allow_priorities();
        thread::spawn(|| {
            prompt().unwrap();
            let before = attributes().unwrap();
            let shape = |a: &libc::sched_attr| (a.sched_policy, a.sched_nice, a.sched_priority, a.sched_runtime);
            let Some(mut precedence) = taken_where_allowed(Rank::Datagrams) else {
                return assert_eq!(shape(&attributes().unwrap()), shape(&before));
            };
            let now = || (attributes().unwrap().sched_policy as libc::c_int, attributes().unwrap().sched_priority);
            let first = (libc::SCHED_RR, Rank::Datagrams as u32);
            assert_eq!(now(), first);
            // How long two turns take of the hundred milliseconds before, and how it goes on.
            let mut now_ns = 0;
            for (busy, is_first) in
                [(0, true), (79, true), (80, false), (60, false), (50, false), (49, true), (100, false), (0, true)]
            {
                look(&mut precedence, &mut now_ns, busy);
                assert_eq!(now() == first, is_first, "{busy}");
                if !is_first {
                    assert_eq!(shape(&attributes().unwrap()), shape(&before), "{busy}");
                }
            }
            // Whoever is made nicer meanwhile gives way, and stays so.
            // SAFETY: takes no pointers; 0 is the calling thread.
            check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) }).unwrap();
            assert_eq!(now(), first);
            for busy in [100, 0] {
                look(&mut precedence, &mut now_ns, busy);
                let now = attributes().unwrap();
                assert_eq!((now.sched_policy, now.sched_nice), (before.sched_policy, NICE), "{busy}");
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn who_was_made_nicer_does_not_go_first() {
        allow_priorities();
        for make in [modest, background] {
            thread::spawn(move || {
                make().unwrap();
                assert!(Precedence::take(Rank::Streams, 0).is_none() && !watch_over());
                assert_ne!(attributes().unwrap().sched_policy, libc::SCHED_RR as u32);
            })
            .join()
            .unwrap();
        }
    }
}
