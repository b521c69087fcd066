//! Generated zones, unsigned and signed by the peers' tools, asked for everything in and around them.

use difference::class::Scene;
use difference::fleet::{Fleet, Kind, ZoneFile, fresh_folder, kinds};
use difference::message::Reply;
use difference::query::Query;
use difference::recipe::{self, Recipe};
use difference::rtype as t;
use difference::seed::{self, Seed};
use difference::sign::{DENIALS, Denial, Signer, Tool};
use difference::verdict::Report;
use std::path::Path;

struct Made {
    recipe: Recipe,
    denial: Denial,
    file: ZoneFile,
}

fn make(folder: &Path, signer: &Signer, seed: u64) -> Vec<Made> {
    let mut random = Seed::new(seed);
    let make = |(i, &denial): (usize, &Denial)| {
        let recipe = recipe::random(&format!("s{seed}d{i}"), &mut random);
        let file = ZoneFile { name: recipe.zone.origin.clone(), path: recipe.zone.save(folder) };
        let tool = if random.one_in(2) { Tool::Bind } else { Tool::Knot };
        let signed = signer.sign(&file, denial, tool);
        let file = signed.unwrap_or_else(|| panic!("{tool:?} does not sign {} for {denial:?}", file.path.display()));
        Made { recipe, denial, file }
    };
    DENIALS.iter().enumerate().map(make).collect()
}

#[test]
fn generated_zones_are_answered_as_the_peers_answer_them() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "adversarial");
    let signer = Signer::new(&folder.join("keys"));
    let seeds = seed::first()..seed::first() + seed::count(12);
    let made: Vec<Made> = seeds.flat_map(|s| make(&folder, &signer, s)).collect();
    let files: Vec<ZoneFile> = made.iter().map(|m| m.file.clone()).collect();
    let fleet = Fleet::start(&folder, &kinds(), &files);
    let mut report = Report::default();
    for (i, m) in made.iter().enumerate() {
        compare(&fleet, m, &mut Seed::new(i as u64), &mut report);
    }
    report.settle();
}

fn compare(fleet: &Fleet, made: &Made, seed: &mut Seed, report: &mut Report) {
    let context = format!("{} {:?}{}", made.file.name, made.denial, made.recipe.shapes);
    let loaded = loaded(fleet, made);
    if loaded.len() < fleet.servers.len() {
        report.note(&format!("only {loaded:?} load"), format!("  {context}\n"));
    }
    let queries = made.recipe.queries(seed);
    let mut answers = fleet.ask_whole(&queries);
    answers.retain(|(kind, _)| loaded.contains(kind));
    for (i, query) in queries.iter().enumerate() {
        let replies: Vec<(Kind, &Reply)> = answers.iter().map(|(kind, replies)| (*kind, &replies[i])).collect();
        report.add(&context, Scene { query, zone: Some(&made.recipe.zone) }, &replies);
    }
}

fn loaded(fleet: &Fleet, made: &Made) -> Vec<Kind> {
    let soa = [Query::new(&made.file.name, t::SOA, false)];
    let has = |r: &Reply| r.message().is_some_and(|m| m.is_authoritative() && !m.answer.is_empty());
    fleet.ask(&soa).iter().filter(|(_, r)| has(&r[0])).map(|(kind, _)| *kind).collect()
}
