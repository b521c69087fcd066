//! What is wrong with a text, where, and what to write instead. Knows nothing of DNS.

use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<str>,
    pub line: u32,
    /// In octets, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// What whoever takes the records has against one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    pub severity: Severity,
    pub name: &'static str,
    pub what: String,
    /// May be empty.
    pub instead: String,
}

impl Objection {
    /// The one objection to a record that cannot be taken.
    pub fn refusal(what: String) -> Vec<Objection> {
        vec![Objection { severity: Severity::Error, name: "refused", what, instead: String::new() }]
    }
}

/// A flaw found in a piece of text, not yet placed in a file. `at` is an offset into that text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    pub at: usize,
    pub what: String,
    pub instead: String,
}

impl Flaw {
    pub fn new(at: usize, what: impl Into<String>) -> Flaw {
        Flaw { at, what: what.into(), instead: String::new() }
    }

    pub fn instead(mut self, advice: impl Into<String>) -> Flaw {
        self.instead = advice.into();
        self
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.instead.is_empty() { Ok(()) } else { write!(f, "; write instead: {}", self.instead) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// The kind, for programs: "syntax", or what an objection calls itself.
    pub name: &'static str,
    pub place: Place,
    /// The line, or where it is long the part of it around the column.
    pub line_text: String,
    /// The character of `line_text` that the caret stands under, from 0.
    pub caret: usize,
    pub what: String,
    /// May be empty.
    pub instead: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}: {}", self.place, self.severity.word(), self.what)?;
        writeln!(f, "    {}", self.line_text)?;
        write!(f, "    ")?;
        for c in self.line_text.chars().take(self.caret) {
            // A tab stays a tab, so that the caret stands right whatever the width of tabs.
            write!(f, "{}", if c == '\t' { '\t' } else { ' ' })?;
        }
        write!(f, "^")?;
        if self.instead.is_empty() { Ok(()) } else { write!(f, "\n    write instead: {}", self.instead) }
    }
}

/// What became of a text. `problems` holds the first `Options::problems_max` of each severity; the counts hold all.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub records: u64,
    pub errors: u64,
    pub warnings: u64,
    pub problems: Vec<Problem>,
}

impl Report {
    /// The first error, what to write instead, and how many there are besides. None: there is none; a text of which none was kept has one all
    /// the same.
    pub fn first_error(&self) -> Option<String> {
        if self.errors == 0 {
            return None;
        }
        let first = self.problems.iter().find(|p| p.severity == Severity::Error);
        let between = |p: &Problem| if p.instead.is_empty() { "" } else { "; write instead: " };
        let said = first.map_or(String::new(), |p| format!("{}: {}{}{}", p.place, p.what, between(p), p.instead));
        Some(match self.errors {
            1 => said,
            2 => said + " (and 1 error more)",
            n => format!("{said} (and {} errors more)", n - 1),
        })
    }

    /// Counts a problem; true if it is to be kept.
    pub(crate) fn count(&mut self, severity: Severity, kept_max: usize) -> bool {
        let count = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        *count <= kept_max as u64
    }
}

/// Longest piece of a line that a problem shows.
const SHOWN_MAX: usize = 160;

/// Line (counted from that of `from`), column, the line's text as shown, and the caret in it.
pub(crate) fn locate(text: &[u8], from: usize, line: u32, at: usize) -> (u32, u32, String, usize) {
    let at = at.min(text.len());
    let from = from.min(at);
    let lines = text[from..at].iter().filter(|&&c| c == b'\n').count();
    let start = text[..at].iter().rposition(|&c| c == b'\n').map_or(0, |i| i + 1);
    let end = text[at..].iter().position(|&c| c == b'\n').map_or(text.len(), |i| at + i);
    let column = at - start;
    let (shown_from, lead) = if column > SHOWN_MAX * 3 / 4 { (at - SHOWN_MAX / 2, "...") } else { (start, "") };
    let shown_to = end.min(shown_from + SHOWN_MAX);
    let before = printable(&text[shown_from..at]);
    let shown = format!("{lead}{before}{}", printable(&text[at..shown_to.max(at)]));
    let caret = lead.len() + before.chars().count();
    let column = u32::try_from(column + 1).unwrap_or(u32::MAX);
    (line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX)), column, shown.trim_end().to_string(), caret)
}

/// Control characters would move the caret, or a terminal: a question mark stands for each.
fn printable(octets: &[u8]) -> String {
    let keep = |c: char| if c.is_control() && c != '\t' { '?' } else { c };
    String::from_utf8_lossy(octets).trim_end_matches('\r').chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_the_line_and_a_caret() {
        let text = b"a\n\tb c x\nd";
        let (line, column, line_text, caret) = locate(text, 0, 1, 5);
        let place = Place { file: "f".into(), line, column };
        let (what, instead) = ("what".to_string(), "more".to_string());
        let problem = Problem { severity: Severity::Error, name: "syntax", place, line_text, caret, what, instead };
        assert_eq!(problem.to_string(), "f:2:4: error: what\n    \tb c x\n    \t  ^\n    write instead: more");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_column_is_shown() {
        let text = [b"x".repeat(70_000), b"!".to_vec(), b"y".repeat(70_000)].concat();
        let (_, column, shown, caret) = locate(&text, 0, 1, 70_000);
        assert_eq!(column, 70_001);
        assert_eq!(shown.chars().nth(caret), Some('!'));
        assert!(shown.len() < 200);
    }

    #[test]
    fn an_offset_past_the_end_is_placed_at_the_end() {
        assert_eq!(locate(b"ab", 9, 3, 9), (3, 3, "ab".to_string(), 2));
        assert_eq!(locate(b"", 0, 1, 0), (1, 1, String::new(), 0));
    }
}
