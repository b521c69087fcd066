//! Whose a zone is: its file's, its updates', or the file's once more. Zones come to their updates, leave them, and come back.

use crate::running::{DIRECTORY, Folder, Server, eventually, read, text};
use crate::updates::{CONFIGURATION, DDNS, ZONE, after_a_kill, folder, serve, update};
use std::fs;

/// Its rules stay as they are, so nobody says of it what he said before.
#[test]
fn a_zone_whose_own_file_is_taken_away_begins_anew_from_the_configured_one() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    for entry in fs::read_dir(folder.0.join("data/journal")).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("z.example.") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    folder.write("z.zone", &ZONE.replace(" 7 ", " 20 "));
    folder.configure(&format!("{CONFIGURATION}\n"));
    folder.does(&["reload"]);
    // Not under what secondaries know with other content.
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 20 "));
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "");
    let more = || update(&server, &[], DDNS, "zone z.example\nadd more.z.example 60 A 192.0.2.8");
    eventually("updates", || more().is_empty());
    assert_eq!(server.short(&folder, &["more.z.example", "A"]), "192.0.2.8\n");
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "");
}

/// The zone leaves the configuration before its changes are in any file.
#[test]
fn a_zone_that_goes_just_after_an_update_comes_back_with_it() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    let z = CONFIGURATION.find("[[zone]]").unwrap()..CONFIGURATION.rfind("[[zone]]").unwrap();
    folder.configure(&CONFIGURATION.replace(&CONFIGURATION[z], ""));
    let said = folder.does(&["reload"]);
    assert!(said.contains("rebuilt false"), "others have nothing to do with it: {said}");
    let kept = read(&folder.0.join("data/journal/z.example.zone"));
    assert!(kept.contains("new.z.example. 60 IN A 192.0.2.9"), "{kept}");
    folder.configure(CONFIGURATION);
    let said = folder.does(&["reload"]);
    assert!(said.contains("rebuilt false"), "{said}");
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
    let more = || update(&server, &[], DDNS, "zone z.example\nadd more.z.example 60 A 192.0.2.8");
    eventually("updates", || more().is_empty());
    // Its configured file is no edit: one that comes afterwards is all that changes.
    folder.write("z.zone", &ZONE.replace("192.0.2.1\n", "192.0.2.3\n"));
    folder.does(&["reload"]);
    eventually("the edit", || server.short(&folder, &["www.z.example", "A"]) == "192.0.2.3\n");
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
    assert_eq!(server.short(&folder, &["more.z.example", "A"]), "192.0.2.8\n");
}

/// Nobody writes into its file below data-dir: that need not be old to be known.
#[test]
fn a_reload_after_a_zone_has_come_to_its_updates_has_nothing_to_do() {
    let folder = folder();
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    folder.configure(&CONFIGURATION.replacen(rules, "", 1));
    folder.write_long_ago("z.zone", ZONE);
    let server = serve(&folder);
    folder.does(&["reload"]);
    folder.configure(CONFIGURATION);
    folder.does(&["reload"]);
    let change = || update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9");
    eventually("updates", || change().is_empty());
    let said = folder.does(&["reload"]);
    assert!(said.contains("changed false"), "{said}");
}

/// Its file counts again, and nothing of what updates have made of it that no file held yet.
#[test]
fn a_zone_that_takes_no_updates_any_more_is_what_its_file_says() {
    let folder = folder();
    let server = serve(&folder);
    let change = "zone z.example\nadd new.z.example 60 A 192.0.2.9\ndel www.z.example A";
    assert_eq!(update(&server, &[], DDNS, change), "");
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    folder.configure(&CONFIGURATION.replace(rules, ""));
    folder.write("z.zone", &ZONE.replace(" 7 ", " 20 ").replace("192.0.2.1\n", "192.0.2.2\n"));
    folder.does(&["reload"]);
    let is_of_file = || {
        assert_eq!(server.short(&folder, &["new.z.example", "A"]), "");
        assert_eq!(server.short(&folder, &["www.z.example", "A"]), "192.0.2.2\n");
        assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 20 1 2 3 4"));
    };
    is_of_file();
    // A new image, over which is laid what no file holds.
    folder.does(&["zone", "publish", "--force", "z.example"]);
    is_of_file();
    // It goes back as its file, and freezes for nobody.
    folder.refuses(&["zone", "freeze", "z.example"], "takes no updates");
    folder.refuses(&["zone", "freeze", "none.example"], "there is no zone none.example");
    folder.refuses(&["zone", "rollback", "z.example", "8"], "z.zone is the file of fixed.example., too");
    folder.write("fixed.zone", &ZONE.replace(" 7 ", " 21 "));
    folder.configure(
        &CONFIGURATION
            .replace(rules, "")
            .replace("\"fixed.example\"\nfile = \"z.zone\"", "\"fixed.example\"\nfile = \"fixed.zone\""),
    );
    folder.does(&["reload"]);
    folder.does(&["zone", "rollback", "z.example", "8"]);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
    assert!(read(&folder.0.join("z.zone")).contains("new.z.example."));
    // What was acknowledged is where it would be looked for.
    let kept = read(&folder.0.join("data/journal/z.example.zone"));
    assert!(kept.contains("new.z.example. 60 IN A 192.0.2.9"), "{kept}");
}

