//! A server of many zones: what its start and its reloads look at, and when. A list that is a pipe holds the comparison up
//! until somebody writes into it, so what is served before is known.

use crate::running::{Folder, Server, ZONE, eventually, read, text};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// More than are compared before the first answer.
const FEW: usize = 1_200;
/// So many that a list or a manifest that was read or copied would show, in an image that needs no copy for huge pages.
const MANY: usize = 20_000;

const CONFIG: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\ndata-dir = \"data\"\nuser = \"\"\nworkers = 1\n\
    [control]\nsocket = \"control.sock\"\nhttp = \"\"\n[zones]\nlist = \"zones.list\"\n";
const OWN: [&str; 4] = ["rewritten", "replaced", "longer", "including"];

/// A folder with so many zones of one file, and some with a file of their own.
struct Desk {
    folder: Folder,
    list: String,
}

impl Desk {
    fn new(many: usize) -> Desk {
        let shared = (0..many).map(|i| format!("zone-{i}.example shared.zone\n"));
        let own = OWN.map(|name| format!("{name}.example {name}.zone\n"));
        let desk = Desk { folder: Folder::new(), list: shared.chain(own).collect() };
        desk.folder.write("dunlin.toml", CONFIG);
        desk.settled("zones.list", &desk.list);
        desk.settled("shared.zone", ZONE);
        OWN.iter().for_each(|name| desk.settled(&format!("{name}.zone"), ZONE));
        desk.settled("including.zone", &format!("{ZONE}$INCLUDE more\n"));
        desk.settled("more", "more A 192.0.2.2\n");
        let compiled = desk.folder.dunlin(&["compile", "-c", "dunlin.toml"]);
        assert_eq!(compiled.status.code(), Some(0), "{}", text(&compiled.stderr));
        desk
    }

    /// Writes a file with the time that all files here have.
    fn settled(&self, name: &str, text: &str) {
        let file = self.folder.write(name, text);
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        File::options().append(true).open(file).unwrap().set_modified(old).unwrap();
    }

    /// Changes sources so that their times of writing tell nothing, nor but for one their sizes.
    fn change_behind_the_times(&self) {
        let changed = ZONE.replace("192.0.2.2", "192.0.2.3");
        self.settled("rewritten.zone", &changed);
        self.settled("new", &changed);
        fs::rename(self.folder.0.join("new"), self.folder.0.join("replaced.zone")).unwrap();
        self.settled("longer.zone", &format!("{changed}; more\n"));
        self.settled("more", "more A 192.0.2.3\n");
    }

    fn list(&self) -> PathBuf {
        self.folder.0.join("zones.list")
    }

    /// Puts a pipe in the place of the list.
    fn pipe(&self) {
        fs::remove_file(self.list()).unwrap();
        assert!(Command::new("mkfifo").arg(self.list()).status().unwrap().success());
    }

    /// Writes the list into the pipe, once somebody reads it; then it is a file as before.
    fn fill_the_pipe(&self) {
        self.folder.write("text", &self.list);
        let mut fill = Command::new("timeout");
        fill.args(["60", "sh", "-c", "cat text > zones.list"]).current_dir(&self.folder.0);
        assert!(fill.status().unwrap().success(), "nobody reads the list");
        fs::remove_file(self.list()).unwrap();
        self.settled("zones.list", &self.list);
    }

    fn start(&self) -> Server {
        Server::start(&self.folder, &["-c", "dunlin.toml"])
    }

    /// What is served of the zones with files of their own.
    fn served(&self, server: &Server) -> Vec<String> {
        let names = OWN.map(|zone| format!("{}.{zone}.example", if zone == "including" { "more" } else { "www" }));
        names.iter().map(|name| server.short(&self.folder, &[name])).collect()
    }
}

#[test]
fn a_start_answers_from_the_image_and_then_finds_what_has_changed_behind_the_times() {
    for is_held_up in [true, false] {
        let desk = Desk::new(FEW);
        desk.change_behind_the_times();
        if is_held_up {
            desk.pipe();
        }
        let server = desk.start();
        assert_eq!(server.short(&desk.folder, &["www.zone-7.example"]), "192.0.2.2\n");
        if is_held_up {
            assert_eq!(desk.served(&server), ["192.0.2.2\n"; 4], "nobody has looked at the sources yet");
            desk.fill_the_pipe();
        }
        eventually("the changed zones", || desk.served(&server) == ["192.0.2.3\n"; 4]);
        assert_eq!(server.short(&desk.folder, &["www.zone-7.example"]), "192.0.2.2\n");
    }
}

