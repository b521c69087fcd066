//! The same queries from dnsperf and from `dunlin load` to NSD and to Unbound: the counts must be the same.

use crate::{DUNLIN, file};
use difference::{fleet::free_port, peers};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 250;
const PATIENCE: Duration = Duration::from_secs(120);

struct Server(Child);

impl Drop for Server {
    /// With a wrapper before it, the server is the wrapper's child or has taken its place; both have its process group.
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

fn started(program: &str, words: &[&str], port: u16) -> Server {
    use std::os::unix::process::CommandExt;
    let mut command = peers::command(program);
    command.args(words).process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server(command.spawn().unwrap());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let query = b"\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01";
    let begun = Instant::now();
    while socket.send(query).and_then(|_| socket.recv(&mut [0; 512])).is_err() {
        assert!(begun.elapsed() < PATIENCE, "{program} does not answer");
        // A refused port answers at once: nothing is gained by asking faster than a thousand times a second.
        std::thread::park_timeout(Duration::from_millis(1));
    }
    server
}

/// Rcodes and how often each came, from `NAME 12 (3.4%), ...` or from JSON's `"NAME": 12, ...`.
fn rcodes(list: &str) -> BTreeMap<String, u64> {
    let word = |part: &str| part.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_string();
    let pair = |part: &str| {
        let mut words = part.split_whitespace().map(word);
        Some((words.next()?, words.next()?.parse().ok()?))
    };
    list.split(',').filter_map(pair).collect()
}

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find_map(|l| l.trim().strip_prefix(start)).unwrap_or_else(|| panic!("{start} is missing:\n{text}"))
}

fn both_count_the_same(port: u16, names: &str) {
    let (port, queries) = (port.to_string(), file(&format!("queries-{port}"), &names.repeat(ROUNDS)));
    let words = ["-s", "127.0.0.1", "-p", &port, "-d", &queries, "-n", "1", "-q", "20"];
    let output = peers::command("dnsperf").args(words).output().unwrap();
    let theirs = rcodes(line(&String::from_utf8_lossy(&output.stdout), "Response codes:"));
    let count = (names.lines().count() * ROUNDS).to_string();
    let words = [
        "load",
        &format!("127.0.0.1:{port}"),
        "--queries",
        &queries,
        "--outstanding",
        "20",
        "--count",
        &count,
        "--time",
        "600s",
    ];
    let output = Command::new(DUNLIN).args(words).args(["--json", "-", "--rd"]).output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let ours = rcodes(line(&report, "\"rcodes\": {"));
    assert_eq!(ours, theirs);
    assert_eq!(ours.values().sum::<u64>().to_string(), count);
    assert!(ours.len() > 2, "{ours:?}");
}

fn folder(port: u16) -> String {
    Path::new(&file(&format!("{port}"), "")).parent().unwrap().to_str().unwrap().to_string()
}

#[test]
fn dnsperf_counts_the_same_on_nsd() {
    let port = free_port().port();
    let zone = file(
        "example.com.zone",
        "@ 300 SOA ns h 1 3600 600 86400 300\n@ 300 NS ns\nns 300 A 192.0.2.53\nwww 300 A 192.0.2.1\n",
    );
    let folder = folder(port);
    let configuration = file(
        &format!("nsd-{port}.conf"),
        &format!(
            "server:\n  port: {port}\n  ip-address: 127.0.0.1\n  username: \"\"\n  pidfile: \"\"\n  xfrdfile: \"\"\n  \
             zonesdir: \"{folder}\"\n  zonelistfile: \"{folder}/zones-{port}\"\n  server-count: 1\nremote-control:\n  control-enable: no\nzone:\n  \
             name: example.com\n  zonefile: \"{zone}\"\n"
        ),
    );
    let _server = started("nsd", &["-d", "-c", &configuration], port);
    both_count_the_same(port, "www.example.com A\nnone.example.com A\nother.example AAAA\nexample.com MX\n");
}

#[test]
fn dnsperf_counts_the_same_on_unbound() {
    let port = free_port().port();
    let folder = folder(port);
    let configuration = file(
        &format!("unbound-{port}.conf"),
        &format!(
            "server:\n  port: {port}\n  interface: 127.0.0.1\n  username: \"\"\n  chroot: \"\"\n  directory: \"{folder}\"\n  \
             pidfile: \"\"\n  use-syslog: no\n  do-daemonize: no\n  num-threads: 1\n  local-zone: \"example.com\" static\n  \
             local-data: \"www.example.com A 192.0.2.1\"\n  local-zone: \"other.example\" refuse\n\
             remote-control:\n  control-enable: no\n"
        ),
    );
    let _server = started("unbound", &["-d", "-c", &configuration], port);
    both_count_the_same(port, "www.example.com A\nnone.example.com A\na.other.example AAAA\n");
}
