//! Spans of a zone in which nothing exists, by its own NSEC records, in the zone's order: what a denial can be made of
//! without asking (RFC 8198 section 5).
//!
//! Spans of a zone never overlap, for the later one is what the zone says now: an older one that would deny its ends, or
//! names that it denies, goes. So a name is looked for among its zone's spans once, by halving.
//!
//! Bounds: `SpanBounds`: so many zones, so many spans and octets each; a zone that has its share loses spans of its own.
//! When there are too many zones, one that nobody asked for lately goes as a whole. Whoever stores has validated the proof; whoever
//! finds has to look at its types: below a cut or a DNAME that owns a span, the span says nothing (RFC 6840 section 4.1).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use wire::name::{canonical_cmp, is_at_or_below};

/// Spans, or zones, that are looked at for one that may go.
const LOOKED_AT_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanBounds {
    pub zones_max: usize,
    /// Of one zone.
    pub spans_max: usize,
    /// Of one zone: names and proofs.
    pub octets_max: usize,
}

impl Default for SpanBounds {
    /// 64 MiB at the most.
    fn default() -> SpanBounds {
        SpanBounds { zones_max: 256, spans_max: 1_024, octets_max: 256 << 10 }
    }
}

/// Names are folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    pub owner: &'a [u8],
    /// The next name of the zone; of the last span the apex.
    pub next: &'a [u8],
    /// The record and its signatures, as the caller likes them.
    pub proof: &'a [u8],
    /// Until when it may be given out, in the cache's time.
    pub end_s: u32,
}

/// Why a span is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unkept {
    /// A name of it is not one of the zone.
    Outside,
    /// It ends before it begins, and not at the apex.
    Backward,
    Expired,
    /// More than all spans of a zone may have.
    TooLarge,
}

/// What became of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    pub kept: u64,
    pub unkept: u64,
    /// Gone, for a later one contradicts them.
    pub outdated: u64,
    /// Gone to make room.
    pub evicted: u64,
    pub zones_evicted: u64,
}

#[derive(Debug)]
struct Kept {
    owner: Box<[u8]>,
    next: Box<[u8]>,
    proof: Box<[u8]>,
    end_s: u32,
    /// Since the hand came past.
    asked_for: bool,
}

impl Kept {
    fn octets(&self) -> usize {
        self.owner.len() + self.next.len() + self.proof.len()
    }

    fn span(&self) -> Span<'_> {
        Span { owner: &self.owner, next: &self.next, proof: &self.proof, end_s: self.end_s }
    }
}

/// The spans of a zone, in its order.
#[derive(Debug, Default)]
struct List {
    spans: Vec<Kept>,
    octets: usize,
    hand: usize,
    asked_for: bool,
}

pub struct Spans {
    bounds: SpanBounds,
    zones: BTreeMap<Box<[u8]>, List>,
    hand: Box<[u8]>,
    pub counts: SpanCounts,
}

impl Spans {
    pub fn new(bounds: SpanBounds) -> Spans {
        Spans { bounds, zones: BTreeMap::new(), hand: Box::default(), counts: SpanCounts::default() }
    }

    /// Keeps a span of the zone `apex`.
    pub fn insert(&mut self, apex: &[u8], span: &Span<'_>, now_s: u32) -> Result<(), Unkept> {
        if let Some(why) = self.objection(apex, span, now_s) {
            self.counts.unkept += 1;
            return Err(why);
        }
        if !self.zones.contains_key(apex) {
            self.make_room_for_a_zone();
        }
        let list = self.zones.entry(apex.into()).or_default();
        self.counts.outdated += list.remove_overlapping(apex, span) as u64;
        let octets = span.owner.len() + span.next.len() + span.proof.len();
        while list.spans.len() >= self.bounds.spans_max || list.octets + octets > self.bounds.octets_max {
            list.evict(now_s);
            self.counts.evicted += 1;
        }
        list.add(span);
        self.counts.kept += 1;
        Ok(())
    }

    fn objection(&self, apex: &[u8], span: &Span<'_>, now_s: u32) -> Option<Unkept> {
        let octets = span.owner.len() + span.next.len() + span.proof.len();
        if !is_at_or_below(span.owner, apex) || !is_at_or_below(span.next, apex) {
            Some(Unkept::Outside)
        } else if span.next != apex && canonical_cmp(span.owner, span.next) != Ordering::Less {
            Some(Unkept::Backward)
        } else if span.end_s <= now_s {
            Some(Unkept::Expired)
        } else if octets > self.bounds.octets_max || self.bounds.spans_max == 0 {
            Some(Unkept::TooLarge)
        } else {
            None
        }
    }

