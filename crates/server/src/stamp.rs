//! What tells a changed file from an unchanged one, without reading it.

use crate::publisher::vigil::Vigil;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::folder::{Opened, look};

/// A source written this shortly before it was read may be written again within the same tick of the file system's
/// clock, and then look unchanged. It is not believed.
pub const TICK: Duration = Duration::from_millis(50);

/// The same where a file system's clock goes by seconds, or by two: there the times of all files have none of a second's parts.
const COARSE_TICK: Duration = Duration::from_secs(2);

/// Waits until what is written has another stamp than what was there before. There is no event for the clock of files having gone on; who waits
/// is a thread in the background.
pub fn let_tick() {
    std::thread::sleep(TICK);
}

/// Of what nobody writes into again: its time says that it was written some time ago, so that nobody has to wait until a tick is over before he
/// believes its stamp.
pub fn age(path: &Path) -> io::Result<()> {
    File::open(path)?.set_modified(SystemTime::now() - (COARSE_TICK + 2 * TICK))
}

/// When a file was written last, as far as that is known: somebody may have set a time that is to come.
pub fn written_at(file: &Path) -> io::Result<SystemTime> {
    let found = fs::metadata(file)?;
    let changed =
        Duration::new(found.ctime().try_into().unwrap_or_default(), found.ctime_nsec().try_into().unwrap_or_default());
    Ok(found.modified()?.min(UNIX_EPOCH + changed))
}

/// Whether something may be there: what cannot be looked at now is not taken for what is gone.
pub fn may_be_there(path: &Path) -> bool {
    path.try_exists().unwrap_or_else(|e| e.kind() != ErrorKind::InvalidFilename)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    pub modified_ns: i64,
    pub changed_ns: i64,
    pub inode: u64,
}

impl Stamp {
    /// That of a file which is not there: none that is has the inode 0.
    pub const ABSENT: Stamp = Stamp { size: 0, modified_ns: 0, changed_ns: 0, inode: 0 };

    /// None: the file was written only just now, or cannot be looked at.
    pub fn of(path: &Path) -> Option<Stamp> {
        Looks::default().look(path).map(|found| found.stamp)
    }

    /// That of a file which is as it is.
    pub fn seen(m: &Metadata) -> Stamp {
        let (modified_ns, changed_ns) = (ns(m.mtime(), m.mtime_nsec()), ns(m.ctime(), m.ctime_nsec()));
        Stamp { size: m.size(), modified_ns, changed_ns, inode: m.ino() }
    }

    /// Octets that a stamp is kept in.
    pub const OCTETS: usize = 32;

    pub fn encode(&self) -> [u8; Stamp::OCTETS] {
        let words = [self.size, self.modified_ns.cast_unsigned(), self.changed_ns.cast_unsigned(), self.inode];
        let mut octets = [0; Stamp::OCTETS];
        octets.chunks_exact_mut(8).zip(words).for_each(|(at, word)| at.copy_from_slice(&word.to_le_bytes()));
        octets
    }

    pub fn decode(octets: &[u8; Stamp::OCTETS]) -> Stamp {
        let mut words = octets.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let (size, modified, changed, inode) = (next(), next(), next(), next());
        Stamp { size, modified_ns: modified.cast_signed(), changed_ns: changed.cast_signed(), inode }
    }
}

/// Enough until the year 2262; what is beyond looks changed only if it changes by 584 years exactly.
fn ns(s: i64, ns: i64) -> i64 {
    s.wrapping_mul(1_000_000_000).wrapping_add(ns)
}

/// What was written before may be believed. Seconds and nanoseconds since 1970.
struct Settled {
    fine: (i64, i64),
    coarse: (i64, i64),
}

impl Settled {
    fn now() -> Settled {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = |tick| {
            let then = now.saturating_sub(tick);
            (then.as_secs().cast_signed(), then.subsec_nanos().into())
        };
        Settled { fine: before(TICK), coarse: before(COARSE_TICK + TICK) }
    }

    /// Either time will do: whoever writes again changes both, but that of the last change of any kind nobody can set, and the other one may have been set to a
    /// time to come.
    fn has(&self, modified: (i64, i64), changed: (i64, i64)) -> bool {
        let is_coarse = (modified.1, changed.1) == (0, 0);
        modified.min(changed) < if is_coarse { self.coarse } else { self.fine }
    }
}

/// Looks at files one after another, for some milliseconds: a folder that stands open is what its path led to when it was
/// opened. Most files lie in the folder of the one before, and are looked at in it by their names. That costs two thirds of
/// a look by a path of six parts.
pub struct Looks<'v> {
    settled: Settled,
    /// That of the file before.
    folder: PathBuf,
    opened: Option<Opened>,
    pub vigil: Option<&'v Vigil>,
    is_watched: bool,
}

/// What a look at a file finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub stamp: Stamp,
    /// The kernel will tell if it changes.
    pub is_watched: bool,
}

impl Default for Looks<'_> {
    fn default() -> Self {
        Looks::beside(None)
    }
}

