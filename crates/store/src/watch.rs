//! Folders whose changes the kernel tells: inotify, one watch a folder, however many files lie in it.
//!
//! Tells names, never contents, and may tell one change several times; whoever asks compares. The kernel's queue is
//! bounded (fs.inotify.max_queued_events): when it overflows, that is told instead of what was lost.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Room for some hundreds of events; a name has 255 octets at most.
const ROOM: usize = 64 << 10;
/// In so many reads there is more than the queue holds.
const READS_MAX: usize = 128;
/// How long is waited at most where there is no queue: somebody may make one meanwhile.
const NO_QUEUE: Duration = Duration::from_secs(1);
/// What stands before an event's name.
const HEAD: usize = size_of::<libc::inotify_event>();

/// What of a folder is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A file that was written and closed, or that appeared (a link as such), or went.
    Files,
    /// The same, and every single write to a file.
    Writes,
    /// The same, and whatever else changes what a look at a file finds.
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something happened to this file.
    File(PathBuf),
    /// The folder itself is gone, or is another one now: it is not watched any more.
    Gone(PathBuf),
    /// More happened than the queue could hold.
    Lost,
    /// Something was mounted or unmounted: the path of a folder may lead to another one.
    Mounts,
}

/// Any thread may add folders while one waits.
#[derive(Default)]
pub struct Watch {
    /// Made when the first folder is added: there may be none to be had (fs.inotify.max_user_instances), and one later.
    queue: OnceLock<OwnedFd>,
    folders: Mutex<Watched>,
}

/// By what the kernel calls a folder: all paths under which it is watched.
type Watched = HashMap<libc::c_int, Vec<PathBuf>>;

