//! The journal on folders of the file system; what a bad disk does to it is in `tests/journal.rs`.

use super::disk::Named;
use super::*;
use crate::testdir::TestDir;
use std::cell::Cell;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

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
    assert_eq!(seen.iter().map(|(position, _)| *position).collect::<Vec<_>>(), (7..20).collect::<Vec<_>>());
    assert!(seen[0].1.ends_with(b" 7") && remarks.is_empty());
    assert_eq!(journal.append(&["a", "b"]).unwrap(), 20);
    assert_eq!(open(dir.path(), 21).unwrap().1, [(21, b"b".to_vec())]);
}

#[test]
fn a_torn_tail_is_dropped_with_a_word() {
    let dir = TestDir::new("torn");
    filled(dir.path(), 2);
    let file = dir.path().join("journal.0000000001");
    let mut torn = fs::read(&file).unwrap();
    let end = 1 + torn.iter().rposition(|octet| *octet != 0).unwrap();
    torn[end - 20..end].fill(0);
    fs::write(&file, torn).unwrap();
    let (mut journal, seen, remarks) = open(dir.path(), 0).unwrap();
    assert_eq!(seen.len(), 1);
    assert!(remarks[0].contains("journal.0000000001: dropped"), "{remarks:?}");
    assert_eq!(journal.append(&["after"]).unwrap(), 1);
    let (_, seen, remarks) = open(dir.path(), 0).unwrap();
    assert_eq!(seen.last(), Some(&(1, b"after".to_vec())));
    assert!(remarks.is_empty(), "the tail is known to be torn: {remarks:?}");
}

#[test]
fn a_segment_is_laid_out_ahead_of_what_it_holds() {
    let dir = TestDir::new("laid");
    let folder = Folder::open(dir.path()).unwrap();
    let mut journal = Journal::open(folder, SEGMENT_OCTETS, 0, &mut |_, _| {}).unwrap().0;
    let mut lengths = Vec::new();
    let file = dir.path().join(name(1));
    for n in 0..4000 {
        journal.append(&[format!("record {n:>1000}")]).unwrap();
        lengths.push(fs::metadata(&file).unwrap().len());
        assert!(lengths[n] <= (2 * 1100 * (n as u64 + 1)).next_multiple_of(BLOCK), "{n}: {}", lengths[n]);
    }
    lengths.dedup();
    assert!(lengths.len() < 25, "{lengths:?}");
    let (mut seen, folder) = (0, Folder::open(dir.path()).unwrap());
    let (_, remarks) = Journal::open(folder, SEGMENT_OCTETS, 0, &mut |_, _| seen += 1).unwrap();
    assert_eq!((seen, remarks), (4000, vec![]), "zeros are nothing unfinished");
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
    let last = dir.path().join("journal.0000000003");
    let whole = fs::read(&last).unwrap();
    fs::write(&last, [&whole[..80], b"x", &whole[81..]].concat()).unwrap();
    let (journal, seen, remarks) = open(dir.path(), 18).unwrap();
    assert_eq!((journal.next_position(), seen.len()), (20, 2), "before what is needed, in the same segment");
    assert!(remarks[0].contains("journal.0000000003: of what is history only, the changes 14 to 14"), "{remarks:?}");
    assert!(open(dir.path(), 14).err().unwrap().to_string().contains("change 14 is damaged"));
    fs::write(&last, whole).unwrap();
    let why = open(dir.path(), 21).err().unwrap().to_string();
    assert!(why.contains("journal.0000000003: it ends before change 20, and 21 is to follow"), "{why}");
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
    journal.release(3, 0);
    assert_eq!(dir.names().len(), segments);
    journal.release(30, 2);
    assert_eq!(dir.names(), [name(segments as u64 - 1), name(segments as u64)]);
    journal.release(30, 0);
    assert_eq!(dir.names(), [name(segments as u64)]);
    assert!(journal.append(&["more"]).is_ok());
    let (mut journal, seen, _) = open(dir.path(), 30).unwrap();
    assert_eq!(seen, [(30, b"more".to_vec())]);
    assert!(journal.append(&["and more"]).is_ok());
    journal.release(30, 9);
    assert_eq!(dir.names().len(), 3, "as many are kept as history, read or not");
    journal.release(29, 0);
    assert_eq!(dir.names().len(), 3, "a change is needed that may stand there");
    journal.release(30, 0);
    assert_eq!(dir.names().len(), 2);
    assert_eq!((journal.let_go(30), journal.let_go(99)), (None, Some(segments as u64 + 1)));
    assert_eq!((journal.let_go(99), journal.numbers().count()), (None, 1), "the segment that is written to stays");
    journal.put_back(segments as u64 + 1);
    assert_eq!(journal.numbers().count(), 2);
    journal.release(99, 0);
    assert_eq!(dir.names(), [name(segments as u64 + 2)]);
}

