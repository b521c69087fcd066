//! A change that no message asks for, as an edit: all that can be is done by whoever asks for it, so that no update waits for that. Such a change may be of
//! 300,000 names, of which it takes half a second to find out what they are then.
//!
//! ```text
//! the zone as whoever asks saw it --updates--> as it is by now
//!   nothing has changed since          as it was found out
//!   what has is of other names         the same under the serial that comes now, where the change is such as an edit
//!   anything else                      it does not fit
//! ```

use crate::clock::change_now;
use crate::images::laying::{self, Seen, Standing};
use crate::images::sound::DAMAGED;
use crate::update::intake::Unmade;
use crate::update::unwritten::{After, Names, Sheet, Wish};
use image::Image;
use image::edit::Record as Bare;
use std::collections::BTreeSet;
use store::Stretch;
use transfer::record::with_serial;
use transfer::{Author, Content as _, Diff, Entry, Layer, Misfit, Record, update};
use wire::rtype::{DNSKEY, SOA, ZONEMD};

/// Names of such a change, most, that are laid over the image while updates wait, which takes 9 us each; with more it takes a new one.
const LAID_MAX: usize = 10_000;

pub struct Made {
    /// Whoever asks has it back, and lets go of it: that may be 600,000 records.
    pub entry: Entry,
    /// As the journal has it.
    pub octets: Vec<u8>,
    ahead: Option<Ahead>,
    /// Others may have changed other names since.
    follows: bool,
}

impl Made {
    pub fn of(apex: &[u8], diff: Diff, author: Author) -> Made {
        let entry = Entry { zone: apex.into(), author, when: change_now(), diff };
        Made { octets: entry.encode(), entry, ahead: None, follows: false }
    }

    /// One of this version of the zone, or of none.
    pub fn found_out(self, image: &Image<Stretch>) -> Made {
        Made { ahead: Ahead::of(image, &self.entry.zone, &self.entry.diff), ..self }
    }

    /// One that goes over what others have changed since, if that is of other names.
    pub fn following(self, ahead: Option<Ahead>) -> Made {
        Made { ahead, follows: true, ..self }
    }

    /// What the zone's names are after it. Its serial, and its number, are such as follow what is there.
    pub fn settle(&mut self, image: &Image<Stretch>) -> Result<After, Unmade> {
        let zone = || laying::zone(image.view(), &self.entry.zone);
        match self.ahead.take() {
            // Its number is behind those of all changes that the zone has had.
            Some(Ahead { seen, after }) if zone().is_some_and(|zone| seen.is_current(image, &zone)) => Ok(after),
            Some(ahead) if self.follows => {
                let after = ahead.follow(image, &mut self.entry)?;
                self.entry.when = change_now();
                self.octets = self.entry.encode();
                Ok(after)
            }
            // It was found out beforehand for it may be of all names, which is nothing to be done here.
            Some(_) => Err(Unmade::Misfit),
            None => after(image, &self.entry.zone, &self.entry.diff),
        }
    }
}

pub struct Ahead {
    /// The zone, as it was then.
    seen: Seen,
    after: After,
}

impl Ahead {
    /// None: whoever makes the change says why it cannot be.
    pub fn of(image: &Image<Stretch>, apex: &[u8], diff: &Diff) -> Option<Ahead> {
        let seen = Seen::of(image, &laying::zone(image.view(), apex)?)?;
        Some(Ahead { seen, after: after(image, apex, diff).ok()? })
    }

    /// The same over what others have changed since, as if that had come before: each name that it changes is to be what it was. Names are looked up that they have
    /// changed, and no others; its own records are gone through, and written down anew.
    fn follow(mut self, image: &Image<Stretch>, entry: &mut Entry) -> Result<After, Unmade> {
        let (apex, diff) = (&*entry.zone, &mut entry.diff);
        let zone = laying::zone(image.view(), apex).ok_or(Unmade::Misfit)?;
        let standing = Standing::of(zone);
        let now = standing.at(apex).map_err(|_| DAMAGED.to_string())?;
        // A digest is of the whole, and so is who has signed it, or is about to.
        let is_of_all = |r: &Record| matches!(r.rtype, ZONEMD | DNSKEY);
        if now.iter().chain(diff.added()).any(is_of_all) {
            return Err(Unmade::Misfit);
        }
        let soa = now.into_iter().find(|r| r.rtype == SOA).ok_or(Unmade::Misfit)?;
        if !diff.goes_over(&soa) {
            return Err(Unmade::Misfit);
        }
        let mut changed = self.seen.changed(image, &zone).ok_or(Unmade::Misfit)?;
        changed.retain(|name| self.after.at(name).is_some());
        changed.insert(apex.into());
        // Those that it changes, too, and the apex with the serial that comes now.
        let part = diff.part(&|owner| changed.contains(owner));
        for (name, records) in names_after(standing, apex, &part)? {
            if !self.after.at(&name).is_some_and(|ready| is_same(ready, &records)) {
                return Err(Unmade::Misfit);
            }
            self.after.put(name, records);
        }
        Ok(self.after)
    }
}

