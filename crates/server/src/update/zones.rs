//! Zones that come to their updates, and come back to them.

use super::{AT_ONCE, Updates};
use crate::failures::Failures;
use crate::history;
use crate::images::laying;
use crate::images::manifest::OVER_MAX;
use crate::images::name;
use crate::log::{self, Seldom};
use crate::publisher::press::Books;
use crate::state::Event;
use crate::update::adoption::{self, Ready, Written};
use crate::update::ahead::Made;
use crate::update::intake::Unmade;
use crate::update::ledger::is_taken_away;
use crate::update::novices::{Change, Wanted, Wish};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, TryRecvError};
use std::time::Instant;
use transfer::record::is_newer;

/// Zones that are looked at in one go, of those that are to be taken in.
const TAKEN_IN_MAX: usize = 1024;
/// Zones that the publisher is told of by name: so many are laid over an image.
const NAMED_MAX: usize = OVER_MAX;

/// What is done about zones that are to take updates, and do not yet (`novices`).
#[derive(Default)]
pub(super) struct Coming {
    /// Some are served that have not been taken in yet.
    pub are_due: bool,
    /// Those that are being written down.
    adoption: Option<Adoption>,
    /// Those that lack their last updates, and take none. Bound: as many as are configured.
    pub lacking: HashMap<Box<[u8]>, Wish>,
    /// Who waits until all take updates that can. Bound: reloads, while zones are written down.
    pub settling: Vec<Sender<()>>,
    unadopted: Seldom,
}

struct Adoption {
    ready: Ready,
    /// Those that have their files: as many as are told to the publisher by name, and one more.
    named: Vec<String>,
}

impl Coming {
    pub fn is_nothing(&self) -> bool {
        self.settling.is_empty() && self.adoption.is_none()
    }
}

/// Zones that have come back to updates, and were served under later serials meanwhile: until they have gone on from there they take no change, for that
/// would come under a serial that secondaries have passed, or know with other content.
#[derive(Default)]
pub(super) struct Overtaken {
    /// Those that are seen to next.
    next: Vec<Box<[u8]>>,
    /// Those that could not go on from there.
    stuck: Vec<Box<[u8]>>,
    failures: Failures,
    /// Those that are seen to when they owe nothing any more.
    owing: Vec<Box<[u8]>>,
    /// Those of all these that take no change.
    zones: HashSet<Box<[u8]>>,
    said: Seldom,
}

impl Overtaken {
    pub fn add(&mut self, apex: Box<[u8]>) {
        self.zones.insert(apex.clone());
        self.next.push(apex);
    }

    pub fn has(&self, apex: &[u8]) -> bool {
        self.zones.contains(apex)
    }

    fn pop(&mut self) -> Option<Box<[u8]>> {
        let apex = self.next.pop()?;
        self.zones.remove(&apex);
        Some(apex)
    }

    /// It is tried again after a while, with all others.
    fn put_off(&mut self, apex: Box<[u8]>) {
        let now = Instant::now();
        if !self.failures.are_recent(now) {
            self.failures.add(now);
        }
        self.stuck.push(apex);
    }

    /// The same once what it owes is served, which may be under another serial.
    fn wait(&mut self, apex: Box<[u8]>) {
        self.zones.insert(apex.clone());
        self.owing.push(apex);
    }

    /// Until then it takes no change.
    fn block(&mut self, apex: Box<[u8]>) {
        self.zones.insert(apex.clone());
        self.put_off(apex);
    }

    /// True if some will take updates soon, as far as anybody knows.
    pub fn are_under_way(&self) -> bool {
        !self.next.is_empty()
    }

    pub fn is_due(&self) -> bool {
        self.are_under_way() || !self.stuck.is_empty() && !self.failures.are_recent(Instant::now())
    }

    pub fn is_nothing(&self) -> bool {
        self.next.is_empty() && self.stuck.is_empty() && self.owing.is_empty()
    }
}

impl Updates {
    pub(super) fn adopt(&mut self, mut wanted: Wanted) {
        let left = self.ledger.adopt(&mut wanted);
        left.iter().for_each(|apex| self.state.freeze(apex, false));
        let press = Arc::clone(&self.press);
        let mut books = press.hold();
        for apex in &left {
            // Whoever has the zone begin anew wants nothing of what updates have made of it.
            if (books.unwritten.is_behind(apex) || books.owes(apex)) && is_taken_away(&self.ledger.file_of(apex)) {
                books.unwritten.forget(apex);
                self.later.owing.disappoint(apex);
            }
            books.unwritten.leave(apex);
        }
        // Nothing of these is to be brought to where it was any more, and the journal need not keep it.
        let mut away: Vec<_> = books.unwritten.all_unfit().into_keys().collect();
        away.retain(|apex| is_taken_away(&self.ledger.file_of(apex)));
        away.iter().for_each(|apex| books.unwritten.is_fit(apex));
        self.set_aside(&mut wanted, &books);
        // Whoever has made a zone anew under an old name would have what that was.
        let is_ours = |change: &Change| change.wish.as_ref().is_some_and(|wish| wish.is_ours);
        let are_back = wanted.changes.iter().filter(|(apex, change)| is_ours(change) && !books.novices.has(apex));
        let are_back: Vec<_> = are_back.map(|(apex, _)| name(apex)).collect();
        if let Some(first) = are_back.first() {
            let facts: [(&str, &dyn std::fmt::Display); 2] = [("zones", &are_back.len()), ("first", first)];
            log::warn("zones go on as their updates have left them", &facts);
        }
        books.novices.follow(wanted);
    }