/// A folder of which a test knows more, and decides some.
struct Known<'c> {
    folder: Folder,
    /// Octets that were read from it.
    octets: &'c Cell<u64>,
    /// The next who reads as much as this finds zeros here.
    unread: Cell<Range<usize>>,
    /// Octets that it takes at once.
    room: usize,
}

impl<'c> Known<'c> {
    fn new(dir: &TestDir, octets: &'c Cell<u64>) -> Known<'c> {
        Known { folder: Folder::open(dir.path()).unwrap(), octets, unread: Cell::default(), room: usize::MAX }
    }
}

impl Disk for Known<'_> {
    type File = Named;

    fn list(&self) -> io::Result<Vec<String>> {
        self.folder.list()
    }
    fn read(&self, name: &str, at: u64, max: usize) -> io::Result<Vec<u8>> {
        let mut octets = self.folder.read(name, at, max)?;
        self.octets.set(self.octets.get() + octets.len() as u64);
        let unread = self.unread.take();
        match octets.get_mut(unread.clone()) {
            Some(part) => part.fill(0),
            None => self.unread.set(unread),
        }
        Ok(octets)
    }
    fn open(&self, name: &str) -> io::Result<Named> {
        self.folder.open(name)
    }
    fn create(&self, name: &str) -> io::Result<Named> {
        self.folder.create(name)
    }
    fn write(&self, file: &Named, at: u64, octets: &[u8]) -> io::Result<()> {
        if octets.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.folder.write(file, at, octets)
    }
    fn cut(&self, file: &Named, len: u64) -> io::Result<()> {
        self.folder.cut(file, len)
    }
    fn sync(&self, file: &Named) -> io::Result<()> {
        self.folder.sync(file)
    }
    fn has_its_name(&self, file: &Named) -> io::Result<()> {
        self.folder.has_its_name(file)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.folder.sync_names()
    }
    fn place(&self, name: &str) -> PathBuf {
        self.folder.place(name)
    }
}

#[test]
fn a_start_reads_what_is_needed_however_much_there_is_of_history() {
    // What is read of a journal of so many records of which the last three are needed.
    let read = |records| {
        let dir = TestDir::new("little");
        filled(dir.path(), records);
        let (octets, mut seen) = (Cell::new(0), 0);
        let (journal, _) = Journal::open(Known::new(&dir, &octets), 1000, records - 3, &mut |_, _| seen += 1).unwrap();
        assert_eq!((seen, journal.next_position()), (3, records));
        assert_eq!(journal.places().count() as u64, records / 7);
        octets.get()
    };
    let little = read(14);
    assert!(little < 1200, "{little}: a segment and its head");
    assert_eq!([read(70), read(700)], [little; 2]);
}

