//! The changed names of one zone in canonical order, in versions that share what is alike in them.
//!
//! They stand in runs of at most `RUN` names: a change copies one run and the list of the runs.

use crate::format::Damaged;
use crate::view::View;
use std::cmp::Ordering;
use std::sync::Arc;

/// Names of a run, most; one that grows beyond is halved.
const RUN: usize = 128;

/// A name: the hash of all of it, and its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    pub hash: u64,
    pub reference: u32,
}

/// No run is empty.
#[derive(Clone, Default)]
pub(crate) struct Row(Arc<Vec<Arc<Vec<Named>>>>);

/// Where the last name was put. Most come in canonical order, and often the next one belongs right behind: two looks
/// tell, where searching takes as many as the length of the row in bits.
#[derive(Default)]
pub(crate) struct Finger(Place);

/// A run, and a place in it.
type Place = (usize, usize);

impl Row {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Named> + '_ {
        self.from((0, 0))
    }

    /// The names behind this one.
    pub(crate) fn behind<'s>(
        &'s self,
        view: View<'_>,
        labels: &[u8],
    ) -> Result<impl Iterator<Item = Named> + use<'s>, Damaged> {
        let place = self.seek(|named| Ok(view.node(named.reference)?.order_of(labels)? != Ordering::Greater))?;
        Ok(self.from(place))
    }

    fn from(&self, (run, at): Place) -> impl Iterator<Item = Named> + '_ {
        let (first, others) = (self.0.get(run), self.0.get(run + 1..).unwrap_or_default());
        let first = first.and_then(|run| run.get(at..)).unwrap_or_default();
        first.iter().chain(others.iter().flat_map(|run| run.iter())).copied()
    }

    /// The run and the place in it of the first name of which `is_before` is not true. Behind all: the end of the last run.
    fn seek(&self, is_before: impl Fn(&Named) -> Result<bool, Damaged>) -> Result<Place, Damaged> {
        let Some(last) = self.0.len().checked_sub(1) else { return Ok((0, 0)) };
        let end = |run: &Arc<Vec<Named>>| run.last().map_or(Ok(false), &is_before);
        // Names that are laid out as a whole zone come in their order.
        if end(&self.0[last])? {
            return Ok((last, self.0[last].len()));
        }
        let run = halve(&self.0, end)?;
        Ok((run, halve(&self.0[run], &is_before)?))
    }

    /// Whether a name belongs right behind the finger: the place there, and how the name that has it stands to this one.
    fn behind_finger(
        &self,
        finger: &Finger,
        order: impl Fn(&Named) -> Result<Ordering, Damaged>,
    ) -> Result<Option<(Place, Option<Ordering>)>, Damaged> {
        let &Finger((run, at)) = finger;
        let Some(names) = self.0.get(run).filter(|names| at < names.len()) else { return Ok(None) };
        if order(&names[at])? != Ordering::Less {
            return Ok(None);
        }
        let is_end = at + 1 == names.len();
        let place = if is_end && run + 1 < self.0.len() { (run + 1, 0) } else { (run, at + 1) };
        let there = self.0[place.0].get(place.1).map(order).transpose()?;
        Ok(there.is_none_or(|there| there != Ordering::Less).then_some((place, there)))
    }

    /// Takes this node for its name from now on.
    pub(crate) fn put(&mut self, view: View<'_>, named: Named, finger: &mut Finger) -> Result<(), Damaged> {
        let node = view.node(named.reference)?;
        let order = |other: &Named| -> Result<Ordering, Damaged> { view.node(other.reference)?.order(&node) };
        let (place, there) = match self.behind_finger(finger, order)? {
            Some(found) => found,
            None => {
                let place = self.seek(|other| Ok(order(other)? == Ordering::Less))?;
                let there = self.0.get(place.0).and_then(|names| names.get(place.1));
                (place, there.map(order).transpose()?)
            }
        };
        let (run, at) = place;
        *finger = Finger(place);
        let runs = Arc::make_mut(&mut self.0);
        if runs.is_empty() {
            runs.push(Arc::default());
        }
        let names = Arc::make_mut(&mut runs[run]);
        if there == Some(Ordering::Equal) {
            names[at] = named;
            return Ok(());
        }
        names.insert(at, named);
        if names.len() > RUN {
            // What comes in order fills its runs.
            let half = if at == RUN { RUN } else { RUN / 2 };
            let rest = names.split_off(half);
            runs.insert(run + 1, Arc::new(rest));
            if at >= half {
                *finger = Finger((run + 1, at - half));
            }
        }
        Ok(())
    }

    /// `finger`: where the last one was removed, so that the next one is there, perhaps.
    pub(crate) fn remove(&mut self, view: View<'_>, named: Named, finger: &mut Finger) -> Result<(), Damaged> {
        let is_at = |row: &Row, (run, at): Place| row.0.get(run).and_then(|names| names.get(at)) == Some(&named);
        if !is_at(self, finger.0) {
            let node = view.node(named.reference)?;
            let is_before = |other: &Named| Ok(view.node(other.reference)?.order(&node)? == Ordering::Less);
            *finger = Finger(self.seek(is_before)?);
        }
        if !is_at(self, finger.0) {
            return Ok(());
        }
        let Finger((run, at)) = finger;
        let runs = Arc::make_mut(&mut self.0);
        let names = Arc::make_mut(&mut runs[*run]);
        names.remove(*at);
        if names.is_empty() {
            runs.remove(*run);
        } else if *at == names.len() {
            (*run, *at) = (*run + 1, 0);
        }
        Ok(())
    }
}

