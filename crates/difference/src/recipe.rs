//! Adversarial zones: shapes of nodes, put below one another up to depth three.
//!
//! A zone has a fixed part (hosts, wildcard, loops, a DNAME, a cut: what aliases lead to) and branches. A branch is a path of up to
//! three nodes, each of some shape, each under a label of its own or under the asterisk. The number of a zone and the seed decide
//! everything.

use crate::name::Name;
use crate::query::Query;
use crate::rtype::{self as t, Rtype};
use crate::seed::Seed;
use crate::zone::Zone;

/// A node: its records, `{o}` standing for its owner. Names are relative to the zone.
pub struct Shape {
    pub name: &'static str,
    pub lines: &'static [&'static str],
}

impl Shape {
    /// A delegation: what lies below is occluded.
    pub fn is_cut(&self) -> bool {
        self.name.starts_with("cut")
    }

    /// A DNAME: RFC 6672 section 2.4 allows nothing below it.
    pub fn is_dname(&self) -> bool {
        self.name.starts_with("dname")
    }
}

pub const SHAPES: &[Shape] = &[
    Shape { name: "ent", lines: &[] },
    Shape { name: "host", lines: &["{o} A 192.0.2.1", "{o} TXT \"host\""] },
    Shape { name: "text", lines: &["{o} TXT \"one\" \"two\""] },
    Shape { name: "cname-host", lines: &["{o} CNAME host"] },
    Shape { name: "cname-missing", lines: &["{o} CNAME missing"] },
    Shape { name: "cname-missing-below", lines: &["{o} CNAME gone.host"] },
    Shape { name: "cname-wild", lines: &["{o} CNAME some.wild"] },
    Shape { name: "cname-wild-alias", lines: &["{o} CNAME some.alias.wild"] },
    Shape { name: "cname-self", lines: &["{o} CNAME {o}"] },
    Shape { name: "cname-child", lines: &["{o} CNAME down.{o}"] },
    Shape { name: "cname-loop", lines: &["{o} CNAME loop1"] },
    Shape { name: "cname-chain", lines: &["{o} CNAME chain1"] },
    Shape { name: "cname-out", lines: &["{o} CNAME www.elsewhere.example."] },
    Shape { name: "cname-dname", lines: &["{o} CNAME one.tree"] },
    Shape { name: "cname-dname-self", lines: &["{o} CNAME tree"] },
    Shape { name: "cname-cut", lines: &["{o} CNAME www.cut"] },
    Shape { name: "cname-cut-self", lines: &["{o} CNAME cut"] },
    Shape { name: "cname-ent", lines: &["{o} CNAME ent"] },
    Shape { name: "cname-apex", lines: &["{o} CNAME @"] },
    Shape { name: "dname-forest", lines: &["{o} DNAME forest"] },
    Shape { name: "dname-forest-data", lines: &["{o} DNAME forest", "{o} A 192.0.2.3", "{o} TXT \"beside\""] },
    Shape { name: "dname-out", lines: &["{o} DNAME elsewhere.example."] },
    Shape { name: "dname-below", lines: &["{o} DNAME deep.{o}"] },
    Shape { name: "dname-self", lines: &["{o} DNAME {o}"] },
    Shape { name: "dname-missing", lines: &["{o} DNAME missing"] },
    Shape { name: "dname-wild", lines: &["{o} DNAME wild"] },
    Shape { name: "dname-cut", lines: &["{o} DNAME cut"] },
    Shape { name: "dname-dname", lines: &["{o} DNAME tree"] },
    Shape { name: "dname-cname", lines: &["{o} DNAME chain1"] },
    Shape { name: "dname-apex", lines: &["{o} DNAME @"] },
    Shape {
        name: "dname-long",
        lines: &[concat!(
            "{o} DNAME ",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.",
            "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.",
            "cccccccccccccccccccccccccccccccccccccccccccccccccc"
        )],
    },
    Shape {
        name: "mx",
        lines: &["{o} MX 10 host", "{o} MX 20 some.wild", "{o} MX 30 chain1", "{o} MX 40 mail.elsewhere.example."],
    },
    Shape { name: "mx-odd", lines: &["{o} MX 10 missing", "{o} MX 20 ns.cut", "{o} MX 30 one.tree", "{o} MX 40 {o}"] },
    Shape { name: "srv", lines: &["{o} SRV 1 2 80 host", "{o} SRV 1 2 81 some.wild", "{o} SRV 1 2 82 www.cut"] },
    Shape { name: "https", lines: &["{o} HTTPS 1 host alpn=h2", "{o} HTTPS 2 . port=8443", "{o} A 192.0.2.4"] },
    Shape { name: "https-alias", lines: &["{o} HTTPS 0 host"] },
    Shape { name: "svcb", lines: &["{o} SVCB 1 some.wild alpn=dot", "{o} SVCB 2 chain1"] },
    Shape { name: "ns-address", lines: &["{o} AAAA 2001:db8::1", "{o} TYPE65280 \\# 3 010203"] },
    Shape { name: "cut-glue", lines: &["{o} NS ns.{o}", "ns.{o} A 192.0.2.10", "ns.{o} AAAA 2001:db8::10"] },
    Shape {
        name: "cut-secure",
        lines: &[
            "{o} NS ns.{o}",
            "{o} DS 12345 13 2 E2D3C916F6DEEAC73294E8268FB5885044A833FC5459588F4A9184CFC41A5766",
            "ns.{o} A 192.0.2.11",
        ],
    },
    Shape { name: "cut-sibling", lines: &["{o} NS ns.cut"] },
    Shape { name: "cut-out", lines: &["{o} NS ns.elsewhere.example."] },
    Shape { name: "cut-host", lines: &["{o} NS host", "{o} NS ns1"] },
    Shape { name: "cut-wild", lines: &["{o} NS some.wild"] },
    Shape { name: "cut-noglue", lines: &["{o} NS ns.{o}"] },
    Shape { name: "cut-self", lines: &["{o} NS {o}", "{o} A 192.0.2.12"] },
    Shape {
        name: "cut-mixed",
        lines: &[
            "{o} NS ns.{o}",
            "{o} NS ns.cut",
            "{o} NS host",
            "{o} NS ns.elsewhere.example.",
            "ns.{o} A 192.0.2.13",
            "{o} TXT \"occluded\"",
            "www.{o} A 192.0.2.14",
        ],
    },
];

