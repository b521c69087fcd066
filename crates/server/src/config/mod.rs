//! dunlin.toml: what an operator writes, made into values, or into complaints about all that is wrong with it.
//!
//! Reads no zone and changes nothing. An empty file is a working configuration: every default stands in this file.

mod keys;
mod later;
mod limits;
mod reader;
mod resolver;
mod roster;
mod shared;
pub mod units;
mod written;
mod zones;

use crate::complaint::{Complaint, Text};
use crate::images;
use crate::kept;
use crate::stamp::Stamp;
use audit::Guards;
pub use keys::OUTDATED;
use later::TOP;
pub use limits::{Limits, Rrl};
use policy::Prefix;
use reader::{Reader, Repeats, Table, Word, later};
pub use resolver::{Cache, Resolver};
pub use roster::{Roster, SECONDARIES, Seen};
pub use shared::inode;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::folder::{is_handed, read_file_or_pipe};
use toml::de::DeTable;
use transfer::tsig::Keys;
pub use written::Written;
use zones::Named;
pub use zones::{Numbering, Peers, Zone, apex};

#[derive(Clone, Debug)]
pub struct Config {
    /// None: started without a file.
    pub file: Option<PathBuf>,
    /// The files that it was read from, as they were; not those that name zones.
    sources: Vec<(PathBuf, Option<Stamp>)>,
    pub server: Server,
    pub control: Control,
    pub limits: Limits,
    pub level: Level,
    /// None: switched off.
    pub resolver: Option<Resolver>,
    pub cache: Cache,
    pub roster: Roster,
    /// What a new version of a zone may lose; none: anything.
    pub guards: Option<Guards>,
    pub history: History,
    /// Those of `[[key]]`.
    pub keys: Keys,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub listen: Vec<SocketAddr>,
    /// None: one a core.
    pub workers: Option<usize>,
    pub data_dir: PathBuf,
    /// None: stays who it is.
    pub user: Option<String>,
    pub nsid: Option<String>,
    /// What version.bind answers, and what id.server answers; None: REFUSED.
    pub version: Option<String>,
    pub identity: Option<String>,
    /// Who may ask for zones that have no `allow-query` of their own.
    pub allow_query: Allow,
    /// The records of an RRset take turns in being first.
    pub rotate: bool,
}

#[derive(Clone, Debug)]
pub struct Control {
    pub socket: PathBuf,
    /// None: off.
    pub http: Option<SocketAddr>,
    /// The address was written by the operator: that it cannot be had is then an error.
    pub http_written: bool,
}

/// How long what zones were is kept, and how much of it.
#[derive(Clone, Copy, Debug)]
pub struct History {
    pub age: Duration,
    /// 0: nothing is kept.
    pub octets: u64,
}

/// Who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    Any,
    Only(Vec<Prefix>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            file: None,
            sources: Vec::new(),
            server: Server {
                listen: both_loopbacks(53),
                workers: None,
                data_dir: "/var/lib/dunlin".into(),
                user: Some("dunlin".into()),
                nsid: None,
                version: None,
                identity: None,
                allow_query: Allow::Any,
                rotate: false,
            },
            control: Control {
                socket: "/run/dunlin/control.sock".into(),
                http: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 5380))),
                http_written: false,
            },
            limits: Limits {
                enabled: true,
                rrl: Some(Rrl { exempt: loopback(), ..Rrl::default() }),
                tcp_total: 10_000,
                tcp_per_address: 150,
                tcp_idle_ms: 10_000,
                transfer_octets: 16 << 30,
            },
            level: Level::Info,
            resolver: None,
            cache: Cache::default(),
            roster: Roster::default(),
            guards: Some(Guards::default()),
            history: History { age: Duration::from_secs(30 * 86_400), octets: 1 << 30 },
            keys: Keys::default(),
        }
    }
}

fn both_loopbacks(port: u16) -> Vec<SocketAddr> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))]
}

fn loopback() -> Vec<Prefix> {
    let both = [Prefix::new(IpAddr::from([127, 0, 0, 0]), 8), Prefix::new(Ipv6Addr::LOCALHOST.into(), 128)];
    both.into_iter().flatten().collect()
}

