//! The file that is configured for a zone that updates own: as it was when it was read, or written back, last.
//!
//! ```text
//! data-dir/journal/NAME.origin    "SERIAL STAMP" a line: a version of the file that we know of, newest last
//! ```
//! A file that is none of these was edited by somebody. What is about to be written stands here before it takes its name, and
//! what it takes the place of stands here still: so a crash at any moment leaves a file that is known.

use crate::ledger::{self, FOLDER};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use store::atomic::write_atomically;

pub struct Origin {
    folder: PathBuf,
    name: String,
}

/// A version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub serial: u32,
    pub stamp: String,
}

/// The stamp of a file that is not there.
pub const NONE: &str = "none";

/// What tells an edited file: its size and the time of its last change.
pub fn stamp(file: &Path) -> String {
    let modified = |m: std::fs::Metadata| m.modified().ok()?.duration_since(UNIX_EPOCH).ok().map(|t| (m.len(), t));
    let found = std::fs::metadata(file).ok().and_then(modified);
    found.map_or_else(|| NONE.to_string(), |(len, t)| format!("{len}-{}", t.as_nanos()))
}

impl Origin {
    pub fn of(data_dir: &Path, apex: &[u8]) -> Origin {
        let folder = data_dir.join(FOLDER);
        let name = ledger::file_of(&folder, apex).with_extension("origin");
        Origin { folder, name: name.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default() }
    }

    /// The versions that we know of, newest last.
    pub fn known(&self) -> Vec<Known> {
        let text = std::fs::read_to_string(self.folder.join(&self.name)).unwrap_or_default();
        let one = |line: &str| {
            let (serial, stamp) = line.split_once(' ')?;
            Some(Known { serial: serial.parse().ok()?, stamp: stamp.to_string() })
        };
        text.lines().filter_map(one).collect()
    }

    pub fn knows(&self, stamp: &str) -> bool {
        self.known().iter().any(|known| known.stamp == stamp)
    }

    pub fn remember(&self, all: &[Known]) -> io::Result<()> {
        let write = |out: &mut store::atomic::Output| {
            all.iter().try_for_each(|known| writeln!(out, "{} {}", known.serial, known.stamp))
        };
        write_atomically(&self.folder, &self.name, None, write).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_known() {
        let data = std::env::temp_dir().join(format!("dunlin-origin-{}", std::process::id()));
        std::fs::create_dir_all(data.join(FOLDER)).unwrap();
        let origin = Origin::of(&data, b"\x07example\0");
        assert_eq!(origin.known(), []);
        let file = data.join("z");
        assert_eq!(stamp(&file), NONE);
        std::fs::write(&file, "one").unwrap();
        let versions = [(7, stamp(&file)), (8, "4-1".to_string())].map(|(serial, stamp)| Known { serial, stamp });
        origin.remember(&versions).unwrap();
        assert_eq!(origin.known(), versions);
        assert!(origin.knows(&stamp(&file)) && origin.knows("4-1") && !origin.knows(NONE));
        std::fs::remove_dir_all(&data).unwrap();
    }
}
