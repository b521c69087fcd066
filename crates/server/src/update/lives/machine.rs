//! A machine that may stop at any step that the server's own code has its disk take, and whose disk then holds any part of what was not synced.
//!
//! The functions of the C library by which a file is written, synced, named and removed stand here once more, for this whole test program. A
//! thread that runs on such a machine comes by here with whatever lies below its folder; all others go on to the kernel at once. So nothing of the
//! server is written for this: journal, files of zones, images, history, and what a start makes of them. Modes, owners, times and access lists are not
//! steps. A write fails for want of room, a sync, a cut and a removal fail by chance, all others only when the machine stops.
//!
//! Files are the kernel's, and what the server reads is what it has written. What is durable is kept beside them: a file's octets as they were when it
//! was synced, and a folder's names. A machine that starts again finds sectors that were not synced, or not, each for itself, some as they were before
//! they were written over; and names, of files and folders alike. A file without a name is put aside instead of being removed: the disk may
//! still have it under one.
#![allow(unsafe_code)]

use sim::disk::DiskFaults;
use sim::rng::Rng;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What is written whole or not at all.
const SECTOR: usize = 512;

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
    static MEANWHILE: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

/// The names of a folder, and which file each is.
type Names = BTreeMap<OsString, u64>;

/// Of a file that was synced.
struct Content {
    durable: Vec<u8>,
    /// As it was when it was synced last, whether that succeeded or not: of a sync that failed the kernel does not try again what it has forgotten.
    clean: Vec<u8>,
}

pub struct Machine {
    root: PathBuf,
    /// Where files lie that have lost their names.
    aside: PathBuf,
    rng: Rng,
    /// For whoever wants random numbers of the kernel.
    noise: Rng,
    faults: DiskFaults,
    /// Octets that all files together may have.
    capacity: u64,
    /// Microseconds of its clock: it goes on by one whenever somebody looks, so that no life is another one where this machine is busy.
    clock_us: i64,
    /// So many it has taken.
    steps: usize,
    /// Times at which its disk was full.
    full: usize,
    /// In this one it stops.
    stops_at: Option<usize>,
    has_stopped: bool,
    /// Of what others did between two steps.
    panic: Option<Box<dyn Any + Send>>,
    /// By folder.
    names: BTreeMap<PathBuf, Names>,
    /// By inode. Of others nothing is durable.
    contents: BTreeMap<u64, Content>,
}

/// What becomes of a step.
enum Fate {
    Goes,
    /// In the midst of it.
    Stops,
    Fails(i32),
}

/// This thread runs on one whose disk has what lies below this folder now. Beside it there is a folder of the same name with `.aside`.
pub fn begin(root: &Path, seed: u64) {
    let mut aside = root.as_os_str().to_os_string();
    aside.push(".aside");
    let aside = PathBuf::from(aside);
    fs::create_dir_all(&aside).unwrap();
    let (rng, noise) = (Rng::new(seed), Rng::new(!seed));
    let (names, contents) = (BTreeMap::new(), BTreeMap::new());
    let mut machine = Machine {
        root: root.into(),
        aside,
        rng,
        noise,
        faults: DiskFaults::default(),
        capacity: u64::MAX,
        clock_us: 1_000_000_000,
        steps: 0,
        full: 0,
        stops_at: None,
        has_stopped: false,
        panic: None,
        names,
        contents,
    };
    machine.believe();
    MACHINE.with(|here| *here.borrow_mut() = Some(machine));
}

/// It is taken away, with all that lies on its disk.
pub fn end() {
    let machine = MACHINE.with(|here| here.borrow_mut().take());
    for folder in machine.iter().flat_map(|machine| [&machine.root, &machine.aside]) {
        let _ = fs::remove_dir_all(folder);
    }
}

/// What others do before a step is taken, but for their own steps.
fn meanwhile(others: Option<Rc<dyn Fn()>>) {
    MEANWHILE.with(|here| *here.borrow_mut() = others);
}

/// Does something while others do this before each of its steps.
pub fn beside<T>(others: Option<Rc<dyn Fn()>>, act: impl FnOnce() -> T) -> T {
    meanwhile(others);
    let done = act();
    meanwhile(None);
    if let Some(why) = with(|machine| machine.panic.take()) {
        resume_unwind(why);
    }
    done
}

pub fn with<T>(ask: impl FnOnce(&mut Machine) -> T) -> T {
    MACHINE.with(|here| ask(here.borrow_mut().as_mut().unwrap()))
}

impl Machine {
    pub fn set_faults(&mut self, faults: DiskFaults) {
        self.faults = faults;
    }

