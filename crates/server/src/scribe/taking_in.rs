//! Takes in what somebody has edited in the file of a zone that updates own.

use super::edited::{self, Edit, Hindrance};
use super::origin::{self, Base, Known, Means, Origin, UNSEEN};
use super::slate::Task;
use super::{Done, REST, RETRY, Refused, Scribe, Undone, is_ahead, serial};
use crate::config::Zone;
use crate::history;
use crate::images::{fingerprint_of, name};
use crate::log;
use crate::stamp::written_at;
use crate::update::ahead::Made;
use crate::update::intake::{Unmade, Until};
use audit::Guards;
use image::Sorted;
use std::path::Path;
use std::time::{Instant, SystemTime};
use store::folder::open_file;
use transfer::Author;

/// What came of the change of an edit.
enum Outcome {
    /// If it takes a new image it will be served.
    Durable,
    /// The zone has changed so much that the file is to be read again.
    Outdated,
    /// The zone's last change is to be served first, or it has to go on from its file's serial.
    Owing,
    /// It cannot for now.
    Behind(String),
}

/// What came of reading an edit.
enum Reading {
    /// The file, or what it includes, is being written; or the zone's last change is to be served first.
    Unsettled,
    Hindered(Hindrance),
    /// It is durable; or changes nothing, and this is to be known of its file.
    Taken(Box<(Edit, Option<Origin>)>),
}

impl Scribe {
    /// Changes the zone as the file was edited.
    pub(super) fn take_in(&mut self, task: &Task, file: &Path, is: String, mut origin: Origin) -> Result<Done, Undone> {
        if let Some(seen) = &task.forced {
            self.press.slate.note_force(&task.apex);
            if origin::own(&is) == seen {
                self.forced.insert(task.apex.clone(), is.clone());
            }
        } else if !self.press.slate.is_forced(&task.apex) {
            // Whoever has said so was told that it was for nothing, or that it takes too long.
            self.forced.remove(&task.apex);
        }
        // Of an edit that came after that nobody has said so.
        let is_forced = self.forced.get(&task.apex).is_some_and(|forced| *forced == is);
        let serial = serial(&self.press, &task.apex);
        let waits = self
            .refused
            .get(&task.apex)
            .filter(|refused| refused.stamp == is && refused.serial == serial && refused.guards == task.guards);
        if let Some(refused) = waits.filter(|_| !is_forced) {
            return Err(Undone::Held(refused.why.clone()));
        }
        if !file.exists() || is_being_written(file) || origin.includes().iter().any(|file| is_being_written(file)) {
            return Ok(self.look_again(task));
        }
        let refuse = |scribe: &mut Scribe, why: &str| {
            let why = not_taken_in(file, why);
            scribe.refused.insert(
                task.apex.clone(),
                Refused { stamp: is.clone(), serial, guards: task.guards, why: why.clone() },
            );
            Err(Undone::Held(why))
        };
        if let Err(e) = open_file(file) {
            // Of one whose rights alone may have changed nobody knows that it was edited.
            let is_doubtful = origin.known().iter().any(|known| known.is_renamed(&is));
            return Err(if is_doubtful { e.into() } else { self.wait(task, file, &e.to_string()) });
        }
        // Or its first line could not be read.
        let Some(base) = origin.edited(file) else { return Err(self.wait(task, file, NO_VERSION)) };
        let is_unknown = base == Base::Itself && self.refused.get(&task.apex).is_none_or(|refused| refused.stamp != is);
        let guards = task.guards.as_ref().filter(|_| !is_forced);
        let author = if is_forced { history::by_force(history::by_edit()) } else { history::by_edit() };
        let reading = self.change(task, &base, guards, &author, &mut origin, (file, &is))?;
        if is_unknown && !matches!(reading, Reading::Unsettled | Reading::Hindered(Hindrance::Elsewhere(_))) {
            let facts: [(&str, &dyn std::fmt::Display); 2] = [("zone", &name(&task.apex)), ("file", &file.display())];
            log::warn("it is not known which version of a zone its file is", &facts);
        }
        match reading {
            Reading::Unsettled => Ok(self.look_again(task)),
            Reading::Hindered(Hindrance::Wrong(why)) => refuse(self, &why),
            // That may be mended, and the file stays as it is.
            Reading::Hindered(Hindrance::Elsewhere(why)) => Err(self.wait(task, file, &why)),
            Reading::Hindered(Hindrance::Weighed(why)) => refuse(self, &weighed(&why, &task.apex)),
            Reading::Hindered(Hindrance::WeighedElsewhere(why)) => {
                Err(self.wait(task, file, &weighed(&why, &task.apex)))
            }
            Reading::Taken(taken) => {
                let (edit, kept) = *taken;
                self.refused.remove(&task.apex);
                self.forced.remove(&task.apex);
                self.remember(task, &edit, &base, &mut origin, kept)
            }
        }
    }

