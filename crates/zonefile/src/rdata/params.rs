//! The parameters of SVCB and HTTPS (RFC 9460 section 2.1, 2.2 and appendix A). On the wire they rise by key; text may have
//! them in any order.

use super::read::parse;
use super::write::push_address;
use crate::encoding::{self, Bits};
use crate::name;
use crate::number;
use crate::problem::Flaw;
use crate::scan::{Shape, Token, Tokens};
use crate::string;
use std::net::{Ipv4Addr, Ipv6Addr};

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6HINT: u16 = 6;
const DOHPATH: u16 = 7;
const OHTTP: u16 = 8;
const GROUPS: u16 = 9;

const KEYS: [&str; 10] = [
    "mandatory",
    "alpn",
    "no-default-alpn",
    "port",
    "ipv4hint",
    "ech",
    "ipv6hint",
    "dohpath",
    "ohttp",
    "tls-supported-groups",
];
/// Reserved by RFC 9460 section 14.3.2.
const INVALID: u16 = 65_535;

fn split(rest: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let [k, l, m, n, after @ ..] = rest else { return None };
    let (value, after) = after.split_at_checked(u16::from_be_bytes([*m, *n]).into())?;
    Some((u16::from_be_bytes([*k, *l]), value, after))
}

pub(crate) fn are_well_formed(mut rest: &[u8]) -> bool {
    let (mut least, mut has_alpn) = (0u32, false);
    let mut wanted: &[u8] = &[];
    while !rest.is_empty() {
        let Some((key, value, after)) = split(rest) else { return false };
        if u32::from(key) < least || key == INVALID || !is_value(key, value) {
            return false;
        }
        least = u32::from(key) + 1;
        has_alpn |= key == ALPN;
        if key == NO_DEFAULT_ALPN && !has_alpn {
            return false;
        }
        // Both lists rise, so that one pass tells whether all that is mandatory is there.
        match wanted {
            _ if key == MANDATORY => wanted = value,
            [a, b, others @ ..] if u16::from_be_bytes([*a, *b]) == key => wanted = others,
            _ => {}
        }
        rest = after;
    }
    wanted.is_empty()
}

fn is_value(key: u16, value: &[u8]) -> bool {
    match key {
        MANDATORY => is_list(value, 2) && rises(value),
        ALPN => !value.is_empty() && are_ids(value),
        NO_DEFAULT_ALPN | OHTTP => value.is_empty(),
        PORT => value.len() == 2,
        IPV4HINT => is_list(value, 4),
        IPV6HINT => is_list(value, 16),
        GROUPS => is_list(value, 2),
        ECH | DOHPATH => !value.is_empty(),
        _ => true,
    }
}

fn is_list(value: &[u8], width: usize) -> bool {
    !value.is_empty() && value.len().is_multiple_of(width)
}

/// `mandatory` does not list itself, nor any key twice.
fn rises(value: &[u8]) -> bool {
    let mut last = MANDATORY;
    value.chunks_exact(2).all(|two| {
        let key = u16::from_be_bytes([two[0], two[1]]);
        std::mem::replace(&mut last, key) < key
    })
}

fn are_ids(mut rest: &[u8]) -> bool {
    while let [len @ 1..=255, after @ ..] = rest {
        match after.get(*len as usize..) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

pub(crate) fn push(mut rest: &[u8], out: &mut String) {
    let mut lead = "";
    while let Some((key, value, after)) = split(rest) {
        out.push_str(lead);
        lead = " ";
        push_key(key, out);
        if !value.is_empty() {
            out.push('=');
            push_value(key, value, out);
        }
        rest = after;
    }
}

fn push_key(key: u16, out: &mut String) {
    match KEYS.get(key as usize) {
        Some(name) => out.push_str(name),
        None => {
            out.push_str("key");
            number::push(key.into(), out);
        }
    }
}

fn push_value(key: u16, value: &[u8], out: &mut String) {
    let two = |value: &[u8]| value.iter().fold(0, |n, &c| n << 8 | u16::from(c));
    match key {
        MANDATORY => push_list(value.chunks(2), out, |key, out| push_key(two(key), out)),
        PORT | GROUPS => push_list(value.chunks(2), out, |n, out| number::push(two(n).into(), out)),
        IPV4HINT => push_list(value.chunks(4), out, push_address),
        IPV6HINT => push_list(value.chunks(16), out, push_address),
        ECH => encoding::push_base64(value, out),
        ALPN => push_ids(value, out),
        _ => string::push_quoted(value, out),
    }
}

fn push_list<'a>(items: impl Iterator<Item = &'a [u8]>, out: &mut String, push: impl Fn(&[u8], &mut String)) {
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        push(item, out);
    }
}

