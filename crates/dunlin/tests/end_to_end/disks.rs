//! Disks and folders of which something is missing, damaged, or somebody else's.

use crate::running::{self, DIRECTORY, Folder, Server, at_home, command, eventually, read, text};
use crate::updates::{CONFIGURATION, DDNS, ZONE, after_a_kill, folder, serve, update};
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::process::Command;

/// What one zone that takes updates has had added, and another zone that has nothing to do with it.
fn add(server: &Server, i: u32) -> String {
    update(server, &[], DDNS, &format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}"))
}

fn has(folder: &Folder, server: &Server, i: u32) -> bool {
    server.short(folder, &[&format!("n{i}.z.example"), "A"]) == format!("192.0.2.{i}\n")
}

#[test]
fn a_journal_that_is_damaged_keeps_no_other_zone_from_being_served_and_loses_nothing_once_it_is_mended() {
    for (what, again) in
        [("an octet", &["reload"][..]), ("the head", &["reload"]), ("an octet", &["reload", "fixed.example"])]
    {
        let folder = folder();
        let server = serve(&folder);
        (1..=4).for_each(|i| assert_eq!(add(&server, i), ""));
        server.killed();
        let segment = folder.0.join("data/journal/journal.0000000001");
        let whole = fs::read(&segment).unwrap();
        let third = whole.windows(2).rposition(|w| w == b"n3").unwrap();
        let mut damaged = whole.clone();
        damaged[if what == "the head" { 0 } else { third }] ^= 1;
        fs::write(&segment, &damaged).unwrap();
        let server = serve(&folder);
        for _ in 0..2 {
            for zone in ["fixed", "z"] {
                assert_eq!(server.short(&folder, &[&format!("www.{zone}.example"), "A"]), "192.0.2.1\n", "{what}");
            }
            assert!(!has(&folder, &server, 1) && add(&server, 5).contains("SERVFAIL"), "{what}");
            assert_eq!(fs::read(&segment).unwrap(), damaged, "{what}: left for somebody to look at");
            let status = folder.does(&["status", "--json"]);
            assert!(status.contains("\"no_updates\":\"the journal of updates cannot be used: "), "{status}");
            folder.does(&["reload"]);
        }
        // Whoever mends it takes his time, and others go on meanwhile.
        fs::remove_file(&segment).unwrap();
        folder.does(&["zone", "show", "z.example"]);
        folder.does(&["zone", "publish", "--force", "fixed.example"]);
        assert!(add(&server, 5).contains("SERVFAIL"), "{what}");
        fs::write(&segment, &whole).unwrap();
        folder.does(again);
        eventually("updates", || add(&server, 5).is_empty());
        eventually("what was acknowledged", || (1..=4).all(|i| has(&folder, &server, i)));
        assert!(folder.does(&["status", "--json"]).contains("\"no_updates\":null"));
        let server = after_a_kill(server, &folder);
        assert!((1..=5).all(|i| has(&folder, &server, i)), "{what}");
    }
}

#[test]
fn a_zone_that_cannot_be_written_down_yet_is_told_of_until_it_is() {
    let folder = folder();
    let many: String = (0..1000).map(|i| format!("n{i} A 192.0.2.2\n")).collect();
    folder.write("new.zone", &format!("{ZONE}{many}"));
    let fixed = format!("{CONFIGURATION}[[zone]]\nname = \"new.example\"\nfile = \"new.zone\"\n");
    folder.configure(&fixed);
    let server = serve(&folder);
    eventually("the other one is written down", || add(&server, 1).is_empty());
    folder.configure(&format!("{fixed}allow-update = [\"key:ddns\"]\n"));
    let limit = |octets: &str| limit(&server, octets);
    let add_there = || update(&server, &[], DDNS, "zone new.example\nadd n.new.example 60 A 192.0.2.1");
    limit("20000");
    // Nor is there room for a new image, if one is wanted.
    folder.ctl(&["reload"]);
    let why = "\"lacking_updates\":[{\"zone\":\"new.example.\",\"why\":\"it takes no updates yet: ";
    eventually("it is told", || folder.does(&["status", "--json"]).contains(why));
    assert!(add_there().contains("SERVFAIL"));
    limit("unlimited");
    folder.does(&["reload"]);
    eventually("it takes updates", || add_there().is_empty());
    assert!(folder.does(&["status", "--json"]).contains("\"lacking_updates\":[]"));
}

/// To who ignores the signal a limit of files is a disk that is full.
fn limit(server: &Server, octets: &str) {
    let limit = [format!("--pid={}", server.pid()), format!("--fsize={octets}:unlimited")];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
}

fn start_with_room(folder: &Folder, octets: &str) -> Server {
    let mut command = Command::new("sh");
    let serve = format!("exec prlimit --fsize={octets}:unlimited {}", env!("CARGO_BIN_EXE_dunlin"));
    command.args(["-c", &format!("{serve} serve -c dunlin.toml")]);
    Server::start_as(folder, at_home(&folder.0, command))
}

