//! What zones were: listed, compared, shown, and served again.

use crate::running::{Folder, Server, eventually, read, text};
use difference::peers;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

fn zone(serial: u32, rest: &str) -> String {
    format!("$TTL 300\n@ SOA ns host {serial} 1 2 3 4\n@ NS ns\nns A 192.0.2.53\nMail MX 10 NS\n$INCLUDE more\n{rest}")
}

struct Stage {
    folder: Folder,
    server: Server,
}

impl Stage {
    fn new(more: &str) -> Stage {
        let folder = Folder::new();
        folder.configure(&format!("[zones]\nlist = \"list\"\n{more}"));
        folder.write("list", "example z\n");
        folder.write("more", "more TXT more\n");
        folder.write("z", &zone(7, "a A 192.0.2.1\n"));
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        Stage { folder, server }
    }

    /// Serves another version, and waits until it is in the history.
    fn publish(&self, serial: u32, rest: &str) {
        self.folder.write("z", &zone(serial, rest));
        self.folder.does(&["reload", "example"]);
        self.recorded(serial);
    }

    fn recorded(&self, serial: u32) {
        let line = format!("\"serial\":{serial},");
        eventually(&line, || self.folder.does(&["zone", "log", "example", "--json"]).contains(&line));
    }

    fn short(&self, name: &str) -> String {
        self.server.short(&self.folder, &[name])
    }
}

fn staged() -> Stage {
    let stage = Stage::new("");
    stage.publish(8, "a A 192.0.2.2\nb A 192.0.2.2\n");
    stage.publish(12, "b A 192.0.2.3\n");
    stage
}

#[test]
fn versions_are_listed_compared_and_shown() {
    let stage = staged();
    let log = stage.folder.does(&["zone", "log", "example"]);
    assert!(log.contains("owner file"), "{log}");
    assert_eq!(log.matches("who file changed").count(), 2, "{log}");
    assert!(log.contains("serial 8\n") && log.contains("before 8\n") && log.contains("serial 12\n"), "{log}");
    let diff = stage.folder.does(&["zone", "diff", "example", "7", "12", "--json"]);
    let expect = "\"removed\":[\"example. 300 IN SOA ns.example. host.example. 7 1 2 3 4\",\"a.example. 300 IN A 192.0.2.1\"],\
        \"added\":[\"example. 300 IN SOA ns.example. host.example. 12 1 2 3 4\",\"b.example. 300 IN A 192.0.2.3\"]";
    assert!(diff.contains(expect), "{diff}");
    let back = stage.folder.does(&["zone", "diff", "example", "12", "8", "--json"]);
    assert!(back.contains("\"removed\":[\"example. 300 IN SOA ns.example. host.example. 12 1 2 3 4\",\"b.example. 300 IN A 192.0.2.3\"]"), "{back}");
    for (words, expect) in [
        (&["zone", "show", "example"][..], ["12 1 2 3 4", "b.example. 300 IN A 192.0.2.3", "more.example. 300 IN TXT"]),
        (
            &["zone", "show", "example", "--serial", "8"],
            ["8 1 2 3 4", "b.example. 300 IN A 192.0.2.2", "more.example. 300 IN TXT"],
        ),
        (
            &["zone", "show", "example", "--serial", "7"],
            ["7 1 2 3 4", "a.example. 300 IN A 192.0.2.1", "mail.example. 300 IN MX 10"],
        ),
    ] {
        let shown = stage.folder.does(words);
        assert!(expect.iter().all(|e| shown.contains(e)), "{shown}");
    }
    stage.folder.refuses(&["zone", "show", "example", "--serial", "9"], "no way back to version 9 is kept");
    stage.folder.refuses(&["zone", "diff", "example", "1", "8"], "no way back to version 1 is kept");
    stage.folder.refuses(&["zone", "diff", "example", "x", "8"], "`x` is no serial");
    stage.folder.refuses(&["zone", "log", "nobody"], "no zone nobody. is served");
}

