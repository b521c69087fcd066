//! What stands under the kinds of key that recursion asks for: RRsets, cuts, keys, what is known of a server, failures.
//!
//! ```text
//! rrset    trust u8 | TTL u32 | records u16 | signatures u16 | each: length u16, rdata
//! cut      servers u8 | each: addresses u8, name, each address: octets u8 (4 or 16), address
//! keys     1: secure | keys u16 | each: length u16, rdata          0: proven to have none
//! server   smoothed time u32 us | variation u32 us | flags u8 | octets of its cookie u8, cookie
//! failure  why u8 | extended error u16
//! ```
//!
//! Numbers are little-endian. Written once and read as often as asked; reading copies nothing, and gives None where the
//! octets are no such thing.

use crate::entry::VALUE_MAX;
use std::net::IpAddr;

/// How much an RRset is to be believed (RFC 2181 section 5.4.1), lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Beside an answer or a referral.
    Glue = 0,
    /// NS of the parent.
    Referral = 1,
    /// From the zone's own servers, not validated.
    Answer = 2,
    /// Proven to be from a zone without signatures.
    Insecure = 3,
    /// Validated.
    Secure = 4,
}

impl Trust {
    const ALL: [Trust; 5] = [Trust::Glue, Trust::Referral, Trust::Answer, Trust::Insecure, Trust::Secure];

    /// Whether what is believed this much may take the place of what is there and has not expired.
    pub fn replaces(self, there: Trust) -> bool {
        self >= there
    }
}

/// One RRset with its signatures; each rdata with its length before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RrSet<'a> {
    pub trust: Trust,
    pub ttl_s: u32,
    pub records: Rdatas<'a>,
    pub signatures: Rdatas<'a>,
}

/// Several rdata, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rdatas<'a> {
    count: u16,
    octets: &'a [u8],
}

impl<'a> Rdatas<'a> {
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut reader = Reader(self.octets);
        (0..self.count).map_while(move |_| reader.rdata())
    }
}

/// The servers of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    servers: u8,
    octets: &'a [u8],
}

/// A server of a zone, and those of its addresses that came along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer<'a> {
    pub name: &'a [u8],
    pub addresses: Vec<IpAddr>,
}

impl<'a> Cut<'a> {
    pub fn iter(&self) -> impl Iterator<Item = NameServer<'a>> + use<'a> {
        let mut reader = Reader(self.octets);
        (0..self.servers).map_while(move |_| reader.server())
    }
}

/// What a zone is validated with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneKeys<'a> {
    Secure(Rdatas<'a>),
    /// Proven to have none.
    None,
}

/// What is known of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts<'a> {
    pub smoothed_us: u32,
    pub variation_us: u32,
    /// `ServerFacts::NO_EDNS` and the like.
    pub flags: u8,
    /// Its half of a cookie (RFC 7873), up to 32 octets.
    pub cookie: &'a [u8],
}

impl ServerFacts<'_> {
    pub const NO_EDNS: u8 = 1;
    pub const CHANGES_CASE: u8 = 2;
    pub const STREAMS_ONLY: u8 = 4;
}

/// Why a question could not be answered (RFC 9520).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureFacts {
    /// As the caller numbers reasons.
    pub why: u8,
    /// RFC 8914.
    pub ede: u16,
}

/// Writes an RRset. None: it is too large to be kept, and nothing was written.
pub fn write_rrset(trust: Trust, ttl_s: u32, records: &[&[u8]], signatures: &[&[u8]], out: &mut Vec<u8>) -> Option<()> {
    write(out, |out| {
        out.push(trust as u8);
        out.extend(ttl_s.to_le_bytes());
        out.extend(u16::try_from(records.len()).ok()?.to_le_bytes());
        out.extend(u16::try_from(signatures.len()).ok()?.to_le_bytes());
        records.iter().chain(signatures).try_for_each(|rdata| push_rdata(rdata, out))
    })
}

