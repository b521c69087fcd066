//! The journal on folders of the file system; what a bad disk does to it is in `tests/journal.rs`.

use super::*;
use crate::testdir::TestDir;
use std::fs;
use std::path::Path;
use std::sync::mpsc;

type Records = Vec<(u64, Vec<u8>)>;

fn open(dir: &Path, from: u64) -> io::Result<(Journal<Folder>, Records, Vec<String>)> {
    let mut seen = Vec::new();
    let folder = Folder::open(dir)?;
    let (journal, remarks) =
        Journal::open(folder, 1000, from, &mut |position, record| seen.push((position, record.to_vec())))?;
    Ok((journal, seen, remarks))
}

fn filled(dir: &Path, records: u64) {
    let mut journal = open(dir, 0).unwrap().0;
    for n in 0..records {
        assert_eq!(journal.append(&[format!("record {n:>100}")]).unwrap(), n);
    }
}

#[test]
fn records_come_back_in_order() {
    let dir = TestDir::new("journal");
    filled(dir.path(), 20);
    assert_eq!(dir.names().len(), 3);
    let (mut journal, seen, remarks) = open(dir.path(), 7).unwrap();
    assert_eq!(seen.iter().map(|(position, _)| *position).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert!(seen[7].1.ends_with(b" 7") && remarks.is_empty());
    assert_eq!(journal.append(&["a", "b"]).unwrap(), 20);
    assert_eq!(open(dir.path(), 21).unwrap().1[21..], [(21, b"b".to_vec())]);
    assert_eq!(journal.start_of_last(1), 20);
}

#[test]
fn a_torn_tail_is_dropped_with_a_word() {
    let dir = TestDir::new("torn");
    filled(dir.path(), 2);
    let file = dir.path().join("journal.0000000001");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 20]).unwrap();
    let (mut journal, seen, remarks) = open(dir.path(), 0).unwrap();
    assert_eq!(seen.len(), 1);
    assert!(remarks[0].contains("journal.0000000001: dropped"), "{remarks:?}");
    assert_eq!(journal.append(&["after"]).unwrap(), 1);
    let (_, seen, remarks) = open(dir.path(), 0).unwrap();
    assert_eq!(seen.last(), Some(&(1, b"after".to_vec())));
    assert!(remarks.is_empty(), "the tail is known to be torn: {remarks:?}");
}

#[test]
fn what_is_damaged_before_whole_records_is_an_error() {
    let dir = TestDir::new("damaged");
    filled(dir.path(), 20);
    let breaks = |name: &str, at: usize, expect: &str| {
        let file = dir.path().join(name);
        let whole = fs::read(&file).unwrap();
        let mut broken = whole.clone();
        broken[at] ^= 1;
        fs::write(&file, broken).unwrap();
        let text = open(dir.path(), 0).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(text.contains(expect), "{name} at {at}: {text}");
        fs::write(&file, whole).unwrap();
    };
    breaks("journal.0000000001", 200, "journal.0000000001: the changes 1 to ");
    breaks("journal.0000000003", 80, "is damaged: whole ones follow");
    breaks("journal.0000000003", 3, "its head is damaged");
    let second = dir.path().join("journal.0000000002");
    let octets = fs::read(&second).unwrap();
    fs::remove_file(&second).unwrap();
    assert!(open(dir.path(), 0).err().unwrap().to_string().contains("are missing or damaged"));
    fs::write(&second, octets).unwrap();
    fs::remove_file(dir.path().join("journal.0000000001")).unwrap();
    assert!(open(dir.path(), 0).err().unwrap().to_string().contains("before it are missing"));
    assert!(open(dir.path(), 15).is_ok());
}

#[test]
fn segments_that_are_no_longer_needed_are_deleted() {
    let dir = TestDir::new("release");
    filled(dir.path(), 30);
    let (mut journal, _, _) = open(dir.path(), 0).unwrap();
    let segments = dir.names().len();
    journal.release(3);
    assert_eq!(dir.names().len(), segments);
    journal.release(30);
    assert_eq!(dir.names(), [name(segments as u64)]);
    assert!(journal.append(&["more"]).is_ok());
    assert_eq!(open(dir.path(), 30).unwrap().1.last(), Some(&(30, b"more".to_vec())));
}

#[test]
fn a_journal_of_history_opens_though_its_beginning_is_gone_or_damaged() {
    let dir = TestDir::new("history");
    let opened = || Journal::open_history(Folder::open(dir.path()).unwrap(), 1000);
    assert_eq!(opened().unwrap().0.next_position(), 0);
    filled(dir.path(), 30);
    let (mut journal, _) = opened().unwrap();
    let starts: Vec<u64> = journal.starts().map(|(_, first)| first).collect();
    journal.release(starts[1]);
    let second = dir.path().join(name(2));
    let mut octets = fs::read(&second).unwrap();
    octets[200] ^= 1;
    fs::write(&second, octets).unwrap();
    let (mut journal, remarks) = opened().unwrap();
    assert!(remarks[0].contains("of what is history only"), "{remarks:?}");
    assert_eq!(journal.append(&["more"]).unwrap(), 30);
    let mut seen = Vec::new();
    Journal::look_through(Folder::open(dir.path()).unwrap(), &mut |record| seen.push(record.to_vec())).unwrap();
    assert_eq!((seen.len() as u64, seen.last()), (1 + 31 - starts[2], Some(&b"more".to_vec())));
}

#[test]
fn waiting_records_become_one_group() {
    let dir = TestDir::new("group");
    let journal = open(dir.path(), 0).unwrap().0;
    let (told, outcomes) = mpsc::channel();
    let writer = Writer::start(journal, 1000, move |token: u64, outcome| told.send((token, outcome)).unwrap()).unwrap();
    for token in 0..500 {
        writer.append(format!("record {token}").into_bytes(), token).map_err(drop).unwrap();
    }
    drop(writer);
    let outcomes: Vec<_> = outcomes.iter().collect();
    assert_eq!(outcomes.len(), 500);
    assert!(outcomes.iter().all(|(token, outcome)| *outcome == Ok(*token)));
    assert_eq!(open(dir.path(), 0).unwrap().1.len(), 500);
}

#[test]
fn a_folder_that_is_gone_refuses_by_name() {
    let dir = TestDir::new("gone");
    let mut journal = open(&dir.path().join("j"), 0).unwrap().0;
    fs::remove_dir(dir.path().join("j")).unwrap();
    let text = journal.append(&["x"]).unwrap_err().to_string();
    assert!(text.contains("j/journal.0000000001: "), "{text}");
    assert_eq!(journal.next_position(), 0);
}
