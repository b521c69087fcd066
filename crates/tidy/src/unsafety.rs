//! Code whose soundness the compiler cannot check stands in few files, which this table names.

use crate::source::words;
use crate::tree;

/// Files, or folders with all files below them.
const LISTED: &[&str] =
    &["crates/net/src/", "crates/server/src/update/lives/machine.rs", "crates/store/src/", "crates/wire/src/cpu.rs"];

#[test]
fn unsafe_stands_only_in_listed_files() {
    let mut findings = Vec::new();
    for source in tree::sources().iter().filter(|s| !LISTED.iter().any(|l| s.path.starts_with(l))) {
        findings.extend(words(&source.code, "unsafe").iter().map(|&at| source.place(at)));
        findings.extend(words(&source.code, "unsafe_code").iter().map(|&at| source.place(at)));
    }
    tree::report("unsafe outside the files listed in crates/tidy/src/unsafety.rs:", &findings);
}

#[test]
fn each_unsafe_block_says_why_it_is_sound() {
    let mut findings = Vec::new();
    for source in tree::sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        for at in words(&source.code, "unsafe") {
            let after = source.code[at + "unsafe".len()..].trim_start();
            let line = source.text[..at].matches('\n').count();
            let explained =
                lines[line.saturating_sub(12)..=line].iter().any(|l| l.contains("SAFETY") || l.contains("# Safety"));
            if !explained && (after.starts_with('{') || after.starts_with("impl")) {
                findings.push(format!("{}: write `// SAFETY: …` above it", source.place(at)));
            }
        }
    }
    tree::report("unsafe without its reason:", &findings);
}