pub fn read_rrset(value: &[u8]) -> Option<RrSet<'_>> {
    let mut reader = Reader(value);
    let trust = *Trust::ALL.get(usize::from(reader.u8()?))?;
    let (ttl_s, records, signatures) = (reader.u32()?, reader.u16()?, reader.u16()?);
    let set = RrSet { trust, ttl_s, records: reader.rdatas(records)?, signatures: reader.rdatas(signatures)? };
    reader.0.is_empty().then_some(set)
}

/// Writes the servers of a zone. None: they are too many to be kept.
pub fn write_cut(servers: &[NameServer<'_>], out: &mut Vec<u8>) -> Option<()> {
    write(out, |out| {
        out.push(u8::try_from(servers.len()).ok()?);
        for server in servers {
            out.push(u8::try_from(server.addresses.len()).ok()?);
            out.extend(server.name);
            for address in &server.addresses {
                match address {
                    IpAddr::V4(ip) => out.extend([&[4], &ip.octets()[..]].concat()),
                    IpAddr::V6(ip) => out.extend([&[16], &ip.octets()[..]].concat()),
                }
            }
        }
        Some(())
    })
}

pub fn read_cut(value: &[u8]) -> Option<Cut<'_>> {
    let (&servers, octets) = value.split_first()?;
    let mut reader = Reader(octets);
    (0..servers).try_for_each(|_| reader.server().map(drop))?;
    reader.0.is_empty().then_some(Cut { servers, octets })
}

/// Writes a zone's keys; None: that it is proven to have none. None is returned if they are too large to be kept.
pub fn write_keys(keys: Option<&[&[u8]]>, out: &mut Vec<u8>) -> Option<()> {
    write(out, |out| {
        out.push(u8::from(keys.is_some()));
        let Some(keys) = keys else { return Some(()) };
        out.extend(u16::try_from(keys.len()).ok()?.to_le_bytes());
        keys.iter().try_for_each(|rdata| push_rdata(rdata, out))
    })
}

pub fn read_keys(value: &[u8]) -> Option<ZoneKeys<'_>> {
    let mut reader = Reader(value);
    let keys = match reader.u8()? {
        0 => ZoneKeys::None,
        1 => {
            let count = reader.u16()?;
            ZoneKeys::Secure(reader.rdatas(count)?)
        }
        _ => return None,
    };
    reader.0.is_empty().then_some(keys)
}

pub fn write_server(facts: &ServerFacts<'_>, out: &mut Vec<u8>) -> Option<()> {
    write(out, |out| {
        out.extend(facts.smoothed_us.to_le_bytes());
        out.extend(facts.variation_us.to_le_bytes());
        out.extend([facts.flags, u8::try_from(facts.cookie.len()).ok().filter(|&len| len <= 32)?]);
        out.extend(facts.cookie);
        Some(())
    })
}

pub fn read_server(value: &[u8]) -> Option<ServerFacts<'_>> {
    let mut reader = Reader(value);
    let (smoothed_us, variation_us, flags) = (reader.u32()?, reader.u32()?, reader.u8()?);
    let len = usize::from(reader.u8()?);
    (reader.0.len() == len && len <= 32).then_some(ServerFacts { smoothed_us, variation_us, flags, cookie: reader.0 })
}

pub fn write_failure(facts: FailureFacts, out: &mut Vec<u8>) {
    out.clear();
    out.push(facts.why);
    out.extend(facts.ede.to_le_bytes());
}

pub fn read_failure(value: &[u8]) -> Option<FailureFacts> {
    let &[why, low, high] = value else { return None };
    Some(FailureFacts { why, ede: u16::from_le_bytes([low, high]) })
}

/// What a server is asked for by: its address in the place of a name, and the port in that of a type.
pub fn server_name(address: IpAddr) -> Box<[u8]> {
    match address {
        IpAddr::V4(ip) => [&[4], &ip.octets()[..], &[0]].concat().into(),
        IpAddr::V6(ip) => [&[16], &ip.octets()[..], &[0]].concat().into(),
    }
}

