//! Reading below one folder only: what a zone file includes must not lead out of the folder it stands in. And looking at many
//! files of one.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

const ZONE_ENDING: &str = ".zone";

/// The files of a folder whose name ends in `.zone`, sorted by name, each with what stands before the ending.
/// Hidden files are left out: editors and atomic writing leave them.
pub fn zone_files(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let name_it = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", dir.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(name_it)? {
        let entry = entry.map_err(name_it)?;
        if let Some(zone) = zone_of(&entry.path()).filter(|_| entry.path().is_file()) {
            found.push((zone, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// The zone that a file is of, by its name.
pub fn zone_of(file: &Path) -> Option<String> {
    let file = file.file_name()?.to_str()?;
    let name = file.strip_suffix(ZONE_ENDING)?;
    (!name.is_empty() && !file.starts_with('.')).then(|| name.to_owned())
}

/// A folder that reading does not leave, neither by `..` nor by a symbolic link.
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    pub fn open(dir: &Path) -> io::Result<Folder> {
        let root = dir.canonicalize().map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", dir.display())))?;
        Ok(Folder { root })
    }

    /// The folder, links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file that `relative` names, links resolved, if it lies below the folder.
    pub fn resolve(&self, relative: &Path) -> io::Result<PathBuf> {
        let steps_out = |c: Component<'_>| !matches!(c, Component::Normal(_) | Component::CurDir);
        if relative.components().any(steps_out) {
            return Err(self.outside(relative));
        }
        let path = self.root.join(relative);
        let real = path.canonicalize().map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        if real.starts_with(&self.root) && real.is_file() { Ok(real) } else { Err(self.outside(relative)) }
    }

    pub fn read(&self, relative: &Path) -> io::Result<Vec<u8>> {
        let path = self.resolve(relative)?;
        fs::read(&path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
    }

    fn outside(&self, relative: &Path) -> io::Error {
        let text = format!("{}: only a file below {} can be read here", relative.display(), self.root.display());
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    }
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
    pub fn look(&self, name: &[u8]) -> io::Result<libc::stat> {
        let mut text = [0; NAME_MAX + 1];
        let text = text.get_mut(..=name.len()).ok_or(io::ErrorKind::InvalidFilename)?;
        text[..name.len()].copy_from_slice(name);
        let text = CStr::from_bytes_with_nul(text).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut found = MaybeUninit::uninit();
        // SAFETY: the descriptor is open, the text ends with a zero, and there is room for the answer.
        let result = unsafe { libc::fstatat(self.0.as_raw_fd(), text.as_ptr(), found.as_mut_ptr(), 0) };
        // SAFETY: the kernel has written it.
        if result == 0 { Ok(unsafe { found.assume_init() }) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdir::TestDir;
    use std::os::unix::fs::{MetadataExt, symlink};

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
        for name in ["a", "link", &long, "."] {
            let (found, expect) = (opened.look(name.as_bytes()).unwrap(), fs::metadata(dir.path().join(name)).unwrap());
            assert_eq!((found.st_ino, found.st_size.unsigned_abs()), (expect.ino(), expect.size()), "{name}");
        }
        for name in ["", "none", "nowhere", "a/b", "a\0", &(long + "n")] {
            assert!(opened.look(name.as_bytes()).is_err(), "{name}");
        }
        assert!(Opened::new(&dir.path().join("a")).is_err(), "it is no folder");
    }

    #[test]
    fn zone_files_are_listed_in_order() {
        let dir = TestDir::new("zones");
        for name in
            ["b.example.zone", "a.example.zone", "notes.txt", ".zone", ".a.zone.1-2.new", ".hidden.zone", "org.zone"]
        {
            dir.file(name, b"");
        }
        fs::create_dir(dir.path().join("folder.zone")).unwrap();
        let found = zone_files(dir.path()).unwrap();
        let names: Vec<&str> = found.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["a.example", "b.example", "org"]);
        assert_eq!(found[0].1, dir.path().join("a.example.zone"));
        assert!(zone_files(&dir.path().join("none")).unwrap_err().to_string().contains("none: "));
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
            assert_eq!(folder.read(Path::new(good)).unwrap(), b"yes", "{good}");
        }
        let absolute = outer.path().join("secret");
        for bad in ["../secret", "sub/../../secret", "link-out", "up/secret", "sub", "", absolute.to_str().unwrap()] {
            let text = folder.read(Path::new(bad)).unwrap_err().to_string();
            assert!(text.contains("only a file below"), "{bad}: {text}");
        }
        assert!(folder.read(Path::new("none")).unwrap_err().to_string().contains("No such file"));
    }
}
