//! What zones have taken of the room behind the image, where that is much: a change lays its names as a whole, and of those that hold a MiB a few hundred use
//! it up. A new image is begun when half of it is gone. Once three quarters are, whoever has had more than his part waits for that image, so that the rest is
//! for all others.
//!
//! Bound: as many zones as find room for what is counted here.

use crate::update::unwritten::Wish;
use image::Image;
use image::edit::Record;
use std::collections::HashMap;
use store::Stretch;

/// Who has never taken more than that at once is not counted: mostly it is a tenth.
const LITTLE: usize = 4 << 10;
/// One of so many parts of the room is for each zone, when three quarters of it are gone.
const PARTS: usize = 8;
/// What a record takes beside its data.
const RECORD: usize = 16;

#[derive(Default)]
pub struct Shares(HashMap<Box<[u8]>, usize>);

impl Shares {
    /// These were laid, and took so many octets, each as many as its records make of them.
    pub fn take<'w>(&mut self, wishes: impl Iterator<Item = &'w Wish> + Clone, octets: usize) {
        if octets <= LITTLE && self.0.is_empty() {
            return;
        }
        let weight = |wish: &Wish| {
            let names =
                wish.names.iter().map(|(name, records)| name.len() + records.iter().map(weight_of).sum::<usize>());
            names.sum::<usize>() as f64
        };
        let all = wishes.clone().map(weight).sum::<f64>().max(1.0);
        for wish in wishes {
            let taken = (octets as f64 * weight(wish) / all) as usize;
            match self.0.get_mut(&wish.apex) {
                Some(before) => *before += taken,
                None if taken > LITTLE => _ = self.0.insert(wish.apex.clone(), taken),
                None => {}
            }
        }
    }

    /// The zones that wait for a new image.
    pub fn greedy<'w>(&self, now: &Image<Stretch>, wishes: &'w [Wish]) -> Vec<&'w [u8]> {
        let room = now.bytes().map().room();
        if self.0.is_empty() || now.bytes().end() - room.start <= room.len() / 4 * 3 {
            return vec![];
        }
        let has_had_his = |apex: &&[u8]| self.0.get(*apex).is_some_and(|taken| *taken > room.len() / PARTS);
        wishes.iter().map(|wish| &*wish.apex).filter(has_had_his).collect()
    }
}

fn weight_of(record: &Record) -> usize {
    RECORD + record.rdata.len()
}
