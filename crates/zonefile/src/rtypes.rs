//! The table of types: number, mnemonic, and the fields of the rdata in the order in which they stand in text.
//! Reading, writing, checking and finding names all follow it; a type is added here and, if its fields are new, nowhere
//! but in the three places that `match` on `Kind`.

use crate::number;

/// How one field looks, on the wire and in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    U8,
    U16,
    U32,
    U64,
    /// 32 bits, written with units if one likes.
    Ttl,
    /// A type's mnemonic.
    Rtype,
    /// A DNSSEC algorithm, by number or mnemonic.
    Algorithm,
    /// CERT's type of certificate, by number or mnemonic.
    Certificate,
    /// DSYNC's scheme, by number or mnemonic.
    Scheme,
    /// The time of a signature.
    Time,
    Ip4,
    Ip6,
    /// Length octet and octets.
    Str,
    /// The same or nothing; last.
    StrOrNone,
    /// One or more of them, to the end.
    Strs,
    /// A quoted string that has no length octet, to the end; at least one octet.
    Text,
    TextOrNone,
    /// CAA's tag: letters and digits with a length octet, not quoted.
    Tag,
    /// To the end, at least one octet.
    Hex,
    /// To the end, at least one octet.
    Base64,
    Base64OrNone,
    /// The same, "-" where there is none.
    Base64OrDash,
    /// NSEC3's salt: length octet, hexadecimal, "-" where there is none.
    Salt,
    /// NSEC3's hash: length octet, base32hex.
    Hash,
    /// NSEC's windows of types.
    Bitmap,
    /// NXT's bitmap: types 1 to 127 without windows.
    ShortBitmap,
    /// SVCB's parameters.
    Params,
    Loc,
    /// APL's prefixes.
    Prefixes,
    /// WKS's protocol and ports.
    Protocol,
    Ports,
    /// What `Gateway` will be: none, IPv4, IPv6 or a name.
    GatewayType,
    /// AMTRELAY's: the discovery bit and the type of gateway in one octet.
    RelayType,
    Gateway,
    /// HIP's lengths, algorithm, tag and key.
    Hip,
    /// None or more, to the end.
    Names,
    /// A6's prefix length and the address bits that follow it.
    Suffix,
    /// A6's name, present unless the prefix is empty.
    PrefixName,
    Nsap,
    Eui48,
    Eui64,
    /// ILNP's 64 bits: four groups of hexadecimal digits.
    Locator,
}

use Kind::*;

/// Fields with the names that messages call them by.
pub(crate) type Fields = &'static [(&'static str, Kind)];

pub(crate) struct Type {
    number: u16,
    mnemonic: &'static str,
    fields: Fields,
}

const fn t(number: u16, mnemonic: &'static str, fields: Fields) -> Type {
    Type { number, mnemonic, fields }
}

const ONE_NAME: Fields = &[("name", Name)];
const STRINGS: Fields = &[("text", Strs)];
const PREFERENCE_NAME: Fields = &[("preference", U16), ("name", Name)];
const TWO_NAMES: Fields = &[("first name", Name), ("second name", Name)];
const KEY: Fields = &[("flags", U16), ("protocol", U8), ("algorithm", Algorithm), ("key", Base64)];
const OLD_KEY: Fields = &[("flags", U16), ("protocol", U8), ("algorithm", Algorithm), ("key", Base64OrNone)];
const DIGEST: Fields = &[("key tag", U16), ("algorithm", Algorithm), ("digest type", U8), ("digest", Hex)];
const SIGNATURE: Fields = &[
    ("type covered", Rtype),
    ("algorithm", Algorithm),
    ("labels", U8),
    ("original TTL", Ttl),
    ("expiration", Time),
    ("inception", Time),
    ("key tag", U16),
    ("signer", Name),
    ("signature", Base64),
];
const CERTIFICATE_HASH: Fields = &[("usage", U8), ("selector", U8), ("matching type", U8), ("data", Hex)];
const SERVICE: Fields = &[("priority", U16), ("target", Name), ("parameters", Params)];
/// No text form but that of RFC 3597.
const OPAQUE: Fields = &[];

