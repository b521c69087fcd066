//! A source that no module names is dead: it is neither compiled nor tested, only read. So is a file in a crate's folder
//! that has no place there, most often what a test wrote beside the sources.

use crate::source::{Source, file_module, words};
use crate::tree;
use std::collections::{BTreeMap, BTreeSet};

/// Files that cargo compiles without being told.
fn is_root(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    let file = parts.pop().unwrap_or("");
    match parts.last() {
        Some(&"src") => matches!(file, "lib.rs" | "main.rs"),
        Some(&("bin" | "tests" | "benches" | "examples")) => true,
        _ if file == "build.rs" => true,
        _ => file == "main.rs" && parts.len() > 1 && ["bin", "tests", "benches"].contains(&parts[parts.len() - 2]),
    }
}

/// What a crate's folder holds; folders end in a slash.
const PLACES: &[&str] =
    &["Cargo.toml", "clippy.toml", "README.md", "build.rs", "src/", "tests/", "benches/", "examples/"];

#[test]
fn a_crate_holds_sources_only() {
    let stray = |path: &String| {
        let inside = path.strip_prefix("crates/").and_then(|p| p.split_once('/')).map(|(_, inside)| inside);
        inside.is_some_and(|inside| !PLACES.iter().any(|p| inside == *p || p.ends_with('/') && inside.starts_with(p)))
    };
    let findings: Vec<String> = tree::files().into_iter().filter(stray).collect();
    tree::report("tests write below target/ or a temporary folder; these files have no place in a crate:", &findings);
}

/// Paths that the file's `mod name;` may mean.
fn named_files(source: &Source) -> Vec<String> {
    let folder = source.module_folder();
    let mut named = Vec::new();
    for at in words(&source.code, "mod") {
        let Some(name) = file_module(&source.code[at..]) else { continue };
        let attribute = source.text[..at].trim_end().lines().next_back().unwrap_or("");
        match attribute.trim().strip_prefix("#[path = \"").and_then(|a| a.split('"').next()) {
            Some(path) => named.push(normal(&format!("{}/{path}", source.path.rsplit_once('/').map_or("", |p| p.0)))),
            None => named.extend([format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]),
        }
    }
    named
}

/// The path without `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn every_source_is_reached() {
    let sources = tree::sources();
    let by_path: BTreeMap<&str, &Source> = sources.iter().map(|s| (s.path.as_str(), s)).collect();
    let mut open: Vec<&Source> = sources.iter().filter(|s| is_root(&s.path)).collect();
    let mut reached: BTreeSet<&str> = open.iter().map(|s| s.path.as_str()).collect();
    while let Some(source) = open.pop() {
        for path in named_files(source) {
            if let Some(next) = by_path.get(path.as_str())
                && reached.insert(&next.path)
            {
                open.push(next);
            }
        }
    }
    let dead: Vec<String> = sources.iter().map(|s| s.path.clone()).filter(|p| !reached.contains(p.as_str())).collect();
    tree::report("no `mod` names these files:", &dead);
}
