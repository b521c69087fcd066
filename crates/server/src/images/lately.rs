//! What was served last: the image of the last run, and over it what was laid there before the server ended and was not folded in. No file may
//! say that any more, and a new version is weighed against it.
//!
//! ```text
//! zones that changed             the history knows the way there, and the journal what updates made of those that are theirs no more
//! zones that came and went       named beside the image; they are read before the first answer
//! zones of updates               the journal (`ledger`)
//! ```

use crate::config::{Roster, Seen, Written, Zone};
use crate::history::{CHANGE_OCTETS_MAX, changes_from, in_turn, pasts_of};
use crate::images::laying::{self, Put, Standing};
use crate::images::manifest;
use crate::images::{Library, Others, Shelved, name};
use crate::log;
use crate::update::ledger;
use crate::update::unwritten::{Names, Wish};
use image::patch::{Change, Limits};
use image::{Builder, Image, Zone as ImageZone};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::slice;
use store::Stretch;
use transfer::record::{self, Bare, is_newer};
use transfer::{Content, Contents, Diff, Entry, Layer, Record, Unreadable};

/// Octets of files of zones that came which are read before the first answer. With more of them an answer would be long in coming.
const COME_OCTETS: u64 = 16 << 20;
/// Records of a zone that is laid as a whole.
const WHOLE_RECORDS: u64 = 100_000;

pub struct Last {
    /// The image as its file is. Its manifest says what has become of zones since.
    pub shelved: Shelved,
    /// With what was laid over it.
    laid: Option<Image<Stretch>>,
    others: Others,
    /// Zones of the image that have gone since, with their files.
    went: Vec<(Box<[u8]>, PathBuf)>,
    /// Zones of `[[zone]]` that nobody served before.
    more: Vec<Zone>,
}

impl Last {
    /// None: there is no image.
    pub fn open(library: &Library, written: &Written) -> Option<Last> {
        let shelved = library.last()?;
        let others = library.others(shelved.manifest.image());
        let mut last = Last { shelved, laid: None, others, went: Vec::new(), more: Vec::new() };
        last.lay_none();
        last.lay_changes(library.data_dir(), written);
        Some(last)
    }

    /// True if what named the zones of the image is what names them now, but for zones that have come to `[[zone]]` or gone from there alone: they come
    /// to what was served, or are taken away.
    pub fn is_of(&mut self, seen: &Seen, roster: &Roster) -> bool {
        let (manifest, is_as_ever) = (&self.shelved.manifest, self.shelved.manifest.seen.is_of(seen));
        if is_as_ever && self.others.is_empty() {
            return true;
        }
        let more = self.new_among(&roster.written);
        let others = seen.without(more.iter().map(|zone| &*zone.apex));
        let is_of =
            is_as_ever || manifest.seen.is_of(&others) || self.left(&others, roster).is_some_and(|gone| self.go(gone));
        self.more = if is_of { more } else { Vec::new() };
        is_of
    }

    /// Those that the image does not know. One that went may be back.
    fn new_among(&self, written: &Written) -> Vec<Zone> {
        written.iter().filter(|zone| self.shelved.manifest.find(&zone.apex).is_none()).cloned().collect()
    }

    /// What is new among these comes, whatever else has changed.
    pub fn add_new(&mut self, written: &Written) {
        self.more = self.new_among(written);
    }

    /// The zones that have gone from `[[zone]]`, if without them it is what `others` says. None: more than that has changed.
    fn left(&self, others: &Seen, roster: &Roster) -> Option<Vec<Box<[u8]>>> {
        let seen = &self.shelved.manifest.seen;
        if !seen.places_are_those_of(others) {
            return None;
        }
        let all = || {
            let went = self.went.iter().map(|(apex, file)| (&**apex, &**file));
            went.chain(self.shelved.manifest.part(0, 1).flatten().map(|known| (known.apex, known.file)))
        };
        // One alone is what the sum lacks. As long as the list is as it was it names none of `[[zone]]`.
        let is_it = |(apex, _): &(&[u8], &Path)| seen.has_more(apex, others);
        let one = if seen.list_is_that_of(others) { all().find(is_it) } else { None };
        let mut left: Vec<Box<[u8]>> = match one {
            Some((apex, _)) => vec![apex.into()],
            None => {
                let is_left =
                    |(apex, file): &(&[u8], &Path)| roster.written.find(apex).is_none() && !seen.finds(apex, file);
                let mut left: Vec<Box<[u8]>> = all().filter(is_left).map(|(apex, _)| apex.into()).collect();
                let listed = roster.listed_among(&left.iter().cloned().collect());
                left.retain(|apex| !listed.contains_key(apex));
                left
            }
        };
        // One that has come to lie in a folder is configured as ever.
        left.retain(|apex| roster.in_directories(&name(apex).to_string()).is_none());
        others.is_of(&seen.without(left.iter().map(|apex| &**apex))).then_some(left)
    }

