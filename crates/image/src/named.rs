//! The hosts that records of a zone name, and the names whose records do: so a change of a host's addresses leads straight to
//! the names whose answers carry them, however many others there are.
//!
//! ```text
//! hosts: (hash u32, place u32)... in the order of hashes, of all zones together | lists | zeros up to a multiple of 8
//! list: the nodes that name a host of this hash: gaps between their references, the first from 0; of a gap 7 bits an octet, the
//!       lowest first, 128 added to all but the last. It ends where the next one begins
//! ```
//! Only hosts at or below the apex of the zone that names them: of others no addresses go along. A name that is the host's own or
//! above it is not listed, for whoever knows the host finds it; half of a registry's hosts are named by nobody else. Names
//! whose hosts own no addresses stand once more in a list of their zone: a wildcard may come to make these hosts.
//!
//! A host that is named no more stays until the image is built anew, so whoever is found is asked whether he names it. The hash is the
//! upper half of that of names, with a seed that is the same for every image, so that changes laid out apart can be joined; two
//! hosts of one hash have a list together, and nothing else comes of it.

use crate::drafts::{ends, fold_into};
use crate::edit::{Hidden, host_of};
use crate::format::Damaged;
use crate::node::{GONE, Node};
use crate::overlay::Overlay;
use crate::view::View;
use crate::zone::Zone;
use std::collections::BTreeSet;
use std::iter::once;
use wire::hash::name_hash;
use wire::name::{NAME_MAX, is_at_or_below};
use wire::rtype;

const SEED: u64 = 0;
pub(crate) const ENTRY: u64 = 8;
/// Octets of a gap, most.
const GAP_MAX: usize = 5;

/// Names of hosts, in lower case.
pub type Hosts = BTreeSet<Box<[u8]>>;

/// By which a host is found.
fn key(folded: &[u8]) -> u32 {
    (name_hash(SEED, folded) >> 32) as u32
}

/// By which the names of a zone are found whose hosts own no addresses.
fn key_of_wildcards(apex: &[u8]) -> u32 {
    key(&[b"\x01*", apex].concat())
}

/// Who names whom, collected: a key, and below it the number of a name.
#[derive(Default)]
pub(crate) struct Named(Vec<u64>);

impl Named {
    /// Notes that a name, which has this number, names a host.
    pub(crate) fn note(&mut self, apex: &[u8], owner: &[u8], number: u32, host: &[u8], has_addresses: bool) {
        if !is_at_or_below(host, apex) || is_at_or_below(host, owner) {
            return;
        }
        self.push(key(host), number);
        if !has_addresses {
            self.push(key_of_wildcards(apex), number);
        }
    }

    fn push(&mut self, key: u32, number: u32) {
        self.0.push(u64::from(key) << 32 | u64::from(number));
    }

    /// Writes what two have collected. `out`: the reference of each name. Returns how many hosts there are; None: their lists are too long.
    pub(crate) fn write(mut self, other: Named, out: &[u32], bytes: &mut Vec<u8>) -> Option<u64> {
        let Named(all) = &mut self;
        all.extend(other.0);
        for pair in all.iter_mut() {
            *pair = *pair >> 32 << 32 | u64::from(out[*pair as u32 as usize]);
        }
        all.sort_unstable();
        all.dedup();
        let (mut hosts, mut lists) = (0, vec![]);
        for list in all.chunk_by(|a, b| a >> 32 == b >> 32) {
            hosts += 1;
            bytes.extend(((list[0] >> 32) as u32).to_le_bytes());
            bytes.extend(u32::try_from(lists.len()).ok()?.to_le_bytes());
            let mut last = 0;
            for &pair in list {
                push_gap(&mut lists, pair as u32 - last);
                last = pair as u32;
            }
        }
        bytes.append(&mut lists);
        bytes.resize(bytes.len().next_multiple_of(ENTRY as usize), 0);
        Some(hosts)
    }
}

fn push_gap(lists: &mut Vec<u8>, mut gap: u32) {
    while gap >= 128 {
        lists.push(gap as u8 | 128);
        gap >>= 7;
    }
    lists.push(gap as u8);
}

/// The references of a list.
struct List<'a>(&'a [u8], u32);

impl Iterator for List<'_> {
    type Item = u32;
    fn next(&mut self) -> Option<u32> {
        let len = self.0.iter().take(GAP_MAX).position(|octet| octet & 128 == 0)? + 1;
        let (gap, rest) = self.0.split_at(len);
        let gap = gap.iter().rev().fold(0u32, |gap, octet| gap << 7 | u32::from(octet & 127));
        // Zeros follow the last list.
        let next = self.1.checked_add(gap).filter(|_| gap > 0)?;
        *self = List(rest, next);
        Some(next)
    }
}

