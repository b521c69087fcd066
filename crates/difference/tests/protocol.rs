//! Headers, EDNS and malformed packets: what each server says to every row of the matrix.

use difference::class::Scene;
use difference::fleet::{Fleet, Kind, ZoneFile, fresh_folder, kinds};
use difference::message::Reply;
use difference::verdict::Report;
use difference::{ask, matrix, recipe};
use std::time::Duration;

fn fleet(name: &str) -> (Fleet, ZoneFile) {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), name);
    let recipe = recipe::fixed("proto");
    let file = ZoneFile { name: recipe.zone.origin.clone(), path: recipe.zone.save(&folder) };
    (Fleet::start(&folder, &kinds(), std::slice::from_ref(&file)), file)
}

#[test]
fn odd_queries_are_answered_as_a_peer_answers_them() {
    let (fleet, zone) = fleet("protocol");
    let rows = matrix::rows(&zone.name);
    let answers = fleet.ask(&rows);
    let mut report = Report::default();
    for (i, query) in rows.iter().enumerate() {
        let replies: Vec<(Kind, &Reply)> = answers.iter().map(|(kind, replies)| (*kind, &replies[i])).collect();
        report.add("the matrix", Scene { query, zone: None }, &replies);
    }
    report.settle();
}

#[test]
fn packets_shorter_than_a_header_get_no_answer() {
    let (fleet, _) = fleet("short");
    for n in 0..12 {
        for server in &fleet.servers {
            let got = ask::alone(server.address, &vec![0; n], Duration::from_millis(200));
            assert!(got.is_empty(), "{} answers {n} octets with {got:?}", server.kind.text());
        }
    }
}
