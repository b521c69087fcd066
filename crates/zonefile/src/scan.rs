//! Text to tokens, one entry (record or directive) at a time. Where words end is found for 64 octets at once. Tokens are slices of the text: nothing is copied, escapes stand
//! as they were written and whoever reads a token undoes them. Knows parentheses, quotes and comments, but no records.
//!
//! Stricter than RFC 1035 section 5.1 in one thing: a string must be closed on its line. BIND and Knot want that too, because
//! otherwise a forgotten quote takes the records behind it into the string.

use crate::problem::Flaw;
use wire::cpu::{BLOCK, WordEnds, word_ends};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Plain,
    /// Stood between quotes, which are not part of `text`.
    Quoted,
    /// Quoted, with no space before it: the value in `alpn="h2,h3"`.
    Glued,
}

#[derive(Clone, Copy, Debug)]
pub struct Token<'t> {
    /// As written, escapes included.
    pub text: &'t [u8],
    /// Offset of `text` in the whole.
    pub at: usize,
    pub shape: Shape,
}

/// The tokens of one entry and which of them is next.
#[derive(Clone, Debug)]
pub struct Tokens<'r, 't> {
    list: &'r [Token<'t>],
    next: usize,
    end: usize,
}

impl<'r, 't> Tokens<'r, 't> {
    /// `end` is the offset at which something missing is reported.
    pub fn new(list: &'r [Token<'t>], end: usize) -> Tokens<'r, 't> {
        Tokens { list, next: 0, end }
    }

    pub fn peek(&self) -> Option<Token<'t>> {
        self.list.get(self.next).copied()
    }

    pub fn rest(&self) -> &'r [Token<'t>] {
        self.list.get(self.next..).unwrap_or(&[])
    }

    /// Where the next token stands, or where one would have to.
    pub fn at(&self) -> usize {
        self.peek().map_or(self.end, |t| t.at)
    }

    pub(crate) fn want(&mut self, what: &str) -> Result<Token<'t>, Flaw> {
        self.next().ok_or_else(|| Flaw::new(self.end, format!("the {what} is missing")))
    }
}

impl<'t> Iterator for Tokens<'_, 't> {
    type Item = Token<'t>;
    fn next(&mut self) -> Option<Token<'t>> {
        let token = self.peek()?;
        self.next += 1;
        Some(token)
    }
}

/// The tokens of a text that holds one entry; for rdata that does not come from a zone file.
pub fn tokens(text: &[u8]) -> Result<Vec<Token<'_>>, Flaw> {
    let mut list = Vec::new();
    match Scanner::new(text).entry(&mut list) {
        Some((_, Err(flaw))) => Err(flaw),
        _ => Ok(list),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Owner,
    /// The line begins with a space: the owner is the last one.
    Blank,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) at: usize,
    pub(crate) line: u32,
    pub(crate) start: Start,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Blank,
    Newline,
    Comment,
    Open,
    Close,
    Quote,
    Escape,
}

const CLASSES: [Class; 256] = {
    let mut t = [Class::Word; 256];
    t[b' ' as usize] = Class::Blank;
    t[b'\t' as usize] = Class::Blank;
    t[b'\r' as usize] = Class::Blank;
    t[b'\n' as usize] = Class::Newline;
    t[b';' as usize] = Class::Comment;
    t[b'(' as usize] = Class::Open;
    t[b')' as usize] = Class::Close;
    t[b'"' as usize] = Class::Quote;
    t[b'\\' as usize] = Class::Escape;
    t
};

/// How often a file may hold a '(' that is never closed before the rest of it is given up. Each costs a scan to the end of the
/// file, so that without a bound a hostile file would take quadratic time.
const UNCLOSED_MAX: u32 = 16;

#[derive(Default)]
struct Parentheses {
    depth: usize,
    /// Where the outermost stands.
    opened: usize,
    /// Within them a line began with a word in its first column.
    ran_on: bool,
}

