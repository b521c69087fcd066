//! Answers of signed zones, proven by validators that are not ours: Unbound for everything, delv and drill (ldns) for a
//! sample of every kind.

use difference::corpus::{self, Made};
use difference::fleet::{Fleet, Kind, ZoneFile, fresh_folder, kinds};
use difference::message::{AD, Message, RD, Reply};
use difference::name::Name;
use difference::query::Query;
use difference::rtype as t;
use difference::seed::{self, Seed};
use difference::sign::{Denial, Signer};
use difference::validator::Validator;
use difference::verdict::Report;
use difference::{ask, peers};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// What the authoritative answer is, for counting: each kind must be proven at least once.
const SORTS: [&str; 5] = ["positive", "wildcard", "nodata", "nxdomain", "ds-denial"];

fn sort(query: &Query, m: &Message) -> Option<&'static str> {
    let label_count = |r: &difference::message::Record| usize::from(r.rdata.get(3).copied().unwrap_or(0));
    let expanded = |r: &&difference::message::Record| {
        let labels = r.owner.labels();
        r.rtype == t::RRSIG && labels.len() > label_count(r) && labels.first() != Some(&&b"*"[..])
    };
    match (m.rcode, m.answer.is_empty()) {
        (3, _) => Some("nxdomain"),
        (0, true) if m.is_referral() => None,
        (0, true) if query.rtype == t::DS => Some("ds-denial"),
        (0, true) => Some("nodata"),
        (0, false) if m.answer.iter().find(expanded).is_some() => Some("wildcard"),
        (0, false) => Some("positive"),
        _ => None,
    }
}

/// The same question with RD, as a client of the validator asks it. AD is left clear: DO asks for it as well (RFC 6840 section 5.7).
fn recursive(query: &Query) -> Query {
    Query::new(&query.name, query.rtype, true).word(RD)
}

/// Elsewhere.example, which aliases lead to, and nothing else.
fn elsewhere(folder: &Path) -> ZoneFile {
    let path = folder.join("example.zone");
    let text = "example. 60 IN SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 IN NS ns.example.\n*.example. 60 IN A 192.0.2.9\n";
    std::fs::write(&path, text).expect("room for a zone file");
    ZoneFile { name: Name::from_text("example."), path }
}

#[test]
fn unbound_proves_what_it_proves_of_the_peers() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "validators");
    let signer = Signer::new(&folder.join("keys"));
    let seeds = seed::first()..seed::first() + seed::count(8);
    let mut made: Vec<Made> = seeds.flat_map(|s| corpus::random(&folder, &signer, s)).collect();
    made.retain(|m| m.denial != Denial::Unsigned);
    let files = [corpus::files(&made), vec![elsewhere(&folder)]].concat();
    let fleet = Fleet::start(&folder, &kinds(), &files);
    let validators: Vec<(Kind, Validator)> =
        fleet.servers.iter().map(|s| (s.kind, Validator::start(s, &files))).collect();
    let (mut report, mut proven) = (Report::default(), BTreeMap::new());
    for (i, m) in made.iter().enumerate() {
        judge(&fleet, &validators, m, &mut Seed::new(i as u64), &mut report, &mut proven);
    }
    println!("proven: {proven:#?}");
    report.settle();
    for kind in kinds() {
        for sort in SORTS {
            assert!(
                proven.keys().any(|(k, _, s)| (*k, *s) == (kind, sort)),
                "no {sort} answer of {} was proven",
                kind.text()
            );
        }
    }
}

type Proven = BTreeMap<(Kind, String, &'static str), usize>;

fn judge(
    fleet: &Fleet,
    validators: &[(Kind, Validator)],
    made: &Made,
    seed: &mut Seed,
    report: &mut Report,
    proven: &mut Proven,
) {
    let all = made.recipe.queries(seed);
    let direct = ask::all(fleet.server(Kind::Knot).address, &all);
    let sorted = all
        .iter()
        .zip(&direct)
        .filter(|(q, _)| q.dnssec_ok && ![t::ANY, t::RRSIG, t::NSEC, t::NSEC3].contains(&q.rtype));
    let queries: Vec<(&'static str, Query)> = sorted
        .filter(|(_, r)| !r.message().is_some_and(|m| m.is_referral()))
        .filter_map(|(q, r)| Some((sort(q, r.message()?)?, recursive(q))))
        .collect();
    let asked: Vec<Query> = queries.iter().map(|(_, q)| q.clone()).collect();
    let answers: Vec<(Kind, Vec<Reply>)> = std::thread::scope(|scope| {
        let asking: Vec<_> =
            validators.iter().map(|(k, v)| (*k, scope.spawn(|| ask::all(v.address, &asked)))).collect();
        asking.into_iter().map(|(k, thread)| (k, thread.join().expect("asking does not panic"))).collect()
    });
    for (i, (sort, query)) in queries.iter().enumerate() {
        for (kind, replies) in &answers {
            if is_proven(&replies[i]) {
                *proven.entry((*kind, format!("{:?}", made.denial), sort)).or_default() += 1;
            }
        }
        weigh(query, &answers, i, made, report);
    }
}

fn is_proven(reply: &Reply) -> bool {
    reply.message().is_some_and(|m| m.flags & AD != 0)
}

/// What Unbound proves of any peer it must prove of Dunlin, and with the same rcode. For DS the rcode is left out: there
/// Unbound composes answers from denials that it happens to hold, so the same server's come out as NOERROR or NXDOMAIN
/// depending on what was asked before.
fn weigh(query: &Query, answers: &[(Kind, Vec<Reply>)], i: usize, made: &Made, report: &mut Report) {
    let rcode = |m: &Message| if query.rtype == t::DS && m.rcode == 3 { 0 } else { m.rcode };
    let outcome = |r: &Reply| r.message().map(|m| (rcode(m), m.flags & AD != 0));
    let Some((_, ours)) = answers.iter().find(|(k, _)| *k == Kind::Dunlin) else { return };
    let mut peers = answers.iter().filter(|(k, _)| *k != Kind::Dunlin).map(|(_, replies)| outcome(&replies[i]));
    let (ours, best) = (outcome(&ours[i]), peers.clone().find(|o| o.is_some_and(|o| o.1)));
    let fits = match best {
        Some(best) => ours == best,
        None => peers.any(|o| o == ours),
    };
    if !fits {
        let sample = format!("  {query} in {} {}: {ours:?} for {:?}\n", made.file.name, made.recipe.shapes, best);
        report.note(&format!("Unbound does not prove Dunlin's answer ({:?})", made.denial), sample);
    }
}

#[test]
fn delv_proves_every_kind_of_answer() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "delv");
    let signer = Signer::new(&folder.join("keys"));
    let made: Vec<Made> =
        corpus::random(&folder, &signer, 1).into_iter().filter(|m| m.denial != Denial::Unsigned).collect();
    let fleet = Fleet::start(&folder, &kinds(), &corpus::files(&made));
    for m in &made {
        let anchors = folder.join(format!("{}anchors", m.file.name));
        std::fs::write(&anchors, delv_anchors(m)).expect("room for the anchors");
        for server in &fleet.servers {
            for (owner, rtype, expected) in SAMPLE {
                let name = m.recipe.zone.absolute(owner).to_string();
                let said = delv(&anchors, server.address.port(), &m.file.name, &name, rtype);
                let fits = said.contains(expected) || (opts_out(m) && said.contains(expected_of_opt_out(expected)));
                assert!(fits, "delv says of {name} {rtype} from {} with {:?}:\n{said}", server.kind.text(), m.denial);
            }
        }
    }
}