    /// These zones are configured no more. False: one of them cannot be taken away.
    pub fn go(&mut self, gone: Vec<Box<[u8]>>) -> bool {
        let there = gone.iter().filter(|apex| laying::zone(self.served().view(), apex).is_some());
        let there: Vec<Box<[u8]>> = there.cloned().collect();
        let are_away = there.is_empty() || self.take_away(there);
        if are_away {
            self.shelved.manifest.change(&[], &gone);
            self.others.extend(gone.into_iter().map(|apex| (apex, None)));
        }
        are_away
    }

    pub fn served(&self) -> &Image<Stretch> {
        self.laid.as_ref().unwrap_or(&self.shelved.image)
    }

    pub fn take(self) -> (Shelved, Option<Image<Stretch>>) {
        (self.shelved, self.laid)
    }

    /// True if nothing was laid over the image.
    pub fn is_bare(&self) -> bool {
        self.laid.is_none()
    }

    /// Zones that came, to be read from their files. Those of updates come from the journal.
    pub fn come(&self, written: &Written) -> Vec<Zone> {
        let came = self.others.iter().filter_map(|(apex, file)| Some(written.zone(apex.clone(), file.clone()?)));
        let is_among_others = |zone: &&Zone| matches!(self.others.get(&zone.apex), Some(Some(_)));
        let more = self.more.iter().filter(|zone| !is_among_others(zone)).cloned();
        let mut room = COME_OCTETS;
        let has_room = |zone: &Zone| {
            let left = std::fs::metadata(&zone.file).ok().and_then(|file| room.checked_sub(file.len()));
            room = left.unwrap_or(room);
            left.is_some()
        };
        came.chain(more).filter(|zone| !zone.is_owned()).filter(has_room).collect()
    }

    /// Zones that went, and are not in this image.
    pub fn gone(&self, image: &Image<Stretch>) -> Vec<Box<[u8]>> {
        let others = self.others.keys().filter(|apex| laying::zone(image.view(), apex).is_none());
        others.cloned().collect()
    }

    /// Takes away what the image has under the names of zones that have gone since, be there others by now.
    fn lay_none(&mut self) {
        let there = self.others.keys().filter(|apex| laying::zone(self.shelved.image.view(), apex).is_some());
        let mut gone: Vec<_> = there.cloned().collect();
        if !gone.is_empty() && !self.take_away(gone.clone()) {
            gone.retain(|apex| self.take_away(vec![apex.clone()]));
        }
        let manifest = &self.shelved.manifest;
        let with_file = gone.iter().filter_map(|apex| Some((apex.clone(), manifest.find(apex)?.file.to_path_buf())));
        self.went = with_file.collect();
        self.shelved.manifest.change(&[], &gone);
    }

    /// False: they stay.
    fn take_away(&mut self, gone: Vec<Box<[u8]>>) -> bool {
        let laid = self.put(Builder::new(self.shelved.image.header().seed), gone);
        self.take_over(laid)
    }

    fn put(&self, whole: Builder, gone: Vec<Box<[u8]>>) -> Option<Image<Stretch>> {
        let change = Change { whole, gone, edits: vec![], limits: Limits::MOST };
        let Put { image, complaints, .. } = laying::put(self.served(), change).ok()?;
        complaints.is_empty().then_some(image)
    }

    fn take_over(&mut self, laid: Option<Image<Stretch>>) -> bool {
        let is_laid = laid.is_some();
        self.laid = laid.or(self.laid.take());
        is_laid
    }

