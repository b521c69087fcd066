//! New images that updates ask for: now and then, so that what has changed does not lie over an image for ever, and for a change that cannot be laid over
//! one. Until that is served its zone takes no change, for it would be made of a version that nobody has yet. Updates of all other zones go on; only where
//! nothing can be laid over the image any more does everybody wait.
//!
//! ```text
//!                                              where it waits    when the image is served   when it cannot be made
//! an update of a group that changed the zone   `questions`       what was found             SERVFAIL
//! a change that no message asked for           `made`            told                       told that it is not served
//!   if whoever asks waits until it is durable  nowhere           told before                told before; another one is refused at once
//! an update that came later                    aside (`lines`)   judged, before others      SERVFAIL
//! freeze, thaw, another change                 `requests`        done, in their order       done; a change is refused
//! ```
//! Bound: aside is a quarter of all the room for updates, for each key; `questions` have a quarter of its octets, of all keys. Who finds no more asks
//! again. Of the others whoever asks waits.

use super::folds::Folds;
use super::lines::{ASIDE_OCTETS_MAX, Lines};
use super::replies::Judged;
use super::{NAMES_MAX, OCTETS_MAX, Updates, Waiting};
use crate::answering::queue;
use crate::failures::Failures;
use crate::history;
use crate::images::laying::Unlaid;
use crate::images::names;
use crate::json::Json;
use crate::log::{self, Seldom};
use crate::publisher::press::Books;
use crate::refusals::{self, DONE, FAILED};
use crate::secondaries::Secondaries;
use crate::state::Event;
use crate::update::intake::{Orders, Request, Unmade, Until};
use front::Postponed;
use image::View;
use std::sync::Arc;
use std::sync::mpsc::{Sender, TryRecvError};
use std::time::Instant;
use transfer::update::Refused;

pub const UNSERVED: &str = "changes of the zone are in the journal and not served: see the log";
const ANEW: &str =
    "the zone begins anew, for its file in data-dir/journal was taken away: what had changed does not count any more";

/// A change that no message asked for, and what is told of it once it is served.
struct Owed {
    zone: Box<[u8]>,
    done: Sender<Result<Json, Unmade>>,
    facts: Json,
}

#[derive(Default)]
pub(super) struct Owing {
    pub folds: Folds,
    /// Of the new image that is under way: comes when files have been written, and it has been made of them.
    folding: Option<queue::Receiver<Result<Json, Vec<String>>>>,
    /// Something has come to be owed since that was begun: how it ends says nothing of that.
    is_late: bool,
    /// Updates of groups that have changed zones which owe something: their changes, or what was found with these in the zone.
    questions: Vec<(Postponed, Judged)>,
    /// Of these.
    octets: usize,
    made: Vec<Owed>,
    requests: Vec<Request>,
    unlaid: Seldom,
}

impl Owing {
    pub fn is_nothing(&self) -> bool {
        self.folds.is_nothing() && self.folding.is_none() && self.is_settled()
    }

    fn is_settled(&self) -> bool {
        self.questions.is_empty() && self.made.is_empty() && self.requests.is_empty()
    }

    /// The zone begins anew: whoever waits for a change of it does so in vain.
    pub fn disappoint(&mut self, apex: &[u8]) {
        let is_of = |question: &Postponed| {
            refusals::zone_of(&question.message).is_ok_and(|zone| *zone.name.fold().bytes() == *apex)
        };
        let questions = std::mem::take(&mut self.questions).into_iter();
        let told = |(question, judged): (Postponed, Judged)| {
            let is_of = is_of(&question);
            (question, if is_of { judged.failed() } else { judged })
        };
        self.questions = questions.map(told).collect();
        for owed in self.made.extract_if(.., |owed| *owed.zone == *apex) {
            // Whoever asked may have gone.
            let _ = owed.done.send(Err(ANEW.to_string().into()));
        }
    }

    /// This takes a new image.
    pub fn add(&mut self, unlaid: &Unlaid, books: &mut Books) {
        // Where nothing can be laid each group does.
        let unsaid = if unlaid.zones.is_empty() { self.unlaid.untold() } else { Some(0) };
        if let Some(unsaid) = unsaid {
            let facts: [(&str, &dyn std::fmt::Display); 3] =
                [("why", &unlaid.why), ("zones", &names(&unlaid.zones)), ("unsaid", &unsaid)];
            log::info("an update takes a new image", &facts);
        }
        (self.is_late, books.failures) = (self.folding.is_some(), Failures::default());
    }
}

