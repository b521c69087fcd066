//! Runs by seed. A run that fails says how to see the same run again: its seed, and the commit, for only the same code
//! makes of the same seed the same run. `SIM_SEED=N` runs that one alone.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;

const ONE: &str = "SIM_SEED";

/// `NAME_SEEDS` of them, or so many as are run always, from `NAME_FROM` on: other numbers are other runs.
pub fn of(name: &str, always: u64) -> std::ops::Range<u64> {
    let number = |what: &str| std::env::var(format!("{name}_{what}")).ok().and_then(|n| n.parse::<u64>().ok());
    let from = number("FROM").unwrap_or(0);
    from..from + number("SEEDS").unwrap_or(always)
}

/// Runs each seed; the first that panics is named, and its panic goes on.
pub fn each(seeds: impl IntoIterator<Item = u64>, run: impl Fn(u64)) {
    let one = std::env::var(ONE).ok().and_then(|n| n.parse().ok());
    let seeds: Vec<u64> = one.map_or_else(|| seeds.into_iter().collect(), |n| vec![n]);
    for seed in seeds {
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("{}", blame(seed));
            resume_unwind(why);
        }
    }
}

/// What somebody else needs to see the same.
fn blame(seed: u64) -> String {
    let mut text = format!("the run failed: seed {seed}, commit {}", git(&["rev-parse", "HEAD"]));
    if !git(&["status", "--porcelain", "--untracked-files=no"]).is_empty() {
        text.push_str(" with changes that are not committed");
    }
    let _ = write!(text, "; once more: {ONE}={seed} cargo test -p {}", env_of_test());
    text
}

/// The package whose test runs, as cargo tells it.
fn env_of_test() -> String {
    std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "sim".into())
}

/// The source may have been unpacked without its history.
fn git(words: &[&str]) -> String {
    let told = Command::new("git").args(words).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let known = told.ok().filter(|t| t.status.success()).and_then(|t| String::from_utf8(t.stdout).ok());
    known.map_or_else(|| "unknown".into(), |t| t.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_of_a_failure_can_see_it_again() {
        let text = blame(17);
        let commit = text.split("commit ").nth(1).and_then(|t| t.split([';', ' ']).next()).unwrap();
        assert!(text.contains("seed 17") && text.contains("SIM_SEED=17 cargo test -p sim"), "{text}");
        assert!(commit == "unknown" || commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{text}");
    }

    #[test]
    fn the_first_seed_that_fails_ends_the_run() {
        let run = std::cell::RefCell::new(Vec::new());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            each(3..9, |seed| {
                run.borrow_mut().push(seed);
                assert!(seed < 5, "on purpose");
            });
        }));
        assert!(ended.is_err());
        assert_eq!(*run.borrow(), [3, 4, 5]);
    }
}
