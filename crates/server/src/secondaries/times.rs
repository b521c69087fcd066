//! When zones that come from others were last known to be as they should be, so that a restart neither asks for all of them
//! nor forgets that one has expired. And which versions of zones others have been told of, so that a restart tells them of
//! those only that have come since.
//!
//! One file for each of the two, 32 octets a zone, each written over in place:
//!
//! ```text
//! hash of the apex u64 | seconds since 1970 u64 | serial u32, other u32 | checksum of these u64      little endian
//! ```
//! `other`: the serial xor that of a version that has been received and is not served; 0 where there is none.
//!
//! Nothing is synced, and a record that is torn is none: what is lost in a crash of the machine is that a zone was asked for, or
//! told of, lately, and that is done again.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use wire::hash::siphash;

/// When zones were as they should be.
pub const REFRESHED: &str = "times";
/// What others were told of.
pub const ANNOUNCED: &str = "announced";
const RECORD: usize = 32;
const KEY: &[u8; 16] = b"dunlin last seen";

/// Bound: a slot for each zone that was configured at the same time.
pub struct Times {
    path: PathBuf,
    /// None: it could not be written, and is written anew by whoever notes something next.
    file: Option<File>,
    /// By hash of the apex.
    known: HashMap<u64, (Slot, Noted)>,
    /// Slots before `next` that no zone has any more.
    free: Vec<Slot>,
    next: Slot,
}

type Slot = u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Noted {
    /// Seconds since 1970.
    pub at_s: u64,
    pub serial: u32,
    /// A version that has been received, and is not served.
    pub unserved: Option<u32>,
}

fn encode(hash: u64, noted: Noted) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    let other = noted.unserved.map_or(0, |unserved| unserved ^ noted.serial);
    let serials = u64::from(other) << 32 | u64::from(noted.serial);
    for (place, word) in record.chunks_exact_mut(8).zip([hash, noted.at_s, serials]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = siphash::<1, 3>(KEY, &record[..24]);
    record[24..].copy_from_slice(&sum.to_le_bytes());
    record
}

fn decode(record: &[u8; RECORD]) -> Option<(u64, Noted)> {
    let word = |i: usize| record[i * 8..].first_chunk().map(|b| u64::from_le_bytes(*b));
    let (serial, other) = (word(2)? as u32, (word(2)? >> 32) as u32);
    let noted = Noted { at_s: word(1)?, serial, unserved: (other != 0).then_some(other ^ serial) };
    (word(3)? == siphash::<1, 3>(KEY, &record[..24])).then_some((word(0)?, noted))
}

fn hash(apex: &[u8]) -> u64 {
    siphash::<1, 3>(KEY, apex)
}

