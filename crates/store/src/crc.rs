//! CRC-32C (Castagnoli, RFC 3720 appendix B.4), eight octets at a time: whoever looks for a zone in the history reads a gigabyte.

/// Of each octet, with so many octets of zero behind it.
const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut behind) = (i as u32, 0);
        while behind < 8 {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
                bit += 1;
            }
            tables[behind][i] = crc;
            behind += 1;
        }
        i += 1;
    }
    tables
};

/// That of all that is handed to it, piece by piece.
pub struct Crc32c(u32);

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c(!0)
    }
}

impl Crc32c {
    pub fn add(&mut self, octets: &[u8]) {
        self.0 = behind(self.0, octets);
    }

    pub fn sum(&self) -> u32 {
        !self.0
    }
}

pub fn crc32c(octets: &[u8]) -> u32 {
    !behind(!0, octets)
}

fn behind(crc: u32, octets: &[u8]) -> u32 {
    let (eights, rest) = octets.as_chunks::<8>();
    let of_eight = |crc: u32, eight: &[u8; 8]| {
        let mixed = (u64::from_le_bytes(*eight) ^ u64::from(crc)).to_le_bytes();
        let parts = mixed.iter().zip(TABLES.iter().rev()).map(|(&octet, table)| table[octet as usize]);
        parts.fold(0, |crc, part| crc ^ part)
    };
    let crc = eights.iter().fold(crc, of_eight);
    rest.iter().fold(crc, |crc, &octet| TABLES[0][(crc as u8 ^ octet) as usize] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_that_of_the_polynomial() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn eight_octets_at_a_time_come_to_what_each_by_itself_does() {
        let octets: Vec<u8> = (0..1000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for (from, to) in (0..40).flat_map(|from| (960..1000).map(move |to| (from, to))).chain((0..40).map(|n| (0, n)))
        {
            let each = |crc: u32, octet: &u8| {
                (0..8).fold(crc ^ u32::from(*octet), |crc, _| (crc >> 1) ^ (0x82F6_3B78 * (crc & 1)))
            };
            let some = &octets[from..to];
            assert_eq!(crc32c(some), !some.iter().fold(!0, each), "{from}..{to}");
            let mut pieces = Crc32c::default();
            some.chunks(1 + from).for_each(|piece| pieces.add(piece));
            assert_eq!(pieces.sum(), crc32c(some), "{from}..{to}");
        }
    }
}
