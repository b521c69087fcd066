//! The first words of the memory: what it is, whose, and what all readers look at on every hit.
//!
//! ```text
//!   0 format, words, shards, words of a shard, buckets, ghosts, small, main | 8 key | 10 checksum of these
//!  16 boot, seconds since it, wall clock, cache time: when last stamped | 20 fingerprint of what governs
//!  21 fingerprint of whom names are asked of
//!  64 generation | 65 cache time less seconds since boot | 66 doubtful before | 67 flushes under way | 68 latest time
//! 128 flushes
//! ```
//!
//! The cache's time counts seconds and never goes back: it is never less than the latest that was seen. Within one boot
//! it goes with CLOCK_BOOTTIME, which also counts sleep; over a restart of the machine with the wall clock. When either
//! went back, the time that passed is unknown: it counts as none, and what was stored before lives on for 30 seconds at
//! most, counted from the last time it happened.

use crate::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::entry::DOUBTFUL_TTL;
use crate::layout::{FORMAT, HEADER, Layout};
use crate::record::{Facts, checksum};

const KEY: usize = 8;
const SUM: usize = 10;
const STAMP: usize = 16;
const FINGERPRINT: usize = 20;
const SOURCES: usize = 21;
const HOT: usize = 64;
const LATEST: usize = HOT + 4;
pub(crate) const FLUSHES: usize = 128;
/// By how much a clock may seem to have gone back without being doubted, in seconds: threads read it a moment apart,
/// and a machine sets its clock by whole seconds when it starts.
const SKEW_S: u64 = 2;
/// Where time begins: far enough from zero that nothing subtracted from it goes below.
const EPOCH: u64 = 1 << 24;

/// What the clocks show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Which boot of the machine this is: a hash of the kernel's boot id.
    pub boot: u64,
    /// CLOCK_BOOTTIME, in seconds.
    pub boot_s: u64,
    /// Seconds since 1970.
    pub wall_s: u64,
}

/// Why a memory or a snapshot is of no use; the cache starts empty then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Nothing was ever stored there, or it is something else.
    NotACache,
    /// Written by a version of another format.
    OtherFormat,
    /// Another size, or made for entries of another size.
    OtherSize,
    Damaged,
    /// The memory is too small for any cache.
    TooSmall,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unusable::NotACache => "it holds no cache",
            Unusable::OtherFormat => "it was written by a version of another format",
            Unusable::OtherSize => "it was made for another cache.size",
            Unusable::Damaged => "its header is damaged",
            Unusable::TooSmall => "the memory is too small for a cache",
        })
    }
}

