//! The command line: reads what the user typed and hands it to the part that does it.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod canonical;
mod check;
mod cli;
mod compare;
mod configuration;
mod ctl;
mod diff;
mod dump;
mod exit;
mod load;
mod manual;
mod message;
mod progress;
mod query;
mod serve;
mod zone;

use cli::{Command, Zone};
use exit::{Exit, not_built};

#[global_allocator]
static HEAP: store::heap::Gradual = store::heap::Gradual;

fn main() -> Exit {
    let command = cli::typed();
    if !matches!(command, Command::Serve(_)) {
        store::folder::read_what_is_handed();
    }
    match command {
        Command::Query(args) => query::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
        Command::Check(args) => check::check(&args),
        Command::Compile(args) => check::compile(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Zone(Zone::Check(args)) => zone::check(&args),
        Command::Zone(Zone::Compile(args)) => zone::compile(&args),
        Command::Zone(Zone::Dump(args)) => dump::dump(&args),
        Command::Zone(Zone::Diff(args)) => diff::diff(&args),
        Command::Explain(_) => not_built("explain"),
        Command::Load(args) => load::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Import(_) => not_built("import"),
        Command::Serve(args) => serve::run(&args),
    }
}
