//! `dunlin load diff`: two reports and what chance does not explain.

use super::options::LoadDiff;
use crate::exit::{Exit, could_not, say};
use load::diff::{Line, PART, diff};
use load::json::Json;
use std::path::Path;

pub fn run(args: &LoadDiff) -> Exit {
    let (a, b) = match (read(&args.a), read(&args.b)) {
        (Ok(a), Ok(b)) => (a, b),
        (a, b) => return could_not([a.err(), b.err()].into_iter().flatten().collect::<Vec<_>>().join("\n")),
    };
    let lines = diff(&a, &b);
    let exit = if lines.iter().any(Line::differs) { Exit::No } else { Exit::Done };
    if args.json {
        return say(format_args!("{}\n", Json::object([("differences", Json::list(&lines, json))])), exit);
    }
    let lines: String = lines.iter().map(|line| text(line) + "\n").collect();
    say(format_args!("{:<10} {:>14} {:>14}  change, 95 % interval\n{lines}", "", "A", "B"), exit)
}

fn read(path: &Path) -> Result<Json, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: cannot be read: {e}", path.display()))?;
    let report = Json::parse(&text).map_err(|e| format!("{}:{e}", path.display()))?;
    match report.at("series").items() {
        [] => Err(format!("{}: it is no report of `dunlin load --json`: `series` is missing", path.display())),
        _ => Ok(report),
    }
}

fn text(line: &Line) -> String {
    let change = match line.interval {
        Some((low, high)) => {
            let note = if line.differs() { "  <- more than chance" } else { "" };
            format!("{:+.1} % ... {:+.1} %{note}", low * 100.0, high * 100.0)
        }
        None => "too few seconds to tell".to_string(),
    };
    let number = |n: f64| if line.unit == PART { format!("{:.4} %", n * 100.0) } else { format!("{n:.1}") };
    format!("{:<10} {:>14} {:>14}  {change} ({})", line.figure, number(line.a), number(line.b), line.unit)
}

fn json(line: &Line) -> Json {
    let bound = |of: fn((f64, f64)) -> f64| line.interval.map_or(Json::Null, |interval| Json::from(of(interval)));
    Json::object([
        ("figure", Json::from(line.figure)),
        ("a", Json::from(line.a)),
        ("b", Json::from(line.b)),
        ("change_low", bound(|i| i.0)),
        ("change_high", bound(|i| i.1)),
        ("differs", Json::from(line.differs())),
    ])
}