/// What a server has taken so far.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Octets that came through calls of the system: of files that are read, not of those that are mapped.
    read: u64,
    /// Octets of memory of its own.
    own: u64,
}

impl Taken {
    fn by(server: &Server) -> Taken {
        let number = |file: &str, key: &str| -> u64 {
            let text = read(&PathBuf::from(format!("/proc/{}/{file}", server.pid())));
            let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        Taken { read: number("io", "rchar:"), own: number("smaps_rollup", "Anonymous:") << 10 }
    }
}

#[test]
fn a_start_and_a_reload_by_name_neither_read_nor_copy_what_is_known_of_all_zones() {
    let [few, many] = [FEW, MANY].map(|zones| {
        let desk = Desk::new(zones);
        let manifest = fs::metadata(desk.folder.0.join("data/images/zones.manifest")).unwrap().len();
        desk.pipe();
        let server = desk.start();
        assert_eq!(desk.served(&server), ["192.0.2.2\n"; 4]);
        let started = Taken::by(&server);
        desk.fill_the_pipe();
        // Both wait for the comparison; what is needed once is taken by the first.
        desk.folder.does(&["reload"]);
        desk.folder.does(&["reload", "longer.example"]);
        let before = Taken::by(&server);
        for version in 3..11 {
            desk.folder.write("longer.zone", &ZONE.replace("192.0.2.2", &format!("192.0.2.{version}")));
            let said = desk.folder.does(&["reload", "longer.example"]);
            assert!(said.contains("changed true") && said.contains("rebuilt false"), "{said}");
        }
        assert_eq!(server.short(&desk.folder, &["www.longer.example"]), "192.0.2.10\n");
        let after = Taken::by(&server);
        let of_reloads = Taken { read: after.read - before.read, own: after.own.saturating_sub(before.own) };
        (manifest, started, of_reloads)
    });
    let more = many.0 - few.0;
    assert!(more > 1 << 20, "{more} octets");
    for (few, many, what) in [(few.1, many.1, "start"), (few.2, many.2, "reloads")] {
        assert!(many.read < few.read + more / 4, "{what}: {few:?} {many:?}");
        assert!(many.own < few.own + more / 2, "{what}: {few:?} {many:?}");
    }
}

/// Somebody writes it, and has not asked for it yet.
#[test]
fn a_list_counts_as_it_was_when_somebody_asked_for_it() {
    let folder = Folder::new();
    folder.configure("[zones]\nlist = \"list\"\ndirectory = \"zones\"\n");
    folder.write("z", ZONE);
    folder.write("list", "a.example z\n");
    folder.write("zones/d.example.zone", ZONE);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let has = |name: &str| !server.short(&folder, &[&format!("www.{name}")]).is_empty();
    for text in ["", "a.example\n"] {
        folder.write("list", text);
        // What lies in folders counts at once; and zones one below another take a new image of all.
        let [above, below] = ["d", "n"].map(|first| format!("{}.{first}.example", text.len()));
        folder.write(&format!("zones/{above}.zone"), ZONE);
        eventually("one", || has(&above));
        let written = folder.0.join("zones-new");
        fs::create_dir_all(&written).unwrap();
        for zone in [format!("x.{below}"), below.clone()] {
            fs::write(written.join(&zone), ZONE).unwrap();
            fs::rename(written.join(&zone), folder.0.join(format!("zones/{zone}.zone"))).unwrap();
        }
        eventually("two", || has(&below) && has(&format!("x.{below}")));
        assert!(has("a.example"), "{text}");
        // A folder in a folder may be one that links lead through: all zones are compared.
        fs::create_dir_all(folder.0.join(format!("zones/sub{}", text.len()))).unwrap();
        let last = format!("{}.l.example", text.len());
        folder.write(&format!("zones/{last}.zone"), ZONE);
        eventually("and one more", || has(&last));
        assert!(has("a.example"), "{text}");
    }
    // Nor does whoever wants another zone served ask for it, by force or not.
    folder.write("list", "");
    folder.write("zones/d.example.zone", &ZONE.replace(" 7 ", " 9 "));
    folder.does(&["zone", "publish", "--force", "d.example"]);
    folder.does(&["reload", "d.example"]);
    assert!(has("a.example") && has("d.example"));
    folder.write("list", "a.example\n");
    folder.refuses(&["reload"], "the zone `a.example` has no file");
    assert!(has("a.example"));
    folder.write("list", "");
    folder.does(&["reload"]);
    assert!(!has("a.example") && has("d.example"));
}

/// Somebody is writing it, and nobody has asked for it yet.
#[test]
fn a_new_image_has_of_a_file_that_is_edited_what_is_served() {
    let folder = Folder::new();
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}.example\"\nfile = \"{name}.zone\"\n");
    folder.configure(&(zone("w") + &zone("wrong") + &zone("none") + "[zones]\ndirectory = \"zones\"\n"));
    folder.write_long_ago("w.zone", ZONE);
    folder.write_long_ago("wrong.zone", &ZONE.replace("@ NS ns1\n", ""));
    folder.write("zones/d.example.zone", ZONE);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let www = |zone: &str| server.short(&folder, &[&format!("www.{zone}")]);
    // One is served, one was wrong, one was not there.
    let edited = ["w", "wrong", "none"];
    for zone in edited {
        folder.write(&format!("{zone}.zone"), &ZONE.replace("192.0.2.2", "192.0.2.3"));
    }
    let is_as_before = || edited.map(|zone| www(&format!("{zone}.example"))) == ["192.0.2.2\n", "", ""];
    // Zones one below another take an image of all.
    let zones = ["x.n.example", "n.example"];
    for zone in zones {
        folder.write("new", ZONE);
        fs::rename(folder.0.join("new"), folder.0.join(format!("zones/{zone}.zone"))).unwrap();
    }
    eventually("the others", || zones.iter().all(|zone| www(zone) == "192.0.2.2\n"));
    assert!(is_as_before());
    // So does one that is wrong above another.
    folder.write("new", &ZONE.replace("@ NS ns1\n", ""));
    fs::rename(folder.0.join("new"), folder.0.join("zones/n.example.zone")).unwrap();
    folder.refuses(&["zone", "publish", "--force", "n.example"], "it goes on as it was");
    assert!(is_as_before());
    folder.ctl(&["reload"]);
    assert_eq!(edited.map(|zone| www(&format!("{zone}.example"))), ["192.0.2.3\n"; 3]);
}