/// What is durable of an edit, and takes a new image, is not told to be served before it is; other zones' edits do not wait for that.
#[test]
fn an_edit_that_takes_a_new_image_is_told_of_when_it_is_served_and_keeps_no_other_waiting() {
    let folder = folder();
    folder.configure(&format!(
        "{CONFIGURATION}[[zone]]\nname = \"other.example\"\nfile = \"other.zone\"\nallow-update = [\"key:ddns\"]\n"
    ));
    let many: String = (0..=10_000).map(|i| format!("n{i}.many A 192.0.2.2\n")).collect();
    let text = format!("{ZONE}{many}");
    let hidden = format!("{text}many NS ns.other.example.\n");
    folder.write("z.zone", &text);
    folder.write("other.zone", ZONE);
    let server = serve(&folder);
    let below = || server.short(&folder, &["n7.many.z.example", "A"]);
    for (file, expect) in [(&hidden, ""), (&text, "192.0.2.2\n")] {
        folder.write("z.zone", file);
        folder.does(&["reload", "z.example"]);
        assert_eq!(below(), expect);
    }
    assert_eq!(read(&folder.0.join("log")).matches("takes a new image").count(), 2);
    // Room for the journal and what was read of the file, and none for an image.
    limit(&server, "600000");
    folder.write("z.zone", &hidden);
    folder.refuses(&["reload", "z.example"], "changes of the zone are in the journal and not served");
    assert_eq!(below(), "192.0.2.2\n");
    folder.write("other.zone", &format!("{ZONE}new A 192.0.2.9\n"));
    folder.does(&["reload", "other.example"]);
    assert_eq!(server.short(&folder, &["new.other.example", "A"]), "192.0.2.9\n");
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["n7.many.z.example", "A"]), "");
}

/// What has come beside it takes an image, for it lies below another zone.
#[test]
fn a_zone_is_for_whom_it_is_now_though_the_disk_is_full() {
    let folder = folder();
    let with = |who: &str, more: &str| {
        let zone = format!("[[zone]]\nname = \"few.example\"\nfile = \"few.zone\"\nallow-query = [\"{who}\"]\n");
        folder.configure(&format!("{CONFIGURATION}{zone}{more}"));
    };
    folder.write("few.zone", ZONE);
    with("any", "");
    let server = serve(&folder);
    let answer = || server.short(&folder, &["few.example", "NS"]);
    assert_eq!(answer(), "ns.few.example.\n");
    limit(&server, "100");
    with("none", "[[zone]]\nname = \"below.few.example\"\nfile = \"few.zone\"\n");
    folder.refuses(&["reload"], "no new image, the old one stays");
    assert_eq!(answer(), "");
}

/// One zone has come below another, which takes a new image, and there is no room for it.
#[test]
fn what_can_be_laid_is_served_though_something_else_of_the_reload_needs_room_that_is_not_there() {
    let folder = folder();
    let zone = |name: &str, file: &str| format!("[[zone]]\nname = \"{name}\"\nfile = \"{file}.zone\"\n");
    let before = [CONFIGURATION, &zone("one.example", "one"), &zone("two.example", "two")].concat();
    folder.configure(&before);
    let many: String = (0..10_000).map(|i| format!("n{i} A 192.0.2.2\n")).collect();
    folder.write("one.zone", &format!("{ZONE}{many}"));
    folder.write("two.zone", ZONE);
    let server = serve(&folder);
    // The times of files that were written just before an image was made are not believed.
    server.signal("TERM");
    server.ended();
    let server = serve(&folder);
    limit(&server, "300000");
    folder.configure(&[&*before, &zone("below.one.example", "below"), &zone("new.example", "two")].concat());
    folder.write("below.zone", ZONE);
    folder.write("two.zone", &format!("{ZONE}new A 192.0.2.9\n"));
    let new = |zone: &str| server.short(&folder, &[&format!("new.{zone}.example"), "A"]);
    for _ in 0..2 {
        folder.refuses(&["reload"], "no new image, the old one stays");
        folder.refuses(&["reload"], "zone below.one.example.: it stays as it was until there is a new image");
        assert_eq!(["two", "new", "below.one"].map(new), ["192.0.2.9\n", "192.0.2.9\n", ""]);
    }
    assert!(folder.does(&["zone", "log", "two.example", "--json"]).contains("\"added\":1"), "it is in the history");
    limit(&server, "unlimited");
    folder.write("below.zone", &format!("{ZONE}new A 192.0.2.9\n"));
    folder.does(&["reload"]);
    assert_eq!(["two", "new", "below.one"].map(new), ["192.0.2.9\n"; 3]);
}

