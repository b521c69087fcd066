//! LOC (RFC 1876): degrees, metres and sizes in 16 octets.

use crate::number;
use crate::problem::Flaw;
use crate::scan::{Token, Tokens};

pub(crate) const LEN: usize = 16;

/// Thousandths of a second of arc; on the wire they are counted from 2^31.
const EQUATOR: u32 = 1 << 31;
const DEGREE: u32 = 3_600_000;
/// Centimetres from the reference ellipsoid down to where altitudes are counted from.
const GROUND_CM: i64 = 10_000_000;
const METRE_ADVICE: &str = "metres with at most two decimals, such as 10m or 0.25m";

pub(crate) fn is_well_formed(octets: &[u8]) -> bool {
    let [version, size, horizontal, vertical, rest @ ..] = octets else { return false };
    let word = |at: usize| rest.get(at..at + 4).map_or(0, |w| u32::from_be_bytes([w[0], w[1], w[2], w[3]]));
    *version == 0
        && [size, horizontal, vertical].iter().all(|&&c| is_size(c))
        && word(0).abs_diff(EQUATOR) <= 90 * DEGREE
        && word(4).abs_diff(EQUATOR) <= 180 * DEGREE
}

/// A digit and a power of ten; "0 times a power" is zero however it is spelt, and only one spelling can come back from text.
fn is_size(c: u8) -> bool {
    c >> 4 <= 9 && c & 15 <= 9 && (c >> 4 > 0 || c == 0)
}

pub(crate) fn push(octets: &[u8], out: &mut String) {
    let &[_, size, horizontal, vertical, a, b, c, d, e, f, g, h, i, j, k, l] = octets else { return };
    push_angle(u32::from_be_bytes([a, b, c, d]), ["N", "S"], out);
    push_angle(u32::from_be_bytes([e, f, g, h]), ["E", "W"], out);
    let altitude = i64::from(u32::from_be_bytes([i, j, k, l])) - GROUND_CM;
    if altitude < 0 {
        out.push('-');
    }
    push_metres(altitude.unsigned_abs(), out);
    for size in [size, horizontal, vertical] {
        out.push(' ');
        push_size(u64::from(size >> 4) * 10u64.pow((size & 15).into()), out);
    }
}

fn push_angle(raw: u32, [above, below]: [&str; 2], out: &mut String) {
    let angle = raw.abs_diff(EQUATOR);
    let seconds = angle % 60_000;
    let text = format!("{} {} {}.{:03} ", angle / DEGREE, angle / 60_000 % 60, seconds / 1000, seconds % 1000);
    out.push_str(&text);
    out.push_str(if raw < EQUATOR { below } else { above });
    out.push(' ');
}

fn push_metres(cm: u64, out: &mut String) {
    out.push_str(&format!("{}.{:02}m", cm / 100, cm % 100));
}

/// From one metre up a size has no centimetres, having one digit; BIND and others leave them out.
fn push_size(cm: u64, out: &mut String) {
    if cm < 100 {
        return push_metres(cm, out);
    }
    number::push(cm / 100, out);
    out.push('m');
}

pub(crate) fn read(tokens: &mut Tokens<'_, '_>, out: &mut Vec<u8>) -> Result<(), Flaw> {
    let latitude = angle(tokens, "latitude", 90, [b'N', b'S'])?;
    let longitude = angle(tokens, "longitude", 180, [b'E', b'W'])?;
    let altitude = altitude(&tokens.want("altitude")?)?;
    out.push(0);
    // RFC 1876 section 3: one metre, ten kilometres, ten metres unless stated.
    for (what, unstated) in [("size", 0x12), ("horizontal precision", 0x16), ("vertical precision", 0x13)] {
        out.push(tokens.next().map_or(Ok(unstated), |token| size(&token, what))?);
    }
    for word in [latitude, longitude, altitude] {
        out.extend(word.to_be_bytes());
    }
    Ok(())
}

