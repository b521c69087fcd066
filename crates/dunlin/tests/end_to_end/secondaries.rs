//! Zones that come from others: our own server as the primary, zones that expire, servers that are told.

use crate::running::{Folder, Server, eventually, read, text};
use crate::updates::{DDNS, KEY, update};
use difference::fleet::{free_port, free_sockets};
use difference::peers;
use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub const ZONE: &str = "$TTL 300
@ SOA ns host 7 3600 600 86400 4
@ NS ns
ns A 192.0.2.53
www A 192.0.2.1
*.wild TXT star
odd TYPE65280 \\# 4 01020304
";

/// A primary: z.test takes updates, is given to whoever has the key, and announced to `{notify}`.
pub const PRIMARY: &str = "[[key]]
name = \"ddns\"
secret-file = \"ddns.key\"
[[zone]]
name = \"z.test\"
file = \"z.zone\"
allow-update = [\"key:ddns\"]
allow-transfer = [\"127.0.0.1#ddns\"]
notify = [{notify}]
[[zone]]
name = \"open.test\"
file = \"open.zone\"
allow-transfer = [\"any\"]
";

pub struct Site {
    pub folder: Folder,
    pub server: Server,
}

/// A folder whose server listens there.
fn folder(address: SocketAddr, rest: &str) -> Folder {
    let folder = Folder::new();
    folder.write("ddns.key", &format!("{KEY}\n"));
    folder.write("z.zone", ZONE);
    folder.write("open.zone", ZONE);
    configure(&folder, address, rest);
    folder
}

pub fn configure(folder: &Folder, address: SocketAddr, rest: &str) {
    folder.configure(rest);
    let conf = read(&folder.0.join("dunlin.toml")).replace("127.0.0.1:0", &address.to_string());
    folder.write("dunlin.toml", &conf);
}

impl Site {
    pub fn start(address: SocketAddr, rest: &str) -> Site {
        let folder = folder(address, rest);
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        Site { folder, server }
    }

    pub fn kill(&mut self) {
        self.server.signal("KILL");
        self.server.wait();
    }

    pub fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    pub fn start_again(&mut self) {
        self.server = Server::start(&self.folder, &["-c", "dunlin.toml"]);
    }

    /// Records as they are served, in short; empty: SERVFAIL or the like.
    pub fn has(&self, name: &str, rtype: &str) -> String {
        self.server.short(&self.folder, &[name, rtype])
    }

    /// The whole answer.
    pub fn says(&self, name: &str, rtype: &str) -> String {
        let mut dig = peers::command("dig");
        let port = self.server.address.port().to_string();
        dig.args(["@127.0.0.1", "-p", &port, "+tries=1", "+time=30", "+norec", name, rtype]);
        text(&dig.output().unwrap().stdout)
    }

    pub fn serial(&self, zone: &str) -> Option<u32> {
        self.has(zone, "SOA").split_whitespace().nth(2).and_then(|serial| serial.parse().ok())
    }

    pub fn ctl(&self, words: &[&str]) -> String {
        let output = self.folder.ctl(words);
        text(&output.stdout) + &text(&output.stderr)
    }

    pub fn counted(&self, name: &str) -> u64 {
        let stats = self.ctl(&["stats", "--json"]);
        let at = stats.find(&format!("\"{name}\":")).unwrap() + name.len() + 3;
        stats[at..].trim_start().chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    }

    pub fn log(&self) -> String {
        read(&self.folder.0.join("log"))
    }

    #[track_caller]
    pub fn comes_to(&self, zone: &str, serial: u32) {
        eventually(&format!("{zone} has serial {serial}: {}", self.log()), || self.serial(zone) == Some(serial));
    }
}

pub fn secondary_of(primary: SocketAddr) -> String {
    format!(
        "[[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n\
        [[zone]]\nname = \"z.test\"\nprimaries = [\"{primary}#ddns\"]\nallow-transfer = [\"any\"]\n\
        [[zone]]\nname = \"open.test\"\nfile = \"kept/open.zone\"\nprimaries = [\"{primary}\"]\n"
    )
}

pub fn primary_telling(secondary: SocketAddr) -> String {
    PRIMARY.replace("{notify}", &format!("\"{secondary}#ddns\""))
}

/// It is brought from elsewhere together with its file, which is newer than what its primary has.
#[test]
fn a_file_that_is_there_counts_when_its_zone_is_configured() {
    let (theirs, ours) = (free_port(), free_port());
    let _primary = Site::start(theirs, &primary_telling(ours));
    let with = secondary_of(theirs);
    let (without, open) = with.split_at(with.rfind("[[zone]]").unwrap());
    let secondary = Site::start(ours, without);
    for serial in [100, 200] {
        let file = secondary.folder.write("kept/open.zone", &ZONE.replace(" 7 ", &format!(" {serial} ")));
        configure(&secondary.folder, ours, &format!("{without}{open}"));
        secondary.folder.does(&["reload"]);
        assert_eq!(secondary.serial("open.test"), Some(serial));
        let older = format!("its serial 7 is older than ours, {serial}");
        eventually(&older, || secondary.log().contains(&older));
        assert!(read(&file).contains(&format!(" {serial} ")) && secondary.serial("open.test") == Some(serial));
        configure(&secondary.folder, ours, without);
        secondary.folder.does(&["reload"]);
    }
}

#[test]
fn zones_come_change_by_notify_and_are_there_after_a_restart_without_asking() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &primary_telling(ours));
    let mut secondary = Site::start(ours, &secondary_of(theirs).replace("kept/open.zone", "here.zone"));
    for zone in ["z.test", "open.test"] {
        secondary.comes_to(zone, 7);
        assert_eq!(secondary.has(&format!("www.{zone}"), "A"), "192.0.2.1\n");
        assert_eq!(secondary.has(&format!("x.wild.{zone}"), "TXT"), "\"star\"\n");
    }
    assert!(read(&secondary.folder.0.join("here.zone")).contains("www.open.test. 300 IN A 192.0.2.1"));
    // A change comes by NOTIFY: its refresh time is an hour.
    assert_eq!(update(&primary.server, &[], DDNS, "zone z.test\nadd new.z.test 60 A 192.0.2.9"), "");
    secondary.comes_to("z.test", 8);
    assert_eq!(secondary.has("new.z.test", "A"), "192.0.2.9\n");
    eventually("it is told that it was told", || primary.counted("notifies_answered") > 0);
    // History is written after what it tells is served.
    let log = || secondary.ctl(&["zone", "log", "z.test"]);
    eventually("it is in the history", || log().contains("transfer") && log().contains(&format!("from {theirs}#ddns")));
    // The primary goes; a restart serves at once what there was.
    drop(primary);
    secondary.restart();
    assert_eq!((secondary.serial("z.test"), secondary.serial("open.test")), (Some(8), Some(7)));
    assert_eq!(secondary.counted("soa_asked") + secondary.counted("zones_received"), 0, "nobody was asked");
    let list = secondary.ctl(&["zone", "list", "z.test"]);
    let shown = secondary.ctl(&["zone", "show", "z.test"]);
    for fact in ["zone z.test.", "state fresh", "serial 8", "expires 20"] {
        assert!(list.contains(fact) && shown.contains(fact), "{list}{shown}");
    }
    assert!(shown.contains("new.z.test. 60 IN A 192.0.2.9"), "{shown}");
    let refused = secondary.ctl(&["zone", "rollback", "z.test", "7"]);
    assert!(refused.contains("comes from its primaries"), "{refused}");
}

/// A digest of the version before is none that whoever looks at digests believes; the one that fits is made seconds later.
#[test]
fn a_version_is_told_of_once_its_digest_fits() {
    let (theirs, ours) = (free_port(), free_port());
    let folder = folder(theirs, &primary_telling(ours));
    folder.write("z.zone", &format!("{ZONE}@ 60 ZONEMD 6 1 1 {}\n", "00".repeat(48)));
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let primary = Site { folder, server };
    let changes = |serial: u32| {
        let change = format!("zone z.test\nadd n{serial}.z.test 60 A 192.0.2.9");
        assert_eq!(update(&primary.server, &[], DDNS, &change), "");
        assert_eq!(primary.serial("z.test"), Some(serial));
    };
    changes(8);
    primary.comes_to("z.test", 9);
    let secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("z.test", 9);
    for serial in [10, 12] {
        changes(serial);
        secondary.comes_to("z.test", serial + 1);
    }
    assert!(!secondary.log().contains("is held"), "{}", secondary.log());
    assert!(!secondary.ctl(&["zone", "log", "z.test"]).contains("serial 10"), "it never asked for what passed");
}

/// As where a primary does not sign them, and `primaries` has a key.
#[test]
fn who_refuses_a_notify_is_told_of_at_once() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &PRIMARY.replace("{notify}", &format!("\"{ours}\"")));
    let secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("z.test", 7);
    assert_eq!(update(&primary.server, &[], DDNS, "zone z.test\nadd new.z.test 60 A 192.0.2.9"), "");
    let said = |site: &Site, words: [&str; 2]| site.log().lines().any(|line| words.iter().all(|w| line.contains(w)));
    eventually("it is told", || said(&primary, ["a server is not told of a new version", "REFUSED"]));
    assert_eq!(primary.counted("notifies_failed"), 1);
    eventually("so it is there", || said(&secondary, ["a NOTIFY is refused", "the key that `primaries` has there"]));
}

