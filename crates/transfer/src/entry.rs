//! One entry of the journal: a difference of a zone, who made it and when, as octets.
//!
//! ```text
//! version u8 = 2 | kind u8 | octets of who u8, who | wall seconds u64 | number u64 | octets of the zone's name u8, name,
//! lower case | serial before u32 | serial after u32 | records removed u32 | records added u32 | the records, removed first
//! record: octets of owner u8, owner | type u16 | TTL u32 | octets of rdata u16, rdata
//! ```
//! Numbers are big endian, as on the wire. Length and checksum are the journal's, which knows no DNS. Decoding takes
//! any octets, never allocates more than they could hold, and gives back what was encoded or nothing. Version 1 had no number:
//! its changes are numbered by their seconds.

use crate::{Diff, Record};
use std::fmt;
use wire::name::{fold, wire_len};

const VERSION: u8 = 2;
/// The least that a record takes: owner "." and no rdata.
const RECORD_MIN: usize = 10;

/// What made a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    Update = 1,
    Transfer = 2,
    File = 3,
    Api = 4,
    Rollback = 5,
    Server = 6,
}

const KINDS: [(Kind, &str); 6] = [
    (Kind::Update, "update"),
    (Kind::Transfer, "transfer"),
    (Kind::File, "file"),
    (Kind::Api, "api"),
    (Kind::Rollback, "rollback"),
    (Kind::Server, "server"),
];

impl Kind {
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// Who made a change, and by what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Author {
    pub kind: Kind,
    /// For people: the key and the address, the file, the serial gone back to. Cut at 255 octets.
    pub who: String,
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.who)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The apex, in lower case.
    pub zone: Box<[u8]>,
    pub author: Author,
    pub when: When,
    pub diff: Diff,
}

/// When a change was made. Changes of all journals are in the order of their numbers, whatever the clock did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct When {
    /// Microseconds since 1970, or one more than the last that is known.
    pub number: u64,
    /// Seconds since 1970, by the clock.
    pub wall_s: u64,
}

impl When {
    /// Of a change that was not numbered.
    pub fn at(wall_s: u64) -> When {
        When { number: wall_s.saturating_mul(1_000_000), wall_s }
    }
}

/// Octets that are no entry, or one of a later version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undecodable {
    Malformed,
    /// Written by a later version of the program.
    Version(u8),
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undecodable::Malformed => f.write_str("it is malformed"),
            Undecodable::Version(v) => write!(f, "it has version {v}, and this program reads {VERSION}"),
        }
    }
}

impl Entry {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.author.who.len() + self.zone.len() + self.diff.octets());
        out.extend([VERSION, self.author.kind as u8]);
        push_short(&mut out, shortened(&self.author.who).as_bytes());
        out.extend(self.when.wall_s.to_be_bytes());
        out.extend(self.when.number.to_be_bytes());
        push_short(&mut out, &self.zone);
        encode(&self.diff, &mut out);
        out
    }

    pub fn decode(octets: &[u8]) -> Result<Entry, Undecodable> {
        match octets.first() {
            Some(&other) if other > VERSION => Err(Undecodable::Version(other)),
            _ => Head::of(octets).and_then(Head::whole).ok_or(Undecodable::Malformed),
        }
    }
}

/// What an encoded change begins with: whoever looks for some of many need not read their records.
pub struct Head<'a> {
    pub zone: &'a [u8],
    pub when: When,
    pub to: u32,
    /// The difference, encoded: all that is behind.
    pub diff: &'a [u8],
    kind: Kind,
    who: &'a [u8],
}

