//! How a command ends.

use std::process::{ExitCode, Termination};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// The answer is no: a check failed, nobody answered.
    No,
    /// It could not run.
    CouldNot,
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::CouldNot => 2,
        })
    }
}

/// Says on stderr why it could not run.
pub fn could_not(why: impl std::fmt::Display) -> Exit {
    eprintln!("dunlin: {why}");
    Exit::CouldNot
}

pub fn not_built(what: &str) -> Exit {
    could_not(format_args!("{what}: not built yet"))
}
