//! However a zone is spelt, the same records come out; and whatever the bytes, the reader comes back.

use proptest::collection::vec;
use proptest::prelude::*;
use zonefile::{Files, NoFiles, Options, Report, parse, rdata, record_to_text, rtypes};

mod pen;

use pen::{Rr, origin, spelt, zone};

fn read(text: &[u8], files: &mut dyn Files) -> (Vec<Rr>, Report) {
    let mut records = Vec::new();
    let report = parse("zone", text, &origin(), files, &Options::default(), &mut |r, _| {
        assert!(rdata::is_well_formed(r.rtype, r.rdata));
        records.push(Rr { owner: r.owner.to_vec(), ttl: r.ttl, rtype: r.rtype, rdata: r.rdata.to_vec() });
        Ok(())
    });
    (records, report)
}

/// Any file is there, and holds `text`.
struct Anything<'t>(&'t [u8]);

impl Files for Anything<'_> {
    fn include(&mut self, _: &str, path: &str) -> Result<Vec<u8>, String> {
        if path.len() > 3 { Err("too long".to_string()) } else { Ok(self.0.to_vec()) }
    }
}

/// Bytes that get further than random ones: pieces of zone files in random order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    const WORDS: &[&str] = &[
        "a",
        "@",
        ".",
        "a.b.",
        "\\",
        "\\255",
        "\\256",
        "\"",
        "(",
        ")",
        ";",
        "\n",
        "\n",
        "\r\n",
        " ",
        " ",
        " ",
        "\t",
        "IN",
        "CH",
        "1h",
        "60",
        "4294967296",
        "$ORIGIN ",
        "$TTL ",
        "$INCLUDE ",
        "$GENERATE 1-3 ",
        "${0,3,n}",
        "${",
        "$",
        "\\# 4 ",
        "00",
        "192.0.2.1",
        "::1",
        "alpn=\"h2\"",
        "key1=",
        "port=1",
        "mandatory=port",
        "1:1.2.3.0/24",
        "52 N 1 E 3m ",
        "-",
        "=",
        "AA==",
        "20170821000000",
        "\u{feff}",
        "0x00",
        "00-00-00-00-00-00",
        "\0",
        "\u{e9}",
    ];
    let types: Vec<String> = (0..=265).chain([32_768, 65_535]).map(|n| format!(" {} ", rtypes::mnemonic(n))).collect();
    let word = prop_oneof![
        3 => prop::sample::select(WORDS).prop_map(|w| w.as_bytes().to_vec()),
        1 => prop::sample::select(types).prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 1..4),
    ];
    vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn every_spelling_gives_the_same_records(records in zone(), coins in vec(any::<u8>(), 1..400)) {
        let text = spelt(&records, coins, &[]);
        let (seen, report) = read(&text, &mut NoFiles);
        let shown = String::from_utf8_lossy(&text).into_owned();
        prop_assert_eq!(report.errors, 0, "{}\n{}", report.problems[0], shown);
        prop_assert_eq!(seen, records, "{}", shown);
    }

    #[test]
    fn what_is_printed_is_read_again(records in zone()) {
        let mut text = String::new();
        for rr in &records {
            record_to_text(&rr.owner, rr.ttl, 1, rr.rtype, &rr.rdata, &mut text);
            text.push('\n');
        }
        prop_assert_eq!(read(text.as_bytes(), &mut NoFiles).0, records);
    }

    #[test]
    fn no_bytes_stop_the_reader(text in prop_oneof![vec(any::<u8>(), 0..300), pieces()]) {
        let (records, report) = read(&text, &mut Anything(&text[..text.len() / 2]));
        prop_assert_eq!(report.records, records.len() as u64);
        for problem in report.problems {
            prop_assert!(problem.to_string().contains('^'));
        }
    }

    #[test]
    fn no_rdata_stops_the_writer((rtype, octets) in prop_oneof![3 => nearly(), 1 => (any::<u16>(), vec(any::<u8>(), 0..80))]) {
        let (mut text, mut folded) = (String::new(), octets.clone());
        rdata::to_text(rtype, &octets, &mut text);
        rdata::canonicalise(rtype, &mut folded);
        for (at, len) in rdata::names(rtype, &octets) {
            prop_assert_eq!(wire::name::wire_len(&octets[at..]), Some(len));
        }
        let again = rdata::from_str(rtype, &text, &origin());
        if rdata::is_well_formed(rtype, &octets) {
            prop_assert_eq!(again.as_ref(), Ok(&octets), "{}", text);
        } else {
            prop_assert!(text.starts_with("\\#") && again.is_err(), "{}", text);
        }
    }
}

/// Rdata of every type, with some octets changed, gone or put in.
fn nearly() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let good = read(include_bytes!("zones/all-types.zone"), &mut NoFiles).0;
    let change = (any::<prop::sample::Index>(), 0..3u8, any::<u8>());
    (prop::sample::select(good), vec(change, 0..3)).prop_map(|(rr, changes)| {
        let mut octets = rr.rdata;
        for (place, how, octet) in changes {
            let at = place.index(octets.len() + 1);
            match how {
                0 => octets.insert(at, octet),
                1 if at < octets.len() => drop(octets.remove(at)),
                _ => octets.iter_mut().skip(at).take(1).for_each(|c| *c = octet),
            }
        }
        (rr.rtype, octets)
    })
}
