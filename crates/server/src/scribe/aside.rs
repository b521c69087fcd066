//! What stood under the name of a zone's file when another took that name: it goes aside in the same step, so an edit that came
//! at the last moment is not gone.
//!
//! ```text
//! .NAME.aside   one that we know (see `origin`): it is of no use      an edit, and NAME is one that we know: it goes back
//!               an edit, and so is NAME: both stay
//! .NAME.unknown the same, after all that was known of NAME was lost; a second one .NAME.unknown.1, and so on
//! ```
//! A crash at any moment leaves one of these.

use crate::scribe::origin::{Means, NONE, Origin, stamp};
use std::io;
use std::iter;
use std::path::{Path, PathBuf};
use store::atomic::{exchange, rename_new, sync_folder};

/// The name of what goes aside, below the file's folder.
pub fn name(file: &str) -> String {
    format!(".{file}.aside")
}

fn of(file: &Path) -> Option<PathBuf> {
    file.file_name()?.to_str().map(|of| file.with_file_name(name(of)))
}

fn is_known(file: &Path, origin: &Origin) -> bool {
    let is = origin.stamp(file);
    is == NONE || origin.known().iter().any(|known| known.is(&is))
}

/// The same of what went aside, and has another name since.
fn was_known(aside: &Path, origin: &Origin) -> bool {
    let is = origin.stamp(aside);
    is == NONE || origin.known().iter().any(|known| known.is_renamed(&is))
}

/// Puts an edit back that went aside. True: there was one.
pub fn give_back(file: &Path, origin: &Origin) -> io::Result<bool> {
    let Some(aside) = of(file).filter(|aside| !was_known(aside, origin)) else { return Ok(false) };
    if origin.known().is_empty() {
        // One that was moved there before stays, too.
        let names = iter::once("unknown".to_string()).chain((1..).map(|n| format!("unknown.{n}")));
        let moves = names.map(|unknown| rename_new(&aside, &aside.with_extension(unknown)));
        let moved = moves.skip_while(|moved| moved.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists));
        return moved.take(1).collect::<io::Result<()>>().map(|()| false).map_err(|e| named(&aside, &e));
    }
    // All files have been copied to another place, as they were: neither is an edit.
    if [&aside, file].into_iter().all(|file| origin.known().iter().any(|known| known.is_copied_as(&stamp(file)))) {
        return std::fs::remove_file(&aside).map(|()| false).map_err(|e| named(&aside, &e));
    }
    if is_known(file, origin) {
        return exchange(&aside, file).map(|()| true);
    }
    let why = "was edited twice while it was written back; put there what is wanted of";
    Err(io::Error::other(format!("{} {why} {}, and remove that", file.display(), aside.display())))
}

fn named(aside: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{} cannot be moved or removed: {e}", aside.display()))
}

