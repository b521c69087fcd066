//! The layout of an image: numbers, little-endian, and how they are read.
//!
//! An image is one file without pointers. References are 32-bit counts of 4 octets from the file's start (so 16 GiB at
//! most); whoever follows one checks it: every read below is bounded by the file, and what lies outside is `Damaged`.
//!
//! ```text
//! header    4096    see `Header`
//! index     64 each 10 tags u16 | spilled u8, 3 unused | 10 node references u32
//! zones     12 each see `zone.rs`
//! nodes             see `node.rs`; behind each node the units that belong to it alone, see `unit.rs`; behind the nodes of a
//!                   signed zone its NSEC order and NSEC3 hashes, see `zone.rs`
//! hosts     8 each  see `named.rs`; behind them the lists of those that name them
//! checksums 8 each  of all pages before them, see `sums.rs`
//! ```

use crate::named;
use crate::overlay::Overlay;
use crate::sums;
use std::sync::Arc;
use wire::hash;

pub const MAGIC: [u8; 8] = *b"DunlinZ\n";
pub const VERSION: u32 = 10;
pub const HEADER: usize = 4096;
pub const LINE: usize = 64;
/// Places in an index line.
pub const WAYS: usize = 10;
/// Lines looked at for one name, ever. The builder keeps to it.
pub const LINES_MAX: usize = 16;
pub const ALIGN: usize = 4;
/// The last name of an image begins before this: references count to 32 bits, and no name has 16 MiB (200 RRsets of 64 KiB).
pub const NAMES_END_MAX: usize = (ALIGN << 32) - (16 << 20);

/// Something in the image is not what the format says: a damaged file. The answer is SERVFAIL, never a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

#[derive(Clone)]
pub struct Header {
    pub length: u64,
    pub seed: u64,
    pub lines: u32,
    pub names: u32,
    pub zones_at: u64,
    pub zones: u32,
    /// Labels of the deepest indexed name.
    pub deepest: u32,
    /// Labels down to which names are worth looking up ahead of the walk: few lie deeper.
    pub ahead: u32,
    /// The root's node, if a zone of ours is the root or the root zone is above all: 0 if it is not indexed.
    pub root: u32,
    pub records: u64,
    /// Where the checksums of the pages before them begin: see `sums.rs`.
    pub sums_at: u64,
    /// Where the hosts that are named begin, and how many there are: see `named.rs`.
    pub hosts_at: u64,
    pub hosts: u64,
    /// What has changed since. Never in the file.
    pub overlay: Option<Arc<Overlay>>,
}

impl Header {
    pub fn write(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let fields = [
            self.length,
            self.seed,
            u64::from(self.lines),
            u64::from(self.names),
            self.zones_at,
            u64::from(self.zones),
        ];
        let more = [u64::from(self.deepest), u64::from(self.ahead), u64::from(self.root), self.records, self.sums_at];
        for (i, f) in fields.iter().chain(&more).chain(&[self.hosts_at, self.hosts]).enumerate() {
            out[16 + 8 * i..24 + 8 * i].copy_from_slice(&f.to_le_bytes());
        }
        let sum = checksum(out);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
    }

    /// Constant time: the header and nothing else.
    pub fn read(bytes: &[u8]) -> Result<Header, OpenError> {
        let head = bytes.get(..HEADER).ok_or(OpenError::Short)?;
        if head[..8] != MAGIC {
            return Err(OpenError::NotAnImage);
        }
        let version = u32_at(head, 8)?;
        if version != VERSION {
            return Err(OpenError::Version(version));
        }
        if u32_at(head, 12)? != checksum(head) {
            return Err(OpenError::Checksum);
        }
        let f = |i: usize| u64_at(head, 16 + 8 * i);
        let h = Header {
            length: f(0)?,
            seed: f(1)?,
            lines: f(2)? as u32,
            names: f(3)? as u32,
            zones_at: f(4)?,
            zones: f(5)? as u32,
            deepest: f(6)? as u32,
            ahead: f(7)? as u32,
            root: f(8)? as u32,
            records: f(9)?,
            sums_at: f(10)?,
            hosts_at: f(11)?,
            hosts: f(12)?,
            overlay: None,
        };
        let index_end = HEADER as u64 + u64::from(h.lines) * LINE as u64;
        if h.length != bytes.len() as u64 {
            return Err(OpenError::Length { expected: h.length, found: bytes.len() as u64 });
        }
        let sums_end =
            usize::try_from(h.sums_at).ok().filter(|&at| at <= bytes.len()).map(|at| at + sums::table_len(at));
        if h.lines == 0 || index_end > h.length || h.zones_at > h.length || sums_end != Some(bytes.len()) {
            return Err(OpenError::Checksum);
        }
        let hosts_end = h.hosts.checked_mul(named::ENTRY).and_then(|len| len.checked_add(h.hosts_at));
        if hosts_end.is_none_or(|end| end > h.sums_at) {
            return Err(OpenError::Checksum);
        }
        Ok(h)
    }
}

/// Why a file cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    Short,
    NotAnImage,
    Version(u32),
    Checksum,
    Length { expected: u64, found: u64 },
}

impl From<Damaged> for OpenError {
    fn from(_: Damaged) -> OpenError {
        OpenError::Short
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::Short => write!(f, "the file is shorter than an image's header"),
            OpenError::NotAnImage => write!(f, "the file is no zone image"),
            OpenError::Version(v) => {
                write!(f, "the image is of format version {v}; this program reads version {VERSION}")
            }
            OpenError::Checksum => write!(f, "the image's header is damaged"),
            OpenError::Length { expected, found } => {
                write!(f, "the image has {found} octets and should have {expected}")
            }
        }
    }
}

fn checksum(head: &[u8]) -> u32 {
    let sum = hash::siphash::<1, 3>(b"dunlin image 1.0", &head[16..]);
    (sum ^ sum >> 32) as u32
}

#[inline(always)]
pub fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Damaged> {
    match bytes.get(at..).and_then(|b| b.first_chunk::<2>()) {
        Some(b) => Ok(u16::from_le_bytes(*b)),
        None => Err(Damaged),
    }
}

#[inline(always)]
pub fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Damaged> {
    match bytes.get(at..).and_then(|b| b.first_chunk::<4>()) {
        Some(b) => Ok(u32::from_le_bytes(*b)),
        None => Err(Damaged),
    }
}

#[inline(always)]
pub fn u64_at(bytes: &[u8], at: usize) -> Result<u64, Damaged> {
    match bytes.get(at..).and_then(|b| b.first_chunk::<8>()) {
        Some(b) => Ok(u64::from_le_bytes(*b)),
        None => Err(Damaged),
    }
}
