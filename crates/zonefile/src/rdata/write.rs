//! Rdata to text, field by field as the table says: one line, numbers in decimal, strings quoted.

use super::parts::{self, Part, Parts};
use super::{Kind, bitmap, digest, hip, loc, mnemonics, params, ports, prefixes};
use crate::encoding::{push_base32, push_base64, push_hex};
use crate::number;
use crate::rtypes;
use crate::string::push_quoted;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::name;

/// The case of hexadecimal digits and of those of base32hex.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digits {
    Upper,
    Lower,
}

impl Digits {
    fn fold(self, from: usize, out: &mut str) {
        if self == Digits::Lower
            && let Some(written) = out.get_mut(from..)
        {
            written.make_ascii_lowercase();
        }
    }
}

/// RFC 3597 section 5.
pub(crate) fn generic(digits: Digits, rdata: &[u8], out: &mut String) {
    let before = out.len();
    out.push_str("\\# ");
    number::push(rdata.len() as u64, out);
    if !rdata.is_empty() {
        out.push(' ');
        push_hex(rdata, out);
    }
    digits.fold(before, out);
}

/// False where the type has no form of its own or the rdata does not fit it; what was appended by then is rubbish.
pub(crate) fn known(digits: Digits, rtype: u16, rdata: &[u8], out: &mut String) -> bool {
    if rtypes::fields(rtype).is_none() || !digest::fits(rtype, rdata) {
        return false;
    }
    let mut parts = Parts::new(rtype, rdata);
    let mut lead = "";
    for part in parts.by_ref() {
        let before = out.len();
        out.push_str(lead);
        let field = out.len();
        push(&part, out);
        if matches!(part.kind, Kind::Hex | Kind::Salt | Kind::Hash) {
            digits.fold(field, out);
        }
        if out.len() == field {
            out.truncate(before);
        } else {
            lead = " ";
        }
    }
    parts.is_whole()
}

fn push(part: &Part<'_>, out: &mut String) {
    let octets = part.octets;
    match part.kind {
        Kind::Name | Kind::Names => name::push_text(octets, out),
        Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Ttl => number::push(integer(octets), out),
        Kind::GatewayType | Kind::Algorithm | Kind::Protocol => number::push(integer(octets), out),
        Kind::Rtype => rtypes::push_mnemonic(integer(octets) as u16, out),
        Kind::Certificate => mnemonics::push(integer(octets) as u16, mnemonics::CERTIFICATES, out),
        Kind::Scheme => mnemonics::push(integer(octets) as u16, mnemonics::SCHEMES, out),
        Kind::Time => number::push_time(integer(octets) as u32, out),
        Kind::Ip4 => push_ip4(octets, out),
        Kind::Ip6 => push_ip6(octets, out),
        Kind::Str | Kind::StrOrNone | Kind::Strs => push_strings(octets, out),
        Kind::Text | Kind::TextOrNone => push_quoted(octets, out),
        Kind::Tag => octets.iter().skip(1).for_each(|&c| out.push(c as char)),
        Kind::Hex => push_hex(octets, out),
        Kind::Base64 | Kind::Base64OrNone => push_base64(octets, out),
        Kind::Base64OrDash | Kind::Salt if octets.len() <= usize::from(part.kind == Kind::Salt) => out.push('-'),
        Kind::Base64OrDash => push_base64(octets, out),
        Kind::Salt => push_hex(octets.get(1..).unwrap_or(&[]), out),
        Kind::Hash => push_base32(octets.get(1..).unwrap_or(&[]), out),
        Kind::Bitmap => bitmap::push(octets, out),
        Kind::ShortBitmap => bitmap::push_short(octets, out),
        Kind::Params => params::push(octets, out),
        Kind::Loc => loc::push(octets, out),
        Kind::Prefixes => prefixes::push(octets, out),
        Kind::Ports => ports::push(octets, out),
        Kind::RelayType => push_relay_type(octets, out),
        Kind::Gateway => push_gateway(part, out),
        Kind::Hip => hip::push(octets, out),
        Kind::Suffix => push_suffix(octets, out),
        Kind::PrefixName if octets.is_empty() => {}
        Kind::PrefixName => name::push_text(octets, out),
        Kind::Nsap => {
            out.push_str("0x");
            for c in octets {
                let _ = write!(out, "{c:02x}");
            }
        }
        Kind::Eui48 | Kind::Eui64 => push_pairs(octets, out),
        Kind::Locator => push_locator(octets, out),
    }
}

fn integer(octets: &[u8]) -> u64 {
    octets.iter().fold(0, |n, &c| n << 8 | u64::from(c))
}

fn push_ip4(octets: &[u8], out: &mut String) {
    for (i, &c) in octets.iter().enumerate() {
        if i > 0 {
            out.push('.');
        }
        number::push(c.into(), out);
    }
}

fn push_ip6(octets: &[u8], out: &mut String) {
    let address: [u8; 16] = octets.try_into().unwrap_or([0; 16]);
    // A write to a String cannot fail.
    let _ = write!(out, "{}", Ipv6Addr::from(address));
}

fn push_strings(mut rest: &[u8], out: &mut String) {
    let mut lead = "";
    while let Some((&len, after)) = rest.split_first() {
        let (text, after) = after.split_at_checked(len as usize).unwrap_or((after, &[]));
        out.push_str(lead);
        lead = " ";
        push_quoted(text, out);
        rest = after;
    }
}

fn push_relay_type(octets: &[u8], out: &mut String) {
    let n = integer(octets);
    number::push(n >> 7, out);
    out.push(' ');
    number::push(n & 0x7f, out);
}

fn push_gateway(part: &Part<'_>, out: &mut String) {
    match part.gateway {
        parts::GATEWAY_IP4 => push_ip4(part.octets, out),
        parts::GATEWAY_IP6 => push_ip6(part.octets, out),
        parts::GATEWAY_NAME => name::push_text(part.octets, out),
        _ => out.push('.'),
    }
}

fn push_suffix(octets: &[u8], out: &mut String) {
    let [length, address @ ..] = octets else { return };
    number::push((*length).into(), out);
    if *length < 128 {
        out.push(' ');
        let bits = address.iter().fold(0u128, |n, &c| n << 8 | u128::from(c));
        let _ = write!(out, "{}", Ipv6Addr::from_bits(bits));
    }
}

fn push_pairs(octets: &[u8], out: &mut String) {
    for (i, c) in octets.iter().enumerate() {
        let separator = if i > 0 { "-" } else { "" };
        let _ = write!(out, "{separator}{c:02x}");
    }
}

/// With leading zeros, without which Knot does not read it.
fn push_locator(octets: &[u8], out: &mut String) {
    for (i, group) in octets.chunks(2).enumerate() {
        let separator = if i > 0 { ":" } else { "" };
        let _ = write!(out, "{separator}{:04x}", integer(group));
    }
}

/// For a list of addresses in SVCB.
pub(crate) fn push_address(octets: &[u8], out: &mut String) {
    match <[u8; 4]>::try_from(octets) {
        Ok(four) => push_ip4(&Ipv4Addr::from(four).octets(), out),
        Err(_) => push_ip6(octets, out),
    }
}