/// A chunk of the answer after the other, and whoever has seen enough may go.
#[test]
fn a_zone_of_any_size_is_shown() {
    let stage = Stage::new("");
    let names =
        |serial: u32| (0..150_000).map(move |i| format!("n{i} TXT \"{}\"\n", if i == 149_999 { serial } else { 1 }));
    stage.publish(8, &names(8).collect::<String>());
    stage.publish(9, &names(9).collect::<String>());
    for (serial, words) in [(9, &["zone", "show", "example"][..]), (8, &["zone", "show", "example", "--serial", "8"])] {
        let shown = stage.folder.does(words);
        let texts: std::collections::HashSet<&str> = shown.lines().filter(|line| line.contains("TXT")).collect();
        let expect = names(serial).map(|line| line.trim_end().replace(" TXT", ".example. 300 IN TXT"));
        assert!(expect.chain(["more.example. 300 IN TXT \"more\"".to_string()]).all(|line| texts.contains(&*line)));
        assert_eq!((texts.len(), shown.lines().count()), (150_001, 150_005));
        let json = stage.folder.does(&[words, &["--json"]].concat());
        assert_eq!(json.matches(" IN TXT ").count(), 150_001);
        assert!(json.ends_with("\"]}\n"));
    }
    let mut peer = UnixStream::connect(stage.folder.0.join("control.sock")).unwrap();
    peer.write_all(b"zone show example\n").unwrap();
    peer.read_exact(&mut [0; 1000]).unwrap();
    drop(peer);
    let mut peer = UnixStream::connect(stage.folder.0.join("control.sock")).unwrap();
    peer.write_all(b"zone show example\nstats\n").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let mut answers = String::new();
    peer.read_to_string(&mut answers).unwrap();
    let [zone, stats] = answers.lines().collect::<Vec<_>>()[..] else { panic!("{} lines", answers.lines().count()) };
    assert!(zone.matches(" IN TXT ").count() == 150_001 && stats.starts_with("{\"ok\":true,\"counters\""));
}

#[test]
fn the_versions_of_a_zone_that_is_not_served_are_listed() {
    let Stage { folder, server } = staged();
    server.killed();
    folder.write("z", "what is this\n");
    std::fs::remove_dir_all(folder.0.join("data/images")).unwrap();
    let _server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let log = folder.does(&["zone", "log", "example"]);
    assert!(log.contains("owner file") && log.contains("serial 8\n") && log.contains("serial 12\n"), "{log}");
    folder.refuses(&["zone", "show", "example", "--serial", "8"], "no zone example. is served");
}

/// A list may name one file for many zones; what going back writes has its own zone's names.
#[test]
fn a_file_that_other_zones_are_read_from_is_not_gone_back_in() {
    for how in ["list", "link", "include"] {
        let stage = staged();
        match how {
            "list" => _ = stage.folder.write("list", "example z\nother z\n"),
            "link" => {
                std::os::unix::fs::symlink("z", stage.folder.0.join("y")).unwrap();
                stage.folder.write("list", "example z\nother y\n");
            }
            _ => {
                stage.folder.write("y", "$INCLUDE z\n");
                stage.folder.write("list", "example z\nother y\n");
            }
        }
        stage.folder.does(&["reload"]);
        let before = read(&stage.folder.0.join("z"));
        // As editors save it, and not read again since.
        let new = stage.folder.write("new", &before);
        std::fs::rename(new, stage.folder.0.join("z")).unwrap();
        stage.folder.refuses(&["zone", "rollback", "example", "7"], "z is the file of other., too");
        assert_eq!(
            (read(&stage.folder.0.join("z")), stage.short("b.other")),
            (before, "192.0.2.3\n".to_string()),
            "{how}"
        );
        assert_eq!(stage.short("b.example"), "192.0.2.3\n", "{how}");
    }
}

