//! Generated zones, unsigned and signed by the peers' tools, and odd zones written by hand, asked for everything in and around them.

use difference::corpus::{self, Made};
use difference::fleet::{Fleet, fresh_folder, kinds};
use difference::odd;
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
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "odd");
    let signer = Signer::new(&folder.join("keys"));
    let make = |recipe| Made::new(&folder, &signer, recipe, Denial::Unsigned, Tool::Bind);
    let (legal, illegal): (Vec<Made>, Vec<Made>) =
        (odd::legal().into_iter().map(make).collect(), odd::illegal().into_iter().map(make).collect());
    let files = [corpus::files(&legal), corpus::files(&illegal)].concat();
    let fleet = Fleet::start(&folder, &kinds(), &files);
    let mut report = Report::default();
    legal.iter().for_each(|m| m.compare(&fleet, 3, &mut Seed::new(1), &mut report));
    illegal.iter().for_each(|m| m.compare(&fleet, 0, &mut Seed::new(1), &mut report));
    report.settle();
}