/// Where things lie for somebody who starts the server without a file.
#[derive(Clone, Debug)]
pub struct Folders {
    pub data: PathBuf,
    pub runtime: PathBuf,
}

impl Folders {
    /// XDG base directories: data below `XDG_DATA_HOME` or `~/.local/share`, the socket below `XDG_RUNTIME_DIR`, or
    /// beside the data where there is none.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Folders {
        let absolute = |name| variable(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let home = absolute("HOME").unwrap_or_else(|| "/var/tmp".into());
        let data = absolute("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share")).join("dunlin");
        let runtime = absolute("XDG_RUNTIME_DIR").map_or_else(|| data.clone(), |p| p.join("dunlin"));
        Folders { data, runtime }
    }

    pub fn socket(&self) -> PathBuf {
        self.runtime.join("control.sock")
    }
}

/// The configuration of a server that was started without a file: the zones of one folder.
pub fn without_file(folders: &Folders, zones: Option<&Path>) -> Config {
    let mut config = Config::default();
    config.server.listen = both_loopbacks(5300);
    config.server.data_dir = folders.data.clone();
    config.server.user = None;
    config.control.socket = folders.socket();
    config.with_directory(zones)
}

impl Config {
    /// With every NAME.zone of a further folder; what is configured already stays as it is.
    pub fn with_directory(mut self, directory: Option<&Path>) -> Config {
        let named = |d: &Path| Named { path: d.to_path_buf(), from: None, is_ours: false };
        self.roster.directories.extend(directory.map(named));
        self
    }

    /// With the zones that are kept by commands; what is configured goes before them.
    pub fn with_kept(mut self) -> Config {
        let path = self.server.data_dir.join(kept::FOLDER);
        self.roster.directories.push(Named { path, from: None, is_ours: true });
        self
    }

    /// With its data in another folder.
    pub fn set_data_dir(&mut self, data_dir: &Path) {
        self.server.data_dir = data_dir.to_path_buf();
        self.roster.keep_in(data_dir);
    }

    /// What cannot change while a server runs, by section, in a form that can be compared.
    fn fixed(&self) -> [(&'static str, String); 5] {
        let server = Server { allow_query: Allow::Any, ..self.server.clone() };
        [
            ("[server]", format!("{server:?}")),
            ("[control]", format!("{:?}", self.control)),
            ("[limits]", format!("{:?}", self.limits)),
            ("[resolver]", format!("{:?}", self.resolver)),
            ("[cache]", format!("{:?}", self.cache)),
        ]
    }

    /// The sections in which something has changed that only a restart brings into effect.
    pub fn differing(&self, started: &Config) -> Vec<&'static str> {
        let both = self.fixed().into_iter().zip(started.fixed());
        both.filter(|(now, then)| now != then).map(|(now, _)| now.0).collect()
    }

    /// With what cannot change while a server runs as the one that runs has it.
    pub fn keep_fixed(&mut self, running: &Config) {
        let allow_query = std::mem::replace(&mut self.server.allow_query, Allow::Any);
        self.server = Server { allow_query, ..running.server.clone() };
        (self.control, self.limits) = (running.control.clone(), running.limits.clone());
        self.resolver.clone_from(&running.resolver);
        self.cache.clone_from(&running.cache);
        self.roster.keep_in(&self.server.data_dir);
        let kept = self.server.data_dir.join(kept::FOLDER);
        self.roster.directories.iter_mut().filter(|d| d.is_ours).for_each(|d| d.path.clone_from(&kept));
    }

    /// What it was read from: its file, and secrets.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.sources.iter().map(|(file, _)| &**file)
    }

    pub fn secrets(&self) -> impl Iterator<Item = &Path> {
        self.files().filter(|file| Some(*file) != self.file.as_deref())
    }

    /// True if reading it again would find the same.
    pub fn is_as_read(&self) -> bool {
        self.sources.iter().all(|(file, stamp)| stamp.is_some() && Stamp::of(file) == *stamp)
    }

    /// All zones; no two have the same apex. Reads what names them.
    pub fn zones(&self) -> Result<Vec<Zone>, Vec<Complaint>> {
        self.roster.gather(|_| false)
    }
}

