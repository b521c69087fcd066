//! `dunlin zone`: zone files and images, looked at and made.

use crate::cli::{ZoneCheck, ZoneCompile, ZoneDump};
use crate::exit::{Exit, could_not};
use crate::progress::Progress;
use image::Builder;
use server::config::{Zone, apex};
use server::json::Json;
use server::zonetext::{self, Reading};
use server::{findings, images};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use store::atomic::write_atomically;
use zonefile::{Place, Record, Severity};

pub fn check(args: &ZoneCheck) -> Exit {
    let zone = match named(&args.file, &args.origin) {
        Ok(zone) => zone,
        Err(why) => return could_not(why),
    };
    if let Err(e) = std::fs::File::open(&args.file) {
        return could_not(format_args!("{} cannot be read: {e}", args.file.display()));
    }
    let findings = findings::of(&zone);
    if args.json {
        println!("{}", findings.json());
    } else {
        print!("{findings}");
        let (records, errors) = (findings.records, findings.errors + findings.whole.len() as u64);
        println!("{}: {records} records, {errors} errors, {} warnings", args.file.display(), findings.warnings);
    }
    if findings.is_bad() { Exit::No } else { Exit::Done }
}

fn named(file: &Path, origin: &str) -> Result<Zone, String> {
    match apex(origin) {
        Ok(apex) => Ok(Zone::new(apex, file.to_path_buf())),
        Err(why) => Err(format!("--origin {origin} is no name: {why}; write --origin example.com")),
    }
}

pub fn compile(args: &ZoneCompile) -> Exit {
    let zone = match named(&args.file, &args.origin) {
        Ok(zone) => zone,
        Err(why) => return could_not(why),
    };
    let mut builder = Builder::new(images::seed());
    builder.begin_zone(&zone.apex);
    let reading = match read_with_progress(&zone, &mut builder) {
        Ok(reading) => reading,
        Err(e) => return could_not(format_args!("{} cannot be read: {e}", args.file.display())),
    };
    for problem in &reading.report.problems {
        eprintln!("{problem}");
    }
    let (octets, summary, complaints) = builder.finish();
    for complaint in &complaints {
        eprintln!("{}: error: {}", args.file.display(), complaint.what);
    }
    if reading.report.errors > 0 || !complaints.is_empty() {
        eprintln!("{}: no image is written", args.file.display());
        return Exit::No;
    }
    if let Err(e) = write(&args.output, &octets) {
        return could_not(format_args!("{} cannot be written: {e}", args.output.display()));
    }
    if args.json {
        let facts = vec![
            ("zone", Json::text(images::name(&zone.apex))),
            ("image", Json::text(args.output.display())),
            ("records", Json::Number(summary.records)),
            ("names", Json::Number(summary.names as u64)),
            ("bytes", Json::Number(octets.len() as u64)),
        ];
        println!("{}", Json::Object(facts));
    } else {
        println!("{}: {} records, {} octets", args.output.display(), summary.records, octets.len());
    }
    Exit::Done
}

fn read_with_progress(zone: &Zone, builder: &mut Builder) -> io::Result<Reading> {
    let mut progress = Progress::of(lines(&zone.file)?);
    let mut steps = 0;
    let mut sink = |r: Record<'_>, place: &Place| {
        steps += 1;
        progress.at(u64::from(place.line), steps);
        builder.record(r.owner, r.rtype, r.ttl, r.rdata)
    };
    zonetext::read(zone, &mut sink).map_err(|unread| unread.why)
}

fn lines(file: &Path) -> io::Result<u64> {
    let text = zonetext::Text::of(file)?;
    Ok(text.octets().iter().filter(|&&c| c == b'\n').count() as u64)
}

fn write(output: &Path, octets: &[u8]) -> io::Result<()> {
    let folder = output.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = output.file_name().and_then(|n| n.to_str()).ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    write_atomically(folder, name, Some(octets.len() as u64), |out| out.write_all(octets)).map(drop)
}

pub fn dump(args: &ZoneDump) -> Exit {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let done = match is_image(&args.file) {
        Ok(true) => dump_image(args, &mut out),
        Ok(false) => dump_text(args, &mut out),
        Err(e) => return could_not(format_args!("{} cannot be read: {e}", args.file.display())),
    };
    match done.and_then(|exit| out.flush().map(|()| exit)) {
        Ok(exit) => exit,
        // Whoever reads us has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(e) => could_not(e),
    }
}

