//! Rdata, wire to text and text to wire, by the table in `rtypes`. Rdata is uncompressed throughout.

mod bitmap;
mod digest;
mod hip;
mod loc;
mod mnemonics;
mod params;
mod parts;
mod ports;
mod prefixes;
mod read;
mod write;

use crate::problem::Flaw;
use crate::rtypes;
use crate::scan::{self, Tokens};
use wire::Name;

pub use read::from_text;

use crate::rtypes::Kind;
use parts::Parts;
use write::Digits;

/// Appends the text of rdata. Types without a form of their own, and rdata that does not fit its type, take that of RFC 3597.
pub fn to_text(rtype: u16, rdata: &[u8], out: &mut String) {
    to_text_with(Digits::Upper, rtype, rdata, out);
}

/// The same with hashes and digests in lower case, as canonical dumps have them.
pub fn to_lower_text(rtype: u16, rdata: &[u8], out: &mut String) {
    to_text_with(Digits::Lower, rtype, rdata, out);
}

fn to_text_with(digits: Digits, rtype: u16, rdata: &[u8], out: &mut String) {
    let before = out.len();
    if !write::known(digits, rtype, rdata, out) {
        out.truncate(before);
        write::generic(digits, rdata, out);
    }
}

/// Rdata from a text that stands alone, such as a configured record.
///
/// ```
/// use wire::{Name, rtype};
/// let rdata = zonefile::rdata::from_str(rtype::MX, "10 mail", &Name::from_text(b"example.", None).unwrap()).unwrap();
/// assert_eq!(rdata, b"\0\x0a\x04mail\x07example\0");
/// ```
pub fn from_str(rtype: u16, text: &str, origin: &Name) -> Result<Vec<u8>, Flaw> {
    let list = scan::tokens(text.as_bytes())?;
    let mut out = Vec::new();
    from_text(rtype, &mut Tokens::new(&list, text.len()), origin, &mut out)?;
    Ok(out)
}

/// Whether rdata fits its type; that of unknown types always does.
pub fn is_well_formed(rtype: u16, rdata: &[u8]) -> bool {
    let mut parts = Parts::new(rtype, rdata);
    parts.by_ref().for_each(drop);
    parts.is_whole() && digest::fits(rtype, rdata)
}

/// Offset and length of each domain name in rdata. Stops where rdata is malformed.
pub fn names(rtype: u16, rdata: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
    Parts::new(rtype, rdata).filter(|part| part.is_name()).map(|part| (part.at, part.octets.len()))
}

/// Lower-cases the names in rdata of the types of RFC 4034 section 6.2, less NSEC (RFC 6840 section 5.1).
pub fn canonicalise(rtype: u16, rdata: &mut [u8]) {
    if !has_folded_names(rtype) {
        return;
    }
    // At most two names; a list of their places would cost more than to look again.
    for n in 0.. {
        let Some((at, len)) = names(rtype, rdata).nth(n) else { return };
        if let Some(name) = rdata.get_mut(at..at + len) {
            wire::name::fold(name);
        }
    }
}

fn has_folded_names(rtype: u16) -> bool {
    use wire::rtype::*;
    const A6: u16 = 38;
    let folded = [RP, AFSDB, RT, SIG, PX, NXT, NAPTR, KX, SRV, DNAME, A6, RRSIG];
    is_compressible(rtype) || folded.contains(&rtype)
}

/// For messages: the fields that a type wants.
fn synopsis(rtype: u16) -> String {
    let names = rtypes::fields(rtype).unwrap_or(&[]).iter().map(|(name, _)| format!(" <{name}>"));
    names.fold(rtypes::mnemonic(rtype), |text, name| text + &name)
}

#[cfg(test)]
mod tests;
