//! Record types by number (IANA "DNS Parameters"). Their mnemonics and formats live in `zonefile`.

pub type Rtype = u16;

pub const A: Rtype = 1;
pub const NS: Rtype = 2;
pub const MD: Rtype = 3;
pub const MF: Rtype = 4;
pub const CNAME: Rtype = 5;
pub const SOA: Rtype = 6;
pub const MB: Rtype = 7;
pub const MG: Rtype = 8;
pub const MR: Rtype = 9;
pub const PTR: Rtype = 12;
pub const HINFO: Rtype = 13;
pub const MINFO: Rtype = 14;
pub const MX: Rtype = 15;
pub const TXT: Rtype = 16;
pub const RP: Rtype = 17;
pub const AFSDB: Rtype = 18;
pub const RT: Rtype = 21;
pub const SIG: Rtype = 24;
pub const KEY: Rtype = 25;
pub const PX: Rtype = 26;
pub const AAAA: Rtype = 28;
pub const NXT: Rtype = 30;
pub const SRV: Rtype = 33;
pub const NAPTR: Rtype = 35;
pub const KX: Rtype = 36;
pub const DNAME: Rtype = 39;
pub const OPT: Rtype = 41;
pub const DS: Rtype = 43;
pub const RRSIG: Rtype = 46;
pub const NSEC: Rtype = 47;
pub const DNSKEY: Rtype = 48;
pub const NSEC3: Rtype = 50;
pub const NSEC3PARAM: Rtype = 51;
pub const ZONEMD: Rtype = 63;
pub const SVCB: Rtype = 64;
pub const HTTPS: Rtype = 65;
pub const TKEY: Rtype = 249;
pub const TSIG: Rtype = 250;
pub const IXFR: Rtype = 251;
pub const AXFR: Rtype = 252;
pub const MAILB: Rtype = 253;
pub const MAILA: Rtype = 254;
pub const ANY: Rtype = 255;

/// Types that stand only in queries and meta records: no zone may hold them (RFC 6895 section 3.1).
pub fn is_meta(t: Rtype) -> bool {
    t == OPT || (128..=255).contains(&t) || t == 0
}

/// Types whose embedded names a sender may compress: those of RFC 1035 alone (RFC 3597 section 4).
pub fn is_compressible(t: Rtype) -> bool {
    matches!(t, NS | MD | MF | CNAME | SOA | MB | MG | MR | PTR | MINFO | MX)
}
