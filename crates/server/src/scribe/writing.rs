//! Writes what is served of a zone into its file.

use super::origin::{self, Known, Means, NONE, Origin};
use super::slate::Task;
use super::{Done, Scribe, Undone, aside, outline};
use crate::clock::rfc3339;
use crate::history;
use crate::images::fingerprint_of;
use crate::images::laying;
use crate::images::sound::{Sound, damaged};
use std::io;
use std::path::Path;
use store::atomic::{self, Output, prepare};
use store::folder::open_file;

impl Scribe {
    /// When an update made the change that led to this serial, if it was before the start.
    fn last_update(&mut self, apex: &[u8], serial: u32) -> Option<u64> {
        let all = self.last_updates.get_or_insert_with(|| history::last_updates(&self.past.data_dir));
        all.get(&fingerprint_of(apex)).filter(|(to, _)| *to == serial).map(|(_, when)| when.wall_s)
    }

    pub(super) fn write_back(
        &mut self,
        task: &Task,
        file: &Path,
        was: String,
        mut origin: Origin,
    ) -> Result<Done, Undone> {
        let apex = task.apex.clone();
        // Together: of what is served.
        let (now, last) = self.press.have_done(move |press, books| {
            let now = press.current();
            let serial = laying::serial(now.image.view(), &apex);
            (now, serial.and_then(|serial| books.unwritten.changed_at(&apex, serial)))
        });
        // Not compared: of 70 MB two are read, every few seconds.
        let sound = Sound::as_known(&now.image);
        let Some(zone) = sound.zone(&task.apex)? else { return Ok(Done::Current) };
        let serial = zone.serial().map_err(damaged)?;
        if origin.is_version(&was, serial) {
            return Ok(Done::Current);
        }
        let last = last.or_else(|| self.last_update(&task.apex, serial));
        let since = last.map(rfc3339);
        let first_line = origin::first_line(serial, since.as_deref());
        let (folder, target) = parts(file)?;
        // Not for each zone: it is listed as a whole.
        if self.swept.insert(folder.to_path_buf()) {
            atomic::sweep(folder);
        }
        let old = open_file(file).ok();
        let before = self.outlines.remove(&task.apex);
        let before = before.filter(|outline| old.as_ref().is_some_and(|old| outline.is_of(old)));
        let (mut new, mut outline, stood) = (None, None, origin.known().to_vec());
        let text = |out: &mut Output| {
            if file.try_exists()? {
                resemble(out, file)?;
            }
            outline =
                Some(outline::write(outline::PASSAGE, &now.image, &zone, &first_line, before.as_ref(), old, out)?);
            sound.holds()
        };
        let check = |temporary: &Path| {
            let known = Known::new(Means::Written, serial, origin::stamp(temporary));
            let written = new.insert(Known { since: since.clone(), ..known });
            // Of one that was moved away it stays known, with its records, until another has its name: it may be back before that.
            let before = origin.known().iter().filter(|known| was == NONE || known.is(&was)).cloned();
            let known = before.chain([written.clone()]).collect();
            origin.remember(known)?;
            // As late as can be.
            if origin.stamp(file) == was { Ok(()) } else { Err(io::Error::other("it was edited just now")) }
        };
        let prepared = prepare(folder, target, None, text, check);
        // What nobody has seen is no version that somebody may have edited: his is of the one that stood there.
        let prepared = match prepared {
            Err(e) if new.is_some() => {
                origin.remember(stood)?;
                return Err(history::unwritable(&e).into());
            }
            prepared => prepared.map_err(|e| history::unwritable(&e))?,
        };
        let exchanged = prepared.exchange(&aside::name(target));
        let is_ours = new.as_ref().is_some_and(|new| new.is(&origin::stamp(file)));
        let is_aside = match exchanged {
            Err(e) if !is_ours => {
                origin.remember(stood)?;
                return Err(e.into());
            }
            exchanged => exchanged?,
        };
        let named = outline.and_then(|outline| outline.named(file));
        named.filter(|_| is_ours).map(|outline| self.outlines.insert(task.apex.clone(), outline));
        if is_aside {
            let is_edited = self.keep_edit(&task.apex, file, &origin)?;
            if is_edited && aside::clear(file, &mut origin).map_err(|e| history::unwritable(&e))? {
                origin.remember(stood)?;
            }
            // What went aside stays a moment: somebody may still be writing to it.
            let done = self.look_again(task);
            return Ok(if is_edited { done } else { Done::Written });
        }
        // From here on it is known which version somebody edits.
        origin.remember(new.into_iter().collect())?;
        Ok(Done::Written)
    }
}

/// Gives a file that is to take another one's place owner, group, mode and access list of that.
pub fn resemble(out: &Output, other: &Path) -> io::Result<()> {
    let why = "its owner, group, mode and access list cannot be kept; make it the server's user's, and its group one of that user";
    // It is not the folder that hinders.
    out.resemble(other).map_err(|e| io::Error::other(format!("{why} ({e})")))
}

fn parts(file: &Path) -> Result<(&Path, &str), String> {
    let folder = file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let name = file.file_name().and_then(|name| name.to_str());
    folder.zip(name).ok_or_else(|| format!("{} is no name that can be written", file.display()))
}
