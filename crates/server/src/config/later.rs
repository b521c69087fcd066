//! What the configuration knows and this version does not do yet. A key leaves this file when its feature is built.

use super::reader::{Later, Repeats, later};
use Repeats::{Literal, Nothing, Size, TimeMs};

pub const TOP: &[Later] = &[
    later("key", Nothing),
    later("local", Nothing),
    later("blocklist", Nothing),
    later("view", Nothing),
    later("rpz", Nothing),
    later("catalog", Nothing),
];

pub const ZONE: &[Later] = &[
    later("primaries", Literal("[]")),
    later("notify", Literal("[]")),
    later("allow-transfer", Literal("[]")),
    later("allow-update", Literal("[]")),
    later("transfer-source", Literal("[]")),
];

pub const RESOLVER_LISTS: &[&str] = &["forward", "stub"];

pub const RESOLVER: &[Later] = &[
    later("allow", Literal("[\"127.0.0.0/8\", \"::1/128\"]")),
    later("root-hints", Nothing),
    later("trust-anchors", Nothing),
    later("validate", Literal("true")),
    later("qname-minimisation", Literal("\"relaxed\"")),
    later("outgoing", Literal("[\"0.0.0.0\", \"::\"]")),
    later("port", Literal("53")),
    later("query-loopback", Literal("false")),
    later("clock", Literal("\"system\"")),
    later("sha1", Literal("false")),
    later("edns-size", Literal("1232")),
    later("minimal-answers", Literal("true")),
    later("dns64", Literal("\"\"")),
    later("negative-trust-anchors", Literal("[]")),
    later("default-zones", Literal("true")),
    later("serve-stale", Literal("true")),
    later("prefetch", Literal("true")),
    later("hedge", Literal("true")),
    later("case-randomisation", Literal("true")),
    later("server-cookies", Literal("true")),
    later("aggressive-nsec", Literal("true")),
    later("trust-anchor-signals", Literal("true")),
    later("trust-anchor-updates", Literal("true")),
    later("local-root", Literal("false")),
];

pub const CACHE: &[Later] = &[
    later("size", Size(256 << 20)),
    later("persist", Literal("true")),
    later("ttl-min", TimeMs(0)),
    later("ttl-max", TimeMs(86_400_000)),
];
