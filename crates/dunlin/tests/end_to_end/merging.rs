//! Edits of the files of zones that updates own, and that are not written back.

use crate::running::{eventually, read, text};
use crate::updates::{DDNS, update};
use crate::written_back::{Stage, add, configuration};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};

fn asked(stage: &Stage, server: &crate::running::Server, name: &str) -> String {
    server.short(&stage.folder, &[&format!("{name}.z.example")])
}

/// An edit that guards hold: more than half of the records go.
fn without_hosts(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('h')).map(|line| format!("{line}\n")).collect()
}

/// The next one comes before the file is read.
#[test]
fn an_edit_comes_in_between_updates_that_never_pause() {
    let stage = Stage::new("", 20_000);
    let server = stage.serve();
    add(&server, 1);
    let (is_over, last) = (AtomicBool::new(false), AtomicU32::new(1));
    let more = |n: u32| {
        let line = format!("zone z.example\nadd n{n}.z.example 60 A 192.0.2.{}", n % 250);
        assert_eq!(update(&server, &[], DDNS, &line), "");
        last.store(n, Relaxed);
    };
    std::thread::scope(|scope| {
        let work = scope.spawn(|| (2..).take_while(|_| !is_over.load(Relaxed)).for_each(more));
        stage.edit(&(read(&stage.file) + "www A 192.0.2.80\n"));
        let is_in = || asked(&stage, &server, "www") == "192.0.2.80\n" || work.is_finished();
        eventually("the edit", is_in);
        // Of so many names that it is a while until it is known what they are then, and that it takes a new image.
        stage.edit(&(read(&stage.file).replace("A 192.0.2.", "A 198.51.100.")));
        eventually("the large edit", || asked(&stage, &server, "h7").starts_with("198.") || work.is_finished());
        is_over.store(true, Relaxed);
    });
    for n in 1..=last.load(Relaxed) {
        assert_eq!(asked(&stage, &server, &format!("n{n}")), format!("192.0.2.{}\n", n % 250));
    }
    assert!(!stage.log().contains("changes too often"), "{}", stage.log());
}

#[test]
fn each_edit_is_what_differs_from_the_one_before_it() {
    let stage = Stage::new("", 3);
    let server = stage.serve();
    let original = read(&stage.file);
    add(&server, 1);
    // In a folder that is watched: without a reload, and without a new serial.
    let first = original.replace("h1 A 192.0.2.1", "H1 A 192.0.2.11") + "www MX 10 Mail\nonce A 192.0.2.5\n";
    stage.edit(&first);
    eventually("the edit", || asked(&stage, &server, "h1") == "192.0.2.11\n");
    assert_eq!(asked(&stage, &server, "n1"), "192.0.2.1\n");
    assert!(server.short(&stage.folder, &["z.example", "SOA"]).contains(" 9 1 2 3 4"));
    let log = stage.ctl(&["zone", "log", "z.example"]);
    assert!(log.contains("\"owner\":\"update\"") && log.contains("file edited"), "{log}");
    assert_eq!(read(&stage.file), first, "it is nobody else's");
    add(&server, 2);
    let second = first.replace("192.0.2.11", "192.0.2.12").replace("once A 192.0.2.5\n", "");
    stage.edit(&second);
    eventually("the second edit", || asked(&stage, &server, "h1") == "192.0.2.12\n");
    assert_eq!(asked(&stage, &server, "once"), "");
    assert_eq!(asked(&stage, &server, "n2"), "192.0.2.2\n");
    eventually("it is told", || stage.log().matches("an edit is taken in").count() == 2);
    // While the server is down, under a serial of the operator's; updates are in the journal only.
    add(&server, 3);
    server.killed();
    stage.edit(&second.replace("192.0.2.12", "192.0.2.13").replace(" 7 1 2 3 4", " 2026112000 1 2 3 4"));
    let server = stage.serve();
    eventually("the third edit", || asked(&stage, &server, "h1") == "192.0.2.13\n");
    assert_eq!(asked(&stage, &server, "n3"), "192.0.2.3\n");
    assert!(server.short(&stage.folder, &["z.example", "SOA"]).contains(" 2026112000 1 2 3 4"));
    eventually("it is told", || stage.log().matches("an edit is taken in").count() == 1);
    assert!(stage.ctl(&["status"]).contains("\"held\":[],\"not_written_back\":[]"));
}

