//! Structured lines on stderr, or for journald: what happens to the server, never what happens to a query.
//!
//! `level message key=value`; under journald a priority `<N>` stands before it, elsewhere the time. A line is one write,
//! so that lines of several threads do not mix. Nobody waits for long for whoever reads them.

use crate::clock;
use crate::config::Level;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// A pipe that has room takes so many octets at once, or none (pipe(7): PIPE_BUF). A longer line is cut.
const LINE_OCTETS_MAX: usize = 4096;
/// Whoever logs waits so long for room, once: then lines are lost, and counted, until there is some.
const PATIENCE: Duration = Duration::from_millis(100);

/// Lines that were lost and of which nobody has been told.
static LOST: Mutex<u64> = Mutex::new(0);

pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Relaxed);
}

pub fn error(message: &str, facts: &[(&str, &dyn Display)]) {
    line(Level::Error, message, facts);
}

pub fn warn(message: &str, facts: &[(&str, &dyn Display)]) {
    line(Level::Warn, message, facts);
}

pub fn info(message: &str, facts: &[(&str, &dyn Display)]) {
    line(Level::Info, message, facts);
}

pub fn debug(message: &str, facts: &[(&str, &dyn Display)]) {
    line(Level::Debug, message, facts);
}

/// How often what others bring about again and again is told.
const SELDOM: Duration = Duration::from_secs(10);

/// Something that may happen thousands of times a second, and is told now and then.
#[derive(Default)]
pub struct Seldom {
    told: Option<Instant>,
    untold: u64,
}

impl Seldom {
    /// How often it was not told since; None: nor is it to be told now.
    pub fn untold(&mut self) -> Option<u64> {
        if self.told.is_some_and(|told| told.elapsed() < SELDOM) {
            self.untold += 1;
            return None;
        }
        self.told = Some(Instant::now());
        Some(std::mem::take(&mut self.untold))
    }
}

fn line(level: Level, message: &str, facts: &[(&str, &dyn Display)]) {
    if level as u8 > LEVEL.load(Relaxed) {
        return;
    }
    let mut lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
    let patience = if *lost == 0 { PATIENCE } else { Duration::ZERO };
    if !net::is_writable_within(io::stderr().as_fd(), patience) {
        *lost += 1;
        return;
    }
    let mut text = String::new();
    if *lost > 0 {
        push_line(Level::Warn, "lines of the log are lost: nobody read it", &[("lines", &*lost)], &mut text);
    }
    push_line(level, message, facts, &mut text);
    *lost = 0;
    // Nobody is left to be told that stderr is gone.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn push_line(level: Level, message: &str, facts: &[(&str, &dyn Display)], text: &mut String) {
    match journald() {
        true => _ = write!(text, "<{}>", priority(level)),
        false => _ = write!(text, "{} ", clock::rfc3339(clock::wall_s())),
    }
    text.push_str(&format_line(level, message, facts));
    if text.len() >= LINE_OCTETS_MAX {
        text.truncate(text.floor_char_boundary(LINE_OCTETS_MAX - "…\n".len()));
        text.push('…');
    }
    text.push('\n');
}

fn format_line(level: Level, message: &str, facts: &[(&str, &dyn Display)]) -> String {
    let mut text = format!("{} {message}", level.name());
    for (key, value) in facts {
        let value = value.to_string();
        let plain = !value.is_empty() && value.bytes().all(|c| c.is_ascii_graphic() && c != b'"' && c != b'\\');
        let _ = if plain { write!(text, " {key}={value}") } else { write!(text, " {key}={value:?}") };
    }
    text
}

/// systemd sets the variable to what is the journal's; stderr may be another file all the same (systemd.exec(5)).
fn journald() -> bool {
    static JOURNALD: OnceLock<bool> = OnceLock::new();
    *JOURNALD.get_or_init(|| {
        let own = || File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok();
        let journals = std::env::var("JOURNAL_STREAM").ok();
        journals.zip(own()).is_some_and(|(journals, own)| journals == format!("{}:{}", own.dev(), own.ino()))
    })
}

/// The numbers of syslog.
fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_line_is_one_line_whatever_it_tells() {
        let line = format_line(Level::Warn, "zone kept", &[("zone", &"a."), ("why", &"line 1\nis \"odd\""), ("n", &3)]);
        assert_eq!(line, "warn zone kept zone=a. why=\"line 1\\nis \\\"odd\\\"\" n=3");
    }

    #[test]
    fn a_line_is_no_longer_than_what_is_written_at_once() {
        let mut text = String::new();
        push_line(Level::Warn, "one", &[], &mut text);
        push_line(Level::Info, "many", &[("what", &"ö".repeat(LINE_OCTETS_MAX))], &mut text);
        assert!(
            (LINE_OCTETS_MAX - 1..=LINE_OCTETS_MAX).contains(&text.len()) && text.ends_with("ö…\n"),
            "{}",
            text.len()
        );
        assert_eq!(text.lines().count(), 2);
    }

    /// The messages of a folder of sources: `LEVEL MESSAGE`.
    fn messages(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
            if entry.is_dir() {
                messages(&entry, found);
                continue;
            }
            let source = std::fs::read_to_string(&entry).unwrap();
            for level in [Level::Error, Level::Warn, Level::Info, Level::Debug] {
                for call in source.split(&format!("log::{}(", level.name())).skip(1) {
                    let Some(text) = call.trim_start().strip_prefix('"') else { continue };
                    found.push(format!("{} {}", level.name(), text.split('"').next().unwrap()));
                }
            }
        }
    }

    #[test]
    fn the_operators_guide_knows_every_message_and_every_counter() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guide = std::fs::read_to_string(root.join("docs/operators-guide.md")).unwrap();
        let mut wanted: Vec<String> = stats::Counter::ALL.iter().map(|c| c.name().to_string()).collect();
        for part in ["crates/server/src", "crates/dunlin/src"] {
            messages(&root.join(part), &mut wanted);
        }
        assert!(wanted.contains(&"info ready".to_string()), "{wanted:?}");
        wanted.retain(|word| !guide.contains(&format!("`{word}`")));
        assert_eq!(wanted, [""; 0], "these stand in no line of docs/operators-guide.md");
    }
}
