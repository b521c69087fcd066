//! Zones that are configured and that an image has nothing of: their files are wrong, or not there, and there is no version of them to serve.

use std::collections::HashSet;
use wire::Query;
use wire::hash::{Marks, name_hash, name_step, siphash};
use wire::name::labels;

/// By apex, in lower case. Bound: as many as are configured.
#[derive(Clone, Debug, Default)]
pub struct Unserved {
    zones: HashSet<Box<[u8]>>,
    /// Of their names' hashes. None: there is no such zone, as mostly.
    marks: Option<Marks>,
    /// That of the image.
    seed: u64,
    /// Labels of the longest of them.
    deepest: usize,
    has_root: bool,
    /// What tells them from others, and from zones that are served.
    fingerprint: u64,
}

impl Unserved {
    /// `seed`: that of the image.
    pub fn of(zones: HashSet<Box<[u8]>>, seed: u64) -> Unserved {
        let mut marks = (!zones.is_empty()).then(Marks::default);
        marks.iter_mut().for_each(|marks| zones.iter().for_each(|apex| marks.set(name_hash(seed, apex))));
        let depths = zones.iter().map(|apex| labels(apex).count());
        let (deepest, has_root) = (depths.max().unwrap_or(0), zones.contains(&[0][..]));
        let fingerprint = zones.iter().fold(0, |all, apex| all ^ siphash::<1, 3>(b"unserved zones  ", apex));
        Unserved { zones, marks, seed, deepest, has_root, fingerprint }
    }

    pub fn zones(&self) -> &HashSet<Box<[u8]>> {
        &self.zones
    }

    pub fn has(&self, apex: &[u8]) -> bool {
        !self.zones.is_empty() && self.zones.contains(apex)
    }

    /// False: the name is in none of them.
    #[inline(always)]
    pub fn may_concern(&self, query: &Query) -> bool {
        self.marks.as_ref().is_some_and(|marks| self.is_marked(marks, query))
    }

    fn is_marked(&self, marks: &Marks, query: &Query) -> bool {
        let hashes = query.hashes();
        if self.has_root || hashes.iter().take(self.deepest).any(|&hash| marks.has(hash)) {
            return true;
        }
        // Only so many are hashed as an image is looked up ahead (`DEPTH_AHEAD` at most).
        let mut hash = hashes.last().copied().unwrap_or(self.seed);
        (hashes.len() + 1..=self.deepest.min(query.labels.into())).any(|depth| {
            hash = name_step(hash, &query.folded, query.suffix_at(depth));
            marks.has(hash)
        })
    }

    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

impl PartialEq for Unserved {
    fn eq(&self, other: &Unserved) -> bool {
        self.zones == other.zones
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Name;

    fn name(text: &str) -> Box<[u8]> {
        Name::from_text(text.as_bytes(), None).unwrap().bytes().into()
    }

    #[test]
    fn a_name_in_such_a_zone_is_never_taken_for_another() {
        let asked = ["www.a.example.", "a.example.", "b.example.", "x.y.z.deep.a.b.c.", "deep.a.b.c.", "a.b.c.", "."];
        for (zones, concerned) in [
            (&[][..], &[false; 7]),
            (&["a.example."], &[true, true, false, false, false, false, false]),
            (&["deep.a.b.c."], &[false, false, false, true, true, false, false]),
            (&["."], &[true; 7]),
        ] {
            let unserved = Unserved::of(zones.iter().map(|zone| name(zone)).collect(), 7);
            for (asked, expect) in asked.iter().zip(concerned) {
                for hashed in [0, 1, 2, 10] {
                    let mut query = Query::default();
                    query.follow(&name(asked), hashed, 7);
                    assert_eq!(unserved.may_concern(&query), *expect, "{zones:?} {asked} {hashed}");
                }
            }
        }
    }

    #[test]
    fn they_are_told_from_others() {
        let of = |zones: &[&str]| Unserved::of(zones.iter().map(|zone| name(zone)).collect(), 7).fingerprint();
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&["a.", "b."]), of(&["b.", "a."]));
        assert_ne!(of(&["a."]), of(&["b."]));
    }
}