#[test]
fn damage_of_what_is_not_needed_is_told_to_whoever_looks_for_it() {
    let dir = TestDir::new("unread");
    filled(dir.path(), 40);
    for (segment, at) in [(1, 3), (2, 200)] {
        let file = dir.path().join(name(segment));
        let mut octets = fs::read(&file).unwrap();
        octets[at] ^= 1;
        fs::write(&file, octets).unwrap();
    }
    assert!(open(dir.path(), 0).is_err());
    let (mut journal, seen, remarks) = open(dir.path(), 30).unwrap();
    assert_eq!((seen.len(), remarks), (10, vec![]));
    assert_eq!(journal.append(&["more"]).unwrap(), 40);
    let mut seen = 0;
    let remarks = Journal::look_through(Folder::open(dir.path()).unwrap(), 0, &mut |_, _| seen += 1).unwrap();
    assert!(
        remarks[0].contains("its head is damaged") && remarks[1].contains("of what is history only"),
        "{remarks:?}"
    );
    assert_eq!((seen, remarks.len()), (40 - 7 - 1 + 1, 2));
}

#[test]
fn who_looks_through_a_journal_from_a_position_on_reads_what_follows() {
    let dir = TestDir::new("from");
    let end = || {
        let mut last = Vec::new();
        let end = Journal::end(Folder::open(dir.path()).unwrap(), &mut |record| last = record.to_vec()).unwrap();
        (end, String::from_utf8(last).unwrap().trim_start_matches("record ").trim().to_string())
    };
    assert_eq!(end(), (0, String::new()));
    filled(dir.path(), 40);
    assert_eq!(end(), (40, "39".to_string()));
    // Somebody was killed before he wrote anything behind it.
    let next = 1 + fs::read_dir(dir.path()).unwrap().count() as u64;
    fs::write(dir.path().join(name(next)), segment::head(next, 40, 7)).unwrap();
    assert_eq!(end(), (40, "39".to_string()));
    fs::remove_file(dir.path().join(name(next))).unwrap();
    for from in 0..=41 {
        let mut seen = Vec::new();
        let see = &mut |_: u64, record: &[u8]| seen.push(record.to_vec());
        assert_eq!(Journal::look_through(Folder::open(dir.path()).unwrap(), from, see).unwrap(), [] as [String; 0]);
        // It has never come to 41: that is a position of another one.
        let expected = if from == 41 { 0..40 } else { from..40 };
        let expected: Vec<Vec<u8>> = expected.map(|n| format!("record {n:>100}").into_bytes()).collect();
        assert_eq!(seen, expected, "{from}");
    }
    // What stands before is not read.
    fs::write(dir.path().join(name(1)), "gone").unwrap();
    assert_eq!(
        Journal::look_through(Folder::open(dir.path()).unwrap(), 39, &mut |_, _| ()).unwrap(),
        [] as [String; 0]
    );
}

/// Who reads while somebody appends may come to a place before that is written, and to one behind it after both are.
#[test]
fn what_was_not_there_yet_when_its_place_was_read_is_read_again() {
    let (dir, octets) = (TestDir::new("beside"), Cell::new(0));
    filled(dir.path(), 6);
    let frame = (110 + 4 + 32_usize).next_multiple_of(8);
    for (unread, expected) in [(0..0, 0..6), (32 + frame..32 + 3 * frame, 0..6), (32 + 4 * frame..1000, 0..4)] {
        let (known, mut seen) = (Known::new(&dir, &octets), Vec::new());
        known.unread.set(unread.clone());
        let remarks = Journal::look_through(known, 0, &mut |position, _| seen.push(position)).unwrap();
        assert_eq!((remarks, seen), (vec![], expected.collect()), "{unread:?}");
    }
}

#[test]
fn a_disk_that_has_no_room_ahead_takes_what_it_has_room_for() {
    let (dir, octets) = (TestDir::new("no-room-ahead"), Cell::new(0));
    let mut journal =
        Journal::open(Known { room: 300, ..Known::new(&dir, &octets) }, 1 << 20, 0, &mut |_, _| {}).unwrap().0;
    for n in 0..5 {
        assert_eq!(journal.append(&[format!("record {n:>100}")]).unwrap(), n);
    }
    let why = journal.append(&["x".repeat(300)]).unwrap_err().to_string();
    assert!(why.contains("journal.0000000001: no space: needs 1 MiB"), "{why}");
    assert_eq!((journal.append(&["after"]).unwrap(), dir.names().len()), (5, 2));
    assert_eq!(open(dir.path(), 0).unwrap().1.len(), 6);
}

