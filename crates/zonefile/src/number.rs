//! Numbers, times to live with units, and the dates of signatures. All unsigned, all with their limits said.

use crate::problem::Flaw;
use crate::scan::{Shape, Token};

/// RFC 2181 section 8.
pub(crate) const TTL_MAX: u32 = 0x7fff_ffff;

/// A decimal number of at most `max`.
pub(crate) fn decimal(token: &Token<'_>, what: &str, max: u64) -> Result<u64, Flaw> {
    match digits(token.text) {
        Some(n) if n <= max => Ok(n),
        _ if !token.text.is_empty() && token.text.iter().all(u8::is_ascii_digit) => {
            Err(Flaw::new(token.at, format!("the {what} is too large")).instead(format!("a number from 0 to {max}")))
        }
        _ => {
            Err(Flaw::new(token.at, format!("the {what} is not a number")).instead(format!("a number from 0 to {max}")))
        }
    }
}

/// None where it is no number, or one of more than 64 bits.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut n = 0u64;
    for &c in text {
        if !c.is_ascii_digit() {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(c - b'0'))?;
    }
    Some(n)
}

/// What the standard library takes for an IPv4 address, in a third of its time: it wants text, and so each octet checked.
pub(crate) fn four(text: &[u8]) -> Option<[u8; 4]> {
    let mut octets = [0; 4];
    let mut rest = text;
    for (i, octet) in octets.iter_mut().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix(b".")?;
        }
        let (mut n, mut digits) = (0, 0);
        while let Some((c @ b'0'..=b'9', behind)) = rest.split_first() {
            // No zero stands before other digits: elsewhere that means octal.
            if digits == 3 || digits > 0 && n == 0 {
                return None;
            }
            n = 10 * n + u16::from(c - b'0');
            (rest, digits) = (behind, digits + 1);
        }
        *octet = u8::try_from(n).ok().filter(|_| digits > 0)?;
    }
    rest.is_empty().then_some(octets)
}

/// True for what can only be meant as a time to live: no class, type or name that stands in its place begins with a digit.
pub(crate) fn looks_like_ttl(token: &Token<'_>) -> bool {
    token.shape == Shape::Plain && token.text.first().is_some_and(u8::is_ascii_digit)
}

/// Seconds, or numbers with units: `1h30m`.
pub(crate) fn ttl(token: &Token<'_>, what: &str, max: u32) -> Result<u32, Flaw> {
    let flaw = |why: &str| {
        let advice = format!("seconds from 0 to {max}, or with units: 1w2d3h4m5s");
        Flaw::new(token.at, format!("the {what} {why}")).instead(advice)
    };
    let n = if token.text.iter().all(u8::is_ascii_digit) { digits(token.text) } else { with_units(token.text) };
    match n {
        Some(n) if n <= u64::from(max) => Ok(n as u32),
        Some(_) => Err(flaw("is too large")),
        None if digits_only(token.text) => Err(flaw("is too large")),
        None => Err(flaw("is not a time")),
    }
}

