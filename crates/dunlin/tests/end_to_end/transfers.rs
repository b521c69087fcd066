//! Zones given away as a whole: to clients that people use, to today's servers as secondaries, slowly, and while they change.

use crate::running::{Folder, Server, eventually, read, text};
use crate::updates::{DDNS, KEY, update};
use difference::{fleet::free_port, peers};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const CONFIGURATION: &str = "[[key]]
name = \"ddns\"
secret-file = \"ddns.key\"
[[zone]]
name = \"z.example\"
file = \"z.zone\"
allow-update = [\"key:ddns\"]
allow-transfer = [\"127.0.0.0/8#ddns\"]
[[zone]]
name = \"shut.example\"
file = \"odd.zone\"
[[zone]]
name = \"open.example\"
file = \"odd.zone\"
allow-transfer = [\"127.0.0.1\"]
[[zone]]
name = \"many.example\"
file = \"many.zone\"
allow-update = [\"key:ddns\"]
allow-transfer = [\"127.0.0.1\"]
[[zone]]
name = \".\"
file = \"root.zone\"
allow-transfer = [\"any\"]
";
/// Glue, names below cuts and DNAMEs, wildcards, empty non-terminals, capitals, an unknown type, a large RRset.
const ZONE: &str = "$TTL 300
@ SOA ns Host.Master 7 1 2 3 4
@ NS ns
@ NS ns.elsewhere.test.
@ MX 10 Mail
ns A 192.0.2.53
ns AAAA 2001:db8::53
Mail A 192.0.2.25
www 60 A 192.0.2.1
www 60 A 192.0.2.2
*.wild TXT star
a.b.c.d TXT deep
cut NS ns.cut
cut NS ns
ns.cut A 192.0.2.54
below.cut TXT occluded
tree DNAME forest
odd TYPE65280 \\# 4 01020304
srv SRV 1 2 3 Mail
alias CNAME WWW
";

fn zone() -> String {
    (0..400).fold(ZONE.to_string(), |mut text, i| {
        let _ = writeln!(text, "large TXT \"{i} {}\"", "x".repeat(120));
        text
    })
}

/// More than the kernel's buffers hold for a peer that does not read.
fn many() -> String {
    let head = "$TTL 300\n@ SOA ns host 1 1 2 3 4\n@ NS ns\nns A 192.0.2.53\na TXT v0\nz TXT v0\n".to_string();
    (0..30_000).fold(head, |mut text, i| {
        let _ = writeln!(text, "n{i} TXT {}", "x".repeat(230));
        text
    })
}

fn root_zone() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/data/root-2017082100.signed.zone")
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("ddns.key", &format!("{KEY}\n"));
    folder.write("z.zone", &zone());
    // What Knot takes no zone with.
    folder.write("odd.zone", &format!("{}x.tree TXT occluded\n", zone()));
    folder.write("many.zone", &many());
    std::fs::copy(root_zone(), folder.0.join("root.zone")).unwrap();
    folder.configure(CONFIGURATION);
    folder
}

fn serve(folder: &Folder) -> Server {
    Server::start(folder, &["-c", "dunlin.toml"])
}

/// What a program prints.
fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

fn dig(address: SocketAddr, words: &[&str]) -> String {
    let mut dig = peers::command("dig");
    dig.args([&format!("@{}", address.ip()), "-p", &address.port().to_string(), "+tries=1", "+time=30"]).args(words);
    said(dig)
}

/// Records as `zone dump --canonical` prints them.
fn canonical(folder: &Folder, zone: &str, records: &str) -> String {
    // dig prints the signatures of messages, too.
    let is_of_zone = |line: &&str| !line.contains("ANY\tTSIG\t");
    folder.write("transferred", &records.lines().filter(is_of_zone).collect::<Vec<_>>().join("\n"));
    let output = folder.dunlin(&["zone", "dump", "transferred", "--origin", zone, "--canonical"]);
    assert_eq!(output.status.code(), Some(0), "{}\n{records}", text(&output.stderr));
    text(&output.stdout)
}

const WITH_KEY: &str = "hmac-sha256:ddns";

#[test]
fn dig_kdig_and_dnspython_get_what_zone_dump_has() {
    let folder = folder();
    let server = serve(&folder);
    let (key, port) = (format!("{WITH_KEY}:{KEY}"), server.address.port().to_string());
    for (zone, file, key) in
        [("z.example", "z.zone", Some(&key)), (".", "root.zone", None), ("open.example", "odd.zone", Some(&key))]
    {
        let expect = canonical(&folder, zone, &read(&folder.0.join(file)));
        let keyed = |flag| key.into_iter().flat_map(move |key| [flag, &key[..]]);
        let words: Vec<&str> = [zone, "AXFR", "+onesoa"].into_iter().chain(keyed("-y")).collect();
        assert!(canonical(&folder, zone, &dig(server.address, &words)) == expect, "dig {zone}");
        let mut kdig = peers::command("kdig");
        kdig.args(["@127.0.0.1", "-p", &port, zone, "AXFR", "+noall", "+answer", "+noidn"]).args(keyed("-y"));
        assert!(canonical(&folder, zone, &said(kdig)) == expect, "kdig {zone}");
        let mut python = peers::command("python3");
        python.args(["-c", DNSPYTHON, &port, zone, if key.is_some() { KEY } else { "" }]);
        assert!(canonical(&folder, zone, &said(python)) == expect, "dnspython {zone}");
    }
}

/// Prints a zone that it has transferred; signatures are checked.
const DNSPYTHON: &str = r#"
import sys, dns.zone, dns.query, dns.tsigkeyring, dns.name
port, name, secret = int(sys.argv[1]), sys.argv[2], sys.argv[3]
keyring = dns.tsigkeyring.from_text({"ddns": secret}) if secret else None
zone = dns.zone.Zone(dns.name.from_text(name), relativize=False)
query, _ = dns.xfr.make_query(zone, keyring=keyring)
dns.query.inbound_xfr("127.0.0.1", zone, query, port=port)
zone.to_file(sys.stdout, relativize=False)
"#;

#[test]
fn a_zone_that_was_never_good_is_asked_for_again() {
    let folder = Folder::new();
    let zone = |name: &str, to: &str| {
        format!("[[zone]]\nname = \"{name}.example\"\nfile = \"none\"\nallow-transfer = [{to}]\n")
    };
    let awaited = zone("awaited", "\"127.0.0.1\"").replace("file = \"none\"", "primaries = [\"127.0.0.1:1\"]");
    folder.configure(&(zone("z", "\"127.0.0.1\"") + &zone("shut", "") + &awaited));
    let server = serve(&folder);
    for (zone, expect) in [("z", "SERVFAIL"), ("awaited", "SERVFAIL"), ("shut", "REFUSED"), ("elsewhere", "NOTAUTH")] {
        let said = dig(server.address, &[&format!("{zone}.example"), "AXFR", "+all"]);
        assert!(said.contains(expect), "{zone}: {said}");
    }
}

#[test]
fn who_may_not_is_told_why() {
    let folder = folder();
    let server = serve(&folder);
    let right = format!("{WITH_KEY}:{KEY}");
    let other = format!("hmac-sha256:other:{KEY}");
    let wrong = format!("{WITH_KEY}:AAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    for (words, expect) in [
        (&["z.example", "AXFR"][..], "REFUSED"),
        (&["shut.example", "AXFR", "-y", &right], "REFUSED"),
        (&["z.example", "AXFR", "-y", &other], "BADKEY"),
        (&["z.example", "AXFR", "-y", &wrong], "BADSIG"),
        (&["elsewhere.example", "AXFR"], "NOTAUTH"),
        (&["www.z.example", "AXFR", "-y", &right], "NOTAUTH"),
        (&["z.example", "IXFR=1", "+notcp"], "REFUSED"),
    ] {
        let words: Vec<&str> = words.iter().copied().chain(["+all"]).collect();
        let said = dig(server.address, &words);
        assert!(said.contains(expect), "{words:?}: {said}");
    }
    let counted = |name| counted(&folder, name);
    assert_eq!((counted("transfers_refused"), counted("transfers")), (7, 0));
    // Of questions for what has changed, one over UDP or of our own version has the SOA for its answer.
    let soa = |words: &[&str]| dig(server.address, &[words, &["open.example", "+short"]].concat());
    assert_eq!(soa(&["IXFR=1", "+notcp"]).lines().count(), 1);
    assert_eq!(soa(&["IXFR=7", "+tcp"]).lines().count(), 1);
    assert!(soa(&["IXFR=6", "+tcp"]).lines().count() > 400);
    // The last message leaves before it is counted.
    eventually("the count", || counted("transfers") == 1);
    assert!(counted("transfer_octets") > 400 * 120);
}

/// What an operator is told of a counter.
fn counted(folder: &Folder, name: &str) -> u64 {
    let stats = text(&folder.ctl(&["stats", "--json"]).stdout);
    let at = stats.find(&format!("\"{name}\":")).unwrap() + name.len() + 3;
    stats[at..].trim_start().chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// A connection that has asked for a zone.
fn asking(server: &Server, zone: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let mut query = vec![0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in zone.split('.') {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.extend([0, 0, 252, 0, 1]);
    query[1] = (query.len() - 2) as u8;
    stream.write_all(&query).unwrap();
    stream
}

#[test]
fn a_peer_that_reads_octet_by_octet_is_cut_off_and_others_have_their_turn() {
    let folder = folder();
    let server = serve(&folder);
    let mut slow: Vec<TcpStream> = (0..12).map(|_| asking(&server, "many.example")).collect();
    slow.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    eventually("the first are cut off", || {
        slow.iter_mut().for_each(|stream| _ = stream.read(&mut [0]));
        counted(&folder, "transfers_broken") >= 10
    });
    eventually("by the connection's limit", || counted(&folder, "tcp_closed_slow") >= 10);
    assert!(dig(server.address, &["open.example", "AXFR", "+short"]).lines().count() > 400);
    slow.clear();
    eventually("all have ended", || counted(&folder, "transfers_broken") == 12);
}

/// Transfers a zone again and again while its names a and z are changed together, in each message of an update: they are
/// alike in every version. Ends when it has seen some versions.
const VERSIONS: &str = r#"
import sys, dns.zone, dns.query, dns.name
port, seen = int(sys.argv[1]), set()
while len(seen) < 4:
    zone = dns.zone.from_xfr(dns.query.xfr("127.0.0.1", "many.example", port=port, relativize=False), relativize=False)
    texts = {zone.get_rdataset(f"{name}.many.example.", "TXT").to_text() for name in "az"}
    assert len(texts) == 1 and len(zone.nodes) == 30004, (texts, len(zone.nodes))
    seen |= texts
    print(texts, flush=True)
"#;

#[test]
fn a_zone_that_changes_meanwhile_is_given_as_one_version() {
    let folder = folder();
    let server = serve(&folder);
    let mut python = peers::command("python3");
    python.args(["-c", VERSIONS, &server.address.port().to_string()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = python.spawn().unwrap();
    let mut n = 0;
    while child.try_wait().unwrap().is_none() {
        n += 1;
        let both = format!(
            "del a.many.example TXT\ndel z.many.example TXT\nadd a.many.example 300 TXT v{n}\nadd z.many.example 300 TXT v{n}"
        );
        assert_eq!(update(&server, &[], DDNS, &format!("zone many.example\n{both}")), "");
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// While its file is still read it is for those whom it was for: somebody may have taken out of it what others are not to have.
#[test]
fn a_zone_is_given_to_others_as_its_file_says_from_then_on() {
    let folder = folder();
    let shut = CONFIGURATION.replace("allow-update = [\"key:ddns\"]\nallow-transfer = [\"127.0.0.1\"]\n", "");
    folder.configure(&shut);
    let server = serve(&folder);
    let soa = || dig(server.address, &["many.example", "IXFR=0", "+notcp", "+noall", "+comments", "+answer"]);
    assert!(soa().contains("status: REFUSED"));
    folder.write_long_ago("many.zone", &many().replacen("host 1 ", "host 2 ", 1));
    folder.configure(&shut.replace("many.zone\"\n", "many.zone\"\nallow-transfer = [\"127.0.0.1\"]\n"));
    server.signal("HUP");
    let mut first = String::new();
    eventually("it is given away", || {
        first = soa();
        !first.contains("status: REFUSED")
    });
    assert!(first.contains("host.many.example. 2 "), "{first}");
}

/// A server of another make that has the zones from us.
struct Secondary {
    name: &'static str,
    address: SocketAddr,
    child: Child,
    log: PathBuf,
}

impl Drop for Secondary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `{dir}`, `{port}`, `{primary}` and `{key}` stand in the configuration.
fn secondary(
    folder: &Folder,
    primary: u16,
    name: &'static str,
    program: &str,
    words: &[&str],
    conf: &str,
) -> Secondary {
    let (address, dir) = (free_port(), folder.0.join(name));
    std::fs::create_dir_all(dir.join("db")).unwrap();
    let conf = conf.replace("{dir}", &dir.display().to_string()).replace("{port}", &address.port().to_string());
    let conf = conf.replace("{primary}", &primary.to_string()).replace("{key}", KEY);
    let (file, log) = (dir.join("conf"), dir.join("log"));
    std::fs::write(&file, conf).unwrap();
    let out = std::fs::File::create(&log).unwrap();
    let mut command = peers::command(program);
    command.args(words).arg(&file).current_dir(&dir).stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
    Secondary { name, address, child: command.spawn().unwrap(), log }
}

const NSD: &str = "server:
 server-count: 1
 ip-address: 127.0.0.1@{port}
 username: \"\"
 chroot: \"\"
 zonesdir: \"{dir}\"
 pidfile: \"{dir}/pid\"
 xfrdfile: \"{dir}/xfrd\"
 zonelistfile: \"{dir}/list\"
 xfrdir: \"{dir}\"
 verbosity: 2
remote-control:
 control-enable: no
key:
 name: ddns
 algorithm: hmac-sha256
 secret: {key}
zone:
 name: z.example
 zonefile: z
 request-xfr: 127.0.0.1@{primary} ddns
 provide-xfr: 127.0.0.1 NOKEY
zone:
 name: .
 zonefile: root
 request-xfr: AXFR 127.0.0.1@{primary} NOKEY
 provide-xfr: 127.0.0.1 NOKEY
";
const KNOT: &str = "server:
    rundir: {dir}
    listen: 127.0.0.1@{port}
log:
  - target: stderr
    any: info
control:
    listen: {dir}/ctl
database:
    storage: {dir}/db
key:
  - id: ddns
    algorithm: hmac-sha256
    secret: {key}
remote:
  - id: keyed
    address: 127.0.0.1@{primary}
    key: ddns
  - id: plain
    address: 127.0.0.1@{primary}
template:
  - id: default
    storage: {dir}
acl:
  - id: all
    address: 127.0.0.1
    action: transfer
zone:
  - domain: z.example
    master: keyed
    acl: all
    file: z
  - domain: .
    master: plain
    acl: all
    file: root
";
const BIND: &str = "options {
 directory \"{dir}\";
 pid-file \"{dir}/pid\";
 session-keyfile \"{dir}/session.key\";
 managed-keys-directory \"{dir}\";
 listen-on port {port} { 127.0.0.1; };
 listen-on-v6 { none; };
 recursion no;
 notify no;
 dnssec-validation no;
 allow-transfer { any; };
 empty-zones-enable no;
 max-records-per-type 0;
 check-names secondary ignore;
};
controls { };
key ddns { algorithm hmac-sha256; secret \"{key}\"; };
zone \"z.example\" { type secondary; primaries port {primary} { 127.0.0.1 key ddns; }; file \"z\"; };
zone \".\" { type secondary; primaries port {primary} { 127.0.0.1; }; file \"root\"; };
";

#[test]
fn nsd_knot_and_bind_have_as_secondaries_what_zone_dump_has() {
    let folder = folder();
    let server = serve(&folder);
    let port = server.address.port();
    let secondaries = [
        secondary(&folder, port, "nsd", "nsd", &["-d", "-c"], NSD),
        secondary(&folder, port, "knot", "knotd", &["-c"], KNOT),
        secondary(&folder, port, "bind", "named", &["-g", "-n", "1", "-c"], BIND),
    ];
    for (zone, file) in [("z.example", "z.zone"), (".", "root.zone")] {
        let expect = canonical(&folder, zone, &read(&folder.0.join(file)));
        for secondary in &secondaries {
            eventually(&format!("{} has {zone}", secondary.name), || {
                dig(secondary.address, &[zone, "SOA", "+short", "+time=1"]).contains(" 1 2 3 4")
                    || dig(secondary.address, &[zone, "SOA", "+short", "+time=1"]).contains(" 2017082100 ")
            });
            let has = canonical(&folder, zone, &dig(secondary.address, &[zone, "AXFR", "+onesoa"]));
            assert!(has == expect, "{} has {zone} otherwise:\n{}", secondary.name, read(&secondary.log));
        }
    }
    assert!(counted(&folder, "transfers") >= 6);
}
