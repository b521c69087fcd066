//! `dunlin ctl`: a request to the running server, its answer for people or as JSON.

mod zone;

use crate::cli::{Ctl, Request};
use crate::configuration;
use crate::exit::{Exit, could_not, not_built, remark, say, told};
use server::config;
use server::kept::BETWEEN;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// What the server can do with zones, and how many words say with which.
const OF_ZONES: [(&str, RangeInclusive<usize>); 14] = [
    ("add NAME FILE", 2..=2),
    ("modify NAME CHANGE...", 2..=usize::MAX),
    ("remove NAME", 1..=1),
    ("log NAME", 1..=1),
    ("diff NAME", 1..=1),
    ("diff NAME SERIAL SERIAL", 3..=3),
    ("show NAME", 1..=1),
    ("rollback NAME SERIAL", 2..=2),
    ("publish NAME", 1..=1),
    ("list [NAME...]", 0..=usize::MAX),
    ("transfer NAME", 1..=1),
    ("notify NAME", 1..=1),
    ("freeze NAME", 1..=1),
    ("thaw NAME", 1..=1),
];

/// So long the answer to a question may take that a server answers at once.
const PATIENCE: Duration = Duration::from_secs(10);
const HUNG_UP: &str = "the server hung up in the middle of its answer";

pub fn run(args: &Ctl) -> Exit {
    let request = match &args.request {
        Request::Status => "status".to_string(),
        Request::Stats => "stats".to_string(),
        Request::Stop => "stop".to_string(),
        Request::Reload { zones } => format!("reload {}", zones.join(" ")),
        Request::Zone { words, force, serial } => {
            let force = if *force { " --force" } else { "" };
            let serial = serial.map_or(String::new(), |serial| format!(" --serial {serial}"));
            let (verb, rest) = (&words[0], words.get(1..).unwrap_or_default());
            format!("zone {verb}{force}{serial} {}", details(verb, rest))
        }
        Request::Cache { words } => format!("cache {}", words.join(" ")),
        Request::Policy { .. } => return not_built("ctl policy"),
        Request::Stall => "stall".to_string(),
    };
    // A line is a request: what stands behind it would be another one.
    if words(&args.request).iter().any(|word| word.contains(char::is_control)) {
        return could_not("a word of the command holds a line break, a tab or the like; in a text write \\DDD instead");
    }
    // Without it the command would be another one, and a reload one of all zones.
    if words(&args.request).iter().any(|word| word.trim().is_empty()) {
        return could_not("a word of the command is empty: leave it out, or write what it stands for");
    }
    if let Request::Zone { words, force, serial } = &args.request {
        if let Some(usage) = misuse(words) {
            return could_not(format_args!("there is no `zone {}`; write zone {usage}", words.join(" ")));
        }
        let is_one_of = |verbs: &[&str]| verbs.contains(&&*words[0]);
        if *force && !is_one_of(&["add", "modify", "publish"]) {
            return could_not("--force goes with zone add, modify and publish");
        }
        if serial.is_some() && !is_one_of(&["show"]) {
            return could_not("--serial goes with zone show");
        }
    }
    let paths = match sockets(args) {
        Ok(paths) => paths,
        Err(exit) => return exit,
    };
    let mut tried = Vec::new();
    let connected = paths.iter().find_map(|path| match UnixStream::connect(path) {
        Ok(stream) => Some((stream, path)),
        Err(e) => {
            tried.push(format!("{} ({e})", path.display()));
            None
        }
    });
    let Some((mut stream, path)) = connected else {
        let tried = tried.join(" or ");
        return could_not(format_args!(
            "no server answers at {tried}; name its socket with --socket, and be its owner or in its group"
        ));
    };
    // These take no time, and who watches a server that stands still is to hear of it.
    let is_quick = matches!(args.request, Request::Status | Request::Stats | Request::Stall);
    let within = is_quick.then_some(PATIENCE);
    if let Err(e) = stream.set_read_timeout(within).and_then(|()| stream.set_write_timeout(within)) {
        return could_not(e);
    }
    let mut line = String::new();
    let asked = stream.write_all(format!("{}\n", request.trim_end()).as_bytes());
    let is_of_zone = is_of_zone(&args.request);
    let mut answer: Box<dyn BufRead> =
        if is_of_zone { Box::new(zone::Ahead::of(stream)) } else { Box::new(BufReader::new(stream)) };
    let answered = if is_of_zone { zone::head(&mut answer, &mut line) } else { answer.read_line(&mut line) };
    // A server with too many connections says so before it is asked, and hangs up.
    match asked.and(answered) {
        _ if line.ends_with('\n') => show(args, &line),
        Ok(_) if line.ends_with(zone::RECORDS) => match zone::show(&line, &mut answer, args.json) {
            Err(zone::Ended::Early) => {
                could_not(format_args!("{}: {HUNG_UP}, which is not all of the zone", path.display()))
            }
            Err(zone::Ended::Unread(e)) => could_not(format_args!("{}: {e}", path.display())),
            Err(zone::Ended::Unwritten(e)) => told(Err(e), Exit::Done),
            Ok(()) => Exit::Done,
        },
        Ok(n) if n > 0 => could_not(format_args!("{}: {HUNG_UP}", path.display())),
        Ok(_) => could_not(format_args!("{}: the server hung up", path.display())),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => could_not(format_args!(
            "{}: the server has not answered for {} s: it stands still, or its machine has too much to do",
            path.display(),
            PATIENCE.as_secs()
        )),
        Err(e) => could_not(format_args!("{}: {e}", path.display())),
    }
}

