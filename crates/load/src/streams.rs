//! TCP streams of a capture: from segments, in whatever order they were seen, to whole messages (RFC 1035 section 4.2.2:
//! each with its length before it).
//!
//! ```text
//!   segment -> expected?  -> what is left of the stream's message + data -> whole messages
//!              too early? -> waits for the gap to close
//!              older?     -> seen before: what is new of it is taken
//! ```
//!
//! A stream that is met in its midst, or that lost octets, is taken up again at a segment that begins with a query: most
//! clients write one message at a time.
//!
//! Bound: `STREAMS_MAX` streams, the oldest gives way; each keeps less than a message and `EARLY_OCTETS_MAX` of segments
//! that came too early, together 128 MiB.

use crate::packet::{Ends, FIN, RST, SYN, Segment, question};
use std::collections::{HashMap, VecDeque};

const STREAMS_MAX: usize = 1024;
const EARLY_MAX: usize = 16;
const EARLY_OCTETS_MAX: usize = 64 << 10;

#[derive(Default)]
struct Stream {
    /// The sequence number that comes next; None where the stream must be taken up.
    next: Option<u32>,
    /// A message of which the end is missing.
    begun: Vec<u8>,
    early: Vec<(u32, Vec<u8>)>,
}

#[derive(Default)]
pub struct Streams {
    streams: HashMap<Ends, Stream>,
    oldest: VecDeque<Ends>,
    /// Pieces that could not be replayed: octets before them are missing, or their message never ended.
    pub broken: u64,
}

impl Streams {
    /// Takes a segment; `each` gets the messages that are whole with it.
    pub fn on_segment(&mut self, segment: &Segment<'_>, mut each: impl FnMut(&[u8])) {
        let is_end = segment.flags & (FIN | RST) != 0;
        if !self.streams.contains_key(&segment.ends) {
            if segment.data.is_empty() && segment.missing == 0 && segment.flags & SYN == 0 {
                return;
            }
            self.make_room();
            self.oldest.push_back(segment.ends);
        }
        let stream = self.streams.entry(segment.ends).or_default();
        self.broken += stream.take(segment, &mut each);
        if is_end {
            self.end(segment.ends);
        }
    }

    /// The capture is over.
    pub fn end_all(&mut self) {
        self.broken += self.streams.values().map(Stream::left).sum::<u64>();
        self.streams.clear();
        self.oldest.clear();
    }

    /// Streams that ended stand in the queue until they are its oldest.
    fn make_room(&mut self) {
        while self.oldest.len() >= STREAMS_MAX {
            let Some(ends) = self.oldest.pop_front() else { return };
            self.end(ends);
        }
    }

    fn end(&mut self, ends: Ends) {
        self.broken += self.streams.remove(&ends).map_or(0, |stream| stream.left());
    }
}

impl Stream {
    /// Pieces that are left over when nothing more can come.
    fn left(&self) -> u64 {
        self.early.len() as u64 + u64::from(!self.begun.is_empty())
    }

    /// Says how many pieces turned out to be of no use.
    fn take(&mut self, segment: &Segment<'_>, each: &mut impl FnMut(&[u8])) -> u64 {
        let is_first = segment.flags & SYN != 0;
        // A SYN counts as one octet before the data (RFC 9293 section 3.4).
        let sequence = segment.sequence.wrapping_add(u32::from(is_first));
        let mut broken = 0;
        if is_first {
            broken += self.left();
            *self = Stream { next: Some(sequence), ..Stream::default() };
        }
        if !segment.data.is_empty() {
            broken += self.place(sequence, segment.data, each);
        }
        if segment.missing > 0 {
            // This piece is broken, and so is what waited for it.
            broken += self.early.len() as u64 + 1;
            *self = Stream::default();
        }
        broken
    }

    fn place(&mut self, sequence: u32, data: &[u8], each: &mut impl FnMut(&[u8])) -> u64 {
        let Some(next) = self.next else { return self.take_up(sequence, data, each) };
        let ahead = sequence.wrapping_sub(next) as i32;
        if ahead > 0 {
            let waiting: usize = self.early.iter().map(|(_, data)| data.len()).sum();
            if self.early.len() < EARLY_MAX && waiting + data.len() <= EARLY_OCTETS_MAX {
                self.early.push((sequence, data.to_vec()));
                return 0;
            }
            // What is missing does not come any more.
            let early = std::mem::take(&mut self.early);
            let broken = early.len() as u64 + u64::from(!self.begun.is_empty());
            *self = Stream::default();
            return broken + self.take_up(sequence, data, each);
        }
        self.append(data.get(ahead.unsigned_abs() as usize..).unwrap_or(&[]), each);
        self.take_early(each);
        0
    }

    /// The first segment that is seen of a stream must begin with a query to be of use.
    fn take_up(&mut self, sequence: u32, data: &[u8], each: &mut impl FnMut(&[u8])) -> u64 {
        if data.get(2..).is_none_or(|message| question(message).is_err()) {
            return 1;
        }
        self.next = Some(sequence);
        self.append(data, each);
        0
    }