/// What a server was told: the first letter of a zone, and a serial.
type Heard = Arc<Mutex<BTreeSet<(char, u8)>>>;

/// A server that answers all NOTIFYs.
pub fn listener() -> (SocketAddr, Heard) {
    let (socket, told) = (UdpSocket::bind("127.0.0.1:0").unwrap(), Heard::default());
    let (address, all) = (socket.local_addr().unwrap(), Arc::clone(&told));
    std::thread::spawn(move || {
        let mut room = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut room) {
            all.lock().unwrap().insert((char::from(room[13]), room[n - 17]));
            room[2] |= 0x80;
            let _ = socket.send_to(&room[..n], from);
        }
    });
    (address, told)
}

#[test]
fn who_is_told_of_changes_is_told_of_those_while_the_server_was_down() {
    let (ours, (to, told)) = (free_port(), listener());
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}.zone\"\nnotify = [\"{to}\"]\n");
    let folder = folder(ours, &(zone("open.test") + &zone("same.test")));
    ["open.test.zone", "same.test.zone"].iter().for_each(|file| _ = folder.write(file, ZONE));
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    let mut site = Site { folder, server };
    // Who has told the list has done before what follows an answer, and has had his first turn.
    let list = |site: &Site| assert!(site.ctl(&["zone", "list"]).contains("zones"));
    eventually("what nobody knows to have been told is told", || site.counted("notifies_answered") == 2);
    assert_eq!(*told.lock().unwrap(), [('o', 7), ('s', 7)].into());
    list(&site);
    site.kill();
    told.lock().unwrap().clear();
    site.folder.write("open.test.zone", &ZONE.replace(" 7 ", " 8 "));
    site.start_again();
    eventually("what has changed is told", || site.counted("notifies_answered") == 1);
    assert!(told.lock().unwrap().contains(&('o', 8)));
    list(&site);
    site.restart();
    list(&site);
    assert_eq!((site.serial("open.test"), site.counted("notifies_sent")), (Some(8), 0), "all have been told");
    // But for who is to be told only now.
    let (more, anew) = listener();
    let rest =
        (zone("open.test") + &zone("same.test")).replace(&format!("[\"{to}\"]"), &format!("[\"{to}\", \"{more}\"]"));
    configure(&site.folder, ours, &rest);
    site.folder.does(&["reload"]);
    eventually("who is told from now on is told", || site.counted("notifies_answered") == 2);
    assert_eq!(*anew.lock().unwrap(), [('o', 8), ('s', 7)].into());
}