/// The same of one that was read in the moment in which it was written, when its stamp says nothing yet.
#[test]
fn a_file_that_was_read_as_soon_as_it_was_written_is_not_read_again_unasked() {
    let folder = Folder::new();
    folder.configure("[[zone]]\nname = \"w.example\"\nfile = \"w.zone\"\n[zones]\ndirectory = \"zones\"\n");
    folder.write_long_ago("w.zone", ZONE);
    folder.write("zones/d.example.zone", ZONE);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let www = |zone: &str| server.short(&folder, &[&format!("www.{zone}")]);
    let write = |last: u32| folder.write("w.zone", &ZONE.replace("192.0.2.2", &format!("192.0.2.{last}")));
    write(3);
    folder.does(&["reload", "w.example"]);
    let second = || fs::metadata(folder.0.join("w.zone")).unwrap().ctime();
    let first = second();
    // In the second in which it was read nobody knows whether that was before it was read.
    eventually("a later second", || {
        write(4);
        second() > first + 1
    });
    // Zones one below another take an image of all.
    let zones = ["x.n.example", "n.example"];
    for zone in zones {
        folder.write("new", ZONE);
        fs::rename(folder.0.join("new"), folder.0.join(format!("zones/{zone}.zone"))).unwrap();
    }
    eventually("the others", || zones.iter().all(|zone| www(zone) == "192.0.2.2\n"));
    assert_eq!(www("w.example"), "192.0.2.3\n");
    folder.does(&["reload", "w.example"]);
    assert_eq!(www("w.example"), "192.0.2.4\n");
}

