//! Every figure of the report beside what a responder was programmed to do. Counts must agree exactly. Latencies are
//! compared with what the responder itself recorded, and only towards the side that a busy machine cannot break.

use load::capture::{Capture, Replay};
use load::chance::Chance;
use load::json::Json;
use load::report::{Heading, report};
use load::run::{Pacing, Plan, Transport, Watcher, run};
use load::schedule::Schedule;
use load::shape::{Edns, Flags, Shape};
use load::source::Source;
use load::tcp::Turnover;
use load::template::{Names, Surroundings, Templates};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is done with a query.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Answer(u8),
    Twice,
    Drop,
    WrongId,
    WrongQuestion,
    Garbage,
    /// A refusal without the question.
    Bare,
    Hold(Duration),
    /// The answer's cookie has a server part (RFC 7873 section 4.2).
    Cookie,
    /// Nothing is read for so long; then all is answered.
    Stop(Duration),
}

#[derive(Default)]
struct Record {
    heard: AtomicU64,
    holds_ns: Mutex<Vec<u64>>,
    last_packet: Mutex<Vec<u8>>,
}

struct Responder {
    address: SocketAddr,
    record: Arc<Record>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    /// `program` says what becomes of the query whose first label is a number.
    fn start(on: &str, program: fn(u64) -> Act) -> Responder {
        let socket = UdpSocket::bind(on).unwrap();
        let address = socket.local_addr().unwrap();
        let (record, end) = (Arc::new(Record::default()), Arc::new(AtomicBool::new(false)));
        let (kept, until) = (record.clone(), end.clone());
        let thread = std::thread::spawn(move || respond(&socket, program, &kept, &until));
        Responder { address, record, end, thread: Some(thread) }
    }

