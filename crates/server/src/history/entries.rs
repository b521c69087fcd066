//! The changes of a zone as they stand in the journals of the history, in the order in which they were made.

use super::{FOLDER, by_updates_again, serials};
use crate::clock::know_change;
use crate::images::fingerprint_of;
use crate::log;
use crate::stamp::may_be_there;
use crate::update::ledger;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::Path;
use store::journal::{Folder, Journal};
use transfer::{Entry, Head, When};

/// Versions of a zone by one owner that are looked at, newest first, and octets in memory of the records of all zones that are.
const VERSIONS_MAX: usize = 10_000;
const OCTETS_MAX: usize = 256 << 20;

/// Says what is missing or damaged of a journal.
pub fn caution(remarks: &[String]) {
    remarks.iter().for_each(|remark| log::warn("journal", &[("what", remark)]));
}

pub const MAY_GO_BACK: &str = "serials may go back: the history cannot be read";

/// Says what comes of it that the past cannot be read.
pub fn unread(what: &'static str) -> impl FnOnce(&io::Error) {
    move |why| log::warn(what, &[("why", why)])
}

/// The changes of a zone, oldest first.
pub fn changes(data_dir: &Path, apex: &[u8]) -> Result<VecDeque<Entry>, String> {
    changes_in(data_dir, &[FOLDER, ledger::FOLDER], apex)
}

/// Those that stand in these folders.
pub fn changes_in(data_dir: &Path, folders: &[&str], apex: &[u8]) -> Result<VecDeque<Entry>, String> {
    let mut all = VecDeque::new();
    for folder in folders {
        let found = changes_of(data_dir, folder, &HashSet::from([apex]))?.remove(apex);
        all = in_turn(all, found.unwrap_or_default());
    }
    Ok(all)
}

/// What is changed from now on comes behind all that was, though the clock was put back.
pub fn know_last(data_dir: &Path) {
    let mut know = |octets: &[u8]| Head::of(octets).into_iter().for_each(|head| know_change(head.when));
    for folder in [FOLDER, ledger::FOLDER].map(|folder| data_dir.join(folder)).iter().filter(|f| may_be_there(f)) {
        let _ = Folder::open(folder)
            .and_then(|folder| Journal::end(folder, &mut know))
            .inspect_err(unread("the order of changes may be untrue: the history cannot be read"));
    }
}

/// By apex.
pub type Pasts = HashMap<Box<[u8]>, VecDeque<Entry>>;