/// Reads a configuration file. The zones that it names elsewhere are gathered later; they are complained of here only if
/// there is something to complain of in the file itself.
pub fn read(file: &Path) -> Result<Config, Vec<Complaint>> {
    let stamp = Stamp::of(file);
    parse(file, &text_of(file)?).map(|mut config| {
        config.sources.push((file.to_path_buf(), stamp));
        config
    })
}

/// Where the server of a configuration file is asked: also while something else in the file is wrong, or cannot be read by who asks.
pub fn socket(file: &Path) -> Result<PathBuf, Vec<Complaint>> {
    let text = text_of(file)?;
    let (document, errors) = DeTable::parse_recoverable(&text);
    let mut r = Reader::new(Text::new(file, &text));
    let table = r.table(document.get_ref(), "control");
    let found = table.and_then(|t| socket_of(&mut r, t)).unwrap_or_else(|| Config::default().control.socket);
    if table.is_none_or(|t| !t.contains_key("socket")) {
        // Maybe it stands where it cannot be found.
        r.complaints.extend(errors.iter().map(|e| syntax(&r.text, e)).collect::<Vec<_>>());
    }
    if r.complaints.is_empty() { Ok(found) } else { Err(r.complaints) }
}

/// Of dunlin.toml. A `[[zone]]` takes some 100 octets, and a million of them is normal.
const LARGEST_TEXT: u64 = 1 << 30;

fn text_of(file: &Path) -> Result<String, Vec<Complaint>> {
    // What a shell hands is there; a pipe of another name is not waited for for ever, nor a device read to its end.
    let read = if is_handed(file) { std::fs::read(file) } else { read_file_or_pipe(file, LARGEST_TEXT) };
    let bytes = read.map_err(|e| {
        vec![Complaint::about(
            file,
            format!("the configuration cannot be read: {e}"),
            "put it there, or start with another: -c FILE",
        )]
    })?;
    String::from_utf8(bytes).map_err(|e| {
        let good = String::from_utf8_lossy(&e.as_bytes()[..e.utf8_error().valid_up_to()]).into_owned();
        let text = Text::new(file, &good);
        let what = "here is an octet that is no UTF-8";
        vec![text.complaint(good.len()..good.len(), what, "write the file in UTF-8")]
    })
}

/// As `read`, of a text that `file` is said to hold.
pub fn parse(file: &Path, text: &str) -> Result<Config, Vec<Complaint>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader::new(Text::new(file, text));
    let config = config(&mut reader, document.get_ref());
    let mut complaints: Vec<Complaint> = errors.iter().map(|e| syntax(&reader.text, e)).collect();
    complaints.sort_by_key(|c| (c.line, c.column));
    // What stands on a line that is not TOML was guessed at: further complaints about it, and about the lines that a
    // bracket left open drags along, would only confuse.
    let broken: Vec<usize> = complaints.iter().map(|c| c.line).collect();
    let mut index = 0..;
    complaints.retain(|c| index.next().is_some_and(|i: usize| i == 0 || broken[i - 1] + 1 < c.line));
    complaints.extend(reader.complaints.into_iter().filter(|c| !broken.contains(&c.line) || c.file != file));
    complaints
        .sort_by(|a, b| (a.file != file, &a.file, a.line, a.column).cmp(&(b.file != file, &b.file, b.line, b.column)));
    if complaints.is_empty() { Ok(config) } else { Err(complaints) }
}

fn syntax(text: &Text<'_>, error: &toml::de::Error) -> Complaint {
    let span = error.span().unwrap_or(text.text.len()..text.text.len());
    text.complaint(span, format!("this is not TOML: {}", error.message()), "")
}

