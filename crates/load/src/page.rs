//! The report as one page that needs nothing else: charts are drawn here, as SVG, once for wide and once for narrow
//! screens; colours follow the reader's dark or light. No script, nothing fetched.

use crate::json::Json;
use crate::summary::{grouped, time};

/// Points of a line at the most; more are put together, the largest of each group kept.
const POINTS_MAX: usize = 400;
const RCODE_COLOURS: usize = 6;

#[derive(Clone, Copy)]
struct Size {
    class: &'static str,
    width: f64,
    height: f64,
}

impl Size {
    /// Where a part of the whole time is.
    fn x(self, part: f64) -> f64 {
        LEFT + (self.width - LEFT - RIGHT) * part.clamp(0.0, 1.0)
    }
}

const SIZES: [Size; 2] =
    [Size { class: "wide", width: 1100.0, height: 260.0 }, Size { class: "narrow", width: 370.0, height: 230.0 }];
const LEFT: f64 = 52.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 24.0;

const STYLE: &str = "
:root{color-scheme:light dark;--bg:#fff;--fg:#1a1d21;--dim:#5d6670;--line:#d9dee4;--c0:#1f6feb;--c1:#c2410c;--c2:#15803d;
--c3:#a21caf;--c4:#8a6d00;--c5:#0e7490;--warn:#fff4e0;--warnline:#d98e04}
@media(prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e9ec;--dim:#9aa4ae;--line:#30363d;--c0:#6cb0ff;--c1:#ff9a62;
--c2:#5fd38a;--c3:#e38af0;--c4:#f5e05b;--c5:#5cd0e6;--warn:#3a2c0d;--warnline:#d98e04}}
*{box-sizing:border-box}body{margin:0 auto;max-width:1140px;padding:16px 20px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,sans-serif}h1{font-size:22px;margin:8px 0}h2{font-size:16px;margin:28px 0 6px;overflow-wrap:anywhere}
.dim{color:var(--dim)}.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:8px;margin:14px 0}
.tile{border:1px solid var(--line);border-radius:8px;padding:8px 12px}.tile b{display:block;font-size:19px}
.warn{background:var(--warn);border-left:4px solid var(--warnline);padding:8px 12px;margin:10px 0}
code,pre{font:13px/1.45 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}
svg{display:block;width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--dim)}
.grid{stroke:var(--line);stroke-width:1}.l{fill:none;stroke-width:1.6}.dash{stroke-dasharray:5 4}
.key{display:inline-block;margin:0 12px 0 0;overflow-wrap:anywhere}.k{display:inline-block;width:12px;height:12px;border-radius:3px;margin:0 5px 0 0;vertical-align:-1px}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:3px 8px 3px 0;border-bottom:1px solid var(--line);
overflow-wrap:anywhere;vertical-align:top}td.n,th.n{text-align:right;white-space:nowrap}th{overflow-wrap:normal}.narrow{display:none}
@media(max-width:640px){body{padding:10px 10px}.wide{display:none}.narrow{display:block}h1{font-size:18px}
.tiles{grid-template-columns:repeat(2,1fr)}.tile b{font-size:16px}}";

/// A line of a chart.
struct Curve {
    name: String,
    colour: usize,
    dashed: bool,
    /// Seconds from the start, and what was seen then.
    points: Vec<(f64, f64)>,
}

