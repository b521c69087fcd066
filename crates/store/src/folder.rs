//! Reading below one folder only: what a zone file includes must not lead out of the folder it stands in. And looking at many
//! files of one.
#![allow(unsafe_code)]

use crate::map::{named, nameless};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ZONE_ENDING: &str = ".zone";

/// The zone that a file is of, by its name. Hidden files are of none: editors and atomic writing leave them.
pub fn zone_of(file: &Path) -> Option<String> {
    let file = file.file_name()?.to_str()?;
    let name = file.strip_suffix(ZONE_ENDING)?;
    (!name.is_empty() && !file.starts_with('.')).then(|| name.to_owned())
}

/// What a shell hands a command to read, be it a pipe.
const HANDED: [&str; 3] = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];

/// This process is a command, which reads what it is handed.
static IS_COMMAND: AtomicBool = AtomicBool::new(false);

/// From now on what a shell hands is read. To a server such a name is one of its own: others' are not meant, and it would wait for a pipe.
pub fn read_what_is_handed() {
    IS_COMMAND.store(true, Ordering::Relaxed);
}

/// Whether a path is what a shell hands a command.
pub fn is_handed(path: &Path) -> bool {
    HANDED.iter().any(|handed| path.starts_with(handed))
}

/// Opens a file to read it. A pipe that nobody writes to would never be opened, nor a device end: neither is waited for.
pub fn open_file(path: &Path) -> io::Result<File> {
    if is_handed(path) {
        return match IS_COMMAND.load(Ordering::Relaxed) {
            true => open_handed(path),
            false => Err(io::Error::other("the server cannot read what is handed to others; name a file")),
        };
    }
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
}

/// What a pipe brings can be read once, and commands read some files twice: it is kept in memory, in the place of the pipe.
fn open_handed(path: &Path) -> io::Result<File> {
    let mut handed = File::open(path)?;
    let number = if path == Path::new(HANDED[0]) { Some(libc::STDIN_FILENO) } else { number_of(path) };
    let Some(number) = number.filter(|_| handed.metadata().is_ok_and(|found| !found.is_file())) else {
        return Ok(handed);
    };
    let mut kept = nameless(c"dunlin handed")?;
    io::copy(&mut handed, &mut kept)?;
    // SAFETY: both are descriptors, and whoever reads from this one wants what it was handed.
    if unsafe { libc::dup2(kept.as_raw_fd(), number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    File::open(path)
}

fn number_of(path: &Path) -> Option<libc::c_int> {
    path.file_name()?.to_str()?.parse().ok()
}

/// All of a file, if it has no more octets than these.
pub fn read_file(path: &Path, octets_max: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    open_file(path)?.take(octets_max.saturating_add(1)).read_to_end(&mut octets)?;
    within(octets, octets_max)
}

fn within(octets: Vec<u8>, octets_max: u64) -> io::Result<Vec<u8>> {
    match octets.len() as u64 <= octets_max {
        true => Ok(octets),
        false => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {octets_max} octets"))),
    }
}

/// So long somebody may take to write all that a pipe is to bring.
const PIPE_PATIENCE: Duration = Duration::from_secs(10);

/// The same; it may be a pipe that somebody writes into just now.
pub fn read_file_or_pipe(path: &Path, octets_max: u64) -> io::Result<Vec<u8>> {
    let is_pipe = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    if !is_pipe || is_handed(path) {
        return read_file(path, octets_max);
    }
    let mut octets = Vec::new();
    read_pipe(path, octets_max.saturating_add(1), &mut octets)?;
    within(octets, octets_max)
}

/// Opened so, nobody need have the other end yet; and until somebody has had it, there is nothing to be told of it (poll(2)).
fn read_pipe(path: &Path, most: u64, octets: &mut Vec<u8>) -> io::Result<()> {
    let until = Instant::now() + PIPE_PATIENCE;
    let mut pipe = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?.take(most);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut asked = libc::pollfd { fd: pipe.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `asked` is live, and one.
        let told = unsafe { libc::poll(&raw mut asked, 1, left.as_millis() as libc::c_int) };
        if told == 0 && left.is_zero() {
            let why = format!("it is a pipe, and what it is to bring did not come within {PIPE_PATIENCE:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        match pipe.read_to_end(octets) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            // Somebody has written, and is done.
            Ok(_) if told > 0 => return Ok(()),
            read => _ = read?,
        }
    }
}

/// A folder that reading does not leave, neither by `..` nor by a symbolic link.
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    pub fn open(dir: &Path) -> io::Result<Folder> {
        let root = dir.canonicalize().map_err(|e| named(dir, &e))?;
        Ok(Folder { root })
    }

    /// Opens the file that `relative` names, if it lies below the folder, links resolved. Where it lies is asked of what was opened: who may write
    /// there may put something else in its place at any time.
    pub fn open_file(&self, relative: &Path) -> io::Result<File> {
        let steps_out = |c: Component<'_>| !matches!(c, Component::Normal(_) | Component::CurDir);
        if relative.components().any(steps_out) {
            return Err(self.refused(relative, "by a path without `..`"));
        }
        let path = self.root.join(relative);
        let file =
            File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).map_err(|e| named(&path, &e))?;
        let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        match real.starts_with(&self.root) {
            true if file.metadata()?.is_file() => Ok(file),
            true => Err(self.refused(relative, "and this is none")),
            false => Err(self.refused(relative, "and this lies elsewhere")),
        }
    }

    fn refused(&self, relative: &Path, why: &str) -> io::Error {
        let (relative, root) = (relative.display(), self.root.display());
        let text = format!("{relative}: only a file below {root} can be read here, {why}");
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    }
}

/// What a look at a file finds; times in seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub size: u64,
    pub modified: (i64, i64),
    pub changed: (i64, i64),
    pub inode: u64,
    /// Whoever changes the file does it under this name: it is no link, has no other name, and nothing is mounted over it.
    pub is_plain: bool,
}

