//! Whom the small ring evicted lately: fingerprints, so that who comes back is known.
//!
//! Bound: a table of fixed size; a word holds the four latest fingerprints of the hashes that fall to it, the oldest
//! drops out. A wrong recognition (one in 16,000) costs a stranger's place in the main ring.

use crate::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Clone, Copy)]
pub(crate) struct Ghosts<'a>(pub &'a [AtomicU64]);

impl<'a> Ghosts<'a> {
    fn word(&self, hash: u64) -> (&'a AtomicU64, u64) {
        let spread = (hash >> 20) as u32;
        let at = (u64::from(spread) * self.0.len() as u64) >> 32;
        (&self.0[at as usize], (hash & 0xFFFF).max(1))
    }

    pub(crate) fn remember(self, hash: u64) {
        let (word, print) = self.word(hash);
        word.store(word.load(Relaxed) << 16 | print, Relaxed);
    }

    /// True if it was remembered; it no longer is.
    pub(crate) fn forget(self, hash: u64) -> bool {
        let (word, print) = self.word(hash);
        let prints = word.load(Relaxed);
        let Some(at) = (0..64).step_by(16).find(|at| prints >> at & 0xFFFF == print) else { return false };
        let below = prints & ((1 << at) - 1);
        let above = prints >> at >> 16 << at;
        word.store(above | below, Relaxed);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_four_are_remembered_once() {
        let words = [AtomicU64::new(0)];
        let ghosts = Ghosts(&words);
        (1..=5).for_each(|hash| ghosts.remember(hash));
        assert_eq!(
            [3, 1, 3, 5, 2, 4, 4].map(|hash| ghosts.forget(hash)),
            [true, false, false, true, true, true, false]
        );
        assert_eq!(words[0].load(Relaxed), 0);
    }
}
