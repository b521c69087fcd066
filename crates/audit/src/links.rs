//! Whether the chain of denial of a signed zone holds around names that have changed: what the walk over all names tells of a
//! whole zone, told of a few by looking at them and at who leads to them. A no says that the whole zone is worth a walk.

use crate::denial::types;
use crate::nsec3::{Fields, OPT_OUT, from_base32hex};
use image::edit::Hidden;
use image::node::CUT;
use image::zone::{NSEC, NSEC3, nsec3_hash};
use image::{Damaged, Node, Part, Zone};
use std::collections::{BTreeSet, HashMap, HashSet};
use wire::name::{NAME_MAX, fold, wire_len};
use wire::rtype::{self, Rtype};

/// What names hash to, and those above them. Of a zone with thousands of iterations one takes a quarter of a millisecond: whoever
/// looks at a chain while others wait has them ready.
#[derive(Default)]
pub struct Hashes {
    iterations: u16,
    salt: Box<[u8]>,
    known: HashMap<Box<[u8]>, [u8; 20]>,
}

impl Hashes {
    /// Of these names, in lower case, by the zone's chain of NSEC3. None, if it has no such chain.
    pub fn of<'n>(zone: &Zone<'_>, names: impl Iterator<Item = &'n [u8]>) -> Result<Hashes, Damaged> {
        if !zone.is(NSEC3)? {
            return Ok(Hashes::default());
        }
        let (apex, (iterations, salt)) = (zone.apex()?.apex_name()?, zone.hashing()?);
        let mut known = HashMap::<Box<[u8]>, _>::new();
        for name in names {
            // Whoever is known is so with all above.
            for name in at_and_above(name, apex) {
                if known.contains_key(name) {
                    break;
                }
                known.insert(name.into(), nsec3_hash(name, iterations, salt));
            }
        }
        Ok(Hashes { iterations, salt: salt.into(), known })
    }

    /// The zone may be another version than that which they are of, and hash in another way.
    fn hash(&self, zone: &Zone<'_>, name: &[u8]) -> Result<[u8; 20], Damaged> {
        let is_as_before = zone.hashing()? == (self.iterations, &*self.salt);
        match self.known.get(name).filter(|_| is_as_before) {
            Some(hash) => Ok(*hash),
            None => zone.nsec3_hash(name),
        }
    }
}

/// True if each of these names, in lower case, is denied or not as it should be, and the owners beside them lead to one another.
/// `hashes`: those that are known.
pub fn hold<'n>(
    zone: &Zone<'_>,
    names: impl Iterator<Item = &'n [u8]> + Clone,
    hashes: &Hashes,
) -> Result<bool, Damaged> {
    let hidden = Hidden::default();
    match (zone.is(NSEC)?, zone.is(NSEC3)?) {
        (true, false) => names.clone().try_fold(true, |holds, name| Ok(holds && nsec_holds(zone, &hidden, name)?)),
        (false, true) => {
            let mut told = HashSet::new();
            let holds = |holds, name| Ok(holds && nsec3_holds(zone, &hidden, &mut told, name, hashes)?);
            Ok(names.clone().try_fold(true, holds)? && none_is_bereft(zone, names, hashes)?)
        }
        // Two chains at once, or none: a zone on its way from one to the other.
        _ => Ok(false),
    }
}

/// True if each NSEC3 that is gone was of one of these names, or of one above them, which have been looked at: it may be that of a name
/// that has not changed.
fn none_is_bereft<'n>(
    zone: &Zone<'_>,
    names: impl Iterator<Item = &'n [u8]> + Clone,
    hashes: &Hashes,
) -> Result<bool, Damaged> {
    let apex = zone.apex()?.apex_name()?;
    let mut gone = BTreeSet::new();
    for hash in names.clone().filter_map(|name| hash_of(name, apex)) {
        if !zone.nsec3_at_or_before(&hash)?.1 {
            gone.insert(hash);
        }
    }
    for name in names.flat_map(|name| at_and_above(name, apex)) {
        if gone.is_empty() {
            break;
        }
        gone.remove(&hashes.hash(zone, name)?);
    }
    Ok(gone.is_empty())
}

/// A name and those above it, up to the apex.
fn at_and_above<'n>(name: &'n [u8], apex: &[u8]) -> impl Iterator<Item = &'n [u8]> {
    let (up, least) = (|name: &&'n [u8]| name.get(usize::from(*name.first()?) + 1..), apex.len());
    std::iter::successors(Some(name), up).take_while(move |end| end.len() >= least)
}

fn nsec_holds(zone: &Zone<'_>, hidden: &Hidden, name: &[u8]) -> Result<bool, Damaged> {
    if let Some(node) = zone.node_by(name, hidden)?.filter(Node::is_name) {
        let holds = match node.rrset(rtype::NSEC)? {
            Some(_) => leads_on(zone, &node)?,
            // Who has nothing but names below has none.
            None => node.rrsets().next().is_none(),
        };
        if !holds {
            return Ok(false);
        }
    }
    zone.nsec_before(name)?.map_or(Ok(true), |before| leads_on(zone, &before))
}

