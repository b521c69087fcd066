//! The cache as a stream of octets, and back: what a background thread writes to disk while everybody goes on.
//!
//! ```text
//! header 1024 words, their checksum | shard | shard | ...
//! shard: 8 words: number, head and tail of small and of main, 0, 0, checksum of these
//!        sources | index | ghosts | what lies between tail and head of small, of main
//!        4 words: tail of small and of main at the end, 0, checksum of these
//! ```
//!
//! Nobody is stopped for it. `head` is read before a shard is copied and `tail` after: what lies between them was whole
//! the whole time. The index may point elsewhere by then; such slots are empty. Every record is compared with its
//! checksum when it is first looked at, so a stream that was cut short or damaged gives back fewer entries, never wrong
//! ones. (The words that sources have are off by what was evicted meanwhile, some kilobytes.)

use crate::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, fence};
use crate::header::{Header, Moment, Unusable};
use crate::layout::{HEADER, Layout};
use crate::record::{Facts, checksum};
use crate::shard::{MAIN, Ring, SMALL, Shard};
use crate::slot::Slot;
use crate::store::{Cache, Config};
use std::ops::Range;

/// Octets that begin a snapshot, and that `Restore::begin` wants.
pub const HEADER_OCTETS: usize = 8 * (HEADER + 1);
/// Words before and after a shard.
const BEFORE: usize = 8;
const AFTER: usize = 4;

fn sum(words: &[u64]) -> u64 {
    u64::from(checksum(0, Facts(0), words.iter().copied()))
}

/// Whether the last word is the checksum of the others.
fn is_whole(words: &[u64]) -> bool {
    words.split_last().is_some_and(|(last, words)| *last == sum(words))
}

/// A snapshot that is being taken.
#[derive(Default)]
pub struct Snapshot {
    /// The next shard to be begun.
    shard: usize,
    has_header: bool,
    /// What is still to be copied of the shard before, in words of the shard.
    pieces: Pieces,
}

/// Places in a shard's words, one after the other; done from the end.
#[derive(Default)]
struct Pieces(Vec<Range<usize>>);

impl Pieces {
    /// All that a snapshot has of a shard, between the cursors given.
    fn of(layout: &Layout, windows: [Range<u64>; 2]) -> Pieces {
        let ghosts_end = layout.ghost() + layout.ghosts;
        let parts = [layout.sources()..layout.index(), layout.index()..layout.ghost(), layout.ghost()..ghosts_end];
        let mut pieces = parts.to_vec();
        for (ring, window) in windows.into_iter().enumerate() {
            let (at, capacity) = layout.ring(ring);
            let from = (window.start % capacity as u64) as usize;
            let len = (window.end - window.start) as usize;
            let first = len.min(capacity - from);
            pieces.extend([at + from..at + from + first, at..at + len - first]);
        }
        pieces.reverse();
        Pieces(pieces)
    }

    fn is_done(&self) -> bool {
        self.0.iter().all(Range::is_empty)
    }

    /// The next words, at most so many.
    fn take(&mut self, words: usize) -> Range<usize> {
        while self.0.last().is_some_and(Range::is_empty) {
            self.0.pop();
        }
        let Some(piece) = self.0.last_mut() else { return 0..0 };
        let taken = piece.start..piece.end.min(piece.start + words);
        piece.start = taken.end;
        taken
    }
}

impl Snapshot {
    /// Appends the next piece, of about `words` words. False: it was the last.
    pub fn next(&mut self, cache: &Cache, words: usize, out: &mut Vec<u8>) -> bool {
        if !self.has_header {
            self.has_header = true;
            append_with_sum(cache.header.0[..HEADER].iter().map(|word| word.load(Relaxed)).collect(), out);
        }
        if self.pieces.is_done() {
            return self.begin_shard(cache, out);
        }
        let Some(shard) = self.shard.checked_sub(1).and_then(|number| cache.shards.get(number)) else { return false };
        let mut left = words.max(1);
        while left > 0 && !self.pieces.is_done() {
            let taken = self.pieces.take(left);
            left -= taken.len();
            shard.words()[taken].iter().for_each(|word| out.extend_from_slice(&word.load(Relaxed).to_le_bytes()));
        }
        if self.pieces.is_done() {
            // A writer that overwrote any word copied above had moved `tail` first.
            fence(Acquire);
            append_with_sum(vec![tail(shard, SMALL), tail(shard, MAIN), 0], out);
        }
        !self.pieces.is_done() || self.shard < cache.shards.len()
    }

