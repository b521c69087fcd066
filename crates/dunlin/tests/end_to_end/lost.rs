//! What lies below data-dir for updates: damaged, lost, older than it was, or mended.

use crate::running::{Folder, Server, eventually, read};
use crate::updates::{CONFIGURATION, DDNS, ZONE, add, after_a_kill, folder, has, serve, update};
use std::fs;
use std::path::PathBuf;

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
            folder.refuses(&["reload"], "no zone takes updates: the journal of updates cannot be used: ");
            folder.does(&["reload", "fixed.example"]);
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
pub fn at_position(text: &str, position: u32) -> String {
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
    folder.refuses(&["reload"], "zone z.example.: it takes no updates: ");
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

/// Two updates are each in a new image. Returns our file of the zone, and what it held after the first.
fn folded_twice(folder: &Folder, server: &Server) -> (PathBuf, Vec<u8>) {
    let [file, released] = ["z.example.zone", "released"].map(|name| folder.0.join("data/journal").join(name));
    assert_eq!(add(server, 1), "");
    eventually("it is folded in", || released.exists());
    let (first, before) = (fs::read(&file).unwrap(), read(&released));
    assert_eq!(add(server, 2), "");
    eventually("that is, too", || read(&released) != before);
    (file, first)
}

/// Somebody has brought one file of ours back from a backup: the journal has what it lacks, as long as that is kept.
#[test]
fn an_older_file_of_a_zone_gets_what_came_after_it_from_the_journal() {
    let folder = folder();
    let server = serve(&folder);
    let (file, first) = folded_twice(&folder, &server);
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

/// Acknowledged updates would be gone, and their serials come once more.
#[test]
fn an_older_file_of_a_zone_is_not_taken_by_a_server_that_runs() {
    for (by_reload, is_behind, names_position) in
        [(true, false, true), (true, true, true), (true, false, false), (false, false, true)]
    {
        let folder = folder();
        folder.write("y.zone", ZONE);
        let other = "[[zone]]\nname = \"y.example\"\nfile = \"y.zone\"\nallow-update = [\"key:ddns\"]\n";
        folder.configure(&(CONFIGURATION.to_string() + other));
        let server = serve(&folder);
        let (file, first) = folded_twice(&folder, &server);
        if is_behind {
            assert_eq!(add(&server, 3), "");
        }
        let from = if names_position { 0 } else { first.iter().position(|octet| *octet == b'\n').unwrap() + 1 };
        fs::write(&file, &first[from..]).unwrap();
        if by_reload {
            folder.does(&["reload"]);
        } else {
            assert_eq!(update(&server, &[], DDNS, "zone y.example\nadd n.y.example 60 A 192.0.2.1"), "");
        }
        eventually("it is written anew", || read(&file).contains("n2.z.example"));
        let says = "not what its zone's updates have made, and is written anew zone=z.example.";
        assert_eq!(read(&folder.0.join("log")).matches(says).count(), 1, "{}", read(&folder.0.join("log")));
        let all = |server: &Server, n: u32| (1..=n).all(|i| has(&folder, server, i));
        let n = if is_behind { 3 } else { 2 };
        assert!(all(&server, n) && add(&server, n + 1).is_empty());
        let server = after_a_kill(server, &folder);
        assert!(all(&server, n + 1));
    }
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
