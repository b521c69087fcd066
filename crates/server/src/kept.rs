//! Zones that are kept by commands: added, changed and removed over the control socket. Their texts lie in a folder of ours,
//! NAME.zone each, and are read as those of any folder are: what checks, guards, history and a start do for zone files, they do
//! for these.
//!
//! ```text
//! add      a copy of a text -> good? -> NAME.zone -> served?                              no: it is gone again
//! modify   what is served, changed, under a new serial -> good? -> NAME.zone -> served?   no: it is as it was
//! remove   NAME.zone aside -> served no more?                                    no: it is back
//! ```
//! A text has its name, and stops what others answer there, only once it is known to be a zone to which no guard objects. A command is
//! over when what it wished is on the disk and served, or all is as it was. Costs what the zone costs.

use crate::clock::wall_s;
use crate::config::Zone;
use crate::history::{self, Replaced};
use crate::images::laying::Standing;
use crate::images::name;
use crate::images::sound::DAMAGED;
use crate::scribe::origin::stamp;
use crate::stamp;
use crate::zonetext::reading::{self, Stock};
use audit::{Guards, Rules, Version, audit, weigh};
use front::{Published, Zones};
use image::{Builder, Zone as ImageZone};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use store::Stretch;
use store::atomic::{self, Output, Prepared, prepare, rename_new, sync_folder};
use store::folder::open_file;
use transfer::update::{self, Change, Refused};
use transfer::{Content, Diff, Record};
use wire::rtype::{NS, SOA};
use wire::{Name, Rcode};
use zonefile::{NoFiles, Options, rtypes};

/// Below the data folder.
pub const FOLDER: &str = "kept";
/// A longer text is not for commands to change: each writes all of it.
const TEXT_MAX: u64 = 64 << 20;
/// Of a record that comes without a TTL.
const TTL: u32 = 3600;
/// Ends the name of a zone's file that is being removed.
const BEFORE: &str = ".before";
/// Between changes that are made together.
pub const BETWEEN: char = '\t';

/// Makes the folder, if there is none. Its time says that it has been empty for long: or the first reload after a start
/// would have to suppose that something has come since the start looked into it, and would ask the list and all folders
/// for zones again.
pub fn make_folder(data_dir: &Path) -> io::Result<()> {
    let folder = data_dir.join(FOLDER);
    match fs::create_dir(&folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {
            atomic::sweep(&folder);
            sweep_removed(&folder);
            // What a start finds there it serves, and writes into the history: whoever made it may have been killed before it was on the disk.
            sync_folder(&folder)?;
        }
        Err(e) => return Err(e),
        // Without it that reload takes longer, and that is all.
        Ok(()) => _ = stamp::age(&folder),
    }
    // Also of one that is there: whoever made it may not have come so far.
    sync_folder(data_dir)
}

/// Takes away what a kill has left of zones that were being removed.
fn sweep_removed(folder: &Path) {
    let is_one = |file: &fs::DirEntry| {
        let name = file.file_name();
        name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(BEFORE))
    };
    // It does no harm.
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(is_one)
        .for_each(|file| _ = fs::remove_file(file.path()));
}

pub enum Order {
    /// A zone with what is in this file.
    Add(PathBuf),
    /// Changes, `BETWEEN` them.
    Modify(String),
    Remove,
}

/// What was done to the file of a zone, until it is known that this is served. Somebody's edit since is not undone with it.
pub enum Written {
    Added {
        file: PathBuf,
        /// As it was written (`origin::stamp`).
        is: String,
    },
    Modified(Replaced),
    Removed {
        file: PathBuf,
        aside: PathBuf,
    },
}

impl Written {
    pub fn undo(self) -> io::Result<()> {
        let file = match self {
            Written::Modified(replaced) => return replaced.undo(),
            Written::Added { file, is } if stamp(&file) == is => fs::remove_file(&file).map(|()| file)?,
            Written::Added { file, .. } => return Err(edited_meanwhile(&file)),
            Written::Removed { file, aside } => match rename_new(&aside, &file) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(edited_meanwhile(&file)),
                renamed => renamed.map(|()| file)?,
            },
        };
        sync_folder(folder_of(&file))
    }

    pub fn settle(self) -> io::Result<()> {
        match self {
            Written::Added { .. } => Ok(()),
            Written::Modified(replaced) => {
                replaced.settle();
                Ok(())
            }
            Written::Removed { file, aside } => {
                history::let_go_of(&aside);
                sync_folder(folder_of(&file))
            }
        }
    }
}

