//! How a command ends.

use std::fmt::Display;
use std::io::{self, Write};
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

/// Writes the answer, all of it, and ends so. Not `print!`, which panics where nothing can be written.
pub fn say(text: impl Display, exit: Exit) -> Exit {
    let mut out = io::stdout().lock();
    told(write!(out, "{text}").and_then(|()| out.flush()), exit)
}

/// How a command ends whose answer was written so.
pub fn told(written: io::Result<()>, exit: Exit) -> Exit {
    match written {
        // Whoever reads us has seen enough.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => could_not(e),
        _ => exit,
    }
}

/// Says something beside the answer. Not `eprint!`, which panics where nothing can be written.
pub fn remark(text: impl Display) {
    // Nobody can be told that nobody can be told.
    let _ = write!(io::stderr().lock(), "{text}");
}

/// Says on stderr why it could not run.
pub fn could_not(why: impl Display) -> Exit {
    remark(format_args!("dunlin: {why}\n"));
    Exit::CouldNot
}

pub fn not_built(what: &str) -> Exit {
    could_not(format_args!("{what}: not built yet"))
}
