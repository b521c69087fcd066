//! `--watch URL`: the server's own figures, read once a second while it is under load, on the report's time axis.
//!
//! What counts up is shown as its growth a second, what goes up and down as it stood. At most `SERIES_MAX` are kept of
//! those that changed, stalls, caches and CPU time first.

use load::json::Json;
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

pub struct Watch {
    end: Sender<()>,
    thread: JoinHandle<Vec<Sample>>,
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
        let first = url.read().map_err(|e| format!("--watch {}{}: cannot be read: {e}", url.host, url.path))?;
        let (end, ended) = channel();
        Ok(Watch { end, thread: std::thread::spawn(move || samples(&url, first, &ended)) })
    }

    /// The series by the second, by name.
    pub fn end(self) -> Json {
        drop(self.end);
        series(&self.thread.join().unwrap_or_default())
    }
}

/// A reading that fails repeats the one before: a server too busy to tell is not one that stood still.
fn samples(url: &Url, first: Sample, ended: &Receiver<()>) -> Vec<Sample> {
    let begun = Instant::now();
    let mut all = vec![first];
    loop {
        let next = EVERY * all.len() as u32;
        if ended.recv_timeout(next.saturating_sub(begun.elapsed())) != Err(RecvTimeoutError::Timeout) {
            return all;
        }
        let sample = url.read().ok().or_else(|| all.last().cloned()).unwrap_or_default();
        all.push(sample);
    }
}

impl Url {
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

fn series(samples: &[Sample]) -> Json {
    let names = samples.first().into_iter().flat_map(BTreeMap::keys);
    let mut found: Vec<(&String, Vec<f64>)> = names.filter_map(|name| Some((name, column(name, samples)?))).collect();
    let rank = |name: &str| TELLING.iter().position(|word| name.contains(word)).unwrap_or(TELLING.len());
    found.sort_by_key(|(name, _)| rank(name));
    found.truncate(SERIES_MAX);
    Json::Object(found.into_iter().map(|(name, values)| (name.clone(), Json::list(values, Json::from))).collect())
}

/// None for what never changed.
fn column(name: &str, samples: &[Sample]) -> Option<Vec<f64>> {
    let values: Vec<f64> = samples.iter().map(|s| s.get(name).copied().unwrap_or(0.0)).collect();
    values.windows(2).any(|w| w[0] != w[1]).then_some(())?;
    let counts_up = name.contains("_total") || name.ends_with("_count") || name.ends_with("_sum");
    Some(if counts_up { values.windows(2).map(|w| (w[1] - w[0]).max(0.0)).collect() } else { values })
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
        let series = series(&[page(1.0), page(3.0), page(4.0)]);
        let names: Vec<&str> = series.members().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["stalls_total{worker=\"0 a\"}", "b_total", "load"]);
        let values = |name: &str| series.at(name).items().iter().filter_map(Json::number).collect::<Vec<_>>();
        assert_eq!(values("b_total"), [20.0, 10.0]);
        assert_eq!(values("load"), [1.0, 3.0, 4.0]);
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