#[test]
fn a_zone_that_has_not_come_is_servfail_until_it_has() {
    let (theirs, ours) = (free_port(), free_port());
    let secondary = Site::start(ours, &secondary_of(theirs));
    let said = secondary.says("www.open.test", "A");
    assert!(said.contains("SERVFAIL") && said.contains("EDE: 14"), "{said}");
    assert!(secondary.says("www.elsewhere.test", "A").contains("REFUSED"));
    eventually("it is tried", || secondary.ctl(&["zone", "list", "open.test"]).contains("state awaited"));
    let shown = secondary.ctl(&["zone", "show", "open.test"]);
    assert!(shown.contains("state awaited") && shown.contains("no_records no zone open.test. is served"), "{shown}");
    assert!(secondary.ctl(&["status"]).contains("absent 2\n"));
    let primary = Site::start(theirs, &primary_telling(ours));
    secondary.comes_to("open.test", 7);
    secondary.comes_to("z.test", 7);
    eventually("none is missing", || secondary.ctl(&["status"]).contains("absent 0\n"));
    assert!(secondary.counted("servfail_awaited") > 0);
    assert!(secondary.log().contains("a primary answers again"), "{}", secondary.log());
    drop(primary);
}

/// A primary, and a secondary whose image has what open.test is, and this file.
fn pair() -> (Site, Site, PathBuf) {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &primary_telling(ours));
    let mut secondary = Site::start(ours, &secondary_of(theirs));
    let file = secondary.folder.0.join("kept/open.zone");
    secondary.comes_to("open.test", 7);
    secondary.restart();
    (primary, secondary, file)
}