/// What is served is weighed, though the last image has nothing of the last updates.
#[test]
fn a_zone_that_is_its_updates_no_more_when_the_server_starts_does_not_go_back_for_its_file() {
    let folder = folder();
    let mut server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    server = after_a_kill(server, &folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd more.z.example 60 A 192.0.2.8"), "");
    server.signal("KILL");
    drop(server);
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    folder.configure(&CONFIGURATION.replace(rules, ""));
    let server = serve(&folder);
    let is_as_updated = || {
        assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
        assert_eq!(server.short(&folder, &["more.z.example", "A"]), "192.0.2.8\n");
        assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 9 1 2 3 4"));
    };
    is_as_updated();
    folder.refuses(&["reload"], "the serial 7 does not follow 9");
    is_as_updated();
    folder.write("z.zone", &ZONE.replace(" 7 ", " 20 "));
    folder.does(&["reload"]);
    assert_eq!(server.short(&folder, &["more.z.example", "A"]), "");
}

/// What its updates have made is served on, and is in no file that is the zone's.
#[test]
fn a_zone_that_its_updates_leave_while_its_file_is_held_is_as_they_made_it() {
    let folder = folder();
    let mut server = serve(&folder);
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    let more = "allow-update = [\"key:ddns\"]";
    folder.write("more.zone", ZONE);
    let with = format!("{CONFIGURATION}[[zone]]\nname = \"more.example\"\nfile = \"more.zone\"\n{more}\n");
    folder.configure(&with);
    let said = folder.does(&["reload"]);
    assert!(said.contains("rebuilt false"), "{said}");
    let add = |zone: &str| format!("zone {zone}\nadd new.{zone} 60 A 192.0.2.9");
    assert_eq!(update(&server, &[], DDNS, &add("z.example")), "");
    eventually("updates", || update(&server, &[], DDNS, &add("more.example")).is_empty());
    folder.configure(&[rules, more].into_iter().fold(with, |with, rules| with.replace(rules, "")));
    folder.refuses(&["reload"], "does not follow");
    for _ in 0..2 {
        for zone in ["z.example", "more.example"] {
            assert_eq!(server.short(&folder, &[&format!("new.{zone}"), "A"]), "192.0.2.9\n");
        }
        server = after_a_kill(server, &folder);
    }
}

/// Also where the history of its file ends with that version already.
#[test]
fn what_is_served_by_force_in_the_place_of_updates_is_in_the_history() {
    let folder = folder();
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    let without = CONFIGURATION.replace(rules, "");
    folder.configure(&without);
    let server = serve(&folder);
    folder.write("z.zone", &ZONE.replace(" 7 ", " 8 ").replace("192.0.2.1\n", "192.0.2.2\n"));
    folder.does(&["reload"]);
    for (i, served) in [(1, 9), (2, 10)] {
        folder.configure(CONFIGURATION);
        folder.does(&["reload"]);
        let add = format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.9");
        eventually("updates", || update(&server, &[], DDNS, &add).is_empty());
        folder.configure(&without);
        folder.refuses(&["reload"], "does not follow");
        folder.does(&["zone", "publish", "--force", "z.example"]);
        assert_eq!(server.short(&folder, &[&format!("n{i}.z.example")]), "");
        let log = folder.does(&["zone", "log", "z.example"]);
        assert_eq!(log.matches("by force").count(), i, "{log}");
        let shown = folder.does(&["zone", "show", "z.example", "--serial", &served.to_string()]);
        assert!(shown.contains(&format!("n{i}.z.example.")), "{shown}");
    }
}

/// As if it came from nowhere: its block goes, and a list has it from its file; the block comes back.
#[test]
fn a_zone_that_comes_back_to_its_updates_is_theirs_once_it_is_served_as_they_left_it() {
    let folder = folder();
    let list = "[zones]\nlist = \"list\"\n";
    folder.write("list", "z.example z.zone\n");
    folder.configure(&format!("{list}{CONFIGURATION}"));
    let server = serve(&folder);
    let add = |server: &Server, i: u8| {
        update(server, &[], DDNS, &format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}"))
    };
    assert_eq!(add(&server, 1), "");
    let z = CONFIGURATION.find("[[zone]]").unwrap()..CONFIGURATION.rfind("[[zone]]").unwrap();
    folder.configure(&format!("{list}{}", CONFIGURATION.replace(&CONFIGURATION[z], "")));
    folder.write("z.zone", &ZONE.replace(" 7 ", " 20 ").replace("192.0.2.1\n", "192.0.2.3\n"));
    folder.does(&["reload"]);
    assert_eq!(server.short(&folder, &["n1.z.example", "A"]), "", "as its file says");
    assert!(add(&server, 2).contains("REFUSED"));
    let kept = read(&folder.0.join("data/journal/z.example.zone"));
    assert!(kept.contains("n1.z.example. 60 IN A 192.0.2.1"), "{kept}");
    folder.refuses(&["zone", "freeze", "z.example"], "takes no updates");
    folder.configure(&format!("{list}{CONFIGURATION}"));
    folder.does(&["reload"]);
    assert_eq!(server.short(&folder, &["n1.z.example", "A"]), "192.0.2.1\n");
    eventually("updates", || add(&server, 2).is_empty());
    // Its file was edited meanwhile: that comes to what updates have made of it.
    let are_there = |server: &Server| {
        for (name, address) in [("n1", "192.0.2.1\n"), ("n2", "192.0.2.2\n"), ("www", "192.0.2.3\n")] {
            assert_eq!(server.short(&folder, &[&format!("{name}.z.example"), "A"]), address);
        }
    };
    eventually("the edit", || server.short(&folder, &["www.z.example", "A"]) == "192.0.2.3\n");
    are_there(&server);
    server.signal("KILL");
    drop(server);
    are_there(&serve(&folder));
}

/// Why a file is held that takes a zone from its updates under the serial that they have led it to.
const UPDATED: &str = "updates have had another version served under the serial";

/// Secondaries have what its file had served meanwhile.
#[test]
fn a_zone_that_comes_back_to_its_updates_goes_on_from_its_files_serial() {
    let folder = folder();
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    let without = CONFIGURATION.replace(rules, "");
    let add = |server: &Server, i: u32| {
        update(server, &[], DDNS, &format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}"))
    };
    let serial = |server: &Server| -> u32 {
        let soa = server.short(&folder, &["z.example", "SOA"]);
        soa.split(' ').nth(2).and_then(|serial| serial.parse().ok()).unwrap_or_else(|| panic!("{soa}"))
    };
    let mut server = serve(&folder);
    assert_eq!(add(&server, 1), "");
    // First under the serial to which the update has led.
    for (edited, is_down) in [(8, false), (20, false), (40, true), (60, false)] {
        if edited == 60 {
            // As if it had never been there.
            let z = CONFIGURATION.find("[[zone]]").unwrap()..CONFIGURATION.rfind("[[zone]]").unwrap();
            folder.configure(&CONFIGURATION.replace(&CONFIGURATION[z], ""));
            folder.does(&["reload"]);
        }
        folder.configure(&without);
        let zone = ZONE.replace(" 7 ", &format!(" {edited} "));
        folder.write("z.zone", &zone.replace("192.0.2.1\n", &format!("192.0.2.{edited}\n")));
        if edited == 8 {
            folder.refuses(&["reload"], UPDATED);
            assert_eq!(server.short(&folder, &["n1.z.example", "A"]), "192.0.2.1\n");
            folder.does(&["zone", "publish", "--force", "z.example"]);
        } else {
            folder.does(&["reload"]);
        }
        assert_eq!(serial(&server), edited);
        folder.configure(CONFIGURATION);
        server = if is_down {
            server.signal("KILL");
            drop(server);
            serve(&folder)
        } else {
            folder.does(&["reload"]);
            server
        };
        eventually("updates", || add(&server, 100 + edited).is_empty());
        eventually("the edit", || server.short(&folder, &["www.z.example", "A"]) == format!("192.0.2.{edited}\n"));
        assert_eq!(serial(&server), edited + 3, "for the return, the update and the edit");
        assert_eq!(server.short(&folder, &["n1.z.example", "A"]), "192.0.2.1\n");
        assert!(!folder.0.join("data/journal/z.example.overtaken").exists());
    }
    // What updates had made before can be looked at, too.
    for words in [&["zone", "show", "z.example", "--serial", "8"][..], &["zone", "diff", "z.example", "7", "8"]] {
        let said = text(&folder.ctl(words).stdout);
        assert!(said.contains("n1.z.example."), "{said}");
    }
}

/// What it took before that would come under a serial that secondaries have passed, or that its file has had with other content.
#[test]
fn a_zone_that_has_not_gone_on_from_its_files_serial_takes_no_change() {
    let folder = folder();
    let server = serve(&folder);
    let add = |server: &Server, name: &str| {
        update(server, &[], DDNS, &format!("zone z.example\nadd {name}.z.example 60 A 192.0.2.9"))
    };
    assert_eq!(add(&server, "one"), "");
    folder.configure(&configured(""));
    folder.write("z.zone", &ZONE.replace(" 7 ", " 60 "));
    folder.does(&["reload"]);
    // Nobody can read for now how far that was.
    let mark = folder.0.join("data/journal/z.example.overtaken");
    let said = fs::read(&mark).unwrap();
    fs::remove_file(&mark).unwrap();
    fs::create_dir(&mark).unwrap();
    folder.configure(CONFIGURATION);
    // No edit is to be taken in, which would wait, too.
    folder.write("z.zone", ZONE);
    folder.does(&["reload", "z.example"]);
    let back = || text(&folder.ctl(&["zone", "rollback", "z.example", "7"]).stderr);
    eventually("the zone's return", || back().contains("it is behind its file's serial for now"));
    assert!(add(&server, "two").contains("update failed: SERVFAIL"));
    // Nor does it take an edit, and that is told.
    folder.write("z.zone", &format!("{ZONE}edited A 192.0.2.8\n"));
    folder.refuses(&["zone", "publish", "z.example"], "it is behind its file's serial for now");
    let server = after_a_kill(server, &folder);
    assert!(add(&server, "two").contains("update failed: SERVFAIL"));
    server.killed();
    fs::remove_dir(&mark).unwrap();
    fs::write(&mark, said).unwrap();
    let server = serve(&folder);
    eventually("updates", || add(&server, "two").is_empty());
    eventually("the edit", || server.short(&folder, &["edited.z.example", "A"]) == "192.0.2.8\n");
    assert_eq!(serial(&folder, &server), 63, "for the return, the update and the edit");
    assert_eq!(server.short(&folder, &["one.z.example", "A"]), "192.0.2.9\n");
}

/// Under one serial its file has had other records than updates had.
#[test]
fn a_zone_that_changed_hands_is_shown_and_goes_back_as_it_was() {
    let folder = folder();
    folder.write("fixed.zone", ZONE);
    let owned =
        CONFIGURATION.replace("\"fixed.example\"\nfile = \"z.zone\"", "\"fixed.example\"\nfile = \"fixed.zone\"");
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    folder.configure(&owned);
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    folder.write("z.zone", &ZONE.replace(" 7 ", " 9 ").replace("192.0.2.1\n", "192.0.2.2\n"));
    folder.does(&["reload"]);
    eventually("the edit", || server.short(&folder, &["www.z.example", "A"]) == "192.0.2.2\n");
    let has_new =
        |serial: &str| folder.does(&["zone", "show", "z.example", "--serial", serial]).contains("new.z.example.");

    folder.configure(&owned.replace(rules, ""));
    folder.refuses(&["reload"], UPDATED);
    folder.does(&["zone", "publish", "--force", "z.example"]);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "", "the file's 9 has it not");
    assert!(has_new("8") && !has_new("9") && !has_new("7"));
    let went = folder.does(&["zone", "diff", "z.example", "8", "9"]);
    assert!(went.contains("new.z.example."), "{went}");

    folder.configure(&owned);
    folder.does(&["reload"]);
    let is_back = || server.short(&folder, &["z.example", "SOA"]).contains(" 10 1 2 3 4");
    eventually("the updates' own", is_back);
    assert!(has_new("10") && has_new("9") && has_new("8") && !has_new("7"));

    let shown = folder.does(&["zone", "show", "z.example"]);
    folder.write("z.zone", &shown.replace(" 10 1 2 3 4", " 11 1 2 3 4"));
    folder.configure(&owned.replace(rules, ""));
    folder.does(&["reload"]);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n", "the file's 11");
    folder.does(&["zone", "rollback", "z.example", "7"]);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "");
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "192.0.2.1\n");
}

