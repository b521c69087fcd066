//! Fills the index of an image whose nodes are laid out: every name that can be asked for, by its hash.

use crate::format::{ALIGN, HEADER, LINE, LINES_MAX, WAYS};
use crate::view::{line_of, tag_of};
use wire::cpu::prefetch;
use wire::hash::name_hash;
use wire::name::label_count;

/// Names hashed before the first of them is entered, so that their lines are on the way together.
const TOGETHER: usize = 32;

/// Enters the nodes; returns the seed with which no name needs more than `LINES_MAX` lines, and the labels of the deepest.
pub(crate) fn fill(bytes: &mut [u8], seed: u64, lines: usize, nodes: impl Iterator<Item = u32> + Clone) -> (u64, u32) {
    let nodes_at = HEADER + lines * LINE;
    let (index, rest) = bytes.split_at_mut(nodes_at);
    let index = &mut index[HEADER..];
    let name = |node: u32| {
        let at = node as usize * ALIGN - nodes_at;
        &rest[at + 8..at + 8 + rest[at] as usize]
    };
    let deepest = nodes.clone().map(|n| label_count(name(n))).max().unwrap_or(0) as u32;
    let mut seed = seed;
    while !enter_all(index, seed, lines, nodes.clone().map(|n| (name(n), n))) {
        index.fill(0);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    (seed, deepest)
}

fn enter_all<'n>(index: &mut [u8], seed: u64, lines: usize, nodes: impl Iterator<Item = (&'n [u8], u32)>) -> bool {
    // The root stands in the header.
    let mut nodes = nodes.filter(|(name, _)| name.len() > 1).map(|(name, node)| (name_hash(seed, name), node));
    let mut together = Vec::with_capacity(TOGETHER);
    loop {
        together.clear();
        together.extend(nodes.by_ref().take(TOGETHER));
        together.iter().for_each(|&(hash, _)| prefetch(index, line_of(hash, lines) * LINE));
        if !together.iter().all(|&(hash, node)| enter(index, hash, lines, node)) {
            return false;
        }
        if together.len() < TOGETHER {
            return true;
        }
    }
}

fn enter(index: &mut [u8], hash: u64, lines: usize, node: u32) -> bool {
    let mut number = line_of(hash, lines);
    for _ in 0..LINES_MAX {
        let line = &mut index[number * LINE..(number + 1) * LINE];
        if let Some(i) = (0..WAYS).find(|i| line[2 * i..2 * i + 2] == [0, 0]) {
            line[2 * i..2 * i + 2].copy_from_slice(&tag_of(hash).to_le_bytes());
            line[24 + 4 * i..28 + 4 * i].copy_from_slice(&node.to_le_bytes());
            return true;
        }
        line[2 * WAYS] = 1;
        number = (number + 1) % lines;
    }
    false
}
