//! Scratch files: what a builder spills goes into files that have no name any more, and is gone with the process.

use image::{Kept, Spill};
use std::fs::{File, remove_file};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::Map;

pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    pub fn new(folder: PathBuf) -> Scratch {
        Scratch { folder }
    }

    fn write(&self, pieces: &mut dyn Iterator<Item = Vec<u8>>) -> io::Result<Map> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Named like other unfinished files, so that what a crash leaves between the next lines is swept up with them.
        let name = format!(".scratch.{}-{}.new", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = self.folder.join(name);
        let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
        remove_file(&path)?;
        for piece in pieces {
            file.write_all(&piece)?;
        }
        Map::of_scratch(file)
    }
}

impl Spill for Scratch {
    fn keep(&self, pieces: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Kept, String> {
        let map = self.write(pieces).map_err(|e| format!("{}: {e}", self.folder.display()))?;
        Ok(Box::new(map))
    }
}

/// What a builder may hold if nobody says otherwise: a quarter of the machine.
pub fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    total.map_or(usize::MAX, |kib: usize| kib.saturating_mul(1024 / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_can_be_read_and_leaves_no_name() {
        let folder = std::env::temp_dir().join(format!("dunlin-scratch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let scratch = Scratch::new(folder.clone());
        let kept = scratch.keep(&mut [b"ab".to_vec(), b"c".to_vec()].into_iter()).unwrap();
        assert_eq!((*kept).as_ref(), b"abc");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(scratch.keep(&mut std::iter::empty()).is_err());
        assert!(memory() > 0);
    }
}