/// No image has it yet, and its file says something else. One may have been there before, and been wrong.
#[test]
fn a_zone_that_has_just_come_goes_on_as_it_was_after_a_kill() {
    for first in ["z.example z\n", "z.example z\nm.example m\nn.example n\n"] {
        goes_on_after_a_kill(first);
    }
}

fn goes_on_after_a_kill(first: &str) {
    let folder = Folder::new();
    folder.configure("[zones]\nlist = \"list\"\n");
    folder.write_long_ago("z", ZONE);
    folder.write("list", first);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let mut list = "z.example z\n".to_string();
    // Of the second nobody makes an image soon because of the first.
    for zone in ["m", "n"] {
        let line = format!("{zone}.example {zone}\n");
        list += &line;
        folder.write(zone, ZONE);
        folder.write("list", if first.contains(&line) { first } else { &list });
        folder.does(&["reload", &format!("{zone}.example")]);
        folder.write(zone, &ZONE.replace("192.0.2.2", "192.0.2.3"));
        folder.does(&["reload", &format!("{zone}.example")]);
        folder.write(zone, "@ SOA\n");
        folder.refuses(&["reload", &format!("{zone}.example")], "it goes on as it was");
    }
    // None is made for as long as the last one took, which may be seconds where others have the processors.
    let dump = || text(&folder.dunlin(&["zone", "dump", "data/images/zones.image"]).stdout);
    eventually("an image of both", || dump().contains("www.n.example."));
    server.killed();
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    assert_eq!(server.short(&folder, &["www.n.example"]), "192.0.2.3\n");
}

/// A list that somebody has emptied by mistake is what is asked for; whoever asks sees how many went.
#[test]
fn a_reload_says_how_many_zones_have_gone() {
    let folder = Folder::new();
    folder.configure("[zones]\nlist = \"list\"\n");
    folder.write("z", ZONE);
    let names = |n: usize| -> String { (0..n).map(|i| format!("z{i}.example z\n")).collect() };
    folder.write("list", &names(30));
    let _server = Server::start(&folder, &["-c", "dunlin.toml"]);
    for (left, gone) in [(28, 2), (0, 28)] {
        folder.write("list", &names(left));
        // As a script says it whose variable is not set: that is no wish for all.
        let unset = folder.ctl(&["reload", ""]);
        assert!(unset.status.code() == Some(2) && text(&unset.stderr).contains("is empty"), "{unset:?}");
        let said = folder.does(&["reload", "--json"]);
        assert!(said.contains(&format!("\"gone\":{gone},")), "{said}");
    }
    assert!(!folder.does(&["reload", "--json"]).contains("gone"));
}

/// Its file is away for a moment, and somebody writes the list meanwhile.
#[test]
fn a_zone_that_the_list_and_a_folder_name_goes_on_without_its_file() {
    let folder = Folder::new();
    folder.configure("[zones]\nlist = \"list\"\ndirectory = \"zones\"\n");
    let file = folder.write("zones/y.example.zone", ZONE);
    folder.write("list", "y.example zones/y.example.zone\n");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    folder.write("list", "y.example zones/y.example.zone\n# and others\n");
    fs::remove_file(&file).unwrap();
    // A new image of all: zones one below another take one.
    fs::create_dir_all(folder.0.join("new")).unwrap();
    for zone in ["x.n.example", "n.example"] {
        folder.write(&format!("new/{zone}"), ZONE);
        fs::rename(folder.0.join("new").join(zone), folder.0.join(format!("zones/{zone}.zone"))).unwrap();
    }
    let has = |name: &str| !server.short(&folder, &[&format!("www.{name}")]).is_empty();
    eventually("the others", || has("n.example") && has("x.n.example"));
    assert!(has("y.example"));
}