/// Removes what went aside and is no edit; from then on it is not known any more. True: there was something.
pub fn clear(file: &Path, origin: &mut Origin) -> io::Result<bool> {
    let Some(aside) = of(file).filter(|aside| aside.exists() && was_known(aside, origin)) else { return Ok(false) };
    std::fs::remove_file(&aside).map_err(|e| named(&aside, &e))?;
    // Before what is known of it is forgotten: should the disk lose the removal alone, it would come back as an edit.
    aside.parent().map_or(Ok(()), sync_folder)?;
    let is = origin.stamp(file);
    let last = origin.known().last().filter(|last| last.means == Means::Written && last.is(&is)).cloned();
    last.map_or(Ok(()), |last| origin.remember(vec![last]))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scribe::origin::{Known, full_stamp};
    use crate::update::ledger::FOLDER;
    use std::io::Write;
    use store::atomic::{Prepared, prepare};

    struct Stage {
        data: PathBuf,
        file: PathBuf,
        origin: Origin,
    }

    impl Stage {
        /// A file that is known, and another that is about to take its name.
        fn new(name: &str) -> (Stage, Prepared) {
            let data = std::env::temp_dir().join(format!("dunlin-aside-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&data);
            std::fs::create_dir_all(data.join(FOLDER)).unwrap();
            let (file, mut origin) = (data.join("z"), Origin::of(&data, b"\x01z\0").unwrap());
            std::fs::write(&file, "old").unwrap();
            let mut new = String::new();
            let check = |path: &Path| {
                new = stamp(path);
                Ok(())
            };
            let prepared = prepare(&data, "z", None, |out| out.write_all(b"written"), check).unwrap();
            let known = |means, stamp| Known::new(means, 7, stamp);
            origin.remember(vec![known(Means::Read, full_stamp(&file)), known(Means::Written, new)]).unwrap();
            (Stage { data, file, origin }, prepared)
        }

        /// What a look finds out, perhaps after a crash.
        fn look(&mut self) -> io::Result<bool> {
            self.origin = Origin::of(&self.data, b"\x01z\0").unwrap();
            let is_back = give_back(&self.file, &self.origin)?;
            clear(&self.file, &mut self.origin).map(|_| is_back)
        }

        fn holds(&self) -> (String, Vec<String>) {
            let names = std::fs::read_dir(&self.data).unwrap().map(|n| n.unwrap().file_name().into_string().unwrap());
            let mut beside: Vec<String> = names.filter(|n| n != "z" && n != FOLDER).collect();
            beside.sort();
            (std::fs::read_to_string(&self.file).unwrap(), beside)
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.data);
        }
    }

    const NOTHING: Vec<String> = vec![];

    #[test]
    fn what_was_known_goes() {
        let (mut stage, prepared) = Stage::new("known");
        assert!(prepared.exchange(&name("z")).unwrap());
        assert_eq!(stage.holds(), ("written".to_string(), vec![".z.aside".to_string()]));
        assert!(!stage.look().unwrap());
        assert_eq!(stage.holds(), ("written".to_string(), NOTHING));
        let known: Vec<Means> = stage.origin.known().iter().map(|known| known.means).collect();
        assert_eq!(known, [Means::Written], "whoever puts the old one back edits");
    }

    #[test]
    fn an_edit_between_the_last_look_and_the_new_name_comes_back() {
        let (mut stage, prepared) = Stage::new("edit");
        std::fs::write(&stage.file, "an edit").unwrap();
        assert!(prepared.exchange(&name("z")).unwrap());
        assert!(stage.look().unwrap());
        assert_eq!(stage.holds(), ("an edit".to_string(), NOTHING));
        assert!(!stage.look().unwrap());
        assert_eq!(stage.origin.known().len(), 2, "what is known is what was before, and what was written");
    }

    #[test]
    fn whoever_still_writes_to_the_old_file_has_it_back() {
        let (mut stage, prepared) = Stage::new("open");
        let mut editor = std::fs::File::options().append(true).open(&stage.file).unwrap();
        assert!(prepared.exchange(&name("z")).unwrap());
        editor.write_all(b" and more").unwrap();
        assert!(stage.look().unwrap());
        assert_eq!(stage.holds(), ("old and more".to_string(), NOTHING));
    }

    #[test]
    fn of_two_edits_none_is_lost() {
        let (mut stage, prepared) = Stage::new("twice");
        std::fs::write(&stage.file, "an edit").unwrap();
        assert!(prepared.exchange(&name("z")).unwrap());
        std::fs::write(&stage.file, "another edit").unwrap();
        let why = stage.look().unwrap_err().to_string();
        assert!(why.contains("z was edited twice") && why.contains(".z.aside, and remove that"), "{why}");
        assert_eq!(stage.holds(), ("another edit".to_string(), vec![".z.aside".to_string()]));
    }

    #[test]
    fn of_what_nothing_is_known_nothing_is_done() {
        let (mut stage, prepared) = Stage::new("unknown");
        assert!(prepared.exchange(&name("z")).unwrap());
        std::fs::remove_file(stage.data.join(FOLDER).join("z.origin")).unwrap();
        assert!(!stage.look().unwrap());
        assert_eq!(stage.holds(), ("written".to_string(), vec![".z.unknown".to_string()]));
        // There is one already.
        std::fs::write(stage.data.join(".z.aside"), "another").unwrap();
        assert!(!stage.look().unwrap());
        let both = vec![".z.unknown".to_string(), ".z.unknown.1".to_string()];
        assert_eq!(stage.holds(), ("written".to_string(), both));
        assert_eq!(std::fs::read(stage.data.join(".z.unknown")).unwrap(), b"old");
    }

    #[test]
    fn a_stop_before_the_names_change_leaves_nothing_but_the_old_file() {
        let (mut stage, prepared) = Stage::new("stop");
        drop(prepared);
        std::fs::write(stage.data.join(".z.aside"), "written").unwrap();
        stage
            .origin
            .remember(vec![
                Known::new(Means::Written, 7, stamp(&stage.data.join(".z.aside"))),
                Known::new(Means::Read, 7, full_stamp(&stage.file)),
            ])
            .unwrap();
        assert!(!stage.look().unwrap());
        assert_eq!(stage.holds(), ("old".to_string(), NOTHING));
    }

    #[test]
    fn what_was_copied_to_another_place_is_no_edit() {
        let (mut stage, _prepared) = Stage::new("copied");
        stage.origin.remember(vec![]).unwrap();
        let aside = stage.data.join(".z.aside");
        let known = |means, file: &Path| Known::new(means, 1, stamp(file));
        std::fs::write(&aside, "old").unwrap();
        std::fs::write(&stage.file, "the new one").unwrap();
        stage.origin.remember(vec![known(Means::Edited, &aside), known(Means::Written, &stage.file)]).unwrap();
        // As cp -a does: their times stay, and their numbers do not.
        for file in [&aside, &stage.file] {
            let (text, time) = (std::fs::read(file).unwrap(), std::fs::metadata(file).unwrap().modified().unwrap());
            let copy = file.with_extension("copy");
            std::fs::write(&copy, text).unwrap();
            std::fs::File::open(&copy).unwrap().set_modified(time).unwrap();
            std::fs::rename(&copy, file).unwrap();
        }
        assert!(!give_back(&stage.file, &stage.origin).unwrap() && !aside.exists());
        assert_eq!(std::fs::read_to_string(&stage.file).unwrap(), "the new one");
    }
}
