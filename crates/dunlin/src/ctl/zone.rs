//! The answer to `zone show`, which may be of any size: it is shown as it comes.

use super::{plain, string};
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// What the head of such an answer ends with: all records follow, as a list, and then the answer ends.
pub const RECORDS: &str = "\"records\":[";

/// Why not all of a zone has been shown.
#[derive(Debug)]
pub enum Ended {
    /// The server has hung up.
    Early,
    Unread(io::Error),
    Unwritten(io::Error),
}

/// What comes from a server that has no patience with who does not read on: a pager may.
pub struct Ahead {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    /// Of the chunk, what has been read.
    from: usize,
}

impl Ahead {
    pub fn of(mut stream: UnixStream) -> Ahead {
        let (into, chunks) = channel();
        thread::spawn(move || {
            loop {
                let mut chunk = vec![0; 64 << 10];
                let read = stream.read(&mut chunk).inspect(|n| chunk.truncate(*n)).map(|_| chunk);
                let is_over = read.as_ref().map_or(true, Vec::is_empty);
                if into.send(read).is_err() || is_over {
                    return;
                }
            }
        });
        Ahead { chunks, chunk: Vec::new(), from: 0 }
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.from == self.chunk.len() {
            // Nothing comes any more from who has hung up.
            (self.chunk, self.from) = (self.chunks.recv().unwrap_or(Ok(Vec::new()))?, 0);
        }
        Ok(&self.chunk[self.from..])
    }

    fn consume(&mut self, n: usize) {
        self.from += n;
    }
}

/// Reads an answer up to its records; all of it if it has none. Returns how many octets were read.
pub fn head(answer: &mut impl BufRead, into: &mut String) -> io::Result<usize> {
    let mut octets = Vec::new();
    // Within a text the quotation marks would be escaped.
    for octet in answer.bytes() {
        octets.push(octet?);
        if octets.ends_with(b"\n") || octets.ends_with(RECORDS.as_bytes()) {
            break;
        }
    }
    *into = String::from_utf8(octets).map_err(io::Error::other)?;
    Ok(into.len())
}

/// Shows the zone on stdout, as it came or as its file might be.
pub fn show(head: &str, records: &mut impl BufRead, is_json: bool) -> Result<(), Ended> {
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = if is_json { copy(head, records, &mut out) } else { as_file(head, records, &mut out) };
    shown.and_then(|()| out.flush().map_err(Ended::Unwritten))
}

fn copy(head: &str, rest: &mut impl BufRead, out: &mut impl Write) -> Result<(), Ended> {
    out.write_all(head.as_bytes()).map_err(Ended::Unwritten)?;
    loop {
        let some = rest.fill_buf().map_err(Ended::Unread)?;
        let (n, is_all) = (some.len(), some.ends_with(b"\n"));
        if n == 0 {
            return Err(Ended::Early);
        }
        out.write_all(some).map_err(Ended::Unwritten)?;
        rest.consume(n);
        if is_all {
            return Ok(());
        }
    }
}

fn as_file(head: &str, records: &mut impl BufRead, out: &mut impl Write) -> Result<(), Ended> {
    let head = head.trim_end_matches(RECORDS).trim_end_matches(',');
    out.write_all(comments(&plain(&format!("{head}}}"))).as_bytes()).map_err(Ended::Unwritten)?;
    let mut item = Vec::new();
    loop {
        item.clear();
        // The connection stays open: what comes next is looked at before it is read.
        let next = records.fill_buf().map_err(Ended::Unread)?.first().copied();
        let until = if next == Some(b']') { b'\n' } else { b'"' };
        records.read_until(until, &mut item).map_err(Ended::Unread)?;
        match &item[..] {
            b"\"" | b",\"" => {}
            b"]}\n" => return Ok(()),
            _ => return Err(Ended::Early),
        }
        // Up to the quotation mark that ends the record.
        item.clear();
        while !is_ended(&item) {
            if records.read_until(b'"', &mut item).map_err(Ended::Unread)? == 0 {
                return Err(Ended::Early);
            }
        }
        let mut record = String::new();
        string(&mut String::from_utf8_lossy(&item).chars(), &mut record);
        writeln!(out, "{record}").map_err(Ended::Unwritten)?;
    }
}