    /// Changes that were served are made once more.
    fn lay_changes(&mut self, data_dir: &Path, written: &Written) {
        let is_journaled = |apex: &[u8]| written.find(apex).is_some_and(Zone::is_journaled);
        let is_meant = |apex: &[u8]| !self.others.contains_key(apex) && !is_journaled(apex);
        let steps = steps_from(data_dir, self.shelved.manifest.history(), is_meant);
        let (mut wishes, mut astray) = (Vec::new(), Vec::new());
        for (apex, steps) in steps {
            let Some(zone) = laying::zone(self.served().view(), &apex) else { continue };
            let last = steps.as_ref().and_then(|steps| steps.back()).map(|step| step.diff.to);
            let is_later = last.is_some_and(|last| zone.serial().is_ok_and(|serial| is_newer(last, serial)));
            match steps.map(|mut steps| ahead(zone, steps.make_contiguous())) {
                Some(Ok(Some(names))) => wishes.push(Wish { apex, names }),
                Some(Ok(None)) if is_later => astray.push(apex),
                Some(Ok(None)) => {}
                Some(Err(Unreadable)) | None => tell(&apex),
            }
        }
        wishes.extend(self.found_again(data_dir, astray));
        match laying::over(self.served(), &wishes, Limits::MOST) {
            Ok(laid) => _ = self.take_over(laid.map(|laid| laid.image)),
            // One of them cannot be laid by its names, or they are too many.
            Err(_) => wishes.retain(|wish| self.lay_change(wish)),
        }
        // Whatever their files hold now is to be read.
        let entry = |wish: Wish| {
            let file = self.shelved.manifest.find(&wish.apex)?.file.to_path_buf();
            Some(manifest::Entry { apex: wish.apex, file, sources: vec![], read_s: manifest::UNREAD, problem: None })
        };
        let entries: Vec<_> = wishes.into_iter().filter_map(entry).collect();
        self.shelved.manifest.change(&entries, &[]);
    }

    /// Zones whose changes lead to a later version, and none of them goes on from what the image has: what stands before its position is to be known, too,
    /// for one that has come back to its updates since went on from there.
    fn found_again(&self, data_dir: &Path, astray: Vec<Box<[u8]>>) -> Vec<Wish> {
        if astray.is_empty() {
            return vec![];
        }
        let mut pasts = pasts_of(data_dir, &astray.iter().map(|apex| &**apex).collect()).unwrap_or_default();
        let find = |apex: Box<[u8]>| {
            let [of_file, updated] = pasts.each_mut().map(|past| past.remove(&apex).unwrap_or_default());
            let zone = laying::zone(self.served().view(), &apex)?;
            let names = ahead(zone, in_turn(of_file, updated).make_contiguous()).ok().flatten();
            if names.is_none() {
                tell(&apex);
            }
            names.map(|names| Wish { apex, names })
        };
        astray.into_iter().filter_map(find).collect()
    }

    /// True if it was laid, by its names or as a whole.
    fn lay_change(&mut self, wish: &Wish) -> bool {
        let laid = match laying::over(self.served(), slice::from_ref(wish), Limits::MOST) {
            Ok(laid) => laid.map(|laid| laid.image),
            // It is about the image.
            Err(unlaid) if unlaid.zones.is_empty() => None,
            Err(_) => self.whole(wish).and_then(|whole| self.put(whole, vec![])),
        };
        if laid.is_none() {
            tell(&wish.apex);
        }
        self.take_over(laid)
    }

    /// A zone with these names. What was served was taken by a builder before.
    fn whole(&self, wish: &Wish) -> Option<Builder> {
        let zone = laying::zone(self.served().view(), &wish.apex)?;
        zone.records().ok().filter(|records| *records <= WHOLE_RECORDS)?;
        let mut whole = Builder::new(self.shelved.image.header().seed);
        whole.begin_zone(&wish.apex);
        let stays = zone.for_each_record(&mut |owner, rtype, ttl, rdata| {
            if !wish.names.contains_key(owner) {
                let _ = whole.record(owner, rtype, ttl, rdata);
            }
        });
        stays.ok()?;
        for (owner, records) in &wish.names {
            records.iter().for_each(|r| _ = whole.record(owner, r.rtype, r.ttl, &r.rdata));
        }
        Some(whole)
    }
}

fn tell(apex: &[u8]) {
    log::info("a zone is served first as it was before its last changes", &[("zone", &name(apex))]);
}

/// The changes of zones, by apex, oldest first. None: they were too many.
type Steps = HashMap<Box<[u8]>, Option<VecDeque<Entry>>>;

