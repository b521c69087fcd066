//! The octets of a segment: a head, then frames, one a group of records that became durable together.
//!
//! ```text
//! head   "DLJS" | version u32 = 2 | number of the segment u64 | position of its first record u64 | CRC of these and the salt u32
//!        | salt u32
//! frame  "DLJF" | octets of the records u32 | position of the first u64 | records u32 | CRC of the records u32
//!        | CRC of these 24 octets, xor the salt u32 | 0 u32 | records | zeros to a multiple of 8
//! record octets u32 | the octets
//! ```
//! Numbers are little endian. Reading takes any octets: what is not whole is not there.
//!
//! The salt is drawn for each segment: who has a record written that looks like a frame does not know it. A crash may leave the end of such a record
//! without its beginning, and what looked like a whole frame there would be taken for damage before it. (Version 1 had none: 0.)

use crate::crc::crc32c;

pub(crate) const HEAD: usize = 32;
const FRAME: usize = 32;
const ALIGN: usize = 8;
const SEGMENT_MAGIC: [u8; 4] = *b"DLJS";
const FRAME_MAGIC: [u8; 4] = *b"DLJF";
const VERSION: u32 = 2;

pub(crate) fn head(number: u64, first: u64, salt: u32) -> Vec<u8> {
    let mut out = SEGMENT_MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend(first.to_le_bytes());
    out.extend(crc32c(&[&out[..], &salt.to_le_bytes()].concat()).to_le_bytes());
    out.extend(salt.to_le_bytes());
    out
}

/// That of a segment, by its octets.
pub(crate) fn salt(octets: &[u8]) -> u32 {
    // What version 1 has there is in no sum.
    if u32_at(octets, 4) == Some(VERSION) { u32_at(octets, 28).unwrap_or_default() } else { 0 }
}

/// The position of a segment's first record. None: its head was never whole.
pub(crate) fn first_position(octets: &[u8], number: u64) -> Option<u64> {
    let head: &[u8; HEAD] = octets.first_chunk()?;
    let sum = match u32_at(head, 4)? {
        1 => crc32c(&head[..24]),
        VERSION => crc32c(&[&head[..24], &head[28..]].concat()),
        _ => return None,
    };
    let is_whole = head[..4] == SEGMENT_MAGIC && u32_at(head, 24)? == sum;
    (is_whole && u64_at(head, 8)? == number).then_some(u64_at(head, 16)?)
}

/// Appends a frame.
pub(crate) fn push_frame(salt: u32, first: u64, records: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    let at = out.len();
    out.reserve(FRAME + records.iter().map(|r| r.as_ref().len() + 4).sum::<usize>() + ALIGN);
    out.resize(at + FRAME, 0);
    for record in records.iter().map(AsRef::as_ref) {
        out.extend((record.len() as u32).to_le_bytes());
        out.extend(record);
    }
    let body = &out[at + FRAME..];
    let mut frame = FRAME_MAGIC.to_vec();
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(first.to_le_bytes());
    frame.extend((records.len() as u32).to_le_bytes());
    frame.extend(crc32c(body).to_le_bytes());
    frame.extend((crc32c(&frame) ^ salt).to_le_bytes());
    out[at..at + frame.len()].copy_from_slice(&frame);
    out.resize(at + (out.len() - at).next_multiple_of(ALIGN), 0);
}

pub(crate) struct Frame<'a> {
    pub first: u64,
    pub records: Vec<&'a [u8]>,
    /// Octets that it takes, padding and all.
    pub len: usize,
}

/// The head of the frame that begins `octets`, if that is whole, and the octets of the frame's records.
fn frame_head(salt: u32, octets: &[u8]) -> Option<(&[u8; FRAME], usize)> {
    let head: &[u8; FRAME] = octets.first_chunk()?;
    let is_whole = head[..4] == FRAME_MAGIC && u32_at(head, 24)? == crc32c(&head[..24]) ^ salt;
    is_whole.then_some((head, u32_at(head, 4)? as usize))
}

/// The frame that begins `octets`, if it is whole.
pub(crate) fn frame(salt: u32, octets: &[u8]) -> Option<Frame<'_>> {
    let (head, len) = frame_head(salt, octets)?;
    let count = u32_at(head, 16)? as usize;
    let body = octets[FRAME..].get(..len)?;
    if u32_at(head, 20)? != crc32c(body) {
        return None;
    }
    let records = records(body).filter(|r| r.len() == count)?;
    Some(Frame { first: u64_at(head, 8)?, records, len: (FRAME + len).next_multiple_of(ALIGN) })
}

