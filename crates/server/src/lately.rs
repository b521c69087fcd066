//! What was served last, and is not in the image: laid over it before the server ended, and not folded in. The history knows the way
//! there, so a start weighs new versions against that, and serves it where a file cannot be served.

use crate::history::{CHANGE_OCTETS_MAX, changes_since, later};
use crate::images;
use image::{Image, Zone};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;
use transfer::Entry;

/// Read once, for the first who asks.
#[derive(Debug)]
pub struct Lately {
    data_dir: PathBuf,
    /// When the image was made.
    since: SystemTime,
    changes: OnceLock<Changes>,
}

/// What has changed since, by zone, oldest first. Bound: `CHANGE_OCTETS_MAX` in all; of what is more only the serials are known.
#[derive(Debug, Default)]
struct Changes {
    ends: HashMap<Box<[u8]>, u32>,
    ways: HashMap<Box<[u8]>, VecDeque<Entry>>,
    octets: usize,
}

impl Changes {
    fn push(&mut self, entry: Entry) {
        self.ends.insert(entry.zone.clone(), entry.diff.to);
        self.octets += entry.diff.octets();
        if self.octets <= CHANGE_OCTETS_MAX {
            self.ways.entry(entry.zone.clone()).or_default().push_back(entry);
        }
    }
}

impl Lately {
    pub fn of(data_dir: &Path) -> Lately {
        let image = std::fs::metadata(data_dir.join(images::FOLDER).join(images::IMAGE));
        // Without an image nobody asks.
        let since = image.and_then(|found| found.modified()).unwrap_or_else(|_| SystemTime::now());
        Lately { data_dir: data_dir.into(), since, changes: OnceLock::new() }
    }

    fn changes(&self) -> &Changes {
        self.changes.get_or_init(|| {
            let mut changes = Changes::default();
            changes_since(&self.data_dir, self.since, |entry| changes.push(entry));
            changes
        })
    }

    /// The serial that a zone was served with last, if that changed since.
    pub fn serial(&self, apex: &[u8]) -> Option<u32> {
        self.changes().ends.get(apex).copied()
    }

    /// Whether it was another version than the image has.
    pub fn is_other<M: AsRef<[u8]>>(&self, image: &Image<M>, apex: &[u8]) -> bool {
        let has = || image.view().zone_of(apex).ok()??.serial().ok();
        self.serial(apex).is_some_and(|last| has().is_some_and(|serial| serial != last))
    }

    /// The zone as it was served last, in an image of its own. None: as this image has it, or nobody knows.
    pub fn version<M: AsRef<[u8]>>(&self, image: &Image<M>, zone: &Zone<'_>) -> Option<Image<Vec<u8>>> {
        let apex = zone.apex().ok()?.apex_name().ok()?;
        let changes = self.changes().ways.get(apex).filter(|_| self.is_other(image, apex))?;
        later(zone, changes, self.serial(apex)?)
    }
}
