//! What a journal asks of a disk, and a folder that gives it. Behind it stands a folder, or in tests a disk that tears
//! writes, forgets what was not synced, and is full.

use crate::atomic::sync_folder;
use crate::map::{leave_cache, named};
use crate::removal::remove;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

pub trait Disk {
    type File;
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// At most `max` octets from `at` on; fewer where the file ends.
    fn read(&self, name: &str, at: u64, max: usize) -> io::Result<Vec<u8>>;
    /// A file that is there, to be synced.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// A new file; an error if the name is taken.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    fn write(&self, file: &Self::File, at: u64, octets: &[u8]) -> io::Result<()>;
    fn cut(&self, file: &Self::File, len: u64) -> io::Result<()>;
    /// Returns once content and length are on the disk.
    fn sync(&self, file: &Self::File) -> io::Result<()>;
    /// The same; what is read then comes from the disk. Of a sync that failed for a process that has ended the kernel remembers nothing, and
    /// keeps what it could not write as if it were there.
    fn settle(&self, file: &Self::File) -> io::Result<()> {
        self.sync(file)
    }
    /// Err: somebody has removed the file, or given its name to another. What is written to it then is gone with the process, however it is
    /// synced.
    fn has_its_name(&self, _file: &Self::File) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns once the names are on the disk.
    fn sync_names(&self) -> io::Result<()>;
    /// How messages name a file.
    fn place(&self, name: &str) -> PathBuf;
}

/// A folder of a file system.
pub struct Folder {
    path: PathBuf,
}

/// A file of a folder, and the name it was given.
pub struct Named {
    file: File,
    path: PathBuf,
}

impl Folder {
    /// Makes the folder if it is not there; the one it stands in must be.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let named = |e: io::Error| named(path, &e);
        match fs::create_dir(path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(named(e)),
            _ => {}
        }
        // Also of one that is there: whoever made it may not have come so far.
        path.parent().map_or(Ok(()), sync_folder).map_err(named)?;
        Ok(Folder { path: path.to_path_buf() })
    }
}

impl Disk for Folder {
    type File = Named;

    fn list(&self) -> io::Result<Vec<String>> {
        // What is no text is no file of ours.
        let name = |entry: io::Result<fs::DirEntry>| entry.map(|e| e.file_name().into_string().ok()).transpose();
        fs::read_dir(&self.path).map_err(|e| named(&self.path, &e))?.filter_map(name).collect()
    }

    fn read(&self, name: &str, at: u64, max: usize) -> io::Result<Vec<u8>> {
        let file = File::open(self.path.join(name))?;
        let len = file.metadata()?.len().saturating_sub(at).min(max as u64);
        let mut octets = vec![0; len as usize];
        file.read_exact_at(&mut octets, at)?;
        Ok(octets)
    }

    fn open(&self, name: &str) -> io::Result<Named> {
        let path = self.path.join(name);
        let file = File::open(&path)?;
        Ok(Named { file, path })
    }

    fn create(&self, name: &str) -> io::Result<Named> {
        let path = self.path.join(name);
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok(Named { file, path })
    }

    fn write(&self, named: &Named, at: u64, octets: &[u8]) -> io::Result<()> {
        named.file.write_all_at(octets, at)
    }

    fn cut(&self, named: &Named, len: u64) -> io::Result<()> {
        named.file.set_len(len)
    }

    fn sync(&self, named: &Named) -> io::Result<()> {
        named.file.sync_data()
    }

    fn settle(&self, named: &Named) -> io::Result<()> {
        self.sync(named).inspect(|()| leave_cache(&named.file, 0))
    }

    fn has_its_name(&self, named: &Named) -> io::Result<()> {
        let (file, there) = (named.file.metadata()?, fs::metadata(&named.path)?);
        let is_it = (file.dev(), file.ino()) == (there.dev(), there.ino());
        if is_it { Ok(()) } else { Err(io::Error::other("another file has its name")) }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match remove(&self.path.join(name)) {
            // Somebody else has done it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        // Where the folder is now: another one may have taken its place.
        sync_folder(&self.path)
    }

    fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}
