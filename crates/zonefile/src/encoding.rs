//! Base 16, 32hex and 64 of RFC 4648. Decoding takes octets one at a time, so that a text may be spread over many tokens.

const UPPER: &[u8; 16] = b"0123456789ABCDEF";
const BASE32: &[u8; 32] = b"0123456789ABCDEFGHIJKLMNOPQRSTUV";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const NO: u8 = 0xff;
const FROM_BASE64: [u8; 256] = {
    let mut t = [NO; 256];
    let mut i = 0;
    while i < 64 {
        t[BASE64[i] as usize] = i as u8;
        i += 1;
    }
    t
};

pub(crate) fn push_hex(octets: &[u8], out: &mut String) {
    for &c in octets {
        out.push(UPPER[(c >> 4) as usize] as char);
        out.push(UPPER[(c & 15) as usize] as char);
    }
}

pub(crate) fn push_base64(octets: &[u8], out: &mut String) {
    for three in octets.chunks(3) {
        let n = three.iter().fold(0u32, |n, &c| n << 8 | u32::from(c)) << (8 * (3 - three.len()));
        for i in 0..4 {
            let digit = BASE64[(n >> (18 - 6 * i) & 63) as usize] as char;
            out.push(if i > three.len() { '=' } else { digit });
        }
    }
}

pub(crate) fn push_base32(octets: &[u8], out: &mut String) {
    for five in octets.chunks(5) {
        let n = five.iter().fold(0u64, |n, &c| n << 8 | u64::from(c)) << (8 * (5 - five.len()));
        for i in 0..(five.len() * 8).div_ceil(5) {
            out.push(BASE32[(n >> (35 - 5 * i) & 31) as usize] as char);
        }
    }
}

pub(crate) fn hex_digit(c: u8) -> Option<u8> {
    (c as char).to_digit(16).map(|d| d as u8)
}

fn base32_digit(c: u8) -> Option<u8> {
    (c as char).to_digit(32).map(|d| d as u8)
}

/// The octets that base64 spells, blanks left out. None: it is none.
pub fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut out) = (Bits::default(), Vec::new());
    text.iter().filter(|c| !c.is_ascii_whitespace()).try_for_each(|&c| bits.base64(c, &mut out)).ok()?;
    bits.end_base64().ok().map(|()| out)
}

/// Collects digits of a few bits each into octets.
#[derive(Default)]
pub(crate) struct Bits {
    held: u32,
    count: u32,
    padding: u32,
    digits: u32,
}

pub(crate) type Bad = &'static str;

impl Bits {
    fn push(&mut self, digit: u8, width: u32, out: &mut Vec<u8>) {
        self.held = self.held << width | u32::from(digit);
        self.count += width;
        self.digits = self.digits.wrapping_add(1);
        if self.count >= 8 {
            self.count -= 8;
            out.push((self.held >> self.count) as u8);
            self.held &= (1 << self.count) - 1;
        }
    }

    pub(crate) fn hex(&mut self, c: u8, out: &mut Vec<u8>) -> Result<(), Bad> {
        let digit = hex_digit(c).ok_or("not a hexadecimal digit")?;
        self.push(digit, 4, out);
        Ok(())
    }

    pub(crate) fn base32(&mut self, c: u8, out: &mut Vec<u8>) -> Result<(), Bad> {
        let digit = base32_digit(c).ok_or("not a digit of base32hex (0-9, A-V)")?;
        self.push(digit, 5, out);
        Ok(())
    }

    pub(crate) fn base64(&mut self, c: u8, out: &mut Vec<u8>) -> Result<(), Bad> {
        if c == b'=' {
            self.padding += 1;
            return if self.padding <= 2 { Ok(()) } else { Err("more than two '=' at the end of base64") };
        }
        match FROM_BASE64[c as usize] {
            NO => Err("not a digit of base64 (A-Z, a-z, 0-9, +, /)"),
            _ if self.padding > 0 => Err("base64 that goes on after its '='"),
            digit => {
                self.push(digit, 6, out);
                Ok(())
            }
        }
    }

    /// What is wrong with the end: digits that fill no octet, bits that are not zero, padding that does not fit.
    pub(crate) fn end_hex(&self) -> Result<(), Bad> {
        if self.count == 0 { Ok(()) } else { Err("an odd number of hexadecimal digits") }
    }

    pub(crate) fn end_base32(&self) -> Result<(), Bad> {
        if self.count < 5 && self.held == 0 { Ok(()) } else { Err("base32hex that is cut off") }
    }

    pub(crate) fn end_base64(&self) -> Result<(), Bad> {
        let whole = (self.digits % 4 + self.padding).is_multiple_of(4) && self.digits % 4 != 1;
        if whole && self.held == 0 { Ok(()) } else { Err("base64 that is cut off, or padded wrongly") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(
        text: &str,
        one: fn(&mut Bits, u8, &mut Vec<u8>) -> Result<(), Bad>,
        end: fn(&Bits) -> Result<(), Bad>,
    ) -> Option<Vec<u8>> {
        let (mut bits, mut out) = (Bits::default(), Vec::new());
        text.bytes().try_for_each(|c| one(&mut bits, c, &mut out)).ok()?;
        end(&bits).ok().map(|()| out)
    }

    #[test]
    fn the_vectors_of_rfc_4648() {
        let table = [
            ("", "", ""),
            ("f", "Zg==", "CO"),
            ("fo", "Zm8=", "CPNG"),
            ("foo", "Zm9v", "CPNMU"),
            ("foob", "Zm9vYg==", "CPNMUOG"),
            ("fooba", "Zm9vYmE=", "CPNMUOJ1"),
            ("foobar", "Zm9vYmFy", "CPNMUOJ1E8"),
        ];
        for (plain, base64, base32) in table {
            let (mut a, mut b) = (String::new(), String::new());
            push_base64(plain.as_bytes(), &mut a);
            push_base32(plain.as_bytes(), &mut b);
            assert_eq!((a.as_str(), b.as_str()), (base64, base32));
            assert_eq!(decode(base64, Bits::base64, Bits::end_base64).as_deref(), Some(plain.as_bytes()));
            assert_eq!(
                decode(&base32.to_lowercase(), Bits::base32, Bits::end_base32).as_deref(),
                Some(plain.as_bytes())
            );
        }
    }

    #[test]
    fn what_is_no_base64() {
        for text in ["Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z*==", "=", "Zg==Zg==", "===="] {
            assert_eq!(decode(text, Bits::base64, Bits::end_base64), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_hex_and_no_base32() {
        for text in ["a", "abc", "0x", "g0"] {
            assert_eq!(decode(text, Bits::hex, Bits::end_hex), None, "{text}");
        }
        for text in ["C", "CP", "CPN", "W0", "CPNMUOJ"] {
            assert_eq!(decode(text, Bits::base32, Bits::end_base32), None, "{text}");
        }
    }
}
