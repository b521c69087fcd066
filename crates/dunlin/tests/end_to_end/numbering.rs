//! Files that are edited without a new serial.

use crate::owners::{configured, serial};
use crate::running::{Folder, Server, eventually, read, text};
use crate::updates::{CONFIGURATION, DDNS, ZONE, folder, serve, update};
use std::fs;

struct Stage {
    folder: Folder,
    server: Option<Server>,
}

impl Stage {
    fn new(numbering: &str) -> Stage {
        let folder = Folder::new();
        let zone = format!("[[zone]]\nname = \"z.example\"\nfile = \"z\"\n{numbering}");
        folder.configure(&zone);
        let mut stage = Stage { folder, server: None };
        stage.write(7, "a A 192.0.2.1\n");
        stage.start();
        stage
    }

    fn start(&mut self) {
        self.server = Some(Server::start(&self.folder, &["-c", "dunlin.toml"]));
    }

    fn write(&self, serial: u32, rest: &str) {
        self.folder.write("z", &format!("$TTL 60\n@ SOA ns host {serial} 1 2 3 4\n@ NS ns\nns A 192.0.2.53\n{rest}"));
    }

    /// Serves another text.
    fn edit(&self, serial: u32, rest: &str) {
        self.write(serial, rest);
        self.folder.does(&["reload", "z.example"]);
    }

    fn ctl(&self, words: &[&str]) -> String {
        text(&self.folder.ctl(&[&["--json"], words].concat()).stdout)
    }

    fn short(&self, words: &[&str]) -> String {
        self.server.as_ref().unwrap().short(&self.folder, words)
    }

    fn serial(&self) -> u64 {
        self.short(&["z.example", "SOA"]).split(' ').nth(2).unwrap().parse().unwrap()
    }
}

#[test]
fn an_edit_without_a_new_serial_is_told_of() {
    let mut stage = Stage::new("");
    stage.edit(7, "a A 192.0.2.2\n");
    assert_eq!((stage.serial(), stage.short(&["a.z.example"])), (7, "192.0.2.2\n".to_string()));
    eventually("the list", || stage.ctl(&["status"]).contains("\"same_serial\":[\"z.example.\"]"));
    let log = || read(&stage.folder.0.join("log"));
    eventually("a line of the log", || log().contains("a zone was edited without a new serial"));
    stage.edit(8, "a A 192.0.2.3\n");
    eventually("an empty list", || stage.ctl(&["status"]).contains("\"same_serial\":[]"));
    // While nobody looks; and so that all is built anew.
    let before = stage.server.take().unwrap();
    before.signal("TERM");
    before.ended();
    stage.write(8, "a A 192.0.2.4\n");
    stage.start();
    eventually("the list", || stage.ctl(&["status"]).contains("\"same_serial\":[\"z.example.\"]"));
    assert!(stage.ctl(&["zone", "log", "z.example"]).contains("\"serial\":8,\"before\":8,"));
}

#[test]
fn an_edit_without_a_new_serial_is_given_one() {
    let mut stage = Stage::new("serial = \"increment\"\n");
    assert_eq!(stage.serial(), 7);
    stage.edit(7, "a A 192.0.2.2\n");
    assert_eq!(stage.serial(), 8);
    // The file's own, which is not newer.
    stage.edit(8, "a A 192.0.2.3\n");
    assert_eq!((stage.serial(), stage.short(&["a.z.example"])), (9, "192.0.2.3\n".to_string()));
    let lines = |words: &[&str]| stage.ctl(words).matches(" IN ").count();
    eventually("the history", || lines(&["zone", "diff", "z.example", "7", "9"]) == 4);
    assert_eq!(lines(&["zone", "diff", "z.example"]), 0, "{}", stage.ctl(&["zone", "diff", "z.example"]));
    // Touched, and no more.
    stage.edit(8, "a A 192.0.2.3\n");
    assert_eq!(stage.serial(), 9);
    // What lay over the image is not in it; the serial does not go back for that.
    stage.server.take().unwrap().signal("KILL");
    stage.write(8, "a A 192.0.2.4\n");
    stage.start();
    assert_eq!((stage.serial(), stage.short(&["a.z.example"])), (10, "192.0.2.4\n".to_string()));
    // Nor for an image that is gone: what it held nobody knows.
    for (serial, address) in [(11, "192.0.2.4"), (12, "192.0.2.6")] {
        stage.server.take().unwrap().signal("KILL");
        fs::remove_file(stage.folder.0.join("data/images/zones.image")).unwrap();
        stage.write(8, &format!("a A {address}\n"));
        stage.start();
        assert_eq!((stage.serial(), stage.short(&["a.z.example"])), (serial, format!("{address}\n")));
    }
    stage.edit(20, "a A 192.0.2.5\n");
    assert_eq!(stage.serial(), 20);
    assert!(stage.ctl(&["status"]).contains("\"same_serial\":[]"));
    assert!(stage.ctl(&["zone", "rollback", "z.example", "12"]).contains("\"ok\":true"));
    assert_eq!((stage.serial(), stage.short(&["a.z.example"])), (21, "192.0.2.6\n".to_string()));
    assert!(read(&stage.folder.0.join("z")).contains(" 21 1 2 3 4"));
}