/// What has changed by files, from a position of the history on, and by updates that no file of ours need have.
fn steps_from(data_dir: &Path, position: u64, is_meant: impl Fn(&[u8]) -> bool) -> Steps {
    let [mut files, mut updates] = [Changes::default(), Changes::default()];
    changes_from(data_dir, position, &is_meant, |entry| files.push(entry));
    ledger::each_unreleased(data_dir, &is_meant, |entry| updates.push(entry));
    let mut all = files.steps;
    for (apex, updated) in updates.steps {
        let of_file = all.remove(&apex).unwrap_or_else(|| Some(VecDeque::new()));
        all.insert(apex, of_file.zip(updated).map(|(of_file, updated)| in_turn(of_file, updated)));
    }
    all
}

/// Those of one owner. Bound: `CHANGE_OCTETS_MAX` in all; of zones of which more is there nothing is known.
#[derive(Default)]
struct Changes {
    steps: Steps,
    octets: usize,
}

impl Changes {
    fn push(&mut self, entry: Entry) {
        self.octets += entry.diff.octets();
        let has_room = self.octets <= CHANGE_OCTETS_MAX;
        let steps = self.steps.entry(entry.zone.clone()).or_insert_with(|| Some(VecDeque::new()));
        // A way with a gap leads elsewhere.
        *steps = steps.take().filter(|_| has_room).map(|mut steps| {
            steps.push_back(entry);
            steps
        });
    }
}

/// What names of an image's zone are to hold, for it to be what these changes have made of it, of which the first may be in it already. None: all
/// are, or they do not fit. Several may have led to one serial, so it is the records that tell: as many of the last ones count as can be made
/// one after the other. Err: its names cannot be looked up.
fn ahead(zone: ImageZone<'_>, changes: &[Entry]) -> Result<Option<Names>, Unreadable> {
    let serial = zone.serial().map_err(|_| Unreadable)?;
    Ok(match zone.is_editable() {
        Ok(true) => ahead_of(&Standing::of(zone), serial, changes),
        _ => ahead_of(&listed(zone).ok_or(Unreadable)?, serial, changes),
    })
}

fn ahead_of(standing: &impl Content, serial: u32, changes: &[Entry]) -> Option<Names> {
    // One that came under the name of another zone leads nowhere from that.
    let first = changes.iter().rposition(|entry| entry.diff.is_empty()).map_or(0, |at| at + 1);
    let names = (first..changes.len()).filter(|&at| changes[at].diff.from == serial).find_map(|at| {
        let mut layer = Layer::over(Folded(standing));
        changes[at..].iter().try_for_each(|step| layer.follow(&folded(&step.diff))).ok()?;
        let names =
            layer.names().map(|(owner, now)| spelt(standing, owner, now).map(|spelt| Some((owner.into(), spelt?))));
        Some(names.collect::<Result<Vec<_>, _>>().ok()?.into_iter().flatten().collect())
    });
    names.filter(|names: &Names| !names.is_empty())
}

/// All records of a zone whose names are not all found one by one: one of several chains of NSEC3. None: it is damaged, or too long to be laid as a
/// whole.
fn listed(zone: ImageZone<'_>) -> Option<Contents> {
    zone.records().ok().filter(|records| *records <= WHOLE_RECORDS)?;
    let mut all = Vec::new();
    let read = zone.for_each_record(&mut |owner, rtype, ttl, rdata| all.push(Record::new(owner, rtype, ttl, rdata)));
    read.ok().and_then(|()| all.into_iter().collect::<Option<Vec<_>>>()).map(Contents::of)
}

/// A version whose records are in canonical form, as the history has them.
struct Folded<C>(C);

impl<C: Content> Content for Folded<C> {
    fn bare(&self, owner: &[u8]) -> Result<Vec<Bare>, Unreadable> {
        Ok(self.0.bare(owner)?.iter().map(canonical).collect())
    }
}

fn canonical(r: &Bare) -> Bare {
    Bare { rdata: record::folded(r.rtype, &r.rdata), ..*r }
}

fn folded(diff: &Diff) -> Diff {
    let side = |all: &[Record]| all.iter().map(Record::folded).collect();
    Diff::new(diff.from, diff.to, side(diff.removed()), side(diff.added()))
}