/// One zone's updates are no past of another that comes under its name.
#[test]
fn a_zone_that_comes_under_the_name_of_one_of_updates_is_made_anew() {
    let folder = folder();
    folder.write("list", "");
    let list = "[zones]\nlist = \"list\"\n";
    folder.configure(&format!("{list}{CONFIGURATION}"));
    let server = serve(&folder);
    for i in 1..=4 {
        assert_eq!(update(&server, &[], DDNS, &format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}")), "");
    }
    folder.configure(list);
    folder.does(&["reload"]);
    let hosts: String = (1..=2).map(|i| format!("n{i} 60 A 192.0.2.{i}\n")).collect();
    folder.write("new.zone", &format!("{}{hosts}x A 192.0.2.7\n", ZONE.replace(" 7 ", " 9 ")));
    folder.write("list", "z.example new.zone\n");
    folder.does(&["reload"]);
    let log = folder.does(&["zone", "log", "z.example"]);
    assert!(log.find("made anew") > log.rfind("update key ddns"), "{log}");
    for words in [["zone", "rollback", "z.example", "8"], ["zone", "rollback", "z.example", "10"]] {
        folder.refuses(&words, "no way back to version");
    }
    assert_eq!(server.short(&folder, &["x.z.example"]), "192.0.2.7\n");
    // They are there when it is theirs again.
    folder.configure(CONFIGURATION);
    folder.does(&["reload"]);
    eventually("its updates", || server.short(&folder, &["n4.z.example"]) == "192.0.2.4\n");
}

/// What updates are to begin with is a version as any other.
#[test]
fn a_version_that_is_held_is_held_from_updates_too() {
    let folder = folder();
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    folder.configure(&CONFIGURATION.replace(rules, ""));
    let server = serve(&folder);
    let edit = |serial: &str| {
        folder.write_long_ago("z.zone", &ZONE.replace(" 7 ", serial).replace("192.0.2.1\n", "192.0.2.2\n"));
    };
    edit(" 5 ");
    let why = "the serial 5 does not follow 7";
    folder.refuses(&["reload"], why);
    folder.configure(CONFIGURATION);
    folder.refuses(&["reload"], why);
    let is_as_before = |server: &Server| server.short(&folder, &["www.z.example"]) == "192.0.2.1\n";
    assert!(is_as_before(&server));
    // The image that the first start makes has what is served, and is of what is held.
    let mut server = server;
    for _ in 0..2 {
        server = after_a_kill(server, &folder);
        assert!(is_as_before(&server));
        assert!(text(&folder.ctl(&["--json", "status"]).stdout).contains(why));
    }
    edit(" 9 ");
    folder.does(&["reload"]);
    eventually("updates", || update(&server, &[], DDNS, "zone z.example\nadd n.z.example 60 A 192.0.2.9").is_empty());
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 10 1 2 3 4"));
    assert!(text(&folder.ctl(&["zone", "log", "z.example"]).stdout).contains("file changed"));
}

/// Rules go and come, and the file is edited, faster than what is served can follow: a large zone beside it is read anew each time.
#[test]
fn whoever_a_zone_belongs_to_what_was_acknowledged_is_there_when_it_is_its_updates() {
    let folder = folder();
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    let other = "[[zone]]\nname = \"large.example\"\nfile = \"large.zone\"\n";
    let (with, without) = (format!("{CONFIGURATION}{other}"), format!("{CONFIGURATION}{other}").replace(rules, ""));
    let many: String = (0..30_000).map(|i| format!("n{i} A 192.0.2.2\n")).collect();
    let write = |round: u32| {
        folder.write("large.zone", &format!("{}{many}", ZONE.replace(" 7 ", &format!(" {} ", 7 + round))));
        let edited = ZONE.replace(" 7 ", &format!(" {} ", 7 + 100 * round));
        folder.write("z.zone", &edited.replace("192.0.2.1\n", &format!("192.0.2.{}\n", 100 + round)));
    };
    write(0);
    folder.configure(&without);
    let server = serve(&folder);
    let add = |i: u32| update(&server, &[], DDNS, &format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}"));
    let mut acknowledged = Vec::new();
    for round in 1..=12 {
        write(round / 3);
        folder.configure(if round % 3 == 0 { &without } else { &with });
        server.signal("HUP");
        acknowledged.extend((0..8).map(|i| 10 * round + i).filter(|i| add(*i).is_empty()));
    }
    folder.configure(&with);
    folder.does(&["reload"]);
    eventually("updates", || add(200).is_empty());
    acknowledged.push(200);
    let are_there = |server: &Server| {
        for i in &acknowledged {
            let said = server.short(&folder, &[&format!("n{i}.z.example"), "A"]);
            assert_eq!(said, format!("192.0.2.{i}\n"), "{i} of {acknowledged:?}");
        }
    };
    are_there(&server);
    // What was edited last, too.
    eventually("the edit", || server.short(&folder, &["www.z.example", "A"]) == "192.0.2.104\n");
    server.signal("KILL");
    drop(server);
    assert!(!read(&folder.0.join("log")).contains("lacks its last updates"));
    let server = serve(&folder);
    assert!(!read(&folder.0.join("log")).contains("lacks its last updates"));
    are_there(&server);
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "192.0.2.104\n");
}

