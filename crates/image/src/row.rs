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

impl Row {
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

    fn from(&self, (run, at): (usize, usize)) -> impl Iterator<Item = Named> + '_ {
        let (first, others) = (self.0.get(run), self.0.get(run + 1..).unwrap_or_default());
        let first = first.and_then(|run| run.get(at..)).unwrap_or_default();
        first.iter().chain(others.iter().flat_map(|run| run.iter())).copied()
    }

    /// The run and the place in it of the first name of which `is_before` is not true. Behind all: the end of the last run.
    fn seek(&self, is_before: impl Fn(&Named) -> Result<bool, Damaged>) -> Result<(usize, usize), Damaged> {
        let Some(last) = self.0.len().checked_sub(1) else { return Ok((0, 0)) };
        let end = |run: &Arc<Vec<Named>>| run.last().map_or(Ok(false), &is_before);
        // Names that are laid out as a whole zone come in their order.
        let run = if end(&self.0[last])? { last } else { halve(&self.0, end)? };
        Ok((run, halve(&self.0[run], &is_before)?))
    }

    /// Takes this node for its name from now on.
    pub(crate) fn put(&mut self, view: View<'_>, named: Named) -> Result<(), Damaged> {
        let node = view.node(named.reference)?;
        let order = |other: &Named| -> Result<Ordering, Damaged> { view.node(other.reference)?.order(&node) };
        let (run, at) = self.seek(|other| Ok(order(other)? == Ordering::Less))?;
        let known = self.0.get(run).and_then(|names| names.get(at));
        let is_known = known.map(order).transpose()? == Some(Ordering::Equal);
        let runs = Arc::make_mut(&mut self.0);
        if runs.is_empty() {
            runs.push(Arc::default());
        }
        let names = Arc::make_mut(&mut runs[run]);
        if is_known {
            names[at] = named;
            return Ok(());
        }
        names.insert(at, named);
        if names.len() > RUN {
            // What comes in order fills its runs.
            let rest = names.split_off(if at == RUN { RUN } else { RUN / 2 });
            runs.insert(run + 1, Arc::new(rest));
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, view: View<'_>, named: Named) -> Result<(), Damaged> {
        let node = view.node(named.reference)?;
        let is_before = |other: &Named| Ok(view.node(other.reference)?.order(&node)? == Ordering::Less);
        let (run, at) = self.seek(is_before)?;
        if self.0.get(run).and_then(|names| names.get(at)) != Some(&named) {
            return Ok(());
        }
        let runs = Arc::make_mut(&mut self.0);
        Arc::make_mut(&mut runs[run]).remove(at);
        runs.retain(|names| !names.is_empty());
        Ok(())
    }
}

/// The place of the first of which `is_before` is not true.
fn halve<T>(all: &[T], is_before: impl Fn(&T) -> Result<bool, Damaged>) -> Result<usize, Damaged> {
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
