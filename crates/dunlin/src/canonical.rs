//! A zone's names in canonical order, from its text or from an image: what `zone dump --canonical` prints and `zone diff`
//! compares. Keeps one name at a time; of a text, the records besides, as a builder does.

use crate::progress::Progress;
use image::{Builder, Damaged, Records, Sorted};
use server::config::{Zone, apex};
use server::zonetext::reading::take;
use server::{images, zonetext};
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use wire::rtype::{self, Rtype};
use zonefile::{Place, Record, Report};

/// A record in canonical form (RFC 4034 section 6.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub rtype: Rtype,
    pub ttl: u32,
    pub rdata: Vec<u8>,
}

impl Line {
    fn new(rtype: Rtype, ttl: u32, rdata: &[u8]) -> Line {
        let mut rdata = rdata.to_vec();
        zonefile::rdata::canonicalise(rtype, &mut rdata);
        Line { rtype, ttl, rdata }
    }

    /// The SOA first, as all zone files have it; the rest by type and data. Versions of one record stand together.
    pub fn key(&self) -> (bool, Rtype, &[u8], u32) {
        (self.rtype != rtype::SOA, self.rtype, &self.rdata, self.ttl)
    }

    /// `owner TTL IN TYPE rdata`, between them `between`.
    pub fn push(&self, owner: &[u8], between: char, out: &mut String) {
        wire::name::push_text(owner, out);
        for part in [&self.ttl.to_string(), "IN", &zonefile::rtypes::mnemonic(self.rtype)] {
            out.push(between);
            out.push_str(part);
        }
        let before = out.len();
        out.push(between);
        zonefile::rdata::to_lower_text(self.rtype, &self.rdata, out);
        if out.len() == before + 1 {
            out.truncate(before);
        }
        out.push('\n');
    }
}

/// A name with its records, sorted, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub name: Vec<u8>,
    pub lines: Vec<Line>,
}

impl Owner {
    fn new(name: &[u8], mut lines: Vec<Line>) -> Owner {
        lines.sort_unstable_by(|a, b| a.key().cmp(&b.key()));
        lines.dedup_by(|a, b| (a.rtype, &a.rdata) == (b.rtype, &b.rdata));
        let mut name = name.to_vec();
        wire::name::fold(&mut name);
        Owner { name, lines }
    }
}

/// A zone that can be walked through more than once.
pub trait Names {
    fn names<'s>(&'s self) -> Box<dyn Iterator<Item = Result<Owner, Damaged>> + 's>;
    /// How many there are, for progress.
    fn records(&self) -> u64;
}

impl Names for Sorted<'_> {
    fn names<'s>(&'s self) -> Box<dyn Iterator<Item = Result<Owner, Damaged>> + 's> {
        Box::new(self.names().map(|(name, records)| Ok(Owner::new(name, lines(records)))))
    }

    fn records(&self) -> u64 {
        self.names().map(|(_, records)| records.count() as u64).sum()
    }
}

/// One TTL for an RRset, the first, as images have it.
fn lines(records: Records<'_>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for rr in records {
        let first = lines.iter().find(|l| l.rtype == rr.rtype && rr.rtype != rtype::RRSIG);
        let ttl = first.map_or(rr.ttl, |l| l.ttl);
        lines.push(Line::new(rr.rtype, ttl, rr.rdata));
    }
    lines
}

impl Names for image::Zone<'_> {
    fn names<'s>(&'s self) -> Box<dyn Iterator<Item = Result<Owner, Damaged>> + 's> {
        let owner = move |node: Result<image::Node<'_>, Damaged>| {
            let node = node?;
            let (mut name, mut lines) = ([0; wire::name::NAME_MAX], Vec::new());
            let name = self.name_of(&node, &mut name)?;
            let mut push = |fixed: &[u8], rdata: &[u8]| {
                if let Some(&[a, b, _, _, c, d, e, f]) = fixed.first_chunk() {
                    lines.push(Line::new(u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]), rdata));
                }
            };
            for rrset in node.rrsets() {
                let (_, unit) = rrset?;
                unit.for_each(name, &mut push)?;
                unit.for_each_signature(&mut push)?;
            }
            Ok(Owner::new(name, lines))
        };
        let is_empty = |owner: &Result<Owner, Damaged>| owner.as_ref().is_ok_and(|o| o.lines.is_empty());
        Box::new(self.nodes().map(owner).filter(move |owner| !is_empty(owner)))
    }

    fn records(&self) -> u64 {
        image::Zone::records(self).unwrap_or(0)
    }
}

/// Why there are no names.
pub enum Unwalked {
    Unreadable(io::Error),
    Errors(Report),
    Other(String),
}