    /// Zones that lack their last updates take none, and those of them that have them now are wanted like others.
    fn set_aside(&mut self, wanted: &mut Wanted, books: &Books) {
        let lacking = &mut self.later.coming.lacking;
        // What is said now counts.
        wanted.changes.keys().for_each(|apex| _ = lacking.remove(apex));
        let fit = lacking.extract_if(|apex, _| books.unwritten.unfit(apex).is_none());
        wanted.changes.extend(fit.map(|(apex, wish)| (apex, Change { wish: Some(wish), was_other: false })));
        let is_unfit = |apex: &[u8], change: &Change| change.wish.is_some() && books.unwritten.unfit(apex).is_some();
        let unfit = wanted.changes.extract_if(|apex, change| is_unfit(apex, change));
        lacking.extend(unfit.filter_map(|(apex, change)| Some((apex, change.wish?))));
        for (apex, why) in lacking.keys().filter_map(|apex| Some((apex, books.unwritten.unfit(apex)?))) {
            if self.state.set_lacking(apex, why) {
                let file = self.ledger.file_of(apex);
                let facts: [(&str, &dyn std::fmt::Display); 3] =
                    [("zone", &name(apex)), ("file", &file.display()), ("why", &why)];
                log::error(
                    "a zone lacks its last updates, and takes none until a reload that finds them to fit",
                    &facts,
                );
            }
        }
    }

    /// Has zones written down that were never updated before, and makes those that are served from what was written such as take updates.
    pub(super) fn take_on(&mut self) {
        let are_written = self.end_adoption();
        self.later.coming.are_due = are_written;
        let press = Arc::clone(&self.press);
        let mut books = press.hold();
        if !books.novices.are_due() {
            return;
        }
        let of = |books: &Books, ours: bool, most: usize| -> Vec<Box<[u8]>> {
            let served = books.novices.served().filter(|(_, is_ours)| *is_ours == ours);
            served.take(most).map(|(apex, _)| apex.into()).collect()
        };
        // Others wait for updates meanwhile.
        let begun = Instant::now();
        let ours = of(&books, true, TAKEN_IN_MAX);
        let are_all = ours.len() < TAKEN_IN_MAX;
        let mut rest = ours.into_iter();
        while begun.elapsed() < AT_ONCE
            && let Some(apex) = rest.next()
        {
            self.take_in(&apex, &mut books);
        }
        let are_ours_due = rest.len() > 0 || !are_all;
        self.later.coming.are_due = are_ours_due || are_written;
        let others = if self.later.coming.adoption.is_none() { of(&books, false, usize::MAX) } else { Vec::new() };
        books.novices.set_due(are_ours_due);
        drop(books);
        if others.is_empty() {
            return;
        }
        let (data_dir, position) = (self.ledger.data_dir().to_path_buf(), self.ledger.position());
        match adoption::begin(press, data_dir, others, position) {
            Ok(ready) => self.later.coming.adoption = Some(Adoption { ready, named: Vec::new() }),
            Err(e) => {
                self.press.hold().novices.set_due(true);
                if let Some(unsaid) = self.later.coming.unadopted.untold() {
                    log::error("zones take no updates yet", &[("why", &e), ("unsaid", &unsaid)]);
                }
            }
        }
    }

    /// A zone that is served from its file of ours takes updates from now on.
    pub(super) fn take_in(&mut self, apex: &[u8], books: &mut Books) {
        let Some(rules) = books.novices.rules(apex) else { return };
        match self.ledger.take_on(apex, rules.clone()) {
            Ok(position) => {
                books.novices.take(apex);
                books.unwritten.add_zone(apex, position);
                books.notes.look(apex);
                self.state.set_taking(apex);
                // Each change has a serial of its own from now on.
                self.state.set_unnumbered(apex, false);
                if !matches!(self.ledger.overtaken(apex), Ok(None)) {
                    self.later.overtaken.add(apex.into());
                }
            }
            Err(e) => {
                // The next job of the publisher lets it try again.
                books.novices.hold_back(apex);
                self.tell_untaken(apex, &e);
            }
        }
    }

    fn tell_untaken(&self, apex: &[u8], why: &io::Error) {
        self.state.set_lacking(apex, &why.to_string());
        log::error("a zone takes no updates", &[("zone", &name(apex)), ("why", why)]);
    }

