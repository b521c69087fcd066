//! A process that is killed while it writes a journal: what it said was durable is there. Once on the folder as it is,
//! and once through a shim that keeps everything in the process until it is synced, so that the kill throws away every
//! octet that was not.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use store::journal::{Disk, Folder, Journal};

const SEGMENT: u64 = 20_000;
const KILLS: usize = 40;
const FOLDER: &str = "DUNLIN_TEST_JOURNAL";
const HELD_BACK: &str = "DUNLIN_TEST_HELD_BACK";

/// Nothing reaches the folder before it is synced: neither octets nor names.
struct HeldBack {
    folder: Folder,
    next: Cell<usize>,
    files: RefCell<HashMap<usize, Held>>,
}

#[derive(Default)]
struct Held {
    name: String,
    /// None until the names are synced.
    file: Option<<Folder as Disk>::File>,
    /// Synced while the file had no name.
    synced: Vec<(u64, Vec<u8>)>,
    pending: Vec<(u64, Vec<u8>)>,
}

impl Disk for HeldBack {
    type File = usize;

    fn list(&self) -> io::Result<Vec<String>> {
        self.folder.list()
    }
    fn read(&self, name: &str, at: u64, max: usize) -> io::Result<Vec<u8>> {
        self.folder.read(name, at, max)
    }
    fn open(&self, name: &str) -> io::Result<usize> {
        let held = Held { name: name.to_owned(), file: Some(self.folder.open(name)?), ..Held::default() };
        self.next.set(self.next.get() + 1);
        self.files.borrow_mut().insert(self.next.get(), held);
        Ok(self.next.get())
    }
    fn create(&self, name: &str) -> io::Result<usize> {
        self.next.set(self.next.get() + 1);
        self.files.borrow_mut().insert(self.next.get(), Held { name: name.to_owned(), ..Held::default() });
        Ok(self.next.get())
    }
    fn write(&self, file: &usize, at: u64, octets: &[u8]) -> io::Result<()> {
        let mut files = self.files.borrow_mut();
        files.get_mut(file).expect("it was created").pending.push((at, octets.to_vec()));
        Ok(())
    }
    fn cut(&self, _: &usize, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync(&self, file: &usize) -> io::Result<()> {
        let mut files = self.files.borrow_mut();
        let held = files.get_mut(file).expect("it was created");
        let pending = std::mem::take(&mut held.pending);
        match &held.file {
            Some(file) => pending.iter().try_for_each(|(at, octets)| self.folder.write(file, *at, octets)),
            None => {
                held.synced.extend(pending);
                Ok(())
            }
        }
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        for held in self.files.borrow_mut().values_mut().filter(|h| h.file.is_none()) {
            let file = self.folder.create(&held.name)?;
            held.synced.iter().try_for_each(|(at, octets)| self.folder.write(&file, *at, octets))?;
            held.file = Some(file);
        }
        Ok(())
    }
    fn place(&self, name: &str) -> PathBuf {
        self.folder.place(name)
    }
}

/// The process that will be killed: appends groups of records, and says what became durable, a line each.
#[test]
#[ignore = "it is run, and killed, by the others"]
fn write_until_killed() {
    let dir = PathBuf::from(std::env::var_os(FOLDER).expect("the folder is named"));
    let folder = Folder::open(&dir).unwrap();
    if std::env::var_os(HELD_BACK).is_some() {
        let held_back = HeldBack { folder, next: Cell::new(0), files: RefCell::default() };
        append_for_ever(held_back);
    } else {
        append_for_ever(folder);
    }
}

fn append_for_ever(disk: impl Disk) {
    let mut journal = Journal::open(disk, SEGMENT, 0, &mut |_, _| {}).unwrap().0;
    let mut out = io::stdout();
    for group in 0u64.. {
        let records: Vec<String> = (0..1 + group % 64).map(|n| format!("{}-{group}-{n}", std::process::id())).collect();
        let first = journal.append(&records).unwrap();
        for (position, record) in (first..).zip(&records) {
            writeln!(out, "durable {position} {record}").unwrap();
        }
    }
}

fn records(dir: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    Journal::open(Folder::open(dir).unwrap(), SEGMENT, 0, &mut |_, r| found.push(r.to_vec())).unwrap();
    found
}

fn kill_again_and_again(name: &str, held_back: bool) {
    let dir = std::env::temp_dir().join(format!("dunlin-journal-kill-{name}-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let mut durable: Vec<(usize, Vec<u8>)> = Vec::new();
    for round in 0..KILLS {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "write_until_killed", "--ignored", "--nocapture"]).env(FOLDER, &dir);
        if held_back {
            command.env(HELD_BACK, "1");
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut seen = 0;
        // Every kill comes at another moment; what was said before it is read to the end.
        let mut hear = |line: String| {
            let fact = line.strip_prefix("durable ").and_then(|f| f.split_once(' '));
            let Some((position, record)) = fact else { return };
            durable.push((position.parse().unwrap(), record.as_bytes().to_vec()));
        };
        while seen < 1 + round * 37 {
            hear(lines.next().expect("it writes until it is killed"));
            seen += 1;
        }
        child.kill().unwrap();
        let said: Vec<String> = lines.collect();
        // The last line may have been cut off by the kill.
        said.iter().take(said.len().saturating_sub(1)).cloned().for_each(&mut hear);
        child.wait().unwrap();
        let found = records(&dir);
        for (position, record) in &durable {
            assert_eq!(found.get(*position), Some(record), "round {round}");
        }
    }
    assert!(durable.len() > KILLS);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn nothing_durable_is_lost_by_kills() {
    kill_again_and_again("plain", false);
}

#[test]
fn nothing_durable_is_lost_with_all_that_was_not_synced() {
    kill_again_and_again("held-back", true);
}
