//! The report as a few lines for a terminal.

use crate::json::Json;

pub fn text(report: &Json) -> String {
    let number = |key: &str| report.at(key).number().unwrap_or(0.0);
    let count = |key: &str| grouped(number(key) as u64);
    let latency = |key: &str| time(report.at("latency_us").at(key).number().unwrap_or(0.0));
    let part = |key: &str| 100.0 * number(key) / number("sent").max(1.0);
    let text = |value: &Json| value.text().unwrap_or("").to_string();
    let (target, load) = (report.at("target"), report.at("load"));
    let mut out = String::new();
    let mut line = |name: &str, value: String| out.push_str(&format!("{name:<11}{value}\n"));
    let resolved = target.at("resolved_from").text().map(|n| format!(" ({n}, resolved once)")).unwrap_or_default();
    line("target", format!("{}{resolved} over {}", text(target.at("address")), text(target.at("transport"))));
    line("load", format!("{}, {}, {}", text(load.at("kind")), text(load.at("schedule")), text(load.at("queries"))));
    line("sent", format!("{} in {:.2} s, {}/s", count("sent"), number("seconds"), count("sent_per_s")));
    line("received", format!("{}, {}/s", count("received"), count("received_per_s")));
    line(
        "timed out",
        format!(
            "{} ({:.4} %): {} lost, {} answered too late",
            count("timed_out"),
            part("timed_out"),
            count("lost"),
            count("late")
        ),
    );
    let odd: Vec<String> =
        ["duplicates", "wrong_id", "wrong_question", "malformed", "truncated", "unsent", "sent_late"]
            .iter()
            .filter(|key| number(key) > 0.0)
            .map(|key| format!("{} {}", key.replace('_', " "), count(key)))
            .collect();
    if !odd.is_empty() {
        line("odd", odd.join(", "));
    }
    let counted = ["packets", "queries", "queries_over_tcp"];
    let skipped = report.at("queries_skipped").members().iter().filter(|(name, _)| !counted.contains(&&name[..]));
    let skipped: Vec<String> = skipped
        .filter_map(|(name, n)| Some((name, n.number()? as u64)))
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{} {}", name.replace('_', " "), grouped(n)))
        .collect();
    if !skipped.is_empty() {
        line("not sent", skipped.join(", "));
    }
    let side = |name: &str| report.at("kernel_drops").at(name).number().unwrap_or(0.0) as u64;
    if side("target") + side("tool") > 0 {
        let (target, tool) = (grouped(side("target")), grouped(side("tool")));
        line(
            "dropped",
            format!("by the kernel, for want of room: {target} at the target's sockets, {tool} at the tool's"),
        );
    }
    let rcodes = report.at("rcodes").members().iter();
    line(
        "rcodes",
        rcodes
            .map(|(name, n)| format!("{name} {}", grouped(n.number().unwrap_or(0.0) as u64)))
            .collect::<Vec<_>>()
            .join(", "),
    );
    line(
        "latency",
        format!(
            "p50 {}  p90 {}  p99 {}  p99.9 {}  p99.99 {}  max {}",
            latency("p50"),
            latency("p90"),
            latency("p99"),
            latency("p999"),
            latency("p9999"),
            latency("max")
        ),
    );
    let stalls = report.at("stalls").items();
    if let Some(longest) = stalls.iter().filter_map(|s| s.at("ms").number()).reduce(f64::max) {
        line("stalls", format!("{}, the longest {longest:.1} ms", stalls.len()));
    }
    for why in report.at("tool_limits").items() {
        line("TOOL LIMIT", text(why));
    }
    out
}

/// Microseconds in the unit that reads best.
pub fn time(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// 1234567 as 1,234,567.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([grouped(0), grouped(999), grouped(1000), grouped(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([time(12.3), time(1500.0), time(2.5e6)], ["12 us", "1.50 ms", "2.50 s"]);
    }

    #[test]
    fn what_a_capture_could_not_give_is_told() {
        let report =
            r#"{"queries_skipped": {"packets": 9, "queries": 3, "cut": 2, "malformed": 0, "broken_tcp": 4000}}"#;
        assert!(text(&Json::parse(report).unwrap()).contains("not sent   cut 2, broken tcp 4,000\n"));
    }

    #[test]
    fn an_empty_report_is_no_reason_to_fail() {
        assert!(text(&Json::Null).contains("received"));
    }
}