/// As a fold leaves them that has room for the files of zones and none for the image; one zone lies below the other, so they are not laid together.
#[test]
fn a_start_on_a_full_disk_answers_though_what_has_changed_takes_a_new_image() {
    let folder = folder();
    let zones: String = [("sub.z.example", true), ("other.example", false)]
        .map(|(name, is_updated)| {
            let rules = if is_updated { "allow-update = [\"key:ddns\"]\n" } else { "" };
            format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}.zone\"\n{rules}")
        })
        .concat();
    folder.configure(&format!("{CONFIGURATION}{zones}"));
    folder.write("sub.z.example.zone", ZONE);
    let many: String = (0..5000).map(|i| format!("n{i} A 192.0.2.2\n")).collect();
    folder.write("other.example.zone", &format!("{ZONE}{many}"));
    let server = serve(&folder);
    server.signal("TERM");
    server.ended();
    let server = serve(&folder);
    let add = |server: &Server, zone: &str, i: u32| {
        update(server, &[], DDNS, &format!("zone {zone}\nadd n{i}.{zone} 60 A 192.0.2.{i}"))
    };
    let updated = ["z.example", "sub.z.example"];
    updated.iter().for_each(|zone| assert_eq!(add(&server, zone, 1), ""));
    server.killed();
    for zone in updated {
        let file = format!("data/journal/{zone}.zone");
        let text = read(&folder.0.join(&file));
        let written = at_position(&text, 2).replace(" 7 1 2 3 4", " 8 1 2 3 4");
        assert_ne!(text, written);
        folder.write(&file, &format!("{written}n1.{zone}. 60 IN A 192.0.2.1\n"));
    }
    let server = start_with_room(&folder, "50000");
    assert!(read(&folder.0.join("log")).contains("no new image of the zones can be made: the last one is served"));
    assert_eq!(server.short(&folder, &["n7.other.example", "A"]), "192.0.2.2\n");
    let has = |server: &Server, zone: &str, i: u32| {
        server.short(&folder, &[&format!("n{i}.{zone}"), "A"]) == format!("192.0.2.{i}\n")
    };
    // The limit leaves no room for changes behind an image either: so none is laid.
    for zone in updated {
        assert_eq!(server.short(&folder, &[&format!("www.{zone}"), "A"]), "192.0.2.1\n");
        assert!(!has(&server, zone, 1) && add(&server, zone, 2).contains("SERVFAIL"), "{zone}");
    }
    let server = after_a_kill(server, &folder);
    for zone in updated {
        assert!(has(&server, zone, 1), "{zone}");
        assert_eq!(add(&server, zone, 2), "");
    }
}

/// A change that takes a new image is in the journal, and there is no room for what it is to be written into.
#[test]
fn a_start_on_a_full_disk_answers_whatever_the_last_update_was() {
    let folder = folder();
    let alone = &CONFIGURATION[..CONFIGURATION.rfind("[[zone]]").unwrap()];
    folder.configure(&format!("{alone}[[zone]]\nname = \"other.example\"\nfile = \"other.zone\"\n"));
    folder.write("other.zone", ZONE);
    let many: String = (0..=100_000).map(|i| format!("n{i}.many A 192.0.2.2\n")).collect();
    folder.write("z.zone", &format!("{ZONE}{many}"));
    let start = |octets: &str| start_with_room(&folder, octets);
    let answers = |server: &Server, name: &str| server.short(&folder, &[name, "A"]);
    // A start does not believe the time of a file that was written just before its image was made, and makes another.
    let server = start("unlimited");
    server.signal("TERM");
    server.ended();
    let server = start("unlimited");
    limit(&server, "20000");
    assert!(add(&server, 1).is_empty());
    let change = "zone z.example\nadd many.z.example 60 NS ns.other.example.";
    assert!(update(&server, &["-v"], DDNS, change).contains("SERVFAIL"));
    server.signal("TERM");
    server.ended();
    let server = start("20000");
    assert_eq!(answers(&server, "www.other.example"), "192.0.2.1\n");
    assert_eq!(answers(&server, "n7.many.z.example"), "192.0.2.2\n", "as its file was");
    assert!(add(&server, 2).contains("SERVFAIL"));
    assert!(folder.does(&["status", "--json"]).contains("z.example.zone: File too large"));
    limit(&server, "unlimited");
    folder.does(&["reload"]);
    eventually("what the journal has", || answers(&server, "n7.many.z.example").is_empty() && has(&folder, &server, 1));
    eventually("updates", || add(&server, 2).is_empty());
    // Whoever has made room and asks for a reload waits no longer.
    limit(&server, "20000");
    assert!(update(&server, &["-v"], DDNS, "zone z.example\ndel many.z.example NS").contains("SERVFAIL"));
    assert!(add(&server, 3).contains("SERVFAIL"));
    limit(&server, "unlimited");
    folder.does(&["reload"]);
    assert_eq!(answers(&server, "n7.many.z.example"), "192.0.2.2\n");
    assert_eq!(add(&server, 3), "");
    assert!(folder.does(&["status", "--json"]).contains("\"no_new_image\":null"));
}

/// A change of one zone takes a new image, and there is no room for it: whoever updates another zone has nothing to do with that.
#[test]
fn a_zone_that_waits_for_a_new_image_keeps_no_other_from_its_updates() {
    let folder = folder();
    let alone = &CONFIGURATION[..CONFIGURATION.rfind("[[zone]]").unwrap()];
    let other = "[[zone]]\nname = \"other.example\"\nfile = \"other.zone\"\nallow-update = [\"key:ddns\"]\n";
    folder.configure(&format!("{alone}{other}"));
    folder.write("other.zone", ZONE);
    let many: String = (0..=10_000).map(|i| format!("n{i}.many A 192.0.2.2\n")).collect();
    folder.write("z.zone", &format!("{ZONE}{many}"));
    let server = serve(&folder);
    let limit = |octets: &str| limit(&server, octets);
    let add_there = |i: u32| {
        let line = format!("zone other.example\nadd n{i}.other.example 60 A 192.0.2.{i}");
        update(&server, &[], DDNS, &line)
    };
    let many = || server.short(&folder, &["n7.many.z.example", "A"]);
    limit("20000");
    let change = "zone z.example\nadd many.z.example 60 NS ns.other.example.";
    assert!(update(&server, &["-v"], DDNS, change).contains("SERVFAIL"));
    for i in 1..4 {
        assert_eq!(add_there(i), "");
        assert_eq!(server.short(&folder, &[&format!("n{i}.other.example"), "A"]), format!("192.0.2.{i}\n"));
        assert!(add(&server, i).contains("SERVFAIL"));
    }
    assert_eq!(many(), "192.0.2.2\n");
    limit("unlimited");
    folder.does(&["reload"]);
    assert_eq!(many(), "");
    assert_eq!([add(&server, 4), add_there(4)].concat(), "");
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["n7.many.z.example", "A"]), "");
    assert!(has(&folder, &server, 4) && (1..4).all(|i| !has(&folder, &server, i)));
    for i in 1..=4 {
        assert_eq!(server.short(&folder, &[&format!("n{i}.other.example"), "A"]), format!("192.0.2.{i}\n"));
    }
}

