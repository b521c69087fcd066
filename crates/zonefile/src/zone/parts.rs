//! A text in parts that can be read side by side. Starts no thread: whoever has several processors gives one part to each.
//!
//! Where a part begins, nobody knows yet what the text before it says: so each part is read on the supposition that origin
//! and default TTL are there as they are after the first lines of the text. `join` looks whether that came true. If it did
//! not, or if a part needed more of what stands before it, the text must be read in one piece; nothing is guessed.

use super::{Files, Last, NoFiles, Options, Record, Report, Sink, Source, Zone};
use crate::problem::Place;
use wire::Name;

/// How much of the text is read to know what holds in the rest.
const HEAD: usize = 1 << 16;

/// What the text before a place says of the records behind it.
#[derive(Clone, Copy)]
struct Surroundings {
    origin: Name,
    ttl_default: Option<u32>,
}

impl Surroundings {
    /// Octet for octet: the case of an origin goes into records.
    fn are(&self, other: &Surroundings) -> bool {
        self.origin.bytes() == other.origin.bytes() && self.ttl_default == other.ttl_default
    }
}

/// A part of a text, from the beginning of a line to that of another.
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
    /// The part did not need what stands outside it.
    is_whole: bool,
}

/// The parts of a text, `n` at most, each about as long as the others.
pub fn parts<'t>(text: &'t [u8], origin: &Name, options: &Options, n: usize) -> Vec<Part<'t>> {
    let start = Surroundings { origin: *origin, ttl_default: options.default_ttl };
    let inside = after_head(text, start, options);
    let mut parts: Vec<Part<'t>> = Vec::with_capacity(n);
    let (mut at, mut line) = (0, 1);
    for i in 1..=n {
        let end = if i == n { text.len() } else { border(text, (text.len() / n * i).max(at)) };
        if end > at {
            let supposed = if at == 0 { start } else { inside };
            parts.push(Part { text: &text[..end], at, line, supposed });
            let counted = if i == n { end } else { at };
            let lines = text[counted..end].iter().filter(|&&c| c == b'\n').count();
            line = line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
            at = end;
        }
    }
    parts
}

/// The beginning of the first line from `from` on that names an owner.
fn border(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(line_end) = text[at..].iter().position(|&c| c == b'\n') {
        at += line_end + 1;
        if text.get(at).is_some_and(|c| c.is_ascii_alphanumeric()) {
            return at;
        }
    }
    text.len()
}

fn after_head(text: &[u8], start: Surroundings, options: &Options) -> Surroundings {
    let head = Part { text: &text[..border(text, text.len().min(HEAD))], at: 0, line: 1, supposed: start };
    let quiet = Options { problems_max: 0, ..*options };
    head.read("", &mut NoFiles, &quiet, &mut |_: Record<'_>, _: &Place| Ok(())).end
}

impl Part<'_> {
    /// True for the part that the text begins with: the only one that may include files.
    pub fn is_first(&self) -> bool {
        self.at == 0
    }

    /// Reads the part as `parse` reads a whole text.
    pub fn read(&self, file: &str, files: &mut dyn Files, options: &Options, sink: &mut Sink<'_>) -> Reading {
        let mut zone = Zone::new(&self.supposed.origin, files, options, sink);
        zone.ttl_default = self.supposed.ttl_default;
        zone.is_later_part = !self.is_first();
        let unclosed = zone.source_from(&Source { file: file.into(), text: self.text }, self.at, self.line);
        let is_whole = !zone.needs_what_was_before && unclosed == 0;
        let end = Surroundings { origin: zone.origin, ttl_default: zone.ttl_default };
        Reading { report: zone.report, supposed: self.supposed, end, is_whole }
    }
}

/// The report on the whole text from those on its parts, in their order. None: the text must be read in one piece.
pub fn join(readings: Vec<Reading>, options: &Options) -> Option<Report> {
    let fits = |w: &[Reading]| w[0].end.are(&w[1].supposed);
    if !readings.iter().all(|r| r.is_whole) || !readings.windows(2).all(fits) {
        return None;
    }
    let mut all = Report::default();
    for Reading { report, .. } in readings {
        let (errors, warnings) = (all.errors + report.errors, all.warnings + report.warnings);
        for problem in report.problems {
            if all.count(problem.severity, options.problems_max) {
                all.problems.push(problem);
            }
        }
        all.records += report.records;
        (all.errors, all.warnings) = (errors, warnings);
    }
    Some(all)
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
            is_later_part: false,
            needs_what_was_before: false,
        }
    }
}
