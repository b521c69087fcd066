//! Answers around the limits of 512 to 1232 octets: what is left out, when TC is set, and that TCP has it all.
//!
//! The rules are checked for every server: they are RFC 2181 section 9, RFC 6891 section 6.2.3 and RFC 9471. A peer that breaks one is
//! printed, Dunlin that breaks one fails the test. That Dunlin truncates to nothing but the question and OPT is its own rule.

use difference::ask;
use difference::fleet::{Fleet, Kind, Server, UDP_SIZE, ZoneFile, fresh_folder, kinds};
use difference::message::{Message, Record, Reply, TC};
use difference::name::Name;
use difference::query::Query;
use difference::rtype as t;
use difference::sign::{Denial, Signer, Tool};
use difference::zone::Zone;
use std::collections::BTreeMap;
use std::time::Duration;

const DS: &str = "DS 12345 13 2 E2D3C916F6DEEAC73294E8268FB5885044A833FC5459588F4A9184CFC41A5766";

fn zone() -> Zone {
    let mut zone = Zone::new("big");
    zone.line("@", 3600, "SOA ns hostmaster 1 3600 900 604800 300");
    zone.add("@", "NS ns");
    zone.add("ns", "A 192.0.2.1");
    for n in 1..=80 {
        zone.add(&format!("t{n}"), &format!("TXT \"{}\"", "t".repeat(n * 2)));
        (0..n).for_each(|i| zone.add(&format!("a{n}"), &format!("A 192.0.2.{}", i + 1)));
    }
    for n in 1..=13 {
        (0..n).for_each(|i| delegate(&mut zone, n, i));
        (0..n).for_each(|i| zone.add(&format!("m{n}"), &format!("MX {i} mail{i}.m")));
        zone.add(&format!("s{n}"), DS);
        zone.add(&format!("mail{}.m", n - 1), "A 192.0.2.2");
    }
    zone
}

/// Server `i` of cuts with `n` servers: inside the zone with glue, inside a sibling, and inside a signed cut.
fn delegate(zone: &mut Zone, n: usize, i: usize) {
    for cut in [format!("c{n}"), format!("s{n}")] {
        zone.add(&cut, &format!("NS server-number-{i}.{cut}"));
        zone.add(&format!("server-number-{i}.{cut}"), "A 192.0.2.3");
        zone.add(&format!("server-number-{i}.{cut}"), "AAAA 2001:db8::3");
    }
    zone.add(&format!("x{n}"), &format!("NS server-number-{i}.c13"));
}

fn queries(zone: &Zone) -> Vec<(usize, Query)> {
    let mut out = Vec::new();
    for size in [0, 512, 513, 600, 800, 1000, 1231, 1232, 4096] {
        let mut ask = |owner: String, rtype| {
            let query = Query::build(&zone.absolute(&owner), rtype, 1);
            let query = |flags| if size == 0 { query.clone() } else { query.clone().opt(size as u16, 0, flags, &[]) };
            out.push((size.clamp(512, UDP_SIZE), query(0)));
            out.push((size.clamp(512, UDP_SIZE), query(0x8000)));
        };
        (1..=80).step_by(3).for_each(|n| ask(format!("a{n}"), t::A));
        (1..=80).for_each(|n| ask(format!("t{n}"), t::TXT));
        for n in 1..=13 {
            ["c", "s", "x"].iter().for_each(|cut| ask(format!("www.{cut}{n}"), t::A));
            ask(format!("m{n}"), t::MX);
            ask(format!("nothing{n}"), t::A);
        }
        ask("@".to_string(), t::DNSKEY);
    }
    out
}

#[test]
fn what_does_not_fit_is_left_out_or_truncated() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "truncation");
    let signer = Signer::new(&folder.join("keys"));
    let zone = zone();
    let plain = ZoneFile { name: zone.origin.clone(), path: zone.save(&folder) };
    for denial in [Denial::Nsec, Denial::Nsec3 { iterations: 0, opt_out: true }] {
        let file = signer.sign(&plain, denial, Tool::Bind).expect("dnssec-signzone signs the zone");
        let fleet = Fleet::start(&folder, &kinds(), &[file]);
        let mut faults = BTreeMap::new();
        check(&fleet, &queries(&zone), &mut faults);
        faults.iter().for_each(|((kind, rule), (n, sample))| println!("{} {n} x {rule}, as {sample}", kind.text()));
        assert!(!faults.keys().any(|(kind, _)| *kind == Kind::Dunlin), "Dunlin breaks a rule of truncation; see above");
    }
}

