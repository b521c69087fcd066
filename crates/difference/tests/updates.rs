//! Every prerequisite and section case of RFC 2136, generated: the same signed updates to Knot, BIND and Dunlin, each to a
//! zone of its own, by `nsupdate -y` where that can send them, as packets of ours where it does not; then the answer's rcode and what
//! the zone holds are compared. Where the peers differ from one another, or we from both, the case stands in `KNOWN` with the
//! reason.

use difference::ask;
use difference::fleet::{await_answer, dunlin_program, free_port, fresh_folder};
use difference::message::{AA, Reply, rcode_text};
use difference::name::Name;
use difference::peers;
use difference::query::Query;
use difference::rtype::number;
use sim::update::message;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use transfer::tsig::{Algorithm, Key, sign_request};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const SECRET_TEXT: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const ZONE: &str = "$TTL 60\n@ SOA ns hostmaster 7 1 2 3 4\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.1\nwww A 192.0.2.2\n\
                    www TXT one\nalias CNAME www\ndeep.below A 192.0.2.9\nmx MX 10 ns\n*.wild TXT star\n";
const NAMES: [&str; 8] = ["@", "www", "alias", "below", "mx", "new", "x.wild", "*.wild"];
const TYPES: [(&str, &str); 5] = [("A", "192.0.2.1"), ("TXT", "one"), ("CNAME", "www"), ("MX", "10 NS"), ("NS", "ns")];
/// Updates that are under way at a server: BIND takes a hundred at a time.
const WINDOW: usize = 40;
const PATIENCE: Duration = Duration::from_secs(60);
/// If a server says nothing for so long, it does not answer what it has not answered yet.
const SILENCE: Duration = Duration::from_secs(10);

/// In what a server differs from us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Apart {
    /// It says this, and we say something else.
    Rcode(&'static str),
    /// It says the same, and holds something else.
    Content,
}

