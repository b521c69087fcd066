//! What is kept of what zones were: written when a change is served, as long and as much as is wanted.

use super::entries::{MAY_GO_BACK, Pasts, changes_of, each_head, last_updates, unread};
use super::keeping::Keeping;
use super::{FOLDER, caution, way};
use crate::clock::wall_s;
use crate::config;
use crate::images::{fingerprint_of, name};
use crate::log::{self, Seldom};
use crate::stamp::may_be_there;
use crate::update::ledger;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use store::journal::{Folder, Journal};
use transfer::{Author, Diff, Entry, Head};
use wire::hash::siphash;

/// Segments that the size is divided into: so much of it goes at a time.
const SEGMENTS: u64 = 16;
const SEGMENT_MIN: u64 = 64 << 10;
/// Zones whose changes are looked for together: each time all that is kept is read.
const AT_ONCE: usize = 128;

/// Writes what has changed.
pub struct Recorder {
    data_dir: PathBuf,
    keep: config::History,
    keeping: Keeping,
    /// Read when somebody asks first.
    open: Option<Open>,
    /// Where it ended when it was looked at last; None: nobody has looked.
    end: Option<u64>,
    /// Images say that so much was there: what comes stands behind that, though somebody has removed what was.
    least: u64,
    unkept: Seldom,
}

struct Open {
    /// Opened with the first change.
    journal: Option<Journal<Folder>>,
    /// The serials to which the last changes led, and fingerprints of these: of the zones that have changed in the time that is kept, by their names'
    /// fingerprints. (Names would stay as long as the server, each made in the midst of what is not kept; and where two have one
    /// fingerprint, the history is looked through in vain.)
    ends: HashMap<u64, (u32, u64)>,
    /// How many there were when it was read. Zones that come and go under ever new names would make them ever more.
    zones: usize,
}

impl Recorder {
    pub fn new(data_dir: &Path, keep: config::History) -> Recorder {
        Recorder {
            data_dir: data_dir.to_path_buf(),
            keep,
            keeping: Keeping::default(),
            open: None,
            end: None,
            least: 0,
            unkept: Seldom::default(),
        }
    }

    /// Of a history that is to keep nothing nothing stays, once there is an image of all that is served: until then a start finds here what may be
    /// served without being judged.
    pub fn forget(&self) {
        let files =
            std::fs::read_dir(self.data_dir.join(FOLDER)).into_iter().flatten().filter(|_| self.keep.octets == 0);
        for file in files.flatten().map(|file| file.path()) {
            if let Err(e) = std::fs::remove_file(&file) {
                log::warn("a history that is to keep nothing stays", &[("file", &file.display()), ("why", &e)]);
            }
        }
    }

    /// How long, and how much, from now on.
    pub fn keep(&mut self, keep: config::History) {
        if keep.octets != self.keep.octets {
            // Its segments are of another size.
            self.open = None;
        }
        self.keep = keep;
    }

    /// Keeps these changes, which are served already, or will be at once. False: they could not be written.
    pub fn note(
        &mut self,
        changes: impl IntoIterator<Item = (Box<[u8]>, Diff)>,
        author: &dyn Fn(&[u8]) -> Author,
    ) -> bool {
        let mut changes = changes.into_iter().peekable();
        if changes.peek().is_none() || self.keep.octets == 0 {
            return true;
        }
        let Err(e) = self.append(changes, author) else { return true };
        if let Some(unsaid) = self.unkept.untold() {
            log::warn("a change is served and not kept in the history", &[("why", &e), ("unsaid", &unsaid)]);
        }
        false
    }