/// A server of so many zones answers from its image first, and an update lies over that by then.
#[test]
fn a_zone_that_was_made_anew_is_not_what_the_image_has_under_its_name() {
    let folder = folder();
    folder.configure(&format!("{DIRECTORY}{CONFIGURATION}"));
    (0..1_000).for_each(|i| _ = folder.write(&format!("zones/other-{i}.zone"), ZONE));
    let file = folder.write("zones/anew.zone", &ZONE.replace(" 7 ", " 12 "));
    let server = serve(&folder);
    fs::remove_file(&file).unwrap();
    folder.does(&["reload"]);
    folder.write("zones/anew.zone", &ZONE.replace(" 7 ", " 5 ").replace("192.0.2.1\n", "192.0.2.5\n"));
    folder.does(&["reload"]);
    assert_eq!(server.short(&folder, &["www.anew", "A"]), "192.0.2.5\n");
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd n.z.example 60 A 192.0.2.9"), "");
    let server = after_a_kill(server, &folder);
    eventually("the zone that was made anew", || server.short(&folder, &["www.anew", "A"]) == "192.0.2.5\n");
    assert!(folder.does(&["status", "--json"]).contains("\"held\":[]"));
}

#[test]
fn the_first_zone_that_takes_updates_may_come_with_a_reload() {
    let folder = folder();
    let none = |line: &&str| !line.starts_with("allow-update");
    folder.configure(&CONFIGURATION.lines().filter(none).collect::<Vec<_>>().join("\n"));
    let server = serve(&folder);
    let add = |i: u8| format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}");
    assert!(update(&server, &[], DDNS, &add(1)).contains("REFUSED"));
    let elsewhere = || update(&server, &[], DDNS, "zone else.example\nadd n.else.example 60 A 192.0.2.1");
    assert!(elsewhere().contains("NOTAUTH"), "whoever takes updates");
    assert!(!folder.0.join("data/journal").exists(), "and nothing is made for nobody");
    folder.configure(CONFIGURATION);
    folder.does(&["reload"]);
    eventually("the zone takes updates", || update(&server, &[], DDNS, &add(2)).is_empty());
    assert!(elsewhere().contains("NOTAUTH"));
    assert_eq!(server.short(&folder, &["n2.z.example", "A"]), "192.0.2.2\n");
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["n2.z.example", "A"]), "192.0.2.2\n");
    assert_eq!(update(&server, &[], DDNS, &add(3)), "");
}

