//! Commands that need no running server: what they print and how they end.

use crate::running::{Folder, ZONE, at_home, read, text};
use crate::updates;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn what_is_not_built_says_so_and_ends_with_2() {
    let folder = Folder::new();
    for (args, what) in [
        (&["explain", "a.example"][..], "explain"),
        (&["import", "nsd.conf"], "import"),
        (&["ctl", "policy", "test", "a"], "ctl policy"),
        (&["serve", "--resolve"], "serve --resolve"),
        (&["query", "a.example", "+tls"], "+tls"),
        (&["query", "a.example", "+trace"], "+trace"),
    ] {
        let output = folder.dunlin(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stderr), format!("dunlin: {what}: not built yet\n"), "{args:?}");
    }
}

#[test]
fn a_broken_configuration_ends_with_2_and_everything_that_is_wrong() {
    let folder = Folder::new();
    folder.write("dunlin.toml", "[server]\nlisen = []\n[resolver]\nenabled = true\n");
    let expect = "\
dunlin.toml:2:1: error: there is no key `lisen` in [server]
    lisen = []
    ^^^^^
    did you mean `listen`?
dunlin.toml:4:1: error: resolving without forwarders: not built yet
    enabled = true
    ^^^^^^^
    write [[resolver.forward]] with zone = \".\" and servers = [\"192.0.2.53\"]
dunlin: 2 errors in dunlin.toml
";
    for command in ["serve", "check", "compile"] {
        let output = folder.dunlin(&[command, "-c", "dunlin.toml"]);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), expect), "{command}");
    }
    assert_eq!(folder.dunlin(&["serve", "-c", "missing.toml"]).status.code(), Some(2));
}

#[test]
fn check_lists_the_errors_of_all_zones() {
    let folder = Folder::new();
    folder.write("zones/good.example.zone", ZONE);
    folder.write("zones/bad.example.zone", &ZONE.replace("192.0.2.1", "192.0.2").replace("192.0.2.2", "x"));
    folder.write("zones/empty.example.zone", "");
    folder.write("dunlin.toml", "[zones]\ndirectory = \"zones\"\n[server]\nuser = \"\"\n");
    let output = folder.dunlin(&["check"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
    for part in ["zones/bad.example.zone:4:7: error:", "zones/bad.example.zone:5:7: error:", "zone empty.example.:"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(said.ends_with("3 zones, 2 of them with errors, 2 cannot be served\n"), "{said}");
    let json = text(&folder.dunlin(&["check", "--json"]).stdout);
    assert!(json.starts_with("{\"ok\":false,") && json.contains("\"line\":4,\"column\":7"), "{json}");
    folder.write("zones/bad.example.zone", ZONE);
    folder.write("zones/empty.example.zone", ZONE);
    assert_eq!(folder.dunlin(&["check"]).status.code(), Some(0));
    // A file that is no zone's is left out by the server, too.
    folder.write("zones/a..b.zone", ZONE);
    folder.write("zones/bad.example.zone", "");
    let output = folder.dunlin(&["check"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
    for part in ["zones/a..b.zone", "name the file ZONE.zone", "zone bad.example.:", "3 zones, 1 of them"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let json = text(&folder.dunlin(&["check", "--json"]).stdout);
    assert!(json.starts_with("{\"ok\":false,\"configuration\":[\"") && json.contains("bad.example"), "{json}");
    assert!(!folder.0.join(".local").exists(), "check changes nothing");
}

#[test]
fn a_zone_and_its_image_dump_alike() {
    let folder = Folder::new();
    let zone = format!(
        "{ZONE}*.w TXT \"a b\" c\nMail.Sub MX 10 WWW\nsub.www AAAA 2001:db8::1\nd NS ns.d\nns.d A 192.0.2.7\nx TYPE65280 \\# 2 0aff\n"
    );
    folder.write("example.com.zone", &zone);
    let compile = folder.dunlin(&["zone", "compile", "example.com.zone", "--origin", "example.com", "-o", "image"]);
    assert_eq!(compile.status.code(), Some(0), "{}", text(&compile.stderr));
    let of_text = text(&folder.dunlin(&["zone", "dump", "example.com.zone", "--canonical"]).stdout);
    let of_image = text(&folder.dunlin(&["zone", "dump", "image", "--canonical"]).stdout);
    assert_eq!(of_text.lines().count(), 10, "{of_text}");
    assert_eq!(of_image, of_text);
    let plain = text(&folder.dunlin(&["zone", "dump", "example.com.zone"]).stdout);
    assert!(plain.contains("Mail.Sub.example.com. 300 IN MX 10 WWW.example.com.\n"), "{plain}");
    folder.write("again", &of_image);
    let again = text(&folder.dunlin(&["zone", "dump", "again", "--canonical"]).stdout);
    assert_eq!(again, of_text);
}

#[test]
fn diff_is_the_ixfr_between_files_and_images() {
    let folder = Folder::new();
    let old = format!("{ZONE}a TXT x\nb 5 TXT y\nC TXT z\nd TXT z\n");
    let new = format!("{}a TXT x\nb 6 TXT y\nc TXT Z\ne TXT z\n", ZONE.replacen(" 1 ", " 2 ", 1));
    folder.write("old", &old);
    folder.write("new", &new);
    folder.write("like", &format!("; the same\n{}", old.replace("a TXT x", "A.Example.Com. IN TXT \"x\"")));
    let compile = folder.dunlin(&["zone", "compile", "new", "--origin", "example.com", "-o", "image"]);
    assert_eq!(compile.status.code(), Some(0), "{}", text(&compile.stderr));
    let diff = |b| folder.dunlin(&["zone", "diff", "old", b, "--origin", "example.com"]);
    let soa = |text: &str| text.lines().find(|l| l.contains("SOA")).unwrap().to_string();
    let dumped =
        |file| soa(&text(&folder.dunlin(&["zone", "dump", file, "--canonical", "--origin", "example.com"]).stdout));
    let (old_soa, new_soa) = (dumped("old").replace('\t', " "), dumped("new").replace('\t', " "));
    let expect = format!(
        "{old_soa}\nb.example.com. 5 IN TXT \"y\"\nc.example.com. 300 IN TXT \"z\"\nd.example.com. 300 IN TXT \"z\"\n\
         {new_soa}\nb.example.com. 6 IN TXT \"y\"\nc.example.com. 300 IN TXT \"Z\"\ne.example.com. 300 IN TXT \"z\"\n"
    );
    for b in ["new", "image"] {
        let output = diff(b);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), expect.clone()), "{b}");
    }
    let output = diff("like");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), ""), "{}", text(&output.stderr));
    let json = text(&folder.dunlin(&["zone", "diff", "old", "image", "--origin", "example.com", "--json"]).stdout);
    assert_eq!(json.matches("TXT").count(), 6, "{json}");
    assert!(
        json.starts_with("{\"zone\":\"example.com.\",\"removed\":[\"example.com. ")
            && json.ends_with(",\"differs\":true}\n")
    );
    assert_eq!(diff("missing").status.code(), Some(2));
}