impl Watch {
    fn queue(&self) -> io::Result<RawFd> {
        if let Some(queue) = self.queue.get() {
            return Ok(queue.as_raw_fd());
        }
        // SAFETY: takes no pointers.
        let fd = checked(unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) }).map_err(|e| {
            let is_about_all = e.raw_os_error() == Some(libc::EMFILE);
            let limits = "is it fs.inotify.max_user_instances, or the limit of open files?";
            if is_about_all { io::Error::new(e.kind(), format!("{e}: {limits}")) } else { e }
        })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let made = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(self.queue.get_or_init(|| made).as_raw_fd())
    }

    fn folders(&self) -> MutexGuard<'_, Watched> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a folder; its changes are told with paths that begin as this one does. Once more does no harm; under another path
    /// they are told with both. True: it was not watched under this path.
    pub fn add(&self, folder: &Path, what: What) -> io::Result<bool> {
        let path = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
        let files = libc::IN_CLOSE_WRITE | libc::IN_MOVED_TO | libc::IN_MOVED_FROM | libc::IN_DELETE | libc::IN_CREATE;
        let itself = libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_ONLYDIR;
        let more = match what {
            What::Files => 0,
            What::Writes => libc::IN_MODIFY,
            What::All => libc::IN_MODIFY | libc::IN_ATTRIB,
        };
        let queue = self.queue()?;
        let mut folders = self.folders();
        // SAFETY: `path` is a live string, the descriptor is open.
        let number = unsafe { libc::inotify_add_watch(queue, path.as_ptr(), files | itself | more) };
        let number = checked(number)?;
        let is_new = folders.get(&number).is_none_or(|paths| !paths.iter().any(|path| path == folder));
        if is_new {
            // What the path led to before is another folder.
            self.forget(&mut folders, folder);
            folders.entry(number).or_default().push(folder.to_path_buf());
        }
        Ok(is_new)
    }

    pub fn remove(&self, folder: &Path) {
        self.forget(&mut self.folders(), folder);
    }

    fn forget(&self, folders: &mut Watched, folder: &Path) {
        folders.retain(|&number, paths| {
            paths.retain(|path| path != folder);
            if paths.is_empty() {
                // SAFETY: takes no pointers. A number that the kernel has given up already is no error here.
                self.queue.get().into_iter().for_each(|queue| unsafe {
                    libc::inotify_rm_watch(queue.as_raw_fd(), number);
                });
            }
            !paths.is_empty()
        });
    }

    /// Waits for changes, of mounts too where these are given, at most so long; none: there were none.
    pub fn wait(&self, most: Option<Duration>, mounts: Option<&Mounts>) -> io::Result<Vec<Change>> {
        let queue = self.queue.get().map(AsRawFd::as_raw_fd);
        // A queue that is made meanwhile is not waited for.
        let most = if queue.is_none() { Some(most.map_or(NO_QUEUE, |most| most.min(NO_QUEUE))) } else { most };
        let timeout = most.map_or(-1, |d| libc::c_int::try_from(d.as_millis()).unwrap_or(libc::c_int::MAX));
        // One that is negative is passed over (poll(2)).
        let of = |fd: Option<RawFd>, events| libc::pollfd { fd: fd.unwrap_or(-1), events, revents: 0 };
        let mut asked = [of(queue, libc::POLLIN), of(mounts.map(|mounts| mounts.0.as_raw_fd()), libc::POLLPRI)];
        // SAFETY: `asked` is live, and two.
        match checked(unsafe { libc::poll(asked.as_mut_ptr(), 2, timeout) }) {
            Ok(_) => {
                let mut changes = if asked[0].revents != 0 { self.read()? } else { Vec::new() };
                changes.extend((asked[1].revents != 0).then_some(Change::Mounts));
                Ok(changes)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// All that is there to be told, without waiting. Of somebody who changes more meanwhile not everything: that is told, too.
    pub fn take(&self) -> io::Result<Vec<Change>> {
        let mut all = Vec::new();
        for _ in 0..READS_MAX {
            match self.read() {
                Ok(changes) => all.extend(changes),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(all),
                Err(e) => return Err(e),
            }
        }
        all.push(Change::Lost);
        Ok(all)
    }

    fn read(&self) -> io::Result<Vec<Change>> {
        let Some(queue) = self.queue.get().map(AsRawFd::as_raw_fd) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let mut room = vec![0u8; ROOM];
        // SAFETY: pointer and length are those of a live, writable vector.
        let n = unsafe { libc::read(queue, room.as_mut_ptr().cast(), room.len()) };
        let Ok(n) = usize::try_from(n) else { return Err(io::Error::last_os_error()) };
        let mut folders = self.folders();
        let mut changes = Vec::new();
        let mut rest = &room[..n];
        while let Some((head, after)) = rest.split_at_checked(HEAD) {
            let number = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (watch, mask) = (number(0).cast_signed(), number(4));
            let (name, next) = after.split_at_checked(number(12) as usize).unwrap_or((after, &[]));
            if mask & libc::IN_MOVE_SELF != 0 {
                // The kernel goes on to watch it where it is now, and by its name nobody finds it there.
                // SAFETY: takes no pointers. A number that the kernel has given up already is no error here.
                unsafe { libc::inotify_rm_watch(queue, watch) };
            }
            changes.extend(change(&mut folders, watch, mask, name));
            rest = next;
        }
        Ok(changes)
    }
}

/// Tells that something was mounted or unmounted, so that paths may lead elsewhere.
pub struct Mounts(File);

impl Mounts {
    pub fn new() -> io::Result<Mounts> {
        File::open("/proc/self/mountinfo").map(Mounts)
    }

    /// True if that has happened since this was asked last, or may have.
    pub fn have_changed(&self) -> bool {
        let mut asked = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLPRI, revents: 0 };
        // SAFETY: `asked` is live, and one.
        unsafe { libc::poll(&raw mut asked, 1, 0) != 0 }
    }
}

fn change(folders: &mut Watched, watch: libc::c_int, mask: u32, name: &[u8]) -> Vec<Change> {
    if mask & libc::IN_Q_OVERFLOW != 0 {
        return vec![Change::Lost];
    }
    if mask & (libc::IN_IGNORED | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF) != 0 {
        return folders.remove(&watch).into_iter().flatten().map(Change::Gone).collect();
    }
    let Some(name) = name.split(|&octet| octet == 0).next().filter(|name| !name.is_empty()) else { return vec![] };
    let name = OsString::from_vec(name.to_vec());
    let paths = folders.get(&watch).into_iter().flatten().map(|folder| folder.join(&name));
    // Of a file that appears and is not written to, but for a link, it is told when it is closed.
    let is_told = |file: &PathBuf| mask & libc::IN_CREATE == 0 || is_link(file);
    paths.filter(is_told).map(Change::File).collect()
}

/// A name for what has another one.
fn is_link(file: &Path) -> bool {
    file.symlink_metadata().is_ok_and(|found| found.is_symlink() || found.nlink() > 1)
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdir::TestDir;
    use std::fs;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Changes until this one has come.
    #[track_caller]
    fn until(watch: &Watch, last: &Change) -> Vec<Change> {
        let mut all = Vec::new();
        while !all.contains(last) {
            let more = watch.wait(Some(PATIENCE), None).unwrap();
            assert!(!more.is_empty(), "{last:?} did not come after {all:?}");
            all.extend(more);
        }
        all
    }

    #[test]
    fn files_that_are_written_renamed_and_removed_are_told() {
        let dir = TestDir::new("watch");
        let watch = Watch::default();
        watch.add(dir.path(), What::Files).unwrap();
        assert_eq!(watch.wait(Some(Duration::ZERO), None).unwrap(), []);
        let file = |name: &str| Change::File(dir.path().join(name));
        dir.file("a", b"1");
        assert_eq!(until(&watch, &file("a")), [file("a")]);
        fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        assert_eq!(until(&watch, &file("b")), [file("a"), file("b")]);
        fs::remove_file(dir.path().join("b")).unwrap();
        assert_eq!(until(&watch, &file("b")), [file("b")]);
        watch.remove(dir.path());
        dir.file("c", b"1");
        assert_eq!(watch.wait(Some(Duration::ZERO), None).unwrap(), []);
    }

    /// What happens to folders themselves has no name, and says nothing; more of it than one read takes hides nothing behind it.
    #[test]
    fn what_stands_behind_much_that_says_nothing_is_taken() {
        let dir = TestDir::new("watch-much");
        let watch = Watch::default();
        let folders = ["a", "b"].map(|name| dir.path().join(name));
        for folder in &folders {
            fs::create_dir(folder).unwrap();
            watch.add(folder, What::All).unwrap();
        }
        for i in 0..ROOM / HEAD + 2 {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(&folders[i % 2], mode).unwrap();
        }
        fs::write(folders[0].join("f"), "x").unwrap();
        let file = Change::File(folders[0].join("f"));
        assert!(watch.take().unwrap().contains(&file));
        assert_eq!(watch.take().unwrap(), []);
    }

    #[test]
    fn a_folder_that_is_watched_under_two_paths_is_told_under_both() {
        let dir = TestDir::new("watch-twice");
        let spelled = dir.path().join("..").join(dir.path().file_name().unwrap());
        let watch = Watch::default();
        [dir.path(), &spelled, dir.path()].iter().for_each(|path| _ = watch.add(path, What::Files).unwrap());
        let [one, two] = [dir.path(), &spelled].map(|path| Change::File(path.join("a")));
        dir.file("a", b"1");
        assert_eq!(until(&watch, &two), [one, two.clone()]);
        watch.remove(dir.path());
        dir.file("a", b"2");
        assert_eq!(until(&watch, &two), [two], "it is watched still");
    }

    #[test]
    fn a_write_is_told_before_the_file_is_closed_where_that_is_wanted() {
        let dir = TestDir::new("watch-writes");
        let path = dir.file("f", b"long enough");
        let watch = Watch::default();
        watch.add(dir.path(), What::Writes).unwrap();
        let open = fs::OpenOptions::new().write(true).open(&path).unwrap();
        open.set_len(3).unwrap();
        until(&watch, &Change::File(path));
    }

    #[test]
    fn a_folder_that_goes_is_told() {
        let dir = TestDir::new("watch-gone");
        let folder = dir.path().join("sub");
        fs::create_dir(&folder).unwrap();
        let watch = Watch::default();
        watch.add(&folder, What::Files).unwrap();
        fs::remove_dir(&folder).unwrap();
        until(&watch, &Change::Gone(folder.clone()));
        assert!(watch.add(&folder, What::Files).is_err());
        assert!(watch.add(&dir.file("f", b""), What::Files).is_err(), "a file is no folder");
    }

    #[test]
    fn more_changes_than_the_queue_holds_are_told_as_lost() {
        let dir = TestDir::new("watch-lost");
        let watch = Watch::default();
        watch.add(dir.path(), What::Files).unwrap();
        let most: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
        let (a, b) = (dir.file("a", b""), dir.path().join("b"));
        for _ in 0..most / 4 + 2 {
            fs::rename(&a, &b).unwrap();
            fs::rename(&b, &a).unwrap();
        }
        until(&watch, &Change::Lost);
    }

    /// In namespaces of its own, which anybody may make where the system lets them: there it runs once more.
    #[test]
    fn what_is_mounted_is_told() {
        const INSIDE: &str = "DUNLIN_TEST_MOUNTS";
        if std::env::var_os(INSIDE).is_none() {
            let itself = ["--exact", "watch::tests::what_is_mounted_is_told", "--nocapture"];
            let mut unshare = std::process::Command::new("unshare");
            let unshare = unshare.arg("-Urm").arg(std::env::current_exe().unwrap()).args(itself).env(INSIDE, "1");
            let done = unshare.output().expect("unshare, of util-linux");
            let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
            assert!(done.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let dir = TestDir::new("mounts");
        let [file, over] = ["file", "over"].map(|name| dir.file(name, name.as_bytes()));
        let mounts = Mounts::new().unwrap();
        let run = |program: &str, args: &[&Path]| {
            assert!(std::process::Command::new(program).args(args).status().unwrap().success());
        };
        let is_plain = || crate::folder::look(&file).unwrap().is_plain;
        assert!(!mounts.have_changed() && is_plain());
        run("mount", &["--bind".as_ref(), &over, &file]);
        assert!(mounts.have_changed() && !mounts.have_changed() && !is_plain());
        run("umount", &[&file]);
        assert!(mounts.have_changed() && is_plain());
        // A folder over a folder: nobody touches the one that is watched.
        let (watch, [below, above]) = (Watch::default(), ["below", "above"].map(|name| dir.path().join(name)));
        [&below, &above].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        assert!(watch.add(&below, What::Files).unwrap() && !watch.add(&below, What::Files).unwrap());
        run("mount", &["--bind".as_ref(), &above, &below]);
        assert_eq!(watch.wait(Some(PATIENCE), Some(&mounts)).unwrap(), [Change::Mounts]);
        assert!(watch.add(&below, What::Files).unwrap());
        fs::write(above.join("f"), "x").unwrap();
        assert_eq!(watch.wait(Some(PATIENCE), Some(&mounts)).unwrap(), [Change::File(below.join("f"))]);
        run("umount", &[&below]);
    }
}
