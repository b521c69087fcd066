//! A start of another version of the program than the one that ran before: it reads all files, and weighs them beside what was served last.

use crate::running::{Folder, Server, eventually, read, text};
use crate::updates::{DDNS, KEY, update};
use std::fs;

/// As if another version of the program had made the image.
pub fn by_another_version(folder: &Folder) {
    const PROGRAM_AT: usize = 24;
    const SUM_AT: usize = 128;
    let manifest = folder.0.join("data/images/zones.manifest");
    let mut octets = fs::read(&manifest).unwrap();
    assert!(octets[PROGRAM_AT..].starts_with(env!("CARGO_PKG_VERSION").as_bytes()));
    octets[PROGRAM_AT] ^= 1;
    let sum = wire::hash::siphash::<1, 3>(b"dunlin manifest.", &octets[..SUM_AT]);
    octets[SUM_AT..SUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
    fs::write(manifest, octets).unwrap();
}

fn zone(serial: u32, rest: &str) -> String {
    format!("$TTL 60\n@ SOA ns host {serial} 1 2 3 4\n@ NS ns\nns A 192.0.2.53\n{rest}")
}

#[test]
fn what_another_version_has_served_is_weighed_beside() {
    let folder = Folder::new();
    let configure = |of_left: &str| {
        let zones = ["numbered", "plain", "wrong", "fewer", "left"].map(|name| {
            let more = match name {
                "numbered" => "serial = \"increment\"\n",
                "left" => of_left,
                _ => "",
            };
            format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}.zone\"\n{more}")
        });
        folder.configure(&format!("[[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n{}", zones.concat()));
    };
    let write = |name: &str, serial, rest| folder.write(&format!("{name}.zone"), &zone(serial, rest));
    folder.write("ddns.key", &format!("{KEY}\n"));
    const OLD: &str = "a A 192.0.2.1\nb A 192.0.2.1\nc A 192.0.2.1\nd A 192.0.2.1\n";
    const NEW: &str = "a A 192.0.2.2\nb A 192.0.2.1\nc A 192.0.2.1\nd A 192.0.2.1\n";
    ["numbered", "plain", "wrong", "fewer", "left"].iter().for_each(|name| drop(write(name, 7, OLD)));
    configure("allow-update = [\"key:ddns\"]\n");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    assert_eq!(update(&server, &[], DDNS, "zone left\ndel a.left A\nadd a.left 60 A 192.0.2.9"), "");
    eventually("it is folded in", || folder.0.join("data/journal/released").exists());
    configure("");
    folder.refuses(&["reload"], "zone left");
    server.signal("TERM");
    server.ended();
    by_another_version(&folder);
    write("numbered", 7, NEW);
    write("plain", 7, NEW);
    write("wrong", 8, "a A 192.0.2.2\nb A nonsense\n");
    write("fewer", 8, "");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let is = |zone: &str| {
        let soa = server.short(&folder, &[zone, "SOA"]);
        let serial = soa.split(' ').nth(2).unwrap_or_default().to_string();
        (serial, server.short(&folder, &[&format!("a.{zone}")]).trim().to_string())
    };
    let log = || read(&folder.0.join("log"));
    for (zone, serial, address) in [
        ("numbered", "8", "192.0.2.2"),
        ("plain", "7", "192.0.2.2"),
        ("wrong", "7", "192.0.2.1"),
        ("fewer", "7", "192.0.2.1"),
        ("left", "8", "192.0.2.9"),
    ] {
        assert_eq!(is(zone), (serial.to_string(), address.to_string()), "{zone}\n{}", log());
    }
    eventually("a line of the log", || log().contains("a zone was edited without a new serial zone=plain."));
    let status = text(&folder.ctl(&["status", "--json"]).stdout);
    assert!(status.contains("\"same_serial\":[\"plain.\"]"), "{status}");
    for held in ["fewer", "left"] {
        folder.refuses(&["reload", held], "held: ");
    }
}

/// More zones than are compared before the first answer: they are answered for at once, and their files read meanwhile.
#[test]
fn a_large_server_answers_at_once_and_makes_its_image_anew() {
    let folder = Folder::new();
    let shared: String = (0..1_200).map(|i| format!("z{i}.example shared.zone\n")).collect();
    folder.write("zones.list", &format!("{shared}own.example own.zone\n"));
    folder.write("shared.zone", &zone(7, ""));
    folder.write("own.zone", &zone(7, "a A 192.0.2.1\n"));
    folder.configure("[zones]\nlist = \"zones.list\"\n");
    let start = || Server::start(&folder, &["-c", "dunlin.toml"]);
    let server = start();
    server.signal("TERM");
    server.ended();
    by_another_version(&folder);
    folder.write("own.zone", &zone(7, "a A 192.0.2.2\n"));
    let server = start();
    eventually("the edit", || server.short(&folder, &["a.own.example"]) == "192.0.2.2\n");
    let status = || text(&folder.ctl(&["status", "--json"]).stdout);
    eventually("the list", || status().contains("\"same_serial\":[\"own.example.\"]"));
    let manifest = fs::read(folder.0.join("data/images/zones.manifest")).unwrap();
    assert!(manifest[24..].starts_with(env!("CARGO_PKG_VERSION").as_bytes()), "the image is this version's");
}