    fn begin_shard(&mut self, cache: &Cache, out: &mut Vec<u8>) -> bool {
        let Some(shard) = cache.shards.get(self.shard) else { return false };
        let windows = [SMALL, MAIN].map(|ring| {
            let head = shard.ring(ring).head().load(Acquire);
            tail(shard, ring).min(head)..head
        });
        let [small, main] = &windows;
        append_with_sum(vec![self.shard as u64, small.end, small.start, main.end, main.start, 0, 0], out);
        self.pieces = Pieces::of(&cache.layout, windows);
        self.shard += 1;
        true
    }
}

fn tail(shard: &Shard, ring: usize) -> u64 {
    shard.ring(ring).tail().load(Relaxed)
}

fn append_with_sum(mut words: Vec<u64>, out: &mut Vec<u8>) {
    words.push(sum(&words));
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// A snapshot that is being read back, while the cache is used already: a shard is there once it has been read. Until
/// then nothing can be stored in it.
pub struct Restore {
    part: Part,
    /// Octets of a word, or words of a part, that are not whole yet.
    octets: Vec<u8>,
    /// Shards that are not there yet.
    waiting: Range<usize>,
}

enum Part {
    Before,
    Body(Pieces, [u64; 2]),
    After([u64; 2]),
    /// No more is read.
    Over,
}

impl Restore {
    /// A cache in `memory`, whatever was there, with the secrets, the time and the generation of a snapshot that begins
    /// with `header`.
    pub fn begin(
        memory: &'static [AtomicU64],
        config: &Config,
        now: Moment,
        header: &[u8; HEADER_OCTETS],
    ) -> Result<(Cache, Restore), Unusable> {
        memory.iter().skip(HEADER).for_each(|word| word.store(0, Relaxed));
        Restore::begin_zeros(memory, config, now, header)
    }

    /// The same in memory that is all zeros, as the system gives it: a few pages are touched, and questions can be asked.
    pub fn begin_zeros(
        memory: &'static [AtomicU64],
        config: &Config,
        now: Moment,
        header: &[u8; HEADER_OCTETS],
    ) -> Result<(Cache, Restore), Unusable> {
        let layout = Layout::of(memory.len(), config.entry_bytes).ok_or(Unusable::TooSmall)?;
        let words: Vec<u64> = header.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let there = Header(memory);
        there.0.iter().zip(&words[..HEADER]).for_each(|(to, word)| to.store(*word, Relaxed));
        there.check(&layout)?;
        if !is_whole(&words) {
            return Err(Unusable::Damaged);
        }
        there.resume(now);
        let cache = Cache::over(there, layout, config);
        for shard in &cache.shards {
            shard.empty_rings();
            shard.keep_owned();
        }
        let waiting = 0..cache.shards.len();
        Ok((cache, Restore { part: Part::Before, octets: vec![], waiting }))
    }

    /// The next octets of the stream. False: no more is of use, for it was all there, or it is damaged from here on.
    pub fn feed(&mut self, cache: &Cache, octets: &[u8]) -> bool {
        let mut rest = octets;
        while !rest.is_empty() && !matches!(self.part, Part::Over) {
            let used = match &mut self.part {
                Part::Body(pieces, heads) if self.octets.is_empty() && rest.len() >= 8 => {
                    let heads = *heads;
                    let used = fill(&cache.shards[self.waiting.start], pieces, rest);
                    if pieces.is_done() {
                        self.part = Part::After(heads);
                    }
                    used
                }
                _ => self.collect(cache, rest),
            };
            rest = &rest[used.min(rest.len())..];
        }
        !matches!(self.part, Part::Over)
    }

    /// Gathers octets until a part of fixed size, or a word of the body, is whole. Returns how many it took.
    fn collect(&mut self, cache: &Cache, rest: &[u8]) -> usize {
        let wanted = match self.part {
            Part::Before => 8 * BEFORE,
            Part::After(_) => 8 * AFTER,
            Part::Body(..) => 8,
            Part::Over => return rest.len(),
        };
        let taken = rest.len().min(wanted - self.octets.len());
        self.octets.extend_from_slice(&rest[..taken]);
        if self.octets.len() == wanted {
            let octets = std::mem::take(&mut self.octets);
            let words: Vec<u64> = octets.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            let part = std::mem::replace(&mut self.part, Part::Over);
            self.part = self.next_part(cache, part, &octets, &words).unwrap_or(Part::Over);
        }
        taken
    }

    /// What follows a part that is whole. None: it makes no sense.
    fn next_part(&mut self, cache: &Cache, part: Part, octets: &[u8], words: &[u64]) -> Option<Part> {
        let shard = cache.shards.get(self.waiting.start)?;
        match part {
            Part::Before => {
                let [number, small_head, small_tail, main_head, main_tail, ..] = *words else { return None };
                let windows = [small_tail..small_head, main_tail..main_head];
                let makes_sense = |ring: usize, w: &Range<u64>| shard.ring(ring).could_have(w.start, w.end);
                let all = is_whole(words)
                    && number == self.waiting.start as u64
                    && windows.iter().enumerate().all(|(ring, window)| makes_sense(ring, window));
                all.then(|| Part::Body(Pieces::of(&cache.layout, windows), [small_head, main_head]))
            }
            Part::Body(mut pieces, heads) => {
                fill(shard, &mut pieces, octets);
                Some(if pieces.is_done() { Part::After(heads) } else { Part::Body(pieces, heads) })
            }
            Part::After(heads) => {
                if !is_whole(words) {
                    return None;
                }
                for (ring, head) in heads.into_iter().enumerate() {
                    // All of it was overwritten while it was copied: then nothing is left of that ring.
                    shard.ring(ring).set_cursors(head, (*words.get(ring)?).min(head));
                }
                if shard.resume() {
                    shard.settle();
                } else {
                    shard.clear();
                }
                shard.give_back();
                self.waiting.start += 1;
                Some(if self.waiting.is_empty() { Part::Over } else { Part::Before })
            }
            Part::Over => None,
        }
    }

    /// What did not come stays empty. Returns how many shards that is; to be called once, when there is no more to feed.
    pub fn end(self, cache: &Cache) -> usize {
        let missing = self.waiting.len();
        for shard in cache.shards.get(self.waiting).unwrap_or_default() {
            shard.clear();
            shard.give_back();
        }
        missing
    }
}

/// Puts whole words into their places; returns how many octets were used.
fn fill(shard: &Shard, pieces: &mut Pieces, octets: &[u8]) -> usize {
    let (words, _) = octets.as_chunks::<8>();
    let mut rest = words;
    while !rest.is_empty() && !pieces.is_done() {
        let taken = pieces.take(rest.len());
        let (now, later) = rest.split_at(taken.len());
        let is_index = shard.is_index(taken.start);
        let places = shard.words()[taken].iter().zip(now).map(|(to, word)| (to, u64::from_le_bytes(*word)));
        if is_index {
            // Readers are there already: nothing is to be believed before it was compared with its checksum.
            places.for_each(|(to, word)| to.store(Slot(word).unverified().0, Relaxed));
        } else {
            places.for_each(|(to, word)| to.store(word, Relaxed));
        }
        rest = later;
    }
    8 * (words.len() - rest.len())
}

impl Ring<'_> {
    /// Whether these could be cursors of this ring.
    pub(crate) fn could_have(&self, tail: u64, head: u64) -> bool {
        tail >= self.capacity() && tail <= head && head - tail <= self.capacity() && head >> 62 == 0
    }
}
