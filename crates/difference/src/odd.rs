//! Zones written by hand: what the generator does not make because a rule of an RFC or a server forbids it, and what is rare.

use crate::recipe::{Recipe, fixed, put};
use crate::zone::Zone;

struct Odd {
    label: &'static str,
    lines: &'static [&'static str],
}

/// Zones that every peer loads.
const LEGAL: &[Odd] = &[
    Odd { label: "bare", lines: &["@ SOA ns.example. hostmaster.example. 1 2 3 4 5", "@ NS ns.example."] },
    Odd {
        label: "dname-apex",
        lines: &[
            "@ SOA ns.example. hostmaster.example. 1 2 3 4 5",
            "@ NS ns.example.",
            "@ DNAME other.example.",
            "@ TXT \"apex\"",
        ],
    },
    Odd {
        label: "dname-zones",
        lines: &["@ SOA ns.example. hostmaster.example. 1 2 3 4 5", "@ NS ns.example.", "@ DNAME bare.d.test."],
    },
    Odd {
        label: "wild-apex",
        lines: &[
            "@ SOA ns.wild-apex.d.test. hostmaster 1 2 3 4 5",
            "@ NS anything",
            "* A 192.0.2.1",
            "* AAAA 2001:db8::1",
            "* MX 5 mail",
        ],
    },
    Odd {
        label: "wild-levels",
        lines: &[
            "@ SOA ns hostmaster 1 2 3 4 5",
            "@ NS ns",
            "ns A 192.0.2.1",
            "* TXT \"outer\"",
            "*.sub TXT \"inner\"",
            "x.sub TXT \"x\"",
            "*.x.sub CNAME x.sub",
            "deep.down.sub A 192.0.2.2",
            "*.*.stars TXT \"two\"",
        ],
    },
    Odd {
        label: "nested-cuts",
        lines: &[
            "@ SOA ns hostmaster 1 2 3 4 5",
            "@ NS ns",
            "ns A 192.0.2.1",
            "child NS ns.child",
            "child NS ns.grand.child",
            "ns.child A 192.0.2.2",
            "grand.child NS ns.grand.child",
            "ns.grand.child A 192.0.2.3",
            "grand.child DS 12345 13 2 E2D3C916F6DEEAC73294E8268FB5885044A833FC5459588F4A9184CFC41A5766",
            "www.child CNAME www",
            "www A 192.0.2.4",
            "*.child A 192.0.2.5",
            "alias CNAME www.grand.child",
        ],
    },
    Odd {
        label: "parent",
        lines: &[
            "@ SOA ns hostmaster 1 2 3 4 5",
            "@ NS ns",
            "ns A 192.0.2.1",
            "son NS ns.son",
            "son DS 12345 13 2 E2D3C916F6DEEAC73294E8268FB5885044A833FC5459588F4A9184CFC41A5766",
            "ns.son A 192.0.2.2",
            "alias CNAME www.son",
            "tree DNAME son",
        ],
    },
    Odd {
        label: "son.parent",
        lines: &[
            "@ SOA ns hostmaster 7 2 3 4 5",
            "@ NS ns",
            "ns A 192.0.2.3",
            "www A 192.0.2.4",
            "up CNAME ns.parent.d.test.",
        ],
    },
    Odd {
        label: "across",
        lines: &[
            "@ SOA ns hostmaster 1 2 3 4 5",
            "@ NS ns",
            "ns A 192.0.2.1",
            "alias CNAME www.son.parent.d.test.",
            "gone CNAME gone.son.parent.d.test.",
            "tree DNAME wild-levels.d.test.",
            "mail MX 5 www.son.parent.d.test.",
            "cut NS ns.son.parent.d.test.",
        ],
    },
    Odd {
        label: "glue-wild",
        lines: &["@ SOA ns hostmaster 1 2 3 4 5", "@ NS ns", "ns A 192.0.2.1", "cut NS ns.cut", "*.cut A 192.0.2.2"],
    },
    OPTED_OUT,
    Odd {
        label: "chain-long",
        lines: &[
            "@ SOA ns hostmaster 1 2 3 4 5",
            "@ NS ns",
            "ns A 192.0.2.1",
            "c1 CNAME c2",
            "c2 CNAME c3",
            "c3 CNAME c4",
            "c4 CNAME c5",
            "c5 CNAME c6",
            "c6 CNAME c7",
            "c7 CNAME c8",
            "c8 CNAME c9",
            "c9 CNAME c10",
            "c10 CNAME c11",
            "c11 CNAME c12",
            "c12 CNAME c13",
            "c13 CNAME c14",
            "c14 CNAME c15",
            "c15 CNAME c16",
            "c16 CNAME c17",
            "c17 CNAME c18",
            "c18 CNAME c19",
            "c19 CNAME c20",
            "c20 CNAME c21",
            "c21 CNAME c22",
            "c22 CNAME c23",
            "c23 CNAME ns",
        ],
    },
    Odd {
        label: "types",
        lines: &[
            "@ SOA ns hostmaster 1 2 3 4 5",
            "@ NS ns",
            "ns A 192.0.2.1",
            "empty TYPE65280 \\# 0",
            "big TYPE65281 \\# 4 01020304",
            "t PTR ns",
            "t RP ns ns",
            "t AFSDB 1 ns",
            "t NAPTR 1 2 \"u\" \"sip\" \"!x!y!\" .",
            "t KX 1 ns",
            "t RT 1 ns",
            "t HINFO \"a\" \"b\"",
            "t CAA 0 issue \"ca.example\"",
            "t SRV 0 0 0 .",
            "m MX 0 .",
            "s SVCB 0 ns",
            "s2 SVCB 1 .",
            "h HTTPS 1 . ipv4hint=192.0.2.1",
        ],
    },
];

