//! Dynamic update as BIND's nsupdate sends it: what was acknowledged is served, and still is after a kill.

use crate::running::{Folder, Server, eventually, read, text};
use difference::peers;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

pub const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
pub const CONFIGURATION: &str = "[[key]]
name = \"ddns\"
secret-file = \"ddns.key\"
[[key]]
name = \"acme\"
algorithm = \"hmac-sha512\"
secret-file = \"ddns.key\"
[[zone]]
name = \"z.example\"
file = \"z.zone\"
allow-update = [\"key:ddns\", \"key:acme name:_acme-challenge.www.z.example type:TXT\"]
[[zone]]
name = \"fixed.example\"
file = \"z.zone\"
";
pub const ZONE: &str = "$TTL 300\n@ SOA ns hostmaster 7 1 2 3 4\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.1\n";

pub fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("ddns.key", &format!("{KEY}\n"));
    folder.write("z.zone", ZONE);
    folder.configure(CONFIGURATION);
    folder
}

/// With a key of an algorithm that some programs know no other than.
fn folder_with_an_old_key() -> Folder {
    let folder = folder();
    let key = "[[key]]\nname = \"old\"\nalgorithm = \"hmac-md5\"\nsecret-file = \"ddns.key\"\n";
    let right = "\"key:old name:_acme-challenge.www.z.example type:TXT\"";
    folder.configure(
        &(key.to_string() + &CONFIGURATION.replacen("= [\"key:ddns\"", &format!("= [{right}, \"key:ddns\""), 1)),
    );
    folder
}

pub fn serve(folder: &Folder) -> Server {
    Server::start(folder, &["-c", "dunlin.toml"])
}

/// The same server after a kill -9, as it is when it says that it is ready.
pub fn after_a_kill(server: Server, folder: &Folder) -> Server {
    server.killed();
    serve(folder)
}

/// What nsupdate says; nothing if all is well. `key`: "ALGORITHM:NAME", or none.
pub fn update(server: &Server, arguments: &[&str], key: &str, lines: &str) -> String {
    let mut command = peers::command("nsupdate");
    if !key.is_empty() {
        command.args(["-y", &format!("{key}:{KEY}")]);
    }
    let script = format!("server {} {}\n{lines}\nsend\n", server.address.ip(), server.address.port());
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

pub const DDNS: &str = "hmac-sha256:ddns";

/// With more names below one than are laid while updates wait: whoever delegates that hides them.
pub fn serve_many(folder: &Folder, names: u32) -> Server {
    let many: String = (0..=names).map(|i| format!("n{i}.many A 192.0.2.2\n")).collect();
    folder.write("z.zone", &format!("{ZONE}{many}"));
    serve(folder)
}

/// What one zone that takes updates has had added, and another zone that has nothing to do with it.
pub fn add(server: &Server, i: u32) -> String {
    update(server, &[], DDNS, &format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}"))
}

pub fn has(folder: &Folder, server: &Server, i: u32) -> bool {
    server.short(folder, &[&format!("n{i}.z.example"), "A"]) == format!("192.0.2.{i}\n")
}

#[test]
fn an_update_is_served_at_once_and_after_a_kill() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
    assert_eq!(update(&server, &["-v"], DDNS, "zone z.example\ndel www.z.example A"), "");
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "");
    for (key, lines, says) in [
        (DDNS, "prereq yxdomain none.z.example\nadd x.z.example 60 A 192.0.2.1", "NXDOMAIN"),
        ("", "add x.z.example 60 A 192.0.2.1", "REFUSED"),
        ("hmac-sha256:unknown", "add x.z.example 60 A 192.0.2.1", "NOTAUTH"),
    ] {
        assert!(update(&server, &[], key, &format!("zone z.example\n{lines}")).contains(says), "{lines}");
    }
    let refused = "info an update is refused zone=z.example. key=none from=127.0.0.1 changes=\"x.z.example. A\" why=\"no rule allows it\" unsaid=0\n";
    assert!(read(&folder.0.join("log")).contains(refused));
    let counted = text(&folder.ctl(&["--json", "stats"]).stdout);
    for count in ["\"updates\":2,", "\"updates_unmet\":1,", "\"updates_refused\":2,", "\"updates_failed\":0,"] {
        assert!(counted.contains(count), "{count} {counted}");
    }
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 9 1 2 3 4"));
}

#[test]
fn what_no_zone_can_hold_is_refused_and_no_start_finds_it() {
    let folder = folder();
    let server = serve(&folder);
    let ds = format!("zone z.example\nadd z.example 60 DS 7 13 2 {}", "00".repeat(32));
    assert!(update(&server, &[], DDNS, &ds).contains("REFUSED"));
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    folder.does(&["reload"]);
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
}

