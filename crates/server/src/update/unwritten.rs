//! Changes of zones that their files do not hold yet: each changed name with all the records that it has now.
//!
//! They are durable in the journal, and served from what lies over the image. Whoever puts another image in its place,
//! which was built from the files, lays them over that one first. Writing a zone's file settles what was changed before.
//!
//! Bound: so many names as the updates thread lets there be before it asks for the files to be written, and what one
//! group changes beyond that.

pub use image::edit::Names;
use image::edit::Record;
use std::collections::{BTreeMap, HashMap};
use std::mem::swap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Names of a zone to be laid over an image.
#[derive(Clone)]
pub struct Wish {
    pub apex: Box<[u8]>,
    pub names: Names,
}

/// What changes leave of zones.
pub enum After {
    /// To be laid.
    Wishes(Vec<Wish>),
    /// Of one zone more than are laid while updates wait.
    Sheet(Box<[u8]>, Sheet),
}

impl After {
    /// What is to be laid.
    pub fn wishes(&self) -> &[Wish] {
        if let After::Wishes(wishes) = self { wishes } else { &[] }
    }

    /// What this name of its one zone is then; None: it is as it was.
    pub fn at(&self, name: &[u8]) -> Option<&[Record]> {
        match self {
            After::Wishes(wishes) => wishes.iter().find_map(|wish| wish.names.get(name)).map(|records| &**records),
            After::Sheet(_, sheet) => sheet.names.get(name).map(|changed| &*changed.records),
        }
    }

    /// It is this.
    pub fn put(&mut self, name: Box<[u8]>, records: Vec<Record>) {
        match self {
            After::Wishes(wishes) => {
                wishes.iter_mut().for_each(|wish| _ = wish.names.insert(name.clone(), records.clone()))
            }
            After::Sheet(_, sheet) => sheet.put(name, records),
        }
    }

    pub fn zones(&self) -> impl Iterator<Item = &[u8]> {
        let sheet = if let After::Sheet(apex, _) = self { Some(&**apex) } else { None };
        self.wishes().iter().map(|wish| &*wish.apex).chain(sheet)
    }
}

#[derive(Default)]
pub struct Unwritten {
    zones: HashMap<Box<[u8]>, Book>,
    /// Of those whose files do not hold all that was changed: what they do not hold. Whoever asks for that need not go through all zones.
    behind: HashMap<Box<[u8]>, ChangedNames>,
    /// Zones whose changes do not fit what is there: from where on they are kept, and why.
    unfit: HashMap<Box<[u8]>, (u64, String)>,
    names: usize,
    /// Of the journal: what stands before it is here, or in the files.
    end: u64,
}

/// A zone that updates change.
#[derive(Default)]
struct Book {
    /// Its file holds its changes before this.
    position: u64,
    /// That which its file names, or an earlier one, if it is the one that was there last.
    named: u64,
    /// The serial that the last change led to, and when that was made, in seconds since 1970.
    last: Option<(u32, u64)>,
    /// No updates come any more.
    is_left: bool,
}

type ChangedNames = BTreeMap<Arc<[u8]>, Changed>;

struct Changed {
    records: Arc<[Record]>,
    /// Where the journal ended when the name was changed last: the same of all that were changed together, which is known when they are durable.
    at: Arc<AtomicU64>,
}

impl Changed {
    fn at(&self) -> u64 {
        self.at.load(Relaxed)
    }
}

/// Names of a zone that are changed together, ready to be entered: made where no update waits for it, for of 300,000 it takes a tenth of a second.
pub struct Sheet {
    names: ChangedNames,
    at: Arc<AtomicU64>,
}

impl Sheet {
    pub fn of(names: Names) -> Sheet {
        let at = Arc::<AtomicU64>::default();
        let changed = |(name, records): (Box<[u8]>, Vec<Record>)| {
            (name.into(), Changed { records: records.into(), at: Arc::clone(&at) })
        };
        Sheet { names: names.into_iter().map(changed).collect(), at }
    }