impl Updates {
    /// Everybody waits.
    pub(super) fn is_at_rest(&self) -> bool {
        let books = self.press.hold();
        books.is_full && books.are_hopeful()
    }

    /// True of an update whose zone has changes that will be served soon.
    pub(super) fn has_to_wait(&self, question: &Postponed, books: &Books, view: View<'_>) -> bool {
        let owes = || self.addressed(question, view).is_ok_and(|apex| books.owes(&apex));
        !books.owed.is_empty() && books.are_hopeful() && owes()
    }

    /// Keeps what the zone that it is about cannot take yet; returns what is to be done now.
    pub(super) fn keep_back(&mut self, request: Request) -> Option<Request> {
        let zone = match &request {
            Request::Change { made, until: Until::Served, .. } => Some(made.entry.zone.clone()),
            // Whoever freezes a zone wants it to be as it will stay, and who thaws it does so after that.
            Request::Freeze { zone, .. } => history::named(zone).ok(),
            Request::Change { .. } | Request::Settle { .. } => None,
        };
        let waits = |zone: &[u8]| {
            let books = self.press.hold();
            books.owes(zone) && books.are_hopeful()
        };
        if zone.is_some_and(|zone| waits(&zone)) {
            self.later.owing.requests.push(request);
            return None;
        }
        Some(request)
    }

    /// Tells whoever asked for it, when he wants to be told.
    pub(super) fn tell_made(
        &mut self,
        zone: &[u8],
        made: Result<Json, Unmade>,
        until: Until,
        done: Sender<Result<Json, Unmade>>,
    ) {
        let is_owed = || self.press.hold().owed.contains(zone);
        match made {
            Ok(facts) if until == Until::Served && is_owed() => {
                self.later.owing.made.push(Owed { zone: zone.into(), done, facts });
            }
            // Whoever asked may have gone.
            made => _ = done.send(made),
        }
    }

    /// Answers a group, all but those whose zone has changes that will be served soon. `outcome`: of its changes.
    pub(super) fn answer_group(&mut self, group: &mut Vec<(Postponed, Judged)>, outcome: Refused, taken: &Orders) {
        let (now, press) = (self.press.current(), Arc::clone(&self.press));
        let books = press.hold();
        for (question, judged) in group.drain(..) {
            let waits = || judged.is_of_content() && self.has_to_wait(&question, &books, now.image.view());
            let octets = self.later.owing.octets + question.message.len();
            if outcome != DONE || !waits() {
                self.answer(question, judged, outcome, taken);
            } else if octets <= ASIDE_OCTETS_MAX {
                self.later.owing.octets = octets;
                self.later.owing.questions.push((question, judged));
            } else {
                // It is durable: whoever sends it again finds it done.
                self.give_up(question, taken);
            }
        }
        self.burst.ring(&self.mailboxes);
    }

    /// Has zone files written and a new image made, when it is time for that.
    pub(super) fn look_after(&mut self, taken: &Orders, lines: &mut Lines<Waiting>) {
        let outcome = self.later.owing.folding.as_ref().map(queue::Receiver::try_recv);
        if let Some(outcome) = outcome.filter(|outcome| !matches!(outcome, Err(TryRecvError::Empty))) {
            self.have_folded(&outcome.unwrap_or_else(|_| Err(vec![])), taken, lines);
        }
        // Whoever has made it, and for whatever reason.
        if self.press.hold().owed.is_empty() && !(self.later.owing.is_settled() && lines.are_all_in_turn()) {
            self.settle(DONE, taken, lines);
        }
        let (books, now) = (self.press.hold(), Instant::now());
        let (are_owed, are_lagging, names) =
            (!books.owed.is_empty() && books.are_hopeful(), books.left.takes_image(), books.unwritten.names());
        drop(books);
        let owing = &mut self.later.owing;
        owing.folds.lag(are_lagging, now);
        if owing.folding.is_some() {
            return;
        }
        let is_much = |names_max: usize| {
            let now = self.press.current();
            let octets = now.image.bytes().len().saturating_sub(now.image.bytes().map().len());
            octets > OCTETS_MAX || names > NAMES_MAX.max(names_max)
        };
        let segments = |done| self.ledger.segments_behind(done);
        if are_owed || owing.folds.is_due(now, is_much, segments) {
            owing.folds.begin(now, self.ledger.position());
            let (done, outcome) = queue::bounded(1);
            owing.folding = Some(outcome);
            self.state.raise(Event::Fold { done });
        }
    }

