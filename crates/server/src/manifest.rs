//! Which files an image was made of, so that a start with unchanged sources can map the old image at once.
//!
//! A text file beside the image. Anything odd in it means "make the image again", never an error: it is a cache.

use crate::config::{self, Zone};
use crate::images::Problem;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wire::Name;

const HEAD: &str = concat!("dunlin-manifest 1 ", env!("CARGO_PKG_VERSION"));
/// A source written this shortly before it was read may be written again within the same tick of the file system's
/// clock, and then look unchanged. It is not believed.
pub const TICK: Duration = Duration::from_millis(50);

/// What tells a changed file from an unchanged one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
    inode: u64,
}

impl Stamp {
    /// None: there is no such file, or it was written only just now.
    pub fn of(path: &Path) -> Option<Stamp> {
        let m = std::fs::metadata(path).ok()?;
        let settled = m.modified().ok()? + TICK < SystemTime::now();
        let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        let (modified_ns, changed_ns) = (ns(m.mtime(), m.mtime_nsec()), ns(m.ctime(), m.ctime_nsec()));
        settled.then_some(Stamp { size: m.size(), modified_ns, changed_ns, inode: m.ino() })
    }

    fn parse(words: &str) -> Option<Stamp> {
        let mut n = words.split(' ');
        let mut next = || n.next()?.parse::<i128>().ok();
        let (size, modified_ns, changed_ns, inode) = (next()?, next()?, next()?, next()?);
        Some(Stamp { size: u64::try_from(size).ok()?, modified_ns, changed_ns, inode: u64::try_from(inode).ok()? })
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} {}", self.size, self.modified_ns, self.changed_ns, self.inode)
    }
}

/// One zone of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub apex: Box<[u8]>,
    pub file: PathBuf,
    /// The zone file and what it includes, as they were before they were read.
    pub sources: Vec<(PathBuf, Option<Stamp>)>,
    /// Why the zone is not served as its file says.
    pub problem: Option<String>,
}

/// Kept as the text that it is on the disk: a million zones are looked through without making anything of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    text: String,
    /// Size and seed of the image: that of another build is not mistaken for this one's.
    pub image: (u64, u64),
}

impl Manifest {
    pub fn new(image: (u64, u64), entries: &[Entry]) -> Manifest {
        let mut text = format!("{HEAD}\nimage {} {}\n", image.0, image.1);
        for entry in entries {
            entry.write(&mut text);
        }
        text.push_str("end\n");
        Manifest { text, image }
    }

