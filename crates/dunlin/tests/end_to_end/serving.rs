//! The server as its operator and its clients see it: real sockets, real clients.

use crate::running::{DIRECTORY, Folder, Server, ZONE, command, eventually, read, text};
use difference::{fleet::free_port, peers};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;

const LISTEN: &[&str] = &["--listen", "127.0.0.1:0"];

pub fn with_zone() -> Folder {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", ZONE);
    folder
}

pub fn start(folder: &Folder) -> Server {
    Server::start(folder, &[&["--zones", "zones"], LISTEN].concat())
}

#[test]
fn a_folder_of_zones_is_served_over_udp_and_tcp() {
    let folder = with_zone();
    let server = start(&folder);
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    assert_eq!(server.short(&folder, &["www.example.com", "+tcp"]), "192.0.2.2\n");
    let output = folder.dunlin(&["query", &format!("@{}", server.address), "www.example.org"]);
    assert!(text(&output.stdout).contains("status: REFUSED"), "{}", text(&output.stdout));
}

#[test]
fn dig_and_ours_agree() {
    let folder = with_zone();
    let server = start(&folder);
    let (ip, port) = (server.address.ip().to_string(), server.address.port().to_string());
    for words in [&["www.example.com", "A"][..], &["example.com", "SOA", "+tcp"], &["none.example.com", "A"]] {
        let parts = ["+noall", "+answer", "+authority"];
        let dig = peers::command("dig")
            .args(["-r", "-p", &port, &format!("@{ip}")])
            .args(words)
            .args(parts)
            .output()
            .unwrap();
        let own = folder.dunlin(&[&["query", "-p", &port, &format!("@{ip}")], words, &parts].concat());
        let records = |octets: &[u8]| -> Vec<Vec<String>> {
            let lines = text(octets);
            let is_record = |l: &&str| !l.is_empty() && !l.starts_with(';');
            lines.lines().filter(is_record).map(|l| l.split_whitespace().map(str::to_string).collect()).collect()
        };
        assert!(!records(&dig.stdout).is_empty(), "{words:?}: {}", text(&dig.stdout));
        assert_eq!(records(&own.stdout), records(&dig.stdout), "{words:?}");
    }
}