/// Server, case, in what it differs, reason.
const KNOWN: &[(&str, &str, Apart, &str)] = &[
    ("knot", "add @ 61 NS ns", Apart::Content, SAME_RECORD),
    ("knot", "add www 61 A 192.0.2.1", Apart::Content, SAME_RECORD),
    ("knot", "add www 61 TXT one", Apart::Content, SAME_RECORD),
    ("knot", "add alias 61 CNAME www", Apart::Content, SAME_RECORD),
    ("knot", "add mx 61 MX 10 NS", Apart::Content, SAME_RECORD),
    ("knot", "raw 1 www 1 4294967295 A c0000201", Apart::Content, SAME_RECORD),
    ("bind", "raw 1 www 1 4294967295 A c0000201", Apart::Content, NO_TTL),
    ("bind", "raw 1 new 1 2147483648 A c0000201", Apart::Content, NO_TTL),
    ("knot", "raw 1 new 1 2147483648 A c0000201", Apart::Content, NO_TTL),
    ("bind", "add *.wild 60 NS ns", Apart::Content, WILDCARD_LEFT_OUT),
    ("bind", "add *.wild 61 NS ns", Apart::Content, WILDCARD_LEFT_OUT),
    ("bind", "del *.wild\nadd *.wild 60 NS ns", Apart::Content, WILDCARD_LEFT_OUT),
    ("knot", "add *.wild 60 NS ns", Apart::Content, WILDCARD),
    ("knot", "add *.wild 61 NS ns", Apart::Content, WILDCARD),
    ("knot", "del *.wild\nadd *.wild 60 NS ns", Apart::Content, WILDCARD),
    ("bind", "del www\nadd www 60 CNAME www", Apart::Content, LOOP),
    ("knot", "add alias 60 KEY 512 3 8 AQ==", Apart::Content, KEY),
    ("knot", "add new 60 KEY 512 3 8 AQ==\nadd new 60 CNAME a\nadd new 60 A 192.0.2.1", Apart::Content, KEY),
    ("knot", "raw 1 www 255 1 A", Apart::Rcode("NOERROR"), DELETION),
    ("knot", "add new 60 A 192.0.2.1\nraw 1 www 255 1 A", Apart::Rcode("NOERROR"), DELETION),
    ("knot", "raw 1 www 255 1 A\nadd other. 60 A 192.0.2.1", Apart::Rcode("RCODE10"), DELETION),
    (
        "knot",
        "raw 1 www 255 0 MAILB",
        Apart::Rcode("NOERROR"),
        "a type of questions is overlooked; RFC 2136 section 3.4.1.3: FORMERR",
    ),
    (
        "bind",
        "add @ 60 SOA ns hostmaster 2147483655 1 2 3 4",
        Apart::Rcode("SERVFAIL"),
        "of serials 2^31 apart neither is later; we leave it out, BIND fails",
    ),
    (
        "bind",
        "add @ 60 NS b\ndel @ NS ns",
        Apart::Rcode("REFUSED"),
        "an NS of the apex without an address is refused: a check of BIND's own",
    ),
    ("knot", "zone @ 1 SOA\nzone @ 1 SOA\nadd new 60 A 192.0.2.1", Apart::Rcode("nothing"), TWO_ZONES),
    ("knot", "zone @ 1 SOA\nzone other. 1 SOA\nadd new 60 A 192.0.2.1", Apart::Rcode("nothing"), TWO_ZONES),
    ("bind", "zone @ 3 SOA\nadd new 60 A 192.0.2.1", Apart::Rcode("NOTIMP"), CLASS),
    ("knot", "zone @ 3 SOA\nadd new 60 A 192.0.2.1", Apart::Rcode("NOTIMP"), CLASS),
    ("bind", "zone @ 3 A\nadd new 60 A 192.0.2.1", Apart::Rcode("NOTIMP"), CLASS),
    ("knot", "zone @ 3 A\nadd new 60 A 192.0.2.1", Apart::Rcode("NOTIMP"), CLASS),
    ("bind", "zone @ 254 SOA\nadd new 60 A 192.0.2.1", Apart::Rcode("FORMERR"), CLASS),
    ("knot", "zone @ 254 SOA\nadd new 60 A 192.0.2.1", Apart::Rcode("REFUSED"), CLASS),
    ("bind", "zone @ 255 SOA\nadd new 60 A 192.0.2.1", Apart::Rcode("FORMERR"), CLASS),
    ("knot", "zone @ 255 SOA\nadd new 60 A 192.0.2.1", Apart::Rcode("FORMERR"), CLASS),
    ("bind", "yes new\nadd other. 60 A 192.0.2.1", Apart::Rcode("NOTZONE"), ORDER),
    ("bind", "yes new\nraw 1 www 255 1 A", Apart::Rcode("FORMERR"), ORDER),
    ("knot", DS_ALONE, Apart::Content, NO_DELEGATION),
    ("knot", DS_LEFT, Apart::Content, NO_DELEGATION),
    ("bind", DS_ALONE, Apart::Content, NOTHING_LEFT),
    ("bind", DS_LEFT, Apart::Content, NOTHING_LEFT),
];
const DS_ALONE: &str = "add kid 60 DS 1 13 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const DS_LEFT: &str = "add kid 60 NS ns\n\
    add kid 60 DS 1 13 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n\
    del kid NS";
const NOTHING_LEFT: &str = "the zone holds the same, under the next serial: a change of which nothing is left is one";
const NO_DELEGATION: &str = "a DS where there is no delegation stays, and binds the next one; RFC 4035 section 2.4: it is not to be. BIND and we leave it out";
const SAME_RECORD: &str = "the same record with another TTL changes nothing; RFC 2136 section 3.4.2.2 has it replaced";
const NO_TTL: &str = "a TTL whose first bit is set is kept; RFC 2181 section 8 has it treated as zero";
const WILDCARD_LEFT_OUT: &str = "an NS of a wildcard is left out, without a word; RFC 2136 section 3.4.2.2 has every RR added that \
                                 is not left out there, and RFC 4592 section 4.2 does not bar it";
const WILDCARD: &str =
    "the update is the same; names below a wildcard that owns NS are answered in other ways (RFC 4592 section 4.2)";
const LOOP: &str = "the update is the same; an alias that leads to itself is SERVFAIL as an answer. RFC 1034 section 3.6.2 wants loops \
                    signalled as an error; section 4.3.2 has a server answer with the CNAME. Knot and we do that";
