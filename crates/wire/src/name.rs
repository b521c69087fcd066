//! Domain names: uncompressed wire form in a fixed buffer, with text in and out.
//!
//! The case is kept as it came; `fold` gives the lower-case form that lookups and hashes use (RFC 4343).
//! Invariant: `bytes()` is always a well-formed name of 1 to 255 octets that ends with the root label.

use std::cmp::Ordering;
use std::fmt;

/// The longest name, RFC 1035 section 2.3.4.
pub const NAME_MAX: usize = 255;
pub const LABEL_MAX: usize = 63;

#[derive(Clone, Copy)]
pub struct Name {
    len: u8,
    octets: [u8; NAME_MAX],
}

/// Why a text is no name. `at` is the offset of the offending character in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameError {
    pub at: usize,
    pub why: &'static str,
}

impl Name {
    pub const ROOT: Name = Name { len: 1, octets: [0; NAME_MAX] };

    /// A name from wire form that begins `bytes`; what follows it is ignored. Compression is not accepted.
    pub fn from_wire(bytes: &[u8]) -> Option<Name> {
        let len = wire_len(bytes)?;
        let mut octets = [0; NAME_MAX];
        octets[..len].copy_from_slice(&bytes[..len]);
        Some(Name { len: len as u8, octets })
    }

    /// The name that the first `len` octets are. Whoever put them there has looked at the length of each label.
    pub(crate) fn of_labels(octets: [u8; NAME_MAX], len: usize) -> Name {
        debug_assert_eq!(wire_len(&octets), Some(len));
        Name { len: len as u8, octets }
    }

    /// A name from presentation form. Relative names are completed with `origin`.
    ///
    /// ```
    /// use wire::Name;
    /// let origin = Name::from_text(b"example.", None).unwrap();
    /// assert_eq!(Name::from_text(b"www", Some(&origin)).unwrap().to_string(), "www.example.");
    /// assert_eq!(Name::from_text(b"a\\.b.", None).unwrap().to_string(), "a\\.b.");
    /// ```
    pub fn from_text(text: &[u8], origin: Option<&Name>) -> Result<Name, NameError> {
        let bad = |at, why| Err(NameError { at, why });
        if text == b"." {
            return Ok(Name::ROOT);
        }
        if text == b"@" {
            return origin.copied().ok_or(NameError { at: 0, why: "there is no origin for '@'" });
        }
        if text.is_empty() {
            return bad(0, "a name is missing");
        }
        let mut octets = [0; NAME_MAX];
        let (mut label, mut end, mut i) = (0, 1, 0);
        loop {
            if i == text.len() {
                break; // relative
            }
            let at = i;
            let c = text[i];
            i += 1;
            if c == b'.' {
                let n = end - label - 1;
                if n == 0 {
                    return bad(at, "an empty label");
                }
                octets[label] = n as u8;
                label = end;
                end += 1;
                if end > NAME_MAX {
                    return bad(at, "a name of more than 255 octets");
                }
                if i == text.len() {
                    octets[label] = 0;
                    return Ok(Name { len: end as u8, octets });
                }
                continue;
            }
            let octet = if c == b'\\' {
                match unescape(&text[i..]) {
                    Some((octet, used)) => {
                        i += used;
                        octet
                    }
                    None => return bad(at, "an escape that is neither \\DDD (000 to 255) nor \\X"),
                }
            } else {
                c
            };
            if end - label > LABEL_MAX {
                return bad(at, "a label of more than 63 octets");
            }
            if end >= NAME_MAX - 1 {
                return bad(at, "a name of more than 255 octets");
            }
            octets[end] = octet;
            end += 1;
        }
        octets[label] = (end - label - 1) as u8;
        let Some(origin) = origin else { return bad(text.len(), "a relative name, and no origin to complete it") };
        let tail = origin.bytes();
        if end + tail.len() > NAME_MAX {
            return bad(0, "a name of more than 255 octets, completed with the origin");
        }
        octets[end..end + tail.len()].copy_from_slice(tail);
        Ok(Name { len: (end + tail.len()) as u8, octets })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.octets[..self.len as usize]
    }

    pub fn is_root(&self) -> bool {
        self.len == 1
    }

    /// The same name in lower case.
    pub fn fold(&self) -> Name {
        let mut n = *self;
        fold(&mut n.octets[..self.len as usize]);
        n
    }