/// IANA's registry of 2026, in order.
pub(crate) static TYPES: [Type; 97] = [
    t(1, "A", &[("address", Ip4)]),
    t(2, "NS", ONE_NAME),
    t(3, "MD", ONE_NAME),
    t(4, "MF", ONE_NAME),
    t(5, "CNAME", ONE_NAME),
    t(
        6,
        "SOA",
        &[
            ("primary server", Name),
            ("mailbox", Name),
            ("serial", U32),
            ("refresh", Ttl),
            ("retry", Ttl),
            ("expire", Ttl),
            ("minimum", Ttl),
        ],
    ),
    t(7, "MB", ONE_NAME),
    t(8, "MG", ONE_NAME),
    t(9, "MR", ONE_NAME),
    t(10, "NULL", OPAQUE),
    t(11, "WKS", &[("address", Ip4), ("protocol", Protocol), ("services", Ports)]),
    t(12, "PTR", ONE_NAME),
    t(13, "HINFO", &[("CPU", Str), ("system", Str)]),
    t(14, "MINFO", TWO_NAMES),
    t(15, "MX", PREFERENCE_NAME),
    t(16, "TXT", STRINGS),
    t(17, "RP", TWO_NAMES),
    t(18, "AFSDB", PREFERENCE_NAME),
    t(19, "X25", &[("address", Str)]),
    t(20, "ISDN", &[("address", Str), ("subaddress", StrOrNone)]),
    t(21, "RT", PREFERENCE_NAME),
    t(22, "NSAP", &[("address", Nsap)]),
    t(23, "NSAP-PTR", ONE_NAME),
    t(24, "SIG", SIGNATURE),
    t(25, "KEY", OLD_KEY),
    t(26, "PX", &[("preference", U16), ("first name", Name), ("second name", Name)]),
    t(27, "GPOS", &[("longitude", Str), ("latitude", Str), ("altitude", Str)]),
    t(28, "AAAA", &[("address", Ip6)]),
    t(29, "LOC", &[("location", Loc)]),
    t(30, "NXT", &[("next name", Name), ("types", ShortBitmap)]),
    t(31, "EID", &[("identifier", Hex)]),
    t(32, "NIMLOC", &[("locator", Hex)]),
    t(33, "SRV", &[("priority", U16), ("weight", U16), ("port", U16), ("target", Name)]),
    t(34, "ATMA", OPAQUE),
    t(
        35,
        "NAPTR",
        &[
            ("order", U16),
            ("preference", U16),
            ("flags", Str),
            ("services", Str),
            ("expression", Str),
            ("replacement", Name),
        ],
    ),
    t(36, "KX", PREFERENCE_NAME),
    t(
        37,
        "CERT",
        &[("certificate type", Certificate), ("key tag", U16), ("algorithm", Algorithm), ("certificate", Base64)],
    ),
    t(38, "A6", &[("suffix", Suffix), ("prefix name", PrefixName)]),
    t(39, "DNAME", ONE_NAME),
    t(40, "SINK", &[("meaning", U8), ("coding", U8), ("subcoding", U8), ("data", Base64OrNone)]),
    t(41, "OPT", OPAQUE),
    t(42, "APL", &[("prefixes", Prefixes)]),
    t(43, "DS", DIGEST),
    t(44, "SSHFP", &[("algorithm", U8), ("fingerprint type", U8), ("fingerprint", Hex)]),
    t(
        45,
        "IPSECKEY",
        &[
            ("precedence", U8),
            ("gateway type", GatewayType),
            ("algorithm", U8),
            ("gateway", Gateway),
            ("key", Base64OrNone),
        ],
    ),
    t(46, "RRSIG", SIGNATURE),
    t(47, "NSEC", &[("next name", Name), ("types", Bitmap)]),
    t(48, "DNSKEY", KEY),
    t(49, "DHCID", &[("digest", Base64)]),
    t(
        50,
        "NSEC3",
        &[
            ("hash algorithm", U8),
            ("flags", U8),
            ("iterations", U16),
            ("salt", Salt),
            ("next hash", Hash),
            ("types", Bitmap),
        ],
    ),
    t(51, "NSEC3PARAM", &[("hash algorithm", U8), ("flags", U8), ("iterations", U16), ("salt", Salt)]),
    t(52, "TLSA", CERTIFICATE_HASH),
    t(53, "SMIMEA", CERTIFICATE_HASH),
    t(55, "HIP", &[("identity", Hip), ("rendezvous servers", Names)]),
    t(56, "NINFO", STRINGS),
    t(57, "RKEY", KEY),
    t(58, "TALINK", TWO_NAMES),
    t(59, "CDS", DIGEST),
    t(60, "CDNSKEY", KEY),
    t(61, "OPENPGPKEY", &[("key", Base64)]),
    t(62, "CSYNC", &[("serial", U32), ("flags", U16), ("types", Bitmap)]),
    t(63, "ZONEMD", &[("serial", U32), ("scheme", U8), ("hash algorithm", U8), ("digest", Hex)]),
    t(64, "SVCB", SERVICE),
    t(65, "HTTPS", SERVICE),
    t(66, "DSYNC", &[("type", Rtype), ("scheme", Scheme), ("port", U16), ("target", Name)]),
    t(67, "HHIT", &[("data", Base64)]),
    t(68, "BRID", &[("data", Base64)]),
    t(99, "SPF", STRINGS),
    t(100, "UINFO", OPAQUE),
    t(101, "UID", OPAQUE),
    t(102, "GID", OPAQUE),
    t(103, "UNSPEC", OPAQUE),
    t(104, "NID", &[("preference", U16), ("identifier", Locator)]),
    t(105, "L32", &[("preference", U16), ("locator", Ip4)]),
    t(106, "L64", &[("preference", U16), ("locator", Locator)]),
    t(107, "LP", PREFERENCE_NAME),
    t(108, "EUI48", &[("address", Eui48)]),
    t(109, "EUI64", &[("address", Eui64)]),
    t(128, "NXNAME", OPAQUE),
    t(249, "TKEY", OPAQUE),
    t(250, "TSIG", OPAQUE),
    t(251, "IXFR", OPAQUE),
    t(252, "AXFR", OPAQUE),
    t(253, "MAILB", OPAQUE),
    t(254, "MAILA", OPAQUE),
    t(255, "ANY", OPAQUE),
    t(256, "URI", &[("priority", U16), ("weight", U16), ("target", Text)]),
    t(257, "CAA", &[("flags", U8), ("tag", Tag), ("value", TextOrNone)]),
    t(258, "AVC", STRINGS),
    t(259, "DOA", &[("enterprise", U32), ("type", U32), ("location", U8), ("media type", Str), ("data", Base64OrDash)]),
    t(260, "AMTRELAY", &[("precedence", U8), ("relay type", RelayType), ("relay", Gateway)]),
    t(261, "RESINFO", STRINGS),
    t(262, "WALLET", STRINGS),
    t(263, "CLA", STRINGS),
    t(264, "IPN", &[("number", U64)]),
    t(32_768, "TA", DIGEST),
    t(32_769, "DLV", DIGEST),
];

