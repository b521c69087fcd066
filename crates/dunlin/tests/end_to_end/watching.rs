//! A folder of zones is watched: what is written, renamed or removed in it is served, or is not, without being asked for.

use crate::running::{DIRECTORY, Folder, Server, ZONE, eventually, read, text};
use std::os::unix::fs::MetadataExt;

const LISTEN: &[&str] = &["--zones", "zones", "--listen", "127.0.0.1:0"];

fn is_refused(folder: &Folder, server: &Server, name: &str) -> bool {
    text(&folder.dunlin(&["query", &format!("@{}", server.address), name]).stdout).contains("status: REFUSED")
}

#[test]
fn zone_files_that_change_appear_and_go_are_noticed() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", ZONE);
    let server = Server::start(&folder, LISTEN);
    let is = |name: &str, address: &str| {
        !is_refused(&folder, &server, name) && server.short(&folder, &[name]) == format!("{address}\n")
    };
    assert!(is("www.example.com", "192.0.2.2"));
    folder.write("zones/example.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    eventually("the changed zone", || is("www.example.com", "192.0.2.3"));
    // As careful editors do it.
    let new = folder.write("zones/.example.com.zone.new", &ZONE.replace("192.0.2.2", "192.0.2.4"));
    std::fs::rename(new, folder.0.join("zones/example.com.zone")).unwrap();
    eventually("the renamed file", || is("www.example.com", "192.0.2.4"));
    folder.write("zones/new.example.zone", ZONE);
    eventually("the new zone", || is("www.new.example", "192.0.2.2"));
    // A link appears, and is never written to.
    folder.write("available/one", ZONE);
    std::os::unix::fs::symlink("../available/one", folder.0.join("zones/linked.example.zone")).unwrap();
    eventually("the linked zone", || is("www.linked.example", "192.0.2.2"));
    std::fs::hard_link(folder.0.join("available/one"), folder.0.join("zones/hard.example.zone")).unwrap();
    eventually("the other link", || is("www.hard.example", "192.0.2.2"));
    std::fs::remove_file(folder.0.join("zones/new.example.zone")).unwrap();
    eventually("the zone gone", || is_refused(&folder, &server, "www.new.example"));
    assert!(is("www.example.com", "192.0.2.4"));
    folder.write("zones/example.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.5"));
    eventually("another change", || is("www.example.com", "192.0.2.5"));
    let log = read(&folder.0.join("log"));
    assert!(!log.contains("Z error "), "{log}");
}

#[test]
fn a_stray_file_keeps_no_zone_from_a_start() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", ZONE);
    folder.configure(DIRECTORY);
    let serve = || Server::start(&folder, &["-c", "dunlin.toml"]);
    let server = serve();
    server.signal("TERM");
    server.ended();
    // Before the zone's own, as names go.
    folder.write("zones/EXAMPLE.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    folder.write("zones/example..backup.zone", ZONE);
    folder.write("zones/new.example.zone", ZONE);
    let server = serve();
    let told = read(&folder.0.join("log"));
    for why in
        ["EXAMPLE.com.zone: error: another file here is of the same zone", "`example..backup` is no name of a zone"]
    {
        assert!(
            told.lines().any(|line| line.contains("a file in a folder of zones is left out") && line.contains(why)),
            "{told}"
        );
        folder.refuses(&["reload"], why.split(": error: ").last().unwrap());
    }
    assert_eq!(
        server.short(&folder, &["www.example.com"]),
        "192.0.2.2\n",
        "of two files it is the one that was served"
    );
    assert_eq!(server.short(&folder, &["www.new.example"]), "192.0.2.2\n");
    // Nor does it keep a reload from all else.
    folder.write("w.zone", ZONE);
    folder.configure(&format!("{DIRECTORY}[[zone]]\nname = \"w.example\"\nfile = \"w.zone\"\n"));
    folder.refuses(&["reload"], "`example..backup` is no name of a zone");
    assert_eq!(server.short(&folder, &["www.w.example"]), "192.0.2.2\n");
    for stray in ["EXAMPLE.com.zone", "example..backup.zone"] {
        std::fs::remove_file(folder.0.join("zones").join(stray)).unwrap();
    }
    folder.does(&["reload"]);
}

/// As Kubernetes mounts a ConfigMap: each file is a link through one link, and that changes.
#[test]
fn a_link_that_all_files_of_a_folder_lead_through_is_noticed() {
    let folder = Folder::new();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.0.join(name)).unwrap();
    for (version, address) in [("..1", "192.0.2.2"), ("..2", "192.0.2.3")] {
        folder.write(&format!("zones/{version}/example.com.zone"), &ZONE.replace("192.0.2.2", address));
    }
    link("..1", "zones/..data");
    link("..data/example.com.zone", "zones/example.com.zone");
    let server = Server::start(&folder, LISTEN);
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    link("..2", "zones/..data_tmp");
    std::fs::rename(folder.0.join("zones/..data_tmp"), folder.0.join("zones/..data")).unwrap();
    eventually("the other version", || server.short(&folder, &["www.example.com"]) == "192.0.2.3\n");
}

