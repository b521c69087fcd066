//! The chain of NSEC3 (RFC 5155): each of them leads to the next hash, each name of the zone has one.
//!
//! Hashes come in another order than names. To compare the two sets without keeping either, both are summed up: each member
//! as a keyed hash of what it is, so that sums are equal only if the sets are. Only where they differ are names looked
//! up one by one, to tell which it is.

use crate::denial::{there, types};
use crate::fault::Fault;
use crate::name::{Sets, ends_between};
use crate::report::Report;
use crate::walk::{Place, Places};
use image::zone::nsec3_hash;
use image::{Rr, Sorted};
use wire::hash::siphash;
use wire::name::is_at_or_below;
use wire::rtype::{self, Rtype};

/// BIND 9.20 takes no more; RFC 9276 asks for none. Beyond it, hashing all names would take too long.
const ITERATIONS_MAX: u16 = 50;
pub(crate) const OPT_OUT: u8 = 1;

type Hash = [u8; 20];

#[derive(Clone, Copy)]
struct Parameters<'a> {
    iterations: u16,
    salt: &'a [u8],
}

/// A name that needs an NSEC3, on the way from the apex to the name at hand.
struct Step<'a> {
    name: &'a [u8],
    mark: u64,
    /// It and all names below it so far may do without, by opt-out (RFC 5155 section 6).
    is_optional: bool,
}

pub(crate) struct Nsec3<'a> {
    apex: &'a [u8],
    parameters: Parameters<'a>,
    path: Vec<Step<'a>>,
    /// Of names that need an NSEC3, and of those that may have one.
    needed: u64,
    optional: u64,
    /// Of the NSEC3 that are there.
    found: u64,
    has_opt_out: bool,
    /// The first hash; the last owner, and to which hash it leads.
    first: Option<Hash>,
    last: Option<(&'a [u8], Hash)>,
    octets: Vec<u8>,
}

/// The fields of an NSEC3.
pub(crate) struct Fields<'a> {
    pub flags: u8,
    iterations: u16,
    salt: &'a [u8],
    pub next: Hash,
    pub bitmap: &'a [u8],
}

impl<'a> Fields<'a> {
    /// None: malformed, or of a hash that is not SHA-1.
    pub(crate) fn of(rdata: &'a [u8]) -> Option<Fields<'a>> {
        let (&[1, flags, a, b, salt_len], rest) = rdata.split_first_chunk()? else { return None };
        let (salt, rest) = rest.split_at_checked(usize::from(salt_len))?;
        let (&[20], rest) = rest.split_first_chunk()? else { return None };
        let (&next, bitmap) = rest.split_first_chunk()?;
        Some(Fields { flags, iterations: u16::from_be_bytes([a, b]), salt, next, bitmap })
    }

    fn is_of(&self, p: &Parameters<'_>) -> bool {
        (self.iterations, self.salt) == (p.iterations, p.salt)
    }
}

impl<'a> Nsec3<'a> {
    /// By the NSEC3PARAM of the apex, if there is one that is in use.
    pub(crate) fn of(apex: &'a [u8], sets: &Sets<'a>) -> Option<Nsec3<'a>> {
        let parameters = in_use(sets)?;
        Some(Nsec3 {
            apex,
            parameters,
            path: vec![],
            needed: 0,
            optional: 0,
            found: 0,
            has_opt_out: false,
            first: None,
            last: None,
            octets: vec![],
        })
    }

    pub(crate) fn on_name(&mut self, name: &'a [u8], place: Place, sets: &Sets<'a>, report: &mut Report) {
        for rr in sets.of(rtype::NSEC3) {
            self.on_nsec3(name, rr, report);
        }
        if !is_named(place, sets) || self.parameters.iterations > ITERATIONS_MAX {
            return;
        }
        let is_optional = is_insecure(place, sets);
        for end in self.empty_above(name) {
            self.step(end, [].into_iter(), is_optional);
        }
        self.step(name, there(sets, place), is_optional);
        if !is_optional {
            self.need_path();
        }
    }

