//! Records of a text, as it is parsed, beside the nodes of the image that is served.
//!
//! ```text
//! records of one owner that stand together are
//!   what its node holds      the node is ticked, and they are forgotten
//!   something else           kept: in the end all that a name was given makes it what it is from now on
//! ```
//!
//! Bound: `UNLIKE_MAX` octets of records that differ, and a bit for each place of the image.

use image::edit::{Hidden, Record};
use image::format::{ALIGN, Damaged};
use image::node::{ABOVE, APEX};
use image::{Candidate, Image, Node, Scope, View, Zone as ImageZone};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use store::Stretch;
use wire::hash::name_hash;
use wire::name::fold;

/// Octets of records that are not as in the image, beyond which a new image is not much dearer.
const UNLIKE_MAX: usize = 4 << 20;
/// What a kept name or record takes beside its octets.
pub const KEPT: usize = 64;
/// Names that are looked up together, so that the memory that one waits for is fetched for all of them.
const BATCH: usize = 64;
/// Records of one name that are compared with each other one by one.
const FEW: usize = 64;

/// What all threads look at.
pub struct Ground<'a> {
    pub view: View<'a>,
    pub zone: ImageZone<'a>,
    scope: Scope,
    apex: u32,
    /// A bit for each place in the image where a node may stand.
    ticks: Vec<AtomicU64>,
    /// Octets that are kept.
    unlike: AtomicUsize,
}

impl<'a> Ground<'a> {
    pub fn new(now: &'a Image<Stretch>, zone: ImageZone<'a>) -> Result<Ground<'a>, Damaged> {
        let places = now.bytes().end() / ALIGN;
        let ticks = std::iter::repeat_with(AtomicU64::default).take(places / 64 + 1).collect();
        let apex = zone.apex()?;
        let scope = apex.scope_of(&apex.apex()?)?;
        Ok(Ground { view: now.view(), zone, scope, apex: apex.reference(), ticks, unlike: AtomicUsize::new(0) })
    }

    /// What was found so far counts for nothing.
    pub fn forget(&self) {
        self.ticks.iter().for_each(|word| word.store(0, Relaxed));
        self.unlike.store(0, Relaxed);
    }

    /// These octets of records are not as in the image. False: they are too many.
    pub fn count(&self, octets: usize) -> bool {
        self.unlike.fetch_add(octets, Relaxed) <= UNLIKE_MAX
    }

    pub fn is_much(&self) -> bool {
        self.unlike.load(Relaxed) > UNLIKE_MAX
    }

    /// The bit of a node, and the word that it is in.
    fn place(&self, node: &Node<'_>) -> Option<(&AtomicU64, u64)> {
        let at = node.reference();
        self.ticks.get(at as usize / 64).map(|word| (word, 1 << (at % 64)))
    }

    pub fn is_ticked(&self, node: &Node<'_>) -> bool {
        self.place(node).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// True if this is the first time.
    pub fn tick(&self, node: &Node<'_>) -> bool {
        self.place(node).is_some_and(|(word, bit)| word.fetch_or(bit, Relaxed) & bit == 0)
    }
}

/// Records of one owner that stood together.
struct Run<'g> {
    hash: u64,
    candidate: Candidate,
    node: Option<Node<'g>>,
    /// The node was ticked before.
    is_ticked: bool,
    name: Range<usize>,
    lines: Range<usize>,
}

struct Line {
    rtype: u16,
    ttl: u32,
    rdata: Range<usize>,
}

/// A part of the text on its way.
pub struct Collation<'g> {
    ground: &'g Ground<'g>,
    hidden: Hidden,
    /// The owner of the last run, as it was written.
    owner: Vec<u8>,
    runs: Vec<Run<'g>>,
    lines: Vec<Line>,
    octets: Vec<u8>,
    pub unlike: Vec<(Box<[u8]>, Vec<Record>)>,
    /// Records of the nodes that were ticked here.
    pub ticked: u64,
    pub is_damaged: bool,
}

