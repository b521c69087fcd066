//! Zones that updates have changed, written back into the files that are configured for them.

use crate::running::{Folder, Server, eventually, read, text};
use crate::updates::{self, DDNS, KEY, update};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// `every`: empty for a zone that is not written back.
pub fn configuration(every: &str) -> String {
    let write_back = if every.is_empty() { String::new() } else { format!("write-back = \"{every}\"\n") };
    format!(
        "[[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n\
         [zones]\ndirectory = \"zones\"\n\
         [[zone]]\nname = \"z.example\"\nfile = \"zones/z.example.zone\"\nallow-update = [\"key:ddns\"]\n{write_back}"
    )
}

pub struct Stage {
    pub folder: Folder,
    pub file: PathBuf,
}

impl Stage {
    /// A zone of so many hosts.
    pub fn new(every: &str, hosts: u32) -> Stage {
        let folder = Folder::new();
        folder.write("ddns.key", &format!("{KEY}\n"));
        folder.configure(&configuration(every));
        let hosts: String = (0..hosts).map(|i| format!("h{i} A 192.0.2.1\n")).collect();
        let zone = format!("$TTL 300\n; a comment\n@ SOA ns hostmaster 7 1 2 3 4\n@ NS ns\nns A 192.0.2.53\n{hosts}");
        let file = folder.write("zones/z.example.zone", &zone);
        Stage { folder, file }
    }

    pub fn serve(&self) -> Server {
        Server::start(&self.folder, &["-c", "dunlin.toml"])
    }

    pub fn ctl(&self, words: &[&str]) -> String {
        text(&self.folder.ctl(&[&["--json"], words].concat()).stdout)
    }

    pub fn holds(&self, what: &str) -> bool {
        read(&self.file).contains(what)
    }

    /// Writes the file as careful editors do, and as if it had been some time ago.
    pub fn edit(&self, text: &str) {
        let new = self.folder.write_long_ago("zones/.edited", text);
        std::fs::rename(new, &self.file).unwrap();
    }

    pub fn log(&self) -> String {
        read(&self.folder.0.join("log"))
    }

    /// Files in the making beside the zone's.
    fn unfinished(&self) -> usize {
        let names = std::fs::read_dir(self.folder.0.join("zones")).unwrap();
        names.filter(|n| n.as_ref().unwrap().file_name().to_string_lossy().ends_with(".new")).count()
    }
}

