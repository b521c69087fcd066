//! A shard: an index of fixed size over two rings of records.
//!
//! Readers look at two buckets of eight slots, ever. They copy a record word by word and then look whether the ring's
//! cursor has come past it meanwhile: a seqlock whose sequence is the cursor. They write one word of the index, and
//! only when its two bits of frequency change.
//!
//! A writer owns the shard while it works (`Writer`); who finds it owned goes away. Newcomers go to the small ring, and
//! on to the main ring if they were asked for before they reach its end; who comes back soon after having been evicted
//! goes to the main ring at once (S3-FIFO, Yang and others 2023). The work of an insert is bounded: it passes as many old
//! records as it needs words, and moves `MOVES` of them.
//!
//! ```text
//! cursors of a ring, in words since the beginning of time:      tail <= head <= reserved, reserved - tail <= capacity
//!      ... overwritten ... | tail ... records ... head | being written ... reserved |
//! ```
//!
//! `reserved` moves before a word is written, so that readers know; `head` moves after, so that a process that dies in
//! between leaves no record that is half written. A slot whose position lies outside of tail and head is empty, whatever
//! it says: nothing that a crash or a copy in motion leaves behind can be more than that.

use crate::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};
use crate::entry::Dropped;
use crate::ghost::Ghosts;
use crate::key::{HEAD as KEY_HEAD, Hasher, Key};
use crate::layout::{Layout, WAYS};
use crate::record::{self, Draft, Facts, HEAD, WORDS_MAX, WORDS_MIN};
use crate::slot::{POSITION, Slot, tag_of};
use crate::tally::{Event, Tally};

/// Records that one insert moves at most. More would keep a few more of the asked-for, and make the worst insert longer.
const MOVES: u32 = 8;
/// Words of the largest key.
const KEY_WORDS: usize = (KEY_HEAD + 255).div_ceil(8);

pub(crate) const SMALL: usize = 0;
pub(crate) const MAIN: usize = 1;

pub(crate) struct Shard {
    words: &'static [AtomicU64],
    /// Of `words`, what readers look at.
    index: &'static [AtomicU64],
    rings: [Ring<'static>; 2],
    layout: Layout,
    /// 1 while a writer is at work. Not in the memory that is handed on: a writer's life ends with its process.
    owned: AtomicU64,
    pub tally: Tally,
}

/// A ring: where it is, and its three cursors.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    words: &'a [AtomicU64],
    cursors: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    fn reserved(&self) -> &'a AtomicU64 {
        &self.cursors[0]
    }
    pub(crate) fn head(&self) -> &'a AtomicU64 {
        &self.cursors[1]
    }
    pub(crate) fn tail(&self) -> &'a AtomicU64 {
        &self.cursors[2]
    }
    pub(crate) fn capacity(&self) -> u64 {
        self.words.len() as u64
    }

    /// The words from a position to the ring's end.
    #[inline]
    pub(crate) fn from(&self, position: u64) -> &'a [AtomicU64] {
        &self.words[(position % self.capacity()) as usize..]
    }

    /// Words to be skipped so that `n` words lie in one piece.
    fn gap(&self, n: u64) -> u64 {
        let left = self.capacity() - self.head().load(Relaxed) % self.capacity();
        if left < n { left } else { 0 }
    }

    fn fits(&self, n: u64) -> bool {
        self.head().load(Relaxed) + self.gap(n) + n <= self.tail().load(Relaxed) + self.capacity()
    }

    /// The position that a slot means, if it lies between tail and head.
    fn live(&self, slot: Slot) -> Option<u64> {
        let (head, tail) = (self.head().load(Relaxed), self.tail().load(Relaxed));
        let behind = head.wrapping_sub(slot.position()) & POSITION;
        (behind != 0 && behind <= head.wrapping_sub(tail)).then(|| head.wrapping_sub(behind))
    }

    pub(crate) fn set_cursors(&self, head: u64, tail: u64) {
        for (cursor, to) in self.cursors.iter().zip([head, head, tail]) {
            // Who sees a cursor sees what was filled in before it.
            cursor.store(to, Release);
        }
    }
}

