//! Zones whose files are not what is served: which of them are to be written back, or looked at, and when.
//!
//! Whoever publishes notes the zones that updates changed; the scribe takes them when their time has come. A zone is due so
//! long after the first change that its file does not hold: so one that changes all the time is written no more often than
//! that. Whether a file was edited is looked at when somebody asks for a reload, or has seen the file change. Bound: as many
//! zones as are configured to take updates, each once to be written and once to be looked at.

use super::REST;
use crate::config::Zone;
use audit::Guards;
use front::locks::{hold, try_to_hold};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
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
    /// Those whose digests may not fit any more.
    digests: Agenda,
    /// Who wants a file looked at, and to be told what became of an edit; and those of a zone whose file is being looked at. Bound: as many as ask
    /// until it has been.
    asked: HashMap<Box<[u8]>, Vec<Asker>>,
    told: HashMap<Box<[u8]>, Vec<Asker>>,
    /// How many have asked.
    askers: u64,
    /// Zones that are not followed any more, or have another file, with the one that they had, and when that is seen to. Bound: nobody waits long to take them.
    left: Vec<(Instant, Box<[u8]>, PathBuf)>,
}

struct Asker {
    number: u64,
    /// How the file was (`origin::stamp`) when he wanted its edit to be taken in whatever the guards object to.
    forces: Option<String>,
    /// It is known which edit that is.
    is_noted: bool,
    sender: Sender<Taken>,
}

struct Followed {
    file: PathBuf,
    /// None: it is never written back.
    every: Option<Duration>,
    guards: Option<Guards>,
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

    fn has(&self, apex: &[u8], now: Instant) -> bool {
        self.times.get(apex).is_some_and(|at| *at <= now)
    }

    fn remove(&mut self, apex: &[u8]) {
        if let Some(at) = self.times.remove(apex) {
            self.by_time.remove(&(at, apex.into()));
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.by_time.retain(|(_, apex)| is_kept(apex));
        self.times.retain(|apex, _| is_kept(apex));
    }
}

/// Whether what somebody has edited is served; why not.
pub type Taken = Result<(), String>;

/// What is to be put on the slate. Bound: each zone that takes updates once.
#[derive(Default)]
pub struct Notes {
    changed: Apexes,
    digests: Apexes,
    looks: Apexes,
}

type Apexes = BTreeSet<Box<[u8]>>;

impl Notes {
    /// What is served of a zone has changed.
    pub fn change(&mut self, apex: &[u8]) {
        note(&mut self.changed, apex);
    }

    /// Its digest may not fit any more.
    pub fn digest(&mut self, apex: &[u8]) {
        note(&mut self.digests, apex);
    }

    /// Its file may have been edited.
    pub fn look(&mut self, apex: &[u8]) {
        note(&mut self.looks, apex);
    }

    fn is_empty(&self) -> bool {
        [&self.changed, &self.digests, &self.looks].iter().all(|all| all.is_empty())
    }
}

fn note(all: &mut Apexes, apex: &[u8]) {
    if !all.contains(apex) {
        all.insert(apex.into());
    }
}

/// A zone to be written back, or to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub apex: Box<[u8]>,
    pub file: PathBuf,
    pub what: What,
    /// Somebody waits for what becomes of an edit.
    pub is_asked: bool,
    /// As the file was then (`origin::stamp`) he wants its edit to be taken in whatever the guards object to (see `note_force`).
    pub forced: Option<String>,
    /// It is one of those that are written back.
    pub is_kept_in_step: bool,
    /// What an edit of the file may lose; None: anything.
    pub guards: Option<Guards>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It is only to be seen whether the file was edited.
    Look,
    /// The same, and what is served is written there.
    Write,
    /// Not the file: the zone may need a new digest.
    Digest,
}