#[test]
fn serials_are_seconds_or_stay_where_they_are_signed() {
    let stage = Stage::new("serial = \"unixtime\"\n");
    stage.edit(7, "a A 192.0.2.2\n");
    assert!(stage.serial() > 1_700_000_000);
    let before = stage.serial();
    stage.edit(7, "a A 192.0.2.3\n");
    assert!(stage.serial() > before, "two in a second");
    let serial = stage.serial() as u32 + 100;
    let digest = |octet: &str| format!("@ ZONEMD 1 1 241 {}\n", octet.repeat(12));
    stage.edit(serial, &digest("00"));
    stage.edit(serial, &digest("01"));
    assert_eq!(stage.serial(), u64::from(serial));
    eventually("the list", || stage.ctl(&["status"]).contains("\"same_serial\":[\"z.example.\"]"));
}

fn hosts(n: u32) -> String {
    (0..n).map(|i| format!("h{i} A 192.0.2.{i}\n")).collect()
}

/// What was served stays so over a start that finds an older image, though a guard would have something to say of all of it together.
#[test]
fn what_was_served_step_by_step_is_served_by_a_start_whatever_the_serials() {
    for (numbering, serials, served) in [
        ("", [7, 7, 7], 7),
        ("", [7, 7, 8], 8),
        ("serial = \"increment\"\n", [7, 7, 7], 9),
        ("serial = \"increment\"\n", [7, 8, 8], 9),
    ] {
        let mut stage = Stage::new(numbering);
        stage.write(serials[0], &hosts(20));
        stage.folder.does(&["zone", "publish", "--force", "z.example"]);
        let first = stage.serial();
        for (serial, n) in [(serials[1], 12), (serials[2], 7)] {
            stage.edit(serial, &hosts(n));
            assert_eq!(stage.short(&[&format!("h{n}.z.example")]), "");
        }
        let last = stage.serial();
        assert!(last >= first && last >= served, "{last}");
        for how in ["KILL", "TERM"] {
            let server = stage.server.take().unwrap();
            server.signal(how);
            server.ended();
            stage.start();
            assert_eq!(stage.serial(), last, "{numbering}{serials:?} {how}");
            assert_eq!(stage.short(&["h6.z.example"]), "192.0.2.6\n");
            assert_eq!(stage.short(&["h7.z.example"]), "");
            assert!(stage.ctl(&["status"]).contains("\"held\":[]"), "{}", stage.ctl(&["status"]));
        }
    }
}

#[test]
fn a_rollback_of_a_zone_whose_serials_are_given_outlives_a_start() {
    let mut stage = Stage::new("serial = \"increment\"\n");
    stage.edit(7, &hosts(33));
    assert_eq!(stage.serial(), 8);
    stage.folder.does(&["zone", "rollback", "z.example", "7"]);
    assert_eq!((stage.serial(), stage.short(&["h1.z.example"])), (9, String::new()));
    let server = stage.server.take().unwrap();
    server.signal("TERM");
    server.ended();
    stage.start();
    assert_eq!((stage.serial(), stage.short(&["h1.z.example"])), (9, String::new()));
    assert!(stage.ctl(&["status"]).contains("\"held\":[]"), "{}", stage.ctl(&["status"]));
    stage.folder.does(&["zone", "rollback", "z.example", "8"]);
    assert_eq!((stage.serial(), stage.short(&["h1.z.example"])), (10, "192.0.2.1\n".to_string()));
}

