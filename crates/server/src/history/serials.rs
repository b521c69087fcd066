//! Serials of zones that are given them, for when the history is cut off behind the last that it says of a zone: their files say older ones, and
//! without an image nothing else tells.
//!
//! ```text
//! data-dir/history/serials   a line a zone, its serial and its name; then a checksum of these
//! ```
//! Written before a segment goes. Bound: the zones that are given serials.

use crate::config;
use crate::images::name;
use crate::stamp::may_be_there;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use store::atomic::write_atomically;
use store::crc::crc32c;

pub type Serials = HashMap<Box<[u8]>, u32>;

const FILE: &str = "serials";

pub fn write<'z>(folder: &Path, serials: impl Iterator<Item = (&'z [u8], u32)>) -> io::Result<()> {
    let mut text: String = serials.map(|(zone, serial)| format!("{serial} {}\n", name(zone))).collect();
    text.push_str(&sum(&text));
    write_atomically(folder, FILE, None, |out| out.write_all(text.as_bytes())).map(drop)
}

/// Err: they cannot be read, or are damaged.
pub fn read(folder: &Path) -> io::Result<Serials> {
    let file = folder.join(FILE);
    if !may_be_there(&file) {
        return Ok(Serials::new());
    }
    let text = std::fs::read_to_string(&file)?;
    parsed(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", file.display())))
}

fn parsed(text: &str) -> Option<Serials> {
    let lines = &text[..text.strip_suffix('\n')?.rfind('\n').map_or(0, |end| end + 1)];
    let one = |line: &str| {
        let (serial, zone) = line.split_once(' ')?;
        Some((config::apex(zone).ok()?, serial.parse().ok()?))
    };
    lines.lines().map(one).collect::<Option<_>>().filter(|_| text[lines.len()..] == sum(lines))
}

fn sum(lines: &str) -> String {
    format!("sum {:08x}\n", crc32c(lines.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("dunlin-serials-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let zones: [(&[u8], u32); 3] = [(b"\x01z\0", 7), (b"\x05a\\. \n\x01z\0", u32::MAX), (b"\0", 0)];
        for count in 0..=3 {
            write(&folder, zones[..count].iter().copied()).unwrap();
            let expect: Serials = zones[..count].iter().map(|(zone, serial)| ((*zone).into(), *serial)).collect();
            assert_eq!(read(&folder).unwrap(), expect);
        }
        let text = std::fs::read(folder.join(FILE)).unwrap();
        for at in 0..text.len() {
            let mut flipped = text.clone();
            flipped[at] ^= 1;
            for damaged in [&flipped[..], &text[..at]] {
                std::fs::write(folder.join(FILE), damaged).unwrap();
                assert!(read(&folder).is_err(), "{at}");
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read(&folder).unwrap(), Serials::new());
    }
}
