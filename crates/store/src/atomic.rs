//! Writing a file so that it is there whole or not at all: after a crash at any moment the old file or the new one
//! stands under the name, never a piece.
//!
//! The new content goes to a temporary file in the same folder, is synced, is checked if the caller wants to, takes the
//! name, and the folder is synced too (a rename that is not synced may be forgotten). An error removes the temporary file.
//! Where somebody else writes under the name too, both files exchange names: what was there is not gone.
#![allow(unsafe_code)]

use crate::map::leave_cache;
use crate::removal::Going;
use std::ffi::{CStr, CString};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Octets of a file to be mapped that are written at a time, and the border they end at: the page cache then keeps it in pieces
/// of this size, which a map can show with huge pages without reading the file again.
const PIECE: usize = 2 << 20;
/// Of any other file. A kernel that is not preempted takes a piece without a break: where memory is dear (a virtual machine's)
/// an answering thread waited 6 ms for 2 MiB.
const SMALL: usize = 64 << 10;
/// Octets that are on their way to the disk at most. Who wants something there meanwhile waits for them, as the journal does with each update: behind an
/// image of 430 MiB that went there at once an update waited 72 ms.
const UNDER_WAY: u64 = 1 << 20;

/// Writes `dir/name`. `size` is known of files to be mapped; it is reserved first, so that a full disk is found before anything
/// is written. Returns the path.
pub fn write_atomically(
    dir: &Path,
    name: &str,
    size: Option<u64>,
    write: impl FnOnce(&mut Output) -> io::Result<()>,
) -> io::Result<PathBuf> {
    prepare(dir, name, size, write, |_| Ok(()))?.take_name()
}