#[test]
fn a_signed_zone_takes_no_updates_and_does_not_go_back() {
    let folder = folder();
    let key =
        "@ DNSKEY 257 3 13 wMRjELoSFVEi9l4Q6bUseAiNPfzrZnyKFeVkDx+E31gXetoW099xT6B4OcicxdabF3d/Y+Ap7DaQgVzq3sEeog==\n";
    folder.write("z.zone", &format!("{ZONE}{key}"));
    let server = serve(&folder);
    assert!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9").contains("REFUSED"));
    assert!(read(&folder.0.join("log")).contains("why=\"the zone is signed: what signs it can change it\""));
    folder.write("z.zone", &format!("{}{key}", ZONE.replace(" 7 ", " 20 ").replace("192.0.2.1\n", "192.0.2.2\n")));
    folder.does(&["reload"]);
    eventually("the edit", || server.short(&folder, &["www.z.example", "A"]) == "192.0.2.2\n");
    folder.refuses(&["zone", "rollback", "z.example", "7"], "it is signed");
}

#[test]
fn the_configuration_counts_when_it_is_asked_for_and_what_cannot_change_stays() {
    let folder = folder();
    let server = serve(&folder);
    let add = |n: u32| {
        let line = format!("zone z.example\nadd n{n}.z.example 60 A 192.0.2.{n}");
        update(&server, &[], DDNS, &line).replace('\n', " ")
    };
    assert_eq!(add(1), "");
    let toml = read(&folder.0.join("dunlin.toml"));
    let other = toml.replace("data-dir = \"data\"", "data-dir = \"other\"").replace("\"key:ddns\", ", "");
    assert_ne!(toml.replace("data-dir = \"data\"", ""), toml);
    folder.write("dunlin.toml", &other);
    // Somebody only looks, and a file of a zone changes.
    folder.does(&["zone", "diff", "fixed.example"]);
    assert_eq!(add(2), "", "nobody has asked for the configuration");
    assert!(folder.does(&["reload", "--json"]).contains("\"needs_restart\":[\"[server]\"]"), "and no other section");
    assert!(add(3).contains("REFUSED"), "the new rules");
    assert!(
        read(&folder.0.join("log")).contains("what has changed in these sections needs a restart sections=[server]")
    );
    folder.write(
        "dunlin.toml",
        &format!("{toml}[history]\nage = \"1h\"\n[limits]\ntcp-connections = 7\n[cache]\nsize = \"64MiB\"\n"),
    );
    let both = folder.does(&["reload", "--json"]);
    assert!(both.contains("\"needs_restart\":[\"[limits]\",\"[cache]\"]"), "{both}");
    assert_eq!(add(4), "", "the old rules again");
    folder.write("dunlin.toml", &toml);
    assert!(!folder.does(&["reload", "--json"]).contains("needs_restart"));
    for (name, address) in [("n1", "192.0.2.1\n"), ("n2", "192.0.2.2\n"), ("n3", ""), ("n4", "192.0.2.4\n")] {
        assert_eq!(server.short(&folder, &[&format!("{name}.z.example"), "A"]), address);
    }
    assert!(!folder.0.join("other").exists());
}

#[test]
fn of_a_configuration_with_an_error_in_its_list_nothing_counts() {
    let folder = folder();
    let with_list = format!("[zones]\nlist = \"list\"\n{CONFIGURATION}");
    folder.configure(&with_list);
    folder.write("list", "other.example z.zone\n");
    let server = serve(&folder);
    folder.configure(&with_list.replace("\"key:ddns\", ", ""));
    folder.write("list", "other.example z.zone\nother.example z.zone\n");
    folder.refuses(&["reload"], "other.example");
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    folder.write("list", "other.example z.zone\n");
    folder.does(&["reload"]);
    assert!(update(&server, &[], DDNS, "zone z.example\nadd n.z.example 60 A 192.0.2.9").contains("REFUSED"));
}

#[test]
fn an_address_that_thousands_of_referrals_carry_comes_to_all_of_them() {
    let folder = folder();
    let cuts = 5000;
    let delegations: String = (0..cuts).map(|n| format!("c{n} NS h.all\n")).collect();
    folder.write("z.zone", &format!("{ZONE}all NS h.all\nh.all A 192.0.2.10\n{delegations}"));
    let server = serve(&folder);
    let at = format!("@{}", server.address);
    let has = |name: &str, address: &str| text(&folder.dunlin(&["query", &at, name, "A"]).stdout).contains(address);
    assert!(has("x.c7.z.example", "192.0.2.10"));
    for last in 11..14 {
        let change = format!("zone z.example\ndel h.all.z.example A\nadd h.all.z.example 60 A 192.0.2.{last}");
        assert_eq!(update(&server, &[], DDNS, &change), "");
        assert!(has("x.all.z.example", &format!("192.0.2.{last}")), "glue is there at once");
    }
    for n in (0..cuts).step_by(97) {
        eventually("the last address", || has(&format!("x.c{n}.z.example"), "192.0.2.13"));
    }
}

