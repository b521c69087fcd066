//! Disks and folders of which something is missing, damaged, or somebody else's.

use crate::running::{Folder, Server, eventually, text};
use crate::updates::{self, DDNS, update};
use std::fs;

/// What one zone that takes updates has had added, and another zone that has nothing to do with it.
fn add(server: &Server, i: u32) -> String {
    update(server, &[], DDNS, &format!("zone z.example\nadd n{i}.z.example 60 A 192.0.2.{i}"))
}

fn has(folder: &Folder, server: &Server, i: u32) -> bool {
    server.short(folder, &[&format!("n{i}.z.example"), "A"]) == format!("192.0.2.{i}\n")
}

#[test]
fn a_journal_that_is_damaged_keeps_no_other_zone_from_being_served_and_loses_nothing_once_it_is_mended() {
    let (flip, behead): (fn(&[u8]) -> Vec<u8>, fn(&[u8]) -> Vec<u8>) = (
        |whole| {
            let third = whole.windows(2).rposition(|w| w == b"n3").unwrap();
            whole.iter().enumerate().map(|(at, octet)| octet ^ u8::from(at == third)).collect()
        },
        |whole| whole[1..].to_vec(),
    );
    for (what, damage) in [("an octet", flip), ("a head", behead)] {
        let folder = updates::folder();
        let server = updates::serve(&folder);
        (1..=4).for_each(|i| assert_eq!(add(&server, i), ""));
        server.signal("KILL");
        server.ended();
        let segment = folder.0.join("data/journal/journal.0000000001");
        let whole = fs::read(&segment).unwrap();
        let damaged = damage(&whole);
        fs::write(&segment, &damaged).unwrap();
        let server = updates::serve(&folder);
        for _ in 0..2 {
            for zone in ["fixed", "z"] {
                assert_eq!(server.short(&folder, &[&format!("www.{zone}.example"), "A"]), "192.0.2.1\n", "{what}");
            }
            assert!(!has(&folder, &server, 1) && add(&server, 5).contains("REFUSED"), "{what}");
            assert_eq!(fs::read(&segment).unwrap(), damaged, "{what}: left for somebody to look at");
            folder.does(&["reload"]);
        }
        fs::write(&segment, &whole).unwrap();
        folder.does(&["reload"]);
        eventually("what was acknowledged", || (1..=4).all(|i| has(&folder, &server, i)));
        eventually("updates", || add(&server, 5).is_empty());
        server.signal("KILL");
        server.ended();
        let server = updates::serve(&folder);
        assert!((1..=5).all(|i| has(&folder, &server, i)), "{what}");
    }
}