fn config(r: &mut Reader<'_>, top: &Table<'_>) -> Config {
    let built =
        ["server", "control", "limits", "log", "zones", "zone", "guards", "history", "key", "resolver", "cache"];
    r.keys("the file", top, &built, TOP);
    let mut config = Config { file: Some(r.text.file.to_path_buf()), ..Config::default() };
    if let Some(t) = r.table(top, "server") {
        server(r, t, &mut config.server);
    }
    if let Some(t) = r.table(top, "control") {
        control(r, t, &config.server.listen, &mut config.control);
    }
    if let Some(t) = r.table(top, "limits") {
        limits::read(r, t, &mut config.limits);
    }
    if let Some(t) = r.table(top, "log") {
        log(r, t, &mut config.level);
    }
    (config.resolver, config.cache) = resolver::read(r, top);
    if let Some(t) = r.table(top, "guards") {
        config.guards = guards(r, t);
    }
    if let Some(t) = r.table(top, "history") {
        history(r, t, &mut config.history);
    }
    config.keys = keys::all(r, top);
    config.sources = std::mem::take(&mut r.sources);
    let (roster, places) = roster(r, top, &config.keys);
    config.roster = roster;
    config.roster.keep_in(&config.server.data_dir);
    for (at, what) in shared::shared(&config.roster.written) {
        r.complain(places[at].clone(), what, shared::FILE_OF_ITS_OWN);
    }
    // A start would give them once more, to other contents.
    let is_numbered = |zone: &Zone| config.history.octets == 0 && zone.numbering != Numbering::Keep;
    for (_, at) in config.roster.written.iter().zip(&places).filter(|(zone, _)| is_numbered(zone)) {
        let what = "which serials this zone was given last is in the history, which is to hold nothing";
        r.complain(at.clone(), what, "write another size in [history], or remove serial");
    }
    if !r.complaints.is_empty() {
        r.complaints.extend(config.zones().err().unwrap_or_default());
    }
    config
}

fn server(r: &mut Reader<'_>, t: &Table<'_>, server: &mut Server) {
    let keys = ["listen", "workers", "data-dir", "user", "nsid", "version", "identity", "allow-query", "rotate-rrsets"];
    r.keys("[server]", t, &keys, &[]);
    server.rotate = r.boolean(t, "rotate-rrsets").unwrap_or(false);
    if let Some(words) = r.strings(t, "listen", "127.0.0.1:53") {
        server.listen.clear();
        for word in &words {
            let Some(address) = address(r, word) else { continue };
            if server.listen.contains(&address) {
                r.complain(word.span.clone(), format!("{address} is written twice"), "remove one of them");
            }
            server.listen.push(address);
        }
        if words.is_empty() {
            let span = t["listen"].span();
            r.complain(
                span,
                "`listen` is empty, so nobody could ask",
                "write listen = [\"127.0.0.1:53\", \"[::1]:53\"]",
            );
        }
    }
    server.workers = workers(r, t);
    if let Some(w) = r.string(t, "data-dir", "/var/lib/dunlin") {
        if w.text.is_empty() {
            r.complain(w.span.clone(), "the data needs a folder of its own", "write data-dir = \"/var/lib/dunlin\"");
        }
        server.data_dir = r.path(&w);
    }
    if let Some(w) = r.string(t, "user", "dunlin") {
        server.user = Some(w.text).filter(|u| !u.is_empty());
    }
    server.nsid = r.string(t, "nsid", "ns1").and_then(|w| short(r, "nsid", w));
    server.version = r.string(t, "version", "dunlin").and_then(|w| short(r, "version", w));
    server.identity = r.string(t, "identity", "ns1").and_then(|w| short(r, "identity", w));
    if let Some(words) = r.strings(t, "allow-query", "any") {
        server.allow_query = allow(r, &words);
    }
}

/// A text that must fit into one character-string of a TXT record, and into an EDNS option of a small answer.
fn short(r: &mut Reader<'_>, key: &str, word: Word) -> Option<String> {
    if word.text.len() > 128 {
        r.complain(word.span, format!("`{key}` has {} octets", word.text.len()), "write at most 128");
        return None;
    }
    Some(word.text).filter(|t| !t.is_empty())
}

