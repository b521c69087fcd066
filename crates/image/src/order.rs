//! Sorts the runs of a zone by the canonical order of their names (RFC 4034 section 6.1), those of one name as they came.
//!
//! Names are compared eight octets at a time as numbers: all runs by the first eight, those that are alike by the next
//! eight, and so on. A name is read again only where the octets before were not enough.

use crate::builder::{Hands, InTurn};
use crate::collected::{Run, Segments};

/// Runs whose names are fetched ahead of their turn.
const AHEAD: usize = 16;
/// Runs from which on it pays to share the work.
const SHARED_FROM: usize = 1 << 16;

/// Sorts; says of each run whether its name is that of the run before. The runs' keys are those of depth 0, before and after.
pub(crate) fn sort(runs: &mut [Run], segments: &Segments, apex_len: usize, hands: &dyn Hands) {
    let by = |r: &Run| (r.key, r.place());
    // A thread for each of many small zones would cost more than they do: 3 s for 65,000.
    let is_long = runs.len() >= SHARED_FROM;
    let hands = if is_long { hands } else { &InTurn };
    let mut half = if is_long { runs.len() / 2 } else { 0 };
    if !runs.is_sorted_by_key(by) {
        if half > 0 {
            runs.select_nth_unstable_by_key(half, by);
        }
        let (first, second) = runs.split_at_mut(half);
        hands.both(&mut || first.sort_unstable_by_key(by), &mut || second.sort_unstable_by_key(by));
    }
    while half > 0 && half < runs.len() && runs[half].key == runs[half - 1].key {
        half += 1;
    }
    let (first, second) = runs.split_at_mut(half);
    hands.both(&mut || refine_all(first, segments, apex_len), &mut || refine_all(second, segments, apex_len));
}

/// Sorts those that are alike in their first eight octets, which stand together, by the others.
fn refine_all(runs: &mut [Run], segments: &Segments, apex_len: usize) {
    let mut ahead = 0;
    let mut from = 0;
    while from < runs.len() {
        let alike = runs[from..].iter().take_while(|r| r.key == runs[from].key).count();
        ahead = fetch_ahead(runs, segments, ahead, from + alike + AHEAD);
        if alike > 1 {
            let (key, runs) = (runs[from].key, &mut runs[from..from + alike]);
            refine(runs, segments, apex_len, 1);
            runs.iter_mut().for_each(|run| run.key = key);
        }
        from += alike;
    }
}

/// Fetches the names that `refine` will read, up to `end`.
fn fetch_ahead(runs: &[Run], segments: &Segments, from: usize, end: usize) -> usize {
    let end = end.min(runs.len());
    for i in from..end {
        if i > 0 && runs[i - 1].key == runs[i].key || runs.get(i + 1).is_some_and(|next| next.key == runs[i].key) {
            segments.prefetch(&runs[i]);
        }
    }
    end.max(from)
}

/// Sorts runs whose names are alike in their first `depth` times eight octets.
fn refine(runs: &mut [Run], segments: &Segments, apex_len: usize, depth: usize) {
    let [first, others @ ..] = runs else { return };
    if others.is_empty() {
        return;
    }
    // Eight zeros: the name has ended, for no label is empty.
    if first.key == 0 {
        others.iter_mut().for_each(Run::say_same_name);
        return;
    }
    for run in &mut *runs {
        run.key = key_at(segments.name(run), apex_len, depth);
    }
    runs.sort_unstable_by_key(|r| (r.key, r.place()));
    for alike in runs.chunk_by_mut(|a, b| a.key == b.key) {
        refine(alike, segments, apex_len, depth + 1);
    }
}

/// Eight octets of a folded name below the apex, as `zone::order_key` arranges them, `depth` times eight octets further on.
fn key_at(name: &[u8], apex_len: usize, depth: usize) -> u64 {
    let mut starts = [0u8; 128];
    let (mut n, mut at) = (0, 0);
    while name.len() - at > apex_len {
        starts[n] = at as u8;
        n += 1;
        at += name[at] as usize + 1;
    }
    let (mut key, mut place) = (0u64, 0);
    let (from, to) = (8 * depth, 8 * depth + 8);
    let mut push = |octet: u8| {
        if (from..to).contains(&place) {
            key |= u64::from(octet) << (8 * (to - 1 - place));
        }
        place += 1;
        place < to
    };
    for &at in starts[..n].iter().rev() {
        let at = at as usize;
        let label = &name[at + 1..at + 1 + name[at] as usize];
        let more = label.iter().all(|&c| if c <= 1 { push(1) && push(c + 1) } else { push(c) });
        if !more || !push(0) {
            break;
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::InTurn;
    use crate::collected::Collected;
    use crate::zone::order_key;
    use wire::name::canonical_cmp;

    #[test]
    fn runs_come_in_the_order_of_their_names_and_of_their_coming() {
        let apex = b"\x01z\0";
        let labels: [&[u8]; 8] =
            [b"\x01a", b"\x0dlonglonglonga", b"\x0dlonglonglongb", b"\x01\0", b"\x01\x01", b"\x02a\0", b"\x01*", b""];
        let mut collected = Collected::default();
        let mut state = 1u64;
        for _ in 0..SHARED_FROM + 2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pick = |n: u32| labels[(state >> n) as usize & 7];
            let name = [pick(60), pick(56), pick(52), &apex[..]].concat();
            assert_eq!(key_at(&name, 3, 0), order_key(&name, apex));
            collected.open_run(order_key(&name, apex), &name);
        }
        let Collected { segments, mut runs, .. } = collected;
        sort(&mut runs, &segments, 3, &InTurn);
        for w in runs.windows(2) {
            let order = canonical_cmp(segments.name(&w[0]), segments.name(&w[1]));
            assert!(order.is_le());
            assert_eq!(order.is_eq(), w[1].is_same_name());
            assert!(order.is_lt() || w[0].place() < w[1].place());
            assert_eq!(w[0].key, order_key(segments.name(&w[0]), apex));
        }
    }
}
