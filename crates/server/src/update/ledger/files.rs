//! What a start makes of files and journal: zones that are new here are imported, the others brought to where their updates had left them.

use super::{
    FOLDER, Ledger, Owned, data_dir, file_of, is_made_of, open, own, position_of, released, renumber, write_file,
    write_released,
};
use crate::clock::wall_s;
use crate::config::{History, Written, Zone};
use crate::history::{last_serials, last_updates};
use crate::images::laying::Standing;
use crate::images::manifest::{Known, Manifest};
use crate::images::{self, name};
use crate::log;
use crate::scribe::aside;
use crate::scribe::origin::Origin;
use crate::stamp::{Looks, Stamp};
use crate::update::strangers::Strangers;
use crate::update::unwritten::{Unwritten, Wish};
use crate::zonetext::findings;
use crate::zonetext::reading::Stock;
use audit::Rules;
use image::View;
use std::cell::LazyCell;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;
use store::atomic;
use store::journal::{Folder, Journal, SEGMENT_OCTETS};
use transfer::record::is_newer;
use transfer::{Entry, Head, Layer, Misfit};

/// The files of zones that updates change, before the journal is read.
pub struct Files {
    folder: PathBuf,
    zones: HashMap<Box<[u8]>, Owned>,
    /// By apex: what the file holds.
    positions: HashMap<Box<[u8]>, u64>,
    /// Zones whose files do not say what they hold.
    unfit: Unfit,
}

/// By apex: from where on changes are kept, and why they cannot be brought back.
type Unfit = HashMap<Box<[u8]>, (u64, String)>;

/// So many zones are written down before the first answer is given, as far as they are begun by `until`: each costs six syncs, 30 ms on a slow disk. The
/// rest is served as its files say, and written down meanwhile, as after a reload; so are all where they are more: a large server answers at once.
const IMPORTED_FIRST: usize = 1000;

