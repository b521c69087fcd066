//! Generated zones, unsigned and signed by the peers' tools, and odd zones written by hand, asked for everything in and around them.

use difference::corpus::{self, Made};
use difference::fleet::{Fleet, fresh_folder, kinds};
use difference::odd;
use difference::recipe::Recipe;
use difference::seed::{self, Seed};
use difference::sign::{Denial, Signer, Tool};
use difference::verdict::Report;

#[test]
fn generated_zones_are_answered_as_the_peers_answer_them() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "adversarial");
    let signer = Signer::new(&folder.join("keys"));
    let seeds = seed::first()..seed::first() + seed::count(12);
    let made: Vec<Made> = seeds.flat_map(|s| corpus::random(&folder, &signer, s)).collect();
    let fleet = Fleet::start(&folder, &kinds(), &corpus::files(&made));
    let mut report = Report::default();
    for (i, m) in made.iter().enumerate() {
        m.compare(&fleet, 3, &mut Seed::new(i as u64), &mut report);
    }
    report.settle();
}

#[test]
fn odd_zones_are_answered_as_the_peers_answer_them() {
    let mut report = Report::default();
    odd_zones("odd", Denial::Unsigned, &mut report);
    odd_zones("odd-nsec", Denial::Nsec, &mut report);
    odd_zones("odd-nsec3", Denial::Nsec3 { iterations: 0, opt_out: false }, &mut report);
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
