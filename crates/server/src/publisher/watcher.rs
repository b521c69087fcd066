//! Notices that zone files change: watches the folders of zones (never single files), what their zones include, and the
//! folder of images. What the file of a zone includes that updates own is known to the scribe, and told by it.
//!
//! Editors write a file in several steps, and many files may change at once: names are collected until it was quiet for
//! `QUIET`, or for `LONGEST` in all, and handed on together. When the kernel's queue overflows, or too many zones are
//! named, everything is compared instead.

use crate::config::Config;
use crate::images;
use crate::images::inspector::Alarm;
use crate::images::manifest::{Entry, Identity, Manifest};
use crate::log;
use crate::publisher::includes::Includes;
use crate::state::{Event, State};
use front::locks::hold;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::folder::zone_of;
use store::watch::{Change, Mounts, Watch, What};

const QUIET: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);
/// The folder of a name without one.
const HERE: &str = ".";
/// How often it is looked whether a folder that is missing is back.
const MISSED: Duration = Duration::from_secs(5);
/// More names than these are everything.
const NAMES_MAX: usize = 10_000;
/// Folders that are watched because something in them is included. Beyond it is the operator who must ask for a reload.
const FOLDERS_MAX: usize = 1_000;

/// The watched folders: the publisher changes them with the configuration.
pub struct Folders {
    watch: Watch,
    /// None: the kernel does not tell of them here.
    mounts: Option<Mounts>,
    /// Where images lie.
    images: PathBuf,
    known: Mutex<Known>,
}

pub struct Followed {
    /// Not the same as before.
    pub are_others: bool,
    /// Some that were missing.
    pub are_back: bool,
}

#[derive(Default)]
struct Known {
    /// Folders of zones.
    zones: Vec<PathBuf>,
    /// The image whose manifest says this, and the files that are included by those of its zones.
    image: Option<Identity>,
    imaged: Includes,
    /// By those of zones that updates own.
    owned: Includes,
    /// By those of zones that were laid over the image since that is there: what its manifest does not say.
    laid: Includes,
    /// By those that were laid over the one before, maybe while this one was made.
    laid_before: Includes,
    /// Folders of files that are included, as far as they are watched.
    including: BTreeSet<PathBuf>,
    /// Folders in which links on the way to those stand, likewise.
    links_to_including: BTreeSet<PathBuf>,
    /// Folders in which links on the way to those of zones stand.
    links: BTreeSet<PathBuf>,
    /// Those of all these that are not watched, for they are not there, or cannot be.
    missing: BTreeSet<PathBuf>,
    /// Nor is that of images.
    lacks_images: bool,
}

/// The folders in which links stand that lead to this one.
fn links_to(folder: &Path) -> impl Iterator<Item = PathBuf> {
    // Without a slash at its end, which would be what the link leads to.
    let way: PathBuf = folder.components().collect();
    let links = way.ancestors().filter(|on_the_way| on_the_way.is_symlink()).filter_map(Path::parent);
    let here = |above: &Path| if above.as_os_str().is_empty() { PathBuf::from(HERE) } else { above.to_path_buf() };
    links.map(here).collect::<Vec<_>>().into_iter()
}

/// Whether one more of these folders may be watched.
fn has_room(folders: &BTreeSet<PathBuf>, folder: &Path) -> bool {
    folders.len() < FOLDERS_MAX || folders.contains(folder)
}

impl Folders {
    /// Those of zones, as far as they are there: that of zones that commands keep is made when it is needed.
    pub fn of(config: &Config) -> Arc<Folders> {
        let (watch, mounts) = (Watch::default(), Mounts::new().ok());
        let images = config.server.data_dir.join(images::FOLDER);
        let folders = Folders { watch, mounts, images, known: Mutex::default() };
        let there: Vec<PathBuf> = config.roster.directories().into_iter().filter(|folder| folder.exists()).collect();
        folders.follow(&there);
        Arc::new(folders)
    }

    /// The file of a zone that updates own includes these files, and no others. True: one of them is watched from now on.
    pub fn include(&self, zone: &str, file: &Path, included: &[PathBuf]) -> bool {
        self.note(|known| &mut known.owned, zone, file, included)
    }

    /// What the file of a zone includes that was laid over the image is watched until the next image says it. True: one of the files
    /// is watched from now on.
    pub fn lay(&self, entry: &Entry) -> bool {
        let included: Vec<PathBuf> = entry.sources.iter().skip(1).map(|(file, _)| file.clone()).collect();
        let zone = images::name(&entry.apex).to_string();
        self.known().laid_before.forget(&zone, &included);
        self.note(|known| &mut known.laid, &zone, &entry.file, &included)
    }