/// Where a slot stands in the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u32);

/// A record as a reader copied it: consistent, and that of the key asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    pub facts: Facts,
    pub stored_s: u32,
    /// Octets of the key before the value.
    pub key_len: usize,
}

impl Shard {
    pub(crate) fn new(words: &'static [AtomicU64], layout: Layout) -> Shard {
        let rings = [SMALL, MAIN].map(|ring| {
            let (at, len) = layout.ring(ring);
            Ring { words: &words[at..at + len], cursors: &words[3 * ring..3 * ring + 3] }
        });
        let index = &words[layout.index()..layout.ghost()];
        Shard { words, index, rings, layout, owned: AtomicU64::new(0), tally: Tally::default() }
    }

    #[inline(always)]
    pub(crate) fn ring(&self, ring: usize) -> Ring<'_> {
        self.rings[ring]
    }

    pub(crate) fn index(&self) -> &'static [AtomicU64] {
        self.index
    }

    /// Whether this word of the shard is a slot.
    pub(crate) fn is_index(&self, at: usize) -> bool {
        (self.layout.index()..self.layout.ghost()).contains(&at)
    }

    pub(crate) fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    fn ghosts(&self) -> Ghosts<'_> {
        Ghosts(&self.words[self.layout.ghost()..self.layout.ghost() + self.layout.ghosts])
    }

    /// Words that the entries of a source have in the rings.
    fn source(&self, source: usize) -> &AtomicU64 {
        &self.words[self.layout.sources() + source]
    }

    /// Where the two buckets of a hash begin in the index.
    #[inline(always)]
    fn buckets(&self, hash: u64) -> [usize; 2] {
        let reduce = |h: u32| ((u64::from(h) * self.layout.buckets as u64) >> 32) as usize;
        let first = reduce(hash as u32);
        let other = reduce((hash as u32 ^ (hash >> 32) as u32).wrapping_mul(0x9E37_79B1));
        let second = if other != first {
            other
        } else if first == 0 {
            self.layout.buckets - 1
        } else {
            first - 1
        };
        [first * WAYS, second * WAYS]
    }

    /// Fetches the two lines of the index.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.buckets(hash).iter().for_each(|&at| wire::cpu::prefetch_item(self.index, at));
    }

    /// Fetches the beginning of the record, if the index knows one; says by which slot.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) -> Option<Place> {
        let tag = tag_of(hash);
        let (at, slot) =
            self.slots(hash).map(|(at, word)| (at, Slot(word.load(Relaxed)))).find(|(_, s)| s.has_tag(tag))?;
        let ring = self.ring(slot.ring());
        let record = ring.from(self.position(&ring, slot).unwrap_or(0));
        (0..4).for_each(|line| wire::cpu::prefetch_item(record, line * WAYS));
        Some(Place(at as u32))
    }

    /// The slots in which a hash may be, and their numbers.
    #[inline(always)]
    fn slots(&self, hash: u64) -> impl Iterator<Item = (usize, &AtomicU64)> {
        let bucket = |at: usize| (at..).zip(self.index.get(at..at + WAYS).unwrap_or_default());
        self.buckets(hash).into_iter().flat_map(bucket)
    }

    /// The position that a slot means, if a reader may look there.
    #[inline]
    fn position(&self, ring: &Ring<'_>, slot: Slot) -> Option<u64> {
        // Who sees the cursors of a ring that is read back sees its records, too: else a whole one would pass for damaged.
        let reserved = ring.reserved().load(Acquire);
        let behind = reserved.wrapping_sub(slot.position()) & POSITION;
        (behind != 0 && behind <= ring.capacity()).then(|| reserved.wrapping_sub(behind))
    }

    /// Finds the key and copies key and value. Never waits, never writes but the slot's own bits.
    #[inline]
    pub(crate) fn find(&self, key: &Key<'_>, into: &mut [[u8; 8]]) -> Option<Copied> {
        let tag = tag_of(key.hash);
        // Two plain loops: as a chain of iterators this took four times as long, and a miss comes here three times.
        for bucket in self.buckets(key.hash) {
            for at in self.index.get(bucket..bucket + WAYS).unwrap_or_default() {
                if Slot(at.load(Relaxed)).has_tag(tag)
                    && let Some(found) = self.read(at, key, into)
                {
                    return Some(found);
                }
            }
        }
        None
    }

    /// The same, where it was found a moment ago.
    #[inline]
    pub(crate) fn find_at(&self, place: Place, key: &Key<'_>, into: &mut [[u8; 8]]) -> Option<Copied> {
        self.index.get(place.0 as usize).and_then(|at| self.read(at, key, into))
    }

    #[inline]
    fn read(&self, at: &AtomicU64, key: &Key<'_>, into: &mut [[u8; 8]]) -> Option<Copied> {
        let slot = Slot(at.load(Acquire));
        if !slot.has_tag(tag_of(key.hash)) {
            return None;
        }
        let (slot, (sum, copied)) = match self.copy(slot, into) {
            Some(found) => (slot, found),
            None => self.look_again(at, slot, into)?,
        };
        let octets = into.as_flattened();
        if octets.get(..KEY_HEAD)? != key.head || octets.get(KEY_HEAD..copied.key_len)? != key.name {
            return None;
        }
        if !slot.is_verified() && !self.verify(at, slot, sum, &copied, into) {
            return None;
        }
        let after = slot.after_hit();
        if after != slot {
            // A lost race costs a count of one hit.
            let _ = at.compare_exchange(slot.0, after.0, Release, Relaxed);
        }
        Some(copied)
    }

    /// A writer came past while we copied. If it has moved this very record, it is to be found elsewhere; once more is
    /// enough, and who is outrun twice asks a server.
    #[cold]
    fn look_again(&self, at: &AtomicU64, before: Slot, into: &mut [[u8; 8]]) -> Option<(Slot, (u32, Copied))> {
        let slot = Slot(at.load(Acquire));
        if (slot.ring(), slot.position()) == (before.ring(), before.position()) {
            return None;
        }
        self.copy(slot, into).map(|found| (slot, found))
    }

    /// Copies what a slot points to; its checksum comes along. None: it is no longer, or not yet, a whole record.
    #[inline]
    pub(crate) fn copy(&self, slot: Slot, into: &mut [[u8; 8]]) -> Option<(u32, Copied)> {
        let ring = self.ring(slot.ring());
        let position = self.position(&ring, slot)?;
        let record = ring.from(position);
        let [seal, facts, first] = [record.first()?, record.get(1)?, record.get(2)?].map(|word| word.load(Relaxed));
        let facts = Facts(facts);
        let name_len = first.to_le_bytes()[1] as usize;
        let words = record::words(name_len, facts.value_len());
        for (to, from) in into.get_mut(..words - HEAD)?.iter_mut().zip(record.get(HEAD..words)?) {
            *to = from.load(Relaxed).to_le_bytes();
        }
        // Whoever overwrites has moved `reserved` first, and fenced: if any word above was new, this load sees it.
        fence(Acquire);
        if ring.reserved().load(Relaxed).wrapping_sub(position) > ring.capacity() || facts.is_border() {
            return None;
        }
        let copied = Copied { facts, stored_s: (seal >> 32) as u32, key_len: KEY_HEAD + name_len };
        Some((seal as u32, copied))
    }

    /// The first look at a record that another process wrote, or a disk gave back.
    #[cold]
    fn verify(&self, at: &AtomicU64, slot: Slot, sum: u32, copied: &Copied, into: &[[u8; 8]]) -> bool {
        let is_whole = sum_of(copied, into) == sum;
        if !is_whole && self.forget(at, slot) {
            self.tally.count_shared(Event::Damaged);
        }
        is_whole
    }

    /// Copies what a slot points to, whatever its key, if it is what was stored.
    pub(crate) fn copy_verified(&self, slot: Slot, into: &mut [[u8; 8]]) -> Option<Copied> {
        let (sum, copied) = self.copy(slot, into)?;
        let is_whole = slot.is_verified() || sum == sum_of(&copied, into);
        is_whole.then_some(copied)
    }

    /// Empties a slot that still says this.
    pub(crate) fn forget(&self, at: &AtomicU64, slot: Slot) -> bool {
        let is_so = at.compare_exchange(slot.0, Slot::EMPTY.0, Relaxed, Relaxed).is_ok();
        if is_so {
            self.tally.removed();
        }
        is_so
    }

    /// The shard to write in. None: somebody else writes.
    pub(crate) fn own(&self) -> Option<Writer<'_>> {
        // Only who got it may make a `Writer`: dropping one gives the shard back.
        self.owned.compare_exchange(0, 1, Acquire, Relaxed).ok().map(|_| Writer { shard: self })
    }

    /// Nobody is to write here until `give_back`.
    pub(crate) fn keep_owned(&self) {
        self.owned.store(1, Relaxed);
    }

    pub(crate) fn give_back(&self) {
        self.owned.store(0, Release);
    }

    /// Makes the shard empty. Only while nobody else has it.
    pub(crate) fn clear(&self) {
        self.words[..self.layout.ring(SMALL).0].iter().for_each(|word| word.store(0, Relaxed));
        self.tally.set_entries(0);
        self.empty_rings();
    }

    /// Cursors begin at the capacity, so that no position is before the beginning.
    pub(crate) fn empty_rings(&self) {
        for ring in [SMALL, MAIN] {
            let capacity = self.ring(ring).capacity();
            self.ring(ring).set_cursors(capacity, capacity);
        }
    }

    /// Goes on with the cursors that another process left: what it was writing when it ended is gone. False if they make
    /// no sense.
    pub(crate) fn resume(&self) -> bool {
        let rings = [SMALL, MAIN].map(|ring| self.ring(ring));
        let cursors = rings.map(|ring| (ring.head().load(Relaxed), ring.tail().load(Relaxed)));
        let make_sense = rings.iter().zip(cursors).all(|(ring, (head, tail))| ring.could_have(tail, head));
        if make_sense {
            rings.iter().zip(cursors).for_each(|(ring, (head, tail))| ring.set_cursors(head, tail));
        }
        make_sense
    }

    /// Counts the entries that another process left, empties the slots that mean none, and has every record looked at
    /// before it is believed. By whoever owns the shard, while readers read.
    pub(crate) fn settle(&self) {
        let mut entries = 0;
        for at in self.index() {
            let slot = Slot(at.load(Relaxed));
            if slot == Slot::EMPTY {
                continue;
            }
            let is_live = self.ring(slot.ring()).live(slot).is_some();
            entries += u64::from(is_live);
            at.store(if is_live { slot.unverified().0 } else { 0 }, Relaxed);
        }
        self.tally.set_entries(entries);
    }
}