/// The place of the first of which `is_before` is not true.
pub(crate) fn halve<T>(all: &[T], is_before: impl Fn(&T) -> Result<bool, Damaged>) -> Result<usize, Damaged> {
    let (mut low, mut high) = (0, all.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match is_before(&all[middle])? {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use crate::view::Image;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use wire::hash::name_hash;
    use wire::name::canonical_cmp;

    /// Names of a zone, and of another one with the same names: another node for each.
    const NAMES: usize = 5 * RUN;
    const APEXES: [&[u8]; 2] = [b"\x01y\0", b"\x01z\0"];

    /// The labels of a name: of one, two or three, so that names stand below one another.
    fn labels(i: usize) -> Vec<u8> {
        let number = |i: usize| i.to_string().into_bytes();
        let label = |text: Vec<u8>| [&[text.len() as u8][..], &text].concat();
        match i % 3 {
            0 => label(number(i)),
            1 => [label(number(i * 7 % NAMES)), label(number(i - 1))].concat(),
            _ => [b"\x01a".to_vec(), label(number(i)), label(number(i - 2))].concat(),
        }
    }

    struct Stage {
        image: Image<Vec<u8>>,
        /// By place in canonical order: the labels, and the nodes of both zones.
        names: Vec<(Vec<u8>, [Named; 2])>,
    }

    impl Stage {
        fn new() -> Stage {
            let mut builder = Builder::new(7);
            for apex in APEXES {
                builder.begin_zone(apex);
                let soa = [&b"\0\0"[..], &[0; 20]].concat();
                builder.record(apex, 6, 60, &soa).unwrap();
                builder.record(apex, 2, 60, &[&labels(0), apex].concat()).unwrap();
                (0..NAMES).for_each(|i| builder.record(&[&labels(i), apex].concat(), 1, 60, &[192, 0, 2, 1]).unwrap());
            }
            let (octets, _, complaints) = builder.finish();
            assert_eq!(complaints.len(), 0, "{}", complaints[0].what);
            let image = Image::open(octets).unwrap();
            let view = image.view();
            let mut named = BTreeMap::new();
            for (i, apex) in APEXES.iter().enumerate() {
                let zone = view.find_whole(apex).unwrap().unwrap().zone().unwrap();
                for node in zone.nodes().map(Result::unwrap).filter(|node| node.rrset(1).unwrap().is_some()) {
                    let labels = node.labels_below().unwrap();
                    let hash = name_hash(view.seed(), &[labels, apex].concat());
                    let nodes = named.entry(labels.to_vec()).or_insert([None; 2]);
                    nodes[i] = Some(Named { hash, reference: node.reference() });
                }
            }
            let mut names: Vec<_> =
                named.into_iter().map(|(labels, nodes)| (labels, nodes.map(Option::unwrap))).collect();
            assert_eq!(names.len(), NAMES);
            let rooted = |labels: &[u8]| [labels, &[0]].concat();
            names.sort_by(|(a, _), (b, _)| canonical_cmp(&rooted(a), &rooted(b)));
            Stage { image, names }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Names that follow one another, from this one on.
        Put(usize, usize),
        Remove(usize, usize),
        /// Of a node that the row may have in another zone.
        RemoveOther(usize),
        /// The row as it is now stays as it is.
        Keep,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..NAMES, 1..2 * RUN).prop_map(|(at, many)| Step::Put(at, many)),
            8 => (0..NAMES).prop_map(|at| Step::Put(at, 1)),
            2 => (0..NAMES, 1..2 * RUN).prop_map(|(at, many)| Step::Remove(at, many)),
            4 => (0..NAMES).prop_map(|at| Step::Remove(at, 1)),
            1 => (0..NAMES).prop_map(Step::RemoveOther),
            1 => Just(Step::Keep),
        ]
    }

    type Twin = BTreeMap<usize, Named>;

    fn check(stage: &Stage, row: &Row, twin: &Twin) {
        assert!(row.iter().eq(twin.values().copied()));
        assert!(row.0.iter().all(|run| (1..=RUN).contains(&run.len())));
        for at in [0, 1, NAMES / 2, NAMES - 1] {
            let behind = row.behind(stage.image.view(), &stage.names[at].0).unwrap();
            assert!(behind.eq(twin.range(at + 1..).map(|(_, named)| *named)), "behind {at}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_a_sorted_map_whose_old_versions_stay(steps in proptest::collection::vec((step(), 0..2usize), 1..60)) {
            let stage = Stage::new();
            let view = stage.image.view();
            let (mut row, mut twin, mut kept) = (Row::default(), Twin::new(), Vec::new());
            // It may stay where it is whatever else is done.
            let [mut finger, mut removing] = [Finger::default(), Finger::default()];
            for (step, zone) in steps {
                let places = |at: usize, many: usize| at..(at + many).min(NAMES);
                match step {
                    Step::Put(at, many) => for at in places(at, many) {
                        row.put(view, stage.names[at].1[zone], &mut finger).unwrap();
                        twin.insert(at, stage.names[at].1[zone]);
                    },
                    Step::Remove(at, many) => for at in places(at, many) {
                        if let Some(named) = twin.remove(&at) {
                            row.remove(view, named, &mut removing).unwrap();
                        }
                    },
                    Step::RemoveOther(at) => {
                        let named = stage.names[at].1[zone];
                        row.remove(view, named, &mut removing).unwrap();
                        twin.retain(|_, known| *known != named);
                    }
                    Step::Keep => kept.push((row.clone(), twin.clone())),
                }
                check(&stage, &row, &twin);
            }
            kept.iter().for_each(|(row, twin)| check(&stage, row, twin));
        }
    }
}