const KEY: &str = "of a CNAME and a KEY at one name the first stays alone; RFC 2181 section 10.1 lets KEY, SIG and NXT stand beside an alias";
const DELETION: &str = "a TTL in an order to delete is overlooked; RFC 2136 section 3.4.1.3: FORMERR";
const TWO_ZONES: &str = "silence; RFC 2136 section 3.1.1: unless there is exactly one RR in the zone section, FORMERR";
const CLASS: &str = "each class is judged before it is looked for the zone; RFC 2136 section 3.1.1: a type that is not SOA is FORMERR, \
                     a zone of a name and class that is not one of the server's is NOTAUTH";
const ORDER: &str = "the changes are looked at before the prerequisites; RFC 2136 section 3.2 comes before section 3.4";

/// Zone sections that are wrong (RFC 2136 section 3.1), what is found first of several things that are, TTLs that count for nothing
/// (RFC 2181 section 8), capitals, and prerequisites at several names.
const UNUSUAL: [&str; 36] = [
    "nozone\nadd new 60 A 192.0.2.1",
    "zone @ 1 SOA\nzone @ 1 SOA\nadd new 60 A 192.0.2.1",
    "zone @ 1 SOA\nzone other. 1 SOA\nadd new 60 A 192.0.2.1",
    "zone @ 1 A\nadd new 60 A 192.0.2.1",
    "zone @ 1 ANY\nadd new 60 A 192.0.2.1",
    "zone @ 3 SOA\nadd new 60 A 192.0.2.1",
    "zone @ 254 SOA\nadd new 60 A 192.0.2.1",
    "zone @ 255 SOA\nadd new 60 A 192.0.2.1",
    "zone www 1 SOA\nadd new.www 60 A 192.0.2.1",
    "zone below 1 SOA\nadd new.below 60 A 192.0.2.1",
    "zone other. 1 SOA\nadd new.other. 60 A 192.0.2.1",
    "zone test. 1 SOA\nadd new 60 A 192.0.2.1",
    "zone @ 3 A\nadd new 60 A 192.0.2.1",
    "zone other. 1 A\nadd new 60 A 192.0.2.1",
    "yes new\nyes other. A\nadd probe 60 A 192.0.2.77",
    "yes other. A\nyes new\nadd probe 60 A 192.0.2.77",
    "yes new\nno www\nadd probe 60 A 192.0.2.77",
    "no www\nyes new\nadd probe 60 A 192.0.2.77",
    "yes mx A\nno mx MX\nadd probe 60 A 192.0.2.77",
    "no mx MX\nyes mx A\nadd probe 60 A 192.0.2.77",
    "yes www A 192.0.2.1\nyes new\nadd probe 60 A 192.0.2.77",
    "yes new\nraw 0 www 255 1 A\nadd probe 60 A 192.0.2.77",
    "yes new\nadd other. 60 A 192.0.2.1",
    "yes new\nraw 1 www 255 1 A",
    "add new 60 A 192.0.2.1\nraw 1 www 255 1 A",
    "add other. 60 A 192.0.2.1\nraw 1 www 255 1 A",
    "raw 1 www 255 1 A\nadd other. 60 A 192.0.2.1",
    "raw 1 new 1 2147483647 A c0000201",
    "raw 1 new 1 2147483648 A c0000201",
    "raw 1 www 1 4294967295 A c0000201",
    "add WWW 60 A 192.0.2.9",
    "add NEW 60 A 192.0.2.9\nadd new 60 TXT one",
    "yes WWW TXT one\nno NEW\ndel WWW A",
    "del MX MX 10 NS\ndel Alias",
    "yes www A 192.0.2.1\nyes www A 192.0.2.2\nyes mx MX 10 ns\nyes www TXT one\nno new\nadd probe 60 A 192.0.2.77",
    "yes www A 192.0.2.1\nyes mx MX 10 ns\nyes www A 192.0.2.2\nyes ns A 192.0.2.54\nadd probe 60 A 192.0.2.77",
];

