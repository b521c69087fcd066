//! `dunlin load` and `dunlin compare` as they are typed: exit status, errors with their place, files, Ctrl-C.

mod peers;

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const DUNLIN: &str = env!("CARGO_BIN_EXE_dunlin");

fn dunlin(words: &[&str]) -> Output {
    Command::new(DUNLIN).args(words).output().unwrap()
}

/// Exit status, standard output, standard error.
fn told(words: &[&str]) -> (i32, String, String) {
    let output = dunlin(words);
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Answers every query with a rcode that `of` picks by the first letter of its name, for as long as the test runs.
fn responder(of: fn(u8) -> u8) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut packet = [0; 2048];
        while let Ok((n, from)) = socket.recv_from(&mut packet) {
            packet[2] |= 0x80;
            packet[3] |= of(packet[13]);
            let _ = socket.send_to(&packet[..n], from);
        }
    });
    address
}

/// An address of this machine that no test takes a port of: one that was free a moment ago on 127.0.0.1 may be a responder's.
fn nobody() -> SocketAddr {
    UdpSocket::bind("127.97.0.1:0").unwrap().local_addr().unwrap()
}

fn file(name: &str, text: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("load");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn what_cannot_run_says_why_and_ends_with_2() {
    let target = responder(|_| 0).to_string();
    let (empty, bad, good) = (file("empty", ""), file("bad", "www.example\n"), file("good", "www.example A\n"));
    let away = nobody().to_string();
    for (words, says) in [
        (vec![&target[..], "--queries", "/nowhere", "--outstanding", "1"], "/nowhere: cannot be read"),
        (vec![&target, "--queries", &empty, "--outstanding", "1"], "it holds no query"),
        (vec![&target, "--queries", &bad, "--outstanding", "1"], ":1:12: a type is missing"),
        (vec![&target, "--pcap", &good], "neither pcap nor pcapng"),
        (vec![&target, "--template", "{randm:3}.x A", "--outstanding", "1"], "  {randm:3}.x A\n   ^"),
        (vec![&target, "--queries", &good, "--schedule", "const(5,1)"], "  const(5,1)\n          ^"),
        (vec![&target, "--queries", &good, "--outstanding", "1", "--assert", "p98<1ms"], "there is no figure `p98`"),
        (vec![&target, "--queries", &good], "when to ask is missing"),
        (vec![&target, "--outstanding", "1"], "what to ask is missing"),
        (vec![&target, "--queries", &good, "--outstanding", "1", "--transport", "tls"], "not built yet"),
        (vec![&away, "--queries", &good, "--outstanding", "1"], "refuses: nothing listens there"),
        (vec!["192.0.2.1", "--queries", &good, "--outstanding", "1"], "--yes-i-own-it"),
        (vec!["192.0.2.1", "--queries", &good, "--schedule", "const(10001,1s)"], "--yes-i-own-it"),
        (
            vec![&target, "--queries", &good, "--schedule", "const(1k,600s)", "--json", "/nowhere/r.json"],
            "/nowhere/r.json: cannot be written",
        ),
        (vec!["nobody.invalid", "--queries", &good, "--outstanding", "1"], "is not found"),
    ] {
        let (status, out, err) = told(&[&["load"][..], &words].concat());
        assert_eq!((status, out.as_str()), (2, ""), "{words:?}: {err}");
        assert!(err.contains(says), "{words:?}: {err}");
    }
}

#[test]
fn a_run_writes_its_files_and_conditions_decide_the_status() {
    let target = responder(|first| if first == b'n' { 3 } else { 0 }).to_string();
    let queries = file("mixed", "yes.example A\nno.example A\n");
    let (json, csv, html) = (file("r.json", ""), file("r.csv", ""), file("r.html", ""));
    let run = |conditions: &str| {
        told(&[
            "load",
            &target,
            "--queries",
            &queries,
            "--schedule",
            "const(1k,2s)",
            "--json",
            &json,
            "--csv",
            &csv,
            "--html",
            &html,
            "--assert",
            conditions,
        ])
    };
    let (status, out, err) = run("rcode.NXDOMAIN<=50%,loss<=0%,sent>=2k");
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("rcodes     NOERROR 1,000, NXDOMAIN 1,000"), "{out}");
    let report = std::fs::read_to_string(&json).unwrap();
    for line in ["\"sent\": 2000,", "\"received\": 2000,", "\"lost\": 0,", "\"NXDOMAIN\": 1000"] {
        assert!(report.contains(line), "{line}");
    }
    let csv_lines: Vec<String> = std::fs::read_to_string(&csv).unwrap().lines().map(String::from).collect();
    assert!(csv_lines.len() >= 3 && csv_lines[0].ends_with(",NOERROR,NXDOMAIN"), "{csv_lines:?}");
    assert!(std::fs::read_to_string(&html).unwrap().contains("no.example. A"));
    let (status, _, err) = run("rcode.NXDOMAIN<50%,loss<=0%");
    assert_eq!(status, 1);
    assert!(err.contains("FAILS: rcode.NXDOMAIN<50%") && err.contains("holds: loss<=0%"), "{err}");
    let (status, out, _) = told(&["load", "diff", &json, &json]);
    assert_eq!(status, 0, "{out}");
    assert_eq!(told(&["load", "diff", &json, &csv]).0, 2);
}

