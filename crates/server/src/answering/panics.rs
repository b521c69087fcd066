//! What was being answered when a worker panicked, kept in the data folder for whoever mends it.
//!
//! At most `KEPT_MAX` files and as many lines in the log a run: a peer who finds a packet that makes us panic must fill
//! neither the disk nor the log with it. The counter goes on. Files are written on a thread of their own: an answering
//! thread never waits for a disk.

use crate::answering::queue::{self, Receiver, Sender};
use crate::log;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const KEPT_MAX: u32 = 16;
/// Of all runs of one number.
const FILES_MAX: u32 = 64;

/// Counts up to the bound, and no further.
struct Few(AtomicU32);

impl Few {
    /// Which one this is, from 0; None past the bound.
    fn next(&self) -> Option<u32> {
        self.0.try_update(Relaxed, Relaxed, |n| (n < KEPT_MAX).then_some(n + 1)).ok()
    }
}

pub struct Panics {
    writer: Sender<Vec<u8>>,
    seen: Few,
}

impl Panics {
    /// Starts the thread that writes into `folder`; it ends with the last user of the result.
    pub fn start(folder: PathBuf) -> io::Result<Panics> {
        // Room for all that will ever be sent, so that sending never waits.
        let (writer, packets) = queue::bounded(KEPT_MAX as usize);
        std::thread::Builder::new().name("panics".to_string()).spawn(move || keep(&folder, &packets))?;
        Ok(Panics { writer, seen: Few(AtomicU32::new(0)) })
    }

    /// Keeps a packet.
    pub fn save(&self, packet: &[u8]) {
        if self.seen.next().is_some() {
            // The thread is gone only if it panicked itself; then nothing is left to be done.
            let _ = self.writer.try_send(packet.to_vec());
        }
    }
}

fn keep(folder: &Path, packets: &Receiver<Vec<u8>>) {
    for octets in std::iter::from_fn(|| packets.recv()) {
        match write(folder, &octets) {
            Ok(path) => log::error("a worker panicked; its packet is saved", &[("file", &path.display())]),
            Err(e) => log::error("a worker panicked; its packet cannot be saved", &[("why", &e)]),
        }
    }
}

/// Into a file that was not there: in a container each run has the same number, and what the one before has left is somebody's to look at.
fn write(folder: &Path, octets: &[u8]) -> io::Result<PathBuf> {
    for n in 0..FILES_MAX {
        let path = folder.join(format!("panic-{}-{n}.packet", std::process::id()));
        match std::fs::File::create_new(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            file => return file.and_then(|mut file| file.write_all(octets)).map(|()| path),
        }
    }
    Err(io::Error::other(format!("there are {FILES_MAX} of them in {}", folder.display())))
}

/// Has panics of all threads told in the log, up to the bound.
pub fn log_them() {
    let seen = Few(AtomicU32::new(0));
    std::panic::set_hook(Box::new(move |what| match seen.next() {
        None => {}
        Some(n) if n + 1 == KEPT_MAX => {
            log::error("panic; more are only counted", &[("what", what), ("counter", &stats::Counter::Panics.name())]);
        }
        Some(_) => log::error("panic", &[("what", what)]),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::eventually;

    #[test]
    fn packets_are_kept_up_to_a_bound() {
        let folder = std::env::temp_dir().join(format!("dunlin-panics-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let kept = || std::fs::read_dir(&folder).unwrap().flatten().map(|f| std::fs::read(f.path()).unwrap());
        let are_kept = |packet: &[u8]| kept().filter(|octets| octets == packet).count() == KEPT_MAX as usize;
        for packet in [&b"packet"[..], b"another"] {
            let panics = Panics::start(folder.clone()).unwrap();
            (0..KEPT_MAX + 3).for_each(|_| panics.save(packet));
            eventually(|| are_kept(packet));
        }
        assert!(are_kept(b"packet"), "the next run leaves them alone");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
