//! Zones as they are now beside what the manifest says of them: which would be others if they were read, and which are no
//! more. Looks at what is asked for: one zone by its name costs one look at its file, all zones one look at each file, and
//! what names zones is read only if it has changed itself.

use crate::complaint::Complaint;
use crate::config::{self, Roster, Seen, Written, Zone};
use crate::images;
use crate::images::manifest::{Damaged, Known, Manifest};
use crate::log;
use crate::publisher::vigil::Vigil;
use crate::stamp::Looks;
use crate::zonetext::reading::{processors, side_by_side};
use net::sched::Places;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// So many zones are looked at one after another by a processor: one that is busy otherwise must not keep the others waiting.
const PART: usize = 256;
/// So many parts are looked at by all processors together.
const PARTS_FROM: usize = 40;

#[derive(Debug, Default)]
pub struct Difference {
    /// New, or changed, or in another file.
    pub anew: Vec<Zone>,
    pub gone: Vec<Box<[u8]>>,
    /// What named the zones, if all of them were looked at.
    pub seen: Option<Seen>,
}

/// Why nothing can be said.
#[derive(Debug)]
pub enum Hindrance {
    /// The manifest is damaged.
    Manifest,
    /// What names zones is wrong.
    Roster(Vec<Complaint>),
}

impl From<Vec<Complaint>> for Hindrance {
    fn from(complaints: Vec<Complaint>) -> Hindrance {
        Hindrance::Roster(complaints)
    }
}

impl From<Damaged> for Hindrance {
    fn from(_: Damaged) -> Hindrance {
        Hindrance::Manifest
    }
}

impl Difference {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.anew.len() + self.gone.len()
    }

    /// It in two parts; none of one zone. What names zones is in neither.
    pub fn halves(self) -> Vec<Difference> {
        if self.len() < 2 {
            return vec![];
        }
        let Difference { mut anew, mut gone, .. } = self;
        // The larger number of the two is halved.
        let later = if anew.len() > gone.len() {
            Difference { anew: anew.split_off(anew.len() / 2), ..Difference::default() }
        } else {
            Difference { gone: gone.split_off(gone.len() / 2), ..Difference::default() }
        };
        vec![Difference { anew, gone, seen: None }, later]
    }

    /// Which zones it is about.
    pub fn apexes(&self) -> impl Iterator<Item = &Box<[u8]>> {
        self.anew.iter().map(|zone| &zone.apex).chain(&self.gone)
    }
}

/// The zones that there are, and what names them. `takes_list`: as it is now. Else it counts as it was but for those that are wanted: somebody may be
/// writing it just now.
pub fn named(
    roster: &Roster,
    manifest: &Manifest,
    takes_list: bool,
    wanted: &HashSet<Box<[u8]>>,
) -> Result<(Vec<Zone>, Seen), Hindrance> {
    let seen = roster.seen();
    if takes_list || seen.lists_the_same(&manifest.seen) {
        let (zones, strays) = roster.gather_but_strays(|zone| manifest.has(zone))?;
        return Ok((zones, seen.beside(&strays)));
    }
    let now = LazyCell::new(|| roster.listed());
    let mut listed: Vec<Zone> = wanted.iter().filter_map(|apex| now.get(apex).cloned()).collect();
    for known in manifest.part(0, 1) {
        let Known { apex, file, .. } = known?;
        if wanted.contains(apex) {
            continue;
        }
        let (is_found, was_found) = (seen.finds(apex, file), manifest.seen.finds(apex, file));
        let is_elsewhere = || roster.in_directories(&images::name(apex).to_string()).is_some();
        match is_found || was_found {
            // It went with its file. The list may name it all the same.
            true if file.symlink_metadata().is_err() => listed.extend(now.get(apex).cloned()),
            // That is found where it lies, or one that lies in another folder by now.
            true if is_found || is_elsewhere() => {}
            // Nobody has asked for all zones since its folder, if it is of one, is none of zones any more.
            _ => listed.push(Zone::new(apex.into(), file.into())),
        }
    }
    let (zones, strays) = roster.gather_with(listed, |zone| manifest.has(zone))?;
    Ok((zones, seen.with_list_of(&manifest.seen).beside(&strays)))
}

/// Looks at all zones, but for those of which the kernel says that nobody has touched them.
pub fn of_all(roster: &Roster, manifest: &mut Manifest, takes_list: bool) -> Result<Difference, Hindrance> {
    let mut vigil = manifest.vigil.take().and_then(Vigil::goes_on).or_else(|| Vigil::begin(manifest));
    let mut seen = roster.seen();
    let mut difference = if seen.names_the_same(&manifest.seen) {
        let difference = of_known(roster, manifest, vigil.as_ref())?;
        vigil.iter_mut().for_each(Vigil::all_were_met);
        difference
    } else {
        let zones;
        (zones, seen) = named(roster, manifest, takes_list, &HashSet::new())?;
        of_these(&zones, manifest, vigil.as_ref())?
    };
    difference.seen = Some(seen);
    // What was seen in a folder that is another one by now says nothing.
    manifest.vigil = vigil.and_then(Vigil::stays);
    Ok(difference)
}