/// Somebody has edited the list, and has not asked for it yet.
#[test]
fn a_zone_whose_file_is_another_by_now_is_gone_back_in_neither() {
    let stage = staged();
    stage.folder.write("new", &zone(20, "b A 192.0.2.20\n"));
    stage.folder.write("list", "example new\n");
    let before = read(&stage.folder.0.join("z"));
    stage.folder.refuses(&["zone", "rollback", "example", "7"], "it is read from another file now");
    assert_eq!(stage.short("b.example"), "192.0.2.20\n");
    assert_eq!(read(&stage.folder.0.join("z")), before);
    stage.recorded(20);
    stage.folder.does(&["zone", "rollback", "example", "7"]);
    assert_eq!(stage.short("a.example"), "192.0.2.1\n");
    assert_eq!(read(&stage.folder.0.join("z")), before);
}

#[test]
fn going_back_serves_the_old_content_under_a_new_serial_and_writes_it_into_the_file() {
    let stage = staged();
    let file = stage.folder.0.join("z");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    stage.folder.does(&["zone", "rollback", "example", "7"]);
    assert_eq!((stage.short("a.example"), stage.short("b.example")), ("192.0.2.1\n".to_string(), String::new()));
    assert!(stage.server.short(&stage.folder, &["example", "SOA"]).contains(" 13 1 2 3 4"));
    assert_eq!(stage.server.short(&stage.folder, &["more.example", "TXT"]), "\"more\"\n");
    let written = read(&file);
    assert!(written.contains(" 13 1 2 3 4") && written.contains("a.example. 300 IN A 192.0.2.1"), "{written}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    stage.recorded(13);
    assert!(stage.folder.does(&["zone", "log", "example"]).contains("who rollback to 7"));
    // Back from going back, and all of it is there after a restart.
    stage.server.signal("TERM");
    let Stage { folder, server } = stage;
    assert_eq!(server.ended(), Some(0));
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let stage = Stage { folder, server };
    assert_eq!(stage.short("a.example"), "192.0.2.1\n");
    stage.folder.does(&["zone", "rollback", "example", "12"]);
    assert_eq!((stage.short("a.example"), stage.short("b.example")), (String::new(), "192.0.2.3\n".to_string()));
    assert!(stage.server.short(&stage.folder, &["example", "SOA"]).contains(" 14 1 2 3 4"));
    let written = read(&file);
    stage.folder.refuses(&["zone", "rollback", "example", "14"], "version 14 is what is served");
    assert_eq!(read(&file), written);
}

/// What it leaves is a version that the zone has had; or an edit that was saved just then, which is nowhere else.
#[test]
fn a_rollback_that_was_killed_is_in_nobodys_way() {
    let stage = staged();
    let file = stage.folder.0.join("z").canonicalize().unwrap();
    let left = file.with_file_name(format!(".{}.back", file.file_name().unwrap().to_str().unwrap()));
    let had = read(&file);
    stage.folder.does(&["zone", "rollback", "example", "7"]);
    stage.folder.write(".z.back", &had);
    stage.folder.does(&["zone", "rollback", "example", "12"]);
    assert!(!left.exists());
    stage.folder.write(".z.back", &had);
    stage.folder.refuses(&["zone", "rollback", "example", "99"], "99");
    assert_eq!(read(&left), had, "it may be all that there is of its text");
    stage.folder.write(".z.back", &(had.clone() + "mine A 192.0.2.66\n"));
    stage.folder.refuses(&["zone", "rollback", "example", "7"], "was left by a command that did not end");
    assert!(read(&left).contains("mine"));
}

#[test]
fn going_back_leads_through_an_edit_without_a_new_serial() {
    let stage = Stage::new("");
    stage.publish(8, "a A 192.0.2.2\n");
    stage.folder.write("z", &zone(8, "c A 192.0.2.4\n"));
    stage.folder.does(&["reload", "example"]);
    let line = "\"serial\":8,\"before\":8,";
    eventually(line, || stage.folder.does(&["zone", "log", "example", "--json"]).contains(line));
    stage.folder.does(&["zone", "rollback", "example", "7"]);
    assert_eq!((stage.short("a.example"), stage.short("c.example")), ("192.0.2.1\n".to_string(), String::new()));
}

#[test]
fn half_a_request_is_none() {
    let stage = staged();
    let mut stream = UnixStream::connect(stage.folder.0.join("control.sock")).unwrap();
    stream.write_all(b"zone log example\nzone log \xFF\nzone rollback example 7").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.lines().next().is_some_and(|line| line.contains("\"versions\":[{")), "{told}");
    assert!(told.lines().nth(1).is_some_and(|line| line.contains("is not, from octet 9 on")), "{told}");
    assert!(told.lines().nth(2).is_some_and(|line| line.contains("which ends with a newline")), "{told}");
    assert!(!stage.folder.does(&["zone", "log", "example"]).contains("rollback"));
}