    /// The disk takes so many octets beside what is there.
    pub fn set_room(&mut self, octets: u64) {
        self.capacity = self.used().saturating_add(octets);
    }

    /// In the midst of the step after so many more.
    pub fn stop_after(&mut self, steps: usize) {
        self.stops_at = Some(self.steps + steps);
    }

    pub fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    pub fn steps(&self) -> usize {
        self.steps
    }

    pub fn full(&self) -> usize {
        self.full
    }

    /// A process was killed, and the machine runs on: the next one finds what was written, synced or not.
    pub fn outlive(&mut self) {
        (self.has_stopped, self.stops_at) = (false, None);
    }

    /// It starts again, and finds what was synced, and of the rest any part.
    pub fn restart(&mut self) {
        self.outlive();
        let mut files = BTreeMap::new();
        for folder in [&self.root, &self.aside] {
            walk(folder, &mut |path, found| _ = files.insert(found.ino(), (path.to_path_buf(), found.is_dir())));
        }
        for (inode, (path, is_dir)) in &files {
            if !is_dir {
                self.lose_octets(*inode, path);
            }
        }
        self.lose_names(&files);
        fs::remove_dir_all(&self.aside).and_then(|()| fs::create_dir(&self.aside)).unwrap();
        self.believe();
    }

    /// All that is there is durable.
    fn believe(&mut self) {
        let (mut names, mut contents) = (BTreeMap::from([(self.root.clone(), Names::new())]), BTreeMap::new());
        walk(&self.root, &mut |path, found| {
            let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
            names.entry(folder.to_path_buf()).or_insert_with(Names::new).insert(name.into(), found.ino());
            if found.is_file() {
                let octets = fs::read(path).unwrap();
                contents.insert(found.ino(), Content { durable: octets.clone(), clean: octets });
            }
        });
        (self.names, self.contents) = (names, contents);
    }

    /// What is there of a file that was written since it was synced.
    fn lose_octets(&mut self, inode: u64, path: &Path) {
        let seen = fs::read(path).unwrap();
        let keep = self.rng.below(3);
        self.settle(inode, &seen, keep);
        let durable = self.contents.get(&inode).map_or(&[][..], |content| &content.durable);
        if durable != seen {
            let file = fs::File::options().write(true).open(path).unwrap();
            let changed = |found: fs::Metadata| (found.ctime(), found.ctime_nsec());
            let was = file.metadata().unwrap();
            let modified = was.modified().unwrap();
            file.write_all_at(durable, 0).and_then(|()| file.set_len(durable.len() as u64)).unwrap();
            file.set_modified(modified).unwrap();
            // No machine is there again within a tick of its file system's clock.
            let was = changed(was);
            while changed(file.metadata().unwrap()) == was {
                file.set_modified(modified).unwrap();
            }
        }
    }

    /// What was written since the last sync reaches the disk: 0 nothing, 1 any part, 2 all.
    fn settle(&mut self, inode: u64, seen: &[u8], keep: usize) {
        let rng = &mut self.rng;
        let mut is_kept = || keep == 2 || keep == 1 && rng.one_in(2);
        let none = || Content { durable: vec![], clean: vec![] };
        let content = self.contents.entry(inode).or_insert_with(none);
        if seen.len() < content.clean.len() && is_kept() {
            content.durable.truncate(seen.len());
        }
        for at in (0..seen.len()).step_by(SECTOR) {
            let end = (at + SECTOR).min(seen.len());
            if content.clean.get(at..end) != Some(&seen[at..end]) && is_kept() {
                patch(&mut content.durable, at, &seen[at..end]);
            }
        }
        content.clean = seen.to_vec();
    }

    /// Before something is written over, or cut off: the kernel may have sent any part of it to the disk, without anybody's having asked.
    fn write_back(&mut self, path: &Path) {
        let (Ok(found), true) = (fs::metadata(path), self.rng.one_in(2)) else { return };
        let (seen, none) = (fs::read(path).unwrap(), || Content { durable: vec![], clean: vec![] });
        let content = self.contents.entry(found.ino()).or_insert_with(none);
        for at in (0..seen.len()).step_by(SECTOR) {
            let end = (at + SECTOR).min(seen.len());
            if content.clean.get(at..end) != Some(&seen[at..end]) && self.rng.one_in(2) {
                patch(&mut content.durable, at, &seen[at..end]);
                patch(&mut content.clean, at, &seen[at..end]);
            }
        }
    }

