//! A peer's reader of zone files: what it does not know of, and the records that it reads.

use crate::peer;
use crate::pen::Habit;
use std::collections::BTreeSet;
use wire::Name;
use zonefile::{NoFiles, Options, Record, Severity, parse, rdata, record_to_text};

pub const ALL_TYPES: &str = include_str!("../zones/all-types.zone");

pub struct Peer {
    pub program: &'static str,
    arguments: &'static [&'static str],
    /// The zone's name goes behind the arguments.
    is_told_the_zone: bool,
    /// Types it does not know, or reads differently.
    without_types: &'static [&'static str],
    /// Beginnings of lines that it refuses, with reasons beside them.
    without_lines: &'static [&'static str],
    /// Spellings that it reads otherwise or not at all; `odd.rs` shows each.
    pub without_habits: &'static [Habit],
}

pub const BIND: Peer = Peer {
    program: "named-checkzone",
    arguments: &["-D", "-i", "none", "-k", "ignore", "-s", "full", "-o", "-"],
    is_told_the_zone: true,
    // MD and MF are refused as obsolete; ATMA has a form of its own that no RFC knows; CLA and IPN are not known yet.
    without_types: &["MD", "MF", "ATMA", "CLA", "IPN"],
    without_lines: &[
        // Keys 8 and 9 have no names there yet.
        "svcb89 ",
    ],
    without_habits: &[Habit::EscapedBracket],
};

pub const KNOT: Peer = Peer {
    program: "kzonecheck",
    arguments: &["-v", "-d", "off", "-p", "-o"],
    is_told_the_zone: true,
    without_types: &[
        "MD", "MF", "MB", "MG", "MR", "NULL", "WKS", "X25", "ISDN", "NSAP", "NSAP-PTR", "SIG", "PX", "GPOS", "NXT",
        "EID", "NIMLOC", "ATMA", "A6", "SINK", "HIP", "NINFO", "RKEY", "TALINK", "HHIT", "BRID", "AVC", "DOA",
        "AMTRELAY", "TA", "DLV", "UINFO", "UID", "GID", "UNSPEC", "CLA", "IPN",
    ],
    without_lines: &[
        // A key without key material.
        "key33 ", // Keys 8 and 9 have no names there yet.
        "svcb89 ",
    ],
    without_habits: &[Habit::RawOctets, Habit::CarriageReturns, Habit::ClassByNumber, Habit::CloseBehindWord],
};

pub const LDNS: Peer = Peer {
    program: "ldns-read-zone",
    arguments: &[],
    is_told_the_zone: false,
    // GPOS and RESINFO keep their quotes as part of the text, NSAP-PTR loses its last dot; the others are not known.
    without_types: &[
        "NXT", "A6", "SINK", "NINFO", "RKEY", "HHIT", "BRID", "AVC", "DOA", "TA", "UINFO", "UID", "GID", "UNSPEC",
        "CLA", "IPN", "MD", "MF", "ATMA", "GPOS", "RESINFO", "NSAP-PTR",
    ],
    without_lines: &[
        // A quote in a name comes back without its backslash.
        "a\\.b",
        // A protocol without ports, a key without key material, names of keys and schemes that came later.
        "wks14 ",
        "key33 ",
        "svcb89 ",
        "dsync90 ", // Backslashes in an ALPN come back undone.
        "https88 ", // An empty value comes back without its quotes.
        "caaempty ",
    ],
    without_habits: &[Habit::ClassFirst, Habit::RawSeparators],
};

impl Peer {
    pub fn knows(&self, line: &str) -> bool {
        let rtype = line.split(' ').nth(1).unwrap_or("");
        !self.without_types.contains(&rtype) && !self.without_lines.iter().any(|l| line.starts_with(l))
    }

    /// What it prints after reading the text. Err: it refuses the zone.
    pub fn print(&self, zone: &str, text: impl AsRef<[u8]>) -> Result<String, String> {
        let zone = Some(zone).filter(|_| self.is_told_the_zone);
        let arguments: Vec<&str> = self.arguments.iter().copied().chain(zone).collect();
        let output = peer::run(self.program, &arguments, text);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // Knot prints what it reads, also where it then finds fault with what it means.
        let is_read = output.status.success() || self.program == KNOT.program && out.lines().count() > 2;
        if is_read { Ok(out.into_owned()) } else { Err(format!("{} refuses it: {err}{out}", self.program)) }
    }

    /// The records that it reads.
    pub fn read(&self, zone: &str, text: impl AsRef<[u8]>) -> Result<BTreeSet<String>, String> {
        try_read(zone, self.print(zone, text)?, folded)
    }
}

/// Owners and names in rdata without regard to case, because peers fold some of them.
pub fn folded(record: &Record<'_>) -> String {
    let (mut owner, mut data) = (record.owner.to_vec(), record.rdata.to_vec());
    wire::name::fold(&mut owner);
    for (at, len) in rdata::names(record.rtype, record.rdata) {
        wire::name::fold(&mut data[at..at + len]);
    }
    let mut line = String::new();
    record_to_text(&owner, record.ttl, record.class, record.rtype, &data, &mut line);
    line
}

pub fn as_written(record: &Record<'_>) -> String {
    let mut line = String::new();
    record_to_text(record.owner, record.ttl, record.class, record.rtype, record.rdata, &mut line);
    line
}

/// The records that we read.
pub fn read(zone: &str, text: impl AsRef<[u8]>, show: impl Fn(&Record<'_>) -> String) -> BTreeSet<String> {
    try_read(zone, text, show).unwrap_or_else(|errors| panic!("{errors}"))
}

pub fn try_read(
    zone: &str,
    text: impl AsRef<[u8]>,
    show: impl Fn(&Record<'_>) -> String,
) -> Result<BTreeSet<String>, String> {
    let origin = Name::from_text(zone.as_bytes(), Some(&Name::ROOT)).unwrap();
    let mut lines = BTreeSet::new();
    let report = parse("zone", text.as_ref(), &origin, &mut NoFiles, &Options::default(), &mut |record, _| {
        lines.insert(show(&record));
        Ok(())
    });
    let errors = report.problems.iter().filter(|p| p.severity == Severity::Error);
    let errors: Vec<_> = errors.map(ToString::to_string).collect();
    if errors.is_empty() { Ok(lines) } else { Err(errors.join("\n")) }
}
