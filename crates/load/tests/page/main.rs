//! A report's page as a reader sees it: in a headless browser, on a wide and a narrow screen, in light and dark colours.

mod browser;

use browser::Browser;
use load::json::Json;
use load::page::page;
use load::report::{Heading, report};
use load::run::{Pacing, Plan, Transport, Watcher, run};
use load::schedule::Schedule;
use load::shape::Shape;
use load::source::Source;
use load::template::{Names, Surroundings, Templates};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Answers with five rcodes, loses one query in fifty, and stops once for 300 ms.
fn target() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut packet, mut n) = ([0; 2048], 0u64);
        while let Ok((len, from)) = socket.recv_from(&mut packet) {
            n += 1;
            if n == 1500 {
                std::thread::park_timeout(Duration::from_millis(300));
            }
            packet[2] |= 0x80;
            packet[3] |= [0, 0, 0, 3, 3, 2, 5, 1][(n % 8) as usize];
            if n % 50 != 0 {
                let _ = socket.send_to(&packet[..len], from);
            }
        }
    });
    address
}

struct Nobody;
impl Watcher for Nobody {}

fn measured() -> Json {
    let none: &dyn Fn(&str) -> Result<Names, String> = &|_| Err("no files here".to_string());
    let around = Surroundings { zone: "zone-with-a-long-name.example.com", names: none };
    let long = ["{random:60}.{random:60}.{zone} AAAA *1".to_string(), "{random:8}.{zone} A *30".to_string()];
    let source = Source::Templates(Templates::parse(&long, &around, 1).unwrap());
    let plan = Plan {
        stamps: true,
        target: target(),
        sources: vec![],
        sockets: 2,
        transport: Transport::Udp,
        shape: Shape::default(),
        pacing: Pacing::Schedule(Schedule::parse("line(100,2k,2s) const(1k,1s) burst(50,100ms,1s)").unwrap()),
        warm_ns: 0,
        timeout_ns: 500_000_000,
        cpu: None,
        seed: 1,
        limit: 0,
    };
    let outcome = run(&plan, source, &mut Nobody).unwrap();
    let command = "dunlin load 127.0.0.1:5300 --template '{random:8}.{zone} A' --schedule 'line(100,2k,2s) const(1k,1s) \
                   burst(50,100ms,1s)' --html report.html --watch http://127.0.0.1:5380/metrics";
    let heading = Heading { command: command.to_string(), name: Some("ns1.example".to_string()), started_s: 1 };
    let Json::Object(mut members) = report(&heading, &plan, &outcome) else { panic!("a report is an object") };
    let numbers = |values: [f64; 4]| Json::list(values, Json::from);
    let stalls = "stalls_total{worker=\"0\"}";
    let series = [(stalls, numbers([0.0, 1.0, 0.0, 0.0])), ("cache_entries", numbers([10.0, 400.0, 900.0, 1000.0]))];
    let watched = [("t", numbers([0.5, 1.5, 2.5, 3.5])), ("series", Json::object(series))];
    members.push(("watched".to_string(), Json::object(watched)));
    Json::Object(members)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("page")
}

/// Whatever the page's own machinery complained of, and whatever it fetched that is not the page.
fn complaints(events: &[Json], url: &str) -> Vec<String> {
    let is_one = |event: &&Json| match event.at("method").text().unwrap_or("") {
        "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" | "Network.loadingFailed" => true,
        "Network.requestWillBeSent" => {
            let asked = event.at("params").at("request").at("url").text().unwrap_or("");
            asked != url && !asked.starts_with("data:")
        }
        _ => false,
    };
    events.iter().filter(is_one).map(ToString::to_string).collect()
}

#[test]
fn the_page_is_readable_on_wide_and_narrow_screens_in_light_and_dark() {
    std::fs::create_dir_all(folder()).unwrap();
    let path = folder().join("report.html");
    std::fs::write(&path, page(&measured())).unwrap();
    let url = format!("file://{}", path.canonicalize().unwrap().display());
    let mut browser = Browser::start(&folder().join("profile"));
    let charts = [
        "Queries a second",
        "Latency, by when a query was due",
        "Answers a second by rcode",
        "The server's stalls_total{worker=\"0\"}, a second",
        "The server's cache_entries",
        "Distribution of latency",
    ];
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        let events = browser.open(&url, width, scheme);
        assert_eq!(complaints(&events, &url), [""; 0], "{width} {scheme}");
        let picture = folder().join(format!("{width}-{scheme}.png"));
        std::fs::write(&picture, browser.picture()).unwrap();
        let seen = browser.value(include_str!("look.js"));
        let texts =
            |key: &str| seen.at(key).items().iter().filter_map(Json::text).map(str::to_string).collect::<Vec<_>>();
        assert_eq!(texts("faults"), [""; 0], "{width} {scheme}: see {}", picture.display());
        assert_eq!(texts("charts"), charts, "{width} {scheme}");
        assert_eq!(seen.at("width").number(), Some(f64::from(width)));
        // Slowest queries and their heading, then what was measured how.
        assert!(seen.at("rows").number() > Some(20.0 + 6.0) && seen.at("tiles").number() == Some(10.0), "{seen}");
        let dark = browser.value("getComputedStyle(document.body).backgroundColor").text().map(str::to_string);
        assert_eq!(dark.as_deref(), Some(if scheme == "dark" { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" }));
    }
}