    /// The empty non-terminals that a name brings about, topmost first. The path then ends above it.
    fn empty_above(&mut self, name: &'a [u8]) -> Vec<&'a [u8]> {
        while self.path.last().is_some_and(|step| !is_at_or_below(name, step.name)) {
            self.path.pop();
        }
        let above = self.path.last().map_or(self.apex, |step| step.name);
        let mut empty: Vec<_> = ends_between(name, above).collect();
        empty.reverse();
        empty
    }

    fn step(&mut self, name: &'a [u8], types: impl Iterator<Item = Rtype>, is_optional: bool) {
        let hash = nsec3_hash(name, self.parameters.iterations, self.parameters.salt);
        let mark = self.mark(&hash, types);
        let sum = if is_optional { &mut self.optional } else { &mut self.needed };
        *sum = sum.wrapping_add(mark);
        self.path.push(Step { name, mark, is_optional });
    }

    /// Empty non-terminals above a name that needs an NSEC3 need one, too.
    fn need_path(&mut self) {
        for step in self.path.iter_mut().filter(|step| step.is_optional) {
            step.is_optional = false;
            self.optional = self.optional.wrapping_sub(step.mark);
            self.needed = self.needed.wrapping_add(step.mark);
        }
    }

    fn mark(&mut self, hash: &Hash, types: impl Iterator<Item = Rtype>) -> u64 {
        self.octets.clear();
        self.octets.extend_from_slice(hash);
        self.octets.extend(types.flat_map(Rtype::to_be_bytes));
        siphash::<1, 3>(b"names and hashes", &self.octets)
    }

    fn on_nsec3(&mut self, owner: &'a [u8], rr: &Rr<'a>, report: &mut Report) {
        let hash = self.hash_of(owner);
        let fields = Fields::of(rr.rdata).filter(|f| f.is_of(&self.parameters));
        // Another chain may be there while parameters change.
        let (Some(hash), Some(fields)) = (hash, fields) else { return };
        self.expect(&hash, report);
        self.first.get_or_insert(hash);
        self.last = Some((owner, fields.next));
        self.has_opt_out |= fields.flags & OPT_OUT != 0;
        let mark = self.mark(&hash, types(fields.bitmap));
        self.found = self.found.wrapping_add(mark);
    }

    /// The hash that an owner is, one label below the apex.
    fn hash_of(&self, owner: &[u8]) -> Option<Hash> {
        let label = owner.strip_suffix(self.apex)?;
        let (&[32], digits) = label.split_first_chunk()? else { return None };
        from_base32hex(digits.try_into().ok()?)
    }

    fn expect(&self, hash: &Hash, report: &mut Report) {
        if let Some((owner, next)) = self.last
            && next != *hash
        {
            report.add(Fault::NsecChain, owner, Some(rtype::NSEC3), String::new);
        }
    }

    pub(crate) fn end(mut self, zone: &Sorted<'a>, report: &mut Report) {
        let Some(first) = self.first else {
            return report.add(Fault::Nsec3Param, self.apex, Some(rtype::NSEC3PARAM), String::new);
        };
        self.expect(&first, report);
        let all = self.needed.wrapping_add(self.optional);
        let is_complete = self.found == all || self.has_opt_out && self.found == self.needed;
        if !is_complete && self.parameters.iterations <= ITERATIONS_MAX {
            self.compare(zone, report);
        }
    }

    /// Finds out which names and NSEC3 do not belong together. Memory: 20 octets a name.
    fn compare(&mut self, zone: &Sorted<'a>, report: &mut Report) {
        let (mut sets, mut places, mut known) = (Sets::default(), Places::default(), vec![]);
        self.path.clear();
        for (name, records) in zone.names() {
            sets.fill(records);
            let place = places.place(self.apex, name, &sets);
            if !is_named(place, &sets) {
                continue;
            }
            let is_optional = self.has_opt_out && is_insecure(place, &sets);
            for end in self.empty_above(name) {
                known.push(self.look(zone, end, [].into_iter(), is_optional, report));
                self.path.push(Step { name: end, mark: 0, is_optional });
            }
            known.push(self.look(zone, name, there(&sets, place), is_optional, report));
            self.path.push(Step { name, mark: 0, is_optional });
        }
        known.sort_unstable();
        for (owner, mut records) in zone.names() {
            let is_ours =
                |r: Rr<'_>| r.rtype == rtype::NSEC3 && Fields::of(r.rdata).is_some_and(|f| f.is_of(&self.parameters));
            if records.any(is_ours) && self.hash_of(owner).is_none_or(|hash| known.binary_search(&hash).is_err()) {
                report.add(Fault::NsecExtra, owner, Some(rtype::NSEC3), String::new);
            }
        }
    }

    /// Looks a name's NSEC3 up.
    fn look(
        &self,
        zone: &Sorted<'a>,
        name: &[u8],
        expect: impl Iterator<Item = Rtype>,
        is_optional: bool,
        report: &mut Report,
    ) -> Hash {
        let hash = nsec3_hash(name, self.parameters.iterations, self.parameters.salt);
        let owner = [&[32], &to_base32hex(&hash)[..], self.apex].concat();
        let rdata = zone.records_at(&owner).and_then(|records| {
            records
                .filter(|r| r.rtype == rtype::NSEC3)
                .filter_map(|r| Fields::of(r.rdata))
                .find(|f| f.is_of(&self.parameters))
        });
        match rdata {
            Some(fields) if types(fields.bitmap).eq(expect) => {}
            Some(_) => report.add(Fault::NsecBitmap, name, None, || crate::report::text(&owner)),
            None if is_optional => {}
            None => report.add(Fault::NoNsec, name, None, || crate::report::text(&owner)),
        }
        hash
    }
}

fn in_use<'a>(sets: &Sets<'a>) -> Option<Parameters<'a>> {
    sets.of(rtype::NSEC3PARAM).iter().find_map(|rr| match rr.rdata {
        [1, 0, a, b, _, salt @ ..] => Some(Parameters { iterations: u16::from_be_bytes([*a, *b]), salt }),
        _ => None,
    })
}

