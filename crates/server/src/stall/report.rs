//! What the stall meter has found, for `ctl stall` and `/metrics`. Read by operators' threads only.

use super::histogram::{Histogram, quantile_ns};
use super::watch::under_way;
use super::{Capture, Cause, Long, STALL_NS, Turn, Turns, WORST_MAX, ns};
use crate::clock::rfc3339_ms;
use crate::json::Json;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bounds of the buckets that are told: powers of two in nanoseconds, about 1 us to 1 s.
const TOLD: std::ops::RangeInclusive<u32> = 10..=30;
/// Beside what is done in a turn: CPU time, of turns of a millisecond and more.
const RAN: &str = "ran";

/// `now_ns` and `wall_ms` are the same moment.
pub fn json(all: &[Arc<Turns>], now_ns: u64, wall_ms: u64) -> Json {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let whole: Vec<&Histogram> = all.iter().map(|t| &t.whole).collect();
    let mut causes = vec![durations("turn", &whole)];
    causes.extend(Cause::ALL.map(|cause| durations(cause.name(), &part(all, cause))));
    causes.push(durations(RAN, &ran(all)));
    let of_all = |of_one: &dyn Fn(Long) -> Vec<Turn>, first: &dyn Fn(&Turn) -> u64| {
        let all = all.iter().flat_map(|t| of_one(t.long()).into_iter().map(|turn| (&**t, turn)));
        let mut all: Vec<(&Turns, Turn)> = all.collect();
        all.sort_by_key(|(_, turn)| std::cmp::Reverse(first(turn)));
        all.truncate(WORST_MAX);
        all
    };
    let worst = of_all(&|long| long.worst, &|turn| turn.took_ns);
    let latest = of_all(&|long| long.latest.into_iter().rev().collect(), &|turn| turn.ended_ns);
    let latest_long = of_all(&|long| long.latest_long.into_iter().rev().collect(), &|turn| turn.ended_ns);
    let at = |turn: &Turn| rfc3339_ms(wall_ms.saturating_sub(now_ns.saturating_sub(turn.ended_ns) / 1_000_000));
    let lasting = all.iter().filter_map(|t| under_way(t, now_ns).map(|(turn, ns)| (&**t, turn, ns)));
    let lasting: Vec<_> = lasting.filter(|(_, _, ns)| *ns >= STALL_NS).collect();
    Json::Object(vec![
        ("stalls", Json::Number(stalls(all))),
        ("stall_us", Json::Number(STALL_NS / 1000)),
        ("turns", Json::List(causes)),
        ("worst", Json::list(worst, |(turns, worst)| long(turns, &worst, at(&worst), &maps))),
        ("latest", Json::list(latest, |(turns, latest)| long(turns, &latest, at(&latest), &maps))),
        ("latest_over_2ms", Json::list(latest_long, |(turns, latest)| long(turns, &latest, at(&latest), &maps))),
        (
            "under_way",
            Json::list(lasting, |(turns, turn, ns)| {
                let mut facts = vec![("thread", Json::text(&turns.name)), ("us", Json::Number(ns / 1000))];
                facts.extend(where_it_was(turns.capture(turn), &maps));
                Json::Object(facts)
            }),
        ),
    ])
}

fn stalls(all: &[Arc<Turns>]) -> u64 {
    all.iter().map(|t| t.stalls.load(Relaxed)).sum()
}

fn part(all: &[Arc<Turns>], cause: Cause) -> Vec<&Histogram> {
    all.iter().map(|t| &t.parts[cause as usize]).collect()
}

fn ran(all: &[Arc<Turns>]) -> Vec<&Histogram> {
    all.iter().map(|t| &t.ran).collect()
}

fn durations(name: &str, all: &[&Histogram]) -> Json {
    let us = |share| Json::Ratio(quantile_ns(all, share) as f64 / 1000.0);
    let longest = all.iter().map(|h| h.max_ns()).max().unwrap_or(0);
    Json::Object(vec![
        ("doing", Json::text(name)),
        ("count", Json::Number(all.iter().map(|h| h.count()).sum())),
        ("p50_us", us(5_000)),
        ("p99_us", us(9_900)),
        ("p9999_us", us(9_999)),
        ("longest_us", Json::Ratio(longest as f64 / 1000.0)),
    ])
}