    /// The span in which `name` would be, if it were not for the proof that it does not exist.
    pub fn covering(&mut self, apex: &[u8], name: &[u8], now_s: u32) -> Option<Span<'_>> {
        let span = self.up_to(apex, name, now_s)?;
        (is_at_or_below(name, apex) && covers(apex, &span.span(), name)).then(|| span.span())
    }

    /// The span that `name` owns: it exists, and its proof says with which types.
    pub fn owned_by(&mut self, apex: &[u8], name: &[u8], now_s: u32) -> Option<Span<'_>> {
        self.up_to(apex, name, now_s).map(|span| span.span()).filter(|span| span.owner == name)
    }

    /// The last span that begins at `name` or before it.
    fn up_to(&mut self, apex: &[u8], name: &[u8], now_s: u32) -> Option<&Kept> {
        let list = self.zones.get_mut(apex)?;
        list.asked_for = true;
        let at = list.behind(name).checked_sub(1)?;
        let span = list.spans.get_mut(at).filter(|span| span.end_s > now_s)?;
        span.asked_for = true;
        Some(span)
    }

    /// Forgets the zones at or below a name.
    pub fn flush(&mut self, name: &[u8]) {
        self.zones.retain(|apex, _| !is_at_or_below(apex, name));
    }

    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// Octets of names and proofs.
    pub fn octets(&self) -> usize {
        self.zones.values().map(|list| list.octets).sum()
    }

    fn make_room_for_a_zone(&mut self) {
        let mut looked_at = 0;
        while self.zones.len() >= self.bounds.zones_max.max(1) {
            let behind = (Bound::Excluded(&*self.hand), Bound::Unbounded);
            let next = self.zones.range::<[u8], _>(behind).next().or_else(|| self.zones.first_key_value());
            let Some(apex) = next.map(|(apex, _)| apex.clone()) else { return };
            looked_at += 1;
            let list = self.zones.entry(apex.clone()).or_default();
            if looked_at > LOOKED_AT_MAX || !std::mem::take(&mut list.asked_for) {
                self.zones.remove(&apex);
                self.counts.zones_evicted += 1;
            }
            self.hand = apex;
        }
    }
}

/// Whether a name lies between the ends of a span.
fn covers(apex: &[u8], span: &Span<'_>, name: &[u8]) -> bool {
    let is_last = span.next == apex;
    canonical_cmp(span.owner, name) == Ordering::Less && (is_last || canonical_cmp(name, span.next) == Ordering::Less)
}

impl List {
    /// How many spans begin at `name` or before it.
    fn behind(&self, name: &[u8]) -> usize {
        self.spans.partition_point(|span| canonical_cmp(&span.owner, name) != Ordering::Greater)
    }

    fn add(&mut self, span: &Span<'_>) {
        let Span { owner, next, proof, end_s } = *span;
        let at = self.behind(owner);
        let kept = Kept { owner: owner.into(), next: next.into(), proof: proof.into(), end_s, asked_for: false };
        self.octets += kept.octets();
        self.spans.insert(at, kept);
    }

    /// Removes what the zone does not say any more, if it says this; how many.
    fn remove_overlapping(&mut self, apex: &[u8], span: &Span<'_>) -> usize {
        let behind = self.behind(span.owner);
        let is_over = |at: &usize| {
            self.spans
                .get(*at)
                .is_some_and(|old| old.owner.as_ref() == span.owner || covers(apex, &old.span(), span.owner))
        };
        let first = behind.checked_sub(1).filter(is_over).unwrap_or(behind);
        let end = if span.next == apex {
            self.spans.len()
        } else {
            self.spans.partition_point(|old| canonical_cmp(&old.owner, span.next) == Ordering::Less)
        };
        let removed = self.spans.drain(first..end.max(first));
        let (count, octets) = removed.fold((0, 0), |(count, octets), old| (count + 1, octets + old.octets()));
        self.octets -= octets;
        count
    }

