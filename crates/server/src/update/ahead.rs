//! What a change that no message asks for, as an edit, makes of names: found out by whoever asks for it, so that no update waits for that. Of a change of
//! 300,000 names it takes half a second.

use crate::images::laying::{self, Seen, Standing};
use crate::images::sound;
use crate::update::intake::Unmade;
use crate::update::unwritten::Names;
use image::Image;
use store::Stretch;
use transfer::{Diff, Layer, Misfit, update};

pub struct Ahead {
    /// The zone, as it was then.
    seen: Seen,
    names: Names,
}

impl Ahead {
    /// None: whoever makes the change says why it cannot be.
    pub fn of(image: &Image<Stretch>, apex: &[u8], diff: &Diff) -> Option<Ahead> {
        let seen = Seen::of(image, &laying::zone(image.view(), apex)?)?;
        Some(Ahead { seen, names: changed(image, apex, diff).ok()? })
    }

    /// The same of this image. None: it is to be found out anew.
    pub fn still(self, image: &Image<Stretch>, apex: &[u8]) -> Option<Names> {
        let zone = laying::zone(image.view(), apex)?;
        self.seen.is_current(image, &zone).then_some(self.names)
    }
}

/// The names that a change leaves otherwise, as they are then.
pub fn changed(image: &Image<Stretch>, apex: &[u8], diff: &Diff) -> Result<Names, Unmade> {
    let standing = Standing::find(image.view(), apex).ok_or_else(|| "the zone is not served".to_string())?;
    let mut layer = Layer::over(standing);
    layer.follow(diff).map_err(|misfit| match misfit {
        Misfit::Unreadable => Unmade::Failed(sound::DAMAGED.to_string()),
        Misfit::Record(_) => Unmade::Misfit,
    })?;
    update::unfit(apex, &layer).map_or(Ok(()), |why| Err(why.to_string()))?;
    Ok(layer.into_names())
}
