//! Marks of zones that updates have left, or that somebody else has had served meanwhile: the newest serial under which that was. A zone that comes back to
//! its updates goes on from there, for secondaries have that version. Decides nothing.

use super::{FOLDER, Ledger, file_of};
use crate::log;
use crate::stamp::may_be_there;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use store::atomic::write_atomically;
use transfer::record::is_newer;

const MARK: &str = "overtaken";

/// Where it says which serial others have had served, while the zone was not its updates'.
fn mark_of(folder: &Path, apex: &[u8]) -> PathBuf {
    file_of(folder, apex).with_extension(MARK)
}

/// Whether updates have left a file of this zone.
pub fn has_left(data_dir: &Path, apex: &[u8]) -> bool {
    may_be_there(&file_of(&data_dir.join(FOLDER), apex))
}

/// Whether what is served of it under this serial is what others have had served since, or may be. Where it is newer updates have gone on from there.
pub fn is_overtaken(data_dir: &Path, apex: &[u8], serial: u32) -> bool {
    marked(&data_dir.join(FOLDER), apex).map_or(true, |last| last.is_some_and(|last| !is_newer(serial, last)))
}

/// A zone is served under this serial, and not as updates have made it. Where these have left a file of it they are to go on from there, should
/// they come back: secondaries have that version.
pub fn overtake(data_dir: &Path, apex: &[u8], serial: u32) {
    let folder = data_dir.join(FOLDER);
    // Secondaries have the newest, whatever came later by somebody's word.
    let marked = marked(&folder, apex).and_then(|last| match last {
        Some(last) if is_newer(last, serial) => Ok(()),
        _ => mark(&folder, &mark_of(&folder, apex), serial),
    });
    if let Err(e) = marked {
        log::warn("serials may go back: a zone cannot be marked", &[("why", &e)]);
    }
}

/// Err: one that is there cannot be read now. A torn one is none.
fn marked(folder: &Path, apex: &[u8]) -> io::Result<Option<u32>> {
    match std::fs::read(mark_of(folder, apex)) {
        Ok(text) => Ok(str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Of a fixed length: a zone that has not come back yet has the mark already, and it is written over in its place.
fn mark(folder: &Path, mark: &Path, serial: u32) -> io::Result<()> {
    let text = format!("{serial:010}\n");
    match File::options().write(true).open(mark) {
        // Before an image has that version: a start marks what the image has not.
        Ok(file) => file.write_all_at(text.as_bytes(), 0).and_then(|()| file.sync_data()),
        Err(_) => {
            let name = mark.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            write_atomically(folder, name, None, |out| out.write_all(text.as_bytes())).map(drop)
        }
    }
}

impl Ledger {
    /// The newest serial under which others had a zone served, as far as updates have not gone on from there yet.
    pub fn overtaken(&self, apex: &[u8]) -> io::Result<Option<u32>> {
        marked(&self.folder, apex)
    }

    /// They have gone on from this one.
    pub fn unmark(&self, apex: &[u8], serial: u32) -> io::Result<()> {
        // Others may have had it served again meanwhile.
        if self.overtaken(apex)? == Some(serial) { std::fs::remove_file(mark_of(&self.folder, apex)) } else { Ok(()) }
    }

    /// Which zones that take updates were overtaken, or may have been. Looks at no zone's mark where there is none.
    pub fn all_overtaken(&self) -> Vec<Box<[u8]>> {
        let is_mark = |entry: std::fs::DirEntry| Path::new(&entry.file_name()).extension().is_some_and(|e| e == MARK);
        // What cannot be looked at now is looked at again.
        let may_have_any =
            std::fs::read_dir(&self.folder).map_or(true, |mut all| all.any(|entry| entry.map_or(true, is_mark)));
        let apexes = self.zones.keys().filter(|apex| may_have_any && !matches!(self.overtaken(apex), Ok(None)));
        apexes.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ALL, opened};
    use super::*;

    #[test]
    fn a_mark_says_the_newest_serial_that_secondaries_may_have() {
        let (data, ledger) = opened("mark", ALL);
        let apex = b"\x01z\0";
        assert!(!has_left(&data, apex));
        std::fs::write(file_of(&data.join(FOLDER), apex), "").unwrap();
        for (serial, newest) in [(20, 20), (30, 30), (25, 30), (30, 30), (u32::MAX, 30), (31, 31)] {
            overtake(&data, apex, serial);
            assert_eq!(ledger.overtaken(apex).unwrap(), Some(newest), "{serial}");
        }
        assert_eq!([30, 31, 32].map(|serial| is_overtaken(&data, apex, serial)), [true, true, false]);
        ledger.unmark(apex, 31).unwrap();
        assert_eq!(ledger.overtaken(apex).unwrap(), None);
        // One that cannot be read is not taken for none.
        let mark = mark_of(&ledger.folder, apex);
        std::fs::create_dir(&mark).unwrap();
        overtake(ledger.data_dir(), apex, 5);
        assert!(ledger.overtaken(apex).is_err() && mark.is_dir() && is_overtaken(&data, apex, 32));
        std::fs::remove_dir(&mark).unwrap();
        std::fs::remove_dir_all(&data).unwrap();
    }
}