/// Whoever releases zones by a link to the folder of a version changes nothing in any folder of zones.
#[test]
fn a_link_to_the_folder_of_zones_that_leads_elsewhere_is_noticed() {
    let folder = Folder::new();
    for (version, address) in [("1", "192.0.2.2"), ("2", "192.0.2.3")] {
        folder.write(&format!("{version}/example.com.zone"), &ZONE.replace("192.0.2.2", address));
    }
    std::os::unix::fs::symlink("1", folder.0.join("zones")).unwrap();
    let server = Server::start(&folder, &[&["--zones", "zones/"], &LISTEN[2..]].concat());
    let is = |address: &str| server.short(&folder, &["www.example.com"]) == format!("{address}\n");
    assert!(is("192.0.2.2"));
    std::os::unix::fs::symlink("2", folder.0.join("new")).unwrap();
    std::fs::rename(folder.0.join("new"), folder.0.join("zones")).unwrap();
    eventually("the other version", || is("192.0.2.3"));
    folder.write("2/example.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.4"));
    eventually("what changes there", || is("192.0.2.4"));
}

/// What is included lies behind a link that is no folder of zones, nor in one.
#[test]
fn a_link_that_an_included_file_lies_behind_is_noticed() {
    for zones in ["zones", "./zones"] {
        let folder = Folder::new();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.0.join(name)).unwrap();
        for (version, address) in [("1", "192.0.2.7"), ("2", "192.0.2.8")] {
            folder.write(&format!("zones/parts/{version}/more"), &format!("more A {address}\n"));
        }
        folder.write("zones/example.com.zone", &format!("{ZONE}$INCLUDE parts/current/more\n"));
        link("1", "zones/parts/current");
        let server = Server::start(&folder, &[&["--zones", zones], &LISTEN[2..]].concat());
        let is = |address: &str| server.short(&folder, &["more.example.com"]) == format!("{address}\n");
        assert!(is("192.0.2.7"));
        for (version, address) in [("2", "192.0.2.8"), ("1", "192.0.2.7")] {
            link(version, "zones/parts/new");
            std::fs::rename(folder.0.join("zones/parts/new"), folder.0.join("zones/parts/current")).unwrap();
            eventually("the other version", || is(address));
        }
        folder.write("zones/parts/1/more", "more A 192.0.2.9\n");
        eventually("what changes there", || is("192.0.2.9"));
    }
}

/// Twenty are named.
#[test]
fn of_many_zones_that_one_file_changes_it_is_said_how_many_lack_a_new_serial() {
    let folder = Folder::new();
    folder.write("zones/more", "more A 192.0.2.7\n");
    for i in 0..25 {
        folder.write(&format!("zones/z{i}.example.zone"), &format!("{ZONE}$INCLUDE more\n"));
    }
    let server = Server::start(&folder, LISTEN);
    folder.write("zones/more", "more A 192.0.2.8\n");
    eventually("the last", || {
        (0..25).all(|i| server.short(&folder, &[&format!("more.z{i}.example")]) == "192.0.2.8\n")
    });
    let said = || read(&folder.0.join("log"));
    eventually("how many", || said().contains("more zones were edited without a new serial zones=5"));
    assert_eq!(said().matches("a zone was edited without a new serial").count(), 20);
}

#[test]
fn folders_that_come_back_are_watched_again() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", &format!("{ZONE}$INCLUDE parts/more\n"));
    folder.write("zones/parts/more", "more A 192.0.2.7\n");
    folder.configure(DIRECTORY);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let rename = |from: &str, to: &str| std::fs::rename(folder.0.join(from), folder.0.join(to)).unwrap();
    let mut address = 7;
    let mut is_watched = || {
        address += 1;
        folder.write("zones/parts/more", &format!("more A 192.0.2.{address}\n"));
        eventually("its edit", || server.short(&folder, &["more.example.com"]) == format!("192.0.2.{address}\n"));
    };
    is_watched();
    for (of, missed) in [("zones/parts", "more: No such file"), ("zones", "zones cannot be read")] {
        rename(of, "away");
        eventually("that it is missed", || read(&folder.0.join("log")).contains(missed));
        rename("away", of);
        // The first one may be read with all else when the folder is found.
        is_watched();
        is_watched();
    }
}