/// What every probe reads: one line that hardly anybody ever writes.
#[derive(Clone, Copy)]
pub(crate) struct Hot {
    pub generation: u32,
    /// What was stored before this moment is doubtful.
    pub doubtful_before: u32,
    pub flushes: u64,
    pub latest_s: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Header(pub &'static [AtomicU64]);

impl Header {
    fn word(&self, at: usize) -> u64 {
        self.0[at].load(Relaxed)
    }
    fn set(&self, at: usize, to: u64) {
        self.0[at].store(to, Relaxed);
    }

    pub(crate) fn format(&self, layout: &Layout, key: [u8; 16], at: Moment) {
        self.0[..HEADER].iter().for_each(|word| word.store(0, Relaxed));
        let numbers = numbers(layout);
        (0..).zip(numbers).for_each(|(i, n)| self.set(i, n));
        let (halves, _) = key.as_chunks::<8>();
        (KEY..).zip(halves).for_each(|(i, half)| self.set(i, u64::from_le_bytes(*half)));
        self.set(SUM, self.sum());
        self.set(HOT, 1);
        self.anchor(at, EPOCH);
    }

    fn sum(&self) -> u64 {
        u64::from(checksum(0, Facts(0), (0..SUM).map(|i| self.word(i))))
    }

    /// Whether this is the header of a cache of this layout.
    pub(crate) fn check(&self, layout: &Layout) -> Result<(), Unusable> {
        match self.word(0) {
            FORMAT => {}
            format if format >> 32 == FORMAT >> 32 => return Err(Unusable::OtherFormat),
            _ => return Err(Unusable::NotACache),
        }
        if self.word(SUM) != self.sum() {
            return Err(Unusable::Damaged);
        }
        let same = (0..).zip(numbers(layout)).all(|(i, n)| self.word(i) == n);
        if same { Ok(()) } else { Err(Unusable::OtherSize) }
    }

    pub(crate) fn key(&self) -> [u8; 16] {
        (u128::from(self.word(KEY)) | u128::from(self.word(KEY + 1)) << 64).to_le_bytes()
    }

    #[inline]
    pub(crate) fn hot(&self) -> Hot {
        Hot {
            generation: self.word(HOT) as u32,
            doubtful_before: self.word(HOT + 2) as u32,
            flushes: self.word(HOT + 3),
            latest_s: self.word(LATEST) as u32,
        }
    }

    /// Who sees it sees what was published before it began.
    pub(crate) fn generation(&self) -> u32 {
        self.0[HOT].load(Acquire) as u32
    }

    pub(crate) fn next_generation(&self) -> u32 {
        self.0[HOT].fetch_add(1, Release).wrapping_add(1) as u32
    }

    /// True if it was another before.
    pub(crate) fn set_fingerprint(&self, fingerprint: u64) -> bool {
        self.0[FINGERPRINT].swap(fingerprint, Relaxed) != fingerprint
    }

    /// True if they were others before.
    pub(crate) fn set_sources(&self, fingerprint: u64) -> bool {
        self.0[SOURCES].swap(fingerprint, Relaxed) != fingerprint
    }

    pub(crate) fn count_flushes(&self, flushes: u64) {
        self.set(HOT + 3, flushes);
    }

    /// The cache's time.
    #[inline]
    pub(crate) fn time(&self, boot_s: u64) -> u32 {
        boot_s.wrapping_add(self.word(HOT + 1)) as u32
    }

    /// From here on, `at` is the cache time `time`.
    fn anchor(&self, at: Moment, time: u64) {
        self.set(HOT + 1, time.wrapping_sub(at.boot_s));
        (STAMP..).zip([at.boot, at.boot_s, at.wall_s, time]).for_each(|(i, n)| self.set(i, n));
        self.note_time(time as u32);
    }

    /// Goes on from what was stamped last, whoever did it and however long ago.
    pub(crate) fn resume(&self, at: Moment) {
        let [boot, boot_s, wall_s, time] = [0, 1, 2, 3].map(|i| self.word(STAMP + i));
        // Entries may have been stored since the last stamp.
        let time = (time as u32).max(self.word(LATEST) as u32);
        let (then, shown) = if boot == at.boot { (boot_s, at.boot_s) } else { (wall_s, at.wall_s) };
        let since = (shown + SKEW_S).checked_sub(then).map(|since| since.saturating_sub(SKEW_S));
        match since.map(|since| self.word(STAMP + 3).saturating_add(since).min(u64::from(u32::MAX >> 1))) {
            Some(now) if now + SKEW_S >= u64::from(time) => self.anchor(at, now.max(u64::from(time))),
            _ => {
                self.set(HOT + 2, u64::from(time) + 1);
                self.anchor(at, u64::from(time));
            }
        }
    }

    /// Moves the cache's time a second beyond all that was stored so far; returns the second before. By one thread at
    /// a time.
    pub(crate) fn begin_second(&self, now_s: u32) -> u32 {
        let moment_s = now_s.max(self.latest());
        let ahead = u64::from(moment_s + 1 - now_s);
        self.set(HOT + 1, self.word(HOT + 1).wrapping_add(ahead));
        self.set(STAMP + 3, self.word(STAMP + 3) + ahead);
        self.note_time(moment_s + 1);
        moment_s
    }

    pub(crate) fn latest(&self) -> u32 {
        self.word(LATEST) as u32
    }

    /// It is, or was said to be, this late. Written once a second at most.
    #[inline]
    pub(crate) fn note_time(&self, now_s: u32) {
        if now_s > self.latest() {
            self.set(LATEST, u64::from(now_s));
        }
    }
}

impl Hot {
    /// When an entry ends, and the most that may be said to be left of it until then.
    #[inline]
    pub(crate) fn end(&self, stored_s: u32, ttl_s: u32) -> (u32, u32) {
        let end = stored_s.saturating_add(ttl_s);
        if stored_s < self.doubtful_before {
            (end.min(self.doubtful_before.saturating_add(DOUBTFUL_TTL)), DOUBTFUL_TTL)
        } else {
            (end, u32::MAX)
        }
    }
}

fn numbers(l: &Layout) -> [u64; 8] {
    let sizes = [l.words, l.shards, l.shard_words, l.buckets, l.ghosts, l.small, l.main].map(|n| n as u64);
    [FORMAT, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6]]
}
