//! Which zones of an image a reload need not look at: those whose files nobody has touched since they were looked at last, as the
//! kernel says. 65,000 looks take 0.2 s of a processor; to be told of nothing takes none.
//!
//! A zone is spared only if each of its files was found to be as the manifest says, and plain, in a folder that is watched, of
//! a file system of which the kernel tells everything. With a folder that is another one now, something mounted or unmounted, or
//! more events than there is room for all begins anew, with a look at every file.
//!
//! Not told of are changes through another name that a file was given later (a hard link), or that somebody opened it by, and through
//! memory that somebody has mapped and not yet closed. A reload of a zone by its name always looks.

use crate::images::manifest::{Known, Manifest};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::folder::telling;
use store::watch::{Change, Mounts, Watch, What};

/// Folders that are watched; zones with files in others are always looked at.
const FOLDERS_MAX: usize = 1_000;
/// Files that have been touched; with more of them all are looked at.
const TOUCHED_MAX: usize = 10_000;

pub struct Vigil {
    watch: Watch,
    mounts: Mounts,
    /// What tells each from others that may take its place.
    folders: HashMap<PathBuf, (u64, u64)>,
    /// By number: the zone was as the manifest says when it was looked at last, and the kernel tells of what happens to it.
    calm: Vec<AtomicBool>,
    /// What the kernel has told of since all zones were met.
    touched: HashSet<PathBuf>,
}

impl Vigil {
    /// Watches the folders of all zones, none of which was looked at yet. None: nothing can be watched.
    pub fn begin(manifest: &Manifest) -> Option<Vigil> {
        // It is kept, among much that is made and freed.
        store::heap::apart(|| Vigil::of(manifest))
    }

    fn of(manifest: &Manifest) -> Option<Vigil> {
        let calm = (0..manifest.zones()).map(|_| AtomicBool::new(false)).collect();
        let (watch, mounts, folders) = (Watch::default(), Mounts::new().ok()?, HashMap::new());
        let mut vigil = Vigil { watch, mounts, folders, calm, touched: HashSet::new() };
        let mut last = None;
        for known in manifest.part(0, 1) {
            for (file, _) in known.ok()?.sources() {
                let folder = file.parent()?;
                // Mostly it is that of the file before.
                if last != Some(folder) {
                    last = Some(folder);
                    vigil.follow(folder);
                }
            }
        }
        Some(vigil)
    }

    fn follow(&mut self, folder: &Path) {
        if self.folders.len() < FOLDERS_MAX
            && !self.folders.contains_key(folder)
            && let Ok(Some(id)) = telling(folder)
            && self.watch.add(folder, What::All).is_ok()
            // It is still the one that is watched.
            && telling(folder).is_ok_and(|now| now == Some(id))
        {
            self.folders.insert(folder.to_path_buf(), id);
        }
    }

    /// Takes in what the kernel has told. None: that is not everything.
    pub fn goes_on(mut self) -> Option<Vigil> {
        if self.mounts.have_changed() {
            return None;
        }
        for change in self.watch.take().ok()? {
            let Change::File(file) = change else { return None };
            self.touched.insert(file);
        }
        (self.touched.len() <= TOUCHED_MAX).then_some(self)?.stays()
    }

    /// None: one of the folders is another now.
    pub fn stays(self) -> Option<Vigil> {
        let is_itself = |(folder, id): (&PathBuf, &(u64, u64))| telling(folder).is_ok_and(|now| now == Some(*id));
        self.folders.iter().all(is_itself).then_some(self)
    }

    pub fn watches(&self, folder: &Path) -> bool {
        self.folders.contains_key(folder)
    }

    /// True if the zone of this number is as it was when it was last looked at.
    pub fn spares(&self, number: usize, known: &Known<'_>) -> bool {
        let is_touched = || !self.touched.is_empty() && known.sources().any(|(file, _)| self.touched.contains(file));
        self.calm.get(number).is_some_and(|calm| calm.load(Relaxed)) && !is_touched()
    }

    /// What a look at the zone of this number found.
    pub fn note(&self, number: usize, is_calm: bool) {
        if let Some(calm) = self.calm.get(number) {
            calm.store(is_calm, Relaxed);
        }
    }

