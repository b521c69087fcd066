//! What is kept of what zones were: written when a change is served, as long and as much as is wanted.

use super::entries::{MAY_GO_BACK, Pasts, changes_of, each_head, last_updates, unread};
use super::keeping::Keeping;
use super::serials::{self, Serials};
use super::{FOLDER, caution, way};
use crate::clock::change_now;
use crate::config::{self, Numbering, Written};
use crate::images::{fingerprint_of, name};
use crate::log::{self, Seldom};
use crate::stamp::may_be_there;
use crate::update::ledger;
use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use store::journal::{Folder, Journal};
use transfer::{Author, Diff, Entry, Head, When};
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
    /// What is configured of zones: some are given serials.
    written: Written,
    keeping: Keeping,
    /// Read when somebody asks first.
    open: Option<Open>,
    /// Where it ended when it was looked at last; None: nobody has looked.
    end: Option<u64>,
    /// Images say that so much was there: what comes stands behind that, though somebody has removed what was.
    least: u64,
    /// A start needs what stands from here on, for the image that it finds has it not.
    needed: u64,
    /// For that more is kept than is wanted.
    is_over: bool,
    unkept: Seldom,
    uncut: Seldom,
}

struct Open {
    /// Opened with the first change.
    journal: Option<Journal<Folder>>,
    /// Of the zones that have changed in the time that is kept, by their names' fingerprints. (Names would stay as long as the server, each made in
    /// the midst of what is not kept; and where two have one fingerprint, the history is looked through in vain.)
    ends: HashMap<u64, End>,
    /// Serials of zones of which nothing is kept; None: they could not be read.
    older: Option<Serials>,
    /// How many there were when it was read. Zones that come and go under ever new names would make them ever more.
    zones: usize,
}

/// Where the history of a zone ends: its last change.
#[derive(Clone, Copy)]
struct End {
    serial: u32,
    /// Fingerprint of what it changed.
    change: u64,
    when: When,
}

impl Recorder {
    pub fn new(data_dir: &Path, keep: config::History) -> Recorder {
        Recorder {
            data_dir: data_dir.to_path_buf(),
            keep,
            written: Written::default(),
            keeping: Keeping::default(),
            open: None,
            end: None,
            least: 0,
            needed: 0,
            is_over: false,
            unkept: Seldom::default(),
            uncut: Seldom::default(),
        }
    }

    /// Of a history that is to keep nothing nothing stays, once there is an image of all that is served: until then a start finds here what may be
    /// served without being judged.
    pub fn forget(&self) {
        let files =
            std::fs::read_dir(self.data_dir.join(FOLDER)).into_iter().flatten().filter(|_| self.keep.octets == 0);
        for file in files.flatten().map(|file| file.path()) {
            if let Err(e) = store::removal::remove(&file) {
                log::warn("a history that is to keep nothing stays", &[("file", &file.display()), ("why", &e)]);
            }
        }
    }

