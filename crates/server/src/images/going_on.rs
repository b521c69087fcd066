//! Zones that go on as they were, though an image is made.

use crate::config::Zone;
use crate::images::Before;
use crate::images::held;
use crate::images::laying;
use crate::images::manifest::{Entry, Known, Manifest};
use crate::stamp::Looks;
use image::{Builder, Image, Zone as ImageZone};
use std::collections::HashMap;
use store::Stretch;

/// Which of the zones that nobody has asked for go on as they were.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unasked {
    ThatChanged,
    All,
}

/// Zones that go on as they were. Of those that are not wanted nobody has asked what their files say now: if these have changed, somebody may be
/// writing there, and if not, what was wrong is. And of those of which a version is held, in files that are as they were then, it would be held again, but only
/// when all zones have been read; and then they would have to be read once more without it.
pub fn as_served<'a, 'z>(
    zones: impl Iterator<Item = &'z Zone>,
    before: Before<'a>,
    wanted: &dyn Fn(&Zone) -> bool,
    unasked: Unasked,
) -> HashMap<Box<[u8]>, Kept<'a>> {
    let (Before { image, manifest }, mut looks) = (before, Looks::default());
    let mut as_known = |zone: &Zone| {
        let known = manifest.find(&zone.apex).filter(|known| known.file == zone.file)?;
        let goes_on = match known.is_current(&mut looks) {
            true if known.problem.is_some_and(held::is_held) => true,
            true if known.problem.is_none() && unasked == Unasked::ThatChanged => false,
            true => !wanted(zone),
            false if wanted(zone) => false,
            false => unasked == Unasked::All && !known.is_unread() || known.is_written_since(&mut looks),
        };
        goes_on.then_some(known)
    };
    let known: Vec<Known<'_>> = zones.filter_map(&mut as_known).collect();
    if !known.is_empty() {
        // What differs from its checksum must not get a new one.
        image.compare(0, usize::MAX);
    }
    if !image.is_whole() {
        return HashMap::new();
    }
    let keep = |known: &Known<'_>| {
        let sources = known.sources().map(|(file, stamp)| (file.to_path_buf(), stamp)).collect();
        let (apex, file, problem) =
            (Box::from(known.apex), known.file.to_path_buf(), known.problem.map(str::to_string));
        let zone = laying::zone(image.view(), known.apex);
        // It should be there.
        if zone.is_none() && problem.is_none() {
            return None;
        }
        let entry = Entry { apex, file, sources, read_s: known.read_s, problem };
        Some((known.apex.into(), Kept { zone, entry }))
    };
    known.iter().filter_map(keep).collect()
}

/// Whether somebody has written into the file of a zone that nobody has asked for since `as_served` has looked at it: half of that may have been read.
pub fn has_changed(
    zones: &[Zone],
    manifest: &Manifest,
    wanted: &dyn Fn(&Zone) -> bool,
    kept: &HashMap<Box<[u8]>, Kept<'_>>,
) -> bool {
    let mut looks = Looks::default();
    let is_other = |zone: &Zone| {
        let known = manifest.find(&zone.apex).filter(|known| known.file == zone.file);
        known.is_some_and(|known| known.is_written_since(&mut looks))
    };
    zones.iter().filter(|zone| !wanted(zone) && !kept.contains_key(&zone.apex)).any(is_other)
}

/// A zone that goes on as it was.
pub struct Kept<'a> {
    /// The records it was served with; None: nothing of it was, for its file is wrong.
    pub zone: Option<ImageZone<'a>>,
    /// Its file as it was when it turned out to be wrong, and why it is.
    pub entry: Entry,
}

/// Those of the zones of an image that are wanted, each with what is said of its file.
pub fn zones_of<'a>(image: &'a Image<Stretch>, wanted: &HashMap<&[u8], &Entry>) -> Vec<Kept<'a>> {
    let keep = |zone: ImageZone<'a>| {
        let entry = (*wanted.get(zone.apex().ok()?.apex_name().ok()?)?).clone();
        let problem = Some(held::goes_on(&entry.problem.unwrap_or_default()));
        Some(Kept { zone: Some(zone), entry: Entry { problem, ..entry } })
    };
    image.view().zones().flatten().filter_map(keep).collect()
}

/// What is known of a zone that was read just now. If its file turned out to be wrong, and the zone was served, it goes on with the records it was
/// served with: others need not be read again for that.
pub fn stand(entry: Entry, last: Option<&Image<Stretch>>, builder: &mut Builder) -> Entry {
    let Some(why) = builder.complaint().map(held::goes_on) else { return entry };
    let Some(Ok(Some(zone))) = last.map(|last| last.view().zone_of(&entry.apex)) else { return entry };
    builder.begin_zone(&entry.apex);
    let kept = Kept { zone: Some(zone), entry: Entry { problem: Some(why), ..entry.clone() } };
    let stands = keep(&kept, builder);
    // What is damaged is looked at once more, with all that is.
    if builder.complaint().is_some() { entry } else { stands }
}

/// Hands the records that a zone was served with to the builder.
pub fn keep(kept: &Kept<'_>, builder: &mut Builder) -> Entry {
    let Some(zone) = &kept.zone else {
        builder.complain(kept.entry.problem.clone().unwrap_or_default());
        return kept.entry.clone();
    };
    let mut refused = None;
    let whole = zone.for_each_record(&mut |owner, rtype, ttl, rdata| {
        if let Err(why) = builder.record(owner, rtype, ttl, rdata) {
            refused = Some(why);
        }
    });
    if whole.is_err() || refused.is_some() {
        builder.complain(refused.unwrap_or_else(|| "the image that was served is damaged".to_string()));
    }
    kept.entry.clone()
}