/// As `write_atomically`, but for the name: of several files that belong together each can be whole before the first takes
/// its own. `check` is given the synced file, and may refuse it.
pub fn prepare(
    dir: &Path,
    name: &str,
    size: Option<u64>,
    write: impl FnOnce(&mut Output) -> io::Result<()>,
    check: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<Prepared> {
    let target = dir.join(name);
    let explain = |e: io::Error| explained(&target, size, &e);
    let temporary = Temporary::new(dir, name).map_err(explain)?;
    let mut output = Output::new(temporary.file.try_clone().map_err(explain)?, size.map_or(SMALL, |_| PIECE));
    reserve(&temporary.file, size).and_then(|()| write(&mut output)).and_then(|()| output.finish()).map_err(explain)?;
    check(&temporary.path).map_err(explain)?;
    Ok(Prepared { temporary, folder: dir.into(), target, size })
}

/// A file that is written and synced, and has not its name yet. It is gone if it is dropped.
pub struct Prepared {
    temporary: Temporary,
    folder: PathBuf,
    target: PathBuf,
    size: Option<u64>,
}

impl Prepared {
    pub fn take_name(self) -> io::Result<PathBuf> {
        self.named(|from, to| fs::rename(from, to))
    }

    /// The same where nothing has the name. Err: also if something has come to it.
    pub fn take_free_name(self) -> io::Result<PathBuf> {
        self.named(rename_new)
    }

    fn named(self, rename: impl FnOnce(&Path, &Path) -> io::Result<()>) -> io::Result<PathBuf> {
        let Prepared { temporary, folder, target, size } = self;
        let found = fs::symlink_metadata(&target);
        let (is_new, own) = (found.is_err_and(|e| e.kind() == io::ErrorKind::NotFound), ino(&temporary));
        // Goes when the other has its name for good.
        let before = Going::of(&target);
        let named = temporary.take_name(&target, rename).and_then(|()| {
            let synced = sync_folder(&folder);
            // Whoever is told that it failed does not find it there.
            if synced.is_err() && is_new && fs::symlink_metadata(&target).is_ok_and(|found| found.ino() == own) {
                let _ = fs::remove_file(&target);
            }
            synced
        });
        if let Err(e) = named {
            before.stay();
            return Err(explained(&target, size, &e));
        }
        Ok(target)
    }

    /// As `take_name`, but what had the name stands under the name `aside` from the same moment on. False: nothing had it; or
    /// the file system cannot do that, and it is gone.
    pub fn exchange(self, aside: &str) -> io::Result<bool> {
        let Prepared { temporary, folder, target, size } = self;
        let (aside, own) = (folder.join(aside), ino(&temporary));
        let named = temporary.take_aside(&target, &aside);
        let is_aside = named.and_then(|is_aside| {
            let synced = sync_folder(&folder);
            if synced.is_err() && is_aside {
                // Whoever is told that it failed finds what he had. On a disk that fails that may fail, too.
                let _ = swap(&aside, &target);
                if fs::metadata(&aside).is_ok_and(|found| found.ino() == own) {
                    let _ = fs::remove_file(&aside);
                }
            }
            synced.map(|()| is_aside)
        });
        is_aside.map_err(|e| explained(&target, size, &e))
    }
}

/// Which file it is; none has the number 0.
fn ino(temporary: &Temporary) -> u64 {
    temporary.file.metadata().map_or(0, |found| found.ino())
}

/// Where the content goes: buffered in pieces, and to the disk little by little.
pub struct Output {
    file: File,
    /// Octets of a piece.
    piece: usize,
    /// What comes next. It may begin within a piece, after a flush.
    buffer: Vec<u8>,
    /// Octets in the file.
    at: u64,
    /// Octets on the disk.
    settled: u64,
}

impl Output {
    fn new(file: File, piece: usize) -> Output {
        Output { file, piece, buffer: Vec::with_capacity(piece), at: 0, settled: 0 }
    }

    /// Gives the new file owner, group, mode and access list of another one; called first, nobody reads it who may not read that one.
    pub fn resemble(&self, other: &Path) -> io::Result<()> {
        let (own, found) = (self.file.metadata()?, fs::metadata(other)?);
        if (own.uid(), own.gid()) != (found.uid(), found.gid()) {
            fchown(&self.file, Some(found.uid()), Some(found.gid()))?;
        }
        let mut mode = found.permissions();
        // Before the mode: with a list, the group's part of that is a bound of what the list grants, and without one the group's right.
        let list = access_list(other)?;
        if set_access_list(&self.file, list.as_deref()).is_err() {
            // As where it grants rights to users that this namespace does not know. What the group may do by the list is not known here.
            mode.set_mode(mode.mode() & !0o070);
        }
        self.file.set_permissions(mode)
    }

    /// Who may read and write the new file; called first, nobody else has.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.file.set_permissions(fs::Permissions::from_mode(mode))
    }

    /// Appends a part of another file, without a way through our memory where the kernel has one. That file is read from its beginning to its end, and
    /// replaced then: what was read leaves the cache at once, as the same comes to it here. Else there would be both in it, until all of the one
    /// goes; and a guest would tell its host of that memory, and have to ask for it again, file after file.
    pub fn copy(&mut self, from: &mut File, at: u64, octets: u64) -> io::Result<()> {
        self.flush()?;
        from.seek(SeekFrom::Start(at))?;
        let mut left = octets;
        while left > 0 {
            let copied = io::copy(&mut Read::take(&mut *from, left.min(UNDER_WAY)), &mut self.file)?;
            if copied == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= copied;
            leave_cache(from, at + octets - left);
            self.has_grown(copied)?;
        }
        Ok(())
    }

    fn has_grown(&mut self, octets: u64) -> io::Result<()> {
        self.at += octets;
        if self.at - self.settled < UNDER_WAY {
            return Ok(());
        }
        let from = std::mem::replace(&mut self.settled, self.at);
        settle(&self.file, from, self.at - from)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_all()
    }
}

impl Write for Output {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let begun = (self.at % self.piece as u64) as usize;
        let room = self.piece - begun - self.buffer.len();
        if let Some(piece) = from.get(..room).filter(|_| self.buffer.is_empty()) {
            self.file.write_all(piece)?;
            self.has_grown(room as u64)?;
            return Ok(room);
        }
        let taken = from.len().min(room);
        self.buffer.extend_from_slice(&from[..taken]);
        if taken == room {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        let octets = self.buffer.len() as u64;
        self.buffer.clear();
        self.has_grown(octets)
    }
}

