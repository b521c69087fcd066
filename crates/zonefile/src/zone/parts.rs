//! A text in parts that can be read side by side. Starts no thread: whoever has several processors gives one part to each.
//!
//! Where a part begins, nobody knows yet what the text before it says: so each part is read on the supposition that origin
//! and default TTL are there as they are after the first lines of the text. `join` looks whether that came true. If it did
//! not, or if a part needed more of what stands before it, the text must be read in one piece; nothing is guessed.
//!
//! A part may be read piece by piece, each on the supposition that what the one before it came to holds, which is then so.

use super::{Files, Last, NoFiles, Options, Record, Report, Sink, Source, Zone};
use crate::problem::Place;
use std::ops::Range;
use wire::Name;
use wire::cpu::line_ends;

/// How much of the text is read to know what holds in the rest.
pub const HEAD: usize = 1 << 16;

/// What the text before a place says of the records behind it.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    pub origin: Name,
    pub ttl_default: Option<u32>,
}

impl Surroundings {
    /// Where the text begins.
    pub fn outside(origin: &Name, options: &Options) -> Surroundings {
        Surroundings { origin: *origin, ttl_default: options.default_ttl }
    }

    /// Behind so much of a text, and the rest of the line.
    pub fn behind(text: &[u8], head: usize, origin: &Name, options: &Options) -> Surroundings {
        let end = border(text, text.len().min(head));
        let head = Part { text: &text[..end], at: 0, line: 1, supposed: Surroundings::outside(origin, options) };
        let quiet = Options { problems_max: 0, ..*options };
        head.read("", &mut NoFiles, &quiet, &mut |_: Record<'_>, _: &Place| Ok(())).end
    }

    /// Octet for octet: the case of an origin goes into records.
    pub fn are(&self, other: &Surroundings) -> bool {
        self.origin.bytes() == other.origin.bytes() && self.ttl_default == other.ttl_default
    }
}

/// A part of a text, from the beginning of a line to that of another.
#[derive(Clone, Copy)]
pub struct Part<'t> {
    /// The whole text up to the part's end.
    text: &'t [u8],
    at: usize,
    line: u32,
    supposed: Surroundings,
}

/// What became of a part.
pub struct Reading {
    report: Report,
    supposed: Surroundings,
    end: Surroundings,
    /// The number of the line behind it.
    line: u32,
    /// The part did not need what stands outside it.
    is_whole: bool,
}

/// The parts of a text, `n` at most, each about as long as the others; they end where `border` says, at or behind a place.
pub fn parts<'t>(
    text: &'t [u8],
    inside: Surroundings,
    outside: Surroundings,
    n: usize,
    border: impl Fn(&[u8], usize) -> usize,
) -> Vec<Part<'t>> {
    let mut parts: Vec<Part<'t>> = Vec::with_capacity(n);
    let (mut at, mut line) = (0, 1);
    for i in 1..=n {
        let end = if i == n { text.len() } else { border(text, (text.len() / n * i).max(at)) };
        if end > at {
            parts.push(Part { text: &text[..end], at, line, supposed: if at == 0 { outside } else { inside } });
            let counted = if i == n { end } else { at };
            line = line.saturating_add(u32::try_from(lines(&text[counted..end])).unwrap_or(u32::MAX));
            at = end;
        }
    }
    parts
}

/// How many lines end in a text: nobody else reads any of it meanwhile, so it is to be quick.
fn lines(text: &[u8]) -> usize {
    let (blocks, rest) = text.as_chunks();
    let in_blocks: usize = blocks.iter().map(|block| line_ends(block).count_ones() as usize).sum();
    in_blocks + rest.iter().filter(|&&c| c == b'\n').count()
}

/// The beginning of the first line behind a place that names an owner.
pub fn border(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(line_end) = text[at..].iter().position(|&c| c == b'\n') {
        at += line_end + 1;
        if text.get(at).is_some_and(|c| c.is_ascii_alphanumeric()) {
            return at;
        }
    }
    text.len()
}

impl<'t> Part<'t> {
    /// A piece of a text, of which only the surroundings are known.
    pub fn new(text: &'t [u8], at: Range<usize>, supposed: Surroundings) -> Part<'t> {
        Part { text: text.get(..at.end).unwrap_or(text), at: at.start, line: 1, supposed }
    }

    /// Where in the text it stands.
    pub fn range(&self) -> Range<usize> {
        self.at..self.text.len()
    }

    /// What the part holds from a line on up to another; `before`: what became of what the part holds before that.
    pub fn piece(&self, at: Range<usize>, before: Option<&Reading>) -> Part<'t> {
        let (line, supposed) = before.map_or((self.line, self.supposed), |read| (read.line, read.end));
        Part { line, ..Part::new(self.text, at, supposed) }
    }

    /// True for the part that the text begins with: the only one that may include files.
    pub fn is_first(&self) -> bool {
        self.at == 0
    }

    /// Reads the part as `parse` reads a whole text.
    pub fn read(&self, file: &str, files: &mut dyn Files, options: &Options, sink: &mut Sink<'_>) -> Reading {
        let mut zone = Zone::new(&self.supposed.origin, files, options, sink);
        zone.ttl_default = self.supposed.ttl_default;
        zone.is_later_part = !self.is_first();
        let (line, unclosed) = zone.source_from(&Source { file: file.into(), text: self.text }, self.at, self.line);
        let is_whole = !zone.needs_what_was_before && unclosed == 0;
        let end = Surroundings { origin: zone.origin, ttl_default: zone.ttl_default };
        Reading { report: zone.report, supposed: self.supposed, end, line, is_whole }
    }
}

impl Reading {
    /// False: the text must be read in one piece.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// True if all that was read stands among the same things as what follows.
    pub fn is_among(&self, inside: &Surroundings) -> bool {
        self.end.are(inside)
    }

    pub fn errors(&self) -> u64 {
        self.report.errors
    }

    /// This part together with the one behind it.
    pub fn and(mut self, next: Reading, options: &Options) -> Reading {
        let (all, more) = (&mut self.report, next.report);
        let (errors, warnings) = (all.errors + more.errors, all.warnings + more.warnings);
        for problem in more.problems {
            if all.count(problem.severity, options.problems_max) {
                all.problems.push(problem);
            }
        }
        all.records += more.records;
        (all.errors, all.warnings) = (errors, warnings);
        let is_whole = self.is_whole && next.is_whole && self.end.are(&next.supposed);
        Reading { end: next.end, line: next.line, is_whole, ..self }
    }
}

/// The report on the whole text from those on its parts, in their order. None: the text must be read in one piece.
pub fn join(readings: Vec<Reading>, options: &Options) -> Option<Report> {
    let Some(all) = readings.into_iter().reduce(|all, next| all.and(next, options)) else {
        return Some(Report::default());
    };
    all.is_whole.then_some(all.report)
}

impl<'p> Zone<'p> {
    pub(super) fn new(
        origin: &Name,
        files: &'p mut dyn Files,
        options: &'p Options,
        sink: &'p mut Sink<'p>,
    ) -> Zone<'p> {
        Zone {
            files,
            options,
            sink,
            report: Report::default(),
            origin: *origin,
            owner: Vec::with_capacity(wire::name::NAME_MAX),
            last: Last::None,
            ttl_default: options.default_ttl,
            ttl_last: None,
            rdata: Vec::with_capacity(512),
            suspicions: Vec::new(),
            objections: Vec::new(),
            chain: Vec::new(),
            included: 0,
            generated: 0,
            is_later_part: false,
            needs_what_was_before: false,
        }
    }
}
