//! The servers under comparison: each a child process on a free loopback port with a folder of its own, ended by its own pid.
//!
//! They are configured alike: minimal responses, no rate limit, no cookies, 1232 octets. `Fleet::start` returns when every server
//! answers and has said of every zone whether it loads.

use crate::ask;
use crate::message::{Reply, TC};
use crate::name::Name;
use crate::peers;
use crate::query::Query;
use crate::rtype as t;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Nsd,
    Knot,
    Bind,
    Dunlin,
}

pub const PEERS: [Kind; 3] = [Kind::Nsd, Kind::Knot, Kind::Bind];
pub const ALL: [Kind; 4] = [Kind::Nsd, Kind::Knot, Kind::Bind, Kind::Dunlin];

/// All servers; the peers alone if `DIFFERENCE_PEERS_ONLY` is set, to see where they differ among themselves.
pub fn kinds() -> Vec<Kind> {
    if std::env::var_os("DIFFERENCE_PEERS_ONLY").is_some() { PEERS.to_vec() } else { ALL.to_vec() }
}

/// An empty folder `name` in `parent`.
pub fn fresh_folder(parent: &str, name: &str) -> PathBuf {
    let folder = Path::new(parent).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

impl Kind {
    pub fn text(self) -> &'static str {
        match self {
            Kind::Nsd => "nsd",
            Kind::Knot => "knot",
            Kind::Bind => "bind",
            Kind::Dunlin => "dunlin",
        }
    }
}

/// A zone as the servers are told of it.
#[derive(Clone)]
pub struct ZoneFile {
    pub name: Name,
    pub path: PathBuf,
}

pub struct Server {
    pub kind: Kind,
    pub address: SocketAddr,
    pub folder: PathBuf,
    child: Child,
}

pub struct Fleet {
    pub servers: Vec<Server>,
}

/// What all servers are told to send at most over UDP.
pub const UDP_SIZE: usize = 1232;

/// Long enough for the slowest server with the biggest zone on a busy machine.
const START: Duration = Duration::from_secs(120);

impl Fleet {
    /// Starts the servers in `folder`, which is emptied first.
    pub fn start(folder: &Path, kinds: &[Kind], zones: &[ZoneFile]) -> Fleet {
        let servers: Vec<Server> = kinds.iter().map(|&kind| Server::start(folder, kind, zones)).collect();
        servers.iter().for_each(|s| s.await_zones(zones));
        Fleet { servers }
    }

    pub fn server(&self, kind: Kind) -> &Server {
        self.servers.iter().find(|s| s.kind == kind).expect("a server of this kind was started")
    }

    /// The same queries to all servers at the same time; the answers by server.
    pub fn ask(&self, queries: &[Query]) -> Vec<(Kind, Vec<Reply>)> {
        self.each(|server| ask::all(server.address, queries))
    }

    pub fn ask_tcp(&self, queries: &[Query]) -> Vec<(Kind, Vec<Reply>)> {
        self.each(|server| ask::tcp(server.address, queries))
    }

    /// Each query over a TCP connection of its own.
    pub fn ask_tcp_apart(&self, queries: &[Query]) -> Vec<(Kind, Vec<Reply>)> {
        self.each(|server| ask::tcp_apart(server.address, queries))
    }

    /// Over UDP; where one server truncates or may have left something out, the answers of all over TCP take their place.
    pub fn ask_whole(&self, queries: &[Query]) -> Vec<(Kind, Vec<Reply>)> {
        let mut answers = self.ask(queries);
        let may_lack = |r: &Reply| r.message().is_some_and(|m| m.flags & TC != 0 || m.bulk() > UDP_SIZE);
        let cut: Vec<usize> = (0..queries.len()).filter(|&i| answers.iter().any(|(_, r)| may_lack(&r[i]))).collect();
        let asked: Vec<Query> = cut.iter().map(|&i| queries[i].clone()).collect();
        for ((_, whole), (_, replies)) in self.ask_tcp(&asked).into_iter().zip(&mut answers) {
            cut.iter().zip(whole).for_each(|(&i, reply)| replies[i] = reply);
        }
        answers
    }