/// What nobody writes to is never opened.
#[test]
fn a_pipe_in_the_place_of_a_zones_file_is_waited_for_by_nobody() {
    let folder = folder();
    let pipe = |name: &str| {
        assert!(Command::new("mkfifo").arg(folder.0.join("pipe")).status().unwrap().success());
        fs::rename(folder.0.join("pipe"), folder.0.join(name)).unwrap();
    };
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}\"\n");
    folder.configure(&format!("{}{}{}", CONFIGURATION, zone("live.example"), zone("down.example")));
    folder.write("live.example", ZONE);
    pipe("down.example");
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["www.live.example", "A"]), "192.0.2.1\n");
    for name in ["z.zone", "live.example"] {
        pipe(name);
    }
    for name in ["live.example", "down.example", "fixed.example"] {
        folder.refuses(&["reload", name], "it is no file");
    }
    let is_said =
        |line: &str| line.contains("z.example") && line.contains("not taken") && line.contains("it is no file");
    eventually("the edit that is none", || {
        folder.refuses(&["reload"], "it is no file");
        read(&folder.0.join("log")).lines().any(is_said)
    });
    // Served as they were, and what comes later goes on.
    assert_eq!(server.short(&folder, &["www.live.example", "A"]), "192.0.2.1\n");
    assert_eq!(add(&server, 1), "");
    fs::remove_file(folder.0.join("down.example")).unwrap();
    folder.write("down.example", ZONE);
    folder.does(&["reload", "down.example"]);
    assert_eq!(server.short(&folder, &["www.down.example", "A"]), "192.0.2.1\n");
}

#[test]
fn a_data_folder_has_one_server_at_a_time() {
    let folder = folder();
    let server = serve(&folder);
    let mut other = command(&folder.0);
    other.args(["serve", "-c", "other.toml"]);
    let path = folder.0.join("other.toml");
    fs::write(path, read(&folder.0.join("dunlin.toml")).replace("socket = \"", "socket = \"other-")).unwrap();
    let refused = other.output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("the data folder data is that of a server which runs"), "{said}");
    assert_eq!(add(&server, 1), "");
    let server = after_a_kill(server, &folder);
    assert!(has(&folder, &server, 1));
}

/// What is written to a folder that somebody has removed would be gone with the server.
#[test]
fn a_journal_that_is_removed_under_the_server_acknowledges_nothing_until_it_can_be_written_again() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(add(&server, 1), "");
    let journal = folder.0.join("data/journal");
    fs::remove_dir_all(&journal).unwrap();
    (0..2).for_each(|_| assert!(add(&server, 2).contains("SERVFAIL")));
    assert!(read(&folder.0.join("log")).contains("the journal cannot be written"));
    assert!(folder.does(&["status", "--json"]).contains("\"no_updates\":\"the journal cannot be written"));
    fs::create_dir(&journal).unwrap();
    // Without an update, too.
    eventually("updates", || folder.does(&["status", "--json"]).contains("\"no_updates\":null"));
    assert_eq!(add(&server, 3), "");
    assert!(read(&folder.0.join("log")).contains("updates are taken again: the journal can be written"));
    eventually("the zone is written down again", || journal.join("released").exists());
    let server = after_a_kill(server, &folder);
    assert!([1, 3].iter().all(|i| has(&folder, &server, *i)) && !has(&folder, &server, 2));
    assert_eq!(add(&server, 4), "");
}

#[test]
fn a_zone_of_updates_that_is_compiled_is_as_they_have_left_it() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(add(&server, 1), "");
    eventually("it is folded in", || folder.0.join("data/journal/released").exists());
    server.signal("TERM");
    server.ended();
    let compile = folder.dunlin(&["compile", "-c", "dunlin.toml"]);
    assert_eq!(compile.status.code(), Some(0), "{}", text(&compile.stdout));
    assert!(has(&folder, &serve(&folder), 1));
}

/// As archives are unpacked in which all files have one time.
#[test]
fn another_file_of_the_same_size_and_time_is_an_edit() {
    let folder = folder();
    folder.configure(
        &CONFIGURATION
            .replacen("file = \"z.zone\"\n", "file = \"z.zone\"\nwrite-back = \"1s\"\n", 1)
            .replace("name = \"fixed.example\"\nfile = \"z.zone\"", "name = \"fixed.example\"\nfile = \"fixed.zone\""),
    );
    folder.write("fixed.zone", ZONE);
    let (file, new) = (folder.0.join("z.zone"), folder.0.join("new"));
    let replace = |from: &str, to: &str| {
        fs::write(&new, read(&file).replace(from, to)).unwrap();
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        fs::File::open(&new).unwrap().set_modified(time).unwrap();
        fs::rename(&new, &file).unwrap();
    };
    let server = serve(&folder);
    // It lies in no folder that is watched.
    let comes = |what: &str, address: &str| {
        eventually(what, || {
            folder.does(&["reload"]);
            server.short(&folder, &["www.z.example", "A"]) == format!("{address}\n")
        });
    };
    replace("192.0.2.1\n", "192.0.2.8\n");
    comes("the edit of what was read", "192.0.2.8");
    assert_eq!(add(&server, 1), "");
    eventually("what is written back", || read(&file).contains("n1"));
    replace("192.0.2.8\n", "192.0.2.9\n");
    comes("the edit of what was written", "192.0.2.9");
    assert!(has(&folder, &server, 1));
}