/// The iterations of a zone's NSEC3, if they are too many.
pub(crate) fn too_many_iterations(sets: &Sets<'_>) -> Option<u16> {
    in_use(sets).map(|p| p.iterations).filter(|&n| n > ITERATIONS_MAX)
}

/// True if the name is the zone's own and no owner of NSEC3 alone.
fn is_named(place: Place, sets: &Sets<'_>) -> bool {
    place != Place::Below && !sets.has_only(&[rtype::NSEC3, rtype::RRSIG])
}

fn is_insecure(place: Place, sets: &Sets<'_>) -> bool {
    place == Place::Cut && !sets.has(rtype::DS)
}

const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

pub(crate) fn from_base32hex(digits: &[u8; 32]) -> Option<Hash> {
    let mut hash = [0; 20];
    for (five, eight) in hash.as_chunks_mut::<5>().0.iter_mut().zip(digits.as_chunks::<8>().0) {
        let mut bits = 0u64;
        for digit in eight {
            bits = bits << 5 | DIGITS.iter().position(|d| d == digit)? as u64;
        }
        five.copy_from_slice(bits.to_be_bytes().get(3..)?);
    }
    Some(hash)
}

fn to_base32hex(hash: &Hash) -> [u8; 32] {
    let mut digits = [0; 32];
    for (five, eight) in hash.as_chunks::<5>().0.iter().zip(digits.as_chunks_mut::<8>().0) {
        let bits = five.iter().fold(0u64, |bits, &octet| bits << 8 | u64::from(octet));
        for (i, digit) in eight.iter_mut().enumerate() {
            *digit = DIGITS[(bits >> (35 - 5 * i)) as usize & 31];
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32hex_there_and_back() {
        let hash: Hash = std::array::from_fn(|i| (i * 37) as u8);
        assert_eq!(from_base32hex(&to_base32hex(&hash)), Some(hash));
        // RFC 5155 appendix A: the hash of "example".
        let digits = b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tom";
        assert_eq!(to_base32hex(&nsec3_hash(b"\x07example\0", 12, b"\xaa\xbb\xcc\xdd")), *digits);
        assert_eq!(from_base32hex(b"0p9mhaveqvm6t7vbl5lop2u3t2rp3toz"), None);
    }
}