/// Looks at the files of a new image, so that the first who asks about all zones need not. Those that have changed are looked at
/// again by him.
pub fn beforehand(manifest: &mut Manifest) {
    let vigil = Vigil::begin(manifest);
    // A manifest that is damaged is found to be so by whoever asks.
    let _ = changed(&Written::default(), manifest, vigil.as_ref());
    manifest.vigil = vigil.and_then(Vigil::stays);
}

/// The zones are the same as before; their files may have changed, and `[[zone]]` may name others.
fn of_known(roster: &Roster, manifest: &Manifest, vigil: Option<&Vigil>) -> Result<Difference, Hindrance> {
    let is_moved = |zone: &&Zone| manifest.find(&zone.apex).is_none_or(|known| known.file != zone.file);
    let moved: Vec<&Zone> = roster.written.iter().filter(is_moved).collect();
    let (awaited, here): (Vec<&Zone>, Vec<&Zone>) = moved.iter().partition(|zone| zone.is_awaited());
    let moved: HashSet<&[u8]> = moved.iter().map(|zone| &*zone.apex).collect();
    let mut anew: Vec<Zone> = here.into_iter().cloned().collect();
    anew.extend(changed(&roster.written, manifest, vigil)?.into_iter().filter(|zone| !moved.contains(&*zone.apex)));
    // What is to come from others is not what another file had.
    let was_there = |zone: &&Zone| manifest.find(&zone.apex).is_some();
    let gone = awaited.into_iter().filter(was_there).map(|zone| zone.apex.clone()).collect();
    Ok(Difference { anew, gone, seen: None })
}

/// Zones whose files are others than the manifest says.
fn changed(written: &Written, manifest: &Manifest, vigil: Option<&Vigil>) -> Result<Vec<Zone>, Damaged> {
    let parts = manifest.zones().div_ceil(PART).max(1);
    in_parts(parts, vigil, |part, looks| {
        let is_other = |known: &Result<Known<'_>, Damaged>| known.as_ref().map_or(true, |k| !k.is_current(looks));
        let changed = manifest.part(part, parts).filter(is_other);
        changed.map(|known| known.map(|k| written.zone(k.apex.into(), k.file.into()))).collect()
    })
}

