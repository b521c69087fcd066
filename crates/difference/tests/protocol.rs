//! Headers, EDNS and malformed packets: what each server says to every row of the matrix.

use difference::class::Scene;
use difference::fleet::{Fleet, Kind, ZoneFile, fresh_folder, kinds};
use difference::message::Reply;
use difference::query::Query;
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
    settle("the matrix", &rows, &fleet.ask(&rows));
}

/// But for AXFR, which is defined over TCP alone (RFC 5936 section 4.2) and is no row of the matrix; and for a header alone, on
/// which NSD closes the connection, while the others answer as they do over UDP.
#[test]
fn over_tcp_they_are_answered_as_a_peer_answers_them_too() {
    let (fleet, zone) = fleet("protocol-tcp");
    let mut rows = matrix::rows(&zone.name);
    rows.retain(|row| !row.kind.contains("axfr") && !row.kind.starts_with("header-only"));
    settle("the matrix over TCP", &rows, &fleet.ask_tcp_apart(&rows));
}

fn settle(place: &str, rows: &[Query], answers: &[(Kind, Vec<Reply>)]) {
    let mut report = Report::default();
    for (i, query) in rows.iter().enumerate() {
        let replies: Vec<(Kind, &Reply)> = answers.iter().map(|(kind, replies)| (*kind, &replies[i])).collect();
        report.add(place, Scene { query, zone: None }, &replies);
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