/// More than are written down before the first answer is given.
#[test]
fn very_many_zones_take_updates_soon_after_their_first_start() {
    let folder = folder();
    let zone =
        |n: u32| format!("[[zone]]\nname = \"z{n}.example\"\nfile = \"z.zone\"\nallow-update = [\"key:ddns\"]\n");
    folder.configure(&(CONFIGURATION.to_string() + &(0..1001).map(zone).collect::<String>()));
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["www.z1000.example", "A"]), "192.0.2.1\n");
    for n in [0, 1000] {
        let add = format!("zone z{n}.example\nadd n.z{n}.example 60 A 192.0.2.2");
        eventually("the zone takes updates", || update(&server, &[], DDNS, &add).is_empty());
    }
    let server = after_a_kill(server, &folder);
    for n in [0, 1000] {
        assert_eq!(server.short(&folder, &[&format!("n.z{n}.example"), "A"]), "192.0.2.2\n");
        let add = format!("zone z{n}.example\nadd m.z{n}.example 60 A 192.0.2.3");
        eventually("the zone takes updates", || update(&server, &[], DDNS, &add).is_empty());
    }
}

/// A zone is taken away for good, and somebody else has its name later.
#[test]
fn a_zone_that_is_made_anew_has_nothing_of_the_one_before_once_that_is_removed() {
    let folder = folder();
    let server = serve(&folder);
    let written = read(&folder.0.join("dunlin.toml"));
    let without = written.replace(&CONFIGURATION[CONFIGURATION.find("[[zone]]").unwrap()..], "");
    let is_served = || server.short(&folder, &["old.z.example", "A"]) == "192.0.2.9\n";
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd old.z.example 60 A 192.0.2.9"), "");
    for is_removed in [false, true] {
        folder.write("dunlin.toml", &without);
        folder.does(&["reload"]);
        if is_removed {
            for entry in fs::read_dir(folder.0.join("data/journal")).unwrap().map(Result::unwrap) {
                if entry.file_name().to_str().unwrap().starts_with("z.example.") {
                    fs::remove_file(entry.path()).unwrap();
                }
            }
        }
        folder.write("dunlin.toml", &written);
        folder.does(&["reload"]);
        eventually("updates", || {
            update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.7").is_empty()
        });
        assert_eq!(is_served(), !is_removed);
        let log = read(&folder.0.join("log"));
        assert_eq!(log.matches("warn zones go on as their updates have left them zones=1 first=z.example.").count(), 1);
    }
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["old.z.example", "A"]), "");
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.7\n");
}