    /// How long, and how much, from now on, and of which zones.
    pub fn keep(&mut self, keep: config::History, written: &Written) {
        if keep.octets != self.keep.octets {
            // Its segments are of another size.
            self.open = None;
        }
        self.keep = keep;
        self.written = written.clone();
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
            let known = Known::of(&self.data_dir, &open, &some);
            for (zone, diff) in some {
                let Some(Step { diff, another }) = known.step(&zone, diff, open.end(&zone), open.serial(&zone)) else {
                    continue;
                };
                let mut author = author(&zone);
                if let Some(before) = another {
                    author.who = "made anew".to_string();
                    let facts: [(&str, &dyn std::fmt::Display); 3] =
                        [("zone", &name(&zone)), ("serial", &diff.to), ("before", &before)];
                    log::info("a zone has come under the name of one that is gone: its history begins anew", &facts);
                }
                let octets = Entry { zone, author, when: change_now(), diff }.encode();
                ends.extend(Head::of(&octets).map(|head| (fingerprint_of(head.zone), End::of(&head))));
                entries.push(octets);
            }
        }
        if let Err(e) = self.write(&mut open, &entries, ends) {
            // To read it all again for each change would keep whoever waits for that.
            self.open = Some(open);
            return Err(e);
        }
        // From time to time those are to go of which nothing is kept any more.
        let is_due = open.ends.len() > 2 * open.zones.max(AT_ONCE);
        self.open = Some(open).filter(|_| !is_due);
        Ok(())
    }

    /// `ends`: of these.
    fn write(&mut self, open: &mut Open, entries: &[Vec<u8>], ends: Vec<(u64, End)>) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        // One that could not be written to is opened anew.
        let mut journal = open.journal.take().map_or_else(|| self.opened(), Ok)?;
        journal.append(entries)?;
        open.ends.extend(ends);
        let segments: Vec<PathBuf> = journal.places().collect();
        let (end, kept) = (journal.next_position(), self.keeping.kept(&segments, &self.keep));
        let needed = self.needed.min(end);
        let are_kept = if journal.may_release(needed, kept) { self.keep_serials(open) } else { Ok(()) };
        match &are_kept {
            Ok(()) => journal.release(needed, kept),
            Err(e) => self.tell_uncut(e),
        }
        self.is_over = are_kept.is_ok() && journal.places().count() > kept.max(1);
        self.end = Some(end);
        open.journal = Some(journal);
        Ok(())
    }

    fn tell_uncut(&mut self, why: &io::Error) {
        if let Some(unsaid) = self.uncut.untold() {
            log::warn("the history grows: serials cannot be kept beside it", &[("why", why), ("unsaid", &unsaid)]);
        }
    }

    /// Of what goes the serials of zones stay that are given them.
    fn keep_serials(&self, open: &mut Open) -> io::Result<()> {
        let numbered = self.written.iter().filter(|zone| zone.numbering != Numbering::Keep).map(|zone| &*zone.apex);
        let mut numbered = numbered.peekable();
        if numbered.peek().is_some() && open.older.is_none() {
            // Those that are there are not written over by fewer.
            open.older = Some(older(&self.data_dir)?);
        }
        let mut serials = numbered.filter_map(|zone| Some((zone, open.serial(zone)?))).peekable();
        if serials.peek().is_none() {
            return Ok(());
        }
        serials::write(&self.data_dir.join(FOLDER), serials)
    }

    /// Where the next change will stand, or one before it: whoever has made an image of all that stands before needs only what stands from there on.
    pub fn position(&mut self) -> u64 {
        if let Some(journal) = self.open.as_ref().and_then(|open| open.journal.as_ref()) {
            return journal.next_position();
        }
        let folder = self.data_dir.join(FOLDER);
        let read = || if may_be_there(&folder) { Journal::end(Folder::open(&folder)?, &mut |_| {}) } else { Ok(0) };
        let end = *self.end.get_or_insert_with(|| read().inspect_err(unread(MAY_GO_BACK)).unwrap_or(0));
        self.least = self.least.max(end);
        self.least
    }

    /// The image that a start finds has what stands before this position.
    pub fn follow(&mut self, position: u64) {
        (self.needed, self.is_over) = (position, false);
        self.least = self.least.max(position);
    }

    /// True if more is kept than is wanted, until there is an image that has it.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The serial that the history of a zone ends with. All of it is read for the first who asks.
    pub fn last_serial(&mut self, zone: &[u8]) -> Option<u32> {
        if self.open.is_none() {
            self.open = self.read().inspect_err(unread(MAY_GO_BACK)).ok();
        }
        self.open.as_ref()?.serial(zone)
    }

    fn segment(&self) -> u64 {
        (self.keep.octets / SEGMENTS).max(SEGMENT_MIN)
    }

    /// What can be read of it; what cannot is told of.
    fn read(&self) -> io::Result<Open> {
        let mut ends = HashMap::new();
        each_head(&self.data_dir.join(FOLDER), 0, |head, _| {
            ends.insert(fingerprint_of(head.zone), End::of(&head));
        })?;
        let older = older(&self.data_dir).inspect_err(unread(MAY_GO_BACK)).ok();
        Ok(Open { journal: None, zones: ends.len(), ends, older })
    }

    fn opened(&self) -> io::Result<Journal<Folder>> {
        let folder = Folder::open(&self.data_dir.join(FOLDER))?;
        let (mut journal, remarks) = Journal::open_history(folder, self.segment())?;
        caution(&remarks);
        journal.skip_to(self.least.max(self.end.unwrap_or(0)));
        Ok(journal)
    }
}

