//! A change that no message asks for, as an edit: all that can be is done by whoever asks for it, so that no update waits for that. Such a change may be of
//! 300,000 names, of which it takes half a second to find out what they are then.

use crate::clock::change_now;
use crate::images::laying::{self, Seen, Standing};
use crate::images::sound;
use crate::update::intake::Unmade;
use crate::update::unwritten::{After, Names, Sheet, Wish};
use image::Image;
use std::sync::Arc;
use store::Stretch;
use transfer::{Author, Diff, Entry, Layer, Misfit, update};

/// Names of such a change, most, that are laid over the image while updates wait, which takes 9 us each; with more it takes a new one.
const LAID_MAX: usize = 10_000;

pub struct Made {
    /// Whoever asks keeps it, too, and lets go of it last: that is 600,000 records.
    pub entry: Arc<Entry>,
    /// As the journal has it.
    pub octets: Vec<u8>,
    pub ahead: Option<Ahead>,
}

impl Made {
    pub fn of(apex: &[u8], diff: Diff, author: Author) -> Made {
        // Its number is behind those of all changes that the zone has had: this one does not fit what comes meanwhile.
        let entry = Entry { zone: apex.into(), author, when: change_now(), diff };
        Made { octets: entry.encode(), entry: Arc::new(entry), ahead: None }
    }

    pub fn found_out(self, image: &Image<Stretch>) -> Made {
        Made { ahead: Ahead::of(image, &self.entry.zone, &self.entry.diff), ..self }
    }
}

pub struct Ahead {
    /// The zone, as it was then.
    seen: Seen,
    after: After,
}

impl Ahead {
    /// None: whoever makes the change says why it cannot be.
    fn of(image: &Image<Stretch>, apex: &[u8], diff: &Diff) -> Option<Ahead> {
        let seen = Seen::of(image, &laying::zone(image.view(), apex)?)?;
        Some(Ahead { seen, after: after(image, apex, diff).ok()? })
    }

    /// The same of this image. None: it is to be found out anew.
    pub fn still(self, image: &Image<Stretch>, apex: &[u8]) -> Option<After> {
        let zone = laying::zone(image.view(), apex)?;
        self.seen.is_current(image, &zone).then_some(self.after)
    }
}

/// The names that a change leaves otherwise, as they are then.
pub fn after(image: &Image<Stretch>, apex: &[u8], diff: &Diff) -> Result<After, Unmade> {
    let standing = Standing::find(image.view(), apex).ok_or_else(|| "the zone is not served".to_string())?;
    let mut layer = Layer::over(standing);
    layer.follow(diff).map_err(|misfit| match misfit {
        Misfit::Unreadable => Unmade::Failed(sound::DAMAGED.to_string()),
        Misfit::Record(_) => Unmade::Misfit,
    })?;
    update::unfit(apex, &layer).map_or(Ok(()), |why| Err(why.to_string()))?;
    let names: Names = layer.into_names();
    Ok(if names.len() > LAID_MAX {
        After::Sheet(apex.into(), Sheet::of(names))
    } else {
        After::Wishes(vec![Wish { apex: apex.into(), names }])
    })
}