#[test]
fn zone_check_names_what_is_wrong_where_it_stands() {
    let folder = Folder::new();
    folder.write("zone", &format!("{ZONE}$INCLUDE more\nx.other. A 192.0.2.1\nc A 192.0.2.1\n"));
    folder.write("more", "a 5 TXT x\na 6 TXT y\nc CNAME a\nd NS gone\n");
    let output = folder.dunlin(&["zone", "check", "zone", "--origin", "example.com"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "more:2:1: warning: a.example.com. TXT: the TTLs",
        "more:3:1: error: c.example.com. CNAME: ",
        "more:4:1: error: ",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(said.contains(": warning: x.other. lies outside the zone example.com."), "{said}");
    assert!(said.ends_with("errors, 2 warnings\n"), "{said}");
    folder.write("soas", &format!("{ZONE}@ MX 10 mail\nfoo SOA ns h 1 2 3 4 5\n"));
    let said = text(&folder.dunlin(&["zone", "check", "soas", "--origin", "example.com"]).stdout);
    assert!(said.contains("error: a SOA belongs to the zone's apex example.com. only"), "{said}");
    assert!(said.contains(" MX: ") && !said.contains("more\n"), "{said}");
    // Of an RRset the record that is at fault.
    folder.write(
        "hosts",
        "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ NS Alias\nns A 192.0.2.1\n@ MX 5 ns\n@ MX 9 none\nalias CNAME ns\n",
    );
    let said = text(&folder.dunlin(&["zone", "check", "hosts", "--origin", "example.com"]).stdout);
    for line in ["hosts:4:1: error: example.com. NS: ", "hosts:7:1: "] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let json = text(&folder.dunlin(&["zone", "check", "zone", "--origin", "example.com", "--json"]).stdout);
    for part in [
        "\"served\":false",
        "\"name\":\"cname-beside-data\"",
        "\"name\":\"out-of-zone\"",
        "\"errors\":2,\"warnings\":2",
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
}

#[test]
fn zone_check_ends_with_1_on_errors_and_2_without_a_file() {
    let folder = Folder::new();
    folder.write("good", ZONE);
    folder.write("bad", "@ SOA\n");
    let check = |file| folder.dunlin(&["zone", "check", file, "--origin", "example.com"]);
    assert_eq!(check("good").status.code(), Some(0));
    assert_eq!(check("bad").status.code(), Some(1));
    assert_eq!(check("missing").status.code(), Some(2));
    let compile = folder.dunlin(&["zone", "compile", "bad", "--origin", "example.com", "-o", "image"]);
    assert_eq!(compile.status.code(), Some(1));
    assert!(!folder.0.join("image").exists());
}

/// What the program says on a terminal, to which all of its output goes, or only its complaints.
fn on_a_terminal(folder: &Folder, args: &str) -> String {
    let mut script = at_home(&folder.0, Command::new("script"));
    let output =
        script.args(["-qec", &format!("{} {args}", env!("CARGO_BIN_EXE_dunlin")), "/dev/null"]).output().unwrap();
    text(&output.stdout)
}

#[test]
fn a_bar_is_for_who_watches_and_for_nobody_else() {
    let folder = Folder::new();
    let many = |address: &str| (0..9000).map(|i| format!("host-{i} A {address}\n")).collect::<String>();
    for (name, address) in [("a", "192.0.2.7"), ("b", "192.0.2.8")] {
        folder.write(&format!("{name}.zone"), &(ZONE.to_string() + &many(address)));
        let compile = format!("zone compile {name}.zone --origin example.com -o {name}.image");
        assert!(on_a_terminal(&folder, &compile).contains(" %"), "{compile}");
    }
    folder.write(
        "dunlin.toml",
        "[server]\nuser = \"\"\ndata-dir = \"data\"\n[[zone]]\nname = \"example.com\"\nfile = \"a.zone\"\n",
    );
    let out = "> out";
    for (command, has_bar) in [
        ("compile -c dunlin.toml", true),
        ("compile -c dunlin.toml --json", false),
        ("check -c dunlin.toml", true),
        ("check -c dunlin.toml --json", false),
        ("zone diff a.image b.image > out", true),
        ("zone diff a.image b.image --json > out", false),
        ("zone diff a.image b.image --json > out 2> err", false),
        ("zone diff a.zone b.zone --json", false),
        ("zone diff a.image a.image", true),
        ("zone dump a.image > out", true),
    ] {
        let said = on_a_terminal(&folder, command);
        assert_eq!(said.contains(" %"), has_bar, "{command}: {said}");
        let (plain, _) = command.split_once(out).unwrap_or((command, ""));
        let output = folder.dunlin(&plain.split_whitespace().collect::<Vec<_>>());
        assert!(!text(&output.stderr).contains('%') && !text(&output.stdout).contains('\r'), "{command}");
    }
}

#[test]
fn completions_for_every_shell() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = folder.dunlin(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(text(&output.stdout).contains("compile"), "{shell}");
    }
}

#[test]
fn a_query_that_nobody_answers_ends_with_1() {
    let folder = Folder::new();
    // A port that was free a moment ago: refused at once, or no answer within a second.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = folder.dunlin(&["query", "a.example", &format!("@{free}"), "+time=1", "+tries=1"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with(&format!(";; no answer from {free}")));
}

/// Root reads it at the start, and whoever the server is then at a reload, maybe weeks later.
#[test]
fn a_check_by_root_names_a_secret_that_the_servers_user_may_not_read() {
    let folder = updates::folder();
    let written = read(&folder.0.join("dunlin.toml"));
    folder.write("dunlin.toml", &written.replace("user = \"\"", "user = \"nobody\""));
    let said_of = |mode| {
        std::fs::set_permissions(folder.0.join("ddns.key"), Permissions::from_mode(mode)).unwrap();
        let mut check = at_home(&folder.0, Command::new("unshare"));
        let output = check.args(["-Ur", env!("CARGO_BIN_EXE_dunlin"), "check", "-c", "dunlin.toml"]).output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    assert!(said_of(0o600).contains("warning: ddns.key cannot be read by nobody, whom the server runs as"));
    let said = said_of(0o644);
    assert!(!said.contains("cannot be read") && said.contains("ddns.key may be read by everybody here"), "{said}");
    // The zone is written back into its folder.
    folder.write("own.zone", updates::ZONE);
    let with = written.replacen("file = \"z.zone\"", "file = \"own.zone\"\nwrite-back = \"1s\"", 1);
    folder.write("dunlin.toml", &with.replace("user = \"\"", "user = \"nobody\""));
    for (mode, is_closed) in [(0o755, true), (0o777, false)] {
        std::fs::set_permissions(&folder.0, Permissions::from_mode(mode)).unwrap();
        let said = said_of(0o644);
        assert_eq!(said.contains("own.zone cannot be written back by nobody"), is_closed, "{said}");
    }
}

/// As when something has gone wrong, and the server is to say what it does.
#[test]
fn a_server_is_found_by_a_configuration_in_which_something_else_is_wrong() {
    let folder = updates::folder();
    let _server = updates::serve(&folder);
    let asked = || folder.dunlin(&["ctl", "-c", "dunlin.toml", "status"]);
    let written = read(&folder.0.join("dunlin.toml"));
    for (what, instead) in [("allow-update", "alow-update"), ("ddns.key", "none.key"), ("http = \"\"", "htp = 5")] {
        let wrong = written.replace(what, instead);
        folder.write("dunlin.toml", &wrong);
        assert!(text(&asked().stdout).starts_with("ok true"), "{}", text(&asked().stderr));
    }
    folder.write("dunlin.toml", &written.replace("socket = \"control.sock\"", "socket = 5"));
    assert!(text(&asked().stderr).contains("dunlin.toml:6:10: error: "), "{}", text(&asked().stderr));
    folder.write("dunlin.toml", "[control");
    assert!(text(&asked().stderr).contains("dunlin.toml:1:9: error: this is not TOML"), "{}", text(&asked().stderr));
    let elsewhere = text(&folder.dunlin(&["ctl", "--socket", "dunlin.toml", "status"]).stderr);
    assert!(elsewhere.contains("no server answers at dunlin.toml (Connection refused"), "{elsewhere}");
}