/// Which serial a version has decides whether it is held.
#[test]
fn a_serial_is_given_or_not_as_a_reload_says() {
    let mut stage = Stage::new("");
    let configured = |numbering: &str| format!("[[zone]]\nname = \"z.example\"\nfile = \"z\"\n{numbering}");
    stage.write(5, "a A 192.0.2.2\n");
    stage.folder.refuses(&["reload"], "the serial 5 does not follow 7");
    // It is held by an image, too, not only over one.
    stage.folder.does(&["zone", "publish", "--force", "z.example"]);
    stage.write(4, "a A 192.0.2.3\n");
    stage.folder.refuses(&["reload"], "the serial 4 does not follow 5");
    stage.folder.configure(&configured("serial = \"increment\"\n"));
    stage.folder.does(&["reload"]);
    assert_eq!((stage.serial(), stage.short(&["a.z.example"])), (6, "192.0.2.3\n".to_string()));
    stage.folder.configure(&configured(""));
    stage.folder.refuses(&["reload"], "the serial 4 does not follow 6");
    assert_eq!((stage.serial(), stage.short(&["a.z.example"])), (6, "192.0.2.3\n".to_string()));
    let before = stage.server.take().unwrap();
    before.signal("TERM");
    before.ended();
    stage.folder.configure(&configured("serial = \"increment\"\n"));
    stage.start();
    assert!(stage.ctl(&["status"]).contains("\"held\":[]"), "{}", stage.ctl(&["status"]));
    assert_eq!(stage.short(&["a.z.example"]), "192.0.2.3\n");
}

/// Its file says an older serial than was served.
#[test]
fn a_zone_that_was_given_its_serials_goes_on_from_them_with_its_updates() {
    goes_on_from_the_serials_it_was_given(&["reload"], true);
}

/// The other zone of that file is to be read by the start: then all are.
#[test]
fn a_zone_that_was_given_its_serials_goes_on_from_them_where_a_start_reads_all() {
    goes_on_from_the_serials_it_was_given(&["reload", "z.example"], true);
}

#[test]
fn a_zone_that_was_given_its_serials_goes_on_from_them_though_no_image_has_them() {
    goes_on_from_the_serials_it_was_given(&["reload", "z.example"], false);
}

fn goes_on_from_the_serials_it_was_given(reload: &[&str], is_in_image: bool) {
    let folder = folder();
    folder.configure(&configured("serial = \"increment\""));
    let server = serve(&folder);
    for address in 3..6 {
        folder.write("z.zone", &ZONE.replace("192.0.2.1\n", &format!("192.0.2.{address}\n")));
        folder.does(reload);
    }
    let last = serial(&folder, &server);
    assert_eq!(last, 10);
    let image = || fs::metadata(folder.0.join("data/images/zones.image")).unwrap().modified().unwrap();
    let before = image();
    if is_in_image {
        eventually("an image of it", || image() > before);
    }
    server.killed();
    assert!(is_in_image || image() == before);
    folder.configure(CONFIGURATION);
    let server = serve(&folder);
    assert!(serial(&folder, &server) >= last, "{}", serial(&folder, &server));
    let new = || update(&server, &[], DDNS, "zone z.example\nadd new.z.example 60 A 192.0.2.9").is_empty();
    eventually("updates", new);
    assert!(serial(&folder, &server) > last, "{}", serial(&folder, &server));
    assert_eq!(server.short(&folder, &["www.z.example", "A"]), "192.0.2.5\n");
}

/// All of it comes with one reload: whose it is now, that nothing gives it serials any more, and another file.
#[test]
fn a_zone_that_was_given_its_serials_goes_on_from_them_though_its_file_is_another_at_once() {
    let folder = folder();
    folder.configure(&configured("serial = \"increment\""));
    let server = serve(&folder);
    for address in 3..6 {
        folder.write("z.zone", &ZONE.replace("192.0.2.1\n", &format!("192.0.2.{address}\n")));
        folder.does(&["reload"]);
    }
    assert_eq!(serial(&folder, &server), 10);
    folder.configure(CONFIGURATION);
    folder.write("z.zone", &ZONE.replace("192.0.2.1\n", "192.0.2.5\n"));
    folder.does(&["reload"]);
    assert!(serial(&folder, &server) >= 10, "{}", folder.does(&["zone", "log", "z.example"]));
    eventually("updates", || update(&server, &[], DDNS, "zone z.example\nadd n.z.example 60 A 192.0.2.9").is_empty());
    assert!(serial(&folder, &server) > 10);
}