#[test]
fn sighup_brings_a_changed_zone() {
    let folder = with_zone();
    let server = start(&folder);
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    folder.write("zones/example.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    folder.write("zones/new.example.zone", ZONE);
    server.signal("HUP");
    eventually("the changed address", || server.short(&folder, &["www.example.com"]) == "192.0.2.3\n");
    eventually("the new zone", || server.short(&folder, &["www.new.example"]) == "192.0.2.2\n");
}

/// A folder with a zone in whose file nobody looks until he is told to.
pub fn with_unwatched_zone() -> Folder {
    let folder = Folder::new();
    folder.configure("[[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\n");
    folder
}

#[test]
fn of_a_long_zone_only_the_names_that_changed_are_laid() {
    let folder = with_unwatched_zone();
    let long =
        ZONE.to_string() + &(0..120_000).map(|i| format!("long-name-of-a-host-{i} A 192.0.2.7\n")).collect::<String>();
    folder.write("example.com.zone", &long);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let reload = |text: &str| {
        folder.write("example.com.zone", text);
        let output = folder.ctl(&["reload"]);
        (output.status.code(), self::text(&output.stdout), self::text(&output.stderr))
    };
    let added = long.clone() + "added A 192.0.2.8\n";
    let (_, said, _) = reload(&added);
    assert!(said.contains("changed true") && said.contains("rebuilt false"), "{said}");
    assert_eq!(server.short(&folder, &["added.example.com"]), "192.0.2.8\n");
    let (code, _, complaint) = reload(&(added.clone() + "added CNAME www\n"));
    assert_eq!(code, Some(1), "{complaint}");
    assert!(complaint.contains("added.example.com"), "{complaint}");
    assert_eq!(server.short(&folder, &["added.example.com"]), "192.0.2.8\n");
    let (_, said, _) = reload(&added.replace("long-name-of-a-host-77 A", "; A"));
    assert!(said.contains("changed true"), "{said}");
    assert_eq!(server.short(&folder, &["long-name-of-a-host-77.example.com"]), "");
    assert_eq!(server.short(&folder, &["long-name-of-a-host-78.example.com"]), "192.0.2.7\n");
}

/// What was parsed of a long file whenever it changed, by the log.
fn parsed(folder: &Folder) -> Vec<usize> {
    let log = read(&folder.0.join("log"));
    let lines = log.lines().filter(|line| line.contains("compared by its pieces"));
    let number = |line: &str| line.split_once("parsed=")?.1.split(' ').next()?.parse().ok();
    lines.filter_map(number).collect()
}

#[test]
fn of_a_long_zone_only_the_pieces_that_changed_are_parsed() {
    let folder = with_unwatched_zone();
    let lines: String =
        (0..120_000).map(|i| format!("long-name-{}-of-a-host A 192.0.2.7\n", i * 7919 % 120_000)).collect();
    let mut long = ZONE.to_string() + &lines;
    folder.write("example.com.zone", &long);
    assert!(folder.dunlin(&["compile", "-c", "dunlin.toml"]).status.success());
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let change = |server: &Server, text: &str, host: &str, expect: &str| {
        let before = parsed(&folder).len();
        folder.write("example.com.zone", text);
        let output = folder.ctl(&["reload"]);
        assert!(output.status.success(), "{}", self::text(&output.stderr));
        assert_eq!(server.short(&folder, &[&format!("{host}.example.com")]), expect);
        let parsed = parsed(&folder);
        assert!(parsed.len() > before && parsed.iter().all(|octets| octets * 4 < text.len()), "{parsed:?}");
    };
    long += "added A 192.0.2.8\n";
    change(&server, &long, "added", "192.0.2.8\n");
    long = long.replace("long-name-77-of-a-host A 192.0.2.7", "long-name-77-of-a-host A 192.0.2.9");
    change(&server, &long, "long-name-77-of-a-host", "192.0.2.9\n");
    long = long.replace("long-name-78-of-a-host A 192.0.2.7\n", "");
    change(&server, &long, "long-name-78-of-a-host", "");
    drop(server);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    assert_eq!(server.short(&folder, &["long-name-77-of-a-host.example.com"]), "192.0.2.9\n");
    long += "again A 192.0.2.8\n";
    change(&server, &long, "again", "192.0.2.8\n");
    // A new image, as a zone below another one takes, brings pieces of its own.
    folder.write("below.zone", ZONE);
    let said = folder.does(&["zone", "add", "below.example.com", "below.zone"]);
    assert!(said.contains("rebuilt true"), "{said}");
    long += "last A 192.0.2.8\n";
    change(&server, &long, "last", "192.0.2.8\n");
}

#[test]
fn a_zone_that_breaks_goes_on_as_it_was_and_holds_up_no_other() {
    let folder = with_zone();
    folder.write("zones/other.example.zone", ZONE);
    let server = start(&folder);
    folder.write("zones/example.com.zone", &ZONE.replace("192.0.2.2", "not-an-address"));
    folder.write("zones/other.example.zone", &ZONE.replace("192.0.2.2", "192.0.2.9"));
    let reload = folder.dunlin(&["ctl", "reload"]);
    assert_eq!(reload.status.code(), Some(1));
    let said = text(&reload.stderr);
    assert!(said.contains("example.com.: it goes on as it was: zones/example.com.zone:5:7:"), "{said}");
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    assert_eq!(server.short(&folder, &["www.other.example"]), "192.0.2.9\n");
    assert_eq!(folder.dunlin(&["ctl", "reload", "other.example"]).status.code(), Some(0));
    assert_eq!(folder.dunlin(&["ctl", "reload", "example.com"]).status.code(), Some(1));
    assert_eq!(folder.dunlin(&["ctl", "reload", "no.such.zone"]).status.code(), Some(1));
    assert!(read(&folder.0.join("log")).contains("error a zone is not served as its file says zone=example.com."));
}

#[test]
fn a_broken_zone_at_the_start_is_left_out_loudly() {
    let folder = with_zone();
    folder.write("zones/broken.example.zone", "@ SOA\n");
    let server = start(&folder);
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    // The start has been through with it then.
    assert_eq!(folder.dunlin(&["ctl", "reload", "example.com"]).status.code(), Some(0));
    let log = read(&folder.0.join("log"));
    assert!(log.contains("zone=broken.example.") && log.matches("Z error ").count() == 1, "once: {log}");
    let status = text(&folder.dunlin(&["ctl", "status", "--json"]).stdout);
    assert!(status.contains("\"problems\":[\"broken.example.: "), "{status}");
}

#[test]
fn of_many_wrong_zones_some_are_named_in_the_log_with_each_reload() {
    let folder = with_zone();
    (0..25).for_each(|i| drop(folder.write(&format!("zones/z{i}.zone"), "@ SOA\n")));
    let _server = start(&folder);
    let reload = folder.dunlin(&["ctl", "reload"]);
    assert_eq!(reload.status.code(), Some(1));
    assert_eq!(text(&reload.stderr).matches("the primary server is missing").count(), 25, "who asks hears of all");
    let log = read(&folder.0.join("log"));
    assert_eq!(log.matches("Z error reload why=").count(), 21, "{log}");
    assert!(log.contains("and 5 more"), "{log}");
    // Nor of those that come to be wrong.
    let folder = with_zone();
    (0..25).for_each(|i| drop(folder.write(&format!("zones/z{i}.zone"), ZONE)));
    let _server = start(&folder);
    (0..25).for_each(|i| drop(folder.write(&format!("zones/z{i}.zone"), "@ SOA\n")));
    assert_eq!(folder.dunlin(&["ctl", "reload"]).status.code(), Some(1));
    let told = |log: &str| log.matches("error a zone is not served as its file says").count();
    eventually("each of them", || {
        let log = read(&folder.0.join("log"));
        told(&log) == 25 || log.contains("error more zones are held, or not served as their files say zones=")
    });
}

#[test]
fn turns_of_answering_threads_are_timed_and_told() {
    let folder = with_zone();
    let server = start(&folder);
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    let stall = || text(&folder.dunlin(&["ctl", "stall", "--json"]).stdout);
    // A turn ends after its answer has left.
    eventually("a turn", || stall().contains("\"worst\":[{\"at\":"));
    let told = stall();
    for (before, after) in [("\"doing\":\"turn\",\"count\":", ","), ("\"doing\":\"answer\",\"count\":", ",")] {
        let count = told.split(before).nth(1).and_then(|t| t.split(after).next()).and_then(|n| n.parse::<u64>().ok());
        assert!(count.is_some_and(|n| n > 0), "{told}");
    }
    assert!(told.contains("\"thread\":\"udp "), "{told}");
    assert!(text(&folder.dunlin(&["ctl", "stall"]).stdout).contains("stall_us 10000"));
}

#[test]
fn more_connections_for_commands_than_there_are_places_are_told_so() {
    let folder = with_zone();
    let _server = start(&folder);
    let socket = folder.0.join(".local/share/dunlin/control.sock");
    let taken: Vec<_> = (0..16).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    // Each has its thread by then: the next one is accepted after them.
    let output = folder.dunlin(&["ctl", "status"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("all connections for commands are taken"), "{}", text(&output.stderr));
    drop(taken);
    eventually("a place", || folder.dunlin(&["ctl", "status"]).status.code() == Some(0));
}

#[test]
fn an_answer_that_is_cut_off_or_cannot_be_written_is_told() {
    let folder = with_zone();
    let fake = UnixListener::bind(folder.0.join("fake.sock")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut peer, _) = fake.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&peer).read_line(&mut line).unwrap();
        peer.write_all(b"{\"ok\":true,\"reload\":{\"chan").unwrap();
    });
    let output = folder.dunlin(&["ctl", "--socket", "fake.sock", "reload"]);
    server.join().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""));
    assert!(text(&output.stderr).contains("in the middle of its answer"), "{}", text(&output.stderr));

    let check = ["zone", "check", "zones/example.com.zone", "--origin", "example.com"];
    let into = |out: Stdio| {
        let mut command = command(&folder.0);
        let output =
            command.args(check).stdout(out).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(into(full.into()), (Some(2), "dunlin: No space left on device (os error 28)\n".to_string()));
    let nowhere = File::options().write(true).open("/dev/full").unwrap();
    let unsaid = command(&folder.0).args(["zone", "check", "no file", "--origin", "z"]).stderr(nowhere).status();
    assert_eq!(unsaid.unwrap().code(), Some(2), "nobody can be told, and it does not panic");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(into(writer.into()), (Some(0), String::new()), "who reads has seen enough");
    let mut piped = command(&folder.0);
    piped.args(["zone", "check", "/dev/stdin", "--origin", "example.com"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut piped = piped.spawn().unwrap();
    piped.stdin.take().unwrap().write_all(ZONE.as_bytes()).unwrap();
    let output = piped.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

/// As of a service whose journal hangs.
#[test]
fn nobody_waits_for_who_does_not_read_the_log() {
    let folder = with_zone();
    folder.configure(DIRECTORY);
    let (reader, writer) = std::io::pipe().unwrap();
    let pipe = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut full = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(pipe).unwrap();
    while full.write(b"\n").is_ok() {}
    let mut command = command(&folder.0);
    command.args(["serve", "-c", "dunlin.toml"]);
    let server = Server::start_telling(&folder, command, writer);
    let change = |last: &str| {
        folder.write("zones/example.com.zone", &ZONE.replace("192.0.2.2", last));
        folder.does(&["reload"]);
        assert_eq!(server.short(&folder, &["www.example.com"]), format!("{last}\n"));
    };
    change("192.0.2.3");
    let mut lines = BufReader::new(reader).lines();
    assert!(lines.by_ref().take(2 * 4096).all(|line| line.unwrap().is_empty()));
    change("192.0.2.4");
    let told = lines.find(|line| !line.as_ref().unwrap().is_empty()).unwrap().unwrap();
    assert!(told.contains("warn lines of the log are lost: nobody read it, or its disk was full lines="), "{told}");
    assert!(lines.next().unwrap().unwrap().contains("zones published"));
}

#[test]
fn a_zone_that_came_by_its_name_goes_with_its_table() {
    for (rules, how) in
        [("", &["reload", "x.test"][..]), ("", &["reload"]), ("allow-update = [\"key:k\"]\n", &["reload", "x.test"])]
    {
        let folder = Folder::new();
        folder.write("k.key", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n");
        for name in ["z", "x"] {
            folder.write_long_ago(name, ZONE);
        }
        let key = "[[key]]\nname = \"k\"\nsecret-file = \"k.key\"\n";
        let alone = format!("{key}[[zone]]\nname = \"z.test\"\nfile = \"z\"\n");
        folder.configure(&alone);
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        folder.configure(&format!("{alone}[[zone]]\nname = \"x.test\"\nfile = \"x\"\n{rules}"));
        folder.does(&["reload", "x.test"]);
        assert_eq!(server.short(&folder, &["www.x.test"]), "192.0.2.2\n");
        folder.configure(&alone);
        match how {
            ["reload"] => _ = folder.does(how),
            _ => folder.refuses(how, "no zone x.test is configured"),
        }
        let asked = folder.dunlin(&["query", &format!("@{}", server.address), "www.x.test"]);
        assert!(text(&asked.stdout).contains("REFUSED"), "{how:?} {rules}");
    }
}

#[test]
fn a_start_with_unchanged_sources_maps_the_image_that_is_there() {
    let folder = with_zone();
    // What a list names is not watched: nobody but `reload` looks at it.
    let file = folder.configure("[zones]\nlist = \"zones.list\"\n");
    let list = |zones: &[&str]| {
        let line = |zone: &&str| format!("{zone} zones/{zone}.zone\n");
        folder.write("zones.list", &zones.iter().map(line).collect::<String>());
    };
    list(&["example.com"]);
    let file = file.to_str().unwrap();
    let image = folder.0.join("data/images/zones.image");
    // A file written a moment ago is not believed to be settled.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    for name in ["zones/example.com.zone", "zones.list"] {
        File::open(folder.0.join(name)).unwrap().set_modified(old).unwrap();
    }
    let compiled = folder.dunlin(&["compile", "-c", file]);
    assert_eq!(compiled.status.code(), Some(0), "{}", text(&compiled.stderr));
    let made = fs::read(&image).unwrap();
    let server = Server::start(&folder, &["-c", file]);
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    assert_eq!(fs::read(&image).unwrap(), made, "each building has another seed");
    let reload = folder.dunlin(&["ctl", "-c", file, "reload", "--json"]);
    assert!(text(&reload.stdout).contains("\"changed\":false"), "{}", text(&reload.stdout));
    folder.write("zones/example.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    let reload = folder.dunlin(&["ctl", "-c", file, "reload", "--json"]);
    assert!(text(&reload.stdout).contains("\"changed\":true,\"rebuilt\":false"), "{}", text(&reload.stdout));
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.3\n");
    assert_eq!(fs::read(&image).unwrap(), made, "one changed zone is laid over the image that is there");
    // So is a zone that is new, and one that is no more.
    folder.write("zones/new.example.zone", &ZONE.replace("192.0.2.2", "192.0.2.4"));
    list(&["example.com", "new.example"]);
    let reload = folder.dunlin(&["ctl", "-c", file, "reload", "--json"]);
    assert!(text(&reload.stdout).contains("\"changed\":true,\"rebuilt\":false"), "{}", text(&reload.stdout));
    assert!(text(&reload.stdout).contains("\"zones\":2"), "{}", text(&reload.stdout));
    assert_eq!(server.short(&folder, &["www.new.example"]), "192.0.2.4\n");
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.3\n");
    list(&["new.example"]);
    assert_eq!(folder.dunlin(&["ctl", "-c", file, "reload"]).status.code(), Some(0));
    let refused = |server: &Server| {
        let asked = folder.dunlin(&["query", &format!("@{}", server.address), "www.example.com"]);
        text(&asked.stdout).contains("REFUSED")
    };
    assert!(refused(&server));
    assert_eq!(server.short(&folder, &["www.new.example"]), "192.0.2.4\n");
    assert_eq!(fs::read(&image).unwrap(), made);
    drop(server);
    // Of so few zones a start knows before its first answer what has become of them.
    let server = Server::start(&folder, &["-c", file]);
    assert!(refused(&server));
    assert_eq!(server.short(&folder, &["www.new.example"]), "192.0.2.4\n");
}

#[test]
fn many_zones_are_answered_from_the_image_and_compared_after() {
    let folder = with_zone();
    let file = folder.configure("[zones]\nlist = \"zones.list\"\n");
    let file = file.to_str().unwrap();
    let many: String = (0..1200).map(|i| format!("z{i}.example shared\n")).collect();
    folder.write("shared", ZONE);
    folder.write("own", ZONE);
    folder.write("zones.list", &format!("{many}own.example own\nold.example own\n"));
    let settle = |name: &str| {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        File::open(folder.0.join(name)).unwrap().set_modified(old).unwrap();
    };
    ["shared", "own", "zones.list"].into_iter().for_each(settle);
    assert_eq!(folder.dunlin(&["compile", "-c", file]).status.code(), Some(0));
    let image = folder.0.join("data/images/zones.image");
    let made = fs::read(&image).unwrap();
    folder.write("own", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    folder.write("zones.list", &format!("own.example own\n{many}new.example own\n"));
    let server = Server::start(&folder, &["-c", file]);
    assert_eq!(server.short(&folder, &["www.z7.example"]), "192.0.2.2\n");
    let first = server.short(&folder, &["www.own.example"]);
    assert!(["192.0.2.2\n", "192.0.2.3\n"].contains(&&*first), "{first}");
    eventually("the new list", || server.short(&folder, &["www.new.example"]) == "192.0.2.3\n");
    assert_eq!(server.short(&folder, &["www.own.example"]), "192.0.2.3\n");
    let at = format!("@{}", server.address);
    let answer = text(&folder.dunlin(&["query", &at, "www.old.example"]).stdout);
    assert!(answer.contains("REFUSED"), "{answer}");
    let status = || text(&folder.dunlin(&["ctl", "-c", file, "status", "--json"]).stdout);
    eventually("their number", || status().contains("\"zones\":1202"));
    assert_eq!(fs::read(&image).unwrap(), made, "few zones are laid over the image that is there");
    // A zone's own reload sees what the list says now.
    folder.write("zones.list", &format!("{many}new.example shared\n"));
    assert_eq!(folder.dunlin(&["ctl", "-c", file, "reload", "new.example"]).status.code(), Some(0));
    assert_eq!(server.short(&folder, &["www.new.example"]), "192.0.2.2\n");
    assert_eq!(server.short(&folder, &["www.own.example"]), "192.0.2.3\n", "nobody asked for that");
    assert_eq!(folder.dunlin(&["ctl", "-c", file, "reload"]).status.code(), Some(0));
    assert!(text(&folder.dunlin(&["query", &at, "www.own.example"]).stdout).contains("REFUSED"));
    // A list that is wrong changes nothing, and is complained of.
    folder.write("zones.list", "new.example\n");
    let wrong = folder.dunlin(&["ctl", "-c", file, "reload"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("the zone `new.example` has no file"), "{}", text(&wrong.stderr));
    assert_eq!(server.short(&folder, &["www.new.example"]), "192.0.2.2\n");
}

#[test]
fn who_is_not_admitted_is_refused_and_a_reload_changes_that() {
    let folder = with_zone();
    let zone = |allow| {
        format!("[[zone]]\nname = \"example.com\"\nfile = \"zones/example.com.zone\"\nallow-query = [\"{allow}\"]\n")
    };
    let file = folder.configure(&zone("192.0.2.0/24"));
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    let at = format!("@{}", server.address);
    let refused =
        |expect| text(&folder.dunlin(&["query", &at, "www.example.com"]).stdout).contains("REFUSED") == expect;
    assert!(refused(true));
    folder.configure(&zone("127.0.0.0/8"));
    server.signal("HUP");
    eventually("admission", || refused(false));
}

/// Beside many zones it would take seconds.
#[test]
fn who_is_admitted_changes_without_a_new_image() {
    let folder = Folder::new();
    ["open", "private"].iter().for_each(|name| drop(folder.write(name, ZONE)));
    let open = "[[zone]]\nname = \"open.example\"\nfile = \"open\"\n";
    let admit = |whom: &str| {
        let private = "[[zone]]\nname = \"private.example\"\nfile = \"private\"\nallow-query";
        folder.configure(&format!("{open}{private} = [\"{whom}\"]\n"))
    };
    admit("192.0.2.0/24");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    folder.write("open", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    folder.does(&["reload", "open.example"]);
    let image = || fs::metadata(folder.0.join("data/images/zones.image")).unwrap().ino();
    let before = image();
    for (whom, words, expect) in [
        ("127.0.0.0/8", &["reload"][..], "192.0.2.2\n"),
        ("192.0.2.0/24", &["reload", "open.example"], ""),
        ("127.0.0.0/8", &["reload", "private.example"], "192.0.2.2\n"),
        ("192.0.2.0/24", &["reload", "private.example"], ""),
    ] {
        admit(whom);
        folder.does(words);
        assert_eq!(server.short(&folder, &["www.private.example"]), expect, "{whom}");
        assert_eq!(server.short(&folder, &["www.open.example"]), "192.0.2.3\n", "what was laid over the image");
        assert_eq!(image(), before, "{whom}");
    }
    // What was for some stays theirs, though the zone is another, and for all, from now on.
    folder.write("public", &ZONE.replace("192.0.2.2", "192.0.2.99"));
    folder.configure(&format!("{open}[[zone]]\nname = \"private.example\"\nfile = \"public\"\n"));
    folder.does(&["reload", "open.example"]);
    assert_ne!(server.short(&folder, &["www.private.example"]), "192.0.2.2\n");
}

#[test]
fn a_private_zone_that_is_gone_is_not_served_to_all_by_a_reload_of_another() {
    let folder = Folder::new();
    ["open", "private"].iter().for_each(|name| drop(folder.write(name, ZONE)));
    let open = "[[zone]]\nname = \"open.example\"\nfile = \"open\"\n";
    folder.configure(&format!(
        "{open}[[zone]]\nname = \"private.example\"\nfile = \"private\"\nallow-query = [\"192.0.2.0/24\"]\n"
    ));
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    folder.configure(open);
    folder.write("open", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    folder.does(&["reload", "open.example"]);
    assert_eq!(server.short(&folder, &["www.open.example"]), "192.0.2.3\n");
    let answer = text(&folder.dunlin(&["query", &format!("@{}", server.address), "www.private.example"]).stdout);
    assert!(answer.contains("status: REFUSED"), "{answer}");
}

/// Its list may have been the server's; and what was taken out of a zone that is for others from now on is shown to none of them.
#[test]
fn what_others_may_see_by_a_reload_of_another_zone_is_what_files_say_now() {
    let folder = Folder::new();
    ["open", "private", "gone"].iter().for_each(|name| drop(folder.write_long_ago(name, ZONE)));
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}.example\"\nfile = \"{name}\"\n");
    let none = "allow-query = [\"192.0.2.0/24\"]\n";
    let by_server = |list: &str, zones: &str| {
        let head = read(&folder.configure("")).replace("[server]\n", &format!("[server]\n{list}"));
        folder.write("dunlin.toml", &format!("{head}{zones}"));
    };
    let all = zone("open") + &zone("private") + &zone("gone");
    by_server(none, &all);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let says = |zone: &str| {
        let name = format!("www.{zone}.example");
        text(&folder.dunlin(&["query", &format!("@{}", server.address), &name]).stdout)
    };
    assert!(says("open").contains("status: REFUSED"));
    let after = |n: u8| folder.write_long_ago("private", &ZONE.replace("192.0.2.2", &format!("192.0.2.{n}")));
    after(3);
    by_server("", &(zone("open") + &zone("private")));
    folder.does(&["reload", "open.example"]);
    assert!(says("open").contains("192.0.2.2") && says("private").contains("192.0.2.3"));
    assert!(says("gone").contains("status: REFUSED"), "{}", says("gone"));
    folder.configure(&(zone("open") + &zone("private") + none));
    folder.does(&["reload", "open.example"]);
    assert!(says("private").contains("status: REFUSED"));
    after(4);
    folder.configure(&(zone("open") + &zone("private")));
    folder.does(&["reload", "open.example"]);
    assert!(says("private").contains("192.0.2.4"), "{}", says("private"));
}

/// A list has had it served before.
#[test]
fn what_others_may_see_of_a_zone_that_is_configured_by_itself_now_is_what_its_file_says() {
    let folder = Folder::new();
    ["open", "inside", "outside"].iter().for_each(|name| drop(folder.write_long_ago(name, ZONE)));
    folder.write("list", "listed.example inside\n");
    folder.write_long_ago("outside", &ZONE.replace("192.0.2.2", "192.0.2.9"));
    let before = "[zones]\nlist = \"list\"\n[[zone]]\nname = \"open.example\"\nfile = \"open\"\n";
    let head = read(&folder.configure("")).replace("[server]\n", "[server]\nallow-query = [\"192.0.2.0/24\"]\n");
    folder.write("dunlin.toml", &format!("{head}{before}"));
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let says = || text(&folder.dunlin(&["query", &format!("@{}", server.address), "www.listed.example"]).stdout);
    assert!(says().contains("status: REFUSED"));
    let now = "[[zone]]\nname = \"listed.example\"\nfile = \"outside\"\nallow-query = [\"any\"]\n";
    folder.write("dunlin.toml", &format!("{head}{before}{now}"));
    folder.does(&["reload", "open.example"]);
    assert!(says().contains("192.0.2.9"), "{}", says());
}

/// Nor by what nobody has asked for, once there was no image of the others.
#[test]
fn a_private_zone_that_is_gone_is_served_to_nobody_when_a_folder_changes() {
    let folder = Folder::new();
    ["private", "zones/other.example.zone"].iter().for_each(|name| drop(folder.write(name, ZONE)));
    folder.configure(&format!(
        "{DIRECTORY}[[zone]]\nname = \"private.example\"\nfile = \"private\"\nallow-query = [\"192.0.2.0/24\"]\n"
    ));
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    folder.configure(DIRECTORY);
    let [images, away] = ["data/images", "data/away"].map(|name| folder.0.join(name));
    fs::rename(&images, &away).unwrap();
    fs::write(&images, "").unwrap();
    folder.refuses(&["reload", "other.example"], "no new image");
    fs::remove_file(&images).unwrap();
    fs::rename(&away, &images).unwrap();
    folder.write("zones/other.example.zone", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    eventually("an edit", || server.short(&folder, &["www.other.example"]) == "192.0.2.3\n");
    let answer = text(&folder.dunlin(&["query", &format!("@{}", server.address), "www.private.example"]).stdout);
    assert!(answer.contains("status: REFUSED"), "{answer}");
}

#[test]
fn a_broken_configuration_on_reload_changes_nothing() {
    let folder = with_zone();
    let file = folder.configure(DIRECTORY);
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    folder.write("dunlin.toml", "[srver]\n");
    let reload = folder.ctl(&["reload"]);
    assert_eq!(reload.status.code(), Some(1));
    assert!(text(&reload.stderr).contains("did you mean `server`?"), "{}", text(&reload.stderr));
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
}

#[test]
fn metrics_and_status_over_http() {
    let folder = with_zone();
    // Below those that the system gives away; should somebody take it, the start fails and says so.
    let http = free_port();
    let file = folder.configure(DIRECTORY);
    let config = read(&file).replace("http = \"\"", &format!("http = \"{http}\""));
    fs::write(&file, config).unwrap();
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    server.short(&folder, &["www.example.com"]);
    let ask = |head: &str| {
        let mut stream = TcpStream::connect(http).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let fetch = |path: &str| ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    let metrics = fetch("/metrics");
    assert!(
        metrics.starts_with("HTTP/1.1 200 OK\r\n") && metrics.contains("\ndunlin_queries_udp_total 1\n"),
        "{metrics}"
    );
    assert!(fetch("/status").contains("\"zones\":1"));
    assert!(fetch("/none").starts_with("HTTP/1.1 404 "));
    let post = ask("POST /metrics HTTP/1.1\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("\r\nAllow: GET, HEAD\r\n"), "{post}");
    assert!(ask("GET /metrics\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = "a".repeat(8192 - "GET / HTTP/1.1\r\n".len());
    assert!(ask(&format!("GET / HTTP/1.1\r\n{long}")).starts_with("HTTP/1.1 431 "));
}

/// A request that says more than can be meant is not carried out.
#[test]
fn what_stands_behind_a_request_is_complained_of() {
    let folder = with_zone();
    let server = start(&folder);
    let socket = folder.0.join(".local/share/dunlin/control.sock");
    let mut lines = BufReader::new(UnixStream::connect(socket).unwrap());
    for verb in ["status", "stats", "stall", "stop"] {
        writeln!(lines.get_mut(), "{verb} now").unwrap();
        let mut answer = String::new();
        lines.read_line(&mut answer).unwrap();
        assert!(answer.contains(&format!("`{verb}` is all of a request, and `now` stands behind it")), "{answer}");
    }
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
}

#[test]
fn an_image_that_was_replaced_is_let_go_without_a_query() {
    let folder = with_zone();
    let server = start(&folder);
    folder.write("zones/example.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    assert_eq!(folder.dunlin(&["ctl", "reload"]).status.code(), Some(0));
    let maps = PathBuf::from(format!("/proc/{}/maps", server.pid()));
    let images = || read(&maps).lines().filter(|l| l.contains("zones.image")).map(str::to_string).collect::<Vec<_>>();
    eventually("the old image unmapped", || images().len() == 1 && !images()[0].contains("(deleted)"));
}

#[test]
fn ipv6_is_served_like_ipv4() {
    let folder = with_zone();
    let server = Server::start(&folder, &["--zones", "zones", "--listen", "[::1]:0", "--listen", "127.0.0.1:0"]);
    assert!(server.address.is_ipv6());
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    assert_eq!(server.short(&folder, &["www.example.com", "+tcp"]), "192.0.2.2\n");
}

#[test]
fn what_does_not_fit_comes_over_tcp() {
    let folder = Folder::new();
    let many: String = (0..100).map(|i| format!("many A 192.0.2.{i}\n")).collect();
    folder.write("zones/example.com.zone", &format!("{ZONE}{many}"));
    let server = start(&folder);
    let at = format!("@{}", server.address);
    let whole = text(&folder.dunlin(&["query", &at, "many.example.com"]).stdout);
    assert!(whole.contains(";; Truncated, retrying in TCP mode.") && whole.contains("ANSWER: 100,"), "{whole}");
    let cut = text(&folder.dunlin(&["query", &at, "many.example.com", "+ignore"]).stdout);
    assert!(cut.contains("flags: qr aa tc rd;") && cut.contains("ANSWER: 0,"), "{cut}");
    let large =
        text(&folder.dunlin(&["query", &at, "many.example.com", "+noall", "+answer", "+tcp", "+noedns"]).stdout);
    assert_eq!(large.lines().filter(|l| l.contains("192.0.2.")).count(), 100);
}

#[test]
fn what_the_operator_calls_the_server_is_told() {
    let folder = with_zone();
    let file = folder.configure(DIRECTORY);
    let named = "nsid = \"ns1.test\"\nversion = \"v\"\nidentity = \"id\"\nworkers = 1\n[control]";
    let config = read(&file).replace("[control]", named);
    fs::write(&file, config).unwrap();
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    assert_eq!(server.short(&folder, &["version.bind", "CH", "TXT"]), "\"v\"\n");
    assert_eq!(server.short(&folder, &["id.server", "CH", "TXT"]), "\"id\"\n");
    let at = format!("@{}", server.address);
    let full = text(&folder.dunlin(&["query", &at, "www.example.com", "+nsid", "+zoneversion"]).stdout);
    assert!(full.contains("; NSID: 6e 73 31 2e 74 65 73 74 (\"ns1.test\")"), "{full}");
    assert!(full.contains("; ZONEVERSION: 1 (SOA-SERIAL of the zone 2 labels deep)"), "{full}");
}

#[test]
fn records_take_turns_where_the_operator_wants_it() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", &format!("{ZONE}two A 192.0.2.3\ntwo A 192.0.2.4\n"));
    let file = folder.configure(DIRECTORY);
    let config = read(&file).replace("[control]", "rotate-rrsets = true\n[control]");
    fs::write(&file, config).unwrap();
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    for first in ["192.0.2.3\n", "192.0.2.4\n"] {
        eventually(first, || server.short(&folder, &["two.example.com"]).starts_with(first));
    }
}

/// Else the zone above it would answer for its names, or somebody outside.
#[test]
fn for_a_zone_that_was_never_good_nobody_answers() {
    let folder = Folder::new();
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}\"\n");
    let (up, both) = (zone("example.com"), zone("example.com") + &zone("sub.example.com"));
    let resolver =
        "[resolver]\nallow = [\"127.0.0.1\"]\n[[resolver.forward]]\nzone = \".\"\nservers = [\"192.0.2.1\"]\n";
    let wrong = ZONE.replace("192.0.2.2", "192.0.2");
    folder.write_long_ago("example.com", &(ZONE.to_string() + "alias CNAME www.sub\n"));
    folder.write_long_ago("sub.example.com", &wrong);
    folder.configure(&both);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let says = |server: &Server, name: &str| {
        let name = format!("{name}.example.com");
        text(&folder.dunlin(&["query", &format!("@{}", server.address), &name, "+rec"]).stdout)
    };
    let is_unserved = |server: &Server| {
        let said = says(server, "www.sub");
        said.contains("status: SERVFAIL") && said.contains("Invalid Data")
    };
    assert!(is_unserved(&server), "{}", says(&server, "www.sub"));
    assert!(says(&server, "www").contains("192.0.2.2"));
    assert!(says(&server, "www.sub2").contains("status: NXDOMAIN"));
    let alias = says(&server, "alias");
    assert!(alias.contains("status: NOERROR") && alias.contains("CNAME") && !alias.contains("SOA"), "{alias}");
    let ds = folder.dunlin(&["query", &format!("@{}", server.address), "sub.example.com", "DS"]);
    assert!(text(&ds.stdout).contains("status: NXDOMAIN"), "it stands above the cut");
    // It goes, and comes again.
    folder.configure(&up);
    folder.does(&["reload"]);
    assert!(says(&server, "www.sub").contains("status: NXDOMAIN"));
    folder.configure(&(both.clone() + resolver));
    folder.refuses(&["reload"], "sub.example.com");
    assert!(is_unserved(&server), "{}", says(&server, "www.sub"));
    assert!(says(&server, "alias").contains("status: NOERROR"), "the resolver comes with the next start");
    assert!(folder.does(&["stats"]).contains("servfail_unserved 2\n"), "{}", folder.does(&["stats"]));
    // Also after a start, and where outsiders might be asked.
    server.signal("TERM");
    server.ended();
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let alias = says(&server, "alias");
    assert!(alias.contains("status: SERVFAIL"), "{alias}");
    assert!(says(&server, "www").contains("192.0.2.2"));
    folder.configure(&(zone("sub.example.com") + resolver));
    server.signal("TERM");
    server.ended();
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    assert!(is_unserved(&server), "{}", says(&server, "www.sub"));
    folder.write_long_ago("sub.example.com", ZONE);
    folder.does(&["reload", "sub.example.com"]);
    assert!(says(&server, "www.sub").contains("192.0.2.2"));
    folder.write_long_ago("sub.example.com", &wrong);
    folder.refuses(&["reload"], "sub.example.com");
    assert!(says(&server, "www.sub").contains("192.0.2.2"), "it goes on as it was");
}
