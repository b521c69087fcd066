//! The zones of `[[zone]]`: found by their names, however many there are, and shared by all who have to know them.

use super::shared::is_ours;
use super::zones::Zone;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use wire::hash::siphash;

/// In the order of the configuration; no two have the same apex. A copy is the same zones, until it is told where one lies.
#[derive(Clone, Debug, Default)]
pub struct Written(Arc<Zones>);

#[derive(Clone, Debug, Default)]
struct Zones {
    zones: Vec<Zone>,
    places: HashMap<Box<[u8]>, usize>,
    names: u64,
    /// Fingerprints of the names of files that we write, made for the first who asks.
    ours: OnceLock<HashSet<u64>>,
}

/// What tells the names of zones: that of all is the sum of those of its parts.
pub fn names_of<'z>(apexes: impl Iterator<Item = &'z [u8]>) -> u64 {
    apexes.map(|apex| siphash::<1, 3>(b"zones in dunlin.", apex).wrapping_add(1)).fold(0, u64::wrapping_add)
}

impl Written {
    /// Of zones with the same apex the last is found.
    pub fn new(zones: Vec<Zone>) -> Written {
        let places = zones.iter().enumerate().map(|(at, zone)| (zone.apex.clone(), at)).collect();
        let names = names_of(zones.iter().map(|zone| &*zone.apex));
        Written(Arc::new(Zones { zones, places, names, ours: OnceLock::new() }))
    }

    pub fn find(&self, apex: &[u8]) -> Option<&Zone> {
        self.0.places.get(apex).and_then(|&at| self.0.zones.get(at))
    }

    /// As it is configured; one of which nothing is has this file.
    pub fn zone(&self, apex: Box<[u8]>, file: PathBuf) -> Zone {
        self.find(&apex).cloned().unwrap_or_else(|| Zone::new(apex, file))
    }

    /// Those with these names have the same.
    pub fn names(&self) -> u64 {
        self.0.names
    }

    /// Those that say this write the same files.
    pub fn files_of_ours(&self) -> u64 {
        let hash = |zone: &Zone| siphash::<1, 3>(b"whose files we w", zone.origin().as_os_str().as_bytes());
        self.iter().filter(|zone| is_ours(zone)).map(hash).fold(0, u64::wrapping_add)
    }

    /// True if one is a copy of the other, and nobody has said since where one of its zones lies.
    pub fn is(&self, other: &Written) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether one of these has a file of this name that we write.
    pub fn is_named_like_ours(&self, name: &OsStr) -> bool {
        let print = |name: &OsStr| siphash::<1, 3>(b"files we write  ", name.as_bytes());
        let ours = || self.iter().filter(|zone| is_ours(zone)).filter_map(|zone| zone.origin().file_name());
        self.0.ours.get_or_init(|| ours().map(print).collect()).contains(&print(name))
    }

    /// To say where they lie; their names stay.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Zone> {
        let own = Arc::make_mut(&mut self.0);
        own.ours = OnceLock::new();
        own.zones.iter_mut()
    }
}

impl Deref for Written {
    type Target = [Zone];

    fn deref(&self) -> &[Zone] {
        &self.0.zones
    }
}
