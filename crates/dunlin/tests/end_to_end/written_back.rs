//! Zones that updates have changed, written back into the files that are configured for them.

use crate::running::{Folder, Server, eventually, read, text};
use crate::updates::{DDNS, KEY, update};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

fn configuration(every: &str) -> String {
    format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\ndata-dir = \"data\"\nuser = \"\"\n[control]\nsocket = \"control.sock\"\nhttp = \"\"\n\
         [[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n\
         [zones]\ndirectory = \"zones\"\n\
         [[zone]]\nname = \"z.example\"\nfile = \"zones/z.example.zone\"\nallow-update = [\"key:ddns\"]\nwrite-back = \"{every}\"\n"
    )
}

struct Stage {
    folder: Folder,
    file: PathBuf,
}

impl Stage {
    /// A zone of so many hosts.
    fn new(every: &str, hosts: u32) -> Stage {
        let folder = Folder::new();
        folder.write("ddns.key", &format!("{KEY}\n"));
        folder.write("dunlin.toml", &configuration(every));
        let hosts: String = (0..hosts).map(|i| format!("h{i} A 192.0.2.1\n")).collect();
        let zone = format!("$TTL 300\n; a comment\n@ SOA ns hostmaster 7 1 2 3 4\n@ NS ns\nns A 192.0.2.53\n{hosts}");
        let file = folder.write("zones/z.example.zone", &zone);
        Stage { folder, file }
    }

    fn serve(&self) -> Server {
        Server::start(&self.folder, &["-c", "dunlin.toml"])
    }

    fn ctl(&self, words: &[&str]) -> String {
        text(&self.folder.dunlin(&[&["ctl", "--socket", "control.sock", "--json"], words].concat()).stdout)
    }

    fn holds(&self, what: &str) -> bool {
        read(&self.file).contains(what)
    }

    fn log(&self) -> String {
        read(&self.folder.0.join("log"))
    }

    /// Files in the making beside the zone's.
    fn unfinished(&self) -> usize {
        let names = std::fs::read_dir(self.folder.0.join("zones")).unwrap();
        names.filter(|n| n.as_ref().unwrap().file_name().to_string_lossy().ends_with(".new")).count()
    }
}

fn add(server: &Server, i: u32) {
    let line = format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}");
    assert_eq!(update(server, &[], DDNS, &line), "");
}

#[test]
fn what_updates_change_comes_into_the_file_and_is_no_edit() {
    let stage = Stage::new("1s", 3);
    std::fs::set_permissions(&stage.file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let server = stage.serve();
    (1..=3).for_each(|i| add(&server, i));
    eventually("the file", || stage.holds("n3.z.example."));
    assert!(stage.holds("n1.z.example.") && stage.holds("h2.z.example.") && stage.holds(" 10 1 2 3 4"));
    assert_eq!(std::fs::metadata(&stage.file).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(stage.unfinished(), 0);
    let check = stage.folder.dunlin(&["zone", "check", "zones/z.example.zone", "--origin", "z.example"]);
    assert_eq!(check.status.code(), Some(0), "{}", text(&check.stderr));
    add(&server, 4);
    eventually("the file again", || stage.holds("n4.z.example."));
    assert!(stage.ctl(&["reload", "z.example"]).contains("\"changed\":false"));
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    let written = read(&stage.file);
    let server = stage.serve();
    assert_eq!(server.short(&stage.folder, &["n4.z.example"]), "192.0.2.4\n");
    add(&server, 5);
    eventually("the file after a restart", || stage.holds("n5.z.example."));
    assert_ne!(read(&stage.file), written);
    assert!(!stage.log().contains("edited"), "{}", stage.log());
}

#[test]
fn what_is_owed_at_a_stop_is_written_by_the_next_start() {
    for signal in ["TERM", "KILL"] {
        let stage = Stage::new("1d", 0);
        let server = stage.serve();
        let before = read(&stage.file);
        add(&server, 1);
        server.signal(signal);
        server.ended();
        assert_eq!(read(&stage.file), before);
        let _server = stage.serve();
        eventually("the file", || stage.holds("n1.z.example."));
        let count = || stage.ctl(&["stats"]).contains("\"written_back\":1");
        eventually("its count", count);
    }
}

#[test]
fn a_file_that_was_edited_is_not_written_over() {
    let stage = Stage::new("1s", 0);
    let server = stage.serve();
    let edited = stage.folder.write("zones/z.example.zone", &(read(&stage.file) + "www A 192.0.2.80\n"));
    add(&server, 1);
    let why = "z.example.zone was edited, and is not written over";
    eventually("the complaint", || stage.ctl(&["status"]).contains(why));
    assert!(stage.log().contains("a zone is not written back") && stage.holds("www A 192.0.2.80"));
    add(&server, 2);
    server.signal("KILL");
    server.ended();
    let server = stage.serve();
    eventually("the complaint after a restart", || stage.ctl(&["status"]).contains(why));
    assert!(stage.holds("www A 192.0.2.80") && !stage.holds("n1.z.example."));
    std::fs::rename(&edited, stage.folder.0.join("aside")).unwrap();
    eventually("the file", || stage.file.exists() && stage.holds("n2.z.example."));
    eventually("no complaint", || !stage.ctl(&["status"]).contains(why));
    assert_eq!(server.short(&stage.folder, &["n1.z.example"]), "192.0.2.1\n");
}

#[test]
fn a_full_disk_leaves_the_file_as_it_is_and_is_tried_again() {
    let stage = Stage::new("1s", 2_000);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("trap '' XFSZ; exec {} serve -c dunlin.toml", env!("CARGO_BIN_EXE_dunlin"))]);
    let server = Server::start_as(&stage.folder, crate::running::at_home(&stage.folder.0, command));
    let limit = |octets: &str| {
        let limit = [format!("--pid={}", server.pid()), format!("--fsize={octets}:unlimited")];
        assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    };
    let before = read(&stage.file);
    limit("20000");
    add(&server, 1);
    eventually("the complaint", || stage.ctl(&["status"]).contains("not_written_back\":[{\"zone\":\"z.example.\""));
    assert_eq!((read(&stage.file), stage.unfinished()), (before, 0));
    assert_eq!(server.short(&stage.folder, &["n1.z.example"]), "192.0.2.1\n");
    limit("unlimited");
    eventually("the file", || stage.holds("n1.z.example."));
    eventually("no complaint", || stage.ctl(&["status"]).contains("not_written_back\":[]"));
}

#[test]
fn a_kill_while_it_is_written_leaves_a_whole_file_that_is_known() {
    let stage = Stage::new("1s", 20_000);
    for round in 1..=4 {
        let server = stage.serve();
        add(&server, round);
        // Either it is caught in the middle, or it was too quick.
        eventually("a file in the making", || stage.unfinished() > 0 || stage.holds(&format!("n{round}.z.example.")));
        server.signal("KILL");
        server.ended();
        let file = read(&stage.file);
        assert!(file.contains("h19999") && file.ends_with('\n'), "round {round}");
    }
    let server = stage.serve();
    eventually("the file", || stage.holds("n4.z.example.") && stage.unfinished() == 0);
    assert!(!stage.log().contains("edited"), "{}", stage.log());
    drop(server);
}
