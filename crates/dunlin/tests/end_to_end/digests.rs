//! The digest of a zone that updates change (RFC 8976): made anew when nothing has changed for a moment.

use crate::running::{Server, eventually, read, text};
use crate::updates::{DDNS, update};
use crate::written_back::Stage;
use difference::peers;

/// The serial of the zone, if its digest is of it.
fn digested(stage: &Stage, server: &Server) -> Option<u32> {
    let words = |rtype: &str| server.short(&stage.folder, &["z.example", rtype]);
    let (soa, digest) = (words("SOA"), words("ZONEMD"));
    let serial = soa.split(' ').nth(2)?.parse().ok()?;
    (digest.lines().count() == 1 && digest.starts_with(&format!("{serial} 1 1 "))).then_some(serial)
}

/// Waits for a file with the digest of this serial, and has it checked by somebody else.
fn checked(stage: &Stage, serial: u32) {
    eventually("the file", || {
        stage.holds(&format!("ZONEMD {serial} 1 1 ")) && stage.holds(&format!(" {serial} 1 2 3 4"))
    });
    let copy = stage.folder.write("copy", &read(&stage.file));
    assert!(peers::command("kzonecheck").args(["-z", "-o", "z.example"]).arg(&copy).status().unwrap().success());
}

#[test]
fn a_digest_fits_again_after_updates_edits_and_going_back() {
    let stage = Stage::new("1s", 3);
    // One that never fitted is not the zone's fault.
    stage.edit(&(read(&stage.file) + &format!("@ 60 ZONEMD 6 1 2 {}\n", "00".repeat(64))));
    let server = stage.serve();
    eventually("the first digest", || digested(&stage, &server) == Some(8));
    checked(&stage, 8);
    // One update, and so one digest, whenever that is made.
    let three: String = (1..=3).map(|i| format!("\nadd n{i}.z.example 60 A 192.0.2.{i}")).collect();
    assert_eq!(update(&server, &[], DDNS, &format!("zone z.example{three}")), "");
    eventually("the digest after updates", || digested(&stage, &server) == Some(10));
    checked(&stage, 10);
    let log = stage.ctl(&["zone", "log", "z.example"]);
    assert_eq!(log.matches("server renewed the digest").count(), 2, "{log}");
    assert!(stage.ctl(&["zone", "rollback", "z.example", "8"]).contains("\"serial\":11"));
    assert_eq!(server.short(&stage.folder, &["n1.z.example"]), "");
    // What was to be done at a kill is done after the next start.
    server.killed();
    let server = stage.serve();
    eventually("the digest after going back", || digested(&stage, &server) == Some(12));
    checked(&stage, 12);
}

/// Also where its file, which was written just now, is looked at for itself.
#[test]
fn a_digest_that_was_to_be_made_at_a_kill_is_made_after_the_next_start() {
    let stage = Stage::new("", 3);
    let text = read(&stage.file) + &format!("@ 60 ZONEMD 6 1 1 {}\n", "00".repeat(48));
    stage.folder.write("zones/z.example.zone", &text);
    let server = stage.serve();
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd n1.z.example 60 A 192.0.2.1"), "");
    assert_eq!(digested(&stage, &server), None);
    server.killed();
    let server = stage.serve();
    eventually("the digest", || digested(&stage, &server).is_some());
}

/// Its chain says that there is one.
#[test]
fn an_edit_that_signs_a_zone_anew_brings_its_digest() {
    let stage = Stage::new("", 3);
    let folder = &stage.folder.0;
    let said = |command: &str, words: &[&str]| {
        let output = peers::command(command).args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let plain = format!("$ORIGIN z.example.\n{}", read(&stage.file));
    let key = said("ldns-keygen", &["-a", "ECDSAP256SHA256", "z.example"]);
    let signed = |serial: u32, rest: &str| {
        stage
            .folder
            .write("plain", &plain.replace(" 7 1 2 3 4", &format!(" {serial} 1 2 3 4")).replace("; a comment\n", rest));
        said("ldns-signzone", &["-z", "1:1", "-o", "z.example.", "-f", "signed", "plain", key.trim()]);
        read(&folder.join("signed"))
    };
    stage.edit(&signed(7, ""));
    let server = stage.serve();
    for serial in 8..10 {
        stage.edit(&signed(serial, &format!("new A 192.0.2.{serial}\n")));
        let is_in = || server.short(&stage.folder, &["new.z.example"]) == format!("192.0.2.{serial}\n");
        eventually(&format!("{serial}: {}", stage.log()), is_in);
        assert_eq!(digested(&stage, &server), Some(serial));
    }
    assert!(!stage.log().contains("is held"), "{}", stage.log());
}

/// A file that is written back between an update and the next digest has the one before.
#[test]
fn a_digest_that_an_edit_leaves_as_it_was_may_be_older_than_it() {
    let stage = Stage::new("", 1);
    let digest = |octet: &str| format!("@ 60 ZONEMD 6 1 1 {}\n", octet.repeat(48));
    let text = read(&stage.file);
    stage.edit(&(text.clone() + &digest("00")));
    // From a reload on, not from the start: nobody has read the file then.
    let configured = read(&stage.folder.0.join("dunlin.toml"));
    stage.folder.write("dunlin.toml", configured.split("[[zone]]").next().unwrap());
    let server = stage.serve();
    stage.folder.write("dunlin.toml", &configured);
    stage.folder.does(&["reload"]);
    eventually("an update", || {
        update(&server, &[], DDNS, "zone z.example\nadd n1.z.example 60 A 192.0.2.1").is_empty()
    });
    stage.edit(&(text.clone() + &digest("00") + "hand A 192.0.2.77\n"));
    eventually("the edit", || server.short(&stage.folder, &["hand.z.example"]) == "192.0.2.77\n");
    assert!(!stage.log().contains("is held"), "{}", stage.log());
    stage.edit(&(text + &digest("11") + "other A 192.0.2.78\n"));
    eventually("it is held", || stage.log().contains("an edit of a zone's file is held"));
    assert_eq!(server.short(&stage.folder, &["other.z.example"]), "");
}

/// It is as it was when somebody read of it, image for image.
#[test]
fn what_is_wrong_with_a_zone_of_updates_is_said_once() {
    let stage = Stage::new("", 1);
    stage.folder.write("zones/z.example.zone", &(read(&stage.file) + "sub NS ns.sub\n"));
    let server = stage.serve();
    let image = || std::fs::metadata(stage.folder.0.join("data/images/zones.image")).unwrap().modified().unwrap();
    let said = || stage.log().matches("a zone is served, and something in it is wrong").count();
    eventually("it is said", || said() == 1);
    for i in 1..3 {
        let before = image();
        assert_eq!(update(&server, &[], DDNS, &format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}")), "");
        eventually("a new image", || image() != before);
    }
    // What is said of an image is said before it is served.
    assert_eq!(update(&server, &[], DDNS, "zone z.example\nadd last.z.example 60 A 192.0.2.9"), "");
    let generations = || stage.log().matches("zones published").count();
    eventually("they are served", || generations() >= 2);
    assert_eq!(said(), 1, "{}", stage.log());
}
