//! Flushes that are under way: from now on nothing they mean is found; a sweep empties its slots in the background.
//!
//! Bound: `FLUSHES_MAX` names. They stand in the memory of the cache, so that a process that takes it over, or reads a
//! snapshot, goes on. When one more is wanted, everything is flushed instead.
//!
//! A flush has a moment. What was stored up to it is meant, and the cache's time goes on to the next second with it: so
//! what comes in after a flush, even at once, is found.

use crate::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};
use crate::header::{FLUSHES, Header};
use wire::name::is_at_or_below;

const FLUSHES_MAX: usize = 16;
const NAME_WORDS: usize = 32;
/// Sequence, moment, length and extent, name.
const WORDS: usize = 3 + NAME_WORDS;

/// How much of the tree a flush means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What is stored of this name.
    Name,
    /// And of all names below it.
    Tree,
}

pub(crate) struct Flushes(pub Header);

impl Flushes {
    fn places(&self) -> impl Iterator<Item = &'static [AtomicU64]> {
        self.0.0[FLUSHES..].chunks_exact(WORDS).take(FLUSHES_MAX)
    }

    /// True if an entry of this name, stored then, is meant by a flush.
    #[cold]
    pub(crate) fn mean(&self, name: &[u8], stored_s: u32) -> bool {
        self.places().any(|place| means(place, name, stored_s))
    }

    /// Begins a flush. Called by one thread at a time.
    pub(crate) fn begin(&self, name: &[u8], extent: Extent, moment_s: u32) {
        let free = self.places().find(|place| place[0].load(Relaxed) == 0);
        let sequence = self.sequence() + 1;
        match free {
            Some(place) => set(place, sequence, name, extent, moment_s),
            None => {
                self.places().skip(1).for_each(|place| place[0].store(0, Release));
                self.places().take(1).for_each(|place| set(place, sequence, &[0], Extent::Tree, moment_s));
            }
        }
        self.count();
    }

    /// The number of the last flush that began; 0: none is under way.
    pub(crate) fn sequence(&self) -> u64 {
        self.places().map(|place| place[0].load(Relaxed)).max().unwrap_or(0)
    }

    /// Everything that the flushes up to this one mean has been swept.
    pub(crate) fn end(&self, sequence: u64) {
        self.places().filter(|p| p[0].load(Relaxed) <= sequence).for_each(|p| p[0].store(0, Release));
        self.count();
    }

    fn count(&self) {
        let flushes = self.places().filter(|place| place[0].load(Relaxed) != 0).count();
        self.0.count_flushes(flushes as u64);
    }
}

fn set(place: &[AtomicU64], sequence: u64, name: &[u8], extent: Extent, moment_s: u32) {
    let name = name.get(..255).unwrap_or(name);
    place[0].store(0, Relaxed);
    fence(Release);
    place[1].store(u64::from(moment_s), Relaxed);
    place[2].store(name.len() as u64 | (extent as u64) << 8, Relaxed);
    for (word, octets) in place[3..].iter().zip(name.chunks(8)) {
        let octets = octets.iter().rev();
        word.store(octets.fold(0, |word, octet| word << 8 | u64::from(*octet)), Relaxed);
    }
    place[0].store(sequence, Release);
}

fn means(place: &[AtomicU64], name: &[u8], stored_s: u32) -> bool {
    let sequence = place[0].load(Acquire);
    if sequence == 0 {
        return false;
    }
    let (moment_s, about) = (place[1].load(Relaxed) as u32, place[2].load(Relaxed));
    let mut octets = [[0; 8]; NAME_WORDS];
    octets.iter_mut().zip(&place[3..]).for_each(|(to, word)| *to = word.load(Relaxed).to_le_bytes());
    fence(Acquire);
    if place[0].load(Relaxed) != sequence {
        // It changed while we read. Who is in doubt does not give out.
        return true;
    }
    let meant = &octets.as_flattened()[..(about & 0xFF) as usize];
    let is_meant = if about >> 8 == 0 { name == meant } else { is_at_or_below(name, meant) };
    stored_s <= moment_s && is_meant
}