/// What a path leads to, links followed.
pub fn look(path: &Path) -> io::Result<Found> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    look_from(libc::AT_FDCWD, &text)
}

fn look_from(folder: libc::c_int, text: &CStr) -> io::Result<Found> {
    let link_itself = statx(folder, text, libc::AT_SYMLINK_NOFOLLOW)?;
    let is_link = u32::from(link_itself.stx_mode) & libc::S_IFMT == libc::S_IFLNK;
    let found = if is_link { statx(folder, text, 0)? } else { link_itself };
    let is_file = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    let mount_root = libc::STATX_ATTR_MOUNT_ROOT as u64;
    let is_no_mount = found.stx_attributes_mask & mount_root != 0 && found.stx_attributes & mount_root == 0;
    let time = |t: libc::statx_timestamp| (t.tv_sec, i64::from(t.tv_nsec));
    Ok(Found {
        size: found.stx_size,
        modified: time(found.stx_mtime),
        changed: time(found.stx_ctime),
        inode: found.stx_ino,
        is_plain: is_file && !is_link && found.stx_nlink == 1 && is_no_mount,
    })
}

fn statx(folder: libc::c_int, text: &CStr, flags: libc::c_int) -> io::Result<libc::statx> {
    let mut found = MaybeUninit::uninit();
    // SAFETY: the text ends with a zero, and there is room for the answer; a folder that is not open is an error.
    let result = unsafe { libc::statx(folder, text.as_ptr(), flags, libc::STATX_BASIC_STATS, found.as_mut_ptr()) };
    // SAFETY: the kernel has written it.
    if result == 0 { Ok(unsafe { found.assume_init() }) } else { Err(io::Error::last_os_error()) }
}

