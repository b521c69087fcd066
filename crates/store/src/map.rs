//! A file in memory, read-only.
use std::io;
use std::path::Path;

/// What stands behind a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The page cache of the file: shared, evictable.
    File,
    /// A private copy in anonymous memory.
    Copy,
}

pub struct Map {}

impl Map {
    /// Maps a file; fails for an empty one.
    pub fn open(_path: &Path) -> io::Result<Map> {
        unimplemented!()
    }
    /// Reads a file into anonymous memory with huge pages, for kernels and file systems whose files cannot have them.
    pub fn copy_to_memory(_path: &Path) -> io::Result<Map> {
        unimplemented!()
    }
    pub fn backing(&self) -> Backing {
        unimplemented!()
    }
    /// Touches the pages of `bytes` octets from `from`; returns where to go on, `len()` when done.
    pub fn prefault(&self, _from: usize, _bytes: usize) -> usize {
        unimplemented!()
    }
    /// Octets that huge pages back right now.
    pub fn huge_bytes(&self) -> io::Result<usize> {
        unimplemented!()
    }
    /// True once a page could not be read (the file was cut off, or the disk failed); it reads as zeros since.
    pub fn is_damaged(&self) -> bool {
        unimplemented!()
    }
}

impl std::ops::Deref for Map {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        unimplemented!()
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