/// Imports the zones that are new here, and lets all that take updates be read from our own files. None: none takes any.
/// Returns also what an operator should hear. `until`: none that is new here is begun with after that.
pub fn open_files(data_dir: &Path, zones: &mut Written, until: Instant) -> io::Result<(Option<Files>, Vec<String>)> {
    if !zones.iter().any(Zone::is_owned) {
        return Ok((None, Vec::new()));
    }
    // Whatever fails after this.
    own(zones, data_dir);
    let folder = data_dir.join(FOLDER);
    Folder::open(&folder)?;
    atomic::sweep(&folder);
    let mut files = Files { folder, zones: HashMap::new(), positions: HashMap::new(), unfit: Unfit::new() };
    let mut remarks = Vec::new();
    for zone in zones.iter_mut().filter(|zone| zone.origin.is_some()) {
        files.find(zone)?;
    }
    // Where another version was served than the file has, it is weighed beside that before anything is made of it.
    let last = LazyCell::new(|| Manifest::open(&data_dir.join(images::FOLDER).join(images::MANIFEST)));
    // Where a file of ours was, and is not any more, somebody wants the zone to begin again.
    let known = |zone: &Zone| last.as_ref().and_then(|last| last.find(&zone.apex));
    let was_ours = |known: &Known<'_>, zone: &Zone| known.file == file_of(&data_dir.join(FOLDER), &zone.apex);
    let released = released(&files.folder)?;
    // Such a one may lack changes that no start reads any more. A copy of all of data-dir has other inodes, and the same times.
    let is_another = |zone: &Zone| {
        let was = known(zone).filter(|known| was_ours(known, zone)).and_then(|known| known.sources().next()?.1);
        let is = std::fs::metadata(&zone.file).map(|is| Stamp::seen(&is));
        was.zip(is.ok()).is_some_and(|(was, is)| (was.size, was.modified_ns) != (is.size, is.modified_ns))
    };
    let held = |zone: &Zone| files.positions.get(&zone.apex).copied().filter(|position| *position < released);
    let others = zones.iter().filter(|zone| held(zone).is_some() && is_another(zone));
    let others = others.filter_map(|zone| Some((zone.apex.clone(), held(zone)?))).collect();
    remarks.extend(begin_earlier(&files.folder, &others, released)?);
    let is_new_version = |zone: &Zone| {
        let known = known(zone).filter(|known| !was_ours(known, zone));
        let is_as_served = |known: Known<'_>| {
            known.problem.is_none() && known.file == zone.file && known.is_current(&mut Looks::default())
        };
        known.is_some_and(|known| !is_as_served(known))
    };
    let is_left_nothing = |zone: &&Zone| zone.is_owned() && !files.has(&zone.apex);
    let lost =
        zones.iter().filter(is_left_nothing).filter(|zone| known(zone).is_some_and(|known| was_ours(&known, zone)));
    let mut anew: BTreeSet<Box<[u8]>> = lost.map(|zone| zone.apex.clone()).collect();
    let new = |files: &Files, zone: &Zone| zone.is_owned() && !files.has(&zone.apex) && !is_new_version(zone);
    if (1..=IMPORTED_FIRST).contains(&zones.iter().filter(|zone| new(&files, zone)).count()) {
        let (end, mut again) = (files.end()?, BTreeSet::new());
        let was_of_file = |zone: &&Zone| known(zone).is_some_and(|known| !was_ours(&known, zone));
        let were: HashSet<Box<[u8]>> =
            zones.iter().filter(|zone| new(&files, zone)).filter(was_of_file).map(|zone| zone.apex.clone()).collect();
        // All of the history is read for them.
        let served = if were.is_empty() { HashMap::new() } else { last_serials(data_dir, |apex| were.contains(apex)) };
        for zone in zones.iter_mut() {
            if !new(&files, zone) {
                continue;
            }
            if Instant::now() >= until {
                break;
            }
            match import(&files.folder, zone, end, served.get(&zone.apex).copied()) {
                Ok(Imported::Now { is_again }) => {
                    again.extend(is_again.then(|| zone.apex.clone()));
                    files.add(zone, end);
                }
                Ok(Imported::Behind) => {}
                Err(why) => remarks.push(format!("the zone {} takes no updates: {why}", name(&zone.apex))),
            }
        }
        if !again.is_empty() {
            // Of one that a crash has kept from being written down there are no updates.
            let updated = last_updates(data_dir);
            anew.extend(again.into_iter().filter(|apex| updated.contains_key(&images::fingerprint_of(apex))));
        }
    }
    if let Some(first) = anew.first() {
        let facts: [(&str, &dyn std::fmt::Display); 2] = [("zones", &anew.len()), ("first", &name(first))];
        log::warn("zones begin anew from their files: what updates had made of them is not there any more", &facts);
    }
    Ok((Some(files), remarks))
}

impl Files {
    /// Takes a zone that was imported before.
    fn find(&mut self, zone: &mut Zone) -> io::Result<()> {
        match position_of(&zone.file) {
            Ok(position) => self.add(zone, position),
            Err(why) => {
                self.unfit.insert(zone.apex.clone(), (released(&self.folder)?, why.to_string()));
            }
        }
        Ok(())
    }

    fn has(&self, apex: &[u8]) -> bool {
        self.positions.contains_key(apex) || self.unfit.contains_key(apex)
    }

    fn add(&mut self, zone: &mut Zone, position: u64) {
        zone.read_from(file_of(&self.folder, &zone.apex));
        self.zones.insert(zone.apex.clone(), Owned::new(zone.allow_update.clone()));
        self.positions.insert(zone.apex.clone(), position);
    }

    /// Where the journal ends: what is imported now has none of its changes.
    fn end(&self) -> io::Result<u64> {
        let released = released(&self.folder)?;
        let (journal, _) = Journal::open(Folder::open(&self.folder)?, SEGMENT_OCTETS, released, &mut |_, _| {})?;
        Ok(journal.next_position())
    }