#[test]
fn what_a_zone_includes_is_watched_too() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", &format!("{ZONE}$INCLUDE parts/more\n"));
    folder.write("zones/parts/more", "more A 192.0.2.7\n");
    folder.configure(DIRECTORY);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    assert_eq!(server.short(&folder, &["more.example.com"]), "192.0.2.7\n");
    folder.write("zones/parts/more", "more A 192.0.2.8\n");
    eventually("the included file", || server.short(&folder, &["more.example.com"]) == "192.0.2.8\n");
    // Also what no image says yet: when one is made all files are read.
    let image = || std::fs::metadata(folder.0.join("data/images/zones.image")).unwrap().ino();
    let made = image();
    folder.write("zones/others/new", "new A 192.0.2.7\n");
    folder.write("zones/example.com.zone", &format!("{ZONE}$INCLUDE others/new\n"));
    eventually("another included file", || server.short(&folder, &["new.example.com"]) == "192.0.2.7\n");
    folder.write("zones/others/new", "new A 192.0.2.8\n");
    eventually("what it is now", || server.short(&folder, &["new.example.com"]) == "192.0.2.8\n");
    assert_eq!(image(), made, "on a machine that takes ten seconds for this it is not known who has noticed");
}

/// Nobody watches it before the first image says what its zone includes.
#[test]
fn what_is_included_and_edited_while_the_first_image_is_made_is_noticed() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", &format!("$INCLUDE parts/more\n{ZONE}"));
    folder.write_long_ago("zones/parts/more", "more.example.com. 60 A 192.0.2.7\n");
    folder.configure(DIRECTORY);
    let manifest = folder.0.join("data/images/zones.manifest");
    let server = std::thread::scope(|scope| {
        let server = scope.spawn(|| Server::start(&folder, &["-c", "dunlin.toml"]));
        while !manifest.exists() && !server.is_finished() {
            std::thread::yield_now();
        }
        folder.write_long_ago("zones/parts/more", "more.example.com. 60 A 192.0.2.8\n");
        server.join().unwrap()
    });
    eventually("the edit", || server.short(&folder, &["more.example.com"]) == "192.0.2.8\n");
}

/// The zone was there before its folder was one of zones, and nothing of it changes by that.
#[test]
fn what_a_zone_includes_is_watched_from_when_its_folder_is() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", &format!("{ZONE}$INCLUDE parts/more\n"));
    folder.write("zones/parts/more", "more A 192.0.2.7\n");
    folder.write("list", "example.com zones/example.com.zone\n");
    folder.configure("[zones]\nlist = \"list\"\n");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    folder.configure(DIRECTORY);
    folder.does(&["reload"]);
    folder.write("zones/parts/more", "more A 192.0.2.8\n");
    eventually("the included file", || server.short(&folder, &["more.example.com"]) == "192.0.2.8\n");
}

#[test]
fn a_file_whose_name_gets_other_capitals_stays_its_zones() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", ZONE);
    folder.configure(DIRECTORY);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let rename = |from: &str, to: &str| std::fs::rename(folder.0.join(from), folder.0.join(to)).unwrap();
    let is_read = |file: &str| {
        folder.write(file, &ZONE.replace("192.0.2.2", "192.0.2.3"));
        eventually("its edit", || server.short(&folder, &["www.example.com"]) == "192.0.2.3\n");
        folder.write(file, ZONE);
        eventually("and another", || server.short(&folder, &["www.example.com"]) == "192.0.2.2\n");
    };
    rename("zones/example.com.zone", "zones/Example.com.zone");
    is_read("zones/Example.com.zone");
    rename("zones/Example.com.zone", "zones/example.COM.zone");
    assert!(folder.does(&["reload", "example.com"]).contains("reload"));
    is_read("zones/example.COM.zone");
}

#[test]
fn a_zone_that_breaks_while_it_is_watched_goes_on_as_it_was() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", ZONE);
    let server = Server::start(&folder, LISTEN);
    folder.write("zones/example.com.zone", "@ SOA\n");
    eventually("the complaint", || read(&folder.0.join("log")).contains("zone=example.com."));
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    folder.write("zones/example.com.zone", &ZONE.replace("192.0.2.2", "192.0.2.3"));
    eventually("the mended zone", || server.short(&folder, &["www.example.com"]) == "192.0.2.3\n");
}

#[test]
fn many_folders_need_one_watch_each_and_files_need_none() {
    let folder = Folder::new();
    for i in 0..200 {
        folder.write(&format!("zones/z{i}.example.zone"), ZONE);
    }
    let server = Server::start(&folder, LISTEN);
    let fds = std::fs::read_dir(format!("/proc/{}/fdinfo", server.pid())).unwrap();
    let mut watches: Vec<usize> = fds
        .map(|fd| std::fs::read_to_string(fd.unwrap().path()).unwrap_or_default().matches("inotify wd:").count())
        .filter(|&watches| watches > 0)
        .collect();
    watches.sort_unstable();
    // Once the files have been looked at in the background, soon or by now, their folder is watched for reloads, too.
    assert!(
        matches!(watches[..], [3] | [1, 3]),
        "the folder of zones, that of zones kept by commands, and that of images: {watches:?}"
    );
}
