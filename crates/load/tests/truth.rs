//! Every figure of the report beside what a responder was programmed to do. Counts must agree exactly. A latency must lie
//! between the moments just before and just after the responder sent the answer, by its own clock: what a busy machine
//! delays is then on both sides, and the stated error is that of the figures themselves.

use load::capture::{Capture, Replay};
use load::chance::Chance;
use load::json::Json;
use load::report::{Heading, report};
use load::run::{Pacing, Plan, Transport, Watcher, run};
use load::schedule::{Clockwork, Schedule};
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

/// A first answer: the number of its query, and the moments around its sending.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    before: Instant,
    after: Instant,
}

#[derive(Default)]
struct Record {
    heard: AtomicU64,
    sent: Mutex<Vec<Sent>>,
    last_packet: Mutex<Vec<u8>>,
    /// While this is set nothing is read.
    deaf: AtomicBool,
}

impl Record {
    fn send(&self, socket: &UdpSocket, packet: &[u8], to: SocketAddr) {
        // Who has this answer, and looks, finds it here.
        let mut sent = self.sent.lock().unwrap();
        let before = Instant::now();
        assert_eq!(socket.send_to(packet, to).unwrap(), packet.len());
        let after = Instant::now();
        sent.push(Sent { number: number(packet), before, after });
    }
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
    let mut held: Vec<(Instant, Vec<u8>, SocketAddr)> = Vec::new();
    let mut buffer = [0; 2048];
    while !end.load(Ordering::SeqCst) {
        held.retain(|(release, packet, to)| {
            let ready = *release <= Instant::now();
            if ready {
                record.send(socket, packet, *to);
            }
            !ready
        });
        if record.deaf.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(1));
            continue;
        }
        let Ok((n, from)) = socket.recv_from(&mut buffer) else { continue };
        let came = Instant::now();
        record.heard.fetch_add(1, Ordering::SeqCst);
        *record.last_packet.lock().unwrap() = buffer[..n].to_vec();
        let packet = answer(&buffer[..n], 0);
        let send = |packet: &[u8]| record.send(socket, packet, from);
        let stray = |packet: &[u8]| assert_eq!(socket.send_to(packet, from).unwrap(), packet.len());
        match program(number(&buffer[..n])) {
            Act::Answer(rcode) => send(&answer(&buffer[..n], rcode)),
            Act::Twice => {
                send(&packet);
                stray(&packet);
            }
            Act::Drop => {}
            Act::WrongId => stray(&changed(&packet, 0, 0x80)),
            Act::WrongQuestion => stray(&changed(&packet, 13, 1)),
            Act::Garbage => stray(&packet[..5]),
            Act::Bare => stray(&changed(&answer(&packet[..12], 5), 5, 1)),
            Act::Cookie => send(&with_server_cookie(&packet)),
            Act::Hold(time) => held.push((came + time, packet, from)),
            Act::Stop(time) => {
                while came.elapsed() < time {
                    std::thread::park_timeout(time - came.elapsed());
                }
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
        stamps: true,
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
    watched(plan, source, &mut Nobody).0
}

/// The report, and when its time 0 was.
fn watched(plan: &Plan, source: Source, watcher: &mut dyn Watcher) -> (Json, Instant) {
    let outcome = run(plan, source, watcher).unwrap();
    // What is read back is what others get.
    (Json::parse(&report(&Heading::default(), plan, &outcome).to_string()).unwrap(), outcome.began)
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

/// What a histogram's step, the two clocks and rounding may add or take: 0.1 % and 10 us.
const STEP: f64 = 0.001;
const CLOCKS_US: f64 = 10.0;

fn is_between(found_us: f64, low_us: f64, high_us: f64) -> bool {
    found_us >= low_us - CLOCKS_US && found_us <= high_us * (1.0 + STEP) + CLOCKS_US
}

/// The query of number n, and the least and the most that its latency can have been.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    number: u64,
    due_us: f64,
    low_us: f64,
    high_us: f64,
}

/// For every query that the responder answered; number n is the n-th of the schedule.
fn bounds(schedule: &str, began: Instant, record: &Record) -> Vec<Bounds> {
    let mut clockwork = Clockwork::new(Schedule::parse(schedule).unwrap());
    let dues: Vec<u64> = std::iter::from_fn(|| clockwork.peek().inspect(|_| clockwork.advance())).collect();
    let since_us = |at: Instant| at.duration_since(began).as_nanos() as f64 / 1e3;
    let of = |sent: &Sent| {
        let due_us = dues[sent.number as usize] as f64 / 1e3;
        let (low_us, high_us) = (since_us(sent.before) - due_us, since_us(sent.after) - due_us);
        Bounds { number: sent.number, due_us, low_us, high_us }
    };
    record.sent.lock().unwrap().iter().map(of).collect()
}

const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999), ("max", 1.0)];