fn edited_meanwhile(file: &Path) -> io::Error {
    io::Error::other(format!("{} was edited meanwhile, and stays", file.display()))
}

fn is_there_already(file: &Path) -> String {
    format!("{} is there already: reload, or move it away", file.display())
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Who tells whether a text is to be served, before it has its name.
struct Judge {
    stock: Stock,
    /// None: it is served whatever they object to.
    guards: Option<Guards>,
}

impl Judge {
    /// What somebody wants to add.
    fn text(&self, zone: &Zone) -> Result<(), String> {
        let mut builder = self.stock.builder();
        builder.begin_zone(&zone.apex);
        let read = reading::one(zone, &self.stock, &mut builder).map_err(|unread| unread.text(zone))?;
        read.report.first_error().map_or(Ok(()), Err)?;
        self.zone(builder, None)
    }

    /// What becomes of a zone that is served.
    fn records(&self, served: &ImageZone<'_>, apex: &[u8], records: &[Record]) -> Result<(), String> {
        let mut builder = self.stock.builder();
        builder.begin_zone(apex);
        records.iter().try_for_each(|r| builder.record(r.owner(), r.rtype, r.ttl, r.rdata()))?;
        self.zone(builder, Some(served))
    }

    fn zone(&self, builder: Builder, served: Option<&ImageZone<'_>>) -> Result<(), String> {
        let (rules, mut found) = (Rules::at(wall_s()), Ok(()));
        let shown = builder.show(&mut |zone| {
            let report = audit(zone, &rules);
            let version = Version { zone, report: &report, rules: &rules, is_received: false };
            let guarded = served.zip(self.guards.as_ref());
            let weighed = |(served, guards)| weigh(served, &version, guards, || self.stock.builder()).ok()?;
            let objection = || guarded.and_then(weighed).map(|why| format!("{why}; {MEANT}"));
            found = report.refusal().or_else(objection).map_or(Ok(()), Err);
        });
        shown.and(found)
    }
}

const MEANT: &str = "if that is meant, say `zone modify --force`";

/// The folder of these zones.
pub struct Kept {
    folder: PathBuf,
    judge: Judge,
}

impl Kept {
    /// `guards`: what a zone may lose; None: anything.
    pub fn of(data_dir: &Path, guards: Option<Guards>) -> Kept {
        Kept { folder: data_dir.join(FOLDER), judge: Judge { stock: Stock::below(data_dir), guards } }
    }

    /// Does to the zone's file what the order says. `known`: the zone, if there is one; `was`: what told its file when that was looked at
    /// (`origin::stamp`).
    pub fn write(
        &self,
        apex: &[u8],
        order: &Order,
        known: Option<&Zone>,
        was: &str,
        published: &Published<Zones<Stretch>>,
    ) -> Result<Written, String> {
        let file = self.file(apex)?;
        // One that updates or primaries have taken over, with its file, is theirs.
        let whose = known.map(|zone| zone.origin() == file && !zone.is_owned() && !zone.is_secondary());
        // Something else is served in its place.
        let is_hidden = || {
            let real = |path: &Path| path.canonicalize().ok();
            file.exists() && known.is_some_and(|zone| real(zone.origin()) != real(&file))
        };
        let failed = |e: io::Error| format!("{}: {e}", file.display());
        match (order, whose) {
            (Order::Add(_), Some(_)) => Err(format!("there is a zone {} already", name(apex))),
            (Order::Add(_), None) if file.exists() => Err(is_there_already(&file)),
            (Order::Add(text), None) => {
                let is = self.add(apex, text, &file)?;
                Ok(Written::Added { is, file })
            }
            (_, None) => Err(format!("no zone {} is configured", name(apex))),
            (Order::Remove, Some(false)) if is_hidden() => self.remove(&file),
            (_, Some(false)) if is_hidden() => Err(format!(
                "the zone {} is configured, and not served as {}, which a command added: `zone remove` removes that alone",
                name(apex),
                file.display()
            )),
            (_, Some(false)) => Err(format!(
                "the zone {} was not added by a command: change it where it is configured, or by what it takes its records from",
                name(apex)
            )),
            (Order::Modify(changes), Some(true)) => {
                if fs::metadata(&file).map_err(failed)?.len() > TEXT_MAX {
                    return Err(format!("{} is longer than {TEXT_MAX} octets: edit it", file.display()));
                }
                let records = history::with_sound_zone(published, apex, |zone| {
                    let records = modified(zone, apex, changes)?;
                    self.judge.records(zone, apex, &records).map(|()| records)
                })?;
                history::write(&file, was, records.iter()).map(Written::Modified).map_err(failed)
            }
            (Order::Remove, Some(true)) => self.remove(&file),
        }
    }

    fn remove(&self, file: &Path) -> Result<Written, String> {
        let aside = self.aside(file);
        fs::rename(file, &aside).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(Written::Removed { file: file.into(), aside })
    }

    /// Where a zone is kept.
    pub fn file(&self, apex: &[u8]) -> Result<PathBuf, String> {
        let text = name(apex).to_string();
        let stem = text.strip_suffix('.').unwrap_or(&text);
        if stem.is_empty() || stem.contains('/') || stem.starts_with('.') || stem.len() > 240 {
            return Err(format!("the zone {text} cannot be kept by commands: write it as [[zone]]"));
        }
        Ok(self.folder.join(format!("{stem}.zone")))
    }

    /// A name beside the file that is no zone's. What a crash has left there is nothing that anybody waits for.
    fn aside(&self, file: &Path) -> PathBuf {
        let mut name = std::ffi::OsString::from(".");
        name.push(file.file_name().unwrap_or_default());
        name.push(BEFORE);
        let aside = self.folder.join(name);
        // It is not there, mostly.
        let _ = fs::remove_file(&aside);
        aside
    }

    /// Returns what tells the file as it was written.
    fn add(&self, apex: &[u8], text: &Path, file: &Path) -> Result<String, String> {
        let failed = |e: io::Error| format!("{}: {e}", text.display());
        let mut from = open_file(text).map_err(failed)?;
        let found = from.metadata().map_err(failed)?;
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut is = String::new();
        // Before it has the name: somebody may edit it from then on.
        let mut verdict = Ok(());
        let note = |temporary: &Path| {
            is = stamp(temporary);
            let judged = self.judge.text(&Zone::new(apex.into(), temporary.to_path_buf()));
            // Who has had a text copied knows where that is, and not of the copy.
            verdict = judged.map_err(|why| why.replace(&temporary.display().to_string(), &text.display().to_string()));
            if verdict.is_ok() { Ok(()) } else { Err(io::Error::other("it is no zone")) }
        };
        let copy = |out: &mut Output| io::copy(&mut from, out).map(drop);
        let named = prepare(&self.folder, name, Some(found.len()), copy, note).and_then(Prepared::take_free_name);
        let unnamed = |e: io::Error| match e.kind() {
            // Since it was looked for.
            io::ErrorKind::AlreadyExists => is_there_already(file),
            _ => e.to_string(),
        };
        verdict.and(named.map(|_| is).map_err(unnamed))
    }
}

/// The records of a zone after some changes, SOA first.
fn modified(zone: &ImageZone<'_>, apex: &[u8], changes: &str) -> Result<Vec<Record>, String> {
    let changes: Vec<Change> = changes.split(BETWEEN).map(|text| change(text, apex)).collect::<Result<_, _>>()?;
    let standing = Standing::of(*zone);
    if let Some(outside) = changes.iter().map(Change::owner).find(|owner| !wire::name::is_at_or_below(owner, apex)) {
        return Err(format!("{} lies outside the zone", name(outside)));
    }
    let diff = update::amend(&changes, apex, &standing).map_err(refusal)?;
    for change in &changes {
        let Change::Add(r) = change else { continue };
        let is_there = standing.at(r.owner()).is_ok_and(|all| all.iter().any(|other| other.is_like(r)));
        if !is_there && !diff.added().iter().any(|other| other.is_like(r)) {
            return Err(match r.rtype {
                SOA if r.owner() != apex => format!("`{}`: an SOA stands at the zone's apex", line(r)),
                SOA => format!("`{}`: its serial does not follow {}", line(r), diff.from),
                _ if is_taken_back(r, &changes) => format!("`{}` is deleted again by a later change", line(r)),
                _ => format!("`{}` cannot stand beside what {} has", line(r), name(r.owner())),
            });
        }
    }
    for change in &changes {
        if let Some(left) = left(change, &changes, &standing, &diff) {
            return Err(format!("`{}` stays: no zone can be without it", line(&left)));
        }
    }
    if diff.is_empty() {
        return Err("that changes nothing".to_string());
    }
    let as_kept = |all: &[Record]| all.iter().map(Record::folded).collect();
    let way = Diff::new(diff.from, diff.to, as_kept(diff.removed()), diff.added().to_vec());
    let (mut soas, mut records) = (Vec::new(), Vec::new());
    history::version(zone, &way, &mut |r| if r.rtype == SOA { soas.push(r) } else { records.push(r) })?;
    history::digest_anew(apex, &soas, &mut records)?;
    soas.append(&mut records);
    Ok(soas)
}

/// One of these changes deletes the record.
fn is_taken_back(r: &Record, all: &[Change]) -> bool {
    all.iter().any(|change| match change {
        Change::Add(_) => false,
        Change::Delete(gone) => gone.is_like(r),
        Change::DeleteSet(owner, rtype) => **owner == *r.owner() && *rtype == r.rtype,
        Change::DeleteName(owner) => **owner == *r.owner(),
    })
}

/// What should go by one of these changes, and does not, though none of them brings it again.
fn left(change: &Change, all: &[Change], standing: &Standing<'_>, diff: &Diff) -> Option<Record> {
    let is_meant = |r: &Record| match change {
        Change::Add(_) => false,
        Change::Delete(gone) => gone.is_like(r),
        Change::DeleteSet(_, rtype) => r.rtype == *rtype,
        // Of all that the apex has these stay, without a word (RFC 2136 section 3.4.2.3).
        Change::DeleteName(_) => !matches!(r.rtype, SOA | NS),
    };
    // The SOA goes for one with the next serial.
    let goes = |r: &Record| r.rtype != SOA && diff.removed().iter().any(|gone| gone.is_like(r));
    let comes = |r: &Record| all.iter().any(|change| matches!(change, Change::Add(new) if new.is_like(r)));
    standing.at(change.owner()).ok()?.into_iter().find(|r| is_meant(r) && !goes(r) && !comes(r))
}

fn refusal(refused: Refused) -> String {
    let why = match refused.rcode {
        Rcode::REFUSED => refused.why.unwrap_or("no zone can be so"),
        Rcode::FORMERR => "there is a type that no zone holds",
        _ => DAMAGED,
    };
    why.to_string()
}

const HOW: &str = "write add NAME [TTL] TYPE DATA, delete NAME, delete NAME TYPE, or delete NAME TYPE DATA";

/// One change, as it is written: names are those of the zone, if they do not end in a dot.
fn change(text: &str, apex: &[u8]) -> Result<Change, String> {
    let text = text.trim();
    let no_change = || format!("`{}` is no change; {HOW}", in_short(text));
    let (verb, rest) = text.split_once(' ').ok_or_else(no_change)?;
    // A shell takes the quotes from what it hands on.
    if has_comment(rest) {
        let why = "from `;` on this would be a comment; write it as \\; or in double quotes";
        return Err(format!("`{}`: {why}", in_short(text)));
    }
    // A line that begins with a blank is of the owner before it.
    let rest = rest.trim_start();
    let words: Vec<&str> = rest.split_whitespace().collect();
    match (verb, &words[..]) {
        ("add", _) => record(rest, apex).map(Change::Add),
        ("delete", [owner]) => Ok(Change::DeleteName(owner_of(owner, apex)?)),
        ("delete", [owner, rtype]) => {
            let known =
                rtypes::from_mnemonic(rtype.as_bytes()).ok_or_else(|| format!("`{rtype}` is no type; {HOW}"))?;
            Ok(Change::DeleteSet(owner_of(owner, apex)?, known))
        }
        ("delete", [_, _, _, ..]) => record(rest, apex).map(Change::Delete),
        _ => Err(no_change()),
    }
}

/// As much of a text as people need to know it again; a record may have 64 KiB.
fn in_short(text: &str) -> String {
    match text.char_indices().nth(SAID_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

fn line(r: &Record) -> String {
    in_short(&history::line(r))
}

const SAID_MAX: usize = 200;

fn has_comment(line: &str) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    line.chars().any(|c| match c {
        _ if is_escaped => {
            is_escaped = false;
            false
        }
        '\\' => {
            is_escaped = true;
            false
        }
        '"' => {
            is_quoted = !is_quoted;
            false
        }
        c => c == ';' && !is_quoted,
    })
}

fn owner_of(text: &str, apex: &[u8]) -> Result<Box<[u8]>, String> {
    let origin = Name::from_wire(apex).unwrap_or(Name::ROOT);
    let owner = if text == "@" { Ok(origin) } else { Name::from_text(text.as_bytes(), Some(&origin)) };
    owner.map(|owner| owner.fold().bytes().into()).map_err(|e| format!("`{text}` is no name: {}", e.why))
}

/// The record that a line of a zone file has.
fn record(line: &str, apex: &[u8]) -> Result<Record, String> {
    let origin = Name::from_wire(apex).unwrap_or(Name::ROOT);
    let options = Options { default_ttl: Some(TTL), ..Options::default() };
    let mut found = Vec::new();
    let mut keep = |r: zonefile::Record<'_>, _: &zonefile::Place| {
        found.extend(Record::new(r.owner, r.rtype, r.ttl, r.rdata));
        Ok(())
    };
    let report = zonefile::parse("", line.as_bytes(), &origin, &mut NoFiles, &options, &mut keep);
    if let Some(problem) = report.problems.first() {
        let instead =
            Some(&problem.instead).filter(|i| !i.is_empty()).map_or(String::new(), |i| format!("; write {i}"));
        return Err(format!("`{}`: {}{instead}", in_short(line), problem.what));
    }
    match <[Record; 1]>::try_from(found) {
        Ok([record]) => Ok(record),
        Err(_) => Err(format!("`{}` is not one record", in_short(line))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamp;

    #[test]
    fn a_new_folder_is_known_to_be_empty_until_something_comes() {
        let data_dir = std::env::temp_dir().join(format!("dunlin-kept-{}", std::process::id()));
        let _ = fs::remove_dir_all(&data_dir);
        fs::create_dir(&data_dir).unwrap();
        make_folder(&data_dir).unwrap();
        let folder = data_dir.join(FOLDER);
        let empty = Stamp::of(&folder);
        assert!(empty.is_some());
        fs::write(folder.join("z.zone"), "").unwrap();
        assert_ne!(Stamp::of(&folder), empty);
        let filled = Stamp::seen(&folder.metadata().unwrap());
        make_folder(&data_dir).unwrap();
        assert_eq!(Stamp::seen(&folder.metadata().unwrap()), filled, "it is there");
        fs::write(folder.join(".z.zone.before"), "").unwrap();
        make_folder(&data_dir).unwrap();
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["z.zone"], "a kill has left the other");
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "").unwrap();
        assert!(make_folder(&data_dir).is_err(), "it is no folder");
        fs::remove_dir_all(&data_dir).unwrap();
    }

    #[test]
    fn changes_are_read() {
        let apex = b"\x01z\0";
        let a = |ttl| Record::new(b"\x01a\x01z\0", 1, ttl, &[192, 0, 2, 1]).unwrap();
        let txt = |octets: &[u8]| Record::new(b"\x01a\x01z\0", 16, TTL, octets).unwrap();
        let owner = || Box::from(&b"\x01a\x01z\0"[..]);
        for (text, expect) in [
            ("add a A 192.0.2.1", Change::Add(a(TTL))),
            ("add  a A 192.0.2.1", Change::Add(a(TTL))),
            ("add A.Z. 5m IN A 192.0.2.1", Change::Add(a(300))),
            (" delete a ", Change::DeleteName(owner())),
            ("delete @", Change::DeleteName(Box::from(&apex[..]))),
            ("delete a aaaa", Change::DeleteSet(owner(), 28)),
            ("delete a TYPE28", Change::DeleteSet(owner(), 28)),
            ("delete a A 192.0.2.1", Change::Delete(a(TTL))),
            ("add a TXT \"v; p\"", Change::Add(txt(b"\x04v; p"))),
            ("add a TXT v\\;\\ p", Change::Add(txt(b"\x04v; p"))),
            ("add a TXT \"\\\";\"", Change::Add(txt(b"\x02\";"))),
            ("delete a 60 IN A 192.0.2.1", Change::Delete(a(60))),
        ] {
            assert_eq!(change(text, apex).unwrap(), expect, "{text}");
        }
        for (text, expect) in [
            ("", HOW),
            ("add", HOW),
            ("put a A 192.0.2.1", HOW),
            ("delete a B", "`B` is no type"),
            ("delete a..b", "`a..b` is no name"),
            ("add a A 192.0.2", "192.0.2"),
            ("add $INCLUDE other", "no file may be included"),
            ("add $TTL 5", "not one record"),
            ("add a TXT v=DKIM1; p=abc", "comment"),
            ("add a TXT \"v\" ; p", "comment"),
            ("delete a ; all of it", "comment"),
            ("add $GENERATE 1-2 a$ A 192.0.2.$", "not one record"),
        ] {
            let why = change(text, apex).unwrap_err();
            assert!(why.contains(expect), "{text}: {why}");
        }
        let why = change(&format!("add a TXT \"é{}", "é".repeat(30_000)), apex).unwrap_err();
        assert!(why.starts_with("`a TXT \"éé") && why.contains("éé...`: ") && why.len() < 1000, "{why}");
    }
}