/// As an archive with fixed times leaves it that is unpacked over the file. Other rights are no edit.
#[test]
fn an_edit_that_leaves_size_and_time_as_they_were_is_taken_in() {
    let stage = Stage::new("", 3);
    let dated = |text: &str| {
        fs::write(&stage.file, text).unwrap();
        let then = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::open(&stage.file).unwrap().set_modified(then).unwrap();
        let found = stage.file.metadata().unwrap();
        (found.len(), found.modified().unwrap(), found.ino())
    };
    let before = dated(&read(&stage.file));
    let server = stage.serve();
    add(&server, 1);
    let edited = read(&stage.file).replace("h1 A 192.0.2.1\n", "h1 A 192.0.2.9\n");
    assert_eq!(dated(&edited), before);
    stage.ctl(&["reload", "z.example"]);
    assert_eq!(asked(&stage, &server, "h1"), "192.0.2.9\n");
    fs::set_permissions(&stage.file, Permissions::from_mode(0o600)).unwrap();
    stage.ctl(&["reload", "z.example"]);
    assert_eq!(asked(&stage, &server, "n1"), "192.0.2.1\n");
    let log = stage.log();
    assert!(log.matches("an edit is taken in").count() == 1 && !log.contains("not taken in"), "{log}");
}

#[test]
fn what_is_included_is_part_of_the_file() {
    // In the folder of zones, and in one that nobody would look at but for that.
    for name in ["more", "sub/more"] {
        let stage = Stage::new("", 1);
        let edited = |address: &str| {
            stage.folder.write_long_ago(&format!("zones/{name}"), &format!("more A {address}\n"));
        };
        edited("192.0.2.21");
        stage.edit(&(read(&stage.file) + &format!("$INCLUDE {name}\n")));
        let server = stage.serve();
        assert_eq!(asked(&stage, &server, "more"), "192.0.2.21\n");
        add(&server, 1);
        edited("192.0.2.221");
        eventually("the edit", || asked(&stage, &server, "more") == "192.0.2.221\n");
        assert_eq!(asked(&stage, &server, "n1"), "192.0.2.1\n");
    }
}

/// What an edit includes, and the version before did not, may be mended with the file as it is.
#[test]
fn an_edit_that_is_held_for_what_it_includes_is_read_again() {
    let stage = Stage::new("", 10);
    let server = stage.serve();
    let text = read(&stage.file);
    let (hosts, others): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('h'));
    let more = |hosts: &[&str]| stage.folder.write_long_ago("zones/more", &format!("{}\n", hosts.join("\n")));
    more(&[]);
    stage.edit(&format!("{}\n$INCLUDE more\n", others.join("\n")));
    eventually("the complaint", || stage.ctl(&["status"]).contains("would be lost"));
    stage.folder.refuses(&["reload", "z.example"], "would be lost");
    more(&[&hosts[..], &["more A 192.0.2.9"]].concat());
    assert!(stage.folder.does(&["reload", "z.example"]).contains("changed true"));
    assert_eq!(asked(&stage, &server, "more"), "192.0.2.9\n");
}

