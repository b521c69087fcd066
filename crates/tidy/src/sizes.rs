//! Sizes. What is far beyond taste fails; what is only large is printed (`cargo test -p tidy -- --nocapture`).

use crate::source::{Source, item_len, words};
use crate::tree;

const FILE_LINES_MAX: usize = 1200;
const FUNCTION_LINES_MAX: usize = 120;
const FUNCTION_LINES_TASTE: usize = 70;

/// (place, name, lines) of every function with a body.
fn functions(source: &Source) -> Vec<(String, String, usize)> {
    let mut found = Vec::new();
    for at in words(&source.code, "fn") {
        let rest = &source.code[at..];
        let name = rest[2..].trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        let body = &rest[..item_len(rest)];
        if !name.is_empty() && body.ends_with('}') {
            found.push((source.place(at), name.to_owned(), body.matches('\n').count() + 1));
        }
    }
    found
}

#[test]
fn no_file_or_function_has_outgrown_its_reader() {
    let mut findings = Vec::new();
    let mut lengths = Vec::new();
    for source in tree::sources() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            findings.push(format!("{}: {lines} lines, {FILE_LINES_MAX} at most", source.path));
        }
        for (place, name, lines) in functions(&source) {
            lengths.push(lines);
            if lines > FUNCTION_LINES_MAX {
                findings.push(format!("{place}: {name} has {lines} lines, {FUNCTION_LINES_MAX} at most"));
            } else if lines > FUNCTION_LINES_TASTE {
                println!("{place}: {name} has {lines} lines; could it be two?");
            }
        }
    }
    lengths.sort_unstable();
    let at = |part: usize| lengths.get(lengths.len() * part / 100).copied().unwrap_or(0);
    println!("{} functions; lines: median {}, 90 % up to {}, 99 % up to {}", lengths.len(), at(50), at(90), at(99));
    tree::report("too long to be read:", &findings);
}

#[test]
fn a_function_is_measured_to_its_closing_brace() {
    let source = Source::new("x.rs".into(), "fn a() {\n    b(\"}\");\n}\nfn c();\nfn d() { e() }\n".into());
    let sizes: Vec<(String, usize)> = functions(&source).into_iter().map(|(_, name, lines)| (name, lines)).collect();
    assert_eq!(sizes, [("a".to_owned(), 3), ("d".to_owned(), 1)]);
}