/// What to write instead of these words, if they are no request.
fn misuse(words: &[String]) -> Option<String> {
    let verb = |usage: &'static str| usage.split(' ').next();
    let of_verb = OF_ZONES.iter().filter(|(usage, _)| verb(usage) == words.first().map(String::as_str));
    let of_verb: Vec<_> = of_verb.collect();
    let are_meant = of_verb.iter().any(|(_, details)| details.contains(&(words.len() - 1)));
    let usages = if of_verb.is_empty() { OF_ZONES.iter().collect() } else { of_verb };
    let usages: Vec<&str> = usages.iter().map(|(usage, _)| *usage).collect();
    (!are_meant).then(|| usages.join(", "))
}

fn words(request: &Request) -> &[String] {
    match request {
        Request::Reload { zones } => zones,
        Request::Zone { words, .. } | Request::Cache { words } => words,
        _ => &[],
    }
}

/// What follows the verb. The server looks for files from where it runs; changes are apart from one another if the first is
/// one word of the command line.
fn details(verb: &str, words: &[String]) -> String {
    match (verb, words) {
        ("add", [zone, file]) => {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.into());
            format!("{zone} {}", file.display())
        }
        ("modify", [zone, changes @ ..]) => {
            let are_apart = changes.first().is_some_and(|first| first.contains(' '));
            let between = if are_apart { BETWEEN } else { ' ' };
            format!("{zone} {}", changes.join(&between.to_string()))
        }
        _ => words.join(" "),
    }
}

fn sockets(args: &Ctl) -> Result<Vec<PathBuf>, Exit> {
    if let Some(path) = &args.socket {
        return Ok(vec![path.clone()]);
    }
    let Some(file) = &args.config else {
        return Ok(vec![config::Config::default().control.socket, configuration::folders().socket()]);
    };
    config::socket(file).map(|socket| vec![socket]).map_err(|complaints| {
        configuration::show(&complaints, Some(file));
        Exit::CouldNot
    })
}

fn show(args: &Ctl, line: &str) -> Exit {
    let exit = if line.starts_with("{\"ok\":true") { Exit::Done } else { Exit::No };
    if args.json {
        return say(line, exit);
    }
    let text = plain(line.trim_end());
    let text = if is_of_zone(&args.request) && exit == Exit::Done { zone::comments(&text) } else { text };
    if exit == Exit::Done {
        return say(text, exit);
    }
    remark(&text);
    exit
}

/// Whether all of a zone is to be shown.
fn is_of_zone(request: &Request) -> bool {
    matches!(request, Request::Zone { words, .. } if words[0] == "show")
}

/// JSON as lines of "key value", the inner ones indented, without its quotes and brackets.
fn plain(json: &str) -> String {
    let mut out = String::new();
    let (mut depth, mut fresh) = (0usize, true);
    let mut chars = json.chars();
    let start = |out: &mut String, depth: usize, fresh: &mut bool| {
        if *fresh {
            out.push_str(&"  ".repeat(depth.saturating_sub(1)));
            *fresh = false;
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '{' | '[' => {
                if !fresh {
                    out.truncate(out.trim_end_matches(' ').len());
                    out.push('\n');
                }
                (depth, fresh) = (depth + 1, true);
            }
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' => {
                if !out.ends_with('\n') {
                    out.push('\n');
                }
                fresh = true;
            }
            ':' => out.push(' '),
            '"' => {
                start(&mut out, depth, &mut fresh);
                string(&mut chars, &mut out);
            }
            c => {
                start(&mut out, depth, &mut fresh);
                out.push(c);
            }
        }
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn string(chars: &mut std::str::Chars<'_>, out: &mut String) {
    while let Some(c) = chars.next() {
        match c {
            '"' => return,
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('u') => {
                    let code: String = chars.take(4).collect();
                    out.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
                }
                Some(other) => out.push(other),
                None => return,
            },
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_request_about_zones_are_told_what_to_write() {
        let misuse = |line: &str| misuse(&line.split(' ').map(str::to_string).collect::<Vec<_>>());
        for line in ["list", "log z", "diff z", "diff z 1 2", "modify z add a 60 A 192.0.2.1", "rollback z 7"] {
            assert_eq!(misuse(line), None, "{line}");
        }
        assert_eq!(misuse("diff z 1").as_deref(), Some("diff NAME, diff NAME SERIAL SERIAL"));
        assert_eq!(misuse("show").as_deref(), Some("show NAME"));
        assert!(misuse("frobnicate z").is_some_and(|usage| usage.starts_with("add NAME FILE, modify")));
    }

    #[test]
    fn json_as_lines() {
        let json = "{\"ok\":true,\"status\":{\"pid\":7,\"addresses\":[\"127.0.0.1:53\",\"[::1]:53\"],\"image\":{\"zones\":2},\"problems\":[]}}";
        let expect =
            "ok true\nstatus\n  pid 7\n  addresses\n    127.0.0.1:53\n    [::1]:53\n  image\n    zones 2\n  problems\n";
        assert_eq!(plain(json), expect);
    }
}