/// A file's name has 255 octets at most, and a zone's name may be as long: that is kept from no zone, and from no other's updates.
#[test]
fn a_zone_may_have_a_name_of_any_length() {
    let folder = folder();
    let label = |c: &str, len| c.repeat(len);
    let long = [label("a", 63), label("b", 63), label("c", 63), label("d", 50)].join(".");
    let odd = format!("{}.example", "\\228".repeat(50));
    let zone = |name: &str| {
        let name = name.replace('\\', "\\\\");
        format!("[[zone]]\nname = \"{name}\"\nfile = \"z.zone\"\nallow-update = [\"key:ddns\"]\n")
    };
    folder.configure(&(CONFIGURATION.to_string() + &zone(&long) + &zone(&odd)));
    let server = serve(&folder);
    let owners = [format!("x.{long}"), format!("x.{odd}"), "x.z.example".to_string()];
    let change = |add: &str| {
        for owner in &owners {
            assert_eq!(
                update(&server, &[], DDNS, &format!("zone {}\nadd {owner} 60 TXT {add}", &owner[2..])),
                "",
                "{owner}"
            );
        }
    };
    change("one");
    let files = || std::fs::read_dir(folder.0.join("data/journal")).unwrap().map(|entry| entry.unwrap().path());
    let zones = || files().filter(|file| file.extension().is_some_and(|of| of == "zone"));
    eventually("all are written down", || zones().filter(|file| read(file).contains("\"one\"")).count() == 3);
    change("two");
    let server = after_a_kill(server, &folder);
    for owner in &owners {
        assert_eq!(server.short(&folder, &[owner, "TXT"]).lines().count(), 2, "{owner}");
    }
    assert!(!read(&folder.0.join("log")).contains("error"), "{}", read(&folder.0.join("log")));
}

#[test]
fn a_zone_whose_file_cannot_be_written_keeps_no_other_from_a_new_image() {
    let folder = folder();
    let others: Vec<String> = (0..6).map(|i| format!("y{i}.example")).collect();
    let zone =
        |name: &String| format!("[[zone]]\nname = \"{name}\"\nfile = \"z.zone\"\nallow-update = [\"key:ddns\"]\n");
    folder.configure(&(CONFIGURATION.to_string() + &others.iter().map(zone).collect::<String>()));
    let server = serve(&folder);
    let zones: Vec<&str> = others.iter().map(|zone| &**zone).chain(["z.example"]).collect();
    let change = |host: &str| {
        for zone in &zones {
            let lines = format!("zone {zone}\nadd {host}.{zone} 60 A 192.0.2.7");
            assert_eq!(update(&server, &[], DDNS, &lines), "");
        }
    };
    change("one");
    let journal = folder.0.join("data/journal");
    let (own, away) = (journal.join("z.example.zone"), journal.join("away"));
    std::fs::rename(&own, &away).unwrap();
    std::fs::create_dir(&own).unwrap();
    let log = || read(&folder.0.join("log"));
    eventually("the next image", || log().contains("zones published"));
    change("two");
    for zone in &others {
        assert!(read(&journal.join(format!("{zone}.zone"))).contains("one."), "{zone}");
    }
    assert!(
        log().contains("the zone z.example. is not written") && !log().contains("stay in the journal"),
        "{}",
        log()
    );
    std::fs::remove_dir(&own).unwrap();
    std::fs::rename(away, own).unwrap();
    let server = after_a_kill(server, &folder);
    for (host, zone) in ["one", "two"].into_iter().flat_map(|host| zones.iter().map(move |zone| (host, zone))) {
        assert_eq!(server.short(&folder, &[&format!("{host}.{zone}")]), "192.0.2.7\n", "{host}.{zone}");
    }
}

#[test]
fn who_may_not_is_told_so_and_changes_nothing() {
    let folder = folder_with_an_old_key();
    let server = serve(&folder);
    let add = "zone z.example\nadd new.z.example 60 A 192.0.2.9";
    for (key, lines, expect) in [
        ("", add, "update failed: REFUSED"),
        ("hmac-sha256:unknown", add, "update failed: NOTAUTH(BADKEY)"),
        ("hmac-md5:ddns", add, "update failed: NOTAUTH(BADKEY)"),
        ("hmac-sha256:old", add, "update failed: NOTAUTH(BADKEY)"),
        ("hmac-sha512:acme", add, "update failed: REFUSED"),
        (DDNS, "zone fixed.example\nadd new.fixed.example 60 A 192.0.2.9", "update failed: REFUSED"),
        (DDNS, "zone elsewhere.example\nadd new.elsewhere.example 60 A 192.0.2.9", "update failed: NOTAUTH"),
        (DDNS, "zone z.example\nnxdomain www.z.example\nadd new.z.example 60 A 192.0.2.9", "update failed: YXDOMAIN"),
    ] {
        let said = update(&server, &[], key, lines);
        assert!(said.contains(expect), "{key} {lines}: {said}");
    }
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "");
    let challenge = "zone z.example\nadd _acme-challenge.www.z.example 60 TXT token";
    for key in ["hmac-md5:old", "hmac-sha512:acme"] {
        assert_eq!(update(&server, &[], key, challenge), "");
    }
    assert_eq!(server.short(&folder, &["_acme-challenge.www.z.example", "TXT"]), "\"token\"\n");
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 8 1 2 3 4"));
}

