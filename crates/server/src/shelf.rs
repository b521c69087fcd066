//! The snapshot of the cache on disk: under its name it is whole, whenever the process ends.
//!
//! Written in slices by a thread in the background, while everybody goes on; read in slices, while questions are
//! answered. What a disk does to it is found out record by record, when each is first looked at.

use cache::{Cache, Snapshot};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use store::atomic::write_atomically;

const FOLDER: &str = "cache";
const NAME: &str = "snapshot";
/// How files are called that a process has not finished.
const UNFINISHED: &str = ".new";
/// Words copied between two breaths.
const SLICE_WORDS: usize = 1 << 16;

pub struct Shelf {
    folder: PathBuf,
}

impl Shelf {
    /// Its folder below the data folder, for our user only: it tells who asked for what, and holds the cache's secret.
    /// What a process that was killed did not finish goes.
    pub fn open(data: &Path) -> io::Result<Shelf> {
        let folder = data.join(FOLDER);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(UNFINISHED) {
                fs::remove_file(&path)?;
            }
        }
        Ok(Shelf { folder })
    }

    /// The last snapshot. None: there is none.
    pub fn last(&self) -> io::Result<Option<File>> {
        match File::open(self.folder.join(NAME)) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes a snapshot; returns its octets. `breathe` is called between two slices; where it says false, the last
    /// snapshot stays.
    pub fn write(&self, cache: &Cache, mut breathe: impl FnMut() -> bool) -> io::Result<u64> {
        let (mut snapshot, mut slice, mut octets) = (Snapshot::default(), Vec::new(), 0);
        write_atomically(&self.folder, NAME, None, |file| {
            loop {
                let goes_on = snapshot.next(cache, SLICE_WORDS, &mut slice);
                octets += slice.len() as u64;
                file.write_all(&slice)?;
                slice.clear();
                if !goes_on {
                    return Ok(());
                }
                if !breathe() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
        })?;
        Ok(octets)
    }
}