fn digits_only(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn with_units(text: &[u8]) -> Option<u64> {
    let (mut total, mut from) = (0u64, 0);
    for (i, &c) in text.iter().enumerate() {
        if c.is_ascii_digit() {
            continue;
        }
        let unit = match c.to_ascii_lowercase() {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(digits(text.get(from..i)?)?.checked_mul(unit)?)?;
        from = i + 1;
    }
    if from == text.len() && from > 0 { Some(total) } else { None }
}

/// The time of a signature: YYYYMMDDHHmmSS, or seconds since 1970 (RFC 4034 section 3.2). Of 32 bits, so that 1970
/// follows 2106; without a clock nothing else could be said.
pub(crate) fn time(token: &Token<'_>, what: &str) -> Result<u32, Flaw> {
    let seconds = match (token.text.len(), digits(token.text)) {
        (14, Some(n)) => seconds_of(n),
        (1..=10, Some(n)) => u32::try_from(n).ok(),
        _ => None,
    };
    let advice = "YYYYMMDDHHmmSS in UTC, or seconds since 1970";
    seconds.ok_or_else(|| Flaw::new(token.at, format!("the {what} is not a time")).instead(advice))
}

fn seconds_of(stamp: u64) -> Option<u32> {
    let two = |n: u64| (stamp / n % 100) as i64;
    let (year, month, day) = ((stamp / 10_000_000_000) as i64, two(100_000_000), two(1_000_000));
    let (hour, minute, second) = (two(10_000), two(100), two(1));
    if !(1..=12).contains(&month)
        || day < 1
        || day > days_of_month(year, month)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    // RFC 4034 section 3.1.5: serial arithmetic of 32 bits. Dumps of other servers hold dates before 1970 for what lies more
    // than 68 years ahead.
    let in_range = (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&seconds);
    in_range.then_some(seconds as u32)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March, so that the leap day is its last and months' lengths fall on a straight line.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day - 719_469
}

pub(crate) fn push_time(seconds: u32, out: &mut String) {
    let (mut days, clock) = (i64::from(seconds) / 86_400, i64::from(seconds) % 86_400);
    let mut year = 1970;
    while days >= year_length(year) {
        days -= year_length(year);
        year += 1;
    }
    let mut month = 1;
    while days >= days_of_month(year, month) {
        days -= days_of_month(year, month);
        month += 1;
    }
    let stamp = [year / 100, year % 100, month, days + 1, clock / 3600, clock / 60 % 60, clock % 60];
    for two in stamp {
        out.push((b'0' + (two / 10) as u8) as char);
        out.push((b'0' + (two % 10) as u8) as char);
    }
}

fn year_length(year: i64) -> i64 {
    337 + days_of_month(year, 2)
}

/// Appends a decimal number; in a quarter of the time of `write!`.
pub(crate) fn push(n: u64, out: &mut String) {
    let mut digits = [0u8; 20];
    let (mut n, mut at) = (n, digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    digits[at..].iter().for_each(|&d| out.push(d as char));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token<'_> {
        Token { text: text.as_bytes(), at: 0, shape: Shape::Plain }
    }

    #[test]
    fn an_ipv4_address_is_what_the_standard_library_takes_for_one() {
        let table = ["0.0.0.0", "255.255.255.255", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.04", "1..2.3"];
        let more = ["", ".", "1.2.3.4.", ".1.2.3.4", "1.2.3.1000", "0000.0.0.0", "1.2.3.a", "1.2.3.4 ", "-1.2.3.4"];
        for text in table.into_iter().chain(more) {
            let expect = text.parse::<std::net::Ipv4Addr>().ok().map(|a| a.octets());
            assert_eq!(four(text.as_bytes()), expect, "{text}");
        }
    }

    #[test]
    fn times_to_live() {
        let table = [
            ("0", Some(0)),
            ("3600", Some(3600)),
            ("1h30m", Some(5400)),
            ("1W2D3H4M5S", Some(788_645)),
            ("2147483647", Some(TTL_MAX)),
            ("2147483648", None),
            ("99999999999999999999999", None),
            ("1h30", None),
            ("h", None),
            ("1hh", None),
            ("1x", None),
            ("", None),
            ("-1", None),
        ];
        for (text, want) in table {
            assert_eq!(ttl(&token(text), "TTL", TTL_MAX).ok(), want, "{text}");
        }
    }

    #[test]
    fn times_of_signatures() {
        let table = [
            ("19700101000000", Some(0)),
            ("20170821000000", Some(1_503_273_600)),
            ("20240229235959", Some(1_709_251_199)),
            ("21060207062815", Some(u32::MAX)),
            ("19691231235959", Some(u32::MAX)),
            ("21060207062816", None),
            ("19010101000000", None),
            ("1503273600", Some(1_503_273_600)),
            ("20230229000000", None),
            ("20231301000000", None),
            ("20230100000000", None),
            ("2023010100000", None),
            ("x", None),
            ("", None),
        ];
        for (text, want) in table {
            assert_eq!(time(&token(text), "time").ok(), want, "{text}");
        }
    }

    #[test]
    fn times_there_and_back() {
        for seconds in (0..u32::MAX).step_by(7_654_321) {
            let mut text = String::new();
            push_time(seconds, &mut text);
            assert_eq!(time(&token(&text), "time"), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn numbers_there_and_back() {
        for n in [0, 9, 10, 65_535, u64::MAX] {
            let mut text = String::new();
            push(n, &mut text);
            assert_eq!(text, n.to_string());
            assert_eq!(digits(text.as_bytes()), Some(n));
        }
        assert_eq!(digits(b"18446744073709551616"), None);
    }
}