/// Whoever is told NOTAUTH gives up.
#[test]
fn an_update_of_a_zone_that_was_never_good_is_to_come_again() {
    let add = "zone z.example\nadd new.z.example 60 A 192.0.2.9";
    let [no_zone, no_ns] = [("192.0.2.53", "192.0.2"), ("@ NS ns\n", "")].map(|(from, to)| ZONE.replace(from, to));
    for wrong in [no_zone, no_ns, ZONE.to_string() + "www CNAME ns\n"] {
        let folder = folder();
        folder.write_long_ago("z.zone", &wrong);
        let server = serve(&folder);
        assert!(update(&server, &[], DDNS, add).contains("update failed: SERVFAIL"), "{wrong}");
        assert!(update(&server, &[], "", add).contains("update failed: REFUSED"), "{wrong}");
        folder.write_long_ago("z.zone", ZONE);
        folder.does(&["reload"]);
        assert_eq!(update(&server, &[], DDNS, add), "", "{wrong}");
    }
}

#[test]
fn a_frozen_zone_waits_for_its_thaw() {
    let folder = folder();
    let server = serve(&folder);
    folder.does(&["zone", "freeze", "z.example"]);
    assert!(folder.does(&["--json", "status"]).contains("\"frozen\":[\"z.example.\"]"));
    let add = "zone z.example\nadd new.z.example 60 A 192.0.2.9";
    assert!(update(&server, &[], DDNS, add).contains("REFUSED"));
    folder.does(&["zone", "thaw", "z.example"]);
    assert!(folder.does(&["--json", "status"]).contains("\"frozen\":[]"));
    assert_eq!(update(&server, &[], DDNS, add), "");
    let log = folder.does(&["zone", "log", "z.example"]);
    assert!(log.contains("serial 8") && log.contains("key ddns. from 127.0.0.1"), "{log}");
}

#[test]
fn an_update_outlives_other_changes_of_what_is_served() {
    let folder = folder();
    folder.write("other.zone", ZONE);
    folder.configure(&format!("{CONFIGURATION}[[zone]]\nname = \"other.example\"\nfile = \"other.zone\"\n"));
    let server = serve(&folder);
    let ours = folder.0.join("data/journal/z.example.zone");
    let imported = std::fs::read_to_string(&ours).unwrap();
    let reload = |words: &[&str]| folder.does(&[&["reload"], words].concat());
    for (i, zones) in [&["other.example"][..], &[]].into_iter().enumerate() {
        let line = format!(
            "zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}\ndel www.z.example\nadd www.z.example 60 A 192.0.2.3{i}"
        );
        assert_eq!(update(&server, &[], DDNS, &line), "");
        assert_eq!(std::fs::read_to_string(&ours).unwrap(), imported, "no file is written for an update");
        folder.write("other.zone", &ZONE.replace("192.0.2.1", &format!("192.0.2.10{i}")));
        reload(zones);
        assert_eq!(server.short(&folder, &["www.other.example", "A"]), format!("192.0.2.10{i}\n"));
        assert_eq!(server.short(&folder, &["www.z.example", "A"]), format!("192.0.2.3{i}\n"));
        assert_eq!(server.short(&folder, &["n0.z.example", "A"]), "192.0.2.0\n");
    }
    // Another image: a zone more, and the access list of another.
    let more = CONFIGURATION.replace("name = \"fixed.example\"", "name = \"more.example\"");
    folder.configure(&more);
    reload(&[]);
    assert_eq!(server.short(&folder, &["www.more.example", "A"]), "192.0.2.1\n");
    assert_eq!(server.short(&folder, &["n1.z.example", "A"]), "192.0.2.1\n");
    assert_eq!(update(&server, &[], DDNS, "zone z.example\ndel n1.z.example\nadd n2.z.example 60 A 192.0.2.2"), "");
    let server = after_a_kill(server, &folder);
    for (name, expect) in [("n0", "192.0.2.0\n"), ("n1", ""), ("n2", "192.0.2.2\n"), ("www", "192.0.2.31\n")] {
        assert_eq!(server.short(&folder, &[&format!("{name}.z.example"), "A"]), expect, "{name}");
    }
}

