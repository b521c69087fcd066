//! What is wrong with an operator's file: where it is, what it is, and what to write instead.
//!
//! A complaint keeps the line it is about, so that it can be shown after the file is gone. It never quotes more than
//! that one line.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file's text, for complaints about places in it.
pub struct Text<'a> {
    pub file: &'a Path,
    pub text: &'a str,
    /// Where its lines end, from the first place on that is asked for: as many zones as are written in it may be wrong.
    ends: OnceCell<Vec<usize>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub file: PathBuf,
    /// Counted from 1; 0 when the complaint is about the file as a whole.
    pub line: usize,
    pub column: usize,
    pub what: String,
    /// What to write instead; empty when `what` says it all.
    pub instead: String,
    /// The line, or what of a long one stands around the place.
    shown: String,
    /// Characters before the place.
    caret: usize,
    width: usize,
}

/// So many characters of a line are shown.
const SHOWN: usize = 160;

impl<'a> Text<'a> {
    pub fn new(file: &'a Path, text: &'a str) -> Text<'a> {
        Text { file, text, ends: OnceCell::new() }
    }

    /// A complaint about the octets of `span`.
    pub fn complaint(&self, span: Range<usize>, what: impl Into<String>, instead: impl Into<String>) -> Complaint {
        let start = span.start.min(self.text.len());
        let ends = self.ends.get_or_init(|| self.text.match_indices('\n').map(|(at, _)| at).collect());
        let before = ends.partition_point(|&end| end < start);
        let begin = before.checked_sub(1).map_or(0, |last| ends[last] + 1);
        let end = ends.get(before).copied().unwrap_or(self.text.len());
        let last = span.end.clamp(start, end);
        let (line, at) = (self.text[begin..end].trim_end(), self.text[begin..start].chars().count());
        let length = line.chars().count();
        let left_out = if length > SHOWN { at.saturating_sub(SHOWN / 2) } else { 0 };
        let (lead, rest) = (if left_out > 0 { "… " } else { "" }, if left_out + SHOWN < length { " …" } else { "" });
        let shown: String = line.chars().skip(left_out).take(SHOWN).collect();
        let caret = lead.chars().count() + at - left_out;
        Complaint {
            file: self.file.to_path_buf(),
            line: before + 1,
            column: at + 1,
            what: what.into(),
            instead: instead.into(),
            shown: format!("{lead}{shown}{rest}").replace('\t', " "),
            caret,
            width: self.text[start..last].chars().take(SHOWN.saturating_sub(at - left_out)).count().max(1),
        }
    }
}

impl Complaint {
    /// A place to complain about later, should it come to that.
    pub fn place(text: &Text<'_>, span: Range<usize>) -> Complaint {
        text.complaint(span, "", "")
    }

    /// The complaint about this place.
    pub fn saying(&self, what: impl Into<String>, instead: impl Into<String>) -> Complaint {
        Complaint { what: what.into(), instead: instead.into(), ..self.clone() }
    }

    /// A complaint about a file as a whole: it is missing, or cannot be read.
    pub fn about(file: &Path, what: impl Into<String>, instead: impl Into<String>) -> Complaint {
        Complaint {
            file: file.to_path_buf(),
            line: 0,
            column: 0,
            what: what.into(),
            instead: instead.into(),
            shown: String::new(),
            caret: 0,
            width: 0,
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        if self.line == 0 {
            write!(f, "{file}: error: {}", self.what)?;
        } else {
            writeln!(f, "{file}:{}:{}: error: {}", self.line, self.column, self.what)?;
            writeln!(f, "    {}", self.shown)?;
            write!(f, "    {}{}", " ".repeat(self.caret), "^".repeat(self.width))?;
        }
        if self.instead.is_empty() { Ok(()) } else { write!(f, "\n    {}", self.instead) }
    }
}

/// The word of `known` that the operator may have meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + word.len() / 4;
    known.into_iter().map(|k| (distance(word, k), k)).filter(|&(d, _)| d <= limit).min().map(|(_, k)| k)
}

/// How many letters must be put in, taken out, replaced or swapped with their neighbour to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_shows_its_line_with_a_caret() {
        let text = Text::new(Path::new("dunlin.toml"), "[server]\n  lisen = 1\n");
        let c = text.complaint(11..16, "there is no key `lisen` in [server]", "did you mean `listen`?");
        let expect = "dunlin.toml:2:3: error: there is no key `lisen` in [server]\n      lisen = 1\n      ^^^^^\n    did you mean `listen`?";
        assert_eq!(c.to_string(), expect);
    }

    #[test]
    fn a_span_over_several_lines_is_marked_on_its_first() {
        let text = Text::new(Path::new("a"), "x = [\n1,\n]\n");
        assert!(text.complaint(4..10, "w", "").to_string().ends_with("    x = [\n        ^"));
    }

    #[test]
    fn of_a_long_line_the_surroundings_are_shown() {
        let line = format!("{}x{}", "a".repeat(300), "b".repeat(300));
        let text = Text::new(Path::new("a"), &line);
        let expect =
            format!("a:1:301: error: w\n    … {}x{} …\n    {}^", "a".repeat(80), "b".repeat(79), " ".repeat(82));
        assert_eq!(text.complaint(300..301, "w", "").to_string(), expect);
        let at_its_beginning = text.complaint(0..600, "w", "").to_string();
        assert!(
            at_its_beginning.ends_with(&format!("\n    {} …\n    {}", "a".repeat(160), "^".repeat(160))),
            "{at_its_beginning}"
        );
    }

    #[test]
    fn the_nearest_word_is_near() {
        for (word, expect) in
            [("lisen", Some("listen")), ("listne", Some("listen")), ("worker", Some("workers")), ("colour", None)]
        {
            assert_eq!(nearest(word, ["listen", "workers", "user"]), expect, "{word}");
        }
    }
}
