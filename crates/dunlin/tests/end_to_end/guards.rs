//! A new version of a zone that looks like an accident: it is held, the one before serves on, and the operator decides.

use crate::running::{DIRECTORY, Folder, Server, eventually, read, text};
use crate::updates::{DDNS, KEY, update};
use std::process::Output;
use std::time::{Duration, SystemTime};

const ZONE: &str = "$TTL 300\n@ SOA ns host 7 1 2 3 4\n@ NS ns\nns A 192.0.2.53\nd NS ns\n\
    d DS 1 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n\
    a A 192.0.2.1\nb A 192.0.2.1\nc A 192.0.2.1\n";
/// Its digest is another's.
const DIGEST: &str =
    "@ ZONEMD 8 1 1 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855e3b0c44298fc1c149afbf4c8996fb924\n";

fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

fn serve(folder: &Folder) -> Server {
    folder.configure(DIRECTORY);
    Server::start(folder, &["-c", "dunlin.toml"])
}

/// The next version, with a mark by which it is known.
fn next(change: impl Fn(String) -> String) -> String {
    change(ZONE.replace("host 7 ", "host 8 ")) + "mark TXT new\n"
}

fn without(zone: &str, owners: &[&str]) -> String {
    let is_left = |l: &&str| !owners.iter().any(|o| l.starts_with(o));
    zone.lines().filter(is_left).map(|l| format!("{l}\n")).collect()
}

