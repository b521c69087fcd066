//! All that is wrong with a zone: with its text, and with what the text means. Builds nothing that is served.

use crate::config::Zone;
use crate::images::name;
use crate::json::Json;
use crate::zonetext;
use image::Builder;
use net::privilege::User;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zonefile::{Problem, Record, Severity};

pub struct Findings {
    pub apex: Box<[u8]>,
    pub file: PathBuf,
    pub records: u64,
    pub errors: u64,
    pub warnings: u64,
    /// About places in the text; the first thousand.
    pub problems: Vec<Problem>,
    /// About the zone as a whole: it cannot be read, or it cannot be served.
    pub whole: Vec<String>,
}

/// Reads a zone and tries to build it.
pub fn of(zone: &Zone) -> Findings {
    let mut builder = Builder::new(0);
    builder.begin_zone(&zone.apex);
    let mut sink = |r: Record<'_>, _: &_| builder.record(r.owner, r.rtype, r.ttl, r.rdata);
    let read = zonetext::read(zone, &mut sink);
    let mut findings = Findings {
        apex: zone.apex.clone(),
        file: zone.file.clone(),
        records: 0,
        errors: 0,
        warnings: 0,
        problems: Vec::new(),
        whole: Vec::new(),
    };
    match read {
        Ok(reading) => {
            let report = reading.report;
            (findings.records, findings.errors, findings.warnings) = (report.records, report.errors, report.warnings);
            findings.problems = report.problems;
            let (_, _, complaints) = builder.finish();
            findings.whole = complaints.into_iter().map(|c| c.what).collect();
        }
        Err(unread) => findings.whole.push(unread.why.to_string()),
    }
    findings
}

impl Findings {
    /// The zone cannot be served as its file says.
    pub fn is_bad(&self) -> bool {
        self.errors > 0 || !self.whole.is_empty()
    }

    pub fn json(&self) -> Json {
        Json::Object(vec![
            ("zone", Json::text(name(&self.apex))),
            ("file", Json::text(self.file.display())),
            ("ok", Json::Bool(!self.is_bad())),
            ("records", Json::Number(self.records)),
            ("errors", Json::Number(self.errors + self.whole.len() as u64)),
            ("warnings", Json::Number(self.warnings)),
            ("problems", Json::list(self.problems.iter().map(placed).chain(self.whole.iter().map(unplaced)), |p| p)),
        ])
    }
}

fn placed(p: &Problem) -> Json {
    Json::Object(vec![
        ("severity", Json::text(if p.severity == Severity::Error { "error" } else { "warning" })),
        ("file", Json::text(&p.place.file)),
        ("line", Json::Number(u64::from(p.place.line))),
        ("column", Json::Number(u64::from(p.place.column))),
        ("what", Json::text(&p.what)),
        ("instead", Json::text(&p.instead)),
    ])
}

fn unplaced(what: &String) -> Json {
    Json::Object(vec![("severity", Json::text("error")), ("what", Json::text(what))])
}

impl fmt::Display for Findings {
    /// Problems only; nothing for a zone without any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        let shown = self.problems.len() as u64;
        let all = self.errors + self.warnings;
        if all > shown {
            writeln!(f, "{}: and {} more", self.file.display(), all - shown)?;
        }
        for what in &self.whole {
            writeln!(f, "{}: error: zone {}: {what}", self.file.display(), name(&self.apex))?;
        }
        Ok(())
    }
}

/// The first of a path's folders, or the file itself, that `user` may not read. Goes by owner, group and mode alone:
/// further groups and access lists may still allow it, so this is worth a warning and no more.
pub fn unreadable_by(user: &User, path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let mut places: Vec<&Path> = path.ancestors().collect();
    places.reverse();
    places.into_iter().find(|p| !may_read(user, p)).map(Path::to_path_buf)
}

fn may_read(user: &User, path: &Path) -> bool {
    let Ok(m) = std::fs::metadata(path) else { return true };
    let bit = if m.is_dir() { 0o1 } else { 0o4 };
    let shift = if m.uid() == user.uid {
        6
    } else if m.gid() == user.gid {
        3
    } else {
        0
    };
    user.uid == 0 || m.mode() & (bit << shift) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_another_user_may_not_read_is_found_with_its_folder() {
        let folder = std::env::temp_dir().join(format!("dunlin-findings-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        let file = folder.join("inner/zone");
        std::fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        let stranger = User { name: "stranger".into(), uid: 4_000_000, gid: 4_000_000 };
        mode(&folder, 0o755);
        mode(&folder.join("inner"), 0o755);
        mode(&file, 0o640);
        assert_eq!(unreadable_by(&stranger, &file), Some(file.canonicalize().unwrap()));
        mode(&file, 0o644);
        assert_eq!(unreadable_by(&stranger, &file), None);
        mode(&folder.join("inner"), 0o700);
        assert_eq!(unreadable_by(&stranger, &file), Some(folder.join("inner").canonicalize().unwrap()));
        let _ = std::fs::remove_dir_all(&folder);
    }
}
