//! What is found by pieces beside what is found by reading all.

use super::tests::{Desk, HEAD, records};
use super::*;
use crate::images::laying;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

impl Desk {
    /// The pieces of a text that is as it is served.
    fn pieces(&self, image: &Image<Stretch>, text: &str) -> Option<Pieces> {
        self.write(text);
        let edition = Edition::of(&self.zone, image, None, self.cutting())?;
        edition.pieces?.now_of(&laying::zone(image.view(), &self.zone.apex)?)
    }

    fn by_pieces(&self, image: &Image<Stretch>, known: &Pieces, text: &str) -> Option<Edition> {
        self.write(text);
        let served = laying::zone(image.view(), &self.zone.apex)?;
        assert!(known.are_of(&served));
        let ground = Ground::new(image, served).ok()?;
        Edition::by_pieces(&self.zone, &zonetext::open(&self.zone).ok()?, &ground, known)
    }
}

/// What stands in a text as one: records in many spellings, of names that come again, above and below others.
fn entry() -> impl Strategy<Value = String> {
    let owner = (0..24u8, 0..8u8).prop_map(|(n, how)| match how {
        0 => format!("x.n{n}"),
        1 => format!("N{n}"),
        2 => format!("n{n}.z."),
        3 => format!("*.n{n}"),
        4 => format!("y.x.n{n}"),
        _ => format!("n{n}"),
    });
    let data = prop::sample::select(vec![
        "A 192.0.2.1",
        "A 192.0.2.2",
        "60 IN A 192.0.2.3",
        "AAAA 2001:db8::1 ; a comment (\n\n; another",
        "MX 1 n1",
        "MX 2 x.N2",
        "NS ns",
        "NS x.n3\n NS x.n4",
        "TXT \"a ; b\" c\n TXT ( d\n \"e\" )\n\tA 192.0.2.4",
        "TXT \\( \\\"",
        "SRV 1 2 3 n5",
        "DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000000",
    ]);
    let record = (owner, data).prop_map(|(owner, data)| format!("{owner} {data}\n"));
    let odd = prop::sample::select(vec![
        "\n; a comment\n",
        "$TTL 60\n",
        "$GENERATE 1-3 n$ A 192.0.2.$\n",
        "out.example. A 192.0.2.1\n",
        "n1 TXT ( a\nb )\n",
        "n2 61 A 192.0.2.9\n",
        "$ORIGIN x\n",
    ]);
    let alias = (0..9u8).prop_map(|n| format!("c{n} CNAME n{}\n", n + 1));
    prop_oneof![400 => record, 4 => alias, 1 => odd.prop_map(String::from)]
}