/// As many an operator has it fetched anew.
#[test]
fn a_zone_whose_file_was_removed_is_served_on_and_fetched() {
    let (primary, mut secondary, file) = pair();
    fs::remove_file(&file).unwrap();
    // It may be there again before the reload looks at it.
    secondary.ctl(&["reload"]);
    eventually("its file", || file.exists());
    assert_eq!(secondary.serial("open.test"), Some(7));
    eventually("nothing wrong", || secondary.folder.ctl(&["reload"]).status.code() == Some(0));
    drop(primary);
    secondary.kill();
    fs::remove_file(&file).unwrap();
    secondary.start_again();
    assert_eq!(secondary.serial("open.test"), Some(7), "the image has it");
    assert!(secondary.ctl(&["status", "--json"]).contains("open.test.: it goes on as it was"));
    assert!(secondary.ctl(&["zone", "list", "open.test"]).contains("it goes on as it was"));
    eventually("its primary is asked", || {
        secondary.log().contains("a primary is of no use for a zone zone=open.test.")
    });
}

/// What a disk has lost of it, or somebody has changed, is not what its primary has sent.
#[test]
fn a_file_that_is_not_as_it_was_received_is_not_served_and_the_zone_is_fetched() {
    let (primary, mut secondary, file) = pair();
    let good = read(&file);
    let spoilt = good.replace("192.0.2.1\n", "192.0.2.2\n");
    assert_ne!(good, spoilt);
    for is_image_there in [true, false] {
        secondary.kill();
        fs::write(&file, &spoilt).unwrap();
        if !is_image_there {
            fs::remove_dir_all(secondary.folder.0.join("data/images")).unwrap();
        }
        secondary.start_again();
        let log = secondary.log();
        assert!(
            log.contains("its sum is not that of what it holds") && log.contains("it; the zone is fetched anew"),
            "{log}"
        );
        let found = secondary.has("www.open.test", "A");
        assert!(found == "192.0.2.1\n" || !is_image_there && found.is_empty(), "{is_image_there} {found}");
        eventually("it is fetched", || read(&file) == good && secondary.has("www.open.test", "A") == "192.0.2.1\n");
    }
    drop(primary);
}

#[test]
fn an_operator_has_a_zone_transferred_and_others_told() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &primary_telling(ours));
    let secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("open.test", 7);
    // The same serial, another content: nobody would notice.
    primary.folder.write("open.zone", &ZONE.replace("192.0.2.1", "192.0.2.77"));
    assert!(primary.ctl(&["reload", "open.test"]).contains("ok true"));
    assert!(secondary.ctl(&["zone", "transfer", "open.test"]).contains("ok true"));
    eventually("it has come", || secondary.has("www.open.test", "A") == "192.0.2.77\n");
    assert!(secondary.ctl(&["zone", "transfer", "else.test"]).contains("is not configured"));
    let taken = secondary.counted("notifies_taken");
    assert!(primary.ctl(&["zone", "notify", "z.test"]).contains("notified 1"));
    eventually("it is told", || secondary.counted("notifies_taken") > taken);
    assert!(primary.ctl(&["zone", "notify", "open.test"]).contains("has no primaries and no notify"));
}

