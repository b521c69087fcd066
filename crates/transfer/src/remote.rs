//! Servers that a zone comes from or is announced to: `primaries` and `notify`, `ADDR[:PORT][#KEY]`.
//!
//! ```text
//! "192.0.2.1"                   port 53, nothing signed
//! "192.0.2.1:5300#xfr-key"      signed with this key, and believed only if the reply is
//! "[2001:db8::1]:5300"          an IPv6 address with a port stands in brackets
//! ```

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use wire::Name;

const PORT: u16 = 53;
const FORMS: &str = "write \"192.0.2.1\", \"192.0.2.1:5300\", \"[2001:db8::1]:5300\" or \"192.0.2.1#KEY\", KEY being the name of a [[key]]";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remote {
    pub address: SocketAddr,
    /// In lower case.
    pub key: Option<Name>,
}

/// What is wrong with it, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRemote {
    pub what: String,
    pub instead: &'static str,
}

impl Remote {
    pub fn from_text(text: &str) -> Result<Remote, BadRemote> {
        let bad = |what| BadRemote { what, instead: FORMS };
        let (address, key) = match text.split_once('#') {
            Some((address, key)) => (address, Some(key)),
            None => (text, None),
        };
        let key = key.map(|key| match Name::from_text(key.as_bytes(), Some(&Name::ROOT)) {
            Ok(name) => Ok(name.fold()),
            Err(e) => Err(bad(format!("`{key}` is no name of a key: {}", e.why))),
        });
        let ip = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        let address = match (ip.parse::<IpAddr>(), address.parse::<SocketAddr>()) {
            (Ok(ip), _) => SocketAddr::new(ip, PORT),
            (_, Ok(address)) => address,
            _ => return Err(bad(format!("`{address}` is no address"))),
        };
        match address.port() {
            0 => Err(bad("nobody listens on port 0".to_string())),
            _ => Ok(Remote { address, key: key.transpose()? }),
        }
    }
}

/// As it is written, the port only if it is not the usual one.
impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // On two links there are two of one link-local address.
        let has_link = matches!(self.address, SocketAddr::V6(v6) if v6.scope_id() != 0);
        match self.address.port() {
            PORT if !has_link => write!(f, "{}", self.address.ip())?,
            _ => write!(f, "{}", self.address)?,
        }
        let key = self.key.as_ref().map(|key| key.to_string());
        key.map_or(Ok(()), |key| write!(f, "#{}", key.strip_suffix('.').unwrap_or(&key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_printed_the_same() {
        for (text, address, key) in [
            ("192.0.2.1", "192.0.2.1:53", None),
            ("192.0.2.1:5300", "192.0.2.1:5300", None),
            ("2001:db8::1", "[2001:db8::1]:53", None),
            ("[2001:db8::1]:5300#k", "[2001:db8::1]:5300", Some("k.")),
            ("192.0.2.1#xfr.example", "192.0.2.1:53", Some("xfr.example.")),
            ("[fe80::1%2]:53", "[fe80::1%2]:53", None),
        ] {
            let remote = Remote::from_text(text).unwrap();
            assert_eq!((remote.address, remote.to_string().as_str()), (address.parse().unwrap(), text));
            assert_eq!(remote.key.map(|key| key.to_string()).as_deref(), key);
        }
        assert_eq!(Remote::from_text("[2001:db8::1]#K.").unwrap().to_string(), "2001:db8::1#k");
    }

    #[test]
    fn what_is_no_server_is_told() {
        for (text, what) in [
            ("", "`` is no address"),
            ("ns1.example", "`ns1.example` is no address"),
            ("192.0.2.0/24", "`192.0.2.0/24` is no address"),
            ("192.0.2.1:0", "port 0"),
            ("192.0.2.1#", "no name of a key"),
            ("192.0.2.1#a..b", "no name of a key"),
        ] {
            let bad = Remote::from_text(text).unwrap_err();
            assert!(bad.what.contains(what), "{text}: {}", bad.what);
        }
    }
}
