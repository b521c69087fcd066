//! What is told at the end: figures with their units, as a value that is printed as JSON, CSV, text or a page.

use crate::json::Json;
use crate::kernel;
use crate::run::{Outcome, Pacing, Plan, Transport};
use crate::source::Source;
use crate::tally::{Counts, Percentiles, RCODES, SENDING_LATE_NS, Slice};
use crate::tcp::Turnover;

/// From these parts on a figure is called the tool's: of the time that its core was busy, or that others had it; of the
/// time-outs, those of queries that were sent late.
const CORE_FULL: f64 = 0.95;
const CORE_TAKEN: f64 = 0.05;
const BURST_LOSSES: f64 = 0.01;

/// What the operator typed, and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Heading {
    pub command: String,
    /// The target as it was written, where that was a name.
    pub name: Option<String>,
    pub started_s: u64,
}

const RCODE_NAMES: [&str; 12] = [
    "NOERROR",
    "FORMERR",
    "SERVFAIL",
    "NXDOMAIN",
    "NOTIMP",
    "REFUSED",
    "YXDOMAIN",
    "YXRRSET",
    "NXRRSET",
    "NOTAUTH",
    "NOTZONE",
    "DSOTYPENI",
];

pub fn rcode_name(rcode: usize) -> String {
    match rcode {
        16 => "BADVERS".to_string(),
        22 => "BADTRUNC".to_string(),
        23 => "BADCOOKIE".to_string(),
        _ => RCODE_NAMES.get(rcode).map_or_else(|| format!("RCODE{rcode}"), ToString::to_string),
    }
}

/// Microseconds, to the nanosecond.
fn us(ns: u64) -> Json {
    Json::from(ns as f64 / 1e3)
}

fn seconds(ns: u64) -> Json {
    Json::from(ns as f64 / 1e9)
}

fn percentiles(p: &Percentiles) -> Vec<(&'static str, Json)> {
    vec![
        ("p50", us(p.p50)),
        ("p90", us(p.p90)),
        ("p99", us(p.p99)),
        ("p999", us(p.p999)),
        ("p9999", us(p.p9999)),
        ("max", us(p.max)),
    ]
}

fn rcodes(counts: impl Iterator<Item = u64>) -> Json {
    let seen = counts.take(RCODES).enumerate().filter(|(_, n)| *n > 0);
    Json::Object(seen.map(|(rcode, n)| (rcode_name(rcode), Json::from(n))).collect())
}

/// The whole report.
pub fn report(heading: &Heading, plan: &Plan, outcome: &Outcome) -> Json {
    let (tally, counts) = (&outcome.tally, &outcome.tally.counts);
    let sending_s = outcome.sending_ns as f64 / 1e9;
    let limits = limits(plan, outcome);
    let mean_octets = counts.octets as f64 / counts.received.max(1) as f64;
    let mut latency = percentiles(&Percentiles::of(&tally.latency));
    latency.push(("mean", Json::from((tally.latency.mean().round()) / 1e3)));
    Json::object([
        ("tool", Json::from(concat!("dunlin load ", env!("CARGO_PKG_VERSION")))),
        ("command", Json::from(heading.command.clone())),
        ("started", Json::from(heading.started_s)),
        ("machine", machine()),
        ("target", target(heading, plan, outcome)),
        ("load", load(plan, &outcome.source)),
        ("seconds", Json::from(sending_s)),
        ("stopped", Json::from(outcome.stopped)),
        ("sent", Json::from(counts.sent)),
        ("received", Json::from(counts.received)),
        ("lost", Json::from(counts.lost())),
        ("late", Json::from(counts.late)),
        ("timed_out", Json::from(counts.timed_out)),
        ("timed_out_sent_late", Json::from(counts.timed_out_sent_late)),
        ("duplicates", Json::from(counts.duplicates)),
        ("wrong_id", Json::from(counts.wrong_id)),
        ("wrong_question", Json::from(counts.wrong_question)),
        ("malformed", Json::from(counts.malformed)),
        ("truncated", Json::from(counts.truncated)),
        ("refused_by_host", Json::from(counts.refused)),
        ("socket_errors", Json::from(counts.socket_errors)),
        ("unsent", Json::from(counts.unsent)),
        ("sent_late", Json::from(counts.sent_late)),
        ("sent_per_s", Json::from(counts.sent as f64 / sending_s)),
        ("received_per_s", Json::from(counts.received as f64 / sending_s)),
        ("answer_octets_mean", Json::from((mean_octets * 10.0).round() / 10.0)),
        ("rcodes", rcodes(tally.rcodes.iter().copied())),
        ("latency_us", Json::object(latency)),
        ("sending_lateness_us", Json::object(percentiles(&Percentiles::of(&tally.lateness)))),
        ("tool_limited", Json::from(!limits.is_empty())),
        ("tool_limits", Json::list(limits, Json::from)),
        ("kernel_drops", drops(outcome)),
        ("tool_load", own(outcome)),
        ("queries_skipped", skipped(&outcome.source)),
        (
            "stalls",
            Json::list(&tally.stalls, |s| {
                Json::object([("from_s", seconds(s.from_ns)), ("ms", Json::from((s.to_ns - s.from_ns) as f64 / 1e6))])
            }),
        ),
        (
            "slowest",
            Json::list(&tally.slowest, |s| {
                let question = Json::from(crate::question::text(&s.question));
                Json::object([("query", question), ("latency_us", us(s.latency_ns)), ("due_s", seconds(s.due_ns))])
            }),
        ),
        (
            "latency_distribution_us",
            Json::list(tally.latency.decades(20), |(us, n)| {
                Json::List(vec![Json::from((us * 1e3).round() / 1e3), Json::from(n)])
            }),
        ),
        ("series", series(plan, &tally.by_second(), 1_000_000_000)),
        ("slice_ms", Json::from(tally.slice_ns() / 1_000_000)),
        ("fine_series", series(plan, &tally.fine, tally.slice_ns())),
    ])
}

