//! Fills the index of an image whose nodes are laid out: every name that can be asked for, by its hash.

use crate::format::{ALIGN, HEADER, LINE, LINES_MAX, WAYS};
use crate::node::{self, FIXED};
use crate::view::{line_of, tag_of};
use wire::cpu::prefetch;
use wire::hash::name_hash;
use wire::name::label_count;

/// Names hashed before the first of them is entered, so that their lines are on the way together.
const TOGETHER: usize = 32;

/// Of this many names one may lie deeper than is looked ahead for.
const DEEPER_ONE_IN: usize = 50;

pub(crate) struct Filled {
    /// The seed with which no name needs more than `LINES_MAX` lines.
    pub seed: u64,
    /// Labels of the deepest name.
    pub deepest: u32,
    /// Labels down to which it pays to look ahead of the walk: it costs a cold line for each query of so many labels.
    pub ahead: u32,
}

/// Enters the nodes.
pub(crate) fn fill(bytes: &mut [u8], seed: u64, lines: usize, nodes: impl Iterator<Item = u32> + Clone) -> Filled {
    let nodes_at = HEADER + lines * LINE;
    let (index, rest) = bytes.split_at_mut(nodes_at);
    let index = &mut index[HEADER..];
    let name = |node: u32| {
        let at = node as usize * ALIGN - nodes_at;
        let name_at = at + FIXED + if rest[at + 2] & node::HEAD as u8 != 0 { 4 } else { 0 };
        &rest[name_at..name_at + rest[at] as usize]
    };
    let mut at_depth = [0; 128];
    nodes.clone().for_each(|n| at_depth[label_count(name(n)) & 127] += 1);
    let all: usize = at_depth.iter().sum();
    let deeper = |d: usize| at_depth[d + 1..].iter().sum::<usize>();
    let deepest = at_depth.iter().rposition(|&n| n > 0).unwrap_or(0);
    let ahead = (0..deepest).find(|&d| deeper(d) * DEEPER_ONE_IN < all).unwrap_or(deepest);
    let mut seed = seed;
    while !enter_all(index, seed, lines, nodes.clone().map(|n| (name(n), n))) {
        index.fill(0);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    Filled { seed, deepest: deepest as u32, ahead: ahead as u32 }
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
