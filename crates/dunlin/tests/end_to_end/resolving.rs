//! Forwarding as clients see it: real forwarders behind, dig and kdig before.

use crate::running::{Folder, PATIENCE, Server, eventually, read, text};
use crate::updates;
use difference::{fleet::free_port, peers};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A server of somebody else, ended with the test.
struct Forwarder(Child);

impl Drop for Forwarder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Unbound with its own data for example.com and test, and whatever is asked else refused.
fn unbound(folder: &Folder, port: u16) -> Forwarder {
    let big =
        (0..40).map(|i| format!("  local-data: 'big.example.com 300 IN TXT \"record {i} {}\"'\n", "x".repeat(60)));
    let text = format!(
        "server:\n  port: {port}\n  interface: 127.0.0.1\n  username: \"\"\n  chroot: \"\"\n  directory: \"{0}\"\n  \
         pidfile: \"\"\n  use-syslog: no\n  do-daemonize: no\n  num-threads: 1\n  do-not-query-localhost: no\n  \
         local-zone: \"example.com\" static\n  local-data: \"example.com 300 IN SOA ns1 h 1 2 3 4 60\"\n  \
         local-data: \"www.example.com 300 IN A 192.0.2.80\"\n  local-data: \"brief.example.com 1 IN A 192.0.2.81\"\n{1}\
         local-zone: \".\" refuse\nremote-control:\n  control-enable: no\n",
        folder.0.display(),
        big.collect::<String>()
    );
    let file = folder.write("unbound.conf", &text);
    let mut command = peers::command("unbound");
    command.args(["-d", "-c"]).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    let forwarder = Forwarder(command.spawn().unwrap());
    wait_for(port);
    forwarder
}

fn wait_for(port: u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let query = b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01";
    let begun = Instant::now();
    while socket.send(query).and_then(|_| socket.recv(&mut [0; 512])).is_err() {
        assert!(begun.elapsed() < PATIENCE, "the forwarder does not answer");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn start(folder: &Folder, port: u16, more: &str) -> Server {
    configure(folder, port, more);
    Server::start(folder, &["-c", "dunlin.toml"])
}

fn configure(folder: &Folder, port: u16, more: &str) {
    let zone = "$TTL 300\n@ SOA ns1 h 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\nout CNAME www.example.com.\n\
                nowhere CNAME none.example.com.\n";
    folder.write("zones/own.test.zone", zone);
    let text = format!(
        "[zones]\ndirectory = \"zones\"\n[resolver]\nenabled = true\n{more}\
         [[resolver.forward]]\nzone = \".\"\nservers = [\"127.0.0.1:{port}\"]\n"
    );
    folder.configure(&text);
}

/// What dig prints, and its words of status and flags.
fn dig(server: &Server, words: &[&str]) -> String {
    let port = server.address.port().to_string();
    let output =
        peers::command("dig").args(["-r", "-p", &port, "@127.0.0.1", "+tries=1"]).args(words).output().unwrap();
    text(&output.stdout)
}

fn counter(folder: &Folder, name: &str) -> u64 {
    let stats = text(&folder.ctl(&["--json", "stats"]).stdout);
    let value = stats.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("{name} in {stats}"));
    value.split([',', '}']).next().unwrap().parse().unwrap()
}

#[track_caller]
fn has(answer: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(answer.contains(part), "{part:?} in {answer}"));
}

#[test]
fn the_first_who_asks_waits_and_the_second_does_not() {
    let (folder, port) = (Folder::new(), free_port().port());
    let forwarder = unbound(&folder, port);
    let server = start(&folder, port, "");
    has(&dig(&server, &["www.example.com"]), &["status: NOERROR", "flags: qr rd ra;", "192.0.2.80"]);
    has(&dig(&server, &["none.example.com"]), &["status: NXDOMAIN", "SOA"]);
    assert_eq!((counter(&folder, "cache_misses"), counter(&folder, "cache_hits")), (2, 0));
    drop(forwarder);
    has(&dig(&server, &["WWW.example.com", "+tcp"]), &["status: NOERROR", "192.0.2.80", "WWW.example.com."]);
    has(&dig(&server, &["none.example.com"]), &["status: NXDOMAIN", "SOA"]);
    assert_eq!((counter(&folder, "cache_hits"), counter(&folder, "cache_hits_negative")), (1, 1));
    let kdig = peers::command("kdig")
        .args(["-p", &server.address.port().to_string(), "@127.0.0.1", "www.example.com"])
        .output();
    has(&text(&kdig.unwrap().stdout), &["status: NOERROR", "192.0.2.80"]);
}

