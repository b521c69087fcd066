//! What was being answered when a worker panicked, kept in the data folder for whoever mends it.
//!
//! At most `SAVED_MAX` files a run: a peer who finds a packet that makes us panic must not fill the disk with it.

use crate::log;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const SAVED_MAX: u32 = 16;

pub struct Panics {
    folder: PathBuf,
    seen: AtomicU32,
}

impl Panics {
    pub fn new(folder: PathBuf) -> Panics {
        Panics { folder, seen: AtomicU32::new(0) }
    }

    /// Keeps packets, each behind two octets of length. They may be half overwritten by their answers; the question of
    /// an answer is that of the query.
    pub fn save(&self, packets: &[u8]) {
        let n = self.seen.fetch_add(1, Relaxed);
        if n >= SAVED_MAX {
            return;
        }
        let path = self.folder.join(format!("panic-{}-{n}.packets", std::process::id()));
        match std::fs::write(&path, packets) {
            Ok(()) => log::error("a worker panicked; its packets are saved", &[("file", &path.display())]),
            Err(e) => log::error("a worker panicked; its packets cannot be saved", &[("why", &e)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_kept_up_to_a_bound() {
        let folder = std::env::temp_dir().join(format!("dunlin-panics-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let panics = Panics::new(folder.clone());
        for _ in 0..SAVED_MAX + 3 {
            panics.save(b"\0\x01x");
        }
        let kept: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
        assert_eq!(kept.len(), SAVED_MAX as usize);
        assert_eq!(std::fs::read(kept[0].path()).unwrap(), b"\0\x01x");
        let _ = std::fs::remove_dir_all(&folder);
    }
}
