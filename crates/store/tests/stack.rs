//! What a thread's stack holds beyond what is in use.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::hint::black_box;
use std::thread;

mod resident;

use resident::{KIB, resident_kib};

#[test]
fn what_a_call_went_down_to_on_the_stack_is_given_back_and_what_is_in_use_stays() {
    #[inline(never)]
    fn touch() {
        black_box([1u8; 300 * KIB]);
    }
    let work = || {
        let kept = black_box([7u8; 20 * KIB]);
        touch();
        let address = kept.as_ptr().addr();
        let before = resident_kib(address);
        store::heap::let_go();
        let after = resident_kib(address);
        assert_eq!(black_box(kept), [7; 20 * KIB]);
        [before, after]
    };
    let [before, after] = thread::spawn(work).join().unwrap();
    assert!(before > 300 && after < 100, "{before} and then {after} KiB stay");
}