#[test]
fn what_does_not_fit_comes_over_tcp_from_there_and_to_here() {
    let (folder, port) = (Folder::new(), free_port().port());
    let _forwarder = unbound(&folder, port);
    let server = start(&folder, port, "");
    has(&dig(&server, &["big.example.com", "TXT", "+ignore"]), &["flags: qr tc rd ra;", "ANSWER: 0"]);
    has(&dig(&server, &["big.example.com", "TXT", "+tcp"]), &["ANSWER: 40", "record 39"]);
    assert_eq!((counter(&folder, "upstream_truncated"), counter(&folder, "upstream_tcp")), (1, 1));
}

#[test]
fn who_gets_what() {
    let (folder, port) = (Folder::new(), free_port().port());
    let _forwarder = unbound(&folder, port);
    let server = start(&folder, port, "");
    has(&dig(&server, &["out.own.test"]), &["flags: qr aa rd ra;", "CNAME", "192.0.2.80"]);
    has(&dig(&server, &["nowhere.own.test"]), &["status: NXDOMAIN", "flags: qr aa rd ra;", "CNAME", "SOA"]);
    has(&dig(&server, &["out.own.test", "+norec"]), &["flags: qr aa;", "ANSWER: 1"]);
    has(&dig(&server, &["www.example.com", "+norec"]), &["status: REFUSED"]);
    has(&dig(&server, &["www.example.com", "+cd"]), &["status: NOERROR", "flags: qr rd ra cd;"]);
    let cached = text(&folder.ctl(&["cache", "dump"]).stdout);
    assert!(cached.contains("www.example.com.") && !cached.contains("own.test"), "{cached}");
    // A zone that becomes ours is ours at once, whatever the cache has of it.
    folder.write(
        "zones/example.com.zone",
        "$TTL 300\n@ SOA ns1 h 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\nwww A 192.0.2.7\n",
    );
    assert_eq!(folder.ctl(&["reload"]).status.code(), Some(0));
    eventually("our own address", || dig(&server, &["www.example.com"]).contains("192.0.2.7"));
    has(&dig(&server, &["www.example.com"]), &["flags: qr aa rd ra;"]);
}

/// What was found out while it was delegated is not what a zone of ours says of it now.
#[test]
fn a_name_that_is_delegated_no_more_is_ours_whatever_the_cache_has_of_it() {
    let (folder, port) = (Folder::new(), free_port().port());
    let _forwarder = unbound(&folder, port);
    let com = |rest: &str| format!("$TTL 300\n@ SOA ns1 h 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n{rest}\n");
    let (theirs, ours) = (com("example NS ns.example.net."), com("www.example A 192.0.2.7"));
    folder.write("ddns.key", &format!("{}\n", updates::KEY));
    let key = "[[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n";
    for by in ["an edit", "a start", "an update"] {
        folder.write("com", &theirs);
        let rules = if by == "an update" { "allow-update = [\"key:ddns\"]\n" } else { "" };
        configure(&folder, port, &format!("[[zone]]\nname = \"com\"\nfile = \"com\"\n{rules}{key}"));
        let mut server = Server::start(&folder, &["-c", "dunlin.toml"]);
        for _ in 0..2 {
            has(&dig(&server, &["www.example.com"]), &["flags: qr rd ra;", "192.0.2.80"]);
        }
        match by {
            "an update" => {
                let change = "zone com\ndel example.com NS\nadd www.example.com 60 A 192.0.2.7";
                eventually("the update", || updates::update(&server, &[], updates::DDNS, change).is_empty());
            }
            _ => drop(folder.write("com", &ours)),
        }
        if by == "an edit" {
            folder.does(&["reload", "com"]);
        } else if by == "a start" {
            server.signal("TERM");
            server.ended();
            server = Server::start(&folder, &["-c", "dunlin.toml"]);
        }
        has(&dig(&server, &["www.example.com"]), &["flags: qr aa rd ra;", "192.0.2.7"]);
        server.killed();
    }
}

/// Whatever the cache has of it.
#[test]
fn a_zone_of_ours_that_is_not_there_is_nobody_elses() {
    let (folder, port) = (Folder::new(), free_port().port());
    let _forwarder = unbound(&folder, port);
    let server = start(&folder, port, "");
    let zone = |is_from: &str| format!("[[zone]]\nname = \"example.com\"\n{is_from}\n");
    let awaited = format!("primaries = [\"127.0.0.1:{}\"]", free_port().port());
    for (is_from, is_done) in [("file = \"none\"", 1), (&*awaited, 0)] {
        has(&dig(&server, &["www.example.com"]), &["status: NOERROR", "192.0.2.80"]);
        configure(&folder, port, &zone(is_from));
        assert_eq!(folder.ctl(&["reload"]).status.code(), Some(is_done), "{is_from}");
        has(&dig(&server, &["www.example.com"]), &["status: SERVFAIL", "EDE"]);
        configure(&folder, port, "");
        folder.does(&["reload"]);
    }
    has(&dig(&server, &["www.example.com"]), &["status: NOERROR", "192.0.2.80"]);
}

