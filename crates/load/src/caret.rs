//! An operator's text that cannot be read: the text, the place, what is wrong and what to write instead.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caret {
    /// What the text is: `template`, `schedule`, `assert`.
    pub what: &'static str,
    pub text: String,
    /// Offset in octets of the offending character.
    pub at: usize,
    pub why: String,
}

impl Caret {
    pub fn new(what: &'static str, text: &str, at: usize, why: impl Into<String>) -> Caret {
        Caret { what, text: text.to_string(), at: at.min(text.len()), why: why.into() }
    }
}

impl fmt::Display for Caret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.text.as_bytes().get(..self.at).unwrap_or_default();
        let column = String::from_utf8_lossy(head).chars().count();
        writeln!(f, "{}:1:{}: {}", self.what, column + 1, self.why)?;
        writeln!(f, "  {}", self.text)?;
        write!(f, "  {}^", " ".repeat(column))
    }
}

/// The offset of a part within the text it was cut from.
pub fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let text = "const(1k,5 parsecs)";
        let part = &text[9..];
        let shown = Caret::new("schedule", text, offset(text, part), "no time: write `5s`").to_string();
        assert_eq!(shown, "schedule:1:10: no time: write `5s`\n  const(1k,5 parsecs)\n           ^");
    }
}
