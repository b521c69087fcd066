//! Looking into an image: the index of names, and the walk's primitives.

use crate::format::{ALIGN, Damaged, HEADER, Header, LINE, LINES_MAX, OpenError, WAYS, u32_at};
use crate::node::{ABOVE, APEX, NO_ZONE, Node, Scope, UNSEEN};
use crate::overlay::{Overlay, Record};
use crate::sums;
use crate::trust::Trust;
use crate::unit::Unit;
use crate::zone::{ZONE, Zone};
use std::sync::Arc;
use wire::cpu::{equal_of_ten, prefetch};
use wire::hash::name_hash;

/// An image and the bytes that it lives in: a mapping, or a vector in tests.
pub struct Image<M> {
    bytes: M,
    frame: Frame,
    faults: fn(&M) -> u32,
}

/// What is known of an image besides its octets. Where those are not all sound, they are read through this, which is slow.
pub(crate) struct Frame {
    pub header: Header,
    /// Of the file, whatever is laid over it.
    trust: Arc<Trust>,
    /// The octets again, for an image that is served in part: `View` has no room for them.
    octets: Option<Box<dyn AsRef<[u8]> + Send + Sync>>,
}

impl Frame {
    #[cold]
    #[inline(never)]
    fn intact(&self, at: usize, len: usize) -> Option<&[u8]> {
        let all = (**self.octets.as_ref()?).as_ref();
        let octets = all.get(at..)?.get(..len)?;
        let is_as_built = |page| sums::is_intact(all, &self.header, page);
        // What is laid behind the file is in memory, and has no checksum.
        (at as u64 >= self.header.length || self.trust.is_intact(at, len, is_as_built)).then_some(octets)
    }

    #[cold]
    #[inline(never)]
    fn intact_chunk<const N: usize>(&self, at: usize) -> Option<&[u8; N]> {
        self.intact(at, N)?.first_chunk()
    }
}

impl<M: AsRef<[u8]>> Image<M> {
    /// Looks at the header and nothing else: constant time.
    pub fn open(bytes: M) -> Result<Image<M>, OpenError> {
        let header = Header::read(bytes.as_ref())?;
        let frame = Frame { header, trust: Arc::default(), octets: None };
        Ok(Image { bytes, frame, faults: |_| 0 })
    }

    /// Opens what is to be served on even if some of its pages turn out to be damaged. `faults` says how many reads of
    /// the octets have failed so far. A clone must show the same octets.
    pub fn open_to_serve(bytes: M, faults: fn(&M) -> u32) -> Result<Image<M>, OpenError>
    where
        M: Clone + Send + Sync + 'static,
    {
        Ok(Image::open(bytes)?.to_serve(faults))
    }

    /// An image with changes: the octets go on behind the file with what the overlay refers to.
    pub fn overlaid(bytes: M, header: Header) -> Image<M> {
        Image { bytes, frame: Frame { header, trust: Arc::default(), octets: None }, faults: |_| 0 }
    }

    /// This image with changes, likewise; what is known of its pages stays known.
    pub fn changed(&self, bytes: M, header: Header) -> Image<M>
    where
        M: Clone + Send + Sync + 'static,
    {
        let Image { frame, faults, .. } = Image::overlaid(bytes.clone(), header).to_serve(self.faults);
        Image { bytes, frame: Frame { trust: Arc::clone(&self.frame.trust), ..frame }, faults }
    }

    /// As `open_to_serve` has it.
    pub fn to_serve(self, faults: fn(&M) -> u32) -> Image<M>
    where
        M: Clone + Send + Sync + 'static,
    {
        let octets: Box<dyn AsRef<[u8]> + Send + Sync> = Box::new(self.bytes.clone());
        Image { frame: Frame { octets: Some(octets), ..self.frame }, faults, ..self }
    }

    /// The same octets, of which each page is compared with its checksum when it is read first: for who reads a little of a large image, and
    /// has to be sure of that.
    pub fn doubted(&self) -> Image<M>
    where
        M: Clone + Send + Sync + 'static,
    {
        let doubted = Image::overlaid(self.bytes.clone(), self.frame.header.clone()).to_serve(self.faults);
        let trust = Arc::new(Trust::of_none(self.pages(), (self.faults)(&self.bytes)));
        Image { frame: Frame { trust, ..doubted.frame }, ..doubted }
    }

    pub fn header(&self) -> &Header {
        &self.frame.header
    }

    pub fn bytes(&self) -> &M {
        &self.bytes
    }

