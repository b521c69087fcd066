//! Looking into an image: the index of names, and the walk's primitives.

use crate::format::{Damaged, HEADER, Header, LINE, LINES_MAX, OpenError, WAYS, u32_at};
use crate::node::Node;
use crate::unit::Unit;
use crate::zone::Zone;
use wire::prefetch::prefetch;

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
        let h = &self.header;
        View {
            bytes: self.bytes.as_ref(),
            lines: u64::from(h.lines),
            seed: h.seed,
            root: h.root,
            deepest: h.deepest as usize,
            zones_at: h.zones_at as usize,
            zones: h.zones,
        }
    }
}

/// What answering needs of an image, by value.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(crate) bytes: &'a [u8],
    lines: u64,
    seed: u64,
    root: u32,
    deepest: usize,
    pub(crate) zones_at: usize,
    zones: u32,
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
        self.seed
    }

    /// Labels of the deepest name that can be asked for.
    pub fn deepest(&self) -> usize {
        self.deepest
    }

    pub fn root(&self) -> Result<Option<Node<'a>>, Damaged> {
        if self.root == 0 { Ok(None) } else { Node::at(*self, self.root).map(Some) }
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
        if number < self.zones { Zone::at(*self, number) } else { Err(Damaged) }
    }

    pub fn zones(&self) -> impl Iterator<Item = Result<Zone<'a>, Damaged>> + use<'a> {
        let view = *self;
        (0..self.zones).map(move |n| view.zone(n))
    }

    #[inline(always)]
    fn line_at(&self, hash: u64) -> usize {
        HEADER + (((hash >> 32) * self.lines) >> 32) as usize * LINE
    }

    /// Asks for the index line of a name ahead of time.
    #[inline(always)]
    pub fn prefetch_line(&self, hash: u64) {
        prefetch(self.bytes, self.line_at(hash));
    }

    /// Asks for what a reference points to: two lines.
    #[inline(always)]
    pub fn prefetch(&self, reference: u32) {
        let at = reference as usize * 8;
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

    /// The node of a name, given what `candidate` said of it.
    #[inline(always)]
    pub fn resolve(&self, candidate: Candidate, hash: u64, folded: &[u8]) -> Result<Option<Node<'a>>, Damaged> {
        if candidate == Candidate::NONE {
            return Ok(None);
        }
        if candidate != Candidate::LOOK {
            let node = Node::at(*self, candidate.0)?;
            if node.name()? == folded {
                return Ok(Some(node));
            }
        }
        self.find(hash, folded)
    }

    /// The node of a name.
    pub fn find(&self, hash: u64, folded: &[u8]) -> Result<Option<Node<'a>>, Damaged> {
        let mut at = self.line_at(hash);
        for _ in 0..LINES_MAX {
            let line = self.line(at)?;
            let mut tags = matching_tags(line, hash);
            while tags != 0 {
                let node = Node::at(*self, u32_at(line, 24 + 4 * tags.trailing_zeros() as usize)?)?;
                if node.name()? == folded {
                    return Ok(Some(node));
                }
                tags &= tags - 1;
            }
            if line[2 * WAYS] == 0 {
                return Ok(None);
            }
            at += LINE;
            if at >= HEADER + self.lines as usize * LINE {
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
    let tag = tag_of(hash);
    let mut found = 0;
    for i in 0..WAYS {
        found |= u32::from(u16::from_le_bytes([line[2 * i], line[2 * i + 1]]) == tag) << i;
    }
    found
}

/// The line of a hash, for the builder.
pub(crate) fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}
