//! Which files an image was made of, so that a start with unchanged sources can map the old image at once.
//!
//! A text file beside the image. Anything odd in it means "make the image again", never an error: it is a cache.

use crate::config::Zone;
use crate::images::Problem;
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wire::Name;

const HEAD: &str = concat!("dunlin-manifest 1 ", env!("CARGO_PKG_VERSION"));
/// A source written this shortly before it was read may be written again within the same tick of the file system's
/// clock, and then look unchanged. It is not believed.
const TICK: Duration = Duration::from_millis(50);

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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub entries: Vec<Entry>,
    /// Size and seed of the image: that of another build is not mistaken for this one's.
    pub image: (u64, u64),
}

impl Manifest {
    /// True if these zones, read now, would give what the image holds.
    pub fn is_current(&self, zones: &[Zone]) -> bool {
        self.entries.len() == zones.len()
            && self.entries.iter().zip(zones).all(|(e, z)| e.apex == z.apex && e.file == z.file)
            && self.entries.iter().all(Entry::is_unchanged)
    }

    /// Zones that the image does not hold as their files say.
    pub fn problems(&self) -> Vec<Problem> {
        let problem = |e: &Entry| Some(Problem { apex: e.apex.clone(), what: e.problem.clone()? });
        self.entries.iter().filter_map(problem).collect()
    }

    pub fn to_text(&self) -> String {
        let mut out = format!("{HEAD}\nimage {} {}\n", self.image.0, self.image.1);
        for e in &self.entries {
            let name = Name::from_wire(&e.apex).unwrap_or(Name::ROOT);
            let _ = writeln!(out, "zone {name} {}", escaped(&e.file.to_string_lossy()));
            for (path, stamp) in &e.sources {
                let path = escaped(&path.to_string_lossy());
                let _ = match stamp {
                    Some(stamp) => writeln!(out, "source {stamp} {path}"),
                    None => writeln!(out, "unsettled {path}"),
                };
            }
            if let Some(problem) = &e.problem {
                let _ = writeln!(out, "problem {}", escaped(problem));
            }
        }
        out.push_str("end\n");
        out
    }

    pub fn parse(text: &str) -> Option<Manifest> {
        let mut lines = text.strip_suffix("end\n")?.lines();
        if lines.next()? != HEAD {
            return None;
        }
        let (size, seed) = lines.next()?.strip_prefix("image ")?.split_once(' ')?;
        let mut manifest = Manifest { entries: Vec::new(), image: (size.parse().ok()?, seed.parse().ok()?) };
        for line in lines {
            let (kind, rest) = line.split_once(' ')?;
            if kind == "zone" {
                manifest.entries.push(Entry::parse(rest)?);
                continue;
            }
            let last = manifest.entries.last_mut()?;
            match kind {
                "problem" => last.problem = Some(unescaped(rest)),
                "source" => {
                    let path = rest.splitn(5, ' ').nth(4)?;
                    last.sources.push((unescaped(path).into(), Some(Stamp::parse(rest)?)));
                }
                "unsettled" => last.sources.push((unescaped(rest).into(), None)),
                _ => return None,
            }
        }
        Some(manifest)
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Entry> {
        let (name, file) = text.split_once(' ')?;
        let apex = Name::from_text(name.as_bytes(), None).ok()?.fold().bytes().into();
        Some(Entry { apex, file: unescaped(file).into(), sources: Vec::new(), problem: None })
    }

    fn is_unchanged(&self) -> bool {
        !self.sources.is_empty()
            && self.sources.iter().all(|(path, stamp)| stamp.is_some() && *stamp == Stamp::of(path))
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some(other)) => out.push(other),
            (c, _) => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let stamp = Stamp { size: 1, modified_ns: 2, changed_ns: -3, inode: 4 };
        let entry = Entry {
            apex: b"\x01a\x00"[..].into(),
            file: "/zones/a file\\\n.zone".into(),
            sources: vec![("/zones/a".into(), Some(stamp)), ("/with blank".into(), None)],
            problem: Some("line 1\nline 2".into()),
        };
        let root = Entry { apex: b"\0"[..].into(), file: "r".into(), sources: vec![], problem: None };
        Manifest { entries: vec![entry, root], image: (7, 8) }
    }

    #[test]
    fn text_there_and_back() {
        assert_eq!(Manifest::parse(&sample().to_text()), Some(sample()));
    }

    #[test]
    fn a_manifest_that_is_cut_off_or_of_another_version_is_none() {
        let text = sample().to_text();
        for n in 0..text.len() {
            assert_eq!(Manifest::parse(&text[..n]), None, "{n}");
        }
        assert_eq!(Manifest::parse(&text.replace("manifest 1", "manifest 2")), None);
    }

    #[test]
    fn a_zone_without_a_settled_source_is_never_current() {
        let zones: Vec<Zone> = sample()
            .entries
            .iter()
            .map(|e| Zone { apex: e.apex.clone(), file: e.file.clone(), allow_query: None, place: None })
            .collect();
        assert!(!sample().is_current(&zones));
        assert!(Manifest::default().is_current(&[]));
    }
}
