//! The protocol matrix: queries that are odd in themselves, whatever the zone holds.

use crate::name::Name;
use crate::query::Query;
use crate::rtype as t;

/// One query of every kind, for a zone made by `recipe::fixed`.
pub fn rows(zone: &Name) -> Vec<Query> {
    let host = zone.child(b"host");
    let mut rows = edns(&host);
    rows.extend(header(&host));
    rows.extend(classes_and_types(zone, &host));
    rows.extend(shapes(zone, &host));
    rows.extend(names(zone));
    rows.extend(chaos());
    rows
}

fn plain(host: &Name) -> Query {
    Query::build(host, t::A, 1)
}

fn edns(host: &Name) -> Vec<Query> {
    let opt = |size, version, flags, options: &[u8]| plain(host).opt(size, version, flags, options);
    vec![
        plain(host).kind("no-edns"),
        opt(1232, 0, 0, &[]).kind("edns"),
        opt(1232, 0, 0x8000, &[]).kind("edns-do"),
        opt(1232, 1, 0, &[]).kind("edns-version-1"),
        opt(1232, 1, 0x8000, &[]).kind("edns-version-1-do"),
        opt(1232, 255, 0, &[]).kind("edns-version-255"),
        opt(1232, 1, 0, &[0, 200, 0, 0]).kind("edns-version-1-option"),
        opt(0, 0, 0, &[]).kind("edns-size-0"),
        opt(511, 0, 0, &[]).kind("edns-size-511"),
        opt(512, 0, 0, &[]).kind("edns-size-512"),
        opt(4096, 0, 0, &[]).kind("edns-size-4096"),
        opt(65535, 0, 0, &[]).kind("edns-size-65535"),
        opt(1232, 0, 0x4000, &[]).kind("edns-flag-second"),
        opt(1232, 0, 0x7fff, &[]).kind("edns-flags-all-but-do"),
        opt(1232, 0, 0xffff, &[]).kind("edns-flags-all"),
        opt(1232, 0, 0, &[0xff, 0xf0, 0, 3, 1, 2, 3]).kind("edns-option-unknown"),
        opt(1232, 0, 0, &[0xff, 0xf0, 0, 0, 0xff, 0xf1, 0, 1, 9]).kind("edns-options-unknown"),
        opt(1232, 0, 0, &[0, 3, 0, 0]).kind("edns-nsid-not-configured"),
        opt(1232, 0, 0, &[0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2]).kind("edns-client-subnet"),
        opt(1232, 0, 0, &[0, 5, 0, 2, 8, 13]).kind("edns-dau"),
        opt(1232, 0, 0, &[0, 9, 0, 0]).kind("edns-expire"),
        opt(1232, 0, 0, &[0xff, 0xf0, 0, 9, 1]).kind("edns-option-overlong"),
        opt(1232, 0, 0, &[0xff, 0xf0, 0]).kind("edns-option-cut"),
        opt(1232, 0, 0, &[]).opt(1232, 0, 0, &[]).kind("edns-two-opts"),
        opt(1232, 0, 0, &[]).opt(1232, 0, 0, &[]).opt(1232, 0, 0, &[]).kind("edns-three-opts"),
        opt(1232, 0, 0, &[]).count(3, 0).count(2, 1).kind("edns-opt-in-authority"),
        opt(1232, 0, 0, &[]).count(3, 0).count(1, 1).kind("edns-opt-in-answer"),
        plain(host)
            .octets(b"\x01x\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00")
            .count(3, 1)
            .kind("edns-opt-not-at-root"),
        plain(host)
            .octets(b"\xc0\x0c\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00")
            .count(3, 1)
            .kind("edns-opt-owner-compressed"),
        plain(host).octets(b"\x00\x00\x29\x04\xd0\x01\x00\x00\x00\x00\x00").count(3, 1).kind("edns-extended-rcode-set"),
        plain(host).octets(b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00").count(3, 1).kind("edns-opt-cut"),
        plain(host)
            .octets(b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x09")
            .count(3, 1)
            .kind("edns-opt-rdlength-too-long"),
    ]
}

/// RD, RA, Z, AD, CD, AA, TC, rcode, QR and the opcodes.
fn header(host: &Name) -> Vec<Query> {
    let word = |kind, word| plain(host).word(word).kind(kind);
    let with_edns = |kind, word| plain(host).opt(1232, 0, 0, &[]).word(word).kind(kind);
    let mut rows = vec![
        word("rd", 0x0100),
        word("cd", 0x0010),
        word("ad", 0x0020),
        word("z", 0x0040),
        word("ra", 0x0080),
        word("tc", 0x0200),
        word("aa", 0x0400),
        word("rd-cd-ad", 0x0130),
        word("all-flags", 0x07f0),
        word("rcode-in-query", 0x0003),
        word("qr", 0x8000),
        with_edns("qr-edns", 0x8000),
        with_edns("rd-edns", 0x0100),
        with_edns("cd-edns", 0x0010),
        with_edns("ad-edns", 0x0020),
    ];
    rows.extend(OPCODES.iter().map(|&(kind, opcode)| word(kind, opcode << 11)));
    rows.push(with_edns("opcode-status-edns", 2 << 11));
    rows.push(with_edns("opcode-15-edns", 15 << 11));
    rows.push(word("opcode-status-rd-cd", 2 << 11 | 0x0110));
    rows
}

const OPCODES: &[(&str, u16)] = &[
    ("opcode-iquery", 1),
    ("opcode-status", 2),
    ("opcode-3", 3),
    ("opcode-notify", 4),
    ("opcode-update", 5),
    ("opcode-dso", 6),
    ("opcode-7", 7),
    ("opcode-8", 8),
    ("opcode-9", 9),
    ("opcode-10", 10),
    ("opcode-11", 11),
    ("opcode-12", 12),
    ("opcode-13", 13),
    ("opcode-14", 14),
    ("opcode-15", 15),
];

fn classes_and_types(zone: &Name, host: &Name) -> Vec<Query> {
    let class = |kind, class| Query::build(host, t::A, class).kind(kind);
    let rtype = |kind, rtype| Query::build(host, rtype, 1).kind(kind);
    let apex = |kind, rtype| Query::build(zone, rtype, 1).kind(kind);
    vec![
        class("class-0", 0),
        class("class-ch", 3),
        class("class-hs", 4),
        class("class-none", 254),
        class("class-any", 255),
        class("class-65280", 65280),
        Query::build(zone, t::SOA, 255).kind("class-any-soa"),
        rtype("type-0", 0),
        rtype("type-opt", t::OPT),
        rtype("type-tkey", t::TKEY),
        rtype("type-tsig", t::TSIG),
        rtype("type-mailb", t::MAILB),
        rtype("type-maila", t::MAILA),
        rtype("type-md", t::MD),
        rtype("type-null", t::NULL),
        rtype("type-128", 128),
        rtype("type-248", 248),
        rtype("type-65535", 65535),
        rtype("type-65280", 65280),
        apex("axfr-over-udp", t::AXFR),
        rtype("axfr-below-apex-over-udp", t::AXFR),
        apex("ixfr-over-udp-without-soa", t::IXFR),
        apex("mailb-apex", t::MAILB),
    ]
}

/// Counts that lie, records that do not belong, octets after the end.
fn shapes(zone: &Name, host: &Name) -> Vec<Query> {
    let question = &plain(host).packet[12..].to_vec();
    let record = b"\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\x7f\x00\x00\x01";
    vec![
        plain(host).octets(b"\x00").kind("trailing-one"),
        plain(host).octets(b"garbage after the end").kind("trailing"),
        plain(host).opt(1232, 0, 0, &[]).octets(b"\x00").kind("trailing-edns"),
        Query::raw("header-only", vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        Query::raw("header-only-status", vec![0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        Query::raw("header-only-rd", vec![0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        Query::raw("no-question-edns", vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            .opt(1232, 0, 0, &[])
            .kind("no-question-edns"),
        Query::raw("question-missing", vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
        plain(host).count(0, 2).octets(question).kind("two-questions"),
        plain(host).count(0, 2).kind("two-questions-one-there"),
        plain(host).count(0, 0).kind("question-not-counted"),
        plain(host).count(0, 65535).kind("questions-65535"),
        plain(host).count(1, 1).octets(record).kind("answer-in-query"),
        plain(host).count(2, 1).octets(record).kind("authority-in-query"),
        plain(host).count(3, 1).octets(record).kind("additional-in-query"),
        plain(host).count(3, 1).octets(record).opt(1232, 0, 0, &[]).kind("additional-before-opt"),
        plain(host).opt(1232, 0, 0, &[]).count(3, 2).octets(record).kind("additional-after-opt"),
        plain(host).count(1, 1).kind("answer-missing"),
        plain(host).count(3, 1).kind("additional-missing"),
        plain(host).count(3, 65535).kind("additional-65535"),
        truncated(zone.child(b"host"), 1).kind("question-cut-by-1"),
        truncated(zone.child(b"host"), 3).kind("question-cut-by-3"),
        truncated(zone.child(b"host"), 5).kind("question-cut-in-name"),
        plain(host).opt(1232, 0, 0, &[]).word(5 << 11).kind("opcode-update-edns"),
        Query::build(zone, t::SOA, 1).word(5 << 11).kind("opcode-update-soa"),
        plain(host).word(4 << 11 | 0x0400).kind("opcode-notify-aa"),
        Query::build(zone, t::SOA, 1).word(4 << 11 | 0x0400).kind("opcode-notify-soa"),
    ]
}

fn truncated(name: Name, by: usize) -> Query {
    let mut query = plain(&name);
    query.packet.truncate(query.packet.len() - by);
    query
}

fn names(zone: &Name) -> Vec<Query> {
    let raw = |kind, name: &[u8]| {
        let mut packet = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        packet.extend_from_slice(name);
        packet.extend_from_slice(&[0, 1, 0, 1]);
        Query::raw(kind, packet)
    };
    let padded = |to: usize| padded(zone, to);
    vec![
        Query::build(&Name::root(), t::A, 1).kind("not-ours-root"),
        Query::build(&Name::from_text("www.example.net."), t::A, 1).kind("not-ours"),
        Query::build(&Name::from_text("www.example.net."), t::A, 1).opt(1232, 0, 0x8000, &[]).kind("not-ours-do"),
        Query::build(&Name::from_text("d.test."), t::SOA, 1).kind("not-ours-parent"),
        Query::build(zone, t::DS, 1).opt(1232, 0, 0x8000, &[]).kind("ds-at-apex-without-parent"),
        Query::build(&padded(255), t::A, 1).kind("name-of-255"),
        Query::build(&padded(254), t::A, 1).kind("name-of-254"),
        Query::build(&padded(256), t::A, 1).kind("name-of-256"),
        Query::build(&padded(320), t::A, 1).kind("name-of-320"),
        Query::build(&zone.child(&[b'a'; 63]), t::A, 1).kind("label-of-63"),
        Query::build(&zone.child(b"nul\0dot.\xff"), t::A, 1).kind("label-binary"),
        raw("label-of-64", &[&[64][..], &[b'a'; 64], b"\x00"].concat()),
        raw("label-kind-80", b"\x80\x00\x00"),
        raw("pointer-to-itself", b"\xc0\x0c"),
        raw("pointer-forward", b"\xc0\x20"),
        raw("pointer-to-header", b"\xc0\x00"),
        raw("pointer-after-label", b"\x01a\xc0\x0c"),
        raw("pointer-behind-end", b"\xff\xff"),
    ]
}

/// A name below the zone that is `to` octets long; beyond 255 it is no name.
fn padded(zone: &Name, to: usize) -> Name {
    let mut name = zone.clone();
    while name.wire().len() < to {
        let room = to - name.wire().len();
        let label = if room > 64 { 62.min(room - 3) } else { room - 1 };
        name = name.child(&vec![b'p'; label]);
    }
    name
}

fn chaos() -> Vec<Query> {
    let ch = |kind, name: &str, rtype| Query::build(&Name::from_text(name), rtype, 3).kind(kind);
    vec![
        ch("chaos-version-not-configured", "version.bind.", t::TXT),
        ch("chaos-version-server", "version.server.", t::TXT),
        ch("chaos-id", "id.server.", t::TXT),
        ch("chaos-hostname", "hostname.bind.", t::TXT),
        ch("chaos-authors", "authors.bind.", t::TXT),
        ch("chaos-unknown", "nothing.bind.", t::TXT),
        ch("chaos-version-a", "version.bind.", t::A),
        ch("chaos-version-any", "version.bind.", t::ANY),
        ch("chaos-root", ".", t::TXT),
    ]
}