pub fn add(server: &Server, i: u32) {
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
fn a_kill_between_remembering_what_is_written_and_its_name_leaves_the_file_owed() {
    for is_aside in [false, true] {
        let stage = Stage::new("1d", 0);
        stage.edit(&read(&stage.file));
        let server = stage.serve();
        add(&server, 1);
        server.killed();
        let (aside, origin) = (".z.example.zone.aside", stage.folder.0.join("data/journal/z.example.origin"));
        let written = stage.folder.write(&format!("zones/{aside}"), "what was about to take the name");
        let metadata = std::fs::metadata(&written).unwrap();
        let nanos = metadata.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        let about = format!("written 8 {}-{nanos}-{}\n", metadata.len(), metadata.ino());
        std::fs::write(&origin, read(&origin).replace("base ", &format!("{about}base "))).unwrap();
        assert!(read(&origin).contains(&about));
        if !is_aside {
            std::fs::remove_file(written).unwrap();
        }
        let _server = stage.serve();
        eventually("the file", || stage.holds("n1.z.example."));
        assert!(!stage.log().contains("edited"), "{}", stage.log());
    }
}

#[test]
fn what_went_aside_goes_also_where_the_zone_leaves_its_updates_just_then() {
    let stage = Stage::new("1s", 0);
    let server = stage.serve();
    add(&server, 1);
    eventually("the file", || stage.holds("n1.z.example."));
    stage.folder.configure(&configuration("").replace("allow-update", "# allow-update"));
    stage.folder.does(&["reload"]);
    eventually("nothing beside it", || !stage.file.with_file_name(".z.example.zone.aside").exists());
    assert!(stage.holds("n1.z.example."));
}

#[test]
fn an_edit_is_taken_in_beside_what_updates_have_changed() {
    let stage = Stage::new("1d", 2);
    let server = stage.serve();
    let original = read(&stage.file);
    add(&server, 1);
    // In a folder that is watched: without a reload, and without a new serial.
    stage.edit(&(original.replace("h1 A 192.0.2.1", "H1 A 192.0.2.11") + "www MX 10 Mail\n"));
    eventually("the edit", || server.short(&stage.folder, &["h1.z.example"]) == "192.0.2.11\n");
    assert_eq!(server.short(&stage.folder, &["n1.z.example"]), "192.0.2.1\n");
    eventually("the file", || stage.holds("n1.z.example.") && stage.holds("www.z.example."));
    assert!(stage.holds(" 9 1 2 3 4"), "{}", read(&stage.file));
    assert!(stage.ctl(&["zone", "log", "z.example"]).contains("file edited"));
    // While the server is down, with a serial of the operator's; updates are in the journal only.
    add(&server, 2);
    server.killed();
    stage.edit(&read(&stage.file).replace(" 9 1 2 3 4", " 2026112000 1 2 3 4").replace("192.0.2.11", "192.0.2.12"));
    let server = stage.serve();
    eventually("the second edit", || server.short(&stage.folder, &["h1.z.example"]) == "192.0.2.12\n");
    assert_eq!(server.short(&stage.folder, &["n2.z.example"]), "192.0.2.2\n");
    eventually("the file again", || stage.holds("n2.z.example.") && stage.holds(" 2026112000 1 2 3 4"));
    assert!(stage.ctl(&["status"]).contains("not_written_back\":[]"));
}

#[test]
fn whoever_began_to_edit_an_old_version_takes_nothing_back() {
    let stage = Stage::new("1s", 2);
    let server = stage.serve();
    let imported = read(&stage.file);
    add(&server, 1);
    eventually("the file", || stage.holds("n1.z.example."));
    let opened = read(&stage.file);
    add(&server, 2);
    eventually("the file again", || stage.holds("n2.z.example."));
    // Whoever puts a backup back is told what does so.
    stage.edit(&opened);
    eventually("what to do instead", || stage.log().contains("to_go_back=\"dunlin ctl zone rollback z.example. 8\""));
    eventually("what is served", || stage.holds("n2.z.example."));
    stage.edit(&format!("{opened}www.z.example. 60 A 192.0.2.80\n"));
    eventually("the edit", || server.short(&stage.folder, &["www.z.example"]) == "192.0.2.80\n");
    eventually("the merged file", || stage.holds("n2.z.example.") && stage.holds("www.z.example."));
    assert_eq!(server.short(&stage.folder, &["n2.z.example"]), "192.0.2.2\n");
    // Of this one nobody knows.
    stage.edit(&imported);
    eventually("the complaint", || stage.ctl(&["status"]).contains("first line does not say which version"));
    assert_eq!(server.short(&stage.folder, &["n2.z.example"]), "192.0.2.2\n");
    assert_eq!(read(&stage.file), imported);
}

#[test]
fn what_both_have_changed_is_held_until_it_is_edited_again() {
    let stage = Stage::new("1d", 2);
    let server = stage.serve();
    let original = read(&stage.file);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\ndel h0.z.example A\nadd h0.z.example 60 A 192.0.2.7"), "");
    stage.edit(&original.replace("h0 A 192.0.2.1", "h0 A 192.0.2.8"));
    let why = "the same has changed since: h0.z.example. A";
    eventually("the complaint", || stage.ctl(&["status"]).contains(why));
    eventually("a line of the log", || stage.log().contains("a zone is not written back"));
    assert!(stage.holds("192.0.2.8"));
    assert_eq!(server.short(&stage.folder, &["h0.z.example"]), "192.0.2.7\n");
    stage.edit("@ SOA\n");
    eventually("another complaint", || stage.ctl(&["status"]).contains("z.example.zone:1:"));
    let mended = original.replace("h0 A 192.0.2.1", "h0 60 A 192.0.2.7").replace("h1 A 192.0.2.1", "h1 A 192.0.2.9");
    stage.edit(&mended);
    eventually("the edit", || server.short(&stage.folder, &["h1.z.example"]) == "192.0.2.9\n");
    assert_eq!(server.short(&stage.folder, &["h0.z.example"]), "192.0.2.7\n");
    eventually("no complaint", || stage.ctl(&["status"]).contains("not_written_back\":[]"));
}

#[test]
fn a_file_that_is_moved_away_is_written_anew() {
    let stage = Stage::new("1s", 2);
    let server = stage.serve();
    add(&server, 1);
    stage.edit("what?\n");
    eventually("the complaint", || stage.ctl(&["status"]).contains("its edit is not taken in"));
    std::fs::rename(&stage.file, stage.folder.0.join("aside")).unwrap();
    eventually("the file", || stage.file.exists() && stage.holds("n1.z.example."));
    eventually("no complaint", || stage.ctl(&["status"]).contains("not_written_back\":[]"));
    assert_eq!(read(&stage.folder.0.join("aside")), "what?\n");
}

#[test]
fn a_full_disk_leaves_the_file_as_it_is_and_is_tried_again() {
    let stage = Stage::new("1s", 2_000);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {} serve -c dunlin.toml", env!("CARGO_BIN_EXE_dunlin"))]);
    let server = Server::start_as(&stage.folder, crate::running::at_home(&stage.folder.0, command));
    let limit = |octets: &str| {
        let limit = [format!("--pid={}", server.pid()), format!("--fsize={octets}:unlimited")];
        assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    };
    let before = read(&stage.file);
    limit("20000");
    add(&server, 1);
    eventually("the complaint", || stage.ctl(&["status"]).contains("not_written_back\":[{\"zone\":\"z.example.\""));
    assert_eq!(read(&stage.file), before);
    // It is tried again each second.
    eventually("nothing unfinished", || stage.unfinished() == 0);
    assert_eq!(server.short(&stage.folder, &["n1.z.example"]), "192.0.2.1\n");
    limit("unlimited");
    eventually("the file", || stage.holds("n1.z.example."));
    eventually("no complaint", || stage.ctl(&["status"]).contains("not_written_back\":[]"));
}

/// Written while the machine's clock was wrong: nobody could know whether it is edited again.
#[test]
fn a_file_whose_time_is_to_come_is_like_others() {
    let stage = Stage::new("1s", 3);
    let set = || {
        let later = SystemTime::now() + Duration::from_secs(86_400);
        std::fs::File::open(&stage.file).unwrap().set_modified(later).unwrap();
    };
    let server = stage.serve();
    set();
    add(&server, 1);
    eventually("it is written back", || stage.holds("n1.z.example."));
    std::fs::write(&stage.file, read(&stage.file).replace("h0.z.example. 300 IN A 192.0.2.1", "h0 A 192.0.2.7"))
        .unwrap();
    set();
    eventually("its edit", || server.short(&stage.folder, &["h0.z.example"]) == "192.0.2.7\n");
    add(&server, 2);
    eventually("both are in it", || stage.holds("n2.z.example.") && stage.holds("192.0.2.7"));
    assert!(stage.ctl(&["status"]).contains("not_written_back\":[]"));
}

#[test]
fn a_kill_while_it_is_written_leaves_a_whole_file_that_is_known() {
    let stage = Stage::new("1s", 20_000);
    for round in 1..=4 {
        let server = stage.serve();
        add(&server, round);
        // Either it is caught in the middle, or it was too quick.
        eventually("a file in the making", || stage.unfinished() > 0 || stage.holds(&format!("n{round}.z.example.")));
        server.killed();
        let file = read(&stage.file);
        assert!(file.contains("h19999") && file.ends_with('\n'), "round {round}");
    }
    let server = stage.serve();
    eventually("the file", || stage.holds("n4.z.example.") && stage.unfinished() == 0);
    assert!(!stage.log().contains("edited"), "{}", stage.log());
    drop(server);
}

#[test]
fn a_link_to_a_file_that_is_written_back_is_no_other_zone() {
    let stage = Stage::new("1s", 0);
    let server = stage.serve();
    std::os::unix::fs::symlink("z.example.zone", stage.folder.0.join("zones/other.example.zone")).unwrap();
    let why = "is the file of another zone, and is written back";
    eventually("what is said", || stage.log().contains(why));
    stage.folder.refuses(&["reload", "other.example"], why);
    let asked = stage.folder.dunlin(&["query", &format!("@{}", server.address), "ns.other.example"]);
    assert!(text(&asked.stdout).contains("REFUSED"));
    add(&server, 1);
    eventually("the file", || stage.holds("n1.z.example."));
}

/// Two zones may be read from one file, until we write it for one of them.
#[test]
fn a_file_is_not_written_that_a_zone_of_the_list_has_too() {
    let folder = updates::folder();
    folder.write_long_ago("list", "l.example z.zone\n");
    let configure = |more: &str| {
        let rule = "allow-update = [\"key:ddns\"]";
        let zone = format!(
            "[[zone]]\nname = \"z.example\"\nfile = \"z.zone\"\n{}{more}\n",
            if more.starts_with("prim") { "" } else { rule }
        );
        folder.configure(&format!(
            "[zones]\nlist = \"list\"\n[[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n{zone}"
        ));
    };
    configure("");
    let server = updates::serve(&folder);
    let text = read(&folder.0.join("z.zone"));
    for more in ["\nwrite-back = \"1s\"", "primaries = [\"127.0.0.1:1\"]"] {
        configure(more);
        for words in [&["reload"][..], &["reload", "z.example"]] {
            folder.refuses(words, "is the file of another zone");
        }
        // Nothing of it counts.
        add(&server, 1);
    }
    configure("");
    folder.does(&["reload"]);
    assert_eq!(read(&folder.0.join("z.zone")), text);
    assert_eq!(server.short(&folder, &["www.l.example"]), "192.0.2.1\n");
}

fn next_second() {
    let second = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let then = second();
    eventually("the next second", || second() > then);
}

/// What the zone has once data-dir has come from a backup has serials that the file has, too.
#[test]
fn a_file_that_is_newer_than_a_restored_journal_takes_no_update_back() {
    let stage = Stage::new("1s", 0);
    let (data, backup) = (stage.folder.0.join("data"), stage.folder.0.join("backup"));
    let copy = |from: &PathBuf, to: &PathBuf| {
        let _ = std::fs::remove_dir_all(to);
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    let stop = |server: Server| {
        server.signal("TERM");
        server.ended();
    };
    let server = stage.serve();
    add(&server, 1);
    eventually("the file", || stage.holds("n1.z.example."));
    stop(server);
    copy(&data, &backup);
    let server = stage.serve();
    (2..=4).for_each(|i| add(&server, i));
    eventually("the file", || stage.holds("; serial 11 of ") && stage.holds("n4.z.example."));
    // What stood there before is of a version that the backup does not know.
    eventually("nothing beside it", || !stage.file.with_file_name(".z.example.zone.aside").exists());
    stop(server);
    copy(&backup, &data);
    next_second();
    let server = stage.serve();
    eventually("what is said", || stage.log().contains("it is of version 11, which follows 8, and that is served"));
    (5..=9).for_each(|i| add(&server, i));
    eventually("what is said", || stage.log().contains("it is of version 11 of "));
    for i in [1, 5, 6, 7, 8, 9] {
        let address = server.short(&stage.folder, &[&format!("n{i}.z.example"), "A"]);
        assert_eq!(address, format!("192.0.2.{i}\n"), "n{i}");
    }
    assert!(stage.holds("n4.z.example."), "it is nobody's to write over");
    std::fs::rename(&stage.file, stage.folder.0.join("old")).unwrap();
    eventually("the file", || stage.file.exists() && stage.holds("n9.z.example.") && !stage.holds("n4.z.example."));
}

fn without_rules(text: &str) -> String {
    text.lines()
        .filter(|l| !l.starts_with("allow-update") && !l.starts_with("write-back"))
        .map(|l| format!("{l}\n"))
        .collect()
}

/// Versions of both have the same serials: those of its file, while that owned the zone, and those of its updates.
#[test]
fn what_was_edited_while_there_were_no_rules_takes_no_update_back() {
    let stage = Stage::new("1s", 3);
    let with = |every: &str| format!("{}guards = false\n", configuration(every));
    stage.folder.configure(&with("1s"));
    let server = stage.serve();
    let short = |name: &str| server.short(&stage.folder, &[&format!("{name}.z.example"), "A"]);
    let configure = |text: &str| {
        stage.folder.configure(text);
        stage.folder.does(&["reload"]);
    };
    (1..=2).for_each(|i| add(&server, i));
    eventually("the file", || stage.holds(" 9 1 2 3 4"));
    configure(&with("1h"));
    (3..=5).for_each(|i| add(&server, i));
    assert!(stage.holds("; serial 9 of "));
    // The clock of the history tells which change was first.
    next_second();
    configure(&without_rules(&with("1h")));
    assert_eq!((short("n2"), short("n5")), ("192.0.2.2\n".to_string(), String::new()), "as its file says");
    for serial in 10..=12 {
        let (before, now) = (format!(" {} 1 2 3 4", serial - 1), format!(" {serial} 1 2 3 4"));
        stage.edit(
            &(read(&stage.file).replace(&before, &now) + &format!("e{serial}.z.example. 60 A 192.0.2.{serial}\n")),
        );
        stage.folder.does(&["reload"]);
        assert_eq!(short(&format!("e{serial}")), format!("192.0.2.{serial}\n"));
    }
    assert!(stage.holds("; serial 9 of "), "who edits it keeps that line");
    configure(&with("1s"));
    eventually("the edits", || short("e12") == "192.0.2.12\n");
    eventually("the file", || stage.holds("n5.z.example.") && stage.holds("e10.z.example."));
    for (name, address) in [("n1", 1), ("n3", 3), ("n5", 5), ("e10", 10), ("e11", 11), ("e12", 12)] {
        assert_eq!(short(name), format!("192.0.2.{address}\n"), "{name}");
    }
}

/// What the server itself writes into the file meanwhile says which version that was made of, as an editor's would.
#[test]
fn a_rollback_while_there_were_no_rules_takes_updates_back() {
    let stage = Stage::new("1s", 3);
    let server = stage.serve();
    let short = |name: &str| server.short(&stage.folder, &[&format!("{name}.z.example"), "A"]);
    (1..=2).for_each(|i| add(&server, i));
    eventually("the file", || stage.holds("; serial 9 of "));
    stage.folder.configure(&without_rules(&configuration("1s")));
    stage.folder.does(&["reload"]);
    stage.folder.does(&["zone", "rollback", "z.example", "8"]);
    assert_eq!((short("n1"), short("n2")), ("192.0.2.1\n".to_string(), String::new()));
    assert!(stage.holds("; serial 9 of "));
    stage.folder.configure(&configuration("1s"));
    assert!(stage.folder.does(&["reload"]).contains("changed true"));
    assert!(short("n2").is_empty(), "it is answered when that is served");
    add(&server, 3);
    eventually("the file", || stage.holds("n3.z.example.") && stage.holds("n1.z.example."));
    assert!(!stage.holds("n2.z.example.") && short("n2").is_empty());
    assert!(stage.ctl(&["status"]).contains("\"held\":[]"), "{}", stage.ctl(&["status"]));
}

/// A reload that names no zone says so, too.
#[test]
fn whoever_gives_a_zone_back_to_its_updates_hears_of_an_edit_that_is_held() {
    let stage = Stage::new("", 3);
    let server = stage.serve();
    let template = read(&stage.file);
    add(&server, 1);
    stage.folder.configure(&without_rules(&configuration("")));
    stage.edit(&(template.replace(" 7 1 2 3 4", " 20 1 2 3 4") + "n1 A 192.0.2.77\n"));
    stage.folder.does(&["reload"]);
    stage.folder.configure(&configuration(""));
    stage.folder.refuses(&["reload"], "the same has changed since: n1.z.example. A");
    stage.folder.refuses(&["reload"], "the same has changed since: n1.z.example. A");
    assert_eq!(server.short(&stage.folder, &["n1.z.example", "A"]), "192.0.2.1\n");
}

/// Nobody writes such a file back, so whoever edits it need not keep its first line.
#[test]
fn what_zone_show_has_is_put_into_a_file_that_is_not_written_back() {
    let stage = Stage::new("", 3);
    let server = stage.serve();
    let short = |name: &str| server.short(&stage.folder, &[&format!("{name}.z.example"), "A"]);
    let template = read(&stage.file);
    add(&server, 1);
    stage.edit(&(template.clone() + "n1 A 192.0.2.77\n"));
    stage.folder.refuses(&["reload", "z.example"], "the same has changed since: n1.z.example. A");
    let shown = stage.folder.does(&["zone", "show", "z.example"]);
    (2..=3).for_each(|i| add(&server, i));
    stage.edit(&shown);
    stage.folder.does(&["reload", "z.example"]);
    eventually("a word of it", || stage.log().contains("holds an old version of it") && short("n3") == "192.0.2.3\n");
    for (i, new) in ["one", "two"].into_iter().enumerate() {
        stage.edit(&format!("{template}n1 A 192.0.2.1\n{new} A 192.0.2.{i}\n"));
        stage.folder.does(&["reload", "z.example"]);
        assert_eq!(short(new), format!("192.0.2.{i}\n"));
    }
    assert_eq!((short("one"), short("n1")), (String::new(), "192.0.2.1\n".to_string()));
}

#[test]
fn a_file_that_includes_another_is_written_back_also_where_its_rules_come_with_a_reload() {
    let stage = Stage::new("1s", 3);
    let with = configuration("1s");
    stage.folder.configure(&without_rules(&with));
    stage.folder.write_long_ago("zones/more", "inc A 192.0.2.77\n");
    stage.edit(&(read(&stage.file) + "$INCLUDE more\n"));
    let server = stage.serve();
    stage.folder.configure(&with);
    stage.folder.does(&["reload"]);
    eventually("updates", || update(&server, &[], DDNS, "zone z.example\nadd n1.z.example 60 A 192.0.2.1").is_empty());
    eventually("the file", || stage.holds("n1.z.example.") && stage.holds("inc.z.example."));
}

/// Whether or not somebody has looked at it since it was last written.
#[test]
fn a_file_that_is_to_be_written_sooner_is_written_then() {
    let stage = Stage::new("1d", 1);
    stage.edit(&read(&stage.file));
    let server = stage.serve();
    for every in ["1d", "1d", "1s"] {
        add(&server, 1);
        stage.folder.configure(&configuration(every));
        stage.ctl(&["reload"]);
    }
    eventually("it is written", || stage.holds("n1"));
}

#[test]
fn nothing_is_said_of_the_edits_of_a_zone_that_has_no_rules_any_more() {
    let stage = Stage::new("1s", 3);
    let server = stage.serve();
    add(&server, 1);
    eventually("the file", || stage.holds("n1.z.example."));
    stage.edit("; serial 8, written by dunlin for updates; keep this line\nthis is no zone\n");
    // It is looked at in any case, and told where it was looked at before.
    let _ = stage.folder.ctl(&["reload"]);
    let held = || stage.ctl(&["status"]).contains("is not taken in");
    eventually("what is held", held);
    stage.folder.configure(&without_rules(&configuration("1s")));
    let _ = stage.folder.ctl(&["reload"]);
    eventually("nothing held", || !held());
    assert_eq!(server.short(&stage.folder, &["n1.z.example", "A"]), "192.0.2.1\n", "it goes on as it was");
}

/// A server whose zone has had an update, which is in its file; and what that holds.
fn written_back() -> (Stage, Server, String) {
    let stage = Stage::new("1s", 1);
    let server = stage.serve();
    add(&server, 1);
    eventually("it is written back", || stage.holds("n1.z.example.") && stage.holds("; serial 8 of "));
    let text = read(&stage.file);
    (stage, server, text)
}

/// His editor stays open, or he has it in git: his second edit has the first one in it, and the file was written back in between.
#[test]
fn who_edits_again_what_he_has_edited_takes_back_nothing_that_was_changed_since() {
    let (stage, server, mut his) = written_back();
    for (i, line) in (1..).zip(["x", "y", "w"]) {
        his += &format!("{line}.z.example. 300 IN A 192.0.2.50\n");
        stage.edit(&his);
        eventually("his edit", || server.short(&stage.folder, &[&format!("{line}.z.example")]) == "192.0.2.50\n");
        eventually("it is written back", || stage.holds("; serial ") && !stage.holds("; serial 8 of "));
        assert_eq!(server.short(&stage.folder, &["x.z.example"]).is_empty(), i > 1, "{line}");
        let gone = if i == 1 { "del x.z.example A\n" } else { "" };
        assert_eq!(
            update(&server, &[], DDNS, &format!("zone z.example\n{gone}add h{i}.z.example 60 A 192.0.2.70")),
            ""
        );
        eventually("and again", || !stage.holds("x.z.example.") && stage.holds(&format!("h{i}.z.example. 60 IN A")));
    }
    assert!(!stage.log().contains("is held") && !stage.log().contains("it stays"), "{}", stage.log());
}

/// Both had the same version before them, and the first one's edit was written back before the second one saved.
#[test]
fn two_who_edit_the_same_version_lose_nothing_of_each_other() {
    let (stage, server, both) = written_back();
    for name in ["one", "other", "third"] {
        stage.edit(&format!("{both}{name}.z.example. 300 IN A 192.0.2.50\n"));
        eventually("the edit", || server.short(&stage.folder, &[&format!("{name}.z.example")]) == "192.0.2.50\n");
        eventually("it is written back", || stage.holds("; serial ") && !stage.holds("; serial 8 of "));
    }
    for name in ["one", "other"] {
        let has = server.short(&stage.folder, &[&format!("{name}.z.example")]);
        assert_eq!(has, "192.0.2.50\n", "{name}: {}", stage.ctl(&["zone", "log", "z.example"]));
    }
    let log = stage.log();
    assert!(log.contains("it stays") && log.contains("names=\"one.z.example. A, other.z.example. A\""), "{log}");
    // He may be the same, and have taken back what he did.
    stage.edit(&both);
    eventually("it is written back", || stage.holds("; serial ") && !stage.holds("; serial 8 of "));
    let all = "names=\"one.z.example. A, other.z.example. A, third.z.example. A\"";
    eventually("the word of it", || stage.log().contains(all));
}

/// As of a file that comes from another server: the operator has given it another serial since that wrote it.
#[test]
fn what_the_first_line_of_a_file_says_that_was_read_may_be_anything() {
    for is_listed_first in [false, true] {
        let stage = Stage::new("", 1);
        let text = |more: &str| {
            format!(
                "; serial 5, written by dunlin for updates; keep this line\n$TTL 300\n@ SOA ns h 20 1 2 3 4\n@ NS ns\nns A 192.0.2.53\n{more}"
            )
        };
        stage.edit(&text(""));
        let configured = read(&stage.folder.0.join("dunlin.toml"));
        if is_listed_first {
            let plain = configured.split("[[zone]]").next().unwrap();
            stage.folder.write("dunlin.toml", plain);
        }
        let server = stage.serve();
        if is_listed_first {
            stage.folder.write("dunlin.toml", &configured);
            stage.folder.does(&["reload"]);
        }
        let line = "zone z.example\nadd n1.z.example 60 A 192.0.2.1";
        eventually("an update", || update(&server, &[], DDNS, line).is_empty());
        for hosts in ["hand A 192.0.2.77\n", "hand A 192.0.2.77\nmore A 192.0.2.78\n"] {
            stage.edit(&text(hosts));
            let last = hosts.lines().last().unwrap().split(' ').next().unwrap();
            eventually(last, || !server.short(&stage.folder, &[&format!("{last}.z.example")]).is_empty());
        }
        assert_eq!(server.short(&stage.folder, &["n1.z.example"]), "192.0.2.1\n");
        // It is told of behind what it tells.
        eventually("both are edits", || stage.log().matches("an edit is taken in").count() == 2);
    }
}

/// It was stopped a moment after the file was written, and what is known of the zone is gone.
#[test]
fn what_went_aside_takes_the_place_of_no_file_of_which_nothing_is_known() {
    let stage = Stage::new("1s", 1);
    let server = stage.serve();
    add(&server, 1);
    eventually("it is written back", || stage.holds("n1.z.example."));
    drop(server);
    let aside = stage.folder.write("zones/.z.example.zone.aside", &read(&stage.file).replace("n1.", "n0."));
    std::fs::remove_dir_all(stage.folder.0.join("data/journal")).unwrap();
    let server = stage.serve();
    eventually("it is looked at", || !aside.exists());
    assert_eq!(server.short(&stage.folder, &["n1.z.example"]), "192.0.2.1\n");
    assert!(stage.holds("n1.z.example.") && stage.folder.0.join("zones/.z.example.zone.unknown").exists());
}
