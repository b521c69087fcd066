//! What the cache knows outlives the process: an upgrade under a service manager, a restart from a snapshot, kill -9.

use crate::running::{Folder, Server, eventually, read, text};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Rounds of killing; DUNLIN_KILLS says how many.
const KILLS: u32 = 6;

fn config(folder: &Folder, listen: u16, forwarder: u16) {
    let text = format!(
        "[server]\nlisten = [\"127.0.0.1:{listen}\"]\ndata-dir = \"data\"\nuser = \"\"\n[control]\nsocket = \"control.sock\"\n\
         http = \"\"\n[limits]\nenabled = false\n[resolver]\nprefetch = false\n[cache]\nsize = \"16MiB\"\n\
         [[resolver.forward]]\nzone = \".\"\nservers = [\"127.0.0.1:{forwarder}\"]\n"
    );
    folder.write("dunlin.toml", &text);
}

/// Two ports, one beside the other, that are free and that the system gives to nobody; each test has others.
fn two_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 22_000 + (std::process::id() % 4_000) as u16 * 2;
    let is_free = |port: u16| UdpSocket::bind(("127.0.0.1", port)).is_ok();
    (0..1_000)
        .map(|_| first + NEXT.fetch_add(2, Relaxed))
        .find(|&port| is_free(port) && is_free(port + 1))
        .expect("two free ports")
}

fn upgrade(signal: &str) -> String {
    let (folder, port) = (Folder::new(), two_ports());
    config(&folder, port, port + 1);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/upgrade.py");
    let mut python = Command::new("python3");
    python.args([script, env!("CARGO_BIN_EXE_dunlin")]).arg(&folder.0).args([&port.to_string(), "200", signal]);
    let Output { stdout, stderr, .. } = python.env("HOME", &folder.0).output().unwrap();
    let (facts, log) = (text(&stdout), read(&folder.0.join("log")));
    assert!(!facts.is_empty(), "{}\n{log}", text(&stderr));
    for fact in ["\"wrong\": 0", "\"misses_afterwards\": 0", "\"kept\": [\"cache\", \"tcp\", \"udp\"]"] {
        assert!(facts.contains(fact), "{facts}\n{log}");
    }
    facts
}

fn number(facts: &str, name: &str) -> u64 {
    let value = facts.split(&format!("\"{name}\": ")).nth(1).unwrap_or_else(|| panic!("{name} in {facts}"));
    value.split([',', '}', '.']).next().unwrap().parse().unwrap()
}

#[test]
fn an_upgrade_loses_neither_a_question_nor_an_answer() {
    let facts = upgrade("TERM");
    assert_eq!(number(&facts, "sent"), number(&facts, "answered"), "{facts}");
}

#[test]
fn after_a_kill_the_memory_that_the_manager_kept_is_gone_on_with() {
    let facts = upgrade("KILL");
    // What it had taken from its socket and not answered yet is lost.
    assert!(number(&facts, "answered") + 100 > number(&facts, "sent"), "{facts}");
}

