//! Digests whose length is fixed by their type: one of another length can match nothing, so it is an error at once.

const SSHFP: u16 = 44;
const CDS: u16 = 59;
const ZONEMD: u16 = 63;
const TA: u16 = 32_768;
const DLV: u16 = 32_769;

/// Where a ZONEMD has its scheme, and the only one there is (RFC 8976 section 5.2).
const SCHEME_AT: usize = 4;
const SIMPLE: u8 = 1;

/// The length that a digest must have, and the one that it has, where its type is known.
pub(crate) fn lengths(rtype: u16, rdata: &[u8]) -> Option<(usize, usize)> {
    let type_at = match rtype {
        wire::rtype::DS | CDS | TA | DLV => 3,
        SSHFP => 1,
        ZONEMD => 5,
        _ => return None,
    };
    let want = match (rtype, rdata.get(type_at)?) {
        (ZONEMD, 1) if rdata.get(SCHEME_AT) == Some(&SIMPLE) => 48,
        (ZONEMD, 2) if rdata.get(SCHEME_AT) == Some(&SIMPLE) => 64,
        // RFC 8976 section 2.2.4: of any other at least so many. Of another scheme appendix A.3 has 20 with the first algorithm.
        (ZONEMD, _) => (rdata.len() - type_at - 1).max(12),
        (_, 1) => 20,
        (_, 2) => 32,
        (SSHFP, _) => return None,
        (_, 3) => 32,
        (_, 4) => 48,
        _ => return None,
    };
    Some((want, rdata.len() - type_at - 1))
}

pub(crate) fn fits(rtype: u16, rdata: &[u8]) -> bool {
    lengths(rtype, rdata).is_none_or(|(want, have)| want == have)
}