fn cases() -> Vec<String> {
    let mut cases = Vec::new();
    let mut required = Vec::new();
    for name in NAMES {
        required.extend([format!("yes {name}"), format!("no {name}")]);
        for (rtype, rdata) in TYPES {
            required.extend([format!("yes {name} {rtype}"), format!("no {name} {rtype}")]);
            required.push(format!("yes {name} {rtype} {rdata}"));
            cases.push(format!("add {name} 60 {rtype} {rdata}"));
            cases.push(format!("add {name} 61 {rtype} {rdata}"));
            cases.push(format!("del {name} {rtype}"));
            cases.push(format!("del {name} {rtype} {rdata}"));
            cases.push(format!("del {name}\nadd {name} 60 {rtype} {rdata}"));
        }
        cases.push(format!("del {name}"));
    }
    required.push("yes www A 192.0.2.1\nyes www A 192.0.2.2".to_string());
    required.push("yes www A 192.0.2.1\nyes www A 192.0.2.2\nyes www TXT one".to_string());
    cases.extend(required.into_iter().map(|lines| format!("{lines}\nadd probe 60 A 192.0.2.77")));
    let odd = [
        "yes other. A",
        "raw 0 www 255 1 A",
        "raw 0 www 254 1 A",
        "raw 0 www 1 1 A c0000201",
        "raw 0 www 255 0 A c0000201",
        "raw 0 www 254 0 A c0000201",
        "raw 0 www 3 0 A c0000201",
        "add other. 60 A 192.0.2.1",
        "add new 60 A 192.0.2.1\nadd other. 60 A 192.0.2.1",
        "del other.",
        "raw 1 www 1 60 ANY",
        "raw 1 www 1 60 AXFR",
        "raw 1 www 1 60 A",
        "raw 1 www 255 1 A",
        "raw 1 www 255 0 A c0000201",
        "raw 1 www 255 0 MAILB",
        "raw 1 www 254 1 A c0000201",
        "raw 1 www 254 0 ANY",
        "raw 1 www 254 0 AXFR",
        "raw 1 www 3 0 A c0000201",
        "add @ 60 SOA ns hostmaster 9 1 2 3 4",
        "add @ 60 SOA ns hostmaster 6 1 2 3 4",
        "add @ 60 SOA ns hostmaster 7 9 9 9 9",
        "add new 60 SOA ns hostmaster 9 1 2 3 4",
        "add @ 60 SOA ns hostmaster 2147483655 1 2 3 4",
        "del @ SOA",
        "del @ SOA ns hostmaster 7 1 2 3 4",
        "add @ 60 NS b\ndel @ NS ns",
        "add tree 60 DNAME wood\nadd tree 60 DNAME forest",
        "add new 60 CNAME a\nadd new 60 CNAME b",
        "add alias 60 KEY 512 3 8 AQ==",
        "add new 60 KEY 512 3 8 AQ==\nadd new 60 CNAME a\nadd new 60 A 192.0.2.1",
        "del www A\nadd www 60 A 192.0.2.1",
        "add kid 60 NS ns\nadd kid 60 DS 1 13 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "add kid 60 DS 1 13 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\nadd kid 60 NS ns",
        DS_LEFT,
        DS_ALONE,
        "",
    ];
    cases.extend(odd.map(str::to_string));
    cases.extend(UNUSUAL.map(str::to_string));
    cases
}

/// A case in the language of nsupdate; None: it has no word for it.
fn script(case: usize, lines: &str) -> Option<String> {
    let zone = zone_name(case);
    let absolute = |name: &str| match name {
        "@" => zone.clone(),
        name if name.ends_with('.') => name.to_string(),
        name => format!("{name}.{zone}"),
    };
    if lines.is_empty() {
        return None;
    }
    let mut script = format!("zone {zone}\n");
    for line in lines.lines() {
        let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
        // Of add the TTL stands before the type. To nsupdate, names of rdata are relative to the root.
        let rtype_at = if words[0] == "add" { 3 } else { 2 };
        let (rdata_at, rtype) = (rtype_at + 1, words.get(rtype_at).cloned().unwrap_or_default());
        let names: &[usize] = match &*rtype {
            "CNAME" | "NS" | "DNAME" => &[0],
            "MX" => &[1],
            "SOA" => &[0, 1],
            _ => &[],
        };
        let named = [1].into_iter().chain(names.iter().map(|at| rdata_at + at));
        named.for_each(|at| words.get_mut(at).into_iter().for_each(|word| *word = absolute(word)));
        let set = if words.len() > 2 { "rrset" } else { "domain" };
        let order = match &*words[0] {
            "yes" => format!("prereq yx{set}"),
            "no" => format!("prereq nx{set}"),
            "add" => "update add".to_string(),
            "del" => "update delete".to_string(),
            _ => return None,
        };
        let _ = writeln!(script, "{order} {}", words[1..].join(" "));
    }
    script.push_str("send\nanswer\n");
    Some(script)
}