impl Parentheses {
    fn note(&mut self, class: Class, at: usize) {
        match class {
            Class::Open => {
                if self.depth == 0 {
                    self.opened = at;
                }
                self.depth += 1;
            }
            Class::Close => self.depth -= 1,
            _ => {}
        }
    }
}

pub(crate) struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    pub(crate) line: u32,
    /// How many parentheses were never closed.
    pub(crate) unclosed: u32,
    word_ends: WordEnds,
    /// The block that was looked at last, by its number, and the ends in it.
    block: usize,
    ends: u64,
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Scanner<'t> {
        // A byte order mark is no part of the first owner's name.
        let at = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Scanner { text, at, line: 1, unclosed: 0, word_ends: word_ends(), block: usize::MAX, ends: 0 }
    }

    /// Scans from the beginning of a line on.
    pub(crate) fn from(text: &'t [u8], at: usize, line: u32) -> Scanner<'t> {
        if at == 0 { Scanner::new(text) } else { Scanner { at, line, ..Scanner::new(text) } }
    }

    /// The next entry, its tokens in `tokens`; None at the end. After an error the scanner stands where the next entry begins.
    pub(crate) fn entry(&mut self, tokens: &mut Vec<Token<'t>>) -> Option<(Entry, Result<(), Flaw>)> {
        tokens.clear();
        self.skip_blank_lines();
        let entry = self.entry_here();
        let mut parentheses = Parentheses::default();
        while let Some(&c) = self.text.get(self.at) {
            // Words with one blank between them are nearly all there is: two branches that can be foreseen.
            if c == b' ' {
                self.at += 1;
                continue;
            }
            let class = CLASSES[c as usize];
            if class == Class::Word {
                tokens.push(self.word());
                continue;
            }
            match class {
                Class::Word | Class::Escape => tokens.push(self.word()),
                Class::Comment => self.skip_to_line_end(),
                Class::Newline => {
                    self.step_over_line_end();
                    if parentheses.depth == 0 {
                        return Some((entry, Ok(())));
                    }
                    parentheses.ran_on |= self.is_at_word();
                }
                Class::Quote => match self.quoted(&parentheses, &entry) {
                    Ok(token) => tokens.push(token),
                    Err(flaw) => return Some((entry, Err(flaw))),
                },
                Class::Close if parentheses.depth == 0 => return Some((entry, Err(self.stray_close()))),
                class => {
                    parentheses.note(class, self.at);
                    self.at += 1;
                }
            }
        }
        match (parentheses.depth, tokens.is_empty()) {
            (0, true) => None,
            (0, false) => Some((entry, Ok(()))),
            _ => Some((entry, Err(self.unclosed(&entry, parentheses.opened)))),
        }
    }

    /// Leaves a line that holds something at its very beginning, because a space there means something.
    fn skip_blank_lines(&mut self) {
        let mut line = self.at;
        while let Some(&c) = self.text.get(self.at) {
            match CLASSES[c as usize] {
                Class::Blank => self.at += 1,
                Class::Comment => self.skip_to_line_end(),
                Class::Newline => {
                    self.step_over_line_end();
                    line = self.at;
                }
                _ => break,
            }
        }
        self.at = line;
    }

    fn step_over_line_end(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
    }

    fn entry_here(&self) -> Entry {
        let start = match self.text.get(self.at) {
            Some(b' ' | b'\t') => Start::Blank,
            _ => Start::Owner,
        };
        Entry { at: self.at, line: self.line, start }
    }

    fn is_at_word(&self) -> bool {
        self.text.get(self.at).is_some_and(|&c| CLASSES[c as usize] == Class::Word)
    }

    #[inline(always)]
    fn word(&mut self) -> Token<'t> {
        let from = self.at;
        loop {
            self.at = self.end_from(self.at);
            match self.text.get(self.at) {
                Some(b'\\') => self.skip_escape(),
                _ => break,
            }
        }
        Token { text: self.text.get(from..self.at).unwrap_or(&[]), at: from, shape: Shape::Plain }
    }

    /// The first place from `at` on at which a word ends.
    #[inline(always)]
    fn end_from(&mut self, at: usize) -> usize {
        let mut block = at / BLOCK;
        let mut ends = self.ends_of(block) & u64::MAX << (at % BLOCK);
        while ends == 0 && (block + 1) * BLOCK < self.text.len() {
            block += 1;
            ends = self.ends_of(block);
        }
        (block * BLOCK + ends.trailing_zeros() as usize).min(self.text.len())
    }

    #[inline(always)]
    fn ends_of(&mut self, block: usize) -> u64 {
        if block != self.block {
            self.block = block;
            self.ends = match self.text.get(block * BLOCK..).and_then(|rest| rest.first_chunk()) {
                Some(whole) => (self.word_ends)(whole),
                None => self.ends_of_last(block),
            };
        }
        self.ends
    }

    #[cold]
    fn ends_of_last(&self, block: usize) -> u64 {
        let mut padded = [b'\n'; BLOCK];
        let rest = self.text.get(block * BLOCK..).unwrap_or(&[]);
        padded.iter_mut().zip(rest).for_each(|(to, &from)| *to = from);
        (self.word_ends)(&padded)
    }

    /// A backslash and what it protects, except a line end: that would hide the next record.
    fn skip_escape(&mut self) {
        self.at += match self.text.get(self.at + 1) {
            None | Some(b'\n' | b'\r') => 1,
            Some(_) => 2,
        };
    }

    fn quoted(&mut self, parentheses: &Parentheses, entry: &Entry) -> Result<Token<'t>, Flaw> {
        let quote = self.at;
        let before = quote.checked_sub(1).and_then(|i| self.text.get(i)).map(|&c| CLASSES[c as usize]);
        let shape = if before == Some(Class::Word) { Shape::Glued } else { Shape::Quoted };
        self.at += 1;
        let from = self.at;
        loop {
            self.at = self.end_from(self.at);
            let Some(&c) = self.text.get(self.at) else { break };
            match c {
                b'"' => {
                    let text = self.text.get(from..self.at).unwrap_or(&[]);
                    self.at += 1;
                    return Ok(Token { text, at: from, shape });
                }
                b'\n' => break,
                b'\\' => self.skip_escape(),
                _ => self.at += 1,
            }
        }
        // Lines that look like records of their own: the fault lies with the parenthesis before them.
        if parentheses.ran_on {
            return Err(self.unclosed(entry, parentheses.opened));
        }
        self.recover(parentheses.depth);
        Err(Flaw::new(quote, "a quote that is not closed on its line")
            .instead("\"text\", or several quoted strings in parentheses, each closed on its own line"))
    }

    fn stray_close(&mut self) -> Flaw {
        let at = self.at;
        self.recover(0);
        Flaw::new(at, "a ')' without its '('")
            .instead("the line without it, or \\) where the character itself is meant")
    }

    fn unclosed(&mut self, entry: &Entry, opened: usize) -> Flaw {
        self.unclosed += 1;
        let flaw = Flaw::new(opened, "a '(' that is never closed");
        if self.unclosed >= UNCLOSED_MAX {
            self.at = self.text.len();
            return flaw.instead("')' at the end of the record; the rest of the file was not read");
        }
        let skipped = self.text.get(entry.at..opened).unwrap_or(&[]);
        self.line = entry.line.saturating_add(skipped.iter().filter(|&&c| c == b'\n').count() as u32);
        self.at = opened;
        self.recover(1);
        flaw.instead("')' at the end of the record, or \\( where the character itself is meant")
    }

    /// To the next line; out of parentheses, to the next line that does not begin with a space, because those that do
    /// are the rest of the broken record.
    fn recover(&mut self, depth: usize) {
        loop {
            self.skip_to_line_end();
            if self.at >= self.text.len() {
                return;
            }
            self.step_over_line_end();
            if depth == 0 || !matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b')')) {
                return;
            }
        }
    }

    fn skip_to_line_end(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or(&[]);
        self.at += rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::cpu::word_ends_plain;

    fn scan(text: &str) -> Vec<String> {
        let seen = scan_with(text.as_bytes(), word_ends());
        assert_eq!(seen, scan_with(text.as_bytes(), word_ends_plain), "{text:?}");
        seen
    }

    fn scan_with(text: &[u8], word_ends: WordEnds) -> Vec<String> {
        let mut scanner = Scanner { word_ends, ..Scanner::new(text) };
        let (mut tokens, mut seen) = (Vec::new(), Vec::new());
        while let Some((entry, outcome)) = scanner.entry(&mut tokens) {
            let words: Vec<_> = tokens.iter().map(|t| format!("{}", t.text.escape_ascii())).collect();
            seen.push(match outcome {
                Ok(()) => format!("{}{}", if entry.start == Start::Blank { "_ " } else { "" }, words.join("|")),
                Err(flaw) => format!("{}!", flaw.at),
            });
        }
        seen
    }

    #[test]
    fn entries_and_their_tokens() {
        let table: &[(&str, &[&str])] = &[
            ("", &[]),
            ("\n\n ; only\n;comments", &[]),
            ("a b c", &["a|b|c"]),
            ("a b;c\n\td e\r\n", &["a|b", "_ d|e"]),
            ("a ( b ; x)\n c ) d\ne", &["a|b|c|d", "e"]),
            ("a ((b)\n(c) )d\ne", &["a|b|c|d", "e"]),
            ("a \"b c\" d\"e\"\"f\"", &["a|b c|d|e|f"]),
            ("a\\ b \\( \"\\\"\"", &["a\\\\ b|\\\\(|\\\\\\\""]),
            ("a \\\nb", &["a|\\\\", "b"]),
        ];
        for (text, want) in table {
            assert_eq!(&scan(text), want, "{text:?}");
        }
    }

    #[test]
    fn words_may_be_longer_than_what_is_looked_at_together() {
        for n in (1..200).chain([65_535]) {
            let (word, space) = ("w".repeat(n), " ".repeat(n));
            let text = format!("{word} {word}\\ {space}\"{word}\\\"{space}\"\n{word}");
            assert_eq!(scan(&text), [format!("{word}|{word}\\\\ |{word}\\\\\\\"{space}"), word]);
        }
    }

    proptest::proptest! {
        #[test]
        fn the_scan_is_the_same_octet_for_octet_with_its_twin(
            text in "([a-z\u{1}\u{80}é]|[ \t\r\n;()\"\\\\]){0,300}",
        ) {
            scan(&text);
        }
    }

    #[test]
    fn after_an_error_the_next_record_is_read() {
        let table: &[(&str, &[&str])] = &[
            ("a \"b\nc d", &["2!", "c|d"]),
            ("a )b\nc d", &["2!", "c|d"]),
            ("a (b\n c\n\nd e\nf g", &["2!", "d|e", "f|g"]),
            ("a (\n b \"c\n d )\ne", &["7!", "e"]),
        ];
        for (text, want) in table {
            assert_eq!(&scan(text), want, "{text:?}");
        }
    }

    #[test]
    fn many_unclosed_parentheses_end_the_reading() {
        assert_eq!(scan(&"a (\n".repeat(1000)).len(), UNCLOSED_MAX as usize);
        assert_eq!(scan(&"a (\nb \"\n".repeat(1000)).len(), 2 * UNCLOSED_MAX as usize - 1);
    }

    #[test]
    fn a_value_right_behind_its_key_is_glued() {
        let shapes = |t: &'static str| tokens(t.as_bytes()).unwrap().iter().map(|t| t.shape).collect::<Vec<_>>();
        assert_eq!(shapes("k=\"v\" \"w\""), [Shape::Plain, Shape::Glued, Shape::Quoted]);
    }
}