#[test]
fn a_start_reads_little_of_the_journal_though_updates_never_pause() {
    let folder = folder();
    let server = serve(&folder);
    let released = folder.0.join("data/journal/released");
    // Each is 60 KB in the journal, and 30 KB behind the image: it is long before there is no room.
    let change = |i: u32| {
        let text = format!(" \"{i:0>250}\"").repeat(120);
        format!("del big.z.example TXT\nadd big.z.example 60 TXT{text}\nsend\n")
    };
    let mut sent = 0;
    while sent < 2_400 && !released.exists() {
        let changes: String = (sent..sent + 40).map(change).collect();
        assert_eq!(update(&server, &["-v"], DDNS, &format!("zone z.example\n{changes}")), "");
        sent += 40;
    }
    assert!(released.exists(), "{sent} updates without a pause, and all of them are read by the next start");
    let server = after_a_kill(server, &folder);
    let last = format!("{:0>250}", sent - 1);
    assert!(server.short(&folder, &["big.z.example", "TXT"]).contains(&last));
}

/// One zone of ours below another: laid over the image, the delegation between them too, and names on the way.
#[test]
fn zones_within_one_another_are_updated_too() {
    let folder = folder();
    let below = |name: &str| {
        format!("[[zone]]\nname = \"{name}.z.example\"\nfile = \"z.zone\"\nallow-update = [\"key:ddns\"]\n")
    };
    folder.configure(&format!("{CONFIGURATION}{}{}", below("sub"), below("deep.er")));
    let server = serve(&folder);
    for (zone, expect) in [("z.example", "192.0.2.7\n"), ("sub.z.example", "192.0.2.8\n")] {
        let line = format!("zone {zone}\nadd new.{zone} 60 A {}", expect.trim());
        assert_eq!(update(&server, &[], DDNS, &line), "");
        assert_eq!(server.short(&folder, &[&format!("new.{zone}"), "A"]), expect);
    }
    let line = "zone z.example\nadd sub.z.example 60 NS ns.sub.z.example\nadd ns.sub.z.example 60 A 192.0.2.9";
    assert_eq!(update(&server, &[], DDNS, line), "");
    assert_eq!(server.short(&folder, &["ns.sub.z.example", "A"]), "192.0.2.53\n", "the zone below has the say");
    let line = "zone z.example\nadd sub.z.example 60 DS 7 13 2 0123456789012345678901234567890123456789012345678901234567890123";
    assert_eq!(update(&server, &[], DDNS, line), "");
    assert!(server.short(&folder, &["sub.z.example", "DS"]).starts_with("7 13 2 "));
    // A name on the way to a zone that nothing delegates to; a name below that one; the delegation. Then without them.
    let steps = [
        ("add er.z.example 60 TXT here", "\"here\"\n"),
        ("add ns.deep.er.z.example 60 A 192.0.2.9", "\"here\"\n"),
        ("add deep.er.z.example 60 NS ns.deep.er.z.example", "\"here\"\n"),
        ("del deep.er.z.example NS", "\"here\"\n"),
        ("del er.z.example", ""),
        ("del ns.deep.er.z.example", ""),
        ("add er.z.example 60 TXT again", "\"again\"\n"),
    ];
    for (step, expect) in steps {
        assert_eq!(update(&server, &[], DDNS, &format!("zone z.example\n{step}")), "", "{step}");
        assert_eq!(server.short(&folder, &["er.z.example", "TXT"]), expect, "{step}");
        assert_eq!(server.short(&folder, &["www.deep.er.z.example", "A"]), "192.0.2.1\n", "{step}");
    }
    assert!(!read(&folder.0.join("log")).contains("takes a new image"));
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.7\n");
    assert_eq!(server.short(&folder, &["new.sub.z.example", "A"]), "192.0.2.8\n");
}

/// More names are hidden, and come back, than are laid over an image. A new one holds other zones as their files say, or as they were.
#[test]
fn an_update_that_takes_a_new_image_does_not_wait_for_other_zones_to_be_mended() {
    let folder = folder();
    let other = "[[zone]]\nname = \"other.example\"\nfile = \"other.zone\"\n";
    let alone = &CONFIGURATION[..CONFIGURATION.rfind("[[zone]]").unwrap()];
    let with = alone.replacen("allow-update", "write-back = \"1s\"\nallow-update", 1);
    folder.configure(&format!("{with}{other}"));
    folder.write("other.zone", &format!("{ZONE}wrong A here\n"));
    let server = serve_many(&folder, 10_000);
    let changes = [("add many.z.example 60 NS ns.other.example.", ""), ("del many.z.example NS", "192.0.2.2\n")];
    for (change, expect) in changes {
        let is_written = || read(&folder.0.join("z.zone")).contains("many.z.example. 60 IN NS") == expect.is_empty();
        assert_eq!(update(&server, &["-v"], DDNS, &format!("zone z.example\n{change}")), "");
        assert_eq!(server.short(&folder, &["n7.many.z.example", "A"]), expect);
        eventually("the file", is_written);
    }
    assert_eq!(read(&folder.0.join("log")).matches("takes a new image").count(), changes.len());
}

