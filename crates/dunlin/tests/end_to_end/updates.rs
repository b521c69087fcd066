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

pub fn serve(folder: &Folder) -> Server {
    Server::start(folder, &["-c", "dunlin.toml"])
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
    let refused =
        "info an update is refused zone=z.example. key=none from=127.0.0.1 why=\"no rule allows it\" unsaid=0\n";
    assert!(read(&folder.0.join("log")).contains(refused));
    let counted = text(&folder.ctl(&["--json", "stats"]).stdout);
    for count in ["\"updates\":2,", "\"updates_unmet\":1,", "\"updates_refused\":2,", "\"updates_failed\":0,"] {
        assert!(counted.contains(count), "{count} {counted}");
    }
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
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
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
}

#[test]
fn a_signed_zone_of_updates_does_not_go_back() {
    let folder = folder();
    let key =
        "@ DNSKEY 257 3 13 wMRjELoSFVEi9l4Q6bUseAiNPfzrZnyKFeVkDx+E31gXetoW099xT6B4OcicxdabF3d/Y+Ap7DaQgVzq3sEeog==\n";
    folder.write("z.zone", &format!("{ZONE}{key}"));
    let server = serve(&folder);
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

#[test]
fn who_may_not_is_told_so_and_changes_nothing() {
    let folder = folder();
    let server = serve(&folder);
    let add = "zone z.example\nadd new.z.example 60 A 192.0.2.9";
    for (key, lines, expect) in [
        ("", add, "update failed: REFUSED"),
        ("hmac-sha256:unknown", add, "update failed: NOTAUTH(BADKEY)"),
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
    assert_eq!(update(&server, &[], "hmac-sha512:acme", challenge), "");
    assert_eq!(server.short(&folder, &["_acme-challenge.www.z.example", "TXT"]), "\"token\"\n");
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 8 1 2 3 4"));
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
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
    for (name, expect) in [("n0", "192.0.2.0\n"), ("n1", ""), ("n2", "192.0.2.2\n"), ("www", "192.0.2.31\n")] {
        assert_eq!(server.short(&folder, &[&format!("{name}.z.example"), "A"]), expect, "{name}");
    }
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
    let line = "zone z.example\nadd sub.z.example 60 DS 7 13 2 0123456789012345678901234567890123456789012345678901234567890123";
    assert_eq!(update(&server, &[], DDNS, line), "");
    assert!(server.short(&folder, &["sub.z.example", "DS"]).starts_with("7 13 2 "));
    let line = "zone z.example\nadd sub.z.example 60 NS ns.sub.z.example\nadd ns.sub.z.example 60 A 192.0.2.9";
    assert_eq!(update(&server, &[], DDNS, line), "");
    assert_eq!(server.short(&folder, &["ns.sub.z.example", "A"]), "192.0.2.53\n", "the zone below has the say");
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
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
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
    let many: String = (0..=100_000).map(|i| format!("n{i}.many A 192.0.2.2\n")).collect();
    folder.write("z.zone", &format!("{ZONE}{many}"));
    let server = serve(&folder);
    let changes = [("add many.z.example 60 NS ns.other.example.", ""), ("del many.z.example NS", "192.0.2.2\n")];
    for (change, expect) in changes {
        let is_written = || read(&folder.0.join("z.zone")).contains("many.z.example. 60 IN NS") == expect.is_empty();
        assert_eq!(update(&server, &["-v"], DDNS, &format!("zone z.example\n{change}")), "");
        assert_eq!(server.short(&folder, &["n7.many.z.example", "A"]), expect);
        eventually("the file", is_written);
    }
    assert_eq!(read(&folder.0.join("log")).matches("takes a new image").count(), changes.len());
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
    let spoilt = [good.replace("www.z.example. 300 IN A 192.0.2.1\n", ""), good.replace("; dunlin, position 0\n", "")];
    for text in spoilt {
        assert_ne!(text, good);
        folder.write(file, &text);
        let server = serve(&folder);
        assert!(read(&folder.0.join("log")).contains("a zone lacks its last updates"));
        assert_eq!(server.short(&folder, &["www.other.example", "A"]), "");
        assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 7 1 2 3 4"), "as its file has it");
        assert!(change(&server, "z.example", "add new.z.example 60 A 192.0.2.9").contains("REFUSED"));
        assert_eq!(change(&server, "other.example", "add new.other.example 60 A 192.0.2.9"), "");
        // The rules of the zone are there again, and nobody takes it on.
        folder.does(&["reload"]);
        assert!(change(&server, "z.example", "add new.z.example 60 A 192.0.2.9").contains("REFUSED"));
        server.signal("KILL");
        assert_eq!(read(&folder.0.join(file)), text, "what somebody may want to mend");
    }
    folder.write(file, &good);
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "", "the update of the beginning");
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 8 1 2 3 4"));
    assert_eq!(change(&server, "z.example", "add new.z.example 60 A 192.0.2.9"), "");
}

/// Its file may hold more than the image that is served: what follows is no change of what is there.
#[test]
fn a_zone_whose_own_file_cannot_be_read_is_served_as_it_was_and_takes_no_updates_until_it_can() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\ndel www.z.example A"), "");
    server.signal("KILL");
    drop(server);
    let file = "data/journal/z.example.zone";
    // As a fold has left it that wrote the file, and came to no image.
    let mended = read(&folder.0.join(file))
        .replace("; dunlin, position 0\n", "; dunlin, position 1\n")
        .replace("www.z.example. 300 IN A 192.0.2.1\n", "")
        .replace(" 7 1 2 3 4", " 8 1 2 3 4");
    let spoilt = format!("{mended}what?\n");
    folder.write(file, &spoilt);
    let server = serve(&folder);
    assert!(read(&folder.0.join("log")).contains("a zone lacks its last updates"));
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 7 1 2 3 4"));
    let refused = update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9");
    assert!(refused.contains("REFUSED"), "{refused}");
    server.signal("KILL");
    drop(server);
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
    folder.write(file, &read(&folder.0.join(file)).replace("; dunlin, position 0\n", "; dunlin, position 999\n"));
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
    assert!(server.short(&folder, &["z.example", "SOA"]).contains(" 8 1 2 3 4"));
    drop(server);
    // The rules come with a reload.
    let kept = read(&folder.0.join(file));
    let number = kept.lines().next().unwrap().to_string();
    folder.write(file, &kept.replace(&number, "; dunlin, position 999"));
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

/// The zone leaves the configuration before its changes are in any file.
#[test]
fn a_zone_that_goes_just_after_an_update_comes_back_with_it() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    let z = CONFIGURATION.find("[[zone]]").unwrap()..CONFIGURATION.rfind("[[zone]]").unwrap();
    folder.configure(&CONFIGURATION.replace(&CONFIGURATION[z], ""));
    folder.does(&["reload"]);
    let kept = read(&folder.0.join("data/journal/z.example.zone"));
    assert!(kept.contains("new.z.example. 60 IN A 192.0.2.9"), "{kept}");
    folder.configure(CONFIGURATION);
    folder.does(&["reload"]);
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
        folder.does(&["reload"]);
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
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
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
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["n2.fixed.example", "A"]), "192.0.2.2\n");
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
}