/// The one that writes in a shard; gives it back when dropped.
pub(crate) struct Writer<'a> {
    shard: &'a Shard,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.shard.give_back();
    }
}

/// What stands at the tail of a ring.
enum Oldest {
    Record {
        position: u64,
        words: u64,
        facts: Facts,
        hash: u64,
    },
    /// Nothing more up to this position.
    Gap(u64),
}

impl<'a> Writer<'a> {
    /// Stores a record. `share`: words that one source may have once the shard is full.
    pub(crate) fn insert(&self, key: &Key<'_>, draft: &Draft<'_>, hasher: &Hasher, share: u64) -> Result<(), Dropped> {
        let n = draft.words() as u64;
        if n > self.shard.ring(SMALL).capacity() / 2 || n > WORDS_MAX as u64 {
            return Err(Dropped::TooLarge);
        }
        let before = self.place_of(key);
        let ring = self.ring_for(key.hash, draft.facts.source(), before.map(|(_, slot)| slot), n, share);
        let mut work = Work { moves: MOVES, share, hasher };
        self.make_room(ring, n, &mut work);
        let position = self.reserve(ring, n);
        self.write(ring, position, draft);
        let frequency = before.map_or(0, |(_, slot)| slot.frequency());
        // What was not there is not there now: nobody else writes here.
        let place = before.and_then(|_| self.place_of(key)).map(|(at, _)| at);
        self.put(key.hash, Slot::new(key.hash, ring, position, frequency), place);
        Ok(())
    }