#[test]
fn a_version_that_loses_too_much_is_held_until_the_operator_forces_it() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &format!("[guards]\nenabled = false\n{}", PRIMARY.replace("{notify}", "")));
    let mut secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("open.test", 7);
    primary.folder.write("open.zone", "$TTL 300\n@ SOA ns host 8 3600 600 86400 4\n@ NS ns.else.\n");
    assert!(primary.ctl(&["reload", "open.test"]).contains("ok true"));
    primary.comes_to("open.test", 8);
    assert!(secondary.ctl(&["zone", "transfer", "open.test"]).contains("ok true"));
    eventually("it is held", || secondary.ctl(&["status", "--json"]).contains("\"held\":[{\"zone\":\"open.test.\""));
    eventually("it is told", || secondary.ctl(&["zone", "list", "open.test"]).contains("not_served 8"));
    assert_eq!((secondary.serial("open.test"), secondary.has("www.open.test", "A")), (Some(7), "192.0.2.1\n".into()));
    secondary.restart();
    let list = || secondary.ctl(&["zone", "list", "open.test"]);
    assert!(list().contains("serial 7") && list().contains("not_served 8"), "{}", list());
    let forced = secondary.ctl(&["zone", "publish", "--force", "open.test"]);
    secondary.comes_to("open.test", 8);
    assert_eq!(secondary.has("www.open.test", "A"), "", "{forced}");
    eventually("all is well", || list().contains("serial 8") && !list().contains("not_served 8"));
    let log = || secondary.ctl(&["zone", "log", "open.test"]);
    eventually("the history", || log().contains("who transfer from its primaries, by force"));
}

/// What lies there of it would be served by force, or by a start without an image.
#[test]
fn a_version_that_is_held_and_taken_back_is_held_no_more() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &format!("[guards]\nenabled = false\n{}", PRIMARY.replace("{notify}", "")));
    let has = |zone: &str| {
        primary.folder.write("open.zone", zone);
        primary.folder.does(&["reload", "open.test"]);
    };
    let good = ZONE.replace(" 7 3600 600 86400", " 8 1 1 86400");
    has(&good);
    let mut secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("open.test", 8);
    has("$TTL 300\n@ SOA ns host 9 1 1 86400 4\n@ NS ns.else.\n");
    eventually("it is held", || secondary.ctl(&["zone", "list", "open.test"]).contains("not_served 9"));
    has(&good);
    eventually("it is held no more", || !secondary.ctl(&["zone", "list", "open.test"]).contains("not_served 9"));
    assert!(secondary.ctl(&["status", "--json"]).contains("\"held\":[]"), "{}", secondary.log());
    secondary.restart();
    assert!(secondary.ctl(&["status", "--json"]).contains("\"held\":[]"), "{}", secondary.log());
    assert_eq!((secondary.serial("open.test"), secondary.has("www.open.test", "A")), (Some(8), "192.0.2.1\n".into()));
}

#[test]
fn a_zone_expires_and_is_back_when_its_primary_is() {
    let (theirs, ours) = (free_port(), free_port());
    let short = ZONE.replace("3600 600 86400", "1 1 1");
    let conf = primary_telling(ours);
    let mut primary = Site::start(theirs, &conf);
    primary.folder.write("open.zone", &short.replace(" 7 ", " 8 "));
    assert!(primary.ctl(&["reload", "open.test"]).contains("ok true"));
    let mut secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("open.test", 8);
    primary.kill();
    eventually("it expires", || secondary.says("www.open.test", "A").contains("SERVFAIL"));
    let said = secondary.says("open.test", "SOA");
    assert!(said.contains("EDE: 24"), "{said}");
    assert!(secondary.ctl(&["zone", "list", "open.test"]).contains("state expired"));
    // A restart does not make it fresh.
    secondary.restart();
    assert!(secondary.says("www.open.test", "A").contains("SERVFAIL"));
    primary.start_again();
    eventually("it is back", || secondary.has("www.open.test", "A") == "192.0.2.1\n");
}

