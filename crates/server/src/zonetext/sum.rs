//! A zone's text that we write for ourselves ends with its sum: what a disk has lost of it, or somebody has done to it, is found when it is read.
//!
//! ```text
//! ; dunlin, position 5 (sum at the end)
//! z.example. 300 IN SOA ns.z.example. ...
//! ; dunlin, sum 1a2b3c4d                        CRC-32C of all before this line
//! ```
//! A text whose first line speaks of no sum is what it is: whoever mends one takes these words away, and those that
//! older versions wrote never had them.

use std::fmt::Display;
use std::io::{self, Write};
use store::atomic::Output;
use store::crc::{Crc32c, crc32c};

/// What begins a line of ours.
pub const OURS: &str = "; dunlin, ";
/// What one says of a zone that was received, before the primary's name.
pub const RECEIVED: &str = "from ";
const SAID: &str = " (sum at the end)";
/// Before the sum itself, of eight digits.
const SUM: &str = "; dunlin, sum ";
const SUM_OCTETS: usize = SUM.len() + 8 + 1;
/// No first line of ours is as long.
const FIRST_LINE_MAX: usize = 200;

/// A text is not what was written.
#[derive(Debug)]
pub struct Broken;

impl Broken {
    /// `instead`: what is to be done, or will be.
    pub fn error(instead: &str) -> io::Error {
        let why = format!(
            "its sum is not that of what it holds: a part of it is lost, or somebody has changed it; {instead}"
        );
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

impl From<Broken> for io::Error {
    fn from(_: Broken) -> io::Error {
        Broken::error("to have it as it is, take `(sum at the end)` out of its first line")
    }
}

/// Where such a text goes.
pub struct Summed<'o> {
    out: &'o mut Output,
    crc: Crc32c,
}

impl Write for Summed<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let taken = self.out.write(from)?;
        self.crc.add(&from[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a text; its first line says `what` of it.
pub fn write(
    out: &mut Output,
    what: impl Display,
    text: impl FnOnce(&mut Summed<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = Summed { out, crc: Crc32c::default() };
    writeln!(out, "{OURS}{what}{SAID}")?;
    text(&mut out)?;
    let sum = out.crc.sum();
    writeln!(out.out, "{SUM}{sum:08x}")
}

/// What a text holds behind its first line, and before its sum. Err: it is not what was written.
pub fn holds(text: &[u8]) -> Result<&[u8], Broken> {
    let first = text.iter().take(FIRST_LINE_MAX).position(|&c| c == b'\n').unwrap_or_default();
    let (line, rest) = text.split_at(first);
    if !line.starts_with(OURS.as_bytes()) || !line.ends_with(SAID.as_bytes()) {
        return Ok(rest);
    }
    let whole = text.len().checked_sub(SUM_OCTETS).and_then(|end| text.split_at_checked(end));
    match whole.filter(|(before, sum)| *sum == format!("{SUM}{:08x}\n", crc32c(before)).as_bytes()) {
        Some((before, _)) => Ok(&before[first..]),
        None => Err(Broken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::atomic::write_atomically;

    fn written(name: &str, text: &str) -> Vec<u8> {
        let folder = std::env::temp_dir().join(format!("dunlin-sum-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let whole = |out: &mut Output| write(out, "a test", |out| out.write_all(text.as_bytes()));
        let file = write_atomically(&folder, "z.zone", None, whole).unwrap();
        let octets = std::fs::read(file).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        octets
    }

    #[test]
    fn whatever_octet_is_lost_or_another_is_found() {
        let body = "z. 60 IN A 192.0.2.1\nz. 60 IN A 192.0.2.2\n";
        let text = written("octets", body);
        assert_eq!(holds(&text).unwrap(), format!("\n{body}").as_bytes());
        for i in "; dunlin, ".len()..text.len() {
            // The words that speak of a sum are the only ones without which there is none.
            let is_said = ("; dunlin, a test".len().."; dunlin, a test (sum at the end)\n".len()).contains(&i);
            let flipped = |bit: u8| [&text[..i], &[text[i] ^ bit], &text[i + 1..]].concat();
            (0..8).for_each(|n| assert!(holds(&flipped(1 << n)).is_err() || is_said, "{i} {n}"));
            let is_cut_in_head = i < "; dunlin, a test (sum at the end)\n".len();
            assert!(holds(&text[..i]).is_err() || is_cut_in_head, "cut off behind {i}");
            assert!(holds(&[&text[..i], &text[i + 1..]].concat()).is_err() || is_said, "without {i}");
        }
        let line = body.find('\n').unwrap() + 1;
        let head = text.len() - SUM_OCTETS - body.len();
        assert!(holds(&[&text[..head], &text[head + line..]].concat()).is_err(), "a line is lost");
        assert!(holds(&[&text[..], b"z. 60 IN A 192.0.2.3\n"].concat()).is_err(), "one is added");
    }

    #[test]
    fn a_text_that_speaks_of_no_sum_is_what_it_is() {
        let text = written("none", "z. 60 IN A 192.0.2.1\n");
        let mended = String::from_utf8(text).unwrap().replace(" (sum at the end)", "").replace(".1\n", ".9\n");
        assert!(holds(mended.as_bytes()).unwrap().starts_with(b"\nz. 60 IN A 192.0.2.9\n"));
        for other in
            ["", "\n", "$TTL 60\n; dunlin, x (sum at the end)\n", "; dunlin, position 5\nz. 60 IN A 192.0.2.1\n"]
        {
            assert!(holds(other.as_bytes()).is_ok(), "{other}");
        }
    }
}
