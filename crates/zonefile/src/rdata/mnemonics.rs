//! Small registries whose members may be written by name.

use crate::number;
use crate::problem::Flaw;
use crate::scan::Token;

type Registry = [(u16, &'static str)];

/// DNSSEC algorithms.
pub(crate) const ALGORITHMS: &Registry = &[
    (1, "RSAMD5"),
    (2, "DH"),
    (3, "DSA"),
    (5, "RSASHA1"),
    (6, "DSA-NSEC3-SHA1"),
    (6, "NSEC3DSA"),
    (7, "RSASHA1-NSEC3-SHA1"),
    (7, "NSEC3RSASHA1"),
    (8, "RSASHA256"),
    (10, "RSASHA512"),
    (12, "ECC-GOST"),
    (12, "ECCGOST"),
    (13, "ECDSAP256SHA256"),
    (14, "ECDSAP384SHA384"),
    (15, "ED25519"),
    (16, "ED448"),
    (17, "SM2SM3"),
    (23, "ECC-GOST12"),
    (252, "INDIRECT"),
    (253, "PRIVATEDNS"),
    (254, "PRIVATEOID"),
];

/// RFC 4398 section 2.1.
pub(crate) const CERTIFICATES: &Registry = &[
    (1, "PKIX"),
    (2, "SPKI"),
    (3, "PGP"),
    (4, "IPKIX"),
    (5, "ISPKI"),
    (6, "IPGP"),
    (7, "ACPKIX"),
    (8, "IACPKIX"),
    (253, "URI"),
    (254, "OID"),
];

/// RFC 9859 section 2.1.
pub(crate) const SCHEMES: &Registry = &[(1, "NOTIFY")];

pub(crate) fn read(token: &Token<'_>, registry: &Registry, what: &str, max: u64) -> Result<u16, Flaw> {
    let known = registry.iter().find(|(_, name)| token.text.eq_ignore_ascii_case(name.as_bytes()));
    match known {
        Some(&(n, _)) => Ok(n),
        None => number::decimal(token, what, max).map(|n| n as u16),
    }
}

pub(crate) fn push(n: u16, registry: &Registry, out: &mut String) {
    match registry.iter().find(|entry| entry.0 == n) {
        Some((_, name)) => out.push_str(name),
        None => number::push(n.into(), out),
    }
}