/// Its journal waits for it, and nobody waits for its file to be mended.
#[test]
fn a_zone_whose_file_somebody_has_spoilt_costs_no_other_zone_anything() {
    let folder = folder();
    let other = "[[zone]]\nname = \"other.example\"\nfile = \"z.zone\"\nallow-update = [\"key:ddns\"]\n";
    folder.configure(&format!("{CONFIGURATION}{other}"));
    let server = serve(&folder);
    let change = |server: &Server, zone: &str, line: &str| update(server, &[], DDNS, &format!("zone {zone}\n{line}"));
    for zone in ["z.example", "other.example"] {
        assert_eq!(change(&server, zone, &format!("del www.{zone} A")), "");
    }
    server.signal("KILL");
    drop(server);
    let file = "data/journal/z.example.zone";
    let good = read(&folder.0.join(file));
    let www = "www.z.example. 300 IN A 192.0.2.1\n";
    let spoilt = [
        // A line that a disk has lost.
        (good.replace(www, ""), "take `(sum at the end)` out of its first line"),
        (at_position(&good, 0).replace(www, ""), "it does not fit the zone"),
        (at_position(&good, 0).replace("; dunlin, position 0\n", ""), "names no position"),
    ];
    for (text, why) in spoilt {
        assert_ne!(text, good);
        folder.write(file, &text);
        let server = serve(&folder);
        eventually("the log", || read(&folder.0.join("log")).contains("a zone lacks its last updates"));
        assert_eq!(server.short(&folder, &["www.other.example", "A"]), "");
        assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 7 1 2 3 4"), "as its file has it");
        assert!(change(&server, "z.example", "add new.z.example 60 A 192.0.2.9").contains("SERVFAIL"));
        assert_eq!(change(&server, "other.example", "add new.other.example 60 A 192.0.2.9"), "");
        let status = folder.does(&["status", "--json"]);
        assert!(status.contains("\"lacking_updates\":[{\"zone\":\"z.example.\",\"why\":"), "{status}");
        assert!(read(&folder.0.join("log")).contains(why), "{why}: {}", read(&folder.0.join("log")));
        assert!(folder.does(&["zone", "list", "z.example"]).contains("state lacking"));
        // Neither by the rules of the zone nor by what is there is it taken on.
        folder.ctl(&["reload"]);
        assert!(change(&server, "z.example", "add new.z.example 60 A 192.0.2.9").contains("SERVFAIL"));
        server.signal("KILL");
        assert_eq!(read(&folder.0.join(file)), text, "what somebody may want to mend");
    }
    folder.write(file, &good);
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "", "the update of the beginning");
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 8 1 2 3 4"));
    assert_eq!(change(&server, "z.example", "add new.z.example 60 A 192.0.2.9"), "");
}

/// Others change meanwhile, and nothing is started anew.
#[test]
fn a_zone_whose_file_is_mended_has_its_last_updates_and_takes_more_after_a_reload() {
    let spoilt: [fn(&str) -> String; 3] = [
        |good| good.replace("www.z.example. 300 IN A 192.0.2.1\n", ""),
        |good| at_position(good, 0).replace("; dunlin, position 0\n", ""),
        |good| format!("{}what?\n", at_position(good, 0)),
    ];
    let other = "[[zone]]\nname = \"other.example\"\nfile = \"z.zone\"\nallow-update = [\"key:ddns\"]\n";
    for spoil in spoilt {
        let folder = folder();
        folder.configure(&format!("{CONFIGURATION}{other}"));
        let server = serve(&folder);
        assert_eq!(update(&server, &[], DDNS, "zone z.example\ndel www.z.example A"), "");
        server.killed();
        let (file, is_lacking) =
            ("data/journal/z.example.zone", || folder.does(&["zone", "list", "z.example"]).contains("state lacking"));
        let good = read(&folder.0.join(file));
        folder.write(file, &spoil(&good));
        let server = serve(&folder);
        eventually("a word of it", is_lacking);
        let add = |zone: &str| update(&server, &[], DDNS, &format!("zone {zone}\nadd new.{zone} 60 A 192.0.2.9"));
        assert_eq!(add("other.example"), "");
        folder.ctl(&["reload", "z.example"]);
        assert!(is_lacking() && add("z.example").contains("SERVFAIL"));
        assert_eq!(read(&folder.0.join(file)), spoil(&good), "what somebody may want to mend");
        folder.write(file, &good);
        folder.does(&["reload", "other.example"]);
        assert!(is_lacking(), "nobody has asked for it");
        folder.does(&["reload", "z.example"]);
        assert!(!is_lacking());
        assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 8 1 2 3 4"), "the update");
        assert_eq!(add("z.example"), "");
        let server = after_a_kill(server, &folder);
        assert_eq!(server.short(&folder, &["www.z.example", "A"]), "");
        for zone in ["z.example", "other.example"] {
            assert_eq!(server.short(&folder, &[&format!("new.{zone}"), "A"]), "192.0.2.9\n");
        }
    }
}

