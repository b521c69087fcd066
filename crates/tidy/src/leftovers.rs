//! What must not stay behind: notes to oneself, switched-off tests, waiting for luck, names that say nothing, and traces
//! of the machine something was written on. Words are put together here so that this file does not find itself.

use crate::source::words;
use crate::tree;

const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const MACROS: &[&str] = &[concat!("to", "do!"), concat!("un", "implemented!"), concat!("d", "bg!")];

/// Places and hosts that exist on somebody's machine only, or that a mirror's configuration is to name.
const MACHINE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/fa", "rm/"),
    concat!("crates", ".io"),
    concat!("debian", ".org"),
    concat!("ubuntu", ".com"),
];

const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "manager", "common", "misc"];
const EMPTY_PREFIXES: &[&str] = &["get_", "do_", "process_"];

/// Files that hold the one polling loop others call: it looks again until a deadline, and asserts nothing on time.
const MAY_SLEEP: &[&str] = &[];

#[test]
fn no_note_to_oneself_is_left() {
    let mut findings = Vec::new();
    for (path, text) in tree::texts() {
        for (line, content) in text.lines().enumerate() {
            if NOTES.iter().any(|note| !words(content, note).is_empty()) {
                findings.push(format!("{path}:{}: {}", line + 1, content.trim()));
            }
        }
    }
    for source in tree::sources() {
        for name in MACROS {
            findings.extend(source.code.match_indices(name).map(|(at, _)| format!("{}: {name}", source.place(at))));
        }
    }
    tree::report("finish it, or say in docs/promises.md that it is not there yet:", &findings);
}

#[test]
fn no_test_is_switched_off() {
    let mut findings = Vec::new();
    // A test that ends its own process is run by its neighbour, in a process of its own.
    let runs_them_itself = |text: &str| text.contains(r#""--ignored""#);
    for source in tree::sources().iter().filter(|s| !runs_them_itself(&s.text)) {
        let marks = source.code.match_indices("#[ignore").chain(source.code.match_indices("#[cfg(any())]"));
        findings.extend(marks.map(|(at, _)| source.place(at)));
    }
    tree::report("a test runs in `make test`, or in `make soak`, or it is not there:", &findings);
}

#[test]
fn no_test_sleeps() {
    let mut findings = Vec::new();
    for source in tree::sources().iter().filter(|s| !MAY_SLEEP.contains(&s.path.as_str())) {
        for at in words(&source.code, "sleep") {
            let in_product = source.product().as_bytes().get(at).is_some_and(|b| *b != b' ');
            if !in_product {
                findings.push(format!("{}: wait for what is to happen, with a deadline", source.place(at)));
            }
        }
    }
    tree::report("tests that sleep pass by luck:", &findings);
}

#[test]
fn nothing_tells_of_the_machine_it_was_written_on() {
    let mut findings = Vec::new();
    for (path, text) in tree::texts().iter().filter(|(path, _)| path != "LICENSE") {
        for (line, content) in text.lines().enumerate() {
            let at_a_start = |word: &&&str| {
                content.match_indices(**word).any(|(at, _)| !content[..at].ends_with(|c: char| c.is_alphanumeric()))
            };
            if let Some(word) = MACHINE.iter().find(at_a_start) {
                findings.push(format!("{path}:{}: {word}", line + 1));
            }
        }
    }
    tree::report("paths and hosts of one machine:", &findings);
}

#[test]
fn names_say_something() {
    let mut findings = Vec::new();
    for source in tree::sources() {
        let file = source.path.rsplit('/').next().unwrap_or("").trim_end_matches(".rs");
        if EMPTY_NAMES.contains(&file) {
            findings.push(format!("{}: one noun a file: what does it hold?", source.path));
        }
        for at in words(&source.code, "fn") {
            let name = source.code[at + 2..].trim_start();
            if let Some(prefix) = EMPTY_PREFIXES.iter().find(|prefix| name.starts_with(**prefix)) {
                findings.push(format!("{}: drop {prefix}: a getter is a noun, a deed is its verb", source.place(at)));
            }
        }
    }
    tree::report("names that say nothing:", &findings);
}

#[test]
fn a_file_says_what_it_does() {
    let headless = |text: &str| !text.lines().take(3).any(|line| line.starts_with("//!"));
    let findings: Vec<String> = tree::sources()
        .iter()
        .filter(|s| !s.only_tests && headless(&s.text))
        .map(|s| format!("{}:1", s.path))
        .collect();
    tree::report("a file's head says what it does and what it never does (`//! …`):", &findings);
}