    fn put(&mut self, name: Box<[u8]>, records: Vec<Record>) {
        self.names.insert(name.into(), Changed { records: records.into(), at: Arc::clone(&self.at) });
    }
}

/// Names that have changed, as they were when somebody asked. It shares them with where they came from: made where updates wait
/// for it, and turned into wishes where nobody does.
pub struct Shared(Vec<(Box<[u8]>, SharedNames)>);

type SharedNames = Vec<(Arc<[u8]>, Arc<[Record]>)>;

impl Shared {
    pub fn names(&self) -> usize {
        self.0.iter().map(|(_, names)| names.len()).sum()
    }

    pub fn wishes(&self) -> Vec<Wish> {
        let own = |(name, records): &(Arc<[u8]>, Arc<[Record]>)| (Box::from(&**name), records.to_vec());
        let wish = |(apex, names): &(Box<[u8]>, SharedNames)| Wish {
            apex: apex.clone(),
            names: names.iter().map(own).collect(),
        };
        self.0.iter().map(wish).collect()
    }
}

/// Names that are crossed off at once, while updates wait.
const AT_ONCE: usize = if cfg!(test) { 2 } else { 2048 };

/// Files that were written, each with the position of the journal before which it holds all.
#[derive(Default)]
pub struct Files {
    files: Vec<(Box<[u8]>, u64)>,
    /// Of the last of them the names behind this one are to be looked at.
    behind: Option<Arc<[u8]>>,
}

