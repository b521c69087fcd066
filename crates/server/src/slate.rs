//! Zones whose files are behind what is served: which of them are to be written back, and when.
//!
//! Whoever publishes notes the zones that updates changed; the scribe takes them when their time has come. A zone is due so
//! long after the first change that its file does not hold: so one that changes all the time is written no more often than
//! that. Bound: as many zones as are configured to be written back.

use crate::config::Zone;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Slate {
    entries: Mutex<Entries>,
    bell: Condvar,
}

#[derive(Default)]
struct Entries {
    /// By apex.
    zones: HashMap<Box<[u8]>, Followed>,
    /// Those that are behind, by when they are due.
    due: BTreeSet<(Instant, Box<[u8]>)>,
}

struct Followed {
    file: PathBuf,
    every: Duration,
    due: Option<Instant>,
}

/// A zone to be written back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub apex: Box<[u8]>,
    pub file: PathBuf,
}

impl Slate {
    /// These are the zones from now on. Those that are new here are compared with their files at once.
    pub fn follow(&self, zones: &[Zone], now: Instant) {
        let mut entries = self.hold();
        let mut before = std::mem::take(&mut *entries);
        for zone in zones {
            let Some(every) = zone.write_back else { continue };
            let known = before.zones.remove(&zone.apex);
            let due = known.map_or(Some(now), |known| known.due);
            entries.due.extend(due.map(|at| (at, zone.apex.clone())));
            entries.zones.insert(zone.apex.clone(), Followed { file: zone.origin().into(), every, due });
        }
        self.bell.notify_all();
    }

    /// What is served of these zones has changed, or could not be written.
    pub fn note<'a>(&self, apexes: impl Iterator<Item = &'a [u8]>, now: Instant) {
        let mut held = self.hold();
        let entries = &mut *held;
        for apex in apexes {
            let Some(zone) = entries.zones.get_mut(apex).filter(|zone| zone.due.is_none()) else { continue };
            let at = now + zone.every;
            zone.due = Some(at);
            entries.due.insert((at, apex.into()));
            self.bell.notify_all();
        }
    }

    /// Waits until a zone is due.
    pub fn next(&self) -> Task {
        let mut entries = self.hold();
        loop {
            let now = Instant::now();
            if let Some(task) = entries.take(now) {
                return task;
            }
            entries = match entries.due.first() {
                None => self.bell.wait(entries).unwrap_or_else(PoisonError::into_inner),
                Some((at, _)) => {
                    let wait = at.saturating_duration_since(now);
                    self.bell.wait_timeout(entries, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn hold(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// A zone whose time has come; changes from now on are noted anew.
    fn take(&mut self, now: Instant) -> Option<Task> {
        let (_, apex) = self.due.first().filter(|(at, _)| *at <= now)?;
        let apex = apex.clone();
        self.due.pop_first();
        let zone = self.zones.get_mut(&apex)?;
        zone.due = None;
        Some(Task { file: zone.file.clone(), apex })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const A: &[u8] = b"\x01a\0";
    const B: &[u8] = b"\x01b\0";
    const MINUTE: Duration = Duration::from_secs(60);

    fn zone(apex: &[u8], every: Duration) -> Zone {
        Zone { write_back: Some(every), ..Zone::new(apex.into(), "f".into()) }
    }

    #[test]
    fn a_zone_that_changes_all_the_time_is_due_once_in_its_time() {
        let (slate, start) = (Slate::default(), Instant::now());
        slate.follow(&[zone(A, MINUTE), zone(B, 2 * MINUTE), Zone::new(b"\x01c\0"[..].into(), "c".into())], start);
        let take = |at| slate.hold().take(at).map(|task| task.apex.to_vec());
        assert_eq!([take(start), take(start), take(start)], [Some(A.to_vec()), Some(B.to_vec()), None], "at the start");
        for second in 0..60 {
            slate.note([A, B, b"\x01c\0"].into_iter(), start + Duration::from_secs(second));
        }
        assert_eq!(take(start + MINUTE - Duration::from_secs(1)), None);
        assert_eq!([take(start + MINUTE), take(start + MINUTE)], [Some(A.to_vec()), None]);
        slate.note([A].into_iter(), start + MINUTE);
        assert_eq!(take(start + 2 * MINUTE), Some(A.to_vec()));
        assert_eq!([take(start + 9 * MINUTE), take(start + 9 * MINUTE)], [Some(B.to_vec()), None]);
    }

    #[test]
    fn another_configuration_keeps_what_is_owed() {
        let (slate, start) = (Slate::default(), Instant::now());
        slate.follow(&[zone(A, MINUTE), zone(B, MINUTE)], start);
        assert_eq!([slate.next().apex, slate.next().apex], [A.into(), B.into()]);
        slate.note([A, B].into_iter(), start);
        let moved = Zone { origin: Some("g".into()), ..zone(A, MINUTE) };
        slate.follow(&[moved], start);
        assert_eq!(slate.hold().take(start), None);
        let task = slate.hold().take(start + MINUTE).unwrap();
        assert_eq!((&*task.apex, &*task.file), (A, Path::new("g")));
        assert_eq!(slate.hold().take(start + MINUTE), None, "B is not written back any more");
    }
}