    fn heard(&self) -> u64 {
        self.record.heard.load(Ordering::SeqCst)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn respond(socket: &UdpSocket, program: fn(u64) -> Act, record: &Record, end: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let mut held: Vec<(Instant, Instant, Vec<u8>, SocketAddr)> = Vec::new();
    let mut buffer = [0; 2048];
    while !end.load(Ordering::SeqCst) {
        held.retain(|(came, release, packet, to)| {
            let ready = *release <= Instant::now();
            if ready {
                // Before it is sent: what comes after that is not part of the latency.
                record.holds_ns.lock().unwrap().push(came.elapsed().as_nanos() as u64);
                socket.send_to(packet, to).unwrap();
            }
            !ready
        });
        let Ok((n, from)) = socket.recv_from(&mut buffer) else { continue };
        let came = Instant::now();
        record.heard.fetch_add(1, Ordering::SeqCst);
        *record.last_packet.lock().unwrap() = buffer[..n].to_vec();
        let packet = answer(&buffer[..n], 0);
        let send = |packet: &[u8]| assert_eq!(socket.send_to(packet, from).unwrap(), packet.len());
        match program(number(&buffer[..n])) {
            Act::Answer(rcode) => send(&answer(&buffer[..n], rcode)),
            Act::Twice => [0, 1].iter().for_each(|_| send(&packet)),
            Act::Drop => {}
            Act::WrongId => send(&changed(&packet, 0, 0x80)),
            Act::WrongQuestion => send(&changed(&packet, 13, 1)),
            Act::Garbage => send(&packet[..5]),
            Act::Bare => send(&changed(&answer(&packet[..12], 5), 5, 1)),
            Act::Cookie => send(&with_server_cookie(&packet)),
            Act::Hold(time) => held.push((came, came + time, packet, from)),
            Act::Stop(time) => {
                while came.elapsed() < time {
                    std::thread::park_timeout(time - came.elapsed());
                }
                record.holds_ns.lock().unwrap().push(came.elapsed().as_nanos() as u64);
                send(&packet);
            }
        }
    }
}

fn changed(packet: &[u8], at: usize, bits: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[at] ^= bits;
    packet
}

fn answer(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut packet = query.to_vec();
    packet[2] |= 0x80;
    packet[3] |= rcode;
    packet
}

const SERVER_COOKIE: [u8; 8] = *b"biscuits";

/// The query's cookie stands at its very end: the lengths of the option and of the OPT grow by eight.
fn with_server_cookie(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let end = packet.len();
    packet[end - 9] += 8;
    packet[end - 13] += 8;
    packet.extend_from_slice(&SERVER_COOKIE);
    packet
}

/// The digits at the start of the query's first label.
fn number(query: &[u8]) -> u64 {
    let digits = query[13..].iter().take_while(|c| c.is_ascii_digit());
    digits.fold(0, |n, c| n * 10 + u64::from(c - b'0'))
}

struct Nobody;
impl Watcher for Nobody {}

fn templates(text: &str) -> Source {
    let none: &dyn Fn(&str) -> Result<Names, String> = &|_| Err("no files here".to_string());
    let around = Surroundings { zone: "example", names: none };
    Source::Templates(Templates::parse(&[text.to_string()], &around, 1).unwrap())
}

fn plan(target: SocketAddr, pacing: Pacing) -> Plan {
    Plan {
        target,
        sources: vec![],
        sockets: 3,
        transport: Transport::Udp,
        shape: Shape::default(),
        pacing,
        warm_ns: 0,
        timeout_ns: 1_500_000_000,
        cpu: None,
        seed: 1,
        limit: 0,
    }
}

fn open(text: &str) -> Pacing {
    Pacing::Schedule(Schedule::parse(text).unwrap())
}

fn measure(plan: &Plan, source: Source) -> Json {
    let outcome = run(plan, source, &mut Nobody).unwrap();
    // What is read back is what others get.
    Json::parse(&report(&Heading::default(), plan, &outcome).to_string()).unwrap()
}

fn count(report: &Json, key: &str) -> u64 {
    report.at(key).number().unwrap_or_else(|| panic!("{key} is missing")) as u64
}

fn series_sum(report: &Json, series: &str, key: &str) -> u64 {
    report.at(series).items().iter().map(|p| p.at(key).number().unwrap() as u64).sum()
}

fn all_kinds(n: u64) -> Act {
    match n % 20 {
        // Late answers only to the first quarter, so that they come while the run goes on.
        1 if n < 500 => Act::Hold(Duration::from_millis(2200)),
        2 | 3 => Act::Drop,
        4 => Act::Twice,
        5 => Act::WrongId,
        6 => Act::WrongQuestion,
        7 => Act::Garbage,
        8 => Act::Bare,
        9 | 10 => Act::Answer(3),
        11 => Act::Answer(2),
        _ => Act::Answer(0),
    }
}

#[test]
fn every_count_is_what_was_programmed() {
    let responder = Responder::start("127.0.0.1:0", all_kinds);
    let plan = plan(responder.address, open("const(500,4s)"));
    let report = measure(&plan, templates("{seq}.{zone} A"));
    let programmed = |wanted: fn(&Act) -> bool| (0..2000).map(all_kinds).filter(wanted).count() as u64;
    let late = programmed(|a| matches!(a, Act::Hold(_)));
    let lost = programmed(|a| matches!(a, Act::Drop | Act::WrongId | Act::WrongQuestion | Act::Garbage));
    assert_eq!(late, 25);
    for (key, expect) in [
        ("sent", 2000),
        ("received", 2000 - late - lost),
        ("lost", lost),
        ("late", late),
        ("timed_out", lost + late),
        ("duplicates", 100),
        ("wrong_id", 100),
        ("wrong_question", 100),
        ("malformed", 100),
        ("unsent", 0),
    ] {
        assert_eq!(count(&report, key), expect, "{key}");
    }
    assert_eq!(responder.heard(), 2000);
    let rcodes = report.at("rcodes");
    let ok = 2000 - late - lost - 400;
    for (name, expect) in [("NOERROR", ok), ("NXDOMAIN", 200), ("SERVFAIL", 100), ("REFUSED", 100)] {
        assert_eq!(count(rcodes, name), expect, "{name}");
    }
    for series in ["series", "fine_series"] {
        assert_eq!(series_sum(&report, series, "sent"), 2000);
        assert_eq!(series_sum(&report, series, "received"), 2000 - late - lost);
        assert_eq!(series_sum(&report, series, "timed_out"), late + lost);
    }
    assert_eq!(count(report.at("series").items().first().unwrap(), "scheduled_per_s"), 500);
    let bars: u64 =
        report.at("latency_distribution_us").items().iter().map(|b| b.items()[1].number().unwrap() as u64).sum();
    assert_eq!(bars, count(&report, "received"));
    assert_eq!(report.at("kernel_drops").at("target").number(), Some(0.0));
}

#[test]
fn no_latency_is_below_what_the_responder_recorded() {
    let responder =
        Responder::start("[::1]:0", |n| Act::Hold(Duration::from_millis(if n % 100 == 7 { 90 } else { 20 })));
    let report = measure(&plan(responder.address, open("const(1k,1s)")), templates("{seq}.{zone} AAAA"));
    let mut holds = responder.record.holds_ns.lock().unwrap().clone();
    holds.sort_unstable();
    assert_eq!((count(&report, "received"), holds.len()), (1000, 1000));
    for (key, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
        let recorded_us = holds[((1000.0 * part) as usize).max(1) - 1] as f64 / 1e3;
        let found_us = report.at("latency_us").at(key).number().unwrap();
        // A histogram's step is 0.1 % wide.
        assert!(found_us >= recorded_us * 0.999, "{key}: found {found_us}, recorded {recorded_us}");
    }
    let slow = report.at("slowest").items()[0].at("latency_us").number();
    assert_eq!(slow, report.at("latency_us").at("max").number());
}

#[test]
fn a_stop_hides_from_nobody() {
    let stop = |n: u64| if n == 500 { Act::Stop(Duration::from_millis(200)) } else { Act::Answer(0) };
    let responder = Responder::start("127.0.0.1:0", stop);
    let report = measure(&plan(responder.address, open("const(1k,2s)")), templates("{seq}.{zone} A"));
    let stopped_ms = responder.record.holds_ns.lock().unwrap()[0] as f64 / 1e6;
    assert_eq!((count(&report, "sent"), count(&report, "received"), count(&report, "unsent")), (2000, 2000, 0));
    let max_ms = report.at("latency_us").at("max").number().unwrap() / 1e3;
    let p999_ms = report.at("latency_us").at("p999").number().unwrap() / 1e3;
    let longest = report.at("stalls").items().iter().filter_map(|s| s.at("ms").number()).fold(0.0, f64::max);
    // One query is due a millisecond, and those that the responder heard together with the last before its stop are
    // answered before it: how many those are is the machine's to say, so ten are allowed for.
    for found_ms in [max_ms, p999_ms, longest] {
        assert!(found_ms >= stopped_ms - 10.0, "{max_ms} {p999_ms} {longest} {stopped_ms}");
    }
}

/// A socket of the default size holds 277 small packets.
#[test]
fn what_the_targets_kernel_dropped_explains_the_losses() {
    let stop = |n: u64| if n == 500 { Act::Stop(Duration::from_millis(300)) } else { Act::Answer(0) };
    let responder = Responder::start("127.0.0.1:0", stop);
    let report = measure(&plan(responder.address, open("const(4k,1s)")), templates("{seq}.{zone} A"));
    let dropped = count(report.at("kernel_drops"), "target");
    assert!(dropped > 0);
    assert_eq!((count(&report, "sent"), count(&report, "lost")), (4000, dropped));
    assert_eq!(responder.heard(), 4000 - dropped);
}

#[test]
fn a_closed_loop_never_has_more_waiting_than_asked_for() {
    let responder = Responder::start("127.0.0.1:0", |n| if n < 10 { Act::Drop } else { Act::Answer(0) });
    let pacing = Pacing::Outstanding { queries: 10, time_ns: 1_000_000_000 };
    let report = measure(&plan(responder.address, pacing), templates("{seq}.{zone} A"));
    // The first ten are never answered, the time-out is longer than the run: nothing else can have been sent.
    assert_eq!((count(&report, "sent"), count(&report, "lost"), count(&report, "received")), (10, 10, 0));
    assert_eq!(report.at("latency_us").at("max").number(), Some(0.0));
}

#[test]
fn a_limit_is_kept_and_the_warm_up_not_counted() {
    let responder = Responder::start("127.0.0.1:0", |_| Act::Answer(0));
    let limited =
        Plan { limit: 777, ..plan(responder.address, Pacing::Outstanding { queries: 50, time_ns: 60_000_000_000 }) };
    let report = measure(&limited, templates("{seq}.{zone} A"));
    assert_eq!((count(&report, "sent"), count(&report, "received"), responder.heard()), (777, 777, 777));
    let warm = Plan { warm_ns: 500_000_000, ..plan(responder.address, open("const(1k,1s)")) };
    let report = measure(&warm, templates("{seq}.{zone} A"));
    assert_eq!((count(&report, "sent"), count(&report, "received"), responder.heard()), (500, 500, 777 + 1000));
}

#[test]
fn queries_have_the_shape_asked_for_and_come_from_the_addresses_given() {
    let responder = Responder::start("127.0.0.1:0", |_| Act::Answer(0));
    let edns = Some(Edns { size: 1400, dnssec_ok: true, nsid: true, cookie: true });
    let shaped = Plan {
        shape: Shape { flags: Flags { rd: true, cd: true, ad: false }, edns },
        sources: vec!["127.0.0.5".parse().unwrap(), "127.0.0.6".parse().unwrap()],
        limit: 40,
        ..plan(responder.address, open("const(1k,1s)"))
    };
    assert_eq!(count(&measure(&shaped, templates("a.{zone} MX")), "received"), 40);
    let packet = responder.record.last_packet.lock().unwrap().clone();
    assert_eq!(packet[2..12], [1, 0x10, 0, 1, 0, 0, 0, 0, 0, 1]);
    let question = b"\x01a\x07example\x00\x00\x0f\x00\x01";
    assert_eq!(&packet[12..12 + question.len()], question);
    assert_eq!(packet[12 + question.len()..][..11], [0, 0, 41, 5, 0x78, 0, 0, 0x80, 0, 0, 16]);
}

#[test]
fn a_server_cookie_is_learned_and_sent_from_then_on() {
    let responder = Responder::start("127.0.0.1:0", |n| if n == 0 { Act::Cookie } else { Act::Answer(0) });
    let edns = Some(Edns { size: 1232, dnssec_ok: false, nsid: false, cookie: true });
    let shape = Shape { flags: Flags::default(), edns };
    let pacing = Pacing::Outstanding { queries: 1, time_ns: 60_000_000_000 };
    let plan = Plan { shape, sockets: 1, limit: 2, ..plan(responder.address, pacing) };
    assert_eq!(count(&measure(&plan, templates("{seq}.{zone} A")), "received"), 2);
    assert!(responder.record.last_packet.lock().unwrap().ends_with(&SERVER_COOKIE));
}

/// No machine sends a million queries in sixty milliseconds.
#[test]
fn a_figure_that_is_the_tools_is_called_so() {
    let responder = Responder::start("127.0.0.1:0", |_| Act::Answer(0));
    let report = measure(&plan(responder.address, open("const(20M,50ms)")), templates("{seq}.{zone} A"));
    let (sent, unsent) = (count(&report, "sent"), count(&report, "unsent"));
    assert!(unsent > 0);
    assert_eq!(sent + unsent, 1_000_000);
    assert_eq!(count(&report, "received") + count(&report, "timed_out"), sent);
    assert_eq!(report.at("tool_limited"), &Json::Bool(true));
    let why: Vec<&str> = report.at("tool_limits").items().iter().filter_map(Json::text).collect();
    assert!(why.iter().any(|w| w.contains("never sent")), "{why:?}");
}

#[test]
fn every_schedule_sends_what_it_says() {
    for (text, queries) in [
        ("line(100,900,400ms)", 200),
        ("step(100,300,100,200ms)", 120),
        ("burst(50,100ms,500ms)", 250),
        ("const(500,200ms) burst(7,50ms,100ms) line(1k,1,100ms)", 100 + 14 + 50),
    ] {
        let responder = Responder::start("127.0.0.1:0", |_| Act::Answer(0));
        let report = measure(&plan(responder.address, open(text)), templates("{seq}.{zone} A"));
        assert_eq!((count(&report, "sent"), count(&report, "received")), (queries, queries), "{text}");
        assert_eq!(responder.heard(), queries, "{text}");
        assert_eq!(series_sum(&report, "series", "sent"), queries);
    }
}

#[test]
fn a_target_that_refuses_ends_the_run() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = run(&plan(gone, open("const(1k,60s)")), templates("{seq}.{zone} A"), &mut Nobody);
    assert!(refused.err().unwrap().contains("refuses: nothing listens there"));
    let tcp = Plan { transport: Transport::Tcp(Turnover::Kept), ..plan(gone, open("const(1k,60s)")) };
    assert!(run(&tcp, templates("{seq}.{zone} A"), &mut Nobody).is_err());
}

#[test]
fn a_run_that_is_stopped_reports_what_there_is() {
    struct After(u32);
    impl Watcher for After {
        fn stop(&mut self) -> bool {
            self.0 = self.0.saturating_sub(1);
            self.0 == 0
        }
    }
    let responder = Responder::start("127.0.0.1:0", |_| Act::Answer(0));
    let plan = plan(responder.address, open("const(1k,600s)"));
    let outcome = run(&plan, templates("{seq}.{zone} A"), &mut After(20)).unwrap();
    let report = report(&Heading::default(), &plan, &outcome);
    assert_eq!(report.at("stopped"), &Json::Bool(true));
    assert!(count(&report, "sent") > 0 && count(&report, "sent") < 600_000);
    assert_eq!(count(&report, "received"), count(&report, "sent"));
}

/// Answers over TCP, in the order that the queries came in, and counts connections.
fn tcp_responder() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = connections.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || answer_stream(stream.unwrap()));
        }
    });
    (address, connections)
}