    /// A zone that was laid over the image is gone.
    pub fn lay_none(&self, apex: &[u8]) {
        let zone = images::name(apex).to_string();
        let known = &mut *self.known();
        [&mut known.laid, &mut known.laid_before].into_iter().for_each(|laid| laid.forget(&zone, &[]));
    }

    /// Of a file that is not watched what it includes is not, either.
    fn note(&self, of: fn(&mut Known) -> &mut Includes, zone: &str, file: &Path, included: &[PathBuf]) -> bool {
        let known = &mut *self.known();
        of(known).forget(zone, included);
        if !known.is_of_zones(file) {
            return false;
        }
        let (mut is_new, mut folders) = (false, BTreeSet::new());
        for included in included {
            let is_told = of(known).insert(zone, included);
            let Some(folder) = included.parent().filter(|folder| has_room(&known.including, folder)) else { continue };
            is_new |= is_told;
            known.including.insert(folder.to_path_buf());
            folders.insert(folder);
        }
        for folder in folders {
            // Also of one that is known: the folder may be another by now.
            self.add(known, folder);
            for links in links_to(folder) {
                if has_room(&known.links_to_including, &links) {
                    self.add(known, &links);
                    known.links_to_including.insert(links);
                }
            }
        }
        is_new
    }

    /// The zone is none of those any more whose included files are watched.
    pub fn include_none(&self, zone: &str) {
        self.known().owned.forget(zone, &[]);
    }

    /// What the zones of watched folders include, as the manifest of the image says. True: something else than before. Since it was read it may have been
    /// edited, and whoever saw that knew no zone that it concerned.
    fn learn(&self) -> bool {
        self.learn_again(&mut self.known(), false)
    }

    /// `is_asked`: though the image is the same.
    fn learn_again(&self, known: &mut Known, is_asked: bool) -> bool {
        let Some(manifest) = Manifest::open(&self.images.join(images::MANIFEST)) else { return false };
        let is_other = known.image.replace(manifest.image()) != Some(manifest.image());
        if is_other {
            known.begin_anew();
        } else if !is_asked {
            return false;
        }
        let (mut includes, mut folders) = (Includes::default(), BTreeSet::new());
        manifest.for_each_include(|zone, file, included| {
            if !known.is_of_zones(file) {
                return;
            }
            includes.insert(&images::name(zone).to_string(), included);
            if let Some(folder) = included.parent().filter(|folder| has_room(&folders, folder)) {
                folders.insert(folder.to_path_buf());
            }
        });
        let are_new = !includes.are_all_in(&[&known.imaged, &known.laid, &known.laid_before]);
        known.imaged = includes;
        self.follow_included(known, folders) || are_new
    }

    /// What the image includes lies in these folders; those in which nothing is included are not watched any more. True: there are new ones.
    fn follow_included(&self, known: &mut Known, mut wanted: BTreeSet<PathBuf>) -> bool {
        let files = [&known.owned, &known.laid, &known.laid_before].into_iter().flat_map(|includes| includes.files());
        for folder in files.filter_map(|file| file.parent()) {
            if has_room(&wanted, folder) {
                wanted.insert(folder.to_path_buf());
            }
        }
        let links: BTreeSet<PathBuf> = wanted.iter().flat_map(|folder| links_to(folder)).take(FOLDERS_MAX).collect();
        wanted.iter().chain(&links).for_each(|folder| self.add(known, folder));
        let is_wanted = |folder: &PathBuf| {
            let of_zones = known.zones.contains(folder) || known.links.contains(folder);
            of_zones || wanted.contains(folder) || links.contains(folder)
        };
        let left = known.including.iter().chain(&known.links_to_including).filter(|folder| !is_wanted(folder));
        left.for_each(|folder| self.watch.remove(folder));
        let is_more = !wanted.is_subset(&known.including);
        (known.including, known.links_to_including) = (wanted, links);
        known.forget_missing();
        is_more
    }

    fn including(&self, file: &Path) -> Vec<String> {
        let known = self.known();
        let all = [&known.imaged, &known.owned, &known.laid, &known.laid_before];
        all.into_iter().flat_map(|includes| includes.of(file)).cloned().collect()
    }

