//! What is said to a client that signs its queries with a key unknown here (RFC 8945 section 5.2.1).

use image::unit::expand;
use wire::rtype;

const CLASS_ANY: [u8; 2] = [0, 255];
const BAD_KEY: [u8; 2] = [0, 17];

/// The parts of a TSIG record that its answer repeats. They are copied: the answer is written over them.
pub(crate) struct Signature {
    key: [u8; 255],
    key_len: usize,
    algorithm: [u8; 255],
    algorithm_len: usize,
    /// Time signed and fudge.
    time: [u8; 8],
    original_id: [u8; 2],
}

impl Signature {
    /// Reads the record at `at`, which the parser has stepped over already. None: its rdata is malformed.
    pub(crate) fn read(packet: &[u8], at: usize) -> Option<Signature> {
        let (mut key, mut algorithm) = ([0; 255], [0; 255]);
        let fixed_at = at + stored_len(packet.get(at..)?)?;
        let rdata_len = u16::from_be_bytes(*packet.get(fixed_at + 8..)?.first_chunk()?) as usize;
        // The record is the packet's last. What the buffer holds behind it came from others and is nobody's to see.
        let packet = packet.get(..fixed_at + 10 + rdata_len)?;
        let rdata = &packet[fixed_at + 10..];
        let key_len = expand(packet, at, &mut key)?.len();
        if wire::name::wire_len(&key) != Some(key_len) {
            return None;
        }
        let algorithm_len = wire::name::wire_len(rdata)?;
        algorithm[..algorithm_len].copy_from_slice(&rdata[..algorithm_len]);
        let rest = &rdata[algorithm_len..];
        let mac_len = u16::from_be_bytes(*rest.get(8..)?.first_chunk()?) as usize;
        let original_id = *rest.get(10 + mac_len..)?.first_chunk()?;
        Some(Signature { key, key_len, algorithm, algorithm_len, time: *rest.first_chunk()?, original_id })
    }

    /// Ends a message of `len` octets with a TSIG that carries the error and no MAC. Returns the new length.
    pub(crate) fn append_bad_key(&self, message: &mut [u8], len: usize) -> usize {
        let rdata_len = (self.algorithm_len + 16) as u16;
        let parts: [&[u8]; 10] = [
            &self.key[..self.key_len],
            &rtype::TSIG.to_be_bytes(),
            &CLASS_ANY,
            &[0; 4],
            &rdata_len.to_be_bytes(),
            &self.algorithm[..self.algorithm_len],
            &self.time,
            &[0; 2],
            &self.original_id,
            &[BAD_KEY[0], BAD_KEY[1], 0, 0],
        ];
        let end = len + parts.iter().map(|p| p.len()).sum::<usize>();
        let Some(mut room) = message.get_mut(len..end) else { return len };
        for part in parts {
            let (here, rest) = room.split_at_mut(part.len());
            here.copy_from_slice(part);
            room = rest;
        }
        // The parser has let one OPT and this record through, so the count stays within its low octet.
        message[11] += 1;
        end
    }
}

/// Octets that a name takes where it stands, pointer and all.
fn stored_len(name: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *name.get(at)? {
            0 => return Some(at + 1),
            192.. => return Some(at + 2),
            n => at += n as usize + 1,
        }
    }
}