/// Those of the changes in a folder that are wanted.
fn each_of(
    folder: &Path,
    from: u64,
    is_wanted: impl Fn(&Head<'_>) -> bool,
    mut see: impl FnMut(Entry),
) -> io::Result<()> {
    each_head(folder, from, |head, octets| {
        if is_wanted(&head) {
            Entry::decode(octets).into_iter().for_each(&mut see);
        }
    })
}

/// Goes through the changes that stand in a folder, as far as they can be read; what cannot is told of. `from`: the first position that is wanted.
/// What a later version of the program wrote is passed over.
pub fn each_head(folder: &Path, from: u64, mut see: impl FnMut(Head<'_>, &[u8])) -> io::Result<()> {
    if !may_be_there(folder) {
        return Ok(());
    }
    let mut look = |_, octets: &[u8]| Head::of(octets).into_iter().for_each(|head| see(head, octets));
    Journal::look_through(Folder::open(folder)?, from, &mut look).map(|remarks| caution(&remarks))
}

/// The changes of these zones that stand in a folder, which is read as a whole for them.
pub fn changes_of(data_dir: &Path, folder: &str, apexes: &HashSet<&[u8]>) -> Result<Pasts, String> {
    let mut kept = HashMap::<Box<[u8]>, Kept>::new();
    let see = |entry: Entry| {
        kept.entry(entry.zone.clone()).or_default().push(entry, OCTETS_MAX / apexes.len());
    };
    let is_wanted = |head: &Head<'_>| apexes.contains(head.zone);
    each_of(&data_dir.join(folder), 0, is_wanted, see).map_err(|e| format!("the history cannot be read: {e}"))?;
    Ok(kept.into_iter().map(|(apex, kept)| (apex, kept.entries)).collect())
}

/// What files have changed of these zones, and what updates have.
pub fn pasts_of(data_dir: &Path, apexes: &HashSet<&[u8]>) -> Result<[Pasts; 2], String> {
    Ok([changes_of(data_dir, FOLDER, apexes)?, changes_of(data_dir, ledger::FOLDER, apexes)?])
}

/// What files have changed of a zone, and what updates have, in the order in which it was done: it has one owner at a time, but may have had several.
///
/// A zone that comes back to its updates goes on from what they had made of it, which no journal says: that is a change, too.
pub fn in_turn(mut files: VecDeque<Entry>, mut updates: VecDeque<Entry>) -> VecDeque<Entry> {
    let (mut all, mut last) = (VecDeque::<Entry>::with_capacity(files.len() + updates.len()), None);
    while let Some(update) = updates.pop_front() {
        let before = files.iter().take_while(|file| file.when <= update.when).count();
        all.extend(files.drain(..before));
        all.extend(return_to(&all, last, &update));
        last = Some(all.len());
        all.push_back(update);
    }
    all.extend(files);
    all
}

/// What has led from what files have made of a zone to what updates had, of which `last` was the last change, and `next` is the next. If none is known
/// they had what was imported, or no more is kept. None: nothing has, or it is not known what files have done.
fn return_to(all: &VecDeque<Entry>, last: Option<usize>, next: &Entry) -> Option<Entry> {
    let begin = match last {
        Some(last) => (all[last].diff.to == next.diff.from).then_some(last + 1),
        None if all.back().is_none_or(|file| file.diff.to == next.diff.from) => None,
        None => all.iter().rposition(|file| file.diff.from == next.diff.from),
    };
    let mut since = all.range(begin?..).map(|step| Some(&step.diff).filter(|diff| !diff.is_empty()));
    let first = since.next()??.clone();
    let all_since = since.try_fold(first, |so_far, step| so_far.then(step?.clone()))?;
    let goes_on = all_since.from == next.diff.from;
    let diff = Some(all_since.inverted()).filter(|diff| goes_on && !diff.is_empty())?;
    Some(Entry { zone: next.zone.clone(), author: by_updates_again(), when: next.when, diff })
}

/// Those of these zones of files from a position on, as far as they can be read.
pub fn changes_from(data_dir: &Path, position: u64, is_wanted: impl Fn(&[u8]) -> bool, see: impl FnMut(Entry)) {
    let _ = each_of(&data_dir.join(FOLDER), position, |head| is_wanted(head.zone), see)
        .inspect_err(unread("zones may be served first as they were before: the history cannot be read"));
}

/// The serials that updates have led zones to last, by the zones' fingerprints, and when.
pub fn last_updates(data_dir: &Path) -> HashMap<u64, (u32, When)> {
    let mut last = HashMap::new();
    let see = |head: Head<'_>, _: &[u8]| _ = last.insert(fingerprint_of(head.zone), (head.to, head.when));
    let _ = each_head(&data_dir.join(ledger::FOLDER), 0, see)
        .inspect_err(unread("it is not known when zones were updated last: the journal cannot be read"));
    last
}

/// The serials that the changes of these zones of files end with, as far as they are known.
pub fn last_serials(data_dir: &Path, is_wanted: impl Fn(&[u8]) -> bool) -> HashMap<Box<[u8]>, u32> {
    let mut ends = HashMap::new();
    let see = |head: Head<'_>, _: &[u8]| ends.extend(is_wanted(head.zone).then(|| (head.zone.into(), head.to)));
    let folder = data_dir.join(FOLDER);
    let _ = each_head(&folder, 0, see).inspect_err(unread(MAY_GO_BACK));
    let older = serials::read(&folder).inspect_err(unread(MAY_GO_BACK)).unwrap_or_default();
    for (zone, serial) in older.into_iter().filter(|(zone, _)| is_wanted(zone)) {
        ends.entry(zone).or_insert(serial);
    }
    ends
}

/// Changes of one zone, within bounds: the oldest go first.
#[derive(Default)]
struct Kept {
    entries: VecDeque<Entry>,
    octets: usize,
}

impl Kept {
    fn push(&mut self, entry: Entry, octets_max: usize) {
        self.octets += entry.diff.octets();
        self.entries.push_back(entry);
        while self.entries.len() > VERSIONS_MAX || self.octets > octets_max && self.entries.len() > 1 {
            self.octets -= self.entries.pop_front().map_or(0, |entry| entry.diff.octets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::by_file;
    use transfer::{Diff, Record};
    use wire::rtype::A;

    /// Whoever has it later may come to the serials that the other one has led to.
    #[test]
    fn of_two_owners_numbers_tell_who_did_what_first_and_neither_serials_nor_the_clock() {
        let entry = |(from, to, number): (u32, u32, u64)| {
            let record = Record::new(b"\x01z\0", A, 60, &(number as u32).to_be_bytes()).unwrap();
            let when = When { number, wall_s: 100 - number % 3 };
            Entry {
                zone: b"\x01z\0"[..].into(),
                author: by_file(),
                when,
                diff: Diff::new(from, to, vec![], vec![record]),
            }
        };
        let numbers = |files: &[(u32, u32, u64)], updates: &[(u32, u32, u64)]| -> Vec<u64> {
            let [files, updates] = [files, updates].map(|all| all.iter().copied().map(entry).collect());
            let all = in_turn(files, updates);
            all.iter().filter(|e| e.author != by_updates_again()).map(|e| e.when.number).collect()
        };
        assert_eq!(numbers(&[], &[(1, 2, 1), (2, 3, 2)]), [1, 2]);
        let (files, updates) = ([(101, 110, 2), (110, 111, 6)], [(100, 101, 1), (110, 111, 3), (111, 112, 4)]);
        assert_eq!(numbers(&files, &updates), [1, 2, 3, 4, 6], "it was the file's again, under 110");
        let (files, updates) = ([(100, 100, 8), (101, 103, 13)], [(100, 101, 5), (101, 104, 16), (104, 105, 17)]);
        assert_eq!(numbers(&files, &updates), [5, 8, 13, 16, 17]);
        let (files, updates) = ([(5, 5, 3), (5, 6, 4), (6, 5, 7)], [(5, 6, 1), (6, 7, 2), (7, 6, 5), (6, 5, 6)]);
        assert_eq!(numbers(&files, &updates), [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_zone_goes_on_from_what_updates_had_made_whatever_its_file_was_meanwhile() {
        let record = |n: u8| Record::new(&[1, n, 1, b'z', 0], A, 60, &[192, 0, 2, n]).unwrap();
        let step = |from, to, removed: &[u8], added: &[u8]| {
            let [removed, added] = [removed, added].map(|side| side.iter().copied().map(record).collect());
            let diff = Diff::new(from, to, removed, added);
            Entry { zone: b"\x01z\0"[..].into(), author: by_file(), when: When::at(0), diff }
        };
        let timed = |steps: &[(u64, Entry)]| -> VecDeque<Entry> {
            steps.iter().map(|(wall_s, step)| Entry { when: When::at(*wall_s), ..step.clone() }).collect()
        };
        let updates = timed(&[(1, step(1, 2, &[], b"a")), (5, step(2, 4, b"a", b"b"))]);
        let told = |files: &[(u64, Entry)]| {
            let all = in_turn(timed(files), updates.clone());
            all.iter().map(|step| (step.diff.clone(), step.author == by_updates_again())).collect::<Vec<_>>()
        };
        let is_bridge = |steps: &[(Diff, bool)]| steps.iter().map(|(_, is)| *is).collect::<Vec<_>>();
        let files = [(2, step(2, 2, b"a", b"")), (3, step(2, 3, b"", b"c"))];
        let all = told(&files);
        assert_eq!(is_bridge(&all), [false, false, false, true, false]);
        assert_eq!(all[3].0, step(3, 2, b"c", b"a").diff);
        assert_eq!(is_bridge(&told(&files[1..])), [false, false, true, false], "what is known of it");
        assert_eq!(is_bridge(&told(&[])), [false, false]);
        let apart = [(2, step(7, 8, b"", b"c"))];
        assert_eq!(is_bridge(&told(&apart)), [false; 3], "it is not known how it came to 7");
        let anew = [(2, step(2, 2, b"", b"")), (3, step(2, 3, b"", b"c"))];
        assert_eq!(is_bridge(&told(&anew)), [false; 4], "another zone of this name");
        // Updates had changed nothing before: what they go on from was imported.
        for (files, bridge) in [
            (vec![(2, step(1, 2, b"a", b"")), (3, step(2, 3, b"", b"c"))], Some(step(3, 1, b"c", b"a").diff)),
            (vec![(2, step(0, 1, b"", b"a"))], None),
            (vec![(2, step(0, 1, b"", b"a")), (3, step(1, 3, b"", b"c"))], Some(step(3, 1, b"c", b"").diff)),
            (vec![(2, step(7, 8, b"", b"c"))], None),
            (vec![], None),
        ] {
            let all = in_turn(timed(&files), timed(&[(5, step(1, 4, b"", b"b"))]));
            let found = all.iter().find(|step| step.author == by_updates_again());
            assert_eq!(found.map(|step| &step.diff), bridge.as_ref(), "{files:?}");
            assert_eq!(all.len(), files.len() + 1 + usize::from(bridge.is_some()));
        }
    }
}
