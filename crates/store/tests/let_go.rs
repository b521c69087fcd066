//! The end of a thread's heap. In a process of its own: threads inherit the heaps of those that have ended, as these left them.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::hint::black_box;
use std::thread;

mod resident;

use resident::{KIB, resident_kib};

#[test]
fn the_end_of_a_heap_is_given_back_once_its_thread_lets_go() {
    store::heap::keep_little();
    let work = || {
        let first = black_box(vec![1u8; 2 * KIB]);
        drop(black_box(vec![1u8; 60 * KIB]));
        let before = resident_kib(first.as_ptr().addr());
        store::heap::let_go();
        [before, resident_kib(first.as_ptr().addr())]
    };
    let [before, after] = thread::spawn(work).join().unwrap();
    assert!(before > 60 && after < 50, "{before} and then {after} KiB stay");
}