fn workers(r: &mut Reader<'_>, t: &Table<'_>) -> Option<usize> {
    match t.get("workers").map(|v| (v.get_ref().as_str(), v.span())) {
        Some((Some("auto"), _)) | None => None,
        Some((Some(other), span)) => {
            r.complain(span, format!("`workers` is \"auto\" or a number, not \"{other}\""), "write workers = \"auto\"");
            None
        }
        Some((None, _)) => r.number(t, "workers", 1..=1024).map(|n| n as usize),
    }
}

fn address(r: &mut Reader<'_>, word: &Word) -> Option<SocketAddr> {
    if let Ok(found) = word.text.parse() {
        return Some(found);
    }
    let instead = match word.text.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => format!("write \"{ip}:53\""),
        Ok(IpAddr::V6(ip)) => format!("write \"[{ip}]:53\""),
        Err(_) => "write an address and a port: \"192.0.2.1:53\" or \"[2001:db8::1]:53\"".to_string(),
    };
    r.complain(word.span.clone(), format!("`{}` is no address with a port", word.text), instead);
    None
}

/// Of `sun_path`, which ends with a zero (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

fn control(r: &mut Reader<'_>, t: &Table<'_>, listen: &[SocketAddr], control: &mut Control) {
    r.keys("[control]", t, &["socket", "http"], &[]);
    if let Some(socket) = socket_of(r, t) {
        control.socket = socket;
    }
    if let Some(w) = r.string(t, "http", "127.0.0.1:5380") {
        control.http_written = true;
        control.http = if w.text.is_empty() { None } else { address(r, &w) };
        let is_any =
            |a: &SocketAddr, b: &SocketAddr| a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
        let is_taken = |http: SocketAddr| {
            let is_same = |l: &&SocketAddr| l.port() == http.port() && l.is_ipv4() == http.is_ipv4();
            listen.iter().filter(is_same).any(|l| is_any(l, &http))
        };
        if control.http.is_some_and(is_taken) {
            r.complain(w.span, "queries are answered at that address, over TCP, too", "write another port");
        }
    }
}

fn socket_of(r: &mut Reader<'_>, t: &Table<'_>) -> Option<PathBuf> {
    let w = r.string(t, "socket", "/run/dunlin/control.sock")?;
    let path = r.path(&w);
    if w.text.is_empty() || path.as_os_str().len() > SOCKET_PATH_MAX {
        let what = format!("the path of a socket has 1 to {SOCKET_PATH_MAX} octets");
        r.complain(w.span, what, "write socket = \"/run/dunlin/control.sock\"");
    }
    Some(path)
}

fn log(r: &mut Reader<'_>, t: &Table<'_>, level: &mut Level) {
    r.keys("[log]", t, &["level"], &[later("query-log", Repeats::Literal("\"\""))]);
    let Some(word) = r.string(t, "level", "info") else { return };
    match Level::named(&word.text) {
        Some(found) => *level = found,
        None => r.complain(word.span, format!("there is no level `{}`", word.text), "write error, warn, info or debug"),
    }
}

