//! Spellings that peers read otherwise than we do, or not at all. Each has its place in docs/ambiguities.md, and a peer that
//! reads it as we do.

use crate::program::{BIND, KNOT, LDNS, Peer, folded, read};
use std::collections::BTreeSet;

struct Odd {
    /// As docs/ambiguities.md calls it.
    name: &'static str,
    text: &'static [u8],
    means: &'static [&'static str],
    /// Who reads it otherwise.
    not: &'static [&'static Peer],
}

const HEAD: &[u8] = b"$ORIGIN example.com.\n$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns.elsewhere.\n";
const A: &[&str] = &["a.example.com. 60 IN A 192.0.2.1"];

const ODD: &[Odd] = &[
    Odd {
        name: "raw-octets",
        text: b"a TXT \"\xe9\x01\"\n",
        means: &["a.example.com. 60 IN TXT \"\\233\\001\""],
        not: &[&KNOT],
    },
    Odd {
        name: "raw-separators",
        text: b"a TXT \"b\0c\x0b\x0c\"\n",
        means: &["a.example.com. 60 IN TXT \"b\\000c\\011\\012\""],
        not: &[&KNOT, &LDNS],
    },
    Odd { name: "carriage-returns", text: b"a A 192.0.2.1\r\n", means: A, not: &[&KNOT] },
    Odd { name: "class-by-number", text: b"a CLASS1 A 192.0.2.1\n", means: A, not: &[&KNOT] },
    Odd { name: "class-first", text: b"a IN 60 A 192.0.2.1\n", means: A, not: &[&LDNS] },
    Odd {
        name: "close-behind-a-word",
        text: b"a TXT (b)\n",
        means: &["a.example.com. 60 IN TXT \"b\""],
        not: &[&KNOT],
    },
    Odd { name: "nested-parentheses", text: b"a ((A) 192.0.2.1)\n", means: A, not: &[&KNOT] },
    Odd { name: "parenthesis-first", text: b"(a A 192.0.2.1)\n", means: A, not: &[&KNOT] },
    Odd {
        name: "strings-without-blanks",
        text: b"a TXT \"b\"\"c\"\n",
        means: &["a.example.com. 60 IN TXT \"b\" \"c\""],
        not: &[&KNOT],
    },
    Odd {
        name: "odd-pieces-of-hexadecimal",
        text: b"a TYPE65280 \\# 3 0 a0b0c\n",
        means: &["a.example.com. 60 IN TYPE65280 \\# 3 0A0B0C"],
        not: &[&KNOT],
    },
    Odd {
        name: "escaped-bracket",
        text: b"\\[a A 192.0.2.1\n",
        means: &["[a.example.com. 60 IN A 192.0.2.1"],
        not: &[&BIND],
    },
    Odd {
        name: "hash-in-names",
        text: b"a NS \\#b\n",
        means: &["a.example.com. 60 IN NS #b.example.com."],
        not: &[&KNOT],
    },
    Odd {
        name: "relative-origin",
        text: b"$ORIGIN b\na A 192.0.2.1\n",
        means: &["a.b.example.com. 60 IN A 192.0.2.1"],
        not: &[&KNOT, &LDNS],
    },
    Odd { name: "directives-in-lower-case", text: b"$ttl 60\na A 192.0.2.1\n", means: A, not: &[&LDNS] },
    Odd {
        name: "generate",
        text: b"$GENERATE 1-2 a$ A 192.0.2.$\n",
        means: &["a1.example.com. 60 IN A 192.0.2.1", "a2.example.com. 60 IN A 192.0.2.2"],
        not: &[&KNOT, &LDNS],
    },
    Odd {
        name: "marks-in-names",
        text: b"\\\"a MX 1 \\@\n",
        means: &["\\\"a.example.com. 60 IN MX 1 \\@.example.com."],
        not: &[&LDNS],
    },
    Odd {
        name: "wildcard-delegation",
        text: b"* NS b\n",
        means: &["*.example.com. 60 IN NS b.example.com."],
        not: &[&BIND],
    },
];

#[test]
fn who_reads_it_otherwise_is_known() {
    for odd in ODD {
        let text = [HEAD, odd.text].concat();
        let head = read("example.com", HEAD, folded);
        let expect: BTreeSet<String> = head.into_iter().chain(odd.means.iter().map(|m| m.to_string())).collect();
        assert_eq!(read("example.com", &text, folded), expect, "{}", odd.name);
        for peer in [&BIND, &KNOT, &LDNS] {
            let is_otherwise = peer.read("example.com", &text) != Ok(expect.clone());
            let is_known = odd.not.iter().any(|p| p.program == peer.program);
            assert_eq!(is_otherwise, is_known, "{}: {}", odd.name, peer.program);
        }
        assert!(odd.not.len() < 3, "{}: we stand alone", odd.name);
    }
}

#[test]
fn each_is_written_down() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ambiguities.md")).unwrap();
    let written: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**")).map(|(name, _)| name).collect();
    assert_eq!(written, ODD.iter().map(|odd| odd.name).collect::<Vec<_>>());
}
