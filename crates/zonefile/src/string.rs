//! Character strings: escapes undone on the way in (RFC 1035 section 5.1), put on the way out.

use crate::problem::Flaw;
use crate::scan::Token;

/// Appends the token's octets, escapes undone.
pub(crate) fn unescape(token: &Token<'_>, out: &mut Vec<u8>) -> Result<(), Flaw> {
    let mut rest = token.text;
    while let Some(slash) = rest.iter().position(|&c| c == b'\\') {
        let (before, after) = rest.split_at(slash);
        out.extend_from_slice(before);
        let escaped = after.get(1..).unwrap_or(&[]);
        let Some((octet, used)) = wire::name::unescape(escaped) else {
            let at = token.at + (token.text.len() - after.len());
            return Err(Flaw::new(at, "an escape that is neither \\DDD (000 to 255) nor \\X")
                .instead("\\\\ for a backslash, \\DDD with three decimal digits for any other octet"));
        };
        out.push(octet);
        rest = escaped.get(used..).unwrap_or(&[]);
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Appends the octets between quotes.
pub(crate) fn push_quoted(octets: &[u8], out: &mut String) {
    out.push('"');
    octets.iter().for_each(|&c| push_octet(c, out));
    out.push('"');
}

pub(crate) fn push_octet(c: u8, out: &mut String) {
    match c {
        b'"' | b'\\' => {
            out.push('\\');
            out.push(c as char);
        }
        0x20..=0x7e => out.push(c as char),
        _ => {
            out.push('\\');
            [c / 100, c / 10 % 10, c % 10].iter().for_each(|d| out.push((b'0' + d) as char));
        }
    }
}
