//! Entries to records: owners, origins, times to live, directives. One pass; an error costs its own record and no other.
//!
//! A record without a TTL takes that of `$TTL`; without `$TTL`, the last one stated (RFC 1035 section 5.1); a SOA before any
//! of these takes its own minimum, which then is the default of the file, as in BIND; anything else is an error.

use crate::generate;
use crate::name;
use crate::number;
use crate::problem::{Flaw, Objection, Place, Problem, Report, Severity, locate};
use crate::rdata;
use crate::rtypes;
use crate::scan::{Entry, Scanner, Shape, Start, Token, Tokens};
use crate::string;
use std::sync::Arc;
use wire::Name;

/// A record as it stood in the text: wire form, uncompressed, case as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub owner: &'a [u8],
    pub rtype: u16,
    pub class: u16,
    pub ttl: u32,
    pub rdata: &'a [u8],
}

/// Where included files come from.
pub trait Files {
    /// The contents of `path`, which is relative to the directory of `from`; or why there are none.
    fn include(&mut self, from: &str, path: &str) -> Result<Vec<u8>, String>;
}

/// For texts that may not include any.
pub struct NoFiles;

impl Files for NoFiles {
    fn include(&mut self, _from: &str, _path: &str) -> Result<Vec<u8>, String> {
        Err("no file may be included here".to_string())
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// As if `$TTL` stood before the first line.
    pub default_ttl: Option<u32>,
    /// Problems of a severity that are kept in the report; the rest are counted only.
    pub problems_max: usize,
    /// Steps of one `$GENERATE`.
    pub generate_max: u32,
    /// Steps of all of them.
    pub generated_max: u32,
    pub include_depth_max: usize,
    /// Files that are included, each counted as often as it is: ten of ten of ten would be more than ever ends.
    pub includes_max: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            default_ttl: None,
            problems_max: 1000,
            generate_max: 65_536,
            generated_max: 1 << 24,
            include_depth_max: 10,
            includes_max: 10_000,
        }
    }
}

type Sink<'p> = dyn FnMut(Record<'_>, &Place) -> Result<(), Vec<Objection>> + 'p;

/// Reads all of `text` and calls `sink` for each good record. After an error it goes on with the next record; what the sink
/// objects to becomes problems at the record's place.
pub fn parse(
    file: &str,
    text: &[u8],
    origin: &Name,
    files: &mut dyn Files,
    options: &Options,
    sink: &mut Sink<'_>,
) -> Report {
    let mut zone = Zone::new(origin, files, options, sink);
    zone.source(&Source { file: file.into(), text });
    zone.report
}

struct Source<'t> {
    file: Arc<str>,
    text: &'t [u8],
}

/// What a line that begins with a space may take as its owner.
#[derive(Clone, Copy)]
enum Last {
    None,
    Known,
    /// The line that named it was wrong: its records would go to somebody else.
    Lost,
}

struct Zone<'p> {
    files: &'p mut dyn Files,
    options: &'p Options,
    sink: &'p mut Sink<'p>,
    report: Report,
    origin: Name,
    owner: Vec<u8>,
    last: Last,
    ttl_default: Option<u32>,
    ttl_last: Option<u32>,
    rdata: Vec<u8>,
    /// Of the entry at hand; the caller who knows its place turns them into warnings.
    suspicions: Vec<Flaw>,
    /// What the sink has against the entry at hand.
    objections: Vec<Objection>,
    /// The files that are being read, outermost first.
    chain: Vec<Arc<str>>,
    /// How many have been.
    included: u32,
    /// Steps of `$GENERATE`.
    generated: u32,
    /// What stands before the text is not known.
    is_later_part: bool,
    /// And it would have to be.
    needs_what_was_before: bool,
}

struct Head {
    ttl: Option<u32>,
    rtype: u16,
}

impl<'p> Zone<'p> {
    fn source(&mut self, source: &Source<'_>) {
        self.source_from(source, 0, 1);
    }