impl Slate {
    /// These of the zones that updates own are followed from now on. The files of those that are new here, or have another file or time, are looked at once.
    pub fn follow(&self, zones: &[Zone], guards: Option<Guards>, now: Instant) {
        let mut held = self.hold();
        let entries = &mut *held;
        let mut before = std::mem::take(&mut entries.zones);
        for zone in zones.iter().filter(|zone| zone.is_owned()) {
            let was = before.remove(&zone.apex);
            // Its file may be behind already.
            if !was.as_ref().is_some_and(|was| was.file == zone.origin() && was.every == zone.write_back) {
                entries.looks.put(&zone.apex, now);
            }
            let left = was.filter(|was| was.file != zone.origin());
            entries.left.extend(left.map(|was| (now + REST, zone.apex.clone(), was.file)));
            let guards = guards.filter(|_| zone.is_guarded);
            let followed = Followed { file: zone.origin().into(), every: zone.write_back, guards };
            entries.zones.insert(zone.apex.clone(), followed);
        }
        entries.left.extend(before.into_iter().map(|(apex, followed)| (now + REST, apex, followed.file)));
        let Entries { zones, due, looks, digests, asked, told, .. } = entries;
        due.retain(|apex| zones.get(apex).is_some_and(|zone| zone.every.is_some()));
        [looks, digests].into_iter().for_each(|agenda| agenda.retain(|apex| zones.contains_key(apex)));
        [asked, told].into_iter().for_each(|all| all.retain(|apex, _| zones.contains_key(apex)));
        self.bell.notify_all();
    }

    /// As `note`, `renew` and `look` do, of all that is noted. False: somebody has the slate in his hands, and nothing is done.
    pub fn take(&self, notes: &mut Notes, now: Instant, digests_at: Instant) -> bool {
        if notes.is_empty() {
            return true;
        }
        let Some(mut entries) = try_to_hold(&self.entries) else { return false };
        let before = entries.first();
        let Notes { changed, digests, looks } = std::mem::take(notes);
        entries.note(changed.iter().map(|apex| &**apex), now);
        entries.renew(digests.iter().map(|apex| &**apex), digests_at);
        let Entries { zones, looks: agenda, .. } = &mut *entries;
        looks.iter().filter(|apex| zones.contains_key(*apex)).for_each(|apex| agenda.put(apex, now));
        if entries.first() != before {
            self.bell.notify_all();
        }
        true
    }

