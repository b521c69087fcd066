//! Lays changed names over the image that is served: the rule of what is laid, and what takes a new image.
//!
//! ```text
//! names of a zone                              laid, `STEP` names at a time
//! thousands that name a host whose address      laid after it (`image::followers`)
//! changes
//! a zone with several chains of NSEC3           a new image
//! more than `NAMES_MAX` names, or that one      a new image
//! change draws in, or hides, more than is worth it
//! the room behind the image is used up          a new image
//! ```
//! Zones whose files have changed are laid by `changes`, as a whole or by the names that differ; it says there what is too
//! much.

use crate::update::unwritten::Wish;
use image::edit::{Edit, Hidden};
use image::followers::{Followers, Turn};
use image::patch::{Change, Draft, Limits, PLACE, Unable};
use image::{Builder, Complaint, Image, Judge, Node, View, Walk, Zone};
use std::collections::BTreeSet;
use store::Stretch;
use transfer::record::Bare;
use transfer::{Content, Unreadable};

/// Names that are laid together.
const STEP: usize = 4096;
/// Names that are laid over an image at once at all, and that lie over it when files change once more: with more of them a new image is not dearer.
pub const NAMES_MAX: usize = 400_000;

/// What cannot be laid.
#[derive(Debug)]
pub struct Unlaid {
    /// Zones that take a new image; none: it is about the image itself.
    pub zones: Vec<Box<[u8]>>,
    pub why: String,
}

/// A zone as it is served, as a change sees it.
pub struct Standing<'v>(Zone<'v>, Hidden);

impl<'v> Standing<'v> {
    /// None: it is not served.
    pub fn find(view: View<'v>, apex: &[u8]) -> Option<Standing<'v>> {
        zone(view, apex).map(Standing::of)
    }

    pub fn of(zone: Zone<'v>) -> Standing<'v> {
        Standing(zone, Hidden::default())
    }
}

impl Content for Standing<'_> {
    fn bare(&self, owner: &[u8]) -> Result<Vec<Bare>, Unreadable> {
        let node = self.0.node_by(owner, &self.1).map_err(|_| Unreadable)?;
        node.map_or(Ok(vec![]), |node| image::edit::records_of(&node, owner).map_err(|_| Unreadable))
    }
}

pub fn zone<'v>(view: View<'v>, apex: &[u8]) -> Option<Zone<'v>> {
    view.zone_of(apex).ok().flatten()
}

/// The serial that a zone has.
pub fn serial(view: View<'_>, apex: &[u8]) -> Option<u32> {
    zone(view, apex)?.serial().ok()
}

/// A zone as it was served at some time.
pub struct Seen {
    /// Of the map that it was laid out in, or behind.
    map: u64,
    /// Where it was laid out there.
    first: u32,
    /// Its apex, which each change of the zone makes anew.
    apex: u32,
    /// How far changes behind that reached.
    end: u64,
}