    /// Draws the case of each letter anew, by coins of which each draw has 64.
    pub fn recase(&mut self, coins: impl FnMut() -> u64) {
        recase(&mut self.octets[..self.len as usize], coins);
    }

    pub fn labels(&self) -> Labels<'_> {
        labels(self.bytes())
    }

    /// The name without its first label; the root has none.
    pub fn parent(&self) -> Option<Name> {
        let first = self.octets[0] as usize;
        if first == 0 { None } else { Name::from_wire(&self.bytes()[first + 1..]) }
    }

    /// True for the name itself and whatever lies below it. Compares without regard to case.
    pub fn is_at_or_below(&self, ancestor: &Name) -> bool {
        is_at_or_below(self.bytes(), ancestor.bytes())
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.bytes().eq_ignore_ascii_case(other.bytes())
    }
}
impl Eq for Name {}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        canonical_cmp(self.bytes(), other.bytes())
    }
}
impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(self.len as usize + 8);
        push_text(self.bytes(), &mut text);
        f.write_str(&text)
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Length in octets of the uncompressed name that begins `bytes`; None if it is malformed or cut off.
pub fn wire_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let n = *bytes.get(at)? as usize;
        if n > LABEL_MAX {
            return None;
        }
        at += n + 1;
        if at > NAME_MAX {
            return None;
        }
        if n == 0 {
            return if at <= bytes.len() { Some(at) } else { None };
        }
    }
}

/// Lower-cases ASCII letters. Length octets (0 to 63) lie below the letters, so a whole name may be folded blindly.
pub fn fold(octets: &mut [u8]) {
    octets.make_ascii_lowercase();
}

/// Eight octets, all of them this one.
const fn eight(octet: u8) -> u64 {
    u64::from_ne_bytes([octet; 8])
}

/// Turns the case of letters for which a coin says so. Length octets lie below the letters, as in `fold`. Of 64 coins eight
/// octets take every eighth, the next eight those beside them.
fn recase(octets: &mut [u8], mut coins: impl FnMut() -> u64) {
    for run in octets.chunks_mut(64) {
        let mut drawn = coins();
        let (words, rest) = run.as_chunks_mut::<8>();
        for word in words {
            *word = turned(u64::from_le_bytes(*word), drawn).to_le_bytes();
            drawn >>= 1;
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = turned(u64::from_le_bytes(last), drawn).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// Eight octets at once. The bit of 32 makes lower case; what is added to an octet then takes it past 127 if it is `a` or
/// above, or above `z`, and never past 255.
fn turned(word: u64, coins: u64) -> u64 {
    let low = (word | eight(0x20)) & eight(0x7F);
    let (from_a, above_z) = (low + eight(0x80 - b'a'), low + eight(0x7F - b'z'));
    let letters = from_a & !above_z & !word & eight(0x80);
    word ^ (letters >> 2 & (coins & eight(1)) << 5)
}

/// How many labels a well-formed name has, the root label not counted.
pub fn label_count(name: &[u8]) -> usize {
    labels(name).count()
}

pub struct Labels<'a>(&'a [u8]);

/// The labels of a well-formed name, leftmost first, without the root label.
pub fn labels(name: &[u8]) -> Labels<'_> {
    Labels(name)
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        let n = *self.0.first()? as usize;
        if n == 0 {
            return None;
        }
        let label = self.0.get(1..1 + n)?;
        self.0 = &self.0[1 + n..];
        Some(label)
    }
}

pub fn is_at_or_below(name: &[u8], ancestor: &[u8]) -> bool {
    let mut rest = name;
    while rest.len() > ancestor.len() {
        rest = &rest[rest[0] as usize + 1..];
    }
    rest.eq_ignore_ascii_case(ancestor)
}

/// The order of RFC 4034 section 6.1: label by label from the root, as lower-case octet strings. Both are names, or both labels below the same name.
pub fn canonical_cmp(a: &[u8], b: &[u8]) -> Ordering {
    let (mut at_a, mut at_b) = ([0u8; 128], [0u8; 128]);
    let (na, nb) = (offsets(a, &mut at_a), offsets(b, &mut at_b));
    for (&i, &j) in at_a[..na].iter().rev().zip(at_b[..nb].iter().rev()) {
        let (one, two) = (label_at(a, i), label_at(b, j));
        // Mostly they are written alike.
        if one == two {
            continue;
        }
        let order = one.iter().map(u8::to_ascii_lowercase).cmp(two.iter().map(u8::to_ascii_lowercase));
        if order != Ordering::Equal {
            return order;
        }
    }
    na.cmp(&nb)
}

