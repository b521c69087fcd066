//! All that is wrong with a zone: with its text, and with what the text means. Builds nothing that is served.
//!
//! What the text means is judged from the records, of which nobody keeps the lines. So where something is found, the text
//! is read once more, to say where it stands.

use crate::config::Zone;
use crate::images::name;
use crate::images::scratch::{self, Scratch};
use crate::json::Json;
use crate::zonetext::reading::{self, Stock, Threads};
use crate::zonetext::{self, Unread};
use audit::{Fault, Finding, Rating, Rules, audit};
use image::Complaint;
use image::edit::host_of;
use net::privilege::User;
use std::collections::HashMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::Rtype;
use zonefile::{Objection, Problem, Record, Report, Severity};

pub struct Findings {
    pub apex: Box<[u8]>,
    pub file: PathBuf,
    pub records: u64,
    pub errors: u64,
    pub warnings: u64,
    /// About places in the text; the first thousand of each severity.
    pub problems: Vec<Problem>,
    /// About the zone as a whole, or about what is not there.
    pub whole: Vec<Objection>,
    /// The zone would not be served as its file says.
    pub is_refused: bool,
}

/// Files at least this long are read for errors of form first: while there are any, no record is kept.
const FORM_FIRST_FROM: usize = 512 << 20;

/// Reads a zone and judges it.
pub fn of(zone: &Zone, rules: &Rules) -> Findings {
    judged(zone, rules).unwrap_or_else(|unread| Findings::unread(zone, unread.why.to_string()))
}

fn judged(zone: &Zone, rules: &Rules) -> Result<Findings, Unread> {
    if let Some(report) = errors_of_form(zone)? {
        return Ok(Findings::new(zone, report, &audit::Report::default(), &[]));
    }
    let spill = Arc::new(Scratch::new(std::env::temp_dir()));
    let Read { report, audited, complaints, .. } = read(zone, rules, &Stock::new(0, scratch::memory(), spill))?;
    Ok(Findings::new(zone, report, &audited, &complaints))
}

/// What the text's reader, the audit and the builder say of a zone.
struct Read {
    report: Report,
    audited: audit::Report,
    complaints: Vec<Complaint>,
    serial: u32,
}

fn read(zone: &Zone, rules: &Rules, stock: &Stock) -> Result<Read, Unread> {
    let mut builder = stock.builder();
    builder.begin_zone(&zone.apex);
    let report = reading::one(zone, stock, &mut builder)?.report;
    let (mut audited, mut serial) = (audit::Report::default(), 0);
    let complaints = builder.judge(&Threads, &mut |sorted| {
        (audited, serial) = (audit(sorted, rules), audit::serial(sorted));
        audited.refusal()
    });
    Ok(Read { report, audited, complaints, serial })
}

/// The serial of what a file holds. Err: why that is not to be served as a zone, or that it cannot be told.
pub fn sound_serial(zone: &Zone, rules: &Rules, stock: &Stock) -> Result<u32, String> {
    let Read { report, complaints, serial, .. } =
        read(zone, rules, stock).map_err(|unread| format!("{}: {}", zone.file.display(), unread.why))?;
    let wrong = report.first_error().or_else(|| complaints.into_iter().next().map(|complaint| complaint.what));
    wrong.map_or(Ok(serial), Err)
}

/// What is wrong with the form of a long file; none of a shorter one, or if nothing is.
pub fn errors_of_form(zone: &Zone) -> Result<Option<Report>, Unread> {
    let opened = zonetext::open(zone)?;
    if opened.len() < FORM_FIRST_FROM {
        return Ok(None);
    }
    let parts = opened.read_in_parts(reading::hands(), || (), |(), _| Ok(()));
    let report = parts.map_or_else(|| opened.read(&mut |_, _| Ok(())).report, |(_, reading)| reading.report);
    Ok((report.errors > 0).then_some(report))
}

impl Findings {
    fn unread(zone: &Zone, why: String) -> Findings {
        Findings {
            apex: zone.apex.clone(),
            file: zone.file.clone(),
            records: 0,
            errors: 1,
            warnings: 0,
            problems: Vec::new(),
            whole: vec![Objection { severity: Severity::Error, name: "unreadable", what: why, instead: String::new() }],
            is_refused: true,
        }
    }

