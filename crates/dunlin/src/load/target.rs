//! Whom the queries go to, and whether that is anybody's business.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

const PORT: u16 = 53;
/// Queries a second to strangers, above which the operator must say that it is their own.
pub const CAP: f64 = 10_000.0;

/// The address, and the name where it was one. A name is looked up once, here, and never again.
pub fn resolve(text: &str) -> Result<(SocketAddr, Option<String>), String> {
    if let Ok(address) = text.parse() {
        return Ok((address, None));
    }
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok((SocketAddr::new(ip, PORT), None));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => {
            (host, port.parse().map_err(|_| format!("target: `{port}` in `{text}` is no port: write ADDR:PORT"))?)
        }
        None => (text, PORT),
    };
    let mut found = (host, port).to_socket_addrs().map_err(|e| format!("target: `{host}` is not found: {e}"))?;
    let address = found.next().ok_or_else(|| format!("target: `{host}` has no address"))?;
    Ok((address, Some(text.to_string())))
}

/// Loopback, private, shared (RFC 6598) and link-local addresses: nobody else can be hit there.
pub fn is_own(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || (a == 100 && b & 0xc0 == 64)
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_own(IpAddr::V4(v4)),
            None => v6.is_loopback() || v6.segments()[0] & 0xfe00 == 0xfc00 || v6.segments()[0] & 0xffc0 == 0xfe80,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_in_every_spelling() {
        for (text, expect) in [
            ("127.0.0.1", "127.0.0.1:53"),
            ("127.0.0.1:5300", "127.0.0.1:5300"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5300", "[::1]:5300"),
        ] {
            assert_eq!(resolve(text), Ok((expect.parse().unwrap(), None)), "{text}");
        }
        assert!(resolve("localhost:5300").is_ok_and(|(a, name)| a.port() == 5300 && name.is_some()));
        for text in ["localhost:x", "nobody.invalid", "127.0.0.1:99999"] {
            assert!(resolve(text).is_err(), "{text}");
        }
    }

    #[test]
    fn strangers_are_told_from_ones_own() {
        for own in [
            "127.9.9.9",
            "10.0.0.1",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "100.64.0.1",
            "::1",
            "fd00::1",
            "fe80::1",
        ] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        for other in ["192.0.2.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2001:db8::1", "::ffff:8.8.8.8"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
    }
}