    /// Watches these folders of zones, and no others. Says which are watched that were not: what was edited there before nobody has seen.
    pub fn follow(&self, wanted: &[PathBuf]) -> Followed {
        let known = &mut *self.known();
        // What they lead to may be other folders from now on.
        let links: BTreeSet<PathBuf> = wanted.iter().flat_map(|folder| links_to(folder)).collect();
        let includes = |old: &PathBuf| known.including.contains(old) || known.links_to_including.contains(old);
        let is_left = |old: &&PathBuf| !wanted.contains(old) && !links.contains(*old) && !includes(old);
        known.zones.iter().chain(&known.links).filter(is_left).for_each(|old| self.watch.remove(old));
        // Of a zone whose file lies there, and was not one of these, it was not asked what it includes.
        let are_others = known.zones != wanted;
        known.zones = wanted.to_vec();
        wanted.iter().chain(&links).for_each(|folder| self.add(known, folder));
        known.links = links;
        known.forget_missing();
        if are_others {
            self.learn_again(known, true);
        }
        Followed { are_others, are_back: self.find_missing(known) }
    }

    /// Watches those that were missing and are there by now. True: there are some.
    fn find_missing(&self, known: &mut Known) -> bool {
        let before = known.missing.len();
        known.missing.retain(|folder| self.watch.add(folder, What::Files).is_err());
        known.missing.len() < before
    }

    /// The same for whoever waits for changes.
    fn look_for_missing(&self) -> bool {
        let lacked_images = self.known().lacks_images;
        self.watch_images();
        let has_images = lacked_images && !self.known().lacks_images;
        if has_images {
            self.learn();
        }
        self.find_missing(&mut self.known()) || has_images
    }

    fn lacks_any(&self) -> bool {
        let known = self.known();
        known.lacks_images || !known.missing.is_empty()
    }

    /// Where somebody may write into images, or exchange them.
    fn watch_images(&self) {
        let watched = self.watch.add(&self.images, What::Writes);
        let is_told = std::mem::replace(&mut self.known().lacks_images, watched.is_err());
        if let Err(e) = watched
            && !is_told
        {
            log::warn("a folder is not watched", &[("folder", &self.images.display()), ("why", &e)]);
        }
    }

    /// Something was mounted or unmounted: watched is what the paths lead to now. True: some lead elsewhere.
    fn look_at_paths(&self) -> bool {
        self.watch_images();
        let known = &mut *self.known();
        let (mut are_others, mut are_there) = (false, BTreeSet::new());
        for folder in known.folders() {
            if let Ok(is_other) = self.watch.add(folder, What::Files) {
                are_others |= is_other;
                are_there.insert(folder.clone());
            }
        }
        known.missing.retain(|folder| !are_there.contains(folder));
        are_others
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        hold(&self.known)
    }

    fn add(&self, known: &mut Known, folder: &Path) {
        match self.watch.add(folder, What::Files) {
            Ok(_) => _ = known.missing.remove(folder),
            Err(e) if known.missing.insert(folder.to_path_buf()) => {
                log::warn("a folder is not watched", &[("folder", &folder.display()), ("why", &e)]);
            }
            Err(_) => {}
        }
    }
}

impl Known {
    /// Another image is there. What was laid over the one before may have come while it was made.
    fn begin_anew(&mut self) {
        self.laid_before = std::mem::take(&mut self.laid);
    }

    /// All that are to be watched.
    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.zones.iter().chain(&self.links).chain(&self.including).chain(&self.links_to_including)
    }

    /// Nobody waits for what is none of these folders any more.
    fn forget_missing(&mut self) {
        let Known { zones, links, including, links_to_including, missing, .. } = self;
        let sets = [links, including, links_to_including];
        missing.retain(|folder| zones.contains(folder) || sets.iter().any(|set| set.contains(folder)));
    }

    /// A folder is there no more.
    fn miss(&mut self, folder: PathBuf) {
        self.missing.insert(folder);
        self.forget_missing();
    }

    /// True for what may lead to files of zones, or to what they include: a folder of zones, or what lies in one that is watched.
    fn leads(&self, folder: &Path) -> bool {
        let bare = |path: &'_ Path| path.strip_prefix(HERE).unwrap_or(path).to_path_buf();
        let folder = bare(folder);
        let mut watched = self.zones.iter().chain(&self.including).map(|watched| bare(watched));
        watched.any(|watched| Some(&*watched) == folder.parent() || watched.starts_with(&folder))
    }

    /// True for what lies in a folder of zones, not below.
    fn is_of_zones(&self, file: &Path) -> bool {
        file.parent().is_some_and(|folder| self.zones.iter().any(|zones| zones == folder))
    }
}

pub struct Watcher {
    folders: Arc<Folders>,
    state: Arc<State>,
    /// Rung when somebody writes into an image.
    alarm: Arc<Alarm>,
    pending: Pending,
    /// When it was looked for missing folders last.
    looked: Instant,
}