/// True if the next name that an NSEC leads to has one, and none stands between.
fn leads_on(zone: &Zone<'_>, node: &Node<'_>) -> Result<bool, Damaged> {
    let mut room = [0; NAME_MAX];
    let owner = zone.name_of(node, &mut room)?;
    let mut all = vec![];
    let unit = node.rrset(rtype::NSEC)?.ok_or(Damaged)?;
    unit.for_each(owner, |_, rdata| all.push(rdata.get(..wire_len(rdata).unwrap_or(0)).unwrap_or_default().to_vec()))?;
    let [next] = &mut all[..] else { return Ok(false) };
    fold(next);
    let apex = zone.apex()?.apex_name()?;
    if *next == apex {
        return Ok(zone.nsec_at_or_before(&behind_all(apex))?.reference() == node.reference());
    }
    let has_one = match zone.node(next)?.filter(Node::is_name) {
        Some(next) => next.rrset(rtype::NSEC)?.is_some(),
        None => false,
    };
    Ok(has_one && zone.nsec_before(next)?.is_some_and(|before| before.reference() == node.reference()))
}

/// A name behind all that a zone is likely to have.
fn behind_all(apex: &[u8]) -> Vec<u8> {
    let long = [&[63][..], &[0xFF; 63]].concat();
    let room = (NAME_MAX - apex.len()) / long.len();
    [long.repeat(room.min(1)), apex.to_vec()].concat()
}

/// `told`: names that have been looked at, and all above them.
fn nsec3_holds<'n>(
    zone: &Zone<'_>,
    hidden: &Hidden,
    told: &mut HashSet<&'n [u8]>,
    name: &'n [u8],
    hashes: &Hashes,
) -> Result<bool, Damaged> {
    let apex = zone.apex()?.apex_name()?;
    let mut untold = at_and_above(name, apex).take_while(|name| told.insert(*name));
    if !untold.try_fold(true, |holds, name| Ok(holds && is_told(zone, hidden, name, hashes)?))? {
        return Ok(false);
    }
    let Some(hash) = hash_of(name, apex) else { return Ok(true) };
    let (node, is_it) = zone.nsec3_at_or_before(&hash)?;
    let (before, _) = zone.nsec3_at_or_before(&less(hash))?;
    Ok((!is_it || leads_to_next(zone, &node, apex)?) && leads_to_next(zone, &before, apex)?)
}

/// True if the name has the NSEC3 that it should have, or none.
fn is_told(zone: &Zone<'_>, hidden: &Hidden, name: &[u8], hashes: &Hashes) -> Result<bool, Damaged> {
    let node = zone.node_by(name, hidden)?.filter(Node::is_name);
    let (nsec3, is_it) = zone.nsec3_at_or_before(&hashes.hash(zone, name)?)?;
    let Some(node) = node else { return Ok(!is_it) };
    let mut fields = None;
    let mut room = [0; NAME_MAX];
    let owner = zone.name_of(&nsec3, &mut room)?;
    let listed = |rdata: &[u8]| Fields::of(rdata).map(|f| (f.flags, types(f.bitmap).collect::<Vec<Rtype>>()));
    let unit = nsec3.rrset(rtype::NSEC3)?.ok_or(Damaged)?;
    unit.for_each(owner, |_, rdata| fields = listed(rdata))?;
    let Some((flags, listed)) = fields else { return Ok(false) };
    if is_it {
        return Ok(listed == types_of(&node)?);
    }
    // By opt-out (RFC 5155 section 6): delegations without DS, and what is there only to lead to them.
    let is_optional = match node.is(CUT) {
        true => node.rrset(rtype::DS)?.is_none(),
        false => node.rrsets().next().is_none(),
    };
    Ok(is_optional && flags & OPT_OUT != 0)
}

/// The types that the NSEC3 of a node's name is to list.
fn types_of(node: &Node<'_>) -> Result<Vec<Rtype>, Damaged> {
    let mut all = vec![];
    for rrset in node.rrsets() {
        let (rtype, unit) = rrset?;
        all.push(rtype);
        if unit.has(Part::Signatures) {
            all.push(rtype::RRSIG);
        }
    }
    let is_told = |t: &Rtype| {
        let at_cut = [rtype::NS, rtype::DS, rtype::NSEC, rtype::RRSIG].contains(t);
        *t != rtype::NSEC3 && (!node.is(CUT) || at_cut)
    };
    all.retain(is_told);
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn hash_of(owner: &[u8], apex: &[u8]) -> Option<[u8; 20]> {
    let (&[32], digits) = owner.strip_suffix(apex)?.split_first_chunk()? else { return None };
    from_base32hex(digits.try_into().ok()?)
}

/// The hash before this one; before the least there is the greatest.
fn less(mut hash: [u8; 20]) -> [u8; 20] {
    for octet in hash.iter_mut().rev() {
        *octet = octet.wrapping_sub(1);
        if *octet != 0xFF {
            break;
        }
    }
    hash
}

/// True if an NSEC3 leads to one that is there, and none stands between.
fn leads_to_next(zone: &Zone<'_>, node: &Node<'_>, apex: &[u8]) -> Result<bool, Damaged> {
    let mut room = [0; NAME_MAX];
    let owner = zone.name_of(node, &mut room)?;
    // What stands elsewhere than right below the apex is in nobody's chain.
    if hash_of(owner, apex).is_none() {
        return Ok(false);
    }
    let mut all = vec![];
    let unit = node.rrset(rtype::NSEC3)?.ok_or(Damaged)?;
    unit.for_each(owner, |_, rdata| all.push(Fields::of(rdata).map(|f| f.next)))?;
    let [Some(next)] = all[..] else { return Ok(false) };
    let (_, is_there) = zone.nsec3_at_or_before(&next)?;
    let (before, _) = zone.nsec3_at_or_before(&less(next))?;
    Ok(is_there && before.reference() == node.reference())
}
