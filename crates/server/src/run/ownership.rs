//! Gives root's files to the user that the server becomes.
//!
//! A folder of that user may hold links to anything by the next start. So nothing is given away by its name: it is
//! opened without following links, looked at, and given away through the descriptor. What is not plainly root's own is
//! left as it is.

use crate::log;
use net::privilege::User;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file, folder or socket that is held, whatever becomes of its name.
pub struct Held {
    file: File,
    path: PathBuf,
}

impl Held {
    pub fn open(path: &Path) -> io::Result<Held> {
        Ok(Held { file: hold(path)?, path: path.to_path_buf() })
    }

    /// What stands in this folder under a name.
    pub fn entry(&self, name: &str) -> io::Result<Held> {
        Ok(Held { file: hold(&self.descriptor().join(name))?, path: self.path.join(name) })
    }

    pub fn give(&self, user: &User) -> io::Result<()> {
        let found = self.file.metadata()?;
        // A second name of a file may be one that only root should write to. Folders cannot have one.
        let plain = !found.is_symlink() && (found.is_dir() || found.nlink() == 1);
        if found.uid() == user.uid {
            return Ok(());
        }
        if found.uid() != 0 || !plain {
            let whose = if found.uid() != 0 { "it is not root's" } else { "it is a link" };
            log::warn("left with its owner", &[("path", &self.path.display()), ("why", &whose)]);
            return Ok(());
        }
        std::os::unix::fs::chown(self.descriptor(), Some(user.uid), Some(user.gid))
    }

    /// A path that leads to what is held, by no name that anybody could exchange.
    fn descriptor(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

fn hold(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::privilege::is_root;
    use std::os::unix::net::UnixListener;

    const SOMEBODY: u32 = 65_534;

    fn somebody() -> User {
        User { name: "somebody".into(), uid: SOMEBODY, gid: SOMEBODY }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("dunlin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn owner(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().uid()
    }

    #[test]
    fn files_folders_and_sockets_of_root_are_given() {
        let folder = folder("given");
        let own = owner(&folder);
        let _socket = UnixListener::bind(folder.join("socket")).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        let held = Held::open(&folder).unwrap();
        for name in ["file", "socket"] {
            held.entry(name).unwrap().give(&somebody()).unwrap();
        }
        held.give(&somebody()).unwrap();
        // Whoever is not root has nothing of root's to give.
        let expect = if is_root() { SOMEBODY } else { own };
        for path in [&folder, &folder.join("file"), &folder.join("socket")] {
            assert_eq!(owner(path), expect, "{}", path.display());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_link_leads_to_keeps_its_owner() {
        let folder = folder("kept");
        let own = owner(&folder);
        std::fs::write(folder.join("precious"), "").unwrap();
        std::fs::hard_link(folder.join("precious"), folder.join("hard")).unwrap();
        std::os::unix::fs::symlink("precious", folder.join("soft")).unwrap();
        std::os::unix::fs::symlink(".", folder.join("beside")).unwrap();
        let held = Held::open(&folder).unwrap();
        for name in ["hard", "soft", "beside"] {
            held.entry(name).unwrap().give(&somebody()).unwrap();
        }
        assert!(held.entry("beside").unwrap().entry("precious").is_err(), "no way through a link");
        for name in ["", "precious", "hard", "soft"] {
            assert_eq!(owner(&folder.join(name)), own, "{name}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
