//! Records as they came, packed: runs of records of one owner, one behind another in long segments.
//!
//! ```text
//! run: records u32 | name length u8 | name, lower case | records: TTL u32, type u16, rdata length u16, rdata ...
//! ```
//!
//! Nothing that was collected moves; only `runs` are sorted. Memory: 16 octets a run beside its own, 8 a record beside its
//! rdata; but what was spilled costs nothing beside the 16 octets a run. It lies in canonical order, so that whoever goes
//! through all runs in that order reads each spilled segment from its beginning to its end.

use crate::render::Rr;
use crate::spill::Kept;
use wire::cpu::prefetch;
use wire::rtype::Rtype;

/// Set in a run's place: its name is that of the run before it.
const SAME: u64 = 1 << 63;
pub(crate) const OFFSET_BITS: u32 = 48;
const OFFSET: u64 = (1 << OFFSET_BITS) - 1;
const RUN_HEAD: usize = 5;
const RECORD_HEAD: usize = 8;
/// What another collection brings is copied below this, and its segments taken over from here on. So segments are few.
const COPIED_BELOW: usize = 1 << 20;

/// Records of one owner that came one right behind another.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// The first eight octets of its name, as `zone::order_key` arranges them; while it is sorted, others of them.
    pub key: u64,
    /// Segment and offset; `SAME`.
    place: u64,
}

impl Run {
    pub(crate) fn new(key: u64, place: u64) -> Run {
        Run { key, place }
    }

    pub(crate) fn is_same_name(&self) -> bool {
        self.place & SAME != 0
    }

    pub(crate) fn say_same_name(&mut self) {
        self.place |= SAME;
    }

    /// Orders runs as they came.
    pub(crate) fn place(&self) -> u64 {
        self.place & !SAME
    }
}

/// Where a name's records begin; `SAME`: more runs of that name follow.
#[derive(Clone, Copy)]
pub(crate) struct Spot(u64);

pub(crate) enum Segment {
    Held(Vec<u8>),
    /// Outside of memory.
    Kept(Kept),
}

#[derive(Default)]
pub(crate) struct Segments(pub Vec<Segment>);

impl Segments {
    fn from(&self, place: u64) -> &[u8] {
        let octets = match &self.0[(place >> OFFSET_BITS) as usize] {
            Segment::Held(octets) => octets,
            Segment::Kept(kept) => (**kept).as_ref(),
        };
        &octets[(place & OFFSET) as usize..]
    }

    /// A run's number of records, and their octets.
    pub(crate) fn records(&self, run: &Run) -> (u32, &[u8]) {
        let octets = self.from(run.place());
        let count = u32::from_le_bytes([octets[0], octets[1], octets[2], octets[3]]);
        let records = &octets[RUN_HEAD + octets[RUN_HEAD - 1] as usize..];
        let mut end = 0;
        for _ in 0..count {
            end += RECORD_HEAD + u16::from_le_bytes([records[end + 6], records[end + 7]]) as usize;
        }
        (count, &records[..end])
    }

    pub(crate) fn name(&self, run: &Run) -> &[u8] {
        name_at(self.from(run.place()))
    }

    pub(crate) fn prefetch(&self, run: &Run) {
        self.prefetch_from(run.place());
    }

    fn prefetch_from(&self, place: u64) {
        let octets = self.from(place);
        prefetch(octets, 0);
        prefetch(octets, 64);
    }
}

/// Begins a run.
pub(crate) fn push_head(octets: &mut Vec<u8>, records: u32, name: &[u8]) {
    octets.extend(records.to_le_bytes());
    octets.push(name.len() as u8);
    octets.extend_from_slice(name);
}

/// The name of the run that begins here.
fn name_at(octets: &[u8]) -> &[u8] {
    &octets[RUN_HEAD..RUN_HEAD + octets[RUN_HEAD - 1] as usize]
}

#[derive(Default)]
pub(crate) struct Collected {
    pub segments: Segments,
    pub runs: Vec<Run>,
    /// Where in the last segment the last run begins.
    open: usize,
    /// Octets in memory beside the runs themselves.
    pub held: usize,
    /// All runs before this one were spilled.
    pub spilled: usize,
}

impl Collected {
    /// The records that follow are of this owner.
    pub(crate) fn open_run(&mut self, key: u64, folded: &[u8]) {
        if !matches!(self.segments.0.last(), Some(Segment::Held(_))) {
            self.segments.0.push(Segment::Held(vec![]));
        }
        let segment = self.segments.0.len() - 1;
        let Some(Segment::Held(octets)) = self.segments.0.last_mut() else { return };
        self.open = octets.len();
        self.held += RUN_HEAD + folded.len();
        self.runs.push(Run { key, place: (segment as u64) << OFFSET_BITS | self.open as u64 });
        push_head(octets, 0, folded);
    }

