//! Text to the question of a query: `www.example.com AAAA` to name, type and class in wire form.
//!
//! It runs for each query that is sent, straight from the text of the file: a file of ten million names need not be
//! read before the start. Never allocates where the text is good.

use crate::shape::QUESTION_MAX;
use wire::Name;
use zonefile::rtypes;

const IN: [u8; 2] = [0, 1];

/// Why a line is no query, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Offset in the line.
    pub at: usize,
    pub why: &'static str,
}

/// Writes the question of a line; Ok(0) for one that holds none (blank, or a remark).
#[inline]
pub fn from_line(line: &[u8], out: &mut [u8; QUESTION_MAX]) -> Result<usize, BadLine> {
    let start = line.iter().position(|c| !is_blank(*c)).unwrap_or(line.len());
    let Some(&first) = line.get(start) else { return Ok(0) };
    if matches!(first, b'#' | b';') {
        return Ok(0);
    }
    let rest = &line[start..];
    let name_len = rest.iter().position(|c| is_blank(*c)).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(name_len);
    let type_start = rest.iter().position(|c| !is_blank(*c)).unwrap_or(rest.len());
    let rest = &rest[type_start..];
    let type_len = rest.iter().position(|c| is_blank(*c)).unwrap_or(rest.len());
    let type_at = start + name_len + type_start;
    if type_len == 0 {
        return Err(BadLine { at: type_at, why: "a type is missing: write `name type`" });
    }
    let Some(rtype) = type_of(&rest[..type_len]) else {
        return Err(BadLine { at: type_at, why: "no such type: write a mnemonic such as AAAA, or TYPE28" });
    };
    write(name, rtype, out).map_err(|bad| BadLine { at: start + bad.at, ..bad })
}

#[inline]
fn is_blank(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\r')
}

#[inline]
pub fn type_of(text: &[u8]) -> Option<u16> {
    match text {
        b"A" => Some(1),
        b"AAAA" => Some(28),
        _ => rtypes::from_mnemonic(text),
    }
}

/// Writes name, type and class IN, and says how many octets they took. A name need not end with a dot.
#[inline]
pub fn write(name: &[u8], rtype: u16, out: &mut [u8; QUESTION_MAX]) -> Result<usize, BadLine> {
    let end = match plain_name(name, out) {
        Some(end) => end,
        None => {
            let name = Name::from_text(name, Some(&Name::ROOT)).map_err(|e| BadLine { at: e.at, why: e.why })?;
            let octets = name.bytes();
            out[..octets.len()].copy_from_slice(octets);
            octets.len()
        }
    };
    out[end..end + 2].copy_from_slice(&rtype.to_be_bytes());
    out[end + 2..end + 4].copy_from_slice(&IN);
    Ok(end + 4)
}

/// The quick way for a name without escapes; None sends all others the slow way, which also says what is wrong.
#[inline]
fn plain_name(name: &[u8], out: &mut [u8; QUESTION_MAX]) -> Option<usize> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() || name.len() > wire::name::NAME_MAX - 2 {
        return None;
    }
    out[1..=name.len()].copy_from_slice(name);
    let mut label = 0;
    for (i, &c) in name.iter().enumerate() {
        if c == b'.' {
            let len = i - label;
            if len == 0 || len > wire::name::LABEL_MAX {
                return None;
            }
            out[label] = len as u8;
            label = i + 1;
        } else if matches!(c, b'\\' | b'@') {
            return None;
        }
    }
    let len = name.len() - label;
    if len == 0 || len > wire::name::LABEL_MAX {
        return None;
    }
    out[label] = len as u8;
    out[name.len() + 1] = 0;
    Some(name.len() + 2)
}

/// A hash to tell a question from another when it comes back; quick, and no defence against anybody.
#[inline]
pub fn hash(question: &[u8]) -> u32 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = question.len() as u64;
    let mut chunks = question.chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.try_into().map_or(0, u64::from_le_bytes);
        sum = (sum ^ word).wrapping_mul(K).rotate_left(29);
    }
    for &c in chunks.remainder() {
        sum = (sum ^ u64::from(c)).wrapping_mul(K).rotate_left(29);
    }
    (sum ^ (sum >> 32)) as u32
}

/// `www.example.com. AAAA`, of a question in wire form.
pub fn text(question: &[u8]) -> String {
    let Some(name) = Name::from_wire(question) else { return "?".to_string() };
    let rest = &question[name.bytes().len()..];
    let rtype = rest.get(..2).map_or(0, |t| u16::from_be_bytes([t[0], t[1]]));
    format!("{name} {}", rtypes::mnemonic(rtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<String>, BadLine> {
        let mut out = [0; QUESTION_MAX];
        from_line(line.as_bytes(), &mut out).map(|n| if n == 0 { None } else { Some(text(&out[..n])) })
    }

    #[test]
    fn lines_become_questions() {
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        for (line, expect) in [
            ("www.example.com A", "www.example.com. A"),
            ("  www.example.com.\taaaa \r", "www.example.com. AAAA"),
            (". NS", ". NS"),
            ("a\\.b.c TYPE65534", "a\\.b.c. TYPE65534"),
            ("*.Example CAA more words", "*.Example. CAA"),
            (&format!("{longest} MX"), &format!("{longest}. MX")),
        ] {
            assert_eq!(read(line), Ok(Some(expect.to_string())), "{line}");
        }
        for line in ["", "   ", "# x", "; x", "\r"] {
            assert_eq!(read(line), Ok(None), "{line}");
        }
    }

    #[test]
    fn bad_lines_say_where() {
        let long = format!("{}.x A", "a".repeat(64));
        for (line, at) in [("name", 4), ("name ", 5), ("name XYZ", 5), ("a..b A", 2), (" a..b A", 3), (&long, 63)] {
            assert_eq!(read(line).map_err(|e| e.at), Err(at), "{line}");
        }
    }

    #[test]
    fn the_quick_way_agrees_with_the_slow() {
        let long = "x".repeat(254);
        for name in ["a", "a.", "a.b.c", "a..b", ".a", "..", &long, "a\\046b", "@", "a@b", "abc.def."] {
            let mut quick = [0; QUESTION_MAX];
            let slow = Name::from_text(name.as_bytes(), Some(&Name::ROOT));
            match (plain_name(name.as_bytes(), &mut quick), slow) {
                (Some(n), Ok(slow)) => assert_eq!(&quick[..n], slow.bytes(), "{name}"),
                (Some(_), Err(_)) => panic!("{name}"),
                (None, _) => {}
            }
        }
    }

    #[test]
    fn questions_that_differ_in_one_octet_differ_in_hash() {
        let one = b"\x03www\x07example\x03com\x00\x00\x01\x00\x01";
        for i in 0..one.len() {
            let mut other = *one;
            other[i] ^= 0x20;
            assert_ne!(hash(one), hash(&other), "{i}");
        }
    }
}