    /// Reads from a line on; returns the number of the line behind the text, and how many parentheses were never closed.
    fn source_from(&mut self, source: &Source<'_>, at: usize, line: u32) -> (u32, u32) {
        self.chain.push(source.file.clone());
        let mut scanner = Scanner::from(source.text, at, line);
        let mut tokens = Vec::new();
        let mut place = Place { file: source.file.clone(), line: 1, column: 1 };
        while let Some((entry, outcome)) = scanner.entry(&mut tokens) {
            match outcome {
                Ok(()) => self.entry(source, &entry, &tokens, &mut place),
                Err(flaw) => {
                    if entry.start == Start::Owner {
                        self.last = Last::Lost;
                    }
                    self.problem(source, &entry, Severity::Error, flaw);
                }
            }
        }
        self.chain.pop();
        (scanner.line, scanner.unclosed)
    }

    fn entry(&mut self, source: &Source<'_>, entry: &Entry, tokens: &[Token<'_>], place: &mut Place) {
        let Some(first) = tokens.first() else { return };
        place.line = entry.line;
        place.column = u32::try_from(first.at - entry.at + 1).unwrap_or(u32::MAX);
        let is_directive =
            entry.start == Start::Owner && first.text.first() == Some(&b'$') && first.shape == Shape::Plain;
        let outcome =
            if is_directive { self.directive(source, tokens, place) } else { self.record(tokens, entry.start, place) };
        if !self.suspicions.is_empty() {
            for flaw in std::mem::take(&mut self.suspicions) {
                self.problem(source, entry, Severity::Warning, flaw);
            }
        }
        for Objection { severity, name, what, instead } in std::mem::take(&mut self.objections) {
            self.named_problem(source, entry, (severity, name), Flaw::new(first.at, what).instead(instead));
        }
        if let Err(flaw) = outcome {
            self.problem(source, entry, Severity::Error, flaw);
        }
    }

    fn problem(&mut self, source: &Source<'_>, entry: &Entry, severity: Severity, flaw: Flaw) {
        self.named_problem(source, entry, (severity, "syntax"), flaw);
    }

    fn named_problem(
        &mut self,
        source: &Source<'_>,
        entry: &Entry,
        (severity, name): (Severity, &'static str),
        flaw: Flaw,
    ) {
        if self.report.count(severity, self.options.problems_max) {
            let (line, column, line_text, caret) = locate(source.text, entry.at, entry.line, flaw.at);
            let place = Place { file: source.file.clone(), line, column };
            let (what, instead) = (flaw.what, flaw.instead);
            self.report.problems.push(Problem { severity, name, place, line_text, caret, what, instead });
        }
    }

    fn record(&mut self, list: &[Token<'_>], start: Start, place: &Place) -> Result<(), Flaw> {
        let mut tokens = Tokens::new(list, end_of(list));
        if start == Start::Owner {
            self.read_owner(&mut tokens)?;
        }
        let at = tokens.at();
        let head = self.head(&mut tokens)?;
        self.rdata.clear();
        let suspicions = rdata::from_text(head.rtype, &mut tokens, &self.origin, &mut self.rdata)?;
        self.suspicions.extend(suspicions);
        let ttl = self.ttl(&head, at)?;
        match self.last {
            Last::Known => {}
            Last::Lost => return Ok(()),
            Last::None => {
                return Err(Flaw::new(at, "a record without an owner, and none before it").instead("a name, or @"));
            }
        }
        let record = Record { owner: &self.owner, rtype: head.rtype, class: 1, ttl, rdata: &self.rdata };
        match (self.sink)(record, place) {
            Ok(()) => self.report.records += 1,
            Err(objections) => {
                // A line of $GENERATE makes many records.
                let room = self.options.problems_max.saturating_sub(self.objections.len());
                self.objections.extend(objections.into_iter().take(room));
            }
        }
        Ok(())
    }

    fn read_owner(&mut self, tokens: &mut Tokens<'_, '_>) -> Result<(), Flaw> {
        self.last = Last::Lost;
        let token = tokens.want("owner")?;
        self.owner.clear();
        name::read(&token, &self.origin, &mut self.owner)?;
        self.suspicions.extend(name::doubled_origin(&token, &self.owner, &self.origin));
        self.last = Last::Known;
        Ok(())
    }

    /// TTL and class in either order, then the type.
    fn head(&mut self, tokens: &mut Tokens<'_, '_>) -> Result<Head, Flaw> {
        let (mut ttl, mut has_class) = (None, false);
        loop {
            let token = tokens.want("type")?;
            name::unquoted(&token)?;
            if ttl.is_none() && number::looks_like_ttl(&token) {
                ttl = Some(number::ttl(&token, "TTL", number::TTL_MAX)?);
                self.ttl_last = ttl;
            } else if !has_class && token.text == b"IN" {
                has_class = true;
            } else if let Some(rtype) = rtypes::from_mnemonic(token.text) {
                return if is_data(rtype) { Ok(Head { ttl, rtype }) } else { Err(not_data(&token)) };
            } else if !has_class && let Some(class) = rtypes::class_from_mnemonic(token.text) {
                if class != 1 {
                    return Err(Flaw::new(token.at, "a class other than IN").instead("IN, or no class"));
                }
                has_class = true;
            } else {
                return Err(unknown_type(&token));
            }
        }
    }

    fn ttl(&mut self, head: &Head, at: usize) -> Result<u32, Flaw> {
        if let Some(ttl) = head.ttl.or(self.ttl_default).or(self.ttl_last) {
            return Ok(ttl);
        }
        self.needs_what_was_before |= self.is_later_part;
        if head.rtype == wire::rtype::SOA
            && let Some(&minimum) = self.rdata.last_chunk::<4>()
        {
            let ttl = u32::from_be_bytes(minimum).min(number::TTL_MAX);
            self.ttl_default = Some(ttl);
            let what = format!("no TTL is stated: that of the SOA and of what follows is its minimum, {ttl}");
            self.suspicions.push(Flaw::new(at, what).instead(format!("$TTL {ttl} as the first line")));
            return Ok(ttl);
        }
        // Said once: all records that follow have the same fault.
        self.ttl_last = Some(0);
        Err(Flaw::new(at, "no TTL: neither here, nor by $TTL, nor in a record before")
            .instead("$TTL 3600 as the first line"))
    }

    fn directive(&mut self, source: &Source<'_>, list: &[Token<'_>], place: &Place) -> Result<(), Flaw> {
        let mut tokens = Tokens::new(list, end_of(list));
        let word = tokens.want("directive")?;
        match word.text.to_ascii_uppercase().as_slice() {
            b"$ORIGIN" => {
                let token = tokens.want("origin")?;
                self.origin = name::whole(&token, &self.origin)?;
            }
            b"$TTL" => self.ttl_default = Some(number::ttl(&tokens.want("TTL")?, "TTL", number::TTL_MAX)?),
            b"$INCLUDE" => return self.include(source, &mut tokens),
            b"$GENERATE" => return self.generate(&mut tokens, place),
            _ => {
                return Err(Flaw::new(word.at, "an unknown directive")
                    .instead("$ORIGIN, $TTL, $INCLUDE or $GENERATE; \\$ where an owner begins with it"));
            }
        }
        finish(&mut tokens)
    }

    fn include(&mut self, source: &Source<'_>, tokens: &mut Tokens<'_, '_>) -> Result<(), Flaw> {
        let token = tokens.want("file")?;
        let mut path = Vec::new();
        string::unescape(&token, &mut path)?;
        let path = String::from_utf8_lossy(&path).into_owned();
        let origin = tokens.next().map(|token| name::whole(&token, &self.origin)).transpose()?;
        finish(tokens)?;
        self.needs_what_was_before |= self.is_later_part;
        if self.chain.len() > self.options.include_depth_max {
            let what = format!("included files nest deeper than {}", self.options.include_depth_max);
            return Err(Flaw::new(token.at, what));
        }
        let file: Arc<str> = beside(&source.file, &path).into();
        if self.chain.contains(&file) {
            return Err(Flaw::new(token.at, "a file that includes itself"));
        }
        if self.included == self.options.includes_max {
            let what = format!("more than {} files are included", self.options.includes_max);
            return Err(Flaw::new(token.at, what));
        }
        self.included += 1;
        let text = self.files.include(&source.file, &path).map_err(|why| Flaw::new(token.at, why))?;
        // RFC 1035 section 5.1: an included file changes the origin of nobody else; the same holds for the last owner.
        let before = (self.origin, self.owner.clone(), self.last);
        self.origin = origin.unwrap_or(self.origin);
        self.source(&Source { file, text: &text });
        (self.origin, self.owner, self.last) = before;
        Ok(())
    }

    fn generate(&mut self, tokens: &mut Tokens<'_, '_>, place: &Place) -> Result<(), Flaw> {
        self.needs_what_was_before |= self.is_later_part;
        let range = generate::range(&tokens.want("range")?, self.options.generate_max)?;
        let at = tokens.at();
        let template = generate::template(tokens);
        let mut text = Vec::new();
        for step in range {
            if self.generated == self.options.generated_max {
                let what = format!("more than {} records are generated", self.options.generated_max);
                return Err(Flaw::new(at, what));
            }
            self.generated += 1;
            text.clear();
            generate::expand(&template, step, &mut text).map_err(|why| Flaw::new(at, why).instead(generate::ADVICE))?;
            // The first wrong step is enough: its fault is that of the line.
            self.generated(&text, place).map_err(|flaw| {
                let what = format!("step {step}, {}: {}", String::from_utf8_lossy(&text), flaw.what);
                Flaw::new(at, what).instead(flaw.instead)
            })?;
            self.suspicions.clear();
            if self.objections.iter().any(|o| o.severity == Severity::Error) {
                break;
            }
        }
        Ok(())
    }

    fn generated(&mut self, text: &[u8], place: &Place) -> Result<(), Flaw> {
        let list = crate::scan::tokens(text)?;
        self.record(&list, Start::Owner, place)
    }
}

