//! Finds the peers' programs: `$DUNLIN_PEERS`, else `peers/bin` of the workspace. A program that is not there fails the test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/difference lies two below the root")
        .to_path_buf()
}

pub fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("DUNLIN_PEERS").map_or_else(|| workspace().join("peers/bin"), PathBuf::from);
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is not there: run scripts/peers, or set DUNLIN_PEERS to the folder that has it",
        path.display()
    );
    path
}

pub fn command(name: &str) -> Command {
    Command::new(program(name))
}

/// Runs a peer's tool to its end.
pub fn run(name: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    command(name).args(args).output().unwrap_or_else(|e| panic!("{name} does not start: {e}"))
}

/// Runs a peer's tool that must succeed.
pub fn must(name: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let out = run(name, args);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{name} failed: {said}{}", String::from_utf8_lossy(&out.stderr));
    said
}
