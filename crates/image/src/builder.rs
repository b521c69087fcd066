//! Makes an image from records: collects, finds out what each name is, and lays everything out.
//!
//! Records may come in any order within their zone. A zone that cannot be served is left out and complained of; the
//! others are built all the same. What several builders have collected can be put together, so that zones, and parts of
//! one zone, can be read side by side.
//!
//! Memory: the records once (8 octets each beside their rdata), 21 octets and the name for each run of records of one
//! owner, 16 octets a name, and the image. With somewhere to spill to: a bound for the records, 16 octets a run.

use crate::collected::Collected;
use crate::drafts::Drafts;
use crate::format::NAMES_END_MAX;
use crate::layout::Layout;
use crate::order;
use crate::sorted::Sorted;
use crate::spill::{self, Spill};
use crate::zone::order_key;
use std::ops::Range;
use std::sync::Arc;
use wire::Name;
use wire::name::{is_at_or_below, wire_len};
use wire::rtype::{self, Rtype};

/// Zones of this many runs are judged beside what is made of them.
const LONG_FROM: usize = 1 << 16;

pub(crate) struct ZoneDraft {
    pub apex: Box<[u8]>,
    /// Its first run: that of the apex, without records.
    pub run: u32,
    pub complaint: Option<String>,
    pub is_signed: bool,
    /// Some names own NSEC3 and nothing else.
    pub is_hashed: bool,
}

/// A zone that is left out of the image, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub zone: Name,
    pub what: String,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub zones: usize,
    pub names: usize,
    pub records: u64,
}

/// Who does two things of which neither needs the other. The builder starts no threads; its driver may.
pub trait Hands: Sync {
    /// Returns when both are done.
    fn both(&self, one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send));
}