impl fmt::Display for Unwalked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unwalked::Unreadable(e) => write!(f, "{e}"),
            Unwalked::Errors(report) => report.problems.iter().try_for_each(|p| writeln!(f, "{p}")),
            Unwalked::Other(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for Unwalked {
    fn from(e: io::Error) -> Unwalked {
        Unwalked::Unreadable(e)
    }
}

/// Opens an image or a zone file and hands its zone to `walk`. `origin`: its name; otherwise that of the image's only zone,
/// of the file without ".zone", or of its SOA. `is_json`: nothing but JSON is to be shown.
pub fn walk<T>(
    file: &Path,
    origin: Option<&str>,
    is_json: bool,
    walk: &mut dyn FnMut(&[u8], &dyn Names) -> T,
) -> Result<T, Unwalked> {
    if is_image(file)? { walk_image(file, origin, walk) } else { walk_text(file, origin, is_json, walk) }
}

pub fn is_image(file: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    std::fs::File::open(file)?.take(image::format::MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == image::format::MAGIC)
}

pub fn damaged(file: &Path) -> Unwalked {
    Unwalked::Other(format!("{} is damaged; compile it again", file.display()))
}

fn walk_image<T>(
    file: &Path,
    origin: Option<&str>,
    walk: &mut dyn FnMut(&[u8], &dyn Names) -> T,
) -> Result<T, Unwalked> {
    let image = images::open(file)?;
    let wanted = origin.map(apex).transpose().map_err(|why| Unwalked::Other(format!("--origin is no name: {why}")))?;
    let (mut only, mut many) = (None, false);
    for zone in image.view().zones() {
        let zone = zone.map_err(|_| damaged(file))?;
        let name = zone.apex().and_then(|a| a.apex_name()).map_err(|_| damaged(file))?;
        if wanted.as_deref().is_none_or(|w| w == name) {
            many = only.replace((name, zone)).is_some();
            if many {
                break;
            }
        }
    }
    match only {
        Some(_) if many => Err(Unwalked::Other(format!("{} holds several zones; write --origin NAME", file.display()))),
        Some((name, zone)) => Ok(walk(name, &zone)),
        None => Err(Unwalked::Other(format!("{} has no zone of that name", file.display()))),
    }
}

fn walk_text<T>(
    file: &Path,
    origin: Option<&str>,
    is_json: bool,
    walk: &mut dyn FnMut(&[u8], &dyn Names) -> T,
) -> Result<T, Unwalked> {
    let zone = match origin.or(stem(file)) {
        Some(origin) => named(file, origin),
        None => named(file, &owner_of_soa(file)?),
    };
    let zone = zone.map_err(Unwalked::Other)?;
    let mut builder = Builder::new(0);
    builder.begin_zone(&zone.apex);
    let reading = read_with_progress(&zone, &mut builder, is_json)?;
    if reading.errors > 0 {
        return Err(Unwalked::Errors(reading));
    }
    let mut done = None;
    builder.show(&mut |sorted| done = Some(walk(&zone.apex, sorted))).map_err(Unwalked::Other)?;
    done.ok_or(Unwalked::Other("the zone has no records".into()))
}

/// A file's name without ".zone".
pub fn stem(file: &Path) -> Option<&str> {
    file.file_name()?.to_str()?.strip_suffix(".zone")
}

fn owner_of_soa(file: &Path) -> Result<String, Unwalked> {
    let zone = named(file, ".").map_err(Unwalked::Other)?;
    let mut owner = None;
    let mut sink = |r: Record<'_>, _: &Place| {
        if r.rtype == rtype::SOA && owner.is_none() {
            owner = Some(images::name(r.owner).to_string());
        }
        Ok(())
    };
    zonetext::read(&zone, &mut sink).map_err(|unread| unread.why)?;
    owner.ok_or_else(|| Unwalked::Other("there is no SOA; write --origin NAME".into()))
}

pub fn named(file: &Path, origin: &str) -> Result<Zone, String> {
    match apex(origin) {
        Ok(apex) => Ok(Zone::new(apex, file.to_path_buf())),
        Err(why) => Err(format!("--origin {origin} is no name: {why}; write --origin example.com")),
    }
}

pub fn read_with_progress(zone: &Zone, builder: &mut Builder, is_json: bool) -> io::Result<Report> {
    let mut progress = Progress::of(lines_of(&zone.file)?).unless(is_json);
    let mut sink = |r: Record<'_>, place: &Place| {
        progress.at(u64::from(place.line));
        take(builder, r)
    };
    zonetext::read(zone, &mut sink).map(|reading| reading.report).map_err(|unread| unread.why)
}

fn lines_of(file: &Path) -> io::Result<u64> {
    let text = zonetext::Text::of(file)?;
    Ok(text.octets().iter().filter(|&&c| c == b'\n').count() as u64)
}