    /// Reads what the files do not hold. `view`: the image that was made of them, as its manifest says. Returns what is to be laid over
    /// it.
    pub fn replay(
        self,
        view: View<'_>,
        manifest: &Manifest,
        history: History,
    ) -> io::Result<(Ledger, Unwritten, Vec<String>)> {
        let released = released(&self.folder)?;
        let Files { folder, mut zones, mut positions, mut unfit } = self;
        for (apex, position) in
            positions.extract_if(|apex, _| !is_made_of(manifest, view, apex, &file_of(&folder, apex)))
        {
            let wrong = manifest.find(&apex).and_then(|known| known.problem);
            let why = wrong.unwrap_or("what is served was not made of it, as the log says").to_string();
            unfit.insert(apex, (position, why));
        }
        let strangers = Strangers::of(folder.clone());
        let (layers, lasts) = (HashMap::new(), HashMap::new());
        let mut replayed = Replayed { view, positions, unfit, layers, lasts, strangers };
        let (journal, mut remarks) = open(&folder, released, &mut |position, entry| replayed.take(position, entry))?;
        let Replayed { positions, layers, lasts, mut unfit, strangers, .. } = replayed;
        let (mut unwritten, end) = (Unwritten::default(), journal.next_position());
        let beyond = positions.iter().filter(|(_, position)| **position > end).max_by_key(|(_, position)| **position);
        if let Some((apex, position)) = beyond {
            let file = file_of(&folder, apex);
            remarks.push(format!(
                "{}: it holds what stands before change {position}, and the journal ends before {end}: changes of other zones may be missing",
                file.display()
            ));
        }
        for (apex, position) in positions {
            // Where the journal has lost its end, what comes there now is behind all that the file holds.
            match if position > end { renumber(&folder, &apex, end) } else { Ok(()) } {
                Ok(()) => unwritten.add_zone(&apex, position.min(end)),
                Err(why) => _ = unfit.insert(apex, (end, why.to_string())),
            }
        }
        for (apex, (position, why)) in unfit {
            zones.remove(&apex);
            unwritten.add_unfit(&apex, position, why);
        }
        let (told, strangers) = strangers.catch_up(released, end);
        remarks.extend(told);
        strangers.into_iter().for_each(|(apex, position, why)| unwritten.add_unfit(&apex, position, why));
        let wish = |(apex, layer): (Box<[u8]>, Layer<Standing<'_>>)| Wish { apex, names: layer.into_names() };
        unwritten.add(layers.into_iter().map(wish).collect(), end);
        lasts.iter().for_each(|(apex, (serial, wall_s))| unwritten.has_changed(apex, *serial, *wall_s));
        Ok((Ledger::of(folder, journal, released, history, zones), unwritten, remarks))
    }
}

/// Has the journal read from where these zones' files need it, which hold what stands before these positions, and which somebody has put there: before an
/// image is made of them, that does not tell them from those that were there any more. Returns what an operator should hear.
fn begin_earlier(folder: &Path, others: &HashMap<Box<[u8]>, u64>, released: u64) -> io::Result<Vec<String>> {
    let Some(from) = others.values().min() else { return Ok(vec![]) };
    let (mut first, mut older) = (released, BTreeSet::<Box<[u8]>>::new());
    let mut see = |position, octets: &[u8]| {
        let Some(head) = Head::of(octets).filter(|_| position < released) else { return };
        if others.get(head.zone).is_some_and(|held| *held <= position) {
            first = first.min(position);
            older.insert(head.zone.into());
        }
    };
    let damage = Journal::look_through(Folder::open(folder)?, *from, &mut see)?;
    let oldest = Journal::oldest(Folder::open(folder)?)?;
    if damage.is_empty() && first < released {
        // Until they are written down again each start needs it.
        write_released(folder, first)?;
    }
    let told = others.iter().filter_map(|(apex, held)| {
        let what = match damage.first() {
            None if older.contains(apex) => "an older one; what came after it is taken from the journal".to_string(),
            Some(why) if older.contains(apex) => format!("an older one, and what came after it cannot be had: {why}"),
            _ if *held < oldest => {
                format!("another one, and the journal begins with change {oldest}: the zone may lack what stood before")
            }
            _ => return None,
        };
        Some(format!("{}: it is not the one that was there last, but {what}", file_of(folder, apex).display()))
    });
    Ok(told.collect())
}

/// What the journal makes of the zones as their files have them.
struct Replayed<'v> {
    view: View<'v>,
    positions: HashMap<Box<[u8]>, u64>,
    unfit: Unfit,
    layers: HashMap<Box<[u8]>, Layer<Standing<'v>>>,
    /// Of each of these: to which serial the last change led, and when.
    lasts: HashMap<Box<[u8]>, (u32, u64)>,
    strangers: Strangers,
}

