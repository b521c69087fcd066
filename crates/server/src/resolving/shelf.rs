//! The snapshot of the cache on disk: under its name it is whole, whenever the process ends.
//!
//! Written in slices by a thread in the background, while everybody goes on, and once more by whoever ends the process;
//! read in slices, while questions are answered. What a disk does to it is found out record by record, when each is first
//! looked at.

use cache::{Cache, Snapshot};
use front::locks::hold;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use store::atomic::{Output, prepare};

const FOLDER: &str = "cache";
const NAME: &str = "snapshot";
/// How files are called that a process has not finished.
const UNFINISHED: &str = ".new";
/// Words copied between two breaths.
const SLICE_WORDS: usize = 1 << 16;

pub struct Shelf {
    folder: PathBuf,
    /// The last snapshot of this process has been begun: what another thread still writes must not take its place.
    is_closed: Mutex<bool>,
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
        Ok(Shelf { folder, is_closed: Mutex::new(false) })
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
    pub fn write(&self, cache: &Cache, breathe: impl FnMut() -> bool) -> io::Result<u64> {
        let mut octets = 0;
        let prepared = prepare(&self.folder, NAME, None, |file| copy(cache, file, &mut octets, breathe), |_| Ok(()))?;
        let is_closed = hold(&self.is_closed);
        if *is_closed {
            return Err(io::ErrorKind::Interrupted.into());
        }
        prepared.take_name()?;
        Ok(octets)
    }

    /// The same in one go (there is nothing to breathe for: the process ends), and for good: none that is being written, or is
    /// begun from now on, takes its place.
    pub fn write_last(&self, cache: &Cache) -> io::Result<u64> {
        *hold(&self.is_closed) = true;
        let mut octets = 0;
        prepare(&self.folder, NAME, None, |file| copy(cache, file, &mut octets, || true), |_| Ok(()))?.take_name()?;
        Ok(octets)
    }
}

fn copy(cache: &Cache, file: &mut Output, octets: &mut u64, mut breathe: impl FnMut() -> bool) -> io::Result<()> {
    let (mut snapshot, mut slice) = (Snapshot::default(), Vec::new());
    loop {
        let goes_on = snapshot.next(cache, SLICE_WORDS, &mut slice);
        *octets += slice.len() as u64;
        file.write_all(&slice)?;
        slice.clear();
        if !goes_on {
            return Ok(());
        }
        if !breathe() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
}
