//! Structured lines on stderr, or for journald: what happens to the server, never what happens to a query.
//!
//! `level message key=value`; under journald a priority `<N>` stands before it, elsewhere the time. A line is one write,
//! so that lines of several threads do not mix. Nobody waits for long for whoever reads them.

use crate::clock;
use crate::config::Level;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io;
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

static LOST: Mutex<Lost> = Mutex::new(Lost { lines: 0, is_torn: false });

/// What nobody has been told of.
struct Lost {
    lines: u64,
    /// What was written last is the beginning of a line.
    is_torn: bool,
}

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
    let patience = if lost.lines == 0 { PATIENCE } else { Duration::ZERO };
    if net::is_writable_within(io::stderr().as_fd(), patience) {
        lost.write(level, message, facts, &mut io::stderr());
    } else {
        lost.lines += 1;
    }
}

impl Lost {
    fn write(&mut self, level: Level, message: &str, facts: &[(&str, &dyn Display)], out: &mut impl io::Write) {
        let mut text = if self.is_torn { "\n".to_string() } else { String::new() };
        if self.lines > 0 {
            let lines: [(&str, &dyn Display); 1] = [("lines", &self.lines)];
            push_line(
                Level::Warn,
                "lines of the log are lost: nobody read it, or its disk was full",
                &lines,
                &mut text,
            );
        }
        push_line(level, message, facts, &mut text);
        // A disk that is full takes a part. Who logs has nobody else to tell.
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match out.write(rest) {
                Ok(n @ 1..) => rest = &rest[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        match rest.len() {
            0 => *self = Lost { lines: 0, is_torn: false },
            left => *self = Lost { lines: self.lines + 1, is_torn: self.is_torn || left < text.len() },
        }
    }
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

    /// A disk that has so much room.
    struct Disk(Vec<u8>, usize);

    impl io::Write for Disk {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let n = octets.len().min(self.1 - self.0.len());
            self.0.extend_from_slice(&octets[..n]);
            if n > 0 { Ok(n) } else { Err(io::ErrorKind::StorageFull.into()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_for_which_the_disk_has_no_room_are_counted_and_spoil_no_other() {
        let (mut lost, mut disk) = (Lost { lines: 0, is_torn: false }, Disk(Vec::new(), 60));
        for message in ["first", "second", "third"] {
            lost.write(Level::Info, message, &[], &mut disk);
        }
        disk.1 = 1000;
        lost.write(Level::Info, "fourth", &[], &mut disk);
        lost.write(Level::Info, "fifth", &[], &mut disk);
        let text = String::from_utf8(disk.0).unwrap();
        // Without the time.
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(lines[0], "info first");
        assert!("info second".starts_with(lines[1]) && lines[1] != "info second", "{text}");
        let told = "warn lines of the log are lost: nobody read it, or its disk was full lines=2";
        assert_eq!(lines[2..], [told, "info fourth", "info fifth"]);
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