pub fn page(report: &Json) -> String {
    let target = report.at("target").at("address").text().unwrap_or("");
    let mut out = String::with_capacity(64 << 10);
    out.push_str("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str(
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\">",
    );
    out.push_str(&format!("<title>Load on {}</title><style>{STYLE}</style></head><body>", escaped(target)));
    out.push_str(&format!("<h1>Load on {}</h1>", escaped(target)));
    head(report, &mut out);
    charts(report, &mut out);
    slowest(report, &mut out);
    facts(report, &mut out);
    out.push_str("</body></html>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn head(report: &Json, out: &mut String) {
    let load = report.at("load");
    let word = |key: &str| escaped(load.at(key).text().unwrap_or(""));
    out.push_str(&format!("<p class=\"dim\">{}: {}; {}</p>", word("kind"), word("schedule"), word("queries")));
    for why in report.at("tool_limits").items() {
        out.push_str(&format!("<p class=\"warn\"><b>The tool's limit:</b> {}</p>", escaped(why.text().unwrap_or(""))));
    }
    let number = |key: &str| report.at(key).number().unwrap_or(0.0);
    let count = |key: &str| grouped(number(key) as u64);
    let latency = |key: &str| time(report.at("latency_us").at(key).number().unwrap_or(0.0));
    let part = |key: &str| format!("{} ({:.3} %)", count(key), 100.0 * number(key) / number("sent").max(1.0));
    let wrong = number("wrong_id") + number("wrong_question") + number("malformed");
    let tiles = [
        ("answers a second", count("received_per_s")),
        ("sent", count("sent")),
        ("lost", part("lost")),
        ("answered too late", part("late")),
        ("p50", latency("p50")),
        ("p99", latency("p99")),
        ("p99.9", latency("p999")),
        ("longest", latency("max")),
        ("duplicates", count("duplicates")),
        ("wrong answers", grouped(wrong as u64)),
    ];
    out.push_str("<div class=\"tiles\">");
    for (name, value) in tiles {
        out.push_str(&format!("<div class=\"tile\"><span class=\"dim\">{name}</span><b>{value}</b></div>"));
    }
    out.push_str("</div>");
}

fn charts(report: &Json, out: &mut String) {
    let slice_s = report.at("slice_ms").number().unwrap_or(1000.0) / 1e3;
    let points = sending(report.at("fine_series").items());
    let column = |name: &str| grouped_points(points.iter().map(|p| p.at(name).number().unwrap_or(0.0)), slice_s);
    let per_second = |name: &str| column(name).into_iter().map(|(t, n)| (t, n / slice_s)).collect();
    let end_s = points.len() as f64 * slice_s;
    let curve = |name: &str, colour, points| Curve { name: name.to_string(), colour, dashed: false, points };
    let mut rates = vec![curve("sent", 0, per_second("sent")), curve("answered", 2, per_second("received"))];
    if points.iter().any(|p| p.at("scheduled_per_s").number().is_some()) {
        rates.push(Curve { name: "due".into(), colour: 4, dashed: true, points: column("scheduled_per_s") });
    }
    section("Queries a second", &rates, end_s, false, out);
    let times = ["p50", "p99", "p999", "max"].iter().zip([0, 2, 3, 1]);
    let times: Vec<Curve> =
        times.map(|(name, colour)| curve(&name.replace("p999", "p99.9"), colour, column(name))).collect();
    section("Latency, by when a query was due", &times, end_s, true, out);
    rcodes(report, points, slice_s, end_s, out);
    watched(report, end_s, out);
    distribution(report, out);
}

/// Without the slices after the last query, which would draw a fall that is none.
fn sending(points: &[Json]) -> &[Json] {
    let sent = |p: &Json| p.at("sent").number().unwrap_or(0.0) > 0.0;
    points.get(..points.iter().rposition(sent).map_or(0, |last| last + 1)).unwrap_or(points)
}

/// Slices as points in their middle. Neighbours are put together where there are more than a screen shows; peaks stay.
fn grouped_points(values: impl Iterator<Item = f64>, slice_s: f64) -> Vec<(f64, f64)> {
    let values: Vec<f64> = values.collect();
    let group = values.len().div_ceil(POINTS_MAX).max(1);
    let middle = |i: usize, n: usize| ((i * group) as f64 + n as f64 / 2.0) * slice_s;
    let point = |(i, chunk): (usize, &[f64])| (middle(i, chunk.len()), chunk.iter().copied().fold(0.0, f64::max));
    values.chunks(group).enumerate().map(point).collect()
}

fn section(title: &str, curves: &[Curve], end_s: f64, log: bool, out: &mut String) {
    out.push_str(&format!("<h2>{}</h2><div>", escaped(title)));
    for c in curves {
        out.push_str(&format!(
            "<span class=\"key\"><span class=\"k\" style=\"background:var(--c{})\"></span>{}</span> ",
            c.colour,
            escaped(&c.name)
        ));
    }
    out.push_str("</div>");
    let scale = Scale::of(curves.iter().flat_map(|c| c.points.iter().map(|p| p.1)), log);
    for size in SIZES {
        let mut body = scale.grid(size);
        body.push_str(&seconds_axis(size, end_s));
        for c in curves {
            let dash = if c.dashed { " dash" } else { "" };
            let point = |(t, v): &(f64, f64)| format!("{:.1},{:.1}", size.x(t / end_s), scale.y(*v, size));
            let path: Vec<String> = c.points.iter().map(point).collect();
            body.push_str(&format!(
                "<polyline class=\"l{dash}\" stroke=\"var(--c{})\" points=\"{}\"><title>{}</title></polyline>",
                c.colour,
                path.join(" "),
                escaped(&c.name)
            ));
        }
        out.push_str(&svg(size, title, &body));
    }
}

fn svg(size: Size, title: &str, body: &str) -> String {
    let Size { class, width, height } = size;
    let title = escaped(title);
    format!("<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">{body}</svg>")
}

/// The vertical scale of a chart: numbers from zero, or times on a logarithmic one.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>, log: bool) -> Scale {
        let seen: Vec<f64> = values.filter(|v| *v > 0.0).collect();
        let high = seen.iter().copied().fold(1.0, f64::max);
        if !log {
            return Scale { low: 0.0, high: round_up(high), log };
        }
        let low = seen.iter().copied().fold(high, f64::min).max(1.0);
        let (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
        Scale { low, high: high.max(low * 10.0), log }
    }

    fn y(&self, value: f64, size: Size) -> f64 {
        let part = if self.log {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            value / self.high
        };
        size.height - BOTTOM - (size.height - TOP - BOTTOM) * part.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.log {
            return (0..=4).map(|i| self.high * f64::from(i) / 4.0).collect();
        }
        let decades = (self.high / self.low).log10().round() as i32;
        (0..=decades).map(|i| self.low * 10f64.powi(i)).collect()
    }

    fn grid(&self, size: Size) -> String {
        let mut out = String::new();
        for tick in self.ticks() {
            let y = self.y(tick, size);
            let label = if self.log { short_time(tick) } else { short(tick) };
            out.push_str(&format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                size.width - RIGHT, LEFT - 6.0, y + 4.0
            ));
        }
        out
    }
}