#[test]
fn each_guard_holds_until_the_operator_forces_it() {
    let cases: [(&str, String, &str); 5] = [
        ("records", without(&next(|z| z), &["a ", "b ", "c ", "d ", "ns "]), "more than 50 % would be lost"),
        ("ds", next(|z| without(&z, &["d DS"])), "the delegation d.ds. would lose its DS"),
        ("serial", next(|z| z.replace("host 8 ", "host 6 ")), "the serial 6 does not follow 7"),
        ("zonemd", next(|z| z + DIGEST), "the zone is not what its ZONEMD is the digest of"),
        ("checks", next(|z| z + "e NS ns.e\n"), "without its address"),
    ];
    let folder = Folder::new();
    cases.iter().for_each(|(zone, _, _)| drop(folder.write(&format!("zones/{zone}.zone"), ZONE)));
    let server = serve(&folder);
    let is_new = |zone: &str| !server.short(&folder, &[&format!("mark.{zone}"), "TXT"]).is_empty();
    for (zone, new, expect) in &cases {
        folder.write(&format!("zones/{zone}.zone"), new);
        let output = folder.ctl(&["reload", zone]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("held: ") && said(&output).contains(expect), "{zone}: {}", said(&output));
        assert!(!is_new(zone), "{zone}");
        // Asked again, or unforced, it stays so.
        assert_eq!(folder.ctl(&["zone", "publish", zone]).status.code(), Some(1));
        assert!(!is_new(zone), "{zone}");
        let status = said(&folder.ctl(&["status", "--json"]));
        assert!(status.contains(&format!("\"held\":[{{\"zone\":\"{zone}.\"")), "{status}");
        let log = read(&folder.0.join("log"));
        assert!(log.contains(&format!("zone publish --force {zone}.")), "{log}");
        let output = folder.ctl(&["zone", "publish", "--force", zone]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(is_new(zone), "{zone}");
        assert!(said(&folder.ctl(&["status", "--json"])).contains("\"held\":[]"));
        eventually("who it was", || folder.does(&["zone", "log", zone]).contains("changed, by force"));
    }
    assert!(said(&folder.ctl(&["stats"])).contains("versions_held 5"));
}

/// Only the names that change of such a one are looked at, and those that they concern: a name that goes leaves no record to be looked at.
#[test]
fn a_long_zone_is_held_for_what_a_short_one_is_held_for() {
    let remarks = |n: usize| format!("; {:100}\n", "nothing").repeat(n);
    let below = "x.f A 192.0.2.8\nf DNAME other.example.\n";
    let core = format!("{ZONE}@ NS ns2\nns2 A 192.0.2.54\ng NS ns.g\nns.g A 192.0.2.55\n*.h A 192.0.2.56\ng NS x.h\n");
    let cases: [(&str, &[&str], &str, &str); 5] = [
        ("host", &["ns2 A"], "", "names a host of this zone that has no address"),
        ("glue", &["ns.g A"], "", "without its address"),
        ("wildcard", &["*.h A"], "", "names a host of this zone that has no address"),
        ("cut", &["d NS"], "", "DS"),
        ("dname", &["f NS"], below, "DNAME"),
    ];
    let folder = Folder::new();
    let lengths = [("short", 0), ("long", 50_000)];
    for ((case, _, more, _), (length, n)) in cases.iter().flat_map(|case| lengths.map(|length| (case, length))) {
        let cut = if more.is_empty() { "" } else { "f NS ns\n" };
        folder.write(&format!("zones/{case}.{length}.zone"), &format!("{core}{cut}{more}{}", remarks(n)));
    }
    let server = serve(&folder);
    for ((case, owners, more, expect), (length, n)) in
        cases.iter().flat_map(|case| lengths.map(|length| (case, length)))
    {
        let zone = format!("{case}.{length}");
        let new = without(&core, owners).replace("host 7 ", "host 8 ");
        folder.write(&format!("zones/{zone}.zone"), &format!("{new}mark TXT new\n{more}{}", remarks(n)));
        let output = folder.ctl(&["reload", &zone]);
        assert!(said(&output).contains("held: ") && said(&output).contains(expect), "{zone}: {}", said(&output));
        assert_eq!(server.short(&folder, &[&format!("mark.{zone}"), "TXT"]), "", "{zone}");
    }
}

/// The next start knows what was served, though nobody has waited for anything.
#[test]
fn what_was_served_when_the_server_was_stopped_counts() {
    let folder = Folder::new();
    let with = |serial: u32| {
        folder.write("zones/z.example.zone", &ZONE.replace("host 7 ", &format!("host {serial} ")));
    };
    with(1);
    for round in 1..5 {
        let server = serve(&folder);
        let is = |serial: u32| server.short(&folder, &["z.example", "SOA"]).contains(&format!(" {serial} "));
        assert!(is(10 * round - 9), "{round}");
        with(10 * round + 1);
        eventually("the next version", || is(10 * round + 1));
        server.signal("TERM");
        assert_eq!(server.ended(), Some(0));
        with(10 * round);
    }
}

#[test]
fn a_zone_without_apex_ns_is_not_served_even_by_force() {
    let folder = Folder::new();
    folder.write("zones/example.zone", ZONE);
    let server = serve(&folder);
    folder.write("zones/example.zone", &next(|z| without(&z, &["@ NS"])));
    for words in [&["reload", "example"][..], &["zone", "publish", "--force", "example"]] {
        let output = folder.ctl(words);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("there is no NS record at the zone's apex"), "{}", said(&output));
    }
    assert_eq!(server.short(&folder, &["a.example"]), "192.0.2.1\n");
    let (status, log) = (said(&folder.ctl(&["status", "--json"])), read(&folder.0.join("log")));
    assert!(status.contains("\"held\":[{\"zone\":\"example.\""), "{status}");
    assert!(log.contains("a new version of a zone is held") && log.contains("zone diff example."), "{log}");
    assert!(!log.contains("publish --force"), "which would be in vain: {log}");
    assert!(said(&folder.ctl(&["zone", "diff", "example"])).contains("example. "), "what it would change");
}

#[test]
fn what_is_held_is_held_over_restarts_and_goes_when_the_file_is_mended() {
    let folder = Folder::new();
    folder.write("zones/example.zone", ZONE);
    let server = serve(&folder);
    let short = without(&next(|z| z), &["a ", "b ", "c ", "d ", "ns "]);
    folder.write("zones/example.zone", &short);
    assert_eq!(folder.ctl(&["reload"]).status.code(), Some(1));
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["a.example"]), "192.0.2.1\n");
    assert!(said(&folder.ctl(&["status", "--json"])).contains("\"held\":[{\"zone\":\"example.\""));
    folder.write("zones/example.zone", &next(|z| z));
    eventually("the mended zone", || !server.short(&folder, &["mark.example", "TXT"]).is_empty());
    eventually("the word of it", || said(&folder.ctl(&["status", "--json"])).contains("\"held\":[]"));
}