impl<'a> View<'a> {
    /// The key of a host, and where its list begins.
    fn host(&self, nth: u64) -> Result<(u32, u32), Damaged> {
        let at = usize::try_from(self.frame.header.hosts_at + ENTRY * nth).map_err(|_| Damaged)?;
        Ok((self.u32_at(at)?, self.u32_at(at + 4)?))
    }

    fn list(&self, nth: u64) -> Result<List<'a>, Damaged> {
        let header = &self.frame.header;
        let lists = header.hosts_at + ENTRY * header.hosts;
        let begin = lists + u64::from(self.host(nth)?.1);
        let is_last = nth + 1 == header.hosts;
        let end = if is_last { header.sums_at } else { lists + u64::from(self.host(nth + 1)?.1) };
        let len = end.checked_sub(begin).ok_or(Damaged)?;
        Ok(List(self.octets(begin as usize, len as usize)?, 0))
    }

    /// Who names whom as the image was written: keys of hosts, and references of nodes.
    pub(crate) fn naming(&self) -> impl Iterator<Item = Result<(u32, u32), Damaged>> + use<'a, '_> {
        let pairs = |nth| {
            let (key, list) = (self.host(nth)?.0, self.list(nth)?);
            Ok(list.map(move |reference| (key, reference)))
        };
        (0..self.frame.header.hosts).flat_map(move |nth| {
            let (pairs, damage) = pairs(nth).map_or_else(|damaged| (None, Some(Err(damaged))), |all| (Some(all), None));
            pairs.into_iter().flatten().map(Ok).chain(damage)
        })
    }

    /// The list of a key as the image was written.
    fn list_of(&self, key: u32) -> Result<List<'a>, Damaged> {
        let (mut low, mut high) = (0, self.frame.header.hosts);
        while low < high {
            let middle = low.midpoint(high);
            if self.host(middle)?.0 < key { low = middle + 1 } else { high = middle }
        }
        let is_there = low < self.frame.header.hosts && self.host(low)?.0 == key;
        if is_there { self.list(low) } else { Ok(List(&[], 0)) }
    }
}

impl<'a> Zone<'a> {
    /// True if a record of the zone names this host.
    pub fn is_named(&self, folded: &[u8]) -> Result<bool, Damaged> {
        Ok(!self.names_that_name(&Hosts::from([folded.into()]), 1)?.is_empty())
    }

    /// The names whose records name one of these hosts, at most so many that do not stand at or above it; and of a wildcard, a host that
    /// it may make. For below names that are there it makes none, so those that name hosts below themselves are told of by their own
    /// wildcards only.
    pub fn names_that_name(&self, hosts: &Hosts, max: usize) -> Result<BTreeSet<Box<[u8]>>, Damaged> {
        let mut names = self.naming_at_or_above(hosts)?;
        self.naming(self.listed(hosts)?, hosts, u32::MAX, max, &mut names)?;
        Ok(names)
    }

    /// Those of them that stand at or above a host that they name.
    pub(crate) fn naming_at_or_above(&self, hosts: &Hosts) -> Result<BTreeSet<Box<[u8]>>, Damaged> {
        let (least, by_wildcards) = (self.apex()?.apex_name()?.len(), has_wildcards(hosts));
        let at_or_above = |host| once(host).chain(ends(host)).take_while(move |end: &&[u8]| end.len() >= least);
        let mut above: BTreeSet<&[u8]> = BTreeSet::new();
        for host in hosts {
            // Of one that is known all above it are.
            let _ = at_or_above(&**host).try_for_each(|end| above.insert(end).then_some(()));
        }
        let (mut names, hidden) = (BTreeSet::new(), Hidden::default());
        for end in above {
            let node = self.node_by(end, &hidden)?;
            if node.map_or(Ok(false), |node| names_one_of(&node, end, hosts, by_wildcards))? {
                names.insert(end.into());
            }
        }
        Ok(names)
    }