/// The serials that are kept of what has gone; damaged ones are of no use to anybody.
fn older(data_dir: &Path) -> io::Result<Serials> {
    match serials::read(&data_dir.join(FOLDER)) {
        Err(e) if e.kind() == ErrorKind::InvalidData => {
            unread(MAY_GO_BACK)(&e);
            Ok(Serials::new())
        }
        read => read,
    }
}

impl Open {
    fn end(&self, zone: &[u8]) -> Option<End> {
        self.ends.get(&fingerprint_of(zone)).copied()
    }

    /// That which it had last, as far as that is known.
    fn serial(&self, zone: &[u8]) -> Option<u32> {
        self.end(zone).map(|end| end.serial).or_else(|| self.older.as_ref()?.get(zone).copied())
    }
}

impl End {
    fn of(head: &Head<'_>) -> End {
        End { serial: head.to, change: hash(head.diff), when: head.when }
    }

    fn is_of(&self, diff: &Diff) -> bool {
        // Mostly the serial tells, and a change may be as large as its zone.
        self.serial == diff.to && {
            let mut octets = Vec::new();
            transfer::encode(diff, &mut octets);
            self.change == hash(&octets)
        }
    }
}

/// What is known of the past of some zones that change.
#[derive(Default)]
struct Known {
    /// The changes of those that do not go on from where their history ends.
    pasts: Pasts,
    /// Of those that come, or do not go on from there, and that updates have left: where these had led them, and when. By their names' fingerprints.
    updates: HashMap<u64, (u32, When)>,
}

/// What comes into the history.
struct Step {
    diff: Diff,
    /// What it says so far is of another zone of this name, which had this serial last: there is no way back to that.
    another: Option<u32>,
}

impl Known {
    fn of(data_dir: &Path, open: &Open, changes: &[(Box<[u8]>, Diff)]) -> Known {
        let is_apart = |(zone, diff): &&(Box<[u8]>, Diff)| {
            !diff.is_empty() && open.end(zone).is_some_and(|end| end.serial != diff.from)
        };
        let apart: HashSet<&[u8]> = changes.iter().filter(is_apart).map(|(zone, _)| &**zone).collect();
        let pasts = if apart.is_empty() { Ok(Pasts::new()) } else { changes_of(data_dir, FOLDER, &apart) };
        let were_theirs = |(zone, diff): &&(Box<[u8]>, Diff)| {
            (diff.is_empty() || apart.contains(&**zone)) && ledger::has_left(data_dir, zone)
        };
        let theirs: HashSet<u64> = changes.iter().filter(were_theirs).map(|(zone, _)| fingerprint_of(zone)).collect();
        let mut updates = if theirs.is_empty() { HashMap::new() } else { last_updates(data_dir) };
        updates.retain(|zone, _| theirs.contains(zone));
        Known { pasts: pasts.unwrap_or_default(), updates }
    }

