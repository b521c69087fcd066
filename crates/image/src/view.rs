//! Looking into an image: the index of names, and the walk's primitives.

use crate::format::{ALIGN, Damaged, HEADER, Header, LINE, LINES_MAX, OpenError, WAYS, u32_at};
use crate::node::{Node, Scope};
use crate::unit::Unit;
use crate::zone::Zone;
use wire::cpu::{equal_of_ten, prefetch};

/// An image and the bytes that it lives in: a mapping, or a vector in tests.
pub struct Image<M> {
    bytes: M,
    header: Header,
}

impl<M: AsRef<[u8]>> Image<M> {
    /// Looks at the header and nothing else: constant time.
    pub fn open(bytes: M) -> Result<Image<M>, OpenError> {
        let header = Header::read(bytes.as_ref())?;
        Ok(Image { bytes, header })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn bytes(&self) -> &M {
        &self.bytes
    }

    #[inline]
    pub fn view(&self) -> View<'_> {
        View { bytes: self.bytes.as_ref(), header: &self.header }
    }
}

/// What answering needs of an image: three words, handed around by value.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) header: &'a Header,
}

/// What the first index line of a name tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Candidate(u32);

impl Candidate {
    pub const NONE: Candidate = Candidate(0);
    /// Several tags are alike, or the line has spilled: `find` must look.
    const LOOK: Candidate = Candidate(1);
}

impl<'a> View<'a> {
    pub fn seed(&self) -> u64 {
        self.header.seed
    }

    /// Labels of the deepest name that can be asked for.
    pub fn deepest(&self) -> usize {
        self.header.deepest as usize
    }

    /// Labels down to which names are worth looking up ahead of the walk.
    pub fn ahead(&self) -> usize {
        self.header.ahead as usize
    }

    pub fn root(&self) -> Result<Option<Node<'a>>, Damaged> {
        match self.header.root {
            0 => Ok(None),
            root => Node::at(*self, root).map(Some),
        }
    }

    #[inline(always)]
    pub fn node(&self, reference: u32) -> Result<Node<'a>, Damaged> {
        Node::at(*self, reference)
    }

    #[inline(always)]
    pub fn unit(&self, reference: u32) -> Result<Unit<'a>, Damaged> {
        Unit::at(*self, reference)
    }

    pub fn zone(&self, number: u32) -> Result<Zone<'a>, Damaged> {
        if number < self.header.zones { Zone::at(*self, number) } else { Err(Damaged) }
    }

    pub fn zones(&self) -> impl Iterator<Item = Result<Zone<'a>, Damaged>> + use<'a> {
        let view = *self;
        (0..self.header.zones).map(move |n| view.zone(n))
    }

    #[inline(always)]
    fn line_at(&self, hash: u64) -> usize {
        HEADER + (((hash >> 32) * u64::from(self.header.lines)) >> 32) as usize * LINE
    }

    /// Asks for the index line of a name ahead of time.
    #[inline(always)]
    pub fn prefetch_line(&self, hash: u64) {
        prefetch(self.bytes, self.line_at(hash));
    }

    /// Asks for what a reference points to: two lines.
    #[inline(always)]
    pub fn prefetch(&self, reference: u32) {
        let at = reference as usize * ALIGN;
        prefetch(self.bytes, at);
        prefetch(self.bytes, at + LINE);
    }

    #[inline(always)]
    fn line(&self, at: usize) -> Result<&'a [u8; LINE], Damaged> {
        self.bytes.get(at..).and_then(|b| b.first_chunk::<LINE>()).ok_or(Damaged)
    }

    /// The only candidate by tag in the name's first line. Reads no node; prefetches the one it names.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> Result<Candidate, Damaged> {
        let line = self.line(self.line_at(hash))?;
        let tags = matching_tags(line, hash);
        if tags == 0 {
            return Ok(if line[2 * WAYS] == 0 { Candidate::NONE } else { Candidate::LOOK });
        }
        if tags & (tags - 1) != 0 {
            return Ok(Candidate::LOOK);
        }
        let reference = u32_at(line, 24 + 4 * tags.trailing_zeros() as usize)?;
        self.prefetch(reference);
        Ok(Candidate(reference))
    }

    /// The node of a name, given what `candidate` said of it. `scope`: that of the nearest apex above the name.
    #[inline(always)]
    pub fn resolve(
        &self,
        candidate: Candidate,
        hash: u64,
        folded: &[u8],
        scope: Scope,
    ) -> Result<Option<Node<'a>>, Damaged> {
        if candidate == Candidate::NONE {
            return Ok(None);
        }
        if candidate != Candidate::LOOK {
            let node = Node::at(*self, candidate.0)?;
            if node.is_named(folded, scope)? {
                return Ok(Some(node));
            }
        }
        self.find(hash, folded, scope)
    }

    /// The node of a name.
    pub fn find(&self, hash: u64, folded: &[u8], scope: Scope) -> Result<Option<Node<'a>>, Damaged> {
        let mut at = self.line_at(hash);
        for _ in 0..LINES_MAX {
            let line = self.line(at)?;
            let mut tags = matching_tags(line, hash);
            while tags != 0 {
                let node = Node::at(*self, u32_at(line, 24 + 4 * tags.trailing_zeros() as usize)?)?;
                if node.is_named(folded, scope)? {
                    return Ok(Some(node));
                }
                tags &= tags - 1;
            }
            if line[2 * WAYS] == 0 {
                return Ok(None);
            }
            at += LINE;
            if at >= HEADER + self.header.lines as usize * LINE {
                at = HEADER;
            }
        }
        Err(Damaged)
    }
}

/// The tag of a hash; 0 means an empty place.
#[inline(always)]
pub(crate) fn tag_of(hash: u64) -> u16 {
    (hash as u16).max(1)
}

/// A bit for each place whose tag is that of the hash.
#[inline(always)]
fn matching_tags(line: &[u8; LINE], hash: u64) -> u32 {
    line.first_chunk::<{ 2 * WAYS }>().map_or(0, |tags| equal_of_ten(tags, tag_of(hash)))
}

/// The line of a hash, for the builder.
pub(crate) fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}
