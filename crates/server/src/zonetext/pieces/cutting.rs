//! Where a long text is cut into pieces: by what stands there, so that what comes or goes in one place moves no other cut.
//!
//! A cut is the beginning of a line that names an owner, by whose first octets a hash says so; and the line before it begins
//! otherwise, so that the records of one owner mostly stay together. Nothing is cut within the head, of which other lines
//! may say how all that follows is read.

use std::ops::Range;
use wire::cpu::{BLOCK, line_ends};
use wire::hash::{quick, siphash};

/// A cut in so many lines: pieces of some 12 KiB of a registry's zone. One that has changed takes those along that hold its
/// owners, so they are to be small; and each costs 32 octets beside its owners.
const ONE_IN: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutting {
    /// That of the image: nobody can prepare lines that are cut badly, or pieces that look alike.
    pub seed: u64,
    /// Octets before which nothing is cut.
    pub head: usize,
    /// A power of two.
    pub one_in: u64,
}

impl Cutting {
    pub fn new(seed: u64) -> Cutting {
        Cutting { seed, head: zonefile::HEAD, one_in: ONE_IN }
    }

    /// The first cut behind a place, or the end of the text.
    pub fn border(&self, text: &[u8], from: usize) -> usize {
        let mut lines = Lines::behind(text, from.max(self.head));
        match lines.next() {
            Some(line) => self.next(text, line, lines),
            None => text.len(),
        }
    }

    /// Where the piece ends that begins there.
    pub fn end(&self, text: &[u8], at: usize) -> usize {
        if at == 0 { self.border(text, 0) } else { self.next(text, at, Lines::behind(text, at)) }
    }

    /// The first cut at one of these lines; `before`: the line before them.
    fn next(&self, text: &[u8], before: usize, lines: Lines<'_>) -> usize {
        let mut last = beginning(text, before);
        for line in lines {
            let begin = beginning(text, line);
            if quick(self.seed, begin) & (self.one_in - 1) == 0
                && begin != last
                && (begin as u8).is_ascii_alphanumeric()
            {
                return line;
            }
            last = begin;
        }
        text.len()
    }

    /// The pieces of a whole text.
    pub fn pieces<'t>(&self, text: &'t [u8]) -> impl Iterator<Item = Range<usize>> + use<'t> {
        let (cutting, mut at) = (*self, 0);
        std::iter::from_fn(move || {
            let from = at;
            at = cutting.end(text, from);
            (at > from).then_some(from..at)
        })
    }

    /// What tells a piece from others. The text's first one is like no other: before it nothing holds.
    pub fn hash(&self, text: &[u8], piece: &Range<usize>) -> u64 {
        let mut key = *b"        of piece";
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[15] ^= u8::from(piece.start == 0);
        siphash::<1, 3>(&key, text.get(piece.clone()).unwrap_or(&[]))
    }
}

/// The first octets of a line, and of what follows it if it is shorter.
#[inline(always)]
fn beginning(text: &[u8], at: usize) -> u128 {
    match text.get(at..).and_then(|line| line.first_chunk()) {
        Some(octets) => u128::from_le_bytes(*octets),
        None => last_beginning(text, at),
    }
}

#[cold]
fn last_beginning(text: &[u8], at: usize) -> u128 {
    text.get(at..).unwrap_or(&[]).iter().rev().fold(0, |all, &octet| all << 8 | u128::from(octet))
}

/// Where lines begin.
struct Lines<'t> {
    text: &'t [u8],
    block: usize,
    ends: u64,
}