/// No image has it, and no file says that it was forced.
#[test]
fn what_is_forced_is_served_by_the_next_start_and_costs_other_zones_nothing() {
    let folder = Folder::new();
    ["example", "other"].iter().for_each(|zone| drop(folder.write(&format!("zones/{zone}.zone"), ZONE)));
    let server = serve(&folder);
    let image = || std::fs::read(folder.0.join("data/images/zones.image")).unwrap();
    let before = image();
    folder.write("zones/example.zone", &next(|z| without(&z, &["d DS"])));
    folder.refuses(&["reload", "example"], "would lose its DS");
    folder.does(&["zone", "publish", "--force", "example"]);
    assert_eq!(server.short(&folder, &["mark.example", "TXT"]), "\"new\"\n");
    server.killed();
    assert!(image() == before, "no new image was made");
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["mark.example", "TXT"]), "\"new\"\n");
    folder.does(&["reload"]);
    assert!(said(&folder.ctl(&["status", "--json"])).contains("\"held\":[]"));
}

/// Of a zone with two chains of NSEC3, as while its salt is changed, not all names are found one by one.
#[test]
fn what_is_forced_of_a_zone_with_several_chains_is_served_by_the_next_start() {
    let chains = |next: &str| {
        let nsec3 = |hash: &str, rest: &str| format!("{hash} NSEC3 1 0 {rest} {next} A\n");
        let params = "@ NSEC3PARAM 1 0 0 -\n@ NSEC3PARAM 1 0 1 aabb\n".to_string();
        params
            + &nsec3("0p9mhaveqvm6t7vbl5lop2u3t2rp3tom", "0 -")
            + &nsec3("2vptu5timamqttgl4luu9kg21e0aor3s", "1 aabb")
    };
    let folder = Folder::new();
    folder.write("zones/example.zone", &(ZONE.to_string() + &chains("2t7b4g4vsa5smi47k61mv5bv1a22bojr")));
    let server = serve(&folder);
    let new = next(|z| without(&z, &["d DS"])) + &chains("q04jkcevqvmu85r014c7dkba38o0ji5r");
    folder.write("zones/example.zone", &new);
    folder.refuses(&["reload", "example"], "would lose its DS");
    folder.does(&["zone", "publish", "--force", "example"]);
    server.killed();
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["mark.example", "TXT"]), "\"new\"\n");
}

/// Then an image is made of it, before he who forces it is told.
#[test]
fn what_is_forced_is_served_by_the_next_start_though_the_history_cannot_be_written() {
    let folder = Folder::new();
    folder.write("zones/example.zone", ZONE);
    let server = serve(&folder);
    // Nothing has changed yet, so nobody has made the folder.
    folder.write("data/history", "no folder");
    folder.write("zones/example.zone", &next(|z| without(&z, &["d DS"])));
    folder.refuses(&["reload", "example"], "would lose its DS");
    folder.does(&["zone", "publish", "--force", "example"]);
    let log = read(&folder.0.join("log"));
    assert!(log.contains("a change is served and not kept in the history"), "{log}");
    server.killed();
    assert_eq!(serve(&folder).short(&folder, &["mark.example", "TXT"]), "\"new\"\n");
}

/// It takes 64 MiB of one change. Then an image has it before whoever asked is told.
#[test]
fn what_is_forced_outlives_a_kill_also_where_it_is_too_much_for_the_history() {
    let folder = Folder::new();
    let hosts: String = ('a'..='t').map(|c| format!("$GENERATE 0-65535 {c}$ A 192.0.2.1\n")).collect();
    folder.write("zones/example.zone", &format!("{ZONE}{hosts}"));
    let server = serve(&folder);
    folder.write("zones/example.zone", &next(|z| z));
    folder.refuses(&["reload", "example"], "more than 50 % would be lost");
    folder.does(&["zone", "publish", "--force", "example"]);
    server.killed();
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["mark.example", "TXT"]), "\"new\"\n");
    assert!(said(&folder.ctl(&["status", "--json"])).contains("\"held\":[]"));
}

/// What comes then stands behind what was there: the image says how much of that it has.
#[test]
fn what_is_forced_after_the_history_was_removed_is_served_by_the_next_start() {
    let folder = Folder::new();
    folder.write("zones/example.zone", ZONE);
    let serial = |n: u32| ZONE.replace("host 7 ", &format!("host {n} "));
    let server = serve(&folder);
    for n in 8..20 {
        folder.write("zones/example.zone", &serial(n));
        folder.does(&["reload"]);
    }
    server.signal("TERM");
    server.ended();
    folder.write("zones/other.zone", ZONE);
    // A new image, behind what the history has.
    let compiled = folder.dunlin(&["compile", "-c", "dunlin.toml"]);
    assert_eq!(compiled.status.code(), Some(0), "{}", text(&compiled.stderr));
    std::fs::remove_dir_all(folder.0.join("data/history")).unwrap();
    let server = serve(&folder);
    folder.write("zones/example.zone", &without(&serial(20), &["d DS"]));
    folder.refuses(&["reload"], "would lose its DS");
    folder.does(&["zone", "publish", "--force", "example"]);
    // More than there was.
    for n in 8..40 {
        folder.write("zones/other.zone", &serial(n));
        folder.does(&["reload", "other"]);
    }
    server.killed();
    let server = serve(&folder);
    assert!(server.short(&folder, &["example", "SOA"]).contains(" 20 1 2 3 4"), "{}", read(&folder.0.join("log")));
}