    fn each(&self, ask: impl Fn(&Server) -> Vec<Reply> + Sync) -> Vec<(Kind, Vec<Reply>)> {
        let ask = &ask;
        std::thread::scope(|scope| {
            let running: Vec<_> = self.servers.iter().map(|s| (s.kind, scope.spawn(move || ask(s)))).collect();
            running.into_iter().map(|(kind, thread)| (kind, thread.join().expect("asking does not panic"))).collect()
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(folder: &Path, kind: Kind, zones: &[ZoneFile]) -> Server {
        let folder = folder.join(kind.text());
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("db")).expect("a folder for the server's files");
        let address = free_port();
        let log = File::create(folder.join("log")).expect("a log file");
        let child = match kind {
            Kind::Nsd => nsd(&folder, address, zones),
            Kind::Knot => knot(&folder, address, zones),
            Kind::Bind => bind(&folder, address, zones),
            Kind::Dunlin => dunlin(&folder, address, zones),
        }
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle of the log"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|e| panic!("{} does not start: {e}", kind.text()));
        Server { kind, address, folder, child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits until the log says that loading is over: before that a zone that is missing is merely late.
    fn await_zones(&self, zones: &[ZoneFile]) {
        let deadline = Instant::now() + START;
        let over = || match self.kind {
            Kind::Nsd => self.log().contains("nsd started"),
            Kind::Knot => knot_is_done(&self.log(), zones),
            Kind::Bind => self.log().contains("running"),
            Kind::Dunlin => self.log().lines().any(|l| l.starts_with("ready")),
        };
        while !(over() && self.answers()) {
            assert!(Instant::now() < deadline, "{} is not ready:\n{}", self.kind.text(), self.log());
            // Between looks, so that the looking does not slow the start; the condition decides, not the time.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn answers(&self) -> bool {
        answers(self.address)
    }
}

fn answers(address: SocketAddr) -> bool {
    let query = Query::build(&Name::from_text("version.bind."), t::TXT, 3).with_id(1);
    !ask::alone(address, &query, Duration::from_millis(200)).is_empty()
}

/// Waits until something answers there; `log` is printed if nothing does.
pub fn await_answer(address: SocketAddr, log: impl Fn() -> String) {
    let deadline = Instant::now() + START;
    while !answers(address) {
        assert!(Instant::now() < deadline, "nothing answers at {address}:\n{}", log());
        // Between looks, as above: a server that refuses the port answers at once, and asking again at once would spin.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Knot loads zones in the background and says of each what became of it.
fn knot_is_done(log: &str, zones: &[ZoneFile]) -> bool {
    let settled =
        |l: &&str| l.contains(" loaded, serial ") || l.contains("event 'load' failed") || l.contains("failed to load");
    let named = |l: &str| l.split_once('[').and_then(|(_, r)| r.split_once(']')).map(|(zone, _)| zone.to_string());
    let done: std::collections::HashSet<String> = log.lines().filter(settled).filter_map(named).collect();
    zones.iter().all(|z| done.contains(&z.name.to_string()))
}

/// A port that is free for both UDP and TCP, another at each call.
pub fn free_port() -> SocketAddr {
    free_sockets().0
}

/// Such a port and the sockets on it, for who listens there itself: between a look at a port and its use, a process that
/// another thread starts holds what the look opened until it runs its own program. The port lies below those that the
/// system gives away itself, so that no other socket takes it before a server does, or while one is started again.
/// Processes beside this one draw from other blocks: who listens on the first port of a block has it.
pub fn free_sockets() -> (SocketAddr, UdpSocket, TcpListener) {
    const BLOCK: u16 = 50;
    static OURS: Mutex<(Vec<TcpListener>, Range<u16>)> = Mutex::new((Vec::new(), 0..0));
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let sockets = |on: SocketAddr| Some((on, UdpSocket::bind(on).ok()?, TcpListener::bind(on).ok()?));
    let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(free) = ours.1.by_ref().map(at).find_map(sockets) {
            return free;
        }
        let mut blocks = (10_000..30_000).step_by(usize::from(BLOCK));
        let (first, claim) =
            blocks.find_map(|first| Some((first, TcpListener::bind(at(first)).ok()?))).expect("a free block of ports");
        ours.0.push(claim);
        ours.1 = first + 1..first + BLOCK;
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    path
}

fn nsd(folder: &Path, address: SocketAddr, zones: &[ZoneFile]) -> Command {
    let dir = folder.display();
    let mut conf = format!(
        "server:\n server-count: 1\n ip-address: 127.0.0.1@{}\n username: \"\"\n chroot: \"\"\n zonesdir: \"{dir}\"\n \
         pidfile: \"{dir}/pid\"\n xfrdfile: \"\"\n zonelistfile: \"{dir}/zone.list\"\n xfrdir: \"{dir}\"\n rrl-ratelimit: 0\n \
         minimal-responses: yes\n verbosity: 1\n ipv4-edns-size: 1232\n answer-cookie: no\n tcp-count: 50\n \
         hide-version: yes\n hide-identity: yes\n\
         remote-control:\n control-enable: no\n",
        address.port()
    );
    for z in zones {
        let _ = write!(conf, "zone:\n name: \"{}\"\n zonefile: \"{}\"\n", z.name, z.path.display());
    }
    let conf = write(folder, "nsd.conf", &conf);
    let mut command = peers::command("nsd");
    command.arg("-d").arg("-c").arg(conf);
    command
}

fn knot(folder: &Path, address: SocketAddr, zones: &[ZoneFile]) -> Command {
    let dir = folder.display();
    let mut conf = format!(
        "server:\n    rundir: \"{dir}\"\n    listen: 127.0.0.1@{}\n    udp-workers: 1\n    tcp-workers: 1\n    background-workers: 2\n    \
         udp-max-payload: 1232\n    identity: \"\"\n    version: \"\"\n    nsid: \"\"\nlog:\n  - target: stderr\n    any: info\ncontrol:\n    listen: \"{dir}/ctl\"\n\
         database:\n    storage: \"{dir}/db\"\ntemplate:\n  - id: default\n    zonefile-sync: -1\n    semantic-checks: soft\nzone:\n",
        address.port()
    );
    for z in zones {
        let _ = write!(conf, "  - domain: \"{}\"\n    file: \"{}\"\n", z.name, z.path.display());
    }
    let conf = write(folder, "knot.conf", &conf);
    let mut command = peers::command("knotd");
    command.arg("-c").arg(conf);
    command
}

fn bind(folder: &Path, address: SocketAddr, zones: &[ZoneFile]) -> Command {
    let dir = folder.display();
    let mut conf = format!(
        "options {{ directory \"{dir}\"; pid-file \"{dir}/pid\"; session-keyfile \"{dir}/session.key\"; managed-keys-directory \"{dir}\"; \
         listen-on port {} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; minimal-responses yes; notify no; \
         dnssec-validation no; allow-transfer {{ none; }}; answer-cookie no; check-integrity no; check-names primary ignore; \
         check-mx ignore; check-srv-cname ignore; check-mx-cname ignore; check-wildcard no; check-sibling no; check-svcb no; edns-udp-size 1232; \
         max-udp-size 1232; zone-statistics none; empty-zones-enable no; zero-no-soa-ttl no; version none; hostname none; }};\ncontrols {{ }};\n",
        address.port()
    );
    for z in zones {
        let _ = writeln!(conf, "zone \"{}\" {{ type primary; file \"{}\"; }};", z.name, z.path.display());
    }
    let conf = write(folder, "named.conf", &conf);
    let mut command = peers::command("named");
    command.args(["-g", "-n", "1", "-c"]).arg(conf);
    command
}

fn dunlin(folder: &Path, address: SocketAddr, zones: &[ZoneFile]) -> Command {
    let dir = folder.display();
    let mut conf = format!(
        "[server]\nlisten = [\"{address}\"]\nworkers = 1\ndata-dir = \"{dir}/data\"\nuser = \"\"\n[control]\nsocket = \"{dir}/ctl\"\nhttp = \"\"\n\
         [limits]\nenabled = false\n[resolver]\nenabled = false\n"
    );
    for z in zones {
        let _ = write!(conf, "[[zone]]\nname = \"{}\"\nfile = \"{}\"\n", z.name, z.path.display());
    }
    let conf = write(folder, "dunlin.toml", &conf);
    let mut command = Command::new(dunlin_program());
    command.args(["serve", "-c"]).arg(conf);
    command
}

/// `$DUNLIN_BIN`, else the program of the build that this test is of, made once if it is not there.
pub fn dunlin_program() -> PathBuf {
    if let Some(path) = std::env::var_os("DUNLIN_BIN") {
        return PathBuf::from(path);
    }
    // TARGET/PROFILE/deps/TEST; the profile `dev` has the folder `debug`.
    let test = std::env::current_exe().expect("a test has a path");
    let built = test.ancestors().nth(2).expect("a test lies in the folder of its build");
    let path = built.join("dunlin");
    if !path.exists() {
        let (target, folder) = (built.parent().expect("of builds"), built.file_name().expect("of a profile"));
        let profile = if folder == "debug" { "dev".as_ref() } else { folder };
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "-p", "dunlin", "--profile"]).arg(profile).arg("--target-dir").arg(target);
        let built = cargo.current_dir(peers::workspace()).status();
        assert!(built.is_ok_and(|s| s.success()), "cargo build -p dunlin failed");
    }
    path
}
