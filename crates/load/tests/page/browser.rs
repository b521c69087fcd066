//! A headless Chromium, spoken to over the pipe of its DevTools protocol: messages of JSON, each with a zero behind it.
//! Knows nothing of reports.

use load::json::Json;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A browser that hangs is ended after so many seconds, and the test with it.
const PATIENCE_S: &str = "300";
const NAMES: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u64,
    session: Option<String>,
    events: VecDeque<Json>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one of scripts/peers, or one that is installed.
fn program() -> PathBuf {
    let folder = std::env::var_os("DUNLIN_PEERS").map(PathBuf::from);
    let peers = folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(peers).chain(std::env::split_paths(&path)).find_map(|folder| {
        let mut names = NAMES.iter().map(|name| folder.join(name));
        names.find(|program| program.exists())
    });
    found.unwrap_or_else(|| panic!("there is no headless browser: run scripts/peers, or install chromium"))
}

impl Browser {
    /// `profile` is a folder of its own.
    pub fn start(profile: &Path) -> Browser {
        let _ = std::fs::remove_dir_all(profile);
        // The protocol's pipe is descriptors 3 and 4.
        let line = "exec timeout \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", line, "sh", PATIENCE_S])
            .arg(program())
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--hide-scrollbars", "--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Browser { child, to, from, next: 1, session: None, events: VecDeque::new() };
        let target = browser.call("Target.createTarget", r#"{"url": "about:blank"}"#);
        let id = target.at("targetId").clone();
        let session = browser.call("Target.attachToTarget", &format!(r#"{{"targetId": {id}, "flatten": true}}"#));
        browser.session = session.at("sessionId").text().map(ToString::to_string);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), "{}");
        }
        browser
    }

    /// What a method gives back; events that come meanwhile are kept.
    pub fn call(&mut self, method: &str, parameters: &str) -> Json {
        let id = self.next;
        self.next += 1;
        let session = self.session.as_ref().map_or(String::new(), |session| format!(r#", "sessionId": "{session}""#));
        write!(self.to, "{{\"id\": {id}, \"method\": \"{method}\", \"params\": {parameters}{session}}}\0").unwrap();
        loop {
            let message = self.message();
            if message.at("id").number() == Some(id as f64) {
                assert_eq!(message.at("error"), &Json::Null, "{method} {parameters}");
                return message.at("result").clone();
            }
            self.events.push_back(message);
        }
    }

    fn message(&mut self) -> Json {
        let mut octets = Vec::new();
        self.from.read_until(0, &mut octets).unwrap();
        assert_eq!(octets.pop(), Some(0), "{} ended or hangs", program().display());
        Json::parse(&String::from_utf8_lossy(&octets)).unwrap()
    }

    /// Opens a page as on a screen of this width and in these colours; gives the events until it is loaded.
    pub fn open(&mut self, url: &str, width: u32, scheme: &str) -> Vec<Json> {
        let screen =
            format!(r#"{{"width": {width}, "height": 900, "deviceScaleFactor": 1, "mobile": {}}}"#, width < 600);
        self.call("Emulation.setDeviceMetricsOverride", &screen);
        let feature = format!(r#"{{"features": [{{"name": "prefers-color-scheme", "value": "{scheme}"}}]}}"#);
        self.call("Emulation.setEmulatedMedia", &feature);
        self.events.clear();
        self.call("Page.navigate", &format!(r#"{{"url": "{url}"}}"#));
        let is_loaded = |event: &Json| event.at("method").text() == Some("Page.loadEventFired");
        while !self.events.iter().any(is_loaded) {
            let message = self.message();
            self.events.push_back(message);
        }
        self.events.drain(..).collect()
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Json {
        let text = Json::from(expression);
        let given = self.call("Runtime.evaluate", &format!(r#"{{"expression": {text}, "returnByValue": true}}"#));
        assert_eq!(given.at("exceptionDetails"), &Json::Null);
        given.at("result").at("value").clone()
    }

    /// The whole page as a PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", r#"{"format": "png", "captureBeyondViewport": true}"#);
        from_base64(shot.at("data").text().unwrap())
    }
}

/// RFC 4648 section 4.
fn from_base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut out = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0, |bits, c| bits << 6 | digit(*c)) << (6 * (4 - four.len()));
        out.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    out
}
