//! Access lists: prefixes of addresses.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

/// An address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: u128,
    mask: u128,
    bits: u8,
    is_v4: bool,
}

/// Who is admitted: any address that one of the prefixes holds. A copy costs a count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl(Arc<[Prefix]>);

#[inline]
fn widen(ip: IpAddr) -> (u128, bool) {
    match ip {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, true),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => (u128::from(u32::from(v4)) << 96, true),
            None => (u128::from(v6), false),
        },
    }
}

fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl Prefix {
    pub fn new(ip: IpAddr, bits: u8) -> Option<Prefix> {
        let (address, is_v4) = widen(ip);
        let longest = if is_v4 { 32 } else { 128 };
        let mask = mask(bits);
        (bits <= longest).then_some(Prefix { address: address & mask, mask, bits, is_v4 })
    }

    pub fn holds(&self, ip: IpAddr) -> bool {
        self.holds_wide(widen(ip))
    }

    #[inline]
    fn holds_wide(&self, (address, is_v4): (u128, bool)) -> bool {
        is_v4 == self.is_v4 && address & self.mask == self.address
    }
}

/// `192.0.2.0/24`, `2001:db8::/32`, or an address alone.
impl FromStr for Prefix {
    type Err = String;
    fn from_str(text: &str) -> Result<Prefix, String> {
        let (ip, bits) = match text.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = ip.parse().map_err(|_| format!("\"{ip}\" is no IP address"))?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => longest,
            Some(b) => b
                .parse()
                .ok()
                .filter(|&b| b <= longest)
                .ok_or(format!("\"{b}\" is no prefix length from 0 to {longest}"))?,
        };
        Prefix::new(address, bits).ok_or_else(|| format!("\"{text}\" is no prefix"))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_v4 {
            write!(f, "{}/{}", std::net::Ipv4Addr::from((self.address >> 96) as u32), self.bits)
        } else {
            write!(f, "{}/{}", std::net::Ipv6Addr::from(self.address), self.bits)
        }
    }
}

impl Acl {
    pub fn new(prefixes: Vec<Prefix>) -> Acl {
        Acl(prefixes.into())
    }

    #[inline]
    pub fn admits(&self, ip: IpAddr) -> bool {
        let wide = widen(ip);
        self.0.iter().any(|prefix| prefix.holds_wide(wide))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Who may ask for what a zone holds: one list for all zones, and those of zones that have their own. As long as there are such
/// zones, however many others there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    usual: Option<Acl>,
    /// By the zone's number.
    own: Vec<(u32, Option<Acl>)>,
}

impl Lists {
    /// None admits everyone.
    pub fn new(usual: Option<Acl>, mut own: Vec<(u32, Option<Acl>)>) -> Lists {
        own.retain(|(_, list)| *list != usual);
        own.sort_unstable_by_key(|(zone, _)| *zone);
        Lists { usual, own }
    }

    /// True if everyone may ask for everything.
    #[inline]
    pub fn are_open(&self) -> bool {
        self.usual.is_none() && self.own.is_empty()
    }

    /// With other lists of zones: of these there are none any more, and of those there are. None: it is the same.
    pub fn with(&self, gone: &HashSet<u32>, mut come: Vec<(u32, Option<Acl>)>) -> Option<Lists> {
        come.retain(|(_, list)| *list != self.usual);
        if come.is_empty() && !gone.iter().any(|zone| self.place(*zone).is_ok()) {
            return None;
        }
        let stay = self.own.iter().filter(|(zone, _)| !gone.contains(zone)).cloned();
        Some(Lists::new(self.usual.clone(), stay.chain(come).collect()))
    }

    fn place(&self, zone: u32) -> Result<usize, usize> {
        self.own.binary_search_by_key(&zone, |(number, _)| *number)
    }

    /// Of which zones there is a list of their own.
    pub fn own(&self) -> impl Iterator<Item = u32> {
        self.own.iter().map(|(zone, _)| *zone)
    }

    pub fn admit(&self, zone: u32, ip: IpAddr) -> bool {
        let list = self.place(zone).map_or(&self.usual, |at| &self.own[at].1);
        list.as_ref().is_none_or(|list| list.admits(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_their_addresses_and_no_others() {
        let table = [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8::/33", "2001:db8:8000::", false),
        ];
        for (prefix, ip, expect) in table {
            assert_eq!(prefix.parse::<Prefix>().unwrap().holds(ip.parse().unwrap()), expect, "{prefix} {ip}");
        }
    }

    #[test]
    fn a_zone_has_its_own_list_or_that_of_all() {
        let list = |prefix: &str| Some(Acl::new(vec![prefix.parse().unwrap()]));
        let (ours, theirs) = (list("192.0.2.0/24"), list("198.51.100.0/24"));
        let lists = Lists::new(ours.clone(), vec![(7, None), (3, theirs), (5, ours)]);
        let admitted = |ip: &str| (2..9).filter(|&zone| lists.admit(zone, ip.parse().unwrap())).collect::<Vec<_>>();
        assert_eq!(admitted("192.0.2.1"), [2, 4, 5, 6, 7, 8]);
        assert_eq!(admitted("198.51.100.1"), [3, 7]);
        assert!(!lists.are_open() && Lists::new(None, vec![(1, None)]).are_open());
    }

    #[test]
    fn zones_that_come_and_go_take_their_lists_along() {
        let list = |prefix: &str| Some(Acl::new(vec![prefix.parse().unwrap()]));
        let (ours, theirs) = (list("192.0.2.0/24"), list("198.51.100.0/24"));
        let lists = Lists::new(ours.clone(), vec![(3, theirs.clone()), (7, None)]);
        let with = |gone: &[u32], come: &[u32], list: &Option<Acl>| {
            lists.with(&gone.iter().copied().collect(), come.iter().map(|&zone| (zone, list.clone())).collect())
        };
        assert_eq!(with(&[4, 5], &[9], &ours), None, "they have that of all");
        assert_eq!(with(&[3], &[9], &theirs), Some(Lists::new(ours.clone(), vec![(7, None), (9, theirs.clone())])));
        assert_eq!(with(&[3, 7], &[], &None), Some(Lists::new(ours.clone(), vec![])));
        assert_eq!(with(&[], &[1], &None), Some(Lists::new(ours, vec![(1, None), (3, theirs), (7, None)])));
    }

    #[test]
    fn what_is_no_prefix_says_why() {
        for (text, why) in [("a", "no IP address"), ("192.0.2.0/33", "0 to 32"), ("::/x", "0 to 128")] {
            assert!(text.parse::<Prefix>().unwrap_err().contains(why), "{text}");
        }
    }
}