fn answer_stream(mut stream: std::net::TcpStream) {
    let mut head = [0; 2];
    while stream.read_exact(&mut head).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(head))];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        let message = [&head[..], &answer(&query, 0)].concat();
        // Cut in two, so that messages arrive in pieces.
        let (first, rest) = message.split_at(7);
        if stream.write_all(first).and_then(|()| stream.write_all(rest)).is_err() {
            return;
        }
    }
}

#[test]
fn over_tcp_all_is_answered_on_connections_kept_or_new() {
    for (turnover, connections) in [(Turnover::Kept, 3), (Turnover::After(1), 120), (Turnover::After(10), 12)] {
        let (address, seen) = tcp_responder();
        let tcp = Plan {
            transport: Transport::Tcp(turnover),
            limit: 120,
            ..plan(address, Pacing::Outstanding { queries: 30, time_ns: 60_000_000_000 })
        };
        let report = measure(&tcp, templates("{seq}.{zone} A"));
        assert_eq!((count(&report, "sent"), count(&report, "received")), (120, 120), "{turnover:?}");
        let seen = seen.load(Ordering::SeqCst);
        assert!(seen.abs_diff(connections) <= 3, "{turnover:?}: {seen} connections");
    }
}

/// A capture of one UDP query a millisecond, little-endian pcap over raw IPv4.
fn capture(queries: u32) -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 101, 0, 0, 0];
    for i in 0..queries {
        let label = format!("{i:04}");
        let dns = [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4][..], label.as_bytes(), &[0, 0, 1, 0, 1]].concat();
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x99, 0x99, 0, 53];
        packet.extend_from_slice(&[0, (8 + dns.len()) as u8, 0, 0]);
        packet.extend_from_slice(&dns);
        for word in [1000, i * 1000, packet.len() as u32, packet.len() as u32] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&packet);
    }
    file
}

#[test]
fn a_capture_is_replayed_once_at_its_times() {
    let responder = Responder::start("127.0.0.1:0", |n| Act::Answer(if n % 2 == 0 { 0 } else { 3 }));
    let capture = Capture::parse(&capture(500), 53).unwrap();
    let pacing = Pacing::Times { times_ns: capture.times_ns.clone(), factor: 2.0 };
    let report = measure(&plan(responder.address, pacing), Source::Capture(Replay::new(capture, "test")));
    assert_eq!((count(&report, "sent"), count(&report, "received")), (500, 500));
    assert_eq!((count(report.at("rcodes"), "NOERROR"), count(report.at("rcodes"), "NXDOMAIN")), (250, 250));
    assert!(report.at("seconds").number().unwrap() >= 0.2495);
}

#[test]
fn chance_is_even() {
    let mut chance = Chance::new(3);
    let hits = (0..100_000).filter(|_| chance.below(10) == 7).count();
    assert!((9500..10_500).contains(&hits), "{hits}");
}
