//! What a name is: the walk from the root down (RFC 1034 section 4.3.2 step 3), staged.
//!
//! The walk ends at the first name that does not exist (RFC 8020) or at a cut. So a name of any length costs at most as
//! many probes as the deepest name of the image has labels. For a batch: `probe` all, then `walk` all, then `choose` all;
//! each stage prefetches what the next one reads.

use image::node::{ABOVE, APEX, CUT, DEEPER, DNAME, Node};
use image::{Apex, Candidate, Damaged, Scope, View};
use wire::query::DEPTH_AHEAD;
use wire::{Query, hash, rtype};

/// What the walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No zone of ours.
    NotOurs,
    /// The name itself. It may own nothing: an empty non-terminal.
    Exact,
    /// The wildcard that stands for the name; the name's closest encloser is `encloser`.
    Wildcard,
    /// A delegation at or above the name.
    Cut,
    /// A DNAME above the name.
    Alias,
    /// The name does not exist.
    Missing,
    Damaged,
}

/// Scratch for one query. References are those of `image`; a field holds what `found` says it does.
#[derive(Clone, Copy)]
pub struct Lookup {
    /// What the index says of the name's suffix of one label, of two, and so on.
    candidates: [Candidate; DEPTH_AHEAD],
    pub found: Found,
    /// The node of the name, wildcard, cut or DNAME.
    pub node: u32,
    /// The deepest existing ancestor: the closest encloser.
    pub encloser: u32,
    /// Labels of the encloser.
    pub encloser_labels: u8,
    /// The wildcard right below the encloser, or 0.
    wildcard: u32,
    pub apex: Apex,
    /// The unit that will be written first: a guess of `choose` for prefetching, 0 if there is none.
    pub unit: u32,
    /// The type of that unit.
    pub unit_type: u16,
}

impl Default for Lookup {
    fn default() -> Lookup {
        Lookup {
            candidates: [Candidate::NONE; DEPTH_AHEAD],
            found: Found::NotOurs,
            node: 0,
            encloser: 0,
            encloser_labels: 0,
            wildcard: 0,
            apex: Apex::default(),
            unit: 0,
            unit_type: 0,
        }
    }
}

impl Lookup {
    /// Stage 1, after the parser's hashes: asks for the index lines.
    #[inline(always)]
    pub fn begin(query: &Query, view: View<'_>) {
        query.hashes().iter().for_each(|&hash| view.prefetch_line(hash));
    }

    /// Stage 2: reads the index lines, asks for the nodes.
    #[inline(always)]
    pub fn probe(&mut self, query: &Query, view: View<'_>) {
        self.found = Found::NotOurs;
        for (&hash, candidate) in query.hashes().iter().zip(&mut self.candidates) {
            match view.candidate(hash) {
                Ok(found) => *candidate = found,
                Err(Damaged) => self.found = Found::Damaged,
            }
        }
    }

    /// Stage 3: walks, asks for the RRset or the denial.
    #[inline(always)]
    pub fn walk(&mut self, query: &Query, view: View<'_>) {
        if self.found == Found::Damaged {
            return;
        }
        self.unit = 0;
        self.found = match self.find(query, view) {
            Ok(found) => found,
            Err(Damaged) => Found::Damaged,
        };
    }

    /// All stages at once, for one name.
    pub fn at_once(&mut self, query: &Query, view: View<'_>) {
        self.probe(query, view);
        self.walk(query, view);
        self.choose(query, view);
    }

    #[inline(always)]
    fn find(&mut self, query: &Query, view: View<'_>) -> Result<Found, Damaged> {
        let mut steps = Walk { query, hash: view.seed(), depth: 0, scope: Scope::NONE };
        (self.apex.reference, self.encloser, self.encloser_labels) = (0, 0, 0);
        // A cut or DNAME of ours that a deeper zone of ours may yet overrule.
        let mut passed = None;
        if let Some(root) = view.root()?
            && let Some(found) = self.visit(query, root, &mut steps, &mut passed)?
        {
            return Ok(found);
        }
        while let Some(node) = steps.next(&self.candidates, view)? {
            if let Some(found) = self.visit(query, node, &mut steps, &mut passed)? {
                return Ok(found);
            }
        }
        if let Some((found, node)) = passed {
            return Ok(self.end_at(found, node, view));
        }
        if self.apex.reference == 0 {
            return Ok(Found::NotOurs);
        }
        if self.encloser_labels == query.labels {
            self.node = self.encloser;
            return Ok(Found::Exact);
        }
        if self.wildcard != 0 {
            return Ok(self.end_at(Found::Wildcard, self.wildcard, view));
        }
        view.prefetch(self.apex.soa);
        Ok(Found::Missing)
    }

    #[inline(always)]
    fn end_at(&mut self, found: Found, node: u32, view: View<'_>) -> Found {
        self.node = node;
        view.prefetch(node);
        found
    }

