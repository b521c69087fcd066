//! Writing a file so that it is there whole or not at all.
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Writes `dir/name` through a temporary file beside it: written, synced, renamed, folder synced. `size` (when known)
/// is reserved first, so that a full disk is found before anything is written. Returns the path.
pub fn write_atomically(
    _dir: &Path,
    _name: &str,
    _size: Option<u64>,
    _write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<PathBuf> {
    unimplemented!()
}