    /// A zone that comes back to updates is served as they left it. Where its file had it served meanwhile, under later serials, a secondary
    /// would take nothing of it, or take it for what it has: so it goes on from there.
    pub(super) fn outrun(&mut self) {
        let begun = Instant::now();
        let overtaken = &mut self.later.overtaken;
        if !overtaken.owing.is_empty() {
            let books = self.press.hold();
            overtaken.next.extend(overtaken.owing.extract_if(.., |apex| !books.owes(apex)));
        }
        if overtaken.next.is_empty() && overtaken.is_due() {
            overtaken.next.append(&mut overtaken.stuck);
        }
        // Others wait for updates meanwhile, and each of these is synced by itself.
        while begun.elapsed() < AT_ONCE
            && let Some(apex) = self.later.overtaken.pop()
        {
            // Should it have gone, it is taken in again when it comes back.
            let last = self.ledger.zone(&apex).map_or(Ok(None), |_| self.ledger.overtaken(&apex));
            if let Ok(None) = last {
                continue;
            }
            if self.press.hold().owes(&apex) {
                self.later.overtaken.wait(apex);
                continue;
            }
            let zone = name(&apex);
            match self.go_on(&apex, last) {
                Ok(None) => {}
                Ok(Some(last)) => {
                    log::info("a zone goes on from its file's serial", &[("zone", &zone), ("serial", &last)]);
                }
                Err(why) => {
                    if let Some(unsaid) = self.later.overtaken.said.untold() {
                        let facts: [(&str, &dyn std::fmt::Display); 3] =
                            [("zone", &zone), ("why", &why), ("unsaid", &unsaid)];
                        log::error("a zone is behind its file's serial", &facts);
                    }
                    if why != history::SIGNED {
                        self.later.overtaken.block(apex);
                    }
                }
            }
        }
        if self.later.overtaken.is_nothing() {
            self.later.overtaken.failures = Failures::default();
        }
    }

    /// The serial that it goes on from; None: it has a later one. Err: also where the serial could not be read.
    fn go_on(&mut self, apex: &[u8], last: io::Result<Option<u32>>) -> Result<Option<u32>, String> {
        let mark = self.ledger.file_of(apex).with_extension("overtaken").display().to_string();
        let last = last.map_err(|e| format!("{mark}: {e}"))?.unwrap_or_default();
        let goes_on = self.go_on_from(apex, last)?;
        if let Err(e) = self.ledger.unmark(apex, last) {
            // It is looked at again, and has a later serial then.
            log::warn("a zone stays marked", &[("file", &mark), ("why", &e)]);
            self.later.overtaken.put_off(apex.into());
        }
        Ok(goes_on.then_some(last))
    }

    /// False: it has a later serial.
    fn go_on_from(&mut self, apex: &[u8], last: u32) -> Result<bool, String> {
        let now = self.press.current();
        let zone = laying::zone(now.image.view(), apex).ok_or("the zone is not served")?;
        if zone.serial().is_ok_and(|serial| is_newer(serial, last)) {
            return Ok(false);
        }
        let diff = history::renumbering(&zone, last)?;
        self.make(&mut Made::of(apex, diff, history::by_return())).map(|_| true).map_err(Unmade::text)
    }

    /// Gives the zones that were written meanwhile their files; what has changed since is written again. True: there may be more of them.
    fn end_adoption(&mut self) -> bool {
        let (begun, press) = (Instant::now(), Arc::clone(&self.press));
        while let Some(adoption) = &mut self.later.coming.adoption {
            // Others wait for updates meanwhile.
            if begun.elapsed() >= AT_ONCE {
                return true;
            }
            let Written { apex, file } = match adoption.ready.zones.try_recv() {
                Ok(written) => {
                    adoption.ready.next();
                    written
                }
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    let mut zones = std::mem::take(&mut adoption.named);
                    self.later.coming.adoption = None;
                    // Some may have come meanwhile.
                    self.press.hold().novices.set_due(true);
                    if zones.is_empty() {
                        return false;
                    }
                    // They are to be read from there; of more than these all are looked at.
                    if zones.len() > NAMED_MAX {
                        zones.clear();
                    }
                    self.state.raise(Event::Changed { zones });
                    return false;
                }
            };
            let mut books = press.hold();
            let Some((seen, file)) = file else {
                books.novices.hold_back(&apex);
                continue;
            };
            let now = press.current();
            let zone = laying::zone(now.image.view(), &apex);
            let is_as_written = zone.is_some_and(|zone| seen.is_current(&now.image, &zone));
            // Another configuration may not want it any more.
            if !books.novices.is_served(&apex) || file.is_ok() && !is_as_written {
                continue;
            }
            match file.and_then(|file| self.written(|_| file.take_name())) {
                Ok(_) => {
                    let adoption = self.later.coming.adoption.iter_mut();
                    adoption.filter(|a| a.named.len() <= NAMED_MAX).for_each(|a| a.named.push(name(&apex).to_string()));
                    books.novices.move_to(&apex, self.ledger.file_of(&apex));
                }
                Err(e) => {
                    self.tell_untaken(&apex, &e);
                    books.novices.hold_back(&apex);
                }
            }
        }
        false
    }
}