/// Removes what writers that died in the middle have left in a folder.
///
/// Whoever writes holds a lock on the file, which goes with him. His process's number is in the name, `.NAME.PID-N.new`, and says
/// little: in a container each run has the same one, and elsewhere a thread of anybody's may have it by now. It is asked for where
/// files cannot be locked.
pub fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let writer = name.strip_suffix(".new").and_then(|n| n.rsplit('.').next()).and_then(|n| n.split_once('-'));
        let writer = writer.and_then(|(pid, n)| Some((pid.parse::<u32>().ok()?, n.parse::<u64>().ok()?)));
        let Some((pid, _)) = writer.filter(|_| name.starts_with('.')) else { continue };
        let Ok(file) = File::open(entry.path()) else { continue };
        let is_left = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(_)) => !Path::new("/proc").join(pid.to_string()).exists(),
        };
        if is_left {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// What stands of a file's name in that of a temporary one: a name has 255 octets at most.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(220)]
}

/// A file that goes away on drop, unless it took its name. It is locked as long as it is held, so that `sweep` leaves it.
struct Temporary {
    file: File,
    path: PathBuf,
    kept: bool,
}

impl Temporary {
    fn new(dir: &Path, name: &str) -> io::Result<Temporary> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let path = dir.join(format!(".{}.{}-{}.new", cut(name), std::process::id(), NEXT.fetch_add(1, Relaxed)));
            match File::options().write(true).create_new(true).open(&path) {
                Ok(file) => match file.try_lock() {
                    // Somebody sweeps it up already.
                    Err(TryLockError::WouldBlock) => {}
                    _ if file.metadata()?.nlink() == 0 => {}
                    // Where files cannot be locked `sweep` goes by the number.
                    _ => return Ok(Temporary { file, path, kept: false }),
                },
                // Left by a process that crashed with our number.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn take_name(mut self, target: &Path, rename: impl FnOnce(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
        rename(&self.path, target)?;
        self.kept = true;
        Ok(())
    }

    fn take_aside(mut self, target: &Path, aside: &Path) -> io::Result<bool> {
        let own = self.path.clone();
        fs::rename(&own, aside)?;
        self.path = aside.into();
        let is_aside = swap(aside, target).or_else(|e| match e {
            e if is_unable(&e) => {
                fs::rename(aside, &own)?;
                self.path.clone_from(&own);
                link_aside(&own, target, aside)
            }
            e => Err(e),
        });
        self.kept = is_aside.is_ok();
        is_aside
    }
}

/// Gives a file the name of another, which has a second name before; where the file system has no links, it is gone.
fn link_aside(file: &Path, target: &Path, aside: &Path) -> io::Result<bool> {
    let is_aside = fs::hard_link(target, aside).is_ok();
    fs::rename(file, target).map(|()| is_aside)
}

/// Gives one file the name of another of its folder, and that one the name of the first, in one step; the folder is synced then.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let exchanged = swap(one, other).or_else(|e| if is_unable(&e) { swap_by_links(one, other) } else { Err(e) });
    let exchanged = exchanged.and_then(|_| other.parent().map_or(Ok(()), sync_folder));
    exchanged.map_err(|e| explained(other, None, &e))
}

/// False: nothing had the other name, and nothing has the first now.
fn swap(one: &Path, other: &Path) -> io::Result<bool> {
    loop {
        match rename(one, other, libc::RENAME_EXCHANGE) {
            Ok(()) => return Ok(true),
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            Err(_) => {}
        }
        match rename(one, other, libc::RENAME_NOREPLACE) {
            Ok(()) => return Ok(false),
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            // Somebody has made one just now.
            Err(_) => {}
        }
    }
}

/// The same on a file system that knows no such renaming, in steps: there is always a whole file under the other name.
fn swap_by_links(one: &Path, other: &Path) -> io::Result<bool> {
    let between = one.with_added_extension("between");
    // Somebody who was killed may have left one.
    let _ = fs::remove_file(&between);
    let is_there = link_aside(one, other, &between)?;
    if is_there { fs::rename(&between, one).map(|()| true) } else { Ok(false) }
}