/// The zone with so many hosts more.
fn write_hosts(folder: &Folder, serial: u32, n: u32) {
    let hosts: String = (0..n).map(|i| format!("h{i} A 192.0.2.1\n")).collect();
    folder.write("zones/example.zone", &(ZONE.replace("host 7 ", &format!("host {serial} ")) + &hosts));
}

/// What stands twice in a text is one record: nothing is lost with the second, nor made up for.
#[test]
fn records_are_weighed_once_however_often_a_text_has_them() {
    let folder = Folder::new();
    let write = |zone: &str, serial: u32, hosts: u32, times: usize| {
        let hosts: String = (0..hosts).map(|i| format!("h{i} A 192.0.2.1\n")).collect();
        let text = ZONE.replace("host 7 ", &format!("host {serial} ")) + &hosts.repeat(times);
        folder.write(&format!("zones/{zone}.zone"), &text);
    };
    // Hosts, each so often, before and after; whether that is held.
    let cases = [
        ("again", (30, 1), (30, 4), false),
        ("once", (30, 4), (30, 1), false),
        ("few", (40, 1), (5, 8), true),
        ("half", (22, 2), (10, 1), false),
        ("less", (22, 2), (6, 1), true),
    ];
    cases.iter().for_each(|(zone, ..)| write(zone, 7, 10, 1));
    let mut server = serve(&folder);
    let is = |server: &Server, zone: &str, serial: u32| {
        let soa = server.short(&folder, &[zone, "SOA"]);
        assert!(soa.contains(&format!(" {serial} 1 2 3 4")), "{zone}: {soa}{}", read(&folder.0.join("log")));
    };
    cases.iter().for_each(|(zone, (hosts, times), ..)| write(zone, 8, *hosts, *times));
    folder.does(&["reload"]);
    cases.iter().for_each(|(zone, ..)| is(&server, zone, 8));
    cases.iter().for_each(|(zone, _, (hosts, times), _)| write(zone, 9, *hosts, *times));
    folder.refuses(&["reload"], "35 of 48 records go");
    folder.refuses(&["reload"], "16 of 30 records go");
    for _ in 0..2 {
        cases.iter().for_each(|(zone, .., is_held)| is(&server, zone, if *is_held { 8 } else { 9 }));
        server.signal("KILL");
        drop(server);
        server = serve(&folder);
    }
}

/// Beside the image on the disk, which is older, it is one that loses too much.
#[test]
fn what_was_accepted_step_by_step_is_served_by_a_start_that_finds_it_over_no_image_yet() {
    let folder = Folder::new();
    let hosts = |serial, n| write_hosts(&folder, serial, n);
    let ends_at = |server: &Server, serial: u32| {
        let soa = server.short(&folder, &["example", "SOA"]);
        assert!(soa.contains(&format!(" {serial} 1 2 3 4")), "{soa}");
    };
    hosts(7, 100);
    let server = serve(&folder);
    // The clock is put back once there is an image.
    let image = std::fs::File::open(folder.0.join("data/images/zones.image")).unwrap();
    image.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
    for (serial, n) in [(8, 60), (9, 35)] {
        hosts(serial, n);
        folder.does(&["reload", "example"]);
    }
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
    ends_at(&server, 9);
    hosts(10, 10);
    folder.refuses(&["reload", "example"], "would be lost");
    server.signal("KILL");
    drop(server);
    ends_at(&serve(&folder), 9);
}