    #[inline]
    pub fn view(&self) -> View<'_> {
        let bytes = if self.is_whole() { self.bytes.as_ref() } else { &[] };
        View { bytes, frame: &self.frame }
    }

    /// How many reads have failed so far. What was read between two different numbers may be zeros that never stood
    /// there. A number that is new: from here on no page is believed until it has been compared again.
    #[inline]
    pub fn faults(&self) -> u32 {
        let faults = (self.faults)(&self.bytes);
        if faults != self.frame.trust.faults() {
            self.frame.trust.suspect(faults);
        }
        faults
    }

    /// True if no page is known to be damaged.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.frame.trust.is_whole()
    }

    /// Pages that have a checksum: all but those of the checksums themselves.
    pub fn pages(&self) -> usize {
        sums::count(&self.frame.header)
    }

    /// Compares pages with their checksums, at most so many from this one on; what stands on those that differ is
    /// `Damaged` from here on. Returns where to go on, or None behind the last page.
    pub fn compare(&self, from: usize, most: usize) -> Option<usize> {
        self.frame.trust.compare(self.bytes.as_ref(), &self.frame.header, from, most)
    }

    /// The pages that are damaged, once all have been compared.
    pub fn damaged_pages(&self) -> impl Iterator<Item = usize> + '_ {
        self.frame.trust.damaged().take_while(|&page| page < self.pages())
    }
}

/// What answering needs of an image: three words, handed around by value.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// What may be read without a second thought: all of it, or nothing once a page is known to be damaged.
    bytes: &'a [u8],
    pub(crate) frame: &'a Frame,
}

/// The node that a name seems to have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    reference: u32,
    /// That of a changed name, else `NO_ZONE`.
    zone: u32,
}

impl Candidate {
    pub const NONE: Candidate = Candidate::of_file(0);
    /// There are several, or it is not known: `find` must look.
    pub(crate) const LOOK: Candidate = Candidate::of_file(1);

    const fn of_file(reference: u32) -> Candidate {
        Candidate { reference, zone: NO_ZONE }
    }

    pub(crate) const fn changed(reference: u32, zone: u32) -> Candidate {
        Candidate { reference, zone }
    }
}

