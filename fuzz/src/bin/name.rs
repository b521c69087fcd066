//! Names from the wire and from text: whatever is accepted survives the way there and back, and keeps the order of
//! RFC 4034 section 6.1 consistent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cmp::Ordering;
use wire::name::{Name, canonical_cmp, label_count, wire_len};

fn there_and_back(name: &Name) {
    let text = name.to_string();
    let again = Name::from_text(text.as_bytes(), None).expect("a name that was printed can be read");
    assert_eq!(again.bytes(), name.bytes(), "{text}");
    assert_eq!(wire_len(name.bytes()), Some(name.bytes().len()));
    assert_eq!(name.labels().count(), label_count(name.bytes()));
    let mut ancestor = Some(*name);
    while let Some(at) = ancestor {
        assert!(name.is_at_or_below(&at));
        ancestor = at.parent();
    }
}

fuzz_target!(|input: &[u8]| {
    let from_wire = Name::from_wire(input);
    let from_text = Name::from_text(input, None).ok();
    from_wire.iter().chain(&from_text).for_each(there_and_back);
    if let Some(origin) = from_wire {
        let rest = &input[origin.bytes().len()..];
        if let Ok(name) = Name::from_text(rest, Some(&origin)) {
            there_and_back(&name);
            let order = canonical_cmp(name.bytes(), origin.bytes());
            assert_eq!(canonical_cmp(origin.bytes(), name.bytes()), order.reverse());
            assert_eq!(order == Ordering::Equal, name == origin);
            assert_eq!(canonical_cmp(name.fold().bytes(), origin.fold().bytes()), order);
        }
    }
});