    /// Until main has been full once there is nothing to choose: everybody goes there. Then newcomers start in small,
    /// except who was evicted lately, and who takes the place of what stands in main. A source that has its share stays
    /// in small.
    fn ring_for(&self, hash: u64, source: usize, before: Option<Slot>, n: u64, share: u64) -> usize {
        let main = self.shard.ring(MAIN);
        if main.tail().load(Relaxed) == main.capacity() && main.fits(2 * n) {
            return MAIN;
        }
        let came_back = self.shard.ghosts().forget(hash);
        let has_proven = came_back || before.is_some_and(|slot| slot.ring() == MAIN);
        if has_proven && self.shard.source(source).load(Relaxed) <= share { MAIN } else { SMALL }
    }

    /// Evicts and moves until `n` words fit in the ring.
    fn make_room(&self, ring: usize, n: u64, work: &mut Work<'_>) {
        while !self.shard.ring(ring).fits(n) {
            let oldest = self.oldest(ring, work.hasher);
            self.pass(ring, oldest, work);
        }
    }

    /// Looks at the tail. What makes no sense as a record (a process died, a disk lied) is a gap.
    fn oldest(&self, ring: usize, hasher: &Hasher) -> Oldest {
        let ring = self.shard.ring(ring);
        let (tail, head) = (ring.tail().load(Relaxed), ring.head().load(Relaxed));
        let record = ring.from(tail);
        let gap = Oldest::Gap((tail + record.len() as u64).min(head));
        if record.len() < WORDS_MIN {
            return gap;
        }
        let facts = Facts(record[1].load(Relaxed));
        let name_len = record[HEAD].load(Relaxed).to_le_bytes()[1] as usize;
        let words = record::words(name_len, facts.value_len());
        if facts.is_border() || words > record.len() || words as u64 > head - tail {
            return gap;
        }
        let mut octets = [[0; 8]; KEY_WORDS];
        key_octets(record, name_len, &mut octets);
        match hasher.key_of(octets.as_flattened()) {
            Some(key) => Oldest::Record { position: tail, words: words as u64, facts, hash: key.hash },
            None => gap,
        }
    }

