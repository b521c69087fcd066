//! APL (RFC 3123): address prefixes, `!1:192.0.2.0/24`.

use crate::number;
use crate::problem::Flaw;
use crate::scan::{Token, Tokens};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ADVICE: &str = "1:192.0.2.0/24 or 2:2001:db8::/32, with ! before what is left out";

/// Family, prefix length, whether it is left out, and the address without its trailing zeros.
struct Prefix<'a> {
    family: u16,
    length: u8,
    negated: bool,
    address: &'a [u8],
}

fn split(rest: &[u8]) -> Option<(Prefix<'_>, &[u8])> {
    let [high, low, length, head, rest @ ..] = rest else { return None };
    let (address, rest) = rest.split_at_checked((head & 0x7f) as usize)?;
    let family = u16::from_be_bytes([*high, *low]);
    let fits = match family {
        1 => address.len() <= 4 && *length <= 32,
        2 => address.len() <= 16 && *length <= 128,
        _ => false,
    };
    let minimal = address.last() != Some(&0);
    (fits && minimal).then_some((Prefix { family, length: *length, negated: head & 0x80 != 0, address }, rest))
}

pub(crate) fn are_well_formed(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        match split(rest) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

pub(crate) fn push(mut rest: &[u8], out: &mut String) {
    let mut lead = "";
    while let Some((prefix, after)) = split(rest) {
        out.push_str(lead);
        lead = " ";
        push_one(&prefix, out);
        rest = after;
    }
}

fn push_one(prefix: &Prefix<'_>, out: &mut String) {
    let mut octets = [0; 16];
    prefix.address.iter().zip(&mut octets).for_each(|(from, to)| *to = *from);
    let address = match octets {
        [a, b, c, d, ..] if prefix.family == 1 => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        _ => IpAddr::V6(Ipv6Addr::from(octets)),
    };
    let negated = if prefix.negated { "!" } else { "" };
    out.push_str(&format!("{negated}{}:{address}/{}", prefix.family, prefix.length));
}

pub(crate) fn read(tokens: &mut Tokens<'_, '_>, out: &mut Vec<u8>) -> Result<(), Flaw> {
    tokens.try_for_each(|token| read_one(&token, out))
}

fn read_one(token: &Token<'_>, out: &mut Vec<u8>) -> Result<(), Flaw> {
    let flaw = |why: &str| Flaw::new(token.at, why).instead(ADVICE);
    let (negated, text) = match token.text.strip_prefix(b"!") {
        Some(text) => (0x80, text),
        None => (0, token.text),
    };
    let text = std::str::from_utf8(text).map_err(|_| flaw("a prefix that is no text"))?;
    let (family, rest) = text.split_once(':').ok_or_else(|| flaw("a prefix without its address family"))?;
    let (address, length) = rest.split_once('/').ok_or_else(|| flaw("a prefix without its length"))?;
    let bad_address = |_| flaw("a prefix whose address is not of its family");
    let mut octets = [0; 16];
    let width = match family {
        "1" => {
            let address: Ipv4Addr = address.parse().map_err(bad_address)?;
            octets.iter_mut().zip(address.octets()).for_each(|(to, from)| *to = from);
            32
        }
        "2" => {
            octets = address.parse::<Ipv6Addr>().map_err(bad_address)?.octets();
            128
        }
        _ => return Err(flaw("an address family other than 1 (IPv4) and 2 (IPv6)")),
    };
    let length = number::digits(length.as_bytes()).filter(|&n| n <= width);
    let length = length.ok_or_else(|| flaw("a prefix length out of range"))?;
    let used = octets.iter().rposition(|&c| c != 0).map_or(0, |i| i + 1);
    out.extend([0, if width == 32 { 1 } else { 2 }, length as u8, negated | used as u8]);
    out.extend_from_slice(octets.get(..used).unwrap_or(&[]));
    Ok(())
}
