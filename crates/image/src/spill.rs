//! Takes collected records out of memory: in canonical order, the runs of one name joined, otherwise as they were held.
//!
//! What a builder holds beside the runs themselves is bounded by that. A spilled segment is read once more, from its beginning
//! to its end, when the image is laid out; only the hosts of referrals are looked up out of order.

use crate::builder::{InTurn, ZoneDraft};
use crate::collected::{Collected, OFFSET_BITS, Run, Segments, push_head};
use crate::order;
use crate::zone::order_key;

/// Octets handed over at a time.
const PIECE: usize = 1 << 20;
/// Names whose records are fetched ahead of their turn.
const AHEAD: usize = 16;

/// Octets outside of memory, and yet readable: a mapped file.
pub type Kept = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Where octets can be kept outside of memory. The builder opens no files; its driver may.
pub trait Spill: Send + Sync {
    /// Keeps the pieces, one behind another; or says why it cannot.
    fn keep(&self, pieces: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Kept, String>;
}

/// Takes all that is held out of memory. After an error it is held as before.
pub(crate) fn spill(collected: &mut Collected, zones: &mut [ZoneDraft], spill: &dyn Spill) -> Result<(), String> {
    let from = collected.spilled;
    let mut held = collected.runs[from..].to_vec();
    // The zone to which the first of these runs belongs, and all that were begun since.
    let first = zones.partition_point(|z| z.run as usize <= from).saturating_sub(1);
    let zones = &mut zones[first..];
    let begins: Vec<usize> = zones.iter().map(|z| (z.run as usize).saturating_sub(from)).collect();
    let ends = begins.iter().skip(1).copied().chain([held.len()]);
    for ((&start, end), zone) in begins.iter().zip(ends).zip(&*zones) {
        order::sort(&mut held[start..end], &collected.segments, zone.apex.len(), &InTurn);
    }
    let place = (collected.segments.0.len() as u64) << OFFSET_BITS;
    let (zones_read, segments) = (&*zones, &collected.segments);
    let mut pieces = Pieces {
        segments,
        zones: zones_read,
        begins: &begins,
        held: &held,
        at: 0,
        place,
        runs: vec![],
        firsts: vec![],
    };
    let kept = spill.keep(&mut pieces)?;
    let Pieces { runs, firsts, .. } = pieces;
    for (zone, first) in zones.iter_mut().zip(firsts).filter(|(zone, _)| zone.run as usize >= from) {
        zone.run = (from + first) as u32;
    }
    collected.take_out(kept, runs);
    Ok(())
}

/// What is held, sorted, piece by piece; and the runs that it becomes.
struct Pieces<'a> {
    segments: &'a Segments,
    zones: &'a [ZoneDraft],
    /// By zone, where among `held` it begins.
    begins: &'a [usize],
    held: &'a [Run],
    at: usize,
    /// Of the next run.
    place: u64,
    runs: Vec<Run>,
    /// By zone, the first of its `runs`.
    firsts: Vec<usize>,
}

impl Pieces<'_> {
    /// Joins the runs of the name that comes next.
    fn join(&mut self, piece: &mut Vec<u8>) {
        while self.begins.get(self.firsts.len()).is_some_and(|&begin| begin <= self.at) {
            self.firsts.push(self.runs.len());
        }
        if let Some(later) = self.held.get(self.at + AHEAD) {
            self.segments.prefetch(later);
        }
        let [first, others @ ..] = &self.held[self.at..] else { return };
        let same = 1 + others.iter().take_while(|run| run.is_same_name()).count();
        let runs = &self.held[self.at..self.at + same];
        let (name, apex) = (self.segments.name(first), &self.zones[self.firsts.len() - 1].apex);
        self.runs.push(Run::new(order_key(name, apex), self.place + piece.len() as u64));
        push_head(piece, runs.iter().map(|run| self.segments.records(run).0).sum(), name);
        for run in runs {
            piece.extend_from_slice(self.segments.records(run).1);
        }
        self.at += same;
    }
}

impl Iterator for Pieces<'_> {
    type Item = Vec<u8>;
    fn next(&mut self) -> Option<Vec<u8>> {
        let mut piece = vec![];
        while self.at < self.held.len() && piece.len() < PIECE {
            self.join(&mut piece);
        }
        self.place += piece.len() as u64;
        (!piece.is_empty()).then_some(piece)
    }
}
