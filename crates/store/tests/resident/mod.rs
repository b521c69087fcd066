//! How much memory a mapping of this process has.

use std::fs::File;
use std::io::{BufRead, BufReader};

pub const KIB: usize = 1 << 10;

/// KiB of memory of its own that the mapping has in which this address lies. Takes little itself.
pub fn resident_kib(address: usize) -> usize {
    let holds = |line: &str| {
        let octets = |word| usize::from_str_radix(word, 16).ok();
        let (from, to) = line.split(' ').next().and_then(|range| range.split_once('-'))?;
        Some((octets(from)?..octets(to)?).contains(&address))
    };
    let lines = BufReader::new(File::open("/proc/self/smaps").unwrap()).lines().map(Result::unwrap);
    let mut lines = lines.skip_while(|line| holds(line) != Some(true));
    let own = lines.find_map(|line| line.strip_prefix("Anonymous:").map(String::from)).unwrap();
    own.trim().trim_end_matches(" kB").parse().unwrap()
}