#[test]
fn an_interrupt_prints_the_report_so_far() {
    let target = responder(|_| 0).to_string();
    let queries = file("long", "www.example A\n");
    let words = ["load", &target, "--queries", &queries, "--schedule", "const(1k,600s)", "--json", "-"];
    let mut child = Command::new(DUNLIN).args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It holds signals back before its first query; one that came earlier would end it without a report.
    let held = |id: u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|l| l.strip_prefix("SigBlk:")).unwrap_or("").trim().to_string();
        u64::from_str_radix(&mask, 16).unwrap_or(0) & (1 << (2 - 1)) != 0
    };
    while !held(child.id()) {
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut report = String::new();
    child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    let summary: Vec<String> = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{summary:?}");
    assert!(report.contains("\"stopped\": true,"), "{report}");
    assert!(summary.iter().any(|l| l.starts_with("received")), "{summary:?}");
}

#[test]
fn the_highest_rate_is_looked_for_and_told() {
    let target = responder(|_| 3).to_string();
    let (status, out, err) = told(&[
        "load",
        &target,
        "--template",
        "{seq}.example A",
        "--find-max",
        "--time",
        "100ms",
        "--p99",
        "1ns",
        "--quiet",
    ]);
    // No server answers within a nanosecond: no rate holds, which is an answer too.
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("max rate   0/s"), "{out}");
}

#[test]
fn servers_that_agree_are_told_from_those_that_do_not() {
    let (same, other) = (|_| 0, |first| if first == b'n' { 3 } else { 0 });
    let [a, b, c] = [responder(same), responder(same), responder(other)].map(|s| s.to_string());
    let queries = file("compared", "yes.example A\nno.example A\nno.example A\nmaybe.example MX\n");
    let (status, out, _) = told(&["compare", &a, &b, "--queries", &queries]);
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("3 questions") && out.contains("verdict: they agree"), "{out}");
    let (status, out, _) = told(&["compare", &a, &c, "--queries", &queries]);
    assert_eq!(status, 1, "{out}");
    assert!(out.contains("rcode: 1\n  no.example. A\n    A: NOERROR\n    B: NXDOMAIN"), "{out}");
    let (status, out, _) = told(&["compare", &a, &c, "--queries", &queries, "--json"]);
    assert_eq!((status, out.contains("\"agree\": false")), (1, true), "{out}");
    let away = nobody().to_string();
    assert_eq!(told(&["compare", &away, &away, "--queries", &queries]).0, 2);
    assert_eq!(told(&["compare", &a, &away, "--queries", &queries]).0, 1);
}
