//! The file that is configured for a zone that updates own: as it was when it was read, or written back, last.
//!
//! ```text
//! data-dir/journal/NAME.origin    a line for each version of the file that we know of, newest last:
//!     read SERIAL STAMP           the zone was imported from it
//!     written SERIAL STAMP        it was written back
//!     edited SERIAL STAMP         an edit of that version, which the zone has taken in
//! ```
//! A file that was written back says in its first line which version it is, and so does an edit of it, whenever it was begun.
//! A file that is none of these was edited by somebody. What is about to be written stands here before it takes its name, and
//! what it takes the place of stands here still: so a crash at any moment leaves a file that is known.

use crate::ledger::{self, FOLDER};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
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
    pub means: Means,
    pub serial: u32,
    pub stamp: String,
}

/// How we know of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    Read,
    Written,
    Edited,
}

const WORDS: [(Means, &str); 3] = [(Means::Read, "read"), (Means::Written, "written"), (Means::Edited, "edited")];

/// The stamp of a file that is not there.
pub const NONE: &str = "none";

/// What tells an edited file: its size and the time of its last change.
pub fn stamp(file: &Path) -> String {
    let modified = |m: std::fs::Metadata| m.modified().ok()?.duration_since(UNIX_EPOCH).ok().map(|t| (m.len(), t));
    let found = std::fs::metadata(file).ok().and_then(modified);
    found.map_or_else(|| NONE.to_string(), |(len, t)| format!("{len}-{}", t.as_nanos()))
}

/// What a file begins with that is written back.
pub fn first_line(serial: u32) -> String {
    format!("{BEGIN}{serial}{GO_ON} for updates; keep this line\n")
}

const BEGIN: &str = "; serial ";
const GO_ON: &str = ", written by dunlin";

/// The version of the zone that a file was made of, as its first line says.
pub fn version(file: &Path) -> Option<u32> {
    let mut line = String::new();
    let text = File::open(file).ok()?.take(FIRST_LINE_MAX);
    BufReader::new(text).read_line(&mut line).ok()?;
    line.strip_prefix(BEGIN)?.split_once(GO_ON)?.0.parse().ok()
}

const FIRST_LINE_MAX: u64 = 200;

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
            let mut words = line.split(' ');
            let word = words.next()?;
            let &(means, _) = WORDS.iter().find(|(_, w)| *w == word)?;
            Some(Known { means, serial: words.next()?.parse().ok()?, stamp: words.next()?.to_string() })
        };
        text.lines().filter_map(one).collect()
    }

    pub fn remember(&self, all: &[Known]) -> io::Result<()> {
        let write = |out: &mut store::atomic::Output| {
            all.iter().try_for_each(|known| {
                let word = WORDS.iter().find(|(means, _)| *means == known.means).map_or("", |(_, word)| word);
                writeln!(out, "{word} {} {}", known.serial, known.stamp)
            })
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
        let versions =
            [(Means::Read, stamp(&file)), (Means::Written, "4-1".to_string()), (Means::Edited, "4-2".to_string())];
        let versions = versions.map(|(means, stamp)| Known { means, serial: 7, stamp });
        origin.remember(&versions).unwrap();
        assert_eq!(origin.known(), versions);
        for (text, expect) in [
            (first_line(7), Some(7)),
            ("; serial 4294967295, written by dunlin: more\nrest".to_string(), Some(u32::MAX)),
            ("; serial 7".to_string(), None),
            ("@ SOA".to_string(), None),
            (String::new(), None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(version(&file), expect);
        }
        std::fs::remove_dir_all(&data).unwrap();
    }
}