fn angle(tokens: &mut Tokens<'_, '_>, what: &str, degrees_max: u32, [above, below]: [u8; 2]) -> Result<u32, Flaw> {
    let first = tokens.want(what)?;
    let mut angle = number::decimal(&first, what, degrees_max.into())? as u32 * DEGREE;
    for unit in [60_000, 1000] {
        let token = tokens.want("hemisphere")?;
        if let Some(sign) = hemisphere(&token, above, below) {
            return place(angle, sign, degrees_max, &first);
        }
        angle += if unit == 1000 { seconds(&token)? } else { number::decimal(&token, "minutes", 59)? as u32 * unit };
    }
    let token = tokens.want("hemisphere")?;
    match hemisphere(&token, above, below) {
        Some(sign) => place(angle, sign, degrees_max, &first),
        None => {
            let advice = format!("{} or {}", above as char, below as char);
            Err(Flaw::new(token.at, "the hemisphere is missing").instead(advice))
        }
    }
}

fn hemisphere(token: &Token<'_>, above: u8, below: u8) -> Option<bool> {
    match token.text {
        [c] if c.eq_ignore_ascii_case(&above) => Some(true),
        [c] if c.eq_ignore_ascii_case(&below) => Some(false),
        _ => None,
    }
}

fn place(angle: u32, above: bool, degrees_max: u32, token: &Token<'_>) -> Result<u32, Flaw> {
    if angle > degrees_max * DEGREE {
        return Err(Flaw::new(token.at, format!("an angle of more than {degrees_max} degrees")));
    }
    Ok(if above { EQUATOR + angle } else { EQUATOR - angle })
}

fn seconds(token: &Token<'_>) -> Result<u32, Flaw> {
    let flaw = || Flaw::new(token.at, "the seconds are not a number below 60").instead("such as 59.999");
    let n = fraction(token.text, 3).ok_or_else(flaw)?;
    if n < 60_000 { Ok(n as u32) } else { Err(flaw()) }
}

/// A number with at most `decimals` decimals, as that many times ten of it.
fn fraction(text: &[u8], decimals: usize) -> Option<u64> {
    let dot = text.iter().position(|&c| c == b'.').unwrap_or(text.len());
    let (whole, part) = text.split_at(dot);
    let part = part.get(1..).unwrap_or(&[]);
    if part.len() > decimals || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { number::digits(whole)? };
    let scaled = if part.is_empty() { 0 } else { number::digits(part)? * 10u64.pow((decimals - part.len()) as u32) };
    whole.checked_mul(10u64.pow(decimals as u32))?.checked_add(scaled)
}

fn metres(text: &[u8]) -> Option<u64> {
    fraction(text.strip_suffix(b"m").or_else(|| text.strip_suffix(b"M")).unwrap_or(text), 2)
}

fn altitude(token: &Token<'_>) -> Result<u32, Flaw> {
    let (sign, text) = match token.text.strip_prefix(b"-") {
        Some(text) => (-1, text),
        None => (1, token.text),
    };
    let cm = metres(text).and_then(|cm| i64::try_from(cm).ok());
    let above_ground = cm.and_then(|cm| u32::try_from((sign * cm).checked_add(GROUND_CM)?).ok());
    let advice = "metres from -100000m to 42849672.95m";
    above_ground.ok_or_else(|| Flaw::new(token.at, "the altitude is not a length in range").instead(advice))
}

fn size(token: &Token<'_>, what: &str) -> Result<u8, Flaw> {
    let flaw = |why: &str| Flaw::new(token.at, format!("the {what} {why}")).instead(METRE_ADVICE);
    let mut cm = metres(token.text).ok_or_else(|| flaw("is not a length"))?;
    let mut power = 0;
    while cm >= 10 {
        cm /= 10;
        power += 1;
    }
    if power > 9 { Err(flaw("is more than 90000000m")) } else { Ok((cm as u8) << 4 | power) }
}
