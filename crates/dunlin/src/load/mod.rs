//! `dunlin load`: from what was typed to a plan, and from a report to files.

pub mod options;
mod plan;
mod target;

use crate::exit::{Exit, could_not};
use load::json::Json;
use load::report::{self, Heading};
use load::run::{self, Watcher};
use net::signals::Signals;
use options::{Load, LoadCommand};
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn run(args: &Load) -> Exit {
    if let Some(LoadCommand::Diff(_)) = &args.command {
        return crate::exit::not_built("load diff");
    }
    match measured(args) {
        Ok(exit) => exit,
        Err(why) => could_not(why),
    }
}

fn measured(args: &Load) -> Result<Exit, String> {
    let prepared = plan::prepare(args)?;
    let mut stop = Stop(Signals::new().map_err(|e| format!("signals cannot be held back: {e}"))?);
    let outcome = run::run(&prepared.plan, prepared.source, &mut stop)?;
    let report = report::report(&prepared.heading, &prepared.plan, &outcome);
    tell(args, &report)?;
    Ok(Exit::Done)
}

/// Ctrl-C ends the run; the report tells what there is.
struct Stop(Signals);

impl Watcher for Stop {
    fn stop(&mut self) -> bool {
        matches!(self.0.wait(Some(Duration::ZERO)), Ok(Some(_)))
    }
}

fn tell(args: &Load, report: &Json) -> Result<(), String> {
    if let Some(path) = &args.told.json {
        write(path, &format!("{report}\n"))?;
    }
    if let Some(path) = &args.told.csv {
        write(path, &report::csv(report))?;
    }
    Ok(())
}

/// Writes a file, or to the standard output.
fn write(path: &str, text: &str) -> Result<(), String> {
    let written = if path == "-" { std::io::stdout().write_all(text.as_bytes()) } else { std::fs::write(path, text) };
    written.map_err(|e| format!("{path}: cannot be written: {e}"))
}

fn heading(name: Option<String>) -> Heading {
    let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    Heading { command: format!("dunlin {}", words.join(" ")), name, started_s: started }
}

/// A word as a shell would have to be given it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_string() } else { format!("'{word}'") }
}
