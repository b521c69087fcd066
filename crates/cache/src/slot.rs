//! A slot of the index: one word that says where an entry stands and how often it was asked for.
//!
//! ```text
//! tag 20 | verified 1 | frequency 2 | ring 1 | position 40        0: empty
//! ```
//!
//! The position counts words from the beginning of time, modulo 2^40; the place in the ring is its remainder.

const POSITION_BITS: u32 = 40;
pub(crate) const POSITION: u64 = (1 << POSITION_BITS) - 1;
const RING: u64 = 1 << POSITION_BITS;
const ONE: u64 = 1 << (POSITION_BITS + 1);
const FREQUENCY: u64 = 3 * ONE;
/// Its record's checksum was compared since this process has the memory.
const VERIFIED: u64 = 1 << (POSITION_BITS + 3);
const TAG: u64 = !((1 << (POSITION_BITS + 4)) - 1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub u64);

impl Slot {
    pub(crate) const EMPTY: Slot = Slot(0);

    #[inline]
    pub(crate) fn new(hash: u64, ring: usize, position: u64, frequency: u64) -> Slot {
        let frequency = frequency.min(3) * ONE;
        let ring = if ring == 0 { 0 } else { RING };
        Slot(tag_of(hash) | VERIFIED | frequency | ring | (position & POSITION))
    }

    #[inline(always)]
    pub(crate) fn has_tag(self, tag: u64) -> bool {
        (self.0 ^ tag) & TAG == 0
    }

    #[inline]
    pub(crate) fn ring(self) -> usize {
        usize::from(self.0 & RING != 0)
    }

    #[inline]
    pub(crate) fn position(self) -> u64 {
        self.0 & POSITION
    }

    /// Where a record of this hash, ring and position is meant, whatever else the slot says.
    #[inline]
    pub(crate) fn points_to(self, hash: u64, ring: usize, position: u64) -> bool {
        (self.0 ^ Slot::new(hash, ring, position, 0).0) & !(FREQUENCY | VERIFIED) == 0
    }

    pub(crate) fn frequency(self) -> u64 {
        (self.0 & FREQUENCY) / ONE
    }

    pub(crate) fn is_verified(self) -> bool {
        self.0 & VERIFIED != 0
    }

    pub(crate) fn unverified(self) -> Slot {
        Slot(self.0 & !VERIFIED)
    }

    /// What the slot says after a hit. The same value once it is asked for often: then nothing is written.
    #[inline]
    pub(crate) fn after_hit(self) -> Slot {
        let asked = if self.0 & FREQUENCY == FREQUENCY { self.0 } else { self.0 + ONE };
        Slot(asked | VERIFIED)
    }
}

/// The tag bits of a hash, in their place; never none, so that no slot in use is 0.
#[inline(always)]
pub(crate) fn tag_of(hash: u64) -> u64 {
    let tag = hash << 12 & TAG;
    if tag == 0 { !TAG + 1 } else { tag }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_what_it_is_given() {
        for hash in [0, u64::MAX, 0x1234_5678_9ABC_DEF0] {
            for ring in 0..2 {
                for position in [0, 7, POSITION, POSITION + 1] {
                    let slot = Slot::new(hash, ring, position, 2);
                    assert_ne!(slot, Slot::EMPTY);
                    assert!(slot.has_tag(tag_of(hash)) && slot.points_to(hash, ring, position));
                    assert_eq!((slot.ring(), slot.position(), slot.frequency()), (ring, position & POSITION, 2));
                    assert_eq!(slot.after_hit().after_hit().after_hit().frequency(), 3);
                    assert!(!slot.unverified().is_verified() && slot.unverified().after_hit().is_verified());
                }
            }
        }
    }
}