type Faults = BTreeMap<(Kind, &'static str), (usize, String)>;

fn check(fleet: &Fleet, queries: &[(usize, Query)], faults: &mut Faults) {
    let asked: Vec<Query> = queries.iter().map(|(_, q)| q.clone()).collect();
    let whole = fleet.ask_tcp(&asked);
    for (server, (_, whole)) in fleet.servers.iter().zip(&whole) {
        for ((limit, query), full) in queries.iter().zip(whole) {
            for rule in broken(server, query, *limit, full) {
                let sample = format!("{query} in {limit}");
                faults.entry((server.kind, rule)).or_insert((0, sample)).0 += 1;
            }
        }
    }
}

fn broken(server: &Server, query: &Query, limit: usize, full: &Reply) -> Vec<&'static str> {
    let Some(full) = full.message() else { return vec!["no answer over TCP"] };
    let packets = ask::alone(server.address, &query.packet, Duration::from_secs(2));
    let Some(packet) = packets.first() else { return vec!["no answer over UDP"] };
    let Reply::Message(part) = Reply::read(packet) else { return vec!["a broken answer over UDP"] };
    let mut broken = Vec::new();
    let mut rule = |holds: bool, rule| {
        if !holds {
            broken.push(rule)
        }
    };
    rule(packet.len() <= limit, "an answer longer than the limit");
    rule(full.flags & TC == 0, "TC over TCP");
    rule(part.edns.is_some() == full.edns.is_some(), "OPT is lost");
    if part.flags & TC == 0 {
        rule(part.answer == full.answer && part.authority == full.authority, "records are left out without TC");
        rule(part.additional.iter().all(|r| full.additional.contains(r)), "additional records that TCP has not");
        rule(
            glue(full).iter().all(|r| part.additional.contains(r)),
            "in-domain glue is left out without TC (RFC 9471 section 3.1)",
        );
        rule(whole_rrsets(&part, full), "part of an RRset is left out without TC (RFC 2181 section 9)");
    } else {
        rule(required(full) > limit, "TC although what is required fits");
        let empty = part.answer.is_empty() && part.authority.is_empty() && part.additional.is_empty();
        rule(empty || server.kind != Kind::Dunlin, "TC with records");
    }
    broken
}

/// Addresses inside the delegated zone: RFC 9471 section 3.1 wants all of them or TC.
fn glue(m: &Message) -> Vec<&Record> {
    if !m.is_referral() || m.is_authoritative() {
        return Vec::new();
    }
    let cuts: Vec<&Name> = m.authority.iter().filter(|r| r.rtype == t::NS).map(|r| &r.owner).collect();
    m.additional.iter().filter(|r| cuts.iter().any(|cut| r.owner.is_at_or_below(cut))).collect()
}

fn whole_rrsets(part: &Message, full: &Message) -> bool {
    let alike = |a: &Record, b: &Record| a.owner == b.owner && a.rtype == b.rtype && a.covers() == b.covers();
    part.additional.iter().all(|r| full.additional.iter().filter(|f| alike(r, f)).all(|f| part.additional.contains(f)))
}

/// The length of what is required, with every name compressed that may be (RFC 3597 section 4).
fn required(m: &Message) -> usize {
    let mut known = vec![Name::from_wire(m.question[..m.question.len() - 4].to_vec())];
    let mut length = 12 + m.question.len() + m.edns.as_ref().map_or(0, |_| 11);
    for r in m.answer.iter().chain(&m.authority).chain(glue(m)) {
        length += 10 + compressed(&r.owner, &mut known);
        length += match r.target() {
            Some(target) if matches!(r.rtype, t::NS | t::CNAME | t::MX) => {
                r.rdata.len() - target.wire().len() + compressed(&target, &mut known)
            }
            _ => r.rdata.len(),
        };
    }
    length
}

/// What a name costs after the names that are there already.
fn compressed(name: &Name, known: &mut Vec<Name>) -> usize {
    let mut at = Some(name.clone());
    let mut cost = 0;
    while let Some(n) = at.filter(|n| n.wire().len() > 1) {
        if known.iter().any(|k| k.is_at_or_below(&n)) {
            cost += 2;
            known.push(name.clone());
            return cost;
        }
        cost += 1 + n.labels()[0].len();
        at = n.parent();
    }
    known.push(name.clone());
    cost + 1
}