const DENSE: usize = 265;
const ABSENT: u8 = u8::MAX;

/// Index into `TYPES` by number, for the dense part of the registry.
static BY_NUMBER: [u8; DENSE] = {
    let mut index = [ABSENT; DENSE];
    let mut i = 0;
    while i < TYPES.len() {
        if (TYPES[i].number as usize) < DENSE {
            index[TYPES[i].number as usize] = i as u8;
        }
        i += 1;
    }
    index
};

/// Mnemonics as numbers, sorted, with the types' numbers: seven comparisons find one of them, without a hash.
static BY_MNEMONIC: [(u128, u16); TYPES.len()] = {
    let mut sorted = [(0, 0); TYPES.len()];
    let mut i = 0;
    while i < TYPES.len() {
        let entry = (packed(TYPES[i].mnemonic.as_bytes()), TYPES[i].number);
        let mut at = i;
        while at > 0 && sorted[at - 1].0 > entry.0 {
            sorted[at] = sorted[at - 1];
            at -= 1;
        }
        sorted[at] = entry;
        i += 1;
    }
    sorted
};

/// Up to 16 characters in one number, in upper case; 0 for more.
const fn packed(text: &[u8]) -> u128 {
    let (mut n, mut i) = (0, 0);
    while i < text.len() && text.len() <= 16 {
        n = n << 8 | text[i].to_ascii_uppercase() as u128;
        i += 1;
    }
    n
}

fn entry(number: u16) -> Option<&'static Type> {
    match BY_NUMBER.get(number as usize) {
        Some(&i) => TYPES.get(i as usize),
        None => TYPES.iter().rev().take(2).find(|t| t.number == number),
    }
}

/// The mnemonic that `text` misses by one slip of the finger, if there is one.
pub(crate) fn nearest(text: &[u8]) -> Option<&'static str> {
    let near = |t: &&Type| text.len() > 2 && is_one_slip(&text.to_ascii_uppercase(), t.mnemonic.as_bytes());
    TYPES.iter().find(near).map(|t| t.mnemonic)
}

/// One character wrong, missing or too many, or two that changed places.
fn is_one_slip(a: &[u8], b: &[u8]) -> bool {
    let same_start = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (a.get(same_start..).unwrap_or(&[]), b.get(same_start..).unwrap_or(&[]));
    let same_end = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    match (a.get(..a.len() - same_end), b.get(..b.len() - same_end)) {
        (Some([p, q]), Some([r, s])) => p == s && q == r,
        (Some(x), Some(y)) => x.len() <= 1 && y.len() <= 1,
        _ => false,
    }
}