    pub fn parse(text: String) -> Option<Manifest> {
        let mut lines = text.strip_suffix("end\n")?.lines();
        if lines.next()? != HEAD {
            return None;
        }
        let (size, seed) = lines.next()?.strip_prefix("image ")?.split_once(' ')?;
        let image = (size.parse().ok()?, seed.parse().ok()?);
        Some(Manifest { text, image })
    }

    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// Kind and rest of each line about zones.
    fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        let body = self.text.strip_suffix("end\n").unwrap_or(&self.text);
        body.lines().skip(2).map(|line| line.split_once(' ').unwrap_or((line, "")))
    }

    /// True if these zones, read now, would give what the image holds.
    pub fn is_current(&self, zones: &[Zone]) -> bool {
        let mut zones = zones.iter();
        let mut name = String::new();
        // A zone without a source that can be compared is never current.
        let mut compared = true;
        for (kind, rest) in self.lines() {
            let good = match kind {
                "zone" => compared && zones.next().is_some_and(|z| is_about(rest, z, &mut name)),
                "source" => is_unchanged(rest),
                "problem" => true,
                _ => false,
            };
            compared = kind != "zone";
            if !good {
                return false;
            }
        }
        compared && zones.next().is_none()
    }

    /// Which of the zones, among those asked for, would give something else if they were read now. None: they are not the
    /// zones of the image.
    pub fn changed(&self, zones: &[Zone], is_asked: impl Fn(&Zone) -> bool) -> Option<Vec<usize>> {
        let (mut changed, mut name) = (Vec::new(), String::new());
        let (mut known, mut compared) = (0, true);
        for (kind, rest) in self.lines() {
            let is_same = match kind {
                "zone" => {
                    is_about(rest, zones.get(known)?, &mut name).then_some(())?;
                    if !compared {
                        changed.push(known - 1);
                    }
                    (known, compared) = (known + 1, false);
                    continue;
                }
                "source" => !is_asked(zones.get(known.checked_sub(1)?)?) || is_unchanged(rest),
                "unsettled" => !is_asked(zones.get(known.checked_sub(1)?)?),
                "problem" => true,
                _ => return None,
            };
            compared |= kind != "problem";
            if !is_same && changed.last() != Some(&(known - 1)) {
                changed.push(known - 1);
            }
        }
        if !compared {
            changed.push(known.checked_sub(1)?);
        }
        (known == zones.len()).then_some(changed)
    }

    /// With other entries for some zones, by their numbers.
    pub fn with(&self, entries: &HashMap<usize, Entry>) -> Manifest {
        let mut text = format!("{HEAD}\nimage {} {}\n", self.image.0, self.image.1);
        let (mut number, mut is_replaced) = (0, false);
        for (kind, rest) in self.lines() {
            if kind == "zone" {
                let entry = entries.get(&number);
                entry.iter().for_each(|e| e.write(&mut text));
                (number, is_replaced) = (number + 1, entry.is_some());
            }
            if !is_replaced {
                let _ = writeln!(text, "{kind} {rest}");
            }
        }
        text.push_str("end\n");
        Manifest { text, image: self.image }
    }

    /// Calls `f` with zone, its file, and each file that it includes.
    pub fn for_each_include(&self, mut f: impl FnMut(&str, &Path, &Path)) {
        let (mut zone, mut file) = ("", Cow::Borrowed(""));
        for (kind, rest) in self.lines() {
            let source = match kind {
                "zone" => {
                    let (name, path) = rest.split_once(' ').unwrap_or((rest, ""));
                    (zone, file) = (name, unescaped(path));
                    None
                }
                "source" => rest.splitn(5, ' ').nth(4).map(unescaped),
                "unsettled" => Some(unescaped(rest)),
                _ => None,
            };
            if let Some(source) = source.filter(|source| *source != file) {
                f(zone, Path::new(&*file), Path::new(&*source));
            }
        }
    }

    /// Zones that the image does not hold as their files say.
    pub fn problems(&self) -> Vec<Problem> {
        let mut about = "";
        let mut problems = Vec::new();
        for (kind, rest) in self.lines() {
            match kind {
                "zone" => about = rest.split(' ').next().unwrap_or(""),
                "problem" => {
                    problems.extend(config::apex(about).ok().map(|apex| Problem { apex, what: unescaped(rest).into() }))
                }
                _ => {}
            }
        }
        problems
    }
}

/// True if the rest of a line "zone NAME FILE" is about this zone. `name` is room for its text.
fn is_about(rest: &str, zone: &Zone, name: &mut String) -> bool {
    name.clear();
    wire::name::push_text(&zone.apex, name);
    rest.split_once(' ').is_some_and(|(n, file)| n == name && *unescaped(file) == *zone.file.to_string_lossy())
}

/// True if the rest of a line "source STAMP FILE" is how the file is now.
fn is_unchanged(rest: &str) -> bool {
    let file = rest.splitn(5, ' ').nth(4).map(unescaped);
    file.is_some_and(|file| Stamp::parse(rest).is_some_and(|stamp| Stamp::of(Path::new(&*file)) == Some(stamp)))
}

