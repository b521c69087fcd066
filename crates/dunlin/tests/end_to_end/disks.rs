//! Files and folders that are no such, for others' eyes, or somebody else's.

use crate::running::{self, DIRECTORY, Folder, Server, at_home, command, eventually, read, text};
use crate::updates::{CONFIGURATION, DDNS, ZONE, add, after_a_kill, folder, has, serve, update};
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::process::Command;

/// What nobody writes to is never opened.
#[test]
fn a_pipe_in_the_place_of_a_zones_file_is_waited_for_by_nobody() {
    let folder = folder();
    let pipe = |name: &str| {
        assert!(Command::new("mkfifo").arg(folder.0.join("pipe")).status().unwrap().success());
        fs::rename(folder.0.join("pipe"), folder.0.join(name)).unwrap();
    };
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}\"\n");
    folder.configure(&format!("{}{}{}", CONFIGURATION, zone("live.example"), zone("down.example")));
    folder.write("live.example", ZONE);
    pipe("down.example");
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["www.live.example", "A"]), "192.0.2.1\n");
    for name in ["z.zone", "live.example"] {
        pipe(name);
    }
    for name in ["live.example", "down.example", "fixed.example"] {
        folder.refuses(&["reload", name], "it is no file");
    }
    let is_said =
        |line: &str| line.contains("z.example") && line.contains("not taken") && line.contains("it is no file");
    eventually("the edit that is none", || {
        folder.refuses(&["reload"], "it is no file");
        read(&folder.0.join("log")).lines().any(is_said)
    });
    // Served as they were, and what comes later goes on.
    assert_eq!(server.short(&folder, &["www.live.example", "A"]), "192.0.2.1\n");
    assert_eq!(add(&server, 1), "");
    fs::remove_file(folder.0.join("down.example")).unwrap();
    folder.write("down.example", ZONE);
    folder.does(&["reload", "down.example"]);
    assert_eq!(server.short(&folder, &["www.down.example", "A"]), "192.0.2.1\n");
}

#[test]
fn a_data_folder_has_one_server_at_a_time() {
    let folder = folder();
    let server = serve(&folder);
    let mut other = command(&folder.0);
    other.args(["serve", "-c", "other.toml"]);
    let path = folder.0.join("other.toml");
    fs::write(path, read(&folder.0.join("dunlin.toml")).replace("socket = \"", "socket = \"other-")).unwrap();
    let refused = other.output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("the data folder data is that of a server which runs"), "{said}");
    assert_eq!(add(&server, 1), "");
    let server = after_a_kill(server, &folder);
    assert!(has(&folder, &server, 1));
}

#[test]
fn a_zone_of_updates_that_is_compiled_is_as_they_have_left_it() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(add(&server, 1), "");
    eventually("it is folded in", || folder.0.join("data/journal/released").exists());
    server.signal("TERM");
    server.ended();
    let compile = folder.dunlin(&["compile", "-c", "dunlin.toml"]);
    assert_eq!(compile.status.code(), Some(0), "{}", text(&compile.stdout));
    assert!(has(&folder, &serve(&folder), 1));
}

/// As archives are unpacked in which all files have one time.
#[test]
fn another_file_of_the_same_size_and_time_is_an_edit() {
    let folder = folder();
    folder.configure(
        &CONFIGURATION
            .replacen("file = \"z.zone\"\n", "file = \"z.zone\"\nwrite-back = \"1s\"\n", 1)
            .replace("name = \"fixed.example\"\nfile = \"z.zone\"", "name = \"fixed.example\"\nfile = \"fixed.zone\""),
    );
    folder.write("fixed.zone", ZONE);
    let (file, new) = (folder.0.join("z.zone"), folder.0.join("new"));
    let replace = |from: &str, to: &str| {
        fs::write(&new, read(&file).replace(from, to)).unwrap();
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        fs::File::open(&new).unwrap().set_modified(time).unwrap();
        fs::rename(&new, &file).unwrap();
    };
    let server = serve(&folder);
    // It lies in no folder that is watched.
    let comes = |what: &str, address: &str| {
        eventually(what, || {
            folder.does(&["reload"]);
            server.short(&folder, &["www.z.example", "A"]) == format!("{address}\n")
        });
    };
    replace("192.0.2.1\n", "192.0.2.8\n");
    comes("the edit of what was read", "192.0.2.8");
    assert_eq!(add(&server, 1), "");
    eventually("what is written back", || read(&file).contains("n1"));
    replace("192.0.2.8\n", "192.0.2.9\n");
    comes("the edit of what was written", "192.0.2.9");
    assert!(has(&folder, &server, 1));
}