/// The fields of a type that has a text form of its own.
pub(crate) fn fields(number: u16) -> Option<Fields> {
    entry(number).map(|t| t.fields).filter(|f| !f.is_empty())
}

/// `A`, `TYPE65534`.
pub fn mnemonic(number: u16) -> String {
    let mut text = String::new();
    push_mnemonic(number, &mut text);
    text
}

pub fn push_mnemonic(number: u16, out: &mut String) {
    match entry(number) {
        Some(t) => out.push_str(t.mnemonic),
        None => push_numbered("TYPE", number, out),
    }
}

/// In any case; `TYPE123` too.
pub fn from_mnemonic(text: &[u8]) -> Option<u16> {
    // Nearly all records are of these types, and spelt so: no need to search the table.
    match text {
        b"A" => return Some(wire::rtype::A),
        b"NS" => return Some(wire::rtype::NS),
        b"AAAA" => return Some(wire::rtype::AAAA),
        b"DS" => return Some(wire::rtype::DS),
        b"RRSIG" => return Some(wire::rtype::RRSIG),
        b"NSEC3" => return Some(wire::rtype::NSEC3),
        _ => {}
    }
    let key = packed(text);
    match BY_MNEMONIC.binary_search_by_key(&key, |&(key, _)| key) {
        Ok(i) => BY_MNEMONIC.get(i).map(|&(_, number)| number),
        Err(_) => numbered(b"TYPE", text),
    }
}

const CLASSES: [(u16, &str); 5] = [(1, "IN"), (3, "CH"), (4, "HS"), (254, "NONE"), (255, "ANY")];

/// `IN`, `CLASS42`.
pub fn class_mnemonic(number: u16) -> String {
    let mut text = String::new();
    push_class(number, &mut text);
    text
}

pub fn push_class(number: u16, out: &mut String) {
    match CLASSES.iter().find(|c| c.0 == number) {
        Some((_, mnemonic)) => out.push_str(mnemonic),
        None => push_numbered("CLASS", number, out),
    }
}

/// In any case; `CLASS123` too.
pub fn class_from_mnemonic(text: &[u8]) -> Option<u16> {
    if text.eq_ignore_ascii_case(b"IN") {
        return Some(1);
    }
    let known = CLASSES.iter().find(|c| text.eq_ignore_ascii_case(c.1.as_bytes()));
    known.map(|c| c.0).or_else(|| numbered(b"CLASS", text))
}

fn push_numbered(prefix: &str, number: u16, out: &mut String) {
    out.push_str(prefix);
    number::push(number.into(), out);
}

fn numbered(prefix: &[u8], text: &[u8]) -> Option<u16> {
    let (head, digits) = text.split_at_checked(prefix.len())?;
    if !head.eq_ignore_ascii_case(prefix) {
        return None;
    }
    number::digits(digits).and_then(|n| u16::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mnemonic_there_and_back() {
        for number in 0..=u16::MAX {
            let text = mnemonic(number);
            assert_eq!(from_mnemonic(text.as_bytes()), Some(number), "{text}");
            assert_eq!(from_mnemonic(text.to_lowercase().as_bytes()), Some(number), "{text}");
            let class = class_mnemonic(number);
            assert_eq!(class_from_mnemonic(class.to_lowercase().as_bytes()), Some(number), "{class}");
        }
    }

    #[test]
    fn what_is_no_type_and_no_class() {
        for text in ["", "B", "TYPE", "TYPE65536", "TYPE-1", "TYPEX", "NSEC3PARAMNSEC3PARAM", "IN"] {
            assert_eq!(from_mnemonic(text.as_bytes()), None, "{text}");
        }
        for text in ["", "I", "CLASS", "CLASS65536", "A"] {
            assert_eq!(class_from_mnemonic(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_slip_of_the_finger_is_seen() {
        let table = [
            ("CNMAE", Some("CNAME")),
            ("AAA", Some("AAAA")),
            ("aaaaa", Some("AAAA")),
            ("dnskez", Some("DNSKEY")),
            ("XX", None),
            ("HELLO", None),
            ("", None),
        ];
        for (text, want) in table {
            assert_eq!(nearest(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn the_table_is_in_order_and_its_numbers_agree_with_wire() {
        assert!(TYPES.windows(2).all(|w| w[0].number < w[1].number));
        assert_eq!(from_mnemonic(b"NSEC3PARAM"), Some(wire::rtype::NSEC3PARAM));
        assert_eq!(from_mnemonic(b"https"), Some(wire::rtype::HTTPS));
    }
}
