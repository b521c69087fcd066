//! Zone files: any octets end in records and problems, and a record that was accepted is, printed, read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::name::Name;
use zonefile::{NoFiles, Options, parse, record_to_text};

/// Small enough that one input's `$GENERATE` cannot fill the memory or the time that many inputs could have had.
const GENERATE_MAX: u64 = 64;

#[derive(PartialEq, Debug)]
struct Kept {
    owner: Vec<u8>,
    rtype: u16,
    class: u16,
    ttl: u32,
    rdata: Vec<u8>,
}

fn read(text: &[u8], origin: &Name) -> (Vec<Kept>, u64) {
    let mut records = Vec::new();
    let options = Options { generate_max: GENERATE_MAX as _, ..Options::default() };
    let report = parse("fuzz.zone", text, origin, &mut NoFiles, &options, &mut |r, _| {
        records.push(Kept {
            owner: r.owner.to_vec(),
            rtype: r.rtype,
            class: r.class,
            ttl: r.ttl,
            rdata: r.rdata.to_vec(),
        });
        Ok(())
    });
    (records, report.errors)
}

fuzz_target!(|input: &[u8]| {
    let Ok(origin) = Name::from_text(b"example.com.", None) else { return };
    let (records, _) = read(input, &origin);
    for record in records {
        let mut text = String::new();
        record_to_text(&record.owner, record.ttl, record.class, record.rtype, &record.rdata, &mut text);
        let (again, errors) = read(text.as_bytes(), &origin);
        assert_eq!(errors, 0, "printed, it cannot be read: {text}");
        assert_eq!(again, [record], "{text}");
    }
});