    /// Takes the oldest out of its ring: it is moved on if somebody asked for it, and evicted if not.
    fn pass(&self, ring: usize, oldest: Oldest, work: &mut Work<'_>) {
        let (position, words, facts, hash) = match oldest {
            Oldest::Gap(to) => return self.shard.ring(ring).tail().store(to, Relaxed),
            Oldest::Record { position, words, facts, hash } => (position, words, facts, hash),
        };
        let held = self.shard.source(facts.source());
        let is_over = held.load(Relaxed) > work.share;
        let place = self.place_at(hash, ring, position);
        let asked_for = place.filter(|(_, slot)| slot.frequency() > 0 && !is_over && work.moves > 0);
        if asked_for.is_some() {
            work.moves -= 1;
            if ring == SMALL {
                self.make_room(MAIN, words, work);
            }
        }
        self.shard.ring(ring).tail().store(position + words, Relaxed);
        if let Some((at, slot)) = asked_for
            && self.shard.ring(MAIN).fits(words)
        {
            return self.move_on(at, slot, ring, position, words, hash);
        }
        held.store(held.load(Relaxed).saturating_sub(words), Relaxed);
        if let Some((at, slot)) = place {
            self.evict(at, slot, ring, hash, is_over);
        }
    }

    fn evict(&self, at: &AtomicU64, slot: Slot, ring: usize, hash: u64, is_over: bool) {
        if Slot(at.swap(Slot::EMPTY.0, AcqRel)) == Slot::EMPTY {
            // A sweep has emptied it just now, and counted that.
            return;
        }
        let why = match ring {
            _ if is_over => Event::EvictedShare,
            _ if slot.frequency() > 0 => Event::EvictedBusy,
            SMALL => Event::EvictedSmall,
            _ => Event::EvictedMain,
        };
        self.shard.tally.count(why);
        self.shard.tally.removed();
        if ring == SMALL && !is_over {
            self.shard.ghosts().remember(hash);
        }
    }

