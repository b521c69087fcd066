//! Which zones include which files, told zone by zone: what one costs is what it includes, however many others there are.
//!
//! Bound: what zones include, which is known of each zone that is served anyway.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

#[derive(Default)]
pub struct Includes {
    zones: HashMap<PathBuf, BTreeSet<String>>,
    /// By zone.
    files: HashMap<String, Vec<PathBuf>>,
}

impl Includes {
    /// True: the zone did not include it before.
    pub fn insert(&mut self, zone: &str, file: &Path) -> bool {
        let is_new = self.zones.entry(file.to_path_buf()).or_default().insert(zone.to_string());
        if is_new {
            self.files.entry(zone.to_string()).or_default().push(file.to_path_buf());
        }
        is_new
    }

    /// The zone includes none but these.
    pub fn forget(&mut self, zone: &str, but: &[PathBuf]) {
        let Some(files) = self.files.remove(zone) else { return };
        let (kept, left): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| but.contains(file));
        for file in left {
            let zones = self.zones.get_mut(&file);
            if zones.is_some_and(|zones| zones.remove(zone) && zones.is_empty()) {
                self.zones.remove(&file);
            }
        }
        if !kept.is_empty() {
            self.files.insert(zone.to_string(), kept);
        }
    }

    /// True: each of these zones includes each of its files here, or in one of the others.
    pub fn are_all_in(&self, those: &[&Includes]) -> bool {
        let is_in = |zone: &String, file: &Path| {
            those.iter().any(|those| those.zones.get(file).is_some_and(|zones| zones.contains(zone)))
        };
        self.zones.iter().all(|(file, zones)| zones.iter().all(|zone| is_in(zone, file)))
    }

    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.zones.keys().map(PathBuf::as_path)
    }

    /// Those that include a file.
    pub fn of(&self, file: &Path) -> impl Iterator<Item = &String> {
        self.zones.get(file).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_zones_is_what_a_list_of_pairs_would_hold() {
        let (mut includes, mut pairs, mut state) = (Includes::default(), BTreeSet::new(), 7u64);
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let file = |n: u64| PathBuf::from(format!("f{n}"));
        for _ in 0..2_000 {
            let zone = format!("z{}", below(5));
            if below(3) == 0 {
                let but: Vec<PathBuf> = (0..below(4)).map(|_| file(below(6))).collect();
                includes.forget(&zone, &but);
                pairs.retain(|(z, f)| *z != zone || but.contains(f));
            } else {
                let file = file(below(6));
                assert_eq!(includes.insert(&zone, &file), pairs.insert((zone, file)));
            }
            let files: BTreeSet<&Path> = includes.files().collect();
            assert_eq!(files, pairs.iter().map(|(_, f)| f.as_path()).collect());
            for file in (0..6).map(file) {
                let zones: Vec<&String> = pairs.iter().filter(|(_, f)| *f == file).map(|(z, _)| z).collect();
                assert_eq!(includes.of(&file).collect::<Vec<_>>(), zones);
            }
            let (mut some, mut others, pair) = (Includes::default(), Includes::default(), below(9) as usize);
            for (at, (zone, file)) in pairs.iter().enumerate() {
                let which = if at % 2 == 0 { &mut some } else { &mut others };
                let _ = at == pair || which.insert(zone, file);
            }
            assert_eq!(includes.are_all_in(&[&some, &others]), pair >= pairs.len());
        }
    }
}
