//! The command line: reads what the user typed and hands it to the part that does it.

mod cli;
mod exit;
mod manual;
mod message;
mod query;

use clap::Parser;
use cli::{Cli, Command, Zone};
use exit::{Exit, not_built};

fn main() -> Exit {
    match Cli::parse().command {
        Command::Query(args) => query::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
        Command::Zone(Zone::Diff(_)) => not_built("zone diff"),
        Command::Explain(_) => not_built("explain"),
        Command::Load(_) => not_built("load"),
        Command::Compare(_) => not_built("compare"),
        Command::Import(_) => not_built("import"),
        _ => not_built("this"),
    }
}