impl Seen {
    /// None: it is damaged.
    pub fn of(image: &Image<Stretch>, zone: &Zone<'_>) -> Option<Seen> {
        let (bytes, reference) = (image.bytes(), |node: Node<'_>| node.reference());
        let (first, apex) = (zone.first().map(reference).ok()?, zone.apex().map(reference).ok()?);
        Some(Seen { map: bytes.map().number(), first, apex, end: bytes.end() as u64 })
    }

    /// True if it stands where it stood; names of it may have changed since `end`.
    pub fn is_of(&self, image: &Image<Stretch>, walk: &Walk<'_>) -> bool {
        self.map == image.bytes().map().number() && self.first == walk.first()
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    /// Names that have changed since, and perhaps others. None: it stands elsewhere, or is damaged.
    pub fn changed(&self, image: &Image<Stretch>, zone: &Zone<'_>) -> Option<BTreeSet<Box<[u8]>>> {
        let walk = Walk::of(*zone).ok().filter(|walk| self.is_of(image, walk))?;
        walk.changed_since(self.end).ok()
    }

    /// True if it is certain that nothing has changed.
    pub fn is_current(&self, image: &Image<Stretch>, zone: &Zone<'_>) -> bool {
        let is_there = zone.apex().is_ok_and(|apex| apex.reference() == self.apex);
        is_there && self.map == image.bytes().map().number()
    }
}

/// The image with these names laid over it. Zones that it does not hold are left out. None: nothing is to be laid. `limits`: of names
/// that come to be hidden or are not any more, and of those that carry addresses of hosts which change, in all; of the latter those of a
/// zone that has more are left.
pub fn over(now: &Image<Stretch>, wishes: &[Wish], limits: Limits) -> Result<Option<Put>, Unlaid> {
    let is_served = |w: &&Wish| !w.names.is_empty() && zone(now.view(), &w.apex).is_some();
    let served: Vec<&Wish> = wishes.iter().filter(is_served).collect();
    let is_editable = |w: &&&Wish| zone(now.view(), &w.apex).is_some_and(|z| z.is_editable().unwrap_or(false));
    let rigid: Vec<Box<[u8]>> = served.iter().filter(|w| !is_editable(w)).map(|w| w.apex.clone()).collect();
    if !rigid.is_empty() {
        return Err(Unlaid { zones: rigid, why: "its NSEC3 are of several chains".to_string() });
    }
    if served.iter().map(|w| w.names.len()).sum::<usize>() > NAMES_MAX {
        let zones = served.iter().map(|w| w.apex.clone()).collect();
        return Err(Unlaid { zones, why: "more names have changed than are laid over an image".to_string() });
    }
    let (mut laid, steps): (Option<Put>, _) = (None, steps(&served));
    let mut limits = among(limits, steps.len());
    for step in steps {
        let before = laid.take();
        let next = lay(before.as_ref().map_or(now, |laid| &laid.image), step, limits)?;
        limits.hidden = next.hidden_max;
        laid = Some(next.behind(before));
    }
    Ok(laid)
}

/// The same zone by zone, where some of them cannot be laid; and what these are.
pub fn each_over(now: &Image<Stretch>, wishes: &[Wish], limits: Limits) -> (Option<Put>, Option<Unlaid>) {
    let (mut laid, mut unlaid) = (None::<Put>, None::<Unlaid>);
    let mut limits = among(limits, wishes.len());
    let mut rest = wishes.iter();
    while let Some(wish) = rest.next() {
        let image = laid.as_ref().map_or(now, |laid| &laid.image);
        match over(image, std::slice::from_ref(wish), limits) {
            Ok(None) => {}
            Ok(Some(next)) => {
                limits.hidden = next.hidden_max;
                laid = Some(next.behind(laid));
            }
            Err(Unlaid { zones, why }) => {
                // It may have been looked at for as long as if it had been laid.
                limits.hidden /= if why == LARGE { 2 } else { 1 };
                let all = unlaid.get_or_insert(Unlaid { zones: vec![], why });
                all.zones.push(wish.apex.clone());
                // There is no room for any more.
                if zones.is_empty() {
                    all.zones.extend(rest.by_ref().map(|wish| wish.apex.clone()));
                }
            }
        }
    }
    (laid, unlaid)
}

/// The image with names laid over it that were left.
pub fn again(now: &Image<Stretch>, turn: &Turn) -> Result<Image<Stretch>, Unlaid> {
    let edits = turn.0.iter().map(|(apex, names)| Edit::again(apex, names.clone()));
    lay(now, edits.collect(), Limits::MOST).map(|laid| laid.image)
}

/// What each of so many has.
fn among(limits: Limits, parts: usize) -> Limits {
    Limits { followers: limits.followers / parts.max(1), ..limits }
}

/// The names of all zones in portions: those of a zone stay in their order.
fn steps<'w>(wishes: &[&'w Wish]) -> Vec<Vec<Edit<'w>>> {
    let (mut steps, mut room) = (vec![vec![]], STEP);
    for wish in wishes {
        // Mostly all go together.
        if wish.names.len() <= room {
            room -= wish.names.len();
            steps.last_mut().into_iter().for_each(|step| step.push(Edit::of(&wish.apex, &wish.names)));
            continue;
        }
        let mut names = wish.names.clone();
        while !names.is_empty() {
            if room == 0 {
                (room, _) = (STEP, steps.push(vec![]));
            }
            let rest = names.keys().nth(room).cloned().map(|from| names.split_off(&from)).unwrap_or_default();
            room -= names.len();
            let portion = Edit::new(&wish.apex, std::mem::replace(&mut names, rest));
            if let Some(step) = steps.last_mut() {
                step.push(portion);
            }
        }
    }
    steps.retain(|step| !step.is_empty());
    steps
}