fn records(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut records = Vec::new();
    while !body.is_empty() {
        let (record, rest) = body.get(4..)?.split_at_checked(u32_at(body, 0)? as usize)?;
        records.push(record);
        body = rest;
    }
    Some(records)
}

/// Where a whole frame begins in `octets`, which begin at a place where one could. A later frame was only written once
/// everything before it was durable: what is broken before it was whole once. What a broken frame has in its records may look
/// like one (they are somebody else's octets), so its records are passed over where its head says how long they are; and
/// what is no later position than `end`, or later than what lies between has room for, is none.
pub(crate) fn later_frame(salt: u32, octets: &[u8], end: u64) -> Option<usize> {
    let from = frame_head(salt, octets).map_or(0, |(_, len)| (FRAME + len).next_multiple_of(ALIGN));
    let is_later = |at: usize| frame(salt, &octets[at..]).is_some_and(|f| f.first > end && f.first - end <= at as u64);
    (from..octets.len()).step_by(ALIGN).find(|&at| is_later(at))
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

fn u64_at(octets: &[u8], at: usize) -> Option<u64> {
    octets.get(at..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u32 = 0xC0FF_EE00;

    #[test]
    fn a_frame_comes_back_whole_or_not_at_all() {
        let mut octets = vec![];
        push_frame(SALT, 7, &[&b"one"[..], b"", b"three"], &mut octets);
        assert_eq!(octets.len() % ALIGN, 0);
        let read = frame(SALT, &octets).unwrap();
        assert_eq!((read.first, read.records, read.len), (7, vec![&b"one"[..], b"", b"three"], octets.len()));
        // Each octet but those of the padding and the spare four counts.
        for at in (0..28).chain(FRAME..FRAME + 20) {
            let mut torn = octets.clone();
            torn[at] ^= 0x40;
            assert!(frame(SALT, &torn).is_none(), "octet {at}");
        }
        for len in 0..FRAME + 20 {
            assert!(frame(SALT, &octets[..len]).is_none(), "{len} octets");
        }
    }

    #[test]
    fn a_head_is_that_of_its_segment() {
        let octets = head(3, 9, SALT);
        assert_eq!(salt(&octets), SALT);
        assert_eq!(first_position(&octets, 3), Some(9));
        assert_eq!(first_position(&octets, 4), None);
        assert_eq!(first_position(&octets[..31], 3), None);
        for at in 0..HEAD {
            let mut torn = octets.clone();
            torn[at] ^= 0x40;
            assert_eq!(first_position(&torn, 3), None, "octet {at}");
        }
        // As version 1 had it.
        let mut first = octets[..24].to_vec();
        first[4] = 1;
        first.extend(crc32c(&first).to_le_bytes());
        first.extend([0, 0, 1, 0]);
        assert_eq!((first_position(&first, 3), salt(&first)), (Some(9), 0));
    }

    #[test]
    fn a_frame_behind_rubbish_is_found() {
        let mut octets = vec![0xEE; 40];
        push_frame(SALT, 1, &[b"x"], &mut octets);
        assert_eq!([0, 1].map(|end| later_frame(SALT, &octets, end)), [Some(40), None]);
        assert_eq!(later_frame(SALT, &octets[..octets.len() - 9], 0), None);
    }

    #[test]
    fn what_looks_like_a_frame_among_the_records_of_a_torn_one_is_none() {
        let mut inner = vec![];
        push_frame(SALT, 1, &[b"x"], &mut inner);
        let mut octets = vec![];
        push_frame(SALT, 1, &[&[&[0; 4], &inner[..]].concat(), &vec![7; 100]], &mut octets);
        assert!(frame(SALT, &octets[FRAME + 8..]).is_some());
        assert_eq!(later_frame(SALT, &octets[..octets.len() - 30], 1), None);
        // Without its head nobody knows how long it is; but who had it written did not know the salt.
        let beheaded = [&[0; FRAME], &octets[FRAME..]].concat();
        assert_eq!(later_frame(SALT, &beheaded, 0), Some(FRAME + 8));
        assert_eq!(later_frame(!SALT, &beheaded, 0), None);
        // Damage, and not torn: a frame follows.
        octets[FRAME + 60] ^= 1;
        let end = octets.len();
        push_frame(SALT, 3, &[b"y"], &mut octets);
        assert_eq!(later_frame(SALT, &octets, 1), Some(end));
        push_frame(SALT, u64::MAX, &[b"z"], &mut octets);
        assert_eq!(later_frame(SALT, &octets, 3), None, "no room for so many between");
    }
}