impl Times {
    /// Zones that are not configured are forgotten. Nothing is written yet. A file that is there and cannot be read holds nothing; returned is why it could
    /// not be.
    pub fn open<'z>(
        folder: &Path,
        name: &str,
        configured: impl Iterator<Item = &'z [u8]>,
    ) -> (Times, Option<io::Error>) {
        let path = folder.join(name);
        // It is read once, and what it says cannot be found out again: what failed, as of too many open files, is tried once more.
        let read = std::fs::read(&path).or_else(|_| std::fs::read(&path));
        let unread = read.as_ref().err().filter(|e| e.kind() != io::ErrorKind::NotFound);
        let unread = unread.map(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())));
        let octets = read.unwrap_or_default();
        let all: HashMap<u64, Noted> = octets.as_chunks().0.iter().filter_map(decode).collect();
        let kept = configured.map(hash).filter_map(|hash| Some((hash, *all.get(&hash)?)));
        let mut times = Times { path, file: None, known: HashMap::new(), free: Vec::new(), next: 0 };
        kept.for_each(|(hash, noted)| _ = times.take_slot(hash, noted));
        (times, unread)
    }

    /// Writes down all that is known.
    pub fn write_all(&mut self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = File::options().write(true).create(true).truncate(false).open(&self.path)?;
        for (hash, (slot, noted)) in &self.known {
            file.write_all_at(&encode(*hash, *noted), slot * RECORD as u64)?;
        }
        file.set_len(self.next * RECORD as u64)?;
        self.file = Some(file);
        Ok(())
    }

    fn write(&mut self, slot: Slot, record: &[u8; RECORD]) -> io::Result<()> {
        if self.file.is_none() {
            self.write_all()?;
        }
        self.file.as_ref().map_or(Ok(()), |file| file.write_all_at(record, slot * RECORD as u64))
    }

    pub fn of(&self, apex: &[u8]) -> Option<Noted> {
        self.known.get(&hash(apex)).map(|(_, noted)| *noted)
    }

    pub fn note(&mut self, apex: &[u8], noted: Noted) -> io::Result<()> {
        let hash = hash(apex);
        let slot = self.take_slot(hash, noted);
        self.write(slot, &encode(hash, noted))
    }

    /// Nothing is known of this zone.
    pub fn forget(&mut self, apex: &[u8]) -> io::Result<()> {
        self.drop_of(hash(apex))
    }

    /// No zone that is not configured is known any more. Where its record cannot be written over it stays.
    pub fn keep<'z>(&mut self, configured: impl Iterator<Item = &'z [u8]>) -> io::Result<()> {
        let configured: HashSet<u64> = configured.map(hash).collect();
        let gone: Vec<u64> = self.known.keys().filter(|hash| !configured.contains(hash)).copied().collect();
        gone.into_iter().try_for_each(|hash| self.drop_of(hash))
    }

    fn drop_of(&mut self, hash: u64) -> io::Result<()> {
        let Some((slot, _)) = self.known.get(&hash).copied() else { return Ok(()) };
        self.write(slot, &[0; RECORD])?;
        self.free.push(slot);
        self.known.remove(&hash);
        Ok(())
    }

    fn take_slot(&mut self, hash: u64, noted: Noted) -> Slot {
        let own = self.known.get(&hash).map(|(slot, _)| *slot);
        let slot = own.or_else(|| self.free.pop()).unwrap_or(self.next);
        self.known.insert(hash, (slot, noted));
        self.next = self.next.max(slot + 1);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(at_s: u64, serial: u32) -> Noted {
        Noted { at_s, serial, unserved: None }
    }

    #[test]
    fn what_was_noted_is_known_after_a_restart_and_what_is_torn_is_not() {
        let folder = std::env::temp_dir().join(format!("dunlin-times-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let zones: [&[u8]; 3] = [b"\x01a\0", b"\x01b\0", b"\x01c\0"];
        let open = |zones: &[&[u8]]| {
            let mut times = Times::open(&folder, REFRESHED, zones.iter().copied()).0;
            times.write_all().unwrap();
            times
        };
        let mut times = open(&zones);
        for (i, zone) in zones.iter().enumerate() {
            assert_eq!(times.of(zone), None);
            times.note(zone, noted(5, 1)).unwrap();
            times.note(zone, noted(10 + i as u64, u32::MAX - i as u32)).unwrap();
        }
        let of = |times: &Times| zones.map(|zone| times.of(zone).map(|noted| (noted.at_s, u32::MAX - noted.serial)));
        assert_eq!(of(&times), [Some((10, 0)), Some((11, 1)), Some((12, 2))]);
        assert_eq!(of(&open(&zones)), [Some((10, 0)), Some((11, 1)), Some((12, 2))]);
        times.keep(zones[1..].iter().copied()).unwrap();
        assert_eq!(of(&times), [None, Some((11, 1)), Some((12, 2))], "one has gone");
        times.note(b"\x01d\0", noted(13, 7)).unwrap();
        assert_eq!(
            std::fs::metadata(folder.join(REFRESHED)).unwrap().len() as usize,
            3 * RECORD,
            "another has its place"
        );
        assert_eq!(of(&open(&zones)), [None, Some((11, 1)), Some((12, 2))]);
        let mut octets = std::fs::read(folder.join(REFRESHED)).unwrap();
        assert_eq!(octets.len(), 2 * RECORD, "and its place with it");
        octets[40] ^= 1;
        std::fs::write(folder.join(REFRESHED), &octets[..60]).unwrap();
        assert_eq!(of(&open(&zones)), [None, Some((11, 1)), None]);
        // Where nothing can be written what is known is known all the same, and written when it can.
        let (mut times, file) = (Times::open(&folder, REFRESHED, zones.iter().copied()).0, folder.join(REFRESHED));
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(Times::open(&folder, REFRESHED, [].into_iter()).1.is_some(), "all that have expired are served again");
        assert!(times.write_all().is_err() && times.note(zones[0], noted(10, u32::MAX)).is_err());
        assert_eq!(of(&times), [Some((10, 0)), Some((11, 1)), None]);
        std::fs::remove_dir(&file).unwrap();
        times.note(zones[2], noted(12, u32::MAX - 2)).unwrap();
        assert_eq!(of(&open(&zones)), [Some((10, 0)), Some((11, 1)), Some((12, 2))]);
        for unserved in [Some(0), Some(7), None] {
            times.note(zones[0], Noted { unserved, ..noted(10, 5) }).unwrap();
            assert_eq!(open(&zones).of(zones[0]), Some(Noted { unserved, ..noted(10, 5) }));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
