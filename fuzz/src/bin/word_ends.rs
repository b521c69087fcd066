//! Any octets: where words of a zone file end in them is the same for this processor's instructions and for the plain twin.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::cpu::{BLOCK, word_ends, word_ends_plain};

fuzz_target!(|octets: &[u8]| {
    let mut block = [0; BLOCK];
    for chunk in octets.chunks(BLOCK) {
        block[..chunk.len()].copy_from_slice(chunk);
        assert_eq!(word_ends()(&block), word_ends_plain(&block));
    }
});