/// What was laid over the image is in no other yet; and what is compared waits for the list.
#[test]
fn a_start_answers_as_was_answered_last() {
    let desk = Desk::new(FEW);
    let server = desk.start();
    let changed = ZONE.replace("192.0.2.2", "192.0.2.3");
    OWN[..3].iter().for_each(|name| drop(desk.folder.write(&format!("{name}.zone"), &changed)));
    desk.folder.write("more", "more A 192.0.2.3\n");
    // The first signature of a zone: that is laid as a whole.
    let signature = "www RRSIG A 13 3 300 20400101000000 20200101000000 1 @ AAAA\n";
    desk.folder.write("replaced.zone", &(changed + signature));
    desk.folder.does(&["reload"]);
    desk.folder.does(&["zone", "add", "added.example", "longer.zone"]);
    assert_eq!(desk.served(&server), ["192.0.2.3\n"; 4]);
    server.killed();
    // One is edited meanwhile, one is spoilt, and one is away.
    desk.folder.write("rewritten.zone", &ZONE.replace("192.0.2.2", "192.0.2.4"));
    desk.folder.write("replaced.zone", "@ SOA\n");
    fs::remove_file(desk.folder.0.join("longer.zone")).unwrap();
    desk.pipe();
    let server = desk.start();
    let added = || server.short(&desk.folder, &["www.added.example"]);
    assert_eq!(
        (desk.served(&server), added()),
        (["192.0.2.3\n"; 4].map(str::to_string).to_vec(), "192.0.2.3\n".into())
    );
    assert!(server.short(&desk.folder, &["www.replaced.example", "RRSIG"]).starts_with("A 13 3 "));
    desk.fill_the_pipe();
    eventually("what was edited", || desk.served(&server)[0] == "192.0.2.4\n");
    assert_eq!(
        (&desk.served(&server)[1..], added()),
        (&["192.0.2.3\n"; 3].map(str::to_string)[..], "192.0.2.3\n".into())
    );
}

/// Nobody who asks for others waits for it; and one that is gone is not served, to whomever.
#[test]
fn a_start_with_a_zone_more_in_the_configuration_answers_at_once_of_that_one_too() {
    for is_reloaded in [false, true] {
        let desk = Desk::new(FEW);
        let server = desk.start();
        let with = "[[zone]]\nname = \"come.example\"\nfile = \"come.zone\"\nallow-query = [\"127.0.0.1\"]\n";
        desk.folder.write("come.zone", ZONE);
        desk.folder.write("dunlin.toml", &format!("{CONFIG}{with}"));
        if is_reloaded {
            desk.folder.does(&["reload"]);
        }
        server.killed();
        desk.pipe();
        let server = desk.start();
        assert_eq!(server.short(&desk.folder, &["www.come.example"]), "192.0.2.2\n", "{is_reloaded}");
        assert_eq!(desk.served(&server), ["192.0.2.2\n"; 4]);
        desk.fill_the_pipe();
        desk.folder.does(&["reload"]);
        assert_eq!(server.short(&desk.folder, &["www.come.example"]), "192.0.2.2\n");
        assert!(desk.folder.does(&["zone", "publish", "--force", "come.example"]).contains("zones 1205"));
        server.killed();
        desk.folder.write("dunlin.toml", CONFIG);
        let server = desk.start();
        assert_eq!(server.short(&desk.folder, &["www.come.example"]), "", "{is_reloaded}");
        assert_eq!(desk.served(&server), ["192.0.2.2\n"; 4]);
    }
}

