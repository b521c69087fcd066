//! The checkout as lists of files. Build output, the peers' programs and data that others wrote are no part of it.

use crate::source::Source;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose contents are not ours to judge.
const FOREIGN: &[&str] = &["target", "peers", ".git", "fuzz/corpus", "fuzz/artifacts", "fuzz/target", "benches/data"];

/// Text without a telling ending.
const TEXT_FILES: &[&str] = &["Makefile", "run", "peers", "loom", "build", "compare", "gen", ".gitignore"];
const TEXT_ENDINGS: &[&str] = &["rs", "md", "toml", "zone", "sh", "c", "py", "txt", "html", "css", "js", "yml"];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is there")
}

/// All files of ours, as paths relative to the root, sorted.
pub fn files() -> Vec<String> {
    let mut found = Vec::new();
    walk(&root(), Path::new(""), &mut found);
    found.sort();
    found
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder of the checkout can be read") {
        let entry = entry.expect("a folder of the checkout can be read");
        let path = folder.join(entry.file_name());
        let text = path.to_string_lossy().into_owned();
        let kind = entry.file_type().expect("a file has a type");
        if kind.is_dir() && !FOREIGN.contains(&text.as_str()) {
            walk(root, &path, found);
        } else if kind.is_file() {
            found.push(text);
        }
    }
}

/// Every Rust source of the workspace and of fuzz/, read and scanned.
pub fn sources() -> Vec<Source> {
    let root = root();
    let read = |path: String| {
        let text = fs::read_to_string(root.join(&path)).expect("a source is UTF-8");
        Source::new(path, text)
    };
    let mut sources: Vec<Source> = files().into_iter().filter(|path| path.ends_with(".rs")).map(read).collect();
    let tests_only: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in &mut sources {
        let stem = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        source.only_tests |= tests_only.iter().any(|m| stem == m || source.path.starts_with(&format!("{m}/")));
    }
    sources
}

/// Every text file with its contents: sources, scripts, documents, examples.
pub fn texts() -> Vec<(String, String)> {
    let root = root();
    let is_text = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or(path);
        TEXT_FILES.contains(&name) || name.rsplit_once('.').is_some_and(|(_, ending)| TEXT_ENDINGS.contains(&ending))
    };
    files()
        .into_iter()
        .filter(is_text)
        .filter_map(|p| Some((p.clone(), fs::read_to_string(root.join(&p)).ok()?)))
        .collect()
}

/// Ends the test with all findings, one a line.
pub fn report(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}\n  {}\n", findings.join("\n  "));
}

#[test]
fn the_tree_is_found() {
    let files = files();
    assert!(files.iter().any(|f| f == "Cargo.toml") && files.iter().any(|f| f == "crates/tidy/src/tree.rs"));
    assert!(!files.iter().any(|f| f.starts_with("target/")));
}
