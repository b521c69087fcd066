//! What the journal's way with a disk is worth, on the disk of a folder.
//!
//!     cargo run --release -p store --example disk -- FOLDER [ROUNDS]
//!
//! Groups of 3,000 octets are written and synced, a thousand a second: at the end of a file, and in one that is laid out in zeros. Then, of the same kind,
//! beside a file of 600 MB that is removed at once, and beside one that goes piece by piece as `store::removal` has it. Rounds alternate.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use store::removal;

const GROUP: [u8; 3000] = [7; 3000];
const EVERY: Duration = Duration::from_millis(1);
const LAID: usize = 16 << 20;
const LARGE_MIB: usize = 600;
/// Groups of a round.
const GROUPS: u64 = 3000;

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let usage = || io::Error::other("usage: disk FOLDER [ROUNDS]");
    let folder = args.next().ok_or_else(usage)?;
    let rounds = args.next().map_or(Ok(4), |n| n.parse::<usize>().map_err(|_| usage()))?;
    removal::begin(Path::new(&folder))?;
    let (journal, large) = (Path::new(&folder).join("disk-journal"), Path::new(&folder).join("disk-large"));
    for round in 1..=rounds {
        for (what, is_laid) in [("appended", false), ("laid out", true)] {
            println!("{round} {what}: {}", groups(&journal, is_laid)?);
        }
        for (what, is_in_pieces) in [("removed at once", false), ("piece by piece", true)] {
            write_large(&large)?;
            let told = thread::scope(|scope| {
                let going = scope.spawn(|| {
                    wait_until(Instant::now() + Duration::from_millis(500));
                    if is_in_pieces { removal::remove(&large) } else { std::fs::remove_file(&large) }
                });
                let told = groups(&journal, true)?;
                going.join().expect("it does not panic").map(|()| told)
            });
            println!("{round} {what}: {}", told?);
        }
    }
    Ok(())
}

/// Writes and syncs the groups of a round; tells how long that took.
fn groups(journal: &Path, is_laid: bool) -> io::Result<String> {
    let file = File::create(journal)?;
    if is_laid {
        file.write_all_at(&vec![0; LAID], 0)?;
    }
    file.sync_all()?;
    let (mut took, begun, ran) = (Vec::new(), Instant::now(), ran_us()?);
    for n in 0..GROUPS {
        wait_until(begun + EVERY * n as u32);
        let since = Instant::now();
        file.write_all_at(&GROUP, n * GROUP.len() as u64)?;
        file.sync_data()?;
        took.push(since.elapsed().as_secs_f64() * 1e3);
    }
    let ran = (ran_us()? - ran) / GROUPS;
    std::fs::remove_file(journal)?;
    took.sort_by(f64::total_cmp);
    let of = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    Ok(format!("p50 {:.2} ms, p99 {:.2}, longest {:.1}; {ran} us of the processor", of(0.5), of(0.99), of(1.0)))
}

fn wait_until(at: Instant) {
    while let Some(left) = at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        thread::park_timeout(left);
    }
}

/// Microseconds that this thread has run.
fn ran_us() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or_default() / 1000)
}

/// On the disk, and the disk at rest.
fn write_large(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut seed = 1_u64;
    let piece: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    })
    .take(1 << 20)
    .collect();
    for _ in 0..LARGE_MIB {
        file.write_all(&piece)?;
        file.sync_data()?;
    }
    wait_until(Instant::now() + Duration::from_secs(1));
    Ok(())
}
