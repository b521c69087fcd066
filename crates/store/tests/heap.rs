//! What a thread's heap keeps of memory that the thread has freed. In a process of its own: it is set for all threads at once.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::hint::black_box;
use std::thread;

mod resident;

use resident::{KIB, resident_kib};

/// Larger than what is kept for each thread, smaller than what the system is asked for.
const PIECE: usize = 2000;

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