    /// Files get the names that are found.
    fn lose_names(&mut self, files: &BTreeMap<u64, (PathBuf, bool)>) {
        let mut folders = vec![self.root.clone()];
        let (mut gone, mut named) = (vec![], vec![]);
        while let Some(folder) = folders.pop() {
            let seen = listed(&folder);
            let durable = self.names.get(&folder).cloned().unwrap_or_default();
            let all: BTreeSet<&OsString> = seen.keys().chain(durable.keys()).collect();
            for name in all {
                let (was, is) = (durable.get(name), seen.get(name));
                let found = if was == is || self.rng.one_in(2) { is } else { was };
                let path = folder.join(name);
                match found.filter(|inode| files[inode].1) {
                    Some(_) => folders.push(path.clone()),
                    None if is.is_some_and(|inode| files[inode].1) => fs::remove_dir_all(&path).unwrap(),
                    None => {}
                }
                if found != is && is.is_some_and(|inode| !files[inode].1) {
                    gone.push((path.clone(), *is.unwrap()));
                }
                if found != is
                    && let Some(inode) = found
                {
                    named.push((path, *inode));
                }
            }
        }
        for (path, inode) in gone {
            fs::rename(&path, self.aside.join(inode.to_string())).unwrap();
        }
        for (path, inode) in named {
            let aside = self.aside.join(inode.to_string());
            // A folder that was not there any more, or a file that another name has: that is the one of which two names are found.
            let from = if aside.exists() { aside } else { files[&inode].0.clone() };
            let _ = fs::hard_link(from, path);
        }
    }

    fn chance(&mut self, n: usize) -> bool {
        n > 0 && self.rng.one_in(n)
    }

    fn step(&mut self) -> Fate {
        if self.has_stopped {
            return Fate::Fails(libc::EIO);
        }
        self.steps += 1;
        self.has_stopped = self.stops_at.is_some_and(|at| self.steps >= at);
        if self.has_stopped { Fate::Stops } else { Fate::Goes }
    }

    /// Something that may fail is done; if the machine stops in it, it is done or not.
    fn done(&mut self, fails: usize, act: impl FnOnce(&mut Machine) -> i32) -> i32 {
        match self.step() {
            Fate::Fails(e) => failed(e),
            Fate::Goes if self.chance(fails) => failed(libc::EIO),
            Fate::Goes => act(self),
            Fate::Stops => {
                if self.rng.one_in(2) {
                    act(self);
                }
                failed(libc::EIO)
            }
        }
    }

    fn sync(&mut self, path: &Path) -> i32 {
        let fate = self.step();
        let found = match (&fate, fs::metadata(path)) {
            (Fate::Fails(e), _) => return failed(*e),
            // Any part of it is there.
            (Fate::Stops, _) => return failed(libc::EIO),
            (Fate::Goes, found) => found.unwrap(),
        };
        if self.chance(self.faults.sync_lies) {
            return 0;
        }
        let fails = self.chance(self.faults.sync_fails);
        if found.is_dir() {
            if !fails {
                self.names.insert(path.to_path_buf(), listed(path));
            }
        } else {
            let keep = if fails { self.rng.below(3) } else { 2 };
            self.settle(found.ino(), &fs::read(path).unwrap(), keep);
        }
        if fails { failed(libc::EIO) } else { 0 }
    }

    /// How much of so many octets at this place of a file is written.
    fn write(&mut self, path: &Path, at: u64, octets: usize) -> Result<usize, i32> {
        let len = fs::metadata(path).map_or(0, |found| found.len());
        if at < len {
            self.write_back(path);
        }
        let grows = (at + octets as u64).saturating_sub(len);
        let fits = octets - grows.saturating_sub(self.room()).min(octets as u64) as usize;
        match self.step() {
            Fate::Fails(e) => Err(e),
            Fate::Goes if fits == 0 && octets > 0 => {
                self.full += 1;
                Err(libc::ENOSPC)
            }
            Fate::Goes => Ok(fits),
            Fate::Stops => Ok(self.rng.below(fits + 1)),
        }
    }

    fn room(&self) -> u64 {
        if self.capacity == u64::MAX { u64::MAX } else { self.capacity.saturating_sub(self.used()) }
    }

    fn used(&self) -> u64 {
        let mut used = 0;
        walk(&self.root, &mut |_, found| used += if found.is_file() { found.len() } else { 0 });
        used
    }

    /// What had this name has none any more.
    fn put_aside(&self, path: &Path) {
        if let Ok(found) = fs::symlink_metadata(path).map(|found| found.ino()) {
            let _ = kernel_rename(path, &self.aside.join(found.to_string()));
        }
    }

    fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.root) || path.starts_with(&self.aside)
    }
}

/// Octets between the end and `at` become zeros, as in a file.
fn patch(content: &mut Vec<u8>, at: usize, octets: &[u8]) {
    let end = at + octets.len();
    content.resize(content.len().max(end), 0);
    content[at..end].copy_from_slice(octets);
}