#[test]
fn a_disk_that_takes_heads_alone_is_left_one_segment() {
    let (dir, octets) = (TestDir::new("heads-alone"), Cell::new(0));
    let mut journal =
        Journal::open(Known { room: 300, ..Known::new(&dir, &octets) }, 100, 0, &mut |_, _| {}).unwrap().0;
    journal.append(&["y".repeat(100)]).unwrap();
    let fails = |journal: &mut Journal<Known<'_>>| assert!(journal.append(&["x".repeat(300)]).is_err());
    fails(&mut journal);
    assert_eq!(dir.names(), [name(1)]);
    journal.begin().unwrap();
    journal.release(1, 0);
    assert_eq!(dir.names(), [name(3)]);
    (0..3).for_each(|_| fails(&mut journal));
    assert_eq!(dir.names().len(), 1);
    assert_eq!(open(dir.path(), 1).unwrap().2, [] as [String; 0], "nothing is lost");
}

/// Somebody has removed what was there, and others know positions of it.
#[test]
fn a_journal_goes_on_behind_positions_that_were() {
    let dir = TestDir::new("skips");
    let opened = || Journal::open_history(Folder::open(dir.path()).unwrap(), 1000).unwrap().0;
    let mut journal = opened();
    journal.skip_to(7);
    assert_eq!((journal.append(&["a"]).unwrap(), journal.next_position()), (7, 8));
    journal.skip_to(3);
    assert_eq!(journal.append(&["b"]).unwrap(), 8);
    journal.skip_to(20);
    assert_eq!(journal.append(&["c"]).unwrap(), 20);
    drop(journal);
    assert_eq!(opened().next_position(), 21);
    for (from, expected) in [(0, &["a", "b", "c"][..]), (8, &["b", "c"]), (9, &["c"]), (21, &[])] {
        let mut seen = Vec::new();
        let see = &mut |_: u64, record: &[u8]| seen.push(record.to_vec());
        let remarks = Journal::look_through(Folder::open(dir.path()).unwrap(), from, see).unwrap();
        assert!(remarks.iter().all(|remark| remark.contains("the changes 9 to 19 are missing")), "{remarks:?}");
        assert_eq!(seen, expected.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>(), "{from}");
    }
}

#[test]
fn what_is_let_go_of_while_somebody_looks_through_it_is_no_error() {
    let dir = TestDir::new("released");
    filled(dir.path(), 40);
    let segments = fs::read_dir(dir.path()).unwrap().count() as u64;
    for gone in [2, segments] {
        let mut seen = 0;
        let see = &mut |_: u64, _: &[u8]| {
            seen += 1;
            (1..=gone).for_each(|segment| _ = fs::remove_file(dir.path().join(name(segment))));
        };
        let remarks = Journal::look_through(Folder::open(dir.path()).unwrap(), 0, see).unwrap();
        assert_eq!(remarks, [] as [String; 0], "{gone}");
        assert!((1..40).contains(&seen), "{gone}: {seen}");
    }
}

