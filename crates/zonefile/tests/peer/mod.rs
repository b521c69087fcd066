//! Starts a peer's program on a zone. A peer that is missing fails the test.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

fn program(name: &str) -> PathBuf {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../peers/bin");
    let folder = std::env::var_os("DUNLIN_PEERS").map_or_else(beside, PathBuf::from);
    let program = folder.join(name);
    assert!(program.exists(), "{} is missing: scripts/peers sets the peers up", program.display());
    program
}

/// The zone's file is the last argument.
pub fn run(name: &str, arguments: &[&str], zone: impl AsRef<[u8]>) -> Output {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("zonefile-{name}-{}-{number}", std::process::id()));
    std::fs::write(&path, zone).unwrap();
    let output = Command::new(program(name)).args(arguments).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    output
}