#[derive(Clone, Debug)]
enum Deed {
    Insert(usize, String),
    Remove(usize),
    Replace(usize, String),
    Move(usize, usize),
    Double(usize, usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let at = || 0..200usize;
    prop_oneof![
        (at(), entry()).prop_map(|(at, entry)| Deed::Insert(at, entry)),
        at().prop_map(Deed::Remove),
        (at(), entry()).prop_map(|(at, entry)| Deed::Replace(at, entry)),
        (at(), at()).prop_map(|(from, to)| Deed::Move(from, to)),
        (at(), at()).prop_map(|(from, to)| Deed::Double(from, to)),
    ]
}

fn edited(entries: &[String], deeds: &[Deed]) -> Vec<String> {
    let mut all = entries.to_vec();
    for deed in deeds {
        let n = all.len().max(1);
        match deed {
            Deed::Insert(at, entry) => all.insert(at % n, entry.clone()),
            Deed::Remove(at) => drop(all.remove(at % n)),
            Deed::Replace(at, entry) => all[at % n].clone_from(entry),
            Deed::Move(from, to) => {
                let entry = all.remove(from % n);
                all.insert(to % n, entry);
            }
            Deed::Double(from, to) => all.insert(to % n, all[from % n].clone()),
        }
    }
    all
}

fn text(serial: u32, entries: &[String]) -> String {
    HEAD.replace("h 1 ", &format!("h {serial} ")) + &entries.concat()
}

/// The records that an image holds after a change.
fn changed(image: &Image<Stretch>, edition: &Edition) -> Vec<transfer::Record> {
    let mut all = records(image);
    all.retain(|r| edition.diff.removed().binary_search(r).is_err());
    all.extend(edition.diff.added().iter().cloned());
    all.sort_unstable();
    all
}

fn shown(edition: &Edition) -> String {
    let names: Vec<_> = edition.names.iter().map(|(name, records)| (name, canonical_of(name, records))).collect();
    format!("{:?} {:?} {} {names:?}", edition.diff, edition.loss, edition.is_less_secure)
}

/// Both ways say the same, and what they say is true.
fn check(desk: &Desk, image: &Image<Stretch>, quick: &Edition, new: &str) {
    if let Some(whole) = desk.edition_over(image, new) {
        assert_eq!(shown(quick), shown(&whole));
    }
    let twin = Desk::new("pieces-twin", new);
    if laying::zone(twin.image.view(), b"\x01z\0").is_some() {
        assert_eq!(changed(image, quick), records(&twin.image));
    }
}

#[test]
fn by_pieces_the_same_is_found_as_by_reading_all() {
    let (all, quick, again) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let entries = proptest::collection::vec(entry(), 40..140);
    let deeds = || proptest::collection::vec(deed(), 0..4);
    let mut runner = TestRunner::new(Config { cases: 200, source_file: Some(file!()), ..Config::default() });
    let run = runner.run(&(entries, deeds(), deeds()), |(before, first, second)| {
        let (after, last) = (edited(&before, &first), edited(&edited(&before, &first), &second));
        let [before, after, last] = [text(1, &before), text(2, &after), text(3, &last)];
        let desk = Desk::new("pieces", &before);
        let Some(zone) = laying::zone(desk.image.view(), b"\x01z\0") else { return Ok(()) };
        if !zone.is_editable().unwrap() {
            return Ok(());
        }
        all.set(all.get() + 1);
        let Some(known) = desk.pieces(&desk.image, &before) else { return Ok(()) };
        let Some(edition) = desk.by_pieces(&desk.image, &known, &after) else { return Ok(()) };
        quick.set(quick.get() + 1);
        check(&desk, &desk.image, &edition, &after);
        let known = edition.pieces.clone();
        if let Some(laid) = desk.laid(edition)
            && let Some(known) = known.and_then(|known| known.now_of(&laying::zone(laid.view(), b"\x01z\0")?))
            && let Some(edition) = desk.by_pieces(&laid, &known, &last)
        {
            again.set(again.get() + 1);
            check(&desk, &laid, &edition, &last);
        }
        Ok(())
    });
    run.unwrap();
    let (all, quick, again) = (all.get(), quick.get(), again.get());
    assert!(all > 60 && quick * 5 > 2 * all && again * 10 > all, "{all} {quick} {again}");
}

/// A long text, pieces of which are known, and what becomes of it.
struct Long {
    desk: Desk,
    text: String,
    known: Pieces,
}

impl Long {
    fn new(name: &str) -> Long {
        let lines: String = (0..200).map(|i| format!("n{i} A 192.0.2.1\nx.n{i} TXT x\n")).collect();
        let text = HEAD.to_string() + &lines;
        let desk = Desk::new(name, &text);
        let known = desk.pieces(&desk.image, &text).unwrap();
        assert!(known.list.len() > 50, "{}", known.list.len());
        Long { desk, text, known }
    }

    fn edition(&self, text: &str) -> Option<Edition> {
        self.desk.by_pieces(&self.desk.image, &self.known, text)
    }