#[test]
fn an_edit_that_was_not_looked_at_yet_is_a_version_before_the_file_is_written_over() {
    let stage = staged();
    stage.folder.write("z", &zone(20, "c A 192.0.2.4\n"));
    stage.folder.does(&["zone", "rollback", "example", "7"]);
    assert_eq!((stage.short("a.example"), stage.short("c.example")), ("192.0.2.1\n".to_string(), String::new()));
    stage.recorded(21);
    assert!(
        stage.folder.does(&["zone", "show", "example", "--serial", "20"]).contains("c.example. 300 IN A 192.0.2.4")
    );
    // One that is wrong stays as it is.
    let wrong = zone(30, "d A 192.0.2\n");
    stage.folder.write("z", &wrong);
    stage.folder.refuses(&["zone", "rollback", "example", "12"], "its file is not what is served");
    assert_eq!(read(&stage.folder.0.join("z")), wrong);
}

#[test]
fn what_is_held_can_be_looked_at_and_stands_in_the_way_of_going_back() {
    let stage = staged();
    stage.folder.write("z", &zone(3, "b A 192.0.2.3\nc A 192.0.2.4\n"));
    stage.folder.refuses(&["reload", "example"], "the serial 3 does not follow 12");
    let diff = stage.folder.does(&["zone", "diff", "example", "--json"]);
    assert!(diff.contains("\"from\":12,\"to\":3,") && diff.contains("c.example. 300 IN A 192.0.2.4"), "{diff}");
    assert!(read(&stage.folder.0.join("log")).contains("look=\"dunlin ctl zone diff example.\""));
    stage.folder.refuses(&["zone", "rollback", "example", "7"], "its file is not what is served");
    stage.folder.does(&["zone", "publish", "--force", "example"]);
    stage.recorded(3);
    stage.folder.does(&["zone", "rollback", "example", "12"]);
    assert!(stage.server.short(&stage.folder, &["example", "SOA"]).contains(" 4 1 2 3 4"));
}

impl Stage {
    /// The zone is none of ours any more, and then is again, with this in its file.
    fn remake(&self, file: &str) {
        self.folder.write("list", "other z\n");
        self.folder.does(&["reload"]);
        self.folder.write("z", file);
        self.folder.write("list", "example z\n");
        self.folder.does(&["reload"]);
    }
}

/// What was removed between two versions of the old one is in neither of the new one.
#[test]
fn a_zone_that_is_made_anew_has_no_past() {
    let stage = staged();
    stage.remake(&zone(8, "a A 192.0.2.2\nb A 192.0.2.2\nc A 192.0.2.9\n"));
    assert_eq!(stage.folder.does(&["zone", "log", "example"]).matches("who file made anew").count(), 1);
    stage.folder.refuses(&["zone", "show", "example", "--serial", "7"], "no way back to version 7 is kept");
    stage.folder.refuses(&["zone", "rollback", "example", "7"], "no way back to version 7 is kept");
    stage.publish(9, "c A 192.0.2.9\n");
    stage.folder.refuses(&["zone", "diff", "example", "7", "9"], "no way back to version 7 is kept");
    stage.folder.does(&["zone", "rollback", "example", "8"]);
    assert_eq!((stage.short("a.example"), stage.short("c.example")), ("192.0.2.2\n".into(), "192.0.2.9\n".into()));
}

