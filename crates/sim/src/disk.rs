//! A disk that may stop at any step, and then holds any part of what was not synced: sectors in any order, names or
//! not. It can be full, a sync can fail and lose what it was for, and a sync can lie. Everything follows from the seed.

use crate::rng::Rng;
use std::collections::BTreeMap;

/// What is written whole or not at all.
const SECTOR: usize = 512;

/// What can happen. One in so many, 0 never.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFaults {
    /// A sync fails; what it was for may be lost, and a later sync does not know.
    pub sync_fails: usize,
    /// A sync returns and nothing was synced.
    pub sync_lies: usize,
    /// A removal or a cut fails.
    pub tidying_fails: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    Full,
    Failed,
    Missing,
    Taken,
    /// The machine has stopped; only `restart` helps.
    Stopped,
}

/// A file that is open.
#[derive(Clone, Copy, Debug)]
pub struct Handle(usize);

enum Change {
    Piece { at: usize, octets: Vec<u8> },
    Cut(usize),
}

/// A file's octets, named or not.
#[derive(Default)]
struct Content {
    seen: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Default)]
pub struct Disk {
    rng: Option<Rng>,
    faults: DiskFaults,
    contents: Vec<Content>,
    seen_names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Octets that all files together may have.
    capacity: usize,
    /// Steps until the machine stops; None: it does not.
    steps_left: Option<usize>,
}

type Outcome<T> = Result<T, DiskError>;

impl Disk {
    pub fn new(seed: u64, faults: DiskFaults) -> Disk {
        Disk { rng: Some(Rng::new(seed)), faults, capacity: usize::MAX, ..Disk::default() }
    }

    pub fn set_faults(&mut self, faults: DiskFaults) {
        self.faults = faults;
    }

    pub fn set_capacity(&mut self, octets: usize) {
        self.capacity = octets;
    }

    pub fn used(&self) -> usize {
        self.seen_names.values().map(|&i| self.contents[i].seen.len()).sum()
    }

    /// The machine will stop in the middle of the step after `steps` more.
    pub fn stop_after(&mut self, steps: usize) {
        self.steps_left = Some(steps);
    }

    pub fn has_stopped(&self) -> bool {
        self.steps_left == Some(0)
    }

    fn chance(&mut self, n: usize) -> bool {
        n > 0 && self.rng.as_mut().is_some_and(|rng| rng.one_in(n))
    }

    /// True: the machine stops in this step.
    fn step(&mut self) -> Outcome<bool> {
        match &mut self.steps_left {
            None => Ok(false),
            Some(0) => Err(DiskError::Stopped),
            Some(n) => {
                *n -= 1;
                Ok(*n == 0)
            }
        }
    }

    fn done<T>(stops: bool, value: T) -> Outcome<T> {
        if stops { Err(DiskError::Stopped) } else { Ok(value) }
    }

    pub fn names(&self) -> Vec<String> {
        self.seen_names.keys().cloned().collect()
    }

    pub fn read(&self, name: &str) -> Outcome<&[u8]> {
        self.seen_names.get(name).map(|&i| &*self.contents[i].seen).ok_or(DiskError::Missing)
    }

    pub fn open(&self, name: &str) -> Outcome<Handle> {
        self.seen_names.get(name).map(|&i| Handle(i)).ok_or(DiskError::Missing)
    }

    pub fn create(&mut self, name: &str) -> Outcome<Handle> {
        let stops = self.step()?;
        if self.seen_names.contains_key(name) {
            return Err(DiskError::Taken);
        }
        self.contents.push(Content::default());
        self.seen_names.insert(name.to_owned(), self.contents.len() - 1);
        Self::done(stops, Handle(self.contents.len() - 1))
    }

    /// What does not fit is not written; what fits is.
    pub fn write(&mut self, file: Handle, at: usize, octets: &[u8]) -> Outcome<()> {
        let stops = self.step()?;
        let grows = (at + octets.len()).saturating_sub(self.contents[file.0].seen.len());
        let room = self.capacity.saturating_sub(self.used());
        let fits = octets.len() - grows.saturating_sub(room).min(octets.len());
        let content = &mut self.contents[file.0];
        patch(&mut content.seen, at, &octets[..fits]);
        let mut from = 0;
        while from < fits {
            let border = SECTOR - (at + from) % SECTOR;
            let to = (from + border).min(fits);
            content.pending.push(Change::Piece { at: at + from, octets: octets[from..to].to_vec() });
            from = to;
        }
        if fits < octets.len() { Err(DiskError::Full) } else { Self::done(stops, ()) }
    }

    pub fn cut(&mut self, file: Handle, len: usize) -> Outcome<()> {
        let stops = self.step()?;
        if self.chance(self.faults.tidying_fails) {
            return Err(DiskError::Failed);
        }
        let content = &mut self.contents[file.0];
        content.seen.truncate(len);
        content.pending.push(Change::Cut(len));
        Self::done(stops, ())
    }