/// Whoever comes while a change of the zone waits for a new image finds that change.
#[test]
fn what_comes_behind_an_update_that_takes_a_new_image_waits_for_it() {
    let folder = folder();
    let server = serve_many(&folder, 10_000);
    let lines = [("add many.z.example 60 NS ns.other.example.", "yxrrset"), ("del many.z.example NS", "nxrrset")];
    for (i, (line, prerequisite)) in lines.into_iter().enumerate() {
        std::thread::scope(|scope| {
            let first = scope.spawn(|| update(&server, &["-v"], DDNS, &format!("zone z.example\n{line}")));
            eventually("it is made durable", || {
                read(&folder.0.join("log")).matches("an update takes a new image").count() > i
            });
            let line = format!("prereq {prerequisite} many.z.example NS\nadd x{i}.z.example 60 A 192.0.2.9");
            assert_eq!(update(&server, &["-v"], DDNS, &format!("zone z.example\n{line}")), "");
            assert_eq!(server.short(&folder, &[&format!("x{i}.z.example"), "A"]), "192.0.2.9\n");
            assert_eq!(first.join().unwrap(), "");
        });
        let expect = if i == 0 { "" } else { "192.0.2.2\n" };
        assert_eq!(server.short(&folder, &["n7.many.z.example", "A"]), expect);
    }
    let rolled = folder.does(&["--json", "zone", "rollback", "z.example", "8"]);
    assert!(rolled.contains("\"serial\":12"), "{rolled}");
    assert_eq!(
        server.short(&folder, &["n7.many.z.example", "A"]),
        "",
        "a change that nobody sent is told of when it is served"
    );
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["n7.many.z.example", "A"]), "");
    assert_eq!(server.short(&folder, &["x1.z.example", "A"]), "");
}

/// Whoever freezes a zone wants it to be as it will stay.
#[test]
fn a_freeze_comes_behind_an_update_that_takes_a_new_image() {
    let folder = folder();
    let server = serve_many(&folder, 50_000);
    std::thread::scope(|scope| {
        let change = "zone z.example\nadd many.z.example 60 NS ns.other.example.";
        let first = scope.spawn(|| update(&server, &["-v"], DDNS, change));
        eventually("it is made durable", || read(&folder.0.join("log")).contains("an update takes a new image"));
        folder.does(&["zone", "freeze", "z.example"]);
        assert_eq!(server.short(&folder, &["n7.many.z.example", "A"]), "");
        assert!(folder.does(&["--json", "status"]).contains("\"frozen\":[\"z.example.\"]"));
        assert_eq!(first.join().unwrap(), "");
    });
    assert!(add(&server, 1).contains("REFUSED"));
    folder.does(&["zone", "thaw", "z.example"]);
    assert_eq!(add(&server, 1), "");
}

/// The file is of more than is laid out where updates wait for it (`images::changes`).
#[test]
fn a_zone_is_reloaded_while_updates_change_those_above_and_below_it() {
    let folder = folder();
    let below = "[[zone]]\nname = \"c.z.example\"\nfile = \"c.zone\"\n\
        [[zone]]\nname = \"d.c.z.example\"\nfile = \"d.zone\"\nallow-update = [\"key:ddns\"]\n";
    folder.configure(&format!("{CONFIGURATION}{below}"));
    let write = |turn: usize| {
        let many: String = (0..10_000).map(|i| format!("n{i} A 192.0.2.{turn}\n")).collect();
        let zone = ZONE.replace(" 7 ", &format!(" {turn} "));
        folder.write("c.zone", &format!("{zone}d NS ns.d\nns.d A 192.0.2.{turn}\n{many}"))
    };
    write(1);
    folder.write("d.zone", ZONE);
    let mut server = serve(&folder);
    let (mut number, mut last) = (0, [String::new(), String::new()]);
    for turn in 2..7 {
        write(turn);
        std::thread::scope(|scope| {
            let reload = scope.spawn(|| folder.does(&["reload", "c.z.example"]));
            let mut is_over = false;
            while !is_over {
                is_over = reload.is_finished();
                number += 1;
                last = [format!("{number:064}"), format!("10.0.0.{number}")];
                let name = "c.z.example";
                let cut = format!("del {name}\nadd {name} 60 NS ns.{name}.\nadd {name} 60 DS 1 13 2 {}", last[0]);
                let host = format!("del h.d.{name}\nadd h.d.{name} 60 A {}", last[1]);
                assert_eq!(update(&server, &[], DDNS, &format!("zone z.example\n{cut}")), "");
                assert_eq!(update(&server, &[], DDNS, &format!("zone d.{name}\n{host}")), "");
            }
        });
        for is_killed in [false, true] {
            if is_killed {
                server = after_a_kill(server, &folder);
            }
            let short = |name: &str, rtype: &str| server.short(&folder, &[name, rtype]);
            assert_eq!(short("n7.c.z.example", "A"), format!("192.0.2.{turn}\n"));
            assert!(short("c.z.example", "DS").contains(&last[0]));
            assert_eq!(short("h.d.c.z.example", "A"), format!("{}\n", last[1]));
        }
    }
}