/// Zones to be read again.
#[derive(Default)]
struct Pending {
    names: BTreeSet<String>,
    /// All of them.
    is_all: bool,
    since: Option<Instant>,
}

impl Watcher {
    pub fn new(folders: Arc<Folders>, state: Arc<State>, alarm: Arc<Alarm>) -> Watcher {
        folders.watch_images();
        folders.learn();
        let mut pending = Pending::default();
        // What is included may have been edited since it was read, and before it was known of which zones it is.
        if folders.known().imaged.files().next().is_some() {
            pending.add_all();
        }
        Watcher { folders, state, alarm, pending, looked: Instant::now() }
    }

    /// Works until the queue cannot be read any more: until the process ends.
    pub fn run(mut self) {
        loop {
            let missing = self.folders.lacks_any().then_some(MISSED);
            let changes =
                match self.folders.watch.wait(self.pending.patience().or(missing), self.folders.mounts.as_ref()) {
                    Ok(changes) => changes,
                    Err(e) => return log::error("folders are not watched any more: reload by hand", &[("why", &e)]),
                };
            let is_quiet = changes.is_empty();
            // However much else happens.
            if missing.is_some() && self.looked.elapsed() >= MISSED {
                self.looked = Instant::now();
                if self.folders.look_for_missing() {
                    self.pending.add_all();
                }
            }
            changes.into_iter().for_each(|change| self.note(change));
            if let Some(zones) = self.pending.take(is_quiet) {
                self.state.raise(Event::Changed { zones });
            }
        }
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::File(file) if file.parent() == Some(&self.folders.images) => self.note_image(&file),
            // A link that all files of a folder lead through, as of a volume of Kubernetes, or the folder itself is one: it is what changes, and not
            // they.
            Change::File(file) if file.is_dir() && self.folders.known().leads(&file) => self.pending.add_all(),
            Change::File(file) => {
                let zone = zone_of(&file).filter(|_| self.folders.known().is_of_zones(&file));
                self.pending.add(zone.into_iter().chain(self.folders.including(&file)));
            }
            // Put back in its place it is watched again, by the reload that follows, or later.
            Change::Gone(folder) if folder == self.folders.images => self.folders.known().lacks_images = true,
            Change::Gone(folder) => {
                self.folders.known().miss(folder);
                self.pending.add_all();
            }
            Change::Lost => {
                self.folders.learn();
                self.pending.add_all();
            }
            // Of others nobody need look at his zones.
            Change::Mounts if self.folders.look_at_paths() => self.pending.add_all(),
            Change::Mounts => {}
        }
    }

    /// Images are written under other names and renamed, so whoever writes to one is not us.
    fn note_image(&mut self, file: &Path) {
        let is = |name: &str| file.file_name().is_some_and(|found| found == name);
        if is(images::IMAGE) {
            self.alarm.ring();
        }
        if is(images::MANIFEST) {
            if self.folders.learn() {
                self.pending.add_all();
            }
            store::heap::let_go();
        }
    }
}

impl Pending {
    fn add(&mut self, names: impl Iterator<Item = String>) {
        for name in names {
            self.since.get_or_insert_with(Instant::now);
            self.names.insert(name);
        }
        if self.names.len() > NAMES_MAX {
            self.add_all();
        }
    }

    fn add_all(&mut self) {
        self.since.get_or_insert_with(Instant::now);
        self.is_all = true;
        self.names.clear();
    }

    /// How long to wait for more.
    fn patience(&self) -> Option<Duration> {
        self.since.map(|_| QUIET)
    }

