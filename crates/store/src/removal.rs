//! Files that go, and give their place on the disk back piece by piece.
//!
//! A file system takes a file's place back in one step, and with the option `discard` tells the disk of all of it before it ends that step. Who syncs
//! another file meanwhile, as the journal does before each update is answered, waits for it: while a file of 600 MB went, a sync of 3,000 octets took up
//! to 53, 54, 36 and 52 ms, and 7, 5, 14 and 5, as without, where that went in pieces of 8 MiB, each on the disk before the next
//! (`examples/disk.rs`). All of it then takes a fifth longer, on a thread that nobody waits for.
//!
//! Invariant: only a file of ours is cut off (`begin`) that has no name, and that nobody else has open or mapped, in whatever process. Others go as
//! they always do: that a file without a name is mounted elsewhere, by itself, cannot be seen.
#![allow(unsafe_code)]

use crate::atomic::sync_folder;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// What goes at once at most.
const PIECE: u64 = 8 << 20;
/// fcntl(2); the same on all of Linux.
const F_SETSIG: libc::c_int = 10;
/// Files that wait for their turn; the next goes at once.
const WAITING_MAX: usize = 64;

struct Own {
    folder: PathBuf,
    going: SyncSender<File>,
}

/// None: no file is ours, as in a command.
static OWN: OnceLock<Own> = OnceLock::new();

/// What is below this folder is ours from now on, and goes piece by piece, on a thread of its own that has the priority of who calls this.
pub fn begin(folder: &Path) -> io::Result<()> {
    let (going, files) = sync_channel(WAITING_MAX);
    thread::Builder::new()
        .name("removal".to_string())
        .spawn(move || files.into_iter().for_each(|file| _ = shrink(file)))?;
    // There is one data folder.
    let _ = OWN.set(Own { folder: folder.to_path_buf(), going });
    Ok(())
}

/// Removes a file.
pub fn remove(path: &Path) -> io::Result<()> {
    let going = Going::of(path);
    fs::remove_file(path)?;
    match (&going, path.parent()) {
        // Or a crash might leave it under its name, cut off.
        (Going(Some(_)), Some(folder)) => sync_folder(folder),
        _ => Ok(()),
    }
}

/// A file that may lose its name. If it has when this is dropped, for good, it goes.
pub(crate) struct Going(Option<File>);

impl Going {
    pub(crate) fn of(path: &Path) -> Going {
        // What a link leads to stays, and to open a pipe may take for ever.
        let is_large = fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() > PIECE);
        match File::open(path) {
            Ok(file) if is_large => Going::opened(path, file),
            _ => Going(None),
        }
    }

    pub(crate) fn opened(path: &Path, file: File) -> Going {
        Going(OWN.get().filter(|own| path.starts_with(&own.folder)).map(|_| file))
    }

    /// A file of ours that has no name any more.
    pub(crate) fn scratch(file: File) -> Going {
        Going(Some(file))
    }

    pub(crate) fn none() -> Going {
        Going(None)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let (Some(file), Some(own)) = (self.0.take(), OWN.get()) {
            let _ = own.going.try_send(file);
        }
    }
}

/// None: it goes with the last who has it.
fn shrink(file: File) -> Option<()> {
    let found = file.metadata().ok().filter(|found| found.nlink() == 0 && found.len() > PIECE)?;
    // It was opened to be read; once it has no name, this is the one way to it.
    let writable = File::options().write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    drop(file);
    if !is_ours_alone(&writable) {
        return None;
    }
    let mut len = found.len();
    while len > 0 {
        len = len.saturating_sub(PIECE);
        writable.set_len(len).and_then(|()| writable.sync_all()).ok()?;
    }
    Some(())
}

/// The kernel grants a write lease on a file that nobody else has open; a map counts as long as it is there (fcntl(2)).
fn is_ours_alone(file: &File) -> bool {
    let set = |what: libc::c_int, to: libc::c_int| {
        // SAFETY: takes no pointers; `file` is open.
        unsafe { libc::fcntl(file.as_raw_fd(), what, to) == 0 }
    };
    // Who opens it by way of our descriptor just then is told of by a signal: one that is ignored unless somebody wants it. SIGIO would end the process.
    set(F_SETSIG, libc::SIGURG) && set(libc::F_SETLEASE, libc::F_WRLCK) && set(libc::F_SETLEASE, libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Map;
    use crate::atomic::write_atomically;
    use crate::testdir::TestDir;
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    use std::time::{Duration, Instant};

    const LARGE: u64 = 3 * PIECE + 1;

    fn large(dir: &TestDir, name: &str) -> PathBuf {
        let path = dir.file(name, b"large");
        File::options().write(true).open(&path).unwrap().set_len(LARGE).unwrap();
        path
    }

    /// A descriptor that only says what becomes of a file: it is no use of it.
    fn look(path: &Path) -> impl Fn() -> u64 {
        let file = File::options().read(true).custom_flags(libc::O_PATH).open(path).unwrap();
        move || file.metadata().unwrap().len()
    }

    #[test]
    fn a_large_file_of_ours_is_cut_off_when_it_has_lost_its_name() {
        let (dir, others) = (TestDir::new("ours"), TestDir::new("others"));
        begin(dir.path()).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let wait = |len: &dyn Fn() -> u64| {
            while len() > 0 {
                assert!(Instant::now() < end, "it is not cut off");
                thread::yield_now();
            }
        };
        let path = large(&dir, "removed");
        let len = look(&path);
        remove(&path).unwrap();
        wait(&len);
        let path = large(&dir, "replaced");
        let len = look(&path);
        write_atomically(dir.path(), "replaced", None, |out| out.write_all(b"new")).unwrap();
        wait(&len);
        let path = large(&dir, "mapped");
        let (len, map) = (look(&path), Map::open(&path).unwrap());
        remove(&path).unwrap();
        assert_eq!((map.len() as u64, &map[..5], map[map.len() - 1], map.faults()), (LARGE, &b"large"[..], 0, 0));
        assert_eq!(len(), LARGE, "it is mapped");
        drop(map);
        wait(&len);
        remove(&dir.file("small", b"s")).unwrap();
        assert_eq!(remove(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(dir.names(), ["replaced"]);
        let path = large(&others, "not ours");
        assert!(Going::of(&path).0.is_none());
        remove(&path).unwrap();
        assert_eq!(others.names(), [] as [&str; 0]);
    }

    #[test]
    fn what_has_a_name_or_somebody_who_uses_it_stays_as_it_is() {
        let dir = TestDir::new("stays");
        let path = large(&dir, "f");
        let open = || File::open(&path).unwrap();
        assert_eq!(shrink(open()), None, "it has its name");
        fs::hard_link(&path, dir.path().join("copy")).unwrap();
        let (file, reader, len) = (open(), open(), look(&path));
        fs::remove_file(&path).unwrap();
        assert_eq!(shrink(file), None, "it has another name");
        fs::remove_file(dir.path().join("copy")).unwrap();
        // The same open file, and to the kernel another one than who asks for the lease.
        assert_eq!(shrink(reader.try_clone().unwrap()), None, "somebody has it open");
        assert_eq!(len(), LARGE);
        assert_eq!((shrink(reader), len()), (Some(()), 0));
    }
}
