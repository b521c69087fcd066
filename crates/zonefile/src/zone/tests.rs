use super::*;
use std::collections::HashMap;

#[derive(Default)]
struct Shelf(HashMap<&'static str, &'static str>);

impl Files for Shelf {
    fn include(&mut self, from: &str, path: &str) -> Result<Vec<u8>, String> {
        let name = beside(from, path);
        self.0.get(name.as_str()).map(|t| t.as_bytes().to_vec()).ok_or(format!("{name} does not exist"))
    }
}

/// Each file includes one that was never there before, and then these. How many have been.
struct Endless(u32, &'static str);

impl Files for Endless {
    fn include(&mut self, _: &str, _: &str) -> Result<Vec<u8>, String> {
        self.0 += 1;
        Ok(format!("$INCLUDE g{}{}", self.0, self.1).into_bytes())
    }
}

fn example() -> Name {
    Name::from_text(b"example.com.", None).unwrap()
}

fn run(text: &[u8], files: &mut dyn Files, options: &Options) -> (Vec<String>, Report) {
    let mut lines = Vec::new();
    let report = parse("zones/f", text, &example(), files, options, &mut |r, place| {
        let mut line = format!("{} ", place.line);
        crate::record_to_text(r.owner, r.ttl, r.class, r.rtype, r.rdata, &mut line);
        lines.push(line);
        Ok(())
    });
    assert_eq!(report.records, lines.len() as u64);
    (lines, report)
}

fn records(text: &str) -> Vec<String> {
    let (lines, report) = run(text.as_bytes(), &mut NoFiles, &Options::default());
    assert_eq!(report.errors, 0, "{text}: {}", report.problems[0]);
    lines
}

fn problems(text: &str) -> Vec<String> {
    let (_, report) = run(text.as_bytes(), &mut NoFiles, &Options::default());
    assert_eq!(report.errors + report.warnings, report.problems.len() as u64);
    report.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn owners_classes_and_times_in_every_order() {
    let table = [
        ("a 60 IN A 192.0.2.1", "a.example.com. 60"),
        ("a IN 60 A 192.0.2.1", "a.example.com. 60"),
        ("a 1m A 192.0.2.1", "a.example.com. 60"),
        ("a CLASS1 60 TYPE1 192.0.2.1", "a.example.com. 60"),
        ("$TTL 60\na in a 192.0.2.1", "a.example.com. 60"),
        ("$TTL 60\n@ A 192.0.2.1", "example.com. 60"),
        ("$TTL 60\nA A 192.0.2.1", "A.example.com. 60"),
        ("$ORIGIN sub\n$ORIGIN x\na 60 A 192.0.2.1", "a.x.sub.example.com. 60"),
        ("\\$TTL 60 A 192.0.2.1", "\\$TTL.example.com. 60"),
        ("a 60 A ( 192.0.2.1\n)", "a.example.com. 60"),
        ("a 60 A \\# 4 (c0 00 ; x\n 0201 )", "a.example.com. 60"),
        ("\u{feff}a 60 A 192.0.2.1", "a.example.com. 60"),
    ];
    for (text, want) in table {
        for end in ["", "\n", "\r\n", " ; comment"] {
            let line = records(&format!("{text}{end}")).remove(0);
            assert_eq!(line.split_once(' ').unwrap().1, format!("{want} IN A 192.0.2.1"), "{text}");
        }
    }
}

#[test]
fn a_blank_owner_is_the_last_one() {
    let text = "a 60 A 192.0.2.1\n  AAAA ::1\n\n ; x\n\tTXT x\nb A 192.0.2.2\n";
    let want = [
        "1 a.example.com. 60 IN A 192.0.2.1",
        "2 a.example.com. 60 IN AAAA ::1",
        "5 a.example.com. 60 IN TXT \"x\"",
        "6 b.example.com. 60 IN A 192.0.2.2",
    ];
    assert_eq!(records(text), want);
}

#[test]
fn without_a_default_the_last_ttl_holds_and_without_any_the_minimum_of_the_soa() {
    assert_eq!(
        records("a 60 A 192.0.2.1\n A 192.0.2.2\n 5 A 192.0.2.3\nb TXT x")[3],
        "4 b.example.com. 5 IN TXT \"x\""
    );
    let soa = "@ SOA ns host 1 2 3 4 77\n@ NS ns\n@ 5 TXT x\n@ TXT y";
    let (lines, report) = run(soa.as_bytes(), &mut NoFiles, &Options::default());
    assert_eq!((report.errors, report.warnings), (0, 1));
    assert!(report.problems[0].to_string().contains("its minimum, 77"));
    let ttls: Vec<_> = lines.iter().map(|l| l.split(' ').nth(2).unwrap()).collect();
    assert_eq!(ttls, ["77", "77", "5", "77"]);
    let shown = problems("a A 192.0.2.1\nb A 192.0.2.1");
    assert_eq!(shown.len(), 1);
    assert!(shown[0].contains("no TTL") && shown[0].contains("$TTL 3600"), "{}", shown[0]);
    let options = Options { default_ttl: Some(9), ..Options::default() };
    assert_eq!(run(b"a A 192.0.2.1", &mut NoFiles, &options).0, ["1 a.example.com. 9 IN A 192.0.2.1"]);
}

#[test]
fn all_problems_are_told_and_the_rest_is_read() {
    let text = "$TTL 60\na A 1.2.3\nb A 192.0.2.1\nc FOO x\nd CH A 192.0.2.1\ne A (\n 192.0.2.1\nf 4294967296 A 192.0.2.1\ng OPT x\n\
                $FOO\nh..i A 192.0.2.1\n  A 192.0.2.2\nj TXT \"x\nk A 192.0.2.1\n";
    let (lines, report) = run(text.as_bytes(), &mut NoFiles, &Options::default());
    assert_eq!(lines, ["3 b.example.com. 60 IN A 192.0.2.1", "14 k.example.com. 60 IN A 192.0.2.1"]);
    let places: Vec<_> = report.problems.iter().map(|p| (p.place.line, p.place.column)).collect();
    assert_eq!(places, [(2, 5), (4, 3), (5, 3), (6, 5), (8, 3), (9, 3), (10, 1), (11, 3), (13, 7)]);
    assert_eq!(report.errors, 9);
}

#[test]
fn a_problem_is_shown_with_file_line_caret_and_advice() {
    let shown = problems("$TTL 60\nwww  IN MX mail.example.com.\n");
    let want = "zones/f:2:12: error: the preference is not a number\n    www  IN MX mail.example.com.\n               ^\n    \
                write instead: a number from 0 to 65535";
    assert_eq!(shown, [want]);
}

#[test]
fn problems_are_counted_beyond_those_kept() {
    let options = Options { problems_max: 3, ..Options::default() };
    let (_, report) = run("x\n".repeat(1000).as_bytes(), &mut NoFiles, &options);
    assert_eq!((report.problems.len(), report.errors), (3, 1000));
}

#[test]
fn a_forgotten_dot_is_a_warning() {
    let shown = problems(
        "$TTL 60\n@ NS ns1.EXAMPLE.com\nwww.example.com A 192.0.2.1\n@ MX 10 192.0.2.1\nxexample.com A 192.0.2.1\n",
    );
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown[0].starts_with("zones/f:2:6: warning") && shown[0].ends_with("write instead: ns1.EXAMPLE.com."));
    assert!(shown[1].starts_with("zones/f:3:1: warning"));
    assert!(shown[2].starts_with("zones/f:4:9: warning: this is an address"));
}

#[test]
fn what_the_sink_refuses_is_a_problem_at_the_record() {
    let mut sink = |_: Record<'_>, _: &Place| Err(Objection::refusal("not of this zone".to_string()));
    let report = parse("f", b"$TTL 1\n\n a\nb A 192.0.2.1", &example(), &mut NoFiles, &Options::default(), &mut sink);
    assert_eq!((report.records, report.errors), (0, 2));
    assert!(report.problems[1].to_string().starts_with("f:4:1: error: not of this zone"));
}

#[test]
fn included_files_have_their_own_origin_and_owner() {
    let mut shelf = Shelf(HashMap::from([
        ("zones/sub/one", "a 60 A 192.0.2.1\n$INCLUDE two x\n A 192.0.2.3\n"),
        ("zones/sub/two", "b A 192.0.2.2\n$ORIGIN y.\nc A 192.0.2.2"),
        ("zones/loop", "$INCLUDE loop"),
        ("zones/bad", "\n\nd A x"),
    ]));
    let text = "o 5 A 192.0.2.9\n$INCLUDE \"sub/one\" sub.example.com.\n A 192.0.2.8\n$INCLUDE loop\n$INCLUDE bad\n$INCLUDE gone\n";
    let (lines, report) = run(text.as_bytes(), &mut shelf, &Options::default());
    let want = [
        "1 o.example.com. 5 IN A 192.0.2.9",
        "1 a.sub.example.com. 60 IN A 192.0.2.1",
        "1 b.x.sub.example.com. 60 IN A 192.0.2.2",
        "3 c.y. 60 IN A 192.0.2.2",
        "3 a.sub.example.com. 60 IN A 192.0.2.3",
        "3 o.example.com. 60 IN A 192.0.2.8",
    ];
    assert_eq!(lines, want);
    let places: Vec<_> = report.problems.iter().map(|p| p.place.to_string()).collect();
    assert_eq!(places, ["zones/loop:1:10", "zones/bad:3:5", "zones/f:6:10"]);
}

#[test]
fn a_chain_of_included_files_has_an_end() {
    let mut files = Endless(0, "");
    let (_, report) = run(b"$INCLUDE g", &mut files, &Options::default());
    assert_eq!((files.0, report.errors), (10, 1));
}

#[test]
fn so_many_files_are_included_and_so_many_records_generated() {
    let mut files = Endless(0, "\n$INCLUDE a\n$INCLUDE b\n$INCLUDE c");
    let options = Options { includes_max: 100, generated_max: 5, ..Options::default() };
    let (_, report) = run(b"$INCLUDE g", &mut files, &options);
    assert_eq!(files.0, 100);
    let is_told = |what: &str| report.problems.iter().any(|problem| problem.what.contains(what));
    assert!(is_told("more than 100 files are included"), "{:?}", report.problems);
    let (_, report) =
        run(b"$TTL 60\n$GENERATE 1-3 a$ A 192.0.2.$\n$GENERATE 1-3 b$ A 192.0.2.$\n", &mut NoFiles, &options);
    assert!(report.errors == 1 && report.problems[0].place.line == 3, "{:?}", report.problems);
    assert!(report.problems[0].what.contains("more than 5 records are generated"), "{}", report.problems[0].what);
}

#[test]
fn generate_writes_its_steps() {
    let text = "$TTL 60\n$GENERATE 1-5/2 host${10,4,d} A 192.0.2.$\n$GENERATE 0-0 $.x CNAME ( ${0,3,n}.y \n )\n\
                $GENERATE 7-7 m MX \"$ mail$\"\n$GENERATE 7-7 t TXT x \"y $\"\n";
    let want = [
        "2 host0011.example.com. 60 IN A 192.0.2.1",
        "2 host0013.example.com. 60 IN A 192.0.2.3",
        "2 host0015.example.com. 60 IN A 192.0.2.5",
        "3 0.x.example.com. 60 IN CNAME 0.0.y.example.com.",
        "5 m.example.com. 60 IN MX 7 mail7.example.com.",
        "6 t.example.com. 60 IN TXT \"x\" \"y 7\"",
    ];
    assert_eq!(records(text), want);
    let shown = problems("$TTL 1\n$GENERATE 250-300 h$ A 192.0.2.$\n$GENERATE 0-65536 h$ A 192.0.2.1\n");
    assert_eq!(shown.len(), 2);
    assert!(shown[0].contains("step 256, h256 A 192.0.2.256: this is no IPv4 address"), "{}", shown[0]);
    assert!(shown[1].contains("more than 65536 steps"));
}

#[test]
fn a_record_of_more_than_64_kib_of_text_is_read() {
    let text = format!("a 60 TXT (\n{})\n", "\"\\120\" ; comment comment\n".repeat(20_000));
    assert_eq!(records(&text)[0].len(), "1 a.example.com. 60 IN TXT".len() + 20_000 * 4);
}