/// Whether there is a quotation mark at the end that does not belong to the text.
fn is_ended(text: &[u8]) -> bool {
    let Some(text) = text.strip_suffix(b"\"") else { return false };
    text.iter().rev().take_while(|octet| **octet == b'\\').count().is_multiple_of(2)
}

/// What there is beside the records of a zone, as comments before them. `text`: as `plain` makes it.
pub fn comments(text: &str) -> String {
    let said = text.lines().filter(|line| *line != "ok true");
    let comments = said.map(|line| match line.strip_prefix("first_line ") {
        Some(first) => format!("{first}\n"),
        None => format!("; {line}\n"),
    });
    comments.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of an answer, and how it ended.
    fn shown(answer: &str, is_json: bool) -> (String, Result<(), Ended>) {
        let (mut answer, mut line, mut out) = (answer.as_bytes(), String::new(), Vec::new());
        head(&mut answer, &mut line).unwrap();
        let ended = match line.ends_with(RECORDS) {
            true if is_json => copy(&line, &mut answer, &mut out),
            true => as_file(&line, &mut answer, &mut out),
            false => {
                out = comments(&plain(line.trim_end())).into_bytes();
                Ok(())
            }
        };
        (String::from_utf8(out).unwrap(), ended)
    }

    #[test]
    fn a_zone_is_shown_as_its_file_might_be() {
        let records = r#""records":["a. 60 IN TXT \"records\"","b. 60 IN TXT \"\\\\\"","b. 60 IN A 192.0.2.1"]}"#;
        let secondary = r#""secondary":{"zone":"a.","state":"fresh"}"#;
        let first = r#""first_line":"; serial 7, written by dunlin for updates; keep this line""#;
        let text = "a. 60 IN TXT \"records\"\nb. 60 IN TXT \"\\\\\"\nb. 60 IN A 192.0.2.1\n";
        let of_secondary = "; secondary\n;   zone a.\n;   state fresh\n";
        for (answer, expect) in [
            (format!("{{\"ok\":true,{records}\n"), text.to_string()),
            (
                format!("{{\"ok\":true,{first},{records}\n"),
                format!("; serial 7, written by dunlin for updates; keep this line\n{text}"),
            ),
            (format!("{{\"ok\":true,{secondary},{records}\n"), format!("{of_secondary}{text}")),
            (
                format!("{{\"ok\":true,{secondary},\"no_records\":\"none\"}}\n"),
                format!("{of_secondary}; no_records none\n"),
            ),
            ("{\"ok\":true,\"records\":[]}\n".to_string(), String::new()),
        ] {
            let (shown, ended) = shown(&answer, false);
            assert_eq!(shown, expect);
            ended.unwrap();
        }
    }

    /// Wherever a server hangs up that is told, and what was shown until then are whole records.
    #[test]
    fn an_answer_that_ends_early_is_not_taken_for_the_zone() {
        let answer = "{\"ok\":true,\"records\":[\"a. 60 IN TXT \\\"x\\\"\",\"b. 60 IN A 192.0.2.1\"]}\n";
        let (all, ended) = shown(answer, false);
        ended.unwrap();
        assert_eq!(shown(answer, true).0, answer);
        for end in answer.find('[').unwrap() + 1..answer.len() {
            for is_json in [false, true] {
                let (part, ended) = shown(&answer[..end], is_json);
                assert!(matches!(ended, Err(Ended::Early)), "{end}");
                assert!(is_json || all.starts_with(&part) && (part.is_empty() || part.ends_with('\n')), "{part}");
            }
        }
    }
}