#[test]
fn what_comes_is_kept_where_the_configuration_says_from_then_on() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &primary_telling(ours));
    let secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("open.test", 7);
    configure(&secondary.folder, ours, &secondary_of(theirs).replace("kept/open.zone", "other/open.zone"));
    assert!(secondary.ctl(&["reload"]).contains("ok true"));
    let other = secondary.folder.0.join("other/open.zone");
    eventually("it is fetched once more", || {
        other.exists() && secondary.ctl(&["zone", "list", "open.test"]).contains("state fresh")
    });
    assert_eq!(secondary.has("www.open.test", "A"), "192.0.2.1\n");
    // What has been moved along is there, and nobody is asked for it.
    let come = || secondary.log().lines().filter(|line| line.contains("a zone was received zone=open.test")).count();
    assert_eq!(come(), 2);
    fs::rename(&other, secondary.folder.0.join("open.moved")).unwrap();
    configure(&secondary.folder, ours, &secondary_of(theirs).replace("kept/open.zone", "open.moved"));
    assert!(secondary.ctl(&["reload"]).contains("ok true"));
    assert!(update(&primary.server, &[], DDNS, "zone z.test\nadd new.z.test 60 A 192.0.2.9").is_empty());
    secondary.comes_to("z.test", 8);
    assert_eq!((come(), secondary.has("www.open.test", "A").as_str()), (2, "192.0.2.1\n"));
}

/// What its file had was not its primaries' word.
#[test]
fn a_zone_of_a_file_that_is_to_come_from_others_is_not_what_the_file_had() {
    let (theirs, ours) = (free_port(), free_port());
    let conf = secondary_of(theirs).replace("kept/open.zone", "later.zone");
    let zone = conf.find("[[zone]]\nname = \"open.test\"").unwrap()..;
    let before = conf.replace(&conf[zone], "[[zone]]\nname = \"open.test\"\nfile = \"open.zone\"\n");
    for words in [&["reload"][..], &["reload", "open.test"]] {
        let site = Site::start(ours, &before);
        assert_eq!(site.has("www.open.test", "A"), "192.0.2.1\n");
        configure(&site.folder, ours, &conf);
        site.ctl(words);
        assert!(site.says("www.open.test", "A").contains("status: SERVFAIL"), "{words:?}");
        configure(&site.folder, ours, &before);
        assert!(site.ctl(words).contains("ok true"));
        assert_eq!(site.has("www.open.test", "A"), "192.0.2.1\n");
    }
}

#[test]
fn what_cannot_be_served_for_now_is_served_when_it_can() {
    let (theirs, ours) = (free_port(), free_port());
    let secondary = Site::start(ours, &secondary_of(theirs));
    // So much takes a new image, and there is no folder for one.
    let [images, away] = ["data/images", "data/away"].map(|name| secondary.folder.0.join(name));
    fs::rename(&images, &away).unwrap();
    fs::write(&images, "").unwrap();
    let many: String = (0..22_000).map(|i| format!("n{i} TXT {}\n", "x".repeat(200))).collect();
    let folder = folder(theirs, &primary_telling(ours));
    folder.write("open.zone", &format!("{ZONE}{many}"));
    let _primary = Server::start(&folder, &["-c", "dunlin.toml"]);
    eventually("it is told", || secondary.log().contains("no new image, the old one stays"));
    assert_eq!(secondary.serial("open.test"), None);
    fs::remove_file(&images).unwrap();
    fs::rename(&away, &images).unwrap();
    secondary.comes_to("open.test", 7);
}

#[test]
fn an_older_version_that_is_put_back_is_not_taken_for_what_was_refreshed_lately() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &PRIMARY.replace("{notify}", ""));
    let mut secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("open.test", 7);
    let file = secondary.folder.0.join("kept/open.zone");
    let backup = read(&file);
    primary.folder.write("open.zone", &ZONE.replace(" 7 ", " 8 "));
    assert!(primary.ctl(&["reload", "open.test"]).contains("ok true"));
    assert!(secondary.ctl(&["zone", "transfer", "open.test"]).contains("ok true"));
    secondary.comes_to("open.test", 8);
    let list = || secondary.ctl(&["zone", "list", "open.test"]);
    eventually("it is noted", || list().contains("state fresh") && list().contains("serial 8"));
    secondary.kill();
    fs::write(&file, backup).unwrap();
    fs::remove_dir_all(secondary.folder.0.join("data/images")).unwrap();
    secondary.start_again();
    // The refresh time is an hour.
    secondary.comes_to("open.test", 8);
}