fn zone_name(case: usize) -> String {
    format!("c{case}.test.")
}

struct Server {
    name: &'static str,
    address: SocketAddr,
    child: Child,
    log: std::path::PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server whose configuration is a head and a piece for each zone. `{dir}`, `{port}`, `{zone}` stand in both.
fn start(
    folder: &Path,
    name: &'static str,
    mut command: Command,
    file: &str,
    head: &str,
    each: &str,
    n: usize,
) -> Server {
    let address = free_port();
    let folder = folder.join(name);
    fs::create_dir_all(folder.join("db")).unwrap();
    let filled = |text: &str| {
        text.replace("{dir}", &folder.display().to_string()).replace("{port}", &address.port().to_string())
    };
    let mut text = filled(head);
    for case in 0..n {
        let zone = zone_name(case);
        fs::write(folder.join(format!("{zone}zone")), ZONE).unwrap();
        let _ = writeln!(text, "{}", filled(each).replace("{zone}", &zone));
    }
    fs::write(folder.join(file), text).unwrap();
    let log = folder.join("log");
    let out = fs::File::create(&log).unwrap();
    let child =
        command.current_dir(&folder).arg(folder.join(file)).stdin(Stdio::null()).stdout(out.try_clone().unwrap());
    let child = child.stderr(out).spawn().unwrap();
    Server { name, address, child, log }
}

fn servers(folder: &Path, zones: usize) -> Vec<Server> {
    let mut bind = peers::command("named");
    bind.args(["-g", "-n", "1", "-c"]);
    let bind_head = format!(
        "options {{ directory \"{{dir}}\"; pid-file \"{{dir}}/pid\"; session-keyfile \"{{dir}}/session.key\"; \
         managed-keys-directory \"{{dir}}\"; listen-on port {{port}} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; \
         minimal-responses yes; notify no; dnssec-validation no; empty-zones-enable no; check-integrity no; \
         check-names primary ignore; check-mx ignore; check-sibling no; }};\ncontrols {{ }};\n\
         key ddns {{ algorithm hmac-sha256; secret \"{SECRET_TEXT}\"; }};\n"
    );
    let mut knot = peers::command("knotd");
    knot.arg("-c");
    let knot_head = format!(
        "server:\n    rundir: \"{{dir}}\"\n    listen: 127.0.0.1@{{port}}\nlog:\n  - target: stderr\n    any: info\n\
         control:\n    listen: \"{{dir}}/ctl\"\ndatabase:\n    storage: \"{{dir}}/db\"\nkey:\n  - id: ddns\n    algorithm: hmac-sha256\n    \
         secret: {SECRET_TEXT}\nacl:\n  - id: ddns\n    key: ddns\n    action: update\n\
         template:\n  - id: default\n    zonefile-sync: -1\n    semantic-checks: soft\nzone:\n"
    );
    let mut dunlin = Command::new(dunlin_program());
    dunlin.args(["serve", "-c"]);
    let dunlin_head = "[server]\nlisten = [\"127.0.0.1:{port}\"]\nworkers = 1\ndata-dir = \"{dir}/data\"\nuser = \"\"\n[control]\n\
                       socket = \"{dir}/ctl\"\nhttp = \"\"\n[limits]\nenabled = false\n[resolver]\nenabled = false\n[[key]]\n\
                       name = \"ddns\"\nsecret-file = \"ddns.key\"\n";
    fs::create_dir_all(folder.join("dunlin")).unwrap();
    fs::write(folder.join("dunlin/ddns.key"), SECRET_TEXT).unwrap();
    vec![
        start(
            folder,
            "bind",
            bind,
            "named.conf",
            &bind_head,
            "zone \"{zone}\" { type primary; file \"{dir}/{zone}zone\"; allow-update { key ddns; }; };",
            zones,
        ),
        start(
            folder,
            "knot",
            knot,
            "knot.conf",
            &knot_head,
            "  - domain: \"{zone}\"\n    file: \"{dir}/{zone}zone\"\n    acl: ddns",
            zones,
        ),
        start(
            folder,
            "dunlin",
            dunlin,
            "dunlin.toml",
            dunlin_head,
            "[[zone]]\nname = \"{zone}\"\nfile = \"{zone}zone\"\nallow-update = [\"key:ddns\"]",
            zones,
        ),
    ]
}

impl Server {
    /// Waits until every zone is there.
    fn await_zones(&self, zones: usize) {
        await_answer(self.address, || fs::read_to_string(&self.log).unwrap_or_default());
        let until = Instant::now() + PATIENCE;
        let asked: Vec<Query> =
            (0..zones).map(|case| Query::new(&Name::from_text(&zone_name(case)), number("SOA"), false)).collect();
        while !ask::all(self.address, &asked).iter().all(|r| r.message().is_some_and(|m| m.answer.len() == 1)) {
            assert!(Instant::now() < until, "{} does not load all zones", self.name);
        }
    }

