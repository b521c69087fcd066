//! Names as the tests need them: uncompressed wire form in a vector, text in and out.
//!
//! Invariant: ends with the root label and is at most 255 octets long, unless `from_labels` was asked for what no name is.

use std::fmt;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    pub fn root() -> Name {
        Name(vec![0])
    }

    /// From text in which labels hold no dots and no escapes: all that the generator writes.
    pub fn from_text(text: &str) -> Name {
        Name::from_labels(text.split('.').filter(|l| !l.is_empty()).map(str::as_bytes))
    }

    pub fn from_labels<'a>(labels: impl Iterator<Item = &'a [u8]>) -> Name {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(label.len() as u8);
            wire.extend_from_slice(label);
        }
        wire.push(0);
        Name(wire)
    }

    pub fn from_wire(wire: Vec<u8>) -> Name {
        Name(wire)
    }

    pub fn wire(&self) -> &[u8] {
        &self.0
    }

    /// Lower case. Length octets are below 64 and so no letters.
    pub fn fold(&self) -> Name {
        Name(self.0.to_ascii_lowercase())
    }

    pub fn labels(&self) -> Vec<&[u8]> {
        let (mut rest, mut out) = (&self.0[..], Vec::new());
        while let Some((&n, tail)) = rest.split_first() {
            if n == 0 || tail.len() < n as usize {
                break;
            }
            out.push(&tail[..n as usize]);
            rest = &tail[n as usize..];
        }
        out
    }

    pub fn child(&self, label: &[u8]) -> Name {
        let mut wire = vec![label.len() as u8];
        wire.extend_from_slice(label);
        wire.extend_from_slice(&self.0);
        Name(wire)
    }

    pub fn parent(&self) -> Option<Name> {
        let first = self.0[0] as usize;
        (first > 0).then(|| Name(self.0[first + 1..].to_vec()))
    }

    /// True for the name itself and all below it, without regard to case.
    pub fn is_at_or_below(&self, ancestor: &Name) -> bool {
        let (ours, theirs) = (self.labels(), ancestor.labels());
        ours.len() >= theirs.len() && ours.iter().rev().zip(theirs.iter().rev()).all(|(a, b)| a.eq_ignore_ascii_case(b))
    }

    pub fn is_below(&self, ancestor: &Name) -> bool {
        self.is_at_or_below(ancestor) && self.labels().len() > ancestor.labels().len()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == [0] {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &c in label {
                match c {
                    b'.' | b'\\' => write!(f, "\\{}", c as char)?,
                    0x21..=0x7e => write!(f, "{}", c as char)?,
                    _ => write!(f, "\\{c:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_wire_agree() {
        for text in [".", "a.", "www.example.test.", "*.x."] {
            assert_eq!(Name::from_text(text).to_string(), text);
        }
        assert_eq!(Name::from_text("a.b.").wire(), b"\x01a\x01b\x00");
    }

    #[test]
    fn ancestry_ignores_case() {
        let zone = Name::from_text("Example.");
        assert!(Name::from_text("a.eXAMPLE.").is_below(&zone));
        assert!(zone.is_at_or_below(&Name::root()));
        assert!(!zone.is_below(&zone));
        assert!(!Name::from_text("aexample.").is_at_or_below(&zone));
    }
}