impl<'a> View<'a> {
    /// So many octets from here on, if they lie within the image and on no damaged page.
    #[inline(always)]
    pub(crate) fn octets(&self, at: usize, len: usize) -> Result<&'a [u8], Damaged> {
        match self.bytes.get(at..at.wrapping_add(len)) {
            Some(octets) => Ok(octets),
            None => self.frame.intact(at, len).ok_or(Damaged),
        }
    }

    #[inline(always)]
    pub(crate) fn chunk<const N: usize>(&self, at: usize) -> Result<&'a [u8; N], Damaged> {
        match self.bytes.get(at..at.wrapping_add(N)).and_then(|b| b.first_chunk()) {
            Some(octets) => Ok(octets),
            None => self.frame.intact_chunk(at).ok_or(Damaged),
        }
    }

    /// All octets from here on that may be read without a second thought; None if there are none.
    #[inline(always)]
    pub(crate) fn rest(&self, at: usize) -> Option<&'a [u8]> {
        self.bytes.get(at..)
    }

    #[inline(always)]
    pub(crate) fn u16_at(&self, at: usize) -> Result<u16, Damaged> {
        self.chunk(at).map(|octets| u16::from_le_bytes(*octets))
    }

    #[inline(always)]
    pub(crate) fn u32_at(&self, at: usize) -> Result<u32, Damaged> {
        self.chunk(at).map(|octets| u32::from_le_bytes(*octets))
    }

    #[inline(always)]
    pub(crate) fn u64_at(&self, at: usize) -> Result<u64, Damaged> {
        self.chunk(at).map(|octets| u64::from_le_bytes(*octets))
    }

    pub fn seed(&self) -> u64 {
        self.frame.header.seed
    }

    /// Labels of the deepest name that can be asked for.
    pub fn deepest(&self) -> usize {
        self.frame.header.deepest as usize
    }

    /// Labels down to which names are worth looking up ahead of the walk.
    pub fn ahead(&self) -> usize {
        self.frame.header.ahead as usize
    }

    pub fn root(&self) -> Result<Option<Node<'a>>, Damaged> {
        match self.frame.header.root {
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
        if number >= self.frame.header.zones {
            return Err(Damaged);
        }
        match self.overlay().and_then(|o| o.zone(number)) {
            Some(Record::Gone) => Err(Damaged),
            Some(Record::At(at)) => Zone::at(*self, at as usize, number),
            None => Zone::at(*self, self.frame.header.zones_at as usize + number as usize * ZONE, number),
        }
    }

    /// None: no zone has this name.
    pub fn zone_of(&self, apex: &[u8]) -> Result<Option<Zone<'a>>, Damaged> {
        self.find_whole(apex)?.filter(|node| node.is(APEX)).map(|node| node.zone()).transpose()
    }

    pub fn zones(&self) -> impl Iterator<Item = Result<Zone<'a>, Damaged>> + use<'a> {
        let view = *self;
        (0..self.frame.header.zones).filter(move |&n| !view.is_zone_gone(n)).map(move |n| view.zone(n))
    }

    fn is_zone_gone(&self, number: u32) -> bool {
        self.overlay().is_some_and(|o| o.zone(number) == Some(Record::Gone))
    }

    /// What has changed since the file was written, if anything.
    #[inline(always)]
    pub fn overlay(&self) -> Option<&'a Overlay> {
        self.frame.header.overlay.as_deref()
    }

    /// True if the node is not one of the file.
    pub(crate) fn is_of_overlay(&self, node: &Node<'_>) -> bool {
        u64::from(node.reference()) * ALIGN as u64 >= self.frame.header.length
    }

    /// Every node that the file's index leads to.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = Result<Node<'a>, Damaged>> + use<'a> {
        let view = *self;
        let lines = (0..self.frame.header.lines as usize).filter_map(move |n| view.line(HEADER + n * LINE).ok());
        let taken =
            |line: &'a [u8; LINE]| (0..WAYS).filter(|w| line[2 * w..2 * w + 2] != [0, 0]).map(move |w| 24 + 4 * w);
        lines.flat_map(move |line| taken(line).map(move |at| view.node(u32_at(line, at)?)))
    }

    #[inline(always)]
    fn line_at(&self, hash: u64) -> usize {
        HEADER + (((hash >> 32) * u64::from(self.frame.header.lines)) >> 32) as usize * LINE
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
        if at + LINE < self.bytes.len() {
            prefetch(self.bytes, at);
            prefetch(self.bytes, at + LINE);
        }
    }

    #[inline(always)]
    fn line(&self, at: usize) -> Result<&'a [u8; LINE], Damaged> {
        self.chunk(at)
    }

    /// The only one that has changed under this hash, else the only one by tag in the name's first line. Reads no node; prefetches the one it names.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> Result<Candidate, Damaged> {
        if let Some(overlay) = self.overlay()
            && let Some(changed) = overlay.candidate(hash)
        {
            if changed != Candidate::LOOK {
                self.prefetch(changed.reference);
            }
            return Ok(changed);
        }
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
        Ok(Candidate::of_file(reference))
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
            let node = Node::at(*self, candidate.reference)?;
            let is_it = if candidate.zone == NO_ZONE {
                node.is_named(folded, scope)?
            } else {
                node.flags() & (UNSEEN | ABOVE) == 0 && node.is_named_in(candidate.zone, folded, scope)?
            };
            if is_it {
                return Ok(Some(node));
            }
        }
        self.find(hash, folded, scope)
    }

    /// The node of a name that can be asked for.
    #[inline(always)]
    pub fn find(&self, hash: u64, folded: &[u8], scope: Scope) -> Result<Option<Node<'a>>, Damaged> {
        match self.reference_of(hash, folded, scope)? {
            0 => Ok(None),
            reference => Node::at(*self, reference).map(Some),
        }
    }

    /// The node of a name that is an apex or lies above all zones.
    pub fn find_whole(&self, folded: &[u8]) -> Result<Option<Node<'a>>, Damaged> {
        if folded.len() <= 1 {
            return self.root();
        }
        self.find(name_hash(self.seed(), folded), folded, Scope::NONE)
    }

    /// As a number, which needs no memory to be handed back.
    #[inline(never)]
    fn reference_of(&self, hash: u64, folded: &[u8], scope: Scope) -> Result<u32, Damaged> {
        if let Some(overlay) = self.overlay()
            && let Some(node) = overlay.find(*self, hash, folded, scope)?
        {
            if node.flags() & UNSEEN == 0 {
                return Ok(node.reference());
            }
            // What a zone hides, or has no more, may be another zone's, or nobody's name on the way to one. An apex that is gone is nobody's.
            let is_others = |other: &Node<'_>| other.is(ABOVE) || other.is_whole() && !node.is_whole();
            let other = self.find_in_file(hash, folded, scope)?.filter(is_others);
            return Ok(other.map_or(0, |node| node.reference()));
        }
        Ok(self.find_in_file(hash, folded, scope)?.map_or(0, |node| node.reference()))
    }

    /// The node of a name as the image was written.
    pub(crate) fn find_in_file(&self, hash: u64, folded: &[u8], scope: Scope) -> Result<Option<Node<'a>>, Damaged> {
        self.look_in_file(hash, |node| node.is_named(folded, scope))
    }

    /// A node that stands in the file's index where one of this hash would.
    #[inline(always)]
    pub(crate) fn look_in_file(
        &self,
        hash: u64,
        is_it: impl Fn(&Node<'a>) -> Result<bool, Damaged>,
    ) -> Result<Option<Node<'a>>, Damaged> {
        let mut at = self.line_at(hash);
        for _ in 0..LINES_MAX {
            let line = self.line(at)?;
            let mut tags = matching_tags(line, hash);
            while tags != 0 {
                let node = Node::at(*self, u32_at(line, 24 + 4 * tags.trailing_zeros() as usize)?)?;
                if is_it(&node)? {
                    return Ok(Some(node));
                }
                tags &= tags - 1;
            }
            if line[2 * WAYS] == 0 {
                return Ok(None);
            }
            at += LINE;
            if at >= HEADER + self.frame.header.lines as usize * LINE {
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
