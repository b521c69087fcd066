//! The signed root zone of 2017-08-21, whole.

// A test reads its own data; only the crate itself never opens a file.
#![allow(clippy::disallowed_methods)]

use std::path::Path;
use wire::Name;
use zonefile::{NoFiles, Options, parse, rdata, record_to_text};

fn text() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/data/root-2017082100.signed.zone");
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_root_zone_is_read_and_its_dump_reads_the_same() {
    let read = |text: &[u8]| {
        let (mut dump, mut types) = (String::new(), std::collections::BTreeMap::new());
        let report = parse("root", text, &Name::ROOT, &mut NoFiles, &Options::default(), &mut |r, _| {
            assert!(rdata::is_well_formed(r.rtype, r.rdata));
            *types.entry(r.rtype).or_insert(0) += 1;
            record_to_text(r.owner, r.ttl, r.class, r.rtype, r.rdata, &mut dump);
            dump.push('\n');
            Ok(())
        });
        assert_eq!((report.errors, report.warnings, report.problems.first()), (0, 0, None));
        (report.records, dump, types)
    };
    let (records, dump, types) = read(&text());
    assert_eq!(records, 22_772);
    assert_eq!((types[&wire::rtype::SOA], types[&wire::rtype::DNSKEY]), (1, 3));
    assert!(!dump.contains("\\#"), "every type in it has a form of its own");
    assert_eq!(read(dump.as_bytes()).1, dump);
}
