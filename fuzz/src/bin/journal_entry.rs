//! Any octets as an entry of the journal: what is read, in lower case, is written and read the same, and its difference
//! inverts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transfer::{Contents, Entry};

fuzz_target!(|octets: &[u8]| {
    let Ok(entry) = Entry::decode(octets) else { return };
    let written = entry.encode();
    assert_eq!(Entry::decode(&written).expect("it was written here").encode(), written);
    let mut zone = Contents::of(entry.diff.removed().iter().cloned());
    let before = zone.clone();
    zone.apply(&entry.diff).expect("it begins at what it removes");
    assert_eq!(zone, Contents::of(entry.diff.added().iter().cloned()));
    zone.apply(&entry.diff.inverted()).expect("there is a way back");
    assert_eq!(zone, before);
});
