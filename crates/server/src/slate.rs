//! Zones whose files are behind what is served: which of them are to be written back, and when.
//!
//! Whoever publishes notes the zones that updates changed; the scribe takes them when their time has come. A zone is due so
//! long after the first change that its file does not hold: so one that changes all the time is written no more often than
//! that. Whether a file was edited is looked at when somebody asks for a reload, or has seen the file change. Bound: as many zones as are configured to be written back.

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
    /// Those whose files may have been edited, by when they are looked at.
    looks: BTreeSet<(Instant, Box<[u8]>)>,
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
    /// False: it is only to be seen whether the file was edited.
    pub is_due: bool,
}

impl Slate {
    /// These are the zones from now on. The files of those that are new here are looked at once.
    pub fn follow(&self, zones: &[Zone], now: Instant) {
        let mut entries = self.hold();
        let mut before = std::mem::take(&mut *entries);
        entries.looks = before.looks;
        for zone in zones {
            let Some(every) = zone.write_back else { continue };
            let known = before.zones.remove(&zone.apex);
            if known.is_none() {
                entries.looks.insert((now, zone.apex.clone()));
            }
            let due = known.and_then(|known| known.due);
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

    /// It is to be seen at that time whether the files of these zones were edited; of all if none is named.
    pub fn look(&self, apexes: &[Box<[u8]>], at: Instant) {
        let mut held = self.hold();
        let entries = &mut *held;
        let looks = |apex: &[u8]| (at, apex.into());
        match apexes {
            [] => entries.looks.extend(entries.zones.keys().map(|apex| looks(apex))),
            named => entries
                .looks
                .extend(named.iter().filter(|apex| entries.zones.contains_key(*apex)).map(|apex| looks(apex))),
        }
        self.bell.notify_all();
    }

    /// A zone is not to wait for its time.
    pub fn hurry(&self, apex: &[u8], now: Instant) {
        let mut held = self.hold();
        let entries = &mut *held;
        let Some(zone) = entries.zones.get_mut(apex) else { return };
        if let Some(at) = zone.due.replace(now) {
            entries.due.remove(&(at, apex.into()));
        }
        entries.due.insert((now, apex.into()));
        self.bell.notify_all();
    }

    /// Waits until a zone is due.
    pub fn next(&self) -> Task {
        let mut entries = self.hold();
        loop {
            let now = Instant::now();
            if let Some(task) = entries.take(now) {
                return task;
            }
            let first = [entries.due.first(), entries.looks.first()].into_iter().flatten().map(|(at, _)| *at).min();
            entries = match first {
                None => self.bell.wait(entries).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
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
        let take = |set: &mut BTreeSet<(Instant, Box<[u8]>)>| {
            let is_ripe = set.first().is_some_and(|(at, _)| *at <= now);
            if is_ripe { set.pop_first() } else { None }
        };
        let due = take(&mut self.due);
        let is_due = due.is_some();
        let (_, apex) = due.or_else(|| take(&mut self.looks))?;
        let zone = self.zones.get_mut(&apex)?;
        if is_due {
            zone.due = None;
        }
        Some(Task { file: zone.file.clone(), apex, is_due })
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
    fn a_look_is_no_reason_to_write_and_haste_is() {
        let (slate, start) = (Slate::default(), Instant::now());
        slate.follow(&[zone(A, MINUTE), zone(B, MINUTE)], start);
        let take = |at| slate.hold().take(at).map(|task| (task.apex.to_vec(), task.is_due));
        assert_eq!([take(start), take(start)], [Some((A.to_vec(), false)), Some((B.to_vec(), false))]);
        slate.note([A].into_iter(), start);
        slate.look(&[A.into(), b"\x01c\0"[..].into()], start);
        assert_eq!([take(start), take(start)], [Some((A.to_vec(), false)), None]);
        slate.look(&[], start);
        assert_eq!([take(start), take(start)], [Some((A.to_vec(), false)), Some((B.to_vec(), false))]);
        slate.hurry(A, start);
        assert_eq!([take(start), take(start + 9 * MINUTE)], [Some((A.to_vec(), true)), None]);
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
