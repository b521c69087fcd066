//! The pieces that a long text was cut into when it was read, with whose records they hold: so that of another text of the
//! same zone only those pieces are parsed that are others, and those that hold records of the same owners.
//!
//! ```text
//! a new text, cut and hashed
//!   pieces that were there, in the same order        unchanged
//!   the others, and old ones that are no more        their owners are those that may be others now
//!   unchanged pieces that hold one of these owners   read as well: then all is known of each
//! ```
//!
//! They hold for one version of a zone: that of which the apex stands at a certain place of an image (a version that is laid over
//! it stands elsewhere). Whoever has another version has nothing in them.
//!
//! Bound: what `notes` lets pass, mapped; 32 octets a piece, and what has changed, in memory; and while texts are compared, the
//! owners of `UNLIKE_MAX` octets.

pub mod cutting;
pub mod file;
pub mod notes;

use cutting::Cutting;
use image::{Kept, Spill, Zone as ImageZone};
use notes::{Noted, Notes};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use wire::hash::name_hash;
use zonefile::Surroundings;

/// Octets of pieces that are others, or no more, beyond which all of the text is read: their owners are in memory.
const UNLIKE_MAX: usize = 64 << 20;

/// Owners of a text that was read as a whole, however they are kept.
pub trait Base: Send + Sync {
    /// Hashes, one piece's behind another's.
    fn owners(&self) -> &[[u8; 8]];
    /// False: they are not what was noted.
    fn is_sound(&self) -> bool {
        true
    }
    fn is_in_memory(&self) -> bool {
        false
    }
}

#[derive(Clone)]
pub struct Pieces {
    pub cutting: Cutting,
    /// What holds from the second piece on.
    pub inside: Surroundings,
    /// Where the apex stands in the version that they are of; 0: they are of none.
    pub apex: u32,
    pub list: Vec<Piece>,
    pub base: Arc<dyn Base>,
}

#[derive(Clone)]
pub struct Piece {
    pub hash: u64,
    pub octets: u32,
    pub owners: Owners,
}

/// Where a piece's owners are.
#[derive(Clone)]
pub enum Owners {
    /// In the base: the first, and how many.
    Base(u64, u32),
    Own(Arc<[u64]>),
}

/// What was noted, in memory.
struct Held(Vec<u8>);

impl Base for Held {
    fn owners(&self) -> &[[u8; 8]] {
        self.0.as_chunks().0
    }

    fn is_in_memory(&self) -> bool {
        true
    }
}

/// What was noted, in a file without a name.
struct Outside(Kept);

impl Base for Outside {
    fn owners(&self) -> &[[u8; 8]] {
        (*self.0).as_ref().as_chunks().0
    }
}

/// The pieces of a list, with the places of their owners in a base.
pub fn placed(list: impl Iterator<Item = Noted>) -> Vec<Piece> {
    let mut at = 0;
    let place = |noted: Noted| {
        let owners = Owners::Base(at, noted.owners);
        at += u64::from(noted.owners);
        Piece { hash: noted.hash, octets: noted.octets, owners }
    };
    list.map(place).collect()
}

impl Pieces {
    /// From what was noted of the parts of a text, in their order; `inside` holds behind each piece. None: it was too much.
    pub fn of(notes: Vec<Notes<'_>>, cutting: Cutting, inside: Surroundings) -> Option<Pieces> {
        if notes.iter().any(|notes| notes.is_full) {
            return None;
        }
        let list = placed(notes.iter().flat_map(|notes| notes.pieces.iter().copied()));
        let mut owners = notes.into_iter().map(|notes| notes.owners);
        let mut all = owners.next()?;
        owners.for_each(|mut more| all.append(&mut more));
        Some(Pieces { cutting, inside, apex: 0, list, base: Arc::new(Held(all)) })
    }

    /// True if they are of this version of the zone.
    pub fn are_of(&self, zone: &ImageZone<'_>) -> bool {
        zone.seed() == self.cutting.seed && place_of(zone) == Some(self.apex) && self.base.is_sound()
    }

    /// They are of this version.
    pub fn now_of(self, zone: &ImageZone<'_>) -> Option<Pieces> {
        Some(Pieces { apex: place_of(zone)?, ..self })
    }

    /// The same with less in memory, if there is room elsewhere.
    pub fn put_away(mut self, spill: &dyn Spill) -> Pieces {
        let octets = self.base.owners().as_flattened();
        if self.base.is_in_memory()
            && let Ok(kept) = spill.keep(&mut octets.chunks(1 << 20).map(<[u8]>::to_vec))
        {
            self.base = Arc::new(Outside(kept));
        }
        self
    }

    fn each_owner(&self, piece: &Piece, mut see: impl FnMut(u64) -> bool) -> bool {
        match &piece.owners {
            Owners::Own(owners) => owners.iter().any(|&owner| see(owner)),
            Owners::Base(at, n) => {
                let at = usize::try_from(*at).unwrap_or(usize::MAX);
                let owners = at.checked_add(*n as usize).and_then(|end| self.base.owners().get(at..end));
                owners.unwrap_or(&[]).iter().any(|&owner| see(u64::from_le_bytes(owner)))
            }
        }
    }
}

fn place_of(zone: &ImageZone<'_>) -> Option<u32> {
    zone.apex().ok().map(|apex| apex.reference())
}

/// A new text beside the pieces that are known.
pub struct Beside<'p> {
    known: &'p Pieces,
    /// The pieces of the new text, each with its hash, and the number of the known one that it is.
    new: Vec<(Range<usize>, u64, Option<u32>)>,
}

/// Owners, to be found quickly among many that are none of them.
pub struct Candidates {
    owners: HashSet<u64>,
    /// A bit for each of their hashes, shortened: most others are told by it.
    bits: Vec<u64>,
}