    /// The change from where the history ends. What was compared may have been older: a zone of which a start could not lay the last changes, or whose
    /// image came from elsewhere. None: the history ends there already.
    ///
    /// Of a zone that has come, and was not served before, there is no difference, but a serial: with that which one of this name had last, by its file
    /// or by updates, it is taken for that one.
    /// `last`: the serial that it had last, also where nothing else is kept of it.
    fn step(&self, zone: &[u8], diff: Diff, end: Option<End>, last: Option<u32>) -> Option<Step> {
        let update = self.updates.get(&fingerprint_of(zone)).copied();
        if diff.is_empty() {
            let later = update.filter(|(_, when)| end.is_none_or(|end| *when > end.when));
            let before = later.map(|(serial, _)| serial).or(last);
            return before.filter(|before| *before != diff.to).map(|before| Step { diff, another: Some(before) });
        }
        let goes_on = |diff| Step { diff, another: None };
        let Some(end) = end else { return Some(goes_on(diff)) };
        if end.serial == diff.from {
            // The same once more, of a file that was edited without a new serial.
            return Some(diff).filter(|diff| !end.is_of(diff)).map(goes_on);
        }
        let back = self.pasts.get(zone).and_then(|changes| way(changes, end.serial, (diff.from, None)).ok());
        let diff = match back {
            Some(back) => back.then(diff).filter(|diff| !diff.is_empty()),
            // The way to where it leads from is in the journal of updates.
            None if update.is_some_and(|(serial, _)| serial == diff.from) => Some(diff).filter(|diff| !end.is_of(diff)),
            // Where there is no way any more from what the image has, what ends there already need not begin anew.
            None => Some(diff).filter(|diff| diff.to != end.serial),
        };
        diff.map(goes_on)
    }
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

    /// It may have been its file's, its updates', or both in turn.
    #[test]
    fn a_zone_that_comes_is_the_last_of_its_name_if_it_has_its_serial() {
        let z = &b"\x01z\0"[..];
        let end = |(serial, wall_s)| End { serial, change: 0, when: When::at(wall_s) };
        for (file, update, comes_under, another) in [
            (None, None, 7, None),
            (Some((7, 1)), None, 7, None),
            (Some((6, 1)), None, 7, Some(6)),
            (None, Some((9, 1)), 7, Some(9)),
            (None, Some((9, 1)), 9, None),
            (Some((7, 1)), Some((9, 2)), 7, Some(9)),
            (Some((7, 1)), Some((9, 2)), 9, None),
            (Some((7, 2)), Some((9, 1)), 7, None),
            (Some((7, 2)), Some((9, 1)), 9, Some(7)),
        ] {
            let update = update.map(|(serial, wall_s)| (serial, When::at(wall_s)));
            let updates = update.map(|update| (fingerprint_of(z), update)).into_iter().collect();
            let known = Known { updates, ..Known::default() };
            let step = known.step(
                z,
                Diff::new(comes_under, comes_under, vec![], vec![]),
                file.map(end),
                file.map(|(serial, _)| serial),
            );
            let told = (step.as_ref().map(|step| step.diff.to), step.and_then(|step| step.another));
            assert_eq!(told, (another.map(|_| comes_under), another), "{file:?} {update:?} {comes_under}");
        }
    }