impl<'t> Lines<'t> {
    /// Those that begin behind a place.
    fn behind(text: &'t [u8], at: usize) -> Lines<'t> {
        let mut lines = Lines { text, block: at / BLOCK, ends: 0 };
        lines.ends = lines.ends_here() & u64::MAX << (at % BLOCK);
        lines
    }

    #[inline(always)]
    fn ends_here(&self) -> u64 {
        match self.text.get(self.block * BLOCK..).and_then(|rest| rest.first_chunk()) {
            Some(whole) => line_ends(whole),
            None => self.ends_of_last(),
        }
    }

    #[cold]
    fn ends_of_last(&self) -> u64 {
        let mut padded = [0; BLOCK];
        let rest = self.text.get(self.block * BLOCK..).unwrap_or(&[]);
        padded.iter_mut().zip(rest).for_each(|(to, &from)| *to = from);
        line_ends(&padded)
    }
}

impl Iterator for Lines<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.ends == 0 {
            self.block += 1;
            if self.block * BLOCK >= self.text.len() {
                return None;
            }
            self.ends = self.ends_here();
        }
        let line = self.block * BLOCK + self.ends.trailing_zeros() as usize + 1;
        self.ends &= self.ends - 1;
        (line < self.text.len()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: Cutting = Cutting { seed: 7, head: 20, one_in: 4 };

    fn pieces(text: &str) -> Vec<&str> {
        SMALL.pieces(text.as_bytes()).map(|piece| &text[piece]).collect()
    }

    fn lines() -> impl Strategy<Value = String> {
        lines_of("[a-c ;]{0,2}[a-z]{0,80}\r?\n")
    }

    fn lines_of(line: &'static str) -> impl Strategy<Value = String> {
        proptest::collection::vec(line, 0..60).prop_map(|lines| lines.concat())
    }

    proptest! {
        #[test]
        fn pieces_are_all_of_the_text_and_begin_at_owners(text in lines(), end in "[a-z]{0,20}") {
            let text = text + &end;
            let pieces = pieces(&text);
            prop_assert_eq!(pieces.concat(), text.clone());
            let mut at = 0;
            for piece in &pieces {
                let before = &text[..at];
                prop_assert!(at == 0 || before.ends_with('\n') && at >= SMALL.head, "{at}");
                prop_assert!(at == 0 || piece.starts_with(|c: char| c.is_ascii_alphanumeric()), "{piece}");
                at += piece.len();
            }
        }

        #[test]
        fn wherever_one_looks_from_the_cuts_are_the_same(text in lines(), from in 0..5000usize) {
            let from = from.min(text.len());
            let starts: Vec<usize> = SMALL.pieces(text.as_bytes()).map(|piece| piece.start).collect();
            let expect = starts.iter().copied().find(|&at| at > from).unwrap_or(text.len());
            let found = SMALL.border(text.as_bytes(), from);
            // The line right behind is not judged: nobody knows here how the one before it begins.
            prop_assert!(found == expect || expect < text.len() && !text[from..expect - 1].contains('\n'));
        }

        // Lines of 16 octets at least: the beginning of a shorter one goes on in those that follow it.
        #[test]
        fn a_line_more_changes_no_piece_but_its_own_and_those_beside_it(
            text in lines_of("[a-z]{16,80}\r?\n"), line in "[a-z]{1,40}\n", at in 0..60usize,
        ) {
            let mut all: Vec<&str> = text.split_inclusive('\n').collect();
            let at = at.min(all.len());
            prop_assume!(all[..at].concat().len() > SMALL.head + 100);
            let before = pieces(&text);
            all.insert(at, &line);
            let more = all.concat();
            let new = pieces(&more).into_iter().filter(|piece| !before.contains(piece)).count();
            prop_assert!(new <= 3, "{new}");
        }
    }

    #[test]
    fn records_of_one_owner_are_not_cut_apart() {
        let text = "abcdefghijklmnopqrstuvwxyz A 192.0.2.1\n".repeat(1000);
        assert_eq!(pieces(&text).len(), 1);
    }

    #[test]
    fn the_first_piece_is_like_no_other() {
        let text = b"a\na\n";
        assert_ne!(SMALL.hash(text, &(0..2)), SMALL.hash(text, &(2..4)));
        assert_eq!(SMALL.hash(text, &(2..4)), SMALL.hash(b"b\na\n", &(2..4)));
    }
}
