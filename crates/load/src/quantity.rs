//! Numbers with units as people write them: `200k`, `5ms`, `0.1%`.

/// A number, perhaps with `k`, `M` or `G` behind it (thousands).
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1e3),
        b'M' | b'm' => (&text[..text.len() - 1], 1e6),
        b'G' | b'g' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    plain(digits).map(|n| n * factor)
}

/// A time in nanoseconds; the unit must be written.
pub fn time_ns(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 6] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let text = text.trim();
    let (digits, factor) = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    plain(digits).map(|n| n * factor)
}

/// A part of one: `0.1%`, or `0.001`.
pub fn share(text: &str) -> Option<f64> {
    let text = text.trim();
    match text.strip_suffix('%') {
        Some(percent) => plain(percent).map(|n| n / 100.0),
        None => plain(text),
    }
}

/// Digits with at most one point: neither `inf` nor `1e9` nor a sign.
fn plain(text: &str) -> Option<f64> {
    let text = text.trim();
    let sound = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    if sound { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        for (text, expect) in [("7", 7.0), ("200k", 200e3), ("1.5M", 1.5e6), (" 3 ", 3.0)] {
            assert_eq!(number(text), Some(expect), "{text}");
        }
        for (text, expect) in [("5ms", 5e6), ("1.5s", 1.5e9), ("2m", 120e9), ("10us", 1e4), ("1ns", 1.0)] {
            assert_eq!(time_ns(text), Some(expect), "{text}");
        }
        assert_eq!((share("0.5%"), share("0.25")), (Some(0.005), Some(0.25)));
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "k", "-1", "1e9", "inf", "1..2", "ten", "1 2"] {
            assert_eq!(number(text), None, "{text}");
        }
        for text in ["", "5", "s", "5 parsecs", "-1s"] {
            assert_eq!(time_ns(text), None, "{text}");
        }
    }
}