    /// Each zone was asked about, so that those which were touched were looked at.
    pub fn all_were_met(&mut self) {
        self.touched.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Seen;
    use crate::images::manifest::{Entry, Identity, UNREAD};
    use crate::stamp::{Looks, Stamp};
    use std::fs::{self, File, OpenOptions, Permissions};
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::SystemTime;

    /// Six zones in two folders; "a" includes "i", "e" is a link to a file, and that of "f" has two names.
    struct Desk(PathBuf);

    const ZONES: [&str; 6] = ["one/a", "one/b", "one/c", "two/d", "two/e", "two/f"];
    const ALWAYS_LOOKED_AT: usize = 2;

    impl Desk {
        /// In memory: the kernel tells of what happens there, whatever else the machine has.
        fn new(name: &str) -> Desk {
            let desk = Desk(PathBuf::from(format!("/dev/shm/dunlin-vigil-{}-{name}", std::process::id())));
            let _ = fs::remove_dir_all(&desk.0);
            ["one", "two", "other"].iter().for_each(|folder| fs::create_dir_all(desk.path(folder)).unwrap());
            let files = ZONES.into_iter().filter(|zone| *zone != "two/e");
            files.chain(["one/i", "other/e", "other/new"]).for_each(|name| desk.write(name, "text"));
            symlink(desk.path("other/e"), desk.path("two/e")).unwrap();
            fs::hard_link(desk.path("two/f"), desk.path("other/f")).unwrap();
            desk
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        /// Writes a file, and as if it had been some time ago.
        fn write(&self, name: &str, text: &str) {
            let mut file = File::create(self.path(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }

        fn manifest(&self) -> Manifest {
            let entry = |name: &&str| {
                let sources = [*name, "one/i"].into_iter().take(if *name == "one/a" { 2 } else { 1 });
                let sources = sources.map(|name| (self.path(name), Stamp::of(&self.path(name)))).collect();
                let apex = [&[name.len() as u8], name.as_bytes(), &[0]].concat().into();
                Entry { apex, file: self.path(name), sources, read_s: UNREAD, problem: None }
            };
            let image = Identity { size: 7, seed: 8, names: 9 };
            let entries: Vec<Entry> = ZONES.iter().map(entry).collect();
            let prepared = Manifest::prepare(&self.0, "manifest", image, 0, &Seen::default(), &entries).unwrap();
            Manifest::read_back(&prepared.take_name().unwrap()).unwrap()
        }
    }

    impl Drop for Desk {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Which zones are others now, and how many were spared a look.
    fn look(manifest: &mut Manifest) -> (Vec<usize>, usize) {
        let mut vigil = manifest.vigil.take().and_then(Vigil::goes_on).or_else(|| Vigil::begin(manifest)).unwrap();
        let all = || manifest.part(0, 1).map(|known| known.unwrap()).enumerate();
        let spared = all().filter(|(number, known)| vigil.spares(*number, known)).count();
        let mut looks = Looks::beside(Some(&vigil));
        let others = all().filter(|(_, known)| !known.is_current(&mut looks)).map(|(number, _)| number).collect();
        vigil.all_were_met();
        manifest.vigil = Some(vigil);
        (others, spared)
    }

    /// What is done to the files, and which zones are others then.
    type Deed = (&'static str, fn(&Desk), &'static [usize]);

    const DEEDS: [Deed; 16] = [
        ("nothing", |_| (), &[]),
        ("read", |desk| drop(fs::read(desk.path("one/b")).unwrap()), &[]),
        ("written", |desk| desk.write("one/b", "else"), &[1]),
        ("written again as it was", |desk| desk.write("one/b", "text"), &[1]),
        ("written to, and not closed", |desk| std::mem::forget(appended(desk)), &[1]),
        ("cut", |desk| OpenOptions::new().write(true).open(desk.path("one/b")).unwrap().set_len(1).unwrap(), &[1]),
        ("renamed over", |desk| fs::rename(desk.path("other/new"), desk.path("one/b")).unwrap(), &[1]),
        ("removed", |desk| fs::remove_file(desk.path("two/d")).unwrap(), &[3]),
        ("made a link", |desk| made_a_link(desk), &[1]),
        (
            "closed to others",
            |desk| fs::set_permissions(desk.path("one/b"), Permissions::from_mode(0o0)).unwrap(),
            &[1],
        ),
        ("included", |desk| desk.write("one/i", "else"), &[0]),
        ("linked to", |desk| desk.write("other/e", "else"), &[4]),
        ("of another name", |desk| desk.write("other/f", "else"), &[5]),
        ("new beside", |desk| desk.write("one/z", "else"), &[]),
        ("of another folder", |desk| other_folder(desk), &[0, 1, 2]),
        ("two", |desk| ["one/c", "two/d"].iter().for_each(|name| desk.write(name, "else")), &[2, 3]),
    ];

    fn appended(desk: &Desk) -> File {
        let mut file = OpenOptions::new().append(true).open(desk.path("one/b")).unwrap();
        file.write_all(b"more").unwrap();
        file
    }

    fn made_a_link(desk: &Desk) {
        fs::remove_file(desk.path("one/b")).unwrap();
        symlink(desk.path("other/new"), desk.path("one/b")).unwrap();
    }

    /// The same names, in a folder that has taken the other's place.
    fn other_folder(desk: &Desk) {
        fs::create_dir(desk.path("three")).unwrap();
        ["a", "b", "c", "i"].iter().for_each(|name| desk.write(&format!("three/{name}"), "text"));
        fs::rename(desk.path("one"), desk.path("four")).unwrap();
        fs::rename(desk.path("three"), desk.path("one")).unwrap();
    }

    #[test]
    fn whatever_is_done_to_files_is_found_and_nothing_else_is_looked_at() {
        for (number, (what, deed, others)) in DEEDS.into_iter().enumerate() {
            let desk = Desk::new(&number.to_string());
            let mut manifest = desk.manifest();
            let plain = ZONES.len() - ALWAYS_LOOKED_AT;
            assert_eq!((look(&mut manifest), look(&mut manifest)), ((vec![], 0), (vec![], plain)), "{what}");
            deed(&desk);
            let (found, spared) = look(&mut manifest);
            assert_eq!(found, others, "{what}");
            let looked_at = others.iter().filter(|zone| **zone < plain).count();
            assert_eq!(spared, if what == "of another folder" { 0 } else { plain - looked_at }, "{what}");
            assert_eq!(look(&mut manifest), (found, plain - looked_at), "{what}, looked at again");
            manifest.vigil = None;
            assert_eq!(look(&mut manifest).0, others, "{what}, without a vigil");
        }
    }

    #[test]
    fn what_was_looked_at_beforehand_is_spared() {
        let desk = Desk::new("beforehand");
        let mut manifest = desk.manifest();
        crate::images::comparison::beforehand(&mut manifest);
        desk.write("one/b", "else");
        assert_eq!(look(&mut manifest), (vec![1], ZONES.len() - ALWAYS_LOOKED_AT - 1));
    }

    #[test]
    fn a_folder_on_the_way_may_lead_elsewhere() {
        let desk = Desk::new("way");
        fs::rename(desk.path("one"), desk.path("four")).unwrap();
        symlink("four", desk.path("one")).unwrap();
        let mut manifest = desk.manifest();
        assert_eq!((look(&mut manifest), look(&mut manifest).1), ((vec![], 0), ZONES.len() - ALWAYS_LOOKED_AT));
        fs::create_dir(desk.path("three")).unwrap();
        ["a", "b", "c", "i"].iter().for_each(|name| desk.write(&format!("three/{name}"), "text"));
        fs::remove_file(desk.path("one")).unwrap();
        symlink("three", desk.path("one")).unwrap();
        assert_eq!(look(&mut manifest), (vec![0, 1, 2], 0));
    }

    #[test]
    fn with_too_many_touched_all_are_looked_at() {
        let desk = Desk::new("many");
        let mut manifest = desk.manifest();
        [look(&mut manifest), look(&mut manifest)].iter().for_each(|(others, _)| assert_eq!(*others, []));
        (0..=TOUCHED_MAX).for_each(|i| drop(File::create(desk.path(&format!("one/{i}"))).unwrap()));
        assert_eq!(look(&mut manifest), (vec![], 0));
        assert_eq!(look(&mut manifest).1, ZONES.len() - ALWAYS_LOOKED_AT);
    }

    /// Of what was touched while the list of zones was another, and not all of them were looked at.
    #[test]
    fn what_was_touched_stays_so_until_all_were_met() {
        let desk = Desk::new("met");
        let mut manifest = desk.manifest();
        [look(&mut manifest), look(&mut manifest)].iter().for_each(|(others, _)| assert_eq!(*others, []));
        desk.write("one/b", "else");
        manifest.vigil = manifest.vigil.take().and_then(Vigil::goes_on).and_then(Vigil::goes_on);
        assert_eq!(look(&mut manifest), (vec![1], ZONES.len() - ALWAYS_LOOKED_AT - 1));
    }
}
