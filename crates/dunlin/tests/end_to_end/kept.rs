//! Zones that are added, changed and removed by commands.

use crate::running::{Folder, Server, eventually, read, text};

const ZONE: &str = "$TTL 300\n@ SOA ns host 7 1 2 3 4\n@ NS ns ; ours\nns A 192.0.2.53\nwww A 192.0.2.1\n";

struct Stage {
    folder: Folder,
    server: Server,
}

impl Stage {
    fn new(configuration: &str) -> Stage {
        let folder = Folder::new();
        folder.configure(configuration);
        folder.write("texts/a zone", ZONE);
        folder.write("list", "");
        folder.write("k.key", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n");
        let server = Server::start(&folder, &["-c", "dunlin.toml"]);
        Stage { folder, server }
    }

    #[track_caller]
    fn does(&self, words: &[&str]) -> String {
        self.folder.does(&[&["zone"], words].concat())
    }

    /// Nothing of it is done, and nothing of it is left.
    #[track_caller]
    fn refuses(&self, words: &[&str], expect: &str) {
        let before = self.files();
        self.folder.refuses(&[&["zone"], words].concat(), expect);
        assert_eq!(self.files(), before, "{words:?}");
    }

    /// All that is in the folder of these zones.
    fn files(&self) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(self.folder.0.join("data/kept")).unwrap().flatten();
        let read = |e: std::fs::DirEntry| {
            (e.file_name().into_string().unwrap(), std::fs::read_to_string(e.path()).unwrap_or_default())
        };
        let mut all: Vec<_> = entries.map(read).collect();
        all.sort();
        all
    }

    fn short(&self, words: &[&str]) -> String {
        self.server.short(&self.folder, words)
    }

    fn rcode(&self, name: &str) -> String {
        let output = self.folder.dunlin(&["query", &format!("@{}", self.server.address), name]);
        let said = text(&output.stdout);
        let (_, rest) = said.split_once("status: ").unwrap_or_else(|| panic!("{said}"));
        rest.split(',').next().unwrap_or_default().to_string()
    }
}

/// The server reads them, on the thread that stops it, too.
#[test]
fn what_is_no_file_is_not_waited_for() {
    let stage = Stage::new("[zones]\nlist = \"list\"\n[[key]]\nname = \"k\"\nsecret-file = \"k.key\"\n");
    stage.refuses(&["add", "new.example", "/dev/stdin"], "name a file");
    let file = stage.folder.0.join("k.key");
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    stage.folder.refuses(&["reload"], "it is no file");
}

#[test]
fn a_file_that_appears_in_a_folder_wins() {
    let stage = Stage::new("[zones]\ndirectory = \"texts\"\n");
    stage.does(&["add", "z", "texts/a zone"]);
    stage.folder.write("texts/z.zone", &ZONE.replace("192.0.2.1", "192.0.2.7").replace("host 7", "host 8"));
    eventually("it is served", || stage.short(&["www.z"]) == "192.0.2.7\n");
    stage.refuses(&["modify", "z", "add a A 192.0.2.2"], "which a command added: `zone remove` removes that alone");
    std::fs::remove_file(stage.folder.0.join("texts/z.zone")).unwrap();
    eventually("what commands keep is looked at", || {
        stage.does(&["list", "z"]).contains("the serial 7 does not follow 8")
    });
    stage.folder.write("texts/z.zone", &ZONE.replace("192.0.2.1", "192.0.2.8").replace("host 7", "host 9"));
    eventually("it is served again", || stage.short(&["www.z"]) == "192.0.2.8\n");
    stage.does(&["remove", "z"]);
    assert_eq!((stage.short(&["www.z"]), stage.files()), ("192.0.2.8\n".to_string(), vec![]));
    stage.refuses(&["remove", "z"], "was not added by a command");
}

