//! Zones written to files, signed or not, ready to be served and asked.

use crate::class::Scene;
use crate::fleet::{Fleet, Kind, ZoneFile};
use crate::message::Reply;
use crate::name::Name;
use crate::query::Query;
use crate::recipe::{self, Recipe};
use crate::rtype as t;
use crate::seed::Seed;
use crate::sign::{DENIALS, Denial, Signer, Tool};
use crate::verdict::Report;
use std::path::Path;

pub struct Made {
    pub recipe: Recipe,
    pub denial: Denial,
    pub file: ZoneFile,
}

/// One random zone for each way of denial.
pub fn random(folder: &Path, signer: &Signer, seed: u64) -> Vec<Made> {
    let mut random = Seed::new(seed);
    let make = |(i, &denial): (usize, &Denial)| {
        let recipe = recipe::random(&format!("s{seed}d{i}"), &mut random);
        let tool = if random.one_in(2) { Tool::Bind } else { Tool::Knot };
        Made::new(folder, signer, recipe, denial, tool)
    };
    DENIALS.iter().enumerate().map(make).collect()
}

pub fn files(made: &[Made]) -> Vec<ZoneFile> {
    made.iter().map(|m| m.file.clone()).collect()
}

impl Made {
    pub fn new(folder: &Path, signer: &Signer, recipe: Recipe, denial: Denial, tool: Tool) -> Made {
        let file = ZoneFile { name: recipe.zone.origin.clone(), path: recipe.zone.save(folder) };
        let signed = signer.sign(&file, denial, tool);
        let file = signed.unwrap_or_else(|| panic!("{tool:?} does not sign {} for {denial:?}", file.path.display()));
        Made { recipe, denial, file }
    }

    /// Asks all servers that serve the zone. `least`: how many peers must have loaded it; Dunlin must load what two of them load.
    pub fn compare(&self, fleet: &Fleet, least: usize, seed: &mut Seed, report: &mut Report) {
        let context = format!("{} {:?}: {}", self.file.name, self.denial, self.recipe.shapes);
        let loaded = self.loaded(fleet);
        let peers = loaded.iter().filter(|k| **k != Kind::Dunlin).count();
        let ours_is_missing = fleet.servers.iter().any(|s| s.kind == Kind::Dunlin) && !loaded.contains(&Kind::Dunlin);
        if peers < least || (ours_is_missing && peers >= 2) {
            report.note(&format!("only {loaded:?} load"), format!("  {context}\n"));
        }
        let mut queries = self.recipe.queries(seed);
        queries.extend(self.hashed_owners());
        let mut answers = fleet.ask_whole(&queries);
        answers.retain(|(kind, _)| loaded.contains(kind));
        for (i, query) in queries.iter().enumerate() {
            let replies: Vec<(Kind, &Reply)> = answers.iter().map(|(kind, replies)| (*kind, &replies[i])).collect();
            report.add(&context, Scene { query, zone: Some(&self.recipe.zone) }, &replies);
        }
    }

    /// Names that only NSEC3 records have: RFC 5155 section 7.2.8 says they are not there.
    fn hashed_owners(&self) -> Vec<Query> {
        let text = std::fs::read_to_string(&self.file.path).expect("a zone file that was written");
        let owners = text
            .lines()
            .filter(|l| l.contains("NSEC3\t") || l.contains("NSEC3 "))
            .filter_map(|l| l.split_whitespace().next());
        let mut names: Vec<Name> =
            owners.filter(|o| o.ends_with('.')).map(Name::from_text).filter(|n| *n != self.file.name).collect();
        names.truncate(3);
        let ask =
            |n: &Name| [t::A, t::NSEC3, t::ANY, t::RRSIG].map(|rtype| [false, true].map(|d| Query::new(n, rtype, d)));
        names.iter().flat_map(|n| [ask(n), ask(&n.child(b"x"))]).flatten().flatten().collect()
    }

    fn loaded(&self, fleet: &Fleet) -> Vec<Kind> {
        let soa = [Query::new(&self.file.name, t::SOA, false)];
        let has = |r: &Reply| r.message().is_some_and(|m| m.is_authoritative() && !m.answer.is_empty());
        fleet.ask(&soa).iter().filter(|(_, r)| has(&r[0])).map(|(kind, _)| *kind).collect()
    }
}