fn offsets(name: &[u8], at: &mut [u8; 128]) -> usize {
    let (mut n, mut p) = (0, 0);
    while p < name.len() && name[p] != 0 {
        at[n] = p as u8;
        n += 1;
        p += name[p] as usize + 1;
    }
    n
}

fn label_at(name: &[u8], at: u8) -> &[u8] {
    let at = at as usize;
    &name[at + 1..at + 1 + name[at] as usize]
}

/// Appends the presentation form, absolute, with the escapes of RFC 1035 section 5.1.
pub fn push_text(name: &[u8], out: &mut String) {
    if name == [0] {
        out.push('.');
        return;
    }
    for label in labels(name) {
        for &c in label {
            match c {
                b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
                    out.push('\\');
                    out.push(c as char);
                }
                0x21..=0x7e => out.push(c as char),
                _ => {
                    out.push('\\');
                    for d in [c / 100, c / 10 % 10, c % 10] {
                        out.push((b'0' + d) as char);
                    }
                }
            }
        }
        out.push('.');
    }
}

/// What stands behind a backslash: the octet, and how many characters it took.
pub fn unescape(text: &[u8]) -> Option<(u8, usize)> {
    let &c = text.first()?;
    if !c.is_ascii_digit() {
        return Some((c, 1));
    }
    let digits = text.get(..3)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n = digits.iter().fold(0u32, |n, d| n * 10 + u32::from(d - b'0'));
    u8::try_from(n).ok().map(|n| (n, 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(t: &str) -> Name {
        Name::from_text(t.as_bytes(), None).unwrap()
    }

    #[test]
    fn text_there_and_back() {
        for t in [".", "a.", "www.example.com.", "a\\.b.c.", "\\000\\255.x.", "*.x.", "\\@.x."] {
            assert_eq!(name(t).to_string(), t);
        }
    }

    #[test]
    fn what_is_no_name() {
        let long_label = "a".repeat(64) + ".";
        let long_name = "abcdefg.".repeat(32);
        for t in ["", "a..b.", ".a.", "a\\25.", "a\\256.", "a\\", &long_label, &long_name, "a"] {
            assert!(Name::from_text(t.as_bytes(), None).is_err(), "{t}");
        }
    }

    #[test]
    fn the_longest_label_and_name_are_accepted() {
        let label = "a".repeat(63);
        assert_eq!(name(&format!("{label}.")).bytes().len(), 65);
        let longest = format!("{label}.{label}.{label}.{}.", "a".repeat(61));
        assert_eq!(name(&longest).bytes().len(), 255);
        let over = format!("{label}.{label}.{label}.{}.", "a".repeat(62));
        assert!(Name::from_text(over.as_bytes(), None).is_err());
    }

    #[test]
    fn canonical_order_is_that_of_rfc_4034() {
        let sorted = [
            "example.",
            "a.example.",
            "yljkjljk.a.example.",
            "Z.a.example.",
            "zABC.a.EXAMPLE.",
            "z.example.",
            "\\001.z.example.",
            "*.z.example.",
            "\\200.z.example.",
        ];
        for w in sorted.windows(2) {
            assert_eq!(name(w[0]).cmp(&name(w[1])), Ordering::Less, "{w:?}");
        }
    }

    #[test]
    fn coins_turn_letters_and_nothing_else() {
        let all: Vec<u8> = (0..=255).cycle().take(300).collect();
        for len in [0, 1, 7, 8, 9, 63, 64, 65, 255, 300] {
            for coins in [0, u64::MAX, 0x0123_4567_89AB_CDEF] {
                let mut octets = all[..len].to_vec();
                recase(&mut octets, || coins);
                for (i, (now, before)) in octets.iter().zip(&all).enumerate() {
                    let is_turned = before.is_ascii_alphabetic() && coins >> (i % 64 / 8 + 8 * (i % 8)) & 1 == 1;
                    assert_eq!(*now, if is_turned { before ^ 0x20 } else { *before }, "{i} of {len}, {coins:x}");
                }
            }
        }
    }

    #[test]
    fn below_means_on_label_borders() {
        assert!(name("a.example.").is_at_or_below(&name("EXAMPLE.")));
        assert!(name("example.").is_at_or_below(&name("example.")));
        assert!(!name("aexample.").is_at_or_below(&name("example.")));
        assert!(!name("example.").is_at_or_below(&name("a.example.")));
    }
}