    /// Copies a record to the head of main, then lets its slot say so. The old one stays readable meanwhile, unless
    /// main is so full that the two overlap.
    fn move_on(&self, at: &AtomicU64, slot: Slot, from: usize, position: u64, words: u64, hash: u64) {
        let to = self.reserve(MAIN, words);
        let (old, new) = (self.shard.ring(from).from(position), self.shard.ring(MAIN).from(to));
        for (old, new) in old.iter().zip(new).take(words as usize) {
            new.store(old.load(Relaxed), Relaxed);
        }
        self.shard.ring(MAIN).head().store(to + words, Release);
        let frequency = if from == MAIN { slot.frequency() - 1 } else { 0 };
        let moved = Slot::new(hash, MAIN, to, frequency);
        let mut now = slot;
        // A reader may have counted a hit, or a sweep have emptied the slot: what was swept must not come back.
        while now.points_to(hash, from, position) {
            let next = if now.is_verified() { moved } else { moved.unverified() };
            match at.compare_exchange(now.0, next.0, Release, Relaxed) {
                Ok(_) => return self.shard.tally.count(Event::Moved),
                Err(other) => now = Slot(other),
            }
        }
    }

    /// Claims `n` words at the head of a ring; there is room. Returns their position.
    fn reserve(&self, ring: usize, n: u64) -> u64 {
        let ring = self.shard.ring(ring);
        let (head, gap) = (ring.head().load(Relaxed), ring.gap(n));
        ring.reserved().store(head + gap + n, Relaxed);
        // Readers that see any word written from here on see `reserved` moved, too.
        fence(Release);
        if let Some(facts) = ring.from(head).get(1).filter(|_| gap > 0) {
            facts.store(Facts::BORDER.0, Relaxed);
        }
        head + gap
    }

    fn write(&self, ring: usize, position: u64, draft: &Draft<'_>) {
        let ring = self.shard.ring(ring);
        let record = ring.from(position);
        let rest = record.get(HEAD..draft.words()).unwrap_or_default();
        let seal = draft.seal(rest.iter().zip(draft.rest()).map(|(at, word)| {
            at.store(word, Relaxed);
            word
        }));
        if let [first, facts, ..] = record {
            facts.store(draft.facts.0, Relaxed);
            first.store(seal, Relaxed);
        }
        ring.head().store(position + draft.words() as u64, Release);
        let held = self.shard.source(draft.facts.source());
        held.store(held.load(Relaxed) + draft.words() as u64, Relaxed);
    }

