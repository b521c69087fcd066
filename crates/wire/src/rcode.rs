//! Response codes: the twelve bits of header and OPT together (RFC 6895 section 2.3).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rcode(pub u16);

impl Rcode {
    pub const NOERROR: Rcode = Rcode(0);
    pub const FORMERR: Rcode = Rcode(1);
    pub const SERVFAIL: Rcode = Rcode(2);
    pub const NXDOMAIN: Rcode = Rcode(3);
    pub const NOTIMP: Rcode = Rcode(4);
    pub const REFUSED: Rcode = Rcode(5);
    pub const YXDOMAIN: Rcode = Rcode(6);
    pub const YXRRSET: Rcode = Rcode(7);
    pub const NXRRSET: Rcode = Rcode(8);
    pub const NOTAUTH: Rcode = Rcode(9);
    pub const NOTZONE: Rcode = Rcode(10);
    pub const BADVERS: Rcode = Rcode(16);
}

/// Extended DNS errors (RFC 8914) that we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ede(pub u16);

impl Ede {
    pub const STALE_ANSWER: Ede = Ede(3);
    pub const CACHED_ERROR: Ede = Ede(13);
    pub const NOT_READY: Ede = Ede(14);
    pub const PROHIBITED: Ede = Ede(18);
    pub const STALE_NXDOMAIN: Ede = Ede(19);
    pub const NOT_AUTHORITATIVE: Ede = Ede(20);
    pub const NOT_SUPPORTED: Ede = Ede(21);
    pub const NO_REACHABLE_AUTHORITY: Ede = Ede(22);
    pub const NETWORK_ERROR: Ede = Ede(23);
    pub const INVALID_DATA: Ede = Ede(24);
}