impl<'a> Head<'a> {
    /// None: it is no entry, or one of a later version.
    pub fn of(octets: &'a [u8]) -> Option<Head<'a>> {
        let mut rest = Rest(octets);
        let (version, kind) = (rest.number::<1>()? as u8, rest.number::<1>()? as u8);
        let (kind, _) = *KINDS.iter().find(|(k, _)| (1..=VERSION).contains(&version) && *k as u8 == kind)?;
        let (who, wall_s) = (rest.short()?, rest.number::<8>()?);
        let when = if version == 1 { When::at(wall_s) } else { When { number: rest.number::<8>()?, wall_s } };
        let zone = rest.short()?;
        let diff = rest.0;
        let (_, to) = (rest.number::<4>()?, rest.number::<4>()? as u32);
        Some(Head { zone, when, to, diff, kind, who })
    }

    fn whole(self) -> Option<Entry> {
        let Head { zone, when, diff, kind, who, .. } = self;
        let who = std::str::from_utf8(who).ok()?.to_owned();
        let mut zone: Box<[u8]> = Some(zone).filter(|name| wire_len(name) == Some(name.len()))?.into();
        fold(&mut zone);
        let mut rest = Rest(diff);
        let (from, to) = (rest.number::<4>()? as u32, rest.number::<4>()? as u32);
        let (removed, added) = (rest.number::<4>()? as usize, rest.number::<4>()? as usize);
        let (removed, added) = (rest.records(removed)?, rest.records(added)?);
        let diff = Diff::checked(from, to, removed, added)?;
        rest.0.is_empty().then_some(Entry { zone, author: Author { kind, who }, when, diff })
    }
}

/// As a difference stands in an entry.
pub fn encode(diff: &Diff, out: &mut Vec<u8>) {
    let counts = [diff.removed().len() as u32, diff.added().len() as u32];
    for number in [diff.from, diff.to, counts[0], counts[1]] {
        out.extend(number.to_be_bytes());
    }
    for r in diff.removed().iter().chain(diff.added()) {
        push_short(out, r.owner());
        out.extend(r.rtype.to_be_bytes());
        out.extend(r.ttl.to_be_bytes());
        out.extend((r.rdata().len() as u16).to_be_bytes());
        out.extend(r.rdata());
    }
}

/// At most 255 octets, cut between characters.
fn shortened(who: &str) -> &str {
    &who[..who.floor_char_boundary(255)]
}

fn push_short(out: &mut Vec<u8>, octets: &[u8]) {
    out.push(octets.len() as u8);
    out.extend(octets);
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn number<const N: usize>(&mut self) -> Option<u64> {
        Some(self.take(N)?.iter().fold(0, |n, &octet| n << 8 | u64::from(octet)))
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let len = self.number::<1>()? as usize;
        self.take(len)
    }

    fn records(&mut self, n: usize) -> Option<Vec<Record>> {
        if n > self.0.len() / RECORD_MIN {
            return None;
        }
        (0..n).map(|_| self.record()).collect()
    }

    fn record(&mut self) -> Option<Record> {
        let owner = self.short()?;
        let (rtype, ttl) = (self.number::<2>()? as u16, self.number::<4>()? as u32);
        let rdata_len = self.number::<2>()? as usize;
        let rdata = self.take(rdata_len)?;
        Record::new(owner, rtype, ttl, rdata).filter(|r| r.owner() == owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> Entry {
        let record = |n: u8| Record::new(b"\x01a\x01z\0", 1, 60, &[192, 0, 2, n]).unwrap();
        Entry {
            zone: b"\x01z\0"[..].into(),
            author: Author { kind: Kind::Update, who: "key ddns from 192.0.2.7".into() },
            when: When { number: 1_800_000_000_000_007, wall_s: 1_800_000_000 },
            diff: Diff::new(1, 2, vec![record(1), record(2)], vec![record(3)]),
        }
    }

    #[test]
    fn an_entry_comes_back_as_it_was() {
        let entry = entry();
        let octets = entry.encode();
        let head = Head::of(&octets).unwrap();
        assert_eq!((head.zone, head.when, head.to), (&*entry.zone, entry.when, entry.diff.to));
        assert_eq!(Entry::decode(&octets), Ok(entry));
    }

    #[test]
    fn what_is_cut_off_or_longer_is_no_entry() {
        let octets = entry().encode();
        for len in 0..octets.len() {
            assert_eq!(Entry::decode(&octets[..len]), Err(Undecodable::Malformed), "{len}");
        }
        assert_eq!(Entry::decode(&[&octets[..], b"x"].concat()), Err(Undecodable::Malformed));
    }

    #[test]
    fn one_of_the_first_version_is_numbered_by_its_second() {
        let entry = entry();
        let mut octets = entry.encode();
        let number = 3 + entry.author.who.len() + 8;
        octets.drain(number..number + 8);
        octets[0] = 1;
        assert_eq!(Entry::decode(&octets), Ok(Entry { when: When::at(1_800_000_000), ..entry }));
    }

    #[test]
    fn a_later_version_is_told_apart() {
        assert_eq!(Entry::decode(&[9, 1, 2, 3]), Err(Undecodable::Version(9)));
    }

    #[test]
    fn a_long_author_is_cut_between_characters() {
        let mut entry = entry();
        entry.author.who = format!("x{}", "ä".repeat(200));
        assert_eq!(Entry::decode(&entry.encode()).unwrap().author.who, format!("x{}", "ä".repeat(127)));
    }

    proptest! {
        #[test]
        fn any_octets_are_an_entry_that_encodes_to_them_or_none(
            at in proptest::collection::vec((0..120usize, any::<u8>()), 1..4)
        ) {
            let mut octets = entry().encode();
            for (place, octet) in at {
                let len = octets.len();
                octets[place % len] = octet;
            }
            if let Ok(read) = Entry::decode(&octets) {
                let again = read.encode();
                prop_assert_eq!(Entry::decode(&again), Ok(read));
                prop_assert_eq!(again.len(), octets.len());
            }
        }
    }
}