    /// Sends all updates; the rcode of each.
    fn update(&self, cases: &[String]) -> Vec<String> {
        let (by_nsupdate, by_us): (Vec<usize>, Vec<usize>) =
            (0..cases.len()).partition(|case| script(*case, &cases[*case]).is_some());
        let mut rcodes = self.send(cases, &by_us);
        rcodes.extend(self.have_sent(cases, &by_nsupdate));
        (0..cases.len()).map(|case| rcodes.remove(&case).unwrap()).collect()
    }

    /// Has nsupdate send these, one after another.
    fn have_sent(&self, cases: &[String], which: &[usize]) -> HashMap<usize, String> {
        let mut command = peers::command("nsupdate");
        command.args(["-y", &format!("hmac-sha256:ddns:{SECRET_TEXT}")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let scripts = which.iter().filter_map(|case| script(*case, &cases[*case]));
        let text = format!("server {} {}\n{}", self.address.ip(), self.address.port(), scripts.collect::<String>());
        let mut input = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let status = |line: &str| Some(line.split_once("opcode: UPDATE, status: ")?.1.split_once(',')?.0.to_string());
        let rcodes: Vec<String> = told.lines().filter_map(status).collect();
        assert_eq!(rcodes.len(), which.len(), "{}: one answer each, signed as it should be: {told}", self.name);
        which.iter().copied().zip(rcodes).collect()
    }

    /// Sends these, a few at a time.
    fn send(&self, cases: &[String], which: &[usize]) -> HashMap<usize, String> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let key = Key::new(&wire::Name::from_text(b"ddns.", None).unwrap(), Algorithm::Sha256, SECRET);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        let mut rcodes = HashMap::new();
        let (mut sent, mut heard, mut buffer) = (0, 0, [0; 4096]);
        while heard < which.len() {
            while sent < which.len() && sent - heard < WINDOW {
                let case = which[sent];
                let mut packet = message(&zone_name(case), &cases[case]);
                packet[..2].copy_from_slice(&(case as u16).to_be_bytes());
                sign_request(&key, &mut packet, now_s);
                socket.send_to(&packet, self.address).unwrap();
                sent += 1;
            }
            let Ok((len, _)) = socket.recv_from(&mut buffer) else {
                assert!(sent == which.len(), "{}: so many are not answered that no others are sent", self.name);
                break;
            };
            assert!(len >= 12);
            let case = usize::from(u16::from_be_bytes([buffer[0], buffer[1]]));
            rcodes.insert(case, rcode_text(u16::from(buffer[3] & 15)));
            heard += 1;
        }
        which.iter().for_each(|case| _ = rcodes.entry(*case).or_insert_with(|| "nothing".to_string()));
        rcodes
    }

    /// What each zone holds, the SOA's serial too.
    fn contents(&self, zones: usize) -> Vec<String> {
        let names: Vec<&str> =
            NAMES.into_iter().chain(["probe", "tree", "kid", "ns", "deep.below", "new.www", "new.below"]).collect();
        let types: Vec<&str> = TYPES.iter().map(|(t, _)| *t).chain(["SOA", "DNAME", "DS", "KEY"]).collect();
        let questions = names.iter().flat_map(|name| types.iter().map(move |rtype| (*name, *rtype)));
        let questions: Vec<(&str, &str)> = questions.collect();
        let mut asked = Vec::new();
        for zone in (0..zones).map(zone_name) {
            let owner = |name| if name == "@" { zone.clone() } else { format!("{name}.{zone}") };
            let query = |&(name, rtype)| Query::new(&Name::from_text(&owner(name)), number(rtype), false);
            asked.extend(questions.iter().map(query));
        }
        // Through an alias BIND leads nobody who asks for a KEY, others do: that is no matter of updates.
        let has_none = |reply: &Reply| {
            let Some(m) = reply.message() else { return false };
            matches!(m.rcode, 0 | 3) && m.answer.iter().all(|r| r.rtype != number("KEY"))
        };
        let line = |(&(name, rtype), reply): (&(&str, &str), &Reply)| {
            let is_none = rtype == "KEY" && has_none(reply);
            format!("{name} {rtype}: {}\n", if is_none { "none".to_string() } else { text(reply) })
        };
        let replies = ask::all(self.address, &asked);
        replies.chunks(questions.len()).map(|of_zone| questions.iter().zip(of_zone).map(line).collect()).collect()
    }
}

/// Rcode, AA, records: without records the rcode tells a name that is there from one that is not.
fn text(reply: &Reply) -> String {
    let Some(m) = reply.message() else { return "no answer".to_string() };
    let mut text = format!("{}{}", rcode_text(m.rcode), if m.flags & AA == 0 { "" } else { " aa" });
    m.answer.iter().for_each(|r| _ = write!(text, ", {} {} {} {:02x?}", r.owner, r.ttl, r.rtype, r.rdata));
    text
}

/// The lines of what two zones hold that differ.
fn apart(theirs: &str, ours: &str) -> String {
    let only =
        |a: &str, b: &str| a.lines().filter(|line| !b.lines().any(|l| l == *line)).collect::<Vec<_>>().join("\n");
    format!("holds\n{}\nwe hold\n{}", only(theirs, ours), only(ours, theirs))
}

#[test]
fn knot_bind_and_we_do_the_same_with_every_update() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "updates");
    let cases = cases();
    let servers = servers(&folder, cases.len());
    servers.iter().for_each(|s| s.await_zones(cases.len()));
    let outcomes: Vec<(Vec<String>, Vec<String>)> =
        servers.iter().map(|s| (s.update(&cases), s.contents(cases.len()))).collect();
    let (rcodes, contents) = &outcomes[servers.len() - 1];
    let (mut found, mut excused) = (Vec::new(), vec![false; KNOWN.len()]);
    for (server, (theirs, held)) in servers.iter().zip(&outcomes).filter(|(s, _)| s.name != "dunlin") {
        for (i, case) in cases.iter().enumerate() {
            let (is_other, is_else) = (theirs[i] != rcodes[i], held[i] != contents[i]);
            if !is_other && !is_else {
                continue;
            }
            let is_it = |apart: Apart| match apart {
                Apart::Rcode(rcode) => is_other && rcode == theirs[i],
                Apart::Content => !is_other,
            };
            let known =
                KNOWN.iter().position(|&(who, known, apart, _)| who == server.name && known == case && is_it(apart));
            if let Some(known) = known {
                excused[known] = true;
                continue;
            }
            let differs = match is_other {
                true => format!("says {}, we {}", theirs[i], rcodes[i]),
                false => apart(&held[i], &contents[i]),
            };
            found.push(format!("{case:?}: {} {differs}", server.name));
        }
    }
    let in_vain = KNOWN.iter().zip(&excused).filter(|(_, is_excused)| !**is_excused);
    found.extend(
        in_vain
            .map(|(&(who, case, ..), _)| format!("{case:?}: {who} does as we do, or differs otherwise than is known")),
    );
    let by_nsupdate = cases.iter().filter(|case| script(0, case).is_some()).count();
    println!("{} cases, {by_nsupdate} by nsupdate", cases.len());
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}