/// Gives a file another name that nothing has. Err: also if something has.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rename(from, to, libc::RENAME_NOREPLACE) {
        Err(e) if is_unable(&e) => link_new(from, to),
        renamed => renamed,
    }
}

/// The same on a file system that knows no such renaming.
fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        // It has both names if it keeps the first.
        Ok(()) => {
            let _ = fs::remove_file(from);
            Ok(())
        }
        // It may have no links either.
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists && fs::symlink_metadata(to).is_err() => fs::rename(from, to),
        linked => linked,
    }
}

/// A file system that knows no such renaming.
fn is_unable(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP))
}

fn rename(from: &Path, to: &Path, flags: libc::c_uint) -> io::Result<()> {
    let (from, to) = (CString::new(from.as_os_str().as_bytes())?, CString::new(to.as_os_str().as_bytes())?);
    // SAFETY: both are strings that end with a zero, and live for the call.
    let result = unsafe { libc::renameat2(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Octets of an attribute at most (xattr(7)).
const LIST_MAX: usize = 64 << 10;
/// Where a file's access list stands (acl(5)).
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// None: the file has none, or its file system knows none.
fn access_list(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let path = CString::new(file.as_os_str().as_bytes())?;
    let get = |room: &mut [u8]| {
        // SAFETY: both are strings that end with a zero; `room` is writable for its length, and with a length of 0 is not written to.
        let len = unsafe { libc::getxattr(path.as_ptr(), ACCESS_LIST.as_ptr(), room.as_mut_ptr().cast(), room.len()) };
        usize::try_from(len).map_err(|_| io::Error::last_os_error())
    };
    let mut list = vec![0; LIST_MAX];
    match get(&mut list) {
        Err(e) if is_without_list(&e) => Ok(None),
        len => {
            list.truncate(len?);
            Ok(Some(list))
        }
    }
}

/// None: the file has none any more, whatever its folder gives to new files.
fn set_access_list(file: &File, list: Option<&[u8]>) -> io::Result<()> {
    // SAFETY: the name is a string that ends with a zero, the list is readable for its length, the file is open.
    let result = unsafe {
        match list {
            Some(list) => libc::fsetxattr(file.as_raw_fd(), ACCESS_LIST.as_ptr(), list.as_ptr().cast(), list.len(), 0),
            None => libc::fremovexattr(file.as_raw_fd(), ACCESS_LIST.as_ptr()),
        }
    };
    let e = io::Error::last_os_error();
    if result == 0 || list.is_none() && is_without_list(&e) { Ok(()) } else { Err(e) }
}

fn is_without_list(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP | libc::ENOSYS))
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Reserves room. A file system that cannot reserve is not an error: the writes will tell.
fn reserve(file: &File, size: Option<u64>) -> io::Result<()> {
    let Some(size) = size.filter(|&n| n > 0) else { return Ok(()) };
    let size = libc::off_t::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    // The size stays as written, so that a shorter file than announced has no tail of zeros.
    // SAFETY: takes no pointers; the file is open.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, size) };
    let e = io::Error::last_os_error();
    match e.raw_os_error() {
        _ if result == 0 => Ok(()),
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINTR) => Ok(()),
        _ => Err(e),
    }
}

/// Sends a part of a file to the disk, and waits until it is there. Whether the file will be found with it is another matter (sync_file_range(2)).
fn settle(file: &File, from: u64, octets: u64) -> io::Result<()> {
    const ALL: libc::c_uint =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: takes no pointers; the file is open.
    let result =
        unsafe { libc::sync_file_range(file.as_raw_fd(), from as libc::off64_t, octets as libc::off64_t, ALL) };
    let e = io::Error::last_os_error();
    match e.raw_os_error() {
        _ if result == 0 => Ok(()),
        // A kernel or a file system without it: all goes there in the end.
        Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP | libc::ESPIPE) => Ok(()),
        _ => Err(e),
    }
}