impl<'v> Looks<'v> {
    pub fn beside(vigil: Option<&'v Vigil>) -> Looks<'v> {
        Looks { settled: Settled::now(), folder: PathBuf::new(), opened: None, vigil, is_watched: false }
    }

    /// None: the file was written only just now, or cannot be looked at.
    pub fn look(&mut self, path: &Path) -> Option<Look> {
        let name = self.goes_in(path);
        let found = match &self.opened {
            Some(folder) if !name.is_empty() => folder.look(name),
            _ => look(path),
        };
        let found = match found {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Some(Look { stamp: Stamp::ABSENT, is_watched: false });
            }
            found => found.ok().filter(|found| self.settled.has(found.modified, found.changed))?,
        };
        let [modified_ns, changed_ns] = [found.modified, found.changed].map(|(s, nanos)| ns(s, nanos));
        let stamp = Stamp { size: found.size, modified_ns, changed_ns, inode: found.inode };
        Some(Look { stamp, is_watched: found.is_plain && self.is_watched })
    }

    /// The name of a file in its folder, which stands open if the file before lay in it, too.
    fn goes_in<'p>(&mut self, path: &'p Path) -> &'p [u8] {
        let path = path.as_os_str().as_bytes();
        let (folder, name) = path.split_at(path.iter().rposition(|&octet| octet == b'/').map_or(0, |at| at + 1));
        if self.folder.as_os_str().as_bytes() != folder {
            (self.folder, self.opened) = (PathBuf::from(OsStr::from_bytes(folder)), None);
            self.is_watched = self.vigil.is_some_and(|vigil| vigil.watches(&self.folder));
        } else if self.opened.is_none() {
            self.opened = Opened::new(&self.folder).ok();
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    /// As the standard library finds it.
    fn alone(path: &Path) -> Option<Stamp> {
        let m = match fs::metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Some(Stamp::ABSENT),
            found => found.ok()?,
        };
        Settled::now().has((m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec())).then(|| Stamp::seen(&m))
    }

    /// Files of all kinds in two folders: what is seen of them one after another is what is seen of each.
    #[test]
    fn looks_one_after_another_see_what_each_look_sees() {
        let root = std::env::temp_dir().join(format!("dunlin-stamp-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let path = |name: &str| root.join(name);
        let write = |name: &str, text: &str, at: SystemTime| {
            fs::write(path(name), text).unwrap();
            File::open(path(name)).unwrap().set_modified(at).unwrap();
        };
        let (old, hour) = (SystemTime::now() - Duration::from_secs(60), Duration::from_secs(3600));
        for folder in ["a", "b"] {
            fs::create_dir_all(path(folder)).unwrap();
            write(&format!("{folder}/x"), "x", old);
            write(&format!("{folder}/y"), "long", old);
            write(&format!("{folder}/later"), "", old + hour);
        }
        symlink("x", path("a/link")).unwrap();
        symlink("../b", path("a/over")).unwrap();
        // Nor has it come to rest while this looks.
        File::open(path("a")).unwrap().set_modified(old + hour).unwrap();
        let names = ["a/x", "a/y", "a/link", "a/none", "a/later", "a/over/x", "b/x", "b/y", "b/x/y", "a/../b/y", "a/"];
        let every = names.iter().flat_map(|one| names.iter().map(move |other| [one, other])).flatten();
        let mut looks = Looks::default();
        for path in every.map(|name| path(name)).chain(["/", "", "x", "/x", "/etc"].map(PathBuf::from)) {
            assert_eq!(looks.look(&path).map(|found| found.stamp), alone(&path), "{}", path.display());
        }
        // In a folder that stands open, too, whatever happens to a file is seen.
        assert!(looks.look(&path("a/x")).is_some());
        let mut seen = || looks.look(&path("a/y"));
        let first = seen();
        assert!(first.is_some());
        write("a/y", "longer", old);
        let second = seen();
        assert!(second.is_some() && second != first);
        write("a/y", "LONGER", old + TICK);
        let third = seen();
        assert!(third.is_some() && third != second);
        fs::rename(path("b/y"), path("a/y")).unwrap();
        let fourth = seen();
        assert!(fourth.is_some() && fourth != third && fourth != first);
        write("a/y", "unsettled", old + hour);
        assert_eq!(seen(), None);
        fs::remove_file(path("a/y")).unwrap();
        assert_eq!(seen(), Some(Look { stamp: Stamp::ABSENT, is_watched: false }));
        // So is a folder that has taken the other's place, by whoever begins to look after it.
        let before = looks.look(&path("a/x"));
        fs::rename(path("a"), path("c")).unwrap();
        fs::rename(path("b"), path("a")).unwrap();
        let mut looks = Looks::default();
        let after = [looks.look(&path("a/x")), looks.look(&path("a/x"))];
        assert!(after[0] == after[1] && after[0].is_some() && after[0] != before);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_clock_that_goes_by_seconds_is_waited_for_longer() {
        let settled = Settled { fine: (100, 950), coarse: (98, 950) };
        for (modified, changed, is_settled) in [
            ((100, 900), (100, 900), true),
            ((100, 960), (100, 960), false),
            // Unpacked from an archive that has seconds only.
            ((100, 0), (100, 900), true),
            ((98, 0), (98, 0), true),
            ((99, 0), (99, 0), false),
            ((100, 0), (100, 0), false),
            // Somebody has set a time to come.
            ((200, 0), (100, 900), true),
            ((200, 0), (100, 960), false),
            ((200, 0), (98, 0), true),
        ] {
            assert_eq!(settled.has(modified, changed), is_settled, "{modified:?}, {changed:?}");
        }
    }
}