/// The records that a name holds from now on; those that it had already as it spelt them. None: it has no others.
fn spelt(standing: &impl Content, owner: &[u8], now: &[Bare]) -> Result<Option<Vec<Bare>>, Unreadable> {
    let mut left: BTreeSet<&Bare> = now.iter().collect();
    let mut records = standing.bare(owner)?;
    let before = records.len();
    records.retain(|r| left.remove(&canonical(r)));
    let is_other = !left.is_empty() || records.len() != before;
    records.extend(left.into_iter().cloned());
    Ok(is_other.then_some(records))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::by_file;
    use proptest::prelude::*;
    use transfer::{When, compare};
    use wire::rtype::{A, NS, SOA};

    const APEX: &[u8] = b"\x01z\0";

    fn soa(serial: u32) -> Record {
        let rdata = [b"\x02Ns\x01z\0\x01h\x01z\0", &serial.to_be_bytes()[..], &[0, 0, 0, 9].repeat(4)].concat();
        Record::new(APEX, SOA, 60, &rdata).unwrap()
    }

    /// A zone of this serial, with a host at some of its names, with capitals in what it points to.
    fn zone(serial: u32, hosts: &[(u8, u8)]) -> Contents {
        let host =
            |&(name, address): &(u8, u8)| Record::new(&[1, b'a' + name, 1, b'z', 0], A, 60, &[192, 0, 2, address]);
        let ns = Record::new(APEX, NS, 60, b"\x02Ns\x01z\0");
        Contents::of([soa(serial)].into_iter().chain(ns).chain(hosts.iter().filter_map(host)))
    }

    fn image(zone: &Contents) -> Image<Vec<u8>> {
        let mut builder = Builder::new(0);
        builder.begin_zone(APEX);
        zone.records().for_each(|r| builder.record(r.owner(), r.rtype, r.ttl, r.rdata()).unwrap());
        Image::open(builder.finish().0).unwrap()
    }

    fn step(before: &Contents, after: &Contents) -> Entry {
        let mut builder = Builder::new(0);
        builder.begin_zone(APEX);
        after.records().for_each(|r| builder.record(r.owner(), r.rtype, r.ttl, r.rdata()).unwrap());
        let (image, mut diff) = (image(before), None);
        let old = image.view().zone_of(APEX).unwrap().unwrap();
        builder.show(&mut |new| diff = compare(&old, new, usize::MAX).unwrap()).unwrap();
        Entry { zone: APEX.into(), author: by_file(), when: When::at(0), diff: diff.unwrap() }
    }

    proptest! {
        /// Of versions of which some have the serial of the one before, the image has any; the changes before it are known, too.
        #[test]
        fn what_was_served_last_is_found_from_every_version_before(
            versions in prop::collection::vec((0..2u32, prop::collection::vec((0..3u8, 0..2u8), 0..4)), 1..6),
            at in any::<prop::sample::Index>(),
        ) {
            let mut serial = 7;
            let zones: Vec<Contents> = versions.iter().map(|(step, hosts)| {
                serial += step;
                zone(serial, hosts)
            }).collect();
            let changed: Vec<Entry> = zones.windows(2).map(|pair| step(&pair[0], &pair[1])).filter(|e| !e.diff.is_empty()).collect();
            let (here, last) = (&zones[at.index(zones.len())], zones.last().unwrap());
            let image = image(here);
            let standing = image.view().zone_of(APEX).unwrap().unwrap();
            let names = ahead(standing, &changed).unwrap();
            let listed = ahead_of(&listed(standing).unwrap(), standing.serial().unwrap(), &changed);
            prop_assert_eq!((names.is_some(), &listed), (here != last, &names));
            for (owner, records) in names.into_iter().flatten() {
                let record = |r: image::edit::Record| Record::new(&owner, r.rtype, r.ttl, &r.rdata).unwrap();
                let found = Contents::of(records.into_iter().map(record));
                let expect = Contents::of(last.records_at(&owner).cloned());
                let folded = |all: &Contents| all.records().map(Record::folded).collect::<Vec<_>>();
                prop_assert_eq!(folded(&found), folded(&expect));
                // What stays is spelt as it was.
                let ns = |all: &Contents| all.rrset(&owner, NS).cloned().collect::<Vec<_>>();
                prop_assert_eq!(ns(&found), ns(&expect));
            }
        }
    }
}
