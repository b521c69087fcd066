//! All that can be wrong with a zone, each with the name that programs know it by and how bad it is.
//!
//! Rated as the peers rate it: fatal what `named-checkzone` refuses and `kzonecheck` calls serious, an error what one of
//! them refuses, a warning what one of them mentions, or what we mention. Where we differ, docs/ambiguities.md says why.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rating {
    /// The zone is not served.
    Fatal,
    /// The zone is served, and somebody will not get what they ask for.
    Error,
    /// It works, and probably was not meant.
    Warning,
}

macro_rules! faults {
    ($($fault:ident $name:literal $rating:ident $what:literal, $instead:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($fault,)*
        }

        impl Fault {
            pub const ALL: &[Fault] = &[$(Fault::$fault,)*];

            /// For programs; never changes.
            pub fn name(self) -> &'static str {
                match self {
                    $(Fault::$fault => $name,)*
                }
            }

            /// True if it is one record's that names a host, which the finding names.
            pub fn is_about_host(self) -> bool {
                use Fault::*;
                matches!(
                    self,
                    NoGlue
                        | NoSiblingGlue
                        | NsAtAlias
                        | NsWithoutAddress
                        | MxAtAlias
                        | MxWithoutAddress
                        | SrvAtAlias
                        | SrvWithoutAddress
                )
            }

            pub fn rating(self) -> Rating {
                match self {
                    $(Fault::$fault => Rating::$rating,)*
                }
            }

            pub fn what(self) -> &'static str {
                match self {
                    $(Fault::$fault => $what,)*
                }
            }

            /// What to write instead; may be empty.
            pub fn instead(self) -> &'static str {
                match self {
                    $(Fault::$fault => $instead,)*
                }
            }
        }
    };
}