    /// Puts together what the text's reader, the audit and the builder say of a zone.
    pub fn new(zone: &Zone, read: Report, report: &audit::Report, complaints: &[Complaint]) -> Findings {
        let found = report.count(Rating::Fatal) + report.count(Rating::Error);
        let mut findings = Findings {
            apex: zone.apex.clone(),
            file: zone.file.clone(),
            records: read.records,
            errors: read.errors + found,
            warnings: read.warnings + report.count(Rating::Warning),
            problems: read.problems,
            whole: Vec::new(),
            is_refused: read.errors > 0 || !complaints.is_empty(),
        };
        if !report.is_empty() {
            findings.place(zone, &report.findings);
        }
        // What the audit refuses the builder complains of in the same words.
        if report.refusal().is_none() {
            for complaint in complaints {
                findings.errors += 1;
                findings.whole.extend(Objection::refusal(complaint.what.clone()));
            }
        }
        findings
    }

    /// Reads the text again, to say where each finding stands.
    fn place(&mut self, zone: &Zone, findings: &[Finding]) {
        let mut places = Unplaced::new(findings);
        let mut sink = |r: Record<'_>, _: &_| {
            let objections = places.on_record(&r);
            if objections.is_empty() { Ok(()) } else { Err(objections) }
        };
        if let Ok(reading) = zonetext::read(zone, &mut sink) {
            // What the builder refused it is not asked again: that comes first.
            let again = reading.report.problems;
            self.problems.retain(|problem| !again.contains(problem));
            self.problems.extend(again);
        }
        self.whole.extend(places.rest());
    }
}

/// Findings whose place in the text is not known yet.
struct Unplaced<'f> {
    by_owner: HashMap<&'f [u8], At<'f>>,
    rest: Vec<&'f Finding>,
}

/// Those of a name.
#[derive(Default)]
struct At<'f> {
    any: Vec<Wanted<'f>>,
    /// By the type of the record at fault, and the host that it names, in lower case.
    of_hosts: HashMap<(Rtype, String), Vec<&'f Finding>>,
}

struct Wanted<'f> {
    finding: &'f Finding,
    /// Records of its kind that come before the one at fault.
    skip: usize,
}

impl<'f> Unplaced<'f> {
    fn new(findings: &'f [Finding]) -> Unplaced<'f> {
        let mut this = Unplaced { by_owner: HashMap::new(), rest: Vec::new() };
        for finding in findings {
            use Fault::*;
            match finding.fault {
                NoSoa | NoNs | NoDnskey | NoDenial => this.rest.push(finding),
                fault => {
                    let skip = usize::from(matches!(fault, ManySoas | ManyCnames | ManyDnames | UnequalTtls | Twice));
                    let at = this.by_owner.entry(&finding.owner).or_default();
                    match finding.rtype.filter(|_| fault.is_about_host()) {
                        Some(rtype) => {
                            at.of_hosts.entry((rtype, finding.detail.to_ascii_lowercase())).or_default().push(finding);
                        }
                        None => at.any.push(Wanted { finding, skip }),
                    }
                }
            }
        }
        this
    }

    /// What was found of this record; each finding is told once.
    fn on_record(&mut self, r: &Record<'_>) -> Vec<Objection> {
        let mut folded = [0; wire::name::NAME_MAX];
        let Some(folded) = folded.get_mut(..r.owner.len()) else { return Vec::new() };
        folded.copy_from_slice(r.owner);
        wire::name::fold(folded);
        let Some(wanted) = self.by_owner.get_mut(&*folded) else { return Vec::new() };
        let mut objections = Vec::new();
        if let Some(host) = host_of(r.rtype, r.rdata).filter(|_| !wanted.of_hosts.is_empty()) {
            let mut name = String::new();
            wire::name::push_text(host, &mut name);
            name.make_ascii_lowercase();
            let found = wanted.of_hosts.remove(&(r.rtype, name));
            objections.extend(found.into_iter().flatten().map(objection));
        }
        wanted.any.retain_mut(|w| {
            let is_it = w.finding.rtype.is_none_or(|rtype| rtype == r.rtype);
            if is_it && w.skip == 0 {
                objections.push(objection(w.finding));
            }
            let is_told = is_it && w.skip == 0;
            w.skip -= usize::from(is_it && !is_told);
            !is_told
        });
        objections
    }

    /// What has no place of its own.
    fn rest(mut self) -> impl Iterator<Item = Objection> {
        for at in self.by_owner.into_values() {
            self.rest.extend(at.any.into_iter().map(|w| w.finding).chain(at.of_hosts.into_values().flatten()));
        }
        self.rest.sort_by_key(|f| (f.owner.len(), &f.owner, f.fault));
        self.rest.into_iter().map(objection)
    }
}

fn objection(finding: &Finding) -> Objection {
    let severity = match finding.fault.rating() {
        Rating::Fatal | Rating::Error => Severity::Error,
        Rating::Warning => Severity::Warning,
    };
    let (name, instead) = (finding.fault.name(), finding.fault.instead().to_string());
    Objection { severity, name, what: finding.text(), instead }
}

impl Findings {
    pub fn is_bad(&self) -> bool {
        self.errors > 0
    }