#[test]
fn a_zone_of_updates_is_compared_shown_and_goes_back() {
    let folder = folder();
    let server = serve(&folder);
    let ctl = |words: &[&str]| folder.ctl(&[&["--json"], words].concat());
    let said = |words: &[&str]| text(&ctl(words).stdout);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 MX 1 Mail.Z.Example."), "");
    assert_eq!(update(&server, &[], DDNS, "zone z.example\ndel new.z.example\nadd other.z.example 60 A 192.0.2.9"), "");
    let diff = said(&["zone", "diff", "z.example", "7", "9"]);
    assert!(
        diff.contains("\"added\":[\"z.example. 300 IN SOA") && diff.contains("other.z.example. 60 IN A 192.0.2.9"),
        "{diff}"
    );
    assert!(!diff.contains("new.z.example."), "{diff}");
    let shown = said(&["zone", "show", "z.example", "--serial", "8"]);
    assert!(shown.contains("new.z.example. 60 IN MX 1 mail.z.example.") && !shown.contains("other"), "{shown}");
    assert!(said(&["zone", "rollback", "z.example", "8"]).contains("\"serial\":10"));
    assert_eq!(server.short(&folder, &["other.z.example", "A"]), "");
    assert_eq!(server.short(&folder, &["new.z.example", "MX"]).to_lowercase(), "1 mail.z.example.\n");
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 10 1 2 3 4"));
    assert!(said(&["zone", "log", "z.example"]).contains("rollback to 8"));
    assert_eq!(ctl(&["zone", "rollback", "z.example", "3"]).status.code(), Some(1));
    let server = after_a_kill(server, &folder);
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 10 1 2 3 4"));
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd last.z.example 60 A 192.0.2.9"), "");
    assert!(said(&["zone", "rollback", "z.example", "7"]).contains("\"serial\":12"));
    assert_eq!(server.short(&folder, &["last.z.example", "A"]), "");
}

/// What a client of the peers says to a question, signed with a key; `dig` and `kdig` both take -y ALGORITHM:NAME:SECRET.
fn signed(server: &Server, client: &str, key: &str, arguments: &[&str]) -> String {
    let (ip, port) = (format!("@{}", server.address.ip()), server.address.port().to_string());
    let output = peers::command(client).args(["-y", key, "-p", &port, &ip]).args(arguments).output().unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn signed_queries_get_signed_answers() {
    let folder = folder();
    let server = serve(&folder);
    let good = format!("hmac-sha256:ddns:{KEY}");
    for client in ["dig", "kdig"] {
        for transport in ["+notcp", "+tcp"] {
            let said = signed(&server, client, &good, &["www.z.example", "A", transport]);
            assert!(said.contains("192.0.2.1") && said.contains("NOERROR"), "{client} {transport}: {said}");
            // dig's words for a wrong signature, and kdig's.
            let complains = ["Couldn't verify", "verification", "BADSIG"].iter().any(|words| said.contains(words));
            assert!(!complains && said.contains("TSIG"), "{client} {transport}: {said}");
        }
        let sha512 = format!("hmac-sha512:acme:{KEY}");
        assert!(signed(&server, client, &sha512, &["no.z.example", "A"]).contains("NXDOMAIN"), "{client}");
        let unknown = format!("hmac-sha256:nobody:{KEY}");
        let said = signed(&server, client, &unknown, &["www.z.example", "A"]);
        assert!(said.contains("BADKEY") && !said.contains("192.0.2.1"), "{client}: {said}");
        let wrong = "hmac-sha256:ddns:QUFBQUFBQUFBQUFBQUFBQQ==";
        let said = signed(&server, client, wrong, &["www.z.example", "A"]);
        assert!(said.contains("BADSIG") && !said.contains("192.0.2.1"), "{client}: {said}");
    }
}

#[test]
fn keys_and_rules_change_with_a_reload() {
    let folder = folder();
    let server = serve(&folder);
    let add = |i: u8| format!("zone fixed.example\nadd n{i}.fixed.example 60 A 192.0.2.{i}");
    assert!(update(&server, &[], DDNS, &add(1)).contains("REFUSED"));
    let fixed = "name = \"fixed.example\"\nfile = \"z.zone\"\n";
    let more = CONFIGURATION.replace(fixed, &format!("{fixed}allow-update = [\"key:later\"]\n"));
    let more = more.replace("allow-update = [\"key:ddns\"", "allow-update = [\"key:later\"");
    let key = "[[key]]\nname = \"later\"\nsecret-file = \"ddns.key\"\n";
    folder.configure(&more.replacen("[[key]]\n", &format!("{key}[[key]]\n"), 1));
    folder.does(&["reload"]);
    let later = "hmac-sha256:later";
    eventually("the zone takes updates", || update(&server, &[], later, &add(2)).is_empty());
    assert_eq!(server.short(&folder, &["n2.fixed.example", "A"]), "192.0.2.2\n");
    assert!(update(&server, &[], DDNS, &add(3)).contains("REFUSED"), "and another's key still does not");
    let old = "zone z.example\nadd new.z.example 60 A 192.0.2.9";
    assert!(update(&server, &[], DDNS, old).contains("REFUSED"), "a right that was taken away");
    assert_eq!(update(&server, &[], later, old), "");
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["n2.fixed.example", "A"]), "192.0.2.2\n");
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
}

