//! `--assert`: conditions on a report, such as `p99<2ms,loss<0.01%,rcode.SERVFAIL<1%`.
//!
//! | figure | value |
//! |---|---|
//! | `p50 p90 p99 p999 p9999 max mean` | latency, a time |
//! | `lateness` | the p99 of sending behind the schedule, a time |
//! | `loss timeouts duplicates wrong` | parts of what was sent |
//! | `rcode.NAME` | part of what was received |
//! | `sent received rate unsent drops` | numbers; rate is answers a second |

use crate::caret::{Caret, offset};
use crate::json::Json;
use crate::quantity;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Less,
    AtMost,
    More,
    AtLeast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Time,
    Share,
    Number,
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    text: String,
    figure: String,
    unit: Unit,
    compare: Compare,
    value: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Conditions(Vec<Condition>);

/// A condition and whether it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub text: String,
    pub holds: bool,
    pub found: String,
}

const FIGURES: &str = "p50 p90 p99 p999 p9999 max mean lateness loss timeouts duplicates wrong rcode.NAME sent received \
rate unsent drops";

impl Conditions {
    pub fn parse(text: &str) -> Result<Conditions, Caret> {
        text.split(',').map(|part| condition(text, part)).collect::<Result<_, _>>().map(Conditions)
    }

    pub fn judge(&self, report: &Json) -> Vec<Verdict> {
        self.0.iter().map(|c| c.judge(report)).collect()
    }
}

fn condition(text: &str, part: &str) -> Result<Condition, Caret> {
    let bad = |part: &str, why: String| Err(Caret::new("assert", text, offset(text, part), why));
    let trimmed = part.trim();
    let Some(at) = trimmed.find(['<', '>']) else {
        return bad(trimmed, "a `<` or `>` is missing: write `p99<2ms`".to_string());
    };
    let (figure, rest) = (trimmed[..at].trim(), &trimmed[at + 1..]);
    let (or_equal, value) = rest.strip_prefix('=').map_or((false, rest), |value| (true, value));
    let Some(unit) = unit_of(figure) else {
        return bad(trimmed, format!("there is no figure `{figure}`; there are {FIGURES}"));
    };
    let compare = match (trimmed.as_bytes()[at], or_equal) {
        (b'<', false) => Compare::Less,
        (b'<', true) => Compare::AtMost,
        (_, false) => Compare::More,
        (_, true) => Compare::AtLeast,
    };
    let (value_read, example) = match unit {
        Unit::Time => (quantity::time_ns(value), "a time such as 2ms"),
        Unit::Share => (quantity::share(value), "a part such as 0.01%"),
        Unit::Number => (quantity::number(value), "a number such as 100k"),
    };
    match value_read {
        Some(value) => Ok(Condition { text: trimmed.to_string(), figure: figure.to_string(), unit, compare, value }),
        None => bad(value, format!("{example} belongs here")),
    }
}

fn unit_of(figure: &str) -> Option<Unit> {
    match figure {
        "p50" | "p90" | "p99" | "p999" | "p9999" | "max" | "mean" | "lateness" => Some(Unit::Time),
        "loss" | "timeouts" | "duplicates" | "wrong" => Some(Unit::Share),
        "sent" | "received" | "rate" | "unsent" | "drops" => Some(Unit::Number),
        _ => figure.strip_prefix("rcode.").filter(|name| !name.is_empty()).map(|_| Unit::Share),
    }
}

impl Condition {
    fn judge(&self, report: &Json) -> Verdict {
        let found = value(&self.figure, report);
        let holds = match self.compare {
            Compare::Less => found < self.value,
            Compare::AtMost => found <= self.value,
            Compare::More => found > self.value,
            Compare::AtLeast => found >= self.value,
        };
        let shown = match self.unit {
            Unit::Time => format!("{:.3} ms", found / 1e6),
            Unit::Share => format!("{:.4} %", found * 100.0),
            Unit::Number => format!("{found:.0}"),
        };
        Verdict { text: self.text.clone(), holds, found: shown }
    }
}

/// A figure that is not there (no answer at all) is not a number, for which no condition holds.
fn value(figure: &str, report: &Json) -> f64 {
    let number = |key: &str| report.at(key).number().unwrap_or(f64::NAN);
    let answered = number("received") > 0.0;
    let of_sent = |n: f64| n / number("sent");
    match figure {
        "loss" => of_sent(number("lost")),
        "timeouts" => of_sent(number("timed_out")),
        "duplicates" => of_sent(number("duplicates")),
        "wrong" => of_sent(number("wrong_id") + number("wrong_question") + number("malformed")),
        "rate" => number("received_per_s"),
        "sent" | "received" | "unsent" => number(figure),
        "drops" => {
            let side = |name: &str| report.at("kernel_drops").at(name).number().unwrap_or(0.0);
            side("tool") + side("target")
        }
        "lateness" => report.at("sending_lateness_us").at("p99").number().unwrap_or(f64::NAN) * 1e3,
        _ if !answered => f64::NAN,
        _ => match figure.strip_prefix("rcode.") {
            Some(name) => report.at("rcodes").at(name).number().unwrap_or(0.0) / number("received"),
            None => report.at("latency_us").at(figure).number().unwrap_or(f64::NAN) * 1e3,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(received: f64) -> Json {
        let text = format!(
            r#"{{"sent": 1000, "received": {received}, "lost": 10, "timed_out": 12, "duplicates": 1, "wrong_id": 1,
            "wrong_question": 1, "malformed": 0, "received_per_s": 500, "unsent": 0,
            "latency_us": {{"p99": 1500.5, "max": 9000}}, "sending_lateness_us": {{"p99": 40}},
            "kernel_drops": {{"tool": 1, "target": null}}, "rcodes": {{"NOERROR": 900, "SERVFAIL": 90}}}}"#
        );
        Json::parse(&text).unwrap()
    }

    fn holds(text: &str, received: f64) -> Vec<bool> {
        Conditions::parse(text).unwrap().judge(&report(received)).iter().map(|v| v.holds).collect()
    }

    #[test]
    fn conditions_are_judged_in_their_units() {
        let text = "p99<2ms, p99<1.5ms,max>8ms,loss<=1%,loss<1%,timeouts<0.02,rcode.SERVFAIL<10%,rcode.REFUSED<=0,\
                    rate>=500,wrong<0.3%,drops<1,lateness<100us,unsent<1";
        let expect = [true, false, true, true, false, true, true, true, true, true, false, true, true];
        assert_eq!(holds(text, 990.0), expect);
    }

    #[test]
    fn without_answers_no_latency_is_good_enough() {
        assert_eq!(holds("p99<2ms,rcode.SERVFAIL<50%", 0.0), [false, false]);
    }

    #[test]
    fn what_is_wrong_has_a_caret() {
        for (text, at) in
            [("", 0), ("p99", 0), ("p98<2ms", 0), ("loss<1%,p99<2", 12), ("loss<1%, rate>fast", 14), ("rcode.<1%", 0)]
        {
            assert_eq!(Conditions::parse(text).unwrap_err().at, at, "{text}");
        }
    }
}