fn round_up(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor());
    [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0].iter().map(|n| n * unit).find(|n| *n >= value).unwrap_or(value)
}

fn short(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{}M", (n / 1e4).round() / 100.0),
        n if n >= 1e3 => format!("{}k", (n / 10.0).round() / 100.0),
        n => format!("{}", (n * 100.0).round() / 100.0),
    }
}

fn short_time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", us / 1e6),
        us if us >= 1e3 => format!("{} ms", us / 1e3),
        us => format!("{us} µs"),
    }
}

fn seconds_axis(size: Size, end_s: f64) -> String {
    let steps = if size.width > 600.0 { 10.0 } else { 4.0 };
    let raw = (end_s / steps).max(0.01);
    let unit = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|n| n * unit).find(|s| *s >= raw).unwrap_or(raw);
    let mut out = String::new();
    let mut at = 0.0;
    while at <= end_s + step * 1e-6 {
        let x = size.x(at / end_s.max(0.001));
        let anchor = if x > size.width - 30.0 { "end" } else { "middle" };
        let label = (at * 1000.0).round() / 1000.0;
        out.push_str(&format!(
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{label} s</text>",
            size.height - 6.0
        ));
        at += step;
    }
    out
}

fn rcodes(report: &Json, points: &[Json], slice_s: f64, end_s: f64, out: &mut String) {
    let names: Vec<&String> = report.at("rcodes").members().iter().map(|(name, _)| name).collect();
    if names.is_empty() {
        return;
    }
    out.push_str("<h2>Answers a second by rcode</h2><div>");
    for (i, name) in names.iter().enumerate() {
        out.push_str(&format!(
            "<span class=\"key\"><span class=\"k\" style=\"background:var(--c{})\"></span>{}</span> ",
            i % RCODE_COLOURS,
            escaped(name)
        ));
    }
    out.push_str("</div>");
    let rate = |p: &Json, name: &str| p.at("rcodes").at(name).number().unwrap_or(0.0) / slice_s;
    let of = |name: &str| grouped_points(points.iter().map(|p| rate(p, name)), slice_s);
    let times: Vec<f64> = of("").iter().map(|p| p.0).collect();
    let mut below = vec![0.0; times.len()];
    let mut bands: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    for name in &names {
        let above: Vec<f64> = below.iter().zip(of(name)).map(|(b, n)| b + n.1).collect();
        bands.push((below, above.clone()));
        below = above;
    }
    let scale = Scale::of(below.iter().copied(), false);
    for size in SIZES {
        let mut body = scale.grid(size);
        body.push_str(&seconds_axis(size, end_s));
        for (i, (low, high)) in bands.iter().enumerate() {
            let point = |(t, v): (&f64, &f64)| format!("{:.1},{:.1}", size.x(t / end_s), scale.y(*v, size));
            let (there, back) = (times.iter().zip(low), times.iter().zip(high).rev());
            let path: Vec<String> = there.map(point).chain(back.map(point)).collect();
            body.push_str(&format!(
                "<polygon fill=\"var(--c{})\" fill-opacity=\".85\" points=\"{}\"/>",
                i % RCODE_COLOURS,
                path.join(" ")
            ));
        }
        out.push_str(&svg(size, "Answers a second by rcode", &body));
    }
}

