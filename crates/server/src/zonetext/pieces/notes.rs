//! What is noted of a long text while it is read: of each of its pieces what tells it from others, and whose records it
//! holds. Of this `pieces` are made.
//!
//! Bound: `OCTETS_MAX`; a text of which more would be noted is one of which nothing is known.

use super::cutting::Cutting;
use std::ops::Range;
use wire::hash::{name_below, name_hash};
use wire::name::{NAME_MAX, fold};

/// What is noted of one zone: 8 octets for each owner. A registry's zone of 150 million records takes less.
const OCTETS_MAX: usize = 512 << 20;

/// A piece of a text, and how many owners there are of what it holds: those of records that stand apart count anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    pub hash: u64,
    pub octets: u32,
    pub owners: u32,
}

/// How names of a zone are told from one another.
#[derive(Clone, Copy)]
pub struct Hashing<'a> {
    apex: &'a [u8],
    /// The apex's hash.
    above: u64,
}

impl<'a> Hashing<'a> {
    pub fn new(seed: u64, apex: &'a [u8]) -> Hashing<'a> {
        Hashing { apex, above: name_hash(seed, apex) }
    }

    /// Of a name at or below the apex: as an image's index has it.
    #[inline]
    pub fn owner(&self, name: &[u8]) -> u64 {
        let below = name.len() - self.apex.len();
        let mut folded = [0; NAME_MAX + 8];
        folded[..below].copy_from_slice(&name[..below]);
        fold(&mut folded[..below]);
        name_below(self.above, &folded, below)
    }
}

/// Of a part of a text on its way.
pub struct Notes<'a> {
    hashing: Hashing<'a>,
    /// The owner of the last record, as it was written; empty where a piece begins.
    owner: Vec<u8>,
    /// Owners of the piece at hand.
    open: u32,
    pub pieces: Vec<Noted>,
    /// Hashes, little-endian.
    pub owners: Vec<u8>,
    /// More was there than is noted.
    pub is_full: bool,
}

impl<'a> Notes<'a> {
    pub fn new(hashing: Hashing<'a>) -> Notes<'a> {
        Notes { hashing, owner: vec![], open: 0, pieces: vec![], owners: vec![], is_full: false }
    }

    /// A record of the zone.
    #[inline]
    pub fn record(&mut self, r: &zonefile::Record<'_>) {
        if self.owner != r.owner {
            self.owner.clear();
            self.owner.extend_from_slice(r.owner);
            self.owners.extend_from_slice(&self.hashing.owner(r.owner).to_le_bytes());
            self.open += 1;
        }
    }

    /// A piece has been read.
    pub fn end_piece(&mut self, text: &[u8], piece: &Range<usize>, cutting: &Cutting) {
        let octets = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        let noted = Noted { hash: cutting.hash(text, piece), octets, owners: self.open };
        self.is_full |= octets == u32::MAX || self.owners.len() > OCTETS_MAX;
        if self.is_full {
            (self.pieces, self.owners) = (vec![], vec![]);
        } else {
            self.pieces.push(noted);
        }
        self.owner.clear();
        self.open = 0;
    }
}
