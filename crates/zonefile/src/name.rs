//! Names in text to wire form, straight to where they are wanted, and suspicions about them.
//!
//! The plain case (no escapes, lengths within bounds) is a copy in which dots become length octets; it takes a quarter of the
//! instructions of `wire::Name::from_text`, which decides everything else, so that the rules stand in one place.

use crate::problem::Flaw;
use crate::scan::{Shape, Token};
use wire::Name;
use wire::name::{LABEL_MAX, NAME_MAX};

/// Appends the name; relative ones are completed with `origin`.
pub(crate) fn read(token: &Token<'_>, origin: &Name, out: &mut Vec<u8>) -> Result<(), Flaw> {
    let from = out.len();
    unquoted(token)?;
    if copy(token.text, origin.bytes(), out).is_some() {
        return Ok(());
    }
    out.truncate(from);
    let name = Name::from_text(token.text, Some(origin)).map_err(|e| advised(token, e))?;
    out.extend_from_slice(name.bytes());
    Ok(())
}

/// None where the name is not plain; what was appended by then is rubbish.
fn copy(text: &[u8], origin: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if text.len() >= NAME_MAX || matches!(text, b"" | b"." | b"@") {
        return None;
    }
    let from = out.len();
    // The text one octet further on: each dot then stands where the length of the label behind it goes.
    out.push(0);
    out.extend_from_slice(text);
    // Eight octets are looked at together, the last ones with zeros behind them.
    out.extend([0; 8]);
    let name = out.get_mut(from..)?;
    let mut label = 0;
    for at in (0..text.len()).step_by(8) {
        let eight = u64::from_le_bytes(*name.get(at + 1..)?.first_chunk()?);
        if equal(eight, b'\\') != 0 {
            return None;
        }
        let mut dots = equal(eight, b'.');
        while dots != 0 {
            let dot = at + dots.trailing_zeros() as usize / 8;
            *name.get_mut(label)? = length(dot - label)?;
            label = dot + 1;
            dots &= dots - 1;
        }
    }
    out.truncate(from + 1 + text.len());
    let name = out.get_mut(from..)?;
    if label == text.len() {
        *name.get_mut(label)? = 0;
    } else {
        *name.get_mut(label)? = length(text.len() - label)?;
        out.extend_from_slice(origin);
    }
    (out.len() - from <= NAME_MAX).then_some(())
}

/// The highest bit of each octet that is `c`.
#[inline(always)]
fn equal(eight: u64, c: u8) -> u64 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let differing = eight ^ u64::from_ne_bytes([c; 8]);
    // Adding carries into the highest bit unless the seven below it are zero, and never into the next octet.
    !(((differing & LOW) + LOW) | differing | LOW)
}

fn length(n: usize) -> Option<u8> {
    if n == 0 || n > LABEL_MAX { None } else { Some(n as u8) }
}

/// Quotes are for strings (RFC 1035 section 5.1); no server takes them around anything else.
pub(crate) fn unquoted(token: &Token<'_>) -> Result<(), Flaw> {
    match token.shape {
        Shape::Plain => Ok(()),
        _ => Err(Flaw::new(token.at, "quotes around what is no string").instead("the same without quotes")),
    }
}

pub(crate) fn whole(token: &Token<'_>, origin: &Name) -> Result<Name, Flaw> {
    unquoted(token)?;
    Name::from_text(token.text, Some(origin)).map_err(|e| advised(token, e))
}

fn advised(token: &Token<'_>, e: wire::name::NameError) -> Flaw {
    let flaw = Flaw::new(token.at + e.at, e.why);
    if e.why.starts_with("an escape") {
        return flaw.instead("\\\\ for a backslash, \\. for a dot within a label");
    }
    if e.why.starts_with("an empty label") {
        return flaw.instead("one dot between labels, none at the beginning; @ for the origin");
    }
    let completed = e.why.starts_with("a name of more") && token.text.last() != Some(&b'.');
    if completed { flaw.instead("a dot at the end, if the name is absolute") } else { flaw }
}

/// A relative name that already ends with the origin: the dot at its end was forgotten. Only told where the origin has two
/// labels or more, because com.com. is a name that people own.
#[inline]
pub(crate) fn doubled_origin(token: &Token<'_>, name: &[u8], origin: &Name) -> Option<Flaw> {
    // Nearly all end here: with another letter than the origin.
    let [.., last, 0] = origin.bytes() else { return None };
    if token.text.last()?.eq_ignore_ascii_case(last) { doubled(token, name, origin) } else { None }
}

fn doubled(token: &Token<'_>, name: &[u8], origin: &Name) -> Option<Flaw> {
    let origin = origin.bytes();
    let labels = origin.get(..origin.len() - 1)?;
    let written = name.get(..name.len().checked_sub(origin.len())?)?;
    let tail = written.get(written.len().checked_sub(labels.len())?..)?;
    if labels.is_empty() || !tail.eq_ignore_ascii_case(labels) || matches!(token.text, [.., b'.'] | b"@") {
        return None;
    }
    let ends_on_a_label = wire::name::is_at_or_below(name, &[labels, origin].concat());
    if wire::name::label_count(origin) < 2 || !ends_on_a_label {
        return None;
    }
    let absolute = format!("{}.", String::from_utf8_lossy(token.text));
    Some(
        Flaw::new(token.at, "a relative name that ends with the origin, which is put behind it once more")
            .instead(absolute),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_and_the_long_agree() {
        let origin = Name::from_text(b"Example.com.", None).unwrap();
        let (label, long) = ("a".repeat(63), "a".repeat(64));
        let three = format!("{label}.{label}.{label}");
        let table = [
            "",
            ".",
            "@",
            "a",
            "a.",
            "a.b",
            "a.B.",
            "a..b",
            ".a",
            "..",
            "a..",
            "a\\.b",
            "a\\",
            "\\@",
            "a@b",
            "@.",
            &label,
            &long,
            &format!("{label}."),
            &format!("{long}."),
            &format!("a.{long}"),
            &three,
            &format!("{three}."),
            &format!("{three}.{}", &label[..49]),
            &format!("{three}.{}", &label[..50]),
            &format!("{three}.{}.", &label[..61]),
            &format!("{three}.{}.", &label[..62]),
            &"a.".repeat(127),
            &"a.".repeat(128),
            &"a".repeat(1000),
        ];
        for text in table {
            let token = Token { text: text.as_bytes(), at: 0, shape: Shape::Plain };
            let mut out = b"before".to_vec();
            let outcome = read(&token, &origin, &mut out);
            let want = Name::from_text(text.as_bytes(), Some(&origin));
            assert_eq!(outcome.is_ok(), want.is_ok(), "{text}");
            assert_eq!(out.strip_prefix(b"before"), Some(want.as_ref().map_or(&[][..], |n| n.bytes())), "{text}");
        }
    }
}