    /// References of the nodes that are listed as those which name one of these hosts. Some are of names that do not any more, or have
    /// another node now, or are other zones'.
    pub(crate) fn listed(&self, hosts: &Hosts) -> Result<Vec<u32>, Damaged> {
        let (view, apex) = (self.view(), self.apex()?.apex_name()?);
        let wildcards = has_wildcards(hosts).then(|| key_of_wildcards(apex));
        let keys: BTreeSet<u32> = hosts.iter().map(|host| key(host)).chain(wildcards).collect();
        let mut nodes = vec![];
        for key in keys {
            nodes.extend(view.list_of(key)?);
            let changed = view.overlay().into_iter().flat_map(|overlay| overlay.listed(view, key, self.number()));
            nodes.extend(changed.map(|named| named.reference));
        }
        Ok(nodes)
    }

    /// The keys under which a node of the zone may be listed.
    pub(crate) fn keys_of(&self, node: &Node<'_>) -> Result<BTreeSet<u32>, Damaged> {
        let (apex, mut room, mut keys) = (self.apex()?.apex_name()?, [0; NAME_MAX], BTreeSet::new());
        let name = self.name_of(node, &mut room)?;
        for_each_host(node, name, &mut |host| {
            if is_at_or_below(host, apex) {
                keys.extend([key(host), key_of_wildcards(apex)]);
            }
        })?;
        Ok(keys)
    }

    /// Adds the names of these nodes, at most so many, whose records name one of the hosts, as they are now; but for those
    /// whose nodes now stand at `since` or behind it.
    pub(crate) fn naming(
        &self,
        nodes: impl IntoIterator<Item = u32>,
        hosts: &Hosts,
        since: u32,
        max: usize,
        names: &mut BTreeSet<Box<[u8]>>,
    ) -> Result<(), Damaged> {
        let (view, scope, by_wildcards) = (self.view(), self.apex()?.scope()?, has_wildcards(hosts));
        let (mut room, enough) = ([0; NAME_MAX], names.len().saturating_add(max));
        for reference in nodes {
            let node = view.node(reference)?;
            let is_together = self.is_together(&node)?;
            if !is_together && !view.is_of_overlay(&node) {
                continue;
            }
            let name = self.name_of(&node, &mut room)?;
            let own = |overlay: &'a Overlay| overlay.find_own(view, name_hash(view.seed(), name), name, scope);
            let now = view.overlay().map_or(Ok(None), own)?.or(is_together.then_some(node));
            let now = now.filter(|now| !now.is(GONE) && now.reference() < since);
            if now.map_or(Ok(false), |now| names_one_of(&now, name, hosts, by_wildcards))? {
                names.insert(name.into());
            }
            if names.len() >= enough {
                break;
            }
        }
        Ok(())
    }
}

fn has_wildcards(hosts: &Hosts) -> bool {
    hosts.iter().any(|host| host.starts_with(b"\x01*"))
}

/// Shows the hosts that the RRsets of a node name, in lower case.
fn for_each_host(node: &Node<'_>, name: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<(), Damaged> {
    let mut look = |fixed: &[u8], rdata: &[u8]| {
        let rtype = u16::from_be_bytes([fixed[0], fixed[1]]);
        if let Some(host) = host_of(rtype, rdata) {
            f(fold_into(host, &mut [0; NAME_MAX]));
        }
    };
    for rrset in node.rrsets() {
        let (rtype, unit) = rrset?;
        if names_hosts(rtype) {
            unit.for_each(name, &mut look)?;
        }
    }
    Ok(())
}

/// True if a node has records of a type that names hosts.
pub(crate) fn names_any(node: &Node<'_>) -> Result<bool, Damaged> {
    let is_one = |rrset: Result<(u16, _), Damaged>| rrset.map(|(rtype, _)| names_hosts(rtype));
    node.rrsets().map(is_one).try_fold(false, |any, one| Ok(any | one?))
}

fn names_hosts(rtype: u16) -> bool {
    matches!(rtype, rtype::NS | rtype::MX | rtype::SRV | rtype::SVCB | rtype::HTTPS)
}

/// True if an RRset of a node names one of these hosts.
fn names_one_of(node: &Node<'_>, name: &[u8], hosts: &Hosts, by_wildcards: bool) -> Result<bool, Damaged> {
    let mut names_one = false;
    for_each_host(node, name, &mut |host| {
        names_one = names_one || hosts.contains(host) || by_wildcards && is_made_by_one(host, hosts);
    })?;
    Ok(names_one)
}