#[test]
fn a_journal_of_history_opens_though_its_beginning_is_gone_or_damaged() {
    let dir = TestDir::new("history");
    let opened = || Journal::open_history(Folder::open(dir.path()).unwrap(), 1000);
    assert_eq!(opened().unwrap().0.next_position(), 0);
    filled(dir.path(), 30);
    let (mut journal, _) = opened().unwrap();
    journal.release(30, journal.places().count() - 1);
    let second = dir.path().join(name(2));
    let mut octets = fs::read(&second).unwrap();
    octets[200] ^= 1;
    fs::write(&second, octets).unwrap();
    let (mut journal, remarks) = opened().unwrap();
    assert_eq!(remarks, [] as [String; 0], "it is not read");
    assert_eq!(journal.append(&["more"]).unwrap(), 30);
    let mut seen = Vec::new();
    let see = &mut |_: u64, record: &[u8]| seen.push(record.to_vec());
    let remarks = Journal::look_through(Folder::open(dir.path()).unwrap(), 0, see).unwrap();
    assert!(remarks[0].contains("of what is history only"), "{remarks:?}");
    assert_eq!((seen.len(), seen.last()), (30 - 7 - 1 + 1, Some(&b"more".to_vec())));
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

/// Nothing is acknowledged that was written to what has no name any more, or another's; what comes later goes where the name leads.
#[test]
fn whoever_removes_what_is_written_to_is_noticed_before_anything_is_acknowledged() {
    type Removal = (&'static str, fn(&Path));
    let removals: [Removal; 5] = [
        ("the segment", |j| fs::remove_file(j.join("journal.0000000001")).unwrap()),
        ("the folder", |j| fs::remove_dir_all(j).unwrap()),
        ("the folder, and another is there", |j| {
            fs::rename(j, j.with_extension("old")).unwrap();
            fs::create_dir(j).unwrap();
        }),
        ("another segment in its place", |j| {
            fs::write(j.join("new"), "").unwrap();
            fs::rename(j.join("new"), j.join("journal.0000000001")).unwrap();
        }),
        ("another's segment behind it", |j| {
            fs::remove_file(j.join("journal.0000000001")).unwrap();
            fs::write(j.join("journal.0000000002"), "").unwrap();
        }),
    ];
    for (what, remove) in removals {
        let dir = TestDir::new("removed");
        let folder = dir.path().join("j");
        let mut journal = open(&folder, 0).unwrap().0;
        assert_eq!(journal.append(&["before"]).unwrap(), 0);
        remove(&folder);
        let refused = |journal: &mut Journal<Folder>| journal.append(&["refused"]).unwrap_err().to_string();
        assert!(refused(&mut journal).contains("j/journal.0000000001: "), "{what}");
        if !folder.exists() {
            assert!(refused(&mut journal).contains("j/journal.0000000002: "), "{what}");
            assert!(journal.begin().is_err(), "{what}");
            fs::create_dir(&folder).unwrap();
        }
        if folder.join("journal.0000000002").exists() {
            assert!(refused(&mut journal).contains("j/journal.0000000002: "), "{what}");
        }
        journal.begin().unwrap();
        assert!(open(&folder, 1).unwrap().1.is_empty(), "{what}: nothing is in it yet");
        assert_eq!(journal.append(&["after"]).unwrap(), 1, "{what}");
        assert_eq!(journal.append(&["more"]).unwrap(), 2, "{what}");
        assert_eq!(open(&folder, 1).unwrap().1, [(1, b"after".to_vec()), (2, b"more".to_vec())], "{what}");
        for n in 3..30 {
            assert_eq!(journal.append(&[format!("{n:>100}")]).unwrap(), n, "{what}");
        }
        journal.release(29, 0);
        let left = fs::read_dir(&folder).unwrap().filter(|entry| entry.as_ref().unwrap().metadata().unwrap().len() > 0);
        assert_eq!(left.count(), 1, "{what}: what is gone keeps nothing else");
    }
}

/// As where files of two journals come together.
#[test]
fn segments_out_of_order_are_damage_and_no_record_is_seen_twice() {
    let dir = TestDir::new("disorder");
    filled(dir.path(), 20);
    let mut late = segment::head(4, 3, 9);
    segment::push_frame(9, 3, &[b"late"], &mut late);
    fs::write(dir.path().join(name(4)), late).unwrap();
    let why = "journal.0000000004: it begins before the segment that stands before it";
    assert!(open(dir.path(), 0).is_err_and(|e| e.to_string().ends_with(why)));
    let mut seen = vec![];
    let see = &mut |position, _: &[u8]| seen.push(position);
    let remarks = Journal::look_through(Folder::open(dir.path()).unwrap(), 0, see).unwrap();
    assert_eq!((seen, remarks.len()), (vec![0, 1, 2, 3], 2));
    assert!(remarks.iter().all(|remark| remark.ends_with(why)), "{remarks:?}");
}