impl Replayed<'_> {
    /// Brings a change back.
    fn take(&mut self, position: u64, entry: Entry) {
        if self.unfit.contains_key(&entry.zone) {
            return;
        }
        let Some(&from) = self.positions.get(&entry.zone) else {
            self.strangers.note(position, entry);
            return;
        };
        if position < from {
            return;
        }
        match self.follow(&entry) {
            Ok(()) => _ = self.lasts.insert(entry.zone, (entry.diff.to, entry.when.wall_s)),
            Err(why) => {
                self.layers.remove(&entry.zone);
                self.positions.remove(&entry.zone);
                self.unfit.insert(entry.zone, (from, format!("change {position} of the journal: {why}")));
            }
        }
    }

    /// Err: it is no change of the version that is there.
    fn follow(&mut self, entry: &Entry) -> Result<(), &'static str> {
        let layer = match self.layers.entry(entry.zone.clone()) {
            Occupied(known) => known.into_mut(),
            Vacant(new) => {
                new.insert(Layer::over(Standing::find(self.view, &entry.zone).ok_or("the zone is not served")?))
            }
        };
        layer.follow(&entry.diff).map_err(|misfit| match misfit {
            Misfit::Unreadable => "the image of the zone is damaged",
            Misfit::Record(_) => "it does not fit the zone",
        })
    }
}

/// What has become of a zone that is new here.
enum Imported {
    /// `is_again`: that was begun before.
    Now { is_again: bool },
    /// It was served under a later serial than its file has, by our count: it is written down as it is served, once it is.
    Behind,
}

/// Reads a zone that is new here from the file that is configured, and writes ours. `served`: the serial that its file had served last.
fn import(folder: &Path, zone: &Zone, position: u64, served: Option<u32>) -> Result<Imported, String> {
    let mut origin = Origin::of(data_dir(folder), &zone.apex).map_err(|e| e.to_string())?;
    let is_again = !origin.known().is_empty();
    if !is_again {
        // Nobody knows what went aside before, once it is known what the file holds now.
        aside::give_back(&zone.file.canonicalize().unwrap_or(zone.file.clone()), &origin).map_err(|e| e.to_string())?;
    }
    // What cannot be served would be in the way of what the file comes to hold.
    let serial = findings::sound_serial(zone, &Rules::at(wall_s()), &Stock::below(data_dir(folder)))?;
    if served.is_some_and(|served| is_newer(served, serial)) {
        return Ok(Imported::Behind);
    }
    let mut wrong = None;
    let written = write_file(folder, &zone.apex, position, |out| {
        let kept = origin.keep(zone, out);
        kept.map_err(|why| io::Error::other(wrong.insert(why).clone()))
    });
    written.map(|()| Imported::Now { is_again }).map_err(|e| wrong.unwrap_or_else(|| e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;
    use transfer::allow;

    #[test]
    fn zones_that_are_new_are_written_down_as_long_as_there_is_time() {
        let data = std::env::temp_dir().join(format!("dunlin-files-{}", std::process::id()));
        let _ = fs::remove_dir_all(&data);
        fs::create_dir_all(&data).unwrap();
        let file = data.join("z");
        fs::write(&file, "@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n").unwrap();
        let rules = allow::Rules(vec![allow::Rule::from_text("key:k").unwrap()]);
        let zone = |apex: &[u8]| Zone { allow_update: rules.clone(), ..Zone::new(apex.into(), file.clone()) };
        for (is_over, count) in [(true, 0), (false, 2), (true, 2)] {
            let now = Instant::now();
            let until = if is_over { now } else { now + Duration::from_secs(600) };
            let mut zones = Written::new(vec![zone(b"\x01a\0"), zone(b"\x01b\0")]);
            let (files, remarks) = open_files(&data, &mut zones, until).unwrap();
            assert_eq!((files.unwrap().zones.len(), remarks), (count, vec![]), "{is_over}");
            assert_eq!(zones.iter().filter(|zone| zone.origin.is_some()).count(), count, "those are read from ours");
        }
        fs::remove_dir_all(&data).unwrap();
    }
}
