//! When zones that come from others were last known to be as they should be, so that a restart neither asks for all of them
//! nor forgets that one has expired.
//!
//! One file, 32 octets a zone, each written over in place:
//!
//! ```text
//! hash of the apex u64 | seconds since 1970 u64 | serial u32, 0 u32 | checksum of these u64      little endian
//! ```
//! Nothing is synced, and a record that is torn is none: what is lost in a crash of the machine is that a zone was asked for
//! lately, and it is asked for again.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use wire::hash::siphash;

const FILE: &str = "times";
const RECORD: usize = 32;
const KEY: &[u8; 16] = b"dunlin last seen";

/// Bound: a slot for each zone that is configured, and for those that were when the server was started.
pub struct Times {
    file: File,
    /// By hash of the apex: the slot, and what it says.
    known: HashMap<u64, (u64, u64)>,
    next: u64,
}

fn encode(hash: u64, wall_s: u64, serial: u32) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    for (place, word) in record.chunks_exact_mut(8).zip([hash, wall_s, u64::from(serial)]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = siphash::<1, 3>(KEY, &record[..24]);
    record[24..].copy_from_slice(&sum.to_le_bytes());
    record
}

fn decode(record: &[u8; RECORD]) -> Option<(u64, u64)> {
    let word = |i: usize| record[i * 8..].first_chunk().map(|b| u64::from_le_bytes(*b));
    let (hash, wall_s) = (word(0)?, word(1)?);
    (word(3)? == siphash::<1, 3>(KEY, &record[..24])).then_some((hash, wall_s))
}

fn hash(apex: &[u8]) -> u64 {
    siphash::<1, 3>(KEY, apex)
}

impl Times {
    /// `is_configured`: others are forgotten. A file that is there and cannot be read holds nothing.
    pub fn open<'z>(folder: &Path, configured: impl Iterator<Item = &'z [u8]>) -> io::Result<Times> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(FILE);
        let octets = std::fs::read(&path).unwrap_or_default();
        let all: HashMap<u64, u64> = octets.as_chunks().0.iter().filter_map(decode).collect();
        let kept = configured.map(hash).filter_map(|hash| Some((hash, *all.get(&hash)?)));
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut times = Times { file, known: HashMap::new(), next: 0 };
        for (hash, wall_s) in kept {
            times.put(hash, wall_s, 0)?;
        }
        times.file.set_len(times.next * RECORD as u64)?;
        Ok(times)
    }

    /// Seconds since 1970.
    pub fn of(&self, apex: &[u8]) -> Option<u64> {
        self.known.get(&hash(apex)).map(|(_, wall_s)| *wall_s)
    }

    pub fn note(&mut self, apex: &[u8], wall_s: u64, serial: u32) -> io::Result<()> {
        self.put(hash(apex), wall_s, serial)
    }

    fn put(&mut self, hash: u64, wall_s: u64, serial: u32) -> io::Result<()> {
        let slot = self.known.get(&hash).map_or(self.next, |(slot, _)| *slot);
        self.file.write_all_at(&encode(hash, wall_s, serial), slot * RECORD as u64)?;
        self.known.insert(hash, (slot, wall_s));
        self.next = self.next.max(slot + 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_known_after_a_restart_and_what_is_torn_is_not() {
        let folder = std::env::temp_dir().join(format!("dunlin-times-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let zones: [&[u8]; 3] = [b"\x01a\0", b"\x01b\0", b"\x01c\0"];
        let open = |zones: &[&[u8]]| Times::open(&folder, zones.iter().copied()).unwrap();
        let mut times = open(&zones);
        for (i, zone) in zones.iter().enumerate() {
            assert_eq!(times.of(zone), None);
            times.note(zone, 5, 1).unwrap();
            times.note(zone, 10 + i as u64, 1).unwrap();
        }
        let of = |times: &Times| zones.map(|zone| times.of(zone));
        assert_eq!(of(&times), [Some(10), Some(11), Some(12)]);
        assert_eq!(of(&open(&zones)), [Some(10), Some(11), Some(12)]);
        assert_eq!(of(&open(&zones[1..])), [None, Some(11), Some(12)], "one has gone");
        let mut octets = std::fs::read(folder.join(FILE)).unwrap();
        assert_eq!(octets.len(), 2 * RECORD, "and its place with it");
        octets[40] ^= 1;
        std::fs::write(folder.join(FILE), &octets[..60]).unwrap();
        assert_eq!(of(&open(&zones)), [None, Some(11), None]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
