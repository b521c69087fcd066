//! Checksums of an image's pages: made when it is built, compared by a background pass (`trust.rs`).
//!
//! ```text
//! sums: of each page of 4096 octets before the table, the last one cut at the table: XXH64, u64; its seed is the image's
//!       seed plus the page's number
//! ```
//!
//! 4096 octets are what the kernel maps and a disk loses at a time; the table is 0.2 % of the image. The seed makes a page
//! of another image, or of another place, as wrong as a damaged one.

use crate::builder::Hands;
use crate::format::Header;
use crate::xxh64::xxh64;

/// Octets of a page.
pub const PAGE: usize = 4096;
const SUM: usize = 8;
/// Octets from which on it pays to share the work.
const SHARED_FROM: usize = 1 << 20;

/// Octets of the table behind so many octets.
pub(crate) fn table_len(octets: usize) -> usize {
    octets.div_ceil(PAGE) * SUM
}

/// Adds the table for what is there.
pub(crate) fn append(bytes: &mut Vec<u8>, seed: u64, hands: &dyn Hands) {
    let at = bytes.len();
    bytes.resize(at + table_len(at), 0);
    let (pages, table) = bytes.split_at_mut(at);
    let half = if at < SHARED_FROM { 0 } else { at / 2 / PAGE };
    let (first, second) = table.split_at_mut(half * SUM);
    let (pages, later) = pages.split_at(half * PAGE);
    hands.both(&mut || fill(first, pages, seed, 0), &mut || fill(second, later, seed, half));
}

fn fill(table: &mut [u8], octets: &[u8], seed: u64, first: usize) {
    let sums = table.as_chunks_mut::<SUM>().0.iter_mut();
    for (i, (sum, page)) in sums.zip(octets.chunks(PAGE)).enumerate() {
        *sum = of_page(seed, first + i, page).to_le_bytes();
    }
}

fn of_page(seed: u64, number: usize, page: &[u8]) -> u64 {
    xxh64(seed.wrapping_add(number as u64), page)
}

/// Pages that have a sum.
pub(crate) fn count(header: &Header) -> usize {
    (header.sums_at as usize).div_ceil(PAGE)
}

/// True if a page is as it was built.
pub(crate) fn is_intact(bytes: &[u8], header: &Header, number: usize) -> bool {
    let end = header.sums_at as usize;
    let page = bytes.get(number * PAGE..end.min((number + 1) * PAGE));
    let sum = bytes.get(end + number * SUM..).and_then(|rest| rest.first_chunk());
    let Some((page, sum)) = page.zip(sum) else { return false };
    of_page(header.seed, number, page) == u64::from_le_bytes(*sum)
}