#[test]
fn a_zone_that_comes_back_as_it_went_goes_on_with_its_past() {
    let stage = staged();
    stage.remake(&zone(12, "b A 192.0.2.3\n"));
    assert!(!stage.folder.does(&["zone", "log", "example"]).contains("made anew"));
    stage.folder.does(&["zone", "rollback", "example", "7"]);
    assert_eq!(stage.short("a.example"), "192.0.2.1\n");
}

/// What the image on the disk has of the one before says nothing against it, whatever their serials and whatever is known of their past.
#[test]
fn a_zone_that_is_made_anew_is_served_after_a_kill() {
    for (has_past, serials) in
        [(true, &[3][..]), (true, &[3, 12, 13]), (false, &[3]), (false, &[7]), (false, &[6, 7, 8])]
    {
        let stage = if has_past { staged() } else { Stage::new("") };
        stage.remake(&zone(serials[0], "c A 192.0.2.9\n"));
        serials[1..].iter().for_each(|&serial| stage.publish(serial, &format!("c A 192.0.2.{serial}\n")));
        let (served, log) = (stage.short("c.example"), read(&stage.folder.0.join("log")));
        assert!(served.starts_with("192.0.2.") && !log.contains("is held"), "{log}");
        let Stage { folder, server } = stage;
        server.killed();
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        assert_eq!(server.short(&folder, &["c.example"]), served, "{}", read(&folder.0.join("log")));
        // What is edited while nobody looks is weighed like any other edit.
        drop(server);
        folder.write("z", &zone(2, "c A 192.0.2.11\n"));
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        assert_eq!(server.short(&folder, &["c.example"]), served);
    }
}

/// What the image has under its name is somebody else's.
#[test]
fn a_zone_that_is_made_anew_and_spoilt_is_not_the_one_before() {
    let stage = staged();
    stage.remake(&zone(3, "c A 192.0.2.9\n"));
    let Stage { folder, server } = stage;
    server.killed();
    folder.write("z", "@ SOA\n");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    assert_eq!(server.short(&folder, &["b.example"]), "");
    assert!(read(&folder.0.join("log")).contains("a zone is not served as its file says"));
}

/// Its past is in no image when it stops.
#[test]
fn a_zone_that_came_shortly_before_a_stop_keeps_its_past() {
    let stage = Stage::new("");
    stage.folder.write("new", &zone(1, "a A 192.0.2.1\n"));
    stage.folder.write("list", "example z\nlate new\n");
    stage.folder.does(&["reload"]);
    for serial in [2, 3] {
        stage.folder.write("new", &zone(serial, &format!("a A 192.0.2.{serial}\n")));
        stage.folder.does(&["reload", "late"]);
    }
    let Stage { folder, server } = stage;
    server.killed();
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    assert!(!folder.does(&["zone", "log", "late"]).contains("made anew"));
    folder.does(&["zone", "rollback", "late", "1"]);
    assert_eq!(server.short(&folder, &["a.late"]), "192.0.2.1\n");
}

#[test]
fn history_is_switched_off_by_its_size() {
    let stage = Stage::new("[history]\nsize = \"0\"\n");
    stage.folder.write("z", &zone(8, "b A 192.0.2.3\n"));
    stage.folder.does(&["reload", "example"]);
    stage.folder.refuses(&["zone", "rollback", "example", "7"], "no way back to version 7 is kept");
    let history = stage.folder.0.join("data/history");
    assert!(!history.exists());
    // What was kept before goes, too.
    let configure = |size: &str| {
        stage.folder.configure(&format!("[zones]\nlist = \"list\"\n[history]\nsize = \"{size}\"\n"));
        stage.folder.does(&["reload"]);
    };
    configure("1GiB");
    stage.publish(9, "b A 192.0.2.4\n");
    assert_eq!(std::fs::read_dir(&history).unwrap().count(), 1);
    configure("0");
    eventually("the next image", || std::fs::read_dir(&history).unwrap().count() == 0);
}