#[test]
fn what_both_have_changed_is_held_until_one_of_them_gives_way() {
    let stage = Stage::new("", 2);
    let server = stage.serve();
    let to = |address: &str| format!("zone z.example\ndel h0.z.example A\nadd h0.z.example 300 A {address}");
    assert_eq!(update(&server, &[], DDNS, &to("192.0.2.7")), "");
    stage.edit(
        &read(&stage.file).replace("h0 A 192.0.2.1", "h0 A 192.0.2.8").replace("h1 A 192.0.2.1", "h1 A 192.0.2.9"),
    );
    let why = "the same has changed since: h0.z.example. A";
    eventually("the complaint", || stage.ctl(&["status"]).contains(why));
    eventually("a line of the log", || stage.log().contains("an edit of a zone's file is held"));
    let refused = stage.folder.ctl(&["zone", "diff", "z.example"]);
    assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    for words in [&["zone", "publish", "--force", "z.example"][..], &["reload", "z.example"], &["reload"]] {
        stage.folder.refuses(words, why);
    }
    assert_eq!(asked(&stage, &server, "h1"), "192.0.2.1\n", "all of it is held");
    // The edit waits over a restart, and is taken in once an update has made the same of it.
    server.killed();
    let server = stage.serve();
    eventually("the complaint again", || stage.ctl(&["status"]).contains(why));
    assert_eq!(update(&server, &[], DDNS, &to("192.0.2.8")), "");
    assert!(stage.folder.does(&["reload"]).contains("changed true"));
    assert_eq!(asked(&stage, &server, "h1"), "192.0.2.9\n");
    assert!(stage.ctl(&["status"]).contains("\"held\":[]"), "{}", stage.ctl(&["status"]));
}

#[test]
fn an_edit_whose_file_makes_way_for_the_one_before_waits_no_more() {
    let stage = Stage::new("", 1);
    // One that was written only just then is read again.
    stage.edit(&read(&stage.file));
    let (server, aside) = (stage.serve(), stage.file.with_extension("aside"));
    add(&server, 1);
    for _ in 0..2 {
        fs::rename(&stage.file, &aside).unwrap();
        stage.edit(&(read(&aside) + "www A 192.0.2.\n"));
        eventually("the complaint", || stage.ctl(&["status"]).contains("192.0.2."));
        // Size, time and inode are what they were.
        fs::rename(&aside, &stage.file).unwrap();
        stage.folder.does(&["reload"]);
        assert!(stage.ctl(&["status"]).contains("\"held\":[]"), "{}", stage.ctl(&["status"]));
    }
}

/// What hinders a look at a file is no edit.
#[test]
fn a_file_of_which_nothing_can_be_found_out_is_not_told_of_as_edited() {
    let stage = Stage::new("", 2);
    let server = stage.serve();
    add(&server, 1);
    let origin = stage.folder.0.join("data/journal/z.example.origin");
    let known = read(&origin);
    fs::remove_file(&origin).unwrap();
    fs::create_dir(&origin).unwrap();
    stage.folder.refuses(&["reload", "z.example"], "z.example.origin");
    let log = stage.log();
    assert!(log.contains("it cannot be told whether a zone's file was edited") && !log.contains("is held"), "{log}");
    assert!(stage.ctl(&["stats"]).contains("\"versions_held\":0"), "{}", stage.ctl(&["stats"]));
    fs::remove_dir(&origin).unwrap();
    fs::write(&origin, known).unwrap();
    stage.folder.does(&["reload", "z.example"]);
    assert!(stage.ctl(&["status"]).contains("\"held\":[]"));
    assert_eq!(asked(&stage, &server, "n1"), "192.0.2.1\n");
}

#[test]
fn an_edit_that_is_in_the_journal_and_not_yet_known_is_no_edit_after_a_crash() {
    let stage = Stage::new("", 2);
    let server = stage.serve();
    let of = |what: &str| stage.folder.0.join(format!("data/journal/z.example.{what}"));
    let (origin, base) = (of("origin"), of("1.base"));
    let before = (read(&origin), read(&base));
    stage.edit(&read(&stage.file).replace("h0 A 192.0.2.1", "h0 A 192.0.2.8"));
    eventually("the edit", || stage.log().contains("an edit is taken in"));
    // Updates go on from there before what is known of the file is written, and the server is killed.
    let again = "zone z.example\ndel h0.z.example A\nadd h0.z.example 300 A 192.0.2.9";
    assert_eq!(update(&server, &[], DDNS, again), "");
    server.killed();
    let next = of("next");
    fs::write(&next, format!("behind 7\n{}", read(&origin))).unwrap();
    fs::write(&origin, before.0).unwrap();
    fs::write(&base, before.1).unwrap();
    let server = stage.serve();
    eventually("it is known", || !next.exists() && !base.exists());
    stage.edit(&read(&stage.file).replace("h1 A 192.0.2.1", "h1 A 192.0.2.7"));
    eventually("another edit", || asked(&stage, &server, "h1") == "192.0.2.7\n");
    assert_eq!(asked(&stage, &server, "h0"), "192.0.2.9\n");
    assert!(stage.ctl(&["status"]).contains("\"held\":[]"));
    assert!(!stage.log().contains("is held"), "{}", stage.log());
}