#[test]
fn outsiders_see_neither_cache_nor_recursion() {
    let (folder, port) = (Folder::new(), free_port().port());
    let _forwarder = unbound(&folder, port);
    let server = start(&folder, port, "allow = [\"127.0.0.2/32\"]\n");
    has(&dig(&server, &["-b", "127.0.0.2", "www.example.com"]), &["status: NOERROR", "192.0.2.80"]);
    has(&dig(&server, &["-b", "127.0.0.1", "www.example.com"]), &["status: REFUSED", "flags: qr rd;"]);
    has(&dig(&server, &["-b", "127.0.0.1", "out.own.test"]), &["flags: qr aa rd;", "ANSWER: 1"]);
}

#[test]
fn a_forwarder_that_is_gone_costs_clients_what_is_fresh_and_comes_back() {
    let (folder, port) = (Folder::new(), free_port().port());
    let forwarder = unbound(&folder, port);
    let server = start(&folder, port, "");
    has(&dig(&server, &["brief.example.com"]), &["192.0.2.81"]);
    drop(forwarder);
    has(&dig(&server, &["other.example.com"]), &["status: SERVFAIL", "EDE: 23"]);
    has(&dig(&server, &["other.example.com"]), &["status: SERVFAIL", "EDE"]);
    eventually("what has expired", || dig(&server, &["brief.example.com"]).contains("EDE: 3 (Stale Answer)"));
    has(&dig(&server, &["brief.example.com"]), &["status: NOERROR", "192.0.2.81", "\t30\t"]);
    let _forwarder = unbound(&folder, port);
    eventually("an answer", || dig(&server, &["www.example.com"]).contains("192.0.2.80"));
}

#[test]
fn the_cache_can_be_looked_into_and_flushed() {
    let (folder, port) = (Folder::new(), free_port().port());
    let _forwarder = unbound(&folder, port);
    let server = start(&folder, port, "");
    let ctl = |words: &[&str]| {
        let output = folder.ctl(&[&["--json", "cache"], words].concat());
        (output.status.code(), text(&output.stdout))
    };
    has(&dig(&server, &["www.example.com"]), &["192.0.2.80"]);
    let (code, found) = ctl(&["lookup", "WWW.example.com"]);
    assert_eq!(code, Some(0));
    has(&found, &["\"name\":\"www.example.com.\"", "\"type\":\"A\"", "\"kind\":\"answer\"", "\"state\":\"fresh\""]);
    has(&ctl(&["stats"]).1, &["\"entries\":1,", "\"longest_probe\""]);
    assert_eq!(ctl(&["flush-tree", "com"]).0, Some(0));
    has(&dig(&server, &["www.example.com"]), &["192.0.2.80"]);
    assert_eq!(counter(&folder, "cache_misses"), 2, "it was asked for again");
    assert_eq!(ctl(&["flush", "www.example.com"]).0, Some(0));
    assert_eq!(ctl(&["flush"]).0, Some(1));
    assert!(read(&folder.0.join("log")).contains("warn answers of forwarders are not validated"));
}

/// A forwarder that a test plays itself: the question that has come, and where its reply is to go.
fn heard(forwarder: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut packet = [0; 512];
    let (n, from) = forwarder.recv_from(&mut packet).expect("a question comes");
    (packet[..n].to_vec(), from)
}

#[test]
fn who_waits_when_the_server_stops_is_answered_and_then_it_ends() {
    let folder = Folder::new();
    let path = folder.0.join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let [forwarder, client] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    [&forwarder, &client].into_iter().for_each(|socket| socket.set_read_timeout(Some(PATIENCE)).unwrap());
    configure(&folder, forwarder.local_addr().unwrap().port(), "");
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    let server = Server::start_in(&folder, &["-c", "dunlin.toml"], &environment);
    let query = b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01";
    client.send_to(query, server.address).unwrap();
    let (mut reply, from) = heard(&forwarder);
    server.signal("TERM");
    eventually("it says that it stops", || {
        let mut said = [0; 64];
        let n = manager.recv(&mut said).unwrap();
        said[..n] == *b"STOPPING=1"
    });
    (reply[2], reply[3]) = (0x81, 0x83);
    forwarder.send_to(&reply, from).unwrap();
    let mut answer = [0; 512];
    let n = client.recv(&mut answer).expect("an answer comes");
    assert!(n > 12 && answer[..2] == [0, 7] && answer[3] & 15 == 3, "{:?}", &answer[..n]);
    assert_eq!(server.ended(), Some(0));
}