    #[test]
    fn what_a_start_needs_is_kept_until_an_image_has_it() {
        let data = std::env::temp_dir().join(format!("dunlin-history-needed-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&data);
        std::fs::create_dir_all(&data).unwrap();
        let record = |n: u8| Record::new(&[1, n, 1, b'z', 0], 16, 60, &[&[255][..], &[n; 255]].concat()).unwrap();
        let mut recorder = Recorder::new(&data, config::History { age: Duration::from_secs(60), octets: SEGMENT_MIN });
        let note = |recorder: &mut Recorder, serials: std::ops::Range<u32>| {
            for serial in serials {
                let diff = Diff::new(serial, serial + 1, vec![], (0..100).map(record).collect());
                assert!(recorder.note([(b"\x01z\0"[..].into(), diff)], &|_| by_file()));
            }
        };
        let first = || changes(&data, b"\x01z\0").unwrap()[0].diff.from;
        note(&mut recorder, 1..30);
        assert!(recorder.is_over() && first() == 1, "there is no image");
        let position = recorder.position();
        note(&mut recorder, 30..60);
        recorder.follow(position);
        assert!(!recorder.is_over());
        note(&mut recorder, 60..90);
        assert!(recorder.is_over() && (20..=30).contains(&first()), "{}", first());
        let end = recorder.position();
        recorder.follow(end);
        note(&mut recorder, 90..91);
        assert!(!recorder.is_over() && first() > 80, "{}", first());
        std::fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn zones_that_are_given_serials_have_theirs_though_nothing_else_is_kept_of_them() {
        let data = std::env::temp_dir().join(format!("dunlin-history-serials-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&data);
        std::fs::create_dir_all(&data).unwrap();
        let keep = config::History { age: Duration::from_secs(60), octets: SEGMENT_MIN };
        let zone = |label: u8| Box::<[u8]>::from([1, label, 0]);
        let numbered =
            |label| config::Zone { numbering: Numbering::Increment, ..config::Zone::new(zone(label), "f".into()) };
        let written = Written::new(vec![numbered(b'q'), numbered(b'r'), config::Zone::new(zone(b'k'), "f".into())]);
        let opened = || {
            let mut recorder = Recorder::new(&data, keep);
            recorder.keep(keep, &written);
            recorder
        };
        let note = |recorder: &mut Recorder, label: u8, from: u32| {
            let records =
                (0..100).map(|n| Record::new(&[1, n, 1, label, 0], 16, 60, &[&[255][..], &[n; 255]].concat()).unwrap());
            let diff = Diff::new(from, from + 1, vec![], records.collect());
            assert!(recorder.note([(zone(label), diff)], &|_| by_file()));
            let end = recorder.position();
            recorder.follow(end);
        };
        let mut recorder = opened();
        [b'q', b'r', b'k'].into_iter().for_each(|label| note(&mut recorder, label, 6));
        (1..60).for_each(|serial| note(&mut recorder, b'o', serial));
        let serials =
            |recorder: &mut Recorder| [b'q', b'r', b'k', b'o'].map(|label| recorder.last_serial(&zone(label)));
        assert!(changes(&data, &zone(b'q')).unwrap().is_empty());
        assert_eq!(serials(&mut opened()), [Some(7), Some(7), None, Some(60)]);
        // Under what a start without an image gives one it begins anew.
        let mut again = opened();
        assert!(again.note([(zone(b'q'), Diff::default().at(9))], &|_| by_file()));
        assert_eq!(again.last_serial(&zone(b'q')), Some(9));
        // What comes since is the last; and it goes again.
        note(&mut recorder, b'r', 7);
        assert_eq!(serials(&mut opened())[..2], [Some(9), Some(8)]);
        let mut recorder = opened();
        (60..120).for_each(|serial| note(&mut recorder, b'o', serial));
        assert_eq!(serials(&mut opened()), [Some(9), Some(8), None, Some(120)]);
        // Where they cannot be kept, or read, nothing goes; until they can.
        let (file, aside) = (data.join(FOLDER).join("serials"), data.join("serials"));
        for (mut recorder, from, last) in [(recorder, 120, 8), (opened(), 240, 9)] {
            std::fs::rename(&file, &aside).unwrap();
            std::fs::create_dir(&file).unwrap();
            note(&mut recorder, b'r', last);
            (from..from + 60).for_each(|serial| note(&mut recorder, b'o', serial));
            assert_eq!(changes(&data, &zone(b'r')).unwrap().len(), 1);
            std::fs::remove_dir(&file).unwrap();
            std::fs::rename(&aside, &file).unwrap();
            (from + 60..from + 120).for_each(|serial| note(&mut recorder, b'o', serial));
            assert!(changes(&data, &zone(b'r')).unwrap().is_empty());
            assert_eq!(serials(&mut opened())[0], Some(9));
        }
        std::fs::remove_dir_all(&data).unwrap();
    }

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
        recorder.keep(config::History { octets: 2 << 20, ..keep }, &Written::default());
        note(&mut recorder, diff(7, 7, b'c'));
        note(&mut recorder, diff(7, 8, b'd'));
        let added: Vec<_> = changes(&data, b"\x01z\0").unwrap().iter().map(|e| e.diff.added()[0].owner()[1]).collect();
        assert_eq!(added, *b"abcd");
        std::fs::remove_dir_all(&data).unwrap();
    }
}