/// True for what a server counts up, as Prometheus names such figures; it is shown as its growth a second.
pub fn counts_up(name: &str) -> bool {
    name.contains("_total") || name.ends_with("_count") || name.ends_with("_sum")
}

/// The server's own figures, where they were watched, on the same axis.
fn watched(report: &Json, end_s: f64, out: &mut String) {
    let watched = report.at("watched");
    let times: Vec<f64> = watched.at("t").items().iter().filter_map(Json::number).collect();
    for (name, values) in watched.at("series").members() {
        let values = values.items().iter().map(|v| v.number().unwrap_or(0.0));
        let points = times.iter().copied().zip(values).filter(|(t, _)| (0.0..=end_s).contains(t)).collect();
        let title = format!("The server's {name}{}", if counts_up(name) { ", a second" } else { "" });
        section(&title, &[Curve { name: name.clone(), colour: 3, dashed: false, points }], end_s, false, out);
    }
}

fn distribution(report: &Json, out: &mut String) {
    let bars: Vec<(f64, f64)> = report
        .at("latency_distribution_us")
        .items()
        .iter()
        .filter_map(|bar| Some((bar.items().first()?.number()?, bar.items().get(1)?.number()?)))
        .collect();
    let (Some(first), Some(last)) = (bars.first(), bars.last()) else { return };
    out.push_str("<h2>How many answers took how long (both scales logarithmic)</h2>");
    let low = first.0.log10().floor();
    let decades = ((last.0 * 1.13).log10().ceil() - low).max(1.0);
    let most = bars.iter().map(|b| b.1).fold(1.0, f64::max).log10().ceil().max(1.0);
    for size in SIZES {
        let inner = (size.width - LEFT - RIGHT, size.height - TOP - BOTTOM);
        let x = |us: f64| LEFT + inner.0 * (us.log10() - low) / decades;
        let y = |n: f64| size.height - BOTTOM - inner.1 * ((n.log10() + 0.3) / (most + 0.3)).clamp(0.0, 1.0);
        let mut body = String::new();
        for decade in 0..=decades as i32 {
            let at = 10f64.powf(low + f64::from(decade));
            let anchor = if f64::from(decade) >= decades { "end" } else { "middle" };
            body.push_str(&format!(
                "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{TOP}\" y2=\"{1}\"/><text x=\"{0:.1}\" y=\"{2}\" text-anchor=\"{anchor}\">{3}</text>",
                x(at), size.height - BOTTOM, size.height - 6.0, short_time(at)
            ));
        }
        for exponent in 0..=most as i32 {
            let n = 10f64.powi(exponent);
            body.push_str(&format!(
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y(n) + 4.0,
                short(n)
            ));
        }
        for (us, n) in &bars {
            let width = (x(us * 10f64.powf(0.05)) - x(*us) - 0.6).max(0.8);
            body.push_str(&format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"var(--c0)\"><title>{}: {n}</title></rect>",
                x(*us), y(*n), size.height - BOTTOM - y(*n), time(*us)
            ));
        }
        out.push_str(&svg(size, "Distribution of latency", &body));
    }
}

