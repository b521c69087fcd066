//! What an operator writes, and exactly what is said about it.

use super::*;
use policy::Step;

fn good(text: &str) -> Config {
    match parse(Path::new("/etc/dunlin/dunlin.toml"), text) {
        Ok(config) => config,
        Err(complaints) => panic!("{}", shown(&complaints)),
    }
}

fn shown(complaints: &[Complaint]) -> String {
    complaints.iter().map(|c| c.to_string()).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn bad(text: &str, expect: &str) {
    match parse(Path::new("dunlin.toml"), text).and_then(|config| config.zones()) {
        Ok(_) => panic!("accepted: {text}"),
        Err(complaints) => assert_eq!(shown(&complaints), expect.trim_start_matches('\n')),
    }
}

#[test]
fn an_empty_file_is_a_working_configuration() {
    let c = good("");
    assert_eq!(c.server.listen, ["127.0.0.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
    assert_eq!(c.server.user.as_deref(), Some("dunlin"));
    assert_eq!(c.control.http, Some("127.0.0.1:5380".parse().unwrap()));
    assert!(c.limits.enabled && c.limits.rrl.is_some() && c.roster.is_empty());
}

#[test]
fn what_is_not_built_is_accepted_where_it_changes_nothing() {
    good("[resolver]\nvalidate = false\nsha1 = false\nclock = \"system\"\n[cache]\npersist = false\n");
    good(
        "[resolver]\nenabled = false\nvalidate = true\n[[resolver.forward]]\nzone = \".\"\n[cache]\nsize = \"1GiB\"\n",
    );
    good("[log]\nquery-log = \"\"\n");
}

const RESOLVER: &str = r#"
[resolver]
allow = ["192.0.2.0/24"]
outgoing = ["192.0.2.9"]
port = 5353
serve-stale = false
[[resolver.forward]]
zone = "corp.example"
servers = ["192.0.2.1", "[2001:db8::1]:54"]
only = true
[cache]
size = "1GiB"
persist = false
ttl-min = "5s"
"#;

#[test]
fn a_resolver_is_read_and_switched_on_by_its_forwards() {
    let config = good(RESOLVER);
    let resolver = config.resolver.unwrap();
    assert_eq!(resolver.forwards[0].zone.to_string(), "corp.example.");
    let servers: Vec<String> = resolver.forwards[0].servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["192.0.2.1:5353", "[2001:db8::1]:54"]);
    assert!(resolver.prefetch && !resolver.serve_stale);
    assert_eq!((config.cache.size, config.cache.ttl_min_s, config.cache.ttl_max_s), (1 << 30, 5, 86_400));
    assert!(!config.cache.persist && good("").cache.persist);
    assert!(good("").resolver.is_none());
    let any = good(&RESOLVER.replace("[\"192.0.2.0/24\"]", "[\"any\"]"));
    assert_eq!(any.resolver.unwrap().allow.len(), 2, "of each family");
    assert!(good(&RESOLVER.replace("[resolver]", "[resolver]\nenabled = false")).resolver.is_none());
}

#[test]
fn what_is_wrong_with_a_forward_is_said() {
    bad(
        "[[resolver.forward]]\nservers = [\"tls://192.0.2.1#a\", \"nobody\"]\n[cache]\nsize = \"1\"\n",
        "
dunlin.toml:1:1: error: this forward has no zone
    [[resolver.forward]]
    ^^^^^^^^^^^^^^^^^^^^
    write zone = \".\" for all names
dunlin.toml:2:12: error: `tls://192.0.2.1#a`, a server asked over an encrypted channel: not built yet
    servers = [\"tls://192.0.2.1#a\", \"nobody\"]
               ^^^^^^^^^^^^^^^^^^^
    remove it; this version does not do it
dunlin.toml:2:33: error: `nobody` is no address of a server
    servers = [\"tls://192.0.2.1#a\", \"nobody\"]
                                    ^^^^^^^^
    write \"192.0.2.53\", \"192.0.2.53:5353\" or \"[2001:db8::53]:53\"
dunlin.toml:4:8: error: this cache holds next to nothing
    size = \"1\"
           ^^^
    write at least size = \"1MiB\"",
    );
}

/// It would answer SERVFAIL to all, and nobody would know why.
#[test]
fn a_resolver_that_can_ask_nobody_is_none() {
    bad(
        "[resolver]\noutgoing = [\"192.0.2.9\"]\n[[resolver.forward]]\nzone = \".\"\nservers = [\"192.0.2.1:0\", \"2001:db8::1\"]
[[resolver.forward]]\nzone = \".\"\nservers = [\"192.0.2.2\"]\n",
        "
dunlin.toml:5:11: error: `outgoing` has no address that one of these can be asked from
    servers = [\"192.0.2.1:0\", \"2001:db8::1\"]
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    add \"::\" to it
dunlin.toml:5:12: error: `192.0.2.1:0` is no address of a server
    servers = [\"192.0.2.1:0\", \"2001:db8::1\"]
               ^^^^^^^^^^^^^
    write \"192.0.2.53\", \"192.0.2.53:5353\" or \"[2001:db8::53]:53\"
dunlin.toml:6:1: error: there is another forward for .
    [[resolver.forward]]
    ^^^^^^^^^^^^^^^^^^^^
    write all its servers into one of them",
    );
    bad(
        "[resolver]\noutgoing = []\n",
        "
dunlin.toml:2:12: error: nobody can be asked from no address
    outgoing = []
               ^^
    remove it, or write [\"0.0.0.0\", \"::\"]",
    );
}

/// It would not start, or nobody would be answered.
#[test]
fn what_can_never_work_is_told_before_the_start() {
    bad(
        "[server]\nlisten = [\"0.0.0.0:53\"]\ndata-dir = \"\"\n[control]\nsocket = \"\"\nhttp = \"192.0.2.1:53\"
[limits]\ntcp-idle = \"0s\"\ntransfer-size = \"0\"\n",
        "
dunlin.toml:3:12: error: the data needs a folder of its own
    data-dir = \"\"
               ^^
    write data-dir = \"/var/lib/dunlin\"
dunlin.toml:5:10: error: the path of a socket has 1 to 107 octets
    socket = \"\"
             ^^
    write socket = \"/run/dunlin/control.sock\"
dunlin.toml:6:8: error: queries are answered at that address, over TCP, too
    http = \"192.0.2.1:53\"
           ^^^^^^^^^^^^^^
    write another port
dunlin.toml:8:12: error: nobody can ask within that time
    tcp-idle = \"0s\"
               ^^^^
    write tcp-idle = \"10s\"
dunlin.toml:9:17: error: no zone could come in that
    transfer-size = \"0\"
                    ^^^
    write as much as a zone may have; there is no way to write \"without limit\"",
    );
}

#[test]
fn all_that_is_built_is_read() {
    let c = good(
        r#"
[server]
listen = ["192.0.2.1:5353"]
workers = 3
data-dir = "data"
user = ""
nsid = "ns1"
allow-query = ["192.0.2.0/24", "2001:db8::/32"]
[control]
socket = "/run/ctl"
http = ""
[limits]
enabled = false
rrl = { per-second = 50, slip = 3, dry-run = true, exempt = [], prefixes = { ipv4 = [[30, 1], [24, 8], [16, 8], [8, 9]] } }
tcp-idle = "2s"
[log]
level = "warn"
[[zone]]
name = "Example.COM"
file = "../zones/e.zone"
allow-query = ["none"]
"#,
    );
    assert_eq!((c.server.workers, c.server.data_dir.to_str()), (Some(3), Some("/etc/dunlin/data")));
    assert_eq!((c.server.user, c.server.nsid.as_deref(), c.control.http), (None, Some("ns1"), None));
    assert_eq!(c.control.socket, Path::new("/run/ctl"));
    let v4 = [(30, 1), (24, 8), (16, 8), (8, 9)].map(|(bits, times)| Step { bits, times });
    let (per_second, slip) = (Some(50), Some(3));
    let written = Rrl { per_second, slip, dry_run: true, prefixes: [Some(v4), None], exempt: vec![] };
    assert_eq!(c.limits.rrl, Some(written));
    assert_eq!((c.limits.enabled, c.limits.tcp_idle_ms, c.level), (false, 2000, Level::Warn));
    assert_eq!(&*c.roster.written[0].apex, b"\x07example\x03com\x00");
    assert_eq!(c.roster.written[0].file, Path::new("/etc/dunlin/../zones/e.zone"));
    assert_eq!(c.roster.written[0].allow_query, Some(Allow::Only(vec![])));
    assert!(matches!(c.server.allow_query, Allow::Only(only) if only.len() == 2));
}

#[test]
fn an_unknown_key_gets_a_suggestion() {
    bad(
        "[server]\nlisen = [\"127.0.0.1:53\"]\n",
        "
dunlin.toml:2:1: error: there is no key `lisen` in [server]
    lisen = [\"127.0.0.1:53\"]
    ^^^^^
    did you mean `listen`?",
    );
}

#[test]
fn everything_wrong_is_said_at_once() {
    bad(
        "[server]\nlisten = [\"127.0.0.1\", 7]\nworkers = \"many\"\n[limts]\n[log]\nlevel = 3\n",
        "
dunlin.toml:2:11: error: `127.0.0.1` is no address with a port
    listen = [\"127.0.0.1\", 7]
              ^^^^^^^^^^^
    write \"127.0.0.1:53\"
dunlin.toml:2:24: error: `listen` is a list of texts, and this is a number
    listen = [\"127.0.0.1\", 7]
                           ^
    write listen = [\"127.0.0.1:53\"]
dunlin.toml:3:11: error: `workers` is \"auto\" or a number, not \"many\"
    workers = \"many\"
              ^^^^^^
    write workers = \"auto\"
dunlin.toml:4:2: error: there is no key `limts` in the file
    [limts]
     ^^^^^
    did you mean `limits`?
dunlin.toml:6:9: error: `level` is a text, and this is a number
    level = 3
            ^
    write level = \"info\"",
    );
}

#[test]
fn what_is_not_built_yet_says_so() {
    for (text, what) in [
        ("[resolver]\nenabled = true\n", "resolving without forwarders"),
        ("[resolver]\nvalidate = true\n", "`validate` in [resolver]"),
        ("[resolver]\n[[resolver.stub]]\nzone = \"a\"\n", "`stub` in [resolver]"),
        ("[[local]]\nzone = \"a\"\n", "`local` in the file"),
        ("[[zone]]\nname = \"a\"\nfile = \"a\"\nallow-query = [\"key:a\"]\n", "a TSIG key here"),
        ("[log]\nquery-log = \"queries\"\n", "`query-log` in [log]"),
    ] {
        let complaints = parse(Path::new("a"), text).expect_err(text);
        let said: Vec<&str> = complaints.iter().map(|c| c.what.as_str()).collect();
        assert_eq!(said, [format!("{what}: not built yet")], "{text}");
    }
}

#[test]
fn a_zone_comes_from_its_primaries_and_is_kept_below_the_data_folder() {
    let config = good(
        "[server]\ndata-dir = \"data\"\n[limits]\ntransfer-size = \"1GiB\"\n\
        [[zone]]\nname = \"a.b\"\nprimaries = [\"192.0.2.1\", \"[2001:db8::1]:5300\"]\ntransfer-source = [\"192.0.2.9\", \"::1\"]\n\
        [[zone]]\nname = \"c\"\nfile = \"c.zone\"\nprimaries = [\"192.0.2.1\"]\n\
        [[zone]]\nname = \"d\"\nfile = \"d.zone\"\nprimaries = []\nnotify = [\"192.0.2.2\"]\n",
    );
    let zones = &config.roster.written;
    let files: Vec<&str> = zones.iter().map(|zone| zone.file.to_str().unwrap()).collect();
    assert_eq!(files, ["/etc/dunlin/data/secondaries/a.b.zone", "/etc/dunlin/c.zone", "/etc/dunlin/d.zone"]);
    let primaries: Vec<String> = zones[0].primaries().iter().map(ToString::to_string).collect();
    assert_eq!(primaries, ["192.0.2.1", "[2001:db8::1]:5300"]);
    assert!(zones[0].is_awaited() && zones[1].is_awaited() && !zones[2].is_secondary());
    assert_eq!(zones[2].peers.as_ref().unwrap().notify.len(), 1);
    assert_eq!(config.limits.transfer_octets, 1 << 30);
    let apexes: Vec<Box<[u8]>> = config.zones().unwrap().into_iter().map(|zone| zone.apex).collect();
    assert_eq!(apexes, [b"\x01d\0"[..].into()], "the others have still to come");
}

#[test]
fn a_zone_has_one_owner() {
    bad(
        "[[zone]]\nname = \"a\"\nprimaries = [\"192.0.2.1\"]\nallow-update = []\nserial = \"unixtime\"\n\
        [[zone]]\nname = \"b\"\nprimaries = [\"ns1\", \"192.0.2.1#k\", \"::1\", \"::1\"]\n\
        [[zone]]\nname = \"c\"\nfile = \"c\"\ntransfer-source = [\"127.0.0.1\"]\n\
        [[zone]]\nname = \"d\"\nprimaries = []\n\
        [[zone]]\nname = \"e\"\nfile = \"c\"\nprimaries = [\"192.0.2.1\"]\n",
        "
dunlin.toml:4:16: error: this zone comes from its primaries, so it takes no updates
    allow-update = []
                   ^^
    remove allow-update, or primaries
dunlin.toml:5:10: error: this zone comes from its primaries, so it takes no serials of ours
    serial = \"unixtime\"
             ^^^^^^^^^^
    remove serial, or primaries
dunlin.toml:8:14: error: `ns1` is no address
    primaries = [\"ns1\", \"192.0.2.1#k\", \"::1\", \"::1\"]
                 ^^^^^
    write \"192.0.2.1\", \"192.0.2.1:5300\", \"[2001:db8::1]:5300\" or \"192.0.2.1#KEY\", KEY being the name of a [[key]]
dunlin.toml:8:21: error: there is no key k.
    primaries = [\"ns1\", \"192.0.2.1#k\", \"::1\", \"::1\"]
                        ^^^^^^^^^^^^^
    write it as a [[key]]
dunlin.toml:8:43: error: [::1]:53 is written twice
    primaries = [\"ns1\", \"192.0.2.1#k\", \"::1\", \"::1\"]
                                              ^^^^^
    remove one of them
dunlin.toml:12:19: error: nothing of this zone is asked for or announced
    transfer-source = [\"127.0.0.1\"]
                      ^^^^^^^^^^^^^
    remove it, or add primaries or notify
dunlin.toml:13:1: error: this zone has no file
    [[zone]]
    ^^^^^^^^
    write file = \"example.com.zone\"
dunlin.toml:17:8: error: c is the file of another zone, and what comes is written to it
    name = \"e\"
           ^^^
    write a file of its own for each",
    );
}

#[test]
fn an_address_that_is_listened_on_twice() {
    bad(
        "[server]\nlisten = [\"[::1]:53\", \"[0::1]:53\"]\n",
        "
dunlin.toml:2:23: error: [::1]:53 is written twice
    listen = [\"[::1]:53\", \"[0::1]:53\"]
                          ^^^^^^^^^^^
    remove one of them",
    );
}

#[test]
fn broken_toml_is_shown_and_the_rest_still_read() {
    bad(
        "[server]\nlisten = [\"127.0.0.1:53\"\n\n[log]\nlevel = \"loud\"\n",
        "
dunlin.toml:4:1: error: this is not TOML: missing comma between array elements, expected `,`
    [log]
    ^",
    );
    bad(
        "[server]\nuser = root\n[log]\nlevel = \"loud\"\n",
        "
dunlin.toml:2:8: error: this is not TOML: string values must be quoted, expected literal string
    user = root
           ^^^^
dunlin.toml:4:9: error: there is no level `loud`
    level = \"loud\"
            ^^^^^^
    write error, warn, info or debug",
    );
}

#[test]
fn a_zone_twice_without_file_or_without_name() {
    bad(
        "[[zone]]\nname = \"a.example\"\nfile = \"a\"\n[[zone]]\nname = \"A.example.\"\nfile = \"b\"\n[[zone]]\n",
        "
dunlin.toml:5:8: error: the zone a.example. is written twice
    name = \"A.example.\"
           ^^^^^^^^^^^^
    remove one of them
dunlin.toml:7:1: error: this zone has no name
    [[zone]]
    ^^^^^^^^
    write name = \"example.com\"
dunlin.toml:7:1: error: this zone has no file
    [[zone]]
    ^^^^^^^^
    write file = \"example.com.zone\"",
    );
}

#[test]
fn prefixes_of_the_rate_limit_are_four_and_shrink() {
    for wrong in [
        "[]",
        "24",
        "[32, 24, 20, 18]",
        "[[32, 1], [24, 32], [20, 256]]",
        "[[24, 1], [32, 32], [20, 256], [18, 768]]",
        "[[33, 1], [24, 32], [20, 256], [18, 768]]",
        "[[32, 32], [24, 1], [20, 256], [18, 768]]",
        "[[32, 0], [24, 32], [20, 256], [18, 768]]",
    ] {
        let text = format!("[limits.rrl]\nprefixes = {{ ipv4 = {wrong} }}\n");
        let said = shown(&parse(Path::new("dunlin.toml"), &text).unwrap_err());
        assert!(said.starts_with("dunlin.toml:2:21: error: `ipv4` is four pairs"), "{said}");
        assert!(said.ends_with("write ipv4 = [[32, 1], [24, 32], [20, 256], [18, 768]]"), "{said}");
    }
}

#[test]
fn a_list_that_is_missing_is_shown_where_it_is_named() {
    bad(
        "[zones]\nlist = \"/nonexistent/zones.list\"\n",
        "
dunlin.toml:2:8: error: the list /nonexistent/zones.list cannot be read: No such file or directory (os error 2)
    list = \"/nonexistent/zones.list\"
           ^^^^^^^^^^^^^^^^^^^^^^^^^
    put it back, or an empty one if its zones are to go, as the server may read it",
    );
}

#[test]
fn lists_and_folders_of_zones() {
    let folder = Scratch::new("lists");
    for name in ["a.example.zone", "b.example.zone", "notes.txt", ".hidden.zone"] {
        folder.write(&format!("zones/{name}"), "");
    }
    folder.write("zones.list", "# mine\n\nb.example other/b\nc.example  c file\n");
    let file = folder.0.join("dunlin.toml");
    let text = "[zones]\ndirectory = \"zones\"\nlist = \"zones.list\"\n[[zone]]\nname = \"a.example\"\nfile = \"x\"\n";
    let zones = parse(&file, text).unwrap().zones().unwrap();
    let found: Vec<String> = zones
        .iter()
        .map(|z| {
            let name = wire::Name::from_wire(&z.apex).unwrap();
            format!("{name} {}", z.file.strip_prefix(&folder.0).unwrap().display())
        })
        .collect();
    assert_eq!(found, ["a.example. x", "b.example. other/b", "c.example. c file"]);

    folder.write("zones.list", "a.example a\nb.example\nA.example. c\n..example d\n");
    let complaints = parse(&file, text).unwrap().zones().unwrap_err();
    let said: Vec<String> = complaints.iter().map(|c| format!("{}: {}", c.line, c.what)).collect();
    let expect = [
        "2: the zone `b.example` has no file",
        "3: this zone stands twice in the list",
        "4: `..example` is no name of a zone: an empty label",
    ];
    assert_eq!(said, expect);
}

#[test]
fn keys_and_who_may_update() {
    let folder = Scratch::new("keys");
    folder.write("plain.key", "MDEyMzQ1Njc4OWFiY2RlZg==\n");
    folder.write(
        "bind.key",
        "key \"secret-algorithm\" {\n algorithm hmac-sha384;\n secret \"MDEyMzQ1Njc4OWFiY2RlZg==\";\n};\n",
    );
    folder.write("old.key", "key \"a\" {\n algorithm hmac-ripemd160;\n secret \"MDEyMzQ1Njc4OWFiY2RlZg==\";\n};\n");
    folder.write("short.key", "MDEy\n");
    let file = folder.0.join("dunlin.toml");
    let key = |name: &str, more: &str| format!("[[key]]\nname = \"{name}\"\n{more}\n");
    let text = key("a", "secret-file = \"plain.key\"")
        + &key("B.example", "algorithm = \"hmac-sha512\"\nsecret-file = \"bind.key\"")
        + &key("c", "secret-file = \"bind.key\"")
        + "[[zone]]\nname = \"z\"\nfile = \"z\"\nallow-update = [\"key:a name:x.z type:TXT\"]\n";
    let config = parse(&file, &text).unwrap();
    assert_eq!(format!("{:?}", config.keys), "Keys([a. hmac-sha256, b.example. hmac-sha512, c. hmac-sha384])");
    assert!(config.roster.written[0].allow_update.allow(b"\x01a\0", b"\x01x\x01z\0", 16));

    let said = |text: &str| -> Vec<String> {
        parse(&file, text).unwrap_err().iter().map(|c| format!("{}: {}", c.line, c.what)).collect()
    };
    let none = folder.0.join("none.key");
    assert_eq!(
        said(
            &(key("a", "algorithm = \"hmac-crc\"\nsecret-file = \"plain.key\"")
                + &key("b", "secret-file = \"none.key\"")
                + &key("c", "secret-file = \"old.key\"")
                + "[[zone]]\nname = \"z\"\nfile = \"z\"\nallow-update = [\"key:a\", \"key:b\"]\n")
        ),
        [
            "3: there is no algorithm `hmac-crc`".to_string(),
            format!("7: the secret {} cannot be read: No such file or directory (os error 2)", none.display()),
            "10: there is no algorithm `hmac-ripemd160`".to_string(),
        ]
    );
    assert!(said(&key("a", "secret-file = \"short.key\""))[0].contains("short.key holds no secret of at least 10"));
    assert_eq!(said(&key("a", "")), ["1: this key has no secret-file"]);
    let zone = "[[zone]]\nname = \"z\"\nfile = \"z\"\nallow-update = [\"key:nobody\", \"any\"]\n";
    assert_eq!(said(zone), ["4: there is no key nobody.", "4: `any` is no word of a rule"]);

    let relative = key("a", "secret-file = \"plain.key\"")
        + "[[zone]]\nallow-update = [\"key:a name:www type:A\"]\nname = \"z\"\nfile = \"z\"\n";
    assert_eq!(said(&relative), ["5: www. is no name of this zone: names are written in full"]);

    let zone = |name: &str, more: &str| format!("[[zone]]\nname = \"{name}\"\nfile = \"z\"\n{more}\n");
    let updated = "allow-update = [\"key:a\"]\nwrite-back";
    let a = key("a", "secret-file = \"plain.key\"");
    let config = parse(&file, &(a.clone() + &zone("z", &format!("{updated} = \"5m\"")))).unwrap();
    assert_eq!(config.roster.written[0].write_back, Some(Duration::from_secs(300)));
    for (text, expect) in [
        (zone("z", "serial = \"date\""), "there is no way `date` to give serials"),
        (
            zone("z", "serial = \"increment\"") + "[history]\nsize = \"0\"\n",
            "which serials this zone was given last is in the history, which is to hold nothing",
        ),
        (
            zone("z", "allow-update = [\"key:a\"]\nserial = \"increment\""),
            "each update, and each edit, gives this zone a serial",
        ),
        (zone("z", "write-back = \"5m\""), "there is nothing to write back: nobody may update this zone"),
        (zone("z", &format!("{updated} = \"1ms\"")), "a file is not written that often"),
        (zone("z", &format!("{updated} = \"often\"")), "`often` is no time"),
        (
            zone("z", &format!("{updated} = \"5m\"")) + &zone("y", ""),
            &format!("{} is the file of another zone, and is written back", folder.0.join("z").display()),
        ),
    ] {
        let said = said(&(a.clone() + &text));
        assert!(said.len() == 1 && said[0].ends_with(expect), "{said:?}");
    }
    // Whoever has links to one text has it written over for all of them.
    std::fs::write(folder.0.join("text"), "").unwrap();
    ["one", "other"].iter().for_each(|name| std::os::unix::fs::symlink("text", folder.0.join(name)).unwrap());
    let linked = |name: &str, more: &str| zone(name, more).replace("file = \"z\"", &format!("file = \"{name}\""));
    let said = said(&(a.clone() + &linked("one", &format!("{updated} = \"5m\"")) + &linked("other", "")));
    assert!(said.len() == 1 && said[0].ends_with("is the file of another zone, and is written back"), "{said:?}");
    // So does what a list or a folder names, but for the zone's own name in it.
    std::fs::create_dir(folder.0.join("links")).unwrap();
    std::os::unix::fs::symlink("../text", folder.0.join("links/one.zone")).unwrap();
    let written_back = a.clone() + &linked("one", &format!("{updated} = \"5m\""));
    let gathered = |more: &str| -> Vec<String> {
        let config = parse(&file, &format!("{written_back}{more}")).unwrap();
        config.zones().err().unwrap_or_default().iter().map(ToString::to_string).collect()
    };
    let (directory, list) = ("[zones]\ndirectory = \"links\"\n", "[zones]\nlist = \"list\"\n");
    std::fs::write(folder.0.join("list"), "one one\ntwo two\n").unwrap();
    assert_eq!([gathered(directory), gathered(list)], [vec![], vec![]] as [Vec<String>; 2]);
    // Nor is what `[[zone]]` says otherwise.
    std::fs::write(folder.0.join("list"), "one one\ntwo text\n").unwrap();
    assert_eq!(gathered(&format!("{list}[[zone]]\nname = \"two\"\nfile = \"other two\"\n")), [] as [String; 0]);
    std::os::unix::fs::symlink("../text", folder.0.join("links/two.zone")).unwrap();
    std::fs::write(folder.0.join("list"), "one one\ntwo text\n").unwrap();
    for (more, place) in [(directory, "links/two.zone"), (list, "list:2:1")] {
        let said = gathered(more);
        let is_it =
            |said: &String| said.contains(place) && said.contains("is the file of another zone, and is written back");
        assert!(said.len() == 1 && is_it(&said[0]), "{said:?}");
    }
}

#[test]
fn folders_follow_xdg() {
    let set = |name: &str| match name {
        "HOME" => Some("/home/u".to_string()),
        "XDG_RUNTIME_DIR" => Some("/run/user/7".to_string()),
        _ => None,
    };
    let folders = Folders::of(set);
    assert_eq!(folders.data, Path::new("/home/u/.local/share/dunlin"));
    assert_eq!(folders.socket(), Path::new("/run/user/7/dunlin/control.sock"));
    let bare = Folders::of(|name| (name == "HOME").then(|| "/home/u".to_string()));
    assert_eq!(bare.socket(), Path::new("/home/u/.local/share/dunlin/control.sock"));
}

/// A folder of this test alone, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("dunlin-config-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("zones")).unwrap();
        Scratch(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn loopback_is_exempt_from_the_rate_limit_unless_the_operator_says_who_is() {
    for (written, exempt) in [
        ("", Some(2)),
        ("rrl = true", Some(2)),
        ("rrl = {}", Some(2)),
        ("rrl = { dry-run = true, per-second = 5 }", Some(2)),
        ("rrl = { exempt = [] }", Some(0)),
        ("rrl = { exempt = [\"192.0.2.0/24\"] }", Some(1)),
        ("rrl = false", None),
    ] {
        let found = good(&format!("[limits]\n{written}\n")).limits.rrl;
        assert_eq!(found.as_ref().map(|r| r.exempt.len()), exempt, "{written}");
        if exempt == Some(2) {
            assert_eq!(found.unwrap().exempt, loopback(), "{written}");
        }
    }
}
