//! Says how a file is mapped here: whether huge pages back it, and how long that took.
//!
//!   huge FILE [copy | again]
//!
//! copy: into anonymous memory; again: writes the file's content to FILE.again first, as an image is written.

use std::io::{Error, Write};
use std::path::Path;
use std::time::Instant;
use store::map::HUGE;
use store::{Map, atomic};

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let Some(path) = args.get(1) else { return Err(Error::other("huge FILE [copy | again]")) };
    let mode = args.get(2).map_or("", String::as_str);
    let started = Instant::now();
    let map = match mode {
        "copy" => Map::copy_to_memory(Path::new(path), 0)?,
        "again" => Map::open(&written_again(path)?)?,
        _ => Map::open(Path::new(path))?,
    };
    let opened = started.elapsed();
    let mut at = 0;
    while at < map.len() {
        at = map.prefault(at, HUGE);
    }
    let (len, huge) = (map.len() >> 10, map.huge_bytes()? >> 10);
    println!(
        "{:?}: {huge} of {len} KiB on huge pages; opened in {opened:?}, touched in {:?}",
        map.backing(),
        started.elapsed()
    );
    Ok(())
}

fn written_again(path: &str) -> std::io::Result<std::path::PathBuf> {
    let content = std::fs::read(path)?;
    let dir = Path::new(path).parent().unwrap_or(Path::new("."));
    // In pieces of an odd size, as a builder writes.
    atomic::write_atomically(dir, "again", Some(content.len() as u64), |out| {
        content.chunks(100_001).try_for_each(|piece| out.write_all(piece))
    })
}