/// A file of ours as whoever mends it leaves it: it names this position, and speaks of no sum.
fn at_position(text: &str, position: u32) -> String {
    let records = text.split_once('\n').map(|(_, records)| records).unwrap();
    format!("; dunlin, position {position}\n{records}")
}

/// Of a server that was killed: www of z.example is gone, which stands in the journal alone.
fn folder_with_an_update() -> Folder {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\ndel www.z.example A"), "");
    server.signal("KILL");
    folder
}

/// The start had not to look at it.
#[test]
fn a_zone_that_lacks_its_last_updates_says_so_also_where_it_comes_with_a_reload() {
    let (folder, file) = (folder_with_an_update(), "data/journal/z.example.zone");
    let good = read(&folder.0.join(file));
    folder.write(file, &at_position(&good, 0).replace("; dunlin, position 0\n", ""));
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    folder.configure(&CONFIGURATION.replace(rules, ""));
    let server = serve(&folder);
    folder.configure(CONFIGURATION);
    folder.refuses(&["reload"], "zone z.example.: it takes no updates for now");
    eventually("a word of it", || folder.does(&["zone", "list", "z.example"]).contains("state lacking"));
    assert!(read(&folder.0.join("log")).contains("a zone lacks its last updates"));
    assert!(add(&server, 9).contains("SERVFAIL"));
    server.signal("KILL");
    drop(server);
    folder.write(file, &good);
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "", "the update");
    assert!(folder.does(&["zone", "list", "z.example"]).contains("state served"));
}

/// Without a restart: the journal keeps nothing for what nobody wants any more.
#[test]
fn a_zone_that_lacks_its_last_updates_begins_anew_once_it_was_taken_out_with_its_file() {
    for is_away_meanwhile in [true, false] {
        let (folder, file) = (folder_with_an_update(), "data/journal/z.example.zone");
        folder.write(file, &format!("{}what?\n", read(&folder.0.join(file))));
        let server = serve(&folder);
        eventually("the log", || read(&folder.0.join("log")).contains("a zone lacks its last updates"));
        folder.write("z.zone", &ZONE.replace(" 7 ", " 20 "));
        let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
        let without = CONFIGURATION.replace(rules, "");
        folder.configure(&without);
        folder.does(&["reload"]);
        for of_ours in ["z.example.zone", "z.example.origin", "z.example.1.base"] {
            fs::remove_file(folder.0.join("data/journal").join(of_ours)).unwrap();
        }
        if is_away_meanwhile {
            folder.configure(&format!("{without}\n"));
            folder.does(&["reload"]);
        }
        folder.configure(CONFIGURATION);
        folder.does(&["reload"]);
        eventually("updates", || add(&server, 1).is_empty());
        assert_eq!(server.short(&folder, &["www.z.example", "A"]), "192.0.2.1\n", "as its file has it");
        let server = after_a_kill(server, &folder);
        assert!(has(&folder, &server, 1));
    }
}

/// Its file may hold more than the image that is served: what follows is no change of what is there.
#[test]
fn a_zone_whose_own_file_cannot_be_read_is_served_as_it_was_and_takes_no_updates_until_it_can() {
    let (folder, file) = (folder_with_an_update(), "data/journal/z.example.zone");
    // As a fold has left it that wrote the file, and came to no image.
    let mended = at_position(&read(&folder.0.join(file)), 1)
        .replace("www.z.example. 300 IN A 192.0.2.1\n", "")
        .replace(" 7 1 2 3 4", " 8 1 2 3 4");
    let spoilt = format!("{mended}what?\n");
    folder.write(file, &spoilt);
    let server = serve(&folder);
    eventually("the log", || read(&folder.0.join("log")).contains("a zone lacks its last updates"));
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 7 1 2 3 4"));
    assert!(add(&server, 9).contains("SERVFAIL"));
    server.signal("KILL");
    drop(server);
    // It is ours also where there is nothing of it to serve, and what is wrong is said.
    fs::remove_dir_all(folder.0.join("data/images")).unwrap();
    let server = serve(&folder);
    eventually("what is wrong", || folder.does(&["zone", "list", "z.example"]).contains("z.example.zone:"));
    assert!(add(&server, 9).contains("SERVFAIL"));
    server.signal("KILL");
    drop(server);
    // And where the journal is damaged, too.
    let segment = folder.0.join("data/journal/journal.0000000001");
    let (whole, mut damaged) = (fs::read(&segment).unwrap(), fs::read(&segment).unwrap());
    damaged[0] ^= 1;
    fs::write(&segment, &damaged).unwrap();
    fs::remove_dir_all(folder.0.join("data/images")).unwrap();
    let server = serve(&folder);
    assert!(add(&server, 9).contains("SERVFAIL"));
    server.signal("KILL");
    drop(server);
    fs::write(&segment, &whole).unwrap();
    assert_eq!(read(&folder.0.join(file)), spoilt);
    folder.write(file, &mended);
    let server = serve(&folder);
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 8 1 2 3 4"));
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "");
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
}

