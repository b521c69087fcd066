//! Each fault has a zone that has it and a neighbour that has not; and how bad it is goes by what `named-checkzone` and
//! `kzonecheck` say of the same zone. Where it does not, `DIFFERENT` says why.

// A test starts peers and writes their input; only the crate itself never does.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod peers;
mod zones;

use audit::{Fault, Rating, Report, Rules};
use peers::{Says, knot, named};
use zones::{CASES, Case};

/// 2026-11-20; real keys sign with the clock of the machine, so those zones are judged by that.
fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// What the audit and, of what it does not see, the builder says of a zone.
fn judged(text: &str) -> Report {
    let origin = wire::Name::from_text(b"example.", None).unwrap();
    let mut builder = image::Builder::new(0);
    builder.begin_zone(origin.bytes());
    let mut sink = |r: zonefile::Record<'_>, _: &_| {
        builder.record(r.owner, r.rtype, r.ttl, r.rdata).map_err(zonefile::Objection::refusal)
    };
    let options = zonefile::Options::default();
    let read = zonefile::parse("zone", text.as_bytes(), &origin, &mut zonefile::NoFiles, &options, &mut sink);
    assert_eq!(read.errors, 0, "{}\n{text}", read.problems[0]);
    let mut report = Report::default();
    let complaints = builder.judge(&image::InTurn, &mut |zone| {
        report = audit::audit(zone, &Rules::at(now_s()));
        report.refusal()
    });
    assert_eq!(complaints.len(), report.refusal().iter().len(), "{complaints:?}\n{text}");
    report
}

fn faults(text: &str) -> Vec<Fault> {
    let mut faults: Vec<Fault> = judged(text).findings.iter().map(|f| f.fault).collect();
    faults.sort();
    faults
}

/// Ours, and what the peers' words would make of it.
const DIFFERENT: &[(Fault, &str)] = &[
    (Fault::NoNs, "a zone without NS is refused, as BIND does: nobody could be referred to it"),
    (Fault::RrsigOverGlue, "Knot refuses what it cannot verify; BIND's dnssec-verify warns of any, and we verify none"),
];

fn rating(named: Says, knot: Says) -> Rating {
    match (named, knot) {
        (Says::Refuses, Says::Serious) => Rating::Fatal,
        (Says::Refuses, _) | (_, Says::Refuses | Says::Serious) => Rating::Error,
        _ => Rating::Warning,
    }
}

#[test]
fn each_fault_has_a_zone_and_a_neighbour_without_it() {
    let zones = zones::Zones::new();
    for &Case { fault, .. } in CASES {
        let (bad, good) = zones.of(fault);
        assert!(faults(&bad).contains(&fault), "{fault:?} is not found, but {:?} in\n{bad}", faults(&bad));
        assert!(!faults(&good).contains(&fault), "{fault:?} is found in\n{good}");
    }
    let missing: Vec<_> = Fault::ALL.iter().filter(|f| !CASES.iter().any(|c| c.fault == **f)).collect();
    assert!(missing.is_empty(), "faults without a case: {missing:?}");
}

/// The page of the operators, a row a fault: name, ours, named, kzonecheck, what it is.
const PAGE: &str = include_str!("../../../docs/zone-checks.md");

#[test]
fn a_fault_is_as_bad_as_peers_say_and_the_page_says_all() {
    let zones = zones::Zones::new();
    let mut findings = Vec::new();
    for &Case { fault, .. } in CASES {
        let (bad, good) = zones.of(fault);
        let (by_named, by_knot) = (named(&bad, &good), knot(&bad));
        let (ours, theirs) = (fault.rating(), rating(by_named, by_knot));
        let differs = DIFFERENT.iter().any(|(f, _)| *f == fault);
        if (ours != theirs) != differs {
            findings.push(format!("{}: ours {ours:?}, named {by_named:?}, kzonecheck {by_knot:?}", fault.name()));
        }
        let row = format!("| `{}` | {ours:?} | {by_named:?} | {by_knot:?} | {} |", fault.name(), fault.what());
        if !PAGE.lines().any(|line| line == row) {
            findings.push(format!("docs/zone-checks.md lacks: {row}"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn zones_that_peers_sign_have_no_fault() {
    let zones = zones::Zones::new();
    for text in [zones::HEAD.to_string(), zones.nsec.join("\n"), zones.nsec3.join("\n"), zones.opt_out.join("\n")] {
        let report = judged(&(text.clone() + "\n"));
        let said: Vec<String> = report.findings.iter().map(audit::Finding::text).collect();
        assert!(said.is_empty(), "{said:#?}\n{text}");
    }
}