/// What somebody has taken out of a zone before he let others in is in its file alone.
#[test]
fn a_start_shows_nobody_whom_lists_let_in_since_what_was_taken_out_before() {
    let secret = format!("{ZONE}secret A 192.0.2.9\n");
    for (key, is_of_server) in [("allow-query", false), ("allow-transfer", false), ("allow-query", true)] {
        let desk = Desk::new(FEW);
        let config = |who: &str| match is_of_server {
            true => CONFIG.replace("workers = 1\n", &format!("workers = 1\n{key} = [\"{who}\"]\n")),
            false => format!("{CONFIG}[[zone]]\nname = \"own.example\"\nfile = \"own.zone\"\n{key} = [\"{who}\"]\n"),
        };
        let file = if is_of_server { "longer.zone" } else { "own.zone" };
        let name = file.replace(".zone", ".example");
        desk.settled(file, &secret);
        desk.folder.write("dunlin.toml", &config("192.0.2.77"));
        assert_eq!(desk.folder.dunlin(&["compile", "-c", "dunlin.toml"]).status.code(), Some(0));
        desk.pipe();
        let server = desk.start();
        desk.fill_the_pipe();
        drop(server);
        desk.settled(file, &ZONE.replace("192.0.2.2", "192.0.2.3"));
        desk.folder.write("dunlin.toml", &config("127.0.0.1"));
        let server = if is_of_server {
            desk.start()
        } else {
            desk.pipe();
            desk.start()
        };
        let asked = server.short(&desk.folder, &[&format!("www.{name}")]);
        let shown = server.short(&desk.folder, &[&format!("secret.{name}")]);
        assert_eq!((&*asked, &*shown), ("192.0.2.3\n", ""), "{key}");
        if !is_of_server {
            desk.fill_the_pipe();
        }
        desk.folder.does(&["reload"]);
        server.signal("TERM");
        server.ended();
        // It is known who they are now, once it is in an image.
        desk.pipe();
        let server = desk.start();
        assert_eq!(server.short(&desk.folder, &[&format!("www.{name}")]), "192.0.2.3\n");
        desk.fill_the_pipe();
    }
}

/// The image is of before, and so are the lists; but between others were meant to see it, and that is in the history.
#[test]
fn a_start_shows_nobody_what_came_while_lists_did_not_let_him_in() {
    let desk = Desk::new(FEW);
    let config = |who: &str| {
        format!("{CONFIG}[[zone]]\nname = \"own.example\"\nfile = \"own.zone\"\nallow-query = [\"{who}\"]\n")
    };
    let next = |serial: u32, text: &str| text.replace("hostmaster 1 ", &format!("hostmaster {serial} "));
    assert_ne!(next(8, ZONE), ZONE);
    desk.settled("own.zone", ZONE);
    desk.folder.write("dunlin.toml", &config("127.0.0.1"));
    assert_eq!(desk.folder.dunlin(&["compile", "-c", "dunlin.toml"]).status.code(), Some(0));
    let server = desk.start();
    desk.folder.write("dunlin.toml", &config("192.0.2.77"));
    desk.settled("own.zone", &(next(8, ZONE) + "secret A 192.0.2.9\n"));
    desk.folder.does(&["reload"]);
    server.killed();
    desk.settled("own.zone", &next(9, ZONE));
    desk.folder.write("dunlin.toml", &config("127.0.0.1"));
    let server = desk.start();
    assert_eq!(server.short(&desk.folder, &["secret.own.example"]), "");
    assert_eq!(server.short(&desk.folder, &["www.own.example"]), "192.0.2.2\n");
}

/// It is taken away from what was served; and where it is back it comes from its file.
#[test]
fn a_start_with_a_zone_less_in_the_configuration_answers_at_once_without_it() {
    for is_reloaded in [false, true] {
        let desk = Desk::new(FEW);
        desk.folder.write("come.zone", ZONE);
        let with = format!("{CONFIG}[[zone]]\nname = \"come.example\"\nfile = \"come.zone\"\n");
        desk.folder.write("dunlin.toml", &with);
        assert_eq!(desk.folder.dunlin(&["compile", "-c", "dunlin.toml"]).status.code(), Some(0));
        let image = || fs::metadata(desk.folder.0.join("data/images/zones.image")).unwrap().ino();
        let (made, server) = (image(), desk.start());
        let asked = |server: &Server| server.short(&desk.folder, &["www.come.example"]);
        assert_eq!(asked(&server), "192.0.2.2\n");
        desk.folder.write("dunlin.toml", CONFIG);
        if is_reloaded {
            desk.folder.does(&["reload"]);
        }
        server.killed();
        let server = desk.start();
        assert_eq!((asked(&server), image()), (String::new(), made), "{is_reloaded}");
        assert_eq!(desk.served(&server), ["192.0.2.2\n"; 4]);
        desk.folder.write("dunlin.toml", &with);
        desk.folder.does(&["reload"]);
        assert_eq!(asked(&server), "192.0.2.2\n");
        server.killed();
        desk.pipe();
        let server = desk.start();
        assert_eq!((asked(&server), image()), ("192.0.2.2\n".to_string(), made), "{is_reloaded}");
        desk.fill_the_pipe();
    }
}

