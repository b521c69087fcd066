//! What a thread's heap keeps of memory that the thread has freed. In a process of its own: it is set for all threads at once.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::thread;

/// Larger than what is kept for each thread, smaller than what the system is asked for.
const PIECE: usize = 2000;
const KIB: usize = 1 << 10;

/// KiB of memory of its own that the mapping has in which this address lies. Takes little itself.
fn resident_kib(address: usize) -> usize {
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

/// What is left of so many octets in pieces, when all but the first piece are freed.
fn left_of(octets: usize) -> usize {
    let work = move || {
        let first = black_box(vec![1u8; PIECE]);
        let pieces: Vec<Vec<u8>> = (0..octets / PIECE).map(|_| black_box(vec![1u8; PIECE])).collect();
        // Nothing is allocated between: a small piece that is kept for the thread would hold the end.
        drop(pieces);
        resident_kib(first.as_ptr().addr())
    };
    thread::spawn(work).join().unwrap()
}

#[test]
fn a_threads_heap_is_cut_back_when_its_end_is_free() {
    store::heap::keep_little();
    for octets in [100 * KIB, 1000 * KIB] {
        let left = left_of(octets);
        assert!(left < 80, "{left} KiB of {} stay", octets / KIB);
    }
}

#[test]
fn pieces_that_are_kept_for_a_thread_hold_no_pages_once_it_lets_go() {
    store::heap::keep_little();
    let work = || {
        let first = black_box(vec![1u8; PIECE]);
        // Of many sizes, each in a page that nothing else is in.
        let sizes = (100..1000).step_by(16).flat_map(|size| [size; 7]);
        let pieces: Vec<_> = sizes.map(|size| (black_box(vec![1u8; size]), black_box(vec![1u8; 8 * KIB]))).collect();
        drop(pieces);
        [(); 2].map(|()| {
            store::heap::trim();
            let left = resident_kib(first.as_ptr().addr());
            store::heap::let_go();
            left
        })
    };
    let [before, after] = thread::spawn(work).join().unwrap();
    assert!(before > 1000 && after < 150, "{before} and then {after} KiB stay");
}