/// Hands on all that lies below a folder.
fn walk(folder: &Path, see: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let found = fs::symlink_metadata(&path).unwrap();
        see(&path, &found);
        if found.is_dir() {
            walk(&path, see);
        }
    }
}

fn listed(folder: &Path) -> Names {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().ino())).collect()
}

fn failed(e: i32) -> i32 {
    // SAFETY: the place belongs to this thread.
    unsafe { *libc::__errno_location() = e };
    -1
}

/// Has a machine take a step, if this thread runs on one that has this file. None: it is the kernel's alone.
fn take<T>(path: impl FnOnce() -> Option<PathBuf>, step: impl FnOnce(&mut Machine, &Path) -> T) -> Option<T> {
    let is_here = MACHINE.try_with(|here| here.try_borrow().is_ok_and(|here| here.is_some())).unwrap_or(false);
    if !is_here {
        return None;
    }
    let path = path().filter(|path| with(|machine| machine.has(path)))?;
    let others = MEANWHILE.with(|here| here.borrow_mut().take());
    if let Some(others) = others {
        // Out of a function of the C library nothing may unwind.
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| others())) {
            with(|machine| (machine.has_stopped, machine.panic) = (true, Some(why)));
        }
        meanwhile(Some(others));
    }
    Some(with(|machine| step(machine, &path)))
}

fn opened(fd: i32) -> impl FnOnce() -> Option<PathBuf> {
    move || fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}

/// # Safety
///
/// It is a string that ends with a zero.
unsafe fn named(name: *const libc::c_char) -> PathBuf {
    // SAFETY: as the caller says.
    OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()).into()
}

fn kernel_rename(from: &Path, to: &Path) -> i32 {
    let [from, to] = [from, to].map(|path| std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap());
    // SAFETY: both are strings that end with a zero, and live for the call.
    unsafe { libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), 0) as i32 }
}

// SAFETY of all that follows: each has the name and the parameters that the C library gives it, hands these on to the kernel as they are, or does not, and
// returns what that says, or -1 with a reason. `open64` takes its mode as a parameter of its own: where a function of variable parameters passes
// them as it passes others, as on x86_64 and aarch64, that is what comes.

fn synced(fd: i32, call: libc::c_long) -> i32 {
    // SAFETY: no pointers.
    take(opened(fd), |machine, path| machine.sync(path)).unwrap_or_else(|| unsafe { libc::syscall(call, fd) as i32 })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: i32) -> i32 {
    synced(fd, libc::SYS_fsync)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: i32) -> i32 {
    synced(fd, libc::SYS_fdatasync)
}

