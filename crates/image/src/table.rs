//! Open addressing: numbers of things by 32 bits of a hash. Whoever asks compares the things themselves.
//!
//! The bits of the hash stand beside the number, so that a probe touches nothing but the table until it has all but
//! certainly found. At most half full; 8 octets a place.

use wire::cpu::prefetch_item;

const EMPTY: u32 = u32::MAX;

pub(crate) struct Table {
    places: Vec<(u32, u32)>,
    used: usize,
}

impl Table {
    /// Room for so many without growing.
    pub(crate) fn with_room(n: usize) -> Table {
        Table { places: vec![(0, EMPTY); (2 * n).next_power_of_two().max(16)], used: 0 }
    }

    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.places[at] {
                (_, EMPTY) => return None,
                (tag, number) if tag == hash as u32 && is_it(number) => return Some(number),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Asks for the place of a hash ahead of time.
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch_item(&self.places, hash as usize & (self.places.len() - 1));
    }

    /// Adds a number, known or not.
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        if 2 * (self.used + 1) > self.places.len() {
            let larger = vec![(0, EMPTY); 2 * self.places.len()];
            for (tag, number) in std::mem::replace(&mut self.places, larger) {
                if number != EMPTY {
                    self.place(tag, number);
                }
            }
        }
        self.place(hash as u32, number);
        self.used += 1;
    }

    fn place(&mut self, tag: u32, number: u32) {
        let mask = self.places.len() - 1;
        let mut at = tag as usize & mask;
        while self.places[at].1 != EMPTY {
            at = (at + 1) & mask;
        }
        self.places[at] = (tag, number);
    }
}