    /// A record of the run opened last.
    pub(crate) fn push(&mut self, rtype: Rtype, ttl: u32, rdata: &[u8]) {
        let Some(Segment::Held(octets)) = self.segments.0.last_mut() else { return };
        self.held += RECORD_HEAD + rdata.len();
        let [a, b] = rtype.to_le_bytes();
        let [c, d] = (rdata.len() as u16).to_le_bytes();
        let [e, f, g, h] = ttl.to_le_bytes();
        octets.extend([e, f, g, h, a, b, c, d]);
        octets.extend_from_slice(rdata);
        if let Some(count) = octets.get_mut(self.open..).and_then(|o| o.first_chunk_mut::<4>()) {
            *count = (u32::from_le_bytes(*count) + 1).to_le_bytes();
        }
    }

    /// Puts all runs of another collection behind these.
    pub(crate) fn append(&mut self, other: Collected) {
        let Collected { segments: Segments(segments), runs, held, .. } = other;
        self.runs.reserve(runs.len());
        self.held += held;
        let first = self.segments.0.len() as u64;
        let shift = match (self.segments.0.last_mut(), &segments[..]) {
            (Some(Segment::Held(last)), [Segment::Held(only)]) if only.len() < COPIED_BELOW => {
                let shift = (first - 1) << OFFSET_BITS | last.len() as u64;
                last.extend_from_slice(only);
                shift
            }
            _ => {
                self.segments.0.extend(segments);
                first << OFFSET_BITS
            }
        };
        self.runs.extend(runs.iter().map(|r| Run { place: r.place + shift, ..*r }));
        if self.held == 0 {
            self.spilled = self.runs.len();
        }
    }

    /// Lets go of what is held: `kept` has it, as these runs.
    pub(crate) fn take_out(&mut self, kept: Kept, runs: Vec<Run>) {
        for segment in &mut self.segments.0 {
            if let Segment::Held(octets) = segment {
                *octets = vec![];
            }
        }
        self.segments.0.push(Segment::Kept(kept));
        self.runs.truncate(self.spilled);
        self.runs.extend(runs);
        (self.held, self.spilled) = (0, self.runs.len());
    }

    pub(crate) fn name(&self, run: u32) -> &[u8] {
        self.segments.name(&self.runs[run as usize])
    }

    /// The records of a run and of those behind it that have the same name.
    pub(crate) fn records(&self, run: u32) -> Records<'_> {
        Records::new(self, self.segments.from(self.runs[run as usize].place()), run as usize + 1)
    }

    /// What leads to the records of a run and those behind it without looking at the runs.
    pub(crate) fn spot(&self, run: u32) -> Spot {
        let is_same = |r: &Run| r.is_same_name();
        let more = if self.runs.get(run as usize + 1).is_some_and(is_same) { SAME } else { 0 };
        Spot(self.runs[run as usize].place() | more)
    }

    pub(crate) fn name_at(&self, spot: Spot) -> &[u8] {
        name_at(self.segments.from(spot.0 & !SAME))
    }

    /// `records(run)`, its spot being known.
    pub(crate) fn records_at(&self, spot: Spot, run: u32) -> Records<'_> {
        let next = if spot.0 & SAME == 0 { usize::MAX } else { run as usize + 1 };
        Records::new(self, self.segments.from(spot.0 & !SAME), next)
    }

    pub(crate) fn prefetch_at(&self, spot: Spot) {
        self.segments.prefetch_from(spot.0 & !SAME);
    }
}

/// Records of one owner, as they came.
#[derive(Clone)]
pub struct Records<'a> {
    of: &'a Collected,
    next: usize,
    left: u32,
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    fn new(of: &'a Collected, octets: &'a [u8], next: usize) -> Records<'a> {
        let left = u32::from_le_bytes([octets[0], octets[1], octets[2], octets[3]]);
        Records { of, next, left, rest: &octets[RUN_HEAD + octets[RUN_HEAD - 1] as usize..] }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Rr<'a>;

    #[inline]
    fn next(&mut self) -> Option<Rr<'a>> {
        while self.left == 0 {
            let run = self.of.runs.get(self.next).filter(|r| r.is_same_name())?;
            *self = Records::new(self.of, self.of.segments.from(run.place()), self.next + 1);
        }
        self.left -= 1;
        let &[e, f, g, h, a, b, c, d] = self.rest.first_chunk::<RECORD_HEAD>()?;
        let len = u16::from_le_bytes([c, d]) as usize;
        let rdata = self.rest.get(RECORD_HEAD..RECORD_HEAD + len)?;
        self.rest = &self.rest[RECORD_HEAD + len..];
        Some(Rr { rtype: u16::from_le_bytes([a, b]), ttl: u32::from_le_bytes([e, f, g, h]), rdata })
    }
}