fn lay(now: &Image<Stretch>, edits: Vec<Edit<'_>>, limits: Limits) -> Result<Put, Unlaid> {
    let apexes = edits.iter().map(|edit| edit.apex.into()).collect();
    let change = Change { whole: Builder::new(now.header().seed), gone: vec![], edits, limits };
    match put(now, change) {
        Ok(put) if put.complaints.is_empty() => Ok(put),
        Ok(Put { complaints, .. }) => {
            let why = complaints.into_iter().map(|c| c.what).next().unwrap_or_default();
            Err(Unlaid { zones: apexes, why })
        }
        Err(Fault::Zones(Unable::Whole)) => Err(Unlaid { zones: apexes, why: WHOLE.to_string() }),
        Err(Fault::Zones(Unable::Large)) => Err(Unlaid { zones: apexes, why: LARGE.to_string() }),
        Err(Fault::Zones(why)) => Err(Unlaid { zones: apexes, why: format!("{why:?}") }),
        Err(Fault::Image(why)) => Err(Unlaid::image(&why)),
    }
}

const WHOLE: &str = "it is signed in another way, or owners of NSEC3 become names or have names below";
const LARGE: &str = "it draws in more names than are laid over an image";

impl Unlaid {
    fn image(why: &str) -> Unlaid {
        Unlaid { zones: vec![], why: why.to_string() }
    }

    /// True if it is about all zones, or this one.
    pub fn is_about(&self, apex: &[u8]) -> bool {
        self.zones.is_empty() || self.zones.iter().any(|zone| **zone == *apex)
    }
}

/// Why a change is not laid.
pub enum Fault {
    /// The change asks for more than that.
    Zones(Unable),
    /// There is no place for anything behind the image.
    Image(String),
}

/// An image with a change behind it.
pub struct Put {
    pub image: Image<Stretch>,
    pub complaints: Vec<Complaint>,
    /// Names that are to be laid afterwards.
    pub left: Vec<Followers>,
    /// As `Draft` has it.
    hidden_max: usize,
}

impl Put {
    /// What was left before it is left now, too.
    fn behind(mut self, before: Option<Put>) -> Put {
        self.left.splice(0..0, before.into_iter().flat_map(|before| before.left));
        self
    }
}

/// Lays a change out, and puts it behind the image.
pub fn put(now: &Image<Stretch>, change: Change<'_>) -> Result<Put, Fault> {
    put_there(now, &mut draft(now, change, &mut |_| None)?)
}

/// The first half of that: it needs no place, and others may lay something over the image meanwhile.
pub fn draft(now: &Image<Stretch>, change: Change<'_>, judge: Judge<'_>) -> Result<Draft, Fault> {
    if !now.is_whole() {
        return Err(damaged());
    }
    Draft::of(now.view(), change, judge).map_err(Fault::Zones)
}

