//! The program's own pages: its code and what it may only read are files that are mapped, its own and its libraries'.
#![allow(unsafe_code)]

use std::fs;

/// Reads them all, before the first answer: of code that nobody has run yet a page is not in memory, and whoever runs it first waits for the
/// disk that the program lies on, be it an answering thread. They are some 10 MiB, less than 1 ms when the program was run lately. Before
/// Linux 5.14, or where the disk fails, they come as they are needed.
pub fn read() {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    for (from, to) in maps.lines().filter_map(constant) {
        // SAFETY: populating for reading changes nothing that is in memory; where nothing is mapped any more, or the file ends before, it fails.
        unsafe { libc::madvise(std::ptr::without_provenance_mut(from), to - from, libc::MADV_POPULATE_READ) };
    }
}

/// Where a file is mapped that is the process's alone, and not to be written into. What is served is mapped for all.
fn constant(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let is_of_file = words.nth(2)? != "0";
    let octet = |word| usize::from_str_radix(word, 16).ok();
    (access.starts_with("r-") && access.ends_with('p') && is_of_file).then_some(())?;
    Some((octet(from)?, octet(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_code_or_constant_is_told_from_all_else() {
        for (line, expected) in [
            (
                "55d0c1000000-55d0c1164000 r--p 00000000 fe:00 17 /usr/sbin/dunlin",
                Some((0x55d0_c100_0000, 0x55d0_c116_4000)),
            ),
            (
                "55d0c1164000-55d0c17fa000 r-xp 00163000 fe:00 17 /usr/sbin/a b",
                Some((0x55d0_c116_4000, 0x55d0_c17f_a000)),
            ),
            ("55d0c1813000-55d0c182c000 rw-p 00811000 fe:00 17 /usr/sbin/dunlin", None),
            ("7f0000000000-7f0000200000 r--s 00000000 fe:00 99 /var/lib/dunlin/zones.image", None),
            ("7ffd1c5f9000-7ffd1c5fb000 r-xp 00000000 00:00 0 [vdso]", None),
            ("7f1000000000-7f1004000000 ---p 00000000 00:00 0", None),
            ("", None),
        ] {
            assert_eq!(constant(line), expected, "{line}");
        }
    }

    /// Of this test's own program.
    #[test]
    fn afterwards_all_of_it_is_in_memory() {
        read();
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut is_constant, mut mapped, mut present) = (false, 0, 0);
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            match (words.next(), words.next().and_then(|kib| kib.parse::<u64>().ok())) {
                (Some("Size:"), Some(kib)) if is_constant => mapped += kib,
                (Some("Rss:"), Some(kib)) if is_constant => present += kib,
                (Some(first), _) if !first.ends_with(':') => is_constant = constant(line).is_some(),
                _ => {}
            }
        }
        assert!(mapped > 0 && present == mapped, "{present} of {mapped} KiB");
    }
}
