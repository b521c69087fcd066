//! The server as a process: how it begins and ends, who it is, and what it takes of the machine.

use crate::running::{DIRECTORY, Folder, PATIENCE, Server, ZONE, at_home, eventually, read, text};
use crate::serving::{start, with_unwatched_zone, with_zone};
use std::collections::HashMap;
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;

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

#[test]
fn no_answer_waits_for_the_program_to_be_read() {
    let server = start(&with_zone());
    let program = fs::read_link(format!("/proc/{}/exe", server.pid())).unwrap();
    let smaps = read(&PathBuf::from(format!("/proc/{}/smaps", server.pid())));
    let (mut is_program, mut code) = (false, Vec::new());
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["Size:", kib, "kB"] if is_program => code.push((kib, "")),
            ["Rss:", kib, "kB"] if is_program => code.last_mut().unwrap().1 = kib,
            [_, access, _, _, _, path] => is_program = path == program.to_str().unwrap() && !access.contains('w'),
            _ => {}
        }
    }
    assert!(!code.is_empty() && code.iter().all(|(mapped, present)| mapped == present), "{code:?}");
}

/// Who watches it is to hear of it.
#[test]
fn a_server_that_stands_still_is_told_of() {
    let folder = with_zone();
    let server = start(&folder);
    server.signal("STOP");
    let asked = folder.dunlin(&["ctl", "status"]);
    server.signal("CONT");
    assert_eq!(asked.status.code(), Some(2));
    assert!(text(&asked.stderr).contains("the server has not answered for 10 s"), "{}", text(&asked.stderr));
    assert_eq!(folder.dunlin(&["ctl", "status"]).status.code(), Some(0));
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
fn threads_that_answer_or_carry_out_updates_go_before_others_where_they_may() {
    // Who stays who he is may do what he may; who becomes another user what he could allow that one.
    for (user, means) in [("", ["chrt", "--rr", "4"]), ("nobody", ["prlimit", "--rtprio=4:4", "--"])] {
        // Who was started with a nicer priority has it, whatever he may.
        let is_nicer = scheduled(std::process::id()).values().any(|how| how == "nicer");
        let may = !is_nicer && Command::new(means[0]).args(&means[1..]).arg("true").output().unwrap().status.success();
        let folder = with_zone();
        folder.write("ddns.key", &format!("{}\n", crate::updates::KEY));
        let file = folder.configure(
            "[[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n\
            [[zone]]\nname = \"example.com\"\nfile = \"zones/example.com.zone\"\nallow-update = [\"key:ddns\"]\n",
        );
        fs::write(&file, read(&file).replace("user = \"\"", &format!("user = \"{user}\""))).unwrap();
        let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
        let expected = |name: &str| match name.split(' ').next() {
            Some("updates" | "journal") if may => Some("RR 1"),
            Some("tcp") if may => Some("RR 2"),
            Some("udp") if may => Some("RR 3"),
            Some("stall") if may => Some("RR 4"),
            _ => None,
        };
        eventually("only those that answer or carry out updates, and who watches over them, to go first", || {
            let found = scheduled(server.pid());
            let is_right = |(name, how): (&String, &String)| how.strip_prefix("RR").map(|_| &**how) == expected(name);
            ["udp 0", "tcp 0", "updates", "journal", "stall"].iter().all(|name| found.contains_key(*name))
                && found.iter().all(is_right)
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
    server.killed();
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