fn long(turns: &Turns, turn: &Turn, at: String, maps: &str) -> Json {
    let most = Cause::ALL.into_iter().max_by_key(|c| turn.parts[*c as usize]);
    let mut facts = vec![
        ("at", Json::Text(at)),
        ("thread", Json::text(&turns.name)),
        ("turn", Json::Number(turn.number)),
        ("us", Json::Number(turn.took_ns / 1000)),
        ("messages", Json::Number(turn.messages)),
        ("mostly", Json::text(most.map_or("", Cause::name))),
    ];
    facts.extend(Cause::ALL.iter().filter(|c| turn.parts[**c as usize] > 0).map(|&c| {
        let us = Json::Ratio(turn.parts[c as usize] as f64 / 1000.0);
        (c.name(), us)
    }));
    facts.extend(turn.used.iter().flat_map(|used| {
        [
            ("ran", Json::Ratio(ns(used.ran).min(turn.took_ns) as f64 / 1000.0)),
            ("preempted", Json::Number(used.preempted)),
            ("major_faults", Json::Number(used.major_faults)),
        ]
    }));
    facts.extend(where_it_was(turns.capture(turn.number), maps));
    Json::Object(facts)
}

fn where_it_was(capture: Option<Capture>, maps: &str) -> Vec<(&'static str, Json)> {
    let Some(capture) = capture else { return Vec::new() };
    vec![
        ("seen_after_us", Json::Number(capture.after_ns / 1000)),
        ("kernel", Json::text(capture.kernel)),
        ("stack", Json::list(capture.stack, |at| Json::Text(place(at, maps)))),
    ]
}

/// An address as FILE+OFFSET, for `addr2line -fie FILE OFFSET`; `maps` as in /proc/self/maps.
fn place(at: usize, maps: &str) -> String {
    let range = |line: &str| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
    };
    let file = |line: &str| line.split_once('/').map(|(_, path)| format!("/{path}"));
    let held = maps.lines().find(|l| range(l).is_some_and(|(from, to)| (from..to).contains(&at)));
    let Some(path) = held.and_then(file) else { return format!("{at:#x}") };
    let first = maps.lines().find(|l| file(l).as_deref() == Some(&path)).and_then(range);
    let name = path.rsplit('/').next().unwrap_or("");
    format!("{name}+{:#x}", at - first.map_or(0, |(from, _)| from))
}

/// In the text format of Prometheus.
pub fn metrics(out: &mut String, all: &[Arc<Turns>]) {
    let name = "dunlin_turn_seconds";
    let _ = writeln!(
        out,
        "# HELP {name} How long turns of answering threads took, whole and by what was done; ran: CPU time of long ones"
    );
    let _ = writeln!(out, "# TYPE {name} histogram");
    let whole: Vec<&Histogram> = all.iter().map(|t| &t.whole).collect();
    histogram(out, name, "doing=\"turn\"", &whole);
    Cause::ALL.iter().for_each(|&c| histogram(out, name, &format!("doing=\"{}\"", c.name()), &part(all, c)));
    histogram(out, name, &format!("doing=\"{RAN}\""), &ran(all));
    let _ = writeln!(out, "# HELP dunlin_stalls_total Turns of answering threads of 10 ms and more");
    let _ = writeln!(out, "# TYPE dunlin_stalls_total counter\ndunlin_stalls_total {}", stalls(all));
    let _ = writeln!(out, "# HELP dunlin_turn_longest_seconds The longest turn since the start");
    let longest = all.iter().map(|t| t.whole.max_ns()).max().unwrap_or(0) as f64 / 1e9;
    let _ = writeln!(out, "# TYPE dunlin_turn_longest_seconds gauge\ndunlin_turn_longest_seconds {longest}");
}