const FIXED: &[&str] = &[
    "@ NS ns1",
    "@ NS ns.elsewhere.example.",
    "@ MX 10 host",
    "@ TXT \"apex\"",
    "ns1 A 192.0.2.53",
    "ns1 AAAA 2001:db8::53",
    "host A 192.0.2.80",
    "host A 192.0.2.81",
    "host AAAA 2001:db8::80",
    "host TXT \"the host\"",
    "*.wild A 192.0.2.90",
    "*.wild TXT \"wild\"",
    "*.alias.wild CNAME host",
    "chain1 CNAME chain2",
    "chain2 CNAME chain3.wild",
    "loop1 CNAME loop2",
    "loop2 CNAME loop3",
    "loop3 CNAME loop1",
    "tree DNAME forest",
    "tree TXT \"beside the DNAME\"",
    "one.forest A 192.0.2.100",
    "two.forest CNAME host",
    "x.y.forest TXT \"leaf\"",
    "cut NS ns.cut",
    "cut NS ns.other",
    "ns.cut A 192.0.2.110",
    "ns.cut AAAA 2001:db8::110",
    "other NS ns.other",
    "ns.other A 192.0.2.111",
    "secure NS ns.cut",
    "secure DS 12345 13 2 E2D3C916F6DEEAC73294E8268FB5885044A833FC5459588F4A9184CFC41A5766",
    "leaf.ent TXT \"below an empty non-terminal\"",
];

/// The shapes whose every combination is tried: empty, data, aliases, redirection, cuts, targets.
const CORE: &[&str] = &[
    "ent",
    "host",
    "cname-host",
    "cname-wild",
    "cname-missing",
    "dname-forest",
    "dname-out",
    "cut-glue",
    "cut-secure",
    "cut-noglue",
    "mx",
];

