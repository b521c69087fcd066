//! Whom lists let in as long as what a start would find was served: the image, and what the history says was laid over it. A start with many zones
//! answers at once from these; who is let in since may not be meant to see what somebody has taken out of a zone before, which only its file says yet.

use crate::config::{Config, Zone};
use crate::images::Library;
use crate::images::manifest::Identity;
use crate::log;
use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use store::atomic::{sync_folder, write_atomically};
use wire::hash::siphash;

pub const FILE: &str = "zones.admitted";
/// In the place of a list: there was one, and then another.
const SEVERAL: u64 = 0;

/// Fingerprints of the lists of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// That of the server, which counts for all zones without one of their own.
    server: u64,
    /// Of zones with lists of their own, by those of their names.
    zones: HashMap<u64, u64>,
}

fn fingerprint(what: &dyn Display) -> u64 {
    siphash::<1, 3>(b"who is admitted.", what.to_string().as_bytes()) | 1
}

fn named(apex: &[u8]) -> u64 {
    siphash::<1, 3>(b"whose list it is", apex)
}

impl Admitted {
    pub fn of(config: &Config) -> Admitted {
        let zones = config.roster.written.iter();
        let with_own = zones.filter(|zone| zone.allow_query.is_some() || !zone.allow_transfer.0.is_empty());
        let lists = |zone: &Zone| fingerprint(&format_args!("{:?} {:?}", zone.allow_query, zone.allow_transfer));
        Admitted {
            server: fingerprint(&format_args!("{:?}", config.server.allow_query)),
            zones: with_own.map(|zone| (named(&zone.apex), lists(zone))).collect(),
        }
    }

    /// Whether the list of the server is the same.
    pub fn are_by_the_same_server(&self, now: &Admitted) -> bool {
        self.server == now.server
    }

    /// Whether the lists of a zone are the same.
    pub fn are_the_same(&self, now: &Admitted, apex: &[u8]) -> bool {
        let (apex, of) = (named(apex), |all: &Admitted, apex| all.zones.get(&apex).copied());
        of(self, apex) == of(now, apex)
    }

    /// First these were let in, then those.
    fn and_then(&self, now: &Admitted) -> Admitted {
        let both = |before, now| if before == now { before } else { SEVERAL };
        let lists = |all: &Admitted, apex| all.zones.get(apex).copied().unwrap_or(SEVERAL);
        let apexes = self.zones.keys().chain(now.zones.keys());
        Admitted {
            server: both(self.server, now.server),
            zones: apexes.map(|apex| (*apex, both(lists(self, apex), lists(now, apex)))).collect(),
        }
    }

    /// A line for the image, and one for each zone.
    fn text(&self, image: Identity) -> String {
        let mut zones: Vec<_> = self.zones.iter().collect();
        zones.sort_unstable();
        let zones = zones.into_iter().map(|(apex, lists)| format!("{apex} {lists}\n"));
        format!("{} {} {}\n", image.size, image.seed, self.server) + &zones.collect::<String>()
    }

    fn parse(text: &str, image: Identity) -> Option<Admitted> {
        let numbers = |line: &str| line.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>();
        let mut lines = text.lines().map(numbers);
        let [size, seed, server] = lines.next()??[..] else { return None };
        let zone = |numbers: Option<Vec<u64>>| match numbers?[..] {
            [apex, lists] => Some((apex, lists)),
            _ => None,
        };
        let zones = lines.map(zone).collect::<Option<_>>()?;
        ((size, seed) == (image.size, image.seed)).then_some(Admitted { server, zones })
    }
}

impl Library {
    /// None: nobody knows.
    pub fn admitted(&self, image: Identity) -> Option<Admitted> {
        let tell = |e: &io::Error| {
            let file = self.folder().join(FILE);
            let facts: [(&str, &dyn Display); 2] = [("file", &file.display()), ("why", e)];
            log::warn("it is not known whom lists let in before", &facts);
        };
        self.read_admitted(image).inspect_err(tell).unwrap_or_default()
    }

    fn read_admitted(&self, image: Identity) -> io::Result<Option<Admitted>> {
        match std::fs::read_to_string(self.folder().join(FILE)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            text => text.map(|text| Admitted::parse(&text, image)),
        }
    }

    /// What is served, and was before, comes to be for these. False: that cannot be noted.
    pub fn admit(&self, image: Identity, now: &Admitted) -> bool {
        let noted = match self.read_admitted(image) {
            Ok(before) => match before.filter(|before| before != now) {
                None => return true,
                Some(before) => self.note_admitted(image, &before.and_then(now)),
            },
            Err(e) => Err(e),
        };
        let Err(e) = noted else { return true };
        // Then nobody is to know.
        let file = self.folder().join(FILE);
        let gone = match std::fs::remove_file(&file) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            gone => gone.and_then(|()| sync_folder(self.folder())),
        };
        if let Err(gone) = &gone {
            let why = format!("{e}; {gone}");
            let facts: [(&str, &dyn Display); 2] = [("file", &file.display()), ("why", &why)];
            log::warn("the next start may show what it should not to whom lists have let in", &facts);
        }
        gone.is_ok()
    }

    /// This image is all that is served, to these.
    pub fn note_admitted(&self, image: Identity, now: &Admitted) -> io::Result<()> {
        if self.admitted(image).is_some_and(|noted| noted == *now) {
            return Ok(());
        }
        write_atomically(self.folder(), FILE, None, |out| out.write_all(now.text(image).as_bytes())).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: Identity = Identity { size: 4096, seed: 7, names: 1 };

    fn admitted(server: u64, zones: &[(&[u8], u64)]) -> Admitted {
        Admitted { server, zones: zones.iter().map(|(apex, lists)| (named(apex), *lists)).collect() }
    }

    #[test]
    fn who_was_let_in_is_known_until_it_is_somebody_else() {
        let (a, b, c, d) = (&b"\x01a\0"[..], &b"\x01b\0"[..], &b"\x01c\0"[..], &b"\x01d\0"[..]);
        let before = admitted(5, &[(a, 1), (b, 3), (c, 5)]);
        let now = admitted(5, &[(a, 1), (b, 7), (d, 9)]);
        assert_eq!(Admitted::parse(&before.text(IMAGE), IMAGE), Some(before.clone()));
        assert_eq!(Admitted::parse(&before.text(IMAGE), Identity { seed: 8, ..IMAGE }), None);
        assert_eq!(Admitted::parse(&(before.text(IMAGE) + "1"), IMAGE), None);
        let both = before.and_then(&now);
        for (apex, is_same) in [(a, true), (b, false), (c, false), (d, false), (b"\x01e\0", true)] {
            assert_eq!(both.are_the_same(&now, apex), is_same, "{apex:?}");
            assert_eq!(both.are_the_same(&before, apex), is_same, "one that was closed, and is open again: {apex:?}");
        }
        assert!(both.are_by_the_same_server(&now));
        assert!(!both.and_then(&admitted(1, &[])).are_by_the_same_server(&before));
        assert_eq!(now.and_then(&now), now);
    }
}