    fn take_early(&mut self, each: &mut impl FnMut(&[u8])) {
        while let Some(next) = self.next
            && let Some(i) = self.early.iter().position(|(sequence, _)| sequence.wrapping_sub(next) as i32 <= 0)
        {
            let (sequence, data) = self.early.swap_remove(i);
            self.append(data.get(next.wrapping_sub(sequence) as usize..).unwrap_or(&[]), each);
        }
    }

    fn append(&mut self, data: &[u8], each: &mut impl FnMut(&[u8])) {
        self.next = self.next.map(|next| next.wrapping_add(data.len() as u32));
        self.begun.extend_from_slice(data);
        let mut at = 0;
        while let Some(len) = self.begun[at..].first_chunk::<2>().map(|l| usize::from(u16::from_be_bytes(*l)))
            && let Some(message) = self.begun[at + 2..].get(..len)
        {
            each(message);
            at += 2 + len;
        }
        self.begun.drain(..at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    const ENDS: Ends = Ends { client: [1; 16], server: [2; 16], port: 4000 };

    fn segment(sequence: u32, flags: u8, data: &[u8]) -> Segment<'_> {
        Segment { ends: ENDS, sequence, flags, data, missing: 0 }
    }

    /// A query with its length before it; `n` is in its name.
    fn message(n: u8, padding: usize) -> Vec<u8> {
        let query = [&[0, n, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a' + n, 0, 0, 1, 0, 1][..], &vec![0; padding]].concat();
        [&(query.len() as u16).to_be_bytes()[..], &query].concat()
    }

    fn heard(segments: &[Segment<'_>]) -> (Vec<u8>, u64) {
        let (mut streams, mut found) = (Streams::default(), Vec::new());
        segments.iter().for_each(|s| streams.on_segment(s, |message| found.push(message[1])));
        streams.end_all();
        (found, streams.broken)
    }

    #[test]
    fn messages_are_found_however_the_stream_is_cut_and_shuffled() {
        let mut chance = Chance::new(5);
        for round in 0..500u32 {
            let stream: Vec<u8> = (0..10).flat_map(|n| message(n, chance.below(300) as usize)).collect();
            let first = (chance.bits() as u32) | if round % 2 == 0 { u32::MAX << 10 } else { 0 };
            let mut segments = vec![segment(first, SYN, &[])];
            let mut at = 0;
            while at < stream.len() {
                let end = (at + 1 + chance.below(400) as usize).min(stream.len());
                let repeat = (chance.below(3) as usize * 20).min(at);
                let sequence = first.wrapping_add(1 + (at - repeat) as u32);
                segments.push(segment(sequence, 0, &stream[at - repeat..end]));
                at = end;
            }
            // Neighbours change places; none comes more than a few too early.
            (1..segments.len() - 1).step_by(2).for_each(|i| segments.swap(i, i + 1));
            assert_eq!(heard(&segments), ((0..10).collect(), 0), "round {round}");
        }
    }

    #[test]
    fn what_has_a_gap_is_counted_and_the_stream_taken_up_again() {
        let (a, b, c) = (message(0, 5), message(1, 5), message(2, 5));
        let len = a.len() as u32;
        let start = || segment(99, SYN, &[]);
        let at = |i: u32| 100 + i * len;
        assert_eq!(heard(&[start(), segment(at(0), 0, &a), segment(at(2), FIN, &c)]), (vec![0], 1));
        assert_eq!(heard(&[start(), segment(at(0), FIN, &a[..9])]), (vec![], 1));
        assert_eq!(heard(&[segment(at(0), 0, &a[9..]), segment(at(1), 0, &b), segment(at(2), 0, &c)]), (vec![1, 2], 1));
        let short = Segment { missing: 6, ..segment(at(0), 0, &a[..len as usize - 6]) };
        assert_eq!(heard(&[start(), short, segment(at(1), 0, &b)]), (vec![1], 1));
        // A new connection of the same ends.
        assert_eq!(heard(&[start(), segment(at(0), RST, &a), start(), segment(at(0), 0, &b)]), (vec![0, 1], 0));
        let many: Vec<Segment<'_>> = (1..=20).map(|i| segment(at(i), 0, &b)).collect();
        let (found, broken) = heard(&[&[start()], &many[..]].concat());
        assert_eq!((found.len(), broken), (20 - EARLY_MAX, EARLY_MAX as u64));
    }

    #[test]
    fn streams_are_bounded() {
        let mut streams = Streams::default();
        let part = &message(0, 0)[..5];
        for i in 0..3 * STREAMS_MAX {
            let mut ends = ENDS;
            ends.client[..8].copy_from_slice(&(i as u64).to_be_bytes());
            streams.on_segment(&Segment { ends, ..segment(7, SYN, part) }, |_| {});
        }
        assert_eq!((streams.streams.len(), streams.oldest.len()), (STREAMS_MAX, STREAMS_MAX));
        assert_eq!(streams.broken, 2 * STREAMS_MAX as u64);
        streams.end_all();
        assert_eq!(streams.broken, 3 * STREAMS_MAX as u64);
    }
}
