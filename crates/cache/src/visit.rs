//! Going through everything that is stored, a slice at a time: for looking, and for sweeping away what a flush means.
//!
//! It reads as any reader does, and disturbs nobody. What moves meanwhile keeps its slot, so nothing is passed over.

use crate::atomic::Ordering::Acquire;
use crate::entry::{Hit, Scratch};
use crate::flush::{Extent, Flushes};
use crate::key::{HEAD as KEY_HEAD, Kind, Variant};
use crate::record::GENERATIONS;
use crate::slot::{Slot, tag_of};
use crate::store::Cache;
use crate::tally::Event;

/// How far a visit has come. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    shard: usize,
    slot: usize,
}

/// An entry as a visit sees it.
#[derive(Clone, Copy, Debug)]
pub struct Visited<'s> {
    pub kind: Kind,
    pub variant: Variant,
    /// Folded.
    pub name: &'s [u8],
    pub rtype: u16,
    /// What a probe would give. None: it would find nothing, for the entry has ended, is of another generation, flushed,
    /// or in a slot that a damaged snapshot has spoilt.
    pub hit: Option<Hit<'s>>,
}

/// A sweep that is under way; the default is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sweep {
    progress: Progress,
    /// The flushes that this pass began after.
    upto: u64,
}

impl Cache {
    /// Looks at `slots` slots from where `progress` says. False: that was the end.
    pub fn visit(
        &self,
        progress: &mut Progress,
        slots: usize,
        now_s: u32,
        scratch: &mut Scratch,
        look: &mut dyn FnMut(&Visited<'_>),
    ) -> bool {
        let Some(shard) = self.shards.get(progress.shard) else { return false };
        let rest = shard.index().iter().skip(progress.slot).take(slots);
        let mut seen = 0;
        for at in rest {
            seen += 1;
            let slot = Slot(at.load(Acquire));
            if slot != Slot::EMPTY
                && let Some(visited) = self.read(progress.shard, slot, now_s, scratch)
            {
                look(&visited);
            }
        }
        progress.slot += seen;
        if seen < slots {
            *progress = Progress { shard: progress.shard + 1, slot: 0 };
        }
        progress.shard < self.shards.len()
    }

    fn read<'s>(&self, shard: usize, slot: Slot, now_s: u32, scratch: &'s mut Scratch) -> Option<Visited<'s>> {
        let copied = self.shards[shard].copy_verified(slot, &mut scratch.words)?;
        let hot = self.header.hot();
        let octets = scratch.words.as_flattened();
        let name = octets.get(KEY_HEAD..copied.key_len)?;
        let kind = *Kind::ALL.get(usize::from(octets[0] >> 2))?;
        let variant = Variant::from_bits(octets[0]);
        let rtype = u16::from_be_bytes([octets[2], octets[3]]);
        let is_current = copied.facts.generation() == hot.generation % GENERATIONS;
        let is_flushed = hot.flushes != 0 && Flushes(self.header).mean(name, copied.stored_s);
        let is_its_slot = slot.has_tag(tag_of(self.key(self.hash(name), name, rtype, kind, variant).hash));
        let found = is_current && !is_flushed && is_its_slot;
        let hit = if found { self.judge(&copied, &hot, now_s, scratch) } else { None };
        Some(Visited { kind, variant, name, rtype, hit })
    }

    /// Forgets what is stored of a name (folded), or of it and all below. At once, as far as answers go; `sweep` then
    /// empties the slots.
    pub fn flush(&self, folded: &[u8], extent: Extent, now_s: u32) {
        let _one_at_a_time = self.flushing();
        Flushes(self.header).begin(folded, extent, self.header.begin_second(now_s));
    }

    /// Goes on with the background's part of flushes, `slots` slots at a time. False: nothing is left to be done.
    pub fn sweep(&self, sweep: &mut Sweep, slots: usize, scratch: &mut Scratch) -> bool {
        let flushes = Flushes(self.header);
        if self.header.hot().flushes == 0 {
            *sweep = Sweep::default();
            return false;
        }
        if sweep.progress == Progress::default() {
            sweep.upto = flushes.sequence();
        }
        let Some(shard) = self.shards.get(sweep.progress.shard) else {
            let _one_at_a_time = self.flushing();
            flushes.end(sweep.upto);
            *sweep = Sweep::default();
            return self.header.hot().flushes != 0;
        };
        let rest = &shard.index()[sweep.progress.slot.min(shard.index().len())..];
        for at in rest.iter().take(slots) {
            let slot = Slot(at.load(Acquire));
            let is_meant = slot != Slot::EMPTY
                && shard.copy_verified(slot, &mut scratch.words).is_some_and(|copied| {
                    let name = scratch.words.as_flattened().get(KEY_HEAD..copied.key_len);
                    name.is_some_and(|name| flushes.mean(name, copied.stored_s))
                });
            if is_meant && shard.forget(at, slot) {
                shard.tally.count_shared(Event::Flushed);
            }
        }
        sweep.progress.slot += slots.min(rest.len());
        if rest.len() <= slots {
            sweep.progress = Progress { shard: sweep.progress.shard + 1, slot: 0 };
        }
        true
    }
}
