//! Disks that are full.

use crate::lost::at_position;
use crate::running::{Folder, Server, at_home, eventually, read};
use crate::updates::{CONFIGURATION, DDNS, ZONE, add, after_a_kill, folder, has, serve, serve_many, update};
use std::process::Command;

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
    let why = "\"lacking_updates\":[{\"zone\":\"new.example.\",\"why\":\"";
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

/// A server that has nothing laid behind its image, for that counts against the limit. The times of files that were written just before an image was made are not
/// believed: a reload, or what a start does behind its first answers, may read them once more, and lay them.
fn settled(folder: &Folder) -> Server {
    for starts in 1..9 {
        let server = serve(folder);
        folder.does(&["reload"]);
        if starts > 1 && folder.does(&["status", "--json"]).contains("\"generation\":1,") {
            return server;
        }
        server.signal("TERM");
        server.ended();
    }
    panic!("{}", read(&folder.0.join("log")))
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
    let server = settled(&folder);
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

/// A delegation that hides so many names takes a new image; each of the two zones is tried by itself.
#[test]
fn what_is_not_served_for_want_of_room_is_no_version_of_the_history() {
    let folder = folder();
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}.example\"\nfile = \"{name}.zone\"\n");
    folder.configure(&[CONFIGURATION, &zone("few"), &zone("many")].concat());
    let many: String = (0..=100_000).map(|i| format!("n{i}.many A 192.0.2.2\n")).collect();
    let text = format!("{ZONE}{many}");
    folder.write("many.zone", &text);
    folder.write("few.zone", ZONE);
    let server = serve(&folder);
    limit(&server, "300000");
    folder.write("few.zone", &ZONE.replace(" 7 ", " 8 "));
    folder.write("many.zone", &(text.replacen(" 7 ", " 8 ", 1) + "many NS ns\n"));
    let versions = |zone: &str| folder.does(&["zone", "log", zone]).matches("serial 8\n").count();
    let is_served = |zone: &str| server.short(&folder, &[zone, "SOA"]).contains(" 8 1 2 3 4");
    for _ in 0..2 {
        folder.refuses(&["reload"], "zone many.example.: it stays as it was until there is a new image");
        assert!(!is_served("many.example"));
        for zone in ["few.example", "many.example"] {
            assert_eq!(versions(zone), usize::from(is_served(zone)), "{zone}");
        }
    }
    limit(&server, "unlimited");
    folder.does(&["reload"]);
    assert_eq!(["few.example", "many.example"].map(|zone| (versions(zone), is_served(zone))), [(1, true); 2]);
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
    let server = serve_many(&folder, 10_000);
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
    eventually("it is tried again by itself", || many().is_empty());
    assert_eq!([add(&server, 4), add_there(4)].concat(), "");
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["n7.many.z.example", "A"]), "");
    assert!(has(&folder, &server, 4) && (1..4).all(|i| !has(&folder, &server, i)));
    for i in 1..=4 {
        assert_eq!(server.short(&folder, &[&format!("n{i}.other.example"), "A"]), format!("192.0.2.{i}\n"));
    }
}

/// The zone is its file's from then on, and that is held: what is served is what updates have made of it.
#[test]
fn what_takes_a_new_image_comes_with_it_though_the_zone_is_its_updates_no_more() {
    let folder = folder();
    let server = serve_many(&folder, 10_000);
    let below = || server.short(&folder, &["n7.many.z.example", "A"]);
    limit(&server, "20000");
    let change = "zone z.example\nadd many.z.example 60 NS ns.other.example.";
    assert!(update(&server, &["-v"], DDNS, change).contains("SERVFAIL"));
    assert_eq!(below(), "192.0.2.2\n");
    folder.write("z.zone", &ZONE.replace(" 7 ", " 20 "));
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    folder.configure(&CONFIGURATION.replacen(rules, "", 1));
    limit(&server, "unlimited");
    folder.refuses(&["reload"], "would be lost");
    assert_eq!(below(), "");
    folder.refuses(&["reload"], "would be lost");
    assert_eq!(below(), "");
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["n7.many.z.example", "A"]), "");
}
