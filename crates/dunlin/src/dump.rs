//! `dunlin zone dump`: the records of a zone file or an image, as they are or in canonical order.

use crate::canonical::{Names, Unwalked, damaged, is_image, named, stem, walk};
use crate::cli::ZoneDump;
use crate::exit::{Exit, could_not, remark, told};
use crate::progress::Progress;
use image::Damaged;
use server::config::apex;
use server::{images, zonetext};
use std::io::{self, BufWriter, Write};
use zonefile::{Place, Record, Severity};

pub fn dump(args: &ZoneDump) -> Exit {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let done = match is_image(&args.file) {
        Ok(true) => dump_image(args, &mut out),
        Ok(false) if args.canonical => dump_sorted(args, &mut out),
        Ok(false) => dump_text(args, &mut out),
        Err(e) => return could_not(format_args!("{} cannot be read: {e}", args.file.display())),
    };
    match done.and_then(|exit| out.flush().map(|()| exit)) {
        Ok(exit) => exit,
        Err(e) => told(Err(e), Exit::Done),
    }
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
            if args.canonical { print_canonical(&zone, out)? } else { print_zone(&zone, out)? }.map_err(damaged)?;
        }
    }
    if found || wanted.is_none() { Ok(Exit::Done) } else { Ok(could_not("the image has no zone of that name")) }
}

fn print_zone(zone: &image::Zone<'_>, out: &mut impl Write) -> io::Result<Result<(), Damaged>> {
    let mut progress = Progress::beside_output(zone.records().unwrap_or(0));
    let (mut printed, mut n) = (Ok(()), 0);
    let whole = zone.for_each_record(&mut |name, rtype, ttl, rdata| {
        n += 1;
        progress.at(n);
        if printed.is_ok() {
            printed = print(name, rtype, ttl, rdata, out);
        }
    });
    printed.map(|()| whole)
}

/// With tabs between the fields and the SOA first, as `ldns-read-zone -z` prints.
fn print_canonical(zone: &dyn Names, out: &mut impl Write) -> io::Result<Result<(), Damaged>> {
    let mut progress = Progress::beside_output(zone.records());
    let (mut text, mut n) = (String::new(), 0);
    for owner in zone.names() {
        let Ok(owner) = owner else { return Ok(Err(Damaged)) };
        text.clear();
        owner.lines.iter().for_each(|line| line.push(&owner.name, '\t', &mut text));
        out.write_all(text.as_bytes())?;
        n += owner.lines.len() as u64;
        progress.at(n);
    }
    Ok(Ok(()))
}

fn dump_sorted(args: &ZoneDump, out: &mut impl Write) -> io::Result<Exit> {
    match walk(&args.file, args.origin.as_deref(), false, &mut |_, zone| print_canonical(zone, out)) {
        Ok(Ok(Ok(()))) => Ok(Exit::Done),
        Ok(Ok(Err(Damaged))) => Ok(could_not(damaged(&args.file))),
        Ok(Err(e)) => Err(e),
        Err(Unwalked::Unreadable(e)) => Err(e),
        Err(Unwalked::Errors(report)) => {
            report
                .problems
                .iter()
                .filter(|p| p.severity == Severity::Error)
                .for_each(|p| remark(format_args!("{p}\n")));
            Ok(Exit::No)
        }
        Err(why) => Ok(could_not(why)),
    }
}

fn dump_text(args: &ZoneDump, out: &mut impl Write) -> io::Result<Exit> {
    let zone = match named(&args.file, args.origin.as_deref().or(stem(&args.file)).unwrap_or(".")) {
        Ok(zone) => zone,
        Err(why) => return Ok(could_not(why)),
    };
    let mut printed = Ok(());
    let mut sink = |r: Record<'_>, _: &Place| {
        if printed.is_ok() {
            printed = print(r.owner, r.rtype, r.ttl, r.rdata, out);
        }
        Ok(())
    };
    let reading = zonetext::read(&zone, &mut sink).map_err(|unread| unread.why)?;
    printed?;
    for problem in reading.report.problems.iter().filter(|p| p.severity == Severity::Error) {
        remark(format_args!("{problem}\n"));
    }
    Ok(if reading.report.errors > 0 { Exit::No } else { Exit::Done })
}