/// If every latency lies within its bounds, so does every percentile within the same percentile of the bounds.
fn check_percentiles(found: &Json, bounds: &[Bounds], what: &str) {
    let sorted = |of: fn(&Bounds) -> f64| {
        let mut all: Vec<f64> = bounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (lows, highs) = (sorted(|b| b.low_us), sorted(|b| b.high_us));
    for (key, part) in PERCENTILES {
        let at = ((bounds.len() as f64 * part).ceil() as usize).max(1) - 1;
        let found_us = found.at(key).number().unwrap();
        assert!(
            is_between(found_us, lows[at], highs[at]),
            "{what} {key}: {found_us} not in {}..{}",
            lows[at],
            highs[at]
        );
    }
}

/// All that the report says of latencies and of when answers came.
fn check_times(report: &Json, bounds: &[Bounds]) {
    check_percentiles(report.at("latency_us"), bounds, "all");
    let mean = |of: fn(&Bounds) -> f64| bounds.iter().map(of).sum::<f64>() / bounds.len() as f64;
    let found_us = report.at("latency_us").at("mean").number().unwrap();
    assert!(is_between(found_us, mean(|b| b.low_us), mean(|b| b.high_us)), "mean {found_us}");
    for (series, slice_us) in [("series", 1e6), ("fine_series", 1e5)] {
        let mut received = 0.0;
        for (i, point) in report.at(series).items().iter().enumerate() {
            let (from_us, to_us) = (i as f64 * slice_us, (i + 1) as f64 * slice_us);
            let due: Vec<Bounds> = bounds.iter().filter(|b| (from_us..to_us).contains(&b.due_us)).copied().collect();
            if !due.is_empty() {
                check_percentiles(point, &due, &format!("{series} {i}"));
            }
            received += point.at("received").number().unwrap();
            let by = |of: fn(&Bounds) -> f64| bounds.iter().filter(|b| b.due_us + of(b) < to_us).count() as f64;
            let (least, most) = (by(|b| b.high_us + CLOCKS_US), by(|b| b.low_us - CLOCKS_US));
            assert!((least..=most).contains(&received), "{series} {i}: {received} not in {least}..{most}");
        }
    }
    for slow in report.at("slowest").items() {
        let number = slow.at("query").text().unwrap().split('.').next().unwrap().parse().unwrap();
        let truth = bounds.iter().find(|b: &&Bounds| b.number == number).unwrap();
        let found_us = slow.at("latency_us").number().unwrap();
        assert!(is_between(found_us, truth.low_us, truth.high_us), "{number}: {found_us} {truth:?}");
    }
}

#[test]
fn every_latency_is_what_the_responder_recorded() {
    let responder =
        Responder::start("[::1]:0", |n| Act::Hold(Duration::from_millis(if n % 100 == 7 { 90 } else { 20 })));
    let schedule = "const(1k,1s) line(200,1k,500ms) burst(30,100ms,500ms)";
    let (report, began) =
        watched(&plan(responder.address, open(schedule)), templates("{seq}.{zone} AAAA"), &mut Nobody);
    let bounds = bounds(schedule, began, &responder.record);
    assert_eq!((count(&report, "received"), bounds.len()), (1450, 1450));
    assert!(bounds.iter().all(|b| b.low_us >= if b.number % 100 == 7 { 90e3 } else { 20e3 }));
    check_times(&report, &bounds);
    assert_eq!(report.at("slowest").items().len(), 20);
    let slow = report.at("slowest").items()[0].at("latency_us").number();
    assert_eq!(slow, report.at("latency_us").at("max").number());
}

/// With one query a millisecond and a stop of D, the queries due in it wait D, D - 1 ms, D - 2 ms ...: of 2,000 queries
/// two may be slower than the p99.9, so that it is D - 2 ms, and not D.
#[test]
fn a_stop_hides_from_nobody() {
    let stop = |n: u64| if n == 500 { Act::Stop(Duration::from_millis(200)) } else { Act::Answer(0) };
    let responder = Responder::start("127.0.0.1:0", stop);
    let schedule = "const(1k,2s)";
    let (report, began) = watched(&plan(responder.address, open(schedule)), templates("{seq}.{zone} A"), &mut Nobody);
    assert_eq!((count(&report, "sent"), count(&report, "received"), count(&report, "unsent")), (2000, 2000, 0));
    let bounds = bounds(schedule, began, &responder.record);
    check_times(&report, &bounds);
    let stopped = bounds.iter().position(|b| b.number == 500).unwrap();
    let (last, first) = (bounds[stopped - 1], bounds[stopped]);
    let p999_us = report.at("latency_us").at("p999").number().unwrap();
    assert!(p999_us >= first.low_us - 2000.0 - CLOCKS_US, "{p999_us} {first:?}");
    // The target was silent from its last answer, or from when a query waited for the next, to that next. A query that
    // the tool itself sent late does not count as waiting, so that much is allowed for.
    let late_us = report.at("sending_lateness_us").at("max").number().unwrap();
    let from = |of: fn(&Bounds) -> f64| (last.due_us + of(&last)).max(first.due_us);
    let is_it = |stall: &&Json| {
        let from_us = stall.at("from_s").number().unwrap() * 1e6;
        let to_us = from_us + stall.at("ms").number().unwrap() * 1e3;
        // The report rounds its beginning to a millisecond.
        let (low_us, high_us) = (first.due_us + first.low_us - 500.0, first.due_us + first.high_us + 500.0);
        is_between(from_us, from(|b| b.low_us) - 500.0, from(|b| b.high_us) + late_us + 500.0)
            && is_between(to_us, low_us, high_us)
    };
    let stalls = report.at("stalls").items();
    assert_eq!(stalls.iter().filter(is_it).count(), 1, "{stalls:?} {last:?} {first:?}");
}

/// Holds the tool up, once, and makes the target deaf until what was held up is sent.
struct Starved<'a> {
    record: &'a Record,
    ticks: u32,
    hold_up: Duration,
}