/// As on a disk that has become read-only: who is told, and when zones were refreshed, are no reason not to answer.
#[test]
fn a_start_answers_though_it_can_write_down_nothing_of_other_servers() {
    let folder = folder();
    let mut server = serve(&folder);
    server.signal("KILL");
    server.wait();
    let secondaries = folder.0.join("data/secondaries");
    fs::remove_dir_all(&secondaries).unwrap();
    fs::write(&secondaries, "").unwrap();
    let server = serve(&folder);
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "192.0.2.1\n");
    assert!(read(&folder.0.join("log")).contains("it is not written down when a zone was refreshed"));
}

#[test]
fn a_check_of_a_zone_whose_file_is_gone_says_what_the_server_does() {
    let folder = folder();
    let server = serve(&folder);
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9"), "");
    fs::rename(folder.0.join("z.zone"), folder.0.join("other.zone")).unwrap();
    let written = read(&folder.0.join("dunlin.toml"));
    folder.write(
        "dunlin.toml",
        &written
            .replace("name = \"fixed.example\"\nfile = \"z.zone\"", "name = \"fixed.example\"\nfile = \"other.zone\""),
    );
    let check = folder.dunlin(&["check", "-c", "dunlin.toml"]);
    let said = text(&check.stdout);
    assert!(check.status.success(), "{said}{}", text(&check.stderr));
    assert!(said.contains("warning: z.zone is not there; zone z.example. is as its updates have left it\n"), "{said}");
    folder.does(&["reload"]);
    let server = after_a_kill(server, &folder);
    assert_eq!(server.short(&folder, &["new.z.example", "A"]), "192.0.2.9\n");
}

/// Zone files may be for few eyes.
#[test]
fn what_is_written_is_not_for_others_to_read_whatever_the_umask() {
    let folder = folder();
    folder.configure(&format!("[zones]\nlist = \"list\"\n{CONFIGURATION}"));
    folder.write("list", "listed.example z.zone\n");
    let with_none = |what: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask 0; exec \"$0\" {what} -c dunlin.toml"), env!("CARGO_BIN_EXE_dunlin")]);
        at_home(&folder.0, command)
    };
    // Whichever makes the folder.
    assert!(with_none("compile").status().unwrap().success());
    let server = Server::start_as(&folder, with_none("serve"));
    folder.write("z.zone", &ZONE.replace(" 7 ", " 9 "));
    folder.does(&["reload", "listed.example"]);
    folder.does(&["zone", "add", "more.example", "z.zone"]);
    eventually("an update", || add(&server, 9).is_empty());
    let (mut paths, mut seen) = (vec![folder.0.join("data"), folder.0.join("control.sock")], 0);
    while let Some(path) = paths.pop() {
        let is = fs::symlink_metadata(&path).unwrap();
        let (mode, socket) = (is.permissions().mode() & 0o777, is.file_type().is_socket());
        assert_eq!(mode & if socket { 0o007 } else { 0o027 }, 0, "{mode:o} {}", path.display());
        if is.is_dir() {
            paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}

/// Nobody writes into the pipe, and the device has no end: neither is waited for for ever.
#[test]
fn what_is_no_file_in_the_place_of_a_list_or_the_configuration_changes_nothing() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", running::ZONE);
    let list = folder.write("list", "example.com zones/example.com.zone\n");
    let file = folder.configure("[zones]\nlist = \"list\"\n");
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    for path in [list, file] {
        let away = path.with_extension("away");
        fs::rename(&path, &away).unwrap();
        let others = [(&["mkfifo"][..], "did not come within 10s"), (&["ln", "-s", "/dev/zero"], "it is no file")];
        for (program, why) in others {
            assert!(Command::new(program[0]).args(&program[1..]).arg(&path).status().unwrap().success());
            folder.refuses(&["reload"], why);
            fs::remove_file(&path).unwrap();
        }
        fs::rename(&away, &path).unwrap();
        folder.does(&["reload"]);
    }
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
}

/// Of which nobody reads all.
#[test]
fn a_zone_file_that_is_one_hole_costs_no_other_zone_anything() {
    let folder = Folder::new();
    folder.write("zones/example.com.zone", running::ZONE);
    fs::File::create(folder.0.join("zones/hole.example.zone")).unwrap().set_len(1 << 38).unwrap();
    let file = folder.configure(DIRECTORY);
    let server = Server::start(&folder, &["-c", file.to_str().unwrap()]);
    assert_eq!(server.short(&folder, &["www.example.com"]), "192.0.2.2\n");
    folder.refuses(&["reload"], "no line ends in 1048576 octets");
}
