//! A table by hashes whose versions share what is alike in them: a copy of it costs `PARTS` steps, and a change of a copy the
//! part and the leaf that it touches.
//!
//! ```text
//! parts (7 bits of the hash) -> leaves (5 bits) -> entries, in no order
//! ```
//! Bound: whoever fills it bounds its entries. Of hashes that nobody foresees a leaf holds a 4096th of them, so 25 of
//! 100,000, which is looked through. A reader takes three steps, two where a leaf is empty.

use std::sync::Arc;

const PARTS: usize = 128;
/// A part of twice as many would be more octets than malloc keeps at hand for a thread.
const LEAVES: usize = 32;

type Leaf<E> = Option<Arc<[E]>>;
type Part<E> = Option<Arc<[Leaf<E>; LEAVES]>>;

#[derive(Clone)]
pub(crate) struct Shared<E> {
    parts: [Part<E>; PARTS],
}

impl<E: Clone> Shared<E> {
    pub(crate) fn empty() -> Shared<E> {
        Shared { parts: [const { None }; PARTS] }
    }

    /// The entries among which those of this hash are; only its lowest twelve bits count.
    #[inline(always)]
    pub(crate) fn leaf(&self, hash: u32) -> &[E] {
        let (part, leaf) = places(hash);
        let leaves = self.parts[part].as_deref();
        leaves.and_then(|leaves| leaves[leaf].as_deref()).unwrap_or_default()
    }

    /// Changes the entries among which those of this hash are. Other copies stay as they are.
    pub(crate) fn change<T>(&mut self, hash: u32, change: impl FnOnce(&mut Vec<E>) -> T) -> T {
        let (part, leaf) = places(hash);
        let mut entries = self.leaf(hash).to_vec();
        let told = change(&mut entries);
        let leaves = self.parts[part].get_or_insert_with(|| Arc::new([const { None }; LEAVES]));
        Arc::make_mut(leaves)[leaf] = if entries.is_empty() { None } else { Some(entries.into()) };
        told
    }

    /// The same for all of these hashes, each leaf once.
    pub(crate) fn change_each(&mut self, mut hashes: Vec<u32>, mut change: impl FnMut(&mut Vec<E>)) {
        hashes.sort_unstable_by_key(|&hash| places(hash));
        hashes.dedup_by_key(|&mut hash| places(hash));
        hashes.into_iter().for_each(|hash| self.change(hash, &mut change));
    }
}

#[inline(always)]
fn places(hash: u32) -> (usize, usize) {
    (hash as usize / LEAVES % PARTS, hash as usize % LEAVES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn versions_keep_what_they_held() {
        let (mut table, mut model) = (Shared::empty(), BTreeMap::new());
        let mut versions = Vec::new();
        for i in 0..5000u32 {
            let key = i.wrapping_mul(2_654_435_761) % 9000;
            if i % 3 == 2 {
                table.change(key, |leaf: &mut Vec<(u32, u32)>| leaf.retain(|e| e.0 != key));
                model.remove(&key);
            } else {
                table.change(key, |leaf| {
                    leaf.retain(|e| e.0 != key);
                    leaf.push((key, i));
                });
                model.insert(key, i);
            }
            if i % 500 == 0 {
                versions.push((table.clone(), model.clone()));
            }
        }
        versions.push((table, model));
        for (table, model) in versions {
            for key in 0..9000 {
                let found = table.leaf(key).iter().find(|e| e.0 == key).map(|e| e.1);
                assert_eq!(found, model.get(&key).copied(), "{key}");
            }
        }
    }
}