impl Level {
    pub fn named(text: &str) -> Option<Level> {
        [Level::Error, Level::Warn, Level::Info, Level::Debug].into_iter().find(|l| l.name() == text)
    }

    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

fn history(r: &mut Reader<'_>, t: &Table<'_>, history: &mut History) {
    r.keys("[history]", t, &["age", "size"], &[]);
    if let Some(ms) = r.time_ms(t, "age", "30d") {
        history.age = Duration::from_millis(ms);
    }
    if let Some(octets) = r.size(t, "size", "1GiB") {
        history.octets = octets;
    }
}

fn guards(r: &mut Reader<'_>, t: &Table<'_>) -> Option<Guards> {
    r.keys("[guards]", t, &["enabled", "lost-records-percent", "lost-ds"], &[]);
    let usual = Guards::default();
    let guards = Guards {
        lost_percent_max: r.number(t, "lost-records-percent", 0..=100).unwrap_or(usual.lost_percent_max),
        lost_ds_max: r.number(t, "lost-ds", 0..=1_000_000_000).unwrap_or(usual.lost_ds_max),
    };
    r.boolean(t, "enabled").unwrap_or(true).then_some(guards)
}

/// Also where each zone of `[[zone]]` is written.
fn roster(r: &mut Reader<'_>, top: &Table<'_>, known: &Keys) -> (Roster, Vec<Range<usize>>) {
    let (mut list, mut directory) = (None, None);
    if let Some(t) = r.table(top, "zones") {
        r.keys("[zones]", t, &["directory", "list"], &[]);
        let named = |r: &Reader<'_>, w: Word| Named {
            path: r.path(&w),
            from: Some(Complaint::place(&r.text, w.span)),
            is_ours: false,
        };
        list = r.string(t, "list", "zones.list").map(|w| named(r, w));
        directory = r.string(t, "directory", "zones").map(|w| named(r, w));
    }
    let written = r.tables(top, "zone").into_iter().filter_map(|(t, span)| zone(r, t, span, known)).collect();
    let once = zones::once(
        written,
        |(zone, _)| &zone.apex,
        |_, (zone, place)| {
            let what = format!("the zone {} is written twice", images::name(&zone.apex));
            r.complain(place.clone(), what, "remove one of them");
        },
    );
    let (written, places) = once.into_iter().unzip();
    (Roster { written: Written::new(written), list, directories: directory.into_iter().collect() }, places)
}

fn zone(r: &mut Reader<'_>, t: &Table<'_>, span: Range<usize>, known: &Keys) -> Option<(Zone, Range<usize>)> {
    let built = [
        "name",
        "file",
        "primaries",
        "notify",
        "transfer-source",
        "allow-query",
        "allow-update",
        "allow-transfer",
        "write-back",
        "serial",
        "guards",
    ];
    r.keys("[[zone]]", t, &built, &[]);
    let allow_query = r.strings(t, "allow-query", "any").map(|words| allow(r, &words));
    let allow_transfer = keys::grants(r, t, known);
    let write_back = write_back(r, t);
    let numbering = numbering(r, t);
    let is_guarded = r.boolean(t, "guards").unwrap_or(true);
    let peers = peers(r, t, known);
    let name = r.string(t, "name", "example.com");
    let own = name.as_ref().and_then(|name| apex(&name.text).ok());
    let allow_update = keys::rules(r, t, known, own.as_deref());
    if !t.contains_key("name") {
        r.complain(span.clone(), "this zone has no name", "write name = \"example.com\"");
    }
    let file = r.string(t, "file", "example.com.zone").map(|word| r.path(&word));
    let comes = t.get("primaries").is_some_and(|list| list.get_ref().as_array().is_none_or(|list| !list.is_empty()));
    if !t.contains_key("file") && !comes {
        r.complain(span, "this zone has no file", "write file = \"example.com.zone\"");
    }
    let name = name?;
    // Where one without a file is kept is known once the data folder is.
    let file = if comes { file.unwrap_or_default() } else { file? };
    match apex(&name.text) {
        Ok(apex) => {
            let zone = Zone::new(apex, file);
            let zone =
                Zone { allow_query, allow_update, allow_transfer, write_back, numbering, is_guarded, peers, ..zone };
            Some((zone, name.span))
        }
        Err(why) => {
            r.complain(
                name.span,
                format!("`{}` is no name of a zone: {why}", name.text),
                "write name = \"example.com\"",
            );
            None
        }
    }
}

/// Who else has to do with a zone. What comes from primaries is changed by nobody else.
fn peers(r: &mut Reader<'_>, t: &Table<'_>, known: &Keys) -> Option<Box<Peers>> {
    let primaries = keys::remotes(r, t, "primaries", known);
    let notify = keys::remotes(r, t, "notify", known);
    let source = sources(r, t);
    if !primaries.is_empty() {
        for (key, does) in [("allow-update", "updates"), ("serial", "serials of ours")] {
            if let Some(value) = t.get(key).filter(|value| value.get_ref().as_str() != Some("keep")) {
                let what = format!("this zone comes from its primaries, so it takes no {does}");
                r.complain(value.span(), what, format!("remove {key}, or primaries"));
            }
        }
    } else if let Some(value) = t.get("transfer-source").filter(|_| notify.is_empty() && !source.is_empty()) {
        r.complain(
            value.span(),
            "nothing of this zone is asked for or announced",
            "remove it, or add primaries or notify",
        );
    }
    if primaries.is_empty() && notify.is_empty() {
        return None;
    }
    Some(Box::new(Peers { primaries, notify, source, is_kept: !t.contains_key("file") }))
}