fn machine() -> Json {
    let (cpu, cpus, kernel) = kernel::machine();
    Json::object([("cpu", Json::from(cpu)), ("cpus", Json::from(cpus)), ("kernel", Json::from(kernel))])
}

fn target(heading: &Heading, plan: &Plan, outcome: &Outcome) -> Json {
    let transport = match plan.transport {
        Transport::Udp => "udp".to_string(),
        Transport::Tcp(Turnover::Kept) => "tcp".to_string(),
        Transport::Tcp(Turnover::After(n)) => format!("tcp, a new connection after {n}"),
    };
    Json::object([
        ("address", Json::from(plan.target.to_string())),
        ("resolved_from", heading.name.clone().map_or(Json::Null, Json::from)),
        ("transport", Json::from(transport)),
        ("sockets", Json::from(outcome.own.sockets)),
        ("sources", Json::list(&plan.sources, |ip| Json::from(ip.to_string()))),
    ])
}

fn load(plan: &Plan, source: &Source) -> Json {
    let (kind, text) = match &plan.pacing {
        Pacing::Outstanding { queries, .. } => ("closed loop", format!("{queries} outstanding")),
        Pacing::Schedule(schedule) => ("open loop", schedule.text().to_string()),
        Pacing::Times { factor, .. } => ("open loop", format!("times of the capture, x{factor}")),
    };
    Json::object([
        ("kind", Json::from(kind)),
        ("schedule", Json::from(text)),
        ("queries", Json::from(source.describe())),
        ("timeout_s", seconds(plan.timeout_ns)),
        ("warm_up_s", seconds(plan.warm_ns)),
    ])
}

fn drops(outcome: &Outcome) -> Json {
    let target = outcome.own.target_drops.map_or(Json::Null, Json::from);
    Json::object([("tool", Json::from(outcome.own.socket_drops)), ("target", target)])
}

fn own(outcome: &Outcome) -> Json {
    let own = &outcome.own;
    Json::object([
        ("busy", Json::from((own.busy * 1e4).round() / 1e4)),
        ("cpu", Json::from((own.cpu * 1e4).round() / 1e4)),
        ("waited", own.waited.map_or(Json::Null, |part| Json::from((part * 1e4).round() / 1e4))),
        ("involuntary_switches", Json::from(own.switches)),
        ("stamps", Json::from(if own.stamps { "kernel" } else { "tool" })),
    ])
}

fn skipped(source: &Source) -> Json {
    match source {
        Source::File(file) => Json::object([
            ("lines", Json::from(file.skipped)),
            ("first", file.first_skipped.as_ref().map_or(Json::Null, |s| Json::from(file.describe(s)))),
        ]),
        Source::Capture(replay) => {
            let p = &replay.capture().passed;
            Json::object([
                ("packets", Json::from(p.packets)),
                ("queries", Json::from(p.queries)),
                ("other_packets", Json::from(p.others)),
                ("queries_over_tcp", Json::from(p.over_tcp)),
                ("broken_tcp", Json::from(p.broken_tcp)),
                ("fragments", Json::from(p.fragments)),
                ("cut", Json::from(p.cut)),
                ("malformed", Json::from(p.malformed)),
                ("file_torn", Json::from(p.torn)),
            ])
        }
        Source::Templates(_) => Json::object([]),
    }
}

/// Why the figures are the tool's and not the target's; empty where they are the target's.
pub fn limits(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let is_open = !matches!(plan.pacing, Pacing::Outstanding { .. });
    let mut all = core_limits(outcome);
    if is_open {
        all.extend(clock_limits(outcome));
    }
    let (own, counts) = (&outcome.own, &outcome.tally.counts);
    if counts.unsent > 0 {
        all.push(format!("{} queries of the schedule were never sent", counts.unsent));
    }
    all.extend(burst_limit(counts));
    if own.socket_drops > 0 {
        all.push(format!("the kernel dropped {} answers at the tool's sockets: they count as lost", own.socket_drops));
    }
    all
}

