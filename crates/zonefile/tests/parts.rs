//! A text read in parts says what it says when read in one piece: the same records at the same lines, the same problems.

use proptest::prelude::*;
use std::collections::HashMap;
use wire::Name;
use zonefile::{Files, HEAD, Options, Part, Place, Reading, Record, Report, Surroundings, border, join, parse, parts};

struct Shelf(HashMap<&'static str, &'static str>);

impl Files for Shelf {
    fn include(&mut self, _: &str, path: &str) -> Result<Vec<u8>, String> {
        self.0.get(path).map(|t| t.as_bytes().to_vec()).ok_or("there is no such file".to_string())
    }
}

fn shelf() -> Shelf {
    Shelf(HashMap::from([("f", "inc A 192.0.2.9\n$TTL 77\n"), ("g", "$ORIGIN away\nx A 192.0.2.9\n")]))
}

fn origin() -> Name {
    Name::from_text(b"Example.", None).unwrap()
}

fn shown(record: Record<'_>, place: &Place) -> String {
    format!("{place} {record:?}")
}

fn whole(text: &[u8], options: &Options) -> (Vec<String>, Report) {
    let mut records = vec![];
    let report = parse("z", text, &origin(), &mut shelf(), options, &mut |r, place| {
        records.push(shown(r, place));
        Ok(())
    });
    (records, report)
}

fn cut<'t>(text: &'t [u8], options: &Options, n: usize) -> Vec<Part<'t>> {
    let outside = Surroundings::outside(&origin(), options);
    parts(text, Surroundings::behind(text, HEAD, &origin(), options), outside, n, border)
}

/// `step`: of how many octets at least the pieces are that each part is read in.
fn in_parts(text: &[u8], options: &Options, n: usize, step: usize) -> Option<(Vec<String>, Report)> {
    let mut records = vec![];
    let mut readings = vec![];
    for part in cut(text, options, n) {
        let (mut at, mut read) = (part.range().start, None);
        while at < part.range().end {
            let end = border(&text[..part.range().end], (at + step).min(part.range().end));
            let next = part.piece(at..end, read.as_ref()).read("z", &mut shelf(), options, &mut |r, place| {
                records.push(shown(r, place));
                Ok(())
            });
            let all = match read {
                Some(before) => Reading::and(before, next, options),
                None => next,
            };
            (at, read) = (end, Some(all));
        }
        readings.extend(read);
    }
    join(readings, options).map(|report| (records, report))
}

fn check(text: &[u8], options: &Options, n: usize) -> bool {
    let (all, expect) = whole(text, options);
    let [by_parts, by_pieces] = [usize::MAX / 2, 64].map(|step| {
        let found = in_parts(text, options, n, step);
        if let Some((records, report)) = &found {
            assert_eq!(records, &all, "{}", text.escape_ascii());
            assert_eq!(format!("{report:?}"), format!("{expect:?}"), "{}", text.escape_ascii());
        }
        found.is_some()
    });
    assert!(by_parts || !by_pieces, "{}", text.escape_ascii());
    by_parts
}

const PIECES: &[&str] = &[
    "a A 192.0.2.1\n",
    "b 60 A 192.0.2.2\n",
    " AAAA 2001:db8::1\n",
    "c TXT \"x ; y\" ( \"z\"\n \"w\" )\n",
    "d TXT ( x\ny ) ; and\n",
    "\n; comment (\n",
    "$TTL 30\n",
    "$ORIGIN sub\n",
    "$ORIGIN example.\n",
    "$INCLUDE f\n",
    "$INCLUDE g\n",
    "$GENERATE 1-3 h$ A 192.0.2.$\n",
    "@ SOA ns h 1 2 3 4 5\n",
    "e TXT \"open\n",
    "f A (\n",
    "g A )\n",
    "h A ( \"\n",
    "i..j A 192.0.2.3\n",
    "Z.EXAMPLE. 5 NS k\r\n",
    "l A 192.0.2.300",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]
    #[test]
    fn parts_say_what_the_whole_says(
        picks in proptest::collection::vec(0..PIECES.len(), 0..30),
        n in 1usize..6,
        ttl in any::<bool>(),
        few in any::<bool>(),
    ) {
        let text: String = picks.iter().map(|&i| PIECES[i]).collect();
        let options = Options {
            default_ttl: ttl.then_some(9),
            problems_max: if few { 2 } else { 1000 },
            ..Options::default()
        };
        check(text.as_bytes(), &options, n);
    }
}

#[test]
fn an_ordinary_text_can_be_read_in_parts() {
    let mut text = String::from("$ORIGIN net.\n$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n");
    for i in 0..5000 {
        text += &format!("name{i} NS ns.name{i}\n NS other (\n )\nns.name{i} A 192.0.2.1\n\n");
    }
    for n in 1..9 {
        assert_eq!(cut(text.as_bytes(), &Options::default(), n).len(), n);
        assert!(check(text.as_bytes(), &Options::default(), n));
    }
    text += "$ORIGIN sub\nx A 192.0.2.1\n";
    assert!(check(text.as_bytes(), &Options::default(), 4));
    let late = text.replacen("\nname1 ", "\n$TTL 30\nname1 ", 1) + "$TTL 5\n";
    assert!(check(late.as_bytes(), &Options::default(), 4));
}

#[test]
fn a_text_whose_parts_hang_together_is_not_read_in_parts() {
    let filler = "a 60 A 192.0.2.1\n".repeat(10_000);
    let table = [
        format!("{filler}$ORIGIN sub\n{filler}{filler}"),
        format!("{filler}$TTL 5\n{filler}{filler}"),
        format!("{filler}{filler}b A 192.0.2.1\n{filler}"),
        format!("{filler}{filler}$INCLUDE f\n{filler}").replace("60", "") + "$TTL 6",
        format!("a TXT (\n{}\n)\n", "b\n".repeat(10_000)),
    ];
    for (i, text) in table.iter().enumerate() {
        let found = check(text.as_bytes(), &Options::default(), 3);
        // A TTL stated in the same part is enough.
        assert_eq!(found, i == 2, "{i}");
    }
}
