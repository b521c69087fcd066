//! Cores take packets, time, seed and configuration as arguments: same inputs, same outputs. So their product code has
//! no clock, socket, file, thread, environment, chance or async.

use crate::source::words;
use crate::tree;

const CORES: &[&str] =
    &["wire", "image", "authority", "policy", "front", "zonefile", "cache", "resolver", "dnssec", "transfer", "audit"];

/// A path of the standard library, and where it belongs. `std::net`'s addresses are plain data and stay allowed.
const BANNED_PATHS: &[(&str, &str)] = &[
    ("std::fs", "files are read and written by store and server"),
    ("std::thread", "threads are started by server"),
    ("std::process", "programs are started and ended by drivers"),
    ("std::env", "the environment is read by dunlin"),
    ("std::os", "the operating system is met in net and store"),
    ("std::time::Instant", "time is an argument: Now"),
    ("std::time::SystemTime", "time is an argument: Now"),
    ("std::io::stdin", "drivers read"),
    ("std::io::stdout", "drivers print"),
    ("std::io::stderr", "drivers print"),
    ("std::collections::hash_map::RandomState", "seeds are arguments"),
];
const BANNED_WORDS: &[(&str, &str)] = &[
    ("UdpSocket", "sockets are in net"),
    ("TcpStream", "sockets are in net"),
    ("TcpListener", "sockets are in net"),
    ("UnixStream", "sockets are in net"),
    ("Instant", "time is an argument: Now"),
    ("SystemTime", "time is an argument: Now"),
    ("rand", "chance is an argument: a seed"),
    ("getrandom", "chance is an argument: a seed"),
    ("println", "drivers print"),
    ("eprintln", "drivers print"),
    ("thread_local", "state is owned by who calls"),
];

/// Paths as they are used: `std::{fs, time::Instant}` counts as `std::fs` and `std::time::Instant`.
fn used_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in words(code, "std").into_iter().chain(words(code, "core")) {
        expand(code, at, String::new(), &mut found);
    }
    found
}

/// Follows one path from `at`; returns where it ends.
fn expand(code: &str, at: usize, prefix: String, found: &mut Vec<(usize, String)>) -> usize {
    let rest = &code[at..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let path = format!("{prefix}{}", &rest[..end]);
    let after = rest[end..].trim_start();
    let next = at + rest.len() - after.len();
    let Some(tail) = after.strip_prefix("::") else {
        found.push((at, path));
        return at + end;
    };
    let inner = next + 2 + tail.len() - tail.trim_start().len();
    if !code[inner..].starts_with('{') {
        return expand(code, inner, path + "::", found);
    }
    let mut here = inner + 1;
    loop {
        here += code[here..].len() - code[here..].trim_start_matches(|c: char| c.is_whitespace() || c == ',').len();
        match code[here..].chars().next() {
            None | Some('}') => return here + 1,
            Some(c) if c.is_alphanumeric() || c == '_' => here = expand(code, here, format!("{path}::"), found),
            Some(c) => here += c.len_utf8(),
        }
    }
}

#[test]
fn cores_are_deterministic() {
    let mut findings = Vec::new();
    for source in tree::sources().iter().filter(|s| CORES.contains(&s.krate()) && s.path.contains("/src/")) {
        let code = source.product();
        for (at, path) in used_paths(code) {
            let path = path.replacen("core::", "std::", 1);
            let under = |banned: &str| path == banned || path.starts_with(&format!("{banned}::"));
            if let Some((banned, why)) = BANNED_PATHS.iter().find(|(banned, _)| under(banned)) {
                findings.push(format!("{}: {banned}: {why}", source.place(at)));
            }
        }
        for (word, why) in BANNED_WORDS {
            findings.extend(words(code, word).iter().map(|&at| format!("{}: {word}: {why}", source.place(at))));
        }
        for at in words(code, "async") {
            findings.push(format!("{}: async: cores are steps, each called by a driver", source.place(at)));
        }
    }
    tree::report("cores touch no clock, socket, file, thread, environment or chance:", &findings);
}

/// Clippy sees through `use … as …` and type aliases; the words above do not. It takes its rules from a file beside the manifest.
#[test]
fn clippy_knows_that_a_core_is_one() {
    let there = |krate: &&&str| tree::root().join(format!("crates/{krate}/Cargo.toml")).exists();
    let linked = |krate: &&str| {
        let link = tree::root().join(format!("crates/{krate}/clippy.toml"));
        std::fs::read_link(link).is_ok_and(|to| to.ends_with("clippy-cores.toml"))
    };
    let missing = |krate: &&str| format!("crates/{krate}: ln -s ../../clippy-cores.toml clippy.toml");
    let findings: Vec<String> = CORES.iter().filter(there).filter(|krate| !linked(krate)).map(missing).collect();
    tree::report("cores without clippy's rules for cores:", &findings);
}

#[test]
fn cores_do_not_panic_for_want_of_a_value() {
    let mut findings = Vec::new();
    for source in tree::sources().iter().filter(|s| CORES.contains(&s.krate()) && s.path.contains("/src/")) {
        for (at, _) in source.product().match_indices(".unwrap()") {
            findings.push(format!("{}: unwrap: say with `let … else` what happens without", source.place(at)));
        }
    }
    tree::report("cores do not unwrap:", &findings);
}

#[test]
fn paths_are_found_in_every_spelling() {
    let code = "use std::{fs, net::{IpAddr, UdpSocket}, time::Duration};\nlet a = std :: env :: args();";
    let paths: Vec<String> = used_paths(code).into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, ["std::fs", "std::net::IpAddr", "std::net::UdpSocket", "std::time::Duration", "std::env::args"]);
}