    fn append(
        &mut self,
        changes: impl Iterator<Item = (Box<[u8]>, Diff)>,
        author: &dyn Fn(&[u8]) -> Author,
    ) -> io::Result<()> {
        let mut open = self.open.take().map_or_else(|| self.read(), Ok)?;
        let (mut changes, mut entries, mut ends) = (Vec::from_iter(changes), Vec::new(), Vec::new());
        while !changes.is_empty() {
            let some: Vec<_> = changes.drain(..changes.len().min(AT_ONCE)).collect();
            let is_apart = |diff: &Diff, end: u32| !diff.is_empty() && end != diff.from;
            let apart = some.iter().filter(|(zone, diff)| open.end(zone).is_some_and(|(end, _)| is_apart(diff, end)));
            let apart: HashSet<&[u8]> = apart.map(|(zone, _)| &**zone).collect();
            let past = if apart.is_empty() { Ok(Pasts::new()) } else { changes_of(&self.data_dir, FOLDER, &apart) };
            let past = past.unwrap_or_default();
            // Where updates have left a zone of this name: with the serial that they have led it to it is taken for that.
            let is_come = |zone: &[u8], diff: &Diff, end: Option<(u32, u64)>| {
                diff.is_empty() && end.is_none() && ledger::has_left(&self.data_dir, zone)
            };
            // Or where it was theirs until now.
            let is_theirs = |zone: &[u8]| apart.contains(zone) && ledger::has_left(&self.data_dir, zone);
            let are_some = some.iter().any(|(zone, diff)| is_come(zone, diff, open.end(zone)) || is_theirs(zone));
            let lasts = if are_some { last_updates(&self.data_dir) } else { HashMap::new() };
            for (zone, diff) in some {
                let end = open.end(&zone);
                let last = lasts.get(&fingerprint_of(&zone)).map(|(last, _)| *last);
                let left = last.filter(|last| is_come(&zone, &diff, end) && *last != diff.to);
                let is_apart = end.is_some_and(|(end, _)| is_apart(&diff, end));
                // The way to where it leads from is in the journal of updates.
                let is_theirs = is_apart && last == Some(diff.from);
                let joined = if left.is_some() { Some(diff) } else { joined(diff, end, past.get(&zone), is_theirs) };
                let Some(diff) = joined else { continue };
                let mut author = author(&zone);
                let of_file = end.map(|(end, _)| end).filter(|_| diff.is_empty());
                if let Some(end) = of_file.or(left) {
                    author.who = "made anew".to_string();
                    let facts: [(&str, &dyn std::fmt::Display); 3] =
                        [("zone", &name(&zone)), ("serial", &diff.to), ("before", &end)];
                    log::info("a zone has come under the name of one that is gone: its history begins anew", &facts);
                }
                let octets = Entry { zone, author, wall_s: wall_s(), diff }.encode();
                ends.extend(Head::of(&octets).map(|head| (fingerprint_of(head.zone), (head.to, hash(head.diff)))));
                entries.push(octets);
            }
        }
        if !entries.is_empty() {
            let journal = open.journal.take().map_or_else(|| self.opened(), Ok);
            let written = journal.and_then(|mut journal| journal.append(&entries).map(|_| journal));
            let mut journal = match written {
                Ok(journal) => journal,
                Err(e) => {
                    // To read it all again for each change would keep whoever waits for that.
                    self.open = Some(open);
                    return Err(e);
                }
            };
            let (end, kept) = (journal.next_position(), self.keeping.kept(&journal, &self.keep));
            journal.release(end, kept);
            self.end = Some(end);
            open.journal = Some(journal);
        }
        open.ends.extend(ends);
        // From time to time those are to go of which nothing is kept any more.
        let is_due = open.ends.len() > 2 * open.zones.max(AT_ONCE);
        self.open = Some(open).filter(|_| !is_due);
        Ok(())
    }

    /// Where the next change will stand, or one before it: whoever has made an image of all that stands before needs only what stands from there on.
    pub fn position(&mut self) -> u64 {
        if let Some(journal) = self.open.as_ref().and_then(|open| open.journal.as_ref()) {
            return journal.next_position();
        }
        let folder = self.data_dir.join(FOLDER);
        let read = || if may_be_there(&folder) { Journal::end(Folder::open(&folder)?) } else { Ok(0) };
        let end = *self.end.get_or_insert_with(|| read().inspect_err(unread(MAY_GO_BACK)).unwrap_or(0));
        self.least = self.least.max(end);
        self.least
    }

    /// An image has what stands before this position.
    pub fn follow(&mut self, position: u64) {
        self.least = self.least.max(position);
    }

    /// The serial that the history of a zone ends with. All of it is read for the first who asks.
    pub fn last_serial(&mut self, zone: &[u8]) -> Option<u32> {
        if self.open.is_none() {
            self.open = self.read().inspect_err(unread(MAY_GO_BACK)).ok();
        }
        self.open.as_ref()?.end(zone).map(|(serial, _)| serial)
    }

    fn segment(&self) -> u64 {
        (self.keep.octets / SEGMENTS).max(SEGMENT_MIN)
    }

