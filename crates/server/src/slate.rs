//! Zones whose files are behind what is served: which of them are to be written back, and when.
//!
//! Whoever publishes notes the zones that updates changed; the scribe takes them when their time has come. A zone is due so
//! long after the first change that its file does not hold: so one that changes all the time is written no more often than
//! that. Whether a file was edited is looked at when somebody asks for a reload, or has seen the file change. Bound: as many
//! zones as are configured to be written back, each once to be written and once to be looked at.

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
    /// Those that are behind.
    due: Agenda,
    /// Those whose files may have been edited.
    looks: Agenda,
}

struct Followed {
    file: PathBuf,
    every: Duration,
}

/// Zones by when they are to be seen to, each once: at the earliest time that was asked for.
#[derive(Default)]
struct Agenda {
    by_time: BTreeSet<(Instant, Box<[u8]>)>,
    times: HashMap<Box<[u8]>, Instant>,
}

impl Agenda {
    fn put(&mut self, apex: &[u8], at: Instant) {
        let known = self.times.get(apex).copied();
        if known.is_some_and(|known| known <= at) {
            return;
        }
        if let Some(known) = known {
            self.by_time.remove(&(known, apex.into()));
        }
        self.times.insert(apex.into(), at);
        self.by_time.insert((at, apex.into()));
    }

    fn first(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// One whose time has come.
    fn take(&mut self, now: Instant) -> Option<Box<[u8]>> {
        self.first().filter(|at| *at <= now)?;
        let (_, apex) = self.by_time.pop_first()?;
        self.times.remove(&apex);
        Some(apex)
    }

    fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.by_time.retain(|(_, apex)| is_kept(apex));
        self.times.retain(|apex, _| is_kept(apex));
    }
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
        let mut held = self.hold();
        let entries = &mut *held;
        let before = std::mem::take(&mut entries.zones);
        for zone in zones {
            let Some(every) = zone.write_back else { continue };
            if !before.contains_key(&zone.apex) {
                entries.looks.put(&zone.apex, now);
            }
            entries.zones.insert(zone.apex.clone(), Followed { file: zone.origin().into(), every });
        }
        let Entries { zones, due, looks } = entries;
        [due, looks].into_iter().for_each(|agenda| agenda.retain(|apex| zones.contains_key(apex)));
        self.bell.notify_all();
    }

    /// What is served of these zones has changed, or could not be written.
    pub fn note<'a>(&self, apexes: impl Iterator<Item = &'a [u8]>, now: Instant) {
        let mut held = self.hold();
        let entries = &mut *held;
        for apex in apexes {
            let Some(zone) = entries.zones.get(apex) else { continue };
            entries.due.put(apex, now + zone.every);
            self.bell.notify_all();
        }
    }

    /// It is to be seen at that time, or before, whether the files of these zones were edited; of all if none is named.
    pub fn look(&self, apexes: &[Box<[u8]>], at: Instant) {
        let mut held = self.hold();
        let Entries { zones, looks, .. } = &mut *held;
        match apexes {
            [] => zones.keys().for_each(|apex| looks.put(apex, at)),
            named => named.iter().filter(|apex| zones.contains_key(*apex)).for_each(|apex| looks.put(apex, at)),
        }
        self.bell.notify_all();
    }

    /// A zone is not to wait for its time.
    pub fn hurry(&self, apex: &[u8], now: Instant) {
        let mut held = self.hold();
        if held.zones.contains_key(apex) {
            held.due.put(apex, now);
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
            let first = [entries.due.first(), entries.looks.first()].into_iter().flatten().min();
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
        let due = self.due.take(now);
        let is_due = due.is_some();
        let apex = due.or_else(|| self.looks.take(now))?;
        let zone = self.zones.get(&apex)?;
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
        // Asked for again and again, they are looked at once.
        (0..9).for_each(|second| slate.look(&[], start + Duration::from_secs(second)));
        assert_eq!([take(start), take(start)], [Some((A.to_vec(), false)), Some((B.to_vec(), false))]);
        assert_eq!(take(start + Duration::from_secs(9)), None);
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