/// With 60,000 candidates, of 64 owners that are none about one has to be looked for.
const BITS: u32 = 22;

impl Candidates {
    fn new(owners: HashSet<u64>) -> Candidates {
        let mut bits = vec![0u64; 1 << (BITS - 6)];
        for owner in &owners {
            let (word, bit) = Candidates::place(*owner);
            bits[word] |= bit;
        }
        Candidates { owners, bits }
    }

    fn place(owner: u64) -> (usize, u64) {
        let at = (owner >> (64 - BITS)) as usize;
        (at / 64, 1 << (at % 64))
    }

    #[inline]
    pub fn has(&self, owner: u64) -> bool {
        let (word, bit) = Candidates::place(owner);
        self.bits[word] & bit != 0 && self.owners.contains(&owner)
    }

    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.owners.iter().copied()
    }
}

impl<'p> Beside<'p> {
    /// None: too much is another.
    pub fn of(known: &'p Pieces, text: &[u8]) -> Option<Beside<'p>> {
        let cut = known.cutting.pieces(text).map(|piece| (known.cutting.hash(text, &piece), piece));
        let mut new: Vec<_> = cut.map(|(hash, piece)| (piece, hash, None)).collect();
        let mut old: HashMap<(u64, usize), Vec<u32>> = HashMap::new();
        for (number, piece) in (0..).zip(&known.list) {
            old.entry((piece.hash, piece.octets as usize)).or_default().push(number);
        }
        // Of pieces that are alike the first ones go together. Backwards, because the last number is had without moving others.
        let mut same: Vec<(usize, u32)> = vec![];
        old.values_mut().for_each(|numbers| numbers.reverse());
        for (i, (piece, hash, _)) in new.iter().enumerate() {
            let number = old.get_mut(&(*hash, piece.len())).and_then(Vec::pop);
            same.extend(number.map(|number| (i, number)));
        }
        for (i, number) in in_order(&same) {
            new[i].2 = Some(number);
        }
        let beside = Beside { known, new };
        let gone: usize = beside.gone().map(|piece| piece.octets as usize).sum();
        let come: usize = beside.unknown().map(|piece| piece.len()).sum();
        (gone.max(come) <= UNLIKE_MAX.min(text.len() / 2)).then_some(beside)
    }

    /// Pieces that were not there.
    pub fn unknown(&self) -> impl Iterator<Item = &Range<usize>> {
        self.new.iter().filter(|new| new.2.is_none()).map(|new| &new.0)
    }

    /// Pieces that are no more.
    fn gone(&self) -> impl Iterator<Item = &Piece> {
        let mut is_there = vec![false; self.known.list.len()];
        self.new.iter().filter_map(|new| new.2).for_each(|number| is_there[number as usize] = true);
        self.known.list.iter().zip(is_there).filter(|(_, is_there)| !is_there).map(|(piece, _)| piece)
    }

    /// Whose records may be others, of `apex` in any case; `notes`: of the pieces that were not there.
    pub fn candidates(&self, notes: &Notes<'_>, apex: &[u8]) -> Candidates {
        let mut owners = HashSet::new();
        for piece in self.gone() {
            self.known.each_owner(piece, |owner| {
                owners.insert(owner);
                false
            });
        }
        owners.extend(notes.owners.as_chunks().0.iter().map(|owner| u64::from_le_bytes(*owner)));
        owners.insert(name_hash(self.known.cutting.seed, apex));
        Candidates::new(owners)
    }

    /// The pieces that hold records of candidates, in the order of the text.
    pub fn with(&self, candidates: &Candidates) -> Vec<Range<usize>> {
        let holds_one = |number: &u32| {
            let piece = &self.known.list[*number as usize];
            self.known.each_owner(piece, |owner| candidates.has(owner))
        };
        let is_wanted = |new: &&(Range<usize>, u64, Option<u32>)| new.2.as_ref().is_none_or(holds_one);
        self.new.iter().filter(is_wanted).map(|new| new.0.clone()).collect()
    }

    /// The pieces of the new text.
    pub fn pieces(self, notes: &Notes<'_>) -> Option<Pieces> {
        let mut at = 0;
        let mut unknown = notes.pieces.iter().map(|piece| {
            let owners = notes.owners.as_chunks().0.iter().skip(at).take(piece.owners as usize);
            at += piece.owners as usize;
            owners.map(|owner| u64::from_le_bytes(*owner)).collect::<Arc<[u64]>>()
        });
        let list = self.new.iter().map(|(piece, hash, number)| {
            let owners = match number {
                Some(number) => self.known.list[*number as usize].owners.clone(),
                None => Owners::Own(unknown.next()?),
            };
            Some(Piece { hash: *hash, octets: u32::try_from(piece.len()).ok()?, owners })
        });
        let list = list.collect::<Option<Vec<_>>>()?;
        Some(Pieces { list, ..self.known.clone() })
    }
}

/// The most of these pairs, which are in the order of their first numbers, that are in the order of the second ones too.
fn in_order(pairs: &[(usize, u32)]) -> Vec<(usize, u32)> {
    // By length: the last pair of the chain of that length that ends with the least number; and what comes before each pair.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (vec![], vec![]);
    for (i, pair) in pairs.iter().enumerate() {
        let len = ends.partition_point(|&end| pairs[end].1 < pair.1);
        before.push(len.checked_sub(1).map(|len| ends[len]));
        match ends.get_mut(len) {
            Some(end) => *end = i,
            None => ends.push(i),
        }
    }
    let mut chain: Vec<_> = std::iter::successors(ends.last().copied(), |&i| before[i]).map(|i| pairs[i]).collect();
    chain.reverse();
    chain
}