/// No file has it any more; nor had the image, which is older.
#[test]
fn what_was_served_when_its_file_was_spoilt_is_served_by_the_next_start() {
    for is_new in [false, true] {
        for spoilt in
            [without(&next(|z| z.replace("host 8", "host 9")), &["a ", "b ", "c ", "d ", "ns "]), "@ SOA\n".into()]
        {
            let folder = Folder::new();
            folder.write("zones/other.zone", ZONE);
            let file = folder.0.join("zones/example.zone");
            if !is_new {
                folder.write("zones/example.zone", ZONE);
            }
            let server = serve(&folder);
            for text in [ZONE, &next(|z| z)] {
                std::fs::write(&file, text).unwrap();
                folder.does(&["reload", "example"]);
            }
            std::fs::write(&file, &spoilt).unwrap();
            assert_eq!(folder.ctl(&["reload", "example"]).status.code(), Some(1));
            // What comes after that is done after the image is made.
            folder.does(&["reload", "other"]);
            server.killed();
            let server = serve(&folder);
            assert_eq!(server.short(&folder, &["mark.example", "TXT"]), "\"new\"\n", "{}", read(&folder.0.join("log")));
            assert_eq!(server.short(&folder, &["a.example"]), "192.0.2.1\n");
        }
    }
}

#[test]
fn what_was_taken_back_is_held_by_a_start_all_the_same() {
    let folder = Folder::new();
    let hosts = |serial, n| write_hosts(&folder, serial, n);
    hosts(7, 100);
    let server = serve(&folder);
    for (serial, n) in [(8, 60), (9, 35), (10, 100)] {
        hosts(serial, n);
        folder.does(&["reload", "example"]);
    }
    hosts(9, 35);
    folder.refuses(&["reload", "example"], "does not follow 10");
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
    let soa = server.short(&folder, &["example", "SOA"]);
    assert!(soa.contains(" 10 1 2 3 4"), "{soa}");
    assert_eq!(server.short(&folder, &["h99.example"]), "192.0.2.1\n", "what was served last, and no image had");
}

/// What was served last is over no image yet, and the files change while nobody looks. `FEW` and more are compared after the first answer.
#[test]
fn what_changes_while_the_server_is_down_is_weighed_against_what_was_served_last() {
    const FEW: usize = 1_000;
    for others in [0, FEW] {
        let folder = Folder::new();
        (0..others).for_each(|i| _ = folder.write(&format!("zones/other-{i}.zone"), ZONE));
        let zone = |name: &str, serial: u32, text: &str| {
            folder.write(&format!("zones/{name}.zone"), &(ZONE.replace("host 7 ", &format!("host {serial} ")) + text));
        };
        let [few, hosts] = [30, 50].map(|n| (0..n).map(|i| format!("h{i} A 192.0.2.1\n")).collect::<String>());
        let names = [("back", 10), ("fewer", 10), ("wrong", 10), ("same", 7), ("same-wrong", 7), ("good", 10)];
        names.iter().for_each(|(name, _)| zone(name, 7, ""));
        let server = serve(&folder);
        // In several steps, of which some have no serial of their own.
        for text in [&few, &hosts] {
            names.iter().for_each(|(name, serial)| zone(name, *serial, text));
            folder.does(&["reload"]);
        }
        server.killed();
        zone("back", 8, &hosts);
        zone("fewer", 11, "");
        zone("wrong", 11, "@ SOA\n");
        zone("same", 7, "");
        zone("same-wrong", 7, "@ SOA\n");
        zone("good", 11, &hosts.replace("192.0.2.1", "192.0.2.2"));
        let server = serve(&folder);
        let is = |name: &str, serial: u32, address: &str| {
            let soa = server.short(&folder, &[name, "SOA"]);
            let host = server.short(&folder, &[&format!("h49.{name}")]);
            soa.contains(&format!(" {serial} 1 2 3 4")) && host == format!("{address}\n")
        };
        eventually("what is good", || is("good", 11, "192.0.2.2"));
        for (name, serial) in &names[..5] {
            assert!(is(name, *serial, "192.0.2.1"), "{name}: {}", read(&folder.0.join("log")));
        }
        let status = said(&folder.ctl(&["status", "--json"]));
        let held = ["\"zone\":\"fewer.\"", "\"zone\":\"same.\"", "\"zone\":\"back.\""];
        let wrong = ["\"wrong.: it goes on as it was", "same-wrong.: it goes on as it was"];
        for why in held.iter().chain(&wrong).chain(&["the serial 8 does not follow 10", "50 of 5"]) {
            assert!(status.contains(why), "{why}: {status}");
        }
    }
}