/// The lines of several threads' histograms as one, under a label.
pub fn histogram(out: &mut String, name: &str, label: &str, all: &[&Histogram]) {
    for power in TOLD {
        let below: u64 = all.iter().map(|h| h.below(power)).sum();
        let le = (1u64 << power) as f64 / 1e9;
        let _ = writeln!(out, "{name}_bucket{{{label},le=\"{le}\"}} {below}");
    }
    let count: u64 = all.iter().map(|h| h.count()).sum();
    let sum = all.iter().map(|h| h.sum_ns()).sum::<u64>() as f64 / 1e9;
    let _ = writeln!(out, "{name}_bucket{{{label},le=\"+Inf\"}} {count}");
    let _ = writeln!(out, "{name}_sum{{{label}}} {sum}\n{name}_count{{{label}}} {count}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::{Meter, Usage};
    use std::time::Duration;

    const MAPS: &str = "\
55e000000000-55e000010000 r--p 00000000 fe:01 12 /usr/bin/dunlin
55e000010000-55e000090000 r-xp 0000f000 fe:01 12 /usr/bin/dunlin
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7f0000100000-7f0000200000 r-xp 00000000 fe:01 13 /lib/libc.so.6
";

    #[test]
    fn addresses_are_told_as_addr2line_takes_them() {
        for (at, expect) in [
            (0x55e0_0001_0123, "dunlin+0x10123"),
            (0x7f00_0010_0010, "libc.so.6+0x10"),
            (0x7f00_0000_0010, "0x7f0000000010"),
            (0x10, "0x10"),
        ] {
            assert_eq!(place(at, MAPS), expect);
        }
    }

    #[test]
    fn a_long_turn_is_told_with_its_parts_and_where_it_was() {
        let turns = Arc::new(Turns::new("udp 3".into()));
        let mut meter = Meter { asked_ns: 1, ..Meter::new(Arc::clone(&turns)) };
        meter.begin(1_000_000);
        meter.mark(Cause::Socket, 2_000_000);
        [32, 7].into_iter().for_each(|messages| meter.take(messages));
        meter.mark(Cause::Answer, 31_000_000);
        turns.keep(Capture { turn: 1, after_ns: 11_000_000, kernel: "state D".into(), stack: vec![16] });
        let all = [turns];
        let lasting = json(&all, 21_000_000, 0).to_string();
        let under_way =
            r#""under_way":[{"thread":"udp 3","us":20000,"seen_after_us":11000,"kernel":"state D","stack":["0x10"]}]"#;
        assert!(lasting.contains(under_way), "{lasting}");
        let usage = Usage { ran: Duration::from_millis(3), preempted: 2, major_faults: 1 };
        meter.end(31_000_000, || usage);
        let told = json(&all, 2_031_000_000, 1_800_000_002_345).to_string();
        for fact in [
            r#""stalls":1,"stall_us":10000"#,
            r#"{"doing":"turn","count":1,"p50_us":30000.0000"#,
            r#""worst":[{"at":"2027-01-15T08:00:00.345Z","thread":"udp 3","turn":1,"us":30000,"messages":39,"mostly":"answer","socket":1000.0000,"answer":29000.0000,"ran":3000.0000,"preempted":2,"major_faults":1,"seen_after_us":11000,"kernel":"state D","stack":["0x10"]}]"#,
            r#""under_way":[]"#,
        ] {
            assert!(told.contains(fact), "{fact}\n{told}");
        }
        let mut out = String::new();
        metrics(&mut out, &all);
        for line in [
            "dunlin_turn_seconds_bucket{doing=\"answer\",le=\"0.033554432\"} 1",
            "dunlin_turn_seconds_bucket{doing=\"answer\",le=\"0.016777216\"} 0",
            "dunlin_turn_seconds_count{doing=\"turn\"} 1",
            "dunlin_turn_seconds_sum{doing=\"turn\"} 0.03",
            "dunlin_turn_seconds_sum{doing=\"ran\"} 0.003",
            "dunlin_stalls_total 1",
            "dunlin_turn_longest_seconds 0.03",
        ] {
            assert!(out.lines().any(|l| l == line), "{line}\n{out}");
        }
    }
}