#[test]
fn a_zone_comes_changes_and_goes_by_commands() {
    let mut stage = Stage::new("");
    assert_eq!(stage.rcode("www.example.com"), "REFUSED");
    stage.does(&["add", "Example.COM", "texts/a zone"]);
    assert_eq!(stage.short(&["www.example.com"]), "192.0.2.1\n");
    assert_eq!(stage.files(), [("example.com.zone".to_string(), ZONE.to_string())], "as it was given");

    stage.does(&["modify", "example.com.", "add www 60 A 192.0.2.2"]);
    assert_eq!(stage.short(&["www.example.com"]).lines().count(), 2);
    assert!(stage.short(&["example.com", "SOA"]).contains(" 8 1 2 3 4"), "a serial of its own");
    // Several at once, and one that is not quoted.
    stage.does(&["modify", "example.com", "delete www", "add old CNAME www2", "add www2 AAAA 2001:db8::1"]);
    assert_eq!(stage.short(&["old.example.com", "AAAA"]), "www2.example.com.\n2001:db8::1\n");
    stage.does(&["modify", "example.com", "add", "text", "TXT", "\"a b\""]);
    assert_eq!(
        (stage.short(&["text.example.com", "TXT"]), stage.rcode("www.example.com")),
        ("\"a b\"\n".into(), "NXDOMAIN".into())
    );
    eventually("the history has it", || stage.does(&["log", "example.com"]).contains("serial 10"));
    let log = stage.does(&["log", "example.com"]);
    assert!(log.contains("owner api") && log.contains("who api command"), "{log}");
    // A command that was killed leaves what the zone has been, and that is in the history; or an edit that was saved just then.
    let (file, left) = ("data/kept/example.com.zone", "data/kept/.example.com.zone.back");
    let had = read(&stage.folder.0.join(file));
    stage.folder.write(left, &had);
    stage.does(&["modify", "example.com", "add more A 192.0.2.3"]);
    assert_eq!(stage.files().len(), 1);
    stage.folder.write(left, &(had + "mine A 192.0.2.66\n"));
    stage.refuses(&["modify", "example.com", "add much A 192.0.2.4"], "was left by a command that did not end");
    assert!(read(&stage.folder.0.join(left)).contains("mine"));
    std::fs::remove_file(stage.folder.0.join(left)).unwrap();
    // It goes back like any zone of a file, and all of it is there after a restart.
    stage.does(&["rollback", "example.com", "8"]);
    assert_eq!(stage.short(&["www.example.com"]).lines().count(), 2);
    stage.server.signal("TERM");
    let folder = stage.folder;
    assert_eq!(stage.server.ended(), Some(0));
    stage = Stage { server: Server::start(&folder, &["-c", "dunlin.toml"]), folder };
    assert_eq!(stage.short(&["www.example.com"]).lines().count(), 2);

    stage.does(&["remove", "example.com"]);
    assert_eq!((stage.rcode("www.example.com"), stage.files()), ("REFUSED".to_string(), vec![]));
    stage.does(&["add", "example.com", "texts/a zone"]);
    assert_eq!(stage.short(&["www.example.com"]), "192.0.2.1\n");
}