    /// What is served of these zones has changed, or could not be written.
    pub fn note<'a>(&self, apexes: impl Iterator<Item = &'a [u8]>, now: Instant) {
        self.hold().note(apexes, now);
        self.bell.notify_all();
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

    /// The file of this zone is to be looked at, and whoever asks is told what has become of an edit; nobody is where updates do not own the zone.
    /// `forces`: as the file was then (`origin::stamp`) its edit is to be taken in whatever the guards object to. Returns his number.
    pub fn ask(&self, apex: &[u8], at: Instant, forces: Option<String>, sender: Sender<Taken>) -> u64 {
        let mut held = self.hold();
        held.askers += 1;
        let number = held.askers;
        if held.zones.contains_key(apex) {
            held.looks.put(apex, at);
            held.asked.entry(apex.into()).or_default().push(Asker { number, forces, is_noted: false, sender });
            self.bell.notify_all();
        }
        number
    }

    /// The file of a zone was looked at. Who has asked since wants it looked at once more.
    pub fn answer(&self, apex: &[u8], taken: &Taken) {
        // They may have gone.
        let told = self.hold().told.remove(apex);
        told.into_iter().flatten().for_each(|asker| _ = asker.sender.send(taken.clone()));
    }

    /// It is known which edit is to be taken in whatever the guards object to: of one that comes later nobody has said so.
    pub fn note_force(&self, apex: &[u8]) {
        self.hold().told.get_mut(apex).into_iter().flatten().for_each(|asker| asker.is_noted = true);
    }

    /// The file of a zone is to be looked at once more before anybody is answered.
    pub fn put_off(&self, apex: &[u8]) {
        let Entries { asked, told, .. } = &mut *self.hold();
        if let Some(askers) = told.remove(apex) {
            asked.entry(apex.into()).or_default().extend(askers);
        }
    }

    /// Whether somebody waits who wants the zone's edit taken in whatever the guards object to.
    pub fn is_forced(&self, apex: &[u8]) -> bool {
        let Entries { asked, told, .. } = &*self.hold();
        asked.get(apex).into_iter().chain(told.get(apex)).flatten().any(|asker| asker.forces.is_some())
    }

    /// Whoever has this number wants nothing any more. False: somebody is at it, and that was not to be stopped.
    pub fn withdraw(&self, apex: &[u8], number: u64, also_begun: bool) -> bool {
        let Entries { asked, told, .. } = &mut *self.hold();
        let begun = if also_begun { told.get_mut(apex) } else { None };
        let mut is_gone = false;
        for askers in asked.get_mut(apex).into_iter().chain(begun) {
            let before = askers.len();
            askers.retain(|asker| asker.number != number);
            is_gone |= askers.len() < before;
        }
        is_gone
    }

    /// The digests of these zones may not fit any more, and are to be seen to at that time, or before.
    pub fn renew<'a>(&self, apexes: impl Iterator<Item = &'a [u8]>, at: Instant) {
        self.hold().renew(apexes, at);
        self.bell.notify_all();
    }

    /// A zone is not to wait for its time.
    pub fn hurry(&self, apex: &[u8], now: Instant) {
        let mut held = self.hold();
        if held.zones.get(apex).is_some_and(|zone| zone.every.is_some()) {
            held.due.put(apex, now);
            self.bell.notify_all();
        }
    }

    /// Files that zones had, and have no more, a while ago: somebody may still have been writing there. And whether the zone is followed.
    pub fn left(&self, now: Instant) -> Vec<(Box<[u8]>, PathBuf, bool)> {
        let mut held = self.hold();
        let Entries { zones, left, .. } = &mut *held;
        let has = |apex: &[u8], file: &Path| zones.get(apex).is_some_and(|zone| zone.file == file);
        let left = left.extract_if(.., |(at, ..)| *at <= now).filter(|(_, apex, file)| !has(apex, file));
        left.map(|(_, apex, file)| (apex.clone(), file, zones.contains_key(&apex))).collect()
    }

    /// Whether no zone stands on it.
    pub fn is_clear(&self) -> bool {
        self.hold().first().is_none()
    }

    /// Waits until a zone is due. None: there are such files.
    pub fn next(&self) -> Option<Task> {
        let mut entries = self.hold();
        loop {
            let now = Instant::now();
            let left = entries.left.first().map(|(at, ..)| *at);
            if left.is_some_and(|at| at <= now) {
                return None;
            }
            if let Some(task) = entries.take(now) {
                return Some(task);
            }
            entries = match [entries.first(), left].into_iter().flatten().min() {
                None => self.bell.wait(entries).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let wait = at.saturating_duration_since(now);
                    self.bell.wait_timeout(entries, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn hold(&self) -> MutexGuard<'_, Entries> {
        hold(&self.entries)
    }
}

impl Entries {
    /// When the first zone is to be seen to.
    fn first(&self) -> Option<Instant> {
        [&self.due, &self.looks, &self.digests].into_iter().filter_map(Agenda::first).min()
    }

    fn note<'a>(&mut self, apexes: impl Iterator<Item = &'a [u8]>, now: Instant) {
        for apex in apexes {
            if let Some(every) = self.zones.get(apex).and_then(|zone| zone.every) {
                self.due.put(apex, now + every);
            }
        }
    }

    fn renew<'a>(&mut self, apexes: impl Iterator<Item = &'a [u8]>, at: Instant) {
        apexes.filter(|apex| self.zones.contains_key(*apex)).for_each(|apex| self.digests.put(apex, at));
    }

    /// The zone whose time has come first; changes from now on are noted anew. First of all agendas: where more is to be written back than
    /// can be, one of them would always have a zone, and the others would have to wait for ever.
    fn take(&mut self, now: Instant) -> Option<Task> {
        // Before all that nobody waits for: a reload may have had a million looked at.
        if let Some(apex) = self.asked.keys().chain(self.told.keys()).find(|apex| self.looks.has(apex, now)).cloned() {
            self.looks.remove(&apex);
            return self.task(apex, What::Look);
        }
        let agendas = [(&mut self.due, What::Write), (&mut self.looks, What::Look), (&mut self.digests, What::Digest)];
        let times = agendas.into_iter().filter_map(|(agenda, what)| Some((agenda.first()?, agenda, what)));
        let (_, agenda, what) = times.min_by_key(|(at, ..)| *at)?;
        let apex = agenda.take(now)?;
        self.task(apex, what)
    }

    fn task(&mut self, apex: Box<[u8]>, what: What) -> Option<Task> {
        if what != What::Digest
            && let Some(asked) = self.asked.remove(&apex)
        {
            self.told.entry(apex.clone()).or_default().extend(asked);
        }
        let told = self.told.get(&apex);
        // Who has asked last has seen it last.
        let forced = told
            .and_then(|all| all.iter().rev().filter(|asker| !asker.is_noted).find_map(|asker| asker.forces.clone()));
        let zone = self.zones.get(&apex)?;
        let (file, is_asked, is_kept_in_step) = (zone.file.clone(), told.is_some(), zone.every.is_some());
        Some(Task { apex, file, what, is_asked, forced, is_kept_in_step, guards: zone.guards })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;
    use std::sync::mpsc::channel;
    use transfer::allow::{Rule, Rules};

    const A: &[u8] = b"\x01a\0";
    const B: &[u8] = b"\x01b\0";
    const MINUTE: Duration = Duration::from_secs(60);

    fn zone(apex: &[u8], every: Duration) -> Zone {
        Zone { write_back: Some(every), ..updated(apex) }
    }

    fn updated(apex: &[u8]) -> Zone {
        let rules = Rules(vec![Rule::from_text("key:k").unwrap()]);
        Zone { allow_update: rules, ..Zone::new(apex.into(), "f".into()) }
    }

    #[test]
    fn a_zone_that_changes_all_the_time_is_due_once_in_its_time() {
        let (slate, start) = (Slate::default(), Instant::now());
        slate.follow(
            &[zone(A, MINUTE), zone(B, 2 * MINUTE), Zone::new(b"\x01c\0"[..].into(), "c".into())],
            None,
            start,
        );
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
    fn whoever_is_followed_no_more_is_told_once() {
        let (slate, now) = (Slate::default(), Instant::now());
        slate.follow(&[zone(A, MINUTE), zone(B, MINUTE)], None, now);
        assert!(slate.left(now).is_empty());
        slate.follow(&[], None, now);
        slate.follow(&[zone(B, MINUTE)], None, now);
        assert_eq!((slate.next().unwrap().apex, slate.left(now)), (B.into(), vec![]), "not yet");
        assert_eq!(slate.next(), None);
        assert_eq!(slate.left(now + REST), [(A.into(), "f".into(), false)], "the other one has come back");
        assert!(slate.left(now + REST).is_empty());
        slate.follow(&[Zone { origin: Some("g".into()), ..zone(B, MINUTE) }], None, now);
        assert_eq!(slate.left(now + REST), [(B.into(), "f".into(), true)], "it has another file");
    }

    #[test]
    fn a_look_is_no_reason_to_write_and_haste_is() {
        let (slate, start) = (Slate::default(), Instant::now());
        slate.follow(&[zone(A, MINUTE), zone(B, MINUTE)], None, start);
        let take = |at| slate.hold().take(at).map(|task| (task.apex.to_vec(), task.what == What::Write));
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
    fn who_waits_for_a_look_waits_for_none_that_nobody_waits_for() {
        let (slate, start, (asked, taken)) = (Slate::default(), Instant::now(), channel());
        slate.follow(&[zone(A, MINUTE), updated(B)], None, start);
        slate.hurry(A, start - MINUTE);
        let take = || slate.hold().take(start + MINUTE).map(|task| (task.apex.to_vec(), task.is_asked));
        slate.ask(B, start, None, asked.clone());
        assert_eq!(take(), Some((B.to_vec(), true)));
        // Somebody is writing to the file.
        slate.put_off(B);
        slate.look(&[B.into()], start);
        assert_eq!(
            [take(), take(), take()],
            [(B, true), (A, false), (A, false)].map(|(z, asked)| Some((z.into(), asked)))
        );
        slate.answer(B, &Ok(()));
        assert_eq!(taken.try_recv(), Ok(Ok(())));
        let number = slate.ask(B, start, None, asked);
        take();
        assert!(!slate.withdraw(B, number, false), "somebody is at it");
        slate.put_off(B);
        assert!(slate.withdraw(B, number, false) && taken.try_recv().is_err(), "nobody is");
    }

    #[test]
    fn a_zone_that_is_not_written_back_is_looked_at_all_the_same() {
        let (slate, start) = (Slate::default(), Instant::now());
        slate.follow(&[updated(A), Zone { is_guarded: false, ..updated(B) }], Some(Guards::default()), start);
        let take = |at| slate.hold().take(at).map(|task| (task.what, task.guards.is_some(), task.is_kept_in_step));
        assert_eq!([take(start), take(start)], [Some((What::Look, true, false)), Some((What::Look, false, false))]);
        slate.note([A].into_iter(), start);
        slate.hurry(A, start);
        assert_eq!(take(start + MINUTE), None);
        slate.renew([A, A, b"\x01c\0"].into_iter(), start + MINUTE);
        assert_eq!([take(start), take(start + MINUTE)], [None, Some((What::Digest, true, false))]);
        assert_eq!(take(start + MINUTE), None);
    }

    #[test]
    fn who_forces_an_edit_forces_the_one_that_he_has_seen() {
        let (slate, start, (asked, taken)) = (Slate::default(), Instant::now(), channel());
        slate.follow(&[zone(A, MINUTE)], None, start);
        let take = || slate.hold().take(start).map(|task| (task.what, task.forced));
        let as_it_was = || Some("1-2-3".to_string());
        let (forced, not_forced) = (Some((What::Look, as_it_was())), Some((What::Look, None)));
        assert_eq!(take(), not_forced);
        let force = |apex| slate.ask(apex, start, as_it_was(), asked.clone());
        force(b"\x01c\0");
        let first = force(A);
        slate.answer(A, &Ok(()));
        assert!(taken.try_recv().is_err(), "not looked at since");
        assert_eq!([take(), take()], [forced.clone(), None]);
        let (second, _) = (force(A), slate.ask(A, start, None, asked.clone()));
        assert!(slate.withdraw(A, second, false) && !slate.withdraw(A, first, false), "somebody is at it");
        slate.answer(A, &Err("held".to_string()));
        assert_eq!(taken.try_recv(), Ok(Err("held".to_string())));
        assert!(taken.try_recv().is_err(), "who has asked since is told of the next look");
        assert_eq!(take(), not_forced, "nobody forces it");
        slate.answer(A, &Ok(()));
        assert_eq!(taken.try_iter().collect::<Vec<_>>(), [Ok(())]);
        let third = force(A);
        assert_eq!(take(), forced);
        // It could not be read yet, and he waits. Then it is to be written back, too.
        slate.hurry(A, start);
        assert_eq!(take(), Some((What::Write, as_it_was())));
        slate.note_force(A);
        slate.put_off(A);
        slate.look(&[A.into()], start);
        assert_eq!(take(), not_forced, "it is known what he has seen");
        assert!(slate.is_forced(A), "and he waits for that");
        let fourth = force(A);
        slate.look(&[A.into()], start);
        assert_eq!(take(), forced, "somebody else has seen it as it is now");
        slate.note_force(A);
        assert!([third, fourth].into_iter().all(|number| slate.withdraw(A, number, true)) && !slate.is_forced(A));
    }

    #[test]
    fn a_zone_that_is_always_due_keeps_no_other_from_being_looked_at() {
        let (slate, start) = (Slate::default(), Instant::now());
        slate.follow(&[zone(A, MINUTE), updated(B)], None, start);
        let take = |at| slate.hold().take(at).map(|task| (task.apex.to_vec(), task.what));
        assert_eq!([take(start), take(start)].map(|task| task.map(|(_, what)| what)), [Some(What::Look); 2]);
        // It changes all the time, and to write it takes as long as it may be behind.
        slate.note([A].into_iter(), start);
        slate.renew([B].into_iter(), start + MINUTE);
        slate.look(&[B.into()], start + 2 * MINUTE);
        let minute_after_minute = (1..=5).map(|minute| {
            let taken = take(start + minute * MINUTE).unwrap();
            slate.note([A].into_iter(), start + minute * MINUTE - Duration::from_secs(1));
            taken.1
        });
        let all: Vec<What> = minute_after_minute.collect();
        assert_eq!(all, [What::Write, What::Digest, What::Write, What::Look, What::Write]);
    }

    #[test]
    fn whoever_finds_the_slate_in_other_hands_does_not_wait() {
        let (slate, start, mut notes) = (Slate::default(), Instant::now(), Notes::default());
        slate.follow(&[zone(A, MINUTE), zone(B, MINUTE)], None, start);
        assert_eq!([slate.next(), slate.next()].map(|task| task.unwrap().what), [What::Look; 2]);
        [A, B].into_iter().for_each(|apex| notes.change(apex));
        notes.digest(A);
        let held = slate.hold();
        assert!(!slate.take(&mut notes, start, start + MINUTE));
        assert!(!notes.is_empty() && held.due.first().is_none());
        drop(held);
        assert!(slate.take(&mut notes, start, start + MINUTE));
        assert!(notes.is_empty());
        let take = |at| slate.hold().take(at).map(|task| (task.apex.to_vec(), task.what));
        assert_eq!(
            [take(start + MINUTE), take(start + MINUTE)],
            [Some((A.to_vec(), What::Write)), Some((B.to_vec(), What::Write))]
        );
        assert_eq!([take(start + MINUTE), take(start + MINUTE)], [Some((A.to_vec(), What::Digest)), None]);
    }

    #[test]
    fn another_configuration_keeps_what_is_owed() {
        let (slate, start) = (Slate::default(), Instant::now());
        slate.follow(&[zone(A, MINUTE), zone(B, MINUTE)], None, start);
        assert_eq!([slate.next(), slate.next()].map(|task| task.unwrap().apex), [A.into(), B.into()]);
        slate.note([A, B].into_iter(), start);
        let moved = Zone { origin: Some("g".into()), ..zone(A, MINUTE) };
        slate.follow(slice::from_ref(&moved), None, start);
        let take = |at| slate.hold().take(at).map(|task| (task.apex.to_vec(), task.file, task.what));
        let of_a = |what| Some((A.to_vec(), PathBuf::from("g"), what));
        assert_eq!(take(start), of_a(What::Look), "its file is another");
        assert_eq!(take(start), None);
        assert_eq!(take(start + MINUTE), of_a(What::Write));
        assert_eq!(take(start + MINUTE), None, "B is not written back any more");
        slate.follow(slice::from_ref(&moved), None, start);
        assert_eq!(take(start), None, "nothing is another");
        slate.follow(&[Zone { write_back: Some(2 * MINUTE), ..moved }], None, start);
        assert_eq!(take(start), of_a(What::Look), "its time is another: it may be behind");
    }
}
