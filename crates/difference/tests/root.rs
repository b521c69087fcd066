//! The signed root zone of 2017-08-21: every name in it and around it, with every type, with and without DO.

use difference::class::Scene;
use difference::fleet::{Fleet, Kind, ZoneFile, fresh_folder, kinds};
use difference::message::Reply;
use difference::name::Name;
use difference::peers;
use difference::query::Query;
use difference::rtype::{self as t, Rtype};
use difference::verdict::Report;
use std::collections::BTreeSet;
use std::path::PathBuf;

const TYPES: &[Rtype] = &[
    t::A,
    t::AAAA,
    t::NS,
    t::SOA,
    t::DS,
    t::DNSKEY,
    t::NSEC,
    t::RRSIG,
    t::MX,
    t::TXT,
    t::ANY,
    t::CNAME,
    t::NSEC3PARAM,
    t::SRV,
];
const FEW: &[Rtype] = &[t::A, t::DS, t::TXT];

fn root_zone() -> PathBuf {
    peers::workspace().join("benches/data/root-2017082100.signed.zone")
}

fn owners(text: &str) -> BTreeSet<Name> {
    text.lines().filter_map(|l| l.split_whitespace().next()).map(|owner| Name::from_text(owner).fold()).collect()
}

fn queries(owners: &BTreeSet<Name>) -> Vec<Query> {
    let mut out = Vec::new();
    for name in owners {
        both(&mut out, name, TYPES);
        let Some(first) = name.labels().first().map(|l| l.to_vec()) else { continue };
        let parent = name.parent().expect("a name with a label has a parent");
        let (before, after) = ([b"!", &first[..]].concat(), [&first[..], b"-"].concat());
        for around in [name.child(b"www"), name.child(b"*"), parent.child(&before), parent.child(&after)] {
            both(&mut out, &around, FEW);
        }
    }
    out
}

fn both(out: &mut Vec<Query>, name: &Name, types: &[Rtype]) {
    for &rtype in types {
        out.push(Query::new(name, rtype, false));
        out.push(Query::new(name, rtype, true));
    }
}

#[test]
fn the_signed_root_is_answered_as_the_peers_answer_it() {
    let text = std::fs::read_to_string(root_zone()).expect("benches/data holds the root zone");
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "root");
    let fleet = Fleet::start(&folder, &kinds(), &[ZoneFile { name: Name::root(), path: root_zone() }]);
    let queries = queries(&owners(&text));
    let answers = fleet.ask_whole(&queries);
    let mut report = Report::default();
    for (i, query) in queries.iter().enumerate() {
        let replies: Vec<(Kind, &Reply)> = answers.iter().map(|(kind, replies)| (*kind, &replies[i])).collect();
        report.add("the root", Scene { query, zone: None }, &replies);
    }
    report.settle();
}