/// What differs from it is no edit of anybody's.
#[test]
fn an_edit_of_what_a_disk_has_lost_a_part_of_is_held() {
    let stage = Stage::new("", 2);
    let server = stage.serve();
    add(&server, 1);
    let base = stage.folder.0.join("data/journal/z.example.1.base");
    let (good, before) = (read(&base), read(&stage.file));
    let lost = good.replace("h1.z.example. 300 IN A 192.0.2.1\n", "");
    assert_ne!(good, lost);
    fs::write(&base, &lost).unwrap();
    stage.edit(&before.replace("h0 A 192.0.2.1", "h0 A 192.0.2.8"));
    eventually("it is held", || {
        stage.ctl(&["status"]).contains("z.example.1.base: its sum is not that of what it holds")
    });
    assert_eq!(asked(&stage, &server, "h0"), "192.0.2.1\n");
    fs::write(&base, &good).unwrap();
    stage.ctl(&["reload", "z.example"]);
    eventually("the edit", || asked(&stage, &server, "h0") == "192.0.2.8\n");
    assert_eq!(asked(&stage, &server, "h1"), "192.0.2.1\n");
}

#[test]
fn the_guards_hold_an_edit_as_they_hold_a_version_of_a_file() {
    let ds = "sub NS ns\nsub DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000000\n";
    let digest = format!("@ ZONEMD 7 1 1 {}\n", "00".repeat(48));
    let many: String = (0..4064).map(|i| format!("many A 10.0.{}.{}\n", i >> 8, i & 255)).collect();
    let stage = Stage::new("", 20);
    stage.edit(&(read(&stage.file) + ds));
    let server = stage.serve();
    let original = read(&stage.file);
    add(&server, 1);
    let lost = without_hosts(&original);
    for (edit, why) in [
        (&*lost, "more than 50 % would be lost"),
        (&*original.replace(ds, "sub NS ns\n"), "the delegation sub.z.example. would lose its DS"),
        (&*(original.clone() + &digest), "the zone is not what its ZONEMD is the digest of"),
        (&*original.replace("@ NS ns\n", ""), "z.example.: "),
        (&*(original.clone() + &many), "many.z.example.: an RRset of more octets"),
    ] {
        stage.edit(edit);
        eventually(why, || stage.ctl(&["status"]).contains(why));
        assert_eq!(asked(&stage, &server, "h1"), "192.0.2.1\n");
        assert!(server.short(&stage.folder, &["sub.z.example", "DS"]).starts_with("1 8 2"));
    }
    stage.edit(&lost);
    eventually("the first again", || stage.ctl(&["status"]).contains("more than 50 %"));
    let diff = stage.ctl(&["zone", "diff", "z.example"]);
    assert!(
        diff.contains("h19.z.example. 300 IN A 192.0.2.1") && diff.contains("\"added\":[\"z.example. 300 IN SOA"),
        "{diff}"
    );
    stage.folder.refuses(&["zone", "publish", "z.example"], "more than 50 % would be lost");
    // Not while the edit waits for the version to fit that somebody goes back to.
    stage.folder.refuses(&["zone", "rollback", "z.example", "7"], "publish it, or move it away, before you go back");
    let said = stage.folder.does(&["zone", "publish", "--force", "z.example"]);
    assert!(said.contains("changed true"), "{said}");
    assert!(asked(&stage, &server, "h1").is_empty());
    assert_eq!(asked(&stage, &server, "n1"), "192.0.2.1\n");
    let log = stage.ctl(&["zone", "log", "z.example"]);
    assert!(log.contains("file edited, by force"), "{log}");
    eventually("nothing is held", || stage.ctl(&["status"]).contains("\"held\":[]"));
    assert!(stage.ctl(&["stats"]).contains("\"versions_held\":6"), "{}", stage.ctl(&["stats"]));
}