faults! {
    NoSoa "soa-missing" Fatal
        "there is no SOA record at the zone's apex", "@ SOA MNAME RNAME SERIAL REFRESH RETRY EXPIRE MINIMUM";
    ManySoas "soa-many" Fatal
        "there is more than one SOA record at the zone's apex", "one SOA";
    NoNs "ns-missing" Fatal
        "there is no NS record at the zone's apex", "@ NS and the name of a server of the zone";
    CnameBesideData "cname-beside-data" Fatal
        "other data stands beside a CNAME (RFC 1034 section 3.6.2)", "the data at the name that the CNAME leads to";
    ManyCnames "cname-many" Fatal
        "more than one CNAME (RFC 2181 section 10.1)", "one CNAME";
    ManyDnames "dname-many" Fatal
        "more than one DNAME (RFC 6672 section 2.4)", "one DNAME";
    DsAtApex "ds-at-apex" Fatal
        "a DS at the zone's apex: it belongs into the zone above (RFC 4035 section 2.4)", "";
    DnameBesideNs "dname-beside-ns" Error
        "a DNAME beside NS, and not at the apex (RFC 6672 section 2.3)", "one of the two";
    BelowDname "dname-above-data" Error
        "a name below a DNAME, which no one will be told of (RFC 6672 section 2.4)", "";
    NsAtWildcard "ns-at-wildcard" Error
        "NS at a wildcard means something else to each server (RFC 4592 section 4.2)", "NS at each name";
    DsWithoutNs "ds-without-ns" Error
        "a DS where there is no delegation (RFC 4035 section 2.4)", "NS beside it";
    NoGlue "glue-missing" Error
        "a delegation to a host in the delegated zone, without its address (RFC 9471)", "A or AAAA of that host";
    NsWithoutAddress "ns-without-address" Error
        "an NS record names a host of this zone that has no address", "A or AAAA of that host";
    NsAtAlias "ns-at-alias" Error
        "an NS record names an alias (RFC 2181 section 10.3)", "the name that the alias leads to";
    NoRrsig "rrsig-missing" Error
        "an RRset without a signature in a signed zone (RFC 4035 section 2.2)", "";
    RrsigExpired "rrsig-expired" Error
        "the signature has expired", "a new signature";
    RrsigEarly "rrsig-not-yet-valid" Error
        "the signature is not valid yet", "";
    RrsigSigner "rrsig-signer" Error
        "the signer is not the zone (RFC 4035 section 2.2)", "";
    RrsigKey "rrsig-without-dnskey" Error
        "no DNSKEY of the zone has the signature's key tag and algorithm", "";
    RrsigLabels "rrsig-labels" Error
        "the signature counts other labels than its owner has (RFC 4034 section 3.1.3)", "";
    RrsigTtl "rrsig-ttl" Error
        "the signature is over another TTL (RFC 4034 section 3.1.4)", "";
    NoDnskey "dnskey-missing" Error
        "signatures, and no DNSKEY at the apex", "";
    NoDenial "denial-missing" Error
        "the zone is signed and has neither NSEC nor NSEC3PARAM at its apex", "";
    NoNsec "nsec-missing" Error
        "a name without NSEC or NSEC3 in a signed zone", "";
    NsecChain "nsec-chain" Error
        "the NSEC or NSEC3 does not lead to the next name", "";
    NsecBitmap "nsec-bitmap" Error
        "the NSEC or NSEC3 lists other types than are there", "";
    NsecExtra "nsec-superfluous" Error
        "an NSEC or NSEC3 for a name that is not there, or not the zone's", "";
    Nsec3Param "nsec3param-mismatch" Error
        "no NSEC3 has the parameters that NSEC3PARAM states (RFC 5155 section 4)", "";
    Zonemd "zonemd-mismatch" Error
        "the zone is not what its ZONEMD is the digest of (RFC 8976), or has two of one scheme and hash algorithm", "a new ZONEMD";
    NoSiblingGlue "sibling-glue-missing" Warning
        "an NS record names a host below another delegation, without its address here (RFC 9471)", "A or AAAA of that host";
    MxAtAlias "mx-at-alias" Warning
        "an MX record names an alias (RFC 2181 section 10.3)", "the name that the alias leads to";
    SrvAtAlias "srv-at-alias" Warning
        "an SRV record names an alias (RFC 2782)", "the name that the alias leads to";
    MxWithoutAddress "mx-without-address" Warning
        "an MX record names a host of this zone that has no address", "A or AAAA of that host";
    SrvWithoutAddress "srv-without-address" Warning
        "an SRV record names a host of this zone that has no address", "A or AAAA of that host";
    Occluded "occluded" Warning
        "data at or below a delegation is not answered with (RFC 9499 section 7)", "it in the delegated zone";
    InnerAsterisk "asterisk-within" Warning
        "an asterisk that is not the first label is no wildcard (RFC 4592 section 2.1.1)", "";
    UnequalTtls "ttl-unequal" Warning
        "the TTLs of an RRset differ (RFC 2181 section 5.2); one of them is used for all", "one TTL";
    Twice "record-twice" Warning
        "a record is there twice; one is kept (RFC 2181 section 5)", "it once";
    ManyRecords "records-per-type" Warning
        "more records of one type at a name than other servers take", "";
    ManyTypes "types-per-name" Warning
        "more types at a name than other servers take", "";
    RrsigSoon "rrsig-expires-soon" Warning
        "the signature expires soon", "a new signature";
    RrsigOverGlue "rrsig-not-ours" Warning
        "a signature over what is not the zone's own: NS of a delegation, glue, occluded data (RFC 4035 section 2.2)", "";
    Nsec3Iterations "nsec3-iterations" Warning
        "NSEC3 with more iterations than resolvers take (RFC 9276 asks for 0); names were not compared with NSEC3", "0";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_one_each_and_in_one_spelling() {
        let names: BTreeSet<&str> = Fault::ALL.iter().map(|f| f.name()).collect();
        assert_eq!(names.len(), Fault::ALL.len());
        assert!(names.iter().all(|n| n.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')));
    }
}