#[test]
fn what_cannot_be_done_leaves_all_as_it_was() {
    let stage = Stage::new("[[zone]]\nname = \"configured\"\nfile = \"texts/a zone\"\n");
    let many: String = (0..100).map(|i| format!("h{i} A 192.0.2.1\n")).collect();
    stage.folder.write("texts/many", &format!("{ZONE}{many}"));
    stage.folder.write("texts/broken", &ZONE.replace("192.0.2.1", "192.0.2"));
    stage.folder.write("texts/without", "$TTL 300\nwww A 192.0.2.1\n");
    stage.folder.write("texts/including", &format!("{ZONE}$INCLUDE /etc/hostname\n"));
    stage.refuses(&["add", "configured", "texts/a zone"], "there is a zone configured. already");
    stage.refuses(&["add", "z", "texts/nothing"], "texts/nothing: No such file");
    stage.refuses(&["add", "z", "texts"], "is no file");
    stage.refuses(&["add", "z", "texts/broken"], "/texts/broken:5:7: this is no IPv4 address; ");
    stage.refuses(&["add", "z", "texts/without"], "SOA");
    stage.refuses(&["add", "z", "texts/including"], "hostname");
    stage.refuses(&["add", "z..", "texts/many"], "is no name of a zone");
    stage.refuses(&["add", ".", "texts/many"], "write it as [[zone]]");
    stage.refuses(&["add", "a/b", "texts/many"], "write it as [[zone]]");
    let misused = stage.folder.ctl(&["zone", "add", "z"]);
    assert_eq!(misused.status.code(), Some(2));
    assert!(text(&misused.stderr).contains("write zone add NAME FILE"));
    for (words, expect) in [
        (&["zone", "list", "--force", "z"][..], "--force goes with zone add, modify and publish"),
        (&["zone", "log", "z", "--serial", "1"], "--serial goes with zone show"),
    ] {
        let misused = stage.folder.ctl(words);
        assert_eq!((misused.status.code(), text(&misused.stderr).contains(expect)), (Some(2), true), "{words:?}");
    }
    stage.refuses(&["remove", "z"], "no zone z. is configured");
    stage.refuses(&["modify", "z", "delete a"], "no zone z. is configured");
    stage.refuses(&["remove", "configured"], "was not added by a command");
    stage.refuses(&["modify", "configured", "delete www"], "was not added by a command");
    assert_eq!(stage.rcode("www.z"), "REFUSED");

    stage.does(&["add", "z", "texts/many"]);
    stage.refuses(&["add", "z", "texts/many"], "there is a zone z. already");
    stage.refuses(&["modify", "z", "put a A 192.0.2.1"], "`put a A 192.0.2.1` is no change");
    stage.refuses(&["modify", "z", "delete ns"], "has no address");
    stage.refuses(&["modify", "z", "delete nobody"], "changes nothing");
    stage.refuses(&["modify", "z", "add www CNAME ns"], "cannot stand beside");
    stage.refuses(&["modify", "z", "add x A 192.0.2.7", "delete x"], "is deleted again by a later change");
    stage.refuses(&["modify", "z", "add @ SOA ns host 5 1 2 3 4"], "its serial does not follow");
    stage.refuses(&["modify", "z", "delete @ NS", "add www A 192.0.2.1"], "NS ns.z.` stays: no zone can be without it");
    stage.refuses(&["modify", "z", "delete @ SOA", "delete h1"], "stays: no zone can be without it");
    stage.refuses(&["modify", "z", "add www.other. A 192.0.2.1"], "www.other. lies outside the zone");
    stage.refuses(&["modify", "z", "add a SOA ns host 99 1 2 3 4"], "an SOA stands at the zone's apex");
    stage.refuses(&["modify", "z", "add", "t", "TXT", "v=DKIM1; p=abc"], "would be a comment");
    stage.refuses(&["modify", "z", "add z RRSIG A 8 1 300 20260101000000 20260101000000 1 z AAAA"], "signed");
    stage.refuses(&["modify", "z", "add h1 A 192.0.2.9", "add h2 A 192"], "this is no IPv4 address");
    assert_eq!(stage.short(&["h1.z"]), "192.0.2.1\n", "one of two that were wished together");
    // The guards hold what looks like an accident, unless it is meant.
    let deletes: Vec<String> = (0..90).map(|i| format!("delete h{i}")).collect();
    let words: Vec<&str> = ["modify", "z"].into_iter().chain(deletes.iter().map(String::as_str)).collect();
    stage.refuses(&words, "if that is meant, say `zone modify --force`");
    assert_eq!(stage.short(&["h1.z"]), "192.0.2.1\n");
    stage.does(&[&["--force"], &words[..]].concat());
    assert_eq!((stage.rcode("h1.z"), stage.short(&["h95.z"])), ("NXDOMAIN".to_string(), "192.0.2.1\n".to_string()));
    assert!(!stage.folder.ctl(&["status"]).stdout.is_empty());
    // All but what no zone can be without goes from the apex, as by an update.
    stage.does(&["modify", "z", "add @ TXT t"]);
    stage.does(&["modify", "z", "delete @"]);
    assert_eq!((stage.short(&["z", "TXT"]), stage.short(&["z", "NS"])), (String::new(), "ns.z.\n".to_string()));
}

