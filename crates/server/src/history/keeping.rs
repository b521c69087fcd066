//! How much of a journal is kept that nobody needs to start.

use crate::config;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// A clock that was ahead is put right sooner than that.
const DOUBTED: Duration = Duration::from_secs(3600);

/// Since when something is too old.
#[derive(Default)]
pub struct Keeping(Option<Instant>);

impl Keeping {
    /// How many segments of a journal, the newest, are to be kept; oldest first. What has just become too old stays for an hour, in which nobody puts the clock back:
    /// one that was months ahead for seconds would take all of it.
    pub fn kept(&mut self, segments: &[PathBuf], keep: &config::History) -> usize {
        let all: Vec<(&PathBuf, bool)> = segments.iter().map(|path| (path, is_older(path, keep.age))).collect();
        self.0 = self.0.or_else(|| Some(Instant::now())).filter(|_| all.iter().any(|(_, is_old)| *is_old));
        let is_sure = self.0.is_some_and(|since| since.elapsed() >= DOUBTED.min(keep.age));
        let mut octets = 0;
        let mut is_kept = |(path, is_old): &&(&PathBuf, bool)| {
            let is_within = octets < keep.octets && !(is_sure && *is_old);
            octets += std::fs::metadata(path).map_or(0, |m| m.len());
            is_within
        };
        all.iter().rev().take_while(|segment| is_kept(segment)).count()
    }
}

fn is_older(path: &Path, age: Duration) -> bool {
    let written = std::fs::metadata(path).and_then(|m| m.modified()).ok();
    written.and_then(|at| SystemTime::now().duration_since(at).ok()).is_some_and(|since| since > age)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use store::journal::{Folder, Journal};

    #[test]
    fn what_is_too_old_by_the_clock_goes_when_it_still_is_an_hour_later() {
        let folder = std::env::temp_dir().join(format!("dunlin-keeping-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let open = || Journal::open_history(Folder::open(&folder).unwrap(), 1).unwrap().0;
        let mut journal = open();
        (0..4).for_each(|n| _ = journal.append(&[[n]]).unwrap());
        let day = Duration::from_secs(86_400);
        let keep = config::History { age: day, octets: 1 << 20 };
        let mut keeping = Keeping::default();
        let kept = |keeping: &mut Keeping| keeping.kept(&journal.places().collect::<Vec<_>>(), &keep);
        assert_eq!(kept(&mut keeping), 4);
        // As if the clock were two days ahead.
        let written = |ago| {
            let at = SystemTime::now() - ago;
            journal.places().take(3).for_each(|path| File::open(path).unwrap().set_modified(at).unwrap());
        };
        written(2 * day);
        assert_eq!(kept(&mut keeping), 4);
        let an_hour_ago = |keeping: &mut Keeping| keeping.0 = keeping.0.and_then(|since| since.checked_sub(DOUBTED));
        written(Duration::ZERO);
        assert_eq!((kept(&mut keeping), keeping.0), (4, None), "it was put right");
        written(2 * day);
        kept(&mut keeping);
        an_hour_ago(&mut keeping);
        assert_eq!(kept(&mut keeping), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
