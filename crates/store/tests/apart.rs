//! Where small pieces lie that a thread keeps. In a process of its own: threads inherit the heaps of those that have ended, and what is
//! free there.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::hint::black_box;
use std::thread;

mod resident;

use resident::{KIB, resident_kib};

/// What is left of a thread's heap that has made many small pieces among larger ones, and freed these.
fn left_beside(make: impl Fn() -> Vec<u8> + Send + 'static) -> usize {
    let work = move || {
        let first = black_box(vec![1u8; 2 * KIB]);
        let (mut kept, mut freed) = (Vec::with_capacity(400), Vec::with_capacity(400));
        for _ in 0..400 {
            kept.push(make());
            freed.push(black_box(vec![1u8; 8 * KIB]));
        }
        drop(freed);
        store::heap::let_go();
        store::heap::trim();
        resident_kib(first.as_ptr().addr())
    };
    thread::spawn(work).join().unwrap()
}

#[test]
fn what_is_made_apart_holds_no_pages_among_what_is_freed() {
    store::heap::keep_little();
    let among = left_beside(|| black_box(vec![1; 24]));
    assert!(among > 1000, "{among} KiB stay");
    for size in [8, 24, 40, 56, 72, 88, 104, 120, 200] {
        let apart = left_beside(move || store::heap::apart(|| vec![1; size]));
        assert!(apart < 150, "{apart} KiB stay beside pieces of {size}");
    }
}
