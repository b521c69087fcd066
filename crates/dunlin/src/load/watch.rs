//! `--watch URL`: the server's own figures, read once a second while it is under load, on the report's time axis.
//!
//! What counts up is shown as its growth a second, in the middle of the time in which it grew; what goes up and down as it
//! stood between two readings. At most `SERIES_MAX` are kept of those that changed, stalls, caches and CPU time first.

use load::json::Json;
use load::page::counts_up;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(800);
const SERIES_MAX: usize = 12;
const PAGE_MAX: u64 = 4 << 20;
const TELLING: [&str; 6] = ["stall", "cache", "cpu", "drop", "quer", "memory"];

type Sample = BTreeMap<String, f64>;

/// What was read, and when.
struct Reading {
    at: Instant,
    sample: Sample,
}

pub struct Watch {
    end: Sender<()>,
    thread: JoinHandle<Vec<Reading>>,
}

/// `http://host:port/path`, taken apart.
struct Url {
    host: String,
    path: String,
}

impl Watch {
    /// The first reading must succeed: an address that is wrong is found before the load begins.
    pub fn start(url: &str) -> Result<Watch, String> {
        let rest =
            url.strip_prefix("http://").ok_or_else(|| format!("--watch {url}: write http://ADDR:PORT/metrics"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
        let url = Url { host: host.to_string(), path: format!("/{path}") };
        let first = url.reading().map_err(|e| format!("--watch {}{}: cannot be read: {e}", url.host, url.path))?;
        let (end, ended) = channel();
        Ok(Watch { end, thread: std::thread::spawn(move || readings(&url, first, &ended)) })
    }

    /// The series by name, and their times from `began` on.
    pub fn end(self, began: Instant) -> Json {
        drop(self.end);
        series(&self.thread.join().unwrap_or_default(), began)
    }
}

/// A reading that fails is left out: a server too busy to tell is not one that stood still. The last is made at the end.
fn readings(url: &Url, first: Reading, ended: &Receiver<()>) -> Vec<Reading> {
    let begun = Instant::now();
    let mut all = vec![first];
    for turn in 1.. {
        let is_over =
            ended.recv_timeout((EVERY * turn).saturating_sub(begun.elapsed())) != Err(RecvTimeoutError::Timeout);
        all.extend(url.reading().ok());
        if is_over {
            break;
        }
    }
    all
}

impl Url {
    fn reading(&self) -> io::Result<Reading> {
        let sample = self.read()?;
        Ok(Reading { at: Instant::now(), sample })
    }

    fn read(&self) -> io::Result<Sample> {
        let address = self.host.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\nConnection: close\r\n\r\n", self.path, self.host);
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.take(PAGE_MAX).read_to_string(&mut text)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return Err(io::ErrorKind::InvalidData.into()) };
        if !head.lines().next().is_some_and(|line| line.contains(" 200")) {
            return Err(io::Error::other(head.lines().next().unwrap_or("no answer").to_string()));
        }
        Ok(parse(body))
    }
}

/// Prometheus' text form: `name{labels} value` a line.
fn parse(body: &str) -> Sample {
    let line = |line: &str| {
        let (name, value) = line.trim_end().rsplit_once(' ')?;
        Some((name.to_string(), value.parse::<f64>().ok().filter(|v| v.is_finite())?))
    };
    body.lines().filter(|l| !l.starts_with('#') && !l.contains("_bucket{")).filter_map(line).collect()
}

fn series(readings: &[Reading], began: Instant) -> Json {
    let names = readings.first().into_iter().flat_map(|first| first.sample.keys());
    let mut found: Vec<(&String, Vec<f64>)> = names.filter_map(|name| Some((name, column(name, readings)?))).collect();
    let rank = |name: &str| TELLING.iter().position(|word| name.contains(word)).unwrap_or(TELLING.len());
    found.sort_by_key(|(name, _)| rank(name));
    found.truncate(SERIES_MAX);
    // Before the start where it is negative.
    let at_s = |at: Instant| {
        at.saturating_duration_since(began).as_secs_f64() - began.saturating_duration_since(at).as_secs_f64()
    };
    let middle = |pair: &[Reading]| Json::from((at_s(pair[0].at) + at_s(pair[1].at)) / 2.0);
    let series = found.into_iter().map(|(name, values)| (name.clone(), Json::list(values, Json::from))).collect();
    Json::object([("t", Json::list(readings.windows(2), middle)), ("series", Json::Object(series))])
}

/// A value for each two neighbouring readings; None for what never changed.
fn column(name: &str, readings: &[Reading]) -> Option<Vec<f64>> {
    let of = |reading: &Reading| reading.sample.get(name).copied().unwrap_or(0.0);
    readings.windows(2).any(|pair| of(&pair[0]) != of(&pair[1])).then_some(())?;
    let between = |pair: &[Reading]| {
        let seconds = pair[1].at.duration_since(pair[0].at).as_secs_f64().max(1e-3);
        if counts_up(name) {
            ((of(&pair[1]) - of(&pair[0])) / seconds).max(0.0)
        } else {
            (of(&pair[0]) + of(&pair[1])) / 2.0
        }
    };
    Some(readings.windows(2).map(between).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn what_changed_is_kept_and_the_telling_first() {
        let page = |n: f64| {
            parse(&format!(
                "# HELP x\nb_total {}\nstalls_total{{worker=\"0 a\"}} {n}\nidle 5\nload {n}\nh_bucket{{le=\"1\"}} {n}\n",
                n * 10.0
            ))
        };
        let begun = Instant::now();
        let reading = |after_s, n| Reading { at: begun + Duration::from_secs(after_s), sample: page(n) };
        let all = series(&[reading(0, 1.0), reading(1, 3.0), reading(3, 4.0)], begun + Duration::from_secs(1));
        let times: Vec<f64> = all.at("t").items().iter().filter_map(Json::number).collect();
        assert_eq!(times, [-0.5, 1.0]);
        let series = all.at("series");
        let names: Vec<&str> = series.members().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["stalls_total{worker=\"0 a\"}", "b_total", "load"]);
        let values = |name: &str| series.at(name).items().iter().filter_map(Json::number).collect::<Vec<_>>();
        assert_eq!(values("b_total"), [20.0, 5.0]);
        assert_eq!(values("load"), [2.0, 3.5]);
    }

    #[test]
    fn a_page_is_read_over_http_and_a_wrong_address_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let n = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\na_total 7\n").unwrap();
            String::from_utf8_lossy(&request[..n]).into_owned()
        });
        let url = Url { host: address.to_string(), path: "/metrics".to_string() };
        assert_eq!(url.read().unwrap().get("a_total"), Some(&7.0));
        assert!(server.join().unwrap().starts_with("GET /metrics HTTP/1.0\r\n"));
        assert!(Watch::start(&format!("http://{address}/metrics")).err().unwrap().contains("cannot be read"));
        assert!(Watch::start("ftp://x").err().unwrap().contains("write http://"));
    }
}