impl Entry {
    fn write(&self, out: &mut String) {
        let name = Name::from_wire(&self.apex).unwrap_or(Name::ROOT);
        let _ = writeln!(out, "zone {name} {}", escaped(&self.file.to_string_lossy()));
        for (path, stamp) in &self.sources {
            let path = path.to_string_lossy();
            let path = escaped(&path);
            let _ = match stamp {
                Some(stamp) => writeln!(out, "source {stamp} {path}"),
                None => writeln!(out, "unsettled {path}"),
            };
        }
        if let Some(problem) = &self.problem {
            let _ = writeln!(out, "problem {}", escaped(problem));
        }
    }
}

fn escaped(text: &str) -> Cow<'_, str> {
    if text.contains(['\\', '\n']) {
        return text.replace('\\', "\\\\").replace('\n', "\\n").into();
    }
    text.into()
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some(other)) => out.push(other),
            (c, _) => out.push(c),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that has settled, and a zone of it.
    fn settled(name: &str) -> (PathBuf, Zone) {
        let file = std::env::temp_dir().join(format!("dunlin-manifest-{}-{name}", std::process::id()));
        std::fs::write(&file, "x").unwrap();
        let old = SystemTime::now() - Duration::from_secs(60);
        std::fs::File::open(&file).unwrap().set_modified(old).unwrap();
        let zone = Zone::new(b"\x01a\x00"[..].into(), file.clone());
        (file, zone)
    }

    fn entry(zone: &Zone, sources: &[&Path], problem: Option<&str>) -> Entry {
        let sources = sources.iter().map(|p| (p.to_path_buf(), Stamp::of(p))).collect();
        Entry { apex: zone.apex.clone(), file: zone.file.clone(), sources, problem: problem.map(str::to_string) }
    }

    #[test]
    fn a_manifest_is_current_until_a_source_changes() {
        let (file, zone) = settled("a file\\ with\nodd name");
        let manifest = Manifest::new((7, 8), &[entry(&zone, &[&file], None)]);
        let again = Manifest::parse(manifest.as_text().to_string()).unwrap();
        assert_eq!(again, manifest);
        assert!(again.is_current(std::slice::from_ref(&zone)));
        assert!(!again.is_current(&[]));
        assert!(!again.is_current(&[zone.clone(), zone.clone()]));
        assert!(!again.is_current(&[Zone { apex: b"\x01b\x00"[..].into(), ..zone.clone() }]));
        assert!(!again.is_current(&[Zone { file: "other".into(), ..zone.clone() }]));
        std::fs::write(&file, "y").unwrap();
        assert!(!again.is_current(std::slice::from_ref(&zone)));
        let _ = std::fs::remove_file(file);
    }

    #[test]
    fn a_zone_without_a_settled_source_is_never_current() {
        let (file, zone) = settled("unsettled");
        for sources in [&[][..], &[Path::new("/no/such/file")]] {
            let manifest = Manifest::new((7, 8), &[entry(&zone, sources, None)]);
            assert!(!manifest.is_current(std::slice::from_ref(&zone)), "{sources:?}");
        }
        assert!(Manifest::new((7, 8), &[]).is_current(&[]));
        let _ = std::fs::remove_file(file);
    }

    #[test]
    fn problems_are_told_with_their_zones() {
        let (file, zone) = settled("problems");
        let root = Zone { apex: b"\0"[..].into(), ..zone.clone() };
        let entries = [entry(&root, &[&file], None), entry(&zone, &[&file], Some("line 1\nline \\2"))];
        let problems = Manifest::new((7, 8), &entries).problems();
        assert_eq!(problems, [Problem { apex: zone.apex, what: "line 1\nline \\2".into() }]);
        let _ = std::fs::remove_file(file);
    }

    #[test]
    fn a_manifest_that_is_cut_off_or_of_another_version_is_none() {
        let (file, zone) = settled("cut");
        let text = Manifest::new((7, 8), &[entry(&zone, &[&file], None)]).text;
        for n in 0..text.len() {
            assert_eq!(Manifest::parse(text[..n].to_string()), None, "{n}");
        }
        assert_eq!(Manifest::parse(text.replace("manifest 1", "manifest 2")), None);
        let _ = std::fs::remove_file(file);
    }
}