/// The log says of how many zones the first answers are.
#[test]
fn what_came_and_went_is_so_from_the_first_answer_on() {
    let folder = Folder::new();
    folder.configure("[zones]\ndirectory = \"zones\"\nlist = \"list\"\n");
    (0..FEW).for_each(|i| drop(folder.write(&format!("zones/zone-{i}.zone"), ZONE)));
    let newer = ZONE.replace(" 1 ", " 7 ");
    ["gone", "remade"].iter().for_each(|name| drop(folder.write(&format!("zones/{name}.zone"), &newer)));
    folder.write("zones/mended.zone", "@ SOA\n");
    folder.write("listed", ZONE);
    folder.write("list", "went listed\n");
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    ["gone", "remade"].iter().for_each(|name| fs::remove_file(folder.0.join(format!("zones/{name}.zone"))).unwrap());
    folder.write("zones/come.zone", ZONE);
    folder.write("list", "listed listed\n");
    folder.write("zones/mended.zone", ZONE);
    folder.does(&["reload"]);
    folder.write("zones/remade.zone", &ZONE.replace("192.0.2.2", "192.0.2.5"));
    folder.does(&["reload"]);
    folder.does(&["zone", "add", "added", "listed"]);
    // Together more than is laid at once: from the folder, which is watched, they might come so.
    let long = ["long-a", "long-b", "long-c"];
    folder.write("list", &long.iter().fold("listed listed\n".to_string(), |all, zone| format!("{all}{zone} {zone}\n")));
    for zone in long {
        folder.write(zone, &(ZONE.to_string() + &"; not much\n".repeat(200_000)));
        folder.does(&["reload", zone]);
    }
    server.killed();
    // More than is laid by itself: that comes after.
    folder.write("long-b", &(ZONE.to_string() + &"; not much\n".repeat(400_000)));
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let ready = || read(&folder.0.join("log")).lines().find(|line| line.contains(" ready ")).map(str::to_string);
    eventually("the first answers", || ready().is_some());
    assert!(ready().unwrap().ends_with(&format!(" zones={}", FEW + 7)), "{:?}", ready());
    let found = ["gone", "went", "remade", "come", "listed", "added", "mended", "long-a", "long-c"]
        .map(|zone| server.short(&folder, &[&format!("www.{zone}")]));
    let [is, other] = ["192.0.2.2\n", "192.0.2.5\n"];
    assert_eq!(found, ["", "", other, is, is, is, is, is, is]);
    eventually("the longest", || server.short(&folder, &["www.long-b"]) == is);
    assert!(folder.does(&["status", "--json"]).contains("\"held\":[]"));
}

/// What it was before it went is no version of it, nor a way to one.
#[test]
fn a_zone_that_comes_back_while_the_server_is_down_begins_anew() {
    for many in [0, FEW] {
        let folder = Folder::new();
        folder.configure("[zones]\ndirectory = \"zones\"\n");
        (0..many).for_each(|i| drop(folder.write(&format!("zones/zone-{i}.zone"), ZONE)));
        let zone = |serial: u32, address: &str| {
            let text = ZONE.replace(" 1 ", &format!(" {serial} ")).replace("192.0.2.2", address);
            folder.write("zones/back.zone", &text)
        };
        let file = zone(12, "192.0.2.12");
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        zone(13, "192.0.2.13");
        folder.does(&["reload", "back"]);
        fs::remove_file(&file).unwrap();
        folder.does(&["reload"]);
        server.killed();
        zone(12, "192.0.2.112");
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        let short = |server: &Server| server.short(&folder, &["www.back"]);
        eventually("the zone is back", || short(&server) == "192.0.2.112\n");
        zone(13, "192.0.2.113");
        folder.does(&["reload", "back"]);
        let log = folder.does(&["zone", "log", "back"]);
        assert!(log.contains("made anew") && !log.contains("before 13"), "{log}");
        server.killed();
        if many == 0 {
            // What the start before has found is in an image.
            fs::write(&file, "@ SOA\n").unwrap();
        }
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        assert_eq!(short(&server), "192.0.2.113\n", "{many}");
    }
}