fn end_of(list: &[Token<'_>]) -> usize {
    list.last().map_or(0, |t| t.at + t.text.len())
}

fn finish(tokens: &mut Tokens<'_, '_>) -> Result<(), Flaw> {
    match tokens.next() {
        Some(token) => Err(Flaw::new(token.at, "more than the directive takes").instead("; before a comment")),
        None => Ok(()),
    }
}

/// The path of an included file as messages name it, and as what it includes in turn is relative to.
fn beside(from: &str, path: &str) -> String {
    match from.rsplit_once('/') {
        Some((directory, _)) if !path.starts_with('/') => format!("{directory}/{path}"),
        _ => path.to_string(),
    }
}

fn is_data(rtype: u16) -> bool {
    !wire::rtype::is_meta(rtype)
}

fn not_data(token: &Token<'_>) -> Flaw {
    let what = format!("{} stands in messages only, never in a zone", token.text.escape_ascii());
    Flaw::new(token.at, what).instead("a type that holds data")
}

fn unknown_type(token: &Token<'_>) -> Flaw {
    let flaw = Flaw::new(token.at, format!("{} is no type", token.text.escape_ascii()));
    if token.text.first() == Some(&b'$') {
        return flaw.instead("a directive at the very beginning of its line");
    }
    if let Some(mnemonic) = rtypes::nearest(token.text) {
        return flaw.instead(mnemonic);
    }
    flaw.instead("[TTL] [IN] and a type: a mnemonic such as AAAA, or TYPE and a number")
}

mod parts;
pub use parts::{HEAD, Part, Reading, Surroundings, border, join, parts};

#[cfg(test)]
mod tests;