/// Writes as much as the machine says.
fn written(fd: i32, at: Option<u64>, octets: usize, write: impl Fn(usize) -> isize) -> isize {
    let place = || match at {
        Some(at) => at,
        // SAFETY: no pointers.
        None => unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }.max(0) as u64,
    };
    let taken = take(opened(fd), |machine, path| (machine.write(path, place(), octets), machine.has_stopped));
    match taken {
        None => write(octets),
        Some((Err(e), _)) => failed(e) as isize,
        Some((Ok(fits), false)) => write(fits),
        Some((Ok(fits), true)) => {
            write(fits);
            failed(libc::EIO) as isize
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: i32, from: *const libc::c_void, octets: usize) -> isize {
    // SAFETY: as the caller says, and not more.
    written(fd, None, octets, |octets| unsafe { libc::syscall(libc::SYS_write, fd, from, octets) as isize })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: i32, from: *const libc::c_void, octets: usize, at: i64) -> isize {
    let write = |octets: usize| {
        // SAFETY: as the caller says, and not more.
        unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, octets, at) as isize }
    };
    written(fd, Some(at as u64), octets, write)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: i32,
    from_at: *mut i64,
    to: i32,
    to_at: *mut i64,
    octets: usize,
    flags: u32,
) -> isize {
    let write = |octets: usize| {
        // SAFETY: as the caller says, and not more.
        unsafe { libc::syscall(libc::SYS_copy_file_range, from, from_at, to, to_at, octets, flags) as isize }
    };
    written(to, None, octets, write)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: i32, len: i64) -> i32 {
    // SAFETY: no pointers.
    let cut = || unsafe { libc::syscall(libc::SYS_ftruncate, fd, len) as i32 };
    let taken = take(opened(fd), |machine, path| {
        machine.write_back(path);
        machine.done(machine.faults.tidying_fails, |_| cut())
    });
    taken.unwrap_or_else(cut)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate(fd: i32, mode: i32, at: i64, len: i64) -> i32 {
    // SAFETY: no pointers.
    let reserve = || unsafe { libc::syscall(libc::SYS_fallocate, fd, mode, at, len) as i32 };
    let taken = take(opened(fd), |machine, _| {
        machine.done(0, |machine| {
            let is_full = machine.room() < len as u64;
            machine.full += usize::from(is_full);
            if is_full { failed(libc::ENOSPC) } else { reserve() }
        })
    });
    taken.unwrap_or_else(reserve)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const libc::c_char, to: *const libc::c_char) -> i32 {
    // SAFETY: as the caller says.
    let (from, to) = unsafe { (named(from), named(to)) };
    let taken = take(
        || Some(to.clone()),
        |machine, to| {
            machine.done(0, |machine| {
                machine.put_aside(to);
                kernel_rename(&from, to)
            })
        },
    );
    taken.unwrap_or_else(|| kernel_rename(&from, &to))
}

/// Something is done with a name, which the machine has no part in but that it takes a step.
///
/// # Safety
///
/// It is a string that ends with a zero.
unsafe fn done_at(name: *const libc::c_char, act: impl Fn() -> i32) -> i32 {
    // SAFETY: as the caller says.
    let path = || Some(unsafe { named(name) });
    take(path, |machine, _| machine.done(0, |_| act())).unwrap_or_else(act)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from_folder: i32,
    from: *const libc::c_char,
    to_folder: i32,
    to: *const libc::c_char,
    flags: u32,
) -> i32 {
    // SAFETY: as the caller says.
    let rename = || unsafe { libc::syscall(libc::SYS_renameat2, from_folder, from, to_folder, to, flags) as i32 };
    // SAFETY: as the caller says.
    unsafe { done_at(to, rename) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_folder: i32,
    from: *const libc::c_char,
    to_folder: i32,
    to: *const libc::c_char,
    flags: i32,
) -> i32 {
    // SAFETY: as the caller says.
    let link = || unsafe { libc::syscall(libc::SYS_linkat, from_folder, from, to_folder, to, flags) as i32 };
    // SAFETY: as the caller says.
    unsafe { done_at(to, link) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(name: *const libc::c_char) -> i32 {
    // SAFETY: as the caller says.
    let path = || Some(unsafe { named(name) });
    let taken = take(path, |machine, path| {
        machine.done(machine.faults.tidying_fails, |machine| {
            let is_there = fs::symlink_metadata(path).is_ok();
            machine.put_aside(path);
            if is_there { 0 } else { failed(libc::ENOENT) }
        })
    });
    // SAFETY: as the caller says.
    taken.unwrap_or_else(|| unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, name, 0) as i32 })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(name: *const libc::c_char, mode: u32) -> i32 {
    // SAFETY: as the caller says.
    let make = || unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, name, mode) as i32 };
    // SAFETY: as the caller says.
    unsafe { done_at(name, make) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(name: *const libc::c_char, flags: i32, mode: u32) -> i32 {
    // SAFETY: as the caller says.
    let open = || unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name, flags, mode) as i32 };
    if flags & (libc::O_CREAT | libc::O_TRUNC) == 0 {
        return open();
    }
    // SAFETY: as the caller says. A descriptor is lost with the machine that stops.
    unsafe { done_at(name, open) }
}

/// The same for each run: it decides in what order a `HashMap` is gone through.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(to: *mut libc::c_void, octets: usize, flags: u32) -> isize {
    let noise = MACHINE.try_with(|here| Some(here.try_borrow_mut().ok()?.as_mut()?.noise.number()));
    match noise.ok().flatten() {
        // SAFETY: as the caller says.
        Some(noise) => unsafe {
            std::slice::from_raw_parts_mut(to.cast::<u8>(), octets).fill(noise as u8);
            octets as isize
        },
        // SAFETY: as the caller says.
        None => unsafe { libc::syscall(libc::SYS_getrandom, to, octets, flags) as isize },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: i32, to: *mut libc::timespec) -> i32 {
    let time = MACHINE.try_with(|here| {
        let mut here = here.try_borrow_mut().ok()?;
        let machine = here.as_mut().filter(|_| clock == libc::CLOCK_MONOTONIC)?;
        machine.clock_us += 1;
        Some(machine.clock_us)
    });
    match time.ok().flatten() {
        Some(us) => {
            // SAFETY: as the caller says.
            unsafe { *to = libc::timespec { tv_sec: us / 1_000_000, tv_nsec: us % 1_000_000 * 1000 } };
            0
        }
        // SAFETY: as the caller says.
        None => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, to) as i32 },
    }
}
