//! Generated zones, unsigned and signed by the peers' tools, and odd zones written by hand, asked for everything in and around them.

use difference::corpus::{self, Made};
use difference::fleet::{Fleet, fresh_folder, kinds};
use difference::odd;
use difference::recipe::{self, Branch, Recipe};
use difference::seed::{self, Seed};
use difference::sign::{DENIALS, Denial, Signer, Tool};
use difference::verdict::Report;
use std::path::Path;

/// Zones that one set of servers serves at a time: as many as start within a second or two.
const SEEDS_AT_A_TIME: usize = 30;

#[test]
fn generated_zones_are_answered_as_the_peers_answer_them() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "adversarial");
    let signer = Signer::new(&folder.join("keys"));
    let seeds: Vec<u64> = (seed::first()..seed::first() + seed::count(12)).collect();
    let mut report = Report::default();
    for seeds in seeds.chunks(SEEDS_AT_A_TIME) {
        let made: Vec<Made> = seeds.iter().flat_map(|&s| corpus::random(&folder, &signer, s)).collect();
        compare(&folder, &made, &mut report);
    }
    report.settle();
}

fn compare(folder: &Path, made: &[Made], report: &mut Report) {
    let fleet = Fleet::start(folder, &kinds(), &corpus::files(made));
    for (i, m) in made.iter().enumerate() {
        m.compare(&fleet, 3, &mut Seed::new(i as u64), report);
    }
}

/// All of them take minutes: `make soak` sets DIFFERENCE_EVERY, else it is one part in six.
#[test]
fn every_combination_to_depth_three_is_answered_as_the_peers_answer_it() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "every");
    let signer = Signer::new(&folder.join("keys"));
    let mut report = Report::default();
    let zones: Vec<Vec<Branch>> = Branch::every().chunks(12).map(<[Branch]>::to_vec).collect();
    let part = if std::env::var_os("DIFFERENCE_EVERY").is_some() { 1 } else { 6 };
    for (n, zones) in zones.chunks(SEEDS_AT_A_TIME).enumerate().step_by(part) {
        let make = |(i, branches): (usize, &Vec<Branch>)| {
            let denial = DENIALS[(n + i) % DENIALS.len()];
            let recipe = recipe::with_branches(&format!("e{n}x{i}"), branches, false);
            Made::new(&folder, &signer, recipe, denial, if i % 2 == 0 { Tool::Bind } else { Tool::Knot })
        };
        let made: Vec<Made> = zones.iter().enumerate().map(make).collect();
        compare(&folder, &made, &mut report);
    }
    report.settle();
}

#[test]
fn odd_zones_are_answered_as_the_peers_answer_them() {
    let mut report = Report::default();
    odd_zones("odd", Denial::Unsigned, &mut report);
    odd_zones("odd-nsec", Denial::Nsec, &mut report);
    odd_zones("odd-nsec3", Denial::Nsec3 { iterations: 0, opt_out: false }, &mut report);
    odd_zones("odd-opt-out", Denial::Nsec3 { iterations: 0, opt_out: true }, &mut report);
    report.settle();
}

/// Zones that break rules stay unsigned: the signers refuse them.
fn odd_zones(name: &str, denial: Denial, report: &mut Report) {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), name);
    let signer = Signer::new(&folder.join("keys"));
    let make = |recipes: Vec<Recipe>| -> Vec<Made> {
        recipes.into_iter().map(|r| Made::new(&folder, &signer, r, denial, Tool::Bind)).collect()
    };
    let legal = make(odd::legal());
    let illegal = if denial == Denial::Unsigned { make(odd::illegal()) } else { Vec::new() };
    let fleet = Fleet::start(&folder, &kinds(), &[corpus::files(&legal), corpus::files(&illegal)].concat());
    legal.iter().for_each(|m| m.compare(&fleet, 3, &mut Seed::new(1), report));
    illegal.iter().for_each(|m| m.compare(&fleet, 0, &mut Seed::new(1), report));
}