/// Neither the names of a zone above it, nor a server that is killed in the midst of it.
#[test]
fn a_text_that_is_refused_never_has_its_name() {
    let stage = Stage::new("[[zone]]\nname = \"above\"\nfile = \"texts/above\"\n");
    stage.folder.write("texts/above", ZONE);
    stage.folder.does(&["reload"]);
    stage.folder.write("texts/broken", &ZONE.replace("192.0.2.1", "192.0.2"));
    stage.folder.write("texts/without", "$TTL 300\nwww A 192.0.2.1\n");
    for text in ["texts/broken", "texts/without"] {
        stage.refuses(&["add", "z.above", text], if text.ends_with("broken") { text } else { "SOA" });
    }
    let log = read(&stage.folder.0.join("log"));
    assert!(!log.contains("z.above"), "{log}");
    assert_eq!(stage.files(), []);
}

#[test]
fn what_is_forced_outlives_a_start_where_no_history_is_kept() {
    let mut stage = Stage::new("[history]\nsize = \"0\"\n");
    let many: String = (0..20).map(|i| format!("h{i} A 192.0.2.1\n")).collect();
    stage.folder.write("texts/many", &format!("{ZONE}{many}"));
    stage.does(&["add", "z", "texts/many"]);
    let deletes: Vec<String> = (0..18).map(|i| format!("delete h{i}")).collect();
    let words: Vec<&str> = ["modify", "--force", "z"].into_iter().chain(deletes.iter().map(String::as_str)).collect();
    stage.does(&words);
    assert_eq!((stage.rcode("h1.z"), stage.rcode("h19.z")), ("NXDOMAIN".to_string(), "NOERROR".to_string()));
    stage.server.signal("KILL");
    stage.server.wait();
    stage.server = Server::start(&stage.folder, &["-c", "dunlin.toml"]);
    assert_eq!((stage.rcode("h1.z"), stage.rcode("h19.z")), ("NXDOMAIN".to_string(), "NOERROR".to_string()));
}

#[test]
fn what_somebody_has_edited_is_not_written_over() {
    let stage = Stage::new("");
    stage.does(&["add", "z", "texts/a zone"]);
    let edit = |text: &str| stage.folder.write("data/kept/z.zone", text);
    edit(&format!("{}by-hand A 192.0.2.9\n", ZONE.replace("host 7", "host 8")));
    stage.does(&["modify", "z", "add www 60 A 192.0.2.2"]);
    assert_eq!((stage.short(&["www.z"]).lines().count(), stage.short(&["by-hand.z"])), (2, "192.0.2.9\n".to_string()));
    edit(&ZONE.replace("host 7", "host 70").replace("192.0.2.1", "192.0.2"));
    stage.refuses(&["modify", "z", "add www 60 A 192.0.2.3"], "this is no IPv4 address");
    edit(ZONE);
    stage.folder.write("data/kept/y.zone", ZONE);
    stage.refuses(&["add", "y", "texts/a zone"], "there");
}

/// What names zones has been edited, and nobody has asked for that yet: a command is about what is served once it is done, or is refused.
#[test]
fn a_zone_that_the_list_names_by_now_is_not_said_to_be_as_a_command_made_it() {
    let stage = Stage::new("[zones]\nlist = \"list\"\n");
    let listed = |zone: &str| {
        stage.folder.write("listed", &ZONE.replace("192.0.2.1", "192.0.2.77"));
        stage.folder.write("list", &format!("{zone} listed\n"));
    };
    stage.does(&["add", "z", "texts/a zone"]);
    listed("z");
    stage.refuses(&["modify", "z", "add www 60 A 192.0.2.2"], "z.zone, which a command added");
    assert_eq!(stage.short(&["www.z"]), "192.0.2.77\n");
    listed("y");
    stage.refuses(&["add", "y", "texts/a zone"], "the zone y. is read from listed");
    stage.folder.does(&["reload"]);
    assert_eq!((stage.short(&["www.y"]), stage.short(&["www.z"])), ("192.0.2.77\n".into(), "192.0.2.1\n".into()));
}