/// Also if nobody has looked at the file yet, as after a start.
#[test]
fn before_a_zone_goes_back_the_edit_of_its_file_is_taken_in_or_hinders_that() {
    let stage = Stage::new("", 20);
    let server = stage.serve();
    let original = read(&stage.file);
    add(&server, 1);
    stage.edit(&original.replace("h1 A 192.0.2.1", "h1 A 192.0.2.11"));
    stage.folder.does(&["zone", "rollback", "z.example", "7"]);
    let log = stage.ctl(&["zone", "log", "z.example"]);
    let told = ["update ", "file edited", "rollback to 7"].map(|who| log.find(who));
    assert!(told.is_sorted() && told[0].is_some(), "{log}");
    assert_eq!(asked(&stage, &server, "h1") + &asked(&stage, &server, "n1"), "192.0.2.1\n");
    server.killed();
    stage.edit(&without_hosts(&original));
    let server = stage.serve();
    stage.folder.refuses(&["zone", "rollback", "z.example", "8"], "publish it, or move it away, before you go back");
    assert!(asked(&stage, &server, "n1").is_empty());
    // What keeps it from being looked at is none.
    fs::remove_file(&stage.file).unwrap();
    std::os::unix::fs::symlink("nowhere", &stage.file).unwrap();
    stage.folder.refuses(&["zone", "publish", "z.example"], "leads nowhere");
    stage.folder.does(&["zone", "rollback", "z.example", "8"]);
    assert_eq!(asked(&stage, &server, "n1"), "192.0.2.1\n");
}

#[test]
fn an_edit_that_guards_hold_is_taken_in_once_they_do_so_no_more() {
    for (off, is_of_zone) in [("guards = false\n", true), ("[guards]\nlost-records-percent = 95\n", false)] {
        let stage = Stage::new("", 20);
        let server = stage.serve();
        add(&server, 1);
        let lost = without_hosts(&read(&stage.file));
        stage.edit(&lost);
        eventually("it is held", || stage.ctl(&["status"]).contains("more than 50 % would be lost"));
        let config = configuration("");
        stage.folder.configure(&if is_of_zone { config + off } else { format!("{off}{config}") });
        stage.folder.does(&["reload"]);
        assert!(asked(&stage, &server, "h1").is_empty(), "{off}");
        assert_eq!(asked(&stage, &server, "n1"), "192.0.2.1\n");
        assert!(stage.ctl(&["status"]).contains("\"held\":[]"), "{}", stage.ctl(&["status"]));
    }
}

/// With the file goes what was held of it, and what was said about that.
#[test]
fn an_edit_that_was_held_and_is_moved_away_is_in_nobodys_way() {
    let stage = Stage::new("1h", 20);
    let server = stage.serve();
    add(&server, 1);
    let original = read(&stage.file);
    stage.edit(&original.replace("@ NS ns\n", ""));
    eventually("it is held", || stage.ctl(&["zone", "list", "z.example"]).contains("\"state\":\"held\""));
    fs::remove_file(&stage.file).unwrap();
    stage.ctl(&["reload"]);
    eventually("the zone", || stage.ctl(&["zone", "list", "z.example"]).contains("\"state\":\"served\""));
    assert!(stage.ctl(&["status"]).contains("\"not_written_back\":[]"), "{}", stage.ctl(&["status"]));
}

#[test]
fn what_hinders_an_edit_that_is_forced_is_said_at_once() {
    let stage = Stage::new("", 2);
    let _server = stage.serve();
    fs::remove_file(&stage.file).unwrap();
    std::os::unix::fs::symlink("nowhere", &stage.file).unwrap();
    stage.folder.refuses(&["zone", "publish", "--force", "z.example"], "leads nowhere");
}