fn sources(r: &mut Reader<'_>, t: &Table<'_>) -> Vec<IpAddr> {
    let mut sources: Vec<IpAddr> = Vec::new();
    for word in r.strings(t, "transfer-source", "192.0.2.9").unwrap_or_default() {
        match word.text.parse::<IpAddr>() {
            Ok(ip) if sources.iter().any(|other| other.is_ipv4() == ip.is_ipv4()) => {
                r.complain(word.span, "there is one source a family", "remove one of them");
            }
            Ok(ip) => sources.push(ip),
            Err(_) => r.complain(word.span, format!("`{}` is no address", word.text), "write \"192.0.2.9\""),
        }
    }
    sources
}

fn numbering(r: &mut Reader<'_>, t: &Table<'_>) -> Numbering {
    let Some(word) = r.string(t, "serial", "keep") else { return Numbering::Keep };
    let numbering = match word.text.as_str() {
        "keep" => Numbering::Keep,
        "increment" => Numbering::Increment,
        "unixtime" => Numbering::Unixtime,
        other => {
            let what = format!("there is no way `{other}` to give serials");
            r.complain(word.span, what, "write serial = \"keep\", \"increment\" or \"unixtime\"");
            return Numbering::Keep;
        }
    };
    if numbering != Numbering::Keep && t.contains_key("allow-update") && !t.contains_key("primaries") {
        r.complain(word.span, "each update, and each edit, gives this zone a serial", "remove it");
    }
    numbering
}

/// Between two times that a zone's file is written.
const WRITE_BACK_MIN: Duration = Duration::from_secs(1);

/// Only updates change a zone without changing its file, and a file is not written again and again without a pause.
fn write_back(r: &mut Reader<'_>, t: &Table<'_>) -> Option<Duration> {
    let every = Duration::from_millis(r.time_ms(t, "write-back", "1m")?);
    let span = t.get("write-back").map(|value| value.span())?;
    if !t.contains_key("allow-update") {
        r.complain(
            span,
            "there is nothing to write back: nobody may update this zone",
            "remove it, or add allow-update",
        );
    } else if every < WRITE_BACK_MIN {
        r.complain(span, "a file is not written that often", "write at least write-back = \"1s\"");
    }
    Some(every)
}

fn allow(r: &mut Reader<'_>, words: &[Word]) -> Allow {
    let mut only = Vec::new();
    let mut any = false;
    for word in words {
        match word.text.as_str() {
            "any" => any = true,
            "none" => {}
            w if w.starts_with("key:") || w.contains('#') => r.not_built(word.span.clone(), "a TSIG key here"),
            _ => only.extend(prefix(r, word)),
        }
    }
    if any { Allow::Any } else { Allow::Only(only) }
}

fn prefixes(r: &mut Reader<'_>, words: &[Word]) -> Vec<Prefix> {
    match allow(r, words) {
        Allow::Any => {
            [IpAddr::from([0; 4]), IpAddr::from([0; 16])].iter().filter_map(|ip| Prefix::new(*ip, 0)).collect()
        }
        Allow::Only(only) => only,
    }
}

fn prefix(r: &mut Reader<'_>, word: &Word) -> Option<Prefix> {
    match word.text.parse() {
        Ok(found) => Some(found),
        Err(why) => {
            let why: String = why;
            r.complain(
                word.span.clone(),
                why,
                "write \"192.0.2.0/24\", \"2001:db8::/32\", an address, \"any\" or \"none\"",
            );
            None
        }
    }
}

#[cfg(test)]
mod tests;
