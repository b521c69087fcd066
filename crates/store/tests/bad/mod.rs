//! A journal's disk that is one of the simulator's.

use sim::disk::{Disk as Simulated, DiskError, Handle};
use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use store::journal::Disk;

#[derive(Clone)]
pub struct Bad(pub Rc<RefCell<Simulated>>);

pub fn explained(e: DiskError) -> io::Error {
    let kind = match e {
        DiskError::Full => io::ErrorKind::StorageFull,
        DiskError::Missing => io::ErrorKind::NotFound,
        DiskError::Taken => io::ErrorKind::AlreadyExists,
        DiskError::Failed | DiskError::Stopped => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("{e:?}"))
}

impl Disk for Bad {
    type File = Handle;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().names())
    }
    fn read(&self, name: &str, at: u64, max: usize) -> io::Result<Vec<u8>> {
        let disk = self.0.borrow();
        let octets = disk.read(name).map_err(explained)?;
        Ok(octets.iter().skip(at as usize).take(max).copied().collect())
    }
    fn open(&self, name: &str) -> io::Result<Handle> {
        self.0.borrow().open(name).map_err(explained)
    }
    fn create(&self, name: &str) -> io::Result<Handle> {
        self.0.borrow_mut().create(name).map_err(explained)
    }
    fn write(&self, file: &Handle, at: u64, octets: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().write(*file, at as usize, octets).map_err(explained)
    }
    fn cut(&self, file: &Handle, len: u64) -> io::Result<()> {
        self.0.borrow_mut().cut(*file, len as usize).map_err(explained)
    }
    fn sync(&self, file: &Handle) -> io::Result<()> {
        self.0.borrow_mut().sync(*file).map_err(explained)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.borrow_mut().remove(name).map_err(explained)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.0.borrow_mut().sync_names().map_err(explained)
    }
    fn place(&self, name: &str) -> PathBuf {
        PathBuf::from("/sim").join(name)
    }
}