/// A server of one thread for the resolver to ask: the address of a name says which it is.
struct Forwarder {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    fn start() -> Forwarder {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (port, stop) = (socket.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut packet = [0; 4096];
            while !until.load(Relaxed) {
                match socket.recv_from(&mut packet) {
                    Ok((len, peer)) => drop(socket.send_to(&answer(&packet[..len]), peer)),
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(_) => return,
                }
            }
        });
        Forwarder { port, stop, thread: Some(thread) }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// The name `nNUMBER...` has the address 10.0.x.y with that number.
fn answer(packet: &[u8]) -> Vec<u8> {
    let label = &packet[13..13 + usize::from(packet[12])];
    let number: u16 = text(&label[1..]).parse().unwrap_or(0);
    let end = 12 + packet[12..].iter().position(|&octet| octet == 0).unwrap() + 5;
    let head = [&packet[..2], b"\x81\x80\0\x01\0\x01\0\0\0\0", &packet[12..end]].concat();
    [&head[..], b"\xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04\x0a\0", &number.to_be_bytes()].concat()
}

fn ask(folder: &Folder, server: &Server, number: u16) {
    let found = server.short(folder, &[&format!("n{number}.example.com")]);
    let [high, low] = number.to_be_bytes();
    assert_eq!(found, format!("10.0.{high}.{low}\n"));
}

fn counter(folder: &Folder, name: &str) -> u64 {
    let stats = text(&folder.ctl(&["--json", "stats"]).stdout);
    number(&stats.replace(':', ": "), name)
}

fn save(folder: &Folder) -> bool {
    folder.ctl(&["cache", "save"]).status.code() == Some(0)
}

fn started(folder: &Folder) -> Server {
    Server::start(folder, &["-c", "dunlin.toml"])
}

#[test]
fn a_server_that_is_told_to_stop_knows_everything_when_it_comes_back() {
    let (folder, forwarder) = (Folder::new(), Forwarder::start());
    config(&folder, 0, forwarder.port);
    let server = started(&folder);
    assert!(read(&folder.0.join("log")).contains("info the cache starts empty why=\"there is no snapshot\""));
    (0..20).for_each(|number| ask(&folder, &server, number));
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    let server = started(&folder);
    eventually("the snapshot", || read(&folder.0.join("log")).contains("info the cache has what it had entries=20"));
    (0..20).for_each(|number| ask(&folder, &server, number));
    assert_eq!(counter(&folder, "cache_misses"), 0);
    // Whoever is asked instead is asked: what others said is not what these would say.
    drop(server);
    let other = Forwarder::start();
    config(&folder, 0, other.port);
    let server = started(&folder);
    ask(&folder, &server, 3);
    assert_eq!(counter(&folder, "cache_misses"), 1);
}

#[test]
fn a_zone_that_becomes_ours_hides_what_was_cached_and_leaves_the_rest() {
    let (folder, forwarder) = (Folder::new(), Forwarder::start());
    config(&folder, 0, forwarder.port);
    let toml = read(&folder.0.join("dunlin.toml"));
    folder.write("dunlin.toml", &format!("[zones]\ndirectory = \"zones\"\n{toml}"));
    folder.write("zones/first.test.zone", "$TTL 300\n@ SOA ns1 h 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n");
    let server = started(&folder);
    (1..10).for_each(|number| ask(&folder, &server, number));
    assert_eq!(counter(&folder, "cache_misses"), 9);
    let ours = "$TTL 300\n@ SOA ns1 h 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n@ A 192.0.2.7\n";
    folder.write("zones/n5.example.com.zone", ours);
    assert_eq!(folder.ctl(&["reload"]).status.code(), Some(0));
    assert_eq!(server.short(&folder, &["n5.example.com"]), "192.0.2.7\n");
    drop(forwarder);
    (1..10).filter(|&number| number != 5).for_each(|number| ask(&folder, &server, number));
    assert_eq!(counter(&folder, "cache_misses"), 9, "judged again, and good");
    // And the other way round: what is ours no more is asked for again.
    std::fs::remove_file(folder.0.join("zones/n5.example.com.zone")).unwrap();
    assert_eq!(folder.ctl(&["reload"]).status.code(), Some(0));
    ask(&folder, &server, 5);
    assert_eq!(counter(&folder, "cache_misses"), 9);
}

#[test]
fn kill_9_while_snapshots_are_written_costs_answers_and_makes_none_wrong() {
    let (folder, forwarder) = (Folder::new(), Forwarder::start());
    config(&folder, 0, forwarder.port);
    let rounds = std::env::var("DUNLIN_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let mut found = 0;
    for round in 0..rounds {
        let server = started(&folder);
        let first = round as u16 * 3;
        (first..first + 8).for_each(|number| ask(&folder, &server, number));
        assert!(round == 0 || !read(&folder.0.join("log")).contains("starts empty"), "round {round}");
        found += counter(&folder, "cache_hits");
        assert!(save(&folder));
        let saving = std::thread::scope(|threads| {
            let saving = threads.spawn(|| while save(&folder) {});
            // One moment in the middle of it, another each time.
            let mut turns = 0;
            eventually("a file that is being written", || {
                turns += u32::from(is_being_written(&folder));
                turns > round
            });
            server.signal("KILL");
            drop(server);
            saving.join()
        });
        assert!(saving.is_ok());
    }
    assert!(found > 0, "nothing was ever found again");
    drop(started(&folder));
    assert!(!is_being_written(&folder), "what was not finished is removed");
}

fn is_being_written(folder: &Folder) -> bool {
    let names = std::fs::read_dir(folder.0.join("data/cache")).unwrap();
    names.flatten().any(|name| name.file_name().to_string_lossy().ends_with(".new"))
}
