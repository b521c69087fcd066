//! A file of queries, `name type` a line as dnsperf reads it, sent again from its start when it ends.
//!
//! The file is read in pieces while it is sent: the start takes no longer for ten million names than for ten, and the
//! memory is that of one piece. Lines that are no queries are counted, and the first is shown.

use crate::question::{self, BadLine};
use crate::shape::QUESTION_MAX;
use std::fs::File;
use std::io::{self, Read, Seek};

const PIECE: usize = 256 << 10;

/// A line that is no query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub line: u64,
    pub text: String,
    pub bad: BadLine,
}

pub struct QueryFile {
    path: String,
    /// None: all of it is in the buffer.
    file: Option<File>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    line: u64,
    passes: u64,
    found: bool,
    failed: Option<io::Error>,
    pub skipped: u64,
    pub first_skipped: Option<Skipped>,
}

impl QueryFile {
    /// Opens a file; `-` is the standard input. It must hold a query.
    pub fn open(path: &str) -> Result<QueryFile, String> {
        let unreadable = |e: io::Error| format!("{path}: cannot be read: {e}");
        let mut own = QueryFile {
            path: path.to_string(),
            file: None,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            line: 0,
            passes: 0,
            found: false,
            failed: None,
            skipped: 0,
            first_skipped: None,
        };
        if path == "-" {
            io::stdin().lock().read_to_end(&mut own.buffer).map_err(unreadable)?;
        } else {
            let mut file = File::open(path).map_err(unreadable)?;
            let facts = file.metadata().map_err(unreadable)?;
            if facts.is_file() {
                (own.file, own.buffer) = (Some(file), vec![0; PIECE]);
            } else {
                file.read_to_end(&mut own.buffer).map_err(unreadable)?;
            }
        }
        own.end = if own.file.is_some() { 0 } else { own.buffer.len() };
        own.holds_a_query()?;
        Ok(own)
    }

    /// Reads up to the first query, then goes back.
    fn holds_a_query(&mut self) -> Result<(), String> {
        let found = self.next(&mut [0; QUESTION_MAX]);
        if let Some(e) = self.failed.take() {
            return Err(format!("{}: cannot be read: {e}", self.path));
        }
        if found == 0 {
            return Err(match &self.first_skipped {
                Some(s) => format!("{}:{}\n{}:1:1: it holds no query", self.path, self.describe(s), self.path),
                None => format!("{}:1:1: it holds no query: write `name type`, one a line", self.path),
            });
        }
        self.rewind();
        (self.passes, self.skipped, self.first_skipped, self.found) = (0, 0, None, false);
        Ok(())
    }

    /// `LINE:COLUMN: why`, the line, and a caret.
    pub fn describe(&self, skipped: &Skipped) -> String {
        let Skipped { line, text, bad } = skipped;
        let column = String::from_utf8_lossy(text.as_bytes().get(..bad.at).unwrap_or_default()).chars().count();
        format!("{line}:{}: {}\n  {text}\n  {}^", column + 1, bad.why, " ".repeat(column))
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// How often the file's end was passed.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// The next question; 0 only where the file holds none (any more).
    #[inline]
    pub fn next(&mut self, out: &mut [u8; QUESTION_MAX]) -> usize {
        loop {
            let Some((from, to)) = self.next_line() else {
                if !self.found || self.failed.is_some() {
                    return 0;
                }
                self.passes += 1;
                self.found = false;
                self.rewind();
                continue;
            };
            match question::from_line(&self.buffer[from..to], out) {
                Ok(0) => {}
                Ok(len) => {
                    self.found = true;
                    return len;
                }
                Err(bad) => self.skip(from, to, bad),
            }
        }
    }

    fn rewind(&mut self) {
        self.line = 0;
        match &mut self.file {
            Some(file) => {
                (self.start, self.end) = (0, 0);
                self.failed = file.rewind().err();
            }
            None => self.start = 0,
        }
    }

    #[cold]
    fn skip(&mut self, from: usize, to: usize, bad: BadLine) {
        if self.passes == 0 {
            self.skipped += 1;
        }
        if self.first_skipped.is_none() {
            let shown = &self.buffer[from..to.min(from + 200)];
            self.first_skipped =
                Some(Skipped { line: self.line, text: String::from_utf8_lossy(shown).into_owned(), bad });
        }
    }

    /// The place of the next line in the buffer; None at the end.
    #[inline]
    fn next_line(&mut self) -> Option<(usize, usize)> {
        loop {
            let rest = &self.buffer[self.start..self.end];
            if let Some(len) = rest.iter().position(|c| *c == b'\n') {
                let from = self.start;
                self.start += len + 1;
                self.line += 1;
                return Some((from, from + len));
            }
            let is_full = rest.len() == self.buffer.len();
            if is_full || !self.refill() {
                let from = self.start;
                self.start = self.end;
                self.line += u64::from(from < self.end);
                return (from < self.end).then_some((from, self.end));
            }
        }
    }

    /// Moves what is left to the front and reads behind it; false at the end of the file.
    fn refill(&mut self) -> bool {
        let Some(file) = &mut self.file else { return false };
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        match file.read(&mut self.buffer[self.end..]) {
            Ok(n) => {
                self.end += n;
                n > 0
            }
            Err(e) => {
                self.failed = Some(e);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is open stays readable without a name.
    fn open(name: &str, text: &[u8]) -> Result<QueryFile, String> {
        let path = std::env::temp_dir().join(format!("dunlin-load-file-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let file = QueryFile::open(path.to_str().unwrap());
        std::fs::remove_file(path).unwrap();
        file
    }

    fn next(file: &mut QueryFile) -> String {
        let mut out = [0; QUESTION_MAX];
        let n = file.next(&mut out);
        question::text(&out[..n])
    }

    #[test]
    fn a_file_is_sent_again_and_again_without_its_bad_lines() {
        let mut file = open("again", b"; remark\n\na.x A\nb.x\r\nc..x A\nd.x MX").unwrap();
        for _ in 0..3 {
            assert_eq!([next(&mut file), next(&mut file)], ["a.x. A", "d.x. MX"]);
        }
        assert_eq!(file.skipped, 2);
        let first = file.first_skipped.clone().unwrap();
        assert_eq!(first.line, 4);
        assert!(file.describe(&first).starts_with("4:5: a type is missing"), "{}", file.describe(&first));
    }

    #[test]
    fn lines_across_pieces_are_whole() {
        let lines: Vec<String> = (0..40_000).map(|i| format!("host-{i}.example.com. AAAA")).collect();
        let mut file = open("pieces", (lines.join("\n") + "\n").as_bytes()).unwrap();
        for _ in 0..2 {
            assert!(lines.iter().all(|line| next(&mut file) == *line));
        }
    }

    #[test]
    fn a_line_longer_than_a_piece_is_no_query() {
        let mut file = open("long", &[&vec![b'x'; PIECE * 3][..], b"\na.x A\n"].concat()).unwrap();
        assert_eq!(next(&mut file), "a.x. A");
        assert!(file.skipped > 0);
    }

    #[test]
    fn without_a_query_it_cannot_start() {
        for (name, text, says) in [
            ("empty", &b""[..], "it holds no query: write `name type`"),
            ("remarks", b"# a\n\n", "it holds no query"),
            ("bad", b"# a\nname\n", ":2:5: a type is missing"),
        ] {
            let error = open(name, text).err().unwrap();
            assert!(error.contains(says), "{error}");
        }
        assert!(QueryFile::open("/nowhere/at/all").err().unwrap().contains("cannot be read"));
        assert!(QueryFile::open("/").is_err());
    }
}