    pub fn json(&self) -> Json {
        Json::Object(vec![
            ("zone", Json::text(name(&self.apex))),
            ("file", Json::text(self.file.display())),
            ("ok", Json::Bool(!self.is_bad())),
            ("served", Json::Bool(!self.is_refused)),
            ("records", Json::Number(self.records)),
            ("errors", Json::Number(self.errors)),
            ("warnings", Json::Number(self.warnings)),
            ("problems", Json::list(self.problems.iter().map(placed).chain(self.whole.iter().map(unplaced)), |p| p)),
        ])
    }
}

fn placed(p: &Problem) -> Json {
    Json::Object(vec![
        ("severity", Json::text(p.severity.word())),
        ("name", Json::text(p.name)),
        ("file", Json::text(&p.place.file)),
        ("line", Json::Number(u64::from(p.place.line))),
        ("column", Json::Number(u64::from(p.place.column))),
        ("what", Json::text(&p.what)),
        ("instead", Json::text(&p.instead)),
    ])
}

fn unplaced(o: &Objection) -> Json {
    Json::Object(vec![
        ("severity", Json::text(o.severity.word())),
        ("name", Json::text(o.name)),
        ("what", Json::text(&o.what)),
        ("instead", Json::text(&o.instead)),
    ])
}

impl fmt::Display for Findings {
    /// Problems only; nothing for a zone without any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        let (file, zone) = (self.file.display(), name(&self.apex));
        for Objection { severity, what, instead, .. } in &self.whole {
            writeln!(f, "{file}: {}: zone {zone}: {what}", severity.word())?;
            if !instead.is_empty() {
                writeln!(f, "    write instead: {instead}")?;
            }
        }
        let shown = (self.problems.len() + self.whole.len()) as u64;
        let all = self.errors + self.warnings;
        if all > shown { writeln!(f, "{file}: and {} more", all - shown) } else { Ok(()) }
    }
}

/// The first of a path's folders, or the file itself, that `user` may not read. Goes by owner, group and mode alone:
/// further groups and access lists may still allow it, so this is worth a warning and no more.
pub fn unreadable_by(user: &User, path: &Path) -> Option<PathBuf> {
    closed_to(user, path, 0o4)
}

/// The same of a folder in which `user` may make no files.
pub fn unwritable_by(user: &User, folder: &Path) -> Option<PathBuf> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    closed_to(user, here, 0o3)
}

/// `bits`: what he is to have of where it ends. Through the folders on the way he is to come.
fn closed_to(user: &User, path: &Path, bits: u32) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let mut places: Vec<&Path> = path.ancestors().collect();
    places.reverse();
    let is_closed = |place: &&Path| !has(user, place, if **place == *path { bits } else { 0o1 });
    places.into_iter().find(is_closed).map(Path::to_path_buf)
}

fn has(user: &User, path: &Path, bits: u32) -> bool {
    let Ok(m) = std::fs::metadata(path) else { return true };
    let shift = if m.uid() == user.uid {
        6
    } else if m.gid() == user.gid {
        3
    } else {
        0
    };
    user.uid == 0 || m.mode() >> shift & bits == bits
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
        for (is, closed) in [(0o755, true), (0o757, false), (0o756, true), (0o700, true), (0o777, false)] {
            mode(&folder.join("inner"), is);
            assert_eq!(unwritable_by(&stranger, &folder.join("inner")).is_some(), closed, "{is:o}");
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
}
