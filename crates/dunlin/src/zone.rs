//! `dunlin zone check` and `dunlin zone compile`: zone files looked at, and images made of them.

use crate::canonical::{named, read_with_progress};
use crate::cli::{ZoneCheck, ZoneCompile};
use crate::exit::{Exit, could_not};
use audit::{Rules, audit};
use image::Builder;
use server::clock::wall_s;
use server::findings::{self, Findings};
use server::images;
use server::json::Json;
use server::reading::Threads;
use std::io::{self, Write};
use std::path::Path;
use store::atomic::write_atomically;

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
    if args.json {
        println!("{}", findings.json());
    } else {
        print!("{findings}");
        let (records, errors, warnings) = (findings.records, findings.errors, findings.warnings);
        println!("{}: {records} records, {errors} errors, {warnings} warnings", args.file.display());
    }
    if findings.is_bad() { Exit::No } else { Exit::Done }
}

pub fn compile(args: &ZoneCompile) -> Exit {
    let zone = match named(&args.file, &args.origin) {
        Ok(zone) => zone,
        Err(why) => return could_not(why),
    };
    let mut builder = Builder::new(images::seed());
    builder.begin_zone(&zone.apex);
    let read = match read_with_progress(&zone, &mut builder) {
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
    eprint!("{findings}");
    if findings.is_refused {
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
            ("errors", Json::Number(findings.errors)),
            ("warnings", Json::Number(findings.warnings)),
        ];
        println!("{}", Json::Object(facts));
    } else {
        println!("{}: {} records, {} octets", args.output.display(), summary.records, octets.len());
    }
    Exit::Done
}

fn write(output: &Path, octets: &[u8]) -> io::Result<()> {
    let folder = output.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = output.file_name().and_then(|n| n.to_str()).ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    write_atomically(folder, name, Some(octets.len() as u64), |out| out.write_all(octets)).map(drop)
}
