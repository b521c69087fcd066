//! What the heap of a thread keeps that has ended. In a process of its own: threads inherit the heaps of those that have ended.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::hint::black_box;
use std::thread;

mod resident;

use resident::{KIB, resident_kib};

#[test]
fn what_others_free_at_the_ends_of_heaps_that_were_left_is_given_back() {
    store::heap::keep_little();
    let make = || (0..25).map(|_| black_box(vec![1u8; 2 * KIB])).collect::<Vec<_>>();
    let threads: Vec<_> = (0..3).map(|_| thread::spawn(make)).collect();
    let made: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let heaps: Vec<usize> = made.iter().map(|pieces| pieces[0].as_ptr().addr()).collect();
    drop(made);
    let kept = || heaps.iter().map(|&at| resident_kib(at)).collect::<Vec<_>>();
    let before = kept();
    store::heap::trim();
    let after = kept();
    assert!(before.iter().all(|&kib| kib > 50), "{before:?} KiB before");
    assert!(after.iter().all(|&kib| kib < 40), "{before:?} and then {after:?} KiB stay");
}