/// True if a host may be made by a wildcard that is one of these.
fn is_made_by_one(host: &[u8], hosts: &Hosts) -> bool {
    ends(host).any(|end| hosts.contains(&[&b"\x01*"[..], end].concat()[..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Image};
    use wire::rtype::{A, MX, NS, SOA};

    const HOSTS: usize = 20_000;
    const APEX: &[u8] = b"\x01z\0";

    fn name(label: &str, above: &[u8]) -> Vec<u8> {
        [&[label.len() as u8], label.as_bytes(), above].concat()
    }

    fn mx(host: &[u8]) -> Vec<u8> {
        [b"\0\x01", host].concat()
    }

    fn image(records: impl FnOnce(&mut Builder)) -> Image<Vec<u8>> {
        let mut builder = Builder::new(7);
        builder.begin_zone(APEX);
        builder.record(APEX, SOA, 1, &[0; 22]).unwrap();
        builder.record(APEX, NS, 1, b"\x02NS\x01Z\0").unwrap();
        records(&mut builder);
        Image::open(builder.finish().0).unwrap()
    }

    #[test]
    fn whoever_names_a_host_is_found() {
        let (host, owner) = (|n: usize| name(&n.to_string(), APEX), |n: usize| name(&format!("o{n}"), APEX));
        let image = image(|builder| {
            for n in 0..3 * HOSTS {
                builder.record(&owner(n), NS, 1, &host(n % HOSTS).to_ascii_uppercase()).unwrap();
            }
        });
        let zone = image.view().zone(0).unwrap();
        for n in 0..HOSTS {
            let naming = BTreeSet::from([n, n + HOSTS, n + 2 * HOSTS].map(|n| owner(n).into()));
            assert_eq!(zone.names_that_name(&Hosts::from([host(n).into()]), 9), Ok(naming), "{n}");
        }
        assert_eq!(zone.is_named(&name("ns", APEX)), Ok(true), "by the apex");
        assert!((0..3 * HOSTS).all(|n| zone.is_named(&owner(n)) == Ok(false)));
        // That of hosts without addresses beside them.
        assert_eq!(image.header().hosts as usize, HOSTS + 1);
    }

    #[test]
    fn a_host_leads_to_those_above_it_and_a_wildcard_to_all_that_it_may_make() {
        let (cut, other) = (name("cut", APEX), name("other", APEX));
        let (glue, made) = (name("ns", &cut), name("mail", &name("x", APEX)));
        let image = image(|builder| {
            builder.record(&cut, NS, 1, &glue).unwrap();
            builder.record(&glue, A, 1, &[192, 0, 2, 1]).unwrap();
            builder.record(&other, MX, 1, &mx(&made)).unwrap();
            builder.record(&other, MX, 1, &mx(b"\x04mail\x09elsewhere\0")).unwrap();
        });
        let zone = image.view().zone(0).unwrap();
        let naming = |host: &[u8]| Vec::from_iter(zone.names_that_name(&Hosts::from([host.into()]), 9).unwrap());
        assert_eq!(naming(&glue), [cut.clone().into()]);
        assert_eq!(naming(&name("*", &name("x", APEX))), [other.clone().into()]);
        assert_eq!(
            naming(&name("*", APEX)),
            [APEX.into(), other.into()],
            "what lies below a name that is there, none makes"
        );
        assert_eq!(naming(&name("*", &name("y", APEX))), []);
        // Of the host that is to be made, and of the wildcards that may make it.
        assert_eq!(image.header().hosts, 2);
    }

    #[test]
    fn hosts_that_do_not_end_before_the_checksums_are_damage() {
        let mut octets = image(|_| ()).bytes().clone();
        let good = Image::open(&octets[..]).unwrap().header().clone();
        for hosts in [(good.hosts + 1) << 8, u64::MAX / ENTRY, u64::MAX] {
            crate::format::Header { hosts, ..good.clone() }.write(&mut octets[..crate::format::HEADER]);
            assert!(Image::open(&octets[..]).is_err(), "{hosts}");
        }
        good.write(&mut octets[..crate::format::HEADER]);
        assert!(Image::open(&octets[..]).is_ok());
    }

    #[test]
    fn lists_are_read_as_they_were_written() {
        let all = [1, 127, 128, 129, 16_511, 16_512, 1 << 30, u32::MAX - 1, u32::MAX];
        let (mut lists, mut last) = (vec![], 0);
        for reference in all {
            push_gap(&mut lists, reference - last);
            last = reference;
        }
        lists.extend([0; 7]);
        assert!(List(&lists, 0).eq(all));
        assert_eq!(List(&[255; 9], 0).next(), None);
        assert_eq!(List(&[255, 255, 255, 255, 15, 1], 0).collect::<Vec<_>>(), [u32::MAX]);
    }
}