#[test]
fn a_zone_takes_updates_once_the_reload_is_over_that_says_so() {
    let folder = folder();
    let server = serve(&folder);
    let mut configuration = CONFIGURATION.to_string();
    for i in 0..5 {
        let zone = format!("n{i}.example");
        folder.write(&zone, ZONE);
        configuration += &format!("[[zone]]\nname = \"{zone}\"\nfile = \"{zone}\"\nallow-update = [\"key:ddns\"]\n");
        folder.configure(&configuration);
        folder.does(&["reload"]);
        assert_eq!(update(&server, &[], DDNS, &format!("zone {zone}\nadd new.{zone} 60 A 192.0.2.9")), "", "{zone}");
    }
}

#[test]
fn all_zones_are_listed_with_who_owns_them_and_how_they_are() {
    let folder = folder();
    let far = "[[zone]]\nname = \"far.example\"\nprimaries = [\"127.0.0.1:1\"]\n";
    folder.configure(&format!("[zones]\nlist = \"list\"\ndirectory = \"zones\"\n{CONFIGURATION}{far}"));
    folder.write("list", "listed.example listed\nbad.example bad\n");
    for (file, text) in [("listed", ZONE), ("bad", "nonsense"), ("zones/lying.example.zone", ZONE)] {
        folder.write(file, text);
    }
    let _server = serve(&folder);
    folder.does(&["zone", "add", "kept.example", "z.zone"]);
    let list = |names: &[&str]| {
        let told = folder.does(&[&["--json", "zone", "list"], names].concat());
        let (_, zones) = told.split_once("\"zones\":[").unwrap_or_else(|| panic!("{told}"));
        let zones = zones.split("{\"zone\":").skip(1).map(|zone| {
            let fact = |key: &str| {
                let rest = zone.split_once(key).map_or("", |(_, rest)| rest);
                rest.split([',', '}']).next().unwrap_or_default().trim_matches('"').to_string()
            };
            let name = zone.split('"').nth(1).unwrap_or_default();
            format!("{name} {} {} {}", fact("\"owner\":"), fact("\"state\":"), fact("\"serial\":"))
        });
        zones.collect::<Vec<_>>()
    };
    let far = "far.example. transfer awaited null";
    eventually("it was asked for", || list(&["far.example"]) == [far]);
    let all = [
        "bad.example. file absent null",
        far,
        "fixed.example. file served 7",
        "kept.example. api served 7",
        "listed.example. file served 7",
        "lying.example. file served 7",
        "z.example. update served 7",
    ];
    assert_eq!(list(&[]), all);
    folder.does(&["zone", "freeze", "z.example"]);
    folder.write("listed", "nonsense");
    folder.write("zones/lying.example.zone", &ZONE.replace(" 7 ", " 6 "));
    folder.refuses(&["reload"], "listed.example");
    let amiss = [all[0], "listed.example. file wrong 7", "lying.example. file held 7", "z.example. update frozen 7"];
    assert_eq!(list(&["z.example", "lying.example.", "Listed.example", "bad.example"]), amiss);
    folder.refuses(&["zone", "list", "none.example", "a..b"], "there is no zone none.example");
    // Nothing names it any more, and nobody has asked for a reload.
    folder.write("list", "");
    assert_eq!(list(&["kept.example", "listed.example"]), [all[3], "listed.example. null wrong 7"]);
}

