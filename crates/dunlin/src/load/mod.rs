//! `dunlin load`: from what was typed to a plan, and from a report to files.

mod diff;
mod find_max;
mod live;
pub mod options;
pub mod plan;
pub mod target;
mod watch;

use crate::exit::{Exit, could_not, remark};
use live::Live;
use load::json::Json;
use load::report::{self, Heading};
use load::run::{self, Glimpse, Watcher};
use load::verdict::Conditions;
use load::{page, summary};
use net::signals::Signals;
use options::{Load, LoadCommand};
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn run(args: &Load) -> Exit {
    if let Some(LoadCommand::Diff(args)) = &args.command {
        return diff::run(args);
    }
    match measured(args) {
        Ok(exit) => exit,
        Err(why) => could_not(why),
    }
}

fn measured(args: &Load) -> Result<Exit, String> {
    let conditions = args.told.assert.as_deref().map(Conditions::parse).transpose().map_err(|e| e.to_string())?;
    let prepared = plan::prepare(args)?;
    writable(args)?;
    let signals = Signals::new().map_err(|e| format!("signals cannot be held back: {e}"))?;
    let mut attendant = Attendant { signals, live: Live::start(args.told.quiet || args.when.find_max), stopped: false };
    let watch = args.told.watch.as_deref().map(watch::Watch::start).transpose()?;
    let (mut report, began) = if args.when.find_max {
        find_max::find(args, &mut attendant)?
    } else {
        let outcome = run::run(&prepared.plan, prepared.source, &mut attendant);
        attendant.live.end();
        let outcome = outcome?;
        (report::report(&prepared.heading, &prepared.plan, &outcome), outcome.began)
    };
    if let (Some(watch), Json::Object(members)) = (watch, &mut report) {
        members.push(("watched".to_string(), watch.end(began)));
    }
    tell(args, &report)?;
    Ok(judged(conditions.as_ref(), &report))
}

/// Shows the run while it goes on, and ends it on Ctrl-C; the report then tells what there is.
struct Attendant {
    signals: Signals,
    live: Live,
    stopped: bool,
}

impl Watcher for Attendant {
    fn show(&mut self, glimpse: Glimpse) {
        self.live.show(glimpse);
    }

    fn looks(&self) -> bool {
        self.live.is_on()
    }

    fn stop(&mut self) -> bool {
        self.stopped |= matches!(self.signals.wait(Some(Duration::ZERO)), Ok(Some(_)));
        self.stopped
    }
}

/// A report that cannot be written is found out before the run, not after it.
fn writable(args: &Load) -> Result<(), String> {
    let told = &args.told;
    for path in [&told.json, &told.csv, &told.html].into_iter().flatten().filter(|path| *path != "-") {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|e| format!("{path}: cannot be written: {e}"))?;
    }
    Ok(())
}

/// The summary goes where no file was asked to go.
fn tell(args: &Load, report: &Json) -> Result<(), String> {
    let told = &args.told;
    let files =
        [(&told.json, format!("{report}\n")), (&told.csv, report::csv(report)), (&told.html, page::page(report))];
    for (path, text) in &files {
        if let Some(path) = path {
            write(path, text)?;
        }
    }
    let text = summary::text(report);
    let text = text + &max_rate(report).unwrap_or_default();
    if files.iter().any(|(path, _)| path.as_deref() == Some("-")) {
        remark(&text);
        Ok(())
    } else {
        write("-", &text)
    }
}

/// What --find-max found.
fn max_rate(report: &Json) -> Option<String> {
    let rate = summary::grouped(report.at("max_rate").number()? as u64);
    let whose = if report.at("max_rate_is_the_tools") == &Json::Bool(true) {
        " (the tool's limit, the target may do more)"
    } else {
        ""
    };
    Some(format!("max rate   {rate}/s{whose}\n"))
}

/// Each condition and what was found, on stderr; No where one does not hold.
fn judged(conditions: Option<&Conditions>, report: &Json) -> Exit {
    let verdicts = conditions.map(|c| c.judge(report)).unwrap_or_default();
    for verdict in &verdicts {
        let word = if verdict.holds { "holds" } else { "FAILS" };
        remark(format_args!("{word}: {} (found {})\n", verdict.text, verdict.found));
    }
    if verdicts.iter().all(|v| v.holds) { Exit::Done } else { Exit::No }
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
