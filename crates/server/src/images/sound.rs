//! Reading an image for what is written into files: these are believed from then on, so nothing may get there that was never so. A
//! page that differs from its checksum is `Damaged` for whoever reads it once it has been compared; where a read fails, zeros stand
//! meanwhile, and the failures are counted.

use image::{Damaged, Image, Zone};
use std::io;
use store::Stretch;

pub struct Sound<'i> {
    image: &'i Image<Stretch>,
    faults: u32,
}

/// How often the pages are compared anew because reads have failed meanwhile.
const TRIES: usize = 3;

impl Sound<'_> {
    /// All pages are compared first: 0.06 s for 230 MB.
    pub fn compared(image: &Image<Stretch>) -> Sound<'_> {
        for _ in 0..TRIES {
            let before = image.faults();
            image.compare(0, usize::MAX);
            if image.faults() == before {
                break;
            }
        }
        Sound::as_known(image)
    }

    /// With what is known of the pages.
    pub fn as_known(image: &Image<Stretch>) -> Sound<'_> {
        Sound { image, faults: image.faults() }
    }
}

impl<'i> Sound<'i> {
    /// None: there is no such zone.
    pub fn zone(&self, apex: &[u8]) -> io::Result<Option<Zone<'i>>> {
        self.image.view().zone_of(apex).map_err(damaged)
    }

    /// Err: what was read of it may be zeros. To be asked when all is read, before it counts.
    pub fn holds(&self) -> io::Result<()> {
        if self.image.faults() == self.faults { Ok(()) } else { Err(damaged(Damaged)) }
    }
}

/// What is said then.
pub const DAMAGED: &str = "the image that is served is damaged";

pub fn damaged(_: Damaged) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, DAMAGED)
}