#[test]
fn what_is_forced_is_the_edit_that_was_there_then_and_no_later_one() {
    let stage = Stage::new("", 20);
    let server = stage.serve();
    let original = read(&stage.file);
    add(&server, 1);
    let lost = without_hosts(&original);
    let is_held = |why: &str| eventually(why, || stage.ctl(&["status"]).contains(why));
    // What it includes is not there: that may be mended, and it is tried again.
    stage.edit(&(lost.clone() + "$INCLUDE more\n"));
    is_held("more");
    stage.folder.refuses(&["zone", "publish", "--force", "z.example"], "more");
    is_held("more");
    stage.edit(&(lost.clone() + "other A 192.0.2.7\n"));
    is_held("more than 50 % would be lost");
    assert_eq!(asked(&stage, &server, "h1"), "192.0.2.1\n");
    // The first again, and it can be taken in now: nobody has forced it since another one came.
    stage.folder.write("zones/more", "more A 192.0.2.21\nmore A 192.0.2.22\n");
    stage.edit(&(lost + "$INCLUDE more\n"));
    is_held("20 of 24 records go");
    assert_eq!(asked(&stage, &server, "h1"), "192.0.2.1\n");
    stage.folder.does(&["zone", "publish", "--force", "z.example"]);
    assert!(asked(&stage, &server, "h1").is_empty());
    assert_eq!(asked(&stage, &server, "more").lines().count(), 2);
}

#[test]
fn whoever_publishes_a_zone_is_answered_when_its_edit_is_served() {
    let stage = Stage::new("", 3);
    let server = stage.serve();
    add(&server, 1);
    let original = read(&stage.file);
    for address in ["192.0.2.11", "192.0.2.12"] {
        fs::write(&stage.file, format!("{original}other A {address}\n")).unwrap();
        stage.folder.does(&["zone", "publish", "z.example"]);
        assert_eq!(asked(&stage, &server, "other"), format!("{address}\n"));
    }
    stage.folder.does(&["zone", "publish", "z.example"]);
}

/// A file that says of which version it is was not made of one that says nothing.
#[test]
fn an_edit_of_an_old_version_takes_back_nothing_whatever_was_edited_between() {
    let stage = Stage::new("1s", 1);
    let server = stage.serve();
    add(&server, 1);
    eventually("the file", || stage.holds("n1.z.example."));
    let line = read(&stage.file).lines().next().unwrap().to_string();
    stage.folder.configure(&configuration(""));
    stage.folder.does(&["reload"]);
    let zone = |serial: u32, hosts: &str| {
        format!("$TTL 300\n@ SOA ns hostmaster {serial} 1 2 3 4\n@ NS ns\nns A 192.0.2.53\nn1 60 A 192.0.2.1\n{hosts}")
    };
    let publish = |text: String| {
        stage.edit(&text);
        stage.folder.does(&["zone", "publish", "z.example"]);
    };
    publish(format!("{line}\n{}", zone(20, "h0 A 192.0.2.1\nf A 192.0.2.5\n")));
    let lines = "zone z.example\ndel h0.z.example A\nadd h0.z.example 300 A 192.0.2.99";
    assert_eq!(update(&server, &[], DDNS, lines), "");
    publish(zone(30, "h0 A 192.0.2.99\nf A 192.0.2.5\ng A 192.0.2.6\n"));
    assert_eq!(asked(&stage, &server, "g"), "192.0.2.6\n");
    publish(format!("{line}\n{}", zone(40, "h0 A 192.0.2.1\nf A 192.0.2.5\nk A 192.0.2.7\n")));
    assert_eq!(asked(&stage, &server, "k"), "192.0.2.7\n");
    assert_eq!(asked(&stage, &server, "h0"), "192.0.2.99\n", "what an update has changed since");
}

