//! Octets written over an image, anywhere but its header: no question about it ends in a panic.
#![no_main]

use image::Image;
use libfuzzer_sys::fuzz_target;
use sim::{Server, message};
use std::sync::OnceLock;
use wire::Name;

const NSEC: &str = include_str!("../zones/nsec.zone");
const NSEC3: &str = include_str!("../zones/nsec3.zone");
const NAMES: [&str; 8] =
    ["example.", "a.example.", "x.w.example.", "x.sub.example.", "x.d.example.", "hashed.", "x.hashed.", "a.b.hashed."];

static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();

// Three octets a change: where (16 bits), what.
fuzz_target!(|changes: &[u8]| {
    let mut octets = WHOLE.get_or_init(|| sim::image_of(&[("example.", NSEC), ("hashed.", NSEC3)]).0).clone();
    for change in changes.as_chunks::<3>().0 {
        let at = 4096 + u16::from_le_bytes([change[0], change[1]]) as usize % (octets.len() - 4096);
        octets[at] = change[2];
    }
    let image = Image::open(octets.clone()).expect("the header is whole");
    for zone in image.view().zones().flatten() {
        let _ = zone.for_each_record(&mut |_, _, _, _| {});
    }
    let mut server = Server::with(octets, front::Setup::default());
    for name in NAMES {
        let name = Name::from_text(name.as_bytes(), None).expect("it is a name");
        for rtype in [1, 2, 15, 43, 46, 255] {
            server.message(&message::packet(name.bytes(), rtype, Some((1232, true)))).expect("an answer");
        }
    }
});
