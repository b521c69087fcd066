//! Folders that the server may not enter for a while. It runs as nobody, for root may enter each.

use crate::running::{Folder, Server, eventually, read};
use crate::updates::{DDNS, KEY, ZONE, update};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const CONFIGURATION: &str = "[[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n[zones]\ndirectory = \"zones\"\n\
    [[zone]]\nname = \"z.example\"\nfile = \"own/z.zone\"\nallow-update = [\"key:ddns\"]\nwrite-back = \"1s\"\n";

fn staged() -> (Folder, Server) {
    let folder = Folder::new();
    folder.write("ddns.key", &format!("{KEY}\n"));
    ["zones/d.example.zone", "own/z.zone"].iter().for_each(|file| drop(folder.write(file, ZONE)));
    let file = folder.configure(CONFIGURATION);
    folder.write("dunlin.toml", &read(&file).replace("user = \"\"", "user = \"nobody\""));
    fs::create_dir(folder.0.join("data")).unwrap();
    // Of whoever is not root the server is, and all is his anyway.
    let _ = Command::new("chown").args(["-R", "nobody:"]).arg(&folder.0).status().unwrap();
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    (folder, server)
}

fn close(folder: &Folder, name: &str) {
    fs::set_permissions(folder.0.join(name), Permissions::from_mode(0o000)).unwrap();
}

fn open(folder: &Folder, name: &str) {
    fs::set_permissions(folder.0.join(name), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_zone_whose_folder_cannot_be_entered_is_served_on() {
    let (folder, server) = staged();
    let www = |zone: &str| server.short(&folder, &[&format!("www.{zone}"), "A"]);
    folder.does(&["zone", "add", "kept.example", "own/z.zone"]);
    close(&folder, "zones");
    folder.refuses(&["reload", "d.example"], "d.example.zone");
    folder.refuses(&["zone", "publish", "--force", "d.example"], "d.example.zone");
    assert_eq!(www("d.example"), "192.0.2.1\n");
    open(&folder, "zones");
    close(&folder, "data/kept");
    folder.refuses(&["zone", "modify", "kept.example", "add n 60 A 192.0.2.7"], "kept.example.zone");
    assert_eq!(www("kept.example"), "192.0.2.1\n");
    open(&folder, "data/kept");
    folder.does(&["zone", "modify", "kept.example", "add n 60 A 192.0.2.7"]);
    assert_eq!(server.short(&folder, &["n.kept.example", "A"]), "192.0.2.7\n");
    folder.does(&["reload"]);
    let log = read(&folder.0.join("log"));
    assert!(!log.contains("zones are served no more") && !log.contains("its history begins anew"), "{log}");
}

#[test]
fn what_is_to_be_written_back_while_a_folder_cannot_be_entered_is_written_then() {
    let (folder, server) = staged();
    let log = || read(&folder.0.join("log"));
    for (i, closed, named) in [(1, "data/journal", "data/journal/"), (2, "own", "own/z.zone: ")] {
        assert_eq!(update(&server, &[], DDNS, &format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}")), "");
        close(&folder, closed);
        let why = format!("a zone is not written back zone=z.example. why=\"{named}");
        eventually("a word of it", || log().contains(&why));
        open(&folder, closed);
        let file = folder.0.join("own/z.zone");
        eventually("what was changed", || read(&file).contains(&format!("192.0.2.{i}\n")));
        eventually("no trouble", || folder.does(&["status", "--json"]).contains("\"not_written_back\":[]"));
    }
}

#[test]
fn a_history_that_cannot_be_reached_is_not_an_empty_one() {
    let (folder, server) = staged();
    folder.write("zones/d.example.zone", &ZONE.replace(" 7 ", " 8 "));
    folder.does(&["reload", "d.example"]);
    for closed in ["data/history", "data"] {
        close(&folder, closed);
        for words in [&["zone", "log", "d.example"][..], &["zone", "rollback", "d.example", "7"]] {
            folder.refuses(words, "the history cannot be read: data/history");
        }
        open(&folder, closed);
    }
    assert!(folder.does(&["zone", "log", "d.example"]).contains("serial 8"));
    assert_eq!(server.short(&folder, &["www.d.example", "A"]), "192.0.2.1\n");
}

/// Nothing is wrong with the file: it is the same when it is taken in.
#[test]
fn an_edit_is_taken_in_once_the_history_of_its_zone_can_be_read_again() {
    let (folder, server) = staged();
    folder.write("zones/d.example.zone", &ZONE.replace(" 7 ", " 8 "));
    folder.does(&["reload", "d.example"]);
    let add = |n: u8| update(&server, &[], DDNS, &format!("zone z.example\nadd n{n}.z.example 60 A 192.0.2.{n}"));
    assert_eq!(add(8), "");
    let file = folder.0.join("own/z.zone");
    eventually("what was changed", || read(&file).contains("192.0.2.8\n"));
    let written = read(&file);
    assert_eq!(add(9), "");
    close(&folder, "data/history");
    folder.write("own/z.zone", &format!("{written}edited 60 A 192.0.2.7\n"));
    folder.refuses(&["reload", "z.example"], "the history cannot be read: data/history");
    open(&folder, "data/history");
    folder.does(&["reload", "z.example"]);
    let short = |name: &str| server.short(&folder, &[&format!("{name}.z.example"), "A"]);
    assert_eq!([short("edited"), short("n8"), short("n9")], ["192.0.2.7\n", "192.0.2.8\n", "192.0.2.9\n"]);
}

/// What its updates have made of it is in the journal alone, and stays there, whatever becomes of others.
#[test]
fn a_zone_that_its_updates_leave_while_no_image_can_be_made_is_as_they_made_it() {
    let (folder, mut server) = staged();
    let images = |mode| fs::set_permissions(folder.0.join("data/images"), Permissions::from_mode(mode)).unwrap();
    let both = read(&folder.0.join("dunlin.toml"));
    folder.write("own/y.zone", ZONE);
    let y = "[[zone]]\nname = \"y.example\"\nfile = \"own/y.zone\"\nallow-update = [\"key:ddns\"]\n";
    folder.write("dunlin.toml", &format!("{both}{y}"));
    folder.does(&["reload"]);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd n.z.example 60 A 192.0.2.9"), "");
    images(0o555);
    let rules = "allow-update = [\"key:ddns\"]\nwrite-back = \"1s\"\n";
    folder.write("dunlin.toml", &format!("{}{y}", both.replace(rules, "")));
    folder.refuses(&["reload"], "does not follow");
    eventually("a fold that fails", || read(&folder.0.join("log")).contains("no new image"));
    for i in 1..3 {
        server.killed();
        server = Server::start(&folder, &["-c", "dunlin.toml"]);
        assert_eq!(server.short(&folder, &["n.z.example", "A"]), "192.0.2.9\n", "{i}");
        // Whose file is written, after a while without changes, for an image that cannot be made.
        let add = format!("zone y.example\nadd n{i}.y.example 60 A 192.0.2.{i}");
        eventually("an update", || update(&server, &[], DDNS, &add).is_empty());
        let folds = || read(&folder.0.join("log")).matches("changes stay in the journal").count();
        eventually("a fold that fails", || folds() > 0);
    }
    server.killed();
    open(&folder, "data/images");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    assert_eq!(server.short(&folder, &["n.z.example", "A"]), "192.0.2.9\n");
}