/// File systems that nobody changes behind the back of this kernel, so that it tells of every change: ext2 to ext4, XFS, Btrfs,
/// F2FS, tmpfs.
const TELLING: [libc::c_long; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// Of a folder in which names that differ in case only are one: the kernel may tell of either.
const CASEFOLD: libc::c_int = 0x4000_0000;

/// What tells a folder from others, where the kernel tells of every change in it.
pub fn telling(folder: &Path) -> io::Result<Option<(u64, u64)>> {
    let opened = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(folder)?;
    let (mut system, mut flags) = (MaybeUninit::uninit(), 0);
    // SAFETY: the descriptor is open, and there is room for the answer.
    if unsafe { libc::fstatfs(opened.as_raw_fd(), system.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written it.
    let system: libc::statfs = unsafe { system.assume_init() };
    // SAFETY: the descriptor is open, and there is room for the answer. A file system without flags leaves it as it is.
    unsafe { libc::ioctl(opened.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) };
    let itself = opened.metadata()?;
    Ok((TELLING.contains(&system.f_type) && flags & CASEFOLD == 0).then(|| (itself.dev(), itself.ino())))
}

/// A folder that is open, to look at what stands in it: a name costs less to look up than a path that leads there.
pub struct Opened(File);

/// Longest name of a file.
const NAME_MAX: usize = 255;

impl Opened {
    pub fn new(folder: &Path) -> io::Result<Opened> {
        File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(folder).map(Opened)
    }

    /// What this name leads to, links followed.
    pub fn look(&self, name: &[u8]) -> io::Result<Found> {
        let mut text = [0; NAME_MAX + 1];
        let text = text.get_mut(..=name.len()).ok_or(io::ErrorKind::InvalidFilename)?;
        text[..name.len()].copy_from_slice(name);
        let text = CStr::from_bytes_with_nul(text).map_err(|_| io::ErrorKind::InvalidInput)?;
        look_from(self.0.as_raw_fd(), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdir::TestDir;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_in_a_folder_are_looked_at() {
        let dir = TestDir::new("opened");
        let long = "n".repeat(NAME_MAX);
        for name in ["a", &long] {
            dir.file(name, name.as_bytes());
        }
        symlink("a", dir.path().join("link")).unwrap();
        symlink("none", dir.path().join("nowhere")).unwrap();
        let opened = Opened::new(dir.path()).unwrap();
        fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
        for (name, is_plain) in [("a", false), ("b", false), ("link", false), (&long, true), (".", false)] {
            let expect = fs::metadata(dir.path().join(name)).unwrap();
            let expect = Found {
                size: expect.size(),
                modified: (expect.mtime(), expect.mtime_nsec()),
                changed: (expect.ctime(), expect.ctime_nsec()),
                inode: expect.ino(),
                is_plain,
            };
            assert_eq!(opened.look(name.as_bytes()).unwrap(), expect, "{name}");
            assert_eq!(look(&dir.path().join(name)).unwrap(), expect, "{name}");
        }
        for name in ["", "none", "nowhere", "a/b", "a\0", &(long + "n")] {
            assert!(opened.look(name.as_bytes()).is_err(), "{name}");
        }
        assert!(Opened::new(&dir.path().join("a")).is_err(), "it is no folder");
    }

    #[test]
    fn a_zones_file_is_known_by_its_name() {
        for (file, zone) in [
            ("b.example.zone", Some("b.example")),
            ("/etc/org.zone", Some("org")),
            ("notes.txt", None),
            (".zone", None),
            (".a.zone.1-2.new", None),
            (".hidden.zone", None),
        ] {
            assert_eq!(zone_of(Path::new(file)).as_deref(), zone, "{file}");
        }
    }

    #[test]
    fn whatever_is_no_file_is_not_waited_for() {
        let dir = TestDir::new("pipes");
        dir.file("file", b"text");
        symlink("file", dir.path().join("link")).unwrap();
        let pipe = CString::new(dir.path().join("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: the text ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        symlink("pipe", dir.path().join("to-pipe")).unwrap();
        let read = |path: &Path| open_file(path).and_then(io::read_to_string).map_err(|e| e.to_string());
        for (name, expect) in [
            ("file", Ok("text".to_string())),
            ("link", Ok("text".to_string())),
            ("pipe", Err("it is no file".to_string())),
            ("to-pipe", Err("it is no file".to_string())),
            (".", Err("it is no file".to_string())),
            ("/dev/zero", Err("it is no file".to_string())),
        ] {
            assert_eq!(read(&dir.path().join(name)), expect, "{name}");
        }
        let handed = File::open(dir.path().join("file")).unwrap();
        let handed = format!("/dev/fd/{}", handed.as_raw_fd());
        assert!(read(Path::new(&handed)).unwrap_err().contains("name a file"));
        read_what_is_handed();
        assert_eq!(read(Path::new(&handed)), Ok("text".to_string()));
        let (pipe, mut writer) = io::pipe().unwrap();
        let piped = format!("/dev/fd/{}", pipe.as_raw_fd());
        writer.write_all(b"brought").unwrap();
        drop(writer);
        for _ in 0..2 {
            assert_eq!(read(Path::new(&piped)), Ok("brought".to_string()));
        }
        let pipe = dir.path().join("pipe");
        let brings = pipe.clone();
        let writer = std::thread::spawn(move || fs::write(brings, "brought").unwrap());
        assert_eq!(read_file_or_pipe(&pipe, 7).unwrap(), b"brought");
        writer.join().unwrap();
        let most = |octets_max| read_file(&dir.path().join("file"), octets_max).map_err(|e| e.to_string());
        assert_eq!((most(4), most(3)), (Ok(b"text".to_vec()), Err("it has more than 3 octets".to_string())));
    }

    #[test]
    fn reading_stays_below_the_folder() {
        let outer = TestDir::new("outer");
        outer.file("secret", b"no");
        let root = outer.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("in"), b"yes").unwrap();
        fs::write(root.join("sub/in"), b"yes").unwrap();
        symlink("../in", root.join("sub/link-inside")).unwrap();
        symlink("../secret", root.join("link-out")).unwrap();
        symlink("..", root.join("up")).unwrap();
        let folder = Folder::open(&root).unwrap();
        for good in ["in", "./in", "sub/in", "sub/link-inside"] {
            assert_eq!(io::read_to_string(folder.open_file(Path::new(good)).unwrap()).unwrap(), "yes", "{good}");
        }
        let absolute = outer.path().join("secret");
        for bad in ["../secret", "sub/../../secret", "link-out", "up/secret", "sub", "", absolute.to_str().unwrap()] {
            let text = folder.open_file(Path::new(bad)).unwrap_err().to_string();
            assert!(text.contains("only a file below"), "{bad}: {text}");
        }
        assert!(folder.open_file(Path::new("none")).unwrap_err().to_string().contains("No such file"));
    }
}
