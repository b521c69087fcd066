//! What tells a changed file from an unchanged one, without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A source written this shortly before it was read may be written again within the same tick of the file system's
/// clock, and then look unchanged. It is not believed.
pub const TICK: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    pub modified_ns: i64,
    pub changed_ns: i64,
    pub inode: u64,
}

impl Stamp {
    /// None: there is no such file, or it was written only just now.
    pub fn of(path: &Path) -> Option<Stamp> {
        let m = std::fs::metadata(path).ok()?;
        let settled = m.modified().ok()? + TICK < SystemTime::now();
        settled.then(|| Stamp::seen(&m))
    }

    /// That of a file which is as it is.
    pub fn seen(m: &Metadata) -> Stamp {
        // Enough until the year 2262; what is beyond looks changed only if it changes by 584 years exactly.
        let ns = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
        let (modified_ns, changed_ns) = (ns(m.mtime(), m.mtime_nsec()), ns(m.ctime(), m.ctime_nsec()));
        Stamp { size: m.size(), modified_ns, changed_ns, inode: m.ino() }
    }

    /// Octets that a stamp is kept in.
    pub const OCTETS: usize = 32;

    pub fn encode(&self) -> [u8; Stamp::OCTETS] {
        let words = [self.size, self.modified_ns.cast_unsigned(), self.changed_ns.cast_unsigned(), self.inode];
        let mut octets = [0; Stamp::OCTETS];
        octets.chunks_exact_mut(8).zip(words).for_each(|(at, word)| at.copy_from_slice(&word.to_le_bytes()));
        octets
    }

    pub fn decode(octets: &[u8; Stamp::OCTETS]) -> Stamp {
        let mut words = octets.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let (size, modified, changed, inode) = (next(), next(), next(), next());
        Stamp { size, modified_ns: modified.cast_signed(), changed_ns: changed.cast_signed(), inode }
    }
}