    pub fn sync(&mut self, file: Handle) -> Outcome<()> {
        let stops = self.step()?;
        if self.chance(self.faults.sync_lies) {
            return Self::done(stops, ());
        }
        if stops {
            // Any part of it will be there, or all if the machine runs on.
            return Err(DiskError::Stopped);
        }
        if self.chance(self.faults.sync_fails) {
            let keep = self.rng.as_mut().map_or(0, |rng| rng.below(3));
            self.settle(file.0, keep);
            return Err(DiskError::Failed);
        }
        self.settle(file.0, 2);
        Ok(())
    }

    /// What is pending reaches the disk: 0 nothing, 1 any part, 2 all.
    fn settle(&mut self, file: usize, keep: usize) {
        let content = &mut self.contents[file];
        for change in std::mem::take(&mut content.pending) {
            let kept = keep == 2 || keep == 1 && self.rng.as_mut().is_some_and(|rng| rng.one_in(2));
            match change {
                _ if !kept => {}
                Change::Piece { at, octets } => patch(&mut content.durable, at, &octets),
                Change::Cut(len) => content.durable.truncate(len),
            }
        }
    }

    pub fn remove(&mut self, name: &str) -> Outcome<()> {
        let stops = self.step()?;
        if self.chance(self.faults.tidying_fails) {
            return Err(DiskError::Failed);
        }
        self.seen_names.remove(name).ok_or(DiskError::Missing)?;
        Self::done(stops, ())
    }

    /// What had the new name is gone; that the file has it is durable once the names are synced.
    pub fn rename(&mut self, from: &str, to: &str) -> Outcome<()> {
        let stops = self.step()?;
        let file = self.seen_names.remove(from).ok_or(DiskError::Missing)?;
        self.seen_names.insert(to.to_owned(), file);
        Self::done(stops, ())
    }

    pub fn sync_names(&mut self) -> Outcome<()> {
        let stops = self.step()?;
        if self.chance(self.faults.sync_lies) {
            return Self::done(stops, ());
        }
        if self.chance(self.faults.sync_fails) {
            return Err(DiskError::Failed);
        }
        if !stops {
            self.durable_names = self.seen_names.clone();
        }
        Self::done(stops, ())
    }

    /// A process was killed, and the machine runs on: the next one finds what was written, synced or not.
    pub fn outlive(&mut self) {
        self.steps_left = None;
    }

    /// What a machine finds when it starts again: what was synced, and of the rest any part.
    pub fn restart(&mut self) {
        self.steps_left = None;
        for file in 0..self.contents.len() {
            let keep = self.rng.as_mut().map_or(0, |rng| rng.below(3));
            self.settle(file, keep);
            self.contents[file].seen = self.contents[file].durable.clone();
        }
        let changed: Vec<String> = self.seen_names.keys().chain(self.durable_names.keys()).cloned().collect();
        for name in changed {
            let (seen, durable) = (self.seen_names.get(&name).copied(), self.durable_names.get(&name).copied());
            let survivor = if self.chance(2) { seen } else { durable };
            match survivor {
                Some(file) => self.durable_names.insert(name, file),
                None => self.durable_names.remove(&name),
            };
        }
        self.seen_names = self.durable_names.clone();
    }
}

/// Octets between the end and `at` become zeros, as in a file.
fn patch(content: &mut Vec<u8>, at: usize, octets: &[u8]) {
    if content.len() < at + octets.len() {
        content.resize(at + octets.len(), 0);
    }
    content[at..at + octets.len()].copy_from_slice(octets);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_synced_survives_and_the_rest_may_not() {
        let mut lost = 0;
        for seed in 0..50 {
            let mut disk = Disk::new(seed, DiskFaults::default());
            let file = disk.create("f").unwrap();
            disk.write(file, 0, b"kept").unwrap();
            disk.sync(file).unwrap();
            disk.sync_names().unwrap();
            disk.write(file, 4, b"lost").unwrap();
            assert_eq!(disk.read("f"), Ok(&b"keptlost"[..]));
            disk.restart();
            assert!(disk.read("f").unwrap().starts_with(b"kept"));
            lost += usize::from(disk.read("f").unwrap().len() == 4);
        }
        assert!((1..50).contains(&lost), "{lost}");
    }

    #[test]
    fn a_full_disk_takes_what_fits() {
        let mut disk = Disk::new(1, DiskFaults::default());
        disk.set_capacity(6);
        let file = disk.create("f").unwrap();
        assert_eq!(disk.write(file, 0, b"12345678"), Err(DiskError::Full));
        assert_eq!(disk.read("f"), Ok(&b"123456"[..]));
        assert_eq!(disk.write(file, 0, b"abc"), Ok(()));
    }

    #[test]
    fn a_stopped_machine_does_nothing_more() {
        let mut disk = Disk::new(1, DiskFaults::default());
        disk.stop_after(2);
        let file = disk.create("f").unwrap();
        assert_eq!(disk.write(file, 0, b"x"), Err(DiskError::Stopped));
        assert_eq!(disk.sync(file), Err(DiskError::Stopped));
    }
}