/// A path of nodes from the apex down: the shape of each, and whether its label is the asterisk.
#[derive(Clone)]
pub struct Branch(pub Vec<(usize, bool)>);

impl Branch {
    /// Rules of the RFCs that servers enforce when they load: nothing below a DNAME (RFC 6672 section 2.4), no NS and no DNAME at an
    /// asterisk (RFC 4592 sections 4.2 and 4.4: not to be used). Zones that break the first rule are a family of their own.
    pub fn is_legal(&self) -> bool {
        let last = self.0.len() - 1;
        self.0.iter().enumerate().all(|(i, &(shape, star))| {
            let shape = &SHAPES[shape];
            !(star && (shape.is_cut() || shape.is_dname())) && !(shape.is_dname() && i < last)
        })
    }

    /// Every legal path of one to three nodes whose shapes are among the core's, with and without the asterisk at each place.
    pub fn every() -> Vec<Branch> {
        let core: Vec<usize> = (0..SHAPES.len()).filter(|&i| CORE.contains(&SHAPES[i].name)).collect();
        let nodes: Vec<(usize, bool)> = core.iter().flat_map(|&shape| [(shape, false), (shape, true)]).collect();
        let mut paths: Vec<Vec<(usize, bool)>> = vec![Vec::new()];
        let mut all = Vec::new();
        for _ in 0..3 {
            let longer =
                |path: &Vec<(usize, bool)>| nodes.iter().map(|&n| [&path[..], &[n]].concat()).collect::<Vec<_>>();
            paths = paths.iter().flat_map(longer).collect();
            all.extend(paths.iter().cloned().map(Branch).filter(Branch::is_legal));
        }
        all
    }

    fn random(seed: &mut Seed) -> Branch {
        let depth = 1 + seed.below(3);
        Branch((0..depth).map(|_| (seed.below(SHAPES.len()), seed.one_in(4))).collect())
    }
}

/// Writes the branch under `root` and says which owners it has, from the top. A branch that begins with the asterisk stands below
/// the apex itself, or below an empty `root` so that a zone may have many of them.
fn grow(zone: &mut Zone, root: &str, branch: &Branch, at_apex: bool) -> Vec<String> {
    let (mut owner, mut owners) = (String::new(), Vec::new());
    for (depth, &(shape, star)) in branch.0.iter().enumerate() {
        let label = match (star, depth) {
            (true, 0) if !at_apex => format!("*.{root}"),
            (true, _) => "*".to_string(),
            (false, 0) => root.to_string(),
            (false, _) => ["a", "m", "s"][depth % 3].to_string(),
        };
        owner = if owner.is_empty() { label } else { format!("{label}.{owner}") };
        for line in SHAPES[shape].lines {
            put(zone, &line.replace("{o}", &owner));
        }
        owners.push(owner.clone());
    }
    owners
}

pub(crate) fn put(zone: &mut Zone, line: &str) {
    let (owner, rest) = line.split_once(' ').expect("an owner and a record");
    zone.add(owner, rest);
}

/// A zone with its interesting owners.
pub struct Recipe {
    pub zone: Zone,
    pub owners: Vec<String>,
    pub shapes: String,
}

/// The zone with the fixed part alone.
pub fn fixed(label: &str) -> Recipe {
    let mut zone = Zone::new(label);
    zone.line("@", 3600, "SOA ns1 hostmaster 1 3600 900 604800 300");
    FIXED.iter().for_each(|line| put(&mut zone, line));
    let owners = FIXED.iter().filter_map(|l| l.split_once(' ')).map(|(o, _)| o.to_string()).collect();
    Recipe { zone, owners, shapes: "fixed".to_string() }
}