#[test]
fn whoever_was_told_that_his_edit_cannot_be_forced_has_not_forced_it() {
    let stage = Stage::new("", 20);
    stage.folder.write("zones/more", "more A 192.0.2.21\n");
    stage.edit(&(read(&stage.file) + "$INCLUDE more\n"));
    let server = stage.serve();
    let change = |address: &str| {
        let lines = format!("zone z.example\ndel h1.z.example A\nadd h1.z.example 300 A {address}");
        assert_eq!(update(&server, &[], DDNS, &lines), "");
    };
    let original = read(&stage.file);
    change("192.0.2.201");
    let lost = |line: &&str| !line.starts_with('h') || line.starts_with("h1 ");
    let lost = original.lines().filter(lost).fold(String::new(), |all, line| all + line + "\n");
    stage.edit(&lost.replace("h1 A 192.0.2.1", "h1 A 192.0.2.202"));
    stage.folder.refuses(&["zone", "publish", "--force", "z.example"], "the same has changed since: h1.z.example. A");
    // It fits now, and is looked at once more.
    change("192.0.2.1");
    stage.folder.refuses(&["reload"], "more than 50 % would be lost");
    assert_eq!(asked(&stage, &server, "h2"), "192.0.2.1\n");
    stage.folder.does(&["zone", "publish", "--force", "z.example"]);
    assert_eq!((asked(&stage, &server, "h1"), asked(&stage, &server, "h2")), ("192.0.2.202\n".into(), String::new()));
}

#[test]
fn a_file_of_which_nothing_is_known_is_known_by_what_the_zone_was() {
    for every in ["", "1s"] {
        let stage = Stage::new(every, 2);
        let forget = || {
            let journal = stage.folder.0.join("data/journal");
            let names = fs::read_dir(&journal).unwrap().map(|n| n.unwrap().path());
            let of = |n: &std::path::PathBuf| {
                n.extension().is_some_and(|e| ["origin", "base", "next"].iter().any(|all| e == *all))
            };
            names.filter(of).for_each(|n| fs::remove_file(n).unwrap());
        };
        let original = read(&stage.file);
        let server = stage.serve();
        add(&server, 1);
        server.killed();
        stage.edit(&original);
        forget();
        let server = stage.serve();
        eventually("it is told of", || stage.log().contains("which version of a zone its file is"));
        assert_eq!(asked(&stage, &server, "n1"), "192.0.2.1\n");
        eventually("it is known", || stage.folder.0.join("data/journal/z.example.origin").exists());
        if every.is_empty() {
            // An edit of it is taken in like any other.
            stage.edit(&original.replace("h1 A 192.0.2.1", "h1 A 192.0.2.9"));
            eventually("the edit", || asked(&stage, &server, "h1") == "192.0.2.9\n");
        }
        server.killed();
        // What is no version that the zone has had is not taken for one.
        stage.edit(&original.replace("h0 A 192.0.2.1", "h0 A 192.0.2.8"));
        forget();
        let server = stage.serve();
        eventually("it is held", || stage.ctl(&["status"]).contains("not known which version of the zone was edited"));
        assert!(stage.holds("192.0.2.8") && asked(&stage, &server, "h0") == "192.0.2.1\n");
        // As the message says.
        stage.edit(&stage.folder.does(&["zone", "show", "z.example"]));
        eventually("it is known", || stage.ctl(&["status"]).contains("\"held\":[]"));
        stage.edit(&stage.folder.does(&["zone", "show", "z.example"]).replace("192.0.2.1\n", "192.0.2.7\n"));
        eventually("an edit of that", || asked(&stage, &server, "n1") == "192.0.2.7\n");
    }
}

#[test]
fn a_zone_whose_file_was_wrong_at_the_start_takes_updates_once_it_is_mended() {
    let stage = Stage::new("", 1);
    let right = read(&stage.file);
    stage.edit(&right.replace("192.0.2.1\n", "192.0.2\n"));
    let server = stage.serve();
    assert!(stage.log().contains("takes no updates"), "{}", stage.log());
    // Without a reload.
    stage.edit(&right);
    eventually("it is served", || asked(&stage, &server, "h0") == "192.0.2.1\n");
    let line = "zone z.example\nadd n.z.example 60 A 192.0.2.9";
    eventually("it takes updates", || update(&server, &[], DDNS, line).is_empty());
    assert_eq!(asked(&stage, &server, "n"), "192.0.2.9\n");
}
