//! Octets written over an image, anywhere but its header: no question about it ends in a panic, nor does a change that is laid
//! over it, nor a question about what came of that.
#![no_main]

use image::edit::{Edit, Record};
use image::format::Header;
use image::patch::{self, Change, Limits, PLACE};
use image::{Builder, Image};
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
    let changed = CHANGES.iter().try_fold((octets.clone(), image.header().clone()), |(octets, header), change| {
        change_of(octets, header, change)
    });
    ask(Server::with(octets, front::Setup::default()));
    if let Some((octets, header)) = changed {
        ask(Server::over(octets, header, front::Setup::default()));
    }
});

/// Names of a zone; each has an address from now on, or is no more.
type Names = (&'static str, &'static [(&'static str, bool)]);
const CHANGES: [Names; 3] = [
    ("example.", &[("ns1.example.", true), ("d.example.", false), ("x.w.example.", true)]),
    ("hashed.", &[("a.b.hashed.", true), ("*.hashed.", true), ("x.hashed.", false)]),
    ("example.", &[("ns1.example.", false), ("sub.example.", false)]),
];

fn wire(name: &str) -> Vec<u8> {
    Name::from_text(name.as_bytes(), None).expect("it is a name").bytes().to_vec()
}

/// The image with a change; None: it is too damaged for one.
fn change_of(octets: Vec<u8>, header: Header, (apex, names): &Names) -> Option<(Vec<u8>, Header)> {
    let address = Record { rtype: 1, ttl: 60, rdata: [192, 0, 2, 9].into() };
    let apex = wire(apex);
    let records = |is_there| if is_there { vec![address.clone()] } else { vec![] };
    let names = names.iter().map(|&(name, is_there)| (wire(name).into(), records(is_there))).collect();
    let change =
        Change { whole: Builder::new(7), gone: vec![], edits: vec![Edit::new(&apex, names)], limits: Limits::MOST };
    let place = (octets.len() as u64).next_multiple_of(PLACE);
    let image = Image::overlaid(octets, header.clone());
    let laid = patch::lay(image.view(), change, place).ok()?;
    let mut octets = image.bytes().clone();
    octets.resize(place as usize, 0);
    octets.extend_from_slice(&laid.octets);
    let image = Image::overlaid(octets, header);
    let header = laid.overlay(image.view()).ok()?;
    Some((image.bytes().clone(), header))
}

fn ask(mut server: Server) {
    for name in NAMES {
        for rtype in [1, 2, 15, 43, 46, 255] {
            server.message(&message::packet(&wire(name), rtype, Some((1232, true)))).expect("an answer");
        }
    }
}
