//! Files that go, and give their place on the disk back piece by piece.
//!
//! A file system takes a file's place back in one step, and with the option `discard` tells the disk of all of it before it ends that step. Who syncs
//! another file meanwhile, as the journal does before each update is answered, waits for it: while a file of 600 MB went, a sync of 3,000 octets took up
//! to 53, 54, 36 and 52 ms, and 7, 5, 14 and 5, as without, where that went in pieces of 8 MiB, each on the disk before the next
//! (`examples/disk.rs`). All of it then takes a fifth longer, on a thread that nobody waits for.
//!
//! Invariant: only a file of ours is cut off (`begin`) that has no name, and that nobody else has open or mapped, in whatever process. Others go as
//! they always do: whether a file without a name is mounted elsewhere, by itself, cannot be seen.
#![allow(unsafe_code)]

use crate::atomic::sync_folder;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
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
    // Or a crash might leave it under its name, cut off.
    if let (Some(_), Some(folder)) = (&going.0, path.parent())
        && let Err(e) = sync_folder(folder)
    {
        going.stay();
        return Err(e);
    }
    Ok(())
}

/// A file that may lose its name. If it has when this is dropped, for good, it goes.
pub(crate) struct Going(Option<File>);

impl Going {
    /// Opens a large file of ours.
    pub(crate) fn of(path: &Path) -> Going {
        // What a link leads to stays, and to open a pipe may take for ever.
        let is_large = || fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() > PIECE);
        let file = if is_ours(path) && is_large() { File::open(path).ok() } else { None };
        Going(file)
    }

    pub(crate) fn opened(path: &Path, file: File) -> Going {
        Going(Some(file).filter(|_| is_ours(path)))
    }

    /// Whether it has lost its name for good is not known.
    pub(crate) fn stay(mut self) {
        self.0 = None;
    }

    /// A file of ours that has no name any more.
    pub(crate) fn scratch(file: File) -> Going {
        Going(Some(file))
    }

    pub(crate) fn none() -> Going {
        Going(None)
    }
}

fn is_ours(path: &Path) -> bool {
    OWN.get().is_some_and(|own| path.starts_with(&own.folder))
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

/// The kernel grants a write lease on a file that nobody else has open, and a map has it open as long as it is there (fcntl(2)). But for one of an
/// overlay: such a map has the file that lies below.
fn is_ours_alone(file: &File) -> bool {
    let mut about = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `file` is open, and the call writes all of what it is given, or says that it has not; only then it is read.
    let kind =
        unsafe { (libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr()) == 0).then(|| about.assume_init().f_type) };
    let set = |what: libc::c_int, to: libc::c_int| {
        // SAFETY: takes no pointers; `file` is open.
        unsafe { libc::fcntl(file.as_raw_fd(), what, to) == 0 }
    };
    // Who opens it by way of our descriptor just then is told of by a signal: one that is ignored unless somebody wants it. SIGIO would end the process.
    kind.is_some_and(|kind| kind != libc::OVERLAYFS_SUPER_MAGIC)
        && set(F_SETSIG, libc::SIGURG)
        && set(libc::F_SETLEASE, libc::F_WRLCK)
        && set(libc::F_SETLEASE, libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Map;
    use crate::testdir::TestDir;

    #[test]
    fn what_has_a_name_or_somebody_who_uses_it_stays_as_it_is() {
        let dir = TestDir::new("stays");
        let large = PIECE + 1;
        let path = dir.file("f", b"large");
        File::options().write(true).open(&path).unwrap().set_len(large).unwrap();
        let open = || File::open(&path).unwrap();
        assert_eq!(shrink(open()), None, "it has its name");
        fs::hard_link(&path, dir.path().join("copy")).unwrap();
        let files = [open(), open(), open()];
        let map = Map::open_as_cached(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let [one, other, reader] = files;
        assert_eq!(shrink(one), None, "it has another name");
        fs::remove_file(dir.path().join("copy")).unwrap();
        assert_eq!(shrink(other), None, "somebody has it open");
        assert_eq!(reader.metadata().unwrap().len(), large);
        assert_eq!(shrink(reader), None, "it is mapped");
        assert_eq!((map.len() as u64, &map[..5], map[map.len() - 1], map.faults()), (large, &b"large"[..], 0, 0));
        assert!(Going::of(dir.path()).0.is_none() && !is_ours(dir.path()), "nothing is");
    }
}
