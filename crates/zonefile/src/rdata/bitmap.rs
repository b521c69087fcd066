//! Sets of types: the windows of NSEC (RFC 4034 section 4.1.2) and the plain bitmap of NXT (RFC 2535 section 5.2).

use crate::name;
use crate::problem::Flaw;
use crate::rtypes;
use crate::scan::{Token, Tokens};

pub(crate) fn is_well_formed(mut rest: &[u8]) -> bool {
    let mut above = 0u16;
    while !rest.is_empty() {
        let [window, len @ 1..=32, after @ ..] = rest else { return false };
        let Some((bits, after)) = after.split_at_checked(*len as usize) else { return false };
        if u16::from(*window) < above || bits.last() == Some(&0) {
            return false;
        }
        above = u16::from(*window) + 1;
        rest = after;
    }
    true
}

/// Bit 0 would mean another format, which nobody ever defined (RFC 2535 section 5.2).
pub(crate) fn is_short_well_formed(bits: &[u8]) -> bool {
    bits.len() <= 16 && bits.last() != Some(&0) && bits.first().is_none_or(|first| first & 0x80 == 0)
}

/// Appends the mnemonics, one space before each but the first; of a well-formed bitmap.
pub(crate) fn push(mut rest: &[u8], out: &mut String) {
    let mut lead = "";
    while let [window, len, after @ ..] = rest {
        let (bits, after) = after.split_at_checked(*len as usize).unwrap_or((after, &[]));
        push_bits(u16::from(*window) << 8, bits, &mut lead, out);
        rest = after;
    }
}

pub(crate) fn push_short(bits: &[u8], out: &mut String) {
    push_bits(0, bits, &mut "", out);
}

fn push_bits(base: u16, bits: &[u8], lead: &mut &str, out: &mut String) {
    for (i, &octet) in bits.iter().enumerate() {
        for bit in (0..8).filter(|bit| octet & (0x80 >> bit) != 0) {
            out.push_str(lead);
            *lead = " ";
            rtypes::push_mnemonic(base + (i * 8 + bit) as u16, out);
        }
    }
}

pub(crate) fn rtype(token: &Token<'_>) -> Result<u16, Flaw> {
    name::unquoted(token)?;
    let unknown = || {
        let what = format!("{} is no type", token.text.escape_ascii());
        Flaw::new(token.at, what).instead("a mnemonic such as AAAA, or TYPE and a number from 0 to 65535")
    };
    rtypes::from_mnemonic(token.text).ok_or_else(unknown)
}

/// Reads all tokens that are left. Bits are set in place while types come in rising windows, which is how everyone writes
/// them; a window out of order is put where it belongs.
pub(crate) fn read(tokens: &mut Tokens<'_, '_>, out: &mut Vec<u8>) -> Result<(), Flaw> {
    let from = out.len();
    for token in tokens {
        let rtype = rtype(&token)?;
        let [window, low] = rtype.to_be_bytes();
        let at = place(out, from, window);
        set(out, at, low);
    }
    Ok(())
}

/// The offset of the window, which is put in if need be.
fn place(out: &mut Vec<u8>, from: usize, window: u8) -> usize {
    let mut at = from;
    while let Some(&[number, len]) = out.get(at..at + 2) {
        if number == window {
            return at;
        }
        if number > window {
            break;
        }
        at += 2 + len as usize;
    }
    out.splice(at..at, [window, 0]);
    at
}

fn set(out: &mut Vec<u8>, at: usize, low: u8) {
    let octet = low as usize / 8;
    let len = out.get(at + 1).copied().unwrap_or(0) as usize;
    if octet >= len {
        let end = at + 2 + len;
        out.splice(end..end, std::iter::repeat_n(0, octet + 1 - len));
        out[at + 1] = octet as u8 + 1;
    }
    out[at + 2 + octet] |= 0x80 >> (low % 8);
}

pub(crate) fn read_short(tokens: &mut Tokens<'_, '_>, out: &mut Vec<u8>) -> Result<(), Flaw> {
    let from = out.len();
    for token in tokens {
        let rtype = rtype(&token)?;
        if !(1..=127).contains(&rtype) {
            return Err(Flaw::new(token.at, "NXT has room for types 1 to 127 only").instead("NSEC (RFC 4034)"));
        }
        let octet = from + rtype as usize / 8;
        if out.len() <= octet {
            out.resize(octet + 1, 0);
        }
        out[octet] |= 0x80 >> (rtype % 8);
    }
    Ok(())
}
