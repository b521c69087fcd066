//! Fills the index of an image whose nodes are laid out: every name that can be asked for, by its hash.

use crate::format::{ALIGN, HEADER, LINE, LINES_MAX, WAYS};
use crate::node::{self, FIXED};
use crate::view::{line_of, tag_of};
use wire::cpu::prefetch;
use wire::hash::{name_below, name_hash};
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

/// Enters nodes, each with the apex of its zone.
pub(crate) fn fill<'n>(
    bytes: &mut [u8],
    seed: u64,
    lines: usize,
    nodes: impl Iterator<Item = (u32, &'n [u8])> + Clone,
) -> Filled {
    let nodes_at = HEADER + lines * LINE;
    let (index, rest) = bytes.split_at_mut(nodes_at);
    let index = &mut index[HEADER..];
    let nodes = nodes.map(|(node, apex)| (name_of(rest, node as usize * ALIGN - nodes_at), apex, node));
    let mut at_depth = [0; 128];
    for (name, apex, _) in nodes.clone() {
        at_depth[(name.labels().count() + if name.is_whole { 0 } else { label_count(apex) }) & 127] += 1;
    }
    let all: usize = at_depth.iter().sum();
    let deeper = |d: usize| at_depth[d + 1..].iter().sum::<usize>();
    let deepest = at_depth.iter().rposition(|&n| n > 0).unwrap_or(0);
    let ahead = (0..deepest).find(|&d| deeper(d) * DEEPER_ONE_IN < all).unwrap_or(deepest);
    let mut seed = seed;
    while !enter_all(index, lines, hashed(seed, nodes.clone())) {
        index.fill(0);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    Filled { seed, deepest: deepest as u32, ahead: ahead as u32 }
}

/// The name of a node as the image has it.
struct Stored<'a> {
    /// And what follows it.
    octets: &'a [u8],
    len: usize,
    /// Else it ends above the apex.
    is_whole: bool,
}

fn name_of(nodes: &[u8], at: usize) -> Stored<'_> {
    let flags = u16::from_le_bytes([nodes[at + 2], nodes[at + 3]]);
    let name_at = at + FIXED + if flags & node::HEAD != 0 { 4 } else { 0 };
    let is_whole = flags & (node::APEX | node::ABOVE) != 0;
    let len = nodes[at] as usize - usize::from(is_whole);
    Stored { octets: &nodes[name_at..], len, is_whole }
}

impl Stored<'_> {
    fn labels(&self) -> impl Iterator<Item = u8> {
        let mut at = 0;
        std::iter::from_fn(move || {
            // Behind the last name there may be no octet at all.
            let len = self.octets[..self.len].get(at).copied()?;
            at += len as usize + 1;
            Some(len)
        })
    }
}

/// The nodes with the hashes of their names, without the root, which stands in the header.
fn hashed<'n>(seed: u64, nodes: impl Iterator<Item = (Stored<'n>, &'n [u8], u32)>) -> impl Iterator<Item = (u64, u32)> {
    let (mut last, mut above) = (&[][..], seed);
    nodes.filter(|(name, ..)| name.len > 0).map(move |(name, apex, node)| {
        if !std::ptr::eq(last, apex) {
            (last, above) = (apex, name_hash(seed, apex));
        }
        (name_below(if name.is_whole { seed } else { above }, name.octets, name.len), node)
    })
}

fn enter_all(index: &mut [u8], lines: usize, mut nodes: impl Iterator<Item = (u64, u32)>) -> bool {
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

#[cfg(test)]
mod tests {
    use crate::{Builder, Image};
    use wire::rtype::{NS, SOA};

    #[test]
    fn a_name_may_end_where_the_nodes_do() {
        for len in 1..=8 {
            let mut builder = Builder::new(7);
            builder.begin_zone(b"\x01z\0");
            builder.record(b"\x01z\0", SOA, 1, &[0; 22]).unwrap();
            builder.record(b"\x01z\0", NS, 1, b"\x02ns\x05other\0").unwrap();
            // The unit of the last one stands with the first.
            let last = [&[len][..], &vec![b'z'; len as usize], b"\x01z\0"].concat();
            for owner in [b"\x01a\x01z\0", &last[..]] {
                builder.record(owner, NS, 1, b"\x02ns\x05other\0").unwrap();
            }
            let image = Image::open(builder.finish().0).unwrap();
            assert!(image.view().zone(0).unwrap().node(&last).unwrap().is_some(), "{len}");
        }
    }
}