/// The other half. `now`: the same image, as it is served now.
pub fn put_there(now: &Image<Stretch>, draft: &mut Draft) -> Result<Put, Fault> {
    let none = |why: &dyn std::fmt::Display| Fault::Image(why.to_string());
    if !now.is_whole() {
        return Err(damaged());
    }
    let place = (now.bytes().free() as u64).next_multiple_of(PLACE);
    let laid = draft.lay(now.view(), place).map_err(Fault::Zones)?;
    let at = usize::try_from(place).map_err(|e| none(&e))?;
    let octets = now.bytes().go_on(at, &laid.octets).map_err(|e| none(&e))?;
    let between = Image::overlaid(octets.clone(), now.header().clone());
    let header = laid.overlay(between.view()).map_err(|_| damaged())?;
    let image = now.changed(octets, header);
    Ok(Put { image, complaints: laid.complaints, left: laid.followers, hidden_max: draft.hidden_max })
}

fn damaged() -> Fault {
    Fault::Image("the image is damaged".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::edit::{Names, Record};
    use wire::rtype::NS;

    const ZONES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    fn below(label: &str, zone: &str) -> Box<[u8]> {
        [&[label.len() as u8], label.as_bytes(), &[1], zone.as_bytes(), &[0]].concat().into()
    }

    /// In each zone a name that comes to be delegated, which hides so many below it.
    fn delegated(hidden: [usize; 6]) -> (Image<Stretch>, Vec<Wish>) {
        let text = |(zone, n): (&str, usize)| {
            let names: String = (0..n).map(|i| format!("n{i}.cut 60 A 192.0.2.1\n")).collect();
            (format!("{zone}."), format!("@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n{names}"))
        };
        let texts: Vec<_> = ZONES.into_iter().zip(hidden).map(text).collect();
        let texts: Vec<(&str, &str)> = texts.iter().map(|(zone, text)| (&**zone, &**text)).collect();
        let file = std::env::temp_dir().join(format!("dunlin-laying-{}-{hidden:?}", std::process::id()));
        std::fs::write(&file, sim::image_of(&texts).0).unwrap();
        let map = Stretch::of(store::Map::copy_to_memory(&file, 1 << 20).unwrap());
        std::fs::remove_file(&file).unwrap();
        let ns = |zone: &str| Record { rtype: NS, ttl: 60, rdata: below("ns", zone) };
        let wish = |zone: &str| Wish {
            apex: [&[1], zone.as_bytes(), &[0]].concat().into(),
            names: Names::from([(below("cut", zone), vec![ns(zone)])]),
        };
        (Image::open_to_serve(map, |_| 0).unwrap(), ZONES.into_iter().map(wish).collect())
    }

    /// Whoever has one key for many zones may delegate a name in each, and all of that is one group.
    #[test]
    fn what_all_zones_hide_together_is_bounded() {
        let (limits, zone) =
            (Limits { hidden: 100, followers: 100 }, |i: usize| Box::from([1, ZONES[i].as_bytes()[0], 0]));
        for (hidden, owed) in [
            ([20, 20, 20, 20, 20, 0], vec![]),
            ([60, 60, 40, 10, 0, 0], vec![1, 2]),
            // What is too much for one may have been looked at for as long, and leaves the others half.
            ([101, 50, 50, 25, 1, 0], vec![0, 2, 3, 4]),
            ([300, 300, 300, 300, 12, 0], vec![0, 1, 2, 3, 4]),
        ] {
            let (image, wishes) = delegated(hidden);
            let (laid, unlaid) = match over(&image, &wishes, limits) {
                Ok(laid) => (laid, None),
                Err(_) => each_over(&image, &wishes, limits),
            };
            let owed: Vec<Box<[u8]>> = owed.into_iter().map(zone).collect();
            assert_eq!(unlaid.map_or(vec![], |unlaid| unlaid.zones), owed, "{hidden:?}");
            let image = laid.unwrap().image;
            for (i, wish) in wishes.iter().enumerate() {
                let node = super::zone(image.view(), &wish.apex).unwrap().node(&below("cut", ZONES[i])).unwrap();
                let is_laid = node.is_some_and(|node| node.rrset(NS).unwrap().is_some());
                assert_eq!(is_laid, !owed.contains(&wish.apex), "{hidden:?}, {}", ZONES[i]);
            }
        }
    }
}