/// Looks at zones a part at a time; at many on all processors.
fn in_parts(
    parts: usize,
    vigil: Option<&Vigil>,
    look: impl Fn(usize, &mut Looks<'_>) -> Result<Vec<Zone>, Damaged> + Sync,
) -> Result<Vec<Zone>, Damaged> {
    let next = AtomicUsize::new(0);
    let look = || -> Result<Vec<Zone>, Damaged> {
        let mut found = vec![];
        while let Some(part) = Some(next.fetch_add(1, Relaxed)).filter(|&part| part < parts) {
            found.extend(look(part, &mut Looks::beside(vigil))?);
        }
        Ok(found)
    };
    if parts < PARTS_FROM {
        return look();
    }
    let (many, look) = (processors(), &look);
    let places = &Places::new(many);
    let found = side_by_side((0..many).map(|place| move || places.at(place, look)));
    let found: Vec<Vec<Zone>> = found.into_iter().collect::<Result<_, _>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// These are all zones.
pub fn of_these(zones: &[Zone], manifest: &Manifest, vigil: Option<&Vigil>) -> Result<Difference, Hindrance> {
    let gone = manifest.beside(zones.iter().map(|zone| &*zone.apex)).ok_or(Hindrance::Manifest)?;
    let parts: Vec<&[Zone]> = zones.chunks(PART).collect();
    let anew = in_parts(parts.len(), vigil, |part, looks| {
        Ok(parts[part].iter().filter(|zone| is_other(zone, manifest, looks)).cloned().collect())
    })?;
    Ok(Difference { anew, gone, seen: None })
}

/// Looks at zones by their names. Those that nobody names are not in the difference. `is_asked`: by an operator. Else lists count as he has asked
/// for them last; and it is known how the names of files are written, and not for each that goes all of its folder is to be looked through.
pub fn of_named(
    roster: &Roster,
    manifest: &Manifest,
    names: &[String],
    is_asked: bool,
) -> Result<Difference, Hindrance> {
    // A zone may be named by its file, by another one that was its, and by what they include, and each name it differently.
    let mut apexes = HashMap::<Box<[u8]>, Vec<&str>>::new();
    for name in names {
        config::apex(name).into_iter().for_each(|apex| apexes.entry(apex).or_default().push(name));
    }
    let other = is_asked.then(|| roster.seen()).filter(|seen| !seen.lists_the_same(&manifest.seen));
    if let Some(seen) = other {
        let (zones, strays) = roster.gather_but_strays(|zone| manifest.has(zone))?;
        let asked = apexes.into_keys().collect();
        let difference = of_listed(&zones, manifest, &asked);
        // Or whoever asks for a zone by its name next would have to read the list again, and all later ones.
        let is_all = strays.is_empty() && are_all_there(&zones, manifest, &asked)?;
        return Ok(Difference { seen: is_all.then_some(seen), ..difference });
    }
    let listed = LazyCell::new(|| roster.listed_among(&apexes.keys().cloned().collect()));
    let mut difference = Difference::default();
    for (apex, names) in &apexes {
        let known = || manifest.find(apex).map(|known| Zone::new(apex.clone(), known.file.into()));
        // A file may be named as the zone's name is written anywhere.
        let named = || names.iter().find_map(|name| roster.in_directories(name));
        let file = || named().or_else(|| roster.in_directories(&images::name(apex).to_string()));
        // What commands keep is named as the zone is.
        let is_kept = || manifest.find(apex).is_some_and(|known| roster.keeps(known.file));
        let anywhere = || if is_asked && !is_kept() { roster.anywhere_in_directories(apex) } else { None };
        let found = || file().or_else(anywhere).map(|file| Zone::new(apex.clone(), file));
        let written = roster.written.find(apex);
        // It has been given a file of a folder since, which wins.
        let moved = || file().filter(|file| is_kept() && !roster.keeps(file)).map(|file| Zone::new(apex.clone(), file));
        let mut zone = written.cloned().or_else(moved).or_else(known).or_else(found);
        // With its folder it is away, and no word that the zone is to go; nor is a folder that cannot be entered.
        let is_none = |file: &Path| file.symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound);
        let is_gone = |file: &Path| is_none(file) && file.parent().is_some_and(Path::is_dir);
        let is_missing = |zone: &Zone| written.is_none() && manifest.seen.holds(&zone.file) && is_gone(&zone.file);
        if zone.as_ref().is_some_and(is_missing) {
            // The list may name it all the same, or another file of a folder is its. What the list named is not read from where commands keep it.
            let in_list = || listed.get(apex).cloned();
            let is_nowhere = is_kept() && roster.seen().lists_the_same(&manifest.seen);
            zone = if is_nowhere { None } else { in_list() }.or_else(found);
            difference.gone.extend(zone.is_none().then(|| apex.clone()));
        }
        let is_new = |zone: &&Zone| written.is_none() && !manifest.has(zone);
        if let Some(complaint) = zone.as_ref().filter(is_new).and_then(|zone| roster.hinders(zone)) {
            if is_asked {
                return Err(Hindrance::Roster(vec![complaint]));
            }
            // Others that have changed at the same time have nothing to do with it.
            log::error("reload", &[("why", &complaint)]);
            continue;
        }
        match zone.filter(|zone| is_other(zone, manifest, &mut Looks::default())) {
            Some(zone) if !zone.is_awaited() || manifest.has(&zone) => difference.anew.push(zone),
            // What is to come from others is not what another file had.
            Some(zone) if manifest.find(apex).is_some() => difference.gone.push(zone.apex),
            _ => {}
        }
    }
    Ok(difference)
}

/// Whether zones have come, gone or been given other files only among those that are asked for.
fn are_all_there(zones: &[Zone], manifest: &Manifest, asked: &HashSet<Box<[u8]>>) -> Result<bool, Hindrance> {
    let is_there = |zone: &Zone| asked.contains(&zone.apex) || manifest.has(zone);
    let gone = || manifest.beside(zones.iter().map(|zone| &*zone.apex)).ok_or(Hindrance::Manifest);
    Ok(zones.iter().all(is_there) && gone()?.iter().all(|apex| asked.contains(apex)))
}

/// Of all these zones only those that are asked for.
fn of_listed(zones: &[Zone], manifest: &Manifest, asked: &HashSet<Box<[u8]>>) -> Difference {
    let here: Vec<&Zone> = zones.iter().filter(|zone| asked.contains(&zone.apex)).collect();
    let there: HashSet<&[u8]> = here.iter().map(|zone| &*zone.apex).collect();
    let is_gone = |apex: &[u8]| manifest.find(apex).is_some() && !there.contains(apex);
    let gone = asked.iter().filter(|apex| is_gone(apex)).cloned().collect();
    let mut looks = Looks::default();
    let anew = here.iter().filter(|zone| is_other(zone, manifest, &mut looks)).map(|&zone| zone.clone()).collect();
    Difference { anew, gone, seen: None }
}

/// True if the zone would be another than that of the manifest if it were read now.
pub fn is_other(zone: &Zone, manifest: &Manifest, looks: &mut Looks<'_>) -> bool {
    manifest.find(&zone.apex).is_none_or(|known| known.file != zone.file || !known.is_current(looks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Recorder;
    use crate::images::held::Gate;
    use crate::images::lately::Last;
    use crate::images::manifest::{Entry, Identity};
    use crate::images::{Before, Beforehand, Library, Others, Shelved};
    use ::image::Image;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};
    use store::Stretch;
    use wire::rtype::A;

    /// A configuration with zones of all kinds: w is written, l and m are listed, d lies in a folder.
    struct Desk(PathBuf);

    const ZONE: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

    impl Desk {
        fn new(name: &str) -> Desk {
            let folder = std::env::temp_dir().join(format!("dunlin-comparison-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("zones")).unwrap();
            let desk = Desk(folder);
            ["w", "l", "m", "zones/d.zone"].iter().for_each(|name| desk.file(name, ZONE));
            desk.file("list", "l l\nm m\n");
            desk.configure("[[zone]]\nname = \"w\"\nfile = \"w\"\n");
            desk.settle("zones");
            desk
        }

        fn configure(&self, written: &str) {
            self.file("dunlin.toml", &format!("[zones]\nlist = \"list\"\ndirectory = \"zones\"\n{written}"));
        }

        /// Writes a file, and as if it had been some time ago.
        fn file(&self, name: &str, text: &str) {
            fs::write(self.0.join(name), text).unwrap();
            self.settle(name);
        }

        fn settle(&self, name: &str) {
            let old = SystemTime::now() - Duration::from_secs(60);
            fs::File::open(self.0.join(name)).unwrap().set_modified(old).unwrap();
        }

        fn roster(&self) -> Roster {
            config::read(&self.0.join("dunlin.toml")).unwrap().roster
        }

        /// All zones as their files say, in the first image.
        fn served(&self) -> (Library, Vec<Zone>, Seen, Shelved) {
            let (roster, library) = (self.roster(), Library::open(&self.0).unwrap());
            let (zones, seen) = (roster.gather(|_| false).unwrap(), roster.seen());
            let first = library.first(&zones, &seen, None, Beforehand::none(&self.0)).unwrap();
            (library, zones, seen, first)
        }

        fn manifest(&self) -> Manifest {
            let (roster, library) = (self.roster(), Library::open(&self.0).unwrap());
            let last = Last::open(&library, &roster.written);
            library
                .first(&roster.gather(|_| false).unwrap(), &roster.seen(), last, Beforehand::none(&self.0))
                .unwrap()
                .manifest
        }
    }

    impl Drop for Desk {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_done_with_the_zones_of_a_new_image_is_done_before_a_start_could_find_it() {
        let desk = Desk::new("beforehand");
        let (roster, library, manifest) =
            (desk.roster(), Library::open(&desk.0).unwrap(), desk.0.join("images/zones.manifest"));
        let current = |zones: &[Zone]| {
            let (seen, mut told) = (fs::read(&manifest).ok(), Vec::new());
            let mut note = |_: &mut Recorder, entries: &[Entry]| {
                assert_eq!(fs::read(&manifest).ok(), seen, "what a start would find");
                told.extend(entries.iter().map(|entry| entry.apex.clone()));
            };
            let beforehand = Beforehand { note: &mut note, ..Beforehand::none(&desk.0) };
            library.first(zones, &roster.seen(), Last::open(&library, &roster.written), beforehand).unwrap();
            assert!(told.is_empty() || fs::read(&manifest).ok() != seen);
            told
        };
        let zones = roster.gather(|_| false).unwrap();
        assert_eq!(current(&zones).len(), zones.len());
        assert!(current(&zones).is_empty(), "no other image");
        assert_eq!(current(&zones[1..]).len(), zones.len() - 1);
    }

    /// Of all names of a zone.
    fn addresses(image: &Image<Stretch>, apex: &[u8]) -> Vec<Vec<u8>> {
        let mut found = vec![];
        let mut list = |_: &[u8], rtype, _, rdata: &[u8]| found.extend((rtype == A).then(|| rdata.to_vec()));
        image.view().zone_of(apex).unwrap().unwrap().for_each_record(&mut list).unwrap();
        found
    }

    /// The others need not be read again for it.
    #[test]
    fn a_zone_whose_file_is_wrong_goes_on_as_it_was_in_an_image_that_is_made_in_one_go() {
        let desk = Desk::new("stands");
        let (library, zones, seen, first) = desk.served();
        desk.file("l", &ZONE.replace("A 192.0.2.1", "A 192.0.2"));
        desk.file("m", &ZONE.replace("192.0.2.1", "192.0.2.2"));
        library.read.store(0, Relaxed);
        let before = Before { image: &first.image, manifest: &first.manifest };
        let again = library.again(&zones, &|_| true, &seen, before, Beforehand::none(&desk.0)).unwrap();
        let octets: u64 = zones.iter().map(|zone| fs::metadata(&zone.file).unwrap().len()).sum();
        assert!((1..=octets).contains(&library.read.load(Relaxed)), "{octets}");
        let [problem] = &again.manifest.problems()[..] else { panic!("{:?}", again.manifest.problems()) };
        assert!(*problem.apex == *b"\x01l\0" && problem.what.starts_with("it goes on as it was: "), "{problem:?}");
        for (apex, address) in [(b"\x01l\0", 1), (b"\x01m\0", 2)] {
            assert_eq!(addresses(&again.image, apex), [[192, 0, 2, address]]);
        }
        // One that was never served is in no image.
        let alone = library.first(&zones, &seen, None, Beforehand::none(&desk.0)).unwrap();
        assert!(alone.image.view().zone_of(b"\x01l\0").unwrap().is_none());
    }

    /// Somebody begins to write there between the look at the file and its turn to be read.
    #[test]
    fn a_file_that_nobody_has_asked_for_is_not_read_though_it_changes_while_an_image_is_made() {
        let desk = Desk::new("unasked");
        let (library, zones, seen, first) = desk.served();
        let [early, .., late] = &zones[..] else { panic!("there are four") };
        let write = |zone: &Zone| {
            fs::write(&zone.file, ZONE.replace("192.0.2.1", "192.0.2.2")).unwrap();
            desk.settle(zone.file.strip_prefix(&desk.0).unwrap().to_str().unwrap());
        };
        write(late);
        let asked = std::cell::Cell::new(0);
        // Asked in the order of the zones, of those whose files are not as they were: the first one was by then.
        let wanted = |zone: &Zone| {
            if asked.replace(asked.get() + 1) == 0 {
                assert!(zone.apex == late.apex);
                write(early);
            }
            false
        };
        let before = Before { image: &first.image, manifest: &first.manifest };
        let next = library.current(&zones, &wanted, &seen, before, Beforehand::none(&desk.0)).unwrap();
        assert!(asked.get() > 0 && next.manifest.problems().is_empty(), "{:?}", next.manifest.problems());
        for zone in &zones {
            assert_eq!(addresses(&next.image, &zone.apex), [[192, 0, 2, 1]], "{}", zone.file.display());
            let is_other = zone.apex == early.apex || zone.apex == late.apex;
            let is_current = next.manifest.find(&zone.apex).unwrap().is_current(&mut Looks::default());
            assert_eq!(is_current, !is_other, "the next reload reads it");
        }
    }

    /// It is held where it comes first, and where it is served somebody has had it so.
    #[test]
    fn what_others_sent_with_a_wrong_digest_goes_on_as_it_is_served() {
        let desk = Desk::new("undigested");
        desk.configure("[[zone]]\nname = \"w\"\nfile = \"w\"\nprimaries = [\"192.0.2.7\"]\n");
        let wrong = format!("{ZONE}@ ZONEMD 1 1 1 {}\n", "00".repeat(48));
        desk.file("w", &wrong);
        let (mut library, zones, seen, first) = desk.served();
        let config = config::read(&desk.0.join("dunlin.toml")).unwrap();
        assert!(config.guards.is_some());
        library.gate = Arc::new(Gate::new(&config, HashSet::new()));
        desk.file("w", &(wrong + "more A 192.0.2.2\n"));
        let before = Before { image: &first.image, manifest: &first.manifest };
        let next = library.current(&zones, &|_| false, &seen, before, Beforehand::none(&desk.0)).unwrap();
        assert_eq!((next.manifest.problems(), addresses(&next.image, b"\x01w\0")), (vec![], vec![vec![192, 0, 2, 1]]));
    }

    /// Nor for a version that is held, while its file stays as it is.
    #[test]
    fn a_version_that_was_held_is_not_read_again_to_be_held() {
        let desk = Desk::new("held");
        let (roster, mut library) = (desk.roster(), Library::open(&desk.0).unwrap());
        let mut config = config::read(&desk.0.join("dunlin.toml")).unwrap();
        config.guards = Some(audit::Guards::default());
        library.gate = Arc::new(Gate::new(&config, HashSet::new()));
        let (zones, seen) = (roster.gather(|_| false).unwrap(), roster.seen());
        let mut shelved = library.first(&zones, &seen, None, Beforehand::none(&desk.0)).unwrap();
        let later = |text: &str| text.replace("SOA ns h 1", "SOA ns h 2").replace("192.0.2.1", "192.0.2.2");
        // An older serial.
        desk.file("l", &later(ZONE).replace("h 2", "h 0"));
        let octets = |zones: &[Zone]| zones.iter().map(|z| fs::metadata(&z.file).unwrap().len()).sum::<u64>();
        let others: Vec<Zone> = zones.iter().filter(|zone| *zone.apex != *b"\x01l\0").cloned().collect();
        for (edit, most) in [("m", 2 * octets(&zones)), ("w", octets(&others)), ("m", octets(&others))] {
            let text = fs::read_to_string(desk.0.join(edit)).unwrap();
            desk.file(edit, &later(&text));
            library.read.store(0, Relaxed);
            let before = Before { image: &shelved.image, manifest: &shelved.manifest };
            shelved = library.current(&zones, &|_| true, &seen, before, Beforehand::none(&desk.0)).unwrap();
            let read = library.read.load(Relaxed);
            assert!((1..=most).contains(&read), "{edit}: {read} of {most}");
            let [problem] = &shelved.manifest.problems()[..] else { panic!("{:?}", shelved.manifest.problems()) };
            assert!(
                problem.what.starts_with("held: it goes on as it was; the new version: the serial 0"),
                "{problem:?}"
            );
            let zone = shelved.image.view().zone_of(b"\x01l\0").unwrap().unwrap();
            assert_eq!(zone.serial(), Ok(1));
        }
        // It is as soon as its file is another, or somebody wants all to be weighed again.
        library.gate = Arc::default();
        let before = Before { image: &shelved.image, manifest: &shelved.manifest };
        let again = library.again(&zones, &|_| true, &seen, before, Beforehand::none(&desk.0)).unwrap();
        assert_eq!(again.manifest.problems(), []);
        desk.file("l", &later(ZONE));
        let current = library.current(&zones, &|_| true, &seen, before, Beforehand::none(&desk.0)).unwrap();
        assert_eq!(current.manifest.problems(), []);
    }

    #[test]
    fn zones_that_come_and_go_are_known_of_their_image_alone() {
        let desk = Desk::new("others");
        let (image, library) = (desk.manifest().image(), Library::open(&desk.0).unwrap());
        let apexes: Vec<Box<[u8]>> = ["l", "a\\.b.c"].iter().map(|name| config::apex(name).unwrap()).collect();
        let files = [Some(PathBuf::from("a b.zone")), None];
        let others: Others = apexes.into_iter().zip(files).collect();
        assert!(library.note_others(image, Others::new()).is_ok());
        others.clone().into_iter().for_each(|other| library.note_others(image, Others::from([other])).unwrap());
        assert_eq!(library.others(image), others);
        assert!(library.others(Identity { seed: image.seed ^ 1, ..image }).is_empty());
    }

    #[test]
    fn an_image_has_its_manifest_wherever_a_kill_stopped_who_named_them() {
        let desk = Desk::new("pair");
        let library = Library::open(&desk.0).unwrap();
        let [image, manifest, next] =
            ["zones.image", "zones.manifest", "zones.manifest.next"].map(|name| desk.0.join("images").join(name));
        let pair = || [&image, &manifest].map(|file| fs::read(file).unwrap());
        desk.manifest();
        let before = pair();
        desk.file("l", &ZONE.replace("192.0.2.1", "192.0.2.2"));
        desk.manifest();
        let after = pair();
        assert!(before != after && !next.exists());
        // The steps: the new manifest has its first name, then the image its, then the manifest its.
        for (is_image, is_manifest) in [(&before[0], &before[1]), (&after[0], &before[1]), (&after[0], &after[1])] {
            fs::write(&next, &after[1]).unwrap();
            fs::write(&image, is_image).unwrap();
            fs::write(&manifest, is_manifest).unwrap();
            let last = library.last().expect("a pair that fits").manifest.image();
            let fits = if is_image == &before[0] { &before } else { &after };
            assert_eq!(last.size as usize, fits[0].len());
            assert_eq!(&pair(), fits);
        }
    }

    /// Zones that are anew, with a plus, and those that are gone, with a minus.
    fn told(found: Result<Difference, Hindrance>) -> Vec<String> {
        let found = found.unwrap();
        let name = |apex: &[u8]| images::name(apex).to_string();
        let file = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
        let anew = found.anew.iter().map(|zone| format!("+{} {}", name(&zone.apex), file(&zone.file)));
        let mut all: Vec<String> = anew.chain(found.gone.iter().map(|apex| format!("-{}", name(apex)))).collect();
        all.sort();
        all
    }

    /// What is found of all zones, and of each when it is asked for.
    #[track_caller]
    fn check(desk: &Desk, manifest: &mut Manifest, expect: &[&str]) {
        assert_eq!(told(of_all(&desk.roster(), manifest, true)), expect);
        assert_eq!(told(of_all(&desk.roster(), manifest, true)), expect, "nobody has touched anything since");
        let vigil = manifest.vigil.take();
        assert_eq!(told(of_all(&desk.roster(), manifest, true)), expect, "as if nobody had looked before");
        beforehand(manifest);
        assert_eq!(told(of_all(&desk.roster(), manifest, true)), expect, "looked at beforehand");
        manifest.vigil = vigil;
        let mut each = vec![];
        for name in ["w", "L.", "m", "d", "e", "n", "../l", ""] {
            each.extend(told(of_named(&desk.roster(), manifest, &[name.to_string()], true)));
        }
        each.sort();
        assert_eq!(each, expect, "by their names");
    }

    #[test]
    fn what_changed_came_or_went_is_found_by_all_and_by_name() {
        let desk = Desk::new("found");
        let mut manifest = desk.manifest();
        check(&desk, &mut manifest, &[]);
        let seen = of_all(&desk.roster(), &mut manifest, true).unwrap().seen.unwrap();
        assert!(seen.names_the_same(&manifest.seen));
        desk.file("l", "other");
        check(&desk, &mut manifest, &["+l. l"]);
        desk.file("zones/e.zone", ZONE);
        fs::remove_file(desk.0.join("zones/d.zone")).unwrap();
        check(&desk, &mut manifest, &["+e. e.zone", "+l. l", "-d."]);
        desk.file("list", "l m\nn l\n");
        check(&desk, &mut manifest, &["+e. e.zone", "+l. m", "+n. l", "-d.", "-m."]);
        desk.file("dunlin.toml", "[[zone]]\nname = \"m\"\nfile = \"w\"\n");
        check(&desk, &mut manifest, &["+m. w", "-d.", "-l.", "-w."]);
    }

    #[test]
    fn a_file_of_a_folder_is_found_however_its_name_is_written_and_wherever_it_leads() {
        let desk = Desk::new("spelt");
        let manifest = desk.manifest();
        let by = |names: &[&str], is_asked| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            told(of_named(&desk.roster(), &manifest, &names, is_asked))
        };
        fs::rename(desk.0.join("zones/d.zone"), desk.0.join("zones/D.zone")).unwrap();
        for names in [&["d", "D"][..], &["D", "d"], &["D", "d."]] {
            assert_eq!(by(names, false), ["+d. D.zone"]);
        }
        desk.file("zones/E.zone", ZONE);
        assert_eq!(by(&["e"], true), ["+e. E.zone"]);
        assert_eq!([by(&["d"], true), by(&["d"], false)], [["+d. D.zone"], ["-d."]]);
        // Where a link leads nowhere the zone goes on, as of any file that cannot be read.
        fs::remove_file(desk.0.join("zones/D.zone")).unwrap();
        std::os::unix::fs::symlink("nowhere", desk.0.join("zones/d.zone")).unwrap();
        assert_eq!(by(&["d"], false), ["+d. d.zone"]);
    }

    #[test]
    fn a_zone_that_the_list_names_is_not_gone_with_its_file() {
        let desk = Desk::new("missing");
        desk.file("zones/x.zone", ZONE);
        desk.file("list", "l l\nm m\nx zones/x.zone\n");
        desk.settle("zones");
        let manifest = desk.manifest();
        fs::remove_file(desk.0.join("zones/x.zone")).unwrap();
        assert_eq!(told(of_named(&desk.roster(), &manifest, &["x".to_string()], false)), ["+x. x.zone"]);
    }

    #[test]
    fn a_file_that_is_missing_still_is_no_change() {
        let desk = Desk::new("absent");
        fs::remove_file(desk.0.join("l")).unwrap();
        desk.file("m", "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n$INCLUDE more\n");
        let mut manifest = desk.manifest();
        check(&desk, &mut manifest, &[]);
        desk.file("l", ZONE);
        desk.file("more", "a A 192.0.2.2\n");
        check(&desk, &mut manifest, &["+l. l", "+m. m"]);
    }

    #[test]
    fn a_zone_is_looked_at_once_however_often_it_is_named() {
        let desk = Desk::new("once");
        let manifest = desk.manifest();
        desk.file("l", "other");
        fs::remove_file(desk.0.join("zones/d.zone")).unwrap();
        let names = ["l", "L.", "d.", "d"].map(str::to_string);
        assert_eq!(told(of_named(&desk.roster(), &manifest, &names, false)), ["+l. l", "-d."]);
    }

    /// A list of a million zones is read for a zone of it only while it is another than that of what is served.
    #[test]
    fn a_list_is_not_read_again_once_all_that_is_another_in_it_was_asked_for() {
        let desk = Desk::new("again");
        let manifest = desk.manifest();
        let by = |manifest: &Manifest, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            of_named(&desk.roster(), manifest, &names, true).unwrap()
        };
        let is_seen =
            |difference: Difference| difference.seen.is_some_and(|seen| seen.lists_the_same(&desk.roster().seen()));
        let text = fs::read_to_string(desk.0.join("list")).unwrap();
        desk.file("list", &text);
        assert!(is_seen(by(&manifest, &["l"])), "written anew, and the same");
        desk.file("list", "l l\nn l\no m\n");
        for (names, expect) in
            [(&["l"][..], false), (&["n", "m"], false), (&["n", "o"], false), (&["m", "n", "o"], true)]
        {
            assert_eq!(is_seen(by(&manifest, names)), expect, "{names:?}");
        }
        desk.file("list", "l m\nm m\n");
        assert!(!is_seen(by(&manifest, &["m"])), "another file of a zone");
        assert!(is_seen(by(&manifest, &["l"])));
        // Which nobody hears of, who asks for all.
        desk.file("zones/no name.zone", ZONE);
        assert!(!is_seen(by(&manifest, &["l"])));
    }

    /// It counts as listed as long as nobody asks for all zones.
    #[test]
    fn a_zone_that_was_taken_out_while_others_were_asked_for_is_gone_when_somebody_asks_for_all() {
        let desk = Desk::new("left");
        let mut manifest = desk.manifest();
        desk.configure("");
        let roster = desk.roster();
        let (zones, seen) = named(&roster, &manifest, false, &HashSet::new()).unwrap();
        assert!(zones.iter().any(|zone| *zone.apex == *b"\x01w\0"));
        // An image is made of these.
        manifest.seen = seen;
        assert_eq!(told(of_all(&roster, &mut manifest, true)), ["-w."]);
    }

    /// Nobody has asked for all zones since; whoever does gets what is named now.
    #[test]
    fn zones_go_on_whose_folder_is_none_of_zones_any_more_until_somebody_asks_for_all() {
        let written = "[[zone]]\nname = \"w\"\nfile = \"w\"\n";
        for (list, now, expect) in [
            ("l l\nm m\n", "list = \"list\"\n", &["-d."][..]),
            ("l l\nm m\n", "list = \"list\"\ndirectory = \"others\"\n", &["-d."]),
            ("l l\nm m\nd zones/d.zone\n", "list = \"list\"\ndirectory = \"others\"\n", &[]),
            ("l l\nm m\n", "directory = \"others\"\n", &["-d.", "-l.", "-m."]),
        ] {
            let desk = Desk::new("no-folder");
            fs::create_dir(desk.0.join("others")).unwrap();
            desk.settle("others");
            desk.file("list", list);
            let mut manifest = desk.manifest();
            desk.file("dunlin.toml", &format!("[zones]\n{now}{written}"));
            let roster = desk.roster();
            // As an image is made, twice.
            for _ in 0..2 {
                let (zones, seen) = named(&roster, &manifest, false, &HashSet::new()).unwrap();
                let mut apexes: Vec<String> = zones.iter().map(|zone| images::name(&zone.apex).to_string()).collect();
                apexes.sort();
                assert_eq!(apexes, ["d.", "l.", "m.", "w."], "{now}");
                manifest.seen = seen;
            }
            assert_eq!(told(of_all(&roster, &mut manifest, true)), expect, "{now}");
        }
    }

    #[test]
    fn a_written_zone_may_move_to_another_file() {
        let desk = Desk::new("moved");
        let mut manifest = desk.manifest();
        desk.configure("[[zone]]\nname = \"w\"\nfile = \"l\"\n");
        check(&desk, &mut manifest, &["+w. l"]);
    }

    #[test]
    fn what_changes_over_an_image_is_compared_with_itself() {
        let desk = Desk::new("over");
        let mut manifest = desk.manifest();
        desk.file("list", "m m\nn l\n");
        let roster = desk.roster();
        let difference = of_all(&roster, &mut manifest, true).unwrap();
        let entry = |zone: &Zone| Entry::read(zone, vec![(zone.file.clone(), crate::stamp::Stamp::of(&zone.file))]);
        let entries: Vec<_> = difference.anew.iter().map(entry).collect();
        manifest.change(&entries, &difference.gone);
        check(&desk, &mut manifest, &[]);
        manifest.seen = difference.seen.unwrap();
        check(&desk, &mut manifest, &[]);
        desk.file("l", "other");
        check(&desk, &mut manifest, &["+n. l"]);
    }

    #[test]
    fn a_list_that_is_wrong_is_complained_of() {
        let desk = Desk::new("wrong");
        let mut manifest = desk.manifest();
        desk.file("list", "l\n");
        let said = |found: Result<Difference, Hindrance>| match found {
            Err(Hindrance::Roster(complaints)) => complaints[0].what.clone(),
            found => panic!("{found:?}"),
        };
        assert_eq!(said(of_all(&desk.roster(), &mut manifest, true)), "the zone `l` has no file");
        assert_eq!(said(of_named(&desk.roster(), &manifest, &["m".to_string()], true)), "the zone `l` has no file");
        // Whose file has changed, nobody has asked for the list.
        desk.file("m", "other");
        assert_eq!(told(of_named(&desk.roster(), &manifest, &["m".to_string()], false)), ["+m. m"]);
    }
}
