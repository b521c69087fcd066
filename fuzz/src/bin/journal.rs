//! Any files as segments of a journal: what is read are records that were written at their positions, whichever of them a reader begins with; and
//! what is appended then comes behind them, for good.
//!
//! Most sums are right, or nothing would get past them: the octets say which heads and frames there are, what of them is broken, and what stands
//! between.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use store::crc::crc32c;
use store::journal::{Disk, Journal};

type Files = BTreeMap<String, Vec<u8>>;
type Records = Vec<(u64, Vec<u8>)>;

/// A disk that does what it is told.
struct Memory<'f>(&'f RefCell<Files>);

impl Disk for Memory<'_> {
    type File = String;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().keys().cloned().collect())
    }

    fn read(&self, name: &str, at: u64, max: usize) -> io::Result<Vec<u8>> {
        let files = self.0.borrow();
        let file = files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(file.get(at as usize..).unwrap_or_default().iter().take(max).copied().collect())
    }

    fn open(&self, name: &str) -> io::Result<String> {
        Ok(name.to_string())
    }

    fn create(&self, name: &str) -> io::Result<String> {
        let taken = self.0.borrow_mut().insert(name.to_string(), vec![]);
        taken.map_or(Ok(name.to_string()), |_| Err(io::ErrorKind::AlreadyExists.into()))
    }

    fn write(&self, file: &String, at: u64, octets: &[u8]) -> io::Result<()> {
        let mut files = self.0.borrow_mut();
        let (file, end) = (files.get_mut(file).ok_or(io::ErrorKind::NotFound)?, at as usize + octets.len());
        file.resize(file.len().max(end), 0);
        file[at as usize..end].copy_from_slice(octets);
        Ok(())
    }

    fn cut(&self, file: &String, len: u64) -> io::Result<()> {
        self.0.borrow_mut().get_mut(file).ok_or(io::ErrorKind::NotFound)?.resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self, _: &String) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.borrow_mut().remove(name).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn place(&self, name: &str) -> PathBuf {
        name.into()
    }
}

/// What the octets say is written, by hand: a second writer of the format.
#[derive(Default)]
struct Scribe {
    files: Files,
    number: u64,
    salt: u32,
    /// Of the next record.
    position: u64,
    /// All that was written, whole or not.
    records: Records,
}

impl Scribe {
    fn file(&mut self) -> &mut Vec<u8> {
        self.files.entry(format!("journal.{:010}", self.number)).or_default()
    }

    /// Of the first version, or the second.
    fn head(&mut self, version: u8, salt: u8) {
        self.number += 1;
        let version = u32::from(version % 2 + 1);
        self.salt = if version == 1 { 0 } else { u32::from(salt) };
        let salt = self.salt.to_le_bytes();
        let head =
            [&b"DLJS"[..], &version.to_le_bytes(), &self.number.to_le_bytes(), &self.position.to_le_bytes()].concat();
        let covered = if version == 1 { head.clone() } else { [&head[..], &salt].concat() };
        let head = [&head[..], &crc32c(&covered).to_le_bytes(), &salt].concat();
        self.file().extend(head);
    }

    /// Records of these lengths.
    fn frame(&mut self, lengths: &[u8]) {
        let (mut body, first) = (vec![], self.position);
        for len in lengths {
            let record = vec![self.records.len() as u8; usize::from(*len)];
            body.extend(u32::from(*len).to_le_bytes());
            body.extend(&record);
            self.records.push((self.position, record));
            self.position += 1;
        }
        let head = [
            &b"DLJF"[..],
            &(body.len() as u32).to_le_bytes(),
            &first.to_le_bytes(),
            &(lengths.len() as u32).to_le_bytes(),
            &crc32c(&body).to_le_bytes(),
        ]
        .concat();
        let sum = crc32c(&head) ^ self.salt;
        let file = self.file();
        file.extend([&head[..], &sum.to_le_bytes(), &[0; 4], &body].concat());
        file.resize(file.len().next_multiple_of(8), 0);
    }

    fn all(mut octets: &[u8]) -> Scribe {
        let mut scribe = Scribe::default();
        while let Some(([what, n], rest)) = octets.split_first_chunk() {
            octets = rest;
            let n = usize::from(*n);
            match what % 8 {
                0 => scribe.head(n as u8, *what),
                1 | 2 => {
                    let (lengths, rest) = octets.split_at((n % 8).min(octets.len()));
                    scribe.frame(lengths);
                    octets = rest;
                }
                3 => {
                    let (raw, rest) = octets.split_at(n.min(octets.len()));
                    scribe.file().extend(raw);
                    octets = rest;
                }
                4 => {
                    let file = scribe.file();
                    file.resize(file.len() + n, 0);
                }
                // One octet is another one.
                5 => {
                    if let Some(octet) = scribe.file().iter_mut().rev().nth(n) {
                        *octet ^= 0x10;
                    }
                }
                6 => {
                    let file = scribe.file();
                    file.truncate(file.len() - n.min(file.len()));
                }
                // A write that was not acknowledged, or changes that are missing.
                _ => scribe.position = (scribe.position + (n as u64 % 16)).saturating_sub(8),
            }
        }
        scribe
    }
}

fn open(files: &RefCell<Files>, from: u64) -> io::Result<(Journal<Memory<'_>>, Records)> {
    let mut records = vec![];
    let mut see = |position, record: &[u8]| records.push((position, record.to_vec()));
    let (journal, _) = Journal::open(Memory(files), 512, from, &mut see)?;
    Ok((journal, records))
}

fuzz_target!(|octets: &[u8]| {
    let Some((from, octets)) = octets.split_first() else { return };
    let scribe = Scribe::all(octets);
    let files = RefCell::new(scribe.files);
    let mut seen = Records::new();
    let looked = Journal::look_through(Memory(&files), 0, &mut |at, record| seen.push((at, record.to_vec())));
    looked.expect("damage is told, and no error");
    assert!(seen.is_sorted_by_key(|(position, _)| *position));
    assert!(seen.iter().all(|record| scribe.records.contains(record)), "nobody wrote that");
    let _ = (Journal::oldest(Memory(&files)), Journal::end(Memory(&files), &mut |_| {}));
    let whole = open(&RefCell::new(files.borrow().clone()), 0).map(|(_, records)| records);
    if let Ok(whole) = &whole {
        assert!(whole.iter().enumerate().all(|(n, (position, _))| n as u64 == *position), "one after the other");
        assert_eq!(whole, &seen, "who looks sees what a start sees");
    }
    let from = u64::from(*from);
    let Ok((mut journal, mut records)) = open(&files, from) else { return };
    if let Ok(whole) = whole {
        assert_eq!(records, whole.into_iter().skip(from as usize).collect::<Records>());
    }
    for record in ["one", "another"] {
        let position = journal.append(&[record]).expect("a disk that does what it is told");
        assert!(records.last().is_none_or(|(last, _)| position == last + 1));
        records.push((position, record.as_bytes().to_vec()));
    }
    drop(journal);
    assert_eq!(open(&files, from).expect("it was written here").1, records);
});