/// What comes into a journal that somebody has emptied stands behind all that the zone's file holds.
#[test]
fn an_update_after_the_journal_was_lost_outlives_a_kill() {
    let folder = folder();
    drop(serve(&folder));
    let file = "data/journal/z.example.zone";
    folder.write(file, &at_position(&read(&folder.0.join(file)), 999));
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 8 1 2 3 4"));
    drop(server);
    // The rules come with a reload.
    folder.write(file, &at_position(&read(&folder.0.join(file)), 999));
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    folder.configure(&CONFIGURATION.replace(rules, ""));
    let server = serve(&folder);
    folder.configure(CONFIGURATION);
    folder.does(&["reload"]);
    let more = || update(&server, &[], DDNS, "zone z.example\nadd more.z.example 60 A 192.0.2.8");
    eventually("updates", || more().is_empty());
    server.signal("KILL");
    drop(server);
    assert_eq!(serve(&folder).short(&folder, &["more.z.example", "A"]), "192.0.2.8\n");
}

/// A backup was brought back in part: what is missing cannot be had, and that is said.
#[test]
fn a_journal_that_lacks_its_segments_or_a_zone_says_so() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(add(&server, 1), "");
    let journal = folder.0.join("data/journal");
    eventually("it is folded in", || journal.join("released").exists());
    server.signal("TERM");
    server.ended();
    for (name, says) in [
        ("journal.0000000001", "no segment is there, so what came after change 1 is lost"),
        ("z.example.zone", "zones begin anew from their files"),
        ("", "zones begin anew from their files"),
    ] {
        let lost = journal.join(name);
        if name.is_empty() { fs::remove_dir_all(lost) } else { fs::remove_file(lost) }.unwrap();
        let server = serve(&folder);
        assert!(read(&folder.0.join("log")).contains(says), "{}", read(&folder.0.join("log")));
        server.signal("TERM");
        server.ended();
    }
}

/// Somebody has brought one file of ours back from a backup: the journal has what it lacks, as long as that is kept.
#[test]
fn an_older_file_of_a_zone_gets_what_came_after_it_from_the_journal() {
    let folder = folder();
    let server = serve(&folder);
    let [file, released] = ["z.example.zone", "released"].map(|name| folder.0.join("data/journal").join(name));
    assert_eq!(add(&server, 1), "");
    eventually("it is folded in", || released.exists());
    let (first, before) = (fs::read(&file).unwrap(), read(&released));
    assert_eq!(add(&server, 2), "");
    eventually("that is, too", || read(&released) != before);
    assert_eq!(add(&server, 3), "");
    server.killed();
    fs::write(&file, first).unwrap();
    let server = serve(&folder);
    let says = "z.example.zone: it is not the one that was there last, but an older one; what came after it is taken from the journal";
    assert!(read(&folder.0.join("log")).contains(says), "{}", read(&folder.0.join("log")));
    let all = |server: &Server, n: u32| (1..=n).all(|i| has(&folder, server, i));
    assert!(all(&server, 3));
    assert_eq!(add(&server, 4), "");
    // Before it is written down again.
    let server = after_a_kill(server, &folder);
    assert!(all(&server, 4));
    assert_eq!(add(&server, 5), "");
    eventually("it is written down again", || read(&file).contains("n5.z.example"));
    let server = after_a_kill(server, &folder);
    assert!(all(&server, 5));
}

/// It is what an edit is told by: with nothing there all that updates had deleted would be what somebody has written.
#[test]
fn nothing_comes_back_where_what_was_kept_of_an_edited_file_is_cut_off() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\ndel www.z.example"), "");
    server.killed();
    let base = folder.0.join("data/journal/z.example.1.base");
    let whole = fs::read(&base).unwrap();
    folder.write("z.zone", &format!("{ZONE}new A 192.0.2.9\n"));
    for len in [0, 10] {
        fs::write(&base, &whole[..len]).unwrap();
        let server = serve(&folder);
        folder
            .refuses(&["reload", "z.example"], "z.example.1.base: it is not what was kept of the zone before the edit");
        assert_eq!(["www", "new"].map(|name| server.short(&folder, &[&format!("{name}.z.example"), "A"])), ["", ""]);
        server.killed();
    }
    fs::write(&base, &whole).unwrap();
    let server = serve(&folder);
    folder.does(&["reload", "z.example"]);
    assert_eq!(
        ["www", "new"].map(|name| server.short(&folder, &[&format!("{name}.z.example"), "A"])),
        ["", "192.0.2.9\n"]
    );
}

/// As after a crash between the copy of what its file says and the zone's own file: it never took an update.
#[test]
fn a_zone_whose_import_was_cut_off_does_not_begin_anew() {
    let folder = folder();
    serve(&folder).killed();
    fs::remove_file(folder.0.join("data/journal/z.example.zone")).unwrap();
    fs::remove_dir_all(folder.0.join("data/images")).unwrap();
    let server = serve(&folder);
    assert!(!read(&folder.0.join("log")).contains("zones begin anew"), "{}", read(&folder.0.join("log")));
    assert_eq!(add(&server, 1), "");
}

/// As on a disk that has become read-only: who is told, and when zones were refreshed, are no reason not to answer.
#[test]
fn a_start_answers_though_it_can_write_down_nothing_of_other_servers() {
    let folder = folder();
    let mut server = serve(&folder);
    server.signal("KILL");
    server.wait();
    let secondaries = folder.0.join("data/secondaries");
    fs::remove_dir_all(&secondaries).unwrap();
    fs::write(&secondaries, "").unwrap();
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "192.0.2.1\n");
    assert!(read(&folder.0.join("log")).contains("it is not written down when a zone was refreshed"));
}