#[test]
fn the_first_zone_that_takes_updates_may_come_with_a_reload() {
    let folder = folder();
    let none = |line: &&str| !line.starts_with("allow-update");
    folder.configure(&CONFIGURATION.lines().filter(none).collect::<Vec<_>>().join("\n"));
    let server = serve(&folder);
    let add = |i: u8| format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}");
    assert!(update(&server, &[], DDNS, &add(1)).contains("REFUSED"));
    assert!(!folder.0.join("data/journal").exists(), "and nothing is made for nobody");
    folder.configure(CONFIGURATION);
    folder.does(&["reload"]);
    eventually("the zone takes updates", || update(&server, &[], DDNS, &add(2)).is_empty());
    assert_eq!(server.short(&folder, &["n2.z.example", "A"]), "192.0.2.2\n");
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
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
    server.signal("KILL");
    drop(server);
    let server = serve(&folder);
    for n in [0, 1000] {
        assert_eq!(server.short(&folder, &[&format!("n.z{n}.example"), "A"]), "192.0.2.2\n");
        let add = format!("zone z{n}.example\nadd m.z{n}.example 60 A 192.0.2.3");
        eventually("the zone takes updates", || update(&server, &[], DDNS, &add).is_empty());
    }
}

#[test]
fn certbot_and_external_dns_get_what_they_ask_for() {
    let folder = folder();
    let server = serve(&folder);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/updaters.py");
    let output = peers::command("python3").args([script, &server.address.port().to_string(), KEY]).output();
    let output = output.unwrap();
    assert_eq!(text(&output.stdout), "all taken\n", "{}", text(&output.stderr));
}

#[test]
fn a_check_of_a_zone_whose_file_is_gone_says_what_the_server_does() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    std::fs::rename(folder.0.join("z.zone"), folder.0.join("other.zone")).unwrap();
    let written = read(&folder.0.join("dunlin.toml"));
    folder.write(
        "dunlin.toml",
        &written
            .replace("name = \"fixed.example\"\nfile = \"z.zone\"", "name = \"fixed.example\"\nfile = \"other.zone\""),
    );
    let check = folder.dunlin(&["check", "-c", "dunlin.toml"]);
    let said = text(&check.stdout);
    assert!(check.status.success(), "{said}{}", text(&check.stderr));
    assert!(
        said.starts_with("warning: z.zone is not there; zone z.example. is as its updates have left it\n"),
        "{said}"
    );
    folder.does(&["reload"]);
    server.signal("KILL");
    server.ended();
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
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
            for entry in std::fs::read_dir(folder.0.join("data/journal")).unwrap().map(Result::unwrap) {
                if entry.file_name().to_str().unwrap().starts_with("z.example.") {
                    std::fs::remove_file(entry.path()).unwrap();
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
    server.signal("KILL");
    server.ended();
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["old.z.example", "A"]), "");
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.7\n");
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

/// Rounds of killing; DUNLIN_KILLS says how many. In every second one all that was not synced is gone.
#[test]
fn what_was_acknowledged_outlives_kills_under_load() {
    let kills = std::env::var("DUNLIN_KILLS").unwrap_or_else(|_| "8".to_string());
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
