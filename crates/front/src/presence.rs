//! Which of the zones that come from others cannot be answered for now: not there yet, or expired.
//!
//! Made when the configuration is read; after that only marks change, each by itself, so that what happens to one zone costs
//! nothing for the others. A worker looks at a mark only while there is a zone that is absent at all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// How a zone is that comes from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    Present,
    /// It has never come, or what has come cannot be used.
    Awaited,
    /// Nobody could say for too long that it is as it should be (RFC 1034 section 4.3.5).
    Expired,
}

const MARKS: [Mark; 3] = [Mark::Present, Mark::Awaited, Mark::Expired];

/// Bound: the zones that are configured to come from others. By apex in lower case.
#[derive(Debug, Default)]
pub struct Presence {
    zones: HashMap<Box<[u8]>, AtomicU8>,
    absent: AtomicUsize,
}

impl Presence {
    pub fn new(zones: impl IntoIterator<Item = (Box<[u8]>, Mark)>) -> Presence {
        let zones: HashMap<_, _> = zones.into_iter().map(|(apex, mark)| (apex, AtomicU8::new(mark as u8))).collect();
        let absent = zones.values().filter(|mark| mark.load(Relaxed) != Mark::Present as u8).count();
        Presence { zones, absent: AtomicUsize::new(absent) }
    }

    /// Called by one thread.
    pub fn set(&self, apex: &[u8], mark: Mark) {
        let Some(place) = self.zones.get(apex) else { return };
        let before = place.swap(mark as u8, Relaxed);
        match (before == Mark::Present as u8, mark == Mark::Present) {
            (true, false) => _ = self.absent.fetch_add(1, Relaxed),
            (false, true) => _ = self.absent.fetch_sub(1, Relaxed),
            _ => {}
        }
    }

    /// None: it does not come from others.
    pub fn mark(&self, apex: &[u8]) -> Option<Mark> {
        let mark = self.zones.get(apex)?.load(Relaxed);
        MARKS.get(usize::from(mark)).copied()
    }

    pub fn is_complete(&self) -> bool {
        self.absent.load(Relaxed) == 0
    }

    /// Why a name in lower case cannot be answered for. `served`: octets of the apex that was found for it in the image;
    /// `is_above`: what is asked for stands above a cut, at a cut.
    pub fn absence(&self, name: &[u8], served: Option<usize>, is_above: bool) -> Option<Mark> {
        let mut rest = name;
        loop {
            let is_left_out = is_above && rest.len() == name.len() && served.is_some_and(|served| served < name.len());
            match self.mark(rest).filter(|_| !is_left_out) {
                // What is served meanwhile has come.
                Some(Mark::Awaited) if served == Some(rest.len()) => return None,
                Some(Mark::Present) => return None,
                Some(mark) => return Some(mark),
                None => {}
            }
            let (&n, below) = rest.split_first().filter(|(n, _)| **n > 0 && served.is_none_or(|s| s < rest.len()))?;
            rest = below.get(usize::from(n)..)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Vec<u8> {
        wire::Name::from_text(text.as_bytes(), None).unwrap().bytes().to_vec()
    }

    #[test]
    fn names_of_absent_zones_cannot_be_answered_for() {
        let zones =
            [("here.", Mark::Present), ("b.here.", Mark::Awaited), ("old.", Mark::Expired), (".", Mark::Present)];
        let presence = Presence::new(zones.map(|(zone, mark)| (name(zone).into(), mark)));
        for (asked, served, is_above, expect) in [
            ("a.here.", Some("here."), false, None),
            ("b.here.", Some("here."), false, Some(Mark::Awaited)),
            ("x.b.here.", Some("here."), false, Some(Mark::Awaited)),
            ("b.here.", Some("here."), true, None),
            ("b.here.", None, true, Some(Mark::Awaited)),
            ("x.b.here.", Some("b.here."), false, None),
            ("x.old.", Some("old."), false, Some(Mark::Expired)),
            ("old.", Some("old."), true, Some(Mark::Expired)),
            ("x.old.", None, false, Some(Mark::Expired)),
            ("else.", Some("."), false, None),
            ("else.", None, false, None),
            ("x.c.old.", Some("c.old."), false, None),
        ] {
            let found = presence.absence(&name(asked), served.map(|apex| name(apex).len()), is_above);
            assert_eq!(found, expect, "{asked} {served:?}");
        }
    }

    #[test]
    fn absent_ones_are_counted() {
        let presence = Presence::new([(name("a.").into(), Mark::Awaited), (name("b.").into(), Mark::Present)]);
        assert!(!presence.is_complete());
        for (zone, mark, is_complete) in [
            ("a.", Mark::Expired, false),
            ("a.", Mark::Present, true),
            ("a.", Mark::Present, true),
            ("b.", Mark::Expired, false),
            ("c.", Mark::Expired, false),
            ("b.", Mark::Present, true),
        ] {
            presence.set(&name(zone), mark);
            assert_eq!(presence.is_complete(), is_complete, "{zone} {mark:?}");
        }
    }
}