    /// What can be read of it; what cannot is told of.
    fn read(&self) -> io::Result<Open> {
        let mut ends = HashMap::new();
        each_head(&self.data_dir.join(FOLDER), 0, |head, _| {
            ends.insert(fingerprint_of(head.zone), (head.to, hash(head.diff)));
        })?;
        Ok(Open { journal: None, zones: ends.len(), ends })
    }

    fn opened(&self) -> io::Result<Journal<Folder>> {
        let folder = Folder::open(&self.data_dir.join(FOLDER))?;
        let (mut journal, remarks) = Journal::open_history(folder, self.segment())?;
        caution(&remarks);
        journal.skip_to(self.least.max(self.end.unwrap_or(0)));
        Ok(journal)
    }
}

impl Open {
    /// Where the history of a zone ends.
    fn end(&self, zone: &[u8]) -> Option<(u32, u64)> {
        self.ends.get(&fingerprint_of(zone)).copied()
    }
}

/// The change from where the history ends. What was compared may have been older: a zone of which a start could not lay the last changes, or whose
/// image came from elsewhere. None: the history ends there already.
///
/// Of a zone that has come, and was not served before, there is no difference, but a serial: where the history ends with another one, what it
/// says is of another zone of this name, and there is no way back to that. `is_theirs`: it leads from what updates have made of the zone.
fn joined(diff: Diff, end: Option<(u32, u64)>, past: Option<&VecDeque<Entry>>, is_theirs: bool) -> Option<Diff> {
    if diff.is_empty() {
        return end.filter(|(end, _)| *end != diff.to).map(|_| diff);
    }
    let Some((end, last)) = end else { return Some(diff) };
    if end == diff.from {
        // The same once more, of a file that was edited without a new serial.
        return Some(diff).filter(|diff| diff.to != end || end_of(diff).1 != last);
    }
    match past.and_then(|changes| way(changes, end, (diff.from, None)).ok()) {
        Some(back) => back.then(diff).filter(|diff| !diff.is_empty()),
        // Where there is no way any more from what the image has, what ends there already need not begin anew.
        None if !is_theirs => Some(diff).filter(|diff| diff.to != end),
        None => Some(diff).filter(|diff| end_of(diff) != (end, last)),
    }
}

/// The serial to which a change leads, and what tells it from others that lead there.
fn end_of(diff: &Diff) -> (u32, u64) {
    let mut octets = Vec::new();
    transfer::encode(diff, &mut octets);
    (diff.to, hash(&octets))
}

/// Of an encoded difference, wherever it leads from.
fn hash(diff: &[u8]) -> u64 {
    siphash::<1, 3>(b"ends of history ", diff.get(size_of::<u32>()..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::by_file;
    use crate::history::entries::changes;
    use std::time::Duration;
    use transfer::Record;

    /// What was compared is older than the history.
    #[test]
    fn what_comes_again_stands_there_once() {
        let data = std::env::temp_dir().join(format!("dunlin-history-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&data);
        std::fs::create_dir_all(&data).unwrap();
        let record = |n: u8| Record::new(&[1, n, 1, b'z', 0], 1, 60, &[192, 0, 2, n]).unwrap();
        let diff = |from, to, n| Diff::new(from, to, vec![], vec![record(n)]);
        let keep = config::History { age: Duration::from_secs(60), octets: 1 << 20 };
        let note =
            |recorder: &mut Recorder, diff| assert!(recorder.note([(b"\x01z\0"[..].into(), diff)], &|_| by_file()));
        let mut recorder = Recorder::new(&data, keep);
        [diff(6, 7, b'a'), diff(7, 7, b'b'), diff(7, 7, b'b')].into_iter().for_each(|diff| note(&mut recorder, diff));
        note(&mut Recorder::new(&data, keep), diff(7, 7, b'b'));
        let mut recorder = Recorder::new(&data, keep);
        note(&mut recorder, diff(7, 7, b'c'));
        recorder.keep(config::History { octets: 2 << 20, ..keep });
        note(&mut recorder, diff(7, 7, b'c'));
        note(&mut recorder, diff(7, 8, b'd'));
        let added: Vec<_> = changes(&data, b"\x01z\0").unwrap().iter().map(|e| e.diff.added()[0].owner()[1]).collect();
        assert_eq!(added, *b"abcd");
        std::fs::remove_dir_all(&data).unwrap();
    }
}
