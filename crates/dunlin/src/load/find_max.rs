//! `--find-max`: trials at rates that the search asks for; the report is that of the best one.

use super::Attendant;
use super::options::Load;
use super::plan;
use crate::exit::remark;
use load::json::Json;
use load::report;
use load::run::{self, Pacing};
use load::schedule::Schedule;
use load::search::{Search, Trial};
use std::time::Instant;

const FIRST_RATE: f64 = 1000.0;

/// What a trial must keep.
struct Bounds {
    loss: f64,
    p99_us: f64,
}

/// The report, and when its time 0 was.
pub fn find(args: &Load, attendant: &mut Attendant) -> Result<(Json, Instant), String> {
    let part = load::quantity::share(&args.when.loss);
    let bounds = Bounds {
        loss: part.ok_or_else(|| format!("--loss {}: a part such as 0.1% belongs here", args.when.loss))?,
        p99_us: plan::time("--p99", &args.when.p99)? as f64 / 1e3,
    };
    let seconds = plan::time("--time", &args.when.time)? as f64 / 1e9;
    let mut search = Search::new(FIRST_RATE);
    let (mut best, mut trials) = (None, Vec::new());
    while let Some(rate) = search.next() {
        let (report, began) = trial(args, attendant, rate, seconds)?;
        let verdict = judge(&report, &bounds);
        if !args.told.quiet {
            remark(format_args!("{rate:>12.0}/s  {}\n", describe(verdict, &report)));
        }
        trials.push(Json::object([("rate", Json::from(rate)), ("result", Json::from(name(verdict)))]));
        search.on_trial(verdict);
        if verdict == Trial::Held || best.is_none() {
            best = Some((report, began));
        }
        if attendant.stopped {
            break;
        }
    }
    let Some((Json::Object(mut members), began)) = best else { return Err("no trial was made".to_string()) };
    members.push(("max_rate".to_string(), Json::from(search.held())));
    members.push(("max_rate_is_the_tools".to_string(), Json::from(search.is_tools())));
    members.push(("trials".to_string(), Json::List(trials)));
    Ok((Json::Object(members), began))
}

fn trial(args: &Load, attendant: &mut Attendant, rate: f64, seconds: f64) -> Result<(Json, Instant), String> {
    let mut prepared = plan::prepare(args)?;
    prepared.plan.pacing = Pacing::Schedule(Schedule::constant(rate, seconds));
    let outcome = run::run(&prepared.plan, prepared.source, attendant)?;
    Ok((report::report(&prepared.heading, &prepared.plan, &outcome), outcome.began))
}

fn figures(report: &Json) -> (f64, f64) {
    let number = |key: &str| report.at(key).number().unwrap_or(0.0);
    let p99_us = report.at("latency_us").at("p99").number().unwrap_or(f64::INFINITY);
    let p99_us = if number("received") > 0.0 { p99_us } else { f64::INFINITY };
    (number("timed_out") / number("sent").max(1.0), p99_us)
}

/// A trial that the tool could not keep up with says nothing of the target.
fn judge(report: &Json, bounds: &Bounds) -> Trial {
    let (loss, p99_us) = figures(report);
    let unsent = report.at("unsent").number().unwrap_or(0.0);
    match (loss <= bounds.loss && p99_us <= bounds.p99_us && unsent == 0.0, report.at("tool_limited")) {
        (true, _) => Trial::Held,
        (false, Json::Bool(true)) => Trial::ToolFull,
        (false, _) => Trial::Failed,
    }
}

fn name(verdict: Trial) -> &'static str {
    match verdict {
        Trial::Held => "held",
        Trial::Failed => "failed",
        Trial::ToolFull => "the tool was full",
    }
}

fn describe(verdict: Trial, report: &Json) -> String {
    let (loss, p99_us) = figures(report);
    format!("{}: loss {:.3} %, p99 {}", name(verdict), loss * 100.0, load::summary::time(p99_us))
}