    /// Removes a span that has expired or that nobody asked for lately; after a few that were, the next.
    fn evict(&mut self, now_s: u32) {
        for looked_at in 1..=LOOKED_AT_MAX {
            let at = if self.hand < self.spans.len() { self.hand } else { 0 };
            let Some(span) = self.spans.get_mut(at) else { return };
            let may_go = span.end_s <= now_s || !std::mem::take(&mut span.asked_for);
            if may_go || looked_at == LOOKED_AT_MAX {
                self.octets -= self.spans.remove(at).octets();
                self.hand = at;
                return;
            }
            self.hand = at + 1;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const APEX: &[u8] = b"\x04test\0";
    const LABELS: [&str; 4] = ["a", "b", "m", "z"];
    const PLENTY: SpanBounds = SpanBounds { zones_max: 4, spans_max: 100, octets_max: 10_000 };

    /// Names of up to two labels below the apex; 0 is the apex.
    fn name(id: usize) -> Vec<u8> {
        let label = |n: usize| [&[1], LABELS[n % 4].as_bytes()].concat();
        match id {
            0 => APEX.to_vec(),
            1..=4 => [label(id - 1), APEX.to_vec()].concat(),
            _ => [label((id - 5) / 4), label((id - 5) % 4), APEX.to_vec()].concat(),
        }
    }

    const NAMES: usize = 5 + 16;

    /// The same without order or bounds: all that was ever said, the latest last.
    #[derive(Default)]
    struct Twin(Vec<(usize, usize, u32, u32)>);

    fn denies(owner: usize, next: usize, asked: usize) -> bool {
        let (owner, next, asked) = (name(owner), name(next), name(asked));
        canonical_cmp(&owner, &asked).is_lt() && (next == APEX || canonical_cmp(&asked, &next).is_lt())
    }

    impl Twin {
        fn insert(&mut self, owner: usize, next: usize, end_s: u32, serial: u32) {
            self.0.retain(|&(o, n, _, _)| {
                let same = (0..NAMES).any(|x| denies(o, n, x) && denies(owner, next, x));
                !(same || o == owner || denies(o, n, owner) || denies(owner, next, o))
            });
            self.0.push((owner, next, end_s, serial));
        }

        fn covering(&self, asked: usize, now_s: u32) -> Option<u32> {
            let found = self.0.iter().find(|&&(o, n, end_s, _)| end_s > now_s && denies(o, n, asked));
            found.map(|&(.., serial)| serial)
        }

        fn owned_by(&self, asked: usize, now_s: u32) -> Option<u32> {
            self.0.iter().find(|&&(o, _, end_s, _)| end_s > now_s && o == asked).map(|&(.., serial)| serial)
        }
    }

    fn serial(found: Option<Span<'_>>) -> Option<u32> {
        found.and_then(|span| span.proof.first_chunk::<4>().map(|octets| u32::from_le_bytes(*octets)))
    }

    fn run(bounds: SpanBounds, steps: &[(usize, usize, u32, u32)], is_whole: bool) -> Result<Spans, TestCaseError> {
        let (mut spans, mut twin, mut now_s) = (Spans::new(bounds), Twin::default(), 10);
        for (i, &(owner, next, ttl_s, passed_s)) in steps.iter().enumerate() {
            let (from, to) = (name(owner), name(next));
            let (proof, end_s) = ((i as u32).to_le_bytes(), now_s + ttl_s);
            if spans.insert(APEX, &Span { owner: &from, next: &to, proof: &proof, end_s }, now_s).is_ok() {
                twin.insert(owner, next, end_s, i as u32);
            }
            now_s += passed_s;
            prop_assert!(spans.octets() <= bounds.octets_max);
            for asked in 0..NAMES {
                let asked_name = name(asked);
                let found = serial(spans.covering(APEX, &asked_name, now_s));
                let owned = serial(spans.owned_by(APEX, &asked_name, now_s));
                let (expect, expect_owned) = (twin.covering(asked, now_s), twin.owned_by(asked, now_s));
                prop_assert!(found == expect || !is_whole && found.is_none(), "{asked}: {found:?} {expect:?}");
                prop_assert!(owned == expect_owned || !is_whole && owned.is_none(), "{asked}: {owned:?}");
            }
        }
        Ok(spans)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_denied_is_what_the_zone_said_last(
            steps in prop::collection::vec((0..NAMES, 0..NAMES, 0..30u32, 0..4u32), 1..60)
        ) {
            run(PLENTY, &steps, true)?;
            run(SpanBounds { zones_max: 1, spans_max: 3, octets_max: 90 }, &steps, false)?;
        }
    }

    #[test]
    fn what_is_no_span_of_the_zone_is_not_kept() {
        let mut spans = Spans::new(PLENTY);
        let (a, b, other) = (name(1), name(2), b"\x05other\0");
        let proof = vec![0; 20_000];
        for (owner, next, proof, end_s, expect) in [
            (&a[..], &b[..], &proof[..1], 11, Ok(())),
            (&b, APEX, &proof[..1], 11, Ok(())),
            (&b, &a, &proof[..1], 11, Err(Unkept::Backward)),
            (&a, &a, &proof[..1], 11, Err(Unkept::Backward)),
            (&a, other, &proof[..1], 11, Err(Unkept::Outside)),
            (other, &a, &proof[..1], 11, Err(Unkept::Outside)),
            (&a, &b, &proof[..1], 10, Err(Unkept::Expired)),
            (&a, &b, &proof[..], 11, Err(Unkept::TooLarge)),
        ] {
            assert_eq!(spans.insert(APEX, &Span { owner, next, proof, end_s }, 10), expect);
        }
        assert!(spans.covering(APEX, b"\x05other\0", 10).is_none());
        assert_eq!((spans.counts.kept, spans.counts.unkept), (2, 6));
    }

    #[test]
    fn zones_beyond_the_bound_go_first_if_nobody_asks_for_them() {
        let mut spans = Spans::new(SpanBounds { zones_max: 10, ..PLENTY });
        let zone = |i: u32| format!("\x04{i:04}\0").into_bytes();
        for i in 0..100 {
            let apex = zone(i);
            let span = Span { owner: &apex, next: &apex, proof: b"", end_s: 100 };
            spans.insert(&apex, &span, 1).unwrap();
            let below = [b"\x01x", &zone(0)[..]].concat();
            assert!(spans.covering(&zone(0), &below, 1).is_some(), "asked for all the time, {i}");
        }
        assert_eq!((spans.zones(), spans.counts.zones_evicted), (10, 90));
        spans.flush(&[0]);
        assert_eq!((spans.zones(), spans.octets()), (0, 0));
    }
}
