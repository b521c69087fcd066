//! A block of addresses: "192.0.2.0/24", or one address.

use std::fmt;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub address: IpAddr,
    pub length: u8,
}

impl Prefix {
    pub const fn new(address: IpAddr, length: u8) -> Prefix {
        Prefix { address, length }
    }

    /// What is wrong is said so that it can follow the text itself: "`192.0.2.0/40` has a length over 32".
    pub fn from_text(text: &str) -> Result<Prefix, String> {
        let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| "is no address".to_string())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(digits) => digits.parse().map_err(|_| format!("has a length that is no number up to {most}"))?,
        };
        if length > most {
            return Err(format!("has a length over {most}"));
        }
        let prefix = Prefix { address, length };
        if prefix.contains_host_bits() {
            return Err(format!("has bits set behind the first {length}"));
        }
        Ok(prefix)
    }

    fn contains_host_bits(&self) -> bool {
        let (bits, width) = match self.address {
            IpAddr::V4(a) => (u128::from(a.to_bits()), 32),
            IpAddr::V6(a) => (a.to_bits(), 128),
        };
        let free = width - u32::from(self.length);
        free > 0 && bits << (128 - free) != 0
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_prefix() {
        for (text, expect) in [
            ("192.0.2.0/24", Ok("192.0.2.0/24")),
            ("192.0.2.7", Ok("192.0.2.7/32")),
            ("::/0", Ok("::/0")),
            ("2001:db8::/32", Ok("2001:db8::/32")),
            ("192.0.2.7/24", Err("has bits set behind the first 24")),
            ("192.0.2.0/33", Err("has a length over 32")),
            ("::1/129", Err("has a length over 128")),
            ("::1/300", Err("has a length that is no number up to 128")),
            ("example/8", Err("is no address")),
        ] {
            let found = Prefix::from_text(text).map(|p| p.to_string());
            assert_eq!(found, expect.map(str::to_string).map_err(str::to_string), "{text}");
        }
    }
}