/// z.example with this in the place of its rules.
pub fn configured(instead: &str) -> String {
    let rules = CONFIGURATION.lines().find(|line| line.starts_with("allow-update")).unwrap();
    CONFIGURATION.replacen(rules, instead, 1)
}

pub fn serial(folder: &Folder, server: &Server) -> u32 {
    let soa = server.short(folder, &["z.example", "SOA"]);
    soa.split(' ').nth(2).and_then(|serial| serial.parse().ok()).unwrap_or_default()
}

/// The last image has its file's version, and no history says since when updates went on.
#[test]
fn what_updates_made_of_a_zone_after_their_return_is_served_by_a_start_without_rules() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    folder.configure(&configured(""));
    folder.write("z.zone", &ZONE.replace(" 7 ", " 60 "));
    folder.does(&["reload"]);
    let server = after_a_kill(server, &folder);
    assert_eq!(serial(&folder, &server), 60);
    folder.configure(CONFIGURATION);
    folder.does(&["reload"]);
    let more = || update(&server, &[], DDNS, "zone z.example\nadd more.z.example 60 A 192.0.2.8").is_empty();
    eventually("updates", more);
    let last = serial(&folder, &server);
    server.killed();
    folder.configure(&configured(""));
    let server = serve(&folder);
    assert_eq!(serial(&folder, &server), last);
    for (name, address) in [("new", "192.0.2.9\n"), ("more", "192.0.2.8\n")] {
        assert_eq!(server.short(&folder, &[&format!("{name}.z.example"), "A"]), address);
    }
}