fn write(out: &mut Vec<u8>, all: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<()> {
    out.clear();
    let fits = all(out).filter(|()| out.len() <= VALUE_MAX);
    if fits.is_none() {
        out.clear();
    }
    fits
}

fn push_rdata(rdata: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.extend(u16::try_from(rdata.len()).ok()?.to_le_bytes());
    out.extend(rdata);
    Some(())
}

/// What is left to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, octets: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(octets)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[octet]| octet)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn rdata(&mut self) -> Option<&'a [u8]> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    fn rdatas(&mut self, count: u16) -> Option<Rdatas<'a>> {
        let octets = self.0;
        (0..count).try_for_each(|_| self.rdata().map(drop))?;
        Some(Rdatas { count, octets: octets.get(..octets.len() - self.0.len())? })
    }

    fn server(&mut self) -> Option<NameServer<'a>> {
        let count = self.u8()?;
        let name = self.take(wire::name::wire_len(self.0)?)?;
        let addresses: Option<Vec<IpAddr>> = (0..count).map(|_| self.address()).collect();
        Some(NameServer { name, addresses: addresses? })
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.u8()? {
            4 => self.array::<4>().map(IpAddr::from),
            16 => self.array::<16>().map(IpAddr::from),
            _ => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{AtomicU64, Cache, Config, Entry, Kind, Moment, Scratch, Variant};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn rdatas() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5)
    }

    fn name() -> impl Strategy<Value = Vec<u8>> {
        "[a-z]{1,8}".prop_map(|label| [&[label.len() as u8], label.as_bytes(), &[0]].concat())
    }

    /// Something of each kind, as its octets and as what they are to be read as.
    fn value() -> impl Strategy<Value = (Kind, Vec<u8>)> {
        let trust = prop::sample::select(Trust::ALL.to_vec());
        let addresses = prop::collection::vec(any::<IpAddr>(), 0..4);
        let servers = prop::collection::vec((name(), addresses), 0..4);
        prop_oneof![
            (trust, any::<u32>(), rdatas(), rdatas()).prop_map(|(t, ttl, r, s)| (Kind::RrSet, rrset(t, ttl, &r, &s))),
            servers.prop_map(|servers| (Kind::Cut, cut(&servers))),
            prop::option::of(rdatas()).prop_map(|keys| (Kind::Keys, zone_keys(keys.as_deref()))),
            (any::<u32>(), any::<u32>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..33))
                .prop_map(|(s, v, f, cookie)| (Kind::Server, server(s, v, f, &cookie))),
            (any::<u8>(), any::<u16>()).prop_map(|(why, ede)| (Kind::Failure, failure(why, ede))),
        ]
    }

    fn slices(all: &[Vec<u8>]) -> Vec<&[u8]> {
        all.iter().map(Vec::as_slice).collect()
    }

    fn rrset(trust: Trust, ttl_s: u32, records: &[Vec<u8>], signatures: &[Vec<u8>]) -> Vec<u8> {
        let mut out = vec![];
        write_rrset(trust, ttl_s, &slices(records), &slices(signatures), &mut out).unwrap();
        let set = read_rrset(&out).unwrap();
        assert_eq!((set.trust, set.ttl_s, set.records.len()), (trust, ttl_s, records.len()));
        assert!(set.records.iter().eq(slices(records)) && set.signatures.iter().eq(slices(signatures)));
        out
    }

    fn cut(servers: &[(Vec<u8>, Vec<IpAddr>)]) -> Vec<u8> {
        let given = |(name, addresses): &'_ (Vec<u8>, Vec<IpAddr>)| (name.clone(), addresses.clone());
        let all: Vec<NameServer<'_>> =
            servers.iter().map(|(name, addresses)| NameServer { name, addresses: addresses.clone() }).collect();
        let mut out = vec![];
        write_cut(&all, &mut out).unwrap();
        let read: Vec<_> = read_cut(&out).unwrap().iter().map(|s| (s.name.to_vec(), s.addresses)).collect();
        assert_eq!(read, servers.iter().map(given).collect::<Vec<_>>());
        out
    }

    fn zone_keys(keys: Option<&[Vec<u8>]>) -> Vec<u8> {
        let mut out = vec![];
        write_keys(keys.map(slices).as_deref(), &mut out).unwrap();
        match (read_keys(&out).unwrap(), keys) {
            (ZoneKeys::None, None) => {}
            (ZoneKeys::Secure(read), Some(keys)) => assert!(read.iter().eq(slices(keys))),
            (read, keys) => panic!("{read:?} {keys:?}"),
        }
        out
    }

    fn server(smoothed_us: u32, variation_us: u32, flags: u8, cookie: &[u8]) -> Vec<u8> {
        let (mut out, facts) = (vec![], ServerFacts { smoothed_us, variation_us, flags, cookie });
        write_server(&facts, &mut out).unwrap();
        assert_eq!(read_server(&out), Some(facts));
        out
    }

    fn failure(why: u8, ede: u16) -> Vec<u8> {
        let (mut out, facts) = (vec![], FailureFacts { why, ede });
        write_failure(facts, &mut out);
        assert_eq!(read_failure(&out), Some(facts));
        out
    }

    /// Whether octets are something of this kind. They may be anything.
    fn is_read_as(kind: Kind, octets: &[u8]) -> bool {
        match kind {
            Kind::Answer => false,
            Kind::RrSet => read_rrset(octets).map(|s| s.records.iter().chain(s.signatures.iter()).count()).is_some(),
            Kind::Cut => read_cut(octets).map(|cut| cut.iter().count()).is_some(),
            Kind::Keys => read_keys(octets).is_some(),
            Kind::Server => read_server(octets).is_some(),
            Kind::Failure => read_failure(octets).is_some(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Side by side under the same names and types in one cache, beside a map.
        #[test]
        fn each_kind_keeps_its_own(values in prop::collection::vec((name(), 1..3u16, value()), 1..40)) {
            let words: Vec<AtomicU64> = (0..20_000).map(|_| AtomicU64::new(0)).collect();
            let cache = Cache::format_zeros(words.leak(), &Config::default(), Moment::default()).unwrap();
            let (mut twin, mut scratch, now_s) = (BTreeMap::new(), Scratch::default(), cache.time(0));
            for (name, rtype, (kind, value)) in &values {
                let key = cache.key(cache.hash(name), name, *rtype, *kind, Variant::PLAIN);
                let entry = Entry { value, ttl_s: 60, source: name, generation: cache.generation() };
                cache.insert(&key, &entry, now_s).unwrap();
                twin.insert((name, rtype, kind), value);
            }
            for ((name, rtype, kind), value) in twin {
                let key = cache.key(cache.hash(name), name, *rtype, *kind, Variant::PLAIN);
                let hit = cache.probe(&key, now_s, &mut scratch).expect("there is room for all");
                prop_assert_eq!(hit.value, value);
                prop_assert!(is_read_as(*kind, hit.value));
            }
        }

        #[test]
        fn any_octets_are_something_or_nothing(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            for kind in Kind::ALL {
                is_read_as(kind, &octets);
            }
        }

        #[test]
        fn what_is_cut_short_is_nothing((kind, value) in value()) {
            prop_assert!((0..value.len()).all(|len| !is_read_as(kind, &value[..len])));
        }
    }

    #[test]
    fn what_is_too_large_is_not_written() {
        let (large, mut out) = (vec![0; 9_000], vec![1]);
        assert_eq!(write_rrset(Trust::Answer, 1, &[&large, &large], &[], &mut out), None);
        assert_eq!(write_server(&ServerFacts { cookie: &[0; 33], ..ServerFacts::default() }, &mut out), None);
        assert!(out.is_empty());
    }

    #[test]
    fn less_trusted_never_replaces_more() {
        for (new, there, expect) in [
            (Trust::Glue, Trust::Answer, false),
            (Trust::Answer, Trust::Secure, false),
            (Trust::Secure, Trust::Glue, true),
            (Trust::Referral, Trust::Referral, true),
        ] {
            assert_eq!(new.replaces(there), expect);
        }
    }

    #[test]
    fn addresses_and_names_do_not_meet() {
        let all = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|ip| server_name(ip.parse().unwrap()));
        assert!(all.iter().all(|name| wire::name::wire_len(name) == Some(name.len())));
        assert!(all[0] != all[1] && all[1] != all[2]);
    }
}