/// Looks at a zone's records before anything is made of them. Some: why the zone is left out.
pub type Judge<'j> = &'j mut (dyn FnMut(&Sorted<'_>) -> Option<String> + Send);

/// One thing after the other.
pub struct InTurn;

impl Hands for InTurn {
    fn both(&self, one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send)) {
        one();
        other();
    }
}

pub struct Builder {
    seed: u64,
    collected: Collected,
    zones: Vec<ZoneDraft>,
    /// The owner of the open run, as it was given.
    owner: Vec<u8>,
    spill: Option<Arc<dyn Spill>>,
    /// Octets that are held before they are spilled.
    held_max: usize,
    /// Octets of the image at which no more name begins.
    end_max: usize,
}

impl Builder {
    /// `seed`: random; an image's hashes depend on it, so that nobody can prepare names that collide.
    pub fn new(seed: u64) -> Builder {
        let (collected, zones, owner) = (Collected::default(), vec![], vec![]);
        Builder { seed, collected, zones, owner, spill: None, held_max: usize::MAX, end_max: NAMES_END_MAX }
    }

    /// A builder that spills when it holds so many octets of records.
    pub fn spilling(seed: u64, held_max: usize, spill: Arc<dyn Spill>) -> Builder {
        Builder { spill: Some(spill), held_max, ..Builder::new(seed) }
    }

    /// The apexes of the zones begun so far.
    pub fn apexes(&self) -> impl Iterator<Item = &[u8]> {
        self.zones.iter().map(|z| &*z.apex)
    }

    /// Names so far, at most: one whose records came apart counts more than once.
    pub fn names_max(&self) -> usize {
        self.collected.runs.len()
    }

    /// The records that follow belong to the zone of this apex.
    pub fn begin_zone(&mut self, apex: &[u8]) {
        let run = self.collected.runs.len() as u32;
        let apex: Box<[u8]> = apex.to_ascii_lowercase().into();
        let zone = ZoneDraft { apex: apex.clone(), run, complaint: None, is_signed: false, is_hashed: false };
        self.zones.push(zone);
        self.open_run(&apex, &apex);
    }

    fn open_run(&mut self, owner: &[u8], apex: &[u8]) {
        let mut folded = [0u8; 256];
        let folded = &mut folded[..owner.len()];
        folded.copy_from_slice(owner);
        folded.make_ascii_lowercase();
        self.collected.open_run(order_key(folded, apex), folded);
        self.owner.clear();
        self.owner.extend_from_slice(owner);
    }

    /// Adds a record to the zone begun last. Err: it does not belong there.
    pub fn record(&mut self, owner: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8]) -> Result<(), String> {
        let Some(number) = self.zones.len().checked_sub(1) else { return Err("no zone was begun".into()) };
        if rtype::is_meta(rtype) {
            return Err(format!("type {rtype} stands in questions only, no zone may hold it"));
        }
        let is_full = self.collected.held >= self.held_max;
        if is_full {
            self.spill();
        }
        let is_another = owner != self.owner || is_full;
        if is_another || rtype == rtype::SOA {
            self.judge_owner(owner, rtype)?;
        }
        if is_another {
            let apex = std::mem::take(&mut self.zones[number].apex);
            self.open_run(owner, &apex);
            self.zones[number].apex = apex;
        }
        self.collected.push(rtype, ttl, rdata);
        Ok(())
    }

    fn judge_owner(&self, owner: &[u8], rtype: Rtype) -> Result<(), String> {
        let apex = self.zones.last().map_or(&[][..], |z| &z.apex);
        if wire_len(owner) != Some(owner.len()) {
            return Err("the owner is no name".into());
        }
        if !is_at_or_below(owner, apex) {
            let (owner, apex) = (text(owner), text(apex));
            return Err(format!("{owner} lies outside the zone {apex}"));
        }
        if rtype == rtype::SOA && !owner.eq_ignore_ascii_case(apex) {
            return Err(format!("a SOA belongs to the zone's apex {} only", text(apex)));
        }
        Ok(())
    }

    /// Takes out of memory what is held. The zone for which there is no room is not built.
    fn spill(&mut self) {
        let Some(spill) = self.spill.take_if(|_| self.collected.held > 0) else { return };
        // The open run goes with the others.
        self.owner.clear();
        match spill::spill(&mut self.collected, &mut self.zones, &*spill) {
            Ok(()) => self.spill = Some(spill),
            // What more comes is held: it belongs to zones that are reported, and all is let go of with them.
            Err(why) => {
                self.held_max = usize::MAX;
                self.complain(format!("its records do not fit in memory, and cannot be kept outside: {why}"));
            }
        }
    }

    /// Takes back the zone begun last: its file turned out to be unusable.
    pub fn complain(&mut self, what: String) {
        if let Some(zone) = self.zones.last_mut() {
            zone.complaint.get_or_insert(what);
        }
    }

    /// Why the zone begun last is taken back, if it is. Begun once more, it is what comes from then on.
    pub fn complaint(&self) -> Option<&str> {
        self.zones.last()?.complaint.as_deref()
    }

    /// Puts the zones of another builder behind those of this one.
    pub fn append(&mut self, mut other: Builder) {
        self.spill_if(&mut other);
        let runs = self.collected.runs.len() as u32;
        other.zones.iter_mut().for_each(|z| z.run += runs);
        self.zones.append(&mut other.zones);
        self.collected.append(other.collected);
        self.owner = other.owner;
    }

    /// What comes from a builder that has spilled is spilled to the end, so that it need not be spilled once more.
    fn spill_if(&mut self, other: &mut Builder) {
        if other.collected.spilled > 0 {
            self.spill();
            other.spill();
        }
    }

    /// Takes what another builder holds of its first zone as more of the zone begun last, the rest as `append` does.
    pub fn continue_with(&mut self, mut other: Builder) {
        // As long as the other one knows whose its records are.
        self.spill_if(&mut other);
        if let Some(zone) = self.zones.last_mut()
            && !other.zones.is_empty()
        {
            let more = other.zones.remove(0);
            zone.complaint = zone.complaint.take().or(more.complaint);
        }
        self.append(other);
    }

    /// Lays the image out.
    pub fn finish(self) -> (Vec<u8>, Summary, Vec<Complaint>) {
        self.finish_with(&InTurn)
    }

    /// Lays the image out; two things at a time may go on side by side.
    pub fn finish_with(self, hands: &dyn Hands) -> (Vec<u8>, Summary, Vec<Complaint>) {
        self.finish_judged(hands, &mut |_| None)
    }

    /// Lays out an image of the zones that `judge` lets pass.
    pub fn finish_judged(self, hands: &dyn Hands, judge: Judge<'_>) -> (Vec<u8>, Summary, Vec<Complaint>) {
        let (seed, end_max, mut laid) = (self.seed, self.end_max, None);
        let (mut drafts, is_refused) = self.judged(hands, judge, &mut |drafts| {
            drafts.place();
            laid = Layout::new(drafts, end_max).write(hands);
        });
        if is_refused {
            drop(laid);
            // Once more without it. The others have been judged.
            let (zones, collected) = (drafts.zones, Arc::into_inner(drafts.collected).unwrap_or_default());
            return Builder { collected, zones, end_max, ..Builder::new(seed) }.finish_with(hands);
        }
        let Some((image, summary)) = laid else {
            let what = format!("all zones together make an image of more than {end_max} octets");
            for zone in &mut drafts.zones {
                zone.complaint.get_or_insert_with(|| what.clone());
            }
            let (image, summary, _) = Builder::new(seed).finish();
            return (image, summary, complaints(&drafts));
        };
        (image, summary, complaints(&drafts))
    }

    /// Shows each zone's records in canonical order, and makes nothing of them. Err: why one of them was taken back; then none is shown.
    pub fn show(mut self, see: &mut dyn FnMut(&Sorted<'_>)) -> Result<(), String> {
        if let Some(why) = self.zones.iter_mut().find_map(|zone| zone.complaint.take()) {
            return Err(why);
        }
        self.sort(&InTurn);
        for (zone, runs) in self.zones.iter().zip(self.runs()) {
            see(&Sorted { collected: &self.collected, apex: &zone.apex, runs });
        }
        Ok(())
    }

    /// What `finish_judged` would complain of, found without laying anything out.
    pub fn judge(self, hands: &dyn Hands, judge: Judge<'_>) -> Vec<Complaint> {
        complaints(&self.judged(hands, judge, &mut |_| {}).0)
    }

    /// Finds all names, and does what is wanted with them. Long zones are judged meanwhile, as if they passed: true if one
    /// does not.
    fn judged(
        mut self,
        hands: &dyn Hands,
        judge: Judge<'_>,
        work: &mut (dyn FnMut(&mut Drafts) + Send),
    ) -> (Drafts, bool) {
        self.sort(hands);
        let (places, collected, mut long) = (self.runs(), Arc::new(self.collected), Vec::new());
        for (number, (zone, runs)) in self.zones.iter_mut().zip(places).enumerate() {
            match zone.complaint {
                Some(_) => {}
                None if runs.len() >= LONG_FROM => long.push((number, zone.apex.clone(), runs)),
                None => zone.complaint = judge(&Sorted { collected: &collected, apex: &zone.apex, runs }),
            }
        }
        let (mut drafts, mut refused) = (Drafts::new(self.seed, Arc::clone(&collected), self.zones), Vec::new());
        let mut judge_long = || {
            for (number, apex, runs) in &long {
                let verdict = judge(&Sorted { collected: &collected, apex, runs: runs.clone() });
                refused.extend(verdict.map(|why| (*number, why)));
            }
        };
        let hands = if long.is_empty() { &InTurn } else { hands };
        hands.both(&mut judge_long, &mut || {
            drafts.find_names();
            work(&mut drafts);
        });
        let is_refused = !refused.is_empty();
        refused.into_iter().for_each(|(number, why)| drafts.zones[number].complaint = Some(why));
        (drafts, is_refused)
    }

    /// By zone: its runs.
    fn runs(&self) -> Vec<Range<usize>> {
        let ends = self.zones.iter().skip(1).map(|z| z.run as usize).chain([self.collected.runs.len()]);
        self.zones.iter().zip(ends).map(|(zone, end)| zone.run as usize..end).collect()
    }

    fn sort(&mut self, hands: &dyn Hands) {
        let places = self.runs();
        let Collected { runs, segments, .. } = &mut self.collected;
        for (zone, place) in self.zones.iter().zip(places).filter(|(zone, _)| zone.complaint.is_none()) {
            order::sort(&mut runs[place], segments, zone.apex.len(), hands);
        }
    }
}

fn complaints(drafts: &Drafts) -> Vec<Complaint> {
    let complaint = |z: &ZoneDraft| Some(Complaint { zone: Name::from_wire(&z.apex)?, what: z.complaint.clone()? });
    drafts.zones.iter().filter_map(complaint).collect()
}

pub(crate) fn text(name: &[u8]) -> String {
    let mut out = String::new();
    wire::name::push_text(name, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;

    #[test]
    fn zones_that_a_judge_refuses_are_left_out_however_long_they_are() {
        let built = |zones: &[(&[u8], usize)], judge: Judge<'_>| {
            let mut builder = Builder::new(1);
            for &(apex, names) in zones {
                builder.begin_zone(apex);
                builder.record(apex, rtype::SOA, 5, &[&b"\0\0"[..], &[0; 20]].concat()).unwrap();
                builder.record(apex, rtype::NS, 5, b"\0").unwrap();
                for i in 0..names {
                    let owner = [format!("\x05{i:05}").as_bytes(), apex].concat();
                    builder.record(&owner, rtype::A, 5, &[192, 0, 2, 1]).unwrap();
                }
            }
            builder.finish_judged(&InTurn, judge)
        };
        let zones: [(&[u8], usize); 3] = [(b"\x01a\0", LONG_FROM), (b"\x01b\0", 3), (b"\x01c\0", LONG_FROM)];
        for refused in 0..8 {
            let is_refused = |apex: &[u8]| refused >> (apex[1] - b'a') & 1 == 1;
            let mut judge = |zone: &Sorted<'_>| is_refused(zone.apex()).then(|| "no".to_string());
            let (image, summary, complaints) = built(&zones, &mut judge);
            let left: Vec<_> = zones.into_iter().filter(|(apex, _)| !is_refused(apex)).collect();
            let (expect, ..) = built(&left, &mut |_| None);
            assert!(image == expect, "{refused:b}");
            assert_eq!((summary.zones, complaints.len()), (left.len(), 3 - left.len()));
        }
    }

    /// A disk that is full.
    struct Full;

    impl Spill for Full {
        fn keep(&self, _: &mut dyn Iterator<Item = Vec<u8>>) -> Result<spill::Kept, String> {
            Err("full".to_string())
        }
    }

    #[test]
    fn a_zone_that_is_not_whole_is_not_shown() {
        for held_max in [1, 1 << 20] {
            let mut builder = Builder::spilling(1, held_max, Arc::new(Full));
            builder.begin_zone(b"\x01z\0");
            (0..9).for_each(|i| builder.record(b"\x01z\0", rtype::A, 5, &[192, 0, 2, i]).unwrap());
            let (mut times, is_whole) = (0, held_max > 1);
            let shown = builder.show(&mut |_| times += 1);
            assert_eq!((shown.is_ok(), times), (is_whole, usize::from(is_whole)), "{shown:?}");
        }
    }

    #[test]
    fn what_references_cannot_reach_is_complained_of_and_not_built() {
        for (end_max, fits) in [(1 << 20, true), (6000, false)] {
            let mut builder = Builder { end_max, ..Builder::new(1) };
            builder.begin_zone(b"\x01z\0");
            builder.record(b"\x01z\0", rtype::SOA, 5, &[&b"\0\0"[..], &[0; 20]].concat()).unwrap();
            for i in 0..100 {
                let owner = format!("\x03{i:03}\x01z\0");
                builder.record(owner.as_bytes(), rtype::A, 5, &[192, 0, 2, i]).unwrap();
                builder.record(b"\x01z\0", rtype::NS, 5, owner.as_bytes()).unwrap();
            }
            let (image, summary, complaints) = builder.finish();
            assert_eq!((complaints.is_empty(), summary.zones == 1), (fits, fits));
            assert_eq!(Image::open(image).unwrap().view().zones().count(), usize::from(fits));
        }
    }
}