impl Watcher for Starved<'_> {
    fn stop(&mut self) -> bool {
        self.ticks += 1;
        if self.ticks == 20 {
            self.record.deaf.store(true, Ordering::SeqCst);
            let until = Instant::now() + self.hold_up;
            while Instant::now() < until {
                std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
            }
        }
        // The tick after the hold-up comes at once.
        if self.ticks == 40 {
            self.record.deaf.store(false, Ordering::SeqCst);
        }
        false
    }
}

/// A tool that is held up sends a burst afterwards, and a burst overruns the target's buffer of 277 packets.
#[test]
fn losses_that_the_tool_caused_are_called_so() {
    let responder = Responder::start("127.0.0.1:0", |_| Act::Answer(0));
    let mut starved = Starved { record: &responder.record, ticks: 0, hold_up: Duration::from_millis(300) };
    let schedule = "const(10k,1s)";
    let (report, _) = watched(&plan(responder.address, open(schedule)), templates("{seq}.{zone} A"), &mut starved);
    let (lost, late) = (count(&report, "lost"), count(&report, "sent_late"));
    assert_eq!(count(&report, "sent") + count(&report, "unsent"), 10_000);
    assert_eq!(count(&report, "received") + lost, count(&report, "sent"));
    assert_eq!(count(report.at("kernel_drops"), "target"), lost);
    assert!(late >= 2900 && count(&report, "timed_out_sent_late") > 1000, "{late}");
    assert!(report.at("sending_lateness_us").at("max").number().unwrap() >= 299_000.0);
    assert_eq!(report.at("tool_limited"), &Json::Bool(true));
    let why = format!("{:?}", report.at("tool_limits"));
    assert!(why.contains("clock was late"), "{why}");
    assert!(load::summary::text(&report).contains("dropped    by the kernel"));
}