    /// What is ripe; empty: all zones.
    fn take(&mut self, is_quiet: bool) -> Option<Vec<String>> {
        let is_ripe = self.since.is_some_and(|since| is_quiet || since.elapsed() >= LONGEST);
        is_ripe.then(|| {
            let ripe = std::mem::take(self);
            if ripe.is_all { Vec::new() } else { ripe.names.into_iter().collect() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::manifest::UNREAD;

    fn names(names: &[&str]) -> impl Iterator<Item = String> {
        names.iter().map(|n| n.to_string()).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn folders_are_watched_as_long_as_something_in_them_is_included() {
        let folder = std::env::temp_dir().join(format!("dunlin-watcher-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let [zones, one, two] = ["zones", "one", "two"].map(|name| folder.join(name));
        [&zones, &one, &two].into_iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        let folders = Folders::of(&Config::default());
        folders.follow(std::slice::from_ref(&zones));
        // What is told of a file in each.
        let told = || {
            [&one, &two, &zones].into_iter().for_each(|folder| std::fs::write(folder.join("f"), "").unwrap());
            let mut told: Vec<PathBuf> = Vec::new();
            while !told.contains(&zones) {
                let changes = folders.watch.wait(None, None).unwrap().into_iter();
                told.extend(changes.map(|change| match change {
                    Change::File(file) => file.parent().unwrap().to_path_buf(),
                    change => panic!("{change:?}"),
                }));
            }
            told
        };
        let learn = |folder: &PathBuf| {
            let known = &mut *folders.known();
            known.begin_anew();
            folders.follow_included(known, BTreeSet::from([folder.clone()]))
        };
        assert!(learn(&one));
        assert_eq!(told(), [&one, &zones].map(PathBuf::clone));
        assert!(folders.include("y.", &zones.join("y.zone"), &[two.join("f")]));
        assert!(!learn(&one));
        assert_eq!(told(), [&one, &two, &zones].map(PathBuf::clone));
        folders.include_none("y.");
        learn(&zones);
        assert_eq!(told(), std::slice::from_ref(&zones), "nothing in the others");
        // What was laid while an image was made that does not have it is known until the next one.
        let sources = [zones.join("x.zone"), two.join("f")].map(|file| (file, None)).to_vec();
        let laid =
            Entry { apex: (*b"\x01x\0").into(), file: zones.join("x.zone"), sources, read_s: UNREAD, problem: None };
        assert!(folders.lay(&laid) && !folders.lay(&laid));
        learn(&zones);
        assert_eq!(folders.including(&two.join("f")), ["x."]);
        learn(&zones);
        assert_eq!(folders.including(&two.join("f")), Vec::<String>::new());
        learn(&one);
        // However many files of one folder there are.
        let many: Vec<PathBuf> = (0..2 * FOLDERS_MAX).map(|n| two.join(n.to_string())).collect();
        assert!(folders.include("y.", &zones.join("y.zone"), &many));
        assert!(many.iter().all(|file| folders.including(file) == ["y."]));
        folders.include_none("y.");
        learn(&one);
        folders.follow(&[one.clone(), zones.clone()]);
        folders.follow(std::slice::from_ref(&zones));
        assert_eq!(
            told(),
            [one.clone(), zones.clone()],
            "zones are read from there no more, and included all the same"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn folders_that_go_are_missed_whatever_they_are_watched_for() {
        let folder = std::env::temp_dir().join(format!("dunlin-watcher-gone-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let [zones, to_zones, included, to_included] =
            ["zones", "to_zones", "included", "to_included"].map(|name| folder.join(name));
        let all = [&zones, &to_zones, &included, &to_included];
        all.into_iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        for (links, to) in [(&to_zones, &zones), (&to_included, &included)] {
            std::os::unix::fs::symlink(to, links.join("link")).unwrap();
        }
        let folders = Folders::of(&Config::default());
        let by_link = to_zones.join("link");
        folders.follow(std::slice::from_ref(&by_link));
        let files = [&included, &to_included.join("link")].map(|folder| folder.join("f"));
        assert!(folders.include("y.", &by_link.join("y.zone"), &files));
        let watched = [&by_link, &to_zones, &included, &to_included];
        for gone in watched {
            folders.known().miss(gone.clone());
            assert!(folders.find_missing(&mut folders.known()), "{}", gone.display());
        }
        folders.known().miss(folder.clone());
        assert!(!folders.known().missing.contains(&folder), "none of them");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_are_handed_on_once_it_is_quiet() {
        let mut pending = Pending::default();
        assert_eq!((pending.patience(), pending.take(true)), (None, None));
        pending.add(names(&["b", "a"]));
        pending.add(names(&["b"]));
        assert_eq!(pending.patience(), Some(QUIET));
        assert_eq!(pending.take(false), None, "more may come");
        assert_eq!(pending.take(true), Some(vec!["a".to_string(), "b".to_string()]));
        assert_eq!(pending.take(true), None);
    }

    #[test]
    fn names_without_a_pause_are_handed_on_all_the_same() {
        let mut pending = Pending::default();
        pending.add(names(&["a"]));
        pending.since = pending.since.and_then(|since| since.checked_sub(LONGEST));
        assert!(pending.take(false).is_some());
    }

    #[test]
    fn too_many_names_are_all_zones() {
        let mut pending = Pending::default();
        pending.add((0..=NAMES_MAX).map(|i| i.to_string()));
        assert_eq!(pending.take(true), Some(vec![]));
        pending.add_all();
        assert_eq!(pending.take(true), Some(vec![]));
    }
}