    /// Lets go of what a new image has settled.
    fn have_folded(&mut self, outcome: &Result<Json, Vec<String>>, taken: &Orders, lines: &mut Lines<Waiting>) {
        let is_late = std::mem::take(&mut self.later.owing.is_late);
        self.later.owing.folding = None;
        let mut books = self.press.hold();
        let (needed, names) = (books.unwritten.needed(), books.unwritten.names());
        // Whoever puts an image in another's place pays (`Press::replace`). Where none had to be, for the zone has gone or its file was served already, it is
        // paid here.
        let are_behind = books.owed.iter().any(|apex| books.unwritten.is_behind(apex));
        if outcome.is_ok() && !is_late && !are_behind {
            books.pay();
            self.later.is_noted = false;
        }
        let unserved: Vec<Box<[u8]>> = if is_late { vec![] } else { books.owed.iter().cloned().collect() };
        drop(books);
        tell(outcome, &unserved);
        // Without an image what a start has found of zones that are their updates' no more is in the journal alone.
        if outcome.is_ok() {
            // Bound: one for each image.
            let _ = self.unneeded.try_send(self.ledger.unneeded(needed));
        }
        // What is left is of updates that came meanwhile, or of zones that are not served now.
        self.later.owing.folds.end(Instant::now(), outcome.is_ok(), names);
        if !unserved.is_empty() {
            let mut books = self.press.hold();
            books.failures.add(Instant::now());
            // They may be edits, and somebody wait for them.
            unserved.iter().for_each(|apex| books.notes.look(apex));
            drop(books);
            self.settle(FAILED, taken, lines);
        }
    }

    /// Goes on with all that waits for a new image. `outcome`: of the changes for which it was to be made.
    fn settle(&mut self, outcome: Refused, taken: &Orders, lines: &mut Lines<Waiting>) {
        let owing = &mut self.later.owing;
        owing.octets = 0;
        let questions = std::mem::take(&mut owing.questions);
        let (made, requests) = (std::mem::take(&mut owing.made), std::mem::take(&mut owing.requests));
        if outcome == DONE {
            // What was cached of names may be ours now; and whoever serves an image tells of it, but perhaps later.
            self.cache.iter().for_each(|cache| cache.next_generation());
            self.state.secondaries.iter().for_each(Secondaries::have_changed);
        }
        questions.into_iter().for_each(|(question, judged)| self.answer(question, judged, outcome, taken));
        self.burst.ring(&self.mailboxes);
        for Owed { done, facts, .. } in made {
            let _ = done.send(if outcome == DONE { Ok(facts) } else { Err(UNSERVED.to_string().into()) });
        }
        lines.resume();
        // Whoever asks to have a zone frozen comes behind a group of those, as ever.
        if !requests.is_empty() && !lines.is_empty() {
            self.carry_out(taken, lines);
        }
        requests.into_iter().for_each(|request| self.on_request(request, taken));
    }
}

/// Tells the operator of what is not as it should be. `unserved`: zones for which the image was to be made.
fn tell(outcome: &Result<Json, Vec<String>>, unserved: &[Box<[u8]>]) {
    let why = match outcome {
        Ok(_) => "no image was made that has them".to_string(),
        // The server stops.
        Err(complaints) if complaints.is_empty() => return,
        Err(complaints) => complaints.join("; "),
    };
    if !unserved.is_empty() {
        let facts: [(&str, &dyn std::fmt::Display); 2] = [("why", &why), ("zones", &names(unserved))];
        log::error("changes are in the journal and not served", &facts);
    } else if outcome.is_err() {
        log::error("changes stay in the journal", &[("why", &why)]);
    }
}
