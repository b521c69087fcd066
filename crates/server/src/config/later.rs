//! What the configuration knows and this version does not do yet. A key leaves this file when its feature is built.

use super::reader::{Later, Repeats, later};
use Repeats::{Literal, Nothing};

pub const TOP: &[Later] = &[
    later("local", Nothing),
    later("blocklist", Nothing),
    later("view", Nothing),
    later("rpz", Nothing),
    later("catalog", Nothing),
];

/// What a resolver that validates nothing and asks only those it is told to does anyway.
pub const RESOLVER: &[Later] = &[
    later("stub", Nothing),
    later("root-hints", Nothing),
    later("trust-anchors", Nothing),
    later("validate", Literal("false")),
    later("qname-minimisation", Literal("\"off\"")),
    later("query-loopback", Literal("true")),
    later("clock", Literal("\"system\"")),
    later("sha1", Literal("false")),
    later("minimal-answers", Literal("true")),
    later("dns64", Literal("\"\"")),
    later("negative-trust-anchors", Literal("[]")),
    later("default-zones", Literal("false")),
    later("hedge", Literal("false")),
    later("server-cookies", Literal("false")),
    later("aggressive-nsec", Literal("false")),
    later("trust-anchor-signals", Literal("false")),
    later("trust-anchor-updates", Literal("false")),
    later("local-root", Literal("false")),
];