/// What it says is of another moment, or spoilt: what comes after it would not be read, and be lost with the next update.
#[test]
fn where_the_journal_is_to_be_read_from_that_is_not_there_is_told_and_mended_by_hand() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(add(&server, 1), "");
    let released = folder.0.join("data/journal/released");
    eventually("it is folded in", || released.exists());
    let server = after_a_kill(server, &folder);
    assert_eq!(add(&server, 2), "");
    let mut server = after_a_kill(server, &folder);
    server.signal("KILL");
    server.wait();
    fs::write(&released, "5\n").unwrap();
    server = serve(&folder);
    let says = "it ends before change 2, and 5 is to follow";
    assert!(folder.does(&["status"]).contains(says), "{}", folder.does(&["status"]));
    assert_eq!(server.short(&folder, &["n1.z.example", "A"]), "192.0.2.1\n", "what was folded in");
    assert!(add(&server, 3).contains("SERVFAIL"));
    // What is none is not believed: all that is there is read.
    for spoilt in [None, Some("1x\n"), Some(""), Some("2 sum 00000000\n")] {
        server.signal("KILL");
        server.wait();
        match spoilt {
            None => fs::remove_file(&released).unwrap(),
            Some(spoilt) => fs::write(&released, spoilt).unwrap(),
        }
        server = serve(&folder);
        assert_eq!(server.short(&folder, &["n2.z.example", "A"]), "192.0.2.2\n", "{spoilt:?}");
        assert!(!read(&folder.0.join("log")).contains("warn"), "{}", read(&folder.0.join("log")));
    }
    // Whether what stood before the first segment was folded in nobody knows.
    server.signal("KILL");
    server.wait();
    fs::remove_file(folder.0.join("data/journal/journal.0000000001")).unwrap();
    let _ = fs::remove_file(&released);
    server = serve(&folder);
    assert!(read(&folder.0.join("log")).contains("the journal begins with change 1"));
    assert_eq!(add(&server, 3), "");
}

#[test]
fn a_check_of_a_zone_whose_file_is_gone_says_what_the_server_does() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    fs::rename(folder.0.join("z.zone"), folder.0.join("other.zone")).unwrap();
    let written = read(&folder.0.join("dunlin.toml"));
    folder.write(
        "dunlin.toml",
        &written
            .replace("name = \"fixed.example\"\nfile = \"z.zone\"", "name = \"fixed.example\"\nfile = \"other.zone\""),
    );
    let check = folder.dunlin(&["check", "-c", "dunlin.toml"]);
    let said = text(&check.stdout);
    assert!(check.status.success(), "{said}{}", text(&check.stderr));
    assert!(said.contains("warning: z.zone is not there; zone z.example. is as its updates have left it\n"), "{said}");
    folder.does(&["reload"]);
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
}

/// Zone files may be for few eyes.
#[test]
fn what_is_written_is_not_for_others_to_read_whatever_the_umask() {
    let folder = folder();
    folder.configure(&format!("[zones]\nlist = \"list\"\n{CONFIGURATION}"));
    folder.write("list", "listed.example z.zone\n");
    let with_none = |what: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask 0; exec \"$0\" {what} -c dunlin.toml"), env!("CARGO_BIN_EXE_dunlin")]);
        at_home(&folder.0, command)
    };
    // Whichever makes the folder.
    assert!(with_none("compile").status().unwrap().success());
    let server = Server::start_as(&folder, with_none("serve"));
    folder.write("z.zone", &ZONE.replace(" 7 ", " 9 "));
    folder.does(&["reload", "listed.example"]);
    folder.does(&["zone", "add", "more.example", "z.zone"]);
    eventually("an update", || add(&server, 9).is_empty());
    let (mut paths, mut seen) = (vec![folder.0.join("data"), folder.0.join("control.sock")], 0);
    while let Some(path) = paths.pop() {
        let is = fs::symlink_metadata(&path).unwrap();
        let (mode, socket) = (is.permissions().mode() & 0o777, is.file_type().is_socket());
        assert_eq!(mode & if socket { 0o007 } else { 0o027 }, 0, "{mode:o} {}", path.display());
        if is.is_dir() {
            paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}

/// Nobody writes into the pipe, and the device has no end: neither is waited for for ever.
#[test]
fn what_is_no_file_in_the_place_of_a_list_or_the_configuration_changes_nothing() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", running::ZONE);
    let list = folder.write("list", "example.com zones/example.com.zone\n");
    let file = folder.configure("[zones]\nlist = \"list\"\n");
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    for path in [list, file] {
        let away = path.with_extension("away");
        fs::rename(&path, &away).unwrap();
        let others = [(&["mkfifo"][..], "did not come within 10s"), (&["ln", "-s", "/dev/zero"], "it is no file")];
        for (program, why) in others {
            assert!(Command::new(program[0]).args(&program[1..]).arg(&path).status().unwrap().success());
            folder.refuses(&["reload"], why);
            fs::remove_file(&path).unwrap();
        }
        fs::rename(&away, &path).unwrap();
        folder.does(&["reload"]);
    }
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
}

/// Of which nobody reads all.
#[test]
fn a_zone_file_that_is_one_hole_costs_no_other_zone_anything() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", running::ZONE);
    fs::File::create(folder.0.join("zones/hole.example.zone")).unwrap().set_len(1 << 38).unwrap();
    let file = folder.configure(DIRECTORY);
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    folder.refuses(&["reload"], "no line ends in 1048576 octets");
}
