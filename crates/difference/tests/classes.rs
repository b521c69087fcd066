//! Every class of difference is written down in docs/ambiguities.md and still seen among the peers.

use difference::class::{CLASSES, FREE, Scene};
use difference::corpus::{self, Made};
use difference::fleet::{Fleet, Kind, PEERS, ZoneFile, fresh_folder};
use difference::message::Reply;
use difference::seed::Seed;
use difference::sign::{Denial, Signer, Tool};
use difference::verdict::Report;
use difference::{matrix, odd, peers, recipe};
use std::collections::BTreeSet;

#[test]
fn every_class_has_its_heading_in_the_document() {
    let text = std::fs::read_to_string(peers::workspace().join("docs/ambiguities.md")).expect("docs/ambiguities.md");
    let written: BTreeSet<&str> = text.lines().filter_map(|l| l.strip_prefix("### ")).collect();
    let coded: BTreeSet<&str> = CLASSES.iter().chain(FREE).map(|c| c.name).collect();
    assert_eq!(written, coded);
}

/// A class that no pair of peers shows any more is to be taken out: it would hide an error of ours.
#[test]
fn every_class_is_still_seen_among_the_peers() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "classes");
    let signer = Signer::new(&folder.join("keys"));
    let unsigned = |recipe| Made::new(&folder, &signer, recipe, Denial::Unsigned, Tool::Bind);
    let opted_out = odd::opted_out();
    let others = odd::legal().into_iter().filter(|r| r.zone.origin != opted_out.zone.origin).chain(odd::illegal());
    let mut made: Vec<Made> = others.map(unsigned).collect();
    made.push(Made::new(&folder, &signer, opted_out, Denial::Nsec3 { iterations: 0, opt_out: true }, Tool::Bind));
    made.extend((1..=8).flat_map(|seed| corpus::random(&folder, &signer, seed)));
    let recipe = recipe::fixed("proto");
    let proto = ZoneFile { name: recipe.zone.origin.clone(), path: recipe.zone.save(&folder) };
    let fleet = Fleet::start(&folder, &PEERS, &[corpus::files(&made), vec![proto.clone()]].concat());
    let mut report = Report::default();
    made.iter().for_each(|m| m.compare(&fleet, 0, &mut Seed::new(1), &mut report));
    let rows = matrix::rows(&proto.name);
    let answers = fleet.ask(&rows);
    for (i, query) in rows.iter().enumerate() {
        let replies: Vec<(Kind, &Reply)> = answers.iter().map(|(kind, replies)| (*kind, &replies[i])).collect();
        report.add("the matrix", Scene { query, zone: None }, &replies);
    }
    report.examples.iter().for_each(|(class, example)| println!("{class}\n{example}"));
    let unseen: Vec<&str> = CLASSES.iter().map(|c| c.name).filter(|c| !report.explained.contains_key(c)).collect();
    assert!(unseen.is_empty(), "no peers differ in {unseen:?} any more");
}