const POSITIVE: &str = "; fully validated";
const NEGATIVE: &str = "; negative response, fully validated";
const SAMPLE: &[(&str, &str, &str)] = &[
    ("host", "A", POSITIVE),
    ("@", "SOA", POSITIVE),
    ("x.wild", "A", POSITIVE),
    ("x.y.alias.wild", "A", POSITIVE),
    ("one.tree", "A", POSITIVE),
    ("chain1", "A", POSITIVE),
    ("secure", "DS", POSITIVE),
    ("host", "MX", NEGATIVE),
    ("ent", "A", NEGATIVE),
    ("x.wild", "MX", NEGATIVE),
    ("gone.host", "A", NEGATIVE),
    ("cut", "DS", NEGATIVE),
];

/// ldns, as drill chases signatures, has limits of its own (aliases, opt-out): so it is held to what it says of the peers.
#[test]
fn drill_proves_what_it_proves_of_the_peers() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "drill");
    let signer = Signer::new(&folder.join("keys"));
    let made: Vec<Made> =
        corpus::random(&folder, &signer, 1).into_iter().filter(|m| m.denial != Denial::Unsigned).collect();
    let fleet = Fleet::start(&folder, &kinds(), &corpus::files(&made));
    let (mut positive, mut negative) = (0, 0);
    for m in &made {
        let keys = folder.join(format!("{}keys", m.file.name));
        std::fs::write(&keys, difference::validator::anchors(&m.file).join("\n") + "\n").expect("room for the keys");
        for (owner, rtype, expected) in SAMPLE {
            let name = m.recipe.zone.absolute(owner).to_string();
            let says: Vec<(Kind, bool)> =
                fleet.servers.iter().map(|s| (s.kind, drill(&keys, s.address.port(), &name, rtype))).collect();
            let proven = says.iter().any(|(kind, proven)| *kind != Kind::Dunlin && *proven);
            assert!(says.contains(&(Kind::Dunlin, true)) || !proven, "{name} {rtype} with {:?}: {says:?}", m.denial);
            let count = if *expected == POSITIVE { &mut positive } else { &mut negative };
            *count += usize::from(proven);
        }
    }
    println!("proven by drill: {positive} positive, {negative} negative");
    assert!(positive >= SAMPLE.len() && negative >= 3, "{positive} positive, {negative} negative");
}

fn drill(keys: &Path, port: u16, name: &str, rtype: &str) -> bool {
    let (keys, port) = (keys.display().to_string(), port.to_string());
    let out = peers::run("drill", ["-S", "-k", &keys, "-p", &port, "@127.0.0.1", name, rtype]);
    String::from_utf8_lossy(&out.stdout).contains("Chase successful")
}

fn opts_out(made: &Made) -> bool {
    matches!(made.denial, Denial::Nsec3 { opt_out: true, .. })
}

/// A span that opts out proves no absence (RFC 5155 section 12.2): neither denial nor expansion of a wildcard can be secure there.
fn expected_of_opt_out(expected: &str) -> &'static str {
    if expected == NEGATIVE { "; negative response, unsigned answer" } else { "; unsigned answer" }
}

fn delv_anchors(made: &Made) -> String {
    let mut out = "trust-anchors {\n".to_string();
    for key in difference::validator::anchors(&made.file) {
        let words: Vec<&str> = key.split_whitespace().collect();
        let _ = writeln!(
            out,
            "\"{}\" static-key {} {} {} \"{}\";",
            words[0],
            words[4],
            words[5],
            words[6],
            words[7..].concat()
        );
    }
    out + "};\n"
}

fn delv(anchors: &Path, port: u16, zone: &Name, name: &str, rtype: &str) -> String {
    let (anchors, port, root) = (anchors.display().to_string(), port.to_string(), format!("+root={zone}"));
    let out = peers::run("delv", ["@127.0.0.1", "-p", &port, "-a", &anchors, &root, name, rtype]);
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}
