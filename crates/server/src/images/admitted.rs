//! Who may have what of which zone, as long as an image was all that was served. A start with many zones answers at once from that image: whom lists
//! let in since may not be meant to see what somebody has taken out of a zone before, which only its file says yet.

use crate::config::Config;
use crate::images::Library;
use crate::images::manifest::Identity;
use std::fmt::Display;
use std::io::{self, Write};
use store::atomic::write_atomically;
use wire::hash::siphash;

const FILE: &str = "zones.admitted";

/// Tells the lists of one configuration from those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The list of the server, which counts for all zones without one of their own.
    pub by_server: u64,
    /// Those of zones.
    pub by_zones: u64,
}

impl Admitted {
    pub fn of(config: &Config) -> Admitted {
        let hash = |text: &dyn Display| siphash::<1, 3>(b"who is admitted.", text.to_string().as_bytes());
        let zones = config.roster.written.iter();
        let with_own = zones.filter(|zone| zone.allow_query.is_some() || !zone.allow_transfer.0.is_empty());
        let own = with_own
            .map(|zone| hash(&format_args!("{:?} {:?} {:?}", zone.apex, zone.allow_query, zone.allow_transfer)));
        Admitted {
            by_server: hash(&format_args!("{:?}", config.server.allow_query)),
            by_zones: own.fold(0, u64::wrapping_add),
        }
    }

    fn line(self, image: Identity) -> String {
        format!("{} {} {} {}\n", image.size, image.seed, self.by_server, self.by_zones)
    }
}

impl Library {
    /// Whom lists let in while this image was all that was served; None: nobody knows.
    pub fn admitted(&self, image: Identity) -> Option<Admitted> {
        let text = std::fs::read_to_string(self.folder().join(FILE)).ok()?;
        let numbers: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [_, _, by_server, by_zones] = numbers[..] else { return None };
        let admitted = Admitted { by_server, by_zones };
        (text == admitted.line(image)).then_some(admitted)
    }

    /// This image is all that is served, with these lists.
    pub fn note_admitted(&self, image: Identity, admitted: Admitted) -> io::Result<()> {
        if self.admitted(image) == Some(admitted) {
            return Ok(());
        }
        write_atomically(self.folder(), FILE, None, |out| out.write_all(admitted.line(image).as_bytes())).map(drop)
    }
}