    /// Takes note of a name on the way down. Some: the walk ends here.
    #[inline(always)]
    fn visit(
        &mut self,
        query: &Query,
        node: Node<'_>,
        walk: &mut Walk<'_>,
        passed: &mut Option<(Found, u32)>,
    ) -> Result<Option<Found>, Damaged> {
        let depth = walk.depth;
        let flags = node.flags();
        if flags & (ABOVE | APEX | CUT | DNAME | DEEPER) == 0 && passed.is_none() {
            // The plain case: one more existing name.
            self.enclosed_by(node, depth, node.wildcard());
            return Ok(None);
        }
        if flags & ABOVE != 0 {
            return Ok(None);
        }
        let is_last = depth == query.labels as usize;
        if flags & APEX != 0 {
            if is_last && query.qtype == rtype::DS {
                let is_led_on = passed.is_some_and(|(found, _)| found == Found::Alias);
                if !is_led_on && self.parent_answers(query, node)? {
                    return Ok(Some(Found::Exact));
                }
                // A zone above that delegates neither here nor above has the say all the same: to it there is no such name, or its DNAME leads on.
                if self.apex.reference != 0 && (is_led_on || passed.is_none()) {
                    return Ok(None);
                }
            }
            *passed = None;
            self.apex = node.apex()?;
            walk.scope = node.scope_of(&self.apex)?;
            self.enclosed_by(node, depth, self.apex.wildcard);
        } else if passed.is_none() {
            self.enclosed_by(node, depth, node.wildcard());
        } else {
            return Ok(None);
        }
        let ends = match flags & (CUT | DNAME) {
            // The parent side of a cut has the DS (RFC 4035 section 3.1.4.1); the name of a cut has nothing else of ours.
            f if f & CUT != 0 => {
                !(is_last && query.qtype == rtype::DS) && {
                    self.unit = node.head();
                    true
                }
            }
            0 => false,
            // A DNAME redirects what is below it, not itself (RFC 6672 section 2.3).
            _ => !is_last,
        };
        if !ends {
            return Ok(None);
        }
        let found = if flags & CUT != 0 { Found::Cut } else { Found::Alias };
        if flags & DEEPER != 0 {
            *passed = Some((found, node.reference()));
            return Ok(None);
        }
        self.node = node.reference();
        Ok(Some(found))
    }

    #[inline(always)]
    fn enclosed_by(&mut self, node: Node<'_>, labels: usize, wildcard: u32) {
        (self.encloser, self.encloser_labels, self.wildcard) = (node.reference(), labels as u8, wildcard);
    }

    /// For DS at an apex of ours: true if the zone above is ours too and answers instead.
    #[cold]
    fn parent_answers(&mut self, query: &Query, apex: Node<'_>) -> Result<bool, Damaged> {
        let Some((node, zone)) = apex.zone()?.parent()? else { return Ok(false) };
        self.apex = zone.apex()?.apex()?;
        self.node = node.reference();
        (self.encloser, self.encloser_labels) = (self.node, query.labels);
        Ok(true)
    }

    /// Stage 4: finds the unit that the answer begins with, and asks for it.
    #[inline(always)]
    pub fn choose(&mut self, query: &Query, view: View<'_>) {
        match self.found {
            Found::Exact | Found::Wildcard => {}
            Found::Cut => return view.prefetch(self.unit),
            _ => return,
        }
        (self.unit, self.unit_type) = match view.node(self.node).and_then(|n| n.rrset_or_alias(query.qtype)) {
            Ok((0, _)) => (self.apex.soa, 0),
            Ok(unit) => unit,
            Err(Damaged) => {
                self.found = Found::Damaged;
                return;
            }
        };
        view.prefetch(self.unit);
    }
}

/// The names of the walk, from one label down: those hashed ahead, then label by label.
struct Walk<'a> {
    query: &'a Query,
    hash: u64,
    depth: usize,
    /// That of the last apex on the way.
    scope: Scope,
}

impl Walk<'_> {
    #[inline(always)]
    fn next<'v>(&mut self, candidates: &[Candidate; DEPTH_AHEAD], view: View<'v>) -> Result<Option<Node<'v>>, Damaged> {
        let q = self.query;
        let d = self.depth + 1;
        if d > q.labels as usize || d > view.deepest() {
            return Ok(None);
        }
        let at = q.suffix_at(d);
        let suffix = &q.folded[at..q.name_len as usize];
        let node = if let Some((&hash, &candidate)) = q.hashes().get(d - 1).zip(candidates.get(d - 1)) {
            self.hash = hash;
            view.resolve(candidate, hash, suffix, self.scope)?
        } else {
            self.hash = hash::name_step(self.hash, &q.folded, at);
            view.find(self.hash, suffix, self.scope)?
        };
        self.depth = d;
        Ok(node)
    }
}