fn is_image(file: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    std::fs::File::open(file)?.take(image::format::MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == image::format::MAGIC)
}

/// A record to be put into order.
struct Line {
    owner: Vec<u8>,
    rtype: u16,
    ttl: u32,
    rdata: Vec<u8>,
}

impl Line {
    fn new(owner: &[u8], rtype: u16, ttl: u32, rdata: &[u8]) -> Line {
        let (mut owner, mut rdata) = (owner.to_vec(), rdata.to_vec());
        wire::name::fold(&mut owner);
        zonefile::rdata::canonicalise(rtype, &mut rdata);
        Line { owner, rtype, ttl, rdata }
    }
}

/// Prints records of one owner, or of all, in the order of RFC 4034 section 6.
fn print_sorted(lines: &mut Vec<Line>, out: &mut impl Write) -> io::Result<()> {
    lines.sort_by(|a, b| {
        let names = wire::name::canonical_cmp(&a.owner, &b.owner);
        names.then_with(|| (a.rtype, &a.rdata).cmp(&(b.rtype, &b.rdata)))
    });
    lines.dedup_by(|a, b| (&a.owner, a.rtype, &a.rdata) == (&b.owner, b.rtype, &b.rdata));
    for line in lines.drain(..) {
        print(&line.owner, line.rtype, line.ttl, &line.rdata, out)?;
    }
    Ok(())
}

fn print(owner: &[u8], rtype: u16, ttl: u32, rdata: &[u8], out: &mut impl Write) -> io::Result<()> {
    let mut text = String::new();
    zonefile::record_to_text(owner, ttl, 1, rtype, rdata, &mut text);
    text.push('\n');
    out.write_all(text.as_bytes())
}

fn dump_image(args: &ZoneDump, out: &mut impl Write) -> io::Result<Exit> {
    let image = images::open(&args.file)?;
    let wanted = match args.origin.as_deref().map(apex).transpose() {
        Ok(wanted) => wanted,
        Err(why) => return Ok(could_not(format_args!("--origin is no name: {why}"))),
    };
    let damaged = |_| io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", args.file.display()));
    let mut found = false;
    for zone in image.view().zones() {
        let zone = zone.map_err(damaged)?;
        let name = zone.apex().and_then(|a| a.apex_name()).map_err(damaged)?;
        if wanted.as_deref().is_none_or(|w| w == name) {
            found = true;
            dump_zone(&zone, args.canonical, out)?.map_err(damaged)?;
        }
    }
    if found || wanted.is_none() { Ok(Exit::Done) } else { Ok(could_not("the image has no zone of that name")) }
}

/// An image has its owners in canonical order: only the records of one owner are put into order.
fn dump_zone(zone: &image::Zone<'_>, canonical: bool, out: &mut impl Write) -> io::Result<Result<(), image::Damaged>> {
    let mut owner: Vec<Line> = Vec::new();
    let mut printed = Ok(());
    let whole = zone.for_each_record(&mut |name, rtype, ttl, rdata| {
        if printed.is_err() {
            return;
        }
        if !canonical {
            printed = print(name, rtype, ttl, rdata, out);
            return;
        }
        let line = Line::new(name, rtype, ttl, rdata);
        if owner.last().is_some_and(|last| last.owner != line.owner) {
            printed = print_sorted(&mut owner, out);
        }
        owner.push(line);
    });
    printed?;
    print_sorted(&mut owner, out)?;
    Ok(whole)
}

fn dump_text(args: &ZoneDump, out: &mut impl Write) -> io::Result<Exit> {
    let stem = args.file.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".zone"));
    let zone = match named(&args.file, args.origin.as_deref().or(stem).unwrap_or(".")) {
        Ok(zone) => zone,
        Err(why) => return Ok(could_not(why)),
    };
    let mut lines = Vec::new();
    let mut printed = Ok(());
    let mut sink = |r: Record<'_>, _: &Place| {
        if args.canonical {
            lines.push(Line::new(r.owner, r.rtype, r.ttl, r.rdata));
        } else if printed.is_ok() {
            printed = print(r.owner, r.rtype, r.ttl, r.rdata, out);
        }
        Ok(())
    };
    let reading = zonetext::read(&zone, &mut sink).map_err(|unread| unread.why)?;
    printed?;
    print_sorted(&mut lines, out)?;
    for problem in reading.report.problems.iter().filter(|p| p.severity == Severity::Error) {
        eprintln!("{problem}");
    }
    Ok(if reading.report.errors > 0 { Exit::No } else { Exit::Done })
}
