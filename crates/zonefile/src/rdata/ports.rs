//! WKS (RFC 1035 section 3.4.2): a protocol and a bitmap of ports.

use crate::number;
use crate::problem::Flaw;
use crate::scan::{Token, Tokens};

const PROTOCOLS: [(&str, u8); 3] = [("icmp", 1), ("tcp", 6), ("udp", 17)];

/// Those that old zone files name. Whatever else runs has a number.
const SERVICES: [(&str, u16); 24] = [
    ("echo", 7),
    ("discard", 9),
    ("systat", 11),
    ("daytime", 13),
    ("netstat", 15),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("nameserver", 42),
    ("whois", 43),
    ("domain", 53),
    ("tftp", 69),
    ("finger", 79),
    ("http", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("nntp", 119),
    ("ntp", 123),
    ("imap", 143),
    ("https", 443),
];

pub(crate) fn are_well_formed(bits: &[u8]) -> bool {
    bits.len() <= 8192 && bits.last() != Some(&0)
}

pub(crate) fn push(bits: &[u8], out: &mut String) {
    let mut lead = "";
    for (i, octet) in bits.iter().enumerate() {
        for bit in (0..8).filter(|bit| octet & (0x80 >> bit) != 0) {
            out.push_str(lead);
            lead = " ";
            number::push((i * 8 + bit) as u64, out);
        }
    }
}

pub(crate) fn protocol(token: &Token<'_>) -> Result<u8, Flaw> {
    let known = PROTOCOLS.iter().find(|(name, _)| token.text.eq_ignore_ascii_case(name.as_bytes()));
    known.map_or_else(|| number::decimal(token, "protocol", 255).map(|n| n as u8), |(_, n)| Ok(*n))
}

pub(crate) fn read(tokens: &mut Tokens<'_, '_>, out: &mut Vec<u8>) -> Result<(), Flaw> {
    let from = out.len();
    for token in tokens {
        let known = SERVICES.iter().find(|(name, _)| token.text.eq_ignore_ascii_case(name.as_bytes()));
        let port =
            known.map_or_else(|| number::decimal(&token, "port", 65_535).map(|n| n as usize), |s| Ok(s.1.into()))?;
        let octet = from + port / 8;
        if out.len() <= octet {
            out.resize(octet + 1, 0);
        }
        out[octet] |= 0x80 >> (port % 8);
    }
    Ok(())
}