/// What has got or lost its name in this folder has for good. A file that is named by nothing but its own name has the folder "".
pub fn sync_folder(dir: &Path) -> io::Result<()> {
    File::open(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })?.sync_all()
}

pub(crate) fn explained(target: &Path, size: Option<u64>, e: &io::Error) -> io::Error {
    // A limit on the size of files is as good as a full disk.
    let full =
        matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge);
    let text = match size {
        Some(size) if full => format!("{}: no space: needs {} MiB ({e})", target.display(), size.div_ceil(1 << 20)),
        _ => format!("{}: {e}", target.display()),
    };
    io::Error::new(e.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdir::TestDir;

    #[test]
    fn the_file_is_there_whole_and_nothing_beside_it() {
        let dir = TestDir::new("atomic");
        for (size, content) in
            [(None, &b"one"[..]), (Some(3), b"two"), (Some(100), b"shorter than announced"), (Some(0), b"")]
        {
            let path = write_atomically(dir.path(), "f", size, |out| out.write_all(content)).unwrap();
            assert_eq!(fs::read(path).unwrap(), content);
            assert_eq!(dir.names(), ["f"]);
        }
    }

    #[test]
    fn pieces_come_out_in_their_places() {
        let dir = TestDir::new("pieces");
        let expect: Vec<u8> = (0..2 * PIECE + 77).map(|i| (i / 3) as u8).collect();
        let path = write_atomically(dir.path(), "f", Some(expect.len() as u64), |out| {
            out.write_all(&expect[..5])?;
            out.flush()?;
            assert_eq!((out.at, out.settled), (5, 0));
            out.write_all(&expect[5..])?;
            assert_eq!((out.at, out.settled), (2 * PIECE as u64, 2 * PIECE as u64), "the rest is not in the file yet");
            Ok(())
        });
        assert!(fs::read(path.unwrap()).unwrap() == expect);
    }

    #[test]
    fn parts_of_another_file_come_out_in_their_places() {
        let dir = TestDir::new("parts");
        let old: Vec<u8> = (0..2 * PIECE + 77).map(|i| (i / 5) as u8).collect();
        dir.file("old", &old);
        let mut from = File::open(dir.path().join("old")).unwrap();
        let path = write_atomically(dir.path(), "f", None, |out| {
            out.write_all(b"head")?;
            out.copy(&mut from, 3, PIECE as u64 + 9)?;
            assert_eq!((out.at, out.settled), (PIECE as u64 + 13, PIECE as u64 + 4));
            out.copy(&mut from, 1, 0)?;
            out.write_all(&old[..PIECE])?;
            out.copy(&mut from, old.len() as u64 - 1, 1)
        });
        let expect = [b"head", &old[3..PIECE + 12], &old[..PIECE], &old[old.len() - 1..]].concat();
        assert!(fs::read(path.unwrap()).unwrap() == expect);
        let short = write_atomically(dir.path(), "f", None, |out| out.copy(&mut from, 3, old.len() as u64));
        assert_eq!(short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(fs::read(dir.path().join("f")).unwrap() == expect);
    }

    #[test]
    fn a_failure_keeps_the_old_file_and_leaves_nothing() {
        let dir = TestDir::new("failure");
        dir.file("f", b"old");
        let failed = write_atomically(dir.path(), "f", None, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("the builder gave up"))
        });
        let text = failed.unwrap_err().to_string();
        assert!(text.contains("/f: ") && text.contains("the builder gave up"), "{text}");
        assert_eq!(dir.names(), ["f"]);
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"old");
    }

    #[test]
    fn a_file_that_resembles_another_has_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let dir = TestDir::new("resembles");
        dir.file("f", b"old");
        for mode in [0o600, 0o640, 0o444] {
            fs::set_permissions(dir.path().join("f"), fs::Permissions::from_mode(mode)).unwrap();
            let path = write_atomically(dir.path(), "f", None, |out| {
                out.resemble(&dir.path().join("f"))?;
                out.write_all(b"new")?;
                out.flush()?;
                out.write_all(b" and more")
            });
            let path = path.unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
            assert_eq!(fs::read(&path).unwrap(), b"new and more");
        }
    }

    #[test]
    fn a_file_that_resembles_another_has_its_access_list() {
        use std::os::unix::fs::PermissionsExt;
        let dir = TestDir::new("access-list");
        dir.file("f", b"old");
        // Version 2; entries of tag, rights and whom: the owner, user 65534, the group, the bound, others.
        let entries = [(1u16, 6u16, u32::MAX), (2, 6, 65534), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)];
        let entry = |(tag, rights, who): (u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &who.to_le_bytes()].concat()
        };
        let list = [vec![2, 0, 0, 0], entries.map(entry).concat()].concat();
        let file = dir.path().join("f");
        let set = set_access_list(&File::open(&file).unwrap(), Some(&list));
        let known = access_list(&file).unwrap();
        // A file system that knows none has none to be kept.
        assert_eq!(known, set.ok().map(|()| list));
        for _ in 0..2 {
            let write = |out: &mut Output| out.resemble(&file).and_then(|()| out.write_all(b"new"));
            write_atomically(dir.path(), "f", None, write).unwrap();
            assert_eq!(access_list(&file).unwrap(), known);
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7, known.as_ref().map_or(4, |_| 0));
        }
        set_access_list(&File::open(&file).unwrap(), None).unwrap();
        assert_eq!(access_list(&file).unwrap(), None);
    }

    #[test]
    fn what_is_prepared_takes_its_name_when_it_is_told_to() {
        let dir = TestDir::new("prepared");
        dir.file("f", b"old");
        let new = || prepare(dir.path(), "f", None, |out| out.write_all(b"new"), |_| Ok(())).unwrap();
        drop(new());
        assert_eq!((dir.names(), fs::read(dir.path().join("f")).unwrap()), (vec!["f".to_string()], b"old".to_vec()));
        let taken = new().take_free_name().unwrap_err();
        assert_eq!((taken.kind(), dir.names()), (io::ErrorKind::AlreadyExists, vec!["f".to_string()]), "{taken}");
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"old");
        assert_eq!(fs::read(new().take_name().unwrap()).unwrap(), b"new");
        fs::remove_file(dir.path().join("f")).unwrap();
        assert_eq!(fs::read(new().take_free_name().unwrap()).unwrap(), b"new");
        dir.file("g", b"other");
        let [f, g, h] = ["f", "g", "h"].map(|name| dir.path().join(name));
        assert_eq!(link_new(&f, &g).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        link_new(&g, &h).unwrap();
        assert_eq!(dir.names(), ["f", "h"]);
        fs::remove_file(h).unwrap();
        assert_eq!(dir.names(), ["f"]);
    }

    #[test]
    fn what_had_the_name_goes_aside() {
        let dir = TestDir::new("aside");
        let new = || prepare(dir.path(), "f", None, |out| out.write_all(b"new"), |_| Ok(())).unwrap();
        let content = |name: &str| fs::read(dir.path().join(name)).unwrap();
        assert!(!new().exchange("g").unwrap(), "there was nothing");
        assert_eq!((dir.names(), content("f")), (vec!["f".to_string()], b"new".to_vec()));
        dir.file("f", b"old");
        assert!(new().exchange("g").unwrap());
        assert_eq!((content("f"), content("g")), (b"new".to_vec(), b"old".to_vec()));
        exchange(&dir.path().join("g"), &dir.path().join("f")).unwrap();
        assert_eq!((content("f"), content("g")), (b"old".to_vec(), b"new".to_vec()));
        let [f, g, h] = ["f", "g", "h"].map(|name| dir.path().join(name));
        assert!(link_aside(&g, &f, &h).unwrap());
        assert_eq!(
            (dir.names(), content("f"), content("h")),
            (vec!["f".into(), "h".into()], b"new".to_vec(), b"old".to_vec())
        );
        fs::rename(h, g).unwrap();
        fs::remove_file(f).unwrap();
        fs::create_dir(dir.path().join("f")).unwrap();
        assert!(is_unable(&io::Error::from_raw_os_error(libc::EINVAL)));
        let why = new().exchange(&"x".repeat(300)).unwrap_err().to_string();
        assert!(why.contains("/f: ") && dir.names() == ["f", "g"], "{why} {:?}", dir.names());
    }

    #[test]
    fn files_exchange_their_names_by_links_too() {
        let dir = TestDir::new("links");
        let content = |name: &str| fs::read(dir.path().join(name)).unwrap();
        let [f, g] = ["f", "g"].map(|name| dir.path().join(name));
        dir.file("f", b"old");
        dir.file("g", b"new");
        // As somebody who was killed has left it.
        dir.file("g.between", b"older");
        assert!(swap_by_links(&g, &f).unwrap());
        assert_eq!(
            (dir.names(), content("f"), content("g")),
            (vec!["f".into(), "g".into()], b"new".into(), b"old".into())
        );
        fs::remove_file(&f).unwrap();
        assert!(!swap_by_links(&g, &f).unwrap());
        assert_eq!((dir.names(), content("f")), (vec!["f".to_string()], b"old".to_vec()));
    }

    #[test]
    fn what_is_refused_does_not_take_the_name() {
        let dir = TestDir::new("refused");
        dir.file("f", b"old");
        let write = |out: &mut Output| out.write_all(b"new");
        let refuse = |path: &Path| {
            assert_eq!(fs::read(path).unwrap(), b"new");
            Err(io::Error::other("not what was meant"))
        };
        let text = prepare(dir.path(), "f", None, write, refuse).map(drop).unwrap_err().to_string();
        assert!(text.contains("/f: ") && text.contains("not what was meant"), "{text}");
        assert_eq!((dir.names(), fs::read(dir.path().join("f")).unwrap()), (vec!["f".to_string()], b"old".to_vec()));
        prepare(dir.path(), "f", None, write, |_| Ok(())).unwrap().take_name().unwrap();
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"new");
    }

    #[test]
    fn a_file_left_by_a_crash_is_in_nobodys_way() {
        let dir = TestDir::new("crash");
        for n in 0..50 {
            dir.file(&format!(".f.{}-{n}.new", std::process::id()), b"left");
        }
        write_atomically(dir.path(), "f", None, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"new");
    }

    #[test]
    fn what_a_crash_has_left_is_swept_away_whoever_has_its_number_now() {
        use std::os::unix::process::parent_id;
        let dir = TestDir::new("sweep");
        let (own, nobody) = (std::process::id(), u32::MAX);
        for left in [format!(".f.{own}-999999.new"), format!(".f.{nobody}-1.new"), format!(".f.{}-1.new", parent_id())]
        {
            dir.file(&left, b"left");
        }
        dir.file(".f.x-1.new", b"of nobody");
        let prepared = prepare(dir.path(), "f", None, |out| out.write_all(b"new"), |_| Ok(())).unwrap();
        let written = prepared.temporary.path.file_name().unwrap().to_string_lossy().into_owned();
        sweep(dir.path());
        let mut expect = vec![".f.x-1.new".into(), written];
        expect.sort();
        assert_eq!(dir.names(), expect);
        prepared.take_name().unwrap();
        sweep(dir.path());
        assert_eq!(dir.names(), [".f.x-1.new", "f"]);
    }

    #[test]
    fn errors_name_the_file_and_the_need() {
        let dir = TestDir::new("need");
        // More than any disk has: the kernel says that the file is too large or the disk full.
        let huge = write_atomically(dir.path(), "f", Some(1 << 60), |_| Ok(())).unwrap_err().to_string();
        assert!(huge.contains("/f: "), "{huge}");
        assert!(dir.names().is_empty());
        let none = write_atomically(&dir.path().join("none"), "f", None, |_| Ok(())).unwrap_err().to_string();
        assert!(none.contains("none/f: No such file"), "{none}");
        let full = explained(Path::new("/d/f"), Some(5 << 20), &io::Error::from_raw_os_error(libc::ENOSPC)).to_string();
        assert!(full.starts_with("/d/f: no space: needs 5 MiB"), "{full}");
    }
}
