//! The record types that the tests ask for, by number and mnemonic.

pub type Rtype = u16;

macro_rules! types {
    ($($name:ident = $number:literal),* $(,)?) => {
        $(pub const $name: Rtype = $number;)*

        /// The mnemonic, or the form of RFC 3597 section 5.
        pub fn text(t: Rtype) -> String {
            match t {
                $($number => stringify!($name).to_string(),)*
                _ => format!("TYPE{t}"),
            }
        }

        /// The number of a mnemonic or of `TYPE12`; 0 for anything else.
        pub fn number(text: &str) -> Rtype {
            match text {
                $(stringify!($name) => $number,)*
                _ => text.strip_prefix("TYPE").and_then(|n| n.parse().ok()).unwrap_or(0),
            }
        }
    };
}

types! {
    A = 1, NS = 2, MD = 3, MF = 4, CNAME = 5, SOA = 6, MB = 7, MG = 8, MR = 9, NULL = 10, PTR = 12, HINFO = 13, MINFO = 14, MX = 15,
    TXT = 16, RP = 17, AFSDB = 18, RT = 21, SIG = 24, KEY = 25, PX = 26, AAAA = 28, NXT = 30, SRV = 33, NAPTR = 35, KX = 36,
    DNAME = 39, OPT = 41, DS = 43, RRSIG = 46, NSEC = 47, DNSKEY = 48, NSEC3 = 50, NSEC3PARAM = 51, CDS = 59, SVCB = 64, HTTPS = 65,
    TKEY = 249, TSIG = 250, IXFR = 251, AXFR = 252, MAILB = 253, MAILA = 254, ANY = 255, CAA = 257,
}