impl<'g> Collation<'g> {
    pub fn new(ground: &'g Ground<'g>) -> Collation<'g> {
        Collation {
            ground,
            hidden: Hidden::default(),
            owner: vec![],
            runs: Vec::with_capacity(BATCH),
            lines: vec![],
            octets: vec![],
            unlike: vec![],
            ticked: 0,
            is_damaged: false,
        }
    }

    pub fn record(&mut self, r: &zonefile::Record<'_>) {
        if r.owner != self.owner || self.runs.is_empty() {
            self.begin(r.owner);
        }
        let rdata = push(&mut self.octets, r.rdata);
        self.lines.push(Line { rtype: r.rtype, ttl: r.ttl, rdata });
        if let Some(run) = self.runs.last_mut() {
            run.lines.end = self.lines.len();
        }
    }

    fn begin(&mut self, owner: &[u8]) {
        if self.runs.len() == BATCH {
            self.end();
        }
        self.owner.clear();
        self.owner.extend_from_slice(owner);
        let name = push(&mut self.octets, owner);
        let folded = &mut self.octets[name.clone()];
        fold(folded);
        let hash = name_hash(self.ground.view.seed(), folded);
        self.ground.view.prefetch_line(hash);
        let lines = self.lines.len()..self.lines.len();
        let (candidate, node, is_ticked) = (Candidate::NONE, None, false);
        self.runs.push(Run { hash, candidate, node, is_ticked, name, lines });
    }

    /// Looks at what has come so far, step by step: the memory that one step reads was asked for by the one before it.
    pub fn end(&mut self) {
        let mut runs = std::mem::take(&mut self.runs);
        for run in &mut runs {
            match self.ground.view.candidate(run.hash) {
                Ok(candidate) => run.candidate = candidate,
                Err(Damaged) => self.is_damaged = true,
            }
        }
        for run in &mut runs {
            self.is_damaged |= self.find(run).is_err();
        }
        for run in &runs {
            self.is_damaged |= self.look(run).is_err();
        }
        runs.clear();
        self.runs = runs;
        self.lines.clear();
        self.octets.clear();
    }

    fn find(&self, run: &mut Run<'g>) -> Result<(), Damaged> {
        let ground = self.ground;
        let name = &self.octets[run.name.clone()];
        run.node = match ground.view.resolve(run.candidate, run.hash, name, ground.scope)? {
            Some(node) if !node.is(APEX | ABOVE) || node.reference() == ground.apex => Some(node),
            // It may be hidden, by another zone of ours too.
            _ => ground.zone.node_by(name, &self.hidden)?,
        };
        if let Some(node) = &run.node {
            ground.view.prefetch(node.head());
            run.is_ticked = ground.is_ticked(node);
        }
        Ok(())
    }

    fn look(&mut self, run: &Run<'g>) -> Result<(), Damaged> {
        let ground = self.ground;
        let name = &self.octets[run.name.clone()];
        let lines = &self.lines[run.lines.clone()];
        if let Some(node) = &run.node
            && is_like(node, name, lines, &self.octets)?
        {
            let is_new = !run.is_ticked && ground.tick(node);
            self.ticked += if is_new { lines.len() as u64 } else { 0 };
            return Ok(());
        }
        let records =
            lines.iter().map(|l| Record { rtype: l.rtype, ttl: l.ttl, rdata: self.octets[l.rdata.clone()].into() });
        let octets: usize = KEPT + name.len() + lines.iter().map(|l| KEPT + l.rdata.len()).sum::<usize>();
        if ground.count(octets) {
            self.unlike.push((name.into(), records.collect()));
        }
        Ok(())
    }
}

fn push(octets: &mut Vec<u8>, more: &[u8]) -> Range<usize> {
    let at = octets.len();
    octets.extend_from_slice(more);
    at..octets.len()
}

/// True if the node holds these records and no others, octet for octet and each once. False may mean that they come in
/// another spelling.
fn is_like(node: &Node<'_>, name: &[u8], lines: &[Line], octets: &[u8]) -> Result<bool, Damaged> {
    if lines.len() > FEW {
        return Ok(false);
    }
    let all = u64::MAX.checked_shr((FEW - lines.len()) as u32).unwrap_or(0);
    // A bit for each line that was found in the node.
    let (mut found, mut is_like) = (0u64, true);
    let mut look = |fixed: &[u8], rdata: &[u8]| {
        let is_it = |l: &Line| is_of(fixed, l.rtype, l.ttl) && *rdata == octets[l.rdata.clone()];
        let at = (0..lines.len()).find(|&i| found & (1 << i) == 0 && is_it(&lines[i]));
        is_like &= at.is_some();
        found |= at.map_or(0, |i| 1 << i);
    };
    for rrset in node.rrsets() {
        let (_, unit) = rrset?;
        unit.for_each(name, &mut look)?;
        unit.for_each_signature(&mut look)?;
    }
    Ok(is_like && found == all)
}

/// True if what stands between a record's owner and its rdata says this.
fn is_of(fixed: &[u8], rtype: u16, ttl: u32) -> bool {
    fixed.starts_with(&rtype.to_be_bytes()) && fixed.get(4..8) == Some(&ttl.to_be_bytes()[..])
}
