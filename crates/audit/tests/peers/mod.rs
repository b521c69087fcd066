//! What the checkers of BIND and Knot say of a zone.

use difference::peers::run;
use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    Nothing,
    Warns,
    /// The checker ends with 1.
    Refuses,
    /// Knot's word for what its server would not load, whatever it is told to check.
    Serious,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

struct File(PathBuf);

impl File {
    fn of(zone: &str) -> File {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("audit-{}-{number}.zone", std::process::id()));
        std::fs::write(&path, zone).unwrap();
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].concat().escape_ascii().to_string().replace("\\n", "\n")
}

/// BIND mentions much: what it says of the neighbour, too, does not count.
pub fn named(zone: &str, neighbour: &str) -> Says {
    let check = |zone: &str| {
        let file = File::of(zone);
        let path = file.0.display().to_string();
        let output = run("named-checkzone", ["-i", "full-sibling", "example", &path]);
        let is_usual = |line: &&str| line.contains("loaded serial") || *line == "OK" || line.is_empty();
        (output.status.success(), said(&output).lines().filter(|l| !is_usual(l)).count())
    };
    match (check(zone), check(neighbour)) {
        ((false, _), (true, _)) => Says::Refuses,
        ((true, more), (_, usual)) if more > usual => Says::Warns,
        ((false, _), (false, _)) => panic!("BIND refuses the neighbour, too:\n{neighbour}"),
        _ => Says::Nothing,
    }
}

pub fn knot(zone: &str) -> Says {
    let file = File::of(zone);
    let path = file.0.display().to_string();
    // Told to check digests, it misses one in any zone without.
    let digests: &[&str] = if zone.contains("@ ZONEMD") { &["-z"] } else { &[] };
    let output = run("kzonecheck", [digests, &["-o", "example", &path]].concat());
    let said = said(&output);
    // It dies of a zone with NSEC3 and no NSEC3PARAM.
    match output.status.code() {
        _ if said.contains("serious semantic error") => Says::Serious,
        Some(0) => Says::Nothing,
        _ => Says::Refuses,
    }
}