fn slowest(report: &Json, out: &mut String) {
    let all = report.at("slowest").items();
    if all.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Slowest queries</h2><table><tr><th>query</th><th class=\"n\">latency</th><th class=\"n\">due at</th></tr>",
    );
    for one in all {
        out.push_str(&format!(
            "<tr><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"n\">{:.3} s</td></tr>",
            escaped(one.at("query").text().unwrap_or("")),
            time(one.at("latency_us").number().unwrap_or(0.0)),
            one.at("due_s").number().unwrap_or(0.0)
        ));
    }
    out.push_str("</table>");
}

fn facts(report: &Json, out: &mut String) {
    let (machine, load, drops) = (report.at("machine"), report.at("tool_load"), report.at("kernel_drops"));
    let number = |value: &Json| value.number().map_or("unknown".to_string(), |n| n.to_string());
    let text = |value: &Json| escaped(value.text().unwrap_or(""));
    let resolved =
        report.at("target").at("resolved_from").text().map(|n| format!(", resolved once from {}", escaped(n)));
    let rows = [
        ("command", format!("<code>{}</code>", text(report.at("command")))),
        (
            "target",
            format!(
                "{} over {}{}",
                text(report.at("target").at("address")),
                text(report.at("target").at("transport")),
                resolved.unwrap_or_default()
            ),
        ),
        (
            "machine",
            format!(
                "{}, {} CPUs, Linux {}",
                text(machine.at("cpu")),
                number(machine.at("cpus")),
                text(machine.at("kernel"))
            ),
        ),
        (
            "the tool's core",
            format!(
                "busy {:.0} %, others' for {:.1} % of the time, taken away {} times, receive times by the {}",
                load.at("busy").number().unwrap_or(0.0) * 100.0,
                load.at("waited").number().unwrap_or(0.0) * 100.0,
                number(load.at("involuntary_switches")),
                text(load.at("stamps"))
            ),
        ),
        ("kernel drops", format!("tool {}, target {}", number(drops.at("tool")), number(drops.at("target")))),
        ("sent late, p99", time(report.at("sending_lateness_us").at("p99").number().unwrap_or(0.0))),
        ("made by", text(report.at("tool"))),
    ];
    out.push_str("<h2>How it was measured</h2><table>");
    for (name, value) in rows {
        out.push_str(&format!("<tr><th>{name}</th><td>{value}</td></tr>"));
    }
    out.push_str("</table>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_and_operators_write_cannot_leave_its_place() {
        let text = r#"{"command": "dunlin load '<script>alert(1)</script>'", "target": {"address": "\"><b>"},
            "slowest": [{"query": "<i>.example. A", "latency_us": 5, "due_s": 1}], "rcodes": {"<u>": 1},
            "fine_series": [{"sent": 1, "received": 1, "rcodes": {"<u>": 1}}], "slice_ms": 100}"#;
        let page = page(&Json::parse(text).unwrap());
        for tag in ["<script", "<i>", "<u>", "\"><b>"] {
            assert!(!page.contains(tag), "{tag}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn an_empty_report_still_makes_a_page() {
        let page = page(&Json::Null);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n") && !page.contains("NaN"));
    }

    #[test]
    fn peaks_survive_being_put_together() {
        let values = (0..100_000).map(|i| if i == 77_777 { 9.0 } else { 1.0 });
        let points = grouped_points(values, 0.1);
        let peak = points.iter().find(|p| p.1 == 9.0).unwrap();
        assert!(points.len() <= POINTS_MAX && (peak.0 - 7777.75).abs() < 12.6, "{peak:?}");
        assert_eq!(grouped_points([1.0, 2.0].into_iter(), 0.1), [(0.05, 1.0), (0.1 + 0.05, 2.0)]);
    }

    #[test]
    fn scales_hold_their_values() {
        for high in [1.0, 3.0, 999.0, 1000.0, 123_456.0] {
            let scale = Scale::of([high].into_iter(), false);
            assert!(scale.high >= high && scale.high <= high * 1.7);
        }
        let scale = Scale::of([30.0, 4000.0].into_iter(), true);
        assert_eq!((scale.low, scale.high, scale.ticks().len()), (10.0, 10_000.0, 4));
    }
}
