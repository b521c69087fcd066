//! Reading below one folder only.
use std::io;
use std::path::{Path, PathBuf};

/// The files of a folder whose name ends in `.zone`, sorted by name, with what stands before the ending.
pub fn zone_files(_dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    unimplemented!()
}

/// A folder that reading does not leave, neither by `..` nor by a symbolic link.
pub struct Folder {}

impl Folder {
    pub fn open(_dir: &Path) -> io::Result<Folder> {
        unimplemented!()
    }
    /// The file that `relative` names, if it lies below the folder.
    pub fn resolve(&self, _relative: &Path) -> io::Result<PathBuf> {
        unimplemented!()
    }
    pub fn read(&self, _relative: &Path) -> io::Result<Vec<u8>> {
        unimplemented!()
    }
}
