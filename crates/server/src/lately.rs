//! What was served last, and is not in the image: laid over it before the server ended, and not folded in. The history knows the way
//! there, so a start weighs new versions against that, and serves it where a file cannot be served.

use crate::history::{self, CHANGE_OCTETS_MAX, changes_since};
use crate::images;
use image::{Image, Zone};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;
use transfer::{Diff, Entry};

/// Read once, for the first who asks.
#[derive(Debug)]
pub struct Lately {
    data_dir: PathBuf,
    /// When the image was made.
    since: SystemTime,
    changes: OnceLock<Changes>,
}

/// What has changed since, and some of what came before it, by zone, oldest first. Bound: `CHANGE_OCTETS_MAX` in all; of zones of which more is
/// there nothing is known.
#[derive(Debug, Default)]
struct Changes {
    steps: HashMap<Box<[u8]>, Option<Vec<Entry>>>,
    octets: usize,
}

impl Changes {
    fn push(&mut self, entry: Entry) {
        self.octets += entry.diff.octets();
        let has_room = self.octets <= CHANGE_OCTETS_MAX;
        let steps = self.steps.entry(entry.zone.clone()).or_insert_with(|| Some(Vec::new()));
        // A way with a gap leads elsewhere.
        *steps = steps.take().filter(|_| has_room).map(|mut steps| {
            steps.push(entry);
            steps
        });
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

    /// What leads from a zone of the image to what it was when it was served last. None: it is that, or nobody knows.
    pub fn way(&self, zone: &Zone<'_>) -> Option<Diff> {
        let apex = zone.apex().ok()?.apex_name().ok()?;
        history::ahead(zone, self.changes().steps.get(apex)?.as_deref()?)
    }

    /// The zone as it was served last, in an image of its own.
    pub fn version(&self, zone: &Zone<'_>) -> Option<Image<Vec<u8>>> {
        history::later(zone, &self.way(zone)?)
    }
}