/// Whether a name has the same records by both, but for its serial.
fn is_same(ready: &[Bare], now: &[Bare]) -> bool {
    let sorted = |records: &[Bare]| {
        let plain = |r: &Bare| match r.rtype {
            SOA => Bare { rdata: with_serial(&r.rdata, 0).into(), ..r.clone() },
            _ => r.clone(),
        };
        records.iter().map(plain).collect::<BTreeSet<_>>()
    };
    sorted(ready) == sorted(now)
}

/// The names that a change leaves otherwise, as they are then.
pub fn after(image: &Image<Stretch>, apex: &[u8], diff: &Diff) -> Result<After, Unmade> {
    let standing = Standing::find(image.view(), apex).ok_or_else(|| "the zone is not served".to_string())?;
    let names = names_after(standing, apex, diff)?;
    Ok(if names.len() > LAID_MAX {
        After::Sheet(apex.into(), Sheet::of(names))
    } else {
        After::Wishes(vec![Wish { apex: apex.into(), names }])
    })
}

fn names_after(standing: Standing<'_>, apex: &[u8], diff: &Diff) -> Result<Names, Unmade> {
    let mut layer = Layer::over(standing);
    layer.follow(diff).map_err(|misfit| match misfit {
        Misfit::Unreadable => Unmade::Failed(DAMAGED.to_string()),
        Misfit::Record(_) => Unmade::Misfit,
    })?;
    update::unfit(apex, &layer).map_or(Ok(()), |why| Err(why.to_string()))?;
    Ok(layer.into_names())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::by_edit;
    use image::patch::Limits;
    use std::collections::BTreeMap;
    use wire::rtype::{A, NS};

    const APEX: &[u8] = b"\x01z\0";

    /// Names and numbers: addresses, and at the apex of its name servers.
    type Held = BTreeMap<u8, BTreeSet<u8>>;

    fn owner(name: u8) -> Box<[u8]> {
        if name == 0 { APEX.into() } else { [1, b'`' + name, 1, b'z', 0].into() }
    }

    fn soa(serial: u32, minimum: u8) -> Record {
        let rdata = [&b"\0\0"[..], &[0; 19], &[minimum]].concat();
        Record::new(APEX, SOA, 60, &with_serial(&rdata, serial)).unwrap()
    }

    fn records(held: &Held) -> Vec<Record> {
        let record = |(&name, number): (&u8, &u8)| match name {
            0 => Record::new(APEX, NS, 60, &[1, b'n', 1, *number, 0]).unwrap(),
            _ => Record::new(&owner(name), A, 60, &[192, 0, 2, *number]).unwrap(),
        };
        held.iter().flat_map(|(name, numbers)| numbers.iter().map(move |n| (name, n))).map(record).collect()
    }

    fn image(held: &Held) -> Image<Stretch> {
        let mut builder = image::Builder::new(7);
        builder.begin_zone(APEX);
        for r in records(held).iter().chain([&soa(5, 0)]) {
            builder.record(r.owner(), r.rtype, r.ttl, r.rdata()).unwrap();
        }
        let thread = std::thread::current().id();
        let file = std::env::temp_dir().join(format!("dunlin-ahead-{}-{thread:?}", std::process::id()));
        std::fs::write(&file, builder.finish().0).unwrap();
        let map = Stretch::of(store::Map::copy_to_memory(&file, 1 << 20).unwrap());
        std::fs::remove_file(&file).unwrap();
        Image::open_to_serve(map, |_| 0).unwrap()
    }

    /// The image with these names, and this SOA, laid over it.
    fn laid(now: &Image<Stretch>, names: &BTreeSet<u8>, held: &Held, soa: &Record) -> Image<Stretch> {
        let all = records(held);
        let of = |name: u8| all.iter().filter(|r| *r.owner() == *owner(name)).map(Record::bare).collect::<Vec<_>>();
        let apex = [of(0), vec![soa.bare()]].concat();
        let names = names.iter().map(|&name| (owner(name), of(name))).chain([(APEX.into(), apex)]).collect();
        laying::over(now, &[Wish { apex: APEX.into(), names }], Limits::MOST).unwrap().unwrap().image
    }

    struct Draw(u64);

    impl Draw {
        fn below(&mut self, n: u8) -> u8 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as u8 % n
        }

        /// Names that come, go or change, the apex seldom; which.
        fn change(&mut self, held: &mut Held, apex_in: u8) -> BTreeSet<u8> {
            let (changes, mut names) = (self.below(3), BTreeSet::new());
            for _ in 0..=changes {
                let (name, number) = (if self.below(apex_in) == 0 { 0 } else { 1 + self.below(6) }, 1 + self.below(3));
                let numbers = held.entry(name).or_default();
                if !numbers.remove(&number) || numbers.is_empty() && name == 0 {
                    numbers.insert(number);
                }
                names.insert(name);
            }
            names
        }
    }

    /// Its twin compares all names that it changes with what they were.
    #[test]
    fn an_edit_goes_over_what_leaves_its_names_as_they_are_and_over_nothing_else() {
        let (mut over, mut not_over) = (0, 0);
        for seed in 0..3000 {
            let mut draw = Draw(seed);
            let mut before = Held::from([(0, [1].into())]);
            (0..3).for_each(|_| _ = draw.change(&mut before, 9));
            let (mut edited, mut now) = (before.clone(), before.clone());
            draw.change(&mut edited, 9);
            let to = 6 + u32::from(draw.below(4));
            let with = |held: &Held, soa: Record| [records(held), vec![soa]].concat();
            let diff = Diff::between(with(&before, soa(5, 0)), with(&edited, soa(to, 0)));
            let (mut served, mut serial) = (image(&before), 5);
            let mut found = Ahead::of(&served, APEX, &diff).unwrap();
            if seed % 2 == 0
                && let After::Wishes(wishes) = found.after
            {
                found.after = After::Sheet(APEX.into(), Sheet::of(wishes.into_iter().next().unwrap().names));
            }
            let minimum = u8::from(draw.below(20) == 0);
            for _ in 0..draw.below(4) {
                serial += 1;
                let names = draw.change(&mut now, 9);
                served = laid(&served, &names, &now, &soa(serial, minimum));
            }
            let mut made = Made::of(APEX, diff.clone(), by_edit()).following(Some(found));
            let outcome = made.settle(&served);
            let none = BTreeSet::new();
            let of = |held: &Held, name: u8| held.get(&name).unwrap_or(&none).clone();
            let is_as_it_was = |name: u8| of(&before, name) == of(&now, name);
            let is_edited = |name: u8| name == 0 || of(&before, name) != of(&edited, name);
            let fits = (0..7).filter(|name| is_edited(*name)).all(is_as_it_was) && (minimum == 0 || serial == 5);
            assert_eq!(outcome.is_ok(), fits, "seed {seed}");
            let Ok(found) = outcome else {
                not_over += 1;
                continue;
            };
            over += u32::from(serial > 5);
            let to = if serial < to { to } else { serial + 1 };
            assert_eq!((made.entry.diff.from, made.entry.diff.to), (serial, to), "seed {seed}");
            assert_eq!(Entry::decode(&made.octets).as_ref(), Ok(&made.entry));
            let expect =
                names_after(Standing::find(served.view(), APEX).unwrap(), APEX, &made.entry.diff).ok().unwrap();
            assert_eq!(
                made.entry.diff.removed().len() + made.entry.diff.added().len(),
                diff.removed().len() + diff.added().len()
            );
            for (name, records) in &expect {
                assert!(
                    found
                        .at(name)
                        .is_some_and(|found| found.iter().collect::<BTreeSet<_>>() == records.iter().collect()),
                    "seed {seed}"
                );
            }
        }
        assert!(over > 300 && not_over > 300, "{over} {not_over}");
    }

    #[test]
    fn what_is_signed_or_has_a_digest_is_all_there_may_be() {
        let held = Held::from([(0, [1].into()), (1, [1].into())]);
        let first = image(&held);
        let served = laid(&first, &[1].into(), &held, &soa(6, 0));
        let key = Record::new(APEX, DNSKEY, 60, &[1, 0, 3, 13, 0]).unwrap();
        let host = Record::new(&owner(2), A, 60, &[192, 0, 2, 1]).unwrap();
        for (added, is_over) in [(host, true), (key, false)] {
            let diff = Diff::new(5, 6, vec![soa(5, 0)], vec![soa(6, 0), added]);
            let ahead = Ahead::of(&first, APEX, &diff);
            let settled = Made::of(APEX, diff.clone(), by_edit()).following(ahead).settle(&served);
            assert_eq!(settled.is_ok(), is_over);
            let exact = Made::of(APEX, diff, by_edit()).found_out(&first).settle(&served);
            assert!(matches!(exact, Err(Unmade::Misfit)), "another version than what is not to follow");
        }
        // The same zone in another image: to work it out once more may take long, and updates would wait for that.
        let diff = Diff::new(5, 6, vec![soa(5, 0)], vec![soa(6, 0)]);
        let made = || Made::of(APEX, diff.clone(), by_edit()).found_out(&first);
        assert!(made().settle(&first).is_ok() && matches!(made().settle(&image(&held)), Err(Unmade::Misfit)));
    }
}