/// Escaped twice: a comma or backslash within an id as an item of a list, and the list as a string (RFC 9460 appendix A.1).
fn push_ids(mut rest: &[u8], out: &mut String) {
    let mut list = Vec::with_capacity(rest.len());
    while let [len, after @ ..] = rest {
        let (id, after) = after.split_at_checked(*len as usize).unwrap_or((after, &[]));
        for &c in id {
            if matches!(c, b',' | b'\\') {
                list.push(b'\\');
            }
            list.push(c);
        }
        list.push(b',');
        rest = after;
    }
    list.pop();
    string::push_quoted(&list, out);
}

pub(crate) fn read(tokens: &mut Tokens<'_, '_>, out: &mut Vec<u8>) -> Result<(), Flaw> {
    let at = tokens.at();
    let from = out.len();
    let mut params: Vec<(u16, Vec<u8>)> = Vec::new();
    while let Some(token) = tokens.next() {
        name::unquoted(&token)?;
        let (name, value) = halves(&token, tokens)?;
        let key = key(name, token.at)?;
        let mut octets = Vec::new();
        if let Some(value) = value {
            string::unescape(&value, &mut octets)?;
        }
        let place = value.map_or(token.at, |v| v.at);
        // A known key under its number is as opaque as any other (RFC 9460 section 2.1).
        if !name.starts_with(b"key") {
            octets = encode(key, octets).map_err(|(what, instead)| Flaw::new(place, what).instead(instead))?;
        }
        if !is_value(key, &octets) {
            return Err(Flaw::new(place, "these octets are no value of this key").instead("the key by its name"));
        }
        match params.binary_search_by_key(&key, |p| p.0) {
            Ok(_) => return Err(Flaw::new(token.at, "a parameter that stands twice").instead("each key once")),
            Err(i) => params.insert(i, (key, octets)),
        }
    }
    for (key, value) in params {
        let len = u16::try_from(value.len()).map_err(|_| Flaw::new(at, "a value of more than 65535 octets"))?;
        out.extend(key.to_be_bytes());
        out.extend(len.to_be_bytes());
        out.extend(value);
    }
    if are_well_formed(out.get(from..).unwrap_or(&[])) {
        return Ok(());
    }
    let advice = "alpn beside no-default-alpn, and every key that mandatory lists";
    Err(Flaw::new(at, "parameters that need others which are missing").instead(advice))
}

/// Key and value of `key=value`, or `key="value"`, whose value is the next token.
fn halves<'t>(token: &Token<'t>, tokens: &mut Tokens<'_, 't>) -> Result<(&'t [u8], Option<Token<'t>>), Flaw> {
    let Some(equals) = token.text.iter().position(|&c| c == b'=') else { return Ok((token.text, None)) };
    let (name, value) = token.text.split_at(equals);
    let value = Token { text: value.get(1..).unwrap_or(&[]), at: token.at + equals + 1, shape: Shape::Plain };
    match tokens.peek().filter(|next| next.shape == Shape::Glued) {
        Some(next) if value.text.is_empty() => {
            tokens.next();
            Ok((name, Some(next)))
        }
        Some(next) => Err(Flaw::new(next.at, "a quote within a value").instead("key=\"value\"")),
        None => Ok((name, Some(value))),
    }
}

