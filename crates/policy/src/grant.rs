//! Who may have a zone as a whole: `allow-transfer`, a list of grants. A grant names addresses, a key, or both, and then
//! both must hold; who holds one grant of the list may have the zone.
//!
//! ```text
//! "192.0.2.0/24#xfr-key"   from there, signed with this key
//! "key:xfr-key"            signed with this key, from anywhere
//! "127.0.0.1"              from there
//! "any", "any#xfr-key"     from anywhere
//! ```
//! For transfers over TCP, where an address is proven.

use crate::acl::Prefix;
use std::net::IpAddr;
use wire::Name;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// None: from anywhere.
    from: Option<Prefix>,
    key: Option<Name>,
}

/// What is wrong with a grant, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadGrant {
    pub what: String,
    pub instead: &'static str,
}

const FORMS: &str =
    "write \"192.0.2.0/24#KEY\", \"key:KEY\", \"192.0.2.1\" or \"any\", KEY being the name of a [[key]]";

impl Grant {
    pub fn from_text(text: &str) -> Result<Grant, BadGrant> {
        let bad = |what| BadGrant { what, instead: FORMS };
        let named = |key: &str| {
            let name = Name::from_text(key.as_bytes(), Some(&Name::ROOT));
            name.map_err(|e| bad(format!("`{key}` is no name of a key: {}", e.why)))
        };
        if let Some(key) = text.strip_prefix("key:") {
            return Ok(Grant { from: None, key: Some(named(key)?) });
        }
        let (from, key) = match text.split_once('#') {
            Some((from, key)) => (from, Some(named(key)?)),
            None => (text, None),
        };
        let from = match from {
            "any" => None,
            prefix => Some(prefix.parse().map_err(bad)?),
        };
        Ok(Grant { from, key })
    }

    /// The key that it asks for.
    pub fn key(&self) -> Option<&Name> {
        self.key.as_ref()
    }

    fn holds(&self, ip: IpAddr, key: Option<&[u8]>) -> bool {
        let is_signed = |wanted: &Name| key.is_some_and(|key| key.eq_ignore_ascii_case(wanted.bytes()));
        self.from.is_none_or(|from| from.holds(ip)) && self.key.as_ref().is_none_or(is_signed)
    }
}

/// The grants of a zone, as many as are configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(pub Vec<Grant>);

impl Grants {
    /// `key`: the one with which the request was found to be signed.
    pub fn admit(&self, ip: IpAddr, key: Option<&[u8]>) -> bool {
        self.0.iter().any(|grant| grant.holds(ip, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(texts: &[&str]) -> Grants {
        Grants(texts.iter().map(|text| Grant::from_text(text).unwrap()).collect())
    }

    #[test]
    fn a_grant_holds_if_both_its_halves_do() {
        let (ours, theirs) = ("192.0.2.7", "198.51.100.1");
        for (texts, ip, key, expect) in [
            (&[][..], ours, None, false),
            (&["192.0.2.0/24"], ours, None, true),
            (&["192.0.2.0/24"], ours, Some("any."), true),
            (&["192.0.2.0/24"], theirs, Some("any."), false),
            (&["192.0.2.0/24#k"], ours, None, false),
            (&["192.0.2.0/24#k"], ours, Some("K."), true),
            (&["192.0.2.0/24#k"], ours, Some("other."), false),
            (&["192.0.2.0/24#k"], theirs, Some("k."), false),
            (&["key:k.example."], theirs, Some("k.example."), true),
            (&["key:k"], theirs, None, false),
            (&["any"], theirs, None, true),
            (&["any#k"], theirs, None, false),
            (&["key:k", "192.0.2.7"], ours, None, true),
        ] {
            let key = key.map(|key: &str| Name::from_text(key.as_bytes(), None).unwrap());
            let admitted = grants(texts).admit(ip.parse().unwrap(), key.as_ref().map(Name::bytes));
            assert_eq!(admitted, expect, "{texts:?} {ip} {key:?}");
        }
    }

    #[test]
    fn what_is_no_grant_is_told() {
        for (text, what) in [
            ("", "no IP address"),
            ("192.0.2.0/33", "no prefix length"),
            ("192.0.2.1#", "no name of a key"),
            ("key:a..b", "no name of a key"),
            ("none", "no IP address"),
        ] {
            let bad = Grant::from_text(text).unwrap_err();
            assert!(bad.what.contains(what), "{text}: {}", bad.what);
        }
    }
}
