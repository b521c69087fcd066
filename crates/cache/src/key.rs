//! What an entry is asked by: kind, variant, type, name, and their hash under the cache's secret key.
//!
//! One pass of SipHash-1-3 over the name serves every kind, variant and type of it. Whoever cannot see the key cannot
//! make two names collide; the name is compared all the same before anything is given out.

use wire::hash::siphash;

/// What an entry holds. The number is part of the key, and of the format of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An answer ready to send: see `pack`.
    Answer = 0,
    /// One RRset with its signatures.
    RrSet = 1,
    /// The servers of a zone.
    Cut = 2,
    /// A zone's keys, or the proof that it has none.
    Keys = 3,
    /// What is known of a server: its times, what it cannot do.
    Server = 4,
    /// A question that could not be answered (RFC 9520).
    Failure = 5,
}

impl Kind {
    pub const ALL: [Kind; 6] = [Kind::Answer, Kind::RrSet, Kind::Cut, Kind::Keys, Kind::Server, Kind::Failure];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Answer => "answer",
            Kind::RrSet => "rrset",
            Kind::Cut => "cut",
            Kind::Keys => "keys",
            Kind::Server => "server",
            Kind::Failure => "failure",
        }
    }
}

/// Which askers an entry is for. It is part of the key: who asks otherwise does not find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variant(u8);

impl Variant {
    pub const PLAIN: Variant = Variant(0);
    /// Asked with DO: signatures and denial are in it.
    pub const DNSSEC_OK: Variant = Variant(1);
    /// Asked with CD: nobody has validated it.
    pub const CHECKING_DISABLED: Variant = Variant(2);

    pub fn and(self, other: Variant) -> Variant {
        Variant(self.0 | other.0)
    }

    pub fn has(self, other: Variant) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn from_bits(bits: u8) -> Variant {
        Variant(bits & 3)
    }

    /// The variant that a query asks for. `header` begins the packet.
    #[inline]
    pub fn asked(query: &wire::Query, header: &[u8]) -> Variant {
        let cd = header.get(3).is_some_and(|flags| flags & 0x10 != 0);
        Variant(u8::from(query.edns.dnssec_ok) | u8::from(cd) << 1)
    }
}

/// The hash of a name, good for all keys of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameHash(pub(crate) u64);

/// Octets of a key before the name: kind and variant, octets of the name, type.
pub(crate) const HEAD: usize = 4;

#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    pub(crate) hash: u64,
    pub(crate) of_name: NameHash,
    pub(crate) head: [u8; HEAD],
    pub(crate) name: &'a [u8],
}

impl<'a> Key<'a> {
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    pub fn rtype(&self) -> u16 {
        u16::from_be_bytes([self.head[2], self.head[3]])
    }
}

/// The secrets of one cache.
#[derive(Clone, Copy)]
pub(crate) struct Hasher {
    key: [u8; 16],
    finish: u64,
}

impl Hasher {
    pub(crate) fn new(key: [u8; 16]) -> Hasher {
        Hasher { key, finish: siphash::<1, 3>(&key, b"finish") | 1 }
    }

    #[inline]
    pub(crate) fn name(&self, folded: &[u8]) -> NameHash {
        NameHash(siphash::<1, 3>(&self.key, folded))
    }

    /// A folded multiply by a secret: types and variants of one name spread over the whole table.
    #[inline]
    pub(crate) fn key<'a>(&self, hash: NameHash, name: &'a [u8], rtype: u16, kind: Kind, variant: Variant) -> Key<'a> {
        let [high, low] = rtype.to_be_bytes();
        let head = [(kind as u8) << 2 | variant.0, name.len() as u8, high, low];
        self.finished(hash, head, name)
    }

    fn finished<'a>(&self, hash: NameHash, head: [u8; HEAD], name: &'a [u8]) -> Key<'a> {
        Key { hash: self.mixed(hash, head), of_name: hash, head, name }
    }

    #[inline]
    fn mixed(&self, hash: NameHash, head: [u8; HEAD]) -> u64 {
        let m = u128::from(hash.0 ^ u64::from(u32::from_le_bytes(head))) * u128::from(self.finish);
        (m >> 64) as u64 ^ m as u64
    }

    /// The hash of the key that differs from another in its kind.
    #[inline]
    pub(crate) fn beside(&self, hash: NameHash, [first, len, high, low]: [u8; HEAD], kind: Kind) -> u64 {
        self.mixed(hash, [(kind as u8) << 2 | first & 3, len, high, low])
    }
}

impl Hasher {
    /// The key that begins `octets`, as a record has it. None: there is none.
    pub(crate) fn key_of<'a>(&self, octets: &'a [u8]) -> Option<Key<'a>> {
        let (head, rest) = octets.split_first_chunk::<HEAD>()?;
        let name = rest.get(..usize::from(head[1]))?;
        Some(self.finished(self.name(name), *head, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_variant_and_type_of_a_name_has_a_hash_of_its_own() {
        let h = Hasher::new([7; 16]);
        let name = h.name(b"\x01a\0");
        let mut seen = std::collections::BTreeSet::new();
        for kind in Kind::ALL {
            for variant in 0..4 {
                for rtype in 0..=u16::MAX {
                    assert!(seen.insert(h.key(name, b"\x01a\0", rtype, kind, Variant(variant)).hash));
                }
            }
        }
    }
}