#[test]
fn a_signed_zone_does_not_go_back() {
    let stage = Stage::new("");
    let key =
        "@ DNSKEY 257 3 13 wMRjELoSFVEi9l4Q6bUseAiNPfzrZnyKFeVkDx+E31gXetoW099xT6B4OcicxdabF3d/Y+Ap7DaQgVzq3sEeog==\n";
    stage.publish(8, key);
    stage.publish(9, &format!("{key}b A 192.0.2.3\n"));
    stage.folder.refuses(&["zone", "rollback", "example", "8"], "it is signed");
}

#[test]
fn a_zone_that_was_signed_since_does_not_go_back_to_what_it_was_unsigned() {
    let stage = Stage::new("");
    let key =
        "@ DNSKEY 257 3 13 wMRjELoSFVEi9l4Q6bUseAiNPfzrZnyKFeVkDx+E31gXetoW099xT6B4OcicxdabF3d/Y+Ap7DaQgVzq3sEeog==\n";
    stage.publish(8, "b A 192.0.2.3\n");
    stage.publish(9, key);
    stage.folder.refuses(&["zone", "rollback", "example", "8"], "it is signed");
    assert!(read(&stage.folder.0.join("z")).contains("DNSKEY"));
}

#[test]
fn a_zone_with_a_digest_goes_back_to_one_that_fits() {
    let stage = Stage::new("");
    let digested = |serial: u32, rest: &str| {
        let (plain, file) = (stage.folder.0.join("plain"), stage.folder.0.join("z"));
        stage
            .folder
            .write("plain", &format!("$ORIGIN example.\n{}", zone(serial, rest).replace("$INCLUDE more\n", "")));
        let words = ["-Z", "-z", "1:1", "-o", "example.", "-f"];
        assert!(peers::command("ldns-signzone").args(words).args([&file, &plain]).status().unwrap().success());
        stage.folder.does(&["reload", "example"]);
        stage.recorded(serial);
    };
    digested(8, "a A 192.0.2.1\n");
    digested(9, "b A 192.0.2.1\n");
    stage.folder.does(&["zone", "rollback", "example", "8"]);
    assert_eq!(stage.short("a.example"), "192.0.2.1\n");
    assert!(read(&stage.folder.0.join("z")).contains("ZONEMD 10 1 1 "));
    let checked =
        peers::command("kzonecheck").args(["-z", "-o", "example"]).arg(stage.folder.0.join("z")).status().unwrap();
    assert!(checked.success());
}

/// Whoever makes images keeps the history of what they bring in; beside a server that would be another's.
#[test]
fn what_an_image_brings_in_that_was_made_before_a_start_is_a_version() {
    let folder = Folder::new();
    folder.configure("[[zone]]\nname = \"example\"\nfile = \"z\"\n");
    folder.write("more", "more TXT more\n");
    let write = |serial: u32| folder.write("z", &zone(serial, &format!("a A 192.0.2.{serial}\n")));
    let (compile, serve) =
        (|| folder.dunlin(&["compile", "-c", "dunlin.toml"]), || Server::start(&folder, &["-c", "dunlin.toml"]));
    write(7);
    assert_eq!(compile().status.code(), Some(0));
    let server = serve();
    write(8);
    folder.does(&["reload"]);
    write(9);
    let output = compile();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is that of a server which runs"), "{}", text(&output.stderr));
    server.signal("TERM");
    server.ended();
    assert_eq!(compile().status.code(), Some(0));
    let server = serve();
    assert_eq!(server.short(&folder, &["a.example"]), "192.0.2.9\n");
    for serial in 7..=9 {
        let shown = folder.does(&["zone", "show", "example", "--serial", &serial.to_string()]);
        assert!(shown.contains(&format!("A 192.0.2.{serial}")), "{shown}");
    }
}