    /// What hinders an edit may be mended, with the file as it is.
    fn wait(&self, task: &Task, file: &Path, why: &str) -> Undone {
        self.again(task, RETRY);
        Undone::Held(not_taken_in(file, why))
    }

    /// Finds out what an edit changes, and has that made; the file as it was read is one that we know from then on. `was`: the file, and what
    /// told it when it was looked at.
    fn change(
        &self,
        task: &Task,
        base: &Base,
        guards: Option<&Guards>,
        author: &Author,
        origin: &mut Origin,
        was: (&Path, &str),
    ) -> Result<Reading, Undone> {
        // By the name that is configured: what it includes lies beside that.
        let zone = &Zone::new(task.apex.clone(), task.file.clone());
        for _ in 0..TRIES {
            let mut kept = None;
            let mut keep = |edited: &Sorted<'_>, edit: &Edit| {
                // Of what only has another stamp the base is there, or needs none.
                let is_known = matches!(base, Base::Copy(..)) || is_written(task, base, edit);
                let is_wanted = edit.diff.is_some() || !is_known;
                kept =
                    is_wanted.then(|| origin.ahead(edited, base.serial(), edit, origin::version(&zone.file).is_none()));
            };
            let mut edit = match edited::edit(&self.past, zone, base, guards, &mut keep) {
                Ok(edit) => edit,
                Err(hindrance) => return Ok(Reading::Hindered(hindrance)),
            };
            let kept = kept.transpose()?;
            let give_up = |kept: Option<Origin>| kept.iter().for_each(|next| origin.give_up(next));
            // Half of it may have been read, and who forces an edit has not seen another.
            if origin.stamp(was.0) != was.1 || edit.includes.iter().any(|file| is_being_written(file)) {
                give_up(kept);
                return Ok(Reading::Unsettled);
            }
            let (Some(diff), Some(next)) = (&edit.diff, &kept) else {
                return Ok(Reading::Taken(Box::new((edit, kept))));
            };
            let made = Made::of(&zone.apex, diff.clone(), author.clone()).following(edit.ahead.take());
            match self.make(made, next) {
                Ok(Outcome::Outdated) => give_up(kept),
                Ok(Outcome::Owing) => {
                    give_up(kept);
                    return Ok(Reading::Unsettled);
                }
                Ok(Outcome::Behind(why)) => {
                    give_up(kept);
                    return Err(why.into());
                }
                // The journal may have it: a start finds out, or the next try announces another.
                Err(why) => return Err(why.into()),
                Ok(Outcome::Durable) => {
                    kept.map_or(Ok(()), |next| origin.become_next(next))?;
                    return Ok(Reading::Taken(Box::new((edit, None))));
                }
            }
        }
        Err(Undone::TooOften)
    }

    /// Makes the change of an edit. The zone may have changed meanwhile.
    fn make(&self, made: Made, next: &Origin) -> Result<Outcome, String> {
        let (apex, since) = (made.entry.zone.clone(), made.entry.diff.from);
        next.announce(since).map_err(|e| e.to_string())?;
        match self.intake.change(made, Until::Durable) {
            Err(Unmade::Misfit) => Ok(Outcome::Outdated),
            Err(Unmade::Owing | Unmade::Behind { is_stuck: false }) => Ok(Outcome::Owing),
            Err(why @ Unmade::Behind { .. }) => Ok(Outcome::Behind(why.text())),
            // The journal may have it though that was not told.
            Err(Unmade::Failed(why)) if !self.past.was_edited(&apex, since)? => Err(why),
            _ => Ok(Outcome::Durable),
        }
    }

    /// The file is one that we know from now on. `kept`: so, if the edit changes nothing.
    fn remember(
        &mut self,
        task: &Task,
        edit: &Edit,
        base: &Base,
        origin: &mut Origin,
        kept: Option<Origin>,
    ) -> Result<Done, Undone> {
        let was_unseen = origin.known().last().is_some_and(|known| known.stamp == UNSEEN);
        let is_written =
            |serial| origin.known().last().is_some_and(|last| (last.means, last.serial) == (Means::Written, serial));
        if let (None, Base::Version(serial, _)) = (&edit.diff, base)
            && !is_written(*serial)
        {
            self.tell_old(task, *serial);
        }
        match (&edit.diff, kept, base) {
            (Some(_), ..) => {}
            (None, Some(next), _) => origin.become_next(next)?,
            (None, None, Base::Version(serial, since)) => {
                let before = origin.known().iter().find(|known| known.serial == *serial);
                let since = since.clone().or_else(|| before?.since.clone());
                let known = Known { since, ..Known::new(Means::Written, *serial, edit.stamp.clone()) };
                origin.remember(vec![known])?;
            }
            (None, None, _) => origin.is_now(edit.stamp.clone(), edit.includes.clone())?,
        }
        if let Some(names) = &edit.stays {
            let facts: [(&str, &dyn std::fmt::Display); 3] =
                [("zone", &name(&task.apex)), ("file", &task.file.display()), ("names", names)];
            log::warn("an edit is of a version before another edit, and has not what that changed: it stays", &facts);
        }
        if edit.diff.is_some() {
            log::info("an edit is taken in", &[("zone", &name(&task.apex)), ("file", &task.file.display())]);
            let apex = task.apex.clone();
            if self.press.have_done(move |_, books| books.owed.contains(&apex)) {
                self.press.slate.hurry(&task.apex, Instant::now() + REST);
                self.again(task, REST);
                return Ok(Done::Owed);
            }
        }
        let is = origin.stamp(&task.file);
        if origin.known().iter().any(|known| known.is(&is)) {
            self.press.slate.hurry(&task.apex, Instant::now());
            return Ok(Done::Edited);
        }
        // It changes nothing, and is to be read again: it was written too short a time before, or at a time to come.
        self.again(task, if was_unseen { RETRY } else { REST });
        if is_ahead(&task.file) {
            if origin.includes().is_empty() {
                self.calm.insert(fingerprint_of(&task.apex), self.sight(task));
            }
            // Of such a one it cannot be known whether it is edited again.
            let file = task.file.display();
            self.tell_unwritten(task, Some(format!("the time of {file} is to come: set it, or the clock, right")));
        }
        Ok(Done::Edited)
    }

    /// A backup was put back, perhaps: whoever did that wanted more.
    fn tell_old(&self, task: &Task, version: u32) {
        let Some(served) = serial(&self.press, &task.apex).filter(|served| *served != version) else { return };
        let way = format!("dunlin ctl zone rollback {} {version}", name(&task.apex));
        let file = task.file.display();
        let facts: [(&str, &dyn std::fmt::Display); 5] = [
            ("zone", &name(&task.apex)),
            ("file", &file),
            ("version", &version),
            ("served", &served),
            ("to_go_back", &way),
        ];
        log::warn("a zone's file holds an old version of it, and no edit of that: it changes nothing", &facts);
    }
}

/// Tries to take an edit in while updates go on.
const TRIES: usize = 5;
const NO_VERSION: &str = "its first line does not say which version was edited, as files do that are written back; put that line there \
    (`; serial N, written by dunlin for updates; keep this line`, N the serial of that version), or move the file away";

/// Whether a file holds what was written back, as its first line says; such a one includes no other. Where none is the line is of somebody who has put there
/// what `zone show` has, and whoever edits the file need not keep it.
fn is_written(task: &Task, base: &Base, edit: &Edit) -> bool {
    task.is_kept_in_step
        && matches!(base, Base::Version(..))
        && edit.includes.is_empty()
        && origin::version(&task.file).is_some()
}

fn not_taken_in(file: &Path, why: &str) -> String {
    format!("{} was edited, and its edit is not taken in: {why}", file.display())
}

fn is_being_written(file: &Path) -> bool {
    // A time to come says nothing.
    written_at(file).is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|since| since < REST))
}

/// What is said of an edit that the guards object to.
fn weighed(why: &str, apex: &[u8]) -> String {
    let zone = name(apex);
    format!(
        "{why}; look at it: dunlin ctl zone diff {zone}; have it all the same: dunlin ctl zone publish --force {zone}"
    )
}
