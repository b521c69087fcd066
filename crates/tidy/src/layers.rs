//! Which crate may use which: the picture in ARCHITECTURE.md as a table. An arrow points down, never up or sideways.

use crate::tree;
use std::collections::BTreeSet;
use std::fs;

/// A crate, and the crates of ours that its product code may use. `stats` may be used by all that count.
const ARROWS: &[(&str, &[&str])] = &[
    // bytes and counters
    ("wire", &[]),
    ("stats", &[]),
    // matter
    ("image", &["wire"]),
    ("zonefile", &["wire"]),
    ("dnssec", &["wire"]),
    // cores
    ("authority", &["wire", "image"]),
    ("policy", &["wire", "stats"]),
    ("audit", &["wire", "image", "zonefile"]),
    ("cache", &["wire", "stats"]),
    ("resolver", &["wire", "dnssec", "stats"]),
    ("transfer", &["wire", "image", "zonefile", "stats"]),
    // where they meet
    ("front", &["wire", "image", "authority", "policy", "cache", "resolver", "transfer", "stats"]),
    // the operating system: these know no DNS
    ("net", &[]),
    ("store", &[]),
    // drivers
    ("load", &["wire", "zonefile", "net", "stats"]),
    ("dash", &["stats"]),
    (
        "server",
        &[
            "front", "wire", "image", "zonefile", "audit", "policy", "cache", "resolver", "transfer", "stats", "net",
            "store", "dash",
        ],
    ),
    ("dunlin", &["server", "load", "front", "wire", "image", "zonefile", "audit", "stats", "net", "store"]),
    // for tests only; nothing above may use them in its product code
    ("sim", &["front", "wire", "image", "zonefile", "resolver", "transfer", "stats"]),
    ("difference", &["wire"]),
    ("tidy", &[]),
];

/// Crates whose tests may use what their product code may not. A test of a core still knows neither net nor server.
const TESTS_ONLY: &[&str] = &["sim", "difference", "tidy"];
const NEVER_IN_CORE_TESTS: &[&str] = &["net", "store", "server", "dunlin", "load", "dash"];
const DRIVERS: &[&str] = &["net", "store", "load", "dash", "server", "dunlin", "difference"];

struct Manifest {
    name: String,
    uses: Vec<String>,
    tests_use: Vec<String>,
}

/// The lines `name = …` or `name.workspace = …` of a section; a manifest of ours spells them one a line.
fn dependencies<'a>(manifest: &'a str, section: &str) -> Vec<(&'a str, &'a str)> {
    let head = format!("[{section}]");
    let lines =
        manifest.lines().skip_while(|line| line.trim() != head).skip(1).take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split_once([' ', '.', '=']))
        .filter(|(name, _)| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

fn manifests() -> Vec<Manifest> {
    let root = tree::root();
    let crates: BTreeSet<String> = tree::files()
        .iter()
        .filter_map(|f| f.strip_prefix("crates/")?.strip_suffix("/Cargo.toml").map(str::to_owned))
        .collect();
    let read = |name: &String| {
        let text = fs::read_to_string(root.join(format!("crates/{name}/Cargo.toml"))).expect("a manifest can be read");
        let ours = |section: &str| -> Vec<String> {
            dependencies(&text, section)
                .iter()
                .map(|(name, _)| (*name).to_owned())
                .filter(|n| crates.contains(n))
                .collect()
        };
        let uses = [ours("dependencies"), ours("build-dependencies")].concat();
        Manifest { name: name.clone(), uses, tests_use: ours("dev-dependencies") }
    };
    crates.iter().map(read).collect()
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    ARROWS.iter().find(|(krate, _)| *krate == name).map(|(_, below)| *below)
}

#[test]
fn an_arrow_points_only_down() {
    let mut findings = Vec::new();
    for m in manifests() {
        let file = format!("crates/{}/Cargo.toml", m.name);
        let Some(below) = allowed(&m.name) else {
            findings.push(format!("{file}: no row in the table of crates/tidy/src/layers.rs; give it its layer there"));
            continue;
        };
        for used in &m.uses {
            if !below.contains(&used.as_str()) {
                findings.push(format!("{file}: {} must not use {used}; it may use: {}", m.name, below.join(" ")));
            }
        }
        for used in &m.tests_use {
            if !DRIVERS.contains(&m.name.as_str()) && NEVER_IN_CORE_TESTS.contains(&used.as_str()) {
                findings.push(format!("{file}: tests of {} must not use {used}", m.name));
            }
        }
    }
    tree::report("dependencies point down only:", &findings);
}

#[test]
fn the_table_itself_has_no_circle() {
    for (at, (name, below)) in ARROWS.iter().enumerate() {
        for used in *below {
            let place = ARROWS.iter().position(|(krate, _)| krate == used);
            assert!(place.is_some_and(|place| place < at), "{name} uses {used}, which does not stand above it");
            assert!(!TESTS_ONLY.contains(used), "{name} uses {used}, which is for tests");
        }
    }
}

#[test]
fn a_section_is_read_to_the_next() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n# b\nc = \"1\"\n\n[lints]\nd = 1\n";
    assert_eq!(dependencies(manifest, "dependencies"), [("a", "workspace = true"), ("c", "= \"1\"")]);
}

#[test]
fn versions_of_dependencies_stand_in_one_place() {
    let mut findings = Vec::new();
    for (path, text) in tree::texts() {
        let member = path.starts_with("crates/") && path.ends_with("/Cargo.toml");
        if !member {
            continue;
        }
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, value) in dependencies(&text, section) {
                if value != "workspace = true" {
                    findings.push(format!("{path}: {name}: write `{name}.workspace = true`"));
                }
            }
        }
    }
    tree::report("versions stand in the workspace's Cargo.toml:", &findings);
}