/// Answers that came in time while the tool was held up for longer than the time-out are answers.
#[test]
fn the_tools_own_delay_is_no_time_out_of_the_target() {
    let responder = Responder::start("127.0.0.1:0", |_| Act::Answer(0));
    let schedule = "const(1k,600ms)";
    let plan = Plan { timeout_ns: 100_000_000, ..plan(responder.address, open(schedule)) };
    let mut starved = Starved { record: &Record::default(), ticks: 0, hold_up: Duration::from_millis(250) };
    let (report, began) = watched(&plan, templates("{seq}.{zone} A"), &mut starved);
    let bounds = bounds(schedule, began, &responder.record);
    let unanswered = count(&report, "sent") - bounds.len() as u64;
    let beyond = |of: fn(&Bounds) -> f64| bounds.iter().filter(|b| of(b) > 100e3).count() as u64 + unanswered;
    let timed_out = count(&report, "timed_out");
    let (least, most) = (beyond(|b| b.low_us - CLOCKS_US), beyond(|b| b.high_us + CLOCKS_US));
    assert!((least..=most).contains(&timed_out), "{timed_out} not in {least}..{most}");
    assert!(count(&report, "timed_out_sent_late") >= 140);
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

/// Answers over TCP, in the order that the queries came in, and counts connections: as `heard`.
fn tcp_responder() -> (SocketAddr, Arc<Record>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, record) = (listener.local_addr().unwrap(), Arc::new(Record::default()));
    let kept = record.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            kept.heard.fetch_add(1, Ordering::SeqCst);
            let kept = kept.clone();
            std::thread::spawn(move || answer_stream(stream.unwrap(), &kept));
        }
    });
    (address, record)
}

fn answer_stream(mut stream: std::net::TcpStream, record: &Record) {
    stream.set_nodelay(true).unwrap();
    let mut head = [0; 2];
    while stream.read_exact(&mut head).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(head))];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        let message = [&head[..], &answer(&query, 0)].concat();
        // Cut in two, so that messages arrive in pieces.
        let (first, rest) = message.split_at(7);
        let begun = stream.write_all(first);
        let mut sent = record.sent.lock().unwrap();
        let before = Instant::now();
        if begun.and_then(|()| stream.write_all(rest)).is_err() {
            return;
        }
        sent.push(Sent { number: number(&message[2..]), before, after: Instant::now() });
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
        let seen = seen.heard.load(Ordering::SeqCst);
        assert!(seen.abs_diff(connections) <= 3, "{turnover:?}: {seen} connections");
    }
}

/// The kernel stamps what is read from a connection, too: once a reading, with the last segment's time, so that a message
/// may be taken to have come as late as the next one behind it.
#[test]
fn over_tcp_latencies_are_what_the_responder_recorded() {
    let (address, record) = tcp_responder();
    let schedule = "const(200,1s)";
    let tcp = Plan { transport: Transport::Tcp(Turnover::Kept), sockets: 1, ..plan(address, open(schedule)) };
    let (report, began) = watched(&tcp, templates("{seq}.{zone} A"), &mut Nobody);
    assert_eq!((count(&report, "received"), report.at("tool_load").at("stamps").text()), (200, Some("kernel")));
    let mut bounds = bounds(schedule, began, &record);
    let held_up_us = report.at("sending_lateness_us").at("max").number().unwrap();
    assert_eq!(bounds.len(), 200);
    bounds.iter_mut().for_each(|b| b.high_us += held_up_us);
    check_percentiles(report.at("latency_us"), &bounds, "tcp");
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
