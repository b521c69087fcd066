//! Hashes: one for the names of our own zones, and SipHash for whatever a stranger may choose.
//!
//! `name_step` hashes a name label by label from the root, so that one pass over a name gives the hash of each of its
//! suffixes. Names in an image come from the operator, and the seed is drawn when the image is built, so a folded multiply
//! is enough there; SipHash costs 20 ns more a name and is kept for what clients can fill (cookies, rate limits, caches).

const K: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline(always)]
fn mix(h: u64, w: u64) -> u64 {
    let m = u128::from(h ^ w) * u128::from(K);
    (m as u64) ^ ((m >> 64) as u64)
}

/// Sixteen octets at once, for what nobody gains by guessing.
#[inline(always)]
pub fn quick(seed: u64, octets: u128) -> u64 {
    mix(mix(seed, octets as u64), (octets >> 64) as u64)
}

/// Eight octets from `at`, little-endian; zeros where the slice ends.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at.wrapping_add(8)).and_then(|s| s.first_chunk::<8>()) {
        Some(w) => u64::from_le_bytes(*w),
        None => tail_word(bytes, at),
    }
}

#[cold]
fn tail_word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).unwrap_or_default().iter().rev().fold(0, |w, &b| w << 8 | u64::from(b))
}

/// The hash of the name whose first label stands at `at` in `folded` (length octet, then the label, lower case), given the
/// hash of the rest of the name. The root's hash is the seed.
#[inline(always)]
pub fn name_step(parent: u64, folded: &[u8], at: usize) -> u64 {
    let mut left = folded[at] as usize + 1;
    let (mut h, mut at) = (parent, at);
    while left > 8 {
        h = mix(h, word(folded, at));
        at += 8;
        left -= 8;
    }
    mix(h.rotate_left(23), word(folded, at) & (u64::MAX >> ((8 - left) * 8)))
}

/// The hash of a whole folded name.
pub fn name_hash(seed: u64, folded: &[u8]) -> u64 {
    name_below(seed, folded, folded.len() - 1)
}

/// The hash of a name whose first `len` octets are labels below the name of the hash `above`.
pub fn name_below(above: u64, folded: &[u8], len: usize) -> u64 {
    let (starts, n) = label_starts(folded, len);
    starts[..n].iter().rev().fold(above, |h, &at| name_step(h, folded, at as usize))
}

/// Where the labels begin of the first `len` octets of a name, and how many there are.
#[inline(always)]
fn label_starts(folded: &[u8], len: usize) -> ([u8; 128], usize) {
    let mut starts = [0; 128];
    let (mut n, mut at) = (0, 0);
    while at < len {
        starts[n] = at as u8;
        n += 1;
        at += folded[at] as usize + 1;
    }
    (starts, n)
}

/// The hashes of all ends of a name, in one pass: to hash each of them for itself would be quadratic in its labels.
pub struct EndHashes {
    starts: [u8; 128],
    hashes: [u64; 128],
    labels: usize,
}

impl EndHashes {
    pub fn of(seed: u64, folded: &[u8]) -> EndHashes {
        let (starts, labels) = label_starts(folded, folded.len() - 1);
        let (mut hashes, mut hash) = ([0; 128], seed);
        for i in (0..labels).rev() {
            hash = name_step(hash, folded, starts[i] as usize);
            hashes[i] = hash;
        }
        EndHashes { starts, hashes, labels }
    }

    /// Where each begins, and its hash: the whole name first, the root not among them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + ExactSizeIterator {
        (0..self.labels).map(|i| (usize::from(self.starts[i]), self.hashes[i]))
    }
}

/// SipHash with `C` compression and `D` finalisation rounds (Aumasson and Bernstein): 1-3 for tables, 2-4 for cookies (RFC 9018).
pub fn siphash<const C: usize, const D: usize>(key: &[u8; 16], bytes: &[u8]) -> u64 {
    let (k0, k1) = (word(key, 0), word(key, 8));
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    bytes.as_chunks::<8>().0.iter().for_each(|whole| absorb::<C>(&mut v, u64::from_le_bytes(*whole)));
    absorb::<C>(&mut v, rest_of(bytes) | (bytes.len() as u64) << 56);
    v[2] ^= 0xff;
    (0..D).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// What stands behind the last whole word: the end of the last eight octets.
#[inline(always)]
fn rest_of(bytes: &[u8]) -> u64 {
    match (bytes.len() % 8, bytes.last_chunk::<8>()) {
        (0, _) => 0,
        (left, Some(last)) => u64::from_le_bytes(*last) >> (64 - 8 * left),
        (_, None) => tail_word(bytes, 0),
    }
}

#[inline(always)]
fn absorb<const C: usize>(v: &mut [u64; 4], w: u64) {
    v[3] ^= w;
    (0..C).for_each(|_| round(v));
    v[0] ^= w;
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

/// Which hashes are among those of some names: a bit for each of 65,536 parts of a hash. Of most that are not one look into 8 KiB tells. Of 45,000 names
/// every second hash has its bit, of 400,000 all have.
#[derive(Clone, Debug)]
pub struct Marks(Box<[u64; MARKS / 64]>);

const MARKS: usize = 1 << 16;

impl Default for Marks {
    fn default() -> Marks {
        Marks(Box::new([0; MARKS / 64]))
    }
}

impl Marks {
    /// Of bits that do not choose the leaf of an overlay's table, which are the lowest twelve of the upper half.
    #[inline(always)]
    fn place(hash: u64) -> (usize, u64) {
        let mark = (hash >> 44) as usize % MARKS;
        (mark / 64, 1 << (mark % 64))
    }

    /// False: it is none of theirs.
    #[inline(always)]
    pub fn has(&self, hash: u64) -> bool {
        let (word, bit) = Marks::place(hash);
        self.0[word] & bit != 0
    }

    pub fn set(&mut self, hash: u64) {
        let (word, bit) = Marks::place(hash);
        self.0[word] |= bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siphash_2_4_gives_its_authors_vectors() {
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash::<2, 4>(&key, &message), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash::<2, 4>(&key, &[]), 0x726f_db47_dd0e_0e31);
    }

    #[test]
    fn a_name_hashes_alike_in_any_surroundings() {
        let alone = b"\x03www\x07example\x00";
        let mut within = [0xAA; 40];
        within[5..5 + alone.len()].copy_from_slice(alone);
        let root = 7;
        let example = name_step(root, &within, 9);
        assert_eq!(name_hash(7, alone), name_step(example, &within, 5));
        assert_ne!(name_hash(7, alone), name_hash(7, b"\x03wwx\x07example\x00"));
        assert_ne!(name_hash(7, b"\x01a\x01b\x00"), name_hash(7, b"\x01b\x01a\x00"));
    }

    #[test]
    fn the_ends_of_a_name_hash_as_they_do_alone() {
        let deepest = [&b"\x01a".repeat(127)[..], &[0]].concat();
        for name in [&b"\0"[..], b"\x03www\x07example\0", b"\x09ten-octet\x01b\0", &deepest] {
            let mut at = 0;
            let expected = crate::name::labels(name).map(|label| {
                let end = (at, name_hash(7, &name[at..]));
                at += label.len() + 1;
                end
            });
            let expected: Vec<_> = expected.collect();
            assert_eq!(EndHashes::of(7, name).iter().collect::<Vec<_>>(), expected, "{name:?}");
        }
    }
}