#[test]
fn certbot_and_external_dns_get_what_they_ask_for() {
    let folder = folder_with_an_old_key();
    let server = serve(&folder);
    let outdated = "a key is of HMAC-MD5, which must not be used any more (RFC 8945)";
    eventually("the key is warned of", || read(&folder.0.join("log")).contains(outdated));
    let checked = folder.dunlin(&["check", "-c", "dunlin.toml"]);
    assert!(text(&checked.stdout).starts_with(&format!("warning: {outdated}: old.\n")), "{checked:?}");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/updaters.py");
    let output = peers::command("python3").args([script, &server.address.port().to_string(), KEY]).output();
    let output = output.unwrap();
    assert_eq!(text(&output.stdout), "all taken\n", "{}", text(&output.stderr));
}

/// A client that has had no answer asks again, and may do so while the server starts.
#[test]
fn whoever_is_the_first_to_be_answered_may_have_sent_an_update() {
    let folder = folder();
    // One that nobody else is given: an address of this process, and a port below those that are given out.
    let [.., a, b] = std::process::id().to_be_bytes();
    let (address, port) = (format!("127.77.{a}.{b}"), 20_053);
    let written = read(&folder.0.join("dunlin.toml"));
    folder.write("dunlin.toml", &written.replace("127.0.0.1:0", &format!("{address}:{port}")));
    for _ in 0..3 {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/early.py");
        let mut early = peers::command("python3");
        let mut early = early.args([script, &address, &port.to_string(), KEY]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(early.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(said.next().unwrap(), "begins");
        let server = serve(&folder);
        assert_eq!(said.next().unwrap(), "NOERROR");
        early.wait().unwrap();
        assert_eq!(server.short(&folder, &["early.z.example", "A"]), "192.0.2.9\n");
    }
}

/// Rounds of killing; DUNLIN_KILLS says how many. In every second one all that was not synced is gone, and files of zones cannot be read now and then.
#[test]
fn what_was_acknowledged_outlives_kills_under_load() {
    let kills = std::env::var("DUNLIN_KILLS").unwrap_or_else(|_| "24".to_string());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/updates/kill");
    let dunlin = env!("CARGO_BIN_EXE_dunlin");
    let output = Command::new(script).args(["--kills", &kills, "--dunlin", dunlin]).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Some seconds of it; `make soak` runs it for twenty minutes.
#[test]
fn zones_that_change_in_every_way_are_never_answered_wrongly() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/updates/soak");
    let dunlin = env!("CARGO_BIN_EXE_dunlin");
    let arguments = ["--seconds", "8", "--seed", "1", "--answer-within", "60", "--dunlin", dunlin];
    let output = Command::new(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn what_is_said_to_updates_is_counted_as_answers_are() {
    let folder = folder();
    let server = serve(&folder);
    let say = |lines: &str| update(&server, &[], DDNS, &format!("zone z.example\n{lines}"));
    assert_eq!(say("add new.z.example 60 A 192.0.2.9"), "");
    assert!(say("prereq nxdomain www.z.example\nadd www.z.example 60 A 192.0.2.9").contains("YXDOMAIN"));
    assert!(update(&server, &[], "", "zone z.example\nadd new.z.example 60 A 192.0.2.9").contains("REFUSED"));
    let stats = folder.does(&["stats"]);
    let counted = |name: &str| -> u64 {
        let line = stats.lines().find_map(|line| line.trim().strip_prefix(&format!("{name} "))).unwrap();
        line.parse().unwrap()
    };
    assert_eq!(counted("answers"), counted("queries_udp") + counted("queries_tcp"));
    let codes = ["rcode_noerror", "rcode_refused", "rcode_other"].map(counted);
    assert!(codes.iter().all(|n| *n > 0) && codes.iter().sum::<u64>() == counted("answers"), "{stats}");
}