fn key(name: &[u8], at: usize) -> Result<u16, Flaw> {
    if let Some(key) = KEYS.iter().position(|k| name == k.as_bytes()) {
        return Ok(key as u16);
    }
    let number = name.strip_prefix(b"key").filter(|n| !matches!(n, [b'0', _, ..])).and_then(number::digits);
    match number.and_then(|n| u16::try_from(n).ok()) {
        Some(key) if key != INVALID => Ok(key),
        _ => Err(Flaw::new(at, format!("{} is no key of a parameter", name.escape_ascii()))
            .instead("alpn, port, ipv4hint, ipv6hint, ... or key and a number from 0 to 65534")),
    }
}

type Why = (&'static str, &'static str);

fn encode(key: u16, text: Vec<u8>) -> Result<Vec<u8>, Why> {
    match key {
        MANDATORY => encode_mandatory(&text),
        ALPN => encode_ids(&text),
        PORT => numbers(&text).filter(|n| n.len() == 2).ok_or(("this is no port", "port=443")),
        GROUPS => numbers(&text).ok_or(("this is no list of groups", "tls-supported-groups=29,23")),
        IPV4HINT => addresses(&text, |a: Ipv4Addr| a.octets())
            .ok_or(("this is no list of IPv4 addresses", "ipv4hint=192.0.2.1,192.0.2.2")),
        IPV6HINT => addresses(&text, |a: Ipv6Addr| a.octets())
            .ok_or(("this is no list of IPv6 addresses", "ipv6hint=2001:db8::1,2001:db8::2")),
        ECH => encode_base64(&text),
        NO_DEFAULT_ALPN | OHTTP if !text.is_empty() => Err(("this key takes no value", "the key alone")),
        DOHPATH if text.is_empty() => Err(("the path is empty", "dohpath=/dns-query{?dns}")),
        _ => Ok(text),
    }
}

fn encode_mandatory(text: &[u8]) -> Result<Vec<u8>, Why> {
    let why = ("this is no list of other keys", "mandatory=alpn,port, each key once");
    let mut keys = Vec::new();
    for name in text.split(|&c| c == b',') {
        keys.push(key(name, 0).map_err(|_| why)?);
    }
    keys.sort_unstable();
    let octets: Vec<u8> = keys.iter().flat_map(|key| key.to_be_bytes()).collect();
    if rises(&octets) { Ok(octets) } else { Err(why) }
}

fn encode_ids(text: &[u8]) -> Result<Vec<u8>, Why> {
    let why = ("this is no list of protocols of 1 to 255 octets", "alpn=\"h2,h3\"");
    let mut out = vec![0];
    let mut head = 0;
    let mut octets = text.iter();
    while let Some(&c) = octets.next() {
        match c {
            b',' => {
                head = close_id(&mut out, head).ok_or(why)?;
                out.push(0);
            }
            b'\\' => out.push(*octets.next().ok_or(why)?),
            _ => out.push(c),
        }
    }
    close_id(&mut out, head).ok_or(why)?;
    Ok(out)
}

/// Sets the length of the id that begins at `head`; the next one begins at the end.
fn close_id(out: &mut [u8], head: usize) -> Option<usize> {
    let len = u8::try_from(out.len() - head - 1).ok().filter(|&n| n > 0)?;
    *out.get_mut(head)? = len;
    Some(out.len())
}

fn numbers(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for item in text.split(|&c| c == b',') {
        out.extend(number::digits(item).and_then(|n| u16::try_from(n).ok())?.to_be_bytes());
    }
    Some(out)
}

fn addresses<T: std::str::FromStr, const N: usize>(text: &[u8], octets: impl Fn(T) -> [u8; N]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for item in text.split(|&c| c == b',') {
        out.extend(octets(parse(item)?));
    }
    Some(out)
}

fn encode_base64(text: &[u8]) -> Result<Vec<u8>, Why> {
    let (mut bits, mut out) = (Bits::default(), Vec::new());
    let read = text.iter().try_for_each(|&c| bits.base64(c, &mut out)).and_then(|()| bits.end_base64());
    match read {
        Ok(()) if !out.is_empty() => Ok(out),
        Ok(()) => Err(("the value is empty", "ech=<base64>")),
        Err(why) => Err((why, "ech=<base64>")),
    }
}