#[test]
fn a_primary_that_is_there_over_tcp_only_goes_on_being_followed() {
    let (theirs, ours) = (free_port(), free_port());
    // Nobody reads what comes over UDP.
    let (between, _udp, tcp) = free_sockets();
    std::thread::spawn(move || {
        for stream in tcp.incoming() {
            let (to_us, to_them) = (stream.unwrap(), TcpStream::connect(theirs).unwrap());
            for (mut from, mut to) in [(to_us.try_clone().unwrap(), to_them.try_clone().unwrap()), (to_them, to_us)] {
                std::thread::spawn(move || {
                    std::io::copy(&mut from, &mut to).and_then(|_| to.shutdown(std::net::Shutdown::Write))
                });
            }
        }
    });
    let primary = Site::start(theirs, &PRIMARY.replace("{notify}", ""));
    let zone = |serial: u32| {
        primary.folder.write("open.zone", &ZONE.replace(" 7 3600 600 86400 ", &format!(" {serial} 1 1 60 ")));
        assert!(primary.ctl(&["reload", "open.test"]).contains("ok true"));
    };
    zone(8);
    let secondary = Site::start(ours, &secondary_of(between));
    secondary.comes_to("open.test", 8);
    for serial in 9..11 {
        zone(serial);
        secondary.comes_to("open.test", serial);
    }
    assert!(secondary.counted("soa_asked") > 0);
}

#[test]
fn an_older_version_is_not_taken_and_told() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &primary_telling(ours));
    let secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("z.test", 7);
    secondary.comes_to("open.test", 7);
    primary.folder.write("open.zone", &ZONE.replace(" 7 ", " 5 "));
    assert!(primary.ctl(&["zone", "publish", "--force", "open.test"]).contains("ok true"));
    let mut python = peers::command("python3");
    python.args(["-c", NOTIFY, &ours.port().to_string(), "open.test"]);
    assert_eq!(text(&python.output().unwrap().stdout), "NOERROR\n");
    eventually("it is told", || secondary.log().contains("its serial 5 is older than ours, 7"));
    assert_eq!(secondary.serial("open.test"), Some(7));
}

/// Sends a NOTIFY, prints the rcode.
const NOTIFY: &str = r#"
import sys, dns.message, dns.opcode, dns.query, dns.rcode, dns.flags
query = dns.message.make_query(sys.argv[2], "SOA")
query.set_opcode(dns.opcode.NOTIFY)
query.flags = (query.flags | dns.flags.AA) & ~dns.flags.RD
reply = dns.query.udp(query, "127.0.0.1", port=int(sys.argv[1]), timeout=20)
print(dns.rcode.to_text(reply.rcode()))
"#;

#[test]
fn a_notify_is_taken_from_primaries_only() {
    let (theirs, ours) = (free_port(), free_port());
    let secondary = Site::start(
        ours,
        &format!(
            "{}[[zone]]\nname = \"file.test\"\nfile = \"z.zone\"\n\
        [[zone]]\nname = \"far.test\"\nprimaries = [\"127.0.0.9:{}\"]\n",
            secondary_of(theirs),
            theirs.port()
        ),
    );
    for (zone, expect) in [
        ("open.test", "NOERROR"),
        ("z.test", "REFUSED"),
        ("far.test", "REFUSED"),
        ("file.test", "NOTAUTH"),
        ("else.test", "NOTAUTH"),
        ("www.open.test", "NOTAUTH"),
    ] {
        let mut python = peers::command("python3");
        python.args(["-c", NOTIFY, &ours.port().to_string(), zone]);
        assert_eq!(text(&python.output().unwrap().stdout).trim(), expect, "{zone}");
    }
    assert_eq!((secondary.counted("notifies_taken"), secondary.counted("notifies_refused")), (1, 2));
    assert_eq!(secondary.counted("postponed"), 2, "strangers are sent away at once");
}