pub fn with_branches(label: &str, branches: &[Branch], at_apex: bool) -> Recipe {
    let mut recipe = fixed(label);
    recipe.owners = vec!["@".to_string()];
    for (i, branch) in branches.iter().enumerate() {
        recipe.owners.extend(grow(&mut recipe.zone, &format!("b{i}"), branch, at_apex));
        let shapes = branch.0.iter().map(|&(s, star)| format!("{}{}", if star { "*" } else { "" }, SHAPES[s].name));
        recipe.shapes += &format!(" {}", shapes.collect::<Vec<_>>().join("/"));
    }
    recipe.owners.sort();
    recipe.owners.dedup();
    recipe
}

/// A zone of random branches. At most one begins with the asterisk: there is but one `*` below the apex.
pub fn random(label: &str, seed: &mut Seed) -> Recipe {
    let mut branches = Vec::new();
    while branches.len() < 4 {
        let branch = Branch::random(seed);
        let starred = |b: &Branch| b.0[0].1;
        if branch.is_legal() && !(starred(&branch) && branches.iter().any(starred)) {
            branches.push(branch);
        }
    }
    with_branches(label, &branches, true)
}

pub const TYPES: &[Rtype] = &[
    t::A,
    t::AAAA,
    t::CNAME,
    t::DNAME,
    t::NS,
    t::DS,
    t::SOA,
    t::MX,
    t::SRV,
    t::HTTPS,
    t::TXT,
    t::NSEC,
    t::NSEC3,
    t::RRSIG,
    t::ANY,
    t::DNSKEY,
    t::NSEC3PARAM,
    t::SVCB,
    65280,
];

/// For names around the owners: existence, not type, is what may go wrong there.
const FEW_TYPES: &[Rtype] = &[t::A, t::TXT, t::DS, t::MX, t::CNAME];

impl Recipe {
    /// The owners with all types, and the names around them (child, grandchild, asterisk, neighbours, very long) with a few.
    pub fn queries(&self, seed: &mut Seed) -> Vec<Query> {
        let mut queries = Vec::new();
        let long = ["l".repeat(60), "m".repeat(60)].join(".");
        for owner in &self.owners {
            let name = self.zone.absolute(owner);
            ask(&mut queries, seed, &name, TYPES);
            for label in ["x", "*", "x.y", "www", "ns", "x.*", "deep", "one", &long] {
                ask(&mut queries, seed, &below(&name, label), FEW_TYPES);
            }
            for sibling in neighbours(&name, &self.zone.origin) {
                ask(&mut queries, seed, &sibling, FEW_TYPES);
            }
        }
        queries
    }
}

fn below(name: &Name, labels: &str) -> Name {
    labels.split('.').rev().fold(name.clone(), |n, label| n.child(label.as_bytes()))
}

/// Names just before and after one in canonical order, inside the zone.
fn neighbours(name: &Name, origin: &Name) -> Vec<Name> {
    if name.labels().first().is_none_or(|l| l.len() == 63) {
        return Vec::new();
    }
    let Some(parent) = name.parent().filter(|p| p.is_at_or_below(origin)) else { return Vec::new() };
    let first = name.labels()[0].to_vec();
    let mut after = first.clone();
    after.push(b'z');
    let mut before = first;
    before.insert(0, b'!');
    vec![parent.child(&before), parent.child(&after)]
}

/// One in four names is asked in mixed case, with and without DO by turns so that both are covered over the types.
fn ask(queries: &mut Vec<Query>, seed: &mut Seed, name: &Name, types: &[Rtype]) {
    if name.wire().len() > 255 {
        return;
    }
    for &rtype in types {
        let asked = if seed.one_in(4) { mixed_case(name, seed) } else { name.clone() };
        queries.push(Query::new(&asked, rtype, true));
        queries.push(Query::new(&asked, rtype, false));
    }
}

fn mixed_case(name: &Name, seed: &mut Seed) -> Name {
    let all = seed.one_in(4);
    let labels: Vec<Vec<u8>> = name.labels().into_iter().map(|label| flip(label, all, seed)).collect();
    Name::from_labels(labels.iter().map(Vec::as_slice))
}

fn flip(label: &[u8], all: bool, seed: &mut Seed) -> Vec<u8> {
    label.iter().map(|c| if all || seed.one_in(2) { c.to_ascii_uppercase() } else { *c }).collect()
}