/// While its file owned the zone, that had a version of a serial that updates had had before.
#[test]
fn the_newest_version_of_a_serial_is_meant_whoever_made_it() {
    let folder = folder();
    let server = serve(&folder);
    for name in ["one", "two"] {
        assert_eq!(update(&server, &[], DDNS, &format!("zone z.example\nadd {name}.z.example 60 A 192.0.2.9")), "");
    }
    folder.configure(&configured(""));
    folder.write("z.zone", &ZONE.replace(" 7 ", " 8 ").replace("192.0.2.1\n", "192.0.2.8\n"));
    folder.refuses(&["reload"], "the serial 8 does not follow 9");
    folder.does(&["zone", "publish", "--force", "z.example"]);
    assert_eq!(serial(&folder, &server), 8);
    folder.configure(CONFIGURATION);
    folder.does(&["reload"]);
    let more = || update(&server, &[], DDNS, "zone z.example\nadd more.z.example 60 A 192.0.2.8").is_empty();
    eventually("updates", more);
    let log = folder.does(&["zone", "log", "z.example"]);
    assert_eq!(log.matches("serial 8\n").count(), 2, "{log}");
    let shown = folder.does(&["zone", "show", "z.example", "--serial", "8"]);
    assert!(shown.contains("192.0.2.8\n") && !shown.contains("one.z.example"), "{shown}");
    let diff = folder.does(&["zone", "diff", "z.example", "9", "8"]);
    assert!(diff.contains("192.0.2.8") && diff.contains("one.z.example"), "{diff}");
    folder.does(&["zone", "rollback", "z.example", "8"]);
    for (name, address) in [("one", ""), ("more", ""), ("www", "192.0.2.8\n")] {
        assert_eq!(server.short(&folder, &[&format!("{name}.z.example"), "A"]), address, "{name}");
    }
}

/// As beside what was served last, which no image has.
#[test]
fn a_file_is_weighed_by_a_start_that_is_the_first_to_see_rules() {
    let folder = folder();
    folder.configure(&configured(""));
    let server = serve(&folder);
    folder.write("z.zone", &(ZONE.replace(" 7 ", " 60 ") + "last A 192.0.2.60\n"));
    folder.does(&["reload", "z.example"]);
    server.killed();
    folder.write("z.zone", &ZONE.replace(" 7 ", " 30 "));
    folder.configure(CONFIGURATION);
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["last.z.example", "A"]), "192.0.2.60\n");
    assert!(folder.does(&["status"]).contains("the serial 30 does not follow 60"), "{}", folder.does(&["status"]));
}

/// Neither its serials nor the seconds of the clock say who had it first.
#[test]
fn the_versions_of_a_zone_that_changes_hands_several_times_a_second_are_in_order() {
    let folder = folder();
    let mut server = serve(&folder);
    for round in 1..=6u32 {
        let name = format!("n{round}.z.example");
        let change = format!("zone z.example\ndel n{}.z.example\nadd {name} 60 A 192.0.2.9", round - 1);
        eventually("updates", || update(&server, &[], DDNS, &change).is_empty());
        folder.configure(&configured(""));
        // Each time under the serial that updates led to.
        let by_file = serial(&folder, &server);
        folder.write("z.zone", &ZONE.replace(" 7 ", &format!(" {by_file} ")));
        folder.refuses(&["reload"], UPDATED);
        folder.does(&["zone", "publish", "--force", "z.example"]);
        assert_eq!(server.short(&folder, &[&name, "A"]), "", "it is its file's");
        folder.configure(CONFIGURATION);
        folder.does(&["reload"]);
        if round == 5 {
            server = after_a_kill(server, &folder);
        }
    }
    let is_back = || server.short(&folder, &["n6.z.example", "A"]) == "192.0.2.9\n";
    eventually("the updates' own", is_back);
    let log = folder.does(&["zone", "log", "z.example"]);
    let numbers = |what: &str| {
        let said = log.lines().filter_map(|line| line.trim().strip_prefix(what)?.strip_prefix(' '));
        said.map(|number| number.parse().unwrap()).collect::<Vec<u32>>()
    };
    let (serials, before) = (numbers("serial"), numbers("before"));
    assert_eq!(
        (&serials[..serials.len() - 1], serials.last()),
        (&before[1..], Some(&serial(&folder, &server))),
        "{log}"
    );
    // Each change is what it was.
    assert!(folder.does(&["zone", "show", "z.example", "--serial", "8"]).contains("n1.z.example."));
}
