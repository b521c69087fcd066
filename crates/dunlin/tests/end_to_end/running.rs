//! A server of its own for each test: in a folder of its own, on ports that are free, ended with the test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks at what is waited for: who looks all the time keeps its processor from the idle threads that do it.
fn rest() {
    std::thread::park_timeout(Duration::from_millis(2));
}

/// A server on a free port that operators talk to over a socket in its folder.
const HEAD: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\ndata-dir = \"data\"\nuser = \"\"\n\
    [control]\nsocket = \"control.sock\"\nhttp = \"\"\n";

/// For `configure`: the zones are what lies in the folder of this name.
pub const DIRECTORY: &str = "[zones]\ndirectory = \"zones\"\n";

/// A folder that is removed with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dunlin-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a file as if it had been some time ago: one that has just been written is looked at again, whatever it is like.
    pub fn write_long_ago(&self, name: &str, text: &str) -> PathBuf {
        let file = self.write(name, text);
        let before = SystemTime::now() - Duration::from_secs(60);
        File::open(&file).unwrap().set_modified(before).unwrap();
        file
    }

    /// Writes dunlin.toml: `HEAD`, and this.
    pub fn configure(&self, rest: &str) -> PathBuf {
        self.write("dunlin.toml", &format!("{HEAD}{rest}"))
    }

    pub fn dunlin(&self, args: &[&str]) -> Output {
        command(&self.0).args(args).output().unwrap()
    }

    /// A request to the server of `configure`.
    pub fn ctl(&self, words: &[&str]) -> Output {
        self.dunlin(&[&["ctl", "--socket", "control.sock"], words].concat())
    }

    /// The same; what is said when it is done.
    #[track_caller]
    pub fn does(&self, words: &[&str]) -> String {
        let output = self.ctl(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    #[track_caller]
    pub fn refuses(&self, words: &[&str], expect: &str) {
        let output = self.ctl(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", text(&output.stdout));
        assert!(text(&output.stderr).contains(expect), "{words:?}: {}", text(&output.stderr));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tell(&self.0);
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a test that has failed leaves: its files, and what the log, and what is known of zones' files, say.
fn tell(folder: &Path) {
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if file.is_dir() {
            tell(&file);
            continue;
        }
        eprintln!("{} {}", file.display(), file.metadata().map_or(0, |m| m.len()));
        if file.ends_with("log") || file.extension().is_some_and(|e| e == "origin" || e == "next") {
            eprintln!("{}", std::fs::read_to_string(&file).unwrap_or_default());
        }
    }
}

/// The program, at home in `folder`.
pub fn command(folder: &Path) -> Command {
    at_home(folder, Command::new(env!("CARGO_BIN_EXE_dunlin")))
}

pub fn at_home(folder: &Path, mut command: Command) -> Command {
    command.current_dir(folder).env("HOME", folder);
    for name in ["XDG_DATA_HOME", "XDG_RUNTIME_DIR", "NOTIFY_SOCKET", "JOURNAL_STREAM"] {
        command.env_remove(name);
    }
    command
}

pub struct Server {
    child: Child,
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server and waits until it says `ready`.
    pub fn start(folder: &Folder, args: &[&str]) -> Server {
        Server::start_in(folder, args, &[])
    }

    /// The same with some variables of the environment.
    pub fn start_in(folder: &Folder, args: &[&str], environment: &[(&str, &str)]) -> Server {
        let mut command = command(&folder.0);
        command.arg("serve").args(args).envs(environment.iter().copied());
        Server::start_as(folder, command)
    }

    /// One that is not waited for: it has no address yet.
    pub fn begin(folder: &Folder, args: &[&str]) -> Server {
        let log = File::create(folder.0.join("log")).unwrap();
        let mut server = command(&folder.0);
        let child = server.arg("serve").args(args).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Server { address: ([127, 0, 0, 1], 0).into(), child }
    }

    /// The same by another command, that becomes the server.
    pub fn start_as(folder: &Folder, command: Command) -> Server {
        let log = File::create(folder.0.join("log")).unwrap();
        Server::start_telling(folder, command, log)
    }

    /// The same with a log that is no file.
    pub fn start_telling(folder: &Folder, mut command: Command, log: impl Into<Stdio>) -> Server {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.strip_prefix("ready ").and_then(|l| l.split_whitespace().next()) else {
            panic!("not ready: {line:?}\n{}", read(&folder.0.join("log")));
        };
        Server { address: address.parse().unwrap(), child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// Ends it as a crash would.
    pub fn killed(self) {
        self.signal("KILL");
        self.ended();
    }

    /// Waits for the end of a server that was killed.
    pub fn wait(&mut self) {
        self.child.wait().unwrap();
    }

    /// Waits for the end; the exit status.
    pub fn ended(mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            rest();
        }
        panic!("the server does not end");
    }

    /// Our own query, in its short form.
    pub fn short(&self, folder: &Folder, words: &[&str]) -> String {
        let at = format!("@{}", self.address);
        let output = folder.dunlin(&[&["query", &at, "+short"], words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        text(&output.stdout)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

pub fn read(path: &Path) -> String {
    let mut text = String::new();
    File::open(path).and_then(|mut f| f.read_to_string(&mut text)).unwrap();
    text
}

/// Asks again and again until it is so.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if is_so() {
            return;
        }
        rest();
    }
    panic!("{what} did not come true");
}

pub const ZONE: &str = "\
$TTL 300
@ SOA ns1 hostmaster 1 14400 3600 1209600 300
@ NS ns1
ns1 A 192.0.2.1
www A 192.0.2.2
";