fn core_limits(outcome: &Outcome) -> Vec<String> {
    let own = &outcome.own;
    let mut all = Vec::new();
    if own.busy > CORE_FULL {
        all.push(format!(
            "the tool's core was full ({:.1} % busy): the rate is the tool's, the target may do more",
            own.busy * 100.0
        ));
    }
    if let Some(waited) = own.waited.filter(|waited| *waited > CORE_TAKEN) {
        all.push(format!("other work had the tool's core for {:.1} % of the time", waited * 100.0));
    }
    all
}

/// The clock was late as a whole, or latencies at the tail are mostly the tool's own delay.
fn clock_limits(outcome: &Outcome) -> Vec<String> {
    let tally = &outcome.tally;
    let lateness = tally.lateness.percentile(0.99);
    if lateness > SENDING_LATE_NS {
        return vec![format!(
            "the tool's clock was late: one query in a hundred went out {:.1} ms or more after it was due",
            lateness as f64 / 1e6
        )];
    }
    let lateness = tally.lateness.percentile(0.999);
    let is_tools = lateness > SENDING_LATE_NS && lateness > tally.latency.percentile(0.999) / 2;
    let text = format!(
        "the latencies from p99.9 up are the tool's: queries went out up to {:.1} ms late",
        lateness as f64 / 1e6
    );
    is_tools.then_some(text).into_iter().collect()
}

/// Queries that the tool held up go out at once, which a target's buffer may not hold: such losses are the tool's.
fn burst_limit(counts: &Counts) -> Option<String> {
    let late_share = counts.sent_late as f64 / counts.sent.max(1) as f64;
    let lost_share = counts.timed_out_sent_late as f64 / counts.timed_out.max(1) as f64;
    (lost_share > BURST_LOSSES && lost_share > 2.0 * late_share).then(|| {
        format!(
            "{} of the {} time-outs hit queries that the tool sent late, all at once: they are the tool's doing",
            counts.timed_out_sent_late, counts.timed_out
        )
    })
}

fn series(plan: &Plan, slices: &[Slice], slice_ns: u64) -> Json {
    let point = |(i, slice): (usize, &Slice)| {
        let from_ns = i as u64 * slice_ns;
        let scheduled = match &plan.pacing {
            Pacing::Schedule(schedule) => Json::from((schedule.rate_at(from_ns + slice_ns / 2)).round()),
            _ => Json::Null,
        };
        let mut point = vec![
            ("t", Json::from(from_ns as f64 / 1e9)),
            ("scheduled_per_s", scheduled),
            ("sent", Json::from(slice.sent)),
            ("received", Json::from(slice.received)),
            ("timed_out", Json::from(slice.timed_out)),
            ("unsent", Json::from(slice.unsent)),
        ];
        point.extend(percentiles(&slice.latency));
        point.push(("rcodes", rcodes(slice.rcodes.iter().map(|n| u64::from(*n)))));
        Json::object(point)
    };
    Json::list(slices.iter().enumerate(), point)
}

const CSV_COLUMNS: [&str; 12] =
    ["t", "scheduled_per_s", "sent", "received", "timed_out", "unsent", "p50", "p90", "p99", "p999", "p9999", "max"];

/// The series by the second, one line each, rcodes last.
pub fn csv(report: &Json) -> String {
    let names: Vec<&String> = report.at("rcodes").members().iter().map(|(name, _)| name).collect();
    let mut out = CSV_COLUMNS.join(",").replace(",p50,p90,p99,p999,p9999,max", "");
    out.push_str(",p50_us,p90_us,p99_us,p999_us,p9999_us,max_us");
    names.iter().for_each(|name| out.push_str(&format!(",{name}")));
    out.push('\n');
    for point in report.at("series").items() {
        let cell = |value: &Json| value.number().map_or(String::new(), |n| n.to_string());
        let mut cells: Vec<String> = CSV_COLUMNS.iter().map(|column| cell(point.at(column))).collect();
        cells.extend(names.iter().map(|name| point.at("rcodes").at(name).number().unwrap_or(0.0).to_string()));
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_among_what_was_sent_late_are_the_tools_if_there_are_more_of_them() {
        for (sent_late, timed_out, timed_out_sent_late, is_tools) in [
            (0, 500, 0, false),
            // A target that loses one in ten loses one in ten of these, too.
            (100, 1000, 10, false),
            (100, 1000, 30, true),
            (100, 10_000, 90, false),
            (3000, 2700, 2600, true),
        ] {
            let counts = Counts { sent: 10_000, sent_late, timed_out, timed_out_sent_late, ..Counts::default() };
            assert_eq!(burst_limit(&counts).is_some(), is_tools, "{counts:?}");
        }
    }
}