/// A version that is held stays held, also where the image on the disk was made of just that file.
#[test]
fn a_file_that_comes_back_is_weighed_beside_what_is_served() {
    let folder = Folder::new();
    for (name, text) in [("old", ZONE.to_string()), ("new", next(|z| z)), ("other", ZONE.to_string())] {
        folder.write_long_ago(&format!("{name}.zone"), &text);
    }
    let read_from = |file: &str| {
        folder.configure(&format!(
            "[[zone]]\nname = \"example\"\nfile = \"{file}.zone\"\n[[zone]]\nname = \"other\"\nfile = \"other.zone\"\n"
        ))
    };
    read_from("old");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    read_from("new");
    folder.does(&["reload"]);
    read_from("old");
    let why = "the serial 7 does not follow 8";
    let image = || std::fs::metadata(folder.0.join("data/images/zones.image")).unwrap().modified().unwrap();
    let before = image();
    folder.refuses(&["reload"], why);
    eventually("the next image", || image() > before);
    folder.refuses(&["reload"], why);
    assert_eq!(server.short(&folder, &["mark.example", "TXT"]), "\"new\"\n");
}

/// Which weighs nothing that is held.
#[test]
fn what_guards_say_now_counts_for_a_held_version_though_there_was_an_image_of_updates_meanwhile() {
    let folder = Folder::new();
    folder.write("zones/example.zone", ZONE);
    folder.write("up.zone", ZONE);
    folder.write("ddns.key", &format!("{KEY}\n"));
    let updated = "[[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n\
        [[zone]]\nname = \"up.example\"\nfile = \"up.zone\"\nallow-update = [\"key:ddns\"]\n";
    folder.configure(&format!("{DIRECTORY}{updated}"));
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    folder.write_long_ago("zones/example.zone", &without(ZONE, &["a ", "b ", "c ", "d "]));
    folder.refuses(&["reload"], "more than 50 % would be lost");
    folder.configure(&format!("{DIRECTORY}{updated}[guards]\nlost-records-percent = 90\n"));
    folder.does(&["reload", "up.example"]);
    let image = || std::fs::metadata(folder.0.join("data/images/zones.image")).unwrap().modified().unwrap();
    let before = image();
    assert_eq!(update(&server, &[], DDNS, "zone up.example\nadd new.up.example 60 A 192.0.2.9"), "");
    eventually("an image of what the update has changed", || image() > before);
    folder.does(&["reload"]);
    assert_eq!(server.short(&folder, &["a.example"]), "");
}

#[test]
fn guards_are_switched_off_for_a_zone_or_for_all() {
    for (more, expect) in [
        ("", Some(1)),
        ("[guards]\nenabled = false\n", Some(0)),
        ("[guards]\nlost-records-percent = 90\n", Some(0)),
        ("[[zone]]\nname = \"example\"\nfile = \"zones/example.zone\"\nguards = false\n", Some(0)),
    ] {
        let folder = Folder::new();
        for guarded in [more, ""] {
            folder.write("zones/example.zone", ZONE);
            folder.configure(&format!("{DIRECTORY}{guarded}"));
            let server = Server::start(&folder, &["-c", "dunlin.toml"]);
            // Nothing of the file itself is a reason to read it once more.
            folder.write_long_ago("zones/example.zone", &without(ZONE, &["a ", "b ", "c ", "d "]));
            if guarded != more {
                assert_eq!(folder.ctl(&["reload"]).status.code(), Some(1));
                folder.configure(&format!("{DIRECTORY}{more}"));
            }
            assert_eq!(folder.ctl(&["reload"]).status.code(), expect, "{more}");
            drop(server);
        }
        // Once the version that is served is in an image, and the file as it was.
        folder.configure(DIRECTORY);
        let hosts: String = (0..20).map(|i| format!("h{i} A 192.0.2.1\n")).collect();
        folder.write_long_ago("zones/example.zone", &(ZONE.to_string() + &hosts));
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        folder.ctl(&["zone", "publish", "--force", "example"]);
        folder.write_long_ago("zones/example.zone", &next(|z| z));
        assert_eq!(folder.ctl(&["reload"]).status.code(), Some(1));
        drop(server);
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        assert_eq!(server.short(&folder, &["mark.example", "TXT"]), "");
        drop(server);
        folder.configure(&format!("{DIRECTORY}{more}"));
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        assert_eq!(server.short(&folder, &["mark.example", "TXT"]).is_empty(), more.is_empty(), "{more}");
    }
}
