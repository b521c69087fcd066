//! Who is asked for which names: the longest zone that holds the name wins.
//!
//! As many entries as the operator wrote; looked at once a miss, a comparison each.

use std::net::SocketAddr;
use wire::Name;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    pub zone: Name,
    pub servers: Vec<SocketAddr>,
}

#[derive(Clone, Debug, Default)]
pub struct Forwards(Vec<Forward>);

impl Forwards {
    pub fn new(mut forwards: Vec<Forward>) -> Forwards {
        forwards.sort_by_key(|f| std::cmp::Reverse(f.zone.bytes().len()));
        Forwards(forwards)
    }

    /// The number of the forward for a name.
    pub fn of(&self, name: &Name) -> Option<usize> {
        // Of the zones above one name no two have the same length.
        self.0.iter().position(|f| name.is_at_or_below(&f.zone))
    }

    pub fn forward(&self, number: usize) -> Option<&Forward> {
        self.0.get(number)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Forward> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::from_text(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn the_longest_zone_wins() {
        let zones = [".", "example.", "corp.example.", "other.test."];
        let forwards = Forwards::new(zones.iter().map(|z| Forward { zone: name(z), servers: vec![] }).collect());
        for (asked, expect) in [
            ("a.corp.example.", "corp.example."),
            ("CORP.example.", "corp.example."),
            ("acorp.example.", "example."),
            ("x.test.", "."),
            (".", "."),
        ] {
            let found = forwards.of(&name(asked)).and_then(|n| forwards.forward(n)).unwrap();
            assert_eq!(found.zone, name(expect), "{asked}");
        }
        assert!(Forwards::default().of(&name("a.")).is_none());
    }
}
