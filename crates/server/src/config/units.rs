//! Sizes ("512MiB") and times ("5s") as an operator writes them.

const SIZES: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1000),
    ("MB", 1000 * 1000),
    ("GB", 1000 * 1000 * 1000),
    ("TB", 1000 * 1000 * 1000 * 1000),
];

const TIMES_MS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 7 * 86_400_000)];

/// Octets.
pub fn size(text: &str) -> Option<u64> {
    scaled(text, SIZES)
}

/// Milliseconds.
pub fn time_ms(text: &str) -> Option<u64> {
    scaled(text, TIMES_MS)
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim_start();
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expect) in [
            ("512MiB", Some(512 << 20)),
            ("1 GiB", Some(1 << 30)),
            ("10", Some(10)),
            ("2kB", Some(2000)),
            ("MiB", None),
            ("1.5GiB", None),
            ("12mib", None),
            ("99999999999TiB", None),
        ] {
            assert_eq!(size(text), expect, "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, expect) in
            [("5s", Some(5000)), ("0s", Some(0)), ("1d", Some(86_400_000)), ("250ms", Some(250)), ("5", None)]
        {
            assert_eq!(time_ms(text), expect, "{text}");
        }
    }
}