    fn names(&self, text: &str) -> Vec<String> {
        let edition = self.edition(text).unwrap();
        check(&self.desk, &self.desk.image, &edition, text);
        edition.names.keys().map(|n| crate::images::name(n).to_string()).collect()
    }
}

#[test]
fn names_that_came_went_or_changed_are_found_by_pieces() {
    let long = Long::new("pieces-found");
    let text = &long.text;
    assert_eq!(long.names(text), [""; 0]);
    assert_eq!(long.names(&(text.clone() + "new A 192.0.2.1\n")), ["new.z."]);
    assert_eq!(long.names(&text.replace("\nn7 A 192.0.2.1", "")), ["n7.z."]);
    assert_eq!(long.names(&text.replace("x.n7 TXT x\n", "")), ["x.n7.z."]);
    assert_eq!(long.names(&text.replace("\nn9 A", "\nn9 TXT y\nn9 A")), ["n9.z."]);
    assert_eq!(long.names(&text.replace("\nn9 A 192.0.2.1", "\nn9 A 192.0.2.2")), ["n9.z."]);
    let moved = text.replace("x.n7 TXT x\n", "") + "x.n7 TXT x\n";
    assert_eq!(long.names(&moved), [""; 0]);
    assert_eq!(long.names(&(text.clone() + "x.n7 TXT y\n")), ["x.n7.z."], "others of its records are in another piece");
    assert_eq!(long.names(&text.replace("h 1 2", "h 2 2")), ["z."]);
    let hidden = Desk::new("pieces-hidden", &(text.clone() + "c NS ns.c\nns.c A 192.0.2.1\n"));
    let known = hidden.pieces(&hidden.image, &(text.clone() + "c NS ns.c\nns.c A 192.0.2.1\n")).unwrap();
    let edition = hidden.by_pieces(&hidden.image, &known, &(text.clone() + "c NS ns.c\n")).unwrap();
    assert_eq!(edition.names.keys().map(|n| n.len()).collect::<Vec<_>>(), [8], "glue that is no more");
}

#[test]
fn an_apex_that_is_given_another_serial_is_found_wherever_the_change_is() {
    let mut long = Long::new("pieces-given");
    long.desk.zone.given = Some(77);
    let edition = long.edition(&(long.text.clone() + "new A 192.0.2.1\n")).unwrap();
    assert_eq!(edition.serials(), Some((1, 77)));
}

#[test]
fn what_is_not_simple_is_read_as_a_whole() {
    let long = Long::new("pieces-whole");
    let text = &long.text;
    let middle = |line: &str| text.replace("\nn100 A", &format!("\n{line}\nn100 A"));
    assert!(long.edition(&middle("m A 192.0.2.1")).is_some());
    for (what, new) in [
        ("a directive that holds for what follows", middle("$ORIGIN sub")),
        ("another time to live from there on", middle("$TTL 61")),
        ("another time to live for all", text.replace("$TTL 60", "$TTL 61")),
        ("no time to live", text.replace("$TTL 60\n", "")),
        ("another file", middle("$INCLUDE f")),
        ("an error", middle("m A none")),
        ("an error in the first line", text.replace("$TTL", "$TTTL")),
        ("a parenthesis that is not closed", middle("m TXT ( a")),
        ("a quote that is not closed", middle("m TXT \"a")),
        ("another origin in the end", text.clone() + "$ORIGIN sub\n"),
        ("much", text.replace("TXT x", "TXT y")),
        ("nothing", "; nothing\n".to_string()),
    ] {
        assert!(long.edition(&new).is_none(), "{what}");
    }
    let again = Desk::new("pieces-other", text);
    let other = laying::zone(again.image.view(), b"\x01z\0").unwrap();
    assert!(!long.known.are_of(&other), "another image");
    let laid = long.desk.laid(long.edition(&middle("m A 192.0.2.1")).unwrap()).unwrap();
    assert!(!long.known.are_of(&laying::zone(laid.view(), b"\x01z\0").unwrap()), "another version");
}

#[test]
fn a_text_that_is_not_the_same_everywhere_has_no_pieces() {
    let long = Long::new("pieces-none");
    for new in [long.text.clone() + "$TTL 61\n", long.text.replace("\nn100 A", "\n$ORIGIN sub\nn100 A")] {
        let desk = Desk::new("pieces-none-of", &new);
        assert!(desk.pieces(&desk.image, &new).is_none());
        assert!(desk.edition(&(new + "m A 192.0.2.1\n")).is_some());
    }
}

/// Somebody writes the same into it all the time.
#[test]
fn a_file_that_may_be_written_again_unseen_has_no_pieces() {
    let long = Long::new("pieces-fresh");
    let (file, is_over) = (&long.desk.zone.file, AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                fs::File::options()
                    .write(true)
                    .open(file)
                    .and_then(|mut f| f.write_all(&long.text.as_bytes()[..1]))
                    .unwrap();
            }
        });
        let edition =
            || Edition::of(&long.desk.zone, &long.desk.image, Some(long.known.clone()), long.desk.cutting()).unwrap();
        // He may not have had a processor for a while.
        let has_none = (0..100).any(|_| edition().pieces.is_none());
        is_over.store(true, Relaxed);
        assert!(has_none);
    });
}