#[test]
fn what_updates_have_taken_over_is_not_removed_by_a_command() {
    let stage = Stage::new("");
    stage.does(&["add", "z.example", "texts/a zone"]);
    let table = "[[zone]]\nname = \"z.example\"\nfile = \"data/kept/z.example.zone\"\nallow-update = [\"key:k\"]\n";
    stage.folder.configure(&format!("[[key]]\nname = \"k\"\nsecret-file = \"k.key\"\n{table}"));
    stage.folder.does(&["reload"]);
    for words in [&["remove", "z.example"][..], &["modify", "z.example", "delete www"]] {
        stage.refuses(words, "was not added by a command");
    }
    assert_eq!(stage.short(&["www.z.example"]), "192.0.2.1\n");
}

/// It would be a command of its own, of which nobody sees what came of it.
#[test]
fn a_line_break_in_a_word_is_not_sent() {
    let stage = Stage::new("");
    stage.does(&["add", "z", "texts/a zone"]);
    for words in [
        &["zone", "modify", "z", "add a TXT x\nstop"][..],
        &["zone", "modify", "z", "add a TXT \"x\ty\""],
        &["reload", "z\nstop"],
    ] {
        let output = stage.folder.ctl(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains("line break"), "{}", text(&output.stderr));
    }
    assert_eq!((stage.rcode("a.z"), stage.short(&["www.z"])), ("NXDOMAIN".to_string(), "192.0.2.1\n".to_string()));
}

#[test]
fn zones_below_and_above_others_come_and_go() {
    let stage = Stage::new("[[zone]]\nname = \"example\"\nfile = \"texts/a zone\"\n");
    stage.does(&["add", "sub.example", "texts/a zone"]);
    assert_eq!(stage.short(&["www.sub.example"]), "192.0.2.1\n");
    stage.does(&["modify", "sub.example", "add a A 192.0.2.7"]);
    assert_eq!(stage.short(&["a.sub.example"]), "192.0.2.7\n");
    stage.does(&["remove", "sub.example"]);
    assert_eq!(
        (stage.rcode("www.sub.example"), stage.short(&["www.example"])),
        ("NXDOMAIN".into(), "192.0.2.1\n".into())
    );
}

/// Somebody has moved it away, or a backup was brought back without it.
#[test]
fn zones_whose_folder_is_gone_are_served_until_it_is_back() {
    let mut stage = Stage::new("");
    let (kept, away) = (stage.folder.0.join("data/kept"), stage.folder.0.join("away"));
    // Without zones it is missed by nobody.
    stage.server.signal("TERM");
    stage.server.wait();
    std::fs::remove_dir(&kept).unwrap();
    stage.server = Server::start(&stage.folder, &["-c", "dunlin.toml"]);
    stage.does(&["add", "example.com", "texts/a zone"]);
    std::fs::rename(&kept, &away).unwrap();
    stage.folder.refuses(&["reload"], "put it back, or an empty one");
    assert_eq!(stage.short(&["www.example.com"]), "192.0.2.1\n");
    stage.server.signal("TERM");
    stage.server.wait();
    let output = stage.folder.dunlin(&["compile", "-c", "dunlin.toml"]);
    assert!(text(&output.stderr).contains("put it back, or an empty one"), "{}", text(&output.stderr));
    std::fs::rename(&away, &kept).unwrap();
    stage.server = Server::start(&stage.folder, &["-c", "dunlin.toml"]);
    assert_eq!(stage.short(&["www.example.com"]), "192.0.2.1\n");
    stage.does(&["remove", "example.com"]);
    assert_eq!(stage.rcode("www.example.com"), "REFUSED");
}
