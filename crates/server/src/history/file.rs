//! A zone's file written anew with what the zone was, so that an edit at that moment is not lost.

use super::line;
use crate::log;
use crate::scribe;
use crate::scribe::origin::{said_version, stamp};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use store::atomic::{Output, exchange, prepare};
use transfer::Record;

/// A file that took another one's place.
#[derive(Debug)]
pub struct Replaced {
    file: PathBuf,
    /// As it was written.
    is: String,
    /// Where the other one stands meanwhile; None: the file system cannot let it stand aside, and it is gone.
    aside: Option<PathBuf>,
}

impl Replaced {
    /// What was there before is not wanted any more.
    pub fn settle(self) {
        self.aside.iter().for_each(|aside| let_go_of(aside));
    }

    /// What was there before is there again.
    pub fn undo(self) -> io::Result<()> {
        let aside = self.aside.ok_or_else(|| io::Error::other("what it held before is gone"))?;
        let is_ours = |file: &Path| stamp(file) == self.is;
        if is_ours(&self.file) {
            exchange(&aside, &self.file)?;
            if is_ours(&aside) {
                return std::fs::remove_file(aside);
            }
            // Somebody has edited it after that look.
            exchange(&aside, &self.file)?;
        }
        Err(io::Error::other(format!("it was edited meanwhile; what it held before lies in {}", aside.display())))
    }
}

/// What was asked for is done, whether what was there before goes or stays beside it.
pub fn let_go_of(aside: &Path) {
    if let Err(e) = std::fs::remove_file(aside) {
        log::warn("what a command has put aside stays", &[("file", &aside.display()), ("why", &e)]);
    }
}

/// Another name than that of what goes aside when updates are written back: nothing is known of these files.
fn aside_of(name: &str) -> String {
    format!(".{name}.back")
}

/// What somebody who was killed has left beside a file.
pub fn left_beside(file: &Path) -> Option<PathBuf> {
    let file = file.canonicalize().ok()?;
    Some(file.with_file_name(aside_of(file.file_name()?.to_str()?))).filter(|left| left.exists())
}

/// Writes a zone file over another one, or over the one that a link leads to, if that is as it `was`.
pub fn write<'r>(file: &Path, was: &str, records: impl Iterator<Item = &'r Record>) -> io::Result<Replaced> {
    let (file, odd) = (file.canonicalize()?, || io::Error::from(io::ErrorKind::InvalidInput));
    let (folder, name) = (file.parent().ok_or_else(odd)?, file.file_name().and_then(|n| n.to_str()).ok_or_else(odd)?);
    let text = |out: &mut Output| {
        // First of all: nobody reads it who may not read that one.
        scribe::writing::resemble(out, &file)?;
        // Should the zone come back to its updates, this is an edit of the version that they had left there.
        out.write_all(said_version(&file).unwrap_or_default().as_bytes())?;
        for record in records {
            out.write_all(line(record).as_bytes())?;
            out.write_all(b"\n")?;
        }
        Ok(())
    };
    let aside = folder.join(aside_of(name));
    if aside.exists() {
        // It may be all that there is of what somebody has written.
        let why = "was left by a command that did not end, or could not remove it: move it away, or remove it";
        return Err(io::Error::other(format!("{} {why}", aside.display())));
    }
    let edited = || io::Error::other("it was edited just now");
    // Before it has the name: somebody may edit it from then on.
    let mut is = String::new();
    let check = |temporary: &Path| {
        is = stamp(temporary);
        if stamp(&file) == was { Ok(()) } else { Err(edited()) }
    };
    let is_aside = prepare(folder, name, None, text, check)?.exchange(&aside_of(name))?;
    let replaced = Replaced { is, aside: is_aside.then_some(aside.clone()), file };
    // It may have been edited after the last look.
    if is_aside && stamp(&aside) != was {
        replaced.undo()?;
        return Err(edited());
    }
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_edit_is_not_written_over() {
        let folder = std::env::temp_dir().join(format!("dunlin-history-edit-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (file, record) = (folder.join("z"), Record::new(b"\x01z\0", 1, 60, &[192, 0, 2, 1]).unwrap());
        std::fs::write(&file, "an edit").unwrap();
        let was = stamp(&file);
        std::fs::write(&file, "another edit").unwrap();
        assert!(write(&file, &was, [&record].into_iter()).unwrap_err().to_string().contains("edited just now"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "another edit");
        let (was, mode) = (stamp(&file), std::fs::Permissions::from_mode(0o640));
        std::fs::set_permissions(&file, mode.clone()).unwrap();
        for is_wanted in [false, true] {
            let replaced = write(&file, &was, [&record].into_iter()).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "z. 60 IN A 192.0.2.1\n");
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, mode.mode());
            if is_wanted {
                replaced.settle()
            } else {
                replaced.undo().unwrap()
            }
            assert_eq!(stamp(&file) == was, !is_wanted, "what was there before is there again, as it was");
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        }
        // What somebody who was killed has put aside stays, too.
        let aside = folder.join(aside_of("z"));
        std::fs::write(&aside, "all that there is").unwrap();
        let why = write(&file, &stamp(&file), [&record].into_iter()).unwrap_err().to_string();
        assert!(why.contains(".z.back was left by a command that did not end"), "{why}");
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), "all that there is");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
