//! The server as its operator and its clients see it: real sockets, real clients.

use crate::running::{DIRECTORY, Folder, PATIENCE, Server, ZONE, at_home, command, eventually, read, text};
use difference::{fleet::free_port, peers};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const LISTEN: &[&str] = &["--listen", "127.0.0.1:0"];

fn with_zone() -> Folder {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", ZONE);
    folder
}

fn start(folder: &Folder) -> Server {
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
fn with_unwatched_zone() -> Folder {
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
    assert!(read(&folder.0.join("log")).contains("zone=broken.example."));
    let status = text(&folder.dunlin(&["ctl", "status", "--json"]).stdout);
    assert!(status.contains("\"problems\":[\"broken.example.: "), "{status}");
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

/// Files of zones, journals and operators have descriptors as long as there are any for clients.
#[test]
fn clients_over_tcp_do_not_take_the_last_open_files() {
    let folder = with_unwatched_zone();
    folder.write("example.com.zone", ZONE);
    let file = folder.0.join("dunlin.toml");
    fs::write(&file, read(&file) + "[limits]\ntcp-per-address = 10000\n").unwrap();
    let mut command = Command::new("sh");
    // Root may raise the limit again.
    let kept = "[ $(id -u) != 0 ] || set -- setpriv --bounding-set=-sys_resource -- \"$@\"";
    let serve = env!("CARGO_BIN_EXE_dunlin");
    command.args(["-c", &format!("ulimit -n 200; {kept}; exec \"$@\""), "sh", serve, "serve", "-c", "dunlin.toml"]);
    let server = Server::start_as(&folder, at_home(&folder.0, command));
    assert!(read(&folder.0.join("log")).contains("fewer open files than could be needed granted=200"));
    let clients: Vec<_> = (0..220).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    folder.write("example.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.9"));
    folder.does(&["reload", "example.com"]);
    assert_eq!(server.short(&folder, &["+tcp", "www.example.com", "A"]), "192.0.2.9\n");
    drop(clients);
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
    assert!(told.contains("warn lines of the log are lost: nobody read it lines="), "{told}");
    assert!(lines.next().unwrap().unwrap().contains("zones published"));
}

#[test]
fn sigterm_and_ctl_stop_end_the_server_cleanly() {
    let folder = with_zone();
    let server = start(&folder);
    let socket = folder.0.join(".local/share/dunlin/control.sock");
    assert!(socket.exists());
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    assert!(!socket.exists());

    let server = start(&folder);
    assert_eq!(folder.dunlin(&["ctl", "stop"]).status.code(), Some(0));
    assert_eq!(server.ended(), Some(0));
    assert_eq!(folder.dunlin(&["ctl", "status"]).status.code(), Some(2));
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
    let fetch = |path: &str| {
        let mut stream = TcpStream::connect(http).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let metrics = fetch("/metrics");
    assert!(
        metrics.starts_with("HTTP/1.1 200 OK\r\n") && metrics.contains("\ndunlin_queries_udp_total 1\n"),
        "{metrics}"
    );
    assert!(fetch("/status").contains("\"zones\":1"));
    assert!(fetch("/none").starts_with("HTTP/1.1 404 "));
}

#[test]
fn root_is_given_up_once_the_sockets_are_bound() {
    let folder = with_zone();
    let file = folder.configure(DIRECTORY);
    let config =
        read(&file).replace("user = \"\"", "user = \"nobody\"").replace("\"control.sock\"", "\"run/control.sock\"");
    fs::write(&file, config).unwrap();
    let compiled = folder.dunlin(&["compile", "-c", file.to_str().unwrap()]);
    assert_eq!(compiled.status.code(), Some(0), "{}", text(&compiled.stderr));
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    let uids = |pid: &str| -> Vec<String> {
        let status = read(&PathBuf::from(format!("/proc/{pid}/status")));
        let line = status.lines().find_map(|l| l.strip_prefix("Uid:")).unwrap().to_string();
        line.split_whitespace().map(str::to_string).collect()
    };
    let passwd = read(&PathBuf::from("/etc/passwd"));
    let nobody = passwd.lines().find_map(|l| l.strip_prefix("nobody:x:")).and_then(|l| l.split(':').next()).unwrap();
    // Started by somebody else than root, a server stays who it is.
    let own = uids("self")[0].clone();
    let expect = if own == "0" { nobody.to_string() } else { own };
    assert_eq!(uids(&server.pid().to_string()), vec![expect; 4]);
    folder.write("zones/example.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    server.signal("HUP");
    eventually("a reload without root", || server.short(&folder, &["www.example.com"]) == "192.0.2.3\n");
    assert!(folder.0.join("run/control.sock").exists());
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    assert!(
        !folder.0.join("run/control.sock").exists(),
        "the folder that was made for the socket went with it to the user"
    );
}

/// How the kernel schedules the threads of a process, by their names: `RR 1`, `nicer`, or the policy's number.
fn scheduled(pid: u32) -> HashMap<String, String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|entry| entry.unwrap().path());
    // One that ends meanwhile has nothing to tell.
    let told = threads.filter_map(|thread| {
        let [name, stat] = ["comm", "stat"].map(|file| fs::read_to_string(thread.join(file)).ok());
        let stat = stat?;
        // Fields 19, 40 and 41, of which two stand before the name's closing bracket.
        let after: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let told = match (after[38], after[16].parse::<i32>().ok()?) {
            ("2", _) => format!("RR {}", after[37]),
            (_, 1..) => "nicer".to_string(),
            (policy, _) => policy.to_string(),
        };
        Some((name?.trim_end().to_string(), told))
    });
    told.collect()
}

#[test]
fn threads_that_answer_go_before_others_where_they_may() {
    // Who stays who he is may do what he may; who becomes another user what he could allow that one.
    for (user, means) in [("", ["chrt", "--rr", "3"]), ("nobody", ["prlimit", "--rtprio=3:3", "--"])] {
        // Who was started with a nicer priority has it, whatever he may.
        let is_nicer = scheduled(std::process::id()).values().any(|how| how == "nicer");
        let may = !is_nicer && Command::new(means[0]).args(&means[1..]).arg("true").output().unwrap().status.success();
        let folder = with_zone();
        let file = folder.configure(DIRECTORY);
        fs::write(&file, read(&file).replace("user = \"\"", &format!("user = \"{user}\""))).unwrap();
        let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
        let expected = |name: &str| match name.split(' ').next() {
            Some("tcp") if may => Some("RR 1"),
            Some("udp") if may => Some("RR 2"),
            Some("stall") if may => Some("RR 3"),
            _ => None,
        };
        eventually("only those that answer, and who watches over them, to go first", || {
            let found = scheduled(server.pid());
            let is_right = |(name, how): (&String, &String)| how.strip_prefix("RR").map(|_| &**how) == expected(name);
            ["udp 0", "tcp 0", "stall"].iter().all(|name| found.contains_key(*name)) && found.iter().all(is_right)
        });
    }
}

#[test]
fn what_cannot_be_listened_on_is_explained() {
    let folder = with_zone();
    let output = folder.dunlin(&["serve", "--zones", "zones", "--listen", "192.0.2.1:5300"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("192.0.2.1:5300 cannot be listened on"), "{}", text(&output.stderr));
}

#[test]
fn a_second_server_does_not_take_the_first_ones_socket() {
    let folder = with_zone();
    let server = start(&folder);
    for (data, why) in [("data", "another server answers there"), ("", "is that of a server which runs")] {
        let data: &[&str] = if data.is_empty() { &[] } else { &["--data-dir", data] };
        let output = folder.dunlin(&[&["serve", "--zones", "zones", "--listen", "127.0.0.1:0"], data].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
}

#[test]
fn a_control_socket_takes_the_place_of_a_dead_one_and_of_nothing_else() {
    let folder = with_zone();
    let file = folder.configure(DIRECTORY);
    let file = file.to_str().unwrap();
    let socket = folder.write("control.sock", "somebody's only copy");
    let output = folder.dunlin(&["serve", "-c", file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("what is there is no socket, and is left alone"), "{}", text(&output.stderr));
    assert_eq!(read(&socket), "somebody's only copy");

    fs::remove_file(&socket).unwrap();
    let server = Server::start(&folder, &["-c", file]);
    server.signal("KILL");
    server.ended();
    assert!(socket.exists(), "nobody was left to remove it");
    let _server = Server::start(&folder, &["-c", file]);
    assert_eq!(folder.ctl(&["status"]).status.code(), Some(0));
}

#[test]
fn the_service_manager_hears_of_start_reload_and_stop() {
    let folder = with_zone();
    let path = folder.0.join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    // What it is given to keep, or rid of, is another test's matter.
    let hear = || {
        loop {
            let mut buffer = [0; 256];
            let n = manager.recv(&mut buffer).unwrap();
            if !buffer.starts_with(b"FDSTORE") {
                return text(&buffer[..n]);
            }
        }
    };
    // The file that the test has it log to.
    let log = File::create(folder.0.join("log")).unwrap().metadata().unwrap();
    let journal = format!("{}:{}", log.dev(), log.ino());
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("JOURNAL_STREAM", &journal)];
    let arguments = ["--zones", "zones", "--listen", "127.0.0.1:0"];
    let server = Server::start_in(&folder, &arguments, &environment);
    assert_eq!(hear(), "READY=1");
    server.signal("HUP");
    assert!(hear().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(hear(), "READY=1");
    server.signal("TERM");
    assert_eq!(hear(), "STOPPING=1");
    assert_eq!(server.ended(), Some(0));
    assert!(read(&folder.0.join("log")).contains("<6>info ready workers="), "as the journal wants it");
    // What a shell has passed on is another one's.
    let _server = Server::start_in(&folder, &arguments, &[("JOURNAL_STREAM", "8:1")]);
    assert!(!read(&folder.0.join("log")).contains("<6>"));
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
fn a_file_that_the_user_may_not_read_is_told_by_check_and_by_the_start() {
    let folder = with_zone();
    let zone = folder.0.join("zones/example.com.zone");
    fs::set_permissions(&zone, fs::Permissions::from_mode(0o000)).unwrap();
    let file = folder.configure(DIRECTORY);
    let config = read(&file).replace("user = \"\"", "user = \"nobody\"");
    fs::write(&file, config).unwrap();
    let check = folder.dunlin(&["check", "-c", file.to_str().unwrap()]);
    let said = text(&check.stdout);
    // Root is warned about whom it will become; anybody else cannot read the file even now.
    assert!(said.contains("cannot be read by nobody") || said.contains("Permission denied"), "{said}");
    let _server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    let log = read(&folder.0.join("log"));
    assert!(log.contains("zone=example.com.") && log.contains("Permission denied"), "{log}");
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

/// One of the server's threads is there, by its name.
fn has_thread(pid: u32, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| thread.path().join("comm"))
        .any(|comm| fs::read_to_string(comm).is_ok_and(|is| is.trim() == name))
}

/// A signal that was sent waits for the thread that takes signals.
fn is_pending(pid: u32, signal: u32) -> bool {
    let status = read(&PathBuf::from(format!("/proc/{pid}/status")));
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
    u64::from_str_radix(pending.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

#[test]
fn a_signal_ends_a_start_that_waits_and_a_second_one_whatever_waits() {
    let folder = Folder::new();
    let list = folder.0.join("list");
    let pipe = || assert!(Command::new("mkfifo").arg(&list).status().unwrap().success());
    folder.configure("[zones]\nlist = \"list\"\n");
    pipe();
    let server = Server::begin(&folder, &["-c", "dunlin.toml"]);
    eventually("somebody takes signals", || has_thread(server.pid(), "signals"));
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    assert!(read(&folder.0.join("log")).contains("stopped at once why=\"it was not ready yet\""));
    fs::remove_file(&list).unwrap();
    folder.write("list", "");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    fs::remove_file(&list).unwrap();
    pipe();
    // The reload comes first, and waits for the list.
    server.signal("HUP");
    eventually("the reload is taken", || !is_pending(server.pid(), 1));
    server.signal("TERM");
    eventually("the stop is taken", || !is_pending(server.pid(), 15));
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    assert!(read(&folder.0.join("log")).contains("stopped at once why=\"a second signal came\""));
}
