//! Two reports side by side: is the difference more than chance?
//!
//! Each second of a run is a sample. The interval is that of Welch for the difference of two means; seconds of one run
//! are not quite independent of each other, which is why the page on measuring says to repeat and to alternate.

use crate::json::Json;

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub figure: &'static str,
    pub unit: &'static str,
    pub a: f64,
    pub b: f64,
    /// 95 % interval of the difference b - a: in parts of a, or, for what is a part itself, as it is. None with too few
    /// seconds.
    pub interval: Option<(f64, f64)>,
}

impl Line {
    /// True if chance does not explain it.
    pub fn differs(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }
}

/// The unit of figures that are parts already: they may be 0, of which nothing is a part.
pub const PART: &str = "of sent";

type Sample = fn(&Json) -> Option<f64>;

const FIGURES: [(&str, &str, Sample); 6] = [
    ("answers", "/s", |point| point.at("received").number()),
    ("p50", "us", |point| latency(point, "p50")),
    ("p99", "us", |point| latency(point, "p99")),
    ("p99.9", "us", |point| latency(point, "p999")),
    ("max", "us", |point| latency(point, "max")),
    ("timed out", PART, |point| Some(point.at("timed_out").number()? / point.at("sent").number()?.max(1.0))),
];

/// Only seconds with answers have a latency.
fn latency(point: &Json, key: &str) -> Option<f64> {
    point.at(key).number().filter(|_| point.at("received").number().unwrap_or(0.0) > 0.0)
}

pub fn diff(a: &Json, b: &Json) -> Vec<Line> {
    FIGURES
        .iter()
        .map(|(figure, unit, sample)| line(figure, unit, &samples(a, *sample), &samples(b, *sample)))
        .collect()
}

/// The seconds in which queries were sent; the last is left out, since it is seldom a whole one.
fn samples(report: &Json, sample: Sample) -> Vec<f64> {
    let sent = |point: &&Json| point.at("sent").number().unwrap_or(0.0) > 0.0;
    let points: Vec<&Json> = report.at("series").items().iter().filter(sent).collect();
    let whole = if points.len() > 2 { &points[..points.len() - 1] } else { &points[..] };
    whole.iter().filter_map(|point| sample(point)).collect()
}

fn line(figure: &'static str, unit: &'static str, a: &[f64], b: &[f64]) -> Line {
    let ((mean_a, square_a), (mean_b, square_b)) = (moments(a), moments(b));
    let base = if unit == PART { 1.0 } else { mean_a };
    let interval = (a.len() > 1 && b.len() > 1 && base != 0.0).then(|| {
        let error = (square_a + square_b).sqrt();
        let part = |square: f64, n: usize| square * square / (n as f64 - 1.0);
        let freedom = (square_a + square_b).powi(2) / (part(square_a, a.len()) + part(square_b, b.len()));
        // Without any spread the degrees of freedom are no number, and any will do.
        let reach = error * t95(freedom);
        ((mean_b - mean_a - reach) / base, (mean_b - mean_a + reach) / base)
    });
    Line { figure, unit, a: mean_a, b: mean_b, interval }
}

/// The mean, and the square of its standard error.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, variance / n)
}

/// Student's t for 95 %, two-sided, within 1 % above two degrees of freedom (Cornish-Fisher).
fn t95(freedom: f64) -> f64 {
    if !freedom.is_finite() {
        return 1.96;
    }
    const FEW: [f64; 3] = [12.706, 4.303, 3.182];
    if freedom < 3.5 {
        return FEW[(freedom.round() as usize).clamp(1, 3) - 1];
    }
    let z = 1.959_964f64;
    z + (z.powi(3) + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2))
        + (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / (384.0 * freedom.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rates: &[f64]) -> Json {
        let point = |rate: &f64| {
            let latency = Json::from(1e6 / rate);
            let keys = ["p50", "p99", "p999", "max"];
            let mut members =
                vec![("sent", Json::from(*rate)), ("received", Json::from(*rate)), ("timed_out", Json::from(0.0))];
            members.extend(keys.map(|key| (key, latency.clone())));
            Json::object(members)
        };
        Json::object([("series", Json::list(rates, point))])
    }

    #[test]
    fn a_difference_beyond_chance_is_told_from_one_within() {
        let base = [100.0, 102.0, 98.0, 101.0, 99.0, 100.0, 50.0];
        let same = [101.0, 99.0, 100.0, 102.0, 98.0, 101.0, 60.0];
        let more = [120.0, 122.0, 118.0, 121.0, 119.0, 120.0, 70.0];
        let lines = diff(&report(&base), &report(&same));
        assert!(lines.iter().all(|l| !l.differs()), "{lines:?}");
        assert_eq!((lines[5].figure, lines[5].interval), ("timed out", Some((0.0, 0.0))));
        let lines = diff(&report(&base), &report(&more));
        assert!(lines[0].differs() && lines[1].differs(), "{lines:?}");
        let (low, high) = lines[0].interval.unwrap();
        assert!(low < 0.2 && 0.2 < high && low > 0.15 && high < 0.25, "{low} {high}");
        assert_eq!((lines[0].a, lines[0].b), (100.0, 120.0));
    }

    #[test]
    fn too_few_seconds_give_no_interval() {
        assert_eq!(diff(&report(&[100.0]), &report(&[200.0]))[0].interval, None);
        assert!(!diff(&Json::Null, &Json::Null)[0].differs());
    }

    #[test]
    fn the_quantiles_are_students() {
        for (freedom, expect) in [(1.0, 12.706), (4.0, 2.776), (10.0, 2.228), (30.0, 2.042), (1e9, 1.960)] {
            assert!((t95(freedom) - expect).abs() < expect * 0.01, "{freedom}");
        }
    }
}
