//! `dunlin zone check` and `dunlin zone compile`: zone files looked at, and images made of them.

use crate::canonical::{named, read_with_progress};
use crate::cli::{ZoneCheck, ZoneCompile};
use crate::exit::{Exit, could_not, remark, say};
use audit::{Rules, audit};
use image::Builder;
use server::clock::wall_s;
use server::images;
use server::images::scratch::{Scratch, memory};
use server::json::Json;
use server::zonetext::findings::{self, Findings};
use server::zonetext::reading::Threads;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn check(args: &ZoneCheck) -> Exit {
    let zone = match named(&args.file, &args.origin) {
        Ok(zone) => zone,
        Err(why) => return could_not(why),
    };
    if let Err(e) = std::fs::File::open(&args.file) {
        return could_not(format_args!("{} cannot be read: {e}", args.file.display()));
    }
    let limits = Rules::at(wall_s());
    let rules = Rules {
        records_per_type_max: args.records_per_type_max.unwrap_or(limits.records_per_type_max),
        types_per_name_max: args.types_per_name_max.unwrap_or(limits.types_per_name_max),
        ..limits
    };
    let findings = findings::of(&zone, &rules);
    let exit = if findings.is_bad() { Exit::No } else { Exit::Done };
    if args.json {
        return say(format_args!("{}\n", findings.json()), exit);
    }
    let (file, records) = (args.file.display(), findings.records);
    let (errors, warnings) = (findings.errors, findings.warnings);
    say(format_args!("{findings}{file}: {records} records, {errors} errors, {warnings} warnings\n"), exit)
}

pub fn compile(args: &ZoneCompile) -> Exit {
    let zone = match named(&args.file, &args.origin) {
        Ok(zone) => zone,
        Err(why) => return could_not(why),
    };
    match findings::errors_of_form(&zone) {
        Ok(Some(report)) => return refuse(args, &Findings::new(&zone, report, &audit::Report::default(), &[])),
        Ok(None) => {}
        Err(unread) => return could_not(format_args!("{} cannot be read: {}", args.file.display(), unread.why)),
    }
    let held_max = args.memory.unwrap_or_else(memory);
    let mut builder = Builder::spilling(images::seed(), held_max, Arc::new(Scratch::new(folder_of(&args.output))));
    builder.begin_zone(&zone.apex);
    let read = match read_with_progress(&zone, &mut builder, args.json) {
        Ok(read) => read,
        Err(e) => return could_not(format_args!("{} cannot be read: {e}", args.file.display())),
    };
    let mut report = audit::Report::default();
    let rules = Rules::at(wall_s());
    let (octets, summary, complaints) = builder.finish_judged(&Threads, &mut |sorted| {
        report = audit(sorted, &rules);
        report.refusal()
    });
    let findings = Findings::new(&zone, read, &report, &complaints);
    if findings.is_refused {
        return refuse(args, &findings);
    }
    remark(&findings);
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
            ("errors", Json::Number(findings.errors)),
            ("warnings", Json::Number(findings.warnings)),
        ];
        return say(format_args!("{}\n", Json::Object(facts)), Exit::Done);
    }
    let (image, records) = (args.output.display(), summary.records);
    say(format_args!("{image}: {records} records, {} octets\n", octets.len()), Exit::Done)
}

fn refuse(args: &ZoneCompile, findings: &Findings) -> Exit {
    remark(format_args!("{findings}{}: no image is written\n", args.file.display()));
    Exit::No
}

fn folder_of(output: &Path) -> PathBuf {
    output.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).into()
}

fn write(output: &Path, octets: &[u8]) -> io::Result<()> {
    let name = output.file_name().and_then(|n| n.to_str()).ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    images::write(&folder_of(output), name, octets).map(drop)
}
