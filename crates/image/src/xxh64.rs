//! XXH64 (Yann Collet's xxHash, 64 bits): as fast as memory is read, and known to every language.
//!
//! Each step is reversible in what it adds. So octets that differ within one aligned word of eight never give the same
//! sum; others do so by a chance of 2^-64. Nobody's attack is in question: who can write the image can write its sums.

const P1: u64 = 0x9E37_79B1_85EB_CA87;
const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P3: u64 = 0x1656_67B1_9E37_79F9;
const P4: u64 = 0x85EB_CA77_C2B2_AE63;
const P5: u64 = 0x27D4_EB2F_1656_67C5;

pub(crate) fn xxh64(seed: u64, octets: &[u8]) -> u64 {
    let (stripes, rest) = octets.as_chunks::<32>();
    let sum = if stripes.is_empty() { seed.wrapping_add(P5) } else { of_stripes(seed, stripes) };
    finish(sum.wrapping_add(octets.len() as u64), rest)
}

fn of_stripes(seed: u64, stripes: &[[u8; 32]]) -> u64 {
    let mut lanes = [seed.wrapping_add(P1).wrapping_add(P2), seed.wrapping_add(P2), seed, seed.wrapping_sub(P1)];
    for stripe in stripes {
        for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }
    let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, turn)| lane.rotate_left(turn));
    let sum = turned.fold(0, u64::wrapping_add);
    lanes.iter().fold(sum, |sum, &lane| (sum ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4))
}

#[inline(always)]
fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

fn finish(mut sum: u64, rest: &[u8]) -> u64 {
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        sum ^= round(0, u64::from_le_bytes(*word));
        sum = sum.rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        sum ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(P1);
        sum = sum.rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
    }
    for &octet in rest {
        sum = (sum ^ u64::from(octet).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    sum = (sum ^ sum >> 33).wrapping_mul(P2);
    sum = (sum ^ sum >> 29).wrapping_mul(P3);
    sum ^ sum >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_public_algorithm() {
        assert_eq!(xxh64(0, b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(xxh64(0, b"abc"), 0x44BC_2CF5_AD77_0999);
        assert_eq!(xxh64(20_141_025, b"xxhash"), 0xB559_B98D_844E_0635);
        let long = b"The quick brown fox jumps over the lazy dog";
        assert_eq!(xxh64(0, long), 0x0B24_2D36_1FDA_71BC);
    }
}