    /// Points a slot to the new record: the one that its key has, else an empty one of the emptier bucket, else that of
    /// the entry asked for least.
    fn put(&self, hash: u64, new: Slot, of_key: Option<&AtomicU64>) {
        let tally = &self.shard.tally;
        if let Some(at) = of_key {
            self.point(at, new);
            return tally.count(Event::Replaced);
        }
        tally.count(Event::Stored);
        let buckets = self.shard.buckets(hash);
        let (mut most, mut free) = (0, None);
        // Plain loops, as in `Shard::find`.
        for (before, bucket) in [0, WAYS].into_iter().zip(buckets) {
            let (mut n, mut first) = (0, None);
            for (way, at) in self.shard.index.get(bucket..bucket + WAYS).unwrap_or_default().iter().enumerate() {
                if !self.is_live(at) {
                    n += 1;
                    first = first.or(Some((before + way, at)));
                }
            }
            if n > most {
                (most, free) = (n, first);
            }
        }
        if let Some((place, at)) = free {
            self.point(at, new);
            return tally.looked_at(place + 1);
        }
        let places = self.shard.slots(hash).map(|(_, at)| at).enumerate();
        if let Some((place, at)) = places.min_by_key(|(_, at)| Slot(at.load(Relaxed)).frequency()) {
            self.point(at, new);
            tally.count(Event::EvictedIndex);
            tally.looked_at(place + 1);
        }
    }

    /// Whether that is one entry more says what stood there last: a sweep may have emptied the slot since it was looked at.
    fn point(&self, at: &AtomicU64, to: Slot) {
        if Slot(at.swap(to.0, AcqRel)) == Slot::EMPTY {
            self.shard.tally.added();
        }
    }

    fn is_live(&self, at: &AtomicU64) -> bool {
        let slot = Slot(at.load(Relaxed));
        slot != Slot::EMPTY && self.shard.ring(slot.ring()).live(slot).is_some()
    }

    /// The slot of a hash that is the one wanted. Plain loops, as in `Shard::find`.
    fn place(&self, hash: u64, is_wanted: impl Fn(Slot) -> bool) -> Option<(&'static AtomicU64, Slot)> {
        let (index, tag) = (self.shard.index, tag_of(hash));
        for bucket in self.shard.buckets(hash) {
            for at in index.get(bucket..bucket + WAYS).unwrap_or_default() {
                let slot = Slot(at.load(Acquire));
                if slot.has_tag(tag) && is_wanted(slot) {
                    return Some((at, slot));
                }
            }
        }
        None
    }

    /// The slot that points to this very place.
    fn place_at(&self, hash: u64, ring: usize, position: u64) -> Option<(&'static AtomicU64, Slot)> {
        self.place(hash, |slot| slot.points_to(hash, ring, position))
    }

    /// The slot of a key.
    fn place_of(&self, key: &Key<'_>) -> Option<(&'static AtomicU64, Slot)> {
        self.place(key.hash, |slot| self.holds(slot, key))
    }

    fn holds(&self, slot: Slot, key: &Key<'_>) -> bool {
        let ring = self.shard.ring(slot.ring());
        let Some(position) = ring.live(slot) else { return false };
        let mut octets = [[0; 8]; KEY_WORDS];
        key_octets(ring.from(position), key.name.len(), &mut octets);
        let octets = octets.as_flattened();
        octets[..KEY_HEAD] == key.head && octets[KEY_HEAD..].get(..key.name.len()) == Some(key.name)
    }
}

/// What an insert has left to do, and by which rules.
struct Work<'a> {
    moves: u32,
    share: u64,
    hasher: &'a Hasher,
}

/// The checksum of a record as it was copied.
fn sum_of(copied: &Copied, octets: &[[u8; 8]]) -> u32 {
    let words = record::words(copied.key_len - KEY_HEAD, copied.facts.value_len()) - HEAD;
    record::checksum(copied.stored_s, copied.facts, octets.iter().take(words).map(|word| u64::from_le_bytes(*word)))
}

/// Copies the octets of a record's key.
fn key_octets(record: &[AtomicU64], name_len: usize, into: &mut [[u8; 8]; KEY_WORDS]) {
    let words = (KEY_HEAD + name_len).div_ceil(8);
    for (to, from) in into.iter_mut().zip(record.iter().skip(HEAD)).take(words) {
        *to = from.load(Relaxed).to_le_bytes();
    }
}