/// Empty non-terminals above nothing but an insecure cut.
const OPTED_OUT: Odd = Odd {
    label: "opted-out",
    lines: &[
        "@ SOA ns hostmaster 1 2 3 4 5",
        "@ NS ns",
        "ns A 192.0.2.1",
        "cut.deep.ent NS ns.elsewhere.example.",
        "cut.*.star NS ns",
    ],
};

/// Zones that only some peers load, or that break a rule which not all enforce.
const ILLEGAL: &[Odd] = &[
    Odd {
        label: "below-dname",
        lines: &[
            "@ SOA ns hostmaster 1 2 3 4 5",
            "@ NS ns",
            "ns A 192.0.2.1",
            "tree DNAME other",
            "www.tree A 192.0.2.2",
            "cut.tree NS ns",
            "*.tree TXT \"x\"",
            "www.other A 192.0.2.3",
        ],
    },
    Odd { label: "wild-ns", lines: &["@ SOA ns hostmaster 1 2 3 4 5", "@ NS ns", "ns A 192.0.2.1", "*.cut NS ns"] },
    Odd {
        label: "wild-dname",
        lines: &[
            "@ SOA ns hostmaster 1 2 3 4 5",
            "@ NS ns",
            "ns A 192.0.2.1",
            "*.tree DNAME other",
            "www.other A 192.0.2.3",
        ],
    },
];

fn build(odd: &Odd) -> Recipe {
    let mut zone = Zone::new(odd.label);
    odd.lines.iter().for_each(|line| put(&mut zone, line));
    if odd.label == "parent" {
        zone.children.push(zone.absolute("son"));
    }
    let owners = zone.owners();
    Recipe { zone, owners, shapes: odd.label.to_string() }
}

pub fn opted_out() -> Recipe {
    build(&OPTED_OUT)
}

pub fn legal() -> Vec<Recipe> {
    LEGAL.iter().map(build).chain([fixed("fixed"), unequal_ttls(), long_names()]).collect()
}

pub fn illegal() -> Vec<Recipe> {
    ILLEGAL.iter().map(build).collect()
}

/// RFC 2181 section 5.2 forbids it, zone files have it.
fn unequal_ttls() -> Recipe {
    let mut zone = Zone::new("ttls");
    zone.line("@", 100, "SOA ns hostmaster 1 2 3 4 3600");
    for (owner, ttl, rest) in [
        ("@", 200, "NS ns"),
        ("ns", 300, "A 192.0.2.1"),
        ("www", 20, "A 192.0.2.3"),
        ("www", 10, "A 192.0.2.2"),
        ("www", 30, "A 192.0.2.1"),
    ] {
        zone.line(owner, ttl, rest);
    }
    Recipe { zone, owners: vec!["@".to_string(), "www".to_string()], shapes: "unequal TTLs".to_string() }
}

fn long_names() -> Recipe {
    let mut zone = Zone::new("long");
    zone.line("@", 100, "SOA ns hostmaster 1 2 3 4 3600");
    zone.add("@", "NS ns");
    zone.add("ns", "A 192.0.2.1");
    let long = [63, 63, 63, 44].map(|n| "n".repeat(n)).join(".");
    let labels = ["1"; 110].join(".");
    zone.add(&long, "A 192.0.2.2");
    zone.add("alias", &format!("CNAME {long}"));
    zone.add(&labels, "TXT \"many labels\"");
    zone.add("wide", &format!("MX 1 {long}"));
    let owners = vec![long, labels, "alias".to_string(), "wide".to_string()];
    Recipe { zone, owners, shapes: "long names".to_string() }
}