impl Files {
    pub fn new(files: impl Iterator<Item = (Box<[u8]>, u64)>) -> Files {
        Files { files: files.collect(), behind: None }
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl Unwritten {
    /// A zone whose file holds all that the journal says of it before this position.
    pub fn add_zone(&mut self, apex: &[u8], position: u64) {
        let book = self.zones.entry(apex.into()).or_default();
        (book.position, book.named, book.is_left, book.last) = (position, position, false, None);
    }

    /// No updates of the zone come any more.
    pub fn leave(&mut self, apex: &[u8]) {
        if let Some(book) = self.zones.get_mut(apex) {
            book.is_left = true;
            self.close(apex);
        }
    }

    /// Nothing that has been changed of the zone counts any more.
    pub fn forget(&mut self, apex: &[u8]) {
        self.names -= self.behind.remove(apex).map_or(0, |names| names.len());
    }

    /// Forgets a zone of which nothing is to come, and nothing is behind.
    fn close(&mut self, apex: &[u8]) {
        if !self.is_behind(apex) && self.zones.get(apex).is_some_and(|book| book.is_left) {
            self.zones.remove(apex);
        }
    }

    /// A zone that cannot be brought to where it was, and why; the journal keeps what is behind this position.
    pub fn add_unfit(&mut self, apex: &[u8], position: u64, why: String) {
        self.unfit.insert(apex.into(), (position, why));
    }

    /// Those of which that was said, and from where on the journal keeps what is behind.
    pub fn all_unfit(&self) -> HashMap<Box<[u8]>, u64> {
        self.unfit.iter().map(|(apex, (position, _))| (apex.clone(), *position)).collect()
    }

    /// Its file holds all that the journal has of it.
    pub fn is_fit(&mut self, apex: &[u8]) {
        self.unfit.remove(apex);
    }

    /// Why a zone lacks its last updates, if it does.
    pub fn unfit(&self, apex: &[u8]) -> Option<&str> {
        self.unfit.get(apex).map(|(_, why)| &**why)
    }

    /// What changes up to this end of the journal have left.
    pub fn take(&mut self, after: After, end: u64) {
        match after {
            After::Wishes(wishes) => self.add(wishes, end),
            After::Sheet(apex, sheet) => {
                self.enter(apex, sheet, end);
                self.end = self.end.max(end);
            }
        }
    }

    /// The names that they have left like this.
    pub fn add(&mut self, wishes: Vec<Wish>, end: u64) {
        wishes.into_iter().for_each(|wish| self.enter(wish.apex, Sheet::of(wish.names), end));
        self.end = self.end.max(end);
    }

    /// The same of one zone: it takes as long as the fewer names do: these, or those that the zone's file does not hold yet.
    fn enter(&mut self, apex: Box<[u8]>, sheet: Sheet, end: u64) {
        let mut names = sheet.names;
        if names.is_empty() {
            return;
        }
        sheet.at.store(end, Relaxed);
        let book = self.zones.entry(apex.clone()).or_default();
        if !self.behind.contains_key(&apex) {
            // Its file may have been written long ago, and the journal has nothing of it since.
            book.position = book.position.max(self.end);
        }
        let known = self.behind.entry(apex).or_default();
        let before = known.len();
        if known.len() < names.len() {
            swap(known, &mut names);
            names.into_iter().for_each(|(name, older)| _ = known.entry(name).or_insert(older));
        } else {
            known.extend(names);
        }
        self.names += known.len() - before;
    }

    /// A change has led the zone to this serial.
    pub fn has_changed(&mut self, apex: &[u8], serial: u32, wall_s: u64) {
        if let Some(book) = self.zones.get_mut(apex) {
            book.last = Some((serial, wall_s));
        }
    }

    /// Whether a change has led the zone to another serial that its file does not hold. Once that holds all it may have any, if somebody has mended it.
    pub fn is_past(&self, apex: &[u8], serial: u32) -> bool {
        let last = || self.zones.get(apex).and_then(|book| book.last);
        self.is_behind(apex) && last().is_some_and(|(to, _)| to != serial)
    }

    /// When the change was made that led to this serial; None: it was not the last, or none is known.
    pub fn changed_at(&self, apex: &[u8], serial: u32) -> Option<u64> {
        let (to, wall_s) = self.zones.get(apex)?.last?;
        (to == serial).then_some(wall_s)
    }

    /// Zones whose files do not hold all that was changed.
    pub fn behind(&self) -> impl Iterator<Item = &[u8]> {
        self.behind.keys().map(|apex| &**apex)
    }

    pub fn names(&self) -> usize {
        self.names
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    /// True if updates change the zone, and a file of it that names this position, or none, is not the one that was there last: it is older, or names what
    /// this journal has not come to.
    pub fn is_outdated(&self, apex: &[u8], said: Option<u64>) -> bool {
        let is_last = |book: &Book| said.is_some_and(|said| (book.named..=self.end.max(book.named)).contains(&said));
        let book = self.zones.get(apex).filter(|book| !book.is_left);
        book.is_some_and(|book| !is_last(book)) && !self.unfit.contains_key(apex)
    }

    /// True if the zone's file does not hold all that was changed.
    pub fn is_behind(&self, apex: &[u8]) -> bool {
        self.behind.contains_key(apex)
    }

    /// True if something of the zone was changed after the journal ended there that its file does not hold.
    pub fn has_changed_since(&self, apex: &[u8], end: u64) -> bool {
        self.behind.get(apex).is_some_and(|names| names.values().any(|changed| changed.at() > end))
    }

    /// All that was changed after the journal ended there.
    pub fn since(&self, end: u64) -> Shared {
        self.since_of(end, &|_| true)
    }

    /// The same, of these zones.
    pub fn since_of(&self, end: u64, is_wanted: &dyn Fn(&[u8]) -> bool) -> Shared {
        let late = |names: &ChangedNames| -> SharedNames {
            let late = names.iter().filter(|(_, changed)| changed.at() > end);
            late.map(|(name, changed)| (Arc::clone(name), Arc::clone(&changed.records))).collect()
        };
        let zones = self.behind.iter().filter(|(apex, _)| is_wanted(apex));
        let zones = zones.map(|(apex, names)| (apex, late(names))).filter(|(_, names)| !names.is_empty());
        Shared(zones.map(|(apex, names)| (apex.clone(), names)).collect())
    }

    /// Crosses off what these files hold, so much of it as may be done at once.
    pub fn settle(&mut self, written: &mut Files) {
        let mut left = AT_ONCE;
        while let Some((apex, position)) = written.files.pop() {
            let from = written.behind.take().map_or(Bound::Unbounded, Bound::Excluded);
            if let Some(names) = self.behind.get_mut(&apex) {
                let some = names.range((from, Bound::Unbounded)).take(left);
                let some: Vec<_> = some.map(|(name, changed)| (Arc::clone(name), changed.at())).collect();
                for (name, _) in some.iter().filter(|(_, at)| *at <= position) {
                    names.remove(name);
                    self.names -= 1;
                }
                if some.len() == left {
                    written.behind = some.into_iter().next_back().map(|(name, _)| name);
                    written.files.push((apex, position));
                    return;
                }
                left -= some.len();
                if names.is_empty() {
                    self.behind.remove(&apex);
                }
            }
            if let Some(book) = self.zones.get_mut(&apex) {
                (book.position, book.named) = (book.position.max(position), book.named.max(position));
            }
            self.close(&apex);
        }
    }

    /// The first position of the journal that some zone's file does not hold.
    pub fn needed(&self) -> u64 {
        let behind = self.behind.keys().map(|apex| self.zones.get(apex).map_or(0, |book| book.position));
        behind.chain(self.unfit.values().map(|(position, _)| *position)).min().unwrap_or(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(apex: &[u8], name: &[u8]) -> Wish {
        Wish { apex: apex.into(), names: Names::from([(name.into(), vec![])]) }
    }

    fn settle(unwritten: &mut Unwritten, apex: &[u8], position: u64) {
        let mut written = Files::new([(apex.into(), position)].into_iter());
        while !written.is_empty() {
            unwritten.settle(&mut written);
        }
    }

    #[test]
    fn a_written_file_settles_what_was_changed_before_it() {
        let mut unwritten = Unwritten::default();
        unwritten.add_zone(b"\x01a\0", 3);
        unwritten.add_zone(b"\x01b\0", 0);
        assert_eq!((unwritten.needed(), unwritten.names()), (0, 0));
        unwritten.add(vec![wish(b"\x01a\0", b"\x01x\x01a\0"), wish(b"\x01a\0", b"\x01y\x01a\0")], 5);
        unwritten.add(vec![wish(b"\x01a\0", b"\x01x\x01a\0")], 6);
        assert_eq!((unwritten.needed(), unwritten.names(), unwritten.end()), (3, 2, 6));
        settle(&mut unwritten, b"\x01a\0", 5);
        assert_eq!((unwritten.needed(), unwritten.names()), (5, 1));
        let left = unwritten.since(0).wishes();
        assert_eq!((left.len(), unwritten.behind().count()), (1, 1));
        assert!(left[0].names.contains_key(&b"\x01x\x01a\0"[..]) && left[0].names.len() == 1);
        assert_eq!(unwritten.since(6).names(), 0);
        settle(&mut unwritten, b"\x01a\0", 6);
        assert_eq!((unwritten.needed(), unwritten.names()), (6, 0));
    }

    #[test]
    fn a_file_that_names_no_position_between_the_last_and_the_end_is_not_the_zones() {
        let (mut unwritten, a) = (Unwritten::default(), &b"\x01a\0"[..]);
        assert!(!unwritten.is_outdated(a, Some(0)), "it is not ours");
        unwritten.add_zone(a, 3);
        let are = |unwritten: &Unwritten, said: [Option<u64>; 5]| said.map(|said| unwritten.is_outdated(a, said));
        let said = [None, Some(2), Some(3), Some(9), Some(10)];
        assert_eq!(are(&unwritten, said), [true, true, false, true, true]);
        // Behind, its file is as it was, or was written since.
        unwritten.add(vec![wish(a, b"\x01x\x01a\0")], 9);
        assert_eq!(are(&unwritten, said), [true, true, false, false, true]);
        settle(&mut unwritten, a, 9);
        assert_eq!(are(&unwritten, said), [true, true, true, false, true]);
        unwritten.add_unfit(a, 9, String::new());
        assert_eq!(are(&unwritten, said), [false; 5]);
        unwritten.is_fit(a);
        unwritten.leave(a);
        assert_eq!(are(&unwritten, said), [false; 5], "its file is another");
    }

    /// Few names come to many, many to few, and as many: what was changed last counts.
    #[test]
    fn whoever_is_more_takes_the_others_in_and_the_last_change_counts() {
        for sizes in [[3, 1, 2], [1, 4, 1], [2, 2, 5], [0, 3, 3]] {
            let (mut unwritten, mut twin) = (Unwritten::default(), BTreeMap::new());
            for (end, size) in (1..).zip(sizes) {
                let record = Record { rtype: 1, ttl: end as u32, rdata: [192, 0, 2, 1][..].into() };
                // Some of them are those of before.
                let names: Names =
                    (0..size).map(|i| (Box::from([1, b'a' + i * end as u8, 0]), vec![record.clone()])).collect();
                twin.extend(names.clone().into_iter().map(|(name, records)| (name, (records, end))));
                unwritten.take(After::Sheet(b"\x01z\0"[..].into(), Sheet::of(names)), end);
                assert_eq!((unwritten.names(), unwritten.end()), (twin.len(), end));
                for since in 0..=end {
                    let late: Names = twin
                        .iter()
                        .filter(|(_, (_, at))| *at > since)
                        .map(|(n, (r, _))| (n.clone(), r.clone()))
                        .collect();
                    let found = unwritten.since(since).wishes().pop().map(|wish| wish.names).unwrap_or_default();
                    assert_eq!(found, late, "{sizes:?} since {since}");
                    assert_eq!(unwritten.has_changed_since(b"\x01z\0", since), !late.is_empty());
                }
            }
            settle(&mut unwritten, b"\x01z\0", 2);
            assert_eq!(unwritten.names(), twin.values().filter(|(_, at)| *at > 2).count());
        }
    }

    #[test]
    fn what_changes_while_files_are_crossed_off_stays() {
        let name = |label: &[u8], apex: &[u8]| [label, apex].concat();
        let three = |apex: &[u8]| [b"\x01b", b"\x01d", b"\x01f"].map(|label| wish(apex, &name(label, apex)));
        let (a, b) = (&b"\x01a\0"[..], &b"\x01b\0"[..]);
        for rounds in 0..5 {
            let mut unwritten = Unwritten::default();
            [a, b].into_iter().for_each(|apex| unwritten.add_zone(apex, 1));
            unwritten.add([a, b].into_iter().flat_map(three).collect(), 5);
            let mut written = Files::new([(a.into(), 5), (b.into(), 5)].into_iter());
            (0..rounds).for_each(|_| unwritten.settle(&mut written));
            // Of each zone a name that was there and one that was not, before and behind where somebody is.
            for apex in [a, b] {
                unwritten.add([&b"\x01a"[..], b"\x01d"].map(|label| wish(apex, &name(label, apex))).into(), 6);
            }
            unwritten.leave(b);
            while !written.is_empty() {
                unwritten.settle(&mut written);
            }
            assert_eq!((unwritten.names(), unwritten.since(0).names(), unwritten.needed()), (4, 4, 5), "{rounds}");
            [a, b].into_iter().for_each(|apex| settle(&mut unwritten, apex, 6));
            assert_eq!((unwritten.names(), unwritten.behind.len(), unwritten.zones.len()), (0, 0, 1), "{rounds}");
        }
    }

    /// Where somebody was in it is no place in another one.
    #[test]
    fn a_zone_that_begins_anew_while_it_is_crossed_off_leaves_nothing_of_others_behind() {
        let (a, b) = (&b"\x01a\0"[..], &b"\x01b\0"[..]);
        let three = |apex: &[u8]| [b"\x01b", b"\x01d", b"\x01f"].map(|label| wish(apex, &[&label[..], apex].concat()));
        let mut unwritten = Unwritten::default();
        [a, b].into_iter().for_each(|apex| unwritten.add_zone(apex, 1));
        unwritten.add([a, b].into_iter().flat_map(three).collect(), 5);
        let mut written = Files::new([(a.into(), 5), (b.into(), 5)].into_iter());
        unwritten.settle(&mut written);
        unwritten.forget(b);
        unwritten.leave(b);
        assert_eq!((unwritten.names(), unwritten.needed(), unwritten.zones.len()), (3, 1, 1));
        while !written.is_empty() {
            unwritten.settle(&mut written);
        }
        assert_eq!((unwritten.names(), unwritten.behind.len(), unwritten.needed()), (0, 0, 5));
    }

    #[test]
    fn a_zone_that_is_left_is_forgotten_when_nothing_of_it_is_behind() {
        let mut unwritten = Unwritten::default();
        [b"\x01a\0", b"\x01b\0", b"\x01c\0"].iter().for_each(|apex| unwritten.add_zone(*apex, 3));
        unwritten.add(vec![wish(b"\x01a\0", b"\x01x\x01a\0"), wish(b"\x01c\0", b"\x01x\x01c\0")], 5);
        [b"\x01a\0", b"\x01b\0", b"\x01c\0"].iter().for_each(|apex| unwritten.leave(*apex));
        assert_eq!((unwritten.zones.len(), unwritten.needed()), (2, 3));
        unwritten.add_zone(b"\x01c\0", 4);
        [b"\x01a\0", b"\x01c\0"].iter().for_each(|apex| settle(&mut unwritten, *apex, 5));
        assert_eq!(unwritten.zones.into_keys().collect::<Vec<_>>(), [b"\x01c\0"[..].into()], "it has come back");
    }

    /// Of many zones that are updated now and then there is always one whose file was written long ago: the journal would be kept for months, and be
    /// read by each start.
    #[test]
    fn a_zone_that_nobody_has_updated_for_long_needs_the_journal_from_its_next_update_on() {
        let mut unwritten = Unwritten::default();
        [b"\x01a\0", b"\x01b\0", b"\x01c\0"].iter().for_each(|apex| unwritten.add_zone(*apex, 3));
        unwritten.add(vec![wish(b"\x01a\0", b"\x01x\x01a\0")], 500);
        settle(&mut unwritten, b"\x01a\0", 500);
        assert_eq!(unwritten.needed(), 500);
        // Of a group each zone needs all.
        unwritten.add(vec![wish(b"\x01b\0", b"\x01x\x01b\0"), wish(b"\x01a\0", b"\x01y\x01a\0")], 502);
        unwritten.take(After::Sheet(b"\x01c\0"[..].into(), Sheet::of(wish(b"", b"\x01x\x01c\0").names)), 503);
        assert_eq!(unwritten.needed(), 500);
        [b"\x01a\0", b"\x01b\0"].iter().for_each(|apex| settle(&mut unwritten, *apex, 503));
        assert_eq!(unwritten.needed(), 502);
        // A file that was begun before another one of the zone says less.
        settle(&mut unwritten, b"\x01c\0", 503);
        unwritten.add(vec![wish(b"\x01c\0", b"\x01x\x01c\0")], 505);
        settle(&mut unwritten, b"\x01c\0", 502);
        assert_eq!((unwritten.needed(), unwritten.names()), (503, 1));
    }

    #[test]
    fn what_fits_no_file_is_kept_whatever_is_written() {
        let mut unwritten = Unwritten::default();
        unwritten.add_zone(b"\x01a\0", 3);
        unwritten.add_unfit(b"\x01b\0", 4, "spoilt".to_string());
        unwritten.add(vec![wish(b"\x01a\0", b"\x01x\x01a\0")], 9);
        assert_eq!(unwritten.needed(), 3);
        settle(&mut unwritten, b"\x01a\0", 9);
        assert_eq!(unwritten.needed(), 4);
        assert_eq!((unwritten.unfit(b"\x01b\0"), unwritten.unfit(b"\x01a\0")), (Some("spoilt"), None));
    }
}
